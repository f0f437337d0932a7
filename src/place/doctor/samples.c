/* Memory over time: samples that get rarer while the program runs, and their picture.
   SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <string.h>

#include "place/doctor/doctor.h"
#include "place/draw/picture.h"

void situ__doctor_know(situ_device device) {
  situ__doctor *d = &situ__doctor_now;
  if (device.kind <= SITU_DEVICE_DEFAULT || device.kind == SITU_META || device.kind >= SITU_DEVICE_KINDS) return;
  for (int i = 0; i < d->devices; i++)
    if (situ_device_equal(d->memory[i].device, device)) return;
  if (d->devices < SITU__DOCTOR_DEVICES) d->memory[d->devices++].device = device;
}

/* Keeps the larger of two samples. */
static void halve(void) {
  situ__doctor *d = &situ__doctor_now;
  for (int i = 0; i < d->devices; i++) {
    uint64_t *used = d->memory[i].used;
    for (int k = 0; k < SITU__DOCTOR_SAMPLES / 2; k++)
      used[k] = used[2 * k] > used[2 * k + 1] ? used[2 * k] : used[2 * k + 1];
    memset(used + SITU__DOCTOR_SAMPLES / 2, 0, SITU__DOCTOR_SAMPLES / 2 * sizeof *used);
  }
  d->samples = SITU__DOCTOR_SAMPLES / 2;
  d->period *= 2;
}

void situ__doctor_sample(void) {
  situ__doctor *d = &situ__doctor_now;
  if (d->samples == SITU__DOCTOR_SAMPLES) halve();
  for (int i = 0; i < d->devices; i++) {
    situ__doctor_memory *m = &d->memory[i];
    situ_device_properties has;
    if (situ_device_info(m->device, &has) != SITU_OK) continue;
    m->used[d->samples] = has.memory_used;
    if (has.memory_used > m->peak) m->peak = has.memory_used;
  }
  d->samples++;
}

/* ---- the picture ---- */

enum { WIDTH = 1000, LEFT = 90, ROW = 84, HEIGHT = 60 };

static double x_of(double seconds, double whole) {
  return LEFT + (WIDTH - LEFT - 10) * (whole > 0 ? seconds / whole : 0);
}

static void put_point(situ__text *t, double x, double y) {
  situ__put_number(t, x);
  situ__text_append(t, ",", 1);
  situ__put_number(t, y);
  situ__text_append(t, " ", 1);
}

static void put_label(situ__text *t, int y, const char *class, const char *text) {
  situ__text_add(t, "<text class=\"%s\" x=\"0\" y=\"%d\">", class, y);
  situ__put_xml(t, text);
  situ__text_add(t, "</text>\n");
}

static void put_memory(situ__text *t, const situ__doctor_memory *m, int row, double whole) {
  const situ__doctor *d = &situ__doctor_now;
  const int top = row * ROW, floor = top + HEIGHT + 12;
  char name[SITU_DEVICE_NAME_MAX], bytes[SITU__BYTES_TEXT];
  put_label(t, top + 26, "b", situ_device_name(m->device, name));
  put_label(t, top + 44, "m", situ__bytes_text(m->peak, bytes));
  situ__text_add(t, "<path class=\"t%d\" d=\"M", row % 8);
  put_point(t, LEFT, floor);
  for (int i = 0; i < d->samples; i++)
    put_point(t, x_of(whole * (i + 0.5) / d->samples, whole),
              floor - HEIGHT * (m->peak ? (double)m->used[i] / (double)m->peak : 0));
  put_point(t, x_of(whole, whole), floor);
  situ__text_add(t, "z\"><title>");
  situ__text_add(t, "%s: at most %s in use", name, bytes);
  situ__text_add(t, "</title></path>\n");
}

/* At most so many marks: of more, every n-th. */
enum { MARKS = 2000 };

static void put_copies(situ__text *t, const situ__doctor_copies *copies, int top, double whole) {
  const int64_t each = copies->count / MARKS + 1;
  char from[SITU_DEVICE_NAME_MAX], to[SITU_DEVICE_NAME_MAX], bytes[SITU__BYTES_TEXT];
  put_label(t, top + 26, "b", "copies");
  situ__text_add(t, "<path class=\"rule\" d=\"M%d %dH%d\"/>\n", LEFT, top + 40, WIDTH - 10);
  for (int64_t i = 0; i < copies->count; i += each) {
    const situ_transfer *c = &copies->list[i];
    const bool move = strcmp(c->reason, "move") == 0;
    situ__text_add(t, "<path class=\"%s\" d=\"M", move ? "move" : "copy");
    situ__put_number(t, x_of(c->seconds, whole));
    situ__text_add(t, " %dv26\"><title>%s -&gt; %s, %s by ", top + 14, situ_device_name(c->from, from),
                   situ_device_name(c->to, to), situ__bytes_text(c->bytes, bytes));
    situ__put_xml(t, c->op);
    situ__put_xml(t, *c->at ? " at " : "");
    situ__put_xml(t, c->at);
    situ__text_add(t, "</title></path>\n");
  }
}

void situ__doctor_timeline(situ__text *text, const situ__doctor_copies *copies, double seconds) {
  const situ__doctor *d = &situ__doctor_now;
  const int rows = d->devices + 1;
  if (d->forked || d->samples < 1) return;
  situ__text_add(text,
                 "<svg class=\"time\" viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"memory and copies over time\">\n",
                 WIDTH, rows * ROW + 10);
  for (int i = 0; i < d->devices; i++) put_memory(text, &d->memory[i], i, seconds);
  put_copies(text, copies, d->devices * ROW, seconds);
  situ__text_add(text, "<text class=\"m\" x=\"%d\" y=\"%d\">0 s</text><text class=\"m end\" x=\"%d\" y=\"%d\">", LEFT,
                 rows * ROW - 20, WIDTH - 10, rows * ROW - 20);
  situ__text_add(text, "%.2f s</text>\n</svg>\n", seconds);
}
