/* Values on the way to the host.
   SPDX-License-Identifier: MIT */
#ifndef SITU_DEVICE_LAUNCH_ARRIVE_H
#define SITU_DEVICE_LAUNCH_ARRIVE_H

#include "device/device.h"

/* Queues a copy into the beginning of `to`, which is new host memory, and marks it as pending. Returns what the backend
   reports. */
situ_status situ__expect_arrival(const char *op, situ_storage *to, const situ_storage *from, size_t from_at,
                                 size_t bytes);

/* For a write of all of it: if the copy into the storage has failed, the storage is as a new one from now on. */
void situ__renew_arrival(situ_storage *storage) SITU_COLD;

#endif
