/* What the tests of sharded checkpoints share: a small model with an optimiser that is divided among ranks, of which all
   values follow from one number.
   SPDX-License-Identifier: MIT */
#ifndef SITU_TEST_DIST_SETS_H
#define SITU_TEST_DIST_SETS_H

#include <dirent.h>
#include <stdlib.h>

#include "distributed/world.h"
#include "situ/situ.h"
#include "support/optim.h"

enum { SET_RANKS = 3, SET_MOST = 4 };

typedef struct set_rank {
  situ_nn_module *model;
  situ_dist_zero *zero;
  situ_dist_checkpoint state;
} set_rank;

/* A value for each element of a tensor, which tells it from its neighbours. */
static inline situ_status set_values(situ_tensor *t, double value) {
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  situ_tensor *count = situ_arange(0, (double)situ_numel(t), 1, NULL);
  const situ_status status =
      situ_copy_(t, situ_reshape(situ_add_scalar(count, value), situ_shape_of(t))) ? SITU_OK : situ_error();
  const situ_status ended = situ_scope_end(&s);
  return status == SITU_OK ? ended : status;
}

/* Gives all parameters values that follow from `value`, and the optimiser its state: gradients are the values. */
static inline situ_status set_fill(set_rank *r, double value) {
  situ_tree *parameters = situ_nn_parameters(r->model);
  situ_status status = situ_dist_zero_zero_grad(r->zero);
  for (int64_t i = 0; i < situ_tree_count(parameters) && status == SITU_OK; i++) {
    situ_tensor *p = situ_tree_tensor_at(parameters, i);
    status = set_values(p, value + (double)i);
    if (status == SITU_OK) status = situ_set_grad(p, situ_clone(situ_detach(p)));
  }
  situ_tree_free(parameters);
  if (status == SITU_OK) status = situ_dist_zero_step(r->zero);
  r->state.step = (int64_t)value;
  return status;
}

static inline bool set_begin(set_rank *r, situ_comm *comm, int64_t width) {
  r->model = situ_nn_sequential(situ_nn_linear(5, width, NULL), situ_nn_tanh(), situ_nn_linear(width, 3, NULL));
  r->zero = situ_dist_zero_new(situ_nn_parameters(r->model), comm, situ_optim_sgd, 0.5, OPTIM_MOMENTUM(0.5));
  r->state = (situ_dist_checkpoint){ .model = r->model, .zero = r->zero };
  return r->model && r->zero;
}

static inline void set_end(set_rank *r) {
  situ_dist_zero_free(r->zero);
  situ_nn_free(r->model);
}

/* All bytes that a load may change. */
typedef struct set_picture {
  size_t bytes;
  unsigned char data[4096];
} set_picture;

static inline void set_add(set_picture *p, situ_tensor *t) {
  const size_t bytes = (size_t)situ_numel(t) * situ_dtype_size(situ_dtype_of(t));
  if (p->bytes + bytes > sizeof p->data || situ_copy_to_host(t, p->data + p->bytes, bytes) != SITU_OK) abort();
  p->bytes += bytes;
}

static inline void set_look(set_picture *p, const set_rank *r) {
  memset(p, 0, sizeof *p);
  situ_tree *parameters = situ_nn_parameters(r->model);
  for (int64_t i = 0; i < situ_tree_count(parameters); i++) set_add(p, situ_tree_tensor_at(parameters, i));
  situ_tree_free(parameters);
  situ_optim *o = situ_dist_zero_optim(r->zero);
  for (int64_t i = 0; i < situ_optim_count(o); i++)
    if (situ_optim_state(o, i, 0, NULL)) set_add(p, situ_optim_state(o, i, 0, NULL));
  memcpy(p->data + p->bytes, &r->state.step, sizeof r->state.step);
  p->bytes += sizeof r->state.step;
}

static inline bool set_same(const set_picture *a, const set_picture *b) {
  return a->bytes == b->bytes && memcmp(a->data, b->data, a->bytes) == 0;
}

/* Number of files of a set, or of all that is left of one, in a directory. */
static inline int set_files(const char *directory) {
  int found = 0;
  DIR *list = opendir(directory);
  for (struct dirent *e; list && (e = readdir(list));) found += strcmp(e->d_name, ".") && strcmp(e->d_name, "..");
  if (list) closedir(list);
  return found;
}

#endif
