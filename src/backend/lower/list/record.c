/* The target that records: it has CUDA's properties, no memory and no kernels.
   SPDX-License-Identifier: MIT */
#include <pthread.h>
#include <string.h>

#include "backend/lower/list/list.h"

static situ__target device = SITU__AHEAD_TARGET;
static pthread_mutex_t lock; /* recursive, as a verb is lowered to others; guards all below */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static situ__table table;
static situ__listed *list;
static size_t count, capacity;
static bool failed, closed;
static _Alignas(PACK_BYTES) char memory[PACK_BYTES]; /* stands for all device memory: never read */

/* ---- slots ----------------------------------------------------------------------------------- */

static void make_lock(void) {
  pthread_mutexattr_t recursive;
  (void)pthread_mutexattr_init(&recursive);
  (void)pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
  (void)pthread_mutex_init(&lock, &recursive);
  (void)pthread_mutexattr_destroy(&recursive);
}

static situ__target *enter(int index, const char *op, situ_status *status) {
  (void)index, (void)op;
  (void)pthread_once(&once, make_lock);
  pthread_mutex_lock(&lock);
  *status = SITU_OK;
  return &device;
}

static situ_status leave(situ__target *target, situ_status status) {
  (void)target;
  pthread_mutex_unlock(&lock);
  return status;
}

static const situ__target *of(int index) {
  (void)index;
  return &device;
}

static bool append(const situ__call *call) {
  if (count == capacity) {
    const size_t more = capacity ? 2 * capacity : 1024;
    situ__listed *wider = situ__host->alloc(more * sizeof *wider);
    if (!wider) return false;
    if (count) memcpy(wider, list, count * sizeof *list);
    situ__host->free(list);
    list = wider, capacity = more;
  }
  list[count++] = (situ__listed){ call->variant, call->name };
  return situ__table_add(&table, &call->variant, memory);
}

static situ_status launch(situ__target *target, const situ__call *call, int64_t groups) {
  (void)target, (void)groups;
  if (situ__table_find(&table, &call->variant)) return SITU_OK;
  if (!closed) return append(call) ? SITU_OK : SITU_E_NOMEM;
  char name[SITU__CALL_NAME];
  situ__lower_name(call, name);
  return situ__host->fail(SITU_E_STATE, call->op, "src/backend/lower/list/ does not ask for the kernel %s", name);
}

static void *scratch(situ__target *target, const char *op, size_t bytes) {
  (void)target, (void)op, (void)bytes;
  return memory;
}

static void release(int index, void *unused) { (void)index, (void)unused; }

static situ_status clear(situ__target *target, const char *op, void *unused, size_t bytes) {
  (void)target, (void)op, (void)unused, (void)bytes;
  return SITU_OK;
}

const situ__target_table situ__list_targets = {
  .enter = enter, .leave = leave, .of = of, .launch = launch, .scratch = scratch, .release = release, .clear = clear
};

/* ---- the list -------------------------------------------------------------------------------- */

const situ_view_desc *situ__list_view(int dtype, int ndim, const int64_t *size) {
  enum { VIEWS = 64 };
  static situ_storage storage = { .data = memory };
  static situ_view_desc views[VIEWS];
  static int next;
  situ_view_desc *v = &views[next++ % VIEWS];
  *v = (situ_view_desc){ .storage = &storage, .dtype = (uint8_t)dtype, .ndim = (uint8_t)ndim, .contiguous = true };
  v->numel = 1;
  for (int d = ndim - 1; d >= 0; d--) v->size[d] = size[d], v->stride[d] = v->numel, v->numel *= size[d];
  return v;
}

void situ__list_ask(const situ_work *work) {
  static situ_status (*const lowered[SITU_VERBS])(int, const situ_work *) = { SITU__LOWERED };
  const situ_status status = lowered[work->verb](0, work);
  failed = failed || (status != SITU_OK && status != SITU_E_UNSUPPORTED);
}

const situ__listed *situ__list_read(size_t *to) {
  *to = count;
  return failed ? NULL : list;
}

void situ__list_close(void) { closed = true; }

void situ__list_all(void) {
#define ROW(VERB, verb) situ__list_##verb();
  SITU__LOWERED_VERBS(ROW)
#undef ROW
}
