/* The preflight from inside: the recorder of one run.
   SPDX-License-Identifier: MIT */
#ifndef SITU_PLACE_CHECK_INSIDE_H
#define SITU_PLACE_CHECK_INSIDE_H

#include "situ/place/check.h"
#include "situ/sys/dry.h"

/* What is known of a storage of the run. */
typedef struct situ__trail {
  char *from;   /* path of the module that made it, or of the parameter or buffer that it is of */
  int64_t edge; /* the copy that it is the target of, until somebody uses it; -1: none */
} situ__trail;

typedef struct situ__preflight {
  situ_dry dry; /* first: the recorder is handed back as this */
  situ_place_report report;
  int64_t finding_room, edge_room, load_room;
  struct situ__held {
    uint64_t now;
  } * held; /* as long as report.loads */
  struct situ__trip {
    int64_t edge; /* of the report */
    uint64_t bytes;
    const char *op; /* static text */
    bool returned;  /* its gradient has come back in this backward pass */
  } * trips;        /* copies of the forward, in their order */
  int64_t trip_count, trip_room;
  const char *root; /* what the module itself is called */
  bool counting;    /* forward has begun: launches and copies are its own */
  bool backward;    /* it is on its way back */
  bool failed;      /* no memory: what is found is not all */
} situ__preflight;

/* ---- check_note.c: what it takes down ---- */
void situ__preflight_watch(situ__preflight *p);
/* Adds a finding of its own; texts are copied, NULL is "". A finding that is there already is
   counted. */
void situ__preflight_add(situ__preflight *p, const situ_place_finding *finding);
/* Backward begins from another result. */
void situ__preflight_pass(situ__preflight *p);
situ_place_load *situ__preflight_load(situ__preflight *p, situ_device device);
/* Says what a storage is of: "encoder.fc1.weight". */
void situ__preflight_name(situ__preflight *p, const situ_storage *storage, const char *path);

#endif
