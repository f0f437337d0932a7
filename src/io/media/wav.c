/* WAV files as tensors.
   SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/file.h"
#include "io/format/values.h"
#include "wav_header.h"
#include "situ/media.h"
#include "situ/ops.h"
#include "situ/sys/shape.h"

#define MOST_BYTES ((int64_t)1 << 32)

/* The dtype that holds samples as they are; 24 bits lie in the upper ones of i32. */
static situ_dtype dtype_of(const situ__wav *w) {
  if (w->floats) return w->bits == 32 ? SITU_F32 : SITU_F64;
  return w->bits == 8 ? SITU_U8 : w->bits == 16 ? SITU_I16 : SITU_I32;
}

/* PCM of whole bytes as i32 in its upper bits; 8 bits have an offset of 128. */
static int32_t pcm_of(const unsigned char *at, int bits) {
  uint32_t value = 0;
  for (int b = 0; b < bits / 8; b++) value |= (uint32_t)at[b] << (32 - bits + 8 * b);
  return (int32_t)(bits == 8 ? value ^ 0x80000000u : value);
}

/* Interleaved samples as [channels, frames] of f32, or as they are. */
static void deinterleave(const situ__wav *w, const unsigned char *from, bool normalized, void *to) {
  const size_t size = (size_t)(w->bits / 8), kept = w->bits == 24 ? 4 : size;
  for (int64_t i = 0; i < w->frames; i++)
    for (int64_t c = 0; c < w->channels; c++, from += size) {
      const int64_t at = c * w->frames + i;
      const int32_t pcm = w->floats ? 0 : pcm_of(from, w->bits);
      double real = (double)pcm / 0x1p31;
      if (w->floats && w->bits == 64) memcpy(&real, from, sizeof real);
      float single = (float)real;
      if (w->floats && w->bits == 32) memcpy(&single, from, sizeof single);
      if (normalized) ((float *)to)[at] = single;
      else memcpy((char *)to + (size_t)at * kept, w->bits == 24 ? (const void *)&pcm : from, kept);
    }
}

static situ_tensor *load_samples(const char *op, const situ__wav *w, const unsigned char *data,
                                 const situ_wav_options *options) {
  const situ_dtype dtype = options->not_normalized ? dtype_of(w) : SITU_F32;
  const size_t bytes = (size_t)(w->frames * w->channels) * situ_dtype_size(dtype);
  void *samples = situ__alloc(bytes + 1);
  if (!samples) return situ__no_memory(op, bytes), NULL;
  deinterleave(w, data + w->start, !options->not_normalized, samples);
  situ_tensor *t = situ_from_host(samples, bytes, SITU_SHAPE(w->channels, w->frames),
                                  &(situ_options){ .dtype = dtype, .device = options->device });
  situ__free(samples);
  return t;
}

situ_tensor *situ_wav_load(const char *path, const situ_wav_options *options, int64_t *sample_rate) {
  static const char op[] = "wav_load";
  static const situ_wav_options defaults;
  situ__problem problem;
  situ__wav w;
  size_t bytes;
  if (!situ__given(op, "path", path)) return NULL;
  unsigned char *data = (unsigned char *)situ__file_load(op, path, MOST_BYTES, &bytes);
  if (!data) return NULL;
  situ_tensor *t = NULL;
  if (situ__wav_parse(data, bytes, &w, &problem)) t = load_samples(op, &w, data, options ? options : &defaults);
  else situ__fail(problem.status, op, "%s: %s", path, problem.text);
  if (t && sample_rate) *sample_rate = w.sample_rate;
  situ__free(data);
  return t;
}

/* ---- writing ---- */

static void put(unsigned char *at, uint64_t value, int bytes) {
  for (int b = 0; b < bytes; b++) at[b] = (unsigned char)(value >> (8 * b));
}

enum { HEADER = 44 };
static void make_header(unsigned char h[HEADER], const situ__wav *w) {
  const int64_t frame = w->channels * (w->bits / 8), bytes = frame * w->frames;
  memcpy(h, "RIFF....WAVEfmt ", 16);
  put(h + 4, (uint64_t)(HEADER - 8 + bytes + bytes % 2), 4);
  put(h + 16, 16, 4);
  put(h + 20, w->floats ? 3 : 1, 2);
  put(h + 22, (uint64_t)w->channels, 2);
  put(h + 24, (uint64_t)w->sample_rate, 4);
  put(h + 28, (uint64_t)(w->sample_rate * frame), 4);
  put(h + 32, (uint64_t)frame, 2);
  put(h + 34, (uint64_t)w->bits, 2);
  memcpy(h + 36, "data", 4);
  put(h + 40, (uint64_t)bytes, 4);
}

/* A sample of -1 to 1 as PCM in the lower `bits`; 8 bits have an offset of 128. */
static int64_t quantize(double x, int bits) {
  const double most = ldexp(1, bits - 1), y = isnan(x) ? 0 : rint(x * most);
  return (int64_t)(y < -most ? -most : y > most - 1 ? most - 1 : y) + (bits == 8 ? 128 : 0);
}

/* Checks src, and describes the file that it becomes. */
static bool describe(const char *op, situ_tensor *src, int64_t sample_rate, int bits, situ__wav *out) {
  const situ_dtype dtype = situ_dtype_of(src);
  const situ_shape s = situ_shape_of(src);
  const bool floats = dtype == SITU_F32 || dtype == SITU_F64;
  const int own = 8 * (int)situ_dtype_size(dtype);
  char text[SITU_SHAPE_TEXT];
  if (s.ndim != 2 || s.dim[0] < 1 || s.dim[0] > 65535)
    return situ__fail(SITU_E_SHAPE, op, "src is %s, must be [channels, frames] with 1 to 65535 channels",
                      situ_shape_text(&s, text)),
           false;
  if (!floats && dtype != SITU_U8 && dtype != SITU_I16 && dtype != SITU_I32)
    return situ__fail(SITU_E_DTYPE, op, "src is %s, must be u8, i16, i32, f32 or f64", situ_dtype_name(dtype)), false;
  if (bits && !(floats && (bits == 8 || bits == 16 || bits == 24 || bits == 32)))
    return situ__fail(SITU_E_ARG, op, "bits is %d, must be 0, or 8, 16, 24 or 32 for floating src", bits), false;
  *out = (situ__wav){ s.dim[0], s.dim[1], sample_rate, bits ? bits : own, floats && !bits, 0 };
  const int64_t frame = out->channels * (out->bits / 8);
  if (sample_rate < 1 || sample_rate > UINT32_MAX || frame > 65535 || out->frames > (UINT32_MAX - HEADER) / frame)
    return situ__fail(SITU_E_LIMIT, op,
                      "%" PRId64 " frames of %" PRId64 " bytes at %" PRId64 " a second do not fit into a WAV file",
                      out->frames, frame, sample_rate),
           false;
  return true;
}

/* [channels, frames] to interleaved samples. */
static void interleave(const situ__wav *w, situ_dtype dtype, const void *from, unsigned char *to) {
  const int size = w->bits / 8;
  const bool as_is = w->floats || !(dtype == SITU_F32 || dtype == SITU_F64);
  for (int64_t i = 0; i < w->frames; i++)
    for (int64_t c = 0; c < w->channels; c++, to += size) {
      const int64_t at = c * w->frames + i;
      if (as_is) memcpy(to, (const char *)from + at * size, (size_t)size);
      else
        put(to, (uint64_t)quantize(dtype == SITU_F32 ? ((const float *)from)[at] : ((const double *)from)[at], w->bits),
            size);
    }
}

situ_status situ_wav_save(const char *path, situ_tensor *src, int64_t sample_rate, int bits) {
  static const char op[] = "wav_save";
  SITU__MADE_OF_OPS("wav_save");
  situ__wav w;
  situ__still still = { 0 };
  if (!situ__given(op, "path", path) || !situ__given(op, "src", src) ||
      !situ__still_begin(op, &still, situ__still_one, src, 1))
    return situ_error();
  if (!describe(op, src, sample_rate, bits, &w)) return situ__still_end(&still), situ_error();
  situ_scope scope;
  situ_scope_begin_no_grad(&scope);
  situ__replace r;
  const void *data = NULL;
  size_t given = 0, bytes = (size_t)(w.frames * w.channels) * (size_t)(w.bits / 8);
  unsigned char *file = situ__calloc(HEADER + bytes + bytes % 2, 1);
  situ_status status =
      file ? situ__values_on_host(op, situ_name(src), src, &data, &given) : situ__no_memory(op, HEADER + bytes);
  if (status == SITU_OK) {
    make_header(file, &w);
    interleave(&w, situ_dtype_of(src), data, file + HEADER);
    status = situ__still_unchanged(op, &still)
                 ? situ__replace_begin(&r, op, path, (int64_t)(HEADER + bytes + bytes % 2), true)
                 : situ_error();
  }
  situ__still_end(&still);
  if (status == SITU_OK) {
    situ__replace_write(&r, file, HEADER + bytes + bytes % 2);
    status = situ__replace_end(&r, NULL);
  }
  situ__free(file);
  const situ_status ended = situ_scope_end(&scope);
  return status != SITU_OK ? status : ended;
}
