/* Cross entropy with class indices: the loss of every position (OP 0) and the gradient of every element (OP 1).
   SPDX-License-Identifier: MIT

   D0 is the result, D1 x, D2 g, D3 weight. x is [N, C, S]; lse, losses and used weights are T, total is of D4. */
#include "kernels/element.h"
#include "kernels/floats.h"

#define X(c) LOAD(D1, x[n.x + base + (c) * n.inner])
#if FLAGS & FLAG_WEIGHT
#define W(c) LOAD(D3, weight[n.weight + (c)])
#else
#define W(c) ((T)1)
#endif
typedef struct parameters {
  T p[4]; /* label smoothing */
} parameters;

DEVICE bool outside(GLOBAL fault *found, const nlls n, I64 position, I64 target) {
  if (target >= 0 && target < n.classes) return false;
  if (FIRST_TO_RAISE(&found->raised)) {
    found->verb = n.verb;
    found->value = target;
    found->bound = n.classes;
    found->at = position;
  }
  return true;
}

#if OP == 0
/* loss[position], used[position]; and y where nothing is reduced. */
GROUPS KERNEL run(GLOBAL MEMORY(D0) *y, GLOBAL const MEMORY(D1) *x, GLOBAL const I64 *target, GLOBAL const MEMORY(D3) *weight,
                  GLOBAL T *lse, GLOBAL T *loss, GLOBAL T *used, const nlls n, const parameters q, GLOBAL fault *found) {
  const I64 position = ITEM;
  if (position >= n.positions) return;
  const I64 base = position / n.inner * n.classes * n.inner + position % n.inner, hit = target[n.target + position];
  T log_sum = 0, value = 0, weight_used = 0;
#if FLAGS & FLAG_LOGITS
  T top = -INFINITY, sum = 0;
  for (I64 c = 0; c < n.classes; c++) top = FN(larger)(top, X(c));
  const T centre = top - top == 0 || top != top ? top : 0;
  for (I64 c = 0; c < n.classes; c++) sum += exp(X(c) - centre);
  log_sum = centre + log(sum);
  /* A row with Inf in it has no log-softmax: NaN, as in torch. */
  if (log_sum == INFINITY) log_sum = log_sum - log_sum;
  lse[n.lse + position] = log_sum;
#endif
  if (hit != n.ignore && !outside(found, n, position, hit)) {
    weight_used = W(hit);
    value = weight_used * (log_sum - X(hit));
    if (q.p[0] != 0) {
      T all = 0;
      for (I64 c = 0; c < n.classes; c++)
        if (W(c) != 0) all += W(c) * (log_sum - X(c));
      value = (1 - q.p[0]) * value + q.p[0] / (T)n.classes * all;
    }
  }
#if FLAGS & FLAG_EACH
  y[n.y + position] = STORE(D0, value);
#endif
  loss[position] = value;
  used[position] = weight_used;
}
#elif OP == 1
/* dx[c] = scale [ softmax(x)[c] all - smooth weight[c] - hit (c is the target) ] */
GROUPS KERNEL run(GLOBAL MEMORY(D0) *dx, GLOBAL const MEMORY(D1) *x, GLOBAL const I64 *target, GLOBAL const MEMORY(D3) *weight,
                  GLOBAL const T *lse, GLOBAL const MEMORY(D2) *g, GLOBAL const MEMORY(D4) *total, GLOBAL const T *weight_sum,
                  const nlls n, const parameters q, GLOBAL fault *found) {
  const I64 i = ITEM;
  if (i >= n.positions * n.classes) return;
  const I64 c = i / n.inner % n.classes, position = i / (n.inner * n.classes) * n.inner + i % n.inner;
  const I64 base = position / n.inner * n.classes * n.inner + position % n.inner, hit = target[n.target + position];
  T value = 0;
  if (hit != n.ignore && !outside(found, n, position, hit)) {
    T scale = LOAD(D2, g[n.g + (FLAGS & FLAG_EACH ? position : 0)]);
#if FLAGS & FLAG_MEAN
    scale /= LOAD(D4, total[n.total]);
#endif
    const T mine = (1 - q.p[0]) * W(hit), smooth = q.p[0] / (T)n.classes;
#if FLAGS & FLAG_LOGITS
#if FLAGS & FLAG_WEIGHT
    const T all = mine + smooth * weight_sum[0];
#else
    const T all = mine + smooth * (T)n.classes;
#endif
    value = exp(X(c) - lse[n.lse + position]) * all - smooth * W(c);
#endif
    if (c == hit) value -= mine;
    value = scale * value;
  }
  dx[n.y + i] = STORE(D0, value);
}
#endif
