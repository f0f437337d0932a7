/* A walk over views of one shape, row by row: as few and as long rows as the views allow, on the thread pool if there
   is much work.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BACKEND_CPU_LOOP_H
#define SITU_BACKEND_CPU_LOOP_H

#include "cpu.h"

enum {
  SITU__LOOP_OPERANDS = 4,
  SITU__GRAIN = 32768 /* elements of a chunk: below it, waking a thread costs more than it saves */
};

/* Strides are in bytes. Dimensions of size 1 are removed, those that are contiguous for all operands are merged; the
   last is the row. */
typedef struct situ__loop {
  int operands, ndim;
  int64_t numel;
  int64_t size[SITU_MAX_DIMS], stride[SITU__LOOP_OPERANDS][SITU_MAX_DIMS];
  char *data[SITU__LOOP_OPERANDS];
} situ__loop;

/* view[0] is written: the walk follows its memory order, not the views' order of elements. */
void situ__loop_init(situ__loop *loop, int operands, const situ_view_desc *const *view);

/* `count` elements from data[k] on, stride[k] bytes apart. */
typedef void (*situ__loop_fn)(char *const *data, const int64_t *stride, int64_t count, void *payload);
void situ__loop_run(const situ__loop *loop, situ__loop_fn fn, void *payload);

#endif
