/* Sorting of items of one size. sort.c includes it once for each: ITEM is a struct of a key and of `from`, its index in
   the line; OF(name) is a function's name.
   SPDX-License-Identifier: MIT */

static void OF(read_items)(const plan *p, const char *line, size_t step, ITEM *to) {
  const char *at = line;
  uint64_t key[BLOCK];
  for (int64_t first = 0; first < p->lines.size; first += BLOCK, at += BLOCK * step) {
    const int64_t count = situ__min_i64(BLOCK, p->lines.size - first);
    read_keys(p, at, step, count, key);
    for (int64_t i = 0; i < count; i++) to[first + i] = ITEM_OF(key[i], first + i);
  }
}

/* ---- order ---- */

static void OF(insert_all)(ITEM *items, int64_t count) {
  for (int64_t i = 1; i < count; i++) {
    const ITEM one = items[i];
    int64_t to = i;
    for (; to > 0 && items[to - 1].key > one.key; to--) items[to] = items[to - 1];
    items[to] = one;
  }
}

/* Sorts by keys of `bytes` bytes. The result is in items or in spare; returns which. */
static ITEM *OF(sort_bytes)(ITEM *items, ITEM *spare, int64_t count, int bytes) {
  if (count <= FEW) {
    OF(insert_all)(items, count);
    return items;
  }
  int64_t starts[sizeof items->key][256];
  memset(starts, 0, (size_t)bytes * sizeof *starts);
  for (int64_t i = 0; i < count; i++)
    for (int b = 0; b < bytes; b++) starts[b][items[i].key >> 8 * b & 255]++;
  for (int b = 0; b < bytes; b++) {
    if (starts[b][items[0].key >> 8 * b & 255] == count) continue; /* the same byte in all keys */
    int64_t at = 0;
    for (int v = 0; v < 256; v++) {
      const int64_t own = starts[b][v];
      starts[b][v] = at;
      at += own;
    }
    for (int64_t i = 0; i < count; i++) spare[starts[b][items[i].key >> 8 * b & 255]++] = items[i];
    ITEM *other = items;
    items = spare;
    spare = other;
  }
  return items;
}

typedef struct OF(parts) {
  ITEM *from, *to;
  int bytes; /* that may differ within a part */
  int64_t first[PARTS + 1];
} OF(parts);

/* Distributes items by the highest bits that differ; first[v] is set to where those with bits v begin. */
static void OF(split)(OF(parts) * s, int64_t count) {
  const ITEM *items = s->from;
  int64_t *first = s->first;
  uint64_t differ = 0;
  for (int64_t i = 1; i < count; i++) differ |= items[i].key ^ items[0].key;
  const int top = differ ? 64 - __builtin_clzll(differ) : 0, low = top > PART_BITS ? top - PART_BITS : 0;
  memset(first, 0, sizeof s->first);
  for (int64_t i = 0; i < count; i++) first[(items[i].key >> low & (PARTS - 1)) + 1]++;
  for (int v = 0; v < PARTS; v++) first[v + 1] += first[v];
  for (int64_t i = 0; i < count; i++) s->to[first[items[i].key >> low & (PARTS - 1)]++] = items[i];
  memmove(first + 1, first, PARTS * sizeof *first); /* each has become the beginning of the next */
  first[0] = 0;
  s->bytes = (low + 7) / 8;
}

static void OF(sort_parts)(int64_t begin, int64_t end, void *payload) {
  const OF(parts) *s = payload;
  for (int64_t v = begin; v < end; v++) {
    const int64_t at = s->first[v], own = s->first[v + 1] - at;
    const ITEM *sorted = OF(sort_bytes)(s->to + at, s->from + at, own, s->bytes);
    if (sorted != s->to + at) memcpy(s->to + at, sorted, (size_t)own * sizeof *sorted);
  }
}

/* What does not fit into a cache is split first into parts that do. */
static ITEM *OF(sort_items)(ITEM *items, ITEM *spare, int64_t count, int bytes) {
  if (count < LARGE) return OF(sort_bytes)(items, spare, count, bytes);
  OF(parts) s = { .from = items, .to = spare };
  OF(split)(&s, count);
  situ__parallel(PARTS, PARTS_A_TASK, OF(sort_parts), &s);
  return spare;
}

/* ---- the k smallest ---- */

/* The k-th smallest key, found byte by byte from the highest; *equal is set to the number of keys equal to it among the
   k. */
static uint64_t OF(kth_key)(const ITEM *items, int64_t count, int64_t k, int bytes, int64_t *equal) {
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

/* Moves the k smallest to the front, in their old order. Returns the largest key of them. */
static uint64_t OF(keep_smallest)(ITEM *items, int64_t count, int64_t k, int bytes) {
  int64_t equal, kept = 0;
  const uint64_t key = OF(kth_key)(items, count, k, bytes, &equal);
  for (int64_t i = 0; i < count; i++)
    if (items[i].key < key || (items[i].key == key && equal-- > 0)) items[kept++] = items[i];
  return key;
}

/* Reads the k smallest of a line, in its order, by way of `capacity` items: the more has been read, the fewer keys are
   below the k-th. */
static void OF(read_some)(const plan *p, const char *at, size_t step, ITEM *items) {
  uint64_t key[BLOCK], limit = 0;
  int64_t kept = 0;
  bool limited = false;
  for (int64_t first = 0; first < p->lines.size; first += BLOCK, at += BLOCK * step) {
    const int64_t count = situ__min_i64(BLOCK, p->lines.size - first);
    read_keys(p, at, step, count, key);
    if (limited && !has_smaller(key, count, limit)) continue;
    for (int64_t i = 0; i < count; i++) {
      if (limited && key[i] >= limit) continue;
      items[kept++] = ITEM_OF(key[i], first + i);
      if (kept < p->capacity) continue;
      limit = OF(keep_smallest)(items, kept, p->k, p->bytes);
      limited = true, kept = p->k;
    }
  }
  if (kept > p->k) (void)OF(keep_smallest)(items, kept, p->k, p->bytes);
}

/* Inserts a key among k sorted ones, the largest of which it replaces. */
static void OF(replace_last)(ITEM *items, int64_t k, ITEM one) {
  int64_t to = k - 1;
  for (; to > 0 && items[to - 1].key > one.key; to--) items[to] = items[to - 1];
  items[to] = one;
}

/* Reads the k smallest of a line, sorted: for few, as nearly all blocks have none. */
static void OF(read_smallest)(const plan *p, const char *at, size_t step, ITEM *items) {
  uint64_t key[BLOCK];
  int64_t kept = 0;
  for (int64_t first = 0; first < p->lines.size; first += BLOCK, at += BLOCK * step) {
    const int64_t count = situ__min_i64(BLOCK, p->lines.size - first);
    int64_t i = 0;
    read_keys(p, at, step, count, key);
    for (; kept < p->k && i < count; i++) OF(replace_last)(items, ++kept, ITEM_OF(key[i], first + i));
    if (!has_smaller(key + i, count - i, items[p->k - 1].key)) continue;
    for (; i < count; i++)
      if (key[i] < items[p->k - 1].key) OF(replace_last)(items, p->k, ITEM_OF(key[i], first + i));
  }
}

/* ---- a line ---- */

/* Returns the first k items of the sorted line. Selecting some is faster than sorting all. */
static const ITEM *OF(order_line)(const plan *p, const char *line, size_t step, ITEM *items, ITEM *spare) {
  if (takes_few(p)) return OF(read_smallest)(p, line, step, items), items;
  if (takes_some(p)) OF(read_some)(p, line, step, items);
  else OF(read_items)(p, line, step, items);
  return OF(sort_items)(items, spare, takes_some(p) ? p->k : p->lines.size, p->bytes);
}

static void OF(sort_lines)(int64_t begin, int64_t end, void *payload) {
  plan *p = payload;
  const size_t inner = (size_t)p->lines.inner, n = (size_t)p->lines.size, size = (size_t)p->bytes, k = (size_t)p->k,
               capacity = takes_some(p) ? (size_t)p->capacity : n;
  /* A whole line's indices are as large as its items, which are read before these are written. */
  const bool lent = p->indices && sizeof(ITEM) == sizeof(int64_t) && inner == 1 && k == n;
  /* Every pass over the bytes reaches 256 places at once, which small pages slow down. */
  const size_t bytes = (lent ? n : capacity + (takes_some(p) ? k : n)) * sizeof(ITEM);
  ITEM *own = bytes < HUGE_PAGE ? situ__alloc(bytes) : situ__aligned(HUGE_PAGE, bytes);
  if (!own) {
    atomic_store(&p->no_memory, true);
    return;
  }
  for (int64_t l = begin; l < end; l++) {
    const size_t outer = (size_t)l / inner, column = (size_t)l % inner, at = outer * k * inner + column;
    const char *line = situ__cpu_data(p->x) + (outer * n * inner + column) * size;
    char *values = p->values ? situ__cpu_data(p->values) + at * size : NULL,
         *indices = p->indices ? situ__cpu_data(p->indices) + at * sizeof(int64_t) : NULL;
    ITEM *items = lent ? (ITEM *)(void *)indices : own;
    const ITEM *sorted = OF(order_line)(p, line, inner * size, items, lent ? own : own + capacity);
    for (size_t i = 0; i < k; i++) {
      const int64_t from = (int64_t)sorted[i].from;
      if (values) copy_element(values + i * inner * size, line + (size_t)from * inner * size, size);
      if (indices) memcpy(indices + i * inner * sizeof from, &from, sizeof from);
    }
  }
  situ__free(own);
}

#undef ITEM
#undef ITEM_OF
#undef OF
