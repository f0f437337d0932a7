/* Finds the CUDA toolkit's libraries and their functions at run time.
   SPDX-License-Identifier: MIT */
#include "backend/cuda/table.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

situ__cuda_table situ__cuda;

/* The loader's error is one line that contains the file's name. */
static void *open_in(const char *directory, const char *file, char *why, size_t size) {
  char path[4096];
  int length = snprintf(path, sizeof path, "%s%s%s", directory, *directory ? "/" : "", file);
  void *library = NULL;
  if (length > 0 && (size_t)length < sizeof path) library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library && !*why) {
    const char *said = dlerror();
    (void)snprintf(why, size, "%s", said ? said : "its path is too long");
  }
  return library;
}

/* A directory that the user set is not silently replaced by another one, so that errors in it show. Else tries the
   loader's own search, then the toolkit installer's directories. */
static void *open_library(const char *file, char *why, size_t size) {
  const char *stated = secure_getenv("SITU_CUDA_PATH");
  *why = 0;
  if (stated && *stated == '/') return open_in(stated, file, why, size);
  if (stated && *stated) {
    (void)snprintf(why, size, "SITU_CUDA_PATH is \"%.200s\", which is not an absolute directory", stated);
    return NULL;
  }
  static const char *const places[] = { "", "/usr/local/cuda/lib64", "/opt/cuda/lib64" };
  void *library = NULL;
  for (size_t k = 0; !library && k < sizeof places / sizeof *places; k++) library = open_in(places[k], file, why, size);
  const size_t length = strlen(why);
  if (!library) (void)snprintf(why + length, size - length, ", nor in %s and %s", places[1], places[2]);
  return library;
}

bool situ__cuda_bind(const char *file, const char *const *name, int count, void *table, char *why, size_t size) {
  void *library = open_library(file, why, size);
  if (!library) return false;
  for (int k = 0; k < count; k++) {
    if (dlsym(library, name[k])) continue;
    (void)snprintf(why, size, "%s has no %s", file, name[k]);
    (void)dlclose(library);
    return false;
  }
  for (int k = 0; k < count; k++) {
    void *function = dlsym(library, name[k]);
    memcpy((char *)table + (size_t)k * sizeof function, &function, sizeof function);
  }
  return true;
}

bool situ__cuda_open(char *why, size_t size) {
  static const char *const name[] = {
#define ROW(name) "cuda" #name,
    SITU__CUDART(ROW)
#undef ROW
  };
  enum { COUNT = sizeof name / sizeof *name };
  _Static_assert(sizeof name == sizeof situ__cuda, "a row is a pointer");
  char reason[256];
  if (!situ__cuda_bind("libcudart.so.13", name, COUNT, &situ__cuda, reason, sizeof reason)) {
    (void)snprintf(why, size,
                   "the CUDA runtime cannot be used: %s (install the CUDA 13 runtime, or set "
                   "SITU_CUDA_PATH to the directory that it is in)",
                   reason);
    return false;
  }
  return true;
}
