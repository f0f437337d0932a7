/* A program that saves without end is killed at 200 random moments: the file is always whole.
   SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "situ/io.h"
#include "situ/ops.h"
#include "support/test.h"

#define DIRECTORY "killed"
#define TARGET DIRECTORY "/m.safetensors"

enum { KILLS = 200, TENSORS = 8, ELEMENTS = 40000 };

static situ_tree *generation(int64_t value) {
  const situ_options options = { .dtype = SITU_I64, .device = { .kind = SITU_CPU } };
  situ_tree *tree = situ_tree_dict();
  for (int i = 0; i < TENSORS; i++) {
    char name[16];
    snprintf(name, sizeof name, "t%d", i);
    tree = situ_tree_put(tree, name, situ_tree_tensor(situ_full(SITU_SHAPE(ELEMENTS), (double)value, &options)));
  }
  return tree;
}

static void save_once(void) {
  situ_scope scope;
  situ_scope_begin(&scope);
  situ_tree *tree = generation(1);
  assert_int_equal(situ_save(TARGET, tree, NULL), SITU_OK);
  situ_tree_free(tree);
  assert_int_equal(situ_scope_end(&scope), SITU_OK);
}

/* The child: one generation after the other, until it is killed. Every second one waits for the
   disk. */
static int save_for_ever(int64_t from) {
  for (int64_t value = from;; value++) {
    situ_scope scope;
    situ_scope_begin(&scope);
    situ_tree *tree = generation(value);
    if (situ_save(TARGET, tree, &(situ_save_options){ .no_sync = value % 2 }) != SITU_OK) return 1;
    situ_tree_free(tree);
    if (situ_scope_end(&scope) != SITU_OK) return 1;
    if (value == from && write(STDOUT_FILENO, "s", 1) != 1) return 1;
  }
}

/* The generation in the file, every element of it. */
static int64_t whole_generation(void) {
  situ_tree *tree = situ_load(TARGET, NULL);
  if (!tree) fail_msg("the file is damaged: %s", situ_error_message());
  assert_int_equal(situ_tree_count(tree), TENSORS);
  static int64_t values[ELEMENTS];
  int64_t first = -1;
  for (int i = 0; i < TENSORS; i++) {
    assert_int_equal(situ_copy_to_host(situ_tree_tensor_at(tree, i), values, sizeof values), SITU_OK);
    if (first < 0) first = values[0];
    for (int k = 0; k < ELEMENTS; k++) assert_true(values[k] == first);
  }
  situ_tree_free(tree);
  return first;
}

static int left_behind(bool make_old) {
  int found = 0;
  DIR *list = opendir(DIRECTORY);
  assert_non_null(list);
  for (struct dirent *e; (e = readdir(list));) {
    if (!strstr(e->d_name, ".tmp.")) continue;
    found++;
    const struct timespec long_ago[2] = { { .tv_sec = time(NULL) - 7200 }, { .tv_sec = time(NULL) - 7200 } };
    if (make_old) assert_int_equal(utimensat(dirfd(list), e->d_name, long_ago, 0), 0);
  }
  closedir(list);
  return found;
}

static char self[4096];

/* A fresh program, not a fork: it must not inherit this one's threads. */
static pid_t start_child(int64_t from, int *ready) {
  int ends[2];
  char number[32];
  assert_int_equal(pipe(ends), 0);
  snprintf(number, sizeof number, "%lld", (long long)from);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    dup2(ends[1], STDOUT_FILENO);
    close(ends[0]);
    close(ends[1]);
    execl(self, self, "--save-for-ever", number, (char *)NULL);
    _exit(127);
  }
  close(ends[1]);
  *ready = ends[0];
  return child;
}

static void survives_being_killed(void **state) {
  (void)state;
  uint64_t random = 0x9E3779B97F4A7C15u;
  int64_t last = 0, saved = 0;
  const int kills = test_is_slow() ? KILLS / 4 : KILLS;
  mkdir(DIRECTORY, 0755);
  int64_t live = situ_live_tensors();
  for (int i = 0; i < kills; i++) {
    int ready;
    char byte;
    pid_t child = start_child(last + 1, &ready);
    assert_int_equal(read(ready, &byte, 1), 1); /* its first generation is in place */
    random ^= random << 13;
    random ^= random >> 7;
    random ^= random << 17;
    const struct timespec moment = { .tv_nsec = (long)(random % 12000000) };
    nanosleep(&moment, NULL);
    assert_int_equal(kill(child, SIGKILL), 0);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    close(ready);
    int64_t value = whole_generation();
    assert_true(value > last);
    saved += value - last;
    last = value;
  }
  int torn = left_behind(true);
  print_message("%d kills, %lld generations saved, %d killed in the middle of writing one: the "
                "file whole each time\n",
                kills, (long long)saved, torn);
  assert_true(torn > kills / 20);
  /* The next save removes what they left, now that it is old. */
  situ_scope scope;
  situ_scope_begin(&scope);
  situ_tree *tree = generation(last + 1);
  assert_int_equal(situ_save(TARGET, tree, NULL), SITU_OK);
  situ_tree_free(tree);
  assert_int_equal(situ_scope_end(&scope), SITU_OK);
  assert_int_equal(left_behind(false), 0);
  assert_int_equal(situ_live_tensors(), live);
}

/* What another live process is writing, or wrote a moment ago, is left alone. */
static void leaves_new_files_of_others(void **state) {
  (void)state;
  static const char *const names[] = { "/.m.safetensors.tmp.1.00000000",
                                       "/.m.safetensors.tmp.999999999.00000001",
                                       "/.other.tmp.999999999.00000002",
                                       "/.m.safetensors.tmp.x.00000003",
                                       "/.m.safetensors.tmp.999999999-00000004",
                                       "/.m.safetensors.tmp.999999999.0000000x",
                                       "/.m.safetensors.tmp.999999999.00000006.old" };
  enum { NAMES = sizeof names / sizeof *names };
  char path[128];
  for (int i = 0; i < NAMES; i++) {
    snprintf(path, sizeof path, DIRECTORY "%s", names[i]);
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    assert_true(fd >= 0);
    /* Old, but of a live process (1), of another target, or no name of ours; the second is of a
       dead one, but new. */
    const struct timespec long_ago[2] = { { .tv_sec = time(NULL) - 7200 }, { .tv_sec = time(NULL) - 7200 } };
    if (i != 1) assert_int_equal(futimens(fd, long_ago), 0);
    close(fd);
  }
  save_once();
  for (int i = 0; i < NAMES; i++) {
    snprintf(path, sizeof path, DIRECTORY "%s", names[i]);
    assert_int_equal(unlink(path), 0);
  }
}

/* A process that is killed in a save and comes back under its own number removes what it left then. */
static void removes_old_files_of_its_own_number(void **state) {
  (void)state;
  const time_t ages[] = { 7200, 60 }; /* the second may be a save that goes on */
  char path[2][128];
  for (int i = 0; i < 2; i++) {
    snprintf(path[i], sizeof path[i], DIRECTORY "/.m.safetensors.tmp.%ld.0000000%d", (long)getpid(), i);
    const int fd = open(path[i], O_WRONLY | O_CREAT, 0600);
    const struct timespec then = { .tv_sec = time(NULL) - ages[i] };
    assert_int_equal(futimens(fd, (const struct timespec[]){ then, then }), 0);
    close(fd);
  }
  save_once();
  assert_int_equal(access(path[0], F_OK), -1);
  assert_int_equal(unlink(path[1]), 0);
}

int main(int argc, char **argv) {
  if (argc == 3 && strcmp(argv[1], "--save-for-ever") == 0) return save_for_ever(strtoll(argv[2], NULL, 10));
  ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
  if (length <= 0) return 77;
  self[length] = '\0';
  const struct CMUnitTest tests[] = { cmocka_unit_test(survives_being_killed),
                                      cmocka_unit_test(leaves_new_files_of_others),
                                      cmocka_unit_test(removes_old_files_of_its_own_number) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
