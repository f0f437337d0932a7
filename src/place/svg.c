/* The picture: a page with title, legend, boxes, arrows and notes.
   SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "place/picture.h"
#include "situ/sys/op.h"

enum { MARGIN = 24, TITLE = 22, ROW = 20 }; /* pixels */
enum { LISTED = 5 };                        /* copies in words */
enum { LEAST = 320, MOST = 20000 };         /* width and height of a picture */

/* ---- text ------------------------------------------------------------------------------------ */

void situ__put_number(situ__text *text, double value) {
  long long tenths = (long long)(value < 0 ? value * 10 - 0.5 : value * 10 + 0.5);
  unsigned long long size =
      tenths < 0 ? 0ull - (unsigned long long)tenths : (unsigned long long)tenths;
  situ__text_add(text, size % 10 ? "%s%llu.%llu" : "%s%llu", tenths < 0 ? "-" : "", size / 10,
                 size % 10);
}

void situ__put_attribute(situ__text *text, const char *name, double value) {
  situ__text_add(text, " %s=\"", name);
  situ__put_number(text, value);
  situ__text_append(text, "\"", 1);
}

void situ__put_xml(situ__text *text, const char *from) {
  situ__text clean = { 0 };
  situ__place_clean(&clean, from);
  text->failed |= clean.failed;
  for (const char *c = clean.data ? clean.data : ""; *c; c++) {
    if (*c == '&')
      situ__text_add(text, "&amp;");
    else if (*c == '<')
      situ__text_add(text, "&lt;");
    else if (*c == '>')
      situ__text_add(text, "&gt;");
    else if (*c == '"')
      situ__text_add(text, "&quot;");
    else
      situ__text_append(text, c, 1);
  }
  situ__text_free(&clean);
}

/* ---- colours --------------------------------------------------------------------------------- */

/* One row a device: area, frame around areas and its ground, for light and for dark pages. cpu has
   the grey. */
static const struct colour {
  const char *area, *line, *ground, *dark_area, *dark_line, *dark_ground;
} colours[] = {
  { "#ccd4dc", "#8593a1", "#eff2f5", "#48525d", "#74818e", "#242a31" },
  { "#a9cdee", "#4f8fc6", "#e6f0f9", "#2a5b87", "#4d87bb", "#16283a" },
  { "#f5cf9a", "#c98f35", "#fcf2e2", "#7b561c", "#b8873c", "#33260f" },
  { "#b3dcb0", "#5d9d59", "#e8f4e7", "#33683a", "#5a975c", "#18291a" },
  { "#d8c1ea", "#9669bb", "#f3ebf8", "#5b3b78", "#8c64ae", "#281c33" },
  { "#f2bcb6", "#c7645c", "#fbebe9", "#7c3a35", "#b3635c", "#361c1a" },
  { "#a5dcd5", "#3f988e", "#e3f4f2", "#216259", "#47978d", "#122925" },
  { "#e4dc98", "#a0973a", "#f8f5de", "#615b20", "#968d3f", "#2a2811" },
};
enum { COLOURS = sizeof colours / sizeof *colours };

int situ__hue(const situ_snapshot *s, int device) {
  if (device < 0) return -1;
  if (s->device[device].device.kind == SITU_CPU) return 0;
  int before = device - (s->device[0].device.kind == SITU_CPU);
  return 1 + before % (COLOURS - 1);
}

static void put_colours(situ__text *t, int used, bool dark) {
  for (int c = 0; c < COLOURS; c++) {
    const struct colour *at = &colours[c];
    if (!(used >> c & 1)) continue;
    const char *area = dark ? at->dark_area : at->area, *line = dark ? at->dark_line : at->line;
    situ__text_add(t, ".a%d{fill:%s;stroke:%s}.g%d{fill:%s;stroke:%s}", c, area, line, c,
                   dark ? at->dark_ground : at->ground, line);
  }
}

static void put_style(situ__picture *p) {
  situ__text *t = &p->text;
  int used = 0;
  for (int d = 0; d < p->s->devices; d++) used |= 1 << situ__hue(p->s, d);
  situ__text_add(
      t, "<style>\n"
         "text{font-family:system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,"
         "'DejaVu Sans',sans-serif;fill:#1c2630;white-space:pre}\n"
         ".b{font-weight:600}.m{fill:#55616d}.c{text-anchor:middle}.r{text-anchor:end}\n"
         ".page{fill:#fff}.gm{fill:#f8f9fa;stroke:#b4bcc5}.s{stroke-width:1}"
         ".d{stroke-dasharray:3 2}\n"
         ".w{stroke:#1c2630;stroke-width:1.8;fill:none}.o{stroke:#fff;stroke-width:5;fill:none}"
         ".h{fill:#1c2630}.p{fill:#fff;stroke:#1c2630}\n");
  put_colours(t, used, false);
  situ__text_add(
      t, "\n@media (prefers-color-scheme:dark){\n"
         "text{fill:#e8edf2}.m{fill:#aab4be}.page{fill:#12161b}.gm{fill:#1b2026;stroke:#4d5761}\n"
         ".w{stroke:#f2f5f8}.o{stroke:#12161b}.h{fill:#f2f5f8}.p{fill:#12161b;stroke:#f2f5f8}\n");
  put_colours(t, used, true);
  situ__text_add(t, "}\n</style>\n");
}

/* ---- boxes ----------------------------------------------------------------------------------- */

static void put_rect(situ__text *t, const char *class, situ__rect r, double round) {
  situ__text_add(t, "<rect class=\"%s\"", class);
  situ__put_attribute(t, "x", r.x);
  situ__put_attribute(t, "y", r.y);
  situ__put_attribute(t, "width", r.w);
  situ__put_attribute(t, "height", r.h);
  if (round > 0) situ__put_attribute(t, "rx", round);
}

/* What a browser shows under the mouse. */
static void put_hover(situ__picture *p, const situ__box *box) {
  const situ__node *node = &p->s->node[box->node];
  const situ_place_entry *e = &node->entry;
  situ__text *t = &p->text;
  char bytes[SITU__BYTES_TEXT], text[SITU_SHAPE_TEXT], name[SITU_DEVICE_NAME_MAX];
  situ__text_add(t, "><title>");
  if (box->parts) {
    situ__put_xml(t, node->parent > 0 ? p->s->node[node->parent].entry.path : "");
    situ__text_add(t, "%s%" PRId64 " small part%s", node->parent > 0 ? ": " : "", box->parts,
                   box->parts == 1 ? "" : "s");
  } else {
    situ__put_xml(t, e->path);
    situ__text_add(t, "\n%s ", situ__place_role(e->role));
    situ__put_xml(t, e->type);
    if (node->device >= 0) situ__text_add(t, " %s", situ_shape_text(&e->shape, text));
  }
  situ__text_add(t, "\n%s (%" PRIu64 " bytes, ", situ__place_bytes(box->bytes, bytes), box->bytes);
  situ__put_number(t, p->s->bytes ? 100.0 * (double)box->bytes / (double)p->s->bytes : 0);
  situ__text_add(t, " %%)\n");
  if (box->device >= 0) {
    situ__text_add(t, "%s", situ_device_name(p->s->device[box->device].device, name));
  } else {
    situ__place_sum sum[SITU__PLACES];
    int first;
    (void)situ__place_spread(p->s, box->node, sum, &first);
    for (int d = first; d < p->s->devices; d++)
      if (sum[d].bytes)
        situ__text_add(t, "%s%s %s", d > first ? ", " : "", situ_device_name(sum[d].device, name),
                       situ__place_bytes(sum[d].bytes, bytes));
  }
  situ__text_add(t, "</title></rect>\n");
}

static void put_box(situ__picture *p, const situ__box *box) {
  situ_place_role role = p->s->node[box->node].entry.role;
  bool dashed = !box->parts && (role == SITU_PLACE_BUFFER || role == SITU_PLACE_TRANSIENT);
  int hue = situ__hue(p->s, box->device);
  char class[16];
  if (hue < 0)
    (void)snprintf(class, sizeof class, "gm");
  else
    (void)snprintf(class, sizeof class, "%c%d%s", box->container ? 'g' : 'a', hue,
                   dashed ? " d" : "");
  /* A line's width of ground between neighbours. */
  double gap = box->at.w > 6 && box->at.h > 6 ? 1 : 0.2;
  situ__rect r = { box->at.x + gap, box->at.y + gap, box->at.w - 2 * gap, box->at.h - 2 * gap };
  put_rect(&p->text, class, r, r.w > 12 && r.h > 12 ? 2 : 0);
  put_hover(p, box);
}

/* ---- what stands around them ----------------------------------------------------------------- */

/* Title, total, the shares as a bar, and a legend. Returns where the boxes may begin. */
static double put_head(situ__picture *p, const char *title, double width) {
  const situ_snapshot *s = p->s;
  char bytes[SITU__BYTES_TEXT], name[SITU_DEVICE_NAME_MAX], line[160];
  double inner = width - 2 * MARGIN, y = MARGIN + TITLE - 4;
  situ__put_text(p, "b", MARGIN, y, TITLE, inner / 1.15, title);
  (void)snprintf(line, sizeof line, "%s in %" PRId64 " tensor%s on %d device%s",
                 situ__place_bytes(s->bytes, bytes), s->tensors, s->tensors == 1 ? "" : "s",
                 s->devices, s->devices == 1 ? "" : "s");
  situ__put_text(p, "m", MARGIN, y += ROW + 2, 13, inner, line);
  y += 12;
  double x = MARGIN;
  for (int d = 0; d < s->devices && s->bytes; d++) {
    char class[8];
    double w = inner * (double)s->device[d].bytes / (double)s->bytes;
    (void)snprintf(class, sizeof class, "a%d", situ__hue(s, d));
    put_rect(&p->text, class, (situ__rect){ x, y, w, 10 }, 0);
    situ__text_add(&p->text, "/>\n");
    x += w;
  }
  y += 30;
  x = MARGIN;
  for (int d = 0; d < s->devices; d++) {
    char class[8];
    situ__text share = { 0 };
    situ__text_add(&share, "%s   %s   ", situ_device_name(s->device[d].device, name),
                   situ__place_bytes(s->device[d].bytes, bytes));
    situ__put_number(&share, s->bytes ? 100.0 * (double)s->device[d].bytes / (double)s->bytes : 0);
    situ__text_add(&share, " %%");
    p->text.failed |= share.failed;
    double w = situ__text_width(share.data ? share.data : "", 13, false);
    if (x > MARGIN && x + w + 20 > width - MARGIN) x = MARGIN, y += ROW;
    (void)snprintf(class, sizeof class, "a%d", situ__hue(s, d));
    put_rect(&p->text, class, (situ__rect){ x, y - 11, 13, 13 }, 2);
    situ__text_add(&p->text, "/>\n");
    situ__put_text(p, "n", x + 20, y, 13, inner - 20, share.data ? share.data : "");
    x += w + 48;
    situ__text_free(&share);
  }
  return y + 16;
}

/* "encoder.layers.2 (sim:0)"; "outside (cpu)" */
static void put_end(situ__text *t, const char *path, situ_device device) {
  char name[SITU_DEVICE_NAME_MAX];
  situ__text_add(t, "%s (%s)", path && *path ? path : "outside", situ_device_name(device, name));
}

static int by_bytes(const void *a, const void *b) {
  const situ_place_edge *x = *(const situ_place_edge *const *)a,
                        *y = *(const situ_place_edge *const *)b;
  if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
  return (x > y) - (x < y);
}

/* The lines below the boxes. They are made first: the boxes get what room they leave. */
enum { NOTES = LISTED + 4 };
typedef struct notes {
  situ__text line[NOTES];
  int count;
} notes;

static void note_copies(notes *n, const situ_place_edge **edge, int64_t count) {
  char bytes[SITU__BYTES_TEXT];
  uint64_t sum = 0;
  for (int64_t i = 0; i < count; i++) sum += edge[i]->bytes;
  if (count)
    situ__text_add(&n->line[n->count++], "%" PRId64 " cop%s between devices, %s:", count,
                   count == 1 ? "y" : "ies", situ__place_bytes(sum, bytes));
  for (int64_t i = 0; i < count && i < LISTED; i++) {
    situ__text *line = &n->line[n->count++];
    situ__text_add(line, "    ");
    put_end(line, edge[i]->from, edge[i]->from_device);
    situ__text_add(line, " → ");
    put_end(line, edge[i]->to, edge[i]->to_device);
    situ__text_add(line, "   %s", situ__place_bytes(edge[i]->bytes, bytes));
    if (i == LISTED - 1 && count > LISTED)
      situ__text_add(line, "    (and %" PRId64 " smaller ones)", count - LISTED);
  }
}

static void note_ties(notes *n, const situ_snapshot *s) {
  int64_t ties = 0;
  situ__text *line = &n->line[n->count];
  for (int64_t i = 0; i < s->count; i++) {
    /* A shared module says it for its parts. */
    const situ__node *node = &s->node[i];
    if (node->tie < 0 || (node->parent >= 0 && s->node[node->parent].tie >= 0)) continue;
    if (ties++ < 3)
      situ__text_add(line, "%s%s = %s", ties == 1 ? "Shared, drawn once: " : ", ", node->entry.path,
                     node->entry.tied);
  }
  if (ties > 3) situ__text_add(line, " and %" PRId64 " more", ties - 3);
  n->count += ties > 0;
}

static void note_signs(notes *n, const situ__picture *p) {
  if (!p->dashed && !p->enlarged) return;
  situ__text_add(&n->line[n->count++], "Areas are as large as bytes.%s%s",
                 p->dashed ? " Dashed: buffers." : "",
                 p->enlarged ? " The smallest are drawn larger than they are." : "");
}

/* ---- the page -------------------------------------------------------------------------------- */

static void put_page(situ__picture *p, const char *title, double width, double height) {
  situ__text *t = &p->text;
  situ__text_add(t,
                 "<svg xmlns=\"http://www.w3.org/2000/svg\" xml:space=\"preserve\" viewBox=\"0 0 ");
  situ__put_number(t, width);
  situ__text_add(t, " ");
  situ__put_number(t, height);
  situ__text_add(t, "\"");
  situ__put_attribute(t, "width", width);
  situ__put_attribute(t, "height", height);
  situ__text_add(t, ">\n<title>");
  situ__put_xml(t, title);
  situ__text_add(t, "</title>\n");
  put_style(p);
  put_rect(t, "page", (situ__rect){ 0, 0, width, height }, 0);
  situ__text_add(t, "/>\n");
}

static bool put_map(situ__picture *p, double top, double width, double height,
                    const situ_place_edge **edge, int64_t edges) {
  notes n = { .count = 0 };
  note_copies(&n, edge, edges);
  note_ties(&n, p->s);
  double foot = MARGIN + ROW * (n.count + 1);
  situ__rect area = { MARGIN, top, width - 2 * MARGIN, height - top - foot };
  bool fine = situ__boxes(p, area);
  note_signs(&n, p);
  for (int64_t i = 0; i < p->count; i++) put_box(p, &p->box[i]);
  fine = fine && situ__arrows(p, area, edge, edges) && situ__labels(p);
  for (int i = 0; i < n.count; i++) {
    const char *line = n.line[i].data;
    p->text.failed |= n.line[i].failed;
    situ__put_text(p, "m", MARGIN, area.y + area.h + ROW * (i + 1) + 4, 12, width - 2 * MARGIN,
                   line ? line : "");
    situ__text_free(&n.line[i]);
  }
  return fine;
}

/* The edges with bytes, the largest first; NULL: no memory, recorded. */
static const situ_place_edge **sort_edges(const char *op, const situ_place_svg_options *o) {
  size_t bytes = ((size_t)o->edge_count + 1) * sizeof(void *);
  const situ_place_edge **list = situ__alloc(bytes);
  if (!list) {
    situ__no_memory(op, bytes);
    return NULL;
  }
  for (int64_t i = 0; i < o->edge_count; i++) list[i] = &o->edges[i];
  qsort(list, (size_t)o->edge_count, sizeof *list, by_bytes);
  return list;
}

situ_status situ_snapshot_svg(const situ_snapshot *s, const char *path,
                              const situ_place_svg_options *options) {
  static const char op[] = "place_svg";
  situ_place_svg_options o = options ? *options : (situ_place_svg_options){ 0 };
  if (!s || !path) return situ__null(op, s ? "path" : "snapshot");
  if (o.edge_count && !o.edges) return situ__null(op, "options->edges");
  if (!o.width) o.width = 1200;
  if (!o.height) o.height = 800;
  if (o.width < LEAST || o.height < LEAST || o.width > MOST || o.height > MOST || o.edge_count < 0)
    return situ__fail(
        SITU_E_ARG, op,
        "a picture of %d x %d pixels with %lld edges: wanted are %d to %d, and 0 or more", o.width,
        o.height, (long long)o.edge_count, LEAST, MOST);
  if (!o.title) o.title = s->count && *s->node[0].entry.type ? s->node[0].entry.type : "placement";
  const situ_place_edge **edge = sort_edges(op, &o);
  if (!edge) return situ_error();
  situ__picture p = { .op = op, .s = s };
  put_page(&p, o.title, o.width, o.height);
  double top = put_head(&p, o.title, o.width);
  bool fine = put_map(&p, top, o.width, o.height, edge, o.edge_count);
  situ__text_add(&p.text, "</svg>\n");
  situ_status status = fine ? situ__place_write(op, path, &p.text) : situ_error();
  situ__text_free(&p.text);
  situ__free(p.box);
  situ__free(p.box_of);
  situ__free(p.taken);
  situ__free(edge);
  return status;
}

situ_status situ_place_svg(situ_nn_module *m, const char *path,
                           const situ_place_svg_options *options) {
  situ_snapshot *s = situ_place_snapshot(m);
  situ_status status = s ? situ_snapshot_svg(s, path, options) : situ_error();
  situ_snapshot_free(s);
  return status;
}
