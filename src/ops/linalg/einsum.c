/* einsum: reads the equation; contract.c evaluates it.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/fail.h"
#include "contract.h"

/* Labels are 0..51 for A-Z and a-z, then the dimensions of "...", counted from the last one. */
enum { DOTS = SITU__LABELS, SUBSCRIPT = SITU_MAX_DIMS + 1 };

/* Labels between two commas, with DOTS for "...". */
typedef struct subscript {
  int count, label[SUBSCRIPT];
  bool dots;
} subscript;

static int label_of(char c) { return c >= 'A' && c <= 'Z' ? c - 'A' : c >= 'a' && c <= 'z' ? c - 'a' + 26 : -1; }
static char letter_of(int label) { return (char)(label < 26 ? 'A' + label : 'a' + label - 26); }

static bool fail(const char *text, const char *equation) {
  return situ__fail(SITU_E_ARG, "einsum", "\"%s\": %s", equation, text), false;
}

/* Reads one subscript, up to a comma, an arrow or the end, where *at is left. */
static bool read_subscript(const char *equation, const char **at, subscript *s) {
  *s = (subscript){ 0 };
  for (; **at && **at != ',' && **at != '-'; ++*at) {
    int label = label_of(**at);
    if (**at == ' ') continue;
    if (strncmp(*at, "...", 3) == 0) {
      if (s->dots) return fail("a subscript has \"...\" twice", equation);
      s->dots = true;
      label = DOTS;
      *at += 2;
    }
    if (label < 0) return fail("labels are letters; write \"ij,jk->ik\"", equation);
    if (s->count == SUBSCRIPT) return fail("a subscript has more labels than a tensor can have dimensions", equation);
    s->label[s->count++] = label;
  }
  return true;
}

/* The labels of a tensor with `dots` dimensions at "...". Returns false if these are too many. */
static bool spell_out(const subscript *s, int dots, situ__term *t) {
  t->ndim = 0;
  for (int k = 0; k < s->count; k++)
    for (int n = s->label[k] == DOTS ? dots : 1; n > 0; n--) {
      if (t->ndim == SITU_MAX_DIMS) return false;
      t->label[t->ndim++] = s->label[k] == DOTS ? SITU__LETTERS + n - 1 : s->label[k];
    }
  return true;
}

/* Without an arrow: the dimensions of "...", then the labels that occur once, in alphabetical order. */
static bool default_result(const situ__label_sizes *s, int dots, situ__term *result) {
  *result = (situ__term){ .ndim = dots };
  for (int d = 0; d < dots; d++) result->label[d] = SITU__LETTERS + dots - 1 - d;
  for (int label = 0; label < SITU__LETTERS; label++) {
    if (s->seen[label] != 1) continue;
    if (result->ndim == SITU_MAX_DIMS) return false;
    result->label[result->ndim++] = label;
  }
  return true;
}

static bool read_result(const char *equation, const char **at, const situ__label_sizes *s, int dots,
                        situ__term *result) {
  subscript text;
  if ((*at)[1] != '>') return fail("\"-\" without \">\"", equation);
  *at += 2;
  if (!read_subscript(equation, at, &text)) return false;
  if (**at) return fail("the result has one subscript, without commas or arrows", equation);
  if (!spell_out(&text, dots, result)) return fail("the result has too many dimensions", equation);
  for (int d = 0; d < result->ndim; d++) {
    if (situ__find_label(result, result->label[d]) != d) return fail("a label occurs twice in the result", equation);
    if (!s->seen[result->label[d]]) return fail("a label of the result occurs in no operand", equation);
  }
  return true;
}

/* Notes the sizes of an operand's labels. Returns false after recording an error. */
static bool note_operand(situ__label_sizes *s, const situ__term *t, int position) {
  const int label = situ__note_sizes(s, t);
  if (label < 0) return true;
  char name[] = { label < SITU__LETTERS ? letter_of(label) : '.', 0 };
  int d = t->ndim - 1;
  while (t->label[d] != label || t->x->view.size[d] == s->of[label]) d--;
  return situ__fail(SITU_E_SHAPE, s->op, "label %s stands for size %lld, and in operand %d for %lld", name,
                    (long long)s->of[label], position, (long long)t->x->view.size[d]),
         false;
}

enum { OPERANDS = 32 };

static bool read_equation(const char *equation, situ_tensor *const *operands, int count, situ__label_sizes *s,
                          situ__term *t, situ__term *result) {
  const char *at = equation;
  int most = 0;
  for (int i = 0; i < count; i++) {
    subscript text;
    if (!read_subscript(equation, &at, &text)) return false;
    const int dots = operands[i]->view.ndim - (text.count - text.dots);
    if (dots < 0 || (dots && !text.dots))
      return situ__fail(SITU_E_SHAPE, s->op, "\"%s\": operand %d has %d dimensions, its subscript %d labels", equation,
                        i, operands[i]->view.ndim, text.count - text.dots),
             false;
    t[i].x = operands[i];
    if (!spell_out(&text, dots, &t[i]) || !note_operand(s, &t[i], i)) return false;
    most = dots > most ? dots : most;
    if (*at == ',' && i + 1 == count) return fail("more subscripts than operands", equation);
    if (*at != ',' && i + 1 < count) return fail("fewer subscripts than operands", equation);
    if (*at == ',') at++;
  }
  if (*at) return read_result(equation, &at, s, most, result);
  return default_result(s, most, result) || fail("the result has too many dimensions", equation);
}

situ_tensor *situ_einsum(const char *equation, situ_tensor *const *operands, int count) {
  SITU__MADE_OF_OPS("einsum");
  static const situ_op schema = { .name = "einsum",
                                  .operand = { { "operands", SITU_SAME } },
                                  .flags = SITU_OP_VARIADIC };
  if (!situ__some("einsum", operands, count) || !situ__together(&schema, operands, count)) return NULL;
  if (!equation || count > OPERANDS) {
    if (equation) situ__fail(SITU_E_ARG, "einsum", "%d operands: at most %d", count, OPERANDS);
    else situ__fail(SITU_E_ARG, "einsum", "equation is NULL");
    return NULL;
  }
  situ__label_sizes s = { .op = "einsum" };
  situ__term t[OPERANDS], result;
  return read_equation(equation, operands, count, &s, t, &result) ? situ__contract(&s, t, count, &result) : NULL;
}
