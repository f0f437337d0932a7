/* The running statistics of a model's batch norms, computed anew from a loader's batches.
   SPDX-License-Identifier: MIT */
#include "base/alloc.h"
#include "base/fail.h"
#include "data/data.h"
#include "situ/nn.h"
#include "situ/ops.h"

static const char op[] = "update_bn";

/* The statistics of one batch norm, and what they were. */
typedef struct norm {
  situ_tensor *mean, *var, *batches, *before[3];
} norm;
typedef struct norms {
  norm *list; /* NULL: only count */
  int64_t count;
} norms;

static situ_status collect(const situ_nn_visit *at, void *payload) {
  norms *all = payload;
  if (!situ_nn_batch_norm_average(at->module, true)) return SITU_OK;
  if (all->list) {
    norm *n = &all->list[all->count];
    n->mean = situ_nn_get_tensor(at->module, "running_mean");
    n->var = situ_nn_get_tensor(at->module, "running_var");
    n->batches = situ_nn_get_tensor(at->module, "num_batches_tracked");
    situ_tensor *now[3] = { n->mean, n->var, n->batches };
    for (int k = 0; k < 3; k++)
      if (!(n->before[k] = situ_clone(now[k]))) return situ_error();
  }
  all->count++;
  return SITU_OK;
}
static situ_status end_averages(const situ_nn_visit *at, void *payload) {
  (void)payload;
  (void)situ_nn_batch_norm_average(at->module, false);
  return SITU_OK;
}

static bool walk(situ_nn_module *model, situ_nn_visitor visit, norms *all) {
  const unsigned which = SITU_NN_VISIT_MODULES | SITU_NN_VISIT_ONCE | SITU_NN_VISIT_UNNAMED;
  return situ_nn_walk(model, which, visit, all) == SITU_OK;
}

static bool find(situ_nn_module *model, norms *all) {
  if (!walk(model, collect, all)) return false;
  if (!all->count) return true;
  const size_t bytes = (size_t)all->count * sizeof *all->list;
  if (!(all->list = situ__alloc(bytes))) return situ__no_memory(op, bytes), false;
  all->count = 0;
  return walk(model, collect, all);
}

static bool reset(const norms *all) {
  for (int64_t i = 0; i < all->count; i++) {
    const norm *n = &all->list[i];
    if (!situ_zero_(n->mean) || !situ_fill_(n->var, 1) || !situ_zero_(n->batches)) return false;
  }
  return true;
}

static void restore(const norms *all) {
  for (int64_t i = 0; i < all->count; i++) {
    const norm *n = &all->list[i];
    SITU_IGNORE(situ_copy_(n->mean, n->before[0]) && situ_copy_(n->var, n->before[1]) &&
                        situ_copy_(n->batches, n->before[2])
                    ? SITU_OK
                    : situ_error());
  }
}

static bool run(situ_nn_module *model, const situ_tree *batch, situ_device device) {
  situ_scope s;
  situ_scope_begin(&s);
  situ_tensor *x =
      situ_tree_kind_of(batch) == SITU_TREE_TENSOR ? situ_tree_value(batch) : situ_tree_tensor_at(batch, 0);
  if (x && device.kind) x = situ_to(x, device);
  const bool good = x && situ_nn_forward(model, x);
  return situ_scope_end(&s) == SITU_OK && good;
}

static bool run_all(situ_data_loader *loader, situ_nn_module *model, situ_device device) {
  const situ_tree *batch;
  const uint64_t errors = situ__error_count();
  while ((batch = situ_data_loader_next(loader)))
    if (!run(model, batch, device)) return false;
  return situ__error_count() == errors;
}

static bool update(situ_data_loader *loader, situ_nn_module *model, situ_device device, const norms *all) {
  const bool training = model->training;
  situ_nn_train(model, true);
  const bool good = reset(all) && run_all(loader, model, device);
  situ_nn_train(model, training);
  if (!good) restore(all);
  return good;
}

situ_status situ_optim_update_bn(situ_data_loader *loader, situ_nn_module *model, situ_device device) {
  SITU__MADE_OF_OPS(op);
  if (!situ__valid(op, "loader", loader, SITU__A_LOADER) || !situ__valid(op, "model", model, SITU__A_MODULE))
    return situ_error();
  situ_scope s;
  norms all = { NULL, 0 };
  situ_scope_begin_no_grad(&s);
  const bool good = find(model, &all) && (!all.count || update(loader, model, device, &all));
  (void)walk(model, end_averages, NULL);
  situ__free(all.list);
  SITU_IGNORE(situ_scope_end(&s));
  return good ? SITU_OK : situ_error();
}
