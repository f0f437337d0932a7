/* Reductions, argmin and argmax, and cumulative sums.
   SPDX-License-Identifier: MIT */
#include <math.h>

#include "backend/lower/lower.h"
#include "device/empty_reduction.h"

/* The reduction, what is applied to elements first, and what to the result. */
typedef struct recipe {
  uint32_t fold, map, finish;
} recipe;

static recipe norm_recipe(double p) {
  if (p == INFINITY) return (recipe){ FOLD_MAX, MAP_ABS, FINISH_NONE };
  if (p == -INFINITY) return (recipe){ FOLD_MIN, MAP_ABS, FINISH_NONE };
  if (p == 0) return (recipe){ FOLD_SUM, MAP_NONZERO, FINISH_NONE };
  if (p == 1) return (recipe){ FOLD_SUM, MAP_ABS, FINISH_NONE };
  if (p == 2) return (recipe){ FOLD_SUM, MAP_SQUARE, FINISH_ROOT };
  return (recipe){ FOLD_SUM, MAP_POWER, FINISH_POWER };
}

static recipe recipe_of(const situ_work *work) {
  static const recipe of[SITU_REDUCES] = {
    [SITU_REDUCE_SUM] = { FOLD_SUM, MAP_NONE, FINISH_NONE },
    [SITU_REDUCE_MEAN] = { FOLD_SUM, MAP_NONE, FINISH_MEAN },
    [SITU_REDUCE_PROD] = { FOLD_PROD, MAP_NONE, FINISH_NONE },
    [SITU_REDUCE_MIN] = { FOLD_MIN, MAP_NONE, FINISH_NONE },
    [SITU_REDUCE_MAX] = { FOLD_MAX, MAP_NONE, FINISH_NONE },
    [SITU_REDUCE_ALL] = { FOLD_MIN, MAP_NONZERO, FINISH_NONE },
    [SITU_REDUCE_ANY] = { FOLD_MAX, MAP_NONZERO, FINISH_NONE },
    [SITU_REDUCE_VAR] = { FOLD_MOMENTS, MAP_NONE, FINISH_VAR },
    [SITU_REDUCE_STD] = { FOLD_MOMENTS, MAP_NONE, FINISH_STD },
    [SITU_REDUCE_COUNT] = { FOLD_SUM, MAP_NONZERO, FINISH_NONE },
    [SITU_REDUCE_MEAN_SQUARE] = { FOLD_SUM, MAP_SQUARE, FINISH_MEAN },
    [SITU_REDUCE_LOGSUMEXP] = { FOLD_LOGSUM, MAP_NONE, FINISH_LOGSUM },
  };
  return work->op == SITU_REDUCE_NORM ? norm_recipe(work->scalar[0]) : of[work->op];
}

/* True for all and any, whose partial results may be tested again. */
static bool is_test(const recipe *r) { return r->map == MAP_NONZERO && (r->fold == FOLD_MIN || r->fold == FOLD_MAX); }

enum { LONG = 1 << 16, PIECES = 1024, ROWS = 32 };

static situ_status fold(int index, const situ_work *work, situ_dtype compute, const recipe *r, const situ_view_desc *y,
                        const situ_view_desc *x, const walk *kept, const walk *part, const pieces *cut) {
  bool dense = part->ndim == 0 || (part->ndim == 1 && part->stride[0][0] == 1);
  bool beside = !dense && kept->ndim == 1 && kept->stride[1][0] == 1 && cut->count == 1 && r->fold < FOLD_MOMENTS;
  situ__call call = { .variant = { SITU__TEXT_reduce, .compute = (uint8_t)situ__lower_compute_dtype(compute),
                                   .dtype = { y->dtype, x->dtype },
                                   .flags = r->fold << 4 | r->map << 8 | r->finish << 12 | (dense ? FLAG_DENSE : 0) },
                      .op = "reduce" };
  situ__lower_buffer(&call, y);
  situ__lower_buffer(&call, x);
  situ__lower_block(&call, kept, sizeof *kept);
  situ__lower_block(&call, part, sizeof *part);
  situ__lower_block(&call, cut, sizeof *cut);
  situ__lower_scalars(&call, work->scalar);
  return situ__lower_run_lines(index, &call, kept->numel, cut->length, beside);
}

/* Reduces a long line to one element: pieces first, then their partial results. */
static situ_status in_pieces(int index, const situ_work *work, situ_dtype compute, const recipe *r, const walk *part) {
  const situ_view_desc *x = work->in[0], *y = work->out[0];
  void *memory = situ__lower_scratch(index, "reduce", PIECES * sizeof(double));
  if (!memory) return SITU_E_NOMEM;
  situ_storage storage;
  situ_view_desc folds = situ__lower_scratch_view(&storage, memory, situ__lower_compute_dtype(compute), PIECES);
  recipe first = { r->fold, r->map, FINISH_NONE }, second = { r->fold, is_test(r) ? r->map : MAP_NONE, r->finish };
  walk lines_of = {
    .numel = PIECES, .ndim = 1, .size = { PIECES }, .offset = { 0, x->offset }, .stride = { { 1 }, { 0 } }
  };
  walk all = { .numel = PIECES, .ndim = 1, .size = { PIECES }, .stride = { { 1 } } },
       one = { .numel = 1, .offset = { y->offset, 0 } };
  pieces cut = { PIECES, (part->numel + PIECES - 1) / PIECES, part->numel }, rest = { 1, PIECES, part->numel };
  situ_status status = fold(index, work, compute, &first, &folds, x, &lines_of, part, &cut);
  if (status == SITU_OK) status = fold(index, work, compute, &second, y, &folds, &one, &all, &rest);
  situ__targets->release(index, memory);
  return status;
}

/* x's compute type must be that of `compute`; y has x's dtype or the compute type, or is bool for all and any. */
static situ_status reduce(int index, const situ_work *work, situ_dtype compute, const recipe *r) {
  const situ_view_desc *x = work->in[0], *y = work->out[0];
  walk kept = { .numel = y->numel, .offset = { y->offset, x->offset } }, part = { .numel = 1 };
  for (int d = 0; d < x->ndim; d++) {
    int64_t both[] = { y->stride[d], x->stride[d] };
    if (y->size[d] == x->size[d]) {
      situ__lower_walk_add(&kept, 2, x->size[d], both);
    } else {
      situ__lower_walk_add(&part, 1, x->size[d], &x->stride[d]);
      part.numel *= x->size[d];
    }
  }
  if (kept.numel == 1 && part.ndim == 1 && part.numel >= LONG && r->fold < FOLD_MOMENTS)
    return in_pieces(index, work, compute, r, &part);
  if (r->fold == FOLD_SUM && r->map == MAP_NONE && r->finish <= FINISH_MEAN &&
      situ__lower_compute_of(compute) != SITU__COMPUTE_I64 && kept.ndim == 1 && kept.stride[0][0] == 1 &&
      kept.stride[1][0] == 1 && part.ndim == 1 && part.numel >= ROWS) {
    const column_sums n = { .rows = part.numel,
                            .width = kept.numel,
                            .row = part.stride[0][0],
                            .divisor = r->finish == FINISH_MEAN ? part.numel : 1 };
    situ_status status;
    if (situ__lower_columns(index, 0, n, x, NULL, NULL, NULL, y, NULL, &status)) return status;
  }
  pieces full_line = { 1, part.numel, part.numel };
  return fold(index, work, compute, r, y, x, &kept, &part, &full_line);
}

/* Other combinations of dtypes: casts x first and y last. */
static situ_status reduce_cast(int index, const situ_work *given, situ_dtype compute, const recipe *r) {
  const situ_dtype wide = situ__lower_compute_dtype(compute);
  const situ_view_desc *x = given->in[0], *y = given->out[0];
  situ_work work = *given;
  situ_view_desc own_x, own_y;
  situ_storage memory_x = { 0 }, memory_y = { 0 };
  situ_status status = SITU_OK;
  if (situ__lower_compute_of((situ_dtype)x->dtype) != situ__lower_compute_of(compute)) {
    status = situ__lower_cast(index, x, wide, &own_x, &memory_x);
    work.in[0] = &own_x;
  }
  bool direct = y->dtype == wide || y->dtype == work.in[0]->dtype || (is_test(r) && y->dtype == SITU_BOOL);
  if (status == SITU_OK && !direct) {
    status = situ__lower_stand_in(index, y, wide, &own_y, &memory_y);
    work.out[0] = &own_y;
  }
  if (status == SITU_OK) status = reduce(index, &work, compute, r);
  if (status == SITU_OK && !direct)
    status = situ__lower_copy(index, &(situ_work){ .ins = 1, .outs = 1, .in = { &own_y }, .out = { y } });
  situ__targets->release(index, memory_x.data);
  situ__targets->release(index, memory_y.data);
  return status;
}

situ_status situ__lower_reduce(int index, const situ_work *work) {
  const situ_view_desc *x = work->in[0], *y = work->out[0];
  situ_dtype compute = work->compute ? work->compute : (situ_dtype)x->dtype;
  recipe r = recipe_of(work);
  bool integer = situ__lower_compute_of(compute) == SITU__COMPUTE_I64;
  if (integer && (r.finish || r.fold >= FOLD_MOMENTS))
    return situ__host->fail(SITU_E_DTYPE, "reduce",
                            "mean, var, std, norm and logsumexp are not computed in whole numbers");
  if (!x->numel) {
    if ((r.fold == FOLD_MIN || r.fold == FOLD_MAX) && !is_test(&r))
      return situ__host->fail(SITU_E_ARG, "reduce", "no elements have no extreme");
    double value = situ__empty_reduction(work);
    return situ__lower_fill(index,
                            &(situ_work){ SITU_VERB_FILL, .outs = 1, .out = { y }, .scalar = { value },
                                          .integer = { value == value && fabs(value) <= 1 ? (int64_t)value : 0 } });
  }
  /* f32 counts exactly to 2^24 only. The elements counted are 0 or 1, so any compute type will do. */
  if (r.map == MAP_NONZERO && !is_test(&r) && !integer && x->numel / (y->numel ? y->numel : 1) > 1 << 24)
    compute = SITU_F64;
  return reduce_cast(index, work, compute, &r);
}

situ_status situ__lower_arg_reduce(int index, const situ_work *work) {
  const situ_view_desc *x = work->in[0], *view[] = { work->out[0], work->out[1], x };
  lines w = situ__lower_lines(x, work->integer[0], 3, view);
  if (!w.size) return situ__host->fail(SITU_E_ARG, "arg_reduce", "no elements have no extreme");
  situ__call call = { .variant = { SITU__TEXT_arg_reduce, .op = (uint8_t)work->op, .flags = view[0] ? FLAG_EACH : 0,
                                   .compute = (uint8_t)situ__lower_compute_dtype((situ_dtype)x->dtype),
                                   .dtype = { x->dtype, x->dtype } },
                      .op = "arg_reduce" };
  for (int k = 0; k < 3; k++) situ__lower_buffer(&call, view[k]);
  situ__lower_block(&call, &w, sizeof w);
  return situ__lower_run(index, &call, w.outer * w.inner);
}

situ_status situ__lower_scan(int index, const situ_work *work) {
  const situ_view_desc *view[] = { work->out[0], work->in[0], work->in[1], work->in[2] };
  situ_dtype dtype = (situ_dtype)view[0]->dtype;
  const int operands = 1 + work->ins;
  lines w = situ__lower_lines(view[1], work->integer[0], operands, view);
  situ__call call = { .variant = { SITU__TEXT_scan, .op = (uint8_t)work->op,
                                   .compute = (uint8_t)situ__lower_compute_dtype(dtype),
                                   .dtype = { view[0]->dtype, view[1]->dtype } },
                      .op = "scan" };
  for (int k = 0; k < operands; k++) situ__lower_buffer(&call, view[k]);
  situ__lower_block(&call, &w, sizeof w);
  return situ__lower_run(index, &call, w.outer * w.inner);
}
