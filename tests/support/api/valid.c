/* Valid arguments for every public function, by the type and the name of each parameter.
   SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "situ/gguf.h"
#include "situ/progress.h"
#include "support/api/ranks.h"
#include "situ/sys/dry.h"
#include "situ/sys/load.h"
#include "situ/sys/move.h"
#include "situ/sys/explain.h"
#include "situ/sys/op.h"
#include "situ/sys/optimizer.h"
#include "situ/sys/tensor.h"
#include "support/api/callbacks.h"
#include "support/api/files.h"
#include "support/api/numbers.h"
#include "support/api/shapes.h"
#include "support/optim.h"
#include "support/test.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* ---- objects ---- */

static situ_tensor *plain(api_world *w) { return api_tensor(w, SITU_F32, SITU_SHAPE(2, 2)); }

static void free_module(void *m) { situ_nn_free(m); }
static void free_tree(void *t) { situ_tree_free(t); }
static void free_optim(void *o) { situ_optim_free(o); }
static void free_scheduler(void *s) { situ_lr_scheduler_free(s); }
static void free_scaler(void *s) { situ_grad_scaler_free(s); }
/* One that has scaled a loss, as its steps want. */
static situ_grad_scaler *new_scaler(void) {
  situ_grad_scaler *s = situ_grad_scaler_new(NULL);
  SITU_IGNORE(!situ_grad_scaler_scale(s, situ_ones(SITU_SCALAR, NULL)));
  return s;
}
static void free_dataset(void *d) { situ_dataset_free(d); }
static void free_sampler(void *s) { situ_sampler_free(s); }
static void free_loader(void *l) { situ_data_loader_free(l); }
static void free_graph(void *g) { situ_graph_free(g); }
static void free_profile(void *p) { situ_profile_free(p); }
static void free_file(void *f) { situ_safetensors_close(f); }
static void free_gguf(void *f) { situ_gguf_close(f); }
static void free_snapshot(void *s) { situ_snapshot_free(s); }
static void free_optim_loading(void *l) { situ_optim_load_end(l, false); }
static void free_scheduler_loading(void *l) { situ_lr_scheduler_load_end(l, false); }
static void free_plan(void *m) { situ_move_plan_free(m); }
static void free_report(void *r) { situ_place_report_free(r); }
static void free_fixes(void *f) { situ_place_fixes_free(f); }
static void free_layout(void *l) { situ_place_layout_free(l); }

/* What a function does with an object that it is given. */
static api_owner owner_of(const api_world *w, const char *parameter) {
  static const struct {
    const char *function, *parameter;
    api_owner owner;
  } list[] = {
    { "tree_append tree_put", "list dict", API_CHAIN },
    { "tree_append tree_put", "item", API_TAKEN },
    { "tree_free tree_set", "tree", API_TAKEN },
    { "optim_sgd optim_adam optim_adamw optim_rmsprop optim_adagrad optim_adadelta optim_adamax optim_nadam optim_radam optim_rprop optim_asgd optim_lion optim_adafactor optim_muon optim_lbfgs optim_add_param_group dist_zero_new dist_zero2_new dist_zero3_new dist_zero_add_param_group",
      "parameters", API_TAKEN },
    { "tensor_dataset", "tensors", API_TAKEN },
    { "nn_append nn_put", "container", API_CHAIN },
    { "nn_append nn_put", "module", API_TAKEN },
    { "nn_sequential_of nn_module_list_of", "modules", API_TAKEN },
    { "nn_transformer_decoder nn_transformer_encoder", "decoder_layer encoder_layer norm", API_TAKEN },
    { "nn_add_child", "child", API_TAKEN },
    { "nn_utils_register_parametrization", "parametrization", API_TAKEN },
    { "nn_done", "module", API_CHAIN },
    { "nn_free", "m", API_TAKEN },
    { "optim_free", "o", API_TAKEN },
    { "optim_load_end lr_scheduler_load_end", "l", API_TAKEN },
    { "lr_scheduler_free grad_scaler_free", "s", API_TAKEN },
    { "lr_scheduler_sequential_lr lr_scheduler_chained_scheduler", "schedulers", API_TAKEN },
    { "dataset_free", "dataset", API_TAKEN },
    { "data_loader_free", "loader", API_TAKEN },
    { "sampler_free", "sampler", API_TAKEN },
    { "graph_free", "graph", API_TAKEN },
    { "safetensors_close gguf_close", "file", API_TAKEN },
    { "nn_lora", "base_layer", API_TAKEN },
    { "snapshot_free", "snapshot", API_TAKEN },
    { "move_plan_free", "m", API_TAKEN },
    { "comm_wait", "request", API_TAKEN },
    { "comm_free", "comm", API_TAKEN },
    { "comm_sim_free", "world", API_TAKEN },
    { "dist_ddp_free", "ddp", API_TAKEN },
    { "dist_zero_free", "zero", API_TAKEN },
    { "dist_tp_free", "tp", API_TAKEN },
    { "dist_pipeline_free", "pipeline", API_TAKEN },
  };
  for (size_t i = 0; i < COUNT(list); i++)
    if (api_is(api_name(w), list[i].function) && api_is(parameter, list[i].parameter)) return list[i].owner;
  return API_KEPT;
}

/* Lengths, or batch sizes. */
static situ_tensor *ones(api_world *w, int64_t count) {
  return api_note(w, situ_ones(SITU_SHAPE(count), &(situ_options){ .dtype = SITU_I64, .device = w->device }));
}

static situ_nn_module *linear(api_world *w, api_owner owner) {
  situ_nn_module *m = situ_nn_linear(2, 2, &(situ_nn_linear_options){ .device = w->device });
  return api_own(w, m, free_module, owner);
}

typedef struct holder {
  situ_nn_module base;
  situ_nn_module *field;
  situ_tensor *tensor;
} holder;
static situ_tensor *pass_on(situ_nn_module *self, situ_tensor *x) { return situ_mul_scalar(x, self ? 1 : 0); }
static const situ_nn_type holder_type = { .name = "Holder", .size = sizeof(holder), .forward = pass_on };

/* NULL in a build without programs. */
static situ_nn_module *program(api_world *w) {
  situ_tree *inputs = SITU_TREE(plain(w));
  situ_nn_module *made = situ_export(linear(w, API_KEPT), inputs);
  situ_tree_free(inputs);
  situ_error_clear();
  return made;
}

static situ_nn_module *module(api_world *w, const char *name) {
  api_owner owner = owner_of(w, name);
  situ_nn_module *m = NULL;
  if (api_is(api_name(w), "nn_done")) m = situ_nn_alloc(&holder_type);
  else if (api_is(api_name(w), "nn_add_child nn_add_tensor")) m = situ_nn_done(situ_nn_alloc(&holder_type));
  else if (api_is(api_name(w), "nn_attend"))
    m = situ_nn_multihead_attention(2, 1, &(situ_nn_multihead_attention_options){ .device = w->device });
  else if (api_is(api_name(w), "nn_encode"))
    m = situ_nn_transformer_encoder_layer(
        2, 1, OPTIONS_AT(situ_nn_transformer, with.device = w->device, with.dim_feedforward = 2));
  else if (api_is(api_name(w), "nn_decode"))
    m = situ_nn_transformer_decoder_layer(
        2, 1, OPTIONS_AT(situ_nn_transformer, with.device = w->device, with.dim_feedforward = 2));
  else if (strcmp(name, "program") == 0) m = program(w);
  else if (api_is(api_name(w), "nn_recur nn_recur_packed"))
    m = situ_nn_gru(2, 2, &(situ_nn_rnn_options){ .device = w->device });
  else if (strcmp(name, "parametrization") == 0) m = situ_nn_softplus(1, 20);
  else if (api_is(api_name(w), "nn_utils_remove_parametrizations nn_utils_parametrized"))
    m = situ_nn_utils_spectral_norm(situ_nn_linear(2, 2, &(situ_nn_linear_options){ .device = w->device }), NULL, NULL);
  else if (strcmp(name, "averaged") == 0) {
    situ_nn_module *of = linear(w, API_KEPT);
    m = situ_optim_averaged_model(of, NULL);
  } else if (api_is(api_name(w), "nn_forward2")) m = situ_nn_mse_loss(SITU_REDUCTION_MEAN);
  else if (strcmp(name, "container") == 0 || api_is(api_name(w), "nn_get_submodule nn_lora_add dist_tp_new"))
    m = situ_nn_put(situ_nn_sequential_of(0, NULL), "a", linear(w, API_TAKEN));
  if (m) return api_own(w, m, free_module, owner);
  return linear(w, owner);
}

situ_nn_module *api_container(api_world *w) {
  situ_nn_module *m = situ_nn_put(situ_nn_sequential_of(0, NULL), "a", linear(w, API_TAKEN));
  return api_own(w, m, free_module, API_KEPT);
}

static situ_tree *tree_of_two(api_world *w) {
  situ_tree *dict = situ_tree_dict();
  dict = situ_tree_put(dict, "a.x", situ_tree_tensor(plain(w)));
  return situ_tree_put(dict, "a.y", situ_tree_tensor(plain(w)));
}

static situ_optim *optim(api_world *w, api_owner owner) {
  situ_nn_module *m = linear(w, API_KEPT);
  situ_tensor *y = situ_nn_forward(m, plain(w));
  assert_int_equal(situ_backward(situ_sum(y, NULL), NULL), SITU_OK);
  return api_own(w, situ_optim_sgd(situ_nn_parameters(m), 1e-3, OPTIM_MOMENTUM(0.5)), free_optim, owner);
}

situ_nn_module *api_trained(api_world *w) {
  if (!w->trained) w->trained = linear(w, API_KEPT);
  return w->trained;
}

static situ_tree *tree(api_world *w, const char *name) {
  api_owner owner = owner_of(w, name);
  situ_tree *t = NULL;
  if (api_is(
          api_name(w),
          "optim_sgd optim_adam optim_adamw optim_rmsprop optim_adagrad optim_adadelta optim_adamax optim_nadam optim_radam optim_rprop optim_asgd optim_lion optim_adafactor optim_muon optim_lbfgs optim_add_param_group nn_utils_clip_grad_norm_ nn_utils_clip_grad_value_"))
    t = situ_tree_put(situ_tree_dict(), "p", situ_tree_tensor(situ_requires_grad_(plain(w), true)));
  else if (api_is(name, "list inputs item") || api_is(api_name(w), "tree_tensor_at"))
    t = situ_tree_append(situ_tree_list(), situ_tree_tensor(plain(w)));
  else if (api_is(api_name(w), "func_functional_call func_functional_call_tree"))
    t = situ_tree_put(situ_tree_dict(), "weight", situ_tree_tensor(plain(w)));
  else if (api_is(api_name(w), "dist_zero2_new dist_zero3_new")) t = situ_nn_parameters(api_trained(w));
  else if (api_is(api_name(w), "nn_lora_load_state_dict")) t = situ_tree_dict();
  else if (api_is(api_name(w), "dist_tp_load_state_dict")) t = situ_nn_state_dict(api_container(w));
  else if (api_is(api_name(w), "tree_value nn_call_into")) t = situ_tree_tensor(plain(w));
  else if (api_is(api_name(w), "nn_load_state_dict nn_load_check nn_load_when nn_load_map"))
    t = situ_nn_state_dict(linear(w, API_KEPT));
  else if (api_is(api_name(w), "optim_load_state_dict optim_load_prepare dist_zero_load_state_dict"))
    t = situ_optim_state_dict(optim(w, API_KEPT));
  else if (api_is(api_name(w), "lr_scheduler_load_state_dict lr_scheduler_load_prepare"))
    t = situ_lr_scheduler_state_dict(
        api_own(w, situ_lr_scheduler_step_lr(optim(w, API_KEPT), 1, 0.5), free_scheduler, API_KEPT));
  else if (api_is(api_name(w), "grad_scaler_load_state_dict"))
    t = situ_grad_scaler_state_dict(api_own(w, situ_grad_scaler_new(NULL), free_scaler, API_KEPT));
  else t = tree_of_two(w);
  return api_own(w, t, free_tree, owner);
}

static situ_dataset *dataset(api_world *w, api_owner owner) {
  if (strstr(api_name(w), "image_folder"))
    return api_own(w, situ_image_folder(api_image_root(), NULL), free_dataset, owner);
  situ_tree *rows = situ_tree_append(situ_tree_list(), situ_tree_tensor(plain(w)));
  return api_own(w, situ_tensor_dataset(rows), free_dataset, owner);
}

static situ_sampler *sampler(api_world *w, api_owner owner) {
  const situ_distributed_sampler_options options = { .num_replicas = 1 };
  return api_own(w, situ_distributed_sampler(dataset(w, API_KEPT), &options), free_sampler, owner);
}

static situ_graph *graph(api_world *w, api_owner owner) {
  situ_tensor *x = plain(w);
  assert_int_equal(situ_graph_capture_begin(w->device), SITU_OK);
  if (!situ_add(x, x)) fail_msg("%s", situ_error_message());
  return api_own(w, situ_graph_capture_end(), free_graph, owner);
}

static situ_profile *profile(api_world *w, api_owner owner) {
  assert_int_equal(situ_profile_begin(NULL), SITU_OK);
  plain(w);
  return api_own(w, situ_profile_end(), free_profile, owner);
}

/* ---- files ---- */

static situ_checkpoint *checkpoint(api_world *w) {
  situ_checkpoint *c = api_memory(w, sizeof *c);
  *c = (situ_checkpoint){ .model = linear(w, API_KEPT), .optimizer = optim(w, API_KEPT) };
  return c;
}

static situ_dist_checkpoint *shards(api_world *w) {
  situ_dist_checkpoint *c = api_memory(w, sizeof *c);
  *c = (situ_dist_checkpoint){ .model = linear(w, API_KEPT), .zero = api_zero(w, API_KEPT) };
  return c;
}

static const char *directory(api_world *w) {
  const situ_save_options fast = { .no_sync = true };
  if (situ_dist_checkpoint_save("valid.shards", api_comm(w, API_KEPT), shards(w), &fast) != SITU_OK)
    fail_msg("%s", situ_error_message());
  return "valid.shards";
}

/* What the call reads is written first; what it writes replaces this. */
static const char *path(api_world *w) {
  const char *file = api_file_of(api_name(w));
  situ_status status = SITU_OK;
  const situ_save_options fast = { .no_sync = true };
  if (strcmp(file, "valid.npy") == 0) status = situ_npy_save(file, plain(w), &fast);
  if (strcmp(file, "valid.safetensors") == 0)
    status = situ_save(file, api_own(w, tree_of_two(w), free_tree, API_KEPT), &fast);
  if (strcmp(file, "valid.checkpoint") == 0) status = situ_checkpoint_save(file, checkpoint(w), &fast);
  if (strcmp(file, "valid.wav") == 0) status = situ_wav_save(file, plain(w), 8000, 0);
  if (strcmp(file, "valid.lock") == 0) status = situ_place_lock_write(linear(w, API_KEPT), file);
  if (status != SITU_OK) fail_msg("%s: %s", file, situ_error_message());
  api_write_file(file);
  return file;
}

/* ---- structs that are pointed to ---- */

static const situ_op *some_op(const char *name) {
  const situ_op *const *ops;
  size_t count = situ_op_table(&ops);
  for (size_t i = 0; i < count; i++)
    if (strcmp(ops[i]->name, name) == 0) return ops[i];
  fail_msg("no op %s", name);
  return NULL;
}

/* Those of the optimiser that the function makes; others have SGD. */
static situ_optim_options optim_options_for(const char *name) {
  situ_optim_options options = situ_optim_sgd_defaults();
  for (int i = 0; i < OPTIM_RULES; i++)
    if (strcmp(optim_rules[i].defaults().of, name) == 0) options = optim_rules[i].defaults();
  if (strstr(name, "add_param_group")) options.lr = 0.1;
  return options;
}

static void fill_struct(api_world *w, const api_struct *s, void *at) {
  (void)api_defaults(s->name, at);
#define IS(type) (strcmp(s->name, #type) == 0)
#define AT(type) (*(type *)at)
  for (int i = 0; i < s->count && strstr(s->name, "_options"); i++)
    if (strcmp(s->field[i].type, "situ_device") == 0 && strcmp(s->field[i].name, "pinned") != 0)
      memcpy((char *)at + s->field[i].offset, &w->device, sizeof w->device);
  if (IS(situ_pool_options)) AT(situ_pool_options).kernel = SITU_DIMS(2);
  if (IS(situ_interpolate_options)) AT(situ_interpolate_options).size = SITU_DIMS(3);
  if (IS(situ_stft_options)) AT(situ_stft_options).hop_length = 1;
  if (IS(situ_optim_options)) AT(situ_optim_options) = optim_options_for(api_name(w));
  if (IS(situ_distributed_sampler_options)) AT(situ_distributed_sampler_options).num_replicas = 1;
  if (IS(situ_nn_packed_sequence))
    AT(situ_nn_packed_sequence) = (situ_nn_packed_sequence){ .data = plain(w), .batch_sizes = ones(w, 2) };
  if (IS(situ_saved_tensors_hooks)) AT(situ_saved_tensors_hooks) = api_kept_values;
  if (IS(situ_comm_engine)) AT(situ_comm_engine) = api_idle_engine;
  if (IS(situ_comm_call))
    AT(situ_comm_call) =
        (situ_comm_call){ .count = 2, .send = api_memory(w, 4096), .receive = api_memory(w, 4096), .name = "x" };
  if (IS(situ_grad_scaler_source)) {
    AT(situ_grad_scaler_source) = api_no_gradients;
    AT(situ_grad_scaler_source).optim = optim(w, API_KEPT);
  }
  if (IS(situ_graph_values)) AT(situ_graph_values) = api_constant_values;
  if (IS(situ_save_options)) AT(situ_save_options).no_sync = true;
  if (IS(situ_function)) AT(situ_function) = api_twice;
  if (IS(situ_nn_type)) AT(situ_nn_type) = holder_type;
  if (IS(situ_dataset_type)) AT(situ_dataset_type) = api_numbers;
  if (IS(situ_place_entry))
    AT(situ_place_entry) = (situ_place_entry){
      .path = "w", .role = SITU_PLACE_TENSOR, .type = "f32", .device = w->device, .shape = SITU_SHAPE(2), .bytes = 8
    };
  if (IS(situ_export_trace)) AT(situ_export_trace).add_call = api_no_call;
  if (IS(situ_export_trace) && api_is(api_name(w), "export_trace_end"))
    assert_int_equal(situ_export_trace_begin(at), SITU_OK);
  if (IS(situ_move_request)) AT(situ_move_request) = (situ_move_request){ .tensor = plain(w), .to = w->device };
  if (IS(situ_optimizer_tensors))
    AT(situ_optimizer_tensors) = (situ_optimizer_tensors){ .param = plain(w), .grad = plain(w), .step = 1 };
  if (IS(situ_optimizer_params)) AT(situ_optimizer_params) = (situ_optimizer_params){ .lr = 0.1, .grad_scale = 1 };
  if (IS(situ_checkpoint)) AT(situ_checkpoint) = *checkpoint(w);
  api_ranks_struct(s->name, at);
  if (IS(situ_dist_checkpoint)) AT(situ_dist_checkpoint) = *shards(w);
  if (IS(situ_explanation))
    AT(situ_explanation) = (situ_explanation){ .operand = api_memory(w, sizeof(situ_explained)), .count = 1 };
  if (IS(situ_view_desc)) AT(situ_view_desc) = *situ_desc(plain(w));
  if (IS(situ_shape)) AT(situ_shape) = SITU_SHAPE(2, api_is(api_name(w), "blocks_from_host") ? 32 : 2);
  if (IS(situ_allocator)) AT(situ_allocator) = *api_allocator();
  if (IS(situ_call) || IS(situ_grad_call)) {
    situ_tensor **in = api_memory(w, SITU_OPERANDS * sizeof *in);
    in[0] = in[1] = plain(w);
    if (IS(situ_call))
      AT(situ_call) = (situ_call){ some_op("add"), 2, 1, in, .device = w->device, .compute = SITU_F32 };
    else AT(situ_grad_call) = (situ_grad_call){ some_op("add"), 2, 1, .in = in, .device = w->device };
  }
  if (IS(situ_work))
    AT(situ_work) = (situ_work){ .verb = SITU_VERB_FILL, .outs = 1, .out = { situ_desc(plain(w)) }, .scalar = { 1 } };
  if (IS(situ_ledger) && !strstr(api_name(w), "_begin")) {
    situ_ledger_begin(at);
    plain(w);
  }
  if (IS(situ_setting) && api_is(api_name(w), "default_device_end"))
    assert_int_equal(situ_default_device_begin(at, w->device), SITU_OK);
  if (IS(situ_setting) && api_is(api_name(w), "autocast_end"))
    assert_int_equal(situ_autocast_begin(at, w->device, NULL), SITU_OK);
  if (IS(situ_setting) && api_is(api_name(w), "policy_end")) situ_policy_begin(at, (situ_policy){ 0 });
  if (IS(situ_progress) && !strstr(api_name(w), "_begin"))
    situ_progress_begin(at, "x", 2, &(situ_progress_options){ .quiet = true });
  if (IS(situ_progress_options)) AT(situ_progress_options).quiet = true;
  if (IS(situ_dry) && !strstr(api_name(w), "_begin")) assert_int_equal(situ_dry_begin(at), SITU_OK);
  if (IS(situ_place_limit)) AT(situ_place_limit).device = w->device;
  const bool report = IS(situ_place_report), layout = IS(situ_place_layout), fixes = IS(situ_place_fixes);
  if ((report || layout || fixes) && !api_is(api_name(w), "place_check place_fit place_mend")) {
    situ_tree *in = api_own(w, SITU_TREE(plain(w)), free_tree, API_KEPT);
    situ_nn_module *m = linear(w, API_KEPT);
    if (report) assert_int_equal(situ_place_check(m, in, NULL, at), SITU_OK);
    else if (layout) assert_int_equal(situ_place_fit(m, in, &(situ_place_limit){ w->device, 0 }, 1, NULL, at), SITU_OK);
    else assert_int_equal(situ_place_mend(m, in, NULL, at), SITU_OK);
    void (*const free_it)(void *) = report ? free_report : layout ? free_layout : free_fixes;
    if (!strstr(api_name(w), "_free")) api_own(w, at, free_it, API_KEPT);
  }
#undef IS
#undef AT
}

/* ---- texts, by the names of their parameters ---- */

static const char *text(api_world *w, const char *name) {
  if (strcmp(name, "path") == 0 && strstr(api_name(w), "get_submodule")) return "a";
  if (strcmp(name, "path") == 0) return strstr(api_name(w), "get_tensor") ? "weight" : path(w);
  if (strcmp(name, "directory") == 0) return directory(w);
  if (api_is(api_name(w), "device_parse dev place_device device_count device_status")) return "cpu";
  if (strcmp(name, "root") == 0) return api_image_root();
  if (strcmp(name, "map") == 0) return "*=cpu";
  if (strcmp(name, "signature") == 0) return "inputs=cpu";
  if (strcmp(name, "section") == 0 || api_is(api_name(w), "nn_get")) return "a";
  if (strcmp(name, "equation") == 0) return "ij,jk->ik";
  if (strstr(api_name(w), "safetensors_") || api_is(api_name(w), "tree_get tree_getf tree_find")) return "a.x";
  if (api_is(api_name(w), "plan_devices sim_identify")) return "";
  if (strcmp(name, "architecture") == 0) return "llama";
  if (api_is(api_name(w), "gguf_load gguf_find")) return "whole";
  if (strstr(api_name(w), "parametriz") || strstr(api_name(w), "weight_norm") || strstr(api_name(w), "spectral_norm"))
    return "weight";
  return "b";
}

/* ---- tensors ---- */

static situ_tensor *blocks(const api_world *w) {
  const unsigned char zeros[2 * 34] = { 0 };
  return situ_blocks_from_host(zeros, sizeof zeros, &SITU_SHAPE(2, 32), SITU_BLOCK_Q8_0,
                               &(situ_options){ .device = w->device });
}

/* A tensor whose memory situ_release_memory has freed. */
static situ_tensor *away(api_world *w) {
  situ_tensor *t = plain(w);
  if (situ_release_memory("test", t, "elsewhere") != SITU_OK) fail_msg("%s", situ_error_message());
  return t;
}

static situ_tensor *tensor(api_world *w, const char *name) {
  const char *f = api_name(w);
  if (api_is(
          f,
          "backward autograd_grad grad_scaler_scale register_hook register_grad_ready_hook register_post_accumulate_grad_hook remove_hooks retain_grad") ||
      (api_is(f, "set_grad") && *name == 't')) {
    situ_tensor *leaf = situ_requires_grad_(plain(w), true);
    return api_is(f, "set_grad register_hook register_grad_ready_hook register_post_accumulate_grad_hook remove_hooks")
               ? leaf
               : situ_sum(leaf, NULL);
  }
  if (api_is(f, "comm_reduce_scatter comm_all_to_all")) return api_tensor(w, SITU_F32, SITU_SHAPE(1, 2));
  if (api_is(f, "nn_utils_rnn_pack_padded_sequence") && strcmp(name, "lengths") == 0) return ones(w, 2);
  if (api_is(f, "take_memory") && strcmp(name, "meta") == 0)
    return situ_empty(SITU_SHAPE(2, 2), &(situ_options){ .device = { SITU_META, 0 } });
  if (api_is(f, "return_memory") && strcmp(name, "t") == 0) return away(w);
  if (api_is(f, "dequantize block_linear block_embedding block_type_of block_shape") &&
      api_is(name, strcmp(f, "dequantize") == 0 ? "input" : "weight t"))
    return api_note(w, blocks(w));
  return api_valid_tensor(w, name);
}

/* ---- one argument ---- */

static void *array(api_world *w, const char *type, const char *name) {
  if (strstr(type, "situ_nn_module")) {
    situ_nn_module **list = api_memory(w, 4 * sizeof *list);
    for (int i = 0; i < api_integer(w, "count"); i++) list[i] = linear(w, owner_of(w, name));
    return list;
  }
  if (strstr(type, "situ_lr_scheduler")) {
    situ_lr_scheduler **list = api_memory(w, 4 * sizeof *list);
    situ_optim *o = api_is(api_name(w), "lr_scheduler_sequential_lr") ? w->begun : optim(w, API_KEPT);
    list[0] = api_own(w, situ_lr_scheduler_step_lr(o, 1, 0.5), free_scheduler, owner_of(w, name));
    return list;
  }
  if (strstr(type, "situ_tree")) {
    situ_tree **list = api_memory(w, 4 * sizeof *list);
    list[0] = list[1] = api_own(w, tree_of_two(w), free_tree, API_KEPT);
    return list;
  }
  if (strcmp(name, "target_modules") == 0) {
    const char **list = api_memory(w, 4 * sizeof *list);
    return list[0] = "a", list;
  }
  situ_tensor **list = api_memory(w, 16 * sizeof *list);
  if (strcmp(name, "captured") == 0) return list[0] = w->tensor[0], list; /* graph's */
  list[0] = list[1] = tensor(w, name);
  if (api_is(api_name(w), "autograd_grad autograd_gradcheck autograd_gradgradcheck"))
    list[0] = situ_requires_grad_(list[0], true);
  return list;
}

static void *object(api_world *w, const char *type, const char *name) {
  char pointee[128];
  (void)api_pointee(type, pointee);
  api_owner owner = owner_of(w, name);
#define IS(what) (strcmp(pointee, #what) == 0)
  if (IS(situ_tensor)) return tensor(w, name);
  if (IS(situ_nn_module) || api_is(api_name(w), "nn_done")) return module(w, name);
  if (IS(situ_tree)) return tree(w, name);
  if (IS(situ_optim)) return optim(w, owner);
  if (IS(situ_lr_scheduler)) {
    situ_optim *o = optim(w, API_KEPT);
    situ_lr_scheduler *s = api_is(api_name(w), "lr_scheduler_step_metrics")
                               ? situ_lr_scheduler_reduce_lr_on_plateau(o, 0.5, 1, NULL)
                               : situ_lr_scheduler_step_lr(o, 1, 0.5);
    return api_own(w, s, free_scheduler, owner);
  }
  if (IS(situ_grad_scaler)) return api_own(w, new_scaler(), free_scaler, owner);
  if (IS(situ_dataset)) return dataset(w, owner);
  if (IS(situ_data_loader)) return api_own(w, situ_data_loader_new(dataset(w, API_KEPT), NULL), free_loader, owner);
  if (IS(situ_sampler)) return sampler(w, owner);
  if (IS(situ_graph)) return graph(w, owner);
  if (IS(situ_profile)) return profile(w, owner);
  if (IS(situ_gguf)) return api_own(w, situ_gguf_open(path(w), NULL), free_gguf, owner);
  if (IS(situ_safetensors)) return api_own(w, situ_safetensors_open(path(w), NULL), free_file, owner);
  void *of_ranks = api_ranks_object(w, pointee, owner);
  if (of_ranks) return of_ranks;
  if (IS(situ_snapshot)) return api_own(w, situ_place_snapshot(linear(w, API_KEPT)), free_snapshot, owner);
  if (IS(situ_move_plan))
    return api_own(w, situ_move_plan_new("move", &(situ_move_request){ .tensor = plain(w), .to = w->device }, 1),
                   free_plan, owner);
  if (IS(situ_optim_loading)) {
    situ_optim *o = optim(w, API_KEPT);
    situ_tree *state = api_own(w, situ_optim_state_dict(o), free_tree, API_KEPT);
    return api_own(w, situ_optim_load_prepare(o, state), free_optim_loading, owner);
  }
  if (IS(situ_lr_scheduler_loading)) {
    situ_lr_scheduler *s = api_own(w, situ_lr_scheduler_step_lr(optim(w, API_KEPT), 1, 0.5), free_scheduler, API_KEPT);
    situ_tree *state = api_own(w, situ_lr_scheduler_state_dict(s), free_tree, API_KEPT);
    return api_own(w, situ_lr_scheduler_load_prepare(s, state), free_scheduler_loading, owner);
  }
  if (IS(situ_op))
    return (void *)(uintptr_t)some_op(api_is(api_name(w), "op_run2")   ? "add"
                                      : api_is(api_name(w), "op_run3") ? "where"
                                                                       : "neg");
  if (IS(situ_storage)) return situ_desc(plain(w))->storage;
  if (IS(situ_module_lore) || IS(situ_host)) return NULL;
  if (IS(situ_scope)) {
    situ_scope *s = api_memory(w, sizeof *s);
    if (!strstr(api_name(w), "_begin")) situ_scope_begin(s);
    if (api_is(api_name(w), "escape")) plain(w);
    return s;
  }
#undef IS
  const api_struct *s = api_find_struct(type);
  if (s) {
    void *at = api_memory(w, s->size);
    fill_struct(w, s, at);
    return at;
  }
  if (api_is(name, "managed")) return &api_managed;
  if (api_is(pointee, "char void")) {
    float *values = api_memory(w, 4096);
    if (api_is(name, "data")) values[0] = 1;
    if (api_is(api_name(w), "decode_image")) memcpy(values, api_png, API_PNG);
    return api_is(name, "payload kwargs event") ? NULL : values; /* a driver follows any event */
  }
  if (api_is(pointee, "int int64_t size_t uint32_t uint64_t double bool _Bool situ_dtype") == 0)
    fail_msg("%s: a valid %s for %s: say it in %s", w->function->name, type, name, __FILE__);
  if (strcmp(pointee, "double") == 0) {
    double *list = api_memory(w, 16 * sizeof *list);
    list[0] = strcmp(name, "weights") == 0;
    return list;
  }
  if (strcmp(pointee, "int64_t") == 0) {
    int64_t *list = api_memory(w, 16 * sizeof *list);
    if (strcmp(name, "strides") == 0) list[0] = 2, list[1] = 1;
    return list;
  }
  return api_memory(w, 64);
}

void *api_object(api_world *w, const char *type) { return object(w, type, "another"); }

static void fill(api_world *w, const api_parameter *p, void *at) {
  const char *type = p->type;
  size_t length = strlen(type);
  void *pointer = api_callback(type);
  if (pointer) {
    memcpy(at, &pointer, sizeof pointer);
  } else if (strcmp(type, "const char *") == 0) {
    *(const char **)at = text(w, p->name);
  } else if (strstr(type, "*const *")) {
    *(void **)at = array(w, type, p->name);
  } else if (api_is(api_name(w), "nn_add_child nn_add_tensor") && strcmp(p->name, "field") == 0) {
    holder *h = w->begun;
    *(void **)at = strstr(type, "module") ? (void *)&h->field : (void *)&h->tensor;
  } else if (type[length - 1] == '*' && type[length - 2] == '*') {
    *(void **)at = api_memory(w, 16 * sizeof(void *)); /* slots, empty */
  } else if (type[length - 1] == '*') {
    *(void **)at = object(w, type, p->name);
  } else if (strcmp(type, "double") == 0) {
    *(double *)at = api_number(w, p->name);
  } else if (strcmp(type, "situ_shape") == 0) {
    *(situ_shape *)at = api_shape(w, p->name);
  } else if (strcmp(type, "situ_device") == 0) {
    *(situ_device *)at = w->device;
  } else if (strcmp(type, "situ_dtype") == 0) {
    *(situ_dtype *)at = SITU_F32;
  } else if (strcmp(type, "situ_block_type") == 0) {
    *(situ_block_type *)at = SITU_BLOCK_Q8_0;
  } else if (strcmp(type, "situ_nn_kind") == 0) {
    *(situ_nn_kind *)at = SITU_NN_BUFFER;
  } else if (strcmp(type, "situ_error_policy") == 0) {
    *(situ_error_policy *)at = SITU_ERROR_QUIET;
  } else if (api_is(type, "int64_t int size_t uint64_t uint32_t unsigned")) {
    int64_t value = api_integer(w, p->name);
    memcpy(at, &value, p->size); /* little-endian, as all that situ runs on */
  }
}

void api_valid(api_world *w, const api_function *function, situ_device device) {
  *w = (api_world){ .function = function, .device = device };
  if (strstr(api_name(w), "dlpack") || api_is(api_name(w), "from_blob view_host data_ptr data_lease data_release"))
    w->device = (situ_device){ SITU_CPU, 0 }; /* host memory */
  assert_true(function->count <= API_PARAMETERS);
  for (int i = 0; i < function->count; i++) {
    w->argument[i] = api_memory(w, function->parameter[i].size);
    fill(w, &function->parameter[i], w->argument[i]);
    if (i == 0 && strchr(function->parameter[0].type, '*')) w->begun = *(void **)w->argument[0];
  }
  if (api_is(api_name(w), "data_release")) assert_non_null(situ_data_lease(w->begun, SITU_F32, SITU_LEASE_READ));
  if (api_is(api_name(w), "profile_end")) assert_int_equal(situ_profile_begin(NULL), SITU_OK);
  if (api_is(api_name(w), "graph_capture_end graph_values_begin")) {
    situ_tensor *x = plain(w);
    assert_int_equal(situ_graph_capture_begin(device), SITU_OK);
    if (!situ_add(x, x)) fail_msg("%s", situ_error_message());
  }
}
