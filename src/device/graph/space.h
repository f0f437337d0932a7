/* Offsets of memory that are taken for a time: finds free ones without a look at each that is taken.
   SPDX-License-Identifier: MIT */
#ifndef SITU_DEVICE_GRAPH_SPACE_H
#define SITU_DEVICE_GRAPH_SPACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct situ__ranges {
  struct situ__range {
    size_t from, to;
  } * list; /* ascending, without two that touch */
  int64_t count, capacity;
} situ__ranges;

/* A tree: node 1 is all times, nodes 2n and 2n + 1 are the halves of node n, the last `times` nodes one time each. */
typedef struct situ__space {
  struct situ__space_node {
    situ__ranges any, all; /* offsets taken at any time of the node; for all of it, by what is not in a larger node's */
  } * node;
  size_t times; /* a power of two */
} situ__space;

/* Memory that is asked for from the first to the last of two times. */
typedef struct situ__span {
  size_t first, last, bytes;
} situ__span;

/* Both return false without recording an error when memory runs out. */
bool situ__space_begin(situ__space *s, size_t times);
bool situ__space_take(situ__space *s, const situ__span *span, size_t at);
/* The lowest offset from `from` on where all bytes are free. */
size_t situ__space_lowest(const situ__space *s, const situ__span *span, size_t from);
void situ__space_free(situ__space *s);

#endif
