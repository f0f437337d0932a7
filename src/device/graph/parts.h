/* What a graph consists of; for the files of this directory.
   SPDX-License-Identifier: MIT */
#ifndef SITU_DEVICE_GRAPH_PARTS_H
#define SITU_DEVICE_GRAPH_PARTS_H

#include "base/alloc.h"
#include "base/busy.h"
#include "base/map.h"
#include "device/graph/graph.h"
#include "situ/sys/graph.h"

/* A generator that work of the graph draws from. While a graph is recorded its seed stays, so that a draw is told from
   those of other generators by seed and offset. */
typedef struct situ__graph_stream {
  situ_generator *generator;  /* NULL: the default one */
  uint64_t seed, first, next; /* offsets of the recorded draws: first <= offset < next */
  situ_generator now;         /* its state before this replay */
} situ__graph_stream;

typedef struct situ__graph_values {
  situ_graph_values of;
  struct situ__graph_values *next, *outer; /* next: those that began before; outer: which these began within */
  struct situ__graph_values *section;      /* whose `decide` decides on the work; NULL: none */
  bool decided, skipped;                   /* of a section, in this replay */
} situ__graph_values;

/* A group of element-wise work that runs tile by tile; units: indices of the outermost dimension, each of `unit`
   elements, `step` of them in a tile. */
typedef struct situ__graph_tiles {
  size_t count; /* of pieces, from the one that has this on; 0: it runs alone */
  int64_t units, unit, step;
} situ__graph_tiles;

struct situ__graph_work {
  situ__graph_work *next, *before; /* before: only while the peak is lowered */
  const char *op;
  situ_work work;  /* its operands point into `view` */
  uint64_t offset; /* of its random numbers, after the first draw of the stream */
  int stream;      /* in situ_graph.stream; -1: it gets no random numbers, or those of a draw before the graph */
  situ__graph_values *values; /* NULL: its host values are constants */
  situ_window window;
  situ_optimizer_params params;
  situ_optimizer_item *list; /* behind the views */
  situ__graph_tiles tiles;
  situ__scratch scratch; /* of its kernel */
  size_t number;         /* of the work before it when it was recorded */
  size_t views;
  situ_view_desc view[];
};

/* Memory that the graph uses, and its address when the graph was made. */
typedef struct situ__graph_place {
  situ_storage *storage;
  const void *data;
  bool written;
  bool made;          /* by this thread since the recording began, and written first */
  bool aliased;       /* another place has some of its memory: the program's, under several tensors */
  bool gradient;      /* a .grad that is added to, or that nothing in the graph reads: it is for the program */
  bool set;           /* the first work that uses it sets all of it, and does not read it */
  bool skippable;     /* a replay may leave out work that uses it */
  bool temporary;     /* only the graph uses it */
  bool local;         /* only a group uses it, and needs no memory of the graph's */
  size_t first, last; /* times of the work that uses it first and last */
} situ__graph_place;

/* Work that the backend runs as one object, or piece by piece: its host values change. */
typedef struct situ__graph_span {
  situ__graph_work *first, *end; /* end: NULL, or the first one behind it */
  void *made;                    /* the backend's object; NULL: run piece by piece */
  bool stale;                    /* has addresses of memory that the graph does not use any more */
} situ__graph_span;

/* A tensor of the capture that another one stands in for (situ_graph_rebind). */
typedef struct situ__graph_use {
  situ_view_desc *view; /* of a piece of work */
  int64_t offset;       /* its own, from the capture */
} situ__graph_use;
typedef struct situ__graph_slot {
  struct situ__graph_slot *next;
  situ_view_desc of;            /* the tensor; the graph's places own its storage */
  const situ_view_desc *wanted; /* of the call that rebinds now: the view to stand in */
  situ_storage *storage;        /* the memory that is used now, of which this is an owner */
  const void *data;             /* its address then */
  int64_t delta;                /* added to the offsets */
  bool written;
  size_t count;
  situ__graph_use use[];
} situ__graph_slot;

struct situ_graph {
  uint32_t head;
  situ__alone alone;
  situ_device device;
  uint64_t errors; /* the thread's error count at the beginning */
  uint64_t newest; /* the thread's newest storage at the beginning */
  situ__graph_work *first, **last;
  size_t length, recorded;  /* pieces of work, and those that were recorded */
  situ__graph_place *place; /* during recording: one for each operand; then the memory of others first */
  size_t places;
  int64_t capacity;
  situ__map known; /* during recording: number of a storage's last place, from 1, among the first `noted` places */
  size_t noted;
  size_t shared;         /* number of places whose memory others may see */
  situ__scratch scratch; /* without memory: counts what a kernel on the cpu wants while it is recorded */
  situ_storage *block;   /* memory of temporaries, and of kernels' scratch; NULL: none is needed */
  situ__graph_span *span;
  size_t spans;
  situ__graph_stream *stream; /* the first one is that of the default generator */
  size_t streams;
  bool lost_draw;                       /* it is not known which stream random numbers came from */
  situ__graph_values *values, *current; /* current: those of work that is recorded now */
  situ__graph_slot *slots;
};

/* Whether a replay takes values of this work anew. */
static inline bool situ__graph_is_live(const situ__graph_work *k) { return k->values || k->stream >= 0; }

/* Memory of its own, which no other storage is a part of when the recording ends. */
static inline bool situ__graph_is_plain(const situ_storage *s) {
  const uint32_t special = SITU_STORAGE_FOREIGN | SITU_STORAGE_SLICE | SITU__STORAGE_NOWHERE | SITU_STORAGE_BLOCKS;
  return s->bytes && !(s->flags & special);
}
/* All elements of its storage, in their order. */
static inline bool situ__graph_is_whole(const situ_view_desc *v) {
  return v->contiguous && v->offset == 0 && (size_t)v->numel * situ__dtypes[v->dtype].size == v->storage->bytes;
}
/* Whether v, one of k's views, is written. */
static inline bool situ__graph_writes(const situ__graph_work *k, const situ_view_desc *v) {
  for (int i = 0; i < k->work.ins; i++)
    if (k->work.in[i] == v) return false;
  for (int64_t i = 0; i < k->work.list_count; i++)
    if (k->list[i].grad == v) return false;
  return true;
}
static inline bool situ__graph_is_elementwise(const situ_work *w) {
  switch (w->verb) {
  case SITU_VERB_COPY:
  case SITU_VERB_UNARY:
  case SITU_VERB_UNARY_GRAD:
  case SITU_VERB_BINARY:
  case SITU_VERB_TERNARY: return w->outs == 1 && w->out[0];
  default: return false;
  }
}

/* ---- host values (values.c) ---- */
/* Notes the default generator's state. Returns false if memory runs out. */
bool situ__graph_open_streams(situ_graph *g);
/* Says where the work gets its host values. Returns an error if a replay could not tell. */
situ_status situ__graph_bind(const char *op, situ_graph *g, situ__graph_work *kept);
/* Before a replay: draws from the generators, and sets the host values of all work. On error no generator has
   changed. */
situ_status situ__graph_refresh(situ_graph *g);
/* When the turn of a piece of work comes that is in a section: decides, once in a replay, and then sets the host values
   of the section's work. */
situ_status situ__graph_enter(const situ__graph_work *k, bool *skip);
/* After a replay; ran: all of its work ran, or was skipped. */
void situ__graph_ended(situ_graph *g, bool ran);
void situ__graph_free_values(situ_graph *g);

/* ---- memory (plan.c, reuse.c) ---- */
/* Notes which places only the graph uses, and which have memory of others. */
situ_status situ__graph_mark_places(situ_graph *g);
/* Returns the index of a storage's place. Call before situ__graph_plan, which sorts the places otherwise. */
size_t situ__graph_find(const situ_graph *g, const situ_storage *storage);
/* Lets results take over the memory of temporaries that nothing reads afterwards, and drops copies that are left with
   nothing to do. */
situ_status situ__graph_reuse(situ_graph *g);

/* Computes results later, or again, where that lowers the most memory that the graph needs at a time (peak.c). */
situ_status situ__graph_lower_peak(situ_graph *g);
bool situ__graph_reserve_places(situ_graph *g, size_t more);

void situ__graph_free_slots(situ_graph *g); /* rebind.c */

/* ---- groups (fuse.c) ---- */
/* Finds element-wise work that can run tile by tile. */
void situ__graph_fuse(situ_graph *g);
situ_status situ__graph_run_group(const situ__graph_work *first, const situ_backend *backend);
/* Moves memory that only the graph uses into one block, where what is not needed at the same time shares bytes. The
   others are the first g->shared places afterwards. */
situ_status situ__graph_plan(situ_graph *g);

#endif
