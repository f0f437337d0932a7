/* Sorting and top-k. Each dtype is mapped to an unsigned key of its own size with the wanted order; keys are
   radix-sorted, last byte first, which is stable and takes the same time for any values.
   SPDX-License-Identifier: MIT */
#include "fold.h"
#include "base/alloc.h"
#include "base/fail.h"
#include "base/pool.h"
#include "base/size.h"

#include <stdatomic.h>
#include <string.h>

enum {
  FEW = 48, /* up to this many, insertion sort is faster than counting bytes */
  GRAIN = 4096,
  HUGE_PAGE = 2 << 20, /* bytes of a huge page */
  LARGE = 1 << 16,
  PART_BITS = 11,
  PARTS = 1 << PART_BITS,
  PARTS_A_TASK = 16
};

typedef struct plan {
  const situ_view_desc *x, *values, *indices;
  bool descending;
  situ__lines lines;
  int64_t k, capacity; /* elements that are wanted; items that are kept while some are looked for */
  int bytes;           /* of a key */
  atomic_bool no_memory;
} plan;

/* ---- keys ---- */

/* Maps IEEE bits to integers of the same order: NaN last, and both zeros equal. */
static uint64_t float_key(uint64_t bits, uint64_t sign, uint64_t infinity) {
  uint64_t magnitude = bits & (sign - 1);
  if (magnitude > infinity) return sign | (sign - 1);
  return bits & sign ? sign - magnitude : sign | magnitude;
}

#define KEYS(bits, expression)                      \
  for (int64_t i = 0; i < count; i++, at += step) { \
    uint##bits##_t v;                               \
    memcpy(&v, at, sizeof v);                       \
    to[i] = (uint64_t)(expression) ^ flip;          \
  }                                                 \
  break
static void read_keys(const plan *p, const char *at, size_t step, int64_t count, uint64_t *to) {
  uint64_t flip = p->descending ? UINT64_MAX >> (64 - 8 * p->bytes) : 0;
  switch ((situ_dtype)p->x->dtype) {
  case SITU_BOOL:
  case SITU_U8: KEYS(8, v);
  case SITU_I8: KEYS(8, v ^ 0x80u);
  case SITU_I16: KEYS(16, v ^ 0x8000u);
  case SITU_I32: KEYS(32, v ^ 0x80000000u);
  case SITU_F16: KEYS(16, float_key(v, 0x8000u, 0x7c00u));
  case SITU_BF16: KEYS(16, float_key(v, 0x8000u, 0x7f80u));
  case SITU_F32: KEYS(32, float_key(v, 0x80000000u, 0x7f800000u));
  case SITU_F64: KEYS(64, float_key(v, 1ull << 63, 0x7ffull << 52));
  default: KEYS(64, v ^ 1ull << 63);
  }
}
#undef KEYS

enum { BLOCK = 512 }; /* keys that are read at once */

static bool has_smaller(const uint64_t *key, int64_t count, uint64_t than) {
  uint64_t found = 0;
  for (int64_t i = 0; i < count; i++) found |= key[i] < than;
  return found;
}

static void copy_element(char *to, const char *from, size_t size) {
  switch (size) {
  case 1: *to = *from; break;
  case 2: memcpy(to, from, 2); break;
  case 4: memcpy(to, from, 4); break;
  default: memcpy(to, from, 8);
  }
}

/* The first ones alone are found while the line is read: few in their order. */
static bool takes_some(const plan *p) { return p->k > 0 && p->k < p->lines.size / 4; }
static bool takes_few(const plan *p) { return takes_some(p) && p->k <= FEW; }

/* Half of the memory, and of the traffic, for lines that a 32-bit index reaches. */
typedef struct narrow_item {
  uint32_t key, from;
} narrow_item;
typedef struct wide_item {
  uint64_t key;
  int64_t from;
} wide_item;

#define ITEM narrow_item
#define ITEM_OF(a_key, index) ((narrow_item){ (uint32_t)(a_key), (uint32_t)(index) })
#define OF(name) name##_narrow
#include "sort_items.h"

#define ITEM wide_item
#define ITEM_OF(a_key, index) ((wide_item){ a_key, index })
#define OF(name) name##_wide
#include "sort_items.h"

situ_status situ__cpu_sort(int index, const situ_work *work) {
  (void)index;
  plan p = { .x = work->in[0], .values = work->out[0], .indices = work->out[1], .descending = work->op == 1 };
  const situ_view_desc *out = p.values ? p.values : p.indices;
  p.lines = situ__lines_of(p.x, work->integer[0]);
  p.k = out->ndim ? out->size[work->integer[0]] : 1;
  p.capacity = situ__min_i64(p.lines.size, situ__max_i64(4 * p.k, GRAIN));
  p.bytes = (int)situ__dtype_size((situ_dtype)p.x->dtype);
  const int64_t lines = p.lines.outer * p.lines.inner;
  const bool narrow = p.bytes <= 4 && p.lines.size <= UINT32_MAX;
  situ__parallel(lines, situ__max_i64(1, GRAIN / p.lines.size), narrow ? sort_lines_narrow : sort_lines_wide, &p);
  const size_t item = narrow ? sizeof(narrow_item) : sizeof(wide_item);
  if (atomic_load(&p.no_memory)) return situ__no_memory("sort", 2 * (size_t)p.lines.size * item);
  return SITU_OK;
}
