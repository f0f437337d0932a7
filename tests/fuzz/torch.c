/* Fuzzes the reader of torch.save's files: the bytes as a whole file if they begin as an archive, or as a file of before
   version 1.6, else as the pickle of an archive whose rest is right.
   SPDX-License-Identifier: MIT */
#include "../support/zip_memory.h"
#include "io/torch/torch.h"
#include "memory_file.h"
#include "situ/io.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void load_file(const uint8_t *data, size_t size, const situ_load_options *options) {
  const int64_t tensors = situ_live_tensors();
  for (int weights = 0; weights < 2; weights++) {
    memory_files(NULL, 0, data, size);
    situ_tree *tree = weights ? situ_load_weights("f", options) : situ_load("f", options);
    if ((tree != NULL) != (situ_error() == SITU_OK)) abort();
    situ_tree_free(tree);
    situ_error_clear();
    if (situ_live_tensors() != tensors) abort();
  }
}

/* Each tensor by itself. */
static void load_entries(const uint8_t *data, size_t size) {
  memory_files(NULL, 0, data, size);
  situ_safetensors *f = situ_safetensors_open("f", NULL);
  for (int64_t i = 0; i < situ_safetensors_count(f); i++) {
    situ_scope scope;
    situ_scope_begin(&scope);
    const situ_file_entry *e = situ_safetensors_entry(f, i);
    situ_tensor *t = situ_safetensors_load(f, e->name);
    if (t && situ_numel(t) * (int64_t)situ_dtype_size(e->dtype) != e->bytes) abort();
    SITU_IGNORE(situ_scope_end(&scope));
    situ_error_clear();
  }
  situ_metadata left;
  for (int64_t i = 0; situ_safetensors_left_at(f, i, &left); i++)
    if (!*left.value || strlen(left.key) > size) abort();
  situ_safetensors_close(f);
  situ_error_clear();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const uint8_t storage[256];
  situ_error_mode(SITU_ERROR_QUIET);
  if (size >= 2 && (memcmp(data, "PK", 2) == 0 || situ__torch_legacy_magic((const char *)data, size))) {
    load_file(data, size, NULL);
    load_file(data, size, &(situ_load_options){ .map = true, .verify = SITU_VERIFY_ALWAYS });
    return 0;
  }
  zip_memory w = { .data = malloc(size + 2048) };
  if (!w.data) return 0;
  zip_memory_add(&w, "t/data.pkl", data, size);
  zip_memory_add(&w, "t/byteorder", "little", 6);
  zip_memory_add(&w, "t/data/0", storage, 24);
  zip_memory_add(&w, "t/data/1", storage, 256);
  zip_memory_add(&w, "t/data/2", storage, 0);
  zip_memory_end(&w);
  uint8_t *exact = malloc(w.length);
  if (exact) {
    memcpy(exact, w.data, w.length);
    load_file(exact, w.length, &(situ_load_options){ .map = true });
    load_entries(exact, w.length);
  }
  free(exact);
  free(w.data);
  return 0;
}
