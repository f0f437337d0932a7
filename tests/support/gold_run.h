/* Runs golden cases: a family's program is a table of adapters, from a case's named arguments to situ's call.
   SPDX-License-Identifier: MIT */
#ifndef SITU_TESTS_SUPPORT_GOLD_RUN_H
#define SITU_TESTS_SUPPORT_GOLD_RUN_H

#include "support/gold.h"

/* One case being run. */
typedef struct gold_call {
  const gold_case *c;
  const struct gold_op *op;
  situ_device device;
  situ_tensor *leaf[GOLD_MAX_INPUTS]; /* the inputs; gradients are looked for here */
  situ_tensor *in[GOLD_MAX_INPUTS];   /* what the op is given: the leaf, or a copy to write in */
  situ_tensor *out[GOLD_MAX_OUTPUTS];
  void *payload; /* the adapter's, until done */
} gold_call;

/* How to call one op: by its own adapter, which fills call->out, or by one of the plain forms. */
typedef struct gold_op {
  const char *name;
  void (*run)(gold_call *call);
  situ_tensor *(*one)(situ_tensor *x);
  situ_tensor *(*two)(situ_tensor *a, situ_tensor *b);
  situ_tensor *(*scalar)(situ_tensor *a, double b); /* if the second argument is an attribute */
  double bound;                                     /* times the usual tolerance; 0: once */
  const char *why;                                  /* and why */
  void (*done)(gold_call *call);                    /* after the comparison */
  bool writes; /* also into inputs other than that of an in-place op */
} gold_op;

/* Cases that are known to differ, each set with a reason. They are run, and all must differ: a stale exception fails. */
typedef struct gold_exception {
  const char *op;
  const char *variant;  /* its beginning; NULL: any */
  const char *device;   /* on this one only; NULL: on all */
  const char *unless;   /* not for cases that state this attribute */
  situ_dtype dtype;     /* of the first input; 0: any */
  const char *why;
} gold_exception;

/* Runs data/<family>.gold; with SITU_TEST_ALL in the environment also the full set, made on the spot. Returns the number
   of failed tests. `last` ends the table with .name NULL; exceptions likewise with .op NULL; exceptions may be NULL. */
int gold_main(const char *family, const gold_op *ops, const gold_exception *exceptions);

/* ---- for adapters: the case's arguments by name ---- */

situ_tensor *gold_in(const gold_call *call, const char *name); /* NULL if it is not there */
bool gold_has(const gold_call *call, const char *name);        /* is there such an attribute? */
double gold_real(const gold_call *call, const char *name, double otherwise);
int64_t gold_int(const gold_call *call, const char *name, int64_t otherwise);
bool gold_bool(const gold_call *call, const char *name, bool otherwise);
const char *gold_word(const gold_call *call, const char *name, const char *otherwise);
situ_shape gold_list(const gold_call *call,
                     const char *name); /* also of one int; ndim 0 if it is not there */
situ_dtype gold_dtype(const gold_call *call, const char *name);
/* The inputs list.0, list.1, ...; returns how many. */
int gold_tensors(const gold_call *call, const char *list, situ_tensor **out);
/* {dtype and device} of a factory. */
situ_options gold_options(const gold_call *call);

/* ---- for programs of their own ---- */

/* The device named by SITU_TEST_DEVICE. */
situ_device gold_device(void);
/* A path below tests/golden/data. */
const char *gold_data(const char *name, char *buffer, size_t size);
/* A tensor on the device with the case's values and strides. */
situ_tensor *gold_tensor_to(const gold_tensor *t, situ_device device);

enum { GOLD_GRADIENT = 128 }; /* gold_compare's own flag, beside a case's */
/* Compares; says what differs, if it does, in message. worst grows to error / allowed. */
bool gold_compare(const gold_tensor *want, situ_tensor *got, double bound, unsigned flags,
                  double *worst, char *message, size_t size);

#endif
