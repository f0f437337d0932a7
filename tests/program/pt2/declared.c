/* A .pt2 file whose declared dtype or size of a node differs from what would be computed is refused when it is loaded, by
   the node's name: the stored programs, with the declarations of their nodes changed one at a time.
   SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "situ/situ.h"

enum { MOST = 512 << 10, OF_A_FILE = 8 };
static char bytes[MOST + 1];
static size_t size;
static int tried, refused;

static void read_file(const char *path) {
  FILE *f = fopen(path, "rb");
  if (!f) fail_msg("%s: cannot be opened", path);
  size = fread(bytes, 1, MOST, f);
  assert_true(size > 0 && size < MOST);
  bytes[size] = 0;
  assert_int_equal(fclose(f), 0);
}

static const char *find(const char *from, const char *text) {
  const size_t length = strlen(text);
  for (const char *at = from; at && at + length <= bytes + size; at++)
    if (memcmp(at, text, length) == 0) return at;
  return NULL;
}

static situ_nn_module *load_changed(void) {
  FILE *f = fopen("redeclared.pt2", "wb");
  assert_non_null(f);
  assert_true(fwrite(bytes, 1, size, f) == size);
  assert_int_equal(fclose(f), 0);
  return situ_export_load("redeclared.pt2", NULL);
}

/* Loads the changed file, which must be refused with the name; then takes the change back. */
static void refuses(char *at, char instead, const char *name) {
  char wanted[160];
  const char before = *at;
  *at = instead;
  situ_nn_module *m = load_changed();
  (void)snprintf(wanted, sizeof wanted, ": %s is computed as ", name);
  tried++;
  if (!m && situ_error() == SITU_E_FORMAT && strstr(situ_error_message(), wanted)) refused++;
  else print_message("%s, '%c' instead of '%c': %s\n", name, instead, before, m ? "loads" : situ_error_message());
  situ_error_clear();
  situ_nn_free(m);
  *at = before;
}

/* Changes what the file declares of the node's first result: its dtype, and the first size that is a number. */
static void redeclare(const char *name) {
  char key[160];
  (void)snprintf(key, sizeof key, "\"%s\": {\"dtype\": ", name);
  char *at = (char *)find(bytes, key);
  if (!at) return;
  char *dtype = at + strlen(key), *end = (char *)find(dtype, "\"requires_grad\""),
       *number = (char *)find(at, "as_int\": ");
  refuses(dtype, *dtype == '7' ? '8' : '7', name);
  if (!number || number > end) return;
  number += strlen("as_int\": ");
  refuses(number, *number == '9' ? '8' : (char)(*number + 1), name);
}

/* Some nodes of one file, from different parts of it. */
static void redeclare_nodes(const char *path) {
  static const char output[] = "\"outputs\": [{\"as_tensor\": {\"name\": \"";
  int count = 0;
  read_file(path);
  for (const char *at = bytes; (at = find(at, output)); at++) count++;
  const int step = count / OF_A_FILE + 1;
  int k = 0;
  for (const char *at = bytes; (at = find(at, output)); k++) {
    char name[128];
    at += sizeof output - 1;
    if (k % step) continue;
    (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(at, "\""), at);
    redeclare(name);
  }
}

static void refuses_other_declarations(void **state) {
  (void)state;
  char directory[512], path[1024];
  const char *root = getenv("SITU_TEST_ROOT");
  situ_scope scope;
  situ_scope_begin(&scope);
  (void)snprintf(directory, sizeof directory, "%.400s/program/data", root ? root : ".");
  DIR *list = opendir(directory);
  assert_non_null(list);
  situ_error_mode(SITU_ERROR_QUIET);
  for (struct dirent *e; (e = readdir(list));) {
    const char *end = strrchr(e->d_name, '.');
    if (!end || strcmp(end, ".pt2") != 0) continue;
    (void)snprintf(path, sizeof path, "%s/%.200s", directory, e->d_name);
    redeclare_nodes(path);
  }
  closedir(list);
  situ_error_mode(SITU_ERROR_LOG);
  print_message("%d of %d changed declarations are refused\n", refused, tried);
  assert_true(tried >= 100);
  assert_int_equal(refused, tried);
  assert_int_equal(situ_scope_end(&scope), SITU_OK);
}

/* The second list of a call on lists, without its last tensor. */
static void refuses_lists_that_differ(void **state) {
  (void)state;
  char path[512];
  const char *root = getenv("SITU_TEST_ROOT");
  (void)snprintf(path, sizeof path, "%.400s/program/data/calls.pt2", root ? root : ".");
  read_file(path);
  char *at = (char *)find(find(find(bytes, "_foreach_add.List"), "\"other\""), "},{");
  assert_non_null(at);
  memset(at + 1, ' ', (size_t)(strchr(at + 1, '}') - at));
  situ_error_mode(SITU_ERROR_QUIET);
  assert_null(load_changed());
  situ_error_mode(SITU_ERROR_LOG);
  assert_non_null(strstr(situ_error_message(), "_foreach_add.List has lists that differ"));
  situ_error_clear();
}

int main(void) {
  const struct CMUnitTest tests[] = { cmocka_unit_test(refuses_other_declarations),
                                      cmocka_unit_test(refuses_lists_that_differ) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
