/* Saved tensors on another device (torch.autograd.graph.save_on_cpu).
   SPDX-License-Identifier: MIT */
#include "base/alloc.h"
#include "base/fail.h"
#include "ops/ops.h"

static const char op[] = "autograd_graph_save_on";

typedef struct away {
  situ_tensor *copy;
  situ_device from;
} away;

/* The device is in the pointer itself, so that nothing must outlive the graph. */
static void *as_payload(situ_device device) { return (void *)((uintptr_t)device.kind << 16 | device.index); }
static situ_device as_device(const void *payload) {
  return (situ_device){ (uint16_t)((uintptr_t)payload >> 16), (uint16_t)((uintptr_t)payload & 0xffff) };
}

static void *pack(situ_tensor *t, void *payload) {
  const situ_device to = as_device(payload);
  if (situ__same_device(t->view.storage->device, to)) return NULL;
  away *a = situ__alloc(sizeof *a);
  if (!a) return situ__no_memory(op, sizeof *a), NULL;
  *a = (away){ situ_retain(situ_to(t, to)), t->view.storage->device };
  if (a->copy) return a;
  situ__free(a);
  return NULL;
}
static situ_tensor *unpack(void *packed, void *payload) {
  const away *a = packed;
  (void)payload;
  return situ_to(a->copy, a->from);
}
static void release(void *packed, void *payload) {
  away *a = packed;
  (void)payload;
  situ_release(a->copy);
  situ__free(a);
}

situ_status situ_autograd_graph_save_on(situ_device device) {
  if (!situ__device_resolve(op, device, &device)) return situ_error();
  const situ_saved_tensors_hooks hooks = { pack, unpack, release, as_payload(device) };
  return situ_autograd_graph_saved_tensors_hooks_begin(&hooks);
}
