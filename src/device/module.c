/* Backends in shared libraries, opened at run time: the core needs no SDK and no GPU to be built or run.
   SPDX-License-Identifier: MIT */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/fork.h"
#include "base/pool.h"
#include "base/text.h"
#include "device/block_cache.h"
#include "situ/sys/comm_device.h"
#include "situ/sys/module.h"

/* Allocates whole block sizes, because a module frees by the block's size. */
static void *take_memory(const char *op, situ_device device, size_t bytes) {
  size_t size = bytes;
  void *memory = NULL;
  if (bytes <= SITU__BLOCK_LARGEST) (void)situ__block_number(bytes, &size);
  return situ__memory_alloc(op, device, size, &memory) == SITU_OK ? memory : NULL;
}

/* Functions for modules. Their allocations are caches, so tests do not make them fail. */
static situ_status run_reference(const situ_work *work) {
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
  .take = take_memory,
  .give = situ__memory_free,
  .parallel = situ__parallel,
  .fork_guard = situ__fork_guard,
  .matmul_precision = situ_get_float32_matmul_precision,
  .reference = run_reference,
};

static const situ_comm_device_engine *comm_engines[SITU_DEVICE_KINDS];

const situ_comm_device_engine *situ_comm_device_engine_of(situ_device device) {
  static const char op[] = "comm_device_engine_of";
  char name[SITU_DEVICE_NAME_MAX];
  if (!situ__device_resolve(op, device, &device)) return NULL;
  if (comm_engines[device.kind]) return comm_engines[device.kind];
  return situ__fail(SITU_E_UNSUPPORTED, op, "no engine carries memory of %s between ranks: cuda devices have NCCL",
                    situ_device_name(device, name)),
         NULL;
}

/* Writes the path of the file that contains this code, from /proc/self/maps: always absolute. dladdr returns argv[0]
   in a static program, which its caller chooses, and relative paths after LD_LIBRARY_PATH. "": unknown. */
static void own_file(char *path, size_t size) {
  const unsigned long own = (unsigned long)(uintptr_t)situ__module_open;
  char line[4096 + 128]; /* addresses, device and path */
  *path = 0;
  FILE *maps = fopen("/proc/self/maps", "re");
  while (maps && !*path && fgets(line, sizeof line, maps)) {
    unsigned long begin, end;
    const char *file = strchr(line, '/');
    if (sscanf(line, "%lx-%lx", &begin, &end) != 2 || own < begin || own >= end || !file) continue;
    line[strcspn(line, "\n")] = 0;
    (void)snprintf(path, size, "%s", file);
  }
  if (maps) (void)fclose(maps);
}

/* Writes the module's path, relative to this library's own file, so that other directories cannot inject one. */
static void path_of(const char *name, situ__text *path) {
  const char *directory = secure_getenv("SITU_MODULE_DIR");
  char self[4096];
  if (directory && *directory == '/') {
    situ__text_add(path, "%s/libsitu-%s.so", directory, name);
    return;
  }
  own_file(self, sizeof self);
  if (!*self) return;
  *strrchr(self, '/') = 0;
  situ__text_add(path, "%s/situ/%d/libsitu-%s.so", self, SITU_VERSION_MAJOR, name);
}

/* A set-uid program may be hard-linked into a directory of its caller: open only files that belong to its own user or
   root and that only their owner can write. */
static bool may_open(const char *path) {
  struct stat about;
  if (!getauxval(AT_SECURE)) return true;
  return stat(path, &about) == 0 && (about.st_uid == 0 || about.st_uid == geteuid()) &&
         !(about.st_mode & (S_IWGRP | S_IWOTH));
}

static const situ_backend *open_file(const char *path, const char *name, situ_device_kind kind, char *why,
                                     size_t size) {
  void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!module) {
    (void)snprintf(why, size, "the %s module cannot be opened: %s", name, dlerror());
    return NULL;
  }
  const situ_backend *backend = dlsym(module, "situ_module_backend");
  bool (*start)(const situ_host *);
  *(void **)&start = dlsym(module, "situ_module_start");
  if (backend && backend->abi == SITU_BACKEND_ABI && backend->size == sizeof *backend && backend->kind == kind &&
      (!start || start(&host))) {
    situ__site_add_module(backend);
    const situ_comm_device_engine *engine = dlsym(module, "situ_module_comm_engine");
    if (engine && engine->size == sizeof *engine) comm_engines[kind] = engine;
    return backend;
  }
  (void)snprintf(why, size, backend ? "%s was made for another version of situ" : "%s has no situ_module_backend",
                 path);
  (void)dlclose(module);
  return NULL;
}

const situ_backend *situ__module_open(const char *name, situ_device_kind kind, char *why, size_t size) {
  situ__text path = { 0 };
  path_of(name, &path);
  const situ_backend *backend = NULL;
  if (!path.data || path.failed) {
    (void)snprintf(why, size, "no %s module was looked for: this library's own directory is not known", name);
  } else if (access(path.data, F_OK) != 0) {
    (void)snprintf(why, size, "this build has no %s module (looked for %s)", name, path.data);
  } else if (!may_open(path.data)) {
    (void)snprintf(why, size, "%s is not opened in a set-uid program: another user could have written it", path.data);
  } else {
    backend = open_file(path.data, name, kind, why, size);
  }
  situ__text_free(&path);
  return backend;
}
