/* The Jacobian of a tanh MLP of 60 x 60 x 60 x 60 in all directions at once, beside finite differences, which call the
   function once for each element (forward) or twice (central): processor time, one thread; medians of interleaved
   rounds. The goal: 10 times as fast.
   SPDX-License-Identifier: MIT */
#include "support/measure.h"

#include "situ/func.h"

enum { WIDTH = 60, LAYERS = 3, ROUNDS = 31, REPEAT = 20 };
enum { JACFWD, JACREV, CENTRAL, FORWARD, WAYS };

typedef struct mlp {
  situ_tensor *weight[LAYERS], *bias[LAYERS];
} mlp;

static situ_tensor *run_mlp(situ_tensor *const *in, int count, void *payload) {
  const mlp *m = payload;
  situ_tensor *x = in[0];
  (void)count;
  for (int k = 0; k < LAYERS; k++) {
    x = situ_linear(x, m->weight[k], m->bias[k]);
    if (k < LAYERS - 1) x = situ_tanh(x);
  }
  return x;
}

static double host_value(situ_tensor *t, int64_t i) {
  return situ_dtype_of(t) == SITU_F64 ? ((double *)situ_data_ptr(t))[i] : (double)((float *)situ_data_ptr(t))[i];
}
static void set_host_value(situ_tensor *t, int64_t i, double value) {
  if (situ_dtype_of(t) == SITU_F64) ((double *)situ_data_ptr(t))[i] = value;
  else ((float *)situ_data_ptr(t))[i] = (float)value;
}

/* Values are changed, and differences computed, on the host without further calls. */
static situ_tensor *differences(mlp *m, situ_tensor *x, bool central, double h) {
  situ_tensor *all = situ_empty(SITU_SHAPE(WIDTH, WIDTH), &(situ_options){ .dtype = situ_dtype_of(x) });
  situ_tensor *here = central ? NULL : run_mlp(&x, 1, m);
  for (int64_t i = 0; i < WIDTH; i++) {
    situ_scope s;
    situ_scope_begin(&s);
    const double was = host_value(x, i);
    set_host_value(x, i, was + h);
    situ_tensor *high = run_mlp(&x, 1, m), *low = here;
    if (central) {
      set_host_value(x, i, was - h);
      low = run_mlp(&x, 1, m);
    }
    set_host_value(x, i, was);
    for (int64_t k = 0; k < WIDTH; k++)
      set_host_value(all, k * WIDTH + i, (host_value(high, k) - host_value(low, k)) / (central ? 2 * h : h));
    need(situ_scope_end(&s));
  }
  return all;
}

static situ_tensor *jacobian(mlp *m, situ_tensor *x, int way) {
  const double h = situ_dtype_of(x) == SITU_F64 ? 1e-6 : 1e-3;
  if (way == JACFWD) return situ_func_jacfwd(run_mlp, m, 1, &x, 0);
  if (way == JACREV) return situ_func_jacrev(run_mlp, m, 1, &x, 0);
  return differences(m, x, way == CENTRAL, h);
}

static double run_way(mlp *m, situ_tensor *x, int way) {
  const double begin = processor_seconds();
  for (int k = 0; k < REPEAT; k++) {
    situ_scope s;
    situ_scope_begin_no_grad(&s);
    (void)jacobian(m, x, way);
    need(situ_scope_end(&s));
  }
  return (processor_seconds() - begin) / REPEAT;
}

static void measure(situ_dtype dtype) {
  static const char *const names[WAYS] = { "jacfwd", "jacrev", "central", "forward" };
  mlp m;
  double time[WAYS][ROUNDS], all[WAYS], apart[WAYS];
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  const situ_options like = { .dtype = dtype };
  situ_tensor *x = situ_randn(SITU_SHAPE(WIDTH), &like), *exact;
  for (int k = 0; k < LAYERS; k++) {
    m.weight[k] = situ_mul_scalar(situ_randn(SITU_SHAPE(WIDTH, WIDTH), &like), 0.13);
    m.bias[k] = situ_randn(SITU_SHAPE(WIDTH), &like);
  }
  need(situ_error());
  exact = jacobian(&m, x, JACREV);
  for (int w = 0; w < WAYS; w++)
    need(situ_item(situ_amax(situ_abs(situ_sub(jacobian(&m, x, w), exact)), NULL), &apart[w]));
  for (int round = -2; round < ROUNDS; round++)
    for (int w = 0; w < WAYS; w++) time[w][round < 0 ? 0 : round] = run_way(&m, x, w);
  for (int w = 0; w < WAYS; w++) all[w] = median(time[w], ROUNDS);
  for (int w = 0; w < WAYS; w++) {
    printf("%s %-8s %8.1f us, largest difference from jacrev %.1e", situ_dtype_name(dtype), names[w], 1e6 * all[w],
           apart[w]);
    if (w < CENTRAL)
      printf("; central takes %.1f times as long, forward %.1f", all[CENTRAL] / all[w], all[FORWARD] / all[w]);
    printf("\n");
  }
  need(situ_scope_end(&s));
}

int main(void) {
  need(situ_set_num_threads(1));
  measure(SITU_F64);
  measure(SITU_F32);
  return 0;
}
