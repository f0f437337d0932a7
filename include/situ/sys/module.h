/* A backend in a file of its own: what it exports, and what the library hands to it. A module needs no symbol of the
   library, so it works with libsitu.so and with a program that links libsitu.a.
   SPDX-License-Identifier: MIT */
#ifndef SITU_SYS_MODULE_H
#define SITU_SYS_MODULE_H

#include "backend.h"

SITU_BEGIN

/** What a module may call. The struct outlives the module. */
typedef struct situ_host {
  uint32_t abi; /**< SITU_BACKEND_ABI */
  size_t size;  /**< sizeof(situ_host) */
  /** Records an error of op (a verb's name will do) and returns status: for a slot that knows more than the status
      says. */
  situ_status (*fail)(situ_status status, const char *op, const char *fmt, ...) SITU_PRINTF(3, 4);
  const char *(*verb_name)(situ_verb verb);
  /** Host memory, not cleared; NULL: there is none. */
  void *(*alloc)(size_t bytes);
  void (*free)(void *memory);
  /** Memory of the module's own device from the library's cache, for work that is queued before it is given back; NULL:
      there is none, which is recorded. It is as large as it was made, at least `bytes`; give wants to know. */
  void *(*take)(const char *op, situ_device device, size_t bytes);
  void (*give)(situ_device device, void *memory, size_t bytes);
  /** Calls work for pieces [begin, end) of 0..count, each of `grain` but the last, on the library's threads, and waits.
      */
  void (*parallel)(int64_t count, int64_t grain, void (*work)(int64_t begin, int64_t end, void *payload),
                   void *payload);
  /** To be called before the first thread is started or device opened: from then on a fork's child is refused. */
  void (*fork_guard)(void);
  /** What the user set (situ_set_float32_matmul_precision). */
  situ_matmul_precision (*matmul_precision)(void);
  /** Runs a piece of work on host memory, by the cpu's kernel: what a module compares its own results with. */
  situ_status (*reference)(const situ_work *work);
} situ_host;

/** What a module exports: its backend, and (optional) a function that is called once, before any slot. False: the
    module cannot work with this library, and is closed again. */
extern SITU_API const situ_backend situ_module_backend;
SITU_API bool situ_module_start(const situ_host *host);

SITU_END
#endif
