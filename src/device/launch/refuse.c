/* Refusals of a launch: what is wrong with a piece of work, and what could be done instead.
   SPDX-License-Identifier: MIT */
#include "base/fail.h"
#include "base/text.h"
#include "device/launch/arrive.h"
#include "device/launch/checks.h"

/* ---- what a device cannot do ---- */

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
static void list_capable_devices(situ__text *text, situ_device device, const situ_work *work) {
  int found = 0;
  for (unsigned kind = SITU_CPU; kind < SITU_DEVICE_KINDS; kind++) {
    if (kind == SITU_PLAN && device.kind != kind) continue; /* it computes nothing */
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
  list_capable_devices(&text, device, work);
  situ_status status = situ__device_up.refuse_work(op, dtype, text.data ? text.data : name);
  situ__text_free(&text);
  return status;
}

bool situ__is_incapable(situ_device device, const situ_work *work) {
  return !situ__backend(device)->kernel[work->verb] || dtype_outside(work, dtypes_of(device));
}

situ_status situ__launch_failed(const char *op, situ_device device, const situ_work *work, situ_status status,
                                uint64_t before) {
  if (status == SITU_E_UNSUPPORTED && situ__error_count() == before)
    return situ__may_fall_back(device, work) ? situ__fall_back(op, work) : report_unsupported(op, device, work);
  return situ__device_failed(op, device, status, before, situ__verb_name(work->verb));
}

/* ---- operands that do not do ---- */

/* Names the first element without a value: "element [0, 3] of the [2, 4] that is read". */
static situ_status refuse_part(const char *op, const situ_view_desc *v, const situ__described *d, int64_t element) {
  int64_t at[SITU_MAX_DIMS];
  situ__text text = { 0 };
  for (int k = v->ndim - 1; k >= 0; element /= v->size[k--]) at[k] = element % v->size[k];
  situ__text_dims(&text, at, v->ndim);
  situ__text_add(&text, " of the ");
  situ__text_dims(&text, v->size, v->ndim);
  const situ_status status =
      situ__fail(SITU_E_STATE, op, "%s holds values in part: nothing was written to element %s that is read%s", d->what,
                 text.data ? text.data : "", d->where);
  situ__text_free(&text);
  return status;
}

situ_status situ__refuse_unwritten(const char *op, const situ_view_desc *v) {
  situ_storage *storage = v->storage;
  situ__described d = { "an operand", "" };
  situ__device_up.describe_storage(storage, &d);
  if (storage->flags & SITU_STORAGE_AWAY)
    return situ__fail(SITU_E_STATE, op, "%s has no memory now: %s%s", d.what, (const char *)storage->payload, d.where);
  const int64_t first = storage->written ? situ__first_unwritten(v) : -1;
  if (first >= 0) return refuse_part(op, v, &d, first);
  return situ__fail(SITU_E_STATE, op, "%s holds no value yet: nothing was written since it was made%s", d.what,
                    d.where);
}

situ_status situ__refuse_sample(const char *op, situ_storage *storage) {
  if (storage->flags & SITU_STORAGE_HELD) return situ__refuse_held(op, storage);
  if (storage->flags & SITU_STORAGE_AWAY) return situ__refuse_unwritten(op, &(situ_view_desc){ .storage = storage });
  situ__described d = { "an operand", "" };
  situ__device_up.describe_storage(storage, &d);
  return situ__fail(SITU_E_UNSUPPORTED, op,
                    "%s stands for one sample of a situ_func_vmap, whose values cannot be read or written alone%s",
                    d.what, d.where);
}

situ_status situ__refuse_read_only(const char *op, situ_storage *storage) {
  if (storage->flags & (SITU_STORAGE_HELD_READ | SITU_STORAGE_SENT)) return situ__refuse_held(op, storage);
  situ__described d = { "an operand", "" };
  situ__device_up.describe_storage(storage, &d);
  return situ__fail(SITU_E_STATE, op,
                    "%s is read-only memory of the program, lent%s, and cannot be written; write to a copy "
                    "(situ_clone)",
                    d.what, d.where);
}

static situ_status refuse_elsewhere(const char *op, situ_device device, const situ_view_desc *operand) {
  char a[SITU_DEVICE_NAME_MAX], b[SITU_DEVICE_NAME_MAX];
  return situ__fail(SITU_E_DEVICE, op, "an operand is on %s, where work of %s cannot reach it",
                    situ_device_name(operand->storage->device, a), situ_device_name(device, b));
}

/* Returns the first operand of which `is` is true; NULL if there is none. */
static inline const situ_view_desc *find_operand(const situ_work *work, situ_device device,
                                                 bool (*is)(const situ_view_desc *v, situ_device device)) {
  for (int i = 0; i < work->ins + work->outs; i++) {
    const situ_view_desc *v = i < work->ins ? work->in[i] : work->out[i - work->ins];
    if (v && is(v, device)) return v;
  }
  for (int64_t i = 0; i < work->list_count; i++)
    for (int k = 0; k < SITU__ITEM_OPERANDS; k++) {
      const situ_view_desc *v = situ__item_operand(&work->list[i], k);
      if (v && is(v, device)) return v;
    }
  return NULL;
}

static bool is_sample(const situ_view_desc *v, situ_device device) {
  (void)device;
  return situ__is_sample(v);
}

static bool adds_to_output(const situ_work *work) {
  return work->verb == SITU_VERB_SCATTER && work->op & SITU_INDEX_ADD;
}

/* Returns the first operand that the work would read but that was never written; NULL if there is none. */
static const situ_view_desc *find_unwritten(const situ_work *work) {
  for (int i = 0; i < work->ins; i++)
    if (work->in[i] && work->in[i]->numel && situ__lacks_values(work->in[i])) return work->in[i];
  for (int64_t i = 0; i < work->list_count; i++)
    for (int k = 0; k < SITU__ITEM_OPERANDS; k++) {
      const situ_view_desc *v = situ__item_operand(&work->list[i], k);
      if (v && situ__lacks_values(v)) return v;
    }
  return adds_to_output(work) && work->out[0] && situ__lacks_values(work->out[0]) ? work->out[0] : NULL;
}

/* Returns the first storage that the work would write, but whose memory is read-only; NULL if there is none. */
static situ_storage *find_read_only(const situ_work *work) {
  for (int i = 0; i < work->outs; i++)
    if (work->out[i] && situ__is_unwritable(work->out[i])) return work->out[i]->storage;
  for (int64_t i = 0; i < work->list_count; i++)
    if (situ__is_unwritable(work->list[i].param)) return work->list[i].param->storage;
  return NULL;
}

/* Whether the work writes all of a storage, and reads nothing of it. */
static bool is_overwritten(const situ_work *work, const situ_storage *s) {
  bool whole = false;
  for (int i = 0; i < work->ins; i++)
    if (work->in[i] && work->in[i]->storage == s) return false;
  for (int i = 0; i < work->outs; i++) {
    const situ_view_desc *v = work->out[i];
    whole |= v && v->storage == s && (size_t)v->numel << situ__dtypes[v->dtype].shift == s->bytes;
  }
  return whole && !work->list_count && !adds_to_output(work);
}

situ_status situ__check_operands(const char *op, situ_device device, const situ_work *work) {
  const situ_view_desc *elsewhere = find_operand(work, device, situ__is_elsewhere);
  if (elsewhere) return refuse_elsewhere(op, device, elsewhere);
  const situ_backend *backend = situ__backend(device);
  const situ_view_desc *sample;
  while ((sample = find_operand(work, device, is_sample)) != NULL) {
    if (is_overwritten(work, sample->storage)) situ__renew_arrival(sample->storage);
    const situ_status status = situ__settle(op, sample->storage);
    if (status != SITU_OK) return status;
  }
  situ_storage *read_only = find_read_only(work);
  if (read_only) return situ__refuse_read_only(op, read_only);
  const bool reads = backend && !backend->no_memory && !situ__writes_nothing(work);
  const situ_view_desc *unwritten = reads ? find_unwritten(work) : NULL;
  return unwritten ? situ__refuse_unwritten(op, unwritten) : SITU_OK;
}

static bool is_channels_last(const situ_view_desc *v) {
  static const int order[] = { 1, 3, 2, 0 };
  int64_t step = 1;
  for (int i = 0; i < 4 && v->ndim == 4; step *= v->size[order[i++]])
    if (v->size[order[i]] > 1 && v->stride[order[i]] != step) return false;
  return v->ndim == 4;
}

situ_status situ__check_rows(const char *op, const situ_work *work) {
  for (int i = 0; i < work->ins + work->outs; i++) {
    const situ_view_desc *v = i < work->ins ? work->in[i] : work->out[i - work->ins];
    if (v && !v->contiguous && !(work->verb == SITU_VERB_CONV && is_channels_last(v)))
      return situ__fail(SITU_E_UNSUPPORTED, op, "%s %d of %s is not contiguous, and its kernel follows no strides",
                        i < work->ins ? "operand" : "result", i < work->ins ? i : i - work->ins,
                        situ__verb_name(work->verb));
  }
  return SITU_OK;
}
