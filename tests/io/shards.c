/* A model in several files beside a program that saves it without end: a reader finds the old one or the new one, whole; and
   what killed saves leave is swept.
   SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "situ/io.h"
#include "situ/ops.h"

#define DIRECTORY "shards"
#define TARGET DIRECTORY "/m.index.json"

enum { ROUNDS = 200, TENSORS = 12, ELEMENTS = 500 };

static situ_status save(const char *path, int64_t value) {
  const situ_options options = { .dtype = SITU_I64, .device = { .kind = SITU_CPU } };
  situ_scope scope;
  situ_scope_begin(&scope);
  situ_tree *tree = situ_tree_dict();
  for (int i = 0; i < TENSORS; i++) {
    char name[16];
    snprintf(name, sizeof name, "t%d", i);
    tree = situ_tree_put(tree, name, situ_tree_tensor(situ_full(SITU_SHAPE(ELEMENTS), (double)value, &options)));
  }
  situ_status status =
      situ_save(path, tree, &(situ_save_options){ .max_shard_bytes = 3 * ELEMENTS * 8, .no_sync = true });
  situ_tree_free(tree);
  situ_status ended = situ_scope_end(&scope);
  return status ? status : ended;
}

static int save_for_ever(void) {
  for (int64_t value = 1;; value++) {
    if (save(TARGET, value) != SITU_OK) return 1;
    if (value == 1 && write(STDOUT_FILENO, "s", 1) != 1) return 1;
  }
}

static char self[4096];

/* A fresh program, not a fork: it must not inherit this one's threads. Its first save is in place on return. */
static pid_t start_child(void) {
  int ends[2];
  char byte;
  assert_int_equal(pipe(ends), 0);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails leaves no writer behind */
    dup2(ends[1], STDOUT_FILENO);
    close(ends[0]);
    close(ends[1]);
    execl(self, self, "--save-for-ever", (char *)NULL);
    _exit(127);
  }
  close(ends[1]);
  assert_int_equal(read(ends[0], &byte, 1), 1);
  close(ends[0]);
  return child;
}

static void stop_child(pid_t child) {
  int status;
  assert_int_equal(kill(child, SIGKILL), 0);
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL); /* it did not end by itself before */
}

/* The generation that is there, the same in every element of every shard. */
static int64_t whole_generation(const char *path) {
  static int64_t values[ELEMENTS];
  int64_t first = -1;
  situ_tree *tree = situ_load(path, NULL);
  if (!tree) fail_msg("it cannot be read: %s", situ_error_message());
  assert_int_equal(situ_tree_count(tree), TENSORS);
  for (int i = 0; i < TENSORS; i++) {
    assert_int_equal(situ_copy_to_host(situ_tree_tensor_at(tree, i), values, sizeof values), SITU_OK);
    if (first < 0) first = values[0];
    for (int k = 0; k < ELEMENTS; k++) assert_true(values[k] == first);
  }
  situ_tree_free(tree);
  return first;
}

static void old_or_new(void **state) {
  (void)state;
  mkdir(DIRECTORY, 0755);
  pid_t child = start_child();
  int64_t last = 0, seen = 0;
  int reads = 0;
  for (; reads < ROUNDS || seen < ROUNDS / 10; reads++) {
    int64_t value = whole_generation(TARGET);
    assert_true(value >= last);
    seen += value != last;
    last = value;
  }
  stop_child(child);
  print_message("%d reads beside a save without end: %lld different ones of %lld, each whole\n", reads, (long long)seen,
                (long long)last);
}

/* Shards in the directory; made to look two hours old. */
static int shards(const char *stem, bool make_old) {
  int found = 0;
  DIR *list = opendir(DIRECTORY);
  assert_non_null(list);
  for (struct dirent *e; (e = readdir(list));) {
    if (strncmp(e->d_name, stem, strlen(stem)) != 0 || strstr(e->d_name, ".index.json")) continue;
    found++;
    const struct timespec long_ago[2] = { { .tv_sec = time(NULL) - 7200 }, { .tv_sec = time(NULL) - 7200 } };
    if (make_old) assert_int_equal(utimensat(dirfd(list), e->d_name, long_ago, 0), 0);
  }
  closedir(list);
  return found;
}

static void touch(const char *path, bool old) {
  int fd = open(path, O_WRONLY | O_CREAT, 0600);
  assert_true(fd >= 0);
  const struct timespec long_ago[2] = { { .tv_sec = time(NULL) - 7200 }, { .tv_sec = time(NULL) - 7200 } };
  if (old) assert_int_equal(futimens(fd, long_ago), 0);
  close(fd);
}

static void what_killed_saves_left_is_swept(void **state) {
  (void)state;
  enum { FULL = TENSORS / 3 };
  mkdir(DIRECTORY, 0755);
  uint64_t random = 0x9E3779B97F4A7C15u;
  int left = 0;
  for (int i = 0; i < 40; i++) {
    pid_t child = start_child();
    random = random * 6364136223846793005u + 1442695040888963407u;
    const struct timespec moment = { .tv_nsec = (long)(random >> 40) % 5000000 };
    nanosleep(&moment, NULL);
    stop_child(child);
    assert_true(whole_generation(TARGET) > 0);
  }
  left = shards("m-", true) - FULL;
  print_message("40 kills left %d shards\n", left);
  assert_true(left > 0);
  /* Of another index, whose files are called alike, of a save that is under way elsewhere, and of others. */
  assert_int_equal(save(DIRECTORY "/m.safetensors.index.json", 7), SITU_OK);
  shards("m-", true);
  touch(DIRECTORY "/m-00000001-00001-of-00002.safetensors", false);
  touch(DIRECTORY "/m-notatag0-00001-of-00002.safetensors", true);
  touch(DIRECTORY "/m-00001-of-00002.safetensors", true);
  touch(DIRECTORY "/mm-00000001-00001-of-00002.safetensors", true);
  assert_int_equal(save(TARGET, 1), SITU_OK);
  assert_int_equal(whole_generation(TARGET), 1);
  assert_int_equal(whole_generation(DIRECTORY "/m.safetensors.index.json"), 7);
  assert_int_equal(shards("m-", false), 2 * FULL + 3);
  assert_int_equal(shards("mm-", false), 1);
}

/* A shard that is gone for good is an error that names it, not a wait without end. */
static void a_lost_shard_is_told(void **state) {
  (void)state;
  mkdir(DIRECTORY, 0755);
  assert_int_equal(save(DIRECTORY "/lost.index.json", 1), SITU_OK);
  DIR *list = opendir(DIRECTORY);
  assert_non_null(list);
  for (struct dirent *e; (e = readdir(list));)
    if (strncmp(e->d_name, "lost-", 5) == 0 && strstr(e->d_name, "-00002-of-"))
      assert_int_equal(unlinkat(dirfd(list), e->d_name, 0), 0);
  closedir(list);
  assert_null(situ_load(DIRECTORY "/lost.index.json", NULL));
  assert_int_equal(situ_error(), SITU_E_IO);
  assert_non_null(strstr(situ_error_message(), "-00002-of-00004.safetensors"));
  situ_error_clear();
}

int main(int argc, char **argv) {
  if (argc == 2 && strcmp(argv[1], "--save-for-ever") == 0) return save_for_ever();
  ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
  if (length <= 0) return 77;
  self[length] = '\0';
  (void)situ_error_mode(SITU_ERROR_QUIET);
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(old_or_new),
    cmocka_unit_test(what_killed_saves_left_is_swept),
    cmocka_unit_test(a_lost_shard_is_told),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
