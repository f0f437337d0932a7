/* Quantised blocks: their values, and linear for few rows of x, which reads the blocks once for each of them.
   SPDX-License-Identifier: MIT */
#include "blocks.h"
#include "loop.h"
#include "slots.h"

#include "base/pool.h"
#include "base/size.h"

typedef struct job {
  const situ__block_kernels *kernels;
  situ_block_type type;
  const unsigned char *blocks;
  int64_t bytes, count; /* of a row: bytes and blocks */
  int64_t rows, columns, x_rows;
  const float *x, *sums, *bias;
  float *y;
} job;

static job job_of(const situ_work *work, const situ_view_desc *blocks) {
  job j = { .kernels = situ__block_kernels_best(), .type = (situ_block_type)work->integer[0] };
  j.blocks = (const unsigned char *)situ__cpu_data(blocks);
  j.rows = blocks->size[0];
  j.bytes = blocks->size[1];
  j.count = j.bytes / situ__block(j.type)->bytes;
  j.columns = j.count * situ__block(j.type)->elements;
  j.y = (float *)(void *)situ__cpu_data(work->out[0]);
  return j;
}

/* Rows of a chunk: as many as take the time of a chunk of other kernels. */
static int64_t grain_of(const job *j) { return situ__max_i64(1, SITU__GRAIN / situ__max_i64(1, j->columns)); }

static void run_values(int64_t begin, int64_t end, void *payload) {
  const job *j = payload;
  j->kernels->values[j->type](j->blocks + begin * j->bytes, (end - begin) * j->count, j->y + begin * j->columns);
}

static void run_linear(int64_t begin, int64_t end, void *payload) {
  const job *j = payload;
  const int64_t groups = j->columns / SITU__BLOCK_GROUP;
  for (int64_t row = begin; row < end; row++)
    for (int64_t m = 0; m < j->x_rows; m++) {
      const float dot =
          j->kernels->dot[j->type](j->blocks + row * j->bytes, j->count, j->x + m * j->columns, j->sums + m * groups);
      j->y[m * j->rows + row] = j->bias ? dot + j->bias[row] : dot;
    }
}

static situ_status multiply(const situ_work *work) {
  const situ_view_desc *x = work->in[0], *bias = work->in[2];
  job j = job_of(work, work->in[1]);
  j.x = (const float *)(void *)situ__cpu_data(x);
  j.x_rows = x->size[0];
  j.bias = bias ? (const float *)(void *)situ__cpu_data(bias) : NULL;
  const int64_t groups = j.x_rows * j.columns / SITU__BLOCK_GROUP;
  const bool arranged = j.kernels->arrange[j.type] != NULL;
  situ__slots scratch;
  const size_t numbers = (size_t)groups + (arranged ? (size_t)(j.x_rows * j.columns) : 0);
  const situ_status status = situ__slots_open(&scratch, "block_linear", numbers * sizeof(float), 1);
  if (status != SITU_OK) return status;
  float *sums = situ__slots_take(&scratch);
  j.kernels->sums(j.x, groups, sums);
  j.sums = sums;
  if (arranged) {
    j.kernels->arrange[j.type](j.x, j.x_rows * j.count, sums + groups);
    j.x = sums + groups;
  }
  situ__parallel(j.rows, grain_of(&j), run_linear, &j);
  situ__slots_give(&scratch, sums);
  situ__slots_close(&scratch);
  return SITU_OK;
}

situ_status situ__cpu_blocks(int index, const situ_work *work) {
  (void)index;
  if (work->op == SITU_BLOCKS_LINEAR) return multiply(work);
  job j = job_of(work, work->in[0]);
  situ__parallel(j.rows, grain_of(&j), run_values, &j);
  return SITU_OK;
}
