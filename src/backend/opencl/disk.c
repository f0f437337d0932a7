/* Compiled programs on disk, in $XDG_CACHE_HOME/situ/opencl or ~/.cache/situ/opencl. A file appears whole or not at all,
   and what does not fit its checksum is not used: processes may share the directory, and losing it costs time only.
   SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/opencl/opencl.h"

enum { PATH = 4096, MOST = 64 << 20 };

typedef struct header {
  char magic[8];
  uint64_t bytes, sum;
} header;
static const char magic[8] = "situ-cl1";

static uint64_t checksum(const unsigned char *data, size_t bytes) {
  uint64_t sum = 0xcbf29ce484222325u;
  for (size_t i = 0; i < bytes; i++) sum = (sum ^ data[i]) * 0x100000001b3u;
  return sum;
}

/* The file of a key; false: there is no place for it. */
static bool path_of(const char *key, char path[PATH]) {
  const char *cache = secure_getenv("XDG_CACHE_HOME"), *home = secure_getenv("HOME");
  int length;
  if (cache && *cache == '/')
    length = snprintf(path, PATH, "%s/situ/opencl/%s", cache, key);
  else if (home && *home == '/')
    length = snprintf(path, PATH, "%s/.cache/situ/opencl/%s", home, key);
  else
    return false;
  return length > 0 && length < PATH - 32;
}

/* Every directory above the file. */
static void make_directories(char *path) {
  for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
    *slash = 0;
    (void)mkdir(path, 0700);
    *slash = '/';
  }
}

static bool transfer(ssize_t (*move)(int, void *, size_t), int file, void *data, size_t bytes) {
  for (char *at = data; bytes;) {
    ssize_t done = move(file, at, bytes);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return false;
    at += done;
    bytes -= (size_t)done;
  }
  return true;
}

static ssize_t put(int file, void *data, size_t bytes) { return write(file, data, bytes); }

unsigned char *situ__cl_disk_read(const char *key, size_t *bytes) {
  char path[PATH];
  int file = path_of(key, path) ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (file < 0) return NULL;
  header h;
  unsigned char *data = NULL;
  bool good = transfer(read, file, &h, sizeof h) && memcmp(h.magic, magic, sizeof magic) == 0 &&
              h.bytes <= MOST;
  if (good) data = situ__host->alloc((size_t)h.bytes);
  good = data && transfer(read, file, data, (size_t)h.bytes) &&
         checksum(data, (size_t)h.bytes) == h.sum;
  (void)close(file);
  if (good) {
    *bytes = (size_t)h.bytes;
    return data;
  }
  situ__host->free(data);
  return NULL;
}

void situ__cl_disk_write(const char *key, const unsigned char *binary, size_t bytes) {
  char path[PATH], own[PATH + 32];
  if (bytes > MOST || !path_of(key, path)) return;
  make_directories(path);
  (void)snprintf(own, sizeof own, "%s.%ld", path, (long)getpid());
  int file = open(own, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file < 0) return;
  header h = { .bytes = bytes, .sum = checksum(binary, bytes) };
  memcpy(h.magic, magic, sizeof magic);
  bool good =
      transfer(put, file, &h, sizeof h) && transfer(put, file, (void *)(uintptr_t)binary, bytes);
  good = close(file) == 0 && good;
  if (!good || rename(own, path) != 0) (void)unlink(own);
}
