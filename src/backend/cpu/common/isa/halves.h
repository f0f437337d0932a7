/* Every second lane of two vectors, and lanes of two vectors in turn.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BACKEND_CPU_ISA_HALVES_H
#define SITU_BACKEND_CPU_ISA_HALVES_H

#include "simd.h"

/* HALF(a, b, k): elements k, k + 2, ... of two vectors. Where lanes of 128 bits have instructions, it takes two. */
#if VECTOR == 64
#define HALF_32(picks, a, b, k)                                                                                       \
  SHUFFLE(picks, a, b, k, 2 + k, 4 + k, 6 + k, 8 + k, 10 + k, 12 + k, 14 + k, 16 + k, 18 + k, 20 + k, 22 + k, 24 + k, \
          26 + k, 28 + k, 30 + k)
#define HALF_64(picks, a, b, k) SHUFFLE(picks, a, b, k, 2 + k, 4 + k, 6 + k, 8 + k, 10 + k, 12 + k, 14 + k)
#elif VECTOR == 32
ALWAYS_INLINE vec_f64 swap_middle(vec_f64 v) { return SHUFFLE(picks_f64, v, v, 0, 2, 1, 3); }
#define HALF_32(picks, a, b, k) \
  (vec_f32) swap_middle((vec_f64)SHUFFLE(picks, a, b, k, 2 + k, 8 + k, 10 + k, 4 + k, 6 + k, 12 + k, 14 + k))
#define HALF_64(picks, a, b, k) SHUFFLE(picks, a, b, k, 2 + k, 4 + k, 6 + k)
#else
#define HALF_32(picks, a, b, k) SHUFFLE(picks, a, b, k, 2 + k, 4 + k, 6 + k)
#define HALF_64(picks, a, b, k) SHUFFLE(picks, a, b, k, 2 + k)
#endif

/* Lanes of a and b in turn: of their first halves, or of their second ones. */
#if VECTOR == 64
#define TURNS_LOW(a, b) SHUFFLE(picks_f32, a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define TURNS_HIGH(a, b) SHUFFLE(picks_f32, a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#elif VECTOR == 32
#define TURNS_LOW(a, b) SHUFFLE(picks_f32, a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define TURNS_HIGH(a, b) SHUFFLE(picks_f32, a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#else
#define TURNS_LOW(a, b) SHUFFLE(picks_f32, a, b, 0, 4, 1, 5)
#define TURNS_HIGH(a, b) SHUFFLE(picks_f32, a, b, 2, 6, 3, 7)
#endif

#endif
