/* PNG by libpng: the only file that calls it.
   SPDX-License-Identifier: MIT */
#include "io/image.h"
#include "situ_config.h"

#ifdef SITU_HAVE_PNG

#include <png.h>
#include <setjmp.h>
#include <string.h>

#include "base/alloc.h"

/* Deflate makes at most 1032 bytes of one. */
enum { MOST_INFLATED = 1032, MOST_CHUNK = 8 << 20, MOST_CHUNKS = 1000 };

/* One call of libpng, which leaves it by longjmp on an error. */
typedef struct session {
  jmp_buf end;
  situ__problem *problem;
  const unsigned char *data; /* decoding: what is left */
  size_t bytes;
  situ__text *out; /* encoding */
  situ__image image;
  unsigned char **rows;
} session;

static void on_error(png_structp png, png_const_charp text) {
  session *s = png_get_error_ptr(png);
  situ__problem_set(s->problem, SITU_E_FORMAT, "libpng: %s", text);
  longjmp(s->end, 1);
}
static void on_warning(png_structp png, png_const_charp text) { (void)png, (void)text; }
static void *take(png_structp png, png_alloc_size_t bytes) { return (void)png, situ__alloc(bytes); }
static void give(png_structp png, void *block) { (void)png, situ__free(block); }

static void read_bytes(png_structp png, png_bytep to, size_t count) {
  session *s = png_get_io_ptr(png);
  if (count > s->bytes) png_error(png, "it ends within a chunk");
  memcpy(to, s->data, count);
  s->data += count;
  s->bytes -= count;
}
static void write_bytes(png_structp png, png_bytep from, size_t count) {
  situ__text_append(((session *)png_get_io_ptr(png))->out, (const char *)from, count);
}
static void flush(png_structp png) { (void)png; }

/* Has libpng give 8 bits a channel, and the channels of mode. */
static void set_channels(png_structp png, png_infop info, situ_image_mode mode) {
  png_set_scale_16(png);
  if (mode == SITU_IMAGE_UNCHANGED) {
    if (png_get_color_type(png, info) == PNG_COLOR_TYPE_GRAY) png_set_expand_gray_1_2_4_to_8(png);
    png_set_packing(png);
    return;
  }
  const bool alpha = png_get_color_type(png, info) & PNG_COLOR_MASK_ALPHA || png_get_valid(png, info, PNG_INFO_tRNS);
  const bool colour = png_get_color_type(png, info) & PNG_COLOR_MASK_COLOR;
  const bool wants_alpha = mode == SITU_IMAGE_GRAY_ALPHA || mode == SITU_IMAGE_RGB_ALPHA;
  const bool wants_colour = mode == SITU_IMAGE_RGB || mode == SITU_IMAGE_RGB_ALPHA;
  png_set_expand(png);
  if (colour && !wants_colour) png_set_rgb_to_gray(png, PNG_ERROR_ACTION_NONE, 0.2989, 0.587); /* as torchvision */
  if (!colour && wants_colour) png_set_gray_to_rgb(png);
  if (alpha && !wants_alpha) png_set_strip_alpha(png);
  if (!alpha && wants_alpha) png_set_add_alpha(png, 255, PNG_FILLER_AFTER);
}

/* True if the pixels could be in that many bytes. */
static bool can_hold(png_structp png, png_infop info, size_t bytes) {
  const uint64_t width = png_get_image_width(png, info), height = png_get_image_height(png, info);
  const uint64_t bits = width * png_get_channels(png, info) * png_get_bit_depth(png, info);
  return height * (1 + (bits + 7) / 8) / MOST_INFLATED <= bytes;
}

static bool make_image(session *s, png_structp png, png_infop info) {
  situ__image *m = &s->image;
  m->width = png_get_image_width(png, info);
  m->height = png_get_image_height(png, info);
  m->channels = png_get_channels(png, info);
  const size_t row = png_get_rowbytes(png, info), height = (size_t)m->height;
  m->pixels = situ__alloc(row * height);
  s->rows = situ__alloc(height * sizeof *s->rows);
  if (!m->pixels || !s->rows) return situ__problem_set(s->problem, SITU_E_NOMEM, "needs %zu bytes", row * height);
  for (size_t i = 0; i < height; i++) s->rows[i] = m->pixels + i * row;
  return true;
}

static bool decode(session *s, png_structp png, png_infop info, situ_image_mode mode) {
  const size_t bytes = s->bytes;
  if (setjmp(s->end)) return false;
  png_set_chunk_malloc_max(png, MOST_CHUNK);
  png_set_chunk_cache_max(png, MOST_CHUNKS);
  png_set_read_fn(png, s, read_bytes);
  png_read_info(png, info);
  if (!can_hold(png, info, bytes))
    return situ__problem_set(s->problem, SITU_E_FORMAT, "has %u x %u pixels, which do not fit into its %zu bytes",
                             png_get_image_width(png, info), png_get_image_height(png, info), bytes);
  set_channels(png, info, mode);
  png_set_interlace_handling(png);
  png_read_update_info(png, info);
  if (!make_image(s, png, info)) return false;
  png_read_image(png, s->rows);
  png_read_end(png, NULL);
  return true;
}

static bool decode_file(const unsigned char *data, size_t bytes, situ_image_mode mode, situ__image *out,
                        situ__problem *problem) {
  session s = { .problem = problem, .data = data, .bytes = bytes };
  png_structp png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, &s, on_error, on_warning, NULL, take, give);
  png_infop info = png ? png_create_info_struct(png) : NULL;
  const bool good =
      info ? decode(&s, png, info, mode) : situ__problem_set(problem, SITU_E_NOMEM, "libpng cannot begin to read it");
  png_destroy_read_struct(&png, &info, NULL);
  situ__free(s.rows);
  if (good) *out = s.image;
  else situ__free(s.image.pixels);
  return good;
}

static bool encode(session *s, png_structp png, png_infop info, const situ__image *m, int level) {
  static const int type[] = { 0, PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA, PNG_COLOR_TYPE_RGB,
                              PNG_COLOR_TYPE_RGB_ALPHA };
  if (setjmp(s->end)) return false;
  png_set_write_fn(png, s, write_bytes, flush);
  png_set_compression_level(png, level);
  png_set_IHDR(png, info, (png_uint_32)m->width, (png_uint_32)m->height, 8, type[m->channels], PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_write_info(png, info);
  for (int64_t i = 0; i < m->height; i++) png_write_row(png, m->pixels + i * m->width * m->channels);
  png_write_end(png, NULL);
  return true;
}

static bool encode_file(const situ__image *image, int level, situ__text *out, situ__problem *problem) {
  session s = { .problem = problem, .out = out };
  png_structp png = png_create_write_struct_2(PNG_LIBPNG_VER_STRING, &s, on_error, on_warning, NULL, take, give);
  png_infop info = png ? png_create_info_struct(png) : NULL;
  const bool good = info ? encode(&s, png, info, image, level)
                         : situ__problem_set(problem, SITU_E_NOMEM, "libpng cannot begin to write it");
  png_destroy_write_struct(&png, &info);
  return good;
}

const situ__codec situ__png = { "libpng", "libpng-dev", decode_file, encode_file };

#else

const situ__codec situ__png = { .library = "libpng", .package = "libpng-dev" };

#endif
