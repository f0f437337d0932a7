/* Gradients and hooks of tensors, and the public queries.
   SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "autograd/view.h"
#include "base/alloc.h"
#include "base/fail.h"
#include "base/refs.h"
#include "situ/sys/grad.h"
#include "situ/sys/shape.h"

situ__meta *situ__meta_of(const char *op, situ_tensor *t) {
  situ__meta *m = situ__meta_now(t), *before = NULL;
  if (m) return m;
  m = situ__small_alloc(sizeof *m);
  if (!m) return situ__no_memory(op, sizeof *m), NULL;
  *m = (situ__meta){ .refs = 1 };
  if (!__atomic_compare_exchange_n(&t->meta, &before, m, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
    situ__small_free(m, sizeof *m);
    return before;
  }
  if (t->node) { /* the node runs the hooks even after the tensor was freed */
    m->refs++;
    situ__meta_release(t->node->out[t->node_result].meta);
    t->node->out[t->node_result].meta = m;
  }
  return m;
}

static void free_hooks(situ__hook *hook) {
  while (hook) {
    situ__hook *next = hook->next;
    situ__free(hook);
    hook = next;
  }
}

static situ_status add_hook(const char *op, situ__hook **list, situ__hook hook) {
  situ__hook *added = situ__alloc(sizeof *added);
  if (!added) return situ__no_memory(op, sizeof *added);
  *added = hook;
  while (*list) list = &(*list)->next;
  *list = added;
  return SITU_OK;
}

void situ__gradient_left(situ_tensor *grad) {
  if (grad && grad->role == SITU_ROLE_GRADIENT && situ_owners(grad) > 1) grad->role = SITU_ROLE_TENSOR;
}

void situ__meta_release(situ__meta *m) {
  if (!m || !situ__refs_drop(&m->refs)) return;
  situ__gradient_left(m->grad);
  situ_release(m->grad);
  situ_release(m->tangent);
  free_hooks(m->hooks);
  free_hooks(m->after);
  free_hooks(m->ready);
  situ__free(m->part);
  situ__small_free(m, sizeof *m);
}

void situ__release_history(situ_tensor *t) {
  situ__node *node = t->node;
  situ__meta *meta = t->meta;
  situ_tensor *base = t->base;
  t->node = NULL;
  t->meta = NULL;
  t->base = NULL;
  if (meta) situ__meta_release(meta);
  if (node) situ__node_release(node);
  if (base) situ_release(base);
}

/* ---- queries ---- */

bool situ_requires_grad(const situ_tensor *t) { return situ__need("requires_grad", "input", t) && t->requires_grad; }
bool situ_is_leaf(const situ_tensor *t) {
  return situ__need("is_leaf", "input", t) && !t->node && !situ__view_is_stale(t);
}
bool situ_is_grad_enabled(void) { return situ__recording(); }

situ_tensor *situ_requires_grad_(situ_tensor *t, bool wanted) {
  const char *op = "requires_grad_";
  if (!situ__need(op, "input", t)) return NULL;
  if (!situ__view_fresh(op, t)) return NULL;
  if (t->node && !wanted)
    return situ__fail(SITU_E_STATE, op,
                      "only a leaf can stop requiring a gradient; use situ_detach for the result of %s", t->node->name),
           NULL;
  if (wanted && !situ_dtype_is_floating((situ_dtype)t->view.dtype))
    return situ__fail(SITU_E_DTYPE, op, "a %s tensor cannot require a gradient: only f16, bf16, f32 and f64 can",
                      situ_dtype_name((situ_dtype)t->view.dtype)),
           NULL;
  t->requires_grad = wanted;
  if (wanted && !t->node) t->first_order = false; /* a new leaf, regardless of how it was computed */
  return t;
}

situ_tensor *situ_grad(const situ_tensor *t) {
  return situ__need("grad", "input", t) && t->meta ? t->meta->grad : NULL;
}

bool situ__gradient_fits(const char *op, const char *name, const situ_tensor *given, const situ_tensor *t) {
  const situ_view_desc *got = &given->view, *want = &t->view;
  const situ_device from = got->storage->device, to = want->storage->device;
  const bool here = situ__same_device(from, to), alike = got->dtype == want->dtype;
  if (here && alike && situ__same_sizes(got, want)) return true;
  const situ_blamed list[] = { { .operand = "input", .tensor = t }, { .operand = name, .tensor = given, .odd = true } };
  const situ_shape is = situ__shape(got), wanted = situ__shape(want);
  char a[SITU_SHAPE_TEXT], b[SITU_SHAPE_TEXT], text[2 * SITU_SHAPE_TEXT + 100];
  if (here)
    (void)snprintf(text, sizeof text, "%s is %s %s, the tensor %s %s", name, situ_dtype_name((situ_dtype)got->dtype),
                   situ_shape_text(&is, a), situ_dtype_name((situ_dtype)want->dtype), situ_shape_text(&wanted, b));
  else
    (void)snprintf(text, sizeof text, "%s is on %s, the tensor on %s", name, situ_device_name(from, a),
                   situ_device_name(to, b));
  SITU_IGNORE(situ__autograd_up.blame(here ? alike ? SITU_E_SHAPE : SITU_E_DTYPE : SITU_E_DEVICE, op, list, 2, text));
  return false;
}

situ_status situ_set_grad(situ_tensor *t, situ_tensor *grad) {
  const char *op = "set_grad";
  if (!situ__need(op, "input", t)) return situ_error();
  if (!grad) {
    if (!t->meta) return SITU_OK;
    situ__gradient_left(t->meta->grad);
    situ_drop(&t->meta->grad);
    t->meta->in_parts = false;
    return SITU_OK;
  }
  if (!situ__need(op, "grad", grad)) return situ_error();
  if (!situ__gradient_fits(op, "grad", grad, t)) return situ_error();
  situ__meta *m = situ__meta_of(op, t);
  if (!m) return situ_error();
  if (m->grad != grad) situ__gradient_left(m->grad);
  situ_set(&m->grad, grad);
  if (grad->role == SITU_ROLE_TENSOR) grad->role = SITU_ROLE_GRADIENT;
  m->in_parts = false;
  return SITU_OK;
}

situ_status situ_set_grad_in_parts(situ_tensor *t) {
  const char *op = "set_grad_in_parts";
  if (!situ__need(op, "input", t)) return situ_error();
  situ__meta *m = situ__meta_of(op, t);
  if (!m) return situ_error();
  situ__gradient_left(m->grad);
  situ_drop(&m->grad);
  m->in_parts = true;
  return SITU_OK;
}

bool situ_grad_is_in_parts(const situ_tensor *t) {
  return situ__need("grad_is_in_parts", "input", t) && t->meta && t->meta->in_parts;
}

situ_tensor *situ_detach(situ_tensor *t) {
  if (!situ__need("detach", "input", t)) return NULL;
  return situ__tensor_view("detach", &t->view);
}

situ_status situ_retain_grad(situ_tensor *t) {
  const char *op = "retain_grad";
  if (!situ__need(op, "input", t)) return situ_error();
  if (!t->requires_grad) return situ__fail(SITU_E_STATE, op, "the tensor does not require a gradient");
  if (!situ__view_fresh(op, t)) return situ_error();
  situ__meta *m = situ__meta_of(op, t);
  if (!m) return situ_error();
  m->retain = true;
  return SITU_OK;
}

situ_status situ_register_hook(situ_tensor *t, situ_grad_hook hook, void *payload) {
  const char *op = "register_hook";
  if (!situ__need(op, "input", t)) return situ_error();
  if (!hook) return situ__fail(SITU_E_ARG, op, "hook is NULL");
  if (!t->requires_grad) return situ__fail(SITU_E_STATE, op, "the tensor does not require a gradient");
  if (!situ__view_fresh(op, t)) return situ_error();
  situ__meta *m = situ__meta_of(op, t);
  return m ? add_hook(op, &m->hooks, (situ__hook){ .fn = hook, .payload = payload }) : situ_error();
}

/* Where the hooks of a leaf are; NULL after recording an error. */
static situ__meta *leaf_meta(const char *op, situ_tensor *t, bool given) {
  if (!situ__need(op, "input", t)) return NULL;
  if (given && situ_is_leaf(t) && t->requires_grad) return situ__meta_of(op, t);
  if (!given) situ__fail(SITU_E_ARG, op, "hook is NULL");
  else situ__fail(SITU_E_STATE, op, "the tensor is not a leaf that requires a gradient");
  return NULL;
}

situ_status situ_register_post_accumulate_grad_hook(situ_tensor *t, situ_post_accumulate_grad_hook hook,
                                                    void *payload) {
  const char *op = "register_post_accumulate_grad_hook";
  situ__meta *m = leaf_meta(op, t, hook != NULL);
  return m ? add_hook(op, &m->after, (situ__hook){ .after = hook, .payload = payload }) : situ_error();
}

situ_status situ_register_grad_ready_hook(situ_tensor *t, situ_grad_ready_hook hook, void *payload) {
  const char *op = "register_grad_ready_hook";
  situ__meta *m = leaf_meta(op, t, hook != NULL);
  return m ? add_hook(op, &m->ready, (situ__hook){ .ready = hook, .payload = payload }) : situ_error();
}

static void remove_from(situ__hook **list, const void *payload) {
  while (*list) {
    situ__hook *hook = *list;
    if (hook->payload != payload) {
      list = &hook->next;
      continue;
    }
    *list = hook->next;
    situ__free(hook);
  }
}

void situ_remove_hooks(situ_tensor *t, const void *payload) {
  if (!situ__need("remove_hooks", "input", t)) return;
  situ__meta *m = situ__meta_now(t);
  if (!m) return;
  remove_from(&m->hooks, payload);
  remove_from(&m->after, payload);
  remove_from(&m->ready, payload);
}
