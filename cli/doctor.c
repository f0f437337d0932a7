/* situ doctor: runs a program with SITU_DOCTOR set, by which the library writes its pages, and tells how it ended.
   SPDX-License-Identifier: MIT */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli.h"

enum { PATH = 4096 };

/* Returns the whole file, to be freed; NULL: it cannot be read. */
static char *read_file(const char *path, size_t *size) {
  FILE *file = fopen(path, "rb");
  long end = file && fseek(file, 0, SEEK_END) == 0 ? ftell(file) : -1;
  char *text = end >= 0 && fseek(file, 0, SEEK_SET) == 0 ? malloc((size_t)end + 1) : NULL;
  if (text) text[ *size = fread(text, 1, (size_t)end, file)] = 0;
  if (file) fclose(file);
  return text;
}

/* ---- the program ---- */

/* Returns its status as waitpid does; -1: it could not be started. */
static int run_program(char **program, const char *page, pid_t *pid) {
  int status, reason = 0, ready[2];
  if (pipe(ready) != 0) return -1;
  fflush(NULL);
  *pid = fork();
  if (*pid == 0) {
    close(ready[0]);
    if (fcntl(ready[1], F_SETFD, FD_CLOEXEC) == 0 && setenv("SITU_DOCTOR", page, 1) == 0) execvp(*program, program);
    reason = errno;
    if (write(ready[1], &reason, sizeof reason) < 0) _exit(126);
    _exit(127);
  }
  close(ready[1]);
  const bool failed = *pid < 0 || read(ready[0], &reason, sizeof reason) == (ssize_t)sizeof reason;
  close(ready[0]);
  if (failed) fprintf(stderr, "situ: cannot run %s: %s\n", *program, strerror(*pid < 0 ? errno : reason));
  signal(SIGINT, SIG_IGN); /* it is the program's */
  while (*pid > 0 && waitpid(*pid, &status, 0) < 0)
    if (errno != EINTR) return -1;
  return failed ? -1 : status;
}

static void tell_end(int status, const char *name, bool complete, char *out, size_t size) {
  const char *rest = complete ? "" : "; it ran no exit handlers, so that its last moments are missing";
  if (WIFSIGNALED(status))
    snprintf(out, size, "%s was ended by signal %d (%s)%s", name, WTERMSIG(status), strsignal(WTERMSIG(status)), rest);
  else snprintf(out, size, "%s ended with status %d%s", name, WEXITSTATUS(status), rest);
}

/* ---- its pages ---- */

static void put_escaped(FILE *out, const char *text) {
  for (; *text; text++)
    if (*text == '&' || *text == '<') fprintf(out, "&#%d;", *text);
    else fputc(*text, out);
}

/* Copies a page, with how the program ended. Returns false after printing an error. */
static bool copy_page(const char *from, const char *to, const char *end) {
  static const char mark[] = "The program has not ended.";
  size_t size;
  char *text = read_file(from, &size), *at = text ? strstr(text, mark) : NULL;
  FILE *out = text ? fopen(to, "wb") : NULL;
  bool good = out != NULL;
  if (out) {
    const size_t before = at ? (size_t)(at - text) : 0, after = at ? before + sizeof mark - 1 : 0;
    fwrite(text, 1, before, out);
    if (at) put_escaped(out, end);
    fwrite(text + after, 1, size - after, out);
    good = fflush(out) == 0 && !ferror(out);
    good = fclose(out) == 0 && good;
  }
  if (!good) fprintf(stderr, "situ: cannot write %s: %s\n", to, strerror(errno));
  free(text);
  return good;
}

/* Takes the page of another process that the program has started. */
static void take_other(const char *directory, const char *name, const char *html) {
  char from[PATH], text_path[PATH + 8], to[PATH];
  size_t size;
  const size_t stem = strlen(html) - (cli_ends_with(html, ".html") ? 5 : 0);
  snprintf(from, sizeof from, "%s/%s", directory, name);
  snprintf(text_path, sizeof text_path, "%s.txt", from);
  snprintf(to, sizeof to, "%.*s.%s", (int)stem, html, name);
  char *text = read_file(text_path, &size);
  if (text && copy_page(from, to, "A process that the program has started."))
    printf("process %.*s: %.*s (%s)\n", (int)strcspn(name, "."), name, (int)strcspn(text, "\n"), text, to);
  free(text);
}

/* Takes all that is left in the directory, and removes it. */
static void clear(const char *directory, const char *own, const char *html) {
  DIR *list = opendir(directory);
  char path[PATH];
  const struct dirent *entry;
  while (list && (entry = readdir(list)))
    if (cli_ends_with(entry->d_name, ".html") && strcmp(entry->d_name, own) != 0)
      take_other(directory, entry->d_name, html);
  if (list) rewinddir(list);
  while (list && (entry = readdir(list))) {
    snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
    if (entry->d_name[0] != '.') remove(path);
  }
  if (list) closedir(list);
  rmdir(directory);
}

/* Prints the report of the process. Returns the exit code. */
static int report(const char *directory, pid_t pid, int status, const cli_options *options, const char *html) {
  char page[PATH], text_path[PATH + 8], end[PATH];
  size_t size;
  snprintf(page, sizeof page, "%s/%ld.html", directory, (long)pid);
  snprintf(text_path, sizeof text_path, "%s.txt", page);
  char *text = read_file(text_path, &size);
  tell_end(status, *options->program, !text || !strstr(text, "written while it ran"), end, sizeof end);
  printf("%s\n", end);
  if (!text) {
    fprintf(stderr,
            "situ: no report was written: %s is linked with a static libsitu, or does not use situ, or ended "
            "before it came to write one. Link it with the shared library to see it\n",
            *options->program);
    return CLI_FAILED;
  }
  fputs(text, stdout);
  const bool clean = status == 0 && strstr(text, ": 0 findings\n");
  free(text);
  if (!copy_page(page, html, end)) return CLI_FAILED;
  printf("\nthe page: %s\n", html);
  return clean ? CLI_OK : CLI_FAILED;
}

int cli_doctor(const cli_options *options) {
  const char *base = getenv("TMPDIR"), *html = options->html ? options->html : "situ-doctor.html";
  char directory[PATH / 2], page[PATH], own[64];
  pid_t pid = -1;
  snprintf(directory, sizeof directory, "%s/situ-doctor-XXXXXX", base && *base ? base : "/tmp");
  if (!mkdtemp(directory)) {
    fprintf(stderr, "situ: cannot make a directory %s: %s\n", directory, strerror(errno));
    return CLI_FAILED;
  }
  snprintf(page, sizeof page, "%s/%%p.html", directory);
  const int status = run_program(options->program, page, &pid);
  const int result = status == -1 ? CLI_FAILED : report(directory, pid, status, options, html);
  snprintf(own, sizeof own, "%ld.html", (long)pid);
  clear(directory, own, html);
  return result;
}
