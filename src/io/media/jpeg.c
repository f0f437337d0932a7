/* JPEG by libjpeg (libjpeg-turbo): the only file that calls it.
   SPDX-License-Identifier: MIT */
#include "image.h"
#include "situ_config.h"

#ifdef SITU_HAVE_JPEG

#include <setjmp.h>
#include <stdio.h>

#include <jpeglib.h>

#include <jerror.h>

#include "base/alloc.h"
#include "base/library.h"

/* ---- libjpeg ---- */

/* Structs are those of jpeglib.h; a library of another version or with other structs refuses to create its own. */
#define FUNCTIONS(_)    \
  _(CreateDecompress)   \
  _(CreateCompress)     \
  _(destroy_compress)   \
  _(destroy_decompress) \
  _(finish_compress)    \
  _(finish_decompress)  \
  _(mem_src)            \
  _(read_header)        \
  _(read_scanlines)     \
  _(set_defaults)       \
  _(set_quality)        \
  _(start_compress)     \
  _(start_decompress)   \
  _(std_error)          \
  _(write_scanlines)
#define MEMBER(function) __typeof__(jpeg_##function) *function;
static struct { FUNCTIONS(MEMBER) } lib;
#define SYMBOL(function) { "jpeg_" #function, &lib.function },
static const situ__symbol symbols[] = { FUNCTIONS(SYMBOL) };

static situ__library library = { .name = "libjpeg",
                                 .variable = "SITU_JPEG",
                                 .package = "libjpeg62-turbo",
#if JPEG_LIB_VERSION >= 80 && JPEG_LIB_VERSION < 90
                                 .file = { "libjpeg.so.8" },
#elif JPEG_LIB_VERSION >= 90
                                 .file = { "libjpeg.so.9" },
#else
                                 .file = { "libjpeg.so.62" },
#endif
                                 .symbol = symbols,
                                 .symbols = sizeof symbols / sizeof *symbols };

/* ---- pictures ---- */

/* A block of 8 x 8 pixels takes at least one bit of Huffman code, and some component has at least a quarter of the
   picture's blocks. A progressive file of more scans than these takes long for nothing. */
enum { MOST_BLOCKS = 32, MOST_SCANS = 100 };

/* One call of libjpeg, which leaves it by longjmp on an error. */
typedef struct session {
  struct jpeg_error_mgr errors; /* first, so that libjpeg's pointer is one to this */
  struct jpeg_progress_mgr progress;
  jmp_buf end;
  situ__problem *problem;
  situ__image image;
  struct jpeg_destination_mgr to; /* encoding: what `block` holds is appended to out */
  situ__text *out;
  unsigned char block[4096];
} session;

static void on_error(j_common_ptr jpeg) {
  session *s = (session *)jpeg->err;
  char text[JMSG_LENGTH_MAX];
  s->errors.format_message(jpeg, text);
  const bool no_memory = s->errors.msg_code == JERR_OUT_OF_MEMORY;
  situ__problem_set(s->problem, no_memory ? SITU_E_NOMEM : SITU_E_FORMAT, "libjpeg: %s", text);
  longjmp(s->end, 1);
}
/* Damaged data are warnings to libjpeg, level -1. */
static void on_message(j_common_ptr jpeg, int level) {
  if (level < 0) on_error(jpeg);
}
static void on_progress(j_common_ptr jpeg) {
  session *s = (session *)jpeg->err;
  if (((j_decompress_ptr)jpeg)->input_scan_number <= MOST_SCANS) return;
  situ__problem_set(s->problem, SITU_E_LIMIT, "has more than %d scans", MOST_SCANS);
  longjmp(s->end, 1);
}

static void begin(session *s, situ__problem *problem) {
  s->problem = problem;
  lib.std_error(&s->errors);
  s->errors.error_exit = on_error;
  s->errors.emit_message = on_message;
}

/* Checks the header, and chooses the colours. */
static bool choose(struct jpeg_decompress_struct *jpeg, size_t bytes, situ_image_mode mode, situ__problem *problem) {
  const uint64_t blocks = ((uint64_t)jpeg->image_width + 7) / 8 * (((uint64_t)jpeg->image_height + 7) / 8);
  if (mode == SITU_IMAGE_GRAY_ALPHA || mode == SITU_IMAGE_RGB_ALPHA)
    return situ__problem_set(problem, SITU_E_UNSUPPORTED, "is a JPEG file, which has no alpha channel");
  if (jpeg->arith_code) return situ__problem_set(problem, SITU_E_UNSUPPORTED, "has arithmetic coding");
  if (jpeg->num_components != 1 && jpeg->num_components != 3)
    return situ__problem_set(problem, SITU_E_UNSUPPORTED, "has %d colours (CMYK?): gray and RGB are read",
                             jpeg->num_components);
  if (blocks / MOST_BLOCKS > bytes)
    return situ__problem_set(problem, SITU_E_FORMAT, "has %u x %u pixels, which do not fit into its %zu bytes",
                             jpeg->image_width, jpeg->image_height, bytes);
  const bool gray = mode == SITU_IMAGE_GRAY || (mode == SITU_IMAGE_UNCHANGED && jpeg->num_components == 1);
  jpeg->out_color_space = gray ? JCS_GRAYSCALE : JCS_RGB;
  return true;
}

static bool decode(session *s, struct jpeg_decompress_struct *jpeg, const unsigned char *data, size_t bytes,
                   situ_image_mode mode) {
  if (setjmp(s->end)) return false;
  lib.CreateDecompress(jpeg, JPEG_LIB_VERSION, sizeof *jpeg);
  jpeg->progress = &s->progress;
  lib.mem_src(jpeg, data, bytes);
  (void)lib.read_header(jpeg, TRUE);
  if (!choose(jpeg, bytes, mode, s->problem)) return false;
  lib.start_decompress(jpeg);
  situ__image *m = &s->image;
  *m = (situ__image){ .height = jpeg->output_height, .width = jpeg->output_width, .channels = jpeg->output_components };
  const size_t row = (size_t)m->width * (size_t)m->channels;
  m->pixels = situ__alloc(row * (size_t)m->height);
  if (!m->pixels) return situ__problem_set(s->problem, SITU_E_NOMEM, "needs %zu bytes", row * (size_t)m->height);
  while (jpeg->output_scanline < jpeg->output_height) {
    JSAMPROW to = m->pixels + row * jpeg->output_scanline;
    lib.read_scanlines(jpeg, &to, 1);
  }
  lib.finish_decompress(jpeg);
  return true;
}

static bool decode_file(const unsigned char *data, size_t bytes, situ_image_mode mode, situ__image *out,
                        situ__problem *problem) {
  session s = { .progress.progress_monitor = on_progress };
  begin(&s, problem);
  struct jpeg_decompress_struct jpeg = { .err = &s.errors };
  const bool good = decode(&s, &jpeg, data, bytes, mode);
  lib.destroy_decompress(&jpeg);
  if (good) *out = s.image;
  else situ__free(s.image.pixels);
  return good;
}

static void begin_block(j_compress_ptr jpeg) {
  session *s = (session *)jpeg->err;
  s->to.next_output_byte = s->block;
  s->to.free_in_buffer = sizeof s->block;
}
static boolean end_block(j_compress_ptr jpeg) {
  session *s = (session *)jpeg->err;
  situ__text_append(s->out, (const char *)s->block, sizeof s->block);
  begin_block(jpeg);
  return TRUE;
}
static void end_file(j_compress_ptr jpeg) {
  session *s = (session *)jpeg->err;
  situ__text_append(s->out, (const char *)s->block, sizeof s->block - s->to.free_in_buffer);
}

static bool encode(session *s, struct jpeg_compress_struct *jpeg, const situ__image *m, int quality) {
  if (setjmp(s->end)) return false;
  lib.CreateCompress(jpeg, JPEG_LIB_VERSION, sizeof *jpeg);
  jpeg->dest = &s->to;
  jpeg->image_width = (JDIMENSION)m->width;
  jpeg->image_height = (JDIMENSION)m->height;
  jpeg->input_components = m->channels;
  jpeg->in_color_space = m->channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  lib.set_defaults(jpeg);
  lib.set_quality(jpeg, quality, TRUE);
  lib.start_compress(jpeg, TRUE);
  while (jpeg->next_scanline < jpeg->image_height) {
    JSAMPROW from = m->pixels + (size_t)jpeg->next_scanline * (size_t)m->width * (size_t)m->channels;
    lib.write_scanlines(jpeg, &from, 1);
  }
  lib.finish_compress(jpeg);
  return true;
}

static bool encode_file(const situ__image *image, int quality, situ__text *out, situ__problem *problem) {
  session s = {
    .to = { .init_destination = begin_block, .empty_output_buffer = end_block, .term_destination = end_file },
    .out = out
  };
  begin(&s, problem);
  struct jpeg_compress_struct jpeg = { .err = &s.errors };
  const bool good = encode(&s, &jpeg, image, quality);
  lib.destroy_compress(&jpeg);
  return good;
}

const situ__codec situ__jpeg = { &library, decode_file, encode_file };

#else

const situ__codec situ__jpeg = { .library = NULL };

#endif
