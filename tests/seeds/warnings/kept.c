/* The same calls as they are meant: no compiler may find anything in this file.
   SPDX-License-Identifier: MIT */
#include "situ/situ.h"

situ_tensor *tensors(situ_tensor *x, situ_device device) {
  x = situ_to(x, device);
  x = situ_to_dtype(x, SITU_F16);
  return situ_detach(situ_clone(situ_contiguous(x)));
}

void in_place(situ_tensor *x, situ_tensor *y, situ_tensor *mask, situ_tensor *index) {
  situ_add_(x, y);
  situ_mul_scalar_(x, 2);
  situ_relu_(x);
  situ_clamp_(x, 0, 1);
  situ_masked_fill_(x, mask, 0);
  situ_scatter_add_(x, 0, index, y);
  situ_index_add_(x, 0, index, y, 1);
  situ_copy_(x, y);
  situ_zero_(x);
  situ_requires_grad_(x, true);
  situ_set_name(x, "x");
}

situ_tensor *shapes(situ_tensor *x) {
  x = situ_transpose(situ_reshape(x, SITU_SHAPE(2, -1)), 0, 1);
  return situ_flatten(situ_unsqueeze(x, 0), 0, -1);
}

situ_status statuses(situ_nn_module *model, situ_tensor *loss, situ_optim *optim, situ_device device) {
  situ_status status = situ_nn_to(model, device);
  if (status == SITU_OK) status = situ_backward(loss, NULL);
  if (status == SITU_OK) status = situ_optim_step(optim);
  SITU_IGNORE(situ_synchronize(device));
  return status;
}
