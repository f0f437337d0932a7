/* Connectionist temporal classification: A. Graves, S. Fernandez, F. Gomez and J. Schmidhuber, "Connectionist temporal
   classification: labelling unsegmented sequence data with recurrent neural networks" (2006), (6) to (8), for a whole
   batch at once. Logarithms of 0 are NEVER, so that their differences are numbers.
   SPDX-License-Identifier: MIT */
#include <math.h>

#include "base/fail.h"
#include "device/dry.h"
#include "loss.h"
#include "ops/samples.h"

static const char op[] = "ctc_loss";
#define NEVER -1e30

/* A batch: log_probs [T, N, C], targets [N, S] padded with blanks, lengths i64 [N]. */
typedef struct batch {
  situ_tensor *log_probs, *targets, *input_lengths, *target_lengths;
  int64_t steps, size, labels; /* T, N, S */
  double blank;
  situ_options number, integer;
} batch;

static situ_tensor *column(situ_tensor *x) { return situ_unsqueeze(x, -1); }
static situ_tensor *never(const batch *b, int64_t columns) {
  return situ_full(SITU_SHAPE(b->size, columns), NEVER, &b->number);
}

/* blank, label, blank, label, ..., blank: [N, 2 S + 1]. */
static situ_tensor *with_blanks(const batch *b) {
  situ_tensor *blanks = situ_full(SITU_SHAPE(b->size, 1), b->blank, &b->integer);
  if (!b->labels) return blanks;
  situ_tensor *pair[2] = { situ_expand(blanks, SITU_SHAPE(b->size, b->labels)), b->targets };
  situ_tensor *pairs = situ_reshape(situ_stack(pair, 2, -1), SITU_SHAPE(b->size, 2 * b->labels));
  return situ_cat((situ_tensor *[]){ pairs, blanks }, 2, 1);
}

/* 0 where a place may be reached from two places before: at a label that is not that place's. Else NEVER. */
static situ_tensor *skips(const batch *b, situ_tensor *places) {
  const int64_t rest = 2 * b->labels - 1;
  if (rest < 1) return never(b, 2 * b->labels + 1);
  situ_tensor *own = situ_narrow(places, 1, 2, rest), *other = situ_narrow(places, 1, 0, rest);
  situ_tensor *may = situ_ne(own, other); /* blanks are two places apart, and equal */
  situ_tensor *cost = situ_where(may, situ_zeros_like(may, &b->number), never(b, rest));
  return situ_cat((situ_tensor *[]){ never(b, 2), cost }, 2, 1);
}

/* x moved `by` places to the right. */
static situ_tensor *later(const batch *b, situ_tensor *x, int64_t by) {
  const int64_t size = 2 * b->labels + 1;
  if (size <= by) return never(b, size);
  return situ_cat((situ_tensor *[]){ never(b, by), situ_narrow(x, 1, 0, size - by) }, 2, 1);
}

/* The logarithms of the probabilities of all ways to each place, after each sample's last step: [N, 2 S + 1]. The way
   begins before the first step, at the first place. */
static situ_tensor *forward(const batch *b, situ_tensor *places) {
  const int64_t size = 2 * b->labels + 1;
  situ_tensor *emitted = situ_gather(b->log_probs, 2, situ_expand(places, SITU_SHAPE(b->steps, b->size, size)));
  situ_tensor *skip = skips(b, places), *lengths = column(b->input_lengths);
  situ_tensor *a =
      situ_cat((situ_tensor *[]){ situ_zeros(SITU_SHAPE(b->size, 1), &b->number), never(b, size - 1) }, 2, 1);
  for (int64_t t = 0; a && t < b->steps; t++) {
    situ_tensor *sum = situ_logaddexp(situ_logaddexp(a, later(b, a, 1)), situ_add(later(b, a, 2), skip));
    a = situ_where(situ_gt_scalar(lengths, (double)t), situ_add(sum, situ_select(emitted, 0, t)), a);
  }
  return a;
}

/* The end is the last blank, or the last label before it. */
static situ_tensor *negative_log(const batch *b, situ_tensor *a) {
  situ_tensor *last = column(situ_mul_scalar(b->target_lengths, 2)),
              *before = situ_clamp(situ_sub_scalar(last, 1), 0, INFINITY);
  situ_tensor *label = situ_masked_fill(situ_gather(a, 1, before), situ_eq_scalar(last, 0), NEVER);
  return situ_neg(situ_squeeze(situ_logaddexp(situ_gather(a, 1, last), label), SITU_DIMS(1)));
}

/* Adds 0, whose gradient is exp(log_probs): as PyTorch's gradient, which is that of what log_softmax was given. A
   sample without an alignment has -log(0), whose gradient is NaN for all of its steps; or, with zero_infinity, 0. */
static situ_tensor *of_softmax(const batch *b, situ_tensor *loss, bool zero_infinity) {
  const situ_reduce_options of_sample = { .dim = SITU_DIMS(0, 2) };
  situ_tensor *step = situ_reshape(situ_arange(0, (double)b->steps, 1, &b->integer), SITU_SHAPE(b->steps, 1, 1));
  situ_tensor *outside = situ_ge(step, column(b->input_lengths));
  situ_tensor *p = situ_masked_fill(situ_exp(b->log_probs), outside, 0);
  situ_tensor *never = situ_gt_scalar(loss, -NEVER / 2);
  loss = situ_masked_fill(situ_add(loss, situ_sum(situ_sub(p, situ_detach(p)), &of_sample)), never, 0);
  if (zero_infinity) return loss;
  situ_tensor *none = situ_mul_scalar(situ_sum(p, &of_sample), 0);
  return situ_sub(loss, situ_log(situ_masked_fill(none, situ_logical_not(never), 1)));
}

/* ---- operands ---- */

static bool has_values(const situ_tensor *x) {
  return x->view.storage->device.kind != SITU_META && !situ__is_dry() && x->view.numel;
}

static bool within(const char *name, situ_tensor *x, int64_t most, const char *of) {
  int64_t low = 0, high = 0;
  if (!has_values(x)) return true;
  if (!(x = situ__all_samples(op, x)) || situ_item_i64(situ_amin(x, NULL), &low) != SITU_OK ||
      situ_item_i64(situ_amax(x, NULL), &high) != SITU_OK)
    return false;
  if (low >= 0 && high <= most) return true;
  return situ__fail(SITU_E_ARG, op, "%s has %lld, must be 0 to %lld, %s", name, (long long)(low < 0 ? low : high),
                    (long long)most, of),
         false;
}

/* All targets one after the other become rows. */
static situ_tensor *rows_of(const batch *b, situ_tensor *targets) {
  situ_tensor *start = situ_sub(situ_cumsum(b->target_lengths, 0), b->target_lengths);
  situ_tensor *at = situ_add(column(start), situ_arange(0, (double)b->labels, 1, &b->integer));
  const int64_t last = situ_numel(targets) - 1;
  return last < 0 ? situ_zeros(SITU_SHAPE(b->size, b->labels), &b->integer)
                  : situ_take(targets, situ_clamp(at, 0, (double)last));
}

/* The longest target of a row of all; without values, the whole row. */
static bool find_longest(batch *b, const situ_tensor *targets) {
  int64_t sum = 0;
  b->labels = targets->view.numel;
  if (!has_values(b->target_lengths)) return true;
  if (situ_item_i64(situ_amax(b->target_lengths, NULL), &b->labels) != SITU_OK ||
      situ_item_i64(situ_sum(b->target_lengths, NULL), &sum) != SITU_OK)
    return false;
  if (sum == targets->view.numel) return true;
  return situ__fail(SITU_E_ARG, op, "target_lengths add up to %lld, targets has %lld elements", (long long)sum,
                    (long long)targets->view.numel),
         false;
}

static bool pad_targets(batch *b, situ_tensor *targets) {
  const bool rows = targets->view.ndim == 2;
  if (rows) b->labels = targets->view.size[1];
  else if (!find_longest(b, targets)) return false;
  if (!within("target_lengths", b->target_lengths, b->labels, "the targets of a sample")) return false;
  targets = situ_to_dtype(targets, SITU_I64);
  if (!rows) targets = rows_of(b, targets);
  situ_tensor *own = situ_lt(situ_arange(0, (double)b->labels, 1, &b->integer), column(b->target_lengths));
  b->targets = situ_masked_fill(targets, situ_logical_not(own), b->blank);
  return b->targets != NULL;
}

static bool have_shapes(situ_tensor *const *in, int64_t blank) {
  const situ_shape p = situ__shape(&in[0]->view), t = situ__shape(&in[1]->view), lengths = situ__shape(&in[2]->view);
  const bool one = p.ndim == 2;
  const int64_t n = one || p.ndim != 3 ? 1 : p.dim[1];
  char a[SITU_SHAPE_TEXT], b[SITU_SHAPE_TEXT], c[SITU_SHAPE_TEXT];
  bool good = (p.ndim == 2 || p.ndim == 3) && (t.ndim == 1 || (t.ndim == 2 && t.dim[0] == n));
  for (int k = 2; k < 4; k++) good = good && in[k]->view.numel == n && in[k]->view.ndim <= 1;
  if (!good)
    situ__fail(SITU_E_SHAPE, op,
               "log_probs is %s, targets %s, input_lengths %s: [T, N, C], [N, S] or [sum of lengths], and lengths [N]; "
               "or [T, C], [S] and 0-dim",
               situ_shape_text(&p, a), situ_shape_text(&t, b), situ_shape_text(&lengths, c));
  else if (blank < 0 || blank >= p.dim[p.ndim - 1])
    situ__fail(SITU_E_ARG, op, "blank is %lld, must be 0 to %lld, a class", (long long)blank,
               (long long)p.dim[p.ndim - 1] - 1);
  else return true;
  return false;
}

static bool prepare(batch *b, situ_tensor *const *in, int64_t blank) {
  const situ_dtype dtype = situ__wide(situ_dtype_of(in[0]));
  b->log_probs = situ_to_dtype(in[0]->view.ndim == 2 ? situ_unsqueeze(in[0], 1) : in[0], dtype);
  if (!b->log_probs) return false;
  b->steps = situ_size(b->log_probs, 0), b->size = situ_size(b->log_probs, 1);
  b->blank = (double)blank;
  b->number = (situ_options){ .dtype = dtype, .device = situ_device_of(in[0]) };
  b->integer = (situ_options){ .dtype = SITU_I64, .device = situ_device_of(in[0]) };
  b->input_lengths = situ_reshape(situ_to_dtype(in[2], SITU_I64), SITU_SHAPE(b->size));
  b->target_lengths = situ_reshape(situ_to_dtype(in[3], SITU_I64), SITU_SHAPE(b->size));
  return b->input_lengths && b->target_lengths && within("input_lengths", b->input_lengths, b->steps, "the steps") &&
         pad_targets(b, in[1]);
}

static situ_tensor *loss_of(situ_tensor *const *in, const situ_ctc_loss_options *o) {
  batch b;
  if (!prepare(&b, in, o->blank)) return NULL;
  situ_tensor *loss = of_softmax(&b, negative_log(&b, forward(&b, with_blanks(&b))), o->zero_infinity);
  if (loss && o->reduction == SITU_REDUCTION_MEAN)
    loss = situ_div(loss, situ_to_dtype(situ_clamp(b.target_lengths, 1, INFINITY), b.number.dtype));
  if (loss && in[0]->view.ndim == 2) loss = situ_reshape(loss, SITU_SCALAR);
  return situ_to_dtype(situ__reduce_loss(op, loss, o->reduction), situ_dtype_of(in[0]));
}

situ_tensor *situ_ctc_loss(situ_tensor *log_probs, situ_tensor *targets, situ_tensor *input_lengths,
                           situ_tensor *target_lengths, const situ_ctc_loss_options *options) {
  SITU__MADE_OF_OPS(op);
  static const situ_operand operands[] = { { "log_probs", SITU_FLOATING },
                                           { "targets", SITU_INDEX },
                                           { "input_lengths", SITU_INDEX },
                                           { "target_lengths", SITU_INDEX } };
  const situ_ctc_loss_options o = options ? *options : (situ_ctc_loss_options){ 0 };
  situ_tensor *in[4] = { log_probs, targets, input_lengths, target_lengths };
  if (!situ__loss_operands(op, operands, in, 4) || !have_shapes(in, o.blank)) return NULL;
  situ_scope s;
  situ_scope_begin(&s);
  return situ_scope_return(&s, loss_of(in, &o));
}
