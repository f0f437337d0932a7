/* Sharded checkpoints on a disk that is full, for real: files that may not grow (RLIMIT_FSIZE), and a small tmpfs where
   the system lets a process mount one. Every rank hears of it, and the old set is whole, until the new one fits. */
/* test-devices: cpu */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "distributed/must.h"
#include "distributed/checkpoint/sets.h"

#define DIRECTORY "full"

typedef struct job {
  bool load;
  int64_t value, width;
  int64_t found[SET_MOST]; /* the value that a load has brought; -1: none, -2: a mixture */
} job;

/* Whether both models have the same parameters. */
static bool same_values(situ_nn_module *a, situ_nn_module *b) {
  situ_tree *x = situ_nn_parameters(a), *y = situ_nn_parameters(b);
  bool same = true;
  for (int64_t i = 0; same && i < situ_tree_count(x); i++)
    if (situ_equal(situ_tree_tensor_at(x, i), situ_tree_tensor_at(y, i), &same) != SITU_OK) same = false;
  situ_tree_free(x);
  situ_tree_free(y);
  return same;
}

static void save_or_load(world_rank *self) {
  job *j = self->payload;
  set_rank r = { 0 }, other = { 0 };
  j->found[self->rank] = -1;
  MUST(set_begin(&r, self->comm, j->width) && set_fill(&r, (double)j->value) == SITU_OK);
  if (!j->load) {
    SITU_IGNORE(situ_dist_checkpoint_save(DIRECTORY, self->comm, &r.state, NULL));
    goto out;
  }
  MUST(situ_dist_checkpoint_load(DIRECTORY, self->comm, &r.state, NULL) == SITU_OK);
  MUST(set_begin(&other, self->comm, j->width) && set_fill(&other, (double)r.state.step) == SITU_OK);
  j->found[self->rank] = same_values(r.model, other.model) ? r.state.step : -2;
out:
  set_end(&other);
  set_end(&r);
}

/* Returns the number of ranks that have failed; all of them, or none. */
static int run(job *j, world_rank *ranks, int size) {
  int failed = 0;
  world_run(situ_comm_sim_new(size, NULL), ranks, size, save_or_load, j, 10);
  for (int r = 0; r < size; r++) failed += ranks[r].status != SITU_OK;
  return failed;
}

static int64_t value_found(int64_t width) {
  world_rank ranks[WORLD_MOST];
  job j = { .load = true, .value = 99, .width = width };
  return run(&j, ranks, 2) == 0 && j.found[0] == j.found[1] ? j.found[0] : -1;
}

/* Saves a value where there is `space` of something; returns whether it fitted, or what is wrong. */
static const char *save_once(int64_t value, int64_t width, bool *fitted) {
  static char text[1200];
  world_rank ranks[WORLD_MOST];
  job j = { .value = value, .width = width };
  const int files = set_files(DIRECTORY), failed = run(&j, ranks, SET_RANKS);
  *fitted = failed == 0;
  if (failed && failed != SET_RANKS) return "some ranks have failed, not all";
  if (failed && set_files(DIRECTORY) != files) return "files are left";
  for (int r = 0; failed && r < SET_RANKS; r++)
    if (!strstr(ranks[r].message, DIRECTORY) || !strstr(ranks[r].message, "rank ")) {
      (void)snprintf(text, sizeof text, "rank %d hears only: %s", r, ranks[r].message);
      return text;
    }
  return NULL;
}

static void empty_directory(void) {
  DIR *list = opendir(DIRECTORY);
  for (struct dirent *e; list && (e = readdir(list));) SITU_IGNORE(unlinkat(dirfd(list), e->d_name, 0));
  if (list) closedir(list);
}

/* ---- files that may not grow ---- */

static void a_limit_on_the_size_of_files(void **state) {
  (void)state;
  struct rlimit before;
  bool fitted;
  int refused = 0;
  (void)signal(SIGXFSZ, SIG_IGN);
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
  empty_directory();
  assert_null(save_once(1, 4, &fitted));
  assert_true(fitted);
  for (rlim_t limit = 0; refused == 0 || !fitted; limit += 64) {
    const struct rlimit small = { limit, before.rlim_max };
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    const char *wrong = save_once(2, 4, &fitted);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    if (wrong) fail_msg("limit %d: %s", (int)limit, wrong);
    assert_int_equal(value_found(4), fitted ? 2 : 1);
    refused += !fitted;
  }
  print_message("refused at %d limits\n", refused);
}

/* ---- a small disk ---- */

enum { WIDTH = 900, CANNOT_MOUNT = 77 };

static bool write_text(const char *path, const char *text) {
  const int fd = open(path, O_WRONLY);
  const bool good = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
  if (fd >= 0) (void)close(fd);
  return good;
}

/* Inside of a namespace where this process may mount. */
static bool enter_namespace(void) {
  char map[64];
  (void)snprintf(map, sizeof map, "0 %d 1", (int)getuid());
  if (unshare(CLONE_NEWNS) == 0) return true;
  return unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 && write_text("/proc/self/uid_map", map);
}

static bool mount_disk(int64_t bytes) {
  char size[40];
  (void)snprintf(size, sizeof size, "size=%lld", (long long)bytes);
  return mount("situ", DIRECTORY, "tmpfs", 0, size) == 0;
}

static int64_t bytes_used(void) {
  struct statvfs s;
  return statvfs(DIRECTORY, &s) == 0 ? (int64_t)((s.f_blocks - s.f_bfree) * s.f_frsize) : -1;
}

/* From a disk with space for one set to one with space for two, a page at a time. */
static int save_on_small_disks(void) {
  bool fitted = false;
  int refused = 0;
  if (mkdir(DIRECTORY, 0777) != 0 && errno != EEXIST) return 1;
  if (!enter_namespace() || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 || !mount_disk(16 << 20))
    return CANNOT_MOUNT;
  if (save_once(1, WIDTH, &fitted) || !fitted) return 2;
  const int64_t one = bytes_used();
  for (int64_t size = one; !fitted || size == one; size += 4096) {
    if (umount(DIRECTORY) != 0 || !mount_disk(size)) return 3;
    const char *wrong = save_once(1, WIDTH, &fitted);
    if (wrong || !fitted) return (void)fprintf(stderr, "first: %s\n", wrong ? wrong : "does not fit"), 4;
    wrong = save_once(2, WIDTH, &fitted);
    if (wrong) return (void)fprintf(stderr, "%lld bytes: %s\n", (long long)size, wrong), 5;
    if (value_found(WIDTH) != (fitted ? 2 : 1)) return (void)fprintf(stderr, "%lld bytes\n", (long long)size), 6;
    refused += !fitted;
  }
  (void)fprintf(stderr, "refused on %d disks, of %lld bytes and more\n", refused, (long long)one);
  return refused > 3 ? 0 : 7;
}

static void a_small_disk(void **state) {
  (void)state;
  int status = 0;
  const pid_t pid = fork();
  assert_true(pid >= 0);
  if (pid == 0) _exit(save_on_small_disks());
  assert_int_equal(waitpid(pid, &status, 0), pid);
  if (WIFEXITED(status) && WEXITSTATUS(status) == CANNOT_MOUNT) {
    print_message("SKIPPED: this system does not let a process mount a tmpfs\n");
    return;
  }
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    TEST(a_small_disk), /* first: its process must not have threads */
    TEST(a_limit_on_the_size_of_files),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
