/* GGUF files: those of llama.cpp's gguf package, read and mapped; files that are damaged, or made to harm.
   SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <unistd.h>

#include "files.h"
#include "situ/gguf.h"
#include "situ/sys/alloc.h"

static const char *case_file(const char *name) {
  static char file[1024];
  const char *root = getenv("SITU_TEST_ROOT");
  snprintf(file, sizeof file, "%s/io/gguf/%s", root ? root : ".", name);
  return file;
}

/* ---- files of the package ---- */

static void reads_metadata(void **state) {
  (void)state;
  static const struct {
    const char *key;
    int64_t value;
  } whole[] = { { "test.u8", 255 },     { "test.i8", -128 },        { "test.u16", 65535 },
                { "test.i16", -32768 }, { "test.i32", INT32_MIN },  { "test.i64", INT64_MIN },
                { "test.yes", 1 },      { "llama.block_count", 1 }, { "llama.attention.head_count_kv", 2 } };
  situ_gguf *f = situ_gguf_open(case_file("model.gguf"), NULL);
  assert_non_null(f);
  int64_t value, count;
  double number;
  size_t length;
  for (size_t i = 0; i < sizeof whole / sizeof *whole; i++) {
    assert_true(situ_gguf_integer(f, whole[i].key, 0, &value));
    assert_int_equal(value, whole[i].value);
  }
  assert_false(situ_gguf_integer(f, "test.u64", 0, &value)); /* above 2^63 */
  assert_true(situ_gguf_number(f, "test.u64", 0, &number) && number == 0x1p64);
  assert_true(situ_gguf_number(f, "test.f64", 0, &number) && number == 1.0 / 3);
  assert_true(situ_gguf_number(f, "test.i64", 0, &number) && number == -0x1p63);
  assert_int_equal(situ_gguf_kind_of(f, "test.f64", &count), SITU_GGUF_NUMBER);
  assert_int_equal(count, -1);
  assert_int_equal(situ_gguf_kind_of(f, "test.yes", NULL), SITU_GGUF_BOOL);
  assert_int_equal(situ_gguf_kind_of(f, "tokenizer.ggml.tokens", &count), SITU_GGUF_STRING);
  assert_int_equal(count, 8);
  assert_string_equal(situ_gguf_string(f, "tokenizer.ggml.tokens", 1, NULL), "bc");
  assert_string_equal(situ_gguf_string(f, "tokenizer.ggml.tokens", 3, &length), "\xc3\xa9");
  assert_int_equal(length, 2);
  assert_string_equal(situ_gguf_string(f, "general.architecture", 0, NULL), "llama");
  assert_true(situ_gguf_number(f, "tokenizer.ggml.scores", 1, &number) && number == -1);
  /* What is not there, or of another kind. */
  assert_null(situ_gguf_string(f, "tokenizer.ggml.tokens", 8, NULL));
  assert_null(situ_gguf_string(f, "tokenizer.ggml.tokens", -1, NULL));
  assert_null(situ_gguf_string(f, "test.u8", 0, NULL));
  assert_false(situ_gguf_integer(f, "test.f64", 0, &value));
  assert_false(situ_gguf_integer(f, "test.u8", 1, &value));
  assert_false(situ_gguf_number(f, "general.architecture", 0, &number));
  assert_int_equal(situ_gguf_kind_of(f, "none", &count), SITU_GGUF_NONE);
  for (int64_t i = 1; i < situ_gguf_keys(f); i++) assert_true(strcmp(situ_gguf_key(f, i - 1), situ_gguf_key(f, i)) < 0);
  assert_null(situ_gguf_key(f, situ_gguf_keys(f)));
  assert_int_equal(situ_error(), SITU_OK);
  situ_gguf_close(f);
}

/* As situ_safetensors_open has it, for what lists the tensors of any file. */
static void opens_as_any_file(void **state) {
  (void)state;
  situ_metadata remark, before = { "", "" };
  int64_t remarks = 0;
  situ_safetensors *f = situ_safetensors_open(case_file("model.gguf"), NULL);
  situ_gguf *same = situ_gguf_open(case_file("model.gguf"), NULL);
  assert_non_null(f);
  assert_string_equal(situ_safetensors_format(f), "gguf");
  assert_int_equal(situ_safetensors_count(f), situ_gguf_count(same));
  assert_string_equal(situ_safetensors_metadata(f, "general.architecture"), "llama");
  assert_string_equal(situ_safetensors_metadata(f, "tokenizer.ggml.scores"), "8 numbers");
  assert_string_equal(situ_safetensors_metadata(f, "test.yes"), "true");
  assert_string_equal(situ_safetensors_metadata(f, "test.i8"), "-128");
  assert_string_equal(situ_safetensors_metadata(f, "test.f64"), "0.333333333");
  for (; situ_safetensors_metadata_at(f, remarks, &remark); remarks++, before = remark)
    assert_true(strcmp(before.key, remark.key) < 0);
  assert_int_equal(remarks, situ_gguf_keys(same));
  situ_tensor *t = situ_safetensors_load(f, "blk.0.attn_k.weight");
  assert_int_equal(situ_block_type_of(t), SITU_BLOCK_Q4_0);
  assert_null(situ_safetensors_load(f, "none"));
  situ_error_clear();
  situ_safetensors_close(f);
  situ_gguf_close(same);
}

static void reads_tensors(void **state) {
  (void)state;
  for (int map = 0; map < 2; map++) {
    situ_gguf *f = situ_gguf_open(case_file("model.gguf"), &(situ_load_options){ .map = map });
    const situ_file_entry *e = situ_gguf_find(f, "blk.0.attn_k.weight");
    assert_string_equal(e->type, "Q4_0");
    assert_true(e->dtype == SITU_U8 && e->shape.ndim == 2 && e->shape.dim[0] == 16 && e->shape.dim[1] == 18);
    situ_tensor *t = situ_gguf_load(f, "whole");
    int64_t value;
    assert_int_equal(situ_dtype_of(t), SITU_I32);
    assert_int_equal(situ_item_i64(situ_select(situ_select(t, 0, 1), 0, 2), &value), SITU_OK);
    assert_int_equal(value, 5);
    assert_int_equal(situ_dtype_of(situ_gguf_load(f, "half")), SITU_F16);
    assert_int_equal(situ_block_type_of(situ_gguf_load(f, "token_embd.weight")), SITU_BLOCK_Q8_0);
    assert_null(situ_gguf_load(f, "none"));
    refused(SITU_E_ARG);
    const int64_t count = situ_gguf_count(f);
    situ_gguf_close(f);
    situ_tree *all = situ_load(case_file("model.gguf"), &(situ_load_options){ .map = map });
    assert_int_equal(situ_tree_count(all), count);
    assert_int_equal(situ_block_type_of(situ_tree_value(situ_tree_find(all, "output.weight"))), SITU_BLOCK_Q8_0);
    situ_tree_free(all);
  }
  situ_gguf *f = situ_gguf_open(case_file("blocks.gguf"), NULL);
  assert_null(situ_gguf_load(f, "other"));
  assert_non_null(strstr(situ_error_message(), "'other' is of type Q2_K"));
  refused(SITU_E_UNSUPPORTED);
  situ_gguf_close(f);
}

/* ---- damage ---- */

static void refuses_every_truncation(void **state) {
  (void)state;
  size_t bytes;
  char *data = read_bytes(case_file("model.gguf"), &bytes);
  write_bytes("cut.gguf", data, bytes);
  for (size_t length = bytes; length-- > 0;) {
    assert_int_equal(truncate("cut.gguf", (off_t)length), 0);
    assert_null(situ_gguf_open("cut.gguf", NULL));
    refused(SITU_E_FORMAT);
  }
  data[bytes] = 0;
  write_bytes("cut.gguf", data, bytes + 1);
  assert_null(situ_gguf_open("cut.gguf", NULL));
  refused(SITU_E_FORMAT);
  situ_gguf *f = situ_gguf_open("cut.gguf", &(situ_load_options){ .lenient = true });
  assert_non_null(f);
  situ_gguf_close(f);
  free(data);
}

/* A file that is being made. */
typedef struct draft {
  unsigned char bytes[512];
  size_t length;
} draft;

static void put(draft *d, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; i++) d->bytes[d->length++] = (unsigned char)(value >> (8 * i));
}
static void put_text(draft *d, const char *text) {
  put(d, strlen(text), 8);
  memcpy(d->bytes + d->length, text, strlen(text));
  d->length += strlen(text);
}
static void pad(draft *d, size_t to) {
  while (d->length % to) put(d, 0, 1);
}
/* Positions in the file that `sound` makes: "w", F32 [4], and with it an item. */
enum {
  VERSION = 4,
  TENSORS = 8,
  ITEMS = 16,
  KEY = 24,
  TYPE = 33,
  VALUE = 37,
  NAME = 41,
  NDIM = 50,
  DIM = 54,
  KIND = 62,
  OFFSET = 66
};
static draft sound(void) {
  draft d = { .length = 0 };
  memcpy(d.bytes, "GGUF", 4);
  d.length = 4;
  put(&d, 3, 4);
  put(&d, 1, 8);
  put(&d, 1, 8);
  put_text(&d, "k");
  put(&d, 4, 4); /* uint32 */
  put(&d, 7, 4);
  put_text(&d, "w");
  put(&d, 1, 4);
  put(&d, 4, 8);
  put(&d, 0, 4);
  put(&d, 0, 8);
  pad(&d, 32);
  for (int i = 0; i < 4; i++) put(&d, 0x3f800000, 4);
  pad(&d, 32);
  return d;
}

static void expect_bad(const draft *d, situ_status status, const char *part) {
  write_bytes("bad.gguf", d->bytes, d->length);
  for (int map = 0; map < 2; map++) {
    situ_fail_allocation(0, false);
    assert_null(situ_load("bad.gguf", &(situ_load_options){ .map = map }));
    if (!strstr(situ_error_message(), part)) fail_msg("'%s' is not in: %s", part, situ_error_message());
    refused(status);
  }
}

static void refuses_patched_headers(void **state) {
  (void)state;
  static const struct {
    size_t at;
    int bytes;
    uint64_t value;
    situ_status status;
    const char *part;
  } patch[] = {
    { VERSION, 4, 1, SITU_E_UNSUPPORTED, "version 1, must be 2 or 3" },
    { VERSION, 4, 3u << 24, SITU_E_UNSUPPORTED, "big-endian" },
    { TENSORS, 8, 1ull << 63, SITU_E_FORMAT, "more than it has bytes for" },
    { TENSORS, 8, UINT64_MAX, SITU_E_FORMAT, "more than it has bytes for" },
    { TENSORS, 8, 2, SITU_E_FORMAT, "" },
    { TENSORS, 8, 0, SITU_E_FORMAT, "bytes after its tensors" },
    { ITEMS, 8, 1ull << 63, SITU_E_FORMAT, "more than it has bytes for" },
    { ITEMS, 8, 3, SITU_E_FORMAT, "" },
    { KEY, 8, UINT64_MAX, SITU_E_FORMAT, "ends inside its header" },
    { KEY, 8, 1ull << 62, SITU_E_FORMAT, "ends inside its header" },
    { KEY, 8, 0, SITU_E_FORMAT, "without a name" },
    { KEY + 8, 1, 0, SITU_E_FORMAT, "not UTF-8" },
    { KEY + 8, 1, 0xff, SITU_E_FORMAT, "not UTF-8" },
    { TYPE, 4, 13, SITU_E_FORMAT, "unknown type 13" },
    { TYPE, 4, 7, SITU_E_FORMAT, "bool" },
    { TYPE, 4, 8, SITU_E_FORMAT, "" },
    { NAME, 8, UINT64_MAX - 7, SITU_E_FORMAT, "ends inside its header" },
    { NAME, 8, 1000, SITU_E_FORMAT, "ends inside its header" },
    { NDIM, 4, 5, SITU_E_LIMIT, "5 dimensions" },
    { NDIM, 4, UINT32_MAX, SITU_E_LIMIT, "dimensions" },
    { DIM, 8, 1ull << 63, SITU_E_FORMAT, "2^63" },
    { DIM, 8, INT64_MAX, SITU_E_FORMAT, "more bytes than a file can" },
    { DIM, 8, 1ull << 40, SITU_E_FORMAT, "ends before its tensor 'w'" },
    { DIM, 8, 9, SITU_E_FORMAT, "ends before its tensor 'w'" },
    { KIND, 4, 4, SITU_E_FORMAT, "unknown type 4" },
    { KIND, 4, UINT32_MAX, SITU_E_FORMAT, "unknown type" },
    { KIND, 4, 8, SITU_E_FORMAT, "not blocks of 32" },
    { OFFSET, 8, 1, SITU_E_FORMAT, "not aligned" },
    { OFFSET, 8, 32, SITU_E_FORMAT, "ends before its tensor 'w'" },
    { OFFSET, 8, UINT64_MAX - 31, SITU_E_FORMAT, "behind its end" },
    { OFFSET, 8, INT64_MAX - 31, SITU_E_FORMAT, "behind its end" },
  };
  draft good = sound();
  write_bytes("bad.gguf", good.bytes, good.length);
  situ_tree *tree = situ_load("bad.gguf", NULL);
  assert_int_equal(situ_tree_count(tree), 1);
  situ_tree_free(tree);
  for (size_t i = 0; i < sizeof patch / sizeof *patch; i++) {
    draft d = sound();
    for (int k = 0; k < patch[i].bytes; k++)
      d.bytes[patch[i].at + (size_t)k] = (unsigned char)(patch[i].value >> (8 * k));
    expect_bad(&d, patch[i].status, patch[i].part);
  }
}

static void reads_version_2(void **state) {
  (void)state;
  draft d = sound();
  d.bytes[VERSION] = 2;
  write_bytes("second.gguf", d.bytes, d.length);
  situ_tree *tree = situ_load("second.gguf", NULL);
  if (!tree) fail_msg("%s", situ_error_message());
  assert_int_equal(situ_tree_count(tree), 1);
  situ_tree_free(tree);
}

/* The head of a file of some tensors and items. */
static draft head(uint64_t tensors, uint64_t items) {
  draft d = { .length = 4 };
  memcpy(d.bytes, "GGUF", 4);
  put(&d, 3, 4);
  put(&d, tensors, 8);
  put(&d, items, 8);
  return d;
}
static void put_tensor(draft *d, const char *name, uint64_t offset) {
  put_text(d, name);
  put(d, 1, 4);
  put(d, 16, 8);
  put(d, 0, 4);
  put(d, offset, 8);
}
static draft two(const char *first, uint64_t at, const char *second, uint64_t after) {
  draft d = head(2, 0);
  put_tensor(&d, first, at);
  put_tensor(&d, second, after);
  pad(&d, 32);
  for (int i = 0; i < 32; i++) put(&d, 0, 4);
  return d;
}

static void refuses_made_files(void **state) {
  (void)state;
  draft d = two("a", 0, "b", 64);
  write_bytes("bad.gguf", d.bytes, d.length);
  situ_tree *tree = situ_load("bad.gguf", NULL);
  assert_int_equal(situ_tree_count(tree), 2);
  situ_tree_free(tree);
  d = two("a", 0, "b", 32);
  expect_bad(&d, SITU_E_FORMAT, "overlaps");
  d = two("a", 64, "b", 64);
  expect_bad(&d, SITU_E_FORMAT, "overlaps");
  d = two("a", 0, "a", 64);
  expect_bad(&d, SITU_E_FORMAT, "'a' twice");
  d = head(0, 2);
  for (int i = 0; i < 2; i++) {
    put_text(&d, "key");
    put(&d, 4, 4);
    put(&d, 1, 4);
  }
  expect_bad(&d, SITU_E_FORMAT, "'key' twice");
  d = head(0, 1); /* an array in an array in ... */
  put_text(&d, "deep");
  for (int i = 0; i < 20; i++) {
    put(&d, 9, 4);
    if (i) put(&d, 1, 8);
  }
  expect_bad(&d, SITU_E_UNSUPPORTED, "arrays in an array");
  const uint64_t counts[] = { UINT64_MAX, 1ull << 63, 1ull << 61, 100 };
  const uint64_t kinds[] = { 0, 4, 8, 12 };
  for (int i = 0; i < 16; i++) {
    d = head(0, 1);
    put_text(&d, "many");
    put(&d, 9, 4);
    put(&d, kinds[i % 4], 4);
    put(&d, counts[i / 4], 8);
    put(&d, 0, 8);
    expect_bad(&d, SITU_E_FORMAT, "more than the file has bytes for");
  }
  const uint64_t alignments[] = { 0, 3, 1ull << 31 };
  for (int i = 0; i < 3; i++) {
    d = head(0, 1);
    put_text(&d, "general.alignment");
    put(&d, 4, 4);
    put(&d, alignments[i], 4);
    expect_bad(&d, SITU_E_FORMAT, "general.alignment");
  }
}

/* A key that goes on for longer than any header may; the file has no blocks for it. */
static void refuses_endless_headers(void **state) {
  (void)state;
  const int64_t most = (int64_t)512 << 20;
  draft d = head(0, 1);
  put(&d, (uint64_t)most, 8);
  write_bytes("endless.gguf", d.bytes, d.length);
  assert_int_equal(truncate("endless.gguf", (off_t)(2 * most)), 0);
  assert_null(situ_gguf_open("endless.gguf", NULL));
  assert_non_null(strstr(situ_error_message(), "a header of more than 536870912 bytes"));
  refused(SITU_E_LIMIT);
  assert_int_equal(unlink("endless.gguf"), 0);
}

/* Every allocation and every call to the system fails once. */
static void survives_failed_allocations(void **state) {
  (void)state;
  for (int64_t at = 1; at < 10000; at++) {
    situ_fail_allocation(at, false);
    situ_tree *tree = situ_load(case_file("model.gguf"), NULL);
    situ_safetensors *f = situ_safetensors_open(case_file("model.gguf"), NULL);
    situ_safetensors_close(f);
    const bool reached = (int64_t)situ_allocation_count() >= at;
    situ_fail_allocation(0, false);
    situ_tree_free(tree);
    situ_error_clear();
    if (!reached) return;
  }
  fail_msg("too many allocations");
}

/* ---- names ---- */

static void names_of_hugging_face(void **state) {
  (void)state;
  int64_t rows;
  const situ_nn_rename *names = situ_gguf_names("llama", &rows);
  assert_non_null(names);
  situ_gguf *f = situ_gguf_open(case_file("model.gguf"), NULL);
  situ_tree *values = situ_gguf_state_dict(f);
  /* Heads of q are 8 rows: rows 0 and 4 of the module are rows 0 and 1 of the file. */
  situ_tensor *q = situ_tree_value(situ_tree_find(values, "blk.0.attn_q.weight"));
  situ_tensor *file = situ_gguf_load(f, "blk.0.attn_q.weight");
  for (int64_t row = 0; row < 32; row++) {
    const int64_t at = row % 8, from = row - at + at % 4 * 2 + at / 4;
    assert_same(situ_select(situ_dequantize(q), 0, row), situ_select(situ_dequantize(file), 0, from));
  }
  assert_same(situ_tree_value(situ_tree_find(values, "blk.0.attn_v.weight")), situ_gguf_load(f, "blk.0.attn_v.weight"));
  situ_tree_free(values);
  situ_gguf_close(f);
  assert_null(situ_gguf_names("mamba", &rows));
  refused(SITU_E_UNSUPPORTED);
}

int main(void) {
  const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, open_scope, close_scope)
    T(opens_as_any_file),           T(reads_metadata),        T(reads_tensors),      T(refuses_every_truncation),
    T(refuses_patched_headers),     T(reads_version_2),       T(refuses_made_files), T(refuses_endless_headers),
    T(survives_failed_allocations), T(names_of_hugging_face),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
