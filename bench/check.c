/* The cost of the check: a + b on 64 floats, and in the same run the check alone: the fast path that this call takes,
   and the general one. SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "dispatch/dispatch.h"
#include "situ/situ.h"

enum { ROUNDS = 31, CALLS = 20000 };

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

static double median(double *list) {
  qsort(list, ROUNDS, sizeof *list, by_value);
  return list[ROUNDS / 2];
}

static const situ_op *op_named(const char *name) {
  const situ_op *const *table;
  size_t count = situ_op_table(&table);
  for (size_t i = 0; i < count; i++)
    if (table[i] && strcmp(table[i]->name, name) == 0) return table[i];
  return NULL;
}

static double time_of_add(situ_tensor *a, situ_tensor *b) {
  double begin = seconds();
  for (int i = 0; i < CALLS; i += 100) {
    situ_scope s;
    situ_scope_begin_no_grad(&s);
    for (int k = 0; k < 100; k++) (void)!situ_add(a, b);
    SITU_IGNORE(situ_scope_end(&s));
  }
  return (seconds() - begin) / CALLS;
}

static double time_of_check(const situ_op *op, situ_tensor *const *in, bool plain) {
  situ_call call = { .op = op, .ins = 2, .in = in };
  double begin = seconds();
  int good = 0;
  for (int i = 0; i < CALLS; i++) {
    good += plain ? situ__plain_pair(op, in[0], in[1]) : situ__check(&call);
    __asm__ volatile("" ::: "memory"); /* each time anew */
  }
  return good == CALLS ? (seconds() - begin) / CALLS : 0;
}

int main(void) {
  situ_tensor *in[2] = { situ_ones(SITU_SHAPE(64), NULL), situ_ones(SITU_SHAPE(64), NULL) };
  const situ_op *op = op_named("add");
  if (!op || !in[0] || !in[1]) return 1;
  double add[ROUNDS], plain[ROUNDS], general[ROUNDS], share[ROUNDS];
  SITU_IGNORE(situ_set_num_threads(1));
  for (int r = 0; r < ROUNDS; r++) {
    add[r] = time_of_add(in[0], in[1]);
    plain[r] = time_of_check(op, in, true);
    general[r] = time_of_check(op, in, false);
    share[r] = plain[r] / add[r];
  }
  double whole = 1e9 * median(add), part = 1e9 * median(plain), other = 1e9 * median(general), ratio = median(share);
  printf("a + b on 64 floats %.1f ns, the check in it %.1f ns: %.1f %%  (must 5 %%); the general check %.1f ns\n",
         whole, part, 100 * ratio, other);
  printf("{\"what\": \"check\", \"add_ns\": %.2f, \"check_ns\": %.2f, \"general_ns\": %.2f, "
         "\"share\": %.4f, \"must\": 0.05}\n",
         whole, part, other, ratio);
  return 0;
}
