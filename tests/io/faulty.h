/* The system calls of readers and writers, one of which fails once.
   SPDX-License-Identifier: MIT */
#ifndef SITU_TESTS_IO_FAULTY_H
#define SITU_TESTS_IO_FAULTY_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

enum { OPENAT, FSTAT, FSTATAT, FCHMOD, FCHOWN, ALLOCATE, PREAD, PWRITE, FSYNC, CLOSE, RENAMEAT, UNLINKAT, MMAP, CALLS };
static const char *const call_names[CALLS] = { "openat",   "fstat",    "fstatat", "fchmod", "fchown",
                                               "allocate", "pread",    "pwrite",  "fsync",  "close",
                                               "renameat", "unlinkat", "mmap" };

/* A partial transfer instead of an error. */
enum { SHORT = -1 };

static situ__calls real;
static int count[CALLS];        /* calls so far */
static int fail_call, fail_nth; /* which to fail; nth 0: none */
static int fail_with;
static bool hit;

static bool fails(int call) {
  if (++count[call] != fail_nth || call != fail_call) return false;
  hit = true;
  if (fail_with > 0) errno = fail_with;
  return true;
}

static int bad_openat(int dir, const char *path, int flags, mode_t mode) {
  return fails(OPENAT) ? -1 : real.openat(dir, path, flags, mode);
}
static int bad_fstat(int fd, struct stat *out) { return fails(FSTAT) ? -1 : real.fstat(fd, out); }
static int bad_fstatat(int dir, const char *path, struct stat *out, int flags) {
  return fails(FSTATAT) ? -1 : real.fstatat(dir, path, out, flags);
}
static int bad_fchmod(int fd, mode_t mode) { return fails(FCHMOD) ? -1 : real.fchmod(fd, mode); }
static int bad_fchown(int fd, uid_t user, gid_t group) { return fails(FCHOWN) ? -1 : real.fchown(fd, user, group); }
static int bad_allocate(int fd, off_t at, off_t bytes) {
  return fails(ALLOCATE) ? fail_with : real.allocate(fd, at, bytes);
}
static ssize_t bad_pread(int fd, void *data, size_t bytes, off_t at) {
  if (!fails(PREAD)) return real.pread(fd, data, bytes, at);
  return fail_with == SHORT ? real.pread(fd, data, bytes / 2 + (bytes < 2), at) : -1;
}
static ssize_t bad_pwrite(int fd, const void *data, size_t bytes, off_t at) {
  if (!fails(PWRITE)) return real.pwrite(fd, data, bytes, at);
  return fail_with == SHORT ? real.pwrite(fd, data, bytes / 2 + (bytes < 2), at) : -1;
}
static int bad_fsync(int fd) { return fails(FSYNC) ? -1 : real.fsync(fd); }
/* The descriptor is gone even when close fails. */
static int bad_close(int fd) {
  bool fault = fails(CLOSE);
  int result = real.close(fd);
  if (fault) errno = fail_with;
  return fault ? -1 : result;
}
static int bad_renameat(int a, const char *from, int b, const char *to) {
  return fails(RENAMEAT) ? -1 : real.renameat(a, from, b, to);
}
static int bad_unlinkat(int dir, const char *path, int flags) {
  return fails(UNLINKAT) ? -1 : real.unlinkat(dir, path, flags);
}
static void *bad_mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t at) {
  return fails(MMAP) ? MAP_FAILED : real.mmap(address, bytes, protection, flags, fd, at);
}

static void arm(int call, int nth, int with) {
  memset(count, 0, sizeof count);
  fail_call = call;
  fail_nth = nth;
  fail_with = with;
  hit = false;
}

/* Real calls are in `real`. */
static void install(void) {
  situ__sys = (situ__calls){
    .openat = bad_openat,
    .fstat = bad_fstat,
    .fstatat = bad_fstatat,
    .fchmod = bad_fchmod,
    .fchown = bad_fchown,
    .allocate = bad_allocate,
    .pread = bad_pread,
    .pwrite = bad_pwrite,
    .fsync = bad_fsync,
    .close = bad_close,
    .renameat = bad_renameat,
    .unlinkat = bad_unlinkat,
    .mmap = bad_mmap,
    .munmap = real.munmap,
  };
}

static inline int open_files(void) {
  int found = 0;
  DIR *list = opendir("/proc/self/fd");
  while (readdir(list)) found++;
  closedir(list);
  return found;
}

#endif
