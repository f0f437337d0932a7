/* What the readers of all formats share: a program that grows while it is read, and the list of what situ lacks.
   SPDX-License-Identifier: MIT */
#ifndef SITU_PROGRAM_BUILD_H
#define SITU_PROGRAM_BUILD_H

#include "base/text.h"
#include "base/names.h"
#include "program.h"
#include "situ/export.h"

/* One owner; NULL after recording an error. max_iterations of all loops; 0: 1,000,000. */
situ__program *situ__program_new(const char *path, int64_t max_iterations);
/* The number of a new value. Returns false when memory runs out, or there are 2^29 values. */
bool situ__program_add_value(situ__program *p, situ__value_kind kind, int32_t *out);
/* A new node at the end; NULL as above. Earlier pointers to nodes are invalid then. */
situ__program_node *situ__program_add_node(situ__program *p);
/* Lists for each node the values that are not used after it. Returns false when memory runs out. */
bool situ__program_find_last_uses(situ__program *p);
/* Arguments of a row's calls. */
int situ__op_row_args(const situ__op_row *row);

/* Where the node stands: `graph.node[12] "fc", from model.py:12 in forward`; "" of a node that no file has. Returns
   out. */
enum { SITU__PLACE_MAX = 384 };
const char *situ__node_place(const situ__program_node *n, char out[SITU__PLACE_MAX]);
/* "in encoder, Gemm of model.onnx, " and its place; returns out. */
enum { SITU__NODE_TEXT_MAX = 1000 };
const char *situ__node_text(const situ__program *p, const situ__program_node *n, char out[SITU__NODE_TEXT_MAX]);
/* Adds that to the thread's first error, which running the node has recorded. */
void situ__node_blame(const situ__program *p, const situ__program_node *n) SITU_COLD;

/* The calls that a file has and situ lacks. */
typedef struct situ__lacks {
  situ__text list, targets; /* every call, and every target once */
  int count;
  situ__names seen;
} situ__lacks;
/* target must live as long as the list. */
void situ__lacks_note(situ__lacks *lacks, const char *target, const char *name, const char *why,
                      const situ__program_node *node);
/* Returns false after recording an error with the whole list, if it has an entry. fix: what may be done about it. */
bool situ__lacks_check(const situ__lacks *lacks, const char *path, const char *fix);
void situ__lacks_free(situ__lacks *lacks);

/* The readers; the file's first bytes tell which (load.c). NULL after recording an error. */
situ_nn_module *situ__pt2_load(const char *path, const situ_load_options *options);
situ_nn_module *situ__onnx_load(const char *path, const situ_load_options *options);

#endif
