/* Fuzzes the reader of .pt2 programs: the bytes as a whole archive, and as the program of one whose rest is right. A program
   that was loaded is run on meta.
   SPDX-License-Identifier: MIT */
#include "memory_file.h"
#include "situ/situ.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct writer {
  uint8_t *data;
  size_t length;
  struct {
    const char *name;
    size_t header, bytes;
  } entry[8];
  int count;
} writer;

static void put(writer *w, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; i++) w->data[w->length++] = (uint8_t)(value >> 8 * i);
}

static void put_text(writer *w, const void *text, size_t length) {
  if (length) memcpy(w->data + w->length, text, length);
  w->length += length;
}

/* The part that local and central headers share, from the flags to the name's length. */
static void put_sizes(writer *w, size_t bytes, const char *name) {
  put(w, 0, 8); /* flags, method, time, date */
  put(w, 0, 4); /* CRC */
  put(w, bytes, 4);
  put(w, bytes, 4);
  put(w, strlen(name), 2);
}

static void put_entry(writer *w, const char *name, const void *data, size_t bytes) {
  w->entry[w->count].name = name;
  w->entry[w->count].header = w->length;
  w->entry[w->count++].bytes = bytes;
  put(w, 0x04034b50, 4);
  put(w, 10, 2);
  put_sizes(w, bytes, name);
  put(w, 0, 2);
  put_text(w, name, strlen(name));
  put_text(w, data, bytes);
}

static void put_directory(writer *w) {
  const size_t start = w->length;
  for (int i = 0; i < w->count; i++) {
    put(w, 0x02014b50, 4);
    put(w, 10, 2);
    put(w, 10, 2);
    put_sizes(w, w->entry[i].bytes, w->entry[i].name);
    put(w, 0, 8); /* extra field, comment, disk, attributes */
    put(w, 0, 4);
    put(w, w->entry[i].header, 4);
    put_text(w, w->entry[i].name, strlen(w->entry[i].name));
  }
  const size_t length = w->length - start;
  put(w, 0x06054b50, 4);
  put(w, 0, 4);
  put(w, (uint64_t)w->count, 2);
  put(w, (uint64_t)w->count, 2);
  put(w, length, 4);
  put(w, start, 4);
  put(w, 0, 2);
}

static void load(const uint8_t *data, size_t size, const situ_load_options *options) {
  const int64_t tensors = situ_live_tensors(), modules = situ_nn_live_modules();
  memory_files(NULL, 0, data, size);
  situ_nn_module *m = situ_export_load("f", options);
  if (!m && situ_error() == SITU_OK) abort();
  if (m && options->device.kind == SITU_META) {
    situ_scope scope; /* owns the results */
    situ_scope_begin(&scope);
    situ_tree *in = situ_tree_list();
    situ_tree_free(situ_nn_call(m, in));
    situ_tree_free(in);
    SITU_IGNORE(situ_scope_end(&scope));
  }
  situ_error_clear();
  situ_nn_free(m);
  situ_error_clear();
  if (situ_live_tensors() != tensors || situ_nn_live_modules() != modules) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const char list[] = "{\"config\":{}}";
  situ_error_mode(SITU_ERROR_QUIET);
  load(data, size, &(situ_load_options){ .map = true, .verify = SITU_VERIFY_ALWAYS });
  load(data, size, &(situ_load_options){ .device = { .kind = SITU_META } });
  writer w = { .data = malloc(size + 1024) };
  if (!w.data) return 0;
  put_entry(&w, "t/archive_format", "pt2", 3);
  put_entry(&w, "t/byteorder", "little", 6);
  put_entry(&w, "t/data/weights/model_weights_config.json", list, sizeof list - 1);
  put_entry(&w, "t/data/constants/model_constants_config.json", list, sizeof list - 1);
  put_entry(&w, "t/models/model.json", data, size);
  put_directory(&w);
  uint8_t *exact = malloc(w.length);
  if (exact) {
    memcpy(exact, w.data, w.length);
    load(exact, w.length, &(situ_load_options){ .device = { .kind = SITU_META } });
  }
  free(exact);
  free(w.data);
  return 0;
}
