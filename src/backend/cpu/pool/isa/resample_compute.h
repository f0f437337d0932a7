/* Resampling for one type: included by resample.c with `real` and FN.
   SPDX-License-Identifier: MIT */

/* y = (add ? y : 0) + up to four rows of x, `inner` apart, times their weights. */
ALWAYS_INLINE void FN(rows)(const real *x, int64_t inner, const real *w, int64_t count, bool add, real *y) {
  const real *x1 = x + inner, *x2 = x1 + inner, *x3 = x2 + inner;
#define ROWS(sum) \
  INDEPENDENT     \
  for (int64_t i = 0; i < inner; i++) y[i] = add ? y[i] + (sum) : (sum);
  switch (count) {
  case 1: ROWS(w[0] * x[i]) break;
  case 2: ROWS(w[0] * x[i] + w[1] * x1[i]) break;
  case 3: ROWS(w[0] * x[i] + w[1] * x1[i] + w[2] * x2[i]) break;
  default: ROWS(w[0] * x[i] + w[1] * x1[i] + w[2] * x2[i] + w[3] * x3[i]) break;
  }
#undef ROWS
}

static void FN(beside)(const situ__bands *b, int64_t o, int64_t inner, const void *from, void *to) {
  const real *x = (const real *)from + b->first[o] * inner, *w = (const real *)b->weight + b->start[o];
  const int64_t count = b->count[o];
  if (count == 0) memset(to, 0, (size_t)inner * sizeof(real));
  else if (count == 1 && *w == 1) memcpy(to, x, (size_t)inner * sizeof(real));
  else FN(rows)(x, inner, w, situ__min_i64(count, 4), false, to);
  for (int64_t k = 4; k < count; k += 4) FN(rows)(x + k * inner, inner, w + k, situ__min_i64(count - k, 4), true, to);
}

/* sum + up to four elements times their weights, in their order: most bands have no more, for which a loop would be
   vectors of products that are added one by one. */
ALWAYS_INLINE real FN(add_few)(real sum, const real *x, const real *w, int64_t count) {
  switch (count) {
  case 1: return sum + w[0] * x[0];
  case 2: return sum + w[0] * x[0] + w[1] * x[1];
  case 3: return sum + w[0] * x[0] + w[1] * x[1] + w[2] * x[2];
  default: return sum + w[0] * x[0] + w[1] * x[1] + w[2] * x[2] + w[3] * x[3];
  }
}

static void FN(along)(const situ__bands *b, const void *from, void *to) {
  const real *x = from, *weight = b->weight;
  real *y = to;
  if (b->most == 1) {
    for (int64_t o = 0; o < b->places; o++) y[o] = b->count[o] ? weight[b->start[o]] * x[b->first[o]] : 0;
    return;
  }
  for (int64_t o = 0; o < b->places; o++) {
    const real *w = weight + b->start[o], *at = x + b->first[o];
    const int64_t count = b->count[o];
    real sum = 0;
    for (int64_t k = 0; k < count; k += 4) sum = FN(add_few)(sum, at + k, w + k, situ__min_i64(count - k, 4));
    y[o] = sum;
  }
}

const situ__resample_kernels FN(situ__resample_kernels) = { .beside = FN(beside), .along = FN(along) };
