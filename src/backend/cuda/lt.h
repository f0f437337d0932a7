/* cuBLASLt: its functions, opened at the first product, and cached plans.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BACKEND_CUDA_LT_H
#define SITU_BACKEND_CUDA_LT_H

#include <cublasLt.h>

#include "backend/cuda/cuda.h"
#include "backend/cuda/plans.h"

/* clang-format off */
#define SITU__CUBLASLT(ROW)                                                                      \
  ROW(Create) ROW(Destroy)                                                                       \
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

/* situ__lt_open fills it. */
extern situ__lt_table situ__cublaslt;

/* The operands of D = alpha A B + beta C, in the library's order. */
enum { SITU__LT_A, SITU__LT_B, SITU__LT_C, SITU__LT_D, SITU__LT_OPERANDS };

/* Everything that the choice of an algorithm depends on; matrices are column-major. Zero it first: problems are
   compared as bytes. */
typedef struct situ__lt_problem {
  int64_t m, n, k;                  /* A is [m, k], B [k, n], C and D [m, n] */
  int64_t ld[SITU__LT_OPERANDS];    /* elements from column to column */
  int64_t apart[SITU__LT_OPERANDS]; /* elements from one batch item to the next */
  int32_t batch;
  uint32_t epilogue; /* a cublasLtEpilogue_t: applied to D before it is stored, with a vector */
  uint8_t dtype, precision;
  bool turned[2]; /* A, B: stored transposed */
  /* the power of 2 that addresses are multiples of; the last one is the vector's */
  uint8_t aligned[SITU__LT_OPERANDS + 1];
  uint8_t pad[7];
} situ__lt_problem;

/* Addresses of a problem's operands. */
typedef struct situ__lt_places {
  void *of[SITU__LT_OPERANDS];
  void *vector; /* of the epilogue: a bias, or the gradient of one */
  void *kept;   /* second output of the epilogue: D before the activation, in D's layout */
  double alpha, beta;
} situ__lt_places;

/* The cached plan of a problem. */
typedef struct situ__lt_plan {
  situ__cuda_plan place;
  situ__lt_problem problem;
  bool none; /* the library does not support the problem */
  cublasLtMatmulDesc_t operation;
  cublasLtMatrixLayout_t layout[SITU__LT_OPERANDS];
  cublasLtMatmulAlgo_t way;
} situ__lt_plan;

enum { SITU__LT_PLANS = 512 };

/* State of one device; the device's lock guards it. */
typedef struct situ__lt {
  bool opened, there; /* opening was attempted; it succeeded */
  cublasLtHandle_t handle;
  void *workspace;
  size_t bytes; /* bytes of workspace */
  uint64_t clock;
  situ__lt_plan plan[SITU__LT_PLANS];
} situ__lt;

/* Opens the library on this device. Returns NULL with *status SITU_OK if it is not available, which situ_device_status
   explains; NULL with an error if opening failed. */
situ__lt *situ__lt_open(situ__cuda_device *device, situ_status *status);
/* The cached plan of a problem, or a new one. It may depend on the addresses of places' vector and matrix. Returns NULL
   with *status SITU_OK if the library has none; NULL with an error if it failed. */
situ__lt_plan *situ__lt_find(situ__cuda_device *device, const situ__lt_problem *problem, const situ__lt_places *places,
                             situ_status *status);
/* Queues the plan. SITU_OK without *done: cuBLASLt refused it, and will be asked no more. */
situ_status situ__lt_run(situ__cuda_device *device, situ__lt_plan *plan, const situ__lt_places *places, bool *done);

#endif
