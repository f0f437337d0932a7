/* What backends of this kind leave to dispatch, which composes it of other verbs.
   SPDX-License-Identifier: MIT */
#include "backend/lower/lower.h"

/* Kernels of convolutions follow no strides: their operands are contiguous. */
static bool is_contiguous(const situ_work *work) {
  for (int i = 0; i < work->ins + work->outs; i++) {
    const situ_view_desc *v = i < work->ins ? work->in[i] : work->out[i - work->ins];
    if (v && !v->contiguous) return false;
  }
  return true;
}

situ_status situ__lower_offers(int index, const situ_work *work) {
  const bool more = work->integer[0] || work->integer[1];
  if (work->verb == SITU_VERB_CONV) return is_contiguous(work) && !more ? SITU_OK : SITU_E_UNSUPPORTED;
  if (work->verb == SITU_VERB_BLOCKS && work->op == SITU_BLOCKS_LINEAR) return SITU_E_UNSUPPORTED;
  return work->verb == SITU_VERB_ATTENTION ? situ__lower_offers_attention(index, work) : SITU_OK;
}
