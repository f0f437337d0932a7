/* Reads a sharded checkpoint: opens the files of all ranks, and puts tensors together from their pieces.
   SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/size.h"
#include "distributed/ddp/ddp.h"
#include "set.h"
#include "situ/ops.h"
#include "situ/sys/shape.h"

/* ---- opening ---- */

static bool is_of_set(const situ__set *set, int rank) {
  const situ__set_shard *f = &set->files[rank];
  const char *sum = situ__set_sum(set->op, f->open, f->path);
  if (!sum || strncmp(sum, set->sums + rank * SITU__SET_SUM, SITU__SET_SUM) == 0) return sum != NULL;
  return situ__fail(SITU_E_FORMAT, set->op, "%s: is not the file that rank %d of this checkpoint has written", f->path,
                    rank),
         false;
}

/* A rank's file, open; the one that was opened longest ago is closed for it. NULL after recording an error. */
static situ_safetensors *open_file(const situ__set *set, int rank) {
  situ__set_shard *f = &set->files[rank];
  if (f->open) return f->open;
  int *turn = &set->turns->file[set->turns->next];
  set->turns->next = (set->turns->next + 1) % SITU__SET_OPEN;
  if (*turn >= 0) {
    situ_safetensors_close(set->files[*turn].open);
    set->files[*turn].open = NULL;
  }
  *turn = rank;
  f->open = situ_safetensors_open(f->path, &set->options);
  return f->open && is_of_set(set, rank) ? f->open : NULL;
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

/* Copies the names of a file's pieces, which go when it is closed. */
static char *copy_names(const situ__set *set, const situ_safetensors *file) {
  size_t bytes = 1;
  for (int64_t i = 0; i < situ_safetensors_count(file); i++) bytes += strlen(situ_safetensors_entry(file, i)->name) + 1;
  char *names = situ__alloc(bytes), *at = names;
  if (!names) return situ__no_memory(set->op, bytes), NULL;
  for (int64_t i = 0; i < situ_safetensors_count(file); i++) {
    const size_t length = strlen(situ_safetensors_entry(file, i)->name) + 1;
    memcpy(at, situ_safetensors_entry(file, i)->name, length);
    at += length;
  }
  return names;
}

static bool list_pieces(situ__set *set, int rank) {
  const situ_safetensors *file = open_file(set, rank);
  const int64_t count = file ? situ_safetensors_count(file) : 0;
  const char *name = file ? set->files[rank].names = copy_names(set, file) : NULL;
  if (!name || !situ__grow(set->op, &set->pieces, &set->capacity, sizeof *set->pieces, set->count + count + 1))
    return false;
  for (int64_t i = 0; i < count; i++, name += strlen(name) + 1) {
    if (!situ__piece_parse(situ_safetensors_entry(file, i), name, &set->pieces[set->count]))
      return situ__fail(SITU_E_FORMAT, set->op, "%s: tensor '%.200s' is not a piece of a tensor", set->files[rank].path,
                        name),
             false;
    set->pieces[set->count++].file = rank;
  }
  return true;
}

static bool list_files(situ__set *set, const char *directory) {
  const size_t ranks = (size_t)set->id.ranks;
  set->files = situ__calloc(ranks, sizeof *set->files);
  set->turns = situ__alloc(sizeof *set->turns);
  if (!set->files || !set->turns) return situ__no_memory(set->op, ranks * sizeof *set->files), false;
  *set->turns = (struct situ__set_turns){ .next = 0 };
  for (int k = 0; k < SITU__SET_OPEN; k++) set->turns->file[k] = -1;
  for (int r = 0; r < set->id.ranks; r++)
    if (!(set->files[r].path = situ__set_file(set->op, directory, set->id, r)) || !list_pieces(set, r)) return false;
  if (set->count > 1) qsort(set->pieces, (size_t)set->count, sizeof *set->pieces, by_name_and_place);
  return true;
}

static bool refuse_piece(const situ__set *set, const situ__piece *p, const char *what) {
  return situ__fail(SITU_E_FORMAT, set->op, "%s: tensor '%.200s' %s", set->files[p->file].path, p->entry, what), false;
}

/* The pieces of a tensor are of one kind, and have each of its elements once. */
static bool are_whole(const situ__set *set) {
  for (int64_t i = 0; i < set->count;) {
    const int64_t end = situ__set_next(set, i);
    const situ__piece *first = &set->pieces[i];
    int64_t at = 0;
    for (; i < end; i++) {
      const situ__piece *p = &set->pieces[i];
      if (p->dtype != first->dtype || !situ_shape_equal(&p->shape, &first->shape))
        return refuse_piece(set, p, "has another dtype or shape than its other pieces");
      if (p->from != at) return refuse_piece(set, p, "overlaps another piece, or the one before it is missing");
      at = p->to;
    }
    if (at != first->numel) return refuse_piece(set, &set->pieces[end - 1], "lacks the pieces behind it");
  }
  return true;
}

static void close_files(situ__set *set) {
  for (int r = 0; set->files && r < set->id.ranks; r++) {
    situ_safetensors_close(set->files[r].open);
    situ__free(set->files[r].names);
    situ__free(set->files[r].path);
  }
  situ__free(set->files);
  situ__free(set->turns);
  situ__free(set->pieces);
  set->files = NULL;
  set->turns = NULL;
  set->pieces = NULL;
  set->count = set->capacity = 0;
}

/* Records no error. */
static bool try_to_list(situ__set *set, const char *directory) {
  situ__errors own;
  situ__errors_aside(&own);
  const bool good = list_files(set, directory);
  SITU_IGNORE(situ__errors_back(&own, NULL, 0));
  if (!good) close_files(set);
  return good;
}

/* A save that runs meanwhile deletes the files of the old manifest when it has replaced it: then the new one's are
   opened. */
static bool open_set(situ__set *set, const char *directory) {
  set->sums = situ__set_read_manifest(set->op, directory, &set->id);
  for (int k = 0; set->sums; k++) {
    if (try_to_list(set, directory)) return true;
    const uint32_t tag = set->id.tag;
    situ__free(set->sums);
    set->sums = situ__set_read_manifest(set->op, directory, &set->id);
    if (set->sums && (set->id.tag == tag || k == SITU__SET_TRIES))
      return list_files(set, directory); /* with the error */
  }
  return false;
}

bool situ__set_open(situ__set *set, const char *op, const char *directory, const situ_load_options *options) {
  *set = (situ__set){ .op = op };
  if (options) set->options = *options;
  set->options.device = (situ_device){ SITU_CPU, 0 };
  return open_set(set, directory) && are_whole(set);
}

void situ__set_close(situ__set *set) {
  close_files(set);
  situ__free(set->sums);
  set->sums = NULL;
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

/* A checksum is that of a whole piece. If ranks read parts of it, the one that has an element chosen by chance compares
   it, for which it reads all: so each has about as much to read. */
static bool checks_piece(const situ__set *set, const situ__piece *p, int64_t from, int64_t end) {
  if (from == p->from && end == p->to) return false; /* as it is loaded */
  const uint64_t number = (uint64_t)(p - set->pieces);
  const int64_t chosen = p->from + (int64_t)(situ__dist_hash(&number, sizeof number) % (uint64_t)(p->to - p->from));
  return from <= chosen && chosen < end;
}

/* Elements [from, end) of a tensor, which a piece has, 1-D. A file that was closed meanwhile is opened again. */
static situ_tensor *load_piece(const situ__set *set, const situ__piece *p, int64_t from, int64_t end) {
  situ_safetensors *file = open_file(set, p->file);
  if (!file)
    situ__error_add("  if another save has replaced this checkpoint meanwhile, load it again: nothing has changed");
  if (!file || (checks_piece(set, p, from, end) && situ_safetensors_verify(file, p->entry) != SITU_OK)) return NULL;
  return situ_safetensors_load_part(file, p->entry, from - p->from, end - from);
}

static bool copy_piece(const situ__set *set, const situ__piece *p, situ_tensor *out, int64_t from) {
  const int64_t first = situ__max_i64(p->from, from), end = situ__min_i64(p->to, from + situ_numel(out));
  situ_scope scope;
  situ_scope_begin_no_grad(&scope);
  const bool good = situ_copy_(situ_narrow(out, 0, first - from, end - first), load_piece(set, p, first, end));
  return situ_scope_end(&scope) == SITU_OK && good;
}

situ_tensor *situ__set_elements(const situ__set *set, int64_t i, int64_t from, int64_t count) {
  const situ__piece *p = &set->pieces[i];
  while (p->to <= from && p->to < p->numel) p++;
  if (p->from <= from && from + count <= p->to) return load_piece(set, p, from, from + count);
  const situ_options like = { .dtype = p->dtype, .device = { SITU_CPU, 0 } };
  situ_tensor *out = situ_empty(SITU_SHAPE(count), &like);
  for (; out && p->from < from + count; p++) {
    if (!copy_piece(set, p, out, from)) return NULL;
    if (p->to == p->numel) break;
  }
  return out;
}

situ_tensor *situ__set_whole(const situ__set *set, int64_t i, const char *key, void *payload) {
  (void)key, (void)payload;
  return situ_reshape(situ__set_elements(set, i, 0, set->pieces[i].numel), set->pieces[i].shape);
}

situ_tree *situ__set_section(const situ__set *set, const char *prefix, size_t cut, situ__set_reader read,
                             void *payload) {
  situ_tree *dict = situ_tree_dict();
  for (int64_t i = situ__set_find(set, prefix); dict && situ__set_has(set, i, prefix); i = situ__set_next(set, i)) {
    const situ__piece *p = &set->pieces[i];
    const size_t length = p->name_length - cut;
    char *key = situ__alloc(length + 1);
    if (!key) {
      situ__no_memory("tree_put", length + 1);
      situ_tree_free(dict);
      return NULL;
    }
    memcpy(key, p->name + cut, length);
    key[length] = '\0';
    dict = situ_tree_put(dict, key, situ_tree_tensor(read(set, i, key, payload)));
    situ__free(key);
  }
  return dict;
}
