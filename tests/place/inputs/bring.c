/* Modules that were told to copy their inputs. */
/* test-devices: sim:0 sim:1 opencl:0 opencl:1 */
#include "situ/profile.h"
#include "situ/sys/alloc.h"
#include "situ/place/signature.h"
#include "support/pairs.h"

/* "net": its layer 1 is elsewhere. */
static situ_nn_module *spread_net(void) {
  situ_nn_module *net = situ_nn_sequential(situ_nn_linear(3, 4, NULL), situ_nn_linear(4, 2, NULL), situ_nn_relu());
  char map[32];
  (void)snprintf(map, sizeof map, "1=%s", name_of(there()));
  expect_ok(situ_nn_to_map(net, map));
  return situ_nn_set_name(net, "net");
}

static situ_tensor *input(void) { return situ_ones(SITU_SHAPE(2, 3), NULL); }

/* placement: B20 */
static void a_module_brings_its_inputs_if_told(void **state) {
  (void)state;
  situ_nn_module *net = spread_net(), *layer = situ_nn_get_submodule(net, "1");
  situ_tensor *x = situ_requires_grad_(input(), true);
  assert_false(situ_nn_brings_inputs(layer));
  assert_null(situ_nn_forward(net, x));
  expect_error(SITU_E_DEVICE, "linear", "device mismatch");
  expect_ok(situ_nn_bring_inputs(net, true)); /* its parts do not inherit it */
  assert_null(situ_nn_forward(net, x));
  expect_error(SITU_E_DEVICE, "linear", "device mismatch");

  expect_ok(situ_nn_bring_inputs(layer, true));
  assert_true(situ_nn_brings_inputs(layer));
  char declared[64], at[SITU_DEVICE_NAME_MAX];
  (void)snprintf(declared, sizeof declared, "inputs=%s", situ_device_name(there(), at));
  expect_ok(situ_place_declare(layer, declared));
  expect_ok(situ_nn_bring_inputs(layer, true)); /* told again, it is still before the check of what was declared */
  assert_non_null(situ_nn_forward(net, x));
  expect_ok(situ_place_declare(layer, NULL));
  situ_ledger ledger;
  situ_ledger_begin(&ledger);
  situ_tensor *y = situ_nn_forward(net, x);
  situ_transfer t[2];
  char text[1024], path[64];
  assert_int_equal(situ_ledger_transfers(&ledger, t, 1), 1);
  assert_string_equal(t->reason, "input");
  assert_string_equal(t->op, "nn_bring_inputs");
  assert_string_equal(t->module, "net.1");
  assert_int_equal(t->bytes, 2 * 4 * 4);
  assert_true(situ_ledger_to_string(&ledger, text, sizeof text) > 0);
  assert_non_null(strstr(text, "by nn_bring_inputs (input)  in net.1"));
  assert_true(situ_ledger_json(&ledger, text, sizeof text) > 0);
  assert_non_null(strstr(text, "\"module\": \"net.1\""));
  expect_on(y, there());
  expect_ok(situ_backward(situ_sum(y, NULL), NULL));
  expect_on(situ_grad(x), here()); /* and its gradient came home */
  assert_int_equal(situ_ledger_transfers(&ledger, t, 2), 2);
  assert_string_equal(t[1].reason, "input");
  expect_ok(situ_ledger_end(&ledger));

  situ_ledger_begin_none(&ledger); /* nothing is silent */
  assert_non_null(situ_nn_forward(net, x));
  assert_int_equal(situ_ledger_end(&ledger), SITU_E_STATE);
  (void)snprintf(path, sizeof path, "by nn_bring_inputs (input)  in net.1");
  expect_error(SITU_E_STATE, "ledger_end", path);

  situ_nn_module *clone = situ_nn_set_name(situ_nn_clone(net), "clone");
  expect_ok(situ_nn_bring_inputs(layer, false));
  assert_false(situ_nn_brings_inputs(layer));
  assert_null(situ_nn_forward(net, x));
  expect_error(SITU_E_DEVICE, "linear", "device mismatch");
  situ_nn_free(net);
  expect_on(situ_nn_forward(clone, x), there()); /* it has what the original had */
  situ_nn_free(clone);
}

/* placement: B20 */
static void copies_of_inputs_are_edges(void **state) {
  (void)state;
  situ_nn_module *net = spread_net();
  situ_tree *inputs = SITU_TREE(input());
  situ_place_report report;
  expect_ok(situ_nn_bring_inputs(situ_nn_get_submodule(net, "1"), true));
  expect_ok(situ_place_check(net, situ_tree_at(inputs, 0), NULL, &report));
  assert_int_equal(report.mistakes, 0);
  assert_int_equal(report.edge_count, 2); /* forward and backward */
  assert_string_equal(report.edges[0].from, "0");
  assert_string_equal(report.edges[0].to, "1");
  assert_string_equal(report.edges[0].op, "nn_bring_inputs");
  assert_int_equal(report.edges[0].bytes, 2 * 4 * 4);
  situ_place_report_free(&report);
  situ_tree_free(inputs);
  situ_nn_free(net);
}

static situ_tree *pass_on(situ_nn_module *m, const situ_tree *inputs) {
  (void)m;
  return situ_tree_copy(inputs);
}
static const situ_nn_type pass_type = { .name = "Pass", .size = sizeof(situ_nn_module), .call = pass_on };

static situ_status look(situ_nn_module *m, situ_tree **inputs, situ_tree **output, void *payload) {
  (void)m;
  (void)output;
  expect_on(situ_tree_tensor_at(*inputs, 0), *(situ_device *)payload);
  return SITU_OK;
}

/* Each tensor once, in the order of the hooks; an input on meta, and a module without a device, are left as they are. */
static void trees_keep_their_form(void **state) {
  (void)state;
  situ_device before = here(), after = there();
  situ_nn_module *m = situ_nn_done(situ_nn_alloc(&pass_type));
  situ_tensor *x = input(), *far = situ_to(x, there());
  situ_tensor *meta = situ_ones(SITU_SHAPE(2), &(situ_options){ .device = situ_dev("meta") });
  situ_tree *in = SITU_TREE(x, far, x, meta);
  expect_ok(situ_nn_register_forward_pre_hook(m, look, &before, NULL));
  expect_ok(situ_nn_bring_inputs(m, true));
  situ_tree *out = situ_nn_call(m, in);
  assert_ptr_equal(situ_tree_tensor_at(out, 0), x);
  situ_tree_free(out);
  expect_ok(situ_nn_to(m, there())); /* it has no tensors, but a home now */
  expect_ok(situ_nn_register_forward_pre_hook(m, look, &after, NULL));
  out = situ_nn_call(m, in);
  expect_on(situ_tree_tensor_at(out, 0), there());
  assert_ptr_equal(situ_tree_tensor_at(out, 2), situ_tree_tensor_at(out, 0));
  assert_ptr_equal(situ_tree_tensor_at(out, 1), far);
  assert_ptr_equal(situ_tree_tensor_at(out, 3), meta);
  situ_tree_free(out);
  situ_tree_free(in);
  assert_int_equal(situ_nn_bring_inputs(NULL, true), SITU_E_ARG);
  expect_error(SITU_E_ARG, "nn_bring_inputs", "module");
  situ_nn_free(m);
}

static void without_memory_nothing_changes(void **state) {
  (void)state;
  situ_nn_module *net = spread_net(), *layer = situ_nn_get_submodule(net, "1");
  situ_tensor *x = input();
  for (uint64_t nth = 1;; nth++) {
    situ_fail_allocation(nth, false);
    const bool good = situ_nn_bring_inputs(layer, true) == SITU_OK && situ_nn_forward(net, x);
    const bool failed = situ_allocation_count() >= nth;
    situ_fail_allocation(0, false);
    assert_true(good || situ_error() == SITU_E_NOMEM);
    situ_error_clear();
    expect_ok(situ_nn_bring_inputs(layer, false));
    if (!failed) break;
  }
  situ_nn_free(net);
}

int main(void) {
  const struct CMUnitTest tests[] = { PAIR_TEST(a_module_brings_its_inputs_if_told),
                                      PAIR_TEST(copies_of_inputs_are_edges), PAIR_TEST(trees_keep_their_form),
                                      PAIR_TEST(without_memory_nothing_changes) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
