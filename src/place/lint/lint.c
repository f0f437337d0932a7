/* The lint: collects the parts of a module, runs the checks of each file, and reports their findings.
   SPDX-License-Identifier: MIT */
#include "place/lint/lint.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/busy.h"
#include "base/fail.h"
#include "base/format.h"
#include "base/handle.h"
#include "situ/sys/move.h"

const char *situ_lint_kind_name(situ_lint_kind kind) {
  static const char *const names[SITU_LINT_KINDS] = {
    [SITU_LINT_TENSOR] = "unregistered tensor",
    [SITU_LINT_MODULE] = "unregistered module",
    [SITU_LINT_ARRAY] = "unregistered array",
    [SITU_LINT_STRAY] = "stray tensor",
    [SITU_LINT_DANGLING] = "dangling field",
    [SITU_LINT_FIELD] = "field assigned past registration",
    [SITU_LINT_APART] = "module on several devices",
    [SITU_LINT_AWAY] = "module away from home",
    [SITU_LINT_ALONE] = "module alone on a device",
    [SITU_LINT_GRADIENT] = "gradient elsewhere",
    [SITU_LINT_DTYPES] = "mixed dtypes",
    [SITU_LINT_VALUES] = "no values",
    [SITU_LINT_LAZY] = "lazy module without input",
    [SITU_LINT_TIE] = "tie lost",
    [SITU_LINT_TWINS] = "equal but not tied",
    [SITU_LINT_GRAPH] = "result of an op",
    [SITU_LINT_UNSAVED] = "buffer not saved",
    [SITU_LINT_ORPHAN] = "orphan in optimiser",
    [SITU_LINT_FOREIGN] = "foreign parameter in optimiser",
    [SITU_LINT_UNTRAINED] = "untrained parameter",
    [SITU_LINT_FROZEN] = "frozen parameter in optimiser",
    [SITU_LINT_TWICE] = "optimised twice",
    [SITU_LINT_STATE] = "optimiser state elsewhere",
  };
  return (unsigned)kind < SITU_LINT_KINDS ? names[kind] : "?";
}

const char *situ_lint_severity_name(situ_lint_severity severity) {
  static const char *const names[] = { "note", "warning", "error" };
  return (unsigned)severity < 3 ? names[severity] : "?";
}

/* ---- texts ---- */

const char *situ__lint_device(situ_device device, char buffer[SITU_DEVICE_NAME_MAX]) {
  return situ_device_name(device, buffer);
}

const char *situ__lint_tensor(const situ_tensor *t, char buffer[SITU__LINT_TEXT]) {
  char shape[SITU_SHAPE_TEXT], site[256];
  situ_shape sizes = situ_shape_of(t);
  bool known = *situ_created_at(t, site, sizeof site);
  snprintf(buffer, SITU__LINT_TEXT, "%s %s%s%s", situ_dtype_name(situ_dtype_of(t)), situ_shape_text(&sizes, shape),
           known ? " made at " : "", site);
  return buffer;
}

/* ---- registered parts ---- */

static const situ__part *part_at(const situ__lint *l, const situ__map *map, const void *key) {
  uintptr_t number = (uintptr_t)situ__map_get(map, key);
  return number ? &l->parts[number - 1] : NULL;
}

const situ__part *situ__lint_known(const situ__lint *l, const void *pointer) { return part_at(l, &l->known, pointer); }
const situ__part *situ__lint_on(const situ__lint *l, uint64_t serial) {
  return part_at(l, &l->on, (const void *)(uintptr_t)serial);
}

/* Notes the newest part under a key that has none yet. */
static bool note_part(const situ__lint *l, situ__map *map, const void *key) {
  return situ__map_get(map, key) || situ__map_put(map, key, (void *)(uintptr_t)l->count);
}

static situ_status gather(const situ_nn_visit *at, void *payload) {
  situ__lint *l = payload;
  if (!situ__grow(l->op, &l->parts, &l->capacity, sizeof *l->parts, l->count + 1)) return situ_error();
  char *path = situ__strdup(at->path);
  if (!path) return situ__no_memory(l->op, strlen(at->path) + 1);
  const void *self = at->tensor ? (const void *)at->tensor : at->module;
  bool again = situ__map_get(&l->known, self) != NULL;
  l->parts[l->count++] = (situ__part){ path, at->module, at->tensor, at->slot, again };
  const void *serial = at->tensor ? (const void *)(uintptr_t)situ__lint_storage(at->tensor)->serial : NULL;
  if (note_part(l, &l->known, self) && (!serial || note_part(l, &l->on, serial))) return SITU_OK;
  return situ__no_memory(l->op, sizeof(void *));
}

/* The storages that a move would move: those of registered tensors, their gradients, and all that follow them. Uses a
   plan of the move, which is not run. */
static bool gather_moves(situ__lint *l) {
  situ_move_request *requests = situ__calloc((size_t)l->count + 1, sizeof *requests);
  int64_t tensors = 0, units = 0;
  if (!requests) return situ__no_memory(l->op, (size_t)l->count * sizeof *requests), false;
  for (int64_t i = 0; i < l->count; i++)
    if (l->parts[i].tensor) requests[tensors++].tensor = l->parts[i].tensor;
  situ_move_plan *plan = situ_move_plan_new(l->op, requests, tensors);
  situ__free(requests);
  const situ_move_unit *unit = plan ? situ_move_plan_units(plan, &units) : NULL;
  bool good = plan != NULL;
  for (int64_t i = 0; i < units && good; i++) {
    good = situ__map_put(&l->moves, unit[i].storage, unit[i].storage);
    if (!good) situ__no_memory(l->op, sizeof(void *));
  }
  situ_move_plan_free(plan);
  return good;
}

/* ---- findings ---- */

bool situ__lint_add(situ__lint *l, situ_lint_kind kind, situ_lint_severity severity, const situ__part *part,
                    const char *path, const situ_tensor *tensor, const char *fmt, ...) {
  char text[2 * SITU__LINT_TEXT];
  va_list args;
  va_start(args, fmt);
  situ__vformat(text, sizeof text, fmt, args);
  va_end(args);
  if (tensor && !situ__map_put(&l->told, tensor, (void *)tensor)) return situ__no_memory(l->op, sizeof(void *)), false;
  l->ignored = l->options->ignore >> kind & 1;
  if (l->ignored) return true;
  if (!situ__grow(l->op, &l->findings, &l->findings_capacity, sizeof *l->findings, l->found + 1)) return false;
  char *copy = situ__strdup(text), *where = situ__strdup(part ? part->path : path);
  if (!copy || !where) {
    situ__free(copy);
    situ__free(where);
    return situ__no_memory(l->op, sizeof text), false;
  }
  l->findings[l->found++] = (situ_lint_finding){ .kind = kind,
                                                 .severity = severity,
                                                 .path = where,
                                                 .type = part ? part->module->type->name : "",
                                                 .tensor = tensor ? situ_name(tensor) : "",
                                                 .text = copy,
                                                 .fix = NULL };
  return true;
}

bool situ__lint_fix(situ__lint *l, const char *fmt, ...) {
  if (l->ignored || !l->found) return true;
  char text[SITU__LINT_TEXT];
  va_list args;
  va_start(args, fmt);
  situ__vformat(text, sizeof text, fmt, args);
  va_end(args);
  char *copy = situ__strdup(text);
  if (!copy) return situ__no_memory(l->op, sizeof text), false;
  l->findings[l->found - 1].fix = copy;
  return true;
}

/* ---- a run ---- */

static void free_lint(situ__lint *l) {
  for (int64_t i = 0; i < l->count; i++) situ__free(l->parts[i].path);
  for (int64_t i = 0; i < l->found; i++) {
    situ__free((char *)l->findings[i].path);
    situ__free((char *)l->findings[i].text);
    situ__free((char *)l->findings[i].fix);
  }
  situ__free(l->parts);
  situ__free(l->findings);
  situ__map_free(&l->known);
  situ__map_free(&l->on);
  situ__map_free(&l->inside);
  situ__names_free(&l->paths);
  situ__names_free(&l->names);
  situ__map_free(&l->moves);
  situ__map_free(&l->told);
}

static situ_status look(situ__lint *l, situ_nn_module *m) {
  unsigned all = SITU_NN_VISIT_TENSORS | SITU_NN_VISIT_MODULES;
  if (situ_nn_walk(m, all, gather, l) != SITU_OK) return situ_error();
  situ_scope scope;
  situ_scope_begin_no_grad(&scope);
  bool good =
      gather_moves(l) && situ__lint_fields(l) && situ__lint_places(l) && situ__lint_values(l) && situ__lint_optims(l);
  SITU_IGNORE(situ_scope_end(&scope));
  return good ? SITU_OK : situ_error();
}

static situ_status look_alone(situ__lint *l, situ_nn_module *m) {
  SITU__CLAIM(claim);
  if (!situ__claim_begin(&claim, situ__module_marks, m)) return situ__busy(l->op, m->type->name), situ_error();
  return look(l, m);
}

static situ_status look_beside(situ__lint *l, situ_nn_module *m) {
  SITU__USE(use);
  return situ__module_use(l->op, m, &use) ? look(l, m) : situ_error();
}

static situ_status run_lint(situ__lint *l, situ_nn_module *m, const situ_lint_options *options, bool beside) {
  static const situ_lint_options none = { 0 };
  l->op = "place_lint";
  l->options = options ? options : &none;
  if (!situ__valid(l->op, "module", m, SITU__A_MODULE)) return situ_error();
  if (l->options->optim_count && !l->options->optims) return situ__null(l->op, "optims");
  for (int64_t i = 0; i < l->options->optim_count; i++)
    if (!situ__valid(l->op, "optims[i]", l->options->optims[i], SITU__AN_OPTIMISER)) return situ_error();
  situ_status status = beside ? look_beside(l, m) : look_alone(l, m);
  for (int64_t i = 0; i < l->found && status == SITU_OK; i++) {
    situ_lint_finding *f = &l->findings[i];
    situ_lint_finding shown = *f;
    if (!shown.fix) shown.fix = "";
    if (l->options->report) l->options->report(&shown, l->options->payload);
  }
  return status;
}

void situ__lint_beside(situ_nn_module *m, const situ_lint_options *options) {
  situ__lint l = { 0 };
  SITU_IGNORE(run_lint(&l, m, options, true));
  free_lint(&l);
}

static void write(situ__text *text, const situ_lint_finding *f) {
  bool root = !*f->path;
  situ__text_add(text, "%s: %s", situ_lint_severity_name(f->severity), root ? f->type : f->path);
  if (!root && *f->type) situ__text_add(text, " (%s)", f->type);
  situ__text_add(text, ": %s\n", f->text);
  if (f->fix) situ__text_add(text, "  fix: %s\n", f->fix);
}

/* The most severe findings first. */
static void write_all(const situ__lint *l, situ_lint_severity least, situ__text *text) {
  for (int s = SITU_LINT_ERROR; s >= (int)least; s--)
    for (int64_t i = 0; i < l->found; i++)
      if ((int)l->findings[i].severity == s) write(text, &l->findings[i]);
}

static int64_t count_from(const situ__lint *l, situ_lint_severity least) {
  int64_t count = 0;
  for (int64_t i = 0; i < l->found; i++) count += l->findings[i].severity >= least;
  return count;
}

situ_status situ_place_lint(situ_nn_module *m, const situ_lint_options *options) {
  situ__lint l = { 0 };
  situ_status status = run_lint(&l, m, options, false);
  situ_lint_severity least = options && options->strict ? SITU_LINT_NOTE : SITU_LINT_WARNING;
  int64_t count = count_from(&l, least);
  if (status == SITU_OK && count) {
    situ__text text = { 0 };
    write_all(&l, least, &text);
    if (text.length) text.data[text.length - 1] = 0;
    status = text.failed ? situ__no_memory(l.op, text.capacity)
                         : situ__fail(SITU_E_STATE, l.op, "%s: %" PRId64 " finding%s\n%s", m->type->name, count,
                                      count == 1 ? "" : "s", text.data);
    situ__text_free(&text);
  }
  free_lint(&l);
  return status;
}

int64_t situ_place_lint_to_string(situ_nn_module *m, const situ_lint_options *options, char *buffer, size_t size) {
  situ__lint l = { 0 };
  situ__text text = { 0 };
  bool good = run_lint(&l, m, options, false) == SITU_OK;
  if (good) write_all(&l, SITU_LINT_NOTE, &text);
  if (text.failed) situ__no_memory(l.op, text.capacity);
  free_lint(&l);
  if (good) return situ__text_give(&text, buffer, size);
  situ__text_free(&text);
  return -1;
}

int64_t situ_place_lint_print(situ_nn_module *m, const situ_lint_options *options) {
  situ__lint l = { 0 };
  situ__text text = { 0 };
  int64_t found = run_lint(&l, m, options, false) == SITU_OK ? l.found : -1;
  write_all(&l, SITU_LINT_NOTE, &text);
  if (text.failed) {
    situ__no_memory(l.op, text.capacity);
    found = -1;
  }
  if (found > 0) fputs(text.data, stdout);
  if (found == 0) printf("%s: nothing found\n", m->type->name);
  situ__text_free(&text);
  free_lint(&l);
  return found;
}
