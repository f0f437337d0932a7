/* Opens and loads safetensors files: a single file, or the shards of an index; and files of torch.save and of GGUF.
   SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/handle.h"
#include "base/file.h"
#include "base/text.h"
#include "io/gguf/gguf.h"
#include "io/safetensors/index.h"
#include "io/safetensors/shard.h"
#include "io/torch/torch.h"
#include "io/format/values.h"
#include "situ/sys/shape.h"

/* A file of torch.save. */
typedef struct torch_file {
  situ__torch torch;
  situ__torch_list list;
  char *path;
} torch_file;

/* The location of a tensor: one of the pointers, or neither in a file of GGUF. */
typedef struct place {
  const situ_file_entry *entry;
  const situ__shard *shard;
  const torch_file *torch;
  const situ__torch_item *item; /* of torch */
} place;

struct situ_safetensors {
  uint32_t head;
  situ_load_options options;
  situ__shard *shards;
  int64_t count;
  place *places; /* sorted by name */
  int64_t tensors;
  situ__index index; /* empty for a single file */
  torch_file *torch;
  int64_t torches;
  situ_gguf *gguf;
  situ__gguf_remarks remarks;
};

static const char op[] = "safetensors_open";

static bool is_open(const char *by, const situ_safetensors *f) { return situ__valid(by, "file", f, SITU__A_FILE); }

/* ---- the list of tensors ---- */

static int by_name(const void *a, const void *b) {
  return strcmp(((const place *)a)->entry->name, ((const place *)b)->entry->name);
}

/* Lists the tensors of all shards, or of the file of GGUF. */
static bool list_places(situ_safetensors *f) {
  f->tensors = situ_gguf_count(f->gguf);
  for (int64_t k = 0; k < f->torches; k++) f->tensors += f->torch[k].list.count;
  for (int64_t k = 0; k < f->count; k++) f->tensors += f->shards[k].header.count;
  f->places = situ__calloc((size_t)f->tensors + 1, sizeof *f->places);
  if (!f->places) return situ__no_memory(op, ((size_t)f->tensors + 1) * sizeof *f->places), false;
  place *to = f->places;
  for (int64_t k = 0; k < f->torches; k++)
    for (int64_t i = 0; i < f->torch[k].list.count; i++) {
      const situ__torch_item *item = &f->torch[k].list.item[i];
      *to++ = (place){ .entry = &item->entry, .torch = &f->torch[k], .item = item };
    }
  for (int64_t i = 0; i < situ_gguf_count(f->gguf); i++) *to++ = (place){ .entry = situ_gguf_entry(f->gguf, i) };
  for (int64_t k = 0; k < f->count; k++)
    for (int64_t i = 0; i < f->shards[k].header.count; i++)
      *to++ = (place){ .entry = &f->shards[k].header.entry[i], .shard = &f->shards[k] };
  if (f->count + f->torches > 1) qsort(f->places, (size_t)f->tensors, sizeof *f->places, by_name);
  return true;
}

/* Checks that the index and the files name the same tensors, in one pass over two sorted lists. */
static bool check_agreement(const situ_safetensors *f, const char *path) {
  const situ__index *index = &f->index;
  char shown[SITU__SHOWN_MAX];
  for (int64_t i = 0; i < index->count || i < f->tensors; i++) {
    const char *listed = i < index->count ? index->item[i].name : NULL;
    const char *there = i < f->tensors ? f->places[i].entry->name : NULL;
    int order = !listed ? 1 : !there ? -1 : strcmp(listed, there);
    if (order < 0)
      return situ__fail(SITU_E_FORMAT, op, "%s: lists '%s', which %s lacks", path, situ__shown(listed, shown),
                        index->item[i].file),
             false;
    if (order > 0 || strcmp(index->item[i].file, f->places[i].entry->file) != 0)
      return situ__fail(SITU_E_FORMAT, op, "%s: does not list '%s', which is in %s", path, situ__shown(there, shown),
                        f->places[i].entry->file),
             false;
  }
  return true;
}

static int by_file(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

/* Lists the distinct files that an index names, sorted. Returns their number; -1 when memory runs out. */
static int64_t list_files(const situ__index *index, const char ***out) {
  const char **file = situ__calloc((size_t)index->count + 1, sizeof *file);
  int64_t count = 0;
  *out = file;
  if (!file) return -1;
  for (int64_t i = 0; i < index->count; i++) file[i] = index->item[i].file;
  if (index->count > 1) qsort(file, (size_t)index->count, sizeof *file, by_file);
  for (int64_t i = 0; i < index->count; i++)
    if (count == 0 || strcmp(file[count - 1], file[i]) != 0) file[count++] = file[i];
  return count;
}

static bool read_index(situ_safetensors *f, const char *path) {
  situ__problem problem;
  size_t length;
  char *text = situ__file_load(op, path, SITU__INDEX_MAX, &length);
  if (!text) return false;
  if (situ__index_parse(&f->index, text, length, &problem)) return true;
  return situ__fail(problem.status, op, "%s: %s", path, problem.text), false;
}

/* Opens a file of torch.save; takes over its path (NULL: out of memory). shard: its name in the index. */
static bool open_torch(situ_safetensors *f, char *path, const char *shard) {
  torch_file *t = &f->torch[f->torches++];
  t->path = path;
  t->torch.source.fd = -1;
  if (!path) return situ__no_memory(op, 1), false;
  if (!situ__torch_open_file(&t->torch, op, path, &f->options) || !situ__torch_list_make(&t->list, &t->torch))
    return false;
  for (int64_t i = 0; i < t->list.count; i++) t->list.item[i].entry.file = shard;
  return true;
}

/* Opens a file that the index names; *gone: it is missing, and no error was recorded. */
static bool open_shard(situ_safetensors *f, const char *path, const char *name, bool *gone) {
  char *beside = situ__path_beside(path, name);
  bool is_torch = false;
  *gone = false;
  if (beside && !situ__torch_recognize(op, beside, &is_torch)) return situ__free(beside), false;
  if (is_torch) return open_torch(f, beside, name);
  situ__shard *s = &f->shards[f->count++];
  const bool fine = situ__shard_open(s, op, beside, &f->options, gone);
  if (s->gguf) situ__fail(SITU_E_FORMAT, op, "%s: names %s, which is a GGUF file", path, name);
  for (int64_t i = 0; fine && i < s->header.count; i++) s->header.entry[i].file = name;
  return fine;
}

/* Opens the files that the index names. Returns false after recording an error, or with *missing set to the name of a
   file that does not exist. */
static bool open_files(situ_safetensors *f, const char *path, const char **missing) {
  const char **file;
  int64_t files = list_files(&f->index, &file);
  f->shards = files < 0 ? NULL : situ__calloc((size_t)files + 1, sizeof *f->shards);
  f->torch = files < 0 ? NULL : situ__calloc((size_t)files + 1, sizeof *f->torch);
  bool fine = f->shards && f->torch;
  if (!fine) situ__no_memory(op, ((size_t)f->index.count + 1) * sizeof *f->shards);
  *missing = NULL;
  for (int64_t k = 0; fine && k < files; k++) {
    bool gone;
    fine = open_shard(f, path, file[k], &gone);
    if (gone) *missing = file[k];
  }
  situ__free(file);
  return fine;
}

static void close_files(situ_safetensors *f) {
  for (int64_t k = 0; k < f->count; k++) situ__shard_close(&f->shards[k]);
  for (int64_t k = 0; k < f->torches; k++) {
    situ__torch_close_file(&f->torch[k].torch);
    situ__torch_list_free(&f->torch[k].list);
    situ__free(f->torch[k].path);
  }
  situ__index_free(&f->index);
  situ__free(f->shards);
  situ__free(f->torch);
  f->shards = NULL;
  f->torch = NULL;
  f->count = f->torches = 0;
}

static bool same_file(const struct stat *a, const struct stat *b) {
  return a->st_ino == b->st_ino && a->st_size == b->st_size && a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
         a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* A concurrent save removes the files of the old index after it has replaced the index. So if a file is missing and
   the index has changed, retries with the new index. */
static bool open_index(situ_safetensors *f, const char *path) {
  enum { TRIES = 1000 };
  struct stat before = { 0 }, now = { 0 };
  for (int k = 0;; k++) {
    const char *missing;
    SITU_IGNORE(situ__sys.fstatat(AT_FDCWD, path, &before, 0));
    if (!read_index(f, path)) return false;
    if (open_files(f, path, &missing)) return list_places(f) && check_agreement(f, path);
    if (!missing) return false;
    if (k == TRIES || situ__sys.fstatat(AT_FDCWD, path, &now, 0) != 0 || same_file(&before, &now))
      return situ__fail(SITU_E_IO, op, "%s: %s, which it names, cannot be opened: %s", path, missing, strerror(ENOENT)),
             false;
    close_files(f);
  }
}

static bool open_single(situ_safetensors *f, const char *path) {
  f->shards = situ__calloc(1, sizeof *f->shards);
  if (!f->shards) return situ__no_memory(op, sizeof *f->shards), false;
  f->count = 1;
  bool missing, good = situ__shard_open(f->shards, op, situ__strdup(path), &f->options, &missing);
  if (missing) situ__fail(SITU_E_IO, op, "%s: cannot be opened: %s", path, strerror(ENOENT));
  return good && list_places(f);
}

static bool open_any(situ_safetensors *f, const char *path) {
  bool is_torch;
  if (situ__is_index(path)) return open_index(f, path);
  if (!situ__torch_recognize(op, path, &is_torch)) return false;
  if (!is_torch) return open_single(f, path);
  f->torch = situ__calloc(1, sizeof *f->torch);
  if (!f->torch) return situ__no_memory(op, sizeof *f->torch), false;
  return open_torch(f, situ__strdup(path), "") && list_places(f);
}

/* With *gguf set no error is recorded: it is a file of that format. */
static situ_safetensors *open_files_of(const char *path, const situ_load_options *options, bool *gguf) {
  *gguf = false;
  if (!path) return situ__null(op, "path"), NULL;
  situ_safetensors *f = situ__handle_new(SITU__A_FILE, sizeof *f);
  if (!f) return situ__no_memory(op, sizeof *f), NULL;
  if (options) f->options = *options;
  if (open_any(f, path)) return f;
  *gguf = !situ__is_index(path) && f->shards && f->shards->gguf;
  situ_safetensors_close(f);
  return NULL;
}

static situ_safetensors *open_gguf(const char *path, const situ_load_options *options) {
  situ_safetensors *f = situ__handle_new(SITU__A_FILE, sizeof *f);
  if (!f) return situ__no_memory(op, sizeof *f), NULL;
  f->gguf = situ_gguf_open(path, options);
  if (f->gguf && situ__gguf_remarks_make(&f->remarks, f->gguf) && list_places(f)) return f;
  situ_safetensors_close(f);
  return NULL;
}

situ_safetensors *situ_safetensors_open(const char *path, const situ_load_options *options) {
  bool gguf;
  situ_safetensors *f = open_files_of(path, options, &gguf);
  return gguf ? open_gguf(path, options) : f;
}

void situ_safetensors_close(situ_safetensors *file) {
  if (!file || !is_open("safetensors_close", file)) return;
  close_files(file);
  situ__gguf_remarks_free(&file->remarks);
  situ_gguf_close(file->gguf);
  situ__free(file->places);
  situ__handle_free(file, sizeof *file, NULL);
}

/* ---- queries ---- */

int64_t situ_safetensors_count(const situ_safetensors *file) {
  return file && is_open("safetensors_count", file) ? file->tensors : 0;
}

const situ_file_entry *situ_safetensors_entry(const situ_safetensors *file, int64_t index) {
  if (!file || !is_open("safetensors_entry", file)) return NULL;
  return index >= 0 && index < file->tensors ? file->places[index].entry : NULL;
}

static const place *find_place(const situ_safetensors *f, const char *name) {
  situ_file_entry named = { .name = name };
  place wanted = { .entry = &named };
  return f->tensors ? bsearch(&wanted, f->places, (size_t)f->tensors, sizeof wanted, by_name) : NULL;
}

const situ_file_entry *situ_safetensors_find(const situ_safetensors *file, const char *name) {
  const place *found = file && is_open("safetensors_find", file) && name ? find_place(file, name) : NULL;
  return found ? found->entry : NULL;
}

const char *situ_safetensors_format(const situ_safetensors *file) {
  if (!file || !is_open("safetensors_format", file)) return "";
  return file->gguf ? "gguf" : file->torches ? "torch" : "safetensors";
}

/* The metadata, sorted by key. Each shard that situ writes has all of them; of shards of torch.save the first has. */
static const situ_metadata *metadata_of(const situ_safetensors *f, int64_t *count) {
  const situ__header *header = f->count ? &f->shards[0].header : NULL;
  if (f->gguf) return *count = f->remarks.count, f->remarks.remark;
  const situ__torch_list *list = f->torches ? &f->torch[0].list : NULL;
  *count = list ? list->remarks : header ? header->metadata_count : 0;
  return list ? list->remark : header ? header->metadata : NULL;
}

const char *situ_safetensors_metadata(const situ_safetensors *file, const char *key) {
  int64_t count;
  if (!file || !is_open("safetensors_metadata", file) || !key) return NULL;
  const situ_metadata wanted = { .key = key }, *list = metadata_of(file, &count);
  const situ_metadata *found =
      count ? bsearch(&wanted, list, (size_t)count, sizeof wanted, situ__metadata_by_key) : NULL;
  return found ? found->value : NULL;
}

bool situ_safetensors_metadata_at(const situ_safetensors *file, int64_t index, situ_metadata *out) {
  int64_t count;
  if (!file || !is_open("safetensors_metadata_at", file) || !out) return false;
  const situ_metadata *list = metadata_of(file, &count);
  if (index < 0 || index >= count) return false;
  *out = list[index];
  return true;
}

bool situ_safetensors_left_at(const situ_safetensors *file, int64_t index, situ_metadata *out) {
  if (!file || !is_open("safetensors_left_at", file) || !out || index < 0) return false;
  for (int64_t k = 0; k < file->torches; index -= file->torch[k++].list.lefts)
    if (index < file->torch[k].list.lefts) return *out = file->torch[k].list.left[index], true;
  return false;
}

/* ---- loading --------------------------------------------------------------------------------- */

/* Declares the blocks of a tensor that situ saved. Returns false after recording an error. */
static bool restore_blocks(const char *by, const situ__shard *s, const char *name, situ_tensor *t) {
  situ__text key = { 0 };
  char shown[SITU__SHOWN_MAX];
  situ__text_add(&key, "%s%s", SITU__BLOCKS_KEY, name);
  if (key.failed) return situ__no_memory(by, key.capacity), false;
  const char *said = situ__header_metadata(&s->header, key.data);
  situ__text_free(&key);
  if (!said) return true;
  for (int type = SITU_BLOCK_Q8_0; type < SITU_BLOCK_TYPES; type++)
    if (strcmp(said, situ_block_name((situ_block_type)type)) == 0)
      return situ_set_block_type(t, (situ_block_type)type) == SITU_OK;
  return situ__fail(SITU_E_FORMAT, by, "%s: '%s' holds blocks of the unknown type '%.40s'", s->path,
                    situ__shown(name, shown), said),
         false;
}

static situ__source source_of(const char *by, const situ__shard *s) {
  return (situ__source){ .op = by, .path = s->path, .fd = s->fd, .mapping = s->mapping };
}
static bool checks(const situ_safetensors *f, const situ__shard *s) {
  return s->sum && (!s->mapping || f->options.verify == SITU_VERIFY_ALWAYS);
}
static const uint32_t *sum_of(const place *p) { return &p->shard->sum[p->entry - p->shard->header.entry]; }

static situ_tensor *load_place(const char *by, const situ_safetensors *f, const place *p) {
  const situ_file_entry *e = p->entry;
  const situ__shard *s = p->shard;
  char shown[SITU__SHOWN_MAX];
  if (f->gguf) return situ_gguf_load(f->gguf, e->name);
  if (p->torch) {
    situ_scope scope;
    situ_scope_begin_no_grad(&scope);
    situ_tensor *t = situ__torch_tensor(&p->torch->torch, e->name, &p->torch->torch.pickle.tensor[p->item->number]);
    return situ_scope_return(&scope, t ? situ_set_name(t, e->name) : NULL);
  }
  if (e->dtype == SITU_DTYPE_DEFAULT)
    return situ__fail(SITU_E_UNSUPPORTED, by, "%s: '%s' is of dtype %s, which this library does not have", s->path,
                      situ__shown(e->name, shown), e->type),
           NULL;
  const situ__source source = source_of(by, s);
  situ_tensor *t = situ__values_load(&source, e->name, e->offset, &e->shape, e->dtype, f->options.device,
                                     checks(f, s) ? sum_of(p) : NULL);
  if (t && e->dtype == SITU_U8 && s->header.metadata_count && !restore_blocks(by, s, e->name, t)) return NULL;
  return t ? situ_set_name(t, e->name) : NULL;
}

/* NULL after recording an error. */
static const place *get_place(const char *by, const situ_safetensors *file, const char *name) {
  char shown[SITU__SHOWN_MAX];
  if (!is_open(by, file) || !situ__given(by, "name", name)) return NULL;
  const place *p = find_place(file, name);
  if (!p)
    situ__fail(SITU_E_ARG, by, "there is no tensor '%s' in %s", situ__shown(name, shown),
               file->count     ? file->shards[0].path
               : file->torches ? file->torch[0].path
                               : "an empty index");
  return p;
}

situ_tensor *situ_safetensors_load(situ_safetensors *file, const char *name) {
  static const char by[] = "safetensors_load";
  const place *p = get_place(by, file, name);
  return p ? load_place(by, file, p) : NULL;
}

/* A tensor whose elements lie in a safetensors file one behind the other. NULL after recording an error. */
static const place *get_elements(const char *by, const situ_safetensors *file, const char *name) {
  char shown[SITU__SHOWN_MAX];
  const place *p = get_place(by, file, name);
  if (p && (!p->shard || !p->entry->dtype))
    return situ__fail(SITU_E_UNSUPPORTED, by, "'%s' is of dtype %s in a file of %s: load all of it",
                      situ__shown(name, shown), p->entry->type, situ_safetensors_format(file)),
           NULL;
  return p;
}

situ_tensor *situ_safetensors_load_part(situ_safetensors *file, const char *name, int64_t from, int64_t count) {
  static const char by[] = "safetensors_load_part";
  int64_t numel;
  const place *p = get_elements(by, file, name);
  if (!p || !situ_shape_numel(by, &p->entry->shape, &numel)) return NULL;
  if (from < 0 || count < 0 || from > numel - count)
    return situ__fail(SITU_E_ARG, by, "%lld elements from %lld on of '%.200s', which has %lld", (long long)count,
                      (long long)from, name, (long long)numel),
           NULL;
  const situ_file_entry *e = p->entry;
  const situ__source source = source_of(by, p->shard);
  const bool all = count == numel && checks(file, p->shard);
  situ_tensor *t = situ__values_load(&source, e->name, e->offset + from * (int64_t)situ_dtype_size(e->dtype),
                                     &SITU_SHAPE(count), e->dtype, file->options.device, all ? sum_of(p) : NULL);
  return t ? situ_set_name(t, e->name) : NULL;
}

situ_status situ_safetensors_verify(situ_safetensors *file, const char *name) {
  static const char by[] = "safetensors_verify";
  const place *p = get_elements(by, file, name);
  if (!p) return situ_error();
  const situ__source source = source_of(by, p->shard);
  if (!checks(file, p->shard)) return SITU_OK;
  return situ__values_check(&source, p->entry->name, p->entry->offset, p->entry->bytes, *sum_of(p));
}

/* The name under which a tensor is loaded; NULL: it is not one of the weights, which alone are wanted. */
static const char *name_of(const place *p, bool weights) {
  return weights && p->item ? p->item->weight : p->entry->name;
}

/* A flat dict, in the order of the names. */
static situ_tree *load_places(const char *by, const situ_safetensors *f, bool weights) {
  situ_scope scope;
  situ_scope_begin_no_grad(&scope);
  situ_tree *dict = situ_tree_dict();
  for (int64_t i = 0; dict && i < f->tensors; i++) {
    const place *p = &f->places[i];
    const char *name = name_of(p, weights);
    if (name) dict = situ_tree_put(dict, name, situ_tree_tensor(situ_set_name(load_place(by, f, p), name)));
  }
  if (situ_scope_end(&scope) == SITU_OK) return dict;
  situ_tree_free(dict);
  return NULL;
}

static situ_tree *load_tree(const situ_safetensors *f) {
  for (int64_t k = 0; k < f->torches; k++)
    if (!situ__torch_check_known(&f->torch[k].torch)) return NULL;
  return f->torches && !f->index.text ? situ__torch_tree(&f->torch[0].torch) : load_places("load", f, false);
}

static situ_tree *load_state(const situ_safetensors *f, const char *path) {
  situ_tree *dict = load_places("load_weights", f, true);
  if (!dict || !f->torches || situ_tree_count(dict)) return dict;
  situ_tree_free(dict);
  return situ__fail(SITU_E_FORMAT, "load_weights",
                    "%s: holds no state dict, that is a dict of tensors: save model.state_dict()", path),
         NULL;
}

static situ_tree *load_all(const char *path, const situ_load_options *options, bool weights) {
  bool gguf;
  situ_safetensors *f = open_files_of(path, options, &gguf);
  if (!f) return gguf ? situ__gguf_load_all(path, options) : NULL;
  situ_tree *tree = weights ? load_state(f, path) : load_tree(f);
  situ_safetensors_close(f);
  return tree;
}

situ_tree *situ_load(const char *path, const situ_load_options *options) {
  SITU__MADE_OF_OPS("load");
  return load_all(path, options, false);
}

situ_tree *situ_load_weights(const char *path, const situ_load_options *options) {
  SITU__MADE_OF_OPS("load_weights");
  return load_all(path, options, true);
}
