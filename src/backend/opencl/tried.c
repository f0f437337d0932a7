/* Tests a family of kernels before it is trusted: drivers have compilers of their own, and some compute wrong values
   without an error (PoCL 6: floor of bf16). Before the first work of a family (a verb, its op and its dtypes) on a
   device, a trial is compared with the host's results; a family that fails it is refused. Families that passed are
   stored on disk, by driver and kernel sources, so that later processes need not test them again.
   SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "backend/opencl/trial.h"
#include "base/hash.h"

/* ---- families ------------------------------------------------------------------------------- */

static uint64_t mix_view(uint64_t hash, const situ_view_desc *v, bool *dense) {
  const unsigned char dtype = v ? v->dtype : 0;
  *dense = *dense && (!v || v->contiguous);
  return situ__hash(hash, &dtype, 1);
}

/* Hash of everything that determines which kernels a piece of work uses, except sizes. */
static uint64_t family_of(const situ_work *w) {
  bool dense = true;
  uint64_t hash = SITU__HASH;
  for (int k = 0; k < w->ins; k++) hash = mix_view(hash, w->in[k], &dense);
  for (int k = 0; k < w->outs; k++) hash = mix_view(hash, w->out[k], &dense);
  for (int k = 0; w->list_count && k < 3; k++) hash = mix_view(hash, w->list->state[k], &dense);
  if (w->list_count) hash = mix_view(hash, w->list->param, &dense);
  const situ_view_desc *x = w->ins ? w->in[0] : NULL;
  const unsigned char rest[] = {
    (unsigned char)w->verb,           (unsigned char)w->op, (unsigned char)w->compute, (unsigned char)w->ins, dense,
    x && w->integer[0] == x->ndim - 1
  };
  hash = situ__hash(hash, rest, sizeof rest);
  return hash ? hash : 1;
}

/* ---- trusted families ----------------------------------------------------------------------- */

enum { SLOTS = 1 << 13, MOST = SLOTS / 4 * 3 };

/* The slot of a family, or the free slot for it. */
static uint64_t *slot_of(const situ__cl_device *d, uint64_t family) {
  size_t slot = (size_t)family & (SLOTS - 1);
  while (d->believed[slot] && d->believed[slot] != family) slot = (slot + 1) & (SLOTS - 1);
  return &d->believed[slot];
}

/* If the table is full, further families are tested each time, which is slow but correct. */
static void believe(situ__cl_device *d, uint64_t family) {
  uint64_t *slot = slot_of(d, family);
  if (*slot || d->believed_count >= MOST || !family) return;
  *slot = family;
  d->believed_count++;
}

/* Creates the table, with the results of earlier processes. Returns false when out of memory. */
static bool load_table(situ__cl_device *d) {
  enum { BYTES = SLOTS * sizeof(uint64_t) };
  if (d->believed) return true;
  uint64_t *list = situ__host->alloc(BYTES);
  d->believed = situ__host->alloc(BYTES);
  if (d->believed) memset(d->believed, 0, BYTES);
  const size_t count = d->believed && list ? situ__cl_disk_read_list(situ__cl_identity(d), list, MOST) : 0;
  for (size_t k = 0; k < count; k++) believe(d, list[k]);
  situ__host->free(list);
  return d->believed != NULL;
}

/* ---- trials --------------------------------------------------------------------------------- */

static situ_status upload_operand(int index, trial_operand *o, int seed) {
  if (!o->there) return SITU_OK;
  situ__cl_trial_fill(o, seed);
  o->on_host.storage = &o->host;
  o->on_device.storage = &o->device;
  o->host.data = o->bytes;
  situ_status status = situ__cl_alloc(index, o->device.bytes, &o->device.data);
  if (status != SITU_OK) return status;
  return situ__cl_copy_in(index, o->device.data, 0, o->bytes, o->device.bytes);
}

/* Runs the work on the host or on the device. */
static situ_status run_work(trial *t, int index, bool host, situ_status (*kernel)(int, const situ_work *)) {
  const situ_view_desc *state[TRIAL_STATES];
  situ_work *w = &t->work;
#define OF(o) ((o).there ? host ? &(o).on_host : &(o).on_device : NULL)
  for (int k = 0; k < w->ins; k++) w->in[k] = OF(t->in[k]);
  for (int k = 0; k < w->outs; k++) w->out[k] = OF(t->out[k]);
  for (int k = 0; k < TRIAL_STATES; k++) state[k] = OF(t->state[k]);
#undef OF
  t->item.param = state[0];
  t->item.grad = state[1];
  memcpy(t->item.state, state + 2, sizeof t->item.state);
  return host ? situ__host->reference(w) : kernel(index, w);
}

typedef struct finding {
  double tolerance;
  bool wrong;
  int64_t where;
  double is, should;
} finding;

/* Compares the device's result in an operand with the host's. Does not report faults of earlier work. */
static situ_status compare(int index, trial_operand *o, finding *found) {
  unsigned char got[TRIAL_BYTES];
  if (!o->there || found->wrong) return SITU_OK;
  situ_status status;
  situ__cl_device *d = situ__cl_enter(index, "trial", &status);
  if (!d) return status;
  cl_int error = clEnqueueReadBuffer(d->queue, o->device.data, CL_TRUE, 0, o->device.bytes, got, 0, NULL, NULL);
  if (error != CL_SUCCESS) status = situ__cl_fail(d, "trial", "clEnqueueReadBuffer", error, true);
  (void)situ__cl_leave(d, status);
  if (status == SITU_OK)
    found->wrong = !situ__cl_trial_same(o, got, found->tolerance, &found->where, &found->is, &found->should);
  return status;
}

/* Runs the work twice and compares. If the device refuses the work, its status is the caller's result, too. */
static situ_status attempt(trial *t, int index, situ_status (*kernel)(int, const situ_work *), finding *found) {
  situ_status status = SITU_OK;
  found->tolerance = situ__cl_trial_tolerance(t);
  for (int k = 0; k < SITU_WORK_MAX && status == SITU_OK; k++) status = upload_operand(index, &t->in[k], k);
  for (int k = 0; k < SITU_WORK_MAX && status == SITU_OK; k++) status = upload_operand(index, &t->out[k], k);
  for (int k = 0; k < TRIAL_STATES && status == SITU_OK; k++) status = upload_operand(index, &t->state[k], k);
  if (status == SITU_OK) status = run_work(t, index, false, kernel);
  if (status == SITU_OK) status = run_work(t, index, true, kernel);
  for (int k = 0; k < SITU_WORK_MAX && status == SITU_OK; k++) status = compare(index, &t->out[k], found);
  for (int k = 0; k < TRIAL_STATES && status == SITU_OK; k++) status = compare(index, &t->state[k], found);
  return status;
}

static void forget(int index, trial_operand *o, int count) {
  for (int k = 0; k < count; k++)
    if (o[k].device.data) situ__cl_free(index, o[k].device.data, o[k].device.bytes);
}

/* The op's own name where the verb has many: floor, not unary. */
static const char *name_of(const situ_work *w) {
#define NAME(name) #name,
  static const char *const unary[] = { SITU_UNARY_NAMES(NAME) };
  static const char *const binary[] = { SITU_BINARY_NAMES(NAME) };
#undef NAME
  const bool one = w->verb == SITU_VERB_UNARY || w->verb == SITU_VERB_UNARY_GRAD;
  if (one && w->op < SITU_UNARIES) return unary[w->op];
  if (w->verb == SITU_VERB_BINARY && w->op < SITU_BINARIES) return binary[w->op];
  return situ__host->verb_name(w->verb);
}

static situ_status refuse(int index, const situ_work *w, const finding *found) {
  situ_device_properties known;
  char dtype[16] = "";
  const situ_view_desc *y = w->list_count ? w->list->param : w->outs ? w->out[0] : NULL;
  const situ_dtype of = w->compute ? w->compute : y ? (situ_dtype)y->dtype : SITU_F32;
  (void)situ__cl_info(index, &known);
  (void)snprintf(dtype, sizeof dtype, "%s", situ__cl_dtype_name(of));
  return situ__host->fail(
      SITU_E_UNSUPPORTED, name_of(w),
      "opencl:%d computes %s%s of %s wrongly, so it is not used there: element %lld of a trial is %g, and %g is right "
      "(%s; driver %s). Compute it on cpu, or update the driver; with PoCL, set POCL_WORK_GROUP_METHOD=loops",
      index, w->verb == SITU_VERB_UNARY_GRAD ? "the gradient of " : "", name_of(w), dtype, (long long)found->where,
      found->is, found->should, known.name, known.driver);
}

/* On a device of the program a trial has a queue of its own, and the device to itself. */
static void exchange_queues(situ__cl_device *d) {
  cl_command_queue queue = d->queue;
  d->queue = d->aside;
  d->aside = queue;
}

/* Counts trials in progress. After a failed one its programs are removed from disk, as its message recommends to
   recompile them. */
static situ_status count_trial(int index, int change, bool failed) {
  situ_status status = SITU_OK;
  situ__cl_device *d = change > 0 ? situ__cl_enter(index, "trial", &status) : situ__cl_enter_to_free(index);
  if (!d) return status;
  d->trials += change;
  if (d->aside && d->trials == (change > 0)) {
    exchange_queues(d);
    if (change > 0) return SITU_OK; /* entered until the trial ends */
    (void)situ__cl_leave(d, SITU_OK);
  }
  for (int k = 0; failed && k < d->listed; k++) situ__cl_disk_remove(d->list[k]);
  if (!d->trials) d->listed = 0;
  return situ__cl_leave(d, SITU_OK);
}

static situ_status try_family(int index, const situ_work *work, situ_status (*kernel)(int, const situ_work *)) {
  trial *t = situ__host->alloc(sizeof *t);
  if (!t) return SITU_E_NOMEM;
  memset(t, 0, sizeof *t);
  finding found = { 0 };
  situ_status status = count_trial(index, 1, false);
  if (status == SITU_OK) {
    if (situ__cl_trial_shape(t, work)) status = attempt(t, index, kernel, &found);
    const situ_status ended = count_trial(index, -1, found.wrong);
    if (status == SITU_OK) status = ended;
  }
  forget(index, t->in, SITU_WORK_MAX);
  forget(index, t->out, SITU_WORK_MAX);
  forget(index, t->state, TRIAL_STATES);
  situ__host->free(t);
  return status == SITU_OK && found.wrong ? refuse(index, work, &found) : status;
}

situ_status situ__cl_believed(int index, const situ_work *work, situ_status (*kernel)(int, const situ_work *)) {
  const uint64_t family = family_of(work);
  situ_status status;
  situ__cl_device *d = situ__cl_enter(index, situ__host->verb_name(work->verb), &status);
  if (!d) return status;
  const bool known = load_table(d) && *slot_of(d, family) == family;
  if (!d->believed) status = SITU_E_NOMEM;
  (void)situ__cl_leave(d, status);
  if (!known && status == SITU_OK) {
    status = try_family(index, work, kernel);
    if (status != SITU_OK) return status;
    d = situ__cl_enter(index, situ__host->verb_name(work->verb), &status);
    if (!d) return status;
    if (*slot_of(d, family) != family) {
      believe(d, family);
      situ__cl_disk_append(situ__cl_identity(d), family);
    }
    (void)situ__cl_leave(d, status);
  }
  return status == SITU_OK ? kernel(index, work) : status;
}
