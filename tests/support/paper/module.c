/* The device on paper. See paper.h.
   SPDX-License-Identifier: MIT */
#include "support/paper/paper.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "situ/sys/module.h"

/* Addresses of what is not there: no program has any so high. */
static const uintptr_t nowhere = (uintptr_t)1 << 60;
static _Atomic uintptr_t next_address;
static const situ_host *host;

bool paper_is_real(const void *data) { return (uintptr_t)data < nowhere; }

bool situ_module_start(const situ_host *given) {
  host = given;
  atomic_store(&next_address, nowhere);
  return true;
}

static int count(const char **reason) {
  *reason = "a device on paper";
  return 1;
}

static situ_status info(int index, situ_device_properties *out) {
  (void)index;
  *out = (situ_device_properties){ .dtypes = (1u << SITU_DTYPES) - 2, .memory_total = UINT64_C(1) << 59 };
  (void)snprintf(out->name, sizeof out->name, "a device on paper");
  return SITU_OK;
}

static situ_status allocate(int index, size_t bytes, void **data) {
  (void)index;
  if (bytes <= PAPER_REAL) *data = calloc(1, bytes + 1);
  else *data = (void *)atomic_fetch_add(&next_address, (bytes + 511) / 512 * 512);
  return *data ? SITU_OK : SITU_E_NOMEM;
}

static void release(int index, void *data, size_t bytes) {
  (void)index, (void)bytes;
  if (paper_is_real(data)) free(data);
}

static situ_status copy_in(int index, void *data, size_t at, const void *from, size_t bytes) {
  (void)index;
  if (paper_is_real(data)) memcpy((char *)data + at, from, bytes);
  return SITU_OK;
}

/* What is not there reads as zeros. */
static situ_status copy_out(int index, const void *data, size_t at, void *to, size_t bytes) {
  (void)index;
  paper_wait();
  if (paper_is_real(data)) memcpy(to, (const char *)data + at, bytes);
  else if (bytes <= PAPER_REAL) memset(to, 0, bytes);
  return SITU_OK;
}

static situ_status synchronize(int index) {
  (void)index;
  paper_wait();
  return SITU_OK;
}

static double bytes_of(const situ_view_desc *v) {
  return v ? (double)v->numel * (double)paper_size((situ_dtype)v->dtype) : 0;
}

/* Products of what is multiplied: all others are bound by memory. */
static double flops_of(const situ_work *w) {
  const situ_view_desc *a = w->in[0], *y = w->out[0];
  if (w->verb != SITU_VERB_MATMUL || !a->ndim) return 0;
  return 2 * (double)y->numel * (double)a->size[a->ndim - 1];
}

static situ_status launch(int index, const situ_work *w) {
  (void)index;
  double bytes = 0;
  bool real = true, inside = true;
  for (int k = 0; k < w->ins + w->outs; k++) {
    const situ_view_desc *v = k < w->ins ? w->in[k] : w->out[k - w->ins];
    bytes += bytes_of(v);
    if (!v) continue;
    real = real && paper_is_real(v->storage->data);
    inside = inside && v->storage->data;
  }
  for (int64_t k = 0; k < w->list_count; k++) {
    bytes += 2 * bytes_of(w->list[k].param) + bytes_of(w->list[k].grad);
    for (int s = 0; s < 3; s++) bytes += 2 * bytes_of(w->list[k].state[s]);
    real = false;
  }
  for (int64_t k = 0; k < w->pack_count; k++) real = false;
  paper_compute(bytes, flops_of(w));
  return real && inside && bytes <= PAPER_REAL ? host->reference(w) : SITU_OK;
}

static situ_status offers(int index, const situ_work *w) {
  (void)index;
  const bool composed = w->verb == SITU_VERB_PREPACK || w->verb == SITU_VERB_LINEAR || w->verb == SITU_VERB_ATTENTION ||
                        w->verb == SITU_VERB_GROUP_NORM || w->verb == SITU_VERB_PACK;
  return composed ? SITU_E_UNSUPPORTED : SITU_OK;
}

const situ_backend situ_module_backend = {
  .abi = SITU_BACKEND_ABI,
  .size = sizeof situ_module_backend,
  .kind = SITU_CUDA,
  .name = "cuda",
  .count = count,
  .info = info,
  .alloc = allocate,
  .free = release,
  .copy_in = copy_in,
  .copy_out = copy_out,
  .synchronize = synchronize,
  .kernel = { [SITU_VERB_COPY] = launch,
              [SITU_VERB_FILL] = launch,
              [SITU_VERB_RANGE] = launch,
              [SITU_VERB_RANDOM] = launch,
              [SITU_VERB_TRIANGLE] = launch,
              [SITU_VERB_UNARY] = launch,
              [SITU_VERB_UNARY_GRAD] = launch,
              [SITU_VERB_BINARY] = launch,
              [SITU_VERB_TERNARY] = launch,
              [SITU_VERB_REDUCE] = launch,
              [SITU_VERB_ARG_REDUCE] = launch,
              [SITU_VERB_GATHER] = launch,
              [SITU_VERB_SCATTER] = launch,
              [SITU_VERB_MATMUL] = launch,
              [SITU_VERB_SOFTMAX] = launch,
              [SITU_VERB_NORM] = launch,
              [SITU_VERB_NLL] = launch,
              [SITU_VERB_OPTIMIZER] = launch },
  .offers = offers,
  .addressable = true,
};
