/* Two threads beside one, by the clock: the speed-up of products, convolution, attention, element-wise work and
   training steps, beside that of memcpy (H15); and what two threads lose where another program keeps one of two cores
   busy (H14). Rounds count in which both cores were quiet and threads hardly waited for one.
   SPDX-License-Identifier: MIT */
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/measure.h"
#include "support/rounds.h"
#include "support/steps.h"

enum { ROUNDS = 21, CORES = 2 };
#define COPIED ((size_t)64 << 20)

static situ_tensor *matrix, *image, *kernel, *head, *large;
static training *trained;
static char *from, *to;

static void matmul(int threads) {
  need(situ_matmul(matrix, matrix) ? SITU_OK : situ_error());
  (void)threads;
}
static void convolve(int threads) {
  (void)threads;
  need(situ_conv2d(image, kernel, NULL, &(situ_conv_options){ .padding = SITU_DIMS(1) }) ? SITU_OK : situ_error());
}
static void attend(int threads) {
  (void)threads;
  need(situ_scaled_dot_product_attention(head, head, head, NULL) ? SITU_OK : situ_error());
}
static void add(int threads) {
  need(situ_add(large, large) ? SITU_OK : situ_error());
  (void)threads;
}
static void train(int threads) {
  training_step(trained);
  (void)threads;
}

static void *copy_second_half(void *unused) {
  memcpy(to + COPIED / 2, from + COPIED / 2, COPIED / 2);
  return unused;
}
static void copy(int threads) {
  pthread_t other;
  if (threads == 2 && pthread_create(&other, NULL, copy_second_half, NULL) != 0) exit(1);
  memcpy(to, from, COPIED / (size_t)threads);
  if (threads == 2 && pthread_join(other, NULL) != 0) exit(1);
}

/* Seconds of a call, over at least 20 ms; *waited: the share of them in which threads waited. */
static double time_of(void (*call)(int threads), int threads, double *waited) {
  need(situ_set_num_threads(threads));
  int calls = 0;
  const double begin = seconds(), before = waited_seconds();
  double taken;
  do {
    situ_scope s;
    situ_scope_begin(&s);
    call(threads);
    need(situ_scope_end(&s));
    calls++;
    taken = seconds() - begin;
  } while (taken < 0.02);
  *waited = (waited_seconds() - before) / taken;
  return taken / calls;
}

/* The median of one thread's time / two threads'. must: the least one. */
static double scale(const char *what, void (*call)(int threads), double must) {
  double one[ROUNDS_MAX], two[ROUNDS_MAX], ratio[ROUNDS_MAX], waited[2];
  char ours[32], theirs[32];
  (void)time_of(call, 2, waited);
  rounds r = { .wanted = ROUNDS, .threads = CORES };
  while (next_round(&r)) {
    one[r.now] = time_of(call, 1, &waited[0]);
    two[r.now] = time_of(call, 2, &waited[1]);
    ratio[r.now] = one[r.now] / two[r.now];
    r.waited = waited[0] > waited[1] ? waited[0] : waited[1];
  }
  const int kept = keep_quiet(&r, ratio);
  (void)snprintf(ours, sizeof ours, "%.2f ms", 1e3 * median(two, keep_quiet(&r, two)));
  (void)snprintf(theirs, sizeof theirs, "1T %.2f ms", 1e3 * median(one, keep_quiet(&r, one)));
  if (must > 0) tell_rounds("H15", what, ours, theirs, ratio, kept, was_disturbed(&r), must, false);
  return median(ratio, kept);
}

/* Two threads' time with a neighbour that computes / one thread's without. Once both run, it takes the system some 20
   ms to give the neighbour and the second thread one core, and the first thread the other: that is not counted. */
static void beside_neighbour(const char *what, void (*call)(int threads)) {
  double ratio[ROUNDS_MAX], two = 0, alone = 0, unused;
  char ours[32], theirs[32];
  rounds r = { .wanted = ROUNDS, .threads = CORES };
  while (next_round(&r)) {
    alone = time_of(call, 1, &r.waited);
    const pid_t neighbour = fork();
    if (neighbour < 0) exit(1);
    if (neighbour == 0)
      for (volatile unsigned long k = 0;;) k = k + 1;
    (void)time_of(call, 2, &unused);
    two = time_of(call, 2, &unused);
    ratio[r.now] = two / alone;
    (void)kill(neighbour, SIGKILL);
    (void)waitpid(neighbour, NULL, 0);
  }
  (void)snprintf(ours, sizeof ours, "%.2f ms", 1e3 * two);
  (void)snprintf(theirs, sizeof theirs, "1T %.2f ms", 1e3 * alone);
  tell_rounds("H14", what, ours, theirs, ratio, keep_quiet(&r, ratio), was_disturbed(&r), 1.3, true);
}

int main(void) {
  static const char *const steps[] = { "mlp", "lenet", "char_gpt", "gpt256", "resnet18" };
  char what[64];
  situ_scope s;
  situ_scope_begin(&s);
  matrix = situ_randn(SITU_SHAPE(1024, 1024), NULL);
  image = situ_randn(SITU_SHAPE(8, 64, 56, 56), NULL);
  kernel = situ_randn(SITU_SHAPE(64, 64, 3, 3), NULL);
  head = situ_randn(SITU_SHAPE(1, 12, 1024, 64), NULL);
  large = situ_randn(SITU_SHAPE(1 << 24), NULL);
  need(situ_error());
  from = malloc(COPIED);
  to = malloc(COPIED);
  if (!from || !to) return 1;
  memset(from, 1, COPIED);
  memset(to, 2, COPIED);
  const double copied = scale("memcpy of 64 MiB", copy, 0);
  printf("     two threads copy memory %.2f times as fast as one\n", copied);
  (void)scale("f32 product of 1024, 2T / 1T", matmul, 1.8);
  (void)scale("3 x 3 convolution of 8 x 64 x 56 x 56, 2T / 1T", convolve, 1.8);
  (void)scale("attention 12 x 1024 x 64, 2T / 1T", attend, 1.8);
  (void)scale("a + b of 16 Mi, 2T / 1T", add, 0.9 * copied);
  beside_neighbour("f32 product of 1024, neighbour", matmul);
  for (size_t k = 0; k < sizeof steps / sizeof *steps; k++) {
    trained = training_new(steps[k]);
    (void)snprintf(what, sizeof what, "%s step, 2T / 1T", steps[k]);
    (void)scale(what, train, 1.75);
    (void)snprintf(what, sizeof what, "%s step, neighbour", steps[k]);
    if (strcmp(steps[k], "resnet18") != 0) beside_neighbour(what, train);
    training_free(trained);
  }
  return situ_scope_end(&s) != SITU_OK;
}
