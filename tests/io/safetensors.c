/* Saving and loading safetensors files: round trips, mapping, and what cannot be saved.
   SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include "files.h"
#include "situ/ledger.h"

static void compare(const situ_tree *want, const char *file, const situ_load_options *options) {
  situ_tree *flat = situ_tree_flatten(want), *got = situ_load(file, options);
  if (!got) fail_msg("%s", situ_error_message());
  assert_int_equal(situ_tree_count(got), situ_tree_count(flat));
  for (int64_t i = 0; i < situ_tree_count(flat); i++) {
    situ_tensor *t = situ_tree_get(got, situ_tree_key(flat, i));
    assert_non_null(t);
    assert_same(situ_tree_tensor_at(flat, i), t);
    assert_string_equal(situ_name(t), situ_tree_key(flat, i));
  }
  situ_tree_free(got);
  situ_tree_free(flat);
}

static void round_trip(void **state) {
  (void)state;
  situ_tree *tree = sample();
  situ_replaced replaced = SITU_NOT_REPLACED;
  assert_int_equal(situ_save(path, tree, &(situ_save_options){ .replaced = &replaced }), SITU_OK);
  assert_int_equal(replaced, SITU_REPLACED);
  compare(tree, path, NULL);
  compare(tree, path, &(situ_load_options){ .map = true });
  compare(tree, path, &(situ_load_options){ .map = true, .verify = SITU_VERIFY_ALWAYS });
  compare(tree, path, &(situ_load_options){ .verify = SITU_VERIFY_NEVER });
  situ_tree_free(tree);
}

/* placement: H5 */
static void a_missing_device_is_explained(void **state) {
  (void)state;
  if (situ_cuda_is_available()) skip();
  situ_tree *tree = sample();
  assert_int_equal(situ_save(path, tree, NULL), SITU_OK);
  assert_null(situ_load(path, &(situ_load_options){ .device = situ_dev("cuda:0") }));
  assert_int_equal(situ_error(), SITU_E_UNSUPPORTED);
  assert_non_null(strstr(situ_error_message(), "cuda:0 is not there: "));
  assert_non_null(strstr(situ_error_message(), situ_device_status("cuda")));
  situ_error_clear();
  situ_tree_free(tree);
}

/* placement: H1 */
static void round_trip_on_a_device(void **state) {
  (void)state;
  situ_device sim = situ_dev("sim:0");
  if (!situ_device_is_available(sim)) skip();
  situ_tensor *t = counting(SITU_F32, SITU_SHAPE(7, 3)), *there = situ_to(t, sim);
  situ_tree *tree = situ_tree_put(situ_tree_dict(), "w", situ_tree_tensor(situ_transpose(there, 0, 1)));
  assert_int_equal(situ_save(path, tree, NULL), SITU_OK);
  situ_tree *got = situ_load(path, &(situ_load_options){ .device = sim });
  assert_non_null(got);
  assert_true(situ_device_equal(situ_device_of(situ_tree_get(got, "w")), sim));
  assert_same(situ_to(situ_tree_get(got, "w"), situ_dev("cpu")), situ_contiguous(situ_transpose(t, 0, 1)));
  situ_tree_free(got);
  got = situ_load(path, NULL); /* nothing in the file says where it came from */
  assert_same(situ_tree_get(got, "w"), situ_contiguous(situ_transpose(t, 0, 1)));
  situ_tree_free(got);
  situ_tree_free(tree);
}

/* More than lies on the host at a time: the parts follow each other, and the checksum is that of all. */
/* placement: H3 */
static void a_large_tensor_comes_in_parts(void **state) {
  (void)state;
  situ_device sim = situ_dev("sim:0");
  if (!situ_device_is_available(sim)) skip();
  situ_tensor *t = situ_arange(0, 3, 1.0 / 3000001, &(situ_options){ .dtype = SITU_F32 });
  situ_tensor *shaped = situ_view(situ_narrow(t, 0, 0, 9000000), SITU_SHAPE(3000, 3000));
  situ_tree *tree = situ_tree_put(situ_tree_dict(), "w", situ_tree_tensor(shaped));
  assert_int_equal(situ_save(path, tree, NULL), SITU_OK);
  situ_ledger l;
  situ_ledger_begin(&l);
  situ_tree *got = situ_load(path, &(situ_load_options){ .device = sim });
  assert_non_null(got);
  assert_int_equal(situ_ledger_total(&l).count, 3); /* 36 MB, 16 MiB at a time */
  assert_int_equal(situ_ledger_end(&l), SITU_OK);
  assert_true(situ_device_equal(situ_device_of(situ_tree_get(got, "w")), sim));
  assert_same(situ_to(situ_tree_get(got, "w"), situ_dev("cpu")), shaped);
  situ_tree_free(got);
  FILE *file = fopen(path, "r+b");
  assert_non_null(file);
  assert_int_equal(fseek(file, -1, SEEK_END), 0);
  assert_int_not_equal(fputc(0x55, file), EOF); /* in the last part */
  assert_int_equal(fclose(file), 0);
  assert_null(situ_load(path, &(situ_load_options){ .device = sim }));
  assert_int_equal(situ_error(), SITU_E_FORMAT);
  situ_error_clear();
  situ_tree_free(tree);
}

static void nothing_is_a_file_too(void **state) {
  (void)state;
  situ_tree *tree = situ_tree_dict();
  assert_int_equal(situ_save(path, tree, NULL), SITU_OK);
  compare(tree, path, NULL);
  situ_tree_free(tree);
}

static void metadata_travels(void **state) {
  (void)state;
  const situ_metadata remarks[] = { { "format", "situ" }, { "about", "caf\xC3\xA9 \"x\"\n" } };
  situ_tree *tree = sample();
  assert_int_equal(situ_save(path, tree, &(situ_save_options){ .metadata = remarks, .metadata_count = 2 }), SITU_OK);
  situ_safetensors *f = situ_safetensors_open(path, NULL);
  assert_non_null(f);
  assert_string_equal(situ_safetensors_metadata(f, "about"), "caf\xC3\xA9 \"x\"\n");
  situ_metadata first;
  assert_true(situ_safetensors_metadata_at(f, 0, &first));
  assert_string_equal(first.key, "about");
  assert_false(situ_safetensors_metadata_at(f, 3, &first));
  situ_safetensors_close(f);
  const situ_metadata bad[] = { { "a", "\xFF" } }, own[] = { { "situ.crc32c", "" } },
                      twice[] = { { "a", "" }, { "a", "" } };
  assert_int_equal(situ_save(path, tree, &(situ_save_options){ .metadata = bad, .metadata_count = 1 }), SITU_E_ARG);
  situ_error_clear();
  assert_int_equal(situ_save(path, tree, &(situ_save_options){ .metadata = own, .metadata_count = 1 }), SITU_E_ARG);
  situ_error_clear();
  assert_int_equal(situ_save(path, tree, &(situ_save_options){ .metadata = twice, .metadata_count = 2 }), SITU_E_ARG);
  situ_error_clear();
  situ_tree_free(tree);
}

static void entries_tell_where(void **state) {
  (void)state;
  situ_tree *tree = sample();
  assert_int_equal(situ_save(path, tree, NULL), SITU_OK);
  situ_safetensors *f = situ_safetensors_open(path, NULL);
  assert_int_equal(situ_safetensors_count(f), situ_tree_count(tree) - 1 + 3);
  for (int64_t i = 0; i < situ_safetensors_count(f); i++) {
    const situ_file_entry *e = situ_safetensors_entry(f, i);
    if (i > 0) assert_true(strcmp(situ_safetensors_entry(f, i - 1)->name, e->name) < 0);
    assert_int_equal(e->offset % (int64_t)situ_dtype_size(e->dtype), 0);
    assert_string_equal(e->file, "");
    assert_ptr_equal(situ_safetensors_find(f, e->name), e);
  }
  assert_null(situ_safetensors_entry(f, -1));
  assert_null(situ_safetensors_entry(f, 1000));
  assert_null(situ_safetensors_find(f, "none"));
  assert_int_equal(situ_error(), SITU_OK);
  assert_null(situ_safetensors_load(f, "none"));
  refused(SITU_E_ARG);
  assert_same(situ_safetensors_load(f, "f64"), situ_tree_get(tree, "f64"));
  situ_safetensors_close(f);
  situ_tree_free(tree);
}

/* A part reads its own bytes, so it may lie in a file that is damaged elsewhere; the whole is verified by itself. */
static void a_part_of_a_tensor(void **state) {
  (void)state;
  situ_tensor *whole = counting(SITU_F32, SITU_SHAPE(10, 100));
  situ_tree *tree = situ_tree_put(situ_tree_dict(), "w", situ_tree_tensor(whole));
  assert_int_equal(situ_save(path, tree, NULL), SITU_OK);
  for (int map = 0; map < 2; map++) {
    situ_safetensors *f = situ_safetensors_open(path, &(situ_load_options){ .map = map, .verify = SITU_VERIFY_ALWAYS });
    static const int64_t parts[][2] = { { 0, 1000 }, { 0, 1 }, { 117, 300 }, { 999, 1 }, { 1000, 0 } };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
      assert_same(situ_safetensors_load_part(f, "w", parts[i][0], parts[i][1]),
                  situ_narrow(situ_reshape(whole, SITU_SHAPE(1000)), 0, parts[i][0], parts[i][1]));
    assert_int_equal(situ_safetensors_verify(f, "w"), SITU_OK);
    assert_null(situ_safetensors_load_part(f, "w", 1, 1000));
    refused(SITU_E_ARG);
    assert_null(situ_safetensors_load_part(f, "none", 0, 1));
    refused(SITU_E_ARG);
    situ_safetensors_close(f);
  }
  FILE *file = fopen(path, "r+b");
  assert_true(file && fseek(file, -1, SEEK_END) == 0 && fputc(0x11, file) == 0x11 && fclose(file) == 0);
  situ_safetensors *f = situ_safetensors_open(path, NULL);
  assert_non_null(situ_safetensors_load_part(f, "w", 0, 999));
  assert_null(situ_safetensors_load_part(f, "w", 0, 1000));
  refused(SITU_E_FORMAT);
  assert_int_equal(situ_safetensors_verify(f, "w"), SITU_E_FORMAT);
  refused(SITU_E_FORMAT);
  situ_safetensors_close(f);
  situ_tree_free(tree);
}

/* The mapping lives as long as its tensors; what is written to them stays private. */
/* placement: A18 */
static void mapped_tensors_keep_the_mapping(void **state) {
  (void)state;
  situ_tree *tree = situ_tree_put(situ_tree_dict(), "w", situ_tree_tensor(counting(SITU_F32, SITU_SHAPE(1000))));
  assert_int_equal(situ_save(path, tree, NULL), SITU_OK);
  situ_safetensors *f = situ_safetensors_open(path, &(situ_load_options){ .map = true });
  situ_tensor *w = situ_safetensors_load(f, "w");
  situ_safetensors_close(f);
  assert_same(w, situ_tree_get(tree, "w"));
  assert_non_null(situ_fill_(w, 5));
  compare(tree, path, NULL);
  /* Saved over the file that it is mapped from. */
  situ_tree *mapped = situ_load(path, &(situ_load_options){ .map = true });
  assert_int_equal(situ_save(path, mapped, NULL), SITU_OK);
  situ_tree_free(mapped);
  compare(tree, path, NULL);
  situ_tree_free(tree);
}

static void keeps_permissions(void **state) {
  (void)state;
  situ_tree *tree = sample();
  struct stat about;
  unlink("mode.safetensors");
  mode_t old = umask(027);
  assert_int_equal(situ_save("mode.safetensors", tree, NULL), SITU_OK);
  umask(old);
  stat("mode.safetensors", &about);
  assert_int_equal(about.st_mode & 07777, 0640);
  chmod("mode.safetensors", 0604);
  assert_int_equal(situ_save("mode.safetensors", tree, NULL), SITU_OK);
  stat("mode.safetensors", &about);
  assert_int_equal(about.st_mode & 07777, 0604);
  situ_tree_free(tree);
}

static void refuses_targets(void **state) {
  (void)state;
  situ_tree *tree = sample();
  mkdir("a-directory", 0755);
  unlink("a-link");
  assert_int_equal(symlink("t.safetensors", "a-link"), 0);
  static const struct {
    const char *path;
    situ_status status;
  } bad[] = {
    { "a-directory", SITU_E_ARG },
    { "a-link", SITU_E_ARG },
    { "", SITU_E_ARG },
    { "a-directory/", SITU_E_ARG },
    { "no-such-directory/x", SITU_E_IO },
    { "/dev/null", SITU_E_ARG },
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    situ_replaced replaced = SITU_REPLACED;
    assert_int_equal(situ_save(bad[i].path, tree, &(situ_save_options){ .replaced = &replaced }), bad[i].status);
    assert_int_equal(replaced, SITU_NOT_REPLACED);
    situ_error_clear();
  }
  assert_int_equal(situ_save(NULL, tree, NULL), SITU_E_ARG);
  situ_error_clear();
  assert_int_equal(situ_save(path, NULL, NULL), SITU_E_ARG);
  situ_error_clear();
  situ_tree_free(tree);
}

static void refuses_tensors_without_values(void **state) {
  (void)state;
  const situ_options meta = { .device = { .kind = SITU_META } }, cpu = on_cpu(SITU_F32);
  situ_tree *tree = situ_tree_put(situ_tree_dict(), "m", situ_tree_tensor(situ_zeros(SITU_SHAPE(3), &meta)));
  assert_int_equal(situ_save("none.safetensors", tree, NULL), SITU_E_DEVICE);
  situ_error_clear();
  situ_tree_free(tree);
  tree = situ_tree_put(situ_tree_dict(), "e", situ_tree_tensor(situ_empty(SITU_SHAPE(3), &cpu)));
  assert_int_equal(situ_save("none.safetensors", tree, NULL), SITU_E_STATE);
  situ_error_clear();
  situ_tree_free(tree);
  assert_int_not_equal(access("none.safetensors", F_OK), 0);
  tree = situ_tree_put(situ_tree_dict(), "__metadata__", situ_tree_tensor(counting(SITU_F32, SITU_SHAPE(3))));
  assert_int_equal(situ_save("none.safetensors", tree, NULL), SITU_E_ARG);
  situ_error_clear();
  situ_tree_free(tree);
  tree = situ_tree_put(situ_tree_dict(), "\xFF", situ_tree_tensor(counting(SITU_F32, SITU_SHAPE(3))));
  assert_int_equal(situ_save("none.safetensors", tree, NULL), SITU_E_ARG);
  situ_error_clear();
  situ_tree_free(tree);
}

/* Row 93: whoever is last wins, and each of them saves a whole file. */
static void *save_often(void *value) {
  for (int i = 0; i < 20; i++) {
    situ_scope inner;
    situ_scope_begin(&inner);
    const situ_options options = on_cpu(SITU_F32);
    situ_tree *tree = situ_tree_dict();
    situ_tensor *w = situ_full(SITU_SHAPE(5000), *(const double *)value, &options);
    tree = situ_tree_put(tree, "w", situ_tree_tensor(w));
    situ_status status = situ_save("shared.safetensors", tree, NULL);
    situ_tree_free(tree);
    if (situ_scope_end(&inner) != SITU_OK || status != SITU_OK) return value;
  }
  return NULL;
}

static void several_savers_at_once(void **state) {
  (void)state;
  static double values[4] = { 1, 2, 3, 4 };
  pthread_t threads[4];
  for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, save_often, &values[i]), 0);
  for (int i = 0; i < 4; i++) {
    void *failed;
    assert_int_equal(pthread_join(threads[i], &failed), 0);
    assert_null(failed);
  }
  static float w[5000];
  situ_tree *tree = situ_load("shared.safetensors", NULL);
  assert_non_null(tree);
  assert_int_equal(situ_copy_to_host(situ_tree_get(tree, "w"), w, sizeof w), SITU_OK);
  situ_tree_free(tree);
  assert_true(w[0] >= 1 && w[0] <= 4);
  for (int i = 0; i < 5000; i++) assert_true(w[i] == w[0]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, open_scope, close_scope)
    T(round_trip),
    T(a_missing_device_is_explained),
    T(round_trip_on_a_device),
    T(a_large_tensor_comes_in_parts),
    T(nothing_is_a_file_too),
    T(metadata_travels),
    T(entries_tell_where),
    T(a_part_of_a_tensor),
    T(mapped_tensors_keep_the_mapping),
    T(keeps_permissions),
    T(refuses_targets),
    T(refuses_tensors_without_values),
    T(several_savers_at_once),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
