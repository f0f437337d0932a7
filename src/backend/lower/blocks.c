/* Quantised blocks: their values. Products are composed of them.
   SPDX-License-Identifier: MIT */
#include "backend/lower/lower.h"

situ_status situ__lower_blocks(int index, const situ_work *work) {
  const situ_view_desc *x = work->in[0], *y = work->out[0];
  const situ_block_type type = (situ_block_type)work->integer[0];
  const situ__block_facts *facts = situ__block(type);
  const block_rows rows = { y->numel, facts->elements, facts->bytes, x->offset, y->offset };
  if (work->op != SITU_BLOCKS_VALUES || !situ__block_valid(type)) return SITU_E_UNSUPPORTED;
  situ__call call = { .variant = { SITU__TEXT_blocks, .op = (uint8_t)type }, .name = facts->name, .op = "blocks" };
  situ__lower_buffer(&call, y);
  situ__lower_buffer(&call, x);
  situ__lower_block(&call, &rows, sizeof rows);
  return situ__lower_run(index, &call, y->numel);
}
