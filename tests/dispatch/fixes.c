/* Fixes that were wrong once: layers in an array, device maps, one layer left behind; and the vote behind them.
   SPDX-License-Identifier: MIT */
#include <stdio.h>

#include "report.h"
#include "situ/nn.h"
#include "situ/policy.h"
#include "situ/sys/dry.h"

typedef struct array_model {
  situ_nn_module base;
  situ_nn_module *layer[2];
} array_model;
static situ_tensor *array_forward(situ_nn_module *self, situ_tensor *input) {
  array_model *m = (array_model *)self;
  return situ_nn_forward(m->layer[1], situ_nn_forward(m->layer[0], input));
}
static const situ_nn_type array_type = { .name = "Net", .size = sizeof(array_model), .forward = array_forward };

/* Layers in a C array were never registered: moving the model again would not help. */
static void layers_in_an_array_are_not_registered(void **state) {
  (void)state;
  array_model *m = situ_nn_alloc(&array_type);
  m->layer[0] = situ_nn_linear(2, 2, NULL);
  m->layer[1] = situ_nn_linear(2, 2, NULL);
  situ_nn_module *whole = situ_nn_set_name(situ_nn_done(m), "model");
  assert_int_equal(situ_nn_to(whole, situ_dev("sim:0")), SITU_OK);
  assert_null(situ_nn_forward(whole, situ_ones(SITU_SHAPE(1, 2), &(situ_options){ FAR })));
  situ_error_report r = report();
  assert_string_equal(r.odd, "weight, bias");
  assert_string_equal(r.operands[1].role, "parameter (not registered in model)");
  assert_int_equal(r.fixes[0].action, SITU_FIX_CHILD);
  assert_int_equal(r.fixes[0].field, offsetof(array_model, layer));
  assert_null(strstr(r.fix, "situ_nn_to(model"));
  situ_error_clear();
  situ_nn_free(m->layer[0]); /* the array is the model's memory, the layers are the program's */
  situ_nn_free(m->layer[1]);
  situ_nn_free(whole);
}

/* Inside a Sequential no line of the program moves what goes from layer to layer. */
static void a_device_map_gets_copies(void **state) {
  (void)state;
  situ_nn_module *whole = situ_nn_set_name(
      situ_nn_sequential(situ_nn_linear(4, 4, NULL), situ_nn_linear(4, 4, NULL), situ_nn_linear(4, 4, NULL)), "model");
  assert_int_equal(situ_nn_to_map(whole, "0=sim:0,1=sim:1,2=sim:0"), SITU_OK);
  situ_tensor *far = situ_ones(SITU_SHAPE(1, 4), &(situ_options){ FAR });
  assert_null(situ_nn_forward(whole, far));
  situ_error_report r = report();
  assert_int_equal(r.fix_count, 2);
  assert_int_equal(r.fixes[0].action, SITU_FIX_POLICY);
  assert_true(r.fixes[0].device_to_device && !r.fixes[0].host_to_device);
  assert_non_null(strstr(r.fix, "{ .device_to_device = SITU_POLICY_COPY }"));
  assert_int_equal(r.fixes[1].action, SITU_FIX_NN_TO);
  assert_int_equal(r.fixes[1].choice, 1);
  assert_null(strstr(r.fix, "situ_to("));
  assert_string_equal(r.next, "");
  situ_error_clear();
  situ_setting before;
  situ_policy_begin(&before, (situ_policy){ .device_to_device = SITU_POLICY_COPY });
  assert_non_null(situ_nn_forward(whole, far));
  situ_policy_end(&before);
  situ_nn_free(whole);
}

static void a_forgotten_layer_is_moved_or_cast(void **state) {
  (void)state;
  situ_nn_module *whole = situ_nn_set_name(
      situ_nn_sequential(situ_nn_linear(4, 4, NULL), situ_nn_linear(4, 4, NULL), situ_nn_linear(4, 4, NULL)), "model");
  situ_tensor *far = situ_ones(SITU_SHAPE(1, 4), &(situ_options){ FAR });
  assert_int_equal(situ_nn_to(whole, situ_dev("sim:0")), SITU_OK);
  assert_int_equal(situ_nn_to(situ_nn_at(whole, 1), situ_dev("cpu")), SITU_OK);
  assert_null(situ_nn_forward(whole, far));
  assert_string_equal(report().odd, "weight, bias");
  assert_ptr_equal(strstr(report().fix, "situ_nn_to(model, situ_dev(\"sim:0\"));"), report().fix);
  situ_error_clear();
  assert_int_equal(situ_nn_to(whole, situ_dev("sim:0")), SITU_OK);
  assert_int_equal(situ_nn_to_dtype(situ_nn_at(whole, 1), SITU_F64), SITU_OK);
  assert_null(situ_nn_forward(whole, far));
  assert_string_equal(report().odd, "weight, bias");
  assert_ptr_equal(strstr(report().fix, "situ_nn_to_dtype(model, SITU_F32);"), report().fix);
  situ_error_clear();
  situ_nn_free(whole);
}

/* What has no values cannot be moved: there is no fix, and the message says why. */
static void without_values_there_is_no_fix(void **state) {
  (void)state;
  situ_tensor *empty = situ_empty(SITU_SHAPE(2, 2), &(situ_options){ .device = situ_dev("meta") });
  assert_null(situ_add(situ_ones(SITU_SHAPE(2, 2), NULL), empty));
  assert_int_equal(report().fix_count, 0);
  assert_string_equal(report().fix, "");
  EXPECT_PARTS("no fix: with all operands on cpu it would be refused still: to: ", "holds no value yet");
  situ_error_clear();
}

/* The message, the copy policy and the preflight agree on where a call takes place. */
static void one_vote_for_all(void **state) {
  (void)state;
  situ_tensor *near = situ_ones(SITU_SHAPE(2, 2), NULL), *far = situ_ones(SITU_SHAPE(2, 2), &(situ_options){ FAR });
  const situ_policy all = { SITU_POLICY_COPY, SITU_POLICY_COPY, SITU_POLICY_COPY, 0 };
  for (int set = 0; set < 8; set++) {
    situ_tensor *in[3] = { set & 1 ? far : near, set & 2 ? far : near, set & 4 ? far : near };
    situ_tensor *z = situ_addcmul(in[0], in[1], in[2], 1);
    char wanted[16] = "", name[SITU_DEVICE_NAME_MAX];
    if (!z) snprintf(wanted, sizeof wanted, "%s", report().fixes[0].device);
    else snprintf(wanted, sizeof wanted, "%s", situ_device_name(situ_device_of(z), name));
    situ_error_clear();
    situ_setting before;
    situ_policy_begin(&before, all);
    z = situ_addcmul(in[0], in[1], in[2], 1);
    assert_string_equal(situ_device_name(situ_device_of(z), name), wanted);
    situ_policy_end(&before);
    situ_dry dry = { .found = NULL };
    assert_int_equal(situ_dry_begin(&dry), SITU_OK);
    z = situ_addcmul(in[0], in[1], in[2], 1);
    assert_string_equal(situ_device_name(situ_device_of(z), name), wanted);
    situ_error_clear();
    (void)situ_dry_end(&dry);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
    MODULE_TEST(layers_in_an_array_are_not_registered),
    MODULE_TEST(a_device_map_gets_copies),
    MODULE_TEST(a_forgotten_layer_is_moved_or_cast),
    TEST(without_values_there_is_no_fix),
    TEST(one_vote_for_all),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
