/* Reads .pt2 archives (torch.export): what its files share.
   SPDX-License-Identifier: MIT */
#ifndef SITU_PROGRAM_PT2_H
#define SITU_PROGRAM_PT2_H

#include "io/format/json_tree.h"
#include "io/format/values.h"
#include "io/format/zip.h"
#include "program/graph/bind.h"
#include "program/graph/build.h"
#include "program/graph/declare.h"

typedef struct situ__pt2 {
  const char *path;
  situ_load_options options;
  situ__zip_source source;
  situ__mapping *mapping; /* NULL: values are read */
  situ__zip zip;
  bool early; /* the layout of torch.export.save before archives of .pt2 were defined */
  situ__program *program;
  situ__names values;           /* value names of the graph */
  situ__names targets;          /* what may be written: a buffer's path or an input's name, and its value */
  const situ__json_item *metas; /* tensor_values of the graph, */
  situ__names meta_places;      /* by name */
  situ__names classes;          /* module path: place in `class_names` */
  const char **class_names;
  int32_t class_count;
  int64_t class_capacity;
  situ__lacks lacks;
  int32_t guard;              /* of the nodes of the block that is being read; 0: none */
  const char *within, *place; /* in the file: of the graph and of the node that are being read, "graph.nodes[5]" */
  bool told;                  /* the thread's error says where it happened */
} situ__pt2;

extern const char situ__pt2_op[]; /* "export_load" */

/* All return false after recording an error with the file's path. */
bool situ__pt2_bad(const situ__pt2 *f, situ_status status, const char *fmt, ...) SITU_PRINTF(3, 4) SITU_COLD;
bool situ__pt2_no_memory(void) SITU_COLD;
/* Reads a JSON file of the archive; *text is what the tree points into. The caller frees both. */
bool situ__pt2_json(const situ__pt2 *f, const char *name, situ__json_item **tree, char **text);
/* The dtype of torch's number; SITU_DTYPE_DEFAULT: situ lacks it. */
situ_dtype situ__pt2_dtype(const situ__json_item *number);
/* "complex64"; "number 99" of one that torch 2.15 lacks, too. Returns out. */
const char *situ__pt2_dtype_name(const situ__json_item *number, char out[32]);
/* An int of the form {"as_int": n}. */
bool situ__pt2_int(const situ__json_item *item, int64_t *out);
const char *situ__pt2_string(const situ__json_item *item); /* "" if it is not a string */

/* Reads signature, inputs, nodes and results into f->program (graph.c, signature.c). */
bool situ__pt2_read_signature(situ__pt2 *f, const situ__json_item *model);
bool situ__pt2_read_nodes(situ__pt2 *f, const situ__json_item *graph, situ__names *names, bool no_grad, int depth);
bool situ__pt2_read_results(situ__pt2 *f, const situ__json_item *model);
/* Reads a node that holds graphs, whose nodes go into the program (blocks.c). Sets *taken to false for other nodes. */
bool situ__pt2_read_block(situ__pt2 *f, const situ__json_item *item, situ__names *names, bool no_grad, int depth,
                          bool *taken);
/* A call on lists, of which n is the node: it becomes a node for each of their elements (each.c). */
enum { SITU__PT2_ARGS = 32 };
bool situ__pt2_is_each(const char *target);
bool situ__pt2_read_each(situ__pt2 *f, const char *target, const char *name, situ__named_arg *given, int count,
                         const situ__program_node *n);
/* What a graph declares of the values of `names` (declare.c). */
bool situ__pt2_read_declared(situ__pt2 *f, const situ__json_item *graph, const situ__names *names);
bool situ__pt2_takes_any_size(const situ__json_item *model);
bool situ__pt2_apply_default_dtype(situ__pt2 *f);
/* A new value under a name, which must be new. */
bool situ__pt2_add_value(situ__pt2 *f, situ__names *names, const char *name, situ__value_kind kind, int32_t *out);
bool situ__pt2_arg(situ__pt2 *f, const situ__names *names, const situ__json_item *item, situ__arg *out);
/* Fills m with the modules, parameters and buffers of the file (weights.c). */
bool situ__pt2_build(situ__pt2 *f, situ_nn_module *m, const situ__json_item *model);

#endif
