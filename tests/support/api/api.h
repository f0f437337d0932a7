/* Every public function as a row of a table, which tools/api_table makes of the headers, and arguments for each of them:
   valid ones (valid.c) and bad ones (bad.c). For tests that call all that there is.
   SPDX-License-Identifier: MIT */
#ifndef SITU_TEST_API_H
#define SITU_TEST_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "situ/situ.h"
#include "situ/sys/alloc.h"

typedef struct api_parameter {
  const char *name, *type; /* "x", "const situ_options *" */
  size_t size;
} api_parameter;

/* What a call returns, as far as it can tell of an error. */
typedef enum api_result {
  API_NOTHING,
  API_STATUS,
  API_POINTER,
  API_TEXT,
  API_BOOL,
  API_COUNT,
  API_DOUBLE,
  API_VALUE
} api_result;

typedef struct api_function {
  const char *name, *returns;
  api_result result;
  void (*call)(void *const *argument, void *result); /* argument[i] points to the i-th argument */
  int count;
  const api_parameter *parameter;
} api_function;

typedef struct api_field {
  const char *name, *type;
  size_t offset, size;
} api_field;

typedef struct api_struct {
  const char *name;
  size_t size;
  int count;
  const api_field *field;
} api_struct;

typedef struct api_enumerator {
  const char *name;
  int value;
} api_enumerator;

typedef struct api_enum {
  const char *name;
  int last; /* the value of the last enumerator */
  int count;
  const api_enumerator *enumerator;
} api_enum;

size_t api_functions_list(const api_function **list);
const api_struct *api_find_struct(const char *type); /* of "const situ_options *" too; NULL: opaque, or not a struct */
const api_enum *api_find_enum(const char *type);     /* NULL: not an enum */

/* What a result and the thread's error say that cannot both be true; NULL: they agree. error: one was recorded in the call.
   excused: a NULL, or a status, may tell of it, or of an earlier one. */
const char *api_disagreement(const char *function, api_result kind, const void *result, bool error, bool excused);

/* Writes what the function ..._defaults() of that struct gives; at NULL: nothing. Returns false if there is none. */
bool api_defaults(const char *type, void *at);

/* ---- arguments of one call ---- */

enum { API_PARAMETERS = 12, API_OWNED = 128 };

/* Who frees an object that is passed in. */
typedef enum api_owner {
  API_KEPT,  /* the caller */
  API_TAKEN, /* the function, whether it succeeds or fails */
  API_CHAIN  /* the function if it fails; what it returns is this very object */
} api_owner;

typedef struct api_owned {
  void (*release)(void *object);
  void *object;
  api_owner owner;
} api_owned;

typedef struct api_world {
  const api_function *function;
  situ_device device;
  void *argument[API_PARAMETERS];
  api_owned owned[API_OWNED]; /* freed in reverse order */
  int owned_count;
  situ_tensor *tensor[64]; /* all that the arguments show: their values must be unchanged after an error */
  int tensor_count;
  situ_nn_module *trained; /* what several arguments must share; NULL: no argument has needed it yet */
  void *begun;    /* what the first argument led to when it was valid: a scope, a ledger; NULL: it is not a pointer */
  bool nonsense;  /* the bad value can mean nothing: it must be refused, unless the header says what it means */
  bool must_fail; /* it must be refused as SITU_E_ARG, whatever the function is */
  bool failed;    /* an error was recorded before the call, in its scope */
  bool must_work; /* it must give a result for all that, since every operand is there */
  char text[256]; /* what is bad: "options->dim.ndim = -1" */
} api_world;

/* Before the first call of a process: bounds the memory that a call can take. */
void api_begin(void);
/* Fills in valid arguments for the function. A scope must be open; tensors belong to it. */
void api_valid(api_world *w, const api_function *function, situ_device device);
/* Puts the k-th bad value into argument i and says in w->text what it is; false: there are no more. */
bool api_bad(api_world *w, int i, int k);
/* The same with what is wrong with a handle alone. */
bool api_bad_handle(api_world *w, int i, int k);
/* The k-th handle of the argument is the NULL that a failed call has returned. */
bool api_failed_handle(api_world *w, int i, int k);
/* Nothing is bad, but another call has failed before. */
bool api_failed_before(api_world *w, int i, int k);
/* Calls every function with valid arguments, and with every bad value of each argument that `bad` knows, in child
   processes. Fails the test if a call crashes, hangs, or answers what it must not; prints the counts. */
void api_sweep(bool (*bad)(api_world *w, int i, int k));
/* After the call: ends what it began, frees what it returned and what it was given. */
void api_after(api_world *w, void *result, bool failed);

/* For the two files that fill in arguments. */
situ_tensor *api_tensor(api_world *w, situ_dtype dtype, situ_shape shape);
/* Any other tensor that an argument shows: one that api_tensor did not make. */
situ_tensor *api_note(api_world *w, situ_tensor *t);
void *api_memory(api_world *w, size_t size);
void *api_own(api_world *w, void *object, void (*release)(void *), api_owner owner);
/* One more live object of a kind ("situ_tree *"), the caller's. */
void *api_object(api_world *w, const char *type);
/* An object that was to be given to the function stays the caller's. Returns whose it would have been. */
api_owner api_keep(api_world *w, const void *object);
const situ_allocator *api_allocator(void); /* what is installed, with its bound */
const char *api_name(const api_world *w);  /* of the function, without situ_ */
/* Type without const and the last star: "const situ_options *" is "situ_options". */
const char *api_pointee(const char *type, char buffer[128]);
bool api_is(const char *name, const char *list); /* is it a word of the list? */

#endif
