/* The pickle inside of a torch.save file: a machine that runs no code. It knows the opcodes of Python's protocols 2 to
   5 that build dicts, lists, tuples, numbers, strings and None. Of all that a pickle may call it knows the few
   functions that rebuild tensors: they are recognised by name and make a description. Anything else is refused by the
   name of what the file asks for.
   SPDX-License-Identifier: MIT */
#ifndef SITU_IO_PICKLE_H
#define SITU_IO_PICKLE_H

#include "base/problem.h"
#include "situ/tensor.h"

/* A dtype as torch names it. */
typedef struct situ__torch_type {
  const char *name;    /* "float32" */
  const char *storage; /* "FloatStorage"; NULL: torch has none of its own */
  const char *shown;   /* as safetensors names it: "F32" */
  situ_dtype dtype;    /* SITU_DTYPE_DEFAULT: a dtype that this library lacks */
  int bytes;           /* of an element */
} situ__torch_type;

typedef enum situ__pickle_kind {
  SITU__PICKLE_NONE,
  SITU__PICKLE_BOOL,
  SITU__PICKLE_INTEGER,
  SITU__PICKLE_REAL,
  SITU__PICKLE_STRING,
  SITU__PICKLE_TUPLE,
  SITU__PICKLE_LIST,
  SITU__PICKLE_DICT,
  SITU__PICKLE_ORDERED, /* collections.OrderedDict */
  SITU__PICKLE_STORAGE, /* never part of a tree of its own */
  SITU__PICKLE_TENSOR,
  SITU__PICKLE_GLOBAL /* a function or class that was named; never part of a tree */
} situ__pickle_kind;

/* One value. Containers refer to others by their numbers, and may contain themselves: a walk must count its steps. */
typedef struct situ__pickle_value {
  uint8_t kind;
  uint32_t count, capacity; /* a container's; a dict has keys and values in turn */
  union {
    int64_t integer; /* of a BOOL too */
    double real;
    struct {
      const char *text; /* UTF-8, ended by a NUL, maybe with NULs inside */
      size_t length;
    };
    uint32_t *item;
    uint32_t number; /* of a storage, a tensor, or a global */
  };
} situ__pickle_value;

typedef struct situ__pickle_storage {
  const char *key;              /* name of its file: "data/KEY" */
  const situ__torch_type *type; /* NULL: bytes (torch.UntypedStorage) */
  int64_t count;                /* elements; bytes if type is NULL */
} situ__pickle_storage;

typedef struct situ__pickle_tensor {
  uint32_t storage;
  const situ__torch_type *type;
  situ_shape size, stride;
  int64_t offset; /* elements before the first, >= 0 */
  int64_t bytes;  /* of its elements */
  int64_t span;   /* elements from the first to the last in the storage; 0 if it is empty */
} situ__pickle_tensor;

typedef struct situ__pickle {
  situ__pickle_value *value;
  uint32_t values, root;
  situ__pickle_storage *storage;
  situ__pickle_tensor *tensor;
  uint32_t storages, tensors;
  char *texts;
  size_t texts_bytes; /* of all strings and names */
} situ__pickle;

/* Limits on the bytes of a pickle, of which a tensor takes about 100, and on its tensors. Values take up to 40 times
   the memory of the bytes that made them. */
enum { SITU__PICKLE_MAX = 64 << 20, SITU__PICKLE_TENSORS = 1000000 };

/* Runs a pickle. A tensor is checked against the size that its storage claims; the caller compares that with the file.
   Returns false with the reason in problem, and nothing left to free. */
bool situ__pickle_parse(situ__pickle *pickle, const char *data, size_t bytes, situ__problem *problem);
void situ__pickle_free(situ__pickle *pickle);

/* What the parser's files share: the functions and classes that a pickle may name (pickle_call.c). */
typedef struct situ__unpickler {
  situ__pickle *pickle;
  const unsigned char *data;
  size_t bytes, at;
  int64_t values_capacity, storages_capacity, tensors_capacity, stack_capacity, mark_capacity, memo_capacity;
  uint32_t *stack, *mark, *memo;
  size_t stack_size, marks, memos;
  situ__problem *problem;
} situ__unpickler;

/* All return false with the reason in the problem. */
bool situ__unpickle_bad(situ__unpickler *u, const char *what) SITU_COLD;
bool situ__unpickle_push(situ__unpickler *u, uint32_t value);
/* Makes a value and pushes it. */
bool situ__unpickle_new(situ__unpickler *u, const situ__pickle_value *value);
/* Makes space for one more element in a list, whose address `list` is, as situ__grow does. A list grows only with the
   bytes that were read, so a short file cannot cause a large allocation. */
bool situ__unpickle_grow(situ__unpickler *u, void *list, size_t count, int64_t *capacity, size_t size);
/* Pushes the function or class of that name, if it is a known one. */
bool situ__unpickle_global(situ__unpickler *u, const char *module, const char *name);
/* Calls the function with a tuple of arguments, and pushes the result. */
bool situ__unpickle_call(situ__unpickler *u, uint32_t function, uint32_t arguments);
/* Pushes the storage that a persistent id names. */
bool situ__unpickle_storage(situ__unpickler *u, uint32_t id);
/* The name of a global, for messages: "torch.float32". Returns text. */
const char *situ__pickle_global_name(uint32_t number, char text[64]);

#endif
