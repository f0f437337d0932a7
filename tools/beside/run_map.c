/* Fits a program from a file onto three simulated devices, or runs it with a map, within limits of memory.
   SPDX-License-Identifier: MIT
   usage: run_map FILE.pt2 LIMIT [MAP]      LIMIT: bytes of each device, 0: none; prints a map, or whether the run fits */
#include <stdio.h>
#include <stdlib.h>

#include "situ/export.h"
#include "situ/place.h"
#include "situ/policy.h"
#include "situ/situ.h"
#include "situ/sys/sim.h"

enum { DEVICES = 3 };

/* All on the first device. */
static situ_tree *inputs_of(const situ_nn_module *program) {
  situ_tree *in = situ_tree_list();
  situ_export_input x;
  for (int64_t i = 0; situ_export_input_at(program, i, &x); i++) {
    situ_shape shape = { .ndim = x.ndim };
    for (int d = 0; d < x.ndim; d++) shape.dim[d] = x.size[d].size;
    const situ_options o = { .dtype = x.dtype, .device = situ_dev("sim:0") };
    in = situ_tree_append(in, situ_tree_tensor(situ_zeros(shape, &o)));
  }
  return in;
}

static int say(const char *what) {
  if (situ_error() == SITU_OK) return (void)puts(what), 0;
  (void)printf("error: %.200s\n", situ_error_message());
  return 1;
}

static int fit(situ_nn_module *m, const situ_tree *in, uint64_t limit) {
  situ_place_limit limits[DEVICES];
  situ_place_layout l;
  char text[4096] = "";
  for (int i = 0; i < DEVICES; i++) limits[i] = (situ_place_limit){ { SITU_SIM, (uint16_t)i }, limit };
  if (situ_place_fit(m, in, limits, DEVICES, NULL, &l) == SITU_OK) {
    uint64_t most = 0;
    for (int64_t i = 0; i < l.check.load_count; i++)
      if (l.check.loads[i].peak > most) most = l.check.loads[i].peak;
    (void)snprintf(text, sizeof text, "%llu %llu %.4000s", (unsigned long long)most, (unsigned long long)l.bytes,
                   l.map);
  }
  situ_place_layout_free(&l);
  return say(text);
}

static int run(situ_nn_module *m, const situ_tree *in, uint64_t limit, const char *map) {
  situ_setting before;
  for (int i = 0; i < DEVICES && limit; i++)
    if (situ_sim_budget(i, limit) != SITU_OK) return say("");
  if (situ_nn_to_map(m, map) != SITU_OK) return say("");
  situ_policy_begin(&before, (situ_policy){ SITU_POLICY_COPY, SITU_POLICY_COPY, SITU_POLICY_COPY, 0, false });
  situ_tree *out = situ_nn_call(m, in);
  for (int i = 0; out && i < DEVICES; i++)
    if (situ_synchronize((situ_device){ SITU_SIM, (uint16_t)i }) != SITU_OK) break;
  situ_policy_end(&before);
  situ_tree_free(out);
  return say("fits");
}

int main(int argc, char **argv) {
  if (argc < 3) return 2;
  situ_scope scope;
  situ_scope_begin_no_grad(&scope);
  if (situ_sim_create(DEVICES) != SITU_OK) return say("");
  situ_nn_module *m = situ_nn_eval(situ_export_load(argv[1], NULL));
  situ_tree *in = m ? inputs_of(m) : NULL;
  const uint64_t limit = strtoull(argv[2], NULL, 10);
  const int status = !in ? say("") : argc > 3 ? run(m, in, limit, argv[3]) : fit(m, in, limit);
  situ_tree_free(in);
  situ_nn_free(m);
  SITU_IGNORE(situ_scope_end(&scope));
  return status;
}
