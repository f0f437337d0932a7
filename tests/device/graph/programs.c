/* Drawn programs as a step that is captured and replayed, beside the same step call by call: the bits of all that
   outlives a step are equal after each, whatever memory results took over and whatever ran fused. Views, broadcasts,
   slices, and writes in place into tensors of before, temporaries, views of both and gradients make any wrong sharing
   of memory show.
   SITU_TEST_ALL: 10,000 programs. SITU_TEST_PROGRAM=seed: that one. A wrong program is made smaller and printed.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 */
#include <stdlib.h>
#include <string.h>

#include "situ/graph.h"
#include "support/pairs.h"

enum {
  POOL = 8,
  MOST_CALLS = 24,
  HELD = 2,
  STATES = 4,
  SHARING = 2, /* on the cpu, states from here on share memory of the program's, each a row behind the one before */
  LEAVES = 2,
  KEPT = STATES + HELD + 2 * LEAVES,
  STEPS = 5,
  WIDEST = 260
};

/* When gradients are cleared: never, in the step, or between steps. */
typedef enum clearing { NEVER, FILLED, DROPPED, FILLED_BETWEEN, CLEARINGS } clearing;

typedef struct program {
  uint64_t seed;
  int64_t n; /* all tensors are n x n */
  situ_dtype dtype;
  int calls, capture; /* capture: the step that is captured */
  bool learns;        /* has gradients; else it runs in a no_grad scope */
  clearing clears;
  uint32_t left_out; /* calls, by bit: refused, or not needed for being wrong */
  bool printed;
} program;

/* What outlives a step: its input, what it writes in place, its results, and leaves with their gradients. */
typedef struct world {
  situ_tensor *x, *state[STATES], *held[HELD], *leaf[LEAVES];
  situ_tensor *pool[POOL]; /* in a step */
} world;

static unsigned below(uint64_t *seed, unsigned limit) {
  *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (unsigned)(*seed >> 33) % limit;
}

/* ---- what a program calls ---- */

static situ_tensor *move_down(const program *p, uint64_t *seed, situ_tensor *a) {
  situ_tensor *zeros = situ_zeros_like(a, NULL);
  const int64_t first = (int64_t)below(seed, (unsigned)p->n);
  if (!situ_copy_(situ_narrow(zeros, 0, first, p->n - first), situ_narrow(a, 0, 0, p->n - first))) return NULL;
  return zeros;
}

/* One element-wise call, or one that is not, or a view. All results are n x n. */
static situ_tensor *make(const program *p, uint64_t *seed, situ_tensor *a, situ_tensor *b) {
  const int64_t n = p->n;
  const unsigned call = below(seed, 18);
  if (p->printed) print_error(" makes %u", call);
  switch (call) {
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
  case 14: return move_down(p, seed, a);
  case 15: return situ_softmax(a, 1);
  case 16: return situ_to_dtype(situ_sin(situ_to_dtype(a, SITU_F64)), p->dtype);
  default: return situ_addcmul(a, situ_clamp(b, -2, 2), a, 0.5);
  }
}

static situ_tensor *rows_of(const situ_tensor *t) {
  return situ_arange(0, (double)situ_size(t, 0), 1, &(situ_options){ .dtype = SITU_I64, .device = there() });
}

/* One call that writes t, or two. v has t's shape. */
static situ_tensor *write(const program *p, uint64_t *seed, situ_tensor *t, situ_tensor *v) {
  const unsigned call = below(seed, 20);
  if (p->printed) print_error(" writes %u", call);
  switch (call) {
  case 0: return situ_add_(t, v);
  case 1: return situ_add_(t, situ_square(v));
  case 2: return situ_sub_(t, situ_mul_scalar(v, 0.5));
  case 3: return situ_mul_(t, situ_tanh(v));
  case 4: return situ_add_alpha_(t, v, -0.25);
  case 5: return situ_copy_(t, v);
  case 6: return situ_copy_(t, situ_sin(v));
  case 7: return situ_lerp_scalar_(t, v, 0.1);
  case 8: return situ_addcmul_(t, situ_sin(v), situ_cos(v), 0.5);
  case 9: return situ_masked_fill_(t, situ_gt_scalar(v, 0.25), 0.5);
  case 10: return situ_fill_(t, 0.25);
  case 11: return situ_neg_(situ_tanh_(t));
  case 12: return situ_index_add_(t, 0, situ_flip(rows_of(t), SITU_DIMS(0)), situ_square(v), 1);
  case 13: return situ_index_copy_(t, 0, situ_flip(rows_of(t), SITU_DIMS(0)), v);
  case 14: return situ_clamp_(t, -1, 1);
  case 15: return situ_copy_(t, situ_where(situ_gt(v, t), t, situ_neg(v)));
  case 16: return situ_add_(t, situ_mean(v, &(situ_reduce_options){ .dim = SITU_DIMS(0), .keepdim = true }));
  case 17: return situ_div_(t, situ_add_scalar(situ_square(v), 1));
  case 18: return situ_add_(t, situ_rand_like(v, NULL));
  default: return situ_add_(situ_zero_(t), v);
  }
}

/* The same part of each: all of it, or a view. */
static void narrow_both(const program *p, uint64_t *seed, situ_tensor **t, situ_tensor **v) {
  const unsigned kind = below(seed, 10);
  const int64_t first = below(seed, (unsigned)p->n), count = 1 + below(seed, (unsigned)(p->n - first));
  situ_tensor **const both[] = { t, v };
  for (int i = 0; i < 2; i++) switch (kind) {
    case 0: *both[i] = situ_transpose(*both[i], 0, 1); break;
    case 1: *both[i] = situ_narrow(*both[i], 0, first, count); break;
    case 2: *both[i] = situ_narrow(*both[i], 1, first, count); break;
    case 3: *both[i] = situ_select(*both[i], (int)(count % 2), first); break;
    case 4: *both[i] = situ_reshape(*both[i], SITU_SHAPE(p->n * p->n)); break;
    default: break;
    }
}

/* States that share memory are read as copies, since a call's operands and results may not overlap. */
static situ_tensor *draw_value(uint64_t *seed, const world *w) {
  const unsigned which = below(seed, 2 * POOL);
  if (which >= STATES) return w->pool[which % POOL];
  return which < SHARING ? w->state[which] : situ_mul_scalar(w->state[which], 1);
}

static situ_tensor *write_somewhere(const program *p, uint64_t *seed, world *w) {
  const unsigned which = below(seed, 2 * STATES);
  situ_tensor *t = which < STATES ? w->state[which] : w->pool[below(seed, POOL)], *v = draw_value(seed, w), *whole = t;
  if (!situ_requires_grad(t))
    v = situ_detach(v); /* a history in what outlives the step would grow with each call of it */
  narrow_both(p, seed, &t, &v);
  if (!write(p, seed, t, v)) return NULL;
  return which < SHARING || (which >= STATES && below(seed, 2)) ? whole : NULL;
}

/* Backward of the pool's first value that can, or a step of gradient descent in place. */
static void learn(const program *p, uint64_t *seed, world *w) {
  situ_tensor *v = NULL;
  for (unsigned i = 0, at = below(seed, POOL); i < POOL && !v; i++)
    if (situ_requires_grad(w->pool[(at + i) % POOL])) v = w->pool[(at + i) % POOL];
  if (below(seed, 3)) {
    if (p->printed) print_error(" backward");
    if (!v) v = situ_mul(w->leaf[0], w->x);
    SITU_IGNORE(situ_backward(situ_sum(situ_mul_scalar(v, 1.0 / (double)p->n), NULL), NULL));
    return;
  }
  if (p->printed) print_error(" descends");
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  situ_tensor *leaf = w->leaf[below(seed, LEAVES)];
  if (situ_grad(leaf)) (void)situ_sub_(leaf, situ_clamp(situ_mul_scalar(situ_grad(leaf), 0.1), -1, 1));
  SITU_IGNORE(situ_scope_end(&s));
}

/* Call k of the program. What it is depends on the seed and k alone, so that others can be left out. */
static void call_once(const program *p, int k, world *w) {
  uint64_t seed = (p->seed * 64 + (uint64_t)k) * UINT64_C(0x9E3779B97F4A7C15);
  const unsigned kind = below(&seed, 8);
  if (p->learns && kind == 0) {
    learn(p, &seed, w);
    return;
  }
  situ_tensor *y = kind < 5 ? write_somewhere(p, &seed, w) : make(p, &seed, draw_value(&seed, w), draw_value(&seed, w));
  if (y && kind >= 5 && below(&seed, 3) == 0) y = situ_clamp(y, -4, 4);
  if (y) w->pool[below(&seed, POOL)] = y;
}

/* ---- a step ---- */

static void clear_gradients(world *w, bool drop) {
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  for (int i = 0; i < LEAVES; i++)
    if (drop) expect_ok(situ_set_grad(w->leaf[i], NULL));
    else if (situ_grad(w->leaf[i])) (void)situ_zero_(situ_grad(w->leaf[i]));
  expect_ok(situ_scope_end(&s));
}

/* Returns the calls that were refused, by bit. */
static uint32_t run_step(const program *p, world *w) {
  uint32_t refused = 0;
  situ_scope s;
  if (p->learns) situ_scope_begin(&s);
  else situ_scope_begin_no_grad(&s);
  if (p->clears == FILLED || p->clears == DROPPED) clear_gradients(w, p->clears == DROPPED);
  for (int i = 0; i < POOL; i++) w->pool[i] = i < LEAVES ? w->leaf[i] : w->x;
  for (int k = 0; k < p->calls; k++) {
    if (p->left_out >> k & 1) continue;
    call_once(p, k, w);
    if (situ_error() != SITU_OK) refused |= UINT32_C(1) << k;
    situ_error_clear();
  }
  if (p->printed) print_error("\n");
  for (int i = 0; i < HELD; i++) { /* a graph is not empty: the first result is computed */
    situ_tensor *y = situ_detach(w->pool[i]);
    assert_true(situ_set(&w->held[i], i ? situ_contiguous(y) : situ_neg(y)));
  }
  expect_ok(situ_scope_end(&s));
  return refused;
}

/* What happens to a world between its steps, by calls. */
static void set_input(const program *p, int step, world *w) {
  static double value[WIDEST * WIDEST];
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  for (int64_t i = 0; i < p->n * p->n; i++) value[i] = (double)((i * 37 + step * 11) % 101) / 50 - 1;
  assert_non_null(situ_copy_(w->x, test_tensor(p->dtype, SITU_SHAPE(p->n, p->n), value)));
  for (int i = 0; i < STATES; i++) assert_non_null(situ_clamp_(w->state[i], -4, 4));
  if (step % 2) assert_non_null(situ_fill_(w->state[0], step));
  if (step % 2 && p->clears == FILLED_BETWEEN) clear_gradients(w, false);
  expect_ok(situ_scope_end(&s));
}

/* memory: of the states that share it. */
static world new_world(const program *p, double *memory) {
  const situ_options like = { .dtype = p->dtype, .device = there() };
  const situ_shape shape = SITU_SHAPE(p->n, p->n);
  world w = { .x = situ_zeros(shape, &like) };
  memset(memory, 0, WIDEST * (WIDEST + STATES) * sizeof *memory);
  for (int i = 0; i < STATES; i++) {
    char *const row = (char *)memory + (size_t)(i * p->n) * situ_dtype_size(p->dtype);
    const bool shares = i >= SHARING && there().kind == SITU_CPU;
    w.state[i] = shares ? situ_from_blob(row, shape, NULL, NULL, NULL, &like) : situ_full(shape, 0.5 * i, &like);
  }
  for (int i = 0; i < LEAVES; i++) w.leaf[i] = situ_requires_grad_(situ_full(shape, 0.25 + i, &like), p->learns);
  return w;
}

static void end_world(world *w) {
  for (int i = 0; i < HELD; i++) situ_release(w->held[i]);
}

/* ---- programs ---- */

static program draw_program(uint64_t seed) {
  static const int64_t sizes[] = { 1, 3, 17, 1, 3, 2, 17, 64, 3, 100, 5, WIDEST };
  uint64_t state = seed * 977 + 1;
  program p = { .seed = seed, .n = sizes[seed % (sizeof sizes / sizeof *sizes)] };
  const unsigned dtype = below(&state, 8);
  p.dtype = dtype == 0 ? SITU_F64 : dtype == 1 ? SITU_BF16 : SITU_F32;
  p.calls = 1 + (int)below(&state, below(&state, 2) ? 6 : MOST_CALLS);
  p.learns = below(&state, 3) == 0;
  p.clears = p.learns ? (clearing)below(&state, CLEARINGS) : NEVER;
  p.capture = p.learns && p.clears != DROPPED ? 1 + (int)below(&state, 2) : (int)below(&state, 3);
  return p;
}

static double memory[2][WIDEST * (WIDEST + STATES)];

/* Runs steps without a graph; returns the calls that were refused, by bit. */
static uint32_t run_by_calls(const program *p, int steps) {
  uint32_t refused = 0;
  situ_scope s;
  situ_scope_begin(&s);
  world w = new_world(p, memory[0]);
  for (int step = 0; step < steps; step++) {
    set_input(p, step, &w);
    refused |= run_step(p, &w);
  }
  end_world(&w);
  expect_ok(situ_scope_end(&s));
  return refused;
}

static void leave_out_refused(program *p) {
  for (uint32_t refused = 1; refused; p->left_out |= refused) refused = run_by_calls(p, STEPS);
}

static const char *kept_name(int i) {
  static const char *const names[KEPT] = { "state 0",  "state 1", "state 2", "state 3",    "result 0",
                                           "result 1", "leaf 0",  "leaf 1",  "gradient 0", "gradient 1" };
  return names[i];
}
static situ_tensor *kept(const world *w, int i) {
  if (i < STATES) return w->state[i];
  if (i < STATES + HELD) return w->held[i - STATES];
  const int leaf = i - STATES - HELD;
  return leaf < LEAVES ? w->leaf[leaf] : situ_grad(w->leaf[leaf - LEAVES]);
}

/* What differs after a step, if anything. */
static const char *find_difference(const world *a, const world *b) {
  for (int i = 0; i < KEPT; i++) {
    situ_tensor *x = kept(a, i), *y = kept(b, i);
    if (x || y ? !x || !y || !test_same_bits(x, y) : false) return kept_name(i);
  }
  return NULL;
}

static const char refusals[] = "what is refused";

/* Both worlds' steps; returns what differs first, and *at: in which step. */
static const char *compare_steps(const program *p, world *calls, world *graphed, int *at) {
  const char *differs = NULL;
  situ_graph *graph = NULL;
  for (int step = 0; step < STEPS && !differs; *at = step++) {
    const situ_generator random = situ_get_rng_state();
    set_input(p, step, calls);
    set_input(p, step, graphed);
    if (run_step(p, calls)) return situ_graph_free(graph), refusals;
    situ_set_rng_state(random);
    if (step == p->capture) expect_ok(situ_graph_capture_begin(there()));
    if (step > p->capture) expect_ok(situ_graph_replay(graph));
    else if (run_step(p, graphed)) differs = refusals;
    if (step == p->capture && !(graph = situ_graph_capture_end())) differs = "the capture";
    if (!differs) differs = find_difference(calls, graphed);
    situ_error_clear();
  }
  situ_graph_free(graph);
  return differs;
}

static const char *compare(const program *p, int *at) {
  situ_scope s;
  situ_scope_begin(&s);
  world calls = new_world(p, memory[0]), graphed = new_world(p, memory[1]);
  const char *differs = compare_steps(p, &calls, &graphed, at);
  end_world(&calls), end_world(&graphed);
  expect_ok(situ_scope_end(&s));
  return differs;
}

static void report(program p, const char *differs, int at) {
  static const char *const clears[] = { "never", "filled", "dropped", "filled between" };
  for (int k = 0; k < p.calls; k++) {
    const uint32_t all = p.left_out;
    p.left_out |= UINT32_C(1) << k;
    const char *smaller = compare(&p, &at);
    if (smaller && smaller != refusals) differs = smaller;
    else p.left_out = all;
  }
  print_error("seed %llu, %lld wide, %s, captured at step %d, gradients %s: %s differs in step %d\n",
              (unsigned long long)p.seed, (long long)p.n, situ_dtype_name(p.dtype), p.capture,
              p.learns ? clears[p.clears] : "none", differs, at);
  p.printed = true;
  SITU_IGNORE(run_by_calls(&p, 1));
}

static void replays_give_the_bits_of_their_calls(void **state) {
  (void)state;
  const char *one = getenv("SITU_TEST_PROGRAM");
  const uint64_t count = one ? 1 : getenv("SITU_TEST_ALL") ? 10000 : 480;
  int bad = 0, at;
  for (uint64_t i = 0; i < count && bad < 3; i++) {
    if (!test_takes(i, 8)) continue;
    program p = draw_program(one ? strtoull(one, NULL, 10) : i);
    leave_out_refused(&p);
    const char *differs = compare(&p, &at);
    if (differs) bad++, report(p, differs, at);
  }
  assert_int_equal(bad, 0);
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
    PAIR_TEST(replays_give_the_bits_of_their_calls),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
