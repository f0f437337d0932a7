/* Products of u8 and i8, summed exactly in i32: panels of the second factor, the kernels of each instruction set, and
   what makes results of the sums.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BACKEND_CPU_BYTES_H
#define SITU_BACKEND_CPU_BYTES_H

#include "backend/cpu/common/isa.h"

/* Operands of the verb's work. */
enum { A, B, ZERO_A, ZERO_B, BIAS, SCALE, ZERO_Y, PACKED };
/* A panel has the columns of b, four along k together: [groups][columns][4], filled up with zeros. */
enum { SITU__BYTES_COLUMNS = 32, SITU__BYTES_ROWS = 8 };

/* Factors are u8 for a and i8 for b: i8 in a is taken as 128 more, u8 in b as 128 less, and so are their zero points.
   What the columns of a panel add to their sums, and the results that these give. */
typedef struct situ__bytes_finish {
  int32_t offset[SITU__BYTES_COLUMNS]; /* bias - zero of a * sum of the column + k * both zero points */
  int32_t zero[SITU__BYTES_COLUMNS];   /* of b: times the sum of a's row, to be subtracted */
  float scale[SITU__BYTES_COLUMNS];
  int dtype;       /* of y: I32, F32, U8, I8 */
  int32_t zero_y;  /* U8, I8 */
  float low, high; /* of the dtype, less zero_y */
} situ__bytes_finish;

typedef struct situ__bytes_kernels {
  /* c [rows][columns] = `rows` (1 to SITU__BYTES_ROWS) rows of a, a_row bytes apart, 4 * groups long, by a panel. */
  void (*multiply)(const uint8_t *a, int64_t a_row, int rows, const int8_t *panel, int64_t groups, int32_t *c);
  /* A row of c with the sum of its row of a becomes `columns` elements of y. */
  void (*finish)(const situ__bytes_finish *f, const int32_t *c, int32_t row_sum, int columns, void *y);
  /* c [channels] = sum over `taps` of (x - zero_x) (w - zero), where x[tap] is a row of channels or NULL: nothing
     there, and w is [taps][channels]; channels are at most SITU__BYTES_COLUMNS. */
  void (*depthwise)(const uint8_t *const *x, int32_t zero_x, const int8_t *w, int64_t w_row, const int32_t *zero,
                    int taps, int channels, int32_t *c);
} situ__bytes_kernels;
SITU__ISA_DECLARE(situ__bytes_kernels, situ__bytes_kernels);
#ifdef SITU_HAVE_ISA_BF16
extern const situ__bytes_kernels situ__bytes_kernels_vnni;
#endif
static inline const situ__bytes_kernels *situ__bytes_kernels_best(void) {
#ifdef SITU_HAVE_ISA_BF16
  if (situ__cpu_isa() >= SITU__ISA_BF16) return &situ__bytes_kernels_vnni;
#endif
  return SITU__ISA_PICK(situ__cpu_isa(), situ__bytes_kernels);
}

static inline int64_t situ__bytes_groups(int64_t k) { return (k + 3) / 4; }
static inline int64_t situ__bytes_panels(int64_t n) { return (n + SITU__BYTES_COLUMNS - 1) / SITU__BYTES_COLUMNS; }

/* The columns of b as they lie in memory: element (i, j) at i's place along k + j * column. The place of i = (outer *
   middles + middle) * inners + inner: of a matrix inner alone, of a convolution's weight row, column and channel. */
typedef struct situ__bytes_source {
  const unsigned char *b;
  bool is_signed;
  int64_t k, n, column, middles, inners, outer_step, middle_step, inner_step;
} situ__bytes_source;
void situ__bytes_pack(const situ__bytes_source *b, void *to);

/* One product, and its results. */
typedef struct situ__bytes {
  const situ__bytes_kernels *kernels;
  const situ_work *work;
  const void *packed;
  int64_t k, n, first; /* columns of this product, and the first of them among those of the work */
} situ__bytes;
static inline const situ_view_desc *situ__bytes_operand(const situ_work *w, int k) {
  return k < w->ins ? w->in[k] : NULL;
}
/* What the work says of a's bytes: what turns them into u8, and the zero point that they have then. */
static inline uint8_t situ__bytes_flip(int dtype) { return dtype == SITU_I8 ? 128 : 0; }
int32_t situ__bytes_zero_a(const situ_work *work);
/* What belongs to `columns` columns from `column` of the work on. sums: of b's columns; NULL: offset is the bias. */
void situ__bytes_finish_at(const situ_work *work, int64_t column, int columns, int64_t k, const int32_t *sums,
                           situ__bytes_finish *f);
/* Multiplies rows of a by panels [from, to) into y, whose first column is the product's first. */
void situ__bytes_rows(const situ__bytes *p, const uint8_t *a, int64_t a_row, int64_t rows, int64_t from, int64_t to,
                      char *y, int64_t y_row);
/* Copies rows of bytes as columns: to[j * to_row + i] = from[i * from_row + j] ^ flip. */
void situ__bytes_transpose(const uint8_t *from, int64_t from_row, int64_t rows, int64_t columns, uint8_t flip,
                           uint8_t *to, int64_t to_row);

#endif
