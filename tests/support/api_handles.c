/* What is wrong with a handle: NULL, freed, of another kind, never one.
   SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "support/api.h"
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

/* The handles in a struct that the caller fills in, or k is made smaller by their number of values. */
static bool spoil_field(api_world *w, const api_parameter *p, void *at, int *k) {
  char pointee[128];
  const api_struct *s =
      strncmp(p->type, "const ", 6) == 0 || strstr(p->type, "_checkpoint") ? api_find_struct(p->type) : NULL;
  if (!s || api_is(api_pointee(p->type, pointee), made_by_the_library)) return false;
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
