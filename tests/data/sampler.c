/* Samplers: orders, parts of an epoch for each process, weights, refusals, and the loader that uses them.
   SPDX-License-Identifier: MIT */
#include <math.h>
#include <string.h>

#include "situ/data.h"
#include "situ/sys/alloc.h"
#include "support/test.h"

/* Sample i is i. */
static situ_dataset *numbers(int64_t n) {
  const situ_options i64 = { .dtype = SITU_I64, .device = { .kind = SITU_CPU } };
  return situ_tensor_dataset(situ_tree_append(situ_tree_list(), situ_tree_tensor(situ_arange(0, (double)n, 1, &i64))));
}

enum { MOST = 4096 };
static int64_t drawn[MOST];
static int64_t draw(situ_sampler *s) {
  assert_non_null(s);
  assert_int_equal(situ_sampler_draw(s, drawn, MOST), SITU_OK);
  return situ_sampler_length(s);
}
/* The draw has each of these indices once. */
static void expect_each_once(const int64_t *indices, int64_t count) {
  for (int64_t k = 0; k < count; k++) {
    int times = 0;
    for (int64_t i = 0; i < count; i++) times += drawn[i] == indices[k];
    assert_int_equal(times, 1);
  }
}

static void sequential_and_random(void **state) {
  (void)state;
  static const int64_t all[] = { 0, 1, 2, 3, 4, 5, 6, 7 }, some[] = { 5, 1, 3 };
  situ_dataset *set = numbers(8);
  situ_generator generator = situ_generator_seeded(2), same = situ_generator_seeded(2);
  situ_sampler *s = situ_sequential_sampler(set);
  assert_int_equal(draw(s), 8);
  assert_memory_equal(drawn, all, sizeof all);
  situ_sampler_free(s);
  s = situ_random_sampler(set, &(situ_random_sampler_options){ .generator = &generator });
  int64_t first[8];
  assert_int_equal(draw(s), 8);
  expect_each_once(all, 8);
  memcpy(first, drawn, sizeof first);
  assert_int_equal(draw(s), 8);
  assert_memory_not_equal(first, drawn, sizeof first);
  situ_sampler_free(s);
  s = situ_random_sampler(set, &(situ_random_sampler_options){ .generator = &same, .num_samples = 11 });
  assert_int_equal(draw(s), 11);
  assert_memory_equal(first, drawn, sizeof first);
  situ_sampler_free(s);
  s = situ_random_sampler(set, &(situ_random_sampler_options){ .replacement = true, .num_samples = 500 });
  assert_int_equal(draw(s), 500);
  for (int i = 0; i < 500; i++) assert_in_range(drawn[i], 0, 7);
  situ_sampler_free(s);
  s = situ_subset_random_sampler(some, 3, NULL);
  assert_int_equal(draw(s), 3);
  expect_each_once(some, 3);
  situ_sampler_free(s);
  situ_dataset_free(set);
}

/* Shares of 4,000 draws within 5 standard deviations of the weights; a weight of 0 is never drawn. */
static void weighted(void **state) {
  (void)state;
  static const double weights[] = { 1, 0, 3, 4 };
  for (int with = 0; with < 2; with++) {
    int64_t times[4] = { 0 };
    situ_sampler *s = situ_weighted_random_sampler(weights, 4, with ? 4000 : 1, with, NULL);
    for (int k = 0; k < (with ? 1 : 4000); k++) {
      const int64_t count = draw(s);
      for (int64_t i = 0; i < count; i++) times[drawn[i]]++;
    }
    for (int i = 0; i < 4; i++) {
      const double p = weights[i] / 8;
      assert_true(fabs((double)times[i] - 4000 * p) <= 5 * sqrt(4000 * p * (1 - p)));
    }
    situ_sampler_free(s);
  }
  static const int64_t positive[] = { 0, 2, 3 };
  situ_sampler *s = situ_weighted_random_sampler(weights, 4, 3, false, NULL);
  assert_int_equal(draw(s), 3);
  expect_each_once(positive, 3);
  situ_sampler_free(s);
}

/* torch 2.15's parts without shuffling; with it, the ranks' parts of one order. */
static void distributed(void **state) {
  (void)state;
  static const struct {
    int64_t length, replicas;
    bool drop_last;
    int64_t count, want[12]; /* rank after rank */
  } row[] = {
    { 10, 3, false, 4, { 0, 3, 6, 9, 1, 4, 7, 0, 2, 5, 8, 1 } },
    { 10, 3, true, 3, { 0, 3, 6, 1, 4, 7, 2, 5, 8 } },
    { 2, 5, false, 1, { 0, 1, 0, 1, 0 } },
    { 2, 5, true, 0, { 0 } },
    { 11, 4, true, 2, { 0, 4, 1, 5, 2, 6, 3, 7 } },
  };
  for (size_t k = 0; k < sizeof row / sizeof *row; k++) {
    situ_dataset *set = numbers(row[k].length);
    for (int64_t rank = 0; rank < row[k].replicas; rank++) {
      situ_sampler *s = situ_distributed_sampler(
          set, &(situ_distributed_sampler_options){
                   .num_replicas = row[k].replicas, .rank = rank, .no_shuffle = true, .drop_last = row[k].drop_last });
      assert_int_equal(draw(s), row[k].count);
      assert_memory_equal(drawn, row[k].want + rank * row[k].count, (size_t)row[k].count * sizeof *drawn);
      situ_sampler_free(s);
    }
    situ_dataset_free(set);
  }
}

static void distributed_in_epochs(void **state) {
  (void)state;
  int64_t all[12], order[3][12];
  for (int i = 0; i < 12; i++) all[i] = i;
  situ_dataset *set = numbers(12);
  for (int e = 0; e < 3; e++) /* the third time epoch 1 again */
    for (int64_t rank = 0; rank < 4; rank++) {
      situ_sampler *s =
          situ_distributed_sampler(set, &(situ_distributed_sampler_options){ .num_replicas = 4, .rank = rank });
      assert_int_equal(situ_distributed_sampler_set_epoch(s, e == 0 ? 0 : 1), SITU_OK);
      assert_int_equal(draw(s), 3);
      memcpy(order[e] + rank * 3, drawn, 3 * sizeof *drawn);
      situ_sampler_free(s);
    }
  assert_memory_not_equal(order[0], order[1], sizeof all);
  assert_memory_equal(order[1], order[2], sizeof all);
  memcpy(drawn, order[1], sizeof all);
  expect_each_once(all, 12);
  situ_dataset_free(set);
}

/* The loader's batches have the sampler's order, for any number of workers; a new one in each epoch. */
static void in_a_loader(void **state) {
  (void)state;
  static const int64_t some[] = { 6, 2, 7, 4, 0 };
  situ_dataset *set = numbers(8);
  for (int workers = 0; workers < 3; workers++) {
    situ_sampler *s = situ_subset_random_sampler(some, 5, NULL);
    const situ_data_loader_options options = { .batch_size = 2, .sampler = s, .num_workers = workers };
    situ_data_loader *loader = situ_data_loader_new(set, &options);
    assert_int_equal(situ_data_loader_length(loader), 3);
    for (int e = 0; e < 2; e++) {
      int64_t count = 0;
      const situ_tree *batch;
      while ((batch = situ_data_loader_next(loader))) {
        situ_tensor *t = situ_tree_tensor_at(batch, 0);
        assert_int_equal(situ_copy_to_host(t, drawn + count, (size_t)situ_numel(t) * sizeof *drawn), SITU_OK);
        count += situ_numel(t);
      }
      assert_int_equal(count, 5);
      expect_each_once(some, 5);
    }
    situ_data_loader_free(loader);
    situ_sampler_free(s);
  }
  situ_dataset_free(set);
}

static void refusals(void **state) {
  (void)state;
  static const double bad[][2] = { { 1, -1 }, { 1, (double)NAN }, { 1, (double)INFINITY }, { 0, 0 } };
  static const int64_t outside[] = { 1, 8 }, negative[] = { 0, -1 };
  situ_dataset *set = numbers(8);
  for (int k = 0; k < 4; k++)
    expect_refused(situ_weighted_random_sampler(bad[k], 2, 1, true, NULL), SITU_E_ARG, "weighted_random_sampler",
                   k < 3 ? "weights[1]" : "no weight is above 0");
  expect_refused(situ_weighted_random_sampler((double[]){ 1, 0 }, 2, 2, false, NULL), SITU_E_ARG, "",
                 "num_samples is 2, and 1 weights are above 0");
  expect_refused(situ_weighted_random_sampler(NULL, 2, 2, true, NULL), SITU_E_ARG, "", "weights");
  expect_refused(situ_random_sampler(set, &(situ_random_sampler_options){ .num_samples = -1 }), SITU_E_ARG,
                 "random_sampler", "num_samples -1");
  expect_refused(situ_subset_random_sampler(negative, 2, NULL), SITU_E_INDEX, "", "indices[1] is -1");
  expect_refused(situ_distributed_sampler(set, &(situ_distributed_sampler_options){ .num_replicas = 2, .rank = 2 }),
                 SITU_E_ARG, "distributed_sampler", "rank 2 of num_replicas 2");
  situ_sampler *s = situ_subset_random_sampler(outside, 2, NULL);
  expect_refused(situ_data_loader_new(set, &(situ_data_loader_options){ .sampler = s }), SITU_E_INDEX, "data_loader",
                 "subset_random_sampler draws indices up to 8 from a dataset of 8");
  expect_refused(situ_data_loader_new(set, &(situ_data_loader_options){ .sampler = s, .shuffle = true }), SITU_E_ARG,
                 "data_loader", "the sampler chooses the order");
  assert_int_equal(situ_sampler_draw(s, drawn, 1), SITU_E_ARG);
  expect_error(SITU_E_ARG, "sampler_draw", "an epoch has 2");
  assert_int_equal(situ_distributed_sampler_set_epoch(s, 1), SITU_E_ARG);
  expect_error(SITU_E_ARG, "distributed_sampler_set_epoch", "subset_random_sampler has no epochs");
  situ_sampler_free(s);
  situ_sampler_free(s);
  expect_error(SITU_E_ARG, "sampler_free", "a sampler that was freed");
  situ_dataset_free(set);
}

/* A set that cannot be made frees the tensors that it was given. */
static void a_set_without_memory(void **state) {
  (void)state;
  const int64_t live = situ_live_tensors();
  bool reached = true;
  for (uint64_t nth = 1; reached; nth++) {
    situ_scope inner;
    situ_scope_begin(&inner);
    situ_tree *tensors = situ_tree_tensor(situ_ones(SITU_SHAPE(3), NULL));
    assert_int_equal(situ_scope_end(&inner), SITU_OK);
    situ_fail_allocation(nth, false);
    situ_dataset *set = situ_tensor_dataset(tensors);
    reached = situ_allocation_count() >= nth;
    situ_fail_allocation(0, false);
    assert_int_equal(situ_error(), set ? SITU_OK : SITU_E_NOMEM);
    assert_true(nth > 1 || !set);
    situ_dataset_free(set);
    situ_error_clear();
    assert_int_equal(situ_live_tensors(), live);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(sequential_and_random), TEST(weighted),    TEST(distributed),
                                      TEST(distributed_in_epochs), TEST(in_a_loader), TEST(refusals),
                                      TEST(a_set_without_memory) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
