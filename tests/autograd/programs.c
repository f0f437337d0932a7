/* Random programs of 3 to 15 calls: views of views, in-place writes through views, joins, index ops, detach, no_grad, hooks,
   autograd_grad, several losses. Each gradient is that of central differences, or the program was refused with an error; nothing else.
   So is the gradient of the last loss's gradient, by second differences.
   SITU_TEST_ALL: 100,000 programs, and 20,000 for second derivatives. SITU_TEST_PROGRAM=seed: that one, printed. */
/* test-devices: cpu sim:0 */
/* test-listed: yes */
/* test-cost: 400 */
/* test-limit: 7200 */
#include <stdlib.h>

#include "support/program/program.h"

typedef program_verdict check_fn(const program *p, char *why);

static void wrong(program p, check_fn *check, const char *why) {
  print_error("seed %llu: %s\n", (unsigned long long)p.seed, why);
  program_print(&p);
  program_shrink(&p, check);
  char now[256];
  (void)check(&p, now);
  situ_error_clear();
  print_error("made smaller: %s\n", now);
  program_print(&p);
}

static void check_programs(check_fn *check, int want, const char *what) {
  const char *one = getenv("SITU_TEST_PROGRAM"), *verbose = getenv("SITU_TEST_VERBOSE");
  char *end = NULL;
  const uint64_t first = one ? strtoull(one, &end, 10) : 1;
  if (one && (end == one || *end)) fail_msg("SITU_TEST_PROGRAM is the seed of a program, not %s", one);
  if (one) want = 1;
  int made = 0, refused = 0, bad = 0;
  long calls = 0;
  char why[256];
  for (uint64_t seed = first; made < want && bad < 3; seed++) {
    program p;
    const bool fits = program_make(&p, seed);
    if (one) program_print(&p);
    const program_verdict v = fits ? check(&p, why) : PROGRAM_SKIPPED;
    situ_error_clear();
    if (v == PROGRAM_SKIPPED) {
      if (!one) continue;
      print_message("near a kink, or too large, or without what is looked for\n");
      return;
    }
    made++;
    calls += p.calls;
    refused += v == PROGRAM_REFUSED;
    if (v == PROGRAM_REFUSED && (verbose || one))
      print_message("seed %llu refused: %s\n", (unsigned long long)seed, why);
    if (v == PROGRAM_WRONG) bad++, wrong(p, check, why);
  }
  print_message("%s of %d programs of %.1f calls each: %d wrong, %d refused (%.2f %%)\n", what, made,
                (double)calls / made, bad, refused, 100. * refused / made);
  assert_int_equal(bad, 0);
  assert_true(one || refused * 20 < made);
}

static void gradients_are_right_or_refused(void **state) {
  (void)state;
  check_programs(program_check, getenv("SITU_TEST_ALL") ? 100000 : 5000, "gradients");
}

static void second_derivatives_are_right_or_refused(void **state) {
  (void)state;
  check_programs(program_check_twice, getenv("SITU_TEST_ALL") ? 20000 : 1000, "second derivatives");
}

/* Whether a write in place with history into the call's result, which it made in a no_grad scope, is refused: the result is a view. */
static bool makes_a_view(const program_call *c, situ_shape shape, bool *made) {
  const situ_options like = { .dtype = SITU_F64, .device = test_device() };
  situ_tensor *const x = situ_rand(shape, &like), *const in[PROGRAM_OPERANDS] = { x, x, x };
  situ_scope inner;
  situ_scope_begin_no_grad(&inner);
  situ_tensor *y = situ_escape(&inner, c->kind->run(in, c));
  SITU_IGNORE(situ_scope_end(&inner));
  situ_error_clear();
  if (!y) return false;
  *made = true;
  (void)situ_add_(y, situ_requires_grad_(situ_zeros_like(y, NULL), true));
  const bool refused = situ_error() == SITU_E_STATE;
  situ_error_clear();
  return refused;
}

/* Each row of the table whose result may be a view of memory of its own says so. */
static void rows_that_return_views_say_so(void **state) {
  (void)state;
  const situ_options here = { .device = test_device() };
  const bool lapack = situ_linalg_inv(situ_eye(1, 1, &here)) != NULL;
  situ_error_clear();
  const situ_shape shapes[] = { { 0 }, SITU_SHAPE(4), SITU_SHAPE(2, 2), SITU_SHAPE(1, 3), SITU_SHAPE(2, 3) };
  for (const program_kind *kind = program_kinds; kind->name; kind++) {
    bool made = false;
    for (int k = 0; k < 60 && kind->effect == PROGRAM_MAKES; k++) {
      const program_call c = { .kind = kind, .p = { k / 5, k / 10, k / 15, k / 20 }, .a = 0.5 };
      situ_scope scope;
      situ_scope_begin(&scope);
      const bool view = makes_a_view(&c, shapes[k % 5], &made);
      SITU_IGNORE(situ_scope_end(&scope));
      if (view && !(kind->flags & PROGRAM_PART)) fail_msg("%s gives a view: its row needs PROGRAM_PART", kind->name);
    }
    /* Rows of linear algebra give nothing where there is no LAPACK. */
    if (kind->effect == PROGRAM_MAKES && !made && lapack) fail_msg("%s never gives a result", kind->name);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(rows_that_return_views_say_so), TEST(gradients_are_right_or_refused),
                                      TEST(second_derivatives_are_right_or_refused) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
