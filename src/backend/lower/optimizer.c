/* One fused optimiser step over a list of parameters: a kernel for each parameter, or for many where buffers are
   addresses.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "backend/lower/lower.h"
#include "kernels/dialect.h"
#include "kernels/adam.h"

#define T float
#define TNAME f32
#include "kernels/floats.h"
#include "kernels/optimizer.h"
#include "kernels/rule.h"
#undef T
#undef TNAME
#define T double
#define TNAME f64
#include "kernels/floats.h"
#include "kernels/optimizer.h"
#include "kernels/rule.h"

/* A bit for each state that exists and that the rule uses; other states are not touched. */
static uint32_t states_of(const situ_work *work, const situ_optimizer_item *item) {
  uint32_t there = 0;
  for (int k = 0; k < 3; k++)
    if (item->state[k]) there |= 1u << k;
  return situ_optimizer_states((situ_optimizer_rule)work->op, work->params) & there;
}

static uint32_t flags_of(const situ_work *work, const situ_optimizer_item *item, uint32_t states) {
  const situ_optimizer_params *o = work->params;
  uint32_t flags = states * FLAG_STATE_0;
  if (work->op == SITU_RULE_SGD && o->momentum != 0)
    return flags | FLAG_MOMENTUM | (item->step <= 1 ? FLAG_FIRST : 0) | (o->nesterov ? FLAG_NESTEROV : 0);
  if (work->op == SITU_RULE_RMSPROP)
    return flags | (o->momentum > 0 ? FLAG_MOMENTUM : 0) | (o->centered ? FLAG_CENTRED : 0);
  const bool adam = work->op == SITU_RULE_ADAM || work->op == SITU_RULE_ADAMW;
  return flags | (adam && o->amsgrad ? FLAG_AMSGRAD : 0);
}

/* The call for a parameter, without its buffers, and the constants of its step. */
typedef struct step_call {
  situ__call call;
  rule_f32 narrow;
  rule_f64 wide;
} step_call;

static void begin_step(step_call *c, const situ_work *work, const situ_optimizer_item *item) {
  const situ_optimizer_params *o = work->params;
  const situ_dtype dtype = (situ_dtype)item->param->dtype;
  const situ_optimizer_rule rule = (situ_optimizer_rule)work->op;
  const bool decoupled = situ__is_decoupled(rule, o);
  const situ__step_constants constants = situ__constants_of(rule, o, item);
  *c = (step_call){ .call = { .variant = { SITU__TEXT_optimizer, .op = (uint8_t)work->op,
                                           .compute = (uint8_t)situ__lower_compute_dtype(dtype),
                                           .dtype = { (uint8_t)dtype },
                                           .flags = flags_of(work, item, states_of(work, item)) },
                              .op = "optimizer" },
                    .narrow = rule_of_f32(o, decoupled, &constants),
                    .wide = rule_of_f64(o, decoupled, &constants) };
}

/* Adds the blocks that follow the offsets. */
static void constants(step_call *c, const situ_work *work) {
  const situ_optimizer_params *o = work->params;
  const bool wide = c->call.variant.compute == SITU_F64;
  situ__lower_block(&c->call, wide ? (void *)&c->wide : (void *)&c->narrow, wide ? sizeof c->wide : sizeof c->narrow);
  situ__lower_scalars(&c->call,
                      (double[4]){ o->maximize ? -o->grad_scale : o->grad_scale,
                                   situ__is_decoupled((situ_optimizer_rule)work->op, o) ? 0 : o->weight_decay });
}

static situ_status step_one(situ__target *d, const situ_work *work, const situ_optimizer_item *item) {
  const situ_view_desc *p = item->param;
  const uint32_t states = states_of(work, item);
  step_call c;
  begin_step(&c, work, item);
  steps s = { p->numel, p->offset, item->grad->offset, { 0 } };
  situ__lower_buffer(&c.call, p);
  situ__lower_buffer(&c.call, item->grad);
  for (int k = 0; k < 3; k++) {
    s.state[k] = situ__lower_offset(item->state[k]);
    if (states >> k & 1) situ__lower_buffer(&c.call, item->state[k]);
  }
  situ__lower_block(&c.call, &s, sizeof s);
  constants(&c, work);
  return situ__lower_items(d, &c.call, s.numel);
}

/* The constants of a's step are those of b's. A product that is NaN is the same as itself. */
static bool steps_alike(const situ_optimizer_item *a, const situ_optimizer_item *b) {
  return a->step == b->step && memcmp(&a->mu_product, &b->mu_product, sizeof a->mu_product) == 0 &&
         a->param->dtype == b->param->dtype;
}

/* One kernel for as many parameters as have the same rule, dtype and step count, and fit into its arguments. */
static situ_status step_together(situ__target *d, const situ_work *work, int64_t *next) {
  const situ_optimizer_item *const first = &work->list[*next], *item = first;
  const situ_dtype dtype = (situ_dtype)item->param->dtype;
  const int64_t piece = (int64_t)d->group * PACK_BYTES / (int64_t)situ__lower_size(dtype);
  step_call c;
  step_list list = { 0 };
  void *touched[LIST_MOST * LIST_MEMORIES];
  int64_t groups = 0;
  begin_step(&c, work, item);
  c.call.touched = touched;
  for (; *next < work->list_count && list.count < LIST_MOST; ++*next, item++) {
    if (!item->param->numel) continue;
    const uint32_t states = states_of(work, item);
    if (!steps_alike(item, first) || flags_of(work, item, states) != c.call.variant.flags) break;
    const situ_view_desc *const view[] = { item->param, item->grad, item->state[0], item->state[1], item->state[2] };
    for (int k = 0; k < LIST_MEMORIES; k++) {
      if (k >= 2 && !(states >> (k - 2) & 1)) continue;
      char *data = view[k]->storage->data;
      list.item[list.count].memory[k] = (I64)(uintptr_t)(data + (size_t)view[k]->offset * situ__lower_size(dtype));
      touched[c.call.touches++] = data;
    }
    list.item[list.count].numel = item->param->numel;
    list.item[list.count++].group = groups;
    groups += (item->param->numel + piece - 1) / piece;
  }
  if (!list.count) return SITU_OK;
  c.call.variant.flags |= FLAG_LIST;
  situ__lower_block(&c.call, &list, sizeof list);
  constants(&c, work);
  return situ__targets->launch(d, &c.call, groups);
}

situ_status situ__lower_optimizer(int index, const situ_work *work) {
  situ_status status;
  for (int64_t i = 0; i < work->list_count; i++)
    if (situ__lower_compute_of((situ_dtype)work->list[i].param->dtype) == SITU__COMPUTE_I64) return SITU_E_UNSUPPORTED;
  situ__target *d = situ__targets->enter(index, "optimizer", &status);
  if (!d) return status;
  for (int64_t i = 0; i < work->list_count && status == SITU_OK;) {
    if (d->addresses) {
      status = step_together(d, work, &i);
    } else {
      if (work->list[i].param->numel) status = step_one(d, work, &work->list[i]);
      i++;
    }
  }
  return situ__targets->leave(d, status);
}
