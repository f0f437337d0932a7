/* What each type of quantised block is: one table, for every floor.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BASE_BLOCK_H
#define SITU_BASE_BLOCK_H

#include "situ/blocks.h"

typedef struct situ__block_facts {
  const char *name;
  uint16_t elements, bytes; /* of a block */
} situ__block_facts;
extern const situ__block_facts situ__blocks[SITU_BLOCK_TYPES];

static inline bool situ__block_valid(situ_block_type type) { return type > SITU_BLOCK_NONE && type < SITU_BLOCK_TYPES; }
/* SITU_BLOCK_NONE's, for numbers that are not types. */
static inline const situ__block_facts *situ__block(situ_block_type type) {
  return &situ__blocks[situ__block_valid(type) ? type : SITU_BLOCK_NONE];
}

#endif
