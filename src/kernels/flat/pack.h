/* Vectorised loads and stores: a GPU work-item processes packs of adjacent elements. A pack is one 16-byte access of
   the widest operand where it is aligned and contiguous, and as many elements of the others. For sources that walk
   operands D0 to D3 together.
   SPDX-License-Identifier: MIT */
#ifdef D1
#define SIZE_1 SIZE(D1)
#else
#define SIZE_1 1
#endif
#ifdef D2
#define SIZE_2 SIZE(D2)
#else
#define SIZE_2 1
#endif
#ifdef D3
#define SIZE_3 SIZE(D3)
#else
#define SIZE_3 1
#endif
#define WIDER(a, b) ((a) > (b) ? (a) : (b))
enum {
  WIDEST = WIDER(WIDER(SIZE(D0), SIZE_1), WIDER(SIZE_2, SIZE_3)),
  PACK = PACK_BYTES / WIDEST < PACK_MOST ? PACK_BYTES / WIDEST : PACK_MOST,
  PACKS = ITEM_PACKS(PACK)
};
#define TYPE_OF_PACK(k, dtype) \
  typedef struct pack_##k {    \
    MEMORY(dtype) v[PACK];     \
  } ALIGNED(PACK *SIZE(dtype)) pack_##k;
TYPE_OF_PACK(0, D0)
#ifdef D1
TYPE_OF_PACK(1, D1)
#endif
#ifdef D2
TYPE_OF_PACK(2, D2)
#endif
#ifdef D3
TYPE_OF_PACK(3, D3)
#endif

/* Start offset of a pack in each operand, and which of its elements are valid: a row may end inside its last pack, and
   begin inside its first one where it is not aligned. */
typedef struct spot {
  I64 at[WALK_OPERANDS];
  int from, to;
} spot;
/* An output parameter: for a returned struct clang emits an attribute that Oclgrind 21 does not know. */
DEVICE void find_spot(const walk *w, const packs *s, I64 pack, spot *p) {
  const I64 last = w->ndim - 1, length = w->size[last];
  I64 row = last && pack < s->count ? quotient(pack, s->each, s->magic) : 0;
  const I64 first = (pack - row * s->each) * PACK - s->shift, left = length - first;
  p->from = first < 0 ? (int)-first : 0;
  p->to = left < PACK ? (int)left : PACK;
  if (pack >= s->count) p->to = 0;
  UNROLL for (int k = 0; k < WALK_OPERANDS; k++) p->at[k] = w->offset[k] + first * w->stride[k][last];
  ROLLED for (I64 d = last - 1; d >= 0; d--) {
    const I64 outer = d ? quotient(row, w->size[d], w->magic[d]) : 0;
    UNROLL for (int k = 0; k < WALK_OPERANDS; k++) p->at[k] += (row - outer * w->size[d]) * w->stride[k][d];
    row = outer;
  }
}

#define PACK_OF_ITEM(p) ((GROUP * PACKS + (p)) * GROUP_SIZE + LANE)
#define IS_THERE(p, e) ((e) >= (p).from && (e) < (p).to)
#define ALL_THERE(p) ((p).from == 0 && (p).to == PACK)
#define ONE_OF(k, p, e) ((p).at[k] + w.stride[k][w.ndim - 1] * (e))
/* Loads operand k's pack at spot p into an array of T; WRITE_PACK stores operand 0's from an array of its dtype. */
#define READ_PACK(k, dtype, x, p, to)                                                                      \
  if (s.full >> k & 1 && ALL_THERE(p)) {                                                                   \
    const pack_##k all = AS(GLOBAL const pack_##k, x + (p).at[k]);                                         \
    UNROLL for (int e = 0; e < PACK; e++) to[e] = LOAD(dtype, all.v[e]);                                   \
  } else {                                                                                                 \
    UNROLL for (int e = 0; e < PACK; e++) to[e] = IS_THERE(p, e) ? LOAD(dtype, x[ONE_OF(k, p, e)]) : (T)0; \
  }
#define WRITE_PACK(y, p, from)                                                                \
  if (s.full & 1 && ALL_THERE(p)) {                                                           \
    AS(GLOBAL pack_0, y + (p).at[0]) = from;                                                  \
  } else {                                                                                    \
    UNROLL for (int e = 0; e < PACK; e++) if (IS_THERE(p, e)) y[ONE_OF(0, p, e)] = from.v[e]; \
  }
