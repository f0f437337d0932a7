/* The same call on two devices. See parity.h.
   SPDX-License-Identifier: MIT */
#include "support/ops/parity.h"

#include <fenv.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "situ/sys/op.h"
#include "support/golden/gold.h"

/* The tolerances: |got - want| <= ulps * ulp(want) + (steps * u + kept * v) * scale. u is the roundoff of the arithmetic
   (2^-24; f64: 2^-53), v that of a 16-bit dtype, scale the largest magnitude among the call's operands and results. A
   simulated device gets none. */
static const struct tolerance {
  double ulps, ulps16; /* of f32 and f64; of f16 and bf16, which round an f32 */
  double steps, kept;
} tolerances[PARITY_CLASSES] = {
  [SAME] = { 0, 0, 0, 0 },   [MATH] = { 8, 1, 0, 0 },      [TAIL] = { 8, 1, 4, 0 },    [SUMS] = { 2, 1, 64, 0 },
  [CHAIN] = { 8, 2, 64, 0 }, [CELLS] = { 8, 2, 64, 0.25 }, [BLOCKS] = { 8, 2, 64, 1 }, [PRODUCTS] = { 2, 1, 256, 0 },
};

bool parity_is_missing(const parity_row *row) { return !strncmp(row->op, "linalg_", 7) && !test_has_lapack(); }

bool parity_is_integer(const parity_row *row) {
  const situ_op *const *ops;
  const size_t count = situ_op_table(&ops);
  for (size_t k = 0; k < count; k++)
    if (!strcmp(ops[k]->name, row->op))
      return ops[k]->operand[0].accept && !(ops[k]->operand[0].accept & SITU_FLOATING);
  return false;
}

/* ---- operands ------------------------------------------------------------------------------- */

/* TURNED: columns in memory; LAST: channels last, from 4 dimensions on. Both have the values of ROWS. */
typedef enum layout { ROWS, COLUMNS, STEPS, OFFSET, EXPANDED, SPECIAL, TURNED, LAST } layout;

/* Where a call runs, and the layout of its operands in place of the case's; ROWS: the case's. */
typedef struct place {
  situ_device device;
  layout lay;
} place;

static const struct shape_case {
  situ_shape shape;
  layout layout;
} cases[] = {
  { { 0, { 0 } }, ROWS },           { { 1, { 0 } }, ROWS },
  { { 1, { 1 } }, ROWS },           { { 1, { 7 } }, STEPS },
  { { 1, { 257 } }, ROWS },         { { 1, { 1000 } }, OFFSET },
  { { 1, { 32 } }, SPECIAL },       { { 2, { 3, 5 } }, ROWS },
  { { 2, { 3, 5 } }, COLUMNS },     { { 2, { 3, 5 } }, STEPS },
  { { 2, { 3, 5 } }, OFFSET },      { { 2, { 3, 5 } }, EXPANDED },
  { { 2, { 0, 4 } }, ROWS },        { { 2, { 4, 0 } }, COLUMNS },
  { { 2, { 1, 1 } }, ROWS },        { { 2, { 33, 17 } }, COLUMNS },
  { { 2, { 17, 33 } }, STEPS },     { { 2, { 2, 700 } }, ROWS },
  { { 2, { 300, 3 } }, COLUMNS },   { { 3, { 2, 3, 4 } }, ROWS },
  { { 3, { 2, 3, 4 } }, COLUMNS },  { { 3, { 5, 1, 3 } }, EXPANDED },
  { { 3, { 4, 9, 6 } }, OFFSET },   { { 4, { 2, 1, 2, 3 } }, COLUMNS },
  { { 4, { 2, 3, 2, 5 } }, STEPS }, { { 5, { 3, 2, 1, 2, 4 } }, COLUMNS },
  { { 2, { 5, 64 } }, ROWS },       { { 3, { 6, 2, 9 } }, STEPS },
  { { 4, { 2, 3, 4, 5 } }, ROWS },  { { 4, { 1, 6, 5, 3 } }, ROWS },
};
enum { CASES = sizeof cases / sizeof *cases };

static double value(char letter, situ_dtype dtype, int at, int64_t limit, int64_t i, uint32_t *state) {
  *state = *state * 1664525u + 1013904223u;
  double r = (*state >> 8) / 16777216.0;
  static const double special[] = { NAN,  INFINITY, -INFINITY, -0.0,  0,  1,   -1,      0.5,
                                    -2.5, 1e-40,    2,         -0.25, 88, -88, 0x1p-24, 10 };
  if (parity_is_index(letter)) return floor(r * (double)limit);
  if (letter == 'q') return r;
  if (situ_dtype_is_floating(dtype)) {
    if (cases[at].layout == SPECIAL && letter == 'x') return special[i % 16];
    return letter == 'p' ? 0.25 + 2 * r : 4 * r - 2;
  }
  if (letter == 'p') return 1 + floor(3 * r);
  return dtype == SITU_U8 ? floor(7 * r) : floor(7 * r) - 3;
}

/* A leaf's values in another order of memory. */
static situ_tensor *lay_out(situ_tensor *x, layout lay) {
  const int n = situ_dim(x);
  situ_shape there = { .ndim = n }, back = { .ndim = n };
  for (int d = 0; d < n; d++) there.dim[d] = n - 1 - d; /* from the outermost to the innermost dimension */
  if (lay == LAST)
    for (int d = 0; d < n; d++) there.dim[d] = d == 0 ? 0 : d == n - 1 ? 1 : d + 1;
  for (int d = 0; d < n; d++) back.dim[there.dim[d]] = d;
  return situ_detach(situ_permute(situ_contiguous(situ_permute(x, there)), back));
}

/* The leaf on `device`, and *view: the operand, a view of it. */
static situ_tensor *make(char letter, situ_dtype dtype, int at, int which, const place *where, bool grad,
                         situ_tensor **view) {
  const situ_device device = where->device;
  situ_shape want = parity_shape(letter, cases[at].shape, at), s = want;
  layout lay = letter == 'y' || where->lay ? ROWS : cases[at].layout;
  const int last = s.ndim - 1;
  if (!s.ndim) lay = ROWS;
  if (lay == COLUMNS)
    for (int d = 0; d < s.ndim; d++) s.dim[d] = want.dim[last - d];
  if (lay == STEPS) s.dim[last] *= 2;
  if (lay == OFFSET) s.dim[0] += 3;
  if (lay == EXPANDED) s.dim[0] = s.dim[0] > 0;
  int64_t count = 1, limit = parity_shape(letter == 't' ? 'v' : 'u', cases[at].shape, at).dim[0];
  for (int d = 0; d < s.ndim; d++) count *= s.dim[d];
  double *values = malloc((size_t)(count + 1) * sizeof *values);
  uint32_t state = (uint32_t)(at * 8 + which) * 2654435761u + 1;
  for (int64_t i = 0; i < count; i++) values[i] = value(letter, dtype, at, limit, i, &state);
  if (letter == 'z') dtype = SITU_BOOL;
  if (parity_is_index(letter)) dtype = SITU_I64;
  situ_tensor *wide = situ_from_host(values, (size_t)count * sizeof *values, s,
                                     &(situ_options){ .dtype = SITU_F64, .device = situ_dev("cpu") });
  free(values);
  situ_tensor *x = situ_to(situ_to_dtype(wide, dtype), device);
  if (where->lay && letter != 'y' && (where->lay == TURNED || s.ndim >= 4)) x = lay_out(x, where->lay);
  if (grad && !parity_is_constant(letter) && situ_dtype_is_floating(dtype)) x = situ_requires_grad_(x, true);
  *view = x;
  situ_shape turn = { .ndim = s.ndim };
  for (int d = 0; d < s.ndim; d++) turn.dim[d] = last - d;
  if (lay == COLUMNS) *view = situ_permute(x, turn);
  if (lay == STEPS) *view = situ_slice(x, last, 1, INT64_MAX, 2);
  if (lay == OFFSET) *view = situ_narrow(x, 0, 2, want.dim[0]);
  if (lay == EXPANDED) *view = situ_expand(x, want);
  if (!*view) fail_msg("operand %c of case %d: %s", letter, at, situ_error_message());
  return x;
}

/* ---- one call ------------------------------------------------------------------------------- */

enum { RESULTS = 2, TENSORS = RESULTS + 2 * PARITY_OPERANDS };

/* Results, operands after the call (it may write to them), gradients: each is NULL or read out. */
typedef struct outcome {
  situ_status status;
  situ_dtype dtype[TENSORS];
  situ_shape shape[TENSORS];
  int64_t count[TENSORS];
  void *data[TENSORS];
} outcome;

static void keep(outcome *o, int k, situ_tensor *t) {
  if (!t) return;
  o->dtype[k] = situ_dtype_of(t);
  o->shape[k] = situ_shape_of(t);
  o->count[k] = situ_numel(t);
  const size_t bytes = (size_t)o->count[k] * situ_dtype_size(o->dtype[k]);
  o->data[k] = malloc(bytes + 1);
  if (situ_copy_to_host(t, o->data[k], bytes) != SITU_OK) fail_msg("reading tensor %d: %s", k, situ_error_message());
}

static const parity_environment *environment; /* of calls; NULL: the default one */
static bool environment_lost;
static void enter(void) {
  if (environment) environment->begin();
}
static void leave(void) {
  if (environment && !environment->is_set()) environment_lost = true;
  fesetenv(FE_DFL_ENV);
}

static outcome run(const parity_row *row, situ_dtype dtype, int at, const place *where) {
  situ_tensor *leaf[PARITY_OPERANDS] = { NULL }, *t[PARITY_OPERANDS] = { NULL }, *also = NULL;
  outcome o = { 0 };
  situ_scope s;
  situ_scope_begin(&s);
  for (int k = 0; row->operands[k]; k++)
    leaf[k] = make(row->operands[k], dtype, at, k, where, row->backward != NO_GRAD, &t[k]);
  situ_manual_seed(3);
  enter();
  situ_tensor *y = row->call(t, &also);
  leave();
  o.status = situ_error();
  if (y) {
    keep(&o, 0, y);
    keep(&o, 1, also);
    for (int k = 0; row->operands[k]; k++) keep(&o, RESULTS + k, t[k]);
  }
  if (y && situ_requires_grad(y)) {
    situ_options near = { .dtype = situ_dtype_of(y), .device = situ_dev("cpu") };
    situ_tensor *seed = situ_to(situ_rand(situ_shape_of(y), &near), situ_device_of(y));
    enter();
    o.status = situ_backward(y, &(situ_backward_options){ .gradient = seed });
    leave();
    for (int k = 0; row->operands[k] && o.status == SITU_OK; k++)
      keep(&o, RESULTS + PARITY_OPERANDS + k, situ_grad(leaf[k]));
  }
  situ_error_clear();
  if (situ_scope_end(&s) != SITU_OK && o.status == SITU_OK) o.status = situ_error();
  situ_error_clear();
  return o;
}

static void forget(outcome *o) {
  for (int k = 0; k < TENSORS; k++) free(o->data[k]);
}

/* ---- comparing ------------------------------------------------------------------------------ */

static double largest(const outcome *o) {
  double most = 0;
  for (int k = 0; k < TENSORS; k++)
    for (int64_t i = 0; i < o->count[k]; i++) {
      double v = fabs(gold_value(o->dtype[k], o->data[k], i));
      if (isfinite(v)) most = fmax(most, v);
    }
  return most;
}

/* The distance of a number of this size to the next one. */
static double ulp(situ_dtype dtype, double x) {
  static const struct {
    int digits, lowest;
  } of[SITU_DTYPES] = {
    [SITU_F16] = { 11, -24 }, [SITU_BF16] = { 8, -133 }, [SITU_F32] = { 24, -149 }, [SITU_F64] = { 53, -1074 }
  };
  int exponent = 0;
  if (x != 0 && isfinite(x)) (void)frexp(x, &exponent);
  exponent -= of[dtype].digits;
  return ldexp(1, x == 0 || exponent < of[dtype].lowest ? of[dtype].lowest : exponent);
}

typedef struct verdict {
  int done, most;  /* calls that were not refused: of this dtype, of any one dtype */
  double worst[2]; /* difference / what is allowed: results, gradients */
  int failed;
} verdict;

static bool same_tensor(const outcome *want, const outcome *got, int k, parity_class c, double scale, double *worst,
                        char *text, size_t size) {
  const situ_dtype dtype = want->dtype[k];
  if (!want->data[k] != !got->data[k] || dtype != got->dtype[k] || want->shape[k].ndim != got->shape[k].ndim ||
      memcmp(want->shape[k].dim, got->shape[k].dim, (size_t)want->shape[k].ndim * sizeof(int64_t)) != 0) {
    (void)snprintf(text, size, "tensor %d has another shape or dtype", k);
    return false;
  }
  const bool half = dtype == SITU_F16 || dtype == SITU_BF16, floating = situ_dtype_is_floating(dtype);
  for (int64_t i = 0; i < want->count[k]; i++) {
    double w = gold_value(dtype, want->data[k], i), g = gold_value(dtype, got->data[k], i);
    if (w == g || (isnan(w) && isnan(g))) continue;
    const struct tolerance *t = &tolerances[c];
    const double kept = dtype == SITU_F16 ? 0x1p-11 : dtype == SITU_BF16 ? 0x1p-8 : 0;
    double allowed = !floating ? 0
                               : (half ? t->ulps16 : t->ulps) * ulp(dtype, w) +
                                     (t->steps * (dtype == SITU_F64 ? 0x1p-53 : 0x1p-24) + t->kept * kept) * scale;
    double ratio = allowed > 0 && isfinite(w) && isfinite(g) ? fabs(w - g) / allowed : INFINITY;
    *worst = fmax(*worst, ratio);
    if (ratio <= 1) continue;
    (void)snprintf(text, size, "tensor %d: element %lld is %.9g, on the host %.9g (%.2g ulps, %.2g of what is allowed)",
                   k, (long long)i, g, w, floating ? fabs(w - g) / ulp(dtype, w) : INFINITY, ratio);
    return false;
  }
  return true;
}

static bool same_bits(const outcome *a, const outcome *b, char *text, size_t size) {
  for (int k = 0; k < TENSORS; k++) {
    if (a->count[k] == b->count[k] &&
        (!a->data[k] || memcmp(a->data[k], b->data[k], (size_t)a->count[k] * situ_dtype_size(a->dtype[k])) == 0))
      continue;
    (void)snprintf(text, size, "tensor %d has other bits when run again", k);
    return false;
  }
  return true;
}

static bool same_outcome(const parity_row *row, int at, const outcome *want, const outcome *got, bool exact, verdict *v,
                         char *text, size_t size) {
  if (want->status != got->status) {
    (void)snprintf(text, size, "%s, not %s", situ_status_name(got->status), situ_status_name(want->status));
    return false;
  }
  const double scale = largest(want);
  bool good = true;
  for (int k = 0; k < TENSORS && good; k++) {
    const int back = k >= RESULTS + PARITY_OPERANDS;
    parity_class c = exact ? SAME : back ? row->backward : row->forward;
    /* the gradient of what is read several times is a sum */
    if (back && c == SAME && cases[at].layout == EXPANDED && !exact) c = SUMS;
    good = same_tensor(want, got, k, c, scale, &v->worst[back], text, size);
  }
  return good;
}

static void compare(const parity_row *row, situ_dtype dtype, int at, situ_device device, bool twice, verdict *v) {
  const place host = { situ_dev("cpu"), ROWS }, there = { device, ROWS };
  outcome want = run(row, dtype, at, &host), got = run(row, dtype, at, &there);
  char text[256] = "";
  bool good = same_outcome(row, at, &want, &got, device.kind == SITU_SIM, v, text, sizeof text);
  if (good && twice) {
    outcome again = run(row, dtype, at, &there);
    good = same_bits(&got, &again, text, sizeof text);
    forget(&again);
  }
  if (!good && v->failed++ < 3) print_error("%s %s, case %d: %s\n", row->op, situ_dtype_name(dtype), at, text);
  v->done += want.status == SITU_OK;
  forget(&want);
  forget(&got);
}

int parity_layouts(const parity_row *row, situ_device device, situ_dtype dtype) {
  verdict v = { 0 };
  for (int at = 0; at < CASES; at++) {
    if (cases[at].layout != ROWS || cases[at].shape.ndim < 2) continue;
    const place rows = { device, ROWS };
    outcome want = run(row, dtype, at, &rows);
    for (layout lay = TURNED; lay <= LAST; lay++) {
      const place laid = { device, lay };
      outcome got = run(row, dtype, at, &laid);
      char text[256] = "";
      const bool good = same_outcome(row, at, &want, &got, false, &v, text, sizeof text);
      if (!good && v.failed++ < 3)
        print_error("%s %s, case %d, %s: %s\n", row->op, situ_dtype_name(dtype), at,
                    lay == LAST ? "channels last" : "columns", text);
      forget(&got);
    }
    v.done += want.status == SITU_OK;
    forget(&want);
  }
  return v.failed ? -1 : v.done;
}

int parity_in(const parity_row *row, situ_device device, situ_dtype dtype, const parity_environment *environments,
              int count) {
  const place here = { device, ROWS };
  verdict v = { 0 };
  for (int at = 0; at < CASES; at++) {
    outcome want = run(row, dtype, at, &here);
    for (int e = 0; e < count; e++) {
      environment = &environments[e], environment_lost = false;
      outcome got = run(row, dtype, at, &here);
      environment = NULL;
      char text[256] = "the environment is not what it was";
      const bool good = !environment_lost && same_bits(&want, &got, text, sizeof text) && want.status == got.status;
      if (!good && v.failed++ < 3)
        print_error("%s %s, case %d, %s: %s\n", row->op, situ_dtype_name(dtype), at, environments[e].name, text);
      forget(&got);
    }
    v.done += want.status == SITU_OK;
    forget(&want);
  }
  return v.failed ? -1 : v.done;
}

int parity_run(const parity_row *row, situ_device device, unsigned dtypes, bool fewer, bool gaps) {
  verdict v = { 0 };
  int taken = 0;
  for (int dtype = SITU_BOOL; dtype < SITU_DTYPES; dtype++) {
    if (!(dtypes >> dtype & 1)) continue;
    v.done = 0;
    const bool chosen = dtype == SITU_F32 || dtype == SITU_I64;
    for (int at = 0; at < CASES; at++)
      if ((gaps || cases[at].layout == ROWS || cases[at].layout == SPECIAL) &&
          (!fewer || chosen || (at + dtype) % 2 == 0))
        compare(row, (situ_dtype)dtype, at, device, getenv("SITU_TEST_ALL") || (chosen && at % 2 == 0), &v);
    if (v.done > v.most) v.most = v.done;
    taken += v.done > 0;
  }
  print_message("%-28s %2d dtypes, %2d shapes; worst %.2g, gradients %.2g of what is allowed%s\n", row->op, taken,
                v.most, v.worst[0], v.worst[1], v.failed ? ": DIFFERS" : "");
  return v.failed ? -1 : v.most;
}
