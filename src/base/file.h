/* Files: a table of the system calls that readers and writers use, and reading that reports every failure.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BASE_FILE_H
#define SITU_BASE_FILE_H

#include <sys/stat.h>
#include <sys/types.h>

#include "situ/error.h"

/* Called through pointers so that a test can make each call fail once, and can record the order of writes. Only tests
   change it. */
typedef struct situ__calls {
  int (*openat)(int dir, const char *path, int flags, mode_t mode);
  int (*fstat)(int fd, struct stat *out);
  int (*fstatat)(int dir, const char *path, struct stat *out, int flags);
  int (*fchmod)(int fd, mode_t mode);
  int (*fchown)(int fd, uid_t user, gid_t group);
  int (*allocate)(int fd, off_t offset, off_t length); /* posix_fallocate: returns the error number */
  ssize_t (*pread)(int fd, void *data, size_t bytes, off_t offset);
  ssize_t (*pwrite)(int fd, const void *data, size_t bytes, off_t offset);
  int (*fsync)(int fd);
  int (*close)(int fd);
  int (*renameat)(int from_dir, const char *from, int to_dir, const char *to);
  int (*unlinkat)(int dir, const char *path, int flags);
  int (*mkdirat)(int dir, const char *path, mode_t mode);
  void *(*mmap)(void *address, size_t bytes, int protection, int flags, int fd, off_t offset);
  int (*munmap)(void *address, size_t bytes);
} situ__calls;
extern situ__calls situ__sys;

/* All functions below that fail record the error with op and path. */

/* Opens a regular file for reading; other files (FIFO, /dev/zero) are errors, because they may block or never end.
   Returns the descriptor, or -1. */
int situ__file_open(const char *op, const char *path, int64_t *size);
/* The same, but a missing file sets *missing and is not an error. */
int situ__file_open_if(const char *op, const char *path, int64_t *size, bool *missing);
/* Reads exactly `bytes` bytes; SITU_E_IO if the file ends before. */
situ_status situ__file_read(const char *op, const char *path, int fd, void *data, size_t bytes, int64_t offset);
void situ__file_close(int fd);
/* Returns the whole file in a block that the caller frees (situ__free), ended by a NUL; NULL on error. */
char *situ__file_load(const char *op, const char *path, int64_t limit, size_t *size);

#endif
