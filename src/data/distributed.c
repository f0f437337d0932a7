/* DistributedSampler: each of several processes draws its own part of an epoch.
   SPDX-License-Identifier: MIT */
#include <inttypes.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/size.h"
#include "data/sampler.h"
#include "situ/random.h"

static const char op[] = "distributed_sampler";

typedef struct distributed {
  situ_sampler s;
  situ_distributed_sampler_options options;
  int64_t epoch;
} distributed;

/* Every num_replicas-th index from `rank` on, of an order that all ranks share. It begins again at its end, so that all
   ranks have equally many. */
static bool draw(situ_sampler *s, int64_t *indices) {
  const distributed *m = (const distributed *)s;
  situ_generator generator = situ_generator_seeded(m->options.seed + (uint64_t)m->epoch);
  int64_t *order = m->options.no_shuffle ? NULL : situ__random_order(op, s->bound, &generator);
  if (!order && !m->options.no_shuffle) return false;
  for (int64_t i = 0; i < s->count; i++) {
    const int64_t at = (m->options.rank + i * m->options.num_replicas) % s->bound;
    indices[i] = order ? order[at] : at;
  }
  situ__free(order);
  return true;
}

static const situ__sampler_type type = { .name = op, .size = sizeof(distributed), .draw = draw };

situ_sampler *situ_distributed_sampler(situ_dataset *dataset, const situ_distributed_sampler_options *options) {
  if (!options) return situ__null(op, "options"), NULL;
  const int64_t length = situ_dataset_length(dataset), ranks = options->num_replicas;
  if (length < 0) return NULL;
  if (ranks < 1 || ranks > INT32_MAX || options->rank < 0 || options->rank >= ranks)
    return situ__fail(SITU_E_ARG, op, "rank %" PRId64 " of num_replicas %" PRId64 ": it must be in 0..num_replicas - 1",
                      options->rank, ranks),
           NULL;
  const int64_t count = options->drop_last ? length / ranks : situ__ceil_div(length, ranks);
  distributed *m = situ__sampler_alloc(&type, count, length);
  if (m) m->options = *options;
  return m ? &m->s : NULL;
}

situ_status situ_distributed_sampler_set_epoch(situ_sampler *sampler, int64_t epoch) {
  static const char call[] = "distributed_sampler_set_epoch";
  if (!situ__sampler_given(call, sampler)) return situ_error();
  if (sampler->type != &type) return situ__fail(SITU_E_ARG, call, "%s has no epochs", sampler->type->name);
  if (epoch < 0) return situ__fail(SITU_E_ARG, call, "epoch is %" PRId64 ": at least 0", epoch);
  ((distributed *)sampler)->epoch = epoch;
  return SITU_OK;
}
