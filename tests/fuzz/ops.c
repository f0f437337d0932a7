/* Fuzzes calls of ops: any shapes, dtypes, layouts and numbers. One input is one call. It is made on cpu and on sim:0, which
   must agree to the bit; in f64, which an f32 call must be near to; and with an allocation that fails.
   SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "op_calls.h"
#include "situ/autograd.h"
#include "situ/random.h"
#include "situ/sys/alloc.h"
#include "situ/sys/op.h"
#include "situ/tensor.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* ---- what an input says ---- */

typedef struct source {
  const uint8_t *data;
  size_t left;
} source;

static unsigned take(source *s) {
  if (!s->left) return 0;
  s->left--;
  return *s->data++;
}

typedef enum layout { ROWS, COLUMNS, STEPS, OFFSET, EXPANDED, SAME_AS_FIRST, LAYOUTS } layout;

typedef struct operand {
  char letter;
  situ_dtype dtype;
  situ_shape shape; /* as the call sees it */
  layout layout;
  bool special; /* values: NaN, infinities, large and tiny ones too */
  bool grad;
  uint32_t seed;
} operand;

typedef struct input {
  const char *name;
  const op_call *fuzzed; /* one of the two */
  const parity_row *fixed;
  bool narrow; /* f64 has other values by nature */
  int count;
  operand operand[PARITY_OPERANDS];
  op_numbers numbers;
  unsigned failing; /* which allocation fails; 0: none */
} input;

/* Small numbers most of the time; the others are those that overflow something. What would take gigabytes is left out. */
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

static situ_shape some_shape(source *s) {
  static const int64_t sizes[] = { 2, 3, 1, 4, 5, 7, 0, 2, 3, 1, 6, 33, 2, 3, 1, 17 };
  situ_shape shape = { .ndim = (int)(take(s) % 5) };
  for (int d = 0; d < shape.ndim; d++) shape.dim[d] = sizes[take(s) % 16];
  return shape;
}

static situ_shape some_numbers(source *s) {
  situ_shape shape = { .ndim = (int)(take(s) % 5) };
  for (int d = 0; d < shape.ndim; d++) shape.dim[d] = whole(s);
  return shape;
}

static void read_input(source *s, input *in) {
  const size_t fuzzed = sizeof op_calls / sizeof *op_calls, at = (take(s) << 8 | take(s)) % (fuzzed + parity_row_count);
  in->fuzzed = at < fuzzed ? &op_calls[at] : NULL;
  in->fixed = at < fuzzed ? NULL : &parity_rows[at - fuzzed];
  in->name = in->fuzzed ? in->fuzzed->name : in->fixed->op;
  /* Random numbers, and what depends on the dtype: rms_norm's default eps is the dtype's. */
  static const char *const narrow[] = { "to_dtype",   "nan_to_num", "dropout", "bernoulli",
                                        "bernoulli_", "uniform_",   "normal_", "rms_norm" };
  in->narrow = in->fuzzed && in->fuzzed->narrow;
  for (size_t k = 0; k < sizeof narrow / sizeof *narrow; k++) in->narrow |= strcmp(in->name, narrow[k]) == 0;
  in->failing = take(s) % 4 == 0 ? 1 + take(s) % 24 : 0;
  const unsigned way = take(s);
  const situ_dtype usual = way & 1 ? SITU_F32 : (situ_dtype)(1 + take(s) % (SITU_DTYPES - 1));
  const situ_shape base = some_shape(s);
  const char *letters = in->fuzzed ? in->fuzzed->operands : in->fixed->operands;
  for (in->count = 0; letters[in->count]; in->count++) {
    operand *o = &in->operand[in->count];
    const unsigned odd = take(s);
    o->letter = letters[in->count];
    o->shape = odd % 16 == 1 ? some_shape(s) : parity_shape(o->letter, base, (int)(way >> 5));
    if (o->shape.ndim > SITU_MAX_DIMS) o->shape.ndim = SITU_MAX_DIMS;
    o->dtype = odd % 16 == 2                ? (situ_dtype)(1 + take(s) % (SITU_DTYPES - 1))
               : o->letter == 'z'           ? SITU_BOOL
               : parity_is_index(o->letter) ? SITU_I64
                                            : usual;
    o->layout = odd & 128 ? (layout)(take(s) % LAYOUTS) : ROWS;
    if (!in->count && o->layout == SAME_AS_FIRST) o->layout = ROWS;
    o->special = (way & 14) == 2;
    o->grad = odd & 64 && !parity_is_constant(o->letter) && situ_dtype_is_floating(o->dtype);
    o->seed = take(s);
  }
  for (int k = 0; k < 4; k++) in->numbers.i[k] = whole(s);
  for (int k = 0; k < 2; k++) in->numbers.d[k] = real(s);
  for (int k = 0; k < 3; k++) in->numbers.s[k] = some_numbers(s);
}

static void describe(const input *in, const char *what) {
  char text[SITU_SHAPE_TEXT];
  fprintf(stderr, "situ_%s: %s\n", in->name, what);
  for (int k = 0; k < in->count; k++) {
    const operand *o = &in->operand[k];
    fprintf(stderr, "  operand %d: '%c' %s %s layout %d%s%s seed %u\n", k, o->letter, situ_dtype_name(o->dtype),
            situ_shape_text(&o->shape, text), (int)o->layout, o->special ? " special" : "", o->grad ? " grad" : "",
            (unsigned)o->seed);
  }
  const op_numbers *n = &in->numbers;
  if (in->fuzzed)
    fprintf(stderr, "  i = %lld %lld %lld %lld, d = %g %g", (long long)n->i[0], (long long)n->i[1], (long long)n->i[2],
            (long long)n->i[3], n->d[0], n->d[1]);
  for (int k = 0; k < 3 && in->fuzzed; k++) fprintf(stderr, ", s%d = %s", k, situ_shape_text(&n->s[k], text));
  fprintf(stderr, "\n  failing allocation %u; last error: %s\n", in->failing, situ_error_message());
}

static void wrong(const input *in, const char *what) {
  describe(in, what);
  abort();
}

/* ---- one run ---- */

static double value(const operand *o, int64_t limit, int64_t i, uint32_t *state) {
  static const double special[] = { NAN, INFINITY, -INFINITY, -0.0, 0,     1e30, -1e30, 1e-40,
                                    1,   -1,       300,       -300, 65504, 2,    0.5,   -2 };
  *state = *state * 1664525u + 1013904223u;
  const uint32_t r = *state >> 16;
  if (parity_is_index(o->letter))
    return o->seed % 8 == 7 ? (double)(r % 5) - 2 : (double)(r % (uint32_t)(limit > 0 ? limit : 1));
  if (o->special) return special[(r + (uint32_t)i) % 16];
  if (o->letter == 'q') return (r % 257) / 256.0;
  return o->letter == 'p' ? 0.25 + (r % 512) / 256.0 : (double)(r % 1024) / 256 - 2;
}

static int64_t numel_of(const situ_shape *s) {
  int64_t n = 1;
  for (int d = 0; d < s->ndim; d++) n *= s->dim[d];
  return n;
}

/* *leaf, and the view of it that the call is given; `wide`: its values in f64. */
static situ_tensor *make(const operand *o, int64_t limit, situ_device device, bool wide, situ_tensor **leaf) {
  situ_shape s = o->shape;
  const int last = s.ndim - 1;
  layout lay = s.ndim ? o->layout : ROWS;
  if (lay == COLUMNS)
    for (int d = 0; d < s.ndim; d++) s.dim[d] = o->shape.dim[last - d];
  if (lay == STEPS) s.dim[last] *= 2;
  if (lay == OFFSET) s.dim[0] += 3;
  if (lay == EXPANDED) s.dim[0] = s.dim[0] > 0;
  const int64_t count = numel_of(&s);
  double *values = malloc((size_t)(count + 1) * sizeof *values);
  if (!values) return NULL;
  uint32_t state = o->seed * 2654435761u + 1;
  for (int64_t i = 0; i < count; i++) values[i] = value(o, limit, i, &state);
  situ_tensor *x = situ_from_host(values, (size_t)count * sizeof *values, s, &(situ_options){ .dtype = SITU_F64 });
  free(values);
  x = situ_to_dtype(x, o->dtype);
  if (wide && situ_dtype_is_floating(o->dtype)) x = situ_to_dtype(x, SITU_F64);
  x = situ_to(x, device);
  *leaf = x = o->grad ? situ_requires_grad_(x, true) : x;
  situ_shape turn = { .ndim = s.ndim };
  for (int d = 0; d < s.ndim; d++) turn.dim[d] = last - d;
  if (lay == COLUMNS) return situ_permute(x, turn);
  if (lay == STEPS) return situ_slice(x, last, 1, INT64_MAX, 2);
  if (lay == OFFSET) return situ_narrow(x, 0, 2, o->shape.dim[0]);
  if (lay == EXPANDED) return situ_expand(x, o->shape);
  return x;
}

enum {
  AFTER = 2,
  GRADIENT = AFTER + PARITY_OPERANDS,
  BEFORE = GRADIENT + PARITY_OPERANDS,
  TENSORS = BEFORE + PARITY_OPERANDS,
  MOST = 1 << 16
};

/* Results, operands after the call, gradients, operands before the call; each is absent, or read out (or only its shape, where it is large). */
typedef struct outcome {
  situ_status status;
  bool null, backward;
  struct kept {
    situ_dtype dtype;
    situ_shape shape;
    int64_t count;
    void *data;
  } kept[TENSORS];
} outcome;

static void keep(const input *in, outcome *o, int k, situ_tensor *t) {
  if (!t) return;
  struct kept *to = &o->kept[k];
  to->dtype = situ_dtype_of(t);
  to->shape = situ_shape_of(t);
  to->count = situ_numel(t);
  const size_t bytes = (size_t)to->count * situ_dtype_size(to->dtype);
  if (to->count > MOST || !(to->data = malloc(bytes + 1))) return;
  if (situ_copy_to_host(t, to->data, bytes) != SITU_OK) wrong(in, "a tensor cannot be read");
}

static void forget(outcome *o) {
  for (int k = 0; k < TENSORS; k++) free(o->kept[k].data);
}

static outcome run(const input *in, situ_device device, bool wide, unsigned failing) {
  outcome o = { .status = SITU_OK };
  situ_tensor *leaf[PARITY_OPERANDS] = { NULL }, *t[PARITY_OPERANDS] = { NULL }, *also = NULL;
  const int64_t alive = situ_live_tensors();
  situ_scope scope;
  situ_scope_begin(&scope);
  op_numbers numbers = in->numbers;
  numbers.on = device;
  const situ_shape *first = &in->operand[0].shape;
  for (int k = 0; k < in->count; k++) {
    const operand *p = &in->operand[k];
    const bool columns = p->letter == 't' || first->ndim < 2;
    int64_t limit = first->ndim ? first->dim[columns ? first->ndim - 1 : first->ndim - 2] : 1;
    if (k == 0 && in->count > 1 && in->operand[1].shape.ndim) limit = in->operand[1].shape.dim[0]; /* embedding */
    const bool same = p->layout == SAME_AS_FIRST;
    t[k] = same ? t[0] : make(p, limit, device, wide, &leaf[k]);
    if (same) leaf[k] = leaf[0];
    if (!t[k]) wrong(in, "an operand cannot be made");
    if (in->failing) keep(in, &o, BEFORE + k, t[k]);
  }
  situ_manual_seed(3);
  if (failing) situ_fail_allocation(failing, false);
  situ_tensor *y = in->fuzzed ? in->fuzzed->call(t, &also, &numbers) : in->fixed->call(t, &also);
  o.null = !y;
  o.status = situ_error();
  if (!y != (o.status != SITU_OK)) wrong(in, y ? "a result, and an error" : "no result, and no error");
  /* A device with a queue finds a wrong index later; its result is not used then. */
  if (y && situ_synchronize(device) != SITU_OK) {
    o.null = true;
    o.status = situ_error();
    y = NULL;
  }
  if (y && situ_numel(y) <= MOST && situ_requires_grad(y)) {
    situ_tensor *ones = failing ? NULL : situ_ones_like(y, NULL);
    if (situ_numel(y) == 1 || ones) o.status = situ_backward(y, &(situ_backward_options){ .gradient = ones });
    o.backward = o.status == SITU_OK;
    if (o.status != situ_error()) wrong(in, "backward's status is not the error");
  }
  if (failing) situ_fail_allocation(0, false);
  situ_error_clear();
  keep(in, &o, 0, y);
  keep(in, &o, 1, y ? also : NULL);
  for (int k = 0; k < in->count; k++) {
    keep(in, &o, AFTER + k, t[k]);
    keep(in, &o, GRADIENT + k, situ_grad(leaf[k]));
  }
  if (situ_scope_end(&scope) != SITU_OK) wrong(in, "a deferred error");
  if (situ_live_tensors() != alive) wrong(in, "tensors are left alive");
  return o;
}

/* ---- comparing ---- */

static bool same_kept(const struct kept *a, const struct kept *b) {
  if (!a->data != !b->data || a->dtype != b->dtype || !situ_shape_equal(&a->shape, &b->shape)) return false;
  return !a->data || memcmp(a->data, b->data, (size_t)a->count * situ_dtype_size(a->dtype)) == 0;
}

/* A NaN may have any sign and payload. */
static bool same_values(const struct kept *a, const struct kept *b) {
  if (same_kept(a, b)) return true;
  if (!a->data || !b->data || a->dtype != b->dtype || !situ_shape_equal(&a->shape, &b->shape)) return false;
  for (int64_t i = 0; i < a->count; i++) {
    if (a->dtype == SITU_F32) {
      const float x = ((const float *)a->data)[i], y = ((const float *)b->data)[i];
      if (!(isnan(x) && isnan(y)) && memcmp(&x, &y, sizeof x) != 0) return false;
    } else if (a->dtype == SITU_F64) {
      const double x = ((const double *)a->data)[i], y = ((const double *)b->data)[i];
      if (!(isnan(x) && isnan(y)) && memcmp(&x, &y, sizeof x) != 0) return false;
    } else if (a->dtype == SITU_F16 || a->dtype == SITU_BF16) {
      const unsigned infinity = a->dtype == SITU_F16 ? 0x7C00u : 0x7F80u;
      const uint16_t x = ((const uint16_t *)a->data)[i], y = ((const uint16_t *)b->data)[i];
      if (!((x & 0x7FFFu) > infinity && (y & 0x7FFFu) > infinity) && x != y) return false;
    } else {
      return false;
    }
  }
  return true;
}

static void compare_devices(const input *in, const outcome *cpu, const outcome *sim) {
  if (cpu->status == SITU_E_NOMEM || sim->status == SITU_E_NOMEM) return; /* the budgets differ */
  if (cpu->status != sim->status) wrong(in, "cpu and sim:0 disagree about the error");
  for (int k = 0; k < TENSORS; k++)
    if (!same_values(&cpu->kept[k], &sim->kept[k]))
      wrong(in, k < AFTER ? "cpu and sim:0 have other results" : "cpu and sim:0 have other operands or gradients");
}

/* The values of f64, within 2e-4 of the largest number about: a wrong element is off by more, rounding in these small sums
   by less. Only for values that cannot overflow. */
static void compare_wide(const input *in, const outcome *f32, const outcome *f64) {
  if (f32->null != f64->null) wrong(in, "refused in one of f32 and f64");
  double scale = 1;
  for (int k = 0; k < TENSORS; k++)
    for (int64_t i = 0; f64->kept[k].data && f64->kept[k].dtype == SITU_F64 && i < f64->kept[k].count; i++) {
      const double v = fabs(((const double *)f64->kept[k].data)[i]);
      if (isfinite(v)) scale = fmax(scale, v);
    }
  if (scale > 1e6) return;
  for (int k = 0; k < TENSORS; k++) {
    const struct kept *a = &f32->kept[k], *b = &f64->kept[k];
    if (!a->data != !b->data || !situ_shape_equal(&a->shape, &b->shape)) wrong(in, "f32 and f64 have other shapes");
    if (!a->data || a->dtype != SITU_F32 || b->dtype != SITU_F64) {
      if (a->data && !same_kept(a, b)) wrong(in, "f32 and f64 have other whole numbers");
      continue;
    }
    for (int64_t i = 0; i < a->count; i++) {
      const double x = (double)((const float *)a->data)[i], y = ((const double *)b->data)[i];
      if (x == y || (isnan(x) && isnan(y)) || fabs(x - y) <= 2e-4 * scale) continue;
      fprintf(stderr, "tensor %d, element %lld: %.9g in f32, %.17g in f64\n", k, (long long)i, x, y);
      wrong(in, "f32 is far from f64");
    }
  }
}

static void compare_failing(const input *in, const outcome *good, const outcome *failed) {
  if (failed->status == SITU_OK || failed->status == good->status) return;
  if (failed->status != SITU_E_NOMEM) wrong(in, "an allocation failed, and the error is another one");
  for (int k = 0; k < in->count; k++) {
    if (failed->kept[GRADIENT + k].data) wrong(in, "a failed call left a gradient");
    /* Where backward failed, the call before it has written what it writes. */
    if (failed->null && !same_values(&failed->kept[BEFORE + k], &failed->kept[AFTER + k]))
      wrong(in, "a failed call changed an operand");
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  situ_error_mode(SITU_ERROR_QUIET);
  situ_error_clear();
  source s = { data, size };
  input in = { 0 };
  read_input(&s, &in);
  const situ_device cpu_device = situ_dev("cpu");
  outcome cpu = run(&in, cpu_device, false, 0), sim = run(&in, situ_dev("sim:0"), false, 0);
  compare_devices(&in, &cpu, &sim);
  forget(&sim);
  bool widens = !in.narrow && in.count > 0, any = false;
  for (int k = 0; k < in.count; k++) {
    const operand *o = &in.operand[k];
    any |= o->dtype == SITU_F32;
    widens = widens && !o->special && (o->dtype == SITU_F32 || !situ_dtype_is_floating(o->dtype));
  }
  for (int k = 0; k < 2; k++) widens = widens && (!in.fuzzed || fabs(in.numbers.d[k]) <= 8);
  if (widens && any) {
    outcome wide = run(&in, cpu_device, true, 0);
    compare_wide(&in, &cpu, &wide);
    forget(&wide);
  }
  if (in.failing) {
    outcome failed = run(&in, cpu_device, false, in.failing);
    compare_failing(&in, &cpu, &failed);
    forget(&failed);
  }
  forget(&cpu);
  return 0;
}
