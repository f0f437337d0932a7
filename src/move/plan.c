/* Moves: tensors are handles, so a move replaces the memory behind them, once, for all handles, gradients and
   followers.
   SPDX-License-Identifier: MIT */
#include "device/launch/launch.h"
#include "move/move.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/handle.h"
#include "base/mutex.h"
#include "base/text.h"
#include "device/dry.h"

/* Planning marks storages with the number of their unit, so only one move is planned at a time. The marks are left: one
   counts only if the unit that it names has this storage. */
static situ__mutex marking = SITU__MUTEX_INIT;

/* ---- plan: which storages ---- */

static bool is_move(const char *op, const situ_move_plan *m) { return situ__valid(op, "move", m, SITU__A_MOVE); }

static const char *label_of(const situ_tensor *t) { return t && *situ_name(t) ? situ_name(t) : "a tensor"; }

/* Returns false after recording that two requests for one storage differ. */
static SITU_COLD __attribute__((noinline)) bool refuse_disagreement(const situ_move_plan *m, const situ_move_unit *u,
                                                                    const situ_tensor *t, situ_device to,
                                                                    situ_dtype dtype) {
  char a[SITU_DEVICE_NAME_MAX], b[SITU_DEVICE_NAME_MAX];
  bool one = u->tensor == t;
  return situ__fail(SITU_E_ARG, m->op,
                    one ? "%s%s is shared, and cannot be on %s as %s and on %s as %s"
                        : "%s and %s share their memory, which cannot be on %s as %s and on %s as %s",
                    label_of(u->tensor), one ? "" : label_of(t), situ_device_name(u->to, a),
                    situ_dtype_name((situ_dtype)u->to_dtype), situ_device_name(to, b), situ_dtype_name(dtype)),
         false;
}

/* True for most storages: the tensor that the caller has is their only owner. The list of handles is not read, which
   another thread may change: a fix is tried beside its calls of the same module. */
static bool has_one_handle(const situ_storage *s) { return __atomic_load_n(&s->refs, __ATOMIC_ACQUIRE) == 1; }

static bool add_unit(situ_move_plan *m, situ_storage *s, situ_tensor *t, situ_device to, situ_dtype dtype,
                     situ_move_reason reason) {
  situ_dtype now = t ? (situ_dtype)t->view.dtype : SITU_U8;
  if (!to.kind) to = s->device;
  if (!dtype || now < SITU_F16) dtype = now;
  const situ_move_unit *old = s->mark - 1 < (uint64_t)m->count ? &m->unit[s->mark - 1] : NULL;
  if (old && old->storage == s)
    return reason != SITU_MOVE_LISTED || old->reason != SITU_MOVE_LISTED ||
           (situ__move_same(old->to, to) && old->to_dtype == dtype) || refuse_disagreement(m, old, t, to, dtype);
  if (!situ__grow(m->op, &m->unit, &m->capacity, sizeof *m->unit, m->count + 1)) return false;
  situ_move_unit *u = &m->unit[m->count++];
  s->mark = (uint32_t)m->count;
  *u = (situ_move_unit){ .storage = s,
                         .tensor = t,
                         .reason = (uint8_t)reason,
                         .leads = s->links && (reason != SITU_MOVE_FOLLOWER || situ__leads(s)),
                         .from = s->device,
                         .to = to,
                         .from_dtype = (uint8_t)now,
                         .to_dtype = (uint8_t)dtype,
                         .bytes = situ__move_bytes(s) };
  u->bytes_after = u->bytes >> situ__move_shift(now) << situ__move_shift(dtype);
  u->moves = !situ__move_same(u->from, to) || now != dtype;
  if (t && has_one_handle(s) && !__atomic_load_n(&t->meta, __ATOMIC_RELAXED)) u->handles = 1;
  return true;
}

/* Adds a storage that moves together with unit i. It is cast like the unit if it has the same dtype, unless it is only
   beside it. */
static bool add_along(situ_move_plan *m, int64_t i, situ_storage *s, situ_tensor *t, situ_move_reason reason,
                      bool beside) {
  const situ_move_unit *u = &m->unit[i];
  bool same = t && !beside && (situ_dtype)t->view.dtype == u->from_dtype;
  return add_unit(m, s, t, u->to, same ? (situ_dtype)u->to_dtype : SITU_DTYPE_DEFAULT, reason);
}

typedef struct along {
  situ_move_plan *m;
  int64_t i;
} along;
static bool add_follower(situ_storage *s, void *payload) {
  const along *a = payload;
  const bool beside = situ__is_beside(s);
  if (beside && !situ__move_same(s->device, a->m->unit[a->i].from)) return true;
  const bool good = add_along(a->m, a->i, s, situ__handles_begin(s), SITU_MOVE_FOLLOWER, beside);
  situ__handles_end(s);
  return good;
}

/* Scans unit i's handles: counts them, checks their dtype, adds their gradients. */
static bool look_at_handles(situ_move_plan *m, int64_t i) {
  situ_storage *s = m->unit[i].storage;
  int32_t handles = 0;
  bool good = true;
  uint8_t other = m->unit[i].from_dtype;
  for (situ_tensor *t = situ__handles_begin(s); t && good; t = t->next_handle) {
    const situ_move_unit *u = &m->unit[i];
    handles++;
    if (situ__move_casts(u) && t->view.dtype != u->from_dtype) {
      other = t->view.dtype;
      good = false;
    } else if (m->gradients && t->meta && t->meta->grad) {
      good = add_along(m, i, t->meta->grad->view.storage, t->meta->grad, SITU_MOVE_GRADIENT, false);
    }
  }
  situ__handles_end(s);
  const situ_move_unit *u = &m->unit[i];
  if (other != u->from_dtype)
    situ__fail(SITU_E_DTYPE, m->op, "%s is seen as %s and as %s: it cannot be cast", label_of(u->tensor),
               situ_dtype_name((situ_dtype)u->from_dtype), situ_dtype_name((situ_dtype)other));
  m->unit[i].handles = handles;
  return good;
}

static bool collect_units(situ_move_plan *m, const situ_move_request *list, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    if (i + SITU__MOVE_AHEAD < count) situ__move_fetch(list[i + SITU__MOVE_AHEAD].tensor->view.storage);
    if (!add_unit(m, list[i].tensor->view.storage, list[i].tensor, list[i].to, list[i].dtype, SITU_MOVE_LISTED))
      return false;
  }
  for (int64_t i = 0; i < m->count; i++) {
    const situ_move_unit *u = &m->unit[i];
    if (u->handles && !u->leads) continue;
    if (i + SITU__MOVE_AHEAD < m->count) {
      situ__move_fetch(u[SITU__MOVE_AHEAD].storage);
      __builtin_prefetch(u[SITU__MOVE_AHEAD / 2].storage->links);
    }
    if (!u->handles && !look_at_handles(m, i)) return false;
    if (m->unit[i].leads && !situ__each_follower(m->unit[i].storage, add_follower, &(along){ m, i })) return false;
  }
  return true;
}

/* Returns false after recording an error if a request is invalid. */
static bool check_requests(const char *op, const situ_move_request *list, int64_t count) {
  situ_device there = { 0 };
  situ_dtype last = SITU_DTYPE_DEFAULT; /* found good */
  for (int64_t i = 0; i < count; i++) {
    const situ_move_request *w = &list[i];
    if (i + SITU__MOVE_AHEAD < count) situ__move_fetch(w[SITU__MOVE_AHEAD].tensor);
    if (!situ__alive(w->tensor)) return situ__need(op, "tensor", w->tensor);
    if (w->to.kind && !situ__move_same(w->to, there) && !situ__device_resolve(op, w->to, &there)) return false;
    if (w->dtype == last || !w->dtype) continue;
    last = w->dtype;
    if (situ_dtype_is_floating(last)) continue;
    return situ__fail(SITU_E_DTYPE, op, "%s: only a floating dtype can be asked for; whole numbers stay what they are",
                      situ__dtype_valid(w->dtype) ? situ_dtype_name(w->dtype) : "no dtype"),
           false;
  }
  return true;
}

situ_move_plan *situ__move_plan_new(const char *op, const situ_move_request *list, int64_t count, bool gradients) {
  if (count < 0) return situ__fail(SITU_E_ARG, op, "a list of %lld", (long long)count), NULL;
  if (count && !situ__given(op, "list", list)) return NULL;
  if (!check_requests(op, list, count)) return NULL;
  situ_move_plan *m = situ__handle_new(SITU__A_MOVE, sizeof *m);
  int64_t capacity = count + 8;
  situ_move_unit *unit = m ? situ__alloc((size_t)capacity * sizeof *unit) : NULL;
  if (!unit) {
    situ__no_memory(op, (size_t)capacity * sizeof *unit);
    situ__handle_free(m, sizeof *m, op);
    return NULL;
  }
  m->op = op;
  m->why = SITU__COPY_MOVE;
  m->unit = unit;
  m->capacity = capacity;
  m->gradients = gradients;
  situ__mutex_lock(&marking);
  bool good = collect_units(m, list, count);
  situ__mutex_unlock(&marking);
  if (good) return m;
  situ_move_plan_free(m);
  return NULL;
}

situ_move_plan *situ_move_plan_new(const char *op, const situ_move_request *list, int64_t count) {
  return situ__move_plan_new(op, list, count, true);
}

const situ_move_unit *situ_move_plan_units(const situ_move_plan *m, int64_t *count) {
  if (!is_move("move_plan_units", m) || !situ__given("move_plan_units", "count", count)) return NULL;
  *count = m->count;
  return m->unit;
}

uint64_t situ_move_plan_peak_on(const situ_move_plan *m, situ_device device) {
  situ__demands demands = { 0 };
  uint64_t bytes = 0;
  bool good = m && is_move("move_plan_peak", m) && situ__move_demands(m, &demands);
  for (int i = 0; good && i < demands.count; i++)
    if (!device.kind || situ__move_same(demands.list[i].device, device)) bytes += demands.list[i].peak;
  situ__free(demands.list);
  return bytes;
}

uint64_t situ_move_plan_peak(const situ_move_plan *m) { return situ_move_plan_peak_on(m, (situ_device){ 0 }); }

void situ_move_plan_settle(situ_move_plan *m, bool (*settle)(void *payload), void *payload) {
  if (!is_move("move_plan_settle", m)) return;
  m->settle = settle;
  m->payload = payload;
}

static bool succeed(void *payload) {
  (void)payload;
  return true;
}

void situ_move_plan_to_file(situ_move_plan *m, const char *path, bool keep) {
  if (!is_move("move_plan_to_file", m)) return;
  for (int64_t i = 0; i < m->count; i++) {
    situ_move_unit *u = &m->unit[i];
    if (u->to.kind == SITU_CPU && u->bytes && (path || u->storage->flags & SITU_STORAGE_MAPPED)) u->moves = true;
  }
  m->path = path;
  m->keep = keep;
  if (!m->settle) m->settle = succeed; /* with others a storage of a file cannot share memory */
}

void situ_move_plan_free(situ_move_plan *m) {
  if (!m || !is_move("move_plan_free", m)) return;
  for (int64_t i = 0; m->staged && i < m->count; i++) situ__storage_release(m->unit[i].destination);
  situ__free(m->unit);
  situ__handle_free(m, sizeof *m, m->op);
}

/* ---- check: is it possible? ---- */

static bool check_dtypes(const situ_move_plan *m, const situ__demand *n) {
  situ_device_properties has;
  char name[SITU_DEVICE_NAME_MAX];
  if (!n->dtypes) return true;
  if (situ_device_info(n->device, &has) != SITU_OK) return false;
  if (!has.dtypes || !(n->dtypes & ~has.dtypes)) return true;
  const situ_move_unit *u = m->unit;
  while (!u->moves || !situ__move_same(u->to, n->device) || has.dtypes >> u->to_dtype & 1) u++;
  return situ__fail(SITU_E_UNSUPPORTED, m->op, "%s is %s, which %s cannot compute with%s", label_of(u->tensor),
                    situ_dtype_name((situ_dtype)u->to_dtype), situ_device_name(n->device, name),
                    situ_dtype_is_floating((situ_dtype)u->to_dtype) ? "; move and cast at once (situ_nn_to_with)" : ""),
         false;
}

enum { LARGEST = 5 };

/* The units that bring most bytes to a device, most first. Returns their number. */
static int find_largest(const situ_move_plan *m, situ_device to, const situ_move_unit *top[LARGEST + 1]) {
  int found = 0;
  for (int64_t i = 0; i < m->count; i++) {
    const situ_move_unit *u = &m->unit[i];
    if (!u->moves || !situ__move_same(u->to, to)) continue;
    int k = found < LARGEST ? found++ : LARGEST;
    for (; k && top[k - 1]->bytes_after < u->bytes_after; k--) top[k] = top[k - 1];
    top[k] = u;
  }
  return found;
}

/* Adds "net.fc1.weight", or of a gradient "net.fc1.weight.grad". */
static void add_name(situ__text *text, const situ_move_plan *m, const situ_move_unit *u) {
  const situ_tensor *of = u->tensor;
  for (int64_t i = 0; u->reason == SITU_MOVE_GRADIENT && i < m->count && of == u->tensor; i++) {
    const situ_tensor *t = m->unit[i].tensor;
    if (t && t->meta && t->meta->grad == u->tensor) of = t;
  }
  char path[256] = "";
  if (of) situ__autograd_up.tensor_path(of, path, sizeof path);
  situ__text_add(text, "%s%s", *path ? path : label_of(of), of == u->tensor ? "" : ".grad");
}

static bool refuse_memory(const situ_move_plan *m, const situ__demand *n) {
  const situ_move_unit *top[LARGEST + 1];
  const int largest = find_largest(m, n->device, top);
  situ__text list = { 0 };
  for (int k = 0; k < largest; k++) {
    char bytes[SITU__BYTES_TEXT];
    situ__text_add(&list, k ? ", " : "\n  largest: ");
    add_name(&list, m, top[k]);
    situ__text_add(&list, " (%s)", situ__bytes_text(top[k]->bytes_after, bytes));
  }
  char name[SITU_DEVICE_NAME_MAX], text[2][SITU__BYTES_TEXT], total[SITU__BYTES_TEXT];
  situ_device_properties has = { 0 };
  situ__bytes_texts(n->peak, n->available, text);
  if (situ_device_info(n->device, &has) == SITU_OK)
    situ__fail(SITU_E_NOMEM, m->op, "needs %s on %s, where %s of %s are free; nothing was moved%s", text[0],
               situ_device_name(n->device, name), text[1], situ__bytes_text(has.memory_total, total),
               list.data ? list.data : "");
  situ__text_free(&list);
  return false;
}

static bool check_memory(const situ_move_plan *m, const situ__demands *roughly) {
  situ__demands demands = { 0 };
  if (m->path) return true; /* the file is asked when it grows */
  bool good = situ__move_fits_easily(m, roughly) || situ__move_demands(m, &demands);
  for (int i = 0; good && i < demands.count; i++)
    if (demands.list[i].full) good = refuse_memory(m, &demands.list[i]);
  situ__free(demands.list);
  return good;
}

/* Its values are in parts, which follow it; to meta, or in another dtype, it would not be known again. */
static bool moves_in_parts(const situ_move_unit *u) {
  return u->to.kind != SITU_META && !situ__move_casts(u) && u->tensor && u->tensor->meta && u->tensor->meta->part;
}

static bool check_unit(const situ_move_plan *m, const situ_move_unit *u, situ__demands *demands) {
  situ_storage *s = u->storage;
  if (!situ__move_same(s->device, u->from) || situ__move_bytes(s) != u->bytes)
    return situ__fail(SITU_E_STATE, m->op, "%s was moved since this move was planned; plan again", label_of(u->tensor)),
           false;
  if (!u->moves) return true;
  if (situ__is_leased(s)) return situ__refuse_leased(m->op, s), false;
  if (s->flags & SITU_STORAGE_AWAY && moves_in_parts(u)) return true;
  if (s->flags & (SITU_STORAGE_AWAY | SITU_STORAGE_PENDING) && situ__settle(m->op, s) != SITU_OK) return false;
  if (u->from.kind == SITU_META && u->to.kind != SITU_META && situ__move_has_values(s) && !situ__recipe_has(s))
    return situ__fail(SITU_E_STATE, m->op,
                      "%s is on meta, and its values are unknown: load a state dict into it, or initialise it on the "
                      "other device",
                      label_of(u->tensor)),
           false;
  if (situ__move_add_unit(demands, u)) return true;
  return situ__no_memory(m->op, sizeof *demands->list), false;
}

/* demands: of all devices that the move uses. */
static situ_status check(const situ_move_plan *m, situ__demands *demands) {
  bool good = true;
  for (int64_t i = 0; i < m->count && good; i++) {
    if (i + SITU__MOVE_AHEAD < m->count) __builtin_prefetch(m->unit[i + SITU__MOVE_AHEAD].storage);
    good = check_unit(m, &m->unit[i], demands);
  }
  for (int i = 0; i < demands->count && good; i++) good = check_dtypes(m, &demands->list[i]);
  return good && check_memory(m, demands) ? SITU_OK : situ_error();
}

situ_status situ_move_plan_check(const situ_move_plan *m) {
  if (!is_move("move_plan_check", m)) return situ_error();
  situ__demands demands = { 0 };
  const situ_status status = check(m, &demands);
  situ__free(demands.list);
  return status;
}

/* ---- make: stage, then commit ---- */

/* Errors of queued work must be reported before any old memory is freed. */
static bool synchronize_devices(const situ__demands *demands) {
  for (int i = 0; i < demands->count; i++) {
    const situ_device device = demands->list[i].device;
    if (device.kind != SITU_CPU && device.kind != SITU_META && situ_synchronize(device) != SITU_OK) return false;
  }
  return true;
}

/* Returns false after recording which values the casts have lost; where that is meant, it is logged by policy. */
static bool may_lose(const situ_move_plan *m, bool lossy) {
  int64_t tensors = 0;
  situ__text text = { 0 };
  if (!m->lossy || (lossy && !situ__watches_casts())) return true;
  for (int64_t i = 0; i < m->count; i++) {
    const situ_move_unit *u = &m->unit[i];
    if (!u->values_lost) continue;
    if (tensors++ < 8)
      situ__text_add(&text, "%s%lld of %s", tensors > 1 ? ", " : "", (long long)u->values_lost, label_of(u->tensor));
  }
  const char *list = text.data ? text.data : "", *more = tensors > 8 ? ", and others" : "";
  if (lossy) situ__log("%s: finite values became infinite: %s%s", m->op, list, more);
  else
    situ__fail(SITU_E_OVERFLOW, m->op,
               "finite values would become infinite: %s%s; nothing was moved (say .lossy = true if that is meant)",
               list, more);
  situ__text_free(&text);
  return lossy;
}

/* Of all tensors on a storage. Cannot fail. */
static void set_dtype(situ_storage *s, uint8_t dtype) {
  if (has_one_handle(s)) {
    s->handles->view.dtype = dtype;
    return;
  }
  for (situ_tensor *t = situ__handles_begin(s); t; t = t->next_handle) t->view.dtype = dtype;
  situ__handles_end(s);
}

/* Cannot fail. */
static void commit_unit(const situ_move_plan *m, situ_move_unit *u, void *site) {
  situ_storage *s = u->storage;
  uint32_t unwritten = s->flags & SITU_STORAGE_UNWRITTEN;
  s->moved_at = site;
  s->moved_by = m->op;
  if (!u->destination) {
    s->device = u->to; /* it is away */
    return;
  }
  situ__storage_replace(s, u->destination, u->at, u->bytes_after, u->shared);
  if (!u->shared) situ__storage_release(u->destination); /* else the storage holds this reference now */
  u->destination = NULL;
  if (situ__move_casts(u) && s->written) {
    situ__forget_written(s); /* its bits are those of elements of another size: all counts as written */
    unwritten = 0;
  }
  situ__storage_set_flags(s, (s->flags & ~(uint32_t)SITU_STORAGE_UNWRITTEN) | unwritten);
  if (!situ__move_casts(u)) return;
  set_dtype(s, u->to_dtype);
  /* The values changed: a backward that saved them must fail. No other thread writes to what moves. */
  __atomic_store_n(&s->version, __atomic_load_n(&s->version, __ATOMIC_RELAXED) + 1, __ATOMIC_RELAXED);
}

/* Swaps the memory of two storages; owners, versions and addresses of the storages stay. */
static void swap_memory(situ_storage *a, situ_storage *b) {
  situ_storage old = *a;
  situ__seat_swap(a, b);
  a->device = b->device;
  a->bytes = b->bytes;
  a->data = b->data;
  a->recipe = b->recipe;
  __atomic_store_n(&a->release, b->release, __ATOMIC_RELAXED);
  a->payload = b->payload;
  situ__storage_set_flags(a, b->flags);
  b->device = old.device;
  b->bytes = old.bytes;
  b->data = old.data;
  b->recipe = old.recipe;
  __atomic_store_n(&b->release, old.release, __ATOMIC_RELAXED);
  b->payload = old.payload;
  situ__storage_set_flags(b, old.flags);
}

/* Which parts hold values goes with the memory. (A move keeps that in the storage, as it copies the values.) */
static void swap_contents(situ_storage *a, situ_storage *b) {
  struct situ_written *written = a->written;
  swap_memory(a, b);
  a->written = b->written;
  b->written = written;
}

/* Changes a unit's storage, whose old memory its destination has then, or changes it back. Cannot fail. */
static void exchange_unit(const situ_move_unit *u, bool back) {
  situ_storage *s = u->storage;
  situ_storage *other = u->destination;
  const uint32_t unwritten = s->flags & SITU_STORAGE_UNWRITTEN;
  if (other && situ__move_casts(u) && (s->written || other->written)) {
    swap_contents(s, other); /* the bits are those of elements of the old size: all counts as written */
  } else {
    if (other) swap_memory(s, other);
    else s->device = back ? u->from : u->to; /* it is away */
    situ__storage_set_flags(s, (s->flags & ~(uint32_t)SITU_STORAGE_UNWRITTEN) | unwritten);
  }
  if (situ__move_casts(u)) set_dtype(s, back ? u->from_dtype : u->to_dtype);
}

/* Returns false after an error was recorded; then everything is as it was. */
static bool settle(situ_move_plan *m, void *site) {
  for (int64_t i = 0; i < m->count; i++)
    if (m->unit[i].moves) exchange_unit(&m->unit[i], false);
  const bool good = m->settle(m->payload);
  for (int64_t i = 0; i < m->count; i++) {
    situ_storage *s = m->unit[i].storage;
    if (!m->unit[i].moves) continue;
    if (!good) {
      exchange_unit(&m->unit[i], true);
      continue;
    }
    s->moved_at = site;
    s->moved_by = m->op;
    if (situ__move_casts(&m->unit[i])) (void)__atomic_add_fetch(&s->version, 1, __ATOMIC_RELAXED);
  }
  return good;
}

/* A dry run must not move storages that existed before it. */
static bool may_move(const situ_move_plan *m) {
  for (int64_t i = 0; situ__is_dry() && i < m->count; i++)
    if (m->unit[i].moves && !situ__is_void(m->unit[i].storage))
      return situ__fail(SITU_E_STATE, m->op, "%s would be moved, but a dry run changes nothing",
                        label_of(m->unit[i].tensor)),
             false;
  return true;
}

static situ_status not_agreed(const situ_move_plan *m, uint64_t before) {
  if (situ__error_count() != before) return situ_error();
  return situ__fail(SITU_E_STATE, m->op, "was not agreed to; nothing was moved");
}

static situ_status make(situ_move_plan *m, const situ__demands *demands, bool lossy, bool (*agree)(void *payload),
                        void *payload) {
  if (!situ__move_stage(m) || !may_lose(m, lossy) || !synchronize_devices(demands)) return situ_error();
  const uint64_t before = situ__error_count();
  if (agree && !agree(payload)) return not_agreed(m, before);
  void *site = situ__call_site();
  if (m->settle) return settle(m, site) ? SITU_OK : situ_error(); /* the plan frees what is left */
  for (int64_t i = 0; i < m->count; i++) {
    if (i + SITU__MOVE_AHEAD < m->count) {
      situ__move_fetch(m->unit[i + SITU__MOVE_AHEAD].storage);
      __builtin_prefetch(m->unit[i + SITU__MOVE_AHEAD].tensor, 1);
    }
    if (m->unit[i].moves) commit_unit(m, &m->unit[i], site);
  }
  m->staged = false;
  return SITU_OK;
}

situ_status situ_move_plan_run_agreed(situ_move_plan *m, bool lossy, bool (*agree)(void *payload), void *payload) {
  if (!is_move("move_plan_run", m)) return situ_error();
  situ__demands demands = { 0 };
  situ_status status = check(m, &demands);
  if (status == SITU_OK && m->path && !(m->file = situ__backing_new(m->op, m->path, m->keep))) status = situ_error();
  if (status == SITU_OK) status = may_move(m) ? make(m, &demands, lossy, agree, payload) : situ_error();
  if (m->file) situ__backing_release(m->file, m->keep && status != SITU_OK);
  m->file = NULL;
  situ__free(demands.list);
  return status;
}

situ_status situ_move_plan_run(situ_move_plan *m, bool lossy) {
  return situ_move_plan_run_agreed(m, lossy, NULL, NULL);
}

/* ---- followers and swaps ---- */

static situ_status follow(const char *op, situ_tensor *t, situ_tensor *leader, bool beside) {
  if (!situ__need(op, "tensor", t) || !situ__optional(op, "leader", leader, SITU__A_TENSOR)) return situ_error();
  situ_storage *to = leader ? leader->view.storage : NULL;
  return t->view.storage == to || situ__follow(op, t->view.storage, to, beside) ? SITU_OK : situ_error();
}

situ_status situ_follow(situ_tensor *t, situ_tensor *leader) { return follow("follow", t, leader, false); }
situ_status situ_accompany(situ_tensor *t, situ_tensor *leader) { return follow("accompany", t, leader, true); }

bool situ_accompanies(const situ_tensor *t) {
  return situ__need("accompanies", "tensor", t) && situ__leader(t->view.storage) && situ__is_beside(t->view.storage);
}

situ_status situ_swap_memory(const char *op, situ_tensor *a, situ_tensor *b) {
  if (!situ__need(op, "first", a) || !situ__need(op, "second", b)) return situ_error();
  situ_storage *x = a->view.storage, *y = b->view.storage;
  const uint8_t dtype[2] = { a->view.dtype, b->view.dtype };
  const size_t elements[2] = { x->bytes / situ_dtype_size((situ_dtype)dtype[0]),
                               y->bytes / situ_dtype_size((situ_dtype)dtype[1]) };
  if (elements[0] != elements[1])
    return situ__fail(SITU_E_ARG, op, "memory of %zu and %zu elements cannot be swapped", elements[0], elements[1]);
  if (x == y || (situ__is_dry() && !(situ__is_void(x) && situ__is_void(y)))) return SITU_OK;
  if ((x->flags | y->flags) & SITU_STORAGE_PENDING &&
      (situ__settle(op, x) != SITU_OK || situ__settle(op, y) != SITU_OK))
    return situ_error();
  if (situ__is_leased(x) || situ__is_leased(y)) return situ__refuse_leased(op, situ__is_leased(x) ? x : y);
  swap_contents(x, y);
  if (dtype[0] == dtype[1]) return SITU_OK;
  set_dtype(x, dtype[1]);
  set_dtype(y, dtype[0]);
  return SITU_OK;
}

situ_status situ_take_memory(const char *op, situ_tensor *meta, situ_tensor *real) {
  if (!situ__need(op, "first", meta) || !situ__need(op, "second", real)) return situ_error();
  situ_storage *x = meta->view.storage, *y = real->view.storage;
  if (x->device.kind != SITU_META || x->bytes != y->bytes)
    return situ__fail(SITU_E_ARG, op,
                      "memory of %zu bytes cannot be taken over: a tensor on meta of as many is needed, not one of %zu",
                      y->bytes, x->bytes);
  if (situ__is_leased(y)) return situ__refuse_leased(op, y);
  if (y->flags & SITU_STORAGE_PENDING && situ__settle(op, y) != SITU_OK) return situ_error();
  if (situ__is_dry()) return SITU_OK;
  swap_contents(x, y);
  x->moved_at = situ__call_site();
  x->moved_by = op;
  return SITU_OK;
}
