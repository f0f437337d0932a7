/* y = f(x0, x1, x2) element by element, for all rows of the formula tables; copies, whose formula is x, too.
   SPDX-License-Identifier: MIT

   D0 is y, D1 to D3 the operands; NAME the row's function: unary_exp, unary_grad_exp, binary_add, ... */
#include "kernels/element.h"
#if FLOATING
#include "kernels/floats.h"
#else
#include "kernels/integer.h"
#endif

typedef struct parameters {
  T p[4];
} parameters;
#define FORMULA(name, y, ...) \
  DEVICE T name(__VA_ARGS__, const T p0, const T p1, const T p2) { return (T)(y); }

/* Only formulas with as many operands as this kernel has: most of the compile time is theirs. */
#if !defined(D2)
DEVICE T copy(T x, T p0, T p1, T p2) { return x; }
#endif

#if FLOATING
#if !defined(D2)
#define FLOAT(name, y, dx, uses) FORMULA(unary_##name, y, const T x)
#define BOTH(name, y, integer, dx, uses) FORMULA(unary_##name, y, const T x)
#define MATH BOTH
#define INTEGER(name, integer)
#define TEST(name, y, integer) FORMULA(unary_##name, y, const T x)
#define WIDE FLOAT
#include "kernels/unary.h"
#elif defined(D3)
#define FLOAT(name, y_, dx, uses) FORMULA(unary_grad_##name, dx, const T x, const T y, const T g)
#define BOTH(name, y_, integer, dx, uses) FORMULA(unary_grad_##name, dx, const T x, const T y, const T g)
#define MATH BOTH
#define INTEGER(name, integer)
#define TEST(name, y_, integer)
#define WIDE FLOAT
#include "kernels/unary.h"
#define FLOAT(name, y) FORMULA(ternary_##name, y, const T a, const T b, const T c)
#define BOTH(name, y, integer) FORMULA(ternary_##name, y, const T a, const T b, const T c)
#define SELECT(name, y) FORMULA(ternary_##name, y, const T a, const T b, const T c)
#include "kernels/ternary.h"
#else
#define FLOAT(name, y) FORMULA(binary_##name, y, const T a, const T b)
#define BOTH(name, y, integer) FORMULA(binary_##name, y, const T a, const T b)
#define MATH BOTH
#define INTEGER(name, integer)
#define TEST(name, y) FORMULA(binary_##name, y, const T a, const T b)
#define WIDE FLOAT
#include "kernels/binary.h"
#endif
#else
#if !defined(D2)
#define FLOAT(name, y, dx, uses)
#define BOTH(name, y, integer, dx, uses) FORMULA(unary_##name, integer, const T x)
#define MATH BOTH
#define INTEGER(name, integer) FORMULA(unary_##name, integer, const T x)
#define TEST(name, y, integer) FORMULA(unary_##name, integer, const T x)
#define WIDE FLOAT
#include "kernels/unary.h"
#elif defined(D3)
#define FLOAT(name, y)
#define BOTH(name, y, integer) FORMULA(ternary_##name, integer, const T a, const T b, const T c)
#define SELECT(name, y) FORMULA(ternary_##name, y, const T a, const T b, const T c)
#include "kernels/ternary.h"
#else
#define FLOAT(name, y)
#define BOTH(name, y, integer) FORMULA(binary_##name, integer, const T a, const T b)
#define MATH BOTH
#define INTEGER(name, integer) FORMULA(binary_##name, integer, const T a, const T b)
#define TEST(name, y) FORMULA(binary_##name, y, const T a, const T b)
#define WIDE FLOAT
#include "kernels/binary.h"
#endif
#endif

/* READ_1 to READ_3 load one element of each operand that exists. */
#if defined(D3)
#define RESULT NAME(READ_1, READ_2, READ_3, q.p[0], q.p[1], q.p[2])
#elif defined(D2)
#define RESULT NAME(READ_1, READ_2, q.p[0], q.p[1], q.p[2])
#else
#define RESULT NAME(READ_1, q.p[0], q.p[1], q.p[2])
#endif
#if FLAGS & FLAG_DIVIDES
#define FAULT_IF(by_zero) \
  if (by_zero && FIRST_TO_RAISE(&found->raised)) found->verb = FAULT_DIVISION, found->value = (I64)q.p[0]
#else
#define FAULT_IF(by_zero)
#endif
#if FLAGS & FLAG_COUNTS
#define FINITE(x) ((x) - (x) == 0)
#define COUNT_IF(there, value, stored) \
  if (there && FINITE(value) && !FINITE(PASTE(VALUE, D0)(stored))) ADD_ONE(lost + lost_at)
#else
#define COUNT_IF(there, value, stored)
#endif

#if ON_CPU
/* Addresses operand k from element i on: a CPU steps along the last dimension without a division for each element. */
#if FLAGS & FLAG_STRIDED
#define RUN walk_run(&w, i, end)
#define STEP(k) w.stride[k][w.ndim - 1]
#define FROM(k) walk_at(&w, k, i)
#else
#define RUN (end - i)
#define STEP(k) 1
#define FROM(k) (w.offset[k] + i)
#endif
#define READ_1 LOAD(D1, x1[from_1 + j * STEP(1)])
#define READ_2 LOAD(D2, x2[from_2 + j * STEP(2)])
#define READ_3 LOAD(D3, x3[from_3 + j * STEP(3)])
#else
#include "kernels/flat/pack.h"
#define READ_1 v1[p][e]
#define READ_2 v2[p][e]
#define READ_3 v3[p][e]
#endif

/* Results are collected in blocks before non-temporal stores; PAST_LINE is the number of elements after a cache line's
   begin. */
#if FLAGS & FLAG_STREAMS
enum { BLOCK = 128 };
#define PAST_LINE(at) ((I64)((ulong)(at) % sizeof(line) / sizeof(*(at))))
#endif
/* y may alias an operand: each element is read before it is written. */
FLAT run(GLOBAL MEMORY(D0) *y, GLOBAL const MEMORY(D1) *x1
#ifdef D2
         ,
         GLOBAL const MEMORY(D2) *x2
#endif
#ifdef D3
         ,
         GLOBAL const MEMORY(D3) *x3
#endif
#if FLAGS & FLAG_COUNTS
         ,
         GLOBAL I64 *lost
#endif
         ,
         CONST_PARAM walk w, const parameters q
#if FLAGS & FLAG_COUNTS
         ,
         const I64 lost_at
#endif
#if !ON_CPU
         ,
         CONST_PARAM packs s
#endif
#if FLAGS & FLAG_DIVIDES
         ,
         GLOBAL fault *found
#endif
) {
#if ON_CPU
  FOR_RUNS(i, end, w.numel, RUN) {
    const I64 from_0 = FROM(0), from_1 = FROM(1), count = RUN;
#ifdef D2
    const I64 from_2 = FROM(2);
#endif
#ifdef D3
    const I64 from_3 = FROM(3);
#endif
#if FLAGS & FLAG_STREAMS
    MEMORY(D0) made[BLOCK];
    for (I64 done = 0, n; done < count; done += n) {
      n = BLOCK - PAST_LINE(y + from_0 + done); /* the next block begins at a cache line */
      if (n > count - done) n = count - done;
      for (I64 k = 0; k < n; k++) {
        const I64 j = done + k;
        made[k] = STORE(D0, RESULT);
      }
      stream((GLOBAL uchar *)(y + from_0 + done), (const uchar *)made, n * sizeof(*y));
    }
#else
    for (I64 j = 0; j < count; j++) {
      FAULT_IF(READ_2 == 0);
      const T value = RESULT;
      const MEMORY(D0) stored = STORE(D0, value);
      y[from_0 + j * STEP(0)] = stored;
      COUNT_IF(1, value, stored);
    }
#endif
  }
#if FLAGS & FLAG_STREAMS
  STREAMED;
#endif
#else
  spot spots[PACKS];
  T v1[PACKS][PACK], v2[PACKS][PACK], v3[PACKS][PACK];
  UNROLL for (int p = 0; p < PACKS; p++) {
    find_spot(&w, &s, PACK_OF_ITEM(p), &spots[p]);
    READ_PACK(1, D1, x1, spots[p], v1[p])
#ifdef D2
    READ_PACK(2, D2, x2, spots[p], v2[p])
#endif
#ifdef D3
    READ_PACK(3, D3, x3, spots[p], v3[p])
#endif
  }
  UNROLL for (int p = 0; p < PACKS; p++) {
    pack_0 stored;
    UNROLL for (int e = 0; e < PACK; e++) {
      FAULT_IF(READ_2 == 0 && IS_THERE(spots[p], e));
      const T value = RESULT;
      stored.v[e] = STORE(D0, value);
      COUNT_IF(IS_THERE(spots[p], e), value, stored.v[e]);
    }
    WRITE_PACK(y, spots[p], stored)
  }
#endif
}
