/* Verified copies: what both sides hold is compared by checksums.
   SPDX-License-Identifier: MIT */
#include "base/alloc.h"
#include "base/crc32c.h"
#include "base/fail.h"
#include "base/text.h"
#include "device/launch/launch.h"

enum { PART = 1 << 20 }; /* bytes that are read at a time */

/* Returns what the device reports. */
static situ_status checksum(situ__side side, size_t bytes, char *buffer, uint32_t *crc) {
  const situ_backend *backend = situ__backend(side.device);
  *crc = 0;
  if (backend->host_memory) {
    *crc = situ__crc32c(0, (const char *)side.data + side.at, bytes);
    return SITU_OK;
  }
  situ_status status = SITU_OK;
  for (size_t done = 0; done < bytes && status == SITU_OK; done += PART) {
    const size_t part = bytes - done < PART ? bytes - done : PART;
    status = backend->copy_out(side.device.index, side.data, side.at + done, buffer, part);
    if (status == SITU_OK) *crc = situ__crc32c(*crc, buffer, part);
  }
  return status;
}

situ_status situ__verify_copy(const char *op, situ__side from, situ__side to, size_t bytes, situ_storage *about) {
  if (situ__backend(from.device)->host_memory && situ__backend(to.device)->host_memory) return SITU_OK;
  const size_t most = bytes < PART ? bytes : PART;
  char *buffer = situ__alloc(most), name[2][SITU_DEVICE_NAME_MAX], text[SITU__BYTES_TEXT];
  if (!buffer) return situ__no_memory(op, most);
  uint32_t crc[2];
  const situ__side side[2] = { from, to };
  situ_status status = SITU_OK;
  for (int i = 0; i < 2 && status == SITU_OK; i++) {
    const uint64_t before = situ__error_count();
    status = checksum(side[i], bytes, buffer, &crc[i]);
    if (status != SITU_OK) status = situ__device_failed(op, side[i].device, status, before, "verifying");
  }
  situ__free(buffer);
  if (status != SITU_OK || crc[0] == crc[1]) return status;
  situ__described d = { "a tensor", "" };
  situ__device_up.describe_storage(about, &d);
  return situ__fail(SITU_E_IO, op,
                    "%s: %s from %s arrived on %s with other bytes (CRC-32C %08x, not %08x)%s; the copy is refused and "
                    "nothing has changed: repeat it, and if that fails too use another device",
                    d.what, situ__bytes_text(bytes, text), situ_device_name(from.device, name[0]),
                    situ_device_name(to.device, name[1]), crc[1], crc[0], d.where);
}
