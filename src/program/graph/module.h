/* The module that runs a program, and how it is run.
   SPDX-License-Identifier: MIT */
#ifndef SITU_PROGRAM_MODULE_H
#define SITU_PROGRAM_MODULE_H

#include "io/format/still.h"
#include "derive.h"
#include "program.h"

/* Runs the program with root's parameters and buffers, and with what root keeps (derived, may be NULL). The caller
   frees the result; NULL after recording an error. */
situ_tree *situ__program_run(const situ__program *p, situ_nn_module *root, situ__derived *derived,
                             const situ_tree *inputs);
/* Runs a node: gives its results to c->value. Returns false after recording an error. */
bool situ__program_run_node(situ__op_call *c);

/* The program of a module that runs one; NULL for another module. */
const situ__program *situ__program_of(const situ_nn_module *m);
/* situ__still_begin of the parameters and buffers of such a module, which a model may have too. */
bool situ__program_hold(const char *op, situ__still *still, situ_nn_module *m);
/* The values of a tensor that is saved, row-major, for situ__free. NULL after recording an error. */
void *situ__program_values(const char *op, situ_tensor *t, size_t *bytes);

#endif
