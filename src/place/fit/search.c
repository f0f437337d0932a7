/* Which device each unit goes to: the map that copies fewest bytes, of those that no dry run has ruled out. A search in
   depth over the units in the order of their use, which ends a branch when it copies as much as the best map, or when a
   device has units that are known not to fit there: more units never need less memory.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/alloc.h"
#include "place/fit/fit.h"

/* ---- bytes that a map copies, by the rules of the copy policy (situ/policy.h) ---- */

/* The first `units` of a map are known. What depends on the others is OPEN, and costs what it costs at least. */
typedef struct beginning {
  const uint8_t *at;
  int units;
} beginning;
enum { OPEN = 255 };

/* The place of most tensors of the innermost module that has one such place; -1: there is none. */
static int home_of(const situ__search *s, int64_t module, const beginning *map) {
  for (; module >= 0; module = s->flow->module[module].outer) {
    const situ__fit_module *m = &s->flow->module[module];
    int32_t count[SITU__FIT_DEVICES] = { 0 };
    int best = 0, equal = 0;
    for (int u = map->units; u < s->flow->units; u++)
      if (m->tensors[u]) return OPEN;
    for (int u = 0; u < map->units; u++) count[map->at[u]] += m->tensors[u];
    for (int d = 1; d < s->flow->devices; d++)
      if (count[d] > count[best]) best = d;
    for (int d = 0; d < s->flow->devices; d++) equal += count[d] == count[best];
    if (count[best] && equal == 1) return best;
  }
  return -1;
}

static int place_of(const situ__search *s, int64_t operand, const beginning *map) {
  const int64_t number = s->flow->operand[operand].value;
  const situ__fit_value *v = &s->flow->value[number];
  return v->unit >= 0 ? map->at[v->unit] : v->place >= 0 ? v->place : s->where[number];
}

/* Where the call runs: of the operand that is written, else of most operands, then of more parameters, then of the
   running module, then of the first. *either: another place where it may run, OPEN if none is known. */
static int target_of(const situ__search *s, const situ__fit_call *c, const beginning *map, int *either) {
  int votes[SITU__FIT_PLACES] = { 0 }, best = -1, second = -1, open = 0;
  *either = OPEN;
  if (c->written >= 0) return place_of(s, c->first + c->written, map);
  for (int64_t i = c->first; i < c->first + c->count; i++) {
    const int place = place_of(s, i, map);
    if (place == OPEN) open++;
    else votes[place] += 1 << 16 | s->flow->operand[i].part; /* a vote weighs more than all parts */
  }
  for (int64_t i = c->first; i < c->first + c->count; i++) {
    const int place = place_of(s, i, map);
    if (place == OPEN || place == best) continue;
    if (best >= 0 && votes[place] <= votes[best]) {
      if (votes[place] == votes[best]) second = place;
      continue;
    }
    best = place;
    second = -1;
  }
  if (best < 0 && c->count) return OPEN;
  if (open && votes[best] < (open << 16 | 1)) return OPEN;
  if (best >= 0 && second < 0) return best;
  const int home = home_of(s, c->module, map);
  if (home == OPEN) *either = second < 0 ? OPEN : second;
  if (home == OPEN && best < 0) return OPEN;
  if (home < 0 || home == OPEN) return best < 0 ? 0 : best;
  return best < 0 || votes[home] == votes[best] ? home : best;
}

/* Whether a module, or one in it, has tensors. */
static bool has_tensors(const situ__search *s, int64_t module) {
  for (int u = 0; module >= 0 && u < s->flow->units; u++)
    if (s->flow->module[module].tensors[u]) return true;
  return false;
}

/* Of the operands that are not at the target. */
static uint64_t copies_to(const situ__search *s, const situ__fit_call *c, const beginning *map, int target) {
  uint64_t bytes = 0;
  for (int64_t i = 0; i < c->count; i++) {
    const situ__fit_operand *x = &s->flow->operand[c->first + i];
    bool again = place_of(s, c->first + i, map) == OPEN; /* one copy serves all operands that are the same tensor */
    for (int64_t j = 0; j < i; j++) again = again || s->flow->operand[c->first + j].value == x->value;
    if (!again && place_of(s, c->first + i, map) != target) bytes += x->bytes << x->twice;
  }
  return bytes;
}

/* Of the calls before `end`. */
static uint64_t cost_of(const situ__search *s, int64_t end, const beginning *map) {
  uint64_t bytes = 0;
  for (int64_t k = 0, before = 0; k < end; k++) {
    const situ__fit_call *c = &s->flow->call[k];
    /* A layer without parameters makes tensors where its input is. */
    int either = OPEN, target = (int)before;
    if (c->count || has_tensors(s, c->module)) target = target_of(s, c, map, &either);
    uint64_t least = target == OPEN ? 0 : copies_to(s, c, map, target);
    if (either != OPEN) {
      const uint64_t other = copies_to(s, c, map, either);
      if (other < least) least = other;
      target = OPEN;
    }
    bytes += least;
    before = target;
    for (int r = 0; r < c->outs; r++) s->where[c->out[r]] = (uint8_t)target;
  }
  return bytes;
}

/* ---- what is known not to fit ---- */

static bool may_have(const situ__search *s, int device, uint64_t units, uint64_t bytes) {
  if ((double)bytes * s->scale > (double)s->limit[device]) return false;
  for (int64_t i = 0; i < s->needs; i++) {
    const situ__fit_need *n = &s->need[i];
    if ((n->units & ~units) == 0 && s->limit[device] < (n->device == device ? n->there : n->anywhere)) return false;
  }
  return true;
}

static bool is_refused(const situ__search *s) {
  for (int64_t i = 0; i < s->refusals; i++)
    if (memcmp(s->refused[i], s->at, (size_t)s->flow->units) == 0) return true;
  return false;
}

bool situ__search_learn(situ__search *s, const situ_place_report *report) {
  uint64_t peaks = 0, bytes = 0;
  for (int u = 0; u < s->flow->units; u++) bytes += s->flow->bytes[u];
  for (int64_t i = 0; i < report->load_count; i++) {
    const situ_place_load *load = &report->loads[i];
    situ__fit_need n = { .device = 0 };
    while (n.device < s->flow->devices && !situ_device_equal(s->flow->place[n.device], load->device)) n.device++;
    if (n.device == s->flow->devices) continue;
    peaks += load->peak;
    for (int u = 0; u < s->flow->units; u++) n.units |= (uint64_t)(s->best[u] == n.device) << u;
    n.there = load->peak;
    n.anywhere = load->peak - (s->flow->inputs[n.device] < load->peak ? s->flow->inputs[n.device] : load->peak);
    if (!n.units) continue;
    if (!situ__grow(NULL, &s->need, &s->need_capacity, sizeof *s->need, s->needs + 1)) return false;
    s->need[s->needs++] = n;
  }
  s->ratio = bytes ? (double)peaks / (double)bytes : 1;
  return true;
}

bool situ__search_refuse(situ__search *s) {
  if (!situ__grow(NULL, &s->refused, &s->refused_capacity, sizeof *s->refused, s->refusals + 1)) return false;
  memcpy(s->refused[s->refusals++], s->best, sizeof s->best);
  return true;
}

/* ---- the search ---- */

typedef struct level {
  uint64_t units[SITU__FIT_DEVICES], bytes[SITU__FIT_DEVICES]; /* of each device */
} level;

static void keep_if_best(situ__search *s) {
  const uint64_t cost = cost_of(s, s->flow->calls, &(beginning){ s->at, s->flow->units });
  if (cost >= s->least || is_refused(s)) return;
  s->least = cost;
  memcpy(s->best, s->at, sizeof s->at);
}

/* Places unit u and all behind it. */
static void place_unit(situ__search *s, level *l, int u) {
  const situ__flow *f = s->flow;
  if (u == f->units) {
    keep_if_best(s);
    return;
  }
  const int before = u ? s->at[u - 1] : 0;
  for (int k = 0; k < f->devices && s->steps > 0; k++) {
    const int d = k == 0 ? before : k <= before ? k - 1 : k; /* the same device first */
    const uint64_t units = l->units[d], bytes = l->bytes[d];
    s->steps--;
    if (!may_have(s, d, units | 1ull << u, bytes + f->bytes[u])) continue;
    s->at[u] = (uint8_t)d;
    if (cost_of(s, u + 1 < f->units ? f->begins[u + 1] : f->calls, &(beginning){ s->at, u + 1 }) >= s->least) continue;
    l->units[d] |= 1ull << u;
    l->bytes[d] += f->bytes[u];
    place_unit(s, l, u + 1);
    l->units[d] = units;
    l->bytes[d] = bytes;
  }
}

bool situ__search_run(situ__search *s, uint64_t bound) {
  level l = { .units = { 0 } };
  s->least = bound;
  place_unit(s, &l, 0);
  return s->least < bound;
}
