/* What the doctor hears: first calls of modules, steps of optimisers, errors. It lints and checks them where they are.
   SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/handle.h"
#include "base/peek.h"
#include "base/watch.h"
#include "place/doctor/doctor.h"
#include "place/draw/snapshot.h"
#include "place/lint/lint.h"
#include "situ/place.h"
#include "situ/sys/dry.h"
#include "situ/sys/shape.h"

static SITU__THREAD_LOCAL bool busy; /* what is heard now is our own */

/* ---- findings ---- */

enum { FINDINGS = 500 };

static situ__doctor_finding *new_finding(situ__doctor_kind kind, const char *text, const char *fix) {
  situ__doctor *d = &situ__doctor_now;
  char *own = situ__strdup(text), *own_fix = situ__strdup(fix);
  const bool good = own && own_fix && d->findings < FINDINGS &&
                    situ__grow(NULL, &d->finding, &d->finding_capacity, sizeof *d->finding, d->findings + 1);
  if (!good) {
    situ__free(own);
    situ__free(own_fix);
    return NULL;
  }
  situ__doctor_finding *f = &d->finding[d->findings++];
  *f = (situ__doctor_finding){ .kind = kind, .text = own, .fix = own_fix };
  return f;
}

void situ__doctor_add(situ__doctor_kind kind, bool note, const char *text, const char *fix) {
  const situ__doctor *d = &situ__doctor_now;
  for (int64_t i = 0; i < d->findings; i++)
    if (d->finding[i].kind == kind && strcmp(d->finding[i].text, text) == 0) return;
  situ__doctor_finding *f = new_finding(kind, text, fix);
  if (f) f->note = note, f->looks = 2;
}

static void tell(situ__doctor_kind kind, bool note, const char *text, const char *fix) {
  situ__mutex_lock(&situ__doctor_now.lock);
  situ__doctor_add(kind, note, text, fix);
  situ__mutex_unlock(&situ__doctor_now.lock);
}

/* ---- memory that nothing writes ---- */

enum { WORTH = 1024 }; /* bytes */

static situ__doctor_finding *unwritten(uint64_t storage) {
  const situ__doctor *d = &situ__doctor_now;
  for (int64_t i = 0; i < d->findings; i++)
    if (d->finding[i].storage == storage) return &d->finding[i];
  return NULL;
}

/* A result that is being computed has nothing written yet: it counts when it is seen so twice. */
static void look_at_storage(const situ_live *s, bool last) {
  situ__doctor_finding *f = unwritten(s->storage);
  char text[600], shape[SITU_SHAPE_TEXT], device[SITU_DEVICE_NAME_MAX], bytes[SITU__BYTES_TEXT];
  if (s->written && f) f->storage = 0, f->looks = 0;
  if (s->written || s->bytes < WORTH || s->device.kind == SITU_META) return;
  if (!f) {
    (void)snprintf(text, sizeof text, "%s%s%s %s on %s (%s)%s%s: nothing was ever written to it", s->name,
                   *s->name ? ", " : "", situ_dtype_name(s->dtype), situ_shape_text(&s->shape, shape),
                   situ_device_name(s->device, device), situ__bytes_text(s->bytes, bytes),
                   *s->created ? ", made at " : "", s->created);
    f = new_finding(SITU__DOCTOR_UNUSED, text, "");
  }
  if (!f) return;
  f->storage = s->storage;
  f->looks += last ? 2 : 1;
}

void situ__doctor_look_at_memory(bool last) {
  const situ_device all = { 0 };
  const int64_t count = situ_live_list(all, NULL, 0);
  situ_live *list = count > 0 ? situ__alloc_uncounted((size_t)count * sizeof *list) : NULL;
  const int64_t listed = list ? situ_live_list(all, list, count) : 0;
  situ__mutex_lock(&situ__doctor_now.lock);
  for (int64_t i = 0; i < listed && i < count; i++) {
    situ__doctor_know(list[i].device);
    look_at_storage(&list[i], last);
  }
  situ__mutex_unlock(&situ__doctor_now.lock);
  situ__free(list);
}

/* ---- the lint ---- */

static void hear_lint(const situ_lint_finding *f, void *payload) {
  char text[4096];
  (void)payload;
  const bool named = strstr(f->path, f->tensor); /* "" is */
  (void)snprintf(text, sizeof text, "%s: %s%s%s: %s", situ_lint_kind_name(f->kind), *f->path ? f->path : f->type,
                 named ? "" : ", ", named ? "" : f->tensor, f->text);
  tell(SITU__DOCTOR_PARTS, f->severity == SITU_LINT_NOTE, text, f->fix);
}

static void count_untrained(const situ_lint_finding *f, void *payload) {
  *(int64_t *)payload += f->kind == SITU_LINT_UNTRAINED;
}

/* The finding to ignore if the optimisers train other models alone. */
static unsigned trained_elsewhere(situ_nn_module *m, situ_lint_options options) {
  int64_t trainable = 0, untrained = 0;
  situ_tree *parameters = situ_nn_parameters(m);
  for (int64_t i = 0; i < situ_tree_count(parameters); i++)
    trainable += situ_requires_grad(situ_tree_tensor_at(parameters, i));
  situ_tree_free(parameters);
  options.report = count_untrained;
  options.payload = &untrained;
  situ__lint_beside(m, &options);
  situ_error_clear();
  return untrained == trainable ? 1u << SITU_LINT_UNTRAINED : 0;
}

/* The optimisers of this thread. Returns their number. */
static int list_optims(situ_optim *list[SITU__DOCTOR_OPTIMS]) {
  situ__doctor *d = &situ__doctor_now;
  int count = 0;
  situ__mutex_lock(&d->lock);
  for (int i = 0; i < d->optims; i++)
    if (d->optim[i].thread == &busy) list[count++] = d->optim[i].optim;
  situ__mutex_unlock(&d->lock);
  return count;
}

/* trained: with the optimisers. */
static void lint(situ_nn_module *m, bool trained, unsigned ignore) {
  situ__doctor *d = &situ__doctor_now;
  situ_lint_options options = { .report = hear_lint, .ignore = ignore };
  const double began = situ__seconds();
  situ_optim *optims[SITU__DOCTOR_OPTIMS];
  if (trained) {
    options.optim_count = list_optims(optims);
    options.optims = optims;
    /* Other models have optimisers, too. */
    if (d->roots > 1) options.ignore |= 1u << SITU_LINT_FOREIGN | trained_elsewhere(m, options);
  }
  situ__lint_beside(m, &options);
  situ_error_clear();
  situ__mutex_lock(&d->lock);
  if (d->lint_count < SITU__DOCTOR_LINTS)
    d->lints[d->lint_count++] = (struct situ__doctor_span){ began, situ__seconds() };
  situ__mutex_unlock(&d->lock);
}

/* ---- the preflight ---- */

static void hear_problem(const situ_place_finding *f) {
  const bool unused = f->problem == SITU_PLACE_GRADIENT;
  char text[4096];
  int length = snprintf(text, sizeof text, "%s", f->text);
  if (length >= 0 && (size_t)length < sizeof text && *f->site && !strstr(f->text, f->site))
    (void)snprintf(text + length, sizeof text - (size_t)length, "\n  at %s", f->site);
  tell(unused ? SITU__DOCTOR_UNUSED : SITU__DOCTOR_WRONG, (f->note && !unused) || f->problem == SITU_PLACE_VALUES, text,
       f->fix);
}

/* A model that is on one device copies nothing between devices, unless its forward does so by mistake. */
static void hear_edge(const situ_place_edge *e) {
  char text[1024], from[SITU_DEVICE_NAME_MAX], to[SITU_DEVICE_NAME_MAX], bytes[SITU__BYTES_TEXT];
  (void)snprintf(text, sizeof text, "%s (%s) -> %s (%s): %s in each call, copied by %s%s%s",
                 *e->from ? e->from : "outside", situ_device_name(e->from_device, from), *e->to ? e->to : "outside",
                 situ_device_name(e->to_device, to), situ__bytes_text(e->bytes, bytes), e->op ? e->op : "?",
                 e->site && *e->site ? " at " : "", e->site ? e->site : "");
  tell(SITU__DOCTOR_HIDDEN, false, text,
       "make it on the device where it is used, or register it, so that it moves with the model");
}

/* Takes over a text that is complete. */
static void replace_text(situ__text *to, situ__text *from, bool good) {
  situ__mutex_lock(&situ__doctor_now.lock);
  const situ__text old = *to;
  if (good && !from->failed) *to = *from, *from = old;
  situ__mutex_unlock(&situ__doctor_now.lock);
  situ__text_free(from);
}

static void mend(situ__doctor_root *root, const situ_tree *inputs) {
  situ_place_fixes fixes;
  situ__text text = { 0 };
  if (situ_place_mend(root->module, inputs, NULL, &fixes) != SITU_OK) return;
  for (int64_t i = 0; i < fixes.count; i++) {
    const char *where = fixes.statements[i].where;
    if (strncmp(where, "before ", 7) == 0) where = ""; /* the call is ours: the line would be one in forward */
    situ__text_add(&text, "%s%s%s%s\n", fixes.statements[i].code, *where ? "   /* " : "", where, *where ? " */" : "");
  }
  if (fixes.left) situ__text_add(&text, "(%lld of the %lld stay)\n", (long long)fixes.left, (long long)fixes.mistakes);
  situ_place_fixes_free(&fixes);
  replace_text(&root->mend, &text, true);
}

/* *report: free it in any case. */
static void check(situ__doctor_root *root, const situ_tree *inputs, situ_place_report *report) {
  situ_placement at;
  if (!inputs || situ_place_check(root->module, inputs, NULL, report) != SITU_OK) return;
  for (int64_t i = 0; i < report->finding_count; i++) hear_problem(&report->findings[i]);
  const bool one = situ_place_of(root->module, &at) == SITU_OK && !at.mixed;
  for (int64_t i = 0; i < report->edge_count && one && !report->mistakes; i++) hear_edge(&report->edges[i]);
  if (report->mistakes) mend(root, inputs);
}

/* ---- pictures ---- */

static void draw(situ__doctor_root *root, const situ_place_report *report) {
  situ_optim *optims[SITU__DOCTOR_OPTIMS];
  const situ_snapshot_options all = {
    .gradients = true, .plain = true, .optims = optims, .optim_count = list_optims(optims)
  };
  situ_snapshot *s = situ_place_snapshot_with(root->module, &all);
  const int64_t length = s ? situ_snapshot_to_string(s, NULL, NULL, 0) : 0;
  char *tree = length > 0 ? situ__alloc_uncounted((size_t)length + 1) : NULL;
  situ__text text = { 0 }, map = { 0 };
  if (tree && situ_snapshot_to_string(s, NULL, tree, (size_t)length + 1) == length)
    situ__text_append(&text, tree, (size_t)length);
  replace_text(&root->tree, &text, text.length > 0);
  situ__free(tree);
  if (s && report) {
    const situ_place_svg_options options = { .edges = report->edges, .edge_count = report->edge_count, .height = 600 };
    const bool drawn = situ__snapshot_svg("doctor", s, &options, &map);
    replace_text(&root->map, &map, drawn);
  }
  situ_snapshot_free(s);
}

/* ---- what is heard ---- */

/* Begins our own work on a program's thread: its error stays as it is, and ours are not reported. */
typedef struct aside {
  situ__errors own;
} aside;

static bool step_aside(aside *a) {
  if (busy || situ_is_dry()) return false;
  busy = true;
  situ__errors_apart(&a->own);
  return true;
}

static void step_back(const aside *a) {
  (void)situ__errors_back(&a->own, NULL, 0);
  busy = false;
}

static situ__doctor_root *root_of(situ_nn_module *m) {
  situ__doctor *d = &situ__doctor_now;
  for (int i = 0; i < d->roots; i++)
    if (d->root[i].module == m && d->root[i].type == m->type) return &d->root[i];
  if (d->roots == SITU__DOCTOR_ROOTS) return d->other_calls++, NULL;
  d->root[d->roots] = (situ__doctor_root){ .module = m, .type = m->type };
  return &d->root[d->roots++];
}

static bool is_alive(const situ_nn_module *m) {
  uint32_t head;
  return situ__peek(m, &head, sizeof head) && head == SITU__LIVE(SITU__A_MODULE);
}

/* At the first call lazy parts have not seen an input. */
static void look_at(situ__doctor_root *root, int64_t call, situ_tensor *x, const situ_tree *inputs) {
  situ_place_report report = { 0 };
  situ_tree *own = x && call == 0 ? situ_tree_tensor(x) : NULL;
  if (call == 0) check(root, own ? own : inputs, &report);
  if (call < 2) lint(root->module, false, call == 0 ? 1u << SITU_LINT_LAZY : 0);
  draw(root, call == 0 ? &report : NULL);
  situ__doctor_look_at_memory(false);
  situ_place_report_free(&report);
  situ_tree_free(own);
}

/* A check copies the module, which refuses calls by other threads: they wait, 5 s at most. */
static void await_check(situ__doctor_root *root) {
  const struct timespec nap = { .tv_nsec = 1000000 };
  for (int i = 0; i < 5000 && !__atomic_load_n(&root->checked, __ATOMIC_ACQUIRE); i++) (void)nanosleep(&nap, NULL);
}

/* Calls 1, 2, 4, 8, ... are looked at. */
static void on_call(situ_nn_module *m, situ_tensor *x, const situ_tree *inputs) {
  situ__doctor *d = &situ__doctor_now;
  aside a;
  if (!step_aside(&a)) return;
  situ__mutex_lock(&d->lock);
  situ__doctor_root *root = root_of(m);
  const int64_t call = root ? root->calls++ : -1;
  if (root) root->thread = &busy;
  situ__mutex_unlock(&d->lock);
  if (call > 0) await_check(root);
  if (call >= 0 && !(call & (call + 1))) look_at(root, call, x, inputs);
  if (call == 0) __atomic_store_n(&root->checked, true, __ATOMIC_RELEASE);
  step_back(&a);
}

static struct situ__doctor_optim *find_optim(const situ_optim *o) {
  situ__doctor *d = &situ__doctor_now;
  for (int i = 0; i < d->optims; i++)
    if (d->optim[i].optim == o) return &d->optim[i];
  return NULL;
}

static void on_optimiser(situ_optim *o, bool alive) {
  situ__doctor *d = &situ__doctor_now;
  if (busy || situ_is_dry()) return;
  situ__mutex_lock(&d->lock);
  struct situ__doctor_optim *old = find_optim(o);
  if (!alive && old) *old = d->optim[--d->optims];
  if (alive && d->optims < SITU__DOCTOR_OPTIMS)
    d->optim[d->optims++] = (struct situ__doctor_optim){ .optim = o, .thread = &busy };
  situ__mutex_unlock(&d->lock);
}

/* Returns whether it is the optimiser's first step. */
static bool note_step(const situ_optim *o) {
  situ__doctor *d = &situ__doctor_now;
  situ__mutex_lock(&d->lock);
  struct situ__doctor_optim *known = find_optim(o);
  const bool first = known && !known->stepped;
  if (known) known->stepped = true, known->thread = &busy;
  situ__mutex_unlock(&d->lock);
  return first;
}

/* This thread's k-th root; NULL: it is another thread's, or has been freed. */
static situ_nn_module *own_root(int k) {
  situ__doctor *d = &situ__doctor_now;
  situ__mutex_lock(&d->lock);
  situ_nn_module *m = k < d->roots && d->root[k].thread == &busy ? d->root[k].module : NULL;
  situ__mutex_unlock(&d->lock);
  return m && is_alive(m) ? m : NULL;
}

/* At an optimiser's first step all optimisers of a training have been made. */
static void on_step(situ_optim *o) {
  aside a;
  if (!step_aside(&a)) return;
  const bool first = note_step(o);
  for (int k = 0; first && k < SITU__DOCTOR_ROOTS; k++)
    if (own_root(k)) lint(own_root(k), true, 0);
  if (first) situ__doctor_look_at_memory(false);
  step_back(&a);
}

/* Programs ask for what may not be there: a device, a file. */
static bool is_question(situ_status status) {
  return status == SITU_E_ARG || status == SITU_E_IO || status == SITU_E_UNSUPPORTED;
}

/* The finding of the preflight that has come true, if there is one: it has the same first line. */
static situ__doctor_finding *foreseen(const char *message) {
  const situ__doctor *d = &situ__doctor_now;
  const size_t length = strcspn(message, "\n");
  for (int64_t i = 0; i < d->findings; i++)
    if (d->finding[i].kind == SITU__DOCTOR_WRONG && strncmp(d->finding[i].text, message, length) == 0)
      return &d->finding[i];
  return NULL;
}

/* An error names the program's own variables, the preflight those that it had to guess. */
static void on_failure(situ_status status, const char *message, const char *fix) {
  if (busy || situ_is_dry()) return;
  situ__mutex_lock(&situ__doctor_now.lock);
  situ__doctor_finding *old = foreseen(message);
  char *text = old ? situ__strdup(message) : NULL, *own_fix = text ? situ__strdup(fix) : NULL;
  if (own_fix) {
    situ__free(old->text);
    situ__free(old->fix);
    old->text = text;
    old->fix = own_fix;
  } else if (!old) {
    situ__doctor_add(SITU__DOCTOR_FAILED, is_question(status), message, fix);
  }
  situ__mutex_unlock(&situ__doctor_now.lock);
}

const situ__watch situ__doctor_watch = {
  .called = on_call, .optimiser = on_optimiser, .step = on_step, .failed = on_failure
};
