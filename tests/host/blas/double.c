/* A LAPACK of a program's own, with integers of the type INT: dgetrf_ and dgemm_ are right, every other function does
   nothing; all are counted, so that a call from elsewhere is seen.
   SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdint.h>

static int calls;
int double_calls(void) { return calls; }

#define EACH(_, p) \
  _(p##trsm_)      \
  _(p##potrf_)     \
  _(p##getrs_)     \
  _(p##getri_)     \
  _(p##sytrf_)     \
  _(p##sytrs_)     \
  _(p##gelqf_)     \
  _(p##orglq_)     \
  _(p##gesdd_)     \
  _(p##syevd_)     \
  _(p##gelsy_)
#define NOTHING(name) \
  void name(void) { calls++; }
EACH(NOTHING, s)
  EACH(NOTHING, d) NOTHING(sgemm_)
NOTHING(sgetrf_)

static void swap_rows(INT n, double *a, INT lda, INT one, INT other) {
  for (INT k = 0; k < n; k++) {
    const double kept = a[one + k * lda];
    a[one + k * lda] = a[other + k * lda];
    a[other + k * lda] = kept;
  }
}

void dgetrf_(const INT *m, const INT *n, double *a, const INT *lda, INT *pivots, INT *info) {
  calls++;
  *info = 0;
  for (INT j = 0; j < *n && j < *m; j++) {
    INT best = j;
    for (INT i = j; i < *m; i++)
      if (fabs(a[i + j * *lda]) > fabs(a[best + j * *lda])) best = i;
    pivots[j] = best + 1;
    swap_rows(*n, a, *lda, j, best);
    for (INT i = j + 1; i < *m; i++) {
      a[i + j * *lda] /= a[j + j * *lda];
      for (INT k = j + 1; k < *n; k++) a[i + k * *lda] -= a[i + j * *lda] * a[j + k * *lda];
    }
  }
}

void dgemm_(const char *ta, const char *tb, const INT *m, const INT *n, const INT *k, const double *alpha,
            const double *a, const INT *lda, const double *b, const INT *ldb, const double *beta, double *c,
            const INT *ldc) {
  (void)ta, (void)tb;
  calls++;
  for (INT i = 0; i < *m; i++)
    for (INT j = 0; j < *n; j++) {
      double sum = 0;
      for (INT p = 0; p < *k; p++) sum += a[i + p * *lda] * b[p + j * *ldb];
      c[i + j * *ldc] = *alpha * sum + *beta * c[i + j * *ldc];
    }
}
