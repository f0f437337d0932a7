/* Recurrent layers over packed sequences: one call of the layer's op for each run of time steps that have the same
   number of sequences, so that nothing is computed for padding.
   SPDX-License-Identifier: MIT */
#include "base/alloc.h"
#include "base/fail.h"
#include "recurrent.h"

/* Time steps with the same batch: `steps` of them, from row `at` of the packed elements on. */
typedef struct stretch {
  int64_t at, steps, batch;
} stretch;

static int64_t count_stretches(const situ__packing *p) {
  int64_t count = 1;
  for (int64_t t = 1; t < p->steps; t++) count += p->batch_sizes[t] != p->batch_sizes[t - 1];
  return count;
}

static void fill_stretches(const situ__packing *p, stretch *list) {
  int64_t at = 0, k = 0;
  for (int64_t t = 0; t < p->steps; t++) {
    if (t && p->batch_sizes[t] != p->batch_sizes[t - 1]) k++;
    if (!list[k].steps) list[k] = (stretch){ .at = at, .batch = p->batch_sizes[t] };
    list[k].steps++;
    at += p->batch_sizes[t];
  }
}

static situ_tensor *first_rows(situ_tensor *state, int64_t count) {
  return state && situ_size(state, 0) != count ? situ_narrow(state, 0, 0, count) : state;
}
/* Rows of `state`, then the further rows of `all` up to count: sequences that begin, backwards in time. */
static situ_tensor *more_rows(situ_tensor *state, situ_tensor *all, int64_t count) {
  if (!all || !state) return first_rows(all, count);
  const int64_t had = situ_size(state, 0);
  if (had == count) return state;
  return situ_cat((situ_tensor *[]){ state, situ_narrow(all, 0, had, count - had) }, 2, 0);
}

/* The states at the ends of sequences that were over before others. */
typedef struct ended {
  situ_tensor **h, **c; /* the longest first */
  int64_t count;
} ended;

/* The last `batch` - `staying` sequences of s end here: their states are put before those in `e`. */
static bool end_sequences(ended *e, const situ__recurrent_steps *s, int64_t batch, int64_t staying) {
  e->h--, e->c--, e->count++;
  *e->h = situ_narrow(s->h, 0, staying, batch - staying);
  *e->c = s->c ? situ_narrow(s->c, 0, staying, batch - staying) : NULL;
  return *e->h && (!s->c || *e->c);
}

/* Runs one stretch; s: the states of its sequences, before and after. */
static bool run_stretch(const situ__direction *d, situ_tensor *gates, const stretch *r, situ__recurrent_steps *s) {
  situ_tensor *part = situ_narrow(gates, 0, r->at, r->steps * r->batch);
  if (!part || !(part = situ_unflatten(part, 0, SITU_SHAPE(r->steps, r->batch)))) return false;
  return situ__recurrent_run(d, part, s) && (s->y = situ_flatten(s->y, 0, 1));
}

static bool run_forwards(const situ__direction *d, situ_tensor *gates, const stretch *list, int64_t count,
                         situ_tensor **y, ended e, situ__recurrent_steps *s) {
  for (int64_t k = 0; k < count; k++) {
    if (!run_stretch(d, gates, &list[k], s)) return false;
    y[k] = s->y;
    const int64_t staying = k + 1 < count ? list[k + 1].batch : 0;
    if (!end_sequences(&e, s, list[k].batch, staying)) return false;
    s->h = staying ? first_rows(s->h, staying) : NULL;
    s->c = staying ? first_rows(s->c, staying) : NULL;
    if (staying && !s->h) return false;
  }
  const bool cells = *e.c != NULL;
  s->h = situ_cat(e.h, (int)e.count, 0);
  s->c = cells ? situ_cat(e.c, (int)e.count, 0) : NULL;
  return s->h && (!cells || s->c);
}

static bool run_backwards(const situ__direction *d, situ_tensor *gates, const stretch *list, int64_t count,
                          situ_tensor **y, situ__recurrent_steps *s) {
  const situ__recurrent_steps before = *s;
  s->h = s->c = NULL;
  for (int64_t k = count - 1; k >= 0; k--) {
    s->h = more_rows(s->h, before.h, list[k].batch);
    s->c = more_rows(s->c, before.c, list[k].batch);
    if (!s->h || (before.c && !s->c) || !run_stretch(d, gates, &list[k], s)) return false;
    y[k] = s->y;
  }
  return true;
}

bool situ__recurrent_run_packed(const situ__direction *d, situ_tensor *gates, const situ__packing *packing,
                                situ__recurrent_steps *s) {
  const int64_t count = count_stretches(packing);
  if (count > INT32_MAX) return situ__fail(SITU_E_OVERFLOW, "nn_recur", "more than 2^31 lengths"), false;
  stretch *list = situ__calloc((size_t)count, sizeof *list);
  situ_tensor **y = situ__calloc((size_t)count, 3 * sizeof *y);
  bool good = list && y;
  if (!good) situ__no_memory("nn_recur", (size_t)count * (sizeof *list + 3 * sizeof *y));
  if (good) {
    fill_stretches(packing, list);
    good = d->reverse ? run_backwards(d, gates, list, count, y, s)
                      : run_forwards(d, gates, list, count, y, (ended){ y + 2 * count, y + 3 * count, 0 }, s);
  }
  s->y = good ? situ_cat(y, (int)count, 0) : NULL;
  situ__free(list);
  situ__free(y);
  return s->y != NULL;
}
