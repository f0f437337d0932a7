/* The drawn programs (drawn.c), traced again with all their free sizes: the program gives the file's bits at sizes that no
   run had, or the refusal says which call, in which place or at which sizes.
   SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "situ/situ.h"

enum { DIMS = 64, CALLS = 3 };

/* Inputs of a program whose free sizes are `size` and what follows, within their ranges. */
static situ_tree *draw_inputs(const situ_nn_module *program, int64_t size) {
  situ_tree *inputs = situ_tree_dict();
  situ_export_input in;
  for (int64_t i = 0; situ_export_input_at(program, i, &in); i++) {
    situ_shape shape = { .ndim = in.ndim };
    for (int d = 0; d < in.ndim; d++) {
      const situ_export_size *s = &in.size[d];
      const int64_t name = *s->symbol ? s->symbol[strlen(s->symbol) - 1] % 8 : 0, free = size + 2 * name;
      shape.dim[d] = s->size >= 0 ? s->size : free > s->most ? s->most : free < s->least ? s->least : free;
    }
    situ_tensor *x = situ_dtype_is_floating(in.dtype) ? situ_randn(shape, NULL)
                                                      : situ_randint(0, 2, shape, &(situ_options){ .dtype = SITU_I64 });
    inputs = situ_tree_put(inputs, in.name, situ_tree_tensor(situ_to_dtype(x, in.dtype)));
  }
  return inputs;
}

static int64_t list_dims(const situ_nn_module *program, situ_export_dim dims[DIMS]) {
  situ_export_input in;
  int64_t count = 0;
  for (int64_t i = 0; situ_export_input_at(program, i, &in); i++)
    for (int d = 0; d < in.ndim && count < DIMS; d++) {
      const situ_export_size *s = &in.size[d];
      if (s->size < 0)
        dims[count++] = (situ_export_dim){
          .input = in.name, .dim = d, .name = s->symbol, .least = s->least, .most = s->most < INT64_MAX ? s->most : 0
        };
    }
  return count;
}

static bool is_same(const situ_tree *a, const situ_tree *b) {
  if (!a || !b || situ_tree_kind_of(a) != situ_tree_kind_of(b) || situ_tree_count(a) != situ_tree_count(b))
    return false;
  bool same = true;
  for (int64_t i = 0; i < situ_tree_count(a) && same && situ_tree_kind_of(a) != SITU_TREE_TENSOR; i++)
    same = is_same(situ_tree_at(a, i), situ_tree_at(b, i));
  if (situ_tree_kind_of(a) != SITU_TREE_TENSOR) return same;
  situ_tensor *x = situ_tree_value(a), *y = situ_tree_value(b);
  return situ_dtype_of(x) == situ_dtype_of(y) &&
         situ_allclose(situ_to_dtype(x, SITU_F64), situ_to_dtype(y, SITU_F64), 0, 0, true, &same) == SITU_OK && same;
}

/* A refusal for a person who has to find the place in the program. */
static bool says_where(const char *message) {
  static const char *const places[] = { "call ", "makes a tensor (", "forward fails at ", "as results at ",
                                        ": a tensor whose values" };
  for (size_t i = 0; i < sizeof places / sizeof *places; i++)
    if (strstr(message, places[i])) return true;
  return strstr(message, "cannot be written: ") != NULL && strchr(message, '\n') != NULL;
}

/* Returns whether the file could be traced. */
static bool follows(const char *path) {
  situ_export_dim dims[DIMS];
  situ_scope scope;
  situ_scope_begin_no_grad(&scope);
  situ_nn_module *wanted = situ_nn_eval(situ_export_load(path, NULL)),
                 *from = situ_nn_eval(situ_export_load(path, NULL));
  situ_tree *example = draw_inputs(from, 3);
  situ_nn_module *program = situ_export_dynamic(from, example, dims, list_dims(from, dims));
  if (!program && !says_where(situ_error_message())) fail_msg("%s: %s", path, situ_error_message());
  situ_error_clear();
  for (int call = 0; call < CALLS && program; call++) {
    situ_tree *in = draw_inputs(from, 22 + 9 * call), *a = situ_nn_call(wanted, in), *b = situ_nn_call(program, in);
    if ((a || b) && !is_same(a, b)) fail_msg("%s, call %d: other results: %s", path, call, situ_error_message());
    situ_error_clear(); /* what the file refuses, the program does */
    situ_tree_free(in);
    situ_tree_free(a);
    situ_tree_free(b);
  }
  situ_tree_free(example);
  situ_nn_free(program);
  situ_nn_free(from);
  situ_nn_free(wanted);
  assert_int_equal(situ_scope_end(&scope), SITU_OK);
  return program != NULL;
}

static void traced_programs_give_the_same(void **state) {
  const char *root = getenv("SITU_TEST_ROOT");
  char directory[400], path[800];
  int files = 0, traced = 0;
  (void)state;
  situ_error_mode(SITU_ERROR_QUIET);
  (void)snprintf(directory, sizeof directory, "%s/program/pt2/drawn", root ? root : ".");
  DIR *list = opendir(directory);
  assert_non_null(list);
  for (struct dirent *e; (e = readdir(list));) {
    const char *end = strrchr(e->d_name, '.');
    if (!end || strcmp(end, ".pt2") != 0) continue;
    (void)snprintf(path, sizeof path, "%s/%s", directory, e->d_name);
    files++;
    traced += follows(path);
  }
  closedir(list);
  print_message("%d of %d programs have free sizes again\n", traced, files);
  assert_true(traced > files / 3);
}

int main(void) {
  const struct CMUnitTest tests[] = { cmocka_unit_test(traced_programs_give_the_same) };
  return cmocka_run_group_tests_name("program/pt2/free_sizes", tests, NULL, NULL);
}
