/* One fused optimiser step over a list of parameters: a kernel for each.
   SPDX-License-Identifier: MIT */
#include "kernels/lower/lower.h"
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

/* A bit for each state that is there and that the rule uses: others are left alone. */
static uint32_t states_of(const situ_work *work, const situ_optimizer_item *item) {
  const situ_optimizer_params *o = work->params;
  uint32_t used = o->amsgrad ? 7 : 3, there = 0;
  if (work->op == SITU_RULE_SGD) used = o->momentum != 0;
  if (work->op == SITU_RULE_RMSPROP)
    used = 1u | (o->momentum > 0 ? 2u : 0) | (o->centered ? 4u : 0);
  for (int k = 0; k < 3; k++)
    if (item->state[k]) there |= 1u << k;
  return used & there;
}

static uint32_t flags_of(const situ_work *work, const situ_optimizer_item *item, uint32_t states) {
  const situ_optimizer_params *o = work->params;
  uint32_t flags = states * FLAG_STATE_0;
  if (work->op == SITU_RULE_SGD && o->momentum != 0)
    return flags | FLAG_MOMENTUM | (item->step <= 1 ? FLAG_FIRST : 0) |
           (o->nesterov ? FLAG_NESTEROV : 0);
  if (work->op == SITU_RULE_RMSPROP)
    return flags | (o->momentum > 0 ? FLAG_MOMENTUM : 0) | (o->centered ? FLAG_CENTRED : 0);
  return work->op == SITU_RULE_SGD ? flags : flags | (o->amsgrad ? FLAG_AMSGRAD : 0);
}

static situ_status apply(situ__target *d, const situ_work *work, const situ_optimizer_item *item) {
  const situ_optimizer_params *o = work->params;
  const situ_view_desc *p = item->param;
  situ_dtype lane = situ__lower_lane_dtype((situ_dtype)p->dtype);
  if (lane == SITU_I64) return SITU_E_UNSUPPORTED;
  bool adam = work->op == SITU_RULE_ADAM || work->op == SITU_RULE_ADAMW,
       decoupled = work->op == SITU_RULE_ADAMW;
  double size = adam ? situ__adam_step_size(o, item->step) : 0,
         correction = adam ? situ__adam_correction(o, item->step) : 1;
  rule_f32 narrow = rule_of_f32(o, decoupled, size, correction);
  rule_f64 wide = rule_of_f64(o, decoupled, size, correction);
  const uint32_t states = states_of(work, item);
  steps s = { p->numel, p->offset, item->grad->offset, { 0 } };
  situ__call call = { .variant = { .text = SITU__TEXT_optimizer,
                                   .op = (uint8_t)work->op,
                                   .compute = (uint8_t)lane,
                                   .dtype = { p->dtype },
                                   .flags = flags_of(work, item, states) },
                      .op = "optimizer" };
  situ__lower_buffer(&call, p);
  situ__lower_buffer(&call, item->grad);
  for (int k = 0; k < 3; k++) {
    s.state[k] = situ__lower_offset(item->state[k]);
    if (states >> k & 1) situ__lower_buffer(&call, item->state[k]);
  }
  situ__lower_block(&call, &s, sizeof s);
  situ__lower_block(&call, lane == SITU_F64 ? (void *)&wide : (void *)&narrow,
                    lane == SITU_F64 ? sizeof wide : sizeof narrow);
  situ__lower_scalars(&call, (double[4]){ o->maximize ? -o->grad_scale : o->grad_scale,
                                          decoupled ? 0 : o->weight_decay });
  return situ__lower_items(d, &call, s.numel);
}

situ_status situ__lower_optimizer(int index, const situ_work *work) {
  situ_status status;
  situ__target *d = situ__target_enter(index, "optimizer", &status);
  if (!d) return status;
  for (int64_t i = 0; i < work->list_count && status == SITU_OK; i++)
    if (work->list[i].param->numel) status = apply(d, work, &work->list[i]);
  return situ__target_leave(d, status);
}
