/* The only path to a kernel slot, and how backend errors are reported.
   SPDX-License-Identifier: MIT */
#include <stdio.h>

#include "base/fail.h"
#include "base/fork.h"
#include "base/text.h"
#include "device/dry.h"
#include "device/graph/graph.h"
#include "device/profile/profile.h"

const char *situ__verb_name(situ_verb verb) {
  static const char *const name[SITU_VERBS] = {
    [SITU_VERB_COPY] = "copy",
    [SITU_VERB_FILL] = "fill",
    [SITU_VERB_RANGE] = "range",
    [SITU_VERB_RANDOM] = "random",
    [SITU_VERB_TRIANGLE] = "triangle",
    [SITU_VERB_UNARY] = "unary",
    [SITU_VERB_UNARY_GRAD] = "unary gradient",
    [SITU_VERB_BINARY] = "binary",
    [SITU_VERB_TERNARY] = "ternary",
    [SITU_VERB_REDUCE] = "reduce",
    [SITU_VERB_ARG_REDUCE] = "arg reduce",
    [SITU_VERB_SCAN] = "scan",
    [SITU_VERB_SORT] = "sort",
    [SITU_VERB_GATHER] = "gather",
    [SITU_VERB_SCATTER] = "scatter",
    [SITU_VERB_NONZERO] = "nonzero",
    [SITU_VERB_MATMUL] = "matmul",
    [SITU_VERB_FACTOR] = "factor",
    [SITU_VERB_CONV] = "convolution",
    [SITU_VERB_POOL] = "pool",
    [SITU_VERB_RESAMPLE] = "resample",
    [SITU_VERB_FFT] = "fft",
    [SITU_VERB_LINALG] = "linear algebra",
    [SITU_VERB_SOFTMAX] = "softmax",
    [SITU_VERB_NORM] = "norm",
    [SITU_VERB_BATCH_NORM] = "batch norm",
    [SITU_VERB_GROUP_NORM] = "group norm",
    [SITU_VERB_NLL] = "nll",
    [SITU_VERB_CELL] = "cell",
    [SITU_VERB_LINEAR] = "linear",
    [SITU_VERB_ATTENTION] = "attention",
    [SITU_VERB_BLOCKS] = "blocks",
    [SITU_VERB_PACK] = "pack",
    [SITU_VERB_OPTIMIZER] = "optimizer",
  };
  return (unsigned)verb < SITU_VERBS && name[verb] ? name[verb] : "?";
}

/* ---- lost devices ------------------------------------------------------------------------- */

static bool lost[SITU_DEVICE_KINDS][SITU__DEVICES_MAX];
static bool some_lost; /* one ever was: until then, no launch looks for its own */

static bool *lost_flag(situ_device device) {
  return device.kind < SITU_DEVICE_KINDS && device.index < SITU__DEVICES_MAX ? &lost[device.kind][device.index] : NULL;
}

bool situ__device_lost(situ_device device) {
  if (__builtin_expect(!__atomic_load_n(&some_lost, __ATOMIC_ACQUIRE), 1)) return false;
  const bool *flag = lost_flag(device);
  return flag && __atomic_load_n(flag, __ATOMIC_RELAXED);
}

void situ__device_found(situ_device device) {
  bool *flag = lost_flag(device);
  if (flag) __atomic_store_n(flag, false, __ATOMIC_RELAXED);
}

static SITU_COLD situ_status refuse_unusable(const char *op, situ_device device) {
  char name[SITU_DEVICE_NAME_MAX];
  if (situ__forked())
    return situ__fail(SITU_E_STATE, op,
                      "this process is the child of a fork; situ's threads and devices stayed in the "
                      "parent (exec, or fork before the first use of situ)");
  const situ_backend *backend = situ__backend(device);
  const char *why = backend->lost ? backend->lost(device.index) : NULL;
  return situ__fail(SITU_E_LOST, op, "%s is lost%s%s; its tensors can only be freed", situ_device_name(device, name),
                    why ? ": " : "", why ? why : "");
}

situ_status situ__device_usable(const char *op, situ_device device) {
  if (__builtin_expect(situ__forked() || situ__device_lost(device), 0)) return refuse_unusable(op, device);
  return SITU_OK;
}

situ_status situ__device_failed(const char *op, situ_device device, situ_status status, uint64_t before,
                                const char *what) {
  if (status == SITU_E_LOST) {
    bool *flag = lost_flag(device);
    if (flag) __atomic_store_n(flag, true, __ATOMIC_RELAXED);
    __atomic_store_n(&some_lost, true, __ATOMIC_RELEASE);
  }
  if (situ__error_count() != before) return status; /* the backend has recorded the details */
  if (status == SITU_E_LOST) return refuse_unusable(op, device);
  char name[SITU_DEVICE_NAME_MAX];
  return situ__fail(status, op, "%s on %s failed: %s", what, situ_device_name(device, name), situ_status_name(status));
}

/* ---- unsupported -------------------------------------------------------------------------- */

/* Returns the first dtype of the work outside the set of those that the device computes with; DEFAULT if there is
   none. */
static situ_dtype dtype_outside(const situ_work *work, uint32_t set) {
  if (work->compute && !(set >> work->compute & 1)) return work->compute;
  for (int i = 0; i < work->ins; i++)
    if (work->in[i] && !(set >> work->in[i]->dtype & 1)) return (situ_dtype)work->in[i]->dtype;
  for (int i = 0; i < work->outs; i++)
    if (work->out[i] && !(set >> work->out[i]->dtype & 1)) return (situ_dtype)work->out[i]->dtype;
  return SITU_DTYPE_DEFAULT;
}

/* A dtype for the message when the verb itself is missing. */
static situ_dtype dtype_of(const situ_work *work) { return dtype_outside(work, 0); }

static uint32_t dtypes_of(situ_device device) {
  if (device.kind == SITU_CPU) return UINT32_MAX; /* all; the host takes long to tell its name */
  situ_device_properties properties = { 0 };
  const situ_backend *backend = situ__backend(device);
  bool known = backend && backend->info && backend->info(device.index, &properties) == SITU_OK;
  return known && properties.dtypes ? properties.dtypes : UINT32_MAX;
}

/* Appends "; cpu, sim:1 can" or "; no device here can". */
static void list_capable_devices(situ__text *text, const situ_work *work) {
  int found = 0;
  for (unsigned kind = SITU_CPU; kind < SITU_DEVICE_KINDS; kind++) {
    int count = situ_device_count(situ__kind_name(kind));
    for (int index = 0; index < count; index++) {
      situ_device other = { (uint16_t)kind, (uint16_t)index };
      const situ_backend *backend = situ__backend(other);
      if (backend->no_memory || !backend->kernel[work->verb] || dtype_outside(work, dtypes_of(other))) continue;
      char name[SITU_DEVICE_NAME_MAX];
      situ__text_add(text, "%s%s", found++ ? ", " : "; ", situ_device_name(other, name));
    }
  }
  situ__text_add(text, found ? " can" : "; no device here can");
}

static SITU_COLD situ_status report_unsupported(const char *op, situ_device device, const situ_work *work) {
  char name[SITU_DEVICE_NAME_MAX];
  const situ_backend *backend = situ__backend(device);
  situ__text text = { 0 };
  situ_dtype dtype = dtype_outside(work, dtypes_of(device));
  situ_device_name(device, name);
  if (dtype) {
    situ__text_add(&text, "%s cannot compute with %s (%s)", name, situ__dtype_name(dtype), situ__verb_name(work->verb));
  } else if (!backend->kernel[work->verb]) {
    situ__text_add(&text, "%s has no kernel for %s (%s)", name, situ__verb_name(work->verb),
                   situ__dtype_name(dtype_of(work)));
  } else {
    situ__text_add(&text, "%s cannot do %s for %s like this", name, situ__verb_name(work->verb),
                   situ__dtype_name(dtype_of(work)));
  }
  list_capable_devices(&text, work);
  situ_status status = situ__fail(SITU_E_UNSUPPORTED, op, "%s", text.data ? text.data : name);
  situ__text_free(&text);
  return status;
}

/* ---- offers ------------------------------------------------------------------------------- */

bool situ__has_verb(situ_device device, situ_verb verb) {
  const situ_backend *backend = situ__backend(device);
  return backend && (unsigned)verb < SITU_VERBS && (backend->no_memory || backend->kernel[verb]);
}

situ_status situ__offers(const char *op, situ_device device, const situ_work *work, bool *offered) {
  const situ_backend *backend = situ__backend(device);
  const bool may_ask = backend && (!situ__is_dry() || !backend->offers || backend->addressable);
  *offered = may_ask && !backend->no_memory && backend->kernel[work->verb];
  if (!*offered || !backend->offers) return SITU_OK;
  const uint64_t before = situ__error_count();
  const situ_status status = backend->offers(device.index, work);
  *offered = status == SITU_OK;
  return status == SITU_E_UNSUPPORTED || *offered
             ? SITU_OK
             : situ__device_failed(op, device, status, before, situ__verb_name(work->verb));
}

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

/* Kernels may assume at least one element to write. An optimiser's step has a list instead of outputs. */
static bool writes_nothing(const situ_work *work) {
  for (int i = 0; i < work->outs; i++)
    if (work->out[i] && work->out[i]->numel) return false;
  return work->outs > 0;
}

static SITU_COLD situ_status report_failure(const char *op, situ_device device, const situ_work *work,
                                            situ_status status, uint64_t before) {
  if (status == SITU_E_UNSUPPORTED && situ__error_count() == before) return report_unsupported(op, device, work);
  return situ__device_failed(op, device, status, before, situ__verb_name(work->verb));
}

/* Reports what a launch would report without running it. Work that the device cannot do is reported, then treated as
   done. Only storages of this dry run count as written. */
static SITU_COLD situ_status dry_run(const char *op, situ_device device, const situ_work *work) {
  const situ_backend *backend = situ__backend(device);
  situ_status status = situ__device_usable(op, device);
  if (status != SITU_OK) return status;
  if (backend && !backend->no_memory && !writes_nothing(work)) {
    if (!backend->kernel[work->verb] || dtype_outside(work, dtypes_of(device))) {
      (void)report_unsupported(op, device, work);
      situ__dry_found();
      situ__dry_forget();
    }
    if (situ__dry->launched) situ__dry->launched(situ__dry, op, device, work);
  }
  for (int i = 0; i < work->outs; i++)
    if (work->out[i] && situ__is_void(work->out[i]->storage)) situ__storage_wrote(work->out[i]->storage);
  return SITU_OK;
}

/* ---- the operands of an optimizer's item ---- */

enum { ITEM = 5 };

/* Returns operand k, 0 <= k < ITEM; NULL if this optimizer has no such one. */
static const situ_view_desc *item_operand(const situ_optimizer_item *item, int k) {
  return k == 0 ? item->param : k == 1 ? item->grad : item->state[k - 2];
}

/* ---- unwritten values ---- */

SITU_COLD situ_status situ__refuse_unwritten(const char *op, situ_storage *storage) {
  situ__described d = { "an operand", "" };
  situ__device_up.describe_storage(storage, &d);
  if (storage->flags & SITU_STORAGE_AWAY)
    return situ__fail(SITU_E_STATE, op, "%s has no memory now: %s%s", d.what, (const char *)storage->payload, d.where);
  return situ__fail(SITU_E_STATE, op, "%s holds no value yet: nothing was written since it was made%s", d.what,
                    d.where);
}

situ_status situ__refuse_sample(const char *op, situ_storage *storage) {
  if (storage->flags & SITU_STORAGE_AWAY) return situ__refuse_unwritten(op, storage);
  situ__described d = { "an operand", "" };
  situ__device_up.describe_storage(storage, &d);
  return situ__fail(SITU_E_UNSUPPORTED, op,
                    "%s stands for one sample of a situ_func_vmap, whose values cannot be read or written alone%s",
                    d.what, d.where);
}

/* True where there is nothing to be read. */
static inline bool is_unwritten(const situ_view_desc *v) {
  return __atomic_load_n(&v->storage->flags, __ATOMIC_RELAXED) & (SITU_STORAGE_UNWRITTEN | SITU__STORAGE_NOWHERE);
}
static inline bool is_sample(const situ_view_desc *v) { return v->storage->flags & SITU__STORAGE_NOWHERE; }

static inline bool adds_to_output(const situ_work *work) {
  return work->verb == SITU_VERB_SCATTER && work->op & SITU_INDEX_ADD;
}

/* Returns the first operand that the work would read but that was never written; NULL if there is none. */
static const situ_view_desc *find_unwritten(const situ_work *work) {
  for (int i = 0; i < work->ins; i++)
    if (work->in[i] && work->in[i]->numel && is_unwritten(work->in[i])) return work->in[i];
  for (int64_t i = 0; i < work->list_count; i++)
    for (int k = 0; k < ITEM; k++) {
      const situ_view_desc *v = item_operand(&work->list[i], k);
      if (v && is_unwritten(v)) return v;
    }
  return adds_to_output(work) && work->out[0] && is_unwritten(work->out[0]) ? work->out[0] : NULL;
}

/* ---- operands of another device ---- */

static inline bool is_elsewhere(const situ_view_desc *v, situ_device device) {
  return !situ__same_device(v->storage->device, device);
}

/* Returns the first operand that is not on the device; NULL if there is none. */
static const situ_view_desc *find_elsewhere(situ_device device, const situ_work *work) {
  for (int i = 0; i < work->ins + work->outs; i++) {
    const situ_view_desc *v = i < work->ins ? work->in[i] : work->out[i - work->ins];
    if (v && is_elsewhere(v, device)) return v;
  }
  for (int64_t i = 0; i < work->list_count; i++)
    for (int k = 0; k < ITEM; k++) {
      const situ_view_desc *v = item_operand(&work->list[i], k);
      if (v && is_elsewhere(v, device)) return v;
    }
  return NULL;
}

static situ_status refuse_elsewhere(const char *op, situ_device device, const situ_view_desc *operand) {
  char a[SITU_DEVICE_NAME_MAX], b[SITU_DEVICE_NAME_MAX];
  return situ__fail(SITU_E_DEVICE, op, "an operand is on %s, where work of %s cannot reach it",
                    situ_device_name(operand->storage->device, a), situ_device_name(device, b));
}

/* ---- the check of all operands ---- */

/* int: sums of these are without branches. */
static inline int is_odd(const situ_view_desc *v, situ_device device) {
  return v && ((int)is_elsewhere(v, device) | (int)is_unwritten(v));
}

static __attribute__((noinline)) bool has_odd_item(situ_device device, const situ_work *work) {
  int odd = 0;
  for (const situ_optimizer_item *x = work->list; x < work->list + work->list_count; x++) {
    odd |= is_odd(x->param, device) | is_odd(x->grad, device);
    for (int k = 0; k < ITEM - 2; k++) odd |= is_odd(x->state[k], device);
  }
  return odd;
}

/* One pass for the usual work: true only if all operands are on the device and hold values. A scatter may read its
   output, which is for the other check to find: `op` beside `verb` would be one load of what two stores have just
   written, and wait for them. */
static inline bool is_plainly_good(situ_device device, const situ_work *work) {
  if (work->verb == SITU_VERB_SCATTER || (work->list_count && has_odd_item(device, work))) return false;
  for (const situ_view_desc *const *v = work->in, *const *past = v + work->ins; v < past; v++)
    if (is_odd(*v, device)) return false;
  for (const situ_view_desc *const *v = work->out, *const *past = v + work->outs; v < past; v++)
    if (*v && (is_elsewhere(*v, device) || is_sample(*v))) return false;
  return true;
}

static const situ_view_desc *find_sample(const situ_work *work) {
  for (int i = 0; i < work->ins + work->outs; i++) {
    const situ_view_desc *v = i < work->ins ? work->in[i] : work->out[i - work->ins];
    if (v && is_sample(v)) return v;
  }
  for (int64_t i = 0; i < work->list_count; i++)
    for (int k = 0; k < ITEM; k++) {
      const situ_view_desc *v = item_operand(&work->list[i], k);
      if (v && is_sample(v)) return v;
    }
  return NULL;
}

/* A kernel must never follow an address of another device. Without memory, nothing is read. */
static __attribute__((noinline)) situ_status check_operands(const char *op, situ_device device, const situ_work *work) {
  const situ_view_desc *elsewhere = find_elsewhere(device, work);
  if (elsewhere) return refuse_elsewhere(op, device, elsewhere);
  const situ_backend *backend = situ__backend(device);
  const situ_view_desc *sample = find_sample(work);
  if (sample) return situ__refuse_sample(op, sample->storage);
  const bool reads = backend && !backend->no_memory && !writes_nothing(work);
  const situ_view_desc *unwritten = reads ? find_unwritten(work) : NULL;
  return unwritten ? situ__refuse_unwritten(op, unwritten->storage) : SITU_OK;
}

/* ---- running ---- */

static inline situ_status run_kernel(const char *op, situ_device device, const situ_backend *backend,
                                     const situ_work *work) {
  situ_status (*kernel)(int, const situ_work *) = backend->kernel[work->verb];
  const uint64_t before = situ__error_count();
  const char *outer = situ__now.running;
  situ__now.running = op;
  const situ_status status = kernel ? kernel(device.index, work) : SITU_E_UNSUPPORTED;
  situ__now.running = outer;
  return __builtin_expect(status == SITU_OK, 1) ? SITU_OK : report_failure(op, device, work, status, before);
}

/* The same while a graph or a profile is recorded. */
static SITU_COLD __attribute__((noinline)) situ_status
run_recorded(const char *op, situ_device device, const situ_backend *backend, const situ_work *work) {
  situ__graph_work *kept = NULL;
  if (situ__graph_recording && !(kept = situ__graph_take(op, device, work))) return situ_error();
  const uint64_t before = situ__error_count();
  if (situ__is_profiled()) situ__profile_start();
  situ_status status = run_kernel(op, device, backend, work);
  if (situ__is_profiled() && status == SITU_OK && (status = situ__profile_work(op, device, work)) != SITU_OK)
    status = report_failure(op, device, work, status, before);
  if (status != SITU_OK) situ__graph_drop(kept);
  else if (kept) situ__graph_keep(kept);
  return status;
}

/* ---- strides ---- */

#define VERB(id) (UINT64_C(1) << SITU_VERB_##id)
/* Verbs whose kernels follow no strides. */
static const uint64_t of_rows = VERB(ARG_REDUCE) | VERB(SCAN) | VERB(SORT) | VERB(CONV) | VERB(POOL) | VERB(RESAMPLE) |
                                VERB(FFT) | VERB(SOFTMAX) | VERB(NORM) | VERB(BATCH_NORM) | VERB(GROUP_NORM) |
                                VERB(NLL) | VERB(CELL);
#undef VERB

static bool is_channels_last(const situ_view_desc *v) {
  static const int order[] = { 1, 3, 2, 0 };
  int64_t step = 1;
  for (int i = 0; i < 4 && v->ndim == 4; step *= v->size[order[i++]])
    if (v->size[order[i]] > 1 && v->stride[order[i]] != step) return false;
  return v->ndim == 4;
}

bool situ__takes_channels_last(situ_device device, const situ_work *work) {
  const situ_backend *backend = situ__backend(device);
  return backend && backend->offers && !backend->no_memory && backend->kernel[work->verb] &&
         backend->offers(device.index, work) == SITU_OK;
}

/* A kernel that took an operand for row-major that is not would compute with other elements than those that are
   meant. */
static __attribute__((noinline)) situ_status check_rows(const char *op, const situ_work *work) {
  for (int i = 0; i < work->ins + work->outs; i++) {
    const situ_view_desc *v = i < work->ins ? work->in[i] : work->out[i - work->ins];
    if (v && !v->contiguous && !(work->verb == SITU_VERB_CONV && is_channels_last(v)))
      return situ__fail(SITU_E_UNSUPPORTED, op, "%s %d of %s is not contiguous, and its kernel follows no strides",
                        i < work->ins ? "operand" : "result", i < work->ins ? i : i - work->ins,
                        situ__verb_name(work->verb));
  }
  return SITU_OK;
}

/* Whether a launch of this thread may be more than a call of a kernel. */
static inline bool is_unusual(void) {
  const int unusual = (situ__dry != NULL) | (situ__graph_recording != NULL) | (situ__profiling != NULL) |
                      (int)situ__forked() | (int)__atomic_load_n(&some_lost, __ATOMIC_ACQUIRE);
  return __builtin_expect(unusual, 0);
}

static inline situ_status run(const char *op, situ_device device, const situ_work *work) {
  if (situ__is_dry()) return dry_run(op, device, work);
  situ_status status = SITU_OK;
  if (!is_plainly_good(device, work) && (status = check_operands(op, device, work)) != SITU_OK) return status;
  if ((status = situ__device_usable(op, device)) != SITU_OK) return status;
  if (of_rows >> work->verb & 1 && (status = check_rows(op, work)) != SITU_OK) return status;
  const situ_backend *backend = situ__backend(device);
  if (backend && !writes_nothing(work)) {
    if (backend->no_memory) status = situ__recipe_add(op, work) ? SITU_OK : SITU_E_NOMEM;
    else if (__builtin_expect(!situ__graph_recording && !situ__profiling, 1))
      status = run_kernel(op, device, backend, work);
    else status = run_recorded(op, device, backend, work);
    if (status != SITU_OK) return status;
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

/* Its side door. */
situ_status situ__run_pair(const char *op, int code, const situ_view_desc *a, const situ_view_desc *b,
                           const situ_view_desc *y) {
  const situ_work work = { .verb = SITU_VERB_BINARY,
                           .op = code,
                           .compute = (situ_dtype)a->dtype,
                           .ins = 2,
                           .outs = 1,
                           .in = { a, b },
                           .out = { y } };
  const situ_device device = y->storage->device;
  if (__builtin_expect((int)is_unwritten(a) | (int)is_unwritten(b), 0) || is_unusual())
    return situ__run(op, device, &work);
  const situ__fpu before = situ__fpu_enter();
  const situ_status status = run_kernel(op, device, situ__backend(device), &work);
  situ__fpu_leave(before);
  if (status == SITU_OK) situ__storage_wrote(y->storage);
  return status;
}

situ_status situ_synchronize(situ_device device) {
  SITU__DEFAULT_FPU;
  const char *op = "synchronize";
  if (!situ__device_resolve(op, device, &device)) return situ_error();
  situ_status status = situ__device_usable(op, device);
  const situ_backend *backend = situ__backend(device);
  if (status != SITU_OK || !backend->synchronize) return status;
  uint64_t before = situ__error_count();
  status = backend->synchronize(device.index);
  return status == SITU_OK ? SITU_OK : situ__device_failed(op, device, status, before, "queued work");
}
