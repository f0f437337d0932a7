/* Values on the way to the host.
   SPDX-License-Identifier: MIT */
#ifndef SITU_DEVICE_LAUNCH_ARRIVE_H
#define SITU_DEVICE_LAUNCH_ARRIVE_H

#include "device/device.h"

/* Queues a copy into the beginning of `to`, which is new host memory, and marks it as pending. Returns what the backend
   reports. */
situ_status situ__expect_arrival(const char *op, situ_storage *to, const situ_storage *from, size_t from_at,
                                 size_t bytes);

#endif
