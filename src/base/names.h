/* A hash table from texts to numbers.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BASE_NAMES_H
#define SITU_BASE_NAMES_H

#include <stdbool.h>
#include <stdint.h>

/* Zeroed: empty. Does not copy the texts. */
typedef struct situ__names {
  struct situ__names_entry {
    const char *name;
    int32_t number;
  } * entry;
  int64_t size, count; /* size: capacity, a power of two */
} situ__names;

/* Returns -1 for an absent name. */
int32_t situ__names_get(const situ__names *names, const char *name);
/* Adds a name that is absent, with a number of at least 0. Returns false when memory runs out. */
bool situ__names_put(situ__names *names, const char *name, int32_t number);
void situ__names_free(situ__names *names);

#endif
