/* Output of the commands.
   SPDX-License-Identifier: MIT */
#include "cli.h"

#include <situ/error.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int cli_width(const char *text) {
  int columns = 0;
  for (; *text; text++) columns += ((unsigned char)*text & 0xC0) != 0x80;
  return columns;
}

void cli_print_text(const char *text, int width) {
  for (const char *c = text; *c; c++) {
    unsigned char byte = (unsigned char)*c;
    /* Text of a file must not control the terminal: C0, DEL, and C1 in its UTF-8 form. */
    bool c1 = byte == 0xC2 && (unsigned char)c[1] >= 0x80 && (unsigned char)c[1] < 0xA0;
    putchar(byte < 0x20 || byte == 0x7F || c1 ? '?' : *c);
    if (c1) c++;
  }
  int left = width - cli_width(text);
  printf("%*s", left > 0 ? left : 0, "");
}

const char *cli_shown(const char *text, size_t length, char out[CLI_SHOWN]) {
  size_t kept = length < 72 ? length : 72;
  /* Not in the middle of a character. */
  while (kept < length && kept > 0 && ((unsigned char)text[kept] & 0xC0) == 0x80) kept--;
  for (size_t i = 0; i < kept; i++) out[i] = (unsigned char)text[i] < 0x20 || text[i] == 0x7F ? '?' : text[i];
  snprintf(out + kept, CLI_SHOWN - kept, "%s", kept < length ? "..." : "");
  return out;
}

void cli_print_json(const char *text) {
  putchar('"');
  for (const char *c = text; *c; c++) {
    unsigned char byte = (unsigned char)*c;
    if (byte == '"' || byte == '\\') printf("\\%c", byte);
    else if (byte < 0x20 || byte == 0x7F) printf("\\u%04x", byte);
    else putchar(byte);
  }
  putchar('"');
}

void cli_print_left(const situ_safetensors *f, bool json) {
  enum { LINES = 20 };
  situ_metadata one;
  int64_t count = 0;
  for (; situ_safetensors_left_at(f, count, &one); count++) {
    if (!json && count >= LINES) continue;
    if (json) printf(count ? ", " : ",\n \"left\": {"), cli_print_json(one.key);
    else printf("left      "), cli_print_text(*one.key ? one.key : "(all)", 0);
    printf(": ");
    if (json) cli_print_json(one.value);
    else printf("%s\n", one.value);
  }
  if (json && count) putchar('}');
  if (!json && count > LINES) printf("left      and %lld more\n", (long long)(count - LINES));
}

static bool wants_colour(void) {
  const char *plain = getenv("NO_COLOR"), *terminal = getenv("TERM");
  return !(plain && *plain) && isatty(STDOUT_FILENO) && !(terminal && strcmp(terminal, "dumb") == 0);
}

void cli_print_heading(const char *line) {
  bool colour = wants_colour();
  printf("%s%s%s\n", colour ? "\033[1m" : "", line, colour ? "\033[0m" : "");
}

const char *cli_bytes(uint64_t bytes, char out[32]) {
  static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
  int unit = 0;
  double value = (double)bytes;
  for (; value >= 1024 && unit < 6; unit++) value /= 1024;
  snprintf(out, 32, unit ? "%.1f %s" : "%.0f %s", value, units[unit]);
  return out;
}

const char *cli_shape(const situ_shape *shape, char out[200]) {
  int length = snprintf(out, 200, "[");
  for (int i = 0; i < shape->ndim; i++)
    length += snprintf(out + length, (size_t)(200 - length), i ? ", %lld" : "%lld", (long long)shape->dim[i]);
  snprintf(out + length, (size_t)(200 - length), "]");
  return out;
}

void cli_print_error(const char *message, bool list) {
  static const char at[] = "   at ";
  for (const char *line = message, *next; *line; line = next) {
    const size_t length = strcspn(line, "\n"), begins = line == message ? 0 : 1;
    const char *cut = begins ? NULL : strstr(line, at);
    next = line + length + (line[length] == '\n');
    if (begins && (strncmp(line, at + 1, sizeof at - 2) == 0 || (!list && strncmp(line, "  in ", 5) != 0))) continue;
    if (!begins) fprintf(stderr, "situ: ");
    for (size_t i = 0; i < (cut && cut < line + length ? (size_t)(cut - line) : length); i++)
      fputc((unsigned char)line[i] < 0x20 ? '?' : line[i], stderr);
    fputc('\n', stderr);
  }
}

int cli_failed(void) { return cli_print_error(situ_error_message(), false), CLI_FAILED; }
int cli_failed_with_list(void) { return cli_print_error(situ_error_message(), true), CLI_FAILED; }

int cli_no_memory(void) {
  fprintf(stderr, "situ: no memory\n");
  return CLI_FAILED;
}
