/* Lock files: what is written is what is read, every difference is listed, and no file, however
   damaged, is believed or does harm.
   SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "place/draw_model.h"

static char text[1 << 16];

static size_t slurp(const char *path) {
  FILE *f = fopen(path, "rb");
  assert_non_null(f);
  size_t length = fread(text, 1, sizeof text - 1, f);
  fclose(f);
  text[length] = 0;
  return length;
}

static void spill(const char *path, const char *data, size_t length) {
  FILE *f = fopen(path, "wb");
  assert_non_null(f);
  assert_int_equal(fwrite(data, 1, length, f), length);
  fclose(f);
}

/* placement: H7 */
static void a_lock_holds(void **state) {
  (void)state;
  situ_nn_module *m = draw_model();
  must(situ_place_lock_write(m, "m.lock"));
  must(situ_place_lock_check(m, "m.lock"));
  slurp("m.lock");
  assert_int_equal(strncmp(text, "situ-lock 2\n0.weight parameter f32 [64,8] cpu - default\n", 55), 0);
  assert_non_null(strstr(text, "\n2.num_batches_tracked buffer i64 [] cpu - default\n3.weight parameter "
                               "f32 [64,8] cpu =0.weight default\n"));
  situ_nn_free(m);
}

/* placement: H7 */
static void every_difference_is_listed(void **state) {
  (void)state;
  situ_nn_module *m = draw_model();
  must(situ_place_lock_write(m, "m.lock"));
  must(situ_nn_to(situ_nn_get_submodule(m, "1.3"), situ_dev("cpu")));
  assert_int_equal(situ_place_lock_check(m, "m.lock"), SITU_E_STATE);
  const char *says = situ_error_message(), *next = says;
  for (int i = 0; i < 4; i++) { /* each on a line of its own, in order */
    static const char *const differs[] = {
      "4 tensors are not as m.lock says:\n1.3.0.bias: sim:1 -> cpu (moved by nn_to",
      "\n1.3.0.weight: sim:1 -> cpu (moved by nn_to", "\n1.3.2.bias: sim:1 -> cpu (moved by nn_to",
      "\n1.3.2.weight: sim:1 -> cpu (moved by nn_to"
    };
    if (!(next = strstr(next, differs[i]))) fail_msg("no %s in %s", differs[i], says);
  }
  expect_error(SITU_E_STATE, "place_lock_check", "");
  /* More than a message can hold: the number of the rest. */
  situ_nn_module *many = situ_nn_module_list(situ_nn_relu());
  char name[16];
  must(situ_place_lock_write(many, "many.lock"));
  for (int i = 0; i < 50; i++) {
    snprintf(name, sizeof name, "t%02d", i);
    situ_nn_add_tensor(many, name, NULL, situ_zeros(SITU_SHAPE(2), NULL), SITU_NN_BUFFER);
  }
  assert_int_equal(situ_place_lock_check(many, "many.lock"), SITU_E_STATE);
  expect_error(SITU_E_STATE, "place_lock_check", "t29: added (cpu f32 [2] buffer)\nand 20 more");
  situ_nn_free(many);
  situ_nn_free(m);
}

/* placement: J4 */
static void reasons_are_shown_and_not_compared(void **state) {
  (void)state;
  situ_nn_module *m =
      situ_nn_module_list(situ_nn_linear(2, 3, NULL), situ_nn_linear(2, 3, NULL),
                          situ_nn_linear(2, 3, &(situ_nn_linear_options){ .device = situ_dev("sim:0") }));
  must(situ_sim_create(2));
  must(situ_place_lock_write(m, "then.lock"));
  slurp("then.lock");
  assert_non_null(strstr(text, "0.weight parameter f32 [3,2] cpu - default\n"));
  assert_non_null(strstr(text, "2.weight parameter f32 [3,2] sim:0 - made\n"));
  must(situ_nn_to(situ_nn_get_submodule(m, "0"), situ_dev("sim:1")));
  must(situ_nn_to_map(m, "1=sim:0"));
  must(situ_place_lock_write(m, "now.lock"));
  slurp("now.lock");
  assert_non_null(strstr(text, "0.weight parameter f32 [3,2] sim:1 - moved\n"));
  assert_non_null(strstr(text, "1.bias parameter f32 [3] sim:0 - mapped\n"));
  assert_true(situ_place_json(m, text, sizeof text) > 0);
  assert_non_null(strstr(text, "\"reason\": \"mapped\", \"by\": \"nn_to_map\""));
  assert_true(!test_has_lines() || strstr(text, ", \"at\": \"draw_lock.c:"));
  assert_true(situ_place_to_string(m, &(situ_place_print_options){ .reasons = true }, text, sizeof text) > 0);
  assert_non_null(strstr(text, "parameter  moved by nn_to"));
  assert_true(situ_place_to_string(m, NULL, text, sizeof text) > 0);
  assert_null(strstr(text, "moved"));
  must(situ_place_svg(m, "m.svg", NULL));
  slurp("m.svg");
  assert_non_null(strstr(text, "\nmapped by nn_to_map"));
  /* Everything goes back, for other reasons; and a lock that was written without reasons still holds. */
  must(situ_nn_to_map(m, "0=cpu, 1=cpu"));
  must(situ_place_lock_check(m, "then.lock"));
  static const char old[] = "situ-lock 1\n"
                            "0.weight parameter f32 [3,2] cpu -\n0.bias parameter f32 [3] cpu -\n"
                            "1.weight parameter f32 [3,2] cpu -\n1.bias parameter f32 [3] cpu -\n"
                            "2.weight parameter f32 [3,2] sim:0 -\n2.bias parameter f32 [3] sim:0 -\n";
  spill("old.lock", old, sizeof old - 1);
  must(situ_place_lock_check(m, "old.lock"));
  situ_nn_free(m);
}

static void names_survive(void **state) {
  (void)state;
  situ_nn_module *m = situ_nn_module_list(situ_nn_relu());
  situ_nn_add_tensor(m, "a b%\n=\"\x7f", NULL, situ_zeros(SITU_SHAPE(0, 3), NULL), SITU_NN_TRANSIENT);
  must(situ_place_lock_write(m, "names.lock"));
  slurp("names.lock");
  assert_string_equal(text, "situ-lock 2\na%20b%25%0A=\"%7F transient f32 [0,3] cpu - default\n");
  must(situ_place_lock_check(m, "names.lock"));
  situ_nn_free(m);
}

static void bad_files_are_refused(void **state) {
  (void)state;
  static const struct {
    const char *text, *says;
  } bad[] = {
    { "", "not a lock file" },
    { "situ-lock 3\n", "not a lock file" },
    { "situ-lock 1\na parameter f32 [1] cpu -", "bad.lock:2: it does not end" },
    { "situ-lock 1\n\n", "bad.lock:2: not a valid line" },
    { "situ-lock 1\na parameter f32 [1] cpu\n", "bad.lock:2: not a valid line" },
    { "situ-lock 1\na parameter f32 [1] cpu - \n", "not a valid line" },
    { "situ-lock 1\na parameter f32 [1] cpu =\n", "not a valid tie" },
    { "situ-lock 1\na parameter f32 [1] cpu - [0:1] \n", "not a valid line" },
    { "situ-lock 1\na parameter f32 [1] cpu - 0:1\n", "not a valid line" },
    { "situ-lock 2\na parameter f32 [1] cpu - moved [0:1]\n", "not a valid line" },
    { "situ-lock 2\na parameter f32 [1] cpu - moven\n", "not a valid line" },
    { "situ-lock 1\na parameter f32 [1] cpu - []\n", "bad.lock: 'a' has a part that is not as" },
    { "situ-lock 1\na parameter f32 [1] cpu - [0:b]\n", "bad.lock: 'a' has a part that is not as" },
    { "situ-lock 1\n parameter f32 [1] cpu -\n", "not a valid path" },
    { "situ-lock 1\na%2 parameter f32 [1] cpu -\n", "not a valid path" },
    { "situ-lock 1\na%00 parameter f32 [1] cpu -\n", "not a valid path" },
    { "situ-lock 1\na%zz parameter f32 [1] cpu -\n", "not a valid path" },
    { "situ-lock 1\na module f32 [1] cpu -\n", "not a valid role" },
    { "situ-lock 1\na parameter f33 [1] cpu -\n", "not a valid dtype" },
    { "situ-lock 1\na parameter f32 [1 cpu -\n", "not a valid shape" },
    { "situ-lock 1\na parameter f32 [-1] cpu -\n", "not a valid shape" },
    { "situ-lock 1\na parameter f32 [1,] cpu -\n", "not a valid shape" },
    { "situ-lock 1\na parameter f32 [1]] cpu -\n", "not a valid shape" },
    { "situ-lock 1\na parameter f32 [1,1,1,1,1,1,1,1,1] cpu -\n", "not a valid shape" },
    { "situ-lock 1\na parameter f32 [9999999999999999999] cpu -\n", "not a valid shape" },
    { "situ-lock 1\na parameter f32 [1] gpu -\n", "not a valid device" },
    { "situ-lock 1\na parameter f32 [1] cpu -\na buffer f32 [1] cpu -\n", "bad.lock: 'a' is there twice" },
    { "situ-lock 1\na parameter f32 [1] cpu =b\n", "bad.lock: 'a' is tied to" },
  };
  situ_nn_module *m = situ_nn_linear(2, 2, NULL);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    spill("bad.lock", bad[i].text, strlen(bad[i].text));
    if (situ_place_lock_check(m, "bad.lock") != SITU_E_FORMAT) fail_msg("%s was read", bad[i].text);
    expect_error(SITU_E_FORMAT, "place_lock_check", bad[i].says);
  }
  spill("bad.lock", "situ-lock 1\n\0", 13);
  assert_int_equal(situ_place_lock_check(m, "bad.lock"), SITU_E_FORMAT);
  expect_error(SITU_E_FORMAT, "place_lock_check", "not a lock file");
  assert_int_equal(situ_place_lock_check(m, "no-such.lock"), SITU_E_IO);
  expect_error(SITU_E_IO, "place_lock_check", "no-such.lock");
  assert_int_equal(situ_place_lock_check(m, "."), SITU_E_IO);
  expect_error(SITU_E_IO, "place_lock_check", "directory");
  assert_int_equal(situ_place_lock_check(NULL, "m.lock"), SITU_E_ARG);
  expect_error(SITU_E_ARG, "place_lock_check", "`module` is NULL");
  situ_nn_free(m);
}

/* A change of any byte to any of some others is refused or is a difference, never overlooked. */
static void no_damage_is_overlooked(void **state) {
  (void)state;
  situ_nn_module *m = situ_nn_module_list(situ_nn_linear(2, 3, NULL), situ_nn_batch_norm1d(3, NULL));
  must(situ_place_lock_write(m, "good.lock"));
  size_t length = slurp("good.lock");
  char *damaged = malloc(length);
  static const char others[] = "\0 \n%0a=[],\xff-";
  int changes = 0;
  for (size_t at = 0; at < length; at++)
    for (size_t k = 0; k < sizeof others - 1; k++) {
      memcpy(damaged, text, length);
      if (damaged[at] == others[k]) continue;
      damaged[at] = others[k];
      spill("damaged.lock", damaged, length);
      situ_status status = situ_place_lock_check(m, "damaged.lock");
      if (status != SITU_E_FORMAT && status != SITU_E_STATE) fail_msg("byte %zu as %02x: %d", at, others[k], status);
      situ_error_clear();
      changes++;
    }
  assert_true(changes > 1000);
  for (size_t cut = 0; cut < length; cut++) {
    spill("damaged.lock", text, cut);
    assert_int_not_equal(situ_place_lock_check(m, "damaged.lock"), SITU_OK);
    situ_error_clear();
  }
  free(damaged);
  situ_nn_free(m);
}

static void every_allocation_may_fail(void **state) {
  (void)state;
  situ_nn_module *m = draw_model();
  must(situ_place_lock_write(m, "m.lock"));
  size_t length = slurp("m.lock");
  char *old = malloc(length);
  memcpy(old, text, length);
  uint64_t nth = 1;
  for (;; nth++) {
    situ_fail_allocation(nth, false);
    situ_status status = situ_place_lock_write(m, "m.lock");
    if (status == SITU_OK) status = situ_place_lock_check(m, "m.lock");
    situ_fail_allocation(0, false);
    if (status == SITU_OK) break;
    expect_error(SITU_E_NOMEM, "", "");
    assert_int_equal(slurp("m.lock"), length);
    assert_memory_equal(text, old, length);
  }
  assert_true(nth > 10);
  free(old);
  situ_nn_free(m);
}

/* A lock that cannot be written leaves the old one. */
static int no_rename(int from_dir, const char *from, int to_dir, const char *to) {
  (void)from_dir, (void)from, (void)to_dir, (void)to;
  return -1;
}

static void a_failed_write_leaves_the_old_file(void **state) {
  (void)state;
  situ_nn_module *m = draw_model();
  spill("old.lock", "old", 3);
  situ__calls calls = situ__sys;
  situ__sys.renameat = no_rename;
  assert_int_equal(situ_place_lock_write(m, "old.lock"), SITU_E_IO);
  situ__sys = calls;
  expect_error(SITU_E_IO, "place_lock_write", "old.lock");
  slurp("old.lock");
  assert_string_equal(text, "old");
  assert_int_equal(situ_place_lock_write(m, "no/such/dir.lock"), SITU_E_IO);
  expect_error(SITU_E_IO, "place_lock_write", "no/such/dir.lock");
  situ_nn_free(m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    DRAW_TEST(a_lock_holds),
    DRAW_TEST(every_difference_is_listed),
    DRAW_TEST(reasons_are_shown_and_not_compared),
    DRAW_TEST(names_survive),
    DRAW_TEST(bad_files_are_refused),
    DRAW_TEST(no_damage_is_overlooked),
    DRAW_TEST(every_allocation_may_fail),
    DRAW_TEST(a_failed_write_leaves_the_old_file),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
