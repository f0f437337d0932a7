/* Copies of transposed planes: y's rows are x's columns.
   SPDX-License-Identifier: MIT */
#include "backend/cpu/common/loop.h"
#include "move.h"

#include "base/pool.h"
#include "base/size.h"

#include <string.h>

enum {
  REGISTER = 16, /* bytes; all processors have such vectors */
  RUN = 256,     /* bytes of a row of x that are read at once: lines that follow each other come together */
  HEIGHT = 64    /* rows of x at once, which are a run of a row of y */
};

#if defined(__clang__)
#define PICK(vector, a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define PICK(vector, a, b, ...) __builtin_shuffle(a, b, (vector){ __VA_ARGS__ })
#endif

/* Lanes of the first halves of a and b in turn, or of the second halves. */
#define FIRST_1 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define SECOND_1 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#define FIRST_2 0, 8, 1, 9, 2, 10, 3, 11
#define SECOND_2 4, 12, 5, 13, 6, 14, 7, 15
#define FIRST_4 0, 4, 1, 5
#define SECOND_4 2, 6, 3, 7
#define FIRST_8 0, 2
#define SECOND_8 1, 3

/* y[c][r] = x[r][c] for `columns` columns of x, at most RUN bytes. Goes through a tile in L1, so that each cache line
   of x and of y is touched once, even if their strides map to few cache sets. Squares are transposed in registers: a
   round takes lanes of rows i and i + N / 2 in turn, which after log2(N) rounds has brought each to its place. */
#define TRANSPOSE(size, T)                                                                                          \
  typedef T vector_##size __attribute__((vector_size(REGISTER)));                                                   \
  static inline void square_##size(T(*tile)[HEIGHT], int64_t i, const char *x, int64_t x_step) {                    \
    enum { N = REGISTER / size };                                                                                   \
    vector_##size row[N], turned[N];                                                                                \
    for (int r = 0; r < N; r++) memcpy(&row[r], x + r * x_step, REGISTER);                                          \
    for (int round = 1; round < N; round *= 2) {                                                                    \
      for (int r = 0; r < N / 2; r++) {                                                                             \
        turned[2 * r] = PICK(vector_##size, row[r], row[r + N / 2], FIRST_##size);                                  \
        turned[2 * r + 1] = PICK(vector_##size, row[r], row[r + N / 2], SECOND_##size);                             \
      }                                                                                                             \
      memcpy(row, turned, sizeof row);                                                                              \
    }                                                                                                               \
    for (int r = 0; r < N; r++) memcpy(tile[r] + i, &row[r], REGISTER);                                             \
  }                                                                                                                 \
  static void transpose_##size(char *y, int64_t y_step, const char *x, int64_t x_step, int64_t rows, int columns) { \
    enum { N = REGISTER / size };                                                                                   \
    T tile[RUN / size][HEIGHT];                                                                                     \
    for (int64_t r = 0; r < rows; r += HEIGHT, x += HEIGHT * x_step) {                                              \
      const int64_t height = situ__min_i64(HEIGHT, rows - r), squares = height / N * N, across = columns / N * N;   \
      for (int64_t i = 0; i < squares; i += N)                                                                      \
        for (int64_t c = 0; c < across; c += N) square_##size(tile + c, i, x + i * x_step + c * size, x_step);      \
      for (int64_t i = 0; i < height; i++)                                                                          \
        for (int64_t c = i < squares ? across : 0; c < columns; c++) tile[c][i] = ((const T *)(x + i * x_step))[c]; \
      for (int c = 0; c < columns; c++) memcpy(y + c * y_step + r * size, tile[c], (size_t)(height * size));        \
    }                                                                                                               \
  }
TRANSPOSE(1, uint8_t)
TRANSPOSE(2, uint16_t)
TRANSPOSE(4, uint32_t)
TRANSPOSE(8, uint64_t)

typedef struct planes {
  const situ__loop *loop;
  int64_t size, tile, tiles; /* bytes of an element; columns of x at once, and how often */
  int column;                /* the dimension along which x is contiguous */
} planes;

/* Unit: some columns of one plane. */
static void transpose(int64_t begin, int64_t end, void *payload) {
  const planes *p = payload;
  const situ__loop *loop = p->loop;
  const int row = loop->ndim - 1;
  for (int64_t unit = begin; unit < end; unit++) {
    int64_t first = unit % p->tiles * p->tile, rest = unit / p->tiles;
    char *y = loop->data[0] + first * loop->stride[0][p->column];
    const char *x = loop->data[1] + first * loop->stride[1][p->column];
    for (int d = row - 1; d >= 0; d--) {
      if (d == p->column) continue;
      y += rest % loop->size[d] * loop->stride[0][d];
      x += rest % loop->size[d] * loop->stride[1][d];
      rest /= loop->size[d];
    }
    int columns = (int)situ__min_i64(p->tile, loop->size[p->column] - first);
    int64_t y_step = loop->stride[0][p->column], x_step = loop->stride[1][row], rows = loop->size[row];
    if (p->size == 4) transpose_4(y, y_step, x, x_step, rows, columns);
    else if (p->size == 8) transpose_8(y, y_step, x, x_step, rows, columns);
    else if (p->size == 2) transpose_2(y, y_step, x, x_step, rows, columns);
    else transpose_1(y, y_step, x, x_step, rows, columns);
  }
}

bool situ__cpu_transpose(const situ__loop *loop, int64_t size) {
  enum { SHORT = 16 };
  const int row = loop->ndim - 1;
  if (loop->stride[0][row] != size || loop->stride[1][row] == size) return false;
  if (loop->stride[1][row] == 0 && loop->size[row] >= SHORT) return false;
  for (int d = 0; d < row; d++) {
    if (loop->stride[1][d] != size) continue;
    planes p = { .loop = loop, .size = size, .tile = RUN / size, .column = d };
    p.tiles = situ__ceil_div(loop->size[d], p.tile);
    const int64_t units = loop->numel / loop->size[d] / loop->size[row] * p.tiles;
    situ__parallel(units, situ__max_i64(1, SITU__GRAIN / (p.tile * loop->size[row])), transpose, &p);
    return true;
  }
  return false;
}
