/* A test of the double in a process of its own: what devices there are is asked once in a process, and a device that was
   lost stays lost.
   SPDX-License-Identifier: MIT */
#ifndef SITU_CUDA_CHILD_H
#define SITU_CUDA_CHILD_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* In a child cmocka's assertions would go on in the parent's place. */
#define CHECK(condition)                                                            \
  do {                                                                              \
    if (!(condition)) {                                                             \
      (void)fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
      (void)fprintf(stderr, "  the error is: %s\n", situ_error_message());          \
      _exit(1);                                                                     \
    }                                                                               \
  } while (0)
/* The thread's error is this one, and its text contains `part`; it is cleared. */
#define CHECK_ERROR(status, part)                        \
  do {                                                   \
    CHECK(situ_error() == (status));                     \
    CHECK(strstr(situ_error_message(), (part)) != NULL); \
    situ_error_clear();                                  \
  } while (0)

/* Libraries are looked for in a directory with the runtime alone, from now on in this process. */
static inline void runtime_alone(void) {
  char from[4096], to[4096];
  CHECK(getcwd(to, sizeof to - 64) != NULL);
  (void)snprintf(from, sizeof from, "%s/libcudart.so.13", getenv("SITU_CUDA_PATH"));
  strcat(to, "/runtime");
  CHECK(mkdir(to, 0777) == 0 || access(to, F_OK) == 0);
  CHECK(setenv("SITU_CUDA_PATH", to, 1) == 0);
  strcat(to, "/libcudart.so.13");
  (void)unlink(to);
  CHECK(symlink(from, to) == 0);
}

/* What the body exits with, 0 if it returns; -1: it was killed. The parent must not have used any device. */
static inline int in_child(void (*body)(void *), void *payload) {
  (void)fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    body(payload);
    (void)fflush(NULL);
    _exit(0);
  }
  int status;
  if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status)) return -1;
  return WEXITSTATUS(status);
}

#endif
