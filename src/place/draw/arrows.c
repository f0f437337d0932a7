/* Draws copies between devices as arrows between boxes, labelled with their bytes.
   SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "place/draw/picture.h"

enum { MOST_ARROWS = 40, SIZE = 11, INSIDE = 16, HEAD = 9 };

typedef struct point {
  double x, y;
} point;

/* All copies from one box to another. */
typedef struct arrow {
  int64_t from, to; /* boxes; -1: outside */
  uint64_t bytes;
  int64_t copies;
  int lane, lanes; /* arrows between the same two boxes are side by side: index and number */
  point a, b;
} arrow;

static double least(double a, double b) { return a < b ? a : b; }
static double most(double a, double b) { return a > b ? a : b; }

/* ---- choosing boxes -------------------------------------------------------------------------- */

/* The box that shows the entry of a path; -1: outside, or no such entry. */
static int64_t box_named(const situ__picture *p, const char *path) {
  if (!path || !*path) return -1;
  for (int64_t i = 0; i < p->s->count; i++)
    if (strcmp(p->s->node[i].entry.path, path) == 0) return p->box_of[i];
  return -1;
}

/* Collects the edges, the largest first; the notes list those beyond the capacity. */
static int gather(const situ__picture *p, const situ_place_edge *const *edge, int64_t count, arrow list[MOST_ARROWS]) {
  int arrows = 0;
  for (int64_t i = 0; i < count; i++) {
    int64_t from = box_named(p, edge[i]->from), to = box_named(p, edge[i]->to);
    int k = 0;
    while (k < arrows && (list[k].from != from || list[k].to != to)) k++;
    if (from == to || k == MOST_ARROWS) continue;
    if (k == arrows) list[arrows++] = (arrow){ .from = from, .to = to };
    list[k].bytes += edge[i]->bytes;
    list[k].copies += edge[i]->count > 0 ? edge[i]->count : 1;
  }
  return arrows;
}

/* ---- end points ------------------------------------------------------------------------------ */

/* Coordinates a little inside the sides where two boxes face each other. */
static void across(double a, double a_size, double b, double b_size, double *from, double *to) {
  double in_a = least(INSIDE, a_size / 3), in_b = least(INSIDE, b_size / 3);
  *from = a < b ? a + a_size - in_a : a + in_a;
  *to = a < b ? b + in_b : b + b_size - in_b;
}

/* A straight line through the range that the boxes share along one axis. Returns false if that is too small. A single
   arrow avoids the middle and the beginning of the range, where names are. */
static bool straight(double a, double a_size, double b, double b_size, const arrow *of, double *from, double *to) {
  double low = most(a, b), high = least(a + a_size, b + b_size);
  if (high - low < 4) return false;
  double apart = least(26, (high - low) / of->lanes), at = of->lanes == 1 ? 0.78 : 0.5;
  *from = *to = low + at * (high - low) + apart * (of->lane - 0.5 * (of->lanes - 1));
  return true;
}

static void join(situ__rect a, situ__rect b, arrow *out) {
  bool upright = straight(a.x, a.w, b.x, b.w, out, &out->a.x, &out->b.x);
  bool level = straight(a.y, a.h, b.y, b.h, out, &out->a.y, &out->b.y);
  if (upright && level) { /* one box contains the other: begins at its corner */
    out->a = (point){ a.x + least(INSIDE, a.w / 3), a.y + least(INSIDE, a.h / 3) };
    return;
  }
  if (!upright) across(a.x, a.w, b.x, b.w, &out->a.x, &out->b.x);
  if (!level) across(a.y, a.h, b.y, b.h, &out->a.y, &out->b.y);
}

/* The outside: beyond the nearest edge of the map. */
static situ__rect outside(situ__rect area, situ__rect box) {
  double left = box.x - area.x, right = area.x + area.w - box.x - box.w, up = box.y - area.y,
         down = area.y + area.h - box.y - box.h, nearest = least(least(left, right), least(up, down));
  enum { BEYOND = 14 };
  if (nearest == left) return (situ__rect){ area.x - BEYOND, box.y, 1, box.h };
  if (nearest == right) return (situ__rect){ area.x + area.w + BEYOND, box.y, 1, box.h };
  if (nearest == up) return (situ__rect){ box.x, area.y - BEYOND, box.w, 1 };
  return (situ__rect){ box.x, area.y + area.h + BEYOND, box.w, 1 };
}

static bool same_boxes(const arrow *a, const arrow *b) {
  return (a->from == b->from && a->to == b->to) || (a->from == b->to && a->to == b->from);
}

static void set_lanes(arrow *list, int count) {
  for (int i = 0; i < count; i++)
    for (int k = 0; k < count; k++) {
      list[i].lanes += same_boxes(&list[i], &list[k]);
      list[i].lane += k < i && same_boxes(&list[i], &list[k]);
    }
}

/* ---- labels ---------------------------------------------------------------------------------- */

static double length_of(const arrow *a) {
  double x = a->b.x - a->a.x, y = a->b.y - a->a.y;
  return __builtin_sqrt(x * x + y * y);
}

static point along(const arrow *a, double t) {
  return (point){ a->a.x + t * (a->b.x - a->a.x), a->a.y + t * (a->b.y - a->a.y) };
}

static bool meet(situ__rect a, situ__rect b) {
  return a.x < b.x + b.w && b.x < a.x + a.w && a.y < b.y + b.h && b.y < a.y + a.h;
}

/* True if any other arrow crosses the rectangle. */
static bool crossed(const arrow *list, int count, int but, situ__rect r) {
  for (int i = 0; i < count; i++) {
    int steps = (int)(length_of(&list[i]) / 4) + 1;
    for (int k = 0; i != but && k <= steps; k++) {
      point at = along(&list[i], (double)k / steps);
      if (meet(r, (situ__rect){ at.x - 4, at.y - 4, 8, 8 })) return true;
    }
  }
  return false;
}

/* True if the rectangle overlaps the header of a box. */
static bool on_header(const situ__picture *p, situ__rect r) {
  for (int64_t i = 0; i < p->count; i++) {
    situ__rect head = p->box[i].at;
    head.h = p->box[i].header;
    if (head.h > 0 && meet(r, head)) return true;
  }
  return false;
}

/* True if the label of an arrow may be here. Near another arrow it could be taken for that one's. */
static bool is_free(const situ__picture *p, situ__rect page, const arrow *list, int count, int i, situ__rect r,
                    double far) {
  situ__rect around = { r.x - far, r.y - far, r.w + 2 * far, r.h + 2 * far };
  return r.x > page.x && r.y > page.y && r.x + r.w < page.x + page.w && r.y + r.h < page.y + page.h &&
         !situ__is_taken(p, around) && !crossed(list, count, i, around);
}

/* Tries positions along an arrow, on it (side 0) or beside it. */
static bool try_side(const situ__picture *p, situ__rect page, const arrow *list, int count, int i, int side, double far,
                     situ__rect *out) {
  static const double t[] = { 0.5, 0.35, 0.65, 0.2, 0.8 };
  const arrow *a = &list[i];
  bool upright = __builtin_fabs(a->b.x - a->a.x) < __builtin_fabs(a->b.y - a->a.y);
  double away = side * ((upright ? out->w : out->h) / 2 + 7);
  for (int on_headers = 0; on_headers < 2; on_headers++)
    for (size_t k = 0; k < sizeof t / sizeof *t; k++) {
      point at = along(a, t[k]);
      situ__rect r = { at.x - out->w / 2 + (upright ? away : 0), at.y - out->h / 2 + (upright ? 0 : away), out->w,
                       out->h };
      if ((!on_headers && on_header(p, r)) || !is_free(p, page, list, count, i, r, far)) continue;
      *out = r;
      return true;
    }
  return false;
}

/* Chooses the position of an arrow's label: on the line if enough of it stays visible, else beside it. Returns false if
   every position overlaps something; the notes list the copy then. */
static bool find_place(const situ__picture *p, situ__rect page, const arrow *list, int count, int i, situ__rect *out) {
  double dx = __builtin_fabs(list[i].b.x - list[i].a.x), dy = __builtin_fabs(list[i].b.y - list[i].a.y);
  bool on_line = dx < dy ? dy > out->h + 40 : dx > out->w + 40;
  for (int far = 10; far >= 0; far -= 10)
    if ((on_line && try_side(p, page, list, count, i, 0, far, out)) || try_side(p, page, list, count, i, 1, far, out) ||
        try_side(p, page, list, count, i, -1, far, out))
      return true;
  return false;
}

/* ---- drawing --------------------------------------------------------------------------------- */

static void put_point(situ__text *t, const char *command, double x, double y) {
  situ__text_add(t, "%s", command);
  situ__put_number(t, x);
  situ__text_add(t, " ");
  situ__put_number(t, y);
}

static void put_line(situ__picture *p, const char *class, point a, point b) {
  situ__text_add(&p->text, "<path class=\"%s\" d=\"", class);
  put_point(&p->text, "M", a.x, a.y);
  put_point(&p->text, "L", b.x, b.y);
  situ__text_add(&p->text, "\"/>\n");
}

static void put_arrow(situ__picture *p, const arrow *a) {
  double length = most(length_of(a), 1), x = (a->b.x - a->a.x) / length, y = (a->b.y - a->a.y) / length;
  point neck = { a->b.x - HEAD * x, a->b.y - HEAD * y };
  situ__text *t = &p->text;
  put_line(p, "o", a->a, a->b);
  put_line(p, "w", a->a, neck);
  situ__text_add(t, "<circle class=\"h\" r=\"3\"");
  situ__put_attribute(t, "cx", a->a.x);
  situ__put_attribute(t, "cy", a->a.y);
  situ__text_add(t, "/>\n<path class=\"h\" d=\"");
  put_point(t, "M", a->b.x, a->b.y);
  put_point(t, "L", neck.x - 5 * y, neck.y + 5 * x);
  put_point(t, "L", neck.x + 5 * y, neck.y - 5 * x);
  situ__text_add(t, "Z\"/>\n");
}

/* "16.0 KiB", "3 x, 48.0 KiB" */
static void describe(const arrow *a, char text[48]) {
  char bytes[SITU__BYTES_TEXT];
  situ__bytes_text(a->bytes, bytes);
  if (a->copies > 1) (void)snprintf(text, 48, "%" PRId64 " x, %s", a->copies, bytes);
  else (void)snprintf(text, 48, "%s", bytes);
}

static bool put_bytes(situ__picture *p, situ__rect page, const arrow *list, int count, int i) {
  char text[48];
  describe(&list[i], text);
  situ__rect at = { .w = situ__text_width(text, SIZE, false) + 12, .h = SIZE + 7 };
  if (!find_place(p, page, list, count, i, &at)) return true;
  situ__text_add(&p->text, "<rect class=\"p\"");
  situ__put_attribute(&p->text, "x", at.x);
  situ__put_attribute(&p->text, "y", at.y);
  situ__put_attribute(&p->text, "width", at.w);
  situ__put_attribute(&p->text, "height", at.h);
  situ__text_add(&p->text, " rx=\"4\"/>\n");
  situ__put_text(p, "c", at.x + at.w / 2, at.y + SIZE + 1.5, SIZE, at.w, text);
  return situ__take(p, at);
}

/* Labels of boxes avoid lines. */
static bool take_line(situ__picture *p, const arrow *a) {
  int steps = (int)(length_of(a) / 6) + 1;
  bool fine = true;
  for (int k = 0; k <= steps && fine; k++) {
    point at = along(a, (double)k / steps);
    fine = situ__take(p, (situ__rect){ at.x - 5, at.y - 5, 10, 10 });
  }
  return fine;
}

bool situ__arrows(situ__picture *p, situ__rect area, const situ_place_edge *const *edge, int64_t count) {
  arrow list[MOST_ARROWS];
  int arrows = gather(p, edge, count, list);
  bool fine = true;
  set_lanes(list, arrows);
  for (int i = 0; i < arrows; i++) {
    situ__rect from = list[i].from < 0 ? (situ__rect){ 0 } : p->box[list[i].from].at;
    situ__rect to = list[i].to < 0 ? outside(area, from) : p->box[list[i].to].at;
    if (list[i].from < 0) from = outside(area, to);
    join(from, to, &list[i]);
  }
  for (int i = 0; i < arrows; i++) put_arrow(p, &list[i]);
  situ__rect page = { area.x - 20, area.y - 10, area.w + 40, area.h + 20 };
  for (int i = 0; i < arrows && fine; i++) fine = put_bytes(p, page, list, arrows, i);
  for (int i = 0; i < arrows && fine; i++) fine = take_line(p, &list[i]);
  return fine;
}
