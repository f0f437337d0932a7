/* Fourier transforms of lines: plans, and the kernels that are compiled for each instruction set.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BACKEND_CPU_FFT_H
#define SITU_BACKEND_CPU_FFT_H

#include "backend/cpu/common/cpu.h"

/* Lines that are transformed side by side, one in each lane of a vector. */
enum { SITU__FFT_LANES = 16, SITU__FFT_RADICES = 40 };

typedef enum situ__fft_way {
  SITU__FFT_RADIX, /* one pass for each factor (Stockham) */
  SITU__FFT_SPLIT, /* as a matrix of first x second elements: columns, then rows; one line at a time */
  SITU__FFT_CHIRP  /* as a convolution of a length with small factors (Bluestein) */
} situ__fft_way;

/* A transform of n complex numbers of one dtype; tables have that dtype, real parts first, then imaginary parts. */
typedef struct situ__fft_plan {
  int64_t n, lanes; /* lanes: 1 or FFT_LANES */
  situ__fft_way way;
  int radices;
  uint8_t radix[SITU__FFT_RADICES];
  void *root; /* RADIX: e^(-2 pi i k / n); SPLIT: of j k, as [j of first, k of second] */
  struct situ__fft_plan *first,
      *second;          /* SPLIT: of columns and rows, with FFT_LANES; CHIRP: first, of the convolution */
  void *chirp, *filter; /* CHIRP: e^(-pi i k^2 / n); transform of its conjugate, divided by first->n */
  size_t scratch;       /* elements of scratch memory */
} situ__fft_plan;

/* How lines of a group lie in memory: complex number k of a line is at[k * step] and at[k * step + gap]. */
typedef struct situ__fft_side {
  const void *at[SITU__FFT_LANES];
  int64_t step, gap;
} situ__fft_side;

/* One call's transforms: op is a situ_fft_pass of lines of `length` elements. */
typedef struct situ__fft {
  situ__fft_plan
      *plan;  /* of length elements, or of half as many: real lines of even length are taken as complex ones */
  void *half; /* roots of `length` for real lines of even length */
  int op;
  int64_t length;
  bool inverse; /* positive exponents */
  double factor;
  int dtype;
  int users; /* private to the cache */
  uint64_t used;
} situ__fft;

typedef struct situ__fft_kernels {
  /* Transforms the first `lines` lines of a group from x to y. memory: (2 n lanes + scratch) elements. */
  void (*group)(const situ__fft *f, const situ__fft_side *x, const situ__fft_side *y, int lines, void *memory);
  /* Transforms lines in memory, for plans: planes of n numbers, 1 lane; the result is in `planes`. */
  void (*once)(const situ__fft_plan *plan, void *planes, void *memory);
} situ__fft_kernels;
const situ__fft_kernels *situ__fft_kernels_for(situ_dtype dtype);

/* plan.c: returns NULL when out of memory; situ__fft_close takes it back. few: there are fewer lines than lanes. */
situ__fft *situ__fft_open(int op, int64_t length, situ_dtype dtype, bool few);
void situ__fft_close(situ__fft *f);

#endif
