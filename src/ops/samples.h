/* Situ_func_vmap: a function of one sample runs once, for all of them. Its tensors have the shape of one
   sample. Their storage has no memory: it knows the `whole`, a tensor of all samples, in which element i of sample k is
   at offset i + k * stride; so views of a sample are views like any other. A call with such operands runs once on the
   wholes, by the rule of its op (batch.c).
   SPDX-License-Identifier: MIT */
#ifndef SITU_OPS_SAMPLES_H
#define SITU_OPS_SAMPLES_H

#include "dispatch/dispatch.h"

/* One situ_func_vmap that runs. They nest: the wholes of an inner one may be samples of an outer one. */
typedef struct situ__samples {
  struct situ__samples *outer;
  struct situ__samples_part *parts; /* its storages */
  int64_t count;
  uint64_t begin; /* the newest storage made before it */
  bool records;   /* calls on the wholes are recorded */
} situ__samples;

void situ__samples_begin(situ__samples *s, int64_t count);
/* Samples that the program still holds are on meta from now on, without values. */
void situ__samples_end(situ__samples *s);

/* Sets *out to the shape of `count` tensors of `shape`, which dimension 0 counts. Returns false after recording an
   error. */
bool situ__samples_shape(const char *op, const situ_shape *shape, int64_t count, situ_shape *out);
/* t with a dimension 0 of `count`, in which all are the same: a view. NULL after recording an error. */
situ_tensor *situ__samples_repeat(const char *op, situ_tensor *t, int64_t count);

/* One sample of `whole`, whose dimension 0 counts them. The scope owns it; NULL after recording an error. */
situ_tensor *situ__sample_of(const char *op, situ__samples *s, situ_tensor *whole);
/* One sample of a tensor that is the same for all: t itself, unless it is in s already. For leaves, which must not be
   leaves outside. */
situ_tensor *situ__sample_constant(const char *op, situ_tensor *t);
/* All samples of t: dimension 0 counts them. Where t is the same for all, t itself, and *batched is false. The scope
   owns it; NULL after recording an error. */
situ_tensor *situ__whole_of(const char *op, situ__samples *s, situ_tensor *t, bool *batched);
/* Whether t is a sample of s, and not the same for all. */
bool situ__sample_differs(const situ__samples *s, const situ_tensor *t);
/* Gives t, which is the same for all samples, memory for each of them, so that it can be written in place. Returns
   false after recording an error: t is visible outside of s. */
bool situ__sample_split(const char *op, situ__samples *s, situ_tensor *t);
/* The innermost of the operands' levels; NULL: none is a sample. */
situ__samples *situ__samples_level(situ_tensor *const *in, int ins);

/* The directions of a Jacobian that runs on this thread, where they are those of all elements of a vector: the identity
   matrix, by which nothing needs to be multiplied. */
typedef struct situ__units {
  const situ_storage *storage; /* NULL: there is none */
  uint32_t version;            /* of the storage; a write makes it another matrix */
} situ__units;
extern SITU__THREAD_LOCAL situ__units situ__directions;
/* Whether t is a constant that is the whole identity matrix of situ__directions. */
bool situ__is_identity(const situ_tensor *t);

/* A tensor of the values of all samples, for checks of values. NULL after recording an error. */
situ_tensor *situ__all_samples(const char *op, situ_tensor *t);

/* Upcalls of dispatch. */
bool situ__run_samples(situ_call *c);
bool situ__each_sample(const char *op, situ_tensor *const *in, int ins, situ_tensor **out, int outs,
                       bool (*run)(situ_tensor *const *in, situ_tensor **out, const void *context),
                       const void *context);
/* Runs an element-wise function of tensors of one shape on all samples at once. NULL after recording an error. */
situ_tensor *situ__map_samples(const char *op, situ_tensor *const *in, int ins,
                               situ_tensor *(*map)(situ_tensor *const *in, const void *context), const void *context);

#endif
