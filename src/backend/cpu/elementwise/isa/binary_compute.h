/* Functions of binary.h and ternary.h for one compute type, T. binary.c includes this once for each type, between
   definitions of T, TNAME and WIDTH, with FLOATING where T is a floating type. Defines the tables binaries_T and
   ternaries_T.
   SPDX-License-Identifier: MIT */

/* One operand may be a single value for the whole row: one loop for each case, so that each vectorises. */
#define LOOP(name, Y, value)                                                                                       \
  ALWAYS_INLINE void FN(name##_loop)(const T *pa, int64_t a_step, const T *pb, int64_t b_step, Y *py, int64_t n) { \
    INDEPENDENT                                                                                                    \
    for (int64_t i = 0; i < n; i++) {                                                                              \
      const T a = pa[i * a_step], b = pb[i * b_step];                                                              \
      py[i] = (Y)(value);                                                                                          \
    }                                                                                                              \
  }
#define ROW(name, loop, count)                                                                    \
  static void FN(name)(void *y, const void *const *x, uint32_t splat, int64_t n, const void *p) { \
    (void)p;                                                                                      \
    if (splat == 0) FN(loop)(x[0], 1, x[1], 1, y, count);                                         \
    else if (splat == 1) FN(loop)(&(const T){ *(const T *)x[0] }, 0, x[1], 1, y, count);          \
    else FN(loop)(x[0], 1, &(const T){ *(const T *)x[1] }, 0, y, count);                          \
  }
#define PLAIN(name, Y, value) LOOP(name, Y, value) ROW(name, name##_loop, n)

/* The end of the row is padded to a whole vector: this is faster than one call for each element, and an element's value
   does not depend on its position in a row. That `n & -WIDTH` is whole vectors is known when this is compiled: the loop
   has no code for a rest. */
#define PADDED(name, value)                                                                                           \
  LOOP(name, T, value)                                                                                                \
  ROW(name##_full, name##_loop, n & -WIDTH)                                                                           \
  static void FN(name)(void *y, const void *const *x, uint32_t splat, int64_t n, const void *p) {                     \
    int64_t full = n - n % WIDTH, rest = n - full;                                                                    \
    FN(name##_full)(y, x, splat, full, p);                                                                            \
    if (!rest) return;                                                                                                \
    T end[2][WIDTH] = { { 0 } };                                                                                      \
    for (int k = 0; k < 2; k++)                                                                                       \
      memcpy(end[k], (const T *)x[k] + (splat >> k & 1 ? 0 : full), (splat >> k & 1 ? 1 : (size_t)rest) * sizeof(T)); \
    FN(name##_full)(end[0], (const void *const[]){ end[0], end[1] }, splat, WIDTH, p);                                \
    memcpy((T *)y + full, end[0], (size_t)rest * sizeof(T));                                                          \
  }

#define THREE(name, A, value)                                                                     \
  static void FN(name)(void *y, const void *const *x, uint32_t splat, int64_t n, const void *p) { \
    (void)splat;                                                                                  \
    const A *pa = x[0];                                                                           \
    const T *pb = x[1], *pc = x[2], p0 = *(const T *)p;                                           \
    T *py = y;                                                                                    \
    (void)p0;                                                                                     \
    INDEPENDENT                                                                                   \
    for (int64_t i = 0; i < n; i++) {                                                             \
      const A a = pa[i];                                                                          \
      const T b = pb[i], c = pc[i];                                                               \
      py[i] = (T)(value);                                                                         \
    }                                                                                             \
  }

#ifdef FLOATING
#include "kernels/floats.h"
#define FLOAT(name, y_) PLAIN(name, T, y_)
#define BOTH(name, y_, integer) PLAIN(name, T, y_)
#define MATH(name, y_, integer) PADDED(name, y_)
#define WIDE(name, y_) PADDED(name, y_)
#define INTEGER(name, integer)
#else
#define FLOAT(name, y_)
#define WIDE FLOAT
#define BOTH(name, y_, integer) PLAIN(name, T, integer)
#define MATH(name, y_, integer) PLAIN(name, T, integer)
#define INTEGER(name, integer) PLAIN(name, T, integer)
#endif
#define TEST(name, y_) PLAIN(name, uint8_t, y_)
#include "kernels/binary.h"

#ifdef FLOATING
#define FLOAT(name, y_) THREE(name, T, y_)
#define BOTH(name, y_, integer) THREE(name, T, y_)
#else
#define FLOAT(name, y_)
#define BOTH(name, y_, integer) THREE(name, T, integer)
#endif
#define SELECT(name, y_) THREE(name, uint8_t, y_)
#include "kernels/ternary.h"

/* Tables of these rows. */
static const situ__row FN(binaries)[SITU_BINARIES] = {
#define BOTH(name, y_, integer) [SITU_BINARY_##name] = FN(name),
#define MATH BOTH
#define TEST(name, y_) [SITU_BINARY_##name] = FN(name),
#ifdef FLOATING
#define FLOAT TEST
#define INTEGER(name, integer)
#else
#define FLOAT(name, y_)
#define INTEGER TEST
#endif
#define WIDE FLOAT
#include "kernels/binary.h"
};

static const situ__row FN(ternaries)[SITU_TERNARIES] = {
#define BOTH(name, y_, integer) [SITU_TERNARY_##name] = FN(name),
#define SELECT(name, y_) [SITU_TERNARY_##name] = FN(name),
#ifdef FLOATING
#define FLOAT SELECT
#else
#define FLOAT(name, y_)
#endif
#include "kernels/ternary.h"
};

#undef LOOP
#undef ROW
#undef PLAIN
#undef PADDED
#undef THREE
#undef T
#undef TNAME
#undef WIDTH
#undef FLOATING
