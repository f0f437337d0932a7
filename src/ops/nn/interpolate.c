/* interpolate: one pass along each spatial dimension, in f32 for the 16-bit dtypes and u8. The gradient is the same
   passes transposed, in reverse.
   SPDX-License-Identifier: MIT */
#include <math.h>

#include "base/fail.h"
#include "base/size.h"
#include "ops/ops.h"

enum { SPATIAL = 3 };

typedef struct pass {
  int dim;
  int64_t size, out;
  double scale;
} pass;

typedef struct interpolate_params {
  pass pass[SPATIAL];
  int passes;
  situ_resample_rule rule;
  bool align, transposed;
} interpolate_params;

/* ---- the op ---- */

static bool infer(situ_call *c) {
  const interpolate_params *p = c->params;
  if (!situ_infer_like(c)) return false;
  if (!situ_dtype_is_floating(c->dtype[0]) && c->dtype[0] != SITU_U8)
    return situ_refuse(c, SITU_E_DTYPE, "input is %s, must be floating or u8", situ_dtype_name(c->dtype[0]));
  for (int k = 0; k < p->passes; k++)
    c->shape[0].dim[p->pass[k].dim] = p->transposed ? p->pass[k].size : p->pass[k].out;
  return true;
}

static bool resample(const situ_call *c, const pass *s, situ_tensor *x, situ_tensor *y) {
  const interpolate_params *p = c->params;
  return situ_launch(c->op->name, c->device,
                     &(situ_work){ SITU_VERB_RESAMPLE, .op = p->transposed, .compute = situ_dtype_of(y), .ins = 1,
                                   .outs = 1, .in = { situ_desc(x) }, .out = { situ_desc(y) },
                                   .integer = { s->dim, p->rule, p->align }, .scalar = { s->scale } });
}

/* y = x, cast. */
static bool copied(const situ_call *c, situ_tensor *x, situ_tensor *y) {
  return situ_launch(
      c->op->name, c->device,
      &(situ_work){ SITU_VERB_COPY, .ins = 1, .outs = 1, .in = { situ_desc(x) }, .out = { situ_desc(y) } });
}

/* Each pass of u8 rounds, and what overshoots is cut, as in torch, whose weights are whole numbers: values may differ
   by 1. */
static situ_tensor *round_to_u8(situ_tensor *x) {
  return situ_clamp(situ_floor(situ_add_scalar(x, 0.5)), 0, UINT8_MAX);
}

static bool forward(situ_call *c) {
  const interpolate_params *p = c->params;
  const situ_dtype wide = c->dtype[0] == SITU_F64 ? SITU_F64 : SITU_F32;
  situ_tensor *x = situ_contiguous(situ_to_dtype(c->in[0], wide));
  for (int k = 0; x && k < p->passes; k++) {
    const pass *s = &p->pass[p->transposed ? p->passes - 1 - k : k];
    situ_shape shape = situ_shape_of(x);
    shape.dim[s->dim] = p->transposed ? s->size : s->out;
    situ_tensor *y =
        k == p->passes - 1 && wide == c->dtype[0] ? c->out[0] : situ_op_new(c->op->name, shape, wide, c->device);
    x = y && resample(c, s, x, y) ? y : NULL;
    if (c->dtype[0] == SITU_U8) x = round_to_u8(x);
  }
  return x && (x == c->out[0] || copied(c, x, c->out[0]));
}

static situ_tensor *run(situ_tensor *x, const interpolate_params *p);

static bool backward(situ_grad_call *g) {
  interpolate_params p = *(const interpolate_params *)g->params;
  p.transposed = !p.transposed;
  return (g->dx[0] = run(g->grad[0], &p)) != NULL;
}

/* ATen has one overload for each mode and number of sizes; places must follow from the sizes. */
static bool traced(const situ_call *c, situ_export_trace *t) {
  static const char *const targets[][SPATIAL] = {
    [SITU_RESAMPLE_NEAREST] = { "upsample_nearest1d.vec", "upsample_nearest2d.vec", NULL },
    [SITU_RESAMPLE_LINEAR] = { "upsample_linear1d.vec", "upsample_bilinear2d.vec", NULL },
    [SITU_RESAMPLE_CUBIC] = { NULL, "upsample_bicubic2d.vec", NULL },
    [SITU_RESAMPLE_RULES] = { NULL },
  };
  const interpolate_params *p = c->params;
  const int spatial = c->shape[0].ndim - 2;
  const char *target = targets[p->rule][spatial - 1];
  situ_shape size = { .ndim = spatial };
  for (int d = 0; d < spatial; d++) size.dim[d] = c->shape[0].dim[2 + d];
  for (int k = 0; k < p->passes; k++) {
    const pass *s = &p->pass[k];
    if (!p->align && s->scale != (double)s->size / (double)s->out) target = NULL;
  }
  if (p->rule == SITU_RESAMPLE_NEAREST) return situ_export_call(t, target, "tI", c->in[0], &size);
  return situ_export_call(t, target, "tIb", c->in[0], &size, (int)p->align);
}

SITU_OP(interpolate_op) = { .name = "interpolate",
                            .traced = traced,
                            .operand = { { "input", SITU_FLOATING | SITU_INTEGRAL } },
                            .flags = SITU_OP_COMPOSED | SITU_OP_LINEAR | SITU_OP_FORMAT | SITU_OP_ROWS,
                            .params_size = sizeof(interpolate_params),
                            .infer = infer,
                            .forward = forward,
                            .backward = backward,
                            .backward_recorded = backward };

static situ_tensor *run(situ_tensor *x, const interpolate_params *p) { return situ_op_run1(&interpolate_op, x, p); }

/* ---- options ---- */

/* Rule and number of spatial dimensions (0: any) of each mode. */
static const struct {
  const char *name;
  int spatial;
  situ_resample_rule rule, wide;
  bool aligns;
} modes[] = { [SITU_INTERPOLATE_NEAREST] = { "nearest", 0, SITU_RESAMPLE_NEAREST, SITU_RESAMPLE_RULES, false },
              [SITU_INTERPOLATE_LINEAR] = { "linear", 1, SITU_RESAMPLE_LINEAR, SITU_RESAMPLE_RULES, true },
              [SITU_INTERPOLATE_BILINEAR] = { "bilinear", 2, SITU_RESAMPLE_LINEAR, SITU_RESAMPLE_LINEAR_WIDE, true },
              [SITU_INTERPOLATE_BICUBIC] = { "bicubic", 2, SITU_RESAMPLE_CUBIC, SITU_RESAMPLE_CUBIC_WIDE, true },
              [SITU_INTERPOLATE_TRILINEAR] = { "trilinear", 3, SITU_RESAMPLE_LINEAR, SITU_RESAMPLE_RULES, true },
              [SITU_INTERPOLATE_AREA] = { "area", 0, SITU_RESAMPLE_AREA, SITU_RESAMPLE_RULES, false },
              [SITU_INTERPOLATE_NEAREST_EXACT] = { "nearest-exact", 0, SITU_RESAMPLE_NEAREST_EXACT, SITU_RESAMPLE_RULES,
                                                   false } };

static bool refuse(situ_status status, const char *why) { return situ__fail(status, "interpolate", "%s", why), false; }

static bool check(const situ_tensor *x, const situ_interpolate_options *o) {
  if ((unsigned)o->mode >= sizeof modes / sizeof *modes)
    return situ__fail(SITU_E_ARG, "interpolate", "%d is not a mode", (int)o->mode), false;
  const int spatial = x->view.ndim - 2;
  if (spatial < 1 || spatial > SPATIAL || (modes[o->mode].spatial && modes[o->mode].spatial != spatial))
    return situ__fail(SITU_E_SHAPE, "interpolate", "mode %s of a tensor of %d dimensions: it takes [N, C, ...] with %s",
                      modes[o->mode].name, x->view.ndim,
                      ((const char *[]){ "1 to 3 sizes", "1 size", "2 sizes", "3 sizes" })[modes[o->mode].spatial]),
           false;
  const bool of_u8 = o->mode == SITU_INTERPOLATE_NEAREST || o->mode == SITU_INTERPOLATE_NEAREST_EXACT ||
                     o->mode == SITU_INTERPOLATE_BILINEAR || o->mode == SITU_INTERPOLATE_BICUBIC;
  if (x->view.dtype == SITU_U8 && !of_u8)
    return refuse(SITU_E_DTYPE, "input is u8: modes linear, trilinear and area take floating dtypes");
  if (o->align_corners && !modes[o->mode].aligns)
    return refuse(SITU_E_ARG, "align_corners is given: only linear, bilinear, bicubic and trilinear have it");
  if (o->antialias && modes[o->mode].wide == SITU_RESAMPLE_RULES)
    return refuse(SITU_E_ARG, "antialias is given: only bilinear and bicubic have it");
  const int factors = o->scale_factor[2] != 0 ? 3 : o->scale_factor[1] != 0 ? 2 : o->scale_factor[0] != 0;
  if ((o->size.ndim != 0) == (factors != 0)) return refuse(SITU_E_ARG, "give either size or scale_factor");
  const int given = factors ? factors : o->size.ndim;
  if (given != 1 && given != spatial)
    return situ__fail(SITU_E_ARG, "interpolate", "%s has %d values, must have 1 or %d",
                      factors ? "scale_factor" : "size", given, spatial),
           false;
  return !(o->recompute_scale_factor && !factors) ||
         refuse(SITU_E_ARG, "recompute_scale_factor is given with size: it is for scale_factor");
}

/* The result's size along spatial dimension d, and the factor by which places are computed; 0: by the sizes. */
static bool target(const situ_interpolate_options *o, int d, int64_t size, int64_t *out, double *factor) {
  if (o->size.ndim) {
    *out = o->size.dim[o->size.ndim == 1 ? 0 : d];
    *factor = 0;
  } else {
    *factor = o->scale_factor[o->scale_factor[1] != 0 ? d : 0];
    const double wanted = floor((double)size * *factor);
    if (!(wanted >= 1 && wanted < 0x1p62))
      return situ__fail(SITU_E_ARG, "interpolate",
                        "scale_factor is %g: size %lld times it must be at least 1, and below 2^62", *factor,
                        (long long)size),
             false;
    *out = (int64_t)wanted;
    if (o->recompute_scale_factor || o->mode == SITU_INTERPOLATE_AREA) *factor = 0;
  }
  if (size > 0 && *out > 0) return true;
  return situ__fail(SITU_E_ARG, "interpolate",
                    "size %lld would become %lld at spatial dimension %d: both must be positive", (long long)size,
                    (long long)*out, d),
         false;
}

static double scale_of(bool align, int64_t size, int64_t out, double factor) {
  if (align) return out > 1 ? (double)(size - 1) / (double)(out - 1) : 0;
  return factor > 0 ? 1 / factor : (double)size / (double)out;
}

/* Passes that shrink come first, from the first dimension on; then those that grow, from the last one: each reads and
   writes as little as possible. */
static void add_passes(interpolate_params *p, const pass *all, int spatial, bool grow) {
  for (int k = 0; k < spatial; k++) {
    const pass *s = &all[grow ? spatial - 1 - k : k];
    const bool same = s->out == s->size && s->scale == 1;
    if ((s->out > s->size || (s->out == s->size && s->scale != 1)) == grow && !same) p->pass[p->passes++] = *s;
  }
}

/* Passes of u8 round: torch's order. */
static void add_passes_of_u8(interpolate_params *p, const pass *all, int spatial) {
  for (int d = spatial - 1; d >= 0; d--)
    if (all[d].out != all[d].size || all[d].scale != 1) p->pass[p->passes++] = all[d];
}

situ_tensor *situ_interpolate(situ_tensor *input, const situ_interpolate_options *options) {
  SITU__DEFAULT_FPU;
  static const situ_interpolate_options none;
  const situ_interpolate_options *o = options ? options : &none;
  if (!situ__need("interpolate", "input", input) || !check(input, o)) return NULL;
  const int spatial = input->view.ndim - 2;
  interpolate_params p = { .rule = o->antialias ? modes[o->mode].wide : modes[o->mode].rule,
                           .align = o->align_corners };
  pass all[SPATIAL];
  for (int d = 0; d < spatial; d++) {
    double factor;
    const int64_t size = input->view.size[2 + d];
    all[d] = (pass){ .dim = 2 + d, .size = size };
    if (!target(o, d, size, &all[d].out, &factor)) return NULL;
    all[d].scale = scale_of(p.align, size, all[d].out, factor);
  }
  if (input->view.dtype == SITU_U8) {
    add_passes_of_u8(&p, all, spatial);
  } else {
    add_passes(&p, all, spatial, false);
    add_passes(&p, all, spatial, true);
  }
  return run(input, &p);
}
