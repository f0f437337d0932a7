/* What is said of offloaded modules, in trees, plans, checks and ledgers; what begins and ends it; weights in a mapped file
   and weights with a recipe. */
/* test-devices: sim:0 */
#include "place/offload/offload.h"
#include "situ/io.h"

/* ---- what is said ---- */

static void the_state_is_seen(void **state) {
  (void)state;
  char text[8192];
  situ_nn_module *m = offloaded(SEQ(LIN(32, 16), situ_nn_batch_norm1d(16, NULL)));
  assert_true(situ_place_to_string(m, &(situ_place_print_options){ .ascii = true }, text, sizeof text) > 0);
  assert_non_null(
      strstr(text, "2.3 KiB  cpu  offloaded: computes on sim:0\n|- 0: Linear               2.1 KiB  cpu\n"));
  assert_true(situ_place_json(m, text, sizeof text) > 0);
  assert_non_null(strstr(text, "\"computes_on\": \"sim:0\""));
  const situ_nn_to_options to = { .device = there() };
  assert_true(situ_place_plan_to_string(m, &to, NULL, text, sizeof text) > 0);
  assert_non_null(strstr(text, "it would end the offloading: Sequential computes on sim:0 now\n"));
  expect_ok(situ_place_lint(m, NULL));
  assert_true(situ_device_equal(situ_nn_offloaded_to(m), there()));
  assert_true(situ_device_equal(situ_nn_home(m), there()));
  situ_tensor *x = situ_randn(SITU_SHAPE(8, 32), NULL);
  assert_null(situ_nn_forward(m, x));
  assert_null(strstr(situ_error_message(), "next:"));
  expect_error(SITU_E_DEVICE, "linear", "fix: x = situ_to(x, situ_dev(\"sim:0\"))");
  situ_nn_free(m);
}

/* And the peak that it states is enough. */
static void a_check_knows_what_is_copied(void **state) {
  (void)state;
  situ_nn_module *m = offloaded(large());
  situ_tensor *x = input_of(&large_kind);
  situ_tree *in = SITU_TREE(x);
  situ_place_report r;
  uint64_t peak = 0;
  expect_ok(situ_place_check(m, in, NULL, &r));
  assert_true(r.finished && !r.mistakes);
  for (int64_t i = 0; i < r.load_count; i++)
    if (situ_device_equal(r.loads[i].device, there())) peak = r.loads[i].peak;
  situ_place_report_free(&r);
  situ_tree_free(in);
  assert_true(peak && peak < bytes_of(m) / 4);
  expect_ok(situ_empty_cache(there()));
  expect_ok(situ_sim_budget(there().index, peak));
  expect_ok(situ_backward(situ_sum(situ_nn_forward(m, x), NULL), NULL));
  expect_ok(situ_sim_reset(there().index));
  situ_nn_free(m);
}

static void ledgers(void **state) {
  (void)state;
  situ_nn_module *m = offloaded(SEQ(LIN(32, 16), LIN(16, 4)));
  situ_tensor *x = input_of(&large_kind);
  const int64_t all = 32 * 16 + 16 + 16 * 4 + 4;
  for (int allowed = 0; allowed < 2; allowed++) {
    situ_ledger l;
    situ_ledger_begin_with(&l, &(situ_ledger_options){ .none = true, .allow_waits = true, .allow_offload = allowed });
    for (int i = 0; i < 5; i++) expect_ok(situ_backward(situ_sum(situ_nn_forward(m, x), NULL), NULL));
    /* Forward needs all, backward the weight of the second layer, and each has a gradient. */
    assert_int_equal(situ_ledger_sum(&l, SITU_HOST_TO_DEVICE).bytes, 5 * 4 * (all + 16 * 4));
    assert_int_equal(situ_ledger_sum(&l, SITU_DEVICE_TO_HOST).bytes, 5 * 4 * all);
    assert_int_equal(situ_ledger_repeats(&l, 0, NULL, 0), 0);
    situ_transfer first;
    assert_true(situ_ledger_transfers(&l, &first, 1) > 1);
    assert_string_equal(first.reason, "offload");
    if (test_has_lines()) assert_non_null(strstr(first.at, "state.c:"));
    if (allowed) expect_ok(situ_ledger_end(&l));
    else assert_int_equal(situ_ledger_end(&l), SITU_E_STATE);
    if (!allowed) expect_error(SITU_E_STATE, "ledger_end", "parameter 0.weight  by nn_offload (offload)");
  }
  situ_ledger l;
  float value;
  situ_ledger_begin_with(&l, &(situ_ledger_options){ .none = true, .allow_offload = true });
  situ_tensor *y = situ_sum(situ_nn_forward(m, x), NULL);
  expect_ok(situ_copy_to_host(y, &value, sizeof value));
  assert_int_equal(situ_ledger_end(&l), SITU_E_STATE);
  assert_null(strstr(situ_error_message(), "nn_offload"));
  expect_error(SITU_E_STATE, "ledger_end", "1 transfer in a scope that allows none:");
  situ_nn_free(m);
}

/* ---- begin and end ---- */

static situ_status compute_there(void *payload) {
  return situ_nn_forward(payload, input_of(&large_kind)) ? SITU_OK : situ_error();
}

static situ_status compute_here(void *payload) {
  return situ_nn_forward(payload, situ_randn(SITU_SHAPE(8, 32), NULL)) ? SITU_OK : situ_error();
}

static void what_does_not_end_it(void **state) {
  (void)state;
  situ_nn_module *m = offloaded(SEQ(LIN(32, 16), LIN(16, 4))), *empty = offloaded(situ_nn_sequential_of(0, NULL));
  expect_ok(situ_nn_to_during(m, there(), compute_there, m));
  assert_true(situ_device_equal(situ_nn_offloaded_to(m), there()));
  expect_ok(situ_nn_to_dtype(m, SITU_F64));
  assert_true(situ_device_equal(situ_nn_offloaded_to(m), there()));
  expect_on(situ_nn_get_tensor(m, "0.weight"), situ_dev("cpu"));
  situ_nn_append(empty, LIN(32, 4));
  expect_on(situ_nn_get_tensor(empty, "0.weight"), situ_dev("cpu"));
  expect_ok(compute_there(empty));
  situ_nn_free(m);
  situ_nn_free(empty);
}

static void what_ends_it(void **state) {
  (void)state;
  situ_nn_module *m = offloaded(SEQ(LIN(32, 16), LIN(16, 4)));
  situ_tensor *x = input_of(&large_kind), *want = situ_nn_forward(m, x);
  expect_ok(situ_nn_to(situ_nn_get_submodule(m, "0"), there())); /* a part: it stays on the device */
  assert_int_equal(situ_nn_offloaded_to(situ_nn_get_submodule(m, "0")).kind, 0);
  assert_true(test_same_bits(situ_nn_forward(m, x), want));
  situ_ledger l;
  situ_ledger_begin(&l);
  (void)situ_nn_forward(m, x);
  assert_int_equal(situ_ledger_total(&l).bytes, 4 * (16 * 4 + 4));
  expect_ok(situ_ledger_end(&l));
  situ_nn_append(m, LIN(4, 2)); /* a late part */
  expect_on(situ_nn_get_tensor(m, "2.weight"), situ_dev("cpu"));
  expect_on(situ_nn_forward(m, x), there());
  expect_ok(situ_nn_to(m, there()));
  assert_int_equal(situ_nn_offloaded_to(m).kind, 0);
  expect_on(situ_nn_get_tensor(m, "2.weight"), there());
  expect_ok(situ_nn_offload(m, situ_dev("cpu"))); /* the other way round */
  expect_on(situ_nn_forward(m, situ_to(x, situ_dev("cpu"))), situ_dev("cpu"));
  expect_ok(situ_nn_offload(m, (situ_device){ 0 }));
  expect_on(situ_nn_forward(m, x), there());
  situ_nn_free(m);
}

typedef struct heard {
  int calls;
  situ_device from, to;
} heard;
static situ_status hear(situ_nn_module *m, situ_device from, situ_device to, void *payload) {
  heard *h = payload;
  assert_true(situ_device_equal(situ_nn_home(m), to));
  *h = (heard){ h->calls + 1, from, to };
  return h->calls == 4 ? SITU_E_LIMIT : SITU_OK;
}
static void expect_heard(const heard *h, int calls, situ_device from, situ_device to) {
  assert_int_equal(h->calls, calls);
  assert_true(situ_device_equal(h->from, from) && situ_device_equal(h->to, to));
}

/* From where the module computes to where it computes then. */
static void hooks_on_moves_hear_that_it_ends(void **state) {
  (void)state;
  heard h = { 0 };
  situ_nn_module *m = offloaded(SEQ(LIN(32, 16), LIN(16, 4)));
  expect_ok(situ_nn_on_move(m, hear, &h, NULL));
  expect_ok(situ_nn_to_during(m, situ_dev("cpu"), compute_here, m));
  expect_heard(&h, 2, situ_dev("cpu"), there());
  assert_true(situ_device_equal(situ_nn_offloaded_to(m), there()));
  expect_ok(situ_nn_to(m, situ_dev("cpu")));
  expect_heard(&h, 3, there(), situ_dev("cpu"));
  expect_ok(situ_nn_offload(m, there()));
  assert_int_equal(situ_nn_to(m, situ_dev("cpu")), SITU_E_LIMIT); /* the hook refuses */
  situ_error_clear();
  assert_true(situ_device_equal(situ_nn_offloaded_to(m), there()));
  situ_nn_free(m);
}

static void what_is_refused(void **state) {
  (void)state;
  situ_nn_module *m = SEQ(situ_nn_lazy_linear(4, NULL));
  assert_int_equal(situ_nn_offload(m, situ_dev("meta")), SITU_E_DEVICE);
  expect_error(SITU_E_DEVICE, "nn_offload", "meta computes no values");
  assert_int_equal(situ_nn_offload(m, (situ_device){ SITU_SIM, 15 }), SITU_E_ARG);
  expect_error(SITU_E_ARG, "device_info", "sim:15 is not there");
  assert_int_equal(situ_nn_offload(m, there()), SITU_E_STATE);
  expect_error(SITU_E_STATE, "nn_offload", "has no parameters yet");
  assert_int_equal(situ_nn_offload(NULL, there()), SITU_E_ARG);
  situ_error_clear();
  assert_int_equal(situ_nn_offloaded_to(m).kind, 0);
  situ_nn_free(m);
}

/* ---- where else tensors may be, and what else a step does ---- */

/* Weights in a mapped file, on a device of a quarter of them: as on a device of any size. */
/* placement: A18 */
static void from_a_mapped_file(void **state) {
  (void)state;
  char path[] = "/tmp/situ-offload-XXXXXX";
  const int fd = mkstemp(path);
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  situ_nn_module *m = situ_nn_eval(large()), *n = situ_nn_clone(m);
  situ_tree *saved = situ_nn_state_dict(m);
  expect_ok(situ_save(path, saved, NULL));
  situ_tree_free(saved);
  situ_tree *file = situ_load(path, &(situ_load_options){ .map = true });
  expect_ok(situ_nn_load_state_dict(n, file, &(situ_nn_load_options){ .assign = true }));
  situ_tree_free(file);
  situ_tensor *x = input_of(&large_kind);
  expect_ok(situ_nn_to(m, there()));
  situ_tensor *want = situ_to(situ_nn_forward(m, x), situ_dev("cpu"));
  situ_nn_free(m);
  expect_ok(situ_empty_cache(there()));
  expect_ok(situ_sim_budget(there().index, bytes_of(n) / 4));
  assert_true(test_same_bits(situ_nn_forward(offloaded(n), x), want));
  saved = situ_nn_state_dict(n); /* still saved as ever */
  expect_ok(situ_save(path, saved, NULL));
  situ_tree_free(saved);
  expect_ok(situ_sim_reset(there().index));
  expect_ok(situ_scope_end(&s));
  close(fd);
  unlink(path);
  situ_nn_free(n);
}

static void from_a_recipe(void **state) {
  (void)state;
  situ_manual_seed(3);
  situ_nn_module *m = situ_nn_linear(32, 8, NULL);
  situ_manual_seed(3);
  situ_nn_module *n = offloaded(situ_nn_linear(32, 8, &(situ_nn_linear_options){ .device = situ_dev("meta") }));
  expect_ok(situ_nn_to(m, there()));
  situ_tensor *x = input_of(&large_kind);
  assert_true(test_same_bits(situ_nn_forward(m, x), situ_nn_forward(n, x)));
  situ_nn_free(m);
  situ_nn_free(n);
}

/* placement: K6 */
static void a_module_gives_its_memory_back_and_comes_again(void **state) {
  (void)state;
  char path[] = "/tmp/situ-spill-XXXXXX";
  const int fd = mkstemp(path);
  situ_device_properties before, spilled, host[2];
  situ_nn_module *m = situ_nn_set_name(large(), "net");
  const uint64_t bytes = bytes_of(m);
  expect_ok(situ_nn_to(m, there()));
  situ_optim *o = situ_optim_adamw(situ_nn_parameters(m), .001, NULL);
  situ_tensor *w = situ_nn_get_tensor(m, "2.weight");
  situ_scope s;
  situ_scope_begin(&s);
  expect_ok(situ_backward(situ_sum(situ_nn_forward(m, input_of(&large_kind)), NULL), NULL));
  assert_int_equal(situ_nn_spill(m, path), SITU_E_STATE);
  expect_error(SITU_E_STATE, "nn_spill", "0.weight has a gradient");
  expect_ok(situ_optim_step(o));
  expect_ok(situ_optim_zero_grad(o, true));
  expect_ok(situ_scope_end(&s));
  situ_nn_module *twin = situ_nn_clone(m);
  expect_ok(situ_nn_to(twin, situ_dev("cpu")));
  expect_ok(situ_device_info(there(), &before));
  expect_ok(situ_device_info(situ_dev("cpu"), &host[0]));
  expect_ok(situ_nn_spill(m, path));
  expect_ok(situ_device_info(there(), &spilled));
  expect_ok(situ_device_info(situ_dev("cpu"), &host[1]));
  assert_true(before.memory_used - spilled.memory_used >= bytes);
  assert_true(host[1].memory_used - host[0].memory_used < bytes / 8);
  assert_ptr_equal(w, situ_nn_get_tensor(m, "2.weight"));
  expect_on(w, situ_dev("cpu"));
  assert_int_equal(situ_nn_spill(m, "/nowhere/at/all"), SITU_E_IO);
  situ_error_clear();
  expect_ok(situ_nn_spill(m, path)); /* what is mapped there already */
  expect_ok(situ_nn_to(m, there()));
  unlink(path);
  situ_tree *a = situ_nn_state_dict(m), *b = situ_nn_state_dict(twin);
  for (int64_t i = 0; i < situ_tree_count(a); i++)
    assert_true(test_same_bits(situ_tree_tensor_at(a, i), situ_tree_tensor_at(b, i)));
  situ_tree_free(a);
  situ_tree_free(b);
  expect_ok(situ_backward(situ_sum(situ_nn_forward(m, input_of(&large_kind)), NULL), NULL));
  expect_ok(situ_optim_step(o)); /* states have stayed */
  close(fd);
  situ_optim_free(o);
  situ_nn_free(m);
  situ_nn_free(twin);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    PAIR_TEST(the_state_is_seen), PAIR_TEST(a_check_knows_what_is_copied),
    PAIR_TEST(ledgers),           PAIR_TEST(what_does_not_end_it),
    PAIR_TEST(what_ends_it),      PAIR_TEST(hooks_on_moves_hear_that_it_ends),
    PAIR_TEST(what_is_refused),   PAIR_TEST(from_a_mapped_file),
    PAIR_TEST(from_a_recipe),     PAIR_TEST(a_module_gives_its_memory_back_and_comes_again),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
