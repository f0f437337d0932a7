/* Internal header of src/place.
   SPDX-License-Identifier: MIT */
#ifndef SITU_PLACE_OWN_H
#define SITU_PLACE_OWN_H

#include "situ/place/move.h"
#include "situ/sys/move.h"

/* ---- map.c: devices by path ---- */
typedef struct situ__map_rule {
  const char *pattern;
  int length;
  situ_device device;
  int64_t matches;
} situ__map_rule;
typedef struct situ__device_map {
  situ__map_rule *rule; /* patterns point into the caller's text */
  int64_t count;
} situ__device_map;
/* Returns false after recording an error. Free the map in any case. */
bool situ__device_map_parse(const char *op, const char *text, situ__device_map *map);
void situ__device_map_free(situ__device_map *map);
/* The first rule that matches the path, or a module that contains it; NULL: none. Counts the match. */
const situ__map_rule *situ__device_map_find(const situ__device_map *map, const char *path);
/* SITU_E_ARG if a rule matched nothing; `what` there is. */
situ_status situ__device_map_used(const char *op, const situ__device_map *map, const char *what);

/* ---- move.c: the requests that move a module ---- */
typedef struct situ__move_requests {
  const char *op;
  const situ_nn_to_options *options;
  situ__device_map map;
  situ_move_request *list; /* a request for each parameter and buffer */
  int64_t count, capacity;
  struct situ__home {
    situ_nn_module *module;
    situ_device device, computes_on, computes_then; /* the last is after the move */
    situ_device from, to;                           /* where it was, and is, for its hooks */
  } * home;                                         /* and a home for each module */
  int64_t homes, home_capacity;
  int64_t failed_home, failed_hook; /* the hook that has refused the move; -1: none */
} situ__move_requests;
/* Free the requests in any case. */
situ_status situ__move_requests_of(situ__move_requests *w, const char *op, situ_nn_module *m,
                                   const situ_nn_to_options *options);
void situ__move_requests_free(situ__move_requests *w);
/* Of situ_move_plan_to_file. */
typedef struct situ__move_file {
  const char *path;
  bool keep;
} situ__move_file;
/* situ_nn_to_with, into a file or out of one, with offloads as before; NULL: neither. */
situ_status situ__move_module(const char *op, situ_nn_module *m, const situ_nn_to_options *options,
                              const situ__move_file *file);
/* The plan of these requests, which calls the hooks of the modules. NULL after recording an error. */
situ_move_plan *situ__move_requests_plan(situ__move_requests *w);

#endif
