/* Host memory for the library's own objects: one hook, so that a test can fail every allocation once.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BASE_ALLOC_H
#define SITU_BASE_ALLOC_H

#include "situ/sys/alloc.h"

/* All return NULL when there is no memory, without recording an error: the caller knows the op. */
void *situ__alloc(size_t bytes);                       /* not cleared */
void *situ__calloc(size_t count, size_t size);         /* cleared; NULL if count * size overflows */
void *situ__realloc(void *old, size_t bytes);          /* old survives a failure */
void *situ__aligned(size_t alignment, size_t bytes);   /* free with situ__free too */
void  situ__free(void *memory);
char *situ__strdup(const char *text);

/* Objects of one small size that come and go quickly (tensors, tape nodes): thread-local free lists over
   situ__alloc, a class for every 64 bytes up to 1 KiB; larger goes through. size must be the same at both ends. */
void *situ__small_alloc(size_t size);
void  situ__small_free(void *object, size_t size);

#endif
