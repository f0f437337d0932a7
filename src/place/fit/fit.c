/* Finds a map over devices with limits: the search proposes maps, a dry run judges each, and what it needs on a device
   rules out all maps that give the device as much or more.
   SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/busy.h"
#include "base/fail.h"
#include "base/handle.h"
#include "place/fit/fit.h"
#include "situ/policy.h"

static const char op[] = "place_fit";

enum {
  RUNS = 400,      /* dry runs at most */
  IDLE = 40,       /* of them one after the other that come no nearer */
  STEPS = 1 << 20, /* of all searches; each may take an eighth of what is left, or FEW */
  FEW = 1 << 12,
  LARGEST = 5 /* tensors in a message */
};

typedef struct fitting {
  situ__trial trial;
  situ_place_check_options run;
  situ_place_limit limit[SITU__FIT_DEVICES];
  situ__flow flow;
  situ__search search;
  situ__text nearest; /* of the maps that were tried: what lacks */
  uint64_t lacks;
} fitting;

/* ---- a dry run ---- */

typedef struct profile {
  situ__preflight p; /* first member */
  situ__flow *flow;
  bool differentiated;
} profile;

static void note_call(situ_dry *dry, const situ_call *c) {
  profile *w = (profile *)dry;
  if (w->p.counting && !w->p.backward) situ__flow_note(w->flow, c, w->differentiated);
}

static void note_work(situ__preflight *p, const situ_work *work) { situ__flow_note_work(((profile *)p)->flow, work); }

/* Under a policy that copies. Returns false after recording an error. */
static bool run(situ__preflight *p, const situ__trial *trial) {
  situ_setting before;
  situ_policy_begin(&before, (situ_policy){ .host_to_device = SITU_POLICY_COPY,
                                            .device_to_host = SITU_POLICY_COPY,
                                            .device_to_device = SITU_POLICY_COPY,
                                            .unstated = situ_get_policy().unstated });
  const bool good = situ__preflight_run(p, trial);
  situ_policy_end(&before);
  return good && p->failed ? (situ__no_memory(op, sizeof *p), false) : good;
}

/* Whether it has mistakes, but for memory. */
static bool is_wrong(const situ_place_report *r) {
  bool wrong = !r->finished;
  for (int64_t i = 0; i < r->finding_count; i++)
    wrong = wrong || (!r->findings[i].note && r->findings[i].problem != SITU_PLACE_MEMORY);
  return wrong;
}

/* Why the peak of a run is not known; NULL: it is. */
static const char *unknown_peak(const situ_place_report *r) {
  for (int64_t i = 0; i < r->finding_count; i++)
    if (r->findings[i].note && r->findings[i].problem == SITU_PLACE_MEMORY) return r->findings[i].text;
  return NULL;
}

/* ---- limits ---- */

static bool read_limits(fitting *t, const situ_place_limit *limits, int64_t count) {
  char name[SITU_DEVICE_NAME_MAX];
  if (count < 1 || count > SITU__FIT_DEVICES)
    return situ__fail(SITU_E_ARG, op, "limit_count is %" PRId64 ": give 1 to %d devices", count, SITU__FIT_DEVICES),
           false;
  for (int64_t i = 0; i < count; i++) {
    const situ_device device = limits[i].device;
    bool again = false;
    for (int64_t k = 0; k < i; k++) again = again || situ_device_equal(limits[k].device, device);
    if (!device.kind || device.kind == SITU_META || again || !situ_device_is_available(device))
      return situ__fail(SITU_E_ARG, op, "limits[%" PRId64 "].device is %s%s: give devices that are there, each once", i,
                        device.kind ? situ_device_name(device, name) : "not set", again ? " again" : ""),
             false;
    for (int64_t k = 0; k < i; k++)
      if (device.kind > SITU_META && situ_device_same_chip(limits[k].device, device))
        return situ__fail(SITU_E_ARG, op,
                          "limits[%" PRId64 "] and limits[%" PRId64 "] are one chip, with one memory, which two APIs "
                          "offer: give one of them",
                          k, i),
               false;
    t->limit[i] = limits[i];
    t->flow.place[i] = device;
  }
  t->flow.devices = t->flow.places = (int)count;
  return true;
}

/* No limit is more than the device has beside what is not of the run. */
static bool bound_limits(fitting *t, const situ__preflight *p) {
  for (int d = 0; d < t->flow.devices; d++) {
    situ_device_properties has = { 0 };
    uint64_t own = 0, *limit = &t->limit[d].bytes;
    if (situ_device_info(t->limit[d].device, &has) != SITU_OK) return false;
    for (int64_t i = 0; i < p->report.load_count; i++)
      if (situ_device_equal(p->report.loads[i].device, t->limit[d].device)) own = p->held[i].present;
    const uint64_t out = has.memory_reserved - has.memory_cached, others = out > own ? out - own : 0;
    const uint64_t most = has.memory_total > others ? has.memory_total - others : 0;
    if (has.memory_total && (!*limit || *limit > most)) *limit = most;
    t->search.limit[d] = *limit;
  }
  t->trial.limits = t->limit;
  t->trial.limit_count = t->flow.devices;
  return true;
}

/* ---- the model as it is: its parts, and the calls of its forward ---- */

static bool look(fitting *t, const situ_place_fit_options *options) {
  profile w = { .p = { .dry.called = note_call, .bare = note_work },
                .flow = &t->flow,
                .differentiated = situ__preflight_goes_back(t->trial.module, &t->run) };
  char text[3500];
  bool good = situ__flow_parts(&t->flow, t->trial.module, options) && run(&w.p, &t->trial);
  if (good && is_wrong(&w.p.report)) {
    good = false;
    if (situ_place_report_to_string(&w.p.report, text, sizeof text) >= 0) situ__fail(SITU_E_STATE, op, "%s", text);
  } else if (good && (w.p.itself || unknown_peak(&w.p.report))) {
    situ__fail(SITU_E_UNSUPPORTED, op, "%s",
               w.p.itself ? "a module here cannot be copied, so no map can be tried: its type has .release and no .copy"
                          : unknown_peak(&w.p.report));
    good = false;
  }
  good = good && bound_limits(t, &w.p);
  situ__preflight_free(&w.p);
  if (!good) return false;
  situ__flow_join(&t->flow);
  t->search.flow = &t->flow;
  t->search.where = situ__calloc((size_t)t->flow.values + 1, 1);
  if (t->flow.failed || !t->search.where) return situ__no_memory(op, sizeof t->flow), false;
  return true;
}

/* ---- the map as text ---- */

static int device_of(const fitting *t, int64_t tensor) { return t->search.best[t->flow.tensor[tensor].part]; }

static void add_pattern(situ__text *map, const fitting *t, const char *path, int64_t length, int64_t tensor) {
  char name[SITU_DEVICE_NAME_MAX];
  if (map->length) situ__text_add(map, ", ");
  for (int64_t i = 0; i < length; i++) /* a pattern cannot contain the separators */
    situ__text_append(map, strchr(",= \t\n", path[i]) ? "*" : path + i, 1);
  situ__text_add(map, "=%s", situ_device_name(t->flow.place[device_of(t, tensor)], name));
}

/* Tensors [first, end) are below a module whose path has `length` bytes: one pattern if all are on one device. */
static void add_module(situ__text *map, const fitting *t, int64_t first, int64_t end, int64_t length) {
  const situ__fit_tensor *list = t->flow.tensor;
  bool one = true;
  for (int64_t i = first; i < end; i++) one = one && device_of(t, i) == device_of(t, first);
  if (one) {
    add_pattern(map, t, length ? list[first].path : "*", length ? length : 1, first);
    return;
  }
  for (int64_t i = first, next; i < end; i = next) {
    const char *name = list[i].path + length + (length > 0), *dot = strchr(name, '.');
    const int64_t longer = dot ? dot - list[i].path : (int64_t)strlen(list[i].path);
    for (next = i + 1; dot && next < end; next++)
      if (strncmp(list[next].path, list[i].path, (size_t)longer + 1) != 0) break;
    if (dot) add_module(map, t, i, next, longer);
    else add_pattern(map, t, list[i].path, longer, i);
  }
}

/* ---- trying maps ---- */

/* Keeps what a run lacks if no other has lacked less. Returns the bytes. */
static uint64_t judge(fitting *t, const situ_place_report *r) {
  uint64_t lacks = 0;
  for (int64_t i = 0; i < r->load_count; i++)
    for (int d = 0; d < t->flow.devices; d++)
      if (situ_device_equal(r->loads[i].device, t->limit[d].device) && r->loads[i].peak > t->limit[d].bytes)
        lacks += r->loads[i].peak - t->limit[d].bytes;
  if (!lacks || lacks >= t->lacks) return lacks;
  t->lacks = lacks;
  situ__text_free(&t->nearest);
  for (int64_t i = 0; i < r->finding_count; i++)
    if (!r->findings[i].note) situ__text_add(&t->nearest, "\n%s", r->findings[i].text);
  return lacks;
}

static uint64_t bytes_of(const situ_place_report *r) {
  uint64_t bytes = 0;
  for (int64_t i = 0; i < r->edge_count; i++) bytes += r->edges[i].bytes;
  return bytes;
}

/* Tries the map of the search; if it fits, it replaces that of *out. Returns false after recording an error. */
static bool try_map(fitting *t, situ_place_layout *out, bool *found) {
  situ__preflight p = { .backward = false };
  situ__text map = { 0 };
  add_module(&map, t, 0, t->flow.tensors, 0);
  t->trial.map = map.data;
  bool good = !map.failed && run(&p, &t->trial);
  if (map.failed) situ__no_memory(op, map.length);
  const bool runs = good && !p.unmade && !is_wrong(&p.report);
  *found = runs && judge(t, &p.report) == 0 && !unknown_peak(&p.report);
  out->runs++;
  if (*found) {
    const int64_t tries = out->runs;
    situ_place_layout_free(out);
    *out = (situ_place_layout){ .map = map.data, .bytes = bytes_of(&p.report), .runs = tries, .check = p.report };
    map.data = NULL;
    p.report = (situ_place_report){ 0 };
  } else if (good) {
    good = runs ? situ__search_learn(&t->search, &p.report) : situ__search_refuse(&t->search);
    if (!good) situ__no_memory(op, sizeof p);
  }
  situ__text_free(&map);
  situ__preflight_free(&p);
  return good;
}

/* ---- what lacks ---- */

static void add_largest(situ__text *text, const situ__flow *f) {
  const situ__fit_tensor *top[LARGEST + 1];
  int found = 0;
  char bytes[SITU__BYTES_TEXT];
  for (int64_t i = 0; i < f->tensors; i++) {
    int k = found < LARGEST ? found++ : LARGEST;
    for (; k && top[k - 1]->storage->bytes < f->tensor[i].storage->bytes; k--) top[k] = top[k - 1];
    top[k] = &f->tensor[i];
  }
  for (int k = 0; k < found; k++)
    situ__text_add(text, "%s%s (%s)", k ? ", " : "\n  largest: ", top[k]->path,
                   situ__bytes_text(top[k]->storage->bytes, bytes));
}

/* No map was tried: the parameters and buffers alone are too many. */
static void say_what_lacks(fitting *t) {
  uint64_t all = 0, limits = 0, largest = 0, widest = 0;
  for (int u = 0; u < t->flow.units; u++) all += t->flow.bytes[u];
  for (int u = 0; u < t->flow.units; u++) largest = t->flow.bytes[u] > largest ? t->flow.bytes[u] : largest;
  for (int d = 0; d < t->flow.devices; d++) limits += t->limit[d].bytes;
  for (int d = 0; d < t->flow.devices; d++) widest = t->limit[d].bytes > widest ? t->limit[d].bytes : widest;
  if (all > limits)
    situ__text_add(&t->nearest,
                   "parameters and buffers have %" PRIu64 " B, the devices %" PRIu64 " B: %" PRIu64 " B are lacking",
                   all, limits, all - limits);
  else if (largest > widest)
    situ__text_add(&t->nearest,
                   "a part that stays whole has %" PRIu64 " B, no device more than %" PRIu64 " B: %" PRIu64
                   " B are lacking",
                   largest, widest, largest - widest);
  else situ__text_add(&t->nearest, "no distribution of the parameters and buffers was found");
}

static situ_status refuse(fitting *t, int64_t runs) {
  situ__text text = { 0 };
  situ__text_add(&text, "no map over the devices fits (%d parts, %" PRId64 " maps were tried): ", t->flow.units, runs);
  if (t->nearest.length) situ__text_add(&text, "the nearest lacks %" PRIu64 " B", t->lacks);
  else say_what_lacks(t);
  situ__text_add(&text, "%s", t->nearest.data ? t->nearest.data : "");
  add_largest(&text, &t->flow);
  const situ_status status = text.failed || t->nearest.failed ? situ__no_memory(op, text.length)
                                                              : situ__fail(SITU_E_NOMEM, op, "%s", text.data);
  situ__text_free(&text);
  return status;
}

/* ---- the call ---- */

/* First for any map that fits, by a guess of what runs need from the runs before; then for better ones, without. */
static situ_status find(fitting *t, situ_place_layout *out) {
  situ__search *s = &t->search;
  uint64_t bound = UINT64_MAX, lacks = UINT64_MAX;
  bool guess = true;
  int64_t left = STEPS;
  s->scale = 1;
  for (int idle = 0; idle < IDLE && out->runs < RUNS;) {
    bool found = false;
    const int64_t most = left / 8 > FEW ? left / 8 : FEW;
    s->steps = most;
    const bool proposed = situ__search_run(s, bound);
    left -= most - s->steps;
    if (!proposed) {
      if (!guess) {
        out->best = s->steps > 0;
        break;
      }
      guess = false;
      s->scale = 1;
      continue;
    }
    const uint64_t expected = s->least;
    if (!try_map(t, out, &found)) return situ_error();
    if (found) bound = expected;
    idle = found || t->lacks < lacks ? 0 : idle + 1;
    lacks = t->lacks;
    guess = guess && !found;
    s->scale = !guess ? 1 : s->scale * 1.05 > s->ratio ? s->scale * 1.05 : s->ratio;
  }
  return out->map ? SITU_OK : refuse(t, out->runs);
}

situ_status situ_place_fit(situ_nn_module *m, const situ_tree *inputs, const situ_place_limit *limits,
                           int64_t limit_count, const situ_place_fit_options *options, situ_place_layout *layout) {
  static const situ_place_fit_options plain;
  if (!options) options = &plain;
  SITU__USE(use);
  if (!situ__valid(op, "module", m, SITU__A_MODULE) || !situ__valid(op, "inputs", inputs, SITU__A_TREE) ||
      !situ__given(op, "limits", limits) || !situ__given(op, "layout", layout) || !situ__module_use(op, m, &use))
    return situ_error();
  *layout = (situ_place_layout){ 0 };
  if (options->whole_count < 0 || (options->whole_count && !options->whole)) return situ__null(op, "options.whole");
  for (int64_t i = 0; i < options->whole_count; i++)
    if (!options->whole[i]) return situ__null(op, "options.whole[i]");
  fitting *t = situ__calloc(1, sizeof *t);
  if (!t) return situ__no_memory(op, sizeof *t);
  t->run = options->run;
  t->lacks = UINT64_MAX;
  t->trial = (situ__trial){ .module = m, .inputs = inputs, .options = &t->run };
  bool good = read_limits(t, limits, limit_count) && situ__preflight_options(op, &options->run);
  if (good && options->run.map)
    good = (situ__fail(SITU_E_ARG, op, "options.run.map is set, but the map is found here"), false);
  if (good && !t->run.device.kind) t->run.device = limits[0].device;
  const situ_status status = good && look(t, options) ? find(t, layout) : situ_error();
  situ__flow_free(&t->flow);
  situ__free(t->search.need);
  situ__free(t->search.refused);
  situ__free(t->search.where);
  situ__text_free(&t->nearest);
  situ__free(t);
  return status;
}

void situ_place_layout_free(situ_place_layout *layout) {
  if (!layout) return;
  situ__free((void *)(uintptr_t)layout->map);
  situ_place_report_free(&layout->check);
  *layout = (situ_place_layout){ 0 };
}
