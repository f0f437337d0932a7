/* A build without SITU_GGUF: its files are recognised, and refused.
   SPDX-License-Identifier: MIT */
#include "base/fail.h"
#include "io/gguf.h"

situ_gguf *situ_gguf_open(const char *path, const situ_load_options *options) {
  (void)options;
  if (situ__given("gguf_open", "path", path))
    situ__fail(SITU_E_UNSUPPORTED, "gguf_open", "%s: this build reads no GGUF files: configure with SITU_GGUF", path);
  return NULL;
}
void situ_gguf_close(situ_gguf *file) { (void)file; }
int64_t situ_gguf_count(const situ_gguf *file) { return (void)file, 0; }
const situ_file_entry *situ_gguf_entry(const situ_gguf *file, int64_t index) { return (void)file, (void)index, NULL; }
const situ_file_entry *situ_gguf_find(const situ_gguf *file, const char *name) { return (void)file, (void)name, NULL; }
situ_tensor *situ_gguf_load(situ_gguf *file, const char *name) {
  (void)name;
  situ__given("gguf_load", "file", file);
  return NULL;
}
int64_t situ_gguf_keys(const situ_gguf *file) { return (void)file, 0; }
const char *situ_gguf_key(const situ_gguf *file, int64_t index) { return (void)file, (void)index, NULL; }
situ_gguf_kind situ_gguf_kind_of(const situ_gguf *file, const char *key, int64_t *count) {
  if (count) *count = -1;
  return (void)file, (void)key, SITU_GGUF_NONE;
}
bool situ_gguf_integer(const situ_gguf *file, const char *key, int64_t index, int64_t *out) {
  return (void)file, (void)key, (void)index, (void)out, false;
}
bool situ_gguf_number(const situ_gguf *file, const char *key, int64_t index, double *out) {
  return (void)file, (void)key, (void)index, (void)out, false;
}
const char *situ_gguf_string(const situ_gguf *file, const char *key, int64_t index, size_t *length) {
  return (void)file, (void)key, (void)index, (void)length, NULL;
}
situ_tree *situ__gguf_load_all(const char *path, const situ_load_options *options) {
  (void)situ_gguf_open(path, options);
  return NULL;
}
situ_tree *situ_gguf_state_dict(situ_gguf *file) {
  situ__given("gguf_state_dict", "file", file);
  return NULL;
}
const situ_nn_rename *situ_gguf_names(const char *architecture, int64_t *count) {
  if (situ__given("gguf_names", "architecture", architecture) && situ__given("gguf_names", "count", count))
    situ__fail(SITU_E_UNSUPPORTED, "gguf_names", "this build reads no GGUF files: configure with SITU_GGUF");
  return NULL;
}

/* Of no file. */
bool situ__gguf_remarks_make(situ__gguf_remarks *out, const situ_gguf *file) { return (void)out, (void)file, false; }
void situ__gguf_remarks_free(situ__gguf_remarks *remarks) { (void)remarks; }
