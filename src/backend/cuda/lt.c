/* Opens cuBLASLt when a product first needs it, once per process, and initialises it once per device: loading it costs
   100 ms and 150 MB. Plans are cached, so that a known product costs a lookup and one call.
   SPDX-License-Identifier: MIT */
#include "backend/cuda/lt.h"

#include <stdio.h>
#include <string.h>

#include "backend/cuda/range.h"

situ__lt_table situ__cublaslt;

/* ---- failures ------------------------------------------------------------------------------- */

/* Returns SITU_OK if the problem was refused as unsupported before anything was queued. */
static situ_status fail_of(situ__cuda_device *d, const char *call, cublasStatus_t status) {
  const char *name = situ__cublaslt.GetStatusName(status), *text = situ__cublaslt.GetStatusString(status);
  char what[256];
  switch (status) {
  case CUBLAS_STATUS_NOT_SUPPORTED:
  case CUBLAS_STATUS_ARCH_MISMATCH:
  case CUBLAS_STATUS_INVALID_VALUE: return SITU_OK;
  case CUBLAS_STATUS_ALLOC_FAILED:
    return situ__host->fail(SITU_E_NOMEM, "matmul", "cuda:%d: %s: %s (%s, %d)", d->target.index, call, text, name,
                            (int)status);
  default:
    (void)snprintf(what, sizeof what, "%s: %s (%s, %d)", call, text, name, (int)status);
    cudaError_t error = situ__cuda.GetLastError();
    situ__cuda_lose(d, what, error == cudaSuccess ? cudaErrorUnknown : error);
    return situ__cuda_lost(d, "matmul");
  }
}

/* ---- opening -------------------------------------------------------------------------------- */

static bool loaded;

static void load(void) {
  static const char *const name[] = {
#define ROW(name) "cublasLt" #name,
    SITU__CUBLASLT(ROW)
#undef ROW
  };
  enum { COUNT = sizeof name / sizeof *name };
  _Static_assert(sizeof name == sizeof situ__cublaslt, "a row is a pointer");
  char why[512], note[640];
  loaded = situ__cuda_bind("libcublasLt.so.13", name, COUNT, &situ__cublaslt, why, sizeof why);
  if (loaded) return;
  (void)snprintf(note, sizeof note, "no cuBLASLt: matrix products take kernels of situ's own (%s)", why);
  situ__cuda_note(note);
}

/* Allocates as much workspace as is available; with less, some problems get a slower algorithm. */
static cudaError_t take_workspace(situ__cuda_device *d, situ__lt *lt) {
  for (size_t bytes = 32 << 20; bytes >= 2 << 20; bytes /= 4) {
    cudaError_t error = situ__cuda_take(d, bytes, &lt->workspace);
    if (error == cudaSuccess) lt->bytes = bytes;
    if (error != cudaErrorMemoryAllocation) return error;
    lt->workspace = NULL;
    (void)situ__cuda.GetLastError();
  }
  return cudaSuccess;
}

static situ_status start(situ__cuda_device *d, situ__lt *lt) {
  cublasStatus_t status = situ__cublaslt.Create(&lt->handle);
  if (status == CUBLAS_STATUS_NOT_INITIALIZED) { /* it does not support this device */
    lt->opened = true;
    char note[128];
    (void)snprintf(note, sizeof note, "cuBLASLt does not start on cuda:%d: matrix products take kernels of situ's own",
                   d->target.index);
    situ__cuda_note(note);
    return SITU_OK;
  }
  if (status != CUBLAS_STATUS_SUCCESS) return fail_of(d, "cublasLtCreate", status);
  lt->opened = lt->there = true;
  cudaError_t error = take_workspace(d, lt);
  return error == cudaSuccess ? SITU_OK : situ__cuda_fail(d, "matmul", "allocating", error);
}

situ__lt *situ__lt_open(situ__cuda_device *d, situ_status *status) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  *status = SITU_OK;
  if (d->lt && d->lt->opened) return d->lt->there ? d->lt : NULL;
  (void)pthread_once(&once, load);
  if (!loaded) return NULL;
  if (!d->lt) {
    d->lt = situ__host->alloc(sizeof *d->lt);
    if (!d->lt) {
      *status = situ__host->fail(SITU_E_NOMEM, "matmul", "no memory for plans of products");
      return NULL;
    }
    memset(d->lt, 0, sizeof *d->lt);
  }
  *status = start(d, d->lt);
  return *status == SITU_OK && d->lt->there ? d->lt : NULL;
}

/* ---- plans ---------------------------------------------------------------------------------- */

enum { KEEPS = CUBLASLT_EPILOGUE_GELU_AUX & ~CUBLASLT_EPILOGUE_GELU };

#define TRY(name, ...)                                        \
  do {                                                        \
    *call = "cublasLt" #name;                                 \
    cublasStatus_t tried_ = situ__cublaslt.name(__VA_ARGS__); \
    if (tried_ != CUBLAS_STATUS_SUCCESS) return tried_;       \
  } while (0)

/* Addresses that must be set before the heuristics run. */
static cublasStatus_t place(const situ__lt_plan *plan, const situ__lt_places *at, const char **call) {
  const bool vector = plan->problem.epilogue & (CUBLASLT_EPILOGUE_BIAS | CUBLASLT_EPILOGUE_BGRADB);
  if (vector)
    TRY(MatmulDescSetAttribute, plan->operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &at->vector, sizeof at->vector);
  if (plan->problem.epilogue & KEEPS)
    TRY(MatmulDescSetAttribute, plan->operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &at->kept, sizeof at->kept);
  return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t describe(situ__lt_plan *plan, const situ__lt_places *at, const char **call) {
  static const cudaDataType type[SITU_DTYPES] = {
    [SITU_F16] = CUDA_R_16F, [SITU_BF16] = CUDA_R_16BF, [SITU_F32] = CUDA_R_32F, [SITU_F64] = CUDA_R_64F
  };
  static const cublasComputeType_t of_f32[] = { [SITU_PRECISION_HIGHEST] = CUBLAS_COMPUTE_32F,
                                                [SITU_PRECISION_HIGH] = CUBLAS_COMPUTE_32F_FAST_TF32,
                                                [SITU_PRECISION_MEDIUM] = CUBLAS_COMPUTE_32F_FAST_16BF };
  const situ__lt_problem *p = &plan->problem;
  const bool wide = p->dtype == SITU_F64;
  TRY(MatmulDescCreate, &plan->operation, wide ? CUBLAS_COMPUTE_64F : of_f32[p->precision],
      wide ? CUDA_R_64F : CUDA_R_32F);
  for (int k = SITU__LT_A; k <= SITU__LT_B; k++) {
    const cublasOperation_t turned = p->turned[k] ? CUBLAS_OP_T : CUBLAS_OP_N;
    TRY(MatmulDescSetAttribute, plan->operation,
        k == SITU__LT_A ? CUBLASLT_MATMUL_DESC_TRANSA : CUBLASLT_MATMUL_DESC_TRANSB, &turned, sizeof turned);
  }
  if (p->epilogue != CUBLASLT_EPILOGUE_DEFAULT)
    TRY(MatmulDescSetAttribute, plan->operation, CUBLASLT_MATMUL_DESC_EPILOGUE, &p->epilogue, sizeof p->epilogue);
  if (p->epilogue & KEEPS)
    TRY(MatmulDescSetAttribute, plan->operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &p->ld[SITU__LT_D],
        sizeof p->ld[SITU__LT_D]);
  cublasStatus_t placed = place(plan, at, call);
  if (placed != CUBLAS_STATUS_SUCCESS) return placed;
  const int64_t size[][2] = { { p->m, p->k }, { p->k, p->n }, { p->m, p->n }, { p->m, p->n } };
  for (int k = 0; k < SITU__LT_OPERANDS; k++) {
    const bool turned = k <= SITU__LT_B && p->turned[k];
    TRY(MatrixLayoutCreate, &plan->layout[k], type[p->dtype], (uint64_t)size[k][turned], (uint64_t)size[k][!turned],
        p->ld[k]);
    TRY(MatrixLayoutSetAttribute, plan->layout[k], CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &p->batch, sizeof p->batch);
    TRY(MatrixLayoutSetAttribute, plan->layout[k], CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &p->apart[k],
        sizeof p->apart[k]);
  }
  return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t prefer(const situ__lt *lt, const situ__lt_plan *plan, cublasLtMatmulPreference_t preference,
                             const char **call) {
  const uint64_t bytes = lt->bytes;
  /* Sums that are split among groups stay f32 until they are whole. By default their parts may be rounded to the
     result's dtype; and before an epilogue the whole is (seen with CUDA 13.0 on Hopper). */
  const bool rounds = plan->problem.dtype < SITU_F32 && plan->problem.epilogue != CUBLASLT_EPILOGUE_DEFAULT;
  const uint32_t reduction = rounds ? CUBLASLT_REDUCTION_SCHEME_NONE : CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  TRY(MatmulPreferenceSetAttribute, preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof bytes);
  TRY(MatmulPreferenceSetAttribute, preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reduction,
      sizeof reduction);
  static const cublasLtMatmulPreferenceAttributes_t alignment[] = { CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
                                                                    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                                                                    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
                                                                    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES };
  for (int k = 0; k < SITU__LT_OPERANDS; k++) {
    const uint32_t least = 1u << plan->problem.aligned[k];
    TRY(MatmulPreferenceSetAttribute, preference, alignment[k], &least, sizeof least);
  }
  return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t choose(const situ__lt *lt, situ__lt_plan *plan, const char **call) {
  cublasLtMatmulPreference_t preference;
  TRY(MatmulPreferenceCreate, &preference);
  cublasLtMatmulHeuristicResult_t found = { .state = CUBLAS_STATUS_NOT_SUPPORTED };
  int count = 0;
  cublasStatus_t status = prefer(lt, plan, preference, call);
  if (status == CUBLAS_STATUS_SUCCESS) {
    *call = "cublasLtMatmulAlgoGetHeuristic";
    const cublasLtMatrixLayout_t *layout = plan->layout;
    status =
        situ__cublaslt.MatmulAlgoGetHeuristic(lt->handle, plan->operation, layout[SITU__LT_A], layout[SITU__LT_B],
                                              layout[SITU__LT_C], layout[SITU__LT_D], preference, 1, &found, &count);
  }
  if (status == CUBLAS_STATUS_SUCCESS) status = count ? found.state : CUBLAS_STATUS_NOT_SUPPORTED;
  plan->way = found.algo;
  (void)situ__cublaslt.MatmulPreferenceDestroy(preference);
  return status;
}

static void drop(void *dropped) {
  situ__lt_plan *plan = dropped;
  for (int k = 0; k < SITU__LT_OPERANDS; k++)
    if (plan->layout[k]) (void)situ__cublaslt.MatrixLayoutDestroy(plan->layout[k]);
  if (plan->operation) (void)situ__cublaslt.MatmulDescDestroy(plan->operation);
  memset(plan, 0, sizeof *plan);
}

situ__lt_plan *situ__lt_find(situ__cuda_device *d, const situ__lt_problem *problem, const situ__lt_places *places,
                             situ_status *status) {
  _Static_assert(sizeof *problem % sizeof(uint64_t) == 0, "whole words");
  situ__lt_plan *plan = situ__cuda_place(d->lt->plan, SITU__LT_PLANS, sizeof *plan, problem, sizeof *problem, drop);
  const char *call;
  *status = SITU_OK;
  if (!plan->place.used) {
    plan->problem = *problem;
    cublasStatus_t made = describe(plan, places, &call);
    if (made == CUBLAS_STATUS_SUCCESS) made = choose(d->lt, plan, &call);
    plan->none = made != CUBLAS_STATUS_SUCCESS;
    if (plan->none) *status = fail_of(d, call, made);
    if (*status != SITU_OK) drop(plan);
  }
  if (*status != SITU_OK) return NULL;
  plan->place.used = ++d->lt->clock;
  return plan->none ? NULL : plan;
}

/* ---- running -------------------------------------------------------------------------------- */

typedef union scalar {
  float f32;
  double f64;
} scalar;

static scalar scalar_of(const situ__lt_plan *plan, double value) {
  return plan->problem.dtype == SITU_F64 ? (scalar){ .f64 = value } : (scalar){ .f32 = (float)value };
}

static cublasStatus_t multiply(situ__cuda_device *d, const situ__lt_plan *plan, const situ__lt_places *at,
                               const char **call) {
  const situ__lt *lt = d->lt;
  const cublasLtMatrixLayout_t *layout = plan->layout;
  const scalar alpha = scalar_of(plan, at->alpha), beta = scalar_of(plan, at->beta);
  cublasStatus_t status = place(plan, at, call);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  *call = "cublasLtMatmul";
  situ__cuda_range_begin("matmul");
  status =
      situ__cublaslt.Matmul(lt->handle, plan->operation, &alpha, at->of[SITU__LT_A], layout[SITU__LT_A],
                            at->of[SITU__LT_B], layout[SITU__LT_B], &beta, at->of[SITU__LT_C], layout[SITU__LT_C],
                            at->of[SITU__LT_D], layout[SITU__LT_D], &plan->way, lt->workspace, lt->bytes, d->stream);
  situ__cuda_range_end();
  return status;
}

situ_status situ__lt_run(situ__cuda_device *d, situ__lt_plan *plan, const situ__lt_places *at, bool *done) {
  const char *call;
  const cublasStatus_t status = multiply(d, plan, at, &call);
  if (status == CUBLAS_STATUS_SUCCESS) {
    *done = true;
    return SITU_OK;
  }
  const situ_status failed = fail_of(d, call, status);
  plan->none = failed == SITU_OK; /* it would be refused again */
  return failed;
}

void situ__lt_close(situ__cuda_device *d) {
  situ__lt *lt = d->lt;
  if (!lt) return;
  for (int k = 0; k < SITU__LT_PLANS; k++) drop(&lt->plan[k]);
  if (lt->workspace) situ__cuda_free(d->target.index, lt->workspace, lt->bytes);
  if (lt->there) (void)situ__cublaslt.Destroy(lt->handle);
  situ__host->free(lt);
  d->lt = NULL;
}
