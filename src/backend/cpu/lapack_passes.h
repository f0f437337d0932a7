/* One pass for one matrix, for one dtype: included by lapack.c for each. A pass returns LAPACK's answer: 0 is success.
   SPDX-License-Identifier: MIT */

/* BLAS's triangular solver; the lengths of its four words come last, as Fortran compilers pass them. */
void TRSM(const char *side, const char *uplo, const char *trans, const char *diag, const lapack_int *m,
          const lapack_int *n, const real *alpha, const real *a, const lapack_int *lda, real *b, const lapack_int *ldb,
          size_t, size_t, size_t, size_t);

/* y [rows, columns] = x by strides. */
static void FN(arrange)(const real *x, int64_t row, int64_t column, int64_t rows, int64_t columns, real *y) {
  for (int64_t top = 0; top < rows; top += TILE)
    for (int64_t left = 0; left < columns; left += TILE)
      for (int64_t i = top; i < situ__min_i64(top + TILE, rows); i++)
        for (int64_t k = left; k < situ__min_i64(left + TILE, columns); k++)
          y[i * columns + k] = x[i * row + k * column];
}
static void FN(copy)(const situ_view_desc *v, int64_t item, real *y) {
  FN(arrange)((const real *)(void *)item_of(v, 2, item), row_step(v), column_step(v), rows_of(v), columns_of(v), y);
}
static void FN(copy_transposed)(const situ_view_desc *v, int64_t item, real *y) {
  FN(arrange)((const real *)(void *)item_of(v, 2, item), column_step(v), row_step(v), columns_of(v), rows_of(v), y);
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
  const lapack_int why = LAPACK(potrf)(LAPACK_COL_MAJOR, upper ? 'L' : 'U', (lapack_int)n, y, lead(n));
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
  const lapack_int why = LAPACK(getrf)(LAPACK_COL_MAJOR, (lapack_int)j->m, (lapack_int)j->n, y, lead(j->m), swaps);
  if (j->work->outs > 2) FN(determinant)(j, item, y, swaps);
  return j->work->integer[0] ? why : 0;
}

static lapack_int FN(lu_solve)(const job *j, int64_t item, void *memory) {
  (void)memory;
  const real *lu = (const real *)(void *)item_of(j->work->in[0], 2, item);
  const lapack_int *swaps = (const lapack_int *)(void *)item_of(j->work->in[1], 1, item);
  real *x = FN(out)(j, 0, 2, item);
  FN(copy_transposed)(j->work->in[2], item, x);
  return LAPACK(getrs)(LAPACK_COL_MAJOR, j->work->integer[0] ? 'T' : 'N', (lapack_int)j->n, (lapack_int)j->k, lu,
                       lead(j->n), swaps, x, lead(j->n));
}

/* The inverse of a^T is that of a, transposed: the same memory. */
static lapack_int FN(inv)(const job *j, int64_t item, void *memory) {
  const lapack_int n = (lapack_int)j->n;
  real *y = FN(out)(j, 0, 2, item), *work = memory;
  lapack_int *swaps = (lapack_int *)(void *)(work + j->n * BLOCK);
  FN(copy)(j->work->in[0], item, y);
  const lapack_int why = LAPACK(getrf)(LAPACK_COL_MAJOR, n, n, y, lead(n), swaps);
  return why ? why : LAPACK(getri)(LAPACK_COL_MAJOR, n, y, lead(n), swaps, work, n * BLOCK);
}

/* Reads the triangle where it lies, if its rows or its columns are without gaps. */
static lapack_int FN(triangular)(const job *j, int64_t item, void *memory) {
  const situ_view_desc *a = j->work->in[0];
  const lapack_int n = (lapack_int)j->n, k = (lapack_int)j->k;
  const real one = 1, *triangle = (const real *)(void *)item_of(a, 2, item);
  real *x = FN(out)(j, 0, 2, item);
  const int64_t row = row_step(a), column = column_step(a), most = INT32_MAX;
  const bool by_rows = column == 1 && row >= n && row <= most, by_columns = row == 1 && column >= n && column <= most;
  lapack_int step = lead(by_rows ? row : by_columns ? column : n);
  if (!by_rows && !by_columns) {
    FN(copy_transposed)(a, item, memory);
    triangle = memory;
  }
  const bool upper = (j->work->integer[0] != 0) != by_rows;
  FN(copy_transposed)(j->work->in[1], item, x);
  TRSM("L", upper ? "U" : "L", by_rows ? "T" : "N", j->work->integer[1] ? "U" : "N", &n, &k, &one, triangle, &step, x,
       &(lapack_int){ lead(n) }, 1, 1, 1, 1);
  return 0;
}
