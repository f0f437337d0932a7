/* A snapshot as JSON.
   SPDX-License-Identifier: MIT */
#include <inttypes.h>

#include "base/fail.h"
#include "base/handle.h"
#include "place/draw/snapshot.h"

/* JSON must be UTF-8; a module's name may have any bytes. */
static void add_string(situ__text *text, const char *from) {
  situ__text clean = { 0 };
  situ__text_append(&clean, "", 0);
  situ__place_clean(&clean, from);
  if (clean.failed) text->failed = true;
  else situ__text_json_string(text, clean.data);
  situ__text_free(&clean);
}

static void add_member(situ__text *text, const char *name, const char *value) {
  if (!value) return;
  situ__text_add(text, ", \"%s\": ", name);
  add_string(text, value);
}

/* "rank": only where there are several. */
static void add_place(situ__text *text, const situ_snapshot *s, int rank, situ_device device) {
  char name[SITU_DEVICE_NAME_MAX];
  if (s->several) situ__text_add(text, "\"rank\": %d, ", rank);
  situ__text_add(text, "\"device\": \"%s\"", situ_device_name(device, name));
}

static void add_sums(situ__text *text, const situ_snapshot *s, const situ__place_sum *sum, const char *between) {
  bool any = false;
  situ__text_add(text, "[");
  for (int d = 0; d < s->devices; d++) {
    if (!sum[d].tensors) continue;
    situ__text_add(text, "%s{", any ? between : "");
    add_place(text, s, sum[d].rank, sum[d].device);
    situ__text_add(text, ", \"bytes\": %" PRIu64 ", \"tensors\": %" PRId64 "}", sum[d].bytes, sum[d].tensors);
    any = true;
  }
  situ__text_add(text, "]");
}

static void add_tie(situ__text *text, const situ__snapshot_node *node) {
  situ__text_add(text, ", \"tied\": ");
  if (node->entry.tied) add_string(text, node->entry.tied);
  else situ__text_add(text, "null");
  situ__text_add(text, "}");
}

static void add_module(situ__text *text, const situ_snapshot *s, int64_t i) {
  situ__place_sum sum[SITU__PLACES];
  char name[SITU_DEVICE_NAME_MAX];
  int first;
  (void)situ__place_spread(s, i, sum, &first);
  situ__text_add(text, "{\"path\": ");
  add_string(text, s->node[i].entry.path);
  situ__text_add(text, ", \"type\": ");
  add_string(text, s->node[i].entry.type);
  situ__text_add(text, ", \"bytes\": %" PRIu64 ", \"devices\": ", s->node[i].entry.bytes);
  add_sums(text, s, sum, ", ");
  if (s->node[i].entry.device.kind)
    situ__text_add(text, ", \"computes_on\": \"%s\"", situ_device_name(s->node[i].entry.device, name));
  add_tie(text, &s->node[i]);
}

static void add_tensor(situ__text *text, const situ_snapshot *s, const situ__snapshot_node *node) {
  const situ_place_entry *e = &node->entry;
  situ__text_add(text, "{\"path\": ");
  add_string(text, e->path);
  situ__text_add(text, ", \"role\": \"%s\", ", situ__place_role(e->role));
  add_place(text, s, e->rank, e->device);
  situ__text_add(text, ", \"dtype\": ");
  add_string(text, e->type);
  situ__text_add(text, ", \"shape\": ");
  situ__text_dims(text, e->shape.dim, e->shape.ndim);
  if (e->part) situ__text_add(text, ", \"part\": \"%s\"", e->part);
  situ__text_add(text, ", \"bytes\": %" PRIu64, e->bytes);
  add_member(text, "reason", e->reason);
  add_member(text, "by", e->by);
  add_member(text, "at", e->at);
  add_tie(text, node);
}

int64_t situ_snapshot_json(const situ_snapshot *snapshot, char *buffer, size_t size) {
  static const char op[] = "snapshot_json";
  situ__text text = { 0 };
  if (!situ__valid(op, "snapshot", snapshot, SITU__A_SNAPSHOT) || (size && !situ__given(op, "buffer", buffer)))
    return -1;
  situ__text_add(&text, "{\"bytes\": %" PRIu64 ",\n \"devices\": ", snapshot->bytes);
  add_sums(&text, snapshot, snapshot->device, ",\n  ");
  for (int modules = 1; modules >= 0; modules--) {
    bool any = false;
    situ__text_add(&text, ",\n \"%s\": [", modules ? "modules" : "tensors");
    for (int64_t i = 0; i < snapshot->count; i++) {
      if ((snapshot->node[i].device < 0) != modules) continue;
      if (any) situ__text_add(&text, ",\n  ");
      if (modules) add_module(&text, snapshot, i);
      else add_tensor(&text, snapshot, &snapshot->node[i]);
      any = true;
    }
    situ__text_add(&text, "]");
  }
  situ__text_add(&text, "}\n");
  return situ__text_deliver(op, &text, buffer, size);
}

int64_t situ_place_json(situ_nn_module *m, char *buffer, size_t size) {
  situ_snapshot *s = situ_place_snapshot_with(m, &(situ_snapshot_options){ .reasons = true });
  int64_t length = s ? situ_snapshot_json(s, buffer, size) : -1;
  situ_snapshot_free(s);
  return length;
}
