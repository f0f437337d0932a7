/* The pickle inside of a torch.save file: a machine that runs no code. It knows the opcodes of Python's protocols 2 to
   5 that build dicts, lists, tuples, numbers, strings and None. Of all that a pickle may call it knows the few
   functions that rebuild tensors: they are recognised by name and make a description. What any other function or class
   would make is an object of which nothing is known but that name: no code is looked up, imported or run.
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
  SITU__PICKLE_GLOBAL, /* a function or class that was named; never part of a tree */
  SITU__PICKLE_OBJECT  /* what a function or class that is not known would make */
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
    struct {
      uint32_t maker, state; /* of an object: a global's number, and the value of its attributes if count is 1 */
    };
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

/* A function or class that is not known. Of those of TorchScript (a module "__torch__...") the attributes are read. */
typedef struct situ__pickle_name {
  const char *module, *name;
  bool script;
} situ__pickle_name;

typedef struct situ__pickle {
  situ__pickle_value *value;
  uint32_t values, root;
  situ__pickle_storage *storage;
  situ__pickle_tensor *tensor;
  situ__pickle_name *unknown; /* in the order in which they were named */
  uint32_t storages, tensors, unknowns;
  char *texts;
  size_t texts_bytes; /* of all strings and names */
} situ__pickle;

/* Limits on the bytes of a pickle, of which a tensor takes about 100, and on its tensors. Values take up to 40 times
   the memory of the bytes that made them. */
enum { SITU__PICKLE_MAX = 64 << 20, SITU__PICKLE_TENSORS = 1000000 };

/* Runs a pickle. A tensor is checked against the size that its storage claims; the caller compares that with the file.
   end: NULL if the pickle must be all of the data; else it gets the pickle's length, or on failure `bytes` if the data
   ended before the pickle. Returns false with the reason in problem, and nothing left to free. */
bool situ__pickle_parse(situ__pickle *pickle, const char *data, size_t bytes, size_t *end, situ__problem *problem);
void situ__pickle_free(situ__pickle *pickle);

/* What the parser's files share: the functions and classes that a pickle may name (pickle_call.c). */
typedef struct situ__unpickler {
  situ__pickle *pickle;
  const unsigned char *data;
  size_t bytes, at;
  int64_t values_capacity, storages_capacity, tensors_capacity, unknowns_capacity;
  int64_t stack_capacity, mark_capacity, memo_capacity;
  uint32_t *stack, *mark, *memo;
  size_t stack_size, marks, memos;
  bool cut; /* the data ended before the pickle */
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
/* Adds items to the end of a container; a dict's are keys and values in turn. */
bool situ__unpickle_add(situ__unpickler *u, uint32_t container, const uint32_t *items, size_t count);
/* Pushes the function or class of that name. */
bool situ__unpickle_global(situ__unpickler *u, const char *module, const char *name);
/* Pushes what a call of the function with a tuple of arguments makes. */
bool situ__unpickle_call(situ__unpickler *u, uint32_t function, uint32_t arguments);
/* Pushes an object of the class, which must not be a known one; opcode: what makes it, for errors. */
bool situ__unpickle_object(situ__unpickler *u, uint32_t class_of, const char *opcode);
/* Pushes the storage that a persistent id names. */
bool situ__unpickle_storage(situ__unpickler *u, uint32_t id);
/* Whether a dict may have it as a key: a text, or an integer. */
bool situ__pickle_is_key(const situ__pickle_value *v);
/* The name of a global, for messages: "torch.float32". Returns text. */
enum { SITU__GLOBAL_NAME_MAX = 2 * SITU__SHOWN_MAX };
const char *situ__pickle_global_name(const situ__pickle *pickle, uint32_t number, char text[SITU__GLOBAL_NAME_MAX]);
/* The number of the first global that is not known, nor one of TorchScript; 0: there is none. */
uint32_t situ__pickle_first_unknown(const situ__pickle *pickle);
/* NULL for a known function or class, and for those of torch. */
const situ__pickle_name *situ__pickle_unknown(const situ__pickle *pickle, uint32_t number);

#endif
