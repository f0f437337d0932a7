/* Creates ranges that consist of other ops: logspace, and the indices of triangles.
   SPDX-License-Identifier: MIT */
#include <math.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/size.h"
#include "ops/ops.h"

situ_tensor *situ_logspace(double start, double end, int64_t steps, double base, const situ_options *options) {
  SITU__MADE_OF_OPS("logspace");
  situ_options o = options ? *options : (situ_options){ 0 }, wide = o;
  if (!o.dtype) o.dtype = SITU_F32;
  if (o.dtype == SITU_BOOL)
    return situ__fail(SITU_E_DTYPE, "logspace", "bool cannot hold a range; make it in an integer dtype and compare"),
           NULL;
  if (situ_dtype_is_integer(o.dtype)) { /* as situ_linspace does */
    if (!situ__fits("logspace", start, o.dtype) || !situ__fits("logspace", end, o.dtype)) return NULL;
    start = trunc(start), end = trunc(end);
  }
  wide.dtype = situ_dtype_is_integer(o.dtype) || o.dtype == SITU_F64 ? SITU_F64 : SITU_F32;
  wide.requires_grad = false;
  situ_tensor *y = situ_to_dtype(situ_scalar_pow(base, situ_linspace(start, end, steps, &wide)), o.dtype);
  return y && o.requires_grad ? situ_requires_grad_(y, true) : y;
}

/* ---- tril_indices, triu_indices: counted on the host, which knows all of it ---- */

/* The rows that a triangle has columns in, and its widths there: they change by one a row, and are at most `cols`. */
typedef struct triangle {
  int64_t cols, offset, from, to; /* rows from..to-1 */
  bool upper;
} triangle;

static triangle triangle_of(int64_t rows, int64_t cols, int64_t offset, bool upper) {
  offset = situ__max_i64(situ__min_i64(offset, cols), -rows);
  triangle t = { .cols = cols, .offset = offset, .to = cols ? rows : 0, .upper = upper };
  if (upper) t.to = situ__min_i64(t.to, cols - offset);
  else t.from = situ__min_i64(situ__max_i64(-offset, 0), t.to);
  return t;
}

static int64_t first_column(const triangle *t, int64_t row) { return t->upper ? situ__max_i64(row + t->offset, 0) : 0; }
static int64_t end_column(const triangle *t, int64_t row) {
  return t->upper ? t->cols : situ__min_i64(row + t->offset + 1, t->cols);
}

static int64_t count_indices(const triangle *t) {
  const int64_t rows = t->to - t->from, tip = t->upper ? t->to - 1 : t->from;
  if (rows <= 0) return 0;
  const int64_t least = end_column(t, tip) - first_column(t, tip), growing = situ__min_i64(rows, t->cols - least);
  return growing * least + growing * (growing - 1) / 2 + (rows - growing) * t->cols;
}

static situ_tensor *indices(const char *op, int64_t rows, int64_t cols, int64_t offset, bool upper,
                            const situ_options *options) {
  situ_options o = options ? *options : (situ_options){ 0 };
  const situ_dtype dtype = o.dtype ? o.dtype : SITU_I64;
  int64_t area, at = 0;
  if (rows < 0 || cols < 0)
    return situ__fail(SITU_E_ARG, op, "%lld rows and %lld columns: must not be negative", (long long)rows,
                      (long long)cols),
           NULL;
  if (dtype != SITU_I64 && dtype != SITU_I32)
    return situ__fail(SITU_E_DTYPE, op, "indices are i64 or i32, not %s", situ_dtype_name(dtype)), NULL;
  if (!situ__mul_i64(rows, cols, &area) || area > INT64_MAX / 16)
    return situ__fail(SITU_E_OVERFLOW, op, "%lld x %lld: too large to list", (long long)rows, (long long)cols), NULL;
  const triangle t = triangle_of(rows, cols, offset, upper);
  const int64_t count = count_indices(&t);
  const size_t bytes = 2 * (size_t)count * sizeof(int64_t);
  int64_t *list = situ__alloc(bytes ? bytes : 1);
  if (!list) return situ__no_memory(op, bytes), NULL;
  for (int64_t r = t.from; r < t.to; r++)
    for (int64_t k = first_column(&t, r); k < end_column(&t, r); k++, at++) {
      list[at] = r;
      list[count + at] = k;
    }
  o.dtype = SITU_I64;
  situ_tensor *y = situ_from_host(list, bytes, SITU_SHAPE(2, count), &o);
  situ__free(list);
  return situ_to_dtype(y, dtype);
}

situ_tensor *situ_tril_indices(int64_t row, int64_t col, int64_t offset, const situ_options *options) {
  SITU__MADE_OF_OPS("tril_indices");
  return indices("tril_indices", row, col, offset, false, options);
}
situ_tensor *situ_triu_indices(int64_t row, int64_t col, int64_t offset, const situ_options *options) {
  SITU__MADE_OF_OPS("triu_indices");
  return indices("triu_indices", row, col, offset, true, options);
}
