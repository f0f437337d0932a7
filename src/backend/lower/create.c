/* Constants, ranges, random numbers and triangles.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "backend/lower/lower.h"
#include "kernels/dialect.h"
#include "kernels/convert.h"
#include "kernels/half.h"

/* ---- fill ----------------------------------------------------------------------------------- */

/* The value as the bits of dtype. */
static int64_t bits_of(const situ_work *work, situ_dtype dtype) {
  double x = work->scalar[0];
  switch (dtype) {
  case SITU_F64: return (int64_t)BITS_F64(x);
  case SITU_F32: return BITS_F32((float)x);
  case SITU_F16: return situ__f32_to_f16((float)x);
  case SITU_BF16: return situ__f32_to_bf16((float)x);
  case SITU_BOOL: return work->integer[0] != 0;
  default: return work->integer[0];
  }
}

situ_status situ__lower_fill(int index, const situ_work *work) {
  const situ_view_desc *y = work->out[0];
  situ__call call = { .variant = { SITU__TEXT_fill, .dtype = { (uint8_t)situ__lower_integer_dtype(y->dtype) } },
                      .op = "fill" };
  walk w;
  const bool dense = situ__lower_walk(&w, 1, &y);
  int64_t bits = bits_of(work, (situ_dtype)y->dtype);
  situ__lower_buffer(&call, y);
  situ__lower_block(&call, &w, sizeof w);
  situ__lower_block(&call, &bits, sizeof bits);
  return situ__lower_run_walk(index, &call, &w, dense, 1, &y);
}

/* ---- range ---------------------------------------------------------------------------------- */

situ_status situ__lower_range(int index, const situ_work *work) {
  const situ_view_desc *y = work->out[0];
  bool integer = work->op == 0 && situ__lower_compute_of((situ_dtype)y->dtype) == SITU__COMPUTE_I64;
  situ__call call = { .variant = { SITU__TEXT_range, .op = (uint8_t)work->op, .dtype = { y->dtype } }, .op = "range" };
  struct {
    int64_t step[3], numel, offset;
  } i64 = { { 0 }, y->numel, y->offset };
  struct {
    double step[3];
    int64_t numel, offset;
  } f64 = { { 0 }, y->numel, y->offset };
  struct {
    float step[4];
    int64_t numel, offset;
  } f32 = { { 0 }, y->numel, y->offset };
  for (int k = 0; k < 3; k++) {
    f32.step[k] = (float)(f64.step[k] = work->scalar[k]);
    i64.step[k] = f64_to_i64(work->scalar[k]);
  }
  situ__lower_buffer(&call, y);
  call.variant.compute = integer ? SITU_I64 : situ__targets->of(index)->fp64 ? SITU_F64 : SITU_F32;
  if (integer) situ__lower_block(&call, &i64, sizeof i64);
  else if (call.variant.compute == SITU_F64) situ__lower_block(&call, &f64, sizeof f64);
  else situ__lower_block(&call, &f32, sizeof f32);
  return situ__lower_run(index, &call, y->numel);
}

/* ---- random numbers ------------------------------------------------------------------------- */

situ_status situ__lower_random(int index, const situ_work *work) {
  const situ_view_desc *y = work->out[0], *chance = work->op == SITU_RANDOM_BERNOULLI && work->ins ? work->in[0] : NULL;
  situ__call call = { .variant = { SITU__TEXT_random, .op = (uint8_t)work->op, .dtype = { y->dtype } },
                      .op = "random" };
  struct {
    uint64_t seed, offset;
    int64_t numel, at, low, range;
  } head = { work->seed, work->offset,     y->numel,
             y->offset,  work->integer[0], (int64_t)((uint64_t)work->integer[1] - (uint64_t)work->integer[0]) };
  struct {
    uint64_t head[6];
    double a, b, most;
  } f64;
  struct {
    uint64_t head[6];
    float a, b, most;
  } f32;
  _Static_assert(sizeof head == sizeof f64.head, "the kernel reads them as one struct");
  const double a = work->scalar[0], b = work->op == SITU_RANDOM_UNIFORM ? work->scalar[1] - a : work->scalar[1];
  memcpy(f64.head, &head, sizeof head);
  memcpy(f32.head, &head, sizeof head);
  f64.a = a, f64.b = b, f64.most = work->scalar[2];
  f32.a = (float)a, f32.b = (float)b, f32.most = (float)work->scalar[2];
  situ_dtype dtype = chance                              ? (situ_dtype)chance->dtype
                     : work->op == SITU_RANDOM_BERNOULLI ? SITU_F32
                                                         : (situ_dtype)y->dtype;
  bool integer = work->op >= SITU_RANDOM_INTEGER;
  call.variant.compute = integer ? SITU_I64 : dtype == SITU_F64 ? SITU_F64 : SITU_F32;
  call.variant.flags = integer || dtype == SITU_F64 ? 0 : dtype == SITU_F16 ? 11 : dtype == SITU_BF16 ? 8 : 24;
  situ__lower_buffer(&call, y);
  if (chance) {
    call.variant.dtype[1] = chance->dtype;
    situ__lower_buffer(&call, chance);
  }
  walk w;
  if (call.variant.compute == SITU_F32) situ__lower_block(&call, &f32, sizeof f32);
  else situ__lower_block(&call, &f64, sizeof f64);
  if (chance) {
    const situ_view_desc *view[] = { y, chance };
    (void)situ__lower_walk(&w, 2, view);
    situ__lower_block(&call, &w, sizeof w);
    call.checks = true;
  }
  return situ__lower_run_flat(index, &call, y->numel, 1);
}

/* ---- triangles ------------------------------------------------------------------------------ */

situ_status situ__lower_triangle(int index, const situ_work *work) {
  const situ_view_desc *y = work->out[0], *view[] = { y, work->in[0] };
  int64_t rows = y->size[y->ndim - 2], columns = y->size[y->ndim - 1];
  /* Diagonals beyond the corners select all or nothing; clamping them prevents overflow. */
  int64_t diagonal = work->integer[0] < -rows ? -rows : work->integer[0] > columns ? columns : work->integer[0];
  situ__call call = { .variant = { SITU__TEXT_triangle, .op = (uint8_t)work->op,
                                   .dtype = { (uint8_t)situ__lower_integer_dtype(y->dtype) } },
                      .op = "triangle" };
  walk w;
  (void)situ__lower_walk(&w, 2, view);
  situ__lower_buffer(&call, view[0]);
  situ__lower_buffer(&call, view[1]);
  situ__lower_block(&call, &w, sizeof w);
  situ__lower_block(&call, &rows, sizeof rows);
  situ__lower_block(&call, &columns, sizeof columns);
  situ__lower_block(&call, &diagonal, sizeof diagonal);
  return situ__lower_run(index, &call, y->numel);
}
