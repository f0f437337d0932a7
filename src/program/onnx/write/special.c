/* ATen's special functions, losses and distances as ONNX operators.
   SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/format.h"
#include "write.h"

#define IN SITU__ONNX_IN

static const char *self(situ__onnx_writer *w) { return situ__onnx_arg(w, 0); }
static situ_dtype gives(const situ__onnx_writer *w) { return w->gives->dtype; }

/* NaN and infinities by arguments 1 to 3: 0, and the ends of the dtype, unless they say otherwise. */
static const char *write_nan_to_num(situ__onnx_writer *w) {
  const situ_dtype dtype = gives(w);
  const double most = dtype == SITU_F64   ? 0x1.fffffffffffffp1023
                      : dtype == SITU_F16 ? 65504
                                          : (dtype == SITU_F32 ? 0x1.fffffep127 : 0x1.fep127);
  const double otherwise[] = { 0, most, -most };
  const char *value[3], *x = self(w);
  if (!situ_dtype_is_floating(dtype)) return x;
  for (int k = 0; k < 3; k++)
    value[k] = situ__arg_given(&w->call, k + 1) ? situ__onnx_arg_as(w, k + 1, dtype)
                                                : situ__onnx_scalar(w, otherwise[k], dtype);
  const char *none = situ__onnx_put1(w, "IsNaN", x);
  const char *above = situ__onnx_put2(w, "Equal", x, situ__onnx_scalar(w, (double)INFINITY, dtype));
  const char *below = situ__onnx_put2(w, "Equal", x, situ__onnx_scalar(w, -(double)INFINITY, dtype));
  if (!none || !above || !below || !value[0] || !value[1] || !value[2]) return NULL;
  const char *y = situ__onnx_put(w, "Where", IN(below, value[2], x), "");
  y = situ__onnx_put(w, "Where", IN(above, value[1], y), "");
  return situ__onnx_put(w, "Where", IN(none, value[0], y), "");
}

/* Arguments: self, other, rtol, atol, equal_nan. */
static const char *write_isclose(situ__onnx_writer *w) {
  const situ__inferred *a = situ__onnx_about(w, 0), *b = situ__onnx_about(w, 1);
  const bool real = situ_dtype_is_floating(a->dtype);
  if (a->dtype != b->dtype || a->dtype == SITU_BOOL) return NULL;
  const char *y = situ__onnx_formula(
      w, "d=Abs(Sub($0,$1));Or(Equal($0,$1),And(LessOrEqual(d,Add($3,Abs(Mul($2,$1)))),Less(d,inf)))",
      real ? a->dtype : SITU_F64);
  if (!real || !situ__arg_flag(&w->call, 4)) return y;
  return situ__onnx_put2(w, "Or", y, situ__onnx_formula(w, "And(IsNaN($0),IsNaN($1))", a->dtype));
}

/* A loss of each element, reduced as argument 2 says. */
static const char *reduced(situ__onnx_writer *w, const char *formula) {
  static const char *const types[] = { "", "ReduceMean", "ReduceSum" };
  const int64_t reduction = situ__arg_int(&w->call, 2);
  const char *y = situ__onnx_formula(w, formula, gives(w));
  if (reduction < 1 || reduction > 2 || !y) return y;
  return situ__onnx_put(w, types[reduction], IN(y), "keepdims:i", (int64_t)0);
}
static const char *write_mse(situ__onnx_writer *w) { return reduced(w, "d=Sub($0,$1);Mul(d,d)"); }
static const char *write_l1(situ__onnx_writer *w) { return reduced(w, "Abs(Sub($0,$1))"); }
static const char *write_smooth_l1(situ__onnx_writer *w) {
  if (situ__arg_number(&w->call, 3) == 0) return write_l1(w);
  return reduced(w, "d=Abs(Sub($0,$1));Where(Less(d,$3),Div(Mul(0.5,Mul(d,d)),$3),Sub(d,Mul(0.5,$3)))");
}
static const char *write_huber(situ__onnx_writer *w) {
  return reduced(w, "d=Abs(Sub($0,$1));Where(LessOrEqual(d,$3),Mul(0.5,Mul(d,d)),Mul($3,Sub(d,Mul(0.5,$3))))");
}

/* Of whole numbers, by a number of bits: a product, or a quotient that is rounded down. */
static const char *shift(situ__onnx_writer *w, bool left) {
  const situ__arg *by = &w->node->arg[1];
  const int most = gives(w) == SITU_I64 ? 62 : gives(w) == SITU_I32 ? 30 : 0;
  if (by->kind != SITU__ARG_INT || by->integer < 0 || by->integer > most)
    return situ__onnx_lacks(w, "shifts by what is not a number of bits of the dtype");
  const char *x = situ__onnx_arg_as(w, 0, gives(w)),
             *factor = situ__onnx_scalar(w, ldexp(1, (int)by->integer), gives(w));
  if (left) return situ__onnx_put2(w, "Mul", x, factor);
  return situ__onnx_put2(w, "Div", situ__onnx_put2(w, "Sub", x, situ__onnx_put2(w, "Mod", x, factor)), factor);
}
static const char *write_left_shift(situ__onnx_writer *w) { return shift(w, true); }
static const char *write_right_shift(situ__onnx_writer *w) { return shift(w, false); }

/* The first half times sigmoid of the second. */
static const char *write_glu(situ__onnx_writer *w) {
  const int64_t dim = situ__onnx_dim(situ__arg_int(&w->call, 1), w->gives->size.ndim);
  const char *half[2];
  if (!situ__onnx_put_all(w, "Split", IN(self(w)), half, 2, "axis:i num_outputs:i", dim, (int64_t)2)) return NULL;
  return situ__onnx_put2(w, "Mul", half[0], situ__onnx_put1(w, "Sigmoid", half[1]));
}

/* Of each row of the first to each of the second. */
static const char *write_cdist(situ__onnx_writer *w) {
  const double p = situ__arg_number(&w->call, 2);
  const char *a = situ__onnx_put2(w, "Unsqueeze", self(w), situ__onnx_int(w, -2));
  const char *b = situ__onnx_put2(w, "Unsqueeze", situ__onnx_arg(w, 1), situ__onnx_int(w, -3));
  const char *away = situ__onnx_put2(w, "Sub", a, b), *last = situ__onnx_int(w, -1);
  const char *type = p == 1 ? "ReduceL1" : p == 2 ? "ReduceL2" : isinf(p) ? "ReduceMax" : NULL;
  if (!type || !away) return NULL;
  if (isinf(p)) away = situ__onnx_put1(w, "Abs", away);
  return situ__onnx_put(w, type, IN(away, last), "keepdims:i", (int64_t)0);
}

/* The number of boundaries below each element, which is all of them for NaN. Arguments: self, boundaries, out_int32,
   right. */
static const char *write_bucketize(situ__onnx_writer *w) {
  const situ_dtype a = situ__onnx_about(w, 0)->dtype, b = situ__onnx_about(w, 1)->dtype;
  const situ_dtype dtype = a == b ? a : situ_promote_types(a, b);
  const char *x = situ__onnx_put2(w, "Unsqueeze", situ__onnx_arg_as(w, 0, dtype), situ__onnx_int(w, -1));
  const char *type = situ__arg_flag(&w->call, 3) ? "Greater" : "GreaterOrEqual";
  const char *above = situ__onnx_put2(w, type, situ__onnx_arg_as(w, 1, dtype), x), *last = situ__onnx_int(w, -1);
  const char *below = above ? situ__onnx_cast(w, situ__onnx_put1(w, "Not", above), SITU_BOOL, SITU_I64) : NULL;
  if (!below) return NULL;
  return situ__onnx_cast(w, situ__onnx_put(w, "ReduceSum", IN(below, last), "keepdims:i", (int64_t)0), SITU_I64,
                         gives(w));
}

/* input, grid, mode, padding, align_corners */
static const char *write_grid_sampler(situ__onnx_writer *w) {
  static const char *const modes[][3] = { { "bilinear", "nearest", "bicubic" }, { "linear", "nearest", "cubic" } };
  static const char *const paddings[] = { "zeros", "border", "reflection" };
  const int64_t mode = situ__arg_int(&w->call, 2), padding = situ__arg_int(&w->call, 3);
  if (mode < 0 || mode > 2 || padding < 0 || padding > 2 || w->gives->size.ndim != 4) return NULL;
  return situ__onnx_put(w, "GridSample", IN(self(w), situ__onnx_arg(w, 1)), "mode:s padding_mode:s align_corners:i",
                        modes[w->opset >= 20][mode], paddings[padding], (int64_t)situ__arg_flag(&w->call, 4));
}

#define FORMULA(text, words) \
  { text, .formula = words, .computes = true }
#define HYPOT                                                                        \
  "a=Abs($0);b=Abs($1);m=Max(a,b);r=Div(Min(a,b),m);y=Mul(m,Sqrt(Add(1,Mul(r,r))));" \
  "Where(Or(Equal(a,inf),Equal(b,inf)),inf,Where(Equal(m,0),m,y))"
#define XLOGY "Where(IsNaN($1),nan,Where(Equal($0,0),0,Mul($0,Log($1))))"
#define COPYSIGN "s=Where(Equal($1,0),Div(1,$1),$1);a=Abs($0);Where(Less(s,0),Neg(a),a)"
#define LOGADDEXP                                            \
  "y=Add(Max($0,$1),Log(Add(1,Exp(Neg(Abs(Sub($0,$1)))))));" \
  "Where(Equal($0,$1),Add($0,0.69314718055994530942),y)"

static const situ__onnx_form forms[] = {
  FORMULA("heaviside.default", "Where(Equal($0,0),$1,Where(Greater($0,0),1,0))"),
  FORMULA("hypot.default", HYPOT),
  FORMULA("xlogy.default", XLOGY),
  FORMULA("xlogy.Tensor", XLOGY),
  FORMULA("xlogy.Scalar_Other", XLOGY),
  FORMULA("copysign.Tensor", COPYSIGN),
  FORMULA("copysign.Scalar", COPYSIGN),
  FORMULA("logaddexp.default", LOGADDEXP),
  FORMULA("fmax.default", "Where(IsNaN($0),$1,Where(IsNaN($1),$0,Max($0,$1)))"),
  FORMULA("fmin.default", "Where(IsNaN($0),$1,Where(IsNaN($1),$0,Min($0,$1)))"),
  FORMULA("clamp_min.Tensor", "Max($0,$1)"),
  FORMULA("clamp_max.Tensor", "Min($0,$1)"),
  FORMULA("float_power.Tensor_Tensor", "Pow($0,$1)"),
  FORMULA("float_power.Tensor_Scalar", "Pow($0,$1)"),
  FORMULA("frac.default", "Sub($0,Mul(Sign($0),Floor(Abs($0))))"),
  FORMULA("deg2rad.default", "Mul($0,0.017453292519943295769)"),
  FORMULA("rad2deg.default", "Mul($0,57.295779513082320877)"),
  FORMULA("lerp.Tensor", "d=Sub($1,$0);Where(Less(Abs($2),0.5),Add($0,Mul($2,d)),Sub($1,Mul(d,Sub(1,$2))))"),
  { "nan_to_num.default", .write = write_nan_to_num },
  { "isclose.default", .write = write_isclose },
  { "mse_loss.default", .write = write_mse },
  { "l1_loss.default", .write = write_l1 },
  { "smooth_l1_loss.default", .write = write_smooth_l1 },
  { "huber_loss.default", .write = write_huber },
  { "__lshift__.Scalar", .write = write_left_shift, .computes = true },
  { "__rshift__.Scalar", .write = write_right_shift, .computes = true },
  { "bitwise_left_shift.Tensor_Scalar", .write = write_left_shift, .computes = true },
  { "bitwise_right_shift.Tensor_Scalar", .write = write_right_shift, .computes = true },
  { "glu.default", .write = write_glu },
  { "cdist.default", .write = write_cdist },
  { "bucketize.Tensor", .write = write_bucketize },
  { "grid_sampler.default", .write = write_grid_sampler },
  { "grid_sampler_2d.default", .write = write_grid_sampler },
};
const situ__onnx_forms situ__onnx_form_special = { forms, sizeof forms / sizeof *forms };
