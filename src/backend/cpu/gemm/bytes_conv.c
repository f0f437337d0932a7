/* Convolution of u8 and i8, summed exactly: products of windows, which are rows of bytes with the channels last, or of
   one channel each, sums of planes.
   SPDX-License-Identifier: MIT */
#include "backend/cpu/gemm/bytes.h"
#include "backend/cpu/common/loop.h"
#include "backend/cpu/common/slots.h"

#include "base/pool.h"
#include "base/size.h"

#include <string.h>

typedef struct convolution {
  const situ_work *work;
  const situ_window *window;
  const situ__bytes_kernels *kernels;
  int64_t channels, height, width, outputs, out_height, out_width; /* channels and outputs of a group */
  int64_t k, row;       /* of a window: elements, and bytes with its padding */
  uint8_t zero;         /* what is outside of x */
  const char *packed;   /* the weight */
  const uint8_t *image; /* [groups][height][width][channels] */
  char *y;              /* of the image */
  int64_t block;        /* places of a chunk */
  situ__slots scratch;
} convolution;

static bool is_depthwise(const situ_window *w, const int64_t *weight) {
  return weight[1] == 1 && w->groups == weight[0];
}

/* ---- the weight ---- */

static void pack(const situ_work *w, const situ_view_desc *weight, char *to) {
  const int64_t *size = weight->size, groups = w->window->groups, taps = size[2] * size[3];
  const int64_t outputs = size[0] / groups, k = size[1] * taps;
  const unsigned char *from = (const unsigned char *)situ__cpu_data(weight);
  if (is_depthwise(w->window, size)) {
    situ__bytes_transpose(from, taps, size[0], taps, weight->dtype == SITU_I8 ? 0 : 128, (uint8_t *)to, size[0]);
    return;
  }
  for (int64_t g = 0; g < groups; g++) {
    const situ__bytes_source source = { .b = from + g * outputs * k,
                                        .is_signed = weight->dtype == SITU_I8,
                                        .k = k,
                                        .n = outputs,
                                        .column = k,
                                        .middles = 1,
                                        .inners = size[1],
                                        .outer_step = 1,
                                        .inner_step = taps };
    situ__bytes_pack(&source, to + g * situ_integer_prepack_bytes(k, outputs));
  }
}

situ_status situ__cpu_bytes_conv_prepack(const situ_work *w) {
  pack(w, w->in[0], situ__cpu_data(w->out[0]));
  return SITU_OK;
}

/* ---- windows as rows ---- */

/* Row and column of the image at which tap `at` of a window lies. */
static inline int64_t place_of(const situ_window *w, int d, int64_t out, int64_t at) {
  return out * w->stride[d] - w->padding[d] + at * w->dilation[d];
}

/* The window of a place as a row: whole runs of columns where they lie inside and beside each other. */
static void copy_window(const convolution *c, const uint8_t *image, int64_t place, uint8_t *to) {
  const situ_window *w = c->window;
  const int64_t columns = w->kernel[1], out = place % c->out_width, first = place_of(w, 1, out, 0);
  const bool inside = first >= 0 && place_of(w, 1, out, columns - 1) < c->width && w->dilation[1] == 1;
  for (int64_t i = 0; i < w->kernel[0]; i++, to += columns * c->channels) {
    const int64_t row = place_of(w, 0, place / c->out_width, i);
    const uint8_t *from = image + (row * c->width + first) * c->channels;
    if (row < 0 || row >= c->height) {
      memset(to, c->zero, (size_t)(columns * c->channels));
    } else if (inside) {
      memcpy(to, from, (size_t)(columns * c->channels));
    } else {
      for (int64_t j = 0; j < columns; j++) {
        const int64_t column = first + j * w->dilation[1];
        uint8_t *at = to + j * c->channels;
        if (column < 0 || column >= c->width) memset(at, c->zero, (size_t)c->channels);
        else memcpy(at, image + (row * c->width + column) * c->channels, (size_t)c->channels);
      }
    }
  }
  memset(to, 0, (size_t)(c->row - c->k));
}

/* Results [places][outputs] become planes. */
static void put_planes(const convolution *c, const char *from, int64_t outputs, int64_t first, int64_t places,
                       char *to) {
  const int64_t plane = c->out_height * c->out_width;
  if (situ__cpu_size(c->work->out[0]->dtype) == 1) {
    situ__bytes_transpose((const uint8_t *)from, outputs, places, outputs, 0, (uint8_t *)to + first, plane);
    return;
  }
  const uint32_t *word = (const uint32_t *)(const void *)from;
  for (int64_t o = 0; o < outputs; o++)
    for (int64_t i = 0; i < places; i++) ((uint32_t *)(void *)to)[o * plane + first + i] = word[i * outputs + o];
}

static void run_places(int64_t begin, int64_t end, void *payload) {
  convolution *c = payload;
  const int64_t plane = c->out_height * c->out_width, blocks = situ__ceil_div(plane, c->block);
  const int64_t item = situ__cpu_size(c->work->out[0]->dtype);
  char *results = situ__slots_take(&c->scratch);
  uint8_t *rows = (uint8_t *)results + situ__round_up(c->block * c->outputs * item, 64);
  for (int64_t chunk = begin; chunk < end; chunk++) {
    const int64_t g = chunk / blocks, first = chunk % blocks * c->block,
                  places = situ__min_i64(c->block, plane - first);
    const uint8_t *image = c->image + g * c->channels * c->height * c->width;
    for (int64_t i = 0; i < places; i++) copy_window(c, image, first + i, rows + i * c->row);
    const situ__bytes p = { c->kernels, c->work,    c->packed + g * situ_integer_prepack_bytes(c->k, c->outputs),
                            c->k,       c->outputs, g * c->outputs };
    situ__bytes_rows(&p, rows, c->row, places, 0, situ__bytes_panels(c->outputs), results, c->outputs);
    put_planes(c, results, c->outputs, first, places, c->y + g * c->outputs * plane * item);
  }
  situ__slots_give(&c->scratch, results);
}

/* ---- each channel by itself: the image is [height][width][all channels] ---- */

static void run_depthwise(int64_t begin, int64_t end, void *payload) {
  convolution *c = payload;
  const situ_window *w = c->window;
  const int64_t all = w->groups, plane = c->out_height * c->out_width, item = situ__cpu_size(c->work->out[0]->dtype);
  char *results = situ__slots_take(&c->scratch);
  const uint8_t **tap = (const uint8_t **)(void *)(results + situ__round_up(c->block * all * item, 64));
  for (int64_t chunk = begin; chunk < end; chunk++) {
    const int64_t first = chunk * c->block, places = situ__min_i64(c->block, plane - first);
    for (int64_t channel = 0; channel < all; channel += SITU__BYTES_COLUMNS) {
      const int count = (int)situ__min_i64(SITU__BYTES_COLUMNS, all - channel);
      int32_t sums[SITU__BYTES_COLUMNS], zero[SITU__BYTES_COLUMNS];
      situ__bytes_finish f;
      situ__bytes_finish_at(c->work, channel, count, 0, NULL, &f);
      memcpy(zero, f.zero, sizeof zero);
      memset(f.zero, 0, sizeof f.zero);
      for (int64_t i = 0; i < places; i++) {
        for (int64_t t = 0; t < c->k; t++) {
          const int64_t row = place_of(w, 0, (first + i) / c->out_width, t / w->kernel[1]),
                        column = place_of(w, 1, (first + i) % c->out_width, t % w->kernel[1]);
          const bool inside = row >= 0 && row < c->height && column >= 0 && column < c->width;
          tap[t] = inside ? c->image + (row * c->width + column) * all + channel : NULL;
        }
        c->kernels->depthwise(tap, c->zero, (const int8_t *)c->packed + channel, all, zero, (int)c->k, count, sums);
        c->kernels->finish(&f, sums, 0, count, results + (i * all + channel) * item);
      }
    }
    put_planes(c, results, all, first, places, c->y);
  }
  situ__slots_give(&c->scratch, results);
}

/* ---- the verb ---- */

/* Image n with the channels of each group last. */
static void lay_out_image(const convolution *c, int64_t n, uint8_t *to, int64_t groups, int64_t channels) {
  const situ_view_desc *x = c->work->in[A];
  const int64_t plane = c->height * c->width, size = channels * plane;
  const uint8_t *from = (const uint8_t *)situ__cpu_data(x) + n * groups * size;
  for (int64_t g = 0; g < groups; g++)
    situ__bytes_transpose(from + g * size, plane, channels, plane, situ__bytes_flip(x->dtype), to + g * size, channels);
}

situ_status situ__cpu_integer_conv(const situ_work *work) {
  enum { BYTES = 1 << 16, LEAST = 8, MOST = 128 };
  const situ_view_desc *x = work->in[A], *w = work->in[B], *y = work->out[0],
                       *packed = situ__bytes_operand(work, PACKED);
  const situ_window *window = work->window;
  convolution c = { .work = work,
                    .window = window,
                    .kernels = situ__bytes_kernels_best(),
                    .channels = w->size[1],
                    .height = x->size[2],
                    .width = x->size[3],
                    .outputs = w->size[0] / window->groups,
                    .out_height = y->size[2],
                    .out_width = y->size[3],
                    .k = w->size[1] * w->size[2] * w->size[3],
                    .zero = (uint8_t)situ__bytes_zero_a(work) };
  const bool depthwise = is_depthwise(window, w->size);
  const int64_t plane = c.out_height * c.out_width, item = situ__cpu_size(y->dtype),
                image = x->size[1] * c.height * c.width;
  c.row = 4 * situ__bytes_groups(c.k);
  c.block = situ__min_i64(plane, situ__max_i64(LEAST, situ__min_i64(MOST, BYTES / c.row)));
  const int64_t across = depthwise ? w->size[0] : c.outputs,
                each = depthwise ? c.k * (int64_t)sizeof(void *) : c.block * c.row;
  const int64_t chunks = situ__ceil_div(plane, c.block) * (depthwise ? 1 : window->groups);
  const int64_t weight = situ_integer_prepack_bytes(c.k, c.outputs) * window->groups;
  situ__slots laid_out = { 0 };
  situ_status status =
      situ__slots_open(&c.scratch, "integer", (size_t)(situ__round_up(c.block * across * item, 64) + each), chunks);
  if (status == SITU_OK)
    status = situ__slots_open(&laid_out, "integer", (size_t)(situ__round_up(image, 64) + (packed ? 0 : weight)), 1);
  if (status == SITU_OK) {
    char *memory = situ__slots_take(&laid_out);
    c.image = (const uint8_t *)memory;
    c.packed = packed ? situ__cpu_data(packed) : memory + situ__round_up(image, 64);
    if (!packed) pack(work, w, memory + situ__round_up(image, 64));
    for (int64_t n = 0; n < x->size[0]; n++) {
      lay_out_image(&c, n, (uint8_t *)memory, depthwise ? 1 : window->groups, depthwise ? w->size[0] : c.channels);
      c.y = situ__cpu_data(y) + n * y->size[1] * plane * item;
      situ__parallel(chunks, 1, depthwise ? run_depthwise : run_places, &c);
    }
    situ__slots_give(&laid_out, memory);
  }
  situ__slots_close(&laid_out);
  situ__slots_close(&c.scratch);
  return status;
}
