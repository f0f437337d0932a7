/* Graphs whose inputs and outputs become other tensors: values beside the calls, what a replay costs, refusals.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 opencl:0 */
#include "situ/graph.h"
#include "situ/nn/layers.h"
#include "situ/sys/alloc.h"
#include "support/pairs.h"

enum { SIZE = 12, TILE = 6 };

static situ_options at(void) { return (situ_options){ .device = there() }; }
static situ_tensor *image(double seed) {
  double v[SIZE * SIZE];
  for (int i = 0; i < SIZE * SIZE; i++) v[i] = (i * 7 % 23) / 23.0 + seed;
  return situ_to(test_tensor(SITU_F32, SITU_SHAPE(1, 1, SIZE, SIZE), v), there());
}
static situ_tensor *tile(situ_tensor *of, int row, int column) {
  return situ_narrow(situ_narrow(of, 2, row, TILE), 3, column, TILE);
}
static situ_nn_module *net(void) {
  const situ_nn_conv_options same = { .padding = SITU_DIMS(1), .device = there() };
  return situ_nn_sequential(situ_nn_conv2d(1, 3, SITU_DIMS(3), &same), situ_nn_relu(),
                            situ_nn_conv2d(3, 1, SITU_DIMS(3), &same));
}

typedef struct captured {
  situ_nn_module *net;
  situ_tensor *in, *out, *x, *y; /* images, and the tiles of the capture */
  situ_graph *graph;
} captured;
static captured begin(void) {
  captured c = { net(), image(0), image(5), NULL, NULL, NULL };
  c.x = tile(c.in, 0, 0), c.y = tile(c.out, 0, 0);
  expect_ok(situ_nn_forward_into(c.net, c.x, c.y));
  expect_ok(situ_graph_capture_begin(there()));
  expect_ok(situ_nn_forward_into(c.net, c.x, c.y));
  assert_non_null(c.graph = situ_graph_capture_end());
  return c;
}
static void end(captured *c) {
  situ_graph_free(c->graph);
  situ_nn_free(c->net);
}
static situ_status bind(const captured *c, situ_tensor *x, situ_tensor *y) {
  return situ_graph_rebind(c->graph, (situ_tensor *[]){ c->x, c->y }, (situ_tensor *[]){ x, y }, 2);
}

static void each_tile_of_a_picture(void **state) {
  (void)state;
  captured c = begin();
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  situ_tensor *raw = image(3), *shown = image(9);
  for (int i = 0; i < 4; i++) {
    situ_tensor *x = tile(raw, i / 2 * TILE, i % 2 * TILE), *y = tile(shown, i / 2 * TILE, i % 2 * TILE);
    expect_ok(bind(&c, x, y));
    expect_ok(situ_graph_replay(c.graph));
    assert_true(test_same_bits(situ_contiguous(y), situ_nn_forward(c.net, situ_contiguous(x))));
  }
  assert_true(test_same_bits(situ_contiguous(tile(c.out, 6, 6)), situ_contiguous(tile(image(5), 6, 6))));
  expect_ok(bind(&c, c.x, c.y)); /* back */
  assert_non_null(situ_copy_(c.x, situ_neg(c.x)));
  expect_ok(situ_graph_replay(c.graph));
  assert_true(test_same_bits(situ_contiguous(c.y), situ_nn_forward(c.net, situ_contiguous(c.x))));
  expect_ok(situ_scope_end(&s));
  end(&c);
}

static int64_t allocated_there(void) {
  situ_device_properties p;
  expect_ok(situ_device_info(there(), &p));
  return (int64_t)(p.memory_used + p.memory_cached);
}

/* A replay with other tensors launches what the capture did, and allocates nothing. */
static void a_replay_is_its_launches(void **state) {
  (void)state;
  captured c = begin();
  situ_tensor *x[] = { tile(image(3), 6, 0), tile(image(4), 0, 6) },
              *y[] = { tile(image(1), 0, 0), tile(image(2), 6, 6) };
  for (int i = 0; i < 2; i++) {
    expect_ok(bind(&c, x[i], y[i]));
    expect_ok(situ_graph_replay(c.graph));
  }
  situ_sim_statistics before = { 0 }, after = { 0 };
  if (there().kind == SITU_SIM) expect_ok(situ_sim_stats(there().index, &before));
  const int64_t held = allocated_there();
  situ_fail_allocation(0, false);
  situ_status status = SITU_OK;
  for (int i = 0; i < 8 && status == SITU_OK; i++) {
    status = bind(&c, x[i % 2], y[i % 2]);
    if (status == SITU_OK) status = situ_graph_replay(c.graph);
  }
  const int64_t allocated = situ_allocation_count();
  expect_ok(status);
  assert_int_equal(allocated_there(), held);
  if (there().kind == SITU_SIM) expect_ok(situ_sim_stats(there().index, &after));
  if (there().kind == SITU_CPU) assert_int_equal(allocated, 0); /* sim's queue and a kernel's scratch are counted */
  assert_int_equal(after.allocations, before.allocations);
  if (there().kind == SITU_SIM) assert_int_equal(after.launches - before.launches, 8 * situ_graph_length(c.graph));
  end(&c);
}

/* A simulation reads one array and writes the other, in turn. */
static void two_arrays_in_turn(void **state) {
  (void)state;
  const situ_options o = at();
  situ_tensor *a = situ_full(SITU_SHAPE(5), 1, &o), *b = situ_zeros(SITU_SHAPE(5), &o),
              *swap[2][2] = { { a, b }, { b, a } };
  expect_ok(situ_graph_capture_begin(there()));
  assert_non_null(situ_copy_(b, situ_mul_scalar(a, 2)));
  situ_graph *g = situ_graph_capture_end();
  for (int i = 0; i < 5; i++) {
    expect_ok(situ_graph_rebind(g, swap[0], swap[i % 2], 2));
    expect_ok(situ_graph_replay(g));
  }
  expect_exact(b, SITU_SHAPE(5), 32, 32, 32, 32, 32);
  expect_exact(a, SITU_SHAPE(5), 16, 16, 16, 16, 16);
  assert_int_equal(situ_graph_rebind(g, &swap[0][0], &swap[0][1], 1), SITU_E_ALIAS); /* b is written */
  expect_error(SITU_E_ALIAS, "graph_rebind", "another tensor of the graph");
  situ_graph_free(g);
}

static void what_does_not_fit(void **state) {
  (void)state;
  captured c = begin();
  const char *op = "graph_rebind";
  const situ_shape shape = SITU_SHAPE(1, 1, TILE, TILE);
  situ_options o = at(), whole = { .dtype = SITU_I32, .device = there() }, meta = { .device = situ_dev("meta") };
  situ_tensor *x = tile(image(3), 0, 0), *y = tile(image(4), 0, 0);
  assert_int_equal(bind(&c, situ_zeros(SITU_SHAPE(TILE, TILE), &o), y), SITU_E_SHAPE);
  expect_error(SITU_E_SHAPE, op, "bound[0] is [6, 6], but captured[0] is [1, 1, 6, 6]");
  assert_int_equal(bind(&c, x, situ_zeros(shape, &o)), SITU_E_SHAPE);
  expect_error(SITU_E_SHAPE, op, "bound[1] has other strides than captured[1]");
  assert_int_equal(bind(&c, situ_zeros(shape, &whole), y), SITU_E_DTYPE);
  expect_error(SITU_E_DTYPE, op, "bound[0] is i32, but captured[0] is f32");
  assert_int_equal(bind(&c, situ_zeros(shape, &meta), y), SITU_E_DEVICE);
  expect_error(SITU_E_DEVICE, op, "bound[0] is on meta, but captured[0] is on");
  assert_int_equal(bind(&c, x, NULL), SITU_E_ARG);
  expect_error(SITU_E_ARG, op, "bound[1]");
  assert_int_equal(bind(&c, x, x), SITU_E_ALIAS); /* one written over the other */
  expect_error(SITU_E_ALIAS, op, "another tensor of the graph has, one of which is written");
  assert_int_equal(situ_graph_rebind(c.graph, &y, &y, 1), SITU_E_ARG);
  expect_error(SITU_E_ARG, op, "the graph does not use");
  situ_tensor *part = situ_narrow(c.x, 2, 0, 2), *twice[] = { c.x, c.x }, *to[] = { x, x };
  assert_int_equal(situ_graph_rebind(c.graph, &part, &part, 1), SITU_E_ALIAS);
  expect_error(SITU_E_ALIAS, op, "together with other elements of the same memory");
  assert_int_equal(situ_graph_rebind(c.graph, twice, to, 2), SITU_E_ARG);
  expect_error(SITU_E_ARG, op, "captured has one tensor twice");
  expect_ok(situ_graph_replay(c.graph)); /* as it was */
  assert_true(test_same_bits(situ_contiguous(c.y), situ_nn_forward(c.net, situ_contiguous(c.x))));
  end(&c);
}

/* Of memory that stands in, too, a move is noticed, and so is that nothing was written. */
static void the_memory_is_looked_at(void **state) {
  (void)state;
  const situ_options o = at();
  situ_tensor *a = situ_ones(SITU_SHAPE(3), &o), *b = situ_zeros(SITU_SHAPE(3), &o),
              *empty = situ_empty(SITU_SHAPE(3), &o);
  expect_ok(situ_graph_capture_begin(there()));
  assert_non_null(situ_copy_(b, situ_neg(a)));
  situ_graph *g = situ_graph_capture_end();
  expect_ok(situ_graph_rebind(g, &a, &empty, 1));
  assert_int_equal(situ_graph_replay(g), SITU_E_STATE);
  expect_error(SITU_E_STATE, "graph_replay", "has no values yet");
  assert_non_null(situ_copy_(empty, situ_full(SITU_SHAPE(3), 4, &o)));
  expect_ok(situ_graph_replay(g));
  expect_exact(b, SITU_SHAPE(3), -4, -4, -4);
  expect_ok(situ_to_(empty, situ_dev(there().kind == SITU_CPU ? "meta" : "cpu")));
  assert_int_equal(situ_graph_replay(g), SITU_E_STATE);
  expect_error(SITU_E_STATE, "graph_replay", "has moved since it was bound to the graph");
  situ_graph_free(g);
}

/* What the graph made may hold other values while it runs: an input does not go there. */
static void a_result_is_no_input(void **state) {
  (void)state;
  const situ_options o = at();
  situ_tensor *a = situ_ones(SITU_SHAPE(64), &o), *b = situ_ones(SITU_SHAPE(64), &o),
              *out = situ_zeros(SITU_SHAPE(64), &o);
  expect_ok(situ_graph_capture_begin(there()));
  situ_tensor *made = situ_exp(situ_sin(a));
  situ_graph *g = situ_graph_capture_end();
  expect_ok(situ_graph_rebind(g, &made, &out, 1));
  expect_ok(situ_graph_rebind(g, &a, &b, 1));
  expect_ok(situ_graph_replay(g));
  assert_true(test_same_bits(out, situ_exp(situ_sin(b))));
  assert_int_equal(situ_graph_rebind(g, &a, &made, 1), SITU_E_ALIAS);
  expect_error(SITU_E_ALIAS, "graph_rebind", "the graph made");
  situ_graph_free(g);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    PAIR_TEST(each_tile_of_a_picture), PAIR_TEST(a_replay_is_its_launches), PAIR_TEST(two_arrays_in_turn),
    PAIR_TEST(what_does_not_fit),      PAIR_TEST(the_memory_is_looked_at),  PAIR_TEST(a_result_is_no_input),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
