/* The demo: a small convolutional network learns to read handwritten digits.
   SPDX-License-Identifier: MIT */
#ifndef SITU_DEMO_H
#define SITU_DEMO_H

#include "situ/situ.h"

enum { DEMO_EPOCHS_MAX = 200, DEMO_SHOWN = 60 };

/* digits.c: the data, as f32 pictures [n, 1, 8, 8] in 0..1 and i64 labels [n], split by a fixed seed. */
typedef struct demo_digits {
  situ_tensor *train_x, *train_y, *test_x, *test_y;
} demo_digits;
situ_status demo_digits_load(demo_digits *digits, const char *path);
void demo_digits_free(demo_digits *digits);

/* train.c */
typedef struct demo_history {
  int epochs;
  double loss[DEMO_EPOCHS_MAX], test_loss[DEMO_EPOCHS_MAX], accuracy[DEMO_EPOCHS_MAX];
  double seconds;
} demo_history;
situ_nn_module *demo_network(void);
situ_status demo_train(situ_nn_module *net, const demo_digits *digits, int epochs, demo_history *history);
/* Class scores of the held-back digits, without recording, in evaluation mode. Owned by the innermost scope. */
situ_tensor *demo_scores(situ_nn_module *net, situ_tensor *pictures);
situ_status demo_accuracy(situ_tensor *scores, situ_tensor *labels, double *out);

/* mistake.c: passes the network a batch on another device, on purpose, and prints the error. */
situ_status demo_mistake(situ_nn_module *net, const demo_digits *digits);

/* picture.c: curves of loss and accuracy, and a sheet of held-back digits with the network's answers. */
situ_status demo_picture(const char *path, const demo_history *history, const demo_digits *digits, situ_tensor *scores);

#endif
