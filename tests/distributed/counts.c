/* What start and step cost each rank on 4, 16, 64 and 256 ranks, in messages and bytes, not in time; its bits on 1 to
   64. */
/* test-devices: cpu */
#include "distributed/models.h"
#include "distributed/must.h"
#include "distributed/world.h"
#include "situ/dist.h"

enum { MICRO_BATCHES = 64, STEPS = 2, TENSORS = 16, LAST = 8 * 16 + 16, ELEMENTS = 6 * 8 + 8 + 6 * (8 * 8 + 8) + LAST };

static situ_nn_module *make_deep(void) {
  situ_nn_module *m = situ_nn_sequential(situ_nn_linear(6, 8, NULL));
  for (int i = 0; i < 6; i++) m = situ_nn_append(m, situ_nn_linear(8, 8, NULL));
  return situ_nn_append(m, situ_nn_linear(8, 16, NULL));
}
static const dist_kind deep = { "deep", make_deep, { 2, { DIST_BATCH, 6 } } };

typedef struct counted {
  int stage; /* of ZeRO; 0: every rank has an optimiser of all parameters */
  int64_t micro_batches;
  int64_t bucket_bytes; /* 1: a bucket for each tensor */
  bool frozen;          /* all but the last layer */
  situ_nn_module *model[WORLD_MOST];
  int64_t start[WORLD_MOST];                       /* messages of situ_dist_ddp_new */
  int64_t messages[WORLD_MOST], bytes[WORLD_MOST]; /* of the last step */
} counted;

static situ_status freeze(situ_nn_module *m) {
  situ_tree *all = situ_nn_parameters(m);
  for (int64_t i = 0; i + 2 < situ_tree_count(all); i++)
    SITU_IGNORE(!situ_requires_grad_(situ_tree_tensor_at(all, i), false));
  situ_tree_free(all);
  return situ_error();
}

static void train_and_count(world_rank *self) {
  counted *t = self->payload;
  const int r = self->rank;
  situ_nn_module *m = t->model[r];
  situ_optim *optim = NULL;
  situ_dist_zero *zero = NULL;
  const situ_dist_ddp_options options = { .micro_batches = t->micro_batches, .bucket_bytes = t->bucket_bytes };
  if (t->frozen) MUST(freeze(m) == SITU_OK);
  situ_dist_ddp *ddp = situ_dist_ddp_new(m, self->comm, &options);
  MUST(ddp);
  t->start[r] = situ_comm_sim_messages(self->world, r);
  if (t->stage == 0) optim = situ_optim_adamw(situ_nn_parameters(m), 1e-3, NULL);
  if (t->stage == 1) zero = situ_dist_zero_new(situ_nn_parameters(m), self->comm, situ_optim_adamw, 1e-3, NULL);
  if (t->stage == 2) zero = situ_dist_zero2_new(situ_nn_parameters(m), ddp, situ_optim_adamw, 1e-3, NULL);
  MUST(optim || zero);
  for (int64_t step = 0; step < STEPS; step++) {
    t->messages[r] = situ_comm_sim_messages(self->world, r);
    t->bytes[r] = situ_comm_sim_bytes(self->world, r);
    for (int64_t k = situ_dist_ddp_micro_batches(ddp); k > 0; k--)
      MUST(dist_micro_batch(&deep, m, test_device(), 100 * step + situ_dist_ddp_micro_batch(ddp)) == SITU_OK);
    MUST((zero ? situ_dist_zero_step(zero) : situ_optim_step(optim)) == SITU_OK);
    MUST((zero ? situ_dist_zero_zero_grad(zero) : situ_optim_zero_grad(optim, true)) == SITU_OK);
    t->messages[r] = situ_comm_sim_messages(self->world, r) - t->messages[r];
    t->bytes[r] = situ_comm_sim_bytes(self->world, r) - t->bytes[r];
  }
out:
  situ_dist_zero_free(zero);
  situ_optim_free(optim);
  situ_dist_ddp_free(ddp);
}

static void run_counted(counted *t, int size) {
  world_rank ranks[WORLD_MOST];
  for (int r = 0; r < size; r++) {
    situ_manual_seed(77 + (uint64_t)r);
    t->model[r] = make_deep();
  }
  world_run(situ_comm_sim_new(size, NULL), ranks, size, train_and_count, t, 600);
  for (int r = 0; r < size; r++) expect_rank_ok(&ranks[r]);
}

/* Headers that a rank sends in a call of all: it hears of twice as many ranks by each. */
static int64_t headers(int size) {
  int64_t rounds = 0;
  while (1 << rounds < size) rounds++;
  return rounds;
}

/* A bucket of gradients goes as parts and comes back as sums, but in stage 2; then the ranks agree. An optimiser in
   parts exchanges all parameters that are stepped in one call, and ends with a barrier. */
static int64_t calls(const counted *t) {
  const int64_t buckets = t->bucket_bytes ? TENSORS : 1;
  return (t->stage == 2 ? 1 : 2) * buckets + 1 + (t->stage ? 2 : 0);
}

static int64_t bytes(const counted *t, int size) {
  const int64_t gradients = t->frozen ? LAST : ELEMENTS, part = (gradients + size - 1) / size;
  const int64_t parts = (t->stage == 2 ? size : size + 1) + (t->stage > 0);
  return TENSORS + 4 * part * parts; /* a byte a tensor to agree */
}

/* Options, number and hashes of the tensors are compared at the start, and their values sent. */
static int64_t first_calls(const counted *t) { return 3 + (t->bucket_bytes ? TENSORS : 1); }

static void expect_counts(const counted *t, int size) {
  for (int r = 0; r < size; r++)
    if (t->start[r] != first_calls(t) * headers(size))
      fail_msg("start, rank %d of %d: %lld messages", r, size, (long long)t->start[r]);
  for (int r = 0; r < size; r++)
    if (t->messages[r] != calls(t) * headers(size) || (!t->bucket_bytes && t->bytes[r] != bytes(t, size)))
      fail_msg("stage %d, rank %d of %d: %lld messages of %lld calls, %lld bytes, must be %lld", t->stage, r, size,
               (long long)t->messages[r], (long long)calls(t), (long long)t->bytes[r], (long long)bytes(t, size));
}

static void a_step_costs_what_it_must(void **state) {
  (void)state;
  static const int sizes[] = { 1, 2, 3, 8, 4, 16, 64 }; /* counted: the last three */
  for (int stage = 0; stage < 3; stage++)
    for (int kind = 0; kind < 3; kind++) {
      situ_nn_module *alone = NULL;
      for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const int size = sizes[i];
        counted t = { .stage = stage, .micro_batches = MICRO_BATCHES, .bucket_bytes = kind == 1, .frozen = kind == 2 };
        run_counted(&t, size);
        if (!alone) alone = t.model[0];
        for (int r = size > 1 ? 0 : 1; r < size; r++) {
          expect_equal_models(t.model[r], alone, deep.name, size);
          situ_nn_free(t.model[r]);
        }
        if (i < 4) continue;
        print_message("stage %d, %d buckets%s, %d ranks: %lld messages and %lld bytes a rank\n", stage,
                      t.bucket_bytes ? TENSORS : 1, t.frozen ? " of one layer" : "", size, (long long)t.messages[0],
                      (long long)t.bytes[0]);
        expect_counts(&t, size);
      }
      situ_nn_free(alone);
    }
}

static void a_step_on_256_ranks_costs_what_it_must(void **state) {
  (void)state;
  counted t = { .stage = 1, .micro_batches = WORLD_MOST };
  run_counted(&t, WORLD_MOST);
  expect_counts(&t, WORLD_MOST);
  for (int r = 0; r < WORLD_MOST; r++) situ_nn_free(t.model[r]);
}

/* Each node of the tree that covers a rank's micro-batches is sent: one, if each rank has a power of 2 of them. */
static void micro_batches_decide_what_a_rank_sends(void **state) {
  (void)state;
  static const struct {
    int size, micro_batches, nodes; /* the most of a rank: [0, 3) is [0, 2) and [2, 3) */
  } cases[] = { { 2, 8, 1 }, { 3, 12, 1 }, { 5, 10, 1 }, { 2, 12, 2 }, { 3, 10, 2 }, { 2, 28, 3 } };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    counted t = { .micro_batches = cases[i].micro_batches };
    const int size = cases[i].size;
    run_counted(&t, size);
    for (int r = 0; r < size; r++) {
      const int64_t part = (ELEMENTS + size - 1) / size;
      assert_int_equal(t.bytes[r], TENSORS + 4 * part * (size * cases[i].nodes + 1));
      situ_nn_free(t.model[r]);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(a_step_costs_what_it_must), TEST(a_step_on_256_ranks_costs_what_it_must),
                                      TEST(micro_batches_decide_what_a_rank_sends) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
