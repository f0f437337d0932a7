/* A library of a program's own that factors and multiplies by a LAPACK with integers of the type INT. COUNTED: that is
   double.c, which nothing else may call.
   SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

void dgetrf_(const INT *m, const INT *n, double *a, const INT *lda, INT *pivots, INT *info);
void dgemm_(const char *, const char *, const INT *, const INT *, const INT *, const double *, const double *,
            const INT *, const double *, const INT *, const double *, double *, const INT *, size_t, size_t);
int double_calls(void);

/* Returns how many results were wrong. */
int phys(int n) {
  static int calls;
  INT size = n, info = -99, *pivots = calloc((size_t)n, sizeof *pivots);
  double *a = calloc((size_t)(n * n), 8), *c = calloc((size_t)(n * n), 8), one = 1, zero = 0;
  int wrong = 0;
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) a[j * n + i] = (i == n - 1 - j) * n + 1.0 / (1 + abs(i - j));
  dgemm_("N", "N", &size, &size, &size, &one, a, &size, a, &size, &zero, c, &size, 1, 1);
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) {
      double sum = 0;
      for (int k = 0; k < n; k++) sum += a[k * n + i] * a[j * n + k];
      wrong += !(fabs(c[j * n + i] - sum) <= 1e-9);
    }
  dgetrf_(&size, &size, a, &size, pivots, &info);
  wrong += info != 0;
  for (int i = 0; i < n; i++) wrong += pivots[i] != (i < n / 2 ? n - i : pivots[i]) || pivots[i] < 1 || pivots[i] > n;
  if (wrong) printf("the program's own LAPACK: %d wrong results of dgemm_ and dgetrf_\n", wrong);
#ifdef COUNTED
  if (double_calls() != calls + 2) wrong++, printf("the program's own LAPACK was called by situ\n");
  calls = double_calls();
#endif
  (void)calls;
  free(a), free(c), free(pivots);
  return wrong;
}
