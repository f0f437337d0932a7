/* The source documents' mistakes: results that are dropped, as if the call had changed its operand. Every line that says
   `warns` must make the compiler warn of that function, and no other line may make it warn of anything.
   SPDX-License-Identifier: MIT */
#include "situ/situ.h"

/* "Simply calling my_tensor.to(device) does not alter my_tensor's location." */
void tensors(situ_tensor *x, situ_device device) {
  situ_to(x, device);         /* warns: situ_to */
  situ_to_dtype(x, SITU_F16); /* warns: situ_to_dtype */
  situ_contiguous(x);         /* warns: situ_contiguous */
  situ_clone(x);              /* warns: situ_clone */
  situ_detach(x);             /* warns: situ_detach */
}

/* Each of these has a form in place, with an underscore, or sounds as if it changed x. */
void looks_in_place(situ_tensor *x, situ_tensor *y, situ_tensor *mask, situ_tensor *index) {
  situ_add(x, y);                    /* warns: situ_add */
  situ_mul_scalar(x, 2);             /* warns: situ_mul_scalar */
  situ_relu(x);                      /* warns: situ_relu */
  situ_clamp(x, 0, 1);               /* warns: situ_clamp */
  situ_masked_fill(x, mask, 0);      /* warns: situ_masked_fill */
  situ_scatter_add(x, 0, index, y);  /* warns: situ_scatter_add */
  situ_index_add(x, 0, index, y, 1); /* warns: situ_index_add */
  situ_dropout(x, 0.5, true, NULL);  /* warns: situ_dropout */
}

void shapes(situ_tensor *x) {
  situ_reshape(x, SITU_SHAPE(-1));  /* warns: situ_reshape */
  situ_view(x, SITU_SHAPE(-1));     /* warns: situ_view */
  situ_transpose(x, 0, 1);          /* warns: situ_transpose */
  situ_permute(x, SITU_DIMS(1, 0)); /* warns: situ_permute */
  situ_squeeze(x, SITU_SCALAR);     /* warns: situ_squeeze */
  situ_unsqueeze(x, 0);             /* warns: situ_unsqueeze */
  situ_expand(x, SITU_SHAPE(2, 2)); /* warns: situ_expand */
  situ_flatten(x, 0, -1);           /* warns: situ_flatten */
}

/* A move, a step or a backward that failed must not be missed either. */
void statuses(situ_nn_module *model, situ_tensor *loss, situ_optim *optim, situ_device device) {
  situ_nn_to(model, device); /* warns: situ_nn_to */
  situ_backward(loss, NULL); /* warns: situ_backward */
  situ_optim_step(optim);    /* warns: situ_optim_step */
  situ_synchronize(device);  /* warns: situ_synchronize */
}
