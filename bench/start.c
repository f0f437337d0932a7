/* Milliseconds from the start of a process to the first result of an MLP whose weights it has loaded (H13). The process
   is this program with the file as its argument, linked with the shared library as programs of users are.
   SPDX-License-Identifier: MIT */
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/measure.h"
#include "support/rounds.h"

extern char **environ;

static situ_nn_module *mlp(void) {
  return situ_nn_sequential(situ_nn_linear(784, 256, NULL), situ_nn_relu(), situ_nn_linear(256, 128, NULL),
                            situ_nn_relu(), situ_nn_linear(128, 10, NULL));
}

/* The child: writes for how long it waited for a core once it has the result. */
static int give_result(const char *path) {
  float result[10];
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  situ_nn_module *net = mlp();
  situ_tree *state = situ_load(path, NULL);
  need(situ_nn_load_state_dict(net, state, &(situ_nn_load_options){ .assign = true }));
  situ_tensor *y = situ_nn_forward(net, situ_ones(SITU_SHAPE(1, 784), NULL));
  need(situ_copy_to_host(y, result, sizeof result));
  const double waited = waited_seconds();
  if (write(STDOUT_FILENO, &waited, sizeof waited) != (ssize_t)sizeof waited) return 1;
  situ_tree_free(state);
  situ_nn_free(net);
  return situ_scope_end(&s) != SITU_OK;
}

/* Milliseconds until the child's result is there; *waited: of the child. */
static double start(char *program, char *path, double *waited) {
  char *arguments[] = { program, path, NULL };
  posix_spawn_file_actions_t actions;
  int ends[2], status;
  pid_t child;
  if (pipe(ends) != 0 || posix_spawn_file_actions_init(&actions) != 0 ||
      posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO) != 0)
    exit(1);
  const double begin = seconds();
  if (posix_spawn(&child, program, &actions, NULL, arguments, environ) != 0) exit(1);
  (void)close(ends[1]);
  if (read(ends[0], waited, sizeof *waited) != (ssize_t)sizeof *waited) exit(1);
  const double taken = 1e3 * (seconds() - begin);
  (void)close(ends[0]);
  if (waitpid(child, &status, 0) != child || status != 0) exit(1);
  (void)posix_spawn_file_actions_destroy(&actions);
  return taken;
}

int main(int argc, char **argv) {
  char path[] = "/tmp/situ-start-XXXXXX", ours[32];
  double each[ROUNDS_MAX], list[ROUNDS_MAX], waited;
  if (argc == 2) return give_result(argv[1]);
  const int file = mkstemp(path);
  if (file < 0) return 1;
  (void)close(file);
  situ_nn_module *net = mlp();
  situ_tree *state = situ_nn_state_dict(net);
  need(situ_save(path, state, NULL));
  rounds r = { .wanted = 41, .threads = 1 };
  while (next_round(&r)) {
    each[r.now] = start(argv[0], path, &waited);
    r.waited = 1e3 * waited / each[r.now];
  }
  const int kept = keep_quiet(&r, each);
  memcpy(list, each, sizeof list);
  (void)snprintf(ours, sizeof ours, "%.2f ms", median(list, kept));
  tell_rounds("H13", "start to first result of an MLP, ms", ours, "", each, kept, was_disturbed(&r), 10, true);
  situ_tree_free(state);
  situ_nn_free(net);
  (void)unlink(path);
  return 0;
}
