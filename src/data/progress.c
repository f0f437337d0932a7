/* The progress bar.
   SPDX-License-Identifier: MIT */
#include "situ/progress.h"

#include <langinfo.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/format.h"

/* Seconds between redraws: enough for the eye, and slow terminals cannot do more. */
#define REDRAW 0.1

/* Returns the columns of the terminal behind stderr; 0 if it is not a terminal. COLUMNS overrides it, as in other
   programs. */
static int terminal_columns(void) {
  struct winsize size;
  if (!isatty(STDERR_FILENO)) return 0;
  const char *given = getenv("COLUMNS");
  long columns = given ? strtol(given, NULL, 10) : 0;
  if (columns <= 0 && ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0) columns = size.ws_col;
  return columns < 20 ? 80 : columns > 500 ? 500 : (int)columns;
}

/* The program sets the locale. If it has not done so, the environment still names it. */
static bool terminal_has_utf8(void) {
  const char *name = getenv("LC_ALL");
  if (!name || !*name) name = getenv("LC_CTYPE");
  if (!name || !*name) name = getenv("LANG");
  return strcmp(nl_langinfo(CODESET), "UTF-8") == 0 || (name && (strstr(name, "UTF-8") || strstr(name, "utf8")));
}

/* "4:07", "1:02:45"; "?" if unknown. */
static const char *clock_text(double seconds, char out[16]) {
  if (!(seconds >= 0 && seconds < 360000)) return "?";
  int s = (int)seconds;
  if (s < 3600) snprintf(out, 16, "%02d:%02d", s / 60, s % 60);
  else snprintf(out, 16, "%d:%02d:%02d", s / 3600, s / 60 % 60, s % 60);
  return out;
}

/* Writes the text after the bar: "34/56 [00:02<00:01, 15.9 it/s] loss 0.213". */
static void tail_text(const situ_progress *bar, double elapsed, char *out, size_t size) {
  char spent[16], left[16], count[48];
  double rate = elapsed > 0 ? (double)bar->done / elapsed : 0;
  double remaining = rate > 0 ? (double)(bar->total - bar->done) / rate : -1;
  bool slow = rate > 0 && rate < 1;
  if (bar->total > 0) snprintf(count, sizeof count, "%lld/%lld", (long long)bar->done, (long long)bar->total);
  else snprintf(count, sizeof count, "%lld", (long long)bar->done);
  situ__format(out, size, "%s [%s%s%s, %.3g %s%s%s]%s%s", count, clock_text(elapsed, spent), bar->total > 0 ? "<" : "",
               bar->total > 0 ? clock_text(remaining, left) : "", slow ? 1 / rate : rate, slow ? "s/" : "", bar->unit,
               slow ? "" : "/s", *bar->note ? " " : "", bar->note);
}

/* Returns the number of columns of a text: its UTF-8 characters. */
static int columns_of(const char *text) {
  int columns = 0;
  for (; *text; text++) columns += ((unsigned char)*text & 0xC0) != 0x80;
  return columns;
}

/* Truncates a text to so many columns: a line that wraps cannot be redrawn. */
static void truncate_text(char *text, int columns) {
  for (; *text; text++) {
    if (((unsigned char)*text & 0xC0) != 0x80 && columns-- <= 0) {
      *text = '\0';
      return;
    }
  }
}

/* Draws the bar, `width` columns wide, in eighths of a column if the terminal has UTF-8, else in tenths. */
static void draw_bar(const situ_progress *bar, int width, char *out) {
  static const char *const eighths[] = { " ", "▏", "▎", "▍", "▌", "▋", "▊", "▉", "█" };
  static const char *const tenths[] = { " ", "1", "2", "3", "4", "5", "6", "7", "8", "9", "#" };
  const char *const *part = bar->utf8 ? eighths : tenths;
  int parts = bar->utf8 ? 8 : 10;
  double share = (double)bar->done / (double)bar->total;
  int full = (int)(share * width * parts);
  for (int i = 0; i < width; i++) {
    int here = full - i * parts;
    const char *text = part[here < 0 ? 0 : here > parts ? parts : here];
    size_t length = strlen(text);
    memcpy(out, text, length);
    out += length;
  }
  *out = '\0';
}

static void draw_line(situ_progress *bar, bool last) {
  char tail[256], cells[60 * 3 + 1] = "", line[768];
  double time = situ__seconds();
  bar->drawn = time;
  tail_text(bar, time - bar->started, tail, sizeof tail);
  int percent = bar->total > 0 ? (int)(100 * ((double)bar->done / (double)bar->total)) : -1;
  const char *colon = *bar->label ? "  " : "";
  if (bar->columns == 0) {
    if (last) fprintf(stderr, "%s%s%s\n", bar->label, colon, tail);
    return;
  }
  /* Leave the last column free: some terminals wrap the line there. */
  int width = bar->columns - 1 - columns_of(bar->label) - (int)strlen(colon) - 7 - columns_of(tail);
  if (percent < 0 || width < 4) {
    truncate_text(tail, bar->columns - 1 - columns_of(bar->label) - (int)strlen(colon));
    snprintf(line, sizeof line, "%s%s%s", bar->label, colon, tail);
  } else {
    draw_bar(bar, width > 40 ? 40 : width, cells);
    snprintf(line, sizeof line, "%s%s%3d%%|%s%s%s| %s", bar->label, colon, percent, bar->color ? "\033[32m" : "", cells,
             bar->color ? "\033[0m" : "", tail);
  }
  /* \033[K clears the rest of a longer line. One write per line, so that lines of two threads do not mix. */
  fprintf(stderr, "\r%s\033[K%s", line, last ? "\n" : "");
  fflush(stderr);
}

void situ_progress_begin(situ_progress *bar, const char *label, int64_t total, const situ_progress_options *options) {
  if (!bar) return;
  *bar = (situ_progress){ .total = total, .quiet = options && options->quiet };
  snprintf(bar->label, sizeof bar->label, "%s", label ? label : "");
  snprintf(bar->unit, sizeof bar->unit, "%s", options && options->unit ? options->unit : "it");
  bar->started = situ__seconds();
  if (bar->quiet) return;
  const char *plain = getenv("NO_COLOR"), *terminal = getenv("TERM");
  bar->columns = terminal_columns();
  bar->utf8 = terminal_has_utf8();
  bar->color = !(plain && *plain) && !(terminal && strcmp(terminal, "dumb") == 0);
  draw_line(bar, false);
}

void situ_progress_add(situ_progress *bar, int64_t n) {
  if (!bar) return;
  bar->done += n;
  if (!bar->quiet && bar->columns && situ__seconds() - bar->drawn >= REDRAW) draw_line(bar, false);
}

void situ_progress_note(situ_progress *bar, const char *fmt, ...) {
  if (!bar || !fmt) return;
  va_list args;
  va_start(args, fmt);
  situ__vformat(bar->note, sizeof bar->note, fmt, args);
  va_end(args);
}

void situ_progress_end(situ_progress *bar) {
  if (bar && !bar->quiet) draw_line(bar, true);
}
