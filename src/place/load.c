/* Loads into a module on meta with devices by path.
   SPDX-License-Identifier: MIT */
#include "base/busy.h"
#include "base/fail.h"
#include "base/handle.h"
#include "place/place.h"

static const char op[] = "nn_load_map";

typedef struct mapped {
  situ__device_map map;
  const situ_nn_load_options *given;
} mapped;

static situ_device place(const char *path, void *payload) {
  const situ__map_rule *rule = situ__device_map_find(&((mapped *)payload)->map, path);
  return rule ? rule->device : (situ_device){ 0 };
}

static void report(situ_nn_load_problem problem, const char *path, void *payload) {
  const situ_nn_load_options *o = ((mapped *)payload)->given;
  if (o && o->report) o->report(problem, path, o->payload);
}

static situ_status count_match(const situ_nn_visit *at, void *payload) {
  (void)place(at->path, payload);
  return SITU_OK;
}

situ_status situ_nn_load_map(situ_nn_module *m, const situ_tree *state, const char *map,
                             const situ_nn_load_options *options) {
  mapped p = { .given = options };
  if (!situ__valid(op, "module", m, SITU__A_MODULE) || !situ__valid(op, "state", state, SITU__A_TREE) ||
      !situ__given(op, "map", map))
    return situ_error();
  situ_nn_load_options with = options ? *options : (situ_nn_load_options){ 0 };
  with.report = report;
  with.place = place;
  with.payload = &p;
  situ_status status = situ__device_map_parse(op, map, &p.map) ? SITU_OK : situ_error();
  if (status == SITU_OK) status = situ_nn_walk(m, SITU_NN_VISIT_TENSORS, count_match, &p);
  if (status == SITU_OK) status = situ__device_map_used(op, &p.map, "parameter or buffer");
  if (status == SITU_OK) status = situ_nn_load_state_dict(m, state, &with);
  situ__device_map_free(&p.map);
  return status;
}
