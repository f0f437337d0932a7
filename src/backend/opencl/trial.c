/* Trials: shapes and values of operands, and comparison of results.
   SPDX-License-Identifier: MIT */
#include "backend/opencl/trial.h"

#include <math.h>
#include <string.h>

#include "kernels/dialect.h"
#include "kernels/half.h"
#include "kernels/convert.h"

/* ---- shapes --------------------------------------------------------------------------------- */

/* A row has 61 elements, so that a vectorised loop runs its body, its prologue and its epilogue. */
enum { ROW = 61, ROWS = 6, GAP = 3 };

typedef struct shape {
  int ndim;
  int64_t size[4];
} shape;
#define SHAPE(...) ((shape){ (int)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)), { __VA_ARGS__ } })

/* An operand of like's dtype (NULL: absent) in this shape; gap: elements between two rows. */
static void place(trial_operand *o, const situ_view_desc *like, shape s, int64_t gap, trial_values values) {
  if (!like) return;
  situ_view_desc v = { .dtype = like->dtype, .ndim = (uint8_t)s.ndim, .contiguous = gap == 0, .numel = 1 };
  int64_t step = 1;
  for (int d = s.ndim - 1; d >= 0; d--) {
    v.size[d] = s.size[d];
    v.stride[d] = step;
    v.numel *= s.size[d];
    step *= s.size[d] + (d == s.ndim - 1 ? gap : 0);
  }
  *o = (trial_operand){ .there = true, .values = values, .on_host = v, .on_device = v };
  o->host.bytes = o->device.bytes = (size_t)step * situ__lower_size(v.dtype);
}

static void place_in(trial *t, const situ_work *w, int k, shape s, trial_values values) {
  if (k < w->ins) place(&t->in[k], w->in[k], s, 0, values);
}
static void place_out(trial *t, const situ_work *w, int k, shape s) {
  if (k < w->outs) place(&t->out[k], w->out[k], s, 0, TRIAL_ZERO);
}

/* All operands are rows; with gaps between rows if an operand of the work is not contiguous and the verb takes any
   strides. */
static void element_by_element(trial *t, const situ_work *w) {
  const bool strided = w->verb == SITU_VERB_COPY || (w->verb >= SITU_VERB_UNARY && w->verb <= SITU_VERB_TERNARY);
  bool dense = true;
  for (int k = 0; k < w->ins; k++) dense = dense && (!w->in[k] || w->in[k]->contiguous);
  for (int k = 0; k < w->outs; k++) dense = dense && (!w->out[k] || w->out[k]->contiguous);
  dense = dense || !strided;
  const shape s = dense ? SHAPE(ROW) : SHAPE(ROWS, ROW);
  const trial_values values = w->verb == SITU_VERB_RANDOM ? TRIAL_CHANCE : TRIAL_SIGNED;
  for (int k = 0; k < w->ins; k++) place(&t->in[k], w->in[k], s, dense ? 0 : GAP, values);
  for (int k = 0; k < w->outs; k++) place(&t->out[k], w->out[k], k ? SHAPE(1) : s, dense || k ? 0 : GAP, TRIAL_ZERO);
}

/* Lines along the last dimension, or adjacent ones; `length` is that of the result's lines. */
static bool along(trial *t, const situ_work *w, bool last, int64_t length) {
  for (int k = 0; k < w->ins; k++) place_in(t, w, k, last ? SHAPE(ROWS, ROW) : SHAPE(ROW, ROWS), TRIAL_GENTLE);
  for (int k = 0; k < w->outs; k++) place_out(t, w, k, last ? SHAPE(ROWS, length) : SHAPE(length, ROWS));
  t->work.integer[0] = last;
  return true;
}

/* Gathers or scatters rows or elements of 7 by 5 indices, along the first dimension or the last. */
static bool by_index(trial *t, const situ_work *w, bool scatter) {
  const situ_view_desc *large = scatter ? w->out[0] : w->in[0];
  const bool elements = w->op & SITU_INDEX_ELEMENTS, last = w->integer[0] == large->ndim - 1;
  const shape full = last ? SHAPE(13, 7) : SHAPE(7, 13), picked = last ? SHAPE(13, 5) : SHAPE(5, 13);
  place_in(t, w, scatter ? 0 : 1, elements ? picked : SHAPE(5), TRIAL_INDEX);
  place_in(t, w, scatter ? 1 : 0, scatter ? picked : full, TRIAL_GENTLE);
  place_out(t, w, 0, scatter ? full : picked);
  t->in[scatter ? 0 : 1].below = 7;
  t->work.integer[0] = last;
  return true;
}

static bool convolution(trial *t, const situ_work *w) {
  const shape x = SHAPE(2, 4, 9, 11), y = SHAPE(2, 5, 7, 6), weight = SHAPE(5, 4, 3, 3);
  const bool data = w->op == SITU_CONV_GRAD_DATA, filter = w->op == SITU_CONV_GRAD_WEIGHT;
  t->window = (situ_window){ { 3, 3 }, { 1, 2 }, { 0, 1 }, { 1, 1 }, 1, false, 0 };
  place_in(t, w, 0, data ? y : x, TRIAL_GENTLE);
  place_in(t, w, 1, filter ? y : weight, TRIAL_GENTLE);
  place_in(t, w, 2, data ? SHAPE(4) : SHAPE(5), TRIAL_GENTLE);
  place_out(t, w, 0, filter ? weight : data ? x : y);
  return true;
}

static bool pooling(trial *t, const situ_work *w) {
  const shape x = SHAPE(2, 3, 9, 11), y = SHAPE(2, 3, 5, 6);
  const bool back = w->op == SITU_POOL_MAX_GRAD || w->op == SITU_POOL_AVG_GRAD || w->op == SITU_POOL_ADAPTIVE_AVG_GRAD;
  t->window = (situ_window){ { 3, 3 }, { 2, 2 }, { 1, 1 }, { 1, 1 }, 1, false, 0 };
  place_in(t, w, 0, back ? y : x, TRIAL_GENTLE);
  place_in(t, w, 1, y, TRIAL_INDEX);
  t->in[1].below = 9 * 11;
  place_out(t, w, 0, back ? x : y);
  place_out(t, w, 1, y);
  return true;
}

/* Norms: weight, bias and statistics are vectors, all other operands have x's shape. */
static bool norm(trial *t, const situ_work *w) {
  const shape x = SHAPE(ROWS, ROW), width = SHAPE(ROW), each = SHAPE(ROWS);
  const bool layer = w->op == SITU_LAYER_NORM || w->op == SITU_LAYER_NORM_GRAD,
             back = w->op == SITU_LAYER_NORM_GRAD || w->op == SITU_RMS_NORM_GRAD;
  for (int k = 0; k < w->ins; k++)
    place_in(t, w, k, k == 0 || (back && k == 1) ? x : back && k < (layer ? 4 : 3) ? each : width, TRIAL_GENTLE);
  for (int k = 0; k < w->outs; k++) place_out(t, w, k, k == 0 ? x : back ? width : each);
  return true;
}

static bool batch_norm(trial *t, const situ_work *w) {
  const shape x = SHAPE(4, 5, 13), channel = SHAPE(5);
  const bool back = w->op == SITU_BATCH_NORM_GRAD;
  for (int k = 0; k < w->ins; k++) place_in(t, w, k, k == 0 || (back && k == 1) ? x : channel, TRIAL_GENTLE);
  for (int k = 0; k < w->outs; k++) place_out(t, w, k, k == 0 ? x : channel);
  return true;
}

static bool cross_entropy(trial *t, const situ_work *w) {
  const shape x = SHAPE(4, 7, 5), point = SHAPE(4, 5), none = { 0 };
  const bool back = w->op == SITU_NLL_GRAD;
  const situ_view_desc *loss = back ? w->in[0] : w->out[0];
  const shape as = loss && loss->ndim ? point : none;
  int k = 0;
  if (back) place_in(t, w, k++, as, TRIAL_GENTLE);
  place_in(t, w, k++, x, TRIAL_GENTLE);
  place_in(t, w, k, point, TRIAL_INDEX);
  t->in[k++].below = 7;
  place_in(t, w, k++, SHAPE(7), TRIAL_GENTLE);
  place_in(t, w, k++, none, TRIAL_GENTLE);
  place_in(t, w, k++, point, TRIAL_GENTLE);
  place_out(t, w, 0, back ? x : as);
  place_out(t, w, 1, none);
  place_out(t, w, 2, point);
  t->work.integer[0] = -100; /* no target is ignored */
  return true;
}

/* The last result is as wide as h; the others are several times as wide. */
static bool cell(trial *t, const situ_work *w) {
  const int64_t hidden = w->out[w->outs - 1]->size[1];
  for (int k = 0; k < w->ins; k++) place_in(t, w, k, SHAPE(3, 7 * (w->in[k]->size[1] / hidden)), TRIAL_SIGNED);
  for (int k = 0; k < w->outs; k++) place_out(t, w, k, SHAPE(3, 7 * (w->out[k]->size[1] / hidden)));
  return true;
}

/* More keys than one block has; of the gradient, y and g are queries too. */
static bool attention(trial *t, const situ_work *w) {
  const shape queries = SHAPE(1, 7, 5), keys = SHAPE(1, 67, 5), rows = SHAPE(1, 7, 1), mask = SHAPE(1, 7, 67);
  const bool back = w->op == SITU_ATTENTION_GRAD;
  for (int k = 0; k < w->ins; k++)
    place_in(t, w, k,
             k == 1 || k == 2      ? keys
             : k == (back ? 6 : 3) ? mask
             : back && k == 4      ? rows
                                   : queries,
             back && k == 4 ? TRIAL_GENTLE : TRIAL_GENTLE);
  for (int k = 0; k < w->outs; k++) place_out(t, w, k, k == 0 ? queries : back ? keys : rows);
  t->work.integer[0] = 0; /* of so few queries, causal ones would see one block alone */
  return true;
}

static bool optimizer(trial *t, const situ_work *w) {
  const situ_optimizer_item *like = w->list_count ? &w->list[0] : NULL;
  if (!like) return false;
  const situ_view_desc *all[TRIAL_STATES] = { like->param, like->grad, like->state[0], like->state[1], like->state[2] };
  for (int k = 0; k < TRIAL_STATES; k++) place(&t->state[k], all[k], SHAPE(ROW), 0, TRIAL_GENTLE);
  t->item.step = like->step;
  t->work.list = &t->item;
  t->work.list_count = 1;
  return true;
}

static bool product(trial *t, const situ_work *w) {
  place_in(t, w, 0, SHAPE(17, 19), TRIAL_GENTLE);
  place_in(t, w, 1, SHAPE(19, 23), TRIAL_GENTLE);
  place_in(t, w, 2, SHAPE(17, 23), TRIAL_GENTLE);
  place_out(t, w, 0, SHAPE(17, 23));
  return true;
}

/* The signed values are all nonzero. */
static bool nonzero(trial *t, const situ_work *w) {
  place_in(t, w, 0, SHAPE(ROW), w->in[0]->dtype == SITU_BOOL ? TRIAL_INDEX : TRIAL_SIGNED);
  t->in[0].below = 1;
  place_out(t, w, 0, SHAPE(ROW, 1));
  return true;
}

/* Bytes below 60 are finite scales. */
static bool quantised(trial *t, const situ_work *w) {
  const situ__block_facts *facts = situ__block((situ_block_type)w->integer[0]);
  place_in(t, w, 0, SHAPE(3, 2 * facts->bytes), TRIAL_INDEX);
  t->in[0].below = 60;
  place_out(t, w, 0, SHAPE(3, 2 * facts->elements));
  return true;
}

static bool reduces_last(const situ_work *w) {
  const situ_view_desc *x = w->in[0], *y = w->out[0];
  return x->ndim == 0 || y->ndim == 0 || y->size[y->ndim - 1] == 1;
}

bool situ__cl_trial_shape(trial *t, const situ_work *w) {
  t->work = *w;
  t->work.window = w->window ? &t->window : NULL;
  const bool last = w->ins && w->in[0] && w->integer[0] == w->in[0]->ndim - 1;
  switch ((int)w->verb) {
  case SITU_VERB_TRIANGLE:
    place_in(t, w, 0, SHAPE(7, 9), TRIAL_SIGNED);
    place_out(t, w, 0, SHAPE(7, 9));
    return true;
  case SITU_VERB_REDUCE: return along(t, w, reduces_last(w), 1);
  case SITU_VERB_ARG_REDUCE: return along(t, w, last, 1);
  case SITU_VERB_SCAN:
  case SITU_VERB_SOFTMAX:
  case SITU_VERB_SORT: return along(t, w, last, ROW);
  case SITU_VERB_GATHER: return by_index(t, w, false);
  case SITU_VERB_SCATTER: return by_index(t, w, true);
  case SITU_VERB_NONZERO: return nonzero(t, w);
  case SITU_VERB_MATMUL: return product(t, w);
  case SITU_VERB_CONV: return convolution(t, w);
  case SITU_VERB_POOL: return pooling(t, w);
  case SITU_VERB_RESAMPLE:
    place_in(t, w, 0, SHAPE(3, 7, 5), TRIAL_SIGNED);
    place_out(t, w, 0, SHAPE(3, 11, 5));
    t->work.integer[0] = 1;
    return true;
  case SITU_VERB_FFT: /* passes of 4, 3 and 5 */
    place_in(t, w, 0, SHAPE(2, 60, 2), TRIAL_SIGNED);
    place_out(t, w, 0, SHAPE(2, 60, 2));
    t->work.op = SITU_FFT_COMPLEX, t->work.integer[0] = 1;
    return true;
  case SITU_VERB_NORM: return norm(t, w);
  case SITU_VERB_BATCH_NORM: return batch_norm(t, w);
  case SITU_VERB_NLL: return cross_entropy(t, w);
  case SITU_VERB_CELL: return cell(t, w);
  case SITU_VERB_ATTENTION: return attention(t, w);
  case SITU_VERB_OPTIMIZER: return optimizer(t, w);
  case SITU_VERB_BLOCKS: return quantised(t, w);
  default: element_by_element(t, w); return true;
  }
}

/* ---- values --------------------------------------------------------------------------------- */

static void put_value(unsigned char *to, int dtype, int64_t integer, float real) {
  switch (dtype) {
  case SITU_F64: memcpy(to, &(double){ (double)real }, 8); break;
  case SITU_F32: memcpy(to, &real, 4); break;
  case SITU_F16: memcpy(to, &(uint16_t){ situ__f32_to_f16(real) }, 2); break;
  case SITU_BF16: memcpy(to, &(uint16_t){ situ__f32_to_bf16(real) }, 2); break;
  case SITU_I64: memcpy(to, &integer, 8); break;
  case SITU_I32: memcpy(to, &(int32_t){ (int32_t)integer }, 4); break;
  case SITU_I16: memcpy(to, &(int16_t){ (int16_t)integer }, 2); break;
  default: *to = (unsigned char)integer; /* bool, u8 and i8 */
  }
}

static double get_value(const unsigned char *from, int dtype) {
  union {
    double f64;
    float f32;
    uint16_t half;
    int64_t i64;
    int32_t i32;
    int16_t i16;
  } v;
  memcpy(&v, from, situ__lower_size(dtype));
  switch (dtype) {
  case SITU_F64: return v.f64;
  case SITU_F32: return (double)v.f32;
  case SITU_F16: return (double)situ__f16_to_f32(v.half);
  case SITU_BF16: return (double)situ__bf16_to_f32(v.half);
  case SITU_I64: return (double)v.i64;
  case SITU_I32: return v.i32;
  case SITU_I16: return v.i16;
  case SITU_I8: return (signed char)*from;
  default: return *from;
  }
}

static bool is_floating(int dtype) { return situ__lower_compute_of((situ_dtype)dtype) != SITU__COMPUTE_I64; }

void situ__cl_trial_fill(trial_operand *o, int seed) {
  const int dtype = o->on_host.dtype;
  const size_t size = situ__lower_size(dtype);
  const bool negative = seed == 0 && o->values == TRIAL_SIGNED && dtype != SITU_U8;
  memset(o->bytes, 0, sizeof o->bytes);
  if (o->values == TRIAL_ZERO) return;
  for (int64_t i = 0; i < (int64_t)(o->host.bytes / size); i++) {
    const int64_t step = (i * 37 + seed * 11) % 101;
    int64_t integer = dtype == SITU_BOOL ? (i * 5 + seed) % 3 != 0 : 1 + (i * 7 + seed * 3) % 23;
    if (o->values == TRIAL_INDEX) {
      /* Elements: different along both dimensions. */
      const int64_t row = o->on_host.ndim > 1 ? o->on_host.size[o->on_host.ndim - 1] : i + 1;
      integer = dtype == SITU_BOOL ? 1 : (3 * (i / row + i % row) + 1) % o->below;
    } else if (negative && i % 2 && dtype != SITU_BOOL) {
      integer = -integer;
    }
    const float real = o->values == TRIAL_SIGNED   ? (float)step * 0.08f - 4.03f
                       : o->values == TRIAL_CHANCE ? (float)step * 0.01f
                                                   : (float)step * 0.01f + 0.55f;
    put_value(o->bytes + (size_t)i * size, dtype, integer, real);
  }
}

/* ---- comparing ------------------------------------------------------------------------------ */

/* Wrong kernels are wrong by far; differences by rounding, or by the order of a sum, are allowed. */
static double tolerance_of(const trial_operand *o) {
  if (!o->there || !is_floating(o->on_host.dtype)) return 0;
  switch (o->on_host.dtype) {
  case SITU_F64: return 1e-9;
  case SITU_F32: return 1e-4;
  case SITU_F16: return 1e-2;
  default: return 6e-2; /* bf16 */
  }
}

double situ__cl_trial_tolerance(const trial *t) {
  double most = 0;
  for (int k = 0; k < SITU_WORK_MAX; k++) most = fmax(most, fmax(tolerance_of(&t->in[k]), tolerance_of(&t->out[k])));
  for (int k = 0; k < TRIAL_STATES; k++) most = fmax(most, tolerance_of(&t->state[k]));
  return most;
}

/* The largest finite value: smaller ones may be differences of such values, with errors relative to them. */
static double largest_of(const trial_operand *o) {
  const size_t size = situ__lower_size(o->on_host.dtype);
  double largest = 0;
  for (size_t at = 0; at < o->host.bytes; at += size) {
    const double v = fabs(get_value(o->bytes + at, o->on_host.dtype));
    if (isfinite(v)) largest = fmax(largest, v);
  }
  return largest;
}

static bool is_near(double is, double should, double tolerance, double largest) {
  if (is == should || (isnan(is) && isnan(should))) return true;
  const double least = tolerance < 1e-6 ? 1e-12 : 1e-6;
  return tolerance > 0 && isfinite(should) && fabs(is - should) <= tolerance * (fabs(should) + 0.1 * largest) + least;
}

bool situ__cl_trial_same(const trial_operand *o, const unsigned char *got, double tolerance, int64_t *where, double *is,
                         double *should) {
  const int dtype = o->on_host.dtype;
  if (!is_floating(dtype)) tolerance = 0;
  const size_t size = situ__lower_size(dtype);
  const double largest = largest_of(o);
  for (size_t at = 0; at < o->host.bytes; at += size) {
    *where = (int64_t)(at / size);
    *is = get_value(got + at, dtype);
    *should = get_value(o->bytes + at, dtype);
    if (!is_near(*is, *should, tolerance, largest)) return false;
  }
  return true;
}
