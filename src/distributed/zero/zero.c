/* ZeroRedundancyOptimizer: each rank steps its share of all elements, then all ranks exchange them.
   SPDX-License-Identifier: MIT */
#include "zero.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "situ/sys/grad.h"
#include "situ/sys/grad_scaler.h"
#include "situ/sys/part.h"
#include "situ/sys/shape.h"

static const char new_op[] = "dist_zero_new";
static const char add_op[] = "dist_zero_add_param_group";
static const char step_op[] = "dist_zero_step";

situ_tensor *situ__zero_elements(situ_tensor *t, int64_t from, int64_t count) {
  return situ_detach(situ_narrow(situ_reshape(situ_detach(t), SITU_SHAPE(situ_numel(t))), 0, from, count));
}

/* ---- dividing ---- */

static int64_t all_elements(const situ_dist_zero *z, const situ_tree *group) {
  int64_t total = 0;
  for (int64_t i = 0; i < situ_tree_count(group); i++) {
    const situ_tensor *t = situ_tree_tensor_at(group, i);
    if (situ__zero_is_divided(z, t)) total += situ_numel(t);
  }
  return total;
}

/* make: of the first group; NULL: a later one. */
static bool can_divide(const char *op, const situ_dist_zero *z, const situ_tree *group, situ_dist_make_optim make) {
  const char *rule = make == situ_optim_adafactor ? "Adafactor"
                     : make == situ_optim_muon    ? "Muon"
                     : make == situ_optim_lbfgs   ? "LBFGS"
                                                  : NULL;
  if (rule)
    return situ__fail(SITU_E_UNSUPPORTED, op,
                      "%s computes an element from others of its parameter, which another rank may own", rule),
           false;
  for (int64_t i = 0; i < situ_tree_count(group); i++) {
    if (situ_is_contiguous(situ_tree_tensor_at(group, i))) continue;
    return situ__fail(SITU_E_UNSUPPORTED, op, "%.90s is not contiguous, so its elements have no order in memory",
                      situ_tree_key(group, i)),
           false;
  }
  const int64_t total = all_elements(z, group);
  if (total >= z->comm->size) return true;
  return situ__fail(SITU_E_ARG, op, "the parameters have %" PRId64 " elements, and each of %d ranks needs one", total,
                    z->comm->size),
         false;
}

const char *situ__zero_part_name(const situ_dist_zero *z, const situ__zero_part *p, char name[SITU__ZERO_NAME]) {
  (void)snprintf(name, SITU__ZERO_NAME, "%.120s[%" PRId64 ":%" PRId64 "]", situ_tree_key(z->parameters, p->parameter),
                 p->from, p->from + p->count);
  return name;
}

situ_tree *situ__zero_own_parts(const situ_dist_zero *z, int64_t first) {
  situ_tree *own = situ_tree_dict();
  for (int64_t k = first; k < z->part_count && own; k++) {
    const situ__zero_part *p = &z->parts[k];
    char name[SITU__ZERO_NAME];
    own = situ_tree_put(own, situ__zero_part_name(z, p, name), situ_tree_tensor(p->values));
  }
  return own;
}

/* ---- parameter groups ---- */

/* What the division depends on. */
static int64_t hash_group(const situ_tree *group) {
  uint64_t hash = 0;
  for (int64_t i = 0; i < situ_tree_count(group); i++) {
    const situ_tensor *t = situ_tree_tensor_at(group, i);
    const uint64_t about[] = { hash, (uint64_t)situ_numel(t), (uint64_t)situ_dtype_of(t),
                               (uint64_t)situ_requires_grad(t) };
    hash = situ__dist_hash(about, sizeof about);
  }
  return (int64_t)hash;
}

/* Compares with rank 0's: other parts could not be exchanged. */
static bool same_parameters(const char *op, const situ_dist_zero *z, const situ_tree *group) {
  const int64_t mine[3] = { situ_tree_count(group), all_elements(z, group), hash_group(group) };
  int64_t theirs[3];
  memcpy(theirs, mine, sizeof theirs);
  const situ_comm_call call = { SITU_COMM_BROADCAST, .dtype = SITU_I64, .count = 3,
                                .send = mine,        .receive = theirs, .name = "parameters" };
  if (situ__comm_call(op, z->comm, &call) != SITU_OK) return false;
  if (memcmp(mine, theirs, sizeof mine) == 0) return true;
  if (mine[0] == theirs[0] && mine[1] == theirs[1])
    situ__fail(SITU_E_COMM, op,
               "rank %d has parameters of other sizes or dtypes than rank 0, or other ones require a gradient",
               z->comm->rank);
  else
    situ__fail(SITU_E_COMM, op,
               "rank %d has %" PRId64 " parameters of %" PRId64 " elements, rank 0 %" PRId64 " of %" PRId64,
               z->comm->rank, mine[0], mine[1], theirs[0], theirs[1]);
  situ_comm_abort(z->comm, situ_error_message());
  return false;
}

/* The parameters with those of the group behind them. Names of lists ("0") get the group's number. NULL after recording
   an error. */
static situ_tree *join_parameters(const char *op, const situ_dist_zero *z, const situ_tree *group) {
  situ_tree *all = z->parameters ? situ_tree_copy(z->parameters) : situ_tree_dict();
  for (int64_t i = 0; i < situ_tree_count(group) && all; i++) {
    situ_tensor *t = situ_tree_tensor_at(group, i);
    char name[192];
    (void)snprintf(name, sizeof name, "%.160s", situ_tree_key(group, i));
    if (situ_tree_find(all, name))
      (void)snprintf(name, sizeof name, "param_groups.%d.%.120s", z->group_count, situ_tree_key(group, i));
    for (int64_t k = 0; k < situ_tree_count(z->parameters); k++) {
      if (situ_tree_tensor_at(z->parameters, k) != t) continue;
      situ__fail(SITU_E_ARG, op, "%.90s is in a parameter group already", situ_tree_key(z->parameters, k));
      situ_tree_free(all);
      return NULL;
    }
    all = situ_tree_put(all, name, situ_tree_tensor(t));
  }
  return all;
}

/* How a group is stepped. make: of the first group; NULL: a later one, whose options have its lr. */
typedef struct rule {
  situ_dist_make_optim make;
  double lr;
  const situ_optim_options *options;
  const situ_dist_zero *like; /* it is a twin of this one, and gets an optimiser when all groups are there; or NULL */
} rule;

static bool make_group(situ_dist_zero *z, int64_t part, rule with) {
  if (with.like) return true;
  situ_tree *own = situ__zero_own_parts(z, part);
  if (!own) return false;
  if (!with.make) return situ_optim_add_param_group(z->optim, own, with.options) == SITU_OK;
  return (z->optim = with.make(own, with.lr, with.options)) != NULL;
}

/* On error the optimiser is as it was. */
static bool add_group(const char *op, situ_dist_zero *z, const situ_tree *group, rule with) {
  const int64_t first = z->parameters ? situ_tree_count(z->parameters) : 0, part = z->part_count, deals = z->deal_count;
  const size_t bytes = (size_t)(z->group_count + 1) * sizeof *z->group_ends;
  situ_tree *before = z->parameters, *all = join_parameters(op, z, group);
  int64_t *ends = all ? situ__realloc(z->group_ends, bytes) : NULL;
  if (all && !ends) situ__no_memory(op, bytes);
  if (ends) z->group_ends = ends;
  z->parameters = all;
  const bool divided =
      ends && situ__grow(op, &z->places, &z->place_capacity, sizeof *z->places, situ_tree_count(all)) &&
      (z->parts_gradients ? situ__zero_divide_buckets(op, z, first) : situ__zero_deal_out(z, first, with.like)) &&
      situ__zero_make_parts(z, first);
  if (divided && (!z->shards || situ__zero_prepare_shards(op, z)) && make_group(z, part, with)) {
    z->group_ends[z->group_count++] = situ_tree_count(all);
    situ_tree_free(before);
    return !z->shards || situ__zero_scatter(op, z, false);
  }
  while (z->part_count > part) situ_release(z->parts[--z->part_count].values);
  z->deal_count = deals;
  for (int64_t i = first; all && z->shards && i < situ_tree_count(all); i++)
    SITU_IGNORE(situ_set_part(situ_tree_tensor_at(all, i), NULL));
  if (z->parts_gradients) situ__zero_undo_divide(z);
  situ_tree_free(all);
  z->parameters = before;
  /* What the arguments cause, all ranks find; memory may end on one. */
  if (situ_error() == SITU_E_NOMEM) situ_comm_abort(z->comm, situ_error_message());
  return false;
}

static bool agree_and_add(const char *op, situ_dist_zero *z, const situ_tree *group, rule with) {
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  const bool good = situ__zero_knows(op, z, group) && can_divide(op, z, group, with.make) &&
                    situ__zero_can_shard(op, z, group) && same_parameters(op, z, group) &&
                    add_group(op, z, group, with);
  return situ_scope_end(&s) == SITU_OK && good;
}

bool situ__zero_add_twins(const char *op, situ_dist_zero *z, const situ_tree *group, const situ_dist_zero *like) {
  return add_group(op, z, group, (rule){ .like = like });
}

void situ__zero_free(situ_dist_zero *z) {
  if (z->optim) SITU_IGNORE(situ_set_trainer(z->optim, NULL, z));
  if (z->parts_gradients) situ__zero_forget_parts(z);
  situ_optim_free(z->optim);
  for (int64_t k = 0; k < z->part_count; k++) situ_release(z->parts[k].values);
  situ__free(z->parts);
  situ__free(z->deals);
  situ__free(z->places);
  situ__free(z->group_ends);
  situ_tree_free(z->parameters);
  situ__free(z->shards);
  situ__handle_free(z, sizeof *z, NULL);
}

/* `with` has the communicator (NULL: an error has been recorded), and ddp in stages 2 and 3; units: in stage 3. */
static situ_dist_zero *make_zero(const char *op, situ_tree *parameters, situ_dist_zero with,
                                 const situ_dist_zero3_options *units, rule first) {
  situ_tree *flat = with.comm ? situ_tree_flatten(parameters) : NULL;
  situ_tree_free(parameters);
  if (!flat) return NULL;
  situ_dist_zero *z = first.make ? situ__handle_new(SITU__A_ZERO, sizeof *z) : NULL;
  if (!first.make) situ__null(op, "make");
  else if (!z) situ__no_memory(op, sizeof *z);
  if (z) {
    z->comm = with.comm;
    z->ddp = with.ddp;
    z->parts_gradients = with.ddp != NULL;
  }
  if (z && !((!units || situ__zero_begin_shards(op, z, units)) && agree_and_add(op, z, flat, first) &&
             situ_set_trainer(z->optim, &situ__zero_trainer, z) == SITU_OK)) {
    situ__zero_free(z);
    z = NULL;
  }
  situ_tree_free(flat);
  return z;
}

situ_dist_zero *situ_dist_zero_new(situ_tree *parameters, situ_comm *comm, situ_dist_make_optim make, double lr,
                                   const situ_optim_options *options) {
  SITU__MADE_OF_OPS(new_op);
  const bool good = situ__comm_given(new_op, comm) && situ__comm_replicates(new_op, comm);
  const situ_dist_zero with = { .comm = good ? comm : NULL };
  return make_zero(new_op, parameters, with, NULL, (rule){ .make = make, .lr = lr, .options = options });
}

situ_dist_zero *situ_dist_zero2_new(situ_tree *parameters, situ_dist_ddp *ddp, situ_dist_make_optim make, double lr,
                                    const situ_optim_options *options) {
  static const char op[] = "dist_zero2_new";
  SITU__MADE_OF_OPS(op);
  const bool given =
      situ__valid(op, "ddp", ddp, SITU__A_DDP) && situ__zero_can_join(op, ddp) && situ__dist_keep_up(op, ddp, true);
  const situ_dist_zero with = { .comm = given ? ddp->comm : NULL, .ddp = ddp };
  return make_zero(op, parameters, with, NULL, (rule){ .make = make, .lr = lr, .options = options });
}

situ_dist_zero *situ_dist_zero3_new(situ_tree *parameters, situ_dist_ddp *ddp, const situ_dist_zero3_options *units,
                                    situ_dist_make_optim make, double lr, const situ_optim_options *options) {
  static const char op[] = "dist_zero3_new";
  static const situ_dist_zero3_options defaults;
  SITU__MADE_OF_OPS(op);
  const bool given =
      situ__valid(op, "ddp", ddp, SITU__A_DDP) && situ__zero_can_join(op, ddp) && situ__dist_keep_up(op, ddp, true);
  const situ_dist_zero with = { .comm = given ? ddp->comm : NULL, .ddp = ddp };
  return make_zero(op, parameters, with, units ? units : &defaults,
                   (rule){ .make = make, .lr = lr, .options = options });
}

situ_status situ_dist_zero_add_param_group(situ_dist_zero *zero, situ_tree *parameters,
                                           const situ_optim_options *options) {
  SITU__MADE_OF_OPS(add_op);
  situ_tree *flat = situ__zero_given(add_op, zero) ? situ_tree_flatten(parameters) : NULL;
  situ_tree_free(parameters);
  const bool good = flat && agree_and_add(add_op, zero, flat, (rule){ .options = options });
  situ_tree_free(flat);
  return good ? SITU_OK : situ_error();
}

/* ---- a step ---- */

bool situ__zero_has_gradient(const situ_dist_zero *z, int64_t parameter) {
  situ_tensor *whole = situ_tree_tensor_at(z->parameters, parameter);
  return situ_grad(whole) || situ_grad_is_in_parts(whole);
}

/* Gives this rank's parts the gradients of their elements; with `on` false takes them away. Of stage 2 they have them,
   unless the program has set whole ones. */
bool situ__zero_set_gradients(const situ_dist_zero *z, bool on) {
  for (int64_t k = 0; k < z->part_count; k++) {
    const situ__zero_part *p = &z->parts[k];
    situ_tensor *whole = situ_tree_tensor_at(z->parameters, p->parameter), *grad = on ? situ_grad(whole) : NULL;
    if (z->parts_gradients && situ_grad_is_in_parts(whole)) continue;
    if (grad && !(grad = situ__zero_elements(grad, p->from, p->count))) return false;
    if (situ_set_grad(p->values, grad) != SITU_OK) return false;
  }
  return true;
}

static bool step_own(const situ_dist_zero *z, double grad_scale) {
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  const bool good = situ__zero_set_gradients(z, true) && situ_optim_step_scaled(z->optim, grad_scale) == SITU_OK;
  const bool dropped = situ__zero_set_gradients(z, false);
  return situ_scope_end(&s) == SITU_OK && good && dropped;
}

/* No hook is in the middle of ddp's exchange, and no other optimiser has the parts of these gradients. */
static bool can_step(const situ_dist_zero *z) {
  if (z->comm->held)
    return situ__fail(SITU_E_STATE, step_op, "a backward exchanges gradients over this communicator: step behind it"),
           false;
  for (int64_t i = 0; !z->parts_gradients && i < situ_tree_count(z->parameters); i++)
    if (situ_grad_is_in_parts(situ_tree_tensor_at(z->parameters, i)))
      return situ__fail(SITU_E_STATE, step_op, "another optimiser keeps the gradient of %.90s in parts: step that one",
                        situ_tree_key(z->parameters, i)),
             false;
  return true;
}

/* Of all that a step writes, the elements of other ranks, too. */
static bool all_marks(const void *object, situ__mark_visitor *visit) {
  const situ_dist_zero *z = object;
  bool good = situ__optim_marks(z->optim, visit);
  for (int64_t k = 0; good && k < z->part_count; k++) good = visit(&situ_desc(z->parts[k].values)->storage->busy);
  for (int64_t i = 0; good && !z->shards && i < situ_tree_count(z->parameters); i++)
    good = visit(&situ_desc(situ_tree_tensor_at(z->parameters, i))->storage->busy);
  return good;
}

situ_status situ__zero_step(const situ_dist_zero *z, double grad_scale) {
  SITU__CLAIM(claim);
  /* The program can call again, and other ranks wait for it. */
  if (!situ__claim_begin(&claim, all_marks, z)) return situ__busy(step_op, "a parameter"), situ_error();
  if (!can_step(z) || (z->shards && !situ__zero_scatter(step_op, z, true))) return situ_error();
  if (!step_own(z, grad_scale)) {
    situ_comm_abort(z->comm, situ_error_message());
    return situ_error();
  }
  if (!z->shards) return situ__zero_exchange(z) ? situ_comm_barrier(z->comm, "the end of a step") : situ_error();
  situ__zero_note_step(z); /* parts are exchanged when a unit needs them */
  return SITU_OK;
}

situ_status situ_dist_zero_step(situ_dist_zero *zero) {
  return situ__zero_given(step_op, zero) ? situ__zero_step(zero, 1) : situ_error();
}

situ_status situ_dist_zero_zero_grad(situ_dist_zero *zero) {
  if (!situ__zero_given("dist_zero_zero_grad", zero)) return situ_error();
  for (int64_t i = 0; i < situ_tree_count(zero->parameters); i++)
    SITU_TRY(situ_set_grad(situ_tree_tensor_at(zero->parameters, i), NULL));
  situ__zero_drop_gradients(zero);
  return SITU_OK;
}

situ_optim *situ_dist_zero_optim(const situ_dist_zero *zero) {
  return situ__zero_given("dist_zero_optim", zero) ? zero->optim : NULL;
}

void situ_dist_zero_free(situ_dist_zero *zero) {
  if (zero && situ__zero_given("dist_zero_free", zero)) situ__zero_free(zero);
}
