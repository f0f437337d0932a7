/* Addresses of the program as lines of its source, by libdw (elfutils): the only file that calls it.
   SPDX-License-Identifier: MIT */
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fork.h"
#include "base/library.h"
#include "base/mutex.h"
#include "device/device.h"

/* ---- libdw ---- */

typedef struct Dwfl Dwfl;
typedef struct Dwfl_Module Dwfl_Module;
typedef struct Dwfl_Line Dwfl_Line;
typedef struct Dwarf_Die Dwarf_Die;
typedef struct Dwarf_Line Dwarf_Line;
typedef uint64_t Dwarf_Addr;

/* Search functions of libdw, which it calls itself. */
typedef struct callbacks {
  void (*find_elf)(void), (*find_debuginfo)(void), (*section_address)(void);
  char **debuginfo_path;
} callbacks;

/* _(result, name, parameters) */
#define FUNCTIONS(_)                                                                                        \
  _(void, dwfl_linux_proc_find_elf, (void))                                                                 \
  _(void, dwfl_build_id_find_debuginfo, (void))                                                             \
  _(Dwfl *, dwfl_begin, (const callbacks *))                                                                \
  _(void, dwfl_end, (Dwfl *))                                                                               \
  _(int, dwfl_linux_proc_report, (Dwfl *, pid_t))                                                           \
  _(int, dwfl_report_end, (Dwfl *, void *, void *))                                                         \
  _(Dwfl_Module *, dwfl_addrmodule, (Dwfl *, Dwarf_Addr))                                                   \
  _(const char *, dwfl_module_addrname, (Dwfl_Module *, Dwarf_Addr))                                        \
  _(Dwfl_Line *, dwfl_module_getsrc, (Dwfl_Module *, Dwarf_Addr))                                           \
  _(const char *, dwfl_lineinfo, (Dwfl_Line *, Dwarf_Addr *, int *line, int *, Dwarf_Addr *, Dwarf_Addr *)) \
  _(Dwarf_Die *, dwfl_module_nextcu, (Dwfl_Module *, Dwarf_Die * last, Dwarf_Addr * bias))                  \
  _(int, dwarf_haspc, (Dwarf_Die *, Dwarf_Addr))                                                            \
  _(Dwarf_Line *, dwarf_getsrc_die, (Dwarf_Die *, Dwarf_Addr))                                              \
  _(int, dwarf_lineno, (Dwarf_Line *, int *line))                                                           \
  _(const char *, dwarf_linesrc, (Dwarf_Line *, uint64_t *, uint64_t *))

#define MEMBER(result, name, parameters) result(*name) parameters;
static struct { FUNCTIONS(MEMBER) } lib;
#define SYMBOL(result, name, parameters) { #name, &lib.name },
static const situ__symbol symbols[] = { FUNCTIONS(SYMBOL) };
static situ__library library = { .name = "libdw",
                                 .variable = "SITU_LIBDW",
                                 .package = "libdw1",
                                 .file = { "libdw.so.1" },
                                 .symbol = symbols,
                                 .symbols = sizeof symbols / sizeof *symbols };

/* ---- tables ---- */

typedef struct line {
  uintptr_t address;
  const char *path, *function; /* of the tables */
  int number;
} line;

static situ__mutex lock = SITU__MUTEX_INIT;
static Dwfl *tables;
static line seen[64]; /* Finding a function's name walks all symbols of the program: milliseconds in a large one. */

static void open_tables(void) {
  /* Searches debug information in the files themselves and under /usr/lib/debug, never on the network. */
  static callbacks search;
  search = (callbacks){ .find_elf = lib.dwfl_linux_proc_find_elf, .find_debuginfo = lib.dwfl_build_id_find_debuginfo };
  memset(seen, 0, sizeof seen);
  if (tables) lib.dwfl_end(tables);
  tables = lib.dwfl_begin(&search);
  if (!tables) return;
  if (lib.dwfl_linux_proc_report(tables, getpid()) == 0 && lib.dwfl_report_end(tables, NULL, NULL) == 0) return;
  lib.dwfl_end(tables);
  tables = NULL;
}

/* clang writes no .debug_aranges, in which libdw looks for an address's compilation unit. */
static void search_units(Dwfl_Module *module, line *l) {
  Dwarf_Addr bias = 0;
  for (Dwarf_Die *unit = NULL; !l->path && (unit = lib.dwfl_module_nextcu(module, unit, &bias));) {
    if (lib.dwarf_haspc(unit, l->address - bias) != 1) continue;
    Dwarf_Line *found = lib.dwarf_getsrc_die(unit, l->address - bias);
    if (found && lib.dwarf_lineno(found, &l->number) == 0) l->path = lib.dwarf_linesrc(found, NULL, NULL);
  }
}

/* Looks the address up in the tables; .path is NULL where they have no line for it. */
static void *find_line(void *payload) {
  line *l = payload;
  Dwfl_Module *module = tables ? lib.dwfl_addrmodule(tables, l->address) : NULL;
  if (!module) { /* first use, or a library loaded since */
    const uintptr_t address = l->address;
    open_tables();
    l->address = address;
    module = tables ? lib.dwfl_addrmodule(tables, l->address) : NULL;
  }
  if (!module) return NULL;
  Dwfl_Line *found = lib.dwfl_module_getsrc(module, l->address);
  if (found) l->path = lib.dwfl_lineinfo(found, NULL, &l->number, NULL, NULL, NULL);
  else search_units(module, l);
  l->function = lib.dwfl_module_addrname(module, l->address);
  return NULL;
}

/* ---- a thread of its own ---- */

enum { STACK = 1 << 20 };

/* libdw puts tables of lines on the stack, a quarter of a megabyte of some: more than the caller may have. */
static bool find_apart(line *l) {
  bool started = false;
  sigset_t all, before;
  pthread_attr_t how;
  pthread_t thread;
  if (pthread_attr_init(&how) != 0) return false;
  sigfillset(&all);
  (void)pthread_sigmask(SIG_SETMASK, &all, &before); /* the host's handlers do not run there */
  started = pthread_attr_setstacksize(&how, STACK) == 0 && pthread_create(&thread, &how, find_line, l) == 0;
  if (started) (void)pthread_join(thread, NULL);
  (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
  (void)pthread_attr_destroy(&how);
  return started;
}

/* Returns the path relative to the current directory, else its last component. */
static const char *short_path(const char *path) {
  char here[4096];
  size_t length = getcwd(here, sizeof here) ? strlen(here) : 0;
  if (*path != '/') return path;
  if (length > 1 && strncmp(path, here, length) == 0 && path[length] == '/') return path + length + 1;
  return strrchr(path, '/') + 1;
}

bool situ__line_text(const void *call, char *buffer, size_t size) {
  const uintptr_t address = (uintptr_t)call;
  int cancel;
  if (!situ__library_open(&library)) return false;
  (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel); /* files and the thread are where a thread can end */
  /* In a child process a thread of the parent may have the lock for ever: fall back to symbols. */
  if (!situ__forked()) situ__mutex_lock(&lock);
  else if (!situ__mutex_trylock(&lock)) return (void)pthread_setcancelstate(cancel, NULL), false;
  line *l = &seen[address % (sizeof seen / sizeof *seen)];
  if (l->address != address && !situ__forked()) { /* a child of threads starts none: malloc's locks may be theirs */
    *l = (line){ .address = address };
    if (!find_apart(l)) l->address = 0; /* asked again the next time */
  }
  const bool known = l->address == address && l->path;
  if (known)
    (void)snprintf(buffer, size, l->function ? "%s:%d in %s" : "%s:%d", short_path(l->path), l->number, l->function);
  (void)pthread_setcancelstate(cancel, NULL);
  situ__mutex_unlock(&lock);
  return known;
}
