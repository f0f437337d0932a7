/* Vectors of one number for each channel or class (weights, biases, running statistics) as views with gaps, or expanded from
   one number: values, gradients and what is written are those of contiguous ones. */
/* test-devices: cpu sim:0 opencl:0 */
#include <string.h>

#include "support/test.h"

enum { CHANNELS = 3, VECTORS = 4 };

typedef situ_tensor *call_fn(situ_tensor *x, situ_tensor *const *v);

/* ---- the calls; v: vectors of positive numbers ---- */

#define CALL(name) static situ_tensor *name(situ_tensor *x, situ_tensor *const *v)
static situ_tensor *classes(void) { return TI64(SITU_SHAPE(2, 4), 0, 1, 2, 0, 2, 2, 1, 0); }

CALL(batch_norm) { return situ_batch_norm(x, v[0], v[1], v[2], v[3], NULL); }
CALL(batch_norm_training) {
  return situ_batch_norm(x, v[0], v[1], v[2], v[3], OPTIONS_AT(situ_batch_norm, with.training = true));
}
CALL(instance_norm) {
  return situ_instance_norm(x, v[0], v[1], v[2], v[3], OPTIONS_AT(situ_instance_norm, with.no_input_stats = true));
}
CALL(instance_norm_training) { return situ_instance_norm(x, v[0], v[1], v[2], v[3], NULL); }
CALL(group_norm) { return situ_group_norm(x, 1, v[0], v[1], 1e-5); }
CALL(layer_norm) { return situ_layer_norm(situ_transpose(x, 1, 2), SITU_SHAPE(CHANNELS), v[0], v[1], 1e-5); }
CALL(rms_norm) { return situ_rms_norm(situ_transpose(x, 1, 2), SITU_SHAPE(CHANNELS), v[0], SITU_NONE); }
CALL(prelu) { return situ_prelu(x, v[0]); }
CALL(linear) { return situ_linear(situ_transpose(x, 1, 2), situ_diag_embed(situ_detach(v[0]), 0, -2, -1), v[1]); }
CALL(conv1d) {
  return situ_conv1d(x, situ_reshape(v[0], SITU_SHAPE(CHANNELS, 1, 1)), v[1],
                     &(situ_conv_options){ .groups = CHANNELS });
}
CALL(cross_entropy) {
  return situ_cross_entropy(x, classes(), &(situ_cross_entropy_options){ .weight = situ_detach(v[0]) });
}
CALL(nll_loss) { return situ_nll_loss(x, classes(), &(situ_cross_entropy_options){ .weight = situ_detach(v[0]) }); }
CALL(multi_margin_loss) {
  return situ_multi_margin_loss(situ_select(x, 2, 0), TI64(SITU_SHAPE(2), 2, 0),
                                OPTIONS_AT(situ_multi_margin, with.weight = situ_detach(v[0])));
}
CALL(with_logits) {
  situ_tensor *rows = situ_transpose(x, 1, 2);
  return situ_binary_cross_entropy_with_logits(rows, situ_full_like(rows, 0.3, NULL), v[0], v[1], SITU_REDUCTION_SUM);
}

static const struct {
  const char *name;
  call_fn *run;
  int vectors;
  bool writes; /* the first two */
} calls[] = { { "batch_norm", batch_norm, 4, false },
              { "batch_norm, training", batch_norm_training, 4, true },
              { "instance_norm", instance_norm, 4, false },
              { "instance_norm, training", instance_norm_training, 4, true },
              { "group_norm", group_norm, 2, false },
              { "layer_norm", layer_norm, 2, false },
              { "rms_norm", rms_norm, 1, false },
              { "prelu", prelu, 1, false },
              { "linear", linear, 2, false },
              { "conv1d", conv1d, 2, false },
              { "cross_entropy", cross_entropy, 1, false },
              { "nll_loss", nll_loss, 1, false },
              { "multi_margin_loss", multi_margin_loss, 1, false },
              { "binary_cross_entropy_with_logits", with_logits, 2, false } };

/* ---- the layouts ---- */

enum { CONTIGUOUS, GAPS, PART, EXPANDED, LAYOUTS };

/* values, all equal where they are to be one number expanded. */
static situ_tensor *vector_of(const double *values, int layout) {
  situ_tensor *x = test_tensor(SITU_F32, SITU_SHAPE(CHANNELS), values), *const twice[2] = { x, x };
  switch (layout) {
  case GAPS: return situ_select(situ_stack(twice, 2, 1), 1, 1);
  case PART: return situ_narrow(situ_cat(twice, 2, 0), 0, CHANNELS, CHANNELS);
  case EXPANDED: return situ_expand(situ_narrow(x, 0, 0, 1), SITU_SHAPE(CHANNELS));
  default: return x;
  }
}

typedef struct outcome {
  situ_tensor *y, *dx, *dv[VECTORS], *v[VECTORS];
} outcome;

static bool run(size_t c, int at, int layout, bool equal, outcome *o) {
  const double values[VECTORS][CHANNELS] = { { 0.5, 1.25, 2 }, { 1.5, 0.75, 0.25 }, { 2, 1, 0.5 }, { 0.25, 3, 1 } };
  *o = (outcome){ 0 };
  situ_manual_seed(2);
  situ_tensor *x = situ_randn(SITU_SHAPE(2, CHANNELS, 4), &(situ_options){ .device = test_device() });
  x = situ_requires_grad_(x, true);
  for (int k = 0; k < calls[c].vectors; k++) {
    double own[CHANNELS];
    for (int i = 0; i < CHANNELS; i++) own[i] = values[k][k == at && equal ? 0 : i];
    o->v[k] = vector_of(own, k == at ? layout : CONTIGUOUS);
    const bool statistic = calls[c].vectors == 4 && k < 2;
    if (!statistic) o->v[k] = situ_requires_grad_(o->v[k], true);
  }
  if (!(o->y = calls[c].run(x, o->v))) return false;
  assert_int_equal(situ_backward(situ_sum(situ_square(o->y), NULL), NULL), SITU_OK);
  o->dx = situ_grad(x);
  for (int k = 0; k < calls[c].vectors; k++) o->dv[k] = situ_grad(o->v[k]);
  return true;
}

static void expect_same_outcome(size_t c, int layout, int at, const outcome *a, const outcome *b) {
  if (situ_shape_of(a->y).ndim != situ_shape_of(b->y).ndim) fail_msg("%s: another shape", calls[c].name);
  expect_same(a->y, b->y, 1e-6, 1e-6);
  expect_same(a->dx, b->dx, 1e-5, 1e-6);
  for (int k = 0; k < calls[c].vectors; k++) {
    expect_same(situ_contiguous(a->v[k]), situ_contiguous(b->v[k]), 1e-6, 1e-6);
    if (!a->dv[k] != !b->dv[k])
      fail_msg("%s, vector %d in layout %d: a gradient of %d is missing", calls[c].name, at, layout, k);
    if (a->dv[k]) expect_same(a->dv[k], b->dv[k], 1e-5, 1e-6);
  }
}

static void every_layout_of_every_vector(void **state) {
  (void)state;
  for (size_t c = 0; c < sizeof calls / sizeof *calls; c++)
    for (int at = 0; at < calls[c].vectors; at++)
      for (int layout = GAPS; layout < LAYOUTS; layout++) {
        outcome plain, other;
        assert_true(run(c, at, CONTIGUOUS, layout == EXPANDED, &plain));
        const bool good = run(c, at, layout, layout == EXPANDED, &other);
        if (calls[c].writes && at < 2 && layout == EXPANDED) { /* one element for all channels cannot be written */
          assert_false(good);
          expect_error(SITU_E_ALIAS, "", "share memory");
          continue;
        }
        if (!good) fail_msg("%s, vector %d in layout %d: %s", calls[c].name, at, layout, situ_error_message());
        expect_same_outcome(c, layout, at, &plain, &other);
      }
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(every_layout_of_every_vector) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
