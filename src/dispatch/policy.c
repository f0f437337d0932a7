/* A call whose operands are on several devices: depending on the thread's policy, an explained error, or the operands
   are copied to one device.
   SPDX-License-Identifier: MIT */

#include "base/alloc.h"
#include "base/fail.h"
#include "dispatch/explain.h"
#include "situ/policy.h"

static situ_device device_of(const situ_tensor *t) { return t->view.storage->device; }

/* ---- where the call runs ---- */

static bool is_written(const situ_call *c, int i) {
  return c->in_place ? i == 0 : !(c->op->flags & SITU_OP_VARIADIC) && c->op->operand[i].accept & SITU_WRITTEN;
}

/* Sets the device for the call. Returns false if there is none: operands that are written cannot move, and meta has
   no values to copy. */
static bool find_target(const situ_call *c, situ_device *target) {
  situ__majority most = situ__vote(c, SITU__BY_DEVICE);
  bool fixed = false;
  if (most.like < 0) return false;
  *target = device_of(c->in[most.like]);
  for (int i = 0; i < c->ins; i++) {
    if (!c->in[i]) continue;
    if (device_of(c->in[i]).kind == SITU_META) return false;
    if (!is_written(c, i)) continue;
    if (fixed && !situ__same_device(*target, device_of(c->in[i]))) return false;
    *target = device_of(c->in[i]);
    fixed = true;
  }
  return true;
}

/* ---- the policy ---- */

static int rule_for(situ_device from, situ_device to) {
  const situ_policy policy = situ_get_policy();
  if (situ__backend(from)->host_memory) return policy.host_to_device;
  return situ__backend(to)->host_memory ? policy.device_to_host : policy.device_to_device;
}

/* Returns the strictest rule over all copies that the call needs. */
static int find_strictest(const situ_call *c, situ_device target) {
  int strictest = SITU_POLICY_COPY;
  for (int i = 0; i < c->ins; i++) {
    if (!c->in[i] || situ__same_device(device_of(c->in[i]), target)) continue;
    int own = rule_for(device_of(c->in[i]), target);
    if (own < strictest) strictest = own;
  }
  return strictest;
}

static void warn_copy(const situ_call *c, situ_device target) {
  char text[4096], name[SITU_DEVICE_NAME_MAX];
  situ__errors own;
  situ__errors_aside(&own);
  (void)situ__explain_devices(c);
  (void)situ__errors_back(&own, text, sizeof text);
  situ__log("%s\n  copied to %s, as this thread's policy allows; this line is not warned of again", text,
            situ_device_name(target, name));
}

/* ---- the call with copies ---- */

/* The copies belong to a scope of their own, which frees those that backward does not keep. */
static bool run_with_copies(situ_call *c, situ_device target, bool (*run)(situ_call *)) {
  situ_tensor *const *given = c->in;
  situ_tensor **in = situ__alloc((size_t)c->ins * sizeof *in);
  if (!in) return situ__no_memory(c->op->name, (size_t)c->ins * sizeof *in), false;
  situ_scope s;
  situ_scope_begin(&s);
  bool good = true;
  for (int i = 0; good && i < c->ins; i++) {
    in[i] = given[i];
    if (!given[i] || situ__same_device(device_of(given[i]), target)) continue;
    int same = 0;
    while (given[same] != given[i]) same++;
    in[i] = same < i ? in[same] : situ__dispatch_up.copy_operand(c->op->name, given[i], target);
    good = in[i] != NULL;
  }
  c->in = in;
  good = good && run(c);
  c->in = given;
  for (int k = 0; good && !c->in_place && k < c->outs; k++)
    if (c->out[k]) good = situ_escape(&s, c->out[k]) != NULL;
  SITU_IGNORE(situ_scope_end(&s));
  situ__free(in);
  return good;
}

bool situ__mixed(situ_call *c, bool (*run)(situ_call *)) {
  situ_device target;
  int allowed = find_target(c, &target) ? find_strictest(c, target) : SITU_POLICY_EXPLICIT;
  if (allowed == SITU_POLICY_EXPLICIT) return situ__explain_devices(c);
  if (allowed == SITU_POLICY_WARN && situ__is_new_here(SITU__WARN_COPY, c->op)) warn_copy(c, target);
  return run_with_copies(c, target, run);
}
