/* Layer, RMS and batch norm and their gradients against plain loops in f64.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu opencl:0 */
/* test-listed: yes */
/* test-slow: cuda:0/double */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/pool.h"
#include "support/test.h"
#include "support/verbs/views.h"

static const double eps = 1e-5;

static situ_dtype statistics(int dtype) { return dtype == SITU_F64 ? SITU_F64 : SITU_F32; }

/* size: what rounding errors are measured by, before the result is rounded to its dtype. */
static void near(const test_view *v, int64_t i, double want, double size, const char *what) {
  double got = view_get(v, i), unit_of_compute = v->d.dtype == SITU_F64 ? 0x1p-53 : 0x1p-24;
  double allowed =
      40 * unit_of_compute * size + view_unit(v->d.dtype) * fabs(want) * 1.01 + (v->d.dtype == SITU_F16) * 0x1p-24;
  if (!(fabs(got - want) <= allowed))
    fail_msg("%s of %s: element %lld is %.17g, want %.17g, allowed error %g", what,
             situ_dtype_name((situ_dtype)v->d.dtype), (long long)i, got, want, allowed);
}

static test_view *random_askew(int dtype, situ_shape shape, int64_t askew, uint64_t seed, double low, double high) {
  test_view *v = view_askew((situ_dtype)dtype, shape, askew);
  view_random(v, seed, low, high);
  return v;
}
static test_view *random_view(int dtype, situ_shape shape, uint64_t seed, double low, double high) {
  return random_askew(dtype, shape, 0, seed, low, high);
}
static situ_view_desc *desc(test_view *v) { return v ? &v->d : NULL; }
static double weight_at(const test_view *w, int64_t i, double otherwise) { return w ? view_get(w, i) : otherwise; }

/* OpenCL, in CI, is a processor that compiles each dtype's kernels: one dtype is enough to show its way. */
static bool left_out(int dtype) { return test_device().kind == SITU_OPENCL && dtype != SITU_F32; }

/* ---- rows ---- */

typedef struct row_case {
  int dtype, weight_dtype;
  int64_t rows, width;
  bool centred, weight, bias;
  int64_t askew;
} row_case;

static void check_rows(row_case k) {
  situ_shape shape = SITU_SHAPE(k.rows, k.width), vector = SITU_SHAPE(k.width), column = SITU_SHAPE(k.rows);
  test_view *x = random_askew(k.dtype, shape, k.askew, 1, -1, 3),
            *g = random_askew(k.dtype, shape, k.askew == 3 ? 1 : k.askew, 2, -1, 1),
            *w = k.weight ? random_askew(k.weight_dtype, vector, k.askew / 2, 3, 0.5, 2) : NULL;
  test_view *b = k.bias ? random_view(k.weight_dtype, vector, 4, -1, 1) : NULL,
            *y = view_new((situ_dtype)k.dtype, shape, VIEW_ROWS), *dx = view_new((situ_dtype)k.dtype, shape, VIEW_ROWS);
  test_view *mean = k.centred ? view_new(statistics(k.dtype), column, VIEW_ROWS) : NULL,
            *rstd = view_new(statistics(k.dtype), column, VIEW_ROWS);
  test_view *dw = k.weight ? view_new((situ_dtype)k.weight_dtype, vector, VIEW_ROWS) : NULL,
            *db = k.bias ? view_new((situ_dtype)k.weight_dtype, vector, VIEW_ROWS) : NULL;
  situ_work there = { .verb = SITU_VERB_NORM,
                      .op = k.centred ? SITU_LAYER_NORM : SITU_RMS_NORM,
                      .ins = 3,
                      .outs = k.centred ? 3 : 2,
                      .in = { &x->d, desc(w), desc(b) },
                      .out = { &y->d, k.centred ? &mean->d : &rstd->d, k.centred ? &rstd->d : NULL },
                      .scalar = { eps } };
  assert_int_equal(view_run(SITU_VERB_NORM, &there), SITU_OK);
  situ_work back = { .verb = SITU_VERB_NORM,
                     .op = k.centred ? SITU_LAYER_NORM_GRAD : SITU_RMS_NORM_GRAD,
                     .ins = 5,
                     .outs = 3,
                     .in = { &g->d, &x->d },
                     .out = { &dx->d, desc(dw), desc(db) } };
  int n = 2;
  if (k.centred) back.in[n++] = &mean->d;
  back.in[n++] = &rstd->d;
  back.in[n] = desc(w);
  assert_int_equal(view_run(SITU_VERB_NORM, &back), SITU_OK);

  double *sum_w = calloc((size_t)k.width, sizeof(double)), *sum_b = calloc((size_t)k.width, sizeof(double)),
         *size_w = calloc((size_t)k.width, sizeof(double)), width = (double)k.width;
  for (int64_t r = 0; r < k.rows; r++) {
    double m = 0, var = 0, v1 = 0, v2 = 0, size = 0;
    for (int64_t i = 0; i < k.width; i++) m += k.centred ? view_get(x, r * k.width + i) / width : 0;
    for (int64_t i = 0; i < k.width; i++) var += pow(view_get(x, r * k.width + i) - m, 2) / width;
    double rs = 1 / sqrt(var + eps);
    for (int64_t i = 0; i < k.width; i++) {
      double h = (view_get(x, r * k.width + i) - m) * rs, gi = view_get(g, r * k.width + i),
             v = gi * weight_at(w, i, 1);
      v1 += v, v2 += v * h, size += fabs(v) + fabs(v * h);
      sum_w[i] += gi * h, sum_b[i] += gi, size_w[i] += fabs(gi * h) + fabs(gi) * (1 + fabs(m)) * rs;
    }
    for (int64_t i = 0; i < k.width; i++) {
      double h = (view_get(x, r * k.width + i) - m) * rs, v = view_get(g, r * k.width + i) * weight_at(w, i, 1),
             wi = weight_at(w, i, 1), bi = weight_at(b, i, 0);
      near(y, r * k.width + i, h * wi + bi, (fabs(h) + (1 + fabs(m)) * rs) * fabs(wi) + fabs(bi), "norm");
      double want = rs * (v - (k.centred ? v1 / width : 0) - h * v2 / width);
      near(dx, r * k.width + i, want, rs * (fabs(v) + size / width * (1 + fabs(h))) * (1 + rs), "gradient");
    }
    if (k.centred) near(mean, r, m, 1 + fabs(m), "mean");
    near(rstd, r, rs, rs * (1 + rs), "rstd");
  }
  for (int64_t i = 0; i < k.width; i++) {
    if (dw) near(dw, i, sum_w[i], size_w[i], "weight's gradient");
    if (db) near(db, i, sum_b[i], size_w[i], "bias's gradient");
  }
  free(sum_w), free(sum_b), free(size_w);
  view_free(x), view_free(g), view_free(w), view_free(b), view_free(y), view_free(dx), view_free(mean), view_free(rstd),
      view_free(dw), view_free(db);
}

static void layer_and_rms_norm(void **state) {
  (void)state;
  const int64_t sizes[][2] = { { 1, 1 }, { 3, 2 }, { 5, 17 }, { 40, 100 }, { 3, 5000 }, { 3000, 8 } };
  for (int s = 0; s < 6; s++)
    for (int dtype = SITU_F16; dtype < SITU_DTYPES; dtype++)
      for (int given = 0; given < 8; given++) {
        if (left_out(dtype)) continue;
        row_case k = { .dtype = dtype,
                       .weight_dtype = dtype,
                       .rows = sizes[s][0],
                       .width = sizes[s][1],
                       .centred = given & 1,
                       .weight = given & 2,
                       .bias = given & 4 };
        if (k.bias && !k.centred) continue;
        check_rows(k);
        if (dtype < SITU_F32) k.weight_dtype = SITU_F32, check_rows(k);
      }
}

/* Widths around those at which a gpu changes its way, rows that do not begin where memory is aligned, many rows. */
static void rows_of_any_width(void **state) {
  (void)state;
  const int64_t sizes[][2] = { { 40, 1 },   { 40, 3 },   { 33, 4 },   { 33, 7 },   { 9, 8 },    { 9, 9 },
                               { 70, 16 },  { 70, 17 },  { 5, 31 },   { 5, 33 },   { 3, 255 },  { 300, 256 },
                               { 600, 65 }, { 2, 1017 }, { 2, 1023 }, { 2, 1024 }, { 2, 1025 }, { 2, 8185 },
                               { 2, 8191 }, { 2, 8192 }, { 2, 8193 }, { 2, 12289 } };
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
    for (int dtype = SITU_BF16; dtype < SITU_DTYPES; dtype++)
      for (int64_t askew = 0; askew < 8; askew += sizes[s][0] * sizes[s][1] < 500 ? 1 : 3) {
        if (test_device().kind != SITU_CUDA && (askew > 1 || dtype != SITU_F32)) continue;
        const bool even = askew % 2 == 0;
        check_rows((row_case){ dtype, even && dtype < SITU_F32 ? SITU_F32 : dtype, sizes[s][0], sizes[s][1],
                               dtype == SITU_F64 ? even : askew % 3 != 1, true,
                               even && (dtype == SITU_F64 ? even : askew % 3 != 1), askew });
      }
}

/* ---- channels ---- */

typedef struct channel_case {
  int dtype;
  int64_t n, c, s;
  bool training, weight, running;
} channel_case;

static void check_channels(channel_case k) {
  situ_shape shape = SITU_SHAPE(k.n, k.c, k.s), vector = SITU_SHAPE(k.c);
  int stats = statistics(k.dtype);
  test_view *x = random_view(k.dtype, shape, 1, -1, 3), *g = random_view(k.dtype, shape, 2, -1, 1),
            *w = k.weight ? random_view(k.dtype, vector, 3, 0.5, 2) : NULL,
            *b = k.weight ? random_view(k.dtype, vector, 4, -1, 1) : NULL;
  test_view *running_mean = k.running ? random_view(SITU_F32, vector, 5, -1, 1) : NULL,
            *running_var = k.running ? random_view(SITU_F32, vector, 6, 0.5, 2) : NULL;
  test_view *old_mean = k.running ? random_view(SITU_F32, vector, 5, -1, 1) : NULL,
            *old_var = k.running ? random_view(SITU_F32, vector, 6, 0.5, 2) : NULL;
  test_view *y = view_new((situ_dtype)k.dtype, shape, VIEW_ROWS), *dx = view_new((situ_dtype)k.dtype, shape, VIEW_ROWS),
            *mean = view_new((situ_dtype)stats, vector, VIEW_ROWS),
            *rstd = view_new((situ_dtype)stats, vector, VIEW_ROWS);
  test_view *dw = view_new((situ_dtype)k.dtype, vector, VIEW_ROWS),
            *db = view_new((situ_dtype)k.dtype, vector, VIEW_ROWS);
  bool update = k.training && k.running;
  situ_work there = { .verb = SITU_VERB_BATCH_NORM,
                      .op = SITU_BATCH_NORM,
                      .ins = 5,
                      .outs = 5,
                      .in = { &x->d, desc(w), desc(b), desc(running_mean), desc(running_var) },
                      .out = { &y->d, &mean->d, &rstd->d, update ? &running_mean->d : NULL,
                               update ? &running_var->d : NULL },
                      .scalar = { eps, 0.25 },
                      .integer = { k.training } };
  assert_int_equal(view_run(SITU_VERB_BATCH_NORM, &there), SITU_OK);
  situ_work back = { .verb = SITU_VERB_BATCH_NORM,
                     .op = SITU_BATCH_NORM_GRAD,
                     .ins = 5,
                     .outs = 3,
                     .in = { &g->d, &x->d, &mean->d, &rstd->d, desc(w) },
                     .out = { &dx->d, &dw->d, &db->d },
                     .scalar = { eps },
                     .integer = { k.training } };
  assert_int_equal(view_run(SITU_VERB_BATCH_NORM, &back), SITU_OK);

  double count = (double)(k.n * k.s);
  for (int64_t c = 0; c < k.c; c++) {
    double m, squares = 0, sum = 0, dot = 0, size = 0;
    long double all = 0;
    for (int64_t n = 0; n < k.n; n++)
      for (int64_t s = 0; s < k.s; s++) all += view_get(x, (n * k.c + c) * k.s + s);
    m = (double)(all / count);
    for (int64_t n = 0; n < k.n; n++)
      for (int64_t s = 0; s < k.s; s++) squares += pow(view_get(x, (n * k.c + c) * k.s + s) - m, 2);
    double batch_mean = m, var = k.training ? squares / count : view_get(old_var, c), rs = 1 / sqrt(var + eps);
    if (!k.training) m = view_get(old_mean, c);
    for (int64_t n = 0; n < k.n; n++)
      for (int64_t s = 0; s < k.s; s++) {
        double gi = view_get(g, (n * k.c + c) * k.s + s), h = (view_get(x, (n * k.c + c) * k.s + s) - m) * rs;
        sum += gi, dot += gi * h, size += fabs(gi) + fabs(gi * h) + fabs(gi) * (1 + fabs(m)) * rs;
      }
    for (int64_t n = 0; n < k.n; n++)
      for (int64_t s = 0; s < k.s; s++) {
        int64_t i = (n * k.c + c) * k.s + s;
        double h = (view_get(x, i) - m) * rs, gi = view_get(g, i), wi = weight_at(w, c, 1), bi = weight_at(b, c, 0);
        near(y, i, h * wi + bi, (fabs(h) + (1 + fabs(m)) * rs) * fabs(wi) + fabs(bi), "batch norm");
        double want = rs * wi * (gi - (k.training ? sum / count + h * dot / count : 0));
        near(dx, i, want, rs * fabs(wi) * (fabs(gi) + size / count * (1 + fabs(h))) * (1 + rs), "gradient");
      }
    near(dw, c, dot, size, "weight's gradient");
    near(db, c, sum, size, "bias's gradient");
    near(mean, c, m, 1 + fabs(m), "mean");
    near(rstd, c, rs, rs * (1 + rs), "rstd");
    if (update) {
      near(running_mean, c, 0.75 * view_get(old_mean, c) + 0.25 * batch_mean, 2, "running mean");
      near(running_var, c, 0.75 * view_get(old_var, c) + 0.25 * squares / (count - 1), 4, "running var");
    } else if (k.running) {
      assert_true(view_same(running_mean, old_mean) && view_same(running_var, old_var));
    }
  }
  view_free(x), view_free(g), view_free(w), view_free(b), view_free(running_mean), view_free(running_var),
      view_free(old_mean), view_free(old_var);
  view_free(y), view_free(dx), view_free(mean), view_free(rstd), view_free(dw), view_free(db);
}

static void batch_norm(void **state) {
  (void)state;
  if (test_device().kind == SITU_CUDA) return; /* its double takes minutes: ops/parity has it */
  const int64_t sizes[][3] = { { 2, 1, 1 },    { 2, 3, 1 },    { 70, 30, 1 },  { 4, 3, 2 },    { 6, 5, 49 },
                               { 3, 2, 5000 }, { 900, 3, 40 }, { 5, 3000, 1 }, { 700, 2, 200 } };
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
    for (int dtype = SITU_F16; dtype < SITU_DTYPES; dtype++)
      for (int given = 0; given < 8; given++) {
        if (left_out(dtype)) continue;
        channel_case k = { dtype, sizes[s][0], sizes[s][1], sizes[s][2], given & 1, given & 2, given & 4 };
        if (k.training || k.running) check_channels(k);
      }
}

static void same_bits_for_any_number_of_threads(void **state) {
  (void)state;
  const int before = situ__pool_threads(),
            most = test_device().kind == SITU_CPU ? 8 : 2; /* elsewhere it is only done again */
  situ_shape shape = SITU_SHAPE(500, 300), vector = SITU_SHAPE(300), column = SITU_SHAPE(500);
  test_view *x = random_view(SITU_F32, shape, 1, -1, 1), *g = random_view(SITU_F32, shape, 2, -1, 1),
            *mean = view_new(SITU_F32, column, VIEW_ROWS), *rstd = random_view(SITU_F32, column, 3, 1, 2);
  test_view *dx[2], *dw[2], *db[2];
  for (int k = 0; k < 2; k++)
    dx[k] = view_new(SITU_F32, shape, VIEW_ROWS), dw[k] = view_new(SITU_F32, vector, VIEW_ROWS),
    db[k] = view_new(SITU_F32, vector, VIEW_ROWS);
  for (int threads = 1; threads <= most; threads++) {
    int k = threads > 1;
    situ__pool_set_threads(threads);
    situ_work work = { .verb = SITU_VERB_NORM,
                       .op = SITU_LAYER_NORM_GRAD,
                       .ins = 5,
                       .outs = 3,
                       .in = { &g->d, &x->d, &mean->d, &rstd->d },
                       .out = { &dx[k]->d, &dw[k]->d, &db[k]->d } };
    assert_int_equal(view_run(SITU_VERB_NORM, &work), SITU_OK);
    if (k) assert_true(view_same(dx[0], dx[1]) && view_same(dw[0], dw[1]) && view_same(db[0], db[1]));
  }
  situ__pool_set_threads(before);
  for (int k = 0; k < 2; k++) view_free(dx[k]), view_free(dw[k]), view_free(db[k]);
  view_free(x), view_free(g), view_free(mean), view_free(rstd);
}

/* Parameters of no rows have a gradient of 0; a batch of nothing has no statistics. */
static void nothing_to_normalise(void **state) {
  (void)state;
  test_view *x = view_new(SITU_F32, SITU_SHAPE(0, 4), VIEW_ROWS), *stat = view_new(SITU_F32, SITU_SHAPE(0), VIEW_ROWS),
            *dw = random_view(SITU_F32, SITU_SHAPE(4), 1, 1, 2);
  situ_work work = { .verb = SITU_VERB_NORM,
                     .op = SITU_LAYER_NORM_GRAD,
                     .ins = 5,
                     .outs = 3,
                     .in = { &x->d, &x->d, &stat->d, &stat->d },
                     .out = { NULL, &dw->d } };
  assert_int_equal(view_run(SITU_VERB_NORM, &work), SITU_OK);
  for (int i = 0; i < 4; i++) assert_true(view_get(dw, i) == 0);
  test_view *batch = view_new(SITU_F32, SITU_SHAPE(0, 4, 3), VIEW_ROWS),
            *mean = view_new(SITU_F32, SITU_SHAPE(4), VIEW_ROWS);
  situ_work none = { .verb = SITU_VERB_BATCH_NORM,
                     .op = SITU_BATCH_NORM,
                     .ins = 5,
                     .outs = 5,
                     .in = { &batch->d },
                     .out = { &batch->d, &mean->d, &mean->d },
                     .integer = { 1 } };
  assert_int_equal(view_run(SITU_VERB_BATCH_NORM, &none), SITU_E_ARG);
  situ_error_clear();
  view_free(x), view_free(stat), view_free(dw), view_free(batch), view_free(mean);
}

int main(void) {
  situ_error_mode(SITU_ERROR_QUIET);
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(layer_and_rms_norm),   cmocka_unit_test(rows_of_any_width),
    cmocka_unit_test(batch_norm),           cmocka_unit_test(same_bits_for_any_number_of_threads),
    cmocka_unit_test(nothing_to_normalise),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
