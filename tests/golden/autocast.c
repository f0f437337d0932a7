/* The dtype of each op's result outside of autocast and in it, as torch 2.15 has it: on cpu by its CPU rules, elsewhere
   by its CUDA rules (tools/golden/autocast.py). And so is each gradient its operand's.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 */
#include <stdio.h>
#include <string.h>

#include "situ/amp.h"
#include "support/golden/run.h"
#include "support/test.h"

/* Settings of every call (support/api/invoke.h). */
#define ALL                                                                                                       \
  "min=0 max=1 other=1.5 exponent=1.5 base=1.5 dim=0 dim0=0 dim1=1 num_groups=1 pad=1,1 .kernel=2 kernel_size=2 " \
  "output_size=1 stride=2 norm_type=2 normalized_shape=2 size=2 .size=3"

/* Where the name is not that of the function, or there are further settings. */
static const struct special {
  const char *name, *function, *settings;
} specials[] = {
  { "affine_grid", "affine_grid", "size=1,1,2,2" },
  { "attention", "scaled_dot_product_attention", "" },
  { "cross_entropy_probabilities", "cross_entropy", "" },
  { "cross_entropy_weight", "cross_entropy", "weight:2" },
  { "logsumexp", "logsumexp", ".dim=1" },
  { "local_response_norm_lines", "local_response_norm", "" },
  { "matmul_vectors", "matmul", "" },
  { "max_pool3d_with_indices", "max_pool3d", "" },
  { "max_unpool1d", "max_unpool1d", "output_size=4" },
};

static situ_tensor *call(const char *name, situ_tensor **t, int count) {
  struct special with = { name, name, "" };
  for (size_t k = 0; k < sizeof specials / sizeof *specials; k++)
    if (!strcmp(specials[k].name, name)) with = specials[k];
  char settings[300];
  snprintf(settings, sizeof settings, "%s " ALL, with.settings);
  situ_tensor *indices;
  return invoke_op(with.function, settings, t, count, strstr(name, "with_indices") ? &indices : NULL);
}

/* A row of the table. */
typedef struct row {
  char name[48], operands[8], dtypes[8], outside[8], on_cpu[8], elsewhere[8];
} row;

/* What situ does otherwise than torch 2.15, outside of autocast: it refuses what torch casts there by itself. */
static bool known_outside(const row *r) { return strcmp(r->dtypes, "mixed") == 0 && strstr(r->name, "_norm") != NULL; }

static situ_tensor *operand(char kind, situ_dtype dtype) {
  const situ_options o = { .dtype = dtype, .device = test_device() },
                     i64 = { .dtype = SITU_I64, .device = test_device() };
  switch (kind) {
  case 'i': return situ_zeros(SITU_SHAPE(2), &i64);
  case 'j': return situ_zeros(SITU_SHAPE(2, 2), &i64);
  case 'b': return situ_to_dtype(situ_ones(SITU_SHAPE(2, 2), &i64), SITU_BOOL);
  case 'v': return situ_full(SITU_SHAPE(2), 0.5, &o);
  case 'n': return situ_full(SITU_SHAPE(1, 2, 2, 2), 0.5, &o);
  case 'w': return situ_full(SITU_SHAPE(2, 2, 1, 1), 0.5, &o);
  case 'l': return situ_full(SITU_SHAPE(1, 2, 2), 0.5, &o);
  case 'g': return situ_full(SITU_SHAPE(1, 2, 2, 2), 0.5, &o);
  case 'a': return situ_full(SITU_SHAPE(1, 2, 3), 0.5, &o);
  case 'x': return situ_full(SITU_SHAPE(1, 1, 1, 1, 1), 0.5, &o);
  case 'z': return situ_mul_scalar(situ_expand(situ_arange(0, 2, 1, &i64), SITU_SHAPE(1, 2, 2)), 2);
  case 'u': return situ_full(SITU_SHAPE(1), 0.5, &o);
  case 'k': return situ_full(SITU_SHAPE(2, 2, 1), 0.5, &o);
  default: return situ_full(SITU_SHAPE(2, 2), 0.5, &o);
  }
}

/* Running statistics and the weights of classes are no parameters. */
static bool is_differentiated(const row *r, int i) {
  if (!strcmp(r->name, "batch_norm")) return i != 1 && i != 2;
  return strcmp(r->name, "cross_entropy_weight") || i == 0;
}

static int make(const row *r, situ_tensor **t) {
  int count = 0, floating = 0;
  for (const char *k = r->operands; *k; k++) {
    const bool whole = strchr("ijbz", *k),
               low = !strcmp(r->dtypes, "bf16") || (!strcmp(r->dtypes, "mixed") && !floating);
    t[count] = operand(*k, low ? SITU_BF16 : SITU_F32);
    assert_non_null(t[count]);
    if (!whole && is_differentiated(r, count)) situ_requires_grad_(t[count], true);
    floating += !whole;
    count++;
  }
  return count;
}

/* y is as torch has it, and what comes back has the dtypes of what it is for. */
static void check(const row *r, const char *where, const char *want, situ_tensor *y, situ_tensor **t, int count) {
  if (!strcmp(want, "-")) return; /* torch refuses it; we may not */
  if (!y) fail_msg("%s %s %s: %s", r->name, r->dtypes, where, situ_error_message());
  if (strcmp(situ_dtype_name(situ_dtype_of(y)), want))
    fail_msg("%s %s %s: %s, torch has %s", r->name, r->dtypes, where, situ_dtype_name(situ_dtype_of(y)), want);
  if (!situ_requires_grad(y)) return;
  if (situ_backward(situ_sum(y, NULL), NULL) != SITU_OK)
    fail_msg("%s %s %s: %s", r->name, r->dtypes, where, situ_error_message());
  for (int i = 0; i < count; i++) {
    if (!situ_requires_grad(t[i])) continue;
    if (!situ_grad(t[i]) || situ_dtype_of(situ_grad(t[i])) != situ_dtype_of(t[i]))
      fail_msg("%s %s %s: operand %d has no gradient of its dtype", r->name, r->dtypes, where, i);
  }
}

static void check_row(const row *r) {
  situ_scope s;
  situ_setting before;
  situ_tensor *t[8];
  situ_scope_begin(&s);
  int count = make(r, t);
  situ_tensor *y = call(r->name, t, count);
  if (!known_outside(r)) check(r, "outside", r->outside, y, t, count);
  situ_error_clear();
  count = make(r, t);
  assert_int_equal(situ_autocast_begin(&before, test_device(), &(situ_autocast_options){ .dtype = SITU_BF16 }),
                   SITU_OK);
  y = call(r->name, t, count);
  situ_autocast_end(&before);
  check(r, "in autocast", test_device().kind == SITU_CPU ? r->on_cpu : r->elsewhere, y, t, count);
  situ_error_clear();
  assert_int_equal(situ_scope_end(&s), SITU_OK);
}

static void every_result_has_torchs_dtype(void **state) {
  (void)state;
  char path[1000], line[200];
  FILE *file = fopen(gold_data("autocast.txt", path, sizeof path), "r");
  assert_non_null(file);
  int rows = 0;
  while (fgets(line, sizeof line, file)) {
    row r;
    if (*line == '#') continue;
    assert_int_equal(
        sscanf(line, "%47s %7s %7[^:]: %7s %7s %7s", r.name, r.operands, r.dtypes, r.outside, r.on_cpu, r.elsewhere),
        6);
    check_row(&r);
    rows++;
  }
  fclose(file);
  assert_true(rows > 200);
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(every_result_has_torchs_dtype) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
