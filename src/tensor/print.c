/* Printing like torch's: aligned columns, four digits, scientific where sizes differ much, ... in the middle.
   SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/text.h"
#include "tensor/tensor.h"

enum { EDGE = 3, SUMMARISE_ABOVE = 1000, LINE = 80, DIGITS = 4 };

typedef struct printer {
  situ__text text;
  const double *value;    /* row-major, all of them */
  const situ_view_desc *view;
  bool floating, boolean, whole, scientific, summarise;
  int width, indent;
} printer;

static void format(const printer *p, double x, char out[64]) {
  if (p->boolean) snprintf(out, 64, "%s", x != 0 ? "True" : "False");
  else if (!p->floating) snprintf(out, 64, "%lld", (long long)x);
  else if (isnan(x)) snprintf(out, 64, "nan");
  else if (isinf(x)) snprintf(out, 64, x < 0 ? "-inf" : "inf");
  else if (p->scientific) snprintf(out, 64, "%.*e", DIGITS, x);
  else if (p->whole) snprintf(out, 64, "%.0f.", x);
  else snprintf(out, 64, "%.*f", DIGITS, x);
}

/* torch's rule: whole numbers are shown as "2.", others with four digits, scientifically if the largest is 1000
   times the smallest, above 1e8, or the smallest below 1e-4. */
static void choose(printer *p, int64_t count) {
  double low = INFINITY, high = 0;
  p->whole = true;
  for (int64_t i = 0; i < count; i++) {
    double x = fabs(p->value[i]);
    if (!isfinite(x)) continue;
    if (x != ceil(x)) p->whole = false;
    if (x != 0 && x < low) low = x;
    if (x > high) high = x;
  }
  bool any = low <= high;
  p->width = 1;
  p->scientific = p->floating && any && (p->whole ? high / low > 1e3 && high > 1e8 : high / low > 1e3 || high > 1e8 || low < 1e-4);
  if (p->whole && any && high > 1e8) p->scientific = p->floating;
  char item[64];
  for (int64_t i = 0; i < count; i++) {
    format(p, p->value[i], item);
    int length = (int)strlen(item);
    bool counts = !p->floating || (isfinite(p->value[i]) && p->value[i] != 0);  /* torch's rule: columns fit these */
    if (counts && length > p->width) p->width = length;
  }
}

static void row(printer *p, int dim, int64_t first) {
  const situ_view_desc *v = p->view;
  char item[64];
  if (dim == v->ndim) {
    format(p, p->value[first], item);
    situ__text_add(&p->text, "%*s", v->ndim ? p->width : 0, item);
    return;
  }
  int64_t step = 1, size = v->size[dim];
  for (int d = dim + 1; d < v->ndim; d++) step *= v->size[d];
  bool last = dim == v->ndim - 1, cut = p->summarise && size > 2 * EDGE;
  int per_line = (LINE - p->indent - dim) / (p->width + 2), shown = 0;
  if (per_line < 1) per_line = 1;
  situ__text_add(&p->text, "[");
  for (int64_t i = 0; i < size; i++) {
    bool gap = cut && i == EDGE;
    if (gap) i = size - EDGE;
    if (i && last) {
      situ__text_add(&p->text, ",");
      if (shown % per_line == 0) situ__text_add(&p->text, "\n%*s", p->indent + dim + 1, "");
      else situ__text_add(&p->text, " ");
    } else if (i) {
      situ__text_add(&p->text, ",");
      for (int d = dim; d < v->ndim - 1; d++) situ__text_add(&p->text, "\n");
      situ__text_add(&p->text, "%*s", p->indent + dim + 1, "");
    }
    if (gap) {
      situ__text_add(&p->text, last ? " ..., " : "...,");
      shown++;
      if (!last) {
        for (int d = dim; d < v->ndim - 1; d++) situ__text_add(&p->text, "\n");
        situ__text_add(&p->text, "%*s", p->indent + dim + 1, "");
      }
    }
    row(p, dim + 1, first + i * step);
    shown++;
  }
  situ__text_add(&p->text, "]");
}

/* What differs from torch's defaults follows the values. */
static void suffix(printer *p, const situ_tensor *t) {
  situ_dtype dtype = (situ_dtype)t->view.dtype;
  char device[SITU_DEVICE_NAME_MAX];
  if (t->view.storage->device.kind == SITU_META || (t->view.numel == 0 && t->view.ndim != 1)) {
    situ__text_add(&p->text, ", size=(");
    for (int d = 0; d < t->view.ndim; d++) situ__text_add(&p->text, "%s%lld", d ? ", " : "", (long long)t->view.size[d]);
    situ__text_add(&p->text, ")");
  }
  if (t->view.storage->device.kind != SITU_CPU)
    situ__text_add(&p->text, ", device='%s'", situ_device_name(t->view.storage->device, device));
  if (dtype != SITU_F32 && dtype != SITU_I64 && dtype != SITU_BOOL)
    situ__text_add(&p->text, ", dtype=%s", situ_dtype_name(dtype));
  if (t->requires_grad) situ__text_add(&p->text, t->node ? ", grad_fn" : ", requires_grad=True");
  situ__text_add(&p->text, ")");
}

/* All values as doubles, in host memory that the caller frees; integers beyond 2^53 are rounded. */
static double *values(situ_tensor *t) {
  size_t bytes = (size_t)t->view.numel * sizeof(double);
  double *host = situ__alloc(bytes ? bytes : 1);
  if (!host) {
    situ__no_memory("to_string", bytes);
    return NULL;
  }
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  situ_device device = t->view.storage->device;
  situ_shape shape = situ__shape(&t->view);
  situ_tensor *wide = situ__tensor_new("to_string", &shape, SITU_F64, device);
  bool good = wide != NULL;
  if (good) {
    const situ_work work = { .verb = SITU_VERB_COPY, .ins = 1, .outs = 1, .in = { &t->view }, .out = { &wide->view } };
    good = situ__run("to_string", device, &work) == SITU_OK && situ_copy_to_host(wide, host, bytes) == SITU_OK;
  }
  SITU_IGNORE(situ_scope_end(&s));
  if (good) return host;
  situ__free(host);
  return NULL;
}

static bool build(situ_tensor *t, situ__text *out) {
  printer p = { .view = &t->view, .floating = situ_dtype_is_floating((situ_dtype)t->view.dtype),
                .boolean = t->view.dtype == SITU_BOOL, .summarise = t->view.numel > SUMMARISE_ABOVE, .indent = 7 };
  situ__text_add(&p.text, "tensor(");
  if (t->view.storage->device.kind == SITU_META) {
    situ__text_add(&p.text, "...");
  } else if (t->view.storage->flags & SITU_STORAGE_UNWRITTEN && t->view.numel) {
    situ__text_add(&p.text, "<not written yet>");
  } else if (t->view.numel == 0) {
    situ__text_add(&p.text, "[]");
  } else {
    double *host = values(t);
    if (!host) {
      situ__text_free(&p.text);
      return false;
    }
    p.value = host;
    choose(&p, t->view.numel);
    row(&p, 0, 0);
    situ__free(host);
  }
  suffix(&p, t);
  *out = p.text;
  return true;
}

int64_t situ_to_string(situ_tensor *t, char *buffer, size_t size) {
  situ__text text = { 0 };
  if (!situ__need("to_string", "input", t) || !build(t, &text)) return -1;
  if (text.failed) {
    situ__text_free(&text);
    situ__no_memory("to_string", text.capacity);
    return -1;
  }
  if (size) snprintf(buffer, size, "%s", text.data);
  int64_t length = (int64_t)text.length;
  situ__text_free(&text);
  return length;
}

void situ_print(situ_tensor *t) {
  situ__text text = { 0 };
  if (!situ__need("print", "input", t) || !build(t, &text)) return;
  puts(text.data ? text.data : "tensor(?)");
  situ__text_free(&text);
}
