/* Labels of boxes: as many as fit, never across an edge, an arrow or its label.
   SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "place/draw/picture.h"

/* ---- width of a text ------------------------------------------------------------------------- */

double situ__text_width(const char *text, double size, bool bold) {
  /* In hundredths of the font size: DejaVu Sans and Verdana, the widest fonts in the list. */
  static const unsigned char ascii[] = {
    32, 41, 46, 84, 64, 96, 78, 28, 40,  40, 50, 84, 32, 37, 32, 34, 64, 64, 64, 64, 64, 64, 64, 64,
    64, 64, 34, 34, 84, 84, 84, 54, 100, 69, 69, 70, 78, 64, 58, 78, 76, 30, 30, 66, 56, 87, 75, 79,
    61, 79, 70, 64, 62, 74, 69, 99, 69,  62, 69, 40, 34, 40, 84, 50, 50, 62, 64, 55, 64, 62, 36, 64,
    64, 28, 28, 58, 28, 98, 64, 62, 64,  64, 42, 53, 40, 64, 60, 82, 60, 60, 53, 64, 34, 64, 84,
  };
  double width = 0;
  for (size_t length; *text; text += length) {
    uint32_t code = situ__place_char(text, &length);
    width += code >= ' ' && code < 0x7F ? ascii[code - ' '] : 100;
  }
  return width * size / 100 * (bold ? 1.15 : 1);
}

/* Replaces the middle of the text, so that its width is at most `width`. */
static void shorten(situ__text *out, const char *text, double size, double width) {
  size_t end = strlen(text), left = 0, right = end;
  double used = situ__text_width("…", size, false);
  /* Takes characters from both ends alternately, beginning at the front. */
  for (bool front = true; left < right; front = !front) {
    size_t from = left, length;
    if (!front)
      for (from = right - 1; from > left && ((unsigned char)text[from] & 0xC0) == 0x80;) from--;
    (void)situ__place_char(text + from, &length);
    char one[8] = "";
    memcpy(one, text + from, length);
    used += situ__text_width(one, size, false);
    if (used > width) break;
    if (front) left += length;
    else right = from;
  }
  situ__text_append(out, text, left);
  if (left < right) situ__text_add(out, "…");
  situ__text_append(out, text + right, end - right);
}

/* Turned texts run upwards. */
static void write_text(situ__picture *p, const char *class, double x, double y, double size, bool turned,
                       const char *text) {
  situ__text_add(&p->text, "<text class=\"%s\"", class);
  if (turned) {
    situ__text_add(&p->text, " transform=\"translate(");
    situ__put_number(&p->text, x);
    situ__text_add(&p->text, " ");
    situ__put_number(&p->text, y);
    situ__text_add(&p->text, ") rotate(-90)\"");
  } else {
    situ__put_attribute(&p->text, "x", x);
    situ__put_attribute(&p->text, "y", y);
  }
  situ__put_attribute(&p->text, "font-size", size);
  situ__text_add(&p->text, ">");
  situ__put_xml(&p->text, text);
  situ__text_add(&p->text, "</text>\n");
}

void situ__put_text(situ__picture *p, const char *class, double x, double y, double size, double width,
                    const char *text) {
  if (situ__text_width(text, size, false) <= width) {
    write_text(p, class, x, y, size, false, text);
    return;
  }
  situ__text line = { 0 };
  shorten(&line, text, size, width);
  if (line.data) write_text(p, class, x, y, size, false, line.data);
  p->text.failed |= line.failed;
  situ__text_free(&line);
}

/* ---- occupied areas -------------------------------------------------------------------------- */

bool situ__take(situ__picture *p, situ__rect r) {
  if (!situ__grow(p->op, &p->taken, &p->taken_capacity, sizeof *p->taken, p->taken_count + 1)) return false;
  p->taken[p->taken_count++] = r;
  return true;
}

bool situ__is_taken(const situ__picture *p, situ__rect r) {
  for (int64_t i = 0; i < p->taken_count; i++) {
    const situ__rect *t = &p->taken[i];
    if (r.x < t->x + t->w && t->x < r.x + r.w && r.y < t->y + t->h && t->y < r.y + r.h) return true;
  }
  return false;
}

/* ---- one label ------------------------------------------------------------------------------- */

enum { SIZE = 12, LEADING = 15 }; /* of the font; of a line */

/* Vertical positions of a text in its box: the middle first, then others without arrows. */
enum { PLACES = 5 };
static const double down[PLACES] = { 0.5, 0.08, 0.92, 0.3, 0.7 };

/* Writes the lines at the first position without an arrow. Returns false if they do not fit. */
static bool put_lines(situ__picture *p, situ__rect box, const char *const *line, int count) {
  double width = 0, height = count * LEADING;
  for (int i = 0; i < count; i++) {
    double w = situ__text_width(line[i], i ? SIZE - 1 : SIZE, false);
    if (w > width) width = w;
  }
  if (width + 8 > box.w || height + 4 > box.h) return false;
  for (int k = 0; k < PLACES; k++) {
    double top = box.y + (box.h - height) * down[k];
    if (situ__is_taken(p, (situ__rect){ box.x + (box.w - width) / 2, top, width, height })) continue;
    for (int i = 0; i < count; i++)
      write_text(p, i ? "c m" : "c", box.x + box.w / 2, top + i * LEADING + SIZE - 0.5, i ? SIZE - 1 : SIZE, false,
                 line[i]);
    return true;
  }
  return false;
}

/* Writes as many lines as fit; if not even the first one does, writes that one turned. Returns false if nothing
   fits. */
static bool put_some(situ__picture *p, situ__rect box, const char *const *line, int count) {
  for (int n = count; n > 0; n--)
    if (put_lines(p, box, line, n)) return true;
  double width = situ__text_width(line[0], SIZE, false);
  if (box.w < LEADING || box.h < width + 6) return false;
  for (int k = 0; k < PLACES; k++) {
    double top = box.y + 3 + (box.h - width - 6) * down[k];
    situ__rect at = { box.x + (box.w - LEADING) / 2, top, LEADING, width };
    if (situ__is_taken(p, at)) continue;
    write_text(p, "c", at.x + SIZE - 0.5, top + width / 2, SIZE, true, line[0]);
    return true;
  }
  return false;
}

/* ---- names of boxes -------------------------------------------------------------------------- */

/* "weight"; a number includes its parent's name: "layers.0". */
static const char *short_name(const situ_snapshot *s, int64_t i) {
  const situ__snapshot_node *node = &s->node[i];
  bool number = *node->name && !node->name[strspn(node->name, "0123456789")];
  if (!number || node->parent <= 0) return node->name;
  /* Names point to the ends of paths, so the longer one begins earlier in the same string. */
  return node->name - strlen(s->node[node->parent].name) - 1;
}

/* Writes a header at the left, or further right if arrows are there. */
static bool put_header(situ__picture *p, situ__rect box, const char *text) {
  double width = situ__text_width(text, SIZE - 1, true), free = box.w - width - 12;
  for (int k = 0; k < 3 && free >= 0; k++) {
    situ__rect at = { box.x + 6 + free * k / 2, box.y + 3, width, SIZE + 1 };
    if (situ__is_taken(p, at)) continue;
    write_text(p, "b", at.x, at.y + SIZE - 1, SIZE - 1, false, text);
    return true;
  }
  return false;
}

/* "layers.0: TransformerEncoderLayer 1.1 MiB", or a shorter form. */
static void label_header(situ__picture *p, const situ__box *box) {
  const char *name = short_name(p->s, box->node), *type = p->s->node[box->node].entry.type;
  char bytes[SITU__BYTES_TEXT];
  situ__bytes_text(box->bytes, bytes);
  bool done = false;
  for (int less = 0; less < 3 && !done; less++) {
    situ__text text = { 0 };
    situ__text_add(&text, "%s", name);
    if (less < 1 && *type) situ__text_add(&text, ": %s", type);
    if (less < 2) situ__text_add(&text, "   %s", bytes);
    p->text.failed |= done = text.failed;
    if (!done) done = put_header(p, box->at, text.data);
    situ__text_free(&text);
  }
}

static void label_tensor(situ__picture *p, const situ__box *box) {
  const situ_place_entry *e = &p->s->node[box->node].entry;
  char bytes[SITU__BYTES_TEXT], shape[SITU__PLACE_SHAPE];
  situ__text facts = { 0 };
  situ__text_add(&facts, "%s %s", e->type, situ__place_shape(e, shape));
  const char *line[] = { short_name(p->s, box->node), facts.data, situ__bytes_text(e->bytes, bytes) };
  if (facts.failed) p->text.failed = true;
  else put_some(p, box->at, line, 3);
  situ__text_free(&facts);
}

static void label_gathering(situ__picture *p, const situ__box *box) {
  char count[48], bytes[SITU__BYTES_TEXT];
  (void)snprintf(count, sizeof count, "%" PRId64 " small parts", box->parts);
  const char *line[] = { count, situ__bytes_text(box->bytes, bytes) };
  if (put_some(p, box->at, line, 2)) return;
  (void)snprintf(count, sizeof count, "+%" PRId64, box->parts);
  (void)put_some(p, box->at, line, 1);
}

static void label_module(situ__picture *p, const situ__box *box) {
  const situ_place_entry *e = &p->s->node[box->node].entry;
  const char *name = short_name(p->s, box->node);
  char bytes[SITU__BYTES_TEXT];
  situ__text full = { 0 };
  situ__text_add(&full, "%s%s%s", name, *e->type ? ": " : "", e->type);
  const char *line[] = { full.data, situ__bytes_text(box->bytes, bytes) };
  if (full.failed) p->text.failed = true;
  else if (!put_some(p, box->at, line, 2)) (void)put_some(p, box->at, &name, 1);
  situ__text_free(&full);
}

bool situ__labels(situ__picture *p) {
  for (int64_t i = 0; i < p->count; i++) {
    const situ__box *box = &p->box[i];
    if (box->parts) label_gathering(p, box);
    else if (p->s->node[box->node].device >= 0) label_tensor(p, box);
    else if (box->header > 0) label_header(p, box);
    else if (!box->container) label_module(p, box);
  }
  return !p->text.failed;
}
