/* Tensor parallel training: which layers of a module are divided, and how they are put in place.
   SPDX-License-Identifier: MIT */
#include "tp.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/alloc.h"
#include "distributed/ddp/ddp.h"
#include "situ/sys/layers.h"
#include "situ/sys/part.h"

static const char op[] = "dist_tp_new";

/* A part of a module that is replaced by another one. */
typedef struct swap {
  situ_nn_module *owner;
  const char *name;
  size_t offset;
  situ_nn_module *old_child, *new_child; /* owned; NULL: a tensor */
  situ_tensor *old_tensor, *new_tensor;  /* owned */
} swap;

/* A divided attention. */
typedef struct attention {
  situ_nn_module *module;
  int64_t heads; /* of all ranks */
  int64_t hook;  /* -1: none yet */
} attention;

/* All that will change, before anything does. */
typedef struct division {
  situ_dist_tp *tp;
  const situ_dist_parallel *plan;
  int64_t rows;
  bool *used; /* rows that name a layer */
  swap *swaps;
  int64_t swap_count, swap_capacity;
  attention *attentions;
  int64_t attention_count, attention_capacity;
} division;

/* ---- parts of tensors ---- */

const situ__tp_shard *situ__tp_find(const situ_dist_tp *tp, const situ_tensor *t) {
  for (int64_t i = 0; i < tp->shard_count; i++)
    if (tp->shards[i].part == t) return &tp->shards[i];
  return NULL;
}

situ_tensor *situ__tp_part_of(const situ_comm *comm, situ_tensor *whole, int dim, int blocks) {
  situ_tensor *part[3];
  const int64_t length = situ_size(whole, dim) / blocks, own = length / comm->size;
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  for (int i = 0; i < blocks; i++) part[i] = situ_narrow(situ_detach(whole), dim, i * length + comm->rank * own, own);
  situ_tensor *joined =
      situ_escape(&s, blocks == 1 ? situ_clone(situ_contiguous(part[0])) : situ_cat(part, blocks, dim));
  return situ_scope_end(&s) == SITU_OK ? joined : NULL;
}

/* This rank's part of a layer's tensor; a tensor that several layers share has one. NULL after recording an error. */
static situ_tensor *divide_tensor(division *d, const char *path, const char *name, situ_tensor *whole, int dim,
                                  int blocks) {
  situ_dist_tp *tp = d->tp;
  const int size = tp->comm->size;
  for (int64_t i = 0; i < tp->shard_count; i++) {
    const situ__tp_shard *s = &tp->shards[i];
    if (s->whole != whole) continue;
    if (s->dim == dim && s->blocks == blocks) return s->part;
    return situ__fail(SITU_E_ARG, op, "%s.%s is shared with another layer, by which it is divided along dimension %d",
                      path, name, s->dim),
           NULL;
  }
  if (situ_size(whole, dim) % ((int64_t)blocks * size))
    return situ__fail(SITU_E_SHAPE, op, "%s.%s: dimension %d has %" PRId64 " elements, which %d ranks do not divide",
                      path, name, dim, situ_size(whole, dim) / blocks, size),
           NULL;
  if (!situ__grow(op, &tp->shards, &tp->shard_capacity, sizeof *tp->shards, tp->shard_count + 1)) return NULL;
  situ_tensor *part = situ__tp_part_of(tp->comm, whole, dim, blocks);
  const int64_t own = situ_size(whole, dim) / ((int64_t)blocks * size), rank = tp->comm->rank;
  const situ_part shown = { situ_shape_of(whole), dim, blocks, rank * own, (rank + 1) * own };
  if (!part || situ_set_part(part, &shown) != SITU_OK || !situ_requires_grad_(part, situ_requires_grad(whole)))
    return NULL;
  tp->shards[tp->shard_count++] =
      (situ__tp_shard){ .whole = situ_retain(whole), .part = situ_retain(part), .dim = dim, .blocks = blocks };
  return part;
}

/* ---- layers ---- */

/* The layer's own part of that kind; NULL: it has none, or a parametrized one. */
static const situ_nn_slot *own_part(const situ_nn_module *m, const char *name, situ_nn_kind kind) {
  for (int64_t i = 0; i < m->count; i++)
    if (m->slots[i].kind == kind && strcmp(m->slots[i].name, name) == 0) return &m->slots[i];
  return NULL;
}

static situ_tensor *own_tensor(const situ_nn_module *m, const char *name) {
  const situ_nn_slot *slot = own_part(m, name, SITU_NN_PARAMETER);
  return slot ? slot->held : NULL;
}

static bool refuse_layer(const char *path, const situ_nn_module *layer, const char *why) {
  return situ__fail(SITU_E_UNSUPPORTED, op, "%s is a %s %s", path, layer->type->name, why), false;
}

static bool add_swap(division *d, swap new) {
  if (!situ__grow(op, &d->swaps, &d->swap_capacity, sizeof *d->swaps, d->swap_count + 1))
    return situ_nn_free(new.new_child), false;
  d->swaps[d->swap_count++] = new;
  if (new.old_child) (void)situ_nn_retain(new.old_child);
  if (new.old_tensor) {
    (void)situ_retain(new.old_tensor);
    (void)situ_retain(new.new_tensor);
  }
  return true;
}

static bool swap_child(division *d, situ_nn_module *owner, const situ_nn_slot *slot, situ_nn_module *layer) {
  situ_nn_module *old = slot->held;
  if (!layer) return false;
  situ_nn_train(layer, old->training);
  return add_swap(d, (swap){ owner, slot->name, slot->offset, old, layer, NULL, NULL });
}

static bool divide_linear(division *d, const char *path, situ_nn_module *owner, const situ_nn_slot *slot,
                          const situ_dist_parallel *row) {
  const situ_nn_module *m = slot->held;
  situ_tensor *weight = own_tensor(m, "weight"), *bias = own_tensor(m, "bias");
  const bool columns = row->style == SITU_DIST_COLWISE;
  situ__tp_layer its = { .comm = d->tp->comm, .style = row->style, .replicate = row->replicate, .bias = bias };
  situ_nn_linear_options options;
  its.activation = situ_nn_linear_read(m, &options) ? options.activation : SITU_ACTIVATION_NONE;
  if (!weight) return refuse_layer(path, m, "without a parameter `weight` of its own");
  if (!columns && its.activation)
    return refuse_layer(path, m, "with an activation, which ROWWISE would need after the sum: make it a layer");
  if (!(its.weight = divide_tensor(d, path, "weight", weight, columns ? 0 : 1, 1))) return false;
  if (columns && bias && !(its.bias = divide_tensor(d, path, "bias", bias, 0, 1))) return false;
  return swap_child(d, owner, slot, situ__tp_linear(&its));
}

static bool divide_embedding(division *d, const char *path, situ_nn_module *owner, const situ_nn_slot *slot,
                             const situ_dist_parallel *row) {
  const situ_nn_module *m = slot->held;
  situ_tensor *weight = own_tensor(m, "weight");
  const bool columns = row->style == SITU_DIST_COLWISE;
  situ__tp_layer its = { .comm = d->tp->comm, .style = row->style, .replicate = row->replicate };
  (void)situ_nn_embedding_read(m, &its.embedding);
  if (!weight) return refuse_layer(path, m, "without a parameter `weight` of its own");
  if (its.embedding.max_norm != SITU_NONE) return refuse_layer(path, m, "with max_norm, which needs whole rows");
  if (!columns && its.embedding.scale_grad_by_freq)
    return refuse_layer(path, m, "with scale_grad_by_freq, which counts all indices");
  if (!(its.weight = divide_tensor(d, path, "weight", weight, columns ? 1 : 0, 1))) return false;
  return swap_child(d, owner, slot, situ__tp_embedding(&its));
}

/* Its projections have the heads' widths one after another, so a rank's heads are a range of each. */
static bool divide_attention(division *d, const char *path, situ_nn_module *m, int64_t heads) {
  static const char *const names[] = { "in_proj_weight", "in_proj_bias", "q_proj_weight", "k_proj_weight",
                                       "v_proj_weight" };
  char inner[1024];
  situ_nn_linear_options options;
  const int size = d->tp->comm->size;
  if (heads % size)
    return situ__fail(SITU_E_SHAPE, op, "%s has %" PRId64 " heads, which %d ranks do not divide", path, heads, size),
           false;
  for (int i = 0; i < 5; i++) {
    situ_tensor *whole = own_tensor(m, names[i]), *part;
    if (!whole) continue;
    if (!(part = divide_tensor(d, path, names[i], whole, 0, i < 2 ? 3 : 1)) ||
        !add_swap(d, (swap){ m, names[i], own_part(m, names[i], SITU_NN_PARAMETER)->offset, NULL, NULL, whole, part }))
      return false;
  }
  const situ_nn_slot *out = own_part(m, "out_proj", SITU_NN_CHILD);
  if (!out || !situ_nn_linear_read(out->held, &options)) return refuse_layer(path, m, "whose out_proj is not a Linear");
  (void)snprintf(inner, sizeof inner, "%.1000s.out_proj", path);
  if (!divide_linear(d, inner, m, out, &(situ_dist_parallel){ .style = SITU_DIST_ROWWISE })) return false;
  if (!situ__grow(op, &d->attentions, &d->attention_capacity, sizeof *d->attentions, d->attention_count + 1))
    return false;
  d->attentions[d->attention_count++] = (attention){ m, heads, -1 };
  return true;
}

static bool divide_layer(division *d, const char *path, situ_nn_module *owner, const situ_nn_slot *slot,
                         const situ_dist_parallel *row) {
  situ_nn_module *m = slot->held;
  situ_nn_linear_options linear;
  situ_embedding_options embedding;
  int64_t heads;
  if (m->hooks) return refuse_layer(path, m, "with hooks: register them when it is divided");
  const bool by_heads = row->style == SITU_DIST_HEADWISE;
  if (!by_heads && situ_nn_linear_read(m, &linear)) return divide_linear(d, path, owner, slot, row);
  if (!by_heads && situ_nn_embedding_read(m, &embedding)) return divide_embedding(d, path, owner, slot, row);
  if (by_heads && situ_nn_multihead_attention_read(m, &heads)) return divide_attention(d, path, m, heads);
  return refuse_layer(path, m,
                      by_heads ? "and not a MultiheadAttention, which HEADWISE divides"
                               : "and not a Linear or Embedding, which COLWISE and ROWWISE divide");
}

/* ---- the plan ---- */

static situ_status look(const situ_nn_visit *at, void *payload) {
  division *d = payload;
  situ_nn_module *owner = at->module;
  for (int64_t i = 0; i < owner->count; i++) {
    char path[1024];
    const situ_nn_slot *slot = &owner->slots[i];
    const situ_dist_parallel *row = NULL;
    if (slot->kind != SITU_NN_CHILD) continue;
    (void)snprintf(path, sizeof path, "%s%s%s", at->path, *at->path ? "." : "", slot->name);
    for (int64_t k = 0; k < d->rows; k++) {
      if (!situ__dist_path_matches(d->plan[k].path, path)) continue;
      if (row) return situ__fail(SITU_E_ARG, op, "'%s' and '%s' both name %s", row->path, d->plan[k].path, path);
      row = &d->plan[k];
      d->used[k] = true;
    }
    if (row && !divide_layer(d, path, owner, slot, row)) return situ_error();
  }
  return SITU_OK;
}

/* A tensor that another layer has too would stay whole there. */
static situ_status find_whole(const situ_nn_visit *at, void *payload) {
  const division *d = payload;
  bool stays = false;
  for (int64_t i = 0; i < d->tp->shard_count; i++) stays = stays || d->tp->shards[i].whole == at->tensor;
  for (int64_t i = 0; stays && i < d->swap_count; i++) {
    const swap *s = &d->swaps[i];
    stays = s->old_child ? s->old_child != at->module : s->owner != at->module || s->old_tensor != at->tensor;
  }
  if (!stays) return SITU_OK;
  return situ__fail(SITU_E_ARG, op, "%s is shared with a layer that the plan divides: divide both", at->path);
}

static bool check_plan(const situ_dist_parallel *plan, int64_t count) {
  if (count < 1) return situ__fail(SITU_E_ARG, op, "a plan of %" PRId64 " rows", count), false;
  if (!situ__given(op, "plan", plan)) return false;
  for (int64_t k = 0; k < count; k++) {
    if (!situ__given(op, "path", plan[k].path)) return false;
    if ((unsigned)plan[k].style > SITU_DIST_HEADWISE || !*plan[k].path)
      return situ__fail(SITU_E_ARG, op, "row %" PRId64 ": path '%s', style %d: a path below the module and a style", k,
                        plan[k].path, (int)plan[k].style),
             false;
  }
  return true;
}

static bool make_parts(division *d) {
  situ_nn_module *m = d->tp->module;
  if (situ_nn_walk(m, SITU_NN_VISIT_MODULES | SITU_NN_VISIT_ONCE, look, d) != SITU_OK) return false;
  for (int64_t k = 0; k < d->rows; k++)
    if (!d->used[k]) return situ__fail(SITU_E_ARG, op, "'%s' names no layer of the module", d->plan[k].path), false;
  return situ_nn_walk(m, SITU_NN_PARAMETER, find_whole, d) == SITU_OK;
}

/* ---- putting parts in place ---- */

static bool put(const swap *s, bool new) {
  void *field = s->offset ? (char *)s->owner + s->offset : NULL;
  situ_nn_module *child = new ? s->new_child : s->old_child;
  if (child) return situ_nn_add_child(s->owner, s->name, field, situ_nn_retain(child)) != NULL;
  situ_tensor *t = new ? s->new_tensor : s->old_tensor;
  const bool trains = situ_requires_grad(t);
  return situ_nn_add_tensor(s->owner, s->name, field, t, SITU_NN_PARAMETER) && situ_requires_grad_(t, trains);
}

static bool divide_heads(const division *d) {
  for (int64_t i = 0; i < d->attention_count; i++) {
    attention *a = &d->attentions[i];
    if (situ_nn_register_forward_pre_hook(a->module, situ__tp_copy_inputs, d->tp->comm, &a->hook) != SITU_OK ||
        !situ_nn_multihead_attention_keep(a->module, a->heads / d->tp->comm->size))
      return false;
  }
  return true;
}

static bool put_parts(const division *d) {
  int64_t done = 0;
  while (done < d->swap_count && put(&d->swaps[done], true)) done++;
  if (done == d->swap_count && divide_heads(d)) return true;
  while (done-- > 0) SITU_IGNORE(!put(&d->swaps[done], false));
  for (int64_t i = 0; i < d->attention_count; i++) {
    if (d->attentions[i].hook >= 0) situ_nn_remove_hook(d->attentions[i].module, d->attentions[i].hook);
    SITU_IGNORE(!situ_nn_multihead_attention_keep(d->attentions[i].module, d->attentions[i].heads));
  }
  return false;
}

static void free_division(division *d) {
  for (int64_t i = 0; i < d->swap_count; i++) {
    situ_nn_free(d->swaps[i].old_child);
    situ_nn_free(d->swaps[i].new_child);
    situ_drop(&d->swaps[i].old_tensor);
    situ_drop(&d->swaps[i].new_tensor);
  }
  situ__free(d->swaps);
  situ__free(d->attentions);
  situ__free(d->used);
  for (int64_t i = 0; i < d->tp->shard_count; i++) situ_drop(&d->tp->shards[i].whole);
}

static bool divide(situ_dist_tp *tp, const situ_dist_parallel *plan, int64_t count) {
  division d = { .tp = tp, .plan = plan, .rows = count, .used = situ__calloc((size_t)count, sizeof *d.used) };
  if (!d.used) return situ__no_memory(op, (size_t)count * sizeof *d.used), false;
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  const bool good = make_parts(&d) && put_parts(&d);
  const situ_status ended = situ_scope_end(&s);
  free_division(&d);
  return good && ended == SITU_OK;
}

/* ---- making and freeing ---- */

situ_dist_tp *situ_dist_tp_new(situ_nn_module *module, situ_comm *comm, const situ_dist_parallel *plan, int64_t count) {
  if (!situ__valid(op, "module", module, SITU__A_MODULE) || !situ__comm_given(op, comm) || !check_plan(plan, count) ||
      !situ__dist_equalise(module, comm))
    return NULL;
  situ_dist_tp *tp = situ__handle_new(SITU__A_TP, sizeof *tp);
  if (!tp) return situ__no_memory(op, sizeof *tp), NULL;
  tp->comm = comm;
  tp->module = situ_nn_retain(module);
  if (!divide(tp, plan, count)) {
    situ_dist_tp_free(tp);
    return NULL;
  }
  comm->divides |= comm->size > 1;
  return tp;
}

void situ_dist_tp_free(situ_dist_tp *tp) {
  if (!tp || !situ__tp_given("dist_tp_free", tp)) return;
  for (int64_t i = 0; i < tp->shard_count; i++) situ_drop(&tp->shards[i].part);
  situ__free(tp->shards);
  situ_nn_free(tp->module);
  situ__handle_free(tp, sizeof *tp, NULL);
}
