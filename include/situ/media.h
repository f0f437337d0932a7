/* Image and sound files: PNG, JPEG and WAV as tensors. Readers check every number of a file before they allocate.
   Threads: all functions may be called concurrently (docs/threads.md).
   SPDX-License-Identifier: MIT */
#ifndef SITU_MEDIA_H
#define SITU_MEDIA_H

#include "data.h"
#include "io.h"

SITU_BEGIN

/* ---- images: PNG by libpng, JPEG by libjpeg, which the first call opens (SITU_PNG and SITU_JPEG in the environment
   name other files); SITU_E_UNSUPPORTED without them, and JPEG in a build without jpeglib.h ---- */

/** torchvision.io.ImageReadMode. */
typedef enum situ_image_mode {
  SITU_IMAGE_UNCHANGED, /**< the file's channels; of a palette its indices, as in torchvision */
  SITU_IMAGE_GRAY,
  SITU_IMAGE_GRAY_ALPHA, /**< not of JPEG */
  SITU_IMAGE_RGB,
  SITU_IMAGE_RGB_ALPHA /**< not of JPEG */
} situ_image_mode;

/** torchvision.io.decode_image: the bytes of a PNG or JPEG file as u8 [channels, height, width]. 16 bits a channel
    become 8. Damaged data are SITU_E_FORMAT, also where a viewer shows a part of them; CMYK and arithmetic coding are
    SITU_E_UNSUPPORTED. */
SITU_API situ_tensor *situ_decode_image(const void *data, size_t bytes, situ_image_mode mode, situ_device device);
/** torchvision.io.read_image: situ_decode_image of a file. */
SITU_API situ_tensor *situ_read_image(const char *path, situ_image_mode mode, situ_device device);
/** torchvision.io.write_png: input is u8 [channels, height, width]; 1 to 4 channels are gray, gray with alpha, RGB and
    RGB with alpha. compression_level: 0 to 9, torch's default is 6. As crash-safe as situ_save. */
SITU_API SITU_CHECKED situ_status situ_write_png(situ_tensor *input, const char *path, int compression_level);
/** torchvision.io.write_jpeg: input is u8 [channels, height, width], 1 or 3 channels. quality: 1 to 100; torch's
    default is 75. */
SITU_API SITU_CHECKED situ_status situ_write_jpeg(situ_tensor *input, const char *path, int quality);

typedef struct situ_image_folder_options {
  /** Applied to each image, u8 [3, height, width], on a worker thread: for a batch all results need one shape. NULL:
      none. */
  situ_tensor *(*transform)(situ_tensor *image, void *payload);
  void *payload; /**< passed to transform */
} situ_image_folder_options;
/** torchvision.datasets.ImageFolder: the subdirectories of root, sorted by name, are the classes; the .png, .jpg and
    .jpeg files in and below them, sorted by path, are the samples: the list [image, label], label i64 []. A class
    without a file, and root without a class, are SITU_E_ARG. options may be NULL. */
SITU_API situ_dataset *situ_image_folder(const char *root, const situ_image_folder_options *options);
/** Number of classes; -1 after recording an error: for another kind of data set. */
SITU_API int64_t situ_image_folder_classes(situ_dataset *folder);
/** Name of a class, which lives as long as the data set; NULL after recording an error. */
SITU_API const char *situ_image_folder_class(situ_dataset *folder, int64_t index);

/* ---- sound: WAV of PCM with 8, 16, 24 or 32 bits, and of floats with 32 or 64 ---------------------- */

typedef struct situ_wav_options {
  /** torchaudio's normalize=False: PCM is u8, i16 or i32 (24 bits in the upper ones of i32), floats f32 or f64. Else
      f32, PCM from -1 to 1. */
  bool not_normalized;
  situ_device device;
} situ_wav_options;
/** torchaudio.load: [channels, frames]; *sample_rate (may be NULL) gets frames per second. options may be NULL. Other
    codings than the above are SITU_E_UNSUPPORTED. */
SITU_API situ_tensor *situ_wav_load(const char *path, const situ_wav_options *options, int64_t *sample_rate);
/** torchaudio.save: src is [channels, frames]. bits 0: u8, i16, i32, f32 and f64 as they are. 8, 16, 24 or 32: PCM, of
    floating src from -1 to 1, rounded; what is beyond becomes the nearest that there is, NaN 0. As crash-safe as
    situ_save. */
SITU_API SITU_CHECKED situ_status situ_wav_save(const char *path, situ_tensor *src, int64_t sample_rate, int bits);

SITU_END
#endif
