/* Blocks of random numbers. Compiled once for each instruction set, with the same bits in all.
   SPDX-License-Identifier: MIT */
#include "backend/cpu/isa/loops.h"
#include "backend/cpu/random.h"
#include "kernels/dialect.h"
#include "kernels/random.h"

#define T float
#define TNAME f32
#include "kernels/normal.h"
#undef T
#undef TNAME
#define T double
#define TNAME f64
#include "kernels/normal.h"

static void words(uint32_t *w, int64_t first, int64_t count, uint64_t seed, uint64_t offset) {
  for (int64_t i = 0; i < count; i++)
    philox((U64)(first + i), offset, seed, &w[4 * i], &w[4 * i + 1], &w[4 * i + 2], &w[4 * i + 3]);
}

static void normal_32(const uint32_t *w, int64_t pairs, float *y) {
  INDEPENDENT
  for (int64_t i = 0; i < pairs; i++) {
    normal_pair_f32(normal_unit_f32(w[2 * i]), w[2 * i + 1] >> 30, normal_angle_f32(w[2 * i + 1]), &y[2 * i],
                    &y[2 * i + 1]);
  }
}

static void normal_64(const uint64_t *w, int64_t pairs, double *y) {
  INDEPENDENT
  for (int64_t i = 0; i < pairs; i++) {
    normal_pair_f64(normal_unit_f64(w[2 * i]), (U32)(w[2 * i + 1] >> 62), normal_angle_f64(w[2 * i + 1]), &y[2 * i],
                    &y[2 * i + 1]);
  }
}

const situ__random_rows SITU__ISA_NAME(situ__random_rows) = { words, normal_32, normal_64 };
