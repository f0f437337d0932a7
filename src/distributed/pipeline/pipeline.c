/* Pipeline parallel training: each rank has a stage of the model, and micro-batches go through all of them, one forward
   and one backward in turn (Narayanan et al., arXiv:2006.09503; torch's Schedule1F1B).
   SPDX-License-Identifier: MIT */
#include "pipeline.h"

#include <inttypes.h>

#include "base/alloc.h"
#include "distributed/ddp/ddp.h"
#include "situ/sys/trainer.h"

static const char op[] = "dist_pipeline_step";
static const char new_op[] = "dist_pipeline_new";

static bool is_pipeline(const char *name, const situ_dist_pipeline *p) {
  return situ__valid(name, "pipeline", p, SITU__A_PIPELINE);
}

/* ---- one micro-batch ---- */

static situ_tensor *chunk(const situ_dist_pipeline *p, situ_tensor *all, int64_t k) {
  const int64_t rows = situ_size(all, 0) / p->count;
  return situ_narrow(all, 0, k * rows, rows);
}

/* What this stage begins with: of the first, a part of the input; of others a leaf, which gets a gradient. */
static situ_tensor *stage_input(situ_dist_pipeline *p, int64_t k) {
  if (situ__pipe_is_first(p)) return chunk(p, p->inputs, k);
  situ_tensor *x = situ__pipe_take_activation(p, k);
  return p->trains ? situ_requires_grad_(x, true) : x;
}

/* Adds the loss of a micro-batch, which is what its backward begins with. */
static situ_tensor *find_loss(situ_dist_pipeline *p, situ_tensor *y, int64_t k) {
  double value;
  situ_tensor *target = p->targets ? chunk(p, p->targets, k) : NULL;
  if (!y || (p->targets && !target)) return NULL;
  situ_tensor *loss = p->options.loss(y, target, p->options.payload);
  if (!loss && situ_error() == SITU_OK) situ__fail(SITU_E_ARG, op, "the loss function returned NULL");
  if (p->comm->rehearses) return loss;
  if (!loss || situ_item(loss, &value) != SITU_OK) return NULL;
  p->loss += value;
  return loss;
}

static bool run_forward(situ_dist_pipeline *p, int64_t k) {
  situ__pipe_batch *b = &p->batches[k];
  situ_scope s;
  if (p->trains) situ_scope_begin(&s);
  else situ_scope_begin_no_grad(&s);
  situ_tensor *x = stage_input(p, k), *y = situ_nn_forward(p->module, x);
  const bool last = situ__pipe_is_last(p);
  bool good = y && (last || situ__pipe_send_activation(p, k, situ_detach(y)));
  if (good && last && p->trains) good = (y = find_loss(p, y, k)) != NULL;
  if (good && (p->trains || last)) {
    b->input = situ_retain(x);
    b->output = situ_retain(y);
  }
  return situ_scope_end(&s) == SITU_OK && good;
}

static bool run_backward(situ_dist_pipeline *p, int64_t k) {
  situ__pipe_batch *b = &p->batches[k];
  situ_scope s;
  situ_scope_begin(&s);
  const situ_options like = { .dtype = situ_dtype_of(b->output), .device = situ_device_of(b->output) };
  const double scale = p->options.no_scale_grads ? 1 : 1 / (double)p->count;
  situ_tensor *grad =
      situ__pipe_is_last(p) ? situ_full(situ_shape_of(b->output), scale, &like) : situ__pipe_take_gradient(p, k);
  bool good = grad != NULL;
  if (good && situ_requires_grad(b->output)) /* not of a first stage that is frozen */
    good = situ_backward(b->output, &(situ_backward_options){ .gradient = grad }) == SITU_OK;
  if (good && !situ__pipe_is_first(p)) {
    situ_tensor *down = situ_grad(b->input);
    good = situ__pipe_send_gradient(p, k, down ? situ_detach(down) : situ_zeros_like(situ_detach(b->input), NULL));
  }
  situ_drop(&b->input);
  situ_drop(&b->output);
  return situ_scope_end(&s) == SITU_OK && good;
}

/* ---- a step ---- */

/* As many forwards as it takes until the first gradient can come back, then a backward and a forward in turn. */
static bool run_schedule(situ_dist_pipeline *p) {
  const int64_t warmup = p->trains ? situ__pipe_warmup(p, p->comm->rank) : p->count;
  int64_t next = 0;
  while (next < warmup)
    if (!run_forward(p, next++)) return false;
  for (int64_t k = 0; p->trains && k < p->count; k++)
    if (!run_backward(p, k) || (next < p->count && !run_forward(p, next++))) return false;
  return situ__pipe_finish_sends(p);
}

/* The last rank's loss, which also says that all ranks have come this far. */
static bool share_loss(situ_dist_pipeline *p) {
  double loss = p->loss / (double)p->count, all = loss;
  const situ_comm_call call = {
    SITU_COMM_BROADCAST,       .dtype = SITU_F64,         .count = 1,     .send = &loss, .receive = &all,
    .peer = p->comm->size - 1, .name = "end of the step", .step = p->step
  };
  if (situ__comm_call(op, p->comm, &call) != SITU_OK) return false;
  p->loss = all;
  return true;
}

static situ_tensor *copy_buffer(situ_tensor *t, void *payload) {
  (void)payload;
  return situ_clone(situ_detach(t));
}

static bool begin_step(situ_dist_pipeline *p, bool trains, situ_tensor *inputs, situ_tensor *targets) {
  const size_t bytes = (size_t)p->count * sizeof *p->batches;
  p->trains = trains;
  p->inputs = inputs;
  p->targets = targets;
  p->loss = 0;
  p->expected = 0;
  if (!(p->batches = situ__calloc(1, bytes))) return situ__no_memory(op, bytes), false;
  p->buffers = trains ? situ_nn_buffers(p->module) : situ_tree_dict();
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  p->was = p->buffers ? situ_tree_map(p->buffers, copy_buffer, NULL) : NULL;
  return situ_scope_end(&s) == SITU_OK && p->was;
}

/* As before the step: this rank cannot finish it, or another one cannot. */
static void undo_step(situ_dist_pipeline *p) {
  if (p->trains) situ_nn_zero_grad(p->module);
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  for (int64_t i = 0; p->was && i < situ_tree_count(p->buffers); i++)
    SITU_IGNORE(!situ_copy_(situ_tree_tensor_at(p->buffers, i), situ_tree_tensor_at(p->was, i)));
  SITU_IGNORE(situ_scope_end(&s));
}

static void end_step(situ_dist_pipeline *p) {
  situ__pipe_close_all(p);
  for (int64_t k = 0; p->batches && k < p->count; k++) {
    situ_drop(&p->batches[k].input);
    situ_drop(&p->batches[k].output);
  }
  situ__free(p->batches);
  p->batches = NULL;
  situ_tree_free(p->buffers);
  situ_tree_free(p->was);
  p->buffers = p->was = NULL;
}

static bool divides(const situ_dist_pipeline *p, const char *what, const situ_tensor *t) {
  if (situ_dim(t) > 0 && situ_size(t, 0) % p->count == 0) return true;
  return situ__fail(SITU_E_SHAPE, op, "%s has %" PRId64 " rows, which %" PRId64 " micro-batches do not divide", what,
                    situ_dim(t) > 0 ? situ_size(t, 0) : 1, p->count),
         false;
}

static bool check_inputs(const situ_dist_pipeline *p, bool trains, const situ_tensor *inputs,
                         const situ_tensor *targets) {
  if (p->comm->held)
    return situ__fail(SITU_E_STATE, op, "a backward exchanges gradients over this communicator"), false;
  if (situ__pipe_is_first(p) && (!situ__valid(op, "input", inputs, SITU__A_TENSOR) || !divides(p, "input", inputs)))
    return false;
  return !trains || !situ__pipe_is_last(p) ||
         (situ__optional(op, "target", targets, SITU__A_TENSOR) && (!targets || divides(p, "target", targets)));
}

/* Runs a step; on an error all ranks are as before it, unless they have finished it. */
static bool run_step(situ_dist_pipeline *p, bool trains, situ_tensor *inputs, situ_tensor *targets) {
  const bool good = check_inputs(p, trains, inputs, targets) && begin_step(p, trains, inputs, targets) &&
                    run_schedule(p) && share_loss(p);
  if (!good) {
    situ__comm_fail(p->comm, SITU_E_COMM, p->comm->rank, "rank %d gave up at step %" PRId64 ": %.200s", p->comm->rank,
                    p->step, situ_error_message());
    undo_step(p);
  }
  return good;
}

situ_status situ_dist_pipeline_step(situ_dist_pipeline *pipeline, situ_tensor *input, situ_tensor *target,
                                    double *loss) {
  if (loss) *loss = 0;
  if (!is_pipeline(op, pipeline)) return situ_error();
  const bool good = run_step(pipeline, true, input, target);
  end_step(pipeline);
  if (!good) return situ_error();
  if (loss) *loss = pipeline->loss;
  pipeline->step++;
  return SITU_OK;
}

/* The results of all micro-batches. */
static situ_tensor *join_outputs(const situ_dist_pipeline *p) {
  situ_tensor **list = situ__alloc((size_t)p->count * sizeof *list);
  if (!list) return situ__no_memory("dist_pipeline_forward", (size_t)p->count * sizeof *list), NULL;
  for (int64_t k = 0; k < p->count; k++) list[k] = p->batches[k].output;
  situ_tensor *all = situ_cat(list, (int)p->count, 0);
  situ__free(list);
  return all;
}

situ_status situ_dist_pipeline_forward(situ_dist_pipeline *pipeline, situ_tensor *input, situ_tensor **output) {
  static const char name[] = "dist_pipeline_forward";
  if (!is_pipeline(name, pipeline) || !situ__given(name, "output", output)) return situ_error();
  *output = NULL;
  bool good = run_step(pipeline, false, input, NULL);
  if (good && situ__pipe_is_last(pipeline)) good = (*output = join_outputs(pipeline)) != NULL;
  end_step(pipeline);
  return good ? SITU_OK : situ_error();
}

/* ---- making and freeing ---- */

static bool same_options(const situ_dist_pipeline *p) {
  int64_t mine[2] = { p->count, p->options.no_scale_grads }, theirs[2] = { mine[0], mine[1] };
  const situ_comm_call call = { SITU_COMM_BROADCAST, .dtype = SITU_I64, .count = 2,
                                .send = mine,        .receive = theirs, .name = "options" };
  if (situ__comm_call(new_op, p->comm, &call) != SITU_OK) return false;
  if (mine[0] == theirs[0] && mine[1] == theirs[1]) return true;
  return situ__fail(SITU_E_COMM, new_op,
                    "options.micro_batches is %" PRId64 " and no_scale_grads %" PRId64 " on rank %d, %" PRId64
                    " and %" PRId64 " on rank 0",
                    mine[0], mine[1], p->comm->rank, theirs[0], theirs[1]),
         false;
}

static bool start(const situ_dist_pipeline *p) {
  if (p->count < 1 || p->count > INT32_MAX)
    return situ__fail(SITU_E_ARG, new_op, "micro_batches is %" PRId64 ", must be 1 to %d", p->count, INT32_MAX), false;
  if (situ__pipe_is_last(p) && !p->options.loss)
    return situ__fail(SITU_E_ARG, new_op, "rank %d has the last stage: options.loss is needed there", p->comm->rank),
           false;
  return same_options(p);
}

static situ_dist_pipeline *make_pipeline(situ_nn_module *stage, situ_comm *comm, situ_dist_pipeline_options options) {
  situ_dist_pipeline *p = situ__handle_new(SITU__A_PIPELINE, sizeof *p);
  if (!p) return situ__no_memory(new_op, sizeof *p), NULL;
  p->module = situ_nn_retain(stage);
  p->comm = comm;
  p->options = options;
  p->count = options.micro_batches ? options.micro_batches : comm->size;
  return p;
}

/* ---- for dry runs ---- */

static void free_twin(void *twin) {
  situ_dist_pipeline *p = twin;
  situ_comm *comm = p->comm;
  situ_dist_pipeline_free(p);
  situ_comm_free(comm);
}

static void *make_twin(void *self, const situ_twin_module *module) {
  const situ_dist_pipeline *p = self;
  situ_comm *comm = situ__comm_rehearsal(new_op, p->comm);
  situ_dist_pipeline *twin = comm ? make_pipeline(module->copy, comm, p->options) : NULL;
  if (!twin) situ_comm_free(comm);
  return twin;
}

/* The loss of the check in the form of a pipeline's. */
typedef struct twin_loss {
  situ_twin_loss of;
  void *payload;
} twin_loss;

static situ_tensor *find_twin_loss(situ_tensor *output, situ_tensor *target, void *payload) {
  const twin_loss *loss = payload;
  (void)target;
  situ_tree *outputs = situ_tree_tensor(output);
  situ_tensor *value = outputs ? loss->of(outputs, loss->payload) : NULL;
  situ_tree_free(outputs);
  return value;
}

/* The input of a step, of whose micro-batches x is one. */
static situ_tensor *whole_input(const situ_dist_pipeline *p, const situ_tensor *x) {
  situ_shape shape = situ_shape_of(x);
  const situ_device device = situ_device_of(x);
  if (shape.ndim) shape.dim[0] *= p->count;
  return situ_zeros(shape, &(situ_options){ .dtype = situ_dtype_of(x),
                                            .device = device.kind == SITU_META ? situ_nn_home(p->module) : device });
}

static situ_status run_twin(void *twin, const situ_tree *inputs, situ_twin_loss loss, void *payload) {
  situ_dist_pipeline *p = twin;
  twin_loss with = { loss, payload };
  situ_tensor *x = situ_tree_kind_of(inputs) == SITU_TREE_TENSOR ? situ_tree_value(inputs)
                   : situ_tree_count(inputs) > 0                 ? situ_tree_tensor_at(inputs, 0)
                                                                 : NULL;
  if (!x) return situ__fail(SITU_E_ARG, op, "the inputs have no tensor");
  p->options.loss = find_twin_loss;
  p->options.payload = &with;
  p->before = (situ__pipe_kind){ situ_dtype_of(x), situ_shape_of(x) };
  situ_scope s;
  situ_scope_begin(&s);
  const bool good = run_step(p, true, situ__pipe_is_first(p) ? whole_input(p, x) : NULL, NULL);
  end_step(p);
  return situ_scope_end(&s) == SITU_OK && good ? SITU_OK : situ_error();
}

static const situ_trainer trainer = { make_twin, free_twin, NULL, run_twin, NULL };

situ_dist_pipeline *situ_dist_pipeline_new(situ_nn_module *stage, situ_comm *comm,
                                           const situ_dist_pipeline_options *options) {
  if (!situ__valid(new_op, "stage", stage, SITU__A_MODULE) || !situ__comm_given(new_op, comm)) return NULL;
  static const situ_dist_pipeline_options plain;
  situ_dist_pipeline *p = make_pipeline(stage, comm, options ? *options : plain);
  if (!p) return NULL;
  if (start(p) && situ_set_trainer(stage, &trainer, p) == SITU_OK) return p;
  situ_comm_abort(comm, situ_error_message());
  situ_dist_pipeline_free(p);
  return NULL;
}

int64_t situ_dist_pipeline_steps(const situ_dist_pipeline *pipeline) {
  return is_pipeline("dist_pipeline_steps", pipeline) ? pipeline->step : -1;
}

void situ_dist_pipeline_free(situ_dist_pipeline *pipeline) {
  if (!pipeline || !is_pipeline("dist_pipeline_free", pipeline)) return;
  SITU_IGNORE(situ_set_trainer(pipeline->module, NULL, pipeline));
  situ_nn_free(pipeline->module);
  situ__handle_free(pipeline, sizeof *pipeline, NULL);
}
