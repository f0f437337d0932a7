/* Tensors: create, share, free, query.
   SPDX-License-Identifier: MIT */
#include "base/refs.h"
#include "base/stripes.h"
#include "tensor/tensor.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/size.h"
#include "situ/sys/shape.h"

int64_t situ_live_tensors(void) { return situ__tensors_alive(); }

_Static_assert(sizeof(situ_tensor) <= SITU__TENSOR_SIZE, "what the quarantine of tensors holds");

/* Creates a tensor without its view. */
static situ_tensor *allocate_tensor(const char *op, void *site) {
  situ_tensor *t = situ__handle_new_tensor();
  if (!t) return situ__no_memory(op, sizeof *t), NULL;
  memset(t, 0, offsetof(situ_tensor, view));
  t->name = NULL;
  t->base = NULL;
  t->next_handle = t->prev_handle = NULL;
  t->head = SITU__LIVE(SITU__A_TENSOR);
  t->refs = 1;
  t->created_at = site;
  situ__count_tensor(1);
  return t;
}

/* ---- the handles of a storage ---- */

situ_tensor *situ__handles_begin(situ_storage *s) {
  situ__stripe_lock(s);
  return s->handles;
}

void situ__handles_end(situ_storage *s) { situ__stripe_unlock(s); }

/* Ranks a tensor as the description of its storage: parameters and buffers first, then tensors with a name. */
static int rank_tensor(const situ_tensor *t) {
  bool part = t->role == SITU_ROLE_PARAMETER || t->role == SITU_ROLE_BUFFER;
  return 4 * part + 2 * (t->name != NULL) + (t->role != SITU_ROLE_TENSOR);
}

/* Keeps the end of a long name, which says more than its beginning. */
uint8_t situ__storage_subject(situ_storage *s, char *name, size_t size) {
  const situ_tensor *best = NULL;
  *name = 0;
  for (const situ_tensor *t = situ__handles_begin(s); t; t = t->next_handle)
    if (!best || rank_tensor(t) > rank_tensor(best)) best = t;
  uint8_t role = best ? best->role : SITU_ROLE_TENSOR;
  if (best && best->name) {
    size_t length = strlen(best->name), kept = length < size ? length : size - 1;
    memcpy(name, best->name + length - kept, kept + 1);
  }
  situ__handles_end(s);
  return role;
}

static void enlist(situ_tensor *t) {
  situ_storage *s = t->view.storage;
  situ__stripe_lock(s);
  t->next_handle = s->handles;
  if (s->handles) s->handles->prev_handle = t;
  __atomic_store_n(&s->handles, t, __ATOMIC_RELAXED); /* adopt.c looks whether there are any */
  situ__stripe_unlock(s);
}

/* If t is the only owner of its storage, no other thread can reach the list, now or later. */
static void delist(situ_tensor *t) {
  situ_storage *s = t->view.storage;
  if (__atomic_load_n(&s->refs, __ATOMIC_ACQUIRE) == 1) return;
  situ__stripe_lock(s);
  if (t->prev_handle) t->prev_handle->next_handle = t->next_handle;
  else __atomic_store_n(&s->handles, t->next_handle, __ATOMIC_RELAXED);
  if (t->next_handle) t->next_handle->prev_handle = t->prev_handle;
  if (situ__is_lease(t)) situ__lease_ended(t);
  situ__stripe_unlock(s);
}

/* Frees a tensor that was not completed, without quarantine: the program has not seen it. */
static void discard_tensor(situ_tensor *t) {
  situ__count_tensor(-1);
  situ__small_free(t, sizeof *t);
}

/* ---- freeing ---- */

_Static_assert(offsetof(situ_tensor, refs) >= SITU__DEAD_HEAD, "a freed tensor keeps what tells which one it was");

void situ__describe_dead_tensor(const void *handle, char *buffer, size_t size) {
  const situ_tensor *t = handle;
  const situ_shape shape = situ__shape(&t->view);
  situ_device device;
  char sizes[SITU_SHAPE_TEXT], name[SITU_DEVICE_NAME_MAX], site[160];
  memcpy(&device, &t->refs, sizeof device);
  situ__site_text(t->created_at, site, sizeof site);
  (void)snprintf(buffer, size, "%s %s on %s%s%s", situ_dtype_name((situ_dtype)t->view.dtype),
                 situ_shape_text(&shape, sizes), situ_device_name(device, name), *site ? ", created at " : "", site);
}

static void poison_range(void *first, const void *past) {
  SITU__POISON(first, (size_t)((const char *)past - (char *)first));
}

/* Releases the memory at once; the handle goes into quarantine. */
static void quarantine_tensor(situ_tensor *t) {
  situ_storage *s = t->view.storage;
  memcpy(&t->refs, &s->device, sizeof s->device);
  situ__storage_release(s);
  situ__drop_text(t->name);
  situ__count_tensor(-1);
  poison_range(&t->node, &t->view.dtype);
  poison_range(t->view.stride, &t->created_at);
  poison_range(&t->name, t + 1);
  situ__handle_free_tensor(t);
}

/* Bytes of the view's elements in dtype. Fails from 2^63 on, for views of less memory too: no product of a caller
   overflows. */
static bool count_bytes(const char *op, const situ_view_desc *v, situ_dtype dtype, size_t *bytes) {
  if (situ__mul_size((size_t)v->numel, situ__dtype_size(dtype), bytes) && *bytes <= INT64_MAX) return true;
  char text[SITU_SHAPE_TEXT];
  const situ_shape shape = situ__shape(v);
  return situ__fail(SITU_E_OVERFLOW, op, "shape %s of %s has more than 2^63 bytes", situ_shape_text(&shape, text),
                    situ_dtype_name(dtype)),
         false;
}

situ_tensor *situ__tensor_new(const char *op, const situ_shape *shape, situ_dtype dtype, situ_device device) {
  if (!situ__dtype_valid(dtype)) return situ__fail(SITU_E_DTYPE, op, "%d is not a dtype", (int)dtype), NULL;
  situ_tensor *t = allocate_tensor(op, situ__call_site());
  if (!t) return NULL;
  size_t bytes;
  if (!situ__desc_rows(op, shape, &t->view) || !count_bytes(op, &t->view, dtype, &bytes)) {
    discard_tensor(t);
    return NULL;
  }
  t->view.dtype = (uint8_t)dtype;
  t->view.offset = 0;
  t->view.storage = situ__storage_new(op, device, bytes);
  if (!t->view.storage) {
    discard_tensor(t);
    return NULL;
  }
  t->view.storage->handles = t;
  return situ__scope_own(op, t);
}

situ_tensor *situ__tensor_apart(const char *op, const situ_view_desc *v, situ_dtype dtype) {
  size_t bytes;
  if (!count_bytes(op, v, dtype, &bytes)) return NULL; /* a wider dtype */
  situ_tensor *t = allocate_tensor(op, situ__call_site());
  if (!t) return NULL;
  t->view = *v;
  t->view.dtype = (uint8_t)dtype;
  t->view.offset = 0;
  t->view.storage = situ__storage_new(op, v->storage->device, bytes);
  if (!t->view.storage) {
    discard_tensor(t);
    return NULL;
  }
  t->view.storage->handles = t;
  return t;
}

situ_tensor *situ__tensor_like(const char *op, const situ_view_desc *v, situ_dtype dtype) {
  return situ__scope_own(op, situ__tensor_apart(op, v, dtype));
}

situ_tensor *situ__tensor_strided(const char *op, const situ_view_desc *layout, situ_dtype dtype, situ_device device) {
  situ_shape shape = situ__shape(layout);
  int64_t times = 1; /* that each element is there */
  for (int d = 0; d < shape.ndim; d++) {
    if (layout->stride[d] || shape.dim[d] <= 1) continue;
    times *= shape.dim[d];
    shape.dim[d] = 1;
  }
  situ_tensor *t = situ__tensor_new(op, &shape, dtype, device);
  if (!t) return NULL;
  memcpy(t->view.size, layout->size, sizeof t->view.size);
  memcpy(t->view.stride, layout->stride, sizeof t->view.stride);
  t->view.numel *= times;
  t->view.contiguous = layout->contiguous;
  return t;
}

situ_tensor *situ__tensor_alias(const char *op, const situ_view_desc *view, void *site) {
  situ_tensor *t = allocate_tensor(op, site);
  if (!t) return NULL;
  t->view = *view;
  situ__storage_retain(t->view.storage);
  enlist(t);
  return t;
}

situ_tensor *situ__tensor_view(const char *op, const situ_view_desc *view) {
  size_t bytes;
  if (!count_bytes(op, view, (situ_dtype)view->dtype, &bytes)) return NULL;
  return situ__scope_own(op, situ__tensor_alias(op, view, situ__call_site()));
}

bool situ__apart(const char *op, const char *names, situ_tensor *const *in, int ins, situ_tensor *const *out,
                 int outs) {
  if (!in || !out || in + ins <= out || out + outs <= in) return true;
  return situ__fail(SITU_E_ALIAS, op, "the arrays %s overlap: pass another array for the results", names), false;
}

situ_tensor *situ_retain(situ_tensor *tensor) {
  if (!tensor) return NULL;
  if (!situ__need("retain", "tensor", tensor)) return NULL;
  situ__refs_add(&tensor->refs);
  return tensor;
}

void situ_release(situ_tensor *tensor) {
  if (!tensor || !situ__need("release", "tensor", tensor)) return;
  if (!situ__refs_drop(&tensor->refs)) return;
  const bool more = (uintptr_t)tensor->node | (uintptr_t)tensor->meta | (uintptr_t)tensor->base;
  if (more && situ__is_lease(tensor)) situ__map_ended(tensor);
  delist(tensor); /* before its history, because readers of the list expect complete tensors */
  if (more) situ__tensor_up.release_history(tensor);
  quarantine_tensor(tensor);
}

/* ---- queries ---- */

static bool check_dim(const situ_tensor *t, const char *op, int dim, int *out) {
  return situ__need(op, "input", t) && situ_wrap_dim(op, dim, t->view.ndim, out);
}

int situ_dim(const situ_tensor *t) { return situ__need("dim", "input", t) ? t->view.ndim : -1; }

int64_t situ_size(const situ_tensor *t, int dim) {
  int d;
  if (!check_dim(t, "size", dim, &d)) return -1;
  return t->view.ndim ? t->view.size[d] : 1;
}

int64_t situ_stride(const situ_tensor *t, int dim) {
  int d;
  if (!check_dim(t, "stride", dim, &d)) return -1;
  return t->view.ndim ? t->view.stride[d] : 1;
}

int64_t situ_storage_offset(const situ_tensor *t) {
  return situ__need("storage_offset", "input", t) ? t->view.offset : -1;
}

situ_shape situ_shape_of(const situ_tensor *t) {
  if (!situ__need("shape_of", "input", t)) return (situ_shape){ .ndim = -1 };
  return situ__shape(&t->view);
}

int64_t situ_numel(const situ_tensor *t) { return situ__need("numel", "input", t) ? t->view.numel : -1; }

situ_dtype situ_dtype_of(const situ_tensor *t) {
  return situ__need("dtype_of", "input", t) ? (situ_dtype)t->view.dtype : SITU_DTYPE_DEFAULT;
}

situ_device situ_device_of(const situ_tensor *t) {
  return situ__need("device_of", "input", t) ? t->view.storage->device : (situ_device){ .kind = SITU_DEVICE_KINDS };
}

bool situ_is_contiguous(const situ_tensor *t) { return situ__need("is_contiguous", "input", t) && t->view.contiguous; }

bool situ_shares_storage(const situ_tensor *a, const situ_tensor *b) {
  return situ__need("shares_storage", "a", a) && situ__need("shares_storage", "b", b) &&
         a->view.storage == b->view.storage;
}

uint32_t situ_version_of(const situ_tensor *t) {
  return situ__need("version_of", "input", t) ? __atomic_load_n(&t->view.storage->version, __ATOMIC_RELAXED) : 0;
}

/* NULL is allowed: it has no name, and the role of a plain tensor. Returns false after recording an error if t is not
   a live tensor. */
static bool check_optional(const char *op, const situ_tensor *t) { return t && situ__need(op, "input", t); }

const char *situ_name(const situ_tensor *t) { return check_optional("name", t) && t->name ? t->name : ""; }

situ_tensor *situ_set_name(situ_tensor *t, const char *name) {
  if (!situ__need("set_name", "input", t)) return NULL;
  char *copy = NULL;
  if (name && *name && !(copy = situ__shared_text(name))) return situ__no_memory("set_name", strlen(name) + 1), NULL;
  situ__drop_text(t->name);
  t->name = copy;
  return t;
}

void situ_set_role(situ_tensor *t, situ_role role) {
  if (check_optional("set_role", t)) t->role = (uint8_t)role;
}
situ_role situ_role_of(const situ_tensor *t) {
  return check_optional("role_of", t) ? (situ_role)t->role : SITU_ROLE_TENSOR;
}

int64_t situ_owners(const situ_tensor *t) {
  return check_optional("owners", t) ? __atomic_load_n(&t->refs, __ATOMIC_RELAXED) : 0;
}

static SITU_COLD __attribute__((noinline)) const situ_view_desc *refuse_desc(const situ_tensor *t) {
  return check_optional("desc", t) ? &t->view : NULL;
}
/* Walks of modules call it for each tensor: without a stack frame for the refusal. */
const situ_view_desc *situ_desc(const situ_tensor *t) {
  return __builtin_expect(situ__alive(t), 1) ? &t->view : refuse_desc(t);
}
