/* Opens an ONNX model, checks its versions, and makes a module of its graph.
   Format: https://github.com/onnx/onnx/blob/main/docs/IR.md
   SPDX-License-Identifier: MIT */
#include "onnx.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/file.h"
#include "base/format.h"
#include "base/size.h"

static const char op[] = "export_load";

/* Opsets of ai.onnx whose operators the rows follow. Newer ones add operators and dtypes, and change none of these. */
enum { OPSET_LEAST = 6, OPSET_MOST = 28 };
enum { BUDGET = 16 << 20 };

bool situ__onnx_bad(const situ__onnx *f, situ_status status, const char *fmt, ...) {
  char text[1024];
  va_list args;
  va_start(args, fmt);
  (void)situ__vformat(text, sizeof text, fmt, args);
  va_end(args);
  return situ__fail(status, op, "%s: %s", f->path, text), false;
}

bool situ__onnx_no_memory(void) { return situ__fail(SITU_E_NOMEM, op, "no memory for the program"), false; }

const char *situ__onnx_text(situ__onnx *f, const situ__protobuf *bytes) {
  if (bytes->bytes && memchr(bytes->at, 0, (size_t)bytes->bytes)) {
    situ__onnx_bad(f, SITU_E_FORMAT, "has a text with a byte 0");
    return NULL;
  }
  const char *text = situ__arena_text(&f->program->arena, (const char *)bytes->at, (size_t)bytes->bytes);
  if (!text) situ__onnx_no_memory();
  return text;
}

/* ---- the model ---- */

typedef struct model {
  bool has_graph;
  situ__protobuf graph;
} model;

/* An entry of opset_import. */
static bool read_opset(situ__onnx *f, situ__protobuf m) {
  const char *domain = "";
  uint64_t version = 0;
  for (situ__protobuf_field field; situ__protobuf_next(&m, &field);) {
    if (field.number == 1 && field.wire == SITU__PROTOBUF_BYTES && !(domain = situ__onnx_text(f, &field.bytes)))
      return false;
    if (field.number == 2 && field.wire == SITU__PROTOBUF_VARINT) version = field.value;
  }
  if (m.bad) return situ__onnx_bad(f, SITU_E_FORMAT, "has an opset that is cut off");
  if (*domain && strcmp(domain, "ai.onnx") != 0) { /* its operators are listed one by one */
    if (!f->opset) f->opset = OPSET_MOST;
    return true;
  }
  if (version < OPSET_LEAST || version > OPSET_MOST)
    return situ__onnx_bad(f, SITU_E_UNSUPPORTED,
                          "is of opset %llu, and %d to %d are read: convert it with onnx.version_converter",
                          (unsigned long long)version, OPSET_LEAST, OPSET_MOST);
  f->opset = (int64_t)version;
  return true;
}

static bool read_model(situ__onnx *f, model *out) {
  enum { IR_VERSION = 1, GRAPH = 7, OPSET_IMPORT = 8 };
  situ__protobuf m = situ__protobuf_of(situ__mapping_at(f->mapping, 0), f->bytes);
  bool versioned = false;
  for (situ__protobuf_field field; situ__protobuf_next(&m, &field);) {
    const bool bytes = field.wire == SITU__PROTOBUF_BYTES;
    if (field.number == IR_VERSION && field.wire == SITU__PROTOBUF_VARINT) versioned = true;
    if (field.number == OPSET_IMPORT && bytes && !read_opset(f, field.bytes)) return false;
    if (field.number == GRAPH && bytes) {
      out->graph = field.bytes;
      out->has_graph = true;
    }
  }
  if (m.bad || !versioned)
    return situ__onnx_bad(f, SITU_E_FORMAT, "is neither a .pt2 archive nor an ONNX model%s",
                          versioned ? ", or it is cut off" : "");
  if (!out->has_graph) return situ__onnx_bad(f, SITU_E_FORMAT, "is an ONNX model without a graph");
  return f->opset || situ__onnx_bad(f, SITU_E_FORMAT, "is an ONNX model that does not say its opset");
}

static bool open_model(situ__onnx *f) {
  f->fd = situ__file_open(op, f->path, &f->bytes);
  if (f->fd < 0) return false;
  if (f->bytes == 0) return situ__onnx_bad(f, SITU_E_FORMAT, "is empty");
  f->mapping = situ__mapping_new(op, f->path, f->fd, f->bytes);
  f->budget = f->bytes + BUDGET;
  return f->mapping != NULL;
}

static situ_nn_module *read_module(situ__onnx *f) {
  static const char fix[] = "export it with operators that docs/onnx.md lists";
  model m = { 0 };
  if (!read_model(f, &m) || !situ__onnx_read_graph(f, m.graph, 0, NULL) ||
      !situ__lacks_check(&f->lacks, f->path, fix) || !situ__onnx_check_declared(f) || !situ__onnx_match_patterns(f) ||
      !situ__onnx_name_parts(f) || !situ__onnx_keep(f))
    return NULL;
  if (!situ__program_find_last_uses(f->program)) return situ__onnx_no_memory(), NULL;
  f->program->owners = 2; /* the module, and this reader until it has filled the module */
  situ_nn_module *module = situ__program_module(f->program, "OnnxModel");
  if (!module) return NULL;
  module->home = f->options.device;
  if (!situ__onnx_build(f, module)) module->broken = true;
  return situ_nn_done(module);
}

static void close_model(situ__onnx *f) {
  for (int32_t i = 0; i < f->values; i++) situ_drop(&f->known[i].tensor);
  for (int32_t i = 0; i < f->files; i++) {
    situ__mapping_release(f->file[i].mapping);
    situ__file_close(f->file[i].fd);
  }
  situ__free(f->file);
  situ__free(f->known);
  situ__free(f->declared);
  situ__free(f->about);
  situ__free(f->part_of);
  situ__names_free(&f->scope.names);
  situ__names_free(&f->symbols);
  situ__lacks_free(&f->lacks);
  situ__program_free(f->program);
  situ__mapping_release(f->mapping);
  situ__file_close(f->fd);
}

situ_nn_module *situ__onnx_load(const char *path, const situ_load_options *options) {
  situ__onnx f = { .path = path, .fd = -1, .within = "graph", .told = situ_error() != SITU_OK };
  if (options) f.options = *options;
  f.program = situ__program_new(path, f.options.max_iterations);
  situ_scope scope;
  situ_scope_begin_no_grad(&scope);
  situ_nn_module *m = f.program && open_model(&f) ? read_module(&f) : NULL;
  if (situ_scope_end(&scope) != SITU_OK && m) {
    situ_nn_free(m);
    m = NULL;
  }
  close_model(&f);
  return m;
}
