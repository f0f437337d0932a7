/* Runs golden cases: a case's arguments have torch's names, and so do the parameters of the function of its op.
   SPDX-License-Identifier: MIT */
#ifndef SITU_TESTS_SUPPORT_GOLD_RUN_H
#define SITU_TESTS_SUPPORT_GOLD_RUN_H

#include "support/golden/gold.h"
#include "support/options.h"

/* One case being run. */
typedef struct gold_call {
  const gold_case *c;
  const struct gold_op *op;
  situ_device device;
  situ_tensor *leaf[GOLD_MAX_INPUTS]; /* the inputs; gradients are looked for here */
  situ_tensor *in[GOLD_MAX_INPUTS];   /* what the op is given: the leaf, or a copy to write in */
  situ_tensor *out[GOLD_MAX_OUTPUTS];
  void *payload;     /* the adapter's, until done */
  char message[200]; /* why nothing was called */
} gold_call;

/* What is special about an op: the first row whose name matches is taken. An op without a row is a call of the
   function of its name with the arguments of the case (support/api/invoke.h), and as near to torch as one kernel is. */
typedef struct gold_op {
  const char *name; /* a pattern: "linalg_*" */
  /* settings of the call (support/api/invoke.h) that are not the function's */
  const char *with;
  /* the function, if it has another name */
  const char *call;
  /* an adapter, which fills call->out, where more is to be done than one call */
  void (*run)(gold_call *call);
  /* called after the comparison */
  void (*done)(gold_call *call);
  /* it writes into inputs other than that of an in-place op */
  bool writes;
  /* gold_tolerance's bound and steps, the latter for results and for gradients, and why they are needed */
  double bound;
  int steps, grad_steps;
  const char *why;
} gold_op;

#define GOLD_ROUNDS "of several ops, each of which rounds"
#define GOLD_STEPS(results, gradients) .steps = (results), .grad_steps = (gradients), .why = GOLD_ROUNDS

/* Cases that are known to differ, each set with a reason. They are run, and all must differ: a stale exception fails. */
typedef struct gold_exception {
  const char *op;
  const char *variant; /* its beginning; NULL: any */
  const char *device;  /* on this one only; NULL: on all */
  const char *unless;  /* not for cases that state this attribute */
  situ_dtype dtype;    /* of the first input; 0: any */
  const char *why;
  const char *where; /* only for cases in which this attribute ... */
  double is;         /* ... has this value */
  bool values;       /* values differ, shapes and dtypes do not: not on meta, which has only those */
} gold_exception;

/* Runs data/<family>.gold; with SITU_TEST_ALL in the environment also the full set, made on the spot. Returns the number
   of failed tests. A NULL name or op ends the tables; exceptions may be NULL. */
int gold_main(const char *family, const gold_op *ops, const gold_exception *exceptions);

/* ---- for adapters: a call of the case's arguments, and these by name ---- */

/* Calls the first of the functions that takes all arguments. False: none does. */
bool gold_invoke(gold_call *call, const char *functions, const char *settings);
/* The same with functions that make something that is not a tensor, of `from` and the case's values; NULL: none
   bool gold_invoke(gold_call *call, const char *functions, const char *settings);does. */
void *gold_make(gold_call *call, const char *functions, const char *settings, void *from);

situ_tensor *gold_in(const gold_call *call, const char *name); /* NULL if it is not there */
bool gold_has(const gold_call *call, const char *name);        /* is there such an attribute? */
double gold_real(const gold_call *call, const char *name, double otherwise);
int64_t gold_int(const gold_call *call, const char *name, int64_t otherwise);
bool gold_bool(const gold_call *call, const char *name, bool otherwise);
const char *gold_word(const gold_call *call, const char *name, const char *otherwise);
/* Also of one int; ndim 0 if it is not there. */
situ_shape gold_list(const gold_call *call, const char *name);
situ_dtype gold_dtype(const gold_call *call, const char *name);
/* The inputs list.0, list.1, ...; returns how many. */
int gold_tensors(const gold_call *call, const char *list, situ_tensor **out);
/* {dtype and device} of a factory. */
situ_options gold_options(const gold_call *call);

/* Computes the second derivatives that a case of edges has as outputs. Returns false after recording an error. */
bool gold_second(gold_call *call);
bool gold_is_second(const gold_case *c, int output);

/* ---- for programs of their own ---- */

/* The device named by SITU_TEST_DEVICE. */
situ_device gold_device(void);
/* A path below tests/golden/data. */
const char *gold_data(const char *name, char *buffer, size_t size);
/* A tensor on the device with the case's values and strides. */
situ_tensor *gold_tensor_to(const gold_tensor *t, situ_device device);

/* What a difference is measured by: bound * (atol + rtol |want| + steps * epsilon / 2 * scale), where atol and rtol are
   torch.testing's for the dtype. A formula of several ops rounds at each, in torch as here, and where terms cancel, what
   is left is as wrong as the terms are: `steps` roundings of terms that are `scale` large. 0 steps: one kernel. */
typedef struct gold_tolerance {
  double bound; /* 0: 1 */
  /* The 16-bit dtype of an operand, if there is one: intermediate results may be as coarse. */
  situ_dtype coarsest;
  int steps;
  double scale;
  unsigned flags; /* the case's */
} gold_tolerance;

/* The largest finite magnitude of a tensor. */
double gold_largest(const gold_tensor *t);
/* Compares; says what differs, if it does, in message. worst grows to error / allowed. */
bool gold_compare(const gold_tensor *want, situ_tensor *got, const gold_tolerance *tolerance, double *worst,
                  char *message, size_t size);

#endif
