/* Hooks for the values that calls save for backward. A packed value leaves a tensor without memory behind, whose
   storage owns what pack has returned.
   SPDX-License-Identifier: MIT */
#include "autograd/saved.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "situ/sys/shape.h"

typedef struct situ__saved_scope {
  situ_saved_tensors_hooks hooks;
  bool passes_on; /* what pack returns NULL for goes to the outer hooks */
  struct situ__saved_scope *outer;
} active;

SITU__THREAD_LOCAL struct situ__saved_scope *situ__saved_hooks;

/* The payload of a storage of a packed value. */
typedef struct packed {
  situ_saved_tensors_hooks hooks;
  void *value;
} packed;

static situ_status begin(const char *op, const situ_saved_tensors_hooks *hooks, bool passes_on) {
  if (!hooks) return situ__null(op, "hooks");
  if (!hooks->pack || !hooks->unpack) return situ__fail(SITU_E_ARG, op, "hooks need both pack and unpack");
  active *now = situ__alloc(sizeof *now);
  if (!now) return situ__no_memory(op, sizeof *now);
  *now = (active){ *hooks, passes_on, situ__saved_hooks };
  situ__saved_hooks = now;
  return SITU_OK;
}

situ_status situ_autograd_graph_saved_tensors_hooks_begin(const situ_saved_tensors_hooks *hooks) {
  return begin("autograd_graph_saved_tensors_hooks_begin", hooks, false);
}

situ_status situ_saved_hooks_begin_first(const situ_saved_tensors_hooks *hooks) {
  return begin("saved_hooks_begin_first", hooks, true);
}

situ_status situ_autograd_graph_saved_tensors_hooks_end(void) {
  active *now = situ__saved_hooks;
  if (!now)
    return situ__fail(SITU_E_STATE, "autograd_graph_saved_tensors_hooks_end",
                      "no hooks for saved tensors have begun on this thread");
  situ__saved_hooks = now->outer;
  situ__free(now);
  return SITU_OK;
}

/* ---- packing ---- */

static void release_packed(void *payload) {
  packed *p = payload;
  if (p->hooks.release) p->hooks.release(p->value, p->hooks.payload);
  situ__free(p);
}

bool situ__saved_is_packed(const situ_tensor *saved) {
  return situ__is_sample(saved) && saved->view.storage->release == release_packed;
}

/* A tensor like t, whose storage owns p; NULL after recording an error. The caller owns the reference. */
static situ_tensor *shell_of(const char *op, const situ_tensor *t, packed *p) {
  const situ_storage *memory = t->view.storage;
  situ_storage *storage = situ__storage_sample(op, memory->device, memory->bytes);
  if (!storage) return NULL;
  situ_view_desc v = t->view;
  v.storage = storage;
  situ_tensor *shell = situ__tensor_alias(op, &v, t->created_at);
  if (shell) {
    storage->release = release_packed;
    storage->payload = p;
    shell->name = situ__share_text(t->name); /* for messages only */
  }
  situ__storage_release(storage);
  return shell;
}

bool situ__saved_pack(const char *op, situ_tensor **saved) {
  active *const innermost = situ__saved_hooks, *now = innermost;
  situ_scope s;
  situ__saved_hooks = NULL; /* what pack calls is not packed */
  situ_scope_begin_no_grad(&s);
  const uint64_t errors = situ__error_count();
  void *value = now->hooks.pack(*saved, now->hooks.payload);
  while (!value && now->passes_on && now->outer) {
    now = now->outer;
    value = now->hooks.pack(*saved, now->hooks.payload);
  }
  const bool good = situ_scope_end(&s) == SITU_OK && situ__error_count() == errors;
  situ__saved_hooks = innermost;
  if (!value) return good;
  packed *p = situ__alloc(sizeof *p);
  if (!p) situ__no_memory(op, sizeof *p);
  situ_tensor *shell = NULL;
  if (p) {
    *p = (packed){ now->hooks, value };
    shell = shell_of(op, *saved, p);
  }
  if (shell) {
    situ_release(*saved);
    *saved = shell;
    return good;
  }
  situ__free(p);
  if (now->hooks.release) now->hooks.release(value, now->hooks.payload);
  return false;
}

/* ---- unpacking ---- */

static bool is_as_saved(const char *op, const situ_tensor *shell, const situ_tensor *t) {
  if (!situ__need(op, "unpacked", t)) return false;
  const situ_device was = shell->view.storage->device, is = t->view.storage->device;
  if (situ__same_sizes(&shell->view, &t->view) && shell->view.dtype == t->view.dtype && situ__same_device(was, is))
    return true;
  const situ_shape a = situ__shape(&shell->view), b = situ__shape(&t->view);
  char old[SITU_SHAPE_TEXT], now[SITU_SHAPE_TEXT], from[SITU_DEVICE_NAME_MAX], to[SITU_DEVICE_NAME_MAX];
  return situ__fail(SITU_E_STATE, op, "a saved tensor was %s %s on %s, and its hook unpacked %s %s on %s",
                    situ_dtype_name((situ_dtype)shell->view.dtype), situ_shape_text(&a, old),
                    situ_device_name(was, from), situ_dtype_name((situ_dtype)t->view.dtype), situ_shape_text(&b, now),
                    situ_device_name(is, to)),
         false;
}

situ_tensor *situ__saved_unpack(const char *op, situ_tensor *shell) {
  const packed *p = shell->view.storage->payload;
  active *now = situ__saved_hooks;
  situ_scope s;
  situ__saved_hooks = NULL;
  situ_scope_begin_no_grad(&s);
  const uint64_t errors = situ__error_count();
  situ_tensor *t = p->hooks.unpack(p->value, p->hooks.payload);
  if (!t && situ__error_count() == errors) situ__fail(SITU_E_STATE, op, "a hook unpacked no tensor");
  if (t && (!is_as_saved(op, shell, t) || !(t = situ__tensor_view(op, &t->view)))) t = NULL;
  if (t) t = situ_escape(&s, t);
  const bool good = situ_scope_end(&s) == SITU_OK;
  situ__saved_hooks = now;
  return good ? t : NULL;
}
