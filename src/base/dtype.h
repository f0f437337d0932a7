/* What each dtype is: one table, for every floor.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BASE_DTYPE_H
#define SITU_BASE_DTYPE_H

#include <stdint.h>

#include "situ/tensor.h"

/* In the order of torch's promotion. */
typedef enum situ__kind { SITU__KIND_BOOL, SITU__KIND_INTEGER, SITU__KIND_FLOAT } situ__kind;

typedef struct situ__dtype_facts {
  const char *name;
  uint8_t size, shift;    /* bytes of an element, and log2 of them */
  uint8_t kind;           /* a situ__kind */
  double lowest, largest; /* the range of finite values; i64's ends at 2^63, as 2^63 - 1 is not a double */
  double exact;           /* every whole number up to this one is a value */
} situ__dtype_facts;
extern const situ__dtype_facts situ__dtypes[SITU_DTYPES];

static inline bool situ__dtype_valid(situ_dtype dtype) { return dtype > SITU_DTYPE_DEFAULT && dtype < SITU_DTYPES; }
/* SITU_DTYPE_DEFAULT's, named "?", for numbers that are not dtypes. */
static inline const situ__dtype_facts *situ__dtype(situ_dtype dtype) {
  return &situ__dtypes[situ__dtype_valid(dtype) ? dtype : SITU_DTYPE_DEFAULT];
}
static inline size_t situ__dtype_size(situ_dtype dtype) { return situ__dtype(dtype)->size; }
static inline const char *situ__dtype_name(situ_dtype dtype) { return situ__dtype(dtype)->name; }
static inline situ__kind situ__dtype_kind(situ_dtype dtype) { return (situ__kind)situ__dtype(dtype)->kind; }
static inline bool situ__dtype_is_floating(situ_dtype dtype) { return situ__dtype_kind(dtype) == SITU__KIND_FLOAT; }

#endif
