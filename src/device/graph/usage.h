/* Bytes in use by time: added for many times at once, and where the most are.
   SPDX-License-Identifier: MIT */
#ifndef SITU_DEVICE_GRAPH_USAGE_H
#define SITU_DEVICE_GRAPH_USAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A tree as in space.h. */
typedef struct situ__usage {
  struct situ__usage_node {
    int64_t added, most; /* to all times of the node; the most at one of them, without what is added to larger nodes */
  } * node;
  size_t times; /* a power of two */
} situ__usage;

/* Returns false without recording an error when memory runs out. */
bool situ__usage_begin(situ__usage *u, size_t times);
/* From the first to the last of two times; nothing if the last is the earlier one. */
void situ__usage_add(situ__usage *u, size_t first, size_t last, int64_t bytes);
int64_t situ__usage_at(const situ__usage *u, size_t time);
/* The earliest time with the most bytes. */
size_t situ__usage_peak(const situ__usage *u);
void situ__usage_free(situ__usage *u);

#endif
