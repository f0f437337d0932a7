/* Writes the manifest of a sharded checkpoint, and deletes what older saves have left.
   SPDX-License-Identifier: MIT */
#include "set.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/file.h"
#include "base/size.h"
#include "base/text.h"

static const char manifest[] = "manifest.safetensors";
static const char key[] = "situ.dist";
static const char sums[] = "situ.crc32c"; /* of situ_save: the first 8 digits are those of the whole header */
enum { VERSION = 1 };

/* ---- paths ---- */

static char *path_in(const char *op, const char *directory, const char *name) {
  const size_t bytes = strlen(directory) + strlen(name) + 2;
  char *path = situ__alloc(bytes);
  if (!path) return situ__no_memory(op, bytes), NULL;
  (void)snprintf(path, bytes, "%s/%s", directory, name);
  return path;
}

uint32_t situ__set_new_tag(void) {
  static atomic_uint counter;
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (uint32_t)now.tv_sec * 2654435761u ^ (uint32_t)now.tv_nsec ^ atomic_fetch_add(&counter, 1) << 20;
}

char *situ__set_file(const char *op, const char *directory, situ__set_id id, int rank) {
  char name[64];
  (void)snprintf(name, sizeof name, "rank-%05d-of-%05d-%08x.safetensors", rank, (int)id.ranks, (unsigned)id.tag);
  return path_in(op, directory, name);
}

bool situ__set_make_directory(const char *op, const char *directory, bool sync) {
  if (situ__sys.mkdirat(AT_FDCWD, directory, 0777) != 0) {
    if (errno == EEXIST) return true;
    return situ__fail(SITU_E_IO, op, "%s: cannot be made: %s", directory, strerror(errno)), false;
  }
  char *parent = sync ? path_in(op, directory, "..") : NULL;
  const int fd = parent ? situ__sys.openat(AT_FDCWD, parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0) : -1;
  const bool good = !sync || (fd >= 0 && situ__sys.fsync(fd) == 0);
  if (!good && parent)
    situ__fail(SITU_E_IO, op, "%s: is made, but a power cut may undo it: %s", directory, strerror(errno));
  if (fd >= 0) situ__sys.close(fd);
  situ__free(parent);
  return good;
}

/* ---- deleting ---- */

void situ__set_remove(const char *op, const char *directory, situ__set_id id, int rank) {
  char *path = situ__set_file(op, directory, id, rank);
  if (path) situ__sys.unlinkat(AT_FDCWD, path, 0);
  situ__free(path);
}

/* Reads the tag of "rank-00000-of-00002-12345678.safetensors", or of the temporary file of a save. */
static bool read_tag(const char *name, uint32_t *tag) {
  unsigned value;
  int length = 0;
  const bool temporary = *name == '.';
  if (sscanf(name + temporary, "rank-%*5d-of-%*5d-%8x.safetensors%n", &value, &length) != 1 || !length) return false;
  *tag = value;
  name += temporary + length;
  return temporary ? strncmp(name, ".tmp.", 5) == 0 : !*name;
}

/* Returns true if a save that was killed may have left the file: not written to for an hour. */
static bool is_old(int directory, const char *name) {
  struct stat about;
  return situ__sys.fstatat(directory, name, &about, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(about.st_mode) &&
         time(NULL) - about.st_mtime >= 3600;
}

/* Deletes what saves that were killed have left. Ignores errors: the next save tries again. */
static void sweep(const char *directory, uint32_t current) {
  const int fd = situ__sys.openat(AT_FDCWD, directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  DIR *list = fd >= 0 ? fdopendir(fd) : NULL;
  if (!list && fd >= 0) situ__sys.close(fd);
  uint32_t tag;
  for (struct dirent *entry; list && (entry = readdir(list));)
    if (read_tag(entry->d_name, &tag) && tag != current && is_old(fd, entry->d_name))
      situ__sys.unlinkat(fd, entry->d_name, 0);
  if (list) closedir(list);
}

/* ---- the manifest ---- */

const char *situ__set_sum(const char *op, const situ_safetensors *file, const char *path) {
  const char *sum = situ_safetensors_metadata(file, sums);
  if (sum && strlen(sum) >= SITU__SET_SUM) return sum;
  return situ__fail(SITU_E_FORMAT, op, "%s: has no checksums, so no sharded checkpoint has it", path), NULL;
}

/* Appends the checksum of a rank's file, which it reads as another program would. */
static bool add_sum(const char *op, const char *directory, situ__set_id id, int rank, situ__text *text) {
  char *path = situ__set_file(op, directory, id, rank);
  situ_safetensors *file = path ? situ_safetensors_open(path, NULL) : NULL;
  const char *sum = file ? situ__set_sum(op, file, path) : NULL;
  if (sum) situ__text_add(text, " %.8s", sum);
  situ_safetensors_close(file);
  situ__free(path);
  return sum != NULL;
}

/* Reads "1 2 12345678", then for each rank a space and 8 digits. Returns a copy of the latter; NULL if it is anything
   else. */
static char *parse_set(const char *value, situ__set_id *id) {
  int version, ranks, length = 0;
  unsigned tag;
  if (!value || sscanf(value, "%d %d %8x%n", &version, &ranks, &tag, &length) != 3 || version != VERSION) return NULL;
  const size_t each = SITU__SET_SUM + 1;
  if (ranks < 1 || ranks > SITU__COMM_RANKS || strlen(value + length) != (size_t)ranks * each) return NULL;
  char *list = situ__alloc((size_t)ranks * SITU__SET_SUM + 1);
  for (int r = 0; list && r < ranks; r++)
    memcpy(list + r * SITU__SET_SUM, value + length + (size_t)r * each + 1, SITU__SET_SUM);
  if (list) list[ranks * SITU__SET_SUM] = '\0';
  *id = (situ__set_id){ tag, ranks };
  return list;
}

char *situ__set_read_manifest(const char *op, const char *directory, situ__set_id *id) {
  char *path = path_in(op, directory, manifest), *list = NULL;
  situ_safetensors *file = path ? situ_safetensors_open(path, NULL) : NULL;
  if (file && situ__set_sum(op, file, path) && !(list = parse_set(situ_safetensors_metadata(file, key), id)))
    situ__fail(SITU_E_FORMAT, op, "%s: is not the manifest of a sharded checkpoint", path);
  situ_safetensors_close(file);
  situ__free(path);
  return list;
}

/* The caller's metadata, and what names the set. NULL after recording an error. */
static situ_metadata *list_metadata(const char *op, const situ_save_options *options, const char *value) {
  const size_t count = options->metadata ? (size_t)situ__max_i64(options->metadata_count, 0) : 0;
  situ_metadata *list = situ__calloc(count + 1, sizeof *list);
  if (!list) return situ__no_memory(op, (count + 1) * sizeof *list), NULL;
  if (count) memcpy(list, options->metadata, count * sizeof *list);
  list[count] = (situ_metadata){ key, value };
  return list;
}

static situ_status write_manifest(const char *op, const char *directory, const char *value,
                                  const situ_save_options *options) {
  situ_save_options own = *options;
  situ_metadata *metadata = list_metadata(op, options, value);
  char *path = metadata ? path_in(op, directory, manifest) : NULL;
  situ_tree *empty = path ? situ_tree_dict() : NULL;
  own.metadata = metadata;
  own.metadata_count = situ__max_i64(options->metadata ? options->metadata_count : 0, 0) + 1;
  const situ_status status = empty ? situ_save(path, empty, &own) : situ_error();
  situ_tree_free(empty);
  situ__free(path);
  situ__free(metadata);
  return status;
}

situ_status situ__set_commit(const char *op, const char *directory, situ__set_id id, const situ_save_options *options) {
  situ__text value = { 0 };
  situ__errors own;
  situ__set_id old;
  situ_replaced replaced = SITU_NOT_REPLACED;
  situ__text_add(&value, "%d %d %08x", VERSION, (int)id.ranks, (unsigned)id.tag);
  bool good = true;
  for (int r = 0; good && r < id.ranks; r++) good = add_sum(op, directory, id, r, &value);
  if (good && value.failed) good = (situ__no_memory(op, value.length), false);
  situ__errors_aside(&own);
  char *had_old = situ__set_read_manifest(op, directory, &old);
  SITU_IGNORE(situ__errors_back(&own, NULL, 0));
  situ_save_options given = *options;
  given.replaced = &replaced;
  const situ_status status = good ? write_manifest(op, directory, value.data, &given) : situ_error();
  situ__text_free(&value);
  /* After SITU_REPLACED_NOT_DURABLE a power cut may bring the old manifest back: keep both sets. */
  if (replaced == SITU_REPLACED) {
    for (int r = 0; had_old && old.tag != id.tag && r < old.ranks; r++) situ__set_remove(op, directory, old, r);
    sweep(directory, id.tag);
  }
  situ__free(had_old);
  if (options->replaced) *options->replaced = replaced;
  return status;
}
