/* Work that a device lacks is done by the cpu where the policy says so: the cpu's bits, on the device again, each copy
   in the ledger and in the preflight; otherwise it is refused as ever. */
/* test-devices: sim:0 opencl:0 */
#include "situ/graph.h"
#include "situ/ops.h"
#include "situ/optim.h"
#include "situ/policy.h"
#include "situ/sys/alloc.h"
#include "support/pairs.h"

static const situ_policy falls_back = { .fallback = true };

static void lack(uint32_t dtypes) { expect_ok(situ_sim_without(there().index, dtypes)); }

static situ_tensor *leaf(situ_tensor *t, situ_device d) {
  return situ_requires_grad_(situ_detach(situ_to(t, d)), true);
}

/* ---- calls, each of x [4, 6], w [6, 6] and 6 elements of v ---- */

typedef situ_tensor *calling(situ_tensor *x, situ_tensor *w, situ_tensor *v);
static situ_tensor *add(situ_tensor *x, situ_tensor *w, situ_tensor *v) { return (void)w, situ_add(x, v); }
static situ_tensor *linear(situ_tensor *x, situ_tensor *w, situ_tensor *v) { return situ_linear(x, w, v); }
static situ_tensor *norm(situ_tensor *x, situ_tensor *w, situ_tensor *v) {
  return (void)w, situ_layer_norm(x, SITU_SHAPE(6), v, NULL, 1e-5);
}
static situ_tensor *softmax(situ_tensor *x, situ_tensor *w, situ_tensor *v) {
  return (void)w, situ_softmax(situ_mul(x, v), 1);
}
static situ_tensor *views(situ_tensor *x, situ_tensor *w, situ_tensor *v) {
  return (void)v, situ_tanh(situ_add(situ_narrow(situ_transpose(x, 0, 1), 0, 1, 4),
                                     situ_narrow(situ_narrow(w, 0, 2, 4), 1, 1, 4)));
}
static situ_tensor *joined(situ_tensor *x, situ_tensor *w, situ_tensor *v) {
  situ_tensor *const list[] = { x, w, situ_unsqueeze(v, 0) };
  return situ_cumsum(situ_cat(list, 3, 0), 0);
}
static situ_tensor *in_place(situ_tensor *x, situ_tensor *w, situ_tensor *v) {
  situ_tensor *y = situ_clone(situ_mul(x, v));
  return (void)w, situ_add_(situ_narrow(y, 0, 1, 2), v) ? y : NULL;
}
static calling *const calls[] = { add, linear, norm, softmax, views, joined, in_place };

static situ_tensor *results[4]; /* a call's result and gradients, on the cpu */

/* Runs a call forward and backward; returns false if it was refused. */
static bool run(calling *call, situ_tensor *const *in, situ_device device) {
  situ_tensor *own[3], *grad[3];
  for (int i = 0; i < 3; i++) own[i] = leaf(in[i], device);
  situ_tensor *y = call(own[0], own[1], own[2]), *sum = y ? situ_sum(y, NULL) : NULL;
  if (!sum || situ_autograd_grad(sum, 3, own, grad, &(situ_backward_options){ .retain_graph = true }) != SITU_OK)
    return false;
  expect_on(y, device);
  for (int i = 0; i < 3; i++)
    if (grad[i]) expect_on(grad[i], device);
  results[0] = situ_to(y, situ_dev("cpu"));
  for (int i = 0; i < 3; i++) results[i + 1] = grad[i] ? situ_to(grad[i], situ_dev("cpu")) : NULL;
  return true;
}

/* placement: D18 */
static void a_missing_dtype_is_computed_by_the_cpu(void **state) {
  (void)state;
  needs_sim();
  situ_tensor *in[] = { situ_randn(SITU_SHAPE(4, 6), &(situ_options){ .dtype = SITU_F64 }),
                        situ_randn(SITU_SHAPE(6, 6), &(situ_options){ .dtype = SITU_F64 }),
                        situ_randn(SITU_SHAPE(6), &(situ_options){ .dtype = SITU_F64 }) };
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
    situ_setting before;
    situ_ledger l;
    situ_transfer t[256];
    situ_tensor *wanted[4];
    assert_true(run(calls[i], in, situ_dev("cpu")));
    memcpy(wanted, results, sizeof wanted);
    lack(1u << SITU_F64);
    assert_false(run(calls[i], in, there())); /* off by default */
    expect_error(SITU_E_UNSUPPORTED, "", "cannot compute with f64");
    situ_error_clear();
    situ_policy_begin(&before, falls_back);
    situ_ledger_begin(&l);
    if (!run(calls[i], in, there())) fail_msg("call %d: %s", (int)i, situ_error_message());
    const int64_t count = situ_ledger_transfers(&l, t, 256);
    assert_in_range(count, 1, 256);
    int ins = 0, outs = 0;
    for (int64_t k = 0; k < count; k++) {
      if (strcmp(t[k].reason, "fallback") != 0) continue;
      assert_string_not_equal(t[k].op, "to");
      if (t[k].from.kind == SITU_CPU) outs++;
      else ins++;
    }
    assert_true(ins > 1 && outs > 1);
    expect_ok(situ_ledger_end(&l));
    situ_policy_end(&before);
    lack(0);
    for (int k = 0; k < 4; k++)
      if (wanted[k]) expect_same(results[k], wanted[k], 0, 0);
  }
}

/* One call: what it reads goes there, what it writes comes back, and no byte more. */
/* placement: D18 */
static void each_copy_is_counted(void **state) {
  (void)state;
  needs_sim();
  situ_setting before;
  situ_ledger l;
  situ_transfer t[8];
  situ_tensor *x = situ_zeros(SITU_SHAPE(4, 6), &(situ_options){ .dtype = SITU_F64, .device = there() });
  situ_tensor *w =
      situ_set_name(situ_ones(SITU_SHAPE(100, 6), &(situ_options){ .dtype = SITU_F64, .device = there() }), "w");
  situ_tensor *part = situ_narrow(w, 0, 50, 4);
  lack(1u << SITU_F64);
  situ_policy_begin(&before, falls_back);
  situ_ledger_begin_none(&l);
  situ_tensor *y = situ_add(x, part);
  assert_int_equal(situ_ledger_transfers(&l, t, 8), 3);
  for (int k = 0; k < 3; k++) {
    assert_int_equal(t[k].bytes, 4 * 6 * 8);
    assert_string_equal(t[k].op, "add");
    assert_string_equal(t[k].reason, "fallback");
  }
  assert_string_equal(t[1].tensor, "w");
  assert_true(situ_device_equal(t[2].to, there()));
  expect_error(situ_ledger_end(&l), "", "fallback");
  situ_policy_end(&before);
  expect_on(y, there());
  expect_refused(situ_add(x, part), SITU_E_UNSUPPORTED, "add", "cannot compute with f64");
  lack(0);
}

static situ_nn_module *make_net(void) {
  situ_nn_module *m = situ_nn_sequential(situ_nn_linear(6, 8, NULL), situ_nn_tanh(), situ_nn_linear(8, 3, NULL));
  expect_ok(situ_nn_to_dtype(m, SITU_F64));
  return m;
}

/* Of optimisers, whose work is a list. */
/* placement: D18 */
static void a_model_trains(void **state) {
  (void)state;
  needs_sim();
  situ_setting before;
  situ_nn_module *m[2] = { make_net(), NULL };
  assert_non_null(m[1] = situ_nn_clone(m[0]));
  situ_tensor *x = situ_randn(SITU_SHAPE(5, 6), &(situ_options){ .dtype = SITU_F64 });
  expect_ok(situ_nn_to(m[1], there()));
  for (int k = 0; k < 2; k++) {
    if (k) lack(1u << SITU_F64);
    situ_policy_begin(&before, falls_back);
    situ_optim *optim = situ_optim_adamw(situ_nn_parameters(m[k]), 0.1, NULL);
    for (int step = 0; step < 3; step++) {
      situ_scope s;
      situ_scope_begin(&s);
      expect_ok(situ_optim_zero_grad(optim, true));
      situ_tensor *y = situ_nn_forward(m[k], k ? situ_to(x, there()) : x);
      expect_ok(situ_backward(situ_mean(situ_mul(y, y), NULL), NULL));
      expect_ok(situ_optim_step(optim));
      expect_ok(situ_scope_end(&s));
    }
    situ_optim_free(optim);
    situ_policy_end(&before);
  }
  lack(0);
  expect_ok(situ_place_expect_on(m[1], there()));
  expect_ok(situ_nn_to(m[1], situ_dev("cpu")));
  for (int i = 0; i < 3; i += 2) {
    char path[16];
    (void)snprintf(path, sizeof path, "%d.weight", i);
    expect_same(situ_nn_get_tensor(m[1], path), situ_nn_get_tensor(m[0], path), 0, 0);
  }
  for (int k = 0; k < 2; k++) situ_nn_free(m[k]);
}

/* The preflight shows the copies that the run then makes. */
/* placement: D18 */
static void a_preflight_has_them_as_edges(void **state) {
  (void)state;
  needs_sim();
  situ_setting before;
  situ_place_report r;
  situ_ledger l;
  situ_nn_module *m = make_net();
  expect_ok(situ_nn_to(m, there()));
  situ_tree *in =
      situ_tree_tensor(situ_ones(SITU_SHAPE(5, 6), &(situ_options){ .dtype = SITU_F64, .device = there() }));
  lack(1u << SITU_F64);
  expect_ok(situ_place_check(m, in, NULL, &r));
  assert_true(r.mistakes > 0 && r.edge_count == 0);
  situ_place_report_free(&r);
  const situ_place_check_options forward = { .backward = SITU_PLACE_BACKWARD_NEVER };
  situ_policy_begin(&before, falls_back);
  expect_ok(situ_place_check(m, in, &forward, &r));
  situ_ledger_begin(&l);
  situ_tree *out = situ_nn_call(m, in);
  const situ_transfers total = situ_ledger_total(&l);
  expect_ok(situ_ledger_end(&l));
  situ_policy_end(&before);
  uint64_t bytes = 0, count = 0;
  bool to = false, from = false;
  for (int64_t i = 0; i < r.edge_count; i++) {
    const situ_place_edge *e = &r.edges[i];
    bytes += e->bytes, count += (uint64_t)e->count;
    to |= e->from_device.kind == SITU_CPU && strcmp(e->op, "linear") == 0;
    from |= e->to_device.kind == SITU_CPU && strcmp(e->op, "tanh") == 0;
  }
  assert_int_equal(r.mistakes, 0);
  assert_int_equal(bytes, total.bytes);
  assert_int_equal(count, total.count);
  assert_true(to && from);
  situ_place_report_free(&r);
  lack(0);
  situ_tree_free(out);
  situ_tree_free(in);
  situ_nn_free(m);
}

/* A device without LAPACK. */
static void a_missing_kernel(void **state) {
  (void)state;
  if (!test_has_lapack()) skip();
  situ_setting before;
  situ_tensor *x = situ_randn(SITU_SHAPE(4, 4), NULL), *far = situ_to(x, there());
  situ_tensor *wanted = situ_linalg_inv(x);
  if (!wanted) skip(); /* nor has the cpu */
  situ_policy_begin(&before, falls_back);
  situ_tensor *y = situ_linalg_inv(far);
  situ_policy_end(&before);
  expect_on(y, there());
  expect_same(situ_to(y, situ_dev("cpu")), wanted, 0, 0);
  if (there().kind != SITU_SIM) expect_refused(situ_linalg_inv(far), SITU_E_UNSUPPORTED, "linalg_inv", ".fallback");
}

static void not_in_graphs(void **state) {
  (void)state;
  needs_sim();
  situ_setting before;
  situ_tensor *x = situ_ones(SITU_SHAPE(3), &(situ_options){ .dtype = SITU_F64, .device = there() });
  lack(1u << SITU_F64);
  situ_policy_begin(&before, falls_back);
  expect_ok(situ_graph_capture_begin(there()));
  expect_refused(situ_neg(x), SITU_E_UNSUPPORTED, "neg", "cannot compute with f64");
  situ_graph_free(situ_graph_capture_end());
  situ_error_clear();
  situ_policy_end(&before);
  lack(0);
}

static void nothing_leaks_without_memory(void **state) {
  (void)state;
  needs_sim();
  situ_setting before;
  situ_tensor *x = situ_ones(SITU_SHAPE(3), &(situ_options){ .dtype = SITU_F64, .device = there() });
  lack(1u << SITU_F64);
  situ_policy_begin(&before, falls_back);
  int failed = 0;
  for (uint64_t nth = 1; nth < 100; nth++) {
    const int64_t tensors = situ_live_tensors(), bytes = situ_live_bytes();
    situ_scope s;
    situ_scope_begin(&s);
    situ_fail_allocation(nth, false);
    situ_tensor *y = situ_add(x, x);
    situ_fail_allocation(0, false);
    situ_error_clear();
    const bool done = y != NULL;
    failed += !done;
    SITU_IGNORE(situ_scope_end(&s));
    assert_true(situ_live_tensors() == tensors && situ_live_bytes() == bytes);
    if (done) break;
  }
  assert_in_range(failed, 2, 90);
  situ_policy_end(&before);
  lack(0);
}

/* Columns that are written one by one, and the one between them that is not. */
static void parts_stay_parts(void **state) {
  (void)state;
  needs_sim();
  situ_setting before;
  const situ_options far = { .dtype = SITU_F64, .device = there() };
  situ_tensor *x = situ_empty(SITU_SHAPE(4, 3), &far), *ones = situ_ones(SITU_SHAPE(4), &far);
  lack(1u << SITU_F64);
  situ_policy_begin(&before, falls_back);
  assert_non_null(situ_fill_(situ_select(x, 1, 0), 7));
  assert_non_null(situ_copy_(situ_select(x, 1, 2), ones));
  situ_tensor *sum = situ_add(situ_select(x, 1, 0), situ_select(x, 1, 2));
  expect_refused(situ_neg(situ_select(x, 1, 1)), SITU_E_STATE, "neg", "nothing was written to element [0] of the [4]");
  situ_policy_end(&before);
  lack(0);
  expect_exact(situ_to_dtype(situ_to(sum, situ_dev("cpu")), SITU_F32), SITU_SHAPE(4), 8, 8, 8, 8);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    PAIR_TEST(a_missing_dtype_is_computed_by_the_cpu), PAIR_TEST(each_copy_is_counted), PAIR_TEST(a_model_trains),
    PAIR_TEST(a_preflight_has_them_as_edges),          PAIR_TEST(a_missing_kernel),     PAIR_TEST(not_in_graphs),
    PAIR_TEST(nothing_leaks_without_memory),           PAIR_TEST(parts_stay_parts),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
