/* The preflight: every mistake at once, and nothing changed. */
/* test-devices: sim:0 opencl:0 */
#include <stdio.h>
#include <string.h>

#include "situ/graph.h"
#include "situ/nn.h"
#include "situ/place.h"
#include "situ/policy.h"
#include "situ/sys/alloc.h"
#include "situ/sys/sim.h"
#include "support/test.h"

/* ---- a model over two devices, with as many mistakes as are asked for ------------------------ */

typedef struct net {
  situ_nn_module base;
  situ_nn_module *fc1, *fc2, *head, *unused;
  situ_tensor *offset; /* not registered: stays behind */
  bool looks, keeps;
} net;

static situ_tensor *kept;

static situ_tensor *net_forward(situ_nn_module *self, situ_tensor *x) {
  net *m = (net *)self;
  double value = 0;
  x = situ_dropout(situ_relu(situ_nn_forward(m->fc1, x)), 0.5, true, NULL);
  if (m->offset) x = situ_add(x, m->offset);
  if (m->looks && situ_item(situ_sum(x, NULL), &value) != SITU_OK) return NULL;
  x = situ_to(situ_nn_forward(m->fc2, x), situ_nn_home(m->head));
  if (m->keeps) situ_set(&kept, x);
  return situ_nn_forward(m->head, x);
}
static const situ_nn_type net_type = { .name = "Net", .size = sizeof(net), .forward = net_forward };

static net *make(int64_t hidden, situ_dtype dtype) {
  net *m = situ_nn_alloc(&net_type);
  situ_nn_child(m, fc1, situ_nn_linear(784, 64, NULL));
  situ_nn_child(m, fc2, situ_nn_linear(hidden, 10, NULL));
  situ_nn_child(m, head, situ_nn_linear(10, 10, &(situ_nn_linear_options){ .dtype = dtype }));
  assert_non_null(situ_nn_done(m));
  assert_int_equal(situ_nn_to(&m->base, test_device_at(0)), SITU_OK);
  assert_int_equal(situ_nn_to(m->head, test_device_at(1)), SITU_OK);
  return m;
}

static situ_tree *batch(situ_device device) {
  return situ_tree_tensor(situ_ones(SITU_SHAPE(32, 784), &(situ_options){ .device = device }));
}

static int64_t count_of(const situ_place_report *r, situ_place_problem problem) {
  int64_t count = 0;
  for (int64_t i = 0; i < r->finding_count; i++) count += r->findings[i].problem == problem;
  return count;
}

/* ---- what it finds --------------------------------------------------------------------------- */

/* placement: I3 */
static void a_good_model_has_edges_and_loads_only(void **state) {
  (void)state;
  net *m = make(64, SITU_F32);
  situ_tree *in = batch(test_device_at(0));
  situ_place_report r;
  assert_int_equal(situ_place_check(&m->base, in, NULL, &r), SITU_OK);
  assert_true(r.finished && r.differentiated);
  assert_int_equal(r.finding_count, 0);
  assert_int_equal(r.edge_count, 2); /* there, and its gradient back */
  assert_string_equal(r.edges[0].from, "fc2");
  assert_string_equal(r.edges[0].to, "head");
  assert_true(situ_device_equal(r.edges[0].from_device, test_device_at(0)));
  assert_true(situ_device_equal(r.edges[0].to_device, test_device_at(1)));
  assert_int_equal(r.edges[0].bytes, 32 * 10 * 4);
  assert_int_equal(r.edges[0].count, 1);
  assert_string_equal(r.edges[1].op, "to backward");
  assert_int_equal(r.load_count, 2);
  assert_true(r.loads[0].launches >= 4);
  assert_int_equal(r.loads[0].parameters, 4 * (784 * 64 + 64 + 64 * 10 + 10));
  assert_true(r.loads[0].peak >= r.loads[0].parameters + 4 * 32 * 784);
  assert_int_equal(situ_place_check(&m->base, in, NULL, NULL), SITU_OK);
  situ_place_report_free(&r);
  situ_tree_free(in);
  situ_nn_free(&m->base);
}

/* Whichever allocation fails, an edge that a report has is whole. */
static void edges_are_whole_without_memory(void **state) {
  (void)state;
  net *m = make(64, SITU_F32);
  situ_tree *in = batch(test_device_at(0));
  situ_fail_allocation(0, false);
  assert_int_equal(situ_place_check(&m->base, in, NULL, NULL), SITU_OK);
  const uint64_t most = situ_allocation_count();
  for (uint64_t nth = 1; nth <= most; nth++) {
    situ_place_report r;
    situ_fail_allocation(nth, false);
    const situ_status status = situ_place_check(&m->base, in, NULL, &r);
    situ_fail_allocation(0, false);
    situ_error_clear();
    if (status != SITU_OK) continue;
    assert_int_equal(r.edge_count, 2);
    for (int64_t i = 0; i < r.edge_count; i++) assert_true(r.edges[i].from && r.edges[i].to);
    situ_place_report_free(&r);
  }
  situ_tree_free(in);
  situ_nn_free(&m->base);
}

/* placement: D9, D10 */
static void all_mistakes_are_found_in_one_go(void **state) {
  (void)state;
  net *m = make(32, SITU_F64);
  m->offset = situ_ones(SITU_SHAPE(64), NULL);
  situ_tree *in = batch(situ_dev("cpu"));
  situ_place_report r;
  assert_int_equal(situ_place_check(&m->base, in, NULL, &r), SITU_OK);
  assert_true(r.finished && r.differentiated);
  assert_int_equal(r.mistakes, 4);
  assert_int_equal(r.finding_count, 4);
  const situ_place_finding *f = r.findings;
  assert_true(f[0].problem == SITU_PLACE_DEVICE && f[1].problem == SITU_PLACE_DEVICE);
  assert_string_equal(f[0].module, "fc1");
  assert_non_null(strstr(f[0].fix, "situ_to("));
  assert_string_equal(f[1].op, "add");
  assert_int_equal(f[2].problem, SITU_PLACE_SHAPE);
  assert_string_equal(f[2].module, "fc2");
  assert_non_null(strstr(f[2].text, "64 and 32 differ"));
  assert_int_equal(f[3].problem, SITU_PLACE_DTYPE);
  assert_string_equal(f[3].module, "head");

  char text[8192], json[16384];
  assert_true(situ_place_report_to_string(&r, text, sizeof text) < (int64_t)sizeof text);
  assert_non_null(strstr(text, "4 mistakes"));
  char edge[96], name[2][SITU_DEVICE_NAME_MAX];
  (void)snprintf(edge, sizeof edge, "fc2 (%s) -> Net (%s): 1.2 KiB by to", situ_device_name(test_device_at(0), name[0]),
                 situ_device_name(test_device_at(1), name[1]));
  assert_non_null(strstr(text, edge));
  int64_t length = situ_place_report_json(&r, json, sizeof json);
  assert_int_equal(length, (int64_t)strlen(json));
  assert_non_null(strstr(json, "\"problem\": \"shape\""));
  expect_refused(situ_place_check(&m->base, in, NULL, NULL) == SITU_OK ? &r : NULL, SITU_E_STATE, "place_check",
                 "4 mistakes");
  situ_place_report_free(&r);
  situ_tree_free(in);
  situ_nn_free(&m->base);
}

/* A check goes on after each of them: the last layer is refused, too. */
static situ_tensor *wrong_forward(situ_nn_module *self, situ_tensor *x) {
  const net *m = (const net *)self;
  const situ_pool_options wide = { .kernel = SITU_DIMS(9) };
  x = situ_nn_forward(m->fc1, x);
  situ_tensor *pooled = situ_max_pool2d(situ_reshape(x, SITU_SHAPE(1, 8, 8, -1)), &wide, NULL);
  pooled = situ_avg_pool2d(pooled, &wide);
  x = situ_add(situ_reshape(x, SITU_SHAPE(-1, 7)), situ_mean(pooled, NULL));
  situ_tensor *loss = situ_cross_entropy(
      x, situ_zeros(SITU_SHAPE(3), &(situ_options){ .dtype = SITU_I64, .device = situ_device_of(x) }), NULL);
  return situ_add(loss, situ_view(situ_nn_forward(m->head, x), SITU_SHAPE(2, 3)));
}
static const situ_nn_type wrong_type = { .name = "Net", .size = sizeof(net), .forward = wrong_forward };

static void a_check_goes_on_after_wrong_shapes(void **state) {
  (void)state;
  static const char *const ops[] = { "max_pool2d", "avg_pool2d", "reshape", "cross_entropy", "linear", "view" };
  net *m = situ_nn_alloc(&wrong_type);
  situ_nn_child(m, fc1, situ_nn_linear(784, 64, NULL));
  situ_nn_child(m, head, situ_nn_linear(10, 10, NULL));
  assert_non_null(situ_nn_done(m));
  situ_tree *in = batch(situ_dev("cpu"));
  situ_place_report r;
  assert_int_equal(situ_place_check(&m->base, in, NULL, &r), SITU_OK);
  assert_true(r.finished && r.differentiated);
  assert_int_equal(r.finding_count, 6);
  for (int i = 0; i < 6; i++) {
    assert_string_equal(r.findings[i].op, ops[i]);
    assert_int_equal(r.findings[i].problem, SITU_PLACE_SHAPE);
  }
  situ_place_report_free(&r);
  situ_tree_free(in);
  situ_nn_free(&m->base);
}

static void who_looks_at_values_is_told(void **state) {
  (void)state;
  net *m = make(64, SITU_F32);
  m->looks = true;
  situ_tree *in = batch(test_device_at(0));
  situ_place_report r;
  assert_int_equal(situ_place_check(&m->base, in, NULL, &r), SITU_OK);
  assert_false(r.finished || r.differentiated);
  assert_int_equal(r.finding_count, 1);
  assert_int_equal(r.findings[0].problem, SITU_PLACE_VALUES);
  assert_string_equal(r.findings[0].op, "item");
  situ_place_report_free(&r);
  situ_tree_free(in);
  situ_nn_free(&m->base);
}

/* placement: A17 */
static void what_a_device_cannot_do_is_found(void **state) {
  (void)state;
  if (test_device().kind != SITU_SIM) skip(); /* only it can be told to lack a dtype */
  net *m = make(64, SITU_F32);
  situ_tree *in = batch(test_device_at(0));
  situ_place_report r;
  assert_int_equal(situ_sim_without(1, 1u << SITU_F32), SITU_OK);
  assert_int_equal(
      situ_place_check(&m->base, in, &(situ_place_check_options){ .backward = SITU_PLACE_BACKWARD_NEVER }, &r),
      SITU_OK);
  assert_int_equal(situ_sim_without(1, 0), SITU_OK);
  assert_true(r.finished);
  assert_int_equal(r.mistakes, 1);
  assert_int_equal(count_of(&r, SITU_PLACE_UNSUPPORTED), 1);
  assert_string_equal(r.findings[0].module, "head");
  assert_non_null(strstr(r.findings[0].text, "sim:1 cannot compute with f32"));
  situ_place_report_free(&r);
  situ_tree_free(in);
  situ_nn_free(&m->base);
}

/* Meta runs nothing, and empty results need no kernel: neither can lack a verb or a dtype. */
static void what_runs_nothing_lacks_nothing(void **state) {
  (void)state;
  const situ_place_check_options forward = { .backward = SITU_PLACE_BACKWARD_NEVER };
  situ_nn_module *far = situ_nn_linear(3, 2, &(situ_nn_linear_options){ .device = situ_dev("meta") });
  situ_tree *in = situ_tree_tensor(situ_ones(SITU_SHAPE(4, 3), &(situ_options){ .device = situ_dev("meta") }));
  situ_place_report r;
  assert_int_equal(situ_place_check(far, in, NULL, &r), SITU_OK);
  assert_true(r.finished && r.differentiated);
  assert_int_equal(r.mistakes, 0);
  situ_place_report_free(&r);
  situ_tree_free(in);
  situ_nn_free(far);
  if (test_device().kind != SITU_SIM) return; /* only it can be told to lack a dtype */
  situ_nn_module *near = situ_nn_linear(3, 2, &(situ_nn_linear_options){ .device = test_device_at(1) });
  in = situ_tree_tensor(situ_empty(SITU_SHAPE(0, 3), &(situ_options){ .device = test_device_at(1) }));
  assert_int_equal(situ_sim_without(1, 1u << SITU_F32), SITU_OK);
  assert_int_equal(situ_place_check(near, in, &forward, &r), SITU_OK);
  assert_int_equal(situ_sim_without(1, 0), SITU_OK);
  assert_true(r.finished);
  assert_int_equal(r.mistakes, 0);
  situ_place_report_free(&r);
  situ_tree_free(in);
  situ_nn_free(near);
}

static void a_parameter_without_gradient_is_a_note(void **state) {
  (void)state;
  net *m = make(64, SITU_F32);
  situ_nn_child(m, unused, situ_nn_linear(2, 2, NULL));
  situ_tree *in = batch(test_device_at(0));
  situ_place_report r;
  assert_int_equal(situ_place_check(&m->base, in, NULL, &r), SITU_OK);
  assert_int_equal(r.mistakes, 0);
  assert_int_equal(count_of(&r, SITU_PLACE_GRADIENT), 2);
  assert_string_equal(r.findings[0].tensor, "unused.weight");
  situ_place_report_free(&r);
  assert_non_null(situ_nn_eval(&m->base));
  assert_int_equal(situ_place_check(&m->base, in, NULL, &r), SITU_OK);
  assert_true(r.finished && !r.differentiated);
  assert_int_equal(r.finding_count, 0);
  situ_place_report_free(&r);
  situ_tree_free(in);
  situ_nn_free(&m->base);
}

/* ---- what it leaves alone -------------------------------------------------------------------- */

/* placement: D10, J9 */
static void nothing_changes(void **state) {
  (void)state;
  situ_nn_module *m =
      situ_nn_sequential(situ_nn_linear(8, 8, NULL), situ_nn_batch_norm1d(8, NULL), situ_nn_lazy_linear(4, NULL));
  situ_tree *in = situ_tree_tensor(situ_randn(SITU_SHAPE(16, 8), NULL));
  situ_tensor *w = situ_nn_get_tensor(m, "0.weight"), *mean = situ_nn_get_tensor(m, "1.running_mean");
  situ_tensor *weight = situ_clone(situ_detach(w)), *running = situ_clone(mean);
  const uint32_t version = situ_version_of(mean);
  const situ_generator rng = situ_get_rng_state();
  const int64_t tensors = situ_live_tensors(), bytes = situ_live_bytes();
  const int64_t modules = situ_nn_live_modules();
  SITU_IGNORE(situ_matmul(situ_ones(SITU_SHAPE(2, 3), NULL), situ_ones(SITU_SHAPE(2, 3), NULL)));
  char before[512];
  snprintf(before, sizeof before, "%s", situ_error_message());
  const int64_t made = situ_live_tensors() - tensors, held = situ_live_bytes() - bytes;
  situ_place_report r;
  assert_int_equal(situ_place_check(m, in, NULL, &r), SITU_OK);
  assert_true(r.finished && r.differentiated && r.finding_count == 0);
  situ_place_report_free(&r);
  assert_string_equal(situ_error_message(), before);
  expect_error(SITU_E_SHAPE, "matmul", "differ");
  const situ_generator now = situ_get_rng_state();
  assert_true(now.seed == rng.seed && now.offset == rng.offset);
  assert_int_equal(situ_live_tensors(), tensors + made);
  assert_int_equal(situ_live_bytes(), bytes + held);
  assert_int_equal(situ_nn_live_modules(), modules);
  assert_int_equal(situ_version_of(mean), version);
  assert_null(situ_grad(w));
  expect_same(w, weight, 0, 0);
  expect_same(mean, running, 0, 0);
  assert_true(situ_nn_at(m, 2)->pending);
  situ_tree_free(in);
  situ_nn_free(m);
}

/* placement: K1, K5 */
static void a_model_too_large_for_any_memory_is_checked(void **state) {
  (void)state;
  if (test_device().kind != SITU_SIM) skip(); /* only it can be given a size */
  const situ_nn_linear_options meta = { .device = situ_dev("meta") };
  situ_nn_module *m =
      situ_nn_sequential(situ_nn_linear(50000, 25000, &meta), situ_nn_relu(), situ_nn_linear(25000, 50000, &meta));
  situ_tree *in = situ_tree_tensor(situ_empty(SITU_SHAPE(4, 50000), &(situ_options){ .device = situ_dev("meta") }));
  situ_sim_statistics was, is;
  assert_int_equal(situ_sim_budget(0, 1u << 30), SITU_OK);
  assert_int_equal(situ_sim_stats(0, &was), SITU_OK);
  const int64_t bytes = situ_live_bytes();
  situ_place_report r;
  assert_int_equal(situ_place_check(m, in, &(situ_place_check_options){ .device = situ_dev("sim:0") }, &r), SITU_OK);
  assert_true(r.finished && r.differentiated);
  assert_int_equal(r.mistakes, 1);
  assert_int_equal(r.findings[0].problem, SITU_PLACE_MEMORY);
  assert_true(situ_device_equal(r.loads[0].device, situ_dev("sim:0")));
  assert_true(r.loads[0].peak > 10000000000u);
  assert_int_equal(situ_live_bytes(), bytes);
  assert_int_equal(situ_sim_stats(0, &is), SITU_OK);
  assert_memory_equal(&was, &is, sizeof is);
  assert_int_equal(situ_sim_budget(0, 1u << 30), SITU_OK);
  situ_place_report_free(&r);
  situ_tree_free(in);
  situ_nn_free(m);
}

static void what_is_kept_is_on_meta_afterwards(void **state) {
  (void)state;
  net *m = make(64, SITU_F32);
  m->keeps = true;
  situ_tree *in = batch(test_device_at(0));
  situ_place_report r;
  assert_int_equal(
      situ_place_check(&m->base, in, &(situ_place_check_options){ .backward = SITU_PLACE_BACKWARD_NEVER }, &r),
      SITU_OK);
  assert_int_equal(r.mistakes, 0);
  assert_int_equal(count_of(&r, SITU_PLACE_KEPT), 1);
  assert_true(situ_device_equal(situ_device_of(kept), situ_dev("meta")));
  expect_refused(situ_add(kept, situ_ones(SITU_SHAPE(32, 10), NULL)), SITU_E_DEVICE, "add", "meta");
  situ_drop(&kept);
  situ_place_report_free(&r);
  situ_tree_free(in);
  situ_nn_free(&m->base);
}

/* Copies of the way back have the modules that the value went between, and what the root computes has its name. */
static situ_tensor *residual_forward(situ_nn_module *self, situ_tensor *x) {
  net *m = (net *)self;
  situ_tensor *h = situ_nn_forward(m->fc1, x);
  situ_tensor *y = situ_add(h, situ_nn_forward(m->fc2, h));
  return situ_add(y, situ_nn_forward(m->head, y));
}
static const situ_nn_type residual_type = { .name = "Residual", .size = sizeof(net), .forward = residual_forward };

static bool has_edge(const situ_place_report *r, const char *from, const char *to, const char *op) {
  for (int64_t i = 0; i < r->edge_count; i++)
    if (strcmp(r->edges[i].from, from) == 0 && strcmp(r->edges[i].to, to) == 0 && strcmp(r->edges[i].op, op) == 0)
      return true;
  return false;
}

static void every_copy_has_its_modules(void **state) {
  (void)state;
  net *m = situ_nn_alloc(&residual_type);
  situ_nn_child(m, fc1, situ_nn_linear(8, 8, NULL));
  situ_nn_child(m, fc2, situ_nn_linear(8, 8, NULL));
  situ_nn_child(m, head, situ_nn_linear(8, 8, NULL));
  situ_nn_module *model = situ_nn_set_name(situ_nn_done(m), "model");
  assert_int_equal(situ_nn_to(m->fc2, test_device_at(0)), SITU_OK);
  assert_int_equal(situ_nn_to(m->head, test_device_at(1)), SITU_OK);
  situ_tree *in = situ_tree_tensor(situ_ones(SITU_SHAPE(4, 8), NULL));
  const situ_policy all = { .host_to_device = SITU_POLICY_COPY,
                            .device_to_host = SITU_POLICY_COPY,
                            .device_to_device = SITU_POLICY_COPY };
  situ_setting before;
  situ_place_report r;
  situ_policy_begin(&before, all);
  assert_int_equal(situ_place_check(model, in, NULL, &r), SITU_OK);
  situ_policy_end(&before);
  assert_int_equal(r.mistakes, 0);
  assert_int_equal(r.edge_count, 8);
  assert_true(has_edge(&r, "fc1", "fc2", "linear") && has_edge(&r, "fc2", "model", "add"));
  assert_true(has_edge(&r, "model", "head", "linear") && has_edge(&r, "head", "model", "add"));
  assert_true(has_edge(&r, "fc2", "fc1", "linear backward") && has_edge(&r, "model", "fc2", "add backward"));
  assert_true(has_edge(&r, "head", "model", "linear backward") && has_edge(&r, "model", "head", "add backward"));
  situ_place_report_free(&r);
  situ_tree_free(in);
  situ_nn_free(model);
}

/* A module that owns memory of its own and cannot copy it is run itself; it is the caller's before and after. */
static void owner_release(situ_nn_module *self) { (void)self; }
static situ_tensor *owner_forward(situ_nn_module *self, situ_tensor *x) {
  return situ_nn_forward(((net *)self)->fc1, x);
}
static const situ_nn_type owner_type = {
  .name = "Owner", .size = sizeof(net), .forward = owner_forward, .release = owner_release
};

static void a_module_that_cannot_be_cloned_is_run_itself(void **state) {
  (void)state;
  net *m = situ_nn_alloc(&owner_type);
  situ_nn_child(m, fc1, situ_nn_linear(784, 64, NULL));
  situ_nn_module *owner = situ_nn_done(m);
  const int64_t modules = situ_nn_live_modules();
  situ_tree *in = batch(situ_dev("cpu"));
  situ_place_report r;
  for (int again = 0; again < 2; again++) {
    assert_int_equal(situ_place_check(owner, in, NULL, &r), SITU_OK);
    assert_true(r.finished && r.mistakes == 0);
    situ_place_report_free(&r);
    assert_true(situ_nn_is_module(owner));
    assert_int_equal(situ_nn_live_modules(), modules);
  }
  /* With a lazy part it would make its parameters: that is refused. */
  situ_nn_child(m, fc2, situ_nn_lazy_linear(4, NULL));
  assert_int_equal(situ_place_check(owner, in, NULL, &r), SITU_OK);
  assert_false(r.finished);
  assert_int_equal(count_of(&r, SITU_PLACE_OTHER), 1);
  assert_string_equal(r.findings[0].module, "fc2");
  situ_place_report_free(&r);
  situ_tree_free(in);
  situ_nn_free(owner);
}

static void bad_arguments_are_refused(void **state) {
  (void)state;
  situ_nn_module *m = situ_nn_linear(2, 2, NULL);
  char text[64];
  assert_int_equal(situ_place_report_json(NULL, text, sizeof text), -1);
  expect_error(SITU_E_ARG, "place_report_json", "`report` is NULL");
  assert_int_equal(situ_place_report_to_string(NULL, text, sizeof text), -1);
  expect_error(SITU_E_ARG, "place_report_to_string", "`report` is NULL");
  assert_int_equal(situ_place_check(m, NULL, NULL, NULL), SITU_E_ARG);
  expect_error(SITU_E_ARG, "place_check", "inputs");
  assert_int_equal(situ_place_check(NULL, NULL, NULL, NULL), SITU_E_ARG);
  expect_error(SITU_E_ARG, "place_check", "module");
  situ_tree *in = situ_tree_tensor(situ_ones(SITU_SHAPE(1, 2), NULL));
  const situ_place_check_options wrong = { .backward = (situ_place_backward)9 };
  assert_int_equal(situ_place_check(m, in, &wrong, NULL), SITU_E_ARG);
  expect_error(SITU_E_ARG, "place_check", "options.backward: 9 is not a situ_place_backward");
  situ_tree_free(in);
  situ_place_report_free(NULL);
  situ_nn_free(m);
}

/* ---- a module that cannot be copied, and writes a buffer of its own in place ---- */

typedef struct sums {
  situ_nn_module base;
  situ_tensor *weight, *sum;
} sums;
static situ_tensor *sums_forward(situ_nn_module *self, situ_tensor *x) {
  sums *m = (sums *)self;
  situ_tensor *y = situ_mul(x, m->weight);
  SITU_IGNORE(!situ_add_(situ_narrow(m->sum, 0, 0, 2), situ_narrow(y, 0, 0, 2)));
  return situ_add_(m->sum, y) ? situ_add(y, m->sum) : NULL;
}
static void sums_release(situ_nn_module *self) { (void)self; }

static void the_buffers_history_stays(void **state) {
  static const situ_nn_type type = {
    .name = "Sums", .size = sizeof(sums), .forward = sums_forward, .release = sums_release
  };
  (void)state;
  sums *m = situ_nn_alloc(&type);
  situ_nn_param(m, weight, situ_ones(SITU_SHAPE(3), NULL));
  situ_nn_buffer(m, sum, situ_zeros(SITU_SHAPE(3), NULL));
  assert_non_null(situ_nn_done(m));
  situ_tree *in = situ_tree_tensor(situ_ones(SITU_SHAPE(3), NULL));
  situ_place_report r;
  assert_int_equal(situ_place_check(&m->base, in, NULL, &r), SITU_OK);
  assert_int_equal(r.finding_count, 0);
  assert_true(situ_is_leaf(m->sum) && !situ_requires_grad(m->sum) && situ_version_of(m->sum) == 1);
  situ_place_report_free(&r);
  situ_tree_free(in);
  situ_nn_free(&m->base);
}

/* A check copies nothing, so that a graph that is being captured does not hinder it. */
static void a_capture_goes_on(void **state) {
  (void)state;
  const situ_device first = test_device_at(0);
  situ_nn_module *m = situ_nn_linear(2, 2, NULL);
  situ_tree *in = situ_tree_tensor(situ_ones(SITU_SHAPE(1, 2), &(situ_options){ .device = first }));
  char map[32], name[SITU_DEVICE_NAME_MAX];
  (void)snprintf(map, sizeof map, "*=%s", situ_device_name(first, name));
  assert_int_equal(situ_graph_capture_begin(first), SITU_OK);
  assert_int_equal(situ_place_check(m, in, &(situ_place_check_options){ .map = map, .device = first }, NULL), SITU_OK);
  situ_graph_free(situ_graph_capture_end());
  situ_error_clear();
  situ_tree_free(in);
  situ_nn_free(m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    TEST(every_copy_has_its_modules),
    TEST(a_module_that_cannot_be_cloned_is_run_itself),
    TEST(bad_arguments_are_refused),
    TEST(a_good_model_has_edges_and_loads_only),
    TEST(edges_are_whole_without_memory),
    TEST(all_mistakes_are_found_in_one_go),
    TEST(a_check_goes_on_after_wrong_shapes),
    TEST(who_looks_at_values_is_told),
    TEST(what_a_device_cannot_do_is_found),
    TEST(what_runs_nothing_lacks_nothing),
    TEST(a_parameter_without_gradient_is_a_note),
    TEST(nothing_changes),
    TEST(the_buffers_history_stays),
    TEST(a_model_too_large_for_any_memory_is_checked),
    TEST(a_capture_goes_on),
    TEST(what_is_kept_is_on_meta_afterwards),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
