/* Internals of snapshots: a tree as one list, parents before their parts, with sums.
   SPDX-License-Identifier: MIT */
#ifndef SITU_PLACE_SNAPSHOT_H
#define SITU_PLACE_SNAPSHOT_H

#include "base/text.h"
#include "situ/place/draw.h"
#include "situ/sys/explain.h"
#include "situ/sys/shape.h"

enum {
  SITU__PLACES = 256,     /* maximum number of devices of all ranks, so that their sums fit on the stack */
  SITU__PLACE_DEPTH = 256 /* a name with more dots has the rest of them in its last part */
};

typedef struct situ__snapshot_node {
  situ_place_entry entry;
  const char *name;    /* the last part of its path */
  int depth, device;   /* device: index in the snapshot's list; -1 for a module */
  int64_t parent, end; /* end: index of the entry after its last part */
  int64_t tie;         /* index of the entry that it is tied to; -1: none */
} situ__snapshot_node;

typedef struct situ__place_sum {
  situ_device device;
  int rank;
  uint64_t bytes;
  int64_t tensors; /* without tied ones */
} situ__place_sum;

struct situ_snapshot {
  uint32_t head;
  situ__snapshot_node *node;
  int64_t count, capacity;
  situ__place_sum device[SITU__PLACES]; /* by rank; cpu first */
  int devices;
  bool several; /* ranks */
  uint64_t bytes;
  int64_t tensors;
  char *text; /* all paths and types */
};

/* Fills sum[snapshot->devices] with the part of an entry on each device; tied tensors count with 0 bytes. Returns the
   number of devices that have tensors; *first is the first of them. */
int situ__place_spread(const situ_snapshot *s, int64_t i, situ__place_sum *sum, int *first);

/* situ_snapshot_of with the op for errors, and a file if entries are its lines (NULL: they are a caller's). */
situ_snapshot *situ__snapshot_of(const char *op, const char *file, const situ_place_entry *entries, int64_t count);

/* The text of situ_snapshot_svg. Returns false after recording an error. */
bool situ__snapshot_svg(const char *op, const situ_snapshot *snapshot, const situ_place_svg_options *options,
                        situ__text *text);

enum { SITU__PLACE_NAME = SITU_DEVICE_NAME_MAX + 24 };
/* "sim:0", or "rank 1, sim:0" in a snapshot of several ranks. */
const char *situ__place_name(const situ_snapshot *s, int rank, situ_device device, char buffer[SITU__PLACE_NAME]);
/* Between such names in a list. */
const char *situ__place_between(const situ_snapshot *s);

enum { SITU__PLACE_PART = 160, SITU__PLACE_SHAPE = SITU_SHAPE_TEXT + SITU__PLACE_PART };
/* Which elements of t this rank has: "[0:48]"; NULL: all. */
const char *situ__place_part(const situ_tensor *t, char buffer[SITU__PLACE_PART]);
/* Bytes of t's storage that are here, its part included. */
uint64_t situ__place_bytes(const situ_tensor *t);
/* "[16, 6]", "[16, 6][0:48]" */
const char *situ__place_shape(const situ_place_entry *e, char buffer[SITU__PLACE_SHAPE]);
/* Sets the reason of a tensor's entry, whose texts are in *facts. Returns false after recording an error. */
bool situ__place_reason(const char *op, const situ_tensor *t, situ_facts *facts, situ_place_entry *e);
bool situ__place_is_reason(const char *word);
/* Appends "moved by nn_to at train.c:12 in main" between two texts; nothing if the reason is not known. */
void situ__place_why(situ__text *text, const char *before, const situ_place_entry *e, const char *behind);
/* "parameter"; "module" */
const char *situ__place_role(situ_place_role role);
/* Untrusted text, made safe for a terminal and for XML: invalid UTF-8 and control characters become '?'. */
void situ__place_clean(situ__text *text, const char *from);
/* One character of such text: its code point, *length in bytes; '?' if it is invalid. */
uint32_t situ__place_char(const char *at, size_t *length);
/* Parses a device's name. Returns false without an error if it is invalid. */
bool situ__place_device_read(const char *name, situ_device *out);

/* Lists differences, one line each, at most `most` of them ("... and 12 more"). Returns their number, or -1 after
   recording that memory is not available. */
int64_t situ__place_compare(const char *op, const situ_snapshot *before, const situ_snapshot *after, int64_t most,
                            situ__text *text);

#endif
