/* How formats travel through a graph: what each operator makes of values whose ONNX dtype situ does not have.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "onnx.h"
#include "program/graph/module.h"

typedef enum travel {
  READS = 1, /* the results have a dtype of situ */
  CARRIES,   /* the first result has the format of the inputs */
  CARRIES_ALL,
  WRAPS,  /* the same, of whole numbers, whose upper bits are lost */
  ROUNDS, /* the result has the format of an attribute or of an input */
  TAKES,  /* inputs are sequences, the results are not */
  LISTS   /* the result is a sequence, too */
} travel;

typedef struct rule {
  const char *op;
  travel travel;
  uint32_t inputs; /* bits of the inputs that may have a format: all of them have one, but for READS. Of ROUNDS: the
                      input whose format the result has */
} rule;

/* Stands for a format, so that operators on tensors refuse sequences. */
const situ__onnx_format situ__onnx_sequence = { .name = "a sequence" };

enum { FIRST = 1, SECOND = 2, THIRD = 4, ANY = -1 };

/* Where all values stay as they are, those of the wide dtype do. */
static const rule rules[] = {
  { "Cast", ROUNDS, 0 },
  { "CastLike", ROUNDS, SECOND },
  { "QuantizeLinear", ROUNDS, THIRD },
  { "DequantizeLinear", READS, FIRST | THIRD },
  { "com.microsoft.QuantizeLinear", ROUNDS, THIRD },
  { "com.microsoft.DequantizeLinear", READS, FIRST | THIRD },
  { "Shape", READS, FIRST },
  { "Size", READS, FIRST },
  { "Equal", READS, FIRST | SECOND },
  { "Greater", READS, FIRST | SECOND },
  { "GreaterOrEqual", READS, FIRST | SECOND },
  { "Less", READS, FIRST | SECOND },
  { "LessOrEqual", READS, FIRST | SECOND },
  { "Pow", READS, SECOND },
  { "SequenceAt", TAKES, FIRST },
  { "SequenceLength", TAKES, FIRST },
  { "ConcatFromSequence", TAKES, FIRST },
  { "SequenceConstruct", LISTS, 0 },
  { "SequenceEmpty", LISTS, 0 },
  { "SequenceInsert", LISTS, FIRST },
  { "SequenceErase", LISTS, FIRST },
  { "SplitToSequence", LISTS, 0 },
  { "Identity", CARRIES, FIRST },
  { "OptionalGetElement", CARRIES, FIRST },
  { "OptionalHasElement", READS, FIRST },
  { "Reshape", CARRIES, FIRST },
  { "Flatten", CARRIES, FIRST },
  { "Transpose", CARRIES, FIRST },
  { "Squeeze", CARRIES, FIRST },
  { "Unsqueeze", CARRIES, FIRST },
  { "Expand", CARRIES, FIRST },
  { "Slice", CARRIES, FIRST },
  { "Tile", CARRIES, FIRST },
  { "Gather", CARRIES, FIRST },
  { "TopK", CARRIES, FIRST },
  { "Where", CARRIES, SECOND | THIRD },
  { "Concat", CARRIES, (uint32_t)ANY },
  { "Split", CARRIES_ALL, FIRST },
  { "Max", CARRIES, (uint32_t)ANY },
  { "Min", CARRIES, (uint32_t)ANY },
  { "Div", WRAPS, FIRST | SECOND },
  { "Mod", WRAPS, FIRST | SECOND },
  { "BitwiseAnd", WRAPS, FIRST | SECOND },
  { "BitwiseOr", WRAPS, FIRST | SECOND },
  { "BitwiseXor", WRAPS, FIRST | SECOND },
  { "BitwiseNot", WRAPS, FIRST },
  { "BitShift", WRAPS, FIRST | SECOND },
  { "Add", WRAPS, FIRST | SECOND },
  { "Sub", WRAPS, FIRST | SECOND },
  { "Mul", WRAPS, FIRST | SECOND },
};

static const rule *rule_of(const char *target) {
  for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
    if (strcmp(rules[i].op, target) == 0) return &rules[i];
  return NULL;
}

bool situ__onnx_makes_formats(const situ__op_row *row) {
  const rule *r = rule_of(row->target);
  return r && r->travel == ROUNDS;
}

static const situ__onnx_format *format_at(const situ__onnx *f, const situ__onnx_node *node, int32_t i) {
  return i < node->inputs && node->input[i] >= 0 ? f->about[node->input[i]].format : NULL;
}

static bool refuse(situ__text *why, const situ__onnx_format *format, const char *what) {
  situ__text_add(why, "takes %s%s", format->name, what);
  return false;
}

/* The one format of the inputs, *first; NULL: none has one. */
static bool read_inputs(const situ__onnx *f, const situ__onnx_node *node, const rule *r,
                        const situ__onnx_format **first, situ__text *why) {
  const travel kind = r ? r->travel : 0;
  const bool lists = kind == TAKES || kind == LISTS;
  *first = NULL;
  for (int32_t i = 0; i < node->inputs; i++)
    if (!*first) *first = format_at(f, node, i);
  for (int32_t i = 0; i < node->inputs && (*first || lists); i++) {
    const situ__onnx_format *format = format_at(f, node, i);
    const bool may = kind == ROUNDS || (r && r->inputs >> (i < 32 ? i : 31) & 1),
               is_list = format == &situ__onnx_sequence;
    if (format && (!may || is_list != lists)) return refuse(why, format, is_list ? "" : ", which situ lacks");
    if (may && lists && !is_list) return situ__text_add(why, "takes a tensor, and needs a sequence"), false;
    if (may && kind != ROUNDS && kind != READS && format != *first) return refuse(why, *first, " beside another dtype");
  }
  return true;
}

typedef struct wrapped {
  situ__op_row row; /* first: the call gets it */
  const situ__op_row *plain;
} wrapped;

/* The operator's own function, whose result then loses its upper bits. */
static situ_tensor *run_wrapped(situ__op_call *c) {
  situ__program_node node = *c->node;
  situ__op_call inner = *c;
  node.row = ((const wrapped *)node.row)->plain;
  inner.node = &node;
  situ_tensor *y = situ__call_function(&inner);
  return y ? situ__onnx_format_cast(node.format, y, false, SITU__FORMAT_NEAREST) : NULL;
}

static bool wrap(situ__onnx *f, situ__program_node *made, situ__text *why) {
  if (made->format->exponent) return refuse(why, made->format, ", which situ lacks");
  wrapped *w = situ__arena_take(&f->program->arena, 1, sizeof *w);
  if (!w) return situ__onnx_no_memory();
  *w = (wrapped){ .row = *made->row, .plain = made->row };
  w->row.run = run_wrapped;
  made->row = &w->row;
  return true;
}

bool situ__onnx_follow_formats(situ__onnx *f, const situ__onnx_node *node, situ__program_node *made, situ__text *why) {
  const rule *r = rule_of(made->row->target);
  const situ__onnx_format *of_inputs;
  if (!read_inputs(f, node, r, &of_inputs, why)) return false;
  if (r && r->travel == ROUNDS) {
    for (int32_t i = 0; i < node->inputs && i < 3; i++)
      if (r->inputs >> i & 1 && node->input[i] >= 0) made->format = format_at(f, node, i);
  } else {
    const bool reads = !r || r->travel == READS || r->travel == TAKES;
    made->format = reads ? NULL : r->travel == LISTS ? &situ__onnx_sequence : of_inputs;
  }
  if (!made->format) return true;
  if (r->travel == WRAPS && !wrap(f, made, why)) return false;
  for (int32_t i = 0; i < node->outputs; i++)
    if (node->output[i] >= 0 && (i == 0 || r->travel == CARRIES_ALL)) f->about[node->output[i]].format = made->format;
  return true;
}

/* ---- inputs and results ---- */

static situ_tensor *run_to_format(situ__op_call *c) {
  return situ__onnx_format_cast(c->node->format, situ__arg_tensor(c, 0), true, SITU__FORMAT_NEAREST);
}
static const situ__op_row to_format = { "to_format", "t input", .run = run_to_format };

bool situ__onnx_round_input(situ__onnx *f, situ__program_input *in) {
  const situ__onnx_node about = { .name = in->name, .module = "" };
  int32_t given, *out = situ__arena_take(&f->program->arena, 1, sizeof *out);
  situ__arg *arg;
  if (!out) return situ__onnx_no_memory();
  if (!situ__onnx_add_value(f, "", &given)) return false;
  situ__program_node *n = situ__onnx_add_part(f, &about, &to_format, 1, &arg);
  if (!n) return false;
  n->site = "";
  n->format = f->about[in->value].format;
  n->out = out;
  *out = in->value;
  *arg = situ__onnx_value_arg(given);
  in->value = given;
  return true;
}

bool situ__onnx_check_format(situ__onnx *f, int32_t v, uint64_t number) {
  char said[32];
  const situ__onnx_format *format = f->about[v].format;
  if (format == situ__onnx_format_of(number)) return true;
  return situ__onnx_bad(f, SITU_E_FORMAT, "declares '%s' as %s, but computes %s", f->about[v].name,
                        situ__onnx_dtype_name(number, said), format ? format->name : "a dtype of situ");
}
