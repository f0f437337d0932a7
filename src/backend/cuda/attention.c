/* Fused attention by cuDNN: softmax(scale q k^T + mask) v without the matrix of weights in memory. Two tables describe
   it as elementary operations, which the library fuses. Our own kernels compute what cuDNN does not support.
   SPDX-License-Identifier: MIT */
#include <math.h>

#include "backend/cuda/dnn.h"

/* ---- tensors -------------------------------------------------------------------------------- */

/* Tensors by their uids: operands first, then scalars of the host, then intermediate results. */
enum {
  Q,
  K,
  V,
  O,
  STATS,
  DO,
  DQ,
  DK,
  DV,
  SUMS,
  SCALE,
  HIDDEN,
  ONE,
  GIVEN, /* number of tensors that have addresses */
  SCORES = GIVEN,
  SCALED,
  ROWS,
  COLUMNS,
  SEEN,
  MASKED,
  MOST,
  LESS,
  POWERS,
  TOTAL,
  LOG,
  WEIGHTS,
  TURNED_WEIGHTS,
  PRODUCTS,
  SUM,
  DWEIGHTS,
  CENTRED,
  DSCALED,
  DSCORES,
  TURNED_DSCORES,
  KEYS,
  TENSORS
};

/* Shapes: [b, h, q, d], [b, h, k, d] and its transpose, [b, h, q, k] and its transpose, [b, h, q, 1], and 1. */
typedef enum shape { OF_Q, OF_K, OF_KT, OF_V, OF_VT, LIKE_Q, LIKE_K, SQUARE, SQUARE_T, COLUMN, SINGLE } shape;

typedef struct tensor {
  shape shape;
  int type; /* OWN: q's dtype */
} tensor;
enum { OWN = -1 };

static const tensor tensors[TENSORS] = {
  [Q] = { OF_Q, OWN },
  [K] = { OF_KT, OWN },
  [V] = { OF_V, OWN }, /* transposed in the backward graph */
  [O] = { LIKE_Q, OWN },
  [STATS] = { COLUMN, CUDNN_DATA_FLOAT },
  [DO] = { LIKE_Q, OWN },
  [DQ] = { LIKE_Q, OWN },
  [DK] = { LIKE_K, OWN },
  [DV] = { LIKE_K, OWN },
  [SUMS] = { COLUMN, CUDNN_DATA_FLOAT },
  [SCALE] = { SINGLE, CUDNN_DATA_FLOAT },
  [HIDDEN] = { SINGLE, CUDNN_DATA_FLOAT },
  [ONE] = { SINGLE, CUDNN_DATA_FLOAT },
  [SCORES] = { SQUARE, CUDNN_DATA_FLOAT },
  [SCALED] = { SQUARE, CUDNN_DATA_FLOAT },
  [ROWS] = { SQUARE, CUDNN_DATA_INT32 },
  [COLUMNS] = { SQUARE, CUDNN_DATA_INT32 },
  [SEEN] = { SQUARE, CUDNN_DATA_BOOLEAN },
  [MASKED] = { SQUARE, CUDNN_DATA_FLOAT },
  [MOST] = { COLUMN, CUDNN_DATA_FLOAT },
  [LESS] = { SQUARE, CUDNN_DATA_FLOAT },
  [POWERS] = { SQUARE, CUDNN_DATA_FLOAT },
  [TOTAL] = { COLUMN, CUDNN_DATA_FLOAT },
  [LOG] = { COLUMN, CUDNN_DATA_FLOAT },
  [WEIGHTS] = { SQUARE, OWN },
  [TURNED_WEIGHTS] = { SQUARE_T, OWN },
  [PRODUCTS] = { LIKE_Q, CUDNN_DATA_FLOAT },
  [SUM] = { COLUMN, CUDNN_DATA_FLOAT },
  [DWEIGHTS] = { SQUARE, CUDNN_DATA_FLOAT },
  [CENTRED] = { SQUARE, CUDNN_DATA_FLOAT },
  [DSCALED] = { SQUARE, CUDNN_DATA_FLOAT },
  [DSCORES] = { SQUARE, CUDNN_DATA_FLOAT },
  [TURNED_DSCORES] = { SQUARE_T, OWN },
  [KEYS] = { OF_K, OWN },
};

/* ---- operations ----------------------------------------------------------------------------- */

enum { NONE = -1 };
typedef enum kind { PRODUCT, POINT, REDUCE, TURN } kind;
typedef enum when { ALWAYS, CAUSAL } when;

/* mode: of a pointwise operation or a reduction; axis: of an index. MASKED is SCALED if nothing is masked. */
typedef struct step {
  kind kind;
  int mode, out, a, b, c, axis;
  when when;
} step;

#define POINTWISE(mode, ...) \
  { POINT, CUDNN_POINTWISE_##mode, __VA_ARGS__ }
/* Scores; -Inf where a query must not see a key. */
#define SCORES_OF_Q_AND_K                                                                                      \
  { PRODUCT, 0, SCORES, Q, K, NONE, NONE, ALWAYS }, POINTWISE(MUL, SCALED, SCORES, SCALE, NONE, NONE, ALWAYS), \
      POINTWISE(GEN_INDEX, ROWS, SCALED, NONE, NONE, 2, CAUSAL),                                               \
      POINTWISE(GEN_INDEX, COLUMNS, SCALED, NONE, NONE, 3, CAUSAL),                                            \
      POINTWISE(CMP_GE, SEEN, ROWS, COLUMNS, NONE, NONE, CAUSAL),                                              \
      POINTWISE(BINARY_SELECT, MASKED, SCALED, HIDDEN, SEEN, NONE, CAUSAL)

static const step forward[] = {
  SCORES_OF_Q_AND_K,
  { REDUCE, CUDNN_REDUCE_TENSOR_MAX, MOST, MASKED, NONE, NONE, NONE, ALWAYS },
  POINTWISE(SUB, LESS, MASKED, MOST, NONE, NONE, ALWAYS),
  POINTWISE(EXP, POWERS, LESS, NONE, NONE, NONE, ALWAYS),
  { REDUCE, CUDNN_REDUCE_TENSOR_ADD, TOTAL, POWERS, NONE, NONE, NONE, ALWAYS },
  POINTWISE(LOG, LOG, TOTAL, NONE, NONE, NONE, ALWAYS),
  POINTWISE(ADD, STATS, MOST, LOG, NONE, NONE, ALWAYS),
  POINTWISE(DIV, WEIGHTS, POWERS, TOTAL, NONE, NONE, ALWAYS),
  { PRODUCT, 0, O, WEIGHTS, V, NONE, NONE, ALWAYS },
};

static const step backward[] = {
  POINTWISE(MUL, PRODUCTS, DO, O, NONE, NONE, ALWAYS),
  { REDUCE, CUDNN_REDUCE_TENSOR_ADD, SUM, PRODUCTS, NONE, NONE, NONE, ALWAYS },
  POINTWISE(MUL, SUMS, SUM, ONE, NONE, NONE, ALWAYS),
  SCORES_OF_Q_AND_K,
  POINTWISE(SUB, LESS, MASKED, STATS, NONE, NONE, ALWAYS),
  POINTWISE(EXP, POWERS, LESS, NONE, NONE, NONE, ALWAYS),
  { TURN, 0, TURNED_WEIGHTS, POWERS, NONE, NONE, NONE, ALWAYS },
  { PRODUCT, 0, DV, TURNED_WEIGHTS, DO, NONE, NONE, ALWAYS },
  { PRODUCT, 0, DWEIGHTS, DO, V, NONE, NONE, ALWAYS },
  POINTWISE(SUB, CENTRED, DWEIGHTS, SUMS, NONE, NONE, ALWAYS),
  POINTWISE(MUL, DSCALED, CENTRED, POWERS, NONE, NONE, ALWAYS),
  POINTWISE(MUL, DSCORES, DSCALED, SCALE, NONE, NONE, ALWAYS),
  { TURN, 0, TURNED_DSCORES, DSCORES, NONE, NONE, NONE, ALWAYS },
  { PRODUCT, 0, DK, TURNED_DSCORES, Q, NONE, NONE, ALWAYS },
  { TURN, 0, KEYS, K, NONE, NONE, NONE, ALWAYS },
  { PRODUCT, 0, DQ, DSCORES, KEYS, NONE, NONE, ALWAYS },
};

/* ---- the graph ------------------------------------------------------------------------------- */

static situ__dnn_tensor dense(int64_t a, int64_t b, int64_t c, int64_t d) {
  return (situ__dnn_tensor){ { a, b, c, d }, { b * c * d, c * d, d, 1 } };
}
static situ__dnn_tensor turned(situ__dnn_tensor t) {
  return (situ__dnn_tensor){ { t.size[0], t.size[1], t.size[3], t.size[2] },
                             { t.stride[0], t.stride[1], t.stride[3], t.stride[2] } };
}

static situ__dnn_tensor shape_of(const situ__dnn_problem *p, shape which) {
  const int64_t b = p->of[Q].size[0], h = p->of[Q].size[1], q = p->of[Q].size[2], k = p->of[K].size[2],
                d = p->of[Q].size[3];
  switch (which) {
  case OF_Q: return p->of[Q];
  case OF_K: return p->of[K];
  case OF_KT: return turned(p->of[K]);
  case OF_V: return p->of[V];
  case OF_VT: return turned(p->of[V]);
  case LIKE_Q: return dense(b, h, q, d);
  case LIKE_K: return dense(b, h, k, d);
  case SQUARE: return dense(b, h, q, k);
  case SQUARE_T: return turned(dense(b, h, q, k));
  case COLUMN: return (situ__dnn_tensor){ { b, h, q, 1 }, { h * q, q, 1, 1 } };
  default: return dense(1, 1, 1, 1);
  }
}

typedef struct builder {
  situ__dnn_graph *g;
  const situ__dnn_problem *p;
  cudnnBackendDescriptor_t made[TENSORS];
} builder;

static cudnnBackendDescriptor_t at(builder *b, int id) {
  if (id == MASKED && !b->p->more) id = SCALED;
  if (b->made[id]) return b->made[id];
  const tensor *t = &tensors[id];
  const bool back = b->p->kind == SITU__DNN_ATTENTION_GRAD;
  const situ__dnn_tensor is = shape_of(b->p, id == V && back ? OF_VT : t->shape);
  const cudnnDataType_t type = t->type == OWN ? situ__dnn_type((situ_dtype)b->p->dtype) : (cudnnDataType_t)t->type;
  return b->made[id] = situ__dnn_describe(b->g, id, type, &is, 4,
                                          id >= GIVEN   ? SITU__DNN_NOWHERE
                                          : id >= SCALE ? SITU__DNN_VALUE
                                                        : SITU__DNN_THERE);
}

static void add_product(builder *b, const step *s) {
  const cudnnDataType_t sums = CUDNN_DATA_FLOAT;
  cudnnBackendDescriptor_t m = situ__dnn_make(b->g, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  situ__dnn_set(b->g, m, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &sums);
  situ__dnn_finalize(b->g, m);
  cudnnBackendDescriptor_t o = situ__dnn_make(b->g, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  situ__dnn_refer(b->g, o, CUDNN_ATTR_OPERATION_MATMUL_ADESC, at(b, s->a));
  situ__dnn_refer(b->g, o, CUDNN_ATTR_OPERATION_MATMUL_BDESC, at(b, s->b));
  situ__dnn_refer(b->g, o, CUDNN_ATTR_OPERATION_MATMUL_CDESC, at(b, s->out));
  situ__dnn_refer(b->g, o, CUDNN_ATTR_OPERATION_MATMUL_DESC, m);
  situ__dnn_operation(b->g, o);
}

static void add_point(builder *b, const step *s) {
  const cudnnPointwiseMode_t mode = (cudnnPointwiseMode_t)s->mode;
  const int64_t axis = s->axis;
  const cudnnDataType_t in = s->axis != NONE                  ? CUDNN_DATA_INT32
                             : mode == CUDNN_POINTWISE_CMP_GE ? CUDNN_DATA_BOOLEAN
                                                              : CUDNN_DATA_FLOAT;
  cudnnBackendDescriptor_t m = situ__dnn_make(b->g, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  situ__dnn_set(b->g, m, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
  situ__dnn_set(b->g, m, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &in);
  if (s->axis != NONE) situ__dnn_set(b->g, m, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, &axis);
  situ__dnn_finalize(b->g, m);
  cudnnBackendDescriptor_t o = situ__dnn_make(b->g, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  situ__dnn_refer(b->g, o, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, m);
  situ__dnn_refer(b->g, o, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, at(b, s->a));
  if (s->b != NONE) situ__dnn_refer(b->g, o, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, at(b, s->b));
  if (s->c != NONE) situ__dnn_refer(b->g, o, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, at(b, s->c));
  situ__dnn_refer(b->g, o, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, at(b, s->out));
  situ__dnn_operation(b->g, o);
}

static void add_reduce(builder *b, const step *s) {
  const cudnnReduceTensorOp_t mode = (cudnnReduceTensorOp_t)s->mode;
  const cudnnDataType_t sums = CUDNN_DATA_FLOAT;
  cudnnBackendDescriptor_t m = situ__dnn_make(b->g, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  situ__dnn_set(b->g, m, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &mode);
  situ__dnn_set(b->g, m, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &sums);
  situ__dnn_finalize(b->g, m);
  cudnnBackendDescriptor_t o = situ__dnn_make(b->g, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  situ__dnn_refer(b->g, o, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, at(b, s->a));
  situ__dnn_refer(b->g, o, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, at(b, s->out));
  situ__dnn_refer(b->g, o, CUDNN_ATTR_OPERATION_REDUCTION_DESC, m);
  situ__dnn_operation(b->g, o);
}

static void add_turn(builder *b, const step *s) {
  cudnnBackendDescriptor_t o = situ__dnn_make(b->g, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
  situ__dnn_refer(b->g, o, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, at(b, s->a));
  situ__dnn_refer(b->g, o, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, at(b, s->out));
  situ__dnn_operation(b->g, o);
}

static void describe(situ__dnn_graph *g, const situ__dnn_problem *p) {
  static void (*const add[])(builder *, const step *) = { add_product, add_point, add_reduce, add_turn };
  const bool back = p->kind == SITU__DNN_ATTENTION_GRAD;
  const step *s = back ? backward : forward;
  const size_t count = back ? sizeof backward / sizeof *s : sizeof forward / sizeof *s;
  builder b = { .g = g, .p = p };
  for (size_t k = 0; k < count; k++)
    if (s[k].when == ALWAYS || p->more) add[s[k].kind](&b, &s[k]);
}

/* ---- the problem ----------------------------------------------------------------------------- */

/* False unless rows are contiguous, 16-byte aligned and a multiple of 16 bytes apart. */
static bool lies(situ__dnn_problem *p, int k, const situ_view_desc *v) {
  bool good = v->ndim == 4 && v->dtype == p->dtype && v->numel > 0 && v->stride[3] == 1;
  for (int d = 0; good && d < 4; d++) {
    p->of[k].size[d] = v->size[d];
    p->of[k].stride[d] = v->stride[d];
    good = d == 3 || (v->stride[d] > 0 && v->stride[d] % 8 == 0);
  }
  return good && (!v->storage || !v->storage->data || (uintptr_t)situ__cuda_address(v) % 16 == 0);
}

/* Supported: neither mask nor dropout, 16-bit dtypes, head sizes up to 128 in steps of 8, equal batch sizes and numbers
   of heads. */
static bool set_problem(situ__dnn_problem *p, const situ_work *work) {
  const situ_view_desc *q = work->in[0], *k = work->in[1], *v = work->in[2];
  *p = (situ__dnn_problem){ .kind = work->op == SITU_ATTENTION ? SITU__DNN_ATTENTION : SITU__DNN_ATTENTION_GRAD,
                            .dtype = q->dtype,
                            .more = work->integer[0] != 0 };
  const bool plain = work->scalar[1] == 0 && !work->in[work->op == SITU_ATTENTION ? 3 : 6];
  bool good = plain && (q->dtype == SITU_F16 || q->dtype == SITU_BF16) && lies(p, Q, q) && lies(p, K, k) &&
              lies(p, V, v) && q->size[3] <= 128 && q->size[3] % 8 == 0;
  for (int d = 0; good && d < 4; d++) good = k->size[d] == v->size[d] && (d == 2 || q->size[d] == k->size[d]);
  return good;
}

static situ__dnn_plan *find_plan(situ__cuda_device *d, const situ__dnn_problem *p, situ_status *status) {
  return situ__dnn_open(d, "attention", status) ? situ__dnn_find(d, "attention", p, describe, status) : NULL;
}

/* Sets *done if the library had a plan. */
static situ_status run_plan(situ__cuda_device *d, const situ_work *work, const situ__dnn_problem *p, bool *done) {
  const bool back = work->op == SITU_ATTENTION_GRAD;
  const float scale = (float)work->scalar[0], hidden = -INFINITY, one = 1;
  int64_t uid[GIVEN] = { Q, K, V, O, STATS, SCALE };
  const void *data[GIVEN] = { situ__cuda_address(work->in[0]),
                              situ__cuda_address(work->in[1]),
                              situ__cuda_address(work->in[2]),
                              situ__cuda_address(back ? work->in[3] : work->out[0]),
                              situ__cuda_address(back ? work->in[4] : work->out[1]),
                              &scale };
  int count = 6;
  situ_status status;
  situ__dnn_plan *plan = find_plan(d, p, &status);
  if (!plan) return status;
  void *sums = NULL;
  if (p->more) uid[count] = HIDDEN, data[count++] = &hidden;
  if (back) {
    sums = situ__cuda_target_scratch(&d->target, "attention", (size_t)(work->in[4]->numel * (int64_t)sizeof(float)));
    if (!sums) return d->lost ? SITU_E_LOST : SITU_E_NOMEM;
    uid[count] = DO, data[count++] = situ__cuda_address(work->in[5]);
    uid[count] = DQ, data[count++] = situ__cuda_address(work->out[0]);
    uid[count] = DK, data[count++] = situ__cuda_address(work->out[1]);
    uid[count] = DV, data[count++] = situ__cuda_address(work->out[2]);
    uid[count] = SUMS, data[count++] = sums;
    uid[count] = ONE, data[count++] = &one;
  }
  status = situ__dnn_run(d, "attention", plan, count, uid, (void *const *)(uintptr_t)data, done);
  situ__cuda_target_release(d->target.index, sums);
  return status;
}

bool situ__cuda_attend(situ__target *target, const situ_work *work, situ_status *status) {
  situ__dnn_problem p;
  bool done = false;
  if (!set_problem(&p, work)) return false;
  *status = run_plan((situ__cuda_device *)target, work, &p, &done);
  return done || *status != SITU_OK;
}
