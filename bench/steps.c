/* Training steps that bench/torch/steps.py has beside PyTorch's. With `serve` each line of input is a job of
   support/steps.h, the number of threads and of steps; the answer is a step's processor seconds, its seconds on the
   clock, and the share of these in which a thread waited for a core. Without it each job is done a few times.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "support/measure.h"
#include "support/steps.h"

static void answer(training *t, int steps) {
  const double before = waited_seconds(); /* reads files, which is not part of a step */
  const double begin = seconds(), used = processor_seconds();
  for (int k = 0; k < steps; k++) training_step(t);
  const double spent = processor_seconds() - used, taken = seconds() - begin;
  printf("%.9f %.9f %.4f\n", spent / steps, taken / steps, (waited_seconds() - before) / taken);
  (void)fflush(stdout);
}

int main(int argc, char **argv) {
  static const char *const all[] = { "mlp",  "lenet",      "char_gpt", "gpt256",    "resnet18",
                                     "lstm", "lstm_small", "adamw_16", "adamw_818k" };
  char name[32], now[32] = "";
  int threads, steps;
  training *t = NULL;
  situ_scope s;
  situ_scope_begin(&s);
  if (argc < 2 || strcmp(argv[1], "serve") != 0) {
    need(situ_set_num_threads(1));
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
      t = training_new(all[k]);
      training_step(t);
      printf("     %-12s ", all[k]);
      answer(t, 3);
      training_free(t);
    }
    return situ_scope_end(&s) != SITU_OK;
  }
  while (scanf("%31s %d %d", name, &threads, &steps) == 3) {
    need(situ_set_num_threads(threads));
    if (strcmp(name, now) != 0) {
      if (t) training_free(t);
      t = training_new(name);
      if (!t) return fprintf(stderr, "no job %s\n", name), 1;
      (void)strcpy(now, name);
    }
    answer(t, steps);
  }
  if (t) training_free(t);
  return situ_scope_end(&s) != SITU_OK;
}
