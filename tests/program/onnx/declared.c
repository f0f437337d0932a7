/* What an ONNX file declares of a value: each node's result of the models in tests/program/data gets an entry of
   value_info with another dtype, another rank, another size, and the right ones. All but the last are refused when the
   model is loaded, by the name of the value.
   SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/format/protobuf.h"
#include "io/format/protobuf_write.h"
#include "situ/situ.h"

enum { FLOAT = 1, INT64 = 7, BOOL = 9, GRAPH = 7, NODE = 1, NODE_OUTPUT = 2, VALUE_INFO = 13, FILE_BYTES = 4 << 20 };

static unsigned char bytes[FILE_BYTES];

/* The model whose graph has one entry more. */
static void write_model(int64_t length, const char *name, uint64_t dtype, const int64_t *size, int dims) {
  situ__protobuf_writer shape = { 0 }, tensor = { 0 }, type = { 0 }, value = { 0 }, graph = { 0 }, model = { 0 };
  for (int d = 0; d < dims; d++) {
    situ__protobuf_writer dim = { 0 };
    situ__protobuf_put_int(&dim, 1, size[d]);
    situ__protobuf_put_message(&shape, 1, &dim);
    situ__protobuf_free(&dim);
  }
  if (dtype) situ__protobuf_put_int(&tensor, 1, (int64_t)dtype);
  situ__protobuf_put_message(&tensor, 2, &shape);
  situ__protobuf_put_message(&type, 1, &tensor);
  situ__protobuf_put_text(&value, 1, name);
  situ__protobuf_put_message(&value, 2, &type);
  situ__protobuf all = situ__protobuf_of(bytes, length);
  for (situ__protobuf_field field; situ__protobuf_next(&all, &field);) {
    if (field.wire == SITU__PROTOBUF_VARINT) situ__protobuf_put_int(&model, field.number, (int64_t)field.value);
    if (field.wire != SITU__PROTOBUF_BYTES) continue;
    if (field.number != GRAPH) {
      situ__protobuf_put_bytes(&model, field.number, field.bytes.at, (size_t)field.bytes.bytes);
      continue;
    }
    situ__protobuf_append(&graph, field.bytes.at, (size_t)field.bytes.bytes);
    situ__protobuf_put_message(&graph, VALUE_INFO, &value);
    situ__protobuf_put_message(&model, GRAPH, &graph);
  }
  FILE *f = fopen("declared.onnx", "wb");
  assert_non_null(f);
  assert_true(!model.failed && fwrite(model.data, 1, model.length, f) == model.length);
  assert_int_equal(fclose(f), 0);
  situ__protobuf_writer *const made[] = { &shape, &tensor, &type, &value, &graph, &model };
  for (size_t i = 0; i < sizeof made / sizeof *made; i++) situ__protobuf_free(made[i]);
}

/* Whether the model is refused, and says why; what it computes then, "f32 [2, 3]", goes to found. */
static bool is_refused(const char *file, const char *name, char found[256]) {
  char wanted[256];
  situ_nn_module *m = situ_export_load("declared.onnx", &(situ_load_options){ .device = situ_dev("meta") });
  const bool refused = !m;
  (void)snprintf(wanted, sizeof wanted, "declares '%.200s' as ", name);
  if (refused) {
    const char *says = strstr(situ_error_message(), wanted), *computes = says ? strstr(says, " computes ") : NULL;
    if (situ_error() != SITU_E_FORMAT || !computes) fail_msg("%s: %s", file, situ_error_message());
    (void)snprintf(found, 256, "%.*s", (int)strcspn(computes + strlen(" computes "), "\n"),
                   computes + strlen(" computes "));
  }
  situ_error_clear();
  situ_nn_free(m);
  return refused;
}

/* Sizes of "f32 [2, 3]". */
static int read_sizes(const char *found, int64_t size[SITU_MAX_DIMS]) {
  int dims = 0;
  const char *at = strchr(found, '[');
  assert_non_null(at);
  for (char *end; *++at != ']'; at = end) {
    at += strspn(at, ", ");
    size[dims++] = strtoll(at, &end, 10);
    if (*end == ']') break;
  }
  return dims;
}

typedef struct counts {
  int dtypes, ranks, sizes;
} counts;

static void check_value(const char *file, int64_t length, const char *name, counts *c) {
  static const int64_t ones[SITU_MAX_DIMS] = { 1, 1, 1, 1, 1, 1, 1, 1 };
  char found[256] = "", unused[256];
  int64_t size[SITU_MAX_DIMS];
  write_model(length, name, 0, ones, SITU_MAX_DIMS);
  if (!is_refused(file, name, found)) fail_msg("%s: '%s' has another rank than 8", file, name);
  c->ranks++;
  const int dims = read_sizes(found, size);
  const uint64_t own = *found == 'f' ? FLOAT : *found == 'b' ? BOOL : INT64;
  write_model(length, name, own, size, dims);
  if (is_refused(file, name, unused)) fail_msg("%s: '%s' is %s, and refused as that", file, name, found);
  write_model(length, name, own == BOOL ? FLOAT : BOOL, size, dims);
  if (!is_refused(file, name, unused)) fail_msg("%s: '%s' has another dtype", file, name);
  c->dtypes++;
  if (!dims) return;
  size[dims - 1]++; /* the last size is mostly not one that follows the inputs */
  write_model(length, name, own, size, dims);
  c->sizes += is_refused(file, name, unused);
}

static void check_file(const char *dir, const char *file, counts *c) {
  char path[1024], name[256];
  (void)snprintf(path, sizeof path, "%.700s/%.200s", dir, file);
  FILE *f = fopen(path, "rb");
  assert_non_null(f);
  const int64_t length = (int64_t)fread(bytes, 1, sizeof bytes, f);
  assert_true(length < FILE_BYTES && fclose(f) == 0);
  situ__protobuf model = situ__protobuf_of(bytes, length);
  for (situ__protobuf_field part; situ__protobuf_next(&model, &part);)
    while (part.number == GRAPH && part.wire == SITU__PROTOBUF_BYTES) {
      situ__protobuf_field node;
      if (!situ__protobuf_next(&part.bytes, &node)) break;
      for (situ__protobuf_field out; node.number == NODE && situ__protobuf_next(&node.bytes, &out);) {
        if (out.number != NODE_OUTPUT || !out.bytes.bytes) continue;
        (void)snprintf(name, sizeof name, "%.*s", (int)out.bytes.bytes, (const char *)out.bytes.at);
        check_value(file, length, name, c);
      }
    }
}

static void other_declarations_are_refused(void **state) {
  const char *root = getenv("SITU_TEST_ROOT");
  char dir[512];
  counts c = { 0 };
  (void)state;
  (void)snprintf(dir, sizeof dir, "%s/program/data", root ? root : ".");
  DIR *list = opendir(dir);
  assert_non_null(list);
  situ_error_mode(SITU_ERROR_QUIET);
  for (struct dirent *e; (e = readdir(list));) {
    const char *end = strrchr(e->d_name, '.');
    if (end && strcmp(end, ".onnx") == 0) check_file(dir, e->d_name, &c);
  }
  situ_error_mode(SITU_ERROR_LOG);
  closedir(list);
  print_message("refused: %d dtypes, %d ranks, %d sizes\n", c.dtypes, c.ranks, c.sizes);
  assert_true(c.dtypes >= 50 && c.ranks >= 50 && c.sizes >= 50);
}

int main(void) {
  const struct CMUnitTest tests[] = { cmocka_unit_test(other_declarations_are_refused) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
