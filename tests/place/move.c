/* Moving modules: everything follows, or nothing moves. */
/* test-devices: sim:0 sim:1 opencl:0 opencl:1 */
/* test-sanitized: opencl */
#include <math.h>

#include "situ/sys/alloc.h"
#include "situ/sys/dry.h"
#include "situ/sys/move.h"
#include "support/pairs.h"

static situ_nn_module *small_net(void) {
  return situ_nn_sequential(situ_nn_linear(4, 8, NULL), situ_nn_relu(), situ_nn_linear(8, 2, NULL));
}

/* placement: A7, A8, B1, B3, B4, B14 */
static void handles_views_and_gradients_follow(void **state) {
  (void)state;
  situ_nn_module *net = small_net();
  situ_tensor *w = situ_nn_get_tensor(net, "0.weight"), *view = situ_transpose(situ_detach(w), 0, 1);
  situ_tensor *x = situ_ones(SITU_SHAPE(3, 4), NULL), *before = situ_clone(situ_detach(w));
  assert_int_equal(situ_backward(situ_sum(situ_nn_forward(net, x), NULL), NULL), SITU_OK);
  assert_int_equal(situ_nn_to(net, there()), SITU_OK);
  expect_on(w, there());
  expect_on(view, there());
  expect_on(situ_grad(w), there());
  expect_same(w, before, 0, 0);
  situ_placement place;
  assert_int_equal(situ_place_of(net, &place), SITU_OK);
  assert_int_equal(place.parameters, 4);
  assert_int_equal(place.bytes, 4 * (4 * 8 + 8 + 8 * 2 + 2));
  assert_true(!place.mixed && situ_device_equal(place.device, there()));
  expect_refused(situ_nn_forward(net, x), SITU_E_DEVICE, "linear", "odd one out: input");
  assert_non_null(situ_nn_forward(net, situ_to(x, there())));
  assert_int_equal(situ_nn_to(net, here()), SITU_OK);
  expect_same(w, before, 0, 0);
  situ_nn_free(net);
}

/* placement: B2, B5 */
static void all_roles_move(void **state) {
  (void)state;
  static const situ_nn_kind roles[] = { SITU_NN_PARAMETER, SITU_NN_BUFFER, SITU_NN_TRANSIENT };
  static const char *const names[] = { "weight", "mean", "not_saved" };
  situ_nn_module *m = situ_nn_module_dict();
  situ_tensor *made[3];
  for (int i = 0; i < 3; i++)
    assert_non_null(situ_nn_add_tensor(m, names[i], NULL, made[i] = situ_ones(SITU_SHAPE(2), NULL), roles[i]));
  expect_ok(situ_nn_to(m, there()));
  for (int i = 0; i < 3; i++) {
    assert_ptr_equal(situ_nn_get_tensor(m, names[i]), made[i]);
    expect_on(made[i], there());
  }
  situ_nn_free(m);
}

/* placement: B6 */
static void tied_weights_stay_tied(void **state) {
  (void)state;
  situ_nn_module *a = situ_nn_linear(3, 3, NULL), *net = situ_nn_module_list(a, situ_nn_retain(a));
  assert_int_equal(situ_nn_to(net, there()), SITU_OK);
  situ_placement place;
  assert_int_equal(situ_place_of(net, &place), SITU_OK);
  assert_int_equal(place.bytes, 4 * (9 + 3));
  assert_ptr_equal(situ_nn_get_tensor(net, "0.weight"), situ_nn_get_tensor(net, "1.weight"));
  situ_nn_free(net);
}

/* Between forward and backward: the graph's other values are still on the old device, so backward must refuse, and say so. */
/* placement: G4 */
static void a_move_between_forward_and_backward_is_refused(void **state) {
  (void)state;
  situ_nn_module *net = small_net();
  situ_tensor *loss = situ_sum(situ_nn_forward(net, situ_ones(SITU_SHAPE(3, 4), NULL)), NULL);
  assert_int_equal(situ_nn_to(net, there()), SITU_OK);
  situ_status status = situ_backward(loss, NULL);
  assert_true(status == SITU_E_DEVICE || status == SITU_E_STATE);
  expect_error(status, "", "");
  assert_null(situ_grad(situ_nn_get_tensor(net, "0.weight")));
  situ_nn_free(net);
}

/* placement: B10 */
static void a_failed_move_changes_nothing(void **state) {
  (void)state;
  situ_nn_module *net = small_net();
  situ_tensor *w = situ_nn_get_tensor(net, "2.weight"), *before = situ_clone(situ_detach(w));
  int64_t bytes = situ_live_bytes();
  int points = 0;
  for (uint64_t nth = 1; nth < 100; nth++) {
    situ_fail_allocation(nth, false);
    situ_status status = situ_nn_to(net, there());
    situ_fail_allocation(0, false);
    if (status == SITU_OK) break;
    points++;
    assert_int_equal(status, SITU_E_NOMEM);
    situ_error_clear();
    expect_on(w, here());
    expect_same(w, before, 0, 0);
    assert_int_equal(situ_live_bytes(), bytes);
  }
  assert_true(points > 0);
  expect_on(w, there());
  situ_nn_free(net);
}

/* Packed together, each from its own dtype. */
static bool moves_too(void *payload) { return situ_nn_to(payload, there()) == SITU_OK; }
static bool refuses(void *payload) {
  ++*(int *)payload;
  return false;
}

static void a_move_of_two_models_is_one(void **state) {
  (void)state;
  situ_nn_module *a = small_net(), *b = small_net();
  int calls = 0;
  situ_nn_to_options o = { .device = there(), .agree = refuses, .payload = &calls };
  assert_int_equal(situ_nn_to_with(a, &o), SITU_E_STATE);
  expect_error(SITU_E_STATE, "nn_to_with", "was not agreed to");
  assert_int_equal(calls, 1);
  o.agree = moves_too, o.payload = NULL;
  assert_int_equal(situ_nn_to_with(a, &o), SITU_E_ARG);
  expect_error(SITU_E_ARG, "nn_to", "module");
  expect_on(situ_nn_get_tensor(a, "0.weight"), here());
  o.payload = b;
  assert_int_equal(situ_nn_to_with(a, &o), SITU_OK);
  expect_on(situ_nn_get_tensor(a, "2.bias"), there());
  expect_on(situ_nn_get_tensor(b, "2.bias"), there());
  situ_nn_free(a);
  situ_nn_free(b);
}

static void casts_from_several_dtypes(void **state) {
  (void)state;
  static const situ_dtype from[] = { SITU_F64, SITU_F16, SITU_BF16, SITU_F64 };
  enum { COUNT = sizeof from / sizeof *from };
  situ_move_request list[COUNT];
  for (int i = 0; i < COUNT; i++) {
    situ_tensor *t = situ_full(SITU_SHAPE(3), 1.5 + i, &(situ_options){ .dtype = from[i] });
    list[i] = (situ_move_request){ t, there(), SITU_F32 };
  }
  situ_move_plan *plan = situ_move_plan_new("to", list, COUNT);
  assert_int_equal(situ_move_plan_run(plan, true), SITU_OK);
  situ_move_plan_free(plan);
  for (int i = 0; i < COUNT; i++) expect_exact(list[i].tensor, SITU_SHAPE(3), 1.5 + i, 1.5 + i, 1.5 + i);
}

/* More than travel together, listed twice, and planned again in another order: storages keep the marks of the first plan.
   One value that would be lost, far behind, keeps all where they are. */
static void many_small_ones(void **state) {
  (void)state;
  enum { COUNT = 2500 };
  static situ_move_request list[2 * COUNT];
  for (int i = 0; i < COUNT; i++) {
    situ_tensor *t = situ_full(SITU_SHAPE(3), i, NULL);
    list[i] = list[2 * COUNT - 1 - i] = (situ_move_request){ t, there(), SITU_DTYPE_DEFAULT };
  }
  for (int round = 0; round < 2; round++) {
    situ_move_plan *plan = situ_move_plan_new("to", list + round * COUNT, (2 - round) * COUNT);
    int64_t units;
    assert_non_null(situ_move_plan_units(plan, &units));
    assert_int_equal(units, COUNT);
    assert_int_equal(situ_move_plan_run(plan, false), SITU_OK);
    situ_move_plan_free(plan);
    for (int i = 0; i < COUNT; i++) expect_exact(list[i].tensor, SITU_SHAPE(3), i, i, i);
    for (int i = 0; i < 2 * COUNT; i++) list[i].to = here();
  }
  for (int i = 0; i < COUNT; i++) list[i].dtype = SITU_F16;
  situ_fill_(list[COUNT - 3].tensor, 1e6);
  situ_move_plan *plan = situ_move_plan_new("to", list, COUNT);
  expect_refused(situ_move_plan_run(plan, false) == SITU_OK ? plan : NULL, SITU_E_OVERFLOW, "to", "nothing was moved");
  for (int i = 0; i < COUNT; i++) assert_int_equal(situ_dtype_of(list[i].tensor), SITU_F32);
  situ_move_plan_free(plan);
}

/* The end of a row is cast by other instructions than the rest. Of infinite values those count that were finite. */
static void rows_of_all_lengths_are_cast(void **state) {
  (void)state;
  enum { MOST = 40 };
  situ_move_request list[MOST];
  situ_tensor *want[MOST];
  int64_t lost[MOST] = { 0 }, units;
  for (int n = 1; n <= MOST; n++) {
    float x[MOST];
    for (int i = 0; i < n; i++) x[i] = 0.1f * (float)i - 1e-7f;
    x[n - 1] = -1e6f;
    x[n / 2] = 65520; /* the least that is rounded to infinity */
    x[0] = n % 2 ? 65519 : INFINITY;
    for (int i = 0; i < n; i++) lost[n - 1] += isfinite(x[i]) && fabsf(x[i]) >= 65520;
    situ_tensor *t = situ_from_host(x, (size_t)n * sizeof *x, SITU_SHAPE(n), NULL);
    want[n - 1] = situ_to_dtype(t, SITU_F16);
    list[n - 1] = (situ_move_request){ t, here(), SITU_F16 };
  }
  situ_move_plan *plan = situ_move_plan_new("to", list, MOST);
  expect_ok(situ_move_plan_run(plan, true));
  const situ_move_unit *unit = situ_move_plan_units(plan, &units);
  assert_int_equal(units, MOST);
  for (int n = 1; n <= MOST; n++) {
    uint16_t got[MOST], good[MOST];
    expect_ok(situ_copy_to_host(list[n - 1].tensor, got, (size_t)n * sizeof *got));
    expect_ok(situ_copy_to_host(want[n - 1], good, (size_t)n * sizeof *good));
    assert_memory_equal(got, good, (size_t)n * sizeof *got);
    assert_int_equal(unit[n - 1].values_lost, lost[n - 1]);
  }
  situ_move_plan_free(plan);
}

/* Memory is given up, and given away, by the tensor that has it for itself alone. */
static void memory_is_given_up_whole(void **state) {
  (void)state;
  const char *op = "give", *alone = "does not have memory for itself alone";
  situ_tensor *t = situ_ones(SITU_SHAPE(4, 3), NULL), *other = situ_full(SITU_SHAPE(4, 3), 2, NULL);
  situ_tensor *parts[] = { situ_narrow(t, 0, 0, 2), situ_narrow(t, 0, 2, 2), situ_narrow(t, 1, 0, 2),
                           situ_expand(situ_narrow(t, 0, 0, 1), SITU_SHAPE(4, 3)),
                           situ_ones(SITU_SHAPE(2), &(situ_options){ .device = situ_dev("meta") }) };
  for (size_t i = 0; i < 4; i++) {
    assert_int_equal(situ_release_memory(op, parts[i], "elsewhere"), SITU_E_UNSUPPORTED);
    expect_error(SITU_E_UNSUPPORTED, op, alone);
  }
  expect_ok(situ_release_memory(op, t, "elsewhere"));
  assert_true(situ_memory_is_away(t));
  assert_int_equal(situ_return_memory(op, t, parts[4]), SITU_E_UNSUPPORTED);
  expect_error(SITU_E_UNSUPPORTED, op, alone);
  expect_ok(situ_return_memory(op, t, other));
  assert_false(situ_memory_is_away(t));
  expect_same(t, situ_full(SITU_SHAPE(4, 3), 2, NULL), 0, 0);
  expect_ok(situ_release_memory(op, parts[4], "elsewhere"));
  assert_false(situ_has_values(parts[4]));
}

/* What a dry run has made may move in it, whatever the number of storages. */
static void a_dry_run_moves_its_own(void **state) {
  (void)state;
  enum { MOST = 20 };
  situ_move_request list[MOST];
  for (int count = 1; count <= MOST; count++) {
    situ_dry dry = { 0 };
    situ_scope s;
    assert_int_equal(situ_dry_begin(&dry), SITU_OK);
    situ_scope_begin(&s);
    for (int i = 0; i < count; i++) {
      situ_tensor *t = situ_requires_grad_(situ_ones(SITU_SHAPE(3), NULL), true);
      expect_ok(situ_backward(situ_sum(t, NULL), NULL));
      list[i] = (situ_move_request){ .tensor = t, .to = there() };
    }
    situ_move_plan *plan = situ_move_plan_new("to", list, count);
    expect_ok(situ_move_plan_run(plan, false));
    situ_move_plan_free(plan);
    for (int i = 0; i < count; i++) expect_on(situ_grad(list[i].tensor), there());
    expect_ok(situ_scope_end(&s));
    assert_int_equal(situ_dry_end(&dry), 0);
  }
}

/* The plan of a move has the same answers in a dry run as outside of one. */
static void a_dry_run_knows_what_fits(void **state) {
  (void)state;
  needs_sim();
  situ_nn_module *net = situ_nn_linear(1024, 1024, NULL);
  expect_ok(situ_sim_budget(there().index, 1 << 20));
  for (int inside = 0; inside < 2; inside++) {
    situ_dry dry = { 0 };
    situ_place_plan plan;
    if (inside) assert_int_equal(situ_dry_begin(&dry), SITU_OK);
    char text[2048];
    assert_true(situ_place_plan_to_string(net, &(situ_nn_to_options){ .device = there() }, &plan, text, sizeof text) >
                0);
    assert_int_equal(plan.status, SITU_E_NOMEM);
    assert_true(situ_error() == SITU_OK);
    if (inside) assert_int_equal(situ_dry_end(&dry), 0);
  }
  expect_ok(situ_sim_reset(there().index));
  situ_nn_free(net);
}

int main(void) {
  const struct CMUnitTest tests[] = { PAIR_TEST(handles_views_and_gradients_follow),
                                      PAIR_TEST(all_roles_move),
                                      PAIR_TEST(tied_weights_stay_tied),
                                      PAIR_TEST(a_move_between_forward_and_backward_is_refused),
                                      PAIR_TEST(a_failed_move_changes_nothing),
                                      PAIR_TEST(a_move_of_two_models_is_one),
                                      PAIR_TEST(casts_from_several_dtypes),
                                      PAIR_TEST(many_small_ones),
                                      PAIR_TEST(rows_of_all_lengths_are_cast),
                                      PAIR_TEST(memory_is_given_up_whole),
                                      PAIR_TEST(a_dry_run_moves_its_own),
                                      PAIR_TEST(a_dry_run_knows_what_fits) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
