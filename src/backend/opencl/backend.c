/* opencl: the slots of the backend, and of its devices as lowering sees them.
   SPDX-License-Identifier: MIT */
#include "backend/opencl/opencl.h"

static situ__target *enter(int index, const char *op, situ_status *status) {
  return (situ__target *)situ__cl_enter(index, op, status);
}

static situ_status leave(situ__target *target, situ_status status) {
  return situ__cl_leave((situ__cl_device *)target, status);
}

static const situ__target_table targets = {
  .enter = enter,
  .leave = leave,
  .of = situ__cl_target_of,
  .launch = situ__cl_target_launch,
  .scratch = situ__cl_target_scratch,
  .release = situ__cl_target_release,
  .clear = situ__cl_target_clear,
};

bool situ_module_start(const situ_host *host) { return situ__lower_start(host, &targets); }

#define TRIED(verb, lowered)                                                \
  static situ_status believed_##lowered(int index, const situ_work *work) { \
    return situ__cl_believed(index, work, situ__lower_##lowered);           \
  }
SITU__LOWERED_VERBS(TRIED)
#undef TRIED

situ_status situ__cl_copy(int index, const situ_work *work) { return believed_copy(index, work); }

#define SLOT(verb, lowered) [SITU_VERB_##verb] = believed_##lowered,
const situ_backend situ_module_backend = {
  .abi = SITU_BACKEND_ABI,
  .size = sizeof situ_module_backend,
  .kind = SITU_OPENCL,
  .name = "opencl",
  .count = situ__cl_count,
  .info = situ__cl_info,
  .lost = situ__cl_lost,
  .alloc = situ__cl_alloc,
  .free = situ__cl_free,
  .copy_in = situ__cl_copy_in,
  .copy_out = situ__cl_copy_out,
  .send = situ__cl_send,
  .fetch = situ__cl_fetch,
  .fetched = situ__cl_fetched,
  .fetch_end = situ__cl_fetch_end,
  .pin = situ__cl_pin,
  .unpin = situ__cl_unpin,
  .copy_peer = situ__cl_copy_peer,
  .send_peer = situ__cl_send_peer,
  .adopt = situ__cl_adopt,
  .abandon = situ__cl_abandon,
  .borrow = situ__cl_borrow,
  .give_back = situ__cl_give_back,
  .wait_event = situ__cl_wait_event,
  .open_queue = situ__cl_open_queue,
  .record_event = situ__cl_record_event,
  .query_event = situ__cl_query_event,
  .release_event = situ__cl_release_event,
  .copy_image = situ__cl_copy_image,
  .map = situ__cl_map,
  .unmap = situ__cl_unmap,
  .share = situ__cl_share,
  .synchronize = situ__cl_synchronize,
  .kernel = { SITU__LOWERED_VERBS(SLOT)[SITU_VERB_PACK] = situ__cl_pack },
  .offers = situ__lower_offers,
};
