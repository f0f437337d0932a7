/* Functions that formulas share, for the floating type T. Included once for each T.
   SPDX-License-Identifier: MIT */

/* NaN if either is NaN, as in PyTorch (fmax and fmin ignore NaN); a if they are equal. */
DEVICE T FN(larger)(T a, T b) { return b > a || b != b ? b : a; }
DEVICE T FN(smaller)(T a, T b) { return b < a || b != b ? b : a; }
/* The same as smaller(larger(x, low), high); a loop over x asks for a NaN bound once, and is two instructions then. */
DEVICE T FN(bounded)(T x, T low, T high) {
  const T raised = low > x ? low : x;
  return high != high ? high : low != low ? low : high < raised ? high : raised;
}

DEVICE T FN(sign_of)(T x) { return (T)(x > 0) - (T)(x < 0); }

/* Remainder with b's sign. */
DEVICE T FN(modulo)(T a, T b) {
  T r = fmod(a, b);
  return r != 0 && (b < 0) != (r < 0) ? r + b : r;
}

/* floor(a / b), correct also where a / b would round up to an integer. */
DEVICE T FN(floor_quotient)(T a, T b) {
  if (b == 0) return a / b;
  T r = fmod(a, b);
  T q = (a - r) / b;
  if (r != 0 && (b < 0) != (r < 0)) q -= 1;
  if (q == 0) return copysign((T)0, a / b);
  T integer = floor(q);
  return q - integer > (T)0.5 ? integer + 1 : integer;
}

/* x to a power that is the same for all elements. Uses products, and sqrt where it can, as torch does: the latter
   differs from pow for -0 and -Inf. */
DEVICE T FN(power)(T x, T p) {
  if (p == 2) return x * x;
  if (p == 1) return x;
  if (p == 3) return x * x * x;
  if (p == -1) return 1 / x;
  if (p == (T)0.5) return sqrt(x);
  if (p == (T)-0.5) return 1 / sqrt(x);
  return pow(x, p);
}

/* Standard normal distribution: P(X < x), in two steps; its density, and the inner function of GELU's tanh
   approximation. */
DEVICE T FN(normal_power)(T x) { return NORMAL_POWER(x); }
DEVICE T FN(normal_by)(T x, T e) { return NORMAL_BY(x, e); }
DEVICE T FN(normal_cdf)(T x) { return FN(normal_by)(x, FN(normal_power)(x)); }
DEVICE T FN(normal_pdf)(T x) { return exp(x * x * (T)-0.5) * (T)0.39894228040143267794; }
DEVICE T FN(gelu_inner)(T x) { return (T)0.79788456080286535588 * (x + (T)0.044715 * x * x * x); }
DEVICE T FN(gelu_tanh_slope)(T x) {
  T t = tanh(FN(gelu_inner)(x));
  T inner_slope = (T)0.79788456080286535588 * (1 + (T)0.134145 * x * x);
  return (T)0.5 * (1 + t) + (T)0.5 * x * (1 - t * t) * inner_slope;
}

/* Takes exp of nonpositive arguments only: exp(-x) would overflow where the result is merely small. */
DEVICE T FN(logistic_power)(T x) { return EXP_BELOW(-fabs(x)); }
DEVICE T FN(logistic_by)(T x, T e) { return (x < 0 ? e : 1) / (1 + e); }
DEVICE T FN(logistic)(T x) { return FN(logistic_by)(x, FN(logistic_power)(x)); }
DEVICE T FN(silu_slope)(T x) {
  T s = FN(logistic)(x);
  return s * (1 + x * (1 - s));
}
DEVICE T FN(mish_slope)(T x) {
  T t = tanh(log1p(exp(x)));
  return t + x * (1 - t * t) * FN(logistic)(x);
}

#include "kernels/special.h"
