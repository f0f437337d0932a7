/* cuBLASLt: its functions, opened at the first product, and the plans of products that were asked for before.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BACKEND_CUDA_LT_H
#define SITU_BACKEND_CUDA_LT_H

#include <cublasLt.h>

#include "backend/cuda/cuda.h"
#include "backend/cuda/plans.h"

/* clang-format off */
#define SITU__CUBLASLT(ROW)                                                                      \
  ROW(Create)                                                                                    \
  ROW(GetStatusName) ROW(GetStatusString) ROW(MatmulDescCreate) ROW(MatmulDescDestroy)           \
      ROW(MatmulDescSetAttribute) ROW(MatrixLayoutCreate) ROW(MatrixLayoutDestroy)               \
          ROW(MatrixLayoutSetAttribute) ROW(MatmulPreferenceCreate) ROW(MatmulPreferenceDestroy) \
              ROW(MatmulPreferenceSetAttribute) ROW(MatmulAlgoGetHeuristic) ROW(Matmul)
/* clang-format on */

typedef struct situ__lt_table {
#define ROW(name) __typeof__(&cublasLt##name) name;
  SITU__CUBLASLT(ROW)
#undef ROW
} situ__lt_table;

/* Filled by situ__lt_open. */
extern situ__lt_table situ__cublaslt;

/* The operands of D = alpha A B + beta C, as the library numbers them everywhere. */
enum { SITU__LT_A, SITU__LT_B, SITU__LT_C, SITU__LT_D, SITU__LT_OPERANDS };

/* All that an algorithm is chosen by; matrices are column by column. Cleared first: it is compared as bytes. */
typedef struct situ__lt_problem {
  int64_t m, n, k;                  /* A is [m, k], B [k, n], C and D [m, n] */
  int64_t ld[SITU__LT_OPERANDS];    /* elements from column to column, */
  int64_t apart[SITU__LT_OPERANDS]; /* and from one of a batch to the next */
  int32_t batch;
  uint32_t epilogue; /* what is done to D before it is written, and with which vector: a cublasLtEpilogue_t */
  uint8_t dtype, precision;
  bool turned[2];                         /* A, B: lies there transposed */
  uint8_t aligned[SITU__LT_OPERANDS + 1]; /* the power of 2 that addresses are multiples of; of the vector as well */
  uint8_t pad[7];
} situ__lt_problem;

/* Where it lies. */
typedef struct situ__lt_places {
  void *of[SITU__LT_OPERANDS];
  void *vector; /* of the epilogue: a bias, or the gradient of one */
  void *kept;   /* and the matrix that it leaves: D without the activation, and laid out as D */
  double alpha, beta;
} situ__lt_places;

/* What was made of a problem. */
typedef struct situ__lt_plan {
  situ__cuda_plan place;
  situ__lt_problem problem;
  bool none; /* the library has no way to compute it */
  cublasLtMatmulDesc_t operation;
  cublasLtMatrixLayout_t layout[SITU__LT_OPERANDS];
  cublasLtMatmulAlgo_t way;
} situ__lt_plan;

enum { SITU__LT_PLANS = 512 };

/* A device's; guarded by its lock. */
typedef struct situ__lt {
  bool opened, there; /* tried to; worked */
  cublasLtHandle_t handle;
  void *workspace;
  size_t bytes; /* of it */
  uint64_t clock;
  situ__lt_plan plan[SITU__LT_PLANS];
} situ__lt;

/* The library on this device. NULL: there is none, which situ_device_status explains, and *status is SITU_OK; or opening it
   failed with *status. */
situ__lt *situ__lt_open(situ__cuda_device *device, situ_status *status);
/* The plan of a problem, remembered or made. places: those of vector and matrix, which it may depend on. NULL: the library has
   none, and *status is SITU_OK; or it failed with *status. */
situ__lt_plan *situ__lt_find(situ__cuda_device *device, const situ__lt_problem *problem, const situ__lt_places *places,
                             situ_status *status);
/* Queues it. SITU_OK and not *done: it was refused, and will be from now on. */
situ_status situ__lt_run(situ__cuda_device *device, situ__lt_plan *plan, const situ__lt_places *places, bool *done);

#endif
