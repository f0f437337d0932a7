/* What the bytes of an input choose.
   SPDX-License-Identifier: MIT */
#include "draw.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static unsigned draw_byte(draw *d) { return d->at < d->end ? *d->at++ : 0; }

unsigned draw_below(draw *d, unsigned n) {
  unsigned value = draw_byte(d);
  if (n > 256) value = value << 8 | draw_byte(d);
  return value % n;
}

bool draw_once_in(draw *d, unsigned n) { return draw_below(d, n) == n - 1; }

int64_t draw_int(draw *d) {
  static const int64_t large[] = {
    INT64_MIN, INT64_MAX,        INT64_C(1) << 62, -(INT64_C(1) << 62),    INT64_C(1) << 31, INT32_MAX,
    INT32_MIN, INT64_C(1) << 40, 1000000,          (INT64_C(1) << 62) + 1, -INT64_MAX,       65536
  };
  const unsigned b = draw_byte(d);
  if (b < 240) return (int64_t)(b % 12) - 3;
  d->huge = true;
  return large[b % (sizeof large / sizeof *large)];
}

double draw_real(draw *d) {
  static const double others[] = {
    NAN, INFINITY, -INFINITY, -0.0, 1e-30, 1e30, -3.7e9, 1e300, 4e-320, 9.3e18, 0.1, 255
  };
  const unsigned b = draw_byte(d);
  return b < 192 ? ((int)b - 64) * 0.25 : others[b % (sizeof others / sizeof *others)];
}

int draw_length(draw *d) {
  const unsigned b = draw_byte(d);
  return b < 200 ? (int)(b % 5) : b < 250 ? (int)(b % 10) : 70;
}

const situ__op_row *draw_row(draw *d, const situ__op_family *const *family, int families) {
  int count = 0;
  for (int i = 0; i < families; i++) count += family[i]->count;
  int at = (int)draw_below(d, (unsigned)count + 256) % count;
  for (int i = 0; i < families; at -= family[i++]->count)
    if (at < family[i]->count) return &family[i]->row[at];
  return NULL;
}

const char *draw_next(draw *d, const char *at, draw_parameter *out) {
  if (!at || !*at) return NULL;
  if (*at == '*') at++;
  *out = (draw_parameter){ .type = *at++ };
  out->optional = *at == '?';
  at += out->optional;
  const int length = (int)strcspn(++at, "=,(");
  (void)snprintf(out->name, sizeof out->name, "%.*s", length, at);
  at += length;
  if (*at == '(') {
    int count = 1;
    for (const char *c = at; *c != ')'; c++) count += *c == '|';
    for (int skip = (int)draw_below(d, (unsigned)count); skip; skip--) at += strcspn(at + 1, "|") + 1;
    (void)snprintf(out->choice, sizeof out->choice, "%.*s", (int)strcspn(at + 1, "|)"), at + 1);
  }
  out->optional |= at[strcspn(at, "=,")] == '=';
  at += strcspn(at, ",");
  return at + strspn(at, ", ");
}

draw_sizes draw_shape(draw *d, const draw_sizes *common) {
  draw_sizes s = { 0 };
  const unsigned how = common ? draw_below(d, 8) : 7;
  if (how == 0) return s;
  if (how < 5) s = *common;
  if (how == 3 || how == 4)
    for (int i = 0; how == 3 && 2 * i + 1 < s.count; i++) {
      const int64_t other = s.dim[i];
      s.dim[i] = s.dim[s.count - 1 - i];
      s.dim[s.count - 1 - i] = other;
    }
  if (how == 4 && s.count) s.count = 1;
  if (how < 5) return s;
  s.count = (int)draw_below(d, 24);
  s.count = s.count < 20 ? s.count % 5 : s.count % 7;
  for (int i = 0; i < s.count; i++) s.dim[i] = "\1\2\3\4\5\6\2\3\0\1\7\11"[draw_below(d, 12)];
  return s;
}
