/* Sharded checkpoints that fail: each system call, and allocations, on any rank; lost ranks; damaged files. Every rank
   hears of it, the old checkpoint can be loaded, and a refused load changes nothing. */
/* test-devices: cpu */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "distributed/checkpoint/set.h"
#include "distributed/checkpoint/sets.h"
#include "situ/sys/alloc.h"

#define DIRECTORY "set"

/* ---- a system that fails ---- */

enum { OPENAT, FSTAT, ALLOCATE, PREAD, PWRITE, FSYNC, CLOSE, RENAMEAT, MKDIRAT, CALLS };
static const char *const call_names[CALLS] = { "openat", "fstat", "allocate", "pread",  "pwrite",
                                               "fsync",  "close", "renameat", "mkdirat" };
static situ__calls real;
static atomic_int count, fail_call, fail_nth;
static atomic_bool hit;

static bool fails(int call) {
  if (call != fail_call || ++count != fail_nth) return false;
  hit = true;
  errno = ENOSPC;
  return true;
}
static int bad_openat(int dir, const char *path, int flags, mode_t mode) {
  return fails(OPENAT) ? -1 : real.openat(dir, path, flags, mode);
}
static int bad_fstat(int fd, struct stat *out) { return fails(FSTAT) ? -1 : real.fstat(fd, out); }
static int bad_allocate(int fd, off_t at, off_t bytes) {
  return fails(ALLOCATE) ? ENOSPC : real.allocate(fd, at, bytes);
}
static ssize_t bad_pread(int fd, void *data, size_t bytes, off_t at) {
  return fails(PREAD) ? -1 : real.pread(fd, data, bytes, at);
}
static ssize_t bad_pwrite(int fd, const void *data, size_t bytes, off_t at) {
  return fails(PWRITE) ? -1 : real.pwrite(fd, data, bytes, at);
}
static int bad_fsync(int fd) { return fails(FSYNC) ? -1 : real.fsync(fd); }
static int bad_close(int fd) { /* the descriptor is gone even then */
  const bool fault = fails(CLOSE);
  return real.close(fd) != 0 || fault ? -1 : 0;
}
static int bad_renameat(int a, const char *from, int b, const char *to) {
  return fails(RENAMEAT) ? -1 : real.renameat(a, from, b, to);
}
static int bad_mkdirat(int dir, const char *path, mode_t mode) {
  return fails(MKDIRAT) ? -1 : real.mkdirat(dir, path, mode);
}

static void install_calls(void) {
  real = situ__sys;
  situ__sys.openat = bad_openat;
  situ__sys.fstat = bad_fstat;
  situ__sys.allocate = bad_allocate;
  situ__sys.pread = bad_pread;
  situ__sys.pwrite = bad_pwrite;
  situ__sys.fsync = bad_fsync;
  situ__sys.close = bad_close;
  situ__sys.renameat = bad_renameat;
  situ__sys.mkdirat = bad_mkdirat;
}

/* ---- ranks that save and load ---- */

typedef struct job {
  int64_t value; /* to save, or to have before a load */
  bool load;
  int64_t width;            /* of the hidden layer; 0: 4 */
  int fault;                /* a system call; CALLS: an allocation; -1: none */
  int nth;                  /* which of them fails; of a lost rank: its transfer */
  int lost;                 /* this rank dies; -1: none */
  bool begun[SET_MOST];     /* to save or load */
  int64_t loaded[SET_MOST]; /* the value; -1: the load was refused */
  bool changed[SET_MOST];   /* by a load that was refused */
  situ_replaced replaced[SET_MOST];
} job;

static void arm(job *j) {
  count = 0;
  hit = false;
  fail_nth = j->nth;
  fail_call = j->fault;
  if (j->fault == CALLS) situ_fail_allocation((uint64_t)j->nth, false);
}

/* All ranks begin when rank 0 has armed the fault. */
static bool begin_together(world_rank *self, job *j) {
  if (situ_comm_barrier(self->comm, "before") != SITU_OK) return false;
  if (self->rank == 0) arm(j);
  return situ_comm_barrier(self->comm, "begin") == SITU_OK;
}

static void check_load(world_rank *self, job *j, const set_rank *r, const set_picture *before, bool good) {
  set_picture after, want;
  set_rank other;
  set_look(&after, r);
  j->loaded[self->rank] = -1;
  j->changed[self->rank] = !good && !set_same(before, &after);
  if (good) j->loaded[self->rank] = r->state.step;
  if (!good || j->lost >= 0) return; /* a lost rank is not there for what follows */
  if (set_begin(&other, self->comm, j->width ? j->width : 4) && set_fill(&other, (double)r->state.step) == SITU_OK) {
    set_look(&want, &other);
    if (!set_same(&after, &want)) j->loaded[self->rank] = -2; /* a mixture */
  }
  set_end(&other);
}

static void run_rank(world_rank *self) {
  job *j = self->payload;
  set_rank r;
  set_picture before;
  if (set_begin(&r, self->comm, j->width ? j->width : 4) && set_fill(&r, (double)j->value) == SITU_OK) {
    set_look(&before, &r);
    const bool begun = j->begun[self->rank] = begin_together(self, j);
    const situ_save_options options = { .replaced = &j->replaced[self->rank] };
    if (begun && j->load) {
      const bool good = situ_dist_checkpoint_load(DIRECTORY, self->comm, &r.state, NULL) == SITU_OK;
      situ_fail_allocation(0, false);
      check_load(self, j, &r, &before, good);
    } else if (begun) {
      SITU_IGNORE(situ_dist_checkpoint_save(DIRECTORY, self->comm, &r.state, &options));
    }
  }
  set_end(&r);
}

static uint64_t allocations; /* of the last run, if it has saved */

/* Returns the number of ranks that have failed. */
static int run(job *j, world_rank *ranks, int size) {
  int failed = 0;
  situ_comm_sim *world = situ_comm_sim_new(size, NULL);
  if (j->lost >= 0) assert_int_equal(situ_comm_sim_fail(world, j->lost, SITU_COMM_SIM_DIE, j->nth), SITU_OK);
  world_run(world, ranks, size, run_rank, j, 5);
  fail_call = -1;
  allocations = situ_allocation_count();
  situ_fail_allocation(0, false);
  for (int r = 0; r < size; r++) failed += ranks[r].status != SITU_OK;
  return failed;
}

static void save_value(int64_t value) {
  world_rank ranks[WORLD_MOST];
  job j = { .value = value, .fault = -1, .lost = -1 };
  if (run(&j, ranks, SET_RANKS)) fail_msg("%s", ranks[0].message);
}

/* What two ranks find, whole. */
static int64_t value_found(void) {
  world_rank ranks[WORLD_MOST];
  job j = { .value = 100, .load = true, .fault = -1, .lost = -1 };
  if (run(&j, ranks, 2)) fail_msg("the checkpoint cannot be loaded: %s", ranks[0].message);
  assert_true(j.loaded[0] == j.loaded[1]);
  return j.loaded[0];
}

static void empty_directory(void) {
  DIR *list = opendir(DIRECTORY);
  for (struct dirent *e; list && (e = readdir(list));) SITU_IGNORE(unlinkat(dirfd(list), e->d_name, 0));
  if (list) closedir(list);
}

/* ---- saving ---- */

static void expect_told(const world_rank *ranks, const char *says) {
  for (int r = 0; r < SET_RANKS; r++) {
    if (!strstr(ranks[r].message, says) || !strstr(ranks[r].message, "rank "))
      fail_msg("rank %d hears only: %s", r, ranks[r].message);
  }
}

/* The nth call of a kind fails, on whichever rank makes it, until there is no nth. */
static void every_system_call_of_a_save_fails(void **state) {
  (void)state;
  int64_t value = 1;
  int refused = 0;
  empty_directory();
  save_value(value);
  for (int call = 0; call < CALLS; call++) {
    for (int nth = 1;; nth++) {
      world_rank ranks[WORLD_MOST];
      job j = { .value = value + 1, .fault = call, .nth = nth, .lost = -1 };
      const int files = set_files(DIRECTORY), failed = run(&j, ranks, SET_RANKS);
      const bool last = !hit;
      if (failed && failed != SET_RANKS) fail_msg("%s %d: %d ranks have failed", call_names[call], nth, failed);
      for (int r = 1; r < SET_RANKS; r++) assert_int_equal(j.replaced[r], j.replaced[0]);
      if (failed) expect_told(ranks, DIRECTORY);
      if (failed && !j.replaced[0] && set_files(DIRECTORY) != files)
        fail_msg("%s %d: files are left", call_names[call], nth);
      assert_int_equal(failed == 0, j.replaced[0] == SITU_REPLACED);
      if (j.replaced[0]) value++;
      const int64_t found = value_found();
      if (found != value) fail_msg("%s %d: has %d, not %d", call_names[call], nth, (int)found, (int)value);
      refused += failed > 0;
      if (last) break;
    }
  }
  print_message("%d saves failed, each in another call\n", refused);
  assert_true(refused > 40);
}

/* As far as a rank can die: the old set or the new one is there, whole. */
static void a_rank_dies_while_saving(void **state) {
  (void)state;
  int64_t value = 1;
  int lost = 0;
  save_value(value);
  for (int nth = SET_RANKS;; nth++) { /* the first ones are of the communicator's start */
    world_rank ranks[WORLD_MOST];
    job j = { .value = value + 1, .fault = -1, .nth = nth, .lost = nth % SET_RANKS };
    const int failed = run(&j, ranks, SET_RANKS);
    const int64_t found = value_found();
    assert_true(found == value || found == value + 1);
    value = found;
    if (!failed) break;
    lost += j.begun[0];
  }
  assert_true(lost > 5);
}

static void allocations_fail(void **state) {
  (void)state;
  int64_t value = 1;
  empty_directory();
  save_value(value);
  for (int load = 0; load < 2; load++) {
    int refused = 0;
    for (int nth = 1;; nth += 1 + nth / 100) {
      world_rank ranks[WORLD_MOST];
      job j = { .value = load ? 50 : value + 1, .load = load, .fault = CALLS, .nth = nth, .lost = -1 };
      const int failed = run(&j, ranks, SET_RANKS);
      for (int r = 0; load && r < SET_RANKS; r++) {
        if (j.changed[r]) fail_msg("allocation %d: a refused load has changed rank %d", nth, r);
        if (ranks[r].status == SITU_OK) assert_int_equal(j.loaded[r], value);
      }
      const int64_t found = value_found();
      if (!load && found == value + 1) value++;
      assert_true(found == value);
      if (!failed && allocations < (uint64_t)nth) break; /* some can be done without */
      refused += failed > 0;
    }
    assert_true(refused > 20);
    print_message("%d allocations are needed\n", refused);
  }
}

/* In the call that replaces a manifest, with metadata of the caller's: it is replaced, or it is as before. */
static void every_allocation_of_a_manifest_fails(void **state) {
  (void)state;
  const situ_metadata note = { "note", "mine" };
  situ_replaced replaced;
  const situ_save_options options = { .metadata = &note, .metadata_count = 1, .replaced = &replaced };
  situ__set_id id;
  int refused = 0;
  empty_directory();
  save_value(1);
  situ__free(situ__set_read_manifest("test", DIRECTORY, &id));
  for (uint64_t nth = 1;; nth++) {
    situ_fail_allocation(nth, false);
    const situ_status status = situ__set_commit("test", DIRECTORY, id, &options);
    const bool last = situ_allocation_count() < nth;
    situ_fail_allocation(0, false);
    if (status != SITU_OK) expect_error(SITU_E_NOMEM, "", "");
    assert_int_equal(replaced, status == SITU_OK ? SITU_REPLACED : SITU_NOT_REPLACED);
    refused += status != SITU_OK;
    if (last) break;
  }
  assert_true(refused > 10);
  assert_int_equal(value_found(), 1);
}

static time_t age; /* that all files seem to have, in seconds */
static int aged_fstatat(int dir, const char *path, struct stat *out, int flags) {
  const int status = real.fstatat(dir, path, out, flags);
  out->st_mtime = time(NULL) - age;
  return status;
}
/* A save that was killed may have left files, which another may still write to until they are an hour old. */
static void what_is_left_is_deleted_after_an_hour(void **state) {
  (void)state;
  static const char left[] = DIRECTORY "/rank-00000-of-00001-00000001.safetensors";
  empty_directory();
  save_value(1);
  situ__sys.fstatat = aged_fstatat;
  for (age = 3590; age <= 3600; age += 10) {
    FILE *f = fopen(left, "wb");
    assert_non_null(f);
    assert_int_equal(fclose(f), 0);
    save_value(1);
    assert_int_equal(access(left, F_OK), age < 3600 ? 0 : -1);
  }
  situ__sys.fstatat = real.fstatat;
}

/* ---- loading ---- */

static void every_system_call_of_a_load_fails(void **state) {
  (void)state;
  empty_directory();
  save_value(1);
  int refused = 0;
  for (int call = 0; call < CALLS; call++) {
    for (int nth = 1;; nth++) {
      world_rank ranks[WORLD_MOST];
      job j = { .value = 50, .load = true, .fault = call, .nth = nth, .lost = -1 };
      const int failed = run(&j, ranks, SET_RANKS);
      if (!hit) break;
      if (!failed) continue; /* a close of what was read */
      if (failed != SET_RANKS) fail_msg("%s %d: %d ranks have failed", call_names[call], nth, failed);
      expect_told(ranks, DIRECTORY);
      for (int r = 0; r < SET_RANKS; r++) assert_false(j.changed[r]);
      refused++;
    }
  }
  assert_true(refused > 20);
}

static void a_rank_dies_while_loading(void **state) {
  (void)state;
  empty_directory();
  save_value(1);
  int lost = 0;
  for (int nth = SET_RANKS;; nth++) {
    world_rank ranks[WORLD_MOST];
    job j = { .value = 50, .load = true, .fault = -1, .nth = nth, .lost = nth % SET_RANKS };
    const int failed = run(&j, ranks, SET_RANKS);
    for (int r = 0; r < SET_RANKS; r++) assert_false(j.changed[r]);
    if (!failed) break;
    lost += j.begun[0];
  }
  assert_true(lost > 2);
}

/* ---- damage ---- */

static void path_of(int rank, char *path, size_t size) {
  DIR *list = opendir(DIRECTORY);
  char begin[32];
  (void)snprintf(begin, sizeof begin, rank < 0 ? "manifest" : "rank-%05d", rank);
  *path = '\0';
  for (struct dirent *e; (e = readdir(list));)
    if (!strncmp(e->d_name, begin, strlen(begin))) (void)snprintf(path, size, DIRECTORY "/%s", e->d_name);
  closedir(list);
  assert_true(*path);
}

static void flip(const char *path, long at) {
  FILE *f = fopen(path, "r+b");
  assert_int_equal(fseek(f, at, at < 0 ? SEEK_END : SEEK_SET), 0);
  const int c = fgetc(f);
  assert_int_equal(fseek(f, -1, SEEK_CUR), 0);
  fputc(c ^ 1, f);
  fclose(f);
}

/* Puts another digit into the text behind `before`, as with an editor. */
static void edit(const char *path, const char *before) {
  static char text[1 << 16];
  FILE *f = fopen(path, "r+b");
  const size_t bytes = fread(text, 1, sizeof text, f);
  char *at = memmem(text, bytes, before, strlen(before));
  assert_non_null(at);
  at[strlen(before)] ^= 1;
  rewind(f);
  assert_int_equal(fwrite(text, 1, bytes, f), bytes);
  fclose(f);
}

/* A set of one rank, whole, that has nothing but its progress: three integers in a set that was saved. */
static void write_progress(situ_dtype dtype, int64_t count) {
  const situ__set_id id = { situ__set_new_tag(), 1 };
  situ_tree *file = situ_tree_dict();
  char *path = situ__set_file("test", DIRECTORY, id, 0);
  assert_true(situ__piece_put(&file, "run.progress", SITU_SHAPE(count), 0,
                              situ_ones(SITU_SHAPE(count), &(situ_options){ .dtype = dtype })));
  assert_int_equal(situ_save(path, file, NULL), SITU_OK);
  assert_int_equal(situ__set_commit("test", DIRECTORY, id, &(situ_save_options){ 0 }), SITU_OK);
  situ__free(path);
  situ_tree_free(file);
}

typedef enum damage {
  GONE,
  SHORT,
  VALUES,
  HEADER,
  MIXED,
  NO_MANIFEST,
  EDITED,
  PLAIN,
  OTHER_WIDTH,
  REAL_PROGRESS,
  LONG_PROGRESS,
  DAMAGES
} damage;

static void do_damage(damage what) {
  char path[512], other[512];
  path_of(what == NO_MANIFEST || what == EDITED || what == PLAIN ? -1 : 1, path, sizeof path);
  switch (what) {
  case GONE:
  case NO_MANIFEST: assert_int_equal(unlink(path), 0); break;
  case SHORT: assert_int_equal(truncate(path, 900), 0); break;
  case VALUES: flip(path, -1); break;
  case HEADER: edit(path, "\"data_offsets\":["); break;
  case EDITED: edit(path, "situ.dist\":\"1 "); break;
  case MIXED: /* a file of another save in its place */
    (void)snprintf(other, sizeof other, "%s", path);
    assert_int_equal(rename(path, "kept"), 0);
    save_value(2);
    path_of(1, path, sizeof path);
    assert_int_equal(rename("kept", path), 0);
    break;
  case PLAIN: {
    situ_tree *tree = situ_tree_dict();
    assert_int_equal(situ_save(path, tree, NULL), SITU_OK);
    situ_tree_free(tree);
    break;
  }
  case REAL_PROGRESS: write_progress(SITU_F64, 3); break;
  case LONG_PROGRESS: write_progress(SITU_I64, 4); break;
  default: break;
  }
}

static void damage_is_told_and_changes_nothing(void **state) {
  (void)state;
  static const struct {
    situ_status status;
    const char *says;
  } wanted[DAMAGES] = {
    [GONE] = { SITU_E_IO, "rank-00001-of-00003" },
    [SHORT] = { SITU_E_FORMAT, "rank-00001-of-00003" },
    [VALUES] = { SITU_E_FORMAT, "does not match its checksum" },
    [HEADER] = { SITU_E_FORMAT, "rank-00001-of-00003" },
    [MIXED] = { SITU_E_FORMAT, "is not the file that rank 1 of this checkpoint has written" },
    [NO_MANIFEST] = { SITU_E_IO, "manifest.safetensors" },
    [EDITED] = { SITU_E_FORMAT, "manifest.safetensors" },
    [PLAIN] = { SITU_E_FORMAT, "is not the manifest of a sharded checkpoint" },
    [OTHER_WIDTH] = { SITU_E_SHAPE, "0.weight" },
    [REAL_PROGRESS] = { SITU_E_FORMAT, "the checkpoint has no progress" },
    [LONG_PROGRESS] = { SITU_E_FORMAT, "the checkpoint has no progress" }
  };
  for (damage what = 0; what < DAMAGES; what++) {
    world_rank ranks[WORLD_MOST];
    empty_directory();
    save_value(1);
    do_damage(what);
    job j = { .value = 50, .load = true, .fault = -1, .lost = -1, .width = what == OTHER_WIDTH ? 6 : 0 };
    assert_int_equal(run(&j, ranks, 2), 2);
    for (int r = 0; r < 2; r++) {
      if (ranks[r].status != wanted[what].status || !strstr(ranks[r].message, wanted[what].says))
        fail_msg("damage %d: %s", (int)what, ranks[r].message);
      assert_false(j.changed[r]);
    }
  }
}

/* ---- what it refuses ---- */

static void save_other_parts(world_rank *self) {
  set_rank r;
  if (set_begin(&r, self->comm, 4) && set_fill(&r, 3) == SITU_OK) {
    if (self->rank == 2) r.state.model = NULL;
    SITU_IGNORE(situ_dist_checkpoint_save(DIRECTORY, self->comm, &r.state, NULL));
  }
  set_end(&r);
}

static void save_two_optimisers(world_rank *self) {
  set_rank r;
  if (set_begin(&r, self->comm, 4)) {
    situ_optim *o = situ_optim_sgd(situ_nn_parameters(r.model), 1e-3, NULL);
    if (self->rank == 1) r.state.optimizer = o;
    SITU_IGNORE(situ_dist_checkpoint_save(DIRECTORY, self->comm, &r.state, NULL));
    situ_optim_free(o);
  }
  set_end(&r);
}

static void load_without_optimiser(world_rank *self) {
  set_rank r;
  if (set_begin(&r, self->comm, 4)) {
    situ_dist_checkpoint model = { .model = r.model };
    if (situ_dist_checkpoint_save("model-alone", self->comm, &model, NULL) == SITU_OK)
      SITU_IGNORE(situ_dist_checkpoint_load("model-alone", self->comm, &r.state, NULL));
  }
  set_end(&r);
}

static void what_does_not_fit_is_told_by_rank(void **state) {
  (void)state;
  static const struct {
    void (*run)(world_rank *);
    situ_status status;
    const char *says;
  } cases[] = { { save_other_parts, SITU_E_COMM, "rank 0 and rank 2 have other names, dtypes or shapes" },
                { save_two_optimisers, SITU_E_ARG, "an optimizer and a zero" },
                { load_without_optimiser, SITU_E_FORMAT, "the checkpoint has no optimizer" } };
  empty_directory();
  save_value(2);
  save_value(1); /* a save deletes the set before it */
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
    world_rank ranks[WORLD_MOST];
    world_run(situ_comm_sim_new(SET_RANKS, NULL), ranks, SET_RANKS, cases[k].run, NULL, 5);
    for (int r = 0; r < SET_RANKS; r++) {
      assert_int_equal(ranks[r].status, cases[k].status);
      if (!strstr(ranks[r].message, cases[k].says)) fail_msg("%s", ranks[r].message);
    }
    assert_int_equal(value_found(), 1);
    assert_int_equal(set_files(DIRECTORY), SET_RANKS + 1);
  }
}

int main(void) {
  install_calls();
  const struct CMUnitTest tests[] = {
    TEST(every_system_call_of_a_save_fails),
    TEST(a_rank_dies_while_saving),
    TEST(allocations_fail),
    TEST(every_allocation_of_a_manifest_fails),
    TEST(what_is_left_is_deleted_after_an_hour),
    TEST(every_system_call_of_a_load_fails),
    TEST(a_rank_dies_while_loading),
    TEST(damage_is_told_and_changes_nothing),
    TEST(what_does_not_fit_is_told_by_rank),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
