/* Constants.
   SPDX-License-Identifier: MIT */
#include "backend/cpu/common/loop.h"
#include "move.h"

#include <string.h>

typedef struct value {
  uint64_t bits;
  int64_t size;
} value;

static void fill_row(char *const *data, const int64_t *stride, int64_t count, void *payload) {
  const value *v = payload;
  if (v->bits == 0 && stride[0] == v->size) memset(data[0], 0, (size_t)(count * v->size));
  else situ__cpu_move(v->size, data[0], stride[0], (const char *)&v->bits, 0, count);
}

situ_status situ__cpu_fill(int index, const situ_work *work) {
  (void)index;
  const situ_view_desc *y = work->out[0];
  situ_dtype dtype = (situ_dtype)y->dtype;
  bool integer = situ__cpu_compute(dtype) == SITU__I64;
  value v = { .size = situ__cpu_size(dtype) };
  situ__cpu_narrow(integer ? (const void *)work->integer : work->scalar, integer ? SITU__I64 : SITU__F64, 1, dtype,
                   &v.bits);
  if (y->contiguous && y->numel <= SITU__GRAIN) {
    char *data = situ__cpu_data(y);
    fill_row(&data, &v.size, y->numel, &v);
    return SITU_OK;
  }
  situ__loop loop;
  situ__loop_init(&loop, 1, &y);
  situ__loop_run(&loop, fill_row, &v);
  return SITU_OK;
}
