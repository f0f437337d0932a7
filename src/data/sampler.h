/* Internals of samplers.
   SPDX-License-Identifier: MIT */
#ifndef SITU_DATA_SAMPLER_H
#define SITU_DATA_SAMPLER_H

#include "data/data.h"

typedef struct situ__sampler_type {
  const char *name;
  size_t size; /* of the struct that begins with situ_sampler */
  /* Writes the indices of the next epoch, s->count of them. Returns false after recording an error. */
  bool (*draw)(situ_sampler *s, int64_t *indices);
  void (*release)(situ_sampler *s); /* frees what the struct points to; NULL: nothing */
} situ__sampler_type;

struct situ_sampler {
  uint32_t head;
  const situ__sampler_type *type;
  int64_t count; /* of indices in an epoch */
  int64_t bound; /* all indices are below it */
};

static inline bool situ__sampler_given(const char *op, const situ_sampler *sampler) {
  return situ__valid(op, "sampler", sampler, SITU__A_SAMPLER);
}
/* A zeroed sampler of type->size bytes. Returns NULL after recording an error. */
void *situ__sampler_alloc(const situ__sampler_type *type, int64_t count, int64_t bound);

#endif
