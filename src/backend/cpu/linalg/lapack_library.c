/* Which LAPACK is taken: one that solves a known system, and counts in 32 bits.
   SPDX-License-Identifier: MIT */
#include "lapack_library.h"

#include <dlfcn.h>
#include <stdio.h>

situ__lapack situ__lapack_is;

/* A library that counts in 64 bits does not crash here: each integer has 64 bits, whose lower half is the number. The
   rows of the matrix are exchanged: pivots 3 2 3. */
static bool counts_in_64_bits(void) {
  double a[] = { 0, 0, 2, 0, 3, 0, 4, 0, 0 };
  int64_t n = 3, info = -1, pivots[] = { -1, -1, -1 };
  void *const number = &n;
  situ__lapack_is.f64.getrf(number, number, a, number, (void *)pivots, (void *)&info);
  return pivots[0] == 3;
}

/* x of a x = b, and then of l l^T x = b, is 1 2 3; a x is 8 3 6. Fails where another library's functions are called
   by these, too. */
#define SOLVES(real, f, least)                                                                                     \
  static bool f##_solves(void) {                                                                                   \
    real a[] = { 0, 1, 3, 2, 1, 0, 1, 0, 1 }, lu[9], l[] = { 4, 2, 0, 2, 5, 0, 0, 0, 9 }, b[] = { 7, 3, 6 }, y[3]; \
    const real one = 1, zero = 0;                                                                                  \
    const lapack_int n = 3, k = 1;                                                                                 \
    lapack_int info = -1, pivots[3];                                                                               \
    for (int i = 0; i < 9; i++) lu[i] = a[i];                                                                      \
    situ__lapack_is.f.getrf(&n, &n, lu, &n, pivots, &info);                                                        \
    if (info) return false;                                                                                        \
    situ__lapack_is.f.getrs("N", &n, &k, lu, &n, pivots, b, &n, &info, 1);                                         \
    situ__lapack_is.f.gemm("N", "N", &n, &k, &n, &one, a, &n, b, &n, &zero, y, &n, 1, 1);                          \
    bool good = info == 0 && is_near(y[0], 7, least) && is_near(y[1], 3, least) && is_near(y[2], 6, least);        \
    for (int i = 0; i < 3; i++) good = good && is_near(b[i], i + 1, least);                                        \
    situ__lapack_is.f.potrf("L", &n, l, &n, &info, 1);                                                             \
    real x[] = { 4, 6, 9 };                                                                                        \
    situ__lapack_is.f.trsm("L", "L", "N", "N", &n, &k, &one, l, &n, x, &n, 1, 1, 1, 1);                            \
    return good && info == 0 && is_near(x[0], 2, least) && is_near(x[1], 2, least) && is_near(x[2], 3, least);     \
  }

static bool is_near(double x, double wanted, double least) { return x > wanted - least && x < wanted + least; }
SOLVES(float, f32, 1e-5)
SOLVES(double, f64, 1e-12)

static bool is_usable(void *handle, char *why, size_t size) {
  if (counts_in_64_bits())
    return (void)snprintf(why, size, "its integers have 64 bits; situ calls a LAPACK whose integers have 32"), false;
  if (!f32_solves() || !f64_solves()) return (void)snprintf(why, size, "it solves a known system wrongly"), false;
  /* OpenBLAS without threads of its own (0; Debian: libopenblas0-serial) keeps state that calls on several threads
     share: a tenth of triangular solutions on two threads were wrong by some last digits (0.3.21). */
  int (*get_parallel)(void);
  *(void **)&get_parallel = dlsym(handle, "openblas_get_parallel");
  situ__lapack_is.alone = get_parallel && get_parallel() == 0;
  return true;
}

#define SYMBOL_f32(name, parameters) { "s" #name "_", &situ__lapack_is.f32.name },
#define SYMBOL_f64(name, parameters) { "d" #name "_", &situ__lapack_is.f64.name },
static const situ__symbol symbols[] = { SITU__LAPACK_FUNCTIONS(SYMBOL_f32, float)
                                            SITU__LAPACK_FUNCTIONS(SYMBOL_f64, double) };

situ__library situ__lapack_library = { .name = "LAPACK",
                                       .variable = "SITU_LAPACK",
                                       .package = "libopenblas0-serial",
                                       .file = { "libopenblas.so.0", "liblapack.so.3", "libopenblas.so" },
                                       .symbol = symbols,
                                       .symbols = sizeof symbols / sizeof *symbols,
                                       .accept = is_usable };
