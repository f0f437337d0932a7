/* Rows and columns of one compute type: included once for each type, after fold_steps.h. Each kernel makes several
   short passes over a row in L1; each pass is a loop that compilers vectorise.
   SPDX-License-Identifier: MIT */

/* ---- softmax ---- */

ALWAYS_INLINE void FN(exp_off)(const T *restrict x, T centre, int64_t count, T *restrict y) {
  for (int64_t i = 0; i < count; i++) y[i] = EXP(x[i] - centre);
}

/* A NaN reaches all elements of its row through the sum, so the maximum need not check for it. Relative to 0,
   exponentials of -Inf are 0, and so is their sum. */
static void FN(softmax)(bool log_of, bool masked, const void *x_, void *y_, int64_t rows, int64_t width) {
  for (int64_t r = 0; r < rows; r++) {
    const T *restrict x = (const T *)x_ + r * width;
    T *restrict y = (T *)y_ + r * width;
    T max = FN(total)(SITU__FOLD_TOP, x, width);
    if (masked && max == -INFINITY) max = 0;
    FN(exp_off)(x, max, width, y);
    T sum = FN(total)(SITU__FOLD_SUM, y, width);
    if (masked && sum == 0) sum = 1;
    T factor = 1 / sum, shift = log(sum);
    if (log_of)
      for (int64_t i = 0; i < width; i++) y[i] = x[i] - max - shift;
    else
      for (int64_t i = 0; i < width; i++) y[i] *= factor;
  }
}

static void FN(softmax_columns)(bool log_of, bool masked, const void *x_, void *y_, int64_t rows, int64_t width,
                                int64_t ld) {
  const T *x = x_;
  T *y = y_, max[SITU__COLUMNS], sum[SITU__COLUMNS];
  FN(columns)(SITU__FOLD_TOP, x, ld, rows, width, max);
  for (int64_t j = 0; masked && j < width; j++)
    if (max[j] == -INFINITY) max[j] = 0;
  for (int64_t r = 0; r < rows; r++) {
    const T *restrict from = x + r * ld;
    T *restrict to = y + r * ld;
    for (int64_t j = 0; j < width; j++) to[j] = EXP(from[j] - max[j]);
  }
  FN(columns)(SITU__FOLD_SUM, y, ld, rows, width, sum);
  for (int64_t j = 0; masked && j < width; j++)
    if (sum[j] == 0) sum[j] = 1;
  for (int64_t j = 0; j < width; j++) sum[j] = log_of ? log(sum[j]) : 1 / sum[j];
  for (int64_t r = 0; r < rows; r++) {
    const T *restrict from = x + r * ld;
    T *restrict to = y + r * ld;
    if (log_of)
      for (int64_t j = 0; j < width; j++) to[j] = from[j] - max[j] - sum[j];
    else
      for (int64_t j = 0; j < width; j++) to[j] *= sum[j];
  }
}

/* dx = y (g - sum(y g)); for log_softmax: g - exp(y) sum(g). */
static void FN(softmax_grad)(bool log_of, const void *y_, const void *g_, void *dx_, int64_t rows, int64_t width) {
  for (int64_t r = 0; r < rows; r++) {
    const T *restrict y = (const T *)y_ + r * width, *restrict g = (const T *)g_ + r * width;
    T *restrict dx = (T *)dx_ + r * width;
    if (log_of) {
      T sum = FN(total)(SITU__FOLD_SUM, g, width);
      for (int64_t i = 0; i < width; i++) dx[i] = g[i] - EXP(y[i]) * sum;
    } else {
      for (int64_t i = 0; i < width; i++) dx[i] = y[i] * g[i];
      T sum = FN(total)(SITU__FOLD_SUM, dx, width);
      for (int64_t i = 0; i < width; i++) dx[i] = y[i] * (g[i] - sum);
    }
  }
}

static void FN(softmax_grad_columns)(bool log_of, const void *y_, const void *g_, void *dx_, int64_t rows,
                                     int64_t width, int64_t ld) {
  T sum[SITU__COLUMNS], *dx = dx_;
  if (!log_of)
    for (int64_t r = 0; r < rows; r++) {
      const T *restrict y = (const T *)y_ + r * ld, *restrict g = (const T *)g_ + r * ld;
      T *restrict to = dx + r * ld;
      for (int64_t j = 0; j < width; j++) to[j] = y[j] * g[j];
    }
  FN(columns)(SITU__FOLD_SUM, log_of ? g_ : dx_, ld, rows, width, sum);
  for (int64_t r = 0; r < rows; r++) {
    const T *restrict y = (const T *)y_ + r * ld, *restrict g = (const T *)g_ + r * ld;
    T *restrict to = dx + r * ld;
    if (log_of)
      for (int64_t j = 0; j < width; j++) to[j] = g[j] - EXP(y[j]) * sum[j];
    else
      for (int64_t j = 0; j < width; j++) to[j] = y[j] * (g[j] - sum[j]);
  }
}

/* ---- layer_norm and rms_norm ---- */

ALWAYS_INLINE void FN(scale)(const T *restrict x, T mean, T rstd, const T *restrict w, const T *restrict b,
                             int64_t width, T *restrict y) {
  if (w && b)
    for (int64_t i = 0; i < width; i++) y[i] = (x[i] - mean) * rstd * w[i] + b[i];
  else if (w)
    for (int64_t i = 0; i < width; i++) y[i] = (x[i] - mean) * rstd * w[i];
  else if (b)
    for (int64_t i = 0; i < width; i++) y[i] = (x[i] - mean) * rstd + b[i];
  else
    for (int64_t i = 0; i < width; i++) y[i] = (x[i] - mean) * rstd;
}

static void FN(norm)(const situ__norm_rows *n) {
  for (int64_t r = 0; r < n->rows; r++) {
    const T *restrict x = (const T *)n->x + r * n->width;
    T *restrict y = (T *)n->y + r * n->width;
    T mean = n->centred ? FN(total)(SITU__FOLD_SUM, x, n->width) / (T)n->width : 0;
    for (int64_t i = 0; i < n->width; i++) y[i] = (x[i] - mean) * (x[i] - mean);
    T var = FN(total)(SITU__FOLD_SUM, y, n->width) / (T)n->width, rstd = 1 / sqrt(var + (T)n->eps);
    FN(scale)(x, mean, rstd, n->weight, n->bias, n->width, y);
    if (n->centred) ((T *)n->mean)[r] = mean;
    ((T *)n->rstd)[r] = rstd;
  }
}

ALWAYS_INLINE void FN(norm_grad_row)(bool weighted, const T *restrict x, const T *restrict g, const T *restrict w,
                                     T mean, T rstd, int64_t width, T *restrict v, T *restrict vh, T *restrict dw,
                                     T *restrict db) {
  for (int64_t i = 0; i < width; i++) {
    T h = (x[i] - mean) * rstd, vi = weighted ? g[i] * w[i] : g[i];
    v[i] = vi;
    vh[i] = vi * h;
    dw[i] += g[i] * h;
    db[i] += g[i];
  }
}

/* With h = (x - mean) rstd and v = g weight: dx = rstd (v - mean(v) - h mean(v h)), dweight = g h, dbias = g; rms_norm
   has no mean, and so no mean(v) term. */
static void FN(norm_grad)(const situ__norm_rows *n) {
  T *restrict v = n->scratch[0], *restrict vh = n->scratch[1];
  for (int64_t r = 0; r < n->rows; r++) {
    const T *restrict x = (const T *)n->x + r * n->width, *restrict g = (const T *)n->g + r * n->width,
                      *restrict w = n->weight;
    T mean = n->centred ? ((const T *)n->mean)[r] : 0, rstd = ((const T *)n->rstd)[r];
    if (w) FN(norm_grad_row)(true, x, g, w, mean, rstd, n->width, v, vh, n->dweight, n->dbias);
    else FN(norm_grad_row)(false, x, g, w, mean, rstd, n->width, v, vh, n->dweight, n->dbias);
    if (!n->dx) continue;
    T *restrict dx = (T *)n->dx + r * n->width;
    T a = n->centred ? FN(total)(SITU__FOLD_SUM, v, n->width) / (T)n->width : 0;
    T b = FN(total)(SITU__FOLD_SUM, vh, n->width) / (T)n->width * rstd;
    for (int64_t i = 0; i < n->width; i++) dx[i] = rstd * (v[i] - a - (x[i] - mean) * b);
  }
}

/* ---- batch_norm and cross_entropy: parameters of the whole run (step 0) or of each element (step 1) ---- */

ALWAYS_INLINE void FN(affine_by)(int64_t step, const T *restrict x, int64_t count, const T *restrict mean,
                                 const T *restrict factor, const T *restrict shift, T *restrict y) {
  for (int64_t i = 0; i < count; i++) y[i] = (x[i] - mean[i * step]) * factor[i * step] + shift[i * step];
}
static void FN(affine)(bool each, const void *x, int64_t count, const void *mean, const void *factor, const void *shift,
                       void *y) {
  if (each) FN(affine_by)(1, x, count, mean, factor, shift, y);
  else FN(affine_by)(0, x, count, mean, factor, shift, y);
}

ALWAYS_INLINE void FN(affine_grad_by)(int64_t step, const T *restrict g, const T *restrict x, int64_t count,
                                      const T *restrict mean, const T *restrict a, const T *restrict b,
                                      const T *restrict c, T *restrict dx) {
  for (int64_t i = 0; i < count; i++) dx[i] = g[i] * a[i * step] - (x[i] - mean[i * step]) * b[i * step] - c[i * step];
}
static void FN(affine_grad)(bool each, const void *g, const void *x, int64_t count, const void *mean, const void *a,
                            const void *b, const void *c, void *dx) {
  if (each) FN(affine_grad_by)(1, g, x, count, mean, a, b, c, dx);
  else FN(affine_grad_by)(0, g, x, count, mean, a, b, c, dx);
}

static void FN(sums_each)(const T *restrict g, const T *restrict x, int64_t count, const T *restrict mean,
                          T *restrict sum, T *restrict dot) {
  for (int64_t i = 0; i < count; i++) {
    sum[i] += g[i];
    dot[i] += g[i] * (x[i] - mean[i]);
  }
}
/* Bits are those of run over g and over the products, which are not stored. */
ALWAYS_INLINE void FN(long_sums)(const T *restrict g, const T *restrict x, int64_t count, T mean, T *restrict sum,
                                 T *restrict dot) {
  T sums[WIDE], dots[WIDE];
  const int64_t rows = count / WIDE;
  for (int64_t r = 0; r < rows; r += 16) {
    T s[WIDE], d[WIDE];
    for (int j = 0; j < WIDE; j++) s[j] = g[r * WIDE + j], d[j] = g[r * WIDE + j] * (x[r * WIDE + j] - mean);
    for (int64_t i = r + 1; i < r + 16 && i < rows; i++)
      for (int j = 0; j < WIDE; j++) s[j] += g[i * WIDE + j], d[j] += g[i * WIDE + j] * (x[i * WIDE + j] - mean);
    for (int j = 0; j < WIDE; j++) sums[j] = r ? sums[j] + s[j] : s[j], dots[j] = r ? dots[j] + d[j] : d[j];
  }
  for (int64_t i = rows * WIDE, j = 0; i < count; i++, j++) sums[j] += g[i], dots[j] += g[i] * (x[i] - mean);
  *sum += FN(run)(SITU__FOLD_SUM, sums, WIDE);
  *dot += FN(run)(SITU__FOLD_SUM, dots, WIDE);
}
static void FN(sums_run)(const T *restrict g, const T *restrict x, int64_t count, T mean, T *restrict sum,
                         T *restrict dot) {
  T products[2 * WIDE];
  if (count >= 2 * WIDE) {
    FN(long_sums)(g, x, count, mean, sum, dot);
    return;
  }
  for (int64_t i = 0; i < count; i++) products[i] = g[i] * (x[i] - mean);
  *sum += FN(total)(SITU__FOLD_SUM, g, count);
  *dot += FN(total)(SITU__FOLD_SUM, products, count);
}
static void FN(sums)(bool each, const void *g, const void *x, int64_t count, const void *mean, void *sum, void *dot) {
  if (each) FN(sums_each)(g, x, count, mean, sum, dot);
  else FN(sums_run)(g, x, count, *(const T *)mean, sum, dot);
}

ALWAYS_INLINE void FN(exp_by)(int64_t step, const T *restrict x, int64_t count, const T *restrict shift,
                              const T *restrict a, const T *restrict b, const T *restrict weight, T *restrict y) {
  if (weight)
    for (int64_t i = 0; i < count; i++)
      y[i] = EXP(x[i] - shift[i * step]) * a[i * step] + b[i * step] * weight[i - i * step];
  else
    for (int64_t i = 0; i < count; i++) y[i] = EXP(x[i] - shift[i * step]) * a[i * step] + b[i * step];
}
static void FN(exp_affine)(bool each, const void *x, int64_t count, const void *shift, const void *a, const void *b,
                           const void *weight, void *y) {
  if (each) FN(exp_by)(1, x, count, shift, a, b, weight, y);
  else FN(exp_by)(0, x, count, shift, a, b, weight, y);
}
