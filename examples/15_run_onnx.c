/* A network that PyTorch exported to ONNX (torch.onnx.export) runs in C, with batches of two sizes.
   SPDX-License-Identifier: MIT */
#include <stdio.h>

#include "device.h"
#include "situ/situ.h"

int main(int argc, char **argv) {
  situ_device device = device_of(&argc, argv, "cpu");
  const char *path = argc > 1 ? argv[1] : SITU_EXAMPLE_DATA "/mlp.onnx";
  situ_scope s;
  situ_scope_begin(&s);
  situ_manual_seed(1);
  if (situ_set_default_device(device) != SITU_OK) return 1;

  situ_nn_module *net = situ_export_load(path, &(situ_load_options){ .device = device });
  if (!net) return 1; /* the error lists every operator that situ lacks, with its node */
  situ_nn_print(net);

  for (int64_t batch = 2; batch <= 4; batch += 2) { /* the batch size is free in this file */
    situ_tensor *x = situ_randn(SITU_SHAPE(batch, 6), NULL);
    situ_print(situ_softmax(situ_nn_forward(net, x), 1));
  }
  printf("%lld parameters\n", (long long)situ_nn_num_parameters(net));
  situ_nn_free(net);
  return situ_scope_end(&s) != SITU_OK;
}
