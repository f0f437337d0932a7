/* The picture as SVG: a page, its boxes, and the function that writes it.
   SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/handle.h"
#include "base/replace.h"
#include "place/draw/picture.h"

enum { LEAST = 320, MOST = 20000 }; /* bounds of a picture's width and height */

/* ---- boxes ----------------------------------------------------------------------------------- */

/* The tooltip that a browser shows. */
static void put_hover(situ__picture *p, const situ__box *box) {
  const situ__snapshot_node *node = &p->s->node[box->node];
  const situ_place_entry *e = &node->entry;
  situ__text *t = &p->text;
  char bytes[SITU__BYTES_TEXT], text[SITU__PLACE_SHAPE], name[SITU__PLACE_NAME];
  situ__text_add(t, "><title>");
  if (box->parts) {
    situ__put_xml(t, node->parent > 0 ? p->s->node[node->parent].entry.path : "");
    situ__text_add(t, "%s%" PRId64 " small part%s", node->parent > 0 ? ": " : "", box->parts,
                   box->parts == 1 ? "" : "s");
  } else {
    situ__put_xml(t, e->path);
    situ__text_add(t, "\n%s ", situ__place_role(e->role));
    situ__put_xml(t, e->type);
    if (node->device >= 0) situ__text_add(t, " %s", situ__place_shape(e, text));
  }
  situ__text_add(t, "\n%s (%" PRIu64 " bytes, ", situ__bytes_text(box->bytes, bytes), box->bytes);
  situ__put_number(t, p->s->bytes ? 100.0 * (double)box->bytes / (double)p->s->bytes : 0);
  situ__text_add(t, " %%)\n");
  if (box->device >= 0) {
    const situ__place_sum *at = &p->s->device[box->device];
    situ__text_add(t, "%s", situ__place_name(p->s, at->rank, at->device, name));
  } else {
    situ__place_sum sum[SITU__PLACES];
    int first;
    (void)situ__place_spread(p->s, box->node, sum, &first);
    for (int d = first; d < p->s->devices; d++)
      if (sum[d].bytes)
        situ__text_add(t, "%s%s %s", d > first ? situ__place_between(p->s) : "",
                       situ__place_name(p->s, sum[d].rank, sum[d].device, name), situ__bytes_text(sum[d].bytes, bytes));
  }
  if (!box->parts && e->reason) {
    situ__text why = { 0 };
    situ__place_why(&why, "", e, "");
    situ__text_add(t, "\n");
    if (why.failed) t->failed = true;
    else situ__put_xml(t, why.data);
    situ__text_free(&why);
  }
  situ__text_add(t, "</title></rect>\n");
}

static void put_box(situ__picture *p, const situ__box *box) {
  situ_place_role role = p->s->node[box->node].entry.role;
  bool dashed = !box->parts && (role == SITU_PLACE_BUFFER || role == SITU_PLACE_TRANSIENT);
  int hue = situ__hue(p->s, box->device);
  char class[16];
  if (hue < 0) (void)snprintf(class, sizeof class, "gm");
  else (void)snprintf(class, sizeof class, "%c%d%s", box->container ? 'g' : 'a', hue, dashed ? " d" : "");
  /* A thin line of background between neighbours. */
  double gap = box->at.w > 6 && box->at.h > 6 ? 1 : 0.2;
  situ__rect r = { box->at.x + gap, box->at.y + gap, box->at.w - 2 * gap, box->at.h - 2 * gap };
  situ__put_rect(&p->text, class, r, r.w > 12 && r.h > 12 ? 2 : 0);
  put_hover(p, box);
}

/* ---- the page -------------------------------------------------------------------------------- */

static void put_page(situ__picture *p, const char *title, double width, double height) {
  situ__text *t = &p->text;
  situ__text_add(t, "<svg xmlns=\"http://www.w3.org/2000/svg\" xml:space=\"preserve\" viewBox=\"0 0 ");
  situ__put_number(t, width);
  situ__text_add(t, " ");
  situ__put_number(t, height);
  situ__text_add(t, "\"");
  situ__put_attribute(t, "width", width);
  situ__put_attribute(t, "height", height);
  situ__text_add(t, ">\n<title>");
  situ__put_xml(t, title);
  situ__text_add(t, "</title>\n");
  situ__put_style(p);
  situ__put_rect(t, "page", (situ__rect){ 0, 0, width, height }, 0);
  situ__text_add(t, "/>\n");
}

/* Writes notes first: boxes get the remaining space, and one line more is reserved for notes on the finished layout. */
static bool put_map(situ__picture *p, double top, double width, double height, const situ_place_edge *const *edge,
                    int64_t edges) {
  situ__notes notes = { .count = 0 };
  situ__note_facts(&notes, p, edge, edges);
  double foot = SITU__MARGIN + SITU__ROW * (notes.count + 1);
  situ__rect area = { SITU__MARGIN, top, width - 2 * SITU__MARGIN, height - top - foot };
  bool fine = situ__boxes(p, area);
  situ__note_signs(&notes, p);
  for (int64_t i = 0; i < p->count; i++) put_box(p, &p->box[i]);
  fine = fine && situ__arrows(p, area, edge, edges) && situ__labels(p);
  situ__put_notes(p, &notes, area.y + area.h + SITU__ROW + 4, width);
  return fine;
}

static int by_bytes(const void *a, const void *b) {
  const situ_place_edge *x = *(const situ_place_edge *const *)a, *y = *(const situ_place_edge *const *)b;
  if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
  return (x > y) - (x < y);
}

/* The edges with bytes, the largest first. Returns NULL after recording that memory is not available. */
static const situ_place_edge **sort_edges(const char *op, const situ_place_svg_options *o) {
  size_t bytes = ((size_t)o->edge_count + 1) * sizeof(void *);
  const situ_place_edge **list = situ__alloc(bytes);
  if (!list) return situ__no_memory(op, bytes), NULL;
  for (int64_t i = 0; i < o->edge_count; i++) list[i] = &o->edges[i];
  qsort(list, (size_t)o->edge_count, sizeof *list, by_bytes);
  return list;
}

bool situ__snapshot_svg(const char *op, const situ_snapshot *snapshot, const situ_place_svg_options *options,
                        situ__text *text) {
  situ_place_svg_options o = options ? *options : (situ_place_svg_options){ 0 };
  if (o.edge_count && !o.edges) return situ__null(op, "options->edges"), false;
  if (!o.width) o.width = 1200;
  if (!o.height) o.height = 800;
  if (o.width < LEAST || o.height < LEAST || o.width > MOST || o.height > MOST || o.edge_count < 0)
    return situ__fail(SITU_E_ARG, op, "a picture of %d x %d pixels with %lld edges: wanted are %d to %d, and 0 or more",
                      o.width, o.height, (long long)o.edge_count, LEAST, MOST),
           false;
  if (!o.title) o.title = snapshot->count && *snapshot->node[0].entry.type ? snapshot->node[0].entry.type : "placement";
  const situ_place_edge **edge = sort_edges(op, &o);
  if (!edge) return false;
  situ__picture p = { .op = op, .s = snapshot };
  put_page(&p, o.title, o.width, o.height);
  double top = situ__put_head(&p, o.title, o.width);
  bool fine = put_map(&p, top, o.width, o.height, edge, o.edge_count);
  situ__text_add(&p.text, "</svg>\n");
  situ__free(p.box);
  situ__free(p.box_of);
  situ__free(p.taken);
  situ__free(edge);
  *text = p.text;
  return fine || p.text.failed; /* an incomplete text ends the drawing without an error of its own */
}

situ_status situ_snapshot_svg(const situ_snapshot *snapshot, const char *path, const situ_place_svg_options *options) {
  static const char op[] = "place_svg";
  situ__text text = { 0 };
  if (!situ__valid(op, "snapshot", snapshot, SITU__A_SNAPSHOT) || !situ__given(op, "path", path)) return situ_error();
  const bool drawn = situ__snapshot_svg(op, snapshot, options, &text);
  const situ_status status = drawn ? situ__replace_by_text(op, path, &text) : situ_error();
  situ__text_free(&text);
  return status;
}

situ_status situ_place_svg(situ_nn_module *m, const char *path, const situ_place_svg_options *options) {
  situ_snapshot *s = situ_place_snapshot_with(m, &(situ_snapshot_options){ .reasons = true });
  situ_status status = s ? situ_snapshot_svg(s, path, options) : situ_error();
  situ_snapshot_free(s);
  return status;
}
