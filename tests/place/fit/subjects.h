/* What is fitted onto three simulated devices: a model on the host, its input, and how it is run.
   SPDX-License-Identifier: MIT */
#ifndef SITU_TEST_FIT_SUBJECTS_H
#define SITU_TEST_FIT_SUBJECTS_H

#include <stdlib.h>

#include "place/preflight/runs.h"
#include "situ/policy.h"

enum { SIMS = 3 };

static unsigned seed; /* of upto */
static uint64_t upto(uint64_t most) { return (uint64_t)((double)(most + 1) * rand_r(&seed) / ((double)RAND_MAX + 1)); }
static situ_device sim(int index) { return (situ_device){ SITU_SIM, (uint16_t)index }; }

static void begin_copying(situ_setting *before) {
  situ_policy_begin(before, (situ_policy){ .host_to_device = SITU_POLICY_COPY,
                                           .device_to_host = SITU_POLICY_COPY,
                                           .device_to_device = SITU_POLICY_COPY });
}

/* A model on the host, its input on sim:0, and how it is run. */
typedef struct subject {
  const struct kind *kind;
  const struct mode *mode;
  situ_nn_module *module;
  situ_tree *in;
  goal loss;
  situ_optim *optim;
} subject;

static subject subject_of(const struct kind *k, const struct mode *mode) {
  subject s = { k, mode, k->make(), SITU_TREE(input_of(k)), { k->loss, NULL }, NULL };
  if (!mode->make) situ_nn_eval(s.module);
  if (k->tokens && mode->make) s.loss.target = input_of(k);
  if (mode->make) s.optim = mode->make(situ_nn_parameters(s.module));
  return s;
}

static void free_subject(subject *s) {
  situ_optim_free(s->optim);
  situ_tree_free(s->in);
  situ_nn_free(s->module);
}

static situ_place_check_options run_of(subject *s) {
  return (situ_place_check_options){ .optims = &s->optim,
                                     .optim_count = s->optim != NULL,
                                     .loss = s->loss.loss == SUM ? NULL : own_loss,
                                     .payload = &s->loss };
}

static situ_status fit(subject *s, const uint64_t bytes[SIMS], int devices, situ_place_layout *out) {
  situ_place_limit limits[SIMS];
  for (int i = 0; i < devices; i++) limits[i] = (situ_place_limit){ sim(i), bytes[i] };
  const situ_place_fit_options o = { .run = run_of(s) };
  situ_scope scope;
  if (s->optim) situ_scope_begin(&scope);
  else situ_scope_begin_no_grad(&scope);
  const situ_status status = situ_place_fit(s->module, s->in, limits, devices, &o, out);
  SITU_IGNORE(situ_scope_end(&scope));
  return status;
}

static uint64_t peak_on(const situ_place_report *r, int device) {
  for (int64_t i = 0; i < r->load_count; i++)
    if (situ_device_equal(r->loads[i].device, sim(device))) return r->loads[i].peak;
  return 0;
}

static int begin(void **state) {
  const int failed = pair_begin(state);
  return failed | (situ_sim_create(SIMS) != SITU_OK);
}
#define FIT_TEST(name) cmocka_unit_test_setup_teardown(name, begin, pair_end)

#endif
