/* See ranks.h.
   SPDX-License-Identifier: MIT */
#include "support/api/ranks.h"

#include <string.h>

#include "situ/parallel.h"
#include "situ/sys/comm_sim.h"
#include "situ/sys/part.h"
#include "support/test.h"

static void free_comm(void *c) { situ_comm_free(c); }
static void free_world(void *w) { situ_comm_sim_free(w); }
static void free_ddp(void *d) { situ_dist_ddp_free(d); }
static void free_zero(void *z) { situ_dist_zero_free(z); }
static void free_tp(void *t) { situ_dist_tp_free(t); }
static void free_pipeline(void *p) { situ_dist_pipeline_free(p); }
static void end_request(void *r) { SITU_IGNORE(situ_comm_wait(r)); }

static situ_comm_sim *world(api_world *w, api_owner owner) {
  return api_own(w, situ_comm_sim_new(1, NULL), free_world, owner);
}
situ_comm *api_comm(api_world *w, api_owner owner) {
  return api_own(w, situ_comm_sim_rank(world(w, API_KEPT), 0, NULL), free_comm, owner);
}
static situ_comm_request *request(api_world *w, api_owner owner) {
  situ_comm_request *r = NULL;
  SITU_IGNORE(situ_comm_begin(api_comm(w, API_KEPT), &(situ_comm_call){ .op = SITU_COMM_BARRIER }, &r));
  return api_own(w, r, end_request, owner);
}
static situ_dist_ddp *ddp(api_world *w, api_owner owner) {
  return api_own(w, situ_dist_ddp_new(api_trained(w), api_comm(w, API_KEPT), NULL), free_ddp, owner);
}
static situ_dist_tp *tp(api_world *w, api_owner owner) {
  const situ_dist_parallel plan = { .path = "a" };
  return api_own(w, situ_dist_tp_new(api_container(w), api_comm(w, API_KEPT), &plan, 1), free_tp, owner);
}
situ_dist_zero *api_zero(api_world *w, api_owner owner) {
  situ_tree *parameters = situ_nn_parameters(api_trained(w));
  assert_int_equal(
      situ_backward(situ_sum(situ_nn_forward(api_trained(w), api_tensor(w, SITU_F32, SITU_SHAPE(2, 2))), NULL), NULL),
      SITU_OK);
  return api_own(w, situ_dist_zero_new(parameters, api_comm(w, API_KEPT), situ_optim_sgd, 1e-3, NULL), free_zero,
                 owner);
}

static situ_tensor *sum_up(situ_tensor *output, situ_tensor *target, void *payload) {
  return target && payload ? NULL : situ_sum(output, NULL);
}
static situ_dist_pipeline *pipeline(api_world *w, api_owner owner) {
  const situ_dist_pipeline_options options = { .loss = sum_up };
  return api_own(w, situ_dist_pipeline_new(api_trained(w), api_comm(w, API_KEPT), &options), free_pipeline, owner);
}
void api_ranks_struct(const char *name, void *at) {
  if (strcmp(name, "situ_dist_parallel") == 0) ((situ_dist_parallel *)at)->path = "a";
  if (strcmp(name, "situ_part") == 0)
    *(situ_part *)at = (situ_part){ .whole = SITU_SHAPE(2, 3), .dim = 1, .blocks = 1, .to = 2 };
  if (strcmp(name, "situ_dist_pipeline_options") == 0) ((situ_dist_pipeline_options *)at)->loss = sum_up;
}

void *api_ranks_object(api_world *w, const char *pointee, api_owner owner) {
#define IS(what) (strcmp(pointee, #what) == 0)
  if (IS(situ_comm)) return api_comm(w, owner);
  if (IS(situ_comm_request)) return request(w, owner);
  if (IS(situ_comm_sim)) return world(w, owner);
  if (IS(situ_dist_ddp)) return ddp(w, owner);
  if (IS(situ_dist_zero)) return api_zero(w, owner);
  if (IS(situ_dist_tp)) return tp(w, owner);
  if (IS(situ_dist_pipeline)) return pipeline(w, owner);
#undef IS
  return NULL;
}
