/* Evaluates declared sizes, and compares values with them.
   SPDX-License-Identifier: MIT */
#include "declare.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/size.h"
#include "situ/sys/op.h"

/* ---- expressions ---- */

typedef struct reader {
  const situ__symbols *symbols;
  const char *at;
  int depth;
  bool data;
} reader;
enum { DEPTH = 64 };

static bool read_expression(reader *r, int64_t *out);

static bool take(reader *r, const char *text) {
  const size_t length = strlen(text);
  if (strncmp(r->at, text, length) != 0) return false;
  r->at += length;
  return true;
}

/* s0', positive=True, integer=True) */
static bool read_symbol(reader *r, int64_t *out) {
  const char *name = r->at, *end = strchr(name, '\''), *close = end ? strchr(end, ')') : NULL;
  const situ__program *p = r->symbols->program;
  if (!close) return false;
  r->at = close + 1;
  for (int32_t i = 0; i < p->symbols; i++) {
    if (strncmp(p->symbol[i].name, name, (size_t)(end - name)) != 0 || p->symbol[i].name[end - name]) continue;
    r->data |= r->symbols->data && r->symbols->data[i];
    *out = r->symbols->value[i];
    return *out >= 0;
  }
  return false;
}

static bool read_integer(reader *r, int64_t *out) {
  char *end;
  *out = strtoll(r->at, &end, 10);
  const bool fine = end != r->at && *end == ')';
  r->at = fine ? end + 1 : end;
  return fine;
}

static bool add(int64_t a, int64_t b, int64_t *out) { return situ__add_i64(a, b, out); }
static bool mul(int64_t a, int64_t b, int64_t *out) { return situ__mul_i64(a, b, out); }
static bool largest(int64_t a, int64_t b, int64_t *out) { return *out = situ__max_i64(a, b), true; }
static bool smallest(int64_t a, int64_t b, int64_t *out) { return *out = situ__min_i64(a, b), true; }
static bool floor_divide(int64_t a, int64_t b, int64_t *out) {
  if (b == 0 || (b == -1 && a == INT64_MIN)) return false;
  *out = a / b - (a % b != 0 && (a < 0) != (b < 0));
  return true;
}
static bool modulo(int64_t a, int64_t b, int64_t *out) {
  *out = b == 0 || b == -1 ? 0 : a % b; /* INT64_MIN % -1 overflows */
  if (*out != 0 && (*out < 0) != (b < 0)) *out += b;
  return b != 0;
}
static bool power(int64_t a, int64_t b, int64_t *out) {
  for (*out = 1; b > 0 && b < DEPTH; b--)
    if (!situ__mul_i64(*out, a, out)) return false;
  return b == 0;
}

/* a, b, ...) combined from the left. */
static bool read_arguments(reader *r, bool (*combine)(int64_t, int64_t, int64_t *), int64_t *out) {
  int64_t next;
  if (!read_expression(r, out)) return false;
  while (take(r, ", "))
    if (!read_expression(r, &next) || !combine(*out, next, out)) return false;
  return take(r, ")");
}

static bool read_expression(reader *r, int64_t *out) {
  static const struct {
    const char *name;
    bool (*combine)(int64_t, int64_t, int64_t *);
  } functions[] = {
    { "Add(", add },    { "Mul(", mul },          { "FloorDiv(", floor_divide }, { "CleanDiv(", floor_divide },
    { "Mod(", modulo }, { "PythonMod(", modulo }, { "Max(", largest },           { "Min(", smallest },
    { "Pow(", power }
  };
  if (r->depth == DEPTH) return false;
  if (take(r, "Symbol('")) return read_symbol(r, out);
  if (take(r, "Integer(")) return read_integer(r, out);
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
    if (!take(r, functions[i].name)) continue;
    r->depth++;
    const bool good = read_arguments(r, functions[i].combine, out);
    r->depth--;
    return good;
  }
  return false;
}

bool situ__declared_value(const situ__symbols *s, const situ__declared_size *size, int64_t *out, bool *data) {
  *out = size->value;
  if (!size->text) return true;
  reader r = { .symbols = s, .at = size->text };
  int64_t value;
  const bool known = read_expression(&r, &value) && !*r.at;
  *data |= r.data;
  if (known) *out = value;
  return known || (s->first && size->hinted);
}

/* ---- comparison ---- */

static bool has_size(const situ__symbols *s, const situ__declared_size *size, int64_t found) {
  bool data = false;
  int64_t value;
  const bool same = !situ__declared_value(s, size, &value, &data) || data || value == found;
  return same && (!s->first || !size->hinted || data || size->value == found);
}

static void add_declared(situ__text *text, const situ__symbols *s, const situ__declared *d) {
  bool data = false;
  situ__text_add(text, "%s [", situ_dtype_name(d->dtype));
  for (int32_t k = 0; k < d->dims; k++) {
    int64_t value;
    situ__text_add(text, "%s", k ? ", " : "");
    if (situ__declared_value(s, &d->size[k], &value, &data)) situ__text_add(text, "%" PRId64, value);
    else situ__text_add(text, "?");
    if (d->size[k].text && d->size[k].hinted && s->first && d->size[k].value != value)
      situ__text_add(text, " or %" PRId64, d->size[k].value);
  }
  situ__text_add(text, "]");
}

static bool refuse(const situ__symbols *s, const situ__declared *d, const situ_shape *shape, situ_dtype dtype,
                   situ__text *problem) {
  situ__text_add(problem, "%s is computed as %s ", d->name, situ_dtype_name(dtype));
  situ__text_dims(problem, shape->dim, shape->ndim);
  situ__text_add(problem, ", but the file declares ");
  add_declared(problem, s, d);
  return false;
}

static bool is_int_declared(const situ__symbols *s, const situ__declared *d, int64_t found, bool sizes,
                            situ__text *problem) {
  if (!sizes || has_size(s, d->size, found)) return true;
  bool data = false;
  int64_t value;
  (void)situ__declared_value(s, d->size, &value, &data);
  situ__text_add(problem, "%s is computed as %" PRId64 ", but the file declares %" PRId64, d->name, found,
                 value == found ? d->size->value : value);
  return false;
}

bool situ__declared_holds(const situ__symbols *s, int32_t v, const situ__value *value, bool sizes,
                          situ__text *problem) {
  const situ__program *p = s->program;
  const situ__declared *d = v < p->declareds ? &p->declared[v] : NULL;
  if (!d || !d->name) return true;
  if (d->dims < 0) return p->kind[v] != SITU__VALUE_INT || is_int_declared(s, d, value[v].integer, sizes, problem);
  const situ_view_desc *t = value[v].tensor ? situ_desc(value[v].tensor) : NULL;
  if (!t) return true;
  const situ_shape shape = situ_shape_of(value[v].tensor);
  bool same = (situ_dtype)t->dtype == d->dtype && (!sizes || shape.ndim == d->dims);
  for (int k = 0; k < shape.ndim && same && sizes; k++) same = has_size(s, &d->size[k], shape.dim[k]);
  return same || refuse(s, d, &shape, (situ_dtype)t->dtype, problem);
}

bool situ__program_check_node(const situ__symbols *s, const situ__program_node *n, const situ__value *value) {
  situ__text problem = { 0 };
  bool same = true;
  for (int32_t k = 0; k < n->outs && same; k++)
    same = n->out[k] < 0 || !situ__node_wants(n, k) || situ__declared_holds(s, n->out[k], value, true, &problem);
  if (!same) situ__fail(SITU_E_FORMAT, "export_load", "%s", problem.data ? problem.data : "no memory to say why");
  situ__text_free(&problem);
  return same;
}
