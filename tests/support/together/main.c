/* All tests in one program (SITU_TESTS_TOGETHER): the name under which it is started says which one runs. Where a test starts
   itself again, as /proc/self/exe, the environment says it.
   SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PLAIN(name) int main_of_##name(void);
#define WITH_ARGUMENTS(name) int main_of_##name(int argc, char **argv);
#include "together.inc"
#undef PLAIN
#undef WITH_ARGUMENTS

#define PLAIN(name) \
  static int run_##name(int argc, char **argv) { return (void)argc, (void)argv, main_of_##name(); }
#define WITH_ARGUMENTS(name) \
  static int run_##name(int argc, char **argv) { return main_of_##name(argc, argv); }
#include "together.inc"
#undef PLAIN
#undef WITH_ARGUMENTS

static const struct {
  const char *name;
  int (*run)(int argc, char **argv);
} tests[] = {
#define PLAIN(name) { #name, run_##name },
#define WITH_ARGUMENTS PLAIN
#include "together.inc"
};
enum { TESTS = sizeof tests / sizeof *tests };

static int find(const char *path) {
  const char *slash = path ? strrchr(path, '/') : NULL, *name = slash ? slash + 1 : path;
  int k = 0;
  while (k < TESTS && (!name || strcmp(tests[k].name, name) != 0)) k++;
  return k;
}

int main(int argc, char **argv) {
  static const char variable[] = "SITU_TESTS_NAME";
  int test = find(argv[0]);
  if (test == TESTS) test = find(getenv(variable));
  if (test < TESTS && setenv(variable, tests[test].name, 1) == 0) return tests[test].run(argc, argv);
  fprintf(stderr, "%s: start it under the name of a test, such as %s\n", argv[0], tests[0].name);
  return 2;
}
