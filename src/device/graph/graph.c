/* Graphs: work is recorded while it runs, together with the memory that it uses, and can be replayed. A backend may
   make one object of what has no host values; otherwise each piece is run again.
   SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/handle.h"
#include "device/dry.h"
#include "device/graph/parts.h"
#include "device/profile/profile.h"
#include "situ/sys/plain.h"

SITU__THREAD_LOCAL situ_graph *situ__graph_recording;
static SITU__THREAD_LOCAL situ_graph *paused;

/* ---- recording ------------------------------------------------------------------------------ */

SITU_COLD situ_status situ__graph_refuse(const char *op, const char *what, const char *instead) {
  char name[SITU_DEVICE_NAME_MAX];
  return situ__fail(SITU_E_STATE, op, "a graph is being recorded on %s, and its replay could not repeat %s; %s",
                    situ_device_name(situ__graph_recording->device, name), what, instead);
}

situ_status situ__graph_refuse_copy(const char *op) {
  return situ__graph_refuse(op, "a copy from or to the host or another device",
                            "write inputs before, and read results after");
}

static situ_status check_repeatable(const char *op, situ_device device, const situ_work *work) {
  if (!situ_device_equal(device, situ__graph_recording->device)) {
    char what[64], name[SITU_DEVICE_NAME_MAX];
    (void)snprintf(what, sizeof what, "work on %s", situ_device_name(device, name));
    return situ__graph_refuse(op, what, "do it before or after");
  }
  if (work->verb == SITU_VERB_PACK)
    return situ__graph_refuse(op, "a move of storages (each has other memory afterwards)", "do it before");
  return SITU_OK;
}

bool situ__graph_reserve_places(situ_graph *g, size_t more) {
  return situ__grow(NULL, &g->place, &g->capacity, sizeof *g->place, g->places + more);
}

static situ_view_desc *copy_operands(const situ_view_desc **operand, int count, situ_view_desc *to) {
  for (int i = 0; i < count; i++) {
    if (!operand[i]) continue;
    *to = *operand[i];
    operand[i] = to++;
  }
  return to;
}

/* Operands of an optimiser's item. */
enum { ITEM = 5 };
static const situ_view_desc **item_operand(situ_optimizer_item *item, int k) {
  return k == 0 ? &item->param : k == 1 ? &item->grad : &item->state[k - 2];
}

/* Copies the list and the parameters of an optimiser's step; its views go to `view`. Returns where they end. */
static situ_view_desc *copy_step(situ__graph_work *kept, situ_view_desc *view) {
  const int64_t count = kept->work.list_count;
  kept->list = (situ_optimizer_item *)(view + ITEM * count);
  for (int64_t i = 0; i < count; i++) {
    kept->list[i] = kept->work.list[i];
    for (int k = 0; k < ITEM; k++) view = copy_operands(item_operand(&kept->list[i], k), 1, view);
  }
  kept->params = *kept->work.params;
  kept->work.list = kept->list;
  kept->work.params = &kept->params;
  return view;
}

situ__graph_work *situ__graph_take(const char *op, situ_device device, const situ_work *work) {
  situ_graph *g = situ__graph_recording;
  if (check_repeatable(op, device, work) != SITU_OK) return NULL;
  const size_t operands = (size_t)(work->ins + work->outs), items = (size_t)work->list_count;
  const size_t bytes = sizeof(situ__graph_work) + (operands + ITEM * items) * sizeof(situ_view_desc) +
                       items * sizeof(situ_optimizer_item);
  situ__graph_work *kept = situ__alloc(bytes);
  if (!kept || !situ__graph_reserve_places(g, operands + ITEM * items)) {
    situ__free(kept);
    return situ__no_memory(op, bytes), NULL;
  }
  kept->op = op;
  kept->tiles.count = 0;
  kept->work = *work;
  if (work->window) {
    kept->window = *work->window;
    kept->work.window = &kept->window;
  }
  situ_view_desc *rest = copy_operands(kept->work.in, work->ins, kept->view);
  rest = copy_operands(kept->work.out, work->outs, rest);
  if (items) rest = copy_step(kept, rest);
  kept->views = (size_t)(rest - kept->view);
  if (situ__graph_bind(op, g, kept) != SITU_OK) return situ__free(kept), NULL;
  g->scratch.used = 0;
  if (g->device.kind == SITU_CPU) situ__scratch_now = &g->scratch;
  return kept;
}

static void add_place(situ_graph *g, const situ__graph_work *kept, const situ_view_desc *v, bool written) {
  if (!v) return;
  situ__storage_retain(v->storage);
  g->place[g->places++] = (situ__graph_place){ .storage = v->storage,
                                               .data = v->storage->data,
                                               .written = written,
                                               .skippable = kept->values && kept->values->section,
                                               .made = written && situ__storage_since(v->storage, g->newest),
                                               .first = 2 * g->length,
                                               .last = 2 * g->length };
}

/* Whether a result is set as a whole, whatever it was before. */
static bool sets_all(const situ_work *w, int out) {
  if (w->verb == SITU_VERB_SCATTER || (w->verb == SITU_VERB_COPY && out > 0)) return false;
  return situ__graph_is_whole(w->out[out]);
}

void situ__graph_keep(situ__graph_work *kept) {
  situ_graph *g = situ__graph_recording;
  const situ_work *w = &kept->work;
  situ__scratch_now = NULL;
  kept->scratch = (situ__scratch){ .bytes = g->scratch.used };
  for (int i = 0; i < w->ins; i++) add_place(g, kept, w->in[i], false);
  for (int i = 0; i < w->outs; i++) {
    add_place(g, kept, w->out[i], true);
    if (w->out[i]) g->place[g->places - 1].set = sets_all(w, i);
  }
  for (int64_t i = 0; i < w->list_count; i++)
    for (int k = 0; k < ITEM; k++) add_place(g, kept, *item_operand(&kept->list[i], k), k != 1);
  kept->number = 2 * g->length;
  kept->next = NULL;
  *g->last = kept;
  g->last = &kept->next;
  g->length++;
}

void situ__graph_drop(situ__graph_work *kept) {
  if (kept) situ__scratch_now = NULL;
  situ__free(kept);
}

bool situ__graph_made(const situ_storage *storage) {
  const situ_graph *g = situ__graph_recording;
  size_t i = 0;
  while (i < g->places && g->place[i].storage != storage) i++;
  return i < g->places && g->place[i].made;
}

void situ__graph_note_gradient(const situ_storage *storage) {
  situ_graph *g = situ__graph_recording;
  while (g->noted < g->places && situ__map_put(&g->known, g->place[g->noted].storage, (void *)(g->noted + 1)))
    g->noted++;
  size_t i = g->places; /* where memory has run out, looks at those that are not noted */
  while (i > g->noted && g->place[i - 1].storage != storage) i--;
  if (i == g->noted) i = (size_t)(uintptr_t)situ__map_get(&g->known, storage);
  if (i) g->place[i - 1].gradient = true;
}

situ_status situ_graph_capture_begin(situ_device device) {
  const char *op = "graph_capture_begin";
  if (!situ__device_resolve(op, device, &device)) return situ_error();
  if (situ__graph_recording) return situ__graph_refuse(op, "another one", "end it first");
  if (paused) return situ__fail(SITU_E_STATE, op, "a graph is being recorded in this thread, and is paused");
  if (situ__is_dry()) return situ__dry_blind(op);
  situ_status status = situ__device_usable(op, device);
  if (status != SITU_OK) return status;
  if (situ__backend(device)->no_memory) return situ__fail(SITU_E_UNSUPPORTED, op, "nothing is computed on meta");
  situ_graph *g = situ__handle_new(SITU__A_GRAPH, sizeof *g);
  if (!g || !situ__graph_open_streams(g)) {
    if (g) situ__handle_free(g, sizeof *g, NULL);
    return situ__no_memory(op, sizeof *g);
  }
  g->device = device;
  g->last = &g->first;
  g->errors = situ__error_count();
  g->newest = situ__storage_newest();
  situ__device_up.forget_casts(); /* a replay would not cast again what was cast before */
  situ__graph_recording = g;
  return SITU_OK;
}

bool situ_graph_is_capturing(void) { return situ__graph_recording != NULL; }

bool situ_graph_pause(void) {
  if (!situ__graph_recording) return false;
  paused = situ__graph_recording;
  situ__graph_recording = NULL;
  return true;
}

void situ_graph_resume(void) {
  if (!paused) return;
  situ__graph_recording = paused;
  paused = NULL;
}

/* ---- memory that the graph uses ---- */

static SITU_COLD situ_status report_moved(const char *op, const situ_graph *g, situ_storage *storage) {
  situ__described d = { "a tensor", "" };
  char then[SITU_DEVICE_NAME_MAX], now[SITU_DEVICE_NAME_MAX];
  situ__device_up.describe_storage(storage, &d);
  if (situ_device_equal(storage->device, g->device))
    return situ__fail(SITU_E_STATE, op, "%s%s has other memory than when the graph was recorded; record it again",
                      d.what, d.where);
  return situ__fail(SITU_E_STATE, op,
                    "%s, made%s, is on %s now, and was on %s when the graph was recorded; record it "
                    "again",
                    d.what, d.where, situ_device_name(storage->device, now), situ_device_name(g->device, then));
}

static SITU_COLD situ_status report_dropped(const char *op, const situ_graph *g) {
  char name[SITU_DEVICE_NAME_MAX];
  return situ__fail(SITU_E_STATE, op,
                    "the graph writes a gradient on %s that is the .grad of no tensor any more; between replays fill "
                    "gradients with zeros (situ_optim_zero_grad with set_to_none false), or record the graph again",
                    situ_device_name(g->device, name));
}

/* Returns an error if memory of the first `count` places has changed its address or device, or the host has it
   mapped. */
static situ_status check_places(const char *op, const situ_graph *g, size_t count) {
  for (size_t i = 0; i < count; i++) {
    const situ__graph_place *p = &g->place[i];
    if (p->storage->data != p->data || !situ_device_equal(p->storage->device, g->device))
      return report_moved(op, g, p->storage);
    const uint32_t held = SITU_STORAGE_HELD | (p->written ? SITU_STORAGE_HELD_READ | SITU_STORAGE_SENT : 0);
    if (situ__storage_flags(p->storage) & held) return situ__refuse_held(op, p->storage);
  }
  return SITU_OK;
}

/* ---- building ---- */

static int by_storage_and_time(const void *a, const void *b) {
  const situ__graph_place *x = a, *y = b;
  if (x->storage != y->storage) return x->storage > y->storage ? 1 : -1;
  if (x->first != y->first) return x->first > y->first ? 1 : -1;
  return x->written - y->written;
}

/* Returns true if no tensor holds the gradient, which one was the .grad of. */
static bool was_dropped(const situ__graph_place *p) {
  return p->gradient && __atomic_load_n(&p->storage->refs, __ATOMIC_RELAXED) == 1;
}

/* Merges the places of each storage. */
static void gather_places(situ_graph *g) {
  situ__map_free(&g->known);
  if (!g->places) return;
  qsort(g->place, g->places, sizeof *g->place, by_storage_and_time);
  size_t count = 0;
  for (size_t i = 0; i < g->places; i++) {
    situ__graph_place *last = count ? &g->place[count - 1] : NULL;
    if (last && last->storage == g->place[i].storage) {
      last->written = last->written || g->place[i].written;
      last->gradient = g->place[i].gradient || (last->gradient && !last->set);
      last->skippable = last->skippable || g->place[i].skippable;
      last->last = g->place[i].last;
      situ__storage_release(g->place[i].storage);
    } else {
      g->place[count++] = g->place[i];
    }
  }
  g->places = count;
  for (situ__graph_place *p = g->place; p < g->place + count; p++) p->gradient = p->gradient && !was_dropped(p);
}

static situ_status run_piece(const situ_graph *g, const situ_backend *backend, const situ__graph_work *k) {
  const char *outer = situ__now.running;
  situ__now.running = k->op;
  situ__scratch scratch = k->scratch;
  situ__scratch_now = scratch.bytes ? &scratch : NULL;
  const situ_status status = backend->kernel[k->work.verb](g->device.index, &k->work);
  situ__scratch_now = NULL;
  situ__now.running = outer;
  return status;
}

static situ_status run_pieces(situ_graph *g, const situ_backend *backend, const situ__graph_span *span) {
  situ_status status = SITU_OK;
  for (const situ__graph_work *k = span->first; k != span->end && status == SITU_OK; k = k->next) {
    bool skip = false;
    if (k->tiles.count) {
      status = situ__graph_run_group(k, backend);
      for (size_t n = k->tiles.count; n > 1; n--) k = k->next;
      continue;
    }
    if (k->values && k->values->section) status = situ__graph_enter(k, &skip);
    if (status == SITU_OK && !skip) status = run_piece(g, backend, k);
  }
  return status;
}

static situ_status build_span(const char *op, situ_graph *g, situ__graph_span *span) {
  const situ_backend *backend = situ__backend(g->device);
  uint64_t before = situ__error_count();
  situ_status status = backend->graph_begin(g->device.index);
  if (status == SITU_OK) {
    status = run_pieces(g, backend, span);
    situ_status ended = backend->graph_end(g->device.index, status == SITU_OK, &span->made);
    if (status == SITU_OK) status = ended;
  }
  return status == SITU_OK ? status : situ__device_failed(op, g->device, status, before, "making a graph");
}

/* The backend makes one object of neighbours without host values. */
static situ_status build_spans(situ_graph *g) {
  const bool makes = situ__backend(g->device)->graph_begin;
  size_t count = 1;
  for (const situ__graph_work *k = g->first; makes && k->next; k = k->next)
    count += situ__graph_is_live(k) != situ__graph_is_live(k->next);
  g->span = situ__calloc(count, sizeof *g->span);
  if (!g->span) return situ__no_memory("graph_capture_end", count * sizeof *g->span);
  situ_status status = SITU_OK;
  for (situ__graph_work *k = g->first; k && status == SITU_OK;) {
    situ__graph_span *span = &g->span[g->spans++];
    const bool live = situ__graph_is_live(k);
    span->first = k;
    while (k && (!makes || situ__graph_is_live(k) == live)) k = k->next;
    span->end = k;
    if (makes && !live) status = build_span("graph_capture_end", g, span);
  }
  return status;
}

static situ_status finish(situ_graph *g) {
  const char *op = "graph_capture_end";
  situ_status status = situ__device_usable(op, g->device);
  if (status == SITU_OK) status = check_places(op, g, g->places);
  g->recorded = g->length;
  if (status == SITU_OK) status = situ__graph_mark_places(g);
  if (status == SITU_OK) status = situ__graph_reuse(g);
  if (status == SITU_OK) status = situ__graph_lower_peak(g);
  if (status == SITU_OK) situ__graph_fuse(g);
  if (status == SITU_OK) status = situ__graph_plan(g);
  return status == SITU_OK ? build_spans(g) : status;
}

situ_graph *situ_graph_capture_end(void) {
  const char *op = "graph_capture_end";
  char name[SITU_DEVICE_NAME_MAX];
  situ_graph *g = situ__graph_recording;
  if (!g) return situ__fail(SITU_E_STATE, op, "no graph is being recorded in this thread"), NULL;
  situ__graph_recording = NULL;
  gather_places(g);
  bool good = situ__error_count() == g->errors;
  if (!good) situ__fail(SITU_E_STATE, op, "an error happened while the graph was recorded");
  else if (g->length == 0)
    good = (situ__fail(SITU_E_STATE, op, "nothing was asked of %s while the graph was recorded",
                       situ_device_name(g->device, name)),
            false);
  else good = finish(g) == SITU_OK;
  if (good) return g;
  situ_graph_free(g);
  return NULL;
}

static bool is_graph(const char *op, const situ_graph *g) { return situ__valid(op, "graph", g, SITU__A_GRAPH); }

/* ---- replaying ------------------------------------------------------------------------------ */

static situ_status build_stale(const char *op, situ_graph *g) {
  situ_status status = SITU_OK;
  for (situ__graph_span *s = g->span; s < g->span + g->spans && status == SITU_OK; s++) {
    if (!s->stale) continue;
    void *old = s->made;
    status = build_span(op, g, s);
    if (status == SITU_OK) situ__backend(g->device)->graph_free(g->device.index, old), s->stale = false;
  }
  return status;
}

/* Whether the graph reads memory that holds no values. */
static bool lacks_values(const situ__graph_slot *s) {
  if (s->written || situ__is_filled(s->storage)) return false;
  for (size_t i = 0; i < s->count; i++)
    if (situ__first_unwritten(s->use[i].view) >= 0) return true;
  return false;
}

/* Counts what a replay has written of the storage. */
static void count_writes(const situ_graph *g, situ_storage *storage) {
  if (situ__is_filled(storage)) {
    situ__storage_wrote(storage);
    return;
  }
  (void)__atomic_fetch_add(&storage->version, 1, __ATOMIC_RELAXED);
  for (const situ__graph_work *k = g->first; k; k = k->next)
    for (size_t i = 0; i < k->views; i++)
      if (k->view[i].storage == storage && situ__graph_writes(k, &k->view[i])) situ__wrote_part(&k->view[i]);
}

/* Returns an error if memory that stands in for that of the capture has moved, or has no values yet. */
static situ_status check_slots(const char *op, const situ_graph *g) {
  for (const situ__graph_slot *s = g->slots; s; s = s->next) {
    situ__described d = { "a tensor", "" };
    const bool moved = s->storage->data != s->data || !situ_device_equal(s->storage->device, g->device);
    if (!moved && !lacks_values(s)) continue;
    situ__device_up.describe_storage(s->storage, &d);
    if (moved)
      return situ__fail(SITU_E_STATE, op,
                        "%s%s has moved since it was bound to the graph (situ_graph_rebind); bind it "
                        "again, or another one there",
                        d.what, d.where);
    return situ__fail(SITU_E_STATE, op, "%s%s has no values yet%s, and the graph reads it; write them first", d.what,
                      d.where, situ__holds_some(s->storage) ? " in all parts" : "");
  }
  return SITU_OK;
}

static SITU_COLD situ_status profile_replay(const char *op, const situ_graph *g) {
  uint64_t bytes = 0;
  double operations = 0;
  for (const situ__graph_work *k = g->first; k; k = k->next) {
    bytes += situ__work_bytes(&k->work);
    operations += situ__work_operations(&k->work);
  }
  return situ__profile_replay(op, g->device, bytes, operations);
}

static situ_status run_spans(situ_graph *g) {
  const situ_backend *backend = situ__backend(g->device);
  situ_status status = SITU_OK;
  for (const situ__graph_span *s = g->span; s < g->span + g->spans && status == SITU_OK; s++)
    status = s->made ? backend->graph_launch(g->device.index, s->made) : run_pieces(g, backend, s);
  return status;
}

situ_status situ_graph_replay(situ_graph *graph) {
  SITU__DEFAULT_FPU;
  const char *op = "graph_replay";
  if (!is_graph(op, graph)) return situ_error();
  SITU__ALONE(in, &graph->alone, op, "this graph");
  if (!in) return situ_error();
  if (situ__is_dry()) return situ__dry_blind(op);
  if (situ__graph_recording) return situ__graph_refuse(op, "another graph's replay", "do it before or after");
  situ_status status = situ__device_usable(op, graph->device);
  if (status != SITU_OK) return status;
  if ((status = check_places(op, graph, graph->shared)) != SITU_OK) return status;
  if ((status = check_slots(op, graph)) != SITU_OK || (status = build_stale(op, graph)) != SITU_OK) return status;
  for (size_t i = 0; i < graph->shared; i++)
    if (was_dropped(&graph->place[i])) return report_dropped(op, graph);
  if ((status = situ__graph_refresh(graph)) != SITU_OK) return situ__graph_ended(graph, false), status;
  uint64_t before = situ__error_count();
  if (situ__is_profiled()) situ__profile_start();
  status = run_spans(graph);
  if (situ__is_profiled() && status == SITU_OK) status = profile_replay(op, graph);
  if (status != SITU_OK) {
    situ__graph_ended(graph, false);
    return situ__device_failed(op, graph->device, status, before, "the replay");
  }
  for (size_t i = 0; i < graph->shared; i++)
    if (graph->place[i].written) count_writes(graph, graph->place[i].storage);
  for (const situ__graph_slot *s = graph->slots; s; s = s->next)
    if (s->written) count_writes(graph, s->storage);
  situ__graph_ended(graph, true);
  return SITU_OK;
}

size_t situ_graph_length(const situ_graph *graph) {
  return graph && is_graph("graph_length", graph) ? graph->length : 0;
}

void situ_graph_free(situ_graph *graph) {
  if (!graph || !is_graph("graph_free", graph) || !situ__alone_begin(&graph->alone, "graph_free", "this graph")) return;
  for (size_t i = 0; i < graph->spans; i++)
    if (graph->span[i].made) situ__backend(graph->device)->graph_free(graph->device.index, graph->span[i].made);
  situ__free(graph->span);
  while (graph->first) {
    situ__graph_work *next = graph->first->next;
    situ__free(graph->first);
    graph->first = next;
  }
  for (size_t i = 0; i < graph->places; i++) situ__storage_release(graph->place[i].storage);
  situ__free(graph->place);
  situ__graph_free_slots(graph);
  situ__storage_release(graph->block);
  situ__graph_free_values(graph);
  situ__handle_free(graph, sizeof *graph, NULL);
}
