/* CRC-32C (Castagnoli), the checksum of tensors in our files.
   SPDX-License-Identifier: MIT */
#ifndef SITU_IO_CRC32C_H
#define SITU_IO_CRC32C_H

#include "situ/api.h"

/* Goes on from `crc` (0 at the start): situ__crc32c(situ__crc32c(0, a, n), b, m) is the checksum of
   a and b joined. Uses the processor's instruction where it has one; the result is the same. */
uint32_t situ__crc32c(uint32_t crc, const void *data, size_t bytes);
/* The way without the instruction: for processors that lack it, and for the test that compares the
   two. */
uint32_t situ__crc32c_portable(uint32_t crc, const void *data, size_t bytes);

#endif
