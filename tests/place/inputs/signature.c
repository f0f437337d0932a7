/* Signatures of modules: found by dry runs, declared, and checked at calls and in a preflight. */
/* test-devices: sim:0 sim:1 opencl:0 opencl:1 */
#include "situ/sys/alloc.h"
#include "support/pairs.h"

/* Two inputs, the second of which a layer elsewhere reads; a result on each device. */
typedef struct pair {
  situ_nn_module base;
  situ_nn_module *near, *far;
} pair;

static situ_tree *call_pair(situ_nn_module *m, const situ_tree *inputs) {
  const pair *p = (const pair *)m;
  situ_tree *out =
      situ_tree_put(situ_tree_dict(), "near", situ_tree_tensor(situ_nn_forward(p->near, situ_tree_get(inputs, "x"))));
  return situ_tree_put(out, "far", situ_tree_tensor(situ_nn_forward(p->far, situ_tree_get(inputs, "mask"))));
}
static const situ_nn_type pair_type = { .name = "Pair", .size = sizeof(pair), .call = call_pair };

static situ_nn_module *pair_new(void) {
  pair *m = situ_nn_alloc(&pair_type);
  situ_nn_child(m, near, situ_nn_linear(3, 2, NULL));
  situ_nn_child(m, far, situ_nn_sequential(situ_nn_linear(3, 2, NULL), situ_nn_linear(2, 2, NULL)));
  assert_non_null(situ_nn_done(m));
  expect_ok(situ_nn_to(m->far, there()));
  return situ_nn_set_name(&m->base, "pair");
}

static situ_tensor *ones(situ_device device) {
  return situ_ones(SITU_SHAPE(1, 3), &(situ_options){ .device = device });
}
static situ_tree *pair_inputs(situ_device x, situ_device mask) {
  return situ_tree_put(situ_tree_put(situ_tree_dict(), "x", situ_tree_tensor(ones(x))), "mask",
                       situ_tree_tensor(ones(mask)));
}

static const char *signature_of(situ_nn_module *m, const situ_tree *inputs) {
  static char text[512];
  if (situ_place_signature(m, inputs, text, sizeof text) >= 0) return text;
  print_error("%s\n", situ_error_message());
  return "";
}

static const char *pair_signature(void) {
  static char text[512];
  const char *a = name_of(here()), *b = name_of(there());
  (void)snprintf(text, sizeof text,
                 "parameters.near=%s, parameters.far=%s, inputs.x=%s, inputs.mask=%s, outputs.near=%s, outputs.far=%s",
                 a, b, a, b, a, b);
  return text;
}

/* placement: B15 */
static void a_module_says_where_its_tensors_are(void **state) {
  (void)state;
  char wanted[256];
  situ_nn_module *m = pair_new(), *layer = situ_nn_get_submodule(m, "far");
  situ_tree *right = pair_inputs(here(), there()), *wrong = pair_inputs(there(), here()),
            *meta = pair_inputs(situ_dev("meta"), situ_dev("meta"));
  const situ_tree *all[] = { right, wrong, meta };
  for (int k = 0; k < 3; k++) assert_string_equal(signature_of(m, all[k]), pair_signature());
  (void)snprintf(wanted, sizeof wanted, "parameters=%s", name_of(there()));
  assert_string_equal(signature_of(layer, NULL), wanted);
  (void)snprintf(wanted, sizeof wanted, "parameters=%s, inputs=%s, outputs=%s", name_of(there()), name_of(there()),
                 name_of(there()));
  situ_tree *x = situ_tree_tensor(ones(here()));
  assert_string_equal(signature_of(layer, x), wanted);
  situ_tree_free(x);

  /* What it says is so: a call with such inputs runs. */
  situ_tree *out = situ_nn_call(m, right);
  expect_on(situ_tree_get(out, "near"), here());
  expect_on(situ_tree_get(out, "far"), there());
  situ_tree_free(out);

  x = situ_tree_tensor(situ_ones(SITU_SHAPE(1, 4), NULL)); /* no device helps */
  assert_true(situ_place_signature(layer, x, NULL, 0) < 0);
  expect_error(SITU_E_STATE, "place_signature", "no devices of its inputs let it run");
  situ_tree_free(x);
  situ_tree_free(right);
  situ_tree_free(wrong);
  situ_tree_free(meta);
  situ_nn_free(m);
}

/* placement: B15 */
static void a_declared_signature_is_checked_at_each_call(void **state) {
  (void)state;
  char text[256];
  situ_nn_module *m = pair_new(), *layer = situ_nn_get_submodule(m, "far");
  situ_tree *right = pair_inputs(here(), there()), *wrong = pair_inputs(here(), here()), *out;
  expect_ok(situ_place_declare(m, pair_signature())); /* what the query says can be declared */
  assert_non_null(out = situ_nn_call(m, right));
  situ_tree_free(out);
  assert_null(situ_nn_call(m, wrong));
  (void)snprintf(text, sizeof text, "inputs.mask of pair ([1, 3] f32) is on %s, and the signature says %s",
                 name_of(here()), name_of(there()));
  expect_error(SITU_E_DEVICE, "place_declare", text);
  assert_null(situ_nn_call(m, wrong));
  situ_error_report error;
  assert_true(situ_error_read(&error));
  (void)snprintf(text, sizeof text, "mask = situ_to(mask, situ_dev(\"%s\"));", name_of(there()));
  assert_string_equal(error.fix, text);
  assert_string_equal(error.odd, "inputs.mask");
  situ_error_clear();

  situ_nn_module *clone = situ_nn_clone(m); /* has it too */
  assert_null(situ_nn_call(clone, wrong));
  expect_error(SITU_E_DEVICE, "place_declare", "inputs.mask of ");
  situ_nn_free(clone);

  expect_ok(situ_nn_to(situ_nn_get_submodule(m, "far.1"), here()));
  assert_null(situ_nn_call(m, right));
  expect_error(SITU_E_DEVICE, "place_declare", "parameters.far.1.weight of pair ([2, 2] f32) is on ");
  expect_ok(situ_nn_to(layer, there()));

  /* A part is named by its path, and another signature replaces one. */
  expect_ok(situ_place_declare(m, NULL));
  (void)snprintf(text, sizeof text, "outputs=%s", name_of(here()));
  expect_ok(situ_place_declare(layer, text));
  assert_null(situ_nn_call(m, right));
  expect_error(SITU_E_DEVICE, "place_declare", "outputs of far ([1, 2] f32) is on ");
  (void)snprintf(text, sizeof text, "outputs=%s", name_of(there()));
  expect_ok(situ_place_declare(layer, text));
  assert_non_null(out = situ_nn_call(m, right));
  situ_tree_free(out);

  /* Inputs that the module brings are right. */
  (void)snprintf(text, sizeof text, "inputs=%s", name_of(there()));
  expect_ok(situ_nn_bring_inputs(layer, true));
  expect_ok(situ_place_declare(layer, text));
  assert_non_null(out = situ_nn_call(m, wrong));
  situ_tree_free(out);
  situ_tree_free(right);
  situ_tree_free(wrong);
  situ_nn_free(m);
}

/* placement: B15 */
static void a_preflight_finds_what_differs(void **state) {
  (void)state;
  situ_nn_module *m = pair_new();
  situ_tree *swapped = pair_inputs(there(), here());
  situ_place_report report;
  char text[128];
  int64_t inputs = 0;
  expect_ok(situ_place_declare(m, pair_signature()));
  expect_ok(situ_place_check(m, swapped, NULL, &report));
  for (int64_t i = 0; i < report.finding_count; i++) {
    const situ_place_finding *f = &report.findings[i];
    const bool is_x = strcmp(f->tensor, "inputs.x") == 0, is_mask = strcmp(f->tensor, "inputs.mask") == 0;
    if (!is_x && !is_mask) continue;
    inputs++;
    assert_int_equal(f->problem, SITU_PLACE_DEVICE);
    (void)snprintf(text, sizeof text, "%s = situ_to(", is_x ? "x" : "mask");
    assert_non_null(strstr(f->fix, text));
  }
  assert_int_equal(inputs, 2);
  assert_int_equal(report.mistakes, 2); /* both of them, and nothing that follows from them */
  situ_place_report_free(&report);
  situ_place_fixes fixes;
  expect_ok(situ_place_mend(m, swapped, NULL, &fixes));
  assert_int_equal(fixes.left, 0);
  situ_place_fixes_free(&fixes);
  situ_tree_free(swapped);
  situ_nn_free(m);
}

static void what_is_not_a_signature_is_refused(void **state) {
  (void)state;
  static const char *const bad[][2] = { { "cpu", "must be pattern=device" },
                                        { "weights=cpu", "\"weights\" must begin with" },
                                        { "parameters.nar=cpu",
                                          "\"parameters.nar\" of the signature matches no tensor" },
                                        { "inputs=gpu", "gpu" } };
  situ_nn_module *m = pair_new();
  for (int k = 0; k < 4; k++) {
    assert_true(situ_place_declare(m, bad[k][0]) != SITU_OK);
    assert_non_null(strstr(situ_error_message(), bad[k][1]));
    situ_error_clear();
  }
  situ_tree *inputs = pair_inputs(here(), there());
  expect_ok(situ_place_declare(m, "inputs.maks=cpu"));
  assert_null(situ_nn_call(m, inputs));
  expect_error(SITU_E_ARG, "place_declare", "\"inputs.maks\" of the signature matches no tensor");
  expect_ok(situ_place_declare(m, NULL));
  situ_tree *out = situ_nn_call(m, inputs);
  assert_non_null(out);
  situ_tree_free(out);
  char text[512];
  situ_fail_allocation(0, false);
  assert_true(situ_place_signature(m, inputs, text, sizeof text) > 0);
  const uint64_t most = situ_allocation_count();
  for (uint64_t nth = 1; nth <= most; nth += 1 + most / 64) {
    situ_fail_allocation(nth, false);
    const bool good = situ_place_signature(m, inputs, text, sizeof text) > 0;
    situ_fail_allocation(0, false);
    assert_true(good || situ_error() == SITU_E_NOMEM || situ_error() == SITU_E_STATE);
    situ_error_clear();
  }
  situ_tree_free(inputs);
  situ_nn_free(m);
}

/* Whatever it is given, it takes the first tensor, from any device. */
static situ_tree *call_any(situ_nn_module *m, const situ_tree *in) {
  (void)m;
  while (situ_tree_kind_of(in) != SITU_TREE_TENSOR) in = situ_tree_at(in, 0);
  return situ_tree_tensor(situ_neg(situ_tree_value(in)));
}
static const situ_nn_type any_type = { .name = "Any", .size = sizeof(situ_nn_module), .call = call_any };

/* A key that begins as another one does, an empty one, and such without a part. */
static void keys_of_any_form(void **state) {
  (void)state;
  static const char *const keys[][2] = { { "a", "a.b" }, { "", "x" }, { ".", ".." } };
  situ_nn_module *m = situ_nn_done(situ_nn_alloc(&any_type));
  assert_non_null(m);
  for (int k = 0; k < 3; k++) {
    situ_tree *in = situ_tree_put(situ_tree_put(situ_tree_dict(), keys[k][0], situ_tree_tensor(ones(here()))),
                                  keys[k][1], situ_tree_tensor(ones(there())));
    char text[512];
    assert_non_null(in);
    assert_true(situ_place_signature(m, in, text, sizeof text) > 0);
    if (k < 2) expect_ok(situ_place_declare(m, text));
    situ_tree *out = situ_nn_call(m, in);
    assert_non_null(out);
    expect_ok(situ_place_declare(m, NULL));
    situ_tree_free(out);
    situ_tree_free(in);
  }
  situ_nn_free(m);
}

int main(void) {
  const struct CMUnitTest tests[] = { PAIR_TEST(a_module_says_where_its_tensors_are),
                                      PAIR_TEST(a_declared_signature_is_checked_at_each_call),
                                      PAIR_TEST(a_preflight_finds_what_differs),
                                      PAIR_TEST(what_is_not_a_signature_is_refused), PAIR_TEST(keys_of_any_form) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
