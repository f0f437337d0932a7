/* The line search of LBFGS by itself: which points it tries, beside those of PyTorch 2.15's torch.optim.lbfgs._strong_wolfe with
   the same losses and slopes. What it does with a model is compared in tests/golden/optim/lbfgs.c.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu */
#include <math.h>

#include "optim/lbfgs.h"
#include "support/test.h"

typedef struct answer {
  double loss, slope;
} answer;

typedef struct search {
  const char *name;
  answer at
      [4]; /* of each evaluation in turn, whatever the point; the last one from then on. The start has loss 0, slope -1 */
  int answers;
  double t, longest, tolerance;
  int64_t most;
  double tried[4]; /* by torch */
  int evals;
  double found;
} search;

static const search searches[] = {
  { "as low as before, lengthening",
    { { -1, -1 }, { -2, -1 }, { -2, -1 }, { -3, -.5 } },
    4,
    1,
    1,
    1e-9,
    25,
    { 1, 10, 10.09, 10.019019237886466 },
    4,
    10.019019237886466 },
  { "as low as the better end of a bracket",
    { { -1, 1 }, { -1, 1 }, { -1.5, -.5 } },
    3,
    1,
    1,
    1e-9,
    25,
    { 1, 0.8603796100280632, 0.9704947398813607 },
    3,
    0.9704947398813607 },
  { "a bracket narrower than the tolerance", { { 1, 1 }, { -.1, -.5 } }, 2, 1, 0x1p-6, 0x1p-5, 25, { 1 }, 1, 0 },
  { "as narrow as the tolerance",
    { { 1, 1 }, { -.1, -.5 } },
    2,
    1,
    0x1p-6,
    0x1p-6,
    25,
    { 1, 0.13962038997193682 },
    2,
    0.13962038997193682 },
  { "narrow, along a long direction",
    { { 1, 1 }, { -.1, -.5 } },
    2,
    0x1p-5,
    64,
    0x1p-4,
    25,
    { 0x1p-5, 0.00016191272915756436 },
    2,
    0.00016191272915756436 },
  { "evaluations run out while lengthening",
    { { -2, -1 }, { -1, -1 } },
    2,
    1,
    1,
    1e-9,
    1,
    { 1, 1.1454972243679027 },
    2,
    1.1454972243679027 },
  { "evaluations run out in a bracket",
    { { 1, 1 }, { -.1, -1 }, { -.2, -1 }, { -.3, -1 } },
    4,
    1,
    1,
    1e-9,
    2,
    { 1, 0.13962038997193682, 0.23739913346589192 },
    3,
    0.23739913346589192 },
};

typedef struct asked {
  const search *s;
  int evals;
} asked;

static bool answer_next(void *payload, double t, situ__probe *at) {
  asked *a = payload;
  const search *s = a->s;
  const answer y = s->at[a->evals < s->answers ? a->evals : s->answers - 1];
  if (a->evals >= s->evals) fail_msg("%s: tries %.17g after what torch tries", s->name, t);
  if (!(fabs(t - s->tried[a->evals]) <= 1e-13 * fabs(t)))
    fail_msg("%s: tries %.17g, torch %.17g", s->name, t, s->tried[a->evals]);
  a->evals++;
  at->t = t;
  at->loss = y.loss;
  at->slope = y.slope;
  return situ_set(&at->grad, T32(SITU_SHAPE(1), y.slope));
}

static void it_tries_the_points_that_torch_tries(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof searches / sizeof *searches; i++) {
    const search *s = &searches[i];
    asked a = { s, 0 };
    situ__probe found = { .grad = NULL };
    situ__line line = { .evaluate = answer_next,
                        .payload = &a,
                        .start = { .slope = -1 },
                        .longest = s->longest,
                        .tolerance = s->tolerance,
                        .most = s->most };
    assert_true(situ_set(&line.start.grad, T32(SITU_SHAPE(1), -1)));
    if (!situ__strong_wolfe(&line, s->t, &found)) fail_msg("%s: %s", s->name, situ_error_message());
    assert_int_equal(a.evals, s->evals);
    assert_int_equal(line.evals, s->evals);
    if (!(fabs(found.t - s->found) <= 1e-13)) fail_msg("%s: finds %.17g, torch %.17g", s->name, found.t, s->found);
    situ_drop(&found.grad);
    situ_drop(&line.start.grad);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(it_tries_the_points_that_torch_tries) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
