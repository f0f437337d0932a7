/* A U-Net (Ronneberger et al., arXiv:1505.04597) sharpens digits: from 4 x 4 pixels, enlarged by interpolate, to 8 x 8.
   On the way down it pools, on the way up it enlarges, and joins what it saw at each size on the way down.
   usage: 10_unet [STEPS]
   SPDX-License-Identifier: MIT */
/* test-args: 40 */
/* test-slow: cpu/sanitized opencl:0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "device.h"
#include "situ/situ.h"
#include "start.h"

enum { TRAIN = 1500, BATCH = 50, WIDTH = 16 };

/* Two convolutions, each normalised: class Block(nn.Sequential) */
static situ_nn_module *block(int64_t in, int64_t out) {
  situ_nn_conv_options same = { .same = true };
  return situ_nn_sequential(situ_nn_conv2d(in, out, SITU_DIMS(3), &same), situ_nn_group_norm(4, out, NULL),
                            situ_nn_silu(), situ_nn_conv2d(out, out, SITU_DIMS(3), &same),
                            situ_nn_group_norm(4, out, NULL), situ_nn_silu());
}

/* class UNet(nn.Module) */
typedef struct {
  situ_nn_module base;
  situ_nn_module *down1, *down2, *middle, *up2, *up1, *head;
} unet;

static situ_tensor *enlarge(situ_tensor *x, situ_interpolate_mode mode) {
  return situ_interpolate(x, &(situ_interpolate_options){ .scale_factor = { 2 }, .mode = mode });
}

/* Pictures [N, 1, H, W] to their corrections, of the same shape. */
static situ_tensor *unet_forward(situ_nn_module *self, situ_tensor *x) {
  unet *m = (unet *)self;
  situ_pool_options half = { .kernel = SITU_DIMS(2) };
  situ_tensor *one = situ_nn_forward(m->down1, x);
  situ_tensor *two = situ_nn_forward(m->down2, situ_max_pool2d(one, &half, NULL));
  situ_tensor *low = situ_nn_forward(m->middle, situ_max_pool2d(two, &half, NULL));
  situ_tensor *up = enlarge(low, SITU_INTERPOLATE_NEAREST);
  up = situ_nn_forward(m->up2, situ_cat((situ_tensor *[]){ up, two }, 2, 1));
  up = enlarge(up, SITU_INTERPOLATE_NEAREST);
  up = situ_nn_forward(m->up1, situ_cat((situ_tensor *[]){ up, one }, 2, 1));
  return situ_nn_forward(m->head, up);
}
static const situ_nn_type unet_type = { .name = "UNet", .size = sizeof(unet), .forward = unet_forward };

static situ_nn_module *unet_new(void) {
  unet *m = situ_nn_alloc(&unet_type);
  situ_nn_child(m, down1, block(1, WIDTH));
  situ_nn_child(m, down2, block(WIDTH, 2 * WIDTH));
  situ_nn_child(m, middle, block(2 * WIDTH, 4 * WIDTH));
  situ_nn_child(m, up2, block(6 * WIDTH, 2 * WIDTH));
  situ_nn_child(m, up1, block(3 * WIDTH, WIDTH));
  situ_nn_child(m, head, situ_nn_conv2d(WIDTH, 1, SITU_DIMS(1), NULL));
  return situ_nn_done(m);
}

/* The loss of a batch: pictures [N, 1, 8, 8] beside what the net makes of their 4 x 4. *before: of bicubic alone. */
static situ_tensor *loss_of(situ_nn_module *net, situ_tensor *sharp, situ_tensor **before) {
  situ_tensor *small = situ_avg_pool2d(sharp, &(situ_pool_options){ .kernel = SITU_DIMS(2) });
  situ_tensor *blurred = enlarge(small, SITU_INTERPOLATE_BICUBIC);
  if (before) *before = situ_mse_loss(blurred, sharp, SITU_REDUCTION_MEAN);
  return situ_mse_loss(situ_add(blurred, situ_nn_forward(net, blurred)), sharp, SITU_REDUCTION_MEAN);
}

static situ_status train_step(situ_nn_module *net, situ_optim *optim, situ_tensor *sharp, double *loss_out) {
  situ_scope s;
  situ_scope_begin(&s);
  situ_tensor *loss = loss_of(net, sharp, NULL);
  SITU_TRY(situ_optim_zero_grad(optim, true));
  SITU_TRY(situ_backward(loss, NULL));
  SITU_TRY(situ_optim_step(optim));
  SITU_TRY(situ_item(loss, loss_out));
  return situ_scope_end(&s);
}

/* Peak signal-to-noise ratios on digits that it has not seen. */
static situ_status look(situ_nn_module *net, situ_tensor *sharp) {
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  situ_tensor *before;
  double net_loss, bicubic_loss;
  SITU_TRY(situ_item(loss_of(net, sharp, &before), &net_loss));
  SITU_TRY(situ_item(before, &bicubic_loss));
  printf("digits it has not seen: %.1f dB by bicubic interpolation, %.1f dB by the net\n", -10 * log10(bicubic_loss),
         -10 * log10(net_loss));
  return situ_scope_end(&s);
}

int main(int argc, char **argv) {
  situ_device device = device_of(&argc, argv, "cpu");
  long steps = argc > 1 && argv[1][0] != '-' ? strtol(argv[1], NULL, 10) : 300;
  situ_scope s;
  situ_scope_begin(&s);
  situ_manual_seed(10);
  if (situ_set_default_device(device) != SITU_OK) return 1;

  situ_tree *file = situ_load(SITU_DATA_DIR "/digits.safetensors", &(situ_load_options){ .device = device });
  situ_tensor *images = situ_div_scalar(situ_to_dtype(situ_tree_get(file, "images"), SITU_F32), 16);
  situ_tensor *sharp = situ_unsqueeze(images, 1); /* [1797, 1, 8, 8], 0 to 1 */
  situ_nn_module *net = unet_new();
  situ_optim *optim = situ_optim_adam(situ_nn_parameters(net), 2e-3, NULL);
  printf("%lld parameters\n", (long long)situ_nn_num_parameters(net));

  situ_status status = sharp && net && optim ? save_start(argc, argv, net) : SITU_E_STATE;
  double loss = 0;
  for (long step = 0; status == SITU_OK && step <= steps; step++) {
    status = train_step(net, optim, situ_narrow(sharp, 0, step * BATCH % TRAIN, BATCH), &loss);
    if (status == SITU_OK && step % 20 == 0) printf("step %ld  loss %.6f\n", step, loss);
  }
  if (status == SITU_OK) status = look(net, situ_narrow(sharp, 0, TRAIN, situ_size(sharp, 0) - TRAIN));
  situ_optim_free(optim);
  situ_nn_free(net);
  situ_tree_free(file);
  situ_status end = situ_scope_end(&s);
  return status != SITU_OK || end != SITU_OK;
}
