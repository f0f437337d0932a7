/* Shared by the op families. Each op is one initialiser: schema, shape rule, forward and backward together.
   SPDX-License-Identifier: MIT */
#ifndef SITU_OPS_INTERNAL_H
#define SITU_OPS_INTERNAL_H

#include "base/fail.h"
#include "device/dry.h"
#include "device/launch/launch.h"
#include "dispatch/dispatch.h"
#include "situ/ops.h"
#include "situ/sys/op.h"

/* situ_launch for work of the library's own, which is well-formed and has operands. */
static inline bool situ__launch(const char *op, situ_device device, const situ_work *work) {
  return situ__is_dry() ? situ_launch(op, device, work) : situ__run(op, device, work) == SITU_OK;
}

/* Runs one element-wise verb on a call's broadcast operands, into out[0]. */
bool situ__elementwise(const situ_call *c, situ_verb verb, const double *scalar, int scalars);

/* For the shape rule of an element-wise op with one operand and one result: its order of strides. */
static inline void situ__keep_alike(situ_call *c) {
  if (c->in[0]->view.contiguous) c->like = &c->in[0]->view;
  else situ__order_results(c);
}

/* situ_launch for element-wise work (UNARY, UNARY_GRAD, BINARY, TERNARY, COPY) whose operands have the result's sizes:
   in one loop over memory if all have one dense order of strides, whichever it is. */
bool situ__launch_elementwise(const char *op, situ_device device, const situ_work *work);

/* y = alpha a b + beta bias (which may be NULL) in one launch: [.., m, k] x [.., k, n]; a, b and bias are broadcast to
   y. */
bool situ__product(const char *op, situ_device device, const situ_view_desc *a, const situ_view_desc *b,
                   const situ_view_desc *bias, const situ_view_desc *y, double alpha, double beta);
/* Runs `work`, a SITU_VERB_PREPACK without its result, into *packed of so many bytes; NULL: there are none, or the
   device does not offer it. Returns false after recording an error. */
bool situ__prepack(const char *op, situ_device device, situ_work *work, int64_t bytes, situ_tensor **packed);
/* Whether `packed` can be what `maker` made of the weight: on its device, of so many bytes (0: it makes nothing of it).
   Records an error if not. */
bool situ__is_prepacked(const char *op, const char *maker, const situ_tensor *packed, const situ_tensor *weight,
                        int64_t bytes);
/* b, [k, n], the second factor of many products with matrices of so many rows, as the device multiplies it fastest, in
   *packed; NULL: as it is. same: only if products have the same bits without it. Returns false after recording an
   error. */
bool situ__prepack_b(const char *op, situ_device device, const situ_view_desc *b, int64_t rows, bool same,
                     situ_tensor **packed);
/* situ__product of a b, and of b prepacked, which may be NULL. */
bool situ__product_by(const char *op, situ_device device, const situ_view_desc *a, const situ_view_desc *b,
                      const situ_tensor *packed, const situ_view_desc *bias, const situ_view_desc *y, double alpha,
                      double beta);
/* A view with the last two dimensions exchanged, in *desc. */
const situ_view_desc *situ__transposed(const situ_view_desc *v, situ_view_desc *desc);

/* A new tensor of options' memory format and device; input's strides unless o says otherwise, if there is an input. The
   dtype is resolved. Returns NULL after recording an error. */
situ_tensor *situ__new_as(const char *op, situ_shape shape, situ_dtype dtype, const situ_options *o,
                          const situ_tensor *input);
/* random.c: launches RANDOM work with a result of any strides. Returns false after recording an error. */
bool situ__draw(const char *op, situ_device device, const situ_work *work);
/* situ_dropout in training by numbers that were drawn before. */
situ_tensor *situ__dropout_of(situ_tensor *x, double p, situ_generator draw);
/* random.c: situ_rand and its kin with the strides of an input, which may be NULL. */
situ_tensor *situ__rand_as(situ_shape shape, const situ_options *o, const situ_tensor *input);
situ_tensor *situ__randn_as(situ_shape shape, const situ_options *o, const situ_tensor *input);
situ_tensor *situ__randint_as(int64_t low, int64_t high, situ_shape shape, const situ_options *o,
                              const situ_tensor *input);

/* For functions that consist of other ops: checks all operands under the function's own name before anything runs. The
   schema is not in the table of ops. Returns false after recording an error with its explanation. */
bool situ__together(const situ_op *schema, situ_tensor *const *in, int ins);

/* Checks that a list of tensors is not empty. Returns false after recording an error under op. */
bool situ__some(const char *op, situ_tensor *const *tensors, int count);

/* What a WIDE row of the formula tables computes in: 16 bits in f32, and rounded once. */
static inline situ_dtype situ__wide(situ_dtype dtype) {
  return dtype == SITU_F16 || dtype == SITU_BF16 ? SITU_F32 : dtype;
}
/* x, or if it has an integer dtype x in f32. NULL stays NULL. */
situ_tensor *situ__floating(situ_tensor *x);
/* The mean of the squares of all elements, in the dtype of x, which is floating. */
situ_tensor *situ__mean_square(situ_tensor *x);
/* A scope in which values change without a derivative that sees it, neither gradient nor tangent. end returns false
   after an error inside. */
typedef struct situ__unseen {
  situ_scope scope;
  uint8_t mode;
} situ__unseen;
void situ__unseen_begin(situ__unseen *u);
bool situ__unseen_end(situ__unseen *u);
/* A copy of x with values below `least` raised to it; the gradient passes as if they were not, as torch's clamp under
   no_grad. */
situ_tensor *situ__at_least(situ_tensor *x, double least);

/* With o->same: sets the padding that keeps the sizes, and pads *x where it is uneven. Returns false after recording an
   error under op. */
bool situ__conv_same(const char *op, int spatial, situ_tensor **x, const situ_tensor *weight, situ_conv_options *o);

/* Reads height and width of an option: one value for both, or none for `missing` (negative: it must be given). Returns
   false after recording an error under op if one is below `least`. */
bool situ__read_pair(const char *op, const char *name, situ_shape list, int64_t missing, int64_t least, int64_t out[2]);

/* Bilinear samples of image [N, C, H, W], 0 outside of it: [N, C, P], at rows at[0] and columns at[1], each [N, 1, P],
   in pixels. */
situ_tensor *situ__sample_pixels(situ_tensor *image, situ_tensor *const at[2]);

/* A 0-dim view as one of one dimension of size 1, in *desc; any other view itself. */
const situ_view_desc *situ__ranked(const situ_view_desc *v, situ_view_desc *desc);

/* [N, C, S] of [N, C, ...]. */
static inline situ_shape situ__planes(const situ_shape *x) {
  situ_shape shape = SITU_SHAPE(x->dim[0], x->dim[1], 1);
  for (int d = 2; d < x->ndim; d++) shape.dim[2] *= x->dim[d];
  return shape;
}

/* Checks operands input, index and src of scatter along dim: rank, sizes, an index into nothing. Returns false after
   recording an error. */
bool situ__fits_scatter(const situ_call *c, int dim);

/* Writes y, which an index was needed for, into x. Waits for a device first: an index out of range is found there, and
   then x keeps its values. Returns x; NULL after recording an error, or if y is NULL. */
situ_tensor *situ__write(situ_tensor *x, situ_tensor *y);

/* In a gradient: sets dx[i] to value if it is wanted. False if value is NULL. */
/* An upcall of autograd. */
bool situ__has_nan(situ_tensor *t, bool *found);
/* For rules of situ_op.batched (batch.c). The call with the dimension, an int at this offset of its parameters, counted
   from the samples. */
bool situ__batch_dim(situ_batch_call *call, size_t at);
/* Gives all operands a dimension for the samples. */
bool situ__batch_repeat(situ_batch_call *call);
/* t in the shape of result k of all samples. */
situ_tensor *situ__batch_result(const situ_batch_call *call, situ_tensor *t, int k);
#define GRAD(g, i, value) (!(g)->wants[i] || ((g)->dx[i] = (value)) != NULL)
/* The gradients of a product of two operands: each is the other times the incoming one (mul, dot). */
bool situ__mul_backward(situ_grad_call *g);

/* unary_gradient.c: a row's gradient times grad. value: its x or y, whichever the row's gradient reads; NULL for
   neither. Recorded where gradients are. */
situ_tensor *situ__unary_gradient(const situ_op *op, const double p[4], situ_tensor *value, situ_tensor *grad);
/* The op of a row of kernels/unary.h. */
const situ_op *situ__unary_row(situ_unary code);
/* Runs a row with its numbers; the second in place. */
situ_tensor *situ__run_unary(const situ_op *op, situ_tensor *x, double p0, double p1, double p2);
situ_tensor *situ__run_unary_(const situ_op *op, situ_tensor *x, double p0, double p1, double p2);
/* Whether an integer tensor keeps its dtype in the row. */
bool situ__unary_keeps(const situ_op *op);
/* Whether x can hold the row's result: bool cannot where it is a number. Returns false after recording an error. */
bool situ__unary_holds(const situ_op *op, const situ_tensor *x);
/* Begins a function that writes in place: errors are recorded under its name, which ends in _. */
#define SITU__IN_PLACE_AS(name) \
  __attribute__((cleanup(situ__call_end), unused)) const char *called_before = situ__call_as(name, "_")
/* The function of one that is not SITU_ACTIVATION_NONE. */
situ_unary situ__activation_unary(situ_activation activation);
static inline bool situ__is_unary(const situ_op *op) {
  return (unsigned)op->code < SITU_UNARIES && situ__unary_row((situ_unary)op->code) == op;
}
/* The dtype in which the row computes with elements of this dtype. */
situ_dtype situ__unary_compute(const situ_op *op, situ_dtype dtype);

/* Checks that dtype can hold a host number as a constant. u8 accepts -255 .. -1 too, which wrap around, as in torch.
   Returns false after recording an error under op. */
bool situ__fits(const char *op, double value, situ_dtype dtype);
/* Converts a host number to the integer with which an integer tensor is filled. */
int64_t situ__to_integer(double value);

/* True if whole numbers stay whole when they are multiplied by it. */
bool situ__is_integer(double factor);
/* Refuses a factor of an integer result that is not finite or outside of i64; fractions are truncated later, as in
   torch. Called after c->dtype[0] is inferred. Returns false after recording an error. */
bool situ__check_factor(const situ_call *c, const char *name, double factor);

/* Resolves sizes, of which one may be -1, against numel. Returns false after recording an error under op. */
bool situ__resolve_shape(const char *op, situ_shape *shape, int64_t numel);
/* Wraps negative dimensions, refuses duplicates, and sets a bit mask of them. An empty list means all of ndim if
   all_if_none. */
bool situ__dim_mask(const char *op, const situ_shape *dims, int ndim, bool all_if_none, unsigned *mask);

/* For the floors below (dispatch.h, tape.h). */
situ_tensor *situ__copy_operand(const char *op, situ_tensor *x, situ_device to);
situ_tensor *situ__sum_to(situ_tensor *x, const situ_shape *shape);
struct situ__node *situ__strided_node_of_view(situ_tensor *view);
struct situ__node *situ__strided_node_of_part(situ_tensor *view);

/* ---- casts (shape/lossy.c), under a policy that watches them ---- */
/* Returns false after recording that values of x are lost in a cast, or could not be counted. */
bool situ__check_cast(const char *op, situ_tensor *x, situ_dtype to) SITU_COLD;

#endif
