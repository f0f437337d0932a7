/* Stage 3 of ZeRO: of the parameters, too, each rank keeps its own elements. A unit, a module with its parameters, has
   them whole while it computes: buckets are gathered before its forward and its backward, and freed behind them.
   SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/mutex.h"
#include "shards.h"
#include "situ/sys/dry.h"
#include "situ/sys/layers.h"
#include "situ/sys/part.h"
#include "situ/sys/shape.h"
#include "situ/sys/tensor.h"

static const char forward_op[] = "nn_forward";
static const char pass_op[] = "backward";
static const char where[] =
    "its values are in parts on the ranks; the modules of a unit may use it (situ_dist_zero3_new), and all after "
    "situ_dist_zero_unshard";

typedef situ__zero_unit unit;
typedef situ__zero_holder holder;
enum { FORWARD, BACKWARD };

/* ---- all that live ---- */

static situ__mutex lock = SITU__MUTEX_INIT;
static situ__zero_shards *all;

static void add_to_all(situ__zero_shards *s) {
  static uintptr_t ids = 1;
  situ__mutex_lock(&lock);
  s->id = ids;
  ids += (uintptr_t)s->unit_count;
  s->next = all;
  all = s;
  situ__mutex_unlock(&lock);
}

static void remove_from_all(const situ__zero_shards *s) {
  situ__mutex_lock(&lock);
  situ__zero_shards **at = &all;
  while (*at && *at != s) at = &(*at)->next;
  if (*at) *at = s->next;
  situ__mutex_unlock(&lock);
}

static unit *unit_of(uintptr_t id) {
  unit *found = NULL;
  situ__mutex_lock(&lock);
  for (situ__zero_shards *s = all; s && !found; s = s->next)
    if (id >= s->id && id - s->id < (uintptr_t)s->unit_count) found = &s->units[id - s->id];
  situ__mutex_unlock(&lock);
  return found;
}

/* ---- gathering ---- */

static bool is_held(const holder *h) { return h->forward || h->backward || h->program; }

/* All ranks get the whole parameters of a bucket. */
static bool gather(const char *op, const situ_dist_zero *z, int64_t i) {
  const situ__dist_bucket *b = &z->ddp->buckets[i];
  situ_comm_request **ahead = &z->shards->holders[i].ahead;
  if (!*ahead) *ahead = situ__zero_begin_gather(op, z, b);
  return *ahead && situ__zero_end_gather(op, z, b, ahead);
}

static void end_pass(situ__zero_shards *s, int way) {
  s->pass[way]++;
  s->last[way] = NONE_NEXT;
}

/* Drops the unit that was gathered ahead, which did not come. Returns false after recording an error. */
static bool drop_ahead(const char *op, const situ_dist_zero *z) {
  situ__zero_shards *s = z->shards;
  bool good = true;
  if (s->ahead == NONE_NEXT) return true;
  *s->guess = OFTEN_OTHER;
  s->ahead = NONE_NEXT;
  for (int64_t i = 0; i < z->ddp->bucket_count; i++)
    if (s->holders[i].ahead) good = situ__zero_drop_gather(op, z, &z->ddp->buckets[i], &s->holders[i].ahead) && good;
  return good;
}

/* Drops it when all ranks do, where the program asks for it: one that goes on alone would use what is written then. */
static bool drop_together(const char *op, const situ_dist_zero *z) {
  static const situ_comm_call call = { SITU_COMM_BARRIER, .name = "parts, before they are written" };
  if (z->shards->ahead == NONE_NEXT) return true;
  return situ__comm_call(op, z->comm, &call) == SITU_OK && drop_ahead(op, z);
}

/* ---- freeing ---- */

/* The program has written to a whole parameter: this rank's elements are kept. */
static bool write_back(const situ_dist_zero *z, int64_t item) {
  situ_tensor *t = z->ddp->items[item].tensor;
  if (situ_version_of(t) == z->shards->versions[item]) return true;
  const situ__zero_part *p = situ__zero_own_part(z, z->shards->parameters[item]);
  return !p || situ_copy_(p->values, situ__zero_elements(t, p->from, p->count));
}

/* Frees the parameters of a bucket without a holder. */
static bool let_go(const char *op, const situ_dist_zero *z, int64_t bucket) {
  const situ__dist_bucket *b = &z->ddp->buckets[bucket];
  bool good = true;
  if (!situ__dist_in_parts(z->ddp, b) || is_held(&z->shards->holders[bucket])) return true;
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  for (int64_t i = 0; good && i < b->count; i++) {
    situ_tensor *t = z->ddp->items[b->items[i]].tensor;
    if (!situ_memory_is_away(t)) good = write_back(z, b->items[i]) && situ_release_memory(op, t, where) == SITU_OK;
  }
  return situ_scope_end(&s) == SITU_OK && good;
}

bool situ__zero_scatter(const char *op, const situ_dist_zero *z, bool writes) {
  bool good = true;
  if (z->ddp && writes && !drop_together(op, z)) return false;
  for (int k = 0; k < 2; k++) end_pass(z->shards, k);
  for (int64_t i = 0; z->ddp && i < z->ddp->bucket_count; i++) {
    z->shards->holders[i] = (holder){ .ahead = z->shards->holders[i].ahead };
    good = let_go(op, z, i) && good;
  }
  for (int i = 0; i < z->shards->unit_count; i++) z->shards->units[i].runs = false;
  return good;
}

void situ__zero_note_step(const situ_dist_zero *z) {
  for (int64_t i = 0; z->ddp && i < z->ddp->parameter_count; i++)
    if (z->shards->parameters[i] >= 0)
      __atomic_fetch_add(&situ_desc(z->ddp->items[i].tensor)->storage->version, 1, __ATOMIC_RELAXED);
}

/* ---- a unit's forward and backward ---- */

/* Visits each bucket of the unit once. */
static bool each_bucket(const char *op, const unit *u,
                        bool (*visit)(const char *op, const situ_dist_zero *z, int64_t i)) {
  situ__zero_shards *s = u->zero->shards;
  const uint64_t now = ++s->visit;
  for (int64_t k = u->first; k < u->end; k++) {
    const int64_t i = u->zero->ddp->items[s->uses[k]].bucket;
    if (i < 0 || s->holders[i].seen == now || !situ__dist_in_parts(u->zero->ddp, &u->zero->ddp->buckets[i])) continue;
    s->holders[i].seen = now;
    if (!visit(op, u->zero, i)) return false;
  }
  return true;
}

static bool hold_forward(const char *op, const situ_dist_zero *z, int64_t i) {
  holder *h = &z->shards->holders[i];
  if (!is_held(h) && !gather(op, z, i)) return false;
  h->forward++;
  return true;
}
static bool begin_ahead(const char *op, const situ_dist_zero *z, int64_t i) {
  holder *h = &z->shards->holders[i];
  if (is_held(h) || h->ahead) return true;
  return (h->ahead = situ__zero_begin_gather(op, z, &z->ddp->buckets[i])) != NULL;
}
/* Then the unit before, whose work is queued later, computes beside the transfer. */
static bool await_ahead(const char *op, const situ_dist_zero *z, int64_t i) {
  situ_comm_request *r = z->shards->holders[i].ahead;
  return !r || situ__zero_await_gather(op, z, r);
}
static bool leave_forward(const char *op, const situ_dist_zero *z, int64_t i) {
  z->shards->holders[i].forward--;
  return let_go(op, z, i);
}
static bool hold_backward(const char *op, const situ_dist_zero *z, int64_t i) {
  holder *h = &z->shards->holders[i];
  if (h->backward) return true;
  if (!is_held(h) && !gather(op, z, i)) return false;
  h->backward = true;
  h->told = 0;
  return true;
}
static bool leave_backward(const char *op, const situ_dist_zero *z, int64_t i) {
  z->shards->holders[i].backward = false;
  return let_go(op, z, i);
}

/* A unit begins to compute: it gets its parameters, and those of the unit that came next in the pass before are begun
   to be gathered, so that they travel meanwhile. All ranks run the same units in the same order, and so all do this
   alike. */
static bool hold_unit(const char *op, unit *u, int way,
                      bool (*hold)(const char *op, const situ_dist_zero *z, int64_t i)) {
  situ__zero_shards *s = u->zero->shards;
  const int me = (int)(u - s->units);
  if (s->ahead != me && !drop_ahead(op, u->zero)) return false;
  if (!each_bucket(op, u, hold)) return false; /* `ahead` stays: other buckets of it may be on their way */
  s->ahead = NONE_NEXT;
  if (u->seen[way] == s->pass[way]) end_pass(s, way);
  unit *before = s->last[way] == NONE_NEXT ? NULL : &s->units[s->last[way]];
  if (before && before->next[way] != OFTEN_OTHER) before->next[way] = me;
  u->seen[way] = s->pass[way];
  s->last[way] = me;
  if (u->next[way] < 0) return true;
  s->guess = &u->next[way];
  s->ahead = *s->guess;
  const unit *next = &s->units[s->ahead];
  return each_bucket(op, next, begin_ahead) && each_bucket(op, next, await_ahead);
}

static situ_status before_forward(situ_nn_module *m, situ_tree **inputs, situ_tree **output, void *payload) {
  unit *u = payload;
  (void)m, (void)inputs, (void)output;
  if (u->runs) return SITU_OK; /* its last call failed */
  u->runs = hold_unit(forward_op, u, FORWARD, hold_forward);
  return u->runs ? SITU_OK : situ_error();
}

/* The first gradient of a unit's results comes before its backward. */
static situ_tensor *before_backward(situ_tensor *grad, void *payload) {
  unit *u = unit_of((uintptr_t)payload);
  if (u && u->seen[BACKWARD] != u->zero->shards->pass[BACKWARD]) /* on error it refuses parameters without memory */
    SITU_IGNORE(!hold_unit(pass_op, u, BACKWARD, hold_backward));
  return grad;
}

static situ_status watch_result(const char *path, situ_tensor *t, void *payload) {
  const unit *u = payload;
  (void)path;
  if (!situ_requires_grad(t)) return SITU_OK;
  const uintptr_t id = u->zero->shards->id + (uintptr_t)(u - u->zero->shards->units);
  return situ_register_hook(t, before_backward, (void *)id);
}

static situ_status behind_forward(situ_nn_module *m, situ_tree **inputs, situ_tree **output, void *payload) {
  unit *u = payload;
  (void)m, (void)inputs;
  u->runs = false;
  if (!each_bucket(forward_op, u, leave_forward)) return situ_error();
  return situ_tree_each(*output, watch_result, u);
}

/* A unit that is still on its way did not come. Until the next forward the program may write to this rank's parts. */
static situ_status behind_module(situ_nn_module *m, situ_tree **inputs, situ_tree **output, void *payload) {
  (void)m, (void)inputs, (void)output;
  return drop_ahead(forward_op, payload) ? SITU_OK : situ_error();
}

static situ_status behind_pass(void *payload) {
  const situ_dist_zero *z = payload;
  bool good = drop_ahead(pass_op, z);
  z->shards->queued = false;
  end_pass(z->shards, BACKWARD);
  for (int64_t i = 0; i < z->ddp->bucket_count; i++)
    if (z->shards->holders[i].backward) good = leave_backward(pass_op, z, i) && good;
  return good ? SITU_OK : situ_error();
}

/* Nothing that remains of a backward uses a parameter whose gradient is complete. */
static situ_status on_ready(situ_tensor *leaf, situ_tensor *grad, void *payload) {
  situ_dist_zero *const *mark = payload, *z = *mark;
  const int64_t i = z->ddp->items[mark - z->shards->marks].bucket;
  holder *h = &z->shards->holders[i];
  (void)leaf, (void)grad;
  if (situ__dist_stands_by(z->comm)) return SITU_OK;
  if (!z->shards->queued && situ_autograd_queue_callback(behind_pass, z) != SITU_OK) return situ_error();
  z->shards->queued = true;
  if (!h->backward || ++h->told < z->ddp->buckets[i].count) return SITU_OK;
  return leave_backward(pass_op, z, i) ? SITU_OK : situ_error();
}

/* ---- units ---- */

static bool add_use(const char *op, situ__zero_shards *s, int64_t item) {
  if (!situ__grow(op, &s->uses, &s->use_capacity, sizeof *s->uses, s->use_count + 1)) return false;
  s->uses[s->use_count++] = item;
  s->units[s->unit_count - 1].end = s->use_count;
  return true;
}

static bool add_unit(const char *op, situ_dist_zero *z, const situ_nn_visit *at, const char *path, bool whole) {
  situ__zero_shards *s = z->shards;
  if (!situ__grow(op, &s->units, &s->unit_capacity, sizeof *s->units, s->unit_count + 1)) return false;
  unit *u = &s->units[s->unit_count++];
  *u = (unit){ .zero = z,
               .module = at->module,
               .whole = whole,
               .before = -1,
               .behind = -1,
               .first = s->use_count,
               .end = s->use_count,
               .next = { NONE_NEXT, NONE_NEXT } };
  (void)snprintf(u->path, sizeof u->path, "%s", path);
  return true;
}

/* The division of a module into units, in its own order. */
typedef struct division {
  const char *op;
  situ_dist_zero *zero;
  const situ_dist_zero3_options *options;
  bool *used; /* per pattern */
} division;

static bool is_below(const unit *u, const char *path) {
  const size_t length = strlen(u->path);
  return u->whole && strncmp(u->path, path, length) == 0 && (!length || path[length] == '.');
}

static bool names_unit(const division *v, const char *path) {
  bool names = false;
  for (int64_t k = 0; k < v->options->unit_count; k++) {
    if (!situ__dist_path_matches(v->options->units[k], path)) continue;
    names = v->used[k] = true;
  }
  return names;
}

static situ_status divide_at(const situ_nn_visit *at, void *payload) {
  const division *v = payload;
  situ_dist_zero *z = v->zero;
  situ__zero_shards *s = z->shards;
  const unit *last = s->unit_count ? &s->units[s->unit_count - 1] : NULL;
  const bool inside = last && is_below(last, at->path);
  if (!at->tensor) {
    if (!names_unit(v, at->path) || inside) return SITU_OK;
    return add_unit(v->op, z, at, at->path, true) ? SITU_OK : situ_error();
  }
  const int64_t item = situ__zero_find_item(z->ddp, at->tensor);
  if (item < 0 || !z->ddp->items[item].in_bucket) return SITU_OK;
  if (!inside && (!last || last->module != at->module) && !add_unit(v->op, z, at, at->path, false)) return situ_error();
  if (z->ddp->items[item].unit < 0) z->ddp->items[item].unit = s->unit_count - 1;
  return add_use(v->op, s, item) ? SITU_OK : situ_error();
}

static bool divide_units(division *v) {
  const situ_dist_zero3_options *o = v->options;
  if (o->unit_count < 0 || (o->unit_count && !o->units))
    return situ__fail(SITU_E_ARG, v->op, "unit_count is %" PRId64, o->unit_count), false;
  v->used = situ__calloc((size_t)o->unit_count + 1, sizeof *v->used);
  if (!v->used) return situ__no_memory(v->op, (size_t)o->unit_count + 1), false;
  for (int64_t k = 0; k < o->unit_count; k++)
    if (!situ__given(v->op, "a unit", o->units[k])) return false;
  if (situ_nn_walk(v->zero->ddp->module, SITU_NN_VISIT_MODULES | SITU_NN_PARAMETER, divide_at, v) != SITU_OK)
    return false;
  for (int64_t k = 0; k < o->unit_count; k++)
    if (!v->used[k])
      return situ__fail(SITU_E_ARG, v->op, "'%.90s' names no module of the one whose gradients ddp averages",
                        o->units[k]),
             false;
  return true;
}

static bool watch_units(situ_dist_zero *z) {
  const situ_comm *c = z->comm;
  situ__zero_shards *s = z->shards;
  if (situ__dist_hook(c, z->ddp->module, false, behind_module, z, &s->behind) != SITU_OK) return false;
  for (int i = 0; i < s->unit_count; i++) {
    unit *u = &s->units[i];
    if (situ__dist_hook(c, u->module, true, before_forward, u, &u->before) != SITU_OK) return false;
    SITU_IGNORE(!situ_nn_retain(u->module)); /* the program may replace it */
    if (situ__dist_hook(c, u->module, false, behind_forward, u, &u->behind) != SITU_OK) return false;
  }
  return true;
}

bool situ__zero_begin_shards_like(const char *op, situ_dist_zero *z, const situ_dist_zero *like) {
  const situ__zero_shards *s = like->shards;
  const char **names = situ__calloc((size_t)s->unit_count + 1, sizeof *names);
  situ_dist_zero3_options options = { .units = names };
  if (!names) return situ__no_memory(op, (size_t)s->unit_count * sizeof *names), false;
  for (int i = 0; i < s->unit_count; i++)
    if (s->units[i].whole) names[options.unit_count++] = s->units[i].path;
  const bool good = situ__zero_begin_shards(op, z, &options);
  for (int i = 0; good && i < s->unit_count; i++)
    memcpy(z->shards->units[i].next, s->units[i].next, sizeof s->units[i].next);
  situ__free(names);
  return good;
}

static bool make_shards(const char *op, situ_dist_zero *z) {
  const size_t items = (size_t)z->ddp->item_count + 1;
  situ__zero_shards *s = z->shards = situ__calloc(1, sizeof *s);
  if (!s) return situ__no_memory(op, sizeof *s), false;
  s->ahead = s->last[FORWARD] = s->last[BACKWARD] = NONE_NEXT;
  s->pass[FORWARD] = s->pass[BACKWARD] = 1;
  s->behind = -1;
  s->parameters = situ__alloc(items * sizeof *s->parameters);
  s->versions = situ__calloc(items, sizeof *s->versions);
  s->marks = situ__calloc(items, sizeof *s->marks);
  if (!s->parameters || !s->versions || !s->marks) return situ__no_memory(op, items * 3 * sizeof *s->parameters), false;
  for (size_t i = 0; i < items; i++) s->parameters[i] = -1;
  for (int64_t i = 0; i < z->ddp->item_count; i++) z->ddp->items[i].unit = -1;
  return true;
}

bool situ__zero_begin_shards(const char *op, situ_dist_zero *z, const situ_dist_zero3_options *options) {
  const situ_dist_ddp *d = z->ddp;
  if (d->options.check_every)
    return situ__fail(SITU_E_UNSUPPORTED, op, "ddp compares whole parameters (check_every), and a rank has parts"),
           false;
  if (d->total % z->comm->size)
    return situ__fail(SITU_E_ARG, op,
                      "%" PRId64
                      " micro-batches: each of %d ranks must have as many, because they gather parameters together",
                      d->total, z->comm->size),
           false;
  division v = { op, z, options, NULL };
  const bool divided = make_shards(op, z) && divide_units(&v);
  situ__free(v.used);
  if (!divided) return false;
  add_to_all(z->shards);
  return watch_units(z);
}

/* ---- groups ---- */

static void find_sharer(situ_relation how, const situ_tensor *other, void *payload) {
  if (how == SITU_SHARES && situ_requires_grad(other)) *(bool *)payload = true;
}

bool situ__zero_can_shard(const char *op, const situ_dist_zero *z, const situ_tree *group) {
  if (z->shards && z->shards->holders && !situ__zero_scatter(op, z, true)) return false;
  for (int64_t i = 0; z->shards && i < situ_tree_count(group); i++) {
    const situ_tensor *t = situ_tree_tensor_at(group, i);
    bool shared = situ_storage_offset(t) != 0 ||
                  (size_t)situ_numel(t) * situ_dtype_size(situ_dtype_of(t)) != situ_desc(t)->storage->bytes;
    situ_each_relative(t, find_sharer, &shared);
    if (shared)
      return situ__fail(SITU_E_UNSUPPORTED, op, "%.90s shares its memory with another tensor, and would be freed alone",
                        situ_tree_key(group, i)),
             false;
  }
  return true;
}

/* This rank's elements of a parameter are shown with it, and move with it. */
static bool show_part(const situ_dist_zero *z, int64_t item) {
  situ_tensor *whole = z->ddp->items[item].tensor;
  situ_part part = { .whole = situ_shape_of(whole), .dim = -1, .blocks = 1 };
  char name[SITU__ZERO_NAME];
  const situ__zero_part *p = situ__zero_own_part(z, z->shards->parameters[item]);
  if (p) {
    part.from = p->from, part.to = p->from + p->count;
    if (situ_follow(p->values, whole) != SITU_OK || !situ_set_name(p->values, situ__zero_part_name(z, p, name)))
      return false;
  }
  return situ_set_part(whole, &part) == SITU_OK;
}

bool situ__zero_prepare_shards(const char *op, situ_dist_zero *z) {
  situ__zero_shards *s = z->shards;
  const situ_dist_ddp *d = z->ddp;
  /* As many as buckets may become: a group that is added later makes more, also where no memory is left for these. */
  const size_t bytes = (size_t)(d->item_count + 1) * sizeof *s->holders;
  holder *holders = situ__calloc(1, bytes);
  if (!holders) return situ__no_memory(op, bytes), false;
  situ__free(s->holders);
  s->holders = holders;
  for (int64_t i = 0; i < d->item_count; i++) s->parameters[i] = -1;
  for (int64_t k = situ_tree_count(z->parameters); k-- > 0;) {
    const int64_t i = z->places[k].item;
    if (z->places[k].deal < 0) continue;
    s->parameters[i] = k;
    if (s->marks[i]) continue;
    if (situ_register_grad_ready_hook(d->items[i].tensor, on_ready, &s->marks[i]) != SITU_OK) return false;
    s->marks[i] = z;
    s->versions[i] = situ_version_of(d->items[i].tensor);
  }
  for (int64_t i = 0; i < d->item_count; i++)
    if (s->parameters[i] >= 0 && !show_part(z, i)) return false;
  z->ddp->lockstep = true;
  return true;
}

void situ__zero_end_shards(situ_dist_zero *z) {
  situ__zero_shards *s = z->shards;
  if (!s || !z->ddp) return;
  remove_from_all(s);
  if (s->holders) SITU_IGNORE(!drop_ahead("dist_zero_free", z));
  if (s->behind >= 0) situ_nn_remove_hook(z->ddp->module, s->behind);
  for (int i = 0; i < s->unit_count; i++) {
    if (s->units[i].behind >= 0) situ_nn_remove_hook(s->units[i].module, s->units[i].behind);
    if (s->units[i].before < 0) continue;
    situ_nn_remove_hook(s->units[i].module, s->units[i].before);
    situ_nn_free(s->units[i].module);
  }
  for (int64_t i = 0; s->marks && i < z->ddp->item_count; i++) {
    if (!s->marks[i]) continue;
    situ_remove_hooks(z->ddp->items[i].tensor, &s->marks[i]);
    SITU_IGNORE(situ_set_part(z->ddp->items[i].tensor, NULL));
  }
  situ__free(s->units);
  situ__free(s->uses);
  situ__free(s->holders);
  situ__free(s->parameters);
  situ__free(s->versions);
  situ__free(s->marks);
  *s = (situ__zero_shards){ 0 };
}

/* ---- whole parameters for the program ---- */

situ_status situ_dist_zero_unshard(situ_dist_zero *zero) {
  static const char op[] = "dist_zero_unshard";
  if (!situ__zero_given(op, zero)) return situ_error();
  if (situ_is_dry()) return SITU_OK;
  if (!zero->shards) return SITU_OK;
  if (!zero->ddp) return situ__fail(SITU_E_STATE, op, "the ddp that averages the gradients has been freed");
  for (int64_t i = 0; i < zero->ddp->bucket_count; i++) {
    holder *h = &zero->shards->holders[i];
    if (!situ__dist_in_parts(zero->ddp, &zero->ddp->buckets[i])) continue;
    if (!is_held(h) && !gather(op, zero, i)) return situ_error();
    h->program = true;
  }
  zero->shards->ahead = NONE_NEXT; /* it has come, with all others */
  return SITU_OK;
}

situ_status situ_dist_zero_reshard(situ_dist_zero *zero) {
  static const char op[] = "dist_zero_reshard";
  if (!situ__zero_given(op, zero)) return situ_error();
  if (situ_is_dry() || !zero->shards || !zero->ddp) return SITU_OK;
  if (!drop_together(op, zero)) return situ_error();
  bool good = true;
  for (int64_t i = 0; i < zero->ddp->bucket_count; i++) {
    zero->shards->holders[i].program = false;
    good = let_go(op, zero, i) && good;
  }
  return good ? SITU_OK : situ_error();
}
