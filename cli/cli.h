/* The program `situ`: its commands and their output.
   SPDX-License-Identifier: MIT */
#ifndef SITU_CLI_CLI_H
#define SITU_CLI_CLI_H

#include <situ/device.h>
#include <situ/tensor.h>

/* Exit codes. */
enum { CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2 };

/* The options before and after a command. */
typedef struct cli_options {
  bool json, lenient, verify;
  const char *file; /* NULL: not given, as the next line */
  const char *memory, *tie, *svg;
} cli_options;

int cli_devices(const cli_options *options);
int cli_inspect(const cli_options *options);
int cli_plan(const cli_options *options);

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
/* A line of headings, in bold on a terminal with colours. */
void cli_print_heading(const char *line);
/* "4.9 KiB" */
const char *cli_bytes(uint64_t bytes, char out[32]);
/* "[64, 784]" */
const char *cli_shape(const situ_shape *shape, char out[200]);
/* Prints the first line of the library's error to stderr; returns CLI_FAILED. */
int cli_failed(void);

#endif
