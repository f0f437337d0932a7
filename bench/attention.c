/* Attention that bench/torch/attention.py has beside PyTorch's, f32, one thread. With `serve` each line of input is a
   job: batch, heads, tokens, features, a kind (plain, causal, mask, dropout, gqa: a fourth of the heads for keys and
   values), backward. The answer is its seconds of processor time, which other programs do not lengthen as they do wall
   time, and the bytes by which the peak of resident memory is higher than what was there before. Without it one job is
   done alone.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "support/measure.h"

/* Query, key, value, the gradient of the result, and a mask: of the last job, which the next may have too. */
static situ_tensor *operand[5];

static void make_operands(situ_shape shape, int64_t groups) {
  if (operand[0] && situ_size(operand[0], 0) == shape.dim[0] && situ_size(operand[0], 2) == shape.dim[2] &&
      situ_size(operand[1], 1) == groups)
    return;
  for (int k = 0; k < 5; k++) {
    situ_shape of = shape;
    if (k == 1 || k == 2) of.dim[1] = groups;
    situ_release(operand[k]);
    operand[k] = situ_retain(k < 4 ? situ_randn(of, &(situ_options){ .requires_grad = k < 3 })
                                   : situ_randn(SITU_SHAPE(shape.dim[2], shape.dim[2]), NULL));
    need(situ_error());
  }
}

static void run(const char *kind, bool backward) {
  situ_attention_options options = situ_attention_defaults();
  options.is_causal = *kind == 'c';
  if (*kind == 'm') options.attn_mask = operand[4];
  if (*kind == 'd') options.dropout_p = 0.1;
  options.enable_gqa = *kind == 'g';
  situ_scope s;
  if (backward) situ_scope_begin(&s);
  else situ_scope_begin_no_grad(&s);
  situ_tensor *y = situ_scaled_dot_product_attention(operand[0], operand[1], operand[2], &options);
  need(situ_error());
  if (backward) need(situ_backward(y, &(situ_backward_options){ .gradient = operand[3] }));
  need(situ_scope_end(&s));
  for (int k = 0; backward && k < 3; k++) need(situ_set_grad(operand[k], NULL));
}

int main(int argc, char **argv) {
  long long b, h, t, e;
  char kind[16];
  int backward;
  need(situ_set_num_threads(1));
  if (argc < 2 || strcmp(argv[1], "serve") != 0) {
    make_operands(SITU_SHAPE(1, 12, 1024, 64), 12);
    run("plain", true);
    const double begin = processor_seconds();
    run("plain", true);
    printf("forward and backward of 12 heads of 1024 x 64: %.1f ms\n", 1e3 * (processor_seconds() - begin));
    return 0;
  }
  while (scanf("%lld %lld %lld %lld %15s %d", &b, &h, &t, &e, kind, &backward) == 6) {
    make_operands(SITU_SHAPE(b, h, t, e), *kind == 'g' ? h / 4 : h);
    need(situ_empty_cache((situ_device){ SITU_CPU, 0 }));
    forget_peak();
    const double there = resident("VmRSS"), begin = processor_seconds();
    run(kind, backward != 0);
    const double taken = processor_seconds() - begin;
    printf("%.9f %.0f\n", taken, resident("VmHWM") - there);
    (void)fflush(stdout);
  }
  return 0;
}
