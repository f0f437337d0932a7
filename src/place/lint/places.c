/* Lints placement: the devices and dtypes of a module's tensors, and of their gradients.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/fail.h"
#include "place/lint/lint.h"
#include "situ/sys/tensor.h"

#define DEVICE(device) situ__lint_device((device), (char[SITU_DEVICE_NAME_MAX]){ 0 })

static situ_device device_of(const situ__part *tensor) { return situ_device_of(tensor->tensor); }

static bool stated(situ_device device) { return device.kind != SITU_DEVICE_DEFAULT; }

static const void *key_of(situ_device device) {
  return (const void *)((uintptr_t)device.kind << 32 | ((uint32_t)device.index + 1u));
}

/* The device of most of a module's own tensors; on a tie its home, else the first tensor's device. */
static situ_device most(const situ__part *own, int64_t count, situ_device home) {
  situ__map counted = { 0 };
  situ_device best = device_of(own);
  int64_t best_count = 0, left = count;
  for (int64_t i = 0; i < count && left > 0; i++) {
    int64_t same = 0;
    if (situ__map_get(&counted, key_of(device_of(&own[i])))) continue;
    for (int64_t k = 0; k < count; k++) same += situ_device_equal(device_of(&own[i]), device_of(&own[k]));
    left -= same;
    if (left && !situ__map_put(&counted, key_of(device_of(&own[i])), &counted)) left = count; /* counts it again */
    bool at_home = situ_device_equal(device_of(&own[i]), home);
    if (same < best_count || (same == best_count && !at_home)) continue;
    best = device_of(&own[i]);
    best_count = same;
  }
  situ__map_free(&counted);
  return best;
}

static bool devices(situ__lint *l, const situ__part *m, const situ__part *own, int64_t count) {
  situ_device home = m->module->home, here = most(own, count, home);
  bool apart = false, good = true;
  for (int64_t i = 0; i < count && good; i++) {
    situ_device there = device_of(&own[i]);
    if (situ_device_equal(there, here)) continue;
    apart = true;
    /* Tensors without values are reported by another check. */
    if (there.kind == SITU_META || here.kind == SITU_META) continue;
    good = situ__lint_add(l, SITU_LINT_APART, SITU_LINT_ERROR, &own[i], NULL, own[i].tensor,
                          "it is on %s, and what else its module has is on %s", DEVICE(there), DEVICE(here)) &&
           situ__lint_fix(l, "if (situ_nn_to(m, situ_dev(\"%s\")) != SITU_OK) ...", DEVICE(here));
  }
  if (!good || apart || !stated(home) || here.kind == SITU_META || situ_device_equal(here, home)) return good;
  if (situ_accompanies(own[0].tensor)) return true; /* it went along with another module */
  return situ__lint_add(l, SITU_LINT_AWAY, SITU_LINT_WARNING, m, NULL, NULL,
                        "it was moved to %s, and its tensors are on %s: they were put there by "
                        "another way",
                        DEVICE(home), DEVICE(here)) &&
         situ__lint_fix(l, "if (situ_nn_to(m, situ_dev(\"%s\")) != SITU_OK) ...", DEVICE(home));
}

static bool dtypes(situ__lint *l, const situ__part *own, int64_t count) {
  const situ__part *first = NULL;
  for (int64_t i = 0; i < count; i++) {
    if (own[i].slot->kind != SITU_NN_PARAMETER) continue;
    if (!first) first = &own[i];
    situ_dtype want = situ_dtype_of(first->tensor), have = situ_dtype_of(own[i].tensor);
    if (have == want) continue;
    return situ__lint_add(l, SITU_LINT_DTYPES, SITU_LINT_WARNING, &own[i], NULL, own[i].tensor,
                          "it is %s, and %s beside it is %s", situ_dtype_name(have), first->slot->name,
                          situ_dtype_name(want)) &&
           situ__lint_fix(l, "if (situ_nn_to_dtype(m, SITU_%s) != SITU_OK) ...",
                          want == SITU_F64    ? "F64"
                          : want == SITU_F16  ? "F16"
                          : want == SITU_BF16 ? "BF16"
                                              : "F32");
  }
  return true;
}

static bool gradient(situ__lint *l, const situ__part *p) {
  const situ_tensor *grad = situ_grad(p->tensor);
  if (!grad) return true;
  bool place = !situ_device_equal(situ_device_of(grad), device_of(p));
  bool dtype = situ_dtype_of(grad) != situ_dtype_of(p->tensor);
  if (!place && !dtype) return true;
  return situ__lint_add(l, SITU_LINT_GRADIENT, SITU_LINT_ERROR, p, NULL, p->tensor,
                        "its gradient is %s on %s, and the parameter is %s on %s", situ_dtype_name(situ_dtype_of(grad)),
                        DEVICE(situ_device_of(grad)), situ_dtype_name(situ_dtype_of(p->tensor)),
                        DEVICE(device_of(p))) &&
         situ__lint_fix(l, "situ_nn_zero_grad(m);");
}

/* The device of a module's own tensors; {0}: it has none, or was visited before. */
static situ_device own_device(const situ__lint *l, int64_t i) {
  const situ__part *p = &l->parts[i];
  if (p->tensor || p->again || i + 1 >= l->count || !l->parts[i + 1].tensor) return (situ_device){ 0 };
  return device_of(&l->parts[i + 1]);
}

/* How many modules are on each device. */
typedef struct census {
  situ__map on; /* twice their number, plus 1 if any was put there explicitly: moved, or created with the device */
  int64_t total;
  bool any; /* any module was put anywhere */
} census;

static bool count_modules(const situ__lint *l, census *c) {
  for (int64_t i = 0; i < l->count; i++) {
    const situ_device own = own_device(l, i);
    if (!own.kind) continue;
    const bool put = stated(l->parts[i].module->home);
    const uintptr_t before = (uintptr_t)situ__map_get(&c->on, key_of(own));
    if (!situ__map_put(&c->on, key_of(own), (void *)((before + 2) | put)))
      return situ__no_memory(l->op, sizeof(void *)), false;
    c->any |= put;
    c->total++;
  }
  return true;
}

/* True if modules were put on this device explicitly. If no module was put anywhere, true for the device of the
   majority. */
static bool is_meant(const census *c, situ_device device) {
  const uintptr_t on = (uintptr_t)situ__map_get(&c->on, key_of(device));
  return on & 1 || (!c->any && 2 * (int64_t)(on >> 1) > c->total);
}

/* True if this module stayed on the device where it was created, and no module was put there explicitly. */
static bool is_left(const situ__lint *l, const census *c, int64_t i) {
  situ_device here = own_device(l, i);
  return here.kind && !stated(l->parts[i].module->home) && !is_meant(c, here);
}

/* there: the device of the modules before it, else of those after it. */
static bool tell_left(situ__lint *l, int64_t i, situ_device there, bool spread) {
  const situ__part *p = &l->parts[i];
  if (!situ__lint_add(l, SITU_LINT_ALONE, SITU_LINT_WARNING, p, NULL, NULL,
                      "it is on %s, where it was made, and the other modules with tensors are on %s%s; "
                      "nothing has moved it there",
                      DEVICE(own_device(l, i)), DEVICE(there), spread ? " and on other devices" : ""))
    return false;
  if (!spread || !*p->path)
    return situ__lint_fix(l, "if (situ_nn_to(model, situ_dev(\"%s\")) != SITU_OK) ...", DEVICE(there));
  return situ__lint_fix(l, "if (situ_nn_to(situ_nn_get_submodule(model, \"%s\"), situ_dev(\"%s\")) != SITU_OK) ...",
                        p->path, DEVICE(there));
}

/* A few modules stayed where they were created while the others were moved: created on the wrong device, or forgotten.
   Those that were added after the last move (late) are always reported. Others a device map may have left out
   intentionally: only a single one is reported, beside others that all share one device. */
static bool left_behind(situ__lint *l, const census *c) {
  int64_t left = 0, others = 0;
  situ_device first = { 0 };
  bool spread = false;
  for (int64_t i = 0; i < l->count; i++) {
    situ_device here = own_device(l, i);
    if (here.kind == SITU_META) return true; /* not placed yet: another check reports missing values */
    if (!here.kind) continue;
    if (is_left(l, c, i)) {
      left++;
      continue;
    }
    others++;
    if (!first.kind) first = here;
    spread = spread || !situ_device_equal(first, here);
  }
  bool good = true;
  situ_device there = first;
  for (int64_t i = 0; left < others && i < l->count && good; i++) {
    const situ_device here = own_device(l, i);
    if (!is_left(l, c, i)) there = here.kind ? here : there;
    else if (l->parts[i].module->late || (!spread && left == 1)) good = tell_left(l, i, there, spread);
  }
  return good;
}

/* The device of all modules that were there before any late part; {0}: none, or several. */
static situ_device place_before(const situ__lint *l) {
  situ_device all = { 0 };
  for (int64_t i = 0; i < l->count; i++) {
    const situ_device here = own_device(l, i);
    if (!here.kind || l->parts[i].module->late) continue;
    if (all.kind && !situ_device_equal(all, here)) return (situ_device){ 0 };
    all = here;
  }
  return all;
}

static bool is_below(const situ__part *p, const situ__part *above) {
  const size_t length = strlen(above->path);
  return strncmp(p->path, above->path, length) == 0 && p->path[length] == '.';
}

/* Notes each late part in which a module stays on another device, since that was stated for it. */
static bool kept_apart(situ__lint *l) {
  const situ_device all = place_before(l);
  const situ__part *late = NULL; /* the outermost module of such a part */
  bool told = false, good = true;
  for (int64_t i = 1; all.kind && i < l->count && good; i++) {
    const situ__part *p = &l->parts[i];
    const situ_device here = own_device(l, i);
    if (p->tensor || p->again) continue;
    if (!late || !is_below(p, late)) {
      late = p->module->late ? p : NULL;
      told = false;
    }
    if (!late || told || !stated(p->module->home) || !here.kind || situ_device_equal(here, all)) continue;
    told = true;
    good = situ__lint_add(l, SITU_LINT_ALONE, SITU_LINT_NOTE, late, NULL, NULL,
                          "it was added late, and stays on %s, which was stated for it; the others are on %s",
                          DEVICE(here), DEVICE(all)) &&
           situ__lint_fix(l, "if (situ_nn_to(situ_nn_get_submodule(model, \"%s\"), situ_dev(\"%s\")) != SITU_OK) ...",
                          late->path, DEVICE(all));
  }
  return good;
}

bool situ__lint_places(situ__lint *l) {
  bool good = true;
  for (int64_t i = 0; i < l->count && good; i++) {
    const situ__part *m = &l->parts[i];
    if (m->again) continue;
    if (m->tensor) {
      if (m->slot->kind == SITU_NN_PARAMETER) good = gradient(l, m);
      continue;
    }
    /* A module's own tensors directly follow it. */
    int64_t count = 0;
    while (i + 1 + count < l->count && l->parts[i + 1 + count].tensor) count++;
    if (count) good = devices(l, m, m + 1, count) && dtypes(l, m + 1, count);
  }
  census c = { .total = 0 };
  good = good && count_modules(l, &c) && left_behind(l, &c) && kept_apart(l);
  situ__map_free(&c.on);
  return good;
}
