/* Writes branches as If, and loops as Loop or Scan: graphs, which read values of the outer one by their names.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "program/graph/flow.h"
#include "write.h"

enum { NODE_INPUT = 1, NODE_OUTPUT = 2, NODE_TYPE = 4, NODE_ATTRIBUTE = 5 };
enum { GRAPH_NAME = 2, GRAPH_INPUT = 11, GRAPH_OUTPUT = 12 };
enum { ATTRIBUTE_INT = 3, ATTRIBUTE_GRAPH = 6, ATTRIBUTE_KIND = 20, KIND_INT = 2, KIND_GRAPH = 5 };

/* The names of the values' tensors: those of a graph end with it. */
typedef struct kept {
  const char **place, **name;
  int32_t *version;
} kept;

static void copy_names(situ__onnx_writer *w, kept *k, bool back) {
  const size_t values = (size_t)w->program->values + 1;
  memcpy(back ? w->place : k->place, back ? k->place : w->place, values * sizeof *k->place);
  memcpy(back ? w->name : k->name, back ? k->name : w->name, values * sizeof *k->name);
  memcpy(back ? w->version : k->version, back ? k->version : w->version, values * sizeof *k->version);
}

static bool keep_names(situ__onnx_writer *w, kept *k) {
  const size_t values = (size_t)w->program->values + 1;
  k->place = situ__arena_take(&w->arena, values, sizeof *k->place);
  k->name = situ__arena_take(&w->arena, values, sizeof *k->name);
  k->version = situ__arena_take(&w->arena, values, sizeof *k->version);
  if (!k->place || !k->name || !k->version) return !(w->failed = true);
  copy_names(w, k, false);
  return true;
}

/* Puts a graph of nodes into the node. Each result is an Identity's: a graph must compute what it gives. */
static void put_graph(situ__onnx_writer *w, situ__protobuf_writer *node, const char *attribute_name, int32_t first,
                      int32_t end, const situ__protobuf_writer *inputs, const int32_t *gives, int32_t count) {
  situ__protobuf_writer outer = w->nodes, outputs = { 0 }, attribute = { 0 }, graph = { 0 };
  w->nodes = (situ__protobuf_writer){ 0 };
  situ__onnx_write_range(w, first, end);
  for (int32_t i = 0; i < count && !w->failed; i++) {
    const char *name = situ__onnx_current(w, gives[i]);
    if (name && (name = situ__onnx_put1(w, "Identity", name)))
      situ__onnx_put_value(w, &outputs, GRAPH_OUTPUT, name, gives[i]);
  }
  graph = w->nodes;
  w->nodes = outer;
  situ__protobuf_put_text(&graph, GRAPH_NAME, attribute_name);
  if (inputs) situ__protobuf_append(&graph, inputs->data, inputs->length);
  situ__protobuf_append(&graph, outputs.data, outputs.length);
  situ__protobuf_put_text(&attribute, 1, attribute_name);
  situ__protobuf_put_message(&attribute, ATTRIBUTE_GRAPH, &graph);
  situ__protobuf_put_int(&attribute, ATTRIBUTE_KIND, KIND_GRAPH);
  situ__protobuf_put_message(node, NODE_ATTRIBUTE, &attribute);
  w->failed |= graph.failed | outputs.failed | attribute.failed;
  situ__protobuf_free(&graph);
  situ__protobuf_free(&outputs);
  situ__protobuf_free(&attribute);
}

static void put_output(situ__onnx_writer *w, situ__protobuf_writer *node, int32_t v) {
  const char *name = situ__onnx_new_name(w, "result");
  if (name) situ__protobuf_put_text(node, NODE_OUTPUT, name);
  situ__onnx_keep_result(w, v, name);
}

static void end_node(situ__onnx_writer *w, situ__protobuf_writer *node, const char *type) {
  situ__protobuf_put_text(node, NODE_TYPE, type);
  situ__protobuf_put_message(&w->nodes, 1, node);
  w->failed |= w->nodes.failed | node->failed;
  situ__protobuf_free(node);
}

int32_t situ__onnx_write_if(situ__onnx_writer *w, int32_t at) {
  static const char *const names[] = { "then_branch", "else_branch" };
  const situ__program *p = w->program;
  const situ__flow_region r = situ__flow_find(p, at);
  const char *condition = situ__onnx_arg(w, 0);
  int32_t *gives = situ__arena_take(&w->arena, (size_t)(r.end - r.joins) + 1, sizeof *gives);
  situ__protobuf_writer node = { 0 };
  kept before;
  if (!gives) w->failed = true;
  if (!gives || !condition || !keep_names(w, &before)) return r.end;
  situ__protobuf_put_text(&node, NODE_INPUT, condition);
  for (int side = 0; side < 2; side++) {
    int32_t count = 0;
    for (int32_t i = r.joins; i < r.end; i++)
      if (w->needed[i]) gives[count++] = (int32_t)p->node[i].arg[1 + side].integer;
    put_graph(w, &node, names[side], side ? r.otherwise + 1 : at + 1, side ? r.joins : r.otherwise, NULL, gives, count);
    copy_names(w, &before, true);
  }
  for (int32_t i = r.joins; i < r.end && !w->failed; i++)
    if (w->needed[i]) put_output(w, &node, p->node[i].out[0]);
  end_node(w, &node, "If");
  return r.end;
}

/* ---- loops ---- */

/* An input of the body, whose value has the name from now on. */
static void put_input(situ__onnx_writer *w, situ__protobuf_writer *inputs, int32_t v, const char *stem) {
  const char *name = situ__onnx_new_name(w, stem);
  if (!name) return;
  situ__onnx_put_value(w, inputs, GRAPH_INPUT, name, v);
  situ__onnx_keep_result(w, v, name);
}

static void put_int(situ__onnx_writer *w, situ__protobuf_writer *node, const char *name, int64_t value) {
  situ__protobuf_writer attribute = { 0 };
  situ__protobuf_put_text(&attribute, 1, name);
  situ__protobuf_put_int(&attribute, ATTRIBUTE_INT, value);
  situ__protobuf_put_int(&attribute, ATTRIBUTE_KIND, KIND_INT);
  situ__protobuf_put_message(node, NODE_ATTRIBUTE, &attribute);
  w->failed |= attribute.failed;
  situ__protobuf_free(&attribute);
}

static void put_node_input(situ__onnx_writer *w, situ__protobuf_writer *node, const situ__arg *a) {
  const char *name = situ__onnx_current(w, (int32_t)a->integer);
  if (name) situ__protobuf_put_text(node, NODE_INPUT, name);
}

int32_t situ__onnx_write_loop(situ__onnx_writer *w, int32_t at) {
  const situ__program *p = w->program;
  const int32_t end = situ__flow_end(p, at), *own = p->node[at].out;
  const situ__arg *begin = p->node[at].arg, *next = p->node[end].arg, *cond = &begin[SITU__LOOP_COND];
  const situ__arg *carried = &next[SITU__LOOP_CARRIED], *scanned = &next[SITU__LOOP_SCANNED];
  const bool scans = cond->kind == SITU__ARG_NONE;
  int32_t elements = 0, count = 0;
  int32_t *gives = situ__arena_take(&w->arena, (size_t)carried->count + (size_t)scanned->count + 1, sizeof *gives);
  situ__protobuf_writer node = { 0 }, inputs = { 0 };
  kept before;
  if (!gives) w->failed = true;
  if (!gives || !keep_names(w, &before)) return end + 1;
  if (!scans) {
    situ__protobuf_put_text(&node, NODE_INPUT, ""); /* no trip count */
    put_node_input(w, &node, cond);
    put_input(w, &inputs, p->values, "iteration");
    put_input(w, &inputs, p->values + 1, "condition");
    gives[count++] = (int32_t)next[SITU__LOOP_COND].integer;
  }
  for (int32_t i = 0; i < carried->count; i++) {
    put_node_input(w, &node, &begin[SITU__LOOP_CARRIED].list[i]);
    gives[count++] = (int32_t)carried->list[i].integer;
  }
  for (int32_t i = 0; i < scanned->count; i++) gives[count++] = (int32_t)scanned->list[i].integer;
  for (; p->node[at + 1 + elements].row == &situ__scan_element; elements++)
    put_node_input(w, &node, &p->node[at + 1 + elements].arg[0]);
  for (int32_t i = 0; i < carried->count; i++) put_input(w, &inputs, own[i + 2], "carried");
  for (int32_t i = 0; i < elements; i++) put_input(w, &inputs, p->node[at + 1 + i].out[0], "element");
  put_graph(w, &node, "body", at + 1 + elements, end, &inputs, gives, count);
  copy_names(w, &before, true);
  if (scans) put_int(w, &node, "num_scan_inputs", elements);
  for (int32_t i = 0; i < carried->count && !w->failed; i++) put_output(w, &node, own[i + 2]);
  for (int32_t i = 0; i < scanned->count && !w->failed; i++)
    put_output(w, &node, (int32_t)begin[SITU__LOOP_LISTS].list[i].integer);
  end_node(w, &node, scans ? "Scan" : "Loop");
  w->failed |= inputs.failed;
  situ__protobuf_free(&inputs);
  return end + 1;
}
