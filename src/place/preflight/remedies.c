/* Statements that a program is to have, as the fixes of findings say them, and which of them a trial makes by itself.
   SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "place/preflight/check.h"

bool situ__remedies_add(situ__remedies *all, const situ__remedy *r) {
  if (!situ__grow(NULL, &all->list, &all->capacity, sizeof *all->list, all->count + 1)) return false;
  situ__remedy *own = &all->list[all->count++];
  *own = *r;
  own->does.target = situ__strdup(r->does.target);
  own->does.code = situ__strdup(r->does.code);
  own->does.where = situ__strdup(r->does.where);
  return own->does.target && own->does.code && own->does.where;
}

void situ__remedies_free(situ__remedies *all) {
  for (int64_t i = 0; i < all->count; i++) situ__statement_free(&all->list[i].does);
  situ__free(all->list);
  *all = (situ__remedies){ 0 };
}

void situ__statement_free(situ_place_statement *s) {
  situ__free((void *)(uintptr_t)s->target);
  situ__free((void *)(uintptr_t)s->code);
  situ__free((void *)(uintptr_t)s->where);
}

/* ---- what an error says ---- */

static situ_dtype dtype_named(const char *name) {
  for (int d = SITU_BOOL; *name && d < SITU_DTYPES; d++)
    if (strcmp(name, situ_dtype_name((situ_dtype)d)) == 0) return (situ_dtype)d;
  return SITU_DTYPE_DEFAULT;
}

/* Of the operand that a fix brings elsewhere, from its texts: "[2, 4]", "f32". */
static uint64_t bytes_of(const situ_error_report *error, const situ_error_fix *fix) {
  static const char digits[] = "0123456789";
  if (!*fix->device || fix->operand < 0) return 0;
  const situ_error_operand *o = &error->operands[fix->operand];
  uint64_t bytes = situ_dtype_size(dtype_named(o->dtype));
  for (const char *at = o->shape + strcspn(o->shape, digits); *at; at += strcspn(at, digits)) {
    bytes *= (uint64_t)strtoll(at, NULL, 10);
    at += strspn(at, digits);
  }
  return bytes;
}

/* The statement of a fix, without its place. */
static situ_place_statement statement_of(const situ_error_report *error, const situ_error_fix *fix) {
  return (situ_place_statement){ .action = fix->action,
                                 .device = *fix->device ? situ_dev(fix->device) : (situ_device){ 0 },
                                 .dtype = dtype_named(fix->dtype),
                                 .field = fix->field,
                                 .bytes = bytes_of(error, fix),
                                 .target = fix->target,
                                 .code = fix->code };
}

/* What follows the code in a line of the fix's text. */
static void read_place(const char *line, const char *code, char where[256]) {
  const size_t length = strlen(code), all = strcspn(line, "\n");
  const char *at = all > length && strncmp(line, code, length) == 0 ? line + length : line + all;
  at += strspn(at, " ");
  (void)snprintf(where, 256, "%.*s", (int)strcspn(at, "\n"), at);
}

bool situ__remedies_of(situ__remedies *all, int64_t finding, const situ_error_report *error) {
  const char *line = error->fix;
  for (int i = 0; i < error->fix_count && error->fixes[i].choice == 0; i++) {
    char where[256];
    situ__remedy r = { .finding = finding, .does = statement_of(error, &error->fixes[i]) };
    read_place(line, r.does.code, where);
    r.does.where = where;
    if (!situ__remedies_add(all, &r)) return false;
    line += strcspn(line, "\n");
    line += *line != 0;
  }
  return true;
}

/* ---- what a trial makes ---- */

const char *situ__trial_root(const situ__trial *trial) {
  return *situ_nn_name(trial->module) ? situ_nn_name(trial->module) : trial->module->type->name;
}

const char *situ__remedy_below(const situ__trial *trial, const situ__remedy *r) {
  const char *root = situ__trial_root(trial), *path = r->does.target;
  const size_t length = strlen(root);
  if (r->does.action != SITU_FIX_NN_TO && r->does.action != SITU_FIX_NN_TO_DTYPE && !r->does.field) return NULL;
  if (strncmp(path, root, length) != 0 || (path[length] && path[length] != '.')) return NULL;
  return path + length + (path[length] != 0);
}

const char *situ__input_name(const char *path, const situ_tensor *t) {
  const char *dot = strrchr(path, '.'), *key = dot ? dot + 1 : path;
  return *situ_name(t) ? situ_name(t) : *key && !strchr("0123456789", *key) ? key : "x";
}

typedef struct named {
  const situ_tensor *input; /* NULL: any */
  const char *name;
} named;

static situ_status is_named(const char *path, situ_tensor *t, void *payload) {
  const named *n = payload;
  const bool it = (!n->input || n->input == t) && strcmp(situ__input_name(path, t), n->name) == 0;
  return it ? SITU_E_STATE : SITU_OK; /* ends the walk */
}

bool situ__remedy_is_of(const situ__trial *trial, const situ__remedy *r, const situ_tensor *input) {
  static const char packed[] = "packed.";
  named n = { input, r->does.target };
  if (r->does.action != SITU_FIX_TO && r->does.action != SITU_FIX_TO_DTYPE) return false;
  if (strncmp(n.name, packed, sizeof packed - 1) == 0) n.name += sizeof packed - 1;
  return situ_tree_each(trial->inputs, is_named, &n) != SITU_OK;
}

/* Those of other modules and of variables of forward are made where their call is. */
static bool is_at_call(const situ__trial *trial, const situ__remedy *r) {
  return !situ__remedy_below(trial, r) && !situ__remedy_is_of(trial, r, NULL);
}

bool situ__same_statement(const situ_place_statement *a, const situ_place_statement *b) {
  return a->action == b->action && situ_device_equal(a->device, b->device) && a->dtype == b->dtype &&
         a->field == b->field && strcmp(a->target, b->target) == 0 && strcmp(a->code, b->code) == 0;
}

bool situ__trial_makes(const situ__trial *trial, const situ_error_report *error) {
  int made = 0;
  for (; made < error->fix_count && error->fixes[made].choice == 0; made++) {
    const situ_place_statement s = statement_of(error, &error->fixes[made]);
    bool found = false;
    for (int64_t i = 0; i < trial->made.count && !found; i++) {
      const situ__remedy *r = &trial->made.list[i];
      found = situ__same_statement(&r->does, &s) && is_at_call(trial, r);
    }
    if (!found) return false;
  }
  return made > 0;
}
