/* Special functions that not every language of the kernels has, for the floating type T. Included once for each T, by
   floats.h.
   SPDX-License-Identifier: MIT */

#define PI ((T)3.14159265358979323846)

DEVICE T FN(poly7)(T x, T c0, T c1, T c2, T c3, T c4, T c5, T c6, T c7) {
  return ((((((c7 * x + c6) * x + c5) * x + c4) * x + c3) * x + c2) * x + c1) * x + c0;
}

/* The inverse of erf: a quantile of the normal distribution (Wichura, Algorithm AS 241, Applied Statistics 37,
   1988). */
DEVICE T FN(erf_inverse_tail)(T r) {
  if (r <= 5)
    return FN(poly7)(r - (T)1.6, (T)1.42343711074968357734, (T)4.63033784615654529590, (T)5.76949722146069140550,
                     (T)3.64784832476320460504, (T)1.27045825245236838258, (T)2.41780725177450611770e-1,
                     (T)2.27238449892691845833e-2, (T)7.74545014278341407640e-4) /
           FN(poly7)(r - (T)1.6, 1, (T)2.05319162663775882187, (T)1.67638483018380384940, (T)6.89767334985100004550e-1,
                     (T)1.48103976427480074590e-1, (T)1.51986665636164571966e-2, (T)5.47593808499534494600e-4,
                     (T)1.05075007164441684324e-9);
  return FN(poly7)(r - 5, (T)6.65790464350110377720, (T)5.46378491116411436990, (T)1.78482653991729133580,
                   (T)2.96560571828504891230e-1, (T)2.65321895265761230930e-2, (T)1.24266094738807843860e-3,
                   (T)2.71155556874348757815e-5, (T)2.01033439929228813265e-7) /
         FN(poly7)(r - 5, 1, (T)5.99832206555887937690e-1, (T)1.36929880922735805310e-1, (T)1.48753612908506148525e-2,
                   (T)7.86869131145613259100e-4, (T)1.84631831751005468180e-5, (T)1.42151175831644588870e-7,
                   (T)2.04426310338993978564e-15);
}
DEVICE T FN(erf_inverse)(T x) {
  const T root_half = (T)0.70710678118654752440, q = x / 2;
  if (fabs(q) <= (T)0.425) {
    const T r = (T)0.180625 - q * q;
    return root_half * q *
           FN(poly7)(r, (T)3.3871328727963666080, (T)133.14166789178437745, (T)1971.5909503065514427,
                     (T)13731.693765509461125, (T)45921.953931549871457, (T)67265.770927008700853,
                     (T)33430.575583588128105, (T)2509.0809287301226727) /
           FN(poly7)(r, 1, (T)42.313330701600911252, (T)687.18700749205790830, (T)5394.1960214247511077,
                     (T)21213.794301586595867, (T)39307.895800092710610, (T)28729.085735721942674,
                     (T)5226.4952788528545610);
  }
  if (fabs(x) == 1) return x * INFINITY;
  return copysign(root_half * FN(erf_inverse_tail)(sqrt(-log((1 - fabs(x)) / 2))), x);
}

/* The derivative of log gamma: recurrence and reflection (Abramowitz and Stegun 6.3.5, 6.3.7) lead to arguments from 10
   on, for the asymptotic series (6.3.18). */
DEVICE T FN(digamma)(T x) {
  if (x == 0) return copysign((T)INFINITY, -x);
  T y = 0;
  if (x < 0) {
    if (x == trunc(x)) return NAN;
    y = -PI / tan(PI * (x - rint(x)));
    x = 1 - x;
  }
  for (; x < 10; x += 1) y -= 1 / x;
  const T z = 1 / (x * x);
  const T series = FN(poly7)(z, (T)(1.0 / 12), (T)(-1.0 / 120), (T)(1.0 / 252), (T)(-1.0 / 240), (T)(1.0 / 132),
                             (T)(-691.0 / 32760), (T)(1.0 / 12), 0);
  return y + log(x) - (T)0.5 / x - z * series;
}

/* The sum of (x + k)^-s over all k >= 0, for x > 0 and s > 1: ten terms, and Euler and Maclaurin's formula for the rest
   (Abramowitz and Stegun 23.1.30); the coefficients are B(2j) / (2j)!. */
NOINLINE T FN(zeta)(T s, T x) {
  T sum = 0;
  for (int k = 0; k < 10; k++) sum += pow(x + (T)k, -s);
  x += 10;
  const T z = 1 / (x * x);
  T rest = (T)(-691.0 / 1307674368000.0);
  rest = (T)(1.0 / 47900160) + (s + 9) * (s + 10) * z * rest;
  rest = (T)(-1.0 / 1209600) + (s + 7) * (s + 8) * z * rest;
  rest = (T)(1.0 / 30240) + (s + 5) * (s + 6) * z * rest;
  rest = (T)(-1.0 / 720) + (s + 3) * (s + 4) * z * rest;
  rest = (T)(1.0 / 12) + (s + 1) * (s + 2) * z * rest;
  return sum + pow(x, 1 - s) / (s - 1) + pow(x, -s) * ((T)0.5 + s / x * rest);
}

/* zeta(s, x) - zeta(s, x + d), for |d| < x: the same formulas, each power as a difference, which does not cancel. */
DEVICE T FN(power_gap)(T p, T x, T d) { return -pow(x, -p) * expm1(-p * log1p(d / x)); }
DEVICE T FN(zeta_gap)(T s, T x, T d) {
  const T b[] = { (T)(1.0 / 12),       (T)(-1.0 / 720),     (T)(1.0 / 30240),
                  (T)(-1.0 / 1209600), (T)(1.0 / 47900160), (T)(-691.0 / 1307674368000.0) };
  T sum = 0, rising = s;
  for (int k = 0; k < 10; k++) sum += FN(power_gap)(s, x + (T)k, d);
  x += 10;
  sum += FN(power_gap)(s - 1, x, d) / (s - 1) + FN(power_gap)(s, x, d) / 2;
  for (int j = 1; j < 12; j += 2) {
    sum += b[j / 2] * rising * FN(power_gap)(s + (T)j, x, d);
    rising *= (s + (T)j) * (s + (T)(j + 1));
  }
  return sum;
}

/* The n-th derivative of digamma (Abramowitz and Stegun 6.4.10), n a whole number. For x < 0 the sum of the negative
   terms is a difference of two sums of positive ones; of an even n, halfway between two poles the rest is small. At the
   poles the sign is that of x = 0. */
NOINLINE T FN(digamma_derivative)(T n, T x) {
  if (n == 0) return FN(digamma)(x);
  T factorial = 1, sum;
  for (T k = 2; k <= n; k += 1) factorial *= k;
  const T sign = fmod(n, (T)2) == 0 ? -1 : 1;
  if (x <= 0 && x == trunc(x)) sum = x - x + INFINITY; /* NaN for -Inf */
  else if (x > 0 || x != x) sum = FN(zeta)(n + 1, x);
  else {
    const T near = trunc(x) - x;
    if (sign < 0 && fabs(near - (T)0.5) < (T)0.25)
      sum = FN(zeta_gap)(n + 1, 1 - near, 2 * near - 1) + FN(zeta)(n + 1, 1 - x);
    else sum = FN(zeta)(n + 1, 1 - near) + sign * (FN(zeta)(n + 1, near) - FN(zeta)(n + 1, 1 - x));
  }
  return sign * factorial * sum;
}

/* Modified Bessel function of the first kind, of order 0 or 1: the power series, whose terms are all positive
   (Abramowitz and Stegun 9.6.10), for large arguments the asymptotic one (9.7.1). */
DEVICE T FN(bessel_i)(int order, T x) {
  const T a = fabs(x), q = a * a / 4;
  T term = a < 25 && order ? a / 2 : 1, sum = term;
  if (a < 25) {
    for (int k = 1; k < 100 && term + sum != sum; k++) sum += term *= q / (T)(k * (k + order));
  } else {
    for (int k = 1; k < 40 && term + sum != sum; k++)
      sum += term *= (T)((2 * k - 1) * (2 * k - 1) - 4 * order) / (8 * a * (T)k);
    /* exp(a) may be infinite where the product is not. */
    sum = exp(a / 2) / ((T)2.50662827463100050242 * sqrt(a)) * sum * exp(a / 2);
  }
  return order && x < 0 ? -sum : sum;
}

/* sin(pi x) / (pi x), and its derivative, -pi times a spherical Bessel function of pi x (Abramowitz and Stegun
   10.1.11): near 0, where its two terms cancel, by its series (10.1.2). */
DEVICE T FN(sinc_of)(T x) { return x == 0 ? 1 : sin(PI * x) / (PI * x); }
DEVICE T FN(sinc_slope)(T x) {
  const T z = PI * x;
  if (fabs(z) > 1) return (cos(z) - sin(z) / z) / x;
  T term = z / 3, sum = term;
  for (int k = 1; k < 10; k++) sum += term *= -z * z / (T)(2 * k * (2 * k + 3));
  return -PI * sum;
}

/* log(exp(a) + exp(b)) */
DEVICE T FN(log_add_exp)(T a, T b) {
  return a == b && fabs(a) == INFINITY ? a : FN(larger)(a, b) + log1p(exp(-fabs(a - b)));
}
/* log2(2^a + 2^b) */
DEVICE T FN(log_add_exp2)(T a, T b) {
  return a == b && fabs(a) == INFINITY ? a : FN(larger)(a, b) + log1p(exp2(-fabs(a - b))) * (T)1.44269504088896340736;
}

#undef PI
