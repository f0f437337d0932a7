/* Calls of modules: a scope, the module's home as the default device, hooks, and the module's own code.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/watch.h"
#include "nn/nn.h"
#include "situ/policy.h"
#include "situ/sys/dry.h"
#include "situ/sys/layers.h"
#include "situ/sys/shape.h"
#include "situ/sys/tensor.h"

/* ---- home ---- */

static situ_device first_device(const situ_nn_module *m, int depth) {
  const int64_t count = situ__nn_count(m);
  if (m->computes_on.kind) return m->computes_on;
  for (int64_t i = 0; i < count && m->children < count; i++)
    if (!situ__nn_is_child(&m->slots[i])) return situ_device_of(m->slots[i].held);
  for (int64_t i = 0; i < count && depth < SITU__NN_DEPTH; i++) {
    if (!situ__nn_is_child(&m->slots[i])) continue;
    situ_device found = first_device(m->slots[i].held, depth + 1);
    if (found.kind != SITU_DEVICE_DEFAULT) return found;
  }
  return (situ_device){ 0 };
}

static inline situ_device home_of(const situ_nn_module *m) {
  const situ_device found = first_device(m, 0);
  return found.kind == SITU_DEVICE_DEFAULT ? m->home : found;
}
situ_device situ_nn_home(const situ_nn_module *m) {
  return m && situ__nn_given("nn_home", "module", m) ? home_of(m) : (situ_device){ 0 };
}

/* ---- a call ---- */

typedef struct frame {
  situ__nn_frame running;
  situ_scope scope;
  situ_setting before; /* default device to restore */
  situ__use use;
  void *within; /* call site to restore */
  bool moved, scoped;
} frame;

static void leave(frame *f) {
  situ__origin.within = f->within;
  situ__nn_running = f->running.outer;
  if (f->moved) situ_default_device_end(&f->before);
  if (f->scoped) SITU_IGNORE(situ_scope_end(&f->scope));
  situ__use_end();
  if (f->running.freed) situ__nn_end((situ_nn_module *)f->running.module);
}

/* All calls of the library's own modules happen at the program's call, which is looked up once; calls of the program's
   modules have lines of their own. */
static inline void set_site(frame *f, const situ_nn_type *type, void *site) {
  f->within = situ__origin.within;
  if (!situ__base_up.own_code(situ__nn_code(type))) situ__origin.within = NULL;
  else if (!f->within && !situ__base_up.own_code(site)) situ__origin.within = site;
}

static bool enter(frame *f, const situ_nn_module *m, const situ_tensor *x, const situ_tree *inputs, void *site,
                  bool scoped) {
  const int depth = situ__nn_running ? situ__nn_running->depth + 1 : 1;
  if (depth > SITU__NN_CALLS)
    return situ__fail(SITU_E_LIMIT, "nn_forward",
                      "%s: more than %d calls of modules inside each other; a forward that calls itself has no end",
                      situ__nn_type(m)->name, SITU__NN_CALLS),
           false;
  if (!situ__module_use("nn_forward", m, &f->use)) return false;
  f->running = (situ__nn_frame){ m, x, inputs, site, false, depth, NULL, situ__nn_running };
  situ__nn_running = &f->running;
  set_site(f, situ__nn_type(m), site);
  if ((f->scoped = scoped)) situ_scope_begin(&f->scope);
  f->moved = false;
  situ_device home = home_of(m), now = situ_get_default_device();
  bool same = home.kind == now.kind && home.index == now.index;
  /* If the policy requires an explicit device, the home counts as one, even if it is the default device. */
  if (home.kind == SITU_DEVICE_DEFAULT || (same && situ_get_policy().unstated == SITU_UNSTATED_ALLOW)) return true;
  f->moved = situ_default_device_begin(&f->before, home) == SITU_OK;
  if (!f->moved) leave(f);
  return f->moved;
}

/* A NULL result must have an error: records one if the module's code did not. */
static void blame(const situ_nn_module *m) {
  if (situ_error() == SITU_OK)
    situ__fail(SITU_E_STATE, "nn_forward", "%s gave NULL without an error", situ__nn_type(m)->name);
}

static inline bool is_of_one_tensor(const situ_nn_type *type) { return type->forward || type->forward_kwargs; }

/* The code of a type of one tensor. */
static inline situ_tensor *run_forward(const situ_nn_type *type, situ_nn_module *m, situ_tensor *x,
                                       const void *kwargs) {
  return type->forward_kwargs ? type->forward_kwargs(m, x, kwargs) : type->forward(m, x);
}

/* Runs the type's code on m's struct: .call if it has one. */
static situ_tree *run_type(situ_nn_module *m, const situ_tree *inputs, const void *kwargs) {
  const situ_nn_type *type = situ__nn_type(m);
  if (type->call) return type->call(m, inputs);
  if (is_of_one_tensor(type)) {
    situ_tensor *x = situ_tree_value(inputs);
    return x ? situ_tree_tensor(run_forward(type, m, x, kwargs)) : NULL;
  }
  return situ__fail(SITU_E_UNSUPPORTED, "nn_forward", "%s has no forward: call its parts", type->name), NULL;
}

static situ_tree *run_stand_in(situ_nn_module *m, const situ_tree *inputs, const void *kwargs) {
  situ__nn_fetched fetched = { 0 };
  situ_nn_module *stand_in = situ__nn_stand_in(m, &fetched);
  situ_tree *out = stand_in ? run_type(stand_in, inputs, kwargs) : NULL;
  const bool good = situ__nn_evict(&fetched);
  situ__nn_stand_down(m, stand_in);
  if (good) return out;
  situ_tree_free(out);
  return NULL;
}

/* Runs the module's own code. */
static situ_tree *run_code(situ_nn_module *m, const situ_tree *inputs, const void *kwargs) {
  const bool offloaded = m->computes_on.kind, fetches = offloaded && m->children < m->count && !situ__nn_pending(m);
  if (offloaded) situ__nn_windows_begin();
  situ_tree *out = m->parametrized || fetches ? run_stand_in(m, inputs, kwargs) : run_type(m, inputs, kwargs);
  if (offloaded) situ__nn_windows_end();
  return out;
}

/* Hooks may remove themselves and others, so the next one is looked up by its number each time. */
static bool run_hooks(situ_nn_module *m, bool before, situ_tree **inputs, situ_tree **output) {
  int64_t last = -1;
  for (int64_t i = 0; m->hooks && i < m->hooks->count; i++) {
    situ__module_hook hook = m->hooks->list[i];
    if (hook.id <= last || (hook.before != before && !hook.text) || !hook.fn) continue;
    last = hook.id;
    if (hook.wraps && situ_is_dry()) continue;
    void *const within = situ__origin.within;
    situ__origin.within = NULL; /* a hook has lines of its own */
    situ_status status = hook.fn(m, inputs, output, hook.payload);
    situ__origin.within = within;
    if (status != SITU_OK) {
      if (situ_error() == SITU_OK)
        situ__fail(status, "nn_forward", "a hook of %s refused the call", situ__nn_type(m)->name);
      return false;
    }
    i = -1;
  }
  return true;
}

static situ_tree *run_hooked(situ_nn_module *m, const situ_tree *inputs, const void *kwargs) {
  if (!m->hooks) return run_code(m, inputs, kwargs);
  situ_tree *in = situ_tree_copy(inputs), *out = NULL;
  bool ok = in && run_hooks(m, true, &in, NULL) && (out = run_code(m, in, kwargs)) && run_hooks(m, false, &in, &out);
  situ_tree_free(in);
  if (ok) return out;
  situ_tree_free(out);
  return NULL;
}

static situ_status escape(const char *path, situ_tensor *t, void *payload) {
  (void)path;
  return situ_escape(payload, t) ? SITU_OK : situ_error();
}

/* Tells who watches of an outermost call. */
static SITU_COLD __attribute__((noinline)) void tell_call(situ_nn_module *m, situ_tensor *x, const situ_tree *inputs,
                                                          const void *kwargs) {
  if (!situ__nn_running) situ__watching->called(m, kwargs ? NULL : x, kwargs ? NULL : inputs);
}

static situ_tree *call(situ_nn_module *m, const situ_tree *inputs, const void *kwargs, void *site) {
  if (!situ__nn_given("nn_call", "module", m) || !situ__valid("nn_call", "inputs", inputs, SITU__A_TREE)) return NULL;
  if (__builtin_expect(situ__watching != NULL, 0)) tell_call(m, NULL, inputs, kwargs);
  frame f;
  if (!enter(&f, m, NULL, inputs, site, true)) return NULL;
  situ_tree *out = run_hooked(m, inputs, kwargs);
  if (out && situ_tree_each(out, escape, &f.scope) != SITU_OK) {
    situ_tree_free(out);
    out = NULL;
  }
  if (!out) blame(m);
  leave(&f);
  return out;
}

situ_tree *situ_nn_call(situ_nn_module *m, const situ_tree *inputs) {
  return call(m, inputs, NULL, __builtin_return_address(0));
}

/* Runs a call whose result is one tensor. */
static situ_tensor *call_for_tensor(situ_nn_module *m, situ_tree *inputs, const void *kwargs, void *site) {
  situ_tree *out = inputs ? call(m, inputs, kwargs, site) : NULL;
  situ_tensor *y = out ? situ_tree_value(out) : NULL;
  situ_tree_free(out);
  situ_tree_free(inputs);
  return y;
}

static inline situ_tensor *forward(situ_nn_module *m, situ_tensor *x, const void *kwargs, void *site) {
  if (!situ__nn_given("nn_forward", "module", m) || !situ__valid("nn_forward", "input", x, SITU__A_TENSOR)) return NULL;
  const situ_nn_type *type = situ__nn_type(m);
  if (kwargs && !type->forward_kwargs)
    return situ__fail(SITU_E_UNSUPPORTED, "nn_forward", "%s takes no kwargs: its type has no .forward_kwargs",
                      type->name),
           NULL;
  if (__atomic_load_n(&m->hooks, __ATOMIC_ACQUIRE) || !is_of_one_tensor(type) || m->parametrized || m->computes_on.kind)
    return call_for_tensor(m, situ_tree_tensor(x), kwargs, site);
  if (__builtin_expect(situ__watching != NULL, 0)) tell_call(m, x, NULL, kwargs);
  frame f;
  if (!enter(&f, m, x, NULL, site, !type->single_op)) return NULL;
  situ_tensor *y = run_forward(type, m, x, kwargs);
  if (f.scoped) y = situ_escape(&f.scope, y);
  if (!y) blame(m);
  leave(&f);
  return y;
}

situ_tensor *situ_nn_forward(situ_nn_module *m, situ_tensor *x) {
  return forward(m, x, NULL, __builtin_return_address(0));
}

situ_tensor *situ_nn_forward_kwargs(situ_nn_module *m, situ_tensor *x, const void *kwargs) {
  return forward(m, x, kwargs, __builtin_return_address(0));
}

situ_tensor *situ_nn_forward2(situ_nn_module *m, situ_tensor *x, situ_tensor *y) {
  const char *op = "nn_forward2";
  situ_tensor *both[] = { x, y };
  if (!situ__nn_given(op, "module", m) || !situ__valid(op, "first input", x, SITU__A_TENSOR) ||
      !situ__valid(op, "second input", y, SITU__A_TENSOR))
    return NULL;
  return call_for_tensor(m, situ_tree_of(2, both), NULL, __builtin_return_address(0));
}

/* ---- results into tensors that the caller has ---- */

/* key: where in a tree, "". */
static bool fits(const char *op, const situ_tensor *result, const situ_tensor *output, const char *key) {
  const situ_shape a = situ_shape_of(output), b = situ_shape_of(result);
  const situ_dtype from = situ_dtype_of(result), to = situ_dtype_of(output);
  char text[2][SITU_SHAPE_TEXT], name[2][SITU_DEVICE_NAME_MAX];
  const char *sep = *key ? " " : "";
  if (!situ_shape_equal(&a, &b))
    return situ__fail(SITU_E_SHAPE, op, "output%s%s is %s, but the result is %s: pass a tensor of this shape", sep, key,
                      situ_shape_text(&a, text[0]), situ_shape_text(&b, text[1])),
           false;
  if (from != to)
    return situ__fail(SITU_E_DTYPE, op, "output%s%s is %s, but the result is %s: pass a tensor of this dtype", sep, key,
                      situ_dtype_name(to), situ_dtype_name(from)),
           false;
  if (!situ_device_equal(situ_device_of(output), situ_device_of(result)))
    return situ__fail(
               SITU_E_DEVICE, op,
               "output%s%s is on %s, but the result is on %s: pass a tensor there, or move the module (situ_nn_to)",
               sep, key, situ_device_name(situ_device_of(output), name[0]),
               situ_device_name(situ_device_of(result), name[1])),
           false;
  if (!situ_is_registered(output)) return true;
  return situ__fail(
             SITU_E_ALIAS, op,
             "output%s%s is on the memory of a parameter or buffer, which the result would overwrite: pass a tensor "
             "of its own",
             sep, key),
         false;
}

/* A result may be a view of an input, of which the output may be another. */
static bool write_result(situ_tensor *result, situ_tensor *output) {
  situ_tensor *apart = situ_shares_storage(result, output) ? situ_clone(result) : result;
  return apart && situ_copy_(output, apart);
}

situ_status situ_nn_forward_into(situ_nn_module *m, situ_tensor *x, situ_tensor *output) {
  const char *op = "nn_forward_into";
  situ_scope scope;
  if (!situ__valid(op, "output", output, SITU__A_TENSOR)) return situ_error();
  situ_scope_begin_no_grad(&scope);
  situ_tensor *y = forward(m, x, NULL, __builtin_return_address(0));
  const bool good = y && fits(op, y, output, "") && write_result(y, output);
  const situ_status status = situ_scope_end(&scope);
  return good ? status : situ_error();
}

/* The bytes from the first to the last of a view's elements. */
static void span_of(const situ_view_desc *v, const char *span[2]) {
  const size_t item = situ_dtype_size((situ_dtype)v->dtype);
  int64_t last = v->offset;
  for (int d = 0; d < v->ndim; d++) last += (v->size[d] - 1) * v->stride[d];
  span[0] = (const char *)v->storage->data + (size_t)v->offset * item;
  span[1] = (const char *)v->storage->data + (size_t)(last + 1) * item;
}

/* Marks the bytes of a view's elements. Returns whether one was marked before. */
static bool mark_bytes(const situ_view_desc *v, const char *from, const char *low, unsigned char *marks) {
  const size_t item = situ_dtype_size((situ_dtype)v->dtype);
  int64_t index[SITU_MAX_DIMS] = { 0 };
  bool met = false;
  for (int64_t i = 0; i < v->numel; i++) {
    int64_t at = 0;
    for (int d = 0; d < v->ndim; d++) at += index[d] * v->stride[d];
    unsigned char *mark = marks + (from - low) + (size_t)at * item;
    met = met || mark[0] || mark[item - 1];
    memset(mark, 1, item);
    for (int d = v->ndim - 1; d >= 0 && ++index[d] == v->size[d]; d--) index[d] = 0;
  }
  return met;
}

/* Whether two outputs are on no byte in common. Channels of one picture may lie between each other: then each byte is
   looked at. */
static bool are_apart(const char *op, const situ_tree *outputs, int64_t i, int64_t k) {
  const situ_view_desc *a = situ_desc(situ_tree_tensor_at(outputs, i)), *b = situ_desc(situ_tree_tensor_at(outputs, k));
  const char *x[2], *y[2];
  const bool same_memory = a->storage == b->storage || situ_device_of(situ_tree_tensor_at(outputs, i)).kind == SITU_CPU;
  if (!same_memory || !situ_device_equal(a->storage->device, b->storage->device) || !a->numel || !b->numel) return true;
  span_of(a, x);
  span_of(b, y);
  if (x[1] <= y[0] || y[1] <= x[0]) return true;
  const char *low = x[0] < y[0] ? x[0] : y[0], *high = x[1] > y[1] ? x[1] : y[1];
  unsigned char *marks = situ__calloc(1, (size_t)(high - low));
  if (!marks) return situ__no_memory(op, (size_t)(high - low)), false;
  const bool met = mark_bytes(a, x[0], low, marks) || mark_bytes(b, y[0], low, marks);
  situ__free(marks);
  if (!met) return true;
  return situ__fail(SITU_E_ALIAS, op, "outputs %s and %s share memory, where one would overwrite the other",
                    situ_tree_key(outputs, i), situ_tree_key(outputs, k)),
         false;
}

/* Both are flat. */
static bool write_results(const char *op, const situ_tree *results, const situ_tree *outputs) {
  const int64_t count = situ_tree_count(results);
  bool good = situ_tree_count(outputs) == count;
  for (int64_t i = 0; i < count && good; i++) good = strcmp(situ_tree_key(results, i), situ_tree_key(outputs, i)) == 0;
  if (!good)
    return situ__fail(SITU_E_ARG, op, "outputs has %lld tensors, or others than the %lld results (situ_nn_call)",
                      (long long)situ_tree_count(outputs), (long long)count),
           false;
  for (int64_t i = 0; i < count && good; i++)
    good = fits(op, situ_tree_tensor_at(results, i), situ_tree_tensor_at(outputs, i), situ_tree_key(results, i));
  for (int64_t i = 0; i < count && good; i++)
    for (int64_t k = 0; k < i && good; k++) good = are_apart(op, outputs, k, i);
  for (int64_t i = 0; i < count && good; i++)
    good = write_result(situ_tree_tensor_at(results, i), situ_tree_tensor_at(outputs, i));
  return good;
}

situ_status situ_nn_call_into(situ_nn_module *m, const situ_tree *inputs, const situ_tree *outputs) {
  const char *op = "nn_call_into";
  situ_scope scope;
  if (!situ__valid(op, "outputs", outputs, SITU__A_TREE)) return situ_error();
  situ_scope_begin_no_grad(&scope);
  situ_tree *made = call(m, inputs, NULL, __builtin_return_address(0));
  situ_tree *results = made ? situ_tree_flatten(made) : NULL, *flat = results ? situ_tree_flatten(outputs) : NULL;
  const bool good = flat && write_results(op, results, flat);
  situ_tree_free(flat);
  situ_tree_free(results);
  situ_tree_free(made);
  const situ_status status = situ_scope_end(&scope);
  return good ? status : situ_error();
}

/* ---- hooks ---- */

/* hook.id is set here. */
static situ_status add_hook(const char *op, situ_nn_module *m, situ__module_hook hook, int64_t *handle) {
  SITU__CLAIM(claim);
  if (!situ__nn_given(op, "module", m)) return situ_error();
  if (!hook.fn && !hook.moved) return situ__null(op, "hook");
  if (!situ__nn_change(op, m, &claim)) return situ_error();
  struct situ_nn_hooks *hooks = m->hooks ? m->hooks : situ__calloc(1, sizeof *hooks);
  if (!hooks) return situ__no_memory(op, sizeof *hooks);
  __atomic_store_n(&m->hooks, hooks, __ATOMIC_RELEASE);
  if (!situ__grow(op, &hooks->list, &hooks->capacity, sizeof *hooks->list, hooks->count + 1)) return situ_error();
  hook.id = hooks->next++;
  hooks->list[hooks->count++] = hook;
  if (handle) *handle = hook.id;
  return SITU_OK;
}

situ_status situ_nn_register_forward_pre_hook(situ_nn_module *m, situ_nn_hook hook, void *payload, int64_t *handle) {
  return add_hook("nn_register_forward_pre_hook", m,
                  (situ__module_hook){ .before = true, .fn = hook, .payload = payload }, handle);
}

situ_status situ_nn_register_forward_hook(situ_nn_module *m, situ_nn_hook hook, void *payload, int64_t *handle) {
  return add_hook("nn_register_forward_hook", m, (situ__module_hook){ .fn = hook, .payload = payload }, handle);
}

situ_status situ_nn_register_wrapper_hook(situ_nn_module *m, bool before, situ_nn_hook hook, void *payload,
                                          int64_t *handle) {
  return add_hook("nn_register_wrapper_hook", m,
                  (situ__module_hook){ .before = before, .wraps = true, .fn = hook, .payload = payload }, handle);
}

situ_status situ_nn_on_move(situ_nn_module *m, situ_nn_move_hook hook, void *payload, int64_t *handle) {
  return add_hook("nn_on_move", m, (situ__module_hook){ .moved = hook, .payload = payload }, handle);
}

bool situ_nn_has_move_hooks(const situ_nn_module *m) {
  bool has = false;
  if (!situ__nn_given("nn_has_move_hooks", "module", m)) return false;
  for (int64_t i = 0; m->hooks && i < m->hooks->count; i++) has = has || m->hooks->list[i].moved;
  return has && !situ_is_dry();
}

situ_status situ_nn_run_move_hooks(situ_nn_module *m, situ_device from, situ_device to, int64_t end, int64_t *failed) {
  if (!situ__nn_given("nn_run_move_hooks", "module", m)) return situ_error();
  for (int64_t i = 0; m->hooks && i < m->hooks->count; i++) {
    const situ__module_hook hook = m->hooks->list[i];
    if (!hook.moved || hook.id >= end) continue;
    const situ_status status = hook.moved(m, from, to, hook.payload);
    if (status == SITU_OK) continue;
    if (situ_error() == SITU_OK)
      situ__fail(status, "nn_on_move", "a hook of %s refused the move", situ__nn_type(m)->name);
    if (failed) *failed = hook.id;
    return status;
  }
  return SITU_OK;
}

/* own: the hook is the library's, which have texts; else it stays. */
static bool remove_hook(const char *op, situ_nn_module *m, int64_t handle, bool own) {
  SITU__CLAIM(claim);
  if (!situ__nn_change(op, m, &claim)) return false;
  struct situ_nn_hooks *hooks = m->hooks;
  int64_t kept = 0;
  for (int64_t i = 0; hooks && i < hooks->count; i++) {
    if (hooks->list[i].id != handle || (hooks->list[i].text && !own)) hooks->list[kept++] = hooks->list[i];
    else situ__drop_text(hooks->list[i].text);
  }
  if (hooks) hooks->count = kept;
  return true;
}

void situ_nn_remove_hook(situ_nn_module *m, int64_t handle) {
  if (!m || !situ__nn_given("nn_remove_hook", "module", m)) return;
  (void)remove_hook("nn_remove_hook", m, handle, false);
}

void situ__nn_free_hooks(struct situ_nn_hooks *hooks) {
  for (int64_t i = 0; hooks && i < hooks->count; i++) situ__drop_text(hooks->list[i].text);
  if (hooks) situ__free(hooks->list);
  situ__free(hooks);
}

/* ---- hooks of the library's own ---- */

static const situ__module_hook *find_own_hook(const situ_nn_module *m, situ_nn_hook hook) {
  for (int64_t i = 0; m->hooks && i < m->hooks->count; i++)
    if (m->hooks->list[i].text && m->hooks->list[i].fn == hook) return &m->hooks->list[i];
  return NULL;
}

situ_status situ_nn_set_own_hook(const char *op, situ_nn_module *m, situ_nn_hook hook, const char *text) {
  if (!situ__nn_given(op, "module", m)) return situ_error();
  const situ__module_hook *old = find_own_hook(m, hook);
  const int64_t replaced = old ? old->id : -1;
  if (text) {
    char *own = situ__shared_text(text);
    if (!own) return situ__no_memory(op, strlen(text) + 1);
    if (add_hook(op, m, (situ__module_hook){ .fn = hook, .payload = own, .text = own }, NULL) != SITU_OK) {
      situ__drop_text(own);
      return situ_error();
    }
  }
  return !old || remove_hook(op, m, replaced, true) ? SITU_OK : situ_error();
}

bool situ_nn_has_own_hook(const situ_nn_module *m, situ_nn_hook hook) {
  return situ__nn_given("nn_has_own_hook", "module", m) && find_own_hook(m, hook);
}
