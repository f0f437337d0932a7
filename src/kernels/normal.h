/* Normal random numbers for the floating type T, by the Box-Muller method. Included once for each T, after random.h.
   SPDX-License-Identifier: MIT

   Library functions differ in their last bits between devices, so logarithm, sine and cosine are Taylor series here,
   long enough for T on the short interval where they are used. */

/* ln u for u in (0, 1]: k ln 2, and ln m as 2 artanh((m - 1) / (m + 1)). */
DEVICE T FN(random_log)(T u) {
  const int terms = sizeof(T) == 4 ? 4 : 10;
  I32 k;
  T m = FN(split)(u, &k);
  T s = (m - 1) / (m + 1), z = s * s, sum = 0;
  for (int i = terms; i > 0; i--) sum = (sum + (T)1 / (T)(2 * i + 1)) * z;
  return (T)k * (T)0.69314718055994530942 + 2 * s * (1 + sum);
}

/* Two independent standard normal numbers, from u in (0, 1] and an angle: quarter turns, and x in [-pi/4, pi/4]. */
DEVICE void FN(normal_pair)(T u, U32 quarter, T x, T *first, T *second) {
  const int terms = sizeof(T) == 4 ? 5 : 8;
  T radius = sqrt(-2 * FN(random_log)(u)), z = x * x, sine = 1, cosine = 1;
  for (int i = terms; i > 0; i--) {
    sine = 1 - sine * z * ((T)1 / (T)(2 * i * (2 * i + 1)));
    cosine = 1 - cosine * z * ((T)1 / (T)(2 * i * (2 * i - 1)));
  }
  sine *= x;
  T a = quarter & 1 ? sine : cosine, b = quarter & 1 ? cosine : sine;
  *first = radius * (quarter == 1 || quarter == 2 ? -a : a);
  *second = radius * (quarter >= 2 ? -b : b);
}
