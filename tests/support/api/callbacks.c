/* See callbacks.h.
   SPDX-License-Identifier: MIT */
#include "support/api/callbacks.h"

#include <stdint.h>
#include <string.h>

#include "situ/sys/layers.h"
#include "situ/sys/tensor.h"
#include "support/test.h"

static void release_nothing(void *payload) { (void)payload; }
static situ_tensor *same_tensor(situ_tensor *t, void *payload) { return payload ? t : t; }
static situ_tensor *no_change(situ_tensor *grad, void *payload) { return grad && payload ? NULL : NULL; }
static situ_status see_tensor(const char *at, situ_tensor *t, void *payload) {
  return at && t && !payload ? SITU_OK : SITU_OK;
}
static situ_status see_part(const situ_nn_visit *at, void *payload) { return at && !payload ? SITU_OK : SITU_OK; }
static situ_status see_module(situ_nn_module *m, void *payload) { return m && !payload ? SITU_OK : SITU_OK; }
static situ_status see_call(situ_nn_module *m, situ_tree **in, situ_tree **out, void *payload) {
  return m && in && out && !payload ? SITU_OK : SITU_OK;
}
static situ_status see_move(situ_nn_module *m, situ_device from, situ_device to, void *payload) {
  return m && from.kind && to.kind && !payload ? SITU_OK : SITU_OK;
}
static double lambda(int64_t step, void *payload) { return payload ? 1 : 1.0 / (double)(step + 1); }
static void see_relative(situ_relation how, const situ_tensor *other, void *payload) {
  (void)how, (void)other, (void)payload;
}
static void log_nothing(const char *message, void *payload) { (void)message, (void)payload; }
static situ_status twice(situ_tensor *const *in, int ins, situ_tensor **out, int outs, void *payload) {
  if (ins < 1 || outs < 1 || payload) return SITU_OK;
  out[0] = situ_add(in[0], in[0]);
  return out[0] ? SITU_OK : situ_error();
}
static situ_status twice_back(situ_tensor *const *in, int ins, situ_tensor *const *out, int outs,
                              situ_tensor *const *grad_out, situ_tensor **grad_in, void *payload) {
  if (!in || !out || ins < 1 || outs < 1 || payload) return SITU_OK;
  grad_in[0] = grad_out[0] ? situ_add(grad_out[0], grad_out[0]) : NULL;
  return SITU_OK;
}
static int64_t length_two(situ_dataset *self) { return self ? 2 : 0; }
static situ_tree *get_one(situ_dataset *self, int64_t index) {
  (void)self;
  return situ_tree_tensor(situ_scalar_tensor((double)index, NULL));
}

static situ_tensor *sum_of_squares(situ_tensor *const *in, int count, void *payload) {
  return count < 1 || payload ? NULL : situ_sum(situ_square(in[0]), NULL);
}

static situ_status sums_of_squares(situ_tensor *const *in, int count, situ_tensor **out, int outs, void *payload) {
  for (int i = 0; i < outs; i++)
    if (!(out[i] = sum_of_squares(in, count, payload))) return situ_error();
  return SITU_OK;
}
static situ_status see_leaf(situ_tensor *leaf, void *payload) { return leaf && !payload ? SITU_OK : SITU_E_ARG; }
static situ_status see_gradient(situ_tensor *leaf, situ_tensor *grad, void *payload) {
  return leaf && grad && !payload ? SITU_OK : SITU_E_ARG;
}
static void *keep_value(situ_tensor *t, void *payload) { return t && !payload ? NULL : payload; }
static situ_tensor *no_value(void *packed, void *payload) { return packed ? NULL : payload; }

static situ_status see_end(void *payload) { return payload ? SITU_E_ARG : SITU_OK; }

/* An engine that never carries anything. */
static situ_status begin_nothing(void *state, const situ_comm_transfer *transfer, void **request,
                                 situ_comm_report *report) {
  (void)report, (void)transfer;
  *request = state;
  return SITU_OK;
}
static situ_status test_nothing(void *state, void *request, bool *done, situ_comm_report *report) {
  (void)state, (void)request, (void)report;
  *done = true;
  return SITU_OK;
}
static bool abandon_nothing(void *state, void *request) { return state != NULL || request == NULL; }
static void release_engine(void *state, bool failed) { (void)state, (void)failed; }
const situ_comm_engine api_idle_engine = { "idle", begin_nothing, test_nothing, abandon_nothing, release_engine, 0 };

/* One rank of several, which has no gradient itself. */
static int64_t count_one(const void *payload) { return payload ? 1 : 1; }
static situ_tensor *no_gradient(const void *payload, int64_t i) { return payload && i ? NULL : NULL; }
static situ_status agree_at_once(const void *payload, bool good, bool *finite, bool *scaled) {
  (void)payload, (void)good, (void)scaled;
  *finite = true;
  return SITU_OK;
}
static situ_status step_nothing(const void *payload, double grad_scale) {
  return payload && grad_scale > 0 ? SITU_OK : SITU_OK;
}
const situ_grad_scaler_source api_no_gradients = {
  .count = count_one, .gradient = no_gradient, .agree = agree_at_once, .step = step_nothing
};

static situ_tensor *hand_on(const situ_nn_normalise_call *call, void *payload) { return payload ? NULL : call->input; }

static situ_status keep_constant(void *payload, situ_work *work, situ_optimizer_params *params,
                                 situ_optimizer_item *list) {
  return payload || (work && params && list) ? SITU_OK : SITU_OK;
}
const situ_graph_values api_constant_values = { .refresh = keep_constant };

static situ_tensor *some_loss(void *payload) { return situ_scalar_tensor(payload ? 2 : 1, NULL); }

void *api_callback(const char *type) {
#define CALLBACK(of_type, function) \
  if (strcmp(type, of_type) == 0) return (void *)(uintptr_t)(function)
  CALLBACK("void (*)(void *payload)", release_nothing);
  CALLBACK("situ_tensor *(*)(situ_tensor *tensor, void *payload)", same_tensor);
  CALLBACK("situ_grad_hook", no_change);
  CALLBACK("situ_tree_visitor", see_tensor);
  CALLBACK("situ_nn_visitor", see_part);
  CALLBACK("situ_status (*)(situ_nn_module *m, void *payload)", see_module);
  CALLBACK("situ_nn_hook", see_call);
  CALLBACK("situ_nn_move_hook", see_move);
  CALLBACK("double (*)(int64_t step, void *payload)", lambda);
  CALLBACK("void (*)(situ_relation how, const situ_tensor *other, void *payload)", see_relative);
  CALLBACK("situ_log_fn", log_nothing);
  CALLBACK("situ_func", sum_of_squares);
  CALLBACK("situ_func_many", sums_of_squares);
  CALLBACK("situ_post_accumulate_grad_hook", see_leaf);
  CALLBACK("situ_grad_ready_hook", see_gradient);
  CALLBACK("situ_optim_closure", some_loss);
  CALLBACK("situ_dist_make_optim", situ_optim_sgd);
  CALLBACK("situ_nn_normaliser", hand_on);
  CALLBACK("situ_backward_callback", see_end);
  CALLBACK("situ_nn_load_ready", see_end);
  CALLBACK("situ_status (*)(void *payload)", see_end);
#undef CALLBACK
  return NULL;
}

bool api_no_call(situ_export_trace *trace, const char *target, const char *codes, va_list args) {
  (void)trace, (void)target, (void)codes, (void)args;
  return true;
}

const situ_function api_twice = { .name = "twice", .forward = twice, .backward = twice_back };
const situ_dataset_type api_numbers = {
  .name = "numbers", .size = sizeof(situ_dataset), .length = length_two, .get = get_one
};
const situ_saved_tensors_hooks api_kept_values = { keep_value, no_value, NULL, NULL };

static float managed_value;
situ_dlpack_versioned api_managed = {
  .major = 1, .tensor = { .data = &managed_value, .device_type = 1, .code = 2, .bits = 32, .lanes = 1 }
};
