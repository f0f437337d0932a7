/* Tensors of a module that are computed from parameters at every call. A module's code reads its tensors from the
   fields of its struct, so a call gets a copy of the struct whose fields have the computed ones. Between calls the
   field shows the original of the same shape.
   SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "nn/nn.h"
#include "situ/sys/shape.h"

/* "parametrizations.<name>": its tensors are the originals, its modules the computations, in order. */
typedef struct list {
  situ_nn_module base;
  size_t offset; /* of the field in the struct of the module that it belongs to */
} list;

static const situ_nn_type list_type = { .name = "ParametrizationList", .size = sizeof(list) };
static const char PARTS[] = "parametrizations";

static list *list_of(const situ_nn_slot *slot) {
  situ_nn_module *m = situ__nn_is_child(slot) ? slot->held : NULL;
  return m && m->type == &list_type ? (list *)m : NULL;
}

/* The module "parametrizations" of a parametrized module. */
static situ_nn_module *lists_of(const situ_nn_module *m) {
  const situ_nn_slot *slot = m->parametrized ? situ__nn_find(m, PARTS) : NULL;
  return slot && situ__nn_is_child(slot) ? slot->held : NULL;
}

static list *find_list(const situ_nn_module *m, const char *name) {
  const situ_nn_module *lists = lists_of(m);
  const situ_nn_slot *slot = lists ? situ__nn_find(lists, name) : NULL;
  return slot ? list_of(slot) : NULL;
}

bool situ__nn_is_parametrized(const situ_nn_module *m, const char *name) { return find_list(m, name) != NULL; }

/* The last of the originals has the tensor's shape. */
static situ_nn_slot *shown(const list *l) {
  situ_nn_slot *last = NULL;
  for (int64_t i = 0; i < l->base.count; i++)
    if (!situ__nn_is_child(&l->base.slots[i])) last = &l->base.slots[i];
  return last;
}

static int originals(const list *l, situ_tensor *out[2]) {
  int count = 0;
  for (int64_t i = 0; i < l->base.count && count < 2; i++)
    if (!situ__nn_is_child(&l->base.slots[i])) out[count++] = l->base.slots[i].held;
  return count;
}

static void set_field(situ_nn_module *m, const list *l, const situ_tensor *t) {
  memcpy((char *)m + l->offset, &t, sizeof(void *));
}

void situ__nn_show_originals(situ_nn_module *m) {
  const situ_nn_module *lists = lists_of(m);
  for (int64_t i = 0; lists && i < lists->count; i++) {
    const list *l = list_of(&lists->slots[i]);
    const situ_nn_slot *slot = l ? shown(l) : NULL;
    if (slot) set_field(m, l, slot->held);
  }
}

/* ---- computing ---- */

static situ_tensor *compute(const list *l) {
  situ_tensor *in[2] = { NULL, NULL }, *y = NULL;
  const int count = originals(l, in);
  for (int64_t i = 0; i < l->base.count; i++) {
    if (!situ__nn_is_child(&l->base.slots[i])) continue;
    situ_nn_module *step = l->base.slots[i].held;
    y = y ? situ_nn_forward(step, y) : count == 2 ? situ_nn_forward2(step, in[0], in[1]) : situ_nn_forward(step, in[0]);
    if (!y) return NULL;
  }
  return y;
}

/* A tensor of m in the field at `offset`. */
static void restore_field(const situ_nn_module *m, situ_nn_module *stand_in, size_t offset) {
  if (offset) memcpy((char *)stand_in + offset, (const char *)m + offset, sizeof(void *));
}

static void drop(const situ_nn_module *m, situ_nn_module *stand_in) {
  if (stand_in->slots != m->slots) situ__free(stand_in->slots);
  situ__free(stand_in);
}

situ_nn_module *situ__nn_stand_in(situ_nn_module *m, situ__nn_fetched *fetched) {
  const size_t size = m->type->size;
  situ_nn_module *copy = situ__calloc(1, size);
  if (!copy) return situ__no_memory("nn_forward", size), NULL;
  *copy = (situ_nn_module){ .head = m->head,
                            .refs = 1,
                            .type = m->type,
                            .slots = m->slots,
                            .count = m->count,
                            .children = m->children,
                            .name = m->name,
                            .home = m->home,
                            .training = m->training,
                            .standing_in = true };
  memcpy(copy + 1, m + 1, size - sizeof *m);
  bool good = situ__nn_fetch_all(fetched, m, copy);
  const situ_nn_module *lists = lists_of(m);
  for (int64_t i = 0; good && lists && i < lists->count; i++) {
    const list *l = list_of(&lists->slots[i]);
    situ_tensor *y = l ? compute(l) : NULL;
    if (y && (y = situ__nn_fetch(fetched, y))) set_field(copy, l, y);
    good = !l || y;
  }
  if (good) return copy;
  drop(m, copy);
  return NULL;
}

void situ__nn_stand_down(situ_nn_module *m, situ_nn_module *stand_in) {
  if (!stand_in) return;
  const size_t own = m->type->size - sizeof *m;
  const situ_nn_module *lists = lists_of(m);
  for (int64_t i = 0; lists && i < lists->count; i++) {
    const list *l = list_of(&lists->slots[i]);
    if (l) restore_field(m, stand_in, l->offset);
  }
  for (int64_t i = 0; stand_in->slots != m->slots && i < m->count; i++) restore_field(m, stand_in, m->slots[i].offset);
  if (memcmp(m + 1, stand_in + 1, own) != 0) memcpy(m + 1, stand_in + 1, own);
  drop(m, stand_in);
}

/* ---- registration ---- */

static bool refuse(const char *op, situ_status status, const situ_nn_module *m, const char *name, const char *why) {
  return situ__fail(status, op, "%s.%s %s", situ__nn_type(m)->name, name, why), false;
}

/* The slot of a parameter that can be parametrized; NULL after recording an error. */
static situ_nn_slot *parameter_slot(const char *op, situ_nn_module *m, const char *name) {
  situ_nn_slot *slot = situ__nn_find(m, name);
  const char *why = situ__nn_pending(m)                        ? "has no shape before the first input"
                    : !slot || slot->kind != SITU_NN_PARAMETER ? "is not a parameter"
                    : !slot->offset ? "is not in a field of the module's struct, where its forward would look for it"
                                    : NULL;
  if (!why) return slot;
  return refuse(op, SITU_E_ARG, m, name, why), NULL;
}

static bool is_alike(const char *op, const situ_nn_module *m, const char *name, const situ_tensor *y,
                     const situ_tensor *x) {
  if (!y) return false;
  const situ_shape a = situ_shape_of(y), b = situ_shape_of(x);
  if (situ_shape_equal(&a, &b) && situ_dtype_of(y) == situ_dtype_of(x) &&
      situ_device_equal(situ_device_of(y), situ_device_of(x)))
    return true;
  return refuse(op, SITU_E_ARG, m, name, "would have another shape, dtype or device by this parametrization");
}

/* What the parametrization gives now; its scope has ended. */
static bool is_usable(const char *op, const situ_nn_module *m, const char *name, const list *l, situ_nn_module *next) {
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  situ_tensor *y = compute(l);
  if (y && next) y = situ_nn_forward(next, y);
  const bool good = is_alike(op, m, name, y, shown(l)->held);
  return situ_scope_end(&s) == SITU_OK && good;
}

static situ_nn_module *append(const char *op, situ_nn_module *m, const char *name, list *l, situ_nn_module *step) {
  char number[24];
  snprintf(number, sizeof number, "%lld", (long long)situ_nn_len(&l->base));
  if (is_usable(op, m, name, l, step)) return situ_nn_add_child(&l->base, number, NULL, step) ? m : NULL;
  return situ__nn_give_up(step), NULL;
}

/* A list of the originals (first may be NULL) and step, which it takes over, also on error. */
static list *new_list(situ_nn_slot *slot, situ_tensor *first, situ_nn_module *step) {
  list *l = situ_nn_alloc(&list_type);
  situ_nn_module *base = l ? &l->base : NULL;
  if (l) l->offset = slot->offset;
  if (first) situ_nn_add_tensor(base, "original0", NULL, first, SITU_NN_PARAMETER);
  situ_nn_add_tensor(base, first ? "original1" : "original", NULL, slot->held, SITU_NN_PARAMETER);
  situ_nn_add_child(base, "0", NULL, step);
  return (list *)situ_nn_done(l);
}

static bool begin(const char *op, situ_nn_module *m, const char *name, situ_nn_module *step, situ_tensor *first,
                  situ_nn_slot *slot) {
  char path[256], old[256];
  snprintf(old, sizeof old, "%s", situ_name(slot->held));
  const bool wanted = situ_requires_grad(slot->held);
  if (snprintf(path, sizeof path, "%s.%s", PARTS, name) >= (int)sizeof path)
    return situ__nn_give_up(step), refuse(op, SITU_E_ARG, m, name, "has too long a name");
  situ_tensor *own = slot->held;
  list *l = new_list(slot, first, step);
  bool good = l && is_usable(op, m, name, l, NULL);
  if (l && !good) situ__nn_give_up(&l->base);
  good = good && situ_nn_add_child(m, path, NULL, &l->base);
  SITU_IGNORE(situ_requires_grad_(own, wanted) ? SITU_OK : situ_error()); /* registration turned it on */
  if (good && first) SITU_IGNORE(situ_requires_grad_(first, wanted) ? SITU_OK : situ_error());
  if (!good) {
    SITU_IGNORE(situ_set_name(own, old) ? SITU_OK : situ_error());
    return false;
  }
  situ__nn_remove_slot(m, name);
  m->parametrized = true;
  situ__nn_compute_on(lists_of(m), (situ_device){ 0 }, 0);
  return true;
}

bool situ__nn_parametrize(const char *op, situ_nn_module *m, const char *name, situ_nn_module *step,
                          situ_tensor *first) {
  SITU__CLAIM(claim);
  list *l = find_list(m, name);
  if (situ__nn_change(op, m, &claim)) {
    if (l && !first) return append(op, m, name, l, step) != NULL;
    if (l) refuse(op, SITU_E_STATE, m, name, "is parametrized already: this parametrization must be the first");
    situ_nn_slot *slot = l ? NULL : parameter_slot(op, m, name);
    if (slot) return begin(op, m, name, step, first, slot);
  }
  return situ__nn_give_up(step), false;
}

situ_tensor *situ__nn_parametrized_or_own(const char *op, situ_nn_module *m, const char *name) {
  const list *l = find_list(m, name);
  const situ_nn_slot *slot = l ? shown(l) : parameter_slot(op, m, name);
  return slot ? slot->held : NULL;
}

situ_nn_module *situ_nn_utils_register_parametrization(situ_nn_module *m, const char *name,
                                                       situ_nn_module *parametrization) {
  const char *op = "nn_utils_register_parametrization";
  if (situ__nn_given(op, "module", m) && situ__given(op, "name", name) &&
      situ__nn_given(op, "parametrization", parametrization))
    return situ__nn_parametrize(op, m, name, parametrization, NULL) ? m : NULL;
  return situ__nn_give_up(parametrization), NULL;
}

/* ---- removal ---- */

static bool remove_list(const char *op, situ_nn_module *m, const char *name, list *l, situ_tensor *value) {
  situ_nn_slot *from = shown(l);
  situ_tensor *own = from->held;
  situ_nn_module *lists = lists_of(m);
  char old[256];
  snprintf(old, sizeof old, "%s", situ_name(own));
  if (!situ_set_name(own, name) || !situ__nn_add_slot(op, m, situ__shared_text(name), from->kind, l->offset, own))
    return false;
  situ_retain(own);
  if (value && !situ_copy_(own, value)) {
    situ__nn_remove_slot(m, name);
    SITU_IGNORE(situ_set_name(own, old) ? SITU_OK : situ_error());
    return false;
  }
  set_field(m, l, own);
  if (situ_nn_len(lists) > 1) {
    situ__nn_remove_slot(lists, name);
  } else {
    situ__nn_remove_slot(m, PARTS);
    m->parametrized = false;
  }
  return true;
}

situ_nn_module *situ_nn_utils_remove_parametrizations(situ_nn_module *m, const char *name, bool leave_parametrized) {
  const char *op = "nn_utils_remove_parametrizations";
  SITU__CLAIM(claim);
  SITU__CLAIM(parts);
  if (!situ__nn_given(op, "module", m) || !situ__given(op, "name", name) || !situ__nn_change(op, m, &claim))
    return NULL;
  list *l = find_list(m, name);
  situ_tensor *in[2];
  if (!l) return refuse(op, SITU_E_ARG, m, name, "is not parametrized"), NULL;
  if (!leave_parametrized && originals(l, in) > 1)
    return refuse(op, SITU_E_ARG, m, name, "is computed from several originals: none of them is its value"), NULL;
  if (!situ__nn_claim_to_free(op, &l->base, &parts)) return NULL;
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  situ_tensor *value = leave_parametrized ? compute(l) : NULL;
  const bool good = (value || !leave_parametrized) && remove_list(op, m, name, l, value);
  return situ_scope_end(&s) == SITU_OK && good ? m : NULL;
}

/* ---- questions ---- */

bool situ_nn_utils_is_parametrized(const situ_nn_module *m, const char *name) {
  return situ__nn_given("nn_utils_is_parametrized", "module", m) &&
         (name ? situ__nn_is_parametrized(m, name) : m->parametrized);
}

situ_tensor *situ_nn_utils_parametrized(situ_nn_module *m, const char *name) {
  const char *op = "nn_utils_parametrized";
  situ__use use;
  if (!situ__nn_given(op, "module", m) || !situ__given(op, "name", name)) return NULL;
  const list *l = find_list(m, name);
  if (!l) return refuse(op, SITU_E_ARG, m, name, "is not parametrized"), NULL;
  if (!situ__module_use(op, m, &use)) return NULL;
  situ_tensor *y = compute(l);
  situ__use_end();
  return y;
}
