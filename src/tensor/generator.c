/* Random number generators: a seed and a count of draws. The kernels turn them into numbers.
   SPDX-License-Identifier: MIT */
#include "device/dry.h"
#include "device/graph/graph.h"
#include "situ/random.h"
#include "situ/sys/op.h"
#include "tensor/tensor.h"

/* The default generator is process-wide; its draws are counted atomically. */
static uint64_t global_seed = 0x5117u, global_offset;

/* A dry run draws nothing, so it does not seed either. */

void situ_manual_seed(uint64_t seed) {
  if (situ__is_dry()) return;
  __atomic_store_n(&global_seed, seed, __ATOMIC_RELAXED);
  __atomic_store_n(&global_offset, 0, __ATOMIC_RELAXED);
}

situ_generator situ_get_rng_state(void) {
  return (situ_generator){ __atomic_load_n(&global_seed, __ATOMIC_RELAXED),
                           __atomic_load_n(&global_offset, __ATOMIC_RELAXED) };
}

void situ_set_rng_state(situ_generator state) {
  if (situ__is_dry()) return;
  __atomic_store_n(&global_seed, state.seed, __ATOMIC_RELAXED);
  __atomic_store_n(&global_offset, state.offset, __ATOMIC_RELAXED);
}

situ_generator situ_generator_seeded(uint64_t seed) { return (situ_generator){ seed, 0 }; }

situ_generator situ__generator_advance(situ_generator *generator, uint64_t draws) {
  if (!generator)
    return (situ_generator){ __atomic_load_n(&global_seed, __ATOMIC_RELAXED),
                             __atomic_fetch_add(&global_offset, draws, __ATOMIC_RELAXED) };
  const situ_generator before = *generator;
  generator->offset += draws;
  return before;
}

situ_generator situ_generator_draw(situ_generator *generator) {
  if (situ__is_dry()) return generator ? *generator : situ_get_rng_state();
  const situ_generator drawn = situ__generator_advance(generator, 1);
  if (__builtin_expect(situ__graph_recording != NULL, 0)) situ__graph_drew(generator, drawn);
  return drawn;
}
