/* Copies and casts between any two views of one shape.
   SPDX-License-Identifier: MIT */
#include "convert.h"
#include "elementwise.h"
#include "loop.h"
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

static void stream_row(char *const *data, const int64_t *stride, int64_t count, void *payload) {
  (void)payload;
  situ__cpu_convert()->stream(data[0], data[1], count * stride[0]);
  situ__stream_end();
}

/* ---- transposed planes: y's rows are x's columns ---- */

enum { TILE = 16 }; /* columns of x that are copied at once: a cache line of f32 */

/* Four elements of 4 bytes in a register; the first two of x and y in turn, and the last two. */
typedef uint32_t four __attribute__((vector_size(16)));
#if defined(__clang__)
#define FIRST(x, y) __builtin_shufflevector(x, y, 0, 4, 1, 5)
#define SECOND(x, y) __builtin_shufflevector(x, y, 2, 6, 3, 7)
#else
#define FIRST(x, y) __builtin_shuffle(x, y, (four){ 0, 4, 1, 5 })
#define SECOND(x, y) __builtin_shuffle(x, y, (four){ 2, 6, 3, 7 })
#endif

/* Four rows of x become columns i to i + 3 of a whole tile. */
static void turn_rows(uint32_t *tile, int64_t i, const char *x, int64_t x_step) {
  for (int c = 0; c < TILE; c += 4, x += sizeof(four)) {
    four row[4];
    for (int r = 0; r < 4; r++) memcpy(&row[r], x + r * x_step, sizeof *row);
    const four even_first = FIRST(row[0], row[2]), even_second = SECOND(row[0], row[2]),
               odd_first = FIRST(row[1], row[3]), odd_second = SECOND(row[1], row[3]);
    const four turned[4] = { FIRST(even_first, odd_first), SECOND(even_first, odd_first),
                             FIRST(even_second, odd_second), SECOND(even_second, odd_second) };
    for (int r = 0; r < 4; r++) memcpy(&tile[(c + r) * TILE + i], &turned[r], sizeof *turned);
  }
}
#undef FIRST
#undef SECOND

/* y[c][r] = x[r][c] for `columns` columns of x, at most TILE. Goes through a tile in L1, so that each cache line of x
   and of y is touched once, even if their strides map to few cache sets. */
#define TRANSPOSE(name, T)                                                                                      \
  static void name(char *y, int64_t y_step, const char *x, int64_t x_step, int64_t rows, int columns) {         \
    T tile[TILE][TILE];                                                                                         \
    for (int64_t r = 0; r < rows; r += TILE) {                                                                  \
      const int64_t height = situ__min_i64(TILE, rows - r);                                                     \
      const int64_t turned = sizeof(T) == 4 && columns == TILE ? height & ~(int64_t)3 : 0;                      \
      for (int64_t i = 0; i < turned; i += 4) turn_rows((void *)tile, i, x + (r + i) * x_step, x_step);         \
      for (int64_t i = turned; i < height; i++) {                                                               \
        const T *from = (const T *)(x + (r + i) * x_step);                                                      \
        for (int c = 0; c < columns; c++) tile[c][i] = from[c];                                                 \
      }                                                                                                         \
      for (int c = 0; c < columns; c++) memcpy((T *)(y + c * y_step) + r, tile[c], (size_t)height * sizeof(T)); \
    }                                                                                                           \
  }
TRANSPOSE(transpose_1, uint8_t)
TRANSPOSE(transpose_2, uint16_t)
TRANSPOSE(transpose_4, uint32_t)
TRANSPOSE(transpose_8, uint64_t)

typedef struct planes {
  const situ__loop *loop;
  int64_t size, tiles; /* of an element; number of tiles along the columns of x */
  int column;          /* the dimension along which x is contiguous */
} planes;

/* Unit: TILE columns of one plane. */
static void transpose(int64_t begin, int64_t end, void *payload) {
  const planes *p = payload;
  const situ__loop *loop = p->loop;
  const int row = loop->ndim - 1;
  for (int64_t unit = begin; unit < end; unit++) {
    int64_t first = unit % p->tiles * TILE, rest = unit / p->tiles;
    char *y = loop->data[0] + first * loop->stride[0][p->column];
    const char *x = loop->data[1] + first * loop->stride[1][p->column];
    for (int d = row - 1; d >= 0; d--) {
      if (d == p->column) continue;
      y += rest % loop->size[d] * loop->stride[0][d];
      x += rest % loop->size[d] * loop->stride[1][d];
      rest /= loop->size[d];
    }
    int columns = (int)situ__min_i64(TILE, loop->size[p->column] - first);
    int64_t y_step = loop->stride[0][p->column], x_step = loop->stride[1][row], rows = loop->size[row];
    if (p->size == 4) transpose_4(y, y_step, x, x_step, rows, columns);
    else if (p->size == 8) transpose_8(y, y_step, x, x_step, rows, columns);
    else if (p->size == 2) transpose_2(y, y_step, x, x_step, rows, columns);
    else transpose_1(y, y_step, x, x_step, rows, columns);
  }
}

/* Copies if y's rows are contiguous and x is contiguous along another dimension. Returns false otherwise, and for rows
   of one number each, as in the gradient of a sum over rows: unless they are short, they are filled as fast. */
static bool transposed(const situ__loop *loop, int64_t size) {
  const int row = loop->ndim - 1;
  if (loop->stride[0][row] != size || loop->stride[1][row] == size) return false;
  if (loop->stride[1][row] == 0 && loop->size[row] >= TILE) return false;
  for (int d = 0; d < row; d++) {
    if (loop->stride[1][d] != size) continue;
    planes p = { loop, size, situ__ceil_div(loop->size[d], TILE), d };
    int64_t units = loop->numel / loop->size[d] / loop->size[row] * p.tiles;
    situ__parallel(units, situ__max_i64(1, SITU__GRAIN / (TILE * loop->size[row])), transpose, &p);
    return true;
  }
  return false;
}

/* ---- casts ---- */

situ__cast situ__cpu_cast_of(situ_dtype x, situ_dtype y, int64_t *lost) {
  situ__lane lane = situ__cpu_lane(x);
  return (situ__cast){ .convert = situ__cpu_convert(),
                       .x = (uint8_t)x,
                       .y = (uint8_t)y,
                       .lane = lane,
                       .plain_x = situ__cpu_native(x),
                       .plain_y = situ__cpu_native(y) && situ__cpu_lane(y) == lane,
                       .lost = lost };
}

/* Converts through x's compute type, which represents all its values; directly where one side has that type. */
static void convert_row(const situ__cast *c, char *const *data, const int64_t *stride, int64_t count) {
  if (c->plain_x && stride[1] == situ__cpu_size(c->x)) {
    c->convert->store[c->lane][c->y](data[1], count, data[0], stride[0]);
    return;
  }
  if (c->plain_y && stride[0] == situ__cpu_size(c->y)) {
    c->convert->load[c->x][c->lane](data[1], stride[1], count, data[0]);
    return;
  }
  _Alignas(64) char block[SITU__BLOCK * 8];
  for (int64_t at = 0; at < count; at += SITU__BLOCK) {
    int64_t n = situ__min_i64(SITU__BLOCK, count - at);
    c->convert->load[c->x][c->lane](data[1] + at * stride[1], stride[1], n, block);
    c->convert->store[c->lane][c->y](block, n, data[0] + at * stride[0], stride[0]);
  }
}

/* Converts a row and counts the new infinities while it is in L1. */
static void count_row(const situ__cast *c, char *const *data, const int64_t *stride, int64_t count) {
  int64_t lost = 0;
  for (int64_t at = 0; at < count; at += 4 * SITU__BLOCK) {
    int64_t n = situ__min_i64(4 * SITU__BLOCK, count - at);
    char *const here[2] = { data[0] + at * stride[0], data[1] + at * stride[1] };
    convert_row(c, here, stride, n);
    int64_t infinite = c->convert->infinite[c->y](here[0], stride[0], n);
    if (infinite) lost += infinite - c->convert->infinite[c->x](here[1], stride[1], n);
  }
  if (lost) (void)__atomic_fetch_add(c->lost, lost, __ATOMIC_RELAXED);
}

void situ__cpu_cast_row(char *const *data, const int64_t *stride, int64_t count, void *payload) {
  const situ__cast *c = payload;
  if (c->lost) count_row(c, data, stride, count);
  else convert_row(c, data, stride, count);
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
  bool plain = dtype == view[1]->dtype && view[0]->contiguous && view[1]->contiguous;
  if (plain && loop.numel * size >= STREAM_BYTES) {
    situ__loop_run(&loop, stream_row, NULL);
  } else if (dtype != view[1]->dtype) {
    int64_t *lost = work->outs > 1 && work->out[1] ? (int64_t *)(void *)situ__cpu_data(work->out[1]) : NULL;
    situ__cast c = situ__cpu_cast_of((situ_dtype)view[1]->dtype, (situ_dtype)dtype, lost);
    situ__loop_run(&loop, situ__cpu_cast_row, &c);
  } else if (!transposed(&loop, size)) {
    situ__loop_run(&loop, move_row, &size);
  }
  return SITU_OK;
}
