/* Reductions of blocks of one compute type: included once for each type, after fold_steps.h.
   SPDX-License-Identifier: MIT */

/* Reduces consecutive runs of one length. The kind is dispatched once, as runs may be very short. */
ALWAYS_INLINE void FN(runs)(situ__fold f, const T *restrict x, int64_t runs, int64_t count, T *restrict out) {
  if (count >= 2 * WIDE)
    for (int64_t r = 0; r < runs; r++) out[r] = FN(run)(f, x + r * count, count);
  else if (count >= 8)
    for (int64_t r = 0; r < runs; r++) out[r] = FN(short_run)(f, x + r * count, count);
  else
    for (int64_t r = 0; r < runs; r++) out[r] = FN(total)(f, x + r * count, count);
}

/* Contiguous rows of a few elements: reduces as many at once as fit into WIDE. */
ALWAYS_INLINE void FN(narrow)(situ__fold f, const T *restrict x, int64_t rows, int64_t width, T *restrict out) {
  T wide[WIDE];
  int64_t m = 1;
  while (2 * m * width <= WIDE && 2 * m <= rows) m *= 2;
  FN(near_columns)(f, x, rows / m, m * width, wide);
  const T *rest = x + rows / m * m * width;
  for (int64_t j = 0; j < rows % m * width; j++) wide[j] = FN(step)(f, wide[j], rest[j]);
  for (m /= 2; m >= 1; m /= 2)
    for (int64_t j = 0; j < m * width; j++) wide[j] = FN(step)(f, wide[j], wide[j + m * width]);
  memcpy(out, wide, (size_t)width * sizeof(T));
}

ALWAYS_INLINE void FN(groups)(situ__fold f, const situ__fold_block *k, T *a) {
  const T *x = k->x;
  if (k->ld == 1 && k->width == 1) FN(runs)(f, x, k->groups, k->rows, a);
  else if (k->ld == k->width && 2 * k->width <= WIDE)
    for (int64_t g = 0; g < k->groups; g++)
      FN(narrow)(f, x + g * k->rows * k->width, k->rows, k->width, a + g * k->width);
  else
    for (int64_t g = 0; g < k->groups; g++)
      FN(columns)(f, x + g * k->rows * k->ld, k->ld, k->rows, k->width, a + g * k->width);
}

static void FN(plain)(situ__fold f, const situ__fold_block *k, T *a) {
  switch (f) {
  case SITU__FOLD_PROD: FN(groups)(SITU__FOLD_PROD, k, a); break;
  case SITU__FOLD_MIN: FN(groups)(SITU__FOLD_MIN, k, a); break;
  case SITU__FOLD_MAX: FN(groups)(SITU__FOLD_MAX, k, a); break;
#ifdef FLOATING
  case SITU__FOLD_TOP: FN(groups)(SITU__FOLD_TOP, k, a); break;
#endif
  default: FN(groups)(SITU__FOLD_SUM, k, a);
  }
}

static void FN(map_run)(situ__fold_map map, T p, const T *restrict x, int64_t count, T *restrict to) {
  switch (map) {
  case SITU__MAP_ABS:
    for (int64_t i = 0; i < count; i++) to[i] = MAGNITUDE(x[i]);
    break;
  case SITU__MAP_SQUARE:
    for (int64_t i = 0; i < count; i++) to[i] = TIMES(x[i], x[i]);
    break;
  case SITU__MAP_NONZERO:
    for (int64_t i = 0; i < count; i++) to[i] = (T)(x[i] != 0);
    break;
  case SITU__MAP_POWER:
    for (int64_t i = 0; i < count; i++) to[i] = POWER(MAGNITUDE(x[i]), p);
    break;
  default: memcpy(to, x, (size_t)count * sizeof(T));
  }
}

/* Copies a block without its gaps, with the map applied to each element. */
static void FN(map)(situ__fold_map map, double p, const situ__fold_block *k, T *restrict to) {
  const T *x = k->x;
  int64_t rows = k->groups * k->rows;
  if (k->ld == k->width) FN(map_run)(map, (T)p, x, rows * k->width, to);
  else
    for (int64_t r = 0; r < rows; r++) FN(map_run)(map, (T)p, x + r * k->ld, k->width, to + r * k->width);
}

#ifdef FLOATING
/* Subtracts each column's centre, and squares the difference (or takes its exp). */
ALWAYS_INLINE void FN(centred)(bool square, const situ__fold_block *k, const T *centre, T *restrict to) {
  for (int64_t g = 0; g < k->groups; g++, centre += k->width)
    for (int64_t r = 0; r < k->rows; r++, to += k->width) {
      const T *restrict x = (const T *)k->x + (g * k->rows + r) * k->ld;
      for (int64_t j = 0; j < k->width; j++) {
        T d = x[j] - centre[j];
        to[j] = square ? d * d : EXP(d);
      }
    }
}
/* The same for rows of one column, whose inner loop above would have one iteration. */
ALWAYS_INLINE void FN(centred_runs)(bool square, const situ__fold_block *k, const T *centre, T *restrict to) {
  for (int64_t g = 0; g < k->groups; g++) {
    const T *restrict x = (const T *)k->x + g * k->rows;
    T c = centre[g];
    for (int64_t r = 0; r < k->rows; r++) {
      T d = x[r] - c;
      to[g * k->rows + r] = square ? d * d : EXP(d);
    }
  }
}

ALWAYS_INLINE T FN(centred_term)(bool square, T d) { return square ? d * d : EXP(d); }

/* Sum of these of a run of WIDE elements or more, without storing the terms; from 2 * WIDE on with the bits of run. The
   run is in the L1 cache, and what lies behind it is often next: memory brings it meanwhile. */
ALWAYS_INLINE T FN(centred_total)(bool square, const T *restrict x, int64_t count, T centre) {
  T sum[WIDE] = { 0 };
  int64_t i = 0;
  while (i + WIDE <= count) {
    T part[WIDE] = { 0 };
    for (int64_t last = i + 16 * WIDE; i < last && i + WIDE <= count; i += WIDE) {
      for (int j = 0; j < WIDE; j += 64 / (int)sizeof(T))
        __builtin_prefetch((const char *)(x + i + j) + (size_t)count * sizeof(T));
      for (int j = 0; j < WIDE; j++) part[j] += FN(centred_term)(square, x[i + j] - centre);
    }
    for (int j = 0; j < WIDE; j++) sum[j] += part[j];
  }
  for (int j = 0; i < count; i++, j++) sum[j] += FN(centred_term)(square, x[i] - centre);
  return FN(run)(SITU__FOLD_SUM, sum, WIDE);
}

ALWAYS_INLINE T FN(finite)(T max) { return max - max == 0 || IS_NAN(max) ? max : 0; }

/* Two passes over a block in L1: the centre, which is in a but for infinite ones, then the sum relative to it. */
ALWAYS_INLINE void FN(around_runs)(bool square, const situ__fold_block *k, const T *a, T *b) {
  const T *x = k->x;
  for (int64_t g = 0; g < k->groups; g++, x += k->rows)
    b[g] = FN(centred_total)(square, x, k->rows, square ? a[g] : FN(finite)(a[g]));
}
static SITU__OWN_FRAME void FN(around_copied)(bool square, const situ__fold_block *k, const T *a, T *b) {
  T centre[SITU__FOLD_BLOCK], copy[SITU__FOLD_BLOCK];
  for (int64_t j = 0; j < k->groups * k->width; j++) centre[j] = square ? a[j] : FN(finite)(a[j]);
  const bool runs = k->width == 1 && k->ld == 1;
  if (runs && square) FN(centred_runs)(true, k, centre, copy);
  else if (runs) FN(centred_runs)(false, k, centre, copy);
  else if (square) FN(centred)(true, k, centre, copy);
  else FN(centred)(false, k, centre, copy);
  situ__fold_block copied = *k;
  copied.x = copy;
  copied.ld = k->width;
  FN(plain)(SITU__FOLD_SUM, &copied, b);
}
static void FN(around)(situ__fold f, const situ__fold_block *k, T *a, T *b) {
  const bool moments = f == SITU__FOLD_MOMENTS, runs = k->width == 1 && k->ld == 1;
  FN(plain)(moments ? SITU__FOLD_SUM : SITU__FOLD_TOP, k, a);
  for (int64_t j = 0; moments && j < k->groups * k->width; j++) a[j] /= (T)k->rows;
  if (!runs || k->rows < (moments ? 2 * WIDE : WIDE)) FN(around_copied)(moments, k, a, b);
  else if (moments) FN(around_runs)(true, k, a, b);
  else FN(around_runs)(false, k, a, b);
}
#endif

#ifdef FLOATING
/* Squares need no copy if each column is a run: they are those of differences from 0. */
ALWAYS_INLINE bool FN(long_runs)(const situ__fold_block *k) {
  return k->width == 1 && k->ld == 1 && k->rows >= 2 * WIDE;
}
static void FN(squares)(const situ__fold_block *k, T *a) {
  const T *x = k->x;
  for (int64_t g = 0; g < k->groups; g++, x += k->rows) a[g] = FN(centred_total)(true, x, k->rows, 0);
}
#endif

static void FN(fold_plain)(situ__fold f, const situ__fold_block *k, void *a, void *b) {
#ifdef FLOATING
  if (f >= SITU__FOLD_MOMENTS) {
    FN(around)(f, k, a, b);
    return;
  }
#else
  (void)b;
#endif
  FN(plain)(f, k, a);
}
static SITU__OWN_FRAME void FN(fold_mapped)(situ__fold f, situ__fold_map map, double p, const situ__fold_block *block,
                                            void *a, void *b) {
  T copy[SITU__FOLD_BLOCK];
  FN(map)(map, p, block, copy);
  situ__fold_block k = *block;
  k.x = copy;
  k.ld = k.width;
  FN(fold_plain)(f, &k, a, b);
}
static void FN(fold)(situ__fold f, situ__fold_map map, double p, const situ__fold_block *block, void *a, void *b) {
  if (map == SITU__MAP_NONE) FN(fold_plain)(f, block, a, b);
#ifdef FLOATING
  else if (map == SITU__MAP_SQUARE && f == SITU__FOLD_SUM && FN(long_runs)(block)) FN(squares)(block, a);
#endif
  else FN(fold_mapped)(f, map, p, block, a, b);
}

/* The kind is dispatched once. */
ALWAYS_INLINE void FN(join)(situ__fold f, int64_t count, T *restrict a, const T *restrict c) {
  for (int64_t j = 0; j < count; j++) a[j] = FN(step)(f, a[j], c[j]);
}
static void FN(merge)(situ__fold f, int64_t count, void *a_, void *b_, int64_t n, const void *c_, const void *d_,
                      int64_t m) {
  T *a = a_;
  const T *c = c_;
#ifdef FLOATING
  T *b = b_;
  const T *d = d_;
  if (f == SITU__FOLD_MOMENTS) {
    /* Chan, Golub and LeVeque: the merged mean is the weighted mean. */
    T share = (T)m / (T)(n + m), both = (T)n * share;
    for (int64_t j = 0; j < count; j++) {
      T delta = c[j] - a[j];
      a[j] += delta * share;
      b[j] += d[j] + delta * delta * both;
    }
    return;
  }
  if (f == SITU__FOLD_LOGSUM) {
    for (int64_t j = 0; j < count; j++) {
      T max = FN(step)(SITU__FOLD_MAX, a[j], c[j]), to = FN(finite)(max);
      /* A sum of 0 consists of -Inf only: it adds nothing, whatever its factor. */
      T left = b[j] == 0 ? 0 : b[j] * EXP(FN(finite)(a[j]) - to);
      T right = d[j] == 0 ? 0 : d[j] * EXP(FN(finite)(c[j]) - to);
      a[j] = max;
      b[j] = left + right;
    }
    return;
  }
#else
  (void)b_, (void)d_, (void)n, (void)m;
#endif
  switch (f) {
  case SITU__FOLD_PROD: FN(join)(SITU__FOLD_PROD, count, a, c); break;
  case SITU__FOLD_MIN: FN(join)(SITU__FOLD_MIN, count, a, c); break;
  case SITU__FOLD_MAX: FN(join)(SITU__FOLD_MAX, count, a, c); break;
  default: FN(join)(SITU__FOLD_SUM, count, a, c);
  }
}

static int64_t FN(find)(const void *x_, int64_t count, const void *v_) {
  const T *x = x_, v = *(const T *)v_;
  int64_t i = 0;
  for (; i + WIDE <= count; i += WIDE) {
    int hit = 0; /* without an early exit, so that the loop is vectorised */
    for (int j = 0; j < WIDE; j++) hit |= (x[i + j] == v) | (IS_NAN(v) & IS_NAN(x[i + j]));
    if (hit) break;
  }
  while (i < count && x[i] != v && !(IS_NAN(v) && IS_NAN(x[i]))) i++;
  return i;
}

ALWAYS_INLINE void FN(arg_columns_of)(bool greatest, const T *restrict x, int64_t ld, int64_t rows, int64_t width,
                                      int64_t first, T *restrict best, int64_t *restrict at) {
  for (int64_t r = 0; r < rows; r++)
    for (int64_t j = 0; j < width; j++) {
      T v = x[r * ld + j], b = best[j];
      bool take = ((greatest ? v > b : v < b) | IS_NAN(v)) & !IS_NAN(b);
      best[j] = take ? v : b;
      at[j] = take ? first + r : at[j];
    }
}
static void FN(arg_columns)(bool greatest, const void *x, int64_t ld, int64_t rows, int64_t width, int64_t first,
                            void *best, int64_t *at) {
  if (greatest) FN(arg_columns_of)(true, x, ld, rows, width, first, best, at);
  else FN(arg_columns_of)(false, x, ld, rows, width, first, best, at);
}
