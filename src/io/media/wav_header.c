/* WAV: a RIFF file with a chunk "fmt " and, somewhere behind it, a chunk "data".
   SPDX-License-Identifier: MIT */
#include "wav_header.h"

#include <string.h>

enum { PCM = 1, FLOATS = 3, EXTENSIBLE = 0xFFFE, CHUNK = 8 };

static uint32_t u16(const unsigned char *at) { return (uint32_t)at[0] | (uint32_t)at[1] << 8; }
static uint32_t u32(const unsigned char *at) { return u16(at) | u16(at + 2) << 16; }

/* The body of "fmt ", of at least 16 bytes. */
static bool parse_format(const unsigned char *at, size_t bytes, situ__wav *out, situ__problem *problem) {
  /* of the GUID that names an extensible file's format, what follows its first two bytes */
  static const unsigned char guid[] = { 0, 0, 0, 0, 16, 0, 0x80, 0, 0, 0xAA, 0, 0x38, 0x9B, 0x71 };
  uint32_t format = u16(at);
  *out = (situ__wav){ .channels = u16(at + 2), .sample_rate = u32(at + 4), .bits = (int)u16(at + 14) };
  if (format == EXTENSIBLE && bytes >= 40 && !memcmp(at + 26, guid, sizeof guid)) format = u16(at + 24);
  out->floats = format == FLOATS;
  const int b = out->bits;
  if (!(format == PCM && (b == 8 || b == 16 || b == 24 || b == 32)) && !(out->floats && (b == 32 || b == 64)))
    return situ__problem_set(problem, SITU_E_UNSUPPORTED,
                             "has samples of format %u with %d bits: PCM with 8, 16, 24 or 32 and floats with 32 or 64 "
                             "are read",
                             format, b);
  if (!out->channels || !out->sample_rate || u16(at + 12) != (uint32_t)(out->channels * (b / 8)))
    return situ__problem_set(
        problem, SITU_E_FORMAT,
        "has %lld channels of %d bits in frames of %u bytes, %lld a second: they do not fit together",
        (long long)out->channels, b, u16(at + 12), (long long)out->sample_rate);
  return true;
}

bool situ__wav_parse(const unsigned char *data, size_t bytes, situ__wav *out, situ__problem *problem) {
  bool described = false;
  if (bytes < 12 || memcmp(data, "RIFF", 4) != 0 || memcmp(data + 8, "WAVE", 4) != 0)
    return situ__problem_set(problem, SITU_E_FORMAT, "is not a WAV file");
  for (size_t at = 12; bytes - at >= CHUNK;) {
    const unsigned char *chunk = data + at;
    const size_t size = u32(chunk + 4), left = bytes - at - CHUNK;
    if (size > left)
      return situ__problem_set(problem, SITU_E_FORMAT, "has a chunk of %zu bytes at byte %zu, and ends after %zu", size,
                               at, left);
    if (!memcmp(chunk, "fmt ", 4)) {
      if (described || size < 16)
        return situ__problem_set(problem, SITU_E_FORMAT, "has a format of %zu bytes at byte %zu", size, at);
      if (!parse_format(chunk + CHUNK, size, out, problem)) return false;
      described = true;
    }
    if (!memcmp(chunk, "data", 4)) {
      if (!described) return situ__problem_set(problem, SITU_E_FORMAT, "has samples before their format");
      const size_t frame = (size_t)out->channels * (size_t)(out->bits / 8);
      if (size % frame) return situ__problem_set(problem, SITU_E_FORMAT, "has %zu bytes of frames of %zu", size, frame);
      out->frames = (int64_t)(size / frame);
      out->start = at + CHUNK;
      return true;
    }
    at += CHUNK + size + (size % 2 && size < left); /* chunks begin at even bytes */
  }
  return situ__problem_set(problem, SITU_E_FORMAT, "has no samples");
}
