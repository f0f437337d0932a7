/* A picture of a run, as SVG: the curves, and a sheet of held-back digits with the network's answers.
   SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "demo.h"

enum {
  WIDTH = 1120,
  HEIGHT = 620,
  PLOT_W = 400,
  PLOT_H = 190,
  LEFT = 80,
  TOP = 90,
  SHEET_X = 560,
  CELL = 52,
  PER_ROW = 10
};

typedef struct series {
  const char *name, *color;
  const double *value;
} series;

/* A round step for about five lines over a range. */
static double tick(double range) {
  double step = pow(10, floor(log10(range / 4)));
  while (range / step > 6) step *= range / step > 12 ? 5 : 2;
  return step;
}

static void plot(FILE *f, double top, const char *title, const series *lines, int count, int points, double low,
                 double high, double unit, const char *suffix) {
  fprintf(f, "<g transform='translate(%d,%g)'>\n<text class='title' x='0' y='-14'>%s</text>\n", LEFT, top, title);
  double step = tick(high - low);
  for (double v = ceil(low / step) * step; v <= high + step * 1e-6; v += step) {
    double y = PLOT_H * (1 - (v - low) / (high - low));
    fprintf(f,
            "<line class='grid' x1='0' x2='%d' y1='%.1f' y2='%.1f'/>"
            "<text class='tick' x='-8' y='%.1f' text-anchor='end'>%g%s</text>\n",
            PLOT_W, y, y, y + 4, v * unit, suffix);
  }
  for (int i = 0; i<points; i += points> 12 ? (points + 9) / 10 : 1)
    fprintf(f, "<text class='tick' x='%.1f' y='%d' text-anchor='middle'>%d</text>\n",
            points > 1 ? (double)PLOT_W * i / (points - 1) : 0, PLOT_H + 18, i + 1);
  for (int k = 0; k < count; k++) {
    fprintf(f, "<polyline fill='none' stroke='%s' stroke-width='2.5' stroke-linejoin='round' points='", lines[k].color);
    for (int i = 0; i < points; i++) {
      double v = fmin(fmax(lines[k].value[i], low), high);
      fprintf(f, "%.1f,%.1f ", points > 1 ? (double)PLOT_W * i / (points - 1) : 0,
              PLOT_H * (1 - (v - low) / (high - low)));
    }
    fprintf(f, "'/>\n<text class='key' x='%d' y='%d' fill='%s' text-anchor='end'>%s</text>\n", PLOT_W - 6,
            (count > 1 ? 18 : PLOT_H - 12) + 18 * k, lines[k].color, lines[k].name);
  }
  fprintf(f, "</g>\n");
}

/* One digit of 8 x 8 squares, with the network's answer below it; a wrong one in red with the label. */
static void digit(FILE *f, int n, const float *pixels, int64_t said, int64_t truth) {
  double x = SHEET_X + (n % PER_ROW) * CELL, y = TOP + 10 + (n / PER_ROW) * (CELL + 24);
  const double size = (CELL - 8) / 8.0;
  fprintf(f, "<g transform='translate(%g,%g)'><rect width='%d' height='%d' rx='3' class='paper'%s/>", x, y, CELL - 8,
          CELL - 8, said == truth ? "" : " stroke='#c0392b' stroke-width='2'");
  for (int i = 0; i < 64; i++)
    if (pixels[i] > 0)
      fprintf(f, "<rect x='%.2f' y='%.2f' width='%.2f' height='%.2f' fill-opacity='%.2f'/>", (i % 8) * size,
              (i / 8) * size, size, size, (double)pixels[i]);
  if (said == truth)
    fprintf(f, "<text class='said' x='%d' y='%d'>%lld</text></g>\n", (CELL - 8) / 2, CELL + 8, (long long)said);
  else
    fprintf(f, "<text class='wrong' x='%d' y='%d'>%lld, not %lld</text></g>\n", (CELL - 8) / 2, CELL + 8,
            (long long)said, (long long)truth);
}

static situ_status sheet(FILE *f, const demo_digits *d, situ_tensor *scores) {
  static float pixels[DEMO_SHOWN * 64];
  int64_t said[DEMO_SHOWN], truth[DEMO_SHOWN];
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  situ_tensor *best = situ_argmax(scores, &(situ_reduce_options){ .dim = SITU_DIMS(1) });
  SITU_TRY(situ_copy_to_host(situ_narrow(d->test_x, 0, 0, DEMO_SHOWN), pixels, sizeof pixels));
  SITU_TRY(situ_copy_to_host(situ_narrow(best, 0, 0, DEMO_SHOWN), said, sizeof said));
  SITU_TRY(situ_copy_to_host(situ_narrow(d->test_y, 0, 0, DEMO_SHOWN), truth, sizeof truth));
  for (int n = 0; n < DEMO_SHOWN; n++) digit(f, n, pixels + 64 * n, said[n], truth[n]);
  return situ_scope_end(&s);
}

situ_status demo_picture(const char *path, const demo_history *h, const demo_digits *d, situ_tensor *scores) {
  FILE *f = fopen(path, "w");
  if (!f) {
    perror(path);
    return SITU_E_IO;
  }
  double high = 0, low = 1;
  for (int e = 0; e < h->epochs; e++) {
    high = fmax(high, fmax(h->loss[e], h->test_loss[e]));
    low = fmin(low, h->accuracy[e]);
  }
  fprintf(f,
          "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 %d %d' font-family='system-ui, sans-serif'>\n"
          "<style>.title{font-size:15px;font-weight:600;fill:#222}.tick{font-size:11px;fill:#666}"
          ".key{font-size:12px;font-weight:600}"
          ".grid{stroke:#e3e3e3}.paper{fill:#f4f1ea}.said{font-size:13px;text-anchor:middle;fill:#333}"
          ".wrong{font-size:11px;text-anchor:middle;fill:#c0392b;font-weight:600}"
          ".head{font-size:20px;font-weight:700;fill:#111}.sub{font-size:12px;fill:#666}</style>\n"
          "<rect width='%d' height='%d' fill='white'/>\n"
          "<text class='head' x='%d' y='36'>Handwritten digits, read by a small convolutional network</text>\n"
          "<text class='sub' x='%d' y='56'>%d epochs in %.1f s; %.1f %% of the held-back digits right. "
          "Data: Alpaydin and Kaynak, UCI, CC BY 4.0.</text>\n",
          WIDTH, HEIGHT, WIDTH, HEIGHT, LEFT - 50, LEFT - 50, h->epochs, h->seconds, 100 * h->accuracy[h->epochs - 1]);
  const series losses[] = { { "training", "#2b6cb0", h->loss }, { "held back", "#dd6b20", h->test_loss } },
               accuracy[] = { { "held back", "#2f855a", h->accuracy } };
  plot(f, TOP + 10, "Loss (cross entropy) by epoch", losses, 2, h->epochs, 0, high * 1.05, 1, "");
  plot(f, TOP + 10 + PLOT_H + 80, "Accuracy by epoch", accuracy, 1, h->epochs, fmax(0, low - 0.02), 1, 100, " %");
  fprintf(f, "<text class='title' x='%d' y='%d'>Held-back digits, and what the network says</text>\n", SHEET_X,
          TOP - 4);
  situ_status status = sheet(f, d, scores);
  fprintf(f, "</svg>\n");
  return fclose(f) == 0 || status != SITU_OK ? status : SITU_E_IO;
}
