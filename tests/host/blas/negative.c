/* LIBRARY: a LAPACK that passes situ's test, and refuses argument 3 of each function for 5 equations, and of
   getrs for 6. Else the program that calls each op with it: every one must be an error.
   SPDX-License-Identifier: MIT */
#ifdef LIBRARY
#include <dlfcn.h>
#include <stddef.h>

/* Of functions that the test calls: the machine's own. */
static void *real(const char *name) {
  void *library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
  return dlsym(library ? library : dlopen("liblapack.so.3", RTLD_NOW | RTLD_LOCAL), name);
}
#define P void *
#define BOTH(_) _(s) _(d)

#define FORWARDED(name, size, n, info, parameters, arguments)   \
  void name parameters {                                        \
    void(*own) parameters;                                      \
    if (*(int *)n == 5 || *(int *)n == size) *(int *)info = -3; \
    else *(void **)&own = real(#name), own arguments;           \
  }
#define TESTED(p)                                                                                                \
  FORWARDED(p##getrf_, 5, b, f, (P a, P b, P c, P d, P e, P f), (a, b, c, d, e, f))                              \
  FORWARDED(p##getrs_, 6, b, i, (P a, P b, P c, P d, P e, P f, P g, P h, P i, size_t l),                         \
            (a, b, c, d, e, f, g, h, i, l))                                                                      \
  FORWARDED(p##potrf_, 5, b, e, (P a, P b, P c, P d, P e, size_t l), (a, b, c, d, e, l))                         \
  void p##trsm_(P a, P b, P c, P d, P e, P f, P g, P h, P i, P j, P k, size_t l, size_t m, size_t n, size_t o) { \
    void (*own)(P, P, P, P, P, P, P, P, P, P, P, size_t, size_t, size_t, size_t);                                \
    *(void **)&own = real(#p "trsm_"), own(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o);                         \
  }                                                                                                              \
  void p##gemm_(P a, P b, P c, P d, P e, P f, P g, P h, P i, P j, P k, P l, P m, size_t n, size_t o) {           \
    void (*own)(P, P, P, P, P, P, P, P, P, P, P, P, P, size_t, size_t);                                          \
    *(void **)&own = real(#p "gemm_"), own(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o);                         \
  }
BOTH(TESTED)

#define REFUSES(name, info, ...) \
  void name(__VA_ARGS__) { *(int *)info = -3; }
#define OTHERS(p)                                                                             \
  REFUSES(p##getri_, g, P a, P b, P c, P d, P e, P f, P g)                                    \
  REFUSES(p##sytrf_, h, P a, P b, P c, P d, P e, P f, P g, P h)                               \
  REFUSES(p##sytrs_, i, P a, P b, P c, P d, P e, P f, P g, P h, P i)                          \
  REFUSES(p##gelqf_, h, P a, P b, P c, P d, P e, P f, P g, P h)                               \
  REFUSES(p##orglq_, i, P a, P b, P c, P d, P e, P f, P g, P h, P i)                          \
  REFUSES(p##gesdd_, n, P a, P b, P c, P d, P e, P f, P g, P h, P i, P j, P k, P l, P m, P n) \
  REFUSES(p##syevd_, k, P a, P b, P c, P d, P e, P f, P g, P h, P i, P j, P k)                \
  REFUSES(p##gelsy_, m, P a, P b, P c, P d, P e, P f, P g, P h, P i, P j, P k, P l, P m)
BOTH(OTHERS)

#else
#include <stdio.h>
#include <string.h>

#include <situ/situ.h>

enum { N = 5 };

static int wrong, calls;
static void refused(const char *call, situ_tensor *result) {
  calls++;
  if (!result && situ_error() == SITU_E_UNSUPPORTED && strstr(situ_error_message(), "LAPACK refuses argument 3"))
    return situ_error_clear();
  if (strstr(situ_error_message(), "needs LAPACK")) puts(situ_error_message());
  printf("%s: not refused: %s\n", call, situ_error_message());
  situ_error_clear();
  wrong++;
}
#define REFUSED(call) refused(#call, call)

int main(void) {
  situ_error_mode(SITU_ERROR_QUIET);
  for (int wide = 0; wide < 2; wide++) {
    situ_scope scope;
    situ_scope_begin(&scope);
    const situ_options o = { .dtype = wide ? SITU_F64 : SITU_F32 };
    situ_tensor *a = situ_eye(N, N, &o), *b = situ_ones(SITU_SHAPE(N, 1), &o), *p = NULL, *more = NULL;
    situ_tensor *pivots = situ_to_dtype(situ_arange(1, N + 1, 1, NULL), SITU_I32);
    REFUSED(situ_linalg_cholesky(a, false));
    REFUSED(situ_linalg_solve(a, b, true));
    REFUSED(situ_linalg_inv(a));
    REFUSED(situ_linalg_det(a));
    REFUSED(situ_linalg_slogdet(a, &p));
    REFUSED(situ_linalg_lu_factor(a, &p));
    REFUSED(situ_linalg_lu(a, &p, &more));
    REFUSED(situ_linalg_solve(situ_eye(N + 1, N + 1, &o), situ_ones(SITU_SHAPE(N + 1, 1), &o), true));
    REFUSED(situ_linalg_matrix_exp(situ_eye(N + 1, N + 1, &o)));
    REFUSED(situ_linalg_ldl_factor(a, &p));
    REFUSED(situ_linalg_ldl_factor_ex(a, false, &p, &more));
    REFUSED(situ_linalg_ldl_solve(a, pivots, b));
    REFUSED(situ_linalg_qr(a, SITU_LINALG_QR_REDUCED, &p));
    REFUSED(situ_linalg_svdvals(a));
    REFUSED(situ_linalg_svd(a, false, &p, &more));
    REFUSED(situ_linalg_eigh(a, false, &p));
    REFUSED(situ_linalg_eigvalsh(a, false));
    REFUSED(situ_linalg_lstsq(a, b, SITU_NONE, &p));
    REFUSED(situ_linalg_pinv(a, NULL));
    REFUSED(situ_linalg_matrix_rank(a, NULL));
    REFUSED(situ_linalg_matrix_exp(a));
    if (situ_scope_end(&scope) != SITU_OK) wrong++;
  }
  printf("%d calls, %d not refused\n", calls, wrong);
  return wrong != 0;
}
#endif
