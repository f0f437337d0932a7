/* Image files as tensors.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/file.h"
#include "image.h"
#include "io/format/values.h"
#include "situ/ops.h"
#include "situ/sys/shape.h"

#define MOST_BYTES ((int64_t)1 << 31)

/* ---- reading ---- */

static bool check_codec(const situ__codec *codec, situ__problem *problem) {
  if (codec->decode) return situ__library_need(codec->library, problem);
  return situ__problem_set(problem, SITU_E_UNSUPPORTED,
                           "is a JPEG file, and situ was built without jpeglib.h: install libjpeg's headers (Debian: "
                           "libjpeg-dev), and build situ again");
}

static bool decode(const unsigned char *data, size_t bytes, situ_image_mode mode, situ__image *out,
                   situ__problem *problem) {
  static const unsigned char png[] = { 0x89, 'P', 'N', 'G' }, jpeg[] = { 0xFF, 0xD8, 0xFF };
  const situ__codec *codec = bytes >= sizeof png && !memcmp(data, png, sizeof png)      ? &situ__png
                             : bytes >= sizeof jpeg && !memcmp(data, jpeg, sizeof jpeg) ? &situ__jpeg
                                                                                        : NULL;
  if (!codec) return situ__problem_set(problem, SITU_E_FORMAT, "is neither a PNG nor a JPEG file");
  return check_codec(codec, problem) && codec->decode(data, bytes, mode, out, problem);
}

/* path: for messages. */
static situ_tensor *to_tensor(const char *op, const char *path, const void *data, size_t bytes, situ_image_mode mode,
                              situ_device device) {
  situ__image m;
  situ__problem problem;
  if ((unsigned)mode > SITU_IMAGE_RGB_ALPHA)
    return situ__fail(SITU_E_ARG, op, "mode is %d, not one of situ_image_mode", (int)mode), NULL;
  if (!decode(data, bytes, mode, &m, &problem))
    return situ__fail(problem.status, op, "%s: %s", path, problem.text), NULL;
  situ_tensor *t = NULL;
  const size_t plane = (size_t)m.height * (size_t)m.width, channels = (size_t)m.channels;
  unsigned char *planes = situ__alloc(plane * channels);
  if (!planes) situ__no_memory(op, plane * channels);
  for (size_t c = 0; planes && c < channels; c++)
    for (size_t i = 0; i < plane; i++) planes[c * plane + i] = m.pixels[i * channels + c];
  if (planes)
    t = situ_from_host(planes, plane * channels, SITU_SHAPE(m.channels, m.height, m.width),
                       &(situ_options){ .dtype = SITU_U8, .device = device });
  situ__free(planes);
  situ__free(m.pixels);
  return t;
}

situ_tensor *situ_decode_image(const void *data, size_t bytes, situ_image_mode mode, situ_device device) {
  SITU__MADE_OF_OPS("decode_image");
  if (!situ__given("decode_image", "data", data)) return NULL;
  return to_tensor("decode_image", "data", data, bytes, mode, device);
}

situ_tensor *situ_read_image(const char *path, situ_image_mode mode, situ_device device) {
  SITU__MADE_OF_OPS("read_image");
  size_t bytes;
  if (!situ__given("read_image", "path", path)) return NULL;
  char *data = situ__file_load("read_image", path, MOST_BYTES, &bytes);
  if (!data) return NULL;
  situ_tensor *t = to_tensor("read_image", path, data, bytes, mode, device);
  situ__free(data);
  return t;
}

/* ---- writing ---- */

/* Checks an image of at most `most` channels (of 1 and 3 if that is 3). */
static bool check_image(const char *op, situ_tensor *t, int most) {
  const situ_shape s = situ_shape_of(t);
  const int64_t channels = s.ndim == 3 ? s.dim[0] : 0;
  if (situ_dtype_of(t) == SITU_U8 && channels >= 1 && channels <= most && !(most == 3 && channels == 2) &&
      s.dim[1] >= 1 && s.dim[1] <= 65500 && s.dim[2] >= 1 && s.dim[2] <= 65500)
    return true;
  char text[SITU_SHAPE_TEXT];
  return situ__fail(SITU_E_ARG, op,
                    "input is %s of %s, must be u8 [%s channels, height, width], 1 to 65500 pixels each way",
                    situ_shape_text(&s, text), situ_dtype_name(situ_dtype_of(t)), most == 3 ? "1 or 3" : "1 to 4"),
         false;
}

static situ_status write_image(const char *op, situ_tensor *input, const char *path, const situ__codec *codec,
                               int how) {
  situ_scope scope;
  situ_scope_begin_no_grad(&scope);
  const situ_shape s = situ_shape_of(input);
  situ__image m = { .height = s.dim[1], .width = s.dim[2], .channels = (int)s.dim[0] };
  situ__text text = { 0 };
  situ__problem problem;
  situ__replace r;
  const void *data;
  size_t bytes;
  situ__still still = { 0 };
  situ_tensor *rows = situ_permute(input, SITU_DIMS(1, 2, 0));
  if (rows && !situ__still_begin(op, &still, situ__still_one, input, 1)) rows = NULL;
  situ_status status = rows ? situ__values_on_host(op, situ_name(input), rows, &data, &bytes) : situ_error();
  if (status == SITU_OK) {
    m.pixels = (unsigned char *)(uintptr_t)data;
    if (!check_codec(codec, &problem) || !codec->encode(&m, how, &text, &problem))
      status = situ__fail(problem.status, op, "%s: %s", path, problem.text);
    else if (text.failed) status = situ__no_memory(op, text.length);
    else if (!situ__still_unchanged(op, &still)) status = situ_error();
  }
  situ__still_end(&still);
  if (status == SITU_OK) status = situ__replace_begin(&r, op, path, (int64_t)text.length, true);
  if (status == SITU_OK) {
    situ__replace_write(&r, text.data, text.length);
    status = situ__replace_end(&r, NULL);
  }
  situ__text_free(&text);
  const situ_status ended = situ_scope_end(&scope);
  return status != SITU_OK ? status : ended;
}

situ_status situ_write_png(situ_tensor *input, const char *path, int compression_level) {
  SITU__MADE_OF_OPS("write_png");
  if (!situ__given("write_png", "input", input) || !situ__given("write_png", "path", path) ||
      !check_image("write_png", input, 4))
    return situ_error();
  if (compression_level < 0 || compression_level > 9)
    return situ__fail(SITU_E_ARG, "write_png", "compression_level is %d, must be 0 to 9", compression_level);
  return write_image("write_png", input, path, &situ__png, compression_level);
}

situ_status situ_write_jpeg(situ_tensor *input, const char *path, int quality) {
  SITU__MADE_OF_OPS("write_jpeg");
  if (!situ__given("write_jpeg", "input", input) || !situ__given("write_jpeg", "path", path) ||
      !check_image("write_jpeg", input, 3))
    return situ_error();
  if (quality < 1 || quality > 100)
    return situ__fail(SITU_E_ARG, "write_jpeg", "quality is %d, must be 1 to 100", quality);
  return write_image("write_jpeg", input, path, &situ__jpeg, quality);
}
