/* The loader: the same batches for any number of workers, and errors that arrive.
   SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "situ/data.h"
#include "situ/ops.h"
#include "situ/sys/alloc.h"
#include "support/test.h"
#include "support/scope.h"

static const situ_options i64 = { .dtype = SITU_I64, .device = { .kind = SITU_CPU } };

/* Sample i of n: row [i, i + 1, i + 2] and label i. */
static situ_dataset *numbered(int64_t n) {
  situ_tensor *label = situ_arange(0, (double)n, 1, &i64);
  situ_tensor *x = situ_add(situ_unsqueeze(label, 1), situ_arange(0, 3, 1, &i64));
  situ_tree *tree = situ_tree_put(situ_tree_dict(), "x", situ_tree_tensor(x));
  situ_dataset *set = situ_tensor_dataset(situ_tree_put(tree, "label", situ_tree_tensor(label)));
  assert_non_null(set);
  return set;
}

/* The labels of a batch, and a check that x belongs to them. */
static int64_t labels_of(const situ_tree *batch, int64_t *out) {
  situ_tensor *label = situ_tree_get(batch, "label"), *x = situ_tree_get(batch, "x");
  int64_t count = situ_numel(label), rows[3 * 64];
  assert_true(count <= 64);
  assert_int_equal(situ_size(x, 0), count);
  assert_int_equal(situ_copy_to_host(label, out, (size_t)count * 8), SITU_OK);
  assert_int_equal(situ_copy_to_host(x, rows, (size_t)count * 24), SITU_OK);
  for (int64_t i = 0; i < 3 * count; i++) assert_int_equal(rows[i], out[i / 3] + i % 3);
  return count;
}

/* One epoch's labels, one after the other; returns how many, and the number of batches. */
static int64_t epoch(situ_data_loader *loader, int64_t *out, int64_t *batches) {
  int64_t count = 0;
  *batches = 0;
  const situ_tree *batch;
  while ((batch = situ_data_loader_next(loader))) {
    count += labels_of(batch, out + count);
    ++*batches;
  }
  if (situ_error()) fail_msg("%s", situ_error_message());
  return count;
}

static void batches_in_order(void **state) {
  (void)state;
  situ_dataset *set = numbered(10);
  int64_t got[16], batches;
  static const struct {
    int64_t size;
    bool drop;
    int64_t batches, samples;
  } cases[] = {
    { 0, false, 10, 10 }, { 3, false, 4, 10 },  { 3, true, 3, 9 },
    { 5, true, 2, 10 },   { 20, false, 1, 10 }, { 20, true, 0, 0 },
  };
  for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
    for (int workers = 0; workers < 4; workers++) {
      situ_data_loader *loader = situ_data_loader_new(set, &(situ_data_loader_options){ .batch_size = cases[c].size,
                                                                                        .drop_last = cases[c].drop,
                                                                                        .num_workers = workers });
      assert_non_null(loader);
      assert_int_equal(situ_data_loader_length(loader), cases[c].batches);
      for (int e = 0; e < 3; e++) {
        assert_int_equal(epoch(loader, got, &batches), cases[c].samples);
        assert_int_equal(batches, cases[c].batches);
        for (int64_t i = 0; i < cases[c].samples; i++) assert_int_equal(got[i], i);
      }
      situ_data_loader_free(loader);
    }
  situ_dataset_free(set);
}

static void shuffles_alike_for_any_number_of_workers(void **state) {
  (void)state;
  enum { N = 57 };
  situ_dataset *set = numbered(N);
  int64_t want[3][N], got[N], batches;
  static const int workers[] = { 0, 1, 2, 3, 8 };
  for (size_t w = 0; w < sizeof workers / sizeof *workers; w++) {
    situ_generator generator = situ_generator_seeded(7);
    situ_data_loader *loader = situ_data_loader_new(
        set, &(situ_data_loader_options){
                 .batch_size = 5, .shuffle = true, .num_workers = workers[w], .prefetch = 1, .generator = &generator });
    for (int e = 0; e < 3; e++) {
      assert_int_equal(epoch(loader, got, &batches), N);
      if (w == 0) memcpy(want[e], got, sizeof got);
      assert_memory_equal(got, want[e], sizeof got);
    }
    situ_data_loader_free(loader);
  }
  /* Each epoch has every sample once, in an order of its own. */
  assert_memory_not_equal(want[0], want[1], sizeof want[0]);
  for (int e = 0; e < 3; e++) {
    bool seen[N] = { false };
    for (int i = 0; i < N; i++) seen[want[e][i]] = true;
    for (int i = 0; i < N; i++) assert_true(seen[i]);
  }
  situ_dataset_free(set);
}

/* ---- a set of one's own ---------------------------------------------------------------------- */

typedef struct own_set {
  situ_dataset base;
  int64_t length, bad; /* sample `bad` cannot be made */
  bool silent;         /* and nobody says why */
  long nap;            /* nanoseconds that a sample takes, more for even ones */
  atomic_int made;
  atomic_bool *freed;
} own_set;

static int64_t own_length(situ_dataset *self) { return ((own_set *)self)->length; }

static situ_tree *own_get(situ_dataset *self, int64_t index) {
  own_set *s = (own_set *)self;
  const struct timespec nap = { .tv_nsec = s->nap * (index % 2 ? 1 : 3) };
  if (s->nap) nanosleep(&nap, NULL);
  atomic_fetch_add(&s->made, 1);
  if (index == s->bad) return s->silent ? NULL : situ_tree_tensor(situ_zeros(SITU_SHAPE(-1), &i64));
  situ_tree *x = situ_tree_of(1, (situ_tensor *[]){ situ_full(SITU_SHAPE(3), (double)index, &i64) });
  situ_tree *sample = situ_tree_append(situ_tree_append(situ_tree_list(), x), situ_tree_none());
  return situ_tree_append(sample, situ_tree_tensor(situ_full(SITU_SCALAR, (double)index, &i64)));
}

static void own_release(situ_dataset *self) {
  if (((own_set *)self)->freed) atomic_store(((own_set *)self)->freed, true);
}

static const situ_dataset_type own_type = {
  .name = "Own", .size = sizeof(own_set), .length = own_length, .get = own_get, .release = own_release
};

static own_set *own(int64_t length, int64_t bad) {
  own_set *s = (own_set *)situ_dataset_alloc(&own_type);
  assert_non_null(s);
  s->length = length;
  s->bad = bad;
  return s;
}

static void collates_nested_samples(void **state) {
  (void)state;
  atomic_bool freed = false;
  own_set *set = own(7, -1);
  set->freed = &freed;
  for (int workers = 0; workers < 3; workers++) {
    situ_data_loader *loader =
        situ_data_loader_new(&set->base, &(situ_data_loader_options){ .batch_size = 4, .num_workers = workers });
    int64_t values[12];
    for (int64_t first = 0; first < 7; first += 4) {
      const situ_tree *batch = situ_data_loader_next(loader);
      if (!batch) fail_msg("%s", situ_error_message());
      int64_t count = first ? 3 : 4;
      assert_int_equal(situ_tree_count(batch), 3);
      assert_int_equal(situ_tree_kind_of(situ_tree_at(batch, 1)), SITU_TREE_NONE);
      situ_tensor *x = situ_tree_tensor_at(situ_tree_at(batch, 0), 0), *label = situ_tree_tensor_at(batch, 2);
      assert_int_equal(situ_size(x, 0), count);
      assert_int_equal(situ_size(x, 1), 3);
      assert_int_equal(situ_dim(label), 1);
      assert_int_equal(situ_copy_to_host(label, values, (size_t)count * 8), SITU_OK);
      for (int64_t i = 0; i < count; i++) assert_int_equal(values[i], first + i);
    }
    assert_null(situ_data_loader_next(loader));
    assert_int_equal(situ_error(), SITU_OK);
    situ_data_loader_free(loader);
  }
  situ_dataset_free(&set->base);
  assert_true(freed);
}

static void refuses_samples_that_differ(void **state) {
  (void)state;
  situ_tensor *a = situ_zeros(SITU_SHAPE(2), &i64), *b = situ_zeros(SITU_SHAPE(3), &i64);
  situ_tree *one = SITU_TREE(a), *two = SITU_TREE(a, a), *other = SITU_TREE(b);
  situ_tree *named = situ_tree_put(situ_tree_dict(), "a", situ_tree_tensor(a));
  situ_tree *renamed = situ_tree_put(situ_tree_dict(), "b", situ_tree_tensor(a));
  situ_tree *const pairs[][2] = { { one, two }, { one, other }, { one, named }, { named, renamed } };
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
    assert_null(situ_default_collate(pairs[i], 2));
    assert_int_equal(situ_error(), SITU_E_SHAPE);
    situ_error_clear();
  }
  assert_null(situ_default_collate(pairs[0], 0));
  assert_int_equal(situ_error(), SITU_E_ARG);
  situ_error_clear();
  situ_tree *const fine[] = { one, one };
  situ_tree *batch = situ_default_collate(fine, 2);
  assert_int_equal(situ_size(situ_tree_tensor_at(batch, 0), 0), 2);
  situ_tree_free(batch);
  situ_tree_free(one);
  situ_tree_free(two);
  situ_tree_free(other);
  situ_tree_free(named);
  situ_tree_free(renamed);
}

static void errors_of_workers_arrive(void **state) {
  (void)state;
  for (int silent = 0; silent < 2; silent++)
    for (int workers = 0; workers < 4; workers++) {
      own_set *set = own(40, 13);
      set->silent = silent;
      situ_data_loader *loader =
          situ_data_loader_new(&set->base, &(situ_data_loader_options){ .batch_size = 4, .num_workers = workers });
      for (int again = 0; again < 2; again++) {
        for (int i = 0; i < 3; i++) assert_non_null(situ_data_loader_next(loader));
        assert_null(situ_data_loader_next(loader)); /* samples 12 to 15 */
        assert_int_equal(situ_error(), silent ? SITU_E_STATE : SITU_E_SHAPE);
        assert_non_null(strstr(situ_error_message(), workers ? "batch 3" : silent ? "gave nothing" : "zeros"));
        situ_error_clear();
        /* The epoch is over; the next call begins another. */
      }
      situ_data_loader_free(loader);
      situ_dataset_free(&set->base);
    }
}

/* What a worker makes was made for the line of the program that made the loader, not for the code that starts threads. */
static void tensors_of_workers_have_a_line_of_the_program(void **state) {
  (void)state;
  situ_dataset *set = numbered(8);
  for (int workers = 0; workers < 3; workers++) {
    situ_data_loader *loader =
        situ_data_loader_new(set, &(situ_data_loader_options){ .batch_size = 2, .num_workers = workers });
    const situ_tree *batch = situ_data_loader_next(loader);
    char place[256];
    situ_created_at(situ_tree_get(batch, "x"), place, sizeof place);
    if (!strstr(place, test_has_lines() ? "loader.c:" : "test_data_loader+0x"))
      fail_msg("%d workers: %s", workers, place);
    situ_data_loader_free(loader);
  }
  situ_dataset_free(set);
}

/* Freed in the middle of an epoch, with batches ready, being made and not begun. */
static void stops_at_any_moment(void **state) {
  (void)state;
  for (int taken = 0; taken < 6; taken++)
    for (int workers = 1; workers < 5; workers++) {
      own_set *set = own(200, -1);
      set->nap = 100000;
      situ_data_loader *loader = situ_data_loader_new(
          &set->base, &(situ_data_loader_options){ .batch_size = 2, .num_workers = workers, .shuffle = true });
      for (int i = 0; i < taken; i++) assert_non_null(situ_data_loader_next(loader));
      situ_data_loader_free(loader);
      assert_true(atomic_load(&set->made) <= 2 * (taken + 2 * workers + workers));
      situ_dataset_free(&set->base);
    }
}

/* Workers that take turns in any order still give batches in order. */
static void uneven_workers_keep_the_order(void **state) {
  (void)state;
  own_set *set = own(60, -1);
  set->nap = 200000;
  situ_data_loader *loader = situ_data_loader_new(&set->base, &(situ_data_loader_options){ .num_workers = 4 });
  for (int64_t i = 0; i < 60; i++) {
    const situ_tree *batch = situ_data_loader_next(loader);
    int64_t value;
    assert_int_equal(situ_item_i64(situ_tree_tensor_at(batch, 2), &value), SITU_OK);
    assert_int_equal(value, i);
  }
  situ_data_loader_free(loader);
  situ_dataset_free(&set->base);
}

static situ_tree *count_them(situ_tree *const *samples, int64_t count, void *payload) {
  (void)samples;
  return situ_tree_tensor(situ_full(SITU_SCALAR, (double)(count * *(int *)payload), &i64));
}

static void takes_a_collate_of_ones_own(void **state) {
  (void)state;
  int factor = 10;
  situ_dataset *set = numbered(5);
  situ_data_loader *loader = situ_data_loader_new(
      set, &(situ_data_loader_options){ .batch_size = 3, .collate = count_them, .payload = &factor, .num_workers = 1 });
  int64_t value;
  assert_int_equal(situ_item_i64(situ_tree_value(situ_data_loader_next(loader)), &value), SITU_OK);
  assert_int_equal(value, 30);
  assert_int_equal(situ_item_i64(situ_tree_value(situ_data_loader_next(loader)), &value), SITU_OK);
  assert_int_equal(value, 20);
  situ_data_loader_free(loader);
  situ_dataset_free(set);
}

static void puts_batches_on_a_device(void **state) {
  (void)state;
  situ_device sim = situ_dev("sim:0");
  if (!situ_device_is_available(sim)) skip();
  situ_dataset *set = numbered(9);
  situ_data_loader *loader =
      situ_data_loader_new(set, &(situ_data_loader_options){ .batch_size = 4, .num_workers = 2, .device = sim });
  int64_t got[16], batches;
  const situ_tree *batch = situ_data_loader_next(loader);
  if (!batch) fail_msg("%s", situ_error_message());
  assert_true(situ_device_equal(situ_device_of(situ_tree_get(batch, "x")), sim));
  while ((batch = situ_data_loader_next(loader))) {}
  assert_int_equal(epoch(loader, got, &batches), 9);
  situ_data_loader_free(loader);
  loader = situ_data_loader_new(set, &(situ_data_loader_options){ .num_workers = 2, .pin_memory = sim });
  assert_true(situ_is_pinned(situ_tree_get(situ_data_loader_next(loader), "x")));
  situ_data_loader_free(loader);
  situ_dataset_free(set);
}

/* Batches stay where their samples are, whatever device is the default. */
static void a_batch_moves_only_where_it_is_told(void **state) {
  (void)state;
  situ_dataset *set = numbered(4);
  situ_data_loader *loader = situ_data_loader_new(set, &(situ_data_loader_options){ .batch_size = 4 });
  assert_int_equal(situ_set_default_device(situ_dev("meta")), SITU_OK);
  int64_t out[4];
  const situ_tree *batch = situ_data_loader_next(loader);
  assert_int_equal(situ_set_default_device((situ_device){ 0 }), SITU_OK);
  assert_int_equal(labels_of(batch, out), 4);
  situ_data_loader_free(loader);
  situ_dataset_free(set);
}

/* ---- parts of sets --------------------------------------------------------------------------- */

static void subsets_and_splits(void **state) {
  (void)state;
  situ_dataset *set = numbered(20), *train, *held_back;
  situ_generator generator = situ_generator_seeded(3);
  assert_int_equal(situ_random_split(set, 15, &generator, &train, &held_back), SITU_OK);
  assert_int_equal(situ_dataset_length(train), 15);
  assert_int_equal(situ_dataset_length(held_back), 5);
  int64_t got[20], batches;
  bool seen[20] = { false };
  situ_data_loader *a = situ_data_loader_new(train, &(situ_data_loader_options){ .batch_size = 4 });
  situ_data_loader *b =
      situ_data_loader_new(held_back, &(situ_data_loader_options){ .batch_size = 2, .num_workers = 1 });
  assert_int_equal(epoch(a, got, &batches), 15);
  assert_int_equal(epoch(b, got + 15, &batches), 5);
  for (int i = 0; i < 20; i++) seen[got[i]] = true;
  for (int i = 0; i < 20; i++) assert_true(seen[i]);
  situ_data_loader_free(a);
  situ_data_loader_free(b);

  const int64_t picked[] = { 3, 3, 0 };
  situ_dataset *part = situ_subset(held_back, picked, 3);
  situ_tree *one = situ_dataset_get(part, 1), *two = situ_dataset_get(part, 0);
  int64_t u, v;
  assert_int_equal(situ_item_i64(situ_tree_get(one, "label"), &u), SITU_OK);
  assert_int_equal(situ_item_i64(situ_tree_get(two, "label"), &v), SITU_OK);
  assert_int_equal(u, v);
  situ_tree_free(one);
  situ_tree_free(two);
  assert_null(situ_dataset_get(part, 3));
  assert_int_equal(situ_error(), SITU_E_INDEX);
  situ_error_clear();
  const int64_t outside[] = { 5 };
  assert_null(situ_subset(held_back, outside, 1));
  assert_int_equal(situ_error(), SITU_E_INDEX);
  situ_error_clear();
  situ_dataset_free(part);
  part = situ_subset(held_back, NULL, 0);
  assert_int_equal(situ_dataset_length(part), 0);
  situ_dataset_free(part);
  assert_null(situ_subset(held_back, NULL, 2));
  assert_int_equal(situ_error(), SITU_E_ARG);
  situ_error_clear();
  assert_null(situ_subset(held_back, picked, -1));
  assert_int_equal(situ_error(), SITU_E_ARG);
  situ_error_clear();
  situ_dataset *none, *all;
  for (int64_t wrong = -1; wrong <= 21; wrong += 22) {
    assert_int_equal(situ_random_split(set, wrong, &generator, &none, &all), SITU_E_ARG);
    assert_non_null(strstr(situ_error_message(), "random_split: "));
    situ_error_clear();
  }
  assert_int_equal(situ_random_split(set, 0, &generator, &none, &all), SITU_OK);
  assert_int_equal(situ_dataset_length(none), 0);
  assert_int_equal(situ_dataset_length(all), 20);
  situ_dataset_free(none);
  situ_dataset_free(all);
  assert_int_equal(situ_random_split(set, 20, &generator, &all, &none), SITU_OK);
  assert_int_equal(situ_dataset_length(none), 0);
  situ_dataset_free(none);
  situ_dataset_free(all);
  situ_dataset_free(train);
  situ_dataset_free(held_back);
  situ_dataset_free(set);
}

static void a_set_may_be_empty(void **state) {
  (void)state;
  int64_t got[1], batches = 0;
  own_set *s = own(0, -1);
  situ_data_loader *loader = situ_data_loader_new(&s->base, NULL);
  assert_non_null(loader);
  assert_int_equal(epoch(loader, got, &batches), 0);
  assert_int_equal(batches, 0);
  situ_data_loader_free(loader);
  situ_dataset_free(&s->base);
}

static int64_t length_of_one(situ_dataset *self) {
  (void)self;
  return 1;
}

/* A set needs no fields of its own. */
static void a_type_may_be_plain(void **state) {
  (void)state;
  situ_dataset_type type = { .name = "Plain", .size = sizeof(situ_dataset), .length = length_of_one, .get = own_get };
  situ_dataset *set = situ_dataset_alloc(&type);
  assert_non_null(set);
  assert_int_equal(situ_dataset_length(set), 1);
  situ_dataset_free(set);
  type.size--;
  assert_null(situ_dataset_alloc(&type));
  assert_int_equal(situ_error(), SITU_E_ARG);
}

static void refuses_bad_sets_and_options(void **state) {
  (void)state;
  situ_tensor *two = situ_zeros(SITU_SHAPE(2, 2), &i64), *three = situ_zeros(SITU_SHAPE(3), &i64);
  assert_null(situ_tensor_dataset(SITU_TREE(two, three)));
  assert_int_equal(situ_error(), SITU_E_SHAPE);
  situ_error_clear();
  assert_null(situ_tensor_dataset(SITU_TREE(situ_zeros(SITU_SCALAR, &i64))));
  assert_int_equal(situ_error(), SITU_E_SHAPE);
  situ_error_clear();
  assert_null(situ_tensor_dataset(situ_tree_list()));
  assert_int_equal(situ_error(), SITU_E_ARG);
  situ_error_clear();
  assert_null(situ_tensor_dataset(NULL));
  assert_int_equal(situ_error(), SITU_E_ARG);
  situ_error_clear();
  situ_dataset *set = numbered(3);
  static const situ_data_loader_options bad[] = {
    { .batch_size = -1 }, { .num_workers = -1 }, { .num_workers = 1000 }, { .prefetch = -1 }, { .prefetch = 100000 },
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    assert_null(situ_data_loader_new(set, &bad[i]));
    assert_int_equal(situ_error(), SITU_E_ARG);
    situ_error_clear();
  }
  assert_null(situ_data_loader_new(set, &(situ_data_loader_options){ .device = situ_dev("sim:200") }));
  situ_error_clear();
  assert_null(
      situ_data_loader_new(set, &(situ_data_loader_options){ .pin_memory = { .kind = SITU_SIM, .index = 50 } }));
  expect_error(SITU_E_DEVICE, "data_loader", "there is no device sim:50");
  situ_error_clear();
  assert_null(situ_data_loader_new(NULL, NULL));
  situ_error_clear();
  assert_null(situ_data_loader_next(NULL));
  situ_error_clear();
  situ_data_loader_free(NULL);
  situ_dataset_free(NULL);
  assert_int_equal(situ_dataset_length(NULL), -1);
  situ_dataset_free(set);
}

/* In a forked child there are no workers: an error, not a wait for ever. */
static void a_forked_child_is_told(void **state) {
  (void)state;
  situ_dataset *set = numbered(30);
  situ_data_loader *loader = situ_data_loader_new(set, &(situ_data_loader_options){ .num_workers = 2 });
  assert_non_null(situ_data_loader_next(loader));
  pid_t child = fork();
  if (child == 0) {
    alarm(10);
    bool told = !situ_data_loader_next(loader) && situ_error() == SITU_E_STATE;
    situ_data_loader_free(loader);
    _exit(told ? 0 : 1);
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  situ_data_loader_free(loader);
  situ_dataset_free(set);
}

static void every_allocation_fails_once(void **state) {
  (void)state;
  situ_dataset *set = numbered(12);
  own_set *mine = own(12, -1);
  int failures = 0;
  for (int variant = 0; variant < 2; variant++)
    for (uint64_t nth = 1;; nth++) {
      situ_generator generator = situ_generator_seeded(1);
      int64_t live = situ_live_tensors();
      situ_fail_allocation(nth, false);
      situ_data_loader *loader = situ_data_loader_new(
          variant ? &mine->base : set,
          &(situ_data_loader_options){ .batch_size = 5, .shuffle = true, .generator = &generator });
      int batches = 0;
      while (loader && situ_data_loader_next(loader)) batches++;
      situ_data_loader_free(loader);
      bool reached = situ_allocation_count() >= nth;
      situ_fail_allocation(0, false);
      if (reached && situ_error() == SITU_OK && batches != 3) fail_msg("allocation %d: %d batches", (int)nth, batches);
      if (situ_error() != SITU_OK) assert_int_equal(situ_error(), SITU_E_NOMEM);
      situ_error_clear();
      assert_int_equal(situ_live_tensors(), live);
      if (!reached) break;
      failures++;
    }
  print_message("%d allocations failed\n", failures);
  assert_true(failures > 20);
  situ_dataset_free(&mine->base);
  situ_dataset_free(set);
}

/* It must outlive what reads it: that it did not is told. */
static void the_set_is_freed_first(void **state) {
  (void)state;
  for (int workers = 0; workers < 3; workers++) {
    const int64_t indices[] = { 1, 0, 2 };
    situ_dataset *set = numbered(3), *part = situ_subset(set, indices, 3);
    situ_data_loader *direct =
        situ_data_loader_new(set, &(situ_data_loader_options){ .batch_size = 2, .num_workers = workers });
    situ_data_loader *through =
        situ_data_loader_new(part, &(situ_data_loader_options){ .batch_size = 2, .num_workers = workers });
    situ_dataset_free(set);
    assert_null(situ_data_loader_next(direct));
    assert_int_equal(situ_error(), SITU_E_ARG);
    assert_non_null(strstr(situ_error_message(), "dataset is a data set that was freed (TensorDataset)"));
    situ_error_clear();
    assert_null(situ_data_loader_next(through));
    assert_int_equal(situ_error(), SITU_E_ARG);
    situ_error_clear();
    situ_data_loader_free(direct);
    situ_data_loader_free(through);
    assert_null(situ_data_loader_next(direct));
    assert_int_equal(situ_error(), SITU_E_ARG);
    situ_dataset_free(part);
    situ_error_clear();
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, open_scope, close_scope)
    T(batches_in_order),
    T(the_set_is_freed_first),
    T(shuffles_alike_for_any_number_of_workers),
    T(collates_nested_samples),
    T(refuses_samples_that_differ),
    T(errors_of_workers_arrive),
    T(tensors_of_workers_have_a_line_of_the_program),
    T(stops_at_any_moment),
    T(uneven_workers_keep_the_order),
    T(takes_a_collate_of_ones_own),
    T(puts_batches_on_a_device),
    T(a_batch_moves_only_where_it_is_told),
    T(subsets_and_splits),
    T(a_set_may_be_empty),
    T(a_type_may_be_plain),
    T(refuses_bad_sets_and_options),
    T(a_forked_child_is_told),
    T(every_allocation_fails_once),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
