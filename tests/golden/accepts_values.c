/* Which values of its arguments each function takes, and the sizes of what it gives: as torch 2.15
   (tools/golden/accepts_values.py), but for the departures below, each with its reason. A departure that has gone fails.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "situ_config.h"
#include "support/test.h"

#define MEAN SITU_REDUCTION_MEAN
#define NONE ((situ_shape){ 0 })
#define HERE (&(situ_options){ .device = test_device() })

/* clang-format off */
/* l, p and u: lines, planes and volumes [1, 2, 8 ...]; a: [3, 4], b: [4], all ones. v is the value that is tried. */
#define CALLS(_) \
  _(max_pool1d_kernel_size, situ_max_pool1d(l, &(situ_pool_options){ .kernel = SITU_DIMS(v) }, NULL)) \
  _(avg_pool1d_kernel_size, situ_avg_pool1d(l, &(situ_pool_options){ .kernel = SITU_DIMS(v) })) \
  _(max_pool1d_stride, situ_max_pool1d(l, &(situ_pool_options){ .kernel = SITU_DIMS(4), .stride = SITU_DIMS(v) }, NULL)) \
  _(avg_pool1d_stride, situ_avg_pool1d(l, &(situ_pool_options){ .kernel = SITU_DIMS(4), .stride = SITU_DIMS(v) })) \
  _(max_pool1d_padding, situ_max_pool1d(l, &(situ_pool_options){ .kernel = SITU_DIMS(4), .padding = SITU_DIMS(v) }, NULL)) \
  _(avg_pool1d_padding, situ_avg_pool1d(l, &(situ_pool_options){ .kernel = SITU_DIMS(4), .padding = SITU_DIMS(v) })) \
  _(max_pool1d_dilation, situ_max_pool1d(l, &(situ_pool_options){ .kernel = SITU_DIMS(4), .dilation = SITU_DIMS(v) }, NULL)) \
  _(adaptive_avg_pool1d, situ_adaptive_avg_pool1d(l, v)) \
  _(adaptive_max_pool1d, situ_adaptive_max_pool1d(l, v, NULL)) \
  _(max_unpool1d_kernel_size, situ_max_unpool1d(ones(SITU_SHAPE(1, 1, 3)), whole(SITU_SHAPE(1, 1, 3)), SITU_DIMS(v), NONE, NONE, NONE)) \
  _(max_unpool1d_stride, situ_max_unpool1d(ones(SITU_SHAPE(1, 1, 3)), whole(SITU_SHAPE(1, 1, 3)), SITU_DIMS(2), SITU_DIMS(v), NONE, NONE)) \
  _(max_unpool1d_padding, situ_max_unpool1d(ones(SITU_SHAPE(1, 1, 3)), whole(SITU_SHAPE(1, 1, 3)), SITU_DIMS(2), NONE, SITU_DIMS(v), NONE)) \
  _(lp_pool1d_stride, situ_lp_pool1d(l, 2, SITU_DIMS(4), SITU_DIMS(v), false)) \
  _(max_pool1d_channels, situ_max_pool1d(ones(SITU_SHAPE(1, v, 4)), &(situ_pool_options){ .kernel = SITU_DIMS(2) }, NULL)) \
  _(avg_pool1d_channels, situ_avg_pool1d(ones(SITU_SHAPE(1, v, 4)), &(situ_pool_options){ .kernel = SITU_DIMS(2) })) \
  _(max_pool2d_kernel_size, situ_max_pool2d(p, &(situ_pool_options){ .kernel = SITU_DIMS(v) }, NULL)) \
  _(avg_pool2d_kernel_size, situ_avg_pool2d(p, &(situ_pool_options){ .kernel = SITU_DIMS(v) })) \
  _(max_pool2d_stride, situ_max_pool2d(p, &(situ_pool_options){ .kernel = SITU_DIMS(4), .stride = SITU_DIMS(v) }, NULL)) \
  _(avg_pool2d_stride, situ_avg_pool2d(p, &(situ_pool_options){ .kernel = SITU_DIMS(4), .stride = SITU_DIMS(v) })) \
  _(max_pool2d_padding, situ_max_pool2d(p, &(situ_pool_options){ .kernel = SITU_DIMS(4), .padding = SITU_DIMS(v) }, NULL)) \
  _(avg_pool2d_padding, situ_avg_pool2d(p, &(situ_pool_options){ .kernel = SITU_DIMS(4), .padding = SITU_DIMS(v) })) \
  _(max_pool2d_dilation, situ_max_pool2d(p, &(situ_pool_options){ .kernel = SITU_DIMS(4), .dilation = SITU_DIMS(v) }, NULL)) \
  _(adaptive_avg_pool2d, situ_adaptive_avg_pool2d(p, SITU_DIMS(v))) \
  _(adaptive_max_pool2d, situ_adaptive_max_pool2d(p, SITU_DIMS(v), NULL)) \
  _(max_unpool2d_kernel_size, situ_max_unpool2d(ones(SITU_SHAPE(1, 1, 3, 3)), whole(SITU_SHAPE(1, 1, 3, 3)), SITU_DIMS(v), NONE, NONE, NONE)) \
  _(max_unpool2d_stride, situ_max_unpool2d(ones(SITU_SHAPE(1, 1, 3, 3)), whole(SITU_SHAPE(1, 1, 3, 3)), SITU_DIMS(2), SITU_DIMS(v), NONE, NONE)) \
  _(max_unpool2d_padding, situ_max_unpool2d(ones(SITU_SHAPE(1, 1, 3, 3)), whole(SITU_SHAPE(1, 1, 3, 3)), SITU_DIMS(2), NONE, SITU_DIMS(v), NONE)) \
  _(lp_pool2d_stride, situ_lp_pool2d(p, 2, SITU_DIMS(4), SITU_DIMS(v), false)) \
  _(max_pool2d_channels, situ_max_pool2d(ones(SITU_SHAPE(1, v, 4, 4)), &(situ_pool_options){ .kernel = SITU_DIMS(2) }, NULL)) \
  _(avg_pool2d_channels, situ_avg_pool2d(ones(SITU_SHAPE(1, v, 4, 4)), &(situ_pool_options){ .kernel = SITU_DIMS(2) })) \
  _(max_pool3d_kernel_size, situ_max_pool3d(u, &(situ_pool_options){ .kernel = SITU_DIMS(v) }, NULL)) \
  _(avg_pool3d_kernel_size, situ_avg_pool3d(u, &(situ_pool_options){ .kernel = SITU_DIMS(v) })) \
  _(max_pool3d_stride, situ_max_pool3d(u, &(situ_pool_options){ .kernel = SITU_DIMS(4), .stride = SITU_DIMS(v) }, NULL)) \
  _(avg_pool3d_stride, situ_avg_pool3d(u, &(situ_pool_options){ .kernel = SITU_DIMS(4), .stride = SITU_DIMS(v) })) \
  _(max_pool3d_padding, situ_max_pool3d(u, &(situ_pool_options){ .kernel = SITU_DIMS(4), .padding = SITU_DIMS(v) }, NULL)) \
  _(avg_pool3d_padding, situ_avg_pool3d(u, &(situ_pool_options){ .kernel = SITU_DIMS(4), .padding = SITU_DIMS(v) })) \
  _(max_pool3d_dilation, situ_max_pool3d(u, &(situ_pool_options){ .kernel = SITU_DIMS(4), .dilation = SITU_DIMS(v) }, NULL)) \
  _(adaptive_avg_pool3d, situ_adaptive_avg_pool3d(u, SITU_DIMS(v))) \
  _(adaptive_max_pool3d, situ_adaptive_max_pool3d(u, SITU_DIMS(v), NULL)) \
  _(max_unpool3d_kernel_size, situ_max_unpool3d(ones(SITU_SHAPE(1, 1, 3, 3, 3)), whole(SITU_SHAPE(1, 1, 3, 3, 3)), SITU_DIMS(v), NONE, NONE, NONE)) \
  _(max_unpool3d_stride, situ_max_unpool3d(ones(SITU_SHAPE(1, 1, 3, 3, 3)), whole(SITU_SHAPE(1, 1, 3, 3, 3)), SITU_DIMS(2), SITU_DIMS(v), NONE, NONE)) \
  _(max_unpool3d_padding, situ_max_unpool3d(ones(SITU_SHAPE(1, 1, 3, 3, 3)), whole(SITU_SHAPE(1, 1, 3, 3, 3)), SITU_DIMS(2), NONE, SITU_DIMS(v), NONE)) \
  _(lp_pool3d_stride, situ_lp_pool3d(u, 2, SITU_DIMS(4), SITU_DIMS(v), false)) \
  _(max_pool3d_channels, situ_max_pool3d(ones(SITU_SHAPE(1, v, 4, 4, 4)), &(situ_pool_options){ .kernel = SITU_DIMS(2) }, NULL)) \
  _(avg_pool3d_channels, situ_avg_pool3d(ones(SITU_SHAPE(1, v, 4, 4, 4)), &(situ_pool_options){ .kernel = SITU_DIMS(2) })) \
  _(conv2d_stride, situ_conv2d(p, ones(SITU_SHAPE(2, 2, 3, 3)), NULL, &(situ_conv_options){ .stride = SITU_DIMS(v) })) \
  _(conv2d_padding, situ_conv2d(p, ones(SITU_SHAPE(2, 2, 3, 3)), NULL, &(situ_conv_options){ .padding = SITU_DIMS(v) })) \
  _(conv2d_dilation, situ_conv2d(p, ones(SITU_SHAPE(2, 2, 3, 3)), NULL, &(situ_conv_options){ .dilation = SITU_DIMS(v) })) \
  _(unfold_kernel_size, situ_unfold(p, SITU_DIMS(v), NULL)) \
  _(unfold_stride, situ_unfold(p, SITU_DIMS(2), &(situ_unfold_options){ .stride = SITU_DIMS(v) })) \
  _(unfold_padding, situ_unfold(p, SITU_DIMS(2), &(situ_unfold_options){ .padding = SITU_DIMS(v) })) \
  _(unfold_dilation, situ_unfold(p, SITU_DIMS(2), &(situ_unfold_options){ .dilation = SITU_DIMS(v) })) \
  _(margin_ranking_loss_margin, situ_margin_ranking_loss(b, b, b, (double)v, MEAN)) \
  _(cosine_embedding_loss_margin, situ_cosine_embedding_loss(a, a, ones(SITU_SHAPE(3)), (double)v, MEAN)) \
  _(hinge_embedding_loss_margin, situ_hinge_embedding_loss(a, a, (double)v, MEAN)) \
  _(triplet_margin_loss_margin, situ_triplet_margin_loss(a, a, a, OPTIONS_AT(situ_triplet_margin, with.margin = (double)v))) \
  _(huber_loss_delta, situ_huber_loss(a, a, (double)v, MEAN)) \
  _(smooth_l1_loss_beta, situ_smooth_l1_loss(a, a, (double)v, MEAN)) _(glu_dim, situ_glu(p, (int)v)) \
  _(softmax_dim, situ_softmax(a, (int)v)) _(cumsum_dim, situ_cumsum(a, (int)v)) \
  _(topk_k, situ_topk(a, v, -1, true, NULL)) _(unsqueeze_dim, situ_unsqueeze(a, (int)v)) \
  _(narrow_start, situ_narrow(a, 1, v, 2)) _(narrow_length, situ_narrow(a, 1, 1, v)) \
  _(select_index, situ_select(a, 1, v)) _(one_hot_classes, situ_one_hot(whole(SITU_SHAPE(3)), v)) \
  _(diagonal_offset, situ_diagonal(a, v, 0, 1)) _(tril_offset, situ_tril(a, v)) \
  _(dropout_p, situ_dropout(a, (double)v, true, NULL)) \
  _(pixel_shuffle_factor, situ_pixel_shuffle(ones(SITU_SHAPE(1, 36, 2, 2)), v)) \
  _(pixel_unshuffle_factor, situ_pixel_unshuffle(ones(SITU_SHAPE(1, 1, 30, 30)), v)) \
  _(interpolate_size, situ_interpolate(p, &(situ_interpolate_options){ .size = SITU_DIMS(v) })) \
  _(repeat_interleave, situ_repeat_interleave(a, v, SITU_DIMS(1))) \
  _(matrix_power, situ_linalg_matrix_power(situ_eye(2, 2, HERE), v)) _(polygamma_n, situ_polygamma(v, a)) \
  _(eye_n, situ_eye(v, v, HERE)) _(linspace_steps, situ_linspace(0, 1, v, HERE)) \
  _(randperm_n, situ_randperm(v, HERE)) _(hann_window_n, situ_hann_window(v, true, HERE)) \
  _(group_norm_groups, situ_group_norm(ones(SITU_SHAPE(1, 30, 2)), v, NULL, NULL, 1e-5)) \
  _(channel_shuffle_groups, situ_channel_shuffle(ones(SITU_SHAPE(1, 30, 2, 2)), v)) \
  _(pad_before, situ_pad(a, SITU_SHAPE(v, 1), SITU_PAD_CONSTANT, 0)) \
  _(pad_reflect, situ_pad(a, SITU_SHAPE(v, 1), SITU_PAD_REFLECT, 0)) \
  _(multinomial_samples, situ_multinomial(a, v, false, NULL))
/* clang-format on */

static const int64_t values[] = { -2, -1, 0, 1, 2, 3, 5 };
enum { VALUES = sizeof values / sizeof *values };

static situ_tensor *ones(situ_shape shape) { return situ_ones(shape, HERE); }
static situ_tensor *whole(situ_shape shape) {
  return situ_zeros(shape, &(situ_options){ .device = test_device(), .dtype = SITU_I64 });
}

/* NULL: refused, or, without an error, unknown. */
static situ_tensor *call(const char *name, int64_t v, bool *known) {
  situ_tensor *l = ones(SITU_SHAPE(1, 2, 8)), *p = ones(SITU_SHAPE(1, 2, 8, 8)), *u = ones(SITU_SHAPE(1, 2, 8, 8, 8)),
              *a = ones(SITU_SHAPE(3, 4)), *b = ones(SITU_SHAPE(4));
  *known = true;
#define CALL(id, expression) \
  if (!strcmp(name, #id)) return expression;
  CALLS(CALL)
  *known = false;
  return NULL;
}

/* Calls (in words), a value, and what situ gives for it. */
static const struct departure {
  const char *names;
  int64_t value;
  const char *gives, *why;
} departures[] = {
#define EMPTY \
  "torch refuses in three dimensions, and computes in one and two: windows that do not move are refused in all"
  { "max_unpool1d_kernel_size max_unpool2d_kernel_size", 0, "-", EMPTY },
  { "max_unpool1d_stride max_unpool2d_stride", -1, "-", EMPTY },
  { "max_unpool1d_stride max_unpool2d_stride", 0, "-", EMPTY },
#define NEGATIVE "a padding below 0, and a result of 0 elements, is not one of max pooling"
  { "max_unpool1d_padding max_unpool2d_padding max_unpool3d_padding", -2, "-", NEGATIVE },
  { "max_unpool1d_padding max_unpool2d_padding max_unpool3d_padding", -1, "-", NEGATIVE },
  { "max_unpool1d_padding max_unpool2d_padding max_unpool3d_padding", 3, "-", NEGATIVE },
};

static const struct departure *departure_for(const char *name, int64_t value) {
  for (size_t k = 0; k < sizeof departures / sizeof *departures; k++)
    if (departures[k].value == value && strstr(departures[k].names, name)) return &departures[k];
  return NULL;
}

static int check(const char *name, int64_t v, const char *want) {
  char got[64] = "-";
  bool known;
  situ_scope s;
  situ_scope_begin(&s);
  situ_tensor *y = call(name, v, &known);
  if (!known) fail_msg("%s is in the table, but not in the test", name);
  if (y && !situ_dim(y)) strcpy(got, ".");
  for (int d = 0, at = 0; y && d < situ_dim(y); d++)
    at += snprintf(got + at, sizeof got - (size_t)at, d ? "x%lld" : "%lld", (long long)situ_size(y, d));
  const struct departure *d = departure_for(name, v);
  const bool good = !strcmp(got, d ? d->gives : want) && !(d && !strcmp(want, d->gives)) && (y || situ_error());
  if (!good)
    print_error("%s, v = %lld: %s, %s has %s; torch %s: %s\n", name, (long long)v, got, d ? "the departure" : "torch",
                d ? d->gives : want, want, y ? "" : situ_error_message());
  situ_error_clear();
  SITU_IGNORE(situ_scope_end(&s));
  situ_error_clear();
  return !good;
}

static void values_are_taken_as_in_torch(void **state) {
  (void)state;
  char path[1024], line[512];
  const char *root = getenv("SITU_TEST_ROOT");
  snprintf(path, sizeof path, "%s/golden/data/accepts_values.txt", root ? root : "tests");
  FILE *file = fopen(path, "r");
  if (!file) fail_msg("%s is not there", path);
  int wrong = 0, lines = 0;
  while (fgets(line, sizeof line, file)) {
    if (*line == '#') continue;
    char *cells = strchr(line, ':'), *at = NULL;
    if (!cells) fail_msg("not a line of the table: %s", line);
    *cells++ = 0;
#ifndef SITU_HAVE_LAPACK
    if (!strcmp(line, "matrix_power")) continue; /* needs an inverse */
#endif
    int k = 0;
    for (char *cell = strtok_r(cells, " \n", &at); cell && k < VALUES; cell = strtok_r(NULL, " \n", &at))
      wrong += check(line, values[k++], cell);
    assert_int_equal(k, VALUES);
    lines++;
  }
  fclose(file);
  assert_in_range(lines, 80, 1000);
  assert_int_equal(wrong, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(values_are_taken_as_in_torch) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
