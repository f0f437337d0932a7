/* test-devices: opencl:0 only */
/* test-links: situ_test_shim */
/* test-sanitized: opencl */
/* Compiled programs on disk: what is there is not compiled again, what is damaged is, several processes may begin at once with
   nothing, old ones go where there are too many, and without a directory it only takes longer. What is compiled once stays in
   a process, so each look at the directory is a process of its own.
   SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/opencl/shim.h"
#include "support/test.h"

#define FILES "cache/situ/opencl"

/* ---- a process ------------------------------------------------------------------------------ */

enum { PROGRAMS = 7, WRONG = 100 };

/* Uses programs [from, to). Returns the exit code: how many were compiled. */
static int use_programs(int from, int to) {
  situ_tensor *(*const call[PROGRAMS])(situ_tensor *) = { situ_neg,  situ_abs,   situ_square, situ_floor,
                                                          situ_ceil, situ_trunc, situ_sign };
  static const float value[] = { -1.5f, 2.25f },
                     want[PROGRAMS][2] = { { 1.5f, -2.25f }, { 1.5f, 2.25f }, { 2.25f, 5.0625f }, { -2, 2 },
                                           { -1, 3 },        { -1, 2 },       { -1, 1 } };
  situ_tensor *x = situ_from_host(value, sizeof value, SITU_SHAPE(2), &(situ_options){ .device = test_device() });
  for (int k = from; k < to; k++) {
    float got[2] = { 0 };
    if (situ_copy_to_host(call[k](x), got, sizeof got) == SITU_OK && memcmp(got, want[k], sizeof got) == 0) continue;
    fprintf(stderr, "program %d: %g %g; %s\n", k, (double)got[0], (double)got[1], situ_error_message());
    return WRONG;
  }
  return (int)shim_calls("clCreateProgramWithSource");
}

static int use(int from, int to) {
  situ_scope all;
  situ_scope_begin(&all);
  const int code = use_programs(from, to);
  return situ_scope_end(&all) == SITU_OK ? code : WRONG;
}

/* A file in order, but for what the driver will say of it. */
static int make_foreign(const char *path) {
  const char text[] = "a program of another driver's";
  uint64_t sum = 0xcbf29ce484222325u, bytes = sizeof text;
  for (size_t i = 0; i < sizeof text; i++) sum = (sum ^ (unsigned char)text[i]) * 0x100000001b3u;
  FILE *file = fopen(path, "w");
  if (!file) return WRONG;
  bool good = fwrite("situ-cl1", 8, 1, file) && fwrite(&bytes, 8, 1, file) && fwrite(&sum, 8, 1, file) &&
              fwrite(text, sizeof text, 1, file);
  return fclose(file) == 0 && good ? 0 : WRONG;
}

/* What a command for /bin/sh ends with. */
static int run(const char *command) {
  int status = system(command);
  if (!WIFEXITED(status)) fail_msg("%s ended by signal %d", command, WTERMSIG(status));
  return WEXITSTATUS(status);
}

static int compiled(int from, int to) {
  char command[64];
  snprintf(command, sizeof command, "exec \"$SELF\" %d %d", from, to);
  return run(command);
}

static void begin_with_nothing(void) {
  char here[1024], path[1100];
  (void)test_device();
  assert_non_null(getcwd(here, sizeof here));
  snprintf(path, sizeof path, "%s/cache", here);
  setenv("XDG_CACHE_HOME", path, 1);
  snprintf(path, sizeof path, "/proc/%ld/exe", (long)getpid());
  setenv("SELF", path, 1);
  unsetenv("SITU_OPENCL_CACHE_MIB");
  assert_int_equal(run("rm -rf cache"), 0);
}

/* ---- tests ---------------------------------------------------------------------------------- */

static void what_is_there_is_not_compiled(void **state) {
  (void)state;
  begin_with_nothing();
  assert_int_equal(compiled(0, 3), 3);
  assert_int_equal(compiled(0, 3), 0);
  assert_int_equal(compiled(0, 4), 1);
  assert_int_equal(run("test $(ls " FILES " | grep -v -e lock -e tried | wc -l) = 4"), 0);
}

static void four_at_once(void **state) {
  (void)state;
  begin_with_nothing();
  /* PoCL has a cache too. Each program is compiled by one of them. */
  assert_int_equal(run("POCL_CACHE_DIR=$XDG_CACHE_HOME/pocl; export POCL_CACHE_DIR\n"
                       "for i in 1 2 3 4; do \"$SELF\" 0 7 & all=\"$all $!\"; done; sum=0\n"
                       "for i in $all; do wait $i; sum=$((sum + $?)); done; exit $sum"),
                   7);
  assert_int_equal(run("test $(ls " FILES " | grep -v -e lock -e tried | wc -l) = 7"),
                   0);                 /* and nothing half written beside them */
  assert_int_equal(compiled(0, 7), 0); /* and none is torn */
}

static void damaged_files_are_made_again(void **state) {
  static const char *const damage[] = {
    ": >$f",
    "truncate -s 8 $f",
    "truncate -s -1 $f",
    "printf lost | dd of=$f bs=1 seek=999 conv=notrunc 2>/dev/null",
    "printf '\\377' | dd of=$f bs=1 seek=15 conv=notrunc 2>/dev/null", /* it says that it is very long */
    "cp /bin/sh $f",
  };
  (void)state;
  begin_with_nothing();
  assert_int_equal(compiled(0, 2), 2);
  for (size_t k = 0; k < sizeof damage / sizeof *damage; k++) {
    char command[256];
    snprintf(command, sizeof command, "for f in " FILES "/[0-9a-f]*; do %s || exit 1; done", damage[k]);
    assert_int_equal(run(command), 0);
    assert_int_equal(compiled(0, 2), 2);
    assert_int_equal(compiled(0, 2), 0);
  }
}

/* A program of another driver's, whole but of no use here. */
static void what_the_driver_refuses_is_made_again(void **state) {
  (void)state;
  begin_with_nothing();
  assert_int_equal(compiled(0, 1), 1);
  assert_int_equal(run("f=$(echo " FILES "/[0-9a-f]*); exec \"$SELF\" $f"), 0);
  assert_int_equal(compiled(0, 1), 1);
  assert_int_equal(compiled(0, 1), 0);
}

static void old_ones_go(void **state) {
  (void)state;
  begin_with_nothing();
  assert_int_equal(compiled(0, 2), 2);
  /* The first two, of two hours ago, and 30 that were used since; one that somebody is writing, one whose writer is gone, and
     what is nobody's business. */
  assert_int_equal(run("cd " FILES " && touch -d '2 hours ago' * && for i in $(seq 30); do f=$(printf %032d $i)\n"
                       "head -c 50000 /dev/zero >$f && touch -d '1 hour ago' $f || exit 1; done\n"
                       "touch $f.78 && touch -d '1 day ago' $f.77 notes"),
                   0);
  setenv("SITU_OPENCL_CACHE_MIB", "1", 1);
  assert_int_equal(compiled(0, 1), 0); /* it is of use: the other is the oldest now */
  assert_int_equal(compiled(2, 3), 1);
  assert_int_equal(run("cd " FILES " && test $(cat * | wc -c) -le 917504 && test $(cat * | wc -c) -ge 800000"), 0);
  assert_int_equal(run("cd " FILES " && ls notes *.78 >/dev/null && ! ls *.77 2>/dev/null"), 0);
  assert_int_equal(compiled(0, 1), 0);
  assert_int_equal(compiled(1, 2), 1);
}

static void no_more_than_the_bound(void **state) {
  (void)state;
  begin_with_nothing();
  setenv("SITU_OPENCL_CACHE_MIB", "0", 1);
  assert_int_equal(compiled(0, 2), 2);
  assert_int_equal(compiled(0, 1), 1);
  setenv("SITU_OPENCL_CACHE_MIB", "many", 1);
  assert_int_equal(compiled(0, 1), 1);
  assert_int_equal(compiled(0, 1), 0);
}

static void without_a_directory(void **state) {
  (void)state;
  begin_with_nothing();
  assert_int_equal(compiled(0, 2), 2);
  assert_int_equal(run("chmod 500 " FILES), 0);
  assert_int_equal(compiled(0, 2), 0);
  if (geteuid() != 0) assert_int_equal(compiled(0, 3), 1); /* nothing keeps root from writing there */
  if (geteuid() != 0) assert_int_equal(compiled(0, 3), 1);
  assert_int_equal(run("rm -rf cache && : >cache"), 0);
  assert_int_equal(compiled(0, 2), 2);
  setenv("XDG_CACHE_HOME", "/proc/nowhere", 1);
  assert_int_equal(compiled(0, 2), 2);
  setenv("XDG_CACHE_HOME", "cache", 1); /* not absolute: as if it were not set */
  assert_int_equal(run("HOME=$PWD/home \"$SELF\" 0 1"), 1);
  assert_int_equal(run("HOME=$PWD/home \"$SELF\" 0 1"), 0);
  assert_int_equal(run("test -d home/.cache/situ/opencl && rm -rf home"), 0);
  assert_int_equal(run("unset HOME XDG_CACHE_HOME; \"$SELF\" 0 1"), 1);
}

/* What others could have written is neither read nor added to. */
static void a_directory_of_others_is_not_trusted(void **state) {
  (void)state;
  begin_with_nothing();
  assert_int_equal(compiled(0, 1), 1);
  assert_int_equal(run("chmod 777 " FILES), 0);
  assert_int_equal(compiled(0, 1), 1);
  assert_int_equal(run("chmod 720 " FILES), 0);
  assert_int_equal(compiled(0, 1), 1);
  assert_int_equal(run("chmod 700 " FILES), 0);
  assert_int_equal(compiled(0, 1), 0);
  if (geteuid() == 0) assert_int_equal(run("chown 12345 " FILES), 0);
  assert_int_equal(compiled(0, 1), geteuid() == 0);
}

int main(int argc, char **argv) {
  if (argc == 3) return use(atoi(argv[1]), atoi(argv[2]));
  if (argc == 2) return make_foreign(argv[1]);
  const struct CMUnitTest tests[] = {
    TEST(what_is_there_is_not_compiled),
    TEST(four_at_once),
    TEST(damaged_files_are_made_again),
    TEST(what_the_driver_refuses_is_made_again),
    TEST(old_ones_go),
    TEST(no_more_than_the_bound),
    TEST(without_a_directory),
    TEST(a_directory_of_others_is_not_trusted),
  };
  return cmocka_run_group_tests_name("backend/opencl/cache", tests, NULL, NULL);
}
