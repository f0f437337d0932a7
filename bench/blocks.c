/* Decoding with quantised weights: bytes of blocks that linear reads in a second for one row of input, beside the bytes
   that a sum over the same memory reads, one thread. Runs of both alternate; the medians of processor time count, and
   their ratio. 128 MiB of each type, beyond the caches.
   SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "situ/blocks.h"
#include "support/measure.h"

enum { COLUMNS = 4096, BYTES = 128 << 20, RUNS = 9 };

typedef uint64_t lanes __attribute__((vector_size(64)));

static volatile uint64_t kept;

static void sum_bytes(const unsigned char *data, size_t bytes) {
  lanes sum[4] = { { 0 } };
  for (size_t at = 0; at + sizeof sum <= bytes; at += sizeof sum)
    for (int k = 0; k < 4; k++) {
      lanes v;
      memcpy(&v, data + at + (size_t)k * sizeof v, sizeof v);
      sum[k] += v;
    }
  for (int k = 0; k < 4; k++)
    for (int l = 0; l < 8; l++) kept += sum[k][l];
}

static void measure(situ_block_type type) {
  const int64_t row = COLUMNS / situ_block_elements(type) * situ_block_bytes(type), rows = BYTES / row;
  const size_t bytes = (size_t)(rows * row);
  unsigned char *data = malloc(bytes);
  if (!data) exit(1);
  for (size_t i = 0; i < bytes; i++) data[i] = (unsigned char)((i * 2654435761u >> 13) & 0x3b); /* scales are finite */
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  situ_tensor *w = situ_blocks_from_host(data, bytes, &SITU_SHAPE(rows, COLUMNS), type, NULL),
              *x = situ_randn(SITU_SHAPE(1, COLUMNS), NULL);
  need(situ_error());
  free(data);
  const unsigned char *held = situ_data_ptr(w);
  double ours[RUNS], read[RUNS];
  for (int k = -1; k < RUNS; k++) {
    double begin = processor_seconds();
    sum_bytes(held, bytes);
    const double one = processor_seconds() - begin;
    situ_scope call;
    situ_scope_begin_no_grad(&call);
    begin = processor_seconds();
    situ_tensor *y = situ_block_linear(x, w, NULL);
    const double two = processor_seconds() - begin;
    need(y ? SITU_OK : situ_error());
    need(situ_scope_end(&call));
    if (k < 0) continue;
    read[k] = one;
    ours[k] = two;
  }
  need(situ_scope_end(&s));
  qsort(ours, RUNS, sizeof *ours, by_value);
  qsort(read, RUNS, sizeof *read, by_value);
  const double a = ours[RUNS / 2], b = read[RUNS / 2];
  printf("%s: linear %.1f GB/s, read %.1f GB/s: %.2f\n", situ_block_name(type), (double)bytes / a * 1e-9,
         (double)bytes / b * 1e-9, b / a);
  (void)fflush(stdout);
}

int main(void) {
  need(situ_set_num_threads(1));
  for (int type = SITU_BLOCK_Q8_0; type < SITU_BLOCK_TYPES; type++) measure((situ_block_type)type);
  return 0;
}
