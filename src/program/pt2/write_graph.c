/* Writes the graph of a program as torch.export's JSON (schema 8).
   SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "program/graph/bind.h"
#include "base/format.h"
#include "base/size.h"
#include "program/graph/flow.h"
#include "write.h"

enum { INNER = -1 }; /* in situ__pt2_writer.seen: a value of a branch */

/* ---- small values ---- */

static int torch_dtype(situ_dtype dtype) {
  static const int number[] = { [SITU_U8] = 1,  [SITU_I8] = 2,  [SITU_I16] = 3, [SITU_I32] = 4,   [SITU_I64] = 5,
                                [SITU_F16] = 6, [SITU_F32] = 7, [SITU_F64] = 8, [SITU_BOOL] = 12, [SITU_BF16] = 13 };
  return number[dtype];
}

/* text: of an expression; NULL: the size is a number. */
static void write_size(situ__text *json, int64_t size, const char *text) {
  if (text) situ__text_add(json, "{\"as_expr\": {\"expr_str\": \"%s\", \"hint\": ", text);
  situ__text_add(json, "{\"as_int\": %" PRId64 "}%s", size, text ? "}}" : "");
}

static void write_sizes(situ__text *json, const char *key, const situ_shape *sizes, const char *const *text) {
  situ__text_add(json, "\"%s\": [", key);
  for (int d = 0; d < sizes->ndim; d++) {
    situ__text_add(json, d ? ", " : "");
    write_size(json, sizes->dim[d], text ? text[d] : NULL);
  }
  situ__text_add(json, "]");
}

void situ__pt2_write_meta(situ__text *json, const situ__value_meta *meta) {
  situ__text_add(json, "{\"dtype\": %d, ", torch_dtype(meta->dtype));
  write_sizes(json, "sizes", &meta->size, meta->text);
  situ__text_add(json, ", \"requires_grad\": %s, \"device\": {\"type\": \"cpu\", \"index\": null}, ",
                 meta->requires_grad ? "true" : "false");
  write_sizes(json, "strides", &meta->stride, meta->text ? meta->text + meta->size.ndim : NULL);
  situ__text_add(json, ", \"storage_offset\": {\"as_int\": 0}, \"layout\": 7}");
}

static void write_real(situ__text *json, double value) {
  char digits[32];
  if (isnan(value)) situ__text_add(json, "\"NaN\"");
  else if (isinf(value)) situ__text_add(json, value > 0 ? "\"Infinity\"" : "\"-Infinity\"");
  else {
    (void)situ__format(digits, sizeof digits, "%.17g", value);
    situ__text_add(json, "%s%s", digits, strpbrk(digits, ".e") ? "" : ".0");
  }
}

/* ---- arguments ---- */

static const char *name_of(const situ__pt2_writer *w, const situ__arg *a) { return w->name[a->integer]; }

/* Whether the argument is an int of the program, which has a name. */
static bool is_named_int(const situ__arg *a) { return a->kind == SITU__ARG_VALUE && a->of == SITU__VALUE_INT; }

static void write_int(situ__pt2_writer *w, const situ__arg *a) {
  if (is_named_int(a)) situ__text_add(&w->json, "{\"as_name\": \"%s\"}", name_of(w, a));
  else situ__text_add(&w->json, "{\"as_int\": %" PRId64 "}", a->integer);
}

static void write_list(situ__pt2_writer *w, const situ__arg *a, char type) {
  situ__text *json = &w->json;
  bool gaps = false, symbolic = false;
  for (int32_t i = 0; i < a->count; i++) {
    gaps |= a->list[i].kind == SITU__ARG_NONE;
    symbolic |= is_named_int(&a->list[i]);
  }
  situ__text_add(json, "{\"%s\": [",
                 symbolic      ? "as_sym_ints"
                 : type == 'F' ? "as_floats"
                 : type != 'T' ? "as_ints"
                 : gaps        ? "as_optional_tensors"
                               : "as_tensors");
  for (int32_t i = 0; i < a->count; i++) {
    const situ__arg *e = &a->list[i];
    situ__text_add(json, i ? ", " : "");
    if (symbolic) write_int(w, e);
    else if (type == 'F') write_real(json, e->kind == SITU__ARG_INT ? (double)e->integer : e->real);
    else if (type != 'T') situ__text_add(json, "%" PRId64, e->integer);
    else if (e->kind == SITU__ARG_NONE) situ__text_add(json, "{\"as_none\": true}");
    else situ__text_add(json, gaps ? "{\"as_tensor\": {\"name\": \"%s\"}}" : "{\"name\": \"%s\"}", name_of(w, e));
  }
  situ__text_add(json, "]}");
}

static void write_arg(situ__pt2_writer *w, const situ__arg *a, char type) {
  situ__text *json = &w->json;
  switch (a->kind) {
  case SITU__ARG_VALUE:
    situ__text_add(json,
                   is_named_int(a) ? "{\"as_sym_int\": {\"as_name\": \"%s\"}}" : "{\"as_tensor\": {\"name\": \"%s\"}}",
                   name_of(w, a));
    break;
  case SITU__ARG_INT:
    if (type == 'b') situ__text_add(json, "{\"as_bool\": %s}", a->integer ? "true" : "false");
    else situ__text_add(json, "{\"as_int\": %" PRId64 "}", a->integer);
    break;
  case SITU__ARG_BOOL: situ__text_add(json, "{\"as_bool\": %s}", a->integer ? "true" : "false"); break;
  case SITU__ARG_FLOAT:
    situ__text_add(json, "{\"as_float\": ");
    write_real(json, a->real);
    situ__text_add(json, "}");
    break;
  case SITU__ARG_TEXT:
    situ__text_add(json, "{\"as_string\": ");
    situ__text_json_string(json, a->text);
    situ__text_add(json, "}");
    break;
  case SITU__ARG_DTYPE: situ__text_add(json, "{\"as_scalar_type\": %d}", torch_dtype((situ_dtype)a->integer)); break;
  case SITU__ARG_LIST: write_list(w, a, type); break;
  default: situ__text_add(json, "{\"as_none\": true}"); break;
  }
}

/* Positional arguments all, since ATen has no default for some that may be None; those by name where they are given. */
static void write_args(situ__pt2_writer *w, const situ__program_node *n) {
  enum { POSITIONAL = 1, KEYWORD = 2 };
  const char *name;
  int length;
  char type;
  for (int k = 0; (type = situ__op_parameter(n->row, k, &name, &length)); k++) {
    const bool keyword = situ__op_by_name_only(n->row, k);
    if (n->arg[k].kind == SITU__ARG_NONE && (keyword || type == '_')) continue;
    situ__text_add(&w->json, "%s{\"name\": \"%.*s\", \"arg\": ", k ? ", " : "", length, name);
    write_arg(w, &n->arg[k], type);
    situ__text_add(&w->json, ", \"kind\": %d}", keyword ? KEYWORD : POSITIONAL);
  }
}

/* ---- the graph ---- */

static void write_outputs(situ__pt2_writer *w, const situ__program_node *n) {
  for (int32_t i = 0; i < n->outs; i++) {
    const char *name = n->out[i] >= 0 ? w->name[n->out[i]] : "";
    const bool number = n->out[i] >= 0 && w->program->kind[n->out[i]] == SITU__VALUE_INT;
    situ__text_add(&w->json,
                   number ? "%s{\"as_sym_int\": {\"as_name\": \"%s\"}}" : "%s{\"as_tensor\": {\"name\": \"%s\"}}",
                   i ? ", " : "", name);
  }
}

/* The module that the call was in, as torch writes it: key, path and class of each module around it. */
static void write_stack(situ__pt2_writer *w, const char *path) {
  situ__text text = { 0 };
  situ__text_add(&text, "L__self__,,%s", w->module->type->name);
  if (*path) {
    const situ_nn_module *m = situ_nn_get_submodule(w->module, path);
    situ__text_add(&text, ";L__self___%s,%s,%s", path, path, m ? m->type->name : "Module");
  }
  situ__text_json_string(&w->json, text.data ? text.data : "");
  w->json.failed |= text.failed;
  situ__text_free(&text);
}

static void write_node(situ__pt2_writer *w, const situ__program_node *n) {
  const char *target = n->row->target;
  const char *name = n->outs > 1 ? situ__pt2_new_name(w, target, strcspn(target, ".")) : w->name[n->out[0]];
  const char *library = strncmp(target, "_operator.", strlen("_operator.")) == 0 ? "" : "torch.ops.aten.";
  situ__text_add(&w->json, "{\"target\": \"%s%s\", \"inputs\": [", library, target);
  write_args(w, n);
  situ__text_add(&w->json, "], \"outputs\": [");
  write_outputs(w, n);
  situ__text_add(&w->json, "], \"metadata\": {\"nn_module_stack\": ");
  write_stack(w, n->module);
  situ__text_add(&w->json, "}, \"is_hop_single_tensor_return\": null, \"name\": \"%s\"}", name ? name : "");
  w->json.failed |= !name;
}

bool situ__pt2_write_nodes(situ__pt2_writer *w, int32_t first, int32_t end) {
  bool any = false;
  for (int32_t i = first; i < end;) {
    const situ__op_row *row = w->program->node[i].row;
    if (row == &situ__scan_count || row == &situ__loop_collected) { /* they are parts of the loop's node */
      i++;
      continue;
    }
    situ__text_add(&w->json, any ? ",\n" : "\n");
    any = true;
    if (row == &situ__flow_then) i = situ__pt2_write_cond(w, i);
    else if (row == &situ__loop_begin) i = situ__pt2_write_loop(w, i);
    else write_node(w, &w->program->node[i++]);
  }
  return any;
}

void situ__pt2_write_values(situ__pt2_writer *w, const int32_t *value, const char *const *name, int32_t values,
                            bool single) {
  const situ__program *p = w->program;
  bool any = false;
  situ__text_add(&w->json, "], \"tensor_values\": {");
  for (int32_t i = 0; i < values; i++) {
    if (p->kind[value[i]] != SITU__VALUE_TENSOR) continue;
    situ__text_add(&w->json, "%s\n\"%s\": ", any ? "," : "", name[i]);
    situ__pt2_write_meta(&w->json, &p->meta[value[i]]);
    any = true;
  }
  any = false;
  situ__text_add(&w->json, "}, \"sym_int_values\": {");
  for (int32_t i = 0; i < values; i++) {
    const situ__value_meta *meta = &p->meta[value[i]];
    if (p->kind[value[i]] != SITU__VALUE_INT) continue;
    situ__text_add(&w->json, "%s\n\"%s\": ", any ? "," : "", name[i]);
    write_size(&w->json, meta->size.dim[0], meta->text ? meta->text[0] : NULL);
    any = true;
  }
  situ__text_add(&w->json,
                 "}, \"sym_bool_values\": {}, \"is_single_tensor_return\": %s, \"custom_obj_values\": {}, "
                 "\"sym_float_values\": {}}",
                 single ? "true" : "false");
}

static void write_leaves(situ__pt2_writer *w, const char *before, const char *after) {
  const situ__program *p = w->program;
  bool any = false;
  for (int32_t i = 0; i < p->outs; i++) {
    if (p->out[i].kind != SITU_TREE_TENSOR) continue;
    situ__text_add(&w->json, "%s%s", any ? ", " : "", before);
    write_arg(w, &p->out[i].leaf, 't');
    situ__text_add(&w->json, "%s", after);
    any = true;
  }
}

/* Tensors of branches are in their graphs. */
static void write_outer_values(situ__pt2_writer *w) {
  const situ__program *p = w->program;
  int32_t *value = situ__arena_take(&w->arena, (size_t)p->values + 1, sizeof *value), values = 0;
  const char **name = situ__arena_take(&w->arena, (size_t)p->values + 1, sizeof *name);
  w->json.failed |= !value || !name;
  if (w->json.failed) return;
  for (int32_t i = 0; i < p->nodes; i++)
    for (int32_t k = 0; k < p->node[i].outs && p->node[i].guard && p->node[i].loop >= 0; k++)
      if (p->node[i].out[k] >= 0) w->seen[p->node[i].out[k]] = INNER;
  for (int32_t v = 0; v < p->values; v++)
    if ((p->kind[v] == SITU__VALUE_TENSOR || p->kind[v] == SITU__VALUE_INT) && w->seen[v] != INNER) {
      name[values] = w->name[v];
      value[values++] = v;
    }
  situ__pt2_write_values(w, value, name, values, false);
}

static void write_graph(situ__pt2_writer *w) {
  const situ__program *p = w->program;
  situ__text *json = &w->json;
  situ__text_add(json, "\"graph\": {\"inputs\": [");
  for (int32_t i = 0; i < p->parts + p->inputs; i++) {
    const int32_t value = i < p->parts ? p->part[i].value : p->input[i - p->parts].value;
    situ__text_add(json, "%s{\"as_tensor\": {\"name\": \"%s\"}}", i ? ", " : "", w->name[value]);
  }
  situ__text_add(json, "], \"outputs\": [");
  write_leaves(w, "", "");
  situ__text_add(json, "], \"nodes\": [");
  situ__pt2_write_nodes(w, 0, p->nodes);
  write_outer_values(w);
}

/* ---- the signature ---- */

static void write_part(situ__pt2_writer *w, const situ__program_part *part) {
  const situ_nn_kind kind = w->kind[part - w->program->part];
  const bool constant =
      kind == SITU_NN_TRANSIENT && strncmp(part->path, "lifted_tensor_", strlen("lifted_tensor_")) == 0;
  const char *word = constant ? "tensor_constant" : kind == SITU_NN_PARAMETER ? "parameter" : "buffer";
  situ__text_add(&w->json, "{\"%s\": {\"arg\": {\"name\": \"%s\"}, \"%s_name\": ", word, w->name[part->value], word);
  situ__text_json_string(&w->json, part->path);
  if (!constant && kind != SITU_NN_PARAMETER)
    situ__text_add(&w->json, ", \"persistent\": %s", kind == SITU_NN_BUFFER ? "true" : "false");
  situ__text_add(&w->json, "}}");
}

static void write_signature(situ__pt2_writer *w) {
  const situ__program *p = w->program;
  situ__text *json = &w->json;
  situ__text_add(json, "\"signature\": {\"input_specs\": [");
  for (int32_t i = 0; i < p->parts; i++) {
    situ__text_add(json, i ? ", " : "");
    write_part(w, &p->part[i]);
  }
  for (int32_t i = 0; i < p->inputs; i++)
    situ__text_add(json, "%s{\"user_input\": {\"arg\": {\"as_tensor\": {\"name\": \"%s\"}}}}",
                   i || p->parts ? ", " : "", w->name[p->input[i].value]);
  situ__text_add(json, "], \"output_specs\": [");
  write_leaves(w, "{\"user_output\": {\"arg\": ", "}}");
  situ__text_add(json, "]}");
}

/* ---- the structure of inputs and results, as torch's tree specs: JSON in a text ---- */

#define LEAF "{\"type\": null, \"context\": null, \"children_spec\": []}"

static void add_spec(const situ__program *p, int32_t *at, situ__text *spec) {
  const situ__program_out *o = &p->out[(*at)++];
  if (o->kind == SITU_TREE_TENSOR) {
    situ__text_add(spec, LEAF);
    return;
  }
  situ__text keys = { 0 }, children = { 0 };
  situ__text_add(&keys, "[");
  for (int32_t i = 0; i < o->count; i++) {
    situ__text_add(&keys, i ? ", " : "");
    situ__text_json_string(&keys, p->out[*at].key ? p->out[*at].key : "");
    situ__text_add(&children, i ? ", " : "");
    add_spec(p, at, &children);
  }
  situ__text_add(&keys, "]");
  const bool dict = o->kind == SITU_TREE_DICT;
  situ__text_add(spec, "{\"type\": \"builtins.%s\", \"context\": ", dict ? "dict" : "list");
  situ__text_json_string(spec, dict && keys.data ? keys.data : "null");
  situ__text_add(spec, ", \"children_spec\": [%s]}", children.data ? children.data : "");
  spec->failed |= keys.failed | children.failed;
  situ__text_free(&keys);
  situ__text_free(&children);
}

static void write_specs(situ__pt2_writer *w) {
  const situ__program *p = w->program;
  situ__text in = { 0 }, out = { 0 };
  int32_t at = 0;
  situ__text_add(&in, "[1, {\"type\": \"builtins.tuple\", \"context\": \"null\", \"children_spec\": "
                      "[{\"type\": \"builtins.tuple\", \"context\": \"null\", \"children_spec\": [");
  for (int32_t i = 0; i < p->inputs; i++) situ__text_add(&in, "%s" LEAF, i ? ", " : "");
  situ__text_add(&in, "]}, {\"type\": \"builtins.dict\", \"context\": \"[]\", \"children_spec\": []}]}]");
  situ__text_add(&out, "[1, ");
  add_spec(p, &at, &out);
  situ__text_add(&out, "]");
  situ__text_add(&w->json, "\"in_spec\": ");
  situ__text_json_string(&w->json, in.data ? in.data : "");
  situ__text_add(&w->json, ", \"out_spec\": ");
  situ__text_json_string(&w->json, out.data ? out.data : "");
  w->json.failed |= in.failed | out.failed;
  situ__text_free(&in);
  situ__text_free(&out);
}

static situ_status write_child(const situ_nn_visit *at, void *payload) {
  situ__pt2_writer *w = payload;
  if (!*at->path) return SITU_OK;
  situ__text_add(&w->json, ", {\"fqn\": ");
  situ__text_json_string(&w->json, at->path);
  situ__text_add(&w->json, ", \"signature\": null}");
  return SITU_OK;
}

static bool write_calls(situ__pt2_writer *w) {
  const situ__program *p = w->program;
  situ__text_add(&w->json, "\"module_call_graph\": [{\"fqn\": \"\", \"signature\": {\"inputs\": [], \"outputs\": [], ");
  write_specs(w);
  situ__text_add(&w->json, ", \"forward_arg_names\": [");
  for (int32_t i = 0; i < p->inputs; i++) {
    situ__text_add(&w->json, i ? ", " : "");
    situ__text_json_string(&w->json, p->input[i].name);
  }
  situ__text_add(&w->json, "]}}");
  const situ_status status = situ_nn_walk(w->module, SITU_NN_VISIT_MODULES, write_child, w);
  situ__text_add(&w->json, "]");
  return status == SITU_OK;
}

static void write_ranges(situ__text *json, const situ__program *p) {
  for (int32_t i = 0; i < p->symbols; i++) {
    const situ__program_symbol *s = &p->symbol[i];
    const int64_t unit = situ__symbol_multiple(s);
    situ__text_add(json, "%s\"%s\": {\"min_val\": %" PRId64 ", \"max_val\": ", i ? ", " : "", s->name,
                   situ__ceil_div(s->least, unit));
    if (s->most == INT64_MAX) situ__text_add(json, "null}");
    else situ__text_add(json, "%" PRId64 "}", s->most / unit);
  }
}

bool situ__pt2_write_model(situ__pt2_writer *w) {
  situ__text *json = &w->json;
  situ__text_add(json, "{\"graph_module\": {");
  write_graph(w);
  situ__text_add(json, ", ");
  write_signature(w);
  situ__text_add(json, ", ");
  if (!write_calls(w)) return false;
  situ__text_add(json, ", \"metadata\": {}, \"treespec_namedtuple_fields\": {}}, \"opset_version\": {\"aten\": 10}, "
                       "\"range_constraints\": {");
  write_ranges(json, w->program);
  situ__text_add(json, "}, \"schema_version\": {\"major\": 8, \"minor\": 20}, "
                       "\"verifiers\": [\"TRAINING\"], \"torch_version\": \"2.15.0\", \"guards_code\": []}");
  return !json->failed;
}
