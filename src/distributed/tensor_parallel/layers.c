/* Layers of which each rank has a part.
   SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdio.h>

#include "base/alloc.h"
#include "situ/sys/op.h"
#include "tp.h"

typedef struct parallel_layer {
  situ_nn_module base;
  situ_tensor *weight, *bias;
  situ__tp_layer its;
  int rank, size; /* of its communicator, which may be freed before the layer */
} parallel_layer;

/* The layer's path, which all ranks compare at each collective call. */
static const char *running(char name[SITU__COMM_NAME]) {
  char path[256];
  (void)snprintf(name, SITU__COMM_NAME, "%.63s", situ_nn_running(path, sizeof path));
  return name;
}

static int print_layer(const situ_nn_module *self, char *buffer, size_t size) {
  const parallel_layer *m = (const parallel_layer *)self;
  return snprintf(buffer, size, "%" PRId64 ", %" PRId64 ", %s, part %d of %d", situ_size(m->weight, 0),
                  situ_size(m->weight, 1), m->its.style == SITU_DIST_COLWISE ? "colwise" : "rowwise", m->rank, m->size);
}

static bool compare(situ_call *c) { return c != NULL; }

/* For a layer that computes with its input before it does with its weight: if they are on two devices, an op of both is
   refused, which names the program's variable, or copies. Returns the input, in a dry run one that is where a mended
   program has it; NULL after recording an error. */
static situ_tensor *beside_weight(const char *name, const parallel_layer *m, situ_tensor *x) {
  const situ_op op = { .name = name,
                       .operand = { { "input", 0 }, { "weight", 0 }, { "bias", SITU_OPTIONAL } },
                       .flags = SITU_OP_NO_GRAD | SITU_OP_COMPOSED,
                       .infer = situ_infer_like,
                       .forward = compare };
  if (!x || situ_device_equal(situ_device_of(x), situ_device_of(m->weight))) return x;
  situ_tensor *in[] = { x, m->weight, m->bias }, *met = situ_op_run(&op, in, 3, NULL, NULL);
  return met && !situ_is_dry() ? x : met;
}

/* ---- Linear ---- */

static situ_tensor *linear_forward(situ_nn_module *self, situ_tensor *x) {
  const parallel_layer *m = (const parallel_layer *)self;
  char name[SITU__COMM_NAME];
  running(name);
  if (m->its.style == SITU_DIST_COLWISE) {
    situ_tensor *y =
        situ_linear_activation(situ_dist_copy_to(x, m->its.comm, name), m->weight, m->bias, m->its.activation);
    return m->its.replicate ? situ_dist_gather_from(y, -1, m->its.comm, name) : y;
  }
  x = beside_weight("linear", m, x);
  if (m->its.replicate && x) x = situ_dist_scatter_to(x, -1, m->its.comm, name);
  situ_tensor *y = situ_dist_reduce_from(situ_linear(x, m->weight, NULL), m->its.comm, name);
  return m->bias ? situ_add(y, m->bias) : y;
}

static const situ_nn_type linear_type = {
  .name = "ParallelLinear", .size = sizeof(parallel_layer), .forward = linear_forward, .extra_repr = print_layer
};

/* ---- Embedding ---- */

/* Indices into this rank's rows. `is_here` gets which of them are its own: the others read row 0, and those of no rank
   stay, so that all ranks refuse them alike. */
static situ_tensor *own_indices(const parallel_layer *m, situ_tensor *x, situ_tensor **is_here) {
  const double rows = (double)situ_size(m->weight, 0), all = rows * m->size;
  situ_tensor *index = situ_sub_scalar(x, rows * m->rank), *zero = situ_zeros_like(x, NULL);
  *is_here = situ_logical_and(situ_ge_scalar(index, 0), situ_lt_scalar(index, rows));
  situ_tensor *exists = situ_logical_and(situ_ge_scalar(x, 0), situ_lt_scalar(x, all));
  return situ_where(*is_here, index, situ_where(exists, zero, x));
}

static situ_tensor *embedding_forward(situ_nn_module *self, situ_tensor *x) {
  const parallel_layer *m = (const parallel_layer *)self;
  char name[SITU__COMM_NAME];
  running(name);
  if (m->its.style == SITU_DIST_COLWISE) {
    situ_tensor *y = situ_embedding(x, m->weight, &m->its.embedding);
    return m->its.replicate ? situ_dist_gather_from(y, -1, m->its.comm, name) : y;
  }
  if (!(x = beside_weight("embedding", m, x))) return NULL;
  situ_tensor *is_here, *index = own_indices(m, x, &is_here);
  situ_tensor *y = situ_embedding(index, m->weight, &m->its.embedding);
  y = situ_masked_fill(y, situ_logical_not(situ_unsqueeze(is_here, -1)), 0);
  return situ_dist_reduce_from(y, m->its.comm, name);
}

static const situ_nn_type embedding_type = {
  .name = "ParallelEmbedding", .size = sizeof(parallel_layer), .forward = embedding_forward, .extra_repr = print_layer
};

/* ---- making ---- */

static situ_nn_module *make(const situ_nn_type *type, const situ__tp_layer *layer) {
  parallel_layer *m = situ_nn_alloc(type);
  if (!m) return NULL;
  m->its = *layer;
  m->its.weight = m->its.bias = NULL; /* the layer's own are its parameters */
  m->rank = layer->comm->rank;
  m->size = layer->comm->size;
  situ_tensor *const parts[2] = { layer->weight, layer->bias };
  bool trains[2] = { false };
  for (int i = 0; i < 2; i++) trains[i] = parts[i] && situ_requires_grad(parts[i]);
  situ_nn_param(m, weight, layer->weight);
  if (layer->bias) situ_nn_param(m, bias, layer->bias);
  for (int i = 0; i < 2; i++)
    if (parts[i] && !situ_requires_grad_(parts[i], trains[i])) m->base.broken = true;
  return situ_nn_done(m);
}

situ_nn_module *situ__tp_linear(const situ__tp_layer *layer) { return make(&linear_type, layer); }

/* The padding row is one of one rank's. */
situ_nn_module *situ__tp_embedding(const situ__tp_layer *layer) {
  situ__tp_layer own = *layer;
  if (own.style == SITU_DIST_ROWWISE && own.embedding.has_padding_idx) {
    const int64_t rows = situ_size(own.weight, 0), row = own.embedding.padding_idx - rows * own.comm->rank;
    own.embedding.has_padding_idx = row >= 0 && row < rows;
    own.embedding.padding_idx = own.embedding.has_padding_idx ? row : 0;
  }
  return make(&embedding_type, &own);
}

/* ---- MultiheadAttention ---- */

/* Self-attention is recognised by one tensor given three times, so each tensor is copied once. */
typedef struct copies {
  situ_comm *comm;
  situ_tensor *from[8], *to[8];
  int count;
} copies;

static situ_tensor *copy_once(situ_tensor *t, void *payload) {
  copies *c = payload;
  char name[SITU__COMM_NAME];
  if (!situ_dtype_is_floating(situ_dtype_of(t))) return t;
  for (int i = 0; i < c->count; i++)
    if (c->from[i] == t) return c->to[i];
  situ_tensor *copy = situ_dist_copy_to(t, c->comm, running(name));
  if (copy && c->count < 8) {
    c->from[c->count] = t;
    c->to[c->count++] = copy;
  }
  return copy;
}

situ_status situ__tp_copy_inputs(situ_nn_module *m, situ_tree **inputs, situ_tree **output, void *comm) {
  copies c = { .comm = comm };
  (void)m, (void)output;
  if (!situ__comm_given("dist_tp", comm)) return situ_error();
  situ_tree *copied = situ_tree_map(*inputs, copy_once, &c);
  if (!copied) return situ_error();
  return situ_tree_set(inputs, copied) ? SITU_OK : situ_error();
}
