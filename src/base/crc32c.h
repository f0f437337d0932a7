/* CRC-32C (Castagnoli), the checksum of tensors in files that situ writes, and of verified copies.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BASE_CRC32C_H
#define SITU_BASE_CRC32C_H

#include "situ/api.h"

/* Continues from `crc` (0 at the start): situ__crc32c(situ__crc32c(0, a, n), b, m) is the checksum of a followed by
   b. Uses instructions of the processor where it has them, with the same result. */
uint32_t situ__crc32c(uint32_t crc, const void *data, size_t bytes);
/* The implementation without them: for other processors, and for the test that compares all. */
uint32_t situ__crc32c_portable(uint32_t crc, const void *data, size_t bytes);

#endif
