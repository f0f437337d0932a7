/* The header of a WAV file: parses bytes into a checked description.
   SPDX-License-Identifier: MIT */
#ifndef SITU_IO_WAV_HEADER_H
#define SITU_IO_WAV_HEADER_H

#include "base/problem.h"
#include "situ/tensor.h"

typedef struct situ__wav {
  int64_t channels, frames, sample_rate;
  int bits; /* of a sample: 8, 16, 24, 32, 64 */
  bool floats;
  size_t start; /* of the samples: frames of one sample a channel, little-endian */
} situ__wav;

/* Parses the chunks up to the samples; data is the whole file. */
bool situ__wav_parse(const unsigned char *data, size_t bytes, situ__wav *out, situ__problem *problem);

#endif
