/* Products of u8 and i8, summed exactly: what the kernels are given, and the verb's products of matrices.
   SPDX-License-Identifier: MIT */
#include "bytes.h"
#include "backend/cpu/common/loop.h"
#include "backend/cpu/common/operand.h"
#include "backend/cpu/common/slots.h"

#include "base/pool.h"
#include "base/size.h"
#include "device/profile/profile.h"

#include <string.h>

enum { COLUMNS = SITU__BYTES_COLUMNS };

/* ---- b ---- */

/* One panel and the sums of its columns. */
static void pack_panel(const situ__bytes_source *b, int64_t panel, void *to) {
  const int64_t groups = situ__bytes_groups(b->k), panels = situ__bytes_panels(b->n), first = panel * COLUMNS;
  const int columns = (int)situ__min_i64(COLUMNS, b->n - first);
  int8_t *at = (int8_t *)to + panel * groups * 4 * COLUMNS;
  int32_t *sums = (int32_t *)(void *)((int8_t *)to + panels * groups * 4 * COLUMNS) + first;
  const unsigned char flip = b->is_signed ? 0 : 128;
  memset(sums, 0, COLUMNS * sizeof *sums);
  memset(at, 0, (size_t)(groups * 4 * COLUMNS));
  int64_t i = 0;
  for (int64_t outer = 0; i < b->k; outer++)
    for (int64_t middle = 0; middle < b->middles; middle++)
      for (int64_t inner = 0; inner < b->inners; inner++, i++) {
        const unsigned char *from =
            b->b + outer * b->outer_step + middle * b->middle_step + inner * b->inner_step + first * b->column;
        int8_t *lane = at + i / 4 * 4 * COLUMNS + i % 4;
        for (int j = 0; j < columns; j++) {
          lane[4 * j] = (int8_t)(from[j * b->column] ^ flip);
          sums[j] = (int32_t)((uint32_t)sums[j] + (uint32_t)lane[4 * j]);
        }
      }
}

typedef struct packing {
  const situ__bytes_source *source;
  void *to;
} packing;
static void pack_panels(int64_t begin, int64_t end, void *payload) {
  const packing *p = payload;
  for (int64_t panel = begin; panel < end; panel++) pack_panel(p->source, panel, p->to);
}
void situ__bytes_pack(const situ__bytes_source *b, void *to) {
  packing p = { b, to };
  situ__parallel(situ__bytes_panels(b->n), situ__max_i64(1, SITU__GRAIN / (b->k * COLUMNS + 1)), pack_panels, &p);
}

/* ---- a, and the results ---- */

/* Element i of an operand of bytes, which may have one for all; absent: 0. */
static int32_t byte_at(const situ_view_desc *v, int64_t i) {
  if (!v) return 0;
  const unsigned char *at = (const unsigned char *)situ__cpu_data(v) + (v->numel == 1 ? 0 : i);
  return v->dtype == SITU_I8 ? (int8_t)*at : *at;
}

int32_t situ__bytes_zero_a(const situ_work *w) {
  return byte_at(situ__bytes_operand(w, ZERO_A), 0) + situ__bytes_flip(w->in[A]->dtype);
}

void situ__bytes_finish_at(const situ_work *w, int64_t column, int columns, int64_t k, const int32_t *sums,
                           situ__bytes_finish *f) {
  const situ_view_desc *zero_b = situ__bytes_operand(w, ZERO_B), *bias = situ__bytes_operand(w, BIAS),
                       *scale = situ__bytes_operand(w, SCALE), *zero_y = situ__bytes_operand(w, ZERO_Y);
  const int32_t zero_a = situ__bytes_zero_a(w), shift = w->in[B]->dtype == SITU_U8 ? 128 : 0;
  const uint32_t both = (uint32_t)k * (uint32_t)zero_a;
  memset(f, 0, sizeof *f);
  f->dtype = w->out[0]->dtype;
  for (int j = 0; j < columns; j++) {
    f->zero[j] = byte_at(zero_b, column + j) - shift;
    if (bias) f->offset[j] = ((const int32_t *)(const void *)situ__cpu_data(bias))[column + j];
    if (sums)
      f->offset[j] =
          (int32_t)((uint32_t)f->offset[j] - (uint32_t)zero_a * (uint32_t)sums[j] + both * (uint32_t)f->zero[j]);
    if (scale) f->scale[j] = ((const float *)(const void *)situ__cpu_data(scale))[scale->numel == 1 ? 0 : column + j];
  }
  if (!zero_y) return;
  f->zero_y = byte_at(zero_y, 0);
  f->low = (float)((f->dtype == SITU_I8 ? -128 : 0) - f->zero_y);
  f->high = (float)((f->dtype == SITU_I8 ? 127 : 255) - f->zero_y);
}

static int32_t sum_of(const uint8_t *a, int64_t k) {
  uint32_t sum = 0;
  for (int64_t i = 0; i < k; i++) sum += a[i];
  return (int32_t)sum;
}

void situ__bytes_rows(const situ__bytes *p, const uint8_t *a, int64_t a_row, int64_t rows, int64_t from, int64_t to,
                      char *y, int64_t y_row) {
  const int64_t groups = situ__bytes_groups(p->k), item = situ__cpu_size(p->work->out[0]->dtype);
  const int32_t *sums =
      (const int32_t *)(const void *)((const char *)p->packed + situ__bytes_panels(p->n) * groups * 4 * COLUMNS);
  for (int64_t panel = from; panel < to; panel++) {
    const int64_t column = panel * COLUMNS;
    const int columns = (int)situ__min_i64(COLUMNS, p->n - column);
    situ__bytes_finish f;
    situ__bytes_finish_at(p->work, p->first + column, columns, p->k, sums + column, &f);
    bool zeros = true; /* of b: then the sums of a's rows do not matter */
    for (int j = 0; j < columns; j++) zeros = zeros && f.zero[j] == 0;
    for (int64_t row = 0; row < rows; row += SITU__BYTES_ROWS) {
      int32_t c[SITU__BYTES_ROWS * COLUMNS];
      const int count = (int)situ__min_i64(SITU__BYTES_ROWS, rows - row);
      p->kernels->multiply(a + row * a_row, a_row, count, (const int8_t *)p->packed + panel * groups * 4 * COLUMNS,
                           groups, c);
      for (int r = 0; r < count; r++)
        p->kernels->finish(&f, c + r * COLUMNS, zeros ? 0 : sum_of(a + (row + r) * a_row, p->k), columns,
                           y + ((row + r) * y_row + column) * item);
    }
  }
}

/* ---- bytes as columns ---- */

typedef uint8_t bytes_16 __attribute__((vector_size(16)));
#if defined(__clang__)
#define MERGE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define MERGE(a, b, ...) __builtin_shuffle(a, b, (bytes_16){ __VA_ARGS__ })
#endif
#define LOW(a, b) MERGE(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define HIGH(a, b) MERGE(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)

/* Four steps, each of which merges row i with row i + 8. */
static void transpose_square(const uint8_t *from, int64_t from_row, uint8_t flip, uint8_t *to, int64_t to_row) {
  bytes_16 x[16], y[16];
  for (int i = 0; i < 16; i++) memcpy(&x[i], from + i * from_row, sizeof x[i]);
  for (int step = 0; step < 4; step++) {
    for (int i = 0; i < 8; i++) y[2 * i] = LOW(x[i], x[i + 8]), y[2 * i + 1] = HIGH(x[i], x[i + 8]);
    memcpy(x, y, sizeof x);
  }
  for (int i = 0; i < 16; i++) {
    x[i] ^= flip;
    memcpy(to + i * to_row, &x[i], sizeof x[i]);
  }
}

void situ__bytes_transpose(const uint8_t *from, int64_t from_row, int64_t rows, int64_t columns, uint8_t flip,
                           uint8_t *to, int64_t to_row) {
  const int64_t last_row = rows / 16 * 16, last_column = columns / 16 * 16;
  for (int64_t i = 0; i < last_row; i += 16)
    for (int64_t j = 0; j < last_column; j += 16)
      transpose_square(from + i * from_row + j, from_row, flip, to + j * to_row + i, to_row);
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = i < last_row ? last_column : 0; j < columns; j++)
      to[j * to_row + i] = from[i * from_row + j] ^ flip;
}

/* ---- the verb ---- */

static situ__bytes_source matrix_of(const situ_view_desc *b, int64_t item) {
  const int last = b->ndim - 1;
  return (situ__bytes_source){ .b = (const unsigned char *)situ__cpu_data(b) + (last == 2 ? item * b->stride[0] : 0),
                               .is_signed = b->dtype == SITU_I8,
                               .k = b->size[last - 1],
                               .n = b->size[last],
                               .column = b->stride[last],
                               .middles = 1,
                               .inners = b->size[last - 1],
                               .inner_step = b->stride[last - 1] };
}

typedef struct product {
  situ__bytes p;
  const uint8_t *a;
  char *y;
  int64_t rows, block, panels; /* of a; of a chunk: rows and panels */
  situ__slots scratch;
  bool in_place;
} product;

/* A chunk is a block of rows by some panels. */
static void run_chunks(int64_t begin, int64_t end, void *payload) {
  product *t = payload;
  const int64_t k = t->p.k, panels = situ__bytes_panels(t->p.n), across = situ__ceil_div(panels, t->panels);
  const int64_t padded = 4 * situ__bytes_groups(k);
  const uint8_t flip = situ__bytes_flip(t->p.work->in[A]->dtype);
  uint8_t *copy = situ__slots_take(&t->scratch);
  for (int64_t chunk = begin; chunk < end; chunk++) {
    const int64_t row = chunk / across * t->block, rows = situ__min_i64(t->block, t->rows - row);
    const int64_t from = chunk % across * t->panels, to = situ__min_i64(panels, from + t->panels);
    const uint8_t *a = t->a + row * k;
    if (!t->in_place)
      for (int64_t r = 0; r < rows; r++) {
        for (int64_t i = 0; i < k; i++) copy[r * padded + i] = a[r * k + i] ^ flip;
        memset(copy + r * padded + k, 0, (size_t)(padded - k));
      }
    situ__bytes_rows(&t->p, t->in_place ? a : copy, padded, rows, from, to,
                     t->y + row * t->p.n * situ__cpu_size(t->p.work->out[0]->dtype), t->p.n);
  }
  situ__slots_give(&t->scratch, copy);
}

static situ_status multiply(const situ_work *w) {
  enum { BLOCK = 64 };
  const situ_view_desc *a = w->in[A], *b = w->in[B], *packed = situ__bytes_operand(w, PACKED);
  const int64_t items = a->size[0], m = a->size[1], k = a->size[2], n = b->size[b->ndim - 1];
  const bool shared = b->size[0] == 1 || items == 1;
  product t = { .p = { situ__bytes_kernels_best(), w, packed ? situ__cpu_data(packed) : NULL, k, n, 0 },
                .rows = shared ? items * m : m,
                .in_place = k % 4 == 0 && a->dtype == SITU_U8 };
  t.block = situ__min_i64(BLOCK, t.rows);
  t.panels = situ__max_i64(1, 16 * SITU__GRAIN / (t.block * (k + 1) * COLUMNS));
  const int64_t chunks = situ__ceil_div(t.rows, t.block) * situ__ceil_div(situ__bytes_panels(n), t.panels);
  situ__slots laid_out = { 0 };
  situ_status status = situ__slots_open(&t.scratch, "integer", t.in_place ? 0 : (size_t)(t.block * (k + 3)), chunks);
  if (status == SITU_OK && !packed)
    status = situ__slots_open(&laid_out, "integer", (size_t)situ_integer_prepack_bytes(k, n), 1);
  void *const memory = status == SITU_OK ? situ__slots_take(&laid_out) : NULL;
  for (int64_t item = 0; status == SITU_OK && item < (shared ? 1 : items); item++) {
    const situ__bytes_source source = matrix_of(b, item);
    if (!packed) situ__bytes_pack(&source, memory), t.p.packed = memory;
    t.a = (const uint8_t *)situ__cpu_data(a) + item * m * k;
    t.y = situ__cpu_data(w->out[0]) + item * m * n * situ__cpu_size(w->out[0]->dtype);
    situ__parallel(chunks, 1, run_chunks, &t);
  }
  situ__slots_give(&laid_out, memory);
  situ__slots_close(&laid_out);
  situ__slots_close(&t.scratch);
  return status;
}

situ_status situ__cpu_integer(int index, const situ_work *w) {
  (void)index;
  situ__profile_algorithm("bytes");
  return w->op == SITU_INTEGER_CONV ? situ__cpu_integer_conv(w) : multiply(w);
}

situ_status situ__cpu_bytes_prepack(const situ_work *w) {
  if (w->window) return situ__cpu_bytes_conv_prepack(w);
  const situ__bytes_source source = matrix_of(w->in[0], 0);
  situ__bytes_pack(&source, situ__cpu_data(w->out[0]));
  return SITU_OK;
}
