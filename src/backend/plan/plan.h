/* Internals of planned devices: what a profile says of each.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BACKEND_PLAN_H
#define SITU_BACKEND_PLAN_H

#include "device/device.h"

typedef struct situ__planned {
  uint64_t memory, copy_rate; /* bytes, and a second; copy_rate 0: not said */
  uint32_t missing;           /* dtypes */
} situ__planned;

typedef struct situ__plan {
  int count;
  situ__planned device[SITU__DEVICES_MAX];
} situ__plan;

/* Reads a profile into *out. Returns NULL, or what is wrong with it, static text, and *at where. (profile.c) */
const char *situ__plan_read(const char *profile, situ__plan *out, const char **at);

#endif
