/* Products of u8 and i8 against plain loops: exact sums, and what is made of them.
   SPDX-License-Identifier: MIT */
/* test-options: -O1 */
/* test-devices: cpu sim:0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/test.h"
#include "support/verbs/views.h"

enum { A, B, ZERO_A, ZERO_B, BIAS, SCALE, ZERO, PACKED, OPERANDS };
enum { KINDS = 4 }; /* of results: sums, floats, u8, i8 */

typedef struct problem {
  test_view *in[OPERANDS], *out;
  situ_work work;
  int64_t n;
} problem;

static situ_dtype byte_of(int bit) { return bit ? SITU_I8 : SITU_U8; }

/* a and b of any bytes, and each other operand in turn, so that each is absent, of one element, and of n. */
static void draw(problem *p, situ_shape a, situ_shape b, situ_shape y, int64_t n, int turn, int kind) {
  const situ_dtype dtype[] = { SITU_I32, SITU_F32, SITU_U8, SITU_I8 };
  memset(p, 0, sizeof *p);
  p->n = n;
  p->in[A] = view_new(byte_of(turn & 1), a, VIEW_ROWS);
  p->in[B] = view_new(byte_of(turn >> 1 & 1), b, b.ndim == 3 && turn % 3 == 1 ? VIEW_COLUMNS : VIEW_ROWS);
  if (turn % 5) p->in[ZERO_A] = view_new(byte_of(turn & 1), SITU_SHAPE(1), VIEW_ROWS);
  if (turn % 4) p->in[ZERO_B] = view_new(byte_of(turn >> 1 & 1), SITU_SHAPE(turn % 4 == 1 ? 1 : n), VIEW_ROWS);
  if (turn % 3) p->in[BIAS] = view_new(SITU_I32, SITU_SHAPE(n), VIEW_ROWS);
  if (kind) p->in[SCALE] = view_new(SITU_F32, SITU_SHAPE(turn % 2 ? n : 1), VIEW_ROWS);
  if (kind > 1) p->in[ZERO] = view_new(dtype[kind], SITU_SHAPE(1), VIEW_ROWS);
  p->out = view_new(dtype[kind], y, VIEW_ROWS);
  for (int i = A; i < PACKED; i++) {
    if (!p->in[i]) continue;
    const double low = p->in[i]->d.dtype == SITU_I8 ? -128 : 0;
    if (i == SCALE) view_random(p->in[i], (uint64_t)(turn + i), 1e-5, 1e-3);
    else if (i == BIAS) view_random(p->in[i], (uint64_t)(turn + i), -30000, 30000);
    else view_random(p->in[i], (uint64_t)(turn + i), low, low + 256);
    if (turn % 7 == 0 && i <= B) /* the largest sums */
      for (int64_t e = 0; e < p->in[i]->d.numel; e++) view_set(p->in[i], e, i == A ? low + 255 : low);
  }
}

static void run(problem *p) {
  p->work.verb = SITU_VERB_INTEGER;
  p->work.compute = SITU_I32;
  p->work.ins = OPERANDS;
  p->work.outs = 1;
  for (int i = 0; i < OPERANDS; i++) p->work.in[i] = p->in[i] ? &p->in[i]->d : NULL;
  p->work.out[0] = &p->out->d;
  assert_int_equal(view_run(SITU_VERB_INTEGER, &p->work), SITU_OK);
}

static double at(const problem *p, int i, int64_t e) {
  return p->in[i] ? view_get(p->in[i], p->in[i]->d.numel == 1 ? 0 : e) : 0;
}

/* What a sum gives, in column j. */
static double result_of(const problem *p, int64_t sum, int64_t j) {
  const int64_t all = sum + (int64_t)at(p, BIAS, j);
  if (!p->in[SCALE]) return (double)all;
  const float real = (float)(int32_t)all * (float)at(p, SCALE, j);
  if (!p->in[ZERO]) return (double)real;
  const double low = p->out->d.dtype == SITU_I8 ? -128 : 0;
  return fmin(fmax(rint((double)real) + at(p, ZERO, 0), low), low + 255);
}

static void expect(const problem *p, int64_t e, int64_t sum, int64_t j, int isa, int turn) {
  const double want = result_of(p, sum, j), got = view_get(p->out, e);
  if (got != want)
    fail_msg("instruction set %d, case %d, element %lld: %.9g, not %.9g", isa, turn, (long long)e, got, want);
}

static void end_problem(problem *p) {
  for (int i = 0; i < OPERANDS; i++)
    if (p->in[i]) view_free(p->in[i]);
  view_free(p->out);
}

static void products(void **state) {
  static const int64_t shapes[][4] = { { 1, 1, 1, 1 },   { 1, 1, 300, 33 }, { 2, 7, 4, 32 },  { 1, 65, 37, 70 },
                                       { 3, 2, 129, 5 }, { 1, 9, 64, 96 },  { 2, 70, 3, 31 }, { 1, 3, 70000, 2 } };
  (void)state;
  for (int isa = -1; view_next_isa(&isa);)
    for (int turn = 0; turn < 48; turn++) {
      const int64_t *s = shapes[turn % 8], shared = turn / 8 % 2;
      problem p;
      draw(&p, SITU_SHAPE(s[0], s[1], s[2]), SITU_SHAPE(shared ? 1 : s[0], s[2], s[3]), SITU_SHAPE(s[0], s[1], s[3]),
           s[3], turn, turn / 12 % KINDS);
      if (shared && turn % 3) { /* laid out before */
        p.in[PACKED] = view_new(SITU_U8, SITU_SHAPE(situ_integer_prepack_bytes(s[2], s[3])), VIEW_ROWS);
        situ_view_desc matrix = p.in[B]->d;
        matrix.ndim = 2;
        for (int d = 0; d < 2; d++) matrix.size[d] = matrix.size[d + 1], matrix.stride[d] = matrix.stride[d + 1];
        const situ_work work = { SITU_VERB_PREPACK, .compute = SITU_U8, .ins = 1,
                                 .outs = 1,         .in = { &matrix },  .out = { &p.in[PACKED]->d } };
        assert_int_equal(view_run(SITU_VERB_PREPACK, &work), SITU_OK);
      }
      run(&p);
      for (int64_t e = 0; e < p.out->d.numel; e++) {
        const int64_t j = e % s[3], row = e / s[3], item = shared ? 0 : row / s[1];
        int64_t sum = 0;
        for (int64_t q = 0; q < s[2]; q++)
          sum += (int64_t)((view_get(p.in[A], row * s[2] + q) - at(&p, ZERO_A, 0)) *
                           (view_get(p.in[B], (item * s[2] + q) * s[3] + j) - at(&p, ZERO_B, j)));
        expect(&p, e, sum, j, isa, turn);
      }
      end_problem(&p);
    }
}

static int64_t sum_of_window(const problem *p, const situ_window *w, const int64_t place[4]) {
  const int64_t *x = p->in[A]->d.size, *k = p->in[B]->d.size, outputs = k[0] / w->groups, g = place[1] / outputs;
  int64_t sum = 0;
  for (int64_t c = 0; c < k[1]; c++)
    for (int64_t tap = 0; tap < k[2] * k[3]; tap++) {
      const int64_t row = place[2] * w->stride[0] - w->padding[0] + tap / k[3] * w->dilation[0],
                    column = place[3] * w->stride[1] - w->padding[1] + tap % k[3] * w->dilation[1];
      if (row < 0 || row >= x[2] || column < 0 || column >= x[3]) continue;
      sum += (int64_t)((view_get(p->in[A], ((place[0] * x[1] + g * k[1] + c) * x[2] + row) * x[3] + column) -
                        at(p, ZERO_A, 0)) *
                       (view_get(p->in[B], (place[1] * k[1] + c) * k[2] * k[3] + tap) - at(p, ZERO_B, place[1])));
    }
  return sum;
}

static void convolutions(void **state) {
  /* images, channels, height, width, outputs, groups, kernel, stride, padding before and after, dilation */
  static const int64_t cases[][11] = { { 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 1 },    { 2, 3, 9, 17, 20, 1, 3, 1, 1, 1, 1 },
                                       { 1, 16, 18, 9, 33, 1, 1, 1, 0, 0, 1 }, { 1, 36, 7, 8, 36, 36, 3, 2, 1, 0, 1 },
                                       { 2, 6, 9, 8, 4, 2, 3, 2, 0, 2, 2 },    { 1, 5, 6, 40, 70, 1, 5, 3, 4, 4, 1 } };
  (void)state;
  for (int isa = -1; view_next_isa(&isa);)
    for (int turn = 0; turn < 48; turn++) {
      const int64_t *c = cases[turn % 6], k = c[6], reach = c[10] * (k - 1) + 1, more = c[8] + c[9];
      const situ_window w = { .kernel = { k, k },
                              .stride = { c[7], c[7] },
                              .padding = { c[8], c[8] },
                              .dilation = { c[10], c[10] },
                              .groups = c[5] };
      const situ_shape y = SITU_SHAPE(c[0], c[4], (c[2] + more - reach) / c[7] + 1, (c[3] + more - reach) / c[7] + 1);
      problem p;
      draw(&p, SITU_SHAPE(c[0], c[1], c[2], c[3]), SITU_SHAPE(c[4], c[1] / c[5], k, k), y, c[4], turn,
           turn / 6 % KINDS);
      p.work.op = SITU_INTEGER_CONV;
      p.work.window = &w;
      if (turn >= 24) {
        const int64_t bytes = c[5] * situ_integer_prepack_bytes(c[1] / c[5] * k * k, c[4] / c[5]);
        p.in[PACKED] = view_new(SITU_U8, SITU_SHAPE(bytes), VIEW_ROWS);
        const situ_work work = { SITU_VERB_PREPACK,     .compute = SITU_U8,          .ins = 1,    .outs = 1,
                                 .in = { &p.in[B]->d }, .out = { &p.in[PACKED]->d }, .window = &w };
        assert_int_equal(view_run(SITU_VERB_PREPACK, &work), SITU_OK);
      }
      run(&p);
      for (int64_t e = 0; e < p.out->d.numel; e++) {
        const int64_t plane = y.dim[2] * y.dim[3];
        const int64_t place[] = { e / (plane * c[4]), e / plane % c[4], e % plane / y.dim[3], e % y.dim[3] };
        expect(&p, e, sum_of_window(&p, &w, place), place[1], isa, turn);
      }
      end_problem(&p);
    }
}

/* Scales that no quantiser gives, and ties. */
static void ties_and_scales_without_sense(void **state) {
  static const float scale[] = { 0, INFINITY, -INFINITY, NAN, 0.5f, 1.5f, -0.5f, 3e38f };
  static const double want[] = { 3, 255, 0, 0, 5, 11, 1, 255 };
  (void)state;
  for (int isa = -1; view_next_isa(&isa);) {
    problem p;
    draw(&p, SITU_SHAPE(1, 1, 5), SITU_SHAPE(1, 5, 8), SITU_SHAPE(1, 1, 8), 8, 0, 2);
    for (int i = A; i <= B; i++)
      for (int64_t e = 0; e < p.in[i]->d.numel; e++) view_set(p.in[i], e, 1); /* sums are 5 */
    view_free(p.in[SCALE]);
    p.in[SCALE] = view_new(SITU_F32, SITU_SHAPE(8), VIEW_ROWS);
    for (int e = 0; e < 8; e++) view_set(p.in[SCALE], e, (double)scale[e]);
    view_set(p.in[ZERO], 0, 3);
    run(&p);
    for (int e = 0; e < 8; e++)
      if (view_get(p.out, e) != want[e])
        fail_msg("instruction set %d, scale %g: %g, not %g", isa, (double)scale[e], view_get(p.out, e), want[e]);
    end_problem(&p);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = { cmocka_unit_test(products), cmocka_unit_test(convolutions),
                                      cmocka_unit_test(ties_and_scales_without_sense) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
