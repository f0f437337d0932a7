/* Which algorithm of a verb the environment forces, for tests and measurements.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BACKEND_CPU_CHOICE_H
#define SITU_BACKEND_CPU_CHOICE_H

#include "cpu.h"

typedef struct situ__algorithm_choice {
  const char *variable;            /* of the environment; its value is the name of an algorithm */
  const char *(*name_of)(int row); /* of a row of the verb's table; NULL after the last */
  int state;                       /* 0: not read yet, else a row, or one of these, + 3 */
} situ__algorithm_choice;
enum { SITU__CHOICE_FREE = -1, SITU__CHOICE_UNKNOWN = -2 };

/* Reads the environment. A race is harmless, as all threads read the same. */
int situ__choice_read(situ__algorithm_choice *choice);
/* The row that is forced; FREE: none; UNKNOWN: one that is not in the table. */
static inline int situ__choice_of(situ__algorithm_choice *choice) {
  const int state = __atomic_load_n(&choice->state, __ATOMIC_RELAXED);
  return __builtin_expect(state != 0, 1) ? state - 3 : situ__choice_read(choice);
}
/* Forces a row, or SITU__CHOICE_FREE, from now on. */
static inline void situ__choice_force(situ__algorithm_choice *choice, int row) {
  __atomic_store_n(&choice->state, row + 3, __ATOMIC_RELAXED);
}
/* Whether a row may run. */
static inline bool situ__choice_allows(int choice, int row) { return choice == SITU__CHOICE_FREE || choice == row; }
/* For work that no row that may run suits: records an error that names those that suit, bit by bit, if a row is forced.
   Returns SITU_E_UNSUPPORTED. */
situ_status situ__choice_refuse(situ__algorithm_choice *choice, const char *op, uint32_t suiting);

#endif
