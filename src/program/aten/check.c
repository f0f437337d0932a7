/* Compares what a program would compute with what its file declares, by a run without values.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/size.h"
#include "program/graph/build.h"
#include "program/graph/declare.h"
#include "program/graph/flow.h"
#include "program/graph/module.h"
#include "situ/sys/dry.h"
#include "situ/sys/op.h"

typedef struct checking {
  situ_dry dry; /* first: the recorder's callback gets it */
  const char *op;
  situ__program *program;
  situ_nn_module *root;
  situ__symbols symbols;
  situ__value *value;
  bool *rough; /* of each value: its sizes depend on values that are not there */
  situ__text problem;
  const situ__program_node *at; /* the node that it is about; NULL: an input or a result */
  bool misdeclared;             /* a value is */
  bool no_memory;               /* it has run out */
} checking;

static void on_error(situ_dry *dry) {
  situ_error_report report;
  if (situ_error_read(&report) && report.status == SITU_E_NOMEM) ((checking *)dry)->no_memory = true;
}

/* ---- symbols ---- */

/* Sizes as in the inputs when the program was exported. A symbol that no input has depends on values: it has its
   least. */
static void choose_symbols(checking *c, bool first) {
  const situ__program *p = c->symbols.program;
  for (int32_t i = 0; i < p->symbols; i++) {
    c->symbols.value[i] = p->symbol[i].least / situ__symbol_multiple(&p->symbol[i]);
    c->symbols.data[i] = true;
  }
  for (int32_t i = 0; i < p->inputs; i++) {
    const situ__declared *d = &p->declared[p->input[i].value];
    for (int k = 0; k < p->input[i].dims && k < d->dims && d->name; k++) { /* a block inside may declare fewer */
      const int32_t s = p->input[i].size[k].symbol;
      if (s < 0 || p->input[i].size[k].size >= 0) continue;
      const int64_t unit = situ__symbol_multiple(&p->symbol[s]), declared = d->size[k].value / unit;
      const int64_t least = p->symbol[s].least / unit, most = p->symbol[s].most / unit;
      int64_t other;
      if (!situ__add_i64(declared, 5 + 2 * (int64_t)s, &other)) other = most;
      c->symbols.value[s] = first ? declared : other > most ? most : other < least ? least : other;
      c->symbols.data[s] = !d->size[k].hinted;
    }
  }
  c->symbols.first = first;
}

/* ---- values ---- */

/* Makes a value of the declared dtype and sizes. */
static bool stand_in(checking *c, int32_t v) {
  const situ__program *p = c->symbols.program;
  const situ__declared *d = v < p->declareds ? &p->declared[v] : NULL;
  situ_shape shape = { .ndim = d && d->name && d->dims > 0 ? d->dims : 0 };
  bool data = false;
  c->rough[v] = true;
  if (!d || !d->name || shape.ndim > SITU_MAX_DIMS) return true;
  if (d->dims < 0) return (void)situ__declared_value(&c->symbols, d->size, &c->value[v].integer, &data), true;
  for (int k = 0; k < shape.ndim; k++) {
    if (!situ__declared_value(&c->symbols, &d->size[k], &shape.dim[k], &data)) return true;
    if (c->symbols.first && d->size[k].hinted) shape.dim[k] = d->size[k].value;
  }
  c->rough[v] = data;
  situ_tensor *t = d->dtype ? situ_zeros(shape, &(situ_options){ .dtype = d->dtype }) : NULL;
  return !t || situ_set(&c->value[v].tensor, t);
}

static bool set_values(checking *c) {
  const situ__program *p = c->symbols.program;
  for (int32_t i = 0; i < p->inputs; i++)
    if (!stand_in(c, p->input[i].value)) return false;
  for (int32_t i = 0; i < p->parts; i++) {
    const int32_t v = p->part[i].value;
    if (!situ_set(&c->value[v].tensor, situ_nn_get_tensor(c->root, p->part[i].path)) ||
        !situ__declared_holds(&c->symbols, v, c->value, true, &c->problem))
      return false;
  }
  for (int32_t i = 0; i < p->constants; i++)
    if (!situ_set(&c->value[p->constant[i].value].tensor, p->constant[i].tensor)) return false;
  return true;
}

static bool is_rough(const checking *c, const situ__arg *a) {
  bool rough = a->kind == SITU__ARG_VALUE && c->rough[a->integer];
  for (int32_t i = 0; a->kind == SITU__ARG_LIST && i < a->count; i++) rough |= is_rough(c, &a->list[i]);
  return rough;
}

/* What torch declares wrongly, and all that is made of it, has no declaration from here on: the states of a recurrent
   layer with one dimension too many (before 2.15), and a huber_loss of two dtypes, which it computes in the first. */
static bool is_misdeclared(const checking *c, const situ__program_node *n, int32_t k) {
  if (strcmp(n->row->target, "huber_loss.default") == 0)
    return c->value[n->arg[0].integer].tensor && c->value[n->arg[1].integer].tensor &&
           situ_dtype_of(c->value[n->arg[0].integer].tensor) != situ_dtype_of(c->value[n->arg[1].integer].tensor);
  const situ__declared *d = &c->symbols.program->declared[n->out[k]];
  const situ_tensor *t = c->value[n->out[k]].tensor;
  const situ__op_family *const recurrent = &situ__recurrent_family;
  return k > 0 && t && d->name && d->dims == situ_dim(t) + 1 && n->row >= recurrent->row &&
         n->row < recurrent->row + recurrent->count;
}
static bool is_undeclared(const situ__program *p, const situ__arg *a) {
  bool undeclared = a->kind == SITU__ARG_VALUE && a->integer < p->declareds && p->declared[a->integer].misdeclared;
  for (int32_t i = 0; a->kind == SITU__ARG_LIST && i < a->count; i++) undeclared |= is_undeclared(p, &a->list[i]);
  return undeclared;
}
static void undeclare(checking *c, const situ__program_node *n) {
  situ__program *p = c->program;
  bool all = false;
  for (int k = c->misdeclared ? situ__op_row_args(n->row) : 0; k-- > 0;) all |= is_undeclared(p, &n->arg[k]);
  for (int32_t k = 0; k < n->outs; k++)
    if (n->out[k] >= 0 && n->out[k] < p->declareds && (all || is_misdeclared(c, n, k))) {
      p->declared[n->out[k]] = (situ__declared){ .misdeclared = true };
      c->misdeclared = true;
    }
}

/* Returns false if what is computed is not what is declared. */
static bool check_node(checking *c, const situ__program_node *n) {
  situ__op_call call = { .node = n, .arg = n->arg, .value = c->value, .root = c->root };
  bool rough = false;
  for (int k = situ__op_row_args(n->row); k-- > 0;) rough |= is_rough(c, &n->arg[k]);
  /* A loop's nodes stand here once, whatever the number of its iterations. */
  const bool turns = n->loop || n->row == &situ__loop_collected;
  const bool ran = !turns && situ__program_run_node(&call) && situ_error() == SITU_OK && !c->dry.findings;
  situ_dry_tell(&c->dry);
  c->dry.findings = 0;
  undeclare(c, n);
  for (int32_t k = 0; k < n->outs; k++) {
    const int32_t v = n->out[k];
    if (v < 0) continue;
    c->rough[v] = rough;
    if (ran && situ__node_wants(n, k) && !situ__declared_holds(&c->symbols, v, c->value, !rough, &c->problem))
      return c->at = n, false;
    if (!ran) situ_drop(&c->value[v].tensor);
    if ((!ran || rough) && !stand_in(c, v)) return false;
    c->rough[v] |= rough;
  }
  for (int32_t k = 0; k < n->lasts; k++) situ_drop(&c->value[n->last[k]].tensor);
  return true;
}

/* ---- runs ---- */

static bool check_once(checking *c, bool first) {
  situ__errors own;
  const situ__program *p = c->program;
  situ_scope scope;
  choose_symbols(c, first);
  c->dry = (situ_dry){ .found = on_error };
  memset(c->rough, 0, (size_t)p->values);
  if (situ_dry_begin(&c->dry) != SITU_OK) return false;
  situ__errors_aside(&own);
  situ_scope_begin_no_grad(&scope);
  bool good = set_values(c);
  for (int32_t i = 0; i < p->nodes && good; i++) good = check_node(c, &p->node[i]);
  for (int32_t v = 0; v < p->values; v++) situ_drop(&c->value[v].tensor);
  situ_dry_tell(&c->dry);
  SITU_IGNORE(situ_scope_end(&scope));
  SITU_IGNORE(situ_dry_end(&c->dry));
  SITU_IGNORE(situ__errors_back(&own, NULL, 0));
  return good && !c->no_memory;
}

bool situ__program_check(const char *op, situ__program *p, situ_nn_module *root, bool any_size) {
  const size_t values = (size_t)p->values + 1, symbols = (size_t)p->symbols + 1;
  checking c = { .op = op, .program = p, .root = root, .symbols = { .program = p } };
  if (!p->declared) return true;
  c.value = situ__calloc(values, sizeof *c.value);
  c.rough = situ__calloc(values, sizeof *c.rough);
  c.symbols.value = situ__calloc(symbols, sizeof *c.symbols.value);
  c.symbols.data = situ__calloc(symbols, sizeof *c.symbols.data);
  bool good = c.value && c.rough && c.symbols.value && c.symbols.data;
  if (!good) situ__no_memory(op, values * sizeof *c.value);
  const situ_device home = situ_nn_home(root);
  situ_setting before;
  good = good && (!home.kind || situ_default_device_begin(&before, home) == SITU_OK);
  if (good) {
    good = check_once(&c, true) && (!any_size || !p->symbols || check_once(&c, false));
    if (home.kind) situ_default_device_end(&before);
    const bool clean = situ_error() == SITU_OK;
    if (!good && c.problem.data) situ__fail(SITU_E_FORMAT, op, "%s: %s", p->path, c.problem.data);
    else if (!good) situ__fail(SITU_E_NOMEM, op, "%s: no memory to check its calls", p->path);
    if (!good && clean && c.at) situ__node_blame(p, c.at);
  }
  situ__text_free(&c.problem);
  situ__free(c.value);
  situ__free(c.rough);
  situ__free(c.symbols.value);
  situ__free(c.symbols.data);
  return good;
}
