/* The index of a model in several files: which tensor is in which.
   SPDX-License-Identifier: MIT */
#ifndef SITU_IO_INDEX_H
#define SITU_IO_INDEX_H

#include "base/problem.h"

/* An index is text of this much at most: a million tensors. */
#define SITU__INDEX_MAX 100000000

typedef struct situ__index_item {
  const char *name;
  const char *file; /* a plain file name: no directories */
} situ__index_item;

typedef struct situ__index {
  char *text;             /* all names lie in it */
  situ__index_item *item; /* by name */
  int64_t count;
} situ__index;

/* Is path that of an index ("*.index.json")? */
bool situ__is_index(const char *path);
/* Reads JSON in a block of situ__alloc, which it takes over. false: problem says why. */
bool situ__index_parse(situ__index *index, char *text, size_t length, situ__problem *problem);
void situ__index_free(situ__index *index);
/* The path of a file that lies beside `path`, in a block of its own; NULL: no memory. */
char *situ__path_beside(const char *path, const char *name);

#endif
