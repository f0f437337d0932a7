/* Roots of unity for the floating type T. Included once for each T.
   SPDX-License-Identifier: MIT */

/* e^(-2 pi i j / n) for 0 <= j < n. The angle is reduced to an eighth of a turn in integers, so that the error is that
   of rounding an angle of at most pi / 4. */
DEVICE void FN(root)(I64 j, I64 n, T *re, T *im) {
  const I64 eighth = 8 * j / n, rest = 8 * j - eighth * n;
  const T angle = (T)(eighth & 1 ? n - rest : rest) * (T)0.78539816339744830962 / (T)n;
  const T c = cos(angle), s = sin(angle);
  const bool swap = ((eighth + 1) & 2) != 0;
  const T x = swap ? s : c, y = swap ? c : s;
  *re = (eighth + 2) & 4 ? -x : x;
  *im = eighth & 4 ? y : -y;
}
