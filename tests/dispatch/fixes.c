/* Fixes that were wrong once: layers in an array, device maps, one layer left behind; and the vote behind them.
   SPDX-License-Identifier: MIT */
#include <stdio.h>

#include "report.h"
#include "situ/func.h"
#include "situ/nn.h"
#include "situ/nn/packed.h"
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
  const situ_policy all = { .host_to_device = SITU_POLICY_COPY,
                            .device_to_host = SITU_POLICY_COPY,
                            .device_to_device = SITU_POLICY_COPY };
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

/* ---- whose variable it is ---- */

static situ_tensor *named(const char *name, situ_shape shape, situ_device device) {
  return situ_set_name(situ_randn(shape, &(situ_options){ .device = device }), name);
}

/* functional_call: the operand stands in a module's place, and is the program's. */
static void a_given_tensor_is_a_variable(void **state) {
  (void)state;
  const situ_device far = situ_dev("sim:0");
  situ_nn_module *m = situ_nn_set_name(situ_nn_sequential(situ_nn_linear(4, 4, NULL)), "model");
  assert_int_equal(situ_nn_to(m, far), SITU_OK);
  situ_tensor *x = named("x", SITU_SHAPE(2, 4), far), *w = named("w", SITU_SHAPE(4, 4), situ_dev("cpu"));
  situ_tree *given = situ_tree_put(situ_tree_dict(), "0.weight", situ_tree_tensor(w));
  assert_null(situ_func_functional_call(m, given, x, NULL));
  assert_int_equal(report().fix_count, 1);
  assert_string_equal(report().fixes[0].code, "w = situ_to(w, situ_dev(\"sim:0\"));");
  assert_string_equal(report().operands[1].role, "given to functional_call");
  situ_error_clear();
  situ_tree_free(given);
  given = situ_tree_put(situ_tree_dict(), "0.weight", situ_tree_tensor(situ_to(w, far)));
  assert_non_null(situ_func_functional_call(m, given, x, NULL));
  situ_tree_free(given);
  situ_nn_free(m);
}

/* Does the choice to the tensors that it names; returns how many statements that were. */
static int move_named(int choice, situ_tensor **list, const char *const *names, int count) {
  const situ_error_report r = report();
  int done = 0;
  for (int i = 0; i < r.fix_count; i++)
    for (int k = 0; k < count; k++)
      if (r.fixes[i].choice == choice && strcmp(r.fixes[i].target, names[k]) == 0) {
        list[k] = situ_to(list[k], situ_dev(r.fixes[i].device));
        done++;
      }
  return done;
}

/* What moves is all that the module would refuse, one input after the other. */
static void all_inputs_of_a_module_meet(void **state) {
  static const char *const names[] = { "q", "k", "v" };
  (void)state;
  for (int form = 0; form < 4; form++) {
    const bool together = form & 1, batch_first = form & 2;
    situ_nn_module *m = situ_nn_set_name(
        situ_nn_multihead_attention(8, 2, &(situ_nn_multihead_attention_options){ .batch_first = batch_first }),
        "attn");
    situ_tensor *in[3];
    for (int k = 0; k < 3; k++)
      in[k] = named(names[k], SITU_SHAPE(3, 3, 8), situ_dev(k == 0 || together ? "sim:0" : "cpu"));
    assert_null(situ_nn_attend(m, in[0], in[1], in[2], NULL));
    assert_int_equal(report().fix_count, together ? 4 : 1); /* the other choice is the module's move */
    situ_tensor *near[3] = { in[0], in[1], in[2] };
    assert_int_equal(move_named(0, near, names, 3), together ? 3 : 1);
    assert_true(!together || (report().fixes[3].action == SITU_FIX_NN_TO && report().fixes[3].choice == 1));
    situ_error_clear();
    assert_non_null(situ_nn_attend(m, near[0], near[1], near[2], NULL));
    assert_int_equal(situ_nn_to(m, situ_dev("sim:0")), SITU_OK);
    assert_true((situ_nn_attend(m, in[0], in[1], in[2], NULL) != NULL) == together);
    situ_error_clear();
    situ_nn_free(m);
  }
}

static void the_fields_of_a_packed_sequence_are_named(void **state) {
  static const char *const names[] = { "packed.data", "packed.sorted_indices", "packed.unsorted_indices" };
  (void)state;
  situ_nn_module *m = situ_nn_set_name(situ_nn_lstm(4, 4, NULL), "lstm");
  situ_nn_packed_sequence p = { 0 }, out = { 0 };
  const int64_t lengths[] = { 2, 3 };
  assert_int_equal(situ_nn_to(m, situ_dev("sim:0")), SITU_OK);
  assert_int_equal(situ_nn_utils_rnn_pack_padded_sequence(
                       situ_randn(SITU_SHAPE(3, 2, 4), NULL),
                       situ_from_host(lengths, sizeof lengths, SITU_SHAPE(2), &(situ_options){ .dtype = SITU_I64 }),
                       false, false, &p),
                   SITU_OK);
  assert_int_equal(situ_nn_recur_packed(m, &p, NULL, &out), SITU_E_DEVICE);
  situ_tensor *field[] = { p.data, p.sorted_indices, p.unsorted_indices };
  assert_int_equal(report().fix_count, 3);
  assert_int_equal(move_named(0, field, names, 3), 3);
  situ_error_clear();
  p.data = field[0];
  assert_int_equal(situ_nn_recur_packed(m, &p, NULL, &out), SITU_E_DEVICE); /* the data alone do not do */
  assert_int_equal(move_named(0, field, names, 3), 2);
  situ_error_clear();
  p.sorted_indices = field[1];
  p.unsorted_indices = field[2];
  assert_int_equal(situ_nn_recur_packed(m, &p, NULL, &out), SITU_OK);
  situ_nn_free(m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    MODULE_TEST(layers_in_an_array_are_not_registered),
    MODULE_TEST(a_device_map_gets_copies),
    MODULE_TEST(a_forgotten_layer_is_moved_or_cast),
    MODULE_TEST(a_given_tensor_is_a_variable),
    MODULE_TEST(all_inputs_of_a_module_meet),
    MODULE_TEST(the_fields_of_a_packed_sequence_are_named),
    TEST(without_values_there_is_no_fix),
    TEST(one_vote_for_all),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
