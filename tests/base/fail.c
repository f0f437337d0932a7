/* The error model: the first error of a thread is kept, others are counted, NULL passes through.
   SPDX-License-Identifier: MIT */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/utf8.h"
#include "situ/sys/op.h"

static int logged;
static char last_line[8192];

static void note_line(const char *message, void *payload) {
  assert_ptr_equal(payload, &logged);
  logged++;
  (void)snprintf(last_line, sizeof last_line, "%s", message);
}

static int fresh(void **state) {
  (void)state;
  situ_error_clear();
  situ_error_log(note_line, &logged);
  (void)situ_error_mode(SITU_ERROR_LOG);
  logged = 0;
  *last_line = 0;
  return 0;
}

static void no_error(void **state) {
  (void)state;
  const situ_error_operand *list = (void *)&logged;
  assert_int_equal(situ_error(), SITU_OK);
  assert_string_equal(situ_error_message(), "");
  assert_string_equal(situ_error_op(), "");
  assert_int_equal(situ_error_operands(&list), 0);
  assert_null(list);
}

static void names(void **state) {
  (void)state;
  assert_string_equal(situ_status_name(SITU_OK), "OK");
  assert_string_equal(situ_status_name(SITU_E_OVERFLOW), "OVERFLOW");
  assert_string_equal(situ_status_name(SITU_E_ALIAS), "ALIAS");
  assert_string_equal(situ_status_name((situ_status)99), "?");
  assert_string_equal(situ_status_name((situ_status)-1), "?");
}

static void first_one_stays(void **state) {
  (void)state;
  uint64_t before = situ__error_count();
  assert_int_equal(situ__fail(SITU_E_SHAPE, "matmul", "%d and %d differ", 784, 768), SITU_E_SHAPE);
  assert_int_equal(situ__fail(SITU_E_INDEX, "gather", "later"), SITU_E_INDEX);
  assert_int_equal(situ_error(), SITU_E_SHAPE);
  assert_string_equal(situ_error_op(), "matmul");
  assert_ptr_equal(strstr(situ_error_message(), "matmul: 784 and 768 differ"), situ_error_message());
  assert_int_equal(situ__error_count(), before + 2);
  assert_int_equal(logged, 1);
  situ_error_clear();
  assert_int_equal(situ_error(), SITU_OK);
  assert_string_equal(situ_error_message(), "");
  (void)situ__fail(SITU_E_INDEX, "gather", "again");
  assert_int_equal(situ_error(), SITU_E_INDEX);
  assert_int_equal(logged, 2);
}

static void null_operand(void **state) {
  (void)state;
  assert_int_equal(situ__null("add", "other"), SITU_E_ARG);
  assert_non_null(strstr(situ_error_message(), "add: `other` is NULL"));
  situ_error_clear();
  (void)situ__fail(SITU_E_NOMEM, "randn", "none");
  uint64_t before = situ__error_count();
  assert_int_equal(situ__null("add", "other"), SITU_E_NOMEM); /* the NULL came from there */
  assert_string_equal(situ_error_op(), "randn");
  assert_int_equal(situ__error_count(), before + 1); /* but a scope around the add must see it */
}

static void modes(void **state) {
  (void)state;
  assert_int_equal(situ_error_mode(SITU_ERROR_QUIET), SITU_ERROR_LOG);
  (void)situ__fail(SITU_E_ARG, "op", "quiet");
  assert_int_equal(logged, 0);
  assert_int_equal(situ_error(), SITU_E_ARG);
  situ__log("a warning of %d words", 4);
  assert_int_equal(logged, 1);
  assert_string_equal(last_line, "a warning of 4 words");
  assert_int_equal(situ_error_mode(SITU_ERROR_LOG), SITU_ERROR_QUIET);
}

/* The one mode in which the library ends the process, after it has said why. */
static void abort_mode(void **state) {
  (void)state;
  int end[2], status;
  char text[64] = "";
  assert_int_equal(pipe(end), 0);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    (void)signal(SIGABRT, SIG_DFL);
    (void)dup2(end[1], STDERR_FILENO);
    situ_error_log(NULL, NULL);
    (void)situ_error_mode(SITU_ERROR_ABORT);
    (void)situ__fail(SITU_E_ARG, "op", "stop here");
    _exit(0);
  }
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
  assert_true(read(end[0], text, sizeof text - 1) > 0);
  assert_int_equal(strncmp(text, "situ: op: stop here", 19), 0);
  (void)close(end[0]);
  (void)close(end[1]);
}

static void long_text_is_cut(void **state) {
  (void)state;
  char text[6000];
  memset(text, 'x', sizeof text - 1);
  text[sizeof text - 1] = 0;
  (void)situ__fail(SITU_E_ARG, "op", "%s", text);
  assert_int_equal(strlen(situ_error_message()), 4095);
  situ_error_clear();
  (void)situ__fail(SITU_E_ARG, text, "short");
  assert_int_equal(strlen(situ_error_op()), 63);
}

/* placement: D12 */
static void operands(void **state) {
  (void)state;
  char role[] = "input";
  situ_error_operand list[2] = {
    { .operand = "input",
      .tensor = "batch.x",
      .role = role,
      .device = "cpu",
      .shape = "[32, 784]",
      .dtype = "f32",
      .placed = "created at data.c:88",
      .odd = true },
    { .operand = "weight", .device = "sim:0" },
  };
  char fix[] = "x = y;";
  const situ_error_report report = { .status = SITU_E_DEVICE,
                                     .op = "linear",
                                     .message = "device mismatch in linear",
                                     .fix = fix,
                                     .operands = list,
                                     .count = 2 };
  assert_int_equal(situ__fail_report(&report), SITU_E_DEVICE);
  memset(fix, '?', sizeof fix - 1);
  memset(role, '?', sizeof role - 1); /* texts are copied */
  const situ_error_operand *kept;
  assert_int_equal(situ_error_operands(&kept), 2);
  assert_string_equal(kept[0].tensor, "batch.x");
  assert_string_equal(kept[0].role, "input");
  assert_string_equal(kept[0].placed, "created at data.c:88");
  assert_true(kept[0].odd);
  assert_string_equal(kept[1].operand, "weight");
  assert_string_equal(kept[1].tensor, ""); /* never NULL */
  assert_false(kept[1].odd);
  assert_string_equal(situ_error_message(), "device mismatch in linear");
  situ_error_report read;
  assert_true(situ_error_read(&read));
  assert_int_equal(read.status, SITU_E_DEVICE);
  assert_string_equal(read.op, "linear");
  assert_string_equal(read.fix, "x = y;");
  assert_string_equal(read.module, ""); /* never NULL */
  assert_int_equal(read.count, 2);
  assert_ptr_equal(read.operands, kept);
  situ_error_clear();
  assert_int_equal(situ_error_operands(&kept), 0);
  assert_false(situ_error_read(&read));
  assert_string_equal(read.fix, "");
}

static void as_json(void **state) {
  (void)state;
  char text[1024];
  assert_int_equal(situ_error_json(text, sizeof text), strlen("{\"status\": \"OK\"}"));
  assert_string_equal(text, "{\"status\": \"OK\"}");
  const situ_error_operand one = { .operand = "input", .tensor = "a \"b\"", .odd = true };
  (void)situ__fail_report(&(situ_error_report){
      .status = SITU_E_SHAPE, .op = "mm", .message = "1\n2", .odd = "input", .operands = &one, .count = 1 });
  int64_t length = situ_error_json(text, sizeof text);
  assert_string_equal(text, "{\"status\": \"SHAPE\", \"op\": \"mm\", \"message\": \"1\\n2\", "
                            "\"site\": \"\", \"module\": \"\", \"odd\": \"input\", \"fix\": \"\", "
                            "\"next\": \"\", \"operands\": [{\"operand\": \"input\", "
                            "\"tensor\": \"a \\\"b\\\"\", \"role\": \"\", \"device\": \"\", "
                            "\"shape\": \"\", \"dtype\": \"\", \"placed\": \"\", \"odd\": true}], \"fixes\": []}");
  assert_int_equal(length, strlen(text));
  assert_int_equal(situ_error_json(NULL, 0), length);
  assert_int_equal(situ_error_json(text, 8), length); /* cut, and ended */
  assert_string_equal(text, "{\"statu");
}

/* An op that others work for gives its name to their errors; the form in place has an underscore. */
static void called_as(void **state) {
  (void)state;
  const char *outer = situ__call_as("one_hot", "");
  const char *inner = situ__call_as("scatter", "");
  (void)situ__fail(SITU_E_SHAPE, "scatter", "text");
  assert_string_equal(situ_error_op(), "one_hot");
  assert_ptr_equal(strstr(situ_error_message(), "one_hot: text"), situ_error_message());
  situ_error_clear();
  situ__call_end(&inner);
  assert_string_equal(situ__now.called, "one_hot");
  situ__call_end(&outer);
  assert_null(situ__now.called);
  outer = situ__call_as("add", "_");
  (void)situ__fail(SITU_E_SHAPE, "add", "text");
  assert_string_equal(situ_error_op(), "add_");
  situ_error_clear();
  situ__errors own; /* the work of another moment has its own names */
  situ__errors_aside(&own);
  assert_null(situ__now.called);
  (void)situ__errors_back(&own, NULL, 0);
  assert_string_equal(situ__now.called, "add");
  situ__call_end(&outer);
}

/* An error of a call is explained by its operands if they can be the reason; what is out of memory is not. */
static void explained(void **state) {
  (void)state;
  static const situ_op mm = { .name = "mm", .operand = { { "input", 0 } } };
  situ_tensor *x = situ_zeros(SITU_SHAPE(2, 3), NULL);
  const situ_call call = { .op = &mm, .in = &x, .ins = 1 };
  (void)situ__fail(SITU_E_SHAPE, "mm", "no call");
  assert_null(strstr(situ_error_message(), "input"));
  situ_error_clear();
  situ__now.call = &call;
  (void)situ__fail(SITU_E_SHAPE, "mm", "text");
  assert_ptr_equal(strstr(situ_error_message(), "mm: text"), situ_error_message());
  assert_non_null(strstr(situ_error_message(), "input"));
  assert_non_null(strstr(situ_error_message(), "[2, 3]"));
  situ_error_clear();
  (void)situ__fail(SITU_E_INDEX, "mm", "plain");
  assert_null(strstr(situ_error_message(), "input"));
  situ_error_clear();
  (void)situ__fail(SITU_E_NOMEM, "mm", "nothing is tried");
  assert_null(strstr(situ_error_message(), "input"));
  situ_error_clear();
  situ__now.call = NULL;
  situ_release(x);
}

static void *no_allocate(size_t bytes, size_t alignment, void *payload) {
  (void)bytes, (void)alignment, (void)payload;
  return NULL;
}
static void *no_reallocate(void *old, size_t bytes, void *payload) {
  (void)old, (void)bytes, (void)payload;
  return NULL;
}
static void no_release(void *memory, void *payload) { (void)memory, (void)payload; }

static void *without_memory(void *unused) {
  (void)unused;
  static const situ_allocator none = { no_allocate, no_reallocate, no_release, NULL };
  situ_set_allocator(&none);
  (void)situ__fail(SITU_E_SHAPE, "matmul", "text");
  bool kept = situ_error() == SITU_E_SHAPE && *situ_error_message() != 0;
  situ_set_allocator(NULL);
  return kept ? &logged : NULL;
}

/* Another thread, so that its record has to be made. */
static void kept_without_memory(void **state) {
  (void)state;
  pthread_t thread;
  void *result;
  assert_int_equal(pthread_create(&thread, NULL, without_memory, NULL), 0);
  assert_int_equal(pthread_join(thread, &result), 0);
  assert_non_null(result);
  assert_int_equal(situ_error(), SITU_OK); /* this thread has met nothing */
}

static void set_aside(void **state) {
  (void)state;
  char text[64];
  (void)situ__fail(SITU_E_SHAPE, "own", "mine");
  uint64_t before = situ__error_count();
  situ__errors own;
  situ__errors_aside(&own);
  assert_int_equal(situ_error(), SITU_OK);
  (void)situ__fail(SITU_E_INDEX, "gather", "index 7");
  assert_int_equal(situ__errors_back(&own, text, sizeof text), SITU_E_INDEX);
  assert_string_equal(text, "gather: index 7");
  assert_int_equal(situ_error(), SITU_E_SHAPE);
  assert_string_equal(situ_error_op(), "own");
  assert_int_equal(situ__error_count(), before);
  assert_int_equal(logged, 1);

  situ_error_clear();
  situ__errors_aside(&own);
  assert_int_equal(situ__errors_back(&own, text, sizeof text), SITU_OK);
  assert_string_equal(text, "");
  (void)situ__fail(SITU_E_ARG, "op", "logged again");
  assert_int_equal(logged, 2);
}

/* Wherever a message ends: after the text, behind the name of the op, and after what is added to it. */
static void no_character_is_cut(void **state) {
  (void)state;
  static char text[16384], json[4 * sizeof text];
  (void)situ_error_mode(SITU_ERROR_QUIET);
  for (int shift = 0; shift < 8; shift++) {
    memset(text, 'a', (size_t)shift);
    for (size_t at = (size_t)shift; at + 4 < sizeof text; at += 3) memcpy(text + at, "\xE2\x82\xAC", 4);
    for (int added = 0; added < 2; added++) {
      (void)situ__fail(SITU_E_ARG, "an_op", "%s", added ? "short" : text);
      for (int k = 0; added && k < 16; k++) situ__error_add("%s", text);
      const char *message = situ_error_message();
      assert_true(strlen(message) > 900);
      assert_int_equal(situ__utf8_prefix(message, strlen(message)), strlen(message));
      assert_null(strstr(message, "\\x")); /* no half of one either */
      assert_in_range(situ_error_json(json, sizeof json), 900, sizeof json - 1);
      assert_int_equal(situ__utf8_prefix(json, strlen(json)), strlen(json));
      situ_error_clear();
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup(no_error, fresh),
    cmocka_unit_test_setup(names, fresh),
    cmocka_unit_test_setup(first_one_stays, fresh),
    cmocka_unit_test_setup(null_operand, fresh),
    cmocka_unit_test_setup(modes, fresh),
    cmocka_unit_test_setup(abort_mode, fresh),
    cmocka_unit_test_setup(long_text_is_cut, fresh),
    cmocka_unit_test_setup(operands, fresh),
    cmocka_unit_test_setup(kept_without_memory, fresh),
    cmocka_unit_test_setup(set_aside, fresh),
    cmocka_unit_test_setup(as_json, fresh),
    cmocka_unit_test_setup(called_as, fresh),
    cmocka_unit_test_setup(no_character_is_cut, fresh),
    cmocka_unit_test_setup(explained, fresh),
  };
  return cmocka_run_group_tests_name("base/fail", tests, NULL, NULL);
}
