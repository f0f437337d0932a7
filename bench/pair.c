/* Jobs that bench/torch/pair.py has beside PyTorch's, on $SITU_BENCH_DEVICE (default: cpu). `pair serve` reads the name
   of a job from each line of its input, does it once and answers with its seconds, so that both sides can take turns;
   without an argument it does each job a few times and prints the medians. SPDX-License-Identifier: MIT */
#include <string.h>

#include "support/gpt2.h"
#include "support/measure.h"

static situ_device device;
static bool small; /* sizes for a host */

/* ---- ops ------------------------------------------------------------------------------------- */

/* Operands of one size and dtype, kept from one round to the next. */
typedef struct operands {
  int64_t side;
  situ_dtype dtype;
  situ_tensor *a, *b, *classes;
} operands;

static const operands *square(int64_t side, situ_dtype dtype) {
  static operands all[8];
  static int count;
  for (int k = 0; k < count; k++)
    if (all[k].side == side && all[k].dtype == dtype) return &all[k];
  const situ_options like = { .device = device, .dtype = dtype };
  all[count] = (operands){
    .side = side,
    .dtype = dtype,
    .a = situ_retain(situ_randn(SITU_SHAPE(side, side), &like)),
    .b = situ_retain(situ_randn(SITU_SHAPE(side, side), &like)),
    .classes = situ_retain(situ_zeros(SITU_SHAPE(side), &(situ_options){ .device = device, .dtype = SITU_I64 })),
  };
  need(situ_error());
  return &all[count++];
}

static situ_tensor *add(const operands *x) { return situ_add(x->a, x->b); }
static situ_tensor *gelu(const operands *x) { return situ_gelu(x->a, SITU_GELU_TANH); }
static situ_tensor *softmax(const operands *x) { return situ_softmax(x->a, 1); }
static situ_tensor *layer_norm(const operands *x) {
  return situ_layer_norm(x->a, SITU_SHAPE(x->side), NULL, NULL, 1e-5);
}
static situ_tensor *cross_entropy(const operands *x) { return situ_cross_entropy(x->a, x->classes, NULL); }
static situ_tensor *matmul(const operands *x) { return situ_matmul(x->a, x->b); }

static double time_of(situ_tensor *(*op)(const operands *), int64_t side, situ_dtype dtype) {
  const operands *x = square(side, dtype);
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  need(situ_synchronize(device));
  double begin = seconds();
  situ_tensor *y = op(x);
  need(y ? situ_synchronize(device) : situ_error());
  double taken = seconds() - begin;
  need(situ_scope_end(&s));
  return taken;
}

static int64_t rows(void) { return small ? 1024 : 8192; }
static double job_add(void) { return time_of(add, rows(), SITU_F32); }
static double job_gelu(void) { return time_of(gelu, rows(), SITU_F32); }
static double job_softmax(void) { return time_of(softmax, rows(), SITU_F32); }
static double job_layer_norm(void) { return time_of(layer_norm, rows(), SITU_F32); }
static double job_cross_entropy(void) { return time_of(cross_entropy, rows(), SITU_F32); }
static double job_matmul_4096(void) { return time_of(matmul, small ? 256 : 4096, SITU_BF16); }
static double job_matmul_8192(void) { return time_of(matmul, small ? 512 : 8192, SITU_BF16); }

/* The host's cost of an op without waiting for it. */
static double job_op(void) {
  enum { CALLS = 1000 };
  situ_tensor *x = square(8, SITU_F32)->a;
  need(situ_synchronize(device));
  double begin = seconds();
  for (int k = 0; k < CALLS; k++) (void)!situ_mul_scalar_(x, 1);
  double taken = (seconds() - begin) / CALLS;
  need(situ_synchronize(device));
  return taken;
}

/* ---- moves ----------------------------------------------------------------------------------- */

/* A model on the host goes to the device; to make it and to free it is not timed. */
static double move(situ_nn_module *model) {
  need(situ_error());
  need(situ_synchronize(device));
  double begin = seconds();
  need(situ_nn_to(model, device));
  need(situ_synchronize(device));
  double taken = seconds() - begin;
  situ_nn_free(model);
  return taken;
}

static double job_move_1000(void) {
  situ_nn_module *model = situ_nn_module_list_of(0, NULL);
  for (int k = 0; model && k < 500; k++) situ_nn_append(model, situ_nn_linear(8, 8, NULL));
  return move(model);
}
static double job_move_1gib(void) {
  const int64_t side = small ? 1024 : 16384;
  return move(situ_nn_embedding(side, side, NULL));
}

/* ---- training -------------------------------------------------------------------------------- */

/* A step of GPT-2: autocast to bf16 where the device is not the host, AdamW. */
static double job_gpt2(void) {
  static situ_nn_module *model;
  static situ_optim *optim;
  static situ_tensor *ids, *next;
  const gpt2_config *c = small ? &gpt2_tiny : &gpt2_124m;
  if (!model) {
    const situ_options whole = { .device = device, .dtype = SITU_I64 };
    model = gpt2_new(c);
    need(model ? situ_nn_to(model, device) : situ_error());
    optim = situ_optim_adamw(situ_nn_parameters(model), 1e-4, NULL);
    ids = situ_retain(situ_randint(0, c->vocabulary, SITU_SHAPE(c->batch, c->context), &whole));
    next = situ_retain(situ_randint(0, c->vocabulary, SITU_SHAPE(c->batch * c->context), &whole));
    need(situ_error());
  }
  situ_scope s;
  situ_setting before;
  situ_scope_begin(&s);
  need(situ_synchronize(device));
  double begin = seconds();
  need(situ_optim_zero_grad(optim, true));
  if (!small) need(situ_autocast_begin(&before, device, &(situ_autocast_options){ .dtype = SITU_BF16 }));
  situ_tensor *scores = situ_flatten(situ_nn_forward(model, ids), 0, 1);
  situ_tensor *loss = situ_cross_entropy(scores, next, NULL);
  if (!small) situ_autocast_end(&before);
  need(situ_backward(loss, NULL));
  need(situ_optim_step(optim));
  need(situ_synchronize(device));
  double taken = seconds() - begin;
  need(situ_scope_end(&s));
  return taken;
}

/* ---- taking turns ---------------------------------------------------------------------------- */

static const struct job {
  const char *name;
  double (*run)(void);
} jobs[] = {
  { "op", job_op },
  { "add", job_add },
  { "gelu", job_gelu },
  { "softmax", job_softmax },
  { "layer_norm", job_layer_norm },
  { "cross_entropy", job_cross_entropy },
  { "matmul_4096", job_matmul_4096 },
  { "matmul_8192", job_matmul_8192 },
  { "move_1000", job_move_1000 },
  { "move_1gib", job_move_1gib },
  { "gpt2", job_gpt2 },
};
enum { JOBS = sizeof jobs / sizeof *jobs };

static int serve(void) {
  char line[64];
  while (fgets(line, sizeof line, stdin)) {
    line[strcspn(line, "\n")] = 0;
    int k = 0;
    while (k < JOBS && strcmp(jobs[k].name, line) != 0) k++;
    if (k == JOBS) return fprintf(stderr, "no job %s\n", line), 1;
    printf("%.9f\n", jobs[k].run());
    (void)fflush(stdout);
  }
  return 0;
}

int main(int argc, char **argv) {
  situ_device_properties p;
  device = bench_device(&p);
  small = device.kind != SITU_CUDA || strstr(p.name, "no GPU");
  if (argc > 1 && strcmp(argv[1], "serve") == 0) return serve();
  printf("%s, alone%s\n", p.name, small ? ", small sizes" : "");
  for (int k = 0; k < JOBS; k++) {
    enum { ROUNDS = 5 };
    double each[ROUNDS];
    (void)jobs[k].run();
    for (int r = 0; r < ROUNDS; r++) each[r] = jobs[k].run();
    printf("     %-14s %12.1f us\n", jobs[k].name, 1e6 * median(each, ROUNDS));
    (void)fflush(stdout);
  }
  return 0;
}
