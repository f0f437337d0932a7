/* Packs many small storages, each cast to a dtype, into one.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/pool.h"
#include "base/size.h"
#include "backend/cpu/common/convert.h"
#include "backend/cpu/common/cpu.h"

enum { AHEAD = 4 };

typedef struct packing {
  const situ_pack_item *item;
  char *full;
  int64_t *lost; /* NULL: not requested */
  const situ__convert *convert;
} packing;

/* The usual item in one pass. Returns false for others, and if values became infinite: then they are to be counted. */
static bool pack_f16(const packing *p, const situ_pack_item *item, const char *x, char *y) {
  return item->dtype == SITU_F32 && item->as == SITU_F16 && !p->convert->f16_of_f32(x, item->numel, y);
}

static void pack(int64_t begin, int64_t end, void *payload) {
  const packing *p = payload;
  situ__cast cast = { .x = SITU_DTYPE_DEFAULT };
  for (int64_t i = begin; i < end; i++) {
    const situ_pack_item *item = &p->item[i];
    if (i + AHEAD < end) __builtin_prefetch(item[AHEAD].storage->data); /* small storages are far apart in memory */
    char *y = p->full + item->at;
    const char *x = item->storage->data;
    if (item->dtype == item->as) {
      memcpy(y, x, (size_t)(item->numel * situ__cpu_size((uint8_t)item->as)));
      continue;
    }
    if (pack_f16(p, item, x, y)) continue;
    /* Most items have the same pair of dtypes. */
    if (cast.x != item->dtype || cast.y != item->as) cast = situ__cpu_cast_of(item->dtype, item->as, NULL);
    cast.lost = p->lost ? &p->lost[item->count] : NULL;
    situ__cpu_cast_row((char *[]){ y, (char *)x }, (int64_t[]){ situ__cpu_size(cast.y), situ__cpu_size(cast.x) },
                       item->numel, &cast);
  }
}

situ_status situ__cpu_pack(int index, const situ_work *work) {
  (void)index;
  packing p = { work->pack, situ__cpu_data(work->out[0]),
                work->outs > 1 ? (int64_t *)situ__cpu_data(work->out[1]) : NULL, situ__cpu_convert() };
  /* A chunk has as many items of average size as justify a thread. */
  enum { WORTH_A_THREAD = 1 << 20 };
  int64_t bytes = work->out[0]->numel, each = situ__max_i64(1, bytes / situ__max_i64(1, work->pack_count));
  situ__parallel(work->pack_count, situ__max_i64(1, WORTH_A_THREAD / each), pack, &p);
  return SITU_OK;
}
