/* Devices: names, availability, memory, the default device.
   Threads: all functions may be called concurrently; the default device is per thread (docs/threads.md).
   SPDX-License-Identifier: MIT */
#ifndef SITU_DEVICE_H
#define SITU_DEVICE_H

#include "error.h"

SITU_BEGIN

/** Kinds of device. */
typedef enum situ_device_kind {
  SITU_DEVICE_DEFAULT = 0, /**< unspecified: the thread's default device */
  SITU_CPU,                /**< the host */
  SITU_META,               /**< no memory, no computation: shapes and dtypes only */
  SITU_SIM,                /**< a simulated device with its own memory and queue (sys/sim.h) */
  SITU_OPENCL,
  SITU_CUDA,
  SITU_PLAN, /**< a device that is not here: for preflight and fit alone (sys/plan.h) */
  SITU_DEVICE_KINDS
} situ_device_kind;

/** A device, by value. `{0}` means unspecified. Compare with situ_device_equal(). */
typedef struct situ_device {
  uint16_t kind; /**< a situ_device_kind; SITU_DEVICE_KINDS: a name that was refused */
  uint16_t index;
} situ_device;

#define SITU_DEVICE_NAME_MAX 16

/** Parses "cpu", "meta", "sim:1", "cuda:0" ("cuda" alone is "cuda:0"), and devices that are there by their UUID or PCI
    address, as situ_device_info gives them: "cuda:uuid=GPU-65a3...", "opencl:pci=0000:65:00.0". Anything else, or an
    index or address that no such device has, is SITU_E_ARG with a suggestion, and *out is unchanged. */
SITU_API SITU_CHECKED situ_status situ_device_parse(const char *name, situ_device *out);
/** situ_device_parse that returns the device; a refused name gives a device that every call refuses. */
SITU_API situ_device situ_dev(const char *name);
/** Whether kind and index are equal. */
SITU_API bool situ_device_equal(situ_device a, situ_device b);
/** Writes the name, e.g. "sim:1", into buffer and returns buffer; "" for a NULL buffer, after recording an error. */
SITU_API const char *situ_device_name(situ_device device, char buffer[SITU_DEVICE_NAME_MAX]);

/** Number of devices of a kind ("cpu", "sim", "cuda"); 0 for an unknown kind. */
SITU_API int situ_device_count(const char *kind);
/** Whether the device exists; {0}: the default device. */
SITU_API bool situ_device_is_available(situ_device device);
/** Whether there is a CUDA device (torch.cuda.is_available). */
SITU_API bool situ_cuda_is_available(void);
/** One line on why a kind of device ("opencl") is available or not: "2 devices", "libcuda.so.1: cannot open ...". For
    one device ("opencl:0"): "it is there", or why it was lost. Static text, never NULL. */
SITU_API const char *situ_device_status(const char *kind);

#define SITU_UUID_MAX 37
#define SITU_PCI_MAX 17

typedef struct situ_device_properties {
  char name[128];         /**< of the hardware */
  char driver[64];        /**< driver and its version; "" for the host */
  uint64_t memory_total;  /**< bytes; the budget or the memory limit, if one is set */
  uint64_t memory_used;   /**< bytes held by live storages */
  uint64_t memory_cached; /**< free bytes that the caching allocator keeps for reuse */
  uint32_t dtypes;        /**< bits 1 << situ_dtype: dtypes that this device computes with */
  uint64_t
      memory_reserved; /**< bytes allocated from the device: used, cached, and the rounding up to blocks, which adds at
                                 most an eighth from 512 bytes on, 1 MiB from 16 MiB on */
  char uuid[SITU_UUID_MAX]; /**< 32 hexadecimal digits in groups, without the "GPU-" of nvidia-smi; "": unknown */
  char pci[SITU_PCI_MAX];   /**< domain:bus:device.function, "0000:65:00.0"; "": unknown */
  uint64_t copy_rate;       /**< bytes a second of copies to and from it; of planned devices, else 0 */
} situ_device_properties;
/** Fills *out. */
SITU_API SITU_CHECKED situ_status situ_device_info(situ_device device, situ_device_properties *out);
/** Whether two devices are one chip, by an equal UUID or PCI address: "cuda:0" and "opencl:1" of one GPU have one
    memory. Without these only equal devices are. */
SITU_API bool situ_device_same_chip(situ_device a, situ_device b);

/** The default device of this thread, for tensors made without a device: that of the innermost
    situ_default_device_begin, else the one set by situ_set_default_device, else cpu. */
SITU_API situ_device situ_get_default_device(void);
/** Sets the default device of this thread (torch.set_default_device) until the next call, or until the enclosing
    situ_default_device_begin or situ_policy_begin ends; {0} resets it to cpu. */
SITU_API SITU_CHECKED situ_status situ_set_default_device(situ_device device);

/** The saved value of a thread's setting (default device, policy, autocast). On the caller's stack between begin and
    end; its fields are private. */
typedef struct situ_setting {
  situ_device device;
  uint8_t policy[24];
  uint32_t depth;
  uint32_t autocast;
  void *autocast_at;
} situ_setting;

/** Makes `device` this thread's default until the end: with torch.device(...). Nests. Ends at the latest with the
    tensor scope or the module's call that it was begun in. On error nothing was begun. */
SITU_API SITU_CHECKED situ_status situ_default_device_begin(situ_setting *before, situ_device device);
/** Restores the default device from before, and ends settings that were begun since and not ended. */
SITU_API void situ_default_device_end(situ_setting *before);

/** Waits until all work queued on the device is done; returns the first error of that work. */
SITU_API SITU_CHECKED situ_status situ_synchronize(situ_device device);
/** Frees cached, unused memory to the device (torch.cuda.empty_cache); on the cpu also the quarantine of freed handles,
    after which their use is no longer detected. Seldom needed: the cache bounds itself so that memory_reserved is at
    most 1.5 times the recent peak of memory_used, plus 64 MiB. */
SITU_API SITU_CHECKED situ_status situ_empty_cache(situ_device device);
/** Limits memory_reserved of a device, in bytes (0: no limit, the default), for all threads. Frees cached memory as far
    as necessary; storages stay. Allocations beyond the limit are SITU_E_NOMEM. */
SITU_API SITU_CHECKED situ_status situ_set_memory_limit(situ_device device, int64_t bytes);

/** Sets the number of threads for cpu work, the caller's included. Results do not depend on it. */
SITU_API SITU_CHECKED situ_status situ_set_num_threads(int count);
/** The number of threads for cpu work. */
SITU_API int situ_get_num_threads(void);

/** Precision of f32 matrix products (matmul and its relatives, linear, convolution) on devices with faster units for
    it, such as tensor cores. Sums are always in f32. */
typedef enum situ_matmul_precision {
  SITU_PRECISION_HIGHEST = 0, /**< f32 */
  SITU_PRECISION_HIGH,        /**< cuda: TF32, factors rounded to 10 bits of mantissa */
  SITU_PRECISION_MEDIUM       /**< cuda: BF16, factors rounded to 7 bits of mantissa */
} situ_matmul_precision;

/** torch.set_float32_matmul_precision: for all threads, from the next product on. The default is HIGHEST; devices other
    than cuda always compute in f32, and so does cuda without cuBLASLt. */
SITU_API SITU_CHECKED situ_status situ_set_float32_matmul_precision(situ_matmul_precision precision);
/** The precision that was set. */
SITU_API situ_matmul_precision situ_get_float32_matmul_precision(void);

SITU_END
#endif
