/* Activations and gradients between the stages of a pipeline. Two neighbours begin their calls in one order, that of
   the earlier stage: the later one asks for activations ahead, as many as the earlier one sends before its first
   backward, and one more behind each gradient.
   SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/size.h"
#include "pipeline.h"
#include "situ/sys/shape.h"

static const char op[] = "dist_pipeline";
static const char itself[] = "this communicator";

/* Begins to carry the values of t, or to receive as many as `kind` has. */
static situ_comm_request *begin_call(const situ_dist_pipeline *p, int peer, situ_tensor *t, const situ__pipe_kind *kind,
                                     const char *what, int64_t k) {
  char name[SITU__COMM_NAME];
  SITU__ALONE(in, &p->comm->alone, op, itself);
  if (!in) return NULL;
  (void)snprintf(name, sizeof name, "%s %" PRId64, what, k);
  int64_t count = 1;
  for (int i = 0; i < kind->shape.ndim; i++) count *= kind->shape.dim[i];
  const situ_comm_call call = { t ? SITU_COMM_SEND : SITU_COMM_RECEIVE,
                                .dtype = kind->dtype,
                                .count = count,
                                .peer = peer,
                                .name = name,
                                .step = p->step };
  situ_comm_request *r = situ__comm_open(op, p->comm, &call);
  if (r && t && !situ__comm_fill(r, t)) {
    situ__comm_close(r);
    return NULL;
  }
  if (r) situ__comm_post(p->comm, r);
  /* The other rank may have asked already: values leave now, not when this rank asks the communicator next. */
  if (r && t) situ__comm_progress(p->comm);
  return r;
}

/* Waits for a call, and closes it. */
static bool end_call(situ_comm_request *r) {
  SITU__ALONE(in, &r->comm->alone, op, itself);
  return in && situ__comm_finish(op, r);
}

static bool end_send(situ_comm_request **r) {
  const bool good = !*r || end_call(*r);
  situ__comm_close(*r);
  *r = NULL;
  return good;
}

static situ_tensor *end_receive(situ_comm_request **r, const situ__pipe_kind *kind, situ_device device) {
  situ_tensor *t = end_call(*r) ? situ__comm_result(*r, 0, kind->shape, device) : NULL;
  situ__comm_close(*r);
  *r = NULL;
  return t;
}

/* ---- what the activations of a step are ---- */

enum { KIND = 2 + SITU_MAX_DIMS };

static bool carry_kind(const situ_dist_pipeline *p, int peer, bool send, situ__pipe_kind *kind) {
  int64_t words[KIND] = { kind->dtype, kind->shape.ndim };
  memcpy(words + 2, kind->shape.dim, sizeof kind->shape.dim);
  const situ_comm_call call = { send ? SITU_COMM_SEND : SITU_COMM_RECEIVE,
                                .dtype = SITU_I64,
                                .count = KIND,
                                .send = words,
                                .receive = words,
                                .peer = peer,
                                .name = "shape of the activations",
                                .step = p->step };
  if (situ__comm_call(op, p->comm, &call) != SITU_OK) return false;
  if (words[1] < 0 || words[1] > SITU_MAX_DIMS)
    return situ__fail(SITU_E_COMM, op, "rank %d: activations of %" PRId64 " dimensions", peer, words[1]), false;
  *kind = (situ__pipe_kind){ .dtype = (situ_dtype)words[0], .shape.ndim = (int)words[1] };
  memcpy(kind->shape.dim, words + 2, sizeof kind->shape.dim);
  return true;
}

static bool same_kind(const situ__pipe_kind *kind, const situ_tensor *y, int64_t k) {
  const situ_shape shape = situ_shape_of(y);
  char got[SITU_SHAPE_TEXT], want[SITU_SHAPE_TEXT];
  if (kind->dtype == situ_dtype_of(y) && situ_shape_equal(&kind->shape, &shape)) return true;
  return situ__fail(SITU_E_SHAPE, op, "the stage makes %s %s of micro-batch %" PRId64 ", and made %s %s of the first",
                    situ_dtype_name(situ_dtype_of(y)), situ_shape_text(&shape, got), k, situ_dtype_name(kind->dtype),
                    situ_shape_text(&kind->shape, want)),
         false;
}

/* ---- activations ---- */

static bool expect_activations(situ_dist_pipeline *p, int64_t end) {
  for (; p->expected < end && p->expected < p->count; p->expected++) {
    situ_comm_request **r = &p->batches[p->expected].arriving;
    if (!(*r = begin_call(p, p->comm->rank - 1, NULL, &p->before, "activation", p->expected))) return false;
  }
  return true;
}

situ_tensor *situ__pipe_take_activation(situ_dist_pipeline *p, int64_t k) {
  const int peer = p->comm->rank - 1;
  if (k == 0 && !carry_kind(p, peer, false, &p->before)) return NULL;
  /* Without gradients in between nothing orders the calls but themselves. */
  const int64_t ahead = p->trains ? (k == 0 ? situ__pipe_warmup(p, peer) : p->expected) : k + 2;
  if (!expect_activations(p, ahead)) return NULL;
  return end_receive(&p->batches[k].arriving, &p->before, situ_nn_home(p->module));
}

bool situ__pipe_send_activation(situ_dist_pipeline *p, int64_t k, situ_tensor *y) {
  const int peer = p->comm->rank + 1;
  if (k == 0) {
    p->behind = (situ__pipe_kind){ situ_dtype_of(y), situ_shape_of(y) };
    if (!situ_dtype_is_floating(p->behind.dtype))
      return situ__fail(SITU_E_DTYPE, op, "the stage of rank %d gives %s: stages exchange floating tensors",
                        p->comm->rank, situ_dtype_name(p->behind.dtype)),
             false;
    if (!carry_kind(p, peer, true, &p->behind)) return false;
  }
  if (!same_kind(&p->behind, y, k)) return false;
  if (!(p->batches[k].leaving = begin_call(p, peer, y, &p->behind, "activation", k))) return false;
  /* The first is expected only now that the shape is known; later ones have been for long. */
  return k == 0 ? end_send(&p->batches[0].leaving) : p->trains || end_send(&p->batches[k - 1].leaving);
}

/* ---- gradients ---- */

situ_tensor *situ__pipe_take_gradient(situ_dist_pipeline *p, int64_t k) {
  situ__pipe_batch *b = &p->batches[k];
  b->gradient_arriving = begin_call(p, p->comm->rank + 1, NULL, &p->behind, "gradient", k);
  if (!b->gradient_arriving) return NULL;
  situ_tensor *grad = end_receive(&b->gradient_arriving, &p->behind, situ_device_of(b->output));
  return grad && end_send(&b->leaving) ? grad : NULL; /* it has arrived: its gradient depends on it */
}

/* Values leave when this rank hears that they are expected, which it does not while it computes: the stage before would
   wait for a forward of this one. */
bool situ__pipe_send_gradient(situ_dist_pipeline *p, int64_t k, situ_tensor *grad) {
  const int peer = p->comm->rank - 1;
  p->gradient_leaving = begin_call(p, peer, grad, &p->before, "gradient", k);
  return p->gradient_leaving && expect_activations(p, k + 1 + situ__pipe_warmup(p, peer)) &&
         end_send(&p->gradient_leaving);
}

/* ---- the end ---- */

bool situ__pipe_finish_sends(situ_dist_pipeline *p) {
  for (int64_t k = 0; k < p->count; k++)
    if (!end_send(&p->batches[k].leaving)) return false;
  return true;
}

void situ__pipe_close_all(situ_dist_pipeline *p) {
  for (int64_t k = 0; p->batches && k < p->count; k++) {
    situ__pipe_batch *b = &p->batches[k];
    situ__comm_close(b->arriving);
    situ__comm_close(b->leaving);
    situ__comm_close(b->gradient_arriving);
  }
  situ__comm_close(p->gradient_leaving);
  p->gradient_leaving = NULL;
}
