/* A network that PyTorch exported (tools/exchange, torch.export.save) learns something new in C: whether the sum of six
   numbers is below, near or above 0.
   SPDX-License-Identifier: MIT */
#include <stdio.h>

#include "device.h"
#include "situ/situ.h"

int main(int argc, char **argv) {
  situ_device device = device_of(&argc, argv, "cpu");
  const char *path = argc > 1 ? argv[1] : SITU_EXAMPLE_DATA "/mlp.pt2";
  situ_scope s;
  situ_scope_begin(&s);
  situ_manual_seed(1);
  if (situ_set_default_device(device) != SITU_OK) return 1;

  situ_nn_module *net = situ_export_load(path, &(situ_load_options){ .device = device });
  if (!net) return 1;
  situ_nn_print(net);
  situ_optim *optim = situ_optim_adamw(situ_nn_parameters(net), 1e-2, NULL);
  for (int step = 0; step <= 300; step++) {
    situ_scope inner;
    situ_scope_begin(&inner);
    situ_tensor *x = situ_randn(SITU_SHAPE(256, 6), NULL);
    situ_tensor *sum = situ_sum(x, &(situ_reduce_options){ .dim = SITU_DIMS(1) });
    situ_tensor *classes =
        situ_add(situ_to_dtype(situ_gt_scalar(sum, -1), SITU_I64), situ_to_dtype(situ_gt_scalar(sum, 1), SITU_I64));
    situ_tensor *scores = situ_nn_forward(net, x);
    situ_tensor *loss = situ_cross_entropy(scores, classes, NULL);
    if (situ_optim_zero_grad(optim, true) != SITU_OK || situ_backward(loss, NULL) != SITU_OK ||
        situ_optim_step(optim) != SITU_OK)
      return 1;
    double value;
    if (step % 100 == 0 && situ_item(loss, &value) == SITU_OK) printf("step %3d  loss %.4f\n", step, value);
    if (situ_scope_end(&inner) != SITU_OK) return 1;
  }

  situ_tree *state = situ_nn_state_dict(net); /* PyTorch's names: torch loads it back */
  const situ_status saved = situ_save("finetuned.safetensors", state, NULL);
  situ_tree_free(state);
  situ_optim_free(optim);
  situ_nn_free(net);
  return situ_scope_end(&s) != SITU_OK || saved != SITU_OK;
}
