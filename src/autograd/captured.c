/* Gradients that a captured backward adds to. A replay swaps no handles, so the sum goes into the memory of the .grad
   of before (torch's AccumulateGrad). All sums are captured before the first of them runs: running out of memory
   changes no gradient.
   SPDX-License-Identifier: MIT */
#include "autograd/pass.h"
#include "base/fail.h"
#include "device/graph/graph.h"
#include "situ/sys/graph.h"

static situ_work sum_into(const situ_tensor *before, const situ_tensor *grad) {
  return (situ_work){ .verb = SITU_VERB_BINARY,
                      .op = SITU_BINARY_add,
                      .compute = (situ_dtype)before->view.dtype,
                      .ins = 2,
                      .outs = 1,
                      .in = { &grad->view, &before->view },
                      .out = { &before->view } };
}

bool situ__capture_sum(const situ__pass *p, situ__sink *s, situ_tensor *before) {
  if (situ__recording()) {
    if (situ__graph_made(before->view.storage)) return situ__accumulate(p->op, &s->grad, situ_retain(before));
    situ__graph_refuse(p->op, "the sum with a .grad of before the capture under create_graph (it is another tensor)",
                       "set that to NULL first, or take situ_autograd_grad");
    return false;
  }
  if (!situ__takes_gradient(p->op, before, "a gradient", s->grad)) return false;
  if (situ__desc_overlaps(&before->view)) {
    situ__graph_refuse(p->op, "the sum with a .grad whose elements share memory", "set a contiguous one before");
    return false;
  }
  const situ_work work = sum_into(before, s->grad);
  return (s->sum = situ__graph_take(p->op, before->view.storage->device, &work)) != NULL;
}

/* Runs a sum, which is the sink's gradient then. */
static bool run_sum(const situ__pass *p, situ__sink *s) {
  situ_tensor *before = s->leaf ? s->leaf->meta->grad : s->meta->grad;
  const situ_work work = sum_into(before, s->grad);
  (void)situ_graph_pause();
  const situ_status status = situ__run(p->op, before->view.storage->device, &work);
  situ_graph_resume();
  if (status != SITU_OK) return false;
  situ__graph_keep(s->sum);
  s->sum = NULL;
  return situ_set(&s->grad, before);
}

bool situ__run_captured_sums(situ__pass *p, bool good) {
  for (situ__sink *s = p->sink; s < p->sink + p->sinks; s++) {
    if (!s->sum) continue;
    good = good && run_sum(p, s);
    situ__graph_drop(s->sum);
    s->sum = NULL;
  }
  return good;
}
