/* ATen's calls on lists of tensors, as optimisers make them: `_foreach_mul` is `mul` for each element of the lists.
   SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "program/graph/bind.h"
#include "pt2.h"

static const char prefix[] = "torch.ops.aten._foreach_";

bool situ__pt2_is_each(const char *target) { return strncmp(target, prefix, sizeof prefix - 1) == 0; }

/* The row of a call on one tensor: "pow.Tensor_Scalar" for "pow.ScalarList". NULL: situ lacks it. */
static const situ__op_row *row_of_one(situ__arena *arena, const char *target) {
  static const char *const of_lists[] = { "Tensor_Tensor", "Tensor", "default" }, *const of_numbers[] = {
    "Tensor_Scalar", "Scalar", "default"
  };
  const char *op = target + sizeof prefix - 1;
  const int length = (int)strcspn(op, ".");
  const char *const *overload = strncmp(op + length, ".Scalar", 7) == 0 ? of_numbers : of_lists;
  if (strncmp(op, "norm.", 5) == 0) op = "linalg_vector_norm.";
  const situ__op_row *row = NULL;
  for (int k = strcmp(target + sizeof prefix - 1 + length, ".default") == 0 ? 2 : 0; k < 3 && !row; k++) {
    char name[96];
    (void)snprintf(name, sizeof name, "%.*s.%s", (int)strcspn(op, "."), op, overload[k]);
    row = situ__op_row_for(arena, name);
  }
  return row && !row->results && !row->size ? row : NULL;
}

/* The name that the row has for argument k: lists have their own names, "scalars" for "other". */
static const char *name_of(situ__arena *arena, const situ__op_row *row, int k, const char *given) {
  const char *name;
  int length;
  for (int i = 0; situ__op_parameter(row, i, &name, &length); i++)
    if ((int)strlen(given) == length && memcmp(given, name, (size_t)length) == 0) return given;
  return situ__op_parameter(row, k, &name, &length) ? situ__arena_text(arena, name, (size_t)length) : given;
}

/* Sets one[] to what the lists of given[] have at i. */
static bool take_each(const situ__named_arg *given, int count, int i, situ__named_arg *one) {
  for (int k = 0; k < count; k++) {
    const situ__arg *a = &given[k].arg;
    one[k] = given[k];
    if (a->kind != SITU__ARG_LIST) continue;
    if (a->count != given->arg.count) return false;
    one[k].arg = a->list[i];
  }
  return true;
}

bool situ__pt2_read_each(situ__pt2 *f, const char *target, const char *name, situ__named_arg *given, int count,
                         const situ__program_node *whole) {
  situ__arena *arena = &f->program->arena;
  situ__named_arg one[SITU__PT2_ARGS];
  situ__program_node node = *whole;
  situ__text why = { 0 };
  const int each = count && given->arg.kind == SITU__ARG_LIST ? given->arg.count : 0;
  node.row = row_of_one(arena, target);
  bool fits = node.row && each && (!whole->outs || whole->outs == each);
  node.outs = whole->outs > 0;
  for (int k = 0; fits && k < count; k++)
    if (!(given[k].name = name_of(arena, node.row, k, given[k].name))) return situ__pt2_no_memory();
  for (int i = 0; fits && i < each; i++) {
    node.out = whole->out + (whole->outs ? i : 0);
    fits = take_each(given, count, i, one) && situ__bind_args(arena, node.row, one, count, &node.arg, &why);
    /* The first is the node that the caller has added. */
    situ__program_node *next = i ? situ__program_add_node(f->program) : &f->program->node[f->program->nodes - 1];
    if (next) *next = node;
    else return situ__text_free(&why), situ__pt2_no_memory();
  }
  if (!fits)
    situ__lacks_note(&f->lacks, target, name, why.data ? why.data : node.row ? "has lists that differ" : "", &node);
  situ__text_free(&why);
  return true;
}
