/* Parses the header of a .npy file: a Python dict with three known keys, without evaluating Python.
   SPDX-License-Identifier: MIT */
#include "header.h"

#include <string.h>

#include "io/format/file_type.h"

static const struct {
  const char *name;
  situ_dtype dtype;
} types[] = {
  { "|b1", SITU_BOOL }, { "|u1", SITU_U8 },  { "|i1", SITU_I8 },  { "<i2", SITU_I16 }, { "<i4", SITU_I32 },
  { "<i8", SITU_I64 },  { "<f2", SITU_F16 }, { "<f4", SITU_F32 }, { "<f8", SITU_F64 },
};
enum { TYPES = sizeof types / sizeof *types };

const char *situ__npy_type(situ_dtype dtype) {
  for (int i = 0; i < TYPES; i++)
    if (types[i].dtype == dtype) return types[i].name;
  return NULL;
}

bool situ__npy_start(const unsigned char *first, size_t length, size_t *begin, size_t *header, situ__problem *problem) {
  if (length < 10 || memcmp(first, "\x93NUMPY", 6) != 0)
    return situ__problem_set(problem, SITU_E_FORMAT, "is not a .npy file");
  if (first[6] < 1 || first[6] > 3 || first[7] != 0)
    return situ__problem_set(problem, SITU_E_FORMAT, "is a .npy file of version %d.%d, which does not exist", first[6],
                             first[7]);
  bool wide = first[6] > 1;
  if (wide && length < 12) return situ__problem_set(problem, SITU_E_FORMAT, "ends within its header");
  *begin = wide ? 12 : 10;
  *header = (size_t)first[8] | (size_t)first[9] << 8;
  if (wide) *header |= (size_t)first[10] << 16 | (size_t)first[11] << 24;
  if (*header > SITU__NPY_HEADER_MAX)
    return situ__problem_set(problem, SITU_E_FORMAT, "has a header of %zu bytes: %d are the most", *header,
                             SITU__NPY_HEADER_MAX);
  return true;
}

typedef struct reader {
  const char *at, *end;
} reader;

static void skip_space(reader *r) {
  while (r->at < r->end && *r->at == ' ') r->at++;
}

static bool take_char(reader *r, char c) {
  skip_space(r);
  if (r->at == r->end || *r->at != c) return false;
  r->at++;
  return true;
}

/* Reads a quoted string without escapes, of at most size - 1 bytes. */
static bool take_text(reader *r, char *out, size_t size) {
  skip_space(r);
  if (r->at == r->end || (*r->at != '\'' && *r->at != '"')) return false;
  char quote = *r->at++;
  const char *start = r->at;
  while (r->at < r->end && *r->at != quote && *r->at != '\\' && (unsigned char)*r->at >= 0x20) r->at++;
  size_t length = (size_t)(r->at - start);
  if (r->at == r->end || *r->at != quote || length >= size) return false;
  r->at++;
  memcpy(out, start, length);
  out[length] = '\0';
  return true;
}

static bool take_word(reader *r, const char *word) {
  size_t length = strlen(word);
  skip_space(r);
  if ((size_t)(r->end - r->at) < length || memcmp(r->at, word, length) != 0) return false;
  r->at += length;
  return true;
}

static bool take_size(reader *r, int64_t *out) {
  skip_space(r);
  const char *start = r->at;
  *out = 0;
  for (; r->at < r->end && *r->at >= '0' && *r->at <= '9'; r->at++)
    if (__builtin_mul_overflow(*out, 10, out) || __builtin_add_overflow(*out, *r->at - '0', out)) return false;
  return r->at > start && (*start != '0' || r->at == start + 1);
}

/* Adds the sizes of (), (3,) or (3, 4) to an empty shape; a comma may follow the last size. */
static bool take_shape(reader *r, situ_shape *shape, situ__problem *problem) {
  if (!take_char(r, '(')) return false;
  while (!take_char(r, ')')) {
    if (shape->ndim == SITU_MAX_DIMS) {
      situ__problem_set(problem, SITU_E_LIMIT, "has more than %d dimensions", SITU_MAX_DIMS);
      return false;
    }
    if (!take_size(r, &shape->dim[shape->ndim++])) return false;
    bool comma = take_char(r, ',');
    if (comma) continue;
    return shape->ndim > 1 && take_char(r, ')'); /* (3) is a number, not a shape */
  }
  return true;
}

static bool find_type(const char *descr, situ_file_entry *out, situ__problem *problem) {
  char shown[SITU__SHOWN_MAX];
  for (int i = 0; i < TYPES; i++) {
    /* One-byte types have no byte order: '<u1' is '|u1'. */
    bool single = types[i].name[0] == '|' && descr[0] == '<';
    if (strcmp(descr + single, types[i].name + single) != 0) continue;
    out->type = types[i].name;
    out->dtype = types[i].dtype;
    return true;
  }
  return situ__problem_set(problem, SITU_E_UNSUPPORTED, "has values of type '%s', which this library does not have%s",
                           situ__shown(descr, shown), descr[0] == '>' ? ": they are big-endian" : "");
}

/* Reads one key and its value. Returns false, with the problem unset, if the syntax is wrong. */
static bool read_item(reader *r, situ_file_entry *out, bool *fortran, unsigned *seen, situ__problem *problem) {
  static const char *const keys[] = { "descr", "fortran_order", "shape" };
  char key[16], descr[64];
  if (!take_text(r, key, sizeof key) || !take_char(r, ':')) return false;
  int which = 0;
  while (which < 3 && strcmp(key, keys[which]) != 0) which++;
  if (which == 3 || *seen >> which & 1) return false;
  *seen |= 1u << which;
  if (which == 2) return take_shape(r, &out->shape, problem);
  if (which == 1) {
    *fortran = take_word(r, "True");
    return *fortran || take_word(r, "False");
  }
  if (take_text(r, descr, sizeof descr)) return find_type(descr, out, problem);
  if (take_char(r, '[') || take_char(r, '('))
    return situ__problem_set(problem, SITU_E_UNSUPPORTED, "has structured values, which are not a tensor");
  return false;
}

static bool read_dict(reader *r, situ_file_entry *out, bool *fortran, situ__problem *problem) {
  unsigned seen = 0;
  if (!take_char(r, '{')) return false;
  while (!take_char(r, '}')) {
    if (!read_item(r, out, fortran, &seen, problem)) return false;
    if (take_char(r, ',')) continue;
    if (!take_char(r, '}')) return false;
    break;
  }
  skip_space(r);
  return seen == 7 && r->end - r->at == 1 && *r->at == '\n';
}

bool situ__npy_parse(const char *text, size_t length, situ_file_entry *out, bool *fortran, situ__problem *problem) {
  reader r = { text, text + length };
  *out = (situ_file_entry){ .name = "", .type = "", .file = "" };
  *fortran = false;
  problem->status = SITU_OK;
  if (!read_dict(&r, out, fortran, problem)) {
    if (problem->status != SITU_OK) return false;
    return situ__problem_set(problem, SITU_E_FORMAT,
                             "has a header that is not a dict of descr, fortran_order and shape (at its byte %zu)",
                             (size_t)(r.at - text));
  }
  if (situ__shape_bytes(&out->shape, 8 * (int)situ_dtype_size(out->dtype), &out->bytes)) return true;
  return situ__problem_set(problem, SITU_E_FORMAT, "has a shape of more bytes than a file can have");
}
