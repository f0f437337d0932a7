/* What a replay takes anew instead of repeating: random numbers, and host values of work such as a learning rate.
   SPDX-License-Identifier: MIT */
#include <inttypes.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "device/graph/parts.h"

/* ---- random numbers ---------------------------------------------------------------------------- */

static situ__graph_stream *find_stream(const situ_graph *g, const situ_generator *generator) {
  for (size_t i = 0; i < g->streams; i++)
    if (g->stream[i].generator == generator) return &g->stream[i];
  return NULL;
}

static situ__graph_stream *add_stream(situ_graph *g, situ_generator *generator, situ_generator state) {
  situ__graph_stream *larger = situ__realloc(g->stream, (g->streams + 1) * sizeof *larger);
  if (!larger) return NULL;
  g->stream = larger;
  g->stream[g->streams] = (situ__graph_stream){ generator, state.seed, state.offset, state.offset, state };
  return &g->stream[g->streams++];
}

bool situ__graph_open_streams(situ_graph *g) {
  return add_stream(g, NULL, situ__device_up.advance_generator(NULL, 0)) != NULL;
}

void situ__graph_drew(situ_generator *generator, situ_generator drawn) {
  situ_graph *g = situ__graph_recording;
  situ__graph_stream *s = find_stream(g, generator);
  if (!s && !(s = add_stream(g, generator, drawn))) g->lost_draw = true;
  else if (s->seed != drawn.seed) g->lost_draw = true;
  else if (drawn.offset >= s->next) s->next = drawn.offset + 1;
}

/* Sets *stream to the stream that a draw came from; -1: it was before the graph (a backward repeats what its forward
   drew), and each replay gets its numbers. Returns false if that is not known. */
static bool find_draw(const situ_graph *g, uint64_t seed, uint64_t offset, int *stream) {
  *stream = -1;
  for (size_t i = 0; i < g->streams; i++) {
    const situ__graph_stream *s = &g->stream[i];
    if (s->seed != seed || offset < s->first || offset >= s->next) continue;
    if (*stream >= 0) return false;
    *stream = (int)i;
  }
  return !g->lost_draw;
}

static bool is_random(const situ_work *work) {
  return work->verb == SITU_VERB_RANDOM || (work->verb == SITU_VERB_ATTENTION && work->scalar[1] != 0);
}

/* ---- values of others -------------------------------------------------------------------------- */

static void release_payload(const situ_graph_values *values) {
  if (values->release) values->release(values->payload);
}

situ_status situ_graph_values_begin(const situ_graph_values *values) {
  const char *op = "graph_values_begin";
  if (!values) return situ__null(op, "values");
  situ_graph *g = situ__graph_recording;
  situ__graph_values *outer = g ? g->current : NULL, *section = outer ? outer->section : NULL, *own = NULL;
  situ_status status = SITU_OK;
  if (!values->refresh && !values->decide && !values->ended) status = situ__null(op, "values->refresh");
  else if (!g) status = situ__fail(SITU_E_STATE, op, "no graph is being recorded in this thread");
  else if (values->decide && section)
    status = situ__fail(SITU_E_STATE, op, "values with `decide` have begun and not ended");
  else if (!(own = situ__alloc(sizeof *own))) status = situ__no_memory(op, sizeof *own);
  if (status != SITU_OK) return release_payload(values), status;
  *own = (situ__graph_values){ .of = *values, .next = g->values, .outer = outer };
  own->section = values->decide ? own : section;
  g->values = g->current = own;
  return SITU_OK;
}

void situ_graph_values_end(void) {
  situ_graph *g = situ__graph_recording;
  if (g && g->current) g->current = g->current->outer;
}

/* ---- binding and refreshing -------------------------------------------------------------------- */

situ_status situ__graph_bind(const char *op, situ_graph *g, situ__graph_work *kept) {
  const situ_work *work = &kept->work;
  kept->values = g->current;
  kept->stream = -1;
  if (work->verb == SITU_VERB_OPTIMIZER && !kept->values)
    return situ__graph_refuse(op, "the step of this optimiser (its step count and learning rate are the host's)",
                              "take it after the replay");
  if (!is_random(work)) return SITU_OK;
  if (!find_draw(g, work->seed, work->offset, &kept->stream))
    return situ__graph_refuse(op, "random numbers of two generators with one seed, or of one that was seeded meanwhile",
                              "seed each of them before, with another seed");
  if (kept->stream >= 0) kept->offset = work->offset - g->stream[kept->stream].first;
  return SITU_OK;
}

static situ_status refresh_work(situ__graph_work *k) {
  const situ_graph_values *v = &k->values->of;
  const bool steps = k->work.verb == SITU_VERB_OPTIMIZER;
  if (!v->refresh) return SITU_OK;
  return v->refresh(v->payload, &k->work, steps ? &k->params : NULL, steps ? k->list : NULL);
}

situ_status situ__graph_enter(const situ__graph_work *k, bool *skip) {
  situ__graph_values *section = k->values->section;
  situ_status status = SITU_OK;
  if (!section->decided) {
    status = section->of.decide(section->of.payload, &section->skipped);
    section->decided = status == SITU_OK;
    for (situ__graph_work *each = (situ__graph_work *)k; each && status == SITU_OK && !section->skipped;
         each = each->next)
      if (each->values && each->values->section == section) status = refresh_work(each);
  }
  *skip = section->skipped;
  return status;
}

situ_status situ__graph_refresh(situ_graph *g) {
  for (situ__graph_values *v = g->values; v; v = v->next) v->decided = v->skipped = false;
  for (situ__graph_work *k = g->values ? g->first : NULL; k; k = k->next) {
    const situ_status status = k->values && !k->values->section ? refresh_work(k) : SITU_OK;
    if (status != SITU_OK) return status;
  }
  bool draws = false;
  for (situ__graph_stream *s = g->stream; s < g->stream + g->streams; s++) {
    if (s->next == s->first) continue;
    s->now = situ__device_up.advance_generator(s->generator, s->next - s->first);
    draws = true;
  }
  for (situ__graph_work *k = draws ? g->first : NULL; k; k = k->next) {
    if (k->stream < 0) continue;
    k->work.seed = g->stream[k->stream].now.seed;
    k->work.offset = g->stream[k->stream].now.offset + k->offset;
  }
  return SITU_OK;
}

void situ__graph_ended(situ_graph *g, bool ran) {
  for (const situ__graph_values *v = g->values; v; v = v->next)
    if (v->of.ended)
      v->of.ended(v->of.payload, !ran                                ? SITU_GRAPH_FAILED
                                 : v->section && v->section->skipped ? SITU_GRAPH_SKIPPED
                                                                     : SITU_GRAPH_RAN);
}

void situ__graph_free_values(situ_graph *g) {
  while (g->values) {
    situ__graph_values *next = g->values->next;
    release_payload(&g->values->of);
    situ__free(g->values);
    g->values = next;
  }
  situ__free(g->stream);
}
