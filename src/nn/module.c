/* Modules: creation, registration of parts, sharing, release.
   SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/mutex.h"
#include "base/peek.h"
#include "base/text.h"
#include "nn/nn.h"
#include "situ/sys/layers.h"
#include "situ/sys/shape.h"
#include "situ/sys/tensor.h"

/* ---- list of live modules ---- */

static situ__mutex lock = SITU__MUTEX_INIT;
static situ_nn_module *newest;
static int64_t live;

void situ__nn_lock(void) { situ__mutex_lock(&lock); }
void situ__nn_unlock(void) { situ__mutex_unlock(&lock); }
const situ_nn_module *situ__nn_newest(void) { return newest; }

void situ__nn_enlist(situ_nn_module *first, situ_nn_module *last, int64_t count) {
  situ_explain_modules(&situ__nn_lore); /* errors can describe modules once there is one */
  situ__mutex_lock(&lock);
  last->older = newest;
  if (newest) newest->newer = last;
  newest = first;
  live += count;
  situ__mutex_unlock(&lock);
}

/* Within the lock. */
static void delist(situ_nn_module *m) {
  if (m->older) m->older->newer = m->newer;
  if (m->newer) m->newer->older = m->older;
  else newest = m->older;
  live--;
}

int64_t situ_nn_live_modules(void) {
  situ__mutex_lock(&lock);
  int64_t count = live;
  situ__mutex_unlock(&lock);
  return count;
}

/* Whether it is in the list: its neighbour in the list, which a copy of a module has too, points to it. */
static bool is_listed(const void *pointer) {
  situ_nn_module m, next;
  if (!situ__peek(pointer, &m, sizeof m) || !situ__is(SITU__A_MODULE, &m)) return false;
  return m.newer ? situ__peek(m.newer, &next, sizeof next) && next.older == pointer : newest == pointer;
}

bool situ_nn_is_module(const void *pointer) {
  situ__mutex_lock(&lock);
  const situ_nn_module *m = newest;
  const bool peeks = situ__can_peek();
  while (!peeks && m && m != pointer) m = m->older;
  const bool found = peeks ? is_listed(pointer) : m != NULL;
  situ__mutex_unlock(&lock);
  return found;
}

/* ---- creation and release ---- */

void *situ_nn_alloc(const situ_nn_type *type) {
  if (!type || !type->name || type->size < sizeof(situ_nn_module))
    return situ__fail(SITU_E_ARG, "nn_alloc",
                      "a type needs a name, and the size of a struct that begins with situ_nn_module"),
           NULL;
  situ_nn_module *m = situ__handle_new(SITU__A_MODULE, type->size);
  struct situ_nn_build *build = situ__alloc(sizeof *build);
  if (!m || !build) {
    situ__no_memory("nn_alloc", type->size);
    situ__handle_free(m, type->size, type->name);
    situ__free(build);
    return NULL;
  }
  m->type = type;
  m->refs = 1;
  m->training = true;
  situ__nn_begin_build(m, build);
  situ__nn_enlist(m, m, 1);
  situ_scope_begin(&build->scope);
  return m;
}

situ_nn_module *situ_nn_done(void *module) {
  situ_nn_module *m = module;
  if (!situ__nn_given("nn_done", "module", m)) return NULL;
  situ__nn_end_build(m);
  if (!m->broken) return m;
  if (situ_error() == SITU_OK) /* the program has cleared the error that broke it */
    situ__fail(SITU_E_STATE, "nn_done", "%s: a registration failed, so the module is freed", m->type->name);
  return situ__nn_give_up(m), NULL;
}

static bool is_standing_in(const char *op, const situ_nn_module *m) {
  if (m->standing_in)
    situ__fail(SITU_E_STATE, op, "the forward of a parametrized %s cannot free or share it", m->type->name);
  return m->standing_in;
}

situ_nn_module *situ_nn_retain(situ_nn_module *m) {
  if (!m || !situ__nn_given("nn_retain", "module", m)) return NULL;
  if (is_standing_in("nn_retain", m)) return NULL;
  __atomic_fetch_add(&m->refs, 1, __ATOMIC_RELAXED);
  return m;
}

/* Number of references that are not other modules'. */
static int32_t outside(const situ_nn_module *m) {
  return __atomic_load_n(&m->refs, __ATOMIC_ACQUIRE) - __atomic_load_n(&m->parents, __ATOMIC_RELAXED);
}

/* If the module runs on this thread, perhaps in a hook, its outermost call frees it. */
static bool runs(const situ_nn_module *m) {
  situ__nn_frame *outermost = NULL;
  for (situ__nn_frame *f = situ__nn_running; f; f = f->outer)
    if (f->module == m) outermost = f;
  if (outermost) outermost->freed = true;
  return outermost != NULL;
}

/* A module with one owner is counted without locked instructions, since only that owner counts then. */
static bool has_one_owner(const situ_nn_module *m) { return __atomic_load_n(&m->refs, __ATOMIC_ACQUIRE) == 1; }
static void add_count(int32_t *count, int by, bool alone) {
  if (alone) __atomic_store_n(count, __atomic_load_n(count, __ATOMIC_RELAXED) + by, __ATOMIC_RELAXED);
  else __atomic_fetch_add(count, by, __ATOMIC_RELAXED);
}

static bool last_owner(situ_nn_module *m) {
  if (has_one_owner(m)) __atomic_store_n(&m->refs, 0, __ATOMIC_RELAXED);
  else if (__atomic_sub_fetch(&m->refs, 1, __ATOMIC_ACQ_REL) != 0) return false;
  return !runs(m);
}

/* Within the lock: slot i of m has its part; a slot of m is about to lose it. */
static void note_holder(const situ_nn_module *m, int64_t i) {
  situ_nn_module *child = m->slots[i].held;
  if (!situ__nn_is_child(&m->slots[i])) return;
  child->holder = m;
  child->place = i;
}
static void forget_holder(const situ_nn_module *m, const situ_nn_slot *slot) {
  situ_nn_module *child = slot->held;
  if (situ__nn_is_child(slot) && child->holder == m) child->holder = NULL;
}

static void count_owner(situ_nn_kind kind, void *part, int by) {
  situ_nn_module *child = part;
  if (kind == SITU_NN_CHILD) add_count(&child->parents, by, by < 0 && has_one_owner(child));
  else situ_count_slot(part, by);
}

/* "fc" of Net: the owner's name for m. */
static void describe_owner(const situ_nn_module *m, char *text, size_t size) {
  *text = 0;
  situ__nn_lock();
  for (const situ_nn_module *p = newest; p && !*text; p = p->older)
    for (int64_t i = 0; i < p->count && !*text; i++)
      if (p->slots[i].held == m)
        (void)snprintf(text, size, "\"%s\" of %s", p->slots[i].name, p->name ? p->name : p->type->name);
  situ__nn_unlock();
}

/* Checks that not only other modules own it. Returns false after recording an error. */
static bool is_owned_outside(const char *op, const situ_nn_module *m, const char *instead) {
  char owner[160];
  if (is_standing_in(op, m)) return false;
  if (outside(m) > 0) return true;
  describe_owner(m, owner, sizeof owner);
  if (*owner) situ__fail(SITU_E_STATE, op, "this %s is %s, which owns it: %s", m->type->name, owner, instead);
  else situ__fail(SITU_E_STATE, op, "this %s was freed already, in the call of it that is running", m->type->name);
  return false;
}

static void free_slots(situ_nn_slot *slots, int64_t capacity) {
  situ__small_free(slots, (size_t)capacity * sizeof *slots);
}

/* Lets go of m's children. Those without another owner are no longer live, and are put before `next`, the modules that
   are to be freed after m. */
static situ_nn_module *orphan(const situ_nn_module *m, situ_nn_module *next) {
  enum { AHEAD = 8 };
  situ__nn_lock();
  for (int64_t i = 0; i < m->count; i++) {
    situ_nn_module *child = m->slots[i].held;
    if (i + AHEAD < m->count) __builtin_prefetch(m->slots[i + AHEAD].held, 1);
    if (!situ__nn_is_child(&m->slots[i])) continue;
    forget_holder(m, &m->slots[i]);
    count_owner(SITU_NN_CHILD, child, -1);
    if (!last_owner(child)) continue;
    delist(child);
    child->older = next;
    next = child;
  }
  situ__nn_unlock();
  return next;
}

/* Prefetches what the next modules to be freed, linked by `older`, are made of, which is far apart in memory: each
   time what the last time's addresses lead to. */
static void look_ahead(const situ_nn_module *next) {
  enum { MOST = 2 };
  const situ_nn_module *second = next ? next->older : NULL, *third = second ? second->older : NULL;
  if (!third) return;
  __builtin_prefetch(third->older);
  __builtin_prefetch(third->slots);
  for (int64_t k = 0; k < MOST && k < second->count; k++) {
    __builtin_prefetch(second->slots[k].name);
    __builtin_prefetch(second->slots[k].held);
  }
  for (int64_t k = 0; k < MOST && k < next->count; k++)
    if (!situ__nn_is_child(&next->slots[k])) __builtin_prefetch(situ_desc(next->slots[k].held)->storage);
}

/* No other thread counts the slots of a tensor that is freed with this one. */
static void empty_slot(situ_tensor *t) {
  situ_storage *s = situ_desc(t)->storage;
  if (situ_owners(t) == 1 && __atomic_load_n(&s->refs, __ATOMIC_ACQUIRE) == 1)
    __atomic_store_n(&s->slots, __atomic_load_n(&s->slots, __ATOMIC_RELAXED) - 1, __ATOMIC_RELAXED);
  else situ_count_slot(t, -1);
  situ_release(t);
}

static void destroy(situ_nn_module *m) {
  /* Modules to free are linked by `older` instead of recursion, so that deep nesting cannot overflow the stack. */
  situ__nn_lock();
  delist(m);
  situ__nn_unlock();
  m->older = NULL;
  while (m) {
    situ__nn_end_build(m);
    if (m->type->release) m->type->release(m);
    situ_nn_module *const next = m->children ? orphan(m, m->older) : m->older;
    look_ahead(next);
    for (int64_t i = 0; i < m->count; i++) {
      const situ_nn_slot *slot = &m->slots[i];
      if (!situ__nn_is_child(slot)) empty_slot(slot->held);
      situ__drop_text(slot->name);
    }
    free_slots(m->slots, m->capacity);
    situ__nn_index_drop(m);
    situ__free(m->strays);
    situ__nn_free_hooks(m->hooks);
    char text[64];
    if (m->name) (void)snprintf(text, sizeof text, "%s %s", m->type->name, m->name);
    const situ_nn_type *type = m->type;
    char *name = m->name;
    situ__handle_free(m, type->size, name ? text : type->name);
    situ__free(name);
    m = next;
  }
}

void situ__nn_let_go(situ_nn_module *m) {
  if (last_owner(m)) destroy(m);
}

void situ__nn_end(situ_nn_module *m) {
  if (__atomic_load_n(&m->refs, __ATOMIC_ACQUIRE) == 0) destroy(m);
}

/* The same, unless that would free what another thread uses. */
static void let_go_of_idle(situ_nn_module *m) {
  SITU__CLAIM(claim);
  if (situ__nn_claim_to_free("nn_free", m, &claim)) situ__nn_let_go(m);
}

void situ__nn_give_up(situ_nn_module *m) {
  if (situ__is(SITU__A_MODULE, m) && outside(m) > 0) let_go_of_idle(m);
}

void situ_nn_free(situ_nn_module *m) {
  if (m && situ__nn_given("nn_free", "module", m) && is_owned_outside("nn_free", m, "it is freed with it"))
    let_go_of_idle(m);
}

/* ---- a name ---- */

situ_nn_module *situ_nn_set_name(situ_nn_module *m, const char *name) {
  if (!situ__nn_given("nn_set_name", "module", m)) return NULL;
  char *copy = name && *name ? situ__strdup(name) : NULL;
  if (name && *name && !copy) return situ__no_memory("nn_set_name", strlen(name) + 1), NULL;
  situ__nn_lock();
  char *old = m->name;
  m->name = copy;
  situ__nn_unlock();
  situ__free(old);
  return m;
}

const char *situ_nn_name(const situ_nn_module *m) {
  return m && situ__nn_given("nn_name", "module", m) && m->name ? m->name : "";
}

/* ---- registration ---- */

bool situ__nn_reserve(situ_nn_module *m, int64_t capacity) {
  if (capacity <= m->capacity) return true;
  const size_t each = sizeof *m->slots;
  situ_nn_slot *slots = situ__small_grow(m->slots, (size_t)m->capacity * each, (size_t)capacity * each);
  if (!slots) return false;
  m->slots = slots;
  m->capacity = capacity;
  return true;
}

bool situ__nn_add_slot(const char *op, situ_nn_module *m, char *name, situ_nn_kind kind, size_t offset, void *held) {
  enum { FEW = 4 }; /* a lazy module, which other threads may read while it gets its parts, has no more */
  if (!name) return situ__no_memory(op, 1), false;
  situ__nn_lock();
  const bool space = m->count < m->capacity || situ__nn_reserve(m, m->count ? 2 * m->count : FEW);
  if (space) {
    m->slots[m->count] = (situ_nn_slot){ .name = name, .kind = kind, .offset = offset, .held = held };
    note_holder(m, m->count);
    if (kind == SITU_NN_CHILD) m->children++; /* not written for a lazy module's parameters */
    __atomic_store_n(&m->count, m->count + 1, __ATOMIC_RELEASE);
    situ__nn_index_last(m);
  }
  situ__nn_unlock();
  if (space) count_owner(kind, held, 1);
  if (space) return true;
  situ__drop_text(name);
  return situ__no_memory(op, (size_t)m->count * sizeof *m->slots), false;
}

void situ__nn_forget(situ_nn_module *m, const situ_nn_type *lazy) {
  situ__nn_lock();
  situ_nn_slot *slots = m->slots;
  const int64_t count = m->count, capacity = m->capacity;
  __atomic_store_n(&m->count, 0, __ATOMIC_RELEASE);
  situ__nn_index_drop(m);
  m->slots = NULL;
  m->capacity = 0;
  m->children = 0;
  __atomic_store_n(&m->pending, true, __ATOMIC_RELEASE);
  __atomic_store_n(&m->type, lazy, __ATOMIC_RELEASE);
  situ__nn_unlock();
  for (int64_t i = 0; i < count; i++) {
    if (slots[i].offset) memset((char *)m + slots[i].offset, 0, sizeof(void *));
    situ_count_slot(slots[i].held, -1);
    situ_release(slots[i].held);
    situ__drop_text(slots[i].name);
  }
  free_slots(slots, capacity);
}

void situ__nn_remove_slot(situ_nn_module *m, const char *name) {
  situ__nn_lock();
  situ_nn_slot *slot = situ__nn_find(m, name), old = *slot;
  forget_holder(m, slot);
  const int64_t after = m->count - (slot - m->slots) - 1;
  memmove(slot, slot + 1, (size_t)after * sizeof *slot);
  m->children -= situ__nn_is_child(&old);
  __atomic_store_n(&m->count, m->count - 1, __ATOMIC_RELEASE);
  situ__nn_index_drop(m); /* the next part that is added makes it anew */
  situ__nn_unlock();
  count_owner(old.kind, old.held, -1);
  if (situ__nn_is_child(&old)) situ__nn_let_go(old.held);
  else situ_release(old.held);
  situ__drop_text(old.name);
}

/* Registers a part under a name, replacing an earlier one. On failure the caller still owns the part. */
static bool put_part(const char *op, situ_nn_module *m, const char *name, void *field, situ_nn_kind kind, void *part) {
  situ_nn_slot *slot = situ__nn_find(m, name);
  /* Registered again by name only, it is stored in the field of the earlier part. */
  if (!field && slot && slot->offset) field = (char *)m + slot->offset;
  size_t offset = 0;
  if (field) {
    offset = (size_t)((char *)field - (char *)m);
    if (offset < sizeof *m || offset + sizeof part > m->type->size)
      return situ__fail(SITU_E_ARG, op, "%s: the field is not part of the module's struct", name), false;
  }
  if (slot) {
    SITU__CLAIM(claim);
    situ_nn_slot old = *slot;
    bool tensor = !situ__nn_is_child(&old);
    if (!tensor && !situ__nn_claim_to_free(op, old.held, &claim)) return false;
    situ__nn_lock();
    m->children += (kind == SITU_NN_CHILD) - !tensor;
    forget_holder(m, slot);
    *slot = (situ_nn_slot){ old.name, kind, offset, part, tensor ? situ_desc(old.held)->storage->serial : 0 };
    note_holder(m, slot - m->slots);
    situ__nn_unlock();
    count_owner(kind, part, 1);
    count_owner(old.kind, old.held, -1);
    if (tensor) situ_release(old.held);
    else situ__nn_let_go(old.held);
  } else if (!situ__nn_add_slot(op, m, situ__shared_text(name), kind, offset, part)) {
    return false;
  }
  /* The field may have any pointer type. */
  if (field) memcpy(field, &part, sizeof part);
  return true;
}

static bool good_name(const char *op, const situ_nn_module *m, const char *name) {
  if (name && situ__nn_is_parametrized(m, name))
    return situ__fail(SITU_E_STATE, op, "%s: \"%s\" is parametrized; situ_nn_utils_remove_parametrizations undoes that",
                      m->type->name, name),
           false;
  if (name && *name && !strchr(name, '.')) return true;
  return situ__fail(
             SITU_E_ARG, op,
             "%s: \"%s\" cannot be a part's name: it must not be empty, or contain a dot if the part has a field",
             m->type->name, name ? name : ""),
         false;
}

static void *broken(situ_nn_module *m) {
  if (situ__is(SITU__A_MODULE, m) && m->build) m->broken = true;
  return NULL;
}

/* Gives the tensor what a part has: its name, its role, the module's device. Returns false after recording an error. */
static bool take_over(const char *op, situ_nn_module *m, const char *name, situ_tensor *tensor, bool parameter) {
  return (!parameter || situ_requires_grad_(tensor, true)) && situ_set_name(tensor, name) &&
         situ__nn_adopt_tensor(op, m, tensor);
}

/* shared: the tensor is another module's, and stays as it is. */
static situ_tensor *add_tensor(const char *op, situ_nn_module *m, const char *name, situ_tensor **field,
                               situ_tensor *tensor, situ_nn_kind kind, bool shared) {
  SITU__CLAIM(claim);
  bool parameter = kind == SITU_NN_PARAMETER;
  if (!situ__nn_given(op, "module", m) || !situ__valid(op, name ? name : "tensor", tensor, SITU__A_TENSOR))
    return broken(m);
  if (!field && situ__nn_is_path(name)) {
    const situ__nn_addition part = { .tensor = tensor, .kind = kind, .shared = shared };
    return situ__nn_add_by_path(op, m, name, &part) ? tensor : broken(m);
  }
  if (!parameter && kind != SITU_NN_BUFFER && kind != SITU_NN_TRANSIENT)
    return situ__fail(SITU_E_ARG, op, "%s: a tensor is a parameter or a buffer", m->type->name), broken(m);
  if (!situ__nn_change(op, m, &claim)) return NULL;
  if (!good_name(op, m, name) || (!shared && !take_over(op, m, name, tensor, parameter))) return broken(m);
  situ_retain(tensor);
  if (!put_part(op, m, name, field, kind, tensor)) {
    situ_release(tensor);
    return broken(m);
  }
  if (!shared) situ_set_role(tensor, parameter ? SITU_ROLE_PARAMETER : SITU_ROLE_BUFFER);
  return tensor;
}

situ_tensor *situ_nn_add_tensor(situ_nn_module *m, const char *name, situ_tensor **field, situ_tensor *tensor,
                                situ_nn_kind kind) {
  return add_tensor("nn_add_tensor", m, name, field, tensor, kind, false);
}

situ_tensor *situ_nn_share_tensor(situ_nn_module *m, const char *name, situ_tensor *tensor, situ_nn_kind kind) {
  return add_tensor("nn_share_tensor", m, name, NULL, tensor, kind, true);
}

/* True if part is m itself or inside m; also if the tree is too deep. */
static bool contains(const situ_nn_module *m, const situ_nn_module *part, int depth) {
  if (m == part || depth > SITU__NN_DEPTH) return true;
  for (int64_t i = 0; i < m->count; i++)
    if (situ__nn_is_child(&m->slots[i]) && contains(m->slots[i].held, part, depth + 1)) return true;
  return false;
}

/* A tensor's name is its path from the outermost module in which it was registered. */
typedef struct naming {
  const char *child;
  situ__text path;
} naming;
static situ_status name_tensor(const situ_nn_visit *at, void *payload) {
  naming *n = payload;
  n->path.length = 0;
  situ__text_append(&n->path, n->child, strlen(n->child)); /* a format takes 100 ns */
  situ__text_append(&n->path, ".", 1);
  situ__text_append(&n->path, at->path, strlen(at->path));
  if (n->path.failed) return situ__no_memory("nn_add_child", n->path.capacity);
  return situ_set_name(at->tensor, n->path.data) ? SITU_OK : situ_error();
}

static bool name_tensors(situ_nn_module *child, const char *name) {
  naming n = { .child = name };
  situ_status status = situ_nn_walk(child, SITU_NN_VISIT_TENSORS, name_tensor, &n);
  situ__text_free(&n.path);
  return status == SITU_OK;
}

/* Checks that m can take child over. Returns false after recording an error. */
static bool good_child(const char *op, const situ_nn_module *m, situ_nn_module *child) {
  if (!contains(child, m, 1)) return is_owned_outside(op, child, "a second owner needs situ_nn_retain(child)");
  /* Keeps the last reference: releasing it would free m while the caller uses it. */
  if (outside(child) > 1) situ__nn_let_go(child);
  return situ__fail(SITU_E_ARG, op, "%s would contain itself, or modules nested more than %d deep", m->type->name,
                    SITU__NN_DEPTH),
         false;
}

situ_nn_module *situ_nn_add_child(situ_nn_module *m, const char *name, situ_nn_module **field, situ_nn_module *child) {
  static const char op[] = "nn_add_child";
  SITU__CLAIM(claim);
  SITU__CLAIM(of_child); /* its tensors get other names, and may move */
  if (!situ__nn_given(op, "module", m) || !situ__nn_given(op, name ? name : "child", child))
    return situ__nn_give_up(child), broken(m);
  if (!good_child(op, m, child)) return broken(m);
  if (!field && situ__nn_is_path(name))
    return situ__nn_add_by_path(op, m, name, &(situ__nn_addition){ .child = child }) ? child : broken(m);
  if (situ__nn_change(op, m, &claim) && good_name(op, m, name) && situ__nn_claim(op, child, &of_child) &&
      name_tensors(child, name) && situ__nn_adopt_child(op, m, child) &&
      put_part(op, m, name, field, SITU_NN_CHILD, child))
    return child;
  return situ__nn_give_up(child), broken(m);
}
