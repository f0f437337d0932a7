/* Element-wise work of a graph runs tile by tile on the cpu: which work makes a group, what memory it needs, and that bits are
   those of the calls for any number of threads.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu */
#include <string.h>

#include "device/graph/parts.h"
#include "support/pairs.h"

enum { ROWS = 300, WIDTH = 260, NUMEL = ROWS * WIDTH, GROUPS = 4 };

typedef struct operands {
  situ_tensor *x, *row, *column;
} operands;
typedef situ_tensor *(*calls)(const operands *o);

/* ---- what is captured ---- */

static situ_tensor *one_chain(const operands *o) { return situ_mul(situ_relu(situ_mul_scalar(o->x, 1.5)), o->x); }
static situ_tensor *two_branches(const operands *o) {
  return situ_add(situ_sin(o->x), situ_mul(situ_sigmoid(o->x), situ_neg(o->x)));
}
static situ_tensor *broadcasts(const operands *o) {
  return situ_mul(situ_add(situ_gelu(o->x, SITU_GELU_NONE), o->row), o->column);
}
static situ_tensor *around_a_product(const operands *o) {
  situ_tensor *t = situ_relu(situ_mul_scalar(o->x, 0.01));
  return situ_tanh(situ_neg(situ_matmul(situ_transpose(t, 0, 1), t)));
}
/* The temporary is read by a reduction behind the group: it needs memory. */
static situ_tensor *read_outside(const operands *o) {
  situ_tensor *t = situ_sin(o->x);
  return situ_add(situ_relu(situ_neg(t)), situ_sum(t, NULL));
}
/* Reads elements that later tiles write. */
static situ_tensor *reads_ahead(const operands *o) {
  situ_tensor *t = situ_sin(o->x);
  return situ_neg(situ_add(t, situ_narrow(t, 0, ROWS - 1, 1)));
}
static situ_tensor *reads_first_row(const operands *o) {
  situ_tensor *t = situ_sin(o->x);
  return situ_neg(situ_add(t, situ_narrow(t, 0, 0, 1)));
}
static situ_tensor *shifted(const operands *o) {
  situ_tensor *t = situ_zeros(SITU_SHAPE(ROWS + 1, WIDTH), NULL);
  if (!situ_copy_(situ_narrow(t, 0, 0, ROWS), o->x)) return NULL;
  return situ_neg(situ_relu(situ_narrow(t, 0, 1, ROWS)));
}
static situ_tensor *turned(const operands *o) {
  situ_tensor *t = situ_narrow(situ_sin(o->x), 0, 0, WIDTH);
  return situ_neg(situ_add(t, situ_transpose(t, 0, 1)));
}
static situ_tensor *in_place(const operands *o) {
  situ_tensor *t = situ_zeros_like(o->x, NULL);
  return situ_add(situ_mul_(situ_add_(t, o->x), o->row), situ_neg(t));
}
static situ_tensor *of_integers(const operands *o) {
  situ_tensor *i = situ_to_dtype(o->x, SITU_I64);
  return situ_add(i, situ_mul(i, i));
}
static situ_tensor *of_halves(const operands *o) {
  situ_tensor *row = situ_to_dtype(o->row, SITU_F16), *h = situ_to_dtype(o->x, SITU_F16);
  return situ_to_dtype(situ_mul(situ_add(h, h), row), SITU_F64);
}
static situ_tensor *of_tests(const operands *o) {
  return situ_where(situ_gt(o->x, o->column), situ_exp(o->x), situ_neg(o->x));
}
/* The product's memory would hold the last result of the group, which is twice as wide, from the middle of the group on. */
static situ_tensor *widens(const operands *o) {
  situ_tensor *t = situ_relu(situ_matmul(o->x, situ_narrow(o->x, 0, 0, WIDTH)));
  situ_tensor *wide = situ_to_dtype(situ_to_dtype(t, SITU_F16), SITU_F64);
  return situ_sum(situ_mul(situ_sum(wide, &(situ_reduce_options){ .dim = SITU_DIMS(1), .keepdim = true }), wide), NULL);
}
static situ_tensor *reshaped(const operands *o) {
  situ_tensor *t = situ_reshape(situ_add(o->x, o->row), SITU_SHAPE(WIDTH, ROWS));
  return situ_neg(situ_add(t, situ_reshape(o->column, SITU_SHAPE(ROWS))));
}
/* A row is too long for a tile, so tiles are cut from all elements as if they were one. */
static situ_tensor *long_rows(const operands *o) {
  return situ_neg(situ_relu(situ_reshape(o->x, SITU_SHAPE(2, NUMEL / 2))));
}
static situ_tensor *small(const operands *o) { return situ_neg(situ_mul(o->row, situ_sin(o->row))); }
static situ_tensor *long_chain(const operands *o) {
  situ_tensor *y = o->x;
  for (int k = 0; k < 5; k++) y = situ_sub(situ_sin(y), situ_mul_scalar(y, 0.5));
  return y;
}

/* groups: how many pieces of work each has; memory: of the graph besides the result's, in results; -1: many. */
static const struct {
  const char *name;
  calls of;
  size_t groups[GROUPS];
  int memory;
} cases[] = {
  { "one chain", one_chain, { 3 }, 0 },
  { "two branches", two_branches, { 5 }, 0 },
  { "broadcasts", broadcasts, { 3 }, 0 },
  { "around a product", around_a_product, { 2, 2 }, -1 },
  { "read outside", read_outside, { 3 }, 1 },
  { "reads ahead", reads_ahead, { 2 }, 1 },
  { "reads the first row", reads_first_row, { 2 }, 1 },
  { "shifted", shifted, { 2 }, 1 },
  { "turned", turned, { 0 }, 1 },
  { "in place", in_place, { 5 }, 0 },
  { "of integers", of_integers, { 0 }, 1 },
  { "of halves", of_halves, { 4 }, 0 },
  { "of tests", of_tests, { 4 }, 0 },
  { "reshaped", reshaped, { 2 }, 0 },
  { "long rows", long_rows, { 2 }, 0 },
  { "widens", widens, { 3 }, -1 },
  { "small", small, { 0 }, 1 },
  { "long chain", long_chain, { 8, 7 }, 2 },
};

/* ---- capturing and comparing ---- */

static void find_groups(const situ_graph *g, size_t groups[GROUPS]) {
  memset(groups, 0, GROUPS * sizeof *groups);
  size_t count = 0;
  for (const situ__graph_work *k = g->first; k; k = k->next)
    if (k->tiles.count) groups[count++] = k->tiles.count;
}

static int64_t used(void) {
  situ_device_properties p;
  expect_ok(situ_device_info(there(), &p));
  return (int64_t)p.memory_used;
}

static void fill_operands(operands *o, int turn) {
  static double value[NUMEL];
  for (int i = 0; i < NUMEL; i++) value[i] = (double)((i * 37 + turn * 11) % 101) / 25 - 2;
  assert_non_null(situ_copy_(o->x, test_tensor(SITU_F32, SITU_SHAPE(ROWS, WIDTH), value)));
  assert_non_null(situ_copy_(o->row, test_tensor(SITU_F32, SITU_SHAPE(WIDTH), value + turn)));
  assert_non_null(situ_copy_(o->column, test_tensor(SITU_F32, SITU_SHAPE(ROWS, 1), value + 2 * turn)));
}

static situ_tensor *call(const operands *o, calls of) {
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  return situ_scope_return(&s, of(o));
}

static void compare(const operands *o, size_t i, situ_graph *graph, situ_tensor *y) {
  static double expected[NUMEL], got[NUMEL];
  const size_t bytes = (size_t)situ_numel(y) * sizeof *got;
  expect_ok(situ_set_num_threads(1));
  test_read(call(o, cases[i].of), expected);
  for (int threads = 1; threads <= test_most_threads(); threads *= 2) {
    memset(got, 0, sizeof got);
    expect_ok(situ_set_num_threads(threads));
    expect_ok(situ_graph_replay(graph));
    test_read(y, got);
    if (memcmp(expected, got, bytes) != 0) fail_msg("%s: other bits with %d threads", cases[i].name, threads);
  }
  expect_ok(situ_set_num_threads(1));
}

static void groups_run_tile_by_tile(void **state) {
  (void)state;
  operands o = { situ_zeros(SITU_SHAPE(ROWS, WIDTH), NULL), situ_zeros(SITU_SHAPE(WIDTH), NULL),
                 situ_zeros(SITU_SHAPE(ROWS, 1), NULL) };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    size_t groups[GROUPS];
    fill_operands(&o, 0);
    const int64_t before = used();
    expect_ok(situ_graph_capture_begin(there()));
    situ_tensor *y = call(&o, cases[i].of);
    situ_graph *graph = situ_graph_capture_end();
    assert_non_null(graph);
    find_groups(graph, groups);
    for (int k = 0; k < GROUPS; k++)
      if (groups[k] != cases[i].groups[k])
        fail_msg("%s: group %d has %zu pieces, not %zu", cases[i].name, k, groups[k], cases[i].groups[k]);
    const int64_t result = situ_numel(y) * (int64_t)situ_dtype_size(situ_dtype_of(y));
    const double more = (double)(used() - before - result) / (double)result;
    if (cases[i].memory >= 0 && (more > cases[i].memory + 0.2 || more < cases[i].memory - 1))
      fail_msg("%s: memory of %.2f results more", cases[i].name, more);
    for (int turn = 1; turn < 3; turn++) {
      fill_operands(&o, turn);
      compare(&o, i, graph, y);
    }
    situ_graph_free(graph);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = { PAIR_TEST(groups_run_tile_by_tile) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
