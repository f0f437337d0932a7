/* Power cuts: all states in which a save can leave a disk, and protocols known to be wrong.
   SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "situ/io.h"
#include "situ/ops.h"

/* The model: what a file holds is on the disk once it was synced; until then each write may be
   there, be missing, have been cut in half, or have given the file its length but zeros for
   contents. What a directory holds is on the disk once it was synced; until then any first part of
   the changes may be there (journals keep their order). */

enum { SIZE = 4096, MOST = 64 };

typedef struct contents {
  size_t size;
  unsigned char bytes[SIZE];
} contents;

typedef enum kind { CREATE, TRUNCATE, WRITE, RESERVE, SYNC, RENAME, SYNC_DIRECTORY } kind;

typedef struct change {
  kind kind;
  int file; /* 0: the old target; 1: the new file */
  size_t at, count;
  unsigned char data[SIZE];
} change;

static change log_[MOST];
static int logged;

static change *record(kind what, int file) {
  assert_true(logged < MOST);
  change *c = &log_[logged++];
  *c = (change){ .kind = what, .file = file };
  return c;
}

/* ---- recording a save ------------------------------------------------------------------------ */

static situ__calls real;
static int new_fd = -1;
static bool skip_file_sync, skip_directory_sync;

static int see_openat(int dir, const char *path, int flags, mode_t mode) {
  int fd = real.openat(dir, path, flags, mode);
  if (fd >= 0 && (flags & O_CREAT)) {
    record(CREATE, 1);
    new_fd = fd;
  }
  return fd;
}
static int see_allocate(int fd, off_t at, off_t bytes) {
  record(RESERVE, 1)->count = (size_t)(at + bytes);
  return real.allocate(fd, at, bytes);
}
static ssize_t see_pwrite(int fd, const void *data, size_t bytes, off_t at) {
  change *c = record(WRITE, 1);
  assert_true((size_t)at + bytes <= SIZE);
  c->at = (size_t)at;
  c->count = bytes;
  memcpy(c->data, data, bytes);
  return real.pwrite(fd, data, bytes, at);
}
static int see_fsync(int fd) {
  if (fd == new_fd && !skip_file_sync) record(SYNC, 1);
  if (fd != new_fd && !skip_directory_sync) record(SYNC_DIRECTORY, 0);
  return real.fsync(fd);
}
static int see_close(int fd) {
  if (fd == new_fd) new_fd = -1;
  return real.close(fd);
}
static int see_renameat(int a, const char *from, int b, const char *to) {
  record(RENAME, 1);
  return real.renameat(a, from, b, to);
}

/* ---- enumerating ----------------------------------------------------------------------------- */

typedef struct outcome {
  int states, corrupt;                 /* at any moment */
  int after, after_corrupt, after_old; /* once the save has said OK */
} outcome;

static const contents *old_file, *new_file;

static void write_at(contents *c, size_t at, const unsigned char *data, size_t count) {
  if (count == 0) return;
  if (at + count > c->size) c->size = at + count;
  if (data) memcpy(c->bytes + at, data, count);
  else memset(c->bytes + at, 0, count);
}

/* How a change that was not synced may have come out: there, missing, torn, zeros. */
enum { THERE, MISSING, TORN, ZEROS, WAYS };

static void apply(contents *c, const change *x, int way) {
  if (way == MISSING) return;
  if (x->kind == CREATE || x->kind == TRUNCATE) *c = (contents){ 0 };
  if (x->kind == RESERVE && x->count > c->size) c->size = x->count;
  if (x->kind == WRITE) write_at(c, x->at, way == ZEROS ? NULL : x->data, way == TORN ? x->count / 2 : x->count);
}

static bool same(const contents *a, const contents *b) {
  return a->size == b->size && memcmp(a->bytes, b->bytes, a->size) == 0;
}

/* Tries every way for the unsynced changes of one file from `from` on; the file is what the
   target's name shows. */
static void each_way(contents c, int file, int from, int end, int synced, bool after, outcome *out) {
  for (int i = from; i < end; i++) {
    const change *x = &log_[i];
    if (x->file != file || x->kind == SYNC || x->kind == SYNC_DIRECTORY || x->kind == RENAME) continue;
    bool loose = i > synced && x->kind != CREATE;
    if (loose) {
      int ways = x->kind == WRITE ? WAYS : MISSING + 1;
      for (int way = 0; way < ways; way++) {
        contents next = c;
        apply(&next, x, way);
        each_way(next, file, i + 1, end, synced, after, out);
      }
      return;
    }
    apply(&c, x, THERE);
  }
  bool is_old = same(&c, old_file), is_new = same(&c, new_file);
  out->states++;
  out->corrupt += !is_old && !is_new;
  if (!after) return;
  out->after++;
  out->after_corrupt += !is_old && !is_new;
  out->after_old += is_old;
}

static outcome enumerate(void) {
  outcome out = { 0 };
  for (int end = 0; end <= logged; end++) {
    bool after = end == logged;
    int directory_synced = -1, renamed = -1, synced[2] = { -1, -1 };
    for (int i = 0; i < end; i++) {
      if (log_[i].kind == SYNC_DIRECTORY) directory_synced = i;
      if (log_[i].kind == RENAME) renamed = i;
      if (log_[i].kind == SYNC) synced[log_[i].file] = i;
    }
    /* The target shows the new file if the rename reached the disk, and may show the old one if it
       need not have. */
    if (renamed >= 0) each_way((contents){ 0 }, 1, 0, end, synced[1], after, &out);
    if (renamed < 0 || directory_synced < renamed) each_way(*old_file, 0, 0, end, synced[0], after, &out);
  }
  return out;
}

/* ---- the protocols --------------------------------------------------------------------------- */

static contents read_target(const char *path) {
  contents c = { 0 };
  int fd = open(path, O_RDONLY);
  assert_true(fd >= 0);
  ssize_t got = read(fd, c.bytes, SIZE);
  assert_true(got > 0 && got < SIZE);
  c.size = (size_t)got;
  close(fd);
  return c;
}

static situ_tree *generation(double value) {
  const situ_options options = { .device = { .kind = SITU_CPU } };
  return situ_tree_put(situ_tree_dict(), "w", situ_tree_tensor(situ_full(SITU_SHAPE(20), value, &options)));
}

static const char path[] = "crash.safetensors";
static contents first, second;

/* Saves generation 1 unseen, then records the save of generation 2. */
static outcome of_save(bool no_file_sync, bool no_directory_sync) {
  situ_scope scope;
  situ_scope_begin(&scope);
  situ_tree *one = generation(1), *two = generation(2);
  assert_int_equal(situ_save(path, one, NULL), SITU_OK);
  first = read_target(path);
  skip_file_sync = no_file_sync;
  skip_directory_sync = no_directory_sync;
  logged = 0;
  real = situ__sys;
  situ__sys.openat = see_openat;
  situ__sys.allocate = see_allocate;
  situ__sys.pwrite = see_pwrite;
  situ__sys.fsync = see_fsync;
  situ__sys.close = see_close;
  situ__sys.renameat = see_renameat;
  situ_status status = situ_save(path, two, NULL);
  situ__sys = real;
  assert_int_equal(status, SITU_OK);
  second = read_target(path);
  assert_false(same(&first, &second));
  situ_tree_free(one);
  situ_tree_free(two);
  assert_int_equal(situ_scope_end(&scope), SITU_OK);
  old_file = &first;
  new_file = &second;
  return enumerate();
}

/* Writing over the old file, with the same writes, and even syncing at the end. */
static outcome in_place(void) {
  of_save(false, false);
  int count = 0;
  static change writes[MOST];
  for (int i = 0; i < logged; i++)
    if (log_[i].kind == WRITE) writes[count++] = log_[i];
  logged = 0;
  record(TRUNCATE, 0);
  for (int i = 0; i < count; i++) {
    change *c = record(WRITE, 0);
    *c = writes[i];
    c->file = 0;
  }
  record(SYNC, 0);
  return enumerate();
}

static void report(const char *protocol, outcome o) {
  print_message("%-38s %4d states, %4d corrupt; after OK: %3d, %3d corrupt, %d still old\n", protocol, o.states,
                o.corrupt, o.after, o.after_corrupt, o.after_old);
}

static void a_save_survives_every_power_cut(void **state) {
  (void)state;
  outcome o = of_save(false, false);
  report("new file, sync, rename, sync directory", o);
  assert_true(o.states > logged); /* one before the first call, and one at least after each */
  assert_int_equal(o.corrupt, 0);
  assert_int_equal(o.after, 1);
  assert_int_equal(o.after_old, 0);
}

static void the_enumeration_finds_a_missing_file_sync(void **state) {
  (void)state;
  outcome o = of_save(true, false);
  report("without syncing the file", o);
  assert_true(o.corrupt > 0 && o.after_corrupt > 0);
}

static void the_enumeration_finds_a_missing_directory_sync(void **state) {
  (void)state;
  outcome o = of_save(false, true);
  report("without syncing the directory", o);
  assert_int_equal(o.corrupt, 0);
  assert_true(o.after_old > 0);
}

static void the_enumeration_finds_writing_in_place(void **state) {
  (void)state;
  outcome o = in_place();
  report("in place", o);
  assert_true(o.corrupt > 0);
  assert_int_equal(o.after_corrupt, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_save_survives_every_power_cut),
    cmocka_unit_test(the_enumeration_finds_a_missing_file_sync),
    cmocka_unit_test(the_enumeration_finds_a_missing_directory_sync),
    cmocka_unit_test(the_enumeration_finds_writing_in_place),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
