/* Quantised blocks: their values. Products are composed of them.
   SPDX-License-Identifier: MIT */
#include "backend/lower/lower.h"

static const struct {
  const char *name;
  int64_t elements, bytes;
} types[SITU_BLOCK_TYPES] = { [SITU_BLOCK_Q8_0] = { "Q8_0", 32, 34 },
                              [SITU_BLOCK_Q4_0] = { "Q4_0", 32, 18 },
                              [SITU_BLOCK_Q4_K] = { "Q4_K", 256, 144 },
                              [SITU_BLOCK_Q5_K] = { "Q5_K", 256, 176 },
                              [SITU_BLOCK_Q6_K] = { "Q6_K", 256, 210 } };

bool situ__lower_block_size(int64_t type, int64_t *elements, int64_t *bytes) {
  if (type <= SITU_BLOCK_NONE || type >= SITU_BLOCK_TYPES) return false;
  *elements = types[type].elements;
  *bytes = types[type].bytes;
  return true;
}

situ_status situ__lower_blocks(int index, const situ_work *work) {
  const situ_view_desc *x = work->in[0], *y = work->out[0];
  const int64_t type = work->integer[0];
  block_rows rows = { .numel = y->numel, .x = x->offset, .y = y->offset };
  if (work->op != SITU_BLOCKS_VALUES || !situ__lower_block_size(type, &rows.elements, &rows.bytes))
    return SITU_E_UNSUPPORTED;
  situ__call call = { .variant = { SITU__TEXT_blocks, .op = (uint8_t)type }, .name = types[type].name, .op = "blocks" };
  situ__lower_buffer(&call, y);
  situ__lower_buffer(&call, x);
  situ__lower_block(&call, &rows, sizeof rows);
  return situ__lower_run(index, &call, y->numel);
}
