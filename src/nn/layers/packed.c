/* Sequences of different lengths: packed, padded, and back (situ/nn/packed.h). Packing is one index_select of rows, and
   padding one index_copy, with rows that the host computes from the lengths.
   SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/size.h"
#include "packed.h"
#include "situ/sys/shape.h"

#define OP_PACK "nn_utils_rnn_pack_padded_sequence"
#define OP_PACK_LIST "nn_utils_rnn_pack_sequence"
#define OP_PAD "nn_utils_rnn_pad_packed_sequence"
#define OP_PAD_LIST "nn_utils_rnn_pad_sequence"
#define OP_UNPAD "nn_utils_rnn_unpad_sequence"

static int64_t *allocate(const char *op, int64_t count) {
  int64_t *list = situ__calloc((size_t)count + 1, sizeof *list);
  if (!list) situ__no_memory(op, (size_t)count * sizeof *list);
  return list;
}

/* The values of integers [N]; NULL after recording an error. */
static int64_t *read_integers(const char *op, const char *name, situ_tensor *t) {
  if (!situ__valid(op, name, t, SITU__A_TENSOR)) return NULL;
  const situ_dtype dtype = situ_dtype_of(t);
  if (situ_dtype_is_floating(dtype) || dtype == SITU_BOOL || situ_dim(t) != 1 || situ_numel(t) < 1)
    return situ__fail(SITU_E_ARG, op, "%s has %d dimensions of %s, must be a list of at least one integer", name,
                      situ_dim(t), situ_dtype_name(dtype)),
           NULL;
  int64_t *values = allocate(op, situ_numel(t));
  situ_tensor *integer = values ? situ_to_dtype(t, SITU_I64) : NULL;
  if (integer && situ_copy_to_host(integer, values, (size_t)situ_numel(t) * sizeof *values) == SITU_OK) return values;
  situ__free(values);
  return NULL;
}

/* Integers [count] on a device. */
static situ_tensor *indices_of(const int64_t *values, int64_t count, situ_device device) {
  return situ_from_host(values, (size_t)count * sizeof *values, SITU_SHAPE(count),
                        &(situ_options){ .dtype = SITU_I64, .device = device });
}

/* ---- packing ---- */

typedef struct item {
  int64_t length, index;
} item;

static int longer_first(const void *a, const void *b) {
  const item *x = a, *y = b;
  if (x->length != y->length) return x->length < y->length ? 1 : -1;
  return x->index < y->index ? -1 : 1;
}

/* Sequences in the order of a packed sequence. first, stride: row of a sequence's first element, and the distance to
   the next, in the tensor that has the rows of all. */
typedef struct order {
  const char *op;
  int64_t count, total, longest;
  item *sorted;
  bool enforced;
  const int64_t *first;
  int64_t stride;
} order;

static bool sort_lengths(order *o, const int64_t *lengths, int64_t most) {
  for (int64_t i = 0; i < o->count; i++) {
    if (lengths[i] < 1 || lengths[i] > most)
      return situ__fail(SITU_E_ARG, o->op, "length %" PRId64 " is %" PRId64 ", must be 1 to %" PRId64, i, lengths[i],
                        most),
             false;
    if (o->enforced && i && lengths[i] > lengths[i - 1])
      return situ__fail(SITU_E_ARG, o->op,
                        "length %" PRId64 " is %" PRId64
                        ", more than the one before: sort them, or pass enforce_sorted "
                        "= false",
                        i, lengths[i]),
             false;
    o->sorted[i] = (item){ lengths[i], i };
    o->total += lengths[i];
  }
  qsort(o->sorted, (size_t)o->count, sizeof *o->sorted, longer_first);
  o->longest = o->sorted[0].length;
  return true;
}

/* Fills packed from `rows`, which has the elements of all sequences. */
static bool pack_rows(const order *o, situ_tensor *rows, situ_nn_packed_sequence *packed) {
  const situ_device device = situ_device_of(rows), host = situ_dev("cpu");
  int64_t *row = allocate(o->op, o->total), *sizes = allocate(o->op, o->longest);
  int64_t *place = allocate(o->op, 2 * o->count), at = 0;
  situ_nn_packed_sequence p = { 0 };
  bool good = row && sizes && place;
  for (int64_t t = 0; good && t < o->longest; t++)
    for (; sizes[t] < o->count && o->sorted[sizes[t]].length > t; sizes[t]++)
      row[at++] = o->first[o->sorted[sizes[t]].index] + t * o->stride;
  if (good) {
    p.data = situ_index_select(rows, 0, indices_of(row, o->total, device));
    p.batch_sizes = indices_of(sizes, o->longest, host);
    good = p.data && p.batch_sizes;
  }
  if (good && !o->enforced) {
    for (int64_t k = 0; k < o->count; k++) {
      place[k] = o->sorted[k].index;
      place[o->count + place[k]] = k;
    }
    p.sorted_indices = indices_of(place, o->count, device);
    p.unsorted_indices = indices_of(place + o->count, o->count, device);
    good = p.sorted_indices && p.unsorted_indices;
  }
  situ__free(row);
  situ__free(sizes);
  situ__free(place);
  if (good) *packed = p;
  return good;
}

static bool pack(order *o, const int64_t *lengths, int64_t most, situ_tensor *rows, situ_nn_packed_sequence *packed) {
  const size_t bytes = (size_t)o->count * sizeof *o->sorted;
  if (!lengths || !o->first || !rows) return false;
  if (!(o->sorted = situ__alloc(bytes))) return situ__no_memory(o->op, bytes), false;
  const bool good = sort_lengths(o, lengths, most) && pack_rows(o, rows, packed);
  situ__free(o->sorted);
  return good;
}

/* input [T, N, ...] (or batch_first) has as many sequences as lengths. */
static bool check_padded(const char *op, const char *name, situ_tensor *input, situ_tensor *lengths, bool batch_first) {
  if (!situ__valid(op, name, input, SITU__A_TENSOR) || !situ__valid(op, "lengths", lengths, SITU__A_TENSOR))
    return false;
  if (situ_dim(input) < 2)
    return situ__fail(SITU_E_SHAPE, op, "%s needs at least 2 dimensions, not %d", name, situ_dim(input)), false;
  const int64_t batch = situ_size(input, batch_first ? 0 : 1);
  if (batch != situ_numel(lengths))
    return situ__fail(SITU_E_SHAPE, op, "%s has %" PRId64 " sequences and lengths %" PRId64, name, batch,
                      situ_numel(lengths)),
           false;
  return true;
}

situ_status situ_nn_utils_rnn_pack_padded_sequence(situ_tensor *input, situ_tensor *lengths, bool batch_first,
                                                   bool enforce_sorted, situ_nn_packed_sequence *packed) {
  SITU__MADE_OF_OPS(OP_PACK);
  if (!check_padded(OP_PACK, "input", input, lengths, batch_first) || !situ__given(OP_PACK, "packed", packed))
    return situ_error();
  int64_t *length = read_integers(OP_PACK, "lengths", lengths);
  const int64_t batch = situ_size(input, batch_first ? 0 : 1), steps = situ_size(input, batch_first ? 1 : 0);
  int64_t *first = length ? allocate(OP_PACK, batch) : NULL;
  for (int64_t i = 0; first && i < batch; i++) first[i] = batch_first ? i * steps : i;
  order o = {
    .op = OP_PACK, .count = batch, .enforced = enforce_sorted, .first = first, .stride = batch_first ? 1 : batch
  };
  const bool good = first && pack(&o, length, steps, situ_flatten(input, 0, 1), packed);
  situ__free(length);
  situ__free(first);
  return good ? SITU_OK : situ_error();
}

/* Checks a list of sequences [length, ...]; the longest length, or -1 after recording an error. */
static int64_t longest_of(const char *op, situ_tensor *const *sequences, int count) {
  int64_t longest = 0;
  if (!situ__given(op, "sequences", sequences)) return -1;
  if (count < 1) return situ__fail(SITU_E_ARG, op, "count is %d, must be at least 1", count), -1;
  for (int i = 0; i < count; i++) {
    if (!situ__valid(op, "sequences", sequences[i], SITU__A_TENSOR)) return -1;
    if (situ_dim(sequences[i]) < 1)
      return situ__fail(SITU_E_SHAPE, op, "sequence %d has no dimension: its first one is time", i), -1;
    if (situ_size(sequences[i], 0) > longest) longest = situ_size(sequences[i], 0);
  }
  return longest;
}

situ_status situ_nn_utils_rnn_pack_sequence(situ_tensor *const *sequences, int count, bool enforce_sorted,
                                            situ_nn_packed_sequence *packed) {
  SITU__MADE_OF_OPS(OP_PACK_LIST);
  const int64_t longest = longest_of(OP_PACK_LIST, sequences, count);
  if (longest < 0 || !situ__given(OP_PACK_LIST, "packed", packed)) return situ_error();
  int64_t *list = allocate(OP_PACK_LIST, 2 * (int64_t)count), *length = list, *first = list ? list + count : NULL,
          at = 0;
  for (int i = 0; list && i < count; i++) {
    length[i] = situ_size(sequences[i], 0);
    first[i] = at;
    at += length[i];
  }
  order o = { .op = OP_PACK_LIST, .count = count, .enforced = enforce_sorted, .first = first, .stride = 1 };
  const bool good = list && pack(&o, length, longest, situ_cat(sequences, count, 0), packed);
  situ__free(list);
  return good ? SITU_OK : situ_error();
}

/* ---- reading ---- */

bool situ__packed_given(const char *op, const situ_nn_packed_sequence *s) {
  if (!situ__given(op, "sequence", s) || !situ__valid(op, "data", s->data, SITU__A_TENSOR) ||
      !situ__valid(op, "batch_sizes", s->batch_sizes, SITU__A_TENSOR))
    return false;
  if (!s->sorted_indices != !s->unsorted_indices)
    return situ__fail(SITU_E_ARG, op, "one of sorted_indices and unsorted_indices is NULL: must be both or none"),
           false;
  return situ__optional(op, "sorted_indices", s->sorted_indices, SITU__A_TENSOR) &&
         situ__optional(op, "unsorted_indices", s->unsorted_indices, SITU__A_TENSOR);
}

situ_tree *situ__packed_to_tree(const situ_nn_packed_sequence *s) {
  situ_tree *dict =
      situ__nn_put_tensor(situ__nn_put_tensor(situ_tree_dict(), "data", s->data), "batch_sizes", s->batch_sizes);
  return situ__nn_put_tensor(situ__nn_put_tensor(dict, "sorted_indices", s->sorted_indices), "unsorted_indices",
                             s->unsorted_indices);
}
bool situ__packed_from_tree(const situ_tree *tree, situ_nn_packed_sequence *out) {
  const bool sorted = situ_tree_find(tree, "sorted_indices") || situ_tree_find(tree, "unsorted_indices");
  *out = (situ_nn_packed_sequence){ .data = situ_tree_get(tree, "data"),
                                    .batch_sizes = situ_tree_get(tree, "batch_sizes"),
                                    .sorted_indices = sorted ? situ_tree_get(tree, "sorted_indices") : NULL,
                                    .unsorted_indices = sorted ? situ_tree_get(tree, "unsorted_indices") : NULL };
  return out->data && out->batch_sizes && (!sorted || (out->sorted_indices && out->unsorted_indices));
}

bool situ__packing_read(const char *op, const situ_nn_packed_sequence *sequence, situ__packing *out) {
  if (!situ__packed_given(op, sequence)) return false;
  situ__packing p = { .batch_sizes = read_integers(op, "batch_sizes", sequence->batch_sizes) };
  if (!p.batch_sizes) return false;
  p.steps = situ_numel(sequence->batch_sizes);
  bool good = situ_dim(sequence->data) > 0;
  for (int64_t t = 0; good && t < p.steps; t++)
    good = p.batch_sizes[t] > 0 && (!t || p.batch_sizes[t] <= p.batch_sizes[t - 1]) &&
           situ__add_i64(p.total, p.batch_sizes[t], &p.total);
  if (good && p.total == situ_size(sequence->data, 0)) return *out = p, true;
  situ__free(p.batch_sizes);
  return situ__fail(SITU_E_ARG, op,
                    "batch_sizes must be at least 1, not increase, and add up to the first size of data: pack the "
                    "sequences by situ_nn_utils_rnn_pack_sequence"),
         false;
}

/* ---- padding ---- */

/* Row of each element in the padded rows, whose order is that of the packed sequence. */
static situ_tensor *padded_rows(const situ__packing *p, int64_t steps, bool batch_first, situ_device device) {
  const int64_t batch = situ__packing_batch(p);
  int64_t *row = allocate(OP_PAD, p->total), at = 0;
  if (!row) return NULL;
  for (int64_t t = 0; t < p->steps; t++)
    for (int64_t i = 0; i < p->batch_sizes[t]; i++) row[at++] = batch_first ? i * steps + t : t * batch + i;
  situ_tensor *rows = indices_of(row, p->total, device);
  situ__free(row);
  return rows;
}

/* Lengths, i64 [N] on the cpu, in the order of the packed sequence. */
static situ_tensor *lengths_of(const situ__packing *p) {
  const int64_t batch = situ__packing_batch(p);
  int64_t *length = allocate(OP_PAD, batch);
  if (!length) return NULL;
  for (int64_t t = 0; t < p->steps; t++)
    for (int64_t i = 0; i < p->batch_sizes[t]; i++) length[i]++;
  situ_tensor *lengths = indices_of(length, batch, situ_dev("cpu"));
  situ__free(length);
  return lengths;
}

static situ_tensor *pad_packed(const situ_nn_packed_sequence *s, const situ__packing *p, const situ_nn_pad_options *o,
                               situ_tensor **lengths) {
  const int64_t steps = o->total_length ? o->total_length : p->steps, batch = situ__packing_batch(p);
  int64_t count;
  if (steps < p->steps || !situ__mul_i64(steps, batch, &count))
    return situ__fail(SITU_E_ARG, OP_PAD, "total_length is %" PRId64 ", must be at least the longest length, %" PRId64,
                      steps, p->steps),
           NULL;
  situ_shape shape = situ_shape_of(s->data);
  shape.dim[0] = count;
  const situ_options like = { .dtype = situ_dtype_of(s->data), .device = situ_device_of(s->data) };
  situ_tensor *y = situ_full(shape, o->padding_value, &like);
  y = situ_index_copy(y, 0, padded_rows(p, steps, o->batch_first, like.device), s->data);
  y = situ_unflatten(y, 0, o->batch_first ? SITU_SHAPE(batch, steps) : SITU_SHAPE(steps, batch));
  if (s->unsorted_indices) y = situ_index_select(y, o->batch_first ? 0 : 1, s->unsorted_indices);
  if (!y || !lengths) return y;
  situ_tensor *list = lengths_of(p);
  if (s->unsorted_indices) list = situ_index_select(list, 0, situ_to(s->unsorted_indices, situ_dev("cpu")));
  return list ? (*lengths = list, y) : NULL;
}

situ_tensor *situ_nn_utils_rnn_pad_packed_sequence(const situ_nn_packed_sequence *sequence,
                                                   const situ_nn_pad_options *options, situ_tensor **lengths) {
  SITU__MADE_OF_OPS(OP_PAD);
  const situ_nn_pad_options o = options ? *options : (situ_nn_pad_options){ 0 };
  situ__packing p = { 0 };
  if (o.left) return situ__fail(SITU_E_ARG, OP_PAD, "it has no left"), NULL;
  if (!situ__packing_read(OP_PAD, sequence, &p)) return NULL;
  situ_tensor *y = pad_packed(sequence, &p, &o, lengths);
  situ__free(p.batch_sizes);
  return y;
}

/* x [length, ...] with `more` elements of padding behind its end, or before its start. */
static situ_tensor *pad_one(situ_tensor *x, int64_t more, const situ_nn_pad_options *o) {
  situ_shape shape = situ_shape_of(x);
  shape.dim[0] = more;
  if (!more) return x;
  situ_tensor *padding =
      situ_full(shape, o->padding_value, &(situ_options){ .dtype = situ_dtype_of(x), .device = situ_device_of(x) });
  return situ_cat(o->left ? (situ_tensor *[]){ padding, x } : (situ_tensor *[]){ x, padding }, 2, 0);
}

situ_tensor *situ_nn_utils_rnn_pad_sequence(situ_tensor *const *sequences, int count,
                                            const situ_nn_pad_options *options) {
  SITU__MADE_OF_OPS(OP_PAD_LIST);
  const situ_nn_pad_options o = options ? *options : (situ_nn_pad_options){ 0 };
  const int64_t longest = longest_of(OP_PAD_LIST, sequences, count);
  if (longest < 0) return NULL;
  if (o.total_length) return situ__fail(SITU_E_ARG, OP_PAD_LIST, "it has no total_length"), NULL;
  situ_tensor **padded = situ__alloc((size_t)count * sizeof *padded), *y = NULL;
  if (!padded) return situ__no_memory(OP_PAD_LIST, (size_t)count * sizeof *padded), NULL;
  bool good = true;
  for (int i = 0; good && i < count; i++)
    good = (padded[i] = pad_one(sequences[i], longest - situ_size(sequences[i], 0), &o)) != NULL;
  if (good) y = situ_stack(padded, count, o.batch_first ? 0 : 1);
  situ__free(padded);
  return y;
}

int64_t situ_nn_utils_rnn_unpad_sequence(situ_tensor *padded, situ_tensor *lengths, bool batch_first, situ_tensor **out,
                                         int64_t capacity) {
  SITU__MADE_OF_OPS(OP_UNPAD);
  if (!check_padded(OP_UNPAD, "padded", padded, lengths, batch_first)) return -1;
  const int64_t batch = situ_numel(lengths), steps = situ_size(padded, batch_first ? 1 : 0);
  if (!out && !capacity) return batch;
  if (!situ__given(OP_UNPAD, "out", out)) return -1;
  if (capacity < batch)
    return situ__fail(SITU_E_ARG, OP_UNPAD, "capacity is %" PRId64 " for %" PRId64 " sequences", capacity, batch), -1;
  int64_t *length = read_integers(OP_UNPAD, "lengths", lengths);
  bool good = length != NULL;
  for (int64_t i = 0; good && i < batch; i++) {
    if (length[i] < 0 || length[i] > steps)
      situ__fail(SITU_E_ARG, OP_UNPAD, "length %" PRId64 " is %" PRId64 ", must be 0 to %" PRId64, i, length[i], steps);
    else out[i] = situ_narrow(situ_select(padded, batch_first ? 0 : 1, i), 0, 0, length[i]);
    good = length[i] >= 0 && length[i] <= steps && out[i];
  }
  situ__free(length);
  return good ? batch : -1;
}
