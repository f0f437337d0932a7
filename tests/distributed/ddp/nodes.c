/* Ranks in nodes: gradients are added in a node first, and the bits are those of one rank; what a rank sends then; ranks
   that disagree, or are lost. */
/* test-devices: cpu sim:0 cuda:0 */
/* test-slow: cuda:0 */
#include "distributed/comm/comm.h"
#include "distributed/models.h"
#include "distributed/must.h"
#include "distributed/world.h"
#include "situ/dist.h"
#include "situ/situ.h"

typedef struct leveled {
  const dist_kind *kind;
  int stage; /* of ZeRO; 0: every rank has an optimiser of all parameters */
  int steps;
  situ_dist_ddp_options ddp;
  situ_nn_module *model[WORLD_MOST];
  int64_t bytes[WORLD_MOST]; /* of the last step */
} leveled;

static void train(world_rank *self) {
  leveled *t = self->payload;
  situ_nn_module *m = at_home(t->model[self->rank]);
  situ_optim *optim = NULL;
  situ_dist_zero *zero = NULL;
  situ_dist_ddp *ddp = situ_dist_ddp_new(m, self->comm, &t->ddp);
  MUST(ddp);
  if (t->stage == 0) optim = situ_optim_adamw(situ_nn_parameters(m), 1e-3, NULL);
  if (t->stage == 2) zero = situ_dist_zero2_new(situ_nn_parameters(m), ddp, situ_optim_adamw, 1e-3, NULL);
  if (t->stage == 3) zero = situ_dist_zero3_new(situ_nn_parameters(m), ddp, NULL, situ_optim_adamw, 1e-3, NULL);
  MUST(optim || zero);
  for (int step = 0; step < t->steps; step++) {
    const int64_t before = situ_comm_sim_bytes(self->world, self->rank);
    for (int64_t k = situ_dist_ddp_micro_batches(ddp); k > 0; k--)
      MUST(dist_micro_batch(t->kind, m, test_device(), 100 * step + situ_dist_ddp_micro_batch(ddp)) == SITU_OK);
    MUST((zero ? situ_dist_zero_step(zero) : situ_optim_step(optim)) == SITU_OK);
    MUST((zero ? situ_dist_zero_zero_grad(zero) : situ_optim_zero_grad(optim, true)) == SITU_OK);
    t->bytes[self->rank] = situ_comm_sim_bytes(self->world, self->rank) - before;
  }
  if (t->stage == 3) MUST(situ_dist_zero_unshard(zero) == SITU_OK);
out:
  situ_dist_zero_free(zero);
  situ_optim_free(optim);
  situ_dist_ddp_free(ddp);
}

static void run(leveled *t, world_rank *ranks, int size, int node_size, double delay, void (*what)(world_rank *)) {
  situ_comm_sim *world = situ_comm_sim_new(size, &(situ_comm_sim_options){ .seed = 5, .max_delay = delay });
  for (int r = 0; r < size; r++) {
    situ_manual_seed(77 + (uint64_t)r);
    t->model[r] = t->kind->make();
  }
  world_run_with(world, ranks, size, what, t, &(situ_comm_options){ .deadline = 60, .node_size = node_size });
}

static void drop(const leveled *t, int size) {
  for (int r = 0; r < size; r++) situ_nn_free(t->model[r]);
}

/* Of 6 ranks each two are a sub-tree, and so are three nodes of 4. With 3 micro-batches a rank there is one level. */
static const struct {
  int size, node_size, micro_batches;
} worlds[] = { { 4, 2, 4 }, { 8, 2, 16 }, { 8, 4, 8 }, { 16, 4, 16 }, { 12, 4, 24 }, { 12, 6, 12 }, { 6, 2, 18 } };
enum { WORLDS = sizeof worlds / sizeof *worlds };

static void nodes_do_not_change_a_bit(void **state) {
  (void)state;
  static const struct {
    int stage;
    situ_dist_ddp_options ddp;
  } ways[] = { { 0, { .bucket_bytes = 1 } },
               { 0, { .bucket_bytes = 600, .compress = SITU_BF16 } },
               { 2, { .bucket_bytes = 600 } },
               { 2, { .bucket_bytes = 0 } },
               { 3, { .bucket_bytes = 600 } } };
  for (int i = 0; i < WORLDS; i++)
    for (size_t k = 0; k < sizeof ways / sizeof *ways; k++) {
      if (ways[k].stage == 3 && worlds[i].size > 8) continue;
      world_rank ranks[WORLD_MOST];
      leveled t = { .kind = &dist_kinds[k % DIST_KINDS], .steps = 3, .ddp = ways[k].ddp };
      t.ddp.micro_batches = worlds[i].micro_batches;
      leveled alone = t;
      run(&alone, ranks, 1, 0, 0, train);
      expect_rank_ok(&ranks[0]);
      t.stage = ways[k].stage;
      run(&t, ranks, worlds[i].size, worlds[i].node_size, worlds[i].size == 8 ? 2e-4 : 0, train);
      for (int r = 0; r < worlds[i].size; r++) {
        expect_rank_ok(&ranks[r]);
        expect_equal_models(t.model[r], alone.model[0], "in nodes", worlds[i].size);
      }
      drop(&t, worlds[i].size);
      drop(&alone, 1);
    }
}

/* Parts of the node's ranks, those of the other nodes, and the sum; a byte a tensor to agree. */
static void a_rank_sends_other_nodes_its_share_of_the_sum(void **state) {
  (void)state;
  enum { TENSORS = 4, ELEMENTS = 6 * 16 + 16 + 16 * 3 + 3 };
  for (int i = 0; i < WORLDS; i++) {
    const int size = worlds[i].size, node = worlds[i].node_size & -worlds[i].node_size;
    const int64_t part = (ELEMENTS + size - 1) / size, nodes = worlds[i].micro_batches % (3 * size) ? size / node : 0;
    world_rank ranks[WORLD_MOST];
    leveled t = { .kind = &dist_kinds[0], .steps = 1, .ddp = { .micro_batches = worlds[i].micro_batches } };
    run(&t, ranks, size, worlds[i].node_size, 0, train);
    for (int r = 0; r < size; r++) {
      expect_rank_ok(&ranks[r]);
      assert_int_equal(t.bytes[r], TENSORS + 4 * part * (size * (nodes ? 1 : 2) + nodes + 1));
    }
    drop(&t, size);
  }
}

/* In the engine's order there is one level. */
static void fast_sums_are_those_without_nodes(void **state) {
  (void)state;
  for (int stage = 0; stage <= 2; stage += 2) {
    world_rank ranks[WORLD_MOST];
    leveled t[2];
    for (int k = 0; k < 2; k++) {
      t[k] = (leveled){ .kind = &dist_kinds[1], .stage = stage, .steps = 2 };
      t[k].ddp = (situ_dist_ddp_options){ .micro_batches = 8, .bucket_bytes = 600, .fast = true };
      run(&t[k], ranks, 4, k ? 2 : 0, 0, train);
      for (int r = 0; r < 4; r++) expect_rank_ok(&ranks[r]);
    }
    for (int r = 0; r < 4; r++) expect_equal_models(t[1].model[r], t[0].model[r], "fast", 4);
    drop(&t[0], 4);
    drop(&t[1], 4);
  }
}

/* ---- what it refuses ---- */

static void train_with_other_nodes(world_rank *self) {
  if (self->rank == 3) self->comm->node = 4;
  train(self);
}

static void ranks_that_disagree_are_told(void **state) {
  (void)state;
  world_rank ranks[WORLD_MOST];
  leveled t = { .kind = &dist_kinds[0], .steps = 1, .ddp = { .micro_batches = 8 } };
  run(&t, ranks, 8, 2, 0, train_with_other_nodes);
  for (int r = 0; r < 8; r++)
    if (ranks[r].status != SITU_E_COMM || !strstr(ranks[r].message, "x f32, node_size 2") ||
        !strstr(ranks[r].message, "x f32, node_size 4"))
      fail_msg("rank %d: %s", r, ranks[r].message);
  drop(&t, 8);
}

static void nodes_of_several_sizes_are_refused(void **state) {
  (void)state;
  static const int sizes[] = { -1, 3, 8 };
  for (int i = 0; i < 3; i++) {
    situ_comm_sim *world = situ_comm_sim_new(4, NULL);
    assert_null(situ_comm_sim_rank(world, 0, &(situ_comm_options){ .node_size = sizes[i] }));
    expect_error(SITU_E_ARG, "comm_new", "of 4 ranks: each node must have as many");
    situ_comm_sim_free(world);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(nodes_do_not_change_a_bit),
                                      TEST(a_rank_sends_other_nodes_its_share_of_the_sum),
                                      TEST(fast_sums_are_those_without_nodes), TEST(ranks_that_disagree_are_told),
                                      TEST(nodes_of_several_sizes_are_refused) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
