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
  PARTS = 1 << PART_BITS
};

typedef struct item {
  uint64_t key;
  int64_t from; /* its index in the line */
} item;

typedef struct plan {
  const situ_view_desc *x, *values, *indices;
  bool descending;
  situ__lines lines;
  int64_t k;
  int bytes; /* of a key */
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

static void read_items(const plan *p, const char *at, size_t step, item *to) {
  uint64_t key[BLOCK];
  for (int64_t first = 0; first < p->lines.size; first += BLOCK, at += BLOCK * step) {
    const int64_t count = situ__min_i64(BLOCK, p->lines.size - first);
    read_keys(p, at, step, count, key);
    for (int64_t i = 0; i < count; i++) to[first + i] = (item){ key[i], first + i };
  }
}

/* ---- order ---- */

static void insert_all(item *items, int64_t count) {
  for (int64_t i = 1; i < count; i++) {
    item one = items[i];
    int64_t to = i;
    for (; to > 0 && items[to - 1].key > one.key; to--) items[to] = items[to - 1];
    items[to] = one;
  }
}

/* Sorts by keys of `bytes` bytes. The result is in items or in spare; returns which. */
static item *sort_bytes(item *items, item *spare, int64_t count, int bytes) {
  if (count <= FEW) {
    insert_all(items, count);
    return items;
  }
  int64_t starts[8][256];
  memset(starts, 0, (size_t)bytes * sizeof *starts);
  for (int64_t i = 0; i < count; i++)
    for (int b = 0; b < bytes; b++) starts[b][items[i].key >> 8 * b & 255]++;
  for (int b = 0; b < bytes; b++) {
    if (starts[b][items[0].key >> 8 * b & 255] == count) continue; /* the same byte in all keys */
    int64_t at = 0;
    for (int v = 0; v < 256; v++) {
      int64_t own = starts[b][v];
      starts[b][v] = at;
      at += own;
    }
    for (int64_t i = 0; i < count; i++) spare[starts[b][items[i].key >> 8 * b & 255]++] = items[i];
    item *other = items;
    items = spare;
    spare = other;
  }
  return items;
}

/* Distributes items by the highest bits that differ; first[v] is set to where those with bits v begin. Returns how many
   bytes may differ within a part. */
static int split(const item *items, item *to, int64_t count, int64_t first[PARTS + 1]) {
  uint64_t differ = 0;
  for (int64_t i = 1; i < count; i++) differ |= items[i].key ^ items[0].key;
  const int top = differ ? 64 - __builtin_clzll(differ) : 0, low = top > PART_BITS ? top - PART_BITS : 0;
  memset(first, 0, (PARTS + 1) * sizeof *first);
  for (int64_t i = 0; i < count; i++) first[(items[i].key >> low & (PARTS - 1)) + 1]++;
  for (int v = 0; v < PARTS; v++) first[v + 1] += first[v];
  for (int64_t i = 0; i < count; i++) to[first[items[i].key >> low & (PARTS - 1)]++] = items[i];
  memmove(first + 1, first, PARTS * sizeof *first); /* each has become the beginning of the next */
  first[0] = 0;
  return (low + 7) / 8;
}

/* What does not fit into a cache is split first into parts that do. */
static item *sort_items(item *items, item *spare, int64_t count, int bytes) {
  if (count < LARGE) return sort_bytes(items, spare, count, bytes);
  int64_t first[PARTS + 1];
  const int left = split(items, spare, count, first);
  for (int v = 0; v < PARTS; v++) {
    const int64_t own = first[v + 1] - first[v];
    const item *sorted = sort_bytes(spare + first[v], items + first[v], own, left);
    if (sorted != spare + first[v]) memcpy(spare + first[v], sorted, (size_t)own * sizeof *sorted);
  }
  return spare;
}

/* The k-th smallest key, found byte by byte from the highest; *equal is set to the number of keys equal to it among the
   k. */
static uint64_t kth_key(const item *items, int64_t count, int64_t k, int bytes, int64_t *equal) {
  uint64_t key = 0, known = 0;
  for (int b = bytes - 1; b >= 0; b--) {
    int64_t many[256] = { 0 };
    for (int64_t i = 0; i < count; i++)
      if ((items[i].key & known) == key) many[items[i].key >> 8 * b & 255]++;
    uint64_t v = 0;
    while (k > many[v]) k -= many[v++];
    key |= v << 8 * b;
    known |= 255ull << 8 * b;
  }
  *equal = k;
  return key;
}

/* Moves the k smallest to the front, in their old order. */
static void keep_smallest(item *items, int64_t count, int64_t k, int bytes) {
  int64_t equal, kept = 0;
  uint64_t key = kth_key(items, count, k, bytes, &equal);
  for (int64_t i = 0; i < count; i++)
    if (items[i].key < key || (items[i].key == key && equal-- > 0)) items[kept++] = items[i];
}

static bool has_smaller(const uint64_t *key, int64_t count, uint64_t than) {
  uint64_t found = 0;
  for (int64_t i = 0; i < count; i++) found |= key[i] < than;
  return found;
}

/* Inserts a key among k sorted ones, the largest of which it replaces. */
static void replace_last(item *items, int64_t k, item one) {
  int64_t to = k - 1;
  for (; to > 0 && items[to - 1].key > one.key; to--) items[to] = items[to - 1];
  items[to] = one;
}

/* Reads the k smallest of a line, sorted: for few, as nearly all blocks have none. */
static void read_smallest(const plan *p, const char *at, size_t step, int64_t k, item *items) {
  uint64_t key[BLOCK];
  for (int64_t i = 0; i < k; i++) items[i] = (item){ UINT64_MAX, -1 };
  int64_t kept = 0;
  for (int64_t first = 0; first < p->lines.size; first += BLOCK, at += BLOCK * step) {
    const int64_t count = situ__min_i64(BLOCK, p->lines.size - first);
    int64_t i = 0;
    read_keys(p, at, step, count, key);
    for (; kept < k && i < count; i++) replace_last(items, ++kept, (item){ key[i], first + i });
    if (!has_smaller(key + i, count - i, items[k - 1].key)) continue;
    for (; i < count; i++)
      if (key[i] < items[k - 1].key) replace_last(items, k, (item){ key[i], first + i });
  }
}

/* ---- lines ---- */

static void copy_element(char *to, const char *from, size_t size) {
  switch (size) {
  case 1: *to = *from; break;
  case 2: memcpy(to, from, 2); break;
  case 4: memcpy(to, from, 4); break;
  default: memcpy(to, from, 8);
  }
}

/* Returns the first k items of the sorted line, in a memory for two lines. Selecting few is faster than sorting all. */
static const item *order_line(const plan *p, const char *line, size_t step, item *items) {
  int64_t count = p->lines.size;
  if (p->k > 0 && p->k <= FEW && p->k < count / 4) return read_smallest(p, line, step, p->k, items), items;
  read_items(p, line, step, items);
  if (p->k < count / 4) {
    keep_smallest(items, count, p->k, p->bytes);
    count = p->k;
  }
  return sort_items(items, items + p->lines.size, count, p->bytes);
}

static void sort_lines(int64_t begin, int64_t end, void *payload) {
  plan *p = payload;
  size_t size = situ__dtype_size((situ_dtype)p->x->dtype), inner = (size_t)p->lines.inner, n = (size_t)p->lines.size;
  /* Every pass over the bytes reaches 256 places at once, which small pages slow down. */
  item *items = 2 * n * sizeof(item) < HUGE_PAGE ? situ__alloc(2 * n * sizeof(item))
                                                 : situ__aligned(HUGE_PAGE, 2 * n * sizeof(item));
  if (!items) {
    atomic_store(&p->no_memory, true);
    return;
  }
  for (int64_t l = begin; l < end; l++) {
    size_t outer = (size_t)l / inner, column = (size_t)l % inner, at = outer * (size_t)p->k * inner + column;
    const char *line = situ__cpu_data(p->x) + (outer * n * inner + column) * size;
    const item *sorted = order_line(p, line, inner * size, items);
    char *values = p->values ? situ__cpu_data(p->values) + at * size : NULL;
    int64_t *indices = p->indices ? (int64_t *)(void *)situ__cpu_data(p->indices) + at : NULL;
    for (size_t i = 0; i < (size_t)p->k; i++) {
      if (values) copy_element(values + i * inner * size, line + (size_t)sorted[i].from * inner * size, size);
      if (indices) indices[i * inner] = sorted[i].from;
    }
  }
  situ__free(items);
}

situ_status situ__cpu_sort(int index, const situ_work *work) {
  (void)index;
  plan p = { .x = work->in[0], .values = work->out[0], .indices = work->out[1], .descending = work->op == 1 };
  const situ_view_desc *out = p.values ? p.values : p.indices;
  p.lines = situ__lines_of(p.x, work->integer[0]);
  p.k = out->ndim ? out->size[work->integer[0]] : 1;
  p.bytes = (int)situ__dtype_size((situ_dtype)p.x->dtype);
  int64_t lines = p.lines.outer * p.lines.inner;
  situ__parallel(lines, situ__max_i64(1, GRAIN / p.lines.size), sort_lines, &p);
  if (atomic_load(&p.no_memory)) return situ__no_memory("sort", 2 * (size_t)p.lines.size * sizeof(item));
  return SITU_OK;
}
