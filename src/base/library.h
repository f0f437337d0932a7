/* Libraries that a call opens when it first needs them (LAPACK, libpng ...): the program runs, and links, without them,
   and has its own copies of them, other versions included, beside these.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BASE_LIBRARY_H
#define SITU_BASE_LIBRARY_H

#include "base/problem.h"

/* A function of a library, and where its address goes. */
typedef struct situ__symbol {
  const char *name;
  void *to; /* a pointer to a function pointer */
} situ__symbol;

typedef struct situ__library {
  const char *name;           /* as messages say it */
  const char *variable;       /* the environment variable that names a file to open instead */
  const char *package;        /* Debian's */
  const char *file[4];        /* tried in turn */
  const situ__symbol *symbol; /* all must be there */
  int symbols;
  /* Sets up and tests what was opened: returns false with the reason in why. NULL: nothing to do. */
  bool (*accept)(void *handle, char *why, size_t size);
  int state; /* of situ__library_open */
  char why[512];
} situ__library;

/* Opens the library, or finds it open, and fills in its symbols. Returns false where none is there that will do; then
   .why says what was tried. Any number of threads may call it; after the first call it costs a load. */
bool situ__library_open(situ__library *library);
/* Returns false after setting the problem SITU_E_UNSUPPORTED, with what to install, if it cannot be opened. */
bool situ__library_need(situ__library *library, situ__problem *problem);

#endif
