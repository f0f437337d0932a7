/* Winograd's transforms of 3 x 3 windows at stride 1: F(2 x 2, 3 x 3). A tile of 4 x 4 elements gives 2 x 2 results by
   16 products for each pair of channels, instead of 36.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BACKEND_CPU_WINOGRAD_H
#define SITU_BACKEND_CPU_WINOGRAD_H

#include "backend/cpu/common/cpu.h"

enum { SITU__WINOGRAD = 16 }; /* elements of a tile */

/* Tiles of a plane lie side by side: `line` places are a row of tiles and one more place, which has no tile. So the
   same columns of all rows follow each other, and one loop goes over the whole plane. */
typedef struct situ__winograd_input {
  float *phase; /* a plane's even and odd rows and columns (situ__split), one row more than those of tiles */
  int64_t size, line, rows;
  float *to; /* element k of the tiles is at to + k * next, for 16 of k */
  int64_t next;
} situ__winograd_input;

typedef struct situ__winograd_output {
  const float *from; /* as `to` above */
  float *scratch;    /* 2 planes, `size` elements apart */
  int64_t next, size, line, rows;
  float *y; /* `height` rows of `width` results */
  int64_t width, height;
  float bias;
  bool relu;
} situ__winograd_output;

typedef struct situ__winograd_weight {
  const float *w; /* element k of channel c is at w + c * step + (flipped ? 8 - k : k) */
  int64_t step, channels;
  bool flipped;
  float *to; /* element k of the tile of channel c is at to + k * next + c */
  int64_t next;
} situ__winograd_weight;

typedef struct situ__winograd_kernels {
  int lanes;
  /* May write up to a vector past the last place. */
  void (*input)(const situ__winograd_input *call);
  /* May read as much. Returns false if a result is not finite. */
  bool (*output)(const situ__winograd_output *call);
  void (*weight)(const situ__winograd_weight *call);
} situ__winograd_kernels;

#endif
