/* The twin of an optimiser that ranks have in parts: its steps in a dry run, on the copy of a module.
   SPDX-License-Identifier: MIT */
#include "base/alloc.h"
#include "base/map.h"
#include "zero.h"
#include "situ/sys/optimizer.h"

static const char op[] = "dist_zero_new";

static void free_twin(void *twin) {
  situ_dist_zero *z = twin;
  situ_comm *comm = z->comm;
  situ__zero_free(z);
  situ_comm_free(comm);
}

/* Maps the parameters of a module to those of its copy. Returns false after recording an error. */
static bool map_parameters(const situ_twin_module *module, situ__map *copies) {
  bool good = true;
  for (int64_t i = 0; i < situ_tree_count(module->from) && good; i++)
    good = situ__map_put(copies, situ_tree_tensor_at(module->from, i), situ_tree_tensor_at(module->to, i));
  if (!good) situ__no_memory(op, (size_t)situ_tree_count(module->from) * sizeof(void *));
  return good;
}

/* Group g of another optimiser, with the parameters of the copy. NULL after recording an error. */
static situ_tree *twins_of(const situ_dist_zero *z, int g, const situ__map *copies) {
  situ_tree *group = situ_tree_dict();
  for (int64_t i = g ? z->group_ends[g - 1] : 0; i < z->group_ends[g] && group; i++) {
    situ_tensor *copy = situ__map_get(copies, situ_tree_tensor_at(z->parameters, i));
    if (copy) {
      group = situ_tree_put(group, situ_tree_key(z->parameters, i), situ_tree_tensor(copy));
      continue;
    }
    situ__fail(SITU_E_STATE, op, "%.90s is not a parameter of the module that is checked",
               situ_tree_key(z->parameters, i));
    situ_tree_free(group);
    return NULL;
  }
  return group;
}

static bool add_groups(situ_dist_zero *z, const situ_dist_zero *like, const situ_twin_module *module) {
  situ__map copies = { 0 };
  bool good = map_parameters(module, &copies);
  for (int g = 0; g < like->group_count && good; g++) {
    situ_tree *group = twins_of(like, g, &copies);
    good = group && situ__zero_add_twins(op, z, group, like);
    situ_tree_free(group);
  }
  situ__map_free(&copies);
  return good;
}

static bool make_optim(situ_dist_zero *z, const situ_dist_zero *like) {
  situ_tree *from = situ__zero_own_parts(like, 0), *to = from ? situ__zero_own_parts(z, 0) : NULL;
  z->optim = to ? situ_optim_twin(like->optim, from, to) : NULL;
  situ_tree_free(from);
  situ_tree_free(to);
  return z->optim;
}

static void *make_twin(void *self, const situ_twin_module *module) {
  const situ_dist_zero *like = self;
  if (like->parts_gradients && (!like->ddp || !module->trainer))
    return situ__fail(SITU_E_STATE, op, "the gradients of the optimiser are not those of the module that is checked"),
           NULL;
  situ_dist_zero *z = situ__handle_new(SITU__A_ZERO, sizeof *z);
  if (!z) return situ__no_memory(op, sizeof *z), NULL;
  z->parts_gradients = like->parts_gradients;
  z->ddp = like->parts_gradients ? module->trainer : NULL;
  z->comm = situ__comm_rehearsal(op, like->comm);
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  const bool good = z->comm && (!like->shards || situ__zero_begin_shards_like(op, z, like)) &&
                    add_groups(z, like, module) && make_optim(z, like);
  if (situ_scope_end(&s) == SITU_OK && good) return z;
  free_twin(z);
  return NULL;
}

static situ_status step(void *twin) {
  const situ_status status = situ__zero_step(twin, 1);
  return status == SITU_OK ? situ_dist_zero_zero_grad(twin) : status;
}

const situ_trainer situ__zero_trainer = { make_twin, free_twin, NULL, NULL, step };
