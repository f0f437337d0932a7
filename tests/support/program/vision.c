/* Calls of random programs: convolution in three dimensions, unpooling, sampling by a grid.
   SPDX-License-Identifier: MIT */
#include "support/program/runs.h"

#define RUN(id) PROGRAM_RUN(id)

static bool is_matrix(situ_tensor *x) { return situ_dim(x) == 2 && situ_numel(x) > 0 && situ_numel(x) <= 16; }

/* A matrix as an image of `spatial` dimensions, with a batch and channels of 1. */
static situ_tensor *as_image(situ_tensor *x, int spatial) {
  return situ_reshape(x, spatial == 2 ? SITU_SHAPE(1, 1, size(x, 0), size(x, 1))
                                      : SITU_SHAPE(1, 1, 1, size(x, 0), size(x, 1)));
}

/* The second operand is the kernel, as large as the image. */
RUN(run_conv3d) {
  if (!is_matrix(in[0])) return NULL;
  const int64_t pad = c->p[0] % 2;
  NOTE("as volumes, padding {0, %d, %d}", (int)pad, (int)pad);
  return situ_conv3d(as_image(in[0], 3), as_image(in[1], 3), NULL,
                     &(situ_conv_options){ .padding = SITU_DIMS(0, pad, pad) });
}
RUN(run_conv_transpose3d) {
  if (!is_matrix(in[0])) return NULL;
  const int64_t a = size(in[0], 0) / 2, b = size(in[0], 1) / 2;
  NOTE("as volumes, padding {0, %d, %d}", (int)a, (int)b);
  return situ_conv_transpose3d(as_image(in[0], 3), as_image(in[1], 3), NULL,
                               &(situ_conv_options){ .padding = SITU_DIMS(0, a, b) });
}
/* Element i goes to one of the four places of its window. */
RUN(run_max_unpool2d) {
  if (!is_matrix(in[0])) return NULL;
  const int64_t rows = size(in[0], 0), columns = size(in[0], 1);
  int64_t at[PROGRAM_NUMEL];
  for (int64_t i = 0; i < rows * columns; i++) {
    const int64_t corner = (c->p[1] + i * c->p[2]) % 4;
    at[i] = (2 * (i / columns) + corner / 2) * 2 * columns + 2 * (i % columns) + corner % 2;
  }
  NOTE("corners from %d by %d, kernel 2", c->p[1], c->p[2]);
  situ_tensor *indices = situ_from_host(at, (size_t)(rows * columns) * sizeof *at, SITU_SHAPE(1, 1, rows, columns),
                                        &(situ_options){ .dtype = SITU_I64, .device = test_device() });
  return situ_max_unpool2d(as_image(in[0], 2), indices, SITU_DIMS(2), (situ_shape){ 0 }, (situ_shape){ 0 },
                           (situ_shape){ 0 });
}
/* At fixed places: the derivative by a place jumps at each pixel. */
RUN(run_grid_sample) {
  if (!is_matrix(in[0])) return NULL;
  static const double places[] = { 0.13, -0.41, 0.87, 0.29, -1.2, 0.55 };
  const situ_grid_sample_options o = { .mode = (situ_grid_mode)(c->p[0] % 3),
                                       .padding_mode = (situ_grid_padding)(c->p[1] % 3),
                                       .align_corners = c->p[2] % 2 };
  NOTE("3 places, mode %d, padding %d, align_corners %d", (int)o.mode, (int)o.padding_mode, o.align_corners);
  situ_tensor *grid = situ_from_host(places, sizeof places, SITU_SHAPE(1, 1, 3, 2),
                                     &(situ_options){ .dtype = SITU_F64, .device = test_device() });
  return situ_grid_sample(as_image(in[0], 2), grid, &o);
}
/* Moved by fixed offsets, as above; the second operand is the mask. */
RUN(run_deform_conv2d) {
  if (!is_matrix(in[0])) return NULL;
  const situ_shape shape = SITU_SHAPE(1, 2, size(in[0], 0), size(in[0], 1));
  const situ_options like = { .dtype = SITU_F64, .device = test_device() };
  NOTE("as an image, every place moved by 0.37, kernel {%g}", c->a);
  return situ_deform_conv2d(as_image(in[0], 2), situ_full(shape, 0.37, &like),
                            situ_full(SITU_SHAPE(1, 1, 1, 1), c->a, &like), NULL,
                            &(situ_deform_conv2d_options){ .mask = as_image(in[1], 2) });
}
RUN(run_affine_grid) {
  if (!is_matrix(in[0])) return NULL;
  NOTE("the mean in each of 2 x 3, size {1, 1, 2, 3}, align_corners %d", c->p[0] % 2);
  return situ_affine_grid(situ_expand(situ_mean(in[0], NULL), SITU_SHAPE(1, 2, 3)), SITU_SHAPE(1, 1, 2, 3),
                          c->p[0] % 2);
}
