/* Fuzzes the GGUF reader from open to close: read and mapped, strict and lenient, metadata and values.
   SPDX-License-Identifier: MIT */
#include "memory_file.h"
#include "situ/gguf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_metadata(const situ_gguf *f) {
  for (int64_t i = 0; i < situ_gguf_keys(f); i++) {
    const char *key = situ_gguf_key(f, i);
    int64_t count, whole;
    double number;
    size_t length;
    if (situ_gguf_kind_of(f, key, &count) == SITU_GGUF_NONE) abort();
    for (int64_t k = -1; k <= count && k < 16; k++) {
      (void)situ_gguf_integer(f, key, k, &whole);
      (void)situ_gguf_number(f, key, k, &number);
      const char *text = situ_gguf_string(f, key, k, &length);
      if (text && strlen(text) > length) abort();
    }
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  situ_error_mode(SITU_ERROR_QUIET);
  memory_files(NULL, 0, data, size);
  for (int variant = 0; variant < 3; variant++) {
    const situ_load_options options = { .map = variant == 1, .lenient = variant == 2 };
    const int64_t live = situ_live_tensors();
    situ_gguf *f = situ_gguf_open("f", &options);
    if (!f && situ_error() == SITU_OK) abort();
    if (f) read_metadata(f);
    situ_scope scope;
    situ_scope_begin(&scope);
    /* Two tensors never share a byte, so together they are no larger than the file. */
    int64_t bytes = 0;
    for (int64_t i = 0; i < situ_gguf_count(f); i++) {
      const situ_file_entry *e = situ_gguf_entry(f, i);
      bytes += e->bytes;
      situ_tensor *t = situ_gguf_load(f, e->name);
      if (t && situ_block_type_of(t) && situ_numel(t) < 4096 && !situ_dequantize(t)) abort();
    }
    if (bytes > (int64_t)size) abort();
    SITU_IGNORE(situ_scope_end(&scope));
    situ_error_clear();
    if (f) situ_tree_free(situ_gguf_state_dict(f));
    situ_gguf_close(f);
    if (situ_live_tensors() != live) abort();
    situ_error_clear();
  }
  return 0;
}
