/* Devices: what they are called, which are there, why one is not.
   Threads: all of it may be called at once; the default device is the thread's own (docs/threads.md).
   SPDX-License-Identifier: MIT */
#ifndef SITU_DEVICE_H
#define SITU_DEVICE_H

#include "error.h"

SITU_BEGIN

/** Kinds of device. */
typedef enum situ_device_kind {
  SITU_DEVICE_DEFAULT = 0, /**< not stated: the thread's default device */
  SITU_CPU,                /**< the host: its memory is ordinary memory */
  SITU_META,               /**< no memory, no arithmetic: shapes and dtypes only */
  SITU_SIM,                /**< a simulated device with a memory and a queue of its own */
  SITU_OPENCL,
  SITU_CUDA,
  SITU_DEVICE_KINDS
} situ_device_kind;

/** A device, by value. `{0}` means "not stated". Compare with situ_device_equal(). */
typedef struct situ_device {
  uint16_t kind; /**< a situ_device_kind; SITU_DEVICE_KINDS: a name that was refused */
  uint16_t index;
} situ_device;

#define SITU_DEVICE_NAME_MAX 16

/** Reads "cpu", "meta", "sim:1", "cuda:0" ("cuda" alone is "cuda:0"). Strict: anything else, or an
    index that no such device has, is SITU_E_ARG with a suggestion, and *out is left alone. */
SITU_API SITU_CHECKED situ_status situ_device_parse(const char *name, situ_device *out);
/** The same as a value; a refused name gives a device that every call refuses. */
SITU_API situ_device situ_dev(const char *name);
SITU_API bool situ_device_equal(situ_device a, situ_device b);
/** Writes the name, e.g. "sim:1", into buffer and returns buffer; "" for a NULL buffer, after recording an error. */
SITU_API const char *situ_device_name(situ_device device, char buffer[SITU_DEVICE_NAME_MAX]);

/** How many devices of a kind ("cpu", "sim", "cuda") there are; 0 for an unknown kind. */
SITU_API int situ_device_count(const char *kind);
SITU_API bool situ_device_is_available(situ_device device);
SITU_API bool situ_cuda_is_available(void);
/** In one line, why a kind of device ("opencl") is there or not: "2 devices", "libcuda.so.1: cannot open ...".
    Of one device ("opencl:0"): "it is there", or why it was lost. Static text, never NULL. */
SITU_API const char *situ_device_status(const char *kind);

typedef struct situ_device_properties {
  char name[128];         /**< of the hardware */
  char driver[64];        /**< driver and its version; "" for the host */
  uint64_t memory_total;  /**< bytes; the budget, or the limit that was set, where there is one */
  uint64_t memory_used;   /**< bytes held by live storages */
  uint64_t memory_cached; /**< bytes kept by the caching allocator for reuse */
  uint32_t dtypes;        /**< bit 1 << situ_dtype: what this device computes with */
  uint64_t
      memory_reserved; /**< bytes taken from the device: used and cached ones, and what rounding up to blocks adds: at
                                 most an eighth from 512 bytes on, 1 MiB from 16 MiB on */
} situ_device_properties;
SITU_API SITU_CHECKED situ_status situ_device_info(situ_device device, situ_device_properties *out);

/** The default device of this thread: where a tensor is made that states none. The innermost scope's, else the one that
    was set, else cpu. */
SITU_API situ_device situ_get_default_device(void);
/** Sets the default of this thread until the next call, or until the scope that it is called in ends (of a default
    device or a policy); {0} takes it back to cpu. */
SITU_API SITU_CHECKED situ_status situ_set_default_device(situ_device device);

/** What a thread has set for a while (a default device, a policy, autocast), as it was before. On the caller's stack
    between begin and end; its fields belong to the library. */
typedef struct situ_setting {
  situ_device device;
  uint8_t policy[4];
  uint32_t depth;
  uint32_t autocast;
  void *autocast_at;
} situ_setting;

/** Until the end, `device` is this thread's default: with torch.device(...). Nests. What is still open when a tensor
    scope or a module's call ends that it was begun in, ends with it. On error nothing was begun. */
SITU_API SITU_CHECKED situ_status situ_default_device_begin(situ_setting *before, situ_device device);
/** As it was before, and so is all that was begun since and forgotten. */
SITU_API void situ_default_device_end(situ_setting *before);

/** Waits until everything queued on the device is done; reports what failed there since. */
SITU_API SITU_CHECKED situ_status situ_synchronize(situ_device device);
/** Gives cached, unused memory back to the device; of the cpu also what is held back of freed handles, which are
    then no longer told from live ones. Seldom needed: by itself the cache keeps so little that memory_reserved is at most
    1.5 times the most bytes that storages had of late, and 64 MiB. */
SITU_API SITU_CHECKED situ_status situ_empty_cache(situ_device device);
/** Limits memory_reserved of a device to so many bytes (0: no limit, as at first), for all threads. What is cached is given
    back as far as that takes; storages stay. What would exceed it is SITU_E_NOMEM then. */
SITU_API SITU_CHECKED situ_status situ_set_memory_limit(situ_device device, int64_t bytes);

/** Threads that cpu work is spread over, the caller's included. Results do not depend on it. */
SITU_API SITU_CHECKED situ_status situ_set_num_threads(int count);
SITU_API int situ_get_num_threads(void);

/** How products of two f32 matrices may be computed (matmul and its relatives, linear, convolution), where a device has
    units for it that are faster than those for f32. Sums are in f32 always. */
typedef enum situ_matmul_precision {
  SITU_PRECISION_HIGHEST = 0, /**< in f32 */
  SITU_PRECISION_HIGH,        /**< cuda: of TF32, factors rounded to 10 bits of fraction */
  SITU_PRECISION_MEDIUM       /**< cuda: of BF16, factors rounded to 7 bits of fraction */
} situ_matmul_precision;

/** torch.set_float32_matmul_precision: for all threads, from the next product on. HIGHEST until it is called; devices other
    than cuda compute in f32 whatever is set, and so does cuda where cuBLASLt is absent. */
SITU_API SITU_CHECKED situ_status situ_set_float32_matmul_precision(situ_matmul_precision precision);
SITU_API situ_matmul_precision situ_get_float32_matmul_precision(void);

SITU_END
#endif
