/* The index of a sharded model: which file contains each tensor.
   SPDX-License-Identifier: MIT */
#ifndef SITU_IO_INDEX_H
#define SITU_IO_INDEX_H

#include "base/problem.h"

/* Maximum size of an index: a million tensors. */
#define SITU__INDEX_MAX 100000000

typedef struct situ__index_item {
  const char *name;
  const char *file; /* a plain file name: no directories */
} situ__index_item;

typedef struct situ__index {
  char *text;             /* all names point into it */
  situ__index_item *item; /* sorted by name */
  int64_t count;
} situ__index;

/* Returns true if path ends in ".index.json". */
bool situ__is_index(const char *path);
/* Parses JSON in a block of situ__alloc, which it takes over. Returns false with the reason in problem. */
bool situ__index_parse(situ__index *index, char *text, size_t length, situ__problem *problem);
void situ__index_free(situ__index *index);
/* Returns the path of a file in the directory of `path`, which the caller frees (situ__free); NULL when memory runs
   out. */
char *situ__path_beside(const char *path, const char *name);

#endif
