/* Replaces a file atomically.
   SPDX-License-Identifier: MIT */
#include "base/replace.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/file.h"

/* Maximum bytes per write call: Linux cuts at 2 GiB less a page, other systems fail. */
#define WRITE_MOST ((size_t)1 << 30)

static situ_status record_failure(situ__replace *r, const char *what) {
  if (r->status != SITU_OK) return r->status;
  return r->status = situ__fail(SITU_E_IO, r->op, "%s: %s: %s", r->path, what, strerror(errno));
}

/* Opens the directory of path. */
static situ_status open_directory(situ__replace *r) {
  size_t length = (size_t)(r->name - r->path);
  char *directory = situ__alloc(length + 2);
  if (!directory) return r->status = situ__no_memory(r->op, length + 2);
  memcpy(directory, length ? r->path : ".", length ? length : 1);
  directory[length ? length : 1] = '\0';
  do r->dir = situ__sys.openat(AT_FDCWD, directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  while (r->dir < 0 && errno == EINTR);
  situ__free(directory);
  return r->dir < 0 ? record_failure(r, "its directory cannot be opened") : SITU_OK;
}

/* O_EXCL and O_NOFOLLOW, with a unique name: other writers of the directory cannot plant a file or link under it. */
static situ_status open_new(situ__replace *r, mode_t mode) {
  static atomic_uint counter;
  for (int attempt = 0; attempt < 100; attempt++) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    unsigned unique = atomic_fetch_add(&counter, 1) * 2654435761u ^ (unsigned)now.tv_nsec;
    snprintf(r->temp, sizeof r->temp, ".%.*s.tmp.%ld.%08x", SITU__KEPT_NAME, r->name, (long)getpid(), unique);
    r->fd = situ__sys.openat(r->dir, r->temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
    if (r->fd >= 0) return SITU_OK;
    if (errno != EEXIST && errno != EINTR) break;
  }
  r->temp[0] = '\0';
  return record_failure(r, "no new file can be made beside it");
}

/* Keeps the target's permissions, and its owner where allowed: a model that a group can read must not become private
   when it is saved again. */
static situ_status keep_mode(situ__replace *r, const struct stat *old) {
  struct stat now;
  if (situ__sys.fstat(r->fd, &now) != 0) return record_failure(r, "the new file's attributes cannot be read");
  if (now.st_uid != old->st_uid || now.st_gid != old->st_gid)
    SITU_IGNORE(situ__sys.fchown(r->fd, old->st_uid, old->st_gid)); /* mostly only root may */
  if (situ__sys.fchmod(r->fd, old->st_mode & 07777) != 0) return record_failure(r, "its permissions cannot be kept");
  return SITU_OK;
}

static situ_status reserve_bytes(situ__replace *r, int64_t bytes) {
  if (bytes <= 0) return SITU_OK;
  int error;
  do error = situ__sys.allocate(r->fd, 0, (off_t)bytes);
  while (error == EINTR);
  /* The file system cannot reserve space: the writes report a full disk. */
  if (error == 0 || error == EINVAL || error == EOPNOTSUPP || error == ENOSYS) return SITU_OK;
  errno = error;
  return record_failure(r, "no space for the new file");
}

situ_status situ__replace_begin(situ__replace *r, const char *op, const char *path, int64_t bytes, bool sync) {
  *r = (situ__replace){ .op = op, .path = path, .dir = -1, .fd = -1, .sync = sync };
  const char *slash = strrchr(path, '/');
  r->name = slash ? slash + 1 : path;
  if (!*r->name) return r->status = situ__fail(SITU_E_ARG, op, "'%s' does not name a file", path);
  if (open_directory(r) != SITU_OK) return r->status;

  struct stat old;
  bool exists = situ__sys.fstatat(r->dir, r->name, &old, AT_SYMLINK_NOFOLLOW) == 0;
  if (!exists && errno != ENOENT) {
    record_failure(r, "its attributes cannot be read");
  } else if (exists && !S_ISREG(old.st_mode)) {
    r->status = situ__fail(SITU_E_ARG, op, "%s: is %s: only a file can be replaced", path,
                           S_ISLNK(old.st_mode) ? "a symbolic link" : "not a regular file");
  } else {
    situ__replace_sweep(r->dir, r->name);
    /* While the file is being written, only those may read it who may read the old one. */
    if (open_new(r, exists ? 0600 : 0666) == SITU_OK && (!exists || keep_mode(r, &old) == SITU_OK))
      if (sync) reserve_bytes(r, bytes);
  }
  if (r->status != SITU_OK) situ__replace_abandon(r);
  return r->status;
}

situ_status situ__replace_rewrite(situ__replace *r, const void *data, size_t bytes, int64_t offset) {
  const char *from = data;
  while (r->status == SITU_OK && bytes > 0) {
    ssize_t done = situ__sys.pwrite(r->fd, from, bytes < WRITE_MOST ? bytes : WRITE_MOST, (off_t)offset);
    if (done < 0 && errno == EINTR) continue;
    if (done == 0) errno = ENOSPC; /* POSIX does not say what a write of 0 bytes means */
    if (done <= 0) return record_failure(r, "cannot be written");
    from += done;
    bytes -= (size_t)done;
    offset += done;
  }
  return r->status;
}

situ_status situ__replace_write(situ__replace *r, const void *data, size_t bytes) {
  if (situ__replace_rewrite(r, data, bytes, r->written) == SITU_OK) r->written += (int64_t)bytes;
  return r->status;
}

void situ__replace_abandon(situ__replace *r) {
  if (r->status == SITU_OK) r->status = SITU_E_STATE;
  if (r->fd >= 0) situ__sys.close(r->fd);
  if (r->dir >= 0) {
    if (r->temp[0]) situ__sys.unlinkat(r->dir, r->temp, 0);
    situ__sys.close(r->dir);
  }
  r->fd = r->dir = -1;
}

situ_status situ__replace_end(situ__replace *r, bool *replaced) {
  if (replaced) *replaced = false;
  if (r->status == SITU_OK) {
    /* Never retry a failed sync: the kernel has dropped the pages and marks them clean. */
    if (r->sync && situ__sys.fsync(r->fd) != 0) record_failure(r, "the disk did not take it");
    int fd = r->fd;
    r->fd = -1;
    /* close always frees the descriptor, and EINTR says nothing about the data. */
    if (situ__sys.close(fd) != 0 && errno != EINTR) record_failure(r, "cannot be closed");
    if (r->status == SITU_OK && situ__sys.renameat(r->dir, r->temp, r->dir, r->name) != 0)
      record_failure(r, "the new file cannot take its place");
  }
  if (r->status == SITU_OK) {
    r->temp[0] = '\0';
    if (replaced) *replaced = true;
    if (r->sync && situ__sys.fsync(r->dir) != 0) record_failure(r, "is replaced, but a power cut may undo it");
  }
  situ_status status = r->status;
  situ__replace_abandon(r);
  return status;
}

situ_status situ__replace_end_if(situ__replace *r, bool good, uint64_t errors, bool *replaced) {
  if (replaced) *replaced = false;
  if (good && situ__error_count() == errors) return situ__replace_end(r, replaced);
  situ__replace_abandon(r);
  return situ_error();
}

situ_status situ__replace_by_text(const char *op, const char *path, const situ__text *text) {
  situ__replace r;
  if (text->failed) return situ__no_memory(op, text->capacity);
  const situ_status status = situ__replace_begin(&r, op, path, (int64_t)text->length, true);
  if (status != SITU_OK) return status;
  situ__replace_write(&r, text->data, text->length);
  return situ__replace_end(&r, NULL);
}
