/* Opens a .pt2 archive, checks its versions, and makes a module of its program.
   SPDX-License-Identifier: MIT */
#include "pt2.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/file.h"
#include "base/format.h"

const char situ__pt2_op[] = "export_load";

/* The schema that torch 2.6 to 2.15 write; a file of another major version may mean other things by the same words. */
enum { SCHEMA = 8 };
enum { MODEL_MAX = 256 << 20 };

bool situ__pt2_bad(const situ__pt2 *f, situ_status status, const char *fmt, ...) {
  char text[1024];
  va_list args;
  va_start(args, fmt);
  (void)situ__vformat(text, sizeof text, fmt, args);
  va_end(args);
  return situ__fail(status, situ__pt2_op, "%s: %s", f->path, text), false;
}

bool situ__pt2_no_memory(void) { return situ__fail(SITU_E_NOMEM, situ__pt2_op, "no memory for the program"), false; }

/* ---- entries ---- */

bool situ__pt2_json(const situ__pt2 *f, const char *name, situ__json_item **tree, char **text) {
  const situ__zip_entry *e = f->early ? situ__zip_find(&f->zip, name) : situ__zip_find_inside(&f->zip, name);
  situ__problem problem;
  if (!e) return situ__pt2_bad(f, SITU_E_FORMAT, "has no %s", name);
  *text = situ__zip_load(&f->source, e, MODEL_MAX);
  if (!*text) return false;
  *tree = situ__json_tree(*text, (size_t)e->bytes, &problem);
  return *tree || situ__pt2_bad(f, problem.status, "has a %s that %s", name, problem.text);
}

/* ---- small values ---- */

const char *situ__pt2_string(const situ__json_item *item) {
  return item && item->kind == SITU__JSON_STRING ? item->text : "";
}

bool situ__pt2_int(const situ__json_item *item, int64_t *out) {
  const situ__json_item *value = situ__json_get(item, "as_int");
  if (!value || value->kind != SITU__JSON_INTEGER) return false;
  *out = value->integer;
  return true;
}

situ_dtype situ__pt2_dtype(const situ__json_item *number) {
  static const situ_dtype dtypes[] = {
    [1] = SITU_U8,  [2] = SITU_I8,  [3] = SITU_I16, [4] = SITU_I32,   [5] = SITU_I64,
    [6] = SITU_F16, [7] = SITU_F32, [8] = SITU_F64, [12] = SITU_BOOL, [13] = SITU_BF16
  };
  const bool known = number && number->kind == SITU__JSON_INTEGER && number->integer >= 0 &&
                     number->integer < (int64_t)(sizeof dtypes / sizeof *dtypes);
  return known ? dtypes[number->integer] : SITU_DTYPE_DEFAULT;
}

const char *situ__pt2_dtype_name(const situ__json_item *number, char out[32]) {
  static const char *const names[] = { [1] = "uint8",
                                       [2] = "int8",
                                       [3] = "int16",
                                       [4] = "int32",
                                       [5] = "int64",
                                       [6] = "float16",
                                       [7] = "float32",
                                       [8] = "float64",
                                       [9] = "complex32",
                                       [10] = "complex64",
                                       [11] = "complex128",
                                       [12] = "bool",
                                       [13] = "bfloat16",
                                       [28] = "uint16",
                                       [29] = "float8_e4m3fn",
                                       [30] = "float8_e5m2",
                                       [31] = "float8_e4m3fnuz",
                                       [32] = "float8_e5m2fnuz",
                                       [33] = "float8_e8m0fnu",
                                       [34] = "uint32",
                                       [35] = "uint64" };
  const int64_t n = number && number->kind == SITU__JSON_INTEGER ? number->integer : 0;
  const char *name = n > 0 && n < (int64_t)(sizeof names / sizeof *names) ? names[n] : NULL;
  if (name) (void)snprintf(out, 32, "%s", name);
  else (void)snprintf(out, 32, "number %lld", (long long)n);
  return out;
}

/* ---- the archive ---- */

/* Early versions of torch.export.save (2.6 was seen) wrote a zip file whose entries are not in a directory. */
static const char early_model[] = "serialized_exported_program.json";

static bool check_kind(situ__pt2 *f) {
  f->early = situ__zip_find(&f->zip, early_model) != NULL;
  if (f->early) return true;
  if (f->zip.count == 0) return situ__pt2_bad(f, SITU_E_FORMAT, "is an empty archive");
  if (situ__zip_find_inside(&f->zip, "data.pkl"))
    return situ__pt2_bad(f, SITU_E_UNSUPPORTED,
                         "is of torch.save, and holds no program: load its tensors by situ_load");
  if (!situ__zip_has_text(&f->source, situ__zip_find_inside(&f->zip, "archive_format"), "pt2"))
    return situ__pt2_bad(f, SITU_E_FORMAT, "is a zip file, but not of torch.export.save, which writes one");
  return situ__zip_has_text(&f->source, situ__zip_find_inside(&f->zip, "byteorder"), "little") ||
         situ__pt2_bad(f, SITU_E_UNSUPPORTED, "does not say that its values are little-endian");
}

/* Only weights are mapped, and only if options->map asks for it. */
static bool open_archive(situ__pt2 *f) {
  situ__zip_source *s = &f->source;
  s->fd = situ__file_open(s->op, s->path, &s->bytes);
  if (s->fd < 0) return false;
  if (s->bytes == 0) return situ__pt2_bad(f, SITU_E_FORMAT, "is empty");
  if (!situ__zip_open(&f->zip, s) || !check_kind(f)) return false;
  return !f->options.map || (f->mapping = situ__mapping_new(s->op, s->path, s->fd, s->bytes));
}

static bool check_schema(const situ__pt2 *f, const situ__json_item *model) {
  const situ__json_item *major = situ__json_get(situ__json_get(model, "schema_version"), "major");
  if (!major || major->kind != SITU__JSON_INTEGER) return situ__pt2_bad(f, SITU_E_FORMAT, "has no schema version");
  return major->integer == SCHEMA || situ__pt2_bad(f, SITU_E_UNSUPPORTED, "is of schema %lld, and only %d is read",
                                                   (long long)major->integer, SCHEMA);
}

/* A batch norm counts its batches in training only, whatever mode it was exported in. */
static bool mark_counters(situ__program *p) {
  static const char name[] = "num_batches_tracked";
  bool *counter = situ__calloc((size_t)p->values + 1, sizeof *counter); /* of each value: it is one */
  if (!counter) return situ__pt2_no_memory();
  for (int32_t i = 0; i < p->parts; i++) {
    const size_t length = strlen(p->part[i].path), end = sizeof name - 1;
    counter[p->part[i].value] = length >= end && strcmp(p->part[i].path + length - end, name) == 0;
  }
  for (int32_t n = 0; n < p->nodes; n++) {
    const situ__program_node *node = &p->node[n];
    const situ__arg *self = node->arg;
    if (strcmp(node->row->target, "add_.Tensor") == 0 && self->kind == SITU__ARG_VALUE)
      p->node[n].counts = counter[self->integer];
  }
  situ__free(counter);
  return true;
}

static bool read_program(situ__pt2 *f, const situ__json_item *model) {
  static const char fix[] = "program.run_decompositions() before torch.export.save writes many calls by others";
  const situ__json_item *graph = situ__json_get(situ__json_get(model, "graph_module"), "graph");
  if (!graph) return situ__pt2_bad(f, SITU_E_FORMAT, "has no graph");
  if (!check_schema(f, model) || !situ__pt2_read_signature(f, model) ||
      !situ__pt2_read_nodes(f, graph, &f->values, false, 0) || !situ__lacks_check(&f->lacks, f->path, fix) ||
      !situ__pt2_apply_default_dtype(f) || !situ__pt2_read_results(f, model))
    return false;
  f->program->checks = getenv("SITU_CHECK_PROGRAMS") != NULL;
  if (!situ__program_find_last_uses(f->program)) return situ__pt2_no_memory();
  return mark_counters(f->program);
}

static situ_nn_module *read_module(situ__pt2 *f, const situ__json_item *model) {
  if (!read_program(f, model)) return NULL;
  const int32_t class = situ__names_get(&f->classes, "");
  situ__program *p = f->program;
  situ_nn_module *m = situ__program_module(f->program, class >= 0 ? f->class_names[class] : "");
  if (!m) return f->program = NULL, NULL;
  m->home = f->options.device;
  if (!situ__pt2_build(f, m, model) || !situ__program_check(situ__pt2_op, p, m, situ__pt2_takes_any_size(model)))
    m->broken = true;
  f->program = NULL;
  return situ_nn_done(m);
}

static void close_archive(situ__pt2 *f) {
  situ__names_free(&f->values);
  situ__names_free(&f->targets);
  situ__names_free(&f->classes);
  situ__names_free(&f->meta_places);
  situ__free(f->class_names);
  situ__lacks_free(&f->lacks);
  situ__program_free(f->program);
  situ__zip_free(&f->zip);
  situ__mapping_release(f->mapping);
  situ__file_close(f->source.fd);
}

situ_nn_module *situ__pt2_load(const char *path, const situ_load_options *options) {
  situ__pt2 f = { .path = path,
                  .source = { .op = situ__pt2_op, .path = path, .fd = -1 },
                  .within = "graph",
                  .told = situ_error() != SITU_OK };
  if (options) f.options = *options;
  situ__json_item *model = NULL;
  char *text = NULL;
  situ_nn_module *m = NULL;
  f.program = situ__program_new(path, f.options.max_iterations);
  if (f.program && open_archive(&f) && situ__pt2_json(&f, f.early ? early_model : "models/model.json", &model, &text))
    m = read_module(&f, model);
  situ__free(model);
  situ__free(text);
  close_archive(&f);
  return m;
}
