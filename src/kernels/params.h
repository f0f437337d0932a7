/* Blocks of parameters that the host fills and kernels read, declared once for both sides. All members are eight bytes
   wide, so that compilers do not pad.
   SPDX-License-Identifier: MIT */
#ifndef SITU_KERNELS_PARAMS_H
#define SITU_KERNELS_PARAMS_H

#if !defined(__OPENCL_C_VERSION__) && !defined(__CUDACC__)
#include <stdint.h>
typedef int64_t I64;
#endif

/* Where element i of each operand is: i counts through size[], and each operand has its own strides. Kernels do not
   read unused dimensions. */
enum { WALK_OPERANDS = 4, WALK_DIMS = 8 };
typedef struct walk {
  I64 numel, ndim, size[WALK_DIMS];
  I64 offset[WALK_OPERANDS], stride[WALK_OPERANDS][WALK_DIMS];
  I64 magic[WALK_DIMS]; /* of each size, for quotient() in element.h; 0: none */
} walk;

/* The walk of GPU work-items, each of which processes adjacent elements along the last dimension (pack.h). */
typedef struct packs {
  I64 count, each, magic; /* number of packs, those of a row, and the magic number that divides by the latter */
  I64 shift;              /* elements of a row's first pack that precede the row */
  I64 full;               /* bit k: each of operand k's packs is one access */
} packs;
#define PACK_BYTES 16                                 /* of the widest operand's pack */
#define PACK_MOST 8                                   /* maximum elements of a pack */
#define ITEM_PACKS(pack) ((pack) < PACK_MOST ? 2 : 1) /* packs that a work-item has in flight */

/* Minimum elements for each work-group of a FLAT kernel on a CPU. */
#define STRETCH 4096
#define STREAMED_STRETCH (32 * STRETCH) /* larger, as each work-group ends by waiting for its non-temporal stores */

/* FLAGS of elementwise.h. STRIDED: there are strides or gaps; DIVIDES: a divisor of 0 is an error, as integers have no
   Inf. */
#define FLAG_STRIDED 1u
#define FLAG_DIVIDES 16u
#define FLAG_COUNTS 32u /* copies: count finite values that become infinite */
/* On a CPU: the result exceeds the caches, so use non-temporal stores. */
#define FLAG_STREAMS 0x80000000u

/* Rows of quantised blocks: numbers in all, those and the bytes of a block, and where x and y begin. */
typedef struct block_rows {
  I64 numel, elements, bytes, x, y;
} block_rows;

/* What a kernel reports of an index out of range. Only the first report is kept. */
typedef struct fault {
  I64 raised, verb, value, bound, dim, at; /* verb: a situ_verb, or one of those below */
} fault;
#define FAULT_DIVISION -1
#define FAULT_CHANCE -2 /* a probability outside 0..1, of the element at `at` */

/* FLAGS of sources whose lines are shared by a work-group, or (SERIAL) processed by one work-item each. */
#define FLAG_SERIAL 1u
/* FLAGS of reduce.h: FLAG_SERIAL | FOLD_ << 4 | MAP_ << 8 | FINISH_ << 12. */
#define FOLD_SUM 0
#define FOLD_PROD 1
#define FOLD_MIN 2
#define FOLD_MAX 3
#define FOLD_MOMENTS 4
#define FOLD_LOGSUM 5
#define MAP_NONE 0
#define MAP_ABS 1
#define MAP_SQUARE 2
#define MAP_NONZERO 3
#define MAP_POWER 4
#define FINISH_NONE 0
#define FINISH_MEAN 1
#define FINISH_VAR 2
#define FINISH_STD 3
#define FINISH_ROOT 4
#define FINISH_POWER 5
#define FINISH_LOGSUM 6

#define FLAG_BESIDE 4u /* reductions on a CPU: lines are adjacent */
#define BESIDE 128     /* lines that are reduced at a time */
#define FLAG_DENSE 2u  /* a line's elements are adjacent */

/* A long line of `all` elements is cut into `count` pieces of `length`; their partial results are reduced again. */
typedef struct pieces {
  I64 count, length, all;
} pieces;

/* FLAGS of norm.h, batch_norm.h and nll.h: which operands are present, and which results are wanted. */
#define FLAG_WEIGHT 16u
#define FLAG_BIAS 32u
#define FLAG_COLUMNS 64u
#define FLAG_MEAN 128u
#define FLAG_VAR 256u
#define FLAG_TRAINING 512u
#define FLAG_STATISTICS 1024u
#define FLAG_UPDATE 2048u
#define FLAG_DX 4096u
#define FLAG_DWEIGHT 8192u
#define FLAG_DBIAS 16384u
#define FLAG_LOGITS 32768u
#define FLAG_EACH 65536u

/* FLAGS of sources that load each row once (row.h). */
#define FLAG_ROW 131072u
#define FLAG_WARP 262144u /* each row is processed by one warp */
#define FLAG_LONG 524288u /* a row exceeds what its threads can keep in registers */
#define WARP 32           /* threads that exchange values by shuffles */
#define ROW_HELD 32       /* elements of a row that a thread keeps; LONG_HELD if the row is too long */
#define LONG_HELD 16
#define ROW_MOST (1 << 30) /* elements of a row, so that columns are 32-bit numbers */
#define ROW_FEW 8          /* up to this many elements, one thread processes a whole row */

/* Layout of rows: elements of the first row after a pack boundary, and a bit for each operand whose packs are one
   access each. */
typedef struct row_layout {
  I64 skew, full;
} row_layout;

/* A matrix whose rows are summed (columns.h): its sizes and the step between rows; how it is divided; the operands'
   offsets. */
typedef struct column_sums {
  I64 rows, width, row, divisor;
  I64 across, tiles, length, slices, full;
  I64 y, y2, x, g, mean, rstd;
} column_sums;

/* Lines along one dimension of operands without gaps, viewed as [outer, size, inner]. */
typedef struct lines {
  I64 outer, size, inner, offset[WALK_OPERANDS];
  I64 masked; /* softmax: a line that is all -Inf gives 0 */
} lines;

/* Below: sizes, then the operands' offsets. */
typedef struct norms {
  I64 rows, width, y, x, g, mean, rstd, weight, bias, dweight, dbias;
} norms;
typedef struct batch_norms {
  I64 flags, batch, channels, inner, y, x, g, mean, rstd, weight, bias, old_mean, old_var, new_mean, new_var, dweight,
      dbias;
} batch_norms;
typedef struct nlls {
  I64 positions, classes, inner, ignore, verb, y, x, g, target, weight, lse, total;
} nlls;

/* The largest tile of y on a CPU. */
#define MATMUL_ROWS 192
#define MATMUL_COLUMNS 128

/* A matrix product: sizes and strides; a is [m, k], b [k, n]; a work-group computes a tile. On a CPU columns and terms
   may consist of several pieces: columns of pieces of n_piece, which are b_n and y_n apart, and terms of pieces of
   k_piece, a_k and b_k apart. */
typedef struct products {
  I64 m, n, k, a_row, a_col, b_row, b_col, y_row, y_col, bias_row, bias_col, tile_rows, tile_columns;
  I64 n_piece, b_n, y_n, k_piece, a_k, b_k;
} products;

/* FLAGS of index.h, optimizer.h. */
#define FLAG_ADD 16u
#define FLAG_STATE_0 16u
#define FLAG_STATE_1 32u
#define FLAG_STATE_2 64u
#define FLAG_MOMENTUM 128u
#define FLAG_FIRST 256u
#define FLAG_NESTEROV 512u
#define FLAG_AMSGRAD 1024u
#define FLAG_CENTRED 2048u

/* Gather and scatter by index: strides in elements. */
typedef struct picks {
  I64 bound, dim, verb, along, count, src_step, index_step;
} picks;

/* A recurrent cell: rows of `hidden` elements; the operands' offsets, results first. */
typedef struct cells {
  I64 count, hidden, offset[8]; /* count: elements of h */
} cells;

/* An optimiser's step: the operands' offsets. */
typedef struct steps {
  I64 numel, p, g, state[3];
} steps;

/* A step over several parameters: addresses of each one's value, gradient and states, and its first work-group. */
#define FLAG_LIST 4096u
enum { LIST_MOST = 64, LIST_MEMORIES = 5 };
typedef struct step_list {
  I64 count;
  struct {
    I64 memory[LIST_MEMORIES], numel, group;
  } item[LIST_MOST];
} step_list;

/* Windows of convolution and pooling: `large` is the plane that they move over, `small` has an element for each
   window. */
typedef struct windows {
  I64 images, groups, channels, outputs; /* channels and outputs of a group; pooling: planes are images */
  I64 height, width, out_height, out_width;
  I64 window[2], stride[2], padding[2], dilation[2], exclude_pad, divisor;
  I64 x, w, y, bias; /* the operands' offsets */
} windows;

/* Lines of `size` places resampled to `out`; rule: a situ_resample_rule, whose values these are. */
enum {
  RESAMPLE_NEAREST,
  RESAMPLE_NEAREST_EXACT,
  RESAMPLE_LINEAR,
  RESAMPLE_CUBIC,
  RESAMPLE_LINEAR_WIDE,
  RESAMPLE_CUBIC_WIDE,
  RESAMPLE_AREA
};
typedef struct resamples {
  I64 outer, size, out, inner, rule, align, x, y; /* x, y: the operands' offsets */
} resamples;

/* Attention: l queries and s keys of each head, with e features of a key and v of a value; `shared` adjacent heads
   have one matrix of keys. A head has `blocks` of queries or keys, each with `chunks` of features, a work-group each.
   choice: the mask is bool. Strides are in elements; below: the operands' offsets, and the draw of dropout. */
typedef struct attentions {
  I64 shared, l, s, e, v, blocks, chunks, causal, choice, drops;
  I64 q_row, q_col, k_row, k_col, v_row, v_col, mask_row, mask_col;
  I64 y, stats, g, out, out2, seed, draw;
} attentions;
/* Queries or keys of a block, and features of a chunk, of which a work-group computes the results. */
#define ATTENTION_BLOCK(cpu, bytes) ((cpu) || (bytes) == 4 ? 64 : 32)
#define ATTENTION_WIDTH(cpu, bytes) ((cpu) ? 128 : ATTENTION_BLOCK(cpu, bytes))

/* One pass of Fourier transforms of `length` elements: `left` of the length are to be transformed, `step` were. Lines
   are [outer, signal, inner] as they are read (from) and [outer, places, inner] as they are written (to). times: what
   an element is multiplied by; chirps: the result by the chirp; chirp: its length; back: its sign. */
enum { FFT_COMPLEX, FFT_REAL, FFT_HALF /* the first signal / 2 + 1 numbers */ };
enum { FFT_ONE, FFT_CHIRP, FFT_PRODUCT /* with the filter */, FFT_FILTER /* the chirp's conjugate itself */ };
typedef struct ffts {
  I64 outer, signal, length, places, inner, left, step, radix, from, to, inverse, times, chirp, chirps, back;
  I64 x, y; /* the operands' offsets */
} ffts;

#endif
