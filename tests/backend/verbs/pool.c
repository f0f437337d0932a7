/* Pooling of the cpu against plain loops: maxima with their places, averages, and all gradients.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu opencl:0 */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <cmocka.h>

#include "backend/cpu/common/cpu.h"
#include "base/pool.h"
#include "support/test.h"
#include "support/verbs/views.h"

typedef struct shape {
  int64_t images, channels, height, width, out_height, out_width; /* out: adaptive only, else computed */
  situ_window window;
} shape;

static int64_t windows(const shape *s, int d) {
  const situ_window *w = &s->window;
  return ((d ? s->width : s->height) + 2 * w->padding[d] - w->dilation[d] * (w->kernel[d] - 1) - 1) / w->stride[d] + 1;
}

/* [images, channels, planes of `large` or of `small` sizes] */
static test_view *plane_view(const shape *s, situ_dtype dtype, bool large) {
  return view_new(
      dtype, SITU_SHAPE(s->images, s->channels, large ? s->height : s->out_height, large ? s->width : s->out_width),
      VIEW_ROWS);
}

static situ_status run(int pass, const shape *s, const test_view *from, const test_view *index, const test_view *to) {
  situ_work work = { .verb = SITU_VERB_POOL,
                     .op = pass,
                     .compute = (situ_dtype)to->d.dtype,
                     .ins = 1,
                     .outs = 1,
                     .in = { &from->d },
                     .out = { &to->d },
                     .window = &s->window };
  if (pass == SITU_POOL_MAX && index) work.out[work.outs++] = &index->d;
  if (pass == SITU_POOL_MAX_GRAD) work.in[work.ins++] = &index->d;
  return view_run(SITU_VERB_POOL, &work);
}

static void near(const test_view *v, int64_t i, double want, double size, const char *what) {
  const double got = view_get(v, i), unit_of_compute = v->d.dtype == SITU_F64                           ? DBL_EPSILON
                                                       : situ_dtype_is_floating((situ_dtype)v->d.dtype) ? FLT_EPSILON
                                                                                                        : 0;
  const double tiny = v->d.dtype == SITU_F16 ? 0x1p-25 : 0; /* half of the step between its subnormal numbers */
  if (isnan(want) ? !isnan(got)
                  : !(got == want || fabs(got - want) <=
                                         tiny + view_unit(v->d.dtype) * fabs(want) * 1.01 + 8 * unit_of_compute * size))
    fail_msg("%s %s: element %lld is %.17g, want %.17g", situ_dtype_name((situ_dtype)v->d.dtype), what, (long long)i,
             got, want);
}

/* ---- maxima: torch's loop, word for word: a value wins that is larger, or NaN ---- */

static void check_max(const shape *s, situ_dtype dtype, const test_view *x) {
  const situ_window *w = &s->window;
  test_view *y = plane_view(s, dtype, false), *index = plane_view(s, SITU_I64, false),
            *alone = plane_view(s, dtype, false);
  assert_int_equal(run(SITU_POOL_MAX, s, x, index, y), SITU_OK);
  assert_int_equal(run(SITU_POOL_MAX, s, x, NULL, alone), SITU_OK);
  for (int64_t i = 0; i < y->d.numel; i++) {
    const int64_t plane = i / (s->out_height * s->out_width), oh = i / s->out_width % s->out_height,
                  ow = i % s->out_width;
    int64_t best = -1;
    double value = -INFINITY;
    for (int64_t tap = 0; tap < w->kernel[0] * w->kernel[1]; tap++) {
      const int64_t h = oh * w->stride[0] - w->padding[0] + tap / w->kernel[1] * w->dilation[0];
      const int64_t c = ow * w->stride[1] - w->padding[1] + tap % w->kernel[1] * w->dilation[1];
      if (h < 0 || h >= s->height || c < 0 || c >= s->width) continue;
      const double at = view_get(x, (plane * s->height + h) * s->width + c);
      if (best < 0 || at > value || isnan(at)) best = h * s->width + c, value = at;
    }
    near(y, i, value, 0, "max");
    if (!isnan(value)) assert_int_equal(!signbit(view_get(y, i)), !signbit(value)); /* of zeros too the first wins */
    near(alone, i, value, 0, "max without places");
    if (!isnan(value)) assert_int_equal(!signbit(view_get(alone, i)), !signbit(value));
    assert_int_equal((int64_t)view_get(index, i), best);
  }
  if (situ_dtype_is_floating(dtype)) {
    test_view *g = plane_view(s, dtype, false), *dx = plane_view(s, dtype, true);
    view_random(g, 5, -1, 1);
    view_random(dx, 6, -1, 1);
    assert_int_equal(run(SITU_POOL_MAX_GRAD, s, g, index, dx), SITU_OK);
    double *want = calloc((size_t)dx->d.numel, sizeof *want), *size = calloc((size_t)dx->d.numel, sizeof *size);
    for (int64_t i = 0; i < g->d.numel; i++) {
      const int64_t to = i / (s->out_height * s->out_width) * s->height * s->width + (int64_t)view_get(index, i);
      want[to] += view_get(g, i);
      size[to] += fabs(view_get(g, i));
    }
    for (int64_t i = 0; i < dx->d.numel; i++) near(dx, i, want[i], size[i], "max gradient");
    free(want), free(size);
    view_free(g), view_free(dx);
  }
  view_free(y), view_free(index), view_free(alone);
}

/* ---- averages: of [first, last) of each dimension, divided by `divisor` ---- */

typedef struct part {
  int64_t first[2], last[2];
  double divisor;
} part;

static part window_part(const shape *s, int64_t oh, int64_t ow) {
  const situ_window *w = &s->window;
  const int64_t at[] = { oh, ow }, size[] = { s->height, s->width };
  part p = { .divisor = 1 };
  for (int d = 0; d < 2; d++) {
    const int64_t start = at[d] * w->stride[d] - w->padding[d];
    int64_t end = start + w->kernel[d];
    if (end > size[d] + w->padding[d]) end = size[d] + w->padding[d];
    p.first[d] = start < 0 ? 0 : start;
    p.last[d] = end > size[d] ? size[d] : end;
    p.divisor *= (double)(w->exclude_pad ? p.last[d] - p.first[d] : end - start);
  }
  if (w->divisor) p.divisor = (double)w->divisor;
  return p;
}

static part adaptive_part(const shape *s, int64_t oh, int64_t ow) {
  const int64_t at[] = { oh, ow }, size[] = { s->height, s->width }, parts[] = { s->out_height, s->out_width };
  part p = { .divisor = 1 };
  for (int d = 0; d < 2; d++) {
    p.first[d] = (int64_t)floor((double)at[d] * (double)size[d] / (double)parts[d]);
    p.last[d] = (int64_t)ceil((double)(at[d] + 1) * (double)size[d] / (double)parts[d]);
    p.divisor *= (double)(p.last[d] - p.first[d]);
  }
  return p;
}

static void check_avg(const shape *s, situ_dtype dtype, bool adaptive) {
  test_view *x = plane_view(s, dtype, true), *y = plane_view(s, dtype, false), *g = plane_view(s, dtype, false),
            *dx = plane_view(s, dtype, true);
  const bool whole = !situ_dtype_is_floating(dtype);
  view_random(x, 1, whole ? -50 : -1, whole ? 50 : 1), view_random(g, 2, -1, 1), view_random(dx, 3, -1, 1);
  double *want = calloc((size_t)dx->d.numel, sizeof *want), *size = calloc((size_t)dx->d.numel, sizeof *size);
  assert_int_equal(run(adaptive ? SITU_POOL_ADAPTIVE_AVG : SITU_POOL_AVG, s, x, NULL, y), SITU_OK);
  if (!whole)
    assert_int_equal(run(adaptive ? SITU_POOL_ADAPTIVE_AVG_GRAD : SITU_POOL_AVG_GRAD, s, g, NULL, dx), SITU_OK);
  for (int64_t i = 0; i < y->d.numel; i++) {
    const int64_t plane = i / (s->out_height * s->out_width), oh = i / s->out_width % s->out_height,
                  ow = i % s->out_width;
    const part p = adaptive ? adaptive_part(s, oh, ow) : window_part(s, oh, ow);
    double sum = 0, terms = 0;
    for (int64_t h = p.first[0]; h < p.last[0]; h++)
      for (int64_t c = p.first[1]; c < p.last[1]; c++) {
        const int64_t at = (plane * s->height + h) * s->width + c;
        sum += view_get(x, at);
        terms += fabs(view_get(x, at));
        want[at] += view_get(g, i) / p.divisor;
        size[at] += fabs(view_get(g, i) / p.divisor);
      }
    near(y, i, whole ? trunc(sum / p.divisor) : sum / p.divisor, terms / fabs(p.divisor),
         adaptive ? "adaptive average" : "average");
  }
  for (int64_t i = 0; i < dx->d.numel && !whole; i++) near(dx, i, want[i], size[i], "average gradient");
  free(want), free(size);
  view_free(x), view_free(y), view_free(g), view_free(dx);
}

/* ---- the cases ---- */

static const situ_window geometries[] = {
  { .kernel = { 1, 1 }, .stride = { 1, 1 } },
  { .kernel = { 2, 2 }, .stride = { 2, 2 } },
  { .kernel = { 3, 3 }, .stride = { 2, 2 }, .padding = { 1, 1 } },
  { .kernel = { 3, 2 }, .stride = { 1, 1 }, .padding = { 1, 0 } },
  { .kernel = { 2, 5 }, .stride = { 3, 1 }, .padding = { 1, 2 } },
  { .kernel = { 4, 4 }, .stride = { 3, 3 }, .padding = { 2, 2 } },
  { .kernel = { 3, 3 }, .stride = { 2, 2 } },
  { .kernel = { 5, 7 }, .stride = { 1, 1 }, .padding = { 2, 3 } },
  { .kernel = { 2, 40 }, .stride = { 1, 3 }, .padding = { 1, 20 } }, /* far wider than the plane */
};
enum { GEOMETRIES = sizeof geometries / sizeof *geometries, AVERAGED = 6 }; /* sums of larger windows leave i8 */

static shape shape_of(int geometry, int64_t size) {
  shape s = { .images = 2, .channels = 3, .height = size, .width = size + 3, .window = geometries[geometry] };
  s.window.dilation[0] = s.window.dilation[1] = 1;
  s.out_height = windows(&s, 0);
  s.out_width = windows(&s, 1);
  return s;
}

static void maxima(void **state) {
  (void)state;
  for (int isa = -1; view_next_isa(&isa);)
    for (int i = 0; i < GEOMETRIES; i++)
      for (int64_t size = 5; size < 40; size += 9)
        for (int dtype = SITU_U8; dtype < SITU_DTYPES; dtype++)
          for (int64_t dilation = 1; dilation < 3; dilation++) {
            shape s = shape_of(i, size);
            s.window.dilation[0] = dilation, s.window.dilation[1] = 3 - dilation;
            if (windows(&s, 0) < 1 || windows(&s, 1) < 1) continue;
            s.out_height = windows(&s, 0), s.out_width = windows(&s, 1);
            test_view *x = plane_view(&s, (situ_dtype)dtype, true);
            view_random(x, (uint64_t)size, dtype == SITU_U8 ? 0 : -9, 9); /* few values: equal ones meet */
            check_max(&s, (situ_dtype)dtype, x);
            view_free(x);
          }
}

static void maxima_of_special_values(void **state) {
  (void)state;
  for (int isa = -1; view_next_isa(&isa);)
    for (int i = 0; i < GEOMETRIES; i++)
      for (int dtype = SITU_F16; dtype < SITU_DTYPES; dtype++) {
        const shape s = shape_of(i, 12);
        test_view *x = plane_view(&s, (situ_dtype)dtype, true);
        view_random(x, 3, -1, 1);
        for (int64_t at = 0; at < x->d.numel; at += 1 + at % 7) view_set(x, at, NAN);
        check_max(&s, (situ_dtype)dtype, x);
        for (int64_t at = 0; at < x->d.numel; at++) view_set(x, at, -INFINITY);
        check_max(&s, (situ_dtype)dtype, x);
        view_set(x, 50, INFINITY), view_set(x, 60, -1e30);
        check_max(&s, (situ_dtype)dtype, x);
        for (int64_t at = 0; at < x->d.numel; at++) view_set(x, at, at % 3 ? 0.0 : -0.0);
        check_max(&s, (situ_dtype)dtype, x);
        view_free(x);
      }
}

/* Vectors read nothing behind the plane: it ends where memory does. */
static void maxima_at_the_end_of_memory(void **state) {
  (void)state;
  if (test_device().kind != SITU_CPU) skip();
  const size_t wall = 1 << 16; /* at least a page */
  char *memory = mmap(NULL, 2 * wall, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(memory != MAP_FAILED);
  assert_int_equal(mprotect(memory + wall, wall, PROT_NONE), 0);
  for (int isa = -1; view_next_isa(&isa);)
    for (int i = 0; i < GEOMETRIES; i++)
      for (int64_t size = 5; size < 30; size++)
        for (int dtype = SITU_F32; dtype <= SITU_F64; dtype++) {
          shape s = shape_of(i, size);
          s.width += size % 2; /* so that both sizes are odd too: then windows of 3 reach the plane's end */
          s.out_width = windows(&s, 1);
          test_view *x = plane_view(&s, (situ_dtype)dtype, true);
          view_random(x, 1, -9, 9);
          const size_t bytes = (size_t)x->d.numel * situ_dtype_size((situ_dtype)dtype);
          test_view last = *x;
          last.d.storage = &last.storage;
          last.storage.data = memory + wall - bytes;
          memcpy(last.storage.data, x->storage.data, bytes);
          check_max(&s, (situ_dtype)dtype, &last);
          view_free(x);
        }
  assert_int_equal(munmap(memory, 2 * wall), 0);
}

/* A window whose elements are 2^31 apart, in memory that is reserved but hardly touched. */
static void maxima_far_apart(void **state) {
  (void)state;
  if (test_device().kind != SITU_CPU) skip();
  const int64_t width = 1 << 16, down = 1 << 15;
  const size_t bytes = (size_t)((down + 1) * width) * sizeof(float);
  float *x = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (x == MAP_FAILED) skip();
  const shape s = { .images = 1,
                    .channels = 1,
                    .height = down + 1,
                    .width = width,
                    .out_height = 1,
                    .out_width = width,
                    .window = { .kernel = { 2, 1 }, .stride = { 1, 1 }, .dilation = { down, 1 } } };
  test_view *y = plane_view(&s, SITU_F32, false), *index = plane_view(&s, SITU_I64, false);
  test_view large = *y;
  large.storage.data = x, large.storage.bytes = bytes, large.d.storage = &large.storage;
  large.d.size[2] = s.height, large.d.stride[0] = large.d.stride[1] = large.d.numel = s.height * width;
  x[down * width + 5] = 1;
  assert_int_equal(run(SITU_POOL_MAX, &s, &large, index, y), SITU_OK);
  for (int64_t i = 0; i < width; i++) {
    assert_true(view_get(y, i) == (i == 5));
    assert_int_equal((int64_t)view_get(index, i), i == 5 ? down * width + 5 : i);
  }
  view_free(y), view_free(index);
  assert_int_equal(munmap(x, bytes), 0);
}

static void averages(void **state) {
  (void)state;
  for (int i = 0; i < AVERAGED; i++)
    for (int64_t size = 5; size < 40; size += 9)
      for (int dtype = SITU_I8; dtype < SITU_DTYPES; dtype++)
        for (int way = 0; way < 4; way++) {
          shape s = shape_of(i, size);
          s.window.exclude_pad = way & 1;
          s.window.divisor = way == 3 ? -7 : way == 2 ? 3 : 0;
          check_avg(&s, (situ_dtype)dtype, false);
        }
}

/* ceil_mode: the last window hangs over the edge. */
static void windows_over_the_edge(void **state) {
  (void)state;
  shape s = shape_of(2, 12);
  s.height = 11, s.width = 14;
  s.out_height = windows(&s, 0) + 1, s.out_width = windows(&s, 1) + 1;
  s.window.padding[0] = s.window.padding[1] = 0;
  for (int exclude = 0; exclude < 2; exclude++) {
    s.window.exclude_pad = exclude;
    s.out_height = 6, s.out_width = 7; /* of 11 and 14, kernel 3, stride 2 */
    check_avg(&s, SITU_F32, false);
    test_view *x = plane_view(&s, SITU_F32, true);
    view_random(x, 1, -1, 1);
    check_max(&s, SITU_F32, x);
    view_free(x);
  }
}

static void adaptive_averages(void **state) {
  (void)state;
  const int64_t sizes[][4] = { { 7, 9, 1, 1 }, { 8, 8, 4, 2 }, { 7, 10, 3, 4 },
                               { 5, 3, 5, 3 }, { 3, 4, 7, 5 }, { 30, 33, 6, 7 } };
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    for (int dtype = SITU_F16; dtype < SITU_DTYPES; dtype++) {
      const shape s = { .images = 2,
                        .channels = 3,
                        .height = sizes[i][0],
                        .width = sizes[i][1],
                        .out_height = sizes[i][2],
                        .out_width = sizes[i][3] };
      check_avg(&s, (situ_dtype)dtype, true);
    }
}

static void an_index_outside_is_an_error(void **state) {
  (void)state;
  const shape s = shape_of(1, 6);
  test_view *g = plane_view(&s, SITU_F32, false), *index = plane_view(&s, SITU_I64, false),
            *dx = plane_view(&s, SITU_F32, true);
  for (int i = 0; i < 2; i++) {
    view_set(index, 3, i ? -1 : (double)(s.height * s.width));
    assert_int_equal(run(SITU_POOL_MAX_GRAD, &s, g, index, dx), SITU_E_INDEX);
    assert_int_equal(situ_error(), SITU_E_INDEX);
    situ_error_clear();
  }
  view_free(g), view_free(index), view_free(dx);
}

static void same_bits_for_any_number_of_threads(void **state) {
  (void)state;
  const int before = situ__pool_threads();
  for (int pass = SITU_POOL_MAX; pass <= SITU_POOL_ADAPTIVE_AVG_GRAD; pass++) {
    shape s = shape_of(2, 60);
    s.images = 9, s.channels = 7;
    const bool back = pass % 2;
    test_view *x = plane_view(&s, SITU_F32, true), *g = plane_view(&s, SITU_F32, false),
              *index = plane_view(&s, SITU_I64, false);
    test_view *one = plane_view(&s, SITU_F32, back), *many = plane_view(&s, SITU_F32, back);
    view_random(x, 1, -1, 1), view_random(g, 2, -1, 1);
    if (pass == SITU_POOL_MAX_GRAD) assert_int_equal(run(SITU_POOL_MAX, &s, x, index, g), SITU_OK);
    situ__pool_set_threads(1);
    assert_int_equal(run(pass, &s, back ? g : x, index, one), SITU_OK);
    for (int threads = 2; threads <= test_most_threads(); threads += 3) {
      situ__pool_set_threads(threads);
      assert_int_equal(run(pass, &s, back ? g : x, index, many), SITU_OK);
      assert_true(view_same(one, many));
    }
    view_free(x), view_free(g), view_free(index), view_free(one), view_free(many);
  }
  situ__pool_set_threads(before);
}

int main(void) {
  situ_error_mode(SITU_ERROR_QUIET);
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(maxima),
    cmocka_unit_test(maxima_of_special_values),
    cmocka_unit_test(maxima_at_the_end_of_memory),
    cmocka_unit_test(maxima_far_apart),
    cmocka_unit_test(averages),
    cmocka_unit_test(windows_over_the_edge),
    cmocka_unit_test(adaptive_averages),
    cmocka_unit_test(an_index_outside_is_an_error),
    cmocka_unit_test(same_bits_for_any_number_of_threads),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
