/* Recording an error: the first of a thread is kept, later ones only counted.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BASE_FAIL_H
#define SITU_BASE_FAIL_H

#include "base/thread.h"
#include "situ/error.h"

/* Records and returns status. op is the call's public name without situ_ ("matmul"); fmt says what
   was wrong, got and wanted: "[32, 784] x [768, 10]: 784 and 768 differ". The message becomes "op:
   text", and where the caller can be told, a second line "  at train.c:12 in step". Text is cut at
   4 KiB. */
situ_status situ__fail(situ_status status, const char *op, const char *fmt, ...) SITU_PRINTF(3, 4) SITU_COLD;
/* The same with all that is known: report->message is the whole text, and the site in it. Texts are
   copied; NULL is "". */
situ_status situ__fail_report(const situ_error_report *report) SITU_COLD;
situ_status situ__no_memory(const char *op, size_t bytes) SITU_COLD;
/* The status to return when an operand is NULL: the thread's first error if there is one (the NULL
   came from it), else SITU_E_ARG "`operand` is NULL", recorded. */
situ_status situ__null(const char *op, const char *operand) SITU_COLD;
/* Is an argument given? False: recorded as situ__null does. */
static inline bool situ__given(const char *op, const char *argument, const void *pointer) {
  if (__builtin_expect(pointer != NULL, 1)) return true;
  situ__null(op, argument);
  return false;
}
/* Sends a line to the log function whatever the mode (warnings, lint). */
void situ__log(const char *fmt, ...) SITU_PRINTF(1, 2) SITU_COLD;

/* What this thread is doing, as far as its errors should tell it. Whoever does it says so, and takes
   it back afterwards; it costs a store or two. */
typedef struct situ__doing {
  const char *called;  /* the op that the caller asked for, while others do its work: errors go by
                          its name; NULL: each op by its own */
  const char *suffix;  /* what follows its name: "_" in place */
  const char *running; /* the op whose kernel is launched: kernels and queues know only verbs */
  const void *call;    /* floor 4's: the call that is checked or run; NULL: none */
} situ__doing;
extern SITU__THREAD_LOCAL situ__doing situ__now;

/* From now until situ__call_end what fails is blamed on this op, unless an outer one is blamed
   already. Pass what it returns to situ__call_end. */
static inline const char *situ__call_as(const char *name, const char *suffix) {
  const char *outer = situ__now.called;
  if (!outer) {
    situ__now.called = name;
    situ__now.suffix = suffix;
  }
  return outer;
}
static inline void situ__call_end(const char **outer) { situ__now.called = *outer; }

/* First in a function that is made of others: what fails in them is recorded under its name, unless it serves another one. */
#define SITU__MADE_OF_OPS(name) \
  __attribute__((cleanup(situ__call_end))) const char *called_before = situ__call_as(name, "")

/* The name that an error of op goes by: that of the op that was called, else of the op whose kernel
   is launched, else its own. */
enum { SITU__OP_NAME = 64 };
const char *situ__error_name(const char *op, char buffer[SITU__OP_NAME]);

/* What this floor asks of those above it; src/wiring.c fills it in. */
typedef struct situ__base_upcalls {
  /* Records a report that says more of an error than its own line, from the operands of situ__now's call. `op` is the name
     that the error goes by. Returns false if there is nothing to add. Neither takes counted memory nor fails. */
  bool (*explain_error)(situ_status status, const char *op, const char *text);
  /* The return address into the program of the call at hand; NULL where it cannot be told. */
  void *(*call_site)(void);
  /* Puts such an address into words; "" where it cannot be told. Slow. */
  const char *(*site_text)(void *site, char *buffer, size_t size);
  /* Writes what a freed tensor was: "f32 [2, 3] on cpu, created at x.c:12". */
  void (*describe_dead_tensor)(const void *handle, char *buffer, size_t size);
} situ__base_upcalls;
extern const situ__base_upcalls situ__base_up;

/* Work of another moment (a device's queue) fails in whichever thread happens to run it. Between
   these two calls the thread's own error is set aside, and what fails is neither logged nor kept;
   the second call tells what it was. */
typedef struct situ__errors {
  struct situ__error_record *record;
  situ_status status;
  uint64_t count;
  situ__doing doing;
  int muted;
} situ__errors;
extern SITU__THREAD_LOCAL situ__errors situ__errors_now;
/* Errors met by this thread so far, kept or not: scopes compare it. */
static inline uint64_t situ__error_count(void) { return situ__errors_now.count; }
void situ__errors_aside(situ__errors *own);
/* The same, but what fails is explained in full: for somebody who reports it by himself. */
void situ__errors_apart(situ__errors *own);
/* The first failure in between (SITU_OK: none) and its message. */
situ_status situ__errors_back(const situ__errors *own, char *message, size_t size);

/* A thread that the library started runs the library's code on behalf of a line of the program. A call
   whose caller would be `outside`, the code that starts threads, is attributed to `site`. */
typedef struct situ__thread_origin {
  void *outside; /* return address of the thread's first function; NULL: the program's own thread */
  void *site;    /* return address into the program: the call that started the thread */
  void *within;  /* the call site, where it is known: in the library's own code behind one call; else NULL */
} situ__thread_origin;
extern SITU__THREAD_LOCAL situ__thread_origin situ__origin;

#endif
