/* Binds the named arguments of a call to the parameters of its row.
   SPDX-License-Identifier: MIT */
#include "bind.h"

#include <stdlib.h>
#include <string.h>

#include "base/format.h"
#include "base/problem.h"

/* A parameter, parsed from the text of a row. */
typedef struct parameter {
  char type;
  bool optional, keyword;
  const char *name;
  int length;            /* of name */
  const char *choices;   /* of a text: "(one|another)"; NULL: any */
  const char *otherwise; /* text of the number that absent means; NULL: none */
} parameter;

/* Parses the parameter at `at`; returns what follows it, NULL at the end. */
static const char *next_parameter(const char *at, parameter *p) {
  if (!at || !*at) return NULL;
  const bool keyword = *at == '*';
  at += keyword;
  *p = (parameter){ .type = *at++, .keyword = keyword };
  if (*at == '?') {
    p->optional = true;
    at++;
  }
  p->name = ++at;
  p->length = (int)strcspn(at, "=,(");
  at += p->length;
  if (*at == '(') {
    p->choices = at;
    at += strcspn(at, "=,");
  }
  if (*at == '=') {
    p->otherwise = at + 1;
    at += strcspn(at, ",");
  }
  return at + strspn(at, ", ");
}

int situ__op_parameters(const situ__op_row *row) {
  const char *text = row->parameters;
  parameter p;
  int count = 0;
  while ((text = next_parameter(text, &p))) count++;
  return count - row->out;
}

char situ__op_parameter(const situ__op_row *row, int k, const char **name, int *length) {
  parameter p = { 0 };
  const char *at = row->parameters;
  for (int i = 0; i <= k; i++)
    if (!(at = next_parameter(at, &p))) return 0;
  *name = p.name;
  *length = p.length;
  return p.type;
}

bool situ__op_by_name_only(const situ__op_row *row, int k) {
  parameter p = { 0 };
  const char *at = row->parameters;
  for (int i = 0; i <= k; i++)
    if (!(at = next_parameter(at, &p))) return false;
  return p.keyword;
}

static bool is_int(const situ__arg *a) {
  return a->kind == SITU__ARG_INT || (a->kind == SITU__ARG_VALUE && a->of == SITU__VALUE_INT);
}
static bool is_bool(const situ__arg *a) {
  return a->kind == SITU__ARG_BOOL || (a->kind == SITU__ARG_VALUE && a->of == SITU__VALUE_BOOL);
}
static bool is_number(const situ__arg *a) {
  return is_int(a) || is_bool(a) || a->kind == SITU__ARG_FLOAT ||
         (a->kind == SITU__ARG_VALUE && a->of == SITU__VALUE_FLOAT);
}
static bool is_tensor(const situ__arg *a) { return a->kind == SITU__ARG_VALUE && a->of == SITU__VALUE_TENSOR; }
static bool is_text(const situ__arg *a) { return a->kind == SITU__ARG_TEXT; }
static bool is_tensor_or_none(const situ__arg *a) { return a->kind == SITU__ARG_NONE || is_tensor(a); }

static bool is_list(const situ__arg *a, bool (*each)(const situ__arg *), int32_t most) {
  if (a->kind != SITU__ARG_LIST || a->count > most) return false;
  for (int i = 0; i < a->count; i++)
    if (!each(&a->list[i])) return false;
  return true;
}

static bool has_type(const situ__arg *a, char type) {
  switch (type) {
  case 't': return is_tensor(a);
  case 'x': return is_tensor(a) || is_number(a);
  case 'T': return is_list(a, is_tensor_or_none, INT32_MAX);
  case 'i': return is_int(a);
  case 'I': return is_int(a) || is_list(a, is_int, SITU_MAX_DIMS);
  case 'L': return is_list(a, is_int, INT32_MAX);
  case 'n': return is_number(a);
  case 'F': return is_list(a, is_number, SITU_MAX_DIMS);
  case 'b': return is_bool(a);
  case 'd': return a->kind == SITU__ARG_DTYPE;
  case 's': return a->kind == SITU__ARG_TEXT;
  case 'h': return is_tensor(a) || is_list(a, is_number, INT32_MAX) || is_number(a);
  case 'S': return is_list(a, is_text, INT32_MAX);
  default: return true;
  }
}

_Static_assert(SITU_MAX_DIMS == 8, "these texts say so");
static const char *type_name(char type) {
  static const char types[] = "txTiILnFbdshS";
  static const char *const name[] = { "a tensor",
                                      "a tensor or a number",
                                      "a list of tensors",
                                      "a whole number",
                                      "a list of at most 8 whole numbers",
                                      "a list of whole numbers",
                                      "a number",
                                      "a list of at most 8 numbers",
                                      "a bool",
                                      "a dtype",
                                      "a text",
                                      "a tensor or a list of numbers",
                                      "a list of texts" };
  return name[strchr(types, type) - types];
}

static const char *kind_name(const situ__arg *a) {
  if (is_tensor(a)) return "a tensor";
  if (is_bool(a)) return "a bool";
  if (is_number(a)) return "a number";
  if (a->kind == SITU__ARG_TEXT) return "a text";
  return a->kind == SITU__ARG_DTYPE ? "a dtype" : a->kind == SITU__ARG_NONE ? "None" : "something else";
}

/* What an absent argument means. */
static bool fill_absent(const parameter *p, situ__arg *out, situ__text *problem) {
  if (p->otherwise) {
    const double value = situ__strtod(p->otherwise, NULL);
    const bool small = value > -0x1p53 && value < 0x1p53; /* others do not fit */
    const bool integer = strchr("iIb", p->type) || (small && value == (double)(int64_t)value);
    *out = integer ? (situ__arg){ .kind = SITU__ARG_INT, .integer = (int64_t)value }
                   : (situ__arg){ .kind = SITU__ARG_FLOAT, .real = value };
    return true;
  }
  if (p->optional || p->type == '_') return true;
  situ__text_add(problem, "lacks its argument %.*s", p->length, p->name);
  return false;
}

static bool fill_parameter(const parameter *p, const situ__named_arg *given, int count, bool *used, situ__arg *out,
                           situ__text *problem) {
  for (int i = 0; i < count; i++) {
    const situ__named_arg *g = &given[i];
    if (used[i] || strncmp(g->name, p->name, (size_t)p->length) != 0 || g->name[p->length]) continue;
    used[i] = true;
    if (g->arg.kind == SITU__ARG_NONE && (p->optional || p->type == '_')) return true;
    if (g->arg.kind == SITU__ARG_NONE && p->otherwise) return fill_absent(p, out, problem);
    *out = g->arg;
    if (has_type(&g->arg, p->type)) return true;
    situ__text_add(problem, "needs %s as %.*s", type_name(p->type), p->length, p->name);
    if (g->arg.kind == SITU__ARG_LIST) situ__text_add(problem, ", and is given %d", g->arg.count);
    else situ__text_add(problem, ", and is given %s", kind_name(&g->arg));
    return false;
  }
  return fill_absent(p, out, problem);
}

/* Whether a text is one of "(one|another)". */
static bool is_choice(const char *choices, const char *text) {
  const size_t length = strlen(text);
  for (const char *at = choices; *at == '(' || *at == '|';) {
    const size_t one = strcspn(++at, "|)");
    if (one == length && memcmp(at, text, length) == 0) return true;
    at += one;
  }
  return false;
}

/* Whether the row knows an argument by its name, and its text. */
static bool check_known(const situ__op_row *row, const situ__named_arg *given, situ__text *problem) {
  char shown[SITU__SHOWN_MAX], text[SITU__SHOWN_MAX];
  parameter p;
  for (const char *at = row->parameters; (at = next_parameter(at, &p));) {
    if (strncmp(given->name, p.name, (size_t)p.length) != 0 || given->name[p.length]) continue;
    if (!p.choices || given->arg.kind != SITU__ARG_TEXT || is_choice(p.choices, given->arg.text)) return true;
    situ__text_add(problem, "has %s '%s', and situ knows %.*s", given->name, situ__shown(given->arg.text, text),
                   (int)strcspn(p.choices, ")") + 1, p.choices);
    return false;
  }
  situ__text_add(problem, "has an argument %s, which situ does not know", situ__shown(given->name, shown));
  return false;
}

bool situ__bind_args(situ__arena *arena, const situ__op_row *row, const situ__named_arg *given, int count,
                     const situ__arg **out, situ__text *problem) {
  enum { MOST = 32 };
  bool used[MOST] = { false };
  parameter p;
  const int parameters = situ__op_parameters(row) + row->out;
  situ__arg *arg = situ__arena_take(arena, (size_t)parameters, sizeof *arg);
  if (!arg || count > MOST) {
    situ__text_add(problem, arg ? "has more than %d arguments" : "has no memory for %d arguments", MOST);
    return false;
  }
  for (int i = 0; i < count; i++)
    if (!check_known(row, &given[i], problem)) return false;
  const char *at = row->parameters;
  for (int k = 0; (at = next_parameter(at, &p)); k++)
    if (!fill_parameter(&p, given, count, used, &arg[k], problem)) return false;
  for (int i = 0; i < count; i++) {
    if (used[i]) continue;
    situ__text_add(problem, "has its argument %s twice", given[i].name);
    return false;
  }
  *out = arg;
  return true;
}
