/* One pass for one matrix, for one dtype: included by lapack.c for each. A pass returns LAPACK's answer: 0 is success.
   SPDX-License-Identifier: MIT */

/* y [rows, columns], its rows `step` apart, = x by strides. */
static void FN(arrange)(const real *x, int64_t row, int64_t column, int64_t rows, int64_t columns, real *y,
                        int64_t step) {
  for (int64_t top = 0; top < rows; top += TILE)
    for (int64_t left = 0; left < columns; left += TILE)
      for (int64_t i = top; i < situ__min_i64(top + TILE, rows); i++)
        for (int64_t k = left; k < situ__min_i64(left + TILE, columns); k++) y[i * step + k] = x[i * row + k * column];
}
static void FN(copy)(const situ_view_desc *v, int64_t item, real *y) {
  FN(arrange)
  ((const real *)(void *)item_of(v, 2, item), row_step(v), column_step(v), rows_of(v), columns_of(v), y, columns_of(v));
}
/* `step` apart, at least its rows: LAPACK's leading dimension. */
static void FN(copy_columns)(const situ_view_desc *v, int64_t item, real *y, int64_t step) {
  FN(arrange)
  ((const real *)(void *)item_of(v, 2, item), column_step(v), row_step(v), columns_of(v), rows_of(v), y, step);
}
static void FN(copy_transposed)(const situ_view_desc *v, int64_t item, real *y) {
  FN(copy_columns)(v, item, y, rows_of(v));
}
static real *FN(out)(const job *j, int k, int dims, int64_t item) {
  const situ_view_desc *v = j->work->out[k];
  return v ? (real *)(void *)item_of(v, dims, item) : NULL;
}

/* The memory's matrix is a^T, symmetric: its upper factor, transposed, is L in the same memory. */
static lapack_int FN(cholesky)(const job *j, int64_t item, void *memory) {
  (void)memory;
  const bool upper = j->work->integer[0] != 0;
  const int64_t n = j->n;
  real *y = FN(out)(j, 0, 2, item);
  FN(copy)(j->work->in[0], item, y);
  lapack_int why;
  LAPACK.potrf(upper ? "L" : "U", INT(n), y, lead(n), &why, 1);
  for (int64_t i = 0; i < n; i++)
    memset(y + i * n + (upper ? 0 : i + 1), 0, (size_t)(upper ? i : n - 1 - i) * sizeof *y);
  return why;
}

static void FN(determinant)(const job *j, int64_t item, const real *lu, const lapack_int *swaps) {
  real *det = FN(out)(j, 2, 0, item), *log_det = j->work->outs > 3 ? FN(out)(j, 3, 0, item) : NULL;
  if (!det) return;
  real sign = 1, value = 1, sum = 0;
  for (int64_t i = 0; i < j->n; i++) {
    const real pivot = lu[i * j->m + i];
    if (swaps[i] != i + 1) sign = -sign;
    value *= pivot;
    if (!log_det) continue;
    sign = pivot < 0 ? -sign : pivot == 0 ? 0 : sign;
    sum += LOG(pivot < 0 ? -pivot : pivot);
  }
  *det = log_det ? sign : sign * value;
  if (log_det) *log_det = sum;
}

static lapack_int FN(lu)(const job *j, int64_t item, void *memory) {
  (void)memory;
  real *y = FN(out)(j, 0, 2, item);
  lapack_int *swaps = (lapack_int *)(void *)item_of(j->work->out[1], 1, item);
  FN(copy_transposed)(j->work->in[0], item, y);
  lapack_int why;
  LAPACK.getrf(INT(j->m), INT(j->n), y, lead(j->m), swaps, &why);
  if (j->work->outs > 2 && why >= 0) FN(determinant)(j, item, y, swaps);
  return j->work->integer[0] || why < 0 ? why : 0;
}

static lapack_int FN(lu_solve)(const job *j, int64_t item, void *memory) {
  (void)memory;
  const real *lu = (const real *)(void *)item_of(j->work->in[0], 2, item);
  const lapack_int *swaps = (const lapack_int *)(void *)item_of(j->work->in[1], 1, item);
  real *x = FN(out)(j, 0, 2, item);
  lapack_int why;
  FN(copy_transposed)(j->work->in[2], item, x);
  LAPACK.getrs(j->work->integer[0] ? "T" : "N", INT(j->n), INT(j->k), lu, lead(j->n), swaps, x, lead(j->n), &why, 1);
  return why;
}

/* sytrf leaves the upper triangle as it was. */
static lapack_int FN(ldl)(const job *j, int64_t item, void *memory) {
  const int64_t n = j->n;
  real *y = FN(out)(j, 0, 2, item);
  lapack_int *pivots = (lapack_int *)(void *)item_of(j->work->out[1], 1, item),
             *info = (lapack_int *)(void *)item_of(j->work->out[2], 0, item);
  FN(copy_transposed)(j->work->in[0], item, y);
  LAPACK.sytrf("L", INT(n), y, lead(n), pivots, memory, capacity_of(j->reals), info, 1);
  for (int64_t k = 1; k < n; k++) memset(y + k * n, 0, (size_t)k * sizeof *y);
  return j->work->integer[0] || *info < 0 ? *info : 0;
}

static lapack_int FN(ldl_solve)(const job *j, int64_t item, void *memory) {
  const real *ld = (const real *)(void *)item_of(j->work->in[0], 2, item);
  real *x = FN(out)(j, 0, 2, item);
  lapack_int *pivots = ints_of(j, memory);
  lapack_int why = read_pivots(j, item, pivots);
  if (why) return why;
  FN(copy_transposed)(j->work->in[2], item, x);
  LAPACK.sytrs("L", INT(j->n), INT(j->k), ld, lead(j->n), pivots, x, lead(j->n), &why, 1);
  return why;
}

/* The inverse of a^T is that of a, transposed: the same memory. */
static lapack_int FN(inv)(const job *j, int64_t item, void *memory) {
  const int64_t n = j->n;
  real *y = FN(out)(j, 0, 2, item), *work = memory;
  lapack_int *swaps = ints_of(j, memory);
  FN(copy)(j->work->in[0], item, y);
  lapack_int why;
  LAPACK.getrf(INT(n), INT(n), y, lead(n), swaps, &why);
  if (!why) LAPACK.getri(INT(n), y, lead(n), swaps, work, capacity_of(j->reals), &why);
  return why;
}

/* Reads the triangle where it lies, if its rows or its columns are without gaps. */
static lapack_int FN(triangular)(const job *j, int64_t item, void *memory) {
  const situ_view_desc *a = j->work->in[0];
  const int64_t n = j->n;
  const real one = 1, *triangle = (const real *)(void *)item_of(a, 2, item);
  real *x = FN(out)(j, 0, 2, item);
  const int64_t row = row_step(a), column = column_step(a), most = INT32_MAX;
  const bool by_rows = column == 1 && row >= n && row <= most, by_columns = row == 1 && column >= n && column <= most;
  const int64_t step = by_rows ? row : by_columns ? column : n;
  if (!by_rows && !by_columns) {
    FN(copy_transposed)(a, item, memory);
    triangle = memory;
  }
  const bool upper = (j->work->integer[0] != 0) != by_rows;
  FN(copy_transposed)(j->work->in[1], item, x);
  LAPACK.trsm("L", upper ? "U" : "L", by_rows ? "T" : "N", j->work->integer[1] ? "U" : "N", INT(n), INT(j->k), &one,
              triangle, lead(step), x, lead(n), 1, 1, 1, 1);
  return 0;
}

/* With a^T = L q, a = q^T L^T: q^T and L^T are row-major in the same memory. */
static lapack_int FN(qr)(const job *j, int64_t item, void *memory) {
  const int64_t m = j->m, n = j->n, least = situ__min_i64(m, n);
  real *c = memory, *tau = c + m * n, *work = tau + least, *q = FN(out)(j, 0, 2, item), *r = FN(out)(j, 1, 2, item);
  const lapack_int *size = capacity_of((m + n) * BLOCK);
  lapack_int why;
  FN(copy)(j->work->in[0], item, c);
  LAPACK.gelqf(INT(n), INT(m), c, lead(n), tau, work, size, &why);
  for (int64_t i = 0; i < rows_of(j->work->out[1]); i++)
    for (int64_t k = 0; k < n; k++) r[i * n + k] = k < i ? 0 : c[i * n + k];
  if (why || !q) return why;
  const int64_t width = columns_of(j->work->out[0]);
  FN(arrange)(c, n, 1, m, least, q, width);
  LAPACK.orglq(INT(width), INT(m), INT(least), q, lead(width), tau, work, size, &why);
  return why;
}

static bool FN(is_finite)(const real *x, int64_t count) {
  real sum = 0;
  for (int64_t i = 0; i < count; i++) sum += x[i] * 0;
  return sum == 0;
}

static void FN(identity)(real *x, int64_t n) {
  for (int64_t i = 0; x && i < n * n; i++) x[i] = i % (n + 1) == 0;
}

/* With a^T = u s v, a = v^T s u^T: v^T and u^T are row-major in the same memory. */
static lapack_int FN(svd)(const job *j, int64_t item, void *memory) {
  const int64_t m = j->m, n = j->n, least = situ__min_i64(m, n);
  real *c = memory, *work = c + m * n, *s = FN(out)(j, 1, 1, item);
  real *u = FN(out)(j, 0, 2, item), *vt = FN(out)(j, 2, 2, item), none;
  const int64_t width = u ? columns_of(j->work->out[0]) : 1, height = vt ? rows_of(j->work->out[2]) : 1;
  if (!least) return FN(identity)(u, m), FN(identity)(vt, n), 0;
  FN(copy)(j->work->in[0], item, c);
  if (!FN(is_finite)(c, m * n)) return NOT_FINITE;
  const char *parts = !u ? "N" : width == m && height == n ? "A" : "S";
  lapack_int why;
  LAPACK.gesdd(parts, INT(n), INT(m), c, lead(n), s, vt ? vt : &none, lead(n), u ? u : &none, lead(width), work,
               capacity_of(j->reals - m * n), ints_of(j, memory), &why, 1);
  return why;
}

/* The symmetric memory has its triangles exchanged, and eigenvectors in its rows. */
static lapack_int FN(eigh)(const job *j, int64_t item, void *memory) {
  const int64_t n = j->n;
  real *c = memory, *work = c + n * n, *vt = j->work->out[1] ? FN(out)(j, 1, 2, item) : c;
  FN(copy)(j->work->in[0], item, vt);
  if (!FN(is_finite)(vt, n * n)) return NOT_FINITE;
  lapack_int why;
  LAPACK.syevd(vt == c ? "N" : "V", j->work->integer[0] ? "L" : "U", INT(n), vt, lead(n), FN(out)(j, 0, 1, item), work,
               capacity_of(j->reals - n * n), ints_of(j, memory), capacity_of(j->ints), &why, 1, 1);
  return why;
}

static lapack_int FN(lstsq)(const job *j, int64_t item, void *memory) {
  const int64_t m = j->m, n = j->n, k = j->k, tall = situ__max_i64(1, situ__max_i64(m, n));
  real *c = memory, *b = c + m * n, *work = b + tall * k;
  lapack_int *pivots = ints_of(j, memory), rank = 0, why;
  const real least = (real)j->work->scalar[0];
  FN(copy_transposed)(j->work->in[0], item, c);
  if (!FN(is_finite)(c, m * n)) return NOT_FINITE;
  memset(b, 0, (size_t)(tall * k) * sizeof *b);
  memset(pivots, 0, (size_t)n * sizeof *pivots);
  FN(copy_columns)(j->work->in[1], item, b, tall);
  LAPACK.gelsy(INT(m), INT(n), INT(k), c, lead(m), b, INT(tall), pivots, &least, &rank, work,
               capacity_of(j->reals - m * n - tall * k), &why);
  if (m) FN(arrange)(b, tall, 1, k, n, FN(out)(j, 0, 2, item), n);
  else memset(FN(out)(j, 0, 2, item), 0, (size_t)(k * n) * sizeof *b);
  *(int64_t *)(void *)item_of(j->work->out[1], 0, item) = rank;
  return why;
}

static void FN(product)(lapack_int n, const real *a, const real *b, real *y) {
  const real one = 1, zero = 0;
  LAPACK.gemm("N", "N", &n, &n, &n, &one, a, &n, b, &n, &zero, y, &n, 1, 1);
}
/* y = (c[0] I + c[1] a2 + c[2] a4 + c[3] a6) / c_0, with c_0 the first coefficient of all. */
static void FN(even_terms)(int64_t n, const double c[4], const real *const power[3], real *y) {
  const double first = 64764752532480000;
  const real c0 = (real)(c[0] / first), c2 = (real)(c[1] / first), c4 = (real)(c[2] / first), c6 = (real)(c[3] / first);
  for (int64_t i = 0; i < n * n; i++)
    y[i] = c2 * power[0][i] + c4 * power[1][i] + c6 * power[2][i] + (i % (n + 1) ? 0 : c0);
}

/* The largest sum of absolute values along a row. */
static real FN(norm)(const real *a, int64_t n) {
  real most = 0;
  for (int64_t i = 0; i < n; i++) {
    real sum = 0;
    for (int64_t k = 0; k < n; k++) sum += a[i * n + k] < 0 ? -a[i * n + k] : a[i * n + k];
    if (!(sum <= most)) most = sum;
  }
  return most;
}

/* y = u + v and t = v - u, whose quotient approximates the exponential: N. Higham, "The scaling and squaring method for
   the matrix exponential revisited" (2005), degree 13. memory: 4 matrices. */
static void FN(pade)(int64_t n, const real *a, real *memory, real *t, real *y) {
  static const double even[2][4] = { { 64764752532480000, 7771770303897600, 129060195264000, 670442572800 },
                                     { 0, 1323241920, 960960, 182 } },
                      odd[2][4] = { { 32382376266240000, 1187353796428800, 10559470521600, 33522128640 },
                                    { 0, 40840800, 16380, 1 } };
  const int64_t count = n * n;
  const lapack_int size = (lapack_int)n;
  real *a2 = memory, *a4 = a2 + count, *a6 = a4 + count, *u = a6 + count;
  const real *const power[] = { a2, a4, a6 };
  FN(product)(size, a, a, a2);
  FN(product)(size, a2, a2, a4);
  FN(product)(size, a2, a4, a6);
  FN(even_terms)(n, odd[1], power, y);
  FN(product)(size, a6, y, t);
  FN(even_terms)(n, odd[0], power, y);
  for (int64_t i = 0; i < count; i++) t[i] += y[i];
  FN(product)(size, a, t, u);
  FN(even_terms)(n, even[1], power, y);
  FN(product)(size, a6, y, t);
  FN(even_terms)(n, even[0], power, y);
  for (int64_t i = 0; i < count; i++) {
    const real v = t[i] + y[i];
    y[i] = v + u[i], t[i] = v - u[i];
  }
}

/* Of a / 2^s, squared s times. Powers of a^T are those of a, transposed: the same memory. */
static lapack_int FN(exponential)(const job *j, int64_t item, void *memory) {
  const int64_t n = j->n, count = n * n;
  const lapack_int size = (lapack_int)n;
  const double most = 5.371920351148152; /* as far as the approximation is good to the last digit */
  real *a = memory, *t = a + count, *y = FN(out)(j, 0, 2, item);
  lapack_int *swaps = ints_of(j, memory);
  FN(copy)(j->work->in[0], item, a);
  const double norm = (double)FN(norm)(a, n);
  const int squarings = norm > most && isfinite(norm) ? (int)ceil(log2(norm / most)) : 0;
  for (int64_t i = 0; i < count; i++) a[i] = isfinite(norm) ? (real)ldexp((double)a[i], -squarings) : (real)NAN;
  FN(pade)(n, a, t + count, t, y);
  lapack_int why;
  LAPACK.getrf(&size, &size, t, lead(n), swaps, &why);
  if (!why) LAPACK.getrs("N", &size, &size, t, lead(n), swaps, y, lead(n), &why, 1);
  for (int k = 0; k < squarings; k++) {
    memcpy(t, y, (size_t)count * sizeof *t);
    FN(product)(size, t, t, y);
  }
  return isfinite(norm) || why < 0 ? why : 0;
}
