/* The vote of a call's operands: the device of most of them, and the dtype of most of them. The check, the copy
   policy, the preflight and the message all use it, so that they agree.
   SPDX-License-Identifier: MIT */
#include "dispatch/explain.h"

/* A device or dtype, with its votes. */
typedef struct tally {
  int key, first; /* index of the first operand that has it */
  int64_t count, parts;
} tally;

int situ__vote_key(const situ_call *c, situ__by by, int i) {
  if (!situ__alive(c->in[i])) return -1;
  const situ_view_desc *v = &c->in[i]->view;
  if (by == SITU__BY_DEVICE) return v->storage->device.kind << 16 | v->storage->device.index;
  if (situ__blocks_of(v)) return -1;
  /* Dtypes must be equal only where the schema says so. */
  return c->op->operand[c->op->flags & SITU_OP_VARIADIC ? 0 : i].accept & SITU_SAME ? v->dtype : -1;
}

static bool is_part(const situ_tensor *t) { return t->role == SITU_ROLE_PARAMETER || t->role == SITU_ROLE_BUFFER; }

enum { KINDS = 16 }; /* maximum number of different devices or dtypes; later ones do not count */

static int count_votes(const situ_call *c, situ__by by, tally list[KINDS]) {
  int kinds = 0;
  for (int i = 0; i < c->ins; i++) {
    int key = situ__vote_key(c, by, i), k = 0;
    if (key < 0) continue;
    while (k < kinds && list[k].key != key) k++;
    if (k == KINDS) continue;
    if (k == kinds) list[kinds++] = (tally){ .key = key, .first = i };
    list[k].count++;
    list[k].parts += is_part(c->in[i]);
  }
  return kinds;
}

/* Returns the device or dtype of the running module as a key; -1 if there is none or it is mixed. */
static int module_key(const situ_call *c, situ__by by) {
  enum { FEW = SITU_OPERANDS };
  situ_explained operand[FEW];
  situ_explanation e = { .operand = operand };
  for (int i = 0; i < c->ins && e.count < FEW; i++)
    if (situ__alive(c->in[i])) operand[e.count++] = (situ_explained){ .tensor = c->in[i] };
  situ_explain_look(&e);
  if (by == SITU__BY_DTYPE) return e.dtype ? (int)e.dtype : -1;
  return e.home.kind ? e.home.kind << 16 | e.home.index : -1;
}

/* An operand that is written in place decides alone. Otherwise the dtype of the rest of the model decides first: a
   layer that was left out of a cast has two operands against one. Then the majority decides; in a draw parameters and
   buffers, then the module's device. */
static bool beats(const situ_call *c, situ__by by, int module, const tally *a, const tally *b) {
  if (c->in_place && (a->first == 0 || b->first == 0)) return a->first == 0;
  bool ours = a->key == module, theirs = b->key == module;
  if (by == SITU__BY_DTYPE && ours != theirs) return ours;
  if (a->count != b->count) return a->count > b->count;
  if (a->parts != b->parts) return a->parts > b->parts;
  return ours && !theirs;
}

situ__majority situ__vote(const situ_call *c, situ__by by) {
  tally list[KINDS];
  int kinds = count_votes(c, by, list), best = 0, module = -1;
  if (!kinds) return (situ__majority){ .like = -1 };
  if (kinds == 1) return (situ__majority){ .like = list[0].first, .decided = true };
  if (!c->in_place) module = module_key(c, by);
  for (int k = 1; k < kinds; k++)
    if (beats(c, by, module, &list[k], &list[best])) best = k;
  bool decided = true;
  for (int k = 0; k < kinds; k++)
    if (k != best && !beats(c, by, module, &list[best], &list[k])) decided = false;
  return (situ__majority){ .like = list[best].first, .decided = decided };
}
