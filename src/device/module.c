/* Backends in files of their own, opened at run time: the core needs no SDK, and no GPU, to be
   built or to run.
   SPDX-License-Identifier: MIT */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/fork.h"
#include "base/pool.h"
#include "base/text.h"
#include "device/depot.h"
#include "situ/sys/module.h"

/* Counted by the size of the block, which is all that a module knows when it gives it back. */
static void *take(const char *op, situ_device device, size_t bytes) {
  size_t size = bytes;
  void *memory = NULL;
  if (bytes <= SITU__BLOCK_LARGEST) (void)situ__block_number(bytes, &size);
  return situ__memory_alloc(op, device, size, &memory) == SITU_OK ? memory : NULL;
}

/* What a module may call. Its objects are caches: memory for them is not refused by tests. */
static situ_status reference(const situ_work *work) {
  const situ_backend *cpu = situ__backend((situ_device){ SITU_CPU, 0 });
  return cpu->kernel[work->verb] ? cpu->kernel[work->verb](0, work) : SITU_E_UNSUPPORTED;
}

static const situ_host host = {
  .abi = SITU_BACKEND_ABI,
  .size = sizeof host,
  .fail = situ__fail,
  .verb_name = situ__verb_name,
  .alloc = situ__alloc_uncounted,
  .free = situ__free,
  .take = take,
  .give = situ__memory_free,
  .parallel = situ__parallel,
  .fork_guard = situ__fork_guard,
  .matmul_precision = situ_get_float32_matmul_precision,
  .reference = reference,
};

/* The module's path. Found from where this library lies, so that no other directory can slip one
   in. */
static void path_of(const char *name, situ__text *path) {
  const char *directory = secure_getenv("SITU_MODULE_DIR");
  Dl_info self;
  if (directory && *directory == '/') {
    situ__text_add(path, "%s/libsitu-%s.so", directory, name);
  } else if (dladdr((void *)(uintptr_t)situ__module_open, &self) && self.dli_fname &&
             *self.dli_fname == '/') {
    int length = (int)(strrchr(self.dli_fname, '/') - self.dli_fname);
    situ__text_add(path, "%.*s/situ/%d/libsitu-%s.so", length, self.dli_fname, SITU_VERSION_MAJOR,
                   name);
  }
}

static const situ_backend *open_file(const char *path, const char *name, situ_device_kind kind,
                                     char *why, size_t size) {
  void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!module) {
    (void)snprintf(why, size, "the %s module cannot be opened: %s", name, dlerror());
    return NULL;
  }
  const situ_backend *backend = dlsym(module, "situ_module_backend");
  bool (*start)(const situ_host *);
  *(void **)&start = dlsym(module, "situ_module_start");
  if (backend && backend->abi == SITU_BACKEND_ABI && backend->size == sizeof *backend &&
      backend->kind == kind && (!start || start(&host))) {
    situ__site_add_module(backend);
    return backend;
  }
  (void)snprintf(
      why, size,
      backend ? "%s was made for another version of situ" : "%s has no situ_module_backend", path);
  (void)dlclose(module);
  return NULL;
}

const situ_backend *situ__module_open(const char *name, situ_device_kind kind, char *why,
                                      size_t size) {
  situ__text path = { 0 };
  path_of(name, &path);
  const situ_backend *backend = NULL;
  if (!path.data || path.failed) {
    (void)snprintf(why, size,
                   "no %s module was looked for: this library's own directory is not known", name);
  } else if (access(path.data, F_OK) != 0) {
    (void)snprintf(why, size, "this build has no %s module (looked for %s)", name, path.data);
  } else {
    backend = open_file(path.data, name, kind, why, size);
  }
  situ__text_free(&path);
  return backend;
}
