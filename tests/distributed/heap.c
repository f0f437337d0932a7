/* Host memory of several ranks: at the start beside the model, and for each of many parameters in parts. */
/* test-devices: cpu */
#include "distributed/must.h"
#include "distributed/world.h"
#include "situ/dist.h"
#include "situ/optim.h"
#include "support/heap.h"

/* ---- the start ---- */

enum { RANKS = 8, WIDTH = 64, LAYERS = 64, MODEL = LAYERS * WIDTH * (WIDTH + 1) * (int)sizeof(float) };

static situ_nn_module *make_deep(int layers, int width) {
  situ_nn_module *m = situ_nn_sequential(situ_nn_linear(width, width, NULL));
  for (int i = 1; i < layers; i++) m = situ_nn_append(m, situ_nn_linear(width, width, NULL));
  return m;
}

static void start(world_rank *self) {
  situ_nn_module **models = self->payload;
  situ_dist_ddp *ddp = situ_dist_ddp_new(models[self->rank], self->comm, NULL);
  MUST(ddp);
out:
  situ_dist_ddp_free(ddp);
}

/* A bucket is an eighth of the model. Two are on their way at a time: once on each rank, once more on the rank that
   sends them, and once in the simulated engine. */
static void a_start_holds_the_model_once(void **state) {
  (void)state;
  situ_nn_module *models[RANKS];
  world_rank ranks[WORLD_MOST];
  for (int r = 0; r < RANKS; r++) {
    situ_manual_seed(77 + (uint64_t)r);
    models[r] = make_deep(LAYERS, WIDTH);
  }
  const long long before = heap_begin();
  world_run(situ_comm_sim_new(RANKS, NULL), ranks, RANKS, start, models, 60);
  const long long most = atomic_load(&heap_most) - before, allowed = (RANKS + 2) * 2 * (MODEL / 8) + (1 << 20);
  for (int r = 0; r < RANKS; r++) expect_rank_ok(&ranks[r]);
  print_message("start: %lld bytes of %d ranks beside models of %d\n", most, RANKS, MODEL);
  if (most > allowed) fail_msg("%lld bytes beside %d models of %d, at most %lld", most, RANKS, MODEL, allowed);
  for (int r = 0; r < RANKS; r++) {
    if (r) expect_equal_models(models[r], models[0], "deep", RANKS);
  }
  for (int r = 0; r < RANKS; r++) situ_nn_free(models[r]);
}

/* ---- many ranks ---- */

static void compare(world_rank *self) {
  situ_nn_module **models = self->payload;
  situ_dist_ddp *ddp =
      situ_dist_ddp_new(models[self->rank], self->comm, &(situ_dist_ddp_options){ .no_broadcast = true });
  MUST(ddp);
out:
  situ_dist_ddp_free(ddp);
}

/* Models of many small tensors are compared: what a rank needs for that does not grow with the ranks. */
static void a_comparison_costs_the_same_for_any_number_of_ranks(void **state) {
  (void)state;
  enum { MANY = 4000 }; /* many, as memory comes in pieces of 2 MiB, of which some is left from before */
  static const int sizes[] = { 8, 32 };
  long long most[2];
  for (int i = 0; i < 2; i++) {
    const int size = sizes[i];
    situ_nn_module *models[WORLD_MOST];
    world_rank ranks[WORLD_MOST];
    for (int r = 0; r < size; r++) {
      situ_manual_seed(7);
      models[r] = make_deep(MANY, 1);
    }
    const long long before = heap_begin();
    world_run(situ_comm_sim_new(size, NULL), ranks, size, compare, models, 60);
    most[i] = (atomic_load(&heap_most) - before) / size;
    for (int r = 0; r < size; r++) expect_rank_ok(&ranks[r]);
    for (int r = 0; r < size; r++) situ_nn_free(models[r]);
    print_message("start: %lld bytes a rank of %d\n", most[i], size);
  }
  if (4 * most[1] > 5 * most[0]) fail_msg("%lld bytes a rank of %d, %lld of %d", most[1], sizes[1], most[0], sizes[0]);
}

/* ---- parameters in parts ---- */

typedef struct held {
  int layers;
  long long bytes; /* that ddp and its optimiser have for a layer */
} held;

static void divide(world_rank *self) {
  held *h = self->payload;
  situ_nn_module *m = make_deep(h->layers, 1);
  const long long before = heap_begin();
  situ_dist_ddp *ddp = situ_dist_ddp_new(m, self->comm, NULL);
  situ_dist_zero *zero = NULL;
  MUST(ddp);
  MUST((zero = situ_dist_zero3_new(situ_nn_parameters(m), ddp, NULL, situ_optim_sgd, 0.1, NULL)));
  MUST(situ_empty_cache(situ_dev("cpu")) == SITU_OK); /* what is kept for later */
  h->bytes = (atomic_load(&heap_bytes) - before) / h->layers;
out:
  situ_dist_zero_free(zero);
  situ_dist_ddp_free(ddp);
  situ_nn_free(m);
}

/* Each layer is a unit with a bucket of its own. Twice, since pieces of 2 MiB are held for a part of them; a list of
   all in each would be 32 times. */
static void many_buckets_cost_what_one_does(void **state) {
  (void)state;
  held few = { .layers = 100 }, many = { .layers = 3200 }, *const all[] = { &few, &many };
  for (int i = 0; i < 2; i++) {
    world_rank rank[WORLD_MOST];
    world_run(situ_comm_sim_new(1, NULL), rank, 1, divide, all[i], 60);
    expect_rank_ok(rank);
    print_message("stage 3: %lld bytes a layer of %d\n", all[i]->bytes, all[i]->layers);
  }
  if (many.bytes > 2 * few.bytes) fail_msg("%lld bytes a layer of %d", many.bytes, many.layers);
}

int main(void) {
  heap_count();
  const struct CMUnitTest tests[] = { TEST(many_buckets_cost_what_one_does), /* first: others leave free memory */
                                      TEST(a_start_holds_the_model_once),
                                      TEST(a_comparison_costs_the_same_for_any_number_of_ranks) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
