/* cuda: the slots of the backend, and of its devices as lowering sees them.
   SPDX-License-Identifier: MIT */
#include "backend/cuda/cuda.h"

static situ_status offers(int index, const situ_work *work) {
  return work->verb == SITU_VERB_LINEAR ? situ__cuda_offers_linear(index, work) : situ__lower_offers(index, work);
}

static situ__target *enter(int index, const char *op, situ_status *status) {
  return (situ__target *)situ__cuda_enter(index, op, status);
}

static situ_status leave(situ__target *target, situ_status status) {
  return situ__cuda_leave((situ__cuda_device *)target, status);
}

static const situ__target *of(int index) { return &situ__cuda_entered(index)->target; }

static const situ__target_table targets = {
  .enter = enter,
  .leave = leave,
  .of = of,
  .launch = situ__cuda_target_launch,
  .scratch = situ__cuda_target_scratch,
  .release = situ__cuda_target_release,
  .clear = situ__cuda_target_clear,
  .product = situ__cuda_product,
#ifdef SITU_CUDNN
  .convolve = situ__cuda_convolve,
  .attend = situ__cuda_attend,
#endif
};

bool situ_module_start(const situ_host *host) { return situ__lower_start(host, &targets); }

const situ_backend situ_module_backend = {
  .abi = SITU_BACKEND_ABI,
  .size = sizeof situ_module_backend,
  .kind = SITU_CUDA,
  .name = "cuda",
  .count = situ__cuda_count,
  .info = situ__cuda_info,
  .lost = situ__cuda_why_lost,
  .alloc = situ__cuda_alloc,
  .free = situ__cuda_free,
  .trim = situ__cuda_trim,
  .copy_in = situ__cuda_copy_in,
  .copy_out = situ__cuda_copy_out,
  .send = situ__cuda_send,
  .fetch = situ__cuda_fetch,
  .fetched = situ__cuda_fetched,
  .fetch_end = situ__cuda_fetch_end,
  .pin = situ__cuda_pin,
  .unpin = situ__cuda_unpin,
  .copy_peer = situ__cuda_copy_peer,
  .adopt = situ__cuda_adopt,
  .abandon = situ__cuda_abandon,
  .borrow = situ__cuda_borrow,
  .give_back = situ__cuda_give_back,
  .wait_event = situ__cuda_wait_event,
  .open_queue = situ__cuda_open_queue,
  .record_event = situ__cuda_record_event,
  .query_event = situ__cuda_query_event,
  .release_event = situ__cuda_release_event,
  .share = situ__cuda_share,
  .synchronize = situ__cuda_synchronize,
  .kernel = { SITU__LOWERED[SITU_VERB_LINEAR] = situ__cuda_linear },
  .offers = offers,
  .graph_begin = situ__cuda_graph_begin,
  .graph_end = situ__cuda_graph_end,
  .graph_launch = situ__cuda_graph_launch,
  .graph_free = situ__cuda_graph_free,
  .addressable = true,
};
