/* A picture of a placement while it is being drawn: boxes, arrows, and the room that texts have
   taken.
   SPDX-License-Identifier: MIT */
#ifndef SITU_PLACE_PICTURE_H
#define SITU_PLACE_PICTURE_H

#include "place/draw/snapshot.h"

/* In pixels, y downwards. */
typedef struct situ__rect {
  double x, y, w, h;
} situ__rect;

/* What is drawn as one area. */
typedef struct situ__box {
  situ__rect at;
  int64_t node;  /* the entry; of a gathering the first one in it */
  int64_t parts; /* > 0: a gathering of so many parts of one module that are too small to be seen */
  uint64_t bytes;
  int device;     /* -1: on several */
  double header;  /* > 0: it has boxes in it, below a header of this height */
  bool container; /* it has boxes in it */
} situ__box;

typedef struct situ__picture {
  const char *op;
  const situ_snapshot *s;
  situ__box *box;
  int64_t count, capacity;
  int64_t *box_of;   /* of each entry: the box that shows it */
  situ__rect *taken; /* by arrows and their texts: labels keep away */
  int64_t taken_count, taken_capacity;
  bool enlarged; /* some boxes are larger than their bytes, to be seen at all */
  bool dashed;   /* some boxes are of buffers */
  situ__text text;
} situ__picture;

/* ---- treemap.c, boxes.c ---------------------------------------------------------------------- */
/* Cuts an area into count parts proportional to weight (falling, all > 0), each as square as can
   be:
   M. Bruls, K. Huizing, J. J. van Wijk, Squarified Treemaps (2000). */
void situ__squarify(const double *weight, int64_t count, situ__rect area, situ__rect *part);
/* Fills p->box and p->box_of. false: no memory, recorded. */
bool situ__boxes(situ__picture *p, situ__rect area);

/* ---- arrows.c -------------------------------------------------------------------------------- */
/* Draws the copies between boxes; area is that of the boxes. false: no memory, recorded. */
bool situ__arrows(situ__picture *p, situ__rect area, const situ_place_edge *const *edge, int64_t count);

/* ---- labels.c -------------------------------------------------------------------------------- */
/* At most as wide as this is a text in any of the usual fonts without serifs. */
double situ__text_width(const char *text, double size, bool bold);
/* Writes the names of all boxes where they fit. */
bool situ__labels(situ__picture *p);
/* A text in one line of at most `width` pixels, shortened in the middle if need be. */
void situ__put_text(situ__picture *p, const char *class, double x, double y, double size, double width,
                    const char *text);
bool situ__take(situ__picture *p, situ__rect r);
bool situ__is_taken(const situ__picture *p, situ__rect r);

/* ---- paint.c --------------------------------------------------------------------------------- */
/* A number with one decimal, the same in every locale. */
void situ__put_number(situ__text *text, double value);
/* ` name="1.5"` */
void situ__put_attribute(situ__text *text, const char *name, double value);
/* Text between tags or in an attribute. */
void situ__put_xml(situ__text *text, const char *from);
/* `<rect class="a1" x=...` without the end of the tag. */
void situ__put_rect(situ__text *text, const char *class, situ__rect r, double round);
/* The colour of a device, 0 to 7: cpu always has 0. -1 for several. */
int situ__hue(const situ_snapshot *s, int device);
void situ__put_style(situ__picture *p);

/* ---- around.c -------------------------------------------------------------------------------- */
enum { SITU__MARGIN = 24, SITU__ROW = 20 }; /* of the page; of a line of notes */
/* Title, total, the shares as a bar, and a legend. Returns where the boxes may begin. */
double situ__put_head(situ__picture *p, const char *title, double width);

enum { SITU__LISTED = 5 }; /* copies in words */
typedef struct situ__notes {
  situ__text line[SITU__LISTED + 4];
  int count;
} situ__notes;
/* The largest copies, and what is tied. */
void situ__note_facts(situ__notes *n, const situ__picture *p, const situ_place_edge *const *edge, int64_t count);
/* What some boxes of the picture mean, once they are laid out. */
void situ__note_signs(situ__notes *n, const situ__picture *p);
/* Writes them from y on, and frees them. */
void situ__put_notes(situ__picture *p, situ__notes *n, double y, double width);

#endif
