/* Profiles: every launch, copy and replay of the thread is there once, under the op that was called and the module that
   ran, with exact bytes and operations; and nothing else changes.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 opencl:0 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "situ/graph.h"
#include "situ/optim.h"
#include "situ/profile.h"
#include "situ/sys/alloc.h"
#include "support/pairs.h"

enum { ROWS = 6, IN = 5, WIDE = 8, CLASSES = 3, MOST = 400 };

static situ_nn_module *model(void) {
  situ_manual_seed(3);
  situ_nn_module *m =
      situ_nn_sequential(situ_nn_linear(IN, WIDE, NULL), situ_nn_relu(), situ_nn_linear(WIDE, CLASSES, NULL));
  expect_ok(situ_nn_to(m, there()));
  return m;
}

static situ_tensor *images(void) { return situ_rand(SITU_SHAPE(ROWS, IN), &(situ_options){ .device = there() }); }

/* A step without an optimiser; returns its loss. */
static situ_tensor *step(situ_nn_module *m, situ_tensor *x) {
  situ_tensor *loss = situ_mean(situ_nn_forward(m, x), NULL);
  expect_ok(situ_backward(loss, NULL));
  return loss;
}

static situ_profile *profile_of_step(situ_nn_module *m, situ_tensor *x) {
  expect_ok(situ_profile_begin(NULL));
  (void)step(m, x);
  situ_profile *p = situ_profile_end();
  assert_non_null(p);
  return p;
}

static int64_t events_of(const situ_profile *p, situ_profile_event out[MOST]) {
  const int64_t count = situ_profile_events(p, out, MOST);
  assert_in_range(count, 1, MOST);
  situ_profile_event one[2] = { { .name = NULL }, { .begin = -1 } };
  assert_int_equal(situ_profile_events(p, one, 1), count);
  assert_string_equal(one[0].name, out[0].name);
  assert_true(one[1].begin == -1); /* behind the capacity nothing is written */
  return count;
}

/* Operations of all products under a name. */
static double products_of(const situ_profile_event *e, int64_t count, const char *name) {
  double operations = 0;
  for (int64_t i = 0; i < count; i++)
    if (strcmp(e[i].name, name) == 0 && (!strcmp(e[i].verb, "matmul") || !strcmp(e[i].verb, "linear")))
      operations += e[i].operations;
  return operations;
}

static void names_and_modules(void **state) {
  (void)state;
  situ_nn_module *m = model();
  situ_tensor *x = images();
  (void)step(m, x);
  situ_profile *p = profile_of_step(m, x);
  situ_profile_event e[MOST];
  const int64_t count = events_of(p, e);
  double before = 0;
  bool inner = false, outer = false;
  for (int64_t i = 0; i < count; i++) {
    const char *of = e[i].module;
    assert_true(situ_device_equal(e[i].device, there()) && situ_device_equal(e[i].from, there()));
    assert_true(e[i].begin >= before && e[i].seconds >= 0);
    before = e[i].begin + e[i].seconds;
    if (strncmp(e[i].name, "linear", 6) == 0) assert_true(!strcmp(of, "Sequential.0") || !strcmp(of, "Sequential.2"));
    if (strncmp(e[i].name, "relu", 4) == 0) assert_string_equal(of, "Sequential.1");
    if (strncmp(e[i].name, "mean", 4) == 0) assert_string_equal(of, "");
    inner |= !strcmp(e[i].name, "relu backward");
    outer |= !strcmp(e[i].name, "mean");
  }
  assert_true(inner && outer && before <= situ_profile_seconds(p));
  assert_true(products_of(e, count, "linear") == 2 * ROWS * (IN * WIDE + WIDE * CLASSES));
  /* Of the first layer the gradient of the weight alone, of the second that of its input too. */
  assert_true(products_of(e, count, "linear backward") == 2 * ROWS * (IN * WIDE + 2 * WIDE * CLASSES));
  situ_profile_free(p);
  situ_nn_free(m);
}

static void sums_are_those_of_the_events(void **state) {
  (void)state;
  situ_nn_module *m = model();
  situ_profile *p = profile_of_step(m, images());
  situ_profile_event e[MOST];
  const int64_t count = events_of(p, e);
  uint64_t bytes = 0;
  double operations = 0;
  for (int64_t i = 0; i < count; i++) bytes += e[i].bytes, operations += e[i].operations;
  for (int key = 0; key < SITU_PROFILE_KEYS; key++) {
    situ_profile_row row[MOST];
    const int64_t rows = situ_profile_key_averages(p, (situ_profile_key)key, row, MOST);
    situ_profile_row sum = { 0 };
    assert_in_range(rows, 2, count);
    for (int64_t i = 0; i < rows; i++) {
      for (int64_t k = 0; k < i; k++) assert_string_not_equal(row[i].key, row[k].key);
      assert_true(i == 0 || row[i].seconds <= row[i - 1].seconds);
      sum.count += row[i].count, sum.bytes += row[i].bytes, sum.operations += row[i].operations;
    }
    assert_true(sum.count == count && sum.bytes == bytes && sum.operations == operations);
  }
  situ_profile_row first[2] = { { 0 } };
  assert_true(situ_profile_key_averages(p, SITU_PROFILE_NAME, first, 1) > 1 && first[0].key && !first[1].key);
  situ_profile_free(p);
  situ_nn_free(m);
}

static void one(const char *what, situ_tensor *(*call)(situ_tensor *, situ_tensor *), situ_tensor *a, situ_tensor *b,
                uint64_t bytes, double operations) {
  expect_ok(situ_profile_begin(NULL));
  assert_non_null(call(a, b));
  situ_profile *p = situ_profile_end();
  situ_profile_event e[MOST];
  const int64_t count = events_of(p, e);
  if (count != 1 || e[0].bytes != bytes || e[0].operations != operations)
    fail_msg("%s: %lld events, the first (%s) of %llu bytes and %g operations", what, (long long)count, e[0].verb,
             (unsigned long long)e[0].bytes, e[0].operations);
  situ_profile_free(p);
}

static situ_tensor *call_add(situ_tensor *a, situ_tensor *b) { return situ_add(a, b); }
static situ_tensor *call_matmul(situ_tensor *a, situ_tensor *b) { return situ_matmul(a, b); }
static situ_tensor *call_sum(situ_tensor *a, situ_tensor *b) { return (void)b, situ_sum(a, NULL); }
static situ_tensor *call_pick(situ_tensor *a, situ_tensor *b) { return situ_index_select(a, 0, b); }
static situ_tensor *call_conv(situ_tensor *a, situ_tensor *b) { return situ_conv2d(a, b, NULL, NULL); }

static void bytes_and_operations(void **state) {
  (void)state;
  const situ_options here = { .device = there() }, whole = { .device = there(), .dtype = SITU_I64 };
  situ_tensor *a = situ_ones(SITU_SHAPE(40, 30), &here), *b = situ_ones(SITU_SHAPE(40, 30), &here),
              *row = situ_ones(SITU_SHAPE(30), &here);
  one("add", call_add, a, b, 3 * 4800, 1200);
  one("add of a row", call_add, a, row, 2 * 4800 + 120, 1200);
  one("matmul", call_matmul, a, situ_ones(SITU_SHAPE(30, 7), &here), 4800 + 840 + 1120, 2 * 40 * 30 * 7);
  one("sum", call_sum, a, NULL, 4804, 1200);
  one("index_select", call_pick, a, situ_full(SITU_SHAPE(3), 2, &whole), 24 + 2 * 360, 1200);
  one("conv2d", call_conv, situ_ones(SITU_SHAPE(2, 3, 8, 8), &here), situ_ones(SITU_SHAPE(4, 3, 3, 3), &here),
      4 * (384 + 108 + 288), 2 * 288 * 27);
}

/* On the cpu: convolutions, products and attention, forward and backward. */
static void algorithms_have_names(void **state) {
  (void)state;
  const situ_options wanted = { .device = there(), .requires_grad = true };
  expect_ok(situ_profile_begin(NULL));
  situ_tensor *x = situ_ones(SITU_SHAPE(2, 3, 8, 16), &wanted), *w = situ_ones(SITU_SHAPE(4, 3, 3, 3), &wanted),
              *q = situ_ones(SITU_SHAPE(80, 12), &wanted);
  situ_tensor *y = situ_matmul(situ_scaled_dot_product_attention(q, q, q, NULL), situ_transpose(q, 0, 1));
  expect_ok(situ_backward(situ_add(situ_sum(situ_conv2d(x, w, NULL, NULL), NULL), situ_sum(y, NULL)), NULL));
  situ_profile *p = situ_profile_end();
  situ_profile_event e[MOST];
  const int64_t count = events_of(p, e);
  char text[8192], trace[1 << 16], row[128], field[128];
  assert_in_range(situ_profile_to_string(p, text, sizeof text), 1, sizeof text - 1);
  assert_in_range(situ_profile_json(p, trace, sizeof trace), 1, sizeof trace - 1);
  for (int64_t i = 0; i < count; i++) {
    const bool chosen =
        !strcmp(e[i].verb, "matmul") || !strcmp(e[i].verb, "convolution") || !strcmp(e[i].verb, "attention");
    assert_int_equal(e[i].algorithm != NULL, chosen && there().kind == SITU_CPU);
    if (!e[i].algorithm) continue;
    (void)snprintf(row, sizeof row, "  %s (%s)", e[i].name, e[i].algorithm);
    (void)snprintf(field, sizeof field, "\"algorithm\": \"%s\"", e[i].algorithm);
    assert_non_null(strstr(text, row));
    assert_non_null(strstr(trace, field));
  }
  situ_profile_free(p);
}

/* placement: J7 */
static void copies_are_those_of_the_ledger(void **state) {
  (void)state;
  const bool same = there().kind == SITU_CPU;
  situ_tensor *x = situ_ones(SITU_SHAPE(100), NULL);
  double value;
  situ_ledger l;
  expect_ok(situ_profile_begin(NULL));
  situ_ledger_begin(&l);
  situ_tensor *far = situ_to(x, there());
  expect_ok(situ_item(situ_sum(far, NULL), &value));
  expect_ok(situ_ledger_end(&l));
  situ_profile *p = situ_profile_end();
  situ_profile_event e[MOST];
  const int64_t count = events_of(p, e);
  situ_transfers copies = { 0 };
  for (int64_t i = 0; i < count; i++) {
    if (strcmp(e[i].verb, "transfer") != 0) continue;
    assert_false(situ_device_equal(e[i].from, e[i].device));
    copies.count++, copies.bytes += e[i].bytes;
  }
  assert_true(copies.count == situ_ledger_total(&l).count && copies.bytes == situ_ledger_total(&l).bytes);
  assert_int_equal(copies.count, same ? 0 : 2);
  situ_profile_free(p);
}

/* placement: J7 */
static void memory_is_told_after_each_event(void **state) {
  (void)state;
  const situ_options options = { .device = there() };
  enum { LARGE = 1 << 18 };
  char text[8192];
  expect_ok(situ_profile_begin(NULL));
  situ_scope scope;
  situ_scope_begin(&scope);
  assert_non_null(situ_ones(SITU_SHAPE(3), &options));
  situ_tensor *large = situ_ones(SITU_SHAPE(LARGE), &options);
  assert_non_null(large);
  expect_ok(situ_scope_end(&scope));
  assert_non_null(situ_ones(SITU_SHAPE(3), &options));
  situ_profile *p = situ_profile_end();
  situ_profile_event e[MOST];
  assert_int_equal(events_of(p, e), 3);
  assert_int_equal(e[1].used - e[0].used, 4 * LARGE);
  assert_int_equal(e[0].used, e[2].used);
  assert_in_range(situ_profile_json(p, text, sizeof text), 1, sizeof text - 1);
  const char *counter = strstr(text, "{\"ph\": \"C\", \"name\": \"memory of ");
  assert_non_null(counter);
  assert_non_null(strstr(counter, "\"args\": {\"bytes\": "));
  situ_profile_free(p);
}

static void a_replay_is_one_event(void **state) {
  (void)state;
  situ_nn_module *m = model();
  situ_tensor *x = images();
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  expect_ok(situ_profile_begin(NULL));
  expect_ok(situ_graph_capture_begin(there()));
  assert_non_null(situ_nn_forward(m, x));
  situ_graph *graph = situ_graph_capture_end();
  expect_ok(situ_graph_replay(graph));
  situ_profile *p = situ_profile_end();
  situ_profile_event e[MOST];
  const int64_t count = events_of(p, e);
  uint64_t bytes = 0;
  double operations = 0;
  for (int64_t i = 0; i < count - 1; i++) bytes += e[i].bytes, operations += e[i].operations;
  const situ_profile_event *last = &e[count - 1];
  assert_string_equal(last->verb, "replay");
  assert_string_equal(last->name, "graph_replay");
  assert_true(count == (int64_t)situ_graph_length(graph) + 1 && last->bytes == bytes && last->operations == operations);
  situ_profile_free(p);
  situ_graph_free(graph);
  expect_ok(situ_scope_end(&s));
  situ_nn_free(m);
}

/* A failure in the queue is that of the call which queued the work, unless the queue is left alone. */
static void launches_are_waited_for(void **state) {
  (void)state;
  needs_sim();
  situ_tensor *x = situ_ones(SITU_SHAPE(3), &(situ_options){ .device = there() });
  for (int queued = 0; queued < 2; queued++) {
    expect_ok(situ_synchronize(there()));
    expect_ok(situ_profile_begin(&(situ_profile_options){ .queued = queued }));
    expect_ok(situ_sim_fail(there().index, SITU_SIM_LATE, 1, false));
    situ_tensor *y = situ_mul(x, x);
    situ_profile *p = situ_profile_end();
    assert_int_equal(situ_profile_events(p, NULL, 0), queued);
    situ_profile_free(p);
    if (queued) assert_int_equal(y ? situ_synchronize(there()) : SITU_OK, SITU_E_NOMEM);
    else assert_null(y);
    expect_error(SITU_E_NOMEM, queued ? "" : "mul", "");
  }
}

/* ---- what it does not do --------------------------------------------------------------------- */

static void *in_another_thread(void *payload) {
  situ_scope s;
  situ_scope_begin(&s);
  situ_tensor *x = situ_ones(SITU_SHAPE(3), &(situ_options){ .device = there() });
  *(bool *)payload = situ_add(x, x) && situ_profile_end() == NULL;
  situ_error_clear();
  if (situ_scope_end(&s) != SITU_OK) *(bool *)payload = false;
  return NULL;
}

static void other_threads_are_not_in_it(void **state) {
  (void)state;
  pthread_t thread;
  bool good = false;
  expect_ok(situ_profile_begin(NULL));
  assert_int_equal(pthread_create(&thread, NULL, in_another_thread, &good), 0);
  assert_int_equal(pthread_join(thread, NULL), 0);
  situ_profile *p = situ_profile_end();
  assert_true(good);
  assert_int_equal(situ_profile_events(p, NULL, 0), 0);
  char text[200];
  assert_in_range(situ_profile_to_string(p, text, sizeof text), 10, sizeof text - 1);
  assert_non_null(strstr(text, " in 0 launches and copies"));
  situ_profile_free(p);
}

/* Without memory for the profile, the step is as without one, and the profile says that it is incomplete. */
static void without_memory_the_work_goes_on(void **state) {
  (void)state;
  situ_nn_module *m = model();
  situ_tensor *x = images();
  double loss, got;
  expect_ok(situ_item(step(m, x), &loss));
  int lost = 0, refused = 0;
  bool reached = true;
  for (long nth = 1; reached; nth++) {
    expect_ok(situ_profile_begin(NULL));
    situ_fail_allocation((uint64_t)nth, false);
    situ_tensor *y = situ_nn_forward(m, x), *mean = y ? situ_mean(y, NULL) : NULL;
    const bool worked = mean && situ_backward(mean, NULL) == SITU_OK;
    reached = situ_allocation_count() >= (uint64_t)nth;
    situ_fail_allocation(0, false);
    if (!worked) situ_error_clear();
    situ_profile *p = situ_profile_end();
    lost += !p;
    refused += !worked;
    if (!p) expect_error(SITU_E_NOMEM, "profile_end", "");
    situ_profile_free(p);
    if (!worked) continue;
    expect_ok(situ_item(mean, &got));
    assert_true(got == loss);
  }
  assert_true(lost > 0 && refused > 0);
  situ_nn_free(m);
}

static void refusals(void **state) {
  (void)state;
  assert_null(situ_profile_end());
  expect_error(SITU_E_STATE, "profile_end", "records no profile");
  expect_ok(situ_profile_begin(NULL));
  assert_int_equal(situ_profile_begin(NULL), SITU_E_STATE);
  expect_error(SITU_E_STATE, "profile_begin", "records a profile already");
  situ_profile *p = situ_profile_end();
  assert_int_equal(situ_profile_key_averages(p, SITU_PROFILE_KEYS, NULL, 0), -1);
  expect_error(SITU_E_ARG, "profile_key_averages", "3 is not a key");
  assert_int_equal(situ_profile_events(p, NULL, 1), -1);
  expect_error(SITU_E_ARG, "profile_events", "`out` is NULL");
  assert_int_equal(situ_profile_export_chrome_trace(p, "/nowhere/trace.json"), SITU_E_IO);
  expect_error(SITU_E_IO, "profile_export_chrome_trace", "/nowhere");
  situ_profile_free(p);
  situ_profile_print(p);
  expect_error(SITU_E_ARG, "profile_print", "a profile");
}

/* ---- texts ----------------------------------------------------------------------------------- */

static void table_and_trace(void **state) {
  (void)state;
  situ_nn_module *m = model();
  situ_profile *p = profile_of_step(m, images());
  char text[4096], path[] = "/tmp/situ-trace-XXXXXX", command[100];
  const int64_t length = situ_profile_to_string(p, text, sizeof text);
  assert_in_range(length, 100, sizeof text - 1);
  assert_int_equal(strlen(text), length);
  assert_non_null(strstr(text, "  linear backward"));
  assert_non_null(strstr(text, "  Sequential.2"));
  const int fd = mkstemp(path);
  assert_true(fd >= 0);
  assert_int_equal(close(fd), 0);
  expect_ok(situ_profile_export_chrome_trace(p, path));
  assert_true(situ_profile_json(p, NULL, 0) > length);
  (void)snprintf(command, sizeof command, "python3 -m json.tool %s >/dev/null", path);
  const bool have = system("command -v python3 >/dev/null") == 0;
  const int result = have ? system(command) : 0;
  assert_int_equal(unlink(path), 0);
  situ_profile_free(p);
  situ_nn_free(m);
  assert_int_equal(result, 0);
  if (!have) skip();
}

int main(void) {
  const struct CMUnitTest tests[] = {
    PAIR_TEST(names_and_modules),
    PAIR_TEST(sums_are_those_of_the_events),
    PAIR_TEST(bytes_and_operations),
    PAIR_TEST(algorithms_have_names),
    PAIR_TEST(copies_are_those_of_the_ledger),
    PAIR_TEST(memory_is_told_after_each_event),
    PAIR_TEST(a_replay_is_one_event),
    PAIR_TEST(launches_are_waited_for),
    PAIR_TEST(other_threads_are_not_in_it),
    PAIR_TEST(without_memory_the_work_goes_on),
    PAIR_TEST(refusals),
    PAIR_TEST(table_and_trace),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
