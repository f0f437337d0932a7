/* The table of public functions, and what happens before and after a call.
   SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/api/api.h"
#include "support/test.h"

#include "api_calls.h"
#include "situ/dlpack.h"
#include "situ/sys/comm_sim.h"
#include "situ/sys/op.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

size_t api_functions_list(const api_function **list) {
  *list = api_functions;
  return COUNT(api_functions);
}

const char *api_pointee(const char *type, char buffer[128]) {
  if (strncmp(type, "const ", 6) == 0) type += 6;
  size_t length = strlen(type);
  if (length > 2 && strcmp(type + length - 2, " *") == 0) length -= 2;
  (void)snprintf(buffer, 128, "%.*s", (int)length, type);
  return buffer;
}

const api_struct *api_find_struct(const char *type) {
  char name[128];
  (void)api_pointee(type, name);
  for (size_t i = 0; i < COUNT(api_structs); i++)
    if (strcmp(api_structs[i].name, name) == 0) return &api_structs[i];
  return NULL;
}

bool api_defaults(const char *type, void *at) {
  const api_function *list;
  const size_t count = api_functions_list(&list), length = strlen("_defaults");
  for (size_t i = 0; i < count; i++) {
    const char *end = list[i].name + strlen(list[i].name) - length;
    if (list[i].count || strcmp(list[i].returns, type) != 0 || end < list[i].name || strcmp(end, "_defaults") != 0)
      continue;
    if (at) list[i].call(NULL, at);
    return true;
  }
  return false;
}

const api_enum *api_find_enum(const char *type) {
  for (size_t i = 0; i < COUNT(api_enums); i++)
    if (strcmp(api_enums[i].name, type) == 0) return &api_enums[i];
  return NULL;
}

bool api_is(const char *name, const char *list) {
  size_t length = strlen(name);
  for (const char *at = list; (at = strstr(at, name)) != NULL; at++)
    if ((at == list || at[-1] == ' ') && (at[length] == ' ' || !at[length])) return true;
  return false;
}

/* NULL without an error means something here. */
static const char null_is_an_answer[] =
    "situ_grad situ_tree_find situ_safetensors_entry situ_safetensors_find situ_safetensors_metadata situ_gguf_entry situ_gguf_find situ_gguf_key situ_gguf_string situ_snapshot_at situ_optim_state "
    "situ_export_pause situ_export_target_at situ_data_loader_next situ_data_ptr situ_data_lease situ_data_map situ_desc situ_dry_note situ_trainer_of situ_grad_collected situ_retain situ_nn_retain situ_escape situ_scope_return";

/* What they call may end them with a status of its own. */
static const char hands_a_status_on[] = "situ_nn_apply situ_nn_walk situ_tree_each situ_tree_map";

const char *api_disagreement(const char *function, api_result kind, const void *result, bool error, bool excused) {
  switch (kind) {
  case API_STATUS:
    if (*(const situ_status *)result == SITU_OK) return error ? "an error, and SITU_OK" : NULL;
    return excused || api_is(function, hands_a_status_on) ? NULL : "a status without an error";
  case API_POINTER:
    if (*(void *const *)result) return error ? "an error and a result" : NULL;
    return excused || api_is(function, null_is_an_answer) ? NULL : "NULL without an error";
  case API_TEXT:
    return *(const char *const *)result || excused || api_is(function, null_is_an_answer) ? NULL : "a NULL text";
  case API_BOOL: return error && *(const bool *)result ? "an error and true" : NULL;
  case API_COUNT: return error && *(const int64_t *)result > 0 ? "an error and a count" : NULL;
  case API_DOUBLE: return error && *(const double *)result == *(const double *)result ? "an error and a number" : NULL;
  default: return NULL;
  }
}

const char *api_name(const api_world *w) { return w->function->name + 5; }

/* ---- what arguments are made of ---- */

void *api_own(api_world *w, void *object, void (*release)(void *), api_owner owner) {
  if (!object) fail_msg("%s: a valid argument could not be made: %s", w->function->name, situ_error_message());
  assert_true(w->owned_count < API_OWNED);
  w->owned[w->owned_count++] = (api_owned){ release, object, owner };
  return object;
}

api_owner api_keep(api_world *w, const void *object) {
  api_owner owner = API_KEPT;
  for (int i = 0; i < w->owned_count; i++) {
    if (w->owned[i].object != object) continue;
    owner = w->owned[i].owner;
    w->owned[i].owner = API_KEPT;
  }
  return owner;
}

void *api_memory(api_world *w, size_t size) { return api_own(w, calloc(1, size ? size : 1), free, API_KEPT); }

situ_tensor *api_note(api_world *w, situ_tensor *t) {
  if (!t) fail_msg("%s: a tensor could not be made: %s", w->function->name, situ_error_message());
  assert_true(w->tensor_count < (int)COUNT(w->tensor));
  w->tensor[w->tensor_count++] = t;
  return strcmp(w->function->name, "situ_release") == 0 ? situ_retain(t) : t; /* what it takes away */
}

situ_tensor *api_tensor(api_world *w, situ_dtype dtype, situ_shape shape) {
  const situ_options here = { .dtype = dtype, .device = w->device };
  int64_t numel = 1;
  for (int d = 0; d < shape.ndim; d++) numel *= shape.dim[d];
  if (dtype != SITU_F32) return api_note(w, situ_zeros(shape, &here));
  float values[256];
  assert_true(numel <= (int64_t)COUNT(values));
  for (int64_t i = 0; i < numel; i++) values[i] = (float)(i % 7 + 1) / 8;
  return api_note(w, situ_from_host(values, (size_t)numel * sizeof *values, shape, &here));
}

/* ---- memory ---- */

/* More than that at once is refused: a call with a huge size would take minutes. */
enum { MOST = 64 << 20 };
static void *take(size_t bytes, size_t alignment, void *payload) {
  (void)payload;
  return bytes > MOST ? NULL
         : alignment  ? aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment)
                      : malloc(bytes);
}
static void *take_again(void *old, size_t bytes, void *payload) {
  (void)payload;
  return bytes > MOST ? NULL : realloc(old, bytes);
}
static void give(void *memory, void *payload) {
  (void)payload;
  free(memory);
}
static const situ_allocator allocator = { .allocate = take, .reallocate = take_again, .release = give };

const situ_allocator *api_allocator(void) { return &allocator; }

/* OpenCL on a CPU has the machine's memory, and fills gigabytes of it for seconds. */
static bool has_much(situ_device device) { return device.kind == SITU_OPENCL || device.kind == SITU_CUDA; }

void api_begin(void) {
  situ_error_mode(SITU_ERROR_QUIET);
  situ_set_allocator(&allocator);
  for (int i = 0; i < 2; i++) SITU_IGNORE(situ_sim_budget(i, MOST));
  if (has_much(test_device())) SITU_IGNORE(situ_set_memory_limit(test_device(), MOST));
}

/* ---- after the call ---- */

static void give_back(void *managed, situ_dlpack_abi abi) {
  situ_dlpack_versioned *versioned = managed;
  situ_dlpack_unversioned *unversioned = managed;
  if (abi == SITU_DLPACK_VERSIONED) versioned->deleter(versioned);
  else unversioned->deleter(unversioned);
}

static void end_what_began(api_world *w, void *result, bool failed) {
  void *first = w->begun;
  const char *f = api_name(w);
  if (w->function->count && strstr(w->function->parameter[0].type, "situ_scope *") && situ_scope_is_open(first))
    SITU_IGNORE(situ_scope_end(first));
  if (api_is(f, "default_device_begin")) situ_default_device_end(first);
  if (api_is(f, "autocast_begin")) situ_autocast_end(first);
  if (api_is(f, "policy_begin")) situ_policy_end(first);
  if (strncmp(f, "ledger_", 7) == 0 && ((situ_ledger *)first)->open) SITU_IGNORE(situ_ledger_end(first));
  if (api_is(f, "profile_begin")) situ_profile_free(situ_profile_end());
  if (api_is(f, "graph_capture_begin graph_values_begin")) situ_graph_free(situ_graph_capture_end());
  if (strncmp(f, "export_trace_", 13) == 0) (void)situ_export_trace_end(first);
  if (strncmp(f, "dry_", 4) == 0 && !api_is(f, "dry_note dry_pause dry_resume")) SITU_IGNORE(situ_dry_end(first));
  if (api_is(f, "set drop")) situ_drop(first);
  if (api_is(f, "tree_set") && !*(bool *)result) situ_tree_free(*(situ_tree **)w->argument[1]);
  if (api_is(f, "tree_set")) situ_tree_free(*(situ_tree **)first);
  if (api_is(f, "random_split") && !failed) {
    situ_dataset_free(**(situ_dataset ***)w->argument[3]);
    situ_dataset_free(**(situ_dataset ***)w->argument[4]);
  }
  if (api_is(f, "comm_begin") && !failed) SITU_IGNORE(situ_comm_wait(**(situ_comm_request ***)w->argument[2]));
  if (api_is(f, "nn_alloc") && !failed) situ_nn_free(situ_nn_done(*(void **)result));
  if (api_is(f, "data_lease data_map") && !failed) SITU_IGNORE(situ_data_release(*(situ_tensor **)w->argument[0]));
  if (api_is(f, "to_dlpack to_dlpack_for") && !failed) give_back(*(void **)result, *(situ_dlpack_abi *)w->argument[1]);
  if (api_is(f, "retain duplicate") && !failed) situ_release(*(situ_tensor **)result);
  if (api_is(f, "place_check") && !failed) situ_place_report_free(*(void **)w->argument[3]);
  if (api_is(f, "place_mend") && !failed) situ_place_fixes_free(*(void **)w->argument[3]);
  if (api_is(f, "place_fit") && !failed) situ_place_layout_free(*(void **)w->argument[5]);
  SITU_IGNORE(situ_set_default_device((situ_device){ 0 }));
  const situ_device limited[] = { w->device, { SITU_CPU, 0 }, { SITU_SIM, 0 }, { SITU_SIM, 1 } };
  for (size_t i = 0; i < COUNT(limited) && api_is(f, "set_memory_limit"); i++)
    SITU_IGNORE(situ_set_memory_limit(limited[i], has_much(limited[i]) ? MOST : 0));
  SITU_IGNORE(situ_set_float32_matmul_precision(SITU_PRECISION_HIGHEST));
  situ_error_mode(SITU_ERROR_QUIET);
  situ_error_log(NULL, NULL);
  situ_fail_allocation(0, false);
  if (api_is(f, "set_allocator")) situ_set_allocator(&allocator);
  if (api_is(f, "release"))
    for (int i = 0; i < w->tensor_count; i++)
      if (w->tensor[i] != *(situ_tensor **)w->argument[0]) situ_release(w->tensor[i]);
  for (int i = 0; i < 2 && strncmp(f, "sim_", 4) == 0; i++) {
    SITU_IGNORE(situ_sim_reset(i));
    SITU_IGNORE(situ_sim_budget(i, MOST));
  }
}

/* What of a call's result is the caller's. */
static void free_result(const api_world *w, void *result) {
  void *pointer = *(void **)result;
  const char *type = w->function->returns, *f = api_name(w);
  if (!pointer || strncmp(type, "const ", 6) == 0) return;
  for (int i = 0; i < w->owned_count; i++)
    if (w->owned[i].object == pointer && w->owned[i].owner != API_CHAIN && !api_is(f, "nn_retain")) return;
  if (strstr(type, "situ_nn_module") && !api_is(f, "nn_at nn_get nn_get_submodule nn_add_child")) situ_nn_free(pointer);
  if (strstr(type, "situ_tree")) situ_tree_free(pointer);
  if (strstr(type, "situ_optim ")) situ_optim_free(pointer);
  if (strstr(type, "situ_lr_scheduler ")) situ_lr_scheduler_free(pointer);
  if (strstr(type, "situ_grad_scaler")) situ_grad_scaler_free(pointer);
  if (strstr(type, "situ_dataset")) situ_dataset_free(pointer);
  if (strstr(type, "situ_data_loader")) situ_data_loader_free(pointer);
  if (strstr(type, "situ_sampler")) situ_sampler_free(pointer);
  if (strstr(type, "situ_graph")) situ_graph_free(pointer);
  if (strstr(type, "situ_profile ")) situ_profile_free(pointer);
  if (strstr(type, "situ_safetensors")) situ_safetensors_close(pointer);
  if (strstr(type, "situ_gguf ")) situ_gguf_close(pointer);
  if (strstr(type, "situ_snapshot")) situ_snapshot_free(pointer);
  if (strstr(type, "situ_move_plan")) situ_move_plan_free(pointer);
  if (strstr(type, "situ_comm ")) situ_comm_free(pointer);
  if (strstr(type, "situ_comm_sim ")) situ_comm_sim_free(pointer);
  if (strstr(type, "situ_dist_ddp")) situ_dist_ddp_free(pointer);
  if (strstr(type, "situ_dist_zero")) situ_dist_zero_free(pointer);
  if (strstr(type, "situ_dist_tp")) situ_dist_tp_free(pointer);
  if (strstr(type, "situ_dist_pipeline")) situ_dist_pipeline_free(pointer);
  if (strstr(type, "situ_optim_loading")) situ_optim_load_end(pointer, false);
  if (strstr(type, "situ_lr_scheduler_loading")) situ_lr_scheduler_load_end(pointer, false);
}

void api_after(api_world *w, void *result, bool failed) {
  end_what_began(w, result, failed);
  if (w->function->result == API_POINTER) free_result(w, result);
  while (w->owned_count > 0) {
    const api_owned *o = &w->owned[--w->owned_count];
    if (o->owner == API_KEPT) o->release(o->object);
  }
  situ_error_clear();
}
