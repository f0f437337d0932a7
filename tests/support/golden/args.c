/* A golden case's arguments by name, and the call of all of them.
   SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "support/golden/run.h"

situ_tensor *gold_in(const gold_call *call, const char *name) {
  for (int i = 0; i < call->c->inputs; i++) {
    if (strcmp(call->c->input[i].name, name) == 0) { return call->in[i]; }
  }
  return NULL;
}

bool gold_has(const gold_call *call, const char *name) { return gold_find(call->c, name) != NULL; }

double gold_real(const gold_call *call, const char *name, double otherwise) {
  const gold_attr *a = gold_find(call->c, name);
  return !a ? otherwise : a->kind == 'f' ? a->f : (double)a->i;
}

int64_t gold_int(const gold_call *call, const char *name, int64_t otherwise) {
  const gold_attr *a = gold_find(call->c, name);
  return a ? a->i : otherwise;
}

bool gold_bool(const gold_call *call, const char *name, bool otherwise) { return gold_int(call, name, otherwise) != 0; }

const char *gold_word(const gold_call *call, const char *name, const char *otherwise) {
  const gold_attr *a = gold_find(call->c, name);
  return a ? a->s : otherwise;
}

situ_shape gold_list(const gold_call *call, const char *name) {
  const gold_attr *a = gold_find(call->c, name);
  situ_shape out = { 0 };
  if (a && a->kind != 'l') { return SITU_SHAPE(a->i); }
  for (; a && out.ndim < a->i && out.ndim < SITU_MAX_DIMS; out.ndim++) { out.dim[out.ndim] = a->list[out.ndim]; }
  return out;
}

situ_dtype gold_dtype(const gold_call *call, const char *name) {
  return (situ_dtype)gold_int(call, name, SITU_DTYPE_DEFAULT);
}

int gold_tensors(const gold_call *call, const char *list, situ_tensor **out) {
  int count = 0;
  for (char name[32]; snprintf(name, sizeof name, "%s.%d", list, count), (out[count] = gold_in(call, name)); count++) {}
  return count;
}

situ_options gold_options(const gold_call *call) {
  return (situ_options){ .dtype = gold_dtype(call, "dtype"), .device = call->device };
}

static bool called(gold_call *call, invocation *v, const char *functions, const char *settings) {
  v->functions = functions;
  v->settings = settings;
  v->values = call->c->attrs;
  v->value = call->c->attr;
  const bool good = invoke(v);
  if (!good) snprintf(call->message, sizeof call->message, "%s", v->message);
  return good;
}

bool gold_invoke(gold_call *call, const char *functions, const char *settings) {
  const gold_case *c = call->c;
  invocation v = { .device = call->device, .tensors = c->inputs };
  for (int i = 0; i < c->inputs; i++) v.tensor[i] = (invoke_tensor){ c->input[i].name, call->in[i] };
  while (v.outs < c->outputs && !gold_is_second(c, v.outs)) v.outs++;
  if (!called(call, &v, functions, settings)) return false;
  for (int i = 0; i < v.outs; i++) /* what was written into has the name of an input */
    call->out[i] = i && !v.out[i] ? gold_in(call, c->output[i].name) : v.out[i];
  return true;
}

void *gold_make(gold_call *call, const char *functions, const char *settings, void *from) {
  invocation v = { .object = from };
  return called(call, &v, functions, settings) ? v.object : NULL;
}
