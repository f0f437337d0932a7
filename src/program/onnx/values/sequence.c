/* ONNX's sequences: lists of tensors, which a program has as values beside its tensors.
   SPDX-License-Identifier: MIT */
#include "base/alloc.h"
#include "base/fail.h"
#include "base/size.h"
#include "program/graph/program.h"

/* The list at k; NULL after recording an error. */
static const situ__value_list *list_at(const situ__op_call *c, int k) {
  const situ__value_list *list = c->value[c->arg[k].integer].collected;
  return list ? list : situ__call_refuse(c, "needs a sequence, which has no value here");
}

static bool add(const situ__op_call *c, situ__value *out, situ_tensor *t) {
  const situ__value_list *list = out->collected;
  if (t && list->count && situ_dtype_of(t) != situ_dtype_of(list->tensor[0]))
    return situ__call_refuse(c, "gives a sequence of different dtypes");
  if (list->count == SITU__CALL_MOST) return situ__call_refuse(c, "gives a sequence of more than 131072 tensors");
  return t && situ__value_add(out, t);
}
/* Those from `first` on, before `end`. */
static bool add_some(const situ__op_call *c, situ__value *out, situ_tensor *const *t, int64_t first, int64_t end) {
  bool fine = true;
  for (int64_t i = first; i < end && fine; i++) fine = add(c, out, t[i]);
  return fine;
}

/* A new list in out; what fills it ends with end_list. */
static bool begin_list(situ__value *out, situ_scope *scope) {
  situ_scope_begin(scope);
  out->collected = situ__calloc(1, sizeof *out->collected);
  if (!out->collected) situ__no_memory("sequence", sizeof *out->collected);
  return out->collected;
}
static bool end_list(situ__value *out, situ_scope *scope, bool fine) {
  fine = situ_scope_end(scope) == SITU_OK && fine;
  if (!fine) situ__value_free(out);
  return fine;
}

/* Sets *at to a position in a list of `count`, below `limit`; absent: the last one. */
static bool read_place(situ__op_call *c, int k, int64_t count, int64_t limit, int64_t *at) {
  *at = limit - 1;
  if (situ__arg_given(c, k) && situ__arg_host_ints(c, k, at, 1) < 0) return false;
  if (situ__arg_given(c, k) && *at < 0 && *at >= -count) *at += count;
  return (*at >= 0 && *at < limit) || situ__call_refuse(c, "has a position outside of its sequence");
}

static bool run_construct(situ__op_call *c, situ__value *out) {
  situ_scope scope;
  int count;
  situ_tensor **list = situ__arg_tensors(c, 0, &count);
  return list && end_list(out, &scope, begin_list(out, &scope) && add_some(c, out, list, 0, count));
}
static bool run_empty(situ__op_call *c, situ__value *out) {
  situ_scope scope;
  (void)c;
  return end_list(out, &scope, begin_list(out, &scope));
}
static bool run_insert(situ__op_call *c, situ__value *out) {
  const situ__value_list *list = list_at(c, 0);
  situ_scope scope;
  int64_t at;
  if (!list || !read_place(c, 2, list->count, list->count + 1, &at)) return false;
  return end_list(out, &scope,
                  begin_list(out, &scope) && add_some(c, out, list->tensor, 0, at) &&
                      add(c, out, situ__arg_tensor(c, 1)) && add_some(c, out, list->tensor, at, list->count));
}
static bool run_erase(situ__op_call *c, situ__value *out) {
  const situ__value_list *list = list_at(c, 0);
  situ_scope scope;
  int64_t at;
  if (!list || !read_place(c, 1, list->count, list->count, &at)) return false;
  return end_list(out, &scope,
                  begin_list(out, &scope) && add_some(c, out, list->tensor, 0, at) &&
                      add_some(c, out, list->tensor, at + 1, list->count));
}

/* Lengths along the dimension: as the file says, all of one length but for the last, or 1. */
static bool add_pieces(situ__op_call *c, situ__value *out) {
  situ_tensor *x = situ__arg_tensor(c, 0);
  const int dim = situ__arg_dim(c, 2);
  const int64_t size = situ_size(x, dim);
  const bool list = situ__arg_given(c, 1) && situ_dim(situ__arg_tensor(c, 1)) == 1;
  int count = 0;
  const int64_t *given = situ__arg_given(c, 1) ? situ__arg_host_list(c, 1, &count) : NULL;
  const int64_t each = given && count ? given[0] : 1;
  if (size < 0 || count < 0) return false;
  if (!list && each < 1) return situ__call_refuse(c, "has pieces without a length");
  int64_t at = 0;
  for (int64_t i = 0; list ? i < count : at < size; i++) {
    const int64_t length = list ? given[i] : situ__min_i64(each, size - at);
    if (length < 0 || length > size - at) return situ__call_refuse(c, "has pieces that its input does not have");
    situ_tensor *piece = situ_narrow(x, dim, at, length);
    if (!situ__arg_given(c, 1) && !situ__arg_flag(c, 3)) piece = situ_squeeze(piece, SITU_SHAPE(dim));
    if (!add(c, out, piece)) return false;
    at += length;
  }
  return at == size || situ__call_refuse(c, "has pieces that are not all of its input");
}
static bool run_split(situ__op_call *c, situ__value *out) {
  situ_scope scope;
  return end_list(out, &scope, begin_list(out, &scope) && add_pieces(c, out));
}

static situ_tensor *run_at(situ__op_call *c) {
  const situ__value_list *list = list_at(c, 0);
  int64_t at;
  return list && read_place(c, 1, list->count, list->count, &at) ? list->tensor[at] : NULL;
}
static situ_tensor *run_length(situ__op_call *c) {
  const situ__value_list *list = list_at(c, 0);
  const situ_options o = situ__call_options(c, SITU_I64);
  return list ? situ_from_host(&list->count, sizeof list->count, SITU_SCALAR, &o) : NULL;
}
static situ_tensor *run_concat(situ__op_call *c) {
  const situ__value_list *list = list_at(c, 0);
  const int dim = situ__arg_dim(c, 1);
  if (!list) return NULL;
  if (list->count == 0) return situ__call_refuse(c, "joins a sequence without tensors");
  return situ__arg_flag(c, 2) ? situ_stack(list->tensor, (int)list->count, dim)
                              : situ_cat(list->tensor, (int)list->count, dim);
}

static const situ__op_row rows[] = {
  { "SequenceConstruct", "T inputs", .inputs = 1, .size = run_construct },
  { "SequenceEmpty", "d? dtype", .size = run_empty },
  { "SequenceInsert", "t input_sequence, t tensor, h? position", .inputs = 3, .size = run_insert },
  { "SequenceErase", "t input_sequence, h? position", .inputs = 2, .size = run_erase },
  { "SplitToSequence", "t input, h? split, i axis=0, i keepdims=1", .inputs = 2, .size = run_split },
  { "SequenceAt", "t input_sequence, h position", .inputs = 2, .run = run_at },
  { "SequenceLength", "t input_sequence", .inputs = 1, .run = run_length },
  { "ConcatFromSequence", "t input_sequence, i axis, i new_axis=0", .inputs = 1, .run = run_concat },
};
const situ__op_family situ__onnx_sequence_family = { rows, sizeof rows / sizeof *rows };
