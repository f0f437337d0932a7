/* Calls a public function by its name with arguments by theirs: the table that tools/api_table makes of the headers
   says what its parameters are. For tests whose calls are data.
   SPDX-License-Identifier: MIT */
#ifndef SITU_TESTS_SUPPORT_INVOKE_H
#define SITU_TESTS_SUPPORT_INVOKE_H

#include <situ/tensor.h>

enum { INVOKE_LIST = 24, INVOKE_TENSORS = 64, INVOKE_RESULTS = 16 };

/* An argument that is not a tensor. */
typedef struct invoke_value {
  const char *name;
  char kind; /* 'b' 'i' 'd': i; 'f': f; 's': s; 'l': list[0..i) */
  int64_t i;
  double f;
  const char *s;
  int64_t list[INVOKE_LIST];
} invoke_value;

typedef struct invoke_tensor {
  const char *name; /* "input"; of a list "tensors.0", "tensors.1", ... */
  situ_tensor *tensor;
} invoke_tensor;

/* What is given, and what comes out. A tensor goes to the parameter, or the field of options, of its name; the
   others to the tensors that are left, in order. A value goes to the parameter or field of its name, in upper or
   lower case. What is not given is 0 in structs without defaults, NULL, no shape; a number must be given.

   settings: words that say what is different. Each function has some (invoke_settings.c), and a call may have its own.
     dim=-1               where the parameter `dim` is not given
     .dim=0,1             the same of a field of options
     kernel:kernel_size   the parameter `kernel` is given as kernel_size (by a call's own setting only so)
     two_sided:!onesided  as the opposite of onesided
     relu:mode=relu       as true if mode is the word relu
     -masks               masks is not an argument; nor are names with a dot */
typedef struct invocation {
  const char *functions; /* words, without situ_, or also without _: the first that takes all that is given is called */
  const char *settings;  /* of this call; or NULL */
  situ_device device;    /* of calls without tensors */
  void *object;          /* the argument that is neither: an optimiser; then the result, if it is a module or such */
  int tensors, values, outs;
  invoke_tensor tensor[INVOKE_TENSORS];
  const invoke_value *value;
  situ_tensor *out[INVOKE_RESULTS]; /* `outs` of them are wanted */
  const char *called;               /* without situ_ */
  char message[160];                /* why there was no call */
} invocation;

/* Returns false, with a message, if no function takes what is given. Errors of the function are situ's. */
bool invoke(invocation *v);

/* Is there a function of exactly that name, without situ_? */
bool invoke_knows(const char *function);

/* The result of a call of at most 8 tensors and of settings; a second result goes to *also, if that is not NULL.
   Tensors are named by their place: "weight:2" is the third. Fails the test if no function takes them. */
situ_tensor *invoke_op(const char *functions, const char *settings, situ_tensor *const *t, int count,
                       situ_tensor **also);

/* What is behind the name and the mark ('=', ':', '-') in settings, or in those of a function; NULL: they do not
   have it. */
const char *invoke_setting(const char *settings, const char *name, char mark);
const char *invoke_setting_of(const char *function, const char *name, char mark);

#endif
