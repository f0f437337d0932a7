/* Squarified treemaps: areas in proportion, as square as possible.
   SPDX-License-Identifier: MIT */
#include "place/draw/picture.h"

/* Aspect ratio of the least square of `count` parts that share a strip along a side; 1 is a square. The largest part is
   the first, the smallest the last. */
static double worst(const double *weight, int64_t count, double sum, double side) {
  double least = weight[count - 1], most = weight[0], square = side * side;
  double flat = square * most / (sum * sum), steep = sum * sum / (square * least);
  return flat > steep ? flat : steep;
}

void situ__squarify(const double *weight, int64_t count, situ__rect area, situ__rect *part) {
  double left = 0;
  for (int64_t i = 0; i < count; i++) left += weight[i];
  for (int64_t i = 0; i < count;) {
    double scale = area.w * area.h / left, side = area.w < area.h ? area.w : area.h;
    /* Adds parts to the strip along the shorter side as long as its worst aspect ratio improves. In units of weight,
       the square of that side is side² / scale. */
    double unit = scale > 0 ? side / __builtin_sqrt(scale) : 0, sum = weight[i];
    int64_t n = 1;
    while (i + n < count && unit > 0 &&
           worst(weight + i, n + 1, sum + weight[i + n], unit) <= worst(weight + i, n, sum, unit))
      sum += weight[i + n++];
    double thick = side > 0 ? sum * scale / side : 0, at = 0;
    bool wide = area.w >= area.h; /* then the strip is at the left, else at the top */
    for (int64_t k = i; k < i + n; k++) {
      double length = side * weight[k] / sum;
      part[k] = wide ? (situ__rect){ area.x, area.y + at, thick, length }
                     : (situ__rect){ area.x + at, area.y, length, thick };
      at += length;
    }
    if (wide) area.x += thick, area.w -= thick;
    else area.y += thick, area.h -= thick;
    if (area.w < 0) area.w = 0; /* rounding */
    if (area.h < 0) area.h = 0;
    left -= sum;
    i += n;
    if (left <= 0) left = 1e-300; /* rounding, too; only parts without area can remain */
  }
}
