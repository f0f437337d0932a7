/* LAPACK with 32-bit integers, opened when a call first needs it. By Fortran's convention: everything is a pointer,
   matrices are column-major, and the lengths of the words come last, as Fortran compilers pass them.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BACKEND_CPU_LAPACK_LIBRARY_H
#define SITU_BACKEND_CPU_LAPACK_LIBRARY_H

#include "base/library.h"

typedef int32_t lapack_int;

/* The functions for one type, as _(name, parameters). info: 0 is success, -i: argument i is refused. */
#define SITU__LAPACK_FUNCTIONS(_, real)                                                                               \
  _(trsm, (const char *side, const char *uplo, const char *trans, const char *diag, const lapack_int *m,              \
           const lapack_int *n, const real *alpha, const real *a, const lapack_int *lda, real *b,                     \
           const lapack_int *ldb, size_t, size_t, size_t, size_t))                                                    \
  _(gemm, (const char *trans_a, const char *trans_b, const lapack_int *m, const lapack_int *n, const lapack_int *k,   \
           const real *alpha, const real *a, const lapack_int *lda, const real *b, const lapack_int *ldb,             \
           const real *beta, real *c, const lapack_int *ldc, size_t, size_t))                                         \
  _(potrf, (const char *uplo, const lapack_int *n, real *a, const lapack_int *lda, lapack_int *info, size_t))         \
  _(getrf,                                                                                                            \
    (const lapack_int *m, const lapack_int *n, real *a, const lapack_int *lda, lapack_int *pivots, lapack_int *info)) \
  _(getrs, (const char *trans, const lapack_int *n, const lapack_int *columns, const real *a, const lapack_int *lda,  \
            const lapack_int *pivots, real *b, const lapack_int *ldb, lapack_int *info, size_t))                      \
  _(getri, (const lapack_int *n, real *a, const lapack_int *lda, const lapack_int *pivots, real *work,                \
            const lapack_int *size, lapack_int *info))                                                                \
  _(sytrf, (const char *uplo, const lapack_int *n, real *a, const lapack_int *lda, lapack_int *pivots, real *work,    \
            const lapack_int *size, lapack_int *info, size_t))                                                        \
  _(sytrs, (const char *uplo, const lapack_int *n, const lapack_int *columns, const real *a, const lapack_int *lda,   \
            const lapack_int *pivots, real *b, const lapack_int *ldb, lapack_int *info, size_t))                      \
  _(gelqf, (const lapack_int *m, const lapack_int *n, real *a, const lapack_int *lda, real *tau, real *work,          \
            const lapack_int *size, lapack_int *info))                                                                \
  _(orglq, (const lapack_int *m, const lapack_int *n, const lapack_int *k, real *a, const lapack_int *lda,            \
            const real *tau, real *work, const lapack_int *size, lapack_int *info))                                   \
  _(gesdd, (const char *job, const lapack_int *m, const lapack_int *n, real *a, const lapack_int *lda, real *s,       \
            real *u, const lapack_int *ldu, real *vt, const lapack_int *ldvt, real *work, const lapack_int *size,     \
            lapack_int *ints, lapack_int *info, size_t))                                                              \
  _(syevd,                                                                                                            \
    (const char *job, const char *uplo, const lapack_int *n, real *a, const lapack_int *lda, real *w, real *work,     \
     const lapack_int *size, lapack_int *ints, const lapack_int *ints_size, lapack_int *info, size_t, size_t))        \
  _(gelsy, (const lapack_int *m, const lapack_int *n, const lapack_int *columns, real *a, const lapack_int *lda,      \
            real *b, const lapack_int *ldb, lapack_int *pivots, const real *rcond, lapack_int *rank, real *work,      \
            const lapack_int *size, lapack_int *info))

#define SITU__LAPACK_MEMBER(name, parameters) void(*name) parameters;
typedef struct situ__lapack {
  struct {
    SITU__LAPACK_FUNCTIONS(SITU__LAPACK_MEMBER, float)
  } f32;
  struct {
    SITU__LAPACK_FUNCTIONS(SITU__LAPACK_MEMBER, double)
  } f64;
  bool alone; /* one thread may call it at a time */
} situ__lapack;

/* Filled in once situ__lapack_library is open. */
extern situ__lapack situ__lapack_is;
extern situ__library situ__lapack_library;

#endif
