/* Files that lie in memory, so that the fuzz targets run the readers from open to close.
   SPDX-License-Identifier: MIT */
#ifndef SITU_TESTS_FUZZ_MEMORY_FILE_H
#define SITU_TESTS_FUZZ_MEMORY_FILE_H

#include <errno.h>
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
