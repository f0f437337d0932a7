/* The program `situ`: its commands and their output.
   SPDX-License-Identifier: MIT */
#ifndef SITU_CLI_CLI_H
#define SITU_CLI_CLI_H

#include <situ/export.h>

/* Exit codes. */
enum { CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2 };

/* Values of an option that may be given several times. */
enum { CLI_LIST = 64 };
typedef struct cli_list {
  const char *item[CLI_LIST];
  int count;
} cli_list;

/* The options before and after a command. */
typedef struct cli_options {
  bool json, lenient, verify, bench, profile;
  const char *file, *target; /* NULL: not given, as the next lines */
  const char *memory, *devices, *tie, *svg, *output, *device, *trace;
  const char *html;
  char **program; /* doctor: the program and its arguments */
  cli_list input, shape;
} cli_options;

int cli_devices(const cli_options *options);
int cli_inspect(const cli_options *options);
int cli_plan(const cli_options *options);
int cli_run(const cli_options *options);
int cli_convert(const cli_options *options);
int cli_doctor(const cli_options *options);

/* ---- files ---- */

/* Whether the path ends with `ending`, such as ".onnx". */
bool cli_ends_with(const char *path, const char *ending);

/* ---- programs (program.c) ---- */

/* Whether situ_export_load reads the file, by its name and first bytes. */
bool cli_is_program(const char *path);
/* "pt2" or "onnx". */
const char *cli_program_format(const char *path);
/* Opens a program without reading a weight: all its tensors are on meta. NULL after printing an error. */
situ_nn_module *cli_open_program(const char *path);
/* "f32 [batch, 6]" */
void cli_print_input(const situ_export_input *in);
void cli_print_inputs_json(const situ_nn_module *program);
/* Zeros for a program's inputs, as a dict by name: free sizes are the smallest, or those of --shape. NULL after
   printing an error; *usage is set if an option is wrong. The caller frees the tree. */
situ_tree *cli_make_inputs(const situ_nn_module *program, const cli_options *options, situ_device device, bool *usage);
/* situ_export of a program at these inputs, a dict, with the program's free sizes free as far as that can be; says on
   stderr which are fixed, and why. NULL after recording an error. */
situ_nn_module *cli_trace(situ_nn_module *program, const situ_tree *inputs);
/* After a failure without --shape: says at which sizes the program runs, if it does not at the smallest. */
void cli_tell_shape(situ_nn_module *program, const cli_options *options);
/* The index of the input that "NAME=VALUE" names, and VALUE; a word without a name is for the place `next`. Returns -1
   after printing an error that lists the right names. */
int64_t cli_find_input(const situ_nn_module *program, const char *word, int64_t next, const char *option,
                       const char **value);
int cli_inspect_program(const cli_options *options);
int cli_plan_program(const cli_options *options);

/* ---- printing (print.c) ---- */

/* Width in terminal columns of a text printed by cli_print_text. */
int cli_width(const char *text);
/* Prints a text of a file, control characters as '?', padded with blanks to `width` columns.
   */
void cli_print_text(const char *text, int width);
/* At most 72 of the `length` bytes of a text, for a message; control characters as '?'. */
enum { CLI_SHOWN = 80 };
const char *cli_shown(const char *text, size_t length, char out[CLI_SHOWN]);
/* Prints it with JSON quotes and escapes. */
void cli_print_json(const char *text);
/* What situ_load_weights leaves of a file, and why: 20 lines at most, or a last member of a JSON object. */
void cli_print_left(const situ_safetensors *f, bool json);
/* A line of headings, in bold on a terminal with colours. */
void cli_print_heading(const char *line);
/* "4.9 KiB" */
const char *cli_bytes(uint64_t bytes, char out[32]);
/* "[64, 784]" */
const char *cli_shape(const situ_shape *shape, char out[200]);
/* Prints an error of the library to stderr, without the source lines of this program, "  at run.c:12 in run_on", which
   tell its user nothing. list: all other lines; else the first one, and those that say where in a file. */
void cli_print_error(const char *message, bool list);
/* Prints the thread's error so; returns CLI_FAILED. */
int cli_failed(void);
int cli_failed_with_list(void);
/* Prints "situ: no memory"; returns CLI_FAILED. */
int cli_no_memory(void);

#endif
