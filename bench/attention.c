/* Attention that bench/torch/attention.py has beside PyTorch's, f32, one thread. With `serve` each line of input is a
   job: batch, heads, tokens, features, causal, backward. The answer is its seconds of processor time, which other
   programs do not lengthen as they do wall time, and the bytes by which the peak of resident memory is higher than what
   was there before. Without it one job is done alone.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "support/measure.h"

/* Operands of the last job, which the next may have too. */
static situ_tensor *operand[4];

static void make_operands(situ_shape shape) {
  for (int k = 0; k < 4; k++) {
    if (operand[k] && situ_size(operand[k], 0) == shape.dim[0] && situ_size(operand[k], 2) == shape.dim[2]) continue;
    situ_release(operand[k]);
    operand[k] = situ_retain(situ_randn(shape, &(situ_options){ .requires_grad = k < 3 }));
    need(situ_error());
  }
}

static void run(bool causal, bool backward) {
  situ_scope s;
  if (backward) situ_scope_begin(&s);
  else situ_scope_begin_no_grad(&s);
  situ_tensor *y = situ_scaled_dot_product_attention(operand[0], operand[1], operand[2],
                                                     &(situ_attention_options){ .is_causal = causal });
  need(situ_error());
  if (backward) need(situ_backward(y, &(situ_backward_options){ .gradient = operand[3] }));
  need(situ_scope_end(&s));
  for (int k = 0; backward && k < 3; k++) need(situ_set_grad(operand[k], NULL));
}

int main(int argc, char **argv) {
  long long b, h, t, e;
  int causal, backward;
  need(situ_set_num_threads(1));
  if (argc < 2 || strcmp(argv[1], "serve") != 0) {
    make_operands(SITU_SHAPE(1, 12, 1024, 64));
    run(false, true);
    const double begin = processor_seconds();
    run(false, true);
    printf("forward and backward of 12 heads of 1024 x 64: %.1f ms\n", 1e3 * (processor_seconds() - begin));
    return 0;
  }
  while (scanf("%lld %lld %lld %lld %d %d", &b, &h, &t, &e, &causal, &backward) == 6) {
    make_operands(SITU_SHAPE(b, h, t, e));
    need(situ_empty_cache((situ_device){ SITU_CPU, 0 }));
    forget_peak();
    const double there = resident("VmRSS"), begin = processor_seconds();
    run(causal != 0, backward != 0);
    const double taken = processor_seconds() - begin;
    printf("%.9f %.0f\n", taken, resident("VmHWM") - there);
    (void)fflush(stdout);
  }
  return 0;
}
