/* Modules in a scratch file: what training writes is in the file, the host has less memory than the weights, a full disk
   loses nothing, and there is a way back. */
/* test-devices: sim:0 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/file.h"
#include "place/offload/steps.h"
#include "situ/io.h"

/* A path where there is no file. */
static const char *new_path(void) {
  static char path[64];
  (void)snprintf(path, sizeof path, "/tmp/situ-scratch-%d", (int)getpid());
  return path;
}

static bool is_there(void) { return access(new_path(), F_OK) == 0; }

static void note_state(situ_relation how, const situ_tensor *other, void *payload) {
  int *outside = payload;
  if (how == SITU_LEADS) *outside += !situ_is_in_scratch(other);
}

/* Counts the parameters, gradients and states of m that are not in a file. */
static int outside_of(situ_nn_module *m) {
  situ_tree *list = situ_nn_parameters(m);
  int outside = 0;
  for (int64_t i = 0; i < situ_tree_count(list); i++) {
    const situ_tensor *t = situ_tree_tensor_at(list, i);
    outside += !situ_is_in_scratch(t) + (situ_grad(t) && !situ_is_in_scratch(situ_grad(t)));
    situ_each_relative(t, note_state, &outside);
  }
  situ_tree_free(list);
  return outside;
}

/* What training writes is three and four times the weights. The host has half of the weights, the device a quarter. */
/* placement: A18 */
static void four_times_the_memory_of_host_and_device(void **state) {
  (void)state;
  optimiser *const make[] = { momentum, adamw };
  for (int i = 0; i < 2; i++) {
    situ_nn_module *m = large();
    const uint64_t quarter = bytes_of(m) / 4;
    assert_true(compare(m, &large_kind, make[i], test_is_slow() ? 5 : 20, quarter, new_path(), 2 * quarter) <= quarter);
    assert_false(is_there());
    assert_int_equal(outside_of(m), 0);
    situ_nn_free(m);
  }
}

/* ---- the file ---- */

static void begins_and_ends(void **state) {
  (void)state;
  struct stat seen;
  situ_nn_module *m = offloaded(SEQ(LIN(32, 16), situ_nn_batch_norm1d(16, NULL)));
  situ_tensor *w = situ_nn_get_tensor(m, "0.weight"), *before = situ_clone(w);
  assert_false(situ_is_in_scratch(w) || situ_is_in_scratch(NULL));
  expect_ok(situ_nn_to_scratch(m, new_path(), &(situ_scratch_options){ .keep = true }));
  assert_int_equal(stat(new_path(), &seen), 0);
  assert_true((uint64_t)seen.st_blocks * 512 >= bytes_of(m)); /* it is reserved */
  assert_true(situ_is_in_scratch(w) && situ_nn_get_tensor(m, "0.weight") == w);
  assert_true(test_same_bits(w, before) && situ_device_equal(situ_nn_offloaded_to(m), there()));
  assert_int_equal(situ_nn_to_scratch(m, "", NULL), SITU_E_ARG);
  expect_error(SITU_E_ARG, "nn_to_scratch", "give the name of a new file");
  assert_int_equal(situ_nn_to_scratch(m, new_path(), NULL), SITU_E_IO);
  expect_error(SITU_E_IO, "nn_to_scratch", "no new file can be made here: File exists");
  assert_int_equal(unlink(new_path()), 0);
  expect_ok(situ_nn_to_scratch(m, new_path(), NULL)); /* from one file to another */
  assert_true(situ_is_in_scratch(w) && test_same_bits(w, before) && !is_there());
  expect_ok(situ_nn_to(m, there()));
  assert_false(situ_is_in_scratch(w));
  assert_true(test_same_bits(w, situ_to(before, there())));
  expect_ok(situ_nn_to_scratch(m, new_path(), NULL)); /* from a device */
  expect_on(w, situ_dev("cpu"));
  assert_true(situ_is_in_scratch(w) && test_same_bits(w, before));
  assert_int_equal(situ_nn_to_scratch(m, "/nowhere/at/all", NULL), SITU_E_IO);
  situ_error_clear();
  assert_int_equal(situ_nn_to_scratch(m, NULL, NULL), SITU_E_ARG);
  situ_error_clear();
  situ_nn_free(m);
}

/* Saved and loaded while it is in the file, it goes on as one that was never there. */
static void a_checkpoint_between_steps(void **state) {
  (void)state;
  const struct kind *k = &large_kind;
  char path[] = "/tmp/situ-offload-XXXXXX";
  const int fd = mkstemp(path);
  situ_nn_module *m = offloaded(SEQ(LIN(32, 64), situ_nn_batch_norm1d(64, NULL), LIN(64, 4))), *twin = situ_nn_clone(m);
  situ_optim *o = adamw(m), *p = adamw(twin);
  expect_ok(situ_nn_to_scratch(m, new_path(), NULL));
  (void)train(m, o, k, 3);
  expect_ok(situ_checkpoint_save(path, &(situ_checkpoint){ .model = m, .optimizer = o }, NULL));
  (void)train(m, o, k, 3);
  situ_checkpoint from = { .model = m, .optimizer = o };
  expect_ok(situ_checkpoint_load(path, &from, NULL));
  assert_int_equal(outside_of(m), 0);
  (void)train(m, o, k, 2);
  (void)train(twin, p, k, 3);
  (void)train(twin, p, k, 2);
  expect_same_bits(situ_nn_state_dict(m), situ_nn_state_dict(twin), k);
  expect_same_bits(situ_optim_state_dict(o), situ_optim_state_dict(p), k);
  close(fd);
  unlink(path);
  situ_optim_free(o);
  situ_optim_free(p);
  situ_nn_free(m);
  situ_nn_free(twin);
}

/* ---- a full disk ---- */

static int left; /* regions that there is space for */
static int full_disk(int fd, off_t at, off_t bytes) { return left-- > 0 ? posix_fallocate(fd, at, bytes) : ENOSPC; }

/* Each region of the file in turn finds no space: the move, backward or step is refused, and made again. */
static void a_full_disk_loses_nothing(void **state) {
  (void)state;
  const situ__calls real = situ__sys;
  const struct kind *k = &large_kind;
  situ_nn_module *m = offloaded(large()), *twin = situ_nn_clone(m);
  situ_optim *o = adamw(m), *p = adamw(twin);
  int refused = 0;
  situ__sys.allocate = full_disk;
  for (left = 0; situ_nn_to_scratch(m, new_path(), NULL) != SITU_OK; left = ++refused) {
    expect_error(SITU_E_IO, "nn_to_scratch", "no space for 1.0 MiB more, behind ");
    assert_false(situ_is_in_scratch(situ_nn_get_tensor(m, "0.weight")) || is_there());
  }
  assert_true(refused > 3);
  for (int i = 0; i < 3; i++) {
    situ_scope s;
    situ_scope_begin(&s);
    situ_tensor *x = input_of(k);
    for (int part = 0; part < 2; part++) { /* backward, and the step, which makes states */
      situ_optim *const of[] = { o, p };
      for (int who = 0; who < 2; who++) {
        situ_manual_seed((uint64_t)i);
        for (left = who ? 99 : 0;
             part ? situ_optim_step(of[who]) != SITU_OK : situ_backward(loss_of(who ? twin : m, k, x), NULL) != SITU_OK;
             left = 2) {
          expect_error(SITU_E_IO, part ? "beside" : "beside", "no space");
          refused++;
          if (!part) situ_manual_seed((uint64_t)i);
        }
      }
    }
    expect_ok(situ_optim_zero_grad(o, true));
    expect_ok(situ_optim_zero_grad(p, true));
    expect_ok(situ_scope_end(&s));
  }
  situ__sys = real;
  assert_int_equal(outside_of(m), 0);
  expect_same_bits(situ_optim_state_dict(o), situ_optim_state_dict(p), k);
  situ_optim_free(o);
  situ_optim_free(p);
  situ_nn_free(m);
  situ_nn_free(twin);
}

/* ---- back ---- */

/* placement: A18 */
static void a_module_comes_back_from_its_file(void **state) {
  (void)state;
  char path[] = "/tmp/situ-spill-XXXXXX";
  const int fd = mkstemp(path);
  for (int scratch = 0; scratch < 2; scratch++) {
    situ_device_properties host[2];
    situ_nn_module *m = offloaded(large()), *twin = situ_nn_clone(m);
    situ_tensor *w = situ_nn_get_tensor(m, "2.weight");
    situ_optim *o = adamw(m), *p = adamw(twin);
    expect_ok(scratch ? situ_nn_to_scratch(m, new_path(), NULL) : situ_nn_spill(m, path));
    (void)train(m, o, &large_kind, 1);
    (void)train(twin, p, &large_kind, 1);
    expect_ok(situ_device_info(situ_dev("cpu"), &host[0]));
    expect_ok(situ_nn_unspill(m));
    expect_ok(situ_device_info(situ_dev("cpu"), &host[1]));
    assert_true(host[1].memory_used - host[0].memory_used >= bytes_of(m));
    assert_int_equal(truncate(path, 0), 0); /* nothing reads it any more */
    assert_true(!situ_is_in_scratch(w) && situ_nn_get_tensor(m, "2.weight") == w);
    assert_true(situ_device_equal(situ_nn_offloaded_to(m), there()));
    (void)train(m, o, &large_kind, 1);
    (void)train(twin, p, &large_kind, 1);
    expect_same_bits(situ_nn_state_dict(m), situ_nn_state_dict(twin), &large_kind);
    expect_same_bits(situ_optim_state_dict(o), situ_optim_state_dict(p), &large_kind);
    expect_ok(situ_nn_unspill(m)); /* nothing to do */
    assert_int_equal(situ_place_moved(), 0);
    situ_optim_free(o);
    situ_optim_free(p);
    situ_nn_free(m);
    situ_nn_free(twin);
  }
  close(fd);
  unlink(path);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    PAIR_TEST(four_times_the_memory_of_host_and_device),
    PAIR_TEST(begins_and_ends),
    PAIR_TEST(a_checkpoint_between_steps),
    PAIR_TEST(a_full_disk_loses_nothing),
    PAIR_TEST(a_module_comes_back_from_its_file),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
