/* What a plan promises is what happens: random modules, random moves, devices of random sizes. It says that a move fits if and
   only if it can be made, the peak is that to the byte, and what was refused is wholly where it was. */
/* test-devices: sim:0 */
#include <stdlib.h>

#include "device/block_cache.h"
#include "place/place.h"
#include "situ/nn.h"
#include "situ/sys/move.h"
#include "situ/sys/sim.h"
#include "support/pairs.h"

enum { SIMS = 2, TRIALS = 1000, MiB = 1 << 20 };

static unsigned seed;
static int64_t upto(int64_t most) { return (int64_t)((double)(most + 1) * rand_r(&seed) / ((double)RAND_MAX + 1)); }
static situ_device sim(int index) { return (situ_device){ SITU_SIM, (uint16_t)index }; }

/* Many small layers, some large ones, or both: what travels together, alone and by pieces. */
static situ_nn_module *random_module(void) {
  situ_nn_module *net = situ_nn_module_list_of(0, NULL);
  for (int64_t small = upto(1) * upto(30); small > 0; small--)
    expect_ok(situ_nn_append(net, upto(3) ? situ_nn_linear(1 + upto(40), 1 + upto(40), NULL)
                                          : situ_nn_batch_norm1d(1 + upto(300), NULL))
                  ? SITU_OK
                  : situ_error());
  for (int64_t large = upto(2); large > 0; large--)
    expect_ok(situ_nn_append(net, situ_nn_embedding(1 + upto(1200), 1 + upto(upto(1) ? 100 : 1500), NULL))
                  ? SITU_OK
                  : situ_error());
  expect_ok(situ_nn_append(net, situ_nn_linear(1 + upto(200), 1 + upto(200), NULL)) ? SITU_OK : situ_error());
  return net;
}

static situ_dtype random_dtype(void) {
  static const situ_dtype some[] = { SITU_DTYPE_DEFAULT, SITU_DTYPE_DEFAULT, SITU_F32, SITU_F16, SITU_BF16, SITU_F64 };
  return some[upto(5)];
}

static situ_nn_to_options random_move(void) {
  static const char *const maps[] = { "0=sim:0, *=sim:1", "0=sim:1, *=cpu", "0=cpu, *=sim:0" };
  situ_nn_to_options o = { .dtype = random_dtype() };
  int64_t kind = upto(5);
  if (kind == 0) o.map = maps[upto(2)];
  else if (kind < 5) o.device = kind == 1 ? situ_dev("cpu") : sim((int)upto(1));
  else if (!o.dtype) o.dtype = SITU_F64;
  return o;
}

/* ---- what is there ---- */

typedef struct state {
  situ_tensor *tensor[400];
  void *bytes[400];
  situ_device device[400];
  situ_dtype dtype[400];
  int count;
} state;

static size_t size_of(const situ_tensor *t) { return (size_t)situ_numel(t) * situ_dtype_size(situ_dtype_of(t)); }

static situ_status note(const situ_nn_visit *at, void *payload) {
  state *s = payload;
  assert_true(s->count < 400);
  situ_tensor *t = at->tensor;
  s->bytes[s->count] = test_malloc(size_of(t));
  expect_ok(situ_copy_to_host(t, s->bytes[s->count], size_of(t)));
  s->device[s->count] = situ_device_of(t);
  s->dtype[s->count] = situ_dtype_of(t);
  s->tensor[s->count++] = t;
  return SITU_OK;
}

static void is_as_before(const state *s) {
  for (int i = 0; i < s->count; i++) {
    expect_on(s->tensor[i], s->device[i]);
    assert_int_equal(situ_dtype_of(s->tensor[i]), s->dtype[i]);
    void *now = test_malloc(size_of(s->tensor[i]));
    expect_ok(situ_copy_to_host(s->tensor[i], now, size_of(s->tensor[i])));
    assert_memory_equal(now, s->bytes[i], size_of(s->tensor[i]));
    test_free(now);
  }
}

static void forget(state *s) {
  for (int i = 0; i < s->count; i++) test_free(s->bytes[i]);
}

/* ---- budgets ---- */

/* What the simulated devices have out, with an empty cache; from here on its most is looked at. */
static void empty_caches(uint64_t out[SIMS]) {
  for (int i = 0; i < SIMS; i++) {
    expect_ok(situ_empty_cache(sim(i)));
    out[i] = situ__block_cache_of(sim(i))->out;
    situ_sim_statistics st;
    expect_ok(situ_sim_stats(i, &st));
    assert_int_equal(st.used, out[i]);
  }
}

static uint64_t most_since(int i, uint64_t out) {
  const situ__block_cache *d = situ__block_cache_of(sim(i));
  return (d->highest > d->before ? d->highest : d->before) - out;
}

/* The most that the move would take of each device, by its plan. */
static void predict(situ_nn_module *net, const situ_nn_to_options *o, uint64_t peak[SIMS]) {
  situ__move_requests w;
  expect_ok(situ__move_requests_of(&w, "plan_true", net, o));
  situ_move_plan *m = situ_move_plan_new("plan_true", w.list, w.count);
  assert_non_null(m);
  for (int i = 0; i < SIMS; i++) peak[i] = situ_move_plan_peak_on(m, sim(i));
  assert_int_equal(situ_move_plan_peak(m), peak[0] + peak[1] + situ_move_plan_peak_on(m, situ_dev("cpu")));
  situ_move_plan_free(m);
  situ__move_requests_free(&w);
}

/* Nothing, too little, just enough, a byte less, and anything around. */
static uint64_t random_room(uint64_t wanted) {
  switch (upto(4)) {
  case 0: return 0;
  case 1: return wanted;
  case 2: return wanted ? wanted - 1 : 0;
  case 3: return (uint64_t)upto((int64_t)wanted);
  default: return (uint64_t)upto((int64_t)wanted + 5 * MiB);
  }
}

typedef struct tally {
  int fitted, refused, tight;
} tally;

static situ_place_plan plan_of(situ_nn_module *net, const situ_nn_to_options *o) {
  situ_place_plan p;
  assert_true(situ_place_plan_to_string(net, o, &p, NULL, 0) > 0);
  return p;
}

/* Makes the move: as the plan said. */
static void make(situ_nn_module *net, const situ_nn_to_options *o, const uint64_t out[SIMS], tally *sum) {
  uint64_t peak[SIMS], now[SIMS];
  state before = { .count = 0 };
  expect_ok(situ_nn_walk(net, SITU_NN_VISIT_TENSORS, note, &before));
  empty_caches(now);
  for (int i = 0; i < SIMS; i++) assert_int_equal(now[i], out[i]);
  const situ_place_plan p = plan_of(net, o);
  predict(net, o, peak);
  situ_status status = situ_nn_to_with(net, o);
  assert_int_equal(status, p.status);
  if (status != SITU_OK) {
    assert_int_equal(status, SITU_E_NOMEM);
    assert_non_null(strstr(situ_error_message(), "nothing was moved"));
    situ_error_clear();
    is_as_before(&before);
    empty_caches(now);
    for (int i = 0; i < SIMS; i++) assert_int_equal(now[i], out[i]);
    sum->refused++;
  } else {
    for (int i = 0; i < SIMS; i++) assert_int_equal(most_since(i, out[i]), peak[i]);
    sum->fitted++;
  }
  forget(&before);
}

static void trial(tally *sum) {
  uint64_t out[SIMS], free_peak[SIMS], peak[SIMS];
  situ_nn_module *net = random_module();
  int64_t from = upto(2);
  expect_ok(situ_nn_to_with(
      net, &(situ_nn_to_options){ .device = from ? sim((int)from - 1) : situ_dev("cpu"), .dtype = random_dtype() }));
  const situ_nn_to_options o = random_move();
  predict(net, &o, free_peak);
  empty_caches(out);
  for (int i = 0; i < SIMS; i++) expect_ok(situ_sim_budget(i, out[i] + random_room(free_peak[i])));
  int refused = sum->refused;
  predict(net, &o, peak);
  make(net, &o, out, sum);
  if (sum->refused > refused) { /* what it is said to need is enough */
    for (int i = 0; i < SIMS; i++) expect_ok(situ_sim_budget(i, out[i] + peak[i]));
    make(net, &o, out, sum);
    assert_int_equal(sum->refused, refused + 1);
    sum->tight++;
  }
  for (int i = 0; i < SIMS; i++) expect_ok(situ_sim_reset(i));
  situ_nn_free(net);
}

/* placement: A16, B4, B11, B12 */
static void a_plan_is_what_happens(void **unused) {
  (void)unused;
  tally sum = { 0 };
  const int trials = test_is_slow() ? TRIALS / 4 : TRIALS;
  for (int k = 0; k < trials; k++) {
    seed = (unsigned)k + 1;
    situ_scope s;
    situ_scope_begin(&s);
    trial(&sum);
    expect_ok(situ_scope_end(&s));
  }
  print_message(
      "%d modules and budgets: %d moves fitted, %d were refused, %d of them fitted with the room that they were said to need; 0 surprises\n",
      trials, sum.fitted, sum.refused, sum.tight);
  assert_true(sum.fitted > trials / 2 && sum.refused > trials / 20);
}

/* A device on which not a byte is free can be emptied, also by a move that casts. */
static void a_full_device_can_be_emptied(void **unused) {
  (void)unused;
  static const situ_dtype dtypes[] = { SITU_DTYPE_DEFAULT, SITU_F16, SITU_F64 };
  static const char *const to[] = { "cpu", "sim:0" };
  for (int k = 0; k < 6; k++) {
    uint64_t out[SIMS];
    situ_nn_module *net = situ_nn_sequential(situ_nn_linear(1024, 1024, NULL), situ_nn_linear(30, 20, NULL),
                                             situ_nn_linear(20, 30, NULL));
    expect_ok(situ_nn_to(net, sim(1)));
    empty_caches(out);
    expect_ok(situ_sim_budget(1, out[1]));
    const situ_nn_to_options o = { .device = situ_dev(to[k % 2]), .dtype = dtypes[k / 2] };
    assert_int_equal(plan_of(net, &o).status, SITU_OK);
    expect_ok(situ_nn_to_with(net, &o));
    empty_caches(out);
    assert_int_equal(out[1], 0);
    expect_ok(situ_sim_reset(1));
    situ_nn_free(net);
  }
}

/* A refusal names what takes most of the memory, by its path, the gradient of a parameter too. */
/* placement: A16 */
static void the_largest_are_listed(void **unused) {
  (void)unused;
  situ_nn_module *net = situ_nn_set_name(
      situ_nn_sequential(situ_nn_linear(64, 32, NULL), situ_nn_linear(32, 512, NULL), situ_nn_linear(512, 8, NULL)),
      "net");
  situ_tensor *weight = situ_nn_get_tensor(net, "1.weight");
  expect_ok(situ_set_grad(weight, situ_ones_like(weight, NULL)));
  expect_ok(situ_empty_cache(sim(1)));
  expect_ok(situ_sim_budget(1, 1000));
  assert_int_equal(situ_nn_to(net, sim(1)), SITU_E_NOMEM);
  if (!strstr(situ_error_message(),
              "nothing was moved\n  largest: net.1.weight (64.0 KiB), net.1.weight.grad (64.0 KiB), "
              "net.2.weight (16.0 KiB), net.0.weight (8.0 KiB), net.1.bias (2.0 KiB)"))
    fail_msg("%s", situ_error_message());
  situ_error_clear();
  expect_ok(situ_sim_reset(1));
  situ_nn_free(net);
}

/* Twelve equal blocks are one, another after them is not; who shares a storage is named. */
/* placement: B11 */
static void a_plan_shows_ties_and_groups_equal_blocks(void **unused) {
  (void)unused;
  situ_nn_module *net = situ_nn_module_dict(), *layers = situ_nn_module_list_of(0, NULL),
                 *embed = situ_nn_embedding(50, 8, NULL);
  for (int k = 0; k < 13; k++)
    layers = situ_nn_append(
        layers, situ_nn_sequential(situ_nn_linear(8, k < 12 ? 16 : 17, NULL), situ_nn_layer_norm(SITU_SHAPE(4), NULL)));
  net = situ_nn_put(situ_nn_put(situ_nn_put(net, "embed", embed), "layers", layers), "head", situ_nn_retain(embed));
  assert_non_null(net);
  char text[8192];
  assert_true(situ_place_plan_to_string(net, &(situ_nn_to_options){ .device = sim(0) }, NULL, text, sizeof text) > 0);
  static const char *const has[] = {
    "embed.weight                         parameter cpu -> sim:0     f32             1.6 KiB  tied: head.weight\n",
    "layers.0-11.0.weight                 parameter cpu -> sim:0     f32               512 B  12 times\n",
    "layers.0-11.1.bias                   parameter cpu -> sim:0     f32                16 B  12 times\nlayers.12.0.weight ",
    "layers.12.1.bias                     parameter cpu -> sim:0     f32                16 B\n", "\n53 storages move"
  };
  for (size_t k = 0; k < sizeof has / sizeof *has; k++)
    if (!strstr(text, has[k])) fail_msg("lacks \"%s\":\n%s", has[k], text);
  situ_nn_free(net);
}

/* A weight that needs 17 MiB in whole blocks does not fit in a byte less, and the plan says so. */
static void rounding_is_planned(void **unused) {
  (void)unused;
  situ_nn_module *net = situ_nn_embedding(2050, 2050, NULL);
  const situ_nn_to_options o = { .device = sim(1) };
  for (int less = 1; less >= 0; less--) {
    expect_ok(situ_empty_cache(sim(1)));
    expect_ok(situ_sim_budget(1, 17 * MiB - (uint64_t)less));
    const situ_place_plan p = plan_of(net, &o);
    assert_int_equal(p.peak, 17 * MiB);
    assert_int_equal(p.status, less ? SITU_E_NOMEM : SITU_OK);
    assert_int_equal(situ_nn_to_with(net, &o), p.status);
    situ_error_clear();
  }
  expect_ok(situ_sim_reset(1));
  situ_nn_free(net);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    PAIR_TEST(a_plan_is_what_happens),
    PAIR_TEST(a_full_device_can_be_emptied),
    PAIR_TEST(rounding_is_planned),
    PAIR_TEST(the_largest_are_listed),
    PAIR_TEST(a_plan_shows_ties_and_groups_equal_blocks),
  };
  return cmocka_run_group_tests_name("place/plan_true", tests, NULL, NULL);
}
