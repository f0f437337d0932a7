/* The convolution verb: converts operands to a compute type and takes the first algorithm that suits the geometry.
   SPDX-License-Identifier: MIT */
#include "algorithm.h"
#include "amx.h"
#include "backend/cpu/common/operand.h"

#include "device/profile/profile.h"

/* NULL: none, or relu, which is not a pass of its own. */
static situ__row activation_of(const situ_work *work, situ_dtype dtype) {
  const situ__unary_rows *rows = SITU__ISA_PICK(situ__cpu_isa(), situ__unary_rows);
  const int64_t code = work->integer[0];
  return code && code != SITU_UNARY_relu ? rows->row[situ__cpu_compute(dtype)][code] : NULL;
}

/* ---- the table ---- */

extern const situ__conv_algorithm situ__conv_amx_bf16x3, situ__conv_amx_positions, situ__conv_backward_weight_amx,
    situ__conv_backward_weight_batch, situ__conv_batch_lanes, situ__conv_bf16_dot, situ__conv_depthwise,
    situ__conv_direct, situ__conv_im2col, situ__conv_integer, situ__conv_onednn, situ__conv_pointwise,
    situ__conv_winograd;

const situ__conv_row situ__conv_rows[] = {
  { "integer", &situ__conv_integer, SITU__ISA_BASE, false },
  { "bf16_dot", &situ__conv_bf16_dot, SITU__ISA_BF16, false },
  { "depthwise", &situ__conv_depthwise, SITU__ISA_V3, false },
  { "amx_positions", &situ__conv_amx_positions, SITU__ISA_AMX, false },
  { "amx_bf16x3", &situ__conv_amx_bf16x3, SITU__ISA_AMX, false },
  { "backward_weight_amx", &situ__conv_backward_weight_amx, SITU__ISA_AMX, false },
  { "winograd", &situ__conv_winograd, SITU__ISA_BASE, false },
  { "backward_data_depthwise", &situ__conv_depthwise, SITU__ISA_V3, true },
  { "backward_data_batch_lanes", &situ__conv_batch_lanes, SITU__ISA_BASE, true },
  { "backward_data_direct", &situ__conv_direct, SITU__ISA_BASE, true },
  { "backward_weight_batch", &situ__conv_backward_weight_batch, SITU__ISA_BASE, false },
  { "onednn", &situ__conv_onednn, SITU__ISA_BASE, false },
  { "batch_lanes", &situ__conv_batch_lanes, SITU__ISA_BASE, false },
  { "direct", &situ__conv_direct, SITU__ISA_BASE, false },
  { "pointwise", &situ__conv_pointwise, SITU__ISA_BASE, false },
  { "im2col", &situ__conv_im2col, SITU__ISA_BASE, false },
};
enum { ROWS = sizeof situ__conv_rows / sizeof *situ__conv_rows };

static const char *name_of(int row) { return row < ROWS ? situ__conv_rows[row].name : NULL; }
situ__algorithm_choice situ__conv_choice = { .variable = "SITU_CPU_CONV", .name_of = name_of };

static bool suits(const situ__conv_row *row, const situ__conv *g) {
  situ_window window;
  situ__conv flipped;
  if (!row->algorithm->suits) return false;
  if (!row->flipped) return row->algorithm->suits(g);
  return situ__conv_suits_flipped(g, &window, &flipped) && row->algorithm->suits(&flipped);
}

/* The rows that suit: a bit for each. */
static uint32_t suiting(const situ__conv *g) {
  uint32_t bits = 0;
  for (int i = 0; i < ROWS; i++) bits |= (uint32_t)suits(&situ__conv_rows[i], g) << i;
  return bits;
}

/* Returns SITU_E_UNSUPPORTED if no row suits that may run. */
static situ_status run_rows(const situ__conv *g) {
  const int choice = situ__choice_of(&situ__conv_choice);
  situ_status status = SITU_E_UNSUPPORTED;
  for (int i = 0; i < ROWS && status == SITU_E_UNSUPPORTED; i++) {
    const situ__conv_row *row = &situ__conv_rows[i];
    if (situ__choice_allows(choice, i) && suits(row, g))
      status = row->flipped ? situ__conv_run_flipped(g, row->algorithm) : row->algorithm->run(g);
    if (status != SITU_E_UNSUPPORTED) situ__profile_algorithm(row->name);
  }
  return status;
}

/* ---- describing the problem ---- */

/* operand: x, w, y. Their storages are not read. */
static situ__conv describe(const situ_work *work, const situ_view_desc *const operand[3]) {
  const situ_view_desc *x = operand[0], *y = operand[2];
  const int64_t groups = work->window->groups;
  const bool forward = work->op == SITU_CONV_FORWARD, pool_2x2 = forward && work->integer[1];
  return (situ__conv){ .pass = (situ_conv_pass)work->op,
                       .window = work->window,
                       .dtype = (situ_dtype)x->dtype,
                       .channels_last = !x->contiguous || !y->contiguous,
                       .relu = forward && work->integer[0] == SITU_UNARY_relu,
                       .activation = forward ? activation_of(work, (situ_dtype)x->dtype) : NULL,
                       .pool_2x2 = pool_2x2,
                       .images = x->size[0],
                       .groups = groups,
                       .channels = x->size[1] / groups,
                       .outputs = y->size[1] / groups,
                       .height = x->size[2],
                       .width = x->size[3],
                       .out_height = y->size[2] << pool_2x2,
                       .out_width = y->size[3] << pool_2x2 };
}

/* x, w and y among the two operands and the result, for each pass. */
static void find_roles(int pass, const situ_view_desc *a, const situ_view_desc *b, const situ_view_desc *result,
                       const situ_view_desc *role[3]) {
  role[0] = pass == SITU_CONV_GRAD_DATA ? result : a;
  role[1] = pass == SITU_CONV_GRAD_WEIGHT ? result : b;
  role[2] = pass == SITU_CONV_FORWARD ? result : pass == SITU_CONV_GRAD_DATA ? a : b;
}

situ_status situ__cpu_offers_conv(const situ_work *work) {
  const situ_view_desc *role[3];
  find_roles(work->op, work->in[0], work->in[1], work->out[0], role);
  const situ__conv c = describe(work, role);
  const bool relu = !c.relu || situ__cpu_compute(c.dtype) != SITU__I64;
  /* 16 bits are rounded before another activation than relu, as if it were a call of its own. */
  const bool other = c.relu || !work->integer[0] || c.dtype == SITU_F32 || c.dtype == SITU_F64;
  bool can = !c.pool_2x2 && !c.channels_last;
  for (int i = 0; i < ROWS && !can; i++)
    can = situ__choice_allows(situ__choice_of(&situ__conv_choice), i) && suits(&situ__conv_rows[i], &c);
  return relu && other && can ? SITU_OK : SITU_E_UNSUPPORTED;
}

/* ---- the verb ---- */

/* bias: f32 for bf16, else of the same dtype as the others. */
static situ__conv geometry_of(const situ_work *work, const situ_view_desc *a, const situ_view_desc *b,
                              const situ_view_desc *bias, const situ_view_desc *result) {
  const situ_view_desc *role[3];
  find_roles(work->op, a, b, result, role);
  situ__conv c = describe(work, role);
  c.x = situ__cpu_data(role[0]), c.w = situ__cpu_data(role[1]), c.y = situ__cpu_data(role[2]);
  c.bias = bias ? situ__cpu_data(bias) : NULL;
  return c;
}

/* Whether an algorithm may read the operands as they are: bf16 alone has one that does. */
static bool is_bf16(const situ_work *work) {
  const situ_view_desc *const operand[] = { work->in[0], work->in[1], work->out[0] };
  bool all = true;
  for (int i = 0; i < 3; i++) all = all && operand[i]->dtype == SITU_BF16 && operand[i]->contiguous;
  return all;
}

static situ_status run_converted(const situ_work *work, situ_dtype dtype, const situ_view_desc *bias) {
  const char *op = "conv";
  situ__cpu_operand a = { 0 }, b = { 0 }, result = { 0 };
  situ_status status = situ__operand_in(&a, op, work->in[0], dtype);
  if (status == SITU_OK) status = situ__operand_in(&b, op, work->in[1], dtype);
  if (status == SITU_OK) status = situ__operand_out(&result, op, work->out[0], dtype, true);
  if (status == SITU_OK) {
    situ__conv c = geometry_of(work, a.view, b.view, bias, result.view);
    c.from_bf16 = work->in[0]->dtype == SITU_BF16 && work->in[1]->dtype == SITU_BF16;
    c.packed_w = work->ins > 3 && work->in[3] ? situ__cpu_data(work->in[3]) : NULL;
    status = run_rows(&c);
    if (status == SITU_E_UNSUPPORTED) status = situ__choice_refuse(&situ__conv_choice, op, suiting(&c));
  }
  if (status == SITU_OK) situ__operand_write(&result);
  situ__operand_close(&a);
  situ__operand_close(&b);
  situ__operand_close(&result);
  return status;
}

situ_status situ__cpu_conv(int index, const situ_work *work) {
  (void)index;
  const situ_dtype dtype = situ__cpu_compute_dtype(work->compute);
  const situ_view_desc *bias = work->op != SITU_CONV_GRAD_WEIGHT && work->ins > 2 ? work->in[2] : NULL;
  situ__cpu_operand extra = { 0 };
  situ_status status = situ__operand_in(&extra, "conv", bias, dtype);
  if (status != SITU_OK) return status;
  status = SITU_E_UNSUPPORTED;
  if (is_bf16(work)) {
    const situ__conv c = geometry_of(work, work->in[0], work->in[1], extra.view, work->out[0]);
    status = run_rows(&c);
  }
  if (status == SITU_E_UNSUPPORTED) status = run_converted(work, dtype, extra.view);
  situ__operand_close(&extra);
  return status;
}

/* ---- weights that are laid out before ---- */

static situ__conv prepack_of(const situ_work *work) {
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

situ_status situ__cpu_offers_conv_prepack(const situ_work *work) {
  const situ__conv c = prepack_of(work);
  return situ__conv_amx_offers_prepack(&c) || situ__conv_pointwise_offers_prepack(&c) ? SITU_OK : SITU_E_UNSUPPORTED;
}

situ_status situ__cpu_conv_prepack(const situ_work *work) {
  const situ__conv c = prepack_of(work);
  char *to = situ__cpu_data(work->out[0]);
  if (situ__conv_amx_offers_prepack(&c)) situ__conv_amx_prepack(&c, to);
  else situ__conv_pointwise_prepack(&c, to);
  return SITU_OK;
}
