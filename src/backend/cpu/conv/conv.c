/* The convolution verb: converts operands to a compute type and chooses the algorithm for the geometry.
   SPDX-License-Identifier: MIT */
#include "conv.h"
#include "backend/cpu/common/operand.h"

/* NULL: none, or relu, which is not a pass of its own. */
static situ__row activation_of(const situ_work *work, situ_dtype dtype) {
  const situ__unary_rows *rows = SITU__ISA_PICK(situ__cpu_isa(), situ__unary_rows);
  const int64_t code = work->integer[0];
  return code && code != SITU_UNARY_relu ? rows->row[situ__cpu_lane(dtype)][code] : NULL;
}

void situ__conv_activate(const situ__conv *c, char *y, int64_t rows, int64_t count, int64_t row) {
  static const double none[4] = { 0 };
  const int64_t next = row * situ__cpu_size(c->dtype);
  if (row == count) count *= rows, rows = rows > 0;
  for (int64_t i = 0; i < rows && c->activation; i++, y += next) c->activation(y, &(const void *){ y }, 0, count, none);
}

situ__conv_sides situ__conv_sides_of(const situ__conv *g) {
  const bool forward = g->pass == SITU_CONV_FORWARD;
  const situ_window *w = g->window;
  situ__conv_sides s = { .x = (const float *)(const void *)(forward ? g->x : g->y),
                         .bias = (const float *)(const void *)g->bias,
                         .y = (float *)(void *)(forward ? g->y : g->x),
                         .channels = forward ? g->channels : g->outputs,
                         .outputs = forward ? g->outputs : g->channels,
                         .height = forward ? g->height : g->out_height,
                         .width = forward ? g->width : g->out_width,
                         .out_height = forward ? g->out_height : g->height,
                         .out_width = forward ? g->out_width : g->width };
  for (int d = 0; d < 2; d++)
    s.padding[d] = forward ? w->padding[d] : w->dilation[d] * (w->kernel[d] - 1) - w->padding[d];
  return s;
}

/* operand: x, w, y, bias. Their storages are not read. */
static situ__conv describe(const situ_work *work, const situ_view_desc *const operand[4]) {
  const situ_view_desc *x = operand[0], *y = operand[2];
  const int64_t groups = work->window->groups;
  const bool forward = work->op == SITU_CONV_FORWARD, halved = forward && work->integer[1];
  return (situ__conv){ .pass = (situ_conv_pass)work->op,
                       .window = work->window,
                       .dtype = (situ_dtype)x->dtype,
                       .last = !x->contiguous || !y->contiguous,
                       .relu = forward && work->integer[0] == SITU_UNARY_relu,
                       .activation = forward ? activation_of(work, (situ_dtype)x->dtype) : NULL,
                       .halved = halved,
                       .images = x->size[0],
                       .groups = groups,
                       .channels = x->size[1] / groups,
                       .outputs = y->size[1] / groups,
                       .height = x->size[2],
                       .width = x->size[3],
                       .out_height = y->size[2] << halved,
                       .out_width = y->size[3] << halved };
}

/* x, w and y among the two operands and the result, for each pass. */
static void find_roles(int pass, const situ_view_desc *a, const situ_view_desc *b, const situ_view_desc *result,
                       const situ_view_desc *role[3]) {
  role[0] = pass == SITU_CONV_GRAD_DATA ? result : a;
  role[1] = pass == SITU_CONV_GRAD_WEIGHT ? result : b;
  role[2] = pass == SITU_CONV_FORWARD ? result : pass == SITU_CONV_GRAD_DATA ? a : b;
}

situ_status situ__cpu_offers_conv(const situ_work *work) {
  const situ_view_desc *role[4] = { NULL };
  find_roles(work->op, work->in[0], work->in[1], work->out[0], role);
  const situ__conv c = describe(work, role);
  const bool relu = !c.relu || situ__cpu_lane(c.dtype) != SITU__I64;
  /* 16 bits are rounded before another activation than relu, as if it were a call of its own. */
  const bool other = c.relu || !work->integer[0] || c.dtype == SITU_F32 || c.dtype == SITU_F64;
  const bool can = c.halved ? !c.activation && situ__conv_suits_halved(&c) : !c.last || situ__conv_suits_blocked(&c);
  return relu && other && can ? SITU_OK : SITU_E_UNSUPPORTED;
}

static situ_status run_conv(const situ__conv *c) {
  situ_status status = SITU_OK;
  if (c->halved) return situ__conv_shifted(c, &status) ? status : SITU_E_UNSUPPORTED;
  if (c->dtype == SITU_I64 && !c->last) situ__conv_whole(c);
  else if (!situ__conv_planes(c) && !situ__conv_places(c, &status) && !situ__conv_parts(c, &status) &&
           !situ__conv_weights(c, &status) && !situ__conv_winograd(c, &status) && !situ__conv_turned(c, &status) &&
           !situ__conv_image_weights(c, &status) && !situ__conv_blocked(c, &status) && !situ__conv_images(c, &status) &&
           (c->last || !situ__conv_shifted(c, &status)))
    status = c->last ? SITU_E_UNSUPPORTED : situ__conv_unfold(c);
  return status;
}

/* Of bf16, without conversions. Returns false, with nothing done, if it does not suit. */
static bool run_pairs(const situ_work *work, const situ_view_desc *bias, situ_status *status) {
  const situ_view_desc *role[4] = { NULL };
  find_roles(work->op, work->in[0], work->in[1], work->out[0], role);
  for (int i = 0; i < 3; i++)
    if (role[i]->dtype != SITU_BF16 || !role[i]->contiguous) return false;
  situ__conv c = describe(work, role);
  c.x = situ__cpu_data(role[0]), c.w = situ__cpu_data(role[1]), c.y = situ__cpu_data(role[2]);
  return situ__conv_pairs(&c, bias, status);
}

situ_status situ__cpu_conv(int index, const situ_work *work) {
  (void)index;
  const char *op = "conv";
  const situ_dtype dtype = situ__cpu_lane_dtype(work->compute);
  const situ_view_desc *bias = work->op != SITU_CONV_GRAD_WEIGHT && work->ins > 2 ? work->in[2] : NULL;
  situ_status status = SITU_OK;
  if (run_pairs(work, bias, &status)) return status;
  situ__cpu_operand a = { 0 }, b = { 0 }, extra = { 0 }, result = { 0 };
  status = situ__operand_in(&a, op, work->in[0], dtype);
  if (status == SITU_OK) status = situ__operand_in(&b, op, work->in[1], dtype);
  if (status == SITU_OK) status = situ__operand_in(&extra, op, bias, dtype);
  if (status == SITU_OK) status = situ__operand_out(&result, op, work->out[0], dtype, true);
  if (status == SITU_OK) {
    const situ_view_desc *role[4] = { [3] = extra.view };
    find_roles(work->op, a.view, b.view, result.view, role);
    situ__conv c = describe(work, role);
    c.x = situ__cpu_data(role[0]), c.w = situ__cpu_data(role[1]), c.y = situ__cpu_data(role[2]);
    c.narrow = work->in[0]->dtype == SITU_BF16 && work->in[1]->dtype == SITU_BF16;
    c.bias = role[3] ? situ__cpu_data(role[3]) : NULL;
    c.factor = work->ins > 3 && work->in[3] ? situ__cpu_data(work->in[3]) : NULL;
    status = run_conv(&c);
  }
  if (status == SITU_OK) situ__operand_write(&result);
  situ__operand_close(&a);
  situ__operand_close(&b);
  situ__operand_close(&extra);
  situ__operand_close(&result);
  return status;
}

/* ---- weights that are laid out before ---- */

static situ__conv factor_of(const situ_work *work) {
  const situ_view_desc *w = work->in[0];
  const int64_t groups = work->window->groups;
  return (situ__conv){ .pass = SITU_CONV_FORWARD,
                       .window = work->window,
                       .dtype = (situ_dtype)w->dtype,
                       .w = w->storage ? situ__cpu_data(w) : NULL,
                       .groups = groups,
                       .channels = w->size[1],
                       .outputs = w->size[0] / groups };
}

situ_status situ__cpu_offers_conv_factor(const situ_work *work) {
  const situ__conv c = factor_of(work);
  return situ__conv_parts_offers_factor(&c) ? SITU_OK : SITU_E_UNSUPPORTED;
}

situ_status situ__cpu_conv_factor(const situ_work *work) {
  const situ__conv c = factor_of(work);
  situ__conv_parts_factor(&c, situ__cpu_data(work->out[0]));
  return SITU_OK;
}
