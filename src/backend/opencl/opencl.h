/* Internal header of the opencl backend: its devices, and kernel launches.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BACKEND_OPENCL_H
#define SITU_BACKEND_OPENCL_H

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <pthread.h>

#include "backend/lower/lower.h"

/* What copies on a queue of their own wait for (order.c). */
enum { SITU__CL_BUFFERS = 1024, SITU__CL_MARKERS = 8 };
typedef struct situ__cl_order {
  cl_command_queue in;             /* large copies to the device; NULL: there was none yet */
  uint64_t queued;                 /* commands of the device's queue that use buffers */
  uint64_t done;                   /* so many of them are known to be complete */
  uint64_t used[SITU__CL_BUFFERS]; /* by hash of a buffer: the last that used it */
  struct {
    cl_event event;  /* NULL: none */
    uint64_t behind; /* it is complete when so many commands are */
  } marker[SITU__CL_MARKERS];
  int next;
} situ__cl_order;

/* ---- devices (device.c) --------------------------------------------------------------------- */
typedef struct situ__cl_device {
  situ__target target; /* index, kind, and the properties that lowering needs */
  cl_platform_id platform;
  cl_device_id id;
  bool exact_division;
  uint64_t budget, used;        /* in bytes; the driver may report more than it has */
  uint64_t largest;             /* bytes of the largest allocation */
  situ_device_properties known; /* properties that it reports */
  pthread_mutex_t lock;         /* guards all members below and every call that queues; recursive */
  char lost[192];               /* "": it is not lost; else the first cause, permanently */
  bool open;
  cl_context context;
  cl_command_queue queue;
  cl_command_queue aside; /* of an adopted device, in the same context: trials wait, and the program's queue must not */
  situ_foreign program;   /* of an adopted device: its allocator, if it has one */
  cl_mem fault;           /* a `fault` that kernels write to */
  bool unchecked;         /* a kernel that may have written to it is queued */
  situ__cl_order order;
  situ__table kernels;
  char *build;        /* the compiler's options; NULL: not computed yet */
  uint64_t identity;  /* hash of driver, device and options */
  uint64_t *believed; /* families of kernels that passed their trial (tried.c) */
  size_t believed_count;
  int trials; /* trials in progress: the programs they use are listed, to be removed if the trial fails */
  int listed;
  char list[16][33];
} situ__cl_device;

/* Number of devices; *reason explains it. */
int situ__cl_count(const char **reason);
/* Opens and locks the device. Returns NULL after recording an error, with its status in *status. */
situ__cl_device *situ__cl_enter(int index, const char *op, situ_status *status);
situ_status situ__cl_leave(situ__cl_device *device, situ_status status);
situ_status situ__cl_info(int index, situ_device_properties *out);
/* Counts adopted devices until there are at least this many. */
void situ__cl_grow(int count);
/* Queries all properties of a device but its index; returns why it cannot be used, or CL_SUCCESS. The device is
   entered, or not counted yet. */
cl_int situ__cl_query(situ__cl_device *device, cl_platform_id platform, cl_device_id id);
/* Whether this process may use the driver; records why not. */
bool situ__cl_may_open(const char *op);
/* Sets the context and queue of a device, with the fault that its kernels write to. Records why not. */
situ_status situ__cl_open(situ__cl_device *device, const char *op, cl_context context, cl_command_queue queue);
/* Reports an index that a kernel found out of range, after all queued work has run. The device is entered. */
situ_status situ__cl_check(situ__cl_device *device);
/* Locks the device without checks, as memory of a lost device can still be freed. */
situ__cl_device *situ__cl_enter_to_free(int index);
/* Records the error of a failed OpenCL call. waited: the error may belong to work that was queued before. The device is
   entered. */
situ_status situ__cl_fail(situ__cl_device *device, const char *op, const char *call, cl_int error, bool waited);
/* Why the device is lost; NULL: it is not. */
const char *situ__cl_lost(int index);

/* Whether a trial runs on a device of the program: its scratch is not the library's, which work of the program's queue
   may still use. The device is entered. */
static inline bool situ__cl_is_aside(const situ__cl_device *device) { return device->aside && device->trials; }

/* ---- devices and memory of the program (adopt.c) ---------------------------------------------- */
situ_status situ__cl_adopt(int index, const situ_foreign *foreign);
situ_status situ__cl_abandon(int index);
situ_status situ__cl_borrow(int index, void *handle, size_t bytes, void **data, bool *read_only);
void situ__cl_give_back(int index, void *data);
situ_status situ__cl_wait_event(int index, void *event);
situ_status situ__cl_record_event(int index, void **event);
situ_status situ__cl_query_event(int index, void *event, bool *done);
situ_status situ__cl_release_event(int index, void *event);
situ_status situ__cl_open_queue(int from, int index);
situ_status situ__cl_copy_image(int index, void *image, const int64_t shape[3], situ_dtype dtype, void *data, size_t at,
                                bool to_image); /* image.c */
/* Enters a device of the program; NULL after recording an error. */
situ__cl_device *situ__cl_enter_adopted(int index, const char *op, situ_status *status);
/* Records that an object is not of the context of the device. */
situ_status situ__cl_refuse_context(const char *op, const char *what, int index, cl_context is, cl_context should);
situ_status situ__cl_share(int index, void *queue, int *number);

/* ---- order of queues (order.c): the device is entered --------------------------------------------- */
/* A command of the device's queue that uses these buffers was queued. */
void situ__cl_used(situ__cl_device *device, int count, void *const *buffer);
/* Queues a copy of the bytes, which stay until *written is complete; commands of the device's queue from now on see
   it. A large one does not wait for commands that do not use the buffer. */
cl_int situ__cl_write(situ__cl_device *device, cl_mem to, size_t at, size_t bytes, const void *from, cl_event *written);

/* ---- slots of its table of targets (device.c, memory.c, program.c) ---------------------------- */
const situ__target *situ__cl_target_of(int index);
void *situ__cl_target_scratch(situ__target *target, const char *op, size_t bytes);
void situ__cl_target_release(int index, void *scratch);
situ_status situ__cl_target_clear(situ__target *target, const char *op, void *scratch, size_t bytes);
situ_status situ__cl_target_launch(situ__target *target, const situ__call *call, int64_t groups);

/* ---- memory (memory.c) ---------------------------------------------------------------------- */
situ_status situ__cl_alloc(int index, size_t bytes, void **data);
void situ__cl_free(int index, void *data, size_t bytes);
situ_status situ__cl_copy_in(int index, void *data, size_t at, const void *host, size_t bytes);
situ_status situ__cl_copy_out(int index, const void *data, size_t at, void *host, size_t bytes);
situ_status situ__cl_send(int index, void *data, size_t at, const void *host, size_t bytes);
situ_status situ__cl_fetch(int index, const void *data, size_t at, void *host, size_t bytes, void **ticket);
bool situ__cl_fetched(int index, const void *ticket);
situ_status situ__cl_pin(int index, size_t bytes, void **host, void **handle);
void situ__cl_unpin(int index, void *host, void *handle);
situ_status situ__cl_map(int index, void *data, size_t at, size_t bytes, bool write, void **host);
situ_status situ__cl_unmap(int index, void *data, void *host);
situ_status situ__cl_fetch_end(int index, void *ticket, bool wait);
situ_status situ__cl_copy_peer(int to, void *dst, size_t dst_at, int from, const void *src, size_t src_at,
                               size_t bytes);
situ_status situ__cl_send_peer(int to, void *dst, size_t dst_at, int from, const void *src, size_t src_at,
                               size_t bytes);
/* Whether two devices have one context. */
bool situ__cl_same_context(int a, int b);
situ_status situ__cl_synchronize(int index);
/* Copies many small storages into one, or back (pack.c). */
situ_status situ__cl_pack(int index, const situ_work *work);

/* ---- kernels (text.c) ----------------------------------------------------------------------- */
/* The kernel source, with all that it includes. */
const char *situ__cl_text_of(situ__kernel_text text);
/* Declarations of all functions that kernel sources call, for drivers that benefit from them. */
const char *situ__cl_builtins(void);

/* Hash of everything that determines what kernels compute: driver, device, options and sources. 0: out of memory. The
   device is entered. */
uint64_t situ__cl_identity(situ__cl_device *device);
const char *situ__cl_dtype_name(int dtype);

/* ---- trials (tried.c) ----------------------------------------------------------------------- */
/* Runs kernel(index, work) after its family has computed correct values on this device. Records SITU_E_UNSUPPORTED if
   it has not. */
situ_status situ__cl_believed(int index, const situ_work *work, situ_status (*kernel)(int, const situ_work *));
/* situ__lower_copy, with such a trial. */
situ_status situ__cl_copy(int index, const situ_work *work);

/* ---- compiled programs on disk (disk.c) ----------------------------------------------------- */
/* Waits while another process, or another device of this one, compiles the program of this key, so that it is compiled
   once. PoCL 3 needs this, as its own cache is not safe against concurrent compilation of one program. Returns a handle
   for situ__cl_disk_unlock; -1: there is no cache directory, which is harmless. */
int situ__cl_disk_lock(const char *key);
void situ__cl_disk_unlock(int lock, const char *key);
/* The stored program of key; free it with the host's free. Returns NULL if there is none. */
unsigned char *situ__cl_disk_read(const char *key, size_t *bytes);
/* Stores a program, best effort: other processes can read it at once; failures are ignored. */
void situ__cl_disk_write(const char *key, const unsigned char *binary, size_t bytes);
/* Removes a stored program. */
void situ__cl_disk_remove(const char *key);
/* A persistent list of numbers under a number: reads up to `most` and returns how many there are; append adds one, best
   effort. */
size_t situ__cl_disk_read_list(uint64_t name, uint64_t *to, size_t most);
void situ__cl_disk_append(uint64_t name, uint64_t number);

#endif
