/* Modules that copy their inputs to their device.
   SPDX-License-Identifier: MIT */
#include "base/fail.h"
#include "base/map.h"
#include "nn/nn.h"
#include "situ/sys/layers.h"
#include "situ/sys/tensor.h"

static const char op[] = "nn_bring_inputs";

typedef struct bringing {
  situ_device home;
  situ__map copies; /* tensor -> its copy */
} bringing;

static bool stays(const situ_tensor *t, situ_device home) {
  const situ_device own = situ_device_of(t);
  return own.kind == SITU_META || situ_device_equal(own, home);
}

static situ_tensor *bring(situ_tensor *t, void *payload) {
  bringing *b = payload;
  if (stays(t, b->home)) return t;
  situ_tensor *copy = situ__map_get(&b->copies, t);
  if (copy) return copy;
  if (!(copy = situ_bring(t, b->home)) || !situ_set_name(copy, situ_name(t))) return NULL;
  return situ__map_put(&b->copies, t, copy) ? copy : (situ__no_memory(op, sizeof(void *)), NULL);
}

static situ_status bring_all(situ_nn_module *m, situ_tree **inputs, situ_tree **output, void *payload) {
  bringing b = { .home = situ_nn_home(m) };
  (void)payload;
  if (output || !b.home.kind || b.home.kind == SITU_META) return SITU_OK;
  situ_tree *there = situ_tree_map(*inputs, bring, &b);
  situ__map_free(&b.copies);
  return situ_tree_set(inputs, there) ? SITU_OK : situ_error();
}

situ_status situ_nn_bring_inputs(situ_nn_module *m, bool on) {
  if (on && m && situ_nn_brings_inputs(m)) return SITU_OK; /* it keeps its place among the hooks */
  return situ_nn_set_own_hook(op, m, bring_all, on ? "" : NULL);
}

bool situ_nn_brings_inputs(const situ_nn_module *m) { return situ_nn_has_own_hook(m, bring_all); }
