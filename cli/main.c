/* The program `situ`: lists devices and files, plans the placement of files, runs programs and converts files.
   SPDX-License-Identifier: MIT */
#include "cli.h"

#include <errno.h>
#include <situ/error.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static int wrong(const char *what, const char *which) {
  fprintf(stderr, "situ: %s%s%s%s (try: situ help)\n", what, which ? " '" : "", which ? which : "", which ? "'" : "");
  return CLI_USAGE;
}

static int version(const cli_options *options) {
  (void)options;
  printf("situ %s\n", situ_version());
  return CLI_OK;
}

static int help(const cli_options *options);

enum { DEVICES = 1, INSPECT = 2, PLAN = 4, RUN = 8, CONVERT = 16, DOCTOR = 32 };

static const struct command {
  const char *name, *alias, *short_alias;
  int (*run)(const cli_options *options);
  unsigned bit; /* of it in an option's commands */
  const char *usage;
} commands[] = {
  { "devices", NULL, NULL, cli_devices, DEVICES,
    "  situ devices [--json]         list devices, and why others are not available\n" },
  { "inspect", NULL, NULL, cli_inspect, INSPECT,
    "  situ inspect FILE [OPTION]... list the tensors of a file of weights (safetensors, torch.save's, GGUF), an\n"
    "                                index or a .npy file, and what a file of torch.save has beside weights; the\n"
    "                                inputs, results, operators and tensors of a program (.pt2, .onnx)\n"
    "       --json                   print JSON\n"
    "       --verify                 read all values and compare the checksums\n"
    "       --lenient                accept bytes after the last tensor\n" },
  { "plan", NULL, NULL, cli_plan, PLAN,
    "  situ plan FILE --memory LIST  assign its tensors to devices with limits, or find the memory that a program\n"
    "                                needs:\n"
    "                                --memory cuda:0=8GiB,cpu=32GiB\n"
    "       --devices PROFILE        instead, or before these: devices plan:0, plan:1, ... that are not here, as in\n"
    "                                --devices \"2 x 24 GiB, no f64\"\n"
    "       --tie A=B,...            A is another name of tensor B, for a file with two copies\n"
    "       --svg OUT                draw the plan, too\n"
    "       --shape NAME=8,128       shape of a program's input; without it free sizes are the smallest\n"
    "       --lenient                accept bytes after the last tensor\n"
    "       --json                   print JSON\n" },
  { "run", NULL, NULL, cli_run, RUN,
    "  situ run MODEL [OPTION]...    run a program (.pt2, .onnx) on arrays of .npy files\n"
    "       --input NAME=FILE.npy    an input, by its name, or in the order of the program without NAME=\n"
    "       --output DIR             write each result to DIR/NAME.npy\n"
    "       --device DEVICE          compute there (cpu)\n"
    "       --bench                  measure the latency, too\n"
    "       --profile                tell the time of each op in a second run\n"
    "       --trace FILE.json        write that run as a trace, for chrome://tracing or ui.perfetto.dev\n"
    "       --json                   print JSON\n" },
  { "convert", NULL, NULL, cli_convert, CONVERT,
    "  situ convert FROM TO          write another format, by the names' endings\n"
    "       --shape NAME=8,128       as for plan, for a .pt2: free sizes are tried around these\n"
    "       --json                   print JSON\n" },
  { "doctor", NULL, NULL, cli_doctor, DOCTOR,
    "  situ doctor PROGRAM [ARGS]    run a program that uses situ, and report its copies, its wrong calls, parts that\n"
    "                                are not registered and memory that it does not use\n"
    "       --html OUT               the page to write (situ-doctor.html)\n" },
  { "version", "--version", "-V", version, 0, "  situ version                  print the version of the library\n" },
  { "help", "--help", "-h", help, 0,
    "  situ help                     print this text; situ COMMAND --help: that of one command\n" },
};
enum { COMMANDS = sizeof commands / sizeof *commands };

/* only: the command whose usage is printed; NULL: all of them. */
static void print_usage(FILE *out, const struct command *only) {
  fprintf(out, "usage: situ %s [OPTION]...\n\n", only ? only->name : "COMMAND");
  for (int i = 0; i < COMMANDS; i++)
    if (!only || only == &commands[i]) fputs(commands[i].usage, out);
  fputs("\nExit status: 0 on success, 1 if a file or device is bad, 2 for wrong usage.\n"
        "No colours if NO_COLOR is set. More: man situ\n",
        out);
}

static int help(const cli_options *options) {
  (void)options;
  print_usage(stdout, NULL);
  return CLI_OK;
}

static bool asks_for_help(const char *word) { return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0; }

/* Where the values of options are. */
typedef enum kind { FLAG, VALUE, LIST } kind;
static const struct option {
  const char *name;
  unsigned commands; /* that take it */
  kind kind;
  size_t offset; /* in cli_options: of a bool, a const char *, a cli_list */
} known_options[] = {
  { "--json", DEVICES | INSPECT | PLAN | RUN | CONVERT, FLAG, offsetof(cli_options, json) },
  { "--lenient", INSPECT | PLAN, FLAG, offsetof(cli_options, lenient) },
  { "--verify", INSPECT, FLAG, offsetof(cli_options, verify) },
  { "--bench", RUN, FLAG, offsetof(cli_options, bench) },
  { "--profile", RUN, FLAG, offsetof(cli_options, profile) },
  { "--memory", PLAN, VALUE, offsetof(cli_options, memory) },
  { "--devices", PLAN, VALUE, offsetof(cli_options, devices) },
  { "--tie", PLAN, VALUE, offsetof(cli_options, tie) },
  { "--svg", PLAN, VALUE, offsetof(cli_options, svg) },
  { "--html", DOCTOR, VALUE, offsetof(cli_options, html) },
  { "--output", RUN, VALUE, offsetof(cli_options, output) },
  { "--device", RUN, VALUE, offsetof(cli_options, device) },
  { "--trace", RUN, VALUE, offsetof(cli_options, trace) },
  { "--input", RUN, LIST, offsetof(cli_options, input) },
  { "--shape", PLAN | CONVERT, LIST, offsetof(cli_options, shape) },
};

/* The option of a word "--svg" or "--svg=x" that a command takes; NULL: it takes none of this name. */
static const struct option *option_of(const struct command *command, const char *word) {
  const size_t length = strcspn(word, "=");
  for (size_t i = 0; i < sizeof known_options / sizeof *known_options; i++) {
    const struct option *o = &known_options[i];
    if (!(o->commands & command->bit) || strlen(o->name) != length || memcmp(o->name, word, length) != 0) continue;
    return o->kind == FLAG && word[length] ? NULL : o;
  }
  return NULL;
}

/* Stores an option's value: what follows "=" in its word, or else the next word. Returns the number of words that it
   took; 0: one is missing, or there are too many. */
static int read_option(const struct option *o, int argc, char **argv, cli_options *out) {
  void *at = (char *)out + o->offset;
  if (o->kind == FLAG) return *(bool *)at = true, 1;
  const char *equals = strchr(argv[0], '=');
  const char *value = equals ? equals + 1 : argc > 1 ? argv[1] : NULL;
  if (!value) return 0;
  cli_list *list = at;
  if (o->kind == LIST && list->count == CLI_LIST) return 0;
  if (o->kind == LIST) list->item[list->count++] = value;
  else *(const char **)at = value;
  return equals ? 1 : 2;
}

static bool add_file(const struct command *command, const char *word, cli_options *out) {
  const bool one = command->bit & (INSPECT | PLAN | RUN | CONVERT);
  const char **file = !out->file ? &out->file : command->bit & CONVERT && !out->target ? &out->target : NULL;
  if (!one || !file) return false;
  *file = word;
  return true;
}

/* After "--" everything is a file name. */
static int read_options(const struct command *command, int argc, char **argv, cli_options *out) {
  bool only_files = false;
  for (int i = 0; i < argc; i++) {
    const char *word = argv[i];
    const struct option *o = only_files ? NULL : option_of(command, word);
    if (o) {
      const int words = read_option(o, argc - i, argv + i, out);
      if (!words) return wrong(o->kind == LIST ? "missing value, or too many, of" : "missing value of", word);
      i += words - 1;
    } else if (!only_files && strcmp(word, "--") == 0) only_files = true;
    else if (!only_files && word[0] == '-' && word[1]) return wrong("unknown option", word);
    else if (command->bit & DOCTOR) {
      out->program = argv + i; /* what follows is the program's */
      return CLI_OK;
    } else if (!add_file(command, word, out)) return wrong("too many arguments:", word);
  }
  if (command->bit & (INSPECT | PLAN) && !out->file) return wrong("missing FILE", NULL);
  if (command->bit & RUN && !out->file) return wrong("missing MODEL", NULL);
  if (command->bit & CONVERT && !out->target) return wrong(out->file ? "missing TO" : "missing FROM and TO", NULL);
  if (command->bit & DOCTOR) return wrong("missing PROGRAM", NULL);
  if (command->bit & PLAN && !out->memory && !out->devices) return wrong("missing --memory or --devices", NULL);
  return CLI_OK;
}

static bool is_named(const struct command *command, const char *word) {
  if (strcmp(word, command->name) == 0) return true;
  return command->alias && (strcmp(word, command->alias) == 0 || strcmp(word, command->short_alias) == 0);
}

/* What the command does with the words after it. */
static int run_command(const struct command *command, int argc, char **argv) {
  for (int i = 0; i < argc && strcmp(argv[i], "--") != 0 && !(command->bit & DOCTOR && *argv[i] != '-'); i++)
    if (asks_for_help(argv[i])) return print_usage(stdout, command), CLI_OK;
  cli_options options = { 0 };
  const int result = read_options(command, argc, argv, &options);
  return result == CLI_OK ? command->run(&options) : result;
}

int main(int argc, char **argv) {
  situ_error_mode(SITU_ERROR_QUIET);
  if (argc < 2) {
    print_usage(stderr, NULL);
    return CLI_USAGE;
  }
  const struct command *command = NULL;
  for (int i = 0; i < COMMANDS; i++)
    if (is_named(&commands[i], argv[1])) command = &commands[i];
  if (!command) return wrong("unknown command", argv[1]);
  const int result = run_command(command, argc - 2, argv + 2);
  /* A write error of stdout, such as a full disk, must fail. */
  if (fflush(stdout) != 0 || ferror(stdout)) {
    fprintf(stderr, "situ: cannot write: %s\n", strerror(errno));
    return CLI_FAILED;
  }
  return result;
}
