/* Images of the program's: copied to tensors and back, on the device.
   SPDX-License-Identifier: MIT */
#include "base/fail.h"
#include "device/dry.h"
#include "device/launch/launch.h"
#include "situ/sys/plain.h"
#include "situ/sys/shape.h"
#include "tensor/tensor.h"

/* What can be said before the image is looked at; sets height, width and channels. */
static bool check_tensor(const char *op, situ_tensor *t, const void *image, bool to_image, int64_t size[3]) {
  char name[SITU_DEVICE_NAME_MAX], text[SITU_SHAPE_TEXT];
  if (!situ__need(op, "input", t)) return false;
  if (!image) return situ__null(op, "image"), false;
  if (situ__is_dry()) return (void)situ__dry_blind(op), false;
  const situ_view_desc *v = &t->view;
  situ_storage *s = v->storage;
  if (!situ__backend(s->device)->copy_image)
    return situ__fail(SITU_E_UNSUPPORTED, op, "%s has no images", situ_device_name(s->device, name)), false;
  if (!(to_image ? situ__check_written(op, t) : situ__may_write(op, t))) return false;
  if (!to_image && s->flags & SITU_STORAGE_NO_WRITES) return (void)situ__refuse_read_only(op, s), false;
  const situ_shape shape = situ__shape(v);
  if (v->ndim < 2 || v->ndim > 3 || !v->contiguous || !v->numel)
    return situ__fail(SITU_E_SHAPE, op,
                      "the tensor is %s%s, and an image [height, width, channels] or [height, width], contiguous",
                      situ_shape_text(&shape, text), v->contiguous ? "" : " with gaps"),
           false;
  for (int d = 0; d < 3; d++) size[d] = d < v->ndim ? v->size[d] : 1;
  return situ__check_range(op, s, 0, s->bytes) == SITU_OK;
}

static situ_status copy_image(const char *op, situ_tensor *t, void *image, bool to_image) {
  int64_t size[3];
  if (!check_tensor(op, t, image, to_image, size)) return situ_error();
  situ_storage *s = t->view.storage;
  const situ_dtype dtype = (situ_dtype)t->view.dtype;
  const size_t item = situ_dtype_size(dtype), at = (size_t)t->view.offset * item;
  const uint64_t before = situ__error_count();
  const situ_status status =
      situ__backend(s->device)->copy_image(s->device.index, image, size, dtype, s->data, at, to_image);
  if (status != SITU_OK) return situ__device_failed(op, s->device, status, before, "copying an image");
  if (!to_image) situ__storage_wrote(s);
  return situ__record_copy(op, s->device, s->device, (size_t)t->view.numel * item, s, at, false, SITU__COPY_IMAGE);
}

situ_status situ_copy_from_image(situ_tensor *t, void *image) { return copy_image("copy_from_image", t, image, false); }
situ_status situ_copy_to_image(situ_tensor *t, void *image) { return copy_image("copy_to_image", t, image, true); }
