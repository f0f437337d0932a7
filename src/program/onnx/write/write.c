/* Writes a program and its weights to an ONNX model.
   SPDX-License-Identifier: MIT */
#include "write.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/file.h"
#include "base/handle.h"
#include "base/replace.h"
#include "program/graph/module.h"
#include "situ/export.h"
#include "situ/sys/shape.h"

static const char op[] = "onnx_export";

/* Fields of the messages in onnx.proto3. */
enum { MODEL_IR = 1, MODEL_PRODUCER = 2, MODEL_GRAPH = 7, MODEL_OPSET = 8, OPSET_VERSION = 2 };
enum { GRAPH_NAME = 2, GRAPH_INITIALISER = 5, GRAPH_INPUT = 11, GRAPH_OUTPUT = 12 };
enum { TENSOR_DIM = 1, TENSOR_DTYPE = 2, TENSOR_NAME = 8, TENSOR_RAW = 9, TENSOR_EXTERNAL = 13, TENSOR_LOCATION = 14 };
enum { OLDEST = 18, NEWEST = 23 };
/* protobuf's limit for a message is 2 GiB; the rest of the model is far smaller than the difference. */
static const uint64_t most_bytes = (UINT64_C(1) << 31) - (UINT64_C(64) << 20);
enum { ALIGNMENT = 4096 }; /* of external data, so that it can be mapped */

/* ---- names and weights ---- */

static bool is_tied(const situ__onnx_writer *w, int32_t v) {
  const situ__inferred *a = &w->about[v];
  const int32_t root = a->storage ? w->memories[w->memory[v]].root : v;
  const situ__inferred *b = &w->about[root];
  return root != v && a->offset == b->offset && situ_shape_equal(&a->size, &b->size) &&
         situ_shape_equal(&a->stride, &b->stride);
}

static bool name_values(situ__onnx_writer *w) {
  const situ__program *p = w->program;
  for (int32_t i = 0; i < p->parts; i++) {
    const int32_t v = p->part[i].value;
    w->name[v] = is_tied(w, v) ? w->name[w->memories[w->memory[v]].root] : situ__onnx_new_name(w, p->part[i].path);
    w->weight[i] = w->name[v]; /* a call in place gives v another name */
  }
  for (int32_t i = 0; i < p->inputs; i++)
    w->name[p->input[i].value] = w->input[i] = situ__onnx_new_name(w, p->input[i].name);
  for (int32_t i = 0; i < p->writes; i++)
    for (int32_t k = 0; k < p->parts; k++) w->written[k] |= p->part[k].value == p->write[i].to;
  return !w->failed;
}

static uint64_t bytes_of(const situ_tensor *t) { return (uint64_t)situ_numel(t) * situ_dtype_size(situ_dtype_of(t)); }

void situ__onnx_add_weight(situ__onnx_writer *w, situ_tensor *t, const char *name) {
  const uint64_t place = (w->weight_bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  w->weights[w->weight_count++] = (situ__onnx_weight){ t, name, bytes_of(t), place };
  w->weight_bytes = place + bytes_of(t);
}

/* The parts that the model reads. Returns false after recording an error. */
static bool list_weights(situ__onnx_writer *w) {
  const situ__program *p = w->program;
  for (int32_t i = 0; i < p->parts; i++) {
    const int32_t v = p->part[i].value;
    situ_tensor *t = situ_nn_get_tensor(w->module, p->part[i].path);
    if (!t) return false;
    if (w->used[v] && !is_tied(w, v)) situ__onnx_add_weight(w, t, w->weight[i]);
  }
  return true;
}

/* ---- inputs and outputs ---- */

/* The symbol of an input's size; the second run had another size for each. */
static const char *symbol_of(const situ__onnx_writer *w, int64_t other) {
  const situ__program *p = w->program;
  for (int32_t i = 0; i < p->inputs; i++)
    for (int d = 0; d < p->input[i].dims; d++)
      if (p->input[i].size[d].symbol >= 0 && w->about[p->input[i].value].other.dim[d] == other)
        return p->symbol[p->input[i].size[d].symbol].name;
  return NULL;
}

static void put_size(situ__onnx_writer *w, situ__protobuf_writer *shape, const char *name, const situ__inferred *about,
                     int d) {
  situ__protobuf_writer dim = { 0 };
  char unknown[200];
  const char *symbol = about->size.dim[d] < 0 ? symbol_of(w, about->other.dim[d]) : NULL;
  (void)snprintf(unknown, sizeof unknown, "%s_dim_%d", name, d);
  if (about->size.dim[d] >= 0) situ__protobuf_put_int(&dim, 1, about->size.dim[d]);
  else situ__protobuf_put_text(&dim, 2, symbol ? symbol : unknown);
  situ__protobuf_put_message(shape, 1, &dim);
  situ__protobuf_free(&dim);
}

void situ__onnx_put_value(situ__onnx_writer *w, situ__protobuf_writer *graph, uint32_t field, const char *name,
                          int32_t v) {
  const situ__inferred *about = &w->about[v];
  situ__protobuf_writer shape = { 0 }, tensor = { 0 }, type = { 0 }, value = { 0 };
  for (int d = 0; d < about->size.ndim; d++) put_size(w, &shape, name, about, d);
  situ__protobuf_put_int(&tensor, 1, situ__onnx_number_of(about->dtype));
  situ__protobuf_put_message(&tensor, 2, &shape);
  situ__protobuf_put_message(&type, 1, &tensor);
  situ__protobuf_put_text(&value, 1, name);
  situ__protobuf_put_message(&value, 2, &type);
  situ__protobuf_put_message(graph, field, &value);
  situ__protobuf_free(&shape);
  situ__protobuf_free(&tensor);
  situ__protobuf_free(&type);
  situ__protobuf_free(&value);
}

/* A graph's output must not be its input or weight, and must not have two names: each is a copy. */
static bool put_output(situ__onnx_writer *w, situ__protobuf_writer *graph, const char *stem, const situ__arg *leaf) {
  if (leaf->kind == SITU__ARG_NONE) return true;
  if (leaf->kind != SITU__ARG_VALUE || leaf->of != SITU__VALUE_TENSOR)
    return situ__fail(SITU_E_UNSUPPORTED, op, "result %s is a number, not a tensor", stem), false;
  const int32_t v = (int32_t)leaf->integer;
  const char *name = situ__onnx_new_name(w, stem), *from = situ__onnx_current(w, v);
  situ__protobuf_writer node = { 0 };
  if (name && !from && !w->lacks.count) situ__fail(SITU_E_UNSUPPORTED, op, "result %s has no form in ONNX", stem);
  if (!name || !from) return false;
  situ__protobuf_put_text(&node, 1, from);
  situ__protobuf_put_text(&node, 2, name);
  situ__protobuf_put_text(&node, 3, name);
  situ__protobuf_put_text(&node, 4, "Identity");
  situ__protobuf_put_message(&w->nodes, 1, &node);
  situ__protobuf_free(&node);
  situ__onnx_put_value(w, graph, GRAPH_OUTPUT, name, v);
  return true;
}

/* The results in their order: by the keys of dicts, else "output" with a number if there are several. */
static bool put_outputs(situ__onnx_writer *w, situ__protobuf_writer *graph) {
  const situ__program *p = w->program;
  int32_t leaves = 0, leaf = 0;
  char stem[32];
  for (int32_t i = 0; i < p->outs; i++) leaves += p->out[i].kind == SITU_TREE_TENSOR;
  for (int32_t i = 0; i < p->outs; i++) {
    const situ__program_out *o = &p->out[i];
    if (o->kind != SITU_TREE_TENSOR) continue;
    (void)snprintf(stem, sizeof stem, leaves > 1 ? "output_%d" : "output", (int)leaf++);
    if (!put_output(w, graph, o->key && *o->key ? o->key : stem, &o->leaf)) return false;
  }
  if (leaves > 0) return true;
  return situ__fail(SITU_E_UNSUPPORTED, op, "the program has no result"), false;
}

/* A buffer that is written is an input, whose default is its value, and one more result: its next value. */
static bool put_written(situ__onnx_writer *w, situ__protobuf_writer *graph) {
  const situ__program *p = w->program;
  char stem[160];
  for (int32_t i = 0; i < p->parts; i++) {
    situ__arg from = { .kind = SITU__ARG_VALUE, .of = SITU__VALUE_TENSOR, .integer = p->part[i].value };
    if (!w->written[i] || is_tied(w, p->part[i].value)) continue;
    for (int32_t k = 0; k < p->writes; k++)
      if (p->write[k].to == from.integer) from.integer = p->write[k].from;
    w->used[p->part[i].value] = true;
    situ__onnx_put_value(w, graph, GRAPH_INPUT, w->weight[i], p->part[i].value);
    (void)snprintf(stem, sizeof stem, "%.150s.next", p->part[i].path);
    if (!put_output(w, graph, stem, &from)) return false;
  }
  return true;
}

/* ---- the file ---- */

static void put_entry(situ__protobuf_writer *tensor, const char *key, const char *value) {
  situ__protobuf_writer entry = { 0 };
  situ__protobuf_put_text(&entry, 1, key);
  situ__protobuf_put_text(&entry, 2, value);
  situ__protobuf_put_message(tensor, TENSOR_EXTERNAL, &entry);
  situ__protobuf_free(&entry);
}

void situ__onnx_put_weight(situ__protobuf_writer *out, const situ__onnx_weight *k, const char *location) {
  situ__protobuf_writer tensor = { 0 };
  const situ_shape shape = situ_shape_of(k->tensor);
  char number[32];
  for (int d = 0; d < shape.ndim; d++) situ__protobuf_put_int(&tensor, TENSOR_DIM, shape.dim[d]);
  situ__protobuf_put_int(&tensor, TENSOR_DTYPE, situ__onnx_number_of(situ_dtype_of(k->tensor)));
  situ__protobuf_put_text(&tensor, TENSOR_NAME, k->name);
  if (location) {
    put_entry(&tensor, "location", location);
    (void)snprintf(number, sizeof number, "%" PRIu64, k->place);
    put_entry(&tensor, "offset", number);
    (void)snprintf(number, sizeof number, "%" PRIu64, k->bytes);
    put_entry(&tensor, "length", number);
    situ__protobuf_put_int(&tensor, TENSOR_LOCATION, 1);
  } else {
    situ__protobuf_put_length(&tensor, TENSOR_RAW, k->bytes);
  }
  situ__protobuf_put_length(out, GRAPH_INITIALISER, tensor.length + (location ? 0 : k->bytes));
  situ__protobuf_append(out, tensor.data, tensor.length);
  out->failed |= tensor.failed;
  situ__protobuf_free(&tensor);
}

static bool write_values(situ__replace *file, const situ__onnx_weight *k) {
  size_t bytes;
  void *values = situ__program_values(op, k->tensor, &bytes);
  const bool good = values && situ__replace_write(file, values, bytes) == SITU_OK;
  situ__free(values);
  return good;
}

static bool write_writer(situ__replace *file, const situ__protobuf_writer *w) {
  if (w->failed) return situ__no_memory(op, w->length), false;
  return w->length == 0 || situ__replace_write(file, w->data, w->length) == SITU_OK;
}

/* Weights as fields of their own: their values are not in memory twice. */
static bool write_weights(situ__replace *file, const situ__onnx_writer *w, const char *location) {
  bool good = true;
  for (int32_t i = 0; good && i < w->weight_count; i++) {
    situ__protobuf_writer head = { 0 };
    situ__onnx_put_weight(&head, &w->weights[i], location);
    good = write_writer(file, &head) && (location || write_values(file, &w->weights[i]));
    situ__protobuf_free(&head);
  }
  return good;
}

/* The fields of a new model but its graph. */
static void put_head(situ__onnx_writer *w) {
  static const int ir[] = { 8, 9, 9, 10, 10, 11 }; /* of opset 18, and so on */
  situ__protobuf_writer opset = { 0 };
  situ__protobuf_put_int(&opset, OPSET_VERSION, w->opset);
  situ__protobuf_put_int(&w->head, MODEL_IR, ir[w->opset - OLDEST]);
  situ__protobuf_put_text(&w->head, MODEL_PRODUCER, "situ");
  situ__protobuf_put_message(&w->head, MODEL_OPSET, &opset);
  situ__protobuf_free(&opset);
}

static bool write_model(situ__onnx_writer *w, situ__replace *file, const situ__protobuf_writer *graph,
                        const char *location) {
  uint64_t bytes = graph->length + w->nodes.length + w->constants.length;
  for (int32_t i = 0; i < w->weight_count; i++) {
    situ__protobuf_writer head = { 0 };
    situ__onnx_put_weight(&head, &w->weights[i], location);
    bytes += head.length + (location ? 0 : w->weights[i].bytes);
    const bool failed = head.failed;
    situ__protobuf_free(&head);
    if (failed) return situ__no_memory(op, (size_t)bytes), false;
  }
  if (bytes > most_bytes)
    return situ__fail(SITU_E_LIMIT, op, "the model without its weights is larger than 2 GiB, protobuf's limit"), false;
  situ__protobuf_writer begin = { 0 };
  situ__protobuf_put_length(&begin, MODEL_GRAPH, bytes);
  const bool good = write_writer(file, &w->head) && write_writer(file, &begin) && write_writer(file, &w->nodes) &&
                    write_writer(file, graph) && write_writer(file, &w->constants) && write_weights(file, w, location);
  situ__protobuf_free(&begin);
  return good;
}

static bool write_data(situ__replace *file, const situ__onnx_writer *w) {
  static const char zeros[ALIGNMENT];
  uint64_t at = 0;
  for (const situ__onnx_weight *k = w->weights; k < w->weights + w->weight_count; k++) {
    if (k->place > at && situ__replace_write(file, zeros, (size_t)(k->place - at)) != SITU_OK) return false;
    if (!write_values(file, k)) return false;
    at = k->place + k->bytes;
  }
  return true;
}

/* Writes a file of its own beside the model. */
static bool write_external(const situ__onnx_writer *w, const char *path) {
  situ__replace file;
  if (situ__replace_begin(&file, op, path, 0, true) != SITU_OK) return false;
  return situ__replace_end_if(&file, write_data(&file, w) && situ__still_unchanged(op, w->still), w->errors, NULL) ==
         SITU_OK;
}

/* Weights get a new file beside an old one, which goes when the new model is there: the old model must not be beside
   new weights if this ends in between. */
enum { DATA_NAMES = 8 };

/* "PATH.data", or "PATH.data.1" and so on. */
static void put_data_name(situ__text *name, const char *path, int k) {
  name->length = 0;
  situ__text_add(name, k ? "%s.data.%d" : "%s.data", path, k);
}

/* Names a file that is not there. Returns its number; -1 after recording an error. */
static int choose_data_name(const char *path, situ__text *name) {
  struct stat about;
  for (int k = 0; k < DATA_NAMES; k++) {
    put_data_name(name, path, k);
    if (name->failed) return situ__no_memory(op, strlen(path)), -1;
    if (situ__sys.fstatat(AT_FDCWD, name->data, &about, AT_SYMLINK_NOFOLLOW) == 0) continue;
    if (errno == ENOENT) return k;
    return situ__fail(SITU_E_IO, op, "%s: its attributes cannot be read: %s", name->data, strerror(errno)), -1;
  }
  return situ__fail(SITU_E_IO, op, "%s: all names of external data are in use; remove old ones", name->data), -1;
}

static void remove_other_data(const char *path, situ__text *name, int kept) {
  for (int k = 0; k < DATA_NAMES; k++) {
    if (k == kept) continue;
    put_data_name(name, path, k);
    if (!name->failed) SITU_IGNORE(situ__sys.unlinkat(AT_FDCWD, name->data, 0));
  }
}

/* location: of external data, or NULL. w->replaced tells whether the model is in place, also after an error. */
static bool write_model_file(situ__onnx_writer *w, const situ__protobuf_writer *graph, const char *path,
                             const char *location) {
  situ__replace file;
  w->replaced = false;
  if (situ__replace_begin(&file, op, path, 0, true) != SITU_OK) return false;
  const bool good = write_model(w, &file, graph, location) && situ__still_unchanged(op, w->still);
  return situ__replace_end_if(&file, good, w->errors, &w->replaced) == SITU_OK;
}

static bool write_apart(situ__onnx_writer *w, const situ__protobuf_writer *graph, const char *path) {
  situ__text data = { 0 };
  const int number = choose_data_name(path, &data);
  const char *slash = number < 0 ? NULL : strrchr(data.data, '/');
  bool good = number >= 0 && write_external(w, data.data);
  if (good) {
    good = write_model_file(w, graph, path, slash ? slash + 1 : data.data);
    if (good) remove_other_data(path, &data, number);
    else if (!w->replaced) SITU_IGNORE(situ__sys.unlinkat(AT_FDCWD, data.data, 0));
  }
  situ__text_free(&data);
  return good;
}

/* ---- the call ---- */

static bool explain(const situ__onnx_writer *w) {
  if (w->lacks.count)
    return situ__fail(SITU_E_UNSUPPORTED, op, "%d calls have no form in ONNX: %s%s", w->lacks.count,
                      w->lacks.targets.data ? w->lacks.targets.data : "", w->lacks.list.data ? w->lacks.list.data : ""),
           false;
  if (w->failed) return situ__no_memory(op, sizeof *w), false;
  return false;
}

static bool take_memory(situ__onnx_writer *w) {
  const size_t values = (size_t)w->program->values + 3;
  w->about = situ__arena_take(&w->arena, values, sizeof *w->about);
  w->name = situ__arena_take(&w->arena, values, sizeof *w->name);
  w->version = situ__arena_take(&w->arena, values, sizeof *w->version);
  w->memory = situ__arena_take(&w->arena, values, sizeof *w->memory);
  w->maker = situ__arena_take(&w->arena, values, sizeof *w->maker);
  w->place = situ__arena_take(&w->arena, values, sizeof *w->place);
  w->integers = situ__arena_take(&w->arena, values, sizeof *w->integers);
  w->used = situ__arena_take(&w->arena, values, sizeof *w->used);
  w->weight = situ__arena_take(&w->arena, (size_t)w->program->parts + 1, sizeof *w->weight);
  w->input = situ__arena_take(&w->arena, (size_t)w->program->inputs + 1, sizeof *w->input);
  w->written = situ__arena_take(&w->arena, (size_t)w->program->parts + 1, sizeof *w->written);
  w->failed = !w->input || !w->written || !w->maker || !w->place || !w->weight || !w->about || !w->name ||
              !w->version || !w->memory || !w->integers || !w->used;
  return !w->failed;
}

/* The graph of a program of ATen's calls. */
static bool put_graph(situ__onnx_writer *w, situ__protobuf_writer *graph) {
  const situ__program *p = w->program;
  if (!take_memory(w)) return false;
  if (!situ__program_infer(op, p, w->module, w->about)) return false;
  w->about[p->values].dtype = SITU_I64;
  w->about[p->values + 1].dtype = SITU_BOOL;
  for (int32_t v = 0; v < p->values; v++) w->integers[v].integer = w->about[v].integer;
  if (!situ__onnx_find_memory(w) || !name_values(w) || !situ__onnx_write_nodes(w)) return false;
  put_head(w);
  situ__protobuf_put_text(graph, GRAPH_NAME, w->module->type->name);
  for (int32_t i = 0; i < p->inputs; i++) situ__onnx_put_value(w, graph, GRAPH_INPUT, w->input[i], p->input[i].value);
  return put_outputs(w, graph) && put_written(w, graph) && list_weights(w);
}

static bool write_program(situ__onnx_writer *w, const char *path, bool external) {
  situ__protobuf_writer graph = { 0 };
  w->weights = situ__arena_take(&w->arena, (size_t)w->program->parts + 1, sizeof *w->weights);
  w->failed = !w->weights;
  bool good = !w->failed && (w->program->model ? situ__onnx_put_again : put_graph)(w, &graph);
  w->failed |= graph.failed | w->head.failed | w->nodes.failed | w->constants.failed;
  good = (good && !w->failed) || explain(w);
  if (good && (external || w->weight_bytes > most_bytes)) good = write_apart(w, &graph, path);
  else good = good && write_model_file(w, &graph, path, NULL);
  situ__protobuf_free(&graph);
  return good;
}

static bool check_opset(const situ__program *p, int opset) {
  if (p->opset && !p->model)
    return situ__fail(SITU_E_UNSUPPORTED, op, "%s: has a tensor or a branch that could not be kept", p->path), false;
  if (opset && p->opset && opset != p->opset)
    return situ__fail(SITU_E_ARG, op, "opset is %d, and %s is of %d, which it stays", opset, p->path, p->opset), false;
  if (opset && !p->opset && (opset < OLDEST || opset > NEWEST))
    return situ__fail(SITU_E_ARG, op, "opset is %d, must be %d..%d", opset, OLDEST, NEWEST), false;
  return true;
}

situ_status situ_onnx_export(situ_nn_module *program, const char *path, const situ_onnx_export_options *options) {
  const situ_onnx_export_options none = { 0 }, *o = options ? options : &none;
  if (!situ__valid(op, "program", program, SITU__A_MODULE) || !situ__given(op, "path", path)) return situ_error();
  const situ__program *p = situ__program_of(program);
  if (!p)
    return situ__fail(SITU_E_STATE, op, "%s: not a program; make one of it with situ_export", program->type->name);
  if (!check_opset(p, o->opset)) return situ_error();
  situ__onnx_writer w = { .op = op, .program = p, .module = program, .errors = situ__error_count() };
  w.opset = o->opset ? o->opset : OLDEST;
  situ_scope scope;
  situ_scope_begin_no_grad(&scope);
  situ__still still = { 0 };
  w.still = &still;
  const bool good = situ__program_hold(op, &still, program) && write_program(&w, path, o->external_data);
  situ__still_end(&still);
  situ__names_free(&w.names);
  situ__arena_free(&w.arena);
  situ__protobuf_free(&w.head);
  situ__protobuf_free(&w.nodes);
  situ__protobuf_free(&w.constants);
  situ__lacks_free(&w.lacks);
  const situ_status ended = situ_scope_end(&scope);
  return good ? ended : situ_error();
}
