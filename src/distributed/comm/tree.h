/* The tree over micro-batches, in which sums are added up, whichever rank has computed them.
   SPDX-License-Identifier: MIT */
#ifndef SITU_DIST_TREE_H
#define SITU_DIST_TREE_H

#include <stdbool.h>
#include <stdint.h>

enum { SITU__DIST_DEPTH = 130 }; /* nodes that cover a range of 2^63 leaves: at most 2 a level */
/* Where node [lo, hi) with hi - lo > 1 is split. */
int64_t situ__dist_split(int64_t lo, int64_t hi);
/* Writes the largest nodes of the tree over `total` leaves that lie in [from, to), in order; returns their number, at
   most SITU__DIST_DEPTH. */
int situ__dist_cover(int64_t total, int64_t from, int64_t to, int64_t (*nodes)[2]);
/* Whether [lo, mid) and [mid, hi) are the two halves of a node. */
bool situ__dist_are_siblings(int64_t total, int64_t lo, int64_t mid, int64_t hi);

#endif
