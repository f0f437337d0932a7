/* Fuzzes the calls of programs: any bytes are up to three calls of rows with drawn arguments, as a file of .pt2 or ONNX.
   SPDX-License-Identifier: MIT */
#include "../support/archive.h"
#include "program.h"
#include "rows/draw.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const situ__op_family *const aten[] = {
  &situ__elementwise_family, &situ__special_family, &situ__shape_family,    &situ__join_family,
  &situ__layers_family,      &situ__image_family,   &situ__reduce_family,   &situ__order_family,
  &situ__index_family,       &situ__make_family,    &situ__linalg_family,   &situ__loss_family,
  &situ__recurrent_family,   &situ__size_family,    &situ__backward_family, &situ__quantized_family,
};
static const situ__op_family *const backward[] = { &situ__backward_family, &situ__quantized_family };
static const situ__op_family *const onnx[] = {
  &situ__onnx_elementwise_family, &situ__onnx_shape_family,     &situ__onnx_layers_family, &situ__onnx_reduce_family,
  &situ__onnx_index_family,       &situ__onnx_make_family,      &situ__onnx_norm_family,   &situ__onnx_recurrent_family,
  &situ__onnx_image_family,       &situ__onnx_attention_family, &situ__onnx_trees_family,  &situ__onnx_quantized_family,
};
static const situ__op_family *const whole[] = { &situ__onnx_quantized_family };

/* SITU_FUZZ_ROWS: one of these alone. */
static const struct {
  const char *name;
  bool is_onnx;
  const situ__op_family *const *family;
  int families;
} groups[] = {
  { "aten", false, aten, sizeof aten / sizeof *aten },
  { "backward", false, backward, sizeof backward / sizeof *backward },
  { "onnx", true, onnx, sizeof onnx / sizeof *onnx },
  { "integer", true, whole, sizeof whole / sizeof *whole },
};

static unsigned choose_group(draw *d) {
  const char *only = getenv("SITU_FUZZ_ROWS");
  for (unsigned i = 0; only && i < sizeof groups / sizeof *groups; i++)
    if (strcmp(only, groups[i].name) == 0) return i;
  return draw_below(d, sizeof groups / sizeof *groups);
}

/* Values are computed unless numbers are such that this would take for ever. */
static void load(const uint8_t *data, size_t size, const draw *d, bool written) {
  const situ_load_options options = { .device = { .kind = d->huge ? SITU_META : SITU_DEVICE_DEFAULT } };
  program_load_once(data, size, (program_run){ .options = options, .written = written });
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  draw d = { .at = data, .end = data + size };
  const unsigned group = choose_group(&d);
  const bool written = program_wants("written") && draw_once_in(&d, 2);
  if (groups[group].is_onnx) {
    situ__protobuf_writer w = { 0 };
    rows_write_onnx(&d, groups[group].family, groups[group].families, &w);
    if (!w.failed) load(w.data, w.length, &d, written);
    situ__protobuf_free(&w);
  } else {
    situ__text t = { 0 };
    rows_write_aten(&d, groups[group].family, groups[group].families, &t);
    size_t length;
    uint8_t *archive = t.failed ? NULL : archive_of((const uint8_t *)t.data, t.length, &length);
    if (archive) load(archive, length, &d, written);
    free(archive);
    situ__text_free(&t);
  }
  return 0;
}
