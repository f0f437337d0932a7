/* A picture of a placement while it is drawn: boxes, arrows, and areas that labels must avoid.
   SPDX-License-Identifier: MIT */
#ifndef SITU_PLACE_PICTURE_H
#define SITU_PLACE_PICTURE_H

#include "place/draw/snapshot.h"

/* In pixels, y downwards. */
typedef struct situ__rect {
  double x, y, w, h;
} situ__rect;

/* A rectangle of the picture. */
typedef struct situ__box {
  situ__rect at;
  int64_t node;  /* its entry; for a group the first one in it */
  int64_t parts; /* > 0: a group of this many parts of one module that are too small to draw */
  uint64_t bytes;
  int device;     /* -1: several */
  double header;  /* > 0: it contains boxes, below a header of this height */
  bool container; /* it contains boxes */
} situ__box;

typedef struct situ__picture {
  const char *op;
  const situ_snapshot *s;
  situ__box *box;
  int64_t count, capacity;
  int64_t *box_of;   /* for each entry: the box that shows it */
  situ__rect *taken; /* by arrows and their labels: box labels avoid these */
  int64_t taken_count, taken_capacity;
  bool enlarged; /* some boxes are larger than their bytes, so that they are visible */
  bool dashed;   /* some boxes show buffers */
  situ__text text;
} situ__picture;

/* ---- treemap.c, boxes.c ---------------------------------------------------------------------- */
/* Divides an area into count parts proportional to weight (descending, all > 0), each as square as possible: M. Bruls,
   K. Huizing, J. J. van Wijk, Squarified Treemaps (2000). */
void situ__squarify(const double *weight, int64_t count, situ__rect area, situ__rect *part);
/* Fills p->box and p->box_of. Returns false after recording that memory is not available. */
bool situ__boxes(situ__picture *p, situ__rect area);

/* ---- arrows.c -------------------------------------------------------------------------------- */
/* Draws the copies between boxes; area contains all boxes. Returns false after recording that memory is not
   available. */
bool situ__arrows(situ__picture *p, situ__rect area, const situ_place_edge *const *edge, int64_t count);

/* ---- labels.c -------------------------------------------------------------------------------- */
/* Upper bound of a text's width in common sans-serif fonts. */
double situ__text_width(const char *text, double size, bool bold);
/* Writes the names of all boxes where they fit. */
bool situ__labels(situ__picture *p);
/* A text in one line of at most `width` pixels, shortened in the middle if necessary. */
void situ__put_text(situ__picture *p, const char *class, double x, double y, double size, double width,
                    const char *text);
bool situ__take(situ__picture *p, situ__rect r);
bool situ__is_taken(const situ__picture *p, situ__rect r);

/* ---- paint.c --------------------------------------------------------------------------------- */
/* A number with one decimal, the same in every locale. */
void situ__put_number(situ__text *text, double value);
/* ` name="1.5"` */
void situ__put_attribute(situ__text *text, const char *name, double value);
/* Text, escaped for content or an attribute. */
void situ__put_xml(situ__text *text, const char *from);
/* `<rect class="a1" x=...` without the end of the tag. */
void situ__put_rect(situ__text *text, const char *class, situ__rect r, double round);
/* Colour index of a device, 0 to 7; cpu always has 0. -1 for several devices. */
int situ__hue(const situ_snapshot *s, int device);
/* Its area's colour on light pages: "#ccd4dc". */
const char *situ__colour(int hue);
void situ__put_style(situ__picture *p);

/* ---- around.c -------------------------------------------------------------------------------- */
enum { SITU__MARGIN = 24, SITU__ROW = 20 }; /* of the page; of a line of notes */
/* Draws title, total, the shares as a bar, and a legend. Returns the y where boxes may begin. */
double situ__put_head(situ__picture *p, const char *title, double width);

enum { SITU__LISTED = 5 }; /* copies listed as text */
typedef struct situ__notes {
  situ__text line[SITU__LISTED + 4];
  int count;
} situ__notes;
/* Notes on the largest copies, and on tied tensors. */
void situ__note_facts(situ__notes *n, const situ__picture *p, const situ_place_edge *const *edge, int64_t count);
/* Notes that explain boxes of the finished layout. */
void situ__note_signs(situ__notes *n, const situ__picture *p);
/* Writes the notes from y on, and frees them. */
void situ__put_notes(situ__picture *p, situ__notes *n, double y, double width);

#endif
