/* Functions of unary.h for one compute type, T. unary.c includes this once for each type, between definitions of T,
   TNAME and WIDTH, with FLOATING where T is a floating type. Defines the tables rows_T and, for floating types,
   grads_T; with ROWS_16, rows_16_T too.
   SPDX-License-Identifier: MIT */

/* A loop over a row. Parameters are read once, before it. */
#define LOOP(name, Y, value)                                                      \
  ALWAYS_INLINE void FN(name##_loop)(const T *px, Y *py, int64_t n, const T *p) { \
    const T p0 = p[0], p1 = p[1], p2 = p[2];                                      \
    (void)p0, (void)p1, (void)p2;                                                 \
    INDEPENDENT                                                                   \
    for (int64_t i = 0; i < n; i++) {                                             \
      const T x = px[i];                                                          \
      (void)x;                                                                    \
      py[i] = (Y)(value);                                                         \
    }                                                                             \
  }

#define PLAIN(name, Y, value)                                                                     \
  LOOP(name, Y, value)                                                                            \
  static void FN(name)(void *y, const void *const *x, uint32_t splat, int64_t n, const void *p) { \
    (void)splat;                                                                                  \
    FN(name##_loop)(x[0], y, n, p);                                                               \
  }

/* Two loops over each piece of a row: in one, a long formula waits for itself, as the processor sees less than two
   elements ahead. */
#define LOOP_STEPS(name, first, second)                                                                      \
  ALWAYS_INLINE void FN(name##_piece)(const T *px, T *py, int64_t n) {                                       \
    T between[PIECE];                                                                                        \
    INDEPENDENT                                                                                              \
    for (int64_t i = 0; i < n; i++) {                                                                        \
      const T x = px[i];                                                                                     \
      between[i] = first;                                                                                    \
    }                                                                                                        \
    INDEPENDENT                                                                                              \
    for (int64_t i = 0; i < n; i++) {                                                                        \
      const T x = px[i];                                                                                     \
      py[i] = second(x, between[i]);                                                                         \
    }                                                                                                        \
  }                                                                                                          \
  ALWAYS_INLINE void FN(name##_loop)(const T *px, T *py, int64_t n, const T *p) {                            \
    (void)p;                                                                                                 \
    for (; n >= PIECE; n -= PIECE, px += PIECE, py += PIECE) FN(name##_piece)(px, py, PIECE); /* unrolled */ \
    FN(name##_piece)(px, py, n);                                                                             \
  }

/* The end of the row is padded to a whole vector: this is faster than one call for each element, and an element's value
   does not depend on its position in a row. The row and its end share one loop. That `n & -WIDTH` is whole vectors is
   known when this is compiled: the loop has no code for a rest. */
#define PADDED_ROW(name)                                                                          \
  static void FN(name)(void *y, const void *const *x, uint32_t splat, int64_t n, const void *p) { \
    (void)splat;                                                                                  \
    const int64_t full = n & -WIDTH;                                                              \
    const size_t rest = (size_t)(n - full) * sizeof(T);                                           \
    const T *px = x[0];                                                                           \
    T *py = y, end[WIDTH];                                                                        \
    for (n = full;; px = py = end, n = WIDTH) {                                                   \
      FN(name##_loop)(px, py, n & -WIDTH, p);                                                     \
      if (py == end || !rest) break;                                                              \
      memset(end, 0, sizeof end);                                                                 \
      memcpy(end, px + full, rest);                                                               \
    }                                                                                             \
    if (rest) memcpy((T *)y + full, end, rest);                                                   \
  }
#define PADDED(name, value) LOOP(name, T, value) PADDED_ROW(name)

/* Gradients: operands are x, y and g. Those that a formula does not use may be any readable memory. */
#define GRADIENT_LOOP(name, value)                                                                               \
  ALWAYS_INLINE void FN(name##_grad_loop)(const T *px, const T *py, const T *pg, T *pd, int64_t n, const T *p) { \
    const T p0 = p[0], p1 = p[1], p2 = p[2];                                                                     \
    (void)p0, (void)p1, (void)p2;                                                                                \
    INDEPENDENT                                                                                                  \
    for (int64_t i = 0; i < n; i++) {                                                                            \
      const T x = px[i], y = py[i], g = pg[i];                                                                   \
      (void)x, (void)y, (void)g;                                                                                 \
      pd[i] = (T)(value);                                                                                        \
    }                                                                                                            \
  }

#define PLAIN_GRADIENT(name, value)                                                                        \
  GRADIENT_LOOP(name, value)                                                                               \
  static void FN(name##_grad)(void *dx, const void *const *in, uint32_t splat, int64_t n, const void *p) { \
    (void)splat;                                                                                           \
    FN(name##_grad_loop)(in[0], in[1], in[2], dx, n, p);                                                   \
  }

#define PADDED_GRADIENT_ROW(name)                                                                          \
  static void FN(name##_grad)(void *dx, const void *const *in, uint32_t splat, int64_t n, const void *p) { \
    (void)splat;                                                                                           \
    const int64_t full = n & -WIDTH;                                                                       \
    const size_t rest = (size_t)(n - full) * sizeof(T);                                                    \
    const T *px = in[0], *py = in[1], *pg = in[2];                                                         \
    T *pd = dx, end[3][WIDTH];                                                                             \
    for (n = full;; px = pd = end[0], py = end[1], pg = end[2], n = WIDTH) {                               \
      FN(name##_grad_loop)(px, py, pg, pd, n & -WIDTH, p);                                                 \
      if (pd == end[0] || !rest) break;                                                                    \
      memset(end, 0, sizeof end);                                                                          \
      memcpy(end[0], px + full, rest);                                                                     \
      memcpy(end[1], py + full, rest);                                                                     \
      memcpy(end[2], pg + full, rest);                                                                     \
    }                                                                                                      \
    if (rest) memcpy((T *)dx + full, end[0], rest);                                                        \
  }
#define PADDED_GRADIENT(name, value) GRADIENT_LOOP(name, value) PADDED_GRADIENT_ROW(name)

/* SIN and COS ask for `far`. Where nothing in a piece is far, its loop becomes vectors; a value is the same in both. */
#ifdef OWN_SINE
#define NEAR_VALUE(is_far, value) \
  const T x = px[i], g = pg[i];   \
  const bool far = is_far;        \
  (void)g, (void)far;             \
  py[i] = value
#define NEAR_LOOP(name, value)                                                                                 \
  ALWAYS_INLINE void FN(name##_piece)(const T *px, const T *pg, T *py, int64_t n) {                            \
    bool any = false;                                                                                          \
    for (int64_t i = 0; i < n; i++) any |= IS_FAR(px[i]);                                                      \
    if (any) {                                                                                                 \
      for (int64_t i = 0; i < n; i++) { NEAR_VALUE(IS_FAR(x), value); }                                        \
      return;                                                                                                  \
    }                                                                                                          \
    INDEPENDENT                                                                                                \
    for (int64_t i = 0; i < n; i++) { NEAR_VALUE(false, value); }                                              \
  }                                                                                                            \
  ALWAYS_INLINE void FN(name##_pieces)(const T *px, const T *pg, T *py, int64_t n) {                           \
    for (; n >= PIECE; n -= PIECE, px += PIECE, pg += PIECE, py += PIECE) FN(name##_piece)(px, pg, py, PIECE); \
    FN(name##_piece)(px, pg, py, n);                                                                           \
  }
/* Gradients read x and g alone; without g, x stands for it. */
#define NEAR(name, y_, dx, uses)                                                                                 \
  NEAR_LOOP(name, y_)                                                                                            \
  ALWAYS_INLINE void FN(name##_loop)(const T *px, T *py, int64_t n, const T *p) {                                \
    (void)p;                                                                                                     \
    FN(name##_pieces)(px, px, py, n);                                                                            \
  }                                                                                                              \
  PADDED_ROW(name)                                                                                               \
  NEAR_LOOP(name##_grad, dx)                                                                                     \
  ALWAYS_INLINE void FN(name##_grad_loop)(const T *px, const T *py, const T *pg, T *pd, int64_t n, const T *p) { \
    (void)py, (void)p;                                                                                           \
    FN(name##_grad_pieces)(px, pg, pd, n);                                                                       \
  }                                                                                                              \
  PADDED_GRADIENT_ROW(name)
#endif

#ifdef FLOATING
#include "kernels/floats.h"
#define FLOAT(name, y_, dx, uses) PADDED(name, y_) PADDED_GRADIENT(name, dx)
#define BOTH(name, y_, integer, dx, uses) \
  PLAIN(name, T, y_)                      \
  PLAIN_GRADIENT(name, dx)
#define MATH(name, y_, integer, dx, uses) FLOAT(name, y_, dx, uses)
#define INTEGER(name, integer)
#define TEST(name, y_, integer) PLAIN(name, uint8_t, y_)
#define STEPS(name, first, second, dx, uses) \
  LOOP_STEPS(name, first, second)            \
  PADDED_ROW(name)                           \
  PADDED_GRADIENT(name, dx)
#else
#define FLOAT(name, y_, dx, uses)
#define BOTH(name, y_, integer, dx, uses) PLAIN(name, T, integer)
#define MATH(name, y_, integer, dx, uses) PLAIN(name, T, integer)
#define INTEGER(name, integer) PLAIN(name, T, integer)
#define TEST(name, y_, integer) PLAIN(name, uint8_t, integer)
#endif
#define WIDE FLOAT
#include "kernels/unary.h"

/* Table of these rows. */
static const situ__row FN(rows)[SITU_UNARIES] = {
#define BOTH(name, y_, integer, dx, uses) [SITU_UNARY_##name] = FN(name),
#define MATH BOTH
#define TEST(name, y_, integer) [SITU_UNARY_##name] = FN(name),
#ifdef FLOATING
#define FLOAT(name, y_, dx, uses) [SITU_UNARY_##name] = FN(name),
#define INTEGER(name, integer)
#else
#define FLOAT(name, y_, dx, uses)
#define INTEGER(name, integer) [SITU_UNARY_##name] = FN(name),
#endif
#define WIDE FLOAT
#include "kernels/unary.h"
};

#ifdef FLOATING
static const situ__row FN(grads)[SITU_UNARIES] = {
#define FLOAT(name, y_, dx, uses) [SITU_UNARY_##name] = FN(name##_grad),
#define WIDE FLOAT
#define BOTH(name, y_, integer, dx, uses) [SITU_UNARY_##name] = FN(name##_grad),
#define MATH BOTH
#define INTEGER(name, integer)
#define TEST(name, y_, integer)
#include "kernels/unary.h"
};
#endif

#ifdef ROWS_16
PADDED(gelu_16, x *situ__normal_cdf_16(x))
static const situ__row FN(rows_16)[SITU_UNARIES] = { [SITU_UNARY_gelu] = FN(gelu_16) };
#endif

#undef LOOP
#undef PLAIN
#undef LOOP_STEPS
#undef PADDED_ROW
#undef PADDED
#undef GRADIENT_LOOP
#undef PLAIN_GRADIENT
#undef PADDED_GRADIENT_ROW
#undef PADDED_GRADIENT
#undef NEAR_VALUE
#undef NEAR_LOOP
#undef OWN_SINE
#undef T
#undef TNAME
#undef WIDTH
#undef FLOATING
#undef ROWS_16
