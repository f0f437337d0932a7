/* situ inspect of a program: what it takes, gives, calls and holds. No weight is read.
   SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <situ/place.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

/* An operator, and how often it is called. */
typedef struct operator_count {
  const char *name;
  int64_t calls;
} operator_count;

static int by_name(const void *a, const void *b) {
  return strcmp(((const operator_count *)a)->name, ((const operator_count *)b)->name);
}

static int by_calls(const void *a, const void *b) {
  const operator_count *x = a, *y = b;
  return x->calls != y->calls ? (x->calls < y->calls) - (x->calls > y->calls) : by_name(a, b);
}

/* The operators, the most frequent first; the caller frees the list. NULL when memory runs out. */
static operator_count *count_operators(const situ_nn_module *program, int64_t *operators, int64_t *calls) {
  int64_t count = 0, kept = 0;
  const char *target;
  while (situ_export_target_at(program, count)) count++;
  operator_count *list = calloc((size_t)count + 1, sizeof *list);
  if (!list) return NULL;
  for (int64_t i = 0; (target = situ_export_target_at(program, i)); i++) list[i] = (operator_count){ target, 1 };
  qsort(list, (size_t)count, sizeof *list, by_name);
  for (int64_t i = 0; i < count; i++) {
    if (kept && strcmp(list[kept - 1].name, list[i].name) == 0) list[kept - 1].calls++;
    else list[kept++] = list[i];
  }
  qsort(list, (size_t)kept, sizeof *list, by_calls);
  *operators = kept;
  *calls = count;
  return list;
}

static void print_text(const situ_nn_module *program, const operator_count *list, int64_t operators, int64_t calls) {
  situ_export_input in;
  char name[256];
  int width = 4;
  for (int64_t i = 0; situ_export_input_at(program, i, &in); i++)
    width = cli_width(in.name) > width ? cli_width(in.name) : width;
  if (width > 80) width = 80;
  cli_print_heading("INPUTS");
  for (int64_t i = 0; situ_export_input_at(program, i, &in); i++) {
    printf("  ");
    cli_print_text(in.name, width);
    printf("  ");
    cli_print_input(&in);
    putchar('\n');
  }
  cli_print_heading("RESULTS");
  for (int64_t i = 0; situ_export_result_at(program, i, name, sizeof name) >= 0; i++) {
    printf("  ");
    cli_print_text(*name ? name : "(one tensor)", 0);
    putchar('\n');
  }
  printf("\n%" PRId64 " calls of %" PRId64 " operators\n", calls, operators);
  for (int64_t i = 0; i < operators; i++) {
    printf("  %6" PRId64 "  ", list[i].calls);
    cli_print_text(list[i].name, 0);
    putchar('\n');
  }
  putchar('\n');
}

static void print_json(const situ_nn_module *program, const operator_count *list, int64_t operators, int64_t calls) {
  char name[256];
  printf(",\n \"inputs\": ");
  cli_print_inputs_json(program);
  printf(",\n \"results\": [");
  for (int64_t i = 0; situ_export_result_at(program, i, name, sizeof name) >= 0; i++) {
    if (i) printf(", ");
    cli_print_json(name);
  }
  printf("],\n \"calls\": %" PRId64 ", \"operators\": {", calls);
  for (int64_t i = 0; i < operators; i++) {
    if (i) printf(", ");
    cli_print_json(list[i].name);
    printf(": %" PRId64, list[i].calls);
  }
  printf("}");
}

/* The tensors on meta, as a snapshot that the file's device is left out of: the tree, or JSON. */
static int print_tensors(situ_nn_module *program, const char *format, bool json) {
  if (json) {
    const int64_t length = situ_place_json(program, NULL, 0);
    char *text = length < 0 ? NULL : malloc((size_t)length + 1);
    if (length < 0) return cli_failed();
    if (!text || situ_place_json(program, text, (size_t)length + 1) < 0) return free(text), cli_no_memory();
    printf(",\n \"placement\": %s}\n", text);
    free(text);
    return CLI_OK;
  }
  situ_placement total;
  char bytes[32];
  if (situ_place_of(program, &total) != SITU_OK) return cli_failed();
  situ_place_print(program);
  printf("%s, %" PRId64 " parameters and %" PRId64 " buffers, %" PRId64 " elements in parameters, %s\n", format,
         total.parameters, total.buffers, situ_nn_num_parameters(program), cli_bytes(total.bytes, bytes));
  return CLI_OK;
}

/* Says in JSON why a file cannot be opened, which stderr says too. */
static void print_refusal_json(const char *format) {
  printf("{\"format\": \"%s\", \"error\": ", format);
  cli_print_json(situ_error_message());
  printf("}\n");
}

int cli_inspect_program(const cli_options *options) {
  if (options->verify || options->lenient) {
    fprintf(stderr, "situ: --verify and --lenient are for files of tensors, not for programs\n");
    return CLI_USAGE;
  }
  const char *format = cli_program_format(options->file);
  situ_nn_module *program = cli_open_program(options->file);
  if (!program && options->json) print_refusal_json(format);
  if (!program) return CLI_FAILED;
  int64_t operators, calls;
  operator_count *list = count_operators(program, &operators, &calls);
  int result = list ? CLI_OK : cli_no_memory();
  if (list && options->json) {
    printf("{\"format\": \"%s\"", format);
    print_json(program, list, operators, calls);
  } else if (list) print_text(program, list, operators, calls);
  if (list) result = print_tensors(program, format, options->json);
  free(list);
  situ_nn_free(program);
  return result;
}
