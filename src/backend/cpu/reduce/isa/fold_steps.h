/* Reduction steps for one compute type: included once for each type, with T, FN(name), PLUS, TIMES and IS_NAN
   defined. Sums are trees, which is both fast (no long dependency chain) and more accurate than a plain loop.
   SPDX-License-Identifier: MIT */

/* One step. NaN propagates: comparisons with a NaN a keep a, so only b is tested. */
ALWAYS_INLINE T FN(step)(situ__fold fold, T a, T b) {
  T least = b < a ? b : a, greatest = b > a ? b : a;
  switch (fold) {
  case SITU__FOLD_PROD: return TIMES(a, b);
  case SITU__FOLD_MIN: return IS_NAN(b) ? b : least;
  case SITU__FOLD_MAX: return IS_NAN(b) ? b : greatest;
  case SITU__FOLD_TOP: return greatest;
  default: return PLUS(a, b);
  }
}

/* Reduces `rows` rows, ld apart, into out[width]; four rows are combined before they reach out. */
ALWAYS_INLINE void FN(columns)(situ__fold f, const T *restrict x, int64_t ld, int64_t rows, int64_t width,
                               T *restrict out) {
  memcpy(out, x, (size_t)width * sizeof(T));
  int64_t r = 1;
  for (; r + 4 <= rows; r += 4) {
    const T *restrict a = x + r * ld, *restrict b = a + ld, *restrict c = b + ld, *restrict d = c + ld;
    for (int64_t j = 0; j < width; j++)
      out[j] = FN(step)(f, out[j], FN(step)(f, FN(step)(f, a[j], b[j]), FN(step)(f, c[j], d[j])));
  }
  for (; r < rows; r++)
    for (int64_t j = 0; j < width; j++) out[j] = FN(step)(f, out[j], x[r * ld + j]);
}

/* The same for narrow contiguous rows (width <= WIDE). Reads strictly in memory order: reading several rows at once
   looks like jumps to the prefetcher, and is three times slower on uncached data. */
ALWAYS_INLINE void FN(near_columns)(situ__fold f, const T *restrict x, int64_t rows, int64_t width, T *restrict out) {
  for (int64_t r = 0; r < rows; r += 16) {
    T part[WIDE];
    memcpy(part, x + r * width, (size_t)width * sizeof(T));
    for (int64_t i = r + 1; i < r + 16 && i < rows; i++)
      for (int64_t j = 0; j < width; j++) part[j] = FN(step)(f, part[j], x[i * width + j]);
    if (!r) memcpy(out, part, (size_t)width * sizeof(T));
    else
      for (int64_t j = 0; j < width; j++) out[j] = FN(step)(f, out[j], part[j]);
  }
}

/* Constants wherever this is inlined, so that the compiler keeps partial results in registers. */
ALWAYS_INLINE void FN(halve)(situ__fold f, T *partial, int half) {
  ROLLED for (int j = 0; j < half; j++) partial[j] = FN(step)(f, partial[j], partial[j + half]);
}
ALWAYS_INLINE T FN(combined)(situ__fold f, T partial[WIDE]) {
  _Static_assert(WIDE == 64, "the halves");
  FN(halve)(f, partial, 32);
  FN(halve)(f, partial, 16);
  FN(halve)(f, partial, 8);
  FN(halve)(f, partial, 4);
  FN(halve)(f, partial, 2);
  return FN(step)(f, partial[0], partial[1]);
}

/* Reduces a long run: WIDE partial results, which are combined by halves at the end. */
ALWAYS_INLINE T FN(run)(situ__fold f, const T *restrict x, int64_t count) {
  T sum[WIDE];
  FN(near_columns)(f, x, count / WIDE, WIDE, sum);
  for (int64_t i = count / WIDE * WIDE, j = 0; i < count; i++, j++) sum[j] = FN(step)(f, sum[j], x[i]);
  return FN(combined)(f, sum);
}

/* A short run: eight partial results in registers (a vector type, as an array would go through memory). */
typedef T FN(eight) __attribute__((vector_size(8 * sizeof(T)), aligned(sizeof(T)), may_alias));
ALWAYS_INLINE T FN(short_run)(situ__fold f, const T *restrict x, int64_t count) {
  FN(eight) sum = *(const FN(eight) *)x;
  int64_t i = 8;
  for (; i + 8 <= count; i += 8)
    for (int j = 0; j < 8; j++) sum[j] = FN(step)(f, sum[j], x[i + j]);
  for (int j = 0; i < count; i++, j++) sum[j] = FN(step)(f, sum[j], x[i]);
  T a = FN(step)(f, FN(step)(f, sum[0], sum[4]), FN(step)(f, sum[2], sum[6]));
  T b = FN(step)(f, FN(step)(f, sum[1], sum[5]), FN(step)(f, sum[3], sum[7]));
  return FN(step)(f, a, b);
}

/* Reduces one run of any length. */
ALWAYS_INLINE T FN(total)(situ__fold f, const T *restrict x, int64_t count) {
  if (count >= 2 * WIDE) return FN(run)(f, x, count);
  if (count >= 8) return FN(short_run)(f, x, count);
  T v = x[0];
  for (int64_t i = 1; i < count; i++) v = FN(step)(f, v, x[i]);
  return v;
}
