/* Checks of indices. See index.h.
   SPDX-License-Identifier: MIT */
#include "index.h"
#include "base/fail.h"
#include "base/pool.h"
#include "base/size.h"

#include <stdio.h>
#include <string.h>

enum { CHUNK = 16 * SITU__BLOCK };

typedef struct check {
  const situ_view_desc *index;
  int64_t bound;
  const int64_t *allowed;
  atomic_bool bad;
} check;

const int64_t *situ__index_block(const situ_view_desc *index, int64_t first, int64_t count, int64_t *buffer) {
  if (index->contiguous && index->dtype == SITU_I64)
    return (const int64_t *)(const void *)situ__cpu_data(index) + first;
  situ__cpu_load(index, first, count, SITU__I64, buffer);
  return buffer;
}

/* True if any of them is outside 0..bound-1. */
static bool outside(const int64_t *index, int64_t count, int64_t bound) {
  /* The sign of an index or of its distance to the last one: all sets of instructions subtract vectors of 64 bits, but
     not all compare them. */
  uint64_t signs = 0;
  for (int64_t i = 0; i < count; i++) signs |= (uint64_t)index[i] | ((uint64_t)(bound - 1) - (uint64_t)index[i]);
  return signs >> 63;
}

const int64_t *situ__index_checked(const situ_view_desc *index, int64_t first, int64_t count, int64_t bound,
                                   atomic_bool *bad, int64_t *buffer) {
  const int64_t *block = situ__index_block(index, first, count, buffer);
  if (!outside(block, count, bound)) return block;
  atomic_store(bad, true);
  return NULL;
}

static void check_elements(int64_t begin, int64_t end, void *payload) {
  check *c = payload;
  int64_t block[SITU__BLOCK], last = situ__min_i64(end * CHUNK, c->index->numel);
  for (int64_t at = begin * CHUNK, count; at < last; at += count) {
    count = situ__min_i64(SITU__BLOCK, last - at);
    const int64_t *index = situ__index_block(c->index, at, count, block);
    int bad = 0;
    if (!c->allowed) bad = outside(index, count, c->bound);
    else
      for (int64_t i = 0; i < count; i++) bad |= ((uint64_t)index[i] >= (uint64_t)c->bound) & (index[i] != *c->allowed);
    if (bad) atomic_store(&c->bad, true);
  }
}

/* Position of element i of v as text: "[1, 3]". */
static void position(const situ_view_desc *v, int64_t i, char *text, size_t size) {
  int64_t at[SITU_MAX_DIMS];
  for (int d = v->ndim - 1; d >= 0; i /= v->size[d--]) at[d] = i % v->size[d];
  size_t length = 0;
  text[0] = 0;
  for (int d = 0; d < v->ndim && length < size; d++)
    length += (size_t)snprintf(text + length, size - length, "%s%lld", d ? ", " : "", (long long)at[d]);
}

situ_status situ__refuse_index(const char *op, const situ_view_desc *index, int64_t bound, const int64_t *allowed,
                               const char *what) {
  for (int64_t i = 0; i < index->numel; i++) {
    int64_t value;
    char text[SITU_MAX_DIMS * 24];
    situ__cpu_load(index, i, 1, SITU__I64, &value);
    if ((uint64_t)value < (uint64_t)bound || (allowed && value == *allowed)) continue;
    position(index, i, text, sizeof text);
    return situ__fail(SITU_E_INDEX, op, "index %lld at [%s] is outside 0..%lld of %s", (long long)value, text,
                      (long long)bound - 1, what);
  }
  return situ__fail(SITU_E_STATE, op, "indices changed while they were read");
}

situ_status situ__check_index(const char *op, const situ_view_desc *index, int64_t bound, const int64_t *allowed,
                              const char *what) {
  check c = { .index = index, .bound = bound, .allowed = allowed };
  situ__parallel(situ__ceil_div(index->numel, CHUNK), 1, check_elements, &c);
  return atomic_load(&c.bad) ? situ__refuse_index(op, index, bound, allowed, what) : SITU_OK;
}

void situ__copy_elements(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t count, size_t size) {
  if (to_step == 1 && from_step == 1) {
    memcpy(to, from, (size_t)count * size);
    return;
  }
  /* A memcpy of constant size compiles to one move. */
#define MOVE(bytes) \
  for (int64_t i = 0; i < count; i++) memcpy(to + i * to_step * (bytes), from + i * from_step * (bytes), bytes)
  switch (size) {
  case 1: MOVE(1); break;
  case 2: MOVE(2); break;
  case 4: MOVE(4); break;
  default: MOVE(8);
  }
#undef MOVE
}
