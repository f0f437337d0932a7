/* Writes programs as .pt2 archives: what its files share.
   SPDX-License-Identifier: MIT */
#ifndef SITU_PROGRAM_PT2_WRITE_H
#define SITU_PROGRAM_PT2_WRITE_H

#include "base/text.h"
#include "base/names.h"
#include "program/graph/program.h"

typedef struct situ__pt2_writer {
  const char *op;
  const situ__program *program;
  situ_nn_module *module;
  const char **name;  /* of each value */
  situ_nn_kind *kind; /* of each part: how the module has it */
  int32_t *seen;      /* of each value: the newest graph that has it as an argument, or computes it */
  situ__names names;  /* of values and nodes */
  situ__arena arena;  /* of the names */
  situ__text json;
  uint64_t errors; /* that this thread had recorded at the beginning */
} situ__pt2_writer;

/* A Python identifier that was not given before; NULL when memory runs out. */
const char *situ__pt2_new_name(situ__pt2_writer *w, const char *stem, size_t length);
/* {"dtype": 7, "sizes": [...], ...} */
void situ__pt2_write_meta(situ__text *json, const situ__value_meta *meta);
/* Writes the nodes from `first` to `end`, and what a graph of them says of its values (write_graph.c). Returns whether
   it wrote any. single: the graph gives a tensor, not a list. */
bool situ__pt2_write_nodes(situ__pt2_writer *w, int32_t first, int32_t end);
void situ__pt2_write_values(situ__pt2_writer *w, const int32_t *value, const char *const *name, int32_t values,
                            bool single);
/* Writes the branches that node `at` begins as torch.cond, or the loop as while_loop, scan or map. Returns the node
   after them (write_flow.c). */
int32_t situ__pt2_write_cond(situ__pt2_writer *w, int32_t at);
int32_t situ__pt2_write_loop(situ__pt2_writer *w, int32_t at);
/* Writes models/model.json to w->json. Returns false when memory runs out. */
bool situ__pt2_write_model(situ__pt2_writer *w);

#endif
