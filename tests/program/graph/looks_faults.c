/* A look at a module that fails half-way has changed nothing, whichever allocation fails; nor have exports by several
   threads at once.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "distributed/looks.h"
#include "situ/sys/alloc.h"
#include "support/test.h"

static situ_status no_hook(situ_nn_module *m, situ_tree **inputs, situ_tree **output, void *payload) {
  (void)m, (void)inputs, (void)output, (void)payload;
  return SITU_OK;
}

/* With a frozen weight, names of the program's own, gradients, a hook, and a keeper that has run. */
static situ_nn_module *make_model(int type, const situ_tree *inputs) {
  situ_nn_module *m = situ_nn_sequential(situ_nn_linear(4, 6, NULL), situ_nn_batch_norm1d(6, NULL), make_keeper(type),
                                         situ_nn_linear(6, 3, NULL));
  situ_tensor *frozen = situ_nn_get_tensor(m, "0.weight");
  assert_non_null(situ_requires_grad_(frozen, false));
  assert_non_null(situ_set_name(frozen, "frozen"));
  assert_int_equal(situ_nn_register_forward_hook(m, no_hook, NULL, NULL), SITU_OK);
  for (int i = 0; i < 6; i++) {
    situ_tensor *y = situ_nn_forward(m, situ_tree_tensor_at(inputs, 0));
    assert_int_equal(situ_backward(situ_sum(y, NULL), NULL), SITU_OK);
  }
  return m;
}

static void free_model(situ_nn_module *m) {
  assert_int_equal(situ_nn_apply(m, empty_keeper, NULL), SITU_OK);
  situ_nn_free(m);
}

/* Returns whether the look has needed fewer allocations. */
static bool fail_nth(const look_row *look, const scene *s, uint64_t nth) {
  const watched w = { .model = s->model };
  char *before = describe(&w, true), difference[480];
  const situ_generator drawn = situ_get_rng_state();
  assert_non_null(before);
  situ_scope scope;
  situ_scope_begin(&scope);
  situ_fail_allocation(nth, false);
  SITU_IGNORE(look->run(s));
  const bool over = situ_allocation_count() < nth;
  situ_fail_allocation(0, false);
  situ_error_clear();
  SITU_IGNORE(situ_scope_end(&scope));
  situ_error_clear();
  situ_set_rng_state(drawn);
  char *after = describe(&w, true);
  if (!after) fail_msg("%s, allocation %d: %s", look->calls, (int)nth, situ_error_message());
  if (strcmp(before, after) != 0) {
    first_difference(before, after, difference, sizeof difference);
    fail_msg("%s, allocation %d: %s", look->calls, (int)nth, difference);
  }
  free(before);
  free(after);
  return over;
}

static void a_failed_look_changes_nothing(void **state) {
  (void)state;
  situ_tree *inputs = SITU_TREE(situ_ones(SITU_SHAPE(3, 4), NULL));
  uint64_t failed = 0;
  for (int type = 0; type < KEEPERS; type++) {
    scene s = { .model = make_model(type, inputs), .inputs = inputs, .keeper = type, .file = "look_faults" };
    const int64_t tensors = situ_live_tensors();
    for (int i = 0; i < LOOKS; i++) {
      if (looks[i].collective || (!looks[i].runs && type != KEEPER_ALONE)) continue;
      for (uint64_t nth = 1; !fail_nth(&looks[i], &s, nth); nth = (uint64_t)test_next_fault((long)nth)) failed++;
      assert_int_equal(situ_live_tensors(), tensors);
    }
    free_model(s.model);
  }
  situ_tree_free(inputs);
  (void)remove("look_faults");
  printf("%llu failed allocations\n", (unsigned long long)failed);
  assert_true(failed > 500);
}

/* ---- threads ---- */

enum { THREADS = 4, EXPORTS = 60 };
typedef struct crowd {
  situ_nn_module *model;
  atomic_int working, changed, failed;
} crowd;

static void *export_often(void *payload) {
  crowd *c = payload;
  for (int i = 0; i < EXPORTS; i++) {
    situ_scope s;
    situ_scope_begin(&s);
    situ_tree *in = SITU_TREE(situ_ones(SITU_SHAPE(2, 3), NULL));
    situ_nn_module *program = situ_export(c->model, in);
    if (!program) c->failed++;
    situ_nn_free(program);
    situ_tree_free(in);
    SITU_IGNORE(situ_scope_end(&s));
    situ_error_clear();
  }
  c->working--;
  return NULL;
}

static void exports_of_several_threads(void **state) {
  (void)state;
  pthread_t thread[THREADS];
  crowd c = { .model = situ_nn_eval(situ_nn_sequential(situ_nn_linear(3, 4, NULL), situ_nn_relu())),
              .working = THREADS };
  situ_tensor *w = situ_nn_get_tensor(c.model, "0.weight");
  assert_non_null(situ_set_name(situ_requires_grad_(w, false), "frozen"));
  for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&thread[i], NULL, export_often, &c), 0);
  while (c.working)
    if (situ_requires_grad(w) || strcmp(situ_name(w), "frozen") != 0) c.changed++;
  for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_join(thread[i], NULL), 0);
  assert_int_equal(c.failed, 0);
  assert_int_equal(c.changed, 0);
  assert_int_equal(situ_owners(w), 1);
  situ_nn_free(c.model);
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(a_failed_look_changes_nothing), TEST(exports_of_several_threads) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
