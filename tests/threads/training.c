/* A whole training step under stress: the same bits for any number of threads, every allocation failed once, several
   threads that train at once. */
/* test-devices: cpu sim:0 opencl:0 opencl:1 */
/* test-options: -DSITU_TEST_THREADS */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "situ/situ.h"
#include "situ/sys/alloc.h"
#include "support/test.h"

enum { PARAMETERS = 16 * 9 + 16 + 16 + 16 + 10 * 256 + 10 };

typedef struct run {
  situ_nn_module *net;
  situ_optim *optim;
  situ_tensor *x, *y;
} run;

/* A little of everything: convolution, batch norm, pooling, a linear layer, a loss, AdamW. */
static run start(situ_device device) {
  run r = { 0 };
  situ_generator g = situ_generator_seeded(11);
  situ_manual_seed(5);
  r.net = situ_nn_sequential(situ_nn_conv2d(1, 16, SITU_DIMS(3), &(situ_nn_conv_options){ .padding = SITU_DIMS(1) }),
                             situ_nn_batch_norm2d(16, NULL), situ_nn_relu(), situ_nn_max_pool2d(SITU_DIMS(2), NULL),
                             situ_nn_flatten(1, -1), situ_nn_linear(256, 10, NULL));
  r.optim = situ_optim_adamw(situ_nn_parameters(r.net), 1e-3, NULL);
  situ_set(&r.x, situ_to(situ_randn(SITU_SHAPE(32, 1, 8, 8), &(situ_options){ .generator = &g }), device));
  situ_set(&r.y, situ_to(situ_randint(0, 10, SITU_SHAPE(32), &(situ_options){ .generator = &g }), device));
  if (situ_nn_to(r.net, device) != SITU_OK) fail_msg("%s", situ_error_message());
  return r;
}

static void stop(run *r) {
  situ_optim_free(r->optim);
  situ_nn_free(r->net);
  situ_drop(&r->x);
  situ_drop(&r->y);
}

static situ_status step(run *r, double *loss_out) {
  situ_scope s;
  situ_scope_begin(&s);
  situ_tensor *loss = situ_cross_entropy(situ_nn_forward(r->net, r->x), r->y, NULL);
  situ_status status = situ_optim_zero_grad(r->optim, true);
  if (status == SITU_OK) status = situ_backward(loss, NULL);
  if (status == SITU_OK) status = situ_optim_step(r->optim);
  if (status == SITU_OK) status = situ_item(loss, loss_out);
  situ_status end = situ_scope_end(&s);
  return status == SITU_OK ? end : status;
}

static situ_status gather(const situ_nn_visit *at, void *payload) {
  float **to = payload;
  int64_t n = situ_numel(at->tensor);
  situ_status status = situ_copy_to_host(at->tensor, *to, (size_t)n * sizeof(float));
  *to += n;
  return status;
}

static void parameters(run *r, float out[PARAMETERS]) {
  float *to = out;
  assert_int_equal(situ_nn_walk(r->net, SITU_NN_PARAMETER, gather, &to), SITU_OK);
  assert_int_equal(to - out, PARAMETERS);
}

static void the_same_bits_for_any_number_of_threads(void **state) {
  (void)state;
  static float first[PARAMETERS], now[PARAMETERS];
  int before = situ_get_num_threads();
  for (int threads = 1; threads <= 8; threads++) {
    assert_int_equal(situ_set_num_threads(threads), SITU_OK);
    run r = start(test_device());
    double loss;
    for (int i = 0; i < 5; i++) assert_int_equal(step(&r, &loss), SITU_OK);
    parameters(&r, threads == 1 ? first : now);
    if (threads > 1) assert_memory_equal(first, now, sizeof first);
    stop(&r);
  }
  assert_int_equal(situ_set_num_threads(before), SITU_OK);
}

/* From each allocation of a step on there is no memory (one that fails alone would be had from the cache): an error, nothing
   left behind, and the parameters as they were, or all of them a step on if only reading the loss failed. */
static void every_allocation_fails_once(void **state) {
  (void)state;
  static float before[PARAMETERS], now[PARAMETERS];
  double loss;
  run r = start(test_device());
  assert_int_equal(step(&r, &loss), SITU_OK); /* the optimiser's state is there */
  assert_int_equal(situ_optim_zero_grad(r.optim, true), SITU_OK);
  assert_int_equal(situ_synchronize(test_device()), SITU_OK);
  parameters(&r, before);
  int64_t tensors = situ_live_tensors(), bytes = situ_live_bytes();
  int points = 0, stepped = 0, same = 0;
  for (uint64_t nth = 1; nth < 5000; nth++) {
    assert_int_equal(situ_empty_cache(test_device()), SITU_OK); /* so that a step does allocate */
    assert_int_equal(situ_empty_cache(situ_dev("cpu")), SITU_OK);
    situ_fail_allocation(nth, true);
    situ_status status = step(&r, &loss);
    situ_fail_allocation(0, false);
    if (status == SITU_OK) break;
    points++;
    if (situ_error() != SITU_E_NOMEM) fail_msg("allocation %d: %s", (int)nth, situ_error_message());
    situ_error_clear();
    assert_int_equal(situ_optim_zero_grad(r.optim, true), SITU_OK);
    SITU_IGNORE(situ_synchronize(test_device()));
    situ_error_clear();
    assert_int_equal(situ_live_tensors(), tensors);
    assert_int_equal(situ_live_bytes(), bytes);
    parameters(&r, now);
    if (memcmp(now, before, sizeof now) == 0) continue;
    stepped++;
    for (int i = 0; i < PARAMETERS; i++)
      if (now[i] == before[i]) same++;
    memcpy(before, now, sizeof before);
  }
  assert_true(2 * stepped < points && same <= stepped * PARAMETERS / 100); /* all of them moved */
  print_message("memory ended at %d places of a training step; the step had been made at %d of them\n", points,
                stepped);
  assert_true(points > 20);
  stop(&r);
}

static void *train_alone(void *payload) {
  double *loss = payload, unused;
  situ_scope s;
  situ_scope_begin(&s);
  run r = { 0 };
  situ_generator g = situ_generator_seeded(3);
  situ_set(&r.x, situ_randn(SITU_SHAPE(64, 20), &(situ_options){ .generator = &g }));
  situ_set(&r.y, situ_randint(0, 5, SITU_SHAPE(64), &(situ_options){ .generator = &g }));
  r.net = situ_nn_sequential(situ_nn_linear(20, 32, NULL), situ_nn_relu(), situ_nn_linear(32, 5, NULL));
  situ_tree *all = situ_nn_parameters(r.net);
  for (int64_t i = 0; i < situ_tree_count(all); i++) situ_nn_init_uniform_(situ_tree_tensor_at(all, i), -0.1, 0.1, &g);
  r.optim = situ_optim_sgd(all, 0.1, NULL);
  situ_status status = SITU_OK;
  for (int i = 0; status == SITU_OK && i < 100; i++) status = step(&r, i < 99 ? &unused : loss);
  stop(&r);
  situ_status end = situ_scope_end(&s);
  return status == SITU_OK && end == SITU_OK ? NULL : (void *)situ_error_message();
}

/* Distinct tensors are free-threaded: four threads that train each get what one alone gets. */
static void four_threads_train_at_once(void **state) {
  (void)state;
  pthread_t thread[4];
  double loss[4], alone = -1;
  assert_null(train_alone(&alone));
  for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&thread[i], NULL, train_alone, &loss[i]), 0);
  for (int i = 0; i < 4; i++) {
    void *failed = NULL;
    pthread_join(thread[i], &failed);
    assert_null(failed);
    assert_true(loss[i] == alone);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(the_same_bits_for_any_number_of_threads), TEST(every_allocation_fails_once),
                                      TEST(four_threads_train_at_once) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
