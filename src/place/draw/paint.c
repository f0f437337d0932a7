/* Writes numbers, texts, colours and rectangles as SVG.
   SPDX-License-Identifier: MIT */
#include "place/draw/picture.h"

/* ---- text ------------------------------------------------------------------------------------ */

void situ__put_number(situ__text *text, double value) {
  long long tenths = (long long)(value < 0 ? value * 10 - 0.5 : value * 10 + 0.5);
  unsigned long long size = tenths < 0 ? 0ull - (unsigned long long)tenths : (unsigned long long)tenths;
  situ__text_add(text, size % 10 ? "%s%llu.%llu" : "%s%llu", tenths < 0 ? "-" : "", size / 10, size % 10);
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
    if (*c == '&') situ__text_add(text, "&amp;");
    else if (*c == '<') situ__text_add(text, "&lt;");
    else if (*c == '>') situ__text_add(text, "&gt;");
    else if (*c == '"') situ__text_add(text, "&quot;");
    else situ__text_append(text, c, 1);
  }
  situ__text_free(&clean);
}

/* ---- colours --------------------------------------------------------------------------------- */

/* One row for each device: area, frame around areas and its background, for light and for dark pages. cpu is grey. */
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
  if (s->device[device].device.kind == SITU_CPU && s->device[device].rank == s->device[0].rank) return 0;
  int before = device - (s->device[0].device.kind == SITU_CPU);
  return 1 + before % (COLOURS - 1);
}

const char *situ__colour(int hue) { return colours[hue].area; }

static void put_colours(situ__text *t, int used, bool dark) {
  for (int c = 0; c < COLOURS; c++) {
    const struct colour *at = &colours[c];
    if (!(used >> c & 1)) continue;
    const char *area = dark ? at->dark_area : at->area, *line = dark ? at->dark_line : at->line;
    situ__text_add(t, ".a%d{fill:%s;stroke:%s}.g%d{fill:%s;stroke:%s}", c, area, line, c,
                   dark ? at->dark_ground : at->ground, line);
  }
}

void situ__put_style(situ__picture *p) {
  situ__text *t = &p->text;
  int used = 0;
  for (int d = 0; d < p->s->devices; d++) used |= 1 << situ__hue(p->s, d);
  situ__text_add(t, "<style>\n"
                    "text{font-family:system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,"
                    "'DejaVu Sans',sans-serif;fill:#1c2630;white-space:pre}\n"
                    ".b{font-weight:600}.m{fill:#55616d}.c{text-anchor:middle}\n"
                    ".page{fill:#fff}.gm{fill:#f8f9fa;stroke:#b4bcc5}.d{stroke-dasharray:3 2}\n"
                    ".w{stroke:#1c2630;stroke-width:1.8;fill:none}.o{stroke:#fff;stroke-width:5;fill:none}"
                    ".h{fill:#1c2630}.p{fill:#fff;stroke:#1c2630}\n");
  put_colours(t, used, false);
  situ__text_add(t, "\n@media (prefers-color-scheme:dark){\n"
                    "text{fill:#e8edf2}.m{fill:#aab4be}.page{fill:#12161b}.gm{fill:#1b2026;stroke:#4d5761}\n"
                    ".w{stroke:#f2f5f8}.o{stroke:#12161b}.h{fill:#f2f5f8}.p{fill:#12161b;stroke:#f2f5f8}\n");
  put_colours(t, used, true);
  situ__text_add(t, "}\n</style>\n");
}

void situ__put_rect(situ__text *t, const char *class, situ__rect r, double round) {
  situ__text_add(t, "<rect class=\"%s\"", class);
  situ__put_attribute(t, "x", r.x);
  situ__put_attribute(t, "y", r.y);
  situ__put_attribute(t, "width", r.w);
  situ__put_attribute(t, "height", r.h);
  if (round > 0) situ__put_attribute(t, "rx", round);
}
