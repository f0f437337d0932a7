/* The demo: train, print, save, load in a new process, compare bit by bit, draw.
   SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "demo.h"

typedef struct options {
  const char *data, *out, *device;
  int epochs;
  bool predict; /* the second process: load and predict */
} options;

static int usage(void) {
  fputs("usage: situ-demo [--device D] [--epochs N] [--out DIRECTORY] [--data FILE]\n", stderr);
  return 2;
}

static bool parse(int argc, char **argv, options *o) {
  *o = (options){ .data = SITU_DATA_DIR "/digits.safetensors", .out = "build/demo", .device = "cpu", .epochs = 12 };
  for (int i = 1; i < argc; i++) {
    const char *value = i + 1 < argc ? argv[i + 1] : NULL;
    if (!strcmp(argv[i], "--predict")) o->predict = true;
    else if (!value) return false;
    else if (!strcmp(argv[i], "--device")) o->device = value, i++;
    else if (!strcmp(argv[i], "--out")) o->out = value, i++;
    else if (!strcmp(argv[i], "--data")) o->data = value, i++;
    else if (!strcmp(argv[i], "--epochs")) o->epochs = (int)strtol(value, NULL, 10), i++;
    else return false;
  }
  return o->epochs >= 1 && o->epochs <= DEMO_EPOCHS_MAX;
}

static const char *in(const options *o, const char *name, char path[4096]) {
  snprintf(path, 4096, "%s/%s", o->out, name);
  return path;
}

/* The second process: loads the saved weights into a new network, and predicts. */
static situ_status predict(const options *o, const demo_digits *d) {
  char path[4096];
  situ_nn_module *net = demo_network();
  situ_tree *saved = situ_load(in(o, "model.safetensors", path), NULL);
  situ_status status = saved ? situ_nn_load_state_dict(net, saved, NULL) : situ_error();
  if (status == SITU_OK) status = situ_nn_to(net, situ_dev(o->device));
  if (status == SITU_OK) status = situ_npy_save(in(o, "scores-again.npy", path), demo_scores(net, d->test_x), NULL);
  situ_tree_free(saved);
  situ_nn_free(net);
  return status;
}

/* Runs this program again, and compares its predictions with our scores, bit by bit. */
static bool same_in_new_process(const options *o, char **argv, situ_tensor *scores) {
  pid_t child = fork();
  if (child == 0) {
    char *again[] = { argv[0],  "--predict",     "--device", (char *)o->device, "--out", (char *)o->out,
                      "--data", (char *)o->data, NULL };
    execv("/proc/self/exe", again);
    _exit(127);
  }
  int status = -1;
  if (child < 0 || waitpid(child, &status, 0) != child || status != 0) return false;
  char path[4096];
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  bool same = false;
  situ_tensor *other = situ_npy_load(in(o, "scores-again.npy", path), NULL);
  size_t bytes = (size_t)situ_numel(scores) * sizeof(float);
  float *a = malloc(bytes), *b = malloc(bytes);
  if (a && b && other && situ_copy_to_host(scores, a, bytes) == SITU_OK &&
      situ_copy_to_host(other, b, bytes) == SITU_OK)
    same = memcmp(a, b, bytes) == 0;
  free(a);
  free(b);
  SITU_IGNORE(situ_scope_end(&s));
  return same;
}

static situ_status story(const options *o, char **argv, const demo_digits *d) {
  char path[4096];
  demo_history history;
  double accuracy = 0;
  situ_manual_seed(2026);
  situ_nn_module *net = demo_network();
  situ_status status = situ_nn_set_name(net, "net") ? situ_nn_to(net, situ_dev(o->device)) : situ_error();
  if (status == SITU_OK) {
    situ_nn_print(net);
    putchar('\n');
    situ_place_print(net);
    printf("\n%lld digits to learn from, %lld held back\n", (long long)situ_size(d->train_x, 0),
           (long long)situ_size(d->test_x, 0));
    fflush(stdout);
    status = demo_train(net, d, o->epochs, &history);
  }
  situ_tensor *scores = status == SITU_OK ? demo_scores(net, d->test_x) : NULL;
  if (scores) status = demo_accuracy(scores, d->test_y, &accuracy);
  if (status == SITU_OK) {
    printf("\naccuracy on held-back digits: %.1f %%, after %.1f s of training\n", 100 * accuracy, history.seconds);
    situ_tree *state = situ_nn_state_dict(net);
    status = situ_save(in(o, "model.safetensors", path), state, NULL);
    situ_tree_free(state);
  }
  if (status == SITU_OK) {
    printf("saved as %s\n", path);
    fflush(stdout);
    bool same = same_in_new_process(o, argv, scores);
    printf("loaded in a new process: %s\n", same ? "the same predictions, bit for bit" : "the predictions DIFFER");
    if (!same) status = SITU_E_STATE;
  }
  if (status == SITU_OK) status = demo_picture(in(o, "digits.svg", path), &history, d, scores);
  if (status == SITU_OK) printf("picture: %s\n", path);
  if (status == SITU_OK) status = demo_mistake(net, d);
  situ_nn_free(net);
  return status;
}

int main(int argc, char **argv) {
  options o;
  if (!parse(argc, argv, &o)) return usage();
  mkdir(o.out, 0777);
  demo_digits digits = { 0 };
  situ_scope s;
  situ_scope_begin(&s);
  situ_status status = demo_digits_load(&digits, o.data);
  if (status == SITU_OK) status = o.predict ? predict(&o, &digits) : story(&o, argv, &digits);
  demo_digits_free(&digits);
  situ_status end = situ_scope_end(&s);
  return status == SITU_OK && end == SITU_OK ? 0 : 1;
}
