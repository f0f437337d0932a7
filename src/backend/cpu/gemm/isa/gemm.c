/* Register tiles of the matrix product, compiled for each instruction set: f32 and f64 from one source.
   SPDX-License-Identifier: MIT */
#include "backend/cpu/gemm/packed.h"
#include "backend/cpu/common/isa/simd.h"
#include "base/size.h"

#include <string.h>

/* Rows of a block of dot products that fills a vector. */
#define DOT_ROWS (LANES >= 8 ? LANES / 4 : 1)

/* A tile of packed factors. */
#define PANEL_ROWS SITU__SLIVER
#define PANEL_VECTORS WIDE

/* Where the rows of b are: apart, and in a tile that is one vector wide with fewer columns than it has; in a panel. */
typedef enum tile_layout { IN_ROWS, IN_EDGE, IN_PANEL } tile_layout;

enum { BESIDE = 6 }; /* columns whose dot products are computed together */

/* Keeps the compiler from keeping, in registers that the loop needs, what is computed from x before it. */
#define RECOMPUTE(x) __asm__("" : "+r"(x))

/* fma_vec of one number. */
#if defined(__FP_FAST_FMAF) && defined(__FP_FAST_FMA)
#define FMA_ONE(a, b, c) _Generic(c, float : __builtin_fmaf, double : __builtin_fma)(a, b, c)
#else
#define FMA_ONE(a, b, c) ((a) * (b) + (c))
#endif

#define FN F32
#define LANES ((int)(VECTOR / sizeof(float)))
#define LANE_NUMBERS NUMBERS_F32
#define real float
#define vec vec_f32
#define picks picks_f32
/* The depth of a block of packed factors, and the rows of a and columns of b that a task multiplies. */
#define PANEL_DEPTH 384
#define TASK_ROWS 252
#define TASK_COLUMNS 512
#include "tiles.h"
#include "panels.h"
#undef FN
#undef LANES
#undef LANE_NUMBERS
#undef real
#undef vec
#undef picks
#undef PANEL_DEPTH
#undef TASK_ROWS
#undef TASK_COLUMNS

#define FN F64
#define LANES ((int)(VECTOR / sizeof(double)))
#define LANE_NUMBERS NUMBERS_F64
#define real double
#define vec vec_f64
#define picks picks_f64
#define PANEL_DEPTH 512
/* Rows in place that are a power of two apart have half of the L2 cache's sets, or fewer. */
#define TASK_ROWS 174
#define TASK_COLUMNS 256
#include "tiles.h"
#include "panels.h"
