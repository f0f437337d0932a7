/* What is wrong with a handle: NULL, freed, of another kind, never one.
   SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "support/api/api.h"
#include "support/test.h"
#include "situ/sys/explain.h"
#include "situ/sys/op.h"

static const char handles[] =
    "situ_tensor situ_nn_module situ_tree situ_optim situ_lr_scheduler situ_grad_scaler situ_dataset situ_data_loader situ_sampler "
    "situ_graph situ_safetensors situ_gguf situ_snapshot situ_move_plan situ_optim_loading situ_lr_scheduler_loading "
    "situ_comm situ_comm_request situ_comm_sim situ_dist_ddp situ_dist_zero situ_dist_tp "
    "situ_dist_pipeline";

/* Structs of which the library makes the ones that there are. */
static const char made_by_the_library[] =
    "situ_op situ_call situ_grad_call situ_batch_call situ_work situ_view_desc situ_storage situ_host situ_module_lore";

static bool is_handle(const char *type) {
  char pointee[128];
  return type[strlen(type) - 1] == '*' && api_is(api_pointee(type, pointee), handles);
}

static void *freed(api_world *w, const char *type) {
  if (strstr(type, "situ_tensor")) {
    situ_scope inside;
    situ_scope_begin(&inside);
    situ_tensor *t = situ_ones(SITU_SHAPE(2, 2), &(situ_options){ .device = w->device });
    SITU_IGNORE(situ_scope_end(&inside));
    return t;
  }
  void *object = api_object(w, type);
  const api_owned last = w->owned[--w->owned_count];
  assert_ptr_equal(last.object, object);
  last.release(object);
  return object;
}

/* The k-th bad value in place of the handle at `at`; false: there are no more. */
static bool spoil(api_world *w, const char *type, void **at, const char *path, int k) {
  static const char *const what[] = { "NULL", "freed", "of another kind", "zeroed memory" };
  if (k >= 4) return false;
  const bool tensor = strstr(type, "situ_tensor");
  void *bad = k == 0   ? NULL
              : k == 1 ? freed(w, type)
              : k == 2 ? api_object(w, tensor ? "situ_nn_module *" : "situ_tensor *")
                       : api_memory(w, 1024);
  (void)api_keep(w, *at);
  *at = bad;
  w->must_fail =
      k > 0 && !api_is(api_name(w), "fail_blamed"); /* an error it is already, which leaves such a tensor out */
  (void)snprintf(w->text, sizeof w->text, "%s %s", path, what[k]);
  return true;
}

/* A struct that the caller fills in. */
static const api_struct *filled_struct(const api_parameter *p) {
  char pointee[128];
  const bool filled = strncmp(p->type, "const ", 6) == 0 || strstr(p->type, "_checkpoint");
  return filled && !api_is(api_pointee(p->type, pointee), made_by_the_library) ? api_find_struct(p->type) : NULL;
}

/* The handles in one, or k is made smaller by their number of values. */
static bool spoil_field(api_world *w, const api_parameter *p, void *at, int *k) {
  const api_struct *s = filled_struct(p);
  if (!s) return false;
  for (int f = 0; f < s->count; f++) {
    if (!is_handle(s->field[f].type)) continue;
    char path[128];
    (void)snprintf(path, sizeof path, "%s->%s", p->name, s->field[f].name);
    if (*k < 4) return spoil(w, s->field[f].type, (void **)(void *)((char *)at + s->field[f].offset), path, *k);
    *k -= 4;
  }
  return false;
}

bool api_bad_handle(api_world *w, int i, int k) {
  const api_parameter *p = &w->function->parameter[i];
  void **at = w->argument[i];
  const size_t length = strlen(p->type);
  if (is_handle(p->type)) return spoil(w, p->type, at, p->name, k);
  if (api_is(api_name(w), "nn_done")) return spoil(w, "situ_nn_module *", at, p->name, k);
  if (p->type[length - 1] != '*' || !*at) return false;
  if (length > 8 && strcmp(p->type + length - 8, "*const *") == 0) {
    char item[128];
    (void)snprintf(item, sizeof item, "%.*s", (int)(length - 7), p->type);
    return is_handle(item) && **(void ***)at && spoil(w, item, *at, p->name, k);
  }
  if (api_is(api_name(w), "set drop tree_set") && i == 0) /* what is in the slot; NULL is nothing */
    return spoil(w, api_is(api_name(w), "tree_set") ? "situ_tree *" : "situ_tensor *", *at, "*slot", k);
  return spoil_field(w, p, *at, &k);
}

/* Where NULL is not an operand that may be missing. */
static const struct {
  const char *functions, *handle;
} none_is_meant[] = {
  { "set tree_set", "*slot" },         /* what it held */
  { "scope_return", "tensor" },        /* the scope ends all the same */
  { "set_grad", "grad" },              /* frees the gradient, which a program does behind an error too */
  { "grad_scaler_get_scale", "s" },    /* without one the scale is 1 */
  { "conv2d_by linear_by", "packed" }, /* the values are the same without it */
  { "fail_blamed", "list->tensor" },   /* an operand of a call that has failed */
  { "nn_keep_fields", "inputs" },      /* the library's own calls */
  { "optimizer_step optimizer_check", "list->master" },
  /* one part stands for another there, and a run that goes on after an error may still be saved */
  { "checkpoint_save checkpoint_load dist_checkpoint_save dist_checkpoint_load", NULL },
};
static bool is_meant(const api_world *w) {
  for (size_t i = 0; i < sizeof none_is_meant / sizeof *none_is_meant; i++) {
    const char *handle = none_is_meant[i].handle;
    if (api_is(api_name(w), none_is_meant[i].functions) && (!handle || !strncmp(w->text, handle, strlen(handle))))
      return true;
  }
  return false;
}

bool api_failed_handle(api_world *w, int i, int k) {
  if (!api_bad_handle(w, i, 4 * k)) return false;
  w->failed = !is_meant(w);
  return true;
}

/* Whether a handle of an options struct is left out, which may be what a failed call returned. */
static bool leaves_out(const api_world *w) {
  for (int i = 0; i < w->function->count; i++) {
    const api_struct *s = filled_struct(&w->function->parameter[i]);
    const char *at = s ? *(char **)w->argument[i] : NULL;
    for (int f = 0; s && at && f < s->count; f++)
      if (is_handle(s->field[f].type) && !*(void *const *)(const void *)(at + s->field[f].offset)) return true;
  }
  return false;
}

/* What reports the error of another call. */
static const char reports_errors[] = "scope_end export export_dynamic onnx_export";

bool api_failed_before(api_world *w, int i, int k) {
  w->failed = w->must_work = !leaves_out(w) && !api_is(api_name(w), reports_errors);
  (void)snprintf(w->text, sizeof w->text, "after an error");
  return i == 0 && k == 0;
}
