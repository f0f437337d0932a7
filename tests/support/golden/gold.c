/* Reads .gold files.
   SPDX-License-Identifier: MIT */
#include "support/golden/gold.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t number(gold_file *f, size_t bytes) {
  if (f->size - f->at < bytes) {
    f->broken = true;
    return 0;
  }
  uint64_t value = 0;
  for (size_t i = 0; i < bytes; i++) { value |= (uint64_t)f->bytes[f->at + i] << (8 * i); }
  f->at += bytes;
  return value;
}

static double real(gold_file *f) {
  uint64_t bits = number(f, 8);
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/* A count that must fit an array. */
static int count(gold_file *f, size_t bytes, int most) {
  uint64_t n = number(f, bytes);
  if (n > (uint64_t)most) {
    f->broken = true;
    return 0;
  }
  return (int)n;
}

static const unsigned char *pooled(gold_file *f, size_t bytes) {
  size_t at = number(f, 4);
  if (at > f->pool_size || f->pool_size - at < bytes) {
    f->broken = true;
    return f->bytes + f->pool;
  }
  return f->bytes + f->pool + at;
}

static const char *text(gold_file *f) {
  const unsigned char *s = pooled(f, 1);
  if (!memchr(s, 0, f->pool_size - ((size_t)(s - f->bytes) - f->pool))) {
    f->broken = true;
    return "";
  }
  return (const char *)s;
}

static situ_shape shape(gold_file *f, int ndim) {
  situ_shape out = { .ndim = ndim };
  for (int i = 0; i < ndim; i++) { out.dim[i] = (int64_t)number(f, 4); }
  return out;
}

static gold_tensor tensor(gold_file *f, const char *name) {
  gold_tensor t = { .name = name, .dtype = (situ_dtype)count(f, 1, SITU_DTYPES - 1) };
  int ndim = count(f, 1, SITU_MAX_DIMS);
  bool strided = number(f, 1) != 0;
  t.size = shape(f, ndim);
  if (strided) { t.stride = shape(f, ndim); }
  t.stored = (int64_t)number(f, 4);
  t.data = pooled(f, (size_t)t.stored * situ_dtype_size(t.dtype));
  return t;
}

static gold_attr attribute(gold_file *f) {
  gold_attr a = { .name = text(f), .kind = (char)number(f, 1) };
  switch (a.kind) {
  case 'b':
  case 'i':
  case 'd': a.i = (int64_t)number(f, 8); break;
  case 'f': a.f = real(f); break;
  case 's': a.s = text(f); break;
  case 'l':
    a.i = count(f, 1, GOLD_MAX_LIST);
    for (int64_t i = 0; i < a.i; i++) { a.list[i] = (int64_t)number(f, 8); }
    break;
  default: f->broken = true;
  }
  return a;
}

bool gold_next(gold_file *f, gold_case *out) {
  if (f->broken || f->at == f->size) { return false; }
  memset(out, 0, sizeof *out);
  out->op = text(f);
  out->variant = text(f);
  out->flags = (unsigned)number(f, 1);
  out->inputs = count(f, 1, GOLD_MAX_INPUTS);
  out->attrs = count(f, 1, GOLD_MAX_ATTRS);
  out->outputs = count(f, 1, GOLD_MAX_OUTPUTS);
  out->grads = count(f, 1, GOLD_MAX_INPUTS);
  for (int i = 0; i < out->inputs; i++) {
    const char *name = text(f);
    out->input[i] = tensor(f, name);
  }
  for (int i = 0; i < out->attrs; i++) { out->attr[i] = attribute(f); }
  for (int i = 0; i < out->outputs; i++) {
    const char *name = text(f);
    out->output[i] = tensor(f, name);
    out->has_seed[i] = number(f, 1) != 0;
    if (out->has_seed[i]) { out->seed[i] = tensor(f, name); }
  }
  for (int i = 0; i < out->grads; i++) {
    const char *name = text(f);
    out->grad[i] = tensor(f, name);
  }
  return !f->broken;
}

void gold_rewind(gold_file *f) { f->at = f->pool + f->pool_size; }

/* The whole file in memory, so that tensors can point into it. */
static bool slurp(gold_file *f, const char *path) {
  FILE *in = fopen(path, "rb");
  if (!in) { return false; }
  long end = fseek(in, 0, SEEK_END) == 0 ? ftell(in) : -1;
  if (end > 0 && fseek(in, 0, SEEK_SET) == 0 && (f->bytes = malloc((size_t)end))) {
    f->size = fread(f->bytes, 1, (size_t)end, in);
  }
  fclose(in);
  return f->bytes && f->size == (size_t)end;
}

bool gold_open(gold_file *f, const char *path) {
  memset(f, 0, sizeof *f);
  if (!slurp(f, path) || f->size < 24 || memcmp(f->bytes, "SITUGOLD", 8) != 0) {
    gold_close(f);
    return false;
  }
  f->at = 8;
  bool right = number(f, 4) == 1;
  f->cases = count(f, 4, 1 << 30);
  f->pool_size = number(f, 4);
  size_t rest = number(f, 4);
  f->pool = f->at;
  right = right && f->size - f->at >= f->pool_size && f->size - f->at - f->pool_size == rest;
  if (!right) {
    gold_close(f);
    return false;
  }
  gold_rewind(f);
  return true;
}

void gold_close(gold_file *f) {
  free(f->bytes);
  memset(f, 0, sizeof *f);
}

const gold_attr *gold_find(const gold_case *c, const char *name) {
  for (int i = 0; i < c->attrs; i++) {
    if (strcmp(c->attr[i].name, name) == 0) { return &c->attr[i]; }
  }
  return NULL;
}

static double half(uint16_t bits) {
  int exponent = bits >> 10 & 31, fraction = bits & 1023;
  double value = exponent == 31 ? (fraction ? NAN : INFINITY)
                 : exponent     ? ldexp(1024 + fraction, exponent - 25)
                                : ldexp(fraction, -24);
  return bits >> 15 ? -value : value;
}

static double brain(uint16_t bits) {
  uint32_t wide = (uint32_t)bits << 16;
  float value;
  memcpy(&value, &wide, sizeof value);
  return (double)value;
}

double gold_value(situ_dtype dtype, const void *data, int64_t i) {
  switch (dtype) {
  case SITU_BOOL:
  case SITU_U8: return ((const uint8_t *)data)[i];
  case SITU_I8: return ((const int8_t *)data)[i];
  case SITU_I16: return ((const int16_t *)data)[i];
  case SITU_I32: return ((const int32_t *)data)[i];
  case SITU_I64: return (double)((const int64_t *)data)[i];
  case SITU_F16: return half(((const uint16_t *)data)[i]);
  case SITU_BF16: return brain(((const uint16_t *)data)[i]);
  case SITU_F32: return (double)((const float *)data)[i];
  case SITU_F64: return ((const double *)data)[i];
  default: return NAN;
  }
}
