/* Which work the families take: what one verb means to several of them, and what depends on sizes.
   SPDX-License-Identifier: MIT */
#include "backend/cpu/common/cpu.h"

static bool is_of_bytes(const situ_work *work) {
  return work->in[0]->dtype == SITU_U8 || work->in[0]->dtype == SITU_I8;
}

situ_status situ__cpu_offers(int index, const situ_work *work) {
  (void)index;
  switch (work->verb) {
  case SITU_VERB_CONV: return situ__cpu_offers_conv(work);
  case SITU_VERB_PREPACK:
    if (is_of_bytes(work)) return SITU_OK;
    return work->window ? situ__cpu_offers_conv_prepack(work) : situ__cpu_offers_matmul_prepack(work);
  case SITU_VERB_LINALG: return situ__cpu_offers_linalg();
  /* Of many rows of x a product by tiles is faster than one row of blocks after the other. */
  case SITU_VERB_BLOCKS: return work->out[0]->size[0] > SITU__BLOCKS_ROWS ? SITU_E_UNSUPPORTED : SITU_OK;
  case SITU_VERB_ATTENTION: return situ__cpu_offers_attention(work);
  default: return SITU_OK;
  }
}

situ_status situ__cpu_prepack(int index, const situ_work *work) {
  (void)index;
  if (is_of_bytes(work)) return situ__cpu_bytes_prepack(work);
  return work->window ? situ__cpu_conv_prepack(work) : situ__cpu_matmul_prepack(work);
}
