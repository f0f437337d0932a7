/* What is looked at before and after each public call of a test.
   SPDX-License-Identifier: MIT */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/peek.h"
#include "device/dry.h"
#include "support/api/api.h"
#include "support/checked.h"
#include "tensor/tensor.h"

static atomic_int complaints;
static atomic_llong calls, errors;
static pid_t program;

/* ---- operands ------------------------------------------------------------------------------- */

enum { LOOKED_AT = 512 }; /* bytes of an operand: enough for those of the tests, and quick */

/* situ_is_tensor walks the storage's handles too, with a system call for each: most of the time of a test of views. */
static bool is_readable(const situ_tensor *t) {
  situ_tensor tensor;
  situ_storage storage;
  return t && (uintptr_t)t % _Alignof(situ_tensor) == 0 && situ__peek(t, &tensor, sizeof tensor) &&
         situ__alive(&tensor) && situ__peek(tensor.view.storage, &storage, sizeof storage) && storage.data &&
         storage.device.kind == SITU_CPU && !(storage.flags & SITU_STORAGE_PENDING);
}

/* Of what lies where the tensor begins, gaps and all. */
static uint64_t values_of(const situ_tensor *t) {
  const situ_storage *s = t->view.storage;
  const unsigned char *bytes = s->data;
  const size_t count = s->bytes < LOOKED_AT ? s->bytes : LOOKED_AT;
  uint64_t hash = 14695981039346656037u, word;
  for (size_t i = 0; i < count; i += sizeof word) {
    const size_t rest = count - i;
    word = 0;
    memcpy(&word, bytes + i, rest < sizeof word ? rest : sizeof word);
    hash = (hash ^ word) * 1099511628211u;
    hash ^= hash >> 32; /* a multiplication alone moves nothing down */
  }
  return hash;
}

/* Of a test that makes a million calls in a loop, which are alike, every 64th. */
static bool is_looked_at(void) {
  const long long so_far = atomic_load_explicit(&calls, memory_order_relaxed);
  return so_far < 20000 || so_far % 64 == 0;
}

void checked_keep(checked_call *call, const char *name, const situ_tensor *tensor) {
  if (call->count == CHECKED_OPERANDS || !is_looked_at() || !is_readable(tensor)) return;
  call->operand[call->count].name = name;
  call->operand[call->count].tensor = tensor;
  call->operand[call->count++].values = values_of(tensor);
}

/* ---- calls ---------------------------------------------------------------------------------- */

static void complain(const checked_call *call, const char *what) {
  atomic_fetch_add(&complaints, 1);
  (void)fprintf(stderr, "%s: %s (%s)\n", call->name, what, situ_error_message());
}

void checked_begin(checked_call *call, const char *name) {
  call->name = name;
  call->errors = situ__error_count();
  call->failing = situ_error() != SITU_OK;
  call->count = 0;
}

void checked_end(checked_call *call, api_result kind, const void *result) {
  const bool error = situ__error_count() != call->errors;
  atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed);
  if (error) atomic_fetch_add_explicit(&errors, 1, memory_order_relaxed);
  /* An operand that is NULL hands the error of an earlier call on. */
  if (situ__dry) return; /* a dry run goes on behind a mistake, with what the call would have given */
  const char *wrong = api_disagreement(call->name, kind, result, error, error || call->failing);
  if (wrong) complain(call, wrong);
  for (int i = 0; error && i < call->count; i++)
    if (is_readable(call->operand[i].tensor) && values_of(call->operand[i].tensor) != call->operand[i].values) {
      char what[128];
      (void)snprintf(what, sizeof what, "failed, and changed %s", call->operand[i].name);
      complain(call, what);
    }
}

int checked_complaints(void) { return atomic_exchange(&complaints, 0); }

/* ---- a program's end ------------------------------------------------------------------------ */

__attribute__((constructor)) static void begin(void) { program = getpid(); }

/* What no fixture has asked about fails the program. */
__attribute__((destructor)) static void end(void) {
  if (getpid() != program || !atomic_load(&calls)) return;
  (void)printf("%lld public calls looked at, %lld recorded an error\n", (long long)calls, (long long)errors);
  if (atomic_load(&complaints)) (void)fflush(NULL), _exit(1);
}
