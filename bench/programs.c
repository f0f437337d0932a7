/* Programs that bench/torch/programs.py has beside onnxruntime: programs MODEL INPUT.npy... OUT. Inputs are in the
   program's order. Each line of input is a number of calls; the answer is the processor time of one, in seconds. The
   line "save" writes the results to OUT.0.npy, OUT.1.npy, ... With --load MODEL it prints the processor time of
   loading, in seconds, and by how many KiB the peak of memory grew.
   SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "support/measure.h"

static const char *prefix;
static situ_status save_result(const char *path, situ_tensor *t, void *payload) {
  int *count = payload;
  char name[4096];
  (void)path;
  (void)snprintf(name, sizeof name, "%s.%d.npy", prefix, (*count)++);
  return situ_npy_save(name, t, NULL);
}

static void save(situ_nn_module *program, const situ_tree *in) {
  situ_scope scope;
  int count = 0;
  situ_scope_begin_no_grad(&scope);
  situ_tree *out = situ_nn_call(program, in);
  need(situ_error());
  need(situ_tree_each(out, save_result, &count));
  situ_tree_free(out);
  need(situ_scope_end(&scope));
  printf("0\n");
}

static double time_calls(situ_nn_module *program, const situ_tree *in, int calls) {
  situ_scope scope;
  const double began = processor_seconds();
  for (int i = 0; i < calls; i++) {
    situ_scope_begin_no_grad(&scope);
    situ_tree *out = situ_nn_call(program, in);
    situ_tree_free(out);
    need(situ_scope_end(&scope));
  }
  return (processor_seconds() - began) / calls;
}

/* The peak of this program's own resident memory; getrusage's includes that of the process it was started by. */
static int64_t peak_kib(void) {
  char line[128];
  int64_t kib = 0;
  FILE *status = fopen("/proc/self/status", "r");
  while (status && fgets(line, sizeof line, status))
    if (strncmp(line, "VmHWM:", 6) == 0) kib = strtoll(line + 6, NULL, 10);
  if (status) (void)fclose(status);
  return kib;
}

static int time_loading(const char *path) {
  const int64_t before = peak_kib();
  const double began = processor_seconds();
  situ_nn_module *m = situ_export_load(path, &(situ_load_options){ .map = true });
  const double seconds = processor_seconds() - began;
  need(m ? SITU_OK : situ_error());
  printf("%.9g %" PRId64 "\n", seconds, peak_kib() - before);
  situ_nn_free(m);
  return 0;
}

int main(int argc, char **argv) {
  char line[64];
  if (argc == 3 && strcmp(argv[1], "--load") == 0) return time_loading(argv[2]);
  if (argc < 3) return fprintf(stderr, "usage: programs MODEL INPUT.npy... OUT\n"), 2;
  prefix = argv[argc - 1];
  situ_nn_module *program = situ_nn_eval(situ_export_load(argv[1], &(situ_load_options){ .map = true }));
  need(situ_error());
  situ_tree *in = situ_tree_list();
  for (int i = 2; i < argc - 1; i++) in = situ_tree_append(in, situ_tree_tensor(situ_npy_load(argv[i], NULL)));
  need(situ_error());
  while (fgets(line, sizeof line, stdin)) {
    if (strncmp(line, "save", 4) == 0) save(program, in);
    else printf("%.9g\n", time_calls(program, in, (int)strtol(line, NULL, 10)));
    (void)fflush(stdout);
  }
  situ_tree_free(in);
  situ_nn_free(program);
  return 0;
}
