/* What joins a move of a model: its average, its loss, schedule and scaler, and caches that hooks make anew.
   SPDX-License-Identifier: MIT */
/* test-devices: sim:0 sim:1 */
#include <math.h>

#include "situ/amp.h"
#include "situ/optim.h"
#include "support/pairs.h"

/* Neither cpu nor there. */
static situ_device third(void) { return (situ_device){ SITU_SIM, 1 - there().index }; }

/* ---- what follows a model ---- */

static situ_nn_module *make_model(void) {
  situ_manual_seed(3);
  return situ_nn_sequential(situ_nn_linear(4, 8, NULL), situ_nn_batch_norm1d(8, NULL), situ_nn_linear(8, 2, NULL));
}

typedef struct party {
  situ_nn_module *model, *average, *loss;
  situ_optim *optim;
  situ_lr_scheduler *schedule;
  situ_grad_scaler *scaler;
} party;

static party begin(void) {
  situ_averaged_model_options ema = situ_averaged_model_defaults();
  situ_cross_entropy_options weighted = { .reduction = SITU_REDUCTION_MEAN };
  party p = { .model = make_model() };
  ema.decay = 0.75;
  weighted.weight = T32(SITU_SHAPE(2), 0.5, 2);
  expect_ok(situ_nn_to(p.model, situ_dev("cpu")));
  p.average = situ_optim_averaged_model(p.model, &ema);
  p.loss = situ_nn_cross_entropy_loss(&weighted);
  p.optim = situ_optim_adam(situ_nn_parameters(p.model), 0.1, NULL);
  p.schedule = situ_lr_scheduler_exponential_lr(p.optim, 0.5);
  p.scaler = situ_grad_scaler_new(NULL);
  expect_ok(situ_nn_to(p.loss, situ_dev("cpu")));
  expect_ok(situ_nn_follow(p.loss, p.model));
  return p;
}

static void train(const party *p) {
  situ_scope s;
  bool stepped;
  situ_scope_begin(&s);
  const situ_device device = situ_nn_home(p->model);
  situ_tensor *x = situ_to(situ_rand(SITU_SHAPE(6, 4), &(situ_options){ .device = situ_dev("cpu") }), device),
              *y = situ_to(situ_randint(0, 2, SITU_SHAPE(6), &(situ_options){ .device = situ_dev("cpu") }), device);
  situ_tensor *loss = situ_nn_forward2(p->loss, situ_nn_forward(p->model, x), y);
  expect_ok(situ_backward(situ_grad_scaler_scale(p->scaler, loss), NULL));
  expect_ok(situ_grad_scaler_step(p->scaler, p->optim, &stepped));
  assert_true(stepped);
  expect_ok(situ_grad_scaler_update(p->scaler, 0));
  expect_ok(situ_lr_scheduler_step(p->schedule));
  expect_ok(situ_optim_zero_grad(p->optim, true));
  expect_ok(situ_optim_update_parameters(p->average, p->model));
  expect_ok(situ_scope_end(&s));
}

static void end(party *p) {
  situ_grad_scaler_free(p->scaler);
  situ_lr_scheduler_free(p->schedule);
  situ_optim_free(p->optim);
  situ_nn_free(p->loss);
  situ_nn_free(p->average);
  situ_nn_free(p->model);
}

static void expect_same_values(situ_nn_module *a, situ_nn_module *b) {
  situ_tree *x = situ_nn_state_dict(a), *y = situ_nn_state_dict(b);
  for (int64_t i = 0; i < situ_tree_count(x); i++) {
    bool equal = false;
    expect_ok(situ_equal(situ_to(situ_detach(situ_tree_tensor_at(x, i)), situ_dev("cpu")),
                         situ_to(situ_detach(situ_tree_tensor_at(y, i)), situ_dev("cpu")), &equal));
    if (!equal) fail_msg("%s differs", situ_tree_key(x, i));
  }
  situ_tree_free(x);
  situ_tree_free(y);
}

/* One call moves all of it, no step copies between devices, and the values are those of a training on one device. */
/* placement: G8 */
static void all_join_a_move(void **state) {
  (void)state;
  party stays = begin(), goes = begin();
  situ_ledger ledger;
  char text[1024] = "";
  for (int step = 0; step < 4; step++) {
    situ_manual_seed(60 + (uint64_t)step);
    train(&stays);
    if (step == 2) expect_ok(situ_nn_to(goes.model, there()));
    situ_manual_seed(60 + (uint64_t)step);
    train(&goes);
  }
  expect_ok(situ_place_expect_on(goes.average, there()));
  expect_ok(situ_place_expect_on(goes.loss, there()));
  expect_same_values(goes.model, stays.model);
  expect_same_values(goes.average, stays.average);
  assert_int_equal(situ_place_lint_to_string(goes.average, NULL, text, sizeof text), 0);
  situ_ledger_begin(&ledger);
  expect_ok(situ_optim_update_parameters(goes.average, goes.model));
  expect_ok(situ_ledger_end(&ledger));
  assert_int_equal(situ_ledger_total(&ledger).count, 0);
  end(&stays);
  end(&goes);
}

/* What was put elsewhere stays there; what is beside the model again goes along again; NULL ends it. */
/* placement: G8 */
static void an_average_on_another_device_stays(void **state) {
  (void)state;
  party p = begin();
  expect_ok(situ_nn_to(p.average, there()));
  expect_ok(situ_nn_to(p.model, third()));
  expect_ok(situ_place_expect_on(p.average, there()));
  expect_ok(situ_nn_to(p.model, there()));
  expect_ok(situ_nn_to(p.model, situ_dev("cpu")));
  expect_ok(situ_place_expect_on(p.average, situ_dev("cpu")));
  expect_ok(situ_nn_to_dtype(p.model, SITU_F64)); /* an average keeps its digits */
  assert_int_equal(situ_dtype_of(situ_nn_get_tensor(p.average, "module.0.weight")), SITU_F32);
  expect_ok(situ_nn_follow(p.average, NULL));
  expect_ok(situ_nn_to(p.model, there()));
  expect_ok(situ_place_expect_on(p.average, situ_dev("cpu")));
  expect_ok(situ_place_expect_on(p.loss, there()));
  situ_nn_module *none = situ_nn_relu();
  assert_int_equal(situ_nn_follow(p.average, none), SITU_E_ARG);
  expect_error(SITU_E_ARG, "nn_follow", "has no parameters");
  situ_nn_free(none);
  end(&p);
}

/* Each part of the average goes with its own part of the model. */
/* placement: G8 */
static void an_average_of_a_part_goes_with_it(void **state) {
  (void)state;
  party p = begin();
  expect_ok(situ_nn_to(situ_nn_at(p.model, 2), there()));
  expect_ok(situ_place_expect_on(situ_nn_get_submodule(p.average, "module.2"), there()));
  expect_ok(situ_place_expect_on(situ_nn_get_submodule(p.average, "module.0"), situ_dev("cpu")));
  end(&p);
}

/* ---- hooks ---- */

typedef struct cache {
  situ_tensor *sums; /* of the weight's rows, on its device */
  char calls[256];
  situ_status fails; /* when it comes to `there` */
} cache;

static situ_status rebuild(situ_nn_module *m, situ_device from, situ_device to, void *payload) {
  cache *c = payload;
  char names[2][SITU_DEVICE_NAME_MAX];
  const size_t length = strlen(c->calls);
  (void)snprintf(c->calls + length, sizeof c->calls - length, "%s>%s ", situ_device_name(from, names[0]),
                 situ_device_name(to, names[1]));
  if (c->fails && situ_device_equal(to, there())) return c->fails;
  situ_scope s;
  situ_scope_begin(&s);
  situ_tensor *weight = situ_nn_get_tensor(m, "weight");
  SITU_IGNORE(!situ_set(&c->sums, situ_sum(situ_detach(weight), &(situ_reduce_options){ .dim = SITU_DIMS(1) })));
  return situ_scope_end(&s);
}

/* A cache is made anew within the move, by modules in their order, and not by what only looks. */
/* placement: B13 */
static void a_hook_makes_a_cache_anew(void **state) {
  (void)state;
  cache first = { 0 }, last = { 0 };
  char device[SITU_DEVICE_NAME_MAX], text[4096], want[64];
  int64_t handle;
  situ_nn_module *m = make_model();
  expect_ok(situ_nn_to(m, situ_dev("cpu")));
  expect_ok(situ_nn_on_move(situ_nn_at(m, 0), rebuild, &first, NULL));
  expect_ok(situ_nn_on_move(situ_nn_at(m, 2), rebuild, &last, &handle));
  const situ_nn_to_options to = { .device = there() };
  assert_true(situ_place_plan_to_string(m, &to, NULL, text, sizeof text) > 0);
  situ_tree *in = SITU_TREE(situ_ones(SITU_SHAPE(3, 4), &(situ_options){ .device = situ_dev("cpu") }));
  expect_ok(situ_place_check(m, in, NULL, NULL));
  situ_tree_free(in);
  expect_ok(situ_nn_to(m, situ_dev("cpu"))); /* it is there */
  assert_string_equal(first.calls, "");
  expect_ok(situ_nn_to(m, there()));
  (void)snprintf(want, sizeof want, "cpu>%s ", situ_device_name(there(), device));
  assert_string_equal(first.calls, want);
  assert_string_equal(last.calls, want);
  assert_true(situ_device_equal(situ_device_of(first.sums), there()));
  situ_nn_remove_hook(situ_nn_at(m, 2), handle);
  expect_ok(situ_nn_to_map(m, "2=cpu"));
  assert_string_equal(first.calls, want);
  assert_string_equal(last.calls, want);
  situ_drop(&first.sums);
  situ_drop(&last.sums);
  situ_nn_free(m);
}

static int64_t used(situ_device device) {
  situ_device_properties p;
  expect_ok(situ_synchronize(device));
  expect_ok(situ_device_info(device, &p));
  return (int64_t)p.memory_used;
}

/* A hook that fails takes all of the move back, casts too, and those that were called before it hear of it. */
/* placement: B13 */
static void a_hook_that_fails_moves_all_back(void **state) {
  (void)state;
  cache first = { 0 }, last = { .fails = SITU_E_LIMIT };
  char device[SITU_DEVICE_NAME_MAX], want[64];
  situ_nn_module *m = make_model(), *same = make_model();
  expect_ok(situ_nn_to(m, situ_dev("cpu")));
  situ_tensor *weight = situ_nn_get_tensor(m, "0.weight");
  expect_ok(situ_set_grad(weight, situ_ones_like(situ_detach(weight), NULL)));
  expect_ok(situ_nn_on_move(situ_nn_at(m, 0), rebuild, &first, NULL));
  expect_ok(situ_nn_on_move(situ_nn_at(m, 2), rebuild, &last, NULL));
  const int64_t before = used(there());
  const uint32_t version = situ_version_of(weight);
  const situ_nn_to_options to = { .device = there(), .dtype = SITU_F64 };
  assert_int_equal(situ_nn_to_with(m, &to), SITU_E_LIMIT);
  expect_error(SITU_E_LIMIT, "nn_on_move", "a hook of Linear refused the move");
  expect_ok(situ_place_expect_on(m, situ_dev("cpu")));
  assert_int_equal(situ_dtype_of(weight), SITU_F32);
  assert_int_equal(situ_version_of(weight), version);
  expect_same_values(m, same);
  situ_device_name(there(), device);
  (void)snprintf(want, sizeof want, "cpu>%s %s>cpu ", device, device);
  assert_string_equal(first.calls, want);
  assert_true(situ_device_equal(situ_device_of(first.sums), situ_dev("cpu")));
  assert_int_equal(used(there()), before);
  last.fails = SITU_OK;
  expect_ok(situ_nn_to_with(m, &to));
  expect_ok(situ_place_expect_on(m, there()));
  expect_ok(situ_nn_to_dtype(m, SITU_F32));
  expect_same_values(m, same);
  situ_drop(&first.sums);
  situ_drop(&last.sums);
  situ_nn_free(same);
  situ_nn_free(m);
}

int main(void) {
  const struct CMUnitTest tests[] = { PAIR_TEST(all_join_a_move), PAIR_TEST(an_average_on_another_device_stays),
                                      PAIR_TEST(an_average_of_a_part_goes_with_it),
                                      PAIR_TEST(a_hook_makes_a_cache_anew),
                                      PAIR_TEST(a_hook_that_fails_moves_all_back) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
