/* Copies and casts between any two views of one shape.
   SPDX-License-Identifier: MIT */
#include "backend/cpu/common/convert.h"
#include "elementwise.h"
#include "backend/cpu/common/loop.h"
#include "move.h"

#include "base/pool.h"
#include "base/size.h"
#include "base/stream.h"

#include <string.h>

/* ---- rows of one dtype ---- */

#define MOVE(name, T)                                                                        \
  static void name(char *y, int64_t y_step, const char *x, int64_t x_step, int64_t n) {      \
    if (x_step == 0 && y_step == sizeof(T)) {                                                \
      const T value = *(const T *)x;                                                         \
      for (int64_t i = 0; i < n; i++) ((T *)y)[i] = value;                                   \
    } else if (x_step == -(int64_t)sizeof(T) && y_step == sizeof(T)) {                       \
      for (int64_t i = 0; i < n; i++) ((T *)y)[i] = ((const T *)x)[-i];                      \
    } else {                                                                                 \
      for (int64_t i = 0; i < n; i++) *(T *)(y + i * y_step) = *(const T *)(x + i * x_step); \
    }                                                                                        \
  }
MOVE(move_1, uint8_t)
MOVE(move_2, uint16_t)
MOVE(move_4, uint32_t)
MOVE(move_8, uint64_t)

void situ__cpu_move(int64_t size, char *y, int64_t y_step, const char *x, int64_t x_step, int64_t n) {
  if (y_step == size && x_step == size) memcpy(y, x, (size_t)(n * size));
  else if (size == 4) move_4(y, y_step, x, x_step, n);
  else if (size == 8) move_8(y, y_step, x, x_step, n);
  else if (size == 2) move_2(y, y_step, x, x_step, n);
  else move_1(y, y_step, x, x_step, n);
}

/* Copies larger than the caches use non-temporal stores, which do not read lines before writing them. */
enum { STREAM_BYTES = 32 << 20 };

static void move_row(char *const *data, const int64_t *stride, int64_t count, void *payload) {
  const int64_t *size = payload;
  situ__cpu_move(*size, data[0], stride[0], data[1], stride[1], count);
}

typedef struct rows {
  const situ__loop *loop;
  int64_t size; /* bytes of an element */
} rows;

/* Unit: a row that is contiguous in both. Copies many rows at a time: a step of the walk takes as long as 64 f32. */
static void copy_planes(int64_t begin, int64_t end, void *payload) {
  const rows *p = payload;
  const situ__loop *loop = p->loop;
  const int row = loop->ndim - 1, plane = row - 1;
  const int64_t height = loop->size[plane], y_step = loop->stride[0][plane], x_step = loop->stride[1][plane];
  for (int64_t n; begin < end; begin += n) {
    int64_t first = begin % height, rest = begin / height;
    char *y = loop->data[0] + first * y_step;
    const char *x = loop->data[1] + first * x_step;
    for (int d = plane - 1; d >= 0; d--) {
      y += rest % loop->size[d] * loop->stride[0][d];
      x += rest % loop->size[d] * loop->stride[1][d];
      rest /= loop->size[d];
    }
    n = situ__min_i64(height - first, end - begin);
    situ__cpu_convert()->copy_rows(y, y_step, x, x_step, n, loop->size[row] * p->size);
  }
}

static bool copy_rows(const situ__loop *loop, int64_t size) {
  const int row = loop->ndim - 1;
  if (!row || loop->stride[0][row] != size || loop->stride[1][row] != size || loop->size[row] > SITU__GRAIN)
    return false;
  situ__parallel(loop->numel / loop->size[row], SITU__GRAIN / loop->size[row], copy_planes, &(rows){ loop, size });
  return true;
}

static void stream_row(char *const *data, const int64_t *stride, int64_t count, void *payload) {
  (void)payload;
  situ__cpu_convert()->stream(data[0], data[1], count * stride[0]);
  situ__stream_end();
}

/* ---- casts ---- */

situ__cast situ__cpu_cast_of(situ_dtype x, situ_dtype y, int64_t *lost) {
  situ__compute compute = situ__cpu_compute(x);
  return (situ__cast){ .convert = situ__cpu_convert(),
                       .x = (uint8_t)x,
                       .y = (uint8_t)y,
                       .compute = compute,
                       .plain_x = situ__cpu_native(x),
                       .plain_y = situ__cpu_native(y) && situ__cpu_compute(y) == compute,
                       .lost = lost };
}

/* Converts through x's compute type, which represents all its values; directly where one side has that type. */
static void convert_row(const situ__cast *c, char *const *data, const int64_t *stride, int64_t count) {
  if (c->plain_x && stride[1] == situ__cpu_size(c->x)) {
    c->convert->store[c->compute][c->y](data[1], count, data[0], stride[0]);
    return;
  }
  if (c->plain_y && stride[0] == situ__cpu_size(c->y)) {
    c->convert->load[c->x][c->compute](data[1], stride[1], count, data[0]);
    return;
  }
  _Alignas(64) char block[SITU__BLOCK * 8];
  for (int64_t at = 0; at < count; at += SITU__BLOCK) {
    int64_t n = situ__min_i64(SITU__BLOCK, count - at);
    c->convert->load[c->x][c->compute](data[1] + at * stride[1], stride[1], n, block);
    c->convert->store[c->compute][c->y](block, n, data[0] + at * stride[0], stride[0]);
  }
}

/* Converts a row by pieces, which are in L1 when new infinities are counted in them, and when they go on from `piece`
   past the caches (NULL: they stay where they are). */
enum { PIECE = 4 * SITU__BLOCK };
static void cast_pieces(const situ__cast *c, char *const *data, const int64_t *stride, int64_t count, char *piece) {
  int64_t lost = 0;
  for (int64_t at = 0; at < count; at += PIECE) {
    int64_t n = situ__min_i64(PIECE, count - at);
    char *y = data[0] + at * stride[0], *const here[2] = { piece ? piece : y, data[1] + at * stride[1] };
    convert_row(c, here, stride, n);
    int64_t infinite = c->lost ? c->convert->infinite[c->y](here[0], stride[0], n) : 0;
    if (infinite) lost += infinite - c->convert->infinite[c->x](here[1], stride[1], n);
    if (piece) c->convert->stream(y, piece, n * stride[0]);
  }
  if (lost) (void)__atomic_fetch_add(c->lost, lost, __ATOMIC_RELAXED);
}

void situ__cpu_cast_row(char *const *data, const int64_t *stride, int64_t count, void *payload) {
  const situ__cast *c = payload;
  if (c->lost) cast_pieces(c, data, stride, count, NULL);
  else convert_row(c, data, stride, count);
}

static void stream_cast_row(char *const *data, const int64_t *stride, int64_t count, void *payload) {
  _Alignas(64) char piece[PIECE * 8];
  cast_pieces(payload, data, stride, count, piece);
  situ__stream_end();
}

situ_status situ__cpu_copy(int index, const situ_work *work) {
  (void)index;
  const situ_view_desc *view[2] = { work->out[0], work->in[0] };
  uint8_t dtype = view[0]->dtype;
  int64_t size = situ__cpu_size(dtype);
  if (dtype == view[1]->dtype && view[0]->contiguous && view[1]->contiguous && view[0]->numel <= SITU__GRAIN) {
    memcpy(situ__cpu_data(view[0]), situ__cpu_data(view[1]), (size_t)(view[0]->numel * size));
    return SITU_OK;
  }
  situ__loop loop;
  situ__loop_init(&loop, 2, view);
  const bool large = loop.numel * size >= STREAM_BYTES && view[0]->contiguous;
  if (large && dtype == view[1]->dtype && view[1]->contiguous) {
    situ__loop_run(&loop, stream_row, NULL);
  } else if (dtype != view[1]->dtype) {
    int64_t *lost = work->outs > 1 && work->out[1] ? (int64_t *)(void *)situ__cpu_data(work->out[1]) : NULL;
    situ__cast c = situ__cpu_cast_of((situ_dtype)view[1]->dtype, (situ_dtype)dtype, lost);
    situ__loop_run(&loop, large ? stream_cast_row : situ__cpu_cast_row, &c);
  } else if (!copy_rows(&loop, size) && !situ__cpu_transpose(&loop, size)) {
    situ__loop_run(&loop, move_row, &size);
  }
  return SITU_OK;
}
