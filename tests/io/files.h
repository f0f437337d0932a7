/* What the tests of files share: tensors to save, files to damage, and that nothing leaks.
   SPDX-License-Identifier: MIT */
#ifndef SITU_TESTS_IO_FILES_H
#define SITU_TESTS_IO_FILES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "situ/io.h"
#include "situ/ops.h"

static situ_scope scope;
static int64_t live_before;

static inline int open_scope(void **state) {
  (void)state;
  situ_error_mode(SITU_ERROR_QUIET);
  situ_error_clear();
  live_before = situ_live_tensors();
  situ_scope_begin(&scope);
  return 0;
}

static inline int close_scope(void **state) {
  (void)state;
  SITU_IGNORE(situ_scope_end(&scope));
  situ_error_clear();
  return situ_live_tensors() == live_before ? 0 : 1;
}

static const char path[] = "t.safetensors"; /* the file of most tests */

static inline situ_options on_cpu(situ_dtype dtype) {
  return (situ_options){ .dtype = dtype, .device = { .kind = SITU_CPU } };
}

static inline situ_tensor *counting(situ_dtype dtype, situ_shape shape) {
  situ_options options = on_cpu(dtype);
  int64_t count = 1;
  for (int i = 0; i < shape.ndim; i++) count *= shape.dim[i];
  unsigned char *bytes = malloc((size_t)count * 8 + 1);
  for (int64_t i = 0; i < count * 8; i++) bytes[i] = (unsigned char)(dtype == SITU_BOOL ? i % 2 : i * 37 + 11);
  situ_tensor *t = situ_from_host(bytes, (size_t)count * situ_dtype_size(dtype), shape, &options);
  free(bytes);
  assert_non_null(t);
  return t;
}

static inline void assert_same(situ_tensor *a, situ_tensor *b) {
  situ_shape x = situ_shape_of(a), y = situ_shape_of(b);
  assert_int_equal(situ_dtype_of(a), situ_dtype_of(b));
  assert_int_equal(x.ndim, y.ndim);
  for (int i = 0; i < x.ndim; i++) assert_int_equal(x.dim[i], y.dim[i]);
  size_t bytes = (size_t)situ_numel(a) * situ_dtype_size(situ_dtype_of(a));
  void *u = malloc(bytes + 1), *v = malloc(bytes + 1);
  assert_int_equal(situ_copy_to_host(a, u, bytes), SITU_OK);
  assert_int_equal(situ_copy_to_host(b, v, bytes), SITU_OK);
  assert_memory_equal(u, v, bytes);
  free(u);
  free(v);
}

static inline void refused(situ_status status) {
  if (situ_error() != status) fail_msg("%s: %s", situ_status_name(situ_error()), situ_error_message());
  situ_error_clear();
}

static inline void write_bytes(const char *name, const void *data, size_t bytes) {
  FILE *f = fopen(name, "wb");
  assert_non_null(f);
  assert_int_equal(fwrite(data, 1, bytes, f), bytes);
  fclose(f);
}

static inline char *read_bytes(const char *name, size_t *bytes) {
  FILE *f = fopen(name, "rb");
  assert_non_null(f);
  fseek(f, 0, SEEK_END);
  *bytes = (size_t)ftell(f);
  rewind(f);
  char *data = malloc(*bytes + 1);
  assert_int_equal(fread(data, 1, *bytes, f), *bytes);
  fclose(f);
  return data;
}

/* All dtypes, a 0-dim, an empty and a transposed tensor, nested names. */
static inline situ_tree *sample(void) {
  situ_tree *tree = situ_tree_dict();
  for (int d = SITU_BOOL; d < SITU_DTYPES; d++)
    tree = situ_tree_put(tree, situ_dtype_name((situ_dtype)d),
                         situ_tree_tensor(counting((situ_dtype)d, SITU_SHAPE(3, 5))));
  situ_tree *inner = situ_tree_dict();
  inner = situ_tree_put(inner, "scalar", situ_tree_tensor(counting(SITU_F32, SITU_SCALAR)));
  inner = situ_tree_put(inner, "empty", situ_tree_tensor(counting(SITU_F64, SITU_SHAPE(4, 0))));
  inner = situ_tree_put(inner, "turned", situ_tree_tensor(situ_transpose(counting(SITU_I32, SITU_SHAPE(4, 6)), 0, 1)));
  tree = situ_tree_put(tree, "inner", inner);
  assert_non_null(tree);
  return tree;
}

#endif
