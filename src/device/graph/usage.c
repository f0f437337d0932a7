/* Bytes in use by time, as a tree over times.
   SPDX-License-Identifier: MIT */
#include "device/graph/usage.h"

#include "base/alloc.h"

bool situ__usage_begin(situ__usage *u, size_t times) {
  for (u->times = 1; u->times < times;) u->times *= 2;
  u->node = situ__calloc(2 * u->times, sizeof *u->node);
  return u->node != NULL;
}

void situ__usage_free(situ__usage *u) { situ__free(u->node); }

static void add_to(situ__usage *u, size_t node, int64_t bytes) {
  u->node[node].added += bytes;
  u->node[node].most += bytes;
}

/* Of all nodes that `node` is a part of. */
static void update_above(situ__usage *u, size_t node) {
  while (node /= 2) {
    const int64_t a = u->node[2 * node].most, b = u->node[2 * node + 1].most;
    u->node[node].most = u->node[node].added + (a > b ? a : b);
  }
}

void situ__usage_add(situ__usage *u, size_t first, size_t last, int64_t bytes) {
  if (first > last) return;
  const size_t begin = first + u->times, end = last + u->times;
  size_t low = begin, high = end + 1; /* the nodes [low, high) of each level are left */
  for (; low < high; low /= 2, high /= 2) {
    if (low % 2) add_to(u, low++, bytes);
    if (high % 2) add_to(u, --high, bytes);
  }
  update_above(u, begin);
  update_above(u, end);
}

int64_t situ__usage_at(const situ__usage *u, size_t time) {
  int64_t bytes = 0;
  for (size_t node = time + u->times; node; node /= 2) bytes += u->node[node].added;
  return bytes;
}

size_t situ__usage_peak(const situ__usage *u) {
  size_t node = 1;
  while (node < u->times) node = 2 * node + (u->node[2 * node + 1].most > u->node[2 * node].most);
  return node - u->times;
}
