/* Gradients that a captured backward adds to. A replay swaps no handles, so the sum goes into the memory of the .grad
   of before (torch's AccumulateGrad). A copy of that, which no replay makes, is .grad if a sum fails.
   SPDX-License-Identifier: MIT */
#include "autograd/pass.h"
#include "base/fail.h"
#include "device/graph/graph.h"
#include "situ/sys/graph.h"

static situ_tensor *copy_uncaptured(situ_tensor *t) {
  situ_scope s;
  (void)situ_graph_pause();
  situ_scope_begin_no_grad(&s);
  situ_tensor *copy = situ_retain(situ__autograd_up.clone(t, SITU_PRESERVE_FORMAT));
  SITU_IGNORE(situ_scope_end(&s));
  situ_graph_resume();
  return copy;
}

static bool refuse_sum(const situ__pass *p, const char *what, const char *instead) {
  return situ__graph_refuse(p->op, what, instead), false;
}

static bool prepare_sum(const situ__pass *p, situ__sink *s) {
  const situ__meta *m = s->leaf ? situ__meta_of(p->op, s->leaf) : s->meta;
  if (!m || !m->grad || s->taken) return m;
  if (situ__recording())
    return situ__graph_made(m->grad->view.storage)
               ? situ__accumulate(p->op, &s->grad, situ_retain(m->grad))
               : refuse_sum(p, "the sum with a .grad of before under create_graph (it is another tensor)",
                            "set that to NULL first, or take situ_autograd_grad");
  if (!situ__takes_gradient(p->op, m->grad, "a gradient", s->grad)) return false;
  if (situ__desc_overlaps(&m->grad->view))
    return refuse_sum(p, "the sum with a .grad whose elements share memory", "set a contiguous one first");
  return (s->before = copy_uncaptured(m->grad)) != NULL;
}

/* The sum is the sink's gradient then. */
static bool run_sum(const situ__pass *p, situ__sink *s) {
  situ_tensor *sum = s->leaf ? s->leaf->meta->grad : s->meta->grad;
  return situ__add_gradients(p->op, s->grad, sum, sum) && situ_set(&s->grad, sum);
}

bool situ__sum_captured(situ__pass *p) {
  situ__sink *const first = p->sink, *const end = first + p->sinks;
  bool good = true;
  for (situ__sink *s = first; good && s < end; s++) good = prepare_sum(p, s);
  for (situ__sink *s = first; good && s < end; s++) good = !s->before || run_sum(p, s);
  for (situ__sink *s = first; s < end; s++) {
    situ__meta *m = s->leaf ? s->leaf->meta : s->meta;
    if (s->before && !good) situ_set(&m->grad, s->before);
    situ_drop(&s->before);
  }
  return good;
}
