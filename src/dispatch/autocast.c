/* Autocast: casts an op's floating operands as its schema says, before the operand check. Casts of parameters are
   cached until the outermost scope ends.
   SPDX-License-Identifier: MIT */
#include "autograd/tape.h"
#include "base/alloc.h"
#include "base/fail.h"
#include "base/map.h"
#include "dispatch/dispatch.h"

/* ---- the cache: one differentiable cast per parameter, shared by all its uses ---- */

typedef struct kept {
  situ_tensor *leaf, *cast; /* both owned: otherwise another tensor could reuse the leaf's address */
  uint32_t version;         /* version of the leaf's storage when it was cast */
} kept;

static SITU__THREAD_LOCAL situ__map cache;

void situ__forget_casts(void) {
  for (size_t i = 0; i < cache.size; i++) {
    kept *k = cache.entries[i].value;
    if (!cache.entries[i].key || !k) continue;
    situ_release(k->leaf);
    situ_release(k->cast);
    situ__free(k);
  }
  situ__map_free(&cache);
}

void situ__swap_casts(situ__map *other) {
  const situ__map mine = cache;
  cache = *other;
  *other = mine;
}

/* Caches what is used repeatedly: like torch, f32 leaves that require a gradient. */
static bool worth_keeping(const situ_tensor *t, uint32_t autocast) {
  return !(autocast & SITU__AUTOCAST_NO_CACHE) && t->requires_grad && !t->node && t->view.dtype == SITU_F32;
}

/* A cast that was made without recording has no backward, so it does not fit where gradients are recorded. */
static bool fits_use(const kept *k, situ_dtype to) {
  return k->cast->view.dtype == to && k->version == situ_version_of(k->leaf) &&
         situ__same_device(k->cast->view.storage->device, k->leaf->view.storage->device) &&
         (k->cast->requires_grad || !situ__recording());
}

/* When memory runs out, the next call casts again. */
static void cache_cast(situ_tensor *leaf, situ_tensor *cast) {
  kept *k = situ__map_get(&cache, leaf);
  if (!k) {
    k = situ__calloc(1, sizeof *k);
    if (!k) return;
    if (!situ__map_put(&cache, leaf, k)) {
      situ__free(k);
      return;
    }
    k->leaf = situ_retain(leaf);
  }
  situ_set(&k->cast, cast);
  k->version = situ_version_of(leaf);
}

static situ_tensor *cast_operand(situ_tensor *t, situ_dtype to, uint32_t autocast) {
  const bool keeps = to != SITU_F32 && worth_keeping(t, autocast);
  const kept *k = keeps ? situ__map_get(&cache, t) : NULL;
  if (k && fits_use(k, to)) return k->cast;
  situ_tensor *y = situ__dispatch_up.cast_operand(t, to);
  if (y && keeps) cache_cast(t, y);
  return y;
}

/* ---- choosing the dtype ---- */

static bool castable(const situ_tensor *t) { return t && t->view.dtype >= SITU_F16 && t->view.dtype != SITU_F64; }

/* f16 has more precision, bf16 more range: only f32 has both. */
static situ_dtype find_widest(situ_tensor *const *in, int ins) {
  situ_dtype widest = SITU_DTYPE_DEFAULT;
  for (int i = 0; i < ins; i++) {
    if (!castable(in[i])) continue;
    const situ_dtype own = (situ_dtype)in[i]->view.dtype;
    widest = !widest || widest == own ? own : SITU_F32;
  }
  return widest;
}

static situ_dtype choose_dtype(situ_cast how, situ_tensor *const *in, int ins, situ_dtype low) {
  switch (how) {
  case SITU_CAST_LOW: return low;
  case SITU_CAST_F32: return SITU_F32;
  case SITU_CAST_WIDEST:
  case SITU_CAST_BACK: return find_widest(in, ins);
  case SITU_CAST_NOT: break;
  }
  return SITU_DTYPE_DEFAULT;
}

/* An operand that the op writes is never replaced by a copy. */
static bool is_cast(const situ_op *op, const situ_tensor *t, int i, situ_dtype to) {
  return castable(t) && (situ_dtype)t->view.dtype != to &&
         !(!(op->flags & SITU_OP_VARIADIC) && op->operand[i].accept & SITU_WRITTEN);
}

/* Returns the dtype to cast to if any operand has another one; DEFAULT if not, or if nothing is cast. */
static situ_dtype choose_cast(const situ_op *op, situ_tensor *const *in, int ins, situ_cast how, situ_dtype low) {
  const situ_dtype to = choose_dtype(how, in, ins, low);
  for (int i = 0; to && i < ins; i++)
    if (is_cast(op, in[i], i, to)) return to;
  return SITU_DTYPE_DEFAULT;
}

/* Returns the device of all operands; {0} if there is none or several, or if a handle is invalid or may be what a
   failed call returned: the check reports that, in the caller's scope. */
static situ_device find_device(situ_tensor *const *in, int ins) {
  situ_device device = { 0 };
  for (int i = 0; i < ins; i++) {
    if (!in[i] && !situ__scope_has_failed()) continue;
    if (!situ__alive(in[i])) return (situ_device){ 0 };
    const situ_device own = in[i]->view.storage->device;
    if (!device.kind) device = own;
    else if (!situ__same_device(own, device)) return (situ_device){ 0 };
  }
  return device;
}

/* ---- a scope for another device ---- */

/* Warns, because the user expects a speedup that does not happen. */
static void warn_unaffected(const situ_op *op, situ_tensor *const *in, int ins, situ_device here, situ_cast how,
                            uint32_t autocast) {
  unsigned kind = 1;
  while (kind < SITU_DEVICE_KINDS &&
         (!situ__autocast_of(autocast, kind) || situ__autocast_of(autocast, kind) == SITU__AUTOCAST_OFF))
    kind++;
  if (kind == SITU_DEVICE_KINDS) return;
  const situ_dtype low = (situ_dtype)situ__autocast_of(autocast, kind);
  const void *begun = situ__setting.autocast_at ? situ__setting.autocast_at : (const void *)op->autocast;
  if (!choose_cast(op, in, ins, how, low) || !situ__is_new(begun)) return;
  char name[SITU_DEVICE_NAME_MAX], site[256], at[256];
  situ__site_text(situ__setting.autocast_at, site, sizeof site);
  situ__site_text(situ__call_site(), at, sizeof at);
  situ__log("autocast for %s%s%s does nothing to %s on %s%s%s\n  its operands stay as they "
            "are; begin autocast for %s, or move them\n"
            "  (said once for each line that begins autocast)",
            situ__kind_name(kind), *site ? ", begun at " : "", site, op->name, situ_device_name(here, name),
            *at ? " at " : "", at, situ__kind_name(here.kind));
}

/* Returns how this thread's scopes cast an op's operands on a device, and sets *low to their low-precision dtype. */
static situ_cast choose_rule(const situ_op *op, situ_tensor *const *in, int ins, situ_device here, uint32_t autocast,
                             situ_dtype *low) {
  const situ_cast how = (situ_cast)op->autocast[here.kind != SITU_CPU];
  const unsigned now = how ? situ__autocast_of(autocast, here.kind) : SITU__AUTOCAST_OFF;
  if (!now) warn_unaffected(op, in, ins, here, how, autocast);
  *low = (situ_dtype)now;
  return now && now != SITU__AUTOCAST_OFF ? how : SITU_CAST_NOT;
}

/* ---- the call ---- */

static bool cast_all(const situ_op *op, situ_tensor *const *given, situ_tensor **in, int ins, situ_dtype to,
                     uint32_t autocast) {
  for (int i = 0; i < ins; i++) {
    in[i] = given[i];
    if (is_cast(op, given[i], i, to) && !(in[i] = cast_operand(given[i], to, autocast))) return false;
  }
  return true;
}

/* The casts belong to a scope of their own, which frees those that neither backward nor the cache keeps. */
static bool run_with_casts(situ_call *c, situ_dtype to, situ_dtype back, uint32_t autocast, bool (*run)(situ_call *)) {
  enum { FEW = SITU_OPERANDS };
  situ_tensor *const *given = c->in, *few[FEW], **in = few;
  if (c->ins > FEW && !(in = situ__alloc((size_t)c->ins * sizeof *in)))
    return situ__no_memory(c->op->name, (size_t)c->ins * sizeof *in), false;
  const char *outer = situ__call_as(c->op->name, "");
  situ_scope s;
  situ_scope_begin(&s);
  bool good = cast_all(c->op, given, in, c->ins, to, autocast);
  c->in = in;
  good = good && run(c);
  c->in = given;
  if (good && back && (situ_dtype)c->out[0]->view.dtype != back)
    good = (c->out[0] = situ__dispatch_up.cast_operand(c->out[0], back)) != NULL;
  for (int k = 0; good && k < c->outs; k++)
    if (c->out[k]) good = situ_escape(&s, c->out[k]) != NULL;
  SITU_IGNORE(situ_scope_end(&s));
  situ__call_end(&outer);
  if (in != few) situ__free(in);
  return good;
}

bool situ__autocast_run(situ_call *c, bool (*run)(situ_call *)) {
  const uint32_t autocast = situ__setting.autocast;
  const situ_device here = find_device(c->in, c->ins);
  if (!here.kind) return run(c); /* an error, or the call returns here with copies on one device */
  situ_dtype low;
  const situ_cast how = choose_rule(c->op, c->in, c->ins, here, autocast, &low);
  const situ_dtype to = choose_cast(c->op, c->in, c->ins, how, low);
  situ__setting.autocast = 0; /* an op made of other ops has chosen its dtypes */
  const bool good = to ? run_with_casts(c, to,
                                        how == SITU_CAST_BACK && castable(c->in[0]) ? (situ_dtype)c->in[0]->view.dtype
                                                                                    : SITU_DTYPE_DEFAULT,
                                        autocast, run)
                       : run(c);
  situ__setting.autocast = autocast;
  return good;
}

bool situ__autocast_operands(const situ_op *schema, situ_tensor **in, int ins) {
  const uint32_t autocast = situ__setting.autocast;
  const situ_device here = find_device(in, ins);
  situ_dtype low;
  if (!here.kind) return true; /* the policy may copy: then each of the following ops casts for itself */
  const situ_cast how = choose_rule(schema, in, ins, here, autocast, &low);
  const situ_dtype to = choose_cast(schema, in, ins, how, low);
  return !to || cast_all(schema, in, in, ins, to, autocast);
}
