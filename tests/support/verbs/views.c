/* Views made by hand. See views.h.
   SPDX-License-Identifier: MIT */
#include "support/verbs/views.h"
#include "backend/cpu/common/cpu.h"
#include "device/launch/launch.h"
#include "kernels/half.h"
#include "support/test.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

test_view *view_new(situ_dtype dtype, situ_shape shape, view_layout layout) {
  test_view *v = calloc(1, sizeof *v);
  if (!v) exit(99);
  int64_t gap = layout == VIEW_GAPS ? 2 : 1, step = gap;
  v->d.dtype = (uint8_t)dtype;
  v->d.ndim = (uint8_t)shape.ndim;
  v->d.storage = &v->storage;
  v->d.numel = 1;
  for (int i = 0; i < shape.ndim; i++) {
    int d = layout == VIEW_COLUMNS ? i : shape.ndim - 1 - i;
    v->d.size[d] = shape.dim[d];
    v->d.stride[d] = step;
    step *= shape.dim[d] * gap;
    v->d.numel *= shape.dim[d];
  }
  v->d.offset = layout == VIEW_GAPS ? 3 : 0;
  v->d.contiguous = layout == VIEW_ROWS || (layout == VIEW_COLUMNS && shape.ndim < 2);
  v->storage.bytes = (size_t)(step + v->d.offset + 1) * situ_dtype_size(dtype);
  v->storage.data = aligned_alloc(64, (v->storage.bytes + 63) / 64 * 64);
  v->storage.device = (situ_device){ SITU_CPU, 0 };
  if (!v->storage.data) exit(99);
  memset(v->storage.data, 0, v->storage.bytes);
  return v;
}

test_view *view_askew(situ_dtype dtype, situ_shape shape, int64_t offset) {
  int64_t numel = 1;
  for (int d = 0; d < shape.ndim; d++) numel *= shape.dim[d];
  test_view *v = view_new(dtype, SITU_SHAPE(numel + offset), VIEW_ROWS);
  v->d.offset = offset;
  v->d.numel = 1;
  v->d.ndim = (uint8_t)shape.ndim;
  for (int d = shape.ndim - 1; d >= 0; d--) {
    v->d.size[d] = shape.dim[d];
    v->d.stride[d] = v->d.numel;
    v->d.numel *= shape.dim[d];
  }
  return v;
}

void view_free(test_view *v) {
  if (v) free(v->storage.data);
  free(v);
}

static void *element(const test_view *v, int64_t i) {
  int64_t at = v->d.offset;
  if (v->d.contiguous) at += i;
  else
    for (int d = v->d.ndim - 1; d >= 0; d--) {
      const int64_t above = d ? i / v->d.size[d] : 0;
      at += (i - above * v->d.size[d]) * v->d.stride[d], i = above;
    }
  return (char *)v->storage.data + (size_t)at * situ_dtype_size((situ_dtype)v->d.dtype);
}

double view_get(const test_view *v, int64_t i) {
  const void *p = element(v, i);
  switch ((situ_dtype)v->d.dtype) {
  case SITU_BOOL:
  case SITU_U8: return *(const uint8_t *)p;
  case SITU_I8: return *(const int8_t *)p;
  case SITU_I16: return *(const int16_t *)p;
  case SITU_I32: return *(const int32_t *)p;
  case SITU_I64: return (double)*(const int64_t *)p;
  case SITU_F16: return (double)situ__f16_to_f32(*(const uint16_t *)p);
  case SITU_BF16: return (double)situ__bf16_to_f32(*(const uint16_t *)p);
  case SITU_F32: return (double)*(const float *)p;
  case SITU_F64: return *(const double *)p;
  default: (void)fputs("view_get: no such dtype\n", stderr); exit(99);
  }
}

void view_set(test_view *v, int64_t i, double value) {
  void *p = element(v, i);
  switch ((situ_dtype)v->d.dtype) {
  case SITU_BOOL: *(uint8_t *)p = value != 0; break;
  case SITU_U8: *(uint8_t *)p = (uint8_t)(int64_t)value; break; /* wraps */
  case SITU_I8: *(int8_t *)p = (int8_t)(int64_t)value; break;
  case SITU_I16: *(int16_t *)p = (int16_t)(int64_t)value; break;
  case SITU_I32: *(int32_t *)p = (int32_t)(int64_t)value; break;
  case SITU_I64: *(int64_t *)p = (int64_t)value; break;
  case SITU_F16: *(uint16_t *)p = situ__f32_to_f16((float)value); break;
  case SITU_BF16: *(uint16_t *)p = situ__f32_to_bf16((float)value); break;
  case SITU_F32: *(float *)p = (float)value; break;
  case SITU_F64: *(double *)p = value; break;
  default: (void)fputs("view_set: no such dtype\n", stderr); exit(99);
  }
}

double *view_values(const test_view *v) {
  double *to = malloc(sizeof(double) * (size_t)(v->d.numel + 1));
  if (!to) exit(99);
  for (int64_t i = 0; i < v->d.numel; i++) to[i] = view_get(v, i);
  return to;
}

double view_unit(int dtype) {
  switch (dtype) {
  case SITU_F16: return 0x1p-11;
  case SITU_BF16: return 0x1p-8;
  case SITU_F32: return FLT_EPSILON / 2;
  case SITU_F64: return DBL_EPSILON / 2;
  default: return 0;
  }
}

/* ---- the same work elsewhere ---- */

enum { STORAGES = 32, VIEWS = 1024, ITEMS = 200 };

typedef struct stage {
  situ_device device;
  int storages, views;
  situ_storage *host[STORAGES], *there[STORAGES];
  situ_view_desc view[VIEWS];
} stage;

/* The view, on the stage; NULL for NULL. */
static const situ_view_desc *staged(stage *s, const situ_view_desc *v) {
  if (!v) return NULL;
  int k = 0;
  while (k < s->storages && s->host[k] != v->storage) k++;
  if (k == STORAGES || s->views == VIEWS) fail_msg("view_run: the stage is full");
  if (k == s->storages) {
    situ_storage *host = s->host[k] = v->storage;
    s->there[k] = situ__storage_new("view_run", s->device, host->bytes);
    s->storages++;
    if (!s->there[k] ||
        situ__copy_from_host("view_run", s->there[k], 0, host->data, host->bytes, SITU__COPY_USER) != SITU_OK)
      fail_msg("view_run: %s", situ_error_message());
  }
  situ_view_desc *view = &s->view[s->views++];
  *view = *v;
  view->storage = s->there[k];
  return view;
}

situ_status view_run(situ_verb verb, const situ_work *work) {
  const situ_device device = test_device();
  stage s = { .device = device };
  situ_optimizer_item item[ITEMS];
  situ_work copy = *work;
  copy.verb = verb;
  if (device.kind == SITU_CPU) return situ__cpu_backend.kernel[verb](0, &copy);
  if (work->list_count > ITEMS) fail_msg("view_run: more than %d items", ITEMS);
  for (int k = 0; k < work->ins; k++) copy.in[k] = staged(&s, work->in[k]);
  for (int k = 0; k < work->outs; k++) copy.out[k] = staged(&s, work->out[k]);
  for (int64_t k = 0; k < work->list_count; k++) {
    item[k] = work->list[k];
    item[k].param = staged(&s, item[k].param);
    item[k].grad = staged(&s, item[k].grad);
    for (int m = 0; m < 3; m++) item[k].state[m] = staged(&s, item[k].state[m]);
  }
  if (work->list) copy.list = item;
  situ_status status = situ__run("view_run", device, &copy);
  if (status == SITU_OK) status = situ_synchronize(device);
  for (int k = 0; k < s.storages; k++) {
    situ_status back =
        situ__copy_to_host("view_run", s.there[k], 0, s.host[k]->data, s.host[k]->bytes, SITU__COPY_READ);
    if (back != SITU_OK && status == SITU_OK) fail_msg("view_run: %s", situ_error_message());
    situ__storage_release(s.there[k]);
  }
  return status;
}

double view_next(uint64_t *state) {
  *state ^= *state << 13;
  *state ^= *state >> 7;
  *state ^= *state << 17;
  return (double)(*state >> 11) * 0x1p-53;
}

void view_random(test_view *v, uint64_t seed, double low, double high) {
  uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
  for (int64_t i = 0; i < v->d.numel; i++) view_set(v, i, low + (high - low) * view_next(&state));
}

bool view_same(const test_view *a, const test_view *b) {
  if (a->d.numel != b->d.numel || a->d.dtype != b->d.dtype) return false;
  for (int64_t i = 0; i < a->d.numel; i++)
    if (memcmp(element(a, i), element(b, i), situ_dtype_size((situ_dtype)a->d.dtype))) return false;
  return true;
}

int view_best_isa(void) {
  static int best = -1;
  if (best < 0) best = situ__cpu_isa();
  return best;
}

bool view_next_isa(int *isa) {
  const int best = view_best_isa();
  const bool more = ++*isa <= (test_device().kind == SITU_CPU ? best : SITU__ISA_BASE);
  situ__cpu_isa_chosen = 1 + (more ? *isa : best);
  return more;
}

bool view_forces(int least) {
  const int best = view_best_isa(), isa = situ__cpu_isa();
  return test_device().kind == SITU_CPU && (isa == best || (isa == least && least > SITU__ISA_BASE));
}
