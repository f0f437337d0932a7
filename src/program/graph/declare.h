/* Declarations of a file: the dtype and sizes of each value. The program must compute values of these.
   SPDX-License-Identifier: MIT */
#ifndef SITU_PROGRAM_DECLARE_H
#define SITU_PROGRAM_DECLARE_H

#include "base/text.h"
#include "program.h"

/* A size, or the value of an int: a number, or an expression of symbols with its value when it was exported. */
typedef struct situ__declared_size {
  const char *text; /* as SymPy's srepr writes it: "Add(Symbol('s0'), Integer(6))"; NULL: a number */
  int64_t value;    /* the number */
  bool hinted;      /* value is there */
} situ__declared_size;

struct situ__declared {
  const char *name; /* NULL: the file does not declare the value */
  situ_dtype dtype; /* of a tensor; SITU_DTYPE_DEFAULT: one that situ lacks */
  int32_t dims;     /* of a tensor; -1: size[0] is the value of an int */
  const situ__declared_size *size;
  bool misdeclared; /* its declaration was wrong, and is gone */
};

/* Sizes of symbols while declarations are compared: as many as the program has. */
typedef struct situ__symbols {
  const situ__program *program;
  int64_t *value; /* -1: unknown */
  bool *data;     /* it depends on values of tensors, and `value` is one that it could have */
  bool first;     /* values are those of when the program was exported */
} situ__symbols;

/* The value of a size. Returns false if it is unknown; *data turns true if it depends on values of tensors. */
bool situ__declared_value(const situ__symbols *s, const situ__declared_size *size, int64_t *out, bool *data);
/* Compares value v with its declaration, sizes and their number only if `sizes`. Returns false, and tells in `problem`
   what differs. */
bool situ__declared_holds(const situ__symbols *s, int32_t v, const situ__value *value, bool sizes, situ__text *problem);

/* Runs a program without values at the sizes that it was exported with, and at others if it may have any, and compares
   each value with its declaration. What cannot run without values has what is declared. Returns false after recording
   an error that names the node. */
bool situ__program_check(const char *op, situ__program *p, situ_nn_module *root, bool any_size);
/* The same for the value of a call that runs: sizes of `s` are those of its inputs. */
bool situ__program_check_node(const situ__symbols *s, const situ__program_node *n, const situ__value *value);

#endif
