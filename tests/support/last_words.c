/* A crash or a failed assertion in a thread that is not the test's: cmocka ends the program from there, and what it had to
   say stays in that thread. Where it was is said instead.
   SPDX-License-Identifier: MIT */
#include "support/last_words.h"

#include <stdlib.h>

#ifdef __GLIBC__
#include <execinfo.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { FRAMES = 64 };

static pthread_t tests_thread;

static void say(int status, void *nothing) {
  (void)nothing;
  if (status == 0 || pthread_equal(pthread_self(), tests_thread)) return;
  static const char text[] = "another thread than the test's crashed or failed an assertion, in:\n";
  void *frames[FRAMES];
  const int count = backtrace(frames, FRAMES);
  (void)fflush(NULL);
  if (write(STDERR_FILENO, text, strlen(text)) > 0) backtrace_symbols_fd(frames, count, STDERR_FILENO);
}

void last_words_begin(void) {
  static bool begun;
  tests_thread = pthread_self();
  if (!begun) begun = on_exit(say, NULL) == 0;
}
#else
void last_words_begin(void) {}
#endif
