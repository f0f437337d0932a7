/* Traces: what situ_op.traced calls, and who listens to it.
   SPDX-License-Identifier: MIT */
#include <stdio.h>

#include "base/fail.h"
#include "dispatch/dispatch.h"

static SITU__THREAD_LOCAL situ_export_trace *running;

situ_status situ_export_trace_begin(situ_export_trace *t) {
  if (!situ__given("export_trace_begin", "trace", t)) return situ_error();
  const situ_status status = situ_dry_begin(&t->dry);
  if (status != SITU_OK) return status;
  t->outer = running;
  t->mode = situ__forward_mode;
  t->paused = false;
  running = t;
  situ__forward_mode = SITU__FORWARD_TRACED;
  return SITU_OK;
}

int64_t situ_export_trace_end(situ_export_trace *t) {
  if (!situ__given("export_trace_end", "trace", t) || running != t) return 0;
  situ__forward_mode = t->mode;
  running = t->outer;
  return situ_dry_end(&t->dry);
}

situ_export_trace *situ_export_pause(void) {
  situ_export_trace *t = running;
  if (!t || t->paused) return NULL;
  t->paused = true;
  return t;
}

void situ_export_resume(situ_export_trace *t, const situ_call *call) {
  if (!situ__given("export_resume", "trace", t)) return;
  t->paused = false;
  if (call && t->dry.called) t->dry.called(&t->dry, call);
}

bool situ_export_call(situ_export_trace *t, const char *target, const char *codes, ...) {
  if (!situ__given("export_call", "trace", t) || !situ__given("export_call", "codes", codes) ||
      !situ__given("export_call", "trace->add_call", (const void *)(uintptr_t)t->add_call))
    return false;
  va_list args;
  va_start(args, codes);
  const bool good = t->add_call(t, target, codes, args);
  va_end(args);
  return good;
}

bool situ_export_operands(situ_export_trace *t, const situ_call *call, const char *overload) {
  char target[64], codes[SITU_OPERANDS + 1] = "";
  if (!situ__given("export_operands", "trace", t) || !situ__given("export_operands", "call", call) ||
      !situ__given("export_operands", "overload", overload))
    return false;
  (void)snprintf(target, sizeof target, "*.%s", overload);
  situ_tensor *in[4] = { NULL };
  if (call->ins > 4) return situ_export_call(t, NULL, "");
  for (int i = 0; i < call->ins; i++) {
    in[i] = call->in[i];
    codes[i] = 't';
  }
  return situ_export_call(t, target, codes, in[0], in[1], in[2], in[3]);
}
