/* Forms that are a formula: "m=Max($0,$1);Mul(m,Sqrt($0))".
   SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "base/format.h"
#include "write.h"

/* An operand is an argument in the dtype ($0), a number (0.5, inf, nan), a variable, or an operator of operands. */
typedef struct formula {
  situ__onnx_writer *w;
  const char *at;
  situ_dtype dtype;
  const char *variable[26];
} formula;

static bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
static bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }

static const char *write_operand(formula *f);

static const char *write_operator(formula *f) {
  enum { MOST = 4, NAME = 32 };
  const char *in[MOST + 1] = { NULL };
  char type[NAME];
  int count = 0;
  bool good = true;
  const size_t length = strcspn(f->at, "(");
  memcpy(type, f->at, length);
  type[length] = 0;
  f->at += length;
  while (*f->at++ != ')') good = (in[count++] = write_operand(f)) && good;
  if (!good) return NULL;
  if (strcmp(type, "IsNaN") == 0 && !situ_dtype_is_floating(f->dtype))
    return situ__onnx_lacks(f->w, "is of whole numbers");
  return situ__onnx_put(f->w, type, in, "");
}

/* Ends at ',' or ')' or ';', or at the end of the text. */
static const char *write_operand(formula *f) {
  const char c = *f->at;
  if (is_upper(c)) return write_operator(f);
  if (is_lower(c) && !is_lower(f->at[1])) return f->variable[*f->at++ - 'a'];
  if (c == '$') {
    f->at += 2;
    return situ__onnx_arg_as(f->w, f->at[-1] - '0', f->dtype);
  }
  char *end;
  const double value = situ__strtod(f->at, &end);
  f->at = end;
  return situ__onnx_scalar(f->w, value, f->dtype);
}

const char *situ__onnx_formula(situ__onnx_writer *w, const char *text, situ_dtype dtype) {
  formula f = { .w = w, .at = text, .dtype = dtype };
  for (;;) {
    const char name = f.at[1] == '=' ? *f.at : 0;
    if (name) f.at += 2;
    const char *y = write_operand(&f);
    if (!name || !y) return y;
    f.variable[name - 'a'] = y;
    f.at++; /* ';' */
  }
}
