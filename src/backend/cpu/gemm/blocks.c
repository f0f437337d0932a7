/* Quantised blocks: their values, and linear for few rows of x, which reads the blocks once for each of them.
   SPDX-License-Identifier: MIT */
#include "blocks.h"
#include "backend/cpu/common/loop.h"
#include "backend/cpu/common/slots.h"

#include "base/pool.h"
#include "base/size.h"

typedef struct job {
  const situ__block_kernels *kernels;
  situ_block_type type;
  const unsigned char *blocks;
  int64_t bytes, count; /* of a row: bytes and blocks */
  int64_t rows, columns, x_rows;
  const float *x, *sums, *bias;
  char *arranged; /* x; NULL: as it is */
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
      const void *x = j->arranged ? (const void *)(j->arranged + m * situ__block_arranged(j->columns))
                                  : (const void *)(j->x + m * j->columns);
      const float dot = j->kernels->dot[j->type](j->blocks + row * j->bytes, j->count, x, j->sums + m * groups);
      j->y[m * j->rows + row] = j->bias ? dot + j->bias[row] : dot;
    }
}

/* Returns false if the kernels cannot take a row of x. */
static bool arrange(job *j, char *to) {
  bool (*const arrange_row)(const float *, int64_t, void *) = j->kernels->arrange[j->type];
  j->arranged = arrange_row ? to : NULL;
  for (int64_t m = 0; m < j->x_rows && arrange_row; m++)
    if (!arrange_row(j->x + m * j->columns, j->count, to + m * situ__block_arranged(j->columns))) return false;
  return true;
}

static situ_status multiply(const situ_work *work) {
  const situ_view_desc *x = work->in[0], *bias = work->in[2];
  job j = job_of(work, work->in[1]);
  j.x = (const float *)(void *)situ__cpu_data(x);
  j.x_rows = x->size[0];
  j.bias = bias ? (const float *)(void *)situ__cpu_data(bias) : NULL;
  const situ__block_kernels *const any = j.kernels, *const digits = situ__block_kernels_in_digits(j.type);
  const int64_t groups = j.x_rows * j.columns / SITU__BLOCK_GROUP;
  const size_t head = (size_t)situ__round_up(groups * (int64_t)sizeof(float), 64),
               bytes = head + (size_t)(j.x_rows * situ__block_arranged(j.columns));
  situ__slots scratch;
  const situ_status status = situ__slots_open(&scratch, "block_linear", bytes, 1);
  if (status != SITU_OK) return status;
  char *memory = situ__slots_take(&scratch);
  j.sums = (const float *)(void *)memory;
  any->sums(j.x, groups, (float *)(void *)memory);
  if (digits) j.kernels = digits;
  if (!arrange(&j, memory + head)) {
    j.kernels = any;
    (void)arrange(&j, memory + head);
  }
  situ__parallel(j.rows, grain_of(&j), run_linear, &j);
  situ__slots_give(&scratch, memory);
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
