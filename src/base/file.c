/* Reads files and reports every failure.
   SPDX-License-Identifier: MIT */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fail.h"

/* Function pointers need wrappers here: openat is variadic in libc, and fstat was a macro in old versions. */
static int call_openat(int dir, const char *path, int flags, mode_t mode) { return openat(dir, path, flags, mode); }
static int call_fstat(int fd, struct stat *out) { return fstat(fd, out); }
static int call_fstatat(int dir, const char *path, struct stat *out, int flags) {
  return fstatat(dir, path, out, flags);
}

situ__calls situ__sys = {
  .openat = call_openat,
  .fstat = call_fstat,
  .fstatat = call_fstatat,
  .fchmod = fchmod,
  .fchown = fchown,
  .allocate = posix_fallocate,
  .pread = pread,
  .pwrite = pwrite,
  .fsync = fsync,
  .close = close,
  .renameat = renameat,
  .unlinkat = unlinkat,
  .mkdirat = mkdirat,
  .mmap = mmap,
  .munmap = munmap,
};

static const char *kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

int situ__file_open(const char *op, const char *path, int64_t *size) {
  bool missing;
  int fd = situ__file_open_if(op, path, size, &missing);
  if (missing) situ__fail(SITU_E_IO, op, "%s: cannot be opened: %s", path, strerror(ENOENT));
  return fd;
}

int situ__file_open_if(const char *op, const char *path, int64_t *size, bool *missing) {
  *missing = false;
  if (!path) return situ__null(op, "path"), -1;
  /* O_NONBLOCK: opening a FIFO without a writer must not wait. It has no effect on regular files. */
  int fd;
  do fd = situ__sys.openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0);
  while (fd < 0 && errno == EINTR);
  if (fd < 0) {
    *missing = errno == ENOENT;
    if (!*missing) situ__fail(SITU_E_IO, op, "%s: cannot be opened: %s", path, strerror(errno));
    return -1;
  }
  struct stat about;
  if (situ__sys.fstat(fd, &about) != 0) {
    situ__fail(SITU_E_IO, op, "%s: %s", path, strerror(errno));
  } else if (!S_ISREG(about.st_mode)) {
    situ__fail(SITU_E_IO, op, "%s: is %s, not a file", path, kind_of(about.st_mode));
  } else {
    *size = about.st_size;
    return fd;
  }
  situ__file_close(fd);
  return -1;
}

situ_status situ__file_read(const char *op, const char *path, int fd, void *data, size_t bytes, int64_t offset) {
  char *to = data;
  while (bytes > 0) {
    ssize_t got = situ__sys.pread(fd, to, bytes, offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return situ__fail(SITU_E_IO, op, "%s: cannot be read: %s", path, strerror(errno));
    if (got == 0) return situ__fail(SITU_E_IO, op, "%s: ends at byte %lld, while being read", path, (long long)offset);
    to += got;
    bytes -= (size_t)got;
    offset += got;
  }
  return SITU_OK;
}

/* Ignores errors of close: the file was only read. */
void situ__file_close(int fd) {
  if (fd >= 0) situ__sys.close(fd);
}

char *situ__file_load(const char *op, const char *path, int64_t limit, size_t *size) {
  int64_t bytes;
  int fd = situ__file_open(op, path, &bytes);
  if (fd < 0) return NULL;
  char *text = NULL;
  if (bytes > limit) {
    situ__fail(SITU_E_LIMIT, op, "%s: %lld bytes are more than the %lld that are read", path, (long long)bytes,
               (long long)limit);
  } else if (!(text = situ__alloc((size_t)bytes + 1))) {
    situ__no_memory(op, (size_t)bytes + 1);
  } else if (situ__file_read(op, path, fd, text, (size_t)bytes, 0) != SITU_OK) {
    situ__free(text);
    text = NULL;
  } else {
    text[bytes] = '\0';
    *size = (size_t)bytes;
  }
  situ__file_close(fd);
  return text;
}
