/* Convolution of one plane by one kernel of 3 x 3, 5 x 5 or 7 x 7 at stride 1 or 2, f32: included by conv.c. Columns of
   the result are in the lanes, and 8 rows of them are summed together, so that an element of the image that was loaded
   serves all rows of the kernel. Masks make the padding: nothing is copied before.
   SPDX-License-Identifier: MIT */

enum { PLANE_ROWS = 8, PLANE_TAPS = 7 };

/* Which lanes of the vectors at the columns first, first + 16, .. are in a row of the image. */
ALWAYS_INLINE void plane_masks(int64_t first, int64_t width, int count, __mmask16 *mask) {
  for (int i = 0; i < count; i++, first += LANES) {
    const int64_t begin = situ__min_i64(situ__max_i64(-first, 0), LANES),
                  end = situ__max_i64(situ__min_i64(width - first, LANES), begin);
    mask[i] = (__mmask16)((1U << end) - (1U << begin));
  }
}

/* What the elements of a kernel's row multiply: 16 columns from x on; at stride 2 every second of 32. */
ALWAYS_INLINE void plane_line(const float *x, __mmask16 mask[PLANE_TAPS][2], int taps, int stride,
                              vec_f32 line[PLANE_TAPS]) {
  UNROLL for (int k = 0; k < taps; k += stride) {
    const __m512 low = _mm512_maskz_loadu_ps(mask[k][0], x + k);
    if (stride == 1) {
      line[k] = (vec_f32)low;
      continue;
    }
    const vec_f32 next = (vec_f32)_mm512_maskz_loadu_ps(mask[k][1], x + k + LANES);
    line[k] = SHUFFLE(picks_f32, (vec_f32)low, next, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    if (k + 1 < taps)
      line[k + 1] = SHUFFLE(picks_f32, (vec_f32)low, next, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
  }
}

/* The rows of results from `row` on; taps and stride are constants where this is inlined. */
ALWAYS_INLINE void plane_rows(const situ__conv_plane *p, __mmask16 mask[PLANE_TAPS][2], int64_t row, int64_t column,
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
    if (row + r < p->out_height) FN(store_some)(y + r * p->out_width, p->relu ? FN(relu)(sum[r]) : sum[r], count);
  }
}

ALWAYS_INLINE void convolve_plane(const situ__conv_plane *p, int taps, int stride) {
  __mmask16 mask[PLANE_TAPS][2];
  for (int64_t column = 0; column < p->out_width; column += LANES) {
    for (int k = 0; k < taps; k += stride) plane_masks(column * stride - p->padding[1] + k, p->width, stride, mask[k]);
    for (int64_t row = 0; row < p->out_height; row += PLANE_ROWS) plane_rows(p, mask, row, column, taps, stride);
  }
}

#define PLANE(taps, stride) \
  static void plane_##taps##_##stride(const situ__conv_plane *p) { convolve_plane(p, taps, stride); }
PLANE(3, 1) PLANE(3, 2) PLANE(5, 1) PLANE(5, 2) PLANE(7, 1) PLANE(7, 2)
#undef PLANE
