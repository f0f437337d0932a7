/* Lock files: a placement as text, for version control and comparison in CI.
   SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/handle.h"
#include "base/file.h"
#include "base/problem.h"
#include "base/replace.h"
#include "place/draw/snapshot.h"
#include "situ/blocks.h"

/* The first line identifies the format. Then there is one line for each tensor, of six words with single blanks, one
   more for what ranks have in parts, and, from version 2 on, one for the reason:
     encoder.fc1.weight parameter f32 [64,784] sim:0 - moved
     decoder.weight parameter f32 [64,784] sim:0 =encoder.fc1.weight moved
     head.weight parameter f32 [10,64] sim:0 - [0:320] made
   A device of another rank than 0 is rank1,sim:0. In paths, blanks, control characters and % are %XX. */
#define HEADER "situ-lock 2\n"

enum {
  WORDS = 6,
  MORE = 2,   /* that may be absent */
  LISTED = 30 /* differences in one message */
};
/* Enough for a model of a million tensors. */
static const int64_t most_bytes = 128 << 20;

static const situ_snapshot_options with_reasons = { .reasons = true };

/* ---- writing --------------------------------------------------------------------------------- */

static void add_path(situ__text *text, const char *path) {
  for (const char *c = path; *c; c++) {
    unsigned char byte = (unsigned char)*c;
    if (byte <= ' ' || byte == '%' || byte == 0x7F) situ__text_add(text, "%%%02X", byte);
    else situ__text_append(text, c, 1);
  }
}

static void add_tensor(situ__text *text, const situ_place_entry *e) {
  char device[SITU_DEVICE_NAME_MAX];
  add_path(text, e->path);
  situ__text_add(text, " %s %s [", situ__place_role(e->role), e->type);
  for (int d = 0; d < e->shape.ndim; d++) situ__text_add(text, d ? ",%lld" : "%lld", (long long)e->shape.dim[d]);
  situ__text_add(text, "] ");
  if (e->rank) situ__text_add(text, "rank%d,", e->rank);
  situ__text_add(text, "%s %s", situ_device_name(e->device, device), e->tied ? "=" : "-");
  if (e->tied) add_path(text, e->tied);
  if (e->part) situ__text_add(text, " %s", e->part);
  if (e->reason) situ__text_add(text, " %s", e->reason);
  situ__text_append(text, "\n", 1);
}

static situ_status write_lock(const char *op, const situ_snapshot *s, const char *path) {
  situ__text text = { 0 };
  situ__text_add(&text, HEADER);
  for (int64_t i = 0; i < s->count; i++)
    if (s->node[i].device >= 0) add_tensor(&text, &s->node[i].entry);
  situ_status status = situ__replace_by_text(op, path, &text);
  situ__text_free(&text);
  return status;
}

situ_status situ_snapshot_lock_write(const situ_snapshot *snapshot, const char *path) {
  static const char op[] = "snapshot_lock_write";
  if (!situ__valid(op, "snapshot", snapshot, SITU__A_SNAPSHOT) || !situ__given(op, "path", path)) return situ_error();
  return write_lock(op, snapshot, path);
}

situ_status situ_place_lock_write(situ_nn_module *m, const char *path) {
  static const char op[] = "place_lock_write";
  if (!situ__valid(op, "module", m, SITU__A_MODULE) || !situ__given(op, "path", path)) return situ_error();
  situ_snapshot *s = situ_place_snapshot_with(m, &with_reasons);
  situ_status status = s ? write_lock(op, s, path) : situ_error();
  situ_snapshot_free(s);
  return status;
}

/* ---- reading --------------------------------------------------------------------------------- */

static int hex(char c) {
  const char *digits = "0123456789ABCDEF", *at = c ? strchr(digits, c) : NULL;
  return at ? (int)(at - digits) : -1;
}

/* Undoes add_path in place. Returns false if add_path cannot have written it. */
static bool read_path(char *path) {
  char *to = path;
  if (!*path) return false;
  for (const char *c = path; *c; c++) {
    int byte = (unsigned char)*c;
    if (byte == '%') {
      int high = hex(c[1]), low = high < 0 ? -1 : hex(c[2]);
      if (low < 0 || !(high | low)) return false;
      byte = high << 4 | low;
      c += 2;
    } else if (byte <= ' ' || byte == 0x7F) {
      return false;
    }
    *to++ = (char)byte;
  }
  *to = 0;
  return true;
}

static bool read_role(const char *word, situ_place_role *out) {
  for (int role = SITU_PLACE_PARAMETER; role < SITU_PLACE_ROLES; role++) {
    if (strcmp(word, situ__place_role((situ_place_role)role)) != 0) continue;
    *out = (situ_place_role)role;
    return true;
  }
  return false;
}

/* "[64,784]" */
static bool read_shape(const char *c, situ_shape *out) {
  *out = (situ_shape){ 0 };
  if (*c++ != '[') return false;
  if (strcmp(c, "]") == 0) return true;
  for (;; c++) {
    int64_t size = 0;
    size_t digits = strspn(c, "0123456789");
    if (out->ndim == SITU_MAX_DIMS || digits == 0 || digits > 18) return false;
    for (; digits; digits--, c++) size = 10 * size + (*c - '0');
    out->dim[out->ndim++] = size;
    if (*c != ',') return strcmp(c, "]") == 0;
  }
}

/* "sim:0", "rank1,sim:0" */
static bool read_device(const char *word, situ_place_entry *out) {
  if (strncmp(word, "rank", 4) == 0) {
    word += 4;
    const char *end = word;
    for (; *end >= '0' && *end <= '9' && end - word < 9; end++) out->rank = 10 * out->rank + (*end - '0');
    if (out->rank == 0 || *word == '0' || *end != ',') return false;
    word = end + 1;
  }
  return situ__place_device_read(word, &out->device);
}

static bool read_type(const char *word) {
  for (int d = SITU_BOOL; d < SITU_DTYPES; d++)
    if (strcmp(word, situ_dtype_name((situ_dtype)d)) == 0) return true;
  for (int b = SITU_BLOCK_Q8_0; b < SITU_BLOCK_TYPES; b++)
    if (strcmp(word, situ_block_name((situ_block_type)b)) == 0) return true;
  return false;
}

static bool read_more(char **word, int count, situ_place_entry *out) {
  int next = 0;
  if (next < count && *word[next] == '[') out->part = word[next++];
  if (next < count && situ__place_is_reason(word[next])) out->reason = word[next++];
  return next == count;
}

/* Parses one line, without its end. Returns false with the reason in problem. */
static bool read_line(char *line, situ_place_entry *out, situ__problem *problem) {
  char *word[WORDS + MORE], *at = line;
  int words = 0;
  for (; at && words < WORDS + MORE; words++) {
    word[words] = at;
    at = strchr(at, ' ');
    if (at) *at++ = 0;
  }
  const char *bad = NULL;
  if (words < WORDS || at || !read_more(word + WORDS, words - WORDS, out)) bad = "line";
  else if (!read_path(word[0])) bad = "path";
  else if (!read_role(word[1], &out->role)) bad = "role";
  else if (!read_type(word[2])) bad = "dtype";
  else if (!read_shape(word[3], &out->shape)) bad = "shape";
  else if (strcmp(word[5], "-") != 0 && (*word[5] != '=' || !read_path(word[5] + 1))) bad = "tie";
  if (!bad && !read_device(word[4], out)) bad = "device";
  if (bad) return situ__problem_set(problem, SITU_E_FORMAT, "not a valid %s", bad);
  out->path = word[0];
  out->type = word[2];
  out->tied = *word[5] == '=' ? word[5] + 1 : NULL;
  return true;
}

/* Parses the lines after the first one. Entries point into `text`. */
static bool read_lines(char *text, situ_place_entry *entries, int64_t *count, situ__problem *problem) {
  for (char *line = text, *end; *line; line = end + 1) {
    end = strchr(line, '\n');
    if (!end) return situ__problem_set(problem, SITU_E_FORMAT, "it does not end with a line's end");
    *end = 0;
    if (!read_line(line, &entries[*count], problem)) return false;
    ++*count;
  }
  return true;
}

/* The file as a snapshot. Returns NULL after recording an error. */
static situ_snapshot *read_lock(const char *op, const char *path) {
  size_t size;
  char *text = situ__file_load(op, path, most_bytes, &size);
  if (!text) return NULL;
  situ_snapshot *s = NULL;
  situ_place_entry *entries = NULL;
  size_t lines = 1;
  int64_t count = 0;
  for (const char *c = text; (c = strchr(c, '\n')); c++) lines++;
  situ__problem problem = { 0 };
  if ((strncmp(text, HEADER, sizeof HEADER - 1) != 0 && strncmp(text, "situ-lock 1\n", sizeof HEADER - 1) != 0) ||
      strlen(text) != size)
    situ__fail(SITU_E_FORMAT, op, "%s: is not a lock file of situ", path);
  else if (!(entries = situ__calloc(lines, sizeof *entries))) situ__no_memory(op, lines * sizeof *entries);
  else if (!read_lines(text + sizeof HEADER - 1, entries, &count, &problem))
    situ__fail(problem.status, op, "%s:%lld: %s", path, (long long)count + 2, problem.text);
  else s = situ__snapshot_of(op, path, entries, count);
  situ__free(entries);
  situ__free(text);
  return s;
}

static situ_status check_lock(const char *op, const situ_snapshot *now, const char *path) {
  situ_snapshot *then = read_lock(op, path);
  situ__text text = { 0 };
  situ_status status = SITU_OK;
  int64_t differences = then ? situ__place_compare(op, then, now, LISTED, &text) : -1;
  if (differences < 0) {
    status = situ_error();
  } else if (differences > 0) {
    text.data[text.length - 1] = 0; /* the last line's end */
    status = situ__fail(SITU_E_STATE, op, "%lld tensor%s not as %s says:\n%s", (long long)differences,
                        differences == 1 ? " is" : "s are", path, text.data);
  }
  situ__text_free(&text);
  situ_snapshot_free(then);
  return status;
}

situ_status situ_snapshot_lock_check(const situ_snapshot *snapshot, const char *path) {
  static const char op[] = "snapshot_lock_check";
  if (!situ__valid(op, "snapshot", snapshot, SITU__A_SNAPSHOT) || !situ__given(op, "path", path)) return situ_error();
  return check_lock(op, snapshot, path);
}

situ_status situ_place_lock_check(situ_nn_module *m, const char *path) {
  static const char op[] = "place_lock_check";
  if (!situ__valid(op, "module", m, SITU__A_MODULE) || !situ__given(op, "path", path)) return situ_error();
  situ_snapshot *now = situ_place_snapshot_with(m, &with_reasons);
  situ_status status = now ? check_lock(op, now, path) : situ_error();
  situ_snapshot_free(now);
  return status;
}
