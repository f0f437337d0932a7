/* Collectives with a derivative: each one's backward is another one's forward (Shoeybi et al., arXiv:1909.08053).
   SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/size.h"
#include "comm.h"
#include "situ/ops.h"
#include "situ/parallel.h"
#include "tree.h"

typedef enum kind { COPY_TO = 0, REDUCE_FROM, SCATTER_TO, GATHER_FROM } kind;

/* A recorded call. */
typedef struct collective {
  kind what;
  situ_comm *comm;
  int dim; /* SCATTER_TO, GATHER_FROM */
  char name[SITU__COMM_NAME];
} collective;

static situ_tensor *run(kind what, situ_tensor *x, int dim, situ_comm *comm, const char *name);

/* ---- values ---- */

/* Adds rows [lo, hi). */
static situ_tensor *add_rows(situ_tensor *rows, int64_t lo, int64_t hi) {
  if (hi - lo == 1) return situ_select(rows, 0, lo);
  const int64_t mid = situ__dist_split(lo, hi);
  situ_tensor *left = add_rows(rows, lo, mid);
  return situ_add(left, add_rows(rows, mid, hi));
}

/* Each rank adds one part of all, and gives it to all: the bytes of a ring, and an order that no engine chooses. */
static situ_tensor *add_ranks(situ_tensor *x, situ_comm *comm, const char *name) {
  const int64_t count = situ_numel(x), part = situ__ceil_div(count, comm->size), more = part * comm->size - count;
  const situ_dtype dtype = situ_dtype_of(x);
  if (!count) return situ_clone(x);
  /* Two terms have one order, and engines add all dtypes but these. */
  if (comm->size == 2 && dtype != SITU_F16 && dtype != SITU_BF16 && dtype != SITU_BOOL)
    return situ__comm_sum("dist_reduce_from", comm, x, name);
  situ_tensor *flat = situ_reshape(x, SITU_SHAPE(count));
  if (more) flat = situ_pad(flat, SITU_DIMS(0, more), SITU_PAD_CONSTANT, 0);
  situ_tensor *rows = situ_comm_all_to_all(comm, situ_reshape(flat, SITU_SHAPE(comm->size, part)), name);
  if (dtype == SITU_F16 || dtype == SITU_BF16) rows = situ_to_dtype(rows, SITU_F32);
  situ_tensor *sum = situ_to_dtype(add_rows(rows, 0, comm->size), dtype);
  flat = situ_reshape(situ_comm_all_gather(comm, sum, name), SITU_SHAPE(part * comm->size));
  return situ_reshape(situ_narrow(flat, 0, 0, count), situ_shape_of(x));
}

static situ_tensor *own_part(situ_tensor *x, int dim, const situ_comm *comm) {
  const int64_t part = situ_size(x, dim) / comm->size;
  return situ_clone(situ_narrow(x, dim, comm->rank * part, part));
}

static situ_tensor *join_parts(situ_tensor *x, int dim, situ_comm *comm, const char *name) {
  situ_shape shape = situ_shape_of(x);
  shape.dim[dim] *= comm->size;
  situ_tensor *parts = situ_comm_all_gather(comm, situ_contiguous(x), name);
  return situ_reshape(situ_movedim(parts, SITU_DIMS(0), SITU_DIMS(dim)), shape);
}

static situ_tensor *values_of(const collective *c, situ_tensor *x) {
  switch (c->what) {
  case REDUCE_FROM: return add_ranks(x, c->comm, c->name);
  case SCATTER_TO: return own_part(x, c->dim, c->comm);
  case GATHER_FROM: return join_parts(x, c->dim, c->comm, c->name);
  default: return x;
  }
}

/* ---- calls ---- */

static situ_status forward(situ_tensor *const *in, int ins, situ_tensor **out, int outs, void *payload) {
  (void)ins, (void)outs;
  out[0] = values_of(payload, in[0]);
  return out[0] ? SITU_OK : situ_error();
}

/* The derivative is a call of its own, so that it has one, too. */
static situ_status backward(situ_tensor *const *in, int ins, situ_tensor *const *out, int outs,
                            situ_tensor *const *grad_out, situ_tensor **grad_in, void *payload) {
  static const kind derivative[] = { REDUCE_FROM, COPY_TO, GATHER_FROM, SCATTER_TO };
  const collective *c = payload;
  (void)in, (void)ins, (void)out, (void)outs;
  grad_in[0] = run(derivative[c->what], grad_out[0], c->dim, c->comm, c->name);
  return grad_in[0] ? SITU_OK : situ_error();
}

static void release(void *payload) { situ__free(payload); }

static const situ_function functions[] = { { "dist_copy_to", forward, backward, release },
                                           { "dist_reduce_from", forward, backward, release },
                                           { "dist_scatter_to", forward, backward, release },
                                           { "dist_gather_from", forward, backward, release } };

static bool valid(kind what, situ_tensor *x, int *dim, const situ_comm *comm) {
  const char *op = functions[what].name;
  if (!situ__comm_given(op, comm) || !situ__valid(op, "x", x, SITU__A_TENSOR)) return false;
  if (what < SCATTER_TO) return true;
  const int ndim = situ_dim(x);
  if (*dim < -ndim || *dim >= ndim)
    return situ__fail(SITU_E_INDEX, op, "dim %d of a tensor of %d dimensions", *dim, ndim), false;
  if (*dim < 0) *dim += ndim;
  if (what == GATHER_FROM || situ_size(x, *dim) % comm->size == 0) return true;
  return situ__fail(SITU_E_SHAPE, op, "dimension %d of x has %" PRId64 " elements, which %d ranks do not divide", *dim,
                    situ_size(x, *dim), comm->size),
         false;
}

static situ_tensor *run(kind what, situ_tensor *x, int dim, situ_comm *comm, const char *name) {
  if (!valid(what, x, &dim, comm)) return NULL;
  if (comm->size == 1) return x;
  collective *c = situ__alloc(sizeof *c);
  if (!c) return situ__no_memory(functions[what].name, sizeof *c), NULL;
  *c = (collective){ .what = what, .comm = comm, .dim = dim };
  (void)snprintf(c->name, sizeof c->name, "%.63s", name ? name : "");
  situ_tensor *out;
  return situ_function_apply(&functions[what], &x, 1, &out, 1, c) == SITU_OK ? out : NULL;
}

situ_tensor *situ_dist_copy_to(situ_tensor *x, situ_comm *comm, const char *name) {
  return run(COPY_TO, x, 0, comm, name);
}
situ_tensor *situ_dist_reduce_from(situ_tensor *x, situ_comm *comm, const char *name) {
  return run(REDUCE_FROM, x, 0, comm, name);
}
situ_tensor *situ_dist_scatter_to(situ_tensor *x, int dim, situ_comm *comm, const char *name) {
  return run(SCATTER_TO, x, dim, comm, name);
}
situ_tensor *situ_dist_gather_from(situ_tensor *x, int dim, situ_comm *comm, const char *name) {
  return run(GATHER_FROM, x, dim, comm, name);
}
