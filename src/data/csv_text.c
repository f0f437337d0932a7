/* Parses numbers in text, row by row.
   SPDX-License-Identifier: MIT */
#include "data/csv_text.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/format.h"

/* ---- lines and fields ------------------------------------------------------------------------ */

/* An iterator over the rows. */
typedef struct lines {
  const char *at, *end; /* the remaining text */
  const char *line, *line_end;
  int64_t number;
} lines;

static bool next_line(lines *l) {
  if (l->at >= l->end) return false;
  const char *newline = memchr(l->at, '\n', (size_t)(l->end - l->at));
  l->line = l->at;
  l->line_end = newline ? newline : l->end;
  l->at = newline ? newline + 1 : l->end;
  if (l->line_end > l->line && l->line_end[-1] == '\r') l->line_end--;
  l->number++;
  return true;
}

static lines first_line(const situ__csv *csv) {
  lines l = { .at = csv->text, .end = csv->text + csv->length };
  /* Skip a UTF-8 byte order mark, which some programs write. */
  if (csv->length >= 3 && memcmp(csv->text, "\xEF\xBB\xBF", 3) == 0) l.at += 3;
  for (int64_t i = 0; i < csv->skip_lines && next_line(&l);) i++;
  return l;
}

bool situ__csv_measure(situ__csv *csv, situ__problem *problem) {
  lines l = first_line(csv);
  csv->rows = csv->columns = 0;
  while (next_line(&l)) {
    int64_t columns = 1;
    const char *at = l.line;
    for (; (at = memchr(at, csv->delimiter, (size_t)(l.line_end - at))); at++) columns++;
    if (csv->rows == 0) csv->columns = columns;
    if (columns != csv->columns)
      return situ__problem_set(problem, SITU_E_FORMAT, "line %lld has %lld fields, the first row has %lld",
                               (long long)l.number, (long long)columns, (long long)csv->columns);
    csv->rows++;
  }
  return csv->rows > 0 || situ__problem_set(problem, SITU_E_FORMAT, "there is no row in it");
}

/* ---- numbers --------------------------------------------------------------------------------- */

static const char *digits(const char *at, const char *end) {
  while (at < end && *at >= '0' && *at <= '9') at++;
  return at;
}

static bool is_word(const char *at, const char *end, const char *word) {
  size_t length = strlen(word);
  if ((size_t)(end - at) != length) return false;
  for (size_t i = 0; i < length; i++)
    if (tolower((unsigned char)at[i]) != word[i]) return false;
  return true;
}

/* Returns true for numbers in the syntax of the format; strtod also accepts hexadecimal numbers and NaNs with a
   payload. */
static bool is_number(const char *at, const char *end) {
  if (at < end && (*at == '+' || *at == '-')) at++;
  if (is_word(at, end, "nan") || is_word(at, end, "inf") || is_word(at, end, "infinity")) return true;
  const char *integer = digits(at, end), *rest = integer;
  bool any = integer > at;
  if (rest < end && *rest == '.') {
    const char *fraction = digits(rest + 1, end);
    any = any || fraction > rest + 1;
    rest = fraction;
  }
  if (!any) return false;
  if (rest < end && (*rest == 'e' || *rest == 'E')) {
    rest++;
    if (rest < end && (*rest == '+' || *rest == '-')) rest++;
    const char *exponent = digits(rest, end);
    if (exponent == rest) return false;
    rest = exponent;
  }
  return rest == end;
}

static bool read_integer(const char *at, const char *end, int64_t *out) {
  bool negative = at < end && *at == '-';
  if (at < end && (*at == '-' || *at == '+')) at++;
  if (at == end || digits(at, end) != end) return false;
  *out = 0;
  for (; at < end; at++) {
    int digit = *at - '0';
    if (__builtin_mul_overflow(*out, 10, out)) return false;
    if (negative ? __builtin_sub_overflow(*out, digit, out) : __builtin_add_overflow(*out, digit, out)) return false;
  }
  return true;
}

/* The smallest value that rounds to infinity in a dtype. */
static double beyond(situ_dtype dtype) {
  return dtype == SITU_F16 ? 65520.0 : dtype == SITU_BF16 ? 0x1.FFp127 : dtype == SITU_F32 ? 0x1.FFFFFFp127 : INFINITY;
}

static bool read_float(const char *at, const char *end, situ_dtype dtype, double *out) {
  int64_t integer;
  if (end - at <= 15 && *at != '-' && read_integer(at, end, &integer)) {
    *out = (double)integer; /* exact, and the usual case; excludes "-0" */
  } else {
    if (!is_number(at, end)) return false;
    char *stop;
    errno = 0;
    *out = situ__strtod(at, &stop);
    if (stop != end || (errno == ERANGE && isinf(*out))) return false;
  }
  return !(isfinite(*out) && fabs(*out) >= beyond(dtype));
}

static bool integer_fits(int64_t value, situ_dtype dtype) {
  switch (dtype) {
  case SITU_BOOL: return value == 0 || value == 1;
  case SITU_U8: return value >= 0 && value <= UINT8_MAX;
  case SITU_I8: return value >= INT8_MIN && value <= INT8_MAX;
  case SITU_I16: return value >= INT16_MIN && value <= INT16_MAX;
  case SITU_I32: return value >= INT32_MIN && value <= INT32_MAX;
  default: return true;
  }
}

/* Reads one field, without the blanks around it. */
static bool read_value(const char *at, const char *end, situ_dtype dtype, char *out) {
  while (at < end && (*at == ' ' || *at == '\t')) at++;
  while (end > at && (end[-1] == ' ' || end[-1] == '\t')) end--;
  if (at == end) return false;
  if (situ_dtype_is_floating(dtype)) {
    double value;
    if (!read_float(at, end, dtype, &value)) return false;
    float narrow = (float)value;
    if (dtype == SITU_F64) memcpy(out, &value, sizeof value);
    else memcpy(out, &narrow, sizeof narrow);
    return true;
  }
  int64_t value;
  if (!read_integer(at, end, &value) || !integer_fits(value, dtype)) return false;
  memcpy(out, &value, situ_dtype_size(dtype)); /* little-endian: the low bytes come first */
  return true;
}

static bool bad_field(const lines *l, int64_t column, const char *at, const char *end, situ_dtype dtype,
                      situ__problem *problem) {
  char field[40], shown[SITU__SHOWN_MAX];
  size_t length = (size_t)(end - at) < sizeof field - 1 ? (size_t)(end - at) : sizeof field - 1;
  memcpy(field, at, length);
  field[length] = '\0';
  return situ__problem_set(problem, SITU_E_FORMAT, "line %lld, field %lld: '%s' is not a valid %s",
                           (long long)l->number, (long long)column + 1, situ__shown(field, shown),
                           situ_dtype_name(dtype));
}

bool situ__csv_read(const situ__csv *csv, situ_dtype dtype, void *out, situ__problem *problem) {
  size_t step = dtype == SITU_F64               ? sizeof(double)
                : situ_dtype_is_floating(dtype) ? sizeof(float)
                                                : situ_dtype_size(dtype);
  char *to = out;
  bool fine = true;
  for (lines l = first_line(csv); fine && next_line(&l);) {
    const char *at = l.line;
    for (int64_t column = 0; fine && column < csv->columns; column++, to += step) {
      const char *found = memchr(at, csv->delimiter, (size_t)(l.line_end - at));
      const char *end = found ? found : l.line_end;
      fine = read_value(at, end, dtype, to) || bad_field(&l, column, at, end, dtype, problem);
      at = end + 1;
    }
  }
  return fine;
}
