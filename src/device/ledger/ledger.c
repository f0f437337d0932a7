/* The ledger of copies between memories: exact sums, per thread and for all threads, and details of the newest copies
   while a ledger is open.
   SPDX-License-Identifier: MIT */
#include <time.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/fork.h"
#include "base/mutex.h"
#include "base/thread.h"
#include "device/device.h"
#include "device/ledger/ledger.h"

enum { KEPT = 65536 };

static situ__mutex lock = SITU__MUTEX_INIT;
static int open_ledgers; /* of all threads */
static int for_everyone; /* those of them that record the copies of all threads */
static situ_transfers everyone[SITU_DIRECTIONS];
static uint64_t all_waits, all_offloads, all_images;
static situ__wait last_wait;      /* of all threads */
static situ__transfer *ring;      /* entry n is at n % capacity; grows to KEPT, then overwrites the oldest */
static uint64_t capacity, oldest; /* number of the oldest entry in the ring */
static uint64_t next;             /* number of the next entry */

/* Thread-local state. Its address identifies the thread among all live ones. */
static SITU__THREAD_LOCAL struct {
  uint32_t depth, others; /* open ledgers; those of them that record all threads */
  situ_transfers sum[SITU_DIRECTIONS];
  uint64_t waits, offloads, images;
  situ__wait last_wait;
} mine;

static double now(void) {
  struct timespec t;
  (void)clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- recording ---- */

bool situ__ledger_recording(void) { return mine.depth || __atomic_load_n(&for_everyone, __ATOMIC_RELAXED); }

/* Makes space for one more entry. Without memory, details are lost but not the sums. */
static bool reserve_entry(void) {
  uint64_t held = next - oldest;
  if (held < capacity) return true;
  if (capacity == KEPT) {
    oldest++;
    return true;
  }
  uint64_t wider = capacity ? 2 * capacity : 64;
  situ__transfer *more = situ__alloc_uncounted(wider * sizeof *more);
  if (!more) return false;
  for (uint64_t n = oldest; n < next; n++) more[n % wider] = ring[n % capacity];
  situ__free(ring);
  ring = more;
  capacity = wider;
  return true;
}

static situ_direction direction_of(const situ__transfer *t) {
  if (situ__backend(t->from)->host_memory) return SITU_HOST_TO_DEVICE;
  return situ__backend(t->to)->host_memory ? SITU_DEVICE_TO_HOST : SITU_DEVICE_TO_DEVICE;
}

static void add_transfer(situ_transfers *sum, uint64_t bytes) {
  sum->count++;
  sum->bytes += bytes;
}

void situ__ledger_note(const situ__transfer *transfer, situ_storage *about) {
  situ__transfer t = *transfer;
  situ_direction way = direction_of(&t);
  t.thread = &mine;
  t.time = now();
  t.serial = about->serial;
  t.version = __atomic_load_n(&about->version, __ATOMIC_RELAXED);
  t.role = situ__device_up.storage_subject(about, t.tensor, sizeof t.tensor);
  if (t.reason == SITU__COPY_POLICY || t.reason == SITU__COPY_INPUT)
    situ__device_up.running_module(t.module, sizeof t.module);
  add_transfer(&mine.sum[way], t.bytes);
  mine.offloads += t.reason == SITU__COPY_OFFLOAD;
  mine.images += t.reason == SITU__COPY_IMAGE;
  situ__mutex_lock(&lock);
  add_transfer(&everyone[way], t.bytes);
  all_offloads += t.reason == SITU__COPY_OFFLOAD;
  all_images += t.reason == SITU__COPY_IMAGE;
  bool reserved = reserve_entry();
  if (reserved) ring[next % capacity] = t;
  next++;
  if (!reserved) oldest = next;
  situ__mutex_unlock(&lock);
}

void situ__ledger_wait(const char *op, situ_device device) {
  if (!situ__ledger_recording()) return;
  situ__wait wait = { .device = device, .site = situ__call_site() };
  (void)situ__error_name(op, wait.op);
  mine.waits++;
  mine.last_wait = wait;
  situ__mutex_lock(&lock);
  all_waits++;
  last_wait = wait;
  situ__mutex_unlock(&lock);
}

/* Of one thread, or of all. */
static uint64_t count_of(bool of_all, const uint64_t *own, const uint64_t *all) {
  situ__mutex_lock(&lock);
  const uint64_t count = of_all ? *all : *own;
  situ__mutex_unlock(&lock);
  return count;
}
static uint64_t count_waits(bool of_all) { return count_of(of_all, &mine.waits, &all_waits); }

uint64_t situ__ledger_allowed(const situ_ledger *l) {
  const uint64_t images = count_of(l->all_threads, &mine.images, &all_images) - l->images;
  return l->allow_offload ? images + count_of(l->all_threads, &mine.offloads, &all_offloads) - l->offloads : images;
}

situ__wait situ__ledger_last_wait(const situ_ledger *l) {
  situ__mutex_lock(&lock);
  const situ__wait wait = l->all_threads ? last_wait : mine.last_wait;
  situ__mutex_unlock(&lock);
  return wait;
}

uint64_t situ_ledger_waits(const situ_ledger *ledger) {
  if (!situ__ledger_usable("ledger_waits", ledger)) return 0;
  return ledger->open ? count_waits(ledger->all_threads) - ledger->waits : ledger->waits;
}

/* ---- begin and end ---- */

void situ_ledger_begin(situ_ledger *ledger) { situ_ledger_begin_with(ledger, NULL); }
void situ_ledger_begin_none(situ_ledger *ledger) {
  situ_ledger_begin_with(ledger, &(situ_ledger_options){ .none = true });
}

void situ_ledger_begin_with(situ_ledger *ledger, const situ_ledger_options *options) {
  if (!ledger) {
    situ__null("ledger_begin", "ledger");
    return;
  }
  *ledger = (situ_ledger){ .began = now(), .thread = &mine };
  if (situ__forked()) return; /* a thread of the parent may hold the lock */
  const situ_ledger_options o = options ? *options : (situ_ledger_options){ 0 };
  ledger->all_threads = o.all_threads;
  ledger->none = o.none;
  ledger->allow_waits = o.allow_waits;
  ledger->allow_offload = o.allow_offload;
  ledger->waits = count_waits(o.all_threads);
  ledger->offloads = count_of(o.all_threads, &mine.offloads, &all_offloads);
  ledger->images = count_of(o.all_threads, &mine.images, &all_images);
  ledger->open = true;
  ledger->others = mine.others;
  situ__mutex_lock(&lock);
  for (int way = 0; way < SITU_DIRECTIONS; way++)
    ledger->sum[way] = ledger->all_threads ? everyone[way] : mine.sum[way];
  ledger->first = next;
  ledger->depth = ++mine.depth;
  open_ledgers++;
  if (ledger->all_threads) {
    mine.others++;
    (void)__atomic_add_fetch(&for_everyone, 1, __ATOMIC_RELAXED);
  }
  situ__mutex_unlock(&lock);
}

/* An ended ledger is usable: it keeps its sums. */
bool situ__ledger_usable(const char *op, const situ_ledger *l) {
  if (!l) return situ__null(op, "ledger"), false;
  if (l->thread == &mine && !situ__forked() && (!l->open || l->depth <= mine.depth)) return true;
  return situ__fail(SITU_E_STATE, op,
                    "this ledger is not open on this thread (begun on another, or an outer one was ended)"),
         false;
}

/* Closes l, and those inside it that were not ended. */
static void close_from(const situ_ledger *l) {
  situ__mutex_lock(&lock);
  open_ledgers -= (int)(mine.depth - l->depth + 1);
  (void)__atomic_sub_fetch(&for_everyone, (int)(mine.others - l->others), __ATOMIC_RELAXED);
  mine.depth = l->depth - 1;
  mine.others = l->others;
  if (open_ledgers == 0) {
    situ__free(ring);
    ring = NULL;
    capacity = 0;
    oldest = next;
  }
  situ__mutex_unlock(&lock);
}

situ_status situ_ledger_end(situ_ledger *ledger) {
  const char *op = "ledger_end";
  if (!situ__ledger_usable(op, ledger)) return situ_error();
  if (!ledger->open) return situ__fail(SITU_E_STATE, op, "this ledger was ended before");
  const uint64_t waits = situ_ledger_waits(ledger);
  const bool any = situ_ledger_total(ledger).count > situ__ledger_allowed(ledger) || (waits && !ledger->allow_waits);
  const situ_status status = ledger->none && any ? situ__ledger_refuse(ledger) : SITU_OK;
  for (int way = 0; way < SITU_DIRECTIONS; way++) ledger->sum[way] = situ_ledger_sum(ledger, (situ_direction)way);
  ledger->waits = waits;
  close_from(ledger);
  ledger->open = false;
  return status;
}

/* ---- queries ---- */

situ_transfers situ_ledger_sum(const situ_ledger *ledger, situ_direction direction) {
  if (!situ__ledger_usable("ledger_sum", ledger)) return (situ_transfers){ 0 };
  if ((unsigned)direction >= SITU_DIRECTIONS)
    return situ__fail(SITU_E_ARG, "ledger_sum", "%d is not a direction", (int)direction), (situ_transfers){ 0 };
  if (!ledger->open) return ledger->sum[direction];
  situ__mutex_lock(&lock);
  situ_transfers all = ledger->all_threads ? everyone[direction] : mine.sum[direction];
  situ__mutex_unlock(&lock);
  return (situ_transfers){ all.count - ledger->sum[direction].count, all.bytes - ledger->sum[direction].bytes };
}

situ_transfers situ_ledger_total(const situ_ledger *ledger) {
  situ_transfers total = { 0 };
  for (int way = 0; way < SITU_DIRECTIONS; way++) {
    situ_transfers sum = situ_ledger_sum(ledger, (situ_direction)way);
    total.count += sum.count;
    total.bytes += sum.bytes;
  }
  return total;
}

bool situ__ledger_entries(const char *op, const situ_ledger *l, situ__transfer **list, int64_t *count) {
  *list = NULL;
  *count = 0;
  if (!l->open) return true;
  situ__mutex_lock(&lock);
  uint64_t from = l->first > oldest ? l->first : oldest, most = next - from;
  if (most) *list = situ__alloc_uncounted(most * sizeof **list);
  for (uint64_t n = from; *list && n < next; n++)
    if (l->all_threads || ring[n % capacity].thread == &mine) (*list)[(*count)++] = ring[n % capacity];
  situ__mutex_unlock(&lock);
  if (most && !*list) return situ__no_memory(op, most * sizeof **list), false;
  return true;
}
