/* A profile as a trace in Chrome's format ("Trace Event Format", Google).
   SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <string.h>

#include "base/fail.h"
#include "base/replace.h"
#include "device/device.h"
#include "device/profile/profile.h"

/* The number of a track: modules have the first, then come devices. */
enum { MODULES = 0 };
static int track_of(situ_device device) { return 1 + (int)device.kind * SITU__DEVICES_MAX + (int)device.index; }

static double micro(double seconds) { return 1e6 * seconds; }

static void add_name(situ__text *text, int track, const char *name) {
  situ__text_add(text,
                 "{\"ph\": \"M\", \"name\": \"thread_name\", \"pid\": 1, \"tid\": %d, \"args\": {\"name\": ", track);
  situ__text_json_string(text, name);
  situ__text_add(text, "}},\n");
}

/* A slice, without its end: "args" and "}" follow. */
static void add_slice(situ__text *text, const char *name, const char *category, int track, double begin, double end) {
  situ__text_add(text, "{\"ph\": \"X\", \"name\": ");
  situ__text_json_string(text, name);
  situ__text_add(text, ", \"cat\": ");
  situ__text_json_string(text, category);
  situ__text_add(text, ", \"pid\": 1, \"tid\": %d, \"ts\": %.3f, \"dur\": %.3f", track, micro(begin),
                 micro(end - begin));
}

static void add_event(situ__text *text, const situ__event *e) {
  char name[SITU_DEVICE_NAME_MAX];
  add_slice(text, situ__profile_text(e->name), situ__event_verb(e), track_of(e->device), e->begin, e->end);
  situ__text_add(text, ", \"args\": {\"module\": ");
  situ__text_json_string(text, situ__profile_text(e->module));
  if (e->algorithm) situ__text_add(text, ", \"algorithm\": \"%s\"", e->algorithm);
  if (e->verb == SITU__EVENT_TRANSFER) situ__text_add(text, ", \"from\": \"%s\"", situ_device_name(e->from, name));
  situ__text_add(text, ", \"bytes\": %" PRIu64 ", \"operations\": %.0f}},\n", e->bytes, e->operations);
}

/* A counter, which viewers draw as an area. */
static void add_memory(situ__text *text, const situ__event *e) {
  char name[SITU_DEVICE_NAME_MAX];
  situ__text_add(text,
                 "{\"ph\": \"C\", \"name\": \"memory of %s\", \"pid\": 1, \"ts\": %.3f, \"args\": {\"bytes\": %" PRIu64
                 "}},\n",
                 situ_device_name(e->device, name), micro(e->end), e->used);
}

/* ---- modules: events in a row that have the beginning of a path in common are inside one slice ---- */

enum { DEPTH = 64 };
typedef struct open_modules {
  char path[256];
  int depth;
  size_t length[DEPTH]; /* of the path up to each part */
  double begin[DEPTH], last;
} open_modules;

static void close_to(situ__text *text, open_modules *m, int depth) {
  while (m->depth > depth) {
    m->path[m->length[--m->depth]] = 0;
    add_slice(text, m->path, "module", MODULES, m->begin[m->depth], m->last);
    situ__text_add(text, "},\n");
  }
}

static void open_path(situ__text *text, open_modules *m, const char *path, double begin) {
  int common = 0;
  while (common < m->depth && strncmp(m->path, path, m->length[common]) == 0 &&
         (path[m->length[common]] == '.' || !path[m->length[common]]))
    common++;
  close_to(text, m, common);
  size_t at = common ? m->length[common - 1] : 0;
  while (path[at] && m->depth < DEPTH) {
    at += path[at] == '.';
    at += strcspn(path + at, ".");
    if (at >= sizeof m->path) break;
    m->length[m->depth] = at;
    m->begin[m->depth++] = begin;
    memcpy(m->path, path, at);
  }
}

static void add_modules(situ__text *text, const situ_profile *p) {
  open_modules m = { .depth = 0 };
  for (int64_t i = 0; i < p->count; i++) {
    open_path(text, &m, situ__profile_text(p->event[i].module), p->event[i].begin);
    m.last = p->event[i].end;
  }
  close_to(text, &m, 0);
}

static void add_devices(situ__text *text, const situ_profile *p) {
  bool seen[SITU_DEVICE_KINDS][SITU__DEVICES_MAX] = { { false } };
  char name[SITU_DEVICE_NAME_MAX];
  for (int64_t i = 0; i < p->count; i++) {
    const situ_device device = p->event[i].device;
    if (!seen[device.kind][device.index]) add_name(text, track_of(device), situ_device_name(device, name));
    seen[device.kind][device.index] = true;
  }
}

static void add_trace(situ__text *text, const situ_profile *p) {
  situ__text_add(text, "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n");
  add_name(text, MODULES, "modules");
  add_devices(text, p);
  add_modules(text, p);
  for (int64_t i = 0; i < p->count; i++) {
    add_event(text, &p->event[i]);
    add_memory(text, &p->event[i]);
  }
  /* Ends the list, which has commas behind its elements. */
  situ__text_add(text, "{\"ph\": \"M\", \"name\": \"process_name\", \"pid\": 1, \"args\": {\"name\": \"situ\"}}\n]}\n");
}

int64_t situ_profile_json(const situ_profile *profile, char *buffer, size_t size) {
  const char *op = "profile_json";
  if (!situ__profile_given(op, profile)) return -1;
  if (size && !buffer) return situ__null(op, "buffer"), -1;
  situ__text text = { 0 };
  add_trace(&text, profile);
  return situ__text_deliver(op, &text, buffer, size);
}

situ_status situ_profile_export_chrome_trace(const situ_profile *profile, const char *path) {
  const char *op = "profile_export_chrome_trace";
  if (!situ__profile_given(op, profile)) return situ_error();
  if (!path) return situ__null(op, "path");
  situ__text text = { 0 };
  add_trace(&text, profile);
  const situ_status status = situ__replace_by_text(op, path, &text);
  situ__text_free(&text);
  return status;
}
