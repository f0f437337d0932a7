/* Images of the program, copied to buffers and back on the device, in the order of the queue.
   SPDX-License-Identifier: MIT */
#include "backend/opencl/opencl.h"

/* Channels of an order in which they lie beside each other; 0: another one. */
static int channels_of(cl_channel_order order) {
  switch (order) {
  case CL_R:
  case CL_A:
  case CL_LUMINANCE:
  case CL_INTENSITY: return 1;
  case CL_RG:
  case CL_RA: return 2;
  case CL_RGBA:
  case CL_BGRA:
  case CL_ARGB: return 4;
  default: return 0;
  }
}

/* Types of channels that are a dtype. */
static const struct {
  cl_channel_type type;
  situ_dtype dtype;
  const char *name;
} types[] = {
  { CL_FLOAT, SITU_F32, "f32" },       { CL_HALF_FLOAT, SITU_F16, "f16" },   { CL_UNORM_INT8, SITU_U8, "u8" },
  { CL_UNSIGNED_INT8, SITU_U8, "u8" }, { CL_SNORM_INT8, SITU_I8, "i8" },     { CL_SIGNED_INT8, SITU_I8, "i8" },
  { CL_SNORM_INT16, SITU_I16, "i16" }, { CL_SIGNED_INT16, SITU_I16, "i16" }, { CL_SIGNED_INT32, SITU_I32, "i32" },
};

static situ_status check_format(const char *op, const cl_image_format *format, int64_t channels, situ_dtype dtype) {
  const char *is = "another type", *should = "another dtype";
  bool same = false;
  for (size_t k = 0; k < sizeof types / sizeof *types; k++) {
    if (types[k].type == format->image_channel_data_type) is = types[k].name, same = types[k].dtype == dtype;
    if (types[k].dtype == dtype) should = types[k].name;
  }
  const int has = channels_of(format->image_channel_order);
  if (same && has == channels) return SITU_OK;
  return situ__host->fail(
      SITU_E_DTYPE, op,
      "the image has %d channels of %s (cl_image_format { 0x%x, 0x%x }), and the tensor %lld of %s; "
      "make a tensor [height, width, channels] of the image's",
      has, is, format->image_channel_order, format->image_channel_data_type, (long long)channels, should);
}

static situ_status check_image(const char *op, int index, cl_mem image, cl_context should, const int64_t shape[3],
                               situ_dtype dtype) {
  cl_context context = NULL;
  cl_mem_object_type type = 0;
  cl_image_format format = { 0 };
  size_t height = 0, width = 0;
  cl_int error = clGetMemObjectInfo(image, CL_MEM_TYPE, sizeof type, &type, NULL);
  if (error == CL_SUCCESS) error = clGetMemObjectInfo(image, CL_MEM_CONTEXT, sizeof context, &context, NULL);
  if (error != CL_SUCCESS)
    return situ__host->fail(SITU_E_ARG, op, "image is not a cl_mem (clGetMemObjectInfo: %d)", (int)error);
  if (type != CL_MEM_OBJECT_IMAGE2D)
    return situ__host->fail(SITU_E_ARG, op, "image is not a two-dimensional image (CL_MEM_TYPE 0x%x)%s", (unsigned)type,
                            type == CL_MEM_OBJECT_BUFFER ? "; it is a buffer: use situ_from_memory" : "");
  if (context != should) return situ__cl_refuse_context(op, "image", index, context, should);
  error = clGetImageInfo(image, CL_IMAGE_FORMAT, sizeof format, &format, NULL);
  if (error == CL_SUCCESS) error = clGetImageInfo(image, CL_IMAGE_HEIGHT, sizeof height, &height, NULL);
  if (error == CL_SUCCESS) error = clGetImageInfo(image, CL_IMAGE_WIDTH, sizeof width, &width, NULL);
  if (error != CL_SUCCESS) return situ__host->fail(SITU_E_ARG, op, "clGetImageInfo: %d", (int)error);
  const situ_status status = check_format(op, &format, shape[2], dtype);
  if (status != SITU_OK || ((int64_t)height == shape[0] && (int64_t)width == shape[1])) return status;
  return situ__host->fail(SITU_E_SHAPE, op, "the image is %zu high and %zu wide, and the tensor is %lld high and %lld",
                          height, width, (long long)shape[0], (long long)shape[1]);
}

situ_status situ__cl_copy_image(int index, void *image, const int64_t shape[3], situ_dtype dtype, void *data, size_t at,
                                bool to_image) {
  situ_status status;
  const char *op = to_image ? "copy_to_image" : "copy_from_image";
  situ__cl_device *d = situ__cl_enter_adopted(index, op, &status);
  if (!d) return status;
  const cl_context context = d->context;
  (void)situ__cl_leave(d, SITU_OK); /* one lock at a time, to avoid deadlock */
  status = check_image(op, index, image, context, shape, dtype);
  if (status != SITU_OK || !(d = situ__cl_enter(index, op, &status))) return status;
  const size_t first[3] = { 0 }, size[3] = { (size_t)shape[1], (size_t)shape[0], 1 };
  const char *call = to_image ? "clEnqueueCopyBufferToImage" : "clEnqueueCopyImageToBuffer";
  const cl_int error = to_image ? clEnqueueCopyBufferToImage(d->queue, data, image, at, first, size, 0, NULL, NULL)
                                : clEnqueueCopyImageToBuffer(d->queue, image, data, first, size, at, 0, NULL, NULL);
  return situ__cl_leave(d, error == CL_SUCCESS ? SITU_OK : situ__cl_fail(d, op, call, error, false));
}
