/* Pooling of a plane, compiled for each instruction set: f32, f64 and integers from one source.
   SPDX-License-Identifier: MIT */
#include "backend/cpu/pool/pool.h"
#include "backend/cpu/common/isa.h"
#include "backend/cpu/common/isa/halves.h"
#include "base/size.h"

#include <math.h>
#include <string.h>

/* Windows [first, last) of a row, and the plane's column that window 0 reads. */
typedef struct span {
  int64_t first, last, offset;
} span;

/* Windows for which column kw of the kernel is inside the plane. */
static span span_of(const situ__plane *p, int64_t kw) {
  const situ_window *w = p->window;
  span s = { .offset = kw * w->dilation[1] - w->padding[1] };
  s.first = s.offset < 0 ? situ__ceil_div(-s.offset, w->stride[1]) : 0;
  s.last = s.offset < p->width ? situ__min_i64(p->out_width, situ__ceil_div(p->width - s.offset, w->stride[1])) : 0;
  return s;
}

/* Advances *kw to the next column of an undilated kernel that some window reads from the plane: most columns of one
   that is wider than the plane lie outside. Returns false if there is none. */
static bool find_span(const situ__plane *p, int64_t *kw, span *s) {
  for (; *kw < p->window->kernel[1]; ++*kw) {
    *s = span_of(p, *kw);
    if (s->first < s->last) return true;
    if (s->offset >= p->width) return false;
    const int64_t before = situ__min_i64(s->first, p->out_width) - 1; /* the next window to reach the plane */
    *kw -= s->offset + before * p->window->stride[1] + 1;
  }
  return false;
}

/* The columns of a kernel that are read, the same for each row; looked for again where they are many. */
enum { COLUMNS = 32 };
typedef struct columns {
  span list[COLUMNS];
  int64_t count;
  bool all;
} columns;

static void list_columns(const situ__plane *p, columns *c) {
  c->count = 0;
  for (int64_t kw = 0; c->count < COLUMNS && find_span(p, &kw, &c->list[c->count]); kw++) c->count++;
  c->all = c->count < COLUMNS;
}

/* Column k of the list, or of the kernel. Returns false if there are no more. */
ALWAYS_INLINE bool next_column(const situ__plane *p, const columns *c, int64_t *k, span *s) {
  if (!c->all) return find_span(p, k, s);
  if (*k >= c->count) return false;
  *s = c->list[*k];
  return true;
}

/* Number of a window's elements before the plane, along a dimension. */
static int64_t outside(int64_t start, int64_t dilation) { return start < 0 ? situ__ceil_div(-start, dilation) : 0; }

/* Rows of an undilated kernel that lie inside the plane. */
static span rows_of(const situ__plane *p, int64_t oh) {
  const int64_t top = oh * p->window->stride[0] - p->window->padding[0];
  return (
      span){ .first = outside(top, 1), .last = situ__min_i64(p->window->kernel[0], p->height - top), .offset = top };
}

/* Place of a window's first element inside the plane: of its maximum, if none is greater than LOWEST. */
static int64_t first_place(const situ__plane *p, int64_t oh, int64_t ow) {
  const situ_window *w = p->window;
  const int64_t top = oh * w->stride[0] - w->padding[0], left = ow * w->stride[1] - w->padding[1];
  return (top + outside(top, w->dilation[0]) * w->dilation[0]) * p->width + left +
         outside(left, w->dilation[1]) * w->dilation[1];
}

/* Elements of windows side by side. `step`, `right` and `line` are from window to window, column to column and row to
   row of the rows that are read; `down` is from row to row of the plane. Pairs: step 2 and right 1, so that two columns
   are halves of the same vectors. */
typedef struct taps {
  int64_t rows, columns, step, right, line, down;
  bool pairs;
} taps;

/* Number of a window's elements along one dimension inside the padded plane, or inside the plane. */
static int64_t extent(const situ_window *w, int d, int64_t at, int64_t size) {
  const int64_t start = at * w->stride[d] - w->padding[d],
                end = situ__min_i64(start + w->kernel[d], size + w->padding[d]);
  return w->exclude_pad ? situ__min_i64(end, size) - situ__max_i64(start, 0) : end - start;
}
static int64_t divisor(const situ__plane *p, int64_t oh, int64_t ow) {
  if (p->window->divisor != 0) return p->window->divisor;
  return extent(p->window, 0, oh, p->height) * extent(p->window, 1, ow, p->width);
}

/* Part `at` of `parts` of a dimension; parts may overlap by an element. */
static span part_of(int64_t size, int64_t parts, int64_t at) {
  const int64_t first = at * size / parts;
  return (span){ .first = first, .last = situ__ceil_div((at + 1) * size, parts) };
}

/* Of two masks that are never both set. GCC would test each lane of an `or` of comparisons where SSE2 cannot blend. */
#if VECTOR == 16
#define EITHER(a, b) ((a) ^ (b))
#else
#define EITHER(a, b) ((a) | (b))
#endif

/* Integers wrap, and the lowest one has no negative. */
#define PLUS(a, b) ((int64_t)((uint64_t)(a) + (uint64_t)(b)))
#define QUOTIENT(a, b) ((b) == -1 ? (int64_t)(0 - (uint64_t)(a)) : (a) / (b))
#define FN(name) SITU__ISA_NAME(name##_i64)
#define real int64_t
#define vec picks_f64
#define integer int64_t
#define picks picks_f64
#define HALF(a, b, k) HALF_64(picks, a, b, k)
#define LOWEST INT64_MIN
#define IS_NAN(v) false
#include "pool_compute.h"
#undef FN
#undef real
#undef vec
#undef LOWEST
#undef IS_NAN
#undef PLUS
#undef QUOTIENT

#define PARTS
#define PLUS(a, b) ((a) + (b))
#define QUOTIENT(a, b) ((a) / (b))
#define LOWEST (-INFINITY)
#define IS_NAN(v) ((v) != (v))

#define FN(name) SITU__ISA_NAME(name##_f64)
#define real double
#define vec vec_f64
#include "pool_compute.h"
#undef FN
#undef real
#undef vec
#undef integer
#undef picks
#undef HALF

#define FN(name) SITU__ISA_NAME(name##_f32)
#define real float
#define vec vec_f32
#define integer int32_t
#define picks picks_f32
#define HALF(a, b, k) HALF_32(picks, a, b, k)
#include "pool_compute.h"
