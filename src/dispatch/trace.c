/* Traces: what situ_op.traced calls, and who listens to it.
   SPDX-License-Identifier: MIT */
#include <stdio.h>

#include "base/fail.h"
#include "dispatch/dispatch.h"

static SITU__THREAD_LOCAL situ_export_trace *running;

situ_status situ_export_trace_begin(situ_export_trace *trace) {
  if (!situ__given("export_trace_begin", "trace", trace)) return situ_error();
  const situ_status status = situ_dry_begin(&trace->dry);
  if (status != SITU_OK) return status;
  trace->outer = running;
  trace->mode = situ__forward_mode;
  trace->paused = false;
  running = trace;
  situ__forward_mode = SITU__FORWARD_TRACED;
  return SITU_OK;
}

int64_t situ_export_trace_end(situ_export_trace *trace) {
  if (!situ__given("export_trace_end", "trace", trace) || running != trace) return 0;
  situ__forward_mode = trace->mode;
  running = trace->outer;
  return situ_dry_end(&trace->dry);
}

situ_export_trace *situ_export_pause(void) {
  situ_export_trace *t = running;
  if (!t || t->paused) return NULL;
  t->paused = true;
  return t;
}

void situ_export_resume(situ_export_trace *trace, const situ_call *call) {
  if (!situ__given("export_resume", "trace", trace)) return;
  trace->paused = false;
  if (call && trace->dry.called) trace->dry.called(&trace->dry, call);
}

bool situ_export_call(situ_export_trace *trace, const char *target, const char *codes, ...) {
  if (!situ__given("export_call", "trace", trace) || !situ__given("export_call", "codes", codes) ||
      !situ__given("export_call", "trace->add_call", (const void *)(uintptr_t)trace->add_call))
    return false;
  va_list args;
  va_start(args, codes);
  const bool good = trace->add_call(trace, target, codes, args);
  va_end(args);
  return good;
}

bool situ_export_operands(situ_export_trace *trace, const situ_call *call, const char *overload) {
  char target[64], codes[SITU_OPERANDS + 1] = "";
  if (!situ__given("export_operands", "trace", trace) || !situ__given("export_operands", "call", call) ||
      !situ__given("export_operands", "overload", overload))
    return false;
  (void)snprintf(target, sizeof target, "*.%s", overload);
  situ_tensor *in[4] = { NULL };
  if (call->ins > 4) return situ_export_call(trace, NULL, "");
  for (int i = 0; i < call->ins; i++) {
    in[i] = call->in[i];
    codes[i] = 't';
  }
  return situ_export_call(trace, target, codes, in[0], in[1], in[2], in[3]);
}
