/* A plan as a device map, with as few patterns as possible.
   SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "plan.h"

/* Collects patterns: first counts them, then writes those that the last one, `*`, does not cover. */
typedef struct mapping {
  const plan *p;
  int64_t count[PLAN_DEVICES];
  int rest; /* the device of `*`; -1: counting */
  char *text;
  size_t length;
  bool failed;
} mapping;

static void add(mapping *m, const char *text, size_t length) {
  char *grown = realloc(m->text, m->length + length + 1);
  if (!grown) {
    m->failed = true;
    return;
  }
  memcpy(grown + m->length, text, length);
  m->text = grown;
  m->length += length;
  m->text[m->length] = 0;
}

static void add_pattern(mapping *m, const plan_range *part, int device) {
  if (m->rest < 0) m->count[device]++;
  if (m->rest < 0 || m->rest == device) return;
  const char *path = m->p->item[part->first].path, *name = m->p->device[device].name;
  for (size_t i = 0; i < part->prefix; i++) {
    /* A pattern cannot contain the separators. */
    bool apart = strchr(",= \t\n", path[i]) != NULL;
    add(m, apart ? "*" : path + i, 1);
  }
  add(m, "=", 1);
  add(m, name, strlen(name));
  add(m, ", ", 2);
}

static int device_of(const plan *p, int64_t item) { return p->block[p->item[item].block].device; }

/* One pattern for a part on one device, else those of its parts. A block is on one device, so the recursion ends at
   blocks. */
static void walk(mapping *m, const plan_range *module) {
  for (int64_t i = module->first; i < module->end;) {
    plan_range part = plan_part_at(m->p, module, i);
    bool one = true;
    for (int64_t k = part.first; k < part.end; k++) one = one && device_of(m->p, k) == device_of(m->p, i);
    if (one) add_pattern(m, &part, device_of(m->p, i));
    else walk(m, &part);
    i = part.end;
  }
}

char *plan_map(const plan *p) {
  mapping m = { .p = p, .rest = -1 };
  const plan_range all = { 0, p->items, 0, 0 };
  walk(&m, &all);
  m.rest = 0;
  for (int d = 1; d < p->devices; d++)
    if (m.count[d] > m.count[m.rest]) m.rest = d;
  walk(&m, &all);
  add(&m, "*=", 2);
  add(&m, p->device[m.rest].name, strlen(p->device[m.rest].name));
  if (!m.failed) return m.text;
  free(m.text);
  return NULL;
}
