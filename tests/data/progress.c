/* The progress bar: one line a bar where there is no terminal; redrawn, and never too wide, on one.
   SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "situ/progress.h"

static char text[65536];

static void run_bar(int64_t total, int steps, const situ_progress_options *options) {
  situ_progress bar;
  situ_progress_begin(&bar, "epoch 1", total, options);
  for (int i = 0; i < steps; i++) {
    situ_progress_note(&bar, "loss %.2f", 0.5);
    situ_progress_add(&bar, 1);
    usleep(1000);
  }
  situ_progress_end(&bar);
}

/* What a bar writes when stderr is this descriptor, whose other end is `from`. */
static void capture(int to, int from, int64_t total, int steps, const situ_progress_options *options) {
  fflush(stderr);
  int kept = dup(STDERR_FILENO);
  dup2(to, STDERR_FILENO);
  run_bar(total, steps, options);
  dup2(kept, STDERR_FILENO);
  close(kept);
  close(to);
  size_t length = 0;
  ssize_t got;
  while (length < sizeof text - 1 && (got = read(from, text + length, sizeof text - 1 - length)) > 0)
    length += (size_t)got;
  text[length] = '\0';
  close(from);
}

static void one_line_where_there_is_no_terminal(void **state) {
  (void)state;
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  capture(ends[1], ends[0], 20, 20, &(situ_progress_options){ .unit = "batch" });
  assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
  assert_null(strchr(text, '\r'));
  assert_null(strchr(text, '\033'));
  assert_non_null(strstr(text, "epoch 1  20/20 ["));
  assert_non_null(strstr(text, "batch/s] loss 0.50\n"));
}

static void nothing_when_quiet(void **state) {
  (void)state;
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  capture(ends[1], ends[0], 20, 20, &(situ_progress_options){ .quiet = true });
  assert_string_equal(text, "");
}

static void unknown_totals(void **state) {
  (void)state;
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  capture(ends[1], ends[0], 0, 3, NULL);
  assert_non_null(strstr(text, "epoch 1  3 ["));
  assert_null(strchr(text, '<'));
}

/* What is left of nothing done is not known. */
static void nothing_done_yet(void **state) {
  (void)state;
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  capture(ends[1], ends[0], 20, 0, NULL);
  assert_non_null(strstr(text, "epoch 1  0/20 ["));
  assert_non_null(strstr(text, "<?, "));
}

/* A pseudo-terminal; its other end. */
static int open_terminal(int *to) {
  int master = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK);
  if (master < 0 || grantpt(master) != 0 || unlockpt(master) != 0) return -1;
  *to = open(ptsname(master), O_RDWR | O_NOCTTY);
  return *to < 0 ? -1 : master;
}

/* The widest line, in columns; how often it was drawn. */
static int widest(int *drawn) {
  int most = 0, columns = 0;
  *drawn = 0;
  for (const char *c = text; *c; c++) {
    if (*c == '\r' || *c == '\n') {
      if (columns > most) most = columns;
      if (columns > 0) ++*drawn;
      columns = 0;
    } else if (*c == '\033') {
      while (*c && *c != 'm' && *c != 'K') c++;
    } else if (((unsigned char)*c & 0xC0) != 0x80) {
      columns++;
    }
  }
  return most;
}

static void redraws_on_a_terminal(void **state) {
  (void)state;
  static const char *const widths[] = { "24", "40", "80", "200" };
  setenv("TERM", "xterm", 1);
  for (int w = 0; w < 4; w++)
    for (int plain = 0; plain < 2; plain++) {
      int to = -1, drawn, from = open_terminal(&to);
      if (from < 0) skip();
      const struct winsize size = { .ws_col = (unsigned short)atoi(widths[w]) };
      if (plain) setenv("COLUMNS", widths[w], 1);
      else unsetenv("COLUMNS");
      assert_int_equal(ioctl(to, TIOCSWINSZ, &size), 0);
      setenv("LC_ALL", plain ? "C" : "C.UTF-8", 1);
      if (plain) setenv("NO_COLOR", "1", 1);
      else unsetenv("NO_COLOR");
      capture(to, from, 300, 300, NULL);
      int most = widest(&drawn);
      if (most >= atoi(widths[w])) fail_msg("%d columns on a terminal of %s", most, widths[w]);
      /* 300 steps of a millisecond or more: ten a second, the first and the last. */
      assert_true(drawn >= 4 && drawn <= 40);
      assert_int_equal(strstr(text, "\033[32m") != NULL, !plain && w >= 2);
      assert_int_equal(strstr(text, "\xE2\x96\x88") != NULL, !plain && w >= 2);
      assert_non_null(strstr(text, "300/300"));
    }
  unsetenv("COLUMNS");
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(one_line_where_there_is_no_terminal),
    cmocka_unit_test(nothing_when_quiet),
    cmocka_unit_test(unknown_totals),
    cmocka_unit_test(nothing_done_yet),
    cmocka_unit_test(redraws_on_a_terminal),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
