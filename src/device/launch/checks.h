/* Checks of a launch: those that every launch makes, and those that look again to say what is wrong (refuse.c).
   SPDX-License-Identifier: MIT */
#ifndef SITU_DEVICE_LAUNCH_CHECKS_H
#define SITU_DEVICE_LAUNCH_CHECKS_H

#include "device/launch/launch.h"
#include "situ/sys/plain.h"

static inline bool situ__is_elsewhere(const situ_view_desc *v, situ_device device) {
  return !situ__same_device(v->storage->device, device);
}

/* Flags of memory from which nothing can be read, and to which nothing can be written. */
enum {
  SITU__UNREADABLE = SITU_STORAGE_UNWRITTEN | SITU__STORAGE_NOWHERE,
  SITU__UNWRITABLE = SITU__STORAGE_NOWHERE | SITU_STORAGE_NO_WRITES
};
static inline bool situ__is_flagged(const situ_view_desc *v, uint32_t flags) {
  return situ__storage_flags(v->storage) & flags;
}
static inline bool situ__is_unwritten(const situ_view_desc *v) { return situ__is_flagged(v, SITU__UNREADABLE); }
static inline bool situ__is_unwritable(const situ_view_desc *v) { return situ__is_flagged(v, SITU__UNWRITABLE); }
static inline bool situ__is_sample(const situ_view_desc *v) { return situ__is_flagged(v, SITU__STORAGE_NOWHERE); }

/* The same, looked at: a view may lie in the written part of its storage. */
static inline bool situ__lacks_values(const situ_view_desc *v) {
  return situ__is_sample(v) || situ__first_unwritten(v) >= 0;
}

/* Kernels may assume at least one element to write. An optimiser's step has a list instead of outputs. */
static inline bool situ__writes_nothing(const situ_work *work) {
  for (int i = 0; i < work->outs; i++)
    if (work->out[i] && work->out[i]->numel) return false;
  return work->outs > 0;
}

/* Operands of an optimizer's item. */
enum { SITU__ITEM_OPERANDS = 5 };
/* Returns operand k of an item; NULL if this optimizer has no such one. */
static inline const situ_view_desc *situ__item_operand(const situ_optimizer_item *item, int k) {
  return k == 0 ? item->param : k == 1 ? item->grad : item->state[k - 2];
}

/* The same checks, one by one: returns SITU_OK, or records the error of the first operand that does not do. A kernel
   must never follow an address of another device. Without memory, nothing is read. */
situ_status situ__check_operands(const char *op, situ_device device, const situ_work *work);
/* For verbs whose kernels follow no strides: a kernel that took an operand for row-major that is not would compute
   with other elements than those that are meant. */
situ_status situ__check_rows(const char *op, const situ_work *work);
/* Returns true if the device has no kernel for the verb, or none for one of the dtypes. */
bool situ__is_incapable(situ_device device, const situ_work *work) SITU_COLD;
/* Reports what the kernel of this work returned, as situ__device_failed does, or has the host do the work. */
situ_status situ__launch_failed(const char *op, situ_device device, const situ_work *work, situ_status status,
                                uint64_t before) SITU_COLD;

/* fallback.c: whether the host may do work of a device, as this thread's policy says and the host can; and has it done
   there. Returns SITU_OK with the results on the device, or the recorded error. */
bool situ__may_fall_back(situ_device device, const situ_work *work) SITU_COLD;
situ_status situ__fall_back(const char *op, const situ_work *work) SITU_COLD;

#endif
