/* Rules of the optimisers for one element of the floating type T: PyTorch's formulas, operation by operation. Included
   once for each T, after floats.h.
   SPDX-License-Identifier: MIT

   g is the gradient after FN(decayed). Flags are constants where the functions are called, so that the compiler removes
   their branches from loops. Each function returns the parameter's new value. */

typedef struct FN(rule) {
  T lr, momentum, take, beta1, rest1, beta2, rest2, alpha, rest,
      eps;            /* take: 1 - dampening; rest*: 1 - beta*, 1 - alpha */
  T shrink;           /* decoupled weight decay: 1 - lr weight_decay; else 1 */
  T step_size;        /* of this step: situ__step_constants (adam.h) */
  T correction2_sqrt; /* Adam: sqrt(1 - beta2^step); others: see there */
  T other;
  T rho, rest_rho, etaminus, etaplus, step_size_min, step_size_max;
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

DEVICE T FN(adagrad)(const FN(rule) r, T p, T g, T *sum) {
  *sum = *sum + g * g;
  return p - r.step_size * (g / (sqrt(*sum) + r.eps));
}

DEVICE T FN(adadelta)(const FN(rule) r, T p, T g, T *square, T *moves) {
  *square = *square * r.rho + r.rest_rho * g * g;
  const T delta = sqrt(*moves + r.eps) / sqrt(*square + r.eps) * g;
  *moves = *moves * r.rho + r.rest_rho * delta * delta;
  return p - r.lr * delta;
}

DEVICE T FN(adamax)(const FN(rule) r, T p, T g, T *mean, T *largest) {
  *mean = *mean * r.beta1 + g * r.rest1;
  *largest = FN(larger)(*largest * r.beta2, fabs(g) + r.eps);
  return p - r.step_size * (*mean / *largest);
}

/* step_size is the factor of g, other that of the mean. */
DEVICE T FN(nadam)(const FN(rule) r, T p, T g, T *mean, T *square) {
  *mean = *mean * r.beta1 + g * r.rest1;
  *square = *square * r.beta2 + r.rest2 * g * g;
  const T root = sqrt(*square) / r.correction2_sqrt + r.eps;
  return p * r.shrink - r.step_size * (g / root) - r.other * (*mean / root);
}

/* other: whether the variance is tractable, and the step rectified. */
DEVICE T FN(radam)(const FN(rule) r, T p, T g, T *mean, T *square) {
  *mean = *mean * r.beta1 + g * r.rest1;
  *square = *square * r.beta2 + r.rest2 * g * g;
  const T adapt = r.other != 0 ? r.correction2_sqrt / (sqrt(*square) + r.eps) : 1;
  return p * r.shrink - r.step_size * *mean * adapt;
}

DEVICE T FN(rprop)(const FN(rule) r, T p, T g, T *last, T *size) {
  const T turn = g * *last, factor = turn > 0 ? r.etaplus : turn < 0 ? r.etaminus : 1;
  *size = FN(smaller)(FN(larger)(*size * factor, r.step_size_min), r.step_size_max);
  *last = turn < 0 ? 0 : g;
  return p - FN(sign_of)(*last) * *size;
}

/* correction2_sqrt: 1 - lambd step_size; other: weight of the parameter in its average. */
DEVICE T FN(asgd)(const FN(rule) r, T p, T g, T *average) {
  p = p * r.correction2_sqrt - r.step_size * g;
  *average = r.other == 1 ? p : *average + (p - *average) * r.other;
  return p;
}

/* Chen et al., arXiv:2302.06675, algorithm 2. */
DEVICE T FN(lion)(const FN(rule) r, T p, T g, T *mean) {
  const T direction = FN(sign_of)(*mean * r.beta1 + g * r.rest1);
  *mean = *mean * r.beta2 + g * r.rest2;
  return p * r.shrink - r.lr * direction;
}
