/* Rows 71 to 82 of the catalogue of bad inputs, as files: cut off, damaged, or no files at all.
   SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "files.h"
#include "situ/sys/alloc.h"

/* Row 71: what is no file must not hang, nor be read without end. */
static void refuses_what_is_no_file(void **state) {
  (void)state;
  unlink("a-fifo");
  assert_int_equal(mkfifo("a-fifo", 0600), 0);
  mkdir("a-directory", 0755);
  static const char *const no_files[] = { "a-fifo", "a-directory", "/dev/zero", "no-such-file", "" };
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

static void refuses_indexes_that_say_twice(void **state) {
  (void)state;
  static const char tensor[] =
      "{\"weight_map\": {\"w\": \"a.safetensors\", \"v\": \"a.safetensors\", \"w\": \"a.safetensors\"}}";
  write_bytes("bad.index.json", tensor, sizeof tensor - 1);
  assert_null(situ_load("bad.index.json", NULL));
  assert_non_null(strstr(situ_error_message(), "has 'w' twice"));
  refused(SITU_E_FORMAT);
  static const char map[] = "{\"weight_map\": {}, \"weight_map\": {}}";
  write_bytes("bad.index.json", map, sizeof map - 1);
  assert_null(situ_load("bad.index.json", NULL));
  assert_non_null(strstr(situ_error_message(), "has two maps of weights"));
  refused(SITU_E_FORMAT);
}

/* Row 72: the length is believed only if it fits. */
static void refuses_header_lengths(void **state) {
  (void)state;
  static const uint64_t lengths[] = { 3, 100, 100000001, (uint64_t)1 << 40, UINT64_MAX, UINT64_MAX - 7, INT64_MAX };
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
  bytes[8] = '[', bytes[9] = ']';
  write_bytes("bad", bytes, sizeof bytes);
  assert_null(situ_load("bad", NULL));
  assert_non_null(strstr(situ_error_message(), "has a header that is not an object of tensors"));
  refused(SITU_E_FORMAT);
}

/* Every bit of the header, and one of each byte of the data. */
static void finds_every_flipped_bit(void **state) {
  (void)state;
  situ_tree *tree = situ_tree_put(situ_tree_dict(), "weight", situ_tree_tensor(counting(SITU_F32, SITU_SHAPE(2, 3))));
  tree = situ_tree_put(tree, "b", situ_tree_tensor(counting(SITU_I64, SITU_SHAPE(3))));
  const situ_metadata remark = { "note", "kept" };
  assert_int_equal(situ_save(path, tree, &(situ_save_options){ .metadata = &remark, .metadata_count = 1 }), SITU_OK);
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
  situ_tree *tree = situ_tree_put(situ_tree_dict(), "w", situ_tree_tensor(counting(SITU_F32, SITU_SHAPE(1000))));
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
  unsigned char file[8 + sizeof header - 1 + 12] = { (sizeof header - 1) & 255, (sizeof header - 1) >> 8 };
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
    assert_int_equal(situ_item_i64(situ_select(situ_safetensors_load(f, "d"), 0, 0), &value), SITU_OK);
    assert_int_equal(value, 0x1234);
    assert_int_equal(situ_item_i64(situ_safetensors_load(f, "e"), &value), SITU_OK);
    assert_int_equal(value, 7);
    situ_safetensors_close(f);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, open_scope, close_scope)
    T(refuses_what_is_no_file), T(refuses_indexes_that_say_twice), T(refuses_header_lengths),
    T(finds_every_flipped_bit), T(refuses_every_truncation),       T(a_file_that_shrinks_is_an_error),
    T(reads_files_of_others),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
