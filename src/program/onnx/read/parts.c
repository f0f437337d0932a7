/* Makes the parameters and buffers of an ONNX model, under paths like those of PyTorch's state dict, and keeps the rest
   of the model, so that it can be written again.
   SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/map.h"
#include "io/format/onnx_copy.h"
#include "onnx.h"

enum { CHILD = 1, TENSOR = 2 };
/* Bytes after a name, for "_2" if it is taken. */
enum { NUMBER = 13 };

/* Names of the file become paths: "encoder.layer.0.weight" as it is; in "onnx::MatMul_12" and in paths that are not
   made of names, other characters become '_'. */
static char *path_of(situ__onnx *f, const char *name) {
  const size_t length = strlen(name);
  char *path = situ__arena_take(&f->program->arena, length + NUMBER, 1);
  bool plain = true;
  char before = '.';
  if (path) memcpy(path, name, length);
  for (char *c = path; path && *c; before = *c++) {
    const bool letter = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9');
    if (!letter && *c != '_' && *c != '-' && *c != '.') *c = '_';
    plain = plain && (*c != '.' || before != '.');
  }
  for (char *c = path; path && (!plain || before == '.') && *c; c++)
    if (*c == '.') *c = '_';
  return path;
}

/* Whether a tensor can be at the path: it is free, and none of its parents is a tensor. */
static bool is_free(const situ__names *taken, char *path) {
  if (situ__names_get(taken, path) >= 0) return false;
  bool free_ = true;
  for (char *dot = strchr(path, '.'); dot && free_; dot = strchr(dot + 1, '.')) {
    *dot = 0;
    free_ = situ__names_get(taken, path) != TENSOR;
    *dot = '.';
  }
  return free_;
}

static bool take_path(situ__onnx *f, situ__names *taken, const char *path) {
  for (const char *dot = strchr(path, '.'); dot; dot = strchr(dot + 1, '.')) {
    const char *parent = situ__arena_text(&f->program->arena, path, (size_t)(dot - path));
    if (!parent) return false;
    if (situ__names_get(taken, parent) < 0 && !situ__names_put(taken, parent, CHILD)) return false;
  }
  return situ__names_put(taken, path, TENSOR);
}

static const char *choose_path(situ__onnx *f, situ__names *taken, const char *name) {
  char *path = path_of(f, *name ? name : "constant");
  if (!path) return NULL;
  if (!is_free(taken, path))
    for (char *c = path; *c; c++)
      if (*c == '.') *c = '_';
  char *end = path + strlen(path);
  for (int n = 2; !is_free(taken, path) && n < INT32_MAX; n++) (void)snprintf(end, NUMBER, "_%d", n);
  return take_path(f, taken, path) ? path : NULL;
}

bool situ__onnx_name_parts(situ__onnx *f) {
  situ__program *p = f->program;
  situ__names taken = { 0 };
  bool fine = true;
  p->part = situ__arena_take(&p->arena, (size_t)p->parts, sizeof *p->part);
  for (int32_t i = 0; p->part && fine && i < p->parts; i++) {
    const situ__onnx_value *about = &f->about[f->part_of[i]];
    p->part[i] = (situ__program_part){ .path = choose_path(f, &taken, about->name), .value = about->on_device };
    fine = p->part[i].path != NULL;
  }
  situ__names_free(&taken);
  return (p->part && fine) || situ__onnx_no_memory();
}

static situ_tensor *load_part(situ__onnx *f, int32_t v) {
  situ__onnx_tensor t;
  situ_tensor *known = f->known[v].tensor;
  /* A copy of its own: the program's constants are shared by all clones of the module. */
  if (known) return situ_to(situ_clone(known), f->options.device.kind ? f->options.device : situ_device_of(known));
  return situ__onnx_read_tensor(f, f->about[v].source, &t) ? situ__onnx_load_tensor(f, &t, f->options.device) : NULL;
}

/* Makes the modules on a path that `made` does not list. */
static bool add_children(situ__onnx *f, situ_nn_module *m, situ__names *made, const char *path) {
  for (const char *dot = strchr(path, '.'); dot; dot = strchr(dot + 1, '.')) {
    const char *name = situ__arena_text(&f->program->arena, path, (size_t)(dot - path));
    if (!name) return situ__onnx_no_memory();
    if (situ__names_get(made, name) >= 0) continue;
    if (!situ__names_put(made, name, 0)) return situ__onnx_no_memory();
    if (!situ_nn_add_child(m, name, NULL, situ__program_child("", m))) return false;
  }
  return true;
}

bool situ__onnx_build(situ__onnx *f, situ_nn_module *m) {
  const situ__program *p = f->program;
  situ__names made = { 0 };
  bool fine = true;
  for (int32_t i = 0; fine && i < p->parts; i++) {
    const int32_t v = f->part_of[i];
    const situ__onnx_value *about = &f->about[v];
    /* Of a format the model keeps the codes, so that a new value would not be written. */
    const bool fixed = !about->initialiser || about->format;
    const situ_nn_kind kind = fixed ? SITU_NN_TRANSIENT : about->weight ? SITU_NN_PARAMETER : SITU_NN_BUFFER;
    situ_tensor *t = load_part(f, v);
    fine = t && add_children(f, m, &made, p->part[i].path) && situ_nn_add_tensor(m, p->part[i].path, NULL, t, kind);
  }
  situ__names_free(&made);
  return fine;
}

/* ---- what is kept of the file ---- */

typedef struct keeper {
  situ__onnx_copier copier; /* first: the callback gets it */
  situ__onnx *f;
  situ__map part; /* of an initialiser's first byte: the number of its part, plus 1 */
} keeper;

/* Fields of TensorProto. */
static bool is_value(uint32_t number) { return (number >= 4 && number <= 7) || (number >= 9 && number != 16); }

/* The fields of a tensor but its values. */
static void put_head(situ__protobuf message, situ__protobuf_writer *out) {
  const unsigned char *start = message.at;
  for (situ__protobuf_field field; situ__protobuf_next(&message, &field); start = message.at)
    if (!is_value(field.number)) situ__protobuf_append(out, start, (size_t)(message.at - start));
}

static bool put_external(keeper *k, const situ__onnx_tensor *t, situ__protobuf_writer *out) {
  enum { RAW = 9 };
  situ_tensor *loaded = situ__onnx_load_codes(k->f, t, (situ_device){ .kind = SITU_CPU });
  if (!loaded) return false;
  put_head(t->message, out);
  const size_t bytes = (size_t)situ_numel(loaded) * situ_dtype_size(situ_dtype_of(loaded));
  situ__protobuf_put_bytes(out, RAW, bytes ? situ_data_ptr(loaded) : "", bytes);
  return true;
}

static bool keep_tensor(situ__onnx_copier *c, uint32_t number, situ__protobuf message, int depth,
                        situ__protobuf_writer *out) {
  keeper *k = (keeper *)c;
  const intptr_t part = (intptr_t)situ__map_get(&k->part, message.at);
  situ__protobuf_writer own = { 0 };
  situ__onnx_tensor t;
  bool fine = situ__onnx_read_tensor(k->f, message, &t);
  (void)depth;
  if (fine && part && !t.format) {
    put_head(message, &own);
    situ__protobuf_put_int(&own, SITU__PROGRAM_PART_FIELD, part - 1);
  } else if (fine && t.external) {
    fine = put_external(k, &t, &own);
  } else if (fine) {
    situ__protobuf_append(&own, message.at, (size_t)message.bytes);
  }
  situ__protobuf_put_message(out, number, &own);
  situ__protobuf_free(&own);
  return fine;
}

static bool keep_model(keeper *k, situ__protobuf model, situ__protobuf_writer *out) {
  situ__onnx *f = k->f;
  for (int32_t i = 0; i < f->program->parts; i++) {
    const situ__onnx_value *about = &f->about[f->part_of[i]];
    if (about->initialiser && !situ__map_put(&k->part, about->source.at, (void *)(intptr_t)(i + 1)))
      return !(out->failed = true);
  }
  return situ__onnx_copy(&k->copier, SITU__ONNX_MODEL, model, 0, out);
}

bool situ__onnx_keep(situ__onnx *f) {
  keeper k = { .copier = { .tensor = keep_tensor }, .f = f };
  situ__program *p = f->program;
  situ__protobuf_writer out = { 0 };
  situ__errors own;
  char message[64];
  situ__errors_aside(&own);
  const bool fine = keep_model(&k, situ__protobuf_of(situ__mapping_at(f->mapping, 0), f->bytes), &out);
  (void)situ__errors_back(&own, message, sizeof message);
  if (fine && !out.failed) {
    p->model = out.data;
    p->model_bytes = (int64_t)out.length;
  } else {
    situ__protobuf_free(&out);
  }
  p->opset = (int)f->opset;
  situ__map_free(&k.part);
  return !out.failed || situ__onnx_no_memory();
}
