/* Which values of its arguments each function takes, and the sizes of what it gives: as torch 2.15
   (tools/golden/accepts_values.py), but for the departures below, each with its reason. A departure that has gone
   fails.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "situ_config.h"
#include "support/api/invoke.h"
#include "support/test.h"

#define HERE (&(situ_options){ .device = test_device() })

/* What is called for a name of the table: a function, of operands, with settings (support/api/invoke.h), and the
   argument that the value is tried for. Where nothing is said, the name is function_argument, as conv2d_stride. */
static const struct call {
  const char *names, *function, *argument, *operands, *settings;
} calls[] = {
  { "max_pool1d_channels max_pool2d_channels max_pool3d_channels", NULL, NULL, "C", ".kernel=2" },
  { "avg_pool1d_channels avg_pool2d_channels avg_pool3d_channels", NULL, NULL, "C", ".kernel=2" },
  { "adaptive_avg_pool1d adaptive_max_pool1d", NULL, "output_size", "l", "" },
  { "adaptive_avg_pool2d adaptive_max_pool2d", NULL, "output_size", "p", "" },
  { "adaptive_avg_pool3d adaptive_max_pool3d", NULL, "output_size", "u", "" },
  { "max_unpool1d_kernel_size max_unpool1d_stride max_unpool1d_padding", NULL, NULL, "13", "kernel_size=2" },
  { "max_unpool2d_kernel_size max_unpool2d_stride max_unpool2d_padding", NULL, NULL, "24", "kernel_size=2" },
  { "max_unpool3d_kernel_size max_unpool3d_stride max_unpool3d_padding", NULL, NULL, "56", "kernel_size=2" },
  { "conv2d_stride conv2d_padding conv2d_dilation", NULL, NULL, "pw", "" },
  { "unfold_kernel_size unfold_stride unfold_padding unfold_dilation", NULL, NULL, "p", "kernel_size=2" },
  { "glu_dim interpolate_size", NULL, NULL, "p", "" },
  { "margin_ranking_loss_margin", NULL, NULL, "bbb", "" },
  { "cosine_embedding_loss_margin", NULL, NULL, "aac", "" },
  { "triplet_margin_loss_margin", NULL, NULL, "aaa", "" },
  { "hinge_embedding_loss_margin huber_loss_delta smooth_l1_loss_beta", NULL, NULL, "aa", "" },
  { "narrow_start narrow_length select_index", NULL, NULL, "a", "dim=1 start=1 length=2" },
  { "one_hot_classes", NULL, "num_classes", "i", "" },
  { "tril_offset", NULL, "diagonal", "a", "" },
  { "pixel_shuffle_factor", NULL, "upscale_factor", "s", "" },
  { "pixel_unshuffle_factor", NULL, "downscale_factor", "S", "" },
  { "repeat_interleave", NULL, "repeats", "a", "dim=1" },
  { "matrix_power", "linalg_matrix_power", "n", "e", "" },
  { "eye_n randperm_n linspace_steps", NULL, NULL, "", "start=0 end=1" },
  { "hann_window_n", NULL, "window_length", "", "" },
  { "group_norm_groups", NULL, "num_groups", "g", "" },
  { "channel_shuffle_groups", NULL, NULL, "G", "" },
  { "pad_before", NULL, "pad", "a", "" },
  { "pad_reflect", NULL, "pad", "a", "mode=reflect" },
  { "multinomial_samples", NULL, "num_samples", "a", "" },
};

static const int64_t values[] = { -2, -1, 0, 1, 2, 3, 5 };
enum { VALUES = sizeof values / sizeof *values };

static situ_tensor *ones(situ_shape shape) { return situ_ones(shape, HERE); }
static situ_tensor *integers(situ_shape shape) {
  return situ_zeros(shape, &(situ_options){ .device = test_device(), .dtype = SITU_I64 });
}

/* l, p and u: lines, planes and volumes. C: such with v channels. */
static situ_tensor *operand(char letter, int dims, int64_t v) {
  switch (letter) {
  case 'a': return ones(SITU_SHAPE(3, 4));
  case 'b': return ones(SITU_SHAPE(4));
  case 'c': return ones(SITU_SHAPE(3));
  case 'i': return integers(SITU_SHAPE(3));
  case 'e': return situ_eye(2, 2, HERE);
  case 'l': return ones(SITU_SHAPE(1, 2, 8));
  case 'p': return ones(SITU_SHAPE(1, 2, 8, 8));
  case 'u': return ones(SITU_SHAPE(1, 2, 8, 8, 8));
  case 'C': return ones((situ_shape){ 2 + dims, { 1, v, 4, 4, 4 } });
  case 'w': return ones(SITU_SHAPE(2, 2, 3, 3));
  case 's': return ones(SITU_SHAPE(1, 36, 2, 2));
  case 'S': return ones(SITU_SHAPE(1, 1, 30, 30));
  case 'g': return ones(SITU_SHAPE(1, 30, 2));
  case 'G': return ones(SITU_SHAPE(1, 30, 2, 2));
  case '1': return ones(SITU_SHAPE(1, 1, 3));
  case '2': return ones(SITU_SHAPE(1, 1, 3, 3));
  case '5': return ones(SITU_SHAPE(1, 1, 3, 3, 3));
  case '3': return integers(SITU_SHAPE(1, 1, 3));
  case '4': return integers(SITU_SHAPE(1, 1, 3, 3));
  default: return integers(SITU_SHAPE(1, 1, 3, 3, 3));
  }
}

/* NULL: refused, or, without an error, unknown. */
static situ_tensor *call(const char *name, int64_t v) {
  const char *pool = strstr(name, "pool");
  const int dims = pool && pool[4] ? pool[4] - '0' : 0;
  const char *const places[] = { "a", "l", "p", "u" };
  struct call c = { name, NULL, NULL, places[dims], ".kernel=4 kernel_size=4 norm_type=2" };
  for (size_t k = 0; k < sizeof calls / sizeof *calls; k++)
    if (strstr(calls[k].names, name)) c = calls[k];
  char function[64];
  snprintf(function, sizeof function, "%s", c.function ? c.function : name);
  while (!invoke_knows(function) && strchr(function, '_')) *strrchr(function, '_') = 0;
  invoke_value value = { .name = c.argument ? c.argument : name + strlen(function) + 1, .kind = 'i', .i = v };
  if (!strcmp(value.name, "pad")) value = (invoke_value){ .name = "pad", .kind = 'l', .i = 2, .list = { v, 1 } };
  invocation call = { .functions = function, .settings = c.settings, .device = test_device(), .outs = 1 };
  call.value = &value;
  call.values = strcmp(value.name, "channels") != 0;
  for (; c.operands[call.tensors]; call.tensors++)
    call.tensor[call.tensors] = (invoke_tensor){ "", operand(c.operands[call.tensors], dims, v) };
  if (!invoke(&call)) fail_msg("%s: %s", name, call.message);
  return call.out[0];
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
  situ_scope s;
  situ_scope_begin(&s);
  situ_tensor *y = call(name, v);
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
