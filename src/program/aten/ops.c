/* Finds the row of an ATen overload.
   SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "program/graph/program.h"

static const situ__op_family *const families[] = {
  &situ__elementwise_family, &situ__special_family, &situ__shape_family,    &situ__join_family,
  &situ__layers_family,      &situ__image_family,   &situ__reduce_family,   &situ__order_family,
  &situ__index_family,       &situ__make_family,    &situ__linalg_family,   &situ__loss_family,
  &situ__recurrent_family,   &situ__size_family,    &situ__backward_family, &situ__quantized_family,
};

/* ATen's second names for an op, up to the overload: their schemas are the same but for the first name. */
static const struct {
  const char *name, *means;
} aliases[] = {
  { "absolute", "abs" },
  { "arccos", "acos" },
  { "arccosh", "acosh" },
  { "arcsin", "asin" },
  { "arcsinh", "asinh" },
  { "arctan", "atan" },
  { "arctan2", "atan2" },
  { "arctanh", "atanh" },
  { "clip", "clamp" },
  { "concatenate", "cat" },
  { "divide", "div" },
  { "true_divide", "div" },
  { "fix", "trunc" },
  { "ger", "outer" },
  { "greater", "gt" },
  { "greater_equal", "ge" },
  { "less", "lt" },
  { "less_equal", "le" },
  { "matrix_exp", "linalg_matrix_exp" },
  { "matrix_power", "linalg_matrix_power" },
  { "moveaxis", "movedim" },
  { "multiply", "mul" },
  { "negative", "neg" },
  { "not_equal", "ne" },
  { "row_stack", "vstack" },
  { "special_digamma", "digamma" },
  { "special_erf", "erf" },
  { "special_erfc", "erfc" },
  { "special_erfinv", "erfinv" },
  { "special_exp2", "exp2" },
  { "special_expit", "sigmoid" },
  { "special_expm1", "expm1" },
  { "special_gammaln", "lgamma" },
  { "special_i0", "i0" },
  { "special_log1p", "log1p" },
  { "special_logit", "logit" },
  { "special_logsumexp", "logsumexp" },
  { "special_multigammaln", "mvlgamma" },
  { "special_polygamma", "polygamma" },
  { "special_psi", "digamma" },
  { "special_round", "round" },
  { "special_sinc", "sinc" },
  { "special_xlogy", "xlogy" },
  { "squeeze_", "squeeze" }, /* a trace calls what such a call changed by its result from then on */
  { "subtract", "sub" },
  { "swapaxes_", "swapaxes" },
  { "swapdims_", "swapdims" },
  { "t_", "t" },
  { "trapz", "trapezoid" },
  { "unsafe_chunk", "chunk" },
  { "unsafe_split", "split" },
  { "unsafe_split_with_sizes", "split_with_sizes" },
  { "unsqueeze_", "unsqueeze" },
  { "_unsafe_index", "index" },
  { "_unsafe_index_put", "index_put" },
};

static const situ__op_row *find(const situ__op_family *family, const char *target) {
  for (int i = 0; i < family->count; i++)
    if (*family->row[i].target == *target && strcmp(family->row[i].target, target) == 0) return &family->row[i];
  return NULL;
}

static const char *without_space(const char *target) {
  static const char aten[] = "torch.ops.aten.";
  return strncmp(target, aten, sizeof aten - 1) == 0 ? target + sizeof aten - 1 : target;
}

const situ__op_row *situ__op_row_of(const char *target) {
  target = without_space(target);
  const situ__op_row *row = NULL;
  for (size_t f = 0; f < sizeof families / sizeof *families && !row; f++) row = find(families[f], target);
  return row;
}

/* A row of a family like that of "op.overload" for "op", its second name, and the text that follows that. */
static const situ__op_row *find_named(const char *op, size_t length, const char *overload, char *name, size_t size) {
  for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
    if (strlen(aliases[i].name) == length && memcmp(aliases[i].name, op, length) == 0) {
      op = aliases[i].means;
      length = strlen(op);
      break;
    }
  if (length + strlen(overload) >= size) return NULL;
  memcpy(name, op, length);
  memcpy(name + length, overload, strlen(overload) + 1);
  return situ__op_row_of(name);
}

static bool ends_in(const char *op, size_t length, const char *end) {
  const size_t n = strlen(end);
  return length > n && memcmp(op + length - n, end, n) == 0;
}

/* Whether the results have the first argument's shape, so that they can be written to it. */
static bool keeps_shape(const situ__op_row *row) {
  static const situ__op_family *const keeping[] = { &situ__elementwise_family, &situ__special_family,
                                                    &situ__index_family };
  static const char *const others[] = { "tril",  "triu",  "cumsum", "cumprod", "renorm",
                                        "addmm", "addmv", "addbmm", "baddbmm", "addr" };
  for (size_t f = 0; f < sizeof keeping / sizeof *keeping; f++)
    if (row >= keeping[f]->row && row < keeping[f]->row + keeping[f]->count) return true;
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    if (strncmp(row->target, others[i], strlen(others[i])) == 0 && row->target[strlen(others[i])] == '.') return true;
  return false;
}

static bool is_word_of(const char *words, const char *op, size_t length) {
  for (const char *at = words; *at; at += strspn(at, " ")) {
    const size_t word = strcspn(at, " ");
    if (word == length && memcmp(at, op, length) == 0) return true;
    at += word;
  }
  return false;
}

/* What torch has as "op_copy". */
static const char copied[] =
    "alias as_strided detach diagonal expand narrow permute select slice split split_with_sizes "
    "squeeze t transpose unbind unfold unsqueeze view";
/* What keeps its argument's shape, and is not in torch as "op_". */
static const char never_in_place[] =
    "_to_copy _unsafe_index _unsafe_index_put alias angle clone conj contiguous fmax fmin gather glu hardshrink index "
    "index_select isclose isreal lift_fresh lift_fresh_copy log_sigmoid logaddexp logaddexp2 max maximum min minimum "
    "one_hot positive real resolve_conj resolve_neg rsub softplus softshrink take take_along_dim to type_as where";

/* A copy of the row, as that of another target. NULL when memory runs out. */
static situ__op_row *make_row(situ__arena *arena, const situ__op_row *row, const char *target) {
  situ__op_row *made = situ__arena_take(arena, 1, sizeof *made);
  char *kept = situ__arena_text(arena, target, strlen(target));
  if (!made || !kept) return NULL;
  *made = *row;
  made->target = kept;
  return made;
}

/* The row of `target`, "add.out": that of the overload of "add" which takes tensors, with one more parameter. */
static const situ__op_row *make_out(situ__arena *arena, const char *target, size_t length) {
  static const char *const overloads[] = { ".Tensor", ".default", ".dim", ".dim_IntList", ".Tensor_Scalar" };
  char name[96], parameters[400];
  const situ__op_row *row = NULL;
  for (size_t i = 0; i < sizeof overloads / sizeof *overloads && !row; i++)
    row = find_named(target, length, overloads[i], name, sizeof name);
  if (!row || row->results || row->size || row->in_place || strlen(row->parameters) + 12 > sizeof parameters)
    return NULL;
  const int count = snprintf(parameters, sizeof parameters, "%s, *t out", row->parameters);
  situ__op_row *made = make_row(arena, row, target);
  const char *kept = situ__arena_text(arena, parameters, (size_t)count);
  if (!made || !kept) return NULL;
  made->parameters = kept;
  made->out = true;
  made->folds = false;
  made->prepacked = 0;
  return made;
}

const situ__op_row *situ__op_row_for(situ__arena *arena, const char *target) {
  char name[96];
  target = without_space(target);
  const situ__op_row *row = situ__op_row_of(target);
  const size_t length = strcspn(target, ".");
  const char *overload = target + length;
  if (!row) row = find_named(target, length, overload, name, sizeof name);
  if (row) return row;
  if (strcmp(overload, ".out") == 0) return ends_in(target, length, "_") ? NULL : make_out(arena, target, length);
  const bool copies = ends_in(target, length, "_copy") && is_word_of(copied, target, length - 5);
  const bool operator= strncmp(target, "__i", 3) == 0 && ends_in(target, length, "__"); /* "__iand__" is "__and__" */
  /* A call in place has no form in place of its own, and torch's second names with "special_" have none. */
  const bool single =
      ends_in(target, length, "_") && !ends_in(target, length, "__") && !is_word_of(never_in_place, target, length - 1);
  const bool in_place = operator||(single &&strncmp(target, "special_", 8) != 0);
  char plain[48];
  if (operator&& length<sizeof plain) {
    (void)snprintf(plain, sizeof plain, "__%.*s", (int)length - 3, target + 3);
    row = find_named(plain, length - 1, overload, name, sizeof name);
  } else if (copies || in_place) {
    row = find_named(target, length - (copies ? 5 : 1), overload, name, sizeof name);
  }
  if (!row || row->results == SITU__RESULTS_NONE || (in_place && !keeps_shape(row))) return NULL;
  situ__op_row *made = make_row(arena, row, target);
  if (!made) return NULL;
  made->copies = copies;
  made->in_place = in_place;
  return made;
}
