/* Gradients that are exchanged in bf16: where they are rounded, the bits for any number of ranks, and the bytes. */
/* test-devices: cpu sim:0 */
#include <stdlib.h>
#include <string.h>

#include "distributed/divided.h"

/* Weights after 40 steps are the same on 1, 2, 3 and 4 ranks, in stages 1 and 2, for all bucket sizes; and not those
   without compression. */
static void the_number_of_ranks_does_not_change_a_bit(void **state) {
  (void)state;
  for (size_t k = 0; k < DIST_KINDS; k++) {
    divided first = { .kind = &dist_kinds[k], .make = situ_optim_adamw, .lr = 0.01, .to = 40 };
    situ_tree *plain_state, *state_of_one;
    int64_t bytes;
    situ_nn_module *plain = train_alone(&first, &plain_state, &bytes);
    first.ddp.compress = SITU_BF16;
    situ_nn_module *want = train_alone(&first, &state_of_one, &bytes);
    situ_tree *a = situ_nn_state_dict(plain), *b = situ_nn_state_dict(want);
    bool equal = true;
    assert_int_equal(situ_equal(situ_detach(situ_tree_tensor_at(a, 0)), situ_detach(situ_tree_tensor_at(b, 0)), &equal),
                     SITU_OK);
    assert_false(equal);
    situ_tree_free(a);
    situ_tree_free(b);
    for (int i = 0; i < 8; i++) {
      const int size = 1 + i / 2;
      divided t = first;
      t.parts = i % 2;
      t.ddp.bucket_bytes = 100 * i;
      t.ddp.fast = size == 3; /* engines do not add bf16: the order stays fixed */
      for (int r = 0; r < size; r++) t.model[r] = model_of(t.kind);
      run_world(&t, size);
      for (int r = 0; r < size; r++) {
        expect_equal_models(t.model[r], want, t.parts ? "in parts" : "whole", size);
        situ_nn_free(t.model[r]);
      }
      situ_tree_free(t.end);
    }
    situ_tree_free(plain_state);
    situ_tree_free(state_of_one);
    situ_nn_free(plain);
    situ_nn_free(want);
  }
}

/* ---- rounding ---- */

enum { WIDTH = 33 };

typedef struct sums {
  int64_t micro_batches;
  float got[WORLD_MOST][WIDTH];
} sums;

/* The gradient of w in micro-batch `number`. */
static void fill_gradient(int64_t number, float x[WIDTH]) {
  for (int i = 0; i < WIDTH; i++)
    x[i] = (float)(1 + (i * 7 + (int)number * 13) % 29) / 7 * (float)(number % 2 ? -1 : 3);
}

static float rounded(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  bits = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000u;
  memcpy(&x, &bits, sizeof x);
  return x;
}

/* Of an element, by the definition in situ/dist.h. */
static float sum_of(int64_t lo, int64_t hi, int i) {
  if (hi - lo == 1) {
    float x[WIDTH];
    fill_gradient(lo, x);
    return rounded(x[i]);
  }
  int64_t half = 1;
  while (half * 2 < hi - lo) half *= 2;
  return rounded(sum_of(lo, lo + half, i) + sum_of(lo + half, hi, i));
}

static void add_some(world_rank *self) {
  sums *t = self->payload;
  situ_nn_module *m = situ_nn_linear(WIDTH, 1, &(situ_nn_linear_options){ .no_bias = true, .device = test_device() });
  const situ_dist_ddp_options options = { .micro_batches = t->micro_batches, .compress = SITU_BF16 };
  situ_dist_ddp *ddp = situ_dist_ddp_new(m, self->comm, &options);
  MUST(ddp);
  for (int64_t k = situ_dist_ddp_micro_batches(ddp); k > 0; k--) {
    float x[WIDTH];
    fill_gradient(situ_dist_ddp_micro_batch(ddp), x);
    situ_tensor *in = situ_from_host(x, sizeof x, SITU_SHAPE(1, WIDTH), &(situ_options){ .device = test_device() });
    MUST(situ_backward(situ_sum(situ_nn_forward(m, in), NULL), NULL) == SITU_OK);
  }
  situ_tensor *grad = situ_grad(situ_nn_get_tensor(m, "weight"));
  MUST(situ_dtype_of(grad) == SITU_F32 && situ_copy_to_host(grad, t->got[self->rank], sizeof *t->got) == SITU_OK);
out:
  situ_dist_ddp_free(ddp);
  situ_nn_free(m);
}

static void every_node_and_the_average_are_rounded(void **state) {
  (void)state;
  static const int64_t totals[] = { 4, 5, 8, 11 };
  for (size_t k = 0; k < sizeof totals / sizeof *totals; k++)
    for (int size = 1; size <= 4; size++) {
      sums t = { .micro_batches = totals[k] };
      world_rank ranks[WORLD_MOST];
      world_run(situ_comm_sim_new(size, NULL), ranks, size, add_some, &t, 20);
      for (int r = 0; r < size; r++) {
        expect_rank_ok(&ranks[r]);
        for (int i = 0; i < WIDTH; i++) {
          const float want = rounded(sum_of(0, t.micro_batches, i) / (float)t.micro_batches);
          if (t.got[r][i] != want) fail_msg("%d of %d: %g, must be %g", (int)t.micro_batches, size, t.got[r][i], want);
        }
      }
    }
}

/* ---- bytes ---- */

typedef struct carried {
  situ_dist_ddp_options options;
  situ_dtype dtype;
  bool parts;
  int64_t elements, tensors, bytes[WORLD_MOST], read[WORLD_MOST], written[WORLD_MOST];
} carried;

/* Of one step of two micro-batches: given to collectives; copied from and to the device. */
static void carry_one_step(world_rank *self) {
  carried *t = self->payload;
  const situ_options like = { .dtype = t->dtype, .device = test_device() };
  situ_nn_module *m = situ_nn_linear(64, 32, &(situ_nn_linear_options){ .dtype = t->dtype, .device = test_device() });
  situ_dist_zero *zero = NULL;
  situ_dist_ddp *ddp = situ_dist_ddp_new(m, self->comm, &t->options);
  situ_ledger l = { 0 };
  MUST(ddp && (!t->parts || (zero = situ_dist_zero2_new(situ_nn_parameters(m), ddp, situ_optim_sgd, 1e-3, NULL))));
  situ_tensor *x = situ_ones(SITU_SHAPE(3, 64), &like);
  situ_tensor *loss = situ_sum(situ_nn_forward(m, x), NULL);
  t->bytes[self->rank] = -situ_comm_sim_bytes(self->world, self->rank);
  situ_ledger_begin(&l);
  const situ_status status = situ_backward(loss, NULL);
  MUST(situ_ledger_end(&l) == SITU_OK && status == SITU_OK);
  t->bytes[self->rank] += situ_comm_sim_bytes(self->world, self->rank);
  t->read[self->rank] = (int64_t)situ_ledger_sum(&l, SITU_DEVICE_TO_HOST).bytes;
  t->written[self->rank] = (int64_t)situ_ledger_sum(&l, SITU_HOST_TO_DEVICE).bytes;
out:
  situ_dist_zero_free(zero);
  situ_dist_ddp_free(ddp);
  situ_nn_free(m);
}

static void half_of_the_bytes(void **state) {
  (void)state;
  enum { ELEMENTS = 64 * 32 + 32, TENSORS = 2, RANKS = 4, KINDS = 3 };
  static const struct {
    situ_dtype dtype, compress;
    int64_t size;
  } kinds[KINDS] = { { SITU_F32, 0, 4 }, { SITU_F32, SITU_BF16, 2 }, { SITU_F64, 0, 8 } };
  for (int i = 0; i < 4 * KINDS; i++) {
    const int64_t size = kinds[i % KINDS].size;
    carried t = { .options = { .compress = kinds[i % KINDS].compress, .fast = i / KINDS % 2 },
                  .dtype = kinds[i % KINDS].dtype,
                  .parts = i / KINDS / 2 };
    world_rank ranks[WORLD_MOST];
    world_run(situ_comm_sim_new(RANKS, NULL), ranks, RANKS, carry_one_step, &t, 20);
    /* All elements to the others, and back one part of the sums, which an engine that adds has itself; engines do not add
       bf16. And a byte a tensor at the end of the step. */
    const bool adds = t.options.fast && !t.options.compress;
    const int64_t parts = ELEMENTS * size + (t.parts || adds ? 0 : ELEMENTS / RANKS * size);
    for (int r = 0; r < RANKS; r++) {
      expect_rank_ok(&ranks[r]);
      assert_int_equal(t.bytes[r], parts + TENSORS);
      if (test_device().kind != SITU_SIM) continue;
      assert_int_equal(t.read[r], ELEMENTS * size);
      assert_int_equal(t.written[r], t.parts ? ELEMENTS / RANKS * size : ELEMENTS * size);
    }
  }
}

/* ---- what is refused ---- */

static void start_with_options(world_rank *self) {
  situ_nn_module *m = dist_mlp();
  const situ_dtype compress = ((situ_dtype *)self->payload)[self->rank];
  situ_dist_ddp_free(situ_dist_ddp_new(m, self->comm, &(situ_dist_ddp_options){ .compress = compress }));
  situ_nn_free(m);
}
static void other_dtypes_and_ranks_that_differ(void **state) {
  (void)state;
  world_rank ranks[WORLD_MOST];
  situ_dtype f16[2] = { SITU_F16, SITU_F16 }, one[2] = { SITU_BF16, SITU_DTYPE_DEFAULT };
  world_run(situ_comm_sim_new(2, NULL), ranks, 2, start_with_options, f16, 5);
  for (int r = 0; r < 2; r++) {
    assert_int_equal(ranks[r].status, SITU_E_ARG);
    if (!strstr(ranks[r].message, "compress is f16: must be SITU_BF16")) fail_msg("%s", ranks[r].message);
  }
  world_run(situ_comm_sim_new(2, NULL), ranks, 2, start_with_options, one, 5);
  for (int r = 0; r < 2; r++) {
    assert_int_equal(ranks[r].status, SITU_E_COMM);
    if (!strstr(ranks[r].message, "options.compress is 0 on rank 1")) fail_msg("%s", ranks[r].message);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
    TEST(the_number_of_ranks_does_not_change_a_bit),
    TEST(every_node_and_the_average_are_rounded),
    TEST(half_of_the_bytes),
    TEST(other_dtypes_and_ranks_that_differ),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
