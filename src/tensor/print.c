/* Prints tensors as torch does: aligned columns, four digits, scientific notation for a wide range, ... for omitted
   middles.
   SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/format.h"
#include "base/size.h"
#include "base/text.h"
#include "device/launch/launch.h"
#include "tensor/tensor.h"
#include "situ/sys/shape.h"

enum { EDGE = 3, SUMMARISE_ABOVE = 1000, LINE = 80, DIGITS = 4 };

typedef struct printer {
  situ__text text;
  const double *value; /* the printed elements, row-major */
  situ_shape shown;    /* printed elements per dimension: only the edges of a summarised one */
  const situ_view_desc *view;
  bool floating, boolean, integer, scientific;
  int width, indent;
} printer;

static void format_value(const printer *p, double x, char out[64]) {
  if (p->boolean) snprintf(out, 64, "%s", x != 0 ? "True" : "False");
  else if (!p->floating) snprintf(out, 64, "%lld", (long long)x);
  else if (isnan(x)) snprintf(out, 64, "nan");
  else if (isinf(x)) snprintf(out, 64, x < 0 ? "-inf" : "inf");
  else if (p->scientific) situ__format(out, 64, "%.*e", DIGITS, x);
  else if (p->integer) situ__format(out, 64, "%.0f.", x);
  else situ__format(out, 64, "%.*f", DIGITS, x);
}

/* torch's rule: whole numbers are printed as "2.", others with four digits; scientific if the largest is over 1000
   times the smallest or over 1e8, or if the smallest is below 1e-4. */
static void choose_format(printer *p, int64_t count) {
  double low = INFINITY, high = 0;
  p->integer = true;
  for (int64_t i = 0; i < count; i++) {
    double x = fabs(p->value[i]);
    if (!isfinite(x)) continue;
    if (x != ceil(x)) p->integer = false;
    if (x != 0 && x < low) low = x;
    if (x > high) high = x;
  }
  bool any = low <= high;
  p->width = 1;
  p->scientific = p->floating && any &&
                  (p->integer ? high / low > 1e3 && high > 1e8 : high / low > 1e3 || high > 1e8 || low < 1e-4);
  if (p->integer && any && high > 1e8) p->scientific = p->floating;
  char item[64];
  for (int64_t i = 0; i < count; i++) {
    format_value(p, p->value[i], item);
    int length = (int)strlen(item);
    bool counts = !p->floating || (isfinite(p->value[i]) && p->value[i] != 0); /* torch's rule: columns fit these */
    if (counts && length > p->width) p->width = length;
  }
}

/* Returns true if dim is summarised: a gap precedes its printed element EDGE. */
static bool has_gap(const printer *p, int dim) { return p->shown.dim[dim] < p->view->size[dim]; }

static void print_row(printer *p, int dim, int64_t first) {
  const int ndim = p->shown.ndim;
  char item[64];
  if (dim == ndim) {
    format_value(p, p->value[first], item);
    situ__text_add(&p->text, "%*s", ndim ? p->width : 0, item);
    return;
  }
  int64_t step = 1, size = p->shown.dim[dim];
  for (int d = dim + 1; d < ndim; d++) step *= p->shown.dim[d];
  bool last = dim == ndim - 1;
  int per_line = (LINE - p->indent - dim) / (p->width + 2), printed = 0;
  if (per_line < 1) per_line = 1;
  situ__text_add(&p->text, "[");
  for (int64_t i = 0; i < size; i++) {
    bool gap = i == EDGE && has_gap(p, dim);
    if (i && last) {
      situ__text_add(&p->text, ",");
      if (printed % per_line == 0) situ__text_add(&p->text, "\n%*s", p->indent + dim + 1, "");
      else situ__text_add(&p->text, " ");
    } else if (i) {
      situ__text_add(&p->text, ",");
      for (int d = dim; d < ndim - 1; d++) situ__text_add(&p->text, "\n");
      situ__text_add(&p->text, "%*s", p->indent + dim + 1, "");
    }
    if (gap) {
      situ__text_add(&p->text, last ? " ..., " : "...,");
      printed++;
      if (!last) {
        for (int d = dim; d < ndim - 1; d++) situ__text_add(&p->text, "\n");
        situ__text_add(&p->text, "%*s", p->indent + dim + 1, "");
      }
    }
    print_row(p, dim + 1, first + i * step);
    printed++;
  }
  situ__text_add(&p->text, "]");
}

/* Adds the properties that differ from torch's defaults. */
static void print_suffix(printer *p, const situ_tensor *t) {
  situ_dtype dtype = (situ_dtype)t->view.dtype;
  char device[SITU_DEVICE_NAME_MAX];
  if (t->view.storage->device.kind == SITU_META || (t->view.numel == 0 && t->view.ndim != 1)) {
    situ__text_add(&p->text, ", size=(");
    for (int d = 0; d < t->view.ndim; d++)
      situ__text_add(&p->text, "%s%lld", d ? ", " : "", (long long)t->view.size[d]);
    situ__text_add(&p->text, ")");
  }
  if (t->view.storage->device.kind != SITU_CPU)
    situ__text_add(&p->text, ", device='%s'", situ_device_name(t->view.storage->device, device));
  if (dtype != SITU_F32 && dtype != SITU_I64 && dtype != SITU_BOOL)
    situ__text_add(&p->text, ", dtype=%s", situ_dtype_name(dtype));
  if (t->requires_grad)
    situ__text_add(&p->text,
                   t->node || (t->base && t->rebased != t->base->rebased) ? ", grad_fn" : ", requires_grad=True");
  situ__text_add(&p->text, ")");
}

/* Copies one corner of t to its place in `wide`: bit d of `corner` selects the end of dimension d. */
static bool copy_corner(const printer *p, const situ_view_desc *wide, unsigned corner) {
  situ_view_desc from = *p->view, to = *wide;
  for (int d = 0; d < from.ndim; d++) {
    if (!has_gap(p, d)) continue;
    from.offset += corner >> d & 1 ? (from.size[d] - EDGE) * from.stride[d] : 0;
    to.offset += corner >> d & 1 ? EDGE * to.stride[d] : 0;
    from.size[d] = to.size[d] = EDGE;
  }
  situ_desc_refresh(&from);
  situ_desc_refresh(&to);
  const situ_work work = { SITU_VERB_COPY, .ins = 1, .outs = 1, .in = { &from }, .out = { &to } };
  return situ__run("to_string", wide->storage->device, &work) == SITU_OK;
}

/* Returns the printed values as doubles in a block that the caller frees; integers beyond 2^53 are rounded. */
static double *read_values(const printer *p, int64_t count) {
  size_t bytes = (size_t)count * sizeof(double);
  double *host = situ__alloc(bytes);
  if (!host) return situ__no_memory("to_string", bytes), NULL;
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  situ_tensor *wide = situ__tensor_new("to_string", &p->shown, SITU_F64, p->view->storage->device);
  bool good = wide != NULL;
  unsigned cut = 0;
  for (int d = 0; d < p->shown.ndim; d++) cut |= has_gap(p, d) ? 1u << d : 0;
  unsigned corner = 0; /* takes every subset of the summarised dimensions */
  do {
    good = good && copy_corner(p, &wide->view, corner);
    corner = (corner - cut) & cut;
  } while (corner);
  good = good && situ_copy_to_host(wide, host, bytes) == SITU_OK;
  SITU_IGNORE(situ_scope_end(&s));
  if (good) return host;
  situ__free(host);
  return NULL;
}

/* Chooses the printed elements per dimension, and returns their total. */
static int64_t choose_shown(printer *p) {
  int64_t count = 1;
  p->shown = situ__shape(p->view);
  for (int d = 0; d < p->shown.ndim; d++) {
    if (p->view->numel > SUMMARISE_ABOVE) p->shown.dim[d] = situ__min_i64(p->shown.dim[d], 2 * EDGE);
    count *= p->shown.dim[d];
  }
  return count;
}

static bool build_text(situ_tensor *t, situ__text *out) {
  printer p = { .view = &t->view,
                .floating = situ_dtype_is_floating((situ_dtype)t->view.dtype),
                .boolean = t->view.dtype == SITU_BOOL,
                .indent = 7 };
  situ__text_add(&p.text, "tensor(");
  if (t->view.storage->device.kind == SITU_META) {
    situ__text_add(&p.text, "...");
  } else if (situ__blocks_of(&t->view)) {
    situ__text_add(&p.text, "<%s blocks>", situ__block(situ__blocks_of(&t->view))->name);
  } else if (situ__first_unwritten(&t->view) >= 0) {
    situ__text_add(&p.text, "<not written%s yet>", situ__holds_some(t->view.storage) ? " in all parts" : "");
  } else if (t->view.numel == 0) {
    situ__text_add(&p.text, "[]");
  } else {
    const int64_t count = choose_shown(&p);
    double *host = read_values(&p, count);
    if (!host) {
      situ__text_free(&p.text);
      return false;
    }
    p.value = host;
    choose_format(&p, count);
    print_row(&p, 0, 0);
    situ__free(host);
  }
  print_suffix(&p, t);
  *out = p.text;
  return true;
}

int64_t situ_to_string(situ_tensor *t, char *buffer, size_t size) {
  situ__text text = { 0 };
  if (!situ__need("to_string", "input", t) || (size && !situ__given("to_string", "buffer", buffer)) ||
      !build_text(t, &text))
    return -1;
  if (text.failed) {
    situ__text_free(&text);
    return situ__no_memory("to_string", text.capacity), -1;
  }
  if (size) snprintf(buffer, size, "%s", text.data);
  int64_t length = (int64_t)text.length;
  situ__text_free(&text);
  return length;
}

void situ_print(situ_tensor *t) {
  situ__text text = { 0 };
  if (!situ__need("print", "input", t) || !build_text(t, &text)) return;
  puts(text.data ? text.data : "tensor(?)");
  situ__text_free(&text);
}
