/* situ_export_dynamic: the sizes of inputs that a program leaves free, and the runs that show what depends on them.
   SPDX-License-Identifier: MIT */
#ifndef SITU_PROGRAM_TRACE_SIZES_H
#define SITU_PROGRAM_TRACE_SIZES_H

#include "program/graph/quantity.h"
#include "trace.h"

enum { SITU__TRACE_SYMBOLS = SITU__RUNS - 1 };

/* A name of the caller's, and the sizes that it stands for in the runs. */
typedef struct situ__trace_symbol {
  const char *given, *name;                         /* name: as an identifier of Python */
  int64_t least, most, multiple, value[SITU__RUNS]; /* sizes are `multiple` times these */
} situ__trace_symbol;

/* A dimension of an input that has such a size. */
typedef struct situ__trace_dim {
  int32_t input, symbol;
  int dim;
} situ__trace_dim;

typedef struct situ__trace_sizes {
  const char *op;
  situ__arena arena;
  situ__trace_symbol symbol[SITU__TRACE_SYMBOLS];
  int32_t symbols;
  situ__trace_dim *dim;
  int64_t dims;
  int run; /* which of them is made now */
} situ__trace_sizes;

/* Checks the caller's dims and chooses the sizes of all runs. Returns false after recording an error. Either way
   situ__trace_sizes_end must follow. */
bool situ__trace_sizes_begin(situ__trace_sizes *s, const char *op, const situ_tree *inputs, const situ_export_dim *dims,
                             int64_t count);
void situ__trace_sizes_end(situ__trace_sizes *s);
/* Inputs as the caller's, of the sizes of the present run: in a dry run. The caller frees the tree; NULL on error. */
situ_tree *situ__trace_sized_inputs(const situ__trace_sizes *s, const situ_tree *inputs);
/* " at batch = 3, seq = 7", or "" for NULL. */
void situ__trace_sizes_text(const situ__trace_sizes *s, char *out, size_t size);

/* Makes the other runs, and what differs in them an expression of the symbols in t's program. Returns false after
   recording an error, which names what is none. */
bool situ__trace_all_sizes(situ__trace *t);

/* The programs of all runs, while they are compared. */
typedef struct situ__trace_merge {
  situ__trace *run[SITU__RUNS]; /* the first one's program becomes the program of all sizes */
  const situ__trace_sizes *sizes;
  situ__quantities quantities;
  int32_t node;      /* which is compared; -1: none */
  situ__text detail; /* why the newest comparison failed */
} situ__trace_merge;

/* The argument that had these values in the runs: a number, or a value of the program. Returns false after noting why
   there is none. */
bool situ__trace_merge_int(situ__trace_merge *m, const int64_t value[SITU__RUNS], situ__arg *out);
/* The expression of a size; *out is NULL for a number. Returns false if there is none. */
bool situ__trace_merge_size(situ__trace_merge *m, const int64_t value[SITU__RUNS], const char **out);
/* The texts of the sizes of value v. Returns false after noting which one none gives. */
bool situ__trace_merge_meta(situ__trace_merge *m, int32_t v);
/* Adds a node with one result that is a value of the program, or a new one: `out` -1. NULL when memory runs out. */
situ__program_node *situ__trace_merge_node(situ__trace_merge *m, const char *target, situ__value_kind kind,
                                           int32_t out);
/* Constants of forward that depend on the sizes become calls. Returns false after recording an error. */
bool situ__trace_merge_constants(situ__trace_merge *m);

#endif
