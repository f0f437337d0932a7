/* cuBLASLt without a GPU, for tests: built as libcublasLt.so.13 beside the double's runtime, and queued on its streams. It
   refuses what the real one refuses (addresses outside of memory, less aligned than was said, an algorithm of another
   problem, a workspace that is too small), multiplies with plain loops, and can be made to fail as every call can.
   SPDX-License-Identifier: MIT */
#include <cublasLt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/cuda/double.h"
#include "support/cuda/number.h"

/* A type name of the runtime's with a meaning of cuBLAS's, for tests that fail each call. */
static cublasStatus_t meaning(cudaError_t error) {
  switch (error) {
  case cudaSuccess: return CUBLAS_STATUS_SUCCESS;
  case cudaErrorMemoryAllocation: return CUBLAS_STATUS_ALLOC_FAILED;
  case cudaErrorNotSupported: return CUBLAS_STATUS_NOT_SUPPORTED;
  default: return CUBLAS_STATUS_EXECUTION_FAILED;
  }
}
static cublasStatus_t end(cublasStatus_t status) {
  (void)double_end(cudaSuccess);
  return status;
}
#define BEGIN_LT(name)                                   \
  do {                                                   \
    cudaError_t asked_ = double_begin(name);             \
    if (!asked_) asked_ = double_stuck(double_device()); \
    if (asked_) return meaning(double_end(asked_));      \
  } while (0)
#define API CUDA_DOUBLE_API

/* ---- what is described ---------------------------------------------------------------------- */

struct cublasLtContext {
  int device;
};

typedef struct operation {
  cublasComputeType_t compute;
  cudaDataType scale;
  cublasOperation_t turned[2];
  cublasLtEpilogue_t epilogue;
  void *bias, *kept;
  int64_t kept_ld;
} operation;

typedef struct layout {
  cudaDataType type;
  uint64_t rows, columns;
  int64_t ld, apart;
  int32_t batch;
} layout;

typedef struct preference {
  uint64_t bytes;
  uint32_t aligned[4], reduction;
} preference;

/* What an algorithm was chosen for. */
typedef struct way {
  uint64_t hash, bytes;
  uint32_t aligned[4], bias_aligned, reduction;
} way;
_Static_assert(sizeof(way) <= sizeof(cublasLtMatmulAlgo_t), "it is kept there");

static cublasStatus_t create(const char *name, size_t bytes, void **out) {
  BEGIN_LT(name);
  *out = calloc(1, bytes);
  if (*out) cuda_double_state()->described++;
  return end(*out ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_ALLOC_FAILED);
}

/* Fails, if it is to, after it has done its work: who destroys can do nothing about it. */
static cublasStatus_t destroy(const char *name, void *object) {
  free(object);
  cuda_double_state()->described--;
  BEGIN_LT(name);
  return end(CUBLAS_STATUS_SUCCESS);
}

/* An attribute's number, where it is kept, and how large it is. */
typedef struct attribute {
  int what;
  void *to;
  size_t bytes;
} attribute;

static cublasStatus_t set(const char *name, const attribute *of, int count, int what, const void *value, size_t bytes) {
  BEGIN_LT(name);
  for (int k = 0; k < count; k++) {
    if (of[k].what != what || of[k].bytes != bytes) continue;
    memcpy(of[k].to, value, bytes);
    return end(CUBLAS_STATUS_SUCCESS);
  }
  return end(CUBLAS_STATUS_INVALID_VALUE);
}
#define SET(attributes) set(__func__, attributes, sizeof(attributes) / sizeof *(attributes), (int)what, value, bytes)

API cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *out, cublasComputeType_t compute,
                                            cudaDataType scale) {
  operation *o = NULL;
  cublasStatus_t status = create(__func__, sizeof *o, (void **)&o);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  *o = (operation){
    .compute = compute, .scale = scale, .turned = { CUBLAS_OP_N, CUBLAS_OP_N }, .epilogue = CUBLASLT_EPILOGUE_DEFAULT
  };
  *out = (cublasLtMatmulDesc_t)(void *)o;
  return status;
}
API cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t object) { return destroy(__func__, object); }
API cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t object, cublasLtMatmulDescAttributes_t what,
                                                  const void *value, size_t bytes) {
  operation *o = (void *)object;
  const attribute all[] = {
    { CUBLASLT_MATMUL_DESC_TRANSA, &o->turned[0], sizeof(int32_t) },
    { CUBLASLT_MATMUL_DESC_TRANSB, &o->turned[1], sizeof(int32_t) },
    { CUBLASLT_MATMUL_DESC_EPILOGUE, &o->epilogue, sizeof(uint32_t) },
    { CUBLASLT_MATMUL_DESC_BIAS_POINTER, &o->bias, sizeof o->bias },
    { CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &o->kept, sizeof o->kept },
    { CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &o->kept_ld, sizeof o->kept_ld },
  };
  return SET(all);
}

API cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *out, cudaDataType type, uint64_t rows,
                                              uint64_t columns, int64_t ld) {
  layout *l = NULL;
  cublasStatus_t status = create(__func__, sizeof *l, (void **)&l);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  *l = (layout){ .type = type, .rows = rows, .columns = columns, .ld = ld, .batch = 1 };
  *out = (cublasLtMatrixLayout_t)(void *)l;
  return status;
}
API cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t object) { return destroy(__func__, object); }
API cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t object, cublasLtMatrixLayoutAttribute_t what,
                                                    const void *value, size_t bytes) {
  layout *l = (void *)object;
  const attribute all[] = {
    { CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &l->batch, sizeof l->batch },
    { CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &l->apart, sizeof l->apart },
  };
  return SET(all);
}

API cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *out) {
  preference *p = NULL;
  cublasStatus_t status = create(__func__, sizeof *p, (void **)&p);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  *p = (preference){ .aligned = { 256, 256, 256, 256 }, .reduction = CUBLASLT_REDUCTION_SCHEME_MASK };
  *out = (cublasLtMatmulPreference_t)(void *)p;
  return status;
}
API cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t object) {
  return destroy(__func__, object);
}
API cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t object,
                                                        cublasLtMatmulPreferenceAttributes_t what, const void *value,
                                                        size_t bytes) {
  preference *p = (void *)object;
  const attribute all[] = {
    { CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &p->bytes, sizeof p->bytes },
    { CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &p->reduction, sizeof p->reduction },
    { CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &p->aligned[0], sizeof(uint32_t) },
    { CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &p->aligned[1], sizeof(uint32_t) },
    { CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &p->aligned[2], sizeof(uint32_t) },
    { CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &p->aligned[3], sizeof(uint32_t) },
  };
  return SET(all);
}

/* ---- products ------------------------------------------------------------------------------- */

/* A factor as the units of a compute type take it. */
static double factor(cublasComputeType_t compute, double value) {
  const uint32_t lost = compute == CUBLAS_COMPUTE_32F_FAST_TF32 ? 13 : compute == CUBLAS_COMPUTE_32F_FAST_16BF ? 16 : 0;
  return lost ? number_without(value, lost) : value;
}

enum { A, B, C, D };

enum { KEEPS = 128 };

/* The sums that are wanted beside the product: of the rows of the right factor as it is multiplied. */
static void sum_right(const operation *o, const layout *b, const void *in) {
  const bool turned = o->turned[1] == CUBLAS_OP_T;
  const int64_t depth = (int64_t)(turned ? b->columns : b->rows), columns = (int64_t)(turned ? b->rows : b->columns);
  for (int64_t c = 0; c < columns; c++) {
    float sum = 0;
    for (int64_t k = 0; k < depth; k++) sum += (float)number_load(b->type, in, turned ? c + k * b->ld : k + c * b->ld);
    number_store(b->type, o->bias, c, (double)sum);
  }
}

/* GELU's tanh is the hardware's, of 11 bits or so. */
static double activated(const operation *o, double x) {
  if (o->epilogue & CUBLASLT_EPILOGUE_GELU)
    return 0.5 * x * (1 + number_without(tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x)), 9));
  return (o->epilogue & CUBLASLT_EPILOGUE_RELU) && x < 0 ? 0 : x;
}

typedef struct product {
  operation o;
  layout l[4];
  const void *in[3];
  void *out;
  double alpha, beta;
  uint32_t reduction;
} product;

/* at: row, column, item of a batch. */
static double term_of(const product *p, const int64_t *at, int64_t k) {
  const layout *a = &p->l[A], *b = &p->l[B];
  const int64_t at_a = p->o.turned[0] == CUBLAS_OP_T ? k + at[0] * a->ld : at[0] + k * a->ld,
                at_b = p->o.turned[1] == CUBLAS_OP_T ? at[1] + k * b->ld : k + at[1] * b->ld;
  return factor(p->o.compute, number_load(a->type, p->in[A], at[2] * a->apart + at_a)) *
         factor(p->o.compute, number_load(b->type, p->in[B], at[2] * b->apart + at_b));
}

static double rounded(cudaDataType type, double value) {
  double kept[1];
  number_store(type, kept, 0, value);
  return number_load(type, kept, 0);
}

/* The sum of a product's terms. Long ones are split if that is allowed; parts that are not to stay in the compute type are
   rounded to the result's, as is the whole where an epilogue follows. */
static double sum_of(const product *p, const int64_t *at, int64_t depth) {
  enum { SPLIT = 16 };
  const cudaDataType type = p->l[D].type;
  const bool wide = p->o.compute == CUBLAS_COMPUTE_64F, split = !wide && p->reduction && depth > SPLIT;
  float narrow[2] = { 0 };
  double sum = 0;
  for (int64_t k = 0; k < depth; k++) {
    const double one = term_of(p, at, k);
    sum += one;
    narrow[split && k >= depth / 2] += (float)one;
  }
  if (wide) return sum;
  if (!split) return (double)narrow[0];
  if (p->reduction & (CUBLASLT_REDUCTION_SCHEME_INPLACE | CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE))
    return rounded(type, (double)narrow[0]) + rounded(type, (double)narrow[1]);
  const double whole = (double)(narrow[0] + narrow[1]);
  return p->o.epilogue == CUBLASLT_EPILOGUE_DEFAULT ? whole : rounded(type, whole);
}

static void multiply(const void *payload) {
  const product *p = payload;
  const layout *d = &p->l[D];
  const layout *a = &p->l[A];
  const int64_t depth = (int64_t)(p->o.turned[0] == CUBLAS_OP_T ? a->rows : a->columns);
  const int64_t many = (int64_t)(d->rows * d->columns) * d->batch;
  for (int64_t item = 0; item < many; item++) {
    const int64_t r = item % (int64_t)d->rows, c = item / (int64_t)d->rows % (int64_t)d->columns,
                  one = item / (int64_t)(d->rows * d->columns);
    double sum = sum_of(p, (const int64_t[]){ r, c, one }, depth);
    sum *= p->alpha;
    if (p->beta != 0) sum += p->beta * number_load(p->l[C].type, p->in[C], one * p->l[C].apart + r + c * p->l[C].ld);
    if (p->o.epilogue & CUBLASLT_EPILOGUE_BIAS) sum += number_load(d->type, p->o.bias, r);
    if (p->o.epilogue & KEEPS) number_store(d->type, p->o.kept, r + c * p->o.kept_ld, sum);
    sum = activated(&p->o, sum);
    number_store(d->type, p->out, one * d->apart + r + c * d->ld, sum);
  }
  if (p->o.epilogue == CUBLASLT_EPILOGUE_BGRADB) sum_right(&p->o, &p->l[B], p->in[B]);
}

/* Sizes and types go together. */
static bool fits(const operation *o, const layout *const l[4]) {
  const bool turn_a = o->turned[0] == CUBLAS_OP_T, turn_b = o->turned[1] == CUBLAS_OP_T;
  const uint64_t m = turn_a ? l[A]->columns : l[A]->rows, k = turn_a ? l[A]->rows : l[A]->columns,
                 other = turn_b ? l[B]->columns : l[B]->rows, n = turn_b ? l[B]->rows : l[B]->columns;
  const bool wide = l[A]->type == CUDA_R_64F;
  bool good = k == other && m > 0 && n > 0 && k > 0 && wide == (o->compute == CUBLAS_COMPUTE_64F) &&
              o->scale == (wide ? CUDA_R_64F : CUDA_R_32F);
  for (int j = 0; j < 4; j++)
    good = good && l[j]->type == l[A]->type && l[j]->batch == l[D]->batch && l[j]->batch > 0 &&
           l[j]->ld >= (int64_t)l[j]->rows;
  if (o->epilogue & KEEPS)
    good = good && o->kept_ld >= (int64_t)m && o->kept_ld % 8 == 0 && (uintptr_t)o->kept % 16 == 0;
  if (o->epilogue != CUBLASLT_EPILOGUE_DEFAULT && o->epilogue != CUBLASLT_EPILOGUE_BIAS)
    good = good && l[D]->batch == 1;
  return good && l[C]->rows == m && l[C]->columns == n && l[D]->rows == m && l[D]->columns == n;
}

static uint32_t alignment_of(const void *data) {
  const uintptr_t bits = (uintptr_t)data | 256;
  return (uint32_t)(bits & -bits);
}

static bool has_vector(const operation *o) { return o->epilogue & (CUBLASLT_EPILOGUE_BIAS | CUBLASLT_EPILOGUE_BGRADB); }

static uint64_t hash_of(const operation *o, const layout *const l[4]) {
  uint64_t hash =
      (uint64_t)o->compute << 32 | (uint64_t)o->epilogue << 16 | (uint64_t)o->turned[0] << 8 | (uint64_t)o->turned[1];
  for (int k = 0; k < 4; k++) {
    const uint64_t part[] = { (uint64_t)l[k]->type,  l[k]->rows,           l[k]->columns, (uint64_t)l[k]->ld,
                              (uint64_t)l[k]->apart, (uint64_t)l[k]->batch };
    for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
      hash = (hash ^ part[i]) * 0x9e3779b97f4a7c15u;
      hash ^= hash >> 29;
    }
  }
  return hash;
}

API cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t object,
                                                  cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                                  cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                                  cublasLtMatmulPreference_t preferred, int wanted,
                                                  cublasLtMatmulHeuristicResult_t out[], int *count) {
  BEGIN_LT(__func__);
  const operation *o = (void *)object;
  const preference *p = (void *)preferred;
  const layout *const l[4] = { (void *)a, (void *)b, (void *)c, (void *)d };
  cuda_double_state()->heuristics++;
  *count = 0;
  if (handle->device != double_device() || wanted < 1 || !fits(o, l)) return end(CUBLAS_STATUS_INVALID_VALUE);
  if (cuda_double_state()->no_ways) return end(CUBLAS_STATUS_NOT_SUPPORTED);
  if (o->epilogue != CUBLASLT_EPILOGUE_DEFAULT && l[D]->type == CUDA_R_64F)
    return end(CUBLAS_STATUS_SUCCESS); /* and no way: somebody has to meet that */
  way found = { .hash = hash_of(o, l), .bytes = p->bytes < 1 << 20 ? 0 : 1 << 20 };
  memcpy(found.aligned, p->aligned, sizeof found.aligned);
  found.reduction = p->reduction;
  found.bias_aligned = has_vector(o) ? alignment_of(o->bias) : 0;
  memset(out, 0, sizeof *out);
  memcpy(&out->algo, &found, sizeof found);
  out->workspaceSize = found.bytes;
  *count = 1;
  return end(CUBLAS_STATUS_SUCCESS);
}

static bool on(int device, const void *data, size_t bytes, uint32_t aligned) {
  bool bad;
  const double_block *b = double_find(data, bytes, &bad);
  return b && !bad && b->device == device && (!aligned || (uintptr_t)data % aligned == 0);
}

static size_t bytes_of(const layout *l) {
  return (size_t)((int64_t)(l->batch - 1) * l->apart + (int64_t)(l->columns - 1) * l->ld + (int64_t)l->rows) *
         number_bytes(l->type);
}

API cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t object, const void *alpha,
                                  const void *a, cublasLtMatrixLayout_t a_is, const void *b,
                                  cublasLtMatrixLayout_t b_is, const void *beta, const void *c,
                                  cublasLtMatrixLayout_t c_is, void *d, cublasLtMatrixLayout_t d_is,
                                  const cublasLtMatmulAlgo_t *algo, void *workspace, size_t bytes,
                                  cudaStream_t stream) {
  BEGIN_LT(__func__);
  const int device = double_stream_device(stream);
  const operation *o = (void *)object;
  const layout *const l[4] = { (void *)a_is, (void *)b_is, (void *)c_is, (void *)d_is };
  const void *const at[4] = { a, b, c, d };
  way chosen;
  memcpy(&chosen, algo, sizeof chosen);
  bool good = fits(o, l) && handle->device == device && device == double_device() && chosen.hash == hash_of(o, l) &&
              bytes >= chosen.bytes && (!chosen.bytes || on(device, workspace, chosen.bytes, 16));
  for (int k = 0; good && k < 4; k++) good = on(device, at[k], bytes_of(l[k]), chosen.aligned[k]);
  const uint64_t vector = o->epilogue == CUBLASLT_EPILOGUE_BGRADB ? l[D]->columns : l[D]->rows;
  if (good && has_vector(o)) good = on(device, o->bias, vector * number_bytes(l[D]->type), chosen.bias_aligned);
  if (good && o->epilogue & KEEPS)
    good =
        on(device, o->kept, ((l[D]->columns - 1) * (uint64_t)o->kept_ld + l[D]->rows) * number_bytes(l[D]->type), 16);
  if (!good) return end(CUBLAS_STATUS_INVALID_VALUE);
  product p = { .o = *o, .in = { a, b, c }, .out = d, .reduction = chosen.reduction };
  for (int k = 0; k < 4; k++) p.l[k] = *l[k];
  p.alpha = number_load(o->scale, alpha, 0);
  p.beta = number_load(o->scale, beta, 0);
  double_task *task = double_queue(stream, DOUBLE_CALL, sizeof p);
  if (!task) return end(CUBLAS_STATUS_ALLOC_FAILED);
  memcpy(task + 1, &p, sizeof p);
  task->call = multiply;
  cuda_double_state()->products++;
  return end(CUBLAS_STATUS_SUCCESS);
}

/* ---- the library ---------------------------------------------------------------------------- */

API cublasStatus_t cublasLtCreate(cublasLtHandle_t *out) {
  BEGIN_LT(__func__);
  if (cuda_double_state()->no_start) return end(CUBLAS_STATUS_NOT_INITIALIZED);
  struct cublasLtContext *handle = malloc(sizeof *handle);
  if (!handle) return end(CUBLAS_STATUS_ALLOC_FAILED);
  handle->device = double_device();
  cuda_double_state()->started++;
  *out = handle;
  return end(CUBLAS_STATUS_SUCCESS);
}

API cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  BEGIN_LT(__func__);
  free(handle);
  cuda_double_state()->started--;
  return end(CUBLAS_STATUS_SUCCESS);
}

API const char *cublasLtGetStatusName(cublasStatus_t status) {
  switch (status) {
  case CUBLAS_STATUS_ALLOC_FAILED: return "CUBLAS_STATUS_ALLOC_FAILED";
  case CUBLAS_STATUS_EXECUTION_FAILED: return "CUBLAS_STATUS_EXECUTION_FAILED";
  default: return "CUBLAS_STATUS_OF_THE_DOUBLE";
  }
}
API const char *cublasLtGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_ALLOC_FAILED ? "the resource allocation failed" : "a failure of the double's";
}
