/* Records what a preflight finds: errors, copies between devices, the work of each device.
   SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "place/preflight/check.h"

enum { PATH = SITU__PREFLIGHT_PATH, SITE = 256 };

static situ__preflight *preflight_of(situ_dry *dry) { return (situ__preflight *)dry; }

/* Ensures capacity for one more element. Returns false when out of memory, and sets p->failed. */
static bool ensure_capacity(situ__preflight *p, void *list, int64_t count, int64_t *capacity, size_t size) {
  const bool good = situ__grow(NULL, list, capacity, size, count + 1);
  p->failed |= !good;
  return good;
}

static const char *copied(situ__preflight *p, const char *text) {
  char *copy = situ__strdup(text ? text : "");
  if (!copy) p->failed = true;
  return copy;
}

/* A hash of texts, NULL as "". Not 0. */
static uintptr_t hash_texts(int count, const char *const *text) {
  uint64_t hash = SITU__HASH;
  for (int i = 0; i < count; i++) {
    const char *at = text[i] ? text[i] : "";
    hash = situ__hash(hash, at, strlen(at) + 1);
  }
  return (uintptr_t)hash | 1;
}

/* The number of the entry under a hash, from 1; 0: none. */
static int64_t number_at(const situ__map *map, uintptr_t hash) {
  return (int64_t)(uintptr_t)situ__map_get(map, (const void *)hash);
}

/* ---- errors --------------------------------------------------------------------------------- */

static bool same(const char *a, const char *b) { return strcmp(a ? a : "", b ? b : "") == 0; }

static bool same_finding(const situ_place_finding *a, const situ_place_finding *b) {
  return a->problem == b->problem && same(a->op, b->op) && same(a->module, b->module) && same(a->tensor, b->tensor) &&
         same(a->text, b->text);
}

bool situ__preflight_add(situ__preflight *p, const situ_place_finding *finding) {
  situ_place_report *r = &p->report;
  const char *const texts[] = { finding->op, finding->module, finding->tensor, finding->text };
  uintptr_t hash = hash_texts(4, texts);
  for (int64_t i; (i = number_at(&p->findings, hash)); hash++) {
    if (!same_finding(&r->findings[i - 1], finding)) continue;
    r->findings[i - 1].count++;
    return false;
  }
  if (!ensure_capacity(p, &r->findings, r->finding_count, &p->finding_capacity, sizeof *r->findings)) return false;
  if (!situ__map_put(&p->findings, (const void *)hash, (void *)(uintptr_t)(r->finding_count + 1))) p->failed = true;
  situ_place_finding *f = &r->findings[r->finding_count++];
  *f = *finding;
  f->count = 1;
  f->op = copied(p, finding->op);
  f->module = copied(p, finding->module);
  f->tensor = copied(p, finding->tensor);
  f->text = copied(p, finding->text);
  f->fix = copied(p, finding->fix);
  f->site = copied(p, finding->site);
  if (!f->note) r->mistakes++;
  return true;
}

static situ_place_problem problem_of(const situ_dry *dry, situ_status status) {
  if (dry->blind) return SITU_PLACE_VALUES;
  switch (status) {
  case SITU_E_DEVICE: return SITU_PLACE_DEVICE;
  case SITU_E_SHAPE: return SITU_PLACE_SHAPE;
  case SITU_E_DTYPE: return SITU_PLACE_DTYPE;
  case SITU_E_UNSUPPORTED: return SITU_PLACE_UNSUPPORTED;
  default: return SITU_PLACE_OTHER;
  }
}

/* The path of the only operand at fault; "" if there are several. */
static const char *culprit(const situ_error_report *error) {
  const char *found = NULL;
  for (int i = 0; i < error->count; i++) {
    if (!error->operands[i].odd) continue;
    if (found) return "";
    found = error->operands[i].tensor;
  }
  return found ? found : "";
}

static void note_remedies(situ__preflight *p, const situ_error_report *error) {
  if (!situ__remedies_of(&p->remedies, p->report.finding_count - 1, error)) p->failed = true;
  for (int i = 0; i < error->fix_count && error->fixes[i].choice == 0; i++) {
    p->moving += error->fixes[i].action == SITU_FIX_NN_TO;
    p->copying += error->fixes[i].action == SITU_FIX_POLICY;
  }
}

static void found(situ_dry *dry) {
  situ__preflight *p = preflight_of(dry);
  situ_error_report error;
  char module[PATH];
  if (!situ_error_read(&error)) return;
  if (p->making && p->trial->made.count) p->unmade = true;
  /* Errors while the model and its inputs are copied are ours, not the model's. */
  if (!p->counting && error.status == SITU_E_UNSUPPORTED) return;
  if (error.status == SITU_E_NOMEM) p->failed = true; /* of the host: the preflight allocates nothing on devices */
  if (situ__trial_makes(p->trial, &error)) return;
  if (situ__preflight_add(p, &(situ_place_finding){ .problem = problem_of(dry, error.status),
                                                    .backward = p->backward,
                                                    .status = error.status,
                                                    .op = error.op,
                                                    .module = situ_nn_running(module, sizeof module),
                                                    .tensor = culprit(&error),
                                                    .text = error.message,
                                                    .fix = error.fix,
                                                    .site = error.site }))
    note_remedies(p, &error);
}

const char *situ__preflight_running(const situ__preflight *p, char module[SITU__PREFLIGHT_PATH]) {
  situ_nn_running(module, SITU__PREFLIGHT_PATH);
  if (!*module && p->counting && !p->backward) (void)snprintf(module, SITU__PREFLIGHT_PATH, "%s", p->root);
  return module;
}

/* ---- devices -------------------------------------------------------------------------------- */

situ_place_load *situ__preflight_load(situ__preflight *p, situ_device device) {
  situ_place_report *r = &p->report;
  for (int64_t i = 0; i < r->load_count; i++)
    if (situ_device_equal(r->loads[i].device, device)) return &r->loads[i];
  int64_t capacity = p->load_capacity;
  if (!ensure_capacity(p, &r->loads, r->load_count, &capacity, sizeof *r->loads) ||
      !ensure_capacity(p, &p->held, r->load_count, &p->load_capacity, sizeof *p->held))
    return NULL;
  p->held[r->load_count] = (struct situ__held){ 0 };
  r->loads[r->load_count] = (situ_place_load){ .device = device };
  return &r->loads[r->load_count++];
}

static void launched(situ_dry *dry, const char *op, situ_device device, const situ_work *work) {
  situ__preflight *p = preflight_of(dry);
  (void)op;
  for (int i = 0; p->copied && i < work->ins; i++)
    if (work->in[i]) situ__preflight_stand(p, NULL, work->in[i]->storage);
  if (!p->counting) return;
  if (p->bare && !p->backward && !dry->depth) p->bare(p, work);
  situ_place_load *load = situ__preflight_load(p, device);
  if (load) load->launches++;
  /* A copy is attributed to its first user. */
  for (int i = 0; i < work->ins; i++) {
    void **note = work->in[i] ? situ_dry_note(work->in[i]->storage) : NULL;
    situ__trail *trail = note ? *note : NULL;
    if (!trail || trail->edge < 0) continue;
    char module[PATH];
    situ_place_edge *edge = &p->report.edges[trail->edge];
    trail->edge = -1;
    const char *to = copied(p, situ__preflight_running(p, module));
    if (!to || !*to) {
      situ__free((void *)to);
      continue;
    }
    situ__free((void *)edge->to);
    edge->to = to;
  }
}

static void note_storage(situ_dry *dry, situ_storage *storage, size_t block) {
  situ__preflight *p = preflight_of(dry);
  situ_place_load *load = situ__preflight_load(p, storage->device);
  situ__trail *trail = situ__alloc(sizeof *trail);
  char module[PATH];
  if (!load || !trail) p->failed = true;
  if (trail) {
    *trail = (situ__trail){ .edge = -1,
                            .number = ++p->storages,
                            .from = situ__strdup(situ__preflight_running(p, module)),
                            .storage = storage,
                            .next = p->trails,
                            .link = &p->trails };
    if (p->trails) p->trails->link = &trail->next;
    p->trails = trail;
    *situ_dry_note(storage) = trail;
  }
  if (load) situ__preflight_take(p, load, block);
}

static void freed(situ_dry *dry, situ_storage *storage, situ_device device, size_t block, bool moved) {
  situ__preflight *p = preflight_of(dry);
  situ__trail *trail = *situ_dry_note(storage);
  if (!trail || !trail->stands) situ__preflight_give(p, device, block);
  if (trail && moved) trail->stands = false;
  if (!trail || moved) return;
  *situ_dry_note(storage) = NULL;
  *trail->link = trail->next;
  if (trail->next) trail->next->link = trail->link;
  situ__free(trail->from);
  situ__free(trail);
}

void situ__preflight_name(situ__preflight *p, const situ_storage *storage, const char *path) {
  void **note = situ_dry_note(storage);
  situ__trail *trail = note ? *note : NULL;
  char *copy = trail ? situ__strdup(path) : NULL;
  if (trail && !copy) p->failed = true;
  if (!copy) return;
  situ__free(trail->from);
  trail->from = copy;
  trail->named = true;
}

/* ---- copies --------------------------------------------------------------------------------- */

/* The last forward copy whose gradient this one can be: of as many bytes, or, where one of them is expanded, of
   others. */
static struct situ__trip *trip_of(situ__preflight *p, const situ_dry_copy *c, bool alike) {
  for (int64_t i = p->trip_end - 1; i >= 0; i--) {
    struct situ__trip *t = &p->trips[i];
    const situ_place_edge *e = &p->report.edges[t->edge];
    if (!t->returned && (t->bytes == c->bytes) == alike && same(t->op, c->op) &&
        situ_device_equal(e->from_device, c->to) && situ_device_equal(e->to_device, c->from))
      return t;
  }
  return NULL;
}

/* The forward copy whose gradient this copy brings back: backward meets them in reverse order. Returns NULL if there is
   no matching one. */
static const situ_place_edge *way_there(situ__preflight *p, const situ_dry_copy *c) {
  while (p->trip_end > 0 && p->trips[p->trip_end - 1].returned) p->trip_end--;
  struct situ__trip *t = trip_of(p, c, true);
  if (!t) t = trip_of(p, c, false);
  if (t) t->returned = true;
  return t ? &p->report.edges[t->edge] : NULL;
}

static void note_trip(situ__preflight *p, const situ_dry_copy *c, int64_t edge) {
  if (!ensure_capacity(p, &p->trips, p->trip_count, &p->trip_capacity, sizeof *p->trips)) return;
  p->trips[p->trip_count++] = (struct situ__trip){ .edge = edge, .bytes = c->bytes, .op = c->op };
}

void situ__preflight_pass(situ__preflight *p) {
  for (int64_t i = 0; i < p->trip_count; i++) p->trips[i].returned = false;
  p->trip_end = p->trip_count;
}

static uintptr_t hash_edge(const situ_place_edge *e) {
  char from[SITU_DEVICE_NAME_MAX], to[SITU_DEVICE_NAME_MAX];
  const char *const texts[] = { situ_device_name(e->from_device, from), situ_device_name(e->to_device, to), e->from,
                                e->op, e->site };
  return hash_texts(5, texts);
}

/* In forward the target, the first module that uses the copy, is not known yet. *hash: where the edge would be. */
static int64_t edge_like(const situ__preflight *p, const situ_place_edge *edge, uintptr_t *hash) {
  *hash = hash_edge(edge);
  for (int64_t i; (i = number_at(&p->edges, *hash)); ++*hash) {
    const situ_place_edge *e = &p->report.edges[i - 1];
    if (situ_device_equal(e->from_device, edge->from_device) && situ_device_equal(e->to_device, edge->to_device) &&
        same(e->from, edge->from) && (!p->backward || same(e->to, edge->to)) && same(e->op, edge->op) &&
        same(e->site, edge->site))
      return i - 1;
  }
  return -1;
}

static void note_copy(situ_dry *dry, const situ_dry_copy *c) {
  situ__preflight *p = preflight_of(dry);
  situ_place_report *r = &p->report;
  char module[PATH], site[SITE], backward[64];
  (void)snprintf(backward, sizeof backward, "%.40s backward", c->op);
  void **source = situ_dry_note(c->source), **target = situ_dry_note(c->target);
  situ__trail *before = source ? *source : NULL, *after = target ? *target : NULL;
  if (p->copied && c->source) situ__preflight_stand(p, NULL, c->source);
  if (!p->counting) return;
  const situ_place_edge *there = p->backward ? way_there(p, c) : NULL;
  const situ_place_edge edge = { .from = there                    ? there->to
                                         : before && before->from ? before->from
                                                                  : "",
                                 .to = there ? there->from : situ__preflight_running(p, module),
                                 .from_device = c->from,
                                 .to_device = c->to,
                                 .bytes = c->bytes,
                                 .count = 1,
                                 .op = p->backward ? backward : c->op,
                                 .site = situ_site_text(c->site, site, sizeof site) };
  uintptr_t hash;
  int64_t at = edge_like(p, &edge, &hash);
  if (at >= 0) {
    r->edges[at].bytes += c->bytes;
    r->edges[at].count++;
    if (!p->backward) note_trip(p, c, at);
    return;
  }
  char *from = situ__strdup(edge.from), *to = situ__strdup(edge.to); /* `there` becomes invalid when the list grows */
  if (!from || !to || !ensure_capacity(p, &r->edges, r->edge_count, &p->edge_capacity, sizeof *r->edges)) {
    situ__free(from);
    situ__free(to);
    p->failed = true;
    return;
  }
  at = r->edge_count++;
  if (!situ__map_put(&p->edges, (const void *)hash, (void *)(uintptr_t)(at + 1))) p->failed = true;
  r->edges[at] = edge;
  r->edges[at].from = from;
  r->edges[at].to = to;
  r->edges[at].op = copied(p, edge.op);
  r->edges[at].site = copied(p, edge.site);
  if (!p->backward) note_trip(p, c, at);
  if (after) after->edge = at;
}

void situ__preflight_watch(situ__preflight *p) {
  p->dry.found = found;
  p->dry.copied = note_copy;
  p->dry.exchanged = situ__preflight_exchanged;
  p->dry.launched = launched;
  p->dry.made = note_storage;
  p->dry.freed = freed;
}

void situ_place_report_free(situ_place_report *report) {
  if (!report) return;
  for (int64_t i = 0; i < report->finding_count; i++) {
    const situ_place_finding *f = &report->findings[i];
    const char *const text[] = { f->op, f->module, f->tensor, f->text, f->fix, f->site };
    for (size_t k = 0; k < sizeof text / sizeof *text; k++) situ__free((void *)text[k]);
  }
  for (int64_t i = 0; i < report->edge_count; i++) {
    const situ_place_edge *e = &report->edges[i];
    const char *const text[] = { e->from, e->to, e->op, e->site };
    for (size_t k = 0; k < sizeof text / sizeof *text; k++) situ__free((void *)text[k]);
  }
  situ__place_exchanges_free(report);
  situ__free(report->findings);
  situ__free(report->edges);
  situ__free(report->loads);
  *report = (situ_place_report){ 0 };
}
