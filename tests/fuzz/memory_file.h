/* Files that lie in memory, so that the fuzz targets run the readers from open to close.
   SPDX-License-Identifier: MIT */
#ifndef SITU_TESTS_FUZZ_MEMORY_FILE_H
#define SITU_TESTS_FUZZ_MEMORY_FILE_H

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/file.h"

/* File 0 has a name that ends in "index.json"; any other name is file 1. */
enum { FIRST_FD = 1000 };
static const uint8_t *memory_file[2];
static size_t memory_size[2];

static int memory_openat(int dir, const char *path, int flags, mode_t mode) {
  (void)dir;
  (void)flags;
  (void)mode;
  size_t length = strlen(path), end = strlen("index.json");
  return FIRST_FD + !(length >= end && strcmp(path + length - end, "index.json") == 0);
}
static int memory_fstat(int fd, struct stat *out) {
  memset(out, 0, sizeof *out);
  out->st_mode = S_IFREG;
  out->st_size = (off_t)memory_size[fd - FIRST_FD];
  return 0;
}
static ssize_t memory_pread(int fd, void *data, size_t bytes, off_t at) {
  size_t size = memory_size[fd - FIRST_FD], left = (size_t)at < size ? size - (size_t)at : 0;
  if (bytes > left) bytes = left;
  if (bytes) memcpy(data, memory_file[fd - FIRST_FD] + at, bytes);
  return (ssize_t)bytes;
}
static int memory_close(int fd) { return fd < FIRST_FD; }
/* A block of exactly the file's size, so that a sanitizer sees the first byte read too far. */
static void *memory_mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t at) {
  (void)address;
  (void)protection;
  (void)flags;
  void *block = NULL;
  if (posix_memalign(&block, 4096, bytes) != 0) return MAP_FAILED;
  memory_pread(fd, block, bytes, at);
  return block;
}
static int memory_munmap(void *address, size_t bytes) {
  (void)bytes;
  free(address);
  return 0;
}

/* What is written: it grows, and stays until the next file is opened to be written. */
static uint8_t *memory_written;
static size_t memory_written_size;

static int memory_open_written(int dir, const char *path, int flags, mode_t mode) {
  if (flags & O_CREAT) memory_written_size = 0;
  return memory_openat(dir, path, flags, mode);
}
static ssize_t memory_pwrite(int fd, const void *data, size_t bytes, off_t at) {
  (void)fd;
  if ((size_t)at + bytes > memory_written_size) {
    uint8_t *grown = realloc(memory_written, (size_t)at + bytes);
    if (!grown) return -1;
    memory_written = grown;
    memory_written_size = (size_t)at + bytes;
  }
  memcpy(memory_written + at, data, bytes);
  return (ssize_t)bytes;
}
static int memory_fstatat(int dir, const char *path, struct stat *out, int flags) {
  (void)dir;
  (void)path;
  (void)out;
  (void)flags;
  errno = ENOENT;
  return -1;
}
static int memory_allocate(int fd, off_t offset, off_t length) { return (void)fd, (void)offset, (void)length, 0; }
static int memory_fsync(int fd) { return (void)fd, 0; }
static int memory_renameat(int from_dir, const char *from, int to_dir, const char *to) {
  return (void)from_dir, (void)from, (void)to_dir, (void)to, 0;
}
static int memory_unlinkat(int dir, const char *path, int flags) { return (void)dir, (void)path, (void)flags, 0; }

/* Writers write to memory, too. */
static inline void memory_writes(void) {
  situ__sys.openat = memory_open_written;
  situ__sys.pwrite = memory_pwrite;
  situ__sys.fstatat = memory_fstatat;
  situ__sys.allocate = memory_allocate;
  situ__sys.fsync = memory_fsync;
  situ__sys.renameat = memory_renameat;
  situ__sys.unlinkat = memory_unlinkat;
}

static void memory_files(const uint8_t *index, size_t index_size, const uint8_t *data, size_t size) {
  memory_file[0] = index;
  memory_size[0] = index_size;
  memory_file[1] = data;
  memory_size[1] = size;
  situ__sys.openat = memory_openat;
  situ__sys.fstat = memory_fstat;
  situ__sys.pread = memory_pread;
  situ__sys.close = memory_close;
  situ__sys.mmap = memory_mmap;
  situ__sys.munmap = memory_munmap;
}

#endif
