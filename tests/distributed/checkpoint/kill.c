/* Ranks that save sharded checkpoints without end are killed at random moments: the set is always whole, also for ranks
   that load beside them. */
/* test-devices: cpu */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "distributed/checkpoint/sets.h"

#define DIRECTORY "killed"
enum { KILLS = 120, WIDTH = 40 };

/* ---- the child ---- */

static int64_t first_value;
static bool in_haste; /* never waits for the disk */

static void save_for_ever(world_rank *self) {
  const pid_t parent = getppid();
  for (int64_t value = first_value; getppid() == parent; value++) {
    set_rank r;
    const situ_save_options options = { .no_sync = in_haste || value % 2 };
    if (!set_begin(&r, self->comm, WIDTH) || set_fill(&r, (double)value) != SITU_OK ||
        situ_dist_checkpoint_save(DIRECTORY, self->comm, &r.state, &options) != SITU_OK)
      _exit(1);
    set_end(&r);
    if (value == first_value && self->rank == 0 && write(STDOUT_FILENO, "s", 1) != 1) _exit(1);
  }
}

static int run_child(const char *how, const char *number) {
  world_rank ranks[WORLD_MOST];
  in_haste = strcmp(how, "--save-in-haste") == 0;
  first_value = strtoll(number, NULL, 10);
  world_run(situ_comm_sim_new(SET_RANKS, NULL), ranks, SET_RANKS, save_for_ever, NULL, 60);
  return 1;
}

/* ---- the parent ---- */

static char self_path[4096];

/* A fresh program, not a fork: it must not inherit this one's threads. */
static pid_t start_child(const char *how, int64_t from, int *ready) {
  int ends[2];
  char number[32];
  assert_int_equal(pipe(ends), 0);
  (void)snprintf(number, sizeof number, "%lld", (long long)from);
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    dup2(ends[1], STDOUT_FILENO);
    close(ends[0]);
    close(ends[1]);
    execl(self_path, self_path, how, number, (char *)NULL);
    _exit(127);
  }
  close(ends[1]);
  *ready = ends[0];
  return child;
}

typedef struct found {
  int64_t value[SET_MOST];
} found;

static void load_all(world_rank *self) {
  found *f = self->payload;
  set_rank r, want;
  set_picture got, whole;
  const bool begun = set_begin(&r, self->comm, WIDTH) && set_begin(&want, self->comm, WIDTH);
  if (begun && situ_dist_checkpoint_load(DIRECTORY, self->comm, &r.state, NULL) == SITU_OK &&
      set_fill(&want, (double)r.state.step) == SITU_OK) {
    set_look(&got, &r);
    set_look(&whole, &want);
    f->value[self->rank] = set_same(&got, &whole) ? r.state.step : -1;
  }
  set_end(&want);
  set_end(&r);
}

/* The value that every tensor in the set follows from. */
static int64_t whole_value(int size) {
  world_rank ranks[WORLD_MOST];
  found f = { { 0 } };
  world_run(situ_comm_sim_new(size, NULL), ranks, size, load_all, &f, 60);
  for (int r = 0; r < size; r++) {
    expect_rank_ok(&ranks[r]);
    if (f.value[r] < 0) fail_msg("the checkpoint is a mixture");
    assert_true(f.value[r] == f.value[0]);
  }
  return f.value[0];
}

/* Files that belong to no set; makes them old. */
static int files_left(void) {
  DIR *list = opendir(DIRECTORY);
  assert_non_null(list);
  const struct timespec long_ago[2] = { { .tv_sec = time(NULL) - 7200 }, { .tv_sec = time(NULL) - 7200 } };
  for (struct dirent *e; (e = readdir(list));)
    if (strstr(e->d_name, "safetensors")) assert_int_equal(utimensat(dirfd(list), e->d_name, long_ago, 0), 0);
  closedir(list);
  return set_files(DIRECTORY) - SET_RANKS - 1;
}

static void save_once(world_rank *self) {
  set_rank r;
  if (set_begin(&r, self->comm, WIDTH) && set_fill(&r, 1) == SITU_OK)
    SITU_IGNORE(situ_dist_checkpoint_save(DIRECTORY, self->comm, &r.state, NULL));
  set_end(&r);
}

static void survives_being_killed(void **state) {
  (void)state;
  uint64_t random = 0x9E3779B97F4A7C15u;
  int64_t last = 0, saved = 0;
  int torn = 0;
  const int kills = test_is_slow() ? KILLS / 4 : KILLS;
  for (int i = 0; i < kills; i++) {
    int ready, status;
    char byte;
    const pid_t child = start_child("--save-for-ever", last + 1, &ready);
    assert_int_equal(read(ready, &byte, 1), 1); /* its first set is in place */
    random ^= random << 13;
    random ^= random >> 7;
    random ^= random << 17;
    const struct timespec moment = { .tv_nsec = (long)(random % 9000000) };
    nanosleep(&moment, NULL);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    close(ready);
    const int64_t value = whole_value(1 + i % SET_MOST);
    assert_true(value > last);
    saved += value - last;
    last = value;
    torn += files_left() > 0; /* what the last one left has been deleted by this one's first save */
  }
  print_message("%d kills, %lld sets saved, %d killed in the middle of one: the set whole each time\n", kills,
                (long long)saved, torn);
  assert_true(torn > 0); /* few where a save is slow, as under ThreadSanitizer: then most die before it writes */
  /* The next save deletes what they left, now that it is old. */
  world_rank ranks[WORLD_MOST];
  world_run(situ_comm_sim_new(SET_RANKS, NULL), ranks, SET_RANKS, save_once, NULL, 60);
  for (int r = 0; r < SET_RANKS; r++) expect_rank_ok(&ranks[r]);
  assert_int_equal(files_left(), 0);
}

/* Every load finds a set that is whole, though its files are replaced and deleted meanwhile. */
static void loads_beside_a_program_that_saves(void **state) {
  (void)state;
  int ready, different = 0;
  char byte;
  const pid_t child = start_child("--save-in-haste", 1, &ready);
  assert_int_equal(read(ready, &byte, 1), 1);
  int64_t last = 0;
  int loads = 0;
  const int sets = test_is_slow() ? KILLS / 4 : KILLS;
  for (; different < sets; loads++) {
    const int64_t value = whole_value(1 + loads % SET_MOST);
    assert_true(value >= last);
    different += value > last;
    last = value;
  }
  assert_int_equal(kill(child, SIGKILL), 0);
  assert_int_equal(waitpid(child, NULL, 0), child);
  close(ready);
  print_message("%d loads beside %lld saves, of %d sets, each whole\n", loads, (long long)last, different);
}

int main(int argc, char **argv) {
  if (argc == 3) return run_child(argv[1], argv[2]);
  const ssize_t length = readlink("/proc/self/exe", self_path, sizeof self_path - 1);
  if (length <= 0) return 77;
  self_path[length] = '\0';
  const struct CMUnitTest tests[] = { TEST(survives_being_killed), TEST(loads_beside_a_program_that_saves) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
