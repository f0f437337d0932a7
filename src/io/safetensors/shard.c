/* Opens one safetensors file.
   SPDX-License-Identifier: MIT */
#include "shard.h"

#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/file.h"

static bool bad_file(const char *op, const char *path, const situ__problem *problem) {
  return situ__fail(problem->status, op, "%s: %s", path, problem->text), false;
}

/* Checks the header's length against the file and the format's limit before it allocates memory for it. */
static char *read_header(const char *op, situ__shard *s, int64_t bytes, size_t *length) {
  unsigned char first[8];
  uint64_t wanted = 0;
  if (bytes < 8)
    return situ__fail(SITU_E_FORMAT, op, "%s: has %lld bytes, too few for a safetensors file", s->path,
                      (long long)bytes),
           NULL;
  if (situ__file_read(op, s->path, s->fd, first, 8, 0) != SITU_OK) return NULL;
  for (int i = 7; i >= 0; i--) wanted = wanted << 8 | first[i];
  s->gguf = memcmp(first, "GGUF", 4) == 0; /* as a length beyond SITU__HEADER_MAX */
  if (s->gguf) return NULL;
  if (wanted > (uint64_t)bytes - 8 || wanted > SITU__HEADER_MAX)
    return situ__fail(SITU_E_FORMAT, op, "%s: is not a safetensors file: its header would have %llu bytes", s->path,
                      (unsigned long long)wanted),
           NULL;
  char *text = situ__alloc((size_t)wanted + 1);
  if (!text) {
    situ__no_memory(op, (size_t)wanted + 1);
  } else if (situ__file_read(op, s->path, s->fd, text, (size_t)wanted, 8) != SITU_OK) {
    situ__free(text);
    text = NULL;
  }
  *length = (size_t)wanted;
  return text;
}

static bool read_checksums(const char *op, situ__shard *s) {
  situ__problem problem;
  bool have;
  s->sum = situ__calloc((size_t)s->header.count + 1, sizeof *s->sum);
  if (!s->sum) return situ__no_memory(op, ((size_t)s->header.count + 1) * sizeof *s->sum), false;
  if (!situ__header_checksums(&s->header, s->sum, &have, &problem)) return bad_file(op, s->path, &problem);
  if (!have) {
    situ__free(s->sum);
    s->sum = NULL;
  }
  return true;
}

bool situ__shard_open(situ__shard *s, const char *op, char *path, const situ_load_options *options, bool *missing) {
  situ__problem problem;
  int64_t bytes;
  size_t length;
  *s = (situ__shard){ .path = path, .fd = -1 };
  *missing = false;
  if (!path) return situ__no_memory(op, 1), false;
  s->fd = situ__file_open_if(op, path, &bytes, missing);
  if (s->fd < 0) return false;
  char *text = read_header(op, s, bytes, &length);
  if (!text) return false;
  int64_t start = 8 + (int64_t)length;
  if (!situ__header_parse(&s->header, text, length, start, bytes - start, options->lenient, &problem))
    return bad_file(op, path, &problem);
  if (options->verify != SITU_VERIFY_NEVER && !read_checksums(op, s)) return false;
  if (options->map && !(s->mapping = situ__mapping_new(op, path, s->fd, bytes))) return false;
  return true;
}

void situ__shard_close(situ__shard *s) {
  situ__mapping_release(s->mapping);
  situ__file_close(s->fd);
  situ__header_free(&s->header);
  situ__free(s->sum);
  situ__free(s->path);
}
