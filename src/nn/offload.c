/* Modules that compute on a device where their tensors are not: a call gets a stand-in of the module with copies, and
   recorded calls save where a copy came from instead of the copy.
   SPDX-License-Identifier: MIT */
#include "situ/nn/offload.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/mutex.h"
#include "base/thread.h"
#include "nn/nn.h"
#include "situ/sys/dry.h"
#include "situ/sys/grad.h"
#include "situ/sys/tensor.h"

static const char op[] = "nn_offload";

/* A tensor and its copy during a call. */
typedef struct situ__nn_copy {
  situ_tensor *home, *copy;
  uint32_t home_version, version; /* before the call */
} copied;

/* "net.fc1.weight", as the program knows it. */
static const char *label(const situ_tensor *t, situ_explained *x) {
  *x = (situ_explained){ .tensor = t };
  situ__nn_lore.look(&(situ_explanation){ .operand = x, .count = 1 });
  return *x->path ? x->path : situ_name(t);
}

/* situ_fetch with an error that names the tensor. */
static situ_tensor *fetch(situ_tensor *t, situ_device device) {
  if (situ_is_dry()) return situ_fetch(t, device);
  situ__errors own;
  situ_explained x;
  char why[512], name[SITU_DEVICE_NAME_MAX];
  situ__errors_aside(&own);
  situ_tensor *copy = situ_fetch(t, device);
  const situ_status status = situ__errors_back(&own, why, sizeof why);
  if (copy) return copy;
  why[strcspn(why, "\n")] = 0;
  return situ__fail(status, op, "%s could not be copied to %s: %s", label(t, &x), situ_device_name(device, name), why),
         NULL;
}

/* ---- windows: the copies of a call, or of a saved value, until the next ones are made ----
   A device with a queue for copies writes to memory when the work that used it is done. What the last call frees is
   used by work that is queued now, so the copies for the next call would wait for it. */

typedef struct window {
  struct window *next, **link; /* all windows */
  int64_t owners;              /* the outermost call, and each value that it has saved */
  situ_device device;
  situ_tensor **list;
  int64_t count, capacity;
} window;
static situ__mutex lock = SITU__MUTEX_INIT;
static window *windows;
static SITU__THREAD_LOCAL struct {
  window *window; /* of the outermost call; NULL: none yet */
  int depth;
} calls;

void situ__nn_windows_begin(void) { calls.depth++; }

static window *share_window(window *w) {
  situ__mutex_lock(&lock);
  if (w) w->owners++;
  situ__mutex_unlock(&lock);
  return w;
}

/* Takes what w has kept; the lock is held. */
static window take_list(window *w) {
  const window taken = *w;
  w->list = NULL;
  w->count = w->capacity = 0;
  return taken;
}

static void free_list(window *taken) {
  for (int64_t i = 0; i < taken->count; i++) situ_release(taken->list[i]);
  situ__free(taken->list);
}

static void empty_window(window *w) {
  if (!w) return;
  situ__mutex_lock(&lock);
  window taken = take_list(w);
  situ__mutex_unlock(&lock);
  free_list(&taken);
}

static void leave_window(window *w) {
  if (!w) return;
  situ__mutex_lock(&lock);
  const bool last = !--w->owners;
  if (last) __atomic_store_n(w->link, w->next, __ATOMIC_RELAXED);
  if (last && w->next) w->next->link = w->link;
  situ__mutex_unlock(&lock);
  if (!last) return;
  free_list(w);
  situ__free(w);
}

void situ__nn_windows_end(void) {
  if (--calls.depth) return;
  window *w = calls.window;
  calls.window = NULL;
  empty_window(w);
  leave_window(w);
}

bool situ__nn_free_windows(situ_device device) {
  bool any = false;
  for (window *w = __atomic_load_n(&windows, __ATOMIC_RELAXED); w;) {
    window taken = { 0 };
    situ__mutex_lock(&lock);
    for (w = windows; w && !(w->count && situ_device_equal(w->device, device));) w = w->next;
    if (w) taken = take_list(w);
    situ__mutex_unlock(&lock);
    any = any || taken.count;
    free_list(&taken);
  }
  return any;
}

/* The window of this thread's outermost call; NULL: nothing is kept. */
static window *own_window(situ_device device) {
  if (calls.window || calls.depth < 2 || situ_is_dry()) return calls.window;
  window *w = situ__alloc(sizeof *w);
  if (!w) return NULL;
  situ__mutex_lock(&lock);
  *w = (window){ .next = windows, .link = &windows, .owners = 1, .device = device };
  if (w->next) w->next->link = &w->next;
  __atomic_store_n(&windows, w, __ATOMIC_RELAXED);
  situ__mutex_unlock(&lock);
  return calls.window = w;
}

static void keep(window *w, situ_tensor *t) {
  if (!w || !situ_device_equal(w->device, situ_device_of(t))) return;
  situ__mutex_lock(&lock);
  if (situ__grow(NULL, &w->list, &w->capacity, sizeof(situ_tensor *), w->count + 1))
    w->list[w->count++] = situ_retain(t);
  situ__mutex_unlock(&lock);
}

/* ---- saved values: a graph holds the tensor itself, and the place of a view in it ---- */

typedef struct saved {
  situ_tensor *home;
  uint32_t version;
  situ_device device;
  situ_shape shape, stride;
  int64_t offset;
  window *window;
} saved;

static situ_shape strides_of(const situ_tensor *t) {
  situ_shape stride = situ_shape_of(t);
  for (int d = 0; d < stride.ndim; d++) stride.dim[d] = situ_stride(t, d);
  return stride;
}

static void *pack(situ_tensor *t, void *payload) {
  const situ__nn_fetched *f = payload;
  for (int64_t i = 0; i < f->count; i++) {
    const copied *c = &f->list[i];
    if (situ_desc(c->copy)->storage != situ_desc(t)->storage) continue;
    if (situ_dtype_of(c->copy) != situ_dtype_of(t) || situ_version_of(c->copy) != c->version) return NULL;
    saved *s = situ__alloc(sizeof *s);
    if (!s) return situ__no_memory(op, sizeof *s), NULL;
    *s = (saved){ situ_retain(c->home),
                  c->home_version,
                  f->device,
                  situ_shape_of(t),
                  strides_of(t),
                  situ_storage_offset(t),
                  share_window(own_window(f->device)) };
    return s;
  }
  return NULL;
}

static situ_tensor *unpack(void *packed, void *payload) {
  const saved *s = packed;
  situ_explained x;
  (void)payload;
  if (situ_version_of(s->home) != s->version)
    return situ__fail(SITU_E_STATE, op,
                      "backward needs %s, which was changed in place since its module computed with it: version %u "
                      "now, %u then",
                      label(s->home, &x), situ_version_of(s->home), s->version),
           NULL;
  situ_tensor *t = fetch(s->home, s->device);
  if (!t) return NULL;
  empty_window(s->window);
  keep(s->window, t);
  const situ_shape shape = situ_shape_of(t), stride = strides_of(t);
  if (situ_shape_equal(&shape, &s->shape) && situ_shape_equal(&stride, &s->stride) && !s->offset) return t;
  return situ_as_strided(t, s->shape, s->stride, s->offset);
}

static void release(void *packed, void *payload) {
  saved *s = packed;
  (void)payload;
  situ_release(s->home);
  leave_window(s->window);
  situ__free(s);
}

/* ---- a call ---- */

situ_tensor *situ__nn_fetch(situ__nn_fetched *f, situ_tensor *t) {
  if (!f->device.kind || situ_device_equal(situ_device_of(t), f->device)) return t;
  for (int64_t i = 0; i < f->count; i++)
    if (f->list[i].home == t) return f->list[i].copy;
  if (!situ__grow(op, &f->list, &f->capacity, sizeof *f->list, f->count + 1)) return NULL;
  const uint32_t version = situ_version_of(t); /* before the copy: a write during it is one after it */
  situ_tensor *copy = fetch(t, f->device);
  if (!copy || !situ_set_name(copy, situ_name(t))) return NULL;
  f->list[f->count++] = (copied){ t, copy, version, situ_version_of(copy) };
  return copy;
}

bool situ__nn_fetch_all(situ__nn_fetched *f, const situ_nn_module *m, situ_nn_module *stand_in) {
  if (!m->computes_on.kind) return true;
  const size_t bytes = (size_t)m->count * sizeof *m->slots;
  situ_nn_slot *slots = situ__alloc(bytes + 1);
  if (!slots) return situ__no_memory("nn_forward", bytes), false;
  memcpy(slots, m->slots, bytes);
  stand_in->slots = slots;
  f->device = m->computes_on;
  for (int64_t i = 0; i < m->count; i++) {
    if (situ__nn_is_child(&slots[i])) continue;
    if (!(slots[i].held = situ__nn_fetch(f, slots[i].held))) return false;
    if (slots[i].offset) memcpy((char *)stand_in + slots[i].offset, &slots[i].held, sizeof(void *));
  }
  empty_window(calls.window);
  f->hooked = situ_saved_hooks_begin_first(&(situ_saved_tensors_hooks){ pack, unpack, release, f }) == SITU_OK;
  return f->hooked;
}

/* The copy is where home is. */
static bool write_back(const copied *c) {
  situ_explained x;
  const uint64_t claimed = situ__nn_write_begin(1, c->home);
  const bool alone = situ_version_of(c->home) == c->home_version;
  const bool good = alone && situ_copy_(c->home, c->copy);
  situ__write_end(claimed);
  if (!alone)
    situ__fail(SITU_E_STATE, op, "another thread has written %s since this call of its module began",
               label(c->home, &x));
  return good;
}

bool situ__nn_evict(situ__nn_fetched *f) {
  bool good = true;
  situ_scope s;
  if (f->hooked) SITU_IGNORE(situ_autograd_graph_saved_tensors_hooks_end());
  situ_scope_begin_no_grad(&s);
  int64_t written = 0; /* all arrive before the first is written: a copy that fails leaves no half of them */
  for (int64_t i = 0; i < f->count && good; i++) {
    copied *c = &f->list[i];
    if (situ_version_of(c->copy) == c->version) continue;
    copied back = { .home = c->home, .copy = fetch(c->copy, situ_device_of(c->home)), .home_version = c->home_version };
    good = back.copy != NULL;
    f->list[written++] = back;
  }
  for (int64_t i = 0; i < written && good; i++) good = write_back(&f->list[i]);
  for (int64_t i = written; i < f->count && good; i++) keep(own_window(f->device), f->list[i].copy);
  situ__free(f->list);
  return situ_scope_end(&s) == SITU_OK && good;
}

/* ---- begin and end ---- */

void situ__nn_compute_on(situ_nn_module *m, situ_device device, int depth) {
  m->computes_on = device;
  for (int64_t i = 0; i < m->count && depth < SITU__NN_DEPTH; i++)
    if (situ__nn_is_child(&m->slots[i]) && !(m->parametrized && strcmp(m->slots[i].name, "parametrizations") == 0))
      situ__nn_compute_on(m->slots[i].held, device, depth + 1);
}

static situ_status is_awake(const situ_nn_visit *at, void *payload) {
  (void)payload;
  return situ__nn_has_parameters(op, at);
}

situ_status situ_nn_offload(situ_nn_module *m, situ_device device) {
  SITU__CLAIM(claim);
  situ_device_properties info;
  char name[SITU_DEVICE_NAME_MAX];
  if (!situ__nn_given(op, "module", m)) return situ_error();
  if (device.kind == SITU_META)
    return situ__fail(SITU_E_DEVICE, op, "%s computes no values: state a device", situ_device_name(device, name));
  if (device.kind && situ_device_info(device, &info) != SITU_OK) return situ_error();
  if (!situ__nn_claim(op, m, &claim)) return situ_error();
  const situ_status status = situ_nn_walk(m, SITU_NN_VISIT_MODULES, is_awake, NULL);
  if (status == SITU_OK) situ__nn_compute_on(m, device, 0);
  return status;
}

situ_device situ_nn_offloaded_to(const situ_nn_module *m) {
  return situ__nn_given("nn_offloaded_to", "module", m) ? m->computes_on : (situ_device){ 0 };
}
