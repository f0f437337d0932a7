/* Shapes of convolutions for conv.c: each of the cpu's algorithms suits some of them.
   SPDX-License-Identifier: MIT */
#ifndef SITU_TESTS_BACKEND_CONV_SHAPES_H
#define SITU_TESTS_BACKEND_CONV_SHAPES_H

#include <stdint.h>

typedef struct shape {
  int64_t images, groups, channels, outputs; /* channels and outputs of a group */
  int64_t height, width, kernel[2], stride[2], padding[2], dilation[2];
} shape;

/* For every device. Kernels of every parity, larger than the plane with padding, strides that leave a rest, dilation,
   groups, 1 x 1; the last ones need several bands, tasks and partial sums. */
static const shape shapes[] = {
  { 1, 1, 1, 1, 1, 1, { 1, 1 }, { 1, 1 }, { 0, 0 }, { 1, 1 } },
  { 2, 1, 3, 4, 7, 9, { 3, 3 }, { 1, 1 }, { 0, 0 }, { 1, 1 } },
  { 2, 1, 3, 4, 7, 9, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 } },
  { 3, 1, 2, 5, 11, 8, { 2, 4 }, { 1, 1 }, { 1, 2 }, { 1, 1 } },
  { 2, 1, 4, 3, 12, 13, { 3, 3 }, { 2, 2 }, { 1, 1 }, { 1, 1 } },
  { 2, 1, 2, 3, 10, 17, { 2, 3 }, { 3, 2 }, { 0, 1 }, { 1, 1 } },
  { 2, 1, 2, 3, 13, 15, { 3, 3 }, { 1, 1 }, { 2, 2 }, { 2, 2 } },
  { 1, 1, 2, 2, 9, 9, { 3, 2 }, { 2, 1 }, { 3, 1 }, { 2, 3 } },
  { 2, 3, 2, 2, 8, 8, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 } },
  { 2, 8, 1, 1, 14, 14, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 } },
  { 2, 4, 1, 2, 9, 9, { 3, 3 }, { 2, 2 }, { 1, 1 }, { 1, 1 } },
  { 3, 1, 16, 20, 5, 6, { 1, 1 }, { 1, 1 }, { 0, 0 }, { 1, 1 } },
  { 3, 1, 5, 7, 9, 9, { 1, 1 }, { 2, 2 }, { 0, 0 }, { 1, 1 } },
  { 2, 2, 5, 7, 9, 9, { 1, 1 }, { 1, 1 }, { 1, 1 }, { 1, 1 } },
  { 4, 1, 6, 16, 12, 12, { 5, 5 }, { 1, 1 }, { 0, 0 }, { 1, 1 } },
  { 5, 1, 1, 6, 28, 28, { 5, 5 }, { 1, 1 }, { 0, 0 }, { 1, 1 } },
  { 2, 1, 3, 4, 1, 50, { 1, 5 }, { 1, 2 }, { 0, 3 }, { 1, 2 } },
  { 2, 1, 3, 2, 2, 2, { 5, 5 }, { 1, 1 }, { 2, 2 }, { 1, 1 } },
  { 1, 1, 20, 24, 40, 40, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 } },
  { 1, 1, 40, 90, 7, 7, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 } },
  { 17, 1, 8, 16, 8, 8, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 } },
  { 1, 1, 1, 2, 84, 84, { 5, 5 }, { 1, 1 }, { 0, 0 }, { 1, 1 } },
  { 12, 1, 8, 12, 20, 20, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 } },
  { 37, 2, 3, 5, 4, 4, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 } },
};

/* For the cpu's algorithms; of them other devices take some. */
static const shape cpu_shapes[] = {
  /* Winograd's: odd and even sizes, every padding, groups, images in blocks, bands of an image, parts of the outputs; and
     what it leaves to others. */
  { 2, 1, 32, 33, 13, 18, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 } },
  { 1, 1, 33, 32, 21, 15, { 3, 3 }, { 1, 1 }, { 0, 2 }, { 1, 1 } },
  { 1, 1, 32, 32, 16, 40, { 3, 3 }, { 1, 1 }, { 2, 0 }, { 1, 1 } },
  { 3, 2, 32, 40, 12, 14, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 } },
  { 35, 1, 32, 32, 10, 10, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 } },
  { 1, 1, 64, 32, 40, 39, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 } },
  { 1, 1, 32, 210, 14, 14, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 } },
  { 1, 1, 400, 32, 14, 14, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 } },
  { 2, 1, 32, 32, 14, 14, { 3, 3 }, { 1, 1 }, { 2, 2 }, { 2, 2 } },
  { 2, 1, 32, 32, 14, 14, { 3, 3 }, { 1, 1 }, { 4, 4 }, { 1, 1 } },
  { 2, 1, 32, 32, 28, 28, { 3, 3 }, { 2, 2 }, { 1, 1 }, { 1, 1 } },
  /* Groups of one channel, of one image. */
  { 1, 40, 1, 1, 7, 7, { 5, 5 }, { 1, 1 }, { 2, 2 }, { 1, 1 } },
  { 1, 33, 1, 1, 14, 15, { 5, 5 }, { 2, 2 }, { 2, 2 }, { 1, 1 } },
  /* The same plane by plane: rows and columns of several blocks, padding beyond the kernel, several outputs. */
  { 2, 3, 1, 1, 19, 45, { 3, 3 }, { 1, 1 }, { 1, 0 }, { 1, 1 } },
  { 1, 4, 1, 1, 30, 47, { 3, 3 }, { 2, 2 }, { 0, 1 }, { 1, 1 } },
  { 1, 2, 1, 1, 5, 3, { 5, 5 }, { 1, 1 }, { 4, 6 }, { 1, 1 } },
  { 3, 2, 1, 3, 17, 20, { 7, 7 }, { 1, 1 }, { 3, 3 }, { 1, 1 } },
  { 1, 5, 1, 1, 36, 34, { 7, 7 }, { 2, 2 }, { 3, 2 }, { 1, 1 } },
  /* The data's gradient of groups by turned weights: an uneven kernel with dilation, more padding than it has. */
  { 2, 3, 5, 7, 12, 9, { 2, 3 }, { 1, 1 }, { 1, 3 }, { 2, 1 } },
  { 1, 2, 4, 5, 6, 7, { 2, 2 }, { 1, 1 }, { 2, 0 }, { 1, 1 } },
  /* Stride 2 by even and odd rows and columns: of one image, as several are oneDNN's. */
  { 1, 1, 4, 6, 15, 18, { 3, 3 }, { 2, 2 }, { 1, 1 }, { 1, 1 } },
  { 1, 2, 5, 9, 17, 16, { 5, 4 }, { 2, 2 }, { 2, 1 }, { 1, 1 } },
  { 1, 1, 3, 8, 19, 43, { 3, 3 }, { 2, 2 }, { 2, 3 }, { 2, 2 } },
  { 1, 1, 3, 5, 21, 20, { 2, 3 }, { 2, 2 }, { 0, 0 }, { 3, 1 } },
  { 1, 1, 6, 7, 9, 11, { 1, 1 }, { 2, 2 }, { 0, 0 }, { 1, 1 } },
  { 1, 1, 6, 7, 8, 36, { 1, 1 }, { 2, 2 }, { 1, 1 }, { 1, 1 } },
  { 1, 1, 48, 60, 41, 64, { 3, 3 }, { 2, 2 }, { 1, 1 }, { 1, 1 } },
};

/* With an image in each lane: lanes without one, groups, bands of rows, more rows of the matrix than are multiplied at a
   time, parts of the outputs; for the weight's gradient strides and dilation, too. */
static const shape image_shapes[] = {
  { 29, 1, 6, 16, 14, 14, { 5, 5 }, { 1, 1 }, { 0, 0 }, { 1, 1 } },
  { 12, 1, 20, 18, 9, 6, { 5, 4 }, { 1, 1 }, { 1, 2 }, { 1, 1 } },
  { 16, 2, 5, 7, 10, 13, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 2, 1 } },
  { 13, 1, 33, 3, 9, 7, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 } },
  { 16, 1, 17, 29, 8, 7, { 5, 5 }, { 1, 1 }, { 2, 2 }, { 1, 1 } },
  { 31, 1, 3, 10, 15, 18, { 3, 4 }, { 2, 3 }, { 1, 2 }, { 2, 1 } },
};

/* By tile registers: panels of outputs, blocks of images, bands, parts of the channels, dilation, strides. */
static const shape tile_shapes[] = {
  { 3, 1, 128, 128, 7, 8, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 } },
  { 2, 1, 64, 40, 30, 17, { 3, 2 }, { 1, 1 }, { 1, 2 }, { 2, 3 } },
  { 14, 1, 32, 32, 30, 30, { 2, 2 }, { 1, 1 }, { 0, 1 }, { 1, 1 } },
  { 2, 1, 32, 96, 12, 11, { 5, 4 }, { 1, 1 }, { 2, 1 }, { 1, 1 } },
  { 1, 1, 96, 64, 8, 9, { 7, 7 }, { 1, 1 }, { 3, 3 }, { 1, 1 } },
  { 2, 1, 32, 72, 29, 34, { 3, 3 }, { 2, 2 }, { 1, 1 }, { 1, 1 } },
  { 3, 1, 32, 49, 19, 30, { 4, 2 }, { 2, 2 }, { 1, 0 }, { 1, 3 } },
  { 7, 1, 64, 80, 17, 14, { 1, 1 }, { 2, 2 }, { 0, 0 }, { 1, 1 } },
  /* 1 x 1, whose planes are read where they are: groups of channels that are not whole, bands. */
  { 3, 1, 80, 100, 7, 7, { 1, 1 }, { 1, 1 }, { 0, 0 }, { 1, 1 } },
  { 1, 1, 113, 96, 27, 40, { 1, 1 }, { 1, 1 }, { 0, 0 }, { 1, 1 } },
  { 2, 1, 65, 128, 5, 9, { 1, 1 }, { 1, 1 }, { 0, 0 }, { 1, 1 } },
};

/* The same of many small images, in the lanes of tiles: lanes without one, more than fill them, parts of the channels,
   strides, dilation, windows without an element of the kernel. */
static const shape place_shapes[] = {
  { 33, 1, 128, 128, 4, 3, { 3, 3 }, { 1, 1 }, { 1, 2 }, { 1, 1 } },
  { 25, 1, 64, 34, 9, 6, { 5, 4 }, { 1, 1 }, { 2, 2 }, { 1, 1 } },
  { 24, 1, 64, 33, 8, 11, { 3, 3 }, { 2, 2 }, { 1, 1 }, { 1, 1 } },
  { 30, 1, 64, 64, 3, 6, { 3, 2 }, { 1, 1 }, { 4, 3 }, { 2, 3 } },
};

/* By pairs of bf16: bands of an odd number of channels, at both strides, of either pass. */
static const shape pair_shapes[] = {
  { 2, 1, 33, 8, 70, 61, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 } },
  { 1, 1, 35, 9, 75, 120, { 3, 2 }, { 2, 2 }, { 1, 1 }, { 1, 1 } },
  { 1, 2, 9, 33, 70, 61, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 } },
};

/* The weight's gradient by tile registers: groups of images and of channels that are not whole, blocks, strides, windows
   without an element of the kernel. */
static const shape weight_shapes[] = {
  { 33, 1, 40, 50, 6, 7, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 } },
  { 24, 1, 33, 32, 20, 18, { 3, 3 }, { 1, 1 }, { 1, 0 }, { 1, 1 } },
  { 31, 1, 32, 34, 9, 12, { 3, 4 }, { 2, 3 }, { 1, 2 }, { 2, 1 } },
  { 26, 1, 35, 32, 3, 4, { 5, 5 }, { 1, 2 }, { 4, 3 }, { 1, 1 } },
};

/* For weights of 1 x 1 in panels: several blocks, of channels, outputs and pixels that fill them or do not. */
static const shape one_shapes[] = {
  { 1, 1, 672, 160, 7, 7, { 1, 1 }, { 1, 1 }, { 0, 0 }, { 1, 1 } },
  { 7, 1, 160, 240, 7, 7, { 1, 1 }, { 1, 1 }, { 0, 0 }, { 1, 1 } },
  { 2, 1, 797, 51, 4, 5, { 1, 1 }, { 1, 1 }, { 0, 0 }, { 1, 1 } },
  { 3, 1, 400, 97, 14, 13, { 1, 1 }, { 1, 1 }, { 0, 0 }, { 1, 1 } },
  { 1, 1, 384, 128, 3, 1, { 1, 1 }, { 1, 1 }, { 0, 0 }, { 1, 1 } },
  { 1, 1, 200, 192, 17, 16, { 1, 1 }, { 1, 1 }, { 0, 0 }, { 1, 1 } },
};

#endif
