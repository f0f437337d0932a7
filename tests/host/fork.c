/* A program forks while its other threads are in the library: each child finds every lock free, and is refused what needs
   the parent's threads or devices. With SITU_TEST_ALL 1,000 forks a kind of work. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "situ/situ.h"
#include "situ/sys/comm_sim.h"
#include "support/test.h"

static bool stop;
static bool is_over(void) { return __atomic_load_n(&stop, __ATOMIC_RELAXED); }

static void use_modules(void) {
  situ_nn_free(situ_nn_relu());
  situ_nn_free(situ_nn_sequential(situ_nn_linear(3, 4, NULL), situ_nn_batch_norm1d(4, NULL)));
}

static void train(void) {
  situ_scope s;
  situ_scope_begin(&s);
  situ_nn_module *m = situ_nn_linear(16, 8, NULL);
  situ_optim *optim = situ_optim_adamw(situ_nn_parameters(m), 1e-3, NULL);
  situ_tensor *x = situ_ones(SITU_SHAPE(64, 16), NULL);
  (void)situ_backward(situ_sum(situ_nn_forward(m, x), NULL), NULL);
  (void)situ_optim_step(optim);
  (void)situ_optim_zero_grad(optim, true);
  situ_optim_free(optim);
  situ_nn_free(m);
  (void)situ_scope_end(&s);
}

static void move(void) {
  situ_nn_module *m = situ_nn_linear(4, 4, NULL);
  (void)situ_nn_to(m, (situ_device){ SITU_SIM, 0 });
  (void)situ_nn_to(m, (situ_device){ SITU_CPU, 0 });
  situ_nn_free(m);
}

static void save(void) {
  situ_nn_module *m = situ_nn_linear(4, 4, NULL);
  situ_tree *state = situ_nn_state_dict(m);
  (void)situ_save("fork.safetensors", state, NULL);
  situ_tree_free(state);
  situ_nn_free(m);
}

/* Each failure looks a source line up. */
static void be_refused(void) {
  situ_scope s;
  situ_scope_begin(&s);
  (void)situ_add(situ_ones(SITU_SHAPE(2), NULL), situ_ones(SITU_SHAPE(3), NULL));
  situ_error_clear();
  (void)situ_scope_end(&s);
}

static void transform(void) {
  situ_scope s;
  situ_scope_begin(&s);
  situ_ledger ledger;
  situ_ledger_begin(&ledger);
  (void)situ_fft_rfft(situ_ones(SITU_SHAPE(60), NULL), NULL);
  (void)situ_ledger_end(&ledger);
  (void)situ_scope_end(&s);
}

/* The message describes the memory, and looks up where its tensor was made. */
static situ_tensor *without_values;
static void ask_for_no_values(void) {
  double value;
  (void)situ_item(without_values, &value);
  situ_error_clear();
}

static void (*const works[])(void) = { use_modules, train, move, save, be_refused, transform, ask_for_no_values };
enum { WORKS = sizeof works / sizeof *works };

static void *run(void *work) {
  (void)situ_error_mode(SITU_ERROR_QUIET);
  while (!is_over()) works[(intptr_t)work]();
  return NULL;
}

/* What every child may do, whatever the parent had open: free and make what needs no device, ask, fail. */
static int child(void) {
  (void)situ_error_mode(SITU_ERROR_QUIET);
  for (int k = 0; k < WORKS; k++) works[k]();
  return 0;
}

static void fork_beside(int first, int last) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  skip(); /* the sanitizer's own allocator is not free in the child of a process with threads */
#endif
  const int forks = getenv("SITU_TEST_ALL") ? 1000 : 40;
  pthread_t thread[WORKS];
  __atomic_store_n(&stop, false, __ATOMIC_RELAXED);
  for (int k = first; k <= last; k++) assert_int_equal(pthread_create(&thread[k], NULL, run, (void *)(intptr_t)k), 0);
  int ended = 0;
  for (int i = 0; i < forks; i++) {
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
      (void)alarm(30); /* a child that waits for a lock is ended by it */
      _exit(child());
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    ended += WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (ended <= i) break;
  }
  __atomic_store_n(&stop, true, __ATOMIC_RELAXED);
  for (int k = first; k <= last; k++) (void)pthread_join(thread[k], NULL);
  assert_int_equal(ended, forks);
}

static void beside_each_kind_of_work(void **state) {
  (void)state;
  for (int k = 0; k < WORKS; k++) fork_beside(k, k);
}

static void beside_all_of_them(void **state) {
  (void)state;
  fork_beside(0, WORKS - 1);
}

static pid_t forked;
static void fork_in_log(const char *line, void *payload) {
  (void)line, (void)payload;
  forked = fork();
  if (forked == 0) _exit(child());
}

/* The lock that the forking thread holds is its own. */
static void in_the_log_function(void **state) {
  (void)state;
  situ_error_log(fork_in_log, NULL);
  (void)situ_error_mode(SITU_ERROR_LOG);
  (void)situ_neg(NULL);
  situ_error_clear();
  situ_error_log(NULL, NULL);
  int status = -1;
  assert_true(forked > 0 && waitpid(forked, &status, 0) == forked);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* Its peers know the parent: refused in the child, whatever it would do. */
static void with_a_communicator(void **state) {
  (void)state;
  situ_comm_sim *world = situ_comm_sim_new(1, NULL);
  situ_comm *comm = situ_comm_sim_rank(world, 0, NULL);
  assert_non_null(comm);
  const pid_t pid = fork();
  if (pid == 0) {
    (void)alarm(30);
    const bool refused = situ_comm_barrier(comm, "fork") == SITU_E_STATE;
    situ_comm_free(comm);
    _exit(!refused);
  }
  int status = -1;
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  assert_int_equal(situ_comm_barrier(comm, "fork"), SITU_OK);
  situ_comm_free(comm);
  situ_comm_sim_free(world);
}

int main(void) {
  without_values = situ_empty(SITU_SCALAR, NULL);
  const struct CMUnitTest tests[] = { TEST(beside_each_kind_of_work), TEST(beside_all_of_them),
                                      TEST(in_the_log_function), TEST(with_a_communicator) };
  return cmocka_run_group_tests_name("host/fork", tests, NULL, NULL);
}
