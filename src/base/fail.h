/* Records errors: the first one of a thread is kept, later ones are only counted.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BASE_FAIL_H
#define SITU_BASE_FAIL_H

#include "base/fpu.h"
#include "base/thread.h"
#include "situ/error.h"

/* Records an error and returns status. op is the call's public name without situ_ ("matmul"); fmt says what was
   wrong, got and wanted: "[32, 784] x [768, 10]: 784 and 768 differ". The message becomes "op: text" and, where the
   call site is known, a second line "  at train.c:12 in step". Texts are cut at 4 KiB. */
situ_status situ__fail(situ_status status, const char *op, const char *fmt, ...) SITU_PRINTF(3, 4) SITU_COLD;
/* Records a full report: report->message is the whole message, with the site. Texts are copied; NULL means "". */
situ_status situ__fail_report(const situ_error_report *report) SITU_COLD;
situ_status situ__no_memory(const char *op, size_t bytes) SITU_COLD;
/* Appends a line to the message of this thread's first error, and logs it: what was being done when it happened. */
void situ__error_add(const char *fmt, ...) SITU_PRINTF(1, 2) SITU_COLD;
/* For an operand that is NULL: returns the thread's first error if there is one (which caused the NULL), else records
   SITU_E_ARG "`operand` is NULL" and returns it. */
situ_status situ__null(const char *op, const char *operand) SITU_COLD;
/* Returns false after recording an error as situ__null does, if pointer is NULL. */
static inline bool situ__given(const char *op, const char *argument, const void *pointer) {
  if (__builtin_expect(pointer != NULL, 1)) return true;
  return situ__null(op, argument), false;
}
/* Sends a line to the log function in every error mode (warnings, lint). */
void situ__log(const char *fmt, ...) SITU_PRINTF(1, 2) SITU_COLD;

/* What this thread is doing, for its error messages. The code that does it sets a field and restores it afterwards,
   which costs one or two stores. */
typedef struct situ__doing {
  const char *called;  /* the op that the program called, whose name all errors carry; NULL: each op its own */
  const char *suffix;  /* appended to that name: "_" in place */
  const char *running; /* the op whose kernel is being launched: kernels and queues know only verbs */
  const void *call;    /* floor 4's call that is being checked or run; NULL: none */
} situ__doing;
extern SITU__THREAD_LOCAL situ__doing situ__now;

/* From now until situ__call_end errors carry this op's name, unless an outer op is set already. Pass the result to
   situ__call_end. */
static inline const char *situ__call_as(const char *name, const char *suffix) {
  const char *outer = situ__now.called;
  if (!outer) {
    situ__now.called = name;
    situ__now.suffix = suffix;
  }
  return outer;
}
static inline void situ__call_end(const char **outer) { situ__now.called = *outer; }

/* Put first in a function that is made of other ops: their errors carry its name, unless it serves another one
   itself. */
#define SITU__MADE_OF_OPS(name) \
  SITU__DEFAULT_FPU;            \
  __attribute__((cleanup(situ__call_end), unused)) const char *called_before = situ__call_as(name, "")

/* Returns the name that an error of op carries: that of the op that the program called, else of the op whose kernel
   is being launched, else its own. */
enum { SITU__OP_NAME = 64 };
const char *situ__error_name(const char *op, char buffer[SITU__OP_NAME]);

/* What this floor needs from those above it; src/wiring.c fills it in. */
typedef struct situ__base_upcalls {
  /* Records a full report of an error, with the operands of situ__now's call. `op` is the name that the error carries.
     Returns false if it has nothing to add. It must not fail or use counted allocations. */
  bool (*explain_error)(situ_status status, const char *op, const char *text);
  /* Returns the address in the program that made the current call; NULL if unknown. */
  void *(*call_site)(void);
  bool (*own_code)(const void *address); /* true for the library's code, without its modules' */
  /* Writes such an address as text; "" if unknown. Slow. */
  const char *(*site_text)(void *site, char *buffer, size_t size);
  /* Describes a freed tensor: "f32 [2, 3] on cpu, created at x.c:12". */
  void (*describe_dead_tensor)(const void *handle, char *buffer, size_t size);
  bool (*error_in_scope)(void); /* an error was recorded since this thread's innermost scope began */
} situ__base_upcalls;
extern const situ__base_upcalls situ__base_up;

/* Deferred work (a device's queue) fails in the thread that happens to run it. Between these two calls the thread's
   own error is set aside, and new errors are neither logged nor kept; situ__errors_back returns the first of them. */
typedef struct situ__errors {
  struct situ__error_record *record;
  situ_status status;
  uint64_t count;
  situ__doing doing;
  int muted;
} situ__errors;
extern SITU__THREAD_LOCAL situ__errors situ__errors_now;
/* Number of errors of this thread so far, kept or not: scopes compare it. */
static inline uint64_t situ__error_count(void) { return situ__errors_now.count; }
/* Whether the end of the innermost scope would report an error now. An optional operand that is NULL may then be what a
   failed call returned, and does not count as left out. One load in a program without errors. */
static inline bool situ__scope_has_failed(void) {
  return __builtin_expect(situ__errors_now.status != SITU_OK, 0) && situ__base_up.error_in_scope();
}
void situ__errors_aside(situ__errors *own);
/* The same, but errors are explained in full, for a caller that reports them itself. */
void situ__errors_apart(situ__errors *own);
/* Restores the thread's own error. Returns the first error in between (SITU_OK: none) and its message. */
situ_status situ__errors_back(const situ__errors *own, char *message, size_t size);

/* A thread that the library started works for a line of the program. A call whose caller would be `outside`, the code
   that starts threads, is attributed to `site`. */
typedef struct situ__thread_origin {
  void *outside; /* return address of the thread's first function; NULL: a thread of the program */
  void *site;    /* return address of the program's call that started the thread */
  void *within;  /* call site of the public call that the library's own code runs for, if known; else NULL */
} situ__thread_origin;
extern SITU__THREAD_LOCAL situ__thread_origin situ__origin;

#endif
