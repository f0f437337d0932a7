/* Backends in modules: every way in which one can be missing or wrong has its own reason, and
   nothing relative is opened.
   SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "device/device.h"

/* The tests run in a directory of their own. */
static void write_file(const char *path, const char *text) {
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  assert_true(fputs(text, file) >= 0);
  assert_int_equal(fclose(file), 0);
}

static void not_there(void **state) {
  (void)state;
  char reason[512] = "";
  assert_int_equal(setenv("SITU_MODULE_DIR", "/nowhere", 1), 0);
  assert_null(situ__module_open("cuda", SITU_CUDA, reason, sizeof reason));
  assert_string_equal(reason, "this build has no cuda module (looked for /nowhere/libsitu-cuda.so)");
}

static void beside_the_library(void **state) {
  (void)state;
  char reason[512] = "";
  assert_int_equal(unsetenv("SITU_MODULE_DIR"), 0);
  assert_null(situ__module_open("absent", SITU_CUDA, reason, sizeof reason));
  assert_non_null(strstr(reason, "/situ/0/libsitu-absent.so)"));
  assert_non_null(strstr(reason, "(looked for /"));
}

static void no_library(void **state) {
  (void)state;
  char here[4096];
  char reason[512] = "";
  assert_non_null(getcwd(here, sizeof here));
  write_file("libsitu-broken.so", "this is no library\n");
  assert_int_equal(setenv("SITU_MODULE_DIR", here, 1), 0);
  assert_null(situ__module_open("broken", SITU_CUDA, reason, sizeof reason));
  assert_non_null(strstr(reason, "the broken module cannot be opened: "));
  assert_non_null(strstr(reason, "libsitu-broken.so"));
  assert_int_equal(unlink("libsitu-broken.so"), 0);
}

/* Two modules that differ in their number alone (support/numbered). */
static void of_another_number(void **state) {
  (void)state;
  char here[4096], directory[4200], reason[512] = "";
  assert_non_null(getcwd(here, sizeof here));
  snprintf(directory, sizeof directory, "%s/../../support/numbered", here);
  assert_int_equal(setenv("SITU_MODULE_DIR", directory, 1), 0);
  assert_null(situ__module_open("other", SITU_CUDA, reason, sizeof reason));
  assert_non_null(strstr(reason, "/libsitu-other.so was made for another version of situ"));
  const situ_backend *backend = situ__module_open("this", SITU_CUDA, reason, sizeof reason);
  assert_non_null(backend);
  assert_int_equal(backend->abi, SITU_BACKEND_ABI);
}

/* A file of the right name in the current directory, and a directory that is not absolute. */
static void nothing_relative(void **state) {
  (void)state;
  char reason[512] = "";
  (void)mkdir("situ", 0755);
  (void)mkdir("situ/0", 0755);
  write_file("situ/0/libsitu-trap.so", "trap");
  write_file("libsitu-trap.so", "trap");
  assert_int_equal(setenv("SITU_MODULE_DIR", ".", 1), 0);
  assert_null(situ__module_open("trap", SITU_CUDA, reason, sizeof reason));
  assert_null(strstr(reason, "cannot be opened"));
  assert_int_equal(unlink("situ/0/libsitu-trap.so"), 0);
  assert_int_equal(unlink("libsitu-trap.so"), 0);
}

/* Where modules are looked for, by a program that was started as `name`: nowhere near that, with a module planted there. */
static void started_as(const char *name) {
  char reason[512] = "";
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    dup2(ends[1], STDOUT_FILENO);
    (void)unsetenv("SITU_MODULE_DIR");
    execl("/proc/self/exe", name, "--look", (char *)NULL);
    _exit(127);
  }
  close(ends[1]);
  size_t length = 0;
  for (ssize_t more; (more = read(ends[0], reason + length, sizeof reason - 1 - length)) > 0;) length += (size_t)more;
  close(ends[0]);
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  assert_null(strstr(reason, "planted"));
  assert_non_null(strstr(reason, "(looked for /"));
}

static void not_where_argv_says(void **state) {
  (void)state;
  char here[4096], path[4200];
  assert_non_null(getcwd(here, sizeof here));
  (void)mkdir("planted", 0755);
  (void)mkdir("planted/situ", 0755);
  (void)mkdir("planted/situ/0", 0755);
  write_file("planted/situ/0/libsitu-trap.so", "trap");
  snprintf(path, sizeof path, "%s/planted/program", here);
  started_as(path);
  started_as("planted/program");
  assert_int_equal(unlink("planted/situ/0/libsitu-trap.so"), 0);
}

/* ---- a set-uid program ---- */

enum { ITS_USER = 12345, OTHER_USER = 54321 };

/* A copy of this program, set-uid. Returns false where that cannot be made. */
static bool copy_set_uid(const char *to) {
  char bytes[65536];
  FILE *from = fopen("/proc/self/exe", "r"), *file = fopen(to, "w");
  bool good = from && file;
  for (size_t count; good && (count = fread(bytes, 1, sizeof bytes, from)) > 0;)
    good = fwrite(bytes, 1, count, file) == count;
  if (from) fclose(from);
  if (file) fclose(file);
  return good && chown(to, ITS_USER, ITS_USER) == 0 && chmod(to, 04755) == 0;
}

/* Whether the copy in this directory tries to open the module beside it. */
static bool opens_module_of(const char *directory, unsigned user, unsigned mode) {
  char reason[512] = "", module[64], command[128];
  snprintf(module, sizeof module, "%s/situ/0/libsitu-trap.so", directory);
  snprintf(command, sizeof command, "ASAN_OPTIONS=detect_leaks=0 exec %s/test_device_module --look", directory);
  assert_int_equal(chown(module, user, user), 0);
  assert_int_equal(chmod(module, mode), 0);
  FILE *said = popen(command, "r");
  assert_non_null(said);
  reason[fread(reason, 1, sizeof reason - 1, said)] = 0;
  if (pclose(said) != 0) skip(); /* it cannot be run here: a file system without set-uid programs */
  const bool tried = strstr(reason, "cannot be opened") != NULL;
  assert_true(tried || strstr(reason, "is not opened in a set-uid program"));
  return tried;
}

static void a_set_uid_program_opens_its_own(void **state) {
  (void)state;
  /* Not in the build, which may lie below a directory that its user cannot enter. */
  char directory[] = "/tmp/situ-set-XXXXXX", path[sizeof directory + 32];
  if (geteuid() != 0 || !mkdtemp(directory) || chmod(directory, 0755) != 0) skip();
  static const char *const parts[] = { "/situ", "/situ/0", "/situ/0/libsitu-trap.so", "/test_device_module" };
  for (int i = 0; i < 2; i++) {
    snprintf(path, sizeof path, "%s%s", directory, parts[i]);
    assert_int_equal(mkdir(path, 0755), 0);
  }
  snprintf(path, sizeof path, "%s%s", directory, parts[2]);
  write_file(path, "trap");
  snprintf(path, sizeof path, "%s%s", directory, parts[3]);
  if (!copy_set_uid(path)) skip();
  assert_int_equal(unsetenv("SITU_MODULE_DIR"), 0);
  assert_true(opens_module_of(directory, ITS_USER, 0644));
  assert_true(opens_module_of(directory, 0, 0644));
  assert_false(opens_module_of(directory, OTHER_USER, 0644));
  assert_false(opens_module_of(directory, ITS_USER, 0664));
  assert_false(opens_module_of(directory, 0, 0646));
  for (int i = 3; i >= 0; i--) {
    snprintf(path, sizeof path, "%s%s", directory, parts[i]);
    assert_int_equal(remove(path), 0);
  }
  assert_int_equal(rmdir(directory), 0);
}

static int look(void) {
  char reason[512] = "";
  if (situ__module_open("trap", SITU_CUDA, reason, sizeof reason)) return 1;
  return fputs(reason, stdout) < 0;
}

int main(int argc, char **argv) {
  if (argc == 2 && strcmp(argv[1], "--look") == 0) return look();
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(not_where_argv_says), cmocka_unit_test(not_there),
    cmocka_unit_test(beside_the_library),  cmocka_unit_test(no_library),
    cmocka_unit_test(nothing_relative),    cmocka_unit_test(a_set_uid_program_opens_its_own),
    cmocka_unit_test(of_another_number),
  };
  return cmocka_run_group_tests_name("device/module", tests, NULL, NULL);
}
