/* What backends of this kind leave to dispatch, which composes it of other verbs.
   SPDX-License-Identifier: MIT */
#include "backend/lower/lower.h"

situ_status situ__lower_offers(int index, const situ_work *work) {
  if (work->verb == SITU_VERB_BLOCKS && work->op == SITU_BLOCKS_LINEAR) return SITU_E_UNSUPPORTED;
  return work->verb == SITU_VERB_ATTENTION ? situ__lower_offers_attention(index, work) : SITU_OK;
}
