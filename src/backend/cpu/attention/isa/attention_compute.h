/* Rows of attention's scores for one compute type: included once for each type, after fold_steps.h.
   SPDX-License-Identifier: MIT */

/* Writes -infinity to the columns of row r that it does not see, and up to whole steps of the loops. Returns how many
   columns that makes. */
ALWAYS_INLINE int64_t FN(close_row)(const situ__scores *s, int64_t r, T *x) {
  const int64_t unit = s->columns < 2 * WIDE ? 16 : WIDE, full = (s->columns + unit - 1) / unit * unit,
                sees = s->seen + r * s->step;
  for (int64_t i = sees < 0 ? 0 : sees < s->columns ? sees : s->columns; i < full; i++) x[i] = -INFINITY;
  return full;
}

ALWAYS_INLINE void FN(scale_row)(T *x, T factor, int64_t count) {
  for (int64_t i = 0; i < count; i++) x[i] *= factor;
}

/* A NaN reaches the row through the sum, so the maximum need not check for it. Relative to 0, exponentials of -infinity
   are 0. */
static void FN(soften)(const situ__scores *s, bool first, void *most_, void *total_, void *y_, int64_t width,
                       int64_t y_ld) {
  T *x = s->data, *most = most_, *total = total_, *y = y_;
  for (int64_t r = 0; r < s->rows; r++, x += s->ld, y += y_ld) {
    const int64_t count = FN(close_row)(s, r, x);
    const T before = first ? -INFINITY : most[r], top = FN(step)(SITU__FOLD_TOP, before, FN(top)(x, count)),
            centre = top == -INFINITY ? 0 : top;
    const T sum = FN(exp_total)(x, centre, count);
    most[r] = top;
    if (first) {
      total[r] = sum;
    } else if (top == before) {
      total[r] += sum;
    } else {
      const T factor = EXP(before - centre);
      total[r] = total[r] * factor + sum;
      FN(scale_row)(y, factor, width);
    }
  }
}

static void FN(finish)(int64_t rows, void *most_, const void *total_, void *y_, int64_t width, int64_t y_ld) {
  T *most = most_, *y = y_;
  const T *total = total_;
  for (int64_t r = 0; r < rows; r++, y += y_ld) {
    most[r] = total[r] == 0 ? INFINITY : most[r] + log(total[r]);
    FN(scale_row)(y, total[r] == 0 ? 0 : 1 / total[r], width);
  }
}

static void FN(weigh)(const situ__scores *s, const void *stats_) {
  T *x = s->data;
  const T *stats = stats_;
  for (int64_t r = 0; r < s->rows; r++, x += s->ld) (void)FN(exp_total)(x, stats[r], FN(close_row)(s, r, x));
}

static void FN(slope)(const situ__scores *s, void *d_, const void *delta_) {
  const T *weights = s->data, *delta = delta_;
  T *d = d_;
  for (int64_t r = 0; r < s->rows; r++) {
    const T *restrict x = weights + r * s->ld, centre = delta[r];
    T *restrict y = d + r * s->ld;
    for (int64_t i = 0; i < s->columns; i++) y[i] = x[i] * (y[i] - centre);
  }
}

static void FN(mask)(bool choice, const void *mask_, int64_t count, void *x_) {
  const T *restrict mask = mask_;
  T *restrict x = x_;
  if (choice)
    for (int64_t i = 0; i < count; i++) x[i] = mask[i] != 0 ? x[i] : -INFINITY;
  else
    for (int64_t i = 0; i < count; i++) x[i] += mask[i];
}

static void FN(drop)(const uint32_t *words, double keep, int64_t count, void *x_) {
  T *restrict x = x_;
  const float least = (float)keep;
  const T factor = keep > 0 ? (T)(1 / keep) : 0;
  for (int64_t i = 0; i < count; i++) x[i] = uniform_f32(words[i], 24) < least ? x[i] * factor : 0;
}

static void FN(scaled)(int64_t rows, int64_t width, const void *x_, int64_t x_row, int64_t x_col, double scale,
                       void *y_, int64_t y_ld) {
  const T factor = (T)scale, *x = x_;
  T *y = y_;
  for (int64_t r = 0; r < rows; r++, x += x_row, y += y_ld)
    if (x_col == 1)
      for (int64_t i = 0; i < width; i++) y[i] = x[i] * factor;
    else
      for (int64_t i = 0; i < width; i++) y[i] = x[i * x_col] * factor;
}

static void FN(dots)(int64_t rows, int64_t width, const void *a_, int64_t a_ld, const void *b_, int64_t b_ld,
                     void *y_) {
  enum { PART = 64 };
  T part[PART], *y = y_;
  for (int64_t r = 0; r < rows; r++) {
    const T *a = (const T *)a_ + r * a_ld, *b = (const T *)b_ + r * b_ld;
    T sum = 0;
    for (int64_t at = 0, n; at < width; at += n) {
      n = width - at < PART ? width - at : PART;
      for (int64_t i = 0; i < n; i++) part[i] = a[at + i] * b[at + i];
      sum += FN(total)(SITU__FOLD_SUM, part, n);
    }
    y[r] = sum;
  }
}
