/* f32 functions without branches, for OpenCL on CPUs: compilers vectorise loops over them, which they do not over most
   of the driver's own functions (PoCL's erf: 60 ns an element). The cpu uses them too, where there are fused
   multiply-adds (isa/branchless.h, which defines OF_F32): in recurrent cells, as inline they are faster than calls of
   the C library, and in rows where that has no vectors. Error at most 2.5 ULP, NaN and Inf as in C. The polynomials
   were fitted for this file.
   SPDX-License-Identifier: MIT */
#ifdef OF_F32
#define OF_F64(name)
#define HELPER static inline __attribute__((always_inline))
#else
#define HELPER static
#define OF_F32(name) __attribute__((overloadable)) static float name##_of(float x)
#ifdef DIALECT_F64
#define OF_F64(name) \
  __attribute__((overloadable)) static double name##_of(double x) { return name(x); }
#else
#define OF_F64(name)
#endif
#endif

/* ln 2 in two parts: the first has so few bits that a multiple of it is exact. */
#define LN2_HIGH 0.693359375f
#define LN2_LOW -2.12194440e-4f

/* c0 + c1 x + ..., arguments from the highest coefficient to the lowest. */
#define POLY_1(x, c1, c0) fma(c1, x, c0)
#define POLY_2(x, c2, c1, c0) fma(POLY_1(x, c2, c1), x, c0)
#define POLY_3(x, c3, c2, c1, c0) fma(POLY_2(x, c3, c2, c1), x, c0)
#define POLY_4(x, c4, c3, c2, c1, c0) fma(POLY_3(x, c4, c3, c2, c1), x, c0)
#define POLY_5(x, c5, c4, c3, c2, c1, c0) fma(POLY_4(x, c5, c4, c3, c2, c1), x, c0)
#define POLY_7(x, c7, c6, c5, c4, c3, c2, c1, c0) fma(fma(POLY_5(x, c7, c6, c5, c4, c3, c2), x, c1), x, c0)

/* e^r, where x = n ln 2 + r and |r| <= ln 2 / 2. Floats as large as MAGIC have no fraction, so adding it rounds, and
   the bits of the sum count n; a NaN, which no int is, gives some n. */
#define MAGIC 12582912.0f
HELPER float exp_rest(float x, int *integer) {
  const float sum = fma(x, 1.44269504f, MAGIC), n = sum - MAGIC, r = fma(n, -LN2_LOW, fma(n, -LN2_HIGH, x));
  const float p = POLY_4(r, 0.00139508012f, 0.00836907327f, 0.0416662022f, 0.166665167f, 0.5f);
  *integer = as_int(sum) - as_int(MAGIC);
  return fma(p * r, r, r) + 1;
}
#define POWER_OF_2(n) as_float((int)((unsigned)((n) + 127) << 23))

/* Multiplies by 2^(n/2) twice, as 2^n alone may not be a normal number; where |x| < 80 it is. */
OF_F32(exp) {
  int n;
  const float y = exp_rest(x > 89 ? 89 : x < -104 ? -104 : x, &n);
  return y * POWER_OF_2(n >> 1) * POWER_OF_2(n - (n >> 1));
}
HELPER float exp_near(float x) {
  int n;
  const float y = exp_rest(x, &n);
  return y * POWER_OF_2(n);
}

OF_F32(expm1) {
  const float p = POLY_5(x, 1.9990468e-4f, 0.0013997542f, 0.00833308231f, 0.0416653119f, 0.166666687f, 0.50000006f);
  return copysign(fabs(x) < 0.5f ? fma(p * x, x, x) : exp_of(x) - 1, x); /* keeps -0, here and below */
}

/* x = 2^n (1 + f), with 1 + f in [sqrt(1/2), sqrt(2)]. Subnormal numbers are scaled up first. */
OF_F32(log) {
  const bool small = x < 0x1p-126f;
  const unsigned bits = (unsigned)as_int(small ? x * 0x1p23f : x);
  const int n = (int)(bits - 0x3f3504f3u) >> 23;
  const float f = as_float(bits - ((unsigned)n << 23)) - 1, e = (float)(small ? n - 23 : n), z = f * f;
  const float p = POLY_7(f, -0.0763422549f, 0.127614677f, -0.131602332f, 0.142017767f, -0.16623354f, 0.200012267f,
                         -0.250008225f, 0.333333313f);
  const float y = f + fma(p * f, z, fma(e, LN2_LOW, -0.5f * z)) + e * LN2_HIGH;
  return x > 0 ? (x < INFINITY ? y : x) : x == 0 ? -INFINITY : NAN;
}

/* A factor restores what 1 + x rounded off. */
OF_F32(log1p) {
  const float u = 1 + x, d = u - 1, y = log_of(u) * (x / d);
  return d == 0 || x == INFINITY ? x : y;
}

OF_F32(tanh) {
  const float s = x * x, far = 1 - 2 / (exp_near(fabs(x) > 20 ? 40 : 2 * fabs(x)) + 1);
  const float p = POLY_4(s, -0.00571701117f, 0.0206505544f, -0.0537434854f, 0.133314908f, -0.333332837f);
  return copysign(fabs(x) < 0.625f ? fma(p * s, x, x) : far, x);
}

/* Near 0 a polynomial of x, elsewhere 1 - e^(a polynomial of |x|); from 4.1 on the result is 1. */
OF_F32(erf) {
  const float s = x * x, t = fabs(x) > 4.1f ? 4.1f : fabs(x);
  const float near =
      POLY_5(s, 7.93308354e-5f, -8.03502393e-4f, 0.00519129075f, -0.0268554837f, 0.112836301f, -0.376126319f) * s;
  const float p = POLY_7(t, -2.09098398e-5f, 4.32306115e-4f, -0.00416054111f, 0.0250915326f, -0.10823667f,
                         -0.633386612f, -1.12949514f, 1.70555941e-4f);
  return copysign(fabs(x) < 0.9f ? fma(near, x, 0.128379167f * x) + x : 1 - exp_near(p), x);
}

OF_F64(exp)
OF_F64(expm1)
OF_F64(log)
OF_F64(log1p)
OF_F64(tanh)
OF_F64(erf)
#define exp(x) exp_of(x)
#define expm1(x) expm1_of(x)
#define log(x) log_of(x)
#define log1p(x) log1p_of(x)
#define tanh(x) tanh_of(x)
#define erf(x) erf_of(x)
