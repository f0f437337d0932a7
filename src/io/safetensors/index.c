/* Parses the index of a sharded model.
   SPDX-License-Identifier: MIT */
#include "index.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "io/format/json.h"

bool situ__is_index(const char *path) {
  static const char end[] = ".index.json";
  size_t length = strlen(path);
  return length > sizeof end - 1 && strcmp(path + length - (sizeof end - 1), end) == 0;
}

char *situ__path_beside(const char *path, const char *name) {
  const char *slash = strrchr(path, '/');
  size_t directory = slash ? (size_t)(slash + 1 - path) : 0, length = strlen(name);
  char *joined = situ__alloc(directory + length + 1);
  if (!joined) return NULL;
  memcpy(joined, path, directory);
  memcpy(joined + directory, name, length + 1);
  return joined;
}

/* A file name in an untrusted index must not lead out of the directory. */
static bool is_plain_name(const char *file) {
  return *file && strlen(file) <= 255 && !strchr(file, '/') && strcmp(file, ".") != 0 && strcmp(file, "..") != 0;
}

static bool bad_json(const situ__json *json, situ__problem *problem) {
  return situ__problem_set(problem, json->too_deep ? SITU_E_LIMIT : SITU_E_FORMAT, "%s (at byte %zu)",
                           json->problem ? json->problem : "is not an index: that is an object with a weight_map",
                           situ__json_offset(json));
}

static bool read_map(situ__index *index, situ__json *json, situ__problem *problem) {
  int64_t capacity = 0;
  situ__json_kind kind = situ__json_next(json);
  if (kind != SITU__JSON_OBJECT) return bad_json(json, problem);
  while ((kind = situ__json_next(json)) == SITU__JSON_KEY) {
    if (!situ__grow(NULL, &index->item, &capacity, sizeof *index->item, index->count + 1))
      return situ__problem_set(problem, SITU_E_NOMEM, "is too large for the memory");
    situ__index_item *item = &index->item[index->count++];
    item->name = json->text;
    kind = situ__json_next(json);
    if (kind == SITU__JSON_ERROR) return bad_json(json, problem);
    char shown[SITU__SHOWN_MAX];
    if (kind != SITU__JSON_STRING || !is_plain_name(json->text))
      return situ__problem_set(problem, SITU_E_FORMAT, "puts '%s' into a file outside its own directory",
                               situ__shown(item->name, shown));
    item->file = json->text;
  }
  return kind == SITU__JSON_OBJECT_END || bad_json(json, problem);
}

static int by_name(const void *a, const void *b) {
  return strcmp(((const situ__index_item *)a)->name, ((const situ__index_item *)b)->name);
}

static bool read_all(situ__index *index, situ__json *json, situ__problem *problem) {
  bool seen = false;
  situ__json_kind kind = situ__json_next(json);
  if (kind != SITU__JSON_OBJECT) return bad_json(json, problem);
  while ((kind = situ__json_next(json)) == SITU__JSON_KEY) {
    if (strcmp(json->text, "weight_map") == 0) {
      if (seen) return situ__problem_set(problem, SITU_E_FORMAT, "has two maps of weights");
      seen = true;
      if (!read_map(index, json, problem)) return false;
    } else if (!situ__json_skip(json, situ__json_next(json))) {
      return bad_json(json, problem);
    }
  }
  if (kind == SITU__JSON_ERROR || situ__json_next(json) != SITU__JSON_END || !seen) return bad_json(json, problem);
  if (index->count > 1) qsort(index->item, (size_t)index->count, sizeof *index->item, by_name);
  char shown[SITU__SHOWN_MAX];
  for (int64_t i = 1; i < index->count; i++)
    if (by_name(&index->item[i - 1], &index->item[i]) == 0)
      return situ__problem_set(problem, SITU_E_FORMAT, "has '%s' twice", situ__shown(index->item[i].name, shown));
  return true;
}

bool situ__index_parse(situ__index *index, char *text, size_t length, situ__problem *problem) {
  situ__json json;
  *index = (situ__index){ .text = text };
  situ__json_begin(&json, text, length);
  if (read_all(index, &json, problem)) return true;
  situ__index_free(index);
  return false;
}

void situ__index_free(situ__index *index) {
  situ__free(index->item);
  situ__free(index->text);
  *index = (situ__index){ 0 };
}
