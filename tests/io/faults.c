/* Every system call and every allocation of saving and loading fails once.
   SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "io/faulty.h"
#include "situ/io.h"
#include "situ/ops.h"
#include "situ/sys/alloc.h"

/* ---- what must hold -------------------------------------------------------------------------- */

#define DIRECTORY "faults"
#define INDEX DIRECTORY "/m.safetensors.index.json"
#define SINGLE DIRECTORY "/m.safetensors"

/* Files in the directory: all of them, or only new ones that were left behind. */
static int files(bool left_behind) {
  int found = 0;
  DIR *list = opendir(DIRECTORY);
  for (struct dirent *e; (e = readdir(list));)
    found += left_behind ? strstr(e->d_name, ".tmp.") != NULL : e->d_name[0] != '.';
  closedir(list);
  return found;
}

static void empty_directory(void) {
  mkdir(DIRECTORY, 0755);
  DIR *list = opendir(DIRECTORY);
  for (struct dirent *e; (e = readdir(list));)
    if (e->d_name[0] != '.' || strstr(e->d_name, ".tmp.")) unlinkat(dirfd(list), e->d_name, 0);
  closedir(list);
}

enum { ELEMENTS = 3000 };

static situ_tree *generation(double value) {
  const situ_options f32 = { .device = { .kind = SITU_CPU } },
                     i64 = { .dtype = SITU_I64, .device = { .kind = SITU_CPU } };
  situ_tree *tree = situ_tree_dict();
  tree = situ_tree_put(tree, "a", situ_tree_tensor(situ_full(SITU_SHAPE(ELEMENTS), value, &f32)));
  return situ_tree_put(tree, "b", situ_tree_tensor(situ_full(SITU_SHAPE(ELEMENTS), value, &i64)));
}

/* The value that every element of the file has; fails the test if there is no such value. */
static double value_in(const char *path, const situ_load_options *options) {
  situ_tree *tree = situ_load(path, options);
  if (!tree) fail_msg("the file is damaged: %s", situ_error_message());
  float *a = malloc(ELEMENTS * sizeof *a);
  int64_t *b = malloc(ELEMENTS * sizeof *b);
  assert_int_equal(situ_copy_to_host(situ_tree_get(tree, "a"), a, ELEMENTS * sizeof *a), SITU_OK);
  assert_int_equal(situ_copy_to_host(situ_tree_get(tree, "b"), b, ELEMENTS * sizeof *b), SITU_OK);
  double value = (double)a[0];
  for (int i = 0; i < ELEMENTS; i++) assert_true((double)a[i] == value && (double)b[i] == value);
  free(a);
  free(b);
  situ_tree_free(tree);
  return value;
}

static situ_scope scope;
static int injections;

static int set_up(void **state) {
  (void)state;
  situ_error_mode(SITU_ERROR_QUIET);
  situ_error_clear();
  real = situ__sys;
  situ_scope_begin(&scope);
  empty_directory();
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  situ__sys = real;
  SITU_IGNORE(situ_scope_end(&scope));
  situ_error_clear();
  return 0;
}

/* ---- saving ---------------------------------------------------------------------------------- */

typedef situ_status (*saver)(const situ_tree *tree, situ_replaced *replaced);

static situ_status save_single(const situ_tree *tree, situ_replaced *replaced) {
  return situ_save(SINGLE, tree, &(situ_save_options){ .replaced = replaced });
}

static situ_status save_sharded(const situ_tree *tree, situ_replaced *replaced) {
  return situ_save(INDEX, tree, &(situ_save_options){ .replaced = replaced, .max_shard_bytes = 16000 });
}

/* One fault: what the call says must be what is there. Returns false if the call was not reached.
   */
static bool save_once(saver save, const char *path, int call, int nth, int with, int whole) {
  situ_tree *old = generation(1), *new = generation(2);
  empty_directory();
  assert_int_equal(save(old, NULL), SITU_OK);
  if (geteuid() == 0) assert_int_equal(chown(path, 12345, 12345), 0); /* then the owner has to be kept as well */
  int before = open_files();
  situ_replaced replaced = SITU_NOT_REPLACED;
  install();
  arm(call, nth, with);
  situ_status status = save(new, &replaced);
  situ__sys = real;
  if (hit) {
    injections++;
    const char *what = call_names[call];
    if ((status == SITU_OK) != (replaced == SITU_REPLACED))
      fail_msg("%s %d: status %d, replaced %d", what, nth, status, replaced);
    if (status != SITU_OK && status != SITU_E_IO) fail_msg("%s %d: %s", what, nth, situ_error_message());
    if ((status == SITU_OK) != (situ_error() == SITU_OK))
      fail_msg("%s %d: recorded %s", what, nth, situ_error_message());
    /* What is only interrupted, or only done in part, goes on. */
    bool harmless =
        with == SHORT ||
        (with == EINTR && (call == OPENAT || call == ALLOCATE || call == PREAD || call == PWRITE || call == CLOSE));
    if (harmless && status != SITU_OK) fail_msg("%s %d: %s", what, nth, situ_error_message());
    situ_error_clear();
    double value = value_in(path, NULL);
    if (value != (replaced == SITU_NOT_REPLACED ? 1 : 2)) fail_msg("%s %d: generation %g is there", what, nth, value);
    if (open_files() != before) fail_msg("%s %d: a descriptor was left open", what, nth);
    if (call != UNLINKAT) {
      if (files(true)) fail_msg("%s %d: a new file was left behind", what, nth);
      /* A new index leaves the files of an old one that could not be read, or that a power cut may
         bring back. */
      int there = files(false);
      if (there < whole || (there > whole && replaced == SITU_NOT_REPLACED))
        fail_msg("%s %d: %d files, not %d", what, nth, there, whole);
    }
  }
  situ_error_clear();
  situ_tree_free(old);
  situ_tree_free(new);
  return hit;
}

static void fail_each_call(saver save, const char *path, int whole) {
  static const int errors[] = { EIO, ENOSPC, EDQUOT, EMFILE, EROFS, EINTR, SHORT };
  int reached[CALLS] = { 0 };
  injections = 0;
  for (int call = 0; call < CALLS; call++)
    for (size_t e = 0; e < sizeof errors / sizeof *errors; e++) {
      if (errors[e] == SHORT && call != PWRITE && call != PREAD) continue;
      int nth = 1;
      while (save_once(save, path, call, nth, errors[e], whole)) nth++;
      if (nth - 1 > reached[call]) reached[call] = nth - 1;
    }
  print_message("%d faults;", injections);
  for (int call = 0; call < CALLS; call++) print_message(" %s %d", call_names[call], reached[call]);
  print_message("\n");
  /* The protocol has at least these. */
  assert_true(reached[FSYNC] >= 2 && reached[RENAMEAT] >= 1 && reached[PWRITE] >= 4 && reached[CLOSE] >= 2);
  assert_true(reached[OPENAT] >= 2 && reached[FSTATAT] >= 1 && reached[FCHMOD] >= 1 && reached[ALLOCATE] >= 1);
}

static void saving_survives_each_fault(void **state) {
  (void)state;
  fail_each_call(save_single, SINGLE, 1);
}

static void saving_shards_survives_each_fault(void **state) {
  (void)state;
  fail_each_call(save_sharded, INDEX, 3);
}

/* fsync is never tried twice: after its first failure nothing more is written or renamed. */
static void a_failed_sync_is_final(void **state) {
  (void)state;
  situ_tree *tree = generation(1);
  install();
  arm(FSYNC, 1, EIO);
  assert_int_equal(save_single(tree, NULL), SITU_E_IO);
  assert_int_equal(count[FSYNC], 1);
  assert_int_equal(count[RENAMEAT], 0);
  assert_int_equal(count[UNLINKAT], 1);
  situ__sys = real;
  situ_tree_free(tree);
}

/* Not waiting for the disk means no fsync at all. */
static void no_sync_does_not_wait(void **state) {
  (void)state;
  situ_tree *tree = generation(1);
  install();
  arm(0, 0, 0);
  assert_int_equal(situ_save(SINGLE, tree, &(situ_save_options){ .no_sync = true }), SITU_OK);
  assert_int_equal(count[FSYNC], 0);
  assert_int_equal(count[RENAMEAT], 1);
  situ__sys = real;
  situ_tree_free(tree);
}

/* Only what belongs to another owner is given back to it. */
static void an_owner_that_is_right_is_left_alone(void **state) {
  (void)state;
  situ_tree *tree = generation(1);
  assert_int_equal(save_single(tree, NULL), SITU_OK);
  install();
  arm(0, 0, 0);
  assert_int_equal(save_single(tree, NULL), SITU_OK);
  assert_int_equal(count[FCHMOD], 1);
  assert_int_equal(count[FCHOWN], 0);
  situ__sys = real;
  situ_tree_free(tree);
}

/* Descriptor 0 is as good as any; what errno says of an earlier call does not count. */
static int openat_at_0(int dir, const char *path, int flags, mode_t mode) {
  int fd = bad_openat(dir, path, flags, mode);
  if (fd > 0 && count[OPENAT] == 1 && dup2(fd, 0) == 0) {
    real.close(fd);
    fd = 0;
  }
  errno = EINTR;
  return fd;
}
static void a_directory_may_be_descriptor_0(void **state) {
  (void)state;
  situ_tree *tree = generation(1);
  int kept = dup(0);
  install();
  arm(0, 0, 0);
  situ__sys.openat = openat_at_0;
  assert_int_equal(save_single(tree, NULL), SITU_OK);
  situ__sys = real;
  assert_int_equal(fcntl(0, F_GETFD), -1); /* it was closed */
  if (kept >= 0) {
    assert_int_equal(dup2(kept, 0), 0);
    close(kept);
  }
  situ_tree_free(tree);
}

/* ---- loading --------------------------------------------------------------------------------- */

/* A part that is not there, of an index that stays as it is: no save is going on, so it is an error at once. */
static void a_part_that_is_gone_is_not_waited_for(void **state) {
  (void)state;
  situ_tree *tree = generation(1);
  assert_int_equal(save_sharded(tree, NULL), SITU_OK);
  DIR *list = opendir(DIRECTORY);
  for (struct dirent *e; (e = readdir(list));)
    if (strstr(e->d_name, ".safetensors") && !strstr(e->d_name, ".json")) unlinkat(dirfd(list), e->d_name, 0);
  closedir(list);
  install();
  arm(0, 0, 0);
  assert_null(situ_load(INDEX, NULL));
  situ__sys = real;
  assert_int_equal(situ_error(), SITU_E_IO);
  situ_error_clear();
  assert_int_equal(count[FSTATAT], 2);
  situ_tree_free(tree);
}

static void loading_survives_each_fault(void **state) {
  (void)state;
  static const int errors[] = { EIO, EMFILE, EINTR, SHORT };
  static const int calls[] = { OPENAT, FSTAT, PREAD, CLOSE, MMAP };
  situ_tree *tree = generation(1);
  assert_int_equal(save_single(tree, NULL), SITU_OK);
  assert_int_equal(save_sharded(tree, NULL), SITU_OK);
  injections = 0;
  for (int variant = 0; variant < 4; variant++)
    for (size_t c = 0; c < sizeof calls / sizeof *calls; c++)
      for (size_t e = 0; e < sizeof errors / sizeof *errors; e++) {
        if (errors[e] == SHORT && calls[c] != PREAD) continue;
        if (errors[e] == EINTR && calls[c] == MMAP) continue;
        for (int nth = 1;; nth++) {
          int before = open_files();
          int64_t live = situ_live_tensors();
          install();
          arm(calls[c], nth, errors[e]);
          situ_tree *got = situ_load(variant & 1 ? INDEX : SINGLE, &(situ_load_options){ .map = variant & 2 });
          situ__sys = real;
          bool harmless = calls[c] == CLOSE || ((errors[e] == EINTR || errors[e] == SHORT) && calls[c] != FSTAT);
          if (hit && harmless != (got != NULL)) fail_msg("%s %d: %s", call_names[calls[c]], nth, situ_error_message());
          if (!got) assert_int_equal(situ_error(), SITU_E_IO);
          situ_error_clear();
          situ_tree_free(got);
          assert_int_equal(open_files(), before);
          assert_int_equal(situ_live_tensors(), live);
          if (!hit) break;
          injections++;
        }
      }
  print_message("%d faults\n", injections);
  assert_true(injections > 50);
  situ_tree_free(tree);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void every_allocation_fails_once(void **state) {
  (void)state;
  situ_tree *old = generation(1), *new = generation(2);
  int failures = 0;
  for (int variant = 0; variant < 3; variant++) {
    for (uint64_t nth = 1;; nth++) {
      empty_directory();
      assert_int_equal(save_single(old, NULL), SITU_OK);
      assert_int_equal(save_sharded(old, NULL), SITU_OK);
      int before = open_files();
      int64_t live = situ_live_tensors();
      situ_fail_allocation(nth, false);
      situ_tree *got = NULL;
      bool fine = variant == 0   ? save_single(new, NULL) == SITU_OK
                  : variant == 1 ? save_sharded(new, NULL) == SITU_OK
                                 : (got = situ_load(INDEX, NULL)) != NULL;
      bool reached = situ_allocation_count() >= nth;
      situ_fail_allocation(0, false);
      situ_tree_free(got);
      if (!fine) assert_int_equal(situ_error(), SITU_E_NOMEM);
      situ_error_clear();
      assert_int_equal(open_files(), before);
      assert_int_equal(situ_live_tensors(), live);
      assert_int_equal(files(true), 0);
      double single = value_in(SINGLE, NULL), sharded = value_in(INDEX, NULL);
      if (variant == 0) assert_true(single == (fine ? 2 : 1));
      if (variant == 1) assert_true(sharded == (fine ? 2 : 1));
      if (!reached) break;
      failures++;
    }
  }
  print_message("%d allocations failed\n", failures);
  assert_true(failures > 30);
  situ_tree_free(old);
  situ_tree_free(new);
}

int main(void) {
  const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    T(saving_survives_each_fault),
    T(saving_shards_survives_each_fault),
    T(a_failed_sync_is_final),
    T(no_sync_does_not_wait),
    T(loading_survives_each_fault),
    T(every_allocation_fails_once),
    T(an_owner_that_is_right_is_left_alone),
    T(a_directory_may_be_descriptor_0),
    T(a_part_that_is_gone_is_not_waited_for),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
