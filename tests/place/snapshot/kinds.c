/* Snapshots with gradients, states of optimisers and tensors that are not registered, as a tree, JSON, a lock file and a
   graph.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 opencl:0 */
#include <stdlib.h>

#include "situ/situ.h"
#include "support/pairs.h"

typedef struct net {
  situ_nn_module base;
  situ_nn_module *fc;
  situ_tensor *offset, *unnamed;
} net;
static const situ_nn_type net_type = { .name = "Net", .size = sizeof(net) };

typedef struct trained {
  situ_nn_module *model;
  situ_optim *optim;
} trained;

static trained train(void) {
  const situ_options there = { .device = test_device() };
  net *m = situ_nn_alloc(&net_type);
  situ_nn_child(m, fc, situ_nn_linear(4, 3, NULL));
  m->offset = situ_set_name(situ_ones(SITU_SHAPE(5), &there), "offset");
  m->unnamed = situ_ones(SITU_SHAPE(2), &there);
  trained t = { .model = situ_nn_done(m) };
  expect_ok(situ_nn_to(t.model, test_device()));
  t.optim = situ_optim_adam(situ_nn_parameters(t.model), 0.1, NULL);
  expect_ok(situ_backward(situ_sum(situ_nn_forward(m->fc, situ_ones(SITU_SHAPE(2, 4), &there)), NULL), NULL));
  expect_ok(situ_optim_step(t.optim));
  return t;
}

static void end(trained t) {
  situ_optim_free(t.optim);
  situ_nn_free(t.model);
}

static const situ_place_entry *find(const situ_snapshot *s, const char *path) {
  for (int64_t i = 0; i < situ_snapshot_count(s); i++)
    if (strcmp(situ_snapshot_at(s, i)->path, path) == 0) return situ_snapshot_at(s, i);
  return NULL;
}

static void expect_entry(const situ_snapshot *s, const char *path, situ_place_role role, uint64_t bytes) {
  const situ_place_entry *e = find(s, path);
  if (!e) fail_msg("no %s", path);
  assert_int_equal(e->role, role);
  assert_int_equal(e->bytes, bytes);
  assert_true(situ_device_equal(e->device, test_device()));
}

/* placement: J3 */
static void all_kinds_of_tensors_are_shown(void **state) {
  (void)state;
  const trained t = train();
  const situ_snapshot_options all = { .gradients = true, .plain = true, .optims = &t.optim, .optim_count = 1 };
  situ_snapshot *s = situ_place_snapshot_with(t.model, &all), *plain = situ_place_snapshot(t.model);
  char offset[64];
  snprintf(offset, sizeof offset, "+%zu:plain", offsetof(net, unnamed));
  expect_entry(s, "fc.weight", SITU_PLACE_PARAMETER, 48);
  expect_entry(s, "fc.weight:grad", SITU_PLACE_GRAD, 48);
  expect_entry(s, "fc.weight:exp_avg", SITU_PLACE_STATE, 48);
  expect_entry(s, "fc.bias:exp_avg_sq", SITU_PLACE_STATE, 12);
  expect_entry(s, "offset:plain", SITU_PLACE_PLAIN, 20);
  expect_entry(s, offset, SITU_PLACE_PLAIN, 8);
  assert_int_equal(situ_snapshot_at(s, 0)->bytes, 4 * 60 + 28);
  assert_int_equal(situ_snapshot_at(plain, 0)->bytes, 60);
  assert_null(find(plain, "fc.weight:grad"));
  char text[8192];
  assert_true(situ_snapshot_to_string(s, &(situ_place_print_options){ .ascii = true }, text, sizeof text) > 0);
  assert_non_null(strstr(text, "weight:exp_avg"));
  assert_true(situ_snapshot_json(s, text, sizeof text) > 0);
  assert_non_null(strstr(text, "{\"path\": \"fc.weight:grad\", \"role\": \"gradient\""));
  expect_ok(situ_snapshot_lock_write(s, "all.lock"));
  expect_ok(situ_snapshot_lock_check(s, "all.lock"));
  assert_int_equal(situ_snapshot_lock_check(plain, "all.lock"), SITU_E_STATE);
  expect_error(SITU_E_STATE, "snapshot_lock_check", "fc.weight:grad");
  situ_snapshot_free(s);
  situ_snapshot_free(plain);
  end(t);
}

static int64_t count(const char *text, const char *word) {
  int64_t found = 0;
  while ((text = strstr(text, word))) found++, text++;
  return found;
}

/* placement: J3 */
static void a_graph_has_all_of_it(void **state) {
  (void)state;
  const trained t = train();
  const situ_snapshot_options all = { .gradients = true, .plain = true, .optims = &t.optim, .optim_count = 1 };
  situ_snapshot *s = situ_place_snapshot_with(t.model, &all);
  const situ_place_edge edge = { .from = "", .to = "fc", .bytes = 2048 };
  char text[8192];
  const int64_t length = situ_snapshot_dot(s, &edge, 1, text, sizeof text);
  assert_int_equal(length, strlen(text));
  assert_int_equal(situ_snapshot_dot(s, &edge, 1, NULL, 0), length);
  assert_true(strncmp(text, "digraph placement {\n", 20) == 0 && strcmp(text + length - 2, "}\n") == 0);
  assert_int_equal(count(text, "[label=\""), situ_snapshot_count(s));
  assert_int_equal(count(text, "style=filled"), 10); /* tensors */
  assert_non_null(strstr(text, "  n0 -> n1;\n"));
  assert_non_null(strstr(text, "inputs -> n"));
  assert_non_null(strstr(text, "[style=dashed, constraint=false, label=\"2.0 KiB\"]"));
  FILE *file = fopen("all.dot", "w");
  assert_true(file && fputs(text, file) >= 0 && fclose(file) == 0);
  if (system("command -v dot >/dev/null") == 0) assert_int_equal(system("dot -Tsvg all.dot >all.svg"), 0);
  situ_snapshot_free(s);
  end(t);
}

static void bad_arguments_are_refused(void **state) {
  (void)state;
  const trained t = train();
  const situ_snapshot_options none = { .optim_count = 1 };
  assert_null(situ_place_snapshot_with(t.model, &none));
  expect_error(SITU_E_ARG, "place_snapshot", "options->optims");
  situ_snapshot *s = situ_place_snapshot(t.model);
  assert_int_equal(situ_snapshot_dot(s, NULL, 1, NULL, 0), -1);
  expect_error(SITU_E_ARG, "snapshot_dot", "edges");
  assert_int_equal(situ_snapshot_dot(s, NULL, 0, NULL, 5), -1);
  expect_error(SITU_E_ARG, "snapshot_dot", "buffer");
  situ_snapshot_free(s);
  end(t);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    PAIR_TEST(all_kinds_of_tensors_are_shown),
    PAIR_TEST(a_graph_has_all_of_it),
    PAIR_TEST(bad_arguments_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
