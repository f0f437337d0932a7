/* Reads the inputs and results of a .pt2 program.
   SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/size.h"
#include "pt2.h"

static const situ__json_item *graph_of(const situ__json_item *model) {
  return situ__json_get(situ__json_get(model, "graph_module"), "graph");
}
static const situ__json_item *signature_of(const situ__json_item *model) {
  return situ__json_get(situ__json_get(model, "graph_module"), "signature");
}
static uint32_t count_members(const situ__json_item *list) { return list ? list->count : 0; }
static const char *keep_text(situ__pt2 *f, const char *text) {
  return situ__arena_text(&f->program->arena, text, strlen(text));
}

/* ---- inputs ---- */

static int32_t find_symbol(const situ__program *p, const char *name, size_t length) {
  for (int32_t i = 0; i < p->symbols; i++)
    if (strncmp(p->symbol[i].name, name, length) == 0 && !p->symbol[i].name[length]) return i;
  return -1;
}

/* The range of every symbol. torch takes a least size of 2 for "not a constant", and allows 0 and 1. */
static bool read_symbols(situ__pt2 *f, const situ__json_item *ranges) {
  situ__program *p = f->program;
  p->symbol = situ__arena_take(&p->arena, count_members(ranges), sizeof *p->symbol);
  if (!p->symbol) return situ__pt2_no_memory();
  for (EACH_MEMBER(m, ranges)) {
    const situ__json_item *least = situ__json_get(m, "min_val"), *most = situ__json_get(m, "max_val");
    situ__program_symbol *s = &p->symbol[p->symbols++];
    s->name = keep_text(f, m->key ? m->key : "");
    s->least = least && least->kind == SITU__JSON_INTEGER && least->integer > 2 ? least->integer : 0;
    s->most = most && most->kind == SITU__JSON_INTEGER ? most->integer : INT64_MAX;
    if (!s->name) return situ__pt2_no_memory();
  }
  return true;
}

/* The number of a symbol whose sizes are multiples of a number, as in all other inputs; -1: they are not checked. */
static int32_t use_symbol(situ__program *p, int32_t i, int64_t multiple) {
  enum { LARGEST = 1 << 20 };
  situ__program_symbol *s = i >= 0 ? &p->symbol[i] : NULL;
  if (!s || (s->multiple && s->multiple != multiple) || multiple < 1 || multiple > LARGEST) return -1;
  if (!s->multiple && !situ__mul_i64(s->least, multiple, &s->least)) return -1;
  if (!s->multiple && !situ__mul_i64(s->most, multiple, &s->most)) s->most = INT64_MAX;
  s->multiple = multiple;
  return i;
}

/* A size: {"as_int": 12}, or an expression, of which only a lone symbol and a multiple of one are checked in calls. */
static void read_size(situ__pt2 *f, const situ__json_item *item, struct situ__program_size *out) {
  static const char symbol[] = "Symbol('", product[] = "Mul(Integer(";
  *out = (struct situ__program_size){ .size = -1, .symbol = -1 };
  if (situ__pt2_int(item, &out->size)) return;
  const char *text = situ__pt2_string(situ__json_get(situ__json_get(item, "as_expr"), "expr_str"));
  const bool multiplied = strncmp(text, product, sizeof product - 1) == 0;
  char *after = NULL;
  const long long multiple = multiplied ? strtoll(text + sizeof product - 1, &after, 10) : 1;
  if (multiplied && strncmp(after, "), ", 3) != 0) return;
  if (multiplied) text = after + 3;
  if (strncmp(text, symbol, sizeof symbol - 1) != 0) return;
  const char *name = text + sizeof symbol - 1, *end = strchr(name, '\''), *close = end ? strchr(end, ')') : NULL;
  if (close && strcmp(close, multiplied ? "))" : ")") == 0)
    out->symbol = use_symbol(f->program, find_symbol(f->program, name, (size_t)(end - name)), multiple);
}

static bool read_input(situ__pt2 *f, const char *name, int32_t value) {
  situ__program *p = f->program;
  const situ__json_item *meta = situ__json_find(f->metas, &f->meta_places, name);
  const situ__json_item *sizes = situ__json_get(meta, "sizes");
  situ__program_input *in = &p->input[p->inputs++];
  *in = (situ__program_input){ .name = keep_text(f, name),
                               .value = value,
                               .dtype = situ__pt2_dtype(situ__json_get(meta, "dtype")) };
  if (!in->name) return situ__pt2_no_memory();
  char dtype[32];
  if (!in->dtype)
    return situ__pt2_bad(f, SITU_E_UNSUPPORTED, "has an input '%s' of dtype %s, which this library lacks", name,
                         situ__pt2_dtype_name(situ__json_get(meta, "dtype"), dtype));
  if (!sizes) return situ__pt2_bad(f, SITU_E_FORMAT, "does not say the sizes of its input '%s'", name);
  if (sizes->count > SITU_MAX_DIMS)
    return situ__pt2_bad(f, SITU_E_LIMIT, "has an input '%s' of %d dimensions, more than %d", name, (int)sizes->count,
                         SITU_MAX_DIMS);
  for (EACH_MEMBER(m, sizes)) read_size(f, m, &in->size[in->dims++]);
  return true;
}

/* A parameter, buffer or constant: its path in the module. */
static bool read_part(situ__pt2 *f, const char *path, int32_t value) {
  situ__program_part *part = &f->program->part[f->program->parts++];
  *part = (situ__program_part){ .path = keep_text(f, path), .value = value };
  return part->path || situ__pt2_no_memory();
}

static bool read_input_spec(situ__pt2 *f, const situ__json_item *spec) {
  static const struct {
    const char *kind, *path;
  } parts[] = { { "parameter", "parameter_name" },
                { "buffer", "buffer_name" },
                { "tensor_constant", "tensor_constant_name" } };
  if (spec->kind != SITU__JSON_OBJECT || spec->count != 1)
    return situ__pt2_bad(f, SITU_E_FORMAT, "has a signature that is not torch.export's");
  const situ__json_item *held = spec + 1, *arg = situ__json_get(held, "arg");
  const char *name = situ__pt2_string(situ__json_get(arg, "name"));
  int32_t value;
  for (size_t k = 0; k < sizeof parts / sizeof *parts; k++)
    if (strcmp(held->key, parts[k].kind) == 0)
      return situ__pt2_add_value(f, &f->values, name, SITU__VALUE_TENSOR, &value) &&
             read_part(f, situ__pt2_string(situ__json_get(held, parts[k].path)), value);
  const situ__json_item *tensor = situ__json_get(arg, "as_tensor");
  name = situ__pt2_string(situ__json_get(tensor, "name"));
  if (strcmp(held->key, "user_input") == 0 && tensor)
    return situ__pt2_add_value(f, &f->values, name, SITU__VALUE_TENSOR, &value) && read_input(f, name, value);
  /* A constant input was built into the graph. */
  const bool symbolic = situ__json_get(arg, "as_sym_int") || situ__json_get(arg, "as_sym_float");
  if (strcmp(held->key, "constant_input") == 0 || (strcmp(held->key, "user_input") == 0 && !symbolic)) return true;
  return situ__pt2_bad(f, SITU_E_UNSUPPORTED, "has an input of the kind %s%s", held->key,
                       symbolic ? " that is a number: export it as a tensor" : "");
}

bool situ__pt2_read_signature(situ__pt2 *f, const situ__json_item *model) {
  situ__program *p = f->program;
  const situ__json_item *specs = situ__json_get(signature_of(model), "input_specs");
  const uint32_t count = count_members(specs);
  p->input = situ__arena_take(&p->arena, count, sizeof *p->input);
  p->part = situ__arena_take(&p->arena, count, sizeof *p->part);
  f->metas = situ__json_get(graph_of(model), "tensor_values");
  if (!p->input || !p->part || !situ__json_index(f->metas, &f->meta_places)) return situ__pt2_no_memory();
  if (!specs) return situ__pt2_bad(f, SITU_E_FORMAT, "has no signature");
  if (!read_symbols(f, situ__json_get(model, "range_constraints"))) return false;
  for (EACH_MEMBER(m, specs))
    if (!read_input_spec(f, m)) return false;
  return true;
}

/* ---- results ---- */

static bool add_target(situ__pt2 *f, const char *name, int32_t value) {
  return situ__names_get(&f->targets, name) >= 0 || situ__names_put(&f->targets, name, value) || situ__pt2_no_memory();
}

static bool list_targets(situ__pt2 *f) {
  const situ__program *p = f->program;
  bool good = true;
  for (int32_t i = 0; i < p->parts && good; i++) good = add_target(f, p->part[i].path, p->part[i].value);
  for (int32_t i = 0; i < p->inputs && good; i++) good = add_target(f, p->input[i].name, p->input[i].value);
  return good;
}

static bool read_write(situ__pt2 *f, const situ__json_item *held, const char *path) {
  situ__program *p = f->program;
  const int32_t to = situ__names_get(&f->targets, path);
  const int32_t from =
      situ__names_get(&f->values, situ__pt2_string(situ__json_get(situ__json_get(held, "arg"), "name")));
  if (to < 0 || from < 0 || p->kind[from] != SITU__VALUE_TENSOR)
    return situ__pt2_bad(f, SITU_E_FORMAT, "writes '%s', which it does not have", path);
  p->write[p->writes].from = from;
  p->write[p->writes++].to = to;
  return true;
}

/* Appends the results of the signature to `leaf`. */
static bool read_output_spec(situ__pt2 *f, const situ__json_item *spec, situ__arg *leaf, int32_t *leaves) {
  const situ__json_item *held = spec->count == 1 ? spec + 1 : NULL;
  const char *kind = held && held->key ? held->key : "";
  if (strcmp(kind, "user_output") == 0 || strcmp(kind, "loss_output") == 0) {
    const situ__json_item *arg = situ__json_get(held, "arg");
    situ__arg *out = &leaf[(*leaves)++];
    const char *name = situ__pt2_string(situ__json_get(arg, "name")); /* loss_output has a bare tensor */
    if (!*name) return situ__pt2_arg(f, &f->values, arg, out);
    const int32_t value = situ__names_get(&f->values, name);
    *out = (situ__arg){ .kind = SITU__ARG_VALUE, .of = SITU__VALUE_TENSOR, .integer = value };
    return value >= 0 || situ__pt2_bad(f, SITU_E_FORMAT, "gives '%s', which it does not compute", name);
  }
  if (strcmp(kind, "buffer_mutation") == 0)
    return read_write(f, held, situ__pt2_string(situ__json_get(held, "buffer_name")));
  if (strcmp(kind, "user_input_mutation") == 0)
    return read_write(f, held, situ__pt2_string(situ__json_get(held, "user_input_name")));
  return situ__pt2_bad(f, SITU_E_UNSUPPORTED, "has a result of the kind '%s'", kind);
}

typedef struct shaping {
  situ__pt2 *f;
  const situ__arg *leaf;
  int32_t leaves, taken;
  bool failed; /* memory has run out */
} shaping;

static situ__program_out *add_out(situ__program *p, situ_tree_kind kind, const char *key) {
  situ__program_out *o = &p->out[p->outs++];
  *o = (situ__program_out){ .kind = kind, .key = key };
  return o;
}

/* The keys of a dict: its context is a JSON list of them. NULL: it is a list, or memory has run out. */
static situ__json_item *read_keys(shaping *s, const situ__json_item *spec, uint32_t count) {
  static const char *const lists[] = { "builtins.list", "builtins.tuple", "collections.deque" };
  const char *context = situ__pt2_string(situ__json_get(spec, "context"));
  const char *type = situ__pt2_string(situ__json_get(spec, "type"));
  situ__problem problem;
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
    if (strcmp(type, lists[i]) == 0) return NULL;
  char *text = situ__arena_text(&s->f->program->arena, context, strlen(context));
  situ__json_item *keys = text ? situ__json_tree(text, strlen(text), &problem) : NULL;
  s->failed = s->failed || !text || (!keys && problem.status == SITU_E_NOMEM);
  bool fits = keys && keys->kind == SITU__JSON_ARRAY && keys->count == count;
  for (EACH_MEMBER(m, keys)) fits = fits && m->kind == SITU__JSON_STRING;
  if (fits) return keys;
  situ__free(keys);
  return NULL;
}

/* Follows a tree spec of torch; the depth is bounded by the JSON parser's. Returns false if it does not fit the
   results. */
static bool shape_results(shaping *s, const situ__json_item *spec, const char *key) {
  situ__program *p = s->f->program;
  const situ__json_item *children = situ__json_get(spec, "children_spec"), *type = situ__json_get(spec, "type");
  const uint32_t count = count_members(children);
  if (!type || !children) return false;
  if (type->kind == SITU__JSON_NULL) {
    if (s->taken == s->leaves) return false;
    situ__program_out *o = add_out(p, SITU_TREE_TENSOR, key);
    o->leaf = s->leaf[s->taken++];
    return true;
  }
  situ__json_item *keys = read_keys(s, spec, count);
  add_out(p, keys ? SITU_TREE_DICT : SITU_TREE_LIST, key)->count = (int32_t)count;
  const situ__json_item *next = keys ? keys + 1 : NULL;
  bool fine = true;
  for (EACH_MEMBER(m, children)) {
    const char *name = keys ? keep_text(s->f, next->text) : NULL;
    s->failed = s->failed || (keys && !name);
    fine = fine && shape_results(s, m, name);
    if (keys) next++;
  }
  situ__free(keys);
  return fine;
}

static uint32_t count_specs(const char *text) {
  uint32_t count = 1;
  for (; *text; text++) count += *text == '{';
  return count;
}

/* Gives the results the structure of the module's own; a flat list if the file does not say it. */
static bool arrange_results(situ__pt2 *f, const situ__json_item *model, const situ__arg *leaf, int32_t leaves) {
  situ__program *p = f->program;
  const situ__json_item *calls = situ__json_get(situ__json_get(model, "graph_module"), "module_call_graph");
  const situ__json_item *first = count_members(calls) ? calls + 1 : NULL;
  const char *spec = situ__pt2_string(situ__json_get(situ__json_get(first, "signature"), "out_spec"));
  char *text = situ__arena_text(&p->arena, spec, strlen(spec));
  p->out = situ__arena_take(&p->arena, count_specs(spec) + (size_t)leaves + 1, sizeof *p->out);
  if (!text || !p->out) return situ__pt2_no_memory();
  situ__problem problem;
  situ__json_item *tree = situ__json_tree(text, strlen(text), &problem);
  shaping s = { .f = f, .leaf = leaf, .leaves = leaves, .failed = !tree && problem.status == SITU_E_NOMEM };
  const bool shaped = tree && tree->kind == SITU__JSON_ARRAY && tree->count == 2 &&
                      shape_results(&s, tree + 1 + tree[1].size, NULL) && s.taken == leaves;
  situ__free(tree);
  if (s.failed) return situ__pt2_no_memory();
  if (shaped) return true;
  p->outs = 0;
  if (leaves != 1) add_out(p, SITU_TREE_LIST, NULL)->count = leaves;
  for (int32_t i = 0; i < leaves; i++) add_out(p, SITU_TREE_TENSOR, NULL)->leaf = leaf[i];
  return true;
}

bool situ__pt2_read_results(situ__pt2 *f, const situ__json_item *model) {
  situ__program *p = f->program;
  const situ__json_item *specs = situ__json_get(signature_of(model), "output_specs");
  const uint32_t count = count_members(specs);
  situ__arg *leaf = situ__arena_take(&p->arena, count, sizeof *leaf);
  p->write = situ__arena_take(&p->arena, count, sizeof *p->write);
  if (!leaf || !p->write) return situ__pt2_no_memory();
  int32_t leaves = 0;
  if (!list_targets(f)) return false;
  for (EACH_MEMBER(m, specs))
    if (!read_output_spec(f, m, leaf, &leaves)) return false;
  if (!leaves) return situ__pt2_bad(f, SITU_E_UNSUPPORTED, "has no result");
  return arrange_results(f, model, leaf, leaves);
}
