/* Every public function that writes files, with valid arguments (support/api/api.h), while one allocation or one system
   call fails: the old file is there or the new one, whole, and the status says which. faults.c has sets of shards.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu */
#include "support/api/api.h"

#include <stdio.h>
#include <stdlib.h>

#include "io/faulty.h"
#include "support/test.h"

enum { FILES = 8 };
#define DIRECTORY "writers"

/* A way to call a function. */
typedef struct writer {
  const api_function *function;
  const char *path; /* in the directory */
  bool external;    /* weights in a file of their own */
} writer;

typedef struct content {
  char name[300];
  unsigned char *data;
  size_t bytes;
} content;
typedef struct contents {
  content file[FILES];
  int count;
} contents;

/* ---- files ---- */

static void forget(contents *c) {
  while (c->count) free(c->file[--c->count].data);
}

static contents read_directory(void) {
  contents all = { .count = 0 };
  DIR *list = opendir(DIRECTORY);
  assert_non_null(list);
  for (struct dirent *e; (e = readdir(list));) {
    struct stat about;
    if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
    assert_true(all.count < FILES);
    content *c = &all.file[all.count++];
    (void)snprintf(c->name, sizeof c->name, "%s", e->d_name);
    const int fd = openat(dirfd(list), e->d_name, O_RDONLY);
    assert_true(fd >= 0 && fstat(fd, &about) == 0);
    c->bytes = (size_t)about.st_size;
    c->data = malloc(c->bytes + 1);
    assert_int_equal(read(fd, c->data, c->bytes), c->bytes);
    close(fd);
  }
  closedir(list);
  return all;
}

/* Replaces what is in the directory. */
static void fill_directory(const contents *c) {
  (void)mkdir(DIRECTORY, 0755);
  DIR *list = opendir(DIRECTORY);
  for (struct dirent *e; (e = readdir(list));)
    if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0) unlinkat(dirfd(list), e->d_name, 0);
  for (int i = 0; i < c->count; i++) {
    const int fd = openat(dirfd(list), c->file[i].name, O_WRONLY | O_CREAT | O_EXCL, 0644);
    assert_int_equal(write(fd, c->file[i].data, c->file[i].bytes), c->file[i].bytes);
    close(fd);
  }
  closedir(list);
}

static const content *find(const contents *c, const char *name) {
  for (int i = 0; i < c->count; i++)
    if (strcmp(c->file[i].name, name) == 0) return &c->file[i];
  return NULL;
}

/* All files of `part` are there, as they are. */
static bool holds(const contents *all, const contents *part) {
  for (int i = 0; i < part->count; i++) {
    const content *c = find(all, part->file[i].name);
    if (!c || c->bytes != part->file[i].bytes || memcmp(c->data, part->file[i].data, c->bytes) != 0) return false;
  }
  return true;
}

/* ---- calls ---- */

typedef enum fault { NONE, ALLOCATION, SYSTEM_CALL } fault;

static void vary(const writer *how, api_world *w) {
  for (int i = 0; i < how->function->count; i++) {
    const api_parameter *p = &how->function->parameter[i];
    if (strcmp(p->name, "path") == 0) *(const char **)w->argument[i] = how->path;
    if (strstr(p->type, "situ_onnx_export_options"))
      (*(situ_onnx_export_options **)w->argument[i])->external_data = how->external;
    if (strstr(p->type, "situ_save_options")) **(situ_save_options **)w->argument[i] = (situ_save_options){ 0 };
  }
}

/* Does not wait for the disk. */
static int quick_fsync(int fd) { return (void)fd, fails(FSYNC) ? -1 : 0; }

/* Calls the writer once; hit: whether the fault was reached. */
static situ_status write_once(const writer *how, fault kind, int call, int nth, int with, bool *reached) {
  static int64_t result[64];
  api_world w;
  situ_scope scope;
  situ_scope_begin(&scope);
  situ_manual_seed(1); /* a checkpoint has the generator's state */
  api_valid(&w, how->function, test_device());
  vary(how, &w);
  situ_error_clear();
  install();
  situ__sys.fsync = quick_fsync;
  arm(call, kind == SYSTEM_CALL ? nth : 0, with);
  if (kind == ALLOCATION) situ_fail_allocation((uint64_t)nth, false);
  how->function->call(w.argument, result);
  *reached = kind == ALLOCATION ? situ_allocation_count() >= (uint64_t)nth : hit;
  situ_fail_allocation(0, false);
  situ__sys = real;
  const situ_status status = *(const situ_status *)result, recorded = situ_error();
  if (status != recorded) fail_msg("%s: returns %d, records %d", how->function->name, status, recorded);
  situ_error_clear();
  api_after(&w, result, status != SITU_OK);
  situ_error_clear();
  SITU_IGNORE(situ_scope_end(&scope));
  return status;
}

/* Returns false if the fault was not reached. */
static bool survives(const writer *how, const contents *old, const contents *new, fault kind, int call, int nth,
                     int with) {
  bool reached;
  fill_directory(old);
  const int before = open_files();
  const situ_status status = write_once(how, kind, call, nth, with, &reached);
  contents now = read_directory();
  char what[200];
  (void)snprintf(what, sizeof what, "%s, %s %d (%d): %s", how->function->name,
                 kind == ALLOCATION ? "allocation" : call_names[call], nth, with, situ_status_name(status));
  const bool is_old = holds(&now, old), is_new = holds(&now, new);
  if (!is_old && !is_new) fail_msg("%s: neither the old file nor the new one is there", what);
  if (status == SITU_OK && !is_new) fail_msg("%s: the old file is there", what);
  const bool is_mapped = strcmp(how->function->name, "situ_nn_spill") == 0; /* the new file, behind its writing */
  if (kind == ALLOCATION && status != SITU_OK && (status != SITU_E_NOMEM || (!is_old && !is_mapped)))
    fail_msg("%s: not as it was", what);
  /* Of the calls only the sync of the directory comes after the new file is in place. */
  if (kind == SYSTEM_CALL && status != SITU_OK && call != FSYNC && !is_old && !is_mapped)
    fail_msg("%s: the new file is there", what);
  for (int i = 0; i < now.count && call != UNLINKAT; i++)
    if (strstr(now.file[i].name, ".tmp.")) fail_msg("%s: left %s behind", what, now.file[i].name);
  if (open_files() != before) fail_msg("%s: left a file open", what);
  forget(&now);
  return reached;
}

static void fail_each(const writer *how) {
  static const int errors[] = { EIO, ENOSPC, EINTR, SHORT };
  static const int calls[] = { OPENAT, FSTAT, FSTATAT, FCHMOD, ALLOCATE, PWRITE, FSYNC, CLOSE, RENAMEAT, UNLINKAT };
  const char *name = strrchr(how->path, '/') + 1;
  contents old = { .count = 1 + how->external };
  int allocations = 1, faults = 0;
  bool reached;
  for (int i = 0; i < old.count; i++) {
    old.file[i] = (content){ .data = (unsigned char *)strdup("the old file"), .bytes = 12 };
    (void)snprintf(old.file[i].name, sizeof old.file[i].name, "%s%s", name, i ? ".data" : "");
  }
  fill_directory(&old);
  assert_int_equal(write_once(how, NONE, 0, 0, 0, &reached), SITU_OK);
  contents new = read_directory();
  while (survives(how, &old, &new, ALLOCATION, 0, allocations, 0)) allocations++;
  for (size_t c = 0; c < sizeof calls / sizeof *calls; c++)
    for (size_t e = 0; e < sizeof errors / sizeof *errors; e++) {
      if (errors[e] == SHORT && calls[c] != PWRITE) continue;
      for (int nth = 1; survives(how, &old, &new, SYSTEM_CALL, calls[c], nth, errors[e]); nth++) faults++;
    }
  print_message("%-32s %4d allocations, %4d system calls\n", how->function->name, allocations - 1, faults);
  assert_true(allocations > 2 && faults > 20);
  forget(&old), forget(&new);
}

/* Whether the function writes its file: a reader finds none. */
static bool is_writer(const writer *how) {
  bool has_path = false, reached;
  for (int i = 0; i < how->function->count; i++)
    has_path |= strcmp(how->function->parameter[i].name, "path") == 0 &&
                strcmp(how->function->parameter[i].type, "const char *") == 0;
  if (!has_path || how->function->result != API_STATUS) return false;
  fill_directory(&(contents){ .count = 0 });
  return write_once(how, NONE, 0, 0, 0, &reached) == SITU_OK && access(how->path, F_OK) == 0;
}

static void writers_leave_the_old_file_or_the_new(void **state) {
  (void)state;
  const api_function *functions;
  const size_t count = api_functions_list(&functions);
  const char *only = getenv("SITU_SWEEP");
  int found = 0;
  real = situ__sys;
  api_begin();
  /* The first message of an error opens the program for its lines. */
  assert_int_equal(situ_synchronize((situ_device){ SITU_SIM, 99 }), SITU_E_ARG);
  assert_non_null(situ_error_message());
  situ_error_clear();
  for (size_t i = 0; i < count; i++) {
    const writer plain = { &functions[i], DIRECTORY "/file.any", false };
    if ((only && strcmp(only, functions[i].name) != 0) || strstr(functions[i].name, "situ_dist_")) continue;
    if (!is_writer(&plain)) continue;
    found++;
    fail_each(&plain);
    if (strcmp(functions[i].name, "situ_onnx_export") == 0)
      fail_each(&(writer){ &functions[i], DIRECTORY "/file.onnx", true });
  }
  assert_true(only || found >= 10);
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(writers_leave_the_old_file_or_the_new) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
