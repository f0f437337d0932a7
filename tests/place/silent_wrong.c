/* What other libraries get wrong without a word, rows S1 to S12 of the catalogue: each is an error
   here, or done right. Rows S13 to S24 are in silent_values.c.
   SPDX-License-Identifier: MIT */
/* test-devices: meta sim:0 sim:1 opencl:0 opencl:1 */
#include "situ/optim.h"
#include "situ/sys/alloc.h"
#include "support/pairs.h"

static situ_tensor *near(situ_shape shape) { return situ_randn(shape, NULL); }
static situ_tensor *far(situ_shape shape) { return situ_randn(shape, &(situ_options){ .device = there() }); }
static situ_tensor *index_on(situ_device device) {
  return situ_zeros(SITU_SHAPE(2), &(situ_options){ .dtype = SITU_I64, .device = device });
}
static situ_nn_module *two_layers(void) {
  return situ_nn_sequential(situ_nn_linear(3, 4, NULL), situ_nn_relu(), situ_nn_linear(4, 2, NULL));
}

/* Refused because of the device, with the operand named. */
#define expect_mismatch(call, op, operand) expect_refused(call, SITU_E_DEVICE, op, operand)

/* S1: a convolution with a weight elsewhere gives garbage. */
/* placement: K2 */
static void S1_convolutions_refuse_a_weight_elsewhere(void **state) {
  (void)state;
  situ_tensor *x = near(SITU_SHAPE(1, 2, 4, 4)), *line = near(SITU_SHAPE(1, 2, 4));
  situ_tensor *w = near(SITU_SHAPE(2, 2, 3, 3)), *far_w = far(SITU_SHAPE(2, 2, 3, 3)),
              *far_line = far(SITU_SHAPE(2, 2, 3)), *far_b = far(SITU_SHAPE(2));
  expect_mismatch(situ_conv2d(x, far_w, NULL, NULL), "conv2d", "weight");
  expect_mismatch(situ_conv1d(line, far_line, NULL, NULL), "conv1d", "weight");
  expect_mismatch(situ_conv_transpose2d(x, far_w, NULL, NULL), "conv_transpose2d", "weight");
  expect_mismatch(situ_conv2d(far(SITU_SHAPE(1, 2, 4, 4)), w, NULL, NULL), "conv2d", "weight");
  expect_mismatch(situ_conv2d(x, w, far_b, NULL), "conv2d", "bias");
}

/* S2: an index elsewhere gives garbage. */
static void S2_indices_elsewhere_are_refused_in_both_directions(void **state) {
  (void)state;
  situ_tensor *x = near(SITU_SHAPE(3, 4)), *y = far(SITU_SHAPE(3, 4));
  expect_mismatch(situ_embedding(index_on(there()), x, NULL), "embedding", "weight");
  expect_mismatch(situ_embedding(index_on(here()), y, NULL), "embedding", "weight");
  expect_mismatch(situ_index_select(x, 0, index_on(there())), "index_select", "index");
  expect_mismatch(situ_index_select(y, 0, index_on(here())), "index_select", "index");
  situ_tensor *square = situ_zeros(SITU_SHAPE(2, 2), &(situ_options){ .dtype = SITU_I64, .device = there() });
  expect_mismatch(situ_gather(x, 0, square), "gather", "index");
  expect_mismatch(situ_matmul(near(SITU_SHAPE(3)), far(SITU_SHAPE(3))), "matmul", "tensor");
}

/* S3: index_add_ with a source elsewhere does nothing, and says nothing. */
static void S3_writes_from_elsewhere_are_refused_and_change_nothing(void **state) {
  (void)state;
  situ_tensor *x = situ_zeros(SITU_SHAPE(2, 2), NULL), *src = far(SITU_SHAPE(2, 2)), *index = index_on(here());
  situ_tensor *square = situ_zeros(SITU_SHAPE(2, 2), &(situ_options){ .dtype = SITU_I64 });
  uint32_t version = situ_version_of(x);
  expect_mismatch(situ_index_add_(x, 0, index, src, 1), "index_add_", "src");
  expect_mismatch(situ_scatter_(x, 0, square, src), "scatter_", "src");
  expect_mismatch(situ_scatter_add_(x, 0, square, src), "scatter_add_", "src");
  expect_mismatch(
      situ_masked_fill_(x, situ_ones(SITU_SHAPE(2, 2), &(situ_options){ .dtype = SITU_BOOL, .device = there() }), 1),
      "masked_fill_", "mask");
  assert_int_equal(situ_version_of(x), version);
  expect_exact(x, SITU_SHAPE(2, 2), 0, 0, 0, 0);
}

/* S4: products and joins of mixed operands give a tensor of whichever device. */
static void S4_mixed_products_and_joins_are_refused(void **state) {
  (void)state;
  situ_tensor *a = near(SITU_SHAPE(2, 2)), *b = far(SITU_SHAPE(2, 2));
  expect_mismatch(situ_mm(a, b), "mm", "");
  expect_mismatch(situ_matmul(b, a), "matmul", "");
  expect_mismatch(situ_linear(a, b, NULL), "linear", "weight");
  expect_mismatch(situ_linear(a, a, far(SITU_SHAPE(2))), "linear", "bias");
  expect_mismatch(situ_cat((situ_tensor *[]){ a, a, b }, 3, 0), "cat", "");
  expect_mismatch(situ_stack((situ_tensor *[]){ b, a }, 2, 0), "stack", "");
  expect_mismatch(situ_where(situ_ones(SITU_SHAPE(2, 2), &(situ_options){ .dtype = SITU_BOOL }), a, b), "where", "");
  expect_mismatch(situ_scaled_dot_product_attention(a, b, a, NULL), "", "key");
  expect_mismatch(situ_layer_norm(a, SITU_SHAPE(2), far(SITU_SHAPE(2)), NULL, 1e-5), "", "weight");
}

/* Where modules that were built on meta are brought to. */
static situ_device real(void) { return has_values(there()) ? there() : here(); }

/* S5: loading a state dict into a module on meta "matches all keys" and loads nothing. Here the values
   are there afterwards, where the module is meant to be. */
/* placement: H4, K3 */
static void S5_a_state_dict_makes_a_module_on_meta_real(void **state) {
  (void)state;
  situ_nn_module *source = two_layers();
  expect_ok(situ_set_default_device(situ_dev("meta")));
  situ_nn_module *net = two_layers();
  expect_ok(situ_set_default_device(real()));
  situ_tree *saved = situ_nn_state_dict(source);
  situ_tensor *weight = situ_nn_get_tensor(net, "0.weight");
  expect_ok(situ_nn_load_state_dict(net, saved, NULL));
  expect_ok(situ_set_default_device(here()));
  assert_true(has_values(situ_device_of(weight)));
  for (int64_t i = 0; i < situ_tree_count(saved); i++) {
    situ_tensor *loaded = situ_nn_get_tensor(net, situ_tree_key(saved, i));
    expect_same(situ_to(situ_detach(loaded), here()), situ_detach(situ_tree_tensor_at(saved, i)), 0, 0);
  }
  assert_non_null(situ_nn_forward(net, situ_to(near(SITU_SHAPE(1, 3)), situ_device_of(weight))));
  situ_tree_free(saved);
  situ_nn_free(source);
  situ_nn_free(net);
}

/* S6: a module built on meta has garbage in its buffers when it comes off it: running statistics,
   tables. Here it has the bits that it would have had if it had been built there. */
/* placement: E4, H8, K3 */
static void S6_what_was_built_on_meta_has_its_values(void **state) {
  (void)state;
  situ_nn_module *net[2];
  for (int on_meta = 0; on_meta < 2; on_meta++) {
    situ_manual_seed(11);
    expect_ok(situ_set_default_device(on_meta ? situ_dev("meta") : real()));
    net[on_meta] =
        situ_nn_sequential(situ_nn_batch_norm1d(3, NULL), situ_nn_linear(3, 4, NULL), situ_nn_embedding(5, 3, NULL));
    expect_ok(situ_set_default_device(here()));
  }
  expect_ok(situ_nn_to(net[1], real()));
  situ_tree *eager = situ_nn_state_dict(net[0]), *later = situ_nn_state_dict(net[1]);
  assert_int_equal(situ_tree_count(eager), situ_tree_count(later));
  for (int64_t i = 0; i < situ_tree_count(eager); i++) {
    expect_on(situ_tree_tensor_at(later, i), real());
    expect_same(situ_detach(situ_tree_tensor_at(later, i)), situ_detach(situ_tree_tensor_at(eager, i)), 0, 0);
  }
  expect_exact(situ_nn_get_tensor(net[1], "0.running_var"), SITU_SHAPE(3), 1, 1, 1);
  for (int k = 0; k < 2; k++) situ_nn_free(net[k]);
  situ_tree_free(eager);
  situ_tree_free(later);
}

/* S6: nor is garbage ever read: what was not written yet is named, and so is what went to meta and
   lost its values there. */
/* placement: D17 */
static void S6_what_holds_no_value_is_not_read(void **state) {
  (void)state;
  situ_tensor *table = situ_empty(SITU_SHAPE(2), &(situ_options){ .device = real() });
  assert_non_null(situ_set_name(table, "rotary.table"));
  double value = 0;
  expect_refused(situ_add_scalar(table, 1), SITU_E_STATE, "", "rotary.table");
  assert_int_equal(situ_item(situ_select(table, 0, 0), &value), SITU_E_STATE);
  expect_error(SITU_E_STATE, "", "");
  situ_nn_module *net = two_layers();
  situ_tensor *weight = situ_nn_get_tensor(net, "0.weight");
  expect_ok(situ_nn_to(net, situ_dev("meta")));
  assert_int_equal(situ_nn_to(net, real()), SITU_E_STATE);
  expect_error(SITU_E_STATE, "nn_to", "0.weight");
  expect_on(weight, situ_dev("meta"));
  situ_nn_free(net);
}

/* S7: the optimiser trains tensors that no module has any more. */
/* placement: G7 */
static void S7_orphans_are_refused_at_the_step(void **state) {
  (void)state;
  situ_nn_module *net = two_layers();
  situ_optim *o = situ_optim_sgd(situ_nn_parameters(net), 1e-3, NULL);
  expect_ok(situ_nn_to(net, there()));
  situ_scope step;
  situ_scope_begin(&step);
  expect_ok(situ_backward(situ_sum(situ_nn_forward(net, far(SITU_SHAPE(1, 3))), NULL), NULL));
  expect_ok(situ_optim_step(o));
  expect_ok(situ_scope_end(&step));
  situ_nn_free(net);
  if (situ_optim_step(o) != SITU_E_STATE) fail_msg("an orphan was trained");
  expect_error(SITU_E_STATE, "optim_step", "0.weight");
  situ_optim_free(o);
}

/* S7, the common form: made before the move. The same parameters are trained, and the module sees
   it. */
/* placement: G6 */
static void S7_an_optimiser_made_before_the_move_trains_the_module(void **state) {
  (void)state;
  situ_nn_module *net = two_layers();
  situ_optim *o = situ_optim_sgd(situ_nn_parameters(net), 0.5, NULL);
  expect_ok(situ_nn_to(net, there()));
  situ_tensor *bias = situ_nn_get_tensor(net, "2.bias"), *before = situ_clone(situ_detach(bias));
  expect_ok(situ_backward(situ_sum(situ_nn_forward(net, far(SITU_SHAPE(1, 3))), NULL), NULL));
  expect_ok(situ_optim_step(o));
  expect_on(bias, there());
  if (has_values(there())) expect_same(situ_detach(bias), situ_sub_scalar(before, 0.5), 1e-6, 1e-6);
  situ_optim_free(o);
  situ_nn_free(net);
}

/* S8: aliases, views and tied tensors are split by a move. */
typedef struct aliases {
  situ_nn_module base;
  situ_tensor *table, *row, *same;
} aliases;
static const situ_nn_type aliases_type = { .name = "Aliases", .size = sizeof(aliases) };

/* placement: A8, B7 */
static void S8_aliases_and_views_stay_together(void **state) {
  (void)state;
  aliases *m = situ_nn_alloc(&aliases_type);
  situ_nn_buffer(m, table, situ_zeros(SITU_SHAPE(3, 2), NULL));
  situ_nn_buffer(m, row, situ_select(m->table, 0, 1));
  situ_nn_buffer(m, same, situ_detach(m->table));
  situ_nn_module *module = situ_nn_done(m);
  expect_ok(situ_nn_to_with(module, &(situ_nn_to_options){ .device = there(), .dtype = SITU_F64 }));
  expect_on(m->row, there());
  assert_int_equal(situ_dtype_of(m->row), SITU_F64);
  assert_true(situ_shares_storage(m->table, m->row));
  assert_true(situ_shares_storage(m->table, m->same));
  assert_non_null(situ_fill_(m->row, 5));
  if (has_values(there())) expect_exact(m->same, SITU_SHAPE(3, 2), 0, 0, 5, 5, 0, 0);
  situ_nn_free(module);
}

static situ_nn_module *tied_new(void) {
  situ_nn_module *in = situ_nn_linear(3, 3, NULL), *out = situ_nn_linear(3, 3, NULL);
  situ_nn_add_tensor(out, "weight", NULL, situ_nn_get_tensor(in, "weight"), SITU_NN_PARAMETER);
  return situ_nn_sequential(in, out);
}

/* placement: B6 */
static void S8_tied_weights_stay_tied(void **state) {
  (void)state;
  situ_nn_module *net = tied_new();
  assert_ptr_equal(situ_nn_get_tensor(net, "0.weight"), situ_nn_get_tensor(net, "1.weight"));
  expect_ok(situ_nn_to(net, there()));
  assert_ptr_equal(situ_nn_get_tensor(net, "0.weight"), situ_nn_get_tensor(net, "1.weight"));
  expect_on(situ_nn_get_tensor(net, "1.weight"), there());
  situ_nn_free(net);
}

/* S9: meta and back, and one tensor has become two. */
/* placement: B6 */
static void S9_tied_weights_stay_tied_through_meta(void **state) {
  (void)state;
  expect_ok(situ_set_default_device(situ_dev("meta")));
  situ_nn_module *net = tied_new();
  expect_ok(situ_set_default_device(here()));
  situ_tensor *weight = situ_nn_get_tensor(net, "0.weight");
  expect_ok(situ_nn_to(net, real()));
  assert_ptr_equal(situ_nn_get_tensor(net, "0.weight"), weight);
  assert_ptr_equal(situ_nn_get_tensor(net, "1.weight"), weight);
  expect_on(weight, real());
  situ_placement place;
  expect_ok(situ_place_of(net, &place));
  assert_int_equal(place.bytes, 4 * (9 + 3 + 3));
  situ_nn_free(net);
}

/* S10: a move that fails half way leaves half a module behind. Every allocation of it is made to
   fail in turn. */
/* placement: B10 */
static void S10_a_move_that_fails_is_undone(void **state) {
  (void)state;
  situ_nn_module *net = two_layers();
  expect_ok(situ_backward(situ_sum(situ_nn_forward(net, near(SITU_SHAPE(1, 3))), NULL), NULL));
  situ_tensor *first = situ_nn_get_tensor(net, "0.weight"), *last = situ_nn_get_tensor(net, "2.bias");
  situ_tensor *before = situ_clone(situ_detach(first));
  int points = 0;
  for (uint64_t nth = 1; nth < 200; nth++) {
    int64_t bytes = situ_live_bytes(), tensors = situ_live_tensors();
    situ_fail_allocation(nth, false);
    situ_status status = situ_nn_to(net, there());
    situ_fail_allocation(0, false);
    if (status == SITU_OK) break;
    points++;
    expect_error(SITU_E_NOMEM, "", "");
    expect_on(first, here());
    expect_on(last, here());
    expect_on(situ_grad(last), here());
    assert_int_equal(situ_live_bytes(), bytes);
    assert_int_equal(situ_live_tensors(), tensors);
    expect_same(situ_detach(first), before, 0, 0);
  }
  assert_true(points > 0);
  expect_on(first, there());
  situ_nn_free(net);
}

/* The same with each copy, and with a destination that is lost. */
static void S10_a_move_that_cannot_copy_is_undone(void **state) {
  (void)state;
  if (there().kind != SITU_SIM) return;
  situ_nn_module *net = two_layers();
  situ_tensor *first = situ_nn_get_tensor(net, "0.weight"), *last = situ_nn_get_tensor(net, "2.bias");
  situ_tensor *before = situ_clone(situ_detach(first));
  static const situ_sim_fault faults[] = { SITU_SIM_COPY, SITU_SIM_LATE, SITU_SIM_LOST };
  for (size_t f = 0; f < sizeof faults / sizeof *faults; f++) {
    int points = 0;
    for (uint64_t nth = 1; nth < 100; nth++) {
      expect_ok(situ_sim_fail(there().index, faults[f], nth, false));
      situ_status status = situ_nn_to(net, there());
      if (status == SITU_OK) break;
      points++;
      situ_error_clear();
      expect_ok(situ_sim_reset(there().index));
      expect_on(first, here());
      expect_on(last, here());
      expect_same(situ_detach(first), before, 0, 0);
    }
    expect_ok(situ_sim_reset(there().index));
    if (faults[f] != SITU_SIM_LATE) assert_true(points > 0);
    expect_on(last, there());
    expect_ok(situ_nn_to(net, here()));
    expect_same(situ_detach(first), before, 0, 0);
  }
  situ_nn_free(net);
}

/* The same with a cast, which has no device to fail: the memory for the new values may not be
   there. */
static void S10_a_cast_that_fails_is_undone(void **state) {
  (void)state;
  situ_nn_module *net = two_layers();
  situ_tensor *first = situ_nn_get_tensor(net, "0.weight"), *last = situ_nn_get_tensor(net, "2.bias");
  situ_tensor *before = situ_clone(situ_detach(first));
  int points = 0;
  for (uint64_t nth = 1; nth < 200; nth++) {
    situ_fail_allocation(nth, false);
    situ_status status = situ_nn_to_with(net, &(situ_nn_to_options){ .device = there(), .dtype = SITU_F64 });
    situ_fail_allocation(0, false);
    if (status == SITU_OK) break;
    points++;
    expect_error(SITU_E_NOMEM, "", "");
    assert_int_equal(situ_dtype_of(first), SITU_F32);
    assert_int_equal(situ_dtype_of(last), SITU_F32);
    expect_on(last, here());
    expect_same(situ_detach(first), before, 0, 0);
  }
  assert_true(points > 0);
  assert_int_equal(situ_dtype_of(last), SITU_F64);
  situ_nn_free(net);
}

/* S11: a move between forward and backward leaves gradients on another device, or loses them. */
/* placement: G4 */
static void S11_a_move_between_forward_and_backward_is_right_or_refused(void **state) {
  (void)state;
  situ_nn_module *net = two_layers();
  situ_tensor *weight = situ_nn_get_tensor(net, "0.weight"),
              *loss = situ_sum(situ_nn_forward(net, near(SITU_SHAPE(1, 3))), NULL);
  situ_status moved = situ_nn_to(net, there());
  situ_error_clear();
  situ_status status = situ_backward(loss, NULL);
  if (status == SITU_OK) expect_on(situ_grad(weight), moved == SITU_OK ? there() : here());
  else assert_null(situ_grad(weight));
  situ_error_clear();
  situ_nn_free(net);
}

/* The same for every sort of kernel on the way back: what it saved has moved, and must not be handed
   to it where it is now. There and back again is nothing at all. */
static situ_nn_module *of_kind(int kind) {
  switch (kind) {
  case 0: return situ_nn_conv2d(2, 2, SITU_DIMS(1), NULL);
  case 1: return situ_nn_sequential(situ_nn_batch_norm2d(2, NULL), situ_nn_gelu(SITU_GELU_NONE));
  case 2: return situ_nn_sequential(situ_nn_layer_norm(SITU_SHAPE(2), NULL), situ_nn_softmax(-1));
  case 3: return situ_nn_sequential(situ_nn_group_norm(1, 2, NULL), situ_nn_sigmoid());
  case 4: return situ_nn_sequential(situ_nn_linear(2, 2, NULL), situ_nn_tanh(), situ_nn_linear(2, 2, NULL));
  case 5: return situ_nn_sequential(situ_nn_rms_norm(SITU_SHAPE(2), NULL), situ_nn_log_softmax(-1));
  default: return situ_nn_conv_transpose2d(2, 2, SITU_DIMS(1), NULL);
  }
}

static void S11_no_kernel_of_the_way_back_sees_what_has_moved(void **state) {
  (void)state;
  for (int kind = 0; kind < 7; kind++)
    for (int back = 0; back < 2; back++) {
      situ_nn_module *net = of_kind(kind);
      situ_tensor *x = situ_requires_grad_(near(SITU_SHAPE(1, 2, 2, 2)), true);
      situ_tensor *loss = situ_sum(situ_square(situ_nn_forward(net, x)), NULL);
      expect_ok(situ_nn_to(net, there()));
      if (back && !has_values(there())) {
        situ_nn_free(net);
        continue;
      }
      if (back) {
        expect_ok(situ_nn_to(net, here()));
        expect_ok(situ_backward(loss, NULL));
        expect_on(situ_grad(x), here());
      } else {
        assert_int_equal(situ_backward(loss, NULL), SITU_E_DEVICE);
        expect_error(SITU_E_DEVICE, "backward", "between forward and backward");
        assert_null(situ_grad(x));
      }
      situ_nn_free(net);
    }
}

/* A result that has moved, a cast that nothing was saved for, and a hook that moves things. */
static situ_tensor *moved_by_hook;
static situ_tensor *moving_hook(situ_tensor *grad, void *payload) {
  (void)grad, (void)payload;
  return situ_to_(moved_by_hook, there()) == SITU_OK ? NULL : moved_by_hook;
}
static situ_tensor *elsewhere_hook(situ_tensor *grad, void *payload) {
  (void)payload;
  return situ_to(grad, there());
}

static void S11_results_casts_and_hooks(void **state) {
  (void)state;
  for (int which = 0; which < 4; which++) {
    situ_tensor *x = situ_requires_grad_(near(SITU_SHAPE(2)), true), *y = situ_exp(x);
    situ_tensor *shifted = situ_add_scalar(y, 1), *loss = situ_sum(shifted, NULL);
    moved_by_hook = y;
    situ_status wanted = SITU_E_DEVICE;
    switch (which) {
    case 0: expect_ok(situ_to_(y, there())); break;
    case 1: expect_ok(situ_register_hook(y, moving_hook, NULL)); break;
    case 2: expect_ok(situ_register_hook(shifted, elsewhere_hook, NULL)); break;
    default:
      x = situ_requires_grad_(near(SITU_SHAPE(2)), true);
      loss = situ_sum(situ_add_scalar(x, 1), NULL);
      situ_nn_module *holder = situ_nn_linear(2, 2, NULL);
      situ_nn_add_tensor(holder, "bias", NULL, x, SITU_NN_PARAMETER);
      expect_ok(situ_nn_to_dtype(holder, SITU_F64));
      situ_nn_free(holder);
      wanted = SITU_E_DTYPE;
    }
    assert_int_equal(situ_backward(loss, NULL), wanted);
    situ_error_clear();
    assert_null(situ_grad(x));
  }
}

/* S11: a gradient that is there already goes with its parameter, and one from elsewhere cannot be
   put there. */
/* placement: B3, G3 */
static void S11_a_gradient_is_where_its_parameter_is(void **state) {
  (void)state;
  situ_nn_module *net = two_layers();
  situ_tensor *weight = situ_nn_get_tensor(net, "0.weight");
  expect_ok(situ_backward(situ_sum(situ_nn_forward(net, near(SITU_SHAPE(1, 3))), NULL), NULL));
  assert_int_not_equal(situ_set_grad(weight, far(SITU_SHAPE(4, 3))), SITU_OK);
  expect_error(SITU_E_DEVICE, "", "");
  expect_ok(situ_nn_to(net, there()));
  expect_on(situ_grad(weight), there());
  situ_nn_free(net);
}

/* S12: values from another device or of another shape, accepted without a word. */
static void S12_values_of_another_shape_or_device_are_refused(void **state) {
  (void)state;
  situ_tensor *x = situ_zeros(SITU_SHAPE(2, 2), NULL);
  expect_mismatch(situ_copy_(x, far(SITU_SHAPE(2, 2))), "copy_", "src");
  expect_refused(situ_copy_(x, near(SITU_SHAPE(3))), SITU_E_SHAPE, "", "");
  double four[4] = { 1, 2, 3, 4 };
  if (situ_copy_from_host(x, four, sizeof four) == SITU_OK) fail_msg("8 bytes an element went into 4");
  expect_error(SITU_E_SHAPE, "copy_from_host", "32 bytes");
  expect_exact(x, SITU_SHAPE(2, 2), 0, 0, 0, 0);
}

/* S12: another parameter is put in the place of one, from elsewhere. It comes to where its module
   lives, or stays on meta, which has nothing to bring: then the module is mixed, the lint says so,
   and a call across is refused with the path. */
static void S12_a_parameter_from_elsewhere_is_brought_home(void **state) {
  (void)state;
  situ_nn_module *net = situ_nn_sequential(situ_nn_linear(2, 2, NULL));
  situ_tensor *weight = far(SITU_SHAPE(2, 2));
  assert_ptr_equal(situ_nn_add_tensor(situ_nn_at(net, 0), "weight", NULL, weight, SITU_NN_PARAMETER), weight);
  situ_tensor *y = situ_nn_forward(net, near(SITU_SHAPE(1, 2)));
  if (has_values(there())) {
    expect_on(weight, here());
    expect_on(y, here());
  } else {
    expect_refused(y, SITU_E_DEVICE, "linear", "0.weight");
    assert_int_equal(situ_place_lint(net, NULL), SITU_E_STATE);
    expect_error(SITU_E_STATE, "place_lint", "meta");
  }
  situ_nn_free(net);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    PAIR_TEST(S1_convolutions_refuse_a_weight_elsewhere),
    PAIR_TEST(S2_indices_elsewhere_are_refused_in_both_directions),
    PAIR_TEST(S3_writes_from_elsewhere_are_refused_and_change_nothing),
    PAIR_TEST(S4_mixed_products_and_joins_are_refused),
    PAIR_TEST(S5_a_state_dict_makes_a_module_on_meta_real),
    PAIR_TEST(S6_what_was_built_on_meta_has_its_values),
    PAIR_TEST(S6_what_holds_no_value_is_not_read),
    PAIR_TEST(S7_orphans_are_refused_at_the_step),
    PAIR_TEST(S7_an_optimiser_made_before_the_move_trains_the_module),
    PAIR_TEST(S8_aliases_and_views_stay_together),
    PAIR_TEST(S8_tied_weights_stay_tied),
    PAIR_TEST(S9_tied_weights_stay_tied_through_meta),
    PAIR_TEST(S10_a_move_that_fails_is_undone),
    PAIR_TEST(S10_a_move_that_cannot_copy_is_undone),
    PAIR_TEST(S10_a_cast_that_fails_is_undone),
    PAIR_TEST(S11_a_move_between_forward_and_backward_is_right_or_refused),
    PAIR_TEST(S11_no_kernel_of_the_way_back_sees_what_has_moved),
    PAIR_TEST(S11_results_casts_and_hooks),
    PAIR_TEST(S11_a_gradient_is_where_its_parameter_is),
    PAIR_TEST(S12_values_of_another_shape_or_device_are_refused),
    PAIR_TEST(S12_a_parameter_from_elsewhere_is_brought_home),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
