/* A backend as a shared object: what it exports, and the functions that the library passes to it. A module needs no
   symbol of the library, so it works with libsitu.so and with a program that links libsitu.a. SPDX-License-Identifier:
   MIT */
#ifndef SITU_SYS_MODULE_H
#define SITU_SYS_MODULE_H

#include "backend.h"

SITU_BEGIN

/** Functions of the library for modules. The struct outlives the module. */
typedef struct situ_host {
  uint32_t abi; /**< SITU_BACKEND_ABI */
  size_t size;  /**< sizeof(situ_host) */
  /** Records an error of op (such as a verb's name) with a message, and returns status: for slots with more to report
      than a status. */
  situ_status (*fail)(situ_status status, const char *op, const char *fmt, ...) SITU_PRINTF(3, 4);
  const char *(*verb_name)(situ_verb verb); /**< "matmul"; static text */
  /** Allocates host memory, uninitialised; NULL when out of memory. */
  void *(*alloc)(size_t bytes);
  void (*free)(void *memory);
  /** Takes device memory from the library's cache, for work that is queued before `give`; `bytes` must be passed to
      give again. NULL after recording an error. */
  void *(*take)(const char *op, situ_device device, size_t bytes);
  void (*give)(situ_device device, void *memory, size_t bytes);
  /** Calls work for chunks [begin, end) of 0..count, each of `grain` except the last, on the library's threads, and
      waits. */
  void (*parallel)(int64_t count, int64_t grain, void (*work)(int64_t begin, int64_t end, void *payload),
                   void *payload);
  /** Call it before the first thread is started or device opened: from then on calls in a forked child are refused. */
  void (*fork_guard)(void);
  /** The user's setting (situ_set_float32_matmul_precision). */
  situ_matmul_precision (*matmul_precision)(void);
  /** Runs work on host memory with the cpu's kernel, as a reference for a module's own results. */
  situ_status (*reference)(const situ_work *work);
} situ_host;

/** The export of a module: its backend. */
extern SITU_API const situ_backend situ_module_backend;
/** Optional export, called once before any slot. Returns false if the module cannot work with this library; then it is
    closed again. */
SITU_API bool situ_module_start(const situ_host *host);

SITU_END
#endif
