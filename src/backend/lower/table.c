/* Table from a variant to its compiled kernel: open addressing over the variant's bytes.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "backend/lower/lower.h"
#include "base/hash.h"

/* The slot of v, or the free slot for it; at least one slot is free. */
static situ__made *slot_of(const situ__table *t, const situ__variant *v) {
  size_t slot = (size_t)(situ__hash(SITU__HASH, v, sizeof *v) >> 7) & (t->slots - 1);
  while (t->made[slot].kernel && memcmp(&t->made[slot].variant, v, sizeof *v) != 0) slot = (slot + 1) & (t->slots - 1);
  return &t->made[slot];
}

void *situ__table_find(const situ__table *t, const situ__variant *v) { return t->slots ? slot_of(t, v)->kernel : NULL; }

static bool widen(situ__table *t) {
  situ__table wider = { .slots = t->slots ? 2 * t->slots : 256, .count = t->count };
  wider.made = situ__host->alloc(wider.slots * sizeof *wider.made);
  if (!wider.made) return false;
  memset(wider.made, 0, wider.slots * sizeof *wider.made);
  for (size_t i = 0; i < t->slots; i++)
    if (t->made[i].kernel) *slot_of(&wider, &t->made[i].variant) = t->made[i];
  situ__host->free(t->made);
  *t = wider;
  return true;
}

bool situ__table_add(situ__table *t, const situ__variant *v, void *kernel) {
  if (2 * t->count >= t->slots && !widen(t)) return false;
  *slot_of(t, v) = (situ__made){ *v, kernel };
  t->count++;
  return true;
}
