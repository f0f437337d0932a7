/* Sums of products of labelled tensors, pair by pair as batches of matrix products; tensordot.
   SPDX-License-Identifier: MIT */
#include "contract.h"

#include "base/fail.h"
#include "base/size.h"

static uint64_t labels_of(const situ__term *t) {
  uint64_t set = 0;
  for (int d = 0; d < t->ndim; d++) set |= UINT64_C(1) << t->label[d];
  return set;
}
static bool has(uint64_t set, int label) { return set >> label & 1; }

static void remove_dim(situ__term *t, int d) {
  for (t->ndim--; d < t->ndim; d++) t->label[d] = t->label[d + 1];
}

/* ---- contraction ---- */

/* A label that an operand repeats: its diagonal, which becomes the last dimension. */
static bool take_diagonals(situ__term *t) {
  for (int d = 0; t->x && d < t->ndim; d++) {
    const int label = t->label[d];
    int other = d + 1;
    while (other < t->ndim && t->label[other] != label) other++;
    if (other == t->ndim) continue;
    t->x = situ_diagonal(t->x, 0, d, other);
    remove_dim(t, other);
    remove_dim(t, d);
    t->label[t->ndim++] = label;
    d = -1;
  }
  return t->x != NULL;
}

/* Drops dimensions of size 1 where the label is larger elsewhere: they broadcast. */
static bool drop_ones(situ__term *t, const situ__label_sizes *s) {
  for (int d = t->ndim - 1; t->x && d >= 0; d--) {
    if (t->x->view.size[d] != 1 || s->of[t->label[d]] == 1) continue;
    t->x = situ_squeeze(t->x, SITU_DIMS(d));
    remove_dim(t, d);
  }
  return t->x != NULL;
}

/* Sums over all labels that are not in `keep`. */
static bool sum_others(situ__term *t, uint64_t keep, bool keeps_dtype) {
  situ_shape dims = { .ndim = 0 };
  for (int d = 0; d < t->ndim; d++)
    if (!has(keep, t->label[d])) dims.dim[dims.ndim++] = d;
  if (!dims.ndim) return true;
  const situ_dtype dtype = keeps_dtype ? (situ_dtype)t->x->view.dtype : SITU_DTYPE_DEFAULT;
  t->x = situ_sum(t->x, &(situ_reduce_options){ .dim = dims, .dtype = dtype });
  for (int k = dims.ndim - 1; k >= 0; k--) remove_dim(t, (int)dims.dim[k]);
  return t->x != NULL;
}

/* Appends to `to` the labels of t that are in `in`. Returns false if there are too many. */
static bool append_labels(situ__term *to, const situ__term *t, uint64_t in) {
  for (int d = 0; d < t->ndim; d++) {
    if (!has(in, t->label[d])) continue;
    if (to->ndim == SITU_MAX_DIMS) return false;
    to->label[to->ndim++] = t->label[d];
  }
  return true;
}

/* t's tensor in the order of labels of `order`; a label that t does not have gets size 1. */
static situ_tensor *ordered(const situ__term *t, const situ__term *order) {
  situ_shape dims = { .ndim = 0 }, shape = { .ndim = order->ndim };
  for (int k = 0; k < order->ndim; k++) {
    const int d = situ__find_label(t, order->label[k]);
    shape.dim[k] = d < 0 ? 1 : t->x->view.size[d];
    if (d >= 0) dims.dim[dims.ndim++] = d;
  }
  situ_tensor *y = situ_permute(t->x, dims);
  return dims.ndim == shape.ndim ? y : situ_reshape(y, shape);
}

/* The product of the sizes of t's labels that are in `in`. */
static int64_t extent(const situ__term *t, uint64_t in) {
  int64_t n = 1;
  for (int d = 0; d < t->ndim; d++)
    if (has(in, t->label[d])) n *= t->x->view.size[d];
  return n;
}

/* t's tensor as [batch, first, second]: groups of labels, which are all of t's. */
static situ_tensor *grouped(const situ__term *t, const situ__term *batch, const situ__term *first,
                            const situ__term *second) {
  situ__term order = *batch;
  (void)append_labels(&order, first, ~UINT64_C(0));
  (void)append_labels(&order, second, ~UINT64_C(0));
  const situ_shape shape =
      SITU_SHAPE(extent(t, labels_of(batch)), extent(t, labels_of(first)), extent(t, labels_of(second)));
  return situ_reshape(ordered(t, &order), shape);
}

/* The product of a and b, summed over their labels that are not in `keep`; into *a. */
static bool multiply(const situ__label_sizes *s, situ__term *a, situ__term *b, uint64_t keep) {
  if (!sum_others(a, keep | labels_of(b), s->keeps_dtype) || !sum_others(b, keep | labels_of(a), s->keeps_dtype))
    return false;
  const uint64_t both = labels_of(a) & labels_of(b);
  situ__term batch = { .ndim = 0 }, summed = batch, rows = batch, columns = batch;
  (void)append_labels(&batch, a, both & keep);
  (void)append_labels(&summed, a, both & ~keep);
  (void)append_labels(&rows, a, ~both);
  (void)append_labels(&columns, b, ~both);
  situ__term out = batch;
  if (!append_labels(&out, &rows, ~both) || !append_labels(&out, &columns, ~both))
    return situ__fail(SITU_E_SHAPE, s->op,
                      "a product on the way has more than %d dimensions; multiply fewer operands at once",
                      SITU_MAX_DIMS),
           false;
  if (summed.ndim) {
    situ_shape shape = { .ndim = out.ndim };
    for (int d = 0; d < out.ndim; d++) shape.dim[d] = s->of[out.label[d]];
    out.x = situ_reshape(situ_bmm(grouped(a, &batch, &rows, &summed), grouped(b, &batch, &summed, &columns)), shape);
  } else {
    out.x = situ_mul(ordered(a, &out), ordered(b, &out));
  }
  *a = out;
  return out.x != NULL;
}

/* All terms from left to right, then the result's order of dimensions. */
situ_tensor *situ__contract(const situ__label_sizes *s, situ__term *t, int count, const situ__term *result) {
  for (int i = 0; i < count; i++)
    if (!take_diagonals(&t[i]) || !drop_ones(&t[i], s)) return NULL;
  for (int i = 1; i < count; i++) {
    uint64_t keep = labels_of(result);
    for (int later = i + 1; later < count; later++) keep |= labels_of(&t[later]);
    if (!multiply(s, &t[0], &t[i], keep)) return NULL;
  }
  return sum_others(&t[0], labels_of(result), s->keeps_dtype) ? ordered(&t[0], result) : NULL;
}

int situ__note_sizes(situ__label_sizes *s, const situ__term *t) {
  for (int d = 0; d < t->ndim; d++) {
    const int label = t->label[d], first = situ__find_label(t, label);
    int64_t *size = &s->of[label], own = t->x->view.size[d];
    if (first < d && t->x->view.size[first] != own) return label;
    if (s->seen[label]++ && *size != own && *size != 1 && own != 1) return label;
    if (s->seen[label] == 1 || *size == 1) *size = own;
  }
  return -1;
}

/* ---- tensordot: equal labels for the dimensions that are listed ---- */

static bool check_pairs(const situ_tensor *a, const situ_tensor *b, const situ_shape *left, const situ_shape *right) {
  const char *op = "tensordot";
  unsigned mask;
  if (left->ndim != right->ndim)
    return situ__fail(SITU_E_ARG, op, "dims_self lists %d dimensions, dims_other %d", left->ndim, right->ndim), false;
  return situ__dim_mask(op, left, a->view.ndim, false, &mask) && situ__dim_mask(op, right, b->view.ndim, false, &mask);
}

situ_tensor *situ_tensordot(situ_tensor *input, situ_tensor *other, situ_shape dims_self, situ_shape dims_other) {
  SITU__MADE_OF_OPS("tensordot");
  static const situ_op schema = { .name = "tensordot", .operand = { { "input", SITU_SAME }, { "other", SITU_SAME } } };
  if (!situ__together(&schema, (situ_tensor *[]){ input, other }, 2) ||
      !check_pairs(input, other, &dims_self, &dims_other))
    return NULL;
  situ__label_sizes s = { .op = "tensordot", .keeps_dtype = true };
  situ__term t[2] = { { .x = input, .ndim = input->view.ndim }, { .x = other, .ndim = other->view.ndim } };
  situ__term result = { .ndim = 0 };
  for (int d = 0; d < t[0].ndim; d++) t[0].label[d] = d;
  for (int d = 0; d < t[1].ndim; d++) t[1].label[d] = SITU_MAX_DIMS + d;
  for (int k = 0; k < dims_self.ndim && t[0].ndim && t[1].ndim; k++)
    t[1].label[dims_other.dim[k] < 0 ? dims_other.dim[k] + t[1].ndim : dims_other.dim[k]] =
        (int)(dims_self.dim[k] < 0 ? dims_self.dim[k] + t[0].ndim : dims_self.dim[k]);
  const uint64_t both = labels_of(&t[0]) & labels_of(&t[1]);
  if (!append_labels(&result, &t[0], ~both) || !append_labels(&result, &t[1], ~both))
    return situ__fail(SITU_E_SHAPE, s.op, "the result has more than %d dimensions", SITU_MAX_DIMS), NULL;
  (void)situ__note_sizes(&s, &t[0]);
  const int label = situ__note_sizes(&s, &t[1]);
  if (label < 0) return situ__contract(&s, t, 2, &result);
  return situ__fail(SITU_E_SHAPE, s.op, "dimension %d of input has %lld elements, dimension %d of other %lld", label,
                    (long long)input->view.size[label], situ__find_label(&t[1], label),
                    (long long)other->view.size[situ__find_label(&t[1], label)]),
         NULL;
}
