/* A line search for the strong Wolfe conditions: bracket, then zoom (Nocedal and Wright, Numerical Optimization, 2nd
   edition, algorithms 3.5 and 3.6), with the cubic interpolation and the safeguards of Schmidt's minFunc that torch
   has, so that both try the same points. Comparisons are false for NaN, as in torch.
   SPDX-License-Identifier: MIT */
#include <math.h>

#include "optim/lbfgs.h"

static const double C1 = 1e-4, C2 = 0.9;

static bool keep(situ__probe *to, const situ__probe *from) {
  if (!situ_set(&to->grad, from->grad)) return false;
  to->t = from->t;
  to->loss = from->loss;
  to->slope = from->slope;
  return true;
}

static double clamped(double x, double low, double high) {
  if (low > x) x = low;
  return high < x ? high : x;
}

/* The minimum of the cubic through two points with their slopes, within bounds (equation 3.59 there); their middle if
   the cubic has none. */
static double interpolate(const situ__probe *a, const situ__probe *b, double low, double high) {
  if (a->t > b->t) {
    const situ__probe *other = a;
    a = b;
    b = other;
  }
  const double d1 = a->slope + b->slope - 3 * (a->loss - b->loss) / (a->t - b->t);
  const double square = d1 * d1 - a->slope * b->slope;
  if (!(square >= 0)) return (low + high) / 2;
  const double d2 = sqrt(square);
  return clamped(b->t - (b->t - a->t) * ((b->slope + d2 - d1) / (b->slope - a->slope + 2 * d2)), low, high);
}

static bool evaluate(situ__line *line, double t, situ__probe *at) {
  line->evals++;
  return line->evaluate(line->payload, t, at);
}

/* The loss has not decreased enough (Armijo's condition). */
static bool is_too_high(const situ__line *line, const situ__probe *at) {
  return at->loss > line->start.loss + C1 * at->t * line->start.slope;
}
static bool is_flat(const situ__line *line, const situ__probe *at) {
  return fabs(at->slope) <= -C2 * line->start.slope;
}

typedef enum outcome { FAILED, FOUND, BRACKETED, EXHAUSTED } outcome;

/* Lengthens the step until a point satisfies the conditions (FOUND, as bracket[1]) or lies behind one that does. */
static outcome bracket_minimum(situ__line *line, double t, situ__probe bracket[2]) {
  situ__probe *before = &bracket[0], *at = &bracket[1];
  if (!keep(before, &line->start) || !evaluate(line, t, at)) return FAILED;
  for (int64_t i = 0; i < line->most; i++) {
    if (is_too_high(line, at) || (i > 1 && at->loss >= before->loss)) return BRACKETED;
    if (is_flat(line, at)) return FOUND;
    if (at->slope >= 0) return BRACKETED;
    const double next = interpolate(before, at, at->t + 0.01 * (at->t - before->t), at->t * 10);
    if (!keep(before, at) || !evaluate(line, next, at)) return FAILED;
  }
  return keep(before, &line->start) ? EXHAUSTED : FAILED;
}

/* The next point to try in a bracket: not near an end of it twice in a row, where progress would be too small. */
static double divide(const situ__probe bracket[2], bool *was_near) {
  const double low = fmin(bracket[0].t, bracket[1].t), high = fmax(bracket[0].t, bracket[1].t);
  const double t = interpolate(&bracket[0], &bracket[1], low, high), margin = 0.1 * (high - low);
  const bool near = high - t < margin || t - low < margin, must_move = near && (*was_near || t >= high || t <= low);
  *was_near = near && !must_move;
  if (!must_move) return t;
  return fabs(t - high) < fabs(t - low) ? high - margin : low + margin;
}

static int lower_end(const situ__probe bracket[2]) { return bracket[0].loss <= bracket[1].loss ? 0 : 1; }

/* Narrows the bracket; returns its better end, -1 after recording an error. */
static int zoom(situ__line *line, situ__probe bracket[2], situ__probe *at) {
  int low = lower_end(bracket);
  bool was_near = false;
  while (line->evals <= line->most && !(fabs(bracket[1].t - bracket[0].t) * line->longest < line->tolerance)) {
    if (!evaluate(line, divide(bracket, &was_near), at)) return -1;
    if (is_too_high(line, at) || at->loss >= bracket[low].loss) {
      if (!keep(&bracket[!low], at)) return -1;
      low = lower_end(bracket);
      continue;
    }
    const bool done = is_flat(line, at);
    if (!done && at->slope * (bracket[!low].t - bracket[low].t) >= 0 && !keep(&bracket[!low], &bracket[low])) return -1;
    if (!keep(&bracket[low], at)) return -1;
    if (done) break;
  }
  return low;
}

bool situ__strong_wolfe(situ__line *line, double t, situ__probe *found) {
  situ__probe bracket[2] = { { .grad = NULL } }, trial = { .grad = NULL };
  line->evals = 0;
  const outcome how = bracket_minimum(line, t, bracket);
  int best = how == FAILED ? -1 : how == FOUND ? 1 : lower_end(bracket);
  if (how == BRACKETED) best = zoom(line, bracket, &trial);
  const bool good = best >= 0 && keep(found, &bracket[best]);
  situ_drop(&bracket[0].grad);
  situ_drop(&bracket[1].grad);
  situ_drop(&trial.grad);
  return good;
}
