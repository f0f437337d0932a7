/* The binary tree over the micro-batches of a step, in which their gradients are added: it depends on their number
   alone.
   SPDX-License-Identifier: MIT */
#include "tree.h"

int64_t situ__dist_split(int64_t lo, int64_t hi) {
  int64_t half = 1;
  while (half < hi - lo - half) half *= 2;
  return lo + half;
}

/* Appends the nodes below [lo, hi) that lie in [from, to). */
static int cover_node(int64_t lo, int64_t hi, int64_t from, int64_t to, int64_t (*nodes)[2], int count) {
  if (hi <= from || to <= lo) return count;
  if (from <= lo && hi <= to) {
    nodes[count][0] = lo;
    nodes[count][1] = hi;
    return count + 1;
  }
  const int64_t mid = situ__dist_split(lo, hi);
  count = cover_node(lo, mid, from, to, nodes, count);
  return cover_node(mid, hi, from, to, nodes, count);
}

int situ__dist_cover(int64_t total, int64_t from, int64_t to, int64_t (*nodes)[2]) {
  return cover_node(0, total, from, to, nodes, 0);
}

bool situ__dist_are_siblings(int64_t total, int64_t lo, int64_t mid, int64_t hi) {
  int64_t left = 0, right = total;
  while (left < lo || hi < right) {
    const int64_t split = situ__dist_split(left, right);
    if (hi <= split) right = split;
    else if (split <= lo) left = split;
    else return false;
  }
  return situ__dist_split(lo, hi) == mid;
}
