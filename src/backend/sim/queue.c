/* Queue of a simulated device: work is copied completely, with the addresses at the time of the launch, and runs in
   order at the next wait.
   SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "backend/sim/sim.h"
#include "base/alloc.h"
#include "base/fail.h"
#include "base/size.h"

enum {
  LONGEST = 1024,      /* commands; a full queue makes the next launch run it */
  MOST_BYTES = 1 << 20 /* of host values waiting to be copied in: memory for more would be new pages each time */
};

struct situ__sim_command {
  situ__sim_command *next;
  bool doomed;    /* fails when it runs */
  situ__doing by; /* the op to report then */
  char *copy_to;  /* a copy: its bytes follow the command; NULL: work, or a fetch */
  char *fetch_from;
  situ__sim_fetch *fetch;
  size_t bytes; /* of a copy in, which wait in the queue */
  size_t fetched;
  situ_work work; /* points into this allocation */
};

/* ---- checks of operands -------------------------------------------------------------------- */

/* True if every element is inside the storage. */
static bool inside(const situ_view_desc *v) {
  int64_t low = v->offset, high = v->offset, size = (int64_t)situ__dtype_size((situ_dtype)v->dtype), end;
  if (v->numel == 0) return true;
  for (int d = 0; d < v->ndim; d++) {
    int64_t reach;
    if (!situ__mul_i64(v->size[d] - 1, v->stride[d], &reach)) return false;
    if (!situ__add_i64(reach > 0 ? high : low, reach, reach > 0 ? &high : &low)) return false;
  }
  return low >= 0 && situ__add_i64(high, 1, &end) && situ__mul_i64(end, size, &end) &&
         (uint64_t)end <= v->storage->bytes;
}

/* Finds errors that a real device would not report: an operand on another device, or past the end of its storage. */
static situ_status check_place(const situ__sim *sim, const situ_work *work, const situ_view_desc *v) {
  const situ_storage *s = v->storage;
  char name[SITU_DEVICE_NAME_MAX];
  if (s->device.kind != SITU_SIM || s->device.index != sim->index ||
      (s->data && !situ__sim_owns(&sim->arena, s->data, s->bytes) && !situ__sim_lent(sim, s->data, s->bytes)))
    return situ__fail(SITU_E_DEVICE, situ__verb_name(work->verb), "an operand on %s reached sim:%d",
                      situ_device_name(s->device, name), sim->index);
  if (!inside(v))
    return situ__fail(SITU_E_INDEX, situ__verb_name(work->verb), "an operand reaches past its storage of %zu bytes",
                      s->bytes);
  return SITU_OK;
}

static bool lacks(const situ__sim *sim, unsigned dtype) { return sim->missing >> dtype & 1; }

/* Calls visit for each operand, including those of an optimiser's list, until it fails. */
static situ_status each_operand(const situ__sim *sim, const situ_work *work,
                                situ_status (*visit)(const situ__sim *, const situ_work *, const situ_view_desc *)) {
  situ_status status = SITU_OK;
  for (int i = 0; i < work->ins && status == SITU_OK; i++)
    if (work->in[i]) status = visit(sim, work, work->in[i]);
  for (int i = 0; i < work->outs && status == SITU_OK; i++)
    if (work->out[i]) status = visit(sim, work, work->out[i]);
  for (int64_t i = 0; i < work->list_count && status == SITU_OK; i++) {
    const situ_optimizer_item *item = &work->list[i];
    const situ_view_desc *const v[] = { item->param, item->grad, item->state[0], item->state[1], item->state[2] };
    for (int k = 0; k < 5 && status == SITU_OK; k++)
      if (v[k]) status = visit(sim, work, v[k]);
  }
  return status;
}

situ_status situ__sim_check(const situ__sim *sim, const situ_work *work) {
  return each_operand(sim, work, check_place);
}

static situ_status check_dtype(const situ__sim *sim, const situ_work *work, const situ_view_desc *v) {
  (void)work;
  return lacks(sim, v->dtype) ? SITU_E_UNSUPPORTED : SITU_OK;
}

/* ---- copying work -------------------------------------------------------------------------- */

static size_t rounded(size_t bytes) { return (bytes + 15) & ~(size_t)15; }

/* Reserves bytes at the end of the allocation and copies `from` there. */
static void *append_copy(char **at, const void *from, size_t bytes) {
  void *to = memcpy(*at, from, bytes);
  *at += rounded(bytes);
  return to;
}

/* A copy of a view and its storage, at the device's address. When the work runs, the tensor may have been freed or
   moved, but not its memory: freeing waits for the queue. */
static const situ_view_desc *copy_view(char **at, const situ__sim *sim, const situ_view_desc *v) {
  if (!v) return NULL;
  situ_storage *storage = (situ_storage *)*at;
  *at += rounded(sizeof *storage);
  /* Not the whole struct, as other threads change its reference count meanwhile. */
  *storage = (situ_storage){ .data = situ__sim_alias(&sim->arena, v->storage->data),
                             .bytes = v->storage->bytes,
                             .device = v->storage->device,
                             .refs = 1 };
  situ_view_desc *view = append_copy(at, v, sizeof *view);
  view->storage = storage;
  return view;
}

static size_t copied_size(const situ_work *work) {
  size_t view = rounded(sizeof(situ_view_desc)) + rounded(sizeof(situ_storage));
  return rounded(sizeof(situ__sim_command)) + (size_t)(work->ins + work->outs) * view +
         rounded((size_t)work->list_count * sizeof *work->list) + (size_t)work->list_count * 5 * view +
         rounded(sizeof *work->window) + rounded(sizeof *work->params);
}

/* Kernels detect in-place work by the storage, so operands that shared a storage must still share one. */
static void share_storages(const situ_work *from, situ_work *to) {
  const situ_view_desc *old[2 * SITU_WORK_MAX], *new[2 * SITU_WORK_MAX];
  int count = 0;
  for (int i = 0; i < from->ins + from->outs; i++) {
    bool in = i < from->ins;
    old[count] = in ? from->in[i] : from->out[i - from->ins];
    new[count] = in ? to->in[i] : to->out[i - from->ins];
    if (!old[count]) continue;
    for (int k = 0; k < count; k++)
      if (old[k]->storage == old[count]->storage) ((situ_view_desc *)(uintptr_t) new[count])->storage = new[k]->storage;
    count++;
  }
}

static situ__sim_command *copy_work(const situ__sim *sim, const situ_work *work) {
  situ__sim_command *command = situ__alloc(copied_size(work));
  if (!command) return NULL;
  *command = (situ__sim_command){ .work = *work };
  situ_work *w = &command->work;
  char *at = (char *)command + rounded(sizeof *command);
  for (int i = 0; i < work->ins; i++) w->in[i] = copy_view(&at, sim, work->in[i]);
  for (int i = 0; i < work->outs; i++) w->out[i] = copy_view(&at, sim, work->out[i]);
  share_storages(work, w);
  if (work->window) w->window = append_copy(&at, work->window, sizeof *work->window);
  if (work->params) w->params = append_copy(&at, work->params, sizeof *work->params);
  if (work->list_count) {
    situ_optimizer_item *list = append_copy(&at, work->list, (size_t)work->list_count * sizeof *list);
    for (int64_t i = 0; i < work->list_count; i++) {
      list[i].param = copy_view(&at, sim, list[i].param);
      list[i].grad = copy_view(&at, sim, list[i].grad);
      for (int k = 0; k < 3; k++) list[i].state[k] = copy_view(&at, sim, list[i].state[k]);
    }
    w->list = list;
  }
  return command;
}

/* ---- the queue ----------------------------------------------------------------------------- */

static void append(situ__sim *sim, situ__sim_command *command) {
  if (!sim->first) sim->last = &sim->first;
  *sim->last = command;
  sim->last = &command->next;
  sim->queued_bytes += command->bytes;
  if (++sim->stats.queued > sim->stats.longest) sim->stats.longest = sim->stats.queued;
  if (sim->stats.queued >= LONGEST || sim->queued_bytes >= MOST_BYTES) situ__sim_run(sim);
}

situ_status situ__sim_queue_work(situ__sim *sim, const situ_work *work, bool doomed) {
  if (lacks(sim, work->compute)) return SITU_E_UNSUPPORTED;
  situ_status status = each_operand(sim, work, check_dtype);
  if (status != SITU_OK) return status;
  situ__sim_command *command = copy_work(sim, work);
  if (!command) return SITU_E_NOMEM;
  command->doomed = doomed;
  command->by = situ__now;
  append(sim, command);
  sim->stats.launches++;
  return SITU_OK;
}

void situ__sim_copy(void *to, const void *from, size_t bytes, bool flipped) {
  memmove(to, from, bytes);
  if (flipped) ((unsigned char *)to)[bytes / 2] ^= 16;
}

situ_status situ__sim_queue_copy(situ__sim *sim, void *handle, size_t at, const void *host, size_t bytes,
                                 bool flipped) {
  situ__sim_command *command = situ__alloc(rounded(sizeof *command) + bytes);
  if (!command) return SITU_E_NOMEM;
  *command = (situ__sim_command){ .copy_to = situ__sim_alias(&sim->arena, handle) + at, .bytes = bytes };
  situ__sim_copy((char *)command + rounded(sizeof *command), host, bytes, flipped);
  append(sim, command);
  return SITU_OK;
}

situ_status situ__sim_queue_fetch(situ__sim *sim, const void *handle, size_t at, size_t bytes, situ__sim_fetch *fetch) {
  situ__sim_command *command = situ__alloc(sizeof *command);
  if (!command) return SITU_E_NOMEM;
  *command = (situ__sim_command){ .fetch = fetch, .fetched = bytes };
  if (handle) command->fetch_from = situ__sim_alias(&sim->arena, handle) + at;
  append(sim, command);
  return SITU_OK;
}

static void run_fetch(const situ__sim *sim, const situ__sim_command *command) {
  situ__sim_fetch *f = command->fetch;
  if (!sim->lost && command->fetched) memcpy(f->host, command->fetch_from, command->fetched);
  const bool is_event = !command->fetch_from; /* which stands for the work before it */
  f->lost = sim->lost || (is_event && sim->late != SITU_OK);
  f->done = true;
}

/* Runs one piece of work with the host's kernel. The thread's own error is saved, as any thread may run the queue. */
static void run_work(situ__sim *sim, const situ__sim_command *command) {
  situ_verb verb = command->work.verb;
  const situ_backend *cpu = situ__backend((situ_device){ SITU_CPU, 0 });
  char text[sizeof sim->late_text] = "out of resources";
  situ_status status = SITU_E_NOMEM;
  if (!command->doomed) {
    situ__errors own;
    situ__errors_aside(&own);
    status = cpu->kernel[verb](0, &command->work);
    const situ_status told = situ__errors_back(&own, text, sizeof text);
    if (told == SITU_OK && status != SITU_OK) (void)snprintf(text, sizeof text, "%s", situ_status_name(status));
  }
  if (status == SITU_OK || sim->late != SITU_OK) return;
  sim->late = status;
  const situ__doing now = situ__now;
  situ__now = command->by;
  situ__error_name(situ__verb_name(verb), sim->late_op);
  situ__now = now;
  memcpy(sim->late_text, text, sizeof text);
}

void situ__sim_run(situ__sim *sim) {
  SITU__DEFAULT_FPU;
  while (sim->first) {
    situ__sim_command *command = sim->first;
    sim->first = command->next;
    if (command->fetch) run_fetch(sim, command);
    else if (!sim->lost && command->copy_to)
      memcpy(command->copy_to, (char *)command + rounded(sizeof *command), command->bytes);
    else if (!sim->lost) run_work(sim, command);
    situ__free(command);
  }
  sim->queued_bytes = 0;
  sim->stats.queued = 0;
}
