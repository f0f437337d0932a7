/* situ run: runs a program on arrays of .npy files, and writes its results as such.
   SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>
#include <situ/place.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "run.h"

/* ---- inputs ---------------------------------------------------------------------------------- */

/* The header of the file is compared with the input before values are read; a call compares the sizes. */
static bool fits_input(const situ_export_input *in, const char *path) {
  situ_file_entry entry;
  char shown[CLI_SHOWN], shape[200];
  if (situ_npy_info(path, &entry) != SITU_OK) return (void)cli_failed(), false;
  if (entry.dtype == in->dtype && (in->ndim < 0 || entry.shape.ndim == in->ndim)) return true;
  fprintf(stderr, "situ: %s is %s %s, but input %s is ", path, entry.type, cli_shape(&entry.shape, shape),
          cli_shown(in->name, strlen(in->name), shown));
  const char *name = situ_dtype_name(in->dtype);
  const char *kind = *name == 'f' ? "float" : *name == 'i' ? "int" : *name == 'u' ? "uint" : "";
  fprintf(stderr, "%s of %d dimensions", name, in->ndim);
  if (entry.dtype != in->dtype)
    fprintf(stderr, ": numpy.save(\"%s\", x.astype(\"%s%s\"))", path, kind, *kind ? name + 1 : name);
  fputc('\n', stderr);
  return false;
}

/* The files of the inputs, in the program's order. Returns CLI_OK, or another exit code after printing an error. */
static int find_files(const situ_nn_module *program, const cli_list *given, const char *file[CLI_LIST]) {
  situ_export_input in;
  char shown[CLI_SHOWN];
  int64_t position = 0;
  for (int k = 0; k < given->count; k++) {
    const char *value;
    const int64_t i = cli_find_input(program, given->item[k], position, "--input", &value);
    if (i < 0) return CLI_USAGE;
    position += !strchr(given->item[k], '=');
    if (i >= CLI_LIST || file[i] || !situ_export_input_at(program, i, &in)) {
      fprintf(stderr, "situ: --input: '%s' is given twice\n", cli_shown(given->item[k], strlen(given->item[k]), shown));
      return CLI_USAGE;
    }
    file[i] = value;
  }
  for (int64_t i = 0; situ_export_input_at(program, i, &in); i++) {
    if (i < CLI_LIST && file[i]) {
      if (!fits_input(&in, file[i])) return CLI_FAILED;
      continue;
    }
    fprintf(stderr, "situ: the program needs --input %s=FILE.npy\n", cli_shown(in.name, strlen(in.name), shown));
    return CLI_USAGE;
  }
  return CLI_OK;
}

static situ_tree *load_inputs(const situ_nn_module *program, const char *const *file, situ_device device) {
  situ_tree *inputs = situ_tree_dict();
  situ_export_input in;
  for (int64_t i = 0; situ_export_input_at(program, i, &in); i++)
    inputs = situ_tree_put(inputs, in.name,
                           situ_tree_tensor(situ_npy_load(file[i], &(situ_load_options){ .device = device })));
  return inputs;
}

/* ---- results --------------------------------------------------------------------------------- */

typedef struct writing {
  const situ_nn_module *program;
  const cli_options *options;
  int64_t count;
  bool failed;
} writing;

/* A name of the file becomes one of the directory: nothing in it leads elsewhere. */
static void file_name(const situ_nn_module *program, int64_t index, char out[NAME_SIZE]) {
  char name[NAME_SIZE - 32] = "";
  (void)situ_export_result_at(program, index, name, sizeof name);
  for (char *c = name; *c; c++) {
    const bool plain = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9');
    if (!plain && !strchr("._-", *c)) *c = '_';
  }
  if (*name == '.' || *name == '-') *name = '_';
  snprintf(out, NAME_SIZE, "%s.npy", *name ? name : "output");
}

/* Whether an earlier result has the same name in the directory. */
static bool is_taken(const situ_nn_module *program, int64_t index, const char *name) {
  char other[NAME_SIZE];
  for (int64_t i = 0; i < index; i++) {
    file_name(program, i, other);
    if (strcmp(name, other) == 0) return true;
  }
  return false;
}

/* A name that no result has, for one whose own is taken: "output_3.npy". Says so. */
static void rename_file(const situ_nn_module *program, int64_t index, const char *result, char name[NAME_SIZE]) {
  char own[NAME_SIZE];
  int64_t results = 0;
  snprintf(own, sizeof own, "%s", name);
  while (situ_export_result_at(program, results, NULL, 0) >= 0) results++;
  int64_t number = index; /* by so many results further, so that no two are given the same */
  do snprintf(name, NAME_SIZE, "output_%" PRId64 ".npy", number);
  while (is_taken(program, results, name) && (number += results));
  fprintf(stderr, "situ: result '%s' is named %s, since %s is another result's\n", result, name, own);
}

static situ_status write_result(const char *path, situ_tensor *t, void *payload) {
  writing *w = payload;
  const situ_shape shape = situ_shape_of(t);
  char name[NAME_SIZE], file[4096], text[200], result[256] = "";
  (void)path;
  (void)situ_export_result_at(w->program, w->count, result, sizeof result);
  file_name(w->program, w->count, name);
  const char *directory = w->options->output;
  if (directory && is_taken(w->program, w->count, name)) rename_file(w->program, w->count, result, name);
  const int length = snprintf(file, sizeof file, "%s/%s", directory ? directory : "", name);
  if (directory && length >= (int)sizeof file) {
    fprintf(stderr, "situ: --output: the path is too long\n");
    return w->failed = true, SITU_E_LIMIT;
  }
  if (directory && situ_npy_save(file, t, NULL) != SITU_OK) return w->failed = true, situ_error();
  if (w->options->json) {
    printf("%s{\"name\": ", w->count ? ", " : "");
    cli_print_json(result);
    printf(", \"dtype\": \"%s\", \"shape\": %s, \"file\": ", situ_dtype_name(situ_dtype_of(t)),
           cli_shape(&shape, text));
    if (directory) cli_print_json(file);
    else printf("null");
    printf("}");
  } else {
    cli_print_text(*result ? result : "output", 0);
    printf("  %s %s", situ_dtype_name(situ_dtype_of(t)), cli_shape(&shape, text));
    printf(directory ? "  -> %s\n" : "\n", file);
  }
  w->count++;
  return SITU_OK;
}

/* ---- the command ----------------------------------------------------------------------------- */

/* Peak bytes of this process; 0: unknown. */
static uint64_t peak_of_process(void) {
  struct rusage use;
  return getrusage(RUSAGE_SELF, &use) == 0 ? (uint64_t)use.ru_maxrss << 10 : 0;
}

static void print_costs(const run_costs *c, bool json) {
  char peak[32], reserved[32];
  situ_device_properties p = { 0 };
  char name[SITU_DEVICE_NAME_MAX];
  (void)!situ_device_info(c->device, &p);
  situ_device_name(c->device, name);
  if (json) {
    printf("],\n \"device\": \"%s\", \"load_seconds\": %.6f, \"run_seconds\": %.6f, \"peak_bytes\": %" PRIu64
           ", \"device_bytes\": %" PRIu64,
           name, c->load, c->run, peak_of_process(), p.memory_reserved);
    return;
  }
  printf("loaded in %.3f s, ran in %.3f s on %s; peak %s in this process, %s allocated on %s\n", c->load, c->run, name,
         cli_bytes(peak_of_process(), peak), cli_bytes(p.memory_reserved, reserved), name);
}

static bool make_directory(const char *path) {
  if (!path || mkdir(path, 0777) == 0 || errno == EEXIST) return true;
  fprintf(stderr, "situ: cannot make the directory %s: %s\n", path, strerror(errno));
  return false;
}

static int run_program(situ_nn_module *program, const situ_tree *inputs, const cli_options *options, run_costs *costs) {
  writing w = { .program = program, .options = options };
  const double began = run_seconds();
  situ_tree *out = situ_nn_call(program, inputs);
  if (!out || situ_synchronize(costs->device) != SITU_OK) return situ_tree_free(out), cli_failed();
  costs->run = run_seconds() - began;
  if (options->json) printf("{\"results\": [");
  const bool written = situ_tree_each(out, write_result, &w) == SITU_OK;
  situ_tree_free(out);
  if (!written) return situ_error() ? cli_failed() : CLI_FAILED;
  print_costs(costs, options->json);
  int result = options->bench ? run_bench(program, inputs, costs->device, options->json) : CLI_OK;
  if (result == CLI_OK && (options->profile || options->trace))
    result = run_profile(program, inputs, costs->device, options);
  if (options->json && result == CLI_OK) printf("}\n");
  return result;
}

static int run_on(situ_nn_module *program, const cli_options *options, run_costs *costs) {
  const char *file[CLI_LIST] = { NULL };
  int result = find_files(program, &options->input, file);
  if (result != CLI_OK) return result;
  if (!make_directory(options->output)) return CLI_FAILED;
  situ_scope scope;
  situ_scope_begin_no_grad(&scope);
  situ_tree *inputs = load_inputs(program, file, costs->device);
  result = inputs ? run_program(program, inputs, options, costs) : cli_failed();
  situ_tree_free(inputs);
  if (situ_scope_end(&scope) != SITU_OK && result == CLI_OK) result = cli_failed();
  return result;
}

/* Files of weights are told by their names; what else is not a program, the reader refuses. */
static bool has_program(const char *path) {
  static const char *const weights[] = { ".gguf", ".safetensors", ".index.json", ".pt", ".pth" };
  for (size_t i = 0; i < sizeof weights / sizeof *weights; i++) {
    if (!cli_ends_with(path, weights[i])) continue;
    fprintf(stderr,
            "situ: %s has weights, but no program to run: load it into a module of a C program, or run a .pt2 "
            "or .onnx file; inspect, plan and convert read it\n",
            path);
    return false;
  }
  return true;
}

int cli_run(const cli_options *options) {
  if (!has_program(options->file)) return CLI_FAILED;
  run_costs costs = { .device = { .kind = SITU_CPU } };
  const char *device = options->device;
  const bool by_id = device && strchr(device, '='); /* a UUID or PCI address of a device that is here */
  if (by_id && situ_device_parse(device, &costs.device) != SITU_OK) return cli_failed();
  if (device && !by_id &&
      (situ_place_device(device, &costs.device) != SITU_OK || costs.device.kind == SITU_META ||
       costs.device.kind == SITU_PLAN)) {
    fprintf(stderr, "situ: --device: '%s' is not a device that computes (cpu, cuda:0, opencl:1, sim:0)\n", device);
    return CLI_USAGE;
  }
  if (!situ_device_is_available(costs.device)) {
    fprintf(stderr, "situ: %s is not available: %s\n", device, situ_device_status(device));
    return CLI_FAILED;
  }
  const double began = run_seconds();
  situ_nn_module *program =
      situ_export_load(options->file, &(situ_load_options){ .device = costs.device, .map = true });
  if (!program) return cli_failed_with_list();
  situ_nn_eval(program);
  costs.load = run_seconds() - began;
  const int result = run_on(program, options, &costs);
  situ_nn_free(program);
  return result;
}
