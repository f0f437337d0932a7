/* Reads a sharded checkpoint: opens the files of all ranks, and puts tensors together from their pieces.
   SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "set.h"
#include "situ/ops.h"
#include "situ/sys/shape.h"

/* ---- opening ---- */

static bool is_of_set(const situ__set *set, int rank, const char *wanted) {
  const char *sum = situ__set_sum(set->op, set->files[rank], set->paths[rank]);
  if (!sum || strncmp(sum, wanted, SITU__SET_SUM) == 0) return sum != NULL;
  return situ__fail(SITU_E_FORMAT, set->op, "%s: is not the file that rank %d of this checkpoint has written",
                    set->paths[rank], rank),
         false;
}

static bool open_files(situ__set *set, const char *directory, const char *sums, const situ_load_options *options) {
  const size_t ranks = (size_t)set->id.ranks;
  set->files = situ__calloc(ranks, sizeof *set->files);
  set->paths = situ__calloc(ranks, sizeof *set->paths);
  if (!set->files || !set->paths) return situ__no_memory(set->op, 2 * ranks * sizeof *set->files), false;
  for (int r = 0; r < set->id.ranks; r++) {
    if (!(set->paths[r] = situ__set_file(set->op, directory, set->id, r)) ||
        !(set->files[r] = situ_safetensors_open(set->paths[r], options)) ||
        !is_of_set(set, r, sums + r * SITU__SET_SUM))
      return false;
  }
  return true;
}

/* ---- the list of pieces ---- */

static int compare_names(const situ__piece *x, const situ__piece *y) {
  const size_t length = x->name_length < y->name_length ? x->name_length : y->name_length;
  const int order = memcmp(x->name, y->name, length);
  return order ? order : (x->name_length > y->name_length) - (x->name_length < y->name_length);
}

static int by_name_and_place(const void *a, const void *b) {
  const situ__piece *x = a, *y = b;
  const int order = compare_names(x, y);
  return order                ? order
         : x->from != y->from ? (x->from > y->from) - (x->from < y->from)
                              : (x->to > y->to) - (x->to < y->to);
}

static bool list_pieces(situ__set *set) {
  int64_t most = 0;
  for (int r = 0; r < set->id.ranks; r++) most += situ_safetensors_count(set->files[r]);
  set->pieces = situ__calloc((size_t)most + 1, sizeof *set->pieces);
  if (!set->pieces) return situ__no_memory(set->op, ((size_t)most + 1) * sizeof *set->pieces), false;
  for (int r = 0; r < set->id.ranks; r++)
    for (int64_t i = 0; i < situ_safetensors_count(set->files[r]); i++) {
      const situ_file_entry *entry = situ_safetensors_entry(set->files[r], i);
      if (!situ__piece_parse(entry, &set->pieces[set->count]))
        return situ__fail(SITU_E_FORMAT, set->op, "%s: tensor '%.200s' is not a piece of a tensor", set->paths[r],
                          entry->name),
               false;
      set->pieces[set->count++].file = r;
    }
  if (set->count > 1) qsort(set->pieces, (size_t)set->count, sizeof *set->pieces, by_name_and_place);
  return true;
}

static bool refuse_piece(const situ__set *set, const situ__piece *p, const char *what) {
  return situ__fail(SITU_E_FORMAT, set->op, "%s: tensor '%.200s' %s", set->paths[p->file], p->entry->name, what), false;
}

/* The pieces of a tensor are of one kind, and have each of its elements once. */
static bool are_whole(const situ__set *set) {
  for (int64_t i = 0; i < set->count;) {
    const int64_t end = situ__set_next(set, i);
    const situ__piece *first = &set->pieces[i];
    int64_t at = 0;
    for (; i < end; i++) {
      const situ__piece *p = &set->pieces[i];
      if (p->entry->dtype != first->entry->dtype || !situ_shape_equal(&p->shape, &first->shape))
        return refuse_piece(set, p, "has another dtype or shape than its other pieces");
      if (p->from != at) return refuse_piece(set, p, "overlaps another piece, or the one before it is missing");
      at = p->to;
    }
    if (at != first->numel) return refuse_piece(set, &set->pieces[end - 1], "lacks the pieces behind it");
  }
  return true;
}

static void close_files(situ__set *set) {
  for (int r = 0; r < set->id.ranks; r++) {
    if (set->files) situ_safetensors_close(set->files[r]);
    if (set->paths) situ__free(set->paths[r]);
  }
  situ__free(set->files);
  situ__free(set->paths);
  set->files = NULL;
  set->paths = NULL;
}

/* Records no error. */
static bool try_to_open(situ__set *set, const char *directory, const char *sums, const situ_load_options *options) {
  situ__errors own;
  situ__errors_aside(&own);
  const bool good = open_files(set, directory, sums, options);
  SITU_IGNORE(situ__errors_back(&own, NULL, 0));
  if (!good) close_files(set);
  return good;
}

/* A save that runs meanwhile deletes the files of the old manifest when it has replaced it: then the new one's are
   opened. */
static bool open_set(situ__set *set, const char *directory, const situ_load_options *options) {
  char *sums = situ__set_read_manifest(set->op, directory, &set->id);
  bool opened = false;
  for (int k = 0; sums && !opened; k++) {
    if ((opened = try_to_open(set, directory, sums, options))) break;
    const uint32_t tag = set->id.tag;
    situ__free(sums);
    if ((sums = situ__set_read_manifest(set->op, directory, &set->id)) &&
        (set->id.tag == tag || k == SITU__SET_TRIES)) {
      opened = open_files(set, directory, sums, options); /* with the error */
      break;
    }
  }
  situ__free(sums);
  return opened;
}

bool situ__set_open(situ__set *set, const char *op, const char *directory, const situ_load_options *options) {
  *set = (situ__set){ .op = op, .device = { SITU_CPU, 0 } };
  if (options && options->device.kind) set->device = options->device;
  return open_set(set, directory, options) && list_pieces(set) && are_whole(set);
}

void situ__set_close(situ__set *set) {
  close_files(set);
  situ__free(set->pieces);
  set->pieces = NULL;
}

/* ---- finding ---- */

bool situ__set_has(const situ__set *set, int64_t i, const char *prefix) {
  const size_t length = strlen(prefix);
  return i < set->count && set->pieces[i].name_length >= length && memcmp(set->pieces[i].name, prefix, length) == 0;
}

int64_t situ__set_find(const situ__set *set, const char *prefix) {
  const situ__piece wanted = { .name = prefix, .name_length = strlen(prefix) };
  int64_t low = 0, high = set->count;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (compare_names(&set->pieces[middle], &wanted) < 0) low = middle + 1;
    else high = middle;
  }
  return low;
}

int64_t situ__set_next(const situ__set *set, int64_t i) {
  const situ__piece *first = &set->pieces[i];
  while (i < set->count && compare_names(&set->pieces[i], first) == 0) i++;
  return i;
}

/* ---- putting together ---- */

static bool copy_piece(const situ__set *set, const situ__piece *p, situ_tensor *out, int64_t from) {
  const int64_t first = p->from > from ? p->from : from, end = from + situ_numel(out), last = p->to < end ? p->to : end;
  situ_scope scope;
  situ_scope_begin_no_grad(&scope);
  situ_tensor *values = situ_safetensors_load(set->files[p->file], p->entry->name);
  const bool good = situ_copy_(situ_narrow(out, 0, first - from, last - first),
                               situ_narrow(values, 0, first - p->from, last - first));
  return situ_scope_end(&scope) == SITU_OK && good;
}

situ_tensor *situ__set_elements(const situ__set *set, int64_t i, int64_t from, int64_t count) {
  const situ__piece *p = &set->pieces[i];
  while (p->to <= from && p->to < p->numel) p++;
  if (p->from == from && p->to == from + count) return situ_safetensors_load(set->files[p->file], p->entry->name);
  const situ_options like = { .dtype = p->entry->dtype, .device = set->device };
  situ_tensor *out = situ_empty(SITU_SHAPE(count), &like);
  for (; out && p->from < from + count; p++) {
    if (!copy_piece(set, p, out, from)) return NULL;
    if (p->to == p->numel) break;
  }
  return out;
}

situ_tree *situ__set_put(situ_tree *dict, const situ__piece *p, size_t cut, situ_tensor *value) {
  const size_t length = p->name_length - cut;
  char *key = situ__alloc(length + 1);
  if (!key) {
    situ__no_memory("tree_put", length + 1);
    situ_tree_free(dict);
    return NULL;
  }
  memcpy(key, p->name + cut, length);
  key[length] = '\0';
  dict = situ_tree_put(dict, key, situ_tree_tensor(value));
  situ__free(key);
  return dict;
}

situ_tree *situ__set_section(const situ__set *set, const char *prefix, size_t cut) {
  situ_tree *dict = situ_tree_dict();
  for (int64_t i = situ__set_find(set, prefix); dict && situ__set_has(set, i, prefix); i = situ__set_next(set, i)) {
    const situ__piece *p = &set->pieces[i];
    situ_tensor *flat = situ__set_elements(set, i, 0, p->numel);
    dict = situ__set_put(dict, p, cut, situ_reshape(flat, p->shape));
  }
  return dict;
}
