/* Rows of floats below the floor of tensors: storages, and the work that fills and adds them.
   SPDX-License-Identifier: MIT */
#ifndef SITU_TESTS_SUPPORT_ROWS_H
#define SITU_TESTS_SUPPORT_ROWS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "device/launch/launch.h"

enum { ROW = 8 };

/* A new storage of ROW floats, and all of it as an operand. */
static inline situ_view_desc row_new(situ_device device) {
  situ_storage *s = situ__storage_new("test", device, ROW * sizeof(float));
  assert_non_null(s);
  return (situ_view_desc){
    .storage = s, .dtype = SITU_F32, .ndim = 1, .contiguous = true, .numel = ROW, .size = { ROW }, .stride = { 1 }
  };
}

static inline situ_work row_filling(const situ_view_desc *y, double value) {
  return (situ_work){ .verb = SITU_VERB_FILL, .compute = SITU_F32, .outs = 1, .out = { y }, .scalar = { value } };
}

static inline situ_status row_fill(const situ_view_desc *y, double value) {
  situ_work work = row_filling(y, value);
  return situ__run("fill", y->storage->device, &work);
}

/* y = a + b */
static inline situ_status row_add(const situ_view_desc *a, const situ_view_desc *b, const situ_view_desc *y) {
  situ_work work = { .verb = SITU_VERB_BINARY,
                     .op = SITU_BINARY_add,
                     .compute = SITU_F32,
                     .ins = 2,
                     .in = { a, b },
                     .outs = 1,
                     .out = { y } };
  return situ__run("add", y->storage->device, &work);
}

/* The value that all elements have; fails if there is more than one. */
static inline float row_value(const situ_view_desc *v) {
  float out[ROW];
  situ_status status = situ__copy_to_host("read", v->storage, 0, out, sizeof out, SITU__COPY_READ);
  assert_int_equal(status, SITU_OK);
  for (int i = 1; i < ROW; i++) assert_true(out[i] == out[0]);
  return out[0];
}

#endif
