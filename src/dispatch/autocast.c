/* Autocast: an op's floating operands are cast as its schema says before it is checked, and what parameters were cast to
   is kept until the outermost scope ends.
   SPDX-License-Identifier: MIT */
#include "autograd/tape.h"
#include "base/alloc.h"
#include "base/fail.h"
#include "base/map.h"
#include "dispatch/dispatch.h"

/* ---- what is kept: a parameter's cast, with its way back, for as many uses as there are ---- */

typedef struct kept {
  situ_tensor *leaf, *cast; /* both owned: a leaf's address would be another's otherwise */
  uint32_t version;         /* of the leaf's memory, when it was cast */
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

/* Only what is used again and again: as in torch, an f32 leaf that wants a gradient. */
static bool worth_keeping(const situ_tensor *t, uint32_t autocast) {
  return !(autocast & SITU__AUTOCAST_NO_CACHE) && t->requires_grad && !t->node && t->view.dtype == SITU_F32;
}

/* A cast made while nothing was recorded has no way back, and is no use where one is wanted. */
static bool fits(const kept *k, situ_dtype to) {
  return k->cast->view.dtype == to && k->version == situ_version_of(k->leaf) &&
         situ__same_device(k->cast->view.storage->device, k->leaf->view.storage->device) &&
         (k->cast->requires_grad || !situ__recording());
}

/* Without memory to keep it, it is cast again the next time. */
static void keep(situ_tensor *leaf, situ_tensor *cast) {
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

static situ_tensor *cast(situ_tensor *t, situ_dtype to, uint32_t autocast) {
  const bool keeps = to != SITU_F32 && worth_keeping(t, autocast);
  const kept *k = keeps ? situ__map_get(&cache, t) : NULL;
  if (k && fits(k, to)) return k->cast;
  situ_tensor *y = situ__dispatch_up.cast_operand(t, to);
  if (y && keeps) keep(t, y);
  return y;
}

/* ---- what is to be cast ---- */

static bool castable(const situ_tensor *t) { return t && t->view.dtype >= SITU_F16 && t->view.dtype != SITU_F64; }

/* Of 16 bits f16 has the precision and bf16 the range: only f32 has both. */
static situ_dtype widest(situ_tensor *const *in, int ins) {
  situ_dtype widest = SITU_DTYPE_DEFAULT;
  for (int i = 0; i < ins; i++) {
    if (!castable(in[i])) continue;
    const situ_dtype own = (situ_dtype)in[i]->view.dtype;
    widest = !widest || widest == own ? own : SITU_F32;
  }
  return widest;
}

static situ_dtype wanted(situ_cast how, situ_tensor *const *in, int ins, situ_dtype low) {
  switch (how) {
  case SITU_CAST_LOW: return low;
  case SITU_CAST_F32: return SITU_F32;
  case SITU_CAST_WIDEST:
  case SITU_CAST_BACK: return widest(in, ins);
  case SITU_CAST_NOT: break;
  }
  return SITU_DTYPE_DEFAULT;
}

/* What an op writes to is never a copy. */
static bool is_cast(const situ_op *op, const situ_tensor *t, int i, situ_dtype to) {
  return castable(t) && (situ_dtype)t->view.dtype != to &&
         !(!(op->flags & SITU_OP_VARIADIC) && op->operand[i].accept & SITU_WRITTEN);
}

/* The dtype that operands are to have, if any has another; else, and where there is nothing to say, DEFAULT. */
static situ_dtype change(const situ_op *op, situ_tensor *const *in, int ins, situ_cast how, situ_dtype low) {
  const situ_dtype to = wanted(how, in, ins, low);
  for (int i = 0; to && i < ins; i++)
    if (is_cast(op, in[i], i, to)) return to;
  return SITU_DTYPE_DEFAULT;
}

/* The one device of all operands; {0}: there is none, or a handle is no tensor, which the check will tell. */
static situ_device common(situ_tensor *const *in, int ins) {
  situ_device device = { 0 };
  for (int i = 0; i < ins; i++) {
    if (!in[i]) continue;
    if (!situ__alive(in[i])) return (situ_device){ 0 };
    const situ_device own = in[i]->view.storage->device;
    if (!device.kind) device = own;
    else if (!situ__same_device(own, device)) return (situ_device){ 0 };
  }
  return device;
}

/* ---- a scope that is not for the device at hand ---- */

/* Silence would be taken for speed that is not there. */
static void warn(const situ_op *op, situ_tensor *const *in, int ins, situ_device here, situ_cast how,
                 uint32_t autocast) {
  unsigned kind = 1;
  while (kind < SITU_DEVICE_KINDS &&
         (!situ__autocast_of(autocast, kind) || situ__autocast_of(autocast, kind) == SITU__AUTOCAST_OFF))
    kind++;
  if (kind == SITU_DEVICE_KINDS) return;
  const situ_dtype low = (situ_dtype)situ__autocast_of(autocast, kind);
  const void *begun = situ__setting.autocast_at ? situ__setting.autocast_at : (const void *)op->autocast;
  if (!change(op, in, ins, how, low) || !situ__is_new(begun)) return;
  char name[SITU_DEVICE_NAME_MAX], site[256], at[256];
  situ__site_text(situ__setting.autocast_at, site, sizeof site);
  situ__site_text(situ__call_site(), at, sizeof at);
  situ__log("autocast for %s%s%s does nothing to %s on %s%s%s\n  its operands stay as they "
            "are; begin autocast for %s, or move them\n"
            "  (said once for each line that begins autocast)",
            situ__kind_name(kind), *site ? ", begun at " : "", site, op->name, situ_device_name(here, name),
            *at ? " at " : "", at, situ__kind_name(here.kind));
}

/* How this thread's scopes would have an op's operands on a device; *low: what they call low. */
static situ_cast rule(const situ_op *op, situ_tensor *const *in, int ins, situ_device here, uint32_t autocast,
                      situ_dtype *low) {
  const situ_cast how = (situ_cast)op->autocast[here.kind != SITU_CPU];
  const unsigned now = how ? situ__autocast_of(autocast, here.kind) : SITU__AUTOCAST_OFF;
  if (!now) warn(op, in, ins, here, how, autocast);
  *low = (situ_dtype)now;
  return now && now != SITU__AUTOCAST_OFF ? how : SITU_CAST_NOT;
}

/* ---- the call ---- */

static bool cast_all(const situ_op *op, situ_tensor *const *given, situ_tensor **in, int ins, situ_dtype to,
                     uint32_t autocast) {
  for (int i = 0; i < ins; i++) {
    in[i] = given[i];
    if (is_cast(op, given[i], i, to) && !(in[i] = cast(given[i], to, autocast))) return false;
  }
  return true;
}

/* The casts belong to a scope of their own: what neither backward nor the cache keeps is gone after the call. */
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
  const situ_device here = common(c->in, c->ins);
  if (!here.kind) return run(c); /* refused, or it comes back with copies on one device */
  situ_dtype low;
  const situ_cast how = rule(c->op, c->in, c->ins, here, autocast, &low);
  const situ_dtype to = change(c->op, c->in, c->ins, how, low);
  situ__setting.autocast = 0; /* an op that is made of others has chosen its dtypes */
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
  const situ_device here = common(in, ins);
  situ_dtype low;
  if (!here.kind) return true; /* with copies, as the thread's policy has it: each op that follows casts by itself */
  const situ_cast how = rule(schema, in, ins, here, autocast, &low);
  const situ_dtype to = change(schema, in, ins, how, low);
  return !to || cast_all(schema, in, in, ins, to, autocast);
}
