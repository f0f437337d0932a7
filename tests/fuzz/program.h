/* Programs that lie in memory are loaded, run on inputs such as they ask for, traced and written.
   SPDX-License-Identifier: MIT */
#ifndef SITU_TESTS_FUZZ_PROGRAM_H
#define SITU_TESTS_FUZZ_PROGRAM_H

#include <stdio.h>

#include "memory_file.h"
#include "situ/situ.h"

typedef struct program_run {
  situ_load_options options;
  bool written; /* traced, and written in both formats */
} program_run;

/* How far the inputs got; said again and again if SITU_FUZZ_SAY is set, beside all errors. */
static struct { long tried, loaded, called, ran, traced, written; } program_counts;

static void program_say(void) {
  fprintf(stderr, "programs: %ld, loaded %ld, called %ld, ran %ld, traced %ld, written %ld\n", program_counts.tried,
          program_counts.loaded, program_counts.called, program_counts.ran, program_counts.traced,
          program_counts.written);
}

enum { PROGRAM_INPUT_MOST = 4096, PROGRAM_SIZE_MOST = 64, PROGRAM_DIMS = 32 };

/* The least size from 2 on, or -1 if that is not small. */
static int64_t program_size(const situ_export_size *s) {
  const int64_t least = s->least > 2 ? s->least : 2;
  if (s->size >= 0 || least > PROGRAM_SIZE_MOST || s->multiple > PROGRAM_SIZE_MOST || s->multiple < 1)
    return s->size > PROGRAM_SIZE_MOST ? -1 : s->size;
  return (least + s->multiple - 1) / s->multiple * s->multiple;
}

/* Small numbers, of which whole ones can be indices. NULL: it is not small. */
static situ_tensor *program_input(const situ_export_input *in, situ_device device) {
  static float value[PROGRAM_INPUT_MOST];
  situ_shape shape = { .ndim = in->ndim < 0 ? 1 : in->ndim, .dim = { 3 } };
  int64_t count = in->ndim < 0 ? 3 : 1;
  for (int d = 0; d < in->ndim; d++) {
    shape.dim[d] = program_size(&in->size[d]);
    if (shape.dim[d] < 0 || (count *= shape.dim[d]) > PROGRAM_INPUT_MOST) return NULL;
  }
  const bool real = situ_dtype_is_floating(in->dtype);
  for (int64_t i = 0; i < count; i++) value[i] = (float)((i * 7 + 3) % (real ? 11 : 3)) * (real ? 0.25f : 1) - real;
  situ_tensor *x = situ_from_host(value, (size_t)count * sizeof *value, shape, &(situ_options){ .dtype = SITU_F32 });
  return situ_to(situ_to_dtype(x, in->dtype), device);
}

/* NULL: there are none that are small. */
static situ_tree *program_inputs(const situ_nn_module *m, situ_device device) {
  situ_tree *in = situ_tree_list();
  situ_export_input about;
  for (int64_t i = 0; in && situ_export_input_at(m, i, &about); i++) {
    situ_tensor *x = program_input(&about, device);
    if (!x) return situ_tree_free(in), NULL;
    in = situ_tree_append(in, situ_tree_tensor(x));
  }
  return in;
}

/* What was written is read. */
static void program_read_again(void) {
  uint8_t *exact = malloc(memory_written_size + 1);
  if (exact && memory_written_size) memcpy(exact, memory_written, memory_written_size);
  memory_files(NULL, 0, exact, memory_written_size);
  situ_nn_module *m = situ_export_load("f", &(situ_load_options){ .device = { .kind = SITU_META } });
  if (!m && situ_error() == SITU_OK) abort();
  situ_nn_free(m);
  situ_error_clear();
  free(exact);
}

static void program_write(situ_nn_module *m, bool onnx) {
  memory_writes();
  const bool done = (onnx ? situ_onnx_export(m, "f", NULL) : situ_export_save(m, "f")) == SITU_OK;
  program_counts.written += done;
  if (done) program_read_again();
  situ_error_clear();
}

static void program_trace(situ_nn_module *m, const situ_tree *in) {
  situ_export_dim dims[PROGRAM_DIMS];
  situ_export_input about;
  int64_t count = 0;
  for (int64_t i = 0; situ_export_input_at(m, i, &about); i++)
    for (int d = 0; d < about.ndim; d++) {
      const situ_export_size *s = &about.size[d];
      if (s->size < 0 && count < PROGRAM_DIMS)
        dims[count++] = (situ_export_dim){ .input = about.name,
                                           .dim = d,
                                           .name = *s->symbol ? s->symbol : NULL,
                                           .least = s->least,
                                           .most = s->most < INT64_MAX ? s->most : 0,
                                           .multiple = s->multiple };
    }
  situ_nn_module *traced = count ? situ_export_dynamic(m, in, dims, count) : situ_export(m, in);
  if (!traced && situ_error() == SITU_OK) abort();
  situ_error_clear();
  program_counts.traced += traced != NULL;
  for (int onnx = 0; traced && onnx < 2; onnx++) program_write(traced, onnx);
  situ_nn_free(traced);
}

static void program_call(situ_nn_module *m, const program_run *run) {
  situ_scope scope; /* owns the results */
  situ_scope_begin(&scope);
  situ_tree *in = program_inputs(m, run->options.device);
  situ_error_clear();
  situ_tree *out = in ? situ_nn_call(m, in) : NULL;
  if (in && !out && situ_error() == SITU_OK) abort();
  program_counts.called += in != NULL;
  program_counts.ran += out != NULL;
  situ_tree_free(out);
  situ_error_clear();
  if (run->written && in) {
    program_write(m, true);
    program_trace(m, in);
  }
  situ_tree_free(in);
  situ_error_clear();
  SITU_IGNORE(situ_scope_end(&scope));
}

/* SITU_FUZZ_KIND: one of "meta", "cpu" and "written" alone. */
static bool program_wants(const char *kind) {
  const char *only = getenv("SITU_FUZZ_KIND");
  return !only || strcmp(only, kind) == 0;
}

static void program_load_once(const uint8_t *data, size_t size, program_run run) {
  const bool say = getenv("SITU_FUZZ_SAY") != NULL;
  if (!program_counts.tried++) {
    situ_error_mode(say ? SITU_ERROR_LOG : SITU_ERROR_QUIET);
    SITU_IGNORE(situ_set_memory_limit((situ_device){ .kind = SITU_CPU }, 8 << 20));
  }
  if (say && program_counts.tried % 1024 == 0) program_say();
  run.options.max_iterations = 50;
  const int64_t tensors = situ_live_tensors(), modules = situ_nn_live_modules();
  memory_files(NULL, 0, data, size);
  situ_nn_module *m = situ_export_load("f", &run.options);
  if (!m && situ_error() == SITU_OK) abort();
  situ_error_clear();
  program_counts.loaded += m != NULL;
  if (m) program_call(m, &run);
  situ_nn_free(m);
  situ_error_clear();
  if (situ_live_tensors() != tensors || situ_nn_live_modules() != modules) abort();
}

/* On meta, on the host, and there with all that can be done with it. */
static inline void program_load(const uint8_t *data, size_t size) {
  if (program_wants("meta"))
    program_load_once(data, size, (program_run){ .options = { .device = { .kind = SITU_META } } });
  if (program_wants("cpu")) program_load_once(data, size, (program_run){ .options = { .map = true } });
  if (program_wants("written")) program_load_once(data, size, (program_run){ .written = true });
}

#endif
