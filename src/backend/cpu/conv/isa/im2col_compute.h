/* Unfolding and folding for one element type: included by im2col.c with `real`, `vec`, LANES, HALF and
   FN.
   SPDX-License-Identifier: MIT */

static void FN(zero)(real *to, int64_t count) {
  for (int64_t i = 0; i < count; i++) to[i] = 0;
}

/* One element of the kernel: row r of windows, [0, rows), reads from + r * from_row. */
static void FN(im2col_tap)(const reach *at, const real *from, int64_t from_row, int64_t step, real *to, int64_t width) {
  const int64_t count = at->last - at->first, full = count - count % LANES;
  const int rest = (int)(count - full);
  FN(zero)(to, at->top * width);
  from += at->top * from_row;
  to += at->top * width;
  for (int64_t r = at->top; r < at->bottom; r++, from += from_row, to += width) {
    if (count < width) {
      FN(zero)(to, at->first);
      FN(zero)(to + at->last, width - at->last);
    }
    real *row = to + at->first;
    if (step == 1) {
      for (int64_t i = 0; i < full; i += LANES) FN(store)(row + i, FN(load)(from + i));
      if (rest) FN(store_some)(row + full, FN(load_some)(from + full, rest), rest);
    } else {
      for (int64_t i = 0; i < count; i++) row[i] = from[i * step];
    }
  }
  FN(zero)(to, (at->rows - at->bottom) * width);
}

static void FN(col2im_tap)(const reach *at, const real *from, int64_t width, real *to, int64_t to_row, int64_t step) {
  const int64_t count = at->last - at->first, full = count - count % LANES;
  const int rest = (int)(count - full);
  from += at->top * width + at->first;
  to += at->top * to_row;
  for (int64_t r = at->top; r < at->bottom; r++, from += width, to += to_row) {
    if (step == 1) {
      for (int64_t i = 0; i < full; i += LANES) FN(store)(to + i, FN(load)(to + i) + FN(load)(from + i));
      if (rest) FN(store_some)(to + full, FN(load_some)(to + full, rest) + FN(load_some)(from + full, rest), rest);
    } else {
      for (int64_t i = 0; i < count; i++) to[i * step] += from[i];
    }
  }
}

static void FN(im2col)(const situ__im2col *u, const void *x, void *columns) {
  const int64_t taps = u->window->kernel[0] * u->window->kernel[1];
  real *to = columns;
  for (int64_t tap = 0; tap < taps; tap++) {
    const reach at = reach_of(u, tap);
    for (int64_t c = 0; c < u->channels; c++) {
      FN(im2col_tap)
      (&at, (const real *)x + c * u->height * u->width + at.offset, u->window->stride[0] * u->width,
       u->window->stride[1], to + (c * taps + tap) * u->ld, u->out_width);
    }
  }
}

static void FN(col2im)(const situ__im2col *u, const void *columns, void *x) {
  const int64_t taps = u->window->kernel[0] * u->window->kernel[1];
  const real *from = columns;
  for (int64_t c = 0; c < u->channels; c++) {
    for (int64_t tap = 0; tap < taps; tap++) {
      const reach at = reach_of(u, tap);
      FN(col2im_tap)
      (&at, from + (c * taps + tap) * u->ld, u->out_width, (real *)x + c * u->height * u->width + at.offset,
       u->window->stride[0] * u->width, u->window->stride[1]);
    }
  }
}

/* to = from + bias. A last vector that is not whole begins earlier, where the row is long enough. */
ALWAYS_INLINE void FN(add_row)(real *to, const real *from, int64_t count, vec bias) {
  if (count < LANES) {
    FN(store_some)(to, FN(load_some)(from, (int)count) + bias, (int)count);
    return;
  }
  for (int64_t i = 0; i + LANES <= count; i += LANES) FN(store)(to + i, FN(load)(from + i) + bias);
  if (count % LANES) FN(store)(to + count - LANES, FN(load)(from + count - LANES) + bias);
}

/* A row between zeros, by whole vectors: what they write after the row is overwritten, or not read. */
ALWAYS_INLINE void FN(pad_row)(const situ__pad *p, real *to, const real *from) {
  const int64_t right = p->ld - p->left - p->width;
  if (p->left > LANES) FN(zero)(to, p->left);
  else FN(store)(to, (vec){ 0 });
  if (p->width < LANES) FN(store)(to + p->left, FN(load_some)(from, (int)p->width));
  else FN(add_row)(to + p->left, from, p->width, (vec){ 0 });
  if (right > LANES) FN(zero)(to + p->left + p->width, right);
  else if (p->width >= LANES || p->left + LANES < p->ld) FN(store)(to + p->left + p->width, (vec){ 0 });
}

/* Rows that nothing is between: one long row, and zeros above and below it. */
static void FN(pad_rows)(const situ__pad *p, const real *from, real *to) {
  const int64_t first = situ__min_i64(situ__max_i64(p->row, 0), p->height),
                end = situ__max_i64(situ__min_i64(p->row + p->rows, p->height), first);
  const int64_t above = situ__min_i64(situ__max_i64(-p->row, 0), p->rows) * p->ld, inside = (end - first) * p->ld;
  for (int64_t c = 0; c < p->channels; c++, from += p->height * p->width, to += p->rows * p->ld) {
    FN(zero)(to, above);
    FN(add_row)(to + above, from + first * p->width, inside, (vec){ 0 });
    FN(zero)(to + above + inside, p->rows * p->ld - above - inside);
  }
}

static void FN(pad)(const situ__pad *p, const void *x, void *padded) {
  const real *from = x;
  real *to = padded;
  if (p->left == 0 && p->width == p->ld) {
    FN(pad_rows)(p, from, to);
    return;
  }
  for (int64_t c = 0; c < p->channels; c++, from += p->height * p->width) {
    for (int64_t r = p->row; r < p->row + p->rows; r++, to += p->ld) {
      if (r < 0 || r >= p->height) FN(zero)(to, p->ld);
      else FN(pad_row)(p, to, from + r * p->width);
    }
  }
}

ALWAYS_INLINE vec FN(load_columns)(const real *row, lane_range at) {
  return at.high - at.low == LANES ? FN(load)(row + at.first) : FN(load_between)(row + at.first, at.low, at.high);
}

/* Rows that are shorter than a vector are written from the first to the last, so that what is written past one is
   overwritten. */
static void FN(split)(const situ__split *s, const void *x, void *planes) {
  const int64_t line = s->line, width = s->width, size = s->size, every = s->first ? 2 : 1;
  const int64_t above = situ__max_i64(0, -s->row), below = situ__min_i64(2 * s->rows, s->height - s->row);
  for (int64_t i = 0; i < line; i += LANES) {
    if (i + LANES > line && line >= LANES) i = line - LANES;
    const lane_range left = lanes_of(2 * i - s->left, width, LANES), right = lanes_of(left.first + LANES, width, LANES);
    for (int64_t r = 0; r < 2 * s->rows; r += every) {
      real *even = (real *)planes + r % 2 * 2 * size + r / 2 * line + i;
      vec a = { 0 }, b = { 0 };
      if (r >= above && r < below) {
        const real *row = (const real *)x + (s->row + r) * width;
        a = FN(load_columns)(row, left), b = FN(load_columns)(row, right);
      }
      FN(store)(even, HALF(a, b, 0));
      if (!s->first) FN(store)(even + size, HALF(a, b, 1));
    }
  }
}

const situ__im2col_kernels
    FN(situ__im2col_kernels) = { .im2col = FN(im2col), .col2im = FN(col2im), .pad = FN(pad), .split = FN(split) };
