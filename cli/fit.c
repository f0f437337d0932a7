/* Assigns blocks to devices: first fit, in the order of the model and of the devices.
   SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdio.h>

#include "cli.h"
#include "plan.h"

static bool has_room(const plan_device *d, uint64_t bytes) { return d->limit - d->used >= bytes; }

/* Returns the first block that fits on no device; -1: all have a device. Without `fill` a device is not used again once
   a block did not fit, so that the model passes through the devices in order. */
static int64_t try_all(plan *p, bool fill) {
  int at = 0;
  for (int d = 0; d < p->devices; d++) p->device[d].used = 0;
  for (int64_t b = 0; b < p->blocks; b++) {
    plan_block *block = &p->block[b];
    if (block->lead != b) continue;
    int d = fill ? 0 : at;
    while (d < p->devices && !has_room(&p->device[d], block->bytes)) d++;
    if (d == p->devices) return b;
    p->device[d].used += block->bytes;
    block->device = at = d;
  }
  return -1;
}

/* "layers.7 (12.0 MiB) fits on no device: cuda:0 lacks 3145728 bytes, cpu lacks 5 bytes" */
static void tell(const plan *p, int64_t b) {
  const plan_block *block = &p->block[b];
  char bytes[32], name[CLI_SHOWN];
  fprintf(stderr, "situ: %s (%s", cli_shown(p->item[block->first].path, block->prefix, name),
          cli_bytes(block->bytes, bytes));
  int64_t tied = 0;
  for (int64_t k = b + 1; k < p->blocks; k++) tied += p->block[k].lead == b;
  if (tied) fprintf(stderr, ", with %" PRId64 " tied to it", tied);
  fprintf(stderr, ") fits on no device:");
  for (int d = 0; d < p->devices; d++) {
    const plan_device *at = &p->device[d];
    fprintf(stderr, "%s %s lacks %" PRIu64 " bytes", d ? "," : "", at->name, block->bytes - (at->limit - at->used));
  }
  fputc('\n', stderr);
}

bool plan_fit(plan *p) {
  int64_t left = try_all(p, false);
  if (left >= 0) {
    p->filled = true;
    left = try_all(p, true);
  }
  if (left >= 0) {
    tell(p, left);
    return false;
  }
  for (int64_t b = 0; b < p->blocks; b++) p->block[b].device = p->block[p->block[b].lead].device;
  return true;
}
