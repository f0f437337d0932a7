/* Random programs of 3 to 15 calls: views of views, in-place writes through views, joins, index ops, detach, no_grad, hooks,
   autograd_grad, several losses. Each gradient is that of central differences, or the program was refused with an error; nothing else.
   SITU_TEST_ALL: 100,000 programs. SITU_TEST_PROGRAM=seed: that one, printed. */
/* test-devices: cpu sim:0 */
#include <stdlib.h>

#include "support/program.h"

static void wrong(program p, const char *why) {
  print_error("seed %llu: %s\n", (unsigned long long)p.seed, why);
  program_print(&p);
  program_shrink(&p);
  char now[256];
  (void)program_check(&p, now);
  situ_error_clear();
  print_error("made smaller: %s\n", now);
  program_print(&p);
}

static void gradients_are_right_or_refused(void **state) {
  (void)state;
  const char *one = getenv("SITU_TEST_PROGRAM"), *all = getenv("SITU_TEST_ALL"), *verbose = getenv("SITU_TEST_VERBOSE");
  char *end = NULL;
  const uint64_t first = one ? strtoull(one, &end, 10) : 1;
  if (one && (end == one || *end)) fail_msg("SITU_TEST_PROGRAM is the seed of a program, not %s", one);
  const int want = one ? 1 : all ? 100000 : 5000;
  int made = 0, refused = 0, bad = 0;
  long calls = 0;
  char why[256];
  for (uint64_t seed = first; made < want && bad < 3; seed++) {
    program p;
    const bool fits = program_make(&p, seed);
    if (one) program_print(&p);
    const program_verdict v = fits ? program_check(&p, why) : PROGRAM_SKIPPED;
    situ_error_clear();
    if (v == PROGRAM_SKIPPED) {
      if (one) fail_msg("near a kink, or too large");
      continue;
    }
    made++;
    calls += p.calls;
    refused += v == PROGRAM_REFUSED;
    if (v == PROGRAM_REFUSED && (verbose || one))
      print_message("seed %llu refused: %s\n", (unsigned long long)seed, why);
    if (v == PROGRAM_WRONG) bad++, wrong(p, why);
  }
  print_message("%d programs of %.1f calls each: %d wrong, %d refused (%.2f %%)\n", made, (double)calls / made, bad,
                refused, 100. * refused / made);
  assert_int_equal(bad, 0);
  assert_true(one || refused * 20 < made);
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(gradients_are_right_or_refused) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
