/* Programs (.pt2, .onnx): opened without their weights, and the inputs that they take.
   SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <situ/place.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

bool cli_ends_with(const char *path, const char *ending) {
  const size_t length = strlen(path), wanted = strlen(ending);
  return length >= wanted && strcmp(path + length - wanted, ending) == 0;
}

/* A zip archive that is not named as a PyTorch checkpoint; or a message whose first field is ONNX's ir_version, and not
   the length of a safetensors header. */
bool cli_is_program(const char *path) {
  if (cli_ends_with(path, ".pt2") || cli_ends_with(path, ".onnx")) return true;
  unsigned char first[9] = { 0 };
  FILE *f = fopen(path, "rb");
  const size_t read = f ? fread(first, 1, sizeof first, f) : 0;
  if (f) fclose(f);
  if (read < sizeof first) return false;
  if (memcmp(first, "PK\3\4", 4) == 0) return !cli_ends_with(path, ".pt") && !cli_ends_with(path, ".pth");
  return first[0] == 8 && first[1] < 32 && first[8] != '{';
}

const char *cli_program_format(const char *path) {
  char first = 0;
  FILE *f = fopen(path, "rb");
  if (f) {
    (void)!fread(&first, 1, 1, f);
    fclose(f);
  }
  return first == 'P' ? "pt2" : "onnx";
}

situ_nn_module *cli_open_program(const char *path) {
  const situ_load_options options = { .device = { .kind = SITU_META }, .map = true };
  situ_nn_module *program = situ_export_load(path, &options);
  if (!program) (void)cli_failed_with_list();
  return program;
}

/* ---- inputs ---------------------------------------------------------------------------------- */

/* "batch", "12", "?" */
static void print_size(const situ_export_size *size) {
  if (size->size >= 0) printf("%" PRId64, size->size);
  else cli_print_text(*size->symbol ? size->symbol : "?", 0);
}

void cli_print_input(const situ_export_input *in) {
  printf("%s ", situ_dtype_name(in->dtype));
  if (in->ndim < 0) printf("of any shape");
  else putchar('[');
  for (int d = 0; d < in->ndim; d++) {
    if (d) printf(", ");
    print_size(&in->size[d]);
  }
  if (in->ndim >= 0) putchar(']');
  for (int d = 0; d < in->ndim; d++) {
    const situ_export_size *s = &in->size[d];
    if (s->size >= 0 || !*s->symbol || (s->least <= 0 && s->most == INT64_MAX && s->multiple == 1)) continue;
    printf("  ");
    print_size(s);
    if (s->most < INT64_MAX) printf(" in %" PRId64 "..%" PRId64, s->least, s->most);
    else if (s->least > 0) printf(" >= %" PRId64, s->least);
    if (s->multiple > 1) printf(" in steps of %" PRId64, s->multiple);
  }
}

static void print_size_json(const situ_export_size *s) {
  if (s->size >= 0) {
    printf("%" PRId64, s->size);
    return;
  }
  printf("{\"name\": ");
  cli_print_json(s->symbol);
  printf(", \"least\": %" PRId64 ", \"most\": ", s->least);
  if (s->most == INT64_MAX) printf("null");
  else printf("%" PRId64, s->most);
  if (s->multiple > 1) printf(", \"multiple\": %" PRId64, s->multiple);
  putchar('}');
}

void cli_print_inputs_json(const situ_nn_module *program) {
  situ_export_input in;
  putchar('[');
  for (int64_t i = 0; situ_export_input_at(program, i, &in); i++) {
    printf("%s{\"name\": ", i ? ", " : "");
    cli_print_json(in.name);
    printf(", \"dtype\": \"%s\", \"shape\": ", situ_dtype_name(in.dtype));
    if (in.ndim < 0) printf("null");
    else putchar('[');
    for (int d = 0; d < in.ndim; d++) {
      if (d) printf(", ");
      print_size_json(&in.size[d]);
    }
    printf("%s}", in.ndim < 0 ? "" : "]");
  }
  putchar(']');
}

int64_t cli_find_input(const situ_nn_module *program, const char *word, int64_t next, const char *option,
                       const char **value) {
  situ_export_input in;
  char shown[CLI_SHOWN];
  const char *equals = strchr(word, '=');
  const size_t length = equals ? (size_t)(equals - word) : 0;
  *value = equals ? equals + 1 : word;
  if (!equals && situ_export_input_at(program, next, &in)) return next;
  for (int64_t i = 0; equals && situ_export_input_at(program, i, &in); i++)
    if (strlen(in.name) == length && memcmp(in.name, word, length) == 0) return i;
  if (equals) fprintf(stderr, "situ: %s: the program has no input '%s'", option, cli_shown(word, length, shown));
  else fprintf(stderr, "situ: %s: '%s' is one too many", option, cli_shown(word, strlen(word), shown));
  fprintf(stderr, "; its inputs are");
  for (int64_t i = 0; situ_export_input_at(program, i, &in); i++)
    fprintf(stderr, "%s %s", i ? "," : "", cli_shown(in.name, strlen(in.name), shown));
  fputc('\n', stderr);
  return -1;
}

/* ---- inputs of zeros ------------------------------------------------------------------- */

/* Parses "8,128"; "" is a number's shape. */
static bool read_shape(const char *text, situ_shape *out) {
  *out = SITU_SCALAR;
  for (const char *at = text; *at;) {
    char *end;
    const bool digit = *at >= '0' && *at <= '9';
    const long long size = strtoll(at, &end, 10);
    if (!digit || out->ndim == SITU_MAX_DIMS || (*end && *end != ',') || (*end == ',' && !end[1]) ||
        size > INT64_MAX / 2)
      return false;
    out->dim[out->ndim++] = size;
    at = *end ? end + 1 : end;
  }
  return true;
}

/* The shape that --shape gives to input i. Returns false after printing an error. */
static bool choose_shape(const situ_nn_module *program, int64_t i, const cli_list *given, situ_shape *out,
                         bool *found) {
  *found = false;
  for (int k = 0; k < given->count; k++) {
    const char *value;
    const int64_t at = cli_find_input(program, given->item[k], k, "--shape", &value);
    if (at < 0) return false;
    if (at != i) continue;
    if (*found || !read_shape(value, out)) {
      char shown[CLI_SHOWN];
      fprintf(stderr, "situ: --shape: '%s' %s\n", cli_shown(given->item[k], strlen(given->item[k]), shown),
              *found ? "is a second shape of this input" : "is not NAME=SIZE,SIZE,... as in x=8,128");
      return false;
    }
    *found = true;
  }
  return true;
}

/* Whether a size is free, and not the first of several, which is most often a batch's. */
static bool varies(const situ_export_input *in, int d) { return in->size[d].size < 0 && (d || in->ndim == 1); }

/* The smallest shape of an input, or one whose varying sizes are about `wanted`. */
static situ_shape shape_of(const situ_export_input *in, int64_t wanted) {
  situ_shape shape = { .ndim = in->ndim < 0 ? 0 : in->ndim };
  for (int d = 0; d < shape.ndim; d++) {
    const situ_export_size *s = &in->size[d];
    const int64_t least = s->least > s->multiple ? s->least : s->multiple, size = wanted - wanted % s->multiple;
    shape.dim[d] = s->size >= 0 ? s->size : varies(in, d) && size > least && size <= s->most ? size : least;
  }
  return shape;
}

static situ_tensor *make_input(const situ_export_input *in, const situ_shape *given, situ_device device) {
  return situ_zeros(given ? *given : shape_of(in, 0), &(situ_options){ .dtype = in->dtype, .device = device });
}

situ_tree *cli_make_inputs(const situ_nn_module *program, const cli_options *options, situ_device device, bool *usage) {
  situ_tree *inputs = situ_tree_dict();
  situ_export_input in;
  *usage = false;
  for (int64_t i = 0; situ_export_input_at(program, i, &in); i++) {
    situ_shape shape;
    bool given;
    if (!choose_shape(program, i, &options->shape, &shape, &given)) {
      *usage = true;
      situ_tree_free(inputs);
      return NULL;
    }
    inputs = situ_tree_put(inputs, in.name, situ_tree_tensor(make_input(&in, given ? &shape : NULL, device)));
  }
  if (!inputs) (void)cli_failed();
  return inputs;
}

/* ---- a hint at --shape ---------------------------------------------------------------------- */

/* Whether the program runs, without values, on inputs whose free sizes are about `wanted`. */
static bool runs_at(situ_nn_module *program, int64_t wanted) {
  const situ_place_check_options check = { .device = { .kind = SITU_CPU }, .backward = SITU_PLACE_BACKWARD_NEVER };
  situ_tree *inputs = situ_tree_dict();
  situ_export_input in;
  situ_place_report report;
  for (int64_t i = 0; situ_export_input_at(program, i, &in); i++) {
    const situ_shape shape = shape_of(&in, wanted);
    inputs = situ_tree_put(inputs, in.name, situ_tree_tensor(make_input(&in, &shape, (situ_device){ SITU_META, 0 })));
  }
  bool good = inputs && situ_place_check(program, inputs, &check, &report) == SITU_OK;
  situ_tree_free(inputs);
  if (!good) return situ_error_clear(), false;
  for (int64_t i = 0; i < report.finding_count; i++)
    good = good && (report.findings[i].note || report.findings[i].problem == SITU_PLACE_VALUES);
  situ_place_report_free(&report);
  return good;
}

void cli_tell_shape(situ_nn_module *program, const cli_options *options) {
  static const int64_t sizes[] = { 32, 64, 128, 224, 256, 384, 512 };
  enum { SIZES = sizeof sizes / sizeof *sizes };
  situ_export_input in;
  char shown[CLI_SHOWN];
  bool free = false;
  int at = 0;
  for (int64_t i = 0; situ_export_input_at(program, i, &in); i++)
    for (int d = 0; d < in.ndim; d++) free = free || varies(&in, d);
  if (!free || options->shape.count || runs_at(program, 0)) return;
  while (at < SIZES && !runs_at(program, sizes[at])) at++;
  if (at < SIZES) fprintf(stderr, "situ: these are the smallest sizes that the file allows; it runs with");
  else
    fprintf(stderr, "situ: these are the smallest sizes that the file allows, and 32 to 512 fail, too; give others as");
  for (int64_t i = 0; situ_export_input_at(program, i, &in); i++) {
    const situ_shape shape = shape_of(&in, sizes[at < SIZES ? at : 0]);
    fprintf(stderr, " --shape %s=", cli_shown(in.name, strlen(in.name), shown));
    for (int d = 0; d < shape.ndim; d++) fprintf(stderr, "%s%" PRId64, d ? "," : "", shape.dim[d]);
  }
  fputc('\n', stderr);
}
