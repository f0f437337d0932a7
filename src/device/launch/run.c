/* The only path to a kernel slot.
   SPDX-License-Identifier: MIT */
#include "base/fail.h"
#include "base/fork.h"
#include "device/dry.h"
#include "device/graph/graph.h"
#include "device/launch/checks.h"
#include "device/profile/profile.h"

static void wrote_outputs(const situ_work *work) {
  if (work->outs == 1 && work->out[0] && !work->list_count) {
    situ__storage_wrote(work->out[0]->storage);
    return;
  }
  for (int i = 0; i < work->outs; i++) {
    situ_storage *storage = work->out[i] ? work->out[i]->storage : NULL;
    for (int k = 0; storage && k < i; k++)
      if (work->out[k] && work->out[k]->storage == storage) storage = NULL;
    if (storage) situ__storage_wrote(storage);
  }
  for (int64_t i = 0; i < work->list_count; i++) {
    situ__storage_wrote(work->list[i].param->storage);
    for (int k = 0; k < 3; k++)
      if (work->list[i].state[k]) situ__storage_wrote(work->list[i].state[k]->storage);
  }
}

/* Reports what a launch would report without running it. Work that the device cannot do is reported, then treated as
   done. Only storages of this dry run count as written. */
static SITU_COLD situ_status dry_run(const char *op, situ_device device, const situ_work *work) {
  const situ_backend *backend = situ__backend(device);
  situ_status status = situ__device_usable(op, device);
  if (status != SITU_OK) return status;
  if (backend && !backend->no_memory && !situ__writes_nothing(work)) {
    const bool incapable = situ__is_incapable(device, work);
    if (incapable && situ__may_fall_back(device, work)) return situ__fall_back(op, work);
    if (incapable) {
      (void)situ__launch_failed(op, device, work, SITU_E_UNSUPPORTED, situ__error_count());
      situ__dry_found();
      situ__dry_forget();
    }
    if (situ__dry->launched) situ__dry->launched(situ__dry, op, device, work);
  }
  for (int i = 0; i < work->outs; i++)
    if (work->out[i] && situ__is_void(work->out[i]->storage)) situ__storage_wrote(work->out[i]->storage);
  return SITU_OK;
}

/* ---- the check of all operands ---- */

/* int: sums of these are without branches. */
static inline int is_odd(const situ_view_desc *v, situ_device device, uint32_t flags) {
  return v && ((int)situ__is_elsewhere(v, device) | (int)situ__is_flagged(v, flags));
}

static __attribute__((noinline)) bool has_odd_item(situ_device device, const situ_work *work) {
  int odd = 0;
  for (const situ_optimizer_item *x = work->list; x < work->list + work->list_count; x++) {
    odd |= is_odd(x->param, device, SITU__UNREADABLE | SITU__UNWRITABLE) | is_odd(x->grad, device, SITU__UNREADABLE);
    for (int k = 0; k < SITU__ITEM_OPERANDS - 2; k++) odd |= is_odd(x->state[k], device, SITU__UNREADABLE);
  }
  return odd;
}

/* One pass for the usual work: true only if all operands are on the device and hold values. A scatter may read its
   output, which is for the other check to find: `op` beside `verb` would be one load of what two stores have just
   written, and wait for them. */
static inline bool is_plainly_good(situ_device device, const situ_work *work) {
  if (work->verb == SITU_VERB_SCATTER || (work->list_count && has_odd_item(device, work))) return false;
  for (const situ_view_desc *const *v = work->in, *const *past = v + work->ins; v < past; v++)
    if (is_odd(*v, device, SITU__UNREADABLE)) return false;
  for (const situ_view_desc *const *v = work->out, *const *past = v + work->outs; v < past; v++)
    if (*v && (situ__is_elsewhere(*v, device) || situ__is_unwritable(*v))) return false;
  return true;
}

/* ---- running ---- */

/* Returns what the kernel reports: situ__launch_failed makes an error of it. */
static inline situ_status run_kernel(const char *op, situ_device device, const situ_backend *backend,
                                     const situ_work *work) {
  situ_status (*kernel)(int, const situ_work *) = backend->kernel[work->verb];
  const char *outer = situ__now.running;
  situ__now.running = op;
  const situ_status status = kernel ? kernel(device.index, work) : SITU_E_UNSUPPORTED;
  situ__now.running = outer;
  return status;
}

/* The same while a graph or a profile is recorded. */
static SITU_COLD __attribute__((noinline)) situ_status
run_recorded(const char *op, situ_device device, const situ_backend *backend, const situ_work *work) {
  situ__graph_work *kept = NULL;
  if (situ__graph_recording && !(kept = situ__graph_take(op, device, work))) return situ_error();
  if (situ__is_profiled()) situ__profile_start();
  situ_status status = run_kernel(op, device, backend, work);
  if (situ__is_profiled() && status == SITU_OK) status = situ__profile_work(op, device, work);
  if (status != SITU_OK) situ__graph_drop(kept);
  else if (kept) situ__graph_keep(kept);
  return status;
}

#define VERB(id) (UINT64_C(1) << SITU_VERB_##id)
/* Verbs whose kernels follow no strides. */
static const uint64_t of_rows = VERB(ARG_REDUCE) | VERB(SCAN) | VERB(SORT) | VERB(CONV) | VERB(POOL) | VERB(RESAMPLE) |
                                VERB(FFT) | VERB(SOFTMAX) | VERB(NORM) | VERB(BATCH_NORM) | VERB(GROUP_NORM) |
                                VERB(NLL) | VERB(CELL);
#undef VERB

/* Whether a launch of this thread may be more than a call of a kernel. */
static inline bool is_unusual(void) {
  const int unusual = (situ__dry != NULL) | (situ__graph_recording != NULL) | (situ__profiling != NULL) |
                      (int)situ__forked() | (int)__atomic_load_n(&situ__some_lost, __ATOMIC_ACQUIRE);
  return __builtin_expect(unusual, 0);
}

static inline situ_status run(const char *op, situ_device device, const situ_work *work) {
  if (situ__is_dry()) return dry_run(op, device, work);
  situ_status status = SITU_OK;
  if (!is_plainly_good(device, work) && (status = situ__check_operands(op, device, work)) != SITU_OK) return status;
  if ((status = situ__device_usable(op, device)) != SITU_OK) return status;
  if (of_rows >> work->verb & 1 && (status = situ__check_rows(op, work)) != SITU_OK) return status;
  const situ_backend *backend = situ__backend(device);
  const uint64_t before = situ__error_count();
  if (backend && !situ__writes_nothing(work)) {
    if (backend->no_memory) status = situ__recipe_add(op, work) ? SITU_OK : SITU_E_NOMEM;
    else if (__builtin_expect(!situ__graph_recording && !situ__profiling, 1))
      status = run_kernel(op, device, backend, work);
    else status = run_recorded(op, device, backend, work);
    if (status != SITU_OK && (status = situ__launch_failed(op, device, work, status, before)) != SITU_OK) return status;
  }
  wrote_outputs(work);
  return SITU_OK;
}

/* The one door to kernels. */
situ_status situ__run(const char *op, situ_device device, const situ_work *work) {
  const situ__fpu before = situ__fpu_enter();
  const situ_status status = run(op, device, work);
  situ__fpu_leave(before);
  return status;
}

/* Its side door. The caller (situ__plain_pair, situ__run_two) has checked that a and b are of one dtype, have elements
   and are on one device that computes (not meta), and has made y there, of the same dtype. So the devices are not
   compared again, and y is neither a sample nor empty. What can be otherwise at any call is asked here, at once: values
   that were never written, samples, and what is_unusual names; then the door decides. */
situ_status situ__run_pair(const char *op, int code, const situ_view_desc *a, const situ_view_desc *b,
                           const situ_view_desc *y) {
  const situ_work work = { SITU_VERB_BINARY, .op = code,  .compute = (situ_dtype)a->dtype, .ins = 2, .outs = 1,
                           .in = { a, b },   .out = { y } };
  const situ_device device = y->storage->device;
  if (__builtin_expect((int)situ__is_unwritten(a) | (int)situ__is_unwritten(b), 0) || is_unusual())
    return situ__run(op, device, &work);
  const uint64_t errors = situ__error_count();
  const situ__fpu before = situ__fpu_enter();
  situ_status status = run_kernel(op, device, situ__backend(device), &work);
  if (__builtin_expect(status != SITU_OK, 0)) status = situ__launch_failed(op, device, &work, status, errors);
  situ__fpu_leave(before);
  if (status == SITU_OK) situ__storage_wrote(y->storage);
  return status;
}
