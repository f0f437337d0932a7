/* The parts of a model that are placed as a whole, and which calls of its forward read what.
   SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/hash.h"
#include "place/fit/fit.h"
#include "situ/sys/shape.h"
#include "situ/sys/tensor.h"

static const char op[] = "place_fit";

static bool ensure(situ__flow *f, void *list, int64_t *capacity, size_t size, int64_t count) {
  const bool good = situ__grow(NULL, list, capacity, size, count);
  f->failed |= !good;
  return good;
}

/* Paths of tensors and of modules differ. */
static const void *key_of(const char *path) { return (const void *)((uintptr_t)situ__hash_text(path) | 1); }

/* ---- parts: a module with tensors of its own, or one that stays whole; those that share memory are one ---- */

typedef struct finding_parts {
  situ__flow *flow;
  const situ_place_fit_options *options;
  bool *used;
  int depth; /* of the module that stays whole; -1: none here */
  const situ_nn_module *owner;
  situ__map of_module, of_storage; /* part + 1 */
  int64_t parts;
} finding_parts;

static bool stays_whole(finding_parts *w, const situ_nn_visit *at) {
  bool whole = false;
  for (int64_t i = 0; i < w->options->whole_count; i++) {
    const char *name = w->options->whole[i];
    if (strcmp(name, at->path) != 0 && strcmp(name, at->module->type->name) != 0) continue;
    whole = w->used[i] = true;
  }
  return whole;
}

static void enter(finding_parts *w, const situ_nn_visit *at) {
  if (at->leaving) {
    if (w->depth == at->depth) w->depth = -1;
  } else if (w->depth < 0 && stays_whole(w, at)) {
    w->depth = at->depth;
    w->owner = at->module;
  }
}

/* The part under a key; a new one if there is none. */
static int64_t part_of(finding_parts *w, situ__map *map, const void *key, int64_t known) {
  const int64_t part = (int64_t)(uintptr_t)situ__map_get(map, key) - 1;
  if (part >= 0) return part;
  const int64_t own = known >= 0 ? known : w->parts++;
  if (!situ__map_put(map, key, (void *)(uintptr_t)(own + 1))) w->flow->failed = true;
  return own;
}

static void replace_part(situ__flow *f, int64_t old, int64_t part) {
  for (int64_t i = 0; i < f->tensors; i++)
    if (f->tensor[i].part == old) f->tensor[i].part = part;
}

static situ_status visit_part(const situ_nn_visit *at, void *payload) {
  finding_parts *w = payload;
  situ__flow *f = w->flow;
  if (!at->tensor) return enter(w, at), SITU_OK;
  if (!ensure(f, &f->tensor, &f->tensor_capacity, sizeof *f->tensor, f->tensors + 1)) return situ__no_memory(op, 0);
  const situ_storage *storage = situ_desc(at->tensor)->storage;
  const int64_t part = part_of(w, &w->of_module, w->depth < 0 ? at->module : w->owner, -1);
  const int64_t tied = part_of(w, &w->of_storage, storage, part);
  f->tensor[f->tensors++] = (situ__fit_tensor){ situ__strdup(at->path), tied, storage };
  const char *path = f->tensor[f->tensors - 1].path;
  if (!path || !situ__map_put(&f->by_path, key_of(at->path), (void *)(uintptr_t)f->tensors)) f->failed = true;
  if (tied != part) replace_part(f, part, tied);
  if (tied != part &&
      !situ__map_put(&w->of_module, w->depth < 0 ? at->module : w->owner, (void *)(uintptr_t)(tied + 1)))
    f->failed = true;
  return SITU_OK;
}

bool situ__flow_parts(situ__flow *f, situ_nn_module *m, const situ_place_fit_options *options) {
  finding_parts w = { .flow = f, .options = options, .depth = -1 };
  w.used = situ__calloc((size_t)options->whole_count + 1, sizeof *w.used);
  const unsigned which = SITU_NN_VISIT_MODULES | SITU_NN_VISIT_LEAVE | SITU_NN_VISIT_TENSORS;
  situ_status status = w.used ? situ_nn_walk(m, which, visit_part, &w) : situ__no_memory(op, 1);
  if (status == SITU_OK && f->failed) status = situ__no_memory(op, sizeof *f);
  for (int64_t i = 0; status == SITU_OK && i < options->whole_count; i++)
    if (!w.used[i])
      status =
          situ__fail(SITU_E_ARG, op, "options.whole[%lld] \"%s\" is neither the path of a module here nor its type",
                     (long long)i, options->whole[i]);
  if (status == SITU_OK && !f->tensors)
    status = situ__fail(SITU_E_ARG, op, "the module has no parameters and no buffers to place");
  situ__free(w.used);
  situ__map_free(&w.of_module);
  situ__map_free(&w.of_storage);
  return status == SITU_OK;
}

/* ---- calls of the profiled forward ---- */

static int64_t module_at(situ__flow *f, const char *path) {
  const int64_t known = (int64_t)(uintptr_t)situ__map_get(&f->by_path, key_of(path)) - 1;
  if (known >= 0) return known;
  int64_t outer = -1;
  if (*path) {
    char above[SITU__PREFLIGHT_PATH];
    const char *dot = strrchr(path, '.');
    (void)snprintf(above, sizeof above, "%.*s", dot ? (int)(dot - path) : 0, path);
    outer = module_at(f, above);
  }
  if (!ensure(f, &f->module, &f->module_capacity, sizeof *f->module, f->modules + 1)) return -1;
  f->module[f->modules++] = (situ__fit_module){ .outer = outer };
  if (!situ__map_put(&f->by_path, key_of(path), (void *)(uintptr_t)f->modules)) f->failed = true;
  return f->modules - 1;
}

static int place_at(situ__flow *f, situ_device device) {
  int i = 0;
  while (i < f->places && !situ_device_equal(f->place[i], device)) i++;
  if (i < f->places || i == SITU__FIT_PLACES) return i < f->places ? i : 0;
  f->place[i] = device;
  return f->places++;
}

/* The number of a storage's value; 0: it is not of the run. */
static int64_t value_of(situ__flow *f, const situ_storage *storage) {
  while (storage->flags & SITU_STORAGE_SLICE) storage = storage->payload;
  void **note = situ_dry_note(storage);
  const situ__trail *trail = note ? *note : NULL;
  if (!trail) return 0;
  const int64_t number = trail->number;
  if (!ensure(f, &f->value, &f->value_capacity, sizeof *f->value, number + 1)) return 0;
  for (; f->values <= number; f->values++) f->value[f->values] = (situ__fit_value){ -1, -2 };
  return number;
}

/* A value that no call has made is a parameter, a buffer or an input. */
static void settle(situ__flow *f, int64_t number, const situ_storage *storage) {
  situ__fit_value *v = &f->value[number];
  if (v->place != -2) return;
  const situ__trail *trail = *situ_dry_note(storage);
  v->place = -1;
  const int64_t tensor = trail->named ? (int64_t)(uintptr_t)situ__map_get(&f->by_path, key_of(trail->from)) - 1 : -1;
  if (tensor >= 0) {
    v->unit = (int32_t)tensor; /* until there are units */
    return;
  }
  v->place = (int16_t)place_at(f, storage->device);
  f->inputs[v->place] += situ_storage_block(storage);
}

static bool is_part(const situ_tensor *t) {
  return situ_role_of(t) == SITU_ROLE_PARAMETER || situ_role_of(t) == SITU_ROLE_BUFFER;
}

static void note_operand(situ__flow *f, situ__fit_call *call, const situ_view_desc *view, bool part, bool twice) {
  const int64_t number = value_of(f, view->storage);
  if (!number || !ensure(f, &f->operand, &f->operand_capacity, sizeof *f->operand, f->operands + 1)) return;
  settle(f, number, view->storage);
  uint64_t bytes = (uint64_t)view->numel * situ_dtype_size((situ_dtype)view->dtype);
  for (int d = 0; d < view->ndim; d++) /* a copy has what repeats once */
    if (!view->stride[d] && view->size[d] > 1) bytes /= (uint64_t)view->size[d];
  f->operand[f->operands++] = (situ__fit_operand){ .value = number, .bytes = bytes, .part = part, .twice = twice };
  call->count++;
}

static void note_result(situ__flow *f, situ__fit_call *call, const situ_storage *storage) {
  const int64_t number = value_of(f, storage);
  if (!number || f->value[number].place != -2) return; /* a view, or in place */
  f->value[number].place = -1;
  call->out[call->outs++] = number;
}

static void end_call(situ__flow *f, situ__fit_call *call) {
  char path[SITU__PREFLIGHT_PATH];
  situ_nn_running(path, sizeof path);
  if (call->count != 1) call->module = module_at(f, path);
  if (ensure(f, &f->call, &f->call_capacity, sizeof *f->call, f->calls + 1)) f->call[f->calls++] = *call;
}

void situ__flow_note(situ__flow *f, const situ_call *c, bool differentiated) {
  situ__fit_call call = { .first = f->operands, .module = -1, .written = -1 };
  bool grads = false;
  for (int k = 0; k < c->outs; k++) grads = grads || (c->out[k] && situ_requires_grad(c->out[k]));
  for (int i = 0; i < c->ins; i++) {
    const situ_tensor *t = c->in[i];
    if (!t) continue;
    const bool written =
        c->in_place ? i == 0 : !(c->op->flags & SITU_OP_VARIADIC) && c->op->operand[i].accept & SITU_WRITTEN;
    const int64_t before = call.count;
    note_operand(f, &call, situ_desc(t), is_part(t), differentiated && grads && situ_requires_grad(t));
    if (written && call.written < 0 && call.count > before) call.written = (int)before;
  }
  for (int k = 0; k < c->outs; k++)
    if (c->out[k]) note_result(f, &call, situ_desc(c->out[k])->storage);
  end_call(f, &call);
}

void situ__flow_note_work(situ__flow *f, const situ_work *work) {
  situ__fit_call call = { .first = f->operands, .module = -1, .written = -1 };
  for (int i = 0; i < work->ins; i++)
    if (work->in[i]) note_operand(f, &call, work->in[i], false, false);
  for (int k = 0; k < work->outs && k < SITU_RESULTS; k++)
    if (work->out[k]) note_result(f, &call, work->out[k]->storage);
  end_call(f, &call);
}

/* ---- units ---- */

typedef struct weighed {
  int64_t part, begins; /* begins: the first call that reads it */
  uint64_t bytes;
} weighed;

/* The parts in the order of their first use. Returns their number. */
static int64_t weigh(const situ__flow *f, weighed *part) {
  situ__map seen = { 0 };
  int64_t found = 0;
  for (int64_t i = 0; i < f->tensors; i++) part[i] = (weighed){ -1, f->calls, 0 };
  for (int64_t i = 0; i < f->tensors; i++) {
    const situ__fit_tensor *t = &f->tensor[i];
    if (situ__map_get(&seen, t->storage)) continue;
    (void)situ__map_put(&seen, t->storage, part); /* counted twice at worst */
    part[t->part].part = t->part;
    part[t->part].bytes += t->storage->bytes;
  }
  situ__map_free(&seen);
  for (int64_t k = f->calls - 1; k >= 0; k--)
    for (int64_t i = 0; i < f->call[k].count; i++) {
      const int32_t tensor = f->value[f->operand[f->call[k].first + i].value].unit;
      if (tensor >= 0) part[f->tensor[tensor].part].begins = k;
    }
  for (int64_t i = 0; i < f->tensors; i++)
    if (part[i].part >= 0) part[found++] = part[i];
  return found;
}

static int by_use(const void *a, const void *b) {
  const weighed *x = a, *y = b;
  if (x->begins != y->begins) return x->begins < y->begins ? -1 : 1;
  return x->part < y->part ? -1 : x->part > y->part;
}

/* One unit for each part. If there are too many, neighbours are joined up to a share of the bytes: two units that
   follow each other have more than one share, so there are at most twice as many units as shares, and one. */
static void number_units(situ__flow *f, const weighed *part, int64_t count, int64_t *unit_of) {
  uint64_t total = 0;
  for (int64_t i = 0; i < count; i++) total += part[i].bytes;
  const uint64_t share = total / (SITU__FIT_UNITS / 2 - 1);
  for (int64_t i = 0; i < count; i++) {
    const bool joins = count > SITU__FIT_UNITS && i && f->bytes[f->units - 1] + part[i].bytes <= share;
    if (!joins) f->begins[f->units++] = part[i].begins;
    f->bytes[f->units - 1] += part[i].bytes;
    unit_of[part[i].part] = f->units - 1;
  }
}

static void count_tensors(const situ__flow *f, const situ__fit_tensor *t) {
  char path[SITU__PREFLIGHT_PATH];
  (void)snprintf(path, sizeof path, "%s", t->path);
  for (char *dot = strrchr(path, '.'); dot; dot = strrchr(path, '.')) {
    *dot = 0;
    const int64_t known = (int64_t)(uintptr_t)situ__map_get(&f->by_path, key_of(path)) - 1;
    if (known >= 0) f->module[known].tensors[t->part]++;
  }
  const int64_t root = (int64_t)(uintptr_t)situ__map_get(&f->by_path, key_of("")) - 1;
  if (root >= 0) f->module[root].tensors[t->part]++;
}

void situ__flow_join(situ__flow *f) {
  weighed *part = situ__calloc((size_t)f->tensors + 1, sizeof *part);
  int64_t *unit_of = situ__calloc((size_t)f->tensors + 1, sizeof *unit_of);
  if (part && unit_of && !f->failed) {
    const int64_t count = weigh(f, part);
    qsort(part, (size_t)count, sizeof *part, by_use);
    number_units(f, part, count, unit_of);
    for (int64_t i = 0; i < f->tensors; i++) f->tensor[i].part = unit_of[f->tensor[i].part];
    for (int64_t i = 0; i < f->values; i++)
      if (f->value[i].unit >= 0) f->value[i].unit = (int32_t)f->tensor[f->value[i].unit].part;
    for (int64_t i = 0; i < f->tensors; i++) count_tensors(f, &f->tensor[i]);
  } else {
    f->failed = true;
  }
  situ__free(part);
  situ__free(unit_of);
}

void situ__flow_free(situ__flow *f) {
  for (int64_t i = 0; i < f->tensors; i++) situ__free(f->tensor[i].path);
  situ__free(f->tensor);
  situ__free(f->value);
  situ__free(f->operand);
  situ__free(f->call);
  situ__free(f->module);
  situ__map_free(&f->by_path);
}
