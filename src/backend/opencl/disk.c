/* Compiled programs on disk, in $XDG_CACHE_HOME/situ/opencl or ~/.cache/situ/opencl. Files are written atomically, and
   a file whose checksum is wrong is not used: processes may share the directory, and losing it costs time only. If the
   files exceed $SITU_OPENCL_CACHE_MIB (256), the least recently used are removed.
   SPDX-License-Identifier: MIT */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "backend/opencl/opencl.h"
#include "base/hash.h"

enum { PATH = 4096, KEY = 32, MOST = 64 << 20, BOUND_MIB = 256, ABANDONED = 3600 };

typedef struct header {
  char magic[8];
  uint64_t bytes, sum;
} header;
static const char magic[8] = "situ-cl1";

/* Programs are passed to the driver unchecked: the directory must belong to this user and not be writable by others. A
   missing one is created so. */
static bool is_own(char *path) {
  struct stat about;
  char *slash = strrchr(path, '/');
  *slash = 0;
  const bool there = stat(path, &about) == 0;
  *slash = '/';
  return !there || (about.st_uid == geteuid() && S_ISDIR(about.st_mode) && !(about.st_mode & (S_IWGRP | S_IWOTH)));
}

/* Path of a key's file (key "": the directory, ending in /). Returns false if the environment has no suitable
   directory. */
static bool path_of(const char *key, char path[PATH]) {
  const char *cache = secure_getenv("XDG_CACHE_HOME"), *home = secure_getenv("HOME");
  int length;
  if (cache && *cache == '/') length = snprintf(path, PATH, "%s/situ/opencl/%s", cache, key);
  else if (home && *home == '/') length = snprintf(path, PATH, "%s/.cache/situ/opencl/%s", home, key);
  else return false;
  return length > 0 && length < PATH - KEY && is_own(path);
}

/* Creates every directory above the file. */
static void make_directories(char *path) {
  for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
    *slash = 0;
    (void)mkdir(path, 0700);
    *slash = '/';
  }
}

/* ---- locks ---------------------------------------------------------------------------------- */

/* One byte of a file for each key. An open file description lock, so that two devices of one process exclude each
   other, too. */
static struct flock byte_of(const char *key, short kind) {
  const uint64_t place = situ__hash_text(key) >> 2;
  return (struct flock){ .l_type = kind, .l_whence = SEEK_SET, .l_start = (off_t)place, .l_len = 1 };
}

int situ__cl_disk_lock(const char *key) {
  enum { PATIENCE = 20000, PAUSE = 5 }; /* in ms: gives up, as the holder may have been stopped */
  char path[PATH];
  if (!path_of("lock", path)) return -1;
  make_directories(path);
  int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  for (int waited = 0; file >= 0 && waited < PATIENCE; waited += PAUSE) {
    struct flock lock = byte_of(key, F_WRLCK);
    if (fcntl(file, F_OFD_SETLK, &lock) == 0 || (errno != EAGAIN && errno != EACCES)) break;
    (void)nanosleep(&(struct timespec){ .tv_nsec = PAUSE * 1000000 }, NULL);
  }
  return file;
}

/* Closing is not enough, as a forked child may have the file open. */
void situ__cl_disk_unlock(int lock, const char *key) {
  struct flock open_again = byte_of(key, F_UNLCK);
  if (lock < 0) return;
  (void)fcntl(lock, F_OFD_SETLK, &open_again);
  (void)close(lock);
}

/* ---- reading and writing -------------------------------------------------------------------- */

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

static ssize_t write_bytes(int file, void *data, size_t bytes) { return write(file, data, bytes); }

unsigned char *situ__cl_disk_read(const char *key, size_t *bytes) {
  char path[PATH];
  int file = path_of(key, path) ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (file < 0) return NULL;
  header h;
  unsigned char *data = NULL;
  bool good = transfer(read, file, &h, sizeof h) && memcmp(h.magic, magic, sizeof magic) == 0 && h.bytes <= MOST;
  if (good) data = situ__host->alloc((size_t)h.bytes);
  good = data && transfer(read, file, data, (size_t)h.bytes) && situ__hash(SITU__HASH, data, (size_t)h.bytes) == h.sum;
  if (good) (void)futimens(file, NULL); /* marks it as used */
  (void)close(file);
  if (good) {
    *bytes = (size_t)h.bytes;
    return data;
  }
  situ__host->free(data);
  return NULL;
}

/* ---- the size limit ------------------------------------------------------------------------- */

typedef struct kept {
  char name[KEY + 1];
  time_t used;
  uint64_t bytes;
} kept;

static uint64_t bound(void) {
  const char *text = secure_getenv("SITU_OPENCL_CACHE_MIB");
  char *end = NULL;
  unsigned long mib = text ? strtoul(text, &end, 10) : 0;
  if (!text || end == text || *end || mib > UINT32_MAX) mib = BOUND_MIB;
  return (uint64_t)mib << 20;
}

static int by_use(const void *a, const void *b) {
  const kept *x = a, *y = b;
  return (x->used > y->used) - (x->used < y->used);
}

/* Lists programs in the directory, up to `capacity`. Removes partly written files of processes that died. Other files
   are not touched. */
static size_t list(DIR *directory, kept *to, size_t capacity) {
  const time_t now = time(NULL);
  size_t count = 0;
  for (struct dirent *entry; count < capacity && (entry = readdir(directory));) {
    struct stat about;
    if (strspn(entry->d_name, "0123456789abcdef") != KEY ||
        fstatat(dirfd(directory), entry->d_name, &about, AT_SYMLINK_NOFOLLOW) != 0)
      continue;
    if (entry->d_name[KEY] == '.' && about.st_mtime < now - ABANDONED)
      (void)unlinkat(dirfd(directory), entry->d_name, 0);
    if (entry->d_name[KEY]) continue;
    to[count] = (kept){ .used = about.st_mtime, .bytes = (uint64_t)about.st_size };
    memcpy(to[count++].name, entry->d_name, KEY);
  }
  return count;
}

/* Removes the least recently used until an eighth of the limit is free. If several processes do this at once, more is
   removed than necessary. */
static void make_space(uint64_t most) {
  enum { MAX_ENTRIES = 1 << 16 };
  char path[PATH];
  DIR *directory = path_of("", path) ? opendir(path) : NULL;
  kept *all = directory ? situ__host->alloc(MAX_ENTRIES * sizeof *all) : NULL;
  size_t count = all ? list(directory, all, MAX_ENTRIES) : 0;
  uint64_t total = 0;
  for (size_t k = 0; k < count; k++) total += all[k].bytes;
  if (total > most) {
    qsort(all, count, sizeof *all, by_use);
    for (size_t k = 0; k < count && total > most - most / 8; k++) {
      (void)unlinkat(dirfd(directory), all[k].name, 0);
      total -= all[k].bytes;
    }
  }
  situ__host->free(all);
  if (directory) (void)closedir(directory);
}

void situ__cl_disk_write(const char *key, const unsigned char *binary, size_t bytes) {
  char path[PATH], own[PATH + 32];
  const uint64_t most = bound();
  if (bytes > MOST || bytes > most || !path_of(key, path)) return;
  make_directories(path);
  (void)snprintf(own, sizeof own, "%s.%ld", path, (long)getpid());
  int file = open(own, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file < 0) return;
  header h = { .bytes = bytes, .sum = situ__hash(SITU__HASH, binary, bytes) };
  memcpy(h.magic, magic, sizeof magic);
  bool good =
      transfer(write_bytes, file, &h, sizeof h) && transfer(write_bytes, file, (void *)(uintptr_t)binary, bytes);
  good = close(file) == 0 && good;
  if (!good || rename(own, path) != 0) {
    (void)unlink(own);
    return;
  }
  /* Listing all files is slow, so it is done at first, and then after every sixteenth of the limit is written. */
  static uint64_t since;
  const uint64_t before = __atomic_fetch_add(&since, bytes, __ATOMIC_RELAXED);
  if (before == 0 || before / (most / 16 + 1) != (before + bytes) / (most / 16 + 1)) make_space(most);
}

void situ__cl_disk_remove(const char *key) {
  char path[PATH];
  if (path_of(key, path)) (void)unlink(path);
}

/* ---- lists ---------------------------------------------------------------------------------- */

static bool path_of_list(uint64_t name, char path[PATH]) {
  char key[KEY + 1];
  (void)snprintf(key, sizeof key, "tried-%016llx", (unsigned long long)name);
  return name && path_of(key, path);
}

size_t situ__cl_disk_read_list(uint64_t name, uint64_t *to, size_t most) {
  char path[PATH];
  int file = path_of_list(name, path) ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (file < 0) return 0;
  size_t bytes = 0;
  for (ssize_t more = 1; more > 0 && bytes < most * sizeof *to; bytes += (size_t)more) {
    more = read(file, (char *)to + bytes, most * sizeof *to - bytes);
    if (more < 0) more = 0;
  }
  (void)close(file);
  return bytes / sizeof *to;
}

/* So small a write is atomic, and is appended after concurrent writes. */
void situ__cl_disk_append(uint64_t name, uint64_t number) {
  char path[PATH];
  if (!path_of_list(name, path)) return;
  make_directories(path);
  int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file < 0) return;
  (void)!write(file, &number, sizeof number);
  (void)close(file);
}
