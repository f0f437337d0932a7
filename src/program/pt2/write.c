/* Writes a program and its weights to a .pt2 archive.
   SPDX-License-Identifier: MIT */
#include "write.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/map.h"
#include "io/format/zip_write.h"
#include "base/handle.h"
#include "program/graph/module.h"
#include "situ/export.h"
#include "situ/sys/tensor.h"

static const char op[] = "export_save";

/* ---- names ---- */

const char *situ__pt2_new_name(situ__pt2_writer *w, const char *stem, size_t length) {
  enum { STEM = 128 };
  char name[STEM + 16];
  const int written = snprintf(name, STEM, "%.*s", (int)length, stem) < STEM ? (int)strlen(name) : STEM - 1;
  for (char *c = name; *c; c++)
    if (!(*c == '_' || (*c >= '0' && *c <= '9') || (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z'))) *c = '_';
  for (int64_t n = w->names.count; situ__names_get(&w->names, name) >= 0; n++)
    (void)snprintf(name + written, sizeof name - (size_t)written, "_%d", (int)n);
  const char *kept = situ__arena_text(&w->arena, name, strlen(name));
  return kept && situ__names_put(&w->names, kept, 0) ? kept : NULL;
}

static bool name_values(situ__pt2_writer *w) {
  const situ__program *p = w->program;
  char text[300];
  bool good = true;
  for (int32_t i = 0; good && i < p->inputs; i++) {
    const int32_t v = p->input[i].value;
    good = (w->name[v] = situ__pt2_new_name(w, p->input[i].name, strlen(p->input[i].name))) != NULL;
  }
  for (int32_t i = 0; good && i < p->parts; i++) {
    const int32_t v = p->part[i].value;
    (void)snprintf(text, sizeof text, "%s%s", w->kind[i] == SITU_NN_PARAMETER ? "p_" : "b_", p->part[i].path);
    good = (w->name[v] = situ__pt2_new_name(w, text, strlen(text))) != NULL;
  }
  for (int32_t n = 0; good && n < p->nodes; n++)
    for (int32_t i = 0; good && i < p->node[n].outs; i++) {
      const int32_t v = p->node[n].out[i];
      const char *target = p->node[n].row->target;
      if (v < 0) continue;
      /* The name of a node with several results is its own. */
      const char *stem = p->node[n].outs > 1 ? "getitem" : target;
      good = (w->name[v] = situ__pt2_new_name(w, stem, strcspn(stem, "."))) != NULL;
    }
  for (int32_t v = 0; good && v < p->values; v++)
    if (!w->name[v]) good = (w->name[v] = situ__pt2_new_name(w, "unused", 6)) != NULL;
  if (good) return true;
  return situ__no_memory(op, sizeof text), false;
}

/* ---- weights ---- */

typedef struct finding {
  situ__names parts; /* path: number of the part */
  situ_nn_kind *kind;
} finding;

static situ_status note_kind(const situ_nn_visit *at, void *payload) {
  finding *f = payload;
  const int32_t i = situ__names_get(&f->parts, at->path);
  if (i >= 0) f->kind[i] = (situ_nn_kind)at->slot->kind;
  return SITU_OK;
}

static bool find_kinds(situ__pt2_writer *w) {
  const situ__program *p = w->program;
  finding f = { .kind = w->kind };
  bool good = true;
  for (int32_t i = 0; i < p->parts && good; i++) {
    w->kind[i] = SITU_NN_BUFFER;
    good = situ__names_put(&f.parts, p->part[i].path, i);
  }
  if (!good) situ__no_memory(op, (size_t)p->parts * sizeof *f.parts.entry);
  good = good && situ_nn_walk(w->module, SITU_NN_VISIT_TENSORS, note_kind, &f) == SITU_OK;
  situ__names_free(&f.parts);
  return good;
}

/* The graph declares each value as it was when the module was exported; a cast since then changed the parts alone. */
static bool is_as_exported(const situ__pt2_writer *w) {
  const situ__program *p = w->program;
  for (int32_t i = 0; i < p->parts; i++) {
    const situ_tensor *t = situ_nn_get_tensor(w->module, p->part[i].path);
    const situ_dtype before = p->meta[p->part[i].value].dtype;
    if (!t || situ_dtype_of(t) == before) continue;
    return situ__fail(SITU_E_DTYPE, op,
                      "%s is %s, and was %s when the program was exported: cast it back, or export the cast module",
                      p->part[i].path, situ_dtype_name(situ_dtype_of(t)), situ_dtype_name(before)),
           false;
  }
  return true;
}

/* Writes the values to a file of their own, row-major. */
static bool write_values(situ__zip_writer *zip, const char *name, situ_tensor *t) {
  size_t bytes;
  void *values = situ__program_values(op, t, &bytes);
  const bool good = values && situ__zip_add(zip, name, values, bytes);
  situ__free(values);
  return good;
}

/* Writes the weights, or the constants. Tensors that are one have one file. */
static bool write_section(situ__pt2_writer *w, situ__zip_writer *zip, const char *root, bool constants) {
  const situ__program *p = w->program;
  const char *directory = constants ? "constants" : "weights", *stem = constants ? "tensor" : "weight";
  situ__text config = { 0 };
  char name[600];
  int32_t files = 0;
  bool good = true, any = false;
  situ__map written = { 0 }; /* a tensor: the number of its file, from 1 */
  situ__text_add(&config, "{\"config\": {");
  for (int32_t i = 0; good && i < p->parts; i++) {
    situ_tensor *t = situ_nn_get_tensor(w->module, p->part[i].path);
    const situ_nn_kind kind = w->kind[i];
    if (!t || (kind == SITU_NN_TRANSIENT) != constants) continue;
    const int32_t known = (int32_t)(intptr_t)situ__map_get(&written, t), file = known ? known - 1 : files;
    (void)snprintf(name, sizeof name, "%s/data/%s/%s_%d", root, directory, stem, file);
    if (!known) {
      good = situ__map_put(&written, t, (void *)(intptr_t)++files) || (situ__no_memory(op, sizeof t), false);
      good = good && write_values(zip, name, t);
    }
    const situ_shape shape = situ_shape_of(t);
    situ__value_meta meta = {
      .dtype = situ_dtype_of(t), .size = shape, .stride = { .ndim = shape.ndim }, .requires_grad = situ_requires_grad(t)
    };
    int64_t step = 1;
    for (int d = shape.ndim - 1; d >= 0; d--) {
      meta.stride.dim[d] = step;
      step *= shape.dim[d] > 1 ? shape.dim[d] : 1;
    }
    situ__text_add(&config, any ? ", " : "");
    any = true;
    situ__text_json_string(&config, p->part[i].path);
    situ__text_add(&config,
                   ": {\"path_name\": \"%s_%d\", \"is_param\": %s, \"use_pickle\": false, \"tensor_meta\": ", stem,
                   file, kind == SITU_NN_PARAMETER ? "true" : "false");
    situ__pt2_write_meta(&config, &meta);
    situ__text_add(&config, "}");
  }
  situ__text_add(&config, "}}");
  (void)snprintf(name, sizeof name, "%s/data/%s/model_%s_config.json", root, directory, directory);
  if (good && config.failed) good = (situ__no_memory(op, config.length), false);
  good = good && situ__zip_add(zip, name, config.data, config.length);
  situ__text_free(&config);
  situ__map_free(&written);
  return good;
}

/* ---- the archive ---- */

static bool add_text(situ__zip_writer *zip, const char *root, const char *entry, const char *text) {
  char name[600];
  (void)snprintf(name, sizeof name, "%s/%s", root, entry);
  return situ__zip_add(zip, name, text, strlen(text));
}

/* "model" of "dir/model.pt2". */
static void root_of(const char *path, char out[256]) {
  const char *name = strrchr(path, '/');
  name = name ? name + 1 : path;
  (void)snprintf(out, 256, "%.*s", (int)strcspn(name, "."), name);
  if (!*out) (void)snprintf(out, 256, "model");
}

static bool write_archive(situ__pt2_writer *w, situ__zip_writer *zip, const char *path) {
  char root[256];
  root_of(path, root);
  return write_section(w, zip, root, false) && write_section(w, zip, root, true) &&
         add_text(zip, root, "models/model.json", w->json.data) &&
         add_text(zip, root, "data/sample_inputs/model.pt", "") && /* torch asks for the file, not for what is in it */
         add_text(zip, root, "archive_format", "pt2") && add_text(zip, root, "archive_version", "0") &&
         add_text(zip, root, "byteorder", "little") && add_text(zip, root, ".data/version", "6\n") &&
         situ__zip_end(zip);
}

static bool write_file(situ__pt2_writer *w, const char *path, const situ__still *still) {
  situ__replace file;
  situ__zip_writer zip = { .file = &file };
  if (situ__replace_begin(&file, op, path, 0, true) != SITU_OK) return false;
  const bool good = write_archive(w, &zip, path) && situ__still_unchanged(op, still);
  if (!good) situ__free(zip.directory);
  return situ__replace_end_if(&file, good, w->errors, NULL) == SITU_OK;
}

situ_status situ_export_save(situ_nn_module *program, const char *path) {
  if (!situ__valid(op, "program", program, SITU__A_MODULE) || !situ__given(op, "path", path)) return situ_error();
  const situ__program *p = situ__program_of(program);
  if (!p || !p->meta)
    return situ__fail(SITU_E_STATE, op, "%s: not a program that situ_export made; call it first", program->type->name);
  situ__pt2_writer w = { .op = op, .program = p, .module = program, .errors = situ__error_count() };
  situ_scope scope;
  situ_scope_begin_no_grad(&scope);
  w.name = situ__calloc((size_t)p->values + 1, sizeof *w.name);
  w.kind = situ__alloc(((size_t)p->parts + 1) * sizeof *w.kind);
  w.seen = situ__calloc((size_t)p->values + 1, sizeof *w.seen);
  bool good = (w.name && w.kind && w.seen) || (situ__no_memory(op, (size_t)p->values * sizeof *w.name), false);
  situ__still still = { 0 };
  good = good && situ__program_hold(op, &still, program) && is_as_exported(&w) && find_kinds(&w) && name_values(&w);
  if (good && !situ__pt2_write_model(&w)) good = (situ__no_memory(op, w.json.length), false);
  good = good && write_file(&w, path, &still);
  situ__still_end(&still);
  situ__free(w.name);
  situ__free(w.kind);
  situ__free(w.seen);
  situ__names_free(&w.names);
  situ__text_free(&w.json);
  situ__arena_free(&w.arena);
  const situ_status ended = situ_scope_end(&scope);
  return good ? ended : situ_error();
}
