/* situ convert: reads tensors or a program, and writes them in another format. The names' endings say which.
   SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli.h"

/* Content of the file FROM: a program, or a dict of tensors. */
typedef struct content {
  situ_nn_module *program;
  situ_tree *tensors;
} content;

/* ---- readers --------------------------------------------------------------------------------- */

static bool read_tensors(const cli_options *options, content *out) {
  out->tensors = situ_load_weights(options->file, &(situ_load_options){ .map = true });
  return out->tensors != NULL;
}

/* A dict of one tensor, which is named as the file is. */
static bool read_npy(const cli_options *options, content *out) {
  const char *slash = strrchr(options->file, '/'), *base = slash ? slash + 1 : options->file;
  char name[256];
  const int length = (int)(strlen(base) - strlen(".npy"));
  snprintf(name, sizeof name, "%.*s", length, length ? base : "array");
  out->tensors = situ_tree_put(situ_tree_dict(), name, situ_tree_tensor(situ_npy_load(options->file, NULL)));
  return out->tensors != NULL;
}

static bool read_program(const cli_options *options, content *out) {
  out->program = situ_export_load(options->file, &(situ_load_options){ .map = true });
  return out->program != NULL;
}

static const struct reader {
  const char *ending;
  bool (*read)(const cli_options *options, content *out); /* false after recording an error */
} readers[] = {
  { ".safetensors", read_tensors }, { ".index.json", read_tensors }, { ".pt", read_tensors },
  { ".pth", read_tensors },         { ".pth.tar", read_tensors },    { ".bin", read_tensors },
  { ".ckpt", read_tensors },        { ".gguf", read_tensors },       { ".npy", read_npy },
  { ".pt2", read_program },         { ".onnx", read_program },
};

/* ---- writers --------------------------------------------------------------------------------- */

static int write_tensors(const cli_options *options, const content *from) {
  situ_tree *state = from->program ? situ_nn_state_dict(from->program) : NULL;
  const situ_tree *tree = from->program ? state : from->tensors;
  const bool saved = tree && situ_save(options->target, tree, NULL) == SITU_OK;
  situ_tree_free(state);
  return saved ? CLI_OK : cli_failed();
}

static int write_npy(const cli_options *options, const content *from) {
  if (from->program || situ_tree_count(from->tensors) != 1) {
    fprintf(stderr, "situ: %s holds one array, and %s has more\n", options->target, options->file);
    return CLI_FAILED;
  }
  return situ_npy_save(options->target, situ_tree_tensor_at(from->tensors, 0), NULL) == SITU_OK ? CLI_OK : cli_failed();
}

/* Writes a program that is traced at sizes around those of --shape, or the smallest. */
static int write_pt2(const cli_options *options, const content *from) {
  bool usage = false;
  situ_tree *inputs = cli_make_inputs(from->program, options, (situ_device){ .kind = SITU_CPU }, &usage);
  if (!inputs) return usage ? CLI_USAGE : CLI_FAILED;
  situ_nn_module *traced = cli_trace(situ_nn_eval(from->program), inputs);
  situ_tree_free(inputs);
  const bool saved = traced && situ_export_save(traced, options->target) == SITU_OK;
  situ_nn_free(traced);
  if (saved) return CLI_OK;
  return (void)cli_failed_with_list(), cli_tell_shape(from->program, options), CLI_FAILED;
}

/* In eval mode; free sizes stay free. */
static int write_onnx(const cli_options *options, const content *from) {
  const bool saved = situ_onnx_export(situ_nn_eval(from->program), options->target, NULL) == SITU_OK;
  return saved ? CLI_OK : cli_failed_with_list();
}

static const struct writer {
  const char *ending;
  bool program;                                                  /* it needs one */
  int (*write)(const cli_options *options, const content *from); /* returns an exit code */
} writers[] = {
  { ".safetensors", false, write_tensors },
  { ".npy", false, write_npy },
  { ".pt2", true, write_pt2 },
  { ".onnx", true, write_onnx },
};

/* ---- the command ----------------------------------------------------------------------------- */

static int refuse_ending(const char *path, const char *what, const char *endings) {
  char shown[CLI_SHOWN];
  fprintf(stderr, "situ: cannot %s '%s'; what can be is %s\n", what, cli_shown(path, strlen(path), shown), endings);
  return CLI_USAGE;
}

static int convert(const cli_options *options, const struct reader *reader, const struct writer *writer) {
  content from = { NULL, NULL };
  situ_scope scope;
  situ_scope_begin_no_grad(&scope);
  int result = reader->read(options, &from) ? CLI_OK : cli_failed_with_list();
  if (result == CLI_OK && writer->program && !from.program) {
    fprintf(stderr, "situ: %s has tensors, but no program, which %s needs\n", options->file, writer->ending);
    result = CLI_FAILED;
  }
  if (result == CLI_OK) result = writer->write(options, &from);
  situ_tree_free(from.tensors);
  situ_nn_free(from.program);
  if (situ_scope_end(&scope) != SITU_OK && result == CLI_OK) result = CLI_FAILED;
  return result;
}

/* left: the file that was read, if it may have more than was written; NULL: it has not. */
static void print_done(const cli_options *options, const situ_safetensors *left) {
  struct stat about;
  char bytes[32];
  const uint64_t size = stat(options->target, &about) == 0 ? (uint64_t)about.st_size : 0;
  if (options->json) {
    printf("{\"from\": ");
    cli_print_json(options->file);
    printf(", \"to\": ");
    cli_print_json(options->target);
    printf(", \"bytes\": %" PRIu64, size);
    cli_print_left(left, true);
    printf("}\n");
  } else {
    cli_print_left(left, false);
    cli_print_text(options->target, 0);
    printf(", %s\n", cli_bytes(size, bytes));
  }
}

int cli_convert(const cli_options *options) {
  const struct reader *reader = NULL;
  const struct writer *writer = NULL;
  for (size_t i = 0; i < sizeof readers / sizeof *readers && !reader; i++)
    if (cli_ends_with(options->file, readers[i].ending)) reader = &readers[i];
  for (size_t i = 0; i < sizeof writers / sizeof *writers && !writer; i++)
    if (cli_ends_with(options->target, writers[i].ending)) writer = &writers[i];
  if (!reader)
    return refuse_ending(options->file, "read",
                         ".safetensors, .index.json, .npy, .pt, .pth, .pth.tar, .bin, .ckpt, .gguf, .pt2, .onnx");
  if (!writer) return refuse_ending(options->target, "write", ".safetensors, .npy, .pt2, .onnx");
  if (options->shape.count && writer->write != write_pt2) {
    fprintf(stderr, "situ: --shape is for writing .pt2\n");
    return CLI_USAGE;
  }
  const int result = convert(options, reader, writer);
  if (result != CLI_OK) return result;
  situ_safetensors *left = reader->read == read_tensors ? situ_safetensors_open(options->file, NULL) : NULL;
  print_done(options, left);
  situ_safetensors_close(left);
  return CLI_OK;
}
