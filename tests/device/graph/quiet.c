/* A replay on the cpu calls no allocator, takes no lock and, with one thread, makes no system call. The program's own malloc
   and pthread_mutex_lock count the calls of the thread that replays; seccomp's strict mode kills it at any system call.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu */
/* test-links: Threads::Threads */
#include <dlfcn.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "situ/graph.h"
#include "situ/optim.h"
#include "situ/sys/alloc.h"
#include "support/pairs.h"

/* ---- the calls of one thread ---- */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1 /* which has these functions itself, and makes system calls */
#endif

static __thread long allocations = -1, locks = -1; /* -1: not counted */
#ifndef SANITIZED
static void count(long *calls) {
  if (*calls >= 0) ++*calls;
}

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t number, size_t bytes);
void *__libc_realloc(void *old, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);
void *malloc(size_t bytes) { return count(&allocations), __libc_malloc(bytes); }
void *calloc(size_t number, size_t bytes) { return count(&allocations), __libc_calloc(number, bytes); }
void *realloc(void *old, size_t bytes) { return count(&allocations), __libc_realloc(old, bytes); }
int posix_memalign(void **memory, size_t alignment, size_t bytes) {
  count(&allocations);
  return (*memory = __libc_memalign(alignment, bytes)) ? 0 : 12;
}

static int (*real_lock)(pthread_mutex_t *), (*real_trylock)(pthread_mutex_t *);
int pthread_mutex_lock(pthread_mutex_t *mutex) {
  count(&locks);
  if (!real_lock) real_lock = __extension__(int (*)(pthread_mutex_t *)) dlsym(RTLD_NEXT, "pthread_mutex_lock");
  return real_lock(mutex);
}
int pthread_mutex_trylock(pthread_mutex_t *mutex) {
  count(&locks);
  if (!real_trylock) real_trylock = __extension__(int (*)(pthread_mutex_t *)) dlsym(RTLD_NEXT, "pthread_mutex_trylock");
  return real_trylock(mutex);
}
#endif

/* ---- a training step with everything in it ---- */

enum { ROWS = 32, WIDTH = 64, CLASSES = 10, REPLAYS = 4 };

typedef struct training {
  situ_nn_module *model;
  situ_optim *optim;
  situ_tensor *x, *classes, *big;
  situ_graph *graph;
} training;

static void take_step(training *t) {
  situ_scope s;
  situ_scope_begin(&s);
  expect_ok(situ_optim_zero_grad(t->optim, true));
  situ_tensor *h = situ_nn_forward(t->model, t->x);
  situ_tensor *q = situ_reshape(h, SITU_SHAPE(ROWS / 8, 8, CLASSES));
  h = situ_add(h, situ_reshape(situ_scaled_dot_product_attention(q, q, q, NULL), SITU_SHAPE(ROWS, CLASSES)));
  expect_ok(situ_backward(situ_cross_entropy(h, t->classes, NULL), NULL));
  expect_ok(situ_optim_clip_grad_norm_(t->optim, 1, 2, NULL));
  expect_ok(situ_optim_step(t->optim));
  situ_tensor *product = situ_matmul(situ_cumsum(t->big, 0), t->big);              /* packs more than 1 MiB */
  assert_non_null(situ_copy_(t->big, situ_softmax(product, 1)));                   /* as large in each step */
  assert_non_null(situ_add(situ_sin(t->big), situ_mul(t->big, situ_neg(t->big)))); /* runs tile by tile */
  assert_non_null(situ_argmax(t->big, &(situ_reduce_options){ .dim = SITU_DIMS(1) }));
  expect_ok(situ_scope_end(&s));
}

static void begin_training(training *t) {
  expect_ok(situ_set_num_threads(1));
  t->model =
      situ_nn_sequential(situ_nn_linear(WIDTH, WIDTH, NULL), situ_nn_layer_norm(SITU_SHAPE(WIDTH), NULL),
                         situ_nn_gelu(SITU_GELU_NONE), situ_nn_dropout(0.3), situ_nn_linear(WIDTH, CLASSES, NULL));
  assert_non_null(t->optim = situ_optim_adamw(situ_nn_parameters(t->model), 1e-3, NULL));
  t->x = situ_retain(situ_randn(SITU_SHAPE(ROWS, WIDTH), NULL));
  t->classes = situ_retain(situ_zeros(SITU_SHAPE(ROWS), &(situ_options){ .dtype = SITU_I64 }));
  t->big = situ_retain(situ_full(SITU_SHAPE(600, 600), 1e-3, NULL));
  take_step(t);
  expect_ok(situ_graph_capture_begin(there()));
  take_step(t);
  assert_non_null(t->graph = situ_graph_capture_end());
}

static void end_training(training *t) {
  situ_graph_free(t->graph);
  situ_optim_free(t->optim);
  situ_nn_free(t->model);
  situ_release(t->x);
  situ_release(t->classes);
  situ_release(t->big);
}

/* Repeats what returns whether it was good. */
static void expect_quiet(bool (*again)(void *payload), void *payload) {
  bool good = true;
  situ_fail_allocation(0, false);
  allocations = locks = 0;
  for (int k = 0; k < REPLAYS && good; k++) good = again(payload);
  const long allocated = allocations, locked = locks;
  allocations = locks = -1;
  assert_true(good);
  assert_int_equal(situ_error(), SITU_OK);
  assert_int_equal(situ_allocation_count(), 0);
  assert_int_equal(allocated, 0);
  assert_int_equal(locked, 0);
}

static bool replay(void *t) { return (situ_graph_replay)(((training *)t)->graph) == SITU_OK; /* unchecked */ }

static void it_allocates_and_locks_nothing(void **state) {
  (void)state;
  training t;
  begin_training(&t);
  expect_quiet(replay, &t);
  end_training(&t);
}

/* The counters count. */
static void calls_are_counted(void **state) {
  (void)state;
#ifdef SANITIZED
  skip();
#endif
  training t;
  begin_training(&t);
  allocations = locks = 0;
  take_step(&t);
  const long allocated = allocations, locked = locks;
  allocations = locks = -1;
  assert_true(allocated > 0);
  assert_true(locked > 0);
  end_training(&t);
}

/* The example's callback, whose calls are not looked at either. */
#undef situ_copy_from_host
#undef situ_copy_to_host
#undef situ_graph_rebind
#undef situ_graph_replay
#define main main_19
#include "../../../examples/19_audio_block.c"
#undef main

static bool process(void *p) {
  float left[BLOCK] = { 0.25f }, right[BLOCK] = { -0.5f };
  return plugin_process(p, (float *[]){ left, right });
}

static void a_callback_of_audio_allocates_and_locks_nothing(void **state) {
  (void)state;
  plugin p;
  assert_true(plugin_open(&p, there()));
  assert_true(process(&p));
  expect_quiet(process, &p);
  plugin_close(&p);
}

/* In a thread that may only write, read and exit from here on. */
static int64_t replayed;
static void *replay_locked_in(void *payload) {
  training *t = payload;
  expect_ok(situ_graph_replay(t->graph)); /* what is made once in a thread */
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) != 0) {
    replayed = -1;
    return NULL;
  }
  for (int k = 0; k < REPLAYS; k++)
    if ((situ_graph_replay)(t->graph) == SITU_OK) __atomic_fetch_add(&replayed, 1, __ATOMIC_SEQ_CST);
  syscall(SYS_exit, 0);
  return NULL;
}

static void it_makes_no_system_call(void **state) {
  (void)state;
#ifdef SANITIZED
  skip();
#endif
  training t;
  pthread_t thread;
  begin_training(&t);
  replayed = 0;
  assert_int_equal(pthread_create(&thread, NULL, replay_locked_in, &t), 0);
  assert_int_equal(pthread_join(thread, NULL), 0);
  if (replayed < 0) print_message("SKIPPED: no seccomp\n");
  else assert_int_equal(replayed, REPLAYS);
  end_training(&t);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    PAIR_TEST(calls_are_counted),
    PAIR_TEST(it_allocates_and_locks_nothing),
    PAIR_TEST(a_callback_of_audio_allocates_and_locks_nothing),
    PAIR_TEST(it_makes_no_system_call),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
