/* A snapshot from inside: a tree in one list, parents before their parts, with sums.
   SPDX-License-Identifier: MIT */
#ifndef SITU_PLACE_SNAPSHOT_H
#define SITU_PLACE_SNAPSHOT_H

#include "base/text.h"
#include "situ/place/draw.h"

enum {
  SITU__PLACES = 256,     /* more devices than any model is spread over: sums of all fit on the stack */
  SITU__PLACE_DEPTH = 256 /* a name with more dots keeps the rest of them in its last part */
};

typedef struct situ__node {
  situ_place_entry entry;
  const char *name;    /* the last part of its path */
  int depth, device;   /* device: number in the snapshot's list; -1 for a module */
  int64_t parent, end; /* end: the entry behind its last part */
  int64_t tie;         /* the entry that it is tied to; -1: none */
} situ__node;

typedef struct situ__place_sum {
  situ_device device;
  uint64_t bytes;
  int64_t tensors; /* tied ones are not counted */
} situ__place_sum;

struct situ_snapshot {
  uint32_t head;
  situ__node *node;
  int64_t count, capacity;
  situ__place_sum device[SITU__PLACES]; /* cpu first */
  int devices;
  uint64_t bytes;
  int64_t tensors;
  char *text; /* all paths and types */
};

/* What of an entry is on each device: sum[snapshot->devices] is filled, tied tensors are counted
   with 0 bytes. Returns how many devices have tensors; *first is the first of them. */
int situ__place_spread(const situ_snapshot *s, int64_t i, situ__place_sum *sum, int *first);

/* situ_snapshot_of under another call's name, for the lines of a file (NULL: for a caller's). */
situ_snapshot *situ__snapshot_of(const char *op, const char *file, const situ_place_entry *entries, int64_t count);

/* "parameter"; "module" */
const char *situ__place_role(situ_place_role role);
/* Text that came from anywhere, fit for a terminal and for XML: what is no UTF-8, and control
   characters, as '?'. */
void situ__place_clean(situ__text *text, const char *from);
/* One character of such text: its code point, *length in bytes; '?' for what is none. */
uint32_t situ__place_char(const char *at, size_t *length);
/* Reads a device's name; false, with no error: it is none. */
bool situ__place_device_read(const char *name, situ_device *out);
/* Gives a text to the caller as snprintf does, and frees it. */
int64_t situ__place_deliver(const char *op, situ__text *text, char *buffer, size_t size);
/* Writes a text into a file as a whole. */
situ_status situ__place_write(const char *op, const char *path, const situ__text *text);

/* What differs, a line each, at most `most` of them ("... and 12 more"); returns how many there
   are, -1: no memory, recorded. */
int64_t situ__place_compare(const char *op, const situ_snapshot *before, const situ_snapshot *after, int64_t most,
                            situ__text *text);

#endif
