/* Memory of tensors in a scratch file. The file grows by regions, which the disk has reserved before they are mapped: a
   full disk is the error of a call, and no signal later. Storages are pieces of a region, one after the other; an empty
   region is used again.
   SPDX-License-Identifier: MIT */
#include "tensor/backing.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/file.h"
#include "base/mutex.h"
#include "base/text.h"
#include "device/dry.h"
#include "device/launch/launch.h"
#include "situ/sys/plain.h"
#include "situ/sys/tensor.h"

enum { LEAST = 1 << 20, ALIGNED = 64 }; /* bytes of a region, of a piece */

typedef struct region {
  struct region *next;
  situ__backing *file;
  char *address;
  size_t bytes, used;
  int64_t pieces;
} region;

struct situ__backing {
  situ__mutex lock;
  int64_t owners; /* its maker, and each piece */
  int fd;
  off_t size;
  region *first;
  char path[];
};

static SITU_COLD situ_status refuse(const char *op, const char *path, const char *what, int error) {
  return situ__fail(SITU_E_IO, op, "%s: %s: %s", path, what, strerror(error));
}

situ__backing *situ__backing_new(const char *op, const char *path, bool keep) {
  const size_t length = strlen(path) + 1;
  situ__backing *file = situ__alloc(sizeof *file + length);
  if (!file) return situ__no_memory(op, sizeof *file + length), NULL;
  *file = (situ__backing){ .lock = SITU__MUTEX_INIT, .owners = 1 };
  memcpy(file->path, path, length);
  do file->fd = situ__sys.openat(AT_FDCWD, path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  while (file->fd < 0 && errno == EINTR);
  if (file->fd >= 0 && (keep || situ__sys.unlinkat(AT_FDCWD, path, 0) == 0)) return file;
  (void)refuse(op, path, "no new file can be made here", errno);
  if (file->fd >= 0) situ__file_close(file->fd);
  situ__free(file);
  return NULL;
}

static void end(situ__backing *file) {
  for (region *r = file->first, *next; r; r = next) {
    next = r->next;
    situ__sys.munmap(r->address, r->bytes);
    situ__free(r);
  }
  situ__file_close(file->fd);
  situ__mutex_destroy(&file->lock);
  situ__free(file);
}

static void drop(situ__backing *file, region *of) {
  situ__mutex_lock(&file->lock);
  if (of && !--of->pieces) of->used = 0;
  const bool last = !--file->owners;
  situ__mutex_unlock(&file->lock);
  if (last) end(file);
}

static void release_piece(void *payload) { drop(((region *)payload)->file, payload); }

void situ__backing_release(situ__backing *file, bool remove) {
  if (remove) SITU_IGNORE(situ__sys.unlinkat(AT_FDCWD, file->path, 0));
  drop(file, NULL);
}

static region *add_region(const char *op, situ__backing *file, size_t bytes) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  char text[SITU__BYTES_TEXT];
  region *r = situ__alloc(sizeof *r);
  if (!r) return situ__no_memory(op, sizeof *r), NULL;
  *r = (region){ .file = file, .bytes = ((bytes > LEAST ? bytes : LEAST) + page - 1) / page * page };
  int error;
  do error = situ__sys.allocate(file->fd, file->size, (off_t)r->bytes);
  while (error == EINTR);
  void *address =
      error ? MAP_FAILED : situ__sys.mmap(NULL, r->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file->fd, file->size);
  if (address == MAP_FAILED) {
    situ__fail(SITU_E_IO, op, "%s: %s for %s more, behind %lld bytes: %s", file->path,
               error ? "no space" : "cannot be mapped", situ__bytes_text(r->bytes, text), (long long)file->size,
               strerror(error ? error : errno));
    situ__free(r);
    return NULL;
  }
  r->address = address;
  r->next = file->first;
  file->first = r;
  file->size += (off_t)r->bytes;
  return r;
}

/* Not a large region that is empty for a small piece: the large one may come again. */
static region *find_region(const situ__backing *file, size_t bytes) {
  for (region *r = file->first; r; r = r->next)
    if (bytes <= r->bytes - r->used && (r->used || r->bytes == LEAST || bytes > r->bytes / 2)) return r;
  return NULL;
}

situ_storage *situ__backing_storage(const char *op, situ__backing *file, size_t bytes) {
  const size_t most = SIZE_MAX / 4, whole = (bytes + ALIGNED - 1) / ALIGNED * ALIGNED;
  if (bytes > most) return situ__no_memory(op, bytes), NULL;
  situ__mutex_lock(&file->lock);
  region *r = find_region(file, whole);
  if (!r) r = add_region(op, file, whole);
  void *data = r ? r->address + r->used : NULL;
  if (r) r->used += whole, r->pieces++, file->owners++;
  situ__mutex_unlock(&file->lock);
  situ_storage *s = r ? situ__storage_foreign(op, (situ_device){ SITU_CPU, 0 }, data, bytes, release_piece, r) : NULL;
  if (s) s->flags |= SITU_STORAGE_MAPPED | SITU_STORAGE_UNWRITTEN;
  return s;
}

bool situ__is_piece(const situ_storage *s) { return __atomic_load_n(&s->release, __ATOMIC_RELAXED) == release_piece; }

situ__backing *situ__backing_of(const situ_storage *s) {
  return situ__is_piece(s) ? ((region *)s->payload)->file : NULL;
}

bool situ_is_in_scratch(const situ_tensor *t) {
  return t && situ__need("is_in_scratch", "input", t) && situ__backing_of(t->view.storage);
}

situ_tensor *situ_beside(situ_tensor *t, const situ_tensor *leader) {
  static const char op[] = "beside";
  if (!situ__need(op, "tensor", t) || !situ__need(op, "leader", leader)) return NULL;
  const situ_storage *s = t->view.storage;
  situ__backing *file = situ__backing_of(leader->view.storage);
  if (!file || s->device.kind != SITU_CPU || situ__is_void(s) || situ__backing_of(s) == file) return t;
  situ_view_desc v = t->view;
  if (situ__settle(op, t->view.storage) != SITU_OK) return NULL;
  v.storage = situ__backing_storage(op, file, s->bytes);
  if (!v.storage) return NULL;
  memcpy(v.storage->data, s->data, s->bytes);
  situ__storage_wrote(v.storage);
  return situ__foreign_tensor(op, &v, NULL);
}
