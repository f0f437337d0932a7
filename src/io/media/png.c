/* PNG by libpng: the only file that calls it, by its functions alone, as its structs may change.
   SPDX-License-Identifier: MIT */
#include "image.h"

#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/library.h"

/* ---- libpng 1.6 ---- */

struct png;
struct info;

/* png.h's values. */
enum {
  MASK_COLOUR = 2,
  MASK_ALPHA = 4,
  GRAY = 0,
  RGB = MASK_COLOUR,
  GRAY_ALPHA = MASK_ALPHA,
  RGB_ALPHA = MASK_COLOUR | MASK_ALPHA,
  HAS_TRNS = 0x10,
  FILLER_AFTER = 1,
  ACTION_NONE = 1
};

typedef void told(struct png *, const char *);
typedef void moved(struct png *, unsigned char *, size_t);

/* _(result, name, parameters) */
#define OF (const struct png *, const struct info *)
#define CREATE                                                                                                 \
  (const char *version, void *, told *on_error, told *on_warning, void *, void *(*take)(struct png *, size_t), \
   void (*give)(struct png *, void *))
#define FUNCTIONS(_)                                                                                  \
  _(const char *, get_libpng_ver, (const struct png *))                                               \
  _(struct png *, create_read_struct_2, CREATE)                                                       \
  _(struct png *, create_write_struct_2, CREATE)                                                      \
  _(struct info *, create_info_struct, (const struct png *))                                          \
  _(void, destroy_read_struct, (struct png **, struct info **, struct info **))                       \
  _(void, destroy_write_struct, (struct png **, struct info **))                                      \
  _(void *, get_error_ptr, (const struct png *))                                                      \
  _(void *, get_io_ptr, (const struct png *))                                                         \
  _(void *, get_mem_ptr, (const struct png *))                                                        \
  _(unsigned char, get_bit_depth, OF)                                                                 \
  _(unsigned char, get_channels, OF)                                                                  \
  _(unsigned char, get_color_type, OF)                                                                \
  _(uint32_t, get_image_height, OF)                                                                   \
  _(uint32_t, get_image_width, OF)                                                                    \
  _(size_t, get_rowbytes, OF)                                                                         \
  _(uint32_t, get_valid, (const struct png *, const struct info *, uint32_t))                         \
  _(void, set_read_fn, (struct png *, void *, moved *))                                               \
  _(void, set_write_fn, (struct png *, void *, moved *, void (*)(struct png *)))                      \
  _(void, set_chunk_cache_max, (struct png *, uint32_t))                                              \
  _(void, set_chunk_malloc_max, (struct png *, size_t))                                               \
  _(void, set_expand, (struct png *))                                                                 \
  _(void, set_expand_gray_1_2_4_to_8, (struct png *))                                                 \
  _(void, set_gray_to_rgb, (struct png *))                                                            \
  _(void, set_packing, (struct png *))                                                                \
  _(void, set_scale_16, (struct png *))                                                               \
  _(void, set_strip_alpha, (struct png *))                                                            \
  _(int, set_interlace_handling, (struct png *))                                                      \
  _(void, set_add_alpha, (struct png *, uint32_t, int))                                               \
  _(void, set_rgb_to_gray, (struct png *, int, double, double))                                       \
  _(void, set_compression_level, (struct png *, int))                                                 \
  _(void, set_IHDR, (const struct png *, struct info *, uint32_t, uint32_t, int, int, int, int, int)) \
  _(void, read_info, (struct png *, struct info *))                                                   \
  _(void, read_update_info, (struct png *, struct info *))                                            \
  _(void, read_image, (struct png *, unsigned char **))                                               \
  _(void, read_end, (struct png *, struct info *))                                                    \
  _(void, write_info, (struct png *, const struct info *))                                            \
  _(void, write_row, (struct png *, const unsigned char *))                                           \
  _(void, write_end, (struct png *, struct info *))

#define MEMBER(result, name, parameters) result(*name) parameters;
static struct { FUNCTIONS(MEMBER) } lib;
#define SYMBOL(result, name, parameters) { "png_" #name, &lib.name },
static const situ__symbol symbols[] = { FUNCTIONS(SYMBOL) };

static bool is_usable(void *handle, char *why, size_t size) {
  (void)handle;
  const char *version = lib.get_libpng_ver(NULL);
  return !strncmp(version, "1.6.", 4) || ((void)snprintf(why, size, "it is version %s, not 1.6", version), false);
}

static situ__library library = { .name = "libpng",
                                 .variable = "SITU_PNG",
                                 .package = "libpng16-16",
                                 .file = { "libpng16.so.16" },
                                 .symbol = symbols,
                                 .symbols = sizeof symbols / sizeof *symbols,
                                 .accept = is_usable };

/* ---- pictures ---- */

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
  bool no_memory; /* an allocation has failed: libpng tells of it as of any error, or goes on without */
} session;

static void on_error(struct png *png, const char *text) {
  session *s = lib.get_error_ptr(png);
  situ__problem_set(s->problem, s->no_memory ? SITU_E_NOMEM : SITU_E_FORMAT, "libpng: %s", text);
  longjmp(s->end, 1);
}
static void on_warning(struct png *png, const char *text) { (void)png, (void)text; }
static void *take(struct png *png, size_t bytes) {
  void *block = situ__alloc(bytes);
  if (!block) ((session *)lib.get_mem_ptr(png))->no_memory = true;
  return block;
}
static void give(struct png *png, void *block) { (void)png, situ__free(block); }

static void read_bytes(struct png *png, unsigned char *to, size_t count) {
  session *s = lib.get_io_ptr(png);
  if (count > s->bytes) on_error(png, "it ends within a chunk");
  memcpy(to, s->data, count);
  s->data += count;
  s->bytes -= count;
}
static void write_bytes(struct png *png, unsigned char *from, size_t count) {
  situ__text_append(((session *)lib.get_io_ptr(png))->out, (const char *)from, count);
}
static void flush(struct png *png) { (void)png; }

/* Has libpng give 8 bits a channel, and the channels of mode. */
static void set_channels(struct png *png, struct info *info, situ_image_mode mode) {
  lib.set_scale_16(png);
  if (mode == SITU_IMAGE_UNCHANGED) {
    if (lib.get_color_type(png, info) == GRAY) lib.set_expand_gray_1_2_4_to_8(png);
    lib.set_packing(png);
    return;
  }
  const bool alpha = lib.get_color_type(png, info) & MASK_ALPHA || lib.get_valid(png, info, HAS_TRNS);
  const bool colour = lib.get_color_type(png, info) & MASK_COLOUR;
  const bool wants_alpha = mode == SITU_IMAGE_GRAY_ALPHA || mode == SITU_IMAGE_RGB_ALPHA;
  const bool wants_colour = mode == SITU_IMAGE_RGB || mode == SITU_IMAGE_RGB_ALPHA;
  lib.set_expand(png);
  if (colour && !wants_colour) lib.set_rgb_to_gray(png, ACTION_NONE, 0.2989, 0.587); /* as torchvision */
  if (!colour && wants_colour) lib.set_gray_to_rgb(png);
  if (alpha && !wants_alpha) lib.set_strip_alpha(png);
  if (!alpha && wants_alpha) lib.set_add_alpha(png, 255, FILLER_AFTER);
}

/* True if the pixels could be in that many bytes. */
static bool can_hold(struct png *png, struct info *info, size_t bytes) {
  const uint64_t width = lib.get_image_width(png, info), height = lib.get_image_height(png, info);
  const uint64_t bits = width * lib.get_channels(png, info) * lib.get_bit_depth(png, info);
  return height * (1 + (bits + 7) / 8) / MOST_INFLATED <= bytes;
}

static bool make_image(session *s, struct png *png, struct info *info) {
  situ__image *m = &s->image;
  m->width = lib.get_image_width(png, info);
  m->height = lib.get_image_height(png, info);
  m->channels = lib.get_channels(png, info);
  const size_t row = lib.get_rowbytes(png, info), height = (size_t)m->height;
  m->pixels = situ__alloc(row * height);
  s->rows = situ__alloc(height * sizeof *s->rows);
  if (!m->pixels || !s->rows) return situ__problem_set(s->problem, SITU_E_NOMEM, "needs %zu bytes", row * height);
  for (size_t i = 0; i < height; i++) s->rows[i] = m->pixels + i * row;
  return true;
}

static bool decode(session *s, struct png *png, struct info *info, situ_image_mode mode) {
  const size_t bytes = s->bytes;
  if (setjmp(s->end)) return false;
  lib.set_chunk_malloc_max(png, MOST_CHUNK);
  lib.set_chunk_cache_max(png, MOST_CHUNKS);
  lib.set_read_fn(png, s, read_bytes);
  lib.read_info(png, info);
  if (!can_hold(png, info, bytes))
    return situ__problem_set(s->problem, SITU_E_FORMAT, "has %u x %u pixels, which do not fit into its %zu bytes",
                             lib.get_image_width(png, info), lib.get_image_height(png, info), bytes);
  set_channels(png, info, mode);
  lib.set_interlace_handling(png);
  lib.read_update_info(png, info);
  if (!make_image(s, png, info)) return false;
  lib.read_image(png, s->rows);
  lib.read_end(png, NULL);
  return true;
}

static bool decode_file(const unsigned char *data, size_t bytes, situ_image_mode mode, situ__image *out,
                        situ__problem *problem) {
  session s = { .problem = problem, .data = data, .bytes = bytes };
  struct png *png = lib.create_read_struct_2(lib.get_libpng_ver(NULL), &s, on_error, on_warning, &s, take, give);
  struct info *info = png ? lib.create_info_struct(png) : NULL;
  const bool good =
      info ? decode(&s, png, info, mode) : situ__problem_set(problem, SITU_E_NOMEM, "libpng cannot begin to read it");
  lib.destroy_read_struct(&png, &info, NULL);
  situ__free(s.rows);
  if (good) *out = s.image;
  else situ__free(s.image.pixels);
  return good;
}

static bool encode(session *s, struct png *png, struct info *info, const situ__image *m, int level) {
  static const int type[] = { 0, GRAY, GRAY_ALPHA, RGB, RGB_ALPHA };
  if (setjmp(s->end)) return false;
  lib.set_write_fn(png, s, write_bytes, flush);
  lib.set_compression_level(png, level);
  lib.set_IHDR(png, info, (uint32_t)m->width, (uint32_t)m->height, 8, type[m->channels], 0, 0, 0);
  lib.write_info(png, info);
  for (int64_t i = 0; i < m->height; i++) lib.write_row(png, m->pixels + i * m->width * m->channels);
  lib.write_end(png, NULL);
  return true;
}

static bool encode_file(const situ__image *image, int level, situ__text *out, situ__problem *problem) {
  session s = { .problem = problem, .out = out };
  struct png *png = lib.create_write_struct_2(lib.get_libpng_ver(NULL), &s, on_error, on_warning, &s, take, give);
  struct info *info = png ? lib.create_info_struct(png) : NULL;
  const bool good = info ? encode(&s, png, info, image, level)
                         : situ__problem_set(problem, SITU_E_NOMEM, "libpng cannot begin to write it");
  lib.destroy_write_struct(&png, &info);
  return good;
}

const situ__codec situ__png = { &library, decode_file, encode_file };
