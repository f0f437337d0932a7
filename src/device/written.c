/* Which part of a storage holds values, while some do and others do not.
   SPDX-License-Identifier: MIT */
#include "base/alloc.h"
#include "base/mutex.h"
#include "device/dry.h"

enum { UNITS = 1 << 16 }; /* at most so many bits: a larger storage has fewer, larger units */

/* A unit counts as written with its first byte. */
typedef struct situ_written {
  int shift;       /* a unit is 1 << shift bytes */
  size_t bytes;    /* of the storage that it is for */
  int64_t missing; /* units */
  int64_t writers; /* threads between situ__begin_part and situ__end_part */
  bool whole;      /* all of it counted as written, whatever its bits are, when the first of them began */
  uint64_t bit[];
} situ_written;

/* Of all storages: threads may write parts of one at once. */
static situ__mutex lock = SITU__MUTEX_INIT;

static size_t size_of(size_t bytes, int shift) {
  return sizeof(situ_written) + (((bytes - 1) >> shift) / 64 + 1) * sizeof(uint64_t);
}

/* Nothing is written. NULL: no memory. */
static situ_written *make(const situ_view_desc *v) {
  const size_t bytes = v->storage->bytes;
  int shift = situ__dtypes[v->dtype].shift;
  while ((bytes - 1) >> shift >= UNITS) shift++;
  situ_written *w = situ__calloc(1, size_of(bytes, shift));
  if (w) *w = (situ_written){ .shift = shift, .bytes = bytes, .missing = (int64_t)((bytes - 1) >> shift) + 1 };
  return w;
}

/* Looks at the units of bytes from..to - 1, or marks them. Returns the first byte without a value; -1: none. */
static int64_t visit_bytes(situ_written *w, int64_t from, int64_t to, bool mark) {
  const int64_t last = (to - 1) >> w->shift;
  for (int64_t unit = from >> w->shift, count; unit <= last; unit += count) {
    const int64_t low = unit % 64;
    count = last - unit < 64 - low ? last - unit + 1 : 64 - low;
    uint64_t *word = &w->bit[unit / 64];
    const uint64_t empty = (UINT64_MAX >> (64 - count) << low) & ~*word;
    if (mark) {
      *word |= empty;
      w->missing -= __builtin_popcountll(empty);
    } else if (empty) {
      const int64_t first = (unit - low + __builtin_ctzll(empty)) << w->shift;
      return first > from ? first : from;
    }
  }
  return -1;
}

/* The same for the elements of a view, in row-major order: returns the number of the first one. */
static int64_t visit_view(situ_written *w, const situ_view_desc *v, bool mark) {
  const bool flat = v->contiguous || !v->ndim;
  const int outer = flat ? 0 : v->ndim - 1, shift = situ__dtypes[v->dtype].shift;
  const int64_t inner = flat ? v->numel : v->size[outer], step = flat ? 1 : v->stride[outer],
                run = step == 1 ? inner : 1;
  int64_t at[SITU_MAX_DIMS] = { 0 }, offset = v->offset;
  for (int64_t row = 0; row < v->numel; row += inner) {
    for (int64_t i = 0; i < inner; i += run) {
      const int64_t from = (offset + i * step) << shift, found = visit_bytes(w, from, from + (run << shift), mark);
      if (found >= 0) return row + i + ((found - from) >> shift);
    }
    for (int d = outer - 1; d >= 0; d--) {
      offset += v->stride[d];
      if (++at[d] < v->size[d]) break;
      offset -= v->stride[d] * at[d];
      at[d] = 0;
    }
  }
  return -1;
}

static situ_written *of(const situ_storage *s) {
  return s->written && s->written->bytes == s->bytes ? s->written : NULL;
}

int64_t situ__first_unwritten(const situ_view_desc *v) {
  if (!v->numel || situ__is_filled(v->storage)) return -1;
  situ__mutex_lock(&lock);
  situ_written *w = of(v->storage);
  const int64_t first = w ? visit_view(w, v, false) : 0;
  situ__mutex_unlock(&lock);
  return first;
}

/* Sets the flag that bits, or their lack, ask for. */
static void flag(situ_storage *s) {
  const situ_written *w = of(s);
  if (w && w->missing && !w->whole) (void)__atomic_or_fetch(&s->flags, SITU_STORAGE_UNWRITTEN, __ATOMIC_RELAXED);
  else (void)__atomic_and_fetch(&s->flags, ~SITU_STORAGE_UNWRITTEN, __ATOMIC_RELAXED);
}

/* Without memory for bits all of it counts as written. */
static situ_written *make_once(const situ_view_desc *v) {
  if (!of(v->storage)) {
    situ__forget_written(v->storage);
    v->storage->written = make(v);
  }
  return v->storage->written;
}

void situ__wrote_part(const situ_view_desc *v) {
  if (situ__is_dry()) return;
  situ__mutex_lock(&lock);
  situ_written *w = make_once(v);
  if (w) (void)visit_view(w, v, true);
  flag(v->storage);
  situ__mutex_unlock(&lock);
}

void situ__begin_part(const situ_view_desc *v) {
  if (situ__is_dry()) return;
  situ__mutex_lock(&lock);
  situ_written *w = make_once(v);
  if (w && !w->writers++) w->whole = situ__is_filled(v->storage);
  situ__mutex_unlock(&lock);
}

void situ__end_part(const situ_view_desc *v, bool written) {
  if (situ__is_dry()) return;
  situ__mutex_lock(&lock);
  situ_written *w = of(v->storage);
  if (w) {
    w->writers -= w->writers > 0;
    if (written) (void)visit_view(w, v, true);
  }
  if (w || written) flag(v->storage);
  situ__mutex_unlock(&lock);
}

void situ__wrote_bytes(situ_storage *storage, size_t at, size_t bytes) {
  situ__wrote_part(&(situ_view_desc){ .storage = storage,
                                      .offset = (int64_t)at,
                                      .dtype = SITU_U8,
                                      .ndim = 1,
                                      .contiguous = true,
                                      .numel = (int64_t)bytes,
                                      .size = { (int64_t)bytes },
                                      .stride = { 1 } });
}

bool situ__find_gap(const situ_storage *storage, int64_t *from, int64_t *past) {
  situ__mutex_lock(&lock);
  const situ_written *w = of(storage);
  const int64_t units = w ? (int64_t)((w->bytes - 1) >> w->shift) + 1 : 0;
  int64_t unit = w ? *from >> w->shift : 0;
  while (unit < units && w->bit[unit / 64] >> unit % 64 & 1) unit++;
  const bool found = unit < units;
  if (found) {
    *from = unit << w->shift;
    while (unit < units && !(w->bit[unit / 64] >> unit % 64 & 1)) unit++;
    *past = unit < units ? unit << w->shift : (int64_t)w->bytes;
  }
  situ__mutex_unlock(&lock);
  return found;
}

void situ__forget_written(situ_storage *storage) {
  situ__free(storage->written);
  storage->written = NULL;
}
