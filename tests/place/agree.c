/* The findings of one preflight together: their lines are the program's own. */
/* test-devices: sim:0 */
#include <stdio.h>
#include <string.h>

#include "support/pairs.h"

static situ_device far(int i) { return test_device_at(i); }

static void check(situ_nn_module *m, situ_tensor *x, situ_place_report *r) {
  situ_tree *in = situ_tree_tensor(x);
  expect_ok(situ_place_check(m, in, NULL, r));
  situ_tree_free(in);
}

/* ---- lines ---- */

static void a_finding_has_the_lines_of_the_program(void **state) {
  (void)state;
  if (!test_has_lines()) skip();
  const int line = __LINE__;
  situ_nn_module *m = situ_nn_set_name(situ_nn_sequential(situ_nn_linear(4, 4, NULL), situ_nn_relu()), "model");
  situ_tensor *x = situ_set_name(situ_ones(SITU_SHAPE(2, 4), &(situ_options){ .device = far(0) }), "x");
  situ_place_report r;
  check(m, x, &r);
  assert_int_equal(r.finding_count, 1);
  char made[2][64];
  for (int i = 0; i < 2; i++) (void)snprintf(made[i], sizeof made[i], "created at agree.c:%d\n", line + 1 + i);
  const char *weight = strstr(r.findings[0].text, made[0]), *input = strstr(r.findings[0].text, made[1]);
  if (!weight || !input || !strstr(weight + 1, made[0])) fail_msg("not line %d on:\n%s", line, r.findings[0].text);
  situ_place_report_free(&r);
  const int moved = __LINE__;
  expect_ok(situ_nn_to(m, far(1)));
  (void)snprintf(made[0], sizeof made[0], "moved by situ_nn_to at agree.c:%d\n", moved + 1);
  check(m, x, &r);
  if (!strstr(r.findings[0].text, made[0])) fail_msg("not line %d:\n%s", moved + 1, r.findings[0].text);
  situ_place_report_free(&r);
  situ_nn_free(m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    MODULE_TEST(a_finding_has_the_lines_of_the_program),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
