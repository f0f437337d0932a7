/* A checkpoint of more files than a rank has open at a time: how many are open, and what comes of one that goes while it
   is loaded. */
/* test-devices: cpu */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>

#include "base/file.h"
#include "distributed/checkpoint/sets.h"
#include "distributed/checkpoint/set.h"
#include "distributed/must.h"

enum { SAVED = 40, LOADED = 2, WIDTH = 16, FDS = 4096 };
enum { OPENINGS = 2 }; /* of a file that is opened: its format is looked at first */
static const char directory[] = "many";

/* ---- files that are open ---- */

static situ__calls real;
static atomic_bool is_set[FDS]; /* per descriptor: it is a rank's file */
static atomic_int open_now, open_most, opened;
static atomic_int last; /* opening a rank's file fails from the one behind this number on; 0: never */

static int counting_openat(int dir, const char *path, int flags, mode_t mode) {
  const bool rank = strstr(path, "rank-") != NULL;
  if (rank && last && atomic_load(&opened) >= last) return errno = ENOENT, -1;
  const int fd = real.openat(dir, path, flags, mode);
  if (fd < 0 || fd >= FDS || !rank) return fd;
  const int now = atomic_fetch_add(&open_now, 1) + 1;
  int most = atomic_load(&open_most);
  while (now > most && !atomic_compare_exchange_weak(&open_most, &most, now)) continue;
  atomic_fetch_add(&opened, 1);
  is_set[fd] = true;
  return fd;
}
static int counting_close(int fd) {
  if (fd >= 0 && fd < FDS && atomic_exchange(&is_set[fd], false)) atomic_fetch_sub(&open_now, 1);
  return real.close(fd);
}

/* ---- ranks ---- */

typedef struct job {
  bool load;
  double value;
  set_rank rank[SAVED];
  set_picture before[LOADED], after[LOADED];
} job;

static void save_or_load(world_rank *self) {
  job *j = self->payload;
  set_rank *r = &j->rank[self->rank];
  MUST(set_begin(r, self->comm, WIDTH) && set_fill(r, j->value) == SITU_OK);
  if (!j->load) {
    const situ_save_options fast = { .no_sync = true };
    MUST(situ_dist_checkpoint_save(directory, self->comm, &r->state, &fast) == SITU_OK);
    goto out;
  }
  set_look(&j->before[self->rank], r);
  const bool good = situ_dist_checkpoint_load(directory, self->comm, &r->state, NULL) == SITU_OK;
  set_look(&j->after[self->rank], r);
  MUST(good);
out:
  situ_dist_zero_free(r->zero); /* the model is looked at later */
}

static void run(job *j, world_rank ranks[WORLD_MOST], int size) {
  world_run(situ_comm_sim_new(size, NULL), ranks, size, save_or_load, j, 120);
}

static void free_models(job *j, int size) {
  for (int r = 0; r < size; r++) situ_nn_free(j->rank[r].model);
}

static void a_few_files_are_open_at_a_time(void **state) {
  (void)state;
  world_rank ranks[WORLD_MOST];
  static job saved = { .value = 1 }, loaded = { .value = 50, .load = true };
  run(&saved, ranks, SAVED);
  for (int r = 0; r < SAVED; r++) expect_rank_ok(&ranks[r]);
  real = situ__sys;
  situ__sys.openat = counting_openat;
  situ__sys.close = counting_close;
  run(&loaded, ranks, LOADED);
  for (int r = 0; r < LOADED; r++) {
    expect_rank_ok(&ranks[r]);
    expect_equal_models(loaded.rank[r].model, saved.rank[0].model, "many", LOADED);
  }
  print_message("%d opened, at most %d at a time\n", opened, open_most);
  assert_int_equal(open_now, 0);
  assert_true(open_most <= LOADED * SITU__SET_OPEN);
  assert_true(opened <= LOADED * SAVED * OPENINGS * 3); /* to list the pieces, for the model, for the optimiser */
  free_models(&loaded, LOADED);

  loaded.value = 70; /* files go when all have been listed */
  opened = 0;
  last = LOADED * SAVED * OPENINGS;
  run(&loaded, ranks, LOADED);
  for (int r = 0; r < LOADED; r++) {
    assert_int_equal(ranks[r].status, SITU_E_IO);
    if (!strstr(ranks[r].message, "load it again")) fail_msg("rank %d: %s", r, ranks[r].message);
    assert_true(set_same(&loaded.before[r], &loaded.after[r]));
  }
  assert_int_equal(open_now, 0);
  situ__sys = real;
  free_models(&loaded, LOADED);
  free_models(&saved, SAVED);
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(a_few_files_are_open_at_a_time) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
