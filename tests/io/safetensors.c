/* Saving and loading safetensors files: round trips, shards, mapping, damage, and what is no file.
   SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "situ/io.h"
#include "situ/ops.h"
#include "situ/sys/alloc.h"

static situ_scope scope;
static int64_t live_before;

static int open_scope(void **state) {
  (void)state;
  situ_error_mode(SITU_ERROR_QUIET);
  situ_error_clear();
  live_before = situ_live_tensors();
  situ_scope_begin(&scope);
  return 0;
}

static int close_scope(void **state) {
  (void)state;
  SITU_IGNORE(situ_scope_end(&scope));
  situ_error_clear();
  return situ_live_tensors() == live_before ? 0 : 1;
}

static const char path[] = "t.safetensors";

static situ_options on_cpu(situ_dtype dtype) {
  return (situ_options){ .dtype = dtype, .device = { .kind = SITU_CPU } };
}

static situ_tensor *counting(situ_dtype dtype, situ_shape shape) {
  situ_options options = on_cpu(dtype);
  int64_t count = 1;
  for (int i = 0; i < shape.ndim; i++) count *= shape.dim[i];
  unsigned char *bytes = malloc((size_t)count * 8 + 1);
  for (int64_t i = 0; i < count * 8; i++)
    bytes[i] = (unsigned char)(dtype == SITU_BOOL ? i % 2 : i * 37 + 11);
  situ_tensor *t = situ_from_host(bytes, (size_t)count * situ_dtype_size(dtype), shape, &options);
  free(bytes);
  assert_non_null(t);
  return t;
}

static void assert_same(situ_tensor *a, situ_tensor *b) {
  situ_shape x = situ_shape_of(a), y = situ_shape_of(b);
  assert_int_equal(situ_dtype_of(a), situ_dtype_of(b));
  assert_int_equal(x.ndim, y.ndim);
  for (int i = 0; i < x.ndim; i++) assert_int_equal(x.dim[i], y.dim[i]);
  size_t bytes = (size_t)situ_numel(a) * situ_dtype_size(situ_dtype_of(a));
  void *u = malloc(bytes + 1), *v = malloc(bytes + 1);
  assert_int_equal(situ_copy_to_host(a, u, bytes), SITU_OK);
  assert_int_equal(situ_copy_to_host(b, v, bytes), SITU_OK);
  assert_memory_equal(u, v, bytes);
  free(u);
  free(v);
}

static void refused(situ_status status) {
  if (situ_error() != status)
    fail_msg("%s: %s", situ_status_name(situ_error()), situ_error_message());
  situ_error_clear();
}

static void write_bytes(const char *name, const void *data, size_t bytes) {
  FILE *f = fopen(name, "wb");
  assert_non_null(f);
  assert_int_equal(fwrite(data, 1, bytes, f), bytes);
  fclose(f);
}

static char *read_bytes(const char *name, size_t *bytes) {
  FILE *f = fopen(name, "rb");
  assert_non_null(f);
  fseek(f, 0, SEEK_END);
  *bytes = (size_t)ftell(f);
  rewind(f);
  char *data = malloc(*bytes + 1);
  assert_int_equal(fread(data, 1, *bytes, f), *bytes);
  fclose(f);
  return data;
}

/* All dtypes, a 0-dim, an empty and a transposed tensor, nested names. */
static situ_tree *sample(void) {
  situ_tree *tree = situ_tree_dict();
  for (int d = SITU_BOOL; d < SITU_DTYPES; d++)
    tree = situ_tree_put(tree, situ_dtype_name((situ_dtype)d),
                         situ_tree_tensor(counting((situ_dtype)d, SITU_SHAPE(3, 5))));
  situ_tree *inner = situ_tree_dict();
  inner = situ_tree_put(inner, "scalar", situ_tree_tensor(counting(SITU_F32, SITU_SCALAR)));
  inner = situ_tree_put(inner, "empty", situ_tree_tensor(counting(SITU_F64, SITU_SHAPE(4, 0))));
  inner =
      situ_tree_put(inner, "turned",
                    situ_tree_tensor(situ_transpose(counting(SITU_I32, SITU_SHAPE(4, 6)), 0, 1)));
  tree = situ_tree_put(tree, "inner", inner);
  assert_non_null(tree);
  return tree;
}

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

static void round_trip_on_a_device(void **state) {
  (void)state;
  situ_device sim = situ_dev("sim:0");
  if (!situ_device_is_available(sim)) skip();
  situ_tensor *t = counting(SITU_F32, SITU_SHAPE(7, 3)), *there = situ_to(t, sim);
  situ_tree *tree =
      situ_tree_put(situ_tree_dict(), "w", situ_tree_tensor(situ_transpose(there, 0, 1)));
  assert_int_equal(situ_save(path, tree, NULL), SITU_OK);
  situ_tree *got = situ_load(path, &(situ_load_options){ .device = sim });
  assert_non_null(got);
  assert_true(situ_device_equal(situ_device_of(situ_tree_get(got, "w")), sim));
  assert_same(situ_to(situ_tree_get(got, "w"), situ_dev("cpu")),
              situ_contiguous(situ_transpose(t, 0, 1)));
  situ_tree_free(got);
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
  assert_int_equal(
      situ_save(path, tree, &(situ_save_options){ .metadata = remarks, .metadata_count = 2 }),
      SITU_OK);
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
  assert_int_equal(
      situ_save(path, tree, &(situ_save_options){ .metadata = bad, .metadata_count = 1 }),
      SITU_E_ARG);
  situ_error_clear();
  assert_int_equal(
      situ_save(path, tree, &(situ_save_options){ .metadata = own, .metadata_count = 1 }),
      SITU_E_ARG);
  situ_error_clear();
  assert_int_equal(
      situ_save(path, tree, &(situ_save_options){ .metadata = twice, .metadata_count = 2 }),
      SITU_E_ARG);
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

/* The mapping lives as long as its tensors; what is written to them stays private. */
static void mapped_tensors_keep_the_mapping(void **state) {
  (void)state;
  situ_tree *tree =
      situ_tree_put(situ_tree_dict(), "w", situ_tree_tensor(counting(SITU_F32, SITU_SHAPE(1000))));
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
    assert_int_equal(situ_save(bad[i].path, tree, &(situ_save_options){ .replaced = &replaced }),
                     bad[i].status);
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
  situ_tree *tree =
      situ_tree_put(situ_tree_dict(), "m", situ_tree_tensor(situ_zeros(SITU_SHAPE(3), &meta)));
  assert_int_equal(situ_save("none.safetensors", tree, NULL), SITU_E_DEVICE);
  situ_error_clear();
  situ_tree_free(tree);
  tree = situ_tree_put(situ_tree_dict(), "e", situ_tree_tensor(situ_empty(SITU_SHAPE(3), &cpu)));
  assert_int_equal(situ_save("none.safetensors", tree, NULL), SITU_E_STATE);
  situ_error_clear();
  situ_tree_free(tree);
  assert_int_not_equal(access("none.safetensors", F_OK), 0);
  tree = situ_tree_put(situ_tree_dict(), "__metadata__",
                       situ_tree_tensor(counting(SITU_F32, SITU_SHAPE(3))));
  assert_int_equal(situ_save("none.safetensors", tree, NULL), SITU_E_ARG);
  situ_error_clear();
  situ_tree_free(tree);
  tree =
      situ_tree_put(situ_tree_dict(), "\xFF", situ_tree_tensor(counting(SITU_F32, SITU_SHAPE(3))));
  assert_int_equal(situ_save("none.safetensors", tree, NULL), SITU_E_ARG);
  situ_error_clear();
  situ_tree_free(tree);
}

/* Row 71: what is no file must not hang, nor be read without end. */
static void refuses_what_is_no_file(void **state) {
  (void)state;
  unlink("a-fifo");
  assert_int_equal(mkfifo("a-fifo", 0600), 0);
  mkdir("a-directory", 0755);
  static const char *const no_files[] = { "a-fifo", "a-directory", "/dev/zero", "no-such-file",
                                          "" };
  for (size_t i = 0; i < sizeof no_files / sizeof *no_files; i++) {
    assert_null(situ_load(no_files[i], NULL));
    refused(SITU_E_IO);
    assert_null(situ_npy_load(no_files[i], NULL));
    refused(SITU_E_IO);
  }
  assert_null(situ_load(NULL, NULL));
  refused(SITU_E_ARG);
  write_bytes("bad", "", 0);
  assert_null(situ_load("bad", NULL));
  refused(SITU_E_FORMAT);
  write_bytes("bad", "1234567", 7);
  assert_null(situ_load("bad", NULL));
  refused(SITU_E_FORMAT);
}

/* Row 72: the length is believed only if it fits. */
static void refuses_header_lengths(void **state) {
  (void)state;
  static const uint64_t lengths[] = {
    3, 100, 100000001, (uint64_t)1 << 40, UINT64_MAX, UINT64_MAX - 7, INT64_MAX
  };
  unsigned char bytes[10] = { 0, 0, 0, 0, 0, 0, 0, 0, '{', '}' };
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
    for (int k = 0; k < 8; k++) bytes[k] = (unsigned char)(lengths[i] >> (8 * k));
    write_bytes("bad", bytes, sizeof bytes);
    situ_fail_allocation(0, false);
    assert_null(situ_load("bad", NULL));
    assert_true(situ_allocation_count() < 10);
    refused(SITU_E_FORMAT);
  }
  bytes[0] = 2;
  for (int k = 1; k < 8; k++) bytes[k] = 0;
  write_bytes("bad", bytes, sizeof bytes);
  situ_tree *empty = situ_load("bad", NULL);
  assert_non_null(empty);
  situ_tree_free(empty);
}

/* Every bit of the header, and one of each byte of the data. */
static void finds_every_flipped_bit(void **state) {
  (void)state;
  situ_tree *tree = situ_tree_put(situ_tree_dict(), "weight",
                                  situ_tree_tensor(counting(SITU_F32, SITU_SHAPE(2, 3))));
  tree = situ_tree_put(tree, "b", situ_tree_tensor(counting(SITU_I64, SITU_SHAPE(3))));
  const situ_metadata remark = { "note", "kept" };
  assert_int_equal(
      situ_save(path, tree, &(situ_save_options){ .metadata = &remark, .metadata_count = 1 }),
      SITU_OK);
  size_t bytes, missed = 0, flips = 0;
  char *data = read_bytes(path, &bytes);
  write_bytes("bad", data, bytes);
  int fd = open("bad", O_WRONLY);
  for (size_t i = 0; i < bytes; i++)
    for (int bit = 0; bit < 8; bit++, flips++) {
      char flipped = data[i] ^ (char)(1 << bit);
      assert_int_equal(pwrite(fd, &flipped, 1, (off_t)i), 1);
      situ_tree *got = situ_load("bad", NULL);
      if (got) missed++;
      situ_tree_free(got);
      situ_error_clear();
      assert_int_equal(pwrite(fd, &data[i], 1, (off_t)i), 1);
    }
  close(fd);
  print_message("%zu of %zu flipped bits went unseen\n", missed, flips);
  /* The key of the checksums, 11 bytes: with another key it is a file without checksums. Nothing
     else. */
  assert_true(missed <= 11 * 8);
  free(data);
  situ_tree_free(tree);
}

static void refuses_every_truncation(void **state) {
  (void)state;
  situ_tree *tree = sample();
  assert_int_equal(situ_save(path, tree, NULL), SITU_OK);
  situ_tree_free(tree);
  size_t bytes;
  char *data = read_bytes(path, &bytes);
  write_bytes("bad", data, bytes);
  for (size_t length = bytes; length-- > 0;) {
    assert_int_equal(truncate("bad", (off_t)length), 0);
    assert_null(situ_load("bad", NULL));
    refused(SITU_E_FORMAT);
  }
  data[bytes] = 0;
  write_bytes("bad", data, bytes + 1);
  assert_null(situ_load("bad", NULL));
  refused(SITU_E_FORMAT);
  situ_tree *got = situ_load("bad", &(situ_load_options){ .lenient = true });
  assert_non_null(got);
  situ_tree_free(got);
  free(data);
}

/* Row 82: the file shrinks after it was opened. */
static void a_file_that_shrinks_is_an_error(void **state) {
  (void)state;
  situ_tree *tree =
      situ_tree_put(situ_tree_dict(), "w", situ_tree_tensor(counting(SITU_F32, SITU_SHAPE(1000))));
  assert_int_equal(situ_save("shrinks.safetensors", tree, NULL), SITU_OK);
  situ_safetensors *f = situ_safetensors_open("shrinks.safetensors", NULL);
  assert_int_equal(truncate("shrinks.safetensors", 1000), 0);
  assert_null(situ_safetensors_load(f, "w"));
  refused(SITU_E_IO);
  situ_safetensors_close(f);
  situ_tree_free(tree);
}

/* A file of another program's: no checksums, a bool that is none, a dtype that we lack, an odd
   offset. */
static void reads_files_of_others(void **state) {
  (void)state;
  static const char header[] = "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
                               "\"b\":{\"dtype\":\"BOOL\",\"shape\":[2],\"data_offsets\":[1,3]},"
                               "\"c\":{\"dtype\":\"F8_E4M3\",\"shape\":[1],\"data_offsets\":[3,4]},"
                               "\"d\":{\"dtype\":\"I16\",\"shape\":[2],\"data_offsets\":[4,8]},"
                               "\"e\":{\"dtype\":\"I32\",\"shape\":[1],\"data_offsets\":[8,12]}}";
  unsigned char file[8 + sizeof header - 1 + 12] = { (sizeof header - 1) & 255,
                                                     (sizeof header - 1) >> 8 };
  memcpy(file + 8, header, sizeof header - 1);
  unsigned char *data = file + 8 + sizeof header - 1;
  data[0] = 200;
  data[1] = 1;
  data[2] = 2;
  data[4] = 0x34;
  data[5] = 0x12;
  data[8] = 7;
  write_bytes("other", file, sizeof file);
  for (int map = 0; map < 2; map++) {
    situ_safetensors *f = situ_safetensors_open("other", &(situ_load_options){ .map = map });
    assert_non_null(f);
    int64_t value;
    assert_int_equal(situ_item_i64(situ_safetensors_load(f, "a"), &value), SITU_OK);
    assert_int_equal(value, 200);
    assert_null(situ_safetensors_load(f, "b"));
    refused(SITU_E_FORMAT);
    assert_null(situ_safetensors_load(f, "c"));
    refused(SITU_E_UNSUPPORTED);
    assert_string_equal(situ_safetensors_find(f, "c")->type, "F8_E4M3");
    assert_int_equal(situ_item_i64(situ_select(situ_safetensors_load(f, "d"), 0, 0), &value),
                     SITU_OK);
    assert_int_equal(value, 0x1234);
    assert_int_equal(situ_item_i64(situ_safetensors_load(f, "e"), &value), SITU_OK);
    assert_int_equal(value, 7);
    situ_safetensors_close(f);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, open_scope, close_scope)
    T(round_trip),
    T(round_trip_on_a_device),
    T(nothing_is_a_file_too),
    T(metadata_travels),
    T(entries_tell_where),
    T(mapped_tensors_keep_the_mapping),
    T(keeps_permissions),
    T(refuses_targets),
    T(refuses_tensors_without_values),
    T(refuses_what_is_no_file),
    T(refuses_header_lengths),
    T(finds_every_flipped_bit),
    T(refuses_every_truncation),
    T(a_file_that_shrinks_is_an_error),
    T(reads_files_of_others),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
