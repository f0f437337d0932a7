/* A contiguous row, shared by a warp (FLAG_WARP; a work-group has several rows then) or by a work-group. Its threads
   load packs of 16 bytes and keep PIECES of them in registers, so that memory is read once, unless the row is too long
   for that (FLAG_LONG) and is processed in spans. A row whose first element is not aligned begins inside its first
   pack. D1 is the row's dtype.
   SPDX-License-Identifier: MIT */
#if FLAGS & FLAG_WARP
#define TEAM WARP
#define ROW (GROUP * (GROUP_SIZE / WARP) + LANE / WARP)
#define TEAM_RANK (LANE % WARP)
#define SHARED_SCRATCH
#else
#define TEAM GROUP_SIZE
#define ROW GROUP
#define TEAM_RANK LANE
#define SHARED_SCRATCH LOCAL T scratch[GROUP_SIZE / WARP]
#endif
#ifndef ROWS_HELD
#define ROWS_HELD 2 /* at once, at most */
#endif
enum {
  HELD = FLAGS & FLAG_LONG && ROWS_HELD > 1 ? LONG_HELD : ROW_HELD,
  PACK = PACK_BYTES / SIZE(D1),
  PIECES = HELD / PACK,
  SPAN = TEAM * HELD
};

/* All-reduce over the team's threads, always in the same order; every thread gets the result. */
#if FLAGS & FLAG_WARP
#define ACROSS(x, a, b, together) return x;
#define ALLREDUCE(op, x) allreduce_##op(x)
#define ALLREDUCE_PARAMS T x
#else
#define ACROSS(x, a, b, together)                      \
  if (LANE % WARP == 0) scratch[LANE / WARP] = x;      \
  SYNC;                                                \
  T a = scratch[0];                                    \
  UNROLL for (int k = 1; k < GROUP_SIZE / WARP; k++) { \
    const T b = scratch[k];                            \
    a = together;                                      \
  }                                                    \
  SYNC;                                                \
  return a;
#define ALLREDUCE(op, x) allreduce_##op(x, scratch)
#define ALLREDUCE_PARAMS T x, SHARED T *scratch
#endif
#define DEFINE_ALLREDUCE(name, together)                       \
  DEVICE T allreduce_##name(ALLREDUCE_PARAMS) {                \
    UNROLL for (int apart = WARP / 2; apart > 0; apart /= 2) { \
      const T a = x, b = SHUFFLE_XOR(x, apart);                \
      x = together;                                            \
    }                                                          \
    ACROSS(x, a, b, together)                                  \
  }
/* The larger one, NaN if either is; which zero is not said. A GPU has an instruction for it. e^x: where elements have
   16 bits, its approximation will do, with a relative error below 2^-22 + |x| 2^-23. */
#ifdef __CUDA_ARCH__
DEVICE float at_most(float a, float b) {
  float most;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(most) : "f"(a), "f"(b));
  return most;
}
DEVICE double at_most(double a, double b) { return b > a || b != b ? b : a; }
#else
#define at_most(a, b) FN(larger)(a, b)
#endif
#if defined(__CUDA_ARCH__) && SIZE(D1) == 2
DEVICE float row_exp(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x * 1.44269504088896340736f));
  return y;
}
#else
#define row_exp(x) exp(x)
#endif
DEFINE_ALLREDUCE(sum, a + b)
DEFINE_ALLREDUCE(larger, at_most(a, b))

#if FLAGS & FLAG_LONG
#define PASS for (int from = 0; from < reach; from += SPAN)
#define RELOAD(read) read
#else
#define PASS for (int from = 0; from == 0; from = 1)
#define RELOAD(read)
#endif
/* The pieces that the row reaches; COLUMN is the column where this thread's pack of piece p begins, negative before the
   row. Columns are 32-bit numbers (ROW_MOST), which take half the instructions. */
#define EACH_PIECE(p) UNROLL for (int p = 0; p < PIECES; p++) if (from + p * TEAM * PACK < reach)
#define COLUMN(p) (from + (p * TEAM + TEAM_RANK) * PACK - shift)
#define IS_THERE(c) ((U32)(c) < (U32)size)
#define IS_FULL(c) ((c) >= 0 && (c) <= size - PACK)
/* The row begins at `base` and has `size` elements; its first pack has `shift` elements before it. */
#define BEGIN_ROW(row, length)                                \
  const int size = (int)(length);                             \
  const I64 base = size * (row);                              \
  const int shift = (int)((layout.skew + base) & (PACK - 1)); \
  const int reach = size + shift;

typedef union row_1 {
  MEMORY(D1) v[PACK];
  U32 word[PACK_BYTES / 4];
} ALIGNED(PACK_BYTES) row_1;
/* Element e. Of two in a word the second is one operation away then, which compilers do not see in an array of
   halves. */
#if SIZE(D1) == 2
#define ELEMENT(all, e) (MEMORY(D1))((all).word[(e) / 2] >> (e) % 2 * 16)
#define SET_ELEMENT(all, e, bits) \
  (all).word[(e) / 2] = (e) % 2 ? (all).word[(e) / 2] | (U32)(bits) << 16 : (U32)(MEMORY(D1))(bits)
#else
#define ELEMENT(all, e) (all).v[e]
#define SET_ELEMENT(all, e, bits) (all).v[e] = bits
#endif
#define VALUE(packs, p, e) ((T)LOAD(D1, ELEMENT(packs[p], e)))

/* One access of 16 bytes, in assembly: a compiler that sees elements stored on both branches moves the stores behind
   them, one element each. */
DEVICE void write_pack(GLOBAL MEMORY(D0) *at, const T v[PACK]) {
  row_1 all;
#if defined(__CUDA_ARCH__) && SIZE(D0) == 2
  UNROLL for (int k = 0; k < PACK / 2; k++) all.word[k] = STORE_PAIR(D0, v[2 * k], v[2 * k + 1]);
#else
  UNROLL for (int e = 0; e < PACK; e++) all.v[e] = STORE(D0, v[e]);
#endif
#ifdef __CUDA_ARCH__
  asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(at)), "r"(all.word[0]),
               "r"(all.word[1]), "r"(all.word[2]), "r"(all.word[3])
               : "memory");
#else
  AS(GLOBAL row_1, at) = all;
#endif
}
/* Loads operand k's row of dtype D1, which begins at x, as packs; elements outside the row become `none`. Kept so,
   16 bits take half of the registers of their values, which more rows at a time have. */
#define READ_PACKS(k, x, to, none)                                                  \
  EACH_PIECE(p) {                                                                   \
    const int c = COLUMN(p);                                                        \
    if (layout.full >> k & 1 && IS_FULL(c)) {                                       \
      to[p] = AS(GLOBAL const row_1, (x) + c);                                      \
    } else {                                                                        \
      UNROLL for (int e = 0; e < PACK; e++) {                                       \
        SET_ELEMENT(to[p], e, IS_THERE(c + e) ? (x)[c + e] : STORE(D1, (T)(none))); \
      }                                                                             \
    }                                                                               \
  }
/* The same as an array of T. */
#define READ_ROW(k, x, to, none)                                                       \
  {                                                                                    \
    row_1 packs[PIECES];                                                               \
    READ_PACKS(k, x, packs, none)                                                      \
    EACH_PIECE(p) UNROLL for (int e = 0; e < PACK; e++) to[p][e] = VALUE(packs, p, e); \
  }
/* Loads piece p of a vector of another dtype that all rows share. */
#define READ_ALONG(k, dtype, x, p, to)                                                                   \
  {                                                                                                      \
    const int c = COLUMN(p);                                                                             \
    if (layout.full >> k & 1 && IS_FULL(c)) {                                                            \
      typedef struct along {                                                                             \
        MEMORY(dtype) v[PACK];                                                                           \
      } ALIGNED(PACK_BYTES) along;                                                                       \
      const along all = AS(GLOBAL const along, (x) + c);                                                 \
      UNROLL for (int e = 0; e < PACK; e++) to[e] = LOAD(dtype, all.v[e]);                               \
    } else {                                                                                             \
      UNROLL for (int e = 0; e < PACK; e++) to[e] = IS_THERE(c + e) ? (T)LOAD(dtype, (x)[c + e]) : (T)0; \
    }                                                                                                    \
  }
/* Stores piece p, an array of T, of a row of dtype D1, which begins at y. */
#define WRITE_PIECE(k, y, p, from_)                                                               \
  {                                                                                               \
    const int c = COLUMN(p);                                                                      \
    if (layout.full >> k & 1 && IS_FULL(c)) {                                                     \
      write_pack((y) + c, from_);                                                                 \
    } else {                                                                                      \
      UNROLL for (int e = 0; e < PACK; e++) if (IS_THERE(c + e))(y)[c + e] = STORE(D0, from_[e]); \
    }                                                                                             \
  }
