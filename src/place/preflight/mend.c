/* The smallest set of statements that mends a model: proposals of a check are made in a further one, until nothing is
   left or nothing is new; once for each device where operands can meet.
   SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/busy.h"
#include "base/fail.h"
#include "base/handle.h"
#include "place/preflight/check.h"
#include "situ/sys/shape.h"

static const char op[] = "place_mend";

enum {
  ROUNDS = 8, /* of a candidate: what a mended call lets be seen */
  LINES = 32  /* each statement of at most so many is left out once, to see whether it is needed */
};

typedef struct candidate {
  situ__remedies set;
  int64_t left;          /* mistakes with all of them made */
  bool finished, failed; /* failed: out of memory */
  uint64_t bytes;
} candidate;

/* ---- one candidate ---- */

/* Adds a statement that is new. Returns false if it contradicts another, or out of memory. */
static bool merge(const situ__trial *trial, candidate *c, const situ__remedy *r, bool *grown) {
  const situ_place_statement *s = &r->does;
  const situ__remedies *set = &c->set;
  if (s->action == SITU_FIX_POLICY) return true;
  if (strstr(s->target, SITU__REGISTERED)) return false; /* the program has another name for it */
  for (int64_t i = 0; i < set->count; i++) {
    const situ_place_statement *other = &set->list[i].does;
    if (s->action != other->action || strcmp(s->target, other->target) != 0) continue;
    /* A variable may go to one place before one line, and elsewhere before another. */
    const bool apart = !situ__remedy_below(trial, r) && strcmp(s->where, other->where) != 0;
    if (situ__same_statement(s, other)) {
      if (!apart) return true;
    } else if (!apart) {
      return false;
    }
  }
  *grown = true;
  c->failed = !situ__remedies_add(&c->set, r);
  return !c->failed;
}

/* A list that is registered moves with the module, and is cast with it; a trial does so with the parts of it that a
   finding is about. Others may be used where they are, unless all runs on the device that they come to. */
static bool lists_agree(const situ__remedies *set, const situ_place_report *r) {
  for (int64_t i = 0; i < set->count; i++) {
    const situ_place_statement *s = &set->list[i].does;
    for (int64_t k = 0; s->action == SITU_FIX_CHILD && !s->field && k < r->load_count; k++)
      if (r->loads[k].launches && !situ_device_equal(r->loads[k].device, s->device)) return false;
  }
  return true;
}

/* Checks with the statements made. Returns false if they contradict each other, or after running out of memory. */
static bool look(const situ__trial *as_it_is, candidate *c, situ_device meet, bool *grown) {
  situ__preflight p = { .dry = { .meet = meet } };
  situ__trial trial = *as_it_is;
  trial.made = c->set;
  c->failed = !situ__preflight_run(&p, &trial) || p.failed;
  bool good = !c->failed && !p.unmade;
  c->left = p.report.mistakes;
  c->finished = p.report.finished;
  good = good && (c->left || lists_agree(&c->set, &p.report));
  for (int64_t i = 0; grown && good && i < p.remedies.count; i++) good = merge(as_it_is, c, &p.remedies.list[i], grown);
  situ__preflight_free(&p);
  return good;
}

typedef struct weighing {
  situ__map seen; /* storages */
  situ_device to;
  uint64_t bytes;
} weighing;

static situ_status weigh_part(const situ_nn_visit *at, void *payload) {
  weighing *w = payload;
  const situ_storage *s = situ_desc(at->tensor)->storage;
  if (s->device.kind == SITU_META || situ_device_equal(s->device, w->to) || situ__map_get(&w->seen, s)) return SITU_OK;
  w->bytes += s->bytes;
  return situ__map_put(&w->seen, s, (void *)(uintptr_t)s) ? SITU_OK : SITU_E_NOMEM;
}

static bool weigh(const situ__trial *trial, candidate *c) {
  weighing w = { .bytes = 0 };
  bool good = true;
  c->bytes = 0;
  for (int64_t i = 0; i < c->set.count && good; i++) {
    situ_place_statement *s = &c->set.list[i].does;
    const char *below = s->action == SITU_FIX_NN_TO ? situ__remedy_below(trial, &c->set.list[i]) : NULL;
    situ_nn_module *part = below ? situ_nn_get_submodule(trial->module, below) : NULL;
    w.to = s->device;
    w.bytes = 0;
    if (below) good = part && situ_nn_walk(part, SITU_NN_VISIT_TENSORS, weigh_part, &w) == SITU_OK;
    if (below) s->bytes = w.bytes;
    c->bytes += s->bytes;
  }
  situ__map_free(&w.seen);
  return good;
}

/* Makes what is proposed until nothing is new. */
static bool complete(const situ__trial *trial, candidate *c, situ_device meet) {
  for (int round = 0; round < ROUNDS; round++) {
    bool grown = false;
    if (!look(trial, c, meet, &grown)) return false;
    if (!c->left || !grown) return weigh(trial, c);
  }
  return false;
}

/* ---- choosing ---- */

static bool is_better(const candidate *a, const candidate *b) {
  if (a->left != b->left) return a->left < b->left;
  if (a->finished != b->finished) return a->finished;
  if (a->bytes != b->bytes) return a->bytes < b->bytes;
  return a->set.count < b->set.count;
}

/* What a candidate begins with: all of the model on one device, in one dtype; 0: as it is. */
static void consider(const situ__trial *trial, candidate *best, situ_device meet, situ_device to, situ_dtype dtype) {
  candidate c = { .left = 0 };
  if ((to.kind || dtype) && !situ__preflight_whole(trial, to, dtype, &c.set)) {
    c.failed = true;
  } else if (complete(trial, &c, meet) && is_better(&c, best)) {
    const candidate old = *best;
    *best = c;
    c = old;
  }
  best->failed |= c.failed;
  situ__remedies_free(&c.set);
  situ_error_clear();
}

/* As each call proposes; with calls that meet on one device; with all of the model there. */
static void try_devices(const situ__trial *trial, const situ_place_report *r, situ_dtype dtype, candidate *best) {
  static const situ_device stay;
  consider(trial, best, stay, stay, dtype);
  for (int64_t i = -1; i < r->load_count && best->left + (int64_t)best->bytes; i++) {
    const situ_device to = i < 0 ? situ_dev("cpu") : r->loads[i].device;
    if (to.kind == SITU_META || (i >= 0 && to.kind == SITU_CPU)) continue;
    consider(trial, best, to, stay, dtype);
    consider(trial, best, to, to, dtype);
  }
}

static situ_status count_dtype(const situ_nn_visit *at, void *payload) {
  const situ_dtype dtype = situ_dtype_of(at->tensor);
  if (situ_dtype_is_floating(dtype)) ((int64_t *)payload)[dtype] += situ_numel(at->tensor);
  return SITU_OK;
}

/* If mistakes are left, also with all of the model in one dtype: in that of most of it first, and in f32. */
static void try_all(const situ__trial *trial, const situ_place_report *r, candidate *best) {
  int64_t of[SITU_DTYPES] = { [SITU_F32] = 1 };
  try_devices(trial, r, SITU_DTYPE_DEFAULT, best);
  if (!best->left || situ_nn_walk(trial->module, SITU_NN_VISIT_TENSORS, count_dtype, of) != SITU_OK) return;
  while (best->left) {
    int most = SITU_DTYPE_DEFAULT;
    for (int d = SITU_BOOL; d < SITU_DTYPES; d++)
      if (of[d] > of[most]) most = d;
    if (!of[most]) return;
    of[most] = 0;
    try_devices(trial, r, (situ_dtype)most, best);
  }
}

/* Which fix of a call comes first depends on where calls meet: each device of a statement is tried. */
static bool is_as_good(const situ__trial *trial, candidate *less, const candidate *best) {
  for (int64_t k = -1; k < less->set.count; k++) {
    const situ_device meet = k < 0 ? (situ_device){ 0 } : less->set.list[k].does.device;
    bool tried = k >= 0 && !meet.kind;
    for (int64_t i = 0; i < k; i++) tried |= situ_device_equal(less->set.list[i].does.device, meet);
    if (!tried && look(trial, less, meet, NULL) && less->left <= best->left && less->finished >= best->finished)
      return true;
  }
  return false;
}

/* Leaves out what is not needed. */
static bool shorten(const situ__trial *trial, candidate *best) {
  for (int64_t i = best->set.count - 1; i >= 0 && best->set.count <= LINES; i--) {
    candidate less = { .set = best->set };
    situ__remedy out = best->set.list[i];
    situ__remedy *at = &best->set.list[i];
    const size_t behind = (size_t)(--less.set.count - i) * sizeof *at;
    memmove(at, at + 1, behind);
    if (is_as_good(trial, &less, best)) {
      best->set.count--;
      situ__statement_free(&out.does);
    } else {
      memmove(at + 1, at, behind);
      *at = out;
      best->failed |= less.failed;
    }
  }
  return !best->failed && weigh(trial, best);
}

static bool take(situ_place_fixes *fixes, candidate *best) {
  fixes->left = best->left;
  fixes->bytes = best->bytes;
  fixes->statements = situ__calloc((size_t)best->set.count + 1, sizeof *fixes->statements);
  if (!fixes->statements) return false;
  fixes->count = best->set.count;
  for (int64_t i = 0; i < fixes->count; i++) fixes->statements[i] = best->set.list[i].does;
  best->set.count = 0; /* the texts have gone over */
  return true;
}

situ_status situ_place_mend(situ_nn_module *m, const situ_tree *inputs, const situ_place_check_options *options,
                            situ_place_fixes *fixes) {
  static const situ_place_check_options plain;
  if (!fixes) return situ__null(op, "fixes");
  *fixes = (situ_place_fixes){ 0 };
  SITU__USE(use);
  if (!situ__valid(op, "module", m, SITU__A_MODULE) || !situ__valid(op, "inputs", inputs, SITU__A_TREE) ||
      !situ__module_use(op, m, &use))
    return situ_error();
  situ_place_report report;
  const situ_status status = situ_place_check(m, inputs, options, &report);
  if (status != SITU_OK) return status;
  if (!options) options = &plain;
  const situ__trial trial = { .module = m, .inputs = inputs, .options = options };
  candidate best = { .left = report.mistakes, .finished = report.finished };
  situ__errors own;
  situ__errors_apart(&own);
  fixes->mistakes = report.mistakes;
  if (report.mistakes) try_all(&trial, &report, &best);
  const bool good = shorten(&trial, &best) && take(fixes, &best);
  (void)situ__errors_back(&own, NULL, 0);
  situ__remedies_free(&best.set);
  situ_place_report_free(&report);
  return good ? SITU_OK : situ__no_memory(op, sizeof best);
}

void situ_place_fixes_free(situ_place_fixes *fixes) {
  if (!fixes) return;
  for (int64_t i = 0; i < fixes->count; i++) situ__statement_free(&fixes->statements[i]);
  situ__free(fixes->statements);
  *fixes = (situ_place_fixes){ 0 };
}

int64_t situ_place_fixes_to_string(const situ_place_fixes *fixes, char *buffer, size_t size) {
  static const char name[] = "place_fixes_to_string";
  if (!fixes) return situ__null(name, "fixes"), -1;
  situ__text text = { 0 };
  char bytes[SITU__BYTES_TEXT];
  situ__text_add(&text, "%" PRId64 " of %" PRId64 " mistake%s mended by %" PRId64 " statement%s, %s moved\n",
                 fixes->mistakes - fixes->left, fixes->mistakes, fixes->mistakes == 1 ? "" : "s", fixes->count,
                 fixes->count == 1 ? "" : "s", situ__bytes_text(fixes->bytes, bytes));
  for (int64_t i = 0; i < fixes->count; i++) {
    situ__text_add(&text, "  ");
    situ__preflight_line(&text, &fixes->statements[i]);
    situ__text_add(&text, "\n");
  }
  return situ__text_deliver(name, &text, buffer, size);
}
