/* Runs the cuda backend's kernels on the host, as far as what they compute goes: the same texts, compiled for the host.
   SPDX-License-Identifier: MIT */
#ifndef SITU_TESTS_EMULATE_H
#define SITU_TESTS_EMULATE_H

#include <stdbool.h>
#include <stddef.h>

/* How many parameters a kernel has, at most 32, and how large each is; -1: there is no such kernel. */
int situ_emulate_parameters(const char *kernel, size_t size[32]);

/* Runs all groups, one after another; arguments[k] points to argument k. Not for two threads at once. False: there is no such
   kernel, or its lanes did not all come to the same barrier, which a gpu would not forgive. */
bool situ_emulate(const char *kernel, unsigned groups, unsigned lanes, void **arguments);

#endif
