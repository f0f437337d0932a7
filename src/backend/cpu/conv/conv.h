/* A convolution of any dtype and algorithm: its three passes are one geometry, read in three directions.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BACKEND_CPU_CONV_H
#define SITU_BACKEND_CPU_CONV_H

#include "backend/cpu/common/cpu.h"
#include "backend/cpu/elementwise/elementwise.h"

/* x [images, groups * channels, height, width], w [groups * outputs, channels, kernel], y [images, groups * outputs,
   out_height, out_width], all without gaps and of one dtype. The pass says which of them is the result. channels_last:
   x and y are; only oneDNN takes these. */
typedef struct situ__conv {
  situ_conv_pass pass;
  const situ_window *window;
  situ_dtype dtype;
  bool channels_last;
  bool relu;              /* of the result, forward */
  situ__row activation;   /* another function of the result, or NULL */
  bool from_bf16;         /* dtype is F32, and x, w and y of BF16 before they were converted */
  bool pool_2x2;          /* y has the maxima of 2 x 2 results; out_height and out_width are those of the results */
  char *x, *w, *y, *bias; /* bias: NULL, or added to the result of the first two passes */
  const char *packed_w;   /* w as the processor's prepack laid it out, or NULL */
  int64_t images, groups, channels, outputs, height, width, out_height, out_width;
  /* If not 0, elements are pairs of bf16 of two channels, and x has so many channels of single ones, y the results in
     bf16: dtype is F32, whose size pairs have, as the bias is. */
  int64_t channels_unpaired;
} situ__conv;

/* What forward or the data's gradient at stride 1 reads and writes, in f32: the gradient is a convolution of y with the
   kernel flipped. padding: of what is read. */
typedef struct situ__conv_sides {
  const float *x, *bias; /* what is read: `channels` of a group, height x width */
  float *y;              /* the result: `outputs` of a group, out_height x out_width */
  int64_t channels, outputs, height, width, out_height, out_width, padding[2];
} situ__conv_sides;
situ__conv_sides situ__conv_sides_of(const situ__conv *geometry);

/* Which lanes of a vector of sums are windows, and where the first of them is in the plane of results. */
typedef struct situ__conv_lanes {
  int32_t at;
  uint16_t mask, count;
} situ__conv_lanes;

/* One call of a register tile: sums of weights times rows of the matrix, for as many weights' rows and vectors of
   windows as the tile has. */
typedef struct situ__conv_tile {
  int64_t k;         /* rows of the matrix */
  const void *w;     /* row i of the weights is at w + i * w_row, and contiguous */
  const void *x;     /* padded images, at the tile's first window */
  const int64_t *at; /* where each row of the matrix begins, in elements after x */
  void *sums;        /* of earlier rows of the matrix: added to, if `add`, and stored here unless y is given */
  const void *bias;  /* of the first row, which sums begin with, or NULL */
  void *y;           /* the results, a row for each of the weights', if the sums are complete */
  const situ__conv_lanes *lanes; /* for each vector */
  int64_t w_row, sums_row, y_row;
  bool add, relu;
} situ__conv_tile;
typedef void (*situ__conv_tile_fn)(const situ__conv_tile *tile);

/* The maxima of 2 x 2 results: an even number of rows of windows, and of these in each, with a panel of outputs in the
   lanes of 1 or 2 vectors. */
typedef struct situ__conv_maxima {
  int64_t k;               /* rows of the matrix */
  const void *w;           /* [k, outputs of a panel] */
  const void *x;           /* padded images, at the first window */
  const int64_t *at;       /* where each row of the matrix begins, in elements after x */
  int64_t ld, rows, width; /* elements of a padded row; windows */
  const void *bias;        /* of the panel, or NULL */
  void *sums;              /* scratch: of all windows in the panel */
  void *y;                 /* a row of maxima for each output, y_row elements apart */
  int64_t y_row;
  int vectors;
  bool relu;
} situ__conv_maxima;

/* A plane of results from a plane of the image and a kernel of taps x taps, f32. */
typedef struct situ__conv_plane {
  const float *x, *w, *bias; /* bias: one, or NULL */
  float *y;
  int64_t height, width, out_height, out_width, padding[2];
  bool relu;
} situ__conv_plane;
typedef void (*situ__conv_plane_fn)(const situ__conv_plane *call);

/* The kernels of one instruction set for f32 or f64: tiles of 1 to 4 vectors and 1, 2, 4, 6 and 8 rows. Those that need
   more registers than there are, are NULL. */
enum { SITU__CONV_WIDTHS = 4, SITU__CONV_HEIGHTS = 5, SITU__CONV_PLANES = 3 };
typedef struct situ__conv_kernels {
  int lanes, y_size; /* elements of a vector; bytes of an element of y */
  situ__conv_tile_fn tile[SITU__CONV_WIDTHS][SITU__CONV_HEIGHTS];
  void (*maxima)(const situ__conv_maxima *call); /* or NULL */
  /* w: a row of k elements for each output of a panel */
  void (*maxima_weights)(const void *w, int64_t k, int vectors, void *panel);
  situ__conv_plane_fn plane[SITU__CONV_PLANES][2]; /* of 3, 5 and 7 taps, at stride 1 and 2; or NULL */
  /* Of pairs: to[i] = even[i], odd[i], which is 0 if odd is NULL. */
  void (*pair)(const uint16_t *even, const uint16_t *odd, int64_t count, uint32_t *to);
} situ__conv_kernels;

/* The kernels for this processor. */
const situ__conv_kernels *situ__conv_kernels_for(situ_dtype dtype);
/* Those that multiply pairs of bf16, if this processor has them; else NULL. */
const situ__conv_kernels *situ__conv_kernels_for_bf16_pairs(void);
/* The number of the tallest tile to use for so many outputs, and the most vectors of a tile of that height. */
int situ__conv_tallest(const situ__conv_kernels *kernels, int64_t outputs);
int situ__conv_widest(const situ__conv_kernels *kernels, int tallest);
/* The number of the tile of `vectors` vectors for the first of so many outputs, and its rows. */
int situ__conv_next(const situ__conv_kernels *kernels, int vectors, int64_t outputs, int tallest, int *rows);
/* Runs tiles of `vectors` vectors for so many outputs, one below the other. t is the first one,
   and is changed: a copy would wait for what was just written in parts. */
void situ__conv_panel(const situ__conv_kernels *kernels, situ__conv_tile *t, int vectors, int64_t outputs, int tallest,
                      int64_t elem);

/* ---- what algorithms share (geometry.c) ---- */

/* Of F32 or F64, row-major, without a pool: what most algorithms take. */
static inline bool situ__conv_is_plain(const situ__conv *geometry) {
  return (geometry->dtype == SITU_F32 || geometry->dtype == SITU_F64) && !geometry->channels_last &&
         !geometry->pool_2x2;
}
/* Whether windows are 1 x 1, at stride 1 and without padding. */
bool situ__conv_is_one(const situ_window *window);
/* Applies relu, if it is asked for, to rows of `count` results, `row` elements apart: F32 and F64. */
void situ__conv_relu(const situ__conv *geometry, void *y, int64_t rows, int64_t count, int64_t row);
/* Applies the activation, which is not relu, to rows of `count` results, `row` elements apart. */
void situ__conv_activate(const situ__conv *geometry, char *y, int64_t rows, int64_t count, int64_t row);
/* Whether no more than a fifth of oneDNN's blocks of channels would be padding. */
bool situ__conv_fills_blocks(const situ__conv *geometry);
/* The data's gradient at stride 1 as a forward pass, all but the weights (flip.c). Returns false for larger strides,
   and for rows or columns of x that no window sees. */
bool situ__conv_flip(const situ__conv *geometry, situ_window *window, situ__conv *flipped);

/* Forward at strides 1 and 2 as a product with shifted images (implicit_gemm.c): F32, F64, and pairs of bf16, and the
   maxima of 2 x 2 results. */
situ_status situ__conv_implicit_gemm(const situ__conv *geometry);
bool situ__conv_suits_offsets(const situ__conv *geometry);

/* Weights of 1 x 1 laid out before, for vectors (pointwise.c). */
bool situ__conv_pointwise_offers_prepack(const situ__conv *geometry);
void situ__conv_pointwise_prepack(const situ__conv *geometry, char *to);

/* to = the sum of so many parts of `count` elements, in order: F32 and F64. */
void situ__conv_add_parts(situ_dtype dtype, const char *part, int64_t parts, int64_t count, char *to);

#endif
