/* Convolution of one plane by one kernel of 3 x 3, 5 x 5 or 7 x 7 at stride 1 or 2, f32: included by conv.c. Columns of
   the result are in the lanes, and PLANE_ROWS rows of them are summed together, so that a loaded element of the image
   serves all rows of the kernel. Masks make the padding: nothing is copied before.
   SPDX-License-Identifier: MIT */

#if VECTOR == 64
enum { PLANE_ROWS = 8, PLANE_TAPS = 7 };
typedef __mmask16 plane_mask;
#define EVERY_SECOND(from)                                                                                        \
  from, from + 2, from + 4, from + 6, from + 8, from + 10, from + 12, from + 14, from + 16, from + 18, from + 20, \
      from + 22, from + 24, from + 26, from + 28, from + 30
ALWAYS_INLINE vec_f32 plane_ordered(vec_f32 seconds) { return seconds; }
ALWAYS_INLINE plane_mask plane_lanes(int64_t begin, int64_t end) { return (plane_mask)((1U << end) - (1U << begin)); }
ALWAYS_INLINE vec_f32 plane_load(plane_mask mask, const float *p) { return (vec_f32)_mm512_maskz_loadu_ps(mask, p); }
#else
enum { PLANE_ROWS = 4, PLANE_TAPS = 7 }; /* of 16 registers */
typedef picks_f32 plane_mask;
/* In the order of a shuffle of four lanes, which is one instruction: sums are put in order when they are stored. */
#define EVERY_SECOND(from) from, from + 2, from + 8, from + 10, from + 4, from + 6, from + 12, from + 14
ALWAYS_INLINE vec_f32 plane_ordered(vec_f32 seconds) {
  return SHUFFLE(picks_f32, seconds, seconds, 0, 1, 4, 5, 2, 3, 6, 7);
}
ALWAYS_INLINE plane_mask plane_lanes(int64_t begin, int64_t end) {
  const picks_f32 lane = { NUMBERS_F32 };
  return (lane >= (int32_t)begin) & (lane < (int32_t)end);
}
ALWAYS_INLINE vec_f32 plane_load(plane_mask mask, const float *p) {
  return (vec_f32)_mm256_maskload_ps(p, (__m256i)mask);
}
#endif

/* Which lanes of the vectors at the columns first, first + LANES, .. are in a row of the image. */
ALWAYS_INLINE void plane_masks(int64_t first, int64_t width, int count, plane_mask *mask) {
  for (int i = 0; i < count; i++, first += LANES) {
    const int64_t begin = situ__min_i64(situ__max_i64(-first, 0), LANES),
                  end = situ__max_i64(situ__min_i64(width - first, LANES), begin);
    mask[i] = plane_lanes(begin, end);
  }
}

/* What the elements of a kernel's row multiply: LANES columns from x on; at stride 2 every second of twice as many. */
ALWAYS_INLINE void plane_line(const float *x, plane_mask mask[PLANE_TAPS][2], int taps, int stride,
                              vec_f32 line[PLANE_TAPS]) {
  UNROLL for (int k = 0; k < taps; k += stride) {
    const vec_f32 low = plane_load(mask[k][0], x + k);
    if (stride == 1) {
      line[k] = low;
      continue;
    }
    const vec_f32 next = plane_load(mask[k][1], x + k + LANES);
    line[k] = SHUFFLE(picks_f32, low, next, EVERY_SECOND(0));
    if (k + 1 < taps) line[k + 1] = SHUFFLE(picks_f32, low, next, EVERY_SECOND(1));
  }
}

/* The rows of results from `row` on; taps and stride are constants where this is inlined. */
ALWAYS_INLINE void plane_rows(const situ__conv_plane *p, plane_mask mask[PLANE_TAPS][2], int64_t row, int64_t column,
                              int taps, int stride) {
  static const float nothing[PLANE_TAPS + 2 * LANES];
  const float *w = p->w;
  const int64_t first = row * stride - p->padding[0], left = column * stride - p->padding[1];
  vec_f32 sum[PLANE_ROWS];
  UNROLL for (int r = 0; r < PLANE_ROWS; r++) sum[r] = FN(splat)(p->bias ? *p->bias : 0);
#pragma GCC unroll 32
  for (int i = 0; i < (PLANE_ROWS - 1) * stride + taps; i++) {
    const int64_t at = first + i;
    vec_f32 line[PLANE_TAPS];
    plane_line(at >= 0 && at < p->height ? p->x + at * p->width + left : nothing, mask, taps, stride, line);
    UNROLL for (int k = 0; k < taps; k++) {
      UNROLL for (int r = 0; r < PLANE_ROWS; r++) {
        const int tap = i - r * stride;
        if (tap >= 0 && tap < taps) sum[r] = FN(fma_vec)(FN(splat)(w[tap * taps + k]), line[k], sum[r]);
      }
    }
    /* Else the compiler loads all rows before, and has no registers for them. */
    UNROLL for (int r = 0; r < PLANE_ROWS; r++) __asm__ volatile("" : "+v"(sum[r]) : : "memory");
  }
  const int count = (int)situ__min_i64(p->out_width - column, LANES);
  float *y = p->y + row * p->out_width + column;
  UNROLL for (int r = 0; r < PLANE_ROWS; r++) {
    const vec_f32 value = stride == 1 ? sum[r] : plane_ordered(sum[r]);
    if (row + r < p->out_height) FN(store_some)(y + r * p->out_width, p->relu ? FN(relu)(value) : value, count);
  }
}

ALWAYS_INLINE void convolve_plane(const situ__conv_plane *p, int taps, int stride) {
  plane_mask mask[PLANE_TAPS][2];
  for (int64_t column = 0; column < p->out_width; column += LANES) {
    for (int k = 0; k < taps; k += stride) plane_masks(column * stride - p->padding[1] + k, p->width, stride, mask[k]);
    for (int64_t row = 0; row < p->out_height; row += PLANE_ROWS) plane_rows(p, mask, row, column, taps, stride);
  }
}

#define PLANE(taps, stride) \
  static void plane_##taps##_##stride(const situ__conv_plane *p) { convolve_plane(p, taps, stride); }
PLANE(3, 1) PLANE(3, 2) PLANE(5, 1) PLANE(5, 2) PLANE(7, 1) PLANE(7, 2)
#undef PLANE
#undef EVERY_SECOND
