/* Draws title, shares and legend above the boxes, and notes below them.
   SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdio.h>

#include "place/draw/picture.h"

enum { TITLE = 22 }; /* pixels */

/* ---- above the boxes ------------------------------------------------------------------------- */

double situ__put_head(situ__picture *p, const char *title, double width) {
  const situ_snapshot *s = p->s;
  char bytes[SITU__BYTES_TEXT], name[SITU__PLACE_NAME], line[160];
  double inner = width - 2 * SITU__MARGIN, y = SITU__MARGIN + TITLE - 4;
  situ__put_text(p, "b", SITU__MARGIN, y, TITLE, inner / 1.15, title);
  (void)snprintf(line, sizeof line, "%s in %" PRId64 " tensor%s on %d device%s", situ__bytes_text(s->bytes, bytes),
                 s->tensors, s->tensors == 1 ? "" : "s", s->devices, s->devices == 1 ? "" : "s");
  situ__put_text(p, "m", SITU__MARGIN, y += SITU__ROW + 2, 13, inner, line);
  y += 12;
  double x = SITU__MARGIN;
  for (int d = 0; d < s->devices && s->bytes; d++) {
    char class[8];
    double w = inner * (double)s->device[d].bytes / (double)s->bytes;
    (void)snprintf(class, sizeof class, "a%d", situ__hue(s, d));
    situ__put_rect(&p->text, class, (situ__rect){ x, y, w, 10 }, 0);
    situ__text_add(&p->text, "/>\n");
    x += w;
  }
  y += 30;
  x = SITU__MARGIN;
  for (int d = 0; d < s->devices; d++) {
    char class[8];
    situ__text share = { 0 };
    situ__text_add(&share, "%s   %s   ", situ__place_name(s, s->device[d].rank, s->device[d].device, name),
                   situ__bytes_text(s->device[d].bytes, bytes));
    situ__put_number(&share, s->bytes ? 100.0 * (double)s->device[d].bytes / (double)s->bytes : 0);
    situ__text_add(&share, " %%");
    p->text.failed |= share.failed;
    double w = situ__text_width(share.data ? share.data : "", 13, false);
    if (x > SITU__MARGIN && x + w + 20 > width - SITU__MARGIN) x = SITU__MARGIN, y += SITU__ROW;
    (void)snprintf(class, sizeof class, "a%d", situ__hue(s, d));
    situ__put_rect(&p->text, class, (situ__rect){ x, y - 11, 13, 13 }, 2);
    situ__text_add(&p->text, "/>\n");
    situ__put_text(p, "n", x + 20, y, 13, inner - 20, share.data ? share.data : "");
    x += w + 48;
    situ__text_free(&share);
  }
  return y + 16;
}

/* ---- below the boxes ------------------------------------------------------------------------- */

/* "encoder.layers.2 (sim:0)"; "top level (cpu)" */
static void put_end(situ__text *t, const char *path, situ_device device) {
  char name[SITU_DEVICE_NAME_MAX];
  situ__text_add(t, "%s (%s)", path && *path ? path : "top level", situ_device_name(device, name));
}

/* Number of copies that an edge represents. */
static int64_t copies_of(const situ_place_edge *edge) { return edge->count > 0 ? edge->count : 1; }

static void note_copies(situ__notes *n, const situ_place_edge *const *edge, int64_t count) {
  char bytes[SITU__BYTES_TEXT];
  uint64_t sum = 0;
  int64_t copies = 0, rest = 0;
  for (int64_t i = 0; i < count; i++) {
    sum += edge[i]->bytes;
    copies += copies_of(edge[i]);
    if (i >= SITU__LISTED) rest += copies_of(edge[i]);
  }
  if (count)
    situ__text_add(&n->line[n->count++], "%" PRId64 " cop%s between devices, %s:", copies, copies == 1 ? "y" : "ies",
                   situ__bytes_text(sum, bytes));
  for (int64_t i = 0; i < count && i < SITU__LISTED; i++) {
    situ__text *line = &n->line[n->count++];
    situ__text_add(line, "    ");
    put_end(line, edge[i]->from, edge[i]->from_device);
    situ__text_add(line, " → ");
    put_end(line, edge[i]->to, edge[i]->to_device);
    situ__text_add(line, "   %s", situ__bytes_text(edge[i]->bytes, bytes));
    if (edge[i]->count > 1) situ__text_add(line, " in %" PRId64, edge[i]->count);
    if (i == SITU__LISTED - 1 && rest) situ__text_add(line, "    (and %" PRId64 " smaller ones)", rest);
  }
}

static void note_ties(situ__notes *n, const situ_snapshot *s) {
  int64_t ties = 0;
  situ__text *line = &n->line[n->count];
  for (int64_t i = 0; i < s->count; i++) {
    /* A shared module covers its parts. */
    const situ__snapshot_node *node = &s->node[i];
    if (node->tie < 0 || (node->parent >= 0 && s->node[node->parent].tie >= 0)) continue;
    if (ties++ < 3)
      situ__text_add(line, "%s%s = %s", ties == 1 ? "Shared, drawn once: " : ", ", node->entry.path, node->entry.tied);
  }
  if (ties > 3) situ__text_add(line, " and %" PRId64 " more", ties - 3);
  n->count += ties > 0;
}

void situ__note_signs(situ__notes *n, const situ__picture *p) {
  if (!p->dashed && !p->enlarged) return;
  situ__text_add(&n->line[n->count++], "Areas are as large as bytes.%s%s", p->dashed ? " Dashed: buffers." : "",
                 p->enlarged ? " The smallest are drawn larger than they are." : "");
}

void situ__note_facts(situ__notes *n, const situ__picture *p, const situ_place_edge *const *edge, int64_t count) {
  note_copies(n, edge, count);
  note_ties(n, p->s);
}

void situ__put_notes(situ__picture *p, situ__notes *n, double y, double width) {
  for (int i = 0; i < n->count; i++) {
    const char *line = n->line[i].data;
    p->text.failed |= n->line[i].failed;
    situ__put_text(p, "m", SITU__MARGIN, y + SITU__ROW * i, 12, width - 2 * SITU__MARGIN, line ? line : "");
    situ__text_free(&n->line[i]);
  }
}
