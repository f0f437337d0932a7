/* Graphs of the double's cuDNN, run with plain loops on the double's streams: a convolution, and a bias that is added to it.
   SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "support/cuda/dnn.h"

enum { X, W, Y };

typedef struct tensor {
  int64_t size[4], stride[4], uid, aligned;
  cudaDataType type;
  bool nowhere;
  void *data;
} tensor;

typedef struct job {
  int pass;                     /* whose result it is: Y, X, W */
  tensor of[3], sum, bias, out; /* sum: the convolution's result; out: what is written */
  int64_t stride[2], padding[2], dilation[2];
  bool biased, tf32, spoiled;
} job;

/* ---- reading descriptors --------------------------------------------------------------------- */

static const void *value_of(const dnn_descriptor *d, int name) {
  const dnn_attribute *a = dnn_attribute_of(d, name);
  return a ? a->data : NULL;
}

static cudaDataType type_of(int type) {
  return type == CUDNN_DATA_DOUBLE     ? CUDA_R_64F
         : type == CUDNN_DATA_HALF     ? CUDA_R_16F
         : type == CUDNN_DATA_BFLOAT16 ? CUDA_R_16BF
                                       : CUDA_R_32F;
}

static tensor tensor_of(const dnn_descriptor *operation, int name) {
  const dnn_descriptor *d = dnn_reference(operation, name, 0);
  tensor t = { .data = NULL };
  memcpy(t.size, value_of(d, CUDNN_ATTR_TENSOR_DIMENSIONS), sizeof t.size);
  memcpy(t.stride, value_of(d, CUDNN_ATTR_TENSOR_STRIDES), sizeof t.stride);
  memcpy(&t.uid, value_of(d, CUDNN_ATTR_TENSOR_UNIQUE_ID), sizeof t.uid);
  memcpy(&t.aligned, value_of(d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT), sizeof t.aligned);
  t.type = type_of(*(const int *)value_of(d, CUDNN_ATTR_TENSOR_DATA_TYPE));
  const bool *nowhere = value_of(d, CUDNN_ATTR_TENSOR_IS_VIRTUAL);
  t.nowhere = nowhere && *nowhere;
  return t;
}

#define NAME(pass, part) CUDNN_ATTR_OPERATION_CONVOLUTION_##pass##_##part
static const struct {
  int type, window, operand[3], result;
} passes[] = {
  { CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
    NAME(FORWARD, CONV_DESC),
    { NAME(FORWARD, X), NAME(FORWARD, W), NAME(FORWARD, Y) },
    Y },
  { CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
    NAME(BWD_DATA, CONV_DESC),
    { NAME(BWD_DATA, DX), NAME(BWD_DATA, W), NAME(BWD_DATA, DY) },
    X },
  { CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
    NAME(BWD_FILTER, CONV_DESC),
    { NAME(BWD_FILTER, X), NAME(BWD_FILTER, DW), NAME(BWD_FILTER, DY) },
    W },
};

/* Sizes go together as the forward pass has it. */
static bool fits(const job *j, const int64_t kernel[2]) {
  const tensor *x = &j->of[X], *w = &j->of[W], *y = &j->of[Y];
  bool good = x->size[0] == y->size[0] && w->size[0] == y->size[1] && w->size[1] > 0 && x->size[1] % w->size[1] == 0 &&
              w->size[0] % (x->size[1] / w->size[1]) == 0;
  for (int k = 0; k < 2; k++) {
    const int64_t reach = j->dilation[k] * (kernel[k] - 1) + 1;
    good = good && j->stride[k] > 0 && j->dilation[k] > 0 && j->padding[k] >= 0 &&
           (x->size[2 + k] + 2 * j->padding[k] - reach) / j->stride[k] + 1 == y->size[2 + k];
  }
  return good;
}

static bool read_convolution(const dnn_descriptor *operation, job *j) {
  for (int k = 0; k < 3; k++) {
    if (passes[k].type != operation->type) continue;
    const dnn_descriptor *window = dnn_reference(operation, passes[k].window, 0);
    j->pass = passes[k].result;
    for (int t = X; t <= Y; t++) j->of[t] = tensor_of(operation, passes[k].operand[t]);
    memcpy(j->stride, value_of(window, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES), sizeof j->stride);
    memcpy(j->padding, value_of(window, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS), sizeof j->padding);
    memcpy(j->dilation, value_of(window, CUDNN_ATTR_CONVOLUTION_DILATIONS), sizeof j->dilation);
    j->sum = j->out = j->of[j->pass];
    const cudaDataType type = j->of[j->pass == X ? Y : X].type;
    const int sums = *(const int *)value_of(window, CUDNN_ATTR_CONVOLUTION_COMP_TYPE),
              mode = *(const int *)value_of(window, CUDNN_ATTR_CONVOLUTION_CONV_MODE);
    return fits(j, &j->of[W].size[2]) && mode == CUDNN_CROSS_CORRELATION &&
           sums == (type == CUDA_R_64F ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT);
  }
  return false;
}

static bool read_bias(const dnn_descriptor *operation, job *j) {
  const dnn_descriptor *how = dnn_reference(operation, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, 0);
  if (operation->type != CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR ||
      *(const int *)value_of(how, CUDNN_ATTR_POINTWISE_MODE) != CUDNN_POINTWISE_ADD)
    return false;
  const tensor from = tensor_of(operation, CUDNN_ATTR_OPERATION_POINTWISE_XDESC);
  j->bias = tensor_of(operation, CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
  j->out = tensor_of(operation, CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
  j->biased = true;
  bool good = from.nowhere && from.uid == j->sum.uid && from.type == CUDA_R_32F && j->bias.size[1] == j->out.size[1] &&
              j->out.type != CUDA_R_64F;
  for (int d = 0; d < 4; d++) good = good && from.size[d] == j->out.size[d] && (d == 1 || j->bias.size[d] == 1);
  return good;
}

static bool read_graph(const dnn_descriptor *graph, job *j) {
  const dnn_descriptor *first = dnn_reference(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, 0),
                       *second = dnn_reference(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, 1);
  return first && read_convolution(first, j) && (!second || read_bias(second, j)) && !j->out.nowhere;
}

bool dnn_known(const dnn_descriptor *graph) {
  job j = { .pass = 0 };
  return read_graph(graph, &j);
}

/* ---- numbers --------------------------------------------------------------------------------- */

static int64_t numel(const tensor *t) { return t->size[0] * t->size[1] * t->size[2] * t->size[3]; }

static int64_t place(const tensor *t, int64_t a, int64_t b, int64_t c, int64_t d) {
  return a * t->stride[0] + b * t->stride[1] + c * t->stride[2] + d * t->stride[3];
}

static double *read_all(const tensor *t, bool tf32) {
  double *values = malloc((size_t)numel(t) * sizeof *values);
  for (int64_t at = 0; values && at < numel(t); at++) {
    values[at] = number_load(t->type, t->data, at);
    if (tf32 && t->type == CUDA_R_32F) values[at] = number_without(values[at], 13);
  }
  return values;
}

/* Adds what one row of a window's taps brings. at: of the row of x, of its first weight, of the sum. */
static void taps(const job *j, double *const value[3], float *narrow, int64_t left, const int64_t at[3]) {
  const int a = j->pass == X ? Y : X, b = j->pass == W ? Y : W;
  const int64_t steps[] = { j->of[X].stride[3], j->of[W].stride[3], 0 };
  for (int64_t right = 0; right < j->of[W].size[3]; right++) {
    const int64_t v = left + right * j->dilation[1];
    if (v < 0 || v >= j->of[X].size[3]) continue;
    const int64_t places[] = { at[X] + v * steps[X], at[W] + right * steps[W], at[Y] };
    const double term = value[a][places[a]] * value[b][places[b]];
    value[j->pass][places[j->pass]] += term;
    narrow[places[j->pass]] += (float)term;
  }
}

static void sum_up(const job *j, double *const value[3], float *narrow) {
  const tensor *x = &j->of[X], *w = &j->of[W], *y = &j->of[Y];
  const int64_t channels = w->size[1], each = w->size[0] / (x->size[1] / channels);
  for (int64_t at = 0; at < numel(y); at++) {
    const int64_t column = at % y->size[3], row = at / y->size[3] % y->size[2],
                  out = at / (y->size[3] * y->size[2]) % y->size[1],
                  image = at / (y->size[3] * y->size[2] * y->size[1]), to = place(y, image, out, row, column);
    for (int64_t channel = 0; channel < channels; channel++)
      for (int64_t down = 0; down < w->size[2]; down++) {
        const int64_t h = row * j->stride[0] - j->padding[0] + down * j->dilation[0];
        if (h < 0 || h >= x->size[2]) continue;
        const int64_t from[] = { place(x, image, out / each * channels + channel, h, 0),
                                 place(w, out, channel, down, 0), to };
        taps(j, value, narrow, column * j->stride[1] - j->padding[1], from);
      }
  }
}

static void convolve(const void *payload) {
  const job *j = payload;
  double *value[3] = { NULL };
  const int64_t count = numel(&j->out), plane = j->out.size[2] * j->out.size[3];
  float *narrow = calloc((size_t)count, sizeof *narrow);
  for (int k = X; k <= Y; k++)
    value[k] = k == j->pass ? calloc((size_t)count, sizeof **value) : read_all(&j->of[k], j->tf32);
  if (narrow && value[X] && value[W] && value[Y]) {
    sum_up(j, value, narrow);
    for (int64_t at = 0; at < count; at++) {
      double sum = j->out.type == CUDA_R_64F ? value[j->pass][at] : (double)narrow[at];
      if (j->biased) sum += number_load(j->bias.type, j->bias.data, at / plane % j->out.size[1]);
      number_store(j->out.type, j->out.data, at, j->spoiled ? sum + 1 : sum);
    }
  }
  for (int k = X; k <= Y; k++) free(value[k]);
  free(narrow);
}

/* ---- queueing -------------------------------------------------------------------------------- */

/* An address for a tensor: in memory of the device, and as aligned as was said. */
static bool give_address(const dnn_descriptor *pack, int device, tensor *t) {
  const dnn_attribute *uids = dnn_attribute_of(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  if (t->nowhere) return true;
  for (int64_t k = 0; k < uids->count; k++) {
    bool bad;
    if (((const int64_t *)(const void *)uids->data)[k] != t->uid) continue;
    t->data = ((void *const *)value_of(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS))[k];
    const double_block *b = double_find(t->data, (size_t)numel(t) * number_bytes(t->type), &bad);
    return b && !bad && b->device == device && t->aligned > 0 && (uintptr_t)t->data % (uint64_t)t->aligned == 0;
  }
  return false;
}

cudnnStatus_t dnn_execute(cudnnHandle_t handle, const dnn_descriptor *graph, const dnn_descriptor *pack, bool tf32,
                          bool spoiled) {
  job j = { .tf32 = tf32, .spoiled = spoiled };
  const dnn_attribute *uids = dnn_attribute_of(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS),
                      *data = dnn_attribute_of(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  bool good =
      handle->stream && handle->device == double_device() && uids->count == data->count && read_graph(graph, &j);
  for (int k = X; good && k <= Y; k++) good = give_address(pack, handle->device, &j.of[k]);
  good =
      good && give_address(pack, handle->device, &j.out) && (!j.biased || give_address(pack, handle->device, &j.bias));
  if (!good) return CUDNN_STATUS_BAD_PARAM;
  double_task *task = double_queue(handle->stream, DOUBLE_CALL, sizeof j);
  if (!task) return CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
  memcpy(task + 1, &j, sizeof j);
  task->call = convolve;
  cuda_double_state()->solved++;
  return CUDNN_STATUS_SUCCESS;
}
