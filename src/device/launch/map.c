/* Memory of a device for the host: what the driver maps, or a copy that is written back.
   SPDX-License-Identifier: MIT */
#include "base/alloc.h"
#include "base/fail.h"
#include "device/graph/graph.h"
#include "device/launch/launch.h"

/* Memory of the host for a copy, which the device copies directly where it can. */
static situ_status take_stage(const char *op, situ_device device, situ__mapped *m) {
  void *site;
  const situ_backend *backend = situ__backend(device);
  m->pinned = backend->pin && situ__device_adoption(device, &site) == SITU__NOT_ADOPTED;
  const uint64_t before = situ__error_count();
  const situ_status status = m->pinned ? backend->pin(device.index, m->bytes, &m->host, &m->handle)
                             : (m->host = situ__alloc(m->bytes)) ? SITU_OK
                                                                 : situ__no_memory(op, m->bytes);
  return status == SITU_OK ? SITU_OK : situ__device_failed(op, device, status, before, "pinning memory");
}

static void free_stage(situ_device device, situ__mapped *m) {
  if (m->pinned) situ__backend(device)->unpin(device.index, m->host, m->handle);
  else situ__free(m->host);
}

situ_status situ__map_memory(const char *op, situ_storage *storage, situ__mapped *m) {
  const situ_backend *backend = situ__backend(storage->device);
  if (!backend->map) {
    situ_status status = take_stage(op, storage->device, m);
    if (status != SITU_OK) return status;
    status = situ__copy_to_host(op, storage, m->at, m->host, m->bytes, SITU__COPY_READ);
    if (status != SITU_OK) free_stage(storage->device, m);
    return status;
  }
  situ_status status = situ__check_range(op, storage, m->at, m->bytes);
  if (status != SITU_OK) return status;
  const uint64_t before = situ__error_count();
  status = backend->map(storage->device.index, storage->data, m->at, m->bytes, m->write, &m->host);
  if (status != SITU_OK) return situ__device_failed(op, storage->device, status, before, "mapping");
  return situ__record_copy(op, storage->device, (situ_device){ SITU_CPU, 0 }, m->bytes, storage, m->at, false,
                           SITU__COPY_READ);
}

situ_status situ__may_unmap(const char *op, situ_storage *storage, const situ__mapped *m) {
  if (situ__backend(storage->device)->map) return SITU_OK;
  if (situ__graph_recording) return situ__graph_refuse_copy(op);
  return situ__guard_copy(op, (situ_device){ SITU_CPU, 0 }, storage->device, m->bytes, SITU__COPY_USER, storage);
}

situ_status situ__unmap_memory(const char *op, situ_storage *storage, situ__mapped *m) {
  const situ_backend *backend = situ__backend(storage->device);
  if (!backend->map) {
    const situ_status status =
        m->write ? situ__copy_from_host(op, storage, m->at, m->host, m->bytes, SITU__COPY_USER) : SITU_OK;
    free_stage(storage->device, m);
    return status;
  }
  const uint64_t before = situ__error_count();
  const situ_status status = backend->unmap(storage->device.index, storage->data, m->host);
  if (status != SITU_OK) return situ__device_failed(op, storage->device, status, before, "mapping");
  if (!m->write) return SITU_OK;
  return situ__record_copy(op, (situ_device){ SITU_CPU, 0 }, storage->device, m->bytes, storage, m->at, true,
                           SITU__COPY_USER);
}
