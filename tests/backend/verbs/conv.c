/* Convolutions of the cpu, all three passes, against plain loops in f64.
   SPDX-License-Identifier: MIT */
/* test-options: -O3 */
/* test-devices: cpu opencl:0 */
/* test-sanitized: onednn */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <cmocka.h>

#include "backend/cpu/conv/algorithm.h"
#include "backend/cpu/conv/dnnl.h"
#include "base/pool.h"
#include "conv_shapes.h"
#include "device/launch/launch.h"
#include "support/test.h"
#include "support/verbs/views.h"

static const char *const pass_name[] = { "forward", "data gradient", "weight gradient" };

static int64_t windows(const shape *s, int d) {
  const int64_t size = d ? s->width : s->height;
  return (size + 2 * s->padding[d] - s->dilation[d] * (s->kernel[d] - 1) - 1) / s->stride[d] + 1;
}

/* ---- operands: x, w, y, bias; which of the first three is the result the pass says ---- */

enum { X, W, Y, BIAS, OPERANDS };
typedef struct problem {
  shape s;
  situ_window window;
  test_view *v[OPERANDS];
  test_view *packed; /* the weights laid out before, or NULL */
} problem;

static int result_of(int pass) { return pass == SITU_CONV_FORWARD ? Y : pass == SITU_CONV_GRAD_DATA ? X : W; }

static problem make(situ_dtype dtype, const shape *s, int pass) {
  problem p = { .s = *s };
  const int64_t channels = s->groups * s->channels, outputs = s->groups * s->outputs;
  p.window = (situ_window){ .kernel = { s->kernel[0], s->kernel[1] },
                            .stride = { s->stride[0], s->stride[1] },
                            .padding = { s->padding[0], s->padding[1] },
                            .dilation = { s->dilation[0], s->dilation[1] },
                            .groups = s->groups };
  p.v[X] = view_new(dtype, SITU_SHAPE(s->images, channels, s->height, s->width), VIEW_ROWS);
  p.v[W] = view_new(dtype, SITU_SHAPE(outputs, s->channels, s->kernel[0], s->kernel[1]), VIEW_ROWS);
  p.v[Y] = view_new(dtype, SITU_SHAPE(s->images, outputs, windows(s, 0), windows(s, 1)), VIEW_ROWS);
  p.v[BIAS] = view_new(dtype, SITU_SHAPE(pass == SITU_CONV_FORWARD ? outputs : channels), VIEW_ROWS);
  const bool whole = !situ_dtype_is_floating(dtype);
  for (int i = 0; i < OPERANDS; i++) view_random(p.v[i], (uint64_t)(i + 1), whole ? -4 : -1, whole ? 5 : 1);
  return p;
}

static void drop(problem *p) {
  if (p->packed) view_free(p->packed);
  for (int i = 0; i < OPERANDS; i++) view_free(p->v[i]);
}

static situ_status run(const problem *p, int pass, bool bias) {
  const situ_view_desc *in[][2] = { { &p->v[X]->d, &p->v[W]->d },
                                    { &p->v[Y]->d, &p->v[W]->d },
                                    { &p->v[X]->d, &p->v[Y]->d } };
  const situ_work work = { .verb = SITU_VERB_CONV,
                           .op = pass,
                           .compute = (situ_dtype)p->v[X]->d.dtype,
                           .ins = 4,
                           .outs = 1,
                           .in = { in[pass][0], in[pass][1], bias ? &p->v[BIAS]->d : NULL,
                                   p->packed ? &p->packed->d : NULL },
                           .out = { &p->v[result_of(pass)]->d },
                           .window = &p->window };
  return view_run(SITU_VERB_CONV, &work);
}

/* ---- the reference: every product, added to where it belongs ---- */

/* sum[] and size[] (of the terms) of every element of the result; terms: how many an element has at most. */
static int64_t reference(const problem *p, int pass, double *sum, double *size) {
  const shape *s = &p->s;
  const int64_t rows = windows(s, 0), columns = windows(s, 1), taps = s->kernel[0] * s->kernel[1];
  double *value[] = { view_values(p->v[X]), view_values(p->v[W]), view_values(p->v[Y]) };
  for (int64_t n = 0; n < s->images; n++)
    for (int64_t o = 0; o < s->groups * s->outputs; o++)
      for (int64_t c = 0; c < s->channels; c++)
        for (int64_t row = 0; row < rows; row++)
          for (int64_t tap = 0; tap < taps; tap++) {
            const int64_t h = row * s->stride[0] - s->padding[0] + tap / s->kernel[1] * s->dilation[0],
                          left = tap % s->kernel[1] * s->dilation[1] - s->padding[1];
            if (h < 0 || h >= s->height) continue;
            const int64_t channel = o / s->outputs * s->channels + c, weight = (o * s->channels + c) * taps + tap,
                          y = ((n * s->groups * s->outputs + o) * rows + row) * columns,
                          x = ((n * s->groups * s->channels + channel) * s->height + h) * s->width + left;
            const int64_t step = s->stride[1], before = left < 0 ? (step - 1 - left) / step : 0,
                          inside = s->width > left ? (s->width - left + step - 1) / step : 0,
                          end = inside < columns ? inside : columns;
            const double *of_x = value[X] + x, *of_y = value[Y] + y, w = value[W][weight];
            double *to = sum + (pass == SITU_CONV_FORWARD ? y : x), *size_of = size + (to - sum);
            if (pass == SITU_CONV_GRAD_WEIGHT)
              for (int64_t i = before; i < end; i++)
                sum[weight] += of_x[i * step] * of_y[i], size[weight] += fabs(of_x[i * step] * of_y[i]);
            else if (pass == SITU_CONV_GRAD_DATA)
              for (int64_t i = before; i < end; i++)
                to[i * step] += of_y[i] * w, size_of[i * step] += fabs(of_y[i] * w);
            else
              for (int64_t i = before; i < end; i++)
                to[i] += of_x[i * step] * w, size_of[i] += fabs(of_x[i * step] * w);
          }
  for (int i = 0; i < 3; i++) free(value[i]);
  return pass == SITU_CONV_FORWARD     ? s->channels * taps
         : pass == SITU_CONV_GRAD_DATA ? s->outputs * taps
                                       : s->images * rows * columns;
}

static void compare(const problem *p, int pass, bool bias, const double *sum, const double *size, int64_t terms) {
  const shape *s = &p->s;
  const test_view *to = p->v[result_of(pass)];
  const situ_dtype dtype = (situ_dtype)to->d.dtype;
  const bool exact = !situ_dtype_is_floating(dtype);
  const double unit_of_compute = view_unit(dtype == SITU_F64 ? SITU_F64 : SITU_F32), some = 4 + sqrt((double)terms);
  const int64_t plane = to->d.size[2] * to->d.size[3];
  for (int64_t i = 0; i < to->d.numel; i++) {
    const double extra = bias ? view_get(p->v[BIAS], i / plane % to->d.size[1]) : 0, want = sum[i] + extra,
                 got = view_get(to, i);
    const double allowed = view_unit(dtype) * fabs(want) * 1.01 + unit_of_compute * some * (size[i] + fabs(extra));
    if (!(fabs(got - want) <= (exact ? 0 : allowed)))
      fail_msg(
          "%s %s [%lld, %lldx%lld, %lld, %lld] x [%lldx%lld, %lld, %lld]: element %lld is %.17g, want %.17g, allowed error %g",
          situ_dtype_name(dtype), pass_name[pass], (long long)s->images, (long long)s->groups, (long long)s->channels,
          (long long)s->height, (long long)s->width, (long long)s->groups, (long long)s->outputs,
          (long long)s->kernel[0], (long long)s->kernel[1], (long long)i, got, want, allowed);
  }
}

/* Rows of the cpu's table that ran: a bit for each. */
static uint32_t rows_seen;

/* As it is chosen, and on the cpu by each algorithm that suits. */
static void run_rows(const problem *p, int pass, bool bias, const double *sum, const double *size, int64_t terms) {
  for (int row = SITU__CHOICE_FREE; row < 0 || situ__conv_choice.name_of(row); row++) {
    if (row >= 0 && !view_forces(situ__conv_rows[row].least)) continue;
    situ__choice_force(&situ__conv_choice, row);
    view_random(p->v[result_of(pass)], 9, -4, 5);
    const situ_status status = run(p, pass, bias);
    if (row >= 0 && status == SITU_E_UNSUPPORTED) {
      situ_error_clear();
      continue;
    }
    assert_int_equal(status, SITU_OK);
    compare(p, pass, bias, sum, size, terms);
    if (row >= 0) rows_seen |= UINT32_C(1) << row;
  }
  situ__choice_force(&situ__conv_choice, SITU__CHOICE_FREE);
}

/* By every instruction set of the cpu, without a bias, with one, or both ways. */
enum { PLAIN = 1, BIASED = 2 };
static void check(situ_dtype dtype, const shape *s, int pass, int ways) {
  problem p = make(dtype, s, pass);
  const test_view *to = p.v[result_of(pass)];
  double *sum = calloc((size_t)to->d.numel, sizeof *sum), *size = calloc((size_t)to->d.numel, sizeof *size);
  assert_true(sum && size);
  const int64_t terms = reference(&p, pass, sum, size);
  for (int isa = -1; view_next_isa(&isa);)
    for (int bias = 0; bias < 2; bias++)
      if (ways & (bias ? BIASED : PLAIN)) run_rows(&p, pass, bias, sum, size, terms);
  free(sum), free(size);
  drop(&p);
}

#define COUNT(list) ((int)(sizeof(list) / sizeof *(list)))

/* Each n-th of all passes of the shapes, with and without a bias; f64 beside f32 in each second, where that takes long. */
static void check_passes(const shape *s, int count, int n) {
  for (int i = 0; i < count; i++)
    for (int pass = 0; pass < 3; pass++) {
      const bool biased = pass != SITU_CONV_GRAD_WEIGHT && (i + pass + 1) % n == 0;
      const int ways = ((i + pass) % n == 0 ? PLAIN : 0) | (biased ? BIASED : 0);
      if (!ways || !test_is_mine((size_t)i)) continue;
      check(SITU_F32, &s[i], pass, ways);
      if (test_takes((size_t)(i + pass / 2), 2)) check(SITU_F64, &s[i], pass, ways);
    }
}

static void every_shape_and_pass(void **state) {
  (void)state;
  const int n = test_device().kind == SITU_CPU && !test_is_slow() ? 1 : 4;
  check_passes(shapes, COUNT(shapes), test_is_slow() ? 3 : 1);
  check_passes(cpu_shapes, COUNT(cpu_shapes), n);
  check_passes(image_shapes, COUNT(image_shapes), test_device().kind == SITU_CPU ? 1 : n); /* few suit its algorithms */
  check_passes(tile_shapes, COUNT(tile_shapes), n);
  check_passes(place_shapes, COUNT(place_shapes), n);
  for (int i = 0; i < COUNT(one_shapes); i++)
    check(SITU_F32, &one_shapes[i], SITU_CONV_FORWARD, i % 2 ? BIASED : PLAIN);
  for (int i = 0; i < COUNT(weight_shapes); i++) check(SITU_F32, &weight_shapes[i], SITU_CONV_GRAD_WEIGHT, PLAIN);
}

/* Windows that are laid out as columns are of some images at a time. */
static void many_images(void **state) {
  (void)state;
  const shape s = { 300, 1, 64, 1, 10, 10, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 } };
  for (int pass = 0; pass < 3; pass++) check(SITU_F32, &s, pass, PLAIN);
}

static void every_dtype(void **state) {
  (void)state;
  const situ_dtype dtypes[] = { SITU_F16, SITU_BF16, SITU_I8, SITU_I16, SITU_I32, SITU_I64 };
  for (size_t t = 0; t < sizeof dtypes / sizeof *dtypes; t++)
    for (int i = 1; i < 12; i++)
      for (int pass = 0; pass < 3; pass++)
        if (test_takes(t + (size_t)(i + pass), 3) && (situ_dtype_is_floating(dtypes[t]) || dtypes[t] >= SITU_I16))
          check(dtypes[t], &shapes[i], pass, pass != SITU_CONV_GRAD_WEIGHT && i % 2 ? BIASED : PLAIN);
}

/* bf16 is one part for tile registers, which have no other algorithm for it: those of Winograd's shapes, too. Without
   them it is multiplied in pairs. */
static void bf16_by_tiles(void **state) {
  (void)state;
  if (test_device().kind != SITU_CPU) skip();
  for (int pass = 0; pass < 2; pass++) {
    for (int i = pass; i < COUNT(cpu_shapes); i += test_is_slow() ? 4 : 2)
      check(SITU_BF16, &cpu_shapes[i], pass, i % 2 ? BIASED : PLAIN);
    for (int i = 0; i < COUNT(tile_shapes); i++)
      if (test_takes((size_t)(i + pass), 2)) check(SITU_BF16, &tile_shapes[i], pass, i % 2 ? BIASED : PLAIN);
    for (int i = 0; i < COUNT(pair_shapes); i++) check(SITU_BF16, &pair_shapes[i], pass, i % 2 ? BIASED : PLAIN);
  }
}

/* What the transposed layer asks for with an output padding: rows of x that no window sees. */
static void fewer_windows_than_fit(void **state) {
  (void)state;
  const shape whole = { 2, 1, 3, 4, 9, 10, { 3, 3 }, { 1, 1 }, { 0, 0 }, { 2, 2 } };
  problem p = make(SITU_F32, &whole, SITU_CONV_GRAD_DATA), cut = make(SITU_F32, &whole, SITU_CONV_GRAD_DATA);
  /* one window fewer each way: as if the last ones had a gradient of 0 */
  view_free(cut.v[Y]);
  const int64_t rows = windows(&whole, 0), columns = windows(&whole, 1);
  cut.v[Y] = view_new(SITU_F32, SITU_SHAPE(2, 4, rows - 1, columns - 1), VIEW_ROWS);
  for (int64_t plane = 0, to = 0; plane < 8; plane++)
    for (int64_t i = 0; i < rows; i++)
      for (int64_t j = 0; j < columns; j++) {
        const int64_t at = (plane * rows + i) * columns + j;
        if (i == rows - 1 || j == columns - 1) view_set(p.v[Y], at, 0);
        else view_set(cut.v[Y], to++, view_get(p.v[Y], at));
      }
  assert_int_equal(run(&p, SITU_CONV_GRAD_DATA, true), SITU_OK);
  assert_int_equal(run(&cut, SITU_CONV_GRAD_DATA, true), SITU_OK);
  for (int64_t i = 0; i < p.v[X]->d.numel; i++) assert_true(fabs(view_get(p.v[X], i) - view_get(cut.v[X], i)) < 1e-5);
  drop(&p), drop(&cut);
}

static void nan_stays_in_its_windows(void **state) {
  (void)state;
  const shape shapes[] = { { 2, 1, 2, 20, 9, 9, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 } },
                           { 16, 1, 20, 20, 9, 9, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 } },
                           { 2, 1, 32, 32, 16, 16, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 } },
                           { 2, 1, 128, 128, 9, 9, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 } },
                           { 24, 1, 128, 32, 9, 9, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 } } };
  for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++)
    for (int pass = SITU_CONV_FORWARD; pass <= SITU_CONV_GRAD_DATA; pass++)
      for (int special = 0; special < 4; special++) {
        const int64_t size = shapes[k].height;
        const bool infinite = special % 2;
        problem p = make(special < 2 ? SITU_F32 : SITU_BF16, &shapes[k], pass);
        test_view *from = p.v[pass == SITU_CONV_FORWARD ? X : Y];
        const test_view *to = p.v[result_of(pass)];
        view_set(from, 4 * size + 4, infinite ? INFINITY : NAN);
        for (int isa = -1; view_next_isa(&isa);) {
          assert_int_equal(run(&p, pass, false), SITU_OK);
          for (int64_t i = 0; i < to->d.numel; i++) {
            const int64_t row = i / size % size, column = i % size;
            const bool sees = i < to->d.size[1] * size * size && row >= 3 && row <= 5 && column >= 3 && column <= 5;
            const double got = view_get(to, i);
            assert_int_equal(infinite ? isinf(got) != 0 : isnan(got) != 0, sees);
            assert_true(sees || isfinite(got));
          }
        }
        drop(&p);
      }
}

/* Sums within a tile would overflow where those of a window do not. */
static void large_values_do_not_overflow(void **state) {
  (void)state;
  const shape s = { 1, 1, 32, 32, 16, 16, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 } };
  problem p = make(SITU_F32, &s, SITU_CONV_FORWARD);
  for (int64_t i = 0; i < p.v[X]->d.numel; i++) view_set(p.v[X], i, i % 3 ? 3e38 : -3e38);
  for (int64_t i = 0; i < p.v[W]->d.numel; i++) view_set(p.v[W], i, 1e-4 * view_get(p.v[W], i));
  for (int isa = -1; view_next_isa(&isa);) {
    assert_int_equal(run(&p, SITU_CONV_FORWARD, false), SITU_OK);
    for (int64_t i = 0; i < p.v[Y]->d.numel; i++) assert_true(isfinite(view_get(p.v[Y], i)));
  }
  drop(&p);
}

/* Numbers whose parts would be subnormal keep their digits, whichever operand has them. */
static void small_values_are_not_lost(void **state) {
  (void)state;
  static const shape shapes[] = { { 1, 1, 32, 32, 16, 16, { 5, 5 }, { 1, 1 }, { 1, 1 }, { 1, 1 } },
                                  { 24, 1, 32, 32, 9, 8, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 } } };
  for (int last = 0; last < 2; last++)
    for (int of = 0; of < 2; of++) {
      const int pass = last ? SITU_CONV_GRAD_WEIGHT : SITU_CONV_FORWARD, small = !of ? X : last ? Y : W;
      problem p = make(SITU_F32, &shapes[last], pass);
      const int64_t count = p.v[result_of(pass)]->d.numel;
      for (int64_t i = 0; i < p.v[small]->d.numel; i++) view_set(p.v[small], i, ldexp(view_get(p.v[small], i), -115));
      double *sum = calloc((size_t)count, sizeof *sum), *size = calloc((size_t)count, sizeof *size);
      assert_true(sum && size);
      const int64_t terms = reference(&p, pass, sum, size);
      assert_int_equal(run(&p, pass, false), SITU_OK);
      compare(&p, pass, false, sum, size, terms);
      free(sum), free(size);
      drop(&p);
    }
}

/* The sum over the channels of the largest |x| of a tile of 4 x 4 times the sum of the window's |weights|. */
static double tile_size(const problem *p, int64_t at) {
  const shape *s = &p->s;
  const int64_t columns = windows(s, 1), plane = windows(s, 0) * columns, o = at / plane;
  const int64_t top = at % plane / columns / 2 * 2 - s->padding[0], left = at % columns / 2 * 2 - s->padding[1];
  double size = 0;
  for (int64_t c = 0; c < s->channels; c++) {
    double most = 0, weights = 0;
    for (int64_t tap = 0; tap < 9; tap++) weights += fabs(view_get(p->v[W], (o * s->channels + c) * 9 + tap));
    for (int64_t i = 0; i < 16; i++) {
      const int64_t h = top + i / 4, w = left + i % 4;
      if (h < 0 || h >= s->height || w < 0 || w >= s->width) continue;
      most = fmax(most, fabs(view_get(p->v[X], (c * s->height + h) * s->width + w)));
    }
    size += most * weights;
  }
  return size;
}

/* Values of very different magnitudes: an error is of the size of its tile. */
static void errors_are_those_of_a_tile(void **state) {
  (void)state;
  const shape s = { 1, 1, 48, 32, 23, 30, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 } };
  problem p = make(SITU_F32, &s, SITU_CONV_FORWARD);
  for (int i = X; i <= W; i++)
    for (int64_t k = 0; k < p.v[i]->d.numel; k++)
      view_set(p.v[i], k, ldexp(view_get(p.v[i], k), (int)(k * 2654435761u >> 3) % 24));
  const int64_t count = p.v[Y]->d.numel;
  double *sum = calloc((size_t)count, sizeof *sum), *size = calloc((size_t)count, sizeof *size), worst = 0;
  assert_true(sum && size);
  const int64_t terms = reference(&p, SITU_CONV_FORWARD, sum, size);
  for (int isa = -1; view_next_isa(&isa);) {
    assert_int_equal(run(&p, SITU_CONV_FORWARD, false), SITU_OK);
    for (int64_t i = 0; i < count; i++) {
      const double allowed = view_unit(SITU_F32) * (4 + sqrt((double)terms)) * tile_size(&p, i);
      worst = fmax(worst, fabs(view_get(p.v[Y], i) - sum[i]) / allowed);
    }
  }
  if (!(worst <= 1)) fail_msg("an error is %g of what is allowed", worst);
  free(sum), free(size);
  drop(&p);
}

/* Nothing is read or written behind an operand: each ends where memory does. */
static void operands_at_the_end_of_memory(void **state) {
  (void)state;
  if (test_device().kind != SITU_CPU) skip();
  static const shape ends[] = { { 1, 1, 32, 33, 14, 18, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 } },
                                { 1, 1, 33, 32, 21, 15, { 3, 3 }, { 1, 1 }, { 0, 2 }, { 1, 1 } },
                                { 1, 1, 3, 8, 19, 43, { 3, 3 }, { 2, 2 }, { 2, 3 }, { 1, 1 } },
                                { 1, 1, 6, 7, 9, 11, { 1, 1 }, { 2, 2 }, { 0, 0 }, { 1, 1 } },
                                { 1, 1, 64, 56, 29, 43, { 1, 1 }, { 2, 2 }, { 0, 0 }, { 1, 1 } },
                                { 1, 1, 32, 48, 29, 43, { 3, 3 }, { 2, 2 }, { 1, 1 }, { 1, 1 } },
                                { 1, 1, 32, 32, 14, 19, { 3, 4 }, { 1, 1 }, { 1, 1 }, { 1, 1 } },
                                { 1, 1, 82, 97, 19, 29, { 1, 1 }, { 1, 1 }, { 0, 0 }, { 1, 1 } },
                                { 1, 3, 1, 1, 19, 43, { 5, 5 }, { 1, 1 }, { 2, 2 }, { 1, 1 } },
                                { 1, 3, 1, 1, 18, 43, { 3, 3 }, { 2, 2 }, { 1, 0 }, { 1, 1 } },
                                { 13, 1, 6, 18, 9, 9, { 5, 4 }, { 1, 1 }, { 1, 2 }, { 1, 1 } },
                                { 25, 1, 32, 35, 5, 7, { 3, 4 }, { 1, 1 }, { 1, 1 }, { 1, 1 } },
                                { 27, 1, 34, 33, 5, 7, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 } } };
  const size_t wall = 1 << 19; /* more than an operand */
  char *memory[3];
  for (int i = 0; i < 3; i++) {
    memory[i] = mmap(NULL, 2 * wall, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(memory[i] != MAP_FAILED);
    assert_int_equal(mprotect(memory[i] + wall, wall, PROT_NONE), 0);
  }
  for (int isa = -1; view_next_isa(&isa);)
    for (size_t k = 0; k < sizeof ends / sizeof *ends; k++)
      for (int pass = SITU_CONV_FORWARD; pass <= SITU_CONV_GRAD_WEIGHT; pass++) {
        problem p = make(SITU_F32, &ends[k], pass);
        void *before[3];
        for (int i = X; i <= Y; i++) {
          const size_t bytes = (size_t)p.v[i]->d.numel * sizeof(float);
          before[i] = p.v[i]->storage.data;
          p.v[i]->storage.data = memcpy(memory[i] + wall - bytes, before[i], bytes);
        }
        assert_int_equal(run(&p, pass, false), SITU_OK);
        for (int i = X; i <= Y; i++) p.v[i]->storage.data = before[i];
        drop(&p);
      }
  for (int i = 0; i < 3; i++) assert_int_equal(munmap(memory[i], 2 * wall), 0);
}

static void same_bits_for_any_number_of_threads(void **state) {
  (void)state;
  const int before = situ__pool_threads();
  const shape large[] = { { 37, 1, 6, 16, 12, 12, { 5, 5 }, { 1, 1 }, { 0, 0 }, { 1, 1 } },
                          { 1, 1, 32, 64, 40, 40, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 } },
                          { 9, 4, 8, 8, 20, 20, { 3, 3 }, { 2, 2 }, { 1, 1 }, { 1, 1 } },
                          { 20, 1, 32, 48, 14, 14, { 1, 1 }, { 1, 1 }, { 0, 0 }, { 1, 1 } },
                          { 50, 1, 1, 8, 28, 28, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 } },
                          { 20, 1, 32, 48, 14, 14, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 } },
                          { 9, 1, 64, 80, 30, 30, { 3, 2 }, { 1, 1 }, { 1, 1 }, { 1, 1 } },
                          { 1, 1, 48, 70, 64, 64, { 3, 3 }, { 2, 2 }, { 1, 1 }, { 1, 1 } },
                          { 4, 64, 1, 1, 40, 40, { 5, 5 }, { 1, 1 }, { 2, 2 }, { 1, 1 } },
                          { 2, 1, 112, 192, 28, 28, { 1, 1 }, { 1, 1 }, { 0, 0 }, { 1, 1 } },
                          { 40, 1, 64, 70, 12, 14, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 } },
                          { 32, 1, 128, 72, 4, 5, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 } },
                          { 7, 1, 410, 240, 7, 7, { 1, 1 }, { 1, 1 }, { 0, 0 }, { 1, 1 } } };
  for (size_t i = 0; i < sizeof large / sizeof *large; i++)
    for (int pass = 0; pass < 3; pass++)
      for (int f64 = 0; f64 < 2; f64++) {
        if (!test_takes_threads(i + (size_t)(pass + f64))) continue;
        problem one = make(f64 ? SITU_F64 : SITU_F32, &large[i], pass),
                many = make(f64 ? SITU_F64 : SITU_F32, &large[i], pass);
        situ__pool_set_threads(1);
        assert_int_equal(run(&one, pass, false), SITU_OK);
        for (int threads = 2; threads <= test_most_threads(); threads += 1 + (threads > 3)) {
          situ__pool_set_threads(threads);
          assert_int_equal(run(&many, pass, false), SITU_OK);
          if (!view_same(one.v[result_of(pass)], many.v[result_of(pass)]))
            fail_msg("shape %zu, %s, %s: bits differ on %d threads", i, f64 ? "f64" : "f32", pass_name[pass], threads);
        }
        drop(&one), drop(&many);
      }
  situ__pool_set_threads(before);
}

/* Lays the weights out, if the device does. */
static bool lay_out(problem *p) {
  const situ_view_desc *w = &p->v[W]->d;
  p->packed =
      view_new(SITU_U8, SITU_SHAPE(situ_conv_prepack_bytes(w->size[0], w->size[1], p->window.kernel)), VIEW_ROWS);
  const situ_work work = { .verb = SITU_VERB_PREPACK,
                           .compute = SITU_F32,
                           .ins = 1,
                           .outs = 1,
                           .in = { w },
                           .out = { &p->packed->d },
                           .window = &p->window };
  bool offered;
  assert_int_equal(situ__offers("prepack", test_device(), &work, &offered), SITU_OK);
  if (offered) assert_int_equal(view_run(SITU_VERB_PREPACK, &work), SITU_OK);
  return offered;
}

/* They give the bits of weights that each call lays out, for all channels, outputs and pixels, whether or not these fill
   blocks, panels and tiles. */
static void weights_laid_out_before(void **state) {
  (void)state;
  if (test_device().kind != SITU_CPU) skip();
  for (int isa = -1; view_next_isa(&isa);)
    for (int i = 0; i < COUNT(one_shapes); i++)
      for (int bias = 0; bias < 2; bias++) {
        problem with = make(SITU_F32, &one_shapes[i], SITU_CONV_FORWARD),
                without = make(SITU_F32, &one_shapes[i], SITU_CONV_FORWARD);
        if (lay_out(&with)) {
          assert_int_equal(run(&with, SITU_CONV_FORWARD, bias), SITU_OK);
          assert_int_equal(run(&without, SITU_CONV_FORWARD, bias), SITU_OK);
          if (!view_same(with.v[Y], without.v[Y]))
            fail_msg("shape %d, instruction set %d, bias %d: other bits by weights that were laid out", i, isa, bias);
        }
        drop(&with), drop(&without);
      }
}

/* After all other cases: a row that no shape of them suits was not tested. */
static void every_algorithm_ran(void **state) {
  (void)state;
  if (test_device().kind != SITU_CPU) skip();
  for (int row = 0; situ__conv_choice.name_of(row); row++) {
    const bool there = situ__conv_rows[row].least <= (situ__isa)view_best_isa() &&
                       (strcmp(situ__conv_rows[row].name, "onednn") != 0 || situ__dnnl_is_there());
    if (there && !(rows_seen >> row & 1)) fail_msg("no shape suits %s", situ__conv_rows[row].name);
  }
}

static void the_environment_forces_one(void **state) {
  (void)state;
  if (test_device().kind != SITU_CPU) skip();
  problem p = make(SITU_F32, &shapes[4], SITU_CONV_FORWARD); /* of stride 2 */
  static const char *const text[][2] = {
    { "im2col", NULL },
    { "", NULL },
    { "winograd",
      "conv: SITU_CPU_CONV=winograd forces an algorithm that does not suit; for these operands there are: " },
    { "gemm", "conv: SITU_CPU_CONV=gemm forces an algorithm that does not exist; for these operands there are: " }
  };
  for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
    assert_int_equal(setenv("SITU_CPU_CONV", text[i][0], 1), 0);
    situ__conv_choice.state = 0;
    const situ_status status = run(&p, SITU_CONV_FORWARD, false);
    assert_int_equal(status, text[i][1] ? SITU_E_UNSUPPORTED : SITU_OK);
    if (!text[i][1]) continue;
    assert_ptr_equal(strstr(situ_error_message(), text[i][1]), situ_error_message());
    assert_non_null(strstr(situ_error_message(), "im2col"));
    situ_error_clear();
  }
  assert_int_equal(unsetenv("SITU_CPU_CONV"), 0);
  situ__conv_choice.state = 0;
  drop(&p);
}

int main(void) {
  situ_error_mode(SITU_ERROR_QUIET);
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_shape_and_pass),
    cmocka_unit_test(many_images),
    cmocka_unit_test(every_dtype),
    cmocka_unit_test(bf16_by_tiles),
    cmocka_unit_test(fewer_windows_than_fit),
    cmocka_unit_test(nan_stays_in_its_windows),
    cmocka_unit_test(large_values_do_not_overflow),
    cmocka_unit_test(small_values_are_not_lost),
    cmocka_unit_test(errors_are_those_of_a_tile),
    cmocka_unit_test(operands_at_the_end_of_memory),
    cmocka_unit_test(same_bits_for_any_number_of_threads),
    cmocka_unit_test(weights_laid_out_before),
    cmocka_unit_test(the_environment_forces_one),
    cmocka_unit_test(every_algorithm_ran),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
