/* torch.func.functional_call: a call of a module with other tensors in the place of its own. They are put in its slots
   and fields for the time of the call, so that code that reads a part's tensors directly sees them too; a claim keeps
   other threads away meanwhile.
   SPDX-License-Identifier: MIT */
#include "situ/func.h"

#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/map.h"
#include "base/text.h"
#include "nn/nn.h"
#include "situ/sys/tensor.h"

static const char op[] = "func_functional_call";

/* A slot that has another tensor during the call. It owns a reference to the module and to the slot's own tensor. */
typedef struct place {
  situ_nn_module *module;
  int64_t slot; /* its number */
  situ_tensor *own, *given;
} place;

typedef struct replacing {
  const struct replacing *outer; /* the call inside of which this one runs */
  const situ_tree *given;        /* flat */
  bool tied, strict;
  situ__map values; /* of a module's tensor, or without `tied` of a slot: the given one for it */
  situ__map found;  /* leaves of `given` that the module has */
  situ__map listed; /* slots: a module that is registered twice is visited twice */
  place *list;
  int64_t count, capacity;
  situ__text missing;
} replacing;

static SITU__THREAD_LOCAL const replacing *running;

bool situ__nn_is_lent(const situ_tensor *t) {
  for (const replacing *r = running; r; r = r->outer)
    for (int64_t i = 0; i < r->count; i++)
      if (r->list[i].given == t) return true;
  return false;
}

/* ---- finding the slots ---- */

static const void *key_of(const replacing *r, const situ_nn_visit *at) {
  return r->tied ? (const void *)at->tensor : (const void *)at->slot;
}

static situ_status meet(const situ_nn_visit *at, void *payload) {
  replacing *r = payload;
  const situ_tree *leaf = situ_tree_find(r->given, at->path);
  if (!leaf) return SITU_OK;
  situ_tensor *given = situ_tree_value(leaf);
  const situ_tensor *other = situ__map_get(&r->values, key_of(r, at));
  if (!given) return situ_error();
  if (other && other != given)
    return situ__fail(SITU_E_ARG, op, "%s: another tensor is given under another name of the same %s", at->path,
                      r->tied ? "tensor; set .untie_weights to give each name its own" : "module's tensor");
  if (!situ__map_put(&r->found, leaf, given) || !situ__map_put(&r->values, key_of(r, at), given))
    return situ__no_memory(op, sizeof(void *));
  return SITU_OK;
}

static situ_status choose(const situ_nn_visit *at, void *payload) {
  replacing *r = payload;
  situ_tensor *given = situ__map_get(&r->values, key_of(r, at));
  if (!given && r->strict) situ__text_add(&r->missing, "%s%s", r->missing.length ? ", " : "missing: ", at->path);
  if (!given || given == at->tensor || situ__map_get(&r->listed, at->slot)) return SITU_OK;
  if (!situ__grow(op, &r->list, &r->capacity, sizeof *r->list, r->count + 1)) return situ_error();
  if (!situ__map_put(&r->listed, at->slot, given)) return situ__no_memory(op, sizeof(void *));
  r->list[r->count++] = (place){ at->module, at->slot - at->module->slots, at->tensor, given };
  return SITU_OK;
}

/* Names that the module does not have, and with strict, those that are not given. */
static bool accept_names(replacing *r, const situ_nn_module *m) {
  situ__text wrong = { 0 };
  for (int64_t i = 0; i < situ_tree_count(r->given); i++)
    if (!situ__map_get(&r->found, situ_tree_at(r->given, i)))
      situ__text_add(&wrong, "%s%s", wrong.length ? ", " : "unexpected: ", situ_tree_key(r->given, i));
  const bool good = !wrong.length && !r->missing.length, failed = wrong.failed || r->missing.failed;
  if (failed) situ__no_memory(op, 1);
  else if (!good)
    situ__fail(SITU_E_ARG, op, "the tensors do not fit %s\n  %s%s%s", m->type->name, wrong.length ? wrong.data : "",
               wrong.length && r->missing.length ? "\n  " : "", r->missing.length ? r->missing.data : "");
  situ__text_free(&wrong);
  return good && !failed;
}

static bool find_places(replacing *r, situ_nn_module *m) {
  return situ_nn_walk(m, SITU_NN_VISIT_TENSORS, meet, r) == SITU_OK &&
         situ_nn_walk(m, SITU_NN_VISIT_TENSORS, choose, r) == SITU_OK && accept_names(r, m);
}

/* ---- replacing ---- */

/* The slot, if it has this tensor; the call may have taken out or moved it. */
static situ_nn_slot *find_slot(const place *p, const situ_tensor *held) {
  const situ_nn_module *m = p->module;
  if (p->slot < m->count && m->slots[p->slot].held == held) return &m->slots[p->slot];
  for (int64_t i = 0; i < m->count; i++)
    if (m->slots[i].held == held) return &m->slots[i];
  return NULL;
}

/* Puts a tensor in the slot in the place of another. Returns false if the slot is gone. */
static bool exchange(const place *p, situ_tensor *out, situ_tensor *in) {
  situ__nn_lock();
  situ_nn_slot *slot = find_slot(p, out);
  if (slot) slot->held = in;
  if (slot && slot->offset) memcpy((char *)p->module + slot->offset, &in, sizeof(void *));
  situ__nn_unlock();
  if (!slot) return false;
  situ_count_slot(in, 1);
  situ_count_slot(out, -1);
  return true;
}

static void replace(const replacing *r) {
  for (int64_t i = 0; i < r->count; i++) {
    const place *p = &r->list[i];
    __atomic_fetch_add(&p->module->refs, 1, __ATOMIC_RELAXED);
    situ_retain(p->given);
    (void)exchange(p, p->own, p->given);
  }
}

static void restore(const replacing *r) {
  for (int64_t i = 0; i < r->count; i++) {
    const place *p = &r->list[i];
    situ_release(exchange(p, p->given, p->own) ? p->given : p->own);
    situ__nn_let_go(p->module);
  }
}

/* ---- calling ---- */

static void end(replacing *r) {
  situ__map_free(&r->values);
  situ__map_free(&r->found);
  situ__map_free(&r->listed);
  situ__text_free(&r->missing);
  situ__free(r->list);
  situ_tree_free((situ_tree *)(uintptr_t)r->given);
}

situ_tree *situ_func_functional_call_tree(situ_nn_module *m, const situ_tree *tensors, const situ_tree *inputs,
                                          const situ_functional_call_options *options) {
  SITU__CLAIM(claim);
  if (!situ__nn_given(op, "module", m) || !situ__valid(op, "tensors", tensors, SITU__A_TREE) ||
      !situ__valid(op, "inputs", inputs, SITU__A_TREE) || !situ__nn_claim(op, m, &claim))
    return NULL;
  replacing r = { .given = situ_tree_flatten(tensors),
                  .tied = !options || !options->untie_weights,
                  .strict = options && options->strict };
  situ_tree *out = NULL;
  if (r.given && find_places(&r, m)) {
    replace(&r);
    r.outer = running;
    running = &r;
    out = situ_nn_call(m, inputs);
    running = r.outer;
    restore(&r);
  }
  end(&r);
  return out;
}

situ_tensor *situ_func_functional_call(situ_nn_module *m, const situ_tree *tensors, situ_tensor *x,
                                       const situ_functional_call_options *options) {
  if (!situ__valid(op, "input", x, SITU__A_TENSOR)) return NULL;
  situ_tree *inputs = situ_tree_tensor(x);
  situ_tree *out = inputs ? situ_func_functional_call_tree(m, tensors, inputs, options) : NULL;
  situ_tensor *y = out ? situ_tree_value(out) : NULL;
  situ_tree_free(out);
  situ_tree_free(inputs);
  return y;
}
