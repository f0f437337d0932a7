/* Programs of random calls, as a graph and call by call: a replay gives the calls' bits, whatever memory results took over and
   whatever ran fused. Views, broadcasts, slices and writes in place make any wrong sharing of memory show.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 */
#include <string.h>

#include "situ/graph.h"
#include "support/pairs.h"

enum { POOL = 8, CALLS = 24, HELD = 2, SEEDS = 120, WIDEST = 260 };

typedef struct program {
  uint64_t seed;
  int64_t n;
} program;

static unsigned below(uint64_t *seed, unsigned limit) {
  *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (unsigned)(*seed >> 33) % limit;
}

/* One element-wise call, or one that is not, or a view. All results are n x n. */
static situ_tensor *call_once(uint64_t *seed, int64_t n, situ_tensor *a, situ_tensor *b) {
  switch (below(seed, 16)) {
  case 0: return situ_sin(a);
  case 1: return situ_relu(a);
  case 2: return situ_mul_scalar(a, -1.25);
  case 3: return situ_gelu(a, SITU_GELU_NONE);
  case 4: return situ_add(a, b);
  case 5: return situ_mul(situ_clamp(a, -2, 2), b);
  case 6: return situ_sub(a, situ_narrow(b, 0, (int64_t)below(seed, (unsigned)n), 1));
  case 7: return situ_mul(a, situ_narrow(b, 1, (int64_t)below(seed, (unsigned)n), 1));
  case 8: return situ_transpose(a, 0, 1);
  case 9: return situ_contiguous(situ_transpose(a, 0, 1));
  case 10: return situ_add_(situ_clone(a), b);
  case 11: return situ_where(situ_gt(a, b), a, situ_neg(b));
  case 12: return situ_tanh(situ_matmul(a, situ_mul_scalar(b, 1.0 / (double)n)));
  case 13: return situ_add(a, situ_sum(b, &(situ_reduce_options){ .dim = SITU_DIMS(0), .keepdim = true }));
  case 14: {
    situ_tensor *zeros = situ_zeros_like(a, NULL);
    const int64_t first = (int64_t)below(seed, (unsigned)n);
    if (!situ_copy_(situ_narrow(zeros, 0, first, n - first), situ_narrow(a, 0, 0, n - first))) return NULL;
    return zeros;
  }
  default: return situ_addcmul(a, situ_clamp(b, -2, 2), a, 0.5);
  }
}

static void run_program(const program *p, situ_tensor *x, situ_tensor **held) {
  uint64_t seed = p->seed;
  situ_tensor *pool[POOL];
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  for (int i = 0; i < POOL; i++) pool[i] = x;
  for (int k = 0; k < CALLS; k++) {
    situ_tensor *a = pool[below(&seed, POOL)], *b = pool[below(&seed, POOL)];
    situ_tensor *y = call_once(&seed, p->n, a, b);
    if (below(&seed, 3) == 0) y = situ_clamp(y, -4, 4);
    assert_non_null(y);
    pool[below(&seed, POOL)] = y;
  }
  for (int i = 0; i < HELD; i++) assert_true(situ_set(&held[i], situ_contiguous(pool[i])));
  expect_ok(situ_scope_end(&s));
}

static void fill_input(const program *p, int turn, situ_tensor *x) {
  static double value[WIDEST * WIDEST];
  for (int64_t i = 0; i < p->n * p->n; i++) value[i] = (double)((i * 37 + turn * 11) % 101) / 50 - 1;
  assert_non_null(situ_copy_(x, test_tensor(SITU_F32, SITU_SHAPE(p->n, p->n), value)));
}

static void compare(const program *p) {
  static double calls[WIDEST * WIDEST], replay[WIDEST * WIDEST];
  situ_tensor *x = situ_retain(situ_zeros(SITU_SHAPE(p->n, p->n), &(situ_options){ .device = there() }));
  situ_tensor *expected[HELD] = { 0 }, *held[HELD] = { 0 };
  fill_input(p, 0, x);
  expect_ok(situ_graph_capture_begin(there()));
  run_program(p, x, held);
  situ_graph *graph = situ_graph_capture_end();
  assert_non_null(graph);
  for (int turn = 1; turn < 3; turn++) {
    fill_input(p, turn, x);
    run_program(p, x, expected);
    expect_ok(situ_graph_replay(graph));
    for (int i = 0; i < HELD; i++) {
      test_read(expected[i], calls);
      test_read(held[i], replay);
      if (memcmp(calls, replay, (size_t)(p->n * p->n) * sizeof *calls) != 0)
        fail_msg("seed %llu, %lld wide, replay %d: result %d differs", (unsigned long long)p->seed, (long long)p->n,
                 turn, i);
    }
  }
  situ_graph_free(graph);
  for (int i = 0; i < HELD; i++) situ_release(held[i]), situ_release(expected[i]);
  situ_release(x);
}

static void programs_give_the_bits_of_their_calls(void **state) {
  (void)state;
  static const int64_t sizes[] = { 3, 17, 64, WIDEST };
  for (size_t i = 0; i < SEEDS; i++)
    if (test_takes(i, 8))
      for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        situ_scope s;
        situ_scope_begin(&s);
        compare(&(program){ i * 977 + 1, sizes[k] });
        expect_ok(situ_scope_end(&s));
      }
}

/* Captures what `calls` makes of x; only the result, in *y, is held. */
static situ_graph *capture(situ_tensor *(*calls)(situ_tensor *), situ_tensor *x, situ_tensor **y) {
  situ_scope s;
  expect_ok(situ_graph_capture_begin(there()));
  situ_scope_begin_no_grad(&s);
  *y = situ_scope_return(&s, calls(x));
  situ_graph *graph = situ_graph_capture_end();
  assert_non_null(graph);
  return graph;
}

static situ_tensor *copy_of_temporary(situ_tensor *x) { return situ_clone(situ_clone(situ_sin(x))); }
static situ_tensor *copy_of_input(situ_tensor *x) { return situ_clone(x); }
static situ_tensor *copy_across(situ_tensor *x) { return situ_contiguous(situ_transpose(situ_sin(x), 0, 1)); }
static situ_tensor *copy_with_reader(situ_tensor *x) {
  situ_tensor *t = situ_sin(x), *copy = situ_clone(t);
  return situ_mul(situ_sum(copy, NULL), t);
}

/* A copy is left out where its operand is not needed afterwards, and has the copy's layout. */
static void copies_of_what_dies_are_left_out(void **state) {
  (void)state;
  static const struct {
    situ_tensor *(*calls)(situ_tensor *);
    size_t length;
  } cases[] = { { copy_of_temporary, 1 }, { copy_of_input, 1 }, { copy_across, 2 }, { copy_with_reader, 4 } };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    situ_tensor *y, *x = situ_to(T32(SITU_SHAPE(2, 3), 1, 2, 3, 4, 5, 6), there());
    situ_graph *graph = capture(cases[i].calls, x, &y);
    assert_int_equal(situ_graph_length(graph), cases[i].length);
    assert_non_null(situ_mul_(x, x));
    expect_ok(situ_graph_replay(graph));
    expect_same(y, cases[i].calls(x), 0, 0);
    situ_graph_free(graph);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
    PAIR_TEST(copies_of_what_dies_are_left_out),
    PAIR_TEST(programs_give_the_bits_of_their_calls),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
