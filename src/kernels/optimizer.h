/* Rules of the optimisers for one element of the floating type T: PyTorch's formulas, operation by operation. Included
   once for each T, after floats.h.
   SPDX-License-Identifier: MIT

   g is the gradient after FN(decayed). Flags are constants where the functions are called, so that the compiler removes
   their branches from loops. Each function returns the parameter's new value. */

typedef struct FN(rule) {
  T lr, momentum, take, beta1, rest1, beta2, rest2, alpha, rest,
      eps;            /* take: 1 - dampening; rest*: 1 - beta*, 1 - alpha */
  T shrink;           /* AdamW: 1 - lr weight_decay; else 1 */
  T step_size;        /* Adam: lr / (1 - beta1^step) */
  T correction2_sqrt; /* Adam: sqrt(1 - beta2^step) */
} FN(rule);

/* scale is negative if the optimiser maximises. */
DEVICE T FN(decayed)(T g, T p, T scale, T decay) {
  g = g * scale;
  return decay != 0 ? g + decay * p : g;
}

DEVICE T FN(sgd)(const FN(rule) r, T p, T g) { return p - r.lr * g; }

DEVICE T FN(sgd_momentum)(const FN(rule) r, T p, T g, T *buffer, int first, int nesterov) {
  T b = first ? g : *buffer * r.momentum + g * r.take;
  *buffer = b;
  return p - r.lr * (nesterov ? g + r.momentum * b : b);
}

DEVICE T FN(adam)(const FN(rule) r, T p, T g, T *mean, T *square, T *largest, int amsgrad) {
  T m = *mean * r.beta1 + g * r.rest1, v = *square * r.beta2 + r.rest2 * g * g;
  *mean = m;
  *square = v;
  if (amsgrad) v = *largest = FN(larger)(*largest, v);
  return p * r.shrink - r.step_size * m / (sqrt(v) / r.correction2_sqrt + r.eps);
}

DEVICE T FN(rmsprop)(const FN(rule) r, T p, T g, T *square, T *buffer, T *mean, int momentum, int centered) {
  T v = *square * r.alpha + r.rest * g * g;
  *square = v;
  if (centered) {
    T m = *mean * r.alpha + g * r.rest;
    *mean = m;
    v = v - m * m;
  }
  T root = sqrt(v) + r.eps;
  if (!momentum) return p - r.lr * g / root;
  T b = *buffer * r.momentum + g / root;
  *buffer = b;
  return p - r.lr * b;
}
