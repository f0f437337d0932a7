/* Lists of any number of tensors in programs: as arguments and results of calls, of programs, branches and loops. In a
   longer list a tensor costs as much: counted are the blocks of the library's code that run.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu */
/* test-links: situ_counted */
/* test-cost: 60 */
/* test-limit: 900 */
#include <stdio.h>
#include <stdlib.h>

#include "base/text.h"
#include "situ/situ.h"
#include "situ/sys/alloc.h"
#include "support/pairs.h"
#include "support/zip_memory.h"

static const int lengths[] = { 1, 1025, 5000 };
enum { LENGTHS = sizeof lengths / sizeof *lengths, FEW = 500, TIMES = 10 };
#define MOST 14.0 /* 10 for each tensor as much; n log n is 13.3 */

static _Thread_local uint64_t blocks;

/* Called by each block (support/counted). */
void __sanitizer_cov_trace_pc(void);
void __sanitizer_cov_trace_pc(void) { blocks++; }

static void write_file(const char *path, const void *data, size_t length) {
  FILE *f = fopen(path, "wb");
  assert_true(f && fwrite(data, 1, length, f) == length);
  assert_int_equal(fclose(f), 0);
}

/* "NAME0", "NAME1" and so on, each in the form of an argument. */
static void add_names(situ__text *t, const char *before, const char *name, const char *after, int count) {
  for (int i = 0; i < count; i++) situ__text_add(t, "%s%s%s%d%s", i ? ", " : "", before, name, i, after);
}
#define TENSOR(name) "{\"as_tensor\": {\"name\": \"" name "\"}}"

/* ---- .pt2 ---- */

/* A program with one kind of inputs, named x, and of results. */
static void write_pt2(const char *nodes, int inputs, const char *size, const char *result, int results) {
  static const char none[] = "{\"config\": {}}";
  situ__text t = { 0 };
  situ__text_add(&t, "{\"graph_module\": {\"graph\": {\"inputs\": [");
  add_names(&t, "{\"as_tensor\": {\"name\": \"", "x", "\"}}", inputs);
  situ__text_add(&t, "], \"outputs\": [], \"nodes\": [%s], \"tensor_values\": {", nodes);
  for (int i = 0; i < inputs; i++)
    situ__text_add(&t, "%s\"x%d\": {\"dtype\": 7, \"sizes\": [%s]}", i ? ", " : "", i, size);
  situ__text_add(&t, "}, \"sym_int_values\": {}}, \"signature\": {\"input_specs\": [");
  add_names(&t, "{\"user_input\": {\"arg\": {\"as_tensor\": {\"name\": \"", "x", "\"}}}}", inputs);
  situ__text_add(&t, "], \"output_specs\": [");
  add_names(&t, "{\"user_output\": {\"arg\": {\"as_tensor\": {\"name\": \"", result, "\"}}}}", results);
  situ__text_add(&t, "]}}, \"range_constraints\": {}, \"schema_version\": {\"major\": 8, \"minor\": 8}}");
  zip_memory zip = { .data = malloc(t.length + 2048) };
  assert_true(zip.data && !t.failed);
  zip_memory_add(&zip, "t/archive_format", "pt2", 3);
  zip_memory_add(&zip, "t/byteorder", "little", 6);
  zip_memory_add(&zip, "t/data/weights/model_weights_config.json", none, sizeof none - 1);
  zip_memory_add(&zip, "t/data/constants/model_constants_config.json", none, sizeof none - 1);
  zip_memory_add(&zip, "t/models/model.json", t.data, t.length);
  zip_memory_end(&zip);
  write_file("lists.pt2", zip.data, zip.length);
  free(zip.data);
  situ__text_free(&t);
}

static void add_node(situ__text *t, const char *target, const char *first, const char *arg, const char *outputs) {
  situ__text_add(t, "%s{\"target\": \"torch.ops.%s\", \"name\": \"n\", \"inputs\": [{\"name\": \"%s\", \"arg\": ",
                 t->length ? ", " : "", target, first);
  situ__text_add(t, "%s], \"outputs\": [%s]}", arg, outputs);
}

/* Calls that give as many tensors as x has rows. */
static const struct giver {
  const char *target, *argument;
  enum { NOTHING, ONE, COUNT, ONES, PLACES } value; /* of the argument; the last two are lists */
} givers[] = { { "unbind.int", NULL, NOTHING },
               { "split.Tensor", "split_size", ONE },
               { "chunk.default", "chunks", COUNT },
               { "tensor_split.sections", "sections", COUNT },
               { "split_with_sizes.default", "split_sizes", ONES },
               { "tensor_split.indices", "indices", PLACES } };
enum { GIVERS = sizeof givers / sizeof *givers };

/* And calls that take them. passes: they give as many again, which are joined by cat. */
static const struct taker {
  const char *target;
  bool passes;
} takers[] = { { .target = "cat.default" },           { .target = "stack.default" },
               { .target = "hstack.default" },        { .target = "vstack.default" },
               { .target = "dstack.default" },        { .target = "column_stack.default" },
               { "broadcast_tensors.default", true }, { "atleast_1d.Sequence", true },
               { "atleast_2d.Sequence", true },       { "atleast_3d.Sequence", true } };
enum { TAKERS = sizeof takers / sizeof *takers };

static void add_list(situ__text *t, const char *name, int count) {
  situ__text_add(t, "{\"as_tensors\": [");
  add_names(t, "{\"name\": \"", name, "\"}", count);
  situ__text_add(t, "]}");
}
static void add_list_node(situ__text *t, const char *target, const char *list, const char *outputs) {
  situ__text arg = { 0 };
  situ__text_add(&arg, "%s}", list);
  add_node(t, target, "tensors", arg.data, outputs);
  situ__text_free(&arg);
}

/* x0 [n, 2] in pieces p, which are joined as y0. */
static void write_pieces(const struct giver *g, const struct taker *k, int n) {
  situ__text nodes = { 0 }, arg = { 0 }, pieces = { 0 }, passed = { 0 };
  char target[64], size[64];
  situ__text_add(&arg, TENSOR("x0") "}");
  if (g->argument) situ__text_add(&arg, ", {\"name\": \"%s\", \"arg\": ", g->argument);
  if (g->value == ONE || g->value == COUNT) situ__text_add(&arg, "{\"as_int\": %d}}", g->value == ONE ? 1 : n);
  if (g->value >= ONES) situ__text_add(&arg, "{\"as_ints\": [");
  for (int i = g->value == PLACES; i < n && g->value >= ONES; i++)
    situ__text_add(&arg, "%s%d", i > (g->value == PLACES) ? ", " : "", g->value == ONES ? 1 : i);
  if (g->value >= ONES) situ__text_add(&arg, "]}}");
  add_list(&pieces, "p", n);
  add_list(&passed, "q", n);
  (void)snprintf(target, sizeof target, "aten.%s", g->target);
  add_node(&nodes, target, "self", arg.data, pieces.data);
  (void)snprintf(target, sizeof target, "aten.%s", k->target);
  add_list_node(&nodes, target, pieces.data, k->passes ? passed.data : TENSOR("y0"));
  if (k->passes) add_list_node(&nodes, "aten.cat.default", passed.data, TENSOR("y0"));
  (void)snprintf(size, sizeof size, "{\"as_int\": %d}, {\"as_int\": 2}", n);
  write_pt2(nodes.data, 1, size, "y", 1);
  situ__text_free(&nodes);
  situ__text_free(&arg);
  situ__text_free(&pieces);
  situ__text_free(&passed);
}

static situ_nn_module *load(const char *path) {
  situ_nn_module *m = situ_export_load(path, NULL);
  if (!m) fail_msg("%s: %.300s", path, situ_error_message());
  return m;
}

static void expect_equal(situ_tensor *a, situ_tensor *b, const char *what, int n) {
  bool equal = false;
  if (!a || !b) fail_msg("%s of %d: %.300s", what, n, situ_error_message());
  expect_ok(situ_equal(a, b, &equal));
  if (!equal) fail_msg("%s of %d has other values", what, n);
}

/* What the calls make of the rows of x, or of its parts of one row. */
static situ_tensor *expected(const struct giver *g, const struct taker *k, situ_tensor *x, int n) {
  situ_tensor **piece = malloc((size_t)n * sizeof *piece), *y = NULL;
  const bool rows = g->value == NOTHING;
  for (int i = 0; i < n; i++) piece[i] = rows ? situ_select(x, 0, i) : situ_narrow(x, 0, i, 1);
  for (int i = 0; i < n && k->passes; i++) {
    if (k->target[8] == '2') piece[i] = situ_atleast_2d(piece[i]);
    if (k->target[8] == '3') piece[i] = situ_atleast_3d(piece[i]);
  }
  if (*k->target == 's') y = situ_stack(piece, n, 0);
  else if (*k->target == 'h') y = situ_hstack(piece, n);
  else if (*k->target == 'v') y = situ_vstack(piece, n);
  else if (*k->target == 'd') y = situ_dstack(piece, n);
  else if (strncmp(k->target, "column", 6) == 0) y = situ_column_stack(piece, n);
  else y = situ_cat(piece, n, 0);
  free(piece);
  return y;
}

static situ_tensor *drawn(int n) {
  situ_manual_seed(7);
  return situ_randn(SITU_SHAPE(n, 2), NULL);
}

/* Loads the file and runs it; the same written as .pt2 and as ONNX, if `again`. Returns the blocks that were run. */
static uint64_t run_pieces(const struct giver *g, const struct taker *k, int n, bool again) {
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  situ_tensor *x = drawn(n), *y;
  write_pieces(g, k, n);
  blocks = 0;
  situ_nn_module *m = load("lists.pt2");
  y = situ_nn_forward(m, x);
  uint64_t count = blocks;
  expect_equal(y, expected(g, k, x, n), k->target, n);
  if (again) {
    situ_tree *in = situ_tree_of(1, &x);
    blocks = 0;
    situ_nn_module *traced = situ_export(m, in);
    if (!traced) fail_msg("%s of %d: %.300s", k->target, n, situ_error_message());
    expect_ok(situ_export_save(traced, "traced.pt2"));
    expect_ok(situ_onnx_export(traced, "lists.onnx", NULL));
    situ_nn_module *read[] = { load("traced.pt2"), load("lists.onnx") };
    for (int i = 0; i < 2; i++) {
      situ_tensor *same = situ_nn_forward(read[i], x);
      count += blocks;
      expect_equal(same, y, i ? "ONNX" : "a trace", n);
      blocks = 0;
      situ_nn_free(read[i]);
    }
    situ_nn_free(traced);
    situ_tree_free(in);
  }
  situ_nn_free(m);
  expect_ok(situ_scope_end(&s));
  return count;
}

static void calls_take_and_give_any_number(void **state) {
  (void)state;
  for (int l = 0; l < LENGTHS; l++)
    for (int k = 0; k < TAKERS; k++) run_pieces(&givers[k % GIVERS], &takers[k], lengths[l], k < GIVERS);
}

/* ---- ONNX ---- */

static void put_varint(situ__text *m, uint64_t value) {
  for (bool more = true; more; value >>= 7) {
    more = value > 127;
    situ__text_append(m, (char[]){ (char)((value & 127) | (more ? 128 : 0)) }, 1);
  }
}
static void put_int(situ__text *m, uint32_t field, uint64_t value) {
  put_varint(m, field << 3);
  put_varint(m, value);
}
static void put_part(situ__text *m, uint32_t field, const void *data, size_t length) {
  put_varint(m, field << 3 | 2);
  put_varint(m, length);
  situ__text_append(m, data ? data : "", length);
}
/* And frees it. */
static void put_inner(situ__text *m, uint32_t field, situ__text *inner) {
  assert_false(inner->failed);
  put_part(m, field, inner->data, inner->length);
  situ__text_free(inner);
}
static void put_name(situ__text *m, uint32_t field, const char *name) { put_part(m, field, name, strlen(name)); }
/* NAME0 and so on, beginning at `first`. */
static void put_names(situ__text *m, uint32_t field, const char *name, int first, int count) {
  char each[32];
  for (int i = 0; i < count; i++) {
    (void)snprintf(each, sizeof each, "%s%d", name, (first + i) % count);
    put_name(m, field, each);
  }
}

enum { NODE = 1, INITIALIZER = 5, INPUT = 11, OUTPUT = 12 }; /* of a graph */

/* Values of a dtype and any sizes. */
static void put_values(situ__text *graph, uint32_t field, const char *name, int first, int count, char dtype) {
  const char type[] = { 0x0a, 0x02, 0x08, dtype };
  char each[32];
  for (int i = 0; i < count; i++) {
    situ__text value = { 0 };
    (void)snprintf(each, sizeof each, "%s%d", name, (first + i) % count);
    put_name(&value, 1, each);
    put_part(&value, 2, type, sizeof type);
    put_inner(graph, field, &value);
  }
}
static void put_attribute(situ__text *node, const char *name, uint32_t type, uint32_t field, uint64_t value,
                          situ__text *graph) {
  situ__text a = { 0 };
  put_name(&a, 1, name);
  put_int(&a, 20, type);
  if (graph) put_inner(&a, field, graph);
  else put_int(&a, field, value);
  put_inner(node, 5, &a);
}
static void end_node(situ__text *graph, const char *op, situ__text *node) {
  put_name(node, 4, op);
  put_inner(graph, NODE, node);
}

static void write_onnx(situ__text *graph) {
  situ__text model = { 0 }, opset = { 0 };
  put_int(&model, 1, 8);
  put_name(&opset, 1, "");
  put_int(&opset, 2, 18);
  put_inner(&model, 8, &opset);
  put_inner(&model, 7, graph);
  write_file("lists.onnx", model.data, model.length);
  situ__text_free(&model);
}

/* z = Split(Concat(x)), and the mean of the x, which Sum has made of them. */
static int write_joined(situ__text *graph, int n) {
  situ__text concat = { 0 }, split = { 0 };
  put_names(&concat, 1, "x", 0, n);
  put_name(&concat, 2, "whole");
  put_attribute(&concat, "axis", 2, 3, 0, NULL);
  end_node(graph, "Concat", &concat);
  put_name(&split, 1, "whole");
  put_names(&split, 2, "z", 0, n);
  put_attribute(&split, "axis", 2, 3, 0, NULL);
  put_attribute(&split, "num_outputs", 2, 3, (uint64_t)n, NULL);
  end_node(graph, "Split", &split);
  return 0;
}
/* A Loop of three iterations, each of which turns the x by one. */
static int write_loop(situ__text *graph, int n) {
  situ__text loop = { 0 }, body = { 0 }, same = { 0 }, trip = { 0 };
  put_int(&trip, 2, 7);
  put_part(&trip, 7, "\3", 1);
  put_name(&trip, 8, "trip");
  put_inner(graph, INITIALIZER, &trip);
  put_values(&body, INPUT, "i", 0, 1, 7);
  put_values(&body, INPUT, "cond", 0, 1, 9);
  put_values(&body, INPUT, "c", 0, n, 1);
  put_name(&same, 1, "cond0");
  put_name(&same, 2, "on0");
  end_node(&body, "Identity", &same);
  put_values(&body, OUTPUT, "on", 0, 1, 9);
  put_values(&body, OUTPUT, "c", 1, n, 1);
  put_name(&loop, 1, "trip");
  put_name(&loop, 1, "");
  put_names(&loop, 1, "x", 0, n);
  put_names(&loop, 2, "z", 0, n);
  put_attribute(&loop, "body", 5, 6, 0, &body);
  end_node(graph, "Loop", &loop);
  return 3 % n;
}
/* An If, whose condition is that the first x are more than all others. */
static int write_branches(situ__text *graph, int n) {
  situ__text node = { 0 }, branch[2] = { { 0 }, { 0 } }, sum = { 0 }, is = { 0 };
  put_names(&sum, 1, "x", 0, n);
  put_name(&sum, 2, "most");
  end_node(graph, "Max", &sum);
  put_name(&is, 1, "most");
  put_name(&is, 1, "most");
  put_name(&is, 2, "less");
  end_node(graph, "Less", &is);
  put_name(&node, 1, "less");
  put_names(&node, 2, "z", 0, n);
  put_values(&branch[0], OUTPUT, "x", 0, n, 1);
  put_values(&branch[1], OUTPUT, "x", 2, n, 1);
  put_attribute(&node, "then_branch", 5, 6, 0, &branch[0]);
  put_attribute(&node, "else_branch", 5, 6, 0, &branch[1]);
  end_node(graph, "If", &node);
  return 2 % n;
}

/* As write_joined, without Sum, in .pt2. */
static int write_torch(situ__text *graph, int n) {
  situ__text arg = { 0 }, pieces = { 0 };
  add_list(&pieces, "x", n);
  add_list_node(graph, "aten.cat.default", pieces.data, TENSOR("whole"));
  situ__text_free(&pieces);
  add_list(&pieces, "z", n);
  situ__text_add(&arg, TENSOR("whole") "}, {\"name\": \"split_size\", \"arg\": {\"as_int\": 1}}");
  add_node(graph, "aten.split.Tensor", "self", arg.data, pieces.data);
  write_pt2(graph->data, n, "{\"as_int\": 1}", "z", n);
  situ__text_free(&arg);
  situ__text_free(&pieces);
  situ__text_free(graph);
  return 0;
}

/* The graphs have n inputs x of one element, and give n results z: the x, turned by so many as is returned. */
static const struct graph {
  const char *name;
  int (*write)(situ__text *graph, int n);
  bool torch;
} graphs[] = { { "Concat, Split", write_joined, false },
               { "Loop", write_loop, false },
               { "If", write_branches, false },
               { "cat, split of .pt2", write_torch, true } };
enum { GRAPHS = sizeof graphs / sizeof *graphs };

/* Runs the module, and returns the blocks of that. */
static uint64_t run_module(situ_nn_module *m, const situ_tree *in, const char *name, int n, int turn) {
  const uint64_t before = blocks;
  situ_tree *out = situ_nn_call(m, in);
  const uint64_t count = blocks - before;
  if (!out) fail_msg("%s of %d: %.300s", name, n, situ_error_message());
  for (int i = 0; i < n; i++) {
    double value = -1;
    expect_ok(situ_item(situ_tree_value(n > 1 ? situ_tree_at(out, i) : out), &value));
    if (value != (i + turn) % n) fail_msg("%s of %d: result %d is %g", name, n, i, value);
  }
  situ_tree_free(out);
  return count;
}

/* Loads and runs the graph, and what a trace of it writes. Returns the blocks that are run. */
static uint64_t run_graph(const struct graph *g, int n) {
  situ_scope s;
  situ__text graph = { 0 };
  situ_tree *in = situ_tree_list();
  situ_scope_begin_no_grad(&s);
  for (int i = 0; i < n; i++) in = situ_tree_append(in, situ_tree_tensor(situ_full(SITU_SHAPE(1), (double)i, NULL)));
  if (!g->torch) put_values(&graph, INPUT, "x", 0, n, 1);
  const int turn = g->write(&graph, n);
  if (!g->torch) put_values(&graph, OUTPUT, "z", 0, n, 1);
  if (!g->torch) write_onnx(&graph);
  blocks = 0;
  situ_nn_module *m = load(g->torch ? "lists.pt2" : "lists.onnx"), *traced = situ_export(m, in);
  uint64_t count = blocks + run_module(m, in, g->name, n, turn);
  if (!traced) fail_msg("%s of %d: %.300s", g->name, n, situ_error_message());
  blocks = 0;
  expect_ok(situ_export_save(traced, "traced.pt2"));
  expect_ok(situ_onnx_export(traced, "traced.onnx", NULL));
  situ_nn_module *read[] = { load("traced.pt2"), load("traced.onnx") };
  count += blocks;
  for (int i = 0; i < 2; i++) count += run_module(read[i], in, i ? "traced.onnx" : "traced.pt2", n, turn);
  situ_nn_free(read[0]);
  situ_nn_free(read[1]);
  situ_nn_free(traced);
  situ_nn_free(m);
  situ_tree_free(in);
  expect_ok(situ_scope_end(&s));
  return count;
}

static void graphs_take_and_give_any_number(void **state) {
  (void)state;
  for (int l = 0; l < 2; l++) /* longer ones below */
    for (int k = 0; k < GRAPHS; k++) run_graph(&graphs[k], lengths[l]);
}

/* ---- what it costs ---- */

static bool is_linear(const char *name, uint64_t few, uint64_t many) {
  const double growth = (double)many / (double)few;
  printf("%-28s %10.0f blocks, %.1f times as many in a list %d times as long\n", name, (double)few, growth, TIMES);
  return growth <= MOST;
}

static void a_tensor_costs_as_much_in_a_long_list(void **state) {
  const int short_list = getenv("SITU_TEST_ALL") ? 4 * FEW : FEW, long_list = TIMES * short_list;
  bool good = true;
  (void)state;
  for (int k = 0; k < TAKERS; k++) {
    const struct giver *g = &givers[k % GIVERS];
    const uint64_t few = run_pieces(g, &takers[k], short_list, k < 2),
                   many = run_pieces(g, &takers[k], long_list, k < 2);
    good = is_linear(takers[k].target, few, many) && good;
  }
  for (int k = 0; k < GRAPHS; k++) {
    const uint64_t few = run_graph(&graphs[k], short_list), many = run_graph(&graphs[k], long_list);
    good = is_linear(graphs[k].name, few, many) && good;
  }
  assert_true(good);
}

/* ---- what is refused ---- */

/* Each of some allocations fails in a load and in a run, after which both are as before. */
static void memory_may_run_out(void **state) {
  (void)state;
  enum { LENGTH = 1025 };
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  write_pieces(&givers[0], &takers[1], LENGTH);
  situ_tensor *x = drawn(LENGTH);
  situ_nn_module *m = load("lists.pt2");
  int64_t failed = 0, at = 1;
  for (bool more = true; more; at += 1 + at / 16) {
    situ_scope inner;
    situ_scope_begin(&inner);
    situ_fail_allocation((uint64_t)at, false);
    situ_tensor *y = situ_nn_forward(m, x);
    more = situ_allocation_count() >= (uint64_t)at;
    situ_fail_allocation(0, false);
    const situ_status ended = situ_scope_end(&inner);
    failed += more && ended == SITU_E_NOMEM;
    assert_true(more ? !y || ended == SITU_OK : y != NULL);
    situ_error_clear();
  }
  assert_true(failed > 10);
  expect_equal(situ_nn_forward(m, x), x, "stack", LENGTH);
  situ_nn_free(m);
  expect_ok(situ_scope_end(&s));
}

/* 2^32 bytes of a node in a file of some. */
static void a_list_is_no_longer_than_its_file(void **state) {
  (void)state;
  situ__text graph = { 0 };
  put_values(&graph, INPUT, "x", 0, 2, 1);
  put_varint(&graph, NODE << 3 | 2);
  put_varint(&graph, UINT64_C(1) << 32);
  put_names(&graph, 1, "x", 0, 2);
  write_onnx(&graph);
  assert_null(situ_export_load("lists.onnx", NULL));
  assert_int_equal(situ_error(), SITU_E_FORMAT);
  assert_non_null(strstr(situ_error_message(), "cut off"));
  situ_error_clear();
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(calls_take_and_give_any_number), TEST(graphs_take_and_give_any_number),
                                      TEST(a_tensor_costs_as_much_in_a_long_list), TEST(memory_may_run_out),
                                      TEST(a_list_is_no_longer_than_its_file) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
