/* Convolution as matrix products (im2col), some images at a time.
   SPDX-License-Identifier: MIT */
#include "backend/lower/lower.h"

enum { IMAGE_SCRATCH = 1 << 24, TERMS = 512 }; /* maximum elements of unfolded columns, and terms of a sum, at a time */

typedef struct conv {
  int index;
  situ_dtype compute;
  windows c;
  int64_t depth, plane, large, small,
      many;                /* taps of all channels; windows; elements of an image of x and of y; images at a time */
  int64_t together, parts; /* images whose gradient of w is one sum, and the number of such sums */
  const situ_view_desc *x, *w, *y, *bias;
  situ_storage memory, sums;
  situ_view_desc columns, part; /* [many, groups, depth, plane]; the partial sums of w's gradient */
} conv;

static situ_view_desc shaped(const situ_view_desc *v, int64_t offset, int64_t a, int64_t b, int64_t m, int64_t n,
                             bool turned) {
  situ_view_desc t = *v;
  t.offset += offset;
  t.ndim = 4;
  t.numel = a * b * m * n;
  t.contiguous = !turned;
  const int64_t size[] = { a, b, turned ? n : m, turned ? m : n },
                stride[] = { b * m * n, m * n, turned ? 1 : n, turned ? n : 1 };
  for (int d = 0; d < 4; d++) t.size[d] = size[d], t.stride[d] = stride[d];
  return t;
}

static situ_status unfold(const conv *v, int64_t first, int64_t images) {
  windows c = v->c;
  c.images = images;
  c.x = v->x->offset + first * v->large;
  situ__call call = { .variant = { SITU__TEXT_unfold, .compute = (uint8_t)v->compute, .dtype = { 0, v->x->dtype } },
                      .op = "conv" };
  situ__lower_buffer(&call, &v->columns);
  situ__lower_buffer(&call, v->x);
  situ__lower_block(&call, &c, sizeof c);
  return situ__lower_run_flat(v->index, &call, images * c.groups * v->depth * c.out_height, c.out_width);
}

static situ_status fold(const conv *v, int64_t first, int64_t images) {
  windows c = v->c;
  c.images = images;
  c.x = v->x->offset + first * v->large;
  situ__call call = {
    .variant = { SITU__TEXT_unfold, .op = 1, .compute = (uint8_t)v->compute, .dtype = { v->x->dtype } }, .op = "conv"
  };
  situ__lower_buffer(&call, v->x);
  situ__lower_buffer(&call, &v->columns);
  if (v->bias) {
    call.variant.dtype[3] = v->bias->dtype;
    situ__lower_buffer(&call, v->bias);
  }
  situ__lower_block(&call, &c, sizeof c);
  return situ__lower_run_flat(v->index, &call, images * c.groups * c.channels * c.height,
                              c.width * c.window[0] * c.window[1]);
}

static situ_status product(const conv *v, const situ_view_desc *a, const situ_view_desc *b, const situ_view_desc *bias,
                           const situ_view_desc *y, int64_t together) {
  return situ__lower_matmul_sums(v->index,
                                 &(situ_work){ SITU_VERB_MATMUL, .ins = 3, .outs = 1, .compute = v->compute,
                                               .in = { a, b, bias }, .out = { y }, .scalar = { 1, bias != NULL } },
                                 together);
}

static situ_status forward(const conv *v, int64_t first, int64_t images) {
  const windows *c = &v->c;
  situ_view_desc w = shaped(v->w, 0, 1, c->groups, c->outputs, v->depth, false), bias = { 0 };
  situ_view_desc columns = shaped(&v->columns, 0, images, c->groups, v->depth, v->plane, false);
  situ_view_desc y = shaped(v->y, first * v->small, images, c->groups, c->outputs, v->plane, false);
  if (v->bias) bias = shaped(v->bias, 0, 1, c->groups, c->outputs, 1, false);
  situ_status status = unfold(v, first, images);
  return status == SITU_OK ? product(v, &w, &columns, v->bias ? &bias : NULL, &y, 1) : status;
}

static situ_status grad_data(const conv *v, int64_t first, int64_t images) {
  const windows *c = &v->c;
  situ_view_desc w = shaped(v->w, 0, 1, c->groups, c->outputs, v->depth, true);
  situ_view_desc columns = shaped(&v->columns, 0, images, c->groups, v->depth, v->plane, false);
  situ_view_desc g = shaped(v->y, first * v->small, images, c->groups, c->outputs, v->plane, false);
  situ_status status = product(v, &w, &g, NULL, &columns, 1);
  return status == SITU_OK ? fold(v, first, images) : status;
}

/* Writes partial sums over `together` images each, at their positions among all; add_up adds them at the end. */
static situ_status sums(const conv *v, int64_t first, int64_t begin, int64_t images, int64_t together) {
  const windows *c = &v->c;
  const int64_t parts = images / together, part = (first + begin) / v->together;
  if (!parts) return SITU_OK;
  situ_view_desc columns =
      shaped(&v->columns, begin * c->groups * v->depth * v->plane, images, c->groups, v->depth, v->plane, false);
  situ_view_desc g = shaped(v->y, (first + begin) * v->small, images, c->groups, c->outputs, v->plane, true);
  situ_view_desc to = shaped(&v->part, part * v->w->numel, parts, c->groups, c->outputs, v->depth, true);
  return product(v, &columns, &g, NULL, &to, together);
}

static situ_status grad_weight(const conv *v, int64_t first, int64_t images) {
  const int64_t rest = images % v->together;
  situ_status status = unfold(v, first, images);
  if (status == SITU_OK) status = sums(v, first, 0, images - rest, v->together);
  return status == SITU_OK && rest ? sums(v, first, images - rest, rest, rest) : status;
}

static situ_status add_up(const conv *v) {
  situ_view_desc all = shaped(&v->part, 0, 1, 1, v->parts, v->w->numel, false),
                 sum = shaped(v->w, 0, 1, 1, 1, v->w->numel, false);
  return situ__lower_reduce(v->index, &(situ_work){ SITU_VERB_REDUCE, .op = SITU_REDUCE_SUM, .compute = v->compute,
                                                    .ins = 1, .outs = 1, .in = { &all }, .out = { &sum } });
}

static situ_status scratch(conv *v, situ_conv_pass pass) {
  situ_status status;
  situ__target *d = situ__targets->enter(v->index, "conv", &status);
  if (!d) return status;
  size_t size = situ__lower_size(v->compute);
  int64_t image = v->c.groups * v->depth * v->plane;
  v->many = IMAGE_SCRATCH / (image ? image : 1) < 1 ? 1 : IMAGE_SCRATCH / (image ? image : 1);
  if (v->many > v->c.images) v->many = v->c.images;
  v->together = d->cpu && pass == SITU_CONV_GRAD_WEIGHT ? TERMS / v->plane : 1;
  if (v->together > v->many) v->together = v->many;
  if (v->together < 1) v->together = 1;
  v->many -= v->many % v->together;
  v->parts = (v->c.images + v->together - 1) / v->together;
  void *columns = situ__targets->scratch(d, "conv", (size_t)(v->many * image) * size);
  void *part = NULL;
  if (pass == SITU_CONV_GRAD_WEIGHT && columns)
    part = situ__targets->scratch(d, "conv", (size_t)(v->parts * v->w->numel) * size);
  v->columns = situ__lower_scratch_view(&v->memory, columns, v->compute, v->many * image);
  v->part = situ__lower_scratch_view(&v->sums, part, v->compute, v->parts * v->w->numel);
  bool enough = columns && (part || pass != SITU_CONV_GRAD_WEIGHT);
  return situ__targets->leave(d, enough ? SITU_OK : SITU_E_NOMEM);
}

/* Returns true if a library of the target has computed it or failed with *status. */
static bool handed_over(int index, const situ_work *work, situ_status *status) {
  situ__target *d = situ__targets->enter(index, "conv", status);
  if (!d) return true;
  const bool done = situ__targets->convolve && situ__targets->convolve(d, work, status);
  (void)situ__targets->leave(d, *status);
  return done;
}

situ_status situ__lower_conv(int index, const situ_work *work) {
  static situ_status (*const pass[])(const conv *, int64_t, int64_t) = { forward, grad_data, grad_weight };
  situ_status status;
  if (handed_over(index, work, &status)) return status;
  const situ_view_desc *result = work->out[0], *a = work->in[0], *b = work->in[1];
  /* x, w and y among the two operands and the result, for each pass */
  const situ_view_desc *of[][3] = { { a, b, result }, { result, b, a }, { a, result, b } };
  conv v = { .index = index,
             .x = of[work->op][0],
             .w = of[work->op][1],
             .y = of[work->op][2],
             .bias = work->op != SITU_CONV_GRAD_WEIGHT && work->ins > 2 ? work->in[2] : NULL };
  v.compute = situ__lower_compute_dtype(work->compute ? work->compute : (situ_dtype)result->dtype);
  v.c = situ__lower_windows(work->window, v.x, v.y);
  v.c.images = v.x->size[0], v.c.channels = v.x->size[1] / v.c.groups, v.c.outputs = v.y->size[1] / v.c.groups;
  v.c.bias = situ__lower_offset(v.bias);
  v.depth = v.c.channels * v.c.window[0] * v.c.window[1], v.plane = v.c.out_height * v.c.out_width;
  v.large = v.x->size[1] * v.c.height * v.c.width, v.small = v.y->size[1] * v.plane;
  if (work->op == SITU_CONV_GRAD_WEIGHT && (v.c.images == 0 || v.plane == 0))
    return situ__lower_fill(index, &(situ_work){ SITU_VERB_FILL, .outs = 1, .out = { result } });
  status = scratch(&v, (situ_conv_pass)work->op);
  for (int64_t at = 0; status == SITU_OK && at < v.c.images; at += v.many)
    status = pass[work->op](&v, at, v.c.images - at < v.many ? v.c.images - at : v.many);
  if (status == SITU_OK && work->op == SITU_CONV_GRAD_WEIGHT) status = add_up(&v);
  situ__targets->release(index, v.memory.data);
  situ__targets->release(index, v.sums.data);
  return status;
}
