/* cpu: the host. Its memory is ordinary memory, and its kernels are complete when they return.
   SPDX-License-Identifier: MIT */
#include "backend/cpu/common/cpu.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/slab.h"
#include "device/device.h"

#include <stdio.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { HUGE_PAGE = 2 << 20, LARGE = 64 << 10, SMALL = SITU__SLAB_LARGEST, CACHE_LINE = 64 };

static int count(const char **reason) {
  *reason = "always there";
  return 1;
}

/* Name of the processor as Linux knows it; else the architecture. */
static void hardware_name(char *name, size_t size) {
#if defined(__x86_64__)
  const char *fallback = "x86-64";
#else
  const char *fallback = "host processor";
#endif
  (void)snprintf(name, size, "%s", fallback);
  FILE *file = fopen("/proc/cpuinfo", "r");
  if (!file) return;
  char line[256], *text;
  while (fgets(line, sizeof line, file)) {
    if (strncmp(line, "model name", 10) || !(text = strchr(line, ':'))) continue;
    text += strspn(text, ": \t");
    text[strcspn(text, "\n")] = 0;
    (void)snprintf(name, size, "%s", text);
    break;
  }
  (void)fclose(file);
}

/* Bytes of physical memory; 0: unknown. */
static uint64_t physical(void) {
  long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  return pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : 0;
}

/* Queried once, as the system takes long to format the answer. */
static char hardware[sizeof((situ_device_properties *)0)->name];
static pthread_once_t asked = PTHREAD_ONCE_INIT;
static void ask_for_name(void) { hardware_name(hardware, sizeof hardware); }

static situ_status info(int index, situ_device_properties *out) {
  (void)index;
  *out = (situ_device_properties){ .dtypes = (1u << SITU_DTYPES) - 2 };
  (void)pthread_once(&asked, ask_for_name);
  memcpy(out->name, hardware, sizeof out->name);
  out->memory_total = physical();
  return SITU_OK;
}

static situ_status allocate(int index, size_t bytes, void **data) {
  (void)index;
  /* Linux allocates more memory than it has and kills the process that uses it, so requests beyond physical memory fail
     here. */
  uint64_t most = bytes >> 30 ? physical() : 0;
  if (most && bytes > most) return SITU_E_NOMEM;
  *data = bytes <= SMALL ? situ__small_alloc(bytes) : situ__aligned(bytes >= HUGE_PAGE ? HUGE_PAGE : CACHE_LINE, bytes);
  return *data ? SITU_OK : SITU_E_NOMEM;
}

/* free() may keep blocks of up to 32 MiB for reuse, but callers expect the memory back: return its pages first. This is
   only advice to the system. */
static void release(int index, void *data, size_t bytes) {
  (void)index;
  const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), head = -(uintptr_t)data & (page - 1);
  if (bytes >= LARGE) (void)madvise((char *)data + head, (bytes - head) & ~(page - 1), MADV_DONTNEED);
  if (bytes <= SMALL) situ__small_free(data, bytes);
  else situ__free(data);
}

static situ_status copy_in(int index, void *data, size_t at, const void *host, size_t bytes) {
  (void)index;
  memcpy((char *)data + at, host, bytes);
  return SITU_OK;
}

static situ_status copy_out(int index, const void *data, size_t at, void *host, size_t bytes) {
  (void)index;
  memcpy(host, (const char *)data + at, bytes);
  return SITU_OK;
}

static situ_status synchronize(int index) {
  (void)index;
  return SITU_OK;
}

const situ_backend situ__cpu_backend = {
  .abi = SITU_BACKEND_ABI,
  .size = sizeof(situ_backend),
  .kind = SITU_CPU,
  .name = "cpu",
  .count = count,
  .info = info,
  .alloc = allocate,
  .free = release,
  .copy_in = copy_in,
  .copy_out = copy_out,
  .synchronize = synchronize,
  .offers = situ__cpu_offers,
  .kernel = {
    [SITU_VERB_COPY] = situ__cpu_copy,
    [SITU_VERB_PACK] = situ__cpu_pack,
    [SITU_VERB_FILL] = situ__cpu_fill,
    [SITU_VERB_RANGE] = situ__cpu_range,
    [SITU_VERB_RANDOM] = situ__cpu_random,
    [SITU_VERB_TRIANGLE] = situ__cpu_triangle,
    [SITU_VERB_UNARY] = situ__cpu_unary,
    [SITU_VERB_UNARY_GRAD] = situ__cpu_unary_grad,
    [SITU_VERB_BINARY] = situ__cpu_binary,
    [SITU_VERB_TERNARY] = situ__cpu_ternary,
    [SITU_VERB_REDUCE] = situ__cpu_reduce,
    [SITU_VERB_ARG_REDUCE] = situ__cpu_arg_reduce,
    [SITU_VERB_SCAN] = situ__cpu_scan,
    [SITU_VERB_SORT] = situ__cpu_sort,
    [SITU_VERB_GATHER] = situ__cpu_gather,
    [SITU_VERB_SCATTER] = situ__cpu_scatter,
    [SITU_VERB_NONZERO] = situ__cpu_nonzero,
    [SITU_VERB_MATMUL] = situ__cpu_matmul,
    [SITU_VERB_PREPACK] = situ__cpu_prepack,
    [SITU_VERB_CONV] = situ__cpu_conv,
    [SITU_VERB_POOL] = situ__cpu_pool,
    [SITU_VERB_RESAMPLE] = situ__cpu_resample,
    [SITU_VERB_FFT] = situ__cpu_fft,
    [SITU_VERB_LINALG] = situ__cpu_linalg,
    [SITU_VERB_SOFTMAX] = situ__cpu_softmax,
    [SITU_VERB_NORM] = situ__cpu_norm,
    [SITU_VERB_BATCH_NORM] = situ__cpu_batch_norm,
    [SITU_VERB_GROUP_NORM] = situ__cpu_group_norm,
    [SITU_VERB_NLL] = situ__cpu_nll,
    [SITU_VERB_CELL] = situ__cpu_cell,
    [SITU_VERB_ATTENTION] = situ__cpu_attention,
    [SITU_VERB_BLOCKS] = situ__cpu_blocks,
    [SITU_VERB_INTEGER] = situ__cpu_integer,
    [SITU_VERB_OPTIMIZER] = situ__cpu_optimizer,
  },
  .host_memory = true,
  .addressable = true,
};
