/* The order of the model, and its blocks, which are not split. A file has its tensors in any order, without modules:
   both are derived from the names. SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "plan.h"

/* Length of the part of a path at `at`, up to a dot or the end. */
static size_t part_length(const char *at) { return strcspn(at, "."); }

static bool is_number(const char *at) {
  size_t length = part_length(at);
  return length > 0 && strspn(at, "0123456789") == length;
}

/* ---- order ----------------------------------------------------------------------------------- */

static bool begins(const char *at, size_t length, const char *word) {
  size_t n = strlen(word);
  return length >= n && memcmp(at, word, n) == 0;
}

static bool contains(const char *at, size_t length, const char *word) {
  for (size_t i = 0; i < length; i++)
    if (begins(at + i, length - i, word)) return true;
  return false;
}

/* Position in a model of parts with such names, as far as names show it: 0 at its beginning, 4 at its end. */
static int rank(const char *at) {
  static const char *const first[] = { "wte", "wpe", "tok", "stem", "patch", "pos" };
  static const char *const last[] = { "head", "classif", "final", "logit", "score", "ln_f" };
  size_t length = part_length(at);
  if (contains(at, length, "embed")) return 0;
  for (size_t i = 0; i < sizeof first / sizeof *first; i++)
    if (begins(at, length, first[i])) return 0;
  for (size_t i = 0; i < sizeof last / sizeof *last; i++)
    if (contains(at, length, last[i])) return 4;
  if (begins(at, length, "norm") || (length == 2 && begins(at, length, "fc"))) return 3;
  return begins(at, length, "decoder") ? 2 : 1;
}

static int by_text(const char *a, size_t m, const char *b, size_t n) {
  int order = memcmp(a, b, m < n ? m : n);
  return order ? order : (m > n) - (m < n);
}

/* Compares two parts of one module. Its own tensors come before its children; numbers are compared as numbers. */
static int by_part(const char *a, const char *b) {
  size_t m = part_length(a), n = part_length(b);
  if (!a[m] != !b[n]) return a[m] ? 1 : -1;
  if (is_number(a) && is_number(b)) {
    const char *x = a + strspn(a, "0"), *y = b + strspn(b, "0");
    size_t p = part_length(x), q = part_length(y);
    int order = p != q ? (p > q) - (p < q) : by_text(x, p, y, q);
    if (order) return order;
  }
  int r = rank(a) - rank(b);
  return r ? r : by_text(a, m, b, n);
}

static int by_model(const void *left, const void *right) {
  const char *a = ((const plan_item *)left)->path, *b = ((const plan_item *)right)->path;
  for (;;) {
    size_t m = part_length(a), n = part_length(b);
    if (m != n || memcmp(a, b, m) != 0) return by_part(a, b);
    if (!a[m] || !b[n]) return (a[m] != 0) - (b[n] != 0);
    a += m + 1;
    b += n + 1;
  }
}

/* ---- blocks ---------------------------------------------------------------------------------- */

enum { DEEPEST = 64 }; /* nesting of modules; deeper ones are not split */

plan_range plan_part_at(const plan *p, const plan_range *module, int64_t first) {
  const char *path = p->item[first].path;
  size_t prefix = module->parts + part_length(path + module->parts);
  plan_range part = { first, first + 1, prefix, prefix + 1 };
  if (!path[prefix]) return part; /* a tensor */
  while (part.end < module->end && strncmp(p->item[part.end].path, path, part.parts) == 0) part.end++;
  return part;
}

bool plan_is_module(const plan *p, const plan_range *part) { return p->item[part->first].path[part->prefix] != 0; }

/* Whether two modules have at least half of their tensor names in common. */
static bool alike(const plan *p, const plan_range *x, const plan_range *y) {
  int64_t a = x->first, b = y->first, shared = 0;
  int64_t larger = x->end - a > y->end - b ? x->end - a : y->end - b;
  while (a < x->end && b < y->end) {
    const plan_item left = { .path = p->item[a].path + x->parts }, right = { .path = p->item[b].path + y->parts };
    int order = by_model(&left, &right);
    shared += order == 0;
    a += order <= 0;
    b += order >= 0;
  }
  return 2 * shared >= larger;
}

static bool numbers_inside(const plan *p, const plan_range *part) {
  for (int64_t i = part->first; i < part->end; i++)
    for (const char *at = p->item[i].path + part->prefix; *at; at += part_length(at))
      if (is_number(++at)) return true;
  return false;
}

/* Whether a part of a module is one of several numbered blocks (layers.0, layers.1, ...). A single one counts if there
   is no other such list in it. */
static bool in_row(const plan *p, const plan_range *module, const plan_range *before, const plan_range *part) {
  size_t at = module->parts;
  if (!plan_is_module(p, part) || !is_number(p->item[part->first].path + at)) return false;
  bool alone = true;
  for (int side = 0; side < 2; side++) {
    if (side ? part->end >= module->end : !before) continue;
    plan_range other = side ? plan_part_at(p, module, part->end) : *before;
    if (!plan_is_module(p, &other) || !is_number(p->item[other.first].path + at)) continue;
    if (alike(p, part, &other)) return true;
    alone = false;
  }
  return alone && !numbers_inside(p, part);
}

static void add_block(plan *p, int64_t first, int64_t end, size_t prefix) {
  plan_block *b = &p->block[p->blocks];
  *b = (plan_block){ .first = first, .count = end - first, .lead = p->blocks, .prefix = prefix };
  for (int64_t i = first; i < end; i++) {
    p->item[i].block = p->blocks;
    if (!p->item[i].alias) b->bytes += (uint64_t)p->item[i].entry->bytes;
  }
  p->blocks++;
}

/* A module's own tensors come first and form a block; those of the root need not. */
static void divide(plan *p, const plan_range *module, int depth) {
  plan_range before = { 0 };
  int64_t i = module->first;
  while (depth && i < module->end && !strchr(p->item[i].path + module->parts, '.')) i++;
  if (i > module->first) add_block(p, module->first, i, module->prefix);
  while (i < module->end) {
    plan_range part = plan_part_at(p, module, i);
    bool whole = !plan_is_module(p, &part) || depth == DEEPEST || in_row(p, module, before.end ? &before : NULL, &part);
    if (whole) add_block(p, part.first, part.end, part.prefix);
    else divide(p, &part, depth + 1);
    before = part;
    i = part.end;
  }
}

/* ---- ties ------------------------------------------------------------------------------------ */

static int64_t lead_of(const plan *p, int64_t block) {
  while (p->block[block].lead != block) block = p->block[block].lead;
  return block;
}

static int by_entry(const void *left, const void *right) {
  const plan_item *a = *(const plan_item *const *)left, *b = *(const plan_item *const *)right;
  return a->entry != b->entry ? (a->entry > b->entry) - (a->entry < b->entry) : (a > b) - (a < b);
}

/* Blocks with a common tensor are placed together. */
static bool join_ties(plan *p) {
  const plan_item **order = calloc((size_t)p->items + 1, sizeof *order);
  if (!order) return false;
  for (int64_t i = 0; i < p->items; i++) order[i] = &p->item[i];
  qsort(order, (size_t)p->items, sizeof *order, by_entry);
  for (int64_t i = 0, first = 0; i < p->items; i++) {
    if (order[i]->entry != order[first]->entry) first = i;
    p->item[order[i] - p->item].tied = first == i ? -1 : order[first] - p->item;
    int64_t a = lead_of(p, order[first]->block), b = lead_of(p, order[i]->block);
    if (a == b) continue;
    int64_t lead = a < b ? a : b, other = a < b ? b : a;
    p->block[other].lead = lead;
    p->block[lead].bytes += p->block[other].bytes;
  }
  for (int64_t b = 0; b < p->blocks; b++) p->block[b].lead = lead_of(p, b);
  free(order);
  return true;
}

bool plan_divide(plan *p) {
  qsort(p->item, (size_t)p->items, sizeof *p->item, by_model);
  p->block = calloc((size_t)p->items + 1, sizeof *p->block);
  if (!p->block) return false;
  const plan_range all = { 0, p->items, 0, 0 };
  divide(p, &all, 0);
  return join_ties(p);
}
