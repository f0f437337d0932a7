/* Discrete Fourier transforms of complex numbers that are pairs of real ones. One op transforms along one dimension;
   several dimensions are several of them. A gradient is the adjoint transform.
   SPDX-License-Identifier: MIT */
#include <math.h>

#include "base/fail.h"
#include "base/size.h"
#include "ops/ops.h"

/* ---- the op: one dimension ---- */

typedef struct fft_params {
  situ_fft_pass pass;
  int dim;
  int64_t n; /* of the signal */
  bool inverse;
  double factor;
} fft_params;

static bool infer(situ_call *c) {
  const fft_params *p = c->params;
  situ_infer_like(c);
  situ_shape *shape = &c->shape[0];
  if (c->dtype[0] != SITU_F32 && c->dtype[0] != SITU_F64)
    return situ_refuse(c, SITU_E_DTYPE, "input is %s: transforms are computed in f32 and f64; cast it first",
                       situ_dtype_name(c->dtype[0]));
  if (p->pass == SITU_FFT_REAL && shape->ndim == SITU_MAX_DIMS)
    return situ_refuse(c, SITU_E_SHAPE, "the result would have %d dimensions: at most %d", SITU_MAX_DIMS + 1,
                       SITU_MAX_DIMS);
  if (p->pass == SITU_FFT_REAL) shape->dim[p->dim] = p->n / 2 + 1, shape->dim[shape->ndim++] = 2;
  else if (p->pass == SITU_FFT_REAL_BACK) shape->dim[p->dim] = p->n, shape->ndim--;
  return true;
}

static bool forward(situ_call *c) {
  const fft_params *p = c->params;
  situ_tensor *x = situ_contiguous(c->in[0]);
  return x && situ_launch(c->op->name, c->device,
                          &(situ_work){ SITU_VERB_FFT, .op = (int)p->pass, .compute = c->dtype[0], .ins = 1, .outs = 1,
                                        .in = { situ_desc(x) }, .out = { situ_desc(c->out[0]) },
                                        .integer = { p->dim, p->inverse }, .scalar = { p->factor } });
}

static situ_tensor *transform(situ_tensor *x, const fft_params *p);

/* Multiplies the numbers of a half spectrum that stand for their mirror images too. */
static bool weigh_twins(situ_tensor *x, const fft_params *p, double factor) {
  const int64_t twins = (p->n - 1) / 2;
  return twins == 0 || situ_mul_scalar_(situ_narrow(x, p->dim, 1, twins), factor);
}

/* The adjoint: exponents of the other sign. In a half spectrum the numbers that have a mirror image count twice. */
static bool backward(situ_grad_call *g) {
  static const situ_fft_pass adjoint[] = { SITU_FFT_COMPLEX, SITU_FFT_REAL_BACK, SITU_FFT_REAL };
  const fft_params *p = g->params;
  fft_params back = *p;
  back.pass = adjoint[p->pass], back.inverse = !p->inverse;
  situ_tensor *dy = g->grad[0];
  if (p->pass == SITU_FFT_REAL &&
      (!(dy = situ_clone_memory_format(dy, SITU_CONTIGUOUS_FORMAT)) || !weigh_twins(dy, p, 0.5)))
    return false;
  situ_tensor *dx = transform(dy, &back);
  if (!dx || (p->pass == SITU_FFT_REAL_BACK && !weigh_twins(dx, p, 2))) return false;
  g->dx[0] = dx;
  return true;
}

SITU_OP(fft_op) = { .name = "fft",
                    .operand = { { "input", SITU_FLOATING } },
                    .flags = SITU_OP_COMPOSED | SITU_OP_LINEAR,
                    .autocast = { SITU_CAST_F32, SITU_CAST_F32 },
                    .params_size = sizeof(fft_params),
                    .infer = infer,
                    .forward = forward,
                    .backward = backward,
                    .backward_recorded = backward };

static situ_tensor *transform(situ_tensor *x, const fft_params *p) { return situ_op_run1(&fft_op, x, p); }

/* ---- the functions of torch.fft ---- */

typedef struct function {
  const char *name;
  situ_fft_pass pass; /* of the last dimension; the others' is complex */
  bool inverse;
  int dims; /* 0: any */
} function;

/* Dimensions to transform, their lengths in the signal and in the operand. */
typedef struct plan {
  int count, dim[SITU_MAX_DIMS];
  int64_t n[SITU_MAX_DIMS], size[SITU_MAX_DIMS];
  double factor;
} plan;

static bool list_dims(const function *f, int ndim, situ_shape s, situ_shape dim, plan *p) {
  unsigned mask;
  if (dim.ndim > 0) {
    if (!situ__dim_mask(f->name, &dim, ndim, false, &mask)) return false;
    p->count = dim.ndim;
    for (int k = 0; k < dim.ndim; k++)
      if (!situ_wrap_dim(f->name, dim.dim[k], ndim, &p->dim[k])) return false;
  } else {
    p->count = f->dims ? f->dims : s.ndim > 0 ? s.ndim : ndim;
    for (int k = 0; k < p->count && k < SITU_MAX_DIMS; k++) p->dim[k] = ndim - p->count + k;
  }
  if (dim.ndim < 0 || s.ndim < 0 || p->count > ndim || (f->dims == 1 && p->count != 1) ||
      (s.ndim && s.ndim != p->count) || (p->count == 0 && f->pass != SITU_FFT_COMPLEX))
    return situ__fail(SITU_E_ARG, f->name, "%d dimensions and %d lengths for a tensor of %d dimensions%s",
                      dim.ndim ? dim.ndim : p->count, s.ndim, ndim,
                      f->pass == SITU_FFT_REAL ? "" : " of complex numbers"),
           false;
  return true;
}

/* Lengths of the signal, and of the operand: half of it where it is the half spectrum. */
static bool list_sizes(const function *f, const situ_tensor *x, situ_shape s, situ_fft_norm norm, plan *p) {
  double all = 1;
  for (int k = 0; k < p->count; k++) {
    const bool half = f->pass == SITU_FFT_REAL_BACK && k == p->count - 1;
    const int64_t own = x->view.size[p->dim[k]];
    p->n[k] = s.ndim && s.dim[k] != -1 ? s.dim[k] : half ? 2 * (own - 1) : own;
    if (p->n[k] < 1 || p->n[k] > INT32_MAX)
      return situ__fail(SITU_E_ARG, f->name, "a length of %lld at dimension %d: must be 1 to 2^31 - 1",
                        (long long)p->n[k], p->dim[k]),
             false;
    p->size[k] = half ? p->n[k] / 2 + 1 : p->n[k];
    all *= (double)p->n[k];
  }
  if ((unsigned)norm > SITU_FFT_NORM_ORTHO)
    return situ__fail(SITU_E_ARG, f->name, "%d is not a norm", (int)norm), false;
  const bool divides = norm == SITU_FFT_NORM_ORTHO || f->inverse == (norm == SITU_FFT_NORM_BACKWARD);
  p->factor = !divides ? 1 : norm == SITU_FFT_NORM_ORTHO ? 1 / sqrt(all) : 1 / all;
  return true;
}

/* x with `more` zeros at the end of dimension d. A shape has the paddings of the last dimensions only. */
static situ_tensor *grow(situ_tensor *x, int d, int64_t more) {
  const int last = x->view.ndim - 1;
  situ_shape pad = { .ndim = 2 * (last - d + 1) };
  if (pad.ndim > SITU_MAX_DIMS) {
    situ_tensor *turned = situ_transpose(x, d, last), *grown = turned ? grow(turned, last, more) : NULL;
    return grown ? situ_transpose(grown, d, last) : NULL;
  }
  pad.dim[pad.ndim - 1] = more;
  return situ_pad(x, pad, SITU_PAD_CONSTANT, 0);
}

/* x cut or padded with zeros at the end. */
static situ_tensor *resize(situ_tensor *x, const plan *p) {
  for (int k = 0; x && k < p->count; k++) {
    const int64_t more = p->size[k] - x->view.size[p->dim[k]];
    if (more < 0) x = situ_narrow(x, p->dim[k], 0, p->size[k]);
    if (more > 0) x = grow(x, p->dim[k], more);
  }
  return x;
}

static bool is_complex(const function *f, const situ_tensor *x) {
  if (x->view.ndim > 1 && x->view.size[x->view.ndim - 1] == 2) return true;
  const situ_shape shape = situ__shape(&x->view);
  char text[SITU_SHAPE_TEXT];
  return situ__fail(SITU_E_SHAPE, f->name,
                    "input is %s: complex numbers are [..., 2], real and imaginary part; situ_fft_rfft takes real ones",
                    situ_shape_text(&shape, text)),
         false;
}

static situ_tensor *run(const function *f, situ_tensor *x, situ_shape s, situ_shape dim, situ_fft_norm norm) {
  SITU__MADE_OF_OPS(f->name);
  const bool real = f->pass == SITU_FFT_REAL;
  plan p;
  if (!situ__need(f->name, "input", x) || !(real || is_complex(f, x)) ||
      !list_dims(f, x->view.ndim - !real, s, dim, &p) || !list_sizes(f, x, s, norm, &p) ||
      !(x = resize(situ__floating(x), &p)))
    return NULL;
  if (p.count == 0) return situ_clone(x);
  const int last = p.count - 1;
  const fft_params special = {
    .pass = f->pass, .inverse = f->inverse, .dim = p.dim[last], .n = p.n[last], .factor = p.factor
  };
  if (f->pass != SITU_FFT_REAL_BACK) x = transform(x, &special);
  for (int k = last - 1; x && k >= 0; k--)
    x = transform(x, &(fft_params){ .inverse = f->inverse, .dim = p.dim[k], .n = p.n[k], .factor = 1 });
  return f->pass == SITU_FFT_REAL_BACK && x ? transform(x, &special) : x;
}

static situ_tensor *run_1d(const function *f, situ_tensor *x, const situ_fft_options *o) {
  static const situ_fft_options none;
  if (!o) o = &none;
  return run(f, x, (situ_shape){ .ndim = o->n != 0, .dim = { o->n < 0 ? 0 : o->n } }, o->dim, o->norm);
}
static situ_tensor *run_nd(const function *f, situ_tensor *x, const situ_fftn_options *o) {
  static const situ_fftn_options none;
  if (!o) o = &none;
  return run(f, x, o->s, o->dim, o->norm);
}

#define FUNCTION(name, kind, inverse, dims, which, options_type)                  \
  situ_tensor *situ_fft_##name(situ_tensor *input, const options_type *options) { \
    static const function f = { "fft_" #name, SITU_FFT_##kind, inverse, dims };   \
    return which(&f, input, options);                                             \
  }
#define FAMILY(forward, back, pass, pass_back)                     \
  FUNCTION(forward, pass, false, 1, run_1d, situ_fft_options)      \
  FUNCTION(back, pass_back, true, 1, run_1d, situ_fft_options)     \
  FUNCTION(forward##2, pass, false, 2, run_nd, situ_fftn_options)  \
  FUNCTION(back##2, pass_back, true, 2, run_nd, situ_fftn_options) \
  FUNCTION(forward##n, pass, false, 0, run_nd, situ_fftn_options)  \
  FUNCTION(back##n, pass_back, true, 0, run_nd, situ_fftn_options)
FAMILY(fft, ifft, COMPLEX, COMPLEX)
FAMILY(rfft, irfft, REAL, REAL_BACK)
FAMILY(hfft, ihfft, REAL_BACK, REAL)

/* ---- frequencies ---- */

static situ_tensor *frequencies(const char *op, int64_t n, double d, int64_t first, int64_t count,
                                const situ_options *options) {
  SITU__DEFAULT_FPU;
  situ_options o = options ? *options : (situ_options){ 0 };
  if (!o.dtype) o.dtype = SITU_F32;
  if (n < 1 || n > INT64_C(1) << 53 || !isfinite(1 / ((double)n * d)))
    return situ__fail(SITU_E_ARG, op, "n is %lld and d %g: n must be positive, and n d not 0", (long long)n, d), NULL;
  if (!situ_dtype_is_floating(o.dtype))
    return situ__fail(SITU_E_DTYPE, op, "frequencies are floating, not %s", situ_dtype_name(o.dtype)), NULL;
  const bool requires_grad = o.requires_grad;
  o.requires_grad = false;
  situ_tensor *y = situ_arange((double)first, (double)(first + count), 1, &o);
  if (first) y = situ_roll(y, SITU_DIMS(first), SITU_DIMS(0));
  y = situ_mul_scalar(y, 1 / ((double)n * d));
  return y && requires_grad ? situ_requires_grad_(y, true) : y;
}

situ_tensor *situ_fft_fftfreq(int64_t n, double d, const situ_options *options) {
  SITU__MADE_OF_OPS("fft_fftfreq");
  return frequencies("fft_fftfreq", n, d, -(n / 2), n, options);
}

situ_tensor *situ_fft_rfftfreq(int64_t n, double d, const situ_options *options) {
  SITU__MADE_OF_OPS("fft_rfftfreq");
  return frequencies("fft_rfftfreq", n, d, 0, n / 2 + 1, options);
}

static situ_tensor *shift(const char *op, situ_tensor *x, situ_shape dim, bool back) {
  unsigned mask;
  if (!situ__need(op, "input", x) || !situ__dim_mask(op, &dim, x->view.ndim, true, &mask)) return NULL;
  situ_shape dims = { 0 }, by = { 0 };
  for (int d = 0; d < x->view.ndim; d++) {
    if (!(mask >> d & 1)) continue;
    const int64_t size = x->view.size[d];
    dims.dim[dims.ndim++] = d, by.dim[by.ndim++] = back ? size - size / 2 : size / 2;
  }
  return dims.ndim ? situ_roll(x, by, dims) : situ_clone(x);
}

situ_tensor *situ_fft_fftshift(situ_tensor *input, situ_shape dim) {
  SITU__MADE_OF_OPS("fft_fftshift");
  return shift("fft_fftshift", input, dim, false);
}

situ_tensor *situ_fft_ifftshift(situ_tensor *input, situ_shape dim) {
  SITU__MADE_OF_OPS("fft_ifftshift");
  return shift("fft_ifftshift", input, dim, true);
}
