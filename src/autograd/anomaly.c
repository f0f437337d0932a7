/* torch.autograd.set_detect_anomaly: names the call whose backward gives NaN.
   SPDX-License-Identifier: MIT */
#include "autograd/anomaly.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"

SITU__THREAD_LOCAL situ__anomaly_mode situ__anomaly;

void situ_autograd_set_detect_anomaly(bool mode, bool check_nan) {
  situ__anomaly = (situ__anomaly_mode){ mode, mode && check_nan };
}
bool situ_is_anomaly_enabled(void) { return situ__anomaly.detects; }

struct situ__origin_of_call {
  void *site;
  char module[256];
};

struct situ__origin_of_call *situ__anomaly_origin(const char *op) {
  struct situ__origin_of_call *o = situ__alloc(sizeof *o);
  if (!o) return situ__no_memory(op, sizeof *o), NULL;
  o->site = situ__call_site();
  situ__autograd_up.module_path(o->module, sizeof o->module);
  return o;
}

static bool refuse_nan(const char *op, const situ__node *n, int i) {
  char site[256] = "", where[640] = "; it was recorded before anomalies were detected";
  const struct situ__origin_of_call *o = n->origin;
  if (o)
    (void)snprintf(where, sizeof where, ", which was called at %s%s%s", situ__site_text(o->site, site, sizeof site),
                   *o->module ? " in module " : "", o->module);
  return situ__fail(SITU_E_STATE, op, "the gradient by operand %d of %s is NaN%s", i, n->name, where), false;
}

bool situ__anomaly_check(const char *op, const situ__node *n, situ_tensor *const *dx) {
  const situ__anomaly_mode mode = situ__anomaly;
  bool good = true, found = false;
  situ__anomaly = (situ__anomaly_mode){ 0 };
  for (int i = 0; good && i < n->ins; i++) {
    if (!dx[i] || dx[i]->view.storage->device.kind == SITU_META || situ__is_sample(dx[i])) continue;
    good = situ__autograd_up.has_nan(dx[i], &found) && (!found || refuse_nan(op, n, i));
  }
  situ__anomaly = mode;
  return good;
}
