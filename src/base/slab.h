/* Small objects of one size, cut from pieces of 16 KiB: they begin at cache lines, and those that are made one after
   another lie one after another. From 1 MiB on, the pieces are cut from huge pages.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BASE_SLAB_H
#define SITU_BASE_SLAB_H

#include <stddef.h>

enum { SITU__SLAB_STEP = 64, SITU__SLAB_LARGEST = 1024 };

/* size: a multiple of SITU__SLAB_STEP up to SITU__SLAB_LARGEST. NULL when memory runs out. Not counted by
   situ_fail_allocation. */
void *situ__slab_take(size_t size);
void situ__slab_give(void *object);
/* Frees the memory that no object uses. */
void situ__slab_trim(void);

/* Visits every object of a size that was taken, in the lists of threads too, which hold what is free for them: what is
   in one is for visit to tell, which must neither take nor give. All threads wait for it. */
void situ__slab_each(size_t size, void (*visit)(void *object, void *payload), void *payload);

/* Around a fork (fork.c). */
void situ__slab_lock(void);
void situ__slab_unlock(void);

#endif
