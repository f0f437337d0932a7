/* Fixes of one report agree: where findings move parts of a model, all parts and inputs meet on one device, that of
   most of their bytes, and the fixes are tried together before they are shown.
   SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/text.h"
#include "place/preflight/check.h"
#include "situ/sys/shape.h"

/* ---- trying ---- */

/* Whether no fix has to move a module any more, or to copy. */
static bool mends(const situ__preflight *p, const situ__trial *trial) {
  situ__preflight after = { .backward = false };
  const bool good = situ__preflight_run(&after, trial) && !after.failed && !after.moving && !after.copying &&
                    after.report.finished >= p->report.finished;
  situ__preflight_free(&after);
  return good;
}

static bool whole_mends(const situ__preflight *p, const situ__trial *as_it_is, situ_device to) {
  const situ__remedy whole = { .path = (char *)(uintptr_t)p->root, .to = to };
  situ__trial trial = *as_it_is;
  trial.moves = &whole;
  trial.move_count = 1;
  trial.inputs_to = to;
  return mends(p, &trial);
}

/* ---- text ---- */

typedef struct statements {
  situ__text text;
  situ_device to;
  char where[256];
} statements;

static situ_status move_input(const char *path, situ_tensor *t, void *payload) {
  statements *s = payload;
  char device[SITU_DEVICE_NAME_MAX];
  const situ_device now = situ_device_of(t);
  const char *key = strrchr(path, '.') ? strrchr(path, '.') + 1 : path;
  const char *name = *situ_name(t) ? situ_name(t) : *key && !strchr("0123456789", *key) ? key : "x";
  if (now.kind != SITU_META && !situ_device_equal(now, s->to))
    situ__text_add(&s->text, "\n%s = situ_to(%s, situ_dev(\"%s\"));%s", name, name, situ_device_name(s->to, device),
                   s->where);
  return SITU_OK;
}

/* "situ_nn_to(model, situ_dev("sim:0"));   before train.c:12", and a line for each input that is elsewhere. */
static situ_status write_whole(statements *s, const situ__trial *t) {
  char site[200], device[SITU_DEVICE_NAME_MAX];
  char *in = strstr(situ_site_text(situ__base_up.call_site(), site, sizeof site), " in ");
  if (in && strchr(site, ':')) *in = 0;
  (void)snprintf(s->where, sizeof s->where, "%s%s", *site ? "   before " : "", site);
  situ__text_add(&s->text, "situ_nn_to(%s, situ_dev(\"%s\"));%s",
                 *situ_nn_name(t->module) ? situ_nn_name(t->module) : "model", situ_device_name(s->to, device),
                 s->where);
  return situ_tree_each(t->inputs, move_input, s);
}

/* Puts other statements in the place of a finding's own, in both of its texts. */
static void put_fix(situ__preflight *p, situ_place_finding *f, const char *fix) {
  static const char title[] = "\n  fix: ";
  situ__text text = { 0 };
  const char *at = strstr(f->text, title), *next = at ? strstr(at, "\n  next: ") : NULL;
  char *copy = situ__strdup(fix);
  situ__text_append(&text, f->text, at ? (size_t)(at - f->text) : strlen(f->text));
  for (const char *line = fix; *line; line += strcspn(line, "\n"), line += *line != 0)
    situ__text_add(&text, "%s%.*s", line == fix ? title : "\n       ", (int)strcspn(line, "\n"), line);
  if (next) situ__text_add(&text, "%s", next);
  if (text.failed || !copy) {
    situ__text_free(&text);
    situ__free(copy);
    p->failed = true;
    return;
  }
  situ__free((void *)(uintptr_t)f->text);
  situ__free((void *)(uintptr_t)f->fix);
  f->text = text.data;
  f->fix = copy;
}

/* In the place of all fixes that move something; or as the other choice of each. */
static void put_whole(situ__preflight *p, const situ__trial *t, situ_device to, bool other) {
  statements s = { .to = to };
  if (write_whole(&s, t) != SITU_OK || s.text.failed) p->failed = true;
  for (int64_t i = 0; i < p->remedy_count && !p->failed; i++) {
    situ_place_finding *f = &p->report.findings[p->remedies[i].finding];
    situ__text own = { 0 };
    const char *end = strstr(f->fix, "\nor ");
    if (other) situ__text_add(&own, "%.*s\nor ", (int)(end ? (size_t)(end - f->fix) : strlen(f->fix)), f->fix);
    situ__text_add(&own, "%s", s.text.data);
    if (own.failed) p->failed = true;
    else put_fix(p, f, own.data);
    situ__text_free(&own);
  }
  situ__text_free(&s.text);
}

/* ---- choosing ---- */

/* Runs again, with calls that meet on this device. Takes its findings if their fixes mend together, or if one move of
   the whole model does. */
static bool agree_on(situ__preflight *p, const situ__trial *as_it_is, situ_device to) {
  situ__preflight own = { .dry = { .meet = to } };
  situ__trial each = *as_it_is;
  bool good = situ__preflight_run(&own, as_it_is) && !own.failed && own.report.finished >= p->report.finished;
  each.moves = own.remedies;
  each.move_count = own.remedy_count;
  if (good && (own.copying || !mends(p, &each))) {
    good = whole_mends(p, as_it_is, to);
    if (good) put_whole(&own, as_it_is, to, false);
  }
  if (good && !own.failed) {
    const situ__preflight old = *p;
    *p = own;
    own = old;
  }
  situ__preflight_free(&own);
  return good;
}

static situ_status was_mapped(const situ_nn_visit *at, void *payload) {
  const char *by = situ_desc(at->tensor)->storage->moved_by;
  if (by && strcmp(by, "nn_to_map") == 0) *(bool *)payload = true;
  return SITU_OK;
}

enum { PLACES = 16 };
typedef struct places {
  const situ_place_report *report;
  uint64_t bytes[PLACES]; /* of parts and inputs, by the number of the device in the report */
} places;

static situ_status weigh_input(const char *path, situ_tensor *t, void *payload) {
  places *w = payload;
  (void)path;
  for (int64_t i = 0; i < w->report->load_count && i < PLACES; i++)
    if (situ_device_equal(w->report->loads[i].device, situ_device_of(t))) w->bytes[i] += situ_desc(t)->storage->bytes;
  return SITU_OK;
}

/* Sets *best to the device with the most bytes of those that were not taken yet: to it the fewest have to move. */
static bool take_best(places *w, situ_device *best) {
  int64_t at = -1;
  for (int64_t i = 0; i < w->report->load_count && i < PLACES; i++)
    if (w->bytes[i] && (at < 0 || w->bytes[i] > w->bytes[at])) at = i;
  if (at < 0) return false;
  *best = w->report->loads[at].device;
  w->bytes[at] = 0;
  return true;
}

void situ__preflight_agree(situ__preflight *p, const situ__trial *trial) {
  bool mapped = false, agreed = false;
  if (!(p->moving || p->copying) || p->failed) return;
  const bool moving = p->moving != 0;
  places w = { .report = &p->report };
  for (int64_t i = 0; i < p->report.load_count && i < PLACES; i++)
    w.bytes[i] = p->report.loads[i].parameters + p->report.loads[i].buffers;
  if (situ_nn_walk(trial->module, SITU_NN_VISIT_TENSORS, was_mapped, &mapped) != SITU_OK ||
      situ_tree_each(trial->inputs, weigh_input, &w) != SITU_OK)
    return;
  for (situ_device to; !agreed && take_best(&w, &to);) {
    if (to.kind == SITU_META) continue;
    const bool copies = mapped && !moving; /* it is spread deliberately */
    agreed = copies ? whole_mends(p, trial, to) : agree_on(p, trial, to);
    if (agreed && copies) put_whole(p, trial, to, true);
  }
}
