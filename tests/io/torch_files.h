/* Files of torch.save for tests: those that torch wrote, and archives of any pickle.
   SPDX-License-Identifier: MIT */
#ifndef SITU_TESTS_IO_TORCH_FILES_H
#define SITU_TESTS_IO_TORCH_FILES_H

#include "files.h"

#include <stdarg.h>

#include "../support/zip_memory.h"
#include "situ/io.h"

/* Made by tools/exchange/files/torch_files.py; in the directory that the tests' own files are in. */
static inline const char *data_path(const char *name) {
  static char full[1024];
  (void)snprintf(full, sizeof full, "%s/io/data/%s", getenv("SITU_TEST_ROOT"), name);
  return full;
}

static inline situ_tree *load_named(const char *name, const char *end, const situ_load_options *options) {
  char file[64];
  (void)snprintf(file, sizeof file, "%s%s", name, end);
  situ_tree *tree = situ_load(data_path(file), options);
  if (!tree) fail_msg("%s: %s", file, situ_error_message());
  return tree;
}

static inline void assert_holds(const situ_tree *tree, const situ_tree *expected) {
  situ_tree *flat = situ_tree_flatten(tree);
  assert_int_equal(situ_tree_count(flat), situ_tree_count(expected));
  for (int64_t k = 0; k < situ_tree_count(expected); k++)
    assert_same(situ_tree_get(flat, situ_tree_key(expected, k)), situ_tree_tensor_at(expected, k));
  situ_tree_free(flat);
}

static inline situ_tree *load_weights(const char *name) {
  situ_tree *tree = situ_load_weights(data_path(name), &(situ_load_options){ .map = true });
  if (!tree) fail_msg("%s: %s", name, situ_error_message());
  return tree;
}

static inline void refuse_file(const char *file, situ_status status, const char *word) {
  situ_tree *tree = situ_load(file, NULL);
  if (tree) fail_msg("%s: loaded, instead of: %s", file, word);
  if (!strstr(situ_error_message(), word)) fail_msg("\"%s\" does not say \"%s\"", situ_error_message(), word);
  refused(status);
}

/* ---- archives ---- */

static const uint8_t storage[24];

/* An archive of a pickle and a storage of six floats. order: what it says of the order of bytes. */
static inline void write_archive_of(const char *name, const char *order, const void *pickle, size_t bytes) {
  uint8_t *block = malloc(bytes + 1024);
  assert_non_null(block);
  zip_memory w = { .data = block };
  zip_memory_add(&w, "a/data.pkl", pickle, bytes);
  zip_memory_add(&w, "a/byteorder", order, strlen(order));
  zip_memory_add(&w, "a/data/0", storage, sizeof storage);
  zip_memory_end(&w);
  write_bytes(name, block, w.length);
  free(block);
}
static inline void write_archive(const char *name, const void *pickle, size_t bytes) {
  write_archive_of(name, "little", pickle, bytes);
}

#define STORAGE(key, count) \
  "(X\007\000\000\000storagectorch\nFloatStorage\nX\001\000\000\000" key "X\003\000\000\000cpu" count "tQ"
#define TENSOR(storage, layout) \
  "ctorch._utils\n_rebuild_tensor_v2\n(" storage layout "\211ccollections\nOrderedDict\n)RtR"
#define SIX STORAGE("0", "K\006")
#define LAYOUT "K\000K\002K\003\206K\003K\001\206"
#define LONG_8(bytes) "\212\010" bytes

#endif
