/* The program `situ`: lists devices and files of tensors, and plans the placement of files.
   SPDX-License-Identifier: MIT */
#include "cli.h"

#include <errno.h>
#include <situ/error.h>
#include <stdio.h>
#include <string.h>

static const char usage[] =
    "usage: situ COMMAND [OPTION]...\n"
    "\n"
    "  situ devices [--json]         list devices, and why others are not available\n"
    "  situ inspect FILE [OPTION]... list the tensors of a safetensors file, its index or a .npy file\n"
    "       --json                   print JSON\n"
    "       --verify                 read all values and compare the checksums\n"
    "       --lenient                accept bytes after the last tensor\n"
    "  situ plan FILE --memory LIST  assign its tensors to devices with limits:\n"
    "                                --memory cuda:0=8GiB,cpu=32GiB\n"
    "       --tie A=B,...            A is another name of tensor B, for a file with two copies\n"
    "       --svg OUT                draw the plan, too\n"
    "       --json                   print JSON\n"
    "  situ version                  print the version of the library\n"
    "  situ help                     print this text\n"
    "\n"
    "Exit status: 0 on success, 1 if a file or device is bad, 2 for wrong usage.\n"
    "No colours if NO_COLOR is set. More: man situ\n";

static int wrong(const char *what, const char *which) {
  fprintf(stderr, "situ: %s%s%s%s (try: situ help)\n", what, which ? " '" : "", which ? which : "", which ? "'" : "");
  return CLI_USAGE;
}

static int version(const cli_options *options) {
  (void)options;
  printf("situ %s\n", situ_version());
  return CLI_OK;
}

static int help(const cli_options *options) {
  (void)options;
  printf("%s", usage);
  return CLI_OK;
}

enum { JSON = 1, LENIENT = 2, VERIFY = 4, FILE_NAME = 8, PLAN = 16 };

static const struct command {
  const char *name, *alias;
  int (*run)(const cli_options *options);
  unsigned takes;
} commands[] = {
  { "devices", NULL, cli_devices, JSON },
  { "inspect", NULL, cli_inspect, JSON | LENIENT | VERIFY | FILE_NAME },
  { "plan", NULL, cli_plan, JSON | LENIENT | FILE_NAME | PLAN },
  { "version", "--version", version, 0 },
  { "help", "--help", help, 0 },
};
enum { COMMANDS = sizeof commands / sizeof *commands };

/* The target of an option of `plan`, "--svg x" or "--svg=x"; NULL: not one of its options. */
static const char **value_of(const char *word, cli_options *out) {
  size_t length = strcspn(word, "=");
  if (length == 8 && memcmp(word, "--memory", 8) == 0) return &out->memory;
  if (length == 5 && memcmp(word, "--tie", 5) == 0) return &out->tie;
  return length == 5 && memcmp(word, "--svg", 5) == 0 ? &out->svg : NULL;
}

/* After "--" everything is a file name. */
static int read_options(const struct command *command, int argc, char **argv, cli_options *out) {
  bool only_files = false;
  const char **value;
  for (int i = 0; i < argc; i++) {
    const char *word = argv[i];
    if (!only_files && strcmp(word, "--") == 0) only_files = true;
    else if (!only_files && command->takes & JSON && strcmp(word, "--json") == 0) out->json = true;
    else if (!only_files && command->takes & LENIENT && strcmp(word, "--lenient") == 0) out->lenient = true;
    else if (!only_files && command->takes & VERIFY && strcmp(word, "--verify") == 0) out->verify = true;
    else if (!only_files && command->takes & PLAN && (value = value_of(word, out))) {
      const char *equals = strchr(word, '=');
      *value = equals ? equals + 1 : i + 1 < argc ? argv[++i] : NULL;
      if (!*value) return wrong("missing value of", word);
    } else if (!only_files && word[0] == '-' && word[1]) return wrong("unknown option", word);
    else if (!(command->takes & FILE_NAME) || out->file) return wrong("too many arguments:", word);
    else out->file = word;
  }
  if (command->takes & FILE_NAME && !out->file) return wrong("missing FILE", NULL);
  if (command->takes & PLAN && !out->memory) return wrong("missing --memory", NULL);
  return CLI_OK;
}

int main(int argc, char **argv) {
  situ_error_mode(SITU_ERROR_QUIET);
  if (argc < 2) {
    fprintf(stderr, "%s", usage);
    return CLI_USAGE;
  }
  const struct command *command = NULL;
  for (int i = 0; i < COMMANDS; i++)
    if (strcmp(argv[1], commands[i].name) == 0 || (commands[i].alias && strcmp(argv[1], commands[i].alias) == 0))
      command = &commands[i];
  if (!command) return wrong("unknown command", argv[1]);
  cli_options options = { 0 };
  int result = read_options(command, argc - 2, argv + 2, &options);
  if (result != CLI_OK) return result;
  result = command->run(&options);
  /* A write error of stdout, such as a full disk, must fail. */
  if (fflush(stdout) != 0 || ferror(stdout)) {
    fprintf(stderr, "situ: cannot write: %s\n", strerror(errno));
    return CLI_FAILED;
  }
  return result;
}
