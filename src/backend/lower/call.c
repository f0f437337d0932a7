/* Kernel calls: the number of work-items and the size of work-groups.
   SPDX-License-Identifier: MIT */
#include <stdio.h>

#include "backend/lower/lower.h"
#include "kernels/dialect.h"
#include "kernels/convert.h"

void situ__lower_scalars(situ__call *call, const double *from) {
  situ__lower_compute compute = situ__lower_compute_of((situ_dtype)call->variant.compute);
  for (int k = 0; k < 4; k++) {
    if (compute == SITU__COMPUTE_F32) call->scalar.f32[k] = (float)from[k];
    else if (compute == SITU__COMPUTE_F64) call->scalar.f64[k] = from[k];
    else call->scalar.i64[k] = f64_to_i64(from[k]);
  }
  situ__lower_block(call, &call->scalar,
                    compute == SITU__COMPUTE_F32 ? sizeof call->scalar.f32 : sizeof call->scalar.f64);
}

void situ__lower_name(const situ__call *call, char name[SITU__CALL_NAME]) {
  static const char *const text[] = {
#define ROW(name) #name,
    SITU__TEXTS(ROW)
#undef ROW
  };
  const situ__variant *v = &call->variant;
  /* Where a row has a name, its number adds nothing. */
  int used =
      snprintf(name, SITU__CALL_NAME, "situ_%s_%s_%d_%x", text[v->text], call->name ? call->name : "none",
               call->name ? 0 : v->op, v->compute ? (unsigned)situ__lower_compute_dtype((situ_dtype)v->compute) : 0);
  for (int k = 0; k < SITU__CALL_DTYPES; k++)
    used += snprintf(name + used, SITU__CALL_NAME - (size_t)used, "%x", (unsigned)v->dtype[k]);
  (void)snprintf(name + used, SITU__CALL_NAME - (size_t)used, "_%x", (unsigned)v->flags);
}

situ_status situ__lower_items(situ__target *target, const situ__call *call, int64_t items) {
  const int64_t each = (int64_t)target->group;
  return situ__targets->launch(target, call, (items + each - 1) / each);
}

situ_status situ__lower_run(int index, const situ__call *call, int64_t items) {
  situ_status status;
  situ__target *target = situ__targets->enter(index, call->op, &status);
  return target ? situ__targets->leave(target, situ__lower_items(target, call, items)) : status;
}

situ_status situ__lower_run_flat(int index, situ__call *call, int64_t items, int64_t size) {
  situ_status status;
  situ__target *target = situ__targets->enter(index, call->op, &status);
  if (!target) return status;
  if (!target->cpu) return situ__targets->leave(target, situ__lower_items(target, call, items));
  call->alone = true;
  const int64_t each = size < 1 ? STRETCH : size < STRETCH ? STRETCH / size : 1;
  return situ__targets->leave(target, situ__targets->launch(target, call, (items + each - 1) / each));
}

/* Larger than a CPU's caches, from which the next reader could take it, and not written in place. */
static bool is_large(int count, const situ_view_desc *const *views) {
  enum { STREAM_BYTES = 32 << 20 };
  for (int k = 1; k < count; k++)
    if (views[k]->storage == views[0]->storage) return false;
  return views[0]->numel >= STREAM_BYTES / (int64_t)situ__lower_size(views[0]->dtype);
}

situ_status situ__lower_run_walk(int index, situ__call *call, const walk *w, bool dense, int count,
                                 const situ_view_desc *const *views) {
  situ_status status;
  situ__target *target = situ__targets->enter(index, call->op, &status);
  if (!target) return status;
  if (target->cpu) {
    int64_t each = STRETCH;
    if (!dense) {
      call->variant.flags |= FLAG_STRIDED;
    } else if (call->variant.text == SITU__TEXT_elementwise && !call->variant.flags && is_large(count, views)) {
      call->variant.flags = FLAG_STREAMS;
      each = STREAMED_STRETCH;
    }
    call->alone = true;
    return situ__targets->leave(target, situ__targets->launch(target, call, (w->numel + each - 1) / each));
  }
  const int64_t pack = situ__lower_pack(count, views);
  const packs s = situ__lower_packs(target, w, pack, count, views);
  situ__lower_block(call, &s, sizeof s);
  return situ__targets->leave(target,
                              situ__lower_items(target, call, (s.count + ITEM_PACKS(pack) - 1) / ITEM_PACKS(pack)));
}

/* A GPU needs thousands of work-items; a CPU a few work-groups, as it runs the threads of one in a loop. */
situ_status situ__lower_run_lines(int index, situ__call *call, int64_t count, int64_t length, bool beside) {
  enum { SHORT = 64, SHORT_OF_FEW = 8, FEW_GPU = 64, MANY_CPU = 64, MANY_GPU = 16384 };
  situ_status status;
  situ__target *target = situ__targets->enter(index, call->op, &status);
  if (!target) return status;
  if (beside && target->cpu && count >= 4 * BESIDE) {
    call->variant.flags |= FLAG_BESIDE;
    call->alone = true;
    return situ__targets->leave(target, situ__targets->launch(target, call, (count + BESIDE - 1) / BESIDE));
  }
  /* A few lines leave a GPU idle while each work-item waits for one load after the other. */
  const int64_t most = !target->cpu && count < FEW_GPU ? SHORT_OF_FEW : SHORT;
  bool serial = length <= most || count >= (target->cpu ? MANY_CPU : MANY_GPU);
  /* Work-items that each read their own line access as many places at once, which is slow without a large cache. */
  if (!target->cpu && call->variant.flags & FLAG_DENSE) serial = length <= most / 2;
  if (serial) call->variant.flags |= FLAG_SERIAL;
  else if (!target->cpu) call->variant.flags &= ~FLAG_DENSE; /* the threads of a work-group stride anyhow */
  return situ__targets->leave(target, serial ? situ__lower_items(target, call, count)
                                             : situ__targets->launch(target, call, count));
}

bool situ__lower_rows(int index, situ__call *call, int64_t size, row_layout *layout, int count, int vectors,
                      const situ_view_desc *const *views) {
  const situ__target *target = situ__targets->of(index);
  if (!target->warps || size > ROW_MOST) return false;
  const int64_t pack = PACK_BYTES / (int64_t)situ__lower_size(call->variant.dtype[1]);
  *layout = (row_layout){ .skew = situ__lower_skew(target, views[1], pack) };
  for (int k = 0; k < count; k++) {
    if (!views[k]) continue;
    const int64_t skew = situ__lower_skew(target, views[k], pack);
    if (k < vectors ? skew == layout->skew : !skew && !layout->skew && size % pack == 0)
      layout->full |= INT64_C(1) << k;
  }
  const int64_t reach = layout->skew || size % pack ? size + pack - 1 : size;
  call->variant.flags |= FLAG_ROW;
  if (reach <= WARP * ROW_HELD) call->variant.flags |= FLAG_WARP;
  else if (reach > (int64_t)target->group * ROW_HELD) call->variant.flags |= FLAG_LONG;
  return true;
}

situ_status situ__lower_run_rows(int index, const situ__call *call, int64_t rows) {
  return situ__lower_run(index, call,
                         rows * (call->variant.flags & FLAG_WARP ? WARP : (int64_t)situ__targets->of(index)->group));
}

void *situ__lower_scratch(int index, const char *op, size_t bytes) {
  situ_status status;
  situ__target *target = situ__targets->enter(index, op, &status);
  if (!target) return NULL;
  void *scratch = situ__targets->scratch(target, op, bytes);
  (void)situ__targets->leave(target, SITU_OK);
  return scratch;
}
