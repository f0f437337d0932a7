/* Sums over the rows of a matrix, on a GPU: first over slices of rows, then over the slices' sums, until one row is
   left.
   SPDX-License-Identifier: MIT */
#include "backend/lower/lower.h"

/* bounds of rows for each thread; number of work-groups that fills a GPU */
enum { FEW = 16, MOST = 64, GROUPS = 1024 };

/* Divides the matrix among the threads of work-groups. */
static void cut(column_sums *n, int64_t group, int64_t pack) {
  for (n->across = 1; n->across < group / 8 && n->across * pack < n->width;) n->across *= 2;
  n->tiles = (n->width + n->across * pack - 1) / (n->across * pack);
  const int64_t depth = group / n->across;
  int64_t each = FEW;
  while (each < MOST && n->rows / (each * depth) * n->tiles > GROUPS) each *= 2;
  n->length = each * depth;
  n->slices = n->rows ? (n->rows + n->length - 1) / n->length : 1;
}

bool situ__lower_columns(int index, int op, column_sums n, const situ_view_desc *x, const situ_view_desc *g,
                         const situ_view_desc *mean, const situ_view_desc *rstd, const situ_view_desc *y,
                         const situ_view_desc *y2, situ_status *status) {
  const situ__target *target = situ__targets->of(index);
  if (target->cpu) return false;
  const situ_dtype compute = situ__lower_compute_dtype((situ_dtype)x->dtype);
  const int64_t pack = PACK_BYTES / (int64_t)situ__lower_size(x->dtype);
  const situ_view_desc *to[] = { y, y2 };
  situ_view_desc own[2];
  situ_storage memory[2] = { 0 };
  const int64_t divisor = n.divisor;
  cut(&n, (int64_t)target->group, pack);
  n.full =
      n.row % pack == 0 && situ__lower_skew(target, x, pack) == 0 && (!g || situ__lower_skew(target, g, pack) == 0);
  n.x = x->offset;
  n.g = situ__lower_offset(g);
  n.mean = situ__lower_offset(mean);
  n.rstd = situ__lower_offset(rstd);
  *status = SITU_OK;
  for (int k = 0; k < 2 && n.slices > 1; k++) {
    if (!to[k]) continue;
    void *scratch = situ__lower_scratch(index, "reduce", (size_t)(n.slices * n.width) * situ__lower_size(compute));
    if (!scratch) *status = SITU_E_NOMEM;
    own[k] = situ__lower_scratch_view(&memory[k], scratch, compute, n.slices * n.width);
    to[k] = &own[k];
    n.divisor = 1;
  }
  n.y = situ__lower_offset(to[0]);
  n.y2 = situ__lower_offset(to[1]);
  situ__call call = { .variant = { SITU__TEXT_columns, .op = (uint8_t)op, .compute = (uint8_t)compute,
                                   .dtype = { (to[0] ? to[0] : to[1])->dtype, x->dtype } },
                      .op = op ? "norm" : "reduce" };
  situ__lower_buffer(&call, to[0]);
  situ__lower_buffer(&call, x);
  if (op) {
    situ__lower_buffer(&call, to[1]);
    situ__lower_buffer(&call, g);
    situ__lower_buffer(&call, mean);
    situ__lower_buffer(&call, rstd);
  }
  situ__lower_block(&call, &n, sizeof n);
  if (*status == SITU_OK) *status = situ__lower_run(index, &call, n.tiles * n.slices * (int64_t)target->group);
  const situ_view_desc *last[] = { y, y2 };
  for (int k = 0; k < 2; k++) {
    const column_sums rest = { .rows = n.slices, .width = n.width, .row = n.width, .divisor = divisor };
    if (*status == SITU_OK && last[k] && to[k] != last[k])
      (void)situ__lower_columns(index, 0, rest, to[k], NULL, NULL, NULL, last[k], NULL, status);
    situ__targets->release(index, memory[k].data);
  }
  return true;
}
