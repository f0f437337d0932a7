/* Prints the module tree with its devices and bytes, for a terminal.
   SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/handle.h"
#include "place/draw/snapshot.h"

/* Columns: a first pass, which writes nothing, measures the widest cell of each. */
enum { LABEL, BYTES, DEVICE, DTYPE, SHAPE, ROLE, COLUMNS };

typedef struct drawing {
  const situ_snapshot *s;
  situ_place_print_options options;
  situ__text *text;
  bool measuring;
  int width[COLUMNS];
  char guide[5 * SITU__PLACE_DEPTH + 16]; /* prefix of the current module's lines */
} drawing;

/* Longer labels shift the rest of their own line only. */
enum { LABEL_MOST = 64 };

/* ---- colours --------------------------------------------------------------------------------- */

/* cpu is first in every list, so it has the same colour in every tree. */
static const char *hue(int device) {
  static const char *const hues[] = { "32", "36", "35", "33", "34", "31" };
  return hues[device % (int)(sizeof hues / sizeof *hues)];
}

static void paint(drawing *d, const char *code) {
  if (d->options.colour && !d->measuring) situ__text_add(d->text, "\033[%sm", code);
}

/* ---- cells ----------------------------------------------------------------------------------- */

static int columns_of(const char *text) {
  int columns = 0;
  for (size_t length; *text; text += length, columns++) (void)situ__place_char(text, &length);
  return columns;
}

/* One cell, padded to its column's width and coloured. */
static void cell(drawing *d, int column, const char *text, const char *code, bool right) {
  int columns = columns_of(text);
  if (d->measuring) {
    if (columns > d->width[column] && (column != LABEL || columns <= LABEL_MOST)) d->width[column] = columns;
    return;
  }
  int gap = d->width[column] > columns ? d->width[column] - columns : 0;
  if (right) situ__text_add(d->text, "%*s", gap, "");
  if (code && *text) paint(d, code);
  situ__text_add(d->text, "%s", text);
  if (code && *text) paint(d, "0");
  if (!right && column != ROLE) situ__text_add(d->text, "%*s", gap, "");
  if (column != ROLE) situ__text_add(d->text, "  ");
}

/* Ends a line without trailing blanks. */
static void end_line(drawing *d) {
  if (d->measuring) return;
  while (d->text->length && d->text->data[d->text->length - 1] == ' ') d->text->length--;
  situ__text_append(d->text, "\n", 1);
}

/* ---- runs of equal blocks -------------------------------------------------------------------- */

static bool same_text(const char *a, const char *b) { return a == b || strcmp(a, b) == 0; }

/* True if two modules have equal parts in the same places. Their own names may differ. */
static bool alike(const situ_snapshot *s, int64_t a, int64_t b) {
  const situ__snapshot_node *x = &s->node[a], *y = &s->node[b];
  if (x->end - a != y->end - b || x->tie >= 0) return false;
  for (int64_t k = 0; a + k < s->node[a].end; k++) {
    x = &s->node[a + k];
    y = &s->node[b + k];
    /* Ties within the two modules have equal distances; ties to other modules have the same target. */
    bool tied_alike = x->tie == y->tie || (x->tie >= a && x->tie - a == y->tie - b);
    if (x->depth != y->depth || x->entry.role != y->entry.role || x->device != y->device ||
        !same_text(x->entry.type, y->entry.type) || (k && !same_text(x->name, y->name)) ||
        !situ_device_equal(x->entry.device, y->entry.device) || !situ_shape_equal(&x->entry.shape, &y->entry.shape) ||
        !same_text(x->entry.part ? x->entry.part : "", y->entry.part ? y->entry.part : "") ||
        !same_text(x->entry.reason ? x->entry.reason : "", y->entry.reason ? y->entry.reason : "") ||
        x->entry.bytes != y->entry.bytes || !tied_alike)
      return false;
  }
  return true;
}

static bool is_number(const char *name) { return *name && name[strspn(name, "0123456789")] == 0; }

/* The end of the run of equal numbered blocks that begins with entry i; *last: the last of them, *count: their
   number. */
static int64_t row_end(const situ_snapshot *s, int64_t i, int64_t *last, int64_t *count) {
  int64_t end = s->node[i].end, stop = s->node[s->node[i].parent].end;
  if (s->node[i].device >= 0 || !is_number(s->node[i].name)) return end;
  while (end < stop && is_number(s->node[end].name) && alike(s, i, end)) {
    *last = end;
    end = s->node[end].end;
    ++*count;
  }
  return end;
}

/* ---- cells of a line ------------------------------------------------------------------------- */

static void tensor_cells(drawing *d, const situ__snapshot_node *node) {
  const situ_place_entry *e = &node->entry;
  char bytes[SITU__BYTES_TEXT], device[SITU__PLACE_NAME], shape[SITU__PLACE_SHAPE];
  cell(d, BYTES, e->tied ? "-" : situ__bytes_text(e->bytes, bytes), NULL, true);
  cell(d, DEVICE, situ__place_name(d->s, e->rank, e->device, device), hue(node->device), false);
  cell(d, DTYPE, e->type, NULL, false);
  cell(d, SHAPE, situ__place_shape(e, shape), NULL, false);
  cell(d, ROLE, situ__place_role(e->role), NULL, false);
}

/* A module's sum and device: "cpu", or "mixed (cpu 2.0 KiB, sim:0 4.0 KiB)". */
static void module_cells(drawing *d, int64_t i, int64_t count) {
  situ__place_sum sum[SITU__PLACES];
  int first = 0, devices = situ__place_spread(d->s, i, sum, &first);
  uint64_t each = d->s->node[i].entry.bytes;
  char bytes[SITU__BYTES_TEXT], name[SITU__PLACE_NAME];
  if (!devices) return;
  cell(d, BYTES, d->s->node[i].tie >= 0 ? "-" : situ__bytes_text(each * (uint64_t)count, bytes), NULL, true);
  if (devices == 1)
    cell(d, DEVICE, situ__place_name(d->s, sum[first].rank, sum[first].device, name), hue(first), false);
  if (d->measuring) return;
  for (int k = 0, shown = 0; k < d->s->devices && devices > 1; k++) {
    if (!sum[k].tensors) continue;
    situ__text_add(d->text, "%s", shown++ ? situ__place_between(d->s) : "mixed (");
    paint(d, hue(k));
    situ__text_add(d->text, "%s", situ__place_name(d->s, sum[k].rank, sum[k].device, name));
    paint(d, "0");
    situ__text_add(d->text, " %s%s", situ__bytes_text(sum[k].bytes * (uint64_t)count, bytes),
                   shown == devices ? ")  " : "");
  }
  if (count > 1) situ__text_add(d->text, "each %s", situ__bytes_text(each, bytes));
}

/* Of a module whose parent computes where its own tensors are, or elsewhere. */
static void offload_cell(drawing *d, const situ__snapshot_node *node) {
  const situ_device on = node->device < 0 ? node->entry.device : (situ_device){ 0 };
  char name[SITU_DEVICE_NAME_MAX];
  const bool inherited = node->parent >= 0 && situ_device_equal(d->s->node[node->parent].entry.device, on);
  if (!d->measuring && on.kind && !inherited)
    situ__text_add(d->text, "offloaded: computes on %s  ", situ_device_name(on, name));
}

/* The tensor that it is tied to, in the last column. */
static void tie_cell(drawing *d, const situ__snapshot_node *node) {
  if (d->measuring || !node->entry.tied) return;
  situ__text_add(d->text, node->device >= 0 ? "  = " : "= ");
  situ__place_clean(d->text, node->entry.tied);
}

static void reason_cell(drawing *d, const situ__snapshot_node *node) {
  if (!d->measuring && d->options.reasons) situ__place_why(d->text, "  ", &node->entry, "");
}

/* "0 .. 11: 12 x Block", "fc1: Linear", "weight" */
static void label(drawing *d, int64_t i, int64_t last, int64_t count, const char *branch) {
  const situ__snapshot_node *node = &d->s->node[i];
  situ__text text = { 0 };
  situ__text_add(&text, "%s%s", d->guide, branch);
  situ__place_clean(&text, node->name);
  if (count > 1) {
    situ__text_add(&text, " .. ");
    situ__place_clean(&text, d->s->node[last].name);
    situ__text_add(&text, ": %" PRId64 " x ", count);
  } else if (*node->name && node->device < 0 && *node->entry.type) {
    situ__text_add(&text, ": ");
  }
  if (node->device < 0) situ__place_clean(&text, node->entry.type);
  if (count > 1 && !*node->entry.type) situ__text_add(&text, "block");
  if (text.failed) d->text->failed = true;
  else cell(d, LABEL, text.data, node->device < 0 ? "1" : NULL, false);
  situ__text_free(&text);
}

/* ---- the tree -------------------------------------------------------------------------------- */

/* Shows the entry, or a run of `count` equal ones up to `last`, and its parts. `branch` precedes its line, `beyond`
   those of its parts. */
static void show(drawing *d, int64_t i, int64_t last, int64_t count, const char *branch, const char *beyond) {
  const situ_snapshot *s = d->s;
  const situ__snapshot_node *node = &s->node[i];
  label(d, i, last, count, branch);
  if (node->device >= 0) tensor_cells(d, node);
  else module_cells(d, i, count);
  offload_cell(d, node);
  tie_cell(d, node);
  reason_cell(d, node);
  end_line(d);
  if (node->tie >= 0 || (d->options.depth > 0 && node->depth >= d->options.depth)) return;

  size_t length = strlen(d->guide);
  (void)snprintf(d->guide + length, sizeof d->guide - length, "%s", beyond);
  bool ascii = d->options.ascii;
  for (int64_t k = i + 1; k < node->end;) {
    int64_t row = 1, at = k, end = s->node[k].end;
    if (!d->options.expand) end = row_end(s, k, &at, &row);
    if (end < node->end) show(d, k, at, row, ascii ? "|- " : "├─ ", ascii ? "|  " : "│  ");
    else show(d, k, at, row, ascii ? "`- " : "└─ ", "   ");
    k = end;
  }
  d->guide[length] = 0;
}

/* "sim:0  40.0 MiB   46 %  #########" */
static void totals(drawing *d) {
  const situ_snapshot *s = d->s;
  char bytes[SITU__BYTES_TEXT], name[SITU__PLACE_NAME];
  situ__text_add(d->text, "\ntotal %10s in %" PRId64 " tensor%s on %d device%s\n", situ__bytes_text(s->bytes, bytes),
                 s->tensors, s->tensors == 1 ? "" : "s", s->devices, s->devices == 1 ? "" : "s");
  for (int k = 0; k < s->devices; k++) {
    double share = s->bytes ? (double)s->device[k].bytes / (double)s->bytes : 0;
    paint(d, hue(k));
    situ__text_add(d->text, s->several ? "%-16s" : "%-9s",
                   situ__place_name(s, s->device[k].rank, s->device[k].device, name));
    paint(d, "0");
    situ__text_add(d->text, " %10s %5.1f %%  ", situ__bytes_text(s->device[k].bytes, bytes), 100 * share);
    paint(d, hue(k));
    for (int bar = 0; bar < 40 * share; bar++) situ__text_add(d->text, d->options.ascii ? "#" : "█");
    paint(d, "0");
    end_line(d);
  }
}

static bool draw(const situ_snapshot *s, const situ_place_print_options *options, situ__text *text) {
  drawing *d = situ__calloc(1, sizeof *d);
  if (!d) return false;
  d->s = s;
  d->text = text;
  if (options) d->options = *options;
  for (int pass = 0; pass < 2 && s->count; pass++) {
    d->measuring = pass == 0;
    show(d, 0, 0, 1, "", "");
  }
  totals(d);
  situ__free(d);
  return true;
}

/* ---- the calls ------------------------------------------------------------------------------- */

int64_t situ_snapshot_to_string(const situ_snapshot *snapshot, const situ_place_print_options *options, char *buffer,
                                size_t size) {
  static const char op[] = "snapshot_to_string";
  situ__text text = { 0 };
  if (!situ__valid(op, "snapshot", snapshot, SITU__A_SNAPSHOT) || (size && !situ__given(op, "buffer", buffer)))
    return -1;
  if (!draw(snapshot, options, &text)) return situ__no_memory(op, sizeof(drawing)), -1;
  return situ__text_deliver(op, &text, buffer, size);
}

int64_t situ_place_to_string(situ_nn_module *m, const situ_place_print_options *options, char *buffer, size_t size) {
  const situ_snapshot_options with = { .reasons = options && options->reasons };
  situ_snapshot *s = situ_place_snapshot_with(m, &with);
  int64_t length = s ? situ_snapshot_to_string(s, options, buffer, size) : -1;
  situ_snapshot_free(s);
  return length;
}

static bool colour_wanted(void) {
  const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
  return isatty(STDOUT_FILENO) && !(no && *no) && term && strcmp(term, "dumb") != 0;
}

/* The first of these variables that is set decides, as for setlocale, which the program may not have called. */
static bool is_utf8(void) {
  static const char *const names[] = { "LC_ALL", "LC_CTYPE", "LANG" };
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    const char *locale = getenv(names[i]);
    if (locale && *locale) return strcasestr(locale, "utf-8") || strcasestr(locale, "utf8");
  }
  return false;
}

void situ_snapshot_print(const situ_snapshot *snapshot) {
  situ__text text = { 0 };
  const situ_place_print_options options = { .colour = colour_wanted(), .ascii = !is_utf8() };
  if (!situ__valid("snapshot_print", "snapshot", snapshot, SITU__A_SNAPSHOT)) return;
  if (!draw(snapshot, &options, &text) || text.failed) situ__no_memory("snapshot_print", text.capacity);
  else fputs(text.data, stdout);
  situ__text_free(&text);
}

void situ_place_print(situ_nn_module *m) {
  situ_snapshot *s = situ_place_snapshot(m);
  if (s) situ_snapshot_print(s);
  situ_snapshot_free(s);
}
