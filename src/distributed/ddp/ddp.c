/* DistributedDataParallel: hooks on a module that turn the gradients of a step into averages over all ranks.
   SPDX-License-Identifier: MIT */
#include <inttypes.h>

#include "base/alloc.h"
#include "ddp.h"
#include "situ/random.h"
#include "situ/sys/dry.h"
#include "situ/sys/shape.h"
#include "situ/sys/grad.h"
#include "situ/sys/layers.h"
#include "situ/sys/tensor.h"
#include "situ/sys/trainer.h"

static const char new_op[] = "dist_ddp_new";
static const char pass_op[] = "backward";

static bool is_ddp(const char *op, const situ_dist_ddp *d) { return situ__valid(op, "ddp", d, SITU__A_DDP); }

/* ---- buffers, from micro-batch to micro-batch ---- */

static situ__dist_item *first_buffer(const situ_dist_ddp *d) { return d->items + d->parameter_count; }
static situ__dist_item *end_of_items(const situ_dist_ddp *d) { return d->items + d->item_count; }

/* A save on another thread may read it. */
static bool write_buffer(const situ__dist_item *b, situ_tensor *value) {
  const uint64_t lock = situ__write_begin(situ__write_lock_of(situ_desc(b->tensor)->storage));
  const bool good = situ_copy_(b->tensor, value) != NULL;
  situ__write_end(lock);
  return good;
}

/* The copy goes along with a move of the buffer. */
static bool keep_buffer(situ_tensor **kept, situ_tensor *buffer) {
  situ_tensor *copy = situ_clone(situ_detach(buffer));
  return copy && situ_follow(copy, buffer) == SITU_OK && situ_set(kept, copy);
}

/* The first micro-batch of a step remembers the buffers, the others begin with what it remembered. */
static bool begin_buffers(situ_dist_ddp *d) {
  for (situ__dist_item *b = first_buffer(d); b < end_of_items(d); b++) {
    if (d->position == 0 ? !keep_buffer(&b->before, b->tensor)
                         : situ_version_of(b->tensor) != b->version && !write_buffer(b, b->before))
      return false;
    b->version = situ_version_of(b->tensor);
  }
  return true;
}

/* torch's forward of DistributedDataParallel: the first call of a micro-batch. */
static situ_status before_forward(situ_nn_module *m, situ_tree **inputs, situ_tree **output, void *payload) {
  situ_dist_ddp *d = payload;
  (void)inputs, (void)output;
  if (!m->training || d->begun) return SITU_OK;
  if (!situ__dist_keep_up("nn_forward", d, false)) return situ_error();
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  d->begun = begin_buffers(d);
  const situ_status status = situ_scope_end(&s);
  if (d->begun && d->options.seed)
    situ_manual_seed(d->options.seed + (uint64_t)(d->step * d->total + d->first + d->position));
  return d->begun ? SITU_OK : status;
}

static bool end_buffers(situ_dist_ddp *d) {
  for (situ__dist_item *b = first_buffer(d); b < end_of_items(d); b++) {
    if (situ_version_of(b->tensor) == b->version) continue;
    if (!d->begun)
      return situ__fail(SITU_E_STATE, pass_op,
                        "buffer %s changed outside of a call of the module that situ_dist_ddp_new got: call that one",
                        b->name),
             false;
    b->used = true;
    if (!b->in_bucket && d->position == 0 && !keep_buffer(&b->after, b->tensor)) return false;
  }
  return true;
}

/* ---- the end of a step ---- */

static void drop_gradients(const situ_dist_ddp *d) {
  for (int64_t i = 0; i < d->parameter_count; i++) SITU_IGNORE(situ_set_grad(d->items[i].tensor, NULL));
  if (d->zero) d->parts->drop(d->zero);
}

/* Behind a pass. */
static void forget_arrivals(situ_dist_ddp *d) {
  for (int64_t i = 0; i < d->parameter_count; i++) situ_drop(&d->items[i].arrived);
  for (int64_t i = 0; i < d->bucket_count; i++) d->buckets[i].arrived = 0;
}

static void end_step(situ_dist_ddp *d) {
  forget_arrivals(d);
  situ__dist_end_exchange(d);
  for (int64_t i = 0; i < d->bucket_count; i++) {
    situ__dist_drop_nodes(&d->buckets[i]);
    situ_drop(&d->buckets[i].share);
  }
  d->position = 0;
  d->begun = d->unsynced = false;
  for (situ__dist_item *item = d->items; item < end_of_items(d); item++) {
    situ_drop(&item->before);
    situ_drop(&item->after);
    situ_drop(&item->gradient);
    item->used = false;
    item->version = item->is_buffer ? situ_version_of(item->tensor) : 0;
  }
}

/* As before the step: this rank cannot finish it, or another one cannot. */
static void undo_step(situ_dist_ddp *d) {
  drop_gradients(d);
  for (situ__dist_item *b = first_buffer(d); b < end_of_items(d); b++)
    if (b->before && situ_version_of(b->tensor) != b->version) SITU_IGNORE(!write_buffer(b, b->before));
  end_step(d);
}

/* Makes what the items get, so that nothing can fail once the ranks have agreed. */
static bool prepare_items(situ_dist_ddp *d) {
  for (situ__dist_item *item = d->items; item < end_of_items(d); item++)
    if (item->bucket >= 0 && !situ__dist_in_parts(d, &d->buckets[item->bucket]) &&
        !situ_set(&item->gradient, situ__dist_mean(d, item)))
      return false;
  return !d->zero || (situ__dist_take_shares(d) && d->parts->prepare(d->zero));
}

static bool commit_items(situ_dist_ddp *d) {
  for (situ__dist_item *item = d->items; item < end_of_items(d); item++) {
    situ_tensor *value = item->in_bucket ? item->gradient : item->after;
    if (!item->used || !value) continue;
    if (item->is_buffer ? !write_buffer(item, value) : situ_set_grad(item->tensor, value) != SITU_OK) return false;
  }
  return !d->zero || d->parts->commit(d->zero);
}

static bool reduce_step(situ_dist_ddp *d) {
  SITU__ALONE(in, &d->comm->alone, pass_op, "this communicator");
  const bool good = in && situ__dist_reduce(pass_op, d) && prepare_items(d);
  if (in && !good) situ__dist_give_up(d);
  return good && situ__dist_agree(pass_op, d) && commit_items(d);
}

/* The check comes before the end, which forgets what undo_step needs. */
static bool finish_step(situ_dist_ddp *d) {
  const int64_t every = d->options.check_every;
  if (!reduce_step(d) || (every && (d->step + 1) % every == 0 && !situ__dist_compare_values(pass_op, d))) return false;
  end_step(d);
  d->step++;
  return true;
}

/* ---- the end of a backward pass ---- */

static bool take_micro_batch(situ_dist_ddp *d) {
  if (!end_buffers(d) || (!d->begun && !situ__dist_is_known(pass_op, d))) return false;
  for (int64_t i = 0; i < d->parameter_count; i++)
    d->items[i].used |= d->items[i].arrived || situ_grad(d->items[i].tensor);
  for (int64_t i = situ__dist_begun(d); i < d->bucket_count; i++)
    if (!situ__dist_add_leaf(pass_op, d, &d->buckets[i])) return false;
  forget_arrivals(d);
  drop_gradients(d);
  d->position++;
  d->begun = d->unsynced = false;
  return true;
}

static situ_status after_pass(void *payload) {
  situ_dist_ddp *d = payload;
  d->queued = false;
  if (d->overlaps) d->overlaps = d->comm->held = false;
  const bool good = situ__error_count() == d->errors;
  if (!good && !d->exchange) return forget_arrivals(d), SITU_OK; /* the others know nothing of this pass */
  const bool taken = good && take_micro_batch(d);
  if (taken && (d->position < d->count || finish_step(d))) return SITU_OK;
  if (!taken) situ__dist_give_up(d);
  undo_step(d);
  return situ_error();
}

/* At the first gradient of a pass. */
static bool begin_pass(situ_dist_ddp *d) {
  if (situ_autograd_queue_callback(after_pass, d) != SITU_OK) return false;
  d->queued = true;
  d->errors = situ__error_count();
  d->overlaps = d->comm->size > 1 && d->position + 1 == d->count && !d->unsynced && !d->comm->held;
  d->comm->held |= d->overlaps;
  return true;
}

static situ_tensor *on_gradient(situ_tensor *grad, void *payload) {
  situ__dist_item *item = payload;
  if (situ__dist_stands_by(item->ddp->comm)) return grad;
  item->prior_in_parts = situ_grad_is_in_parts(item->tensor);
  item->prior = item->prior_in_parts || situ_grad(item->tensor);
  return grad;
}

static situ_status on_ready(situ_tensor *leaf, situ_tensor *grad, void *payload) {
  situ__dist_item *item = payload;
  situ_dist_ddp *d = item->ddp;
  (void)leaf;
  if (situ__dist_stands_by(d->comm)) return SITU_OK;
  if (d->no_sync && !item->prior_in_parts) {
    d->unsynced = true;
    return SITU_OK;
  }
  if (item->prior && (!d->unsynced || item->prior_in_parts))
    return situ__fail(SITU_E_STATE, pass_op,
                      "%s had a gradient already when micro-batch %" PRId64
                      " began; call situ_optim_zero_grad(optim, true) behind each step",
                      item->name, d->first + d->position);
  if (!d->queued && !begin_pass(d)) return situ_error();
  if (!d->overlaps || item->bucket < 0) return SITU_OK;
  item->arrived = situ_retain(grad);
  SITU_IGNORE(situ_take_ready_grad());
  d->buckets[item->bucket].arrived++;
  SITU__ALONE(in, &d->comm->alone, pass_op, "this communicator");
  return in && situ__dist_advance(pass_op, d) ? SITU_OK : situ_error();
}

/* ---- making and freeing ---- */

situ_status situ__dist_hook(const situ_comm *c, situ_nn_module *m, bool before, situ_nn_hook hook, void *payload,
                            int64_t *handle) {
  if (!c->rehearses) return situ_nn_register_wrapper_hook(m, before, hook, payload, handle);
  return before ? situ_nn_register_forward_pre_hook(m, hook, payload, handle)
                : situ_nn_register_forward_hook(m, hook, payload, handle);
}

static void free_ddp(situ_dist_ddp *d) {
  SITU_IGNORE(situ_set_trainer(d->module, NULL, d));
  situ_nn_remove_hook(d->module, d->pre_hook);
  if (d->zero) d->parts->forget(d->zero);
  if (d->items) end_step(d);
  situ__dist_free_items(d);
  situ__handle_free(d, sizeof *d, NULL);
}

bool situ__dist_watch(const situ_dist_ddp *d) {
  for (int64_t i = 0; i < d->parameter_count; i++) {
    situ__dist_item *item = &d->items[i];
    if (item->in_bucket && (situ_register_hook(item->tensor, on_gradient, item) != SITU_OK ||
                            situ_register_grad_ready_hook(item->tensor, on_ready, item) != SITU_OK))
      return false;
  }
  return true;
}

static bool add_hooks(situ_dist_ddp *d) {
  return situ__dist_hook(d->comm, d->module, true, before_forward, d, &d->pre_hook) == SITU_OK && situ__dist_watch(d);
}

static bool set_options(situ_dist_ddp *d, const situ_dist_ddp_options *options) {
  if (options) d->options = *options;
  const int size = d->comm->size, rank = d->comm->rank;
  if (!d->options.micro_batches) d->options.micro_batches = size;
  d->total = d->options.micro_batches;
  if (d->total < size || d->total > INT32_MAX || d->options.bucket_bytes < 0 || d->options.check_every < 0)
    return situ__fail(SITU_E_ARG, new_op,
                      "micro_batches %" PRId64 ", bucket_bytes %" PRId64 ", check_every %" PRId64
                      ": each of %d ranks needs a micro-batch, of at most %d, and sizes are not negative",
                      d->total, d->options.bucket_bytes, d->options.check_every, size, INT32_MAX),
           false;
  if (d->options.compress && d->options.compress != SITU_BF16)
    return situ__fail(SITU_E_ARG, new_op, "compress is %s: must be SITU_BF16, or 0 for none",
                      situ_dtype_name(d->options.compress)),
           false;
  d->first = situ__dist_first(d->total, rank, size);
  d->count = situ__dist_first(d->total, rank + 1, size) - d->first;
  return true;
}

/* Options that shape the sums must be the same: a header with them in its place would only say that sizes differ. */
static bool same_options(situ_dist_ddp *d) {
  const situ_dist_ddp_options *o = &d->options;
  enum { COUNT = 7 };
  const int64_t mine[COUNT] = { o->micro_batches, o->fast,          o->bucket_bytes, o->check_every,
                                o->no_broadcast,  (int64_t)o->seed, o->compress };
  static const char *const name[COUNT] = { "micro_batches", "fast", "bucket_bytes", "check_every",
                                           "no_broadcast",  "seed", "compress" };
  int64_t theirs[COUNT];
  memcpy(theirs, mine, sizeof mine);
  const situ_comm_call call = { SITU_COMM_BROADCAST, .dtype = SITU_I64, .count = COUNT,
                                .send = mine,        .receive = theirs, .name = "options" };
  bool good = situ__comm_call(new_op, d->comm, &call) == SITU_OK;
  for (int i = 0; good && i < COUNT; i++)
    if (mine[i] != theirs[i]) {
      situ__fail(SITU_E_COMM, new_op, "options.%s is %" PRId64 " on rank %d, %" PRId64 " on rank 0", name[i], mine[i],
                 d->comm->rank, theirs[i]);
      situ_comm_abort(d->comm, situ_error_message());
      good = false;
    }
  return good;
}

/* The ranks have the same, and the same values. */
static bool equalise(situ_dist_ddp *d) {
  SITU__ALONE(in, &d->comm->alone, new_op, "this communicator");
  if (!in || !same_options(d) || !situ__dist_compare_layout(new_op, d)) return false;
  return d->options.no_broadcast ? situ__dist_compare_values(new_op, d) : situ__dist_broadcast(new_op, d);
}

static bool start_ddp(situ_dist_ddp *d, const situ_dist_ddp_options *options) {
  if (!set_options(d, options) || !situ__dist_list_items(new_op, d) || !situ__dist_fill_buckets(new_op, d) ||
      (!d->comm->rehearses && !equalise(d)))
    return false;
  end_step(d); /* the versions of the buffers are those after the broadcast */
  return add_hooks(d);
}

static situ_dist_ddp *make_ddp(situ_nn_module *module, situ_comm *comm, const situ_dist_ddp_options *options) {
  situ_dist_ddp *d = situ__handle_new(SITU__A_DDP, sizeof *d);
  if (!d) return situ__no_memory(new_op, sizeof *d), NULL;
  d->module = module;
  d->comm = comm;
  d->pre_hook = -1;
  if (start_ddp(d, options)) return d;
  free_ddp(d);
  return NULL;
}

static void free_twin(void *twin) {
  situ_dist_ddp *d = twin;
  situ_comm *comm = d->comm;
  free_ddp(d);
  situ_comm_free(comm);
}

/* It draws nothing, and compares no values. */
static void *make_twin(void *self, const situ_twin_module *module) {
  const situ_dist_ddp *d = self;
  situ_dist_ddp_options options = d->options;
  options.seed = 0;
  options.check_every = 0;
  situ_comm *comm = situ__comm_rehearsal(new_op, d->comm);
  situ_dist_ddp *twin = comm ? make_ddp(module->copy, comm, &options) : NULL;
  if (!twin) situ_comm_free(comm);
  return twin;
}

static int64_t passes(const void *twin) { return ((const situ_dist_ddp *)twin)->count; }

static const situ_trainer trainer = { make_twin, free_twin, passes, NULL, NULL };

situ_dist_ddp *situ_dist_ddp_new(situ_nn_module *module, situ_comm *comm, const situ_dist_ddp_options *options) {
  SITU__MADE_OF_OPS(new_op);
  if (!situ__valid(new_op, "module", module, SITU__A_MODULE) || !situ__comm_given(new_op, comm)) return NULL;
  situ_dist_ddp *d = situ__comm_replicates(new_op, comm) ? make_ddp(module, comm, options) : NULL;
  if (!d || situ_set_trainer(module, &trainer, d) == SITU_OK) return d;
  free_ddp(d);
  return NULL;
}

bool situ__dist_equalise(situ_nn_module *module, situ_comm *comm) {
  situ_dist_ddp *d = make_ddp(module, comm, NULL);
  if (d) free_ddp(d);
  return d != NULL;
}

int64_t situ_dist_ddp_micro_batches(const situ_dist_ddp *ddp) {
  return is_ddp("dist_ddp_micro_batches", ddp) ? ddp->count : -1;
}
int64_t situ_dist_ddp_micro_batch(const situ_dist_ddp *ddp) {
  return is_ddp("dist_ddp_micro_batch", ddp) ? ddp->first + ddp->position : -1;
}
int64_t situ_dist_ddp_step(const situ_dist_ddp *ddp) { return is_ddp("dist_ddp_step", ddp) ? ddp->step : -1; }

situ_status situ_dist_ddp_no_sync(situ_dist_ddp *ddp, bool on) {
  static const char op[] = "dist_ddp_no_sync";
  if (!is_ddp(op, ddp)) return situ_error();
  if (on && ddp->position)
    return situ__fail(SITU_E_STATE, op, "%" PRId64 " of %" PRId64 " micro-batches of the step have ended",
                      ddp->position, ddp->count);
  ddp->no_sync = on;
  return SITU_OK;
}

situ_status situ_dist_ddp_check(situ_dist_ddp *ddp) {
  static const char op[] = "dist_ddp_check";
  if (!is_ddp(op, ddp)) return situ_error();
  SITU__ALONE(in, &ddp->comm->alone, op, "this communicator");
  situ_dist_ddp now = { .module = ddp->module, .comm = ddp->comm, .step = ddp->step }; /* it may have changed since */
  const bool same = in && situ__dist_list_items(op, &now) && situ__dist_compare_layout(op, &now) &&
                    situ__dist_compare_values(op, &now);
  situ__dist_free_items(&now);
  return same ? SITU_OK : situ_error();
}

void situ_dist_ddp_free(situ_dist_ddp *ddp) {
  if (!ddp || !is_ddp("dist_ddp_free", ddp)) return;
  /* A program that an error ends in the middle of a step: the others would wait for it. */
  if (ddp->comm->size > 1 && (ddp->begun || ddp->position) && situ_error() != SITU_OK) situ__dist_give_up(ddp);
  free_ddp(ddp);
}
