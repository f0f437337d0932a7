/* A snapshot as a graph in the language of Graphviz.
   SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <string.h>

#include "base/fail.h"
#include "base/handle.h"
#include "place/draw/picture.h"

static void add_string(situ__text *text, const char *from) {
  situ__text clean = { 0 };
  situ__place_clean(&clean, from);
  text->failed |= clean.failed;
  for (const char *c = clean.data ? clean.data : ""; *c; c++)
    situ__text_add(text, *c == '"' || *c == '\\' ? "\\%c" : "%c", *c);
  situ__text_free(&clean);
}

static void add_node(situ__text *text, const situ_snapshot *s, int64_t i) {
  const situ__snapshot_node *node = &s->node[i];
  const situ_place_entry *e = &node->entry;
  char bytes[SITU__BYTES_TEXT], place[SITU__PLACE_NAME];
  situ__text_add(text, "  n%" PRId64 " [label=\"", i);
  add_string(text, *node->name ? node->name : e->type);
  situ__text_add(text, "\\n%s ", situ__place_role(e->role));
  add_string(text, e->type);
  situ__text_add(text, "\\n%s", situ__bytes_text(e->bytes, bytes));
  if (node->device < 0) {
    situ__text_add(text, "\"];\n");
  } else {
    const situ__place_sum *at = &s->device[node->device];
    situ__text_add(text, " on %s\", style=filled, fillcolor=\"%s\"];\n",
                   situ__place_name(s, at->rank, at->device, place), situ__colour(situ__hue(s, node->device)));
  }
  if (node->parent >= 0) situ__text_add(text, "  n%" PRId64 " -> n%" PRId64 ";\n", node->parent, i);
  if (node->tie >= 0) situ__text_add(text, "  n%" PRId64 " -> n%" PRId64 " [dir=none, style=dotted];\n", i, node->tie);
}

/* The entry of an end of a copy: the root has its type for a path. -1: outside of the module. */
static int64_t find(const situ_snapshot *s, const char *path) {
  for (int64_t i = 0; path && *path && i < s->count; i++)
    if (strcmp(i ? s->node[i].entry.path : s->node[i].entry.type, path) == 0) return i;
  return -1;
}

static void add_end(situ__text *text, int64_t i, const char *outside) {
  if (i < 0) situ__text_add(text, "%s", outside);
  else situ__text_add(text, "n%" PRId64, i);
}

static void add_edge(situ__text *text, const situ_snapshot *s, const situ_place_edge *e) {
  char bytes[SITU__BYTES_TEXT];
  situ__text_add(text, "  ");
  add_end(text, find(s, e->from), "inputs");
  situ__text_add(text, " -> ");
  add_end(text, find(s, e->to), "results");
  situ__text_add(text, " [style=dashed, constraint=false, label=\"%s\"];\n", situ__bytes_text(e->bytes, bytes));
}

int64_t situ_snapshot_dot(const situ_snapshot *snapshot, const situ_place_edge *edges, int64_t count, char *buffer,
                          size_t size) {
  static const char op[] = "snapshot_dot";
  situ__text text = { 0 };
  if (!situ__valid(op, "snapshot", snapshot, SITU__A_SNAPSHOT) || (size && !situ__given(op, "buffer", buffer)) ||
      (count > 0 && !situ__given(op, "edges", edges)))
    return -1;
  situ__text_add(&text, "digraph placement {\n  node [shape=box, fontname=\"sans-serif\"];\n");
  for (int64_t i = 0; i < snapshot->count; i++) add_node(&text, snapshot, i);
  for (int64_t i = 0; i < count; i++) add_edge(&text, snapshot, &edges[i]);
  situ__text_add(&text, "}\n");
  return situ__text_deliver(op, &text, buffer, size);
}
