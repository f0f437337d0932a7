/* Files: the system calls of readers and writers in one table, and reading with failures reported.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BASE_FILE_H
#define SITU_BASE_FILE_H

#include <sys/stat.h>
#include <sys/types.h>

#include "situ/error.h"

/* Reached through pointers so that a test can make each call fail once, and can record what reaches
   the disk in which order. Nothing but tests writes to it. */
typedef struct situ__calls {
  int (*openat)(int dir, const char *path, int flags, mode_t mode);
  int (*fstat)(int fd, struct stat *out);
  int (*fstatat)(int dir, const char *path, struct stat *out, int flags);
  int (*fchmod)(int fd, mode_t mode);
  int (*fchown)(int fd, uid_t user, gid_t group);
  int (*allocate)(int fd, off_t offset, off_t length); /* posix_fallocate: returns the error */
  ssize_t (*pread)(int fd, void *data, size_t bytes, off_t offset);
  ssize_t (*pwrite)(int fd, const void *data, size_t bytes, off_t offset);
  int (*fsync)(int fd);
  int (*close)(int fd);
  int (*renameat)(int from_dir, const char *from, int to_dir, const char *to);
  int (*unlinkat)(int dir, const char *path, int flags);
  void *(*mmap)(void *address, size_t bytes, int protection, int flags, int fd, off_t offset);
  int (*munmap)(void *address, size_t bytes);
} situ__calls;
extern situ__calls situ__sys;

/* All of these record what went wrong, under op and with the path. */

/* Opens an ordinary file for reading; never waits (FIFO) and never reads without end (/dev/zero):
   those are refused. Returns the descriptor, or -1. */
int situ__file_open(const char *op, const char *path, int64_t *size);
/* The same; a file that is not there is *missing, and no error. */
int situ__file_open_if(const char *op, const char *path, int64_t *size, bool *missing);
/* Exactly `bytes` bytes; a file that ends before is SITU_E_IO. */
situ_status situ__file_read(const char *op, const char *path, int fd, void *data, size_t bytes, int64_t offset);
void situ__file_close(int fd);
/* The whole file in a block of its own (situ__free), with a NUL behind; NULL on error. */
char *situ__file_load(const char *op, const char *path, int64_t limit, size_t *size);

#endif
