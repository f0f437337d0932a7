/* Max pooling of a plane for one compute type: included by pool_compute.h. NaN wins, else the first of equal maxima.
   Windows side by side are taken LANES at a time: of the plane itself where all lie between its left and right edges,
   else of a copy with longer rows.
   SPDX-License-Identifier: MIT */
#define LANES ((int)(VECTOR / sizeof(real)))

static void FN(max_window)(const situ__plane *p, const real *x, int64_t oh, int64_t ow, real *y, int64_t *index) {
  const situ_window *w = p->window;
  const int64_t top = oh * w->stride[0] - w->padding[0], left = ow * w->stride[1] - w->padding[1];
  int64_t place = first_place(p, oh, ow);
  real most = LOWEST;
  for (int64_t kh = outside(top, w->dilation[0]); kh < w->kernel[0] && top + kh * w->dilation[0] < p->height; kh++)
    for (int64_t kw = outside(left, w->dilation[1]); kw < w->kernel[1] && left + kw * w->dilation[1] < p->width; kw++) {
      const int64_t at = (top + kh * w->dilation[0]) * p->width + left + kw * w->dilation[1];
      if (x[at] > most || IS_NAN(x[at])) most = x[at], place = at;
    }
  y[ow] = most;
  if (index) index[ow] = place;
}

/* ---- windows side by side ---- */

ALWAYS_INLINE vec FN(load_each)(const real *x, int64_t step, int count) {
  if (step == 1) return FN(load_some)(x, count);
  vec v = { 0 };
  for (int l = 0; l < count; l++) v[l] = x[l * step];
  return v;
}

/* Stores the places of maxima: offset l is from window l's first element, that of window 0 is at `place`. */
ALWAYS_INLINE void FN(store_places)(int64_t *index, int64_t place, int64_t step, picks offset, int count) {
  enum { FEW = VECTOR / sizeof(int64_t) };
  typedef integer part __attribute__((vector_size(FEW * sizeof(integer))));
  UNROLL for (int l = 0; l < LANES && l < count; l += FEW) {
    part few;
    memcpy(&few, (const char *)&offset + (size_t)l * sizeof(integer), sizeof few);
    const picks_f64 window = (picks_f64){ NUMBERS_F64 } + l,
                    at = __builtin_convertvector(few, picks_f64) + window * step + place;
    I64(store_some)(index + l, at, count - l < FEW ? count - l : FEW);
  }
}

/* Lanes in which v wins take v and its offset. A comparison of vectors is -1 where it holds. */
ALWAYS_INLINE void FN(take_larger)(vec *most, picks *offset, vec v, int64_t at) {
  const picks take = EITHER(v > *most, IS_NAN(v));
  *most = (vec)(((picks)v & take) | ((picks)*most & ~take));
  *offset = ((integer)at & take) | (*offset & ~take);
}

/* `count` windows, 1 to LANES; index may be NULL. x and place: of the first window's first element. */
ALWAYS_INLINE void FN(max_lanes)(const real *x, taps t, int count, real *y, int64_t place, int64_t *index) {
  vec most = (vec){ 0 } + LOWEST;
  picks offset = { 0 };
  for (int64_t row = 0; row < t.rows; row++, x += t.line) {
    const int64_t at = row * t.down;
    if (t.pairs) {
      for (int64_t column = 0; column < t.columns; column += 2) {
        const int size = 2 * count, more = size - LANES;
        const vec a = FN(load_some)(x + column, more < 0 ? size : LANES),
                  b = FN(load_some)(x + column + LANES, more < 0 ? 0 : more);
        if (row + column == 0) most = HALF(a, b, 0);
        else FN(take_larger)(&most, &offset, HALF(a, b, 0), at + column);
        if (column + 1 < t.columns) FN(take_larger)(&most, &offset, HALF(a, b, 1), at + column + 1);
      }
    } else {
      for (int64_t column = 0; column < t.columns; column++)
        FN(take_larger)(&most, &offset, FN(load_each)(x + column * t.right, t.step, count), at + column * t.right);
    }
  }
  FN(store_some)(y, most, count);
  if (index) FN(store_places)(index, place, t.step, offset, count);
}

/* The last vector overlaps the one before. */
ALWAYS_INLINE void FN(max_row)(const real *x, taps t, int64_t count, real *y, int64_t place, int64_t *index) {
  if (count < LANES) {
    FN(max_lanes)(x, t, (int)count, y, place, index);
    return;
  }
  for (int64_t i = 0; i < count; i += LANES) {
    if (i > count - LANES) i = count - LANES;
    FN(max_lanes)(x + i * t.step, t, LANES, y + i, place + i * t.step, index ? index + i : NULL);
  }
}

/* ---- planes ---- */

/* Windows of 2 x 2 side by side, all inside of the plane. */
static bool FN(is_halving)(const situ__plane *p) {
  const situ_window *w = p->window;
  bool halves = 2 * p->out_height <= p->height && 2 * p->out_width <= p->width;
  for (int d = 0; d < 2; d++)
    halves = halves && w->kernel[d] == 2 && w->stride[d] == 2 && w->padding[d] == 0 && w->dilation[d] == 1;
  return halves;
}
ALWAYS_INLINE void FN(max_halving)(const situ__plane *p, const real *x, real *y, int64_t *index) {
  const taps t = { .rows = 2, .columns = 2, .step = 2, .right = 1, .line = p->width, .down = p->width, .pairs = true };
  for (int64_t oh = 0; oh < p->out_height; oh++) {
    const int64_t place = 2 * oh * p->width, to = oh * p->out_width;
    FN(max_row)(x + place, t, p->out_width, y + to, place, index ? index + to : NULL);
  }
}

/* The plane with LOWEST at both ends of its rows, which is in no window the maximum of what lies inside the plane. */
static const real *FN(lengthen)(const situ__plane *p, const real *x) {
  const int64_t before = p->window->padding[1];
  real *to = p->scratch;
  for (int64_t row = 0; row < p->height; row++, to += p->line, x += p->width) {
    for (int64_t i = 0; i < before; i++) to[i] = LOWEST;
    memcpy(to + before, x, (size_t)p->width * sizeof *x);
    for (int64_t i = before + p->width; i < p->line; i++) to[i] = LOWEST;
  }
  return p->scratch;
}

/* x: rows of p->line elements. step is a constant in the common calls. */
ALWAYS_INLINE void FN(max_rows)(const situ__plane *p, int64_t step, bool pairs, const real *x, real *y,
                                int64_t *index) {
  const situ_window *w = p->window;
  taps t = { .columns = w->kernel[1], .step = step, .right = w->dilation[1], .pairs = pairs };
  t.line = w->dilation[0] * p->line, t.down = w->dilation[0] * p->width;
  const int64_t last = p->out_width - 1, before = situ__min_i64(p->out_width, situ__ceil_div(w->padding[1], step));
  for (int64_t oh = 0; oh < p->out_height; oh++, y += p->out_width, index = index ? index + p->out_width : NULL) {
    const int64_t top = oh * w->stride[0] - w->padding[0], above = outside(top, w->dilation[0]);
    const int64_t row = top + above * w->dilation[0];
    t.rows = situ__min_i64(w->kernel[0], situ__ceil_div(p->height - top, w->dilation[0])) - above;
    /* Pairs of an odd number of columns read one element more, which at the plane's end does not exist. */
    const int64_t read = row * p->line + (t.rows - 1) * t.line + last * step + t.columns + t.columns % 2;
    const bool apart = pairs && read > p->height * p->line;
    FN(max_row)(x + row * p->line, t, p->out_width - apart, y, row * p->width - w->padding[1], index);
    if (apart) FN(max_window)(p, x, oh, last, y, index);
    for (int64_t ow = 0; index && ow < before; ow++)
      if (y[ow] == LOWEST) index[ow] = first_place(p, oh, ow);
  }
}

ALWAYS_INLINE void FN(max_plane)(const situ__plane *p, const real *x, real *y, int64_t *index) {
  const situ_window *w = p->window;
  const int64_t step = w->stride[1],
                reach = (w->kernel[0] - 1) * w->dilation[0] * p->width + (w->kernel[1] - 1) * w->dilation[1];
  if (p->line && reach == (integer)reach) { /* offsets fit in their lanes */
    if (p->line > p->width) x = FN(lengthen)(p, x);
    if (FN(is_halving)(p)) FN(max_halving)(p, x, y, index);
    else if (step == 1) FN(max_rows)(p, 1, false, x, y, index);
    else if (step == 2 && w->dilation[1] == 1) FN(max_rows)(p, 2, true, x, y, index);
    else FN(max_rows)(p, step, false, x, y, index);
    return;
  }
  for (int64_t oh = 0; oh < p->out_height; oh++, y += p->out_width, index = index ? index + p->out_width : NULL)
    for (int64_t ow = 0; ow < p->out_width; ow++) FN(max_window)(p, x, oh, ow, y, index);
}
static void FN(max)(const situ__plane *p, const void *large, void *small, int64_t *index) {
  if (index) FN(max_plane)(p, large, small, index);
  else FN(max_plane)(p, large, small, NULL);
}
#undef LANES
