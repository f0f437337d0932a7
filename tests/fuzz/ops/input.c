/* Reads calls from bytes, and says them. See input.h.
   SPDX-License-Identifier: MIT */
#include "ops/input.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ops/calls.h"
#include "situ/error.h"
#include "situ/sys/shape.h"

static unsigned take(source *s) {
  if (!s->left) return 0;
  s->left--;
  return *s->data++;
}

/* Small numbers most of the time; the others are those that overflow something. */
static int64_t whole(source *s) {
  static const int64_t odd[] = {
    INT64_MAX, INT64_MIN, INT64_MAX - 1, INT64_C(1) << 62, INT64_C(1) << 40, -(INT64_C(1) << 40), 100, -100, 1000, -1000
  };
  const unsigned b = take(s);
  return b < 216 ? (int64_t)(b % 9) - 2 : odd[b % 10];
}

static double real(source *s) {
  static const double odd[] = { NAN, INFINITY, -INFINITY, 1e30, -1e30, 1e-30, -0.0, 1e300, 4294967296.0, -1e19 };
  const unsigned b = take(s);
  return b < 216 ? (b % 33) / 4.0 - 4 : odd[b % 10]; /* exact in every dtype */
}

int64_t numel_of(const situ_shape *s) {
  int64_t n = 1;
  for (int d = 0; d < s->ndim; d++) n *= s->dim[d];
  return n;
}

/* One in 16 is large enough for several threads; the others for every block and remainder of the kernels. */
static situ_shape some_shape(source *s) {
  static const int64_t sizes[] = { 2, 3, 1, 4, 5, 7, 0, 2, 3, 1, 6, 33, 2, 3, 1, 17 };
  const unsigned b = take(s);
  const int64_t most = b < 240 ? 1200 : 40000;
  situ_shape shape = { .ndim = (int)(b % 5) };
  int64_t numel = 1;
  for (int d = 0; d < shape.ndim; d++) {
    const int64_t size = sizes[take(s) % 16];
    shape.dim[d] = numel * size <= most ? size : 1 + size % 2;
    if (shape.dim[d]) numel *= shape.dim[d];
  }
  return shape;
}

static situ_shape some_numbers(source *s) {
  situ_shape shape = { .ndim = (int)(take(s) % 5) };
  for (int d = 0; d < shape.ndim; d++) shape.dim[d] = whole(s);
  return shape;
}

/* Random numbers, and what depends on the dtype: rms_norm's default eps is the dtype's. */
static bool is_narrow(const char *name) {
  static const char *const narrow[] = { "to_dtype",   "nan_to_num", "dropout", "bernoulli",
                                        "bernoulli_", "uniform_",   "normal_", "rms_norm" };
  for (size_t k = 0; k < sizeof narrow / sizeof *narrow; k++)
    if (strcmp(name, narrow[k]) == 0) return true;
  return false;
}

/* A result of this shape and dtype, from the number given on; that very number, where there is none of them. */
static int fitting(situ_tensor *const *results, unsigned from, const operand *o) {
  int any = MADE;
  for (unsigned k = 0; k < RESULTS; k++) {
    const int at = (int)((from + k) % RESULTS);
    if (!results[at]) continue;
    const situ_shape shape = situ_shape_of(results[at]);
    if (!o || (situ_dtype_of(results[at]) == o->dtype && situ_shape_equal(&shape, &o->shape))) return at;
    if (any == MADE) any = at;
  }
  return any;
}

static void from_result(operand *o, situ_tensor *const *results, int at) {
  o->from = at;
  if (at == MADE) return;
  o->shape = situ_shape_of(results[at]);
  o->dtype = situ_dtype_of(results[at]);
}

void read_call(source *s, call *c, situ_tensor *const *results, bool first) {
  const size_t fuzzed = sizeof op_calls / sizeof *op_calls;
  size_t at = take(s) << 8;
  at = (at | take(s)) % (fuzzed + parity_row_count);
  *c = (call){ .fuzzed = at < fuzzed ? &op_calls[at] : NULL, .fixed = at < fuzzed ? NULL : &parity_rows[at - fuzzed] };
  c->name = c->fuzzed ? c->fuzzed->name : c->fixed->op;
  c->narrow = (c->fuzzed && c->fuzzed->narrow) || is_narrow(c->name);
  c->failing = take(s) % 4 == 0 ? 1 + take(s) % 24 : 0;
  const unsigned way = take(s);
  const int start = way & 16 && !first ? fitting(results, take(s), NULL) : MADE;
  situ_dtype usual = way & 1 ? SITU_F32 : (situ_dtype)(1 + take(s) % (SITU_DTYPES - 1));
  situ_shape base = some_shape(s);
  if (start != MADE) {
    base = situ_shape_of(results[start]);
    usual = situ_dtype_of(results[start]);
  }
  const char *letters = c->fuzzed ? c->fuzzed->operands : c->fixed->operands;
  for (c->count = 0; letters[c->count]; c->count++) {
    operand *o = &c->operand[c->count];
    const unsigned odd = take(s);
    o->letter = letters[c->count];
    o->shape = odd % 16 == 1 ? some_shape(s) : parity_shape(o->letter, base, (int)(way >> 5));
    if (o->shape.ndim > SITU_MAX_DIMS) o->shape.ndim = SITU_MAX_DIMS;
    o->dtype = odd % 16 == 2                ? (situ_dtype)(1 + take(s) % (SITU_DTYPES - 1))
               : o->letter == 'z'           ? SITU_BOOL
               : parity_is_index(o->letter) ? SITU_I64
                                            : usual;
    o->layout = odd & 128 ? (layout)(take(s) % LAYOUTS) : ROWS;
    if (!c->count && o->layout == SAME_AS_FIRST) o->layout = ROWS;
    o->special = (way & 14) == 2;
    o->grad = odd & 64 && !parity_is_constant(o->letter) && situ_dtype_is_floating(o->dtype);
    o->seed = take(s);
    o->from = MADE;
    if (c->count == 0 && start != MADE) from_result(o, results, start);
    if (c->count > 0 && !first && odd % 16 >= 13) from_result(o, results, fitting(results, o->seed, o));
  }
  for (int k = 0; k < 4; k++) c->numbers.i[k] = whole(s);
  for (int k = 0; k < 2; k++) c->numbers.d[k] = real(s);
  for (int k = 0; k < 3; k++) c->numbers.s[k] = some_numbers(s);
  c->last = !s->left;
}

int64_t sum_length(const call *c) {
  int64_t most = 1;
  for (int k = 1; k < c->count; k++) {
    const situ_shape *s = &c->operand[k].shape, *x = &c->operand[0].shape;
    const int64_t n = numel_of(s), last = x->ndim ? x->dim[x->ndim - 1] : 1;
    int64_t length = 1;
    if (strchr("kKT", c->operand[k].letter)) length = n / 2;
    if (strchr("wRMm", c->operand[k].letter))
      length = s->ndim > 1 && s->dim[s->ndim - 2] > last ? s->dim[s->ndim - 2] : last;
    if (length > most) most = length;
  }
  return most;
}

void describe(const call *c, int number) {
  char text[SITU_SHAPE_TEXT];
  fprintf(stderr, "call %d: situ_%s\n", number, c->name);
  for (int k = 0; k < c->count; k++) {
    const operand *o = &c->operand[k];
    fprintf(stderr, "  operand %d: '%c' %s %s", k, o->letter, situ_dtype_name(o->dtype),
            situ_shape_text(&o->shape, text));
    if (o->from != MADE) fprintf(stderr, " result %d of call %d\n", o->from % 2, o->from / 2);
    else
      fprintf(stderr, " layout %d%s%s seed %u\n", (int)o->layout, o->special ? " special" : "", o->grad ? " grad" : "",
              (unsigned)o->seed);
  }
  const op_numbers *n = &c->numbers;
  if (c->fuzzed)
    fprintf(stderr, "  i = %lld %lld %lld %lld, d = %g %g", (long long)n->i[0], (long long)n->i[1], (long long)n->i[2],
            (long long)n->i[3], n->d[0], n->d[1]);
  for (int k = 0; k < 3 && c->fuzzed; k++) fprintf(stderr, ", s%d = %s", k, situ_shape_text(&n->s[k], text));
  fprintf(stderr, "%sfailing allocation %u\n", c->fuzzed ? "\n  " : "  ", c->failing);
}
