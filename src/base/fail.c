/* The error model: each thread keeps its first error until it is cleared.
   SPDX-License-Identifier: MIT */
#include "base/fail.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/thread.h"

/* One a thread, made at its first error and kept for the next. */
typedef struct situ__error_record {
  char op[64];
  char message[4096];
  void *site;                   /* not yet said in the message; NULL: said, or unknown */
  situ_error_operand *operands; /* one block: the list, then its texts */
  int count;
} error_record;

/* Status OK: none; a record without an error is a spare one. */
static SITU__THREAD_LOCAL situ__errors errors;
static SITU__THREAD_LOCAL bool quiet; /* inside situ__errors_aside */

static int policy = SITU_ERROR_LOG;
static const situ__locator *locator;
static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static situ_log_fn log_to;
static void *log_payload;

static pthread_key_t at_exit;
static pthread_once_t once = PTHREAD_ONCE_INIT;

const char *situ_status_name(situ_status status) {
  static const char *const name[] = { "OK",          "ARG",   "SHAPE", "DTYPE",   "DEVICE", "INDEX",
                                      "OVERFLOW",    "NOMEM", "STATE", "FORMAT",  "IO",     "LIMIT",
                                      "UNSUPPORTED", "LOST",  "COMM",  "TIMEOUT", "ALIAS" };
  size_t at = (size_t)status;
  return at < sizeof name / sizeof *name ? name[at] : "?";
}

/* ---- the log ------------------------------------------------------------------------------ */

static void log_line(const char *message) {
  pthread_mutex_lock(&log_lock);
  situ_log_fn to = log_to;
  void *payload = log_payload;
  pthread_mutex_unlock(&log_lock);
  if (to) {
    to(message, payload);
  } else {
    (void)fprintf(stderr, "situ: %s\n", message);
  }
}

void situ_error_log(situ_log_fn log, void *payload) {
  pthread_mutex_lock(&log_lock);
  log_to = log;
  log_payload = payload;
  pthread_mutex_unlock(&log_lock);
}

void situ__log(const char *fmt, ...) {
  char line[1024];
  va_list args;
  va_start(args, fmt);
  (void)vsnprintf(line, sizeof line, fmt, args);
  va_end(args);
  log_line(line);
}

situ_error_policy situ_error_mode(situ_error_policy wanted) {
  return (situ_error_policy)__atomic_exchange_n(&policy, (int)wanted, __ATOMIC_RELAXED);
}

/* ---- the record --------------------------------------------------------------------------- */

static void drop_operands(error_record *record) {
  situ__free(record->operands);
  record->operands = NULL;
  record->count = 0;
}

static void free_record(error_record *record) {
  if (!record) return;
  drop_operands(record);
  situ__free(record);
}

static void thread_exit(void *unused) {
  (void)unused;
  free_record(errors.record);
  errors.record = NULL;
}

static void make_key(void) { (void)pthread_key_create(&at_exit, thread_exit); }

static error_record *open_record(void) {
  if (!errors.record) {
    errors.record = situ__alloc_uncounted(sizeof *errors.record);
    if (!errors.record) return NULL; /* code and count are kept even so */
    (void)pthread_once(&once, make_key);
    (void)pthread_setspecific(at_exit, &errors);
    errors.record->operands = NULL;
  }
  drop_operands(errors.record);
  errors.record->site = NULL;
  return errors.record;
}

/* One block with the list and every text, so that freeing is one call and running out half-way is
   impossible. */
static void keep_operands(error_record *record, const situ_error_operand *list, int count) {
  enum { TEXTS = 7 };
  size_t bytes = sizeof *list * (size_t)count;
  for (int i = 0; i < count; i++) {
    const char *const text[TEXTS] = { list[i].operand, list[i].tensor, list[i].role,
                                      list[i].device,  list[i].shape,  list[i].dtype,
                                      list[i].placed };
    for (int k = 0; k < TEXTS; k++) bytes += text[k] ? strlen(text[k]) + 1 : 1;
  }
  record->operands = situ__alloc_uncounted(bytes);
  if (!record->operands) return;
  record->count = count;
  char *at = (char *)(record->operands + count);
  for (int i = 0; i < count; i++) {
    situ_error_operand *to = &record->operands[i];
    *to = list[i];
    const char **const text[TEXTS] = { &to->operand, &to->tensor, &to->role,  &to->device,
                                       &to->shape,   &to->dtype,  &to->placed };
    for (int k = 0; k < TEXTS; k++) {
      size_t length = *text[k] ? strlen(*text[k]) : 0;
      if (length) memcpy(at, *text[k], length);
      at[length] = 0;
      *text[k] = at;
      at += length + 1;
    }
  }
}

/* Where it happened is put into words only when the message is read: line tables are slow. */
static const char *message_of(error_record *record) {
  if (!record) return "out of memory, and none was left for a longer message";
  void *site = record->site;
  record->site = NULL;
  const situ__locator *by = __atomic_load_n(&locator, __ATOMIC_ACQUIRE);
  if (site && by) {
    char where[256];
    size_t length = strlen(record->message);
    if (*by->text(site, where, sizeof where))
      (void)snprintf(record->message + length, sizeof record->message - length, "\n  at %s", where);
  }
  return record->message;
}

/* The part of recording that does not depend on the text. NULL: nothing to write it to, or an
   earlier error is kept. */
static error_record *begin(situ_status status, const char *op) {
  errors.count++;
  if (errors.status != SITU_OK) return NULL;
  errors.status = status;
  error_record *record = open_record();
  if (record) (void)snprintf(record->op, sizeof record->op, "%s", op ? op : "");
  return record;
}

static void finish(error_record *record) {
  if (quiet) return;
  int how = __atomic_load_n(&policy, __ATOMIC_RELAXED);
  if (how != SITU_ERROR_QUIET) log_line(message_of(record));
  if (how == SITU_ERROR_ABORT)
    abort(); /* what this mode is for: the debugger stops where the error was made */
}

static SITU_PRINTF(3, 0) situ_status
    fail_text(situ_status status, const char *op, const char *fmt, va_list args) {
  bool first = errors.status == SITU_OK;
  error_record *record = begin(status, op);
  if (record) {
    int length =
        *record->op ? snprintf(record->message, sizeof record->message, "%s: ", record->op) : 0;
    (void)vsnprintf(record->message + length, sizeof record->message - (size_t)length, fmt, args);
    const situ__locator *by = __atomic_load_n(&locator, __ATOMIC_ACQUIRE);
    if (by && !quiet) record->site = by->find();
  }
  if (first) finish(record);
  return status;
}

situ_status situ__fail(situ_status status, const char *op, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  (void)fail_text(status, op, fmt, args);
  va_end(args);
  return status;
}

situ_status situ__fail_operands(situ_status status, const char *op, const situ_error_operand *list,
                                int count, const char *fmt, ...) {
  bool first = errors.status == SITU_OK;
  error_record *record = begin(status, op);
  if (record) {
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(record->message, sizeof record->message, fmt, args);
    va_end(args);
    keep_operands(record, list, count);
  }
  if (first) finish(record);
  return status;
}

situ_status situ__no_memory(const char *op, size_t bytes) {
  return situ__fail(SITU_E_NOMEM, op, "no memory for %zu bytes", bytes);
}

situ_status situ__null(const char *op, const char *operand) {
  if (errors.status != SITU_OK) {
    errors.count++;
    return errors.status;
  }
  return situ__fail(SITU_E_ARG, op, "`%s` is NULL", operand);
}

/* ---- reading it --------------------------------------------------------------------------- */

situ_status situ_error(void) { return errors.status; }

const char *situ_error_message(void) {
  return errors.status == SITU_OK ? "" : message_of(errors.record);
}

const char *situ_error_op(void) {
  return errors.status != SITU_OK && errors.record ? errors.record->op : "";
}

int situ_error_operands(const situ_error_operand **list) {
  bool any = errors.status != SITU_OK && errors.record;
  if (list) *list = any ? errors.record->operands : NULL;
  return any ? errors.record->count : 0;
}

void situ_error_clear(void) {
  errors.status = SITU_OK;
  if (errors.record) drop_operands(errors.record);
}

uint64_t situ__error_count(void) { return errors.count; }

/* ---- errors of other moments -------------------------------------------------------------- */

void situ__errors_aside(situ__errors *own) {
  *own = errors;
  errors = (situ__errors){ NULL, SITU_OK, own->count };
  quiet = true;
}

situ_status situ__errors_back(const situ__errors *own, char *message, size_t size) {
  situ_status met = errors.status;
  if (size) (void)snprintf(message, size, "%s", situ_error_message());
  free_record(errors.record);
  errors = *own;
  quiet = false;
  return met;
}

void situ__error_locate(const situ__locator *by) {
  __atomic_store_n(&locator, by, __ATOMIC_RELEASE);
}
