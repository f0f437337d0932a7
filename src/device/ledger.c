/* The ledger of copies between memories: totals for as long as somebody records, details of the
   newest.
   SPDX-License-Identifier: MIT */
#include <pthread.h>

#include "base/alloc.h"
#include "device/device.h"

enum { KEPT = 65536 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int recorders;
static situ__ledger_mark total;
static situ__transfer *ring;      /* entry n is at n % capacity; grows to KEPT, then goes round */
static uint64_t capacity, oldest; /* number of the first entry that the ring still holds */

bool situ__ledger_recording(void) { return __atomic_load_n(&recorders, __ATOMIC_RELAXED) > 0; }

/* Room for entry number total.count; without memory the details are lost, the totals never. */
static bool make_room(void) {
  uint64_t held = total.count - oldest;
  if (held < capacity) return true;
  if (capacity == KEPT) {
    oldest++;
    return true;
  }
  uint64_t wider = capacity ? 2 * capacity : 64;
  situ__transfer *more = situ__alloc_uncounted(wider * sizeof *more);
  if (!more) return false;
  for (uint64_t n = oldest; n < total.count; n++) more[n % wider] = ring[n % capacity];
  situ__free(ring);
  ring = more;
  capacity = wider;
  return true;
}

void situ__ledger_note(const situ__transfer *transfer) {
  if (!situ__ledger_recording()) return;
  pthread_mutex_lock(&lock);
  bool room = make_room();
  if (room) ring[total.count % capacity] = *transfer;
  total.count++;
  total.bytes += transfer->bytes;
  if (!room) oldest = total.count;
  pthread_mutex_unlock(&lock);
}

situ__ledger_mark situ__ledger_start(void) {
  pthread_mutex_lock(&lock);
  situ__ledger_mark mark = total;
  __atomic_add_fetch(&recorders, 1, __ATOMIC_RELAXED);
  pthread_mutex_unlock(&lock);
  return mark;
}

void situ__ledger_stop(void) {
  pthread_mutex_lock(&lock);
  if (recorders > 0 && __atomic_sub_fetch(&recorders, 1, __ATOMIC_RELAXED) == 0) {
    situ__free(ring);
    ring = NULL;
    capacity = 0;
    oldest = total.count;
  }
  pthread_mutex_unlock(&lock);
}

int64_t situ__ledger_read(const situ__ledger_mark *since, situ__ledger_mark *sum,
                          situ__transfer *out, int64_t most) {
  pthread_mutex_lock(&lock);
  if (sum) *sum = (situ__ledger_mark){ total.count - since->count, total.bytes - since->bytes };
  uint64_t first = since->count > oldest ? since->count : oldest;
  uint64_t room = most > 0 && out ? (uint64_t)most : 0;
  if (total.count - first > room) first = total.count - room;
  int64_t written = 0;
  for (uint64_t n = first; n < total.count; n++) out[written++] = ring[n % capacity];
  pthread_mutex_unlock(&lock);
  return written;
}
