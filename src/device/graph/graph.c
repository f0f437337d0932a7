/* Graphs: work is recorded while it runs, together with the memory that it uses, and can be replayed. A backend may
   compile it into one object; otherwise each piece is run again.
   SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/busy.h"
#include "base/fail.h"
#include "base/handle.h"
#include "device/dry.h"
#include "device/graph/graph.h"
#include "device/profile/profile.h"

struct situ__graph_work {
  situ__graph_work *next;
  const char *op;
  situ_work work; /* its operands point into `view` */
  situ_window window;
  situ_view_desc view[];
};

/* Memory that the graph uses, and its address when the graph was made. */
typedef struct place {
  situ_storage *storage;
  const void *data;
  bool written;
} place;

struct situ_graph {
  uint32_t head;
  situ__alone alone;
  situ_device device;
  uint64_t errors; /* the thread's error count at the beginning */
  situ__graph_work *first, **last;
  size_t length;
  place *place; /* during recording: one for each operand */
  size_t places, capacity;
  void *made; /* the backend's object; NULL: it has none */
};

SITU__THREAD_LOCAL situ_graph *situ__graph_recording;

/* ---- recording ------------------------------------------------------------------------------ */

static SITU_COLD situ_status refuse_capture(const char *op, const char *what, const char *instead) {
  char name[SITU_DEVICE_NAME_MAX];
  return situ__fail(SITU_E_STATE, op, "a graph is being recorded on %s, and its replay could not repeat %s; %s",
                    situ_device_name(situ__graph_recording->device, name), what, instead);
}

situ_status situ__graph_refuse_copy(const char *op) {
  return refuse_capture(op, "a copy from or to the host or another device",
                        "write inputs before, and read results after");
}

static situ_status check_repeatable(const char *op, situ_device device, const situ_work *work) {
  if (!situ_device_equal(device, situ__graph_recording->device)) {
    char what[64], name[SITU_DEVICE_NAME_MAX];
    (void)snprintf(what, sizeof what, "work on %s", situ_device_name(device, name));
    return refuse_capture(op, what, "do it before or after");
  }
  if (work->verb == SITU_VERB_RANDOM || (work->verb == SITU_VERB_ATTENTION && work->scalar[1] != 0))
    return refuse_capture(op, "random numbers (they would be the same each time)",
                          "draw them before, into a tensor that is an input");
  if (work->verb == SITU_VERB_OPTIMIZER)
    return refuse_capture(op, "the step of an optimiser (its step count and learning rate are the host's)",
                          "take it after the replay");
  if (work->verb == SITU_VERB_PACK)
    return refuse_capture(op, "a move of storages (each has other memory afterwards)", "do it before");
  return SITU_OK;
}

static bool reserve_places(situ_graph *g, size_t more) {
  if (g->capacity - g->places >= more) return true;
  size_t capacity = 2 * g->capacity + 4 * SITU_WORK_MAX;
  place *larger = situ__realloc(g->place, capacity * sizeof *larger);
  if (!larger) return false;
  g->place = larger;
  g->capacity = capacity;
  return true;
}

static situ_view_desc *copy_operands(const situ_view_desc **operand, int count, situ_view_desc *to) {
  for (int i = 0; i < count; i++) {
    if (!operand[i]) continue;
    *to = *operand[i];
    operand[i] = to++;
  }
  return to;
}

situ__graph_work *situ__graph_take(const char *op, situ_device device, const situ_work *work) {
  if (check_repeatable(op, device, work) != SITU_OK) return NULL;
  const size_t operands = (size_t)(work->ins + work->outs);
  situ__graph_work *kept = situ__alloc(sizeof *kept + operands * sizeof *kept->view);
  if (!kept || !reserve_places(situ__graph_recording, operands)) {
    situ__free(kept);
    (void)situ__no_memory(op, sizeof *kept);
    return NULL;
  }
  kept->op = op;
  kept->work = *work;
  if (work->window) {
    kept->window = *work->window;
    kept->work.window = &kept->window;
  }
  situ_view_desc *rest = copy_operands(kept->work.in, work->ins, kept->view);
  (void)copy_operands(kept->work.out, work->outs, rest);
  return kept;
}

static void add_place(situ_graph *g, const situ_view_desc *v, bool written) {
  if (!v) return;
  situ__storage_retain(v->storage);
  g->place[g->places++] = (place){ .storage = v->storage, .data = v->storage->data, .written = written };
}

void situ__graph_keep(situ__graph_work *kept) {
  situ_graph *g = situ__graph_recording;
  for (int i = 0; i < kept->work.ins; i++) add_place(g, kept->work.in[i], false);
  for (int i = 0; i < kept->work.outs; i++) add_place(g, kept->work.out[i], true);
  kept->next = NULL;
  *g->last = kept;
  g->last = &kept->next;
  g->length++;
}

void situ__graph_drop(situ__graph_work *kept) { situ__free(kept); }

situ_status situ_graph_capture_begin(situ_device device) {
  const char *op = "graph_capture_begin";
  if (!situ__device_resolve(op, device, &device)) return situ_error();
  if (situ__graph_recording) return refuse_capture(op, "another one", "end it first");
  if (situ__is_dry()) return situ__dry_blind(op);
  situ_status status = situ__device_usable(op, device);
  if (status != SITU_OK) return status;
  if (situ__backend(device)->no_memory) return situ__fail(SITU_E_UNSUPPORTED, op, "nothing is computed on meta");
  situ_graph *g = situ__handle_new(SITU__A_GRAPH, sizeof *g);
  if (!g) return situ__no_memory(op, sizeof *g);
  g->device = device;
  g->last = &g->first;
  g->errors = situ__error_count();
  situ__graph_recording = g;
  return SITU_OK;
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

/* Returns an error if memory that the work uses has changed its address or device. */
static situ_status check_places(const char *op, const situ_graph *g) {
  for (size_t i = 0; i < g->places; i++) {
    const place *p = &g->place[i];
    if (p->storage->data != p->data || !situ_device_equal(p->storage->device, g->device))
      return report_moved(op, g, p->storage);
  }
  return SITU_OK;
}

/* ---- building ---- */

static int by_storage(const void *a, const void *b) {
  const place *x = a, *y = b;
  return (x->storage > y->storage) - (x->storage < y->storage);
}

/* Merges the places of each storage. */
static void gather_places(situ_graph *g) {
  if (!g->places) return;
  qsort(g->place, g->places, sizeof *g->place, by_storage);
  size_t count = 0;
  for (size_t i = 0; i < g->places; i++) {
    place *last = count ? &g->place[count - 1] : NULL;
    if (last && last->storage == g->place[i].storage) {
      last->written = last->written || g->place[i].written;
      situ__storage_release(g->place[i].storage);
    } else {
      g->place[count++] = g->place[i];
    }
  }
  g->places = count;
}

static situ_status run_pieces(const situ_graph *g, const situ_backend *backend) {
  const char *outer = situ__now.running;
  situ_status status = SITU_OK;
  for (const situ__graph_work *k = g->first; k && status == SITU_OK; k = k->next) {
    situ__now.running = k->op;
    status = backend->kernel[k->work.verb](g->device.index, &k->work);
  }
  situ__now.running = outer;
  return status;
}

static situ_status build_graph(situ_graph *g) {
  const char *op = "graph_capture_end";
  const situ_backend *backend = situ__backend(g->device);
  if (!backend->graph_begin) return SITU_OK;
  uint64_t before = situ__error_count();
  situ_status status = backend->graph_begin(g->device.index);
  if (status == SITU_OK) {
    status = run_pieces(g, backend);
    situ_status ended = backend->graph_end(g->device.index, status == SITU_OK, &g->made);
    if (status == SITU_OK) status = ended;
  }
  return status == SITU_OK ? status : situ__device_failed(op, g->device, status, before, "making a graph");
}

situ_graph *situ_graph_capture_end(void) {
  const char *op = "graph_capture_end";
  char name[SITU_DEVICE_NAME_MAX];
  situ_graph *g = situ__graph_recording;
  if (!g) {
    (void)situ__fail(SITU_E_STATE, op, "no graph is being recorded in this thread");
    return NULL;
  }
  situ__graph_recording = NULL;
  gather_places(g);
  bool good = situ__error_count() == g->errors;
  if (!good) (void)situ__fail(SITU_E_STATE, op, "an error happened while the graph was recorded");
  else if (g->length == 0)
    good = situ__fail(SITU_E_STATE, op, "nothing was asked of %s while the graph was recorded",
                      situ_device_name(g->device, name)) == SITU_OK;
  else
    good = situ__device_usable(op, g->device) == SITU_OK && check_places(op, g) == SITU_OK && build_graph(g) == SITU_OK;
  if (good) return g;
  situ_graph_free(g);
  return NULL;
}

static bool is_graph(const char *op, const situ_graph *g) { return situ__valid(op, "graph", g, SITU__A_GRAPH); }

/* ---- replaying ------------------------------------------------------------------------------ */

static SITU_COLD situ_status profile_replay(const char *op, const situ_graph *g) {
  uint64_t bytes = 0;
  double operations = 0;
  for (const situ__graph_work *k = g->first; k; k = k->next) {
    bytes += situ__work_bytes(&k->work);
    operations += situ__work_operations(&k->work);
  }
  return situ__profile_replay(op, g->device, bytes, operations);
}

situ_status situ_graph_replay(situ_graph *g) {
  const char *op = "graph_replay";
  if (!is_graph(op, g)) return situ_error();
  SITU__ALONE(in, &g->alone, op, "this graph");
  if (!in) return situ_error();
  if (situ__is_dry()) return situ__dry_blind(op);
  if (situ__graph_recording) return refuse_capture(op, "another graph's replay", "do it before or after");
  situ_status status = situ__device_usable(op, g->device);
  if (status != SITU_OK) return status;
  if ((status = check_places(op, g)) != SITU_OK) return status;
  uint64_t before = situ__error_count();
  const situ_backend *backend = situ__backend(g->device);
  if (situ__is_profiled()) situ__profile_start();
  status = g->made ? backend->graph_launch(g->device.index, g->made) : run_pieces(g, backend);
  if (situ__is_profiled() && status == SITU_OK) status = profile_replay(op, g);
  if (status != SITU_OK) return situ__device_failed(op, g->device, status, before, "the replay");
  for (size_t i = 0; i < g->places; i++)
    if (g->place[i].written) situ__storage_wrote(g->place[i].storage);
  return SITU_OK;
}

size_t situ_graph_length(const situ_graph *g) { return g && is_graph("graph_length", g) ? g->length : 0; }

void situ_graph_free(situ_graph *g) {
  if (!g || !is_graph("graph_free", g) || !situ__alone_begin(&g->alone, "graph_free", "this graph")) return;
  if (g->made) situ__backend(g->device)->graph_free(g->device.index, g->made);
  while (g->first) {
    situ__graph_work *next = g->first->next;
    situ__free(g->first);
    g->first = next;
  }
  for (size_t i = 0; i < g->places; i++) situ__storage_release(g->place[i].storage);
  situ__free(g->place);
  situ__handle_free(g, sizeof *g, NULL);
}
