/* Writes a model to several files and an index.
   SPDX-License-Identifier: MIT */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/file.h"
#include "base/text.h"
#include "index.h"
#include "save.h"
#include "io/format/values.h"

/* The file names of one save contain a unique tag, so a save never overwrites the files of the old index: whenever
   the machine stops, the index, old or new, finds its files intact. */
typedef struct plan {
  const char *op, *path;
  char stem[128];
  unsigned tag;
  int64_t *begin; /* shard k has the tensors begin[k] .. begin[k + 1] - 1 */
  int64_t shards;
  int64_t total_bytes;
} plan;

static char *shard_path(const plan *p, int64_t k) {
  char name[256];
  snprintf(name, sizeof name, "%s-%08x-%05lld-of-%05lld.safetensors", p->stem, p->tag, (long long)k + 1,
           (long long)p->shards);
  return situ__path_beside(p->path, name);
}

/* Distributes the tensors over shards. A tensor larger than a shard gets one of its own. */
static bool divide_tensors(plan *p, const situ__saved *list, int64_t count, int64_t most) {
  p->begin = situ__calloc((size_t)count + 2, sizeof *p->begin);
  if (!p->begin) return situ__no_memory(p->op, ((size_t)count + 2) * sizeof *p->begin), false;
  int64_t bytes = 0;
  for (int64_t i = 0; i < count; i++) {
    int64_t more = list[i].entry.bytes;
    if (i == 0 || bytes > most - more) {
      p->begin[p->shards++] = i;
      bytes = 0;
    }
    bytes += more;
    p->total_bytes += more;
  }
  p->begin[p->shards] = count;
  return true;
}

static bool name_shards(plan *p) {
  const char *slash = strrchr(p->path, '/'), *name = slash ? slash + 1 : p->path;
  size_t length = strlen(name) - strlen(".index.json");
  static const char ending[] = ".safetensors";
  size_t end = sizeof ending - 1;
  if (length > end && memcmp(name + length - end, ending, end) == 0) length -= end;
  if (length >= sizeof p->stem)
    return situ__fail(SITU_E_LIMIT, p->op, "%s: the name is too long to make those of its parts", p->path), false;
  memcpy(p->stem, name, length);
  p->stem[length] = '\0';
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  p->tag = (unsigned)now.tv_sec * 2654435761u ^ (unsigned)now.tv_nsec;
  return true;
}

/* ---- removing obsolete files ---- */

static void remove_beside(const char *path, const char *name) {
  char *other = situ__path_beside(path, name);
  if (other) situ__sys.unlinkat(AT_FDCWD, other, 0);
  situ__free(other);
}

static void remove_shards(const plan *p, int64_t count) {
  for (int64_t k = 0; k < count; k++) {
    char *path = shard_path(p, k);
    if (path) situ__sys.unlinkat(AT_FDCWD, path, 0);
    situ__free(path);
  }
}

/* Reads the index that will be replaced; empty if it is missing or invalid, which does not prevent saving. */
static void read_old(const char *path, situ__index *old) {
  situ__errors own;
  situ__problem problem;
  size_t length;
  *old = (situ__index){ 0 };
  situ__errors_aside(&own);
  char *text = situ__file_load("save", path, SITU__INDEX_MAX, &length);
  SITU_IGNORE(situ__errors_back(&own, NULL, 0));
  if (text) SITU_IGNORE(situ__index_parse(old, text, length, &problem));
}

/* Returns true if the file name has the form of a shard of this model. */
static bool is_ours(const plan *p, const char *file) {
  size_t stem = strlen(p->stem), rest = strlen("-12345678-00001-of-00001.safetensors");
  return strncmp(file, p->stem, stem) == 0 && strlen(file) >= stem + rest && file[stem] == '-' &&
         strspn(file + stem + 1, "0123456789abcdef") == 8 && file[stem + 9] == '-';
}

static void remove_old(const plan *p, const situ__index *old) {
  for (int64_t i = 0; i < old->count; i++)
    if (is_ours(p, old->item[i].file)) remove_beside(p->path, old->item[i].file);
}

static bool names_file(const situ__index *index, const char *file) {
  for (int64_t i = 0; i < index->count; i++)
    if (strcmp(index->item[i].file, file) == 0) return true;
  return false;
}

/* Returns true if a killed save may have left the file: it belongs neither to this save nor to the index `other`, and
   was not written to for an hour. */
static bool is_left(const plan *p, const situ__index *other, int dir, const char *file) {
  char tag[16];
  struct stat about;
  snprintf(tag, sizeof tag, "%08x", p->tag);
  return is_ours(p, file) && strncmp(file + strlen(p->stem) + 1, tag, 8) != 0 && !names_file(other, file) &&
         situ__sys.fstatat(dir, file, &about, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(about.st_mode) &&
         time(NULL) - about.st_mtime >= 3600;
}

/* Removes shards left by killed saves. m.index.json and m.safetensors.index.json use the same shard names: the files
   of the other index stay. Ignores errors: the next save tries again. */
static void sweep_shards(const plan *p) {
  char name[sizeof p->stem + 32];
  situ__index other = { 0 };
  const bool longer = strstr(p->path, ".safetensors.index.json") != NULL;
  snprintf(name, sizeof name, "%s%s.index.json", p->stem, longer ? "" : ".safetensors");
  char *path = situ__path_beside(p->path, name), *directory = situ__path_beside(p->path, ".");
  if (path) read_old(path, &other);
  int fd = path && directory ? situ__sys.openat(AT_FDCWD, directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0) : -1;
  DIR *list = fd >= 0 ? fdopendir(fd) : NULL;
  if (!list && fd >= 0) situ__sys.close(fd);
  for (struct dirent *entry; list && (entry = readdir(list));)
    if (is_left(p, &other, fd, entry->d_name)) situ__sys.unlinkat(fd, entry->d_name, 0);
  if (list) closedir(list);
  situ__index_free(&other);
  situ__free(directory);
  situ__free(path);
}

/* ---- the index ------------------------------------------------------------------------------- */

typedef struct line {
  const char *name;
  int64_t shard;
} line;

static int line_by_name(const void *a, const void *b) {
  return strcmp(((const line *)a)->name, ((const line *)b)->name);
}

static void list_tensors(const plan *p, const situ__saved *list, int64_t count, situ__text *text) {
  line *lines = situ__calloc((size_t)count + 1, sizeof *lines);
  if (!lines) {
    text->failed = true;
    return;
  }
  for (int64_t k = 0; k < p->shards; k++)
    for (int64_t i = p->begin[k]; i < p->begin[k + 1]; i++) lines[i] = (line){ list[i].entry.name, k };
  if (count > 1) qsort(lines, (size_t)count, sizeof *lines, line_by_name);
  situ__text_add(text, "{\n  \"metadata\": {\"total_size\": %lld},\n  \"weight_map\": {", (long long)p->total_bytes);
  for (int64_t i = 0; i < count; i++) {
    char *path = shard_path(p, lines[i].shard), *slash = path ? strrchr(path, '/') : NULL;
    text->failed = text->failed || !path;
    situ__text_add(text, i ? ",\n    " : "\n    ");
    situ__text_json_string(text, lines[i].name);
    situ__text_add(text, ": ");
    situ__text_json_string(text, slash ? slash + 1 : path ? path : "");
    situ__free(path);
  }
  situ__text_add(text, "\n  }\n}\n");
  situ__free(lines);
}

static situ_status write_index(const plan *p, const situ__saved *list, int64_t count, const situ_save_options *options,
                               const situ__still *still) {
  situ__text text = { 0 };
  situ__replace r;
  list_tensors(p, list, count, &text);
  situ_status status = text.failed ? situ__no_memory(p->op, text.length)
                                   : situ__replace_begin(&r, p->op, p->path, (int64_t)text.length, !options->no_sync);
  if (status == SITU_OK) {
    situ__replace_write(&r, text.data, text.length);
    status = situ__values_end(&r, options, still);
  }
  situ__text_free(&text);
  return status;
}

situ_status situ__save_shards(const char *op, const char *path, situ__saved *list, int64_t count,
                              const situ_save_options *options, const situ__still *still) {
  plan p = { .op = op, .path = path };
  if (!situ__is_index(path))
    return situ__fail(SITU_E_ARG, op, "%s: the index of several files must end in .index.json", path);
  situ_status status = SITU_OK;
  situ_replaced replaced = SITU_NOT_REPLACED;
  int64_t written = 0;
  situ__index old;
  if (!name_shards(&p) || !divide_tensors(&p, list, count, options->max_shard_bytes)) return situ_error();
  read_old(path, &old);
  situ_save_options one = *options;
  one.replaced = NULL;
  for (; written < p.shards && status == SITU_OK; written++) {
    char *shard = shard_path(&p, written);
    int64_t first = p.begin[written];
    status = shard ? situ__save_file(op, shard, list + first, p.begin[written + 1] - first, &one, still)
                   : situ__no_memory(op, strlen(path) + 256);
    situ__free(shard);
  }
  one.replaced = &replaced;
  if (status == SITU_OK) status = write_index(&p, list, count, &one, still);
  /* After SITU_REPLACED_NOT_DURABLE a power cut may bring the old index back: keep both sets of files. */
  if (replaced == SITU_NOT_REPLACED) remove_shards(&p, written);
  else if (replaced == SITU_REPLACED) remove_old(&p, &old), sweep_shards(&p);
  if (options->replaced) *options->replaced = replaced;
  situ__index_free(&old);
  situ__free(p.begin);
  return status;
}
