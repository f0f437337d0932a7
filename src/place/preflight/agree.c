/* Fixes of one report agree: where findings move parts of a model, all parts and inputs meet on one device, that of
   most of their bytes, and the fixes are tried together before they are shown.
   SPDX-License-Identifier: MIT */
#include <ctype.h>
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
  const bool good = situ__preflight_run(&after, trial) && !after.failed && !after.unmade && !after.moving &&
                    !after.copying && after.report.finished >= p->report.finished;
  situ__preflight_free(&after);
  return good;
}

static bool whole_mends(const situ__preflight *p, const situ__trial *as_it_is, situ_device to) {
  situ__trial trial = *as_it_is;
  trial.made = (situ__remedies){ 0 };
  const bool good = situ__preflight_whole(&trial, to, SITU_DTYPE_DEFAULT, &trial.made) && mends(p, &trial);
  situ__remedies_free(&trial.made);
  return good;
}

/* ---- text ---- */

void situ__preflight_line(situ__text *text, const situ_place_statement *s) {
  situ__text_add(text, "%s%s%s", s->code, *s->where ? "   " : "", s->where);
}

typedef struct whole {
  situ_device to;   /* {0}: all stay */
  situ_dtype dtype; /* 0: all stay */
  bool casts_last;  /* the device has all dtypes; where things are may lack one */
  char where[256];
  situ__remedies *all;
} whole;

/* "model" or "x", to a device or a dtype. */
static bool add_statement(const whole *w, situ_fix_action action, const char *target, const char *name,
                          uint64_t bytes) {
  char device[SITU_DEVICE_NAME_MAX], code[256], dtype[24], assigned[120] = "";
  const bool module = action == SITU_FIX_NN_TO || action == SITU_FIX_NN_TO_DTYPE;
  const bool cast = action == SITU_FIX_TO_DTYPE || action == SITU_FIX_NN_TO_DTYPE;
  (void)snprintf(dtype, sizeof dtype, "SITU_%s", situ_dtype_name(w->dtype));
  for (char *c = dtype; *c; c++) *c = (char)toupper((unsigned char)*c);
  if (!module) (void)snprintf(assigned, sizeof assigned, "%.100s = ", name);
  (void)snprintf(code, sizeof code, cast ? "%ssitu_%sto_dtype(%.100s, %s);" : "%ssitu_%sto(%.100s, situ_dev(\"%s\"));",
                 assigned, module ? "nn_" : "", name, cast ? dtype : situ_device_name(w->to, device));
  return situ__remedies_add(w->all, &(situ__remedy){ .does = { .action = action,
                                                               .device = cast ? (situ_device){ 0 } : w->to,
                                                               .dtype = cast ? w->dtype : SITU_DTYPE_DEFAULT,
                                                               .bytes = bytes,
                                                               .target = target,
                                                               .code = code,
                                                               .where = w->where } });
}

static situ_status bring_input(const char *path, situ_tensor *t, void *payload) {
  const whole *w = payload;
  const situ_device now = situ_device_of(t);
  const char *name = situ__input_name(path, t);
  const bool casts = w->dtype && situ_dtype_is_floating(situ_dtype_of(t)) && situ_dtype_of(t) != w->dtype;
  const bool moves = w->to.kind && now.kind != SITU_META && !situ_device_equal(now, w->to);
  const uint64_t bytes = situ_desc(t)->storage->bytes;
  for (int last = 0; last < 2; last++) {
    const bool good = w->casts_last == last ? !casts || add_statement(w, SITU_FIX_TO_DTYPE, name, name, 0)
                                            : !moves || add_statement(w, SITU_FIX_TO, name, name, bytes);
    if (!good) return SITU_E_NOMEM;
  }
  return SITU_OK;
}

/* "situ_nn_to(model, situ_dev("sim:0"));   before train.c:12", and a line for each input that is elsewhere. */
bool situ__preflight_whole(const situ__trial *t, situ_device to, situ_dtype dtype, situ__remedies *all) {
  whole w = { .to = to, .dtype = dtype, .all = all };
  char site[200];
  const char *name = *situ_nn_name(t->module) ? situ_nn_name(t->module) : "model", *root = situ__trial_root(t);
  char *in = strstr(situ_site_text(situ__base_up.call_site(), site, sizeof site), " in ");
  if (in && strchr(site, ':')) *in = 0;
  (void)snprintf(w.where, sizeof w.where, "%s%s", *site ? "before " : "", site);
  situ_device_properties has;
  const uint32_t wanted = 1u << SITU_F16 | 1u << SITU_BF16 | 1u << SITU_F32 | 1u << SITU_F64;
  w.casts_last = to.kind && situ_device_info(to, &has) == SITU_OK && (!has.dtypes || (has.dtypes & wanted) == wanted);
  for (int last = 0; last < 2; last++) {
    const bool good = w.casts_last == last ? !dtype || add_statement(&w, SITU_FIX_NN_TO_DTYPE, root, name, 0)
                                           : !to.kind || add_statement(&w, SITU_FIX_NN_TO, root, name, 0);
    if (!good) return false;
  }
  return situ_tree_each(t->inputs, bring_input, &w) == SITU_OK;
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

static bool moves_device(situ_fix_action action) {
  return action == SITU_FIX_NN_TO || action == SITU_FIX_TO || action == SITU_FIX_POLICY;
}

/* In the place of all fixes that move something; or as the other choice of each. */
static void put_whole(situ__preflight *p, const situ__trial *t, situ_device to, bool other) {
  situ__remedies all = { 0 };
  situ__text lines = { 0 };
  p->failed |= !situ__preflight_whole(t, to, SITU_DTYPE_DEFAULT, &all);
  for (int64_t i = 0; i < all.count; i++) {
    if (i) situ__text_add(&lines, "\n");
    situ__preflight_line(&lines, &all.list[i].does);
  }
  p->failed |= lines.failed;
  for (int64_t i = 0; i < p->remedies.count && !p->failed; i++) {
    if (!moves_device(p->remedies.list[i].does.action)) continue;
    situ_place_finding *f = &p->report.findings[p->remedies.list[i].finding];
    situ__text own = { 0 };
    const char *end = strstr(f->fix, "\nor ");
    if (other) situ__text_add(&own, "%.*s\nor ", (int)(end ? (size_t)(end - f->fix) : strlen(f->fix)), f->fix);
    situ__text_add(&own, "%s", lines.data);
    if (own.failed) p->failed = true;
    else put_fix(p, f, own.data);
    situ__text_free(&own);
  }
  situ__text_free(&lines);
  situ__remedies_free(&all);
}

/* ---- choosing ---- */

/* Runs again, with calls that meet on this device. Takes its findings if their fixes mend together, or if one move of
   the whole model does. */
static bool agree_on(situ__preflight *p, const situ__trial *as_it_is, situ_device to) {
  situ__preflight own = { .dry = { .meet = to } };
  situ__trial each = *as_it_is;
  bool good = situ__preflight_run(&own, as_it_is) && !own.failed && own.report.finished >= p->report.finished;
  each.made = own.remedies;
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
