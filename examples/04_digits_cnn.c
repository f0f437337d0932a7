/* A convolutional network on real digits: a loader, training and evaluation mode, a checkpoint.
   The demo tells the same story at more length.
   SPDX-License-Identifier: MIT */
/* test-args: 2 */
/* test-slow: cpu/sanitized */
#include <stdio.h>
#include <stdlib.h>

#include "device.h"
#include "situ/situ.h"

enum { TRAIN = 1500 };

static situ_nn_module *network(void) {
  situ_nn_conv_options same = { .padding = SITU_DIMS(1) };
  return situ_nn_sequential(situ_nn_conv2d(1, 16, SITU_DIMS(3), &same), situ_nn_relu(),
                            situ_nn_conv2d(16, 32, SITU_DIMS(3), &same), situ_nn_relu(),
                            situ_nn_max_pool2d(SITU_DIMS(2), NULL), situ_nn_flatten(1, -1), situ_nn_dropout(0.2),
                            situ_nn_linear(32 * 4 * 4, 10, NULL));
}

static situ_status train_step(situ_nn_module *net, situ_optim *optim, const situ_tree *batch) {
  situ_scope s;
  situ_scope_begin(&s);
  situ_tensor *loss =
      situ_cross_entropy(situ_nn_forward(net, situ_tree_tensor_at(batch, 0)), situ_tree_tensor_at(batch, 1), NULL);
  SITU_TRY(situ_optim_zero_grad(optim, true)); /* returns its error; the enclosing scope closes this one then */
  SITU_TRY(situ_backward(loss, NULL));
  SITU_TRY(situ_optim_step(optim));
  return situ_scope_end(&s);
}

static situ_status accuracy(situ_nn_module *net, situ_tensor *x, situ_tensor *y, double *out) {
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  situ_tensor *said = situ_argmax(situ_nn_forward(situ_nn_eval(net), x), &(situ_reduce_options){ .dim = SITU_DIMS(1) });
  SITU_TRY(situ_item(situ_mean(situ_to_dtype(situ_eq(said, y), SITU_F32), NULL), out));
  return situ_scope_end(&s);
}

int main(int argc, char **argv) {
  situ_device device = device_of(&argc, argv, "cpu");
  int epochs = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 10;
  situ_scope s;
  situ_scope_begin(&s);
  situ_manual_seed(3);

  situ_tree *file = situ_load(SITU_DATA_DIR "/digits.safetensors", NULL);
  situ_tensor *x = situ_unsqueeze(situ_div_scalar(situ_to_dtype(situ_tree_get(file, "images"), SITU_F32), 16), 1);
  situ_tensor *y = situ_to_dtype(situ_tree_get(file, "labels"), SITU_I64);
  if (!x || !y) return 1;
  int64_t held_back = situ_size(x, 0) - TRAIN;
  situ_tensor *test_x = situ_to(situ_narrow(x, 0, TRAIN, held_back), device),
              *test_y = situ_to(situ_narrow(y, 0, TRAIN, held_back), device);

  situ_generator generator = situ_generator_seeded(3);
  situ_dataset *set = situ_tensor_dataset(SITU_TREE(situ_narrow(x, 0, 0, TRAIN), situ_narrow(y, 0, 0, TRAIN)));
  situ_data_loader *loader = situ_data_loader_new(
      set, &(situ_data_loader_options){
               .batch_size = 50, .shuffle = true, .num_workers = 1, .device = device, .generator = &generator });
  situ_nn_module *net = network();
  if (situ_nn_to(net, device) != SITU_OK) return 1;
  situ_optim *optim = situ_optim_adamw(situ_nn_parameters(net), 2e-3, NULL);

  for (int epoch = 1; epoch <= epochs; epoch++) {
    const situ_tree *batch;
    situ_nn_train(net, true);
    while ((batch = situ_data_loader_next(loader)))
      if (train_step(net, optim, batch) != SITU_OK) return 1;
    double right;
    if (situ_error() || accuracy(net, test_x, test_y, &right) != SITU_OK) return 1;
    printf("epoch %2d  %.1f %% of %lld held-back digits right\n", epoch, 100 * right, (long long)held_back);
  }
  /* Model, optimiser and both generators: a run that loads this resumes bit for bit. */
  if (situ_checkpoint_save(
          "digits-checkpoint.safetensors",
          &(situ_checkpoint){ .model = net, .optimizer = optim, .generator = &generator, .epoch = epochs },
          NULL) != SITU_OK)
    return 1;
  puts("saved digits-checkpoint.safetensors");

  situ_optim_free(optim);
  situ_nn_free(net);
  situ_data_loader_free(loader);
  situ_dataset_free(set);
  situ_tree_free(file);
  return situ_scope_end(&s) != SITU_OK;
}
