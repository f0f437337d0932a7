/* The resample verb: a table of weights, then lines beside each other or one by one.
   SPDX-License-Identifier: MIT */
#include "resample.h"
#include "backend/cpu/common/isa.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/pool.h"
#include "base/size.h"
#include "kernels/dialect.h"
#include "kernels/params.h"

#include <string.h>

enum { GRAIN = 1 << 14 }; /* minimum elements for each thread */

SITU__ISA_DECLARE(situ__resample_kernels, situ__resample_kernels_f32);
SITU__ISA_DECLARE(situ__resample_kernels, situ__resample_kernels_f64);

/* ---- tables ---- */

static void close_bands(situ__bands *b) {
  situ__free(b->first);
  situ__free(b->weight);
}

/* first and count are set: allocates the weights, all 0. */
static bool open_weights(situ__bands *b, size_t size) {
  int64_t all = 0;
  for (int64_t o = 0; o < b->places; o++) {
    b->start[o] = all;
    all += b->count[o];
    b->most = situ__max_i64(b->most, b->count[o]);
  }
  return (b->weight = situ__calloc((size_t)all + 1, size)) != NULL;
}
static bool open_places(situ__bands *b, int64_t places) {
  *b = (situ__bands){ .places = places, .first = situ__calloc(3 * (size_t)places, sizeof(int64_t)) };
  if (!b->first) return false;
  b->count = b->first + places;
  b->start = b->count + places;
  return true;
}

#define T float
#define TNAME f32
#include "resample_table.h"
#undef T
#undef TNAME
#define T double
#define TNAME f64
#include "resample_table.h"

/* ---- the verb ---- */

typedef struct resampling {
  const situ__resample_kernels *kernels;
  situ__bands bands;
  int64_t inner, x_size, y_size; /* of an outer item, in bytes */
  const char *x;
  char *y;
  int64_t elem;
} resampling;

/* Unit: one place of all lines of an outer item. */
static void beside(int64_t begin, int64_t end, void *payload) {
  const resampling *p = payload;
  const int64_t places = p->bands.places, row = p->inner * p->elem;
  for (int64_t u = begin; u < end; u++)
    p->kernels->beside(&p->bands, u % places, p->inner, p->x + u / places * p->x_size, p->y + u * row);
}
/* Unit: one line. */
static void along(int64_t begin, int64_t end, void *payload) {
  const resampling *p = payload;
  for (int64_t u = begin; u < end; u++) p->kernels->along(&p->bands, p->x + u * p->x_size, p->y + u * p->y_size);
}

situ_status situ__cpu_resample(int index, const situ_work *work) {
  (void)index;
  const situ_view_desc *x = work->in[0], *y = work->out[0];
  const int64_t dim = work->integer[0], from = x->size[dim], to = y->size[dim];
  resampling p = { .elem = situ__cpu_size(x->dtype), .inner = 1, .x = situ__cpu_data(x), .y = situ__cpu_data(y) };
  for (int d = (int)dim + 1; d < x->ndim; d++) p.inner *= x->size[d];
  p.x_size = from * p.inner * p.elem, p.y_size = to * p.inner * p.elem;
  const resamples r = {
    .size = work->op ? to : from, .out = work->op ? from : to, .rule = work->integer[1], .align = work->integer[2]
  };
  const bool wide = x->dtype == SITU_F64;
  p.kernels = wide ? SITU__ISA_PICK(situ__cpu_isa(), situ__resample_kernels_f64)
                   : SITU__ISA_PICK(situ__cpu_isa(), situ__resample_kernels_f32);
  if (!(wide ? make_f64 : make_f32)(&r, work->scalar[0], work->op == 1, &p.bands))
    return situ__fail(SITU_E_NOMEM, "resample", "no memory for the weights of %lld places", (long long)to);
  if (p.inner == 1) situ__parallel(y->numel / to, situ__max_i64(1, GRAIN / to), along, &p);
  else situ__parallel(y->numel / p.inner, situ__max_i64(1, GRAIN / p.inner), beside, &p);
  close_bands(&p.bands);
  return SITU_OK;
}
