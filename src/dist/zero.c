/* ZeroRedundancyOptimizer: each rank steps its share of all elements, then all ranks exchange them.
   SPDX-License-Identifier: MIT */
#include "dist/zero.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/alloc.h"

static const char new_op[] = "dist_zero_new";
static const char step_op[] = "dist_zero_step";
static const char itself[] = "this communicator";

situ_tensor *situ__zero_elements(situ_tensor *t, int64_t from, int64_t count) {
  return situ_detach(situ_narrow(situ_reshape(situ_detach(t), SITU_SHAPE(situ_numel(t))), 0, from, count));
}

/* ---- dividing ---- */

static int64_t all_elements(const situ_tree *parameters) {
  int64_t total = 0;
  for (int64_t i = 0; i < situ_tree_count(parameters); i++) total += situ_numel(situ_tree_tensor_at(parameters, i));
  return total;
}

static bool can_divide(const situ_dist_zero *z, situ_dist_make_optim make) {
  const char *rule = make == situ_optim_adafactor ? "Adafactor"
                     : make == situ_optim_muon    ? "Muon"
                     : make == situ_optim_lbfgs   ? "LBFGS"
                                                  : NULL;
  if (rule)
    return situ__fail(SITU_E_UNSUPPORTED, new_op,
                      "%s computes an element from others of its parameter, which another rank may own", rule),
           false;
  for (int64_t i = 0; i < situ_tree_count(z->parameters); i++) {
    if (situ_is_contiguous(situ_tree_tensor_at(z->parameters, i))) continue;
    situ__fail(SITU_E_UNSUPPORTED, new_op, "%.90s is not contiguous, so its elements have no order in memory",
               situ_tree_key(z->parameters, i));
    return false;
  }
  const int64_t total = all_elements(z->parameters);
  if (total >= z->comm->size) return true;
  situ__fail(SITU_E_ARG, new_op, "the parameters have %" PRId64 " elements, and each of %d ranks needs one", total,
             z->comm->size);
  return false;
}

static bool add_part(situ_dist_zero *z, situ__zero_part part) {
  part.values = situ__zero_elements(situ_tree_tensor_at(z->parameters, part.parameter), part.from, part.count);
  if (!situ_retain(part.values)) return false;
  z->parts[z->part_count++] = part;
  return true;
}

/* Every parameter has a part for each rank that owns some of it. */
static bool divide(situ_dist_zero *z) {
  const int64_t count = situ_tree_count(z->parameters), total = all_elements(z->parameters);
  const size_t most = (size_t)(count + z->comm->size) * sizeof *z->parts;
  if (!(z->parts = situ__alloc(most))) return situ__no_memory(new_op, most), false;
  int64_t at = 0, own = 0;
  int rank = 0;
  for (int64_t i = 0; i < count; i++) {
    const int64_t end = at + situ_numel(situ_tree_tensor_at(z->parameters, i)), begin = at;
    while (at < end) {
      const int64_t limit = situ__dist_first(total, rank + 1, z->comm->size), to = limit < end ? limit : end;
      if (!add_part(z, (situ__zero_part){ i, at - begin, to - at, rank, own++, NULL })) return false;
      if ((at = to) == limit) rank++, own = 0;
    }
  }
  return true;
}

/* This rank's parts, under names that say which elements they are. */
static situ_tree *own_parts(const situ_dist_zero *z) {
  situ_tree *own = situ_tree_dict();
  for (int64_t k = 0; k < z->part_count && own; k++) {
    const situ__zero_part *p = &z->parts[k];
    char name[192];
    if (p->rank != z->comm->rank) continue;
    (void)snprintf(name, sizeof name, "%.120s[%" PRId64 ":%" PRId64 "]", situ_tree_key(z->parameters, p->parameter),
                   p->from, p->from + p->count);
    own = situ_tree_put(own, name, situ_tree_tensor(p->values));
  }
  return own;
}

/* ---- the start ---- */

/* Compares numbers with rank 0's: parts of other sizes could not be exchanged. */
static bool same_parameters(const situ_dist_zero *z) {
  const int64_t mine[2] = { situ_tree_count(z->parameters), all_elements(z->parameters) };
  int64_t theirs[2] = { mine[0], mine[1] };
  const situ_comm_call call = {
    .op = SITU_COMM_BROADCAST, .dtype = SITU_I64, .count = 2, .send = mine, .receive = theirs, .name = "parameters"
  };
  if (situ__comm_call(new_op, z->comm, &call) != SITU_OK) return false;
  if (mine[0] == theirs[0] && mine[1] == theirs[1]) return true;
  situ__fail(SITU_E_COMM, new_op,
             "rank %d has %" PRId64 " parameters of %" PRId64 " elements, rank 0 %" PRId64 " of %" PRId64,
             z->comm->rank, mine[0], mine[1], theirs[0], theirs[1]);
  situ_comm_abort(z->comm, situ_error_message());
  return false;
}

static void free_zero(situ_dist_zero *z) {
  situ_optim_free(z->optim);
  for (int64_t k = 0; k < z->part_count; k++) situ_release(z->parts[k].values);
  situ__free(z->parts);
  situ_tree_free(z->parameters);
  situ__handle_free(z, sizeof *z, NULL);
}

static bool start(situ_dist_zero *z, situ_dist_make_optim make, const situ_optim_options *options) {
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  bool good = can_divide(z, make);
  if (good) {
    SITU__ALONE(in, &z->comm->alone, new_op, itself);
    good = in && same_parameters(z);
  }
  situ_tree *own = good && divide(z) ? own_parts(z) : NULL;
  good = own && (z->optim = make(own, options));
  return situ_scope_end(&s) == SITU_OK && good;
}

situ_dist_zero *situ_dist_zero_new(situ_tree *parameters, situ_comm *comm, situ_dist_make_optim make,
                                   const situ_optim_options *options) {
  SITU__MADE_OF_OPS(new_op);
  situ_tree *flat = situ__comm_given(new_op, comm) ? situ_tree_flatten(parameters) : NULL;
  situ_tree_free(parameters);
  if (!flat) return NULL;
  situ_dist_zero *z = make ? situ__handle_new(SITU__A_ZERO, sizeof *z) : NULL;
  if (!z) {
    if (make) situ__no_memory(new_op, sizeof *z);
    else situ__null(new_op, "make");
    situ_tree_free(flat);
    return NULL;
  }
  z->comm = comm;
  z->parameters = flat;
  if (start(z, make, options)) return z;
  free_zero(z);
  return NULL;
}

/* ---- a step ---- */

/* Gives this rank's parts the gradients of their elements; with `on` false takes them away. */
static bool set_gradients(const situ_dist_zero *z, bool on) {
  for (int64_t k = 0; k < z->part_count; k++) {
    const situ__zero_part *p = &z->parts[k];
    situ_tensor *whole = situ_tree_tensor_at(z->parameters, p->parameter), *grad = on ? situ_grad(whole) : NULL;
    if (p->rank != z->comm->rank) continue;
    if (grad && !(grad = situ__zero_elements(grad, p->from, p->count))) return false;
    if (situ_set_grad(p->values, grad) != SITU_OK) return false;
  }
  return true;
}

static bool step_own(const situ_dist_zero *z) {
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  const bool good = set_gradients(z, true) && situ_optim_step(z->optim) == SITU_OK;
  const bool dropped = set_gradients(z, false);
  return situ_scope_end(&s) == SITU_OK && good && dropped;
}

static situ_status exchange(const situ_dist_zero *z) {
  for (int64_t k = 0; k < z->part_count; k++) {
    const situ__zero_part *p = &z->parts[k];
    if (situ_grad(situ_tree_tensor_at(z->parameters, p->parameter)))
      SITU_TRY(situ_comm_broadcast(z->comm, p->values, p->rank, situ_tree_key(z->parameters, p->parameter)));
  }
  return situ_comm_barrier(z->comm, "the end of a step");
}

situ_status situ_dist_zero_step(situ_dist_zero *zero) {
  if (!situ__zero_given(step_op, zero)) return situ_error();
  if (!step_own(zero)) {
    situ_comm_abort(zero->comm, situ_error_message());
    return situ_error();
  }
  return exchange(zero);
}

situ_status situ_dist_zero_zero_grad(situ_dist_zero *zero) {
  if (!situ__zero_given("dist_zero_zero_grad", zero)) return situ_error();
  for (int64_t i = 0; i < situ_tree_count(zero->parameters); i++)
    SITU_TRY(situ_set_grad(situ_tree_tensor_at(zero->parameters, i), NULL));
  return SITU_OK;
}

situ_optim *situ_dist_zero_optim(const situ_dist_zero *zero) {
  return situ__zero_given("dist_zero_optim", zero) ? zero->optim : NULL;
}

void situ_dist_zero_free(situ_dist_zero *zero) {
  if (zero && situ__zero_given("dist_zero_free", zero)) free_zero(zero);
}
