/* A whole JSON text as a tree in one block, for files whose parts are needed in another order than they are written.
   SPDX-License-Identifier: MIT */
#ifndef SITU_IO_JSON_TREE_H
#define SITU_IO_JSON_TREE_H

#include "base/names.h"
#include "base/problem.h"
#include "json.h"

/* A value. The members of a container follow it: item + 1 is the first, member + member->size the next. */
typedef struct situ__json_item {
  situ__json_kind kind; /* OBJECT, ARRAY, STRING, INTEGER, NUMBER, TRUE, FALSE or NULL */
  uint32_t size;        /* number of items of the value, itself included */
  uint32_t count;       /* number of members */
  const char *key;      /* in an object; else NULL */
  union {
    const char *text; /* of a string */
    int64_t integer;
    double real; /* of a NUMBER */
  };
} situ__json_item;

/* Parses `length` bytes, which the result points into and which the parser overwrites in places. An object that has a
   key twice is an error. Returns the root, which the caller frees (situ__free); NULL with the reason in problem. */
situ__json_item *situ__json_tree(char *text, size_t length, situ__problem *problem);
/* The member of an object under a key; NULL if there is none, or the item is NULL or not an object. */
const situ__json_item *situ__json_get(const situ__json_item *object, const char *key);
/* The same for an object that is asked for many keys: by their places behind it. Returns false when memory runs out. */
bool situ__json_index(const situ__json_item *object, situ__names *places);
const situ__json_item *situ__json_find(const situ__json_item *object, const situ__names *places, const char *key);

/* for (EACH_MEMBER(m, array)): no members if array is NULL or not a container. */
#define EACH_MEMBER(m, array)                                                                        \
  const situ__json_item *m = (array) ? (array) + 1 : NULL, *end_##m = m ? m - 1 + (array)->size : m; \
  m != end_##m;                                                                                      \
  m += m->size

#endif
