/* Images in memory, and the two codecs.
   SPDX-License-Identifier: MIT */
#ifndef SITU_IO_IMAGE_H
#define SITU_IO_IMAGE_H

#include "base/library.h"
#include "base/text.h"
#include "situ/media.h"

typedef struct situ__image {
  unsigned char *pixels; /* [height, width, channels] */
  int64_t height, width;
  int channels;
} situ__image;

/* A format. */
typedef struct situ__codec {
  situ__library *library; /* opened before decode and encode */
  /* Decodes a whole file; on success the caller frees out->pixels by situ__free. NULL: this build lacks the format. */
  bool (*decode)(const unsigned char *data, size_t bytes, situ_image_mode mode, situ__image *out,
                 situ__problem *problem);
  /* Appends a whole file; how: level of compression, or quality. */
  bool (*encode)(const situ__image *image, int how, situ__text *out, situ__problem *problem);
} situ__codec;
extern const situ__codec situ__png, situ__jpeg;

#endif
