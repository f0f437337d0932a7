/* A whole JSON text as a tree in one block.
   SPDX-License-Identifier: MIT */
#include "json_tree.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/format.h"

typedef struct builder {
  situ__json json;
  situ__json_item *item;
  size_t count;
  int64_t capacity;
  size_t open[SITU__JSON_DEPTH]; /* the containers that are open */
  int depth;
  situ__problem *problem;
} builder;

static bool bad_json(builder *b, const char *what) {
  return situ__problem_set(b->problem, b->json.too_deep ? SITU_E_LIMIT : SITU_E_FORMAT, "%s (at byte %zu)", what,
                           situ__json_offset(&b->json));
}

/* Appends an item. The block grows only with the text that was read, so a short file cannot cause a large
   allocation. */
static situ__json_item *add_item(builder *b, situ__json_kind kind, const char *key) {
  if (b->count == UINT32_MAX || !situ__grow(NULL, &b->item, &b->capacity, sizeof *b->item, b->count + 1))
    return situ__problem_set(b->problem, SITU_E_NOMEM, "has more values than the memory holds"), NULL;
  if (b->depth) b->item[b->open[b->depth - 1]].count++;
  situ__json_item *item = &b->item[b->count++];
  *item = (situ__json_item){ .kind = kind, .size = 1, .key = key };
  return item;
}

static int by_text(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

/* Checks that an object has no key twice. */
static bool check_keys(builder *b, const situ__json_item *object) {
  if (object->count < 2) return true;
  const char **keys = situ__alloc(object->count * sizeof *keys);
  if (!keys) return situ__problem_set(b->problem, SITU_E_NOMEM, "has more keys than the memory holds");
  size_t count = 0;
  for (EACH_MEMBER(m, object)) keys[count++] = m->key;
  qsort(keys, count, sizeof *keys, by_text);
  bool fine = true;
  for (size_t i = 1; i < count && fine; i++) fine = strcmp(keys[i - 1], keys[i]) != 0;
  situ__free(keys);
  return fine || bad_json(b, "has a key twice");
}

static bool close_container(builder *b) {
  situ__json_item *item = &b->item[b->open[--b->depth]];
  item->size = (uint32_t)(b->item + b->count - item);
  return item->kind == SITU__JSON_ARRAY || check_keys(b, item);
}

/* The number that the parser has passed, whose syntax it has checked. */
static bool read_real(builder *b, double *out) {
  char digits[64];
  if (b->json.length >= sizeof digits) return bad_json(b, "has a number of more than 63 digits");
  memcpy(digits, b->json.text, b->json.length);
  digits[b->json.length] = '\0';
  *out = situ__strtod(digits, NULL);
  return isfinite(*out) || bad_json(b, "has a number that no double holds");
}

static bool add_value(builder *b, situ__json_kind kind, const char *key) {
  situ__json_item *item = add_item(b, kind, key);
  if (!item) return false;
  switch (kind) {
  case SITU__JSON_OBJECT:
  case SITU__JSON_ARRAY: b->open[b->depth++] = b->count - 1; return true;
  case SITU__JSON_STRING: item->text = b->json.text; return true;
  case SITU__JSON_INTEGER: item->integer = b->json.integer; return true;
  case SITU__JSON_NUMBER: return read_real(b, &item->real);
  default: return true;
  }
}

static bool build(builder *b) {
  const char *key = NULL;
  for (;;) {
    const situ__json_kind kind = situ__json_next(&b->json);
    switch (kind) {
    case SITU__JSON_ERROR: return bad_json(b, b->json.problem);
    case SITU__JSON_END: return true;
    case SITU__JSON_KEY: key = b->json.text; continue;
    case SITU__JSON_OBJECT_END:
    case SITU__JSON_ARRAY_END:
      if (!close_container(b)) return false;
      break;
    default:
      if (!add_value(b, kind, key)) return false;
    }
    key = NULL;
  }
}

situ__json_item *situ__json_tree(char *text, size_t length, situ__problem *problem) {
  builder b = { .problem = problem };
  situ__json_begin(&b.json, text, length);
  if (build(&b)) return b.item;
  situ__free(b.item);
  return NULL;
}

const situ__json_item *situ__json_get(const situ__json_item *object, const char *key) {
  if (!object || object->kind != SITU__JSON_OBJECT) return NULL;
  for (EACH_MEMBER(m, object))
    if (strcmp(m->key, key) == 0) return m;
  return NULL;
}

bool situ__json_index(const situ__json_item *object, situ__names *places) {
  bool good = true;
  if (!object || object->kind != SITU__JSON_OBJECT) return true;
  for (EACH_MEMBER(m, object)) good = good && situ__names_put(places, m->key, (int32_t)(m - object));
  return good;
}

const situ__json_item *situ__json_find(const situ__json_item *object, const situ__names *places, const char *key) {
  const int32_t place = situ__names_get(places, key);
  return place < 0 ? NULL : object + place;
}
