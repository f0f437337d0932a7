/* Scratch memory for the chunks of a parallel loop.
   SPDX-License-Identifier: MIT */
#include "slots.h"

#include "base/fail.h"
#include "base/pool.h"
#include "base/size.h"
#include "device/device.h"

#include <sched.h>

enum { SLOTS_MAX = 64 };
static const situ_device cpu = { .kind = SITU_CPU };

situ_status situ__slots_open(situ__slots *slots, const char *op, size_t bytes, int64_t chunks) {
  *slots = (situ__slots){ .bytes = (bytes + 63) / 64 * 64 };
  if (bytes == 0) return SITU_OK;
  slots->count = (int)situ__min_i64(situ__min_i64(chunks, situ__pool_threads()), SLOTS_MAX);
  if (!situ__mul_size(slots->bytes, (size_t)slots->count, &slots->total)) return situ__no_memory(op, SIZE_MAX);
  return situ__memory_alloc(op, cpu, slots->total, (void **)&slots->memory);
}

void situ__slots_close(situ__slots *slots) {
  if (slots->memory) situ__memory_free(cpu, slots->memory, slots->total);
  slots->memory = NULL;
}

/* A slot is almost always free: there are as many as threads that can run a chunk, up to SLOTS_MAX. */
void *situ__slots_take(situ__slots *slots) {
  if (!slots->memory) return NULL;
  uint64_t taken = __atomic_load_n(&slots->taken, __ATOMIC_RELAXED);
  for (;;) {
    const int slot = ~taken ? __builtin_ctzll(~taken) : SLOTS_MAX;
    if (slot >= slots->count) {
      sched_yield();
      taken = __atomic_load_n(&slots->taken, __ATOMIC_RELAXED);
    } else if (__atomic_compare_exchange_n(&slots->taken, &taken, taken | UINT64_C(1) << slot, false, __ATOMIC_ACQUIRE,
                                           __ATOMIC_RELAXED)) {
      return slots->memory + (size_t)slot * slots->bytes;
    }
  }
}

void situ__slots_give(situ__slots *slots, void *slot) {
  if (!slot) return;
  const size_t number = (size_t)((char *)slot - slots->memory) / slots->bytes;
  __atomic_fetch_and(&slots->taken, ~(UINT64_C(1) << number), __ATOMIC_RELEASE);
}
