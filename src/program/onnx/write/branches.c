/* Writes branches as If: each is a graph, which reads values of the outer one by their names.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "program/graph/flow.h"
#include "write.h"

enum { NODE_INPUT = 1, NODE_OUTPUT = 2, NODE_TYPE = 4, NODE_ATTRIBUTE = 5 };
enum { GRAPH_NAME = 2, GRAPH_OUTPUT = 12, ATTRIBUTE_GRAPH = 6, ATTRIBUTE_KIND = 20, KIND_GRAPH = 5 };

/* Puts the graph of one branch into the node. Each result is an Identity's: a graph must compute what it gives. */
static void put_branch(situ__onnx_writer *w, situ__protobuf_writer *node, int32_t at, const situ__flow_region *r,
                       int side) {
  static const char *const names[] = { "then_branch", "else_branch" };
  const situ__program *p = w->program;
  situ__protobuf_writer outer = w->nodes, outputs = { 0 }, attribute = { 0 }, graph = { 0 };
  w->nodes = (situ__protobuf_writer){ 0 };
  situ__onnx_write_range(w, side ? r->otherwise + 1 : at + 1, side ? r->joins : r->otherwise);
  for (int32_t i = r->joins; i < r->end && !w->failed; i++) {
    if (!w->needed[i]) continue;
    const int32_t v = (int32_t)p->node[i].arg[1 + side].integer;
    const char *name = situ__onnx_current(w, v);
    if (name && (name = situ__onnx_put1(w, "Identity", name))) situ__onnx_put_value(w, &outputs, GRAPH_OUTPUT, name, v);
  }
  graph = w->nodes;
  w->nodes = outer;
  situ__protobuf_put_text(&graph, GRAPH_NAME, names[side]);
  situ__protobuf_append(&graph, outputs.data, outputs.length);
  situ__protobuf_put_text(&attribute, 1, names[side]);
  situ__protobuf_put_message(&attribute, ATTRIBUTE_GRAPH, &graph);
  situ__protobuf_put_int(&attribute, ATTRIBUTE_KIND, KIND_GRAPH);
  situ__protobuf_put_message(node, NODE_ATTRIBUTE, &attribute);
  w->failed |= graph.failed | outputs.failed | attribute.failed;
  situ__protobuf_free(&graph);
  situ__protobuf_free(&outputs);
  situ__protobuf_free(&attribute);
}

/* Places of elements that a branch has computed are not there after it. */
static bool keep_places(situ__onnx_writer *w, const char ***kept) {
  const size_t values = (size_t)w->program->values + 1;
  *kept = situ__arena_take(&w->arena, values, sizeof **kept);
  if (!*kept) return !(w->failed = true);
  memcpy(*kept, w->place, values * sizeof **kept);
  return true;
}

int32_t situ__onnx_write_if(situ__onnx_writer *w, int32_t at) {
  const situ__program *p = w->program;
  const situ__flow_region r = situ__flow_find(p, at);
  const char *condition = situ__onnx_arg(w, 0), **places;
  situ__protobuf_writer node = { 0 };
  if (!condition || !keep_places(w, &places)) return r.end;
  situ__protobuf_put_text(&node, NODE_INPUT, condition);
  for (int side = 0; side < 2; side++) {
    put_branch(w, &node, at, &r, side);
    memcpy(w->place, places, ((size_t)p->values + 1) * sizeof *places);
  }
  for (int32_t i = r.joins; i < r.end && !w->failed; i++) {
    if (!w->needed[i]) continue;
    const char *name = situ__onnx_new_name(w, "If");
    if (name) situ__protobuf_put_text(&node, NODE_OUTPUT, name);
    situ__onnx_keep_result(w, p->node[i].out[0], name);
  }
  situ__protobuf_put_text(&node, NODE_TYPE, "If");
  situ__protobuf_put_message(&w->nodes, 1, &node);
  w->failed |= w->nodes.failed | node.failed;
  situ__protobuf_free(&node);
  return r.end;
}
