/* Runs a program: node by node, freeing each value after its last use.
   SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/text.h"
#include "bind.h"
#include "build.h"
#include "declare.h"
#include "flow.h"
#include "module.h"
#include "situ/sys/dry.h"
#include "situ/sys/layers.h"
#include "situ/sys/shape.h"

static const char op[] = "nn_call";

/* ---- inputs ---- */

static bool is_like(situ_dtype given, situ_dtype wanted) {
  return given == wanted || (situ_dtype_is_floating(given) && situ_dtype_is_floating(wanted)) ||
         (situ_dtype_is_integer(given) && situ_dtype_is_integer(wanted));
}

/* "[s0, 12]" with the names of free sizes. */
static void add_sizes(situ__text *text, const situ__program *p, const situ__program_input *in) {
  if (in->dims < 0) return;
  situ__text_add(text, "[");
  for (int d = 0; d < in->dims; d++) {
    const struct situ__program_size *s = &in->size[d];
    situ__text_add(text, d ? ", " : "");
    if (s->size >= 0) situ__text_add(text, "%" PRId64, s->size);
    else situ__text_add(text, "%s", s->symbol >= 0 ? p->symbol[s->symbol].name : "?");
  }
  situ__text_add(text, "]");
}

static bool refuse_input(const situ__program *p, const situ__program_input *in, const situ_tensor *t,
                         const char *because) {
  situ__text text = { 0 };
  const situ_shape shape = situ_shape_of(t);
  situ__text_add(&text, "input %s is %s ", in->name, situ_dtype_name(situ_dtype_of(t)));
  situ__text_dims(&text, shape.dim, shape.ndim);
  situ__text_add(&text, ", but the program takes %s ", situ_dtype_name(in->dtype));
  add_sizes(&text, p, in);
  situ__text_add(&text, "%s", because);
  situ__fail(is_like(situ_dtype_of(t), in->dtype) ? SITU_E_SHAPE : SITU_E_DTYPE, op, "%s",
             text.failed ? "an input does not fit" : text.data);
  situ__text_free(&text);
  return false;
}

static bool refuse_size(const situ__program *p, const situ__program_input *in, const situ_tensor *t, int dim,
                        bool elsewhere) {
  const situ__program_symbol *symbol = &p->symbol[in->size[dim].symbol];
  situ__text because = { 0 };
  situ__text_add(&because, ", with %s %s", symbol->name, elsewhere ? "as in another input" : "in");
  if (!elsewhere && symbol->most == INT64_MAX) situ__text_add(&because, " %" PRId64 " or more", symbol->least);
  else if (!elsewhere) situ__text_add(&because, " %" PRId64 "..%" PRId64, symbol->least, symbol->most);
  if (!elsewhere && symbol->multiple > 1) situ__text_add(&because, ", a multiple of %" PRId64, symbol->multiple);
  refuse_input(p, in, t, because.failed ? "" : because.data);
  situ__text_free(&because);
  return false;
}

/* Compares an input with what the file says of it. `bound` has the sizes of symbols, -1 where none was seen yet. */
static bool check_input(const situ__program *p, const situ__program_input *in, const situ_tensor *t, int64_t *bound) {
  const situ_shape shape = situ_shape_of(t);
  if (!is_like(situ_dtype_of(t), in->dtype) || (in->dims >= 0 && shape.ndim != in->dims))
    return refuse_input(p, in, t, "");
  for (int d = 0; d < in->dims; d++) {
    const struct situ__program_size *s = &in->size[d];
    if (s->size >= 0 && s->size != shape.dim[d]) return refuse_input(p, in, t, "");
    if (s->size >= 0 || s->symbol < 0) continue;
    const situ__program_symbol *symbol = &p->symbol[s->symbol];
    int64_t *seen = &bound[s->symbol];
    if (*seen >= 0 && *seen != shape.dim[d]) return refuse_size(p, in, t, d, true);
    *seen = shape.dim[d];
    if (shape.dim[d] < symbol->least || shape.dim[d] > symbol->most || shape.dim[d] % situ__symbol_multiple(symbol))
      return refuse_size(p, in, t, d, false);
  }
  return true;
}

typedef struct gathering {
  const situ__program *program;
  situ_tensor **in;
  int64_t count;
} gathering;

static situ_status gather_leaf(const char *path, situ_tensor *t, void *payload) {
  gathering *g = payload;
  (void)path;
  if (g->count < g->program->inputs) g->in[g->count] = t;
  g->count++;
  return SITU_OK;
}

/* Finds the inputs: in a dict by their names, else leaf by leaf. */
static bool gather_inputs(const situ__program *p, const situ_tree *inputs, situ_tensor **in) {
  int named = 0;
  for (int i = 0; situ_tree_kind_of(inputs) == SITU_TREE_DICT && i < p->inputs; i++) {
    const situ_tree *leaf = situ_tree_find(inputs, p->input[i].name);
    if (!leaf || situ_tree_kind_of(leaf) != SITU_TREE_TENSOR) continue;
    in[i] = situ_tree_value(leaf);
    named++;
  }
  if (named == p->inputs && situ_tree_count(inputs) == named && named) return true;
  gathering g = { p, in, 0 };
  if (named == 0 && situ_tree_each(inputs, gather_leaf, &g) == SITU_OK && g.count == p->inputs) return true;
  situ__text names = { 0 };
  for (int i = 0; i < p->inputs; i++) situ__text_add(&names, "%s%s", i ? ", " : "", p->input[i].name);
  situ__fail(SITU_E_ARG, op, "the program takes %d inputs (%s), not %" PRId64, p->inputs, names.data ? names.data : "",
             named ? situ_tree_count(inputs) : g.count);
  situ__text_free(&names);
  return false;
}

static bool set_value(situ__value *v, situ_tensor *t) { return situ_set(&v->tensor, t); }

static bool read_inputs(const situ__program *p, const situ_tree *inputs, situ__value *value) {
  situ_tensor **in = situ__calloc((size_t)p->inputs + 1, sizeof *in);
  int64_t *bound = situ__alloc(((size_t)p->symbols + 1) * sizeof *bound);
  bool fine = in && bound;
  if (!fine) situ__no_memory(op, (size_t)p->inputs * sizeof *in);
  for (int i = 0; fine && i < p->symbols; i++) bound[i] = -1;
  fine = fine && gather_inputs(p, inputs, in);
  for (int i = 0; fine && i < p->inputs; i++)
    fine = check_input(p, &p->input[i], in[i], bound) && set_value(&value[p->input[i].value], in[i]);
  situ__free(in);
  situ__free(bound);
  return fine;
}

static bool read_parts(const situ__program *p, situ_nn_module *root, situ__value *value) {
  for (int i = 0; i < p->parts; i++)
    if (!set_value(&value[p->part[i].value], situ_nn_get_tensor(root, p->part[i].path))) return false;
  for (int i = 0; i < p->constants; i++)
    if (!set_value(&value[p->constant[i].value], p->constant[i].tensor)) return false;
  return true;
}

/* ---- nodes ---- */

/* Whether the number that is the second argument goes as a tensor: what a double does not hold, a bool beside bools,
   which stay bools, and what wraps beside a narrow dtype; a quotient is a fraction. */
static bool takes_tensor(const situ__op_call *c) {
  if (!situ__arg_is_integer(c, 1)) return false;
  const situ_dtype dtype = situ_dtype_of(situ__arg_tensor(c, 0));
  const int64_t number = situ__arg_int(c, 1);
  if (situ__arg_is_wide(c, 1)) return true;
  if (dtype == SITU_BOOL) return situ__arg_is_bool(c, 1);
  if (!situ_dtype_is_integer(dtype) || c->node->row->binary == situ_div || dtype == SITU_I64) return false;
  const int bits = (int)(8 * situ_dtype_size(dtype)), least = dtype == SITU_U8 ? 0 : 1 - bits;
  return number < (least ? -(INT64_C(1) << -least) : 0) || number >= INT64_C(1) << (least ? -least : bits);
}

situ_tensor *situ__call_function(situ__op_call *c) {
  const situ__op_row *row = c->node->row;
  if (row->run) return row->run(c);
  if (row->binary && !c->self && !situ__arg_is_tensor(c, 0)) { /* a number comes first */
    situ_tensor *y = situ__arg_tensor(c, 1);
    return row->binary(situ__arg_scalar(c, 0, y), y);
  }
  if (row->unary) return row->unary(situ__arg_tensor(c, 0));
  if (situ__arg_is_tensor(c, 1) && row->binary) return row->binary(situ__arg_tensor(c, 0), situ__arg_tensor(c, 1));
  if (row->binary && takes_tensor(c)) {
    situ_tensor *x = situ__arg_tensor(c, 0);
    return row->binary(x, situ__arg_scalar(c, 1, x));
  }
  if (row->scalar) return row->scalar(situ__arg_operand(c, 0, 1), situ__arg_number(c, 1));
  return situ__call_refuse(c, "takes a tensor, not a number, as its second argument");
}

static situ_tensor *give_out(situ__op_call *c) {
  situ_tensor *y = situ__call_function(c), *out = situ__arg_tensor(c, situ__op_parameters(c->node->row));
  if (!y) return NULL;
  const situ_shape given = situ_shape_of(y), wanted = situ_shape_of(out);
  if (!situ_shape_equal(&given, &wanted)) return situ__call_refuse(c, "has an out of another size than its result");
  return situ_copy_(out, y);
}

static situ_tensor *run_row(situ__op_call *c) {
  if (c->node->row->copies) {
    situ_tensor *first = situ__call_function(c);
    for (int k = 1; first && k < c->node->outs; k++) c->result[k] = situ_clone(c->result[k]);
    return first ? situ_clone(first) : NULL;
  }
  if (c->node->row->out) return give_out(c);
  if (!c->node->row->in_place) return situ__call_function(c);
  situ_tensor *target = situ__arg_tensor(c, 0);
  /* Of the copy, so that backward has the values before. */
  const bool clean = situ_error() == SITU_OK;
  c->self = situ_clone(target);
  situ_tensor *y = c->self ? situ__call_function(c) : NULL;
  return y && (!clean || situ_error() == SITU_OK) ? situ_copy_(target, y) : NULL;
}

static bool keep_results(situ__op_call *c, situ_tensor *first) {
  const situ__program_node *n = c->node;
  for (int i = 0; i < n->outs; i++) {
    situ_tensor *t = i ? c->result[i] : first;
    if (i && !t && situ__node_wants(n, i))
      return situ__call_refuse(c, "has a second result or more, which situ does not compute"), false;
    if (n->out[i] < 0 || (i && !t)) continue; /* statistics of a decomposed norm have no use but backward */
    if (t ? !set_value(&c->value[n->out[i]], t) : n->row->results != SITU__RESULTS_NONE)
      return t ? false : situ__null(op, "result"), false;
  }
  return true;
}

static bool run_node(situ__op_call *c) {
  const situ__program_node *n = c->node;
  if (n->row->results == SITU__RESULTS_NONE) return true;
  if (n->counts && !situ__call_trains(c)) return situ_error() == SITU_OK && keep_results(c, situ__arg_tensor(c, 0));
  if (n->row->size) {
    situ__value number = { 0 };
    if (!n->row->size(c, &number)) return false;
    situ__value *to = n->outs && n->out[0] >= 0 ? &c->value[n->out[0]] : &number;
    if (to != &number || number.collected) situ__value_free(to);
    if (to != &number) *to = number;
    return true;
  }
  if (!(c->result = situ__call_take(c, n->outs, sizeof *c->result))) return false;
  situ_scope scope;
  if (n->no_grad) situ_scope_begin_no_grad(&scope);
  else situ_scope_begin(&scope);
  const bool clean = situ_error() == SITU_OK;
  const bool paused = situ__call_pause(c);
  situ_tensor *first = run_row(c);
  if (!first && clean && situ_error() == SITU_OK) situ__null(op, n->row->target);
  const bool kept = first && keep_results(c, first);
  const situ_status ended = situ_scope_end(&scope);
  if (paused) situ_dry_resume();
  return ended == SITU_OK && kept;
}

bool situ__program_run_node(situ__op_call *c) {
  situ__call_memory memory; /* not zeroed, as `few` is large */
  memory.more = NULL;
  memory.used = 0;
  c->memory = &memory;
  const bool good = run_node(c);
  situ__call_memory_free(&memory);
  return good;
}

static bool tell_results(const situ__program_node *n, const situ__value *value) {
  for (int i = 0; i < n->outs; i++) {
    situ_tensor *t = n->out[i] >= 0 ? value[n->out[i]].tensor : NULL;
    if (t && situ_nn_part_result(t) != SITU_OK) return false;
  }
  return true;
}

/* Whether the node runs as declared; `symbols` NULL: that was checked when the program was loaded. */
static bool run_checked(situ__op_call *c, const situ__symbols *symbols) {
  return situ__program_run_node(c) && (!symbols || situ__program_check_node(symbols, c->node, c->value)) &&
         tell_results(c->node, c->value);
}

/* Tells the trace which node runs, and in which branch it is; n NULL: in that of the program's caller. */
static void tell_trace(const situ__program *p, const situ__program_node *n, const situ__value *value, int32_t outer) {
  if (!situ__flow_tracing) return;
  situ__flow_tracing->guard = n && n->guard ? (int32_t)value[n->guard - 1].real : outer;
  situ__flow_tracing->program = p;
  situ__flow_tracing->node = n;
}

static bool run_nodes(const situ__program *p, situ_nn_module *root, situ__deriving *kept, situ__value *value,
                      const situ__symbols *symbols) {
  const bool clean = situ_error() == SITU_OK;
  int64_t iterations = 0;
  const int32_t outer = situ__flow_tracing ? situ__flow_tracing->guard : 0;
  for (int i = 0; i < p->nodes; i++) {
    const situ__program_node *n = &p->node[i];
    const bool skipped = n->guard && !value[n->guard - 1].integer;
    situ_nn_running_part(n->module);
    tell_trace(p, n, value, outer);
    situ_tensor **prepacked = situ__prepacked_of(kept, n);
    situ__op_call c = { .node = n,
                        .arg = n->arg,
                        .value = value,
                        .root = root,
                        .prepacked = prepacked,
                        /* the first run may have skipped it */
                        .is_prepacked = kept->hit && (!n->guard || !prepacked || *prepacked) };
    if ((kept->hit && n->lasting) || skipped) {
      /* its results are there, or only other such nodes use them; a guard may be an earlier iteration's */
      if (skipped && n->row->size && n->outs && n->out[0] >= 0) value[n->out[0]].integer = 0;
    } else if (!run_checked(&c, symbols)) {
      if (clean) situ__node_blame(p, n);
      return false;
    }
    if (n->back && value[n->guard - 1].integer) { /* not skipped, and there is another iteration */
      if (++iterations >= p->max_iterations) {
        situ__fail(SITU_E_LIMIT, op,
                   "%s: loops run more than %" PRId64 " iterations in one call: "
                   "situ_load_options.max_iterations sets the limit",
                   p->path, p->max_iterations);
        if (clean) situ__node_blame(p, n);
        return false;
      }
      i = n->back - 1;
      continue;
    }
    if (kept->derived && !kept->hit && n->lasting) situ__deriving_note(kept, n, value);
    for (int k = 0; k < n->lasts; k++) situ_drop(&value[n->last[k]].tensor);
  }
  situ_nn_running_part(NULL);
  tell_trace(p, NULL, value, outer);
  return true;
}

/* ---- what loops collect ---- */

bool situ__value_add(situ__value *v, situ_tensor *t) {
  if (!v->collected) v->collected = situ__calloc(1, sizeof *v->collected);
  situ__value_list *c = v->collected;
  if (!c || !situ__grow(NULL, &c->tensor, &c->capacity, sizeof(situ_tensor *), c->count + 1))
    return situ__no_memory(op, sizeof *c), false;
  c->tensor[c->count] = NULL;
  return situ_set(&c->tensor[c->count++], t);
}

void situ__value_free(situ__value *v) {
  situ_drop(&v->tensor);
  for (int64_t i = 0; v->collected && i < v->collected->count; i++) situ_drop(&v->collected->tensor[i]);
  if (v->collected) situ__free(v->collected->tensor);
  situ__free(v->collected);
  *v = (situ__value){ 0 };
}

/* ---- results ---- */

static bool write_back(const situ__program *p, situ__value *value) {
  situ_scope scope;
  situ_scope_begin_no_grad(&scope);
  for (int i = 0; i < p->writes; i++)
    if (!situ_copy_(value[p->write[i].to].tensor, value[p->write[i].from].tensor)) break;
  return situ_scope_end(&scope) == SITU_OK;
}

static situ_tree *number_leaf(int64_t value) {
  return situ_tree_tensor(situ_from_host(&value, sizeof value, SITU_SCALAR, &(situ_options){ .dtype = SITU_I64 }));
}
static situ_tree *real_leaf(double value) {
  return situ_tree_tensor(situ_from_host(&value, sizeof value, SITU_SCALAR, &(situ_options){ .dtype = SITU_F64 }));
}

static situ_tree *list_leaf(const situ__value_list *list) {
  situ_tree *tree = situ_tree_list();
  for (int64_t i = 0; i < list->count; i++) tree = situ_tree_append(tree, situ_tree_tensor(list->tensor[i]));
  return tree;
}

static situ_tree *leaf(const situ__arg *a, const situ__value *value) {
  switch (a->kind) {
  case SITU__ARG_VALUE:
    if (value[a->integer].collected) return list_leaf(value[a->integer].collected);
    if (a->of == SITU__VALUE_FLOAT) return real_leaf(value[a->integer].real);
    return a->of == SITU__VALUE_TENSOR ? situ_tree_tensor(value[a->integer].tensor)
                                       : number_leaf(value[a->integer].integer);
  case SITU__ARG_INT:
  case SITU__ARG_BOOL: return number_leaf(a->integer);
  case SITU__ARG_FLOAT: return real_leaf(a->real);
  default: return situ_tree_none();
  }
}

/* Builds the tree of results from its prefix order; *at moves past it. */
static situ_tree *build(const situ__program *p, int32_t *at, const situ__value *value) {
  const situ__program_out *o = &p->out[(*at)++];
  if (o->kind == SITU_TREE_TENSOR) return leaf(&o->leaf, value);
  if (o->kind == SITU_TREE_NONE) return situ_tree_none();
  situ_tree *tree = o->kind == SITU_TREE_DICT ? situ_tree_dict() : situ_tree_list();
  for (int i = 0; i < o->count && tree; i++) {
    const char *key = p->out[*at].key;
    situ_tree *item = build(p, at, value);
    tree = o->kind == SITU_TREE_DICT ? situ_tree_put(tree, key, item) : situ_tree_append(tree, item);
  }
  return tree;
}

/* The sizes that the inputs give to symbols, for programs that check each call; s->value NULL: not this one. */
static bool bind_symbols(const situ__program *p, const situ__value *value, situ__symbols *s) {
  *s = (situ__symbols){ .program = p };
  if (!p->checks) return true;
  s->value = situ__alloc(((size_t)p->symbols + 1) * sizeof *s->value);
  if (!s->value) return situ__no_memory(op, (size_t)p->symbols * sizeof *s->value), false;
  for (int32_t i = 0; i < p->symbols; i++) s->value[i] = -1;
  for (int32_t i = 0; i < p->inputs; i++)
    for (int d = 0; d < p->input[i].dims; d++) {
      const int32_t k = p->input[i].size[d].symbol;
      if (p->input[i].size[d].size < 0 && k >= 0)
        s->value[k] = situ_size(value[p->input[i].value].tensor, d) / situ__symbol_multiple(&p->symbol[k]);
    }
  return true;
}

situ_tree *situ__program_run(const situ__program *p, situ_nn_module *root, situ__derived *derived,
                             const situ_tree *inputs) {
  situ__value *value = situ__calloc((size_t)p->values + 1, sizeof *value);
  if (!value) return situ__no_memory(op, (size_t)p->values * sizeof *value), NULL;
  int32_t at = 0;
  situ_tree *out = NULL;
  situ__symbols symbols = { 0 };
  if (read_inputs(p, inputs, value) && read_parts(p, root, value) && bind_symbols(p, value, &symbols)) {
    situ__deriving kept;
    situ__deriving_begin(&kept, p, derived, value);
    const bool good = run_nodes(p, root, &kept, value, symbols.value ? &symbols : NULL) && write_back(p, value);
    if (good) out = build(p, &at, value);
    situ__deriving_end(&kept, root, good);
  }
  for (int i = 0; i < p->values; i++) situ__value_free(&value[i]);
  situ__free(symbols.value);
  situ__free(value);
  return out;
}
