/* Memory of gradients in parts: every rank has its model on a device of its own, whose bytes are counted. */
#include "distributed/divided.h"
#include "situ/sys/sim.h"

enum { RANKS = 4, WIDTH = 101, LAYERS = 5 };

typedef struct counts {
  bool parts;
  int64_t elements, gradients[RANKS], state[RANKS], left[RANKS]; /* bytes: behind backward, step, and zero_grad */
} counts;

static situ_nn_module *make_wide(void) {
  situ_nn_module *m = situ_nn_sequential(situ_nn_linear(WIDTH, WIDTH, NULL));
  for (int i = 1; i < LAYERS; i++) m = situ_nn_append(m, situ_nn_linear(WIDTH, WIDTH, NULL));
  return m;
}

static int64_t bytes_used(int rank) {
  situ_device_properties p;
  const situ_device device = { SITU_SIM, (uint16_t)rank };
  if (situ_synchronize(device) != SITU_OK || situ_device_info(device, &p) != SITU_OK) return -1;
  return (int64_t)p.memory_used;
}

static situ_status backward_once(situ_nn_module *m, situ_device device) {
  situ_scope s;
  situ_scope_begin(&s);
  situ_tensor *x = situ_ones(SITU_SHAPE(1, WIDTH), &(situ_options){ .device = device });
  const situ_status status = situ_backward(situ_sum(situ_nn_forward(m, x), NULL), NULL);
  const situ_status ended = situ_scope_end(&s);
  return status == SITU_OK ? ended : status;
}

static void count_bytes(world_rank *self) {
  counts *t = self->payload;
  const int r = self->rank;
  const situ_device device = { SITU_SIM, (uint16_t)r };
  situ_manual_seed(7);
  situ_nn_module *m = make_wide();
  situ_dist_ddp *ddp = NULL;
  situ_dist_zero *zero = NULL;
  MUST(situ_nn_to(m, device) == SITU_OK);
  MUST((ddp = situ_dist_ddp_new(m, self->comm, &(situ_dist_ddp_options){ .bucket_bytes = 64 << 10 })));
  MUST((zero = t->parts ? situ_dist_zero2_new(situ_nn_parameters(m), ddp, situ_optim_adamw, 1e-3, NULL)
                        : situ_dist_zero_new(situ_nn_parameters(m), self->comm, situ_optim_adamw, 1e-3, NULL)));
  const int64_t begin = bytes_used(r);
  MUST(backward_once(m, device) == SITU_OK);
  t->gradients[r] = bytes_used(r) - begin;
  MUST(situ_dist_zero_step(zero) == SITU_OK && situ_dist_zero_zero_grad(zero) == SITU_OK);
  t->state[r] = bytes_used(r) - begin;
  MUST(backward_once(m, device) == SITU_OK);
  MUST(situ_dist_zero_step(zero) == SITU_OK && situ_dist_zero_zero_grad(zero) == SITU_OK);
  t->left[r] = bytes_used(r) - begin;
out:
  situ_dist_zero_free(zero);
  situ_dist_ddp_free(ddp);
  situ_nn_free(m);
}

/* To an element: a rank has 1 / R of the gradients in stage 2, all of them in stage 1; and 1 / R of the state. */
static void a_rank_has_its_part_of_the_gradients(void **state) {
  (void)state;
  assert_int_equal(situ_sim_create(RANKS), SITU_OK);
  for (int parts = 0; parts < 2; parts++) {
    counts t = { .parts = parts, .elements = LAYERS * WIDTH * (WIDTH + 1) };
    world_rank ranks[WORLD_MOST];
    world_run(situ_comm_sim_new(RANKS, NULL), ranks, RANKS, count_bytes, &t, 60);
    int64_t all = 0;
    for (int r = 0; r < RANKS; r++) {
      expect_rank_ok(&ranks[r]);
      all += t.gradients[r];
      const int64_t most = 4 * (parts ? t.elements / RANKS + 1 : t.elements);
      if (t.gradients[r] > most || t.gradients[r] < most - 4 || t.state[r] > 2 * 4 * (t.elements / RANKS + 1) ||
          t.left[r] != t.state[r])
        fail_msg("stage %d, rank %d: %lld bytes of gradients of at most %lld, %lld of state, %lld later", 1 + parts, r,
                 (long long)t.gradients[r], (long long)most, (long long)t.state[r], (long long)t.left[r]);
    }
    assert_int_equal(all, 4 * t.elements * (parts ? 1 : RANKS));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(a_rank_has_its_part_of_the_gradients) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
