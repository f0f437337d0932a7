/* torch.cond, while_loop, scan and map of .pt2 archives: the branch that a run takes, and the limit of iterations. The
   values and a training are PyTorch's (models.c, data/flow.pt2).
   SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "situ/situ.h"

static situ_nn_module *load_flow(int64_t most) {
  char path[512];
  const char *root = getenv("SITU_TEST_ROOT");
  (void)snprintf(path, sizeof path, "%.400s/program/data/flow.pt2", root ? root : ".");
  situ_nn_module *m = situ_export_load(path, &(situ_load_options){ .max_iterations = most });
  assert_non_null(m);
  return m;
}

/* Returns whether the program runs with so many steps of its while_loop; its scan and map make 3 and 2 more. */
static bool runs(situ_nn_module *m, int64_t steps) {
  situ_tensor *n = situ_from_host(&steps, sizeof steps, SITU_SCALAR, &(situ_options){ .dtype = SITU_I64 });
  situ_tree *in = SITU_TREE(situ_ones(SITU_SHAPE(2, 4), NULL), n);
  situ_tree *out = situ_nn_call(m, in);
  const bool ran = out != NULL;
  situ_tree_free(out);
  situ_tree_free(in);
  return ran;
}

static void as_many_iterations_as_the_caller_allows(void **state) {
  (void)state;
  situ_scope scope;
  situ_scope_begin_no_grad(&scope);
  situ_nn_module *m = load_flow(20);
  assert_true(runs(m, 10));
  assert_true(runs(m, 0));
  situ_error_mode(SITU_ERROR_QUIET);
  assert_false(runs(m, INT64_MAX));
  assert_int_equal(situ_error(), SITU_E_LIMIT);
  assert_non_null(strstr(situ_error_message(), "loops run more than 20 iterations in one call"));
  situ_error_clear();
  situ_error_mode(SITU_ERROR_LOG);
  assert_true(runs(m, 10));
  situ_nn_free(m);
  assert_int_equal(situ_scope_end(&scope), SITU_OK);
}

int main(void) {
  const struct CMUnitTest tests[] = { cmocka_unit_test(as_many_iterations_as_the_caller_allows) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
