/* Names of the pieces of tensors that a file of a set holds.
   SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "base/text.h"
#include "set.h"

bool situ__piece_put(situ_tree **file, const char *name, situ_shape shape, int64_t from, situ_tensor *elements) {
  situ__text key = { 0 };
  situ__text_add(&key, "%s", name);
  situ__text_dims(&key, shape.dim, shape.ndim);
  situ__text_add(&key, "[%" PRId64 ":%" PRId64 "]", from, from + (elements ? situ_numel(elements) : 0));
  if (key.failed) situ__no_memory("tree_put", key.length);
  else *file = situ_tree_put(*file, key.data, situ_tree_tensor(elements));
  const bool good = !key.failed && *file;
  situ__text_free(&key);
  return good;
}

/* Reads "[2, 3]", or with ':' "[2:3]", up to `end`. Returns the number of values, -1 if it is anything else. */
static int parse_numbers(const char *at, const char *end, char separator, int64_t *list, int most) {
  int count = 0;
  if (end - at == 2) return 0;
  while (at < end && (*at == '[' || *at == separator)) {
    char *behind;
    if (count == most || !strchr(" 0123456789", at[1])) return -1;
    list[count++] = strtoll(at + 1, &behind, 10);
    at = behind;
  }
  return at == end - 1 && *at == ']' ? count : -1;
}

static bool count_elements(situ__piece *p) {
  p->numel = 1;
  for (int i = 0; i < p->shape.ndim; i++)
    if (p->shape.dim[i] < 0 || !situ__mul_i64(p->numel, p->shape.dim[i], &p->numel)) return false;
  return true;
}

bool situ__piece_parse(const situ_file_entry *entry, const char *name, situ__piece *piece) {
  const char *range = strrchr(name, '['), *dims = range;
  while (dims && dims > name && *--dims != '[') continue;
  if (!dims || dims == name || range == dims) return false;
  int64_t bounds[2];
  *piece = (situ__piece){ .name = name, .name_length = (size_t)(dims - name), .entry = name, .dtype = entry->dtype };
  piece->shape.ndim = parse_numbers(dims, range, ',', piece->shape.dim, SITU_MAX_DIMS);
  if (piece->shape.ndim < 0 || parse_numbers(range, name + strlen(name), ':', bounds, 2) != 2) return false;
  piece->from = bounds[0];
  piece->to = bounds[1];
  return count_elements(piece) && 0 <= piece->from && piece->from <= piece->to && piece->to <= piece->numel &&
         entry->shape.ndim == 1 && entry->shape.dim[0] == piece->to - piece->from;
}
