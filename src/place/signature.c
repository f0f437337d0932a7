/* Signatures of modules: found by dry runs, declared as a hook.
   SPDX-License-Identifier: MIT */
#include "situ/place/signature.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/busy.h"
#include "base/fail.h"
#include "base/handle.h"
#include "place/place.h"
#include "place/preflight/check.h"
#include "situ/sys/layers.h"
#include "situ/sys/shape.h"
#include "situ/sys/tensor.h"

/* ---- rows: a tensor's path and device ---- */

typedef struct row {
  char *path;
  situ_device device;
} row;
typedef struct rows {
  row *list;
  int64_t count, capacity;
} rows;

static situ_status add_row(const char *path, situ_tensor *t, void *payload) {
  rows *r = payload;
  if (!situ__grow(NULL, &r->list, &r->capacity, sizeof *r->list, r->count + 1)) return SITU_E_NOMEM;
  r->list[r->count] = (row){ situ__strdup(path), situ_device_of(t) };
  return r->list[r->count++].path ? SITU_OK : SITU_E_NOMEM;
}

static situ_status add_part(const situ_nn_visit *at, void *payload) { return add_row(at->path, at->tensor, payload); }

static void clear_rows(rows *r) {
  while (r->count) situ__free(r->list[--r->count].path);
}

/* Writes rows whose paths have the first `length` bytes in common: as one where all are on one device, else apart by
   the next part of their paths. */
static void write_rows(situ__text *text, const char *kind, const row *list, int64_t count, size_t length) {
  char name[SITU_DEVICE_NAME_MAX];
  int64_t same = 1;
  while (same < count && situ_device_equal(list[same].device, list->device)) same++;
  if (same >= count) {
    if (count)
      situ__text_add(text, "%s%s%s%.*s=%s", text->data ? ", " : "", kind, length ? "." : "", (int)length, list->path,
                     situ_device_name(list->device, name));
    return;
  }
  /* The first match counts, and a path is the pattern of what is below it too: what ends here comes last. */
  for (int last = 0; last < 2; last++)
    for (int64_t i = 0; i < count; i += same) {
      const char *path = list[i].path;
      const size_t begin = length + (length > 0), end = path[length] ? begin + strcspn(path + begin, ".") : length;
      const bool whole = end <= length; /* it ends here, or its next part is empty */
      for (same = 1; i + same < count && !whole; same++) {
        const char *other = list[i + same].path;
        if (strncmp(other, path, end) != 0 || (other[end] && other[end] != '.')) break;
      }
      if (whole && last)
        situ__text_add(text, "%s%s%s%s=%s", text->data ? ", " : "", kind, *path ? "." : "", path,
                       situ_device_name(list[i].device, name));
      else if (!whole && !last) write_rows(text, kind, list + i, same, end);
    }
}

/* ---- finding ---- */

typedef struct search {
  situ__trial trial;
  rows parts, inputs, outputs; /* inputs: where they are assumed */
  situ_device *on;             /* the same, as the trial takes it */
  bool failed;                 /* out of memory */
} search;

static bool keep_outputs(const situ_tree *outputs, void *payload) {
  search *s = payload;
  clear_rows(&s->outputs);
  return situ_tree_each(outputs, add_row, &s->outputs) == SITU_OK;
}

/* Runs once. Returns the number of calls whose operands are on several devices; -1 after recording an error. last: an
   error if the module does not run. */
static int64_t try_inputs(search *s, bool last) {
  char text[3500];
  situ__preflight p = { .backward = false };
  int64_t apart = 0;
  for (int64_t i = 0; i < s->inputs.count; i++) s->on[i] = s->inputs.list[i].device;
  if (!situ__preflight_run(&p, &s->trial)) return -1;
  s->failed = s->failed || p.failed;
  for (int64_t i = 0; i < p.report.finding_count; i++)
    apart += !p.report.findings[i].note && p.report.findings[i].problem == SITU_PLACE_DEVICE;
  const bool refused = last && (p.report.mistakes || !p.report.finished);
  if (refused && situ_place_report_to_string(&p.report, text, sizeof text) >= 0)
    situ__fail(SITU_E_STATE, "place_signature", "no devices of its inputs let it run\n%s", text);
  situ__preflight_free(&p);
  return refused ? -1 : apart;
}

/* Puts each input in turn where fewest calls are wrong: where it is, or on a device of the module's. */
static bool find_inputs(search *s) {
  int64_t best = try_inputs(s, false);
  for (int64_t i = 0; i < s->inputs.count && best > 0; i++) {
    situ_device *on = &s->inputs.list[i].device, chosen = *on;
    for (int64_t k = 0; k < s->parts.count && best > 0; k++) {
      const situ_device device = s->parts.list[k].device;
      bool tried = device.kind == SITU_META || situ_device_equal(device, chosen);
      for (int64_t j = 0; j < k && !tried; j++) tried = situ_device_equal(s->parts.list[j].device, device);
      if (tried) continue;
      *on = device;
      const int64_t wrong = try_inputs(s, false);
      if (wrong < 0) return false;
      if (wrong >= best) continue;
      best = wrong;
      chosen = device;
    }
    *on = chosen;
  }
  return best >= 0 && try_inputs(s, true) >= 0;
}

static bool find(search *s, situ_nn_module *m, const situ_tree *inputs) {
  static const situ_place_check_options forward = { .backward = SITU_PLACE_BACKWARD_NEVER };
  s->trial = (situ__trial){ .module = m, .inputs = inputs, .options = &forward };
  if (situ_nn_walk(m, SITU_NN_VISIT_TENSORS, add_part, &s->parts) != SITU_OK) return s->failed = true, false;
  if (!inputs) return true;
  if (situ_tree_each(inputs, add_row, &s->inputs) != SITU_OK ||
      !(s->on = situ__alloc((size_t)s->inputs.count * sizeof *s->on + 1)))
    return s->failed = true, false;
  const situ_device home = situ_nn_home(m), meant = home.kind ? home : situ_get_default_device();
  for (int64_t i = 0; i < s->inputs.count; i++)
    if (s->inputs.list[i].device.kind == SITU_META) s->inputs.list[i].device = meant;
  s->trial.inputs_on = s->on;
  s->trial.results = keep_outputs;
  s->trial.payload = s;
  return find_inputs(s);
}

int64_t situ_place_signature(situ_nn_module *m, const situ_tree *inputs, char *buffer, size_t size) {
  static const char op[] = "place_signature";
  SITU__USE(use);
  if (!situ__valid(op, "module", m, SITU__A_MODULE) || !situ__optional(op, "inputs", inputs, SITU__A_TREE) ||
      !situ__module_use(op, m, &use))
    return -1;
  search s = { .failed = false };
  situ__text text = { 0 };
  const bool good = find(&s, m, inputs) && !s.failed;
  rows *const all[] = { &s.parts, &s.inputs, &s.outputs };
  static const char *const kind[] = { "parameters", "inputs", "outputs" };
  if (s.failed) situ__no_memory(op, sizeof s);
  for (int k = 0; k < 3; k++) {
    if (good) write_rows(&text, kind[k], all[k]->list, all[k]->count, 0);
    clear_rows(all[k]);
    situ__free(all[k]->list);
  }
  situ__free(s.on);
  if (good) return situ__text_deliver(op, &text, buffer, size);
  situ__text_free(&text);
  return -1;
}

/* ---- declaring ---- */

static const char op[] = "place_declare";

/* A check of one kind of tensors. */
typedef struct check {
  situ_nn_module *module;
  const situ__device_map *map;
  const char *kind;
  situ_device *wanted; /* of each input, in a dry run: {0}: where it is */
  int64_t count, capacity, next;
} check;

/* What to write; *fix: as a statement, where it is one of the program's call of the outermost module. */
static void advise(const check *c, const char *path, const situ_tensor *t, const char *device, const char *running,
                   char code[128], situ_error_fix *fix) {
  const char *name = strcmp(c->kind, "inputs") == 0 ? situ__input_name(path, t) : NULL;
  if (name) (void)snprintf(code, 128, "%s = situ_to(%s, situ_dev(\"%s\"));", name, name, device);
  else if (strcmp(c->kind, "outputs") == 0) (void)snprintf(code, 128, "return situ_to(y, situ_dev(\"%s\"));", device);
  else (void)snprintf(code, 128, "if (situ_nn_to_map(m, \"%.60s=%s\") != SITU_OK) return 1;", path, device);
  *fix = (situ_error_fix){ .action = SITU_FIX_TO, .target = name, .device = device, .dtype = "", .code = code };
  if (*running) fix->target = NULL;
}

static situ_status refuse(const check *c, const char *path, const situ_tensor *t, situ_device wanted) {
  char running[256], site[256], message[1024], code[128], shape[SITU_SHAPE_TEXT], name[2][SITU_DEVICE_NAME_MAX],
      key[300];
  situ_error_fix fix;
  const situ_shape sizes = situ_shape_of(t);
  const char *own = *situ_nn_name(c->module) ? situ_nn_name(c->module) : c->module->type->name;
  (void)snprintf(key, sizeof key, "%s%s%s", c->kind, *path ? "." : "", path);
  situ_nn_running(running, sizeof running);
  const situ_error_operand odd = { .operand = key,
                                   .tensor = *situ_name(t) ? situ_name(t) : key,
                                   .role = situ_role_name(situ_role_of(t)),
                                   .device = situ_device_name(situ_device_of(t), name[0]),
                                   .shape = situ_shape_text(&sizes, shape),
                                   .dtype = situ_dtype_name(situ_dtype_of(t)),
                                   .placed = "",
                                   .odd = true };
  advise(c, path, t, situ_device_name(wanted, name[1]), running, code, &fix);
  situ__base_up.site_text(situ__base_up.call_site(), site, sizeof site);
  (void)snprintf(message, sizeof message, "%s: %s of %s (%s %s) is on %s, and the signature says %s%s%s\n  fix: %s", op,
                 key, *running ? running : own, odd.shape, odd.dtype, odd.device, name[1], *site ? "\n  at " : "", site,
                 code);
  return situ__fail_report(&(situ_error_report){ .status = SITU_E_DEVICE,
                                                 .op = op,
                                                 .message = message,
                                                 .site = site,
                                                 .module = *running ? running : own,
                                                 .odd = key,
                                                 .fix = code,
                                                 .next = "",
                                                 .operands = &odd,
                                                 .count = 1,
                                                 .fixes = &fix,
                                                 .fix_count = fix.target != NULL });
}

/* A dry run goes on, and finds them all. */
static situ_status continue_dry(situ_status status) {
  if (!situ_is_dry()) return status;
  situ_dry_tell(NULL);
  return SITU_OK;
}

static situ_status check_tensor(const char *path, situ_tensor *t, void *payload) {
  check *c = payload;
  char key[512];
  (void)snprintf(key, sizeof key, "%s%s%s", c->kind, *path ? "." : "", path);
  const situ__map_rule *rule = situ__device_map_find(c->map, key);
  if (situ_is_dry() && !situ__grow(op, &c->wanted, &c->capacity, sizeof *c->wanted, c->count + 1)) return situ_error();
  if (situ_is_dry()) c->wanted[c->count++] = rule ? rule->device : (situ_device){ 0 };
  if (!rule || situ_device_equal(rule->device, situ_device_of(t))) return SITU_OK;
  return continue_dry(refuse(c, path, t, rule->device));
}

static situ_status check_part(const situ_nn_visit *at, void *payload) {
  return check_tensor(at->path, at->tensor, payload);
}

static bool is_of(const situ__map_rule *rule, const char *kind) {
  const size_t length = strlen(kind);
  return (size_t)rule->length >= length && memcmp(rule->pattern, kind, length) == 0 &&
         ((size_t)rule->length == length || rule->pattern[length] == '.');
}

/* A path below a kind of tensors that matches none is a mistake in the signature. */
static situ_status check_used(const check *c) {
  for (int64_t i = 0; i < c->map->count; i++) {
    const situ__map_rule *rule = &c->map->rule[i];
    if (rule->matches || !is_of(rule, c->kind) || (size_t)rule->length == strlen(c->kind)) continue;
    return continue_dry(situ__fail(SITU_E_ARG, op,
                                   "\"%.*s\" of the signature matches no tensor: compare it with "
                                   "situ_place_signature",
                                   rule->length, rule->pattern));
  }
  return SITU_OK;
}

static situ_status check_all(check *c, const char *kind, const situ_tree *tree) {
  c->kind = kind;
  const situ_status status =
      tree ? situ_tree_each(tree, check_tensor, c) : situ_nn_walk(c->module, SITU_NN_VISIT_TENSORS, check_part, c);
  return status == SITU_OK ? check_used(c) : status;
}

static situ_tensor *bring(situ_tensor *t, void *payload) {
  check *c = payload;
  const situ_device wanted = c->wanted[c->next++];
  return wanted.kind ? situ_to(t, wanted) : t;
}

/* A dry run goes on as if inputs were where they must be. */
static situ_status check_inputs(check *c, situ_tree **inputs) {
  c->count = 0;
  const situ_status status = check_all(c, "inputs", *inputs);
  if (status != SITU_OK || !situ_is_dry()) return status;
  return situ_tree_set(inputs, situ_tree_map(*inputs, bring, c)) ? SITU_OK : situ_error();
}

static situ_status check_call(situ_nn_module *m, situ_tree **inputs, situ_tree **output, void *payload) {
  situ__device_map map;
  check c = { .module = m, .map = &map };
  situ_status status = situ__device_map_parse(op, payload, &map) ? SITU_OK : situ_error();
  if (status == SITU_OK && !output) status = check_all(&c, "parameters", NULL);
  if (status == SITU_OK) status = output ? check_all(&c, "outputs", *output) : check_inputs(&c, inputs);
  situ__free(c.wanted);
  situ__device_map_free(&map);
  return status;
}

static situ_status match_part(const situ_nn_visit *at, void *payload) {
  char key[512];
  (void)snprintf(key, sizeof key, "parameters.%s", at->path);
  (void)situ__device_map_find(payload, key);
  return SITU_OK;
}

/* Whether a text is a signature of m. */
static situ_status check_text(situ_nn_module *m, const char *signature, situ__device_map *map) {
  if (!situ__device_map_parse(op, signature, map)) return situ_error();
  for (int64_t i = 0; i < map->count; i++) {
    const situ__map_rule *rule = &map->rule[i];
    if (!is_of(rule, "parameters") && !is_of(rule, "inputs") && !is_of(rule, "outputs"))
      return situ__fail(SITU_E_ARG, op, "\"%.*s\" must begin with parameters, inputs or outputs", rule->length,
                        rule->pattern);
  }
  const situ_status status = situ_nn_walk(m, SITU_NN_VISIT_TENSORS, match_part, map);
  return status == SITU_OK ? check_used(&(check){ .module = m, .map = map, .kind = "parameters" }) : status;
}

situ_status situ_place_declare(situ_nn_module *m, const char *signature) {
  situ__device_map map = { 0 };
  if (!situ__valid(op, "module", m, SITU__A_MODULE)) return situ_error();
  situ_status status = signature ? check_text(m, signature, &map) : SITU_OK;
  situ__device_map_free(&map);
  return status == SITU_OK ? situ_nn_set_own_hook(op, m, check_call, signature) : status;
}
