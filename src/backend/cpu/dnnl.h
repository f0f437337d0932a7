/* oneDNN: primitives for the geometries where it is the fastest, behind one file that knows its versions. Each runs on the
   thread that calls it; the work is split by us.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BACKEND_CPU_DNNL_H
#define SITU_BACKEND_CPU_DNNL_H

#include "conv.h"

/* A primitive with the layouts that it wants. Its operands are, in this order, two inputs, a bias or nothing, the result. */
typedef struct situ__dnnl situ__dnnl;
enum { SITU__DNNL_RESULT = 3, SITU__DNNL_OPERANDS };

/* c [m, n] = a [m, k] b [k, n] + bias [n] */
typedef struct situ__dnnl_product {
  situ_dtype dtype;
  int64_t m, n, k, a_row, a_col, b_row, b_col, c_row;
  bool bias;
} situ__dnnl_product;

/* A primitive, from a cache where there is one already, to be closed after use. NULL: this build, this processor or oneDNN has
   no fast way; nothing is recorded. No size may be 0. */
situ__dnnl *situ__dnnl_conv(const situ__conv *c, int64_t images); /* c's bias is ignored */
situ__dnnl *situ__dnnl_matmul(const situ__dnnl_product *p);
void situ__dnnl_close(situ__dnnl *d);

/* Bytes of an operand in the layout that the primitive wants; 0: as it lies. */
size_t situ__dnnl_bytes(const situ__dnnl *d, int operand);
/* An input into that layout, or a result out of it. False: oneDNN failed. */
bool situ__dnnl_arrange(const situ__dnnl *d, int operand, void *from, void *to);
/* Operands in the layouts that are wanted; 64-byte aligned scratch of situ__dnnl_scratch() bytes. False: oneDNN failed. */
bool situ__dnnl_run(const situ__dnnl *d, void *const operand[SITU__DNNL_OPERANDS], void *scratch);
size_t situ__dnnl_scratch(const situ__dnnl *d);
/* What oneDNN calls the implementation. Static text. */
const char *situ__dnnl_name(const situ__dnnl *d);

#endif
