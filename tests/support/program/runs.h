/* What the files of calls of random programs share; math.c and vision.c have those named
   here.
   SPDX-License-Identifier: MIT */
#ifndef SITU_TEST_PROGRAM_RUNS_H
#define SITU_TEST_PROGRAM_RUNS_H

#include <stdio.h>

#include "support/program/program.h"

#define PROGRAM_RUN(id) situ_tensor *id(situ_tensor *const *in, const program_call *c)
#define NOTE(...)                                                \
  do {                                                           \
    if (c->text) (void)snprintf(c->text, 100, ", " __VA_ARGS__); \
  } while (0)

static inline int64_t size(situ_tensor *x, int d) { return situ_size(x, d); }
/* A dimension of x; x has one. */
static inline int dim(situ_tensor *x, int p) { return p % situ_dim(x); }

/* ---- linear algebra ---- */
PROGRAM_RUN(run_cholesky);
PROGRAM_RUN(run_inv);
PROGRAM_RUN(run_det);
PROGRAM_RUN(run_solve);
PROGRAM_RUN(run_qr);
PROGRAM_RUN(run_matrix_exp);
PROGRAM_RUN(run_lstsq);
PROGRAM_RUN(run_lu);
PROGRAM_RUN(run_lu_solve);
PROGRAM_RUN(run_tensorsolve);
PROGRAM_RUN(run_tensorinv);
PROGRAM_RUN(run_multi_dot);
PROGRAM_RUN(run_householder_product);
PROGRAM_RUN(run_vander);
PROGRAM_RUN(run_inner);
PROGRAM_RUN(run_linalg_vecdot);
PROGRAM_RUN(run_linalg_matrix_norm);

/* ---- what lies between rows ---- */
PROGRAM_RUN(run_cov);
PROGRAM_RUN(run_dist);
PROGRAM_RUN(run_bilinear);
PROGRAM_RUN(run_linear_activation);
PROGRAM_RUN(run_combinations);
PROGRAM_RUN(run_mvlgamma);
PROGRAM_RUN(run_special_ndtr);

/* ---- Fourier transforms ---- */
PROGRAM_RUN(run_rfft);
PROGRAM_RUN(run_fft);
PROGRAM_RUN(run_irfft);
PROGRAM_RUN(run_stft);

/* ---- images ---- */
PROGRAM_RUN(run_conv3d);
PROGRAM_RUN(run_conv_transpose3d);
PROGRAM_RUN(run_max_unpool2d);
PROGRAM_RUN(run_grid_sample);
PROGRAM_RUN(run_affine_grid);
PROGRAM_RUN(run_deform_conv2d);

/* ---- running sums ---- */
PROGRAM_RUN(run_logcumsumexp);
PROGRAM_RUN(run_trapezoid);
PROGRAM_RUN(run_cumulative_trapezoid);

#endif
