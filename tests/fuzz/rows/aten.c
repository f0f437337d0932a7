/* Writes a .pt2 program of drawn calls.
   SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "draw.h"

typedef struct writing {
  draw *d;
  situ__text *out;
  int tensors, numbers; /* that were computed, t0 and n0 on */
} writing;

static void put_tensor_name(writing *w) {
  situ__text_add(w->out, "{\"name\":\"t%u\"}", draw_below(w->d, (unsigned)w->tensors));
}

static void put_real(writing *w) {
  const double x = draw_real(w->d);
  if (isfinite(x)) situ__text_add(w->out, "%.17g", x);
  else situ__text_add(w->out, "%s", isnan(x) ? "\"NaN\"" : x > 0 ? "\"Infinity\"" : "\"-Infinity\"");
}

static void put_int(writing *w) { situ__text_add(w->out, "%lld", (long long)draw_int(w->d)); }

static void put_list(writing *w, const char *form, void put(writing *)) {
  situ__text_add(w->out, "{\"%s\":[", form);
  for (int i = 0, count = draw_length(w->d); i < count; i++) {
    if (i) situ__text_add(w->out, ",");
    put(w);
  }
  situ__text_add(w->out, "]}");
}

static void put_sym_int(writing *w) {
  if (w->numbers && draw_once_in(w->d, 2))
    situ__text_add(w->out, "{\"as_name\":\"n%u\"}", draw_below(w->d, (unsigned)w->numbers));
  else situ__text_add(w->out, "{\"as_int\":%lld}", (long long)draw_int(w->d));
}

static void put_number(writing *w, bool whole) {
  if (w->numbers && draw_once_in(w->d, 3))
    situ__text_add(w->out, "{\"as_sym_int\":{\"as_name\":\"n%u\"}}", draw_below(w->d, (unsigned)w->numbers));
  else if (whole || draw_once_in(w->d, 2))
    situ__text_add(w->out, "{\"as_int\":"), put_int(w), situ__text_add(w->out, "}");
  else situ__text_add(w->out, "{\"as_float\":"), put_real(w), situ__text_add(w->out, "}");
}

static void put_tensor(writing *w) {
  situ__text_add(w->out, "{\"as_tensor\":");
  put_tensor_name(w);
  situ__text_add(w->out, "}");
}

static void put_arg(writing *w, const draw_parameter *p) {
  static const char *const texts[] = { "none", "mean", "bilinear", "trunc", "" };
  draw *d = w->d;
  if ((p->optional && draw_once_in(d, 2)) || draw_once_in(d, 64)) {
    situ__text_add(w->out, "{\"as_none\":true}");
    return;
  }
  const char *const types = "txTinIFbdsh_";
  switch (draw_once_in(d, 64) ? types[draw_below(d, 12)] : p->type) {
  case 't': put_tensor(w); break;
  case 'x': draw_once_in(d, 3) ? put_number(w, false) : put_tensor(w); break;
  case 'T': put_list(w, "as_tensors", put_tensor_name); break;
  case 'i': put_number(w, true); break;
  case 'n': put_number(w, false); break;
  case 'h':
  case 'I': w->numbers ? put_list(w, "as_sym_ints", put_sym_int) : put_list(w, "as_ints", put_int); break;
  case 'F': put_list(w, "as_floats", put_real); break;
  case 'b': situ__text_add(w->out, "{\"as_bool\":%s}", draw_once_in(d, 2) ? "true" : "false"); break;
  case 'd': situ__text_add(w->out, "{\"as_scalar_type\":%u}", draw_below(d, 14)); break;
  default: situ__text_add(w->out, "{\"as_string\":\"%s\"}", *p->choice ? p->choice : texts[draw_below(d, 5)]); break;
  }
}

/* The row's name, or that of its form in place, with a result that is given (true), or that copies. */
static bool put_target(writing *w, const situ__op_row *row) {
  static const char *const ends[] = { "_", "", "_copy" };
  const unsigned how = draw_below(w->d, 16);
  const int length = (int)strcspn(row->target, ".");
  situ__text_add(w->out, "{\"target\":\"");
  if (how < 13) situ__text_add(w->out, "%s", row->target);
  else
    situ__text_add(w->out, "%.*s%s%s", length, row->target, ends[how - 13], how == 14 ? ".out" : row->target + length);
  situ__text_add(w->out, "\",\"name\":\"x\",\"inputs\":[");
  return how == 14;
}

static void put_results(writing *w, const situ__op_row *row) {
  static const char *const forms[] = { "as_sym_int", "as_sym_float", "as_sym_bool" };
  const int results = row->results == SITU__RESULTS_LIST   ? 1 + (int)draw_below(w->d, ROWS_RESULTS)
                      : row->results == SITU__RESULTS_NONE ? 0
                      : row->results                       ? row->results
                                                           : 1;
  situ__text_add(w->out, "],\"outputs\":[");
  if (row->size && results) {
    const unsigned form = row->real == SITU__REAL_ALWAYS ? 1 : draw_below(w->d, 3);
    situ__text_add(w->out, "{\"%s\":{\"as_name\":\"n%d\"}}", forms[form], w->numbers++);
  } else {
    for (int i = 0; i < results; i++)
      situ__text_add(w->out, "%s{\"as_tensor\":{\"name\":\"t%d\"}}", i ? "," : "", w->tensors++);
  }
  situ__text_add(w->out, "],\"metadata\":{}}");
}

static void put_call(writing *w, const situ__op_row *row) {
  const bool out = put_target(w, row);
  draw_parameter p;
  const char *at = row->parameters;
  for (int k = 0; (at = draw_next(w->d, at, &p)); k++) {
    situ__text_add(w->out, "%s{\"name\":\"%s\",\"arg\":", k ? "," : "", p.name);
    put_arg(w, &p);
    situ__text_add(w->out, "}");
  }
  if (out) situ__text_add(w->out, ",{\"name\":\"out\",\"arg\":"), put_tensor(w), situ__text_add(w->out, "}");
  put_results(w, row);
}

static void put_size(writing *w, int64_t size) {
  static const long long multiples[] = { 1, 2, 3, 0, -1, 1 << 20, 1LL << 62, INT64_MAX };
  static const char after[] = ", positive=True, integer=True)";
  const unsigned how = draw_below(w->d, 16), symbol = draw_below(w->d, 2);
  if (how < 13) situ__text_add(w->out, "{\"as_int\":%lld}", (long long)size);
  else if (how == 13) situ__text_add(w->out, "{\"as_expr\":{\"expr_str\":\"Symbol('s%u'%s\"}}", symbol, after);
  else
    situ__text_add(w->out, "{\"as_expr\":{\"expr_str\":\"Mul(Integer(%lld), Symbol('s%u'%s)\"}}",
                   multiples[draw_below(w->d, 8)], symbol, after);
}

static void put_operands(writing *w) {
  const draw_sizes common = draw_shape(w->d, NULL);
  for (int i = 0; i < ROWS_OPERANDS; i++) {
    const draw_sizes s = draw_shape(w->d, &common);
    const unsigned dtype = draw_below(w->d, 20);
    situ__text_add(w->out, "%s\"t%d\":{\"dtype\":%u,\"sizes\":[", i ? "," : "", i,
                   dtype < 10 ? "\1\2\3\4\5\6\7\10\14\15"[dtype] : 7);
    for (int k = 0; k < s.count; k++) {
      if (k) situ__text_add(w->out, ",");
      put_size(w, s.dim[k]);
    }
    situ__text_add(w->out, "]}");
  }
}

static void put_range(writing *w, int symbol) {
  static const char *const least[] = { "2", "0", "3", "9", "null", "4611686018427387904", "-1", "1" };
  static const char *const most[] = { "null", "1000", "4", "2", "0", "9223372036854775807", "6", "\"x\"" };
  situ__text_add(w->out, "%s\"s%d\":{\"min_val\":%s,\"max_val\":%s}", symbol ? "," : "", symbol,
                 least[draw_below(w->d, 8)], most[draw_below(w->d, 8)]);
}

void rows_write_aten(draw *d, const situ__op_family *const *family, int families, situ__text *out) {
  writing w = { .d = d, .out = out, .tensors = ROWS_OPERANDS };
  situ__text_add(out, "{\"graph_module\":{\"graph\":{\"inputs\":[],\"outputs\":[],\"tensor_values\":{");
  put_operands(&w);
  situ__text_add(out, "},\"nodes\":[");
  for (int i = 0, calls = 1 + (int)draw_below(d, ROWS_CALLS); i < calls; i++) {
    if (i) situ__text_add(out, ",");
    put_call(&w, draw_row(d, family, families));
  }
  situ__text_add(out, "]},\"signature\":{\"input_specs\":[");
  for (int i = 0; i < ROWS_OPERANDS; i++)
    situ__text_add(out, "%s{\"user_input\":{\"arg\":{\"as_tensor\":{\"name\":\"t%d\"}}}}", i ? "," : "", i);
  situ__text_add(out, "],\"output_specs\":[");
  for (int i = w.tensors > ROWS_OPERANDS ? ROWS_OPERANDS : 0; i < w.tensors; i++)
    situ__text_add(out, "{\"user_output\":{\"arg\":{\"as_tensor\":{\"name\":\"t%d\"}}}}%s", i,
                   i + 1 < w.tensors ? "," : "");
  situ__text_add(out, "]},\"module_call_graph\":[]},\"range_constraints\":{");
  for (int i = 0; i < 2; i++) put_range(&w, i);
  situ__text_add(out, "},\"schema_version\":{\"major\":8,\"minor\":20}}");
}
