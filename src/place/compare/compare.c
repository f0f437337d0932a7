/* Compares two devices: finds the first call that differs, and whether it is the cause.
   SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/busy.h"
#include "base/fail.h"
#include "base/handle.h"
#include "place/compare/compare.h"
#include "situ/random.h"

static const char op[] = "place_compare";

/* What differs first, and where it is measured. */
typedef struct verdict {
  const situ__distance *apart, *before;
  const char *module, *tensor;
  bool backward, own, strayed;
  int64_t event;
} verdict;

static const situ__call_event *caller_of(const situ__comparing *c, const situ__call_event *e) {
  return c->event[e->caller < 0 ? e->begin : e->caller];
}

/* What goes wrong at the begin of a call was computed by the one around it. */
static bool find_value(const situ__comparing *c, verdict *v) {
  for (int64_t i = 0; i < c->count; i++) {
    const situ__call_event *e = c->event[i];
    if (!situ__distance_differs(c, &e->value)) continue;
    const bool begins = e->begin == i && !e->part;
    const situ__call_event *by = begins ? caller_of(c, e) : e;
    *v = (verdict){ .apart = &e->value,
                    .before = &c->event[e->part ? e->caller : by->begin]->value,
                    .module = by->path,
                    .tensor = begins ? "input" : "output",
                    .event = i };
    return true;
  }
  return false;
}

/* The same in reverse: what goes wrong at the end of a call was computed by the one around it. */
static bool find_gradient(const situ__comparing *c, verdict *v) {
  for (int64_t i = c->count - 1; i >= 0; i--) {
    const situ__call_event *e = c->event[i];
    const bool begins = e->begin == i, differs = situ__distance_differs(c, &e->grad);
    const bool own = !differs && situ__distance_differs(c, &e->own);
    if (!differs && !own) continue;
    const situ__call_event *by = begins ? e : caller_of(c, e);
    *v = (verdict){ .apart = own ? &e->own : &e->grad,
                    .before = &c->event[by->end]->grad,
                    .module = by->path,
                    .tensor = own      ? e->parameter
                              : begins ? "input"
                                       : "output",
                    .backward = true,
                    .own = own,
                    .event = i };
    return true;
  }
  return false;
}

static bool find(const situ__comparing *c, verdict *v) {
  if (find_value(c, v)) return true;
  if (c->strayed >= 0) {
    const int64_t i = c->strayed < c->count ? c->strayed : c->count - 1;
    static const situ__distance whole = { .absolute = INFINITY }, none;
    *v = (verdict){ .apart = &whole, .before = &none, .tensor = "", .strayed = true, .event = i };
    v->module = c->count ? caller_of(c, c->event[i])->path : "";
    return true;
  }
  return find_gradient(c, v);
}

/* "the model itself", "encoder.fc1". */
static const char *shown(const char *path) { return *path ? path : "the model itself"; }

static void describe(const situ__comparing *c, const verdict *v, situ_device a, situ_device b,
                     situ_place_comparison *out) {
  char one[SITU_DEVICE_NAME_MAX], other[SITU_DEVICE_NAME_MAX], what[160];
  const situ__call_event *e = c->event[v->event];
  const bool between = !v->strayed && strcmp(e->path, v->module) != 0;
  (void)situ_device_name(a, one);
  (void)situ_device_name(b, other);
  if (v->strayed) {
    (void)snprintf(out->text, sizeof out->text,
                   "%s calls other modules on %s than on %s, or with another number of tensors, from %s on",
                   shown(v->module), other, one, shown(e->path));
    return;
  }
  (void)snprintf(what, sizeof what, "%s%s%.100s%s", v->backward ? "the gradient of " : "",
                 v->own    ? ""
                 : between ? "its part's "
                           : "its ",
                 v->tensor, between ? ", in its own code," : "");
  (void)snprintf(out->text, sizeof out->text,
                 "%s differs: %s on %s is up to %.3g from that on %s, relatively %.3g (its %s by %.3g). %s",
                 shown(v->module), what, other, out->absolute, one, out->relative,
                 v->backward ? "results' gradients" : "inputs", out->before,
                 out->caused ? "It does so with equal ones too: it is the cause"
                             : "With equal ones it does not: it has made a difference larger that came from before it");
}

static bool compare(situ__comparing *c, situ_device a, situ_device b, situ_place_comparison *out) {
  verdict v;
  c->pass = SITU__PASS_A;
  if (!situ__compare_run(c, a)) return false;
  c->pass = SITU__PASS_B;
  if (!situ__compare_run(c, b)) return false;
  for (int64_t i = 0; i < c->count; i++) out->calls += c->event[i]->begin == i;
  if (!find(c, &v)) return true;
  out->differs = true;
  out->backward = v.backward;
  out->caused = v.strayed;
  out->absolute = v.apart->absolute;
  out->relative = situ__distance_relative(v.apart);
  out->before = situ__distance_relative(v.before);
  (void)snprintf(out->module, sizeof out->module, "%s", v.module);
  (void)snprintf(out->tensor, sizeof out->tensor, "%s", v.tensor);
  if (!v.strayed) {
    c->pass = v.backward ? SITU__PASS_GRADIENTS_GIVEN : SITU__PASS_VALUES_GIVEN;
    if (!situ__compare_run(c, b)) return false;
    out->caused = situ__distance_differs(c, v.apart);
  }
  describe(c, &v, a, b, out);
  return true;
}

situ_status situ_place_compare(situ_nn_module *m, const situ_tree *inputs, situ_device a, situ_device b,
                               const situ_place_compare_options *options, situ_place_comparison *out) {
  static const situ_place_compare_options plain;
  SITU__USE(use);
  if (!situ__valid(op, "module", m, SITU__A_MODULE) || !situ__valid(op, "inputs", inputs, SITU__A_TREE) ||
      !situ__module_use(op, m, &use))
    return situ_error();
  situ__comparing c = {
    .options = options ? options : &plain, .module = m, .inputs = inputs, .random = situ_get_rng_state()
  };
  if (!(c.options->tolerance >= 0))
    return situ__fail(SITU_E_ARG, op, "options.tolerance is %g: it cannot be negative", c.options->tolerance);
  if (c.options->autocast != SITU_DTYPE_DEFAULT && c.options->autocast != SITU_F16 && c.options->autocast != SITU_BF16)
    return situ__fail(SITU_E_ARG, op, "options.autocast is %s, but f16 and bf16 are possible",
                      situ_dtype_name(c.options->autocast));
  situ_place_comparison found = { .differs = false };
  const bool good = compare(&c, a, b, &found);
  situ_set_rng_state(c.random);
  situ__comparing_free(&c);
  if (!good) return situ_error();
  if (out) *out = found;
  return out || !found.differs ? SITU_OK : situ__fail(SITU_E_STATE, op, "%s", found.text);
}
