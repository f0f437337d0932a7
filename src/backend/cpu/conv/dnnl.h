/* oneDNN's convolutions for the geometries where they are the fastest. Only one file depends on oneDNN's version. Each
   primitive runs on the calling thread; our thread pool splits the work.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BACKEND_CPU_DNNL_H
#define SITU_BACKEND_CPU_DNNL_H

#include "conv.h"

/* A primitive with the layouts that it wants. Its operands are, in this order, two inputs and the result. */
typedef struct situ__dnnl situ__dnnl;
enum { SITU__DNNL_RESULT = 2, SITU__DNNL_OPERANDS };

/* Whether this build and this machine have oneDNN. */
bool situ__dnnl_is_there(void);
/* Returns a primitive, perhaps from the cache; close it after use. Returns NULL without an error if this build, this
   processor or oneDNN has no fast implementation. No size may be 0. */
situ__dnnl *situ__dnnl_conv(const situ__conv *c, int64_t images); /* c's bias is ignored */
void situ__dnnl_close(situ__dnnl *d);

/* Bytes of an operand in the primitive's layout; 0: it is used in place. */
size_t situ__dnnl_bytes(const situ__dnnl *d, int operand);
/* Reorders an input into that layout, or a result out of it. Returns false if oneDNN fails. */
bool situ__dnnl_arrange(const situ__dnnl *d, int operand, void *from, void *to);
/* Operands must have the primitive's layouts; scratch has situ__dnnl_scratch() bytes, 64-byte aligned. Returns false if
   oneDNN fails. */
bool situ__dnnl_run(const situ__dnnl *d, void *const operand[SITU__DNNL_OPERANDS], void *scratch);
size_t situ__dnnl_scratch(const situ__dnnl *d);
/* oneDNN's name for the implementation. Static string. */
const char *situ__dnnl_name(const situ__dnnl *d);

#endif
