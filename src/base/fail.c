/* The error model: each thread keeps its first error until it is cleared.
   SPDX-License-Identifier: MIT */
#include "base/fail.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/format.h"
#include "base/mutex.h"
#include "base/text.h"
#include "base/utf8.h"
#include "base/watch.h"

/* One per thread, allocated at its first error and reused for later ones. */
typedef struct situ__error_record {
  char op[SITU__OP_NAME];
  char message[4096];
  char where[256];        /* the site as text, once the message was read */
  void *site;             /* not in the message yet; NULL: in the message, or unknown */
  situ_error_report more; /* the parts of a full report */
  void *texts;            /* one block: operands, fixes, then all texts; NULL: no report */
} error_record;

/* Status OK: no error; the record, if there is one, is kept for reuse. */
SITU__THREAD_LOCAL situ__errors situ__errors_now;
static SITU__THREAD_LOCAL int muted; /* LOUD, or how far situ__errors_aside or _apart mutes this thread */
enum { LOUD, UNLOGGED, QUIET };
static SITU__THREAD_LOCAL bool explaining; /* inside the explainer */
SITU__THREAD_LOCAL situ__doing situ__now;
SITU__THREAD_LOCAL situ__thread_origin situ__origin;

static int error_policy = SITU_ERROR_LOG;
static situ__mutex log_lock = SITU__MUTEX_INIT;
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
  situ__mutex_lock(&log_lock);
  situ_log_fn to = log_to;
  void *payload = log_payload;
  situ__mutex_unlock(&log_lock);
  if (to) {
    to(message, payload);
  } else {
    (void)fprintf(stderr, "situ: %s\n", message);
  }
}

void situ_error_log(situ_log_fn log, void *payload) {
  situ__mutex_lock(&log_lock);
  log_to = log;
  log_payload = payload;
  situ__mutex_unlock(&log_lock);
}

void situ__log(const char *fmt, ...) {
  char said[6144], line[sizeof said]; /* an explanation and a comment on it */
  va_list args;
  va_start(args, fmt);
  (void)situ__vformat(said, sizeof said, fmt, args);
  va_end(args);
  situ__utf8_printable(said, line, sizeof line);
  log_line(line);
}

situ_error_policy situ_error_mode(situ_error_policy policy) {
  return (situ_error_policy)__atomic_exchange_n(&error_policy, (int)policy, __ATOMIC_RELAXED);
}

/* ---- the record --------------------------------------------------------------------------- */

static void drop_texts(error_record *record) {
  situ__free(record->texts);
  record->texts = NULL;
  record->more = (situ_error_report){ 0 };
}

static void free_record(error_record *record) {
  if (!record) return;
  situ__free(record->texts);
  situ__free(record);
}

static void thread_exit(void *unused) {
  (void)unused;
  free_record(situ__errors_now.record);
  situ__errors_now.record = NULL;
}

static void make_key(void) { (void)pthread_key_create(&at_exit, thread_exit); }

static error_record *open_record(void) {
  if (!situ__errors_now.record) {
    situ__errors_now.record = situ__alloc_uncounted(sizeof *situ__errors_now.record);
    if (!situ__errors_now.record) return NULL; /* the status and the count are kept even so */
    (void)pthread_once(&once, make_key);
    (void)pthread_setspecific(at_exit, &situ__errors_now);
    situ__errors_now.record->texts = NULL;
  }
  drop_texts(situ__errors_now.record);
  situ__errors_now.record->site = NULL;
  *situ__errors_now.record->where = 0;
  return situ__errors_now.record;
}

enum { REPORT_TEXTS = 5, OPERAND_TEXTS = 7, FIX_TEXTS = 4 };

static void report_texts(situ_error_report *r, const char **text[REPORT_TEXTS]) {
  const char **all[] = { &r->site, &r->module, &r->odd, &r->fix, &r->next };
  memcpy(text, all, sizeof all);
}

static void operand_texts(situ_error_operand *o, const char **text[OPERAND_TEXTS]) {
  const char **all[] = { &o->operand, &o->tensor, &o->role, &o->device, &o->shape, &o->dtype, &o->placed };
  memcpy(text, all, sizeof all);
}

static void fix_texts(situ_error_fix *f, const char **text[FIX_TEXTS]) {
  const char **all[] = { &f->target, &f->device, &f->dtype, &f->code };
  memcpy(text, all, sizeof all);
}

static size_t text_size(const char *const *text) { return *text ? strlen(*text) + 1 : 1; }

static void keep_text(char **at, const char **text) {
  size_t length = *text ? strlen(*text) : 0;
  if (length) memcpy(*at, *text, length);
  (*at)[length] = 0;
  *text = *at;
  *at += length + 1;
}

/* Copies all texts into one block with the operands and fixes: one free releases all, and the copy either succeeds as
   a whole or not at all. */
static void keep_texts(error_record *record, const situ_error_report *report) {
  situ_error_report more = *report;
  const char **text[OPERAND_TEXTS];
  size_t bytes = sizeof *more.operands * (size_t)more.count + sizeof *more.fixes * (size_t)more.fix_count;
  report_texts(&more, text);
  for (int k = 0; k < REPORT_TEXTS; k++) bytes += text_size(text[k]);
  for (int i = 0; i < more.count; i++) {
    situ_error_operand operand = report->operands[i];
    operand_texts(&operand, text);
    for (int k = 0; k < OPERAND_TEXTS; k++) bytes += text_size(text[k]);
  }
  for (int i = 0; i < more.fix_count; i++) {
    situ_error_fix fix = report->fixes[i];
    fix_texts(&fix, text);
    for (int k = 0; k < FIX_TEXTS; k++) bytes += text_size(text[k]);
  }
  record->texts = situ__alloc_uncounted(bytes);
  if (!record->texts) return;
  situ_error_operand *list = record->texts;
  situ_error_fix *fixes = (situ_error_fix *)(list + more.count);
  char *at = (char *)(fixes + more.fix_count);
  for (int i = 0; i < more.count; i++) {
    list[i] = report->operands[i];
    operand_texts(&list[i], text);
    for (int k = 0; k < OPERAND_TEXTS; k++) keep_text(&at, text[k]);
  }
  for (int i = 0; i < more.fix_count; i++) {
    fixes[i] = report->fixes[i];
    fix_texts(&fixes[i], text);
    for (int k = 0; k < FIX_TEXTS; k++) keep_text(&at, text[k]);
  }
  more.operands = list;
  more.fixes = fixes;
  report_texts(&more, text);
  for (int k = 0; k < REPORT_TEXTS; k++) keep_text(&at, text[k]);
  record->more = more;
}

/* Resolves the site only when the message is read: line tables are slow. */
static const char *message_of(error_record *record) {
  if (!record) return "out of memory, and none was left for a longer message";
  void *site = record->site;
  record->site = NULL;
  if (site && *situ__base_up.site_text(site, record->where, sizeof record->where)) {
    size_t length = strlen(record->message);
    (void)snprintf(record->message + length, sizeof record->message - length, "\n  at %s", record->where);
  }
  return record->message;
}

const char *situ__error_name(const char *op, char buffer[SITU__OP_NAME]) {
  const char *name = situ__now.called ? situ__now.called : situ__now.running ? situ__now.running : op ? op : "";
  const char *suffix = situ__now.called ? situ__now.suffix : "";
  size_t length = strlen(name);
  if (length && name[length - 1] == *suffix) suffix = ""; /* copy_ exists only in place */
  (void)snprintf(buffer, SITU__OP_NAME, "%s%s", name, suffix);
  return buffer;
}

/* Starts a record, without its text. Returns NULL when memory runs out. */
static error_record *begin_record(situ_status status, const char *name) {
  situ__errors_now.status = status;
  error_record *record = open_record();
  if (record) (void)snprintf(record->op, sizeof record->op, "%s", name);
  return record;
}

static void finish_record(error_record *record) {
  if (muted != LOUD) return;
  if (__builtin_expect(situ__watching != NULL, 0))
    situ__watching->failed(situ__errors_now.status, message_of(record),
                           record && record->more.fix ? record->more.fix : "");
  int how = __atomic_load_n(&error_policy, __ATOMIC_RELAXED);
  if (how != SITU_ERROR_QUIET) log_line(message_of(record));
  if (how == SITU_ERROR_ABORT) abort(); /* for debuggers: stops where the error was recorded */
}

/* Returns true if the explainer recorded a full report. Not tried when memory has run out. Errors met while an
   explanation is being made are not recorded. */
static bool try_explain(situ_status status, const char *name, const char *text) {
  if (!situ__now.call || muted == QUIET || status == SITU_E_NOMEM) return false;
  explaining = true;
  bool done = situ__base_up.explain_error(status, name, text);
  explaining = false;
  return done;
}

static SITU_PRINTF(3, 0) void fail_text(situ_status status, const char *op, const char *fmt, va_list args) {
  situ__errors_now.count++;
  if (situ__errors_now.status != SITU_OK || explaining) return;
  char name[SITU__OP_NAME], said[sizeof situ__errors_now.record->message], text[sizeof said];
  situ__error_name(op, name);
  (void)situ__vformat(said, sizeof said, fmt, args);
  situ__utf8_drop_cut(said, sizeof said);
  situ__utf8_printable(said, text, sizeof text);
  if (try_explain(status, name, text)) return;
  error_record *record = begin_record(status, name);
  if (record) {
    int length = *name ? snprintf(record->message, sizeof record->message, "%s: ", name) : 0;
    (void)snprintf(record->message + length, sizeof record->message - (size_t)length, "%s", text);
    situ__utf8_drop_cut(record->message, sizeof record->message);
    if (muted != QUIET) record->site = situ__base_up.call_site();
  }
  finish_record(record);
}

situ_status situ__fail(situ_status status, const char *op, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  fail_text(status, op, fmt, args);
  va_end(args);
  return status;
}

situ_status situ__fail_report(const situ_error_report *report) {
  if (!explaining) situ__errors_now.count++;
  explaining = false;
  if (situ__errors_now.status != SITU_OK) return report->status;
  error_record *record = begin_record(report->status, report->op ? report->op : "");
  if (record) {
    situ__utf8_printable(report->message, record->message, sizeof record->message);
    keep_texts(record, report);
  }
  finish_record(record);
  return report->status;
}

void situ__error_add(const char *fmt, ...) {
  char said[1024], line[sizeof said];
  error_record *record = situ__errors_now.status != SITU_OK ? situ__errors_now.record : NULL;
  va_list args;
  va_start(args, fmt);
  (void)situ__vformat(said, sizeof said, fmt, args);
  va_end(args);
  situ__utf8_drop_cut(said, sizeof said);
  situ__utf8_printable(said, line, sizeof line);
  if (!record || explaining) return;
  const size_t length = strlen(message_of(record));
  (void)snprintf(record->message + length, sizeof record->message - length, "\n%s", line);
  situ__utf8_drop_cut(record->message, sizeof record->message);
  if (muted == LOUD && __atomic_load_n(&error_policy, __ATOMIC_RELAXED) != SITU_ERROR_QUIET) log_line(line);
}

situ_status situ__no_memory(const char *op, size_t bytes) {
  char text[SITU__BYTES_TEXT];
  return situ__fail(SITU_E_NOMEM, op, "no memory for %s", situ__bytes_text(bytes, text));
}

situ_status situ__null(const char *op, const char *operand) {
  if (situ__errors_now.status != SITU_OK) {
    situ__errors_now.count++;
    return situ__errors_now.status;
  }
  return situ__fail(SITU_E_ARG, op, "`%s` is NULL", operand);
}

/* ---- reading the error ---- */

situ_status situ_error(void) { return situ__errors_now.status; }

const char *situ_error_message(void) {
  return situ__errors_now.status == SITU_OK ? "" : message_of(situ__errors_now.record);
}

const char *situ_error_op(void) {
  return situ__errors_now.status != SITU_OK && situ__errors_now.record ? situ__errors_now.record->op : "";
}

int situ_error_operands(const situ_error_operand **list) {
  situ_error_report report;
  (void)situ_error_read(&report);
  if (list) *list = report.operands;
  return report.count;
}

bool situ_error_read(situ_error_report *out) {
  bool any = situ__errors_now.status != SITU_OK;
  error_record *record = any ? situ__errors_now.record : NULL;
  situ_error_report r = record ? record->more : (situ_error_report){ 0 };
  r.status = situ__errors_now.status;
  r.op = situ_error_op();
  r.message = situ_error_message();
  if (record && !r.site) r.site = record->where;
  const char **text[REPORT_TEXTS];
  report_texts(&r, text);
  for (int k = 0; k < REPORT_TEXTS; k++)
    if (!*text[k]) *text[k] = "";
  if (out) *out = r;
  return any;
}

static void json_pair(situ__text *text, const char *before, const char *name, const char *value) {
  situ__text_add(text, "%s\"%s\": ", before, name);
  situ__text_json_string(text, value);
}

static void json_fixes(situ__text *json, const situ_error_report *r) {
  static const char *const action[] = { [SITU_FIX_TO] = "to",         [SITU_FIX_TO_DTYPE] = "to_dtype",
                                        [SITU_FIX_NN_TO] = "nn_to",   [SITU_FIX_NN_TO_DTYPE] = "nn_to_dtype",
                                        [SITU_FIX_BUFFER] = "buffer", [SITU_FIX_CHILD] = "child",
                                        [SITU_FIX_POLICY] = "policy", [SITU_FIX_DEQUANTIZE] = "dequantize" };
  static const char *const column[FIX_TEXTS] = { "target", "device", "dtype", "code" };
  const char **text[FIX_TEXTS];
  situ__text_add(json, ", \"fixes\": [");
  for (int i = 0; i < r->fix_count; i++) {
    situ_error_fix fix = r->fixes[i];
    fix_texts(&fix, text);
    situ__text_add(json, "%s{\"choice\": %d", i ? ", " : "", fix.choice);
    json_pair(json, ", ", "action", action[fix.action]);
    for (int k = 0; k < FIX_TEXTS; k++) json_pair(json, ", ", column[k], *text[k]);
    situ__text_add(json, "}");
  }
  situ__text_add(json, "]");
}

int64_t situ_error_json(char *buffer, size_t size) {
  static const char *const name[REPORT_TEXTS] = { "site", "module", "odd", "fix", "next" };
  static const char *const column[OPERAND_TEXTS] = {
    "operand", "tensor", "role", "device", "shape", "dtype", "placed"
  };
  situ_error_report r;
  const char **text[OPERAND_TEXTS];
  situ__text json = { 0 };
  bool any = situ_error_read(&r);
  json_pair(&json, "{", "status", situ_status_name(r.status));
  if (any) {
    json_pair(&json, ", ", "op", r.op);
    json_pair(&json, ", ", "message", r.message);
    report_texts(&r, text);
    for (int k = 0; k < REPORT_TEXTS; k++) json_pair(&json, ", ", name[k], *text[k]);
    situ__text_add(&json, ", \"operands\": [");
    for (int i = 0; i < r.count; i++) {
      situ_error_operand operand = r.operands[i];
      operand_texts(&operand, text);
      for (int k = 0; k < OPERAND_TEXTS; k++) json_pair(&json, k ? ", " : i ? ", {" : "{", column[k], *text[k]);
      situ__text_add(&json, ", \"odd\": %s}", operand.odd ? "true" : "false");
    }
    situ__text_add(&json, "]");
    json_fixes(&json, &r);
  }
  situ__text_add(&json, "}");
  return situ__text_give(&json, buffer, size);
}

void situ_error_clear(void) {
  situ__errors_now.status = SITU_OK;
  if (situ__errors_now.record) drop_texts(situ__errors_now.record);
}

/* ---- setting errors aside ---- */

static void set_aside(situ__errors *own, int how) {
  *own = situ__errors_now;
  own->doing = situ__now;
  own->muted = muted;
  situ__errors_now = (situ__errors){ .count = own->count };
  situ__now = (situ__doing){ 0 };
  if (muted < how) muted = how;
}

void situ__errors_aside(situ__errors *own) { set_aside(own, QUIET); }
void situ__errors_apart(situ__errors *own) { set_aside(own, UNLOGGED); }

situ_status situ__errors_back(const situ__errors *own, char *message, size_t size) {
  situ_status met = situ__errors_now.status;
  if (size) (void)snprintf(message, size, "%s", situ_error_message());
  free_record(situ__errors_now.record);
  situ__errors_now = *own;
  situ__now = own->doing;
  muted = own->muted;
  return met;
}
