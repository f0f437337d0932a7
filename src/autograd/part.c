/* Which part of a tensor this rank has.
   SPDX-License-Identifier: MIT */
#include <inttypes.h>

#include "autograd/tape.h"
#include "base/alloc.h"
#include "base/fail.h"
#include "situ/sys/part.h"
#include "situ/sys/shape.h"

static bool is_part(const char *op, const situ_part *p) {
  int64_t all;
  if (!situ_shape_numel(op, &p->whole, &all)) return false;
  const bool known = p->dim >= -1 && p->dim < p->whole.ndim && p->blocks > 0;
  if (known && p->dim >= 0) all = p->whole.dim[p->dim];
  if (known && p->from >= 0 && p->from <= p->to && p->to <= all / p->blocks) return true;
  return situ__fail(SITU_E_ARG, op, "elements %" PRId64 " to %" PRId64 " of %d blocks of dimension %d are not a part",
                    p->from, p->to, p->blocks, p->dim),
         false;
}

situ_status situ_set_part(situ_tensor *t, const situ_part *part) {
  static const char op[] = "set_part";
  if (!situ__need(op, "input", t) || (part && !is_part(op, part))) return situ_error();
  situ__meta *m = part ? situ__meta_of(op, t) : t->meta;
  if (!m) return part ? situ_error() : SITU_OK;
  situ_part *copy = part ? situ__alloc(sizeof *copy) : NULL;
  if (part && !copy) return situ__no_memory(op, sizeof *copy);
  if (copy) *copy = *part;
  situ__free(m->part);
  m->part = copy;
  return SITU_OK;
}

bool situ_part_of(const situ_tensor *t, situ_part *out) {
  if (!situ__need("part_of", "input", t)) return false;
  const situ__meta *m = situ__meta_now(t);
  if (m && m->part && out) *out = *m->part;
  return m && m->part;
}
