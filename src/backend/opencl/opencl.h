/* The opencl backend's own header: its devices, and the one way to a kernel.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BACKEND_OPENCL_H
#define SITU_BACKEND_OPENCL_H

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <pthread.h>

#include "backend/lower/lower.h"

/* ---- devices (device.c) --------------------------------------------------------------------- */
typedef struct situ__cl_device {
  situ__target target; /* index, kind, and what is asked of every device that kernels are lowered for */
  cl_platform_id platform;
  cl_device_id id;
  bool exact_division;
  uint64_t budget, used;        /* bytes; the driver may promise more than it has */
  uint64_t largest;             /* of one allocation */
  situ_device_properties known; /* what it says of itself */
  pthread_mutex_t lock; /* over all that follows, and over every call that queues; its owner may take it again */
  char lost[192];       /* "": it is not; else the first cause, for ever */
  bool open;
  cl_context context;
  cl_command_queue queue;
  cl_mem fault;   /* a situ__cl_fault that kernels write to */
  bool unchecked; /* a kernel that may have written to it is queued */
  situ__table kernels;
  char *build;        /* the compiler's options; NULL: not asked yet */
  uint64_t identity;  /* of driver, device and options */
  uint64_t *believed; /* the families of kernels that passed their trial (tried.c) */
  size_t believed_count;
  int trials; /* under way: programs that are used meanwhile are listed, to be forgotten if one fails */
  int listed;
  char list[16][33];
} situ__cl_device;

/* How many devices there are, and why. */
int situ__cl_count(const char **reason);
/* situ__target_enter and situ__target_leave, of the device as it is here. */
situ__cl_device *situ__cl_enter(int index, const char *op, situ_status *status);
situ_status situ__cl_leave(situ__cl_device *device, situ_status status);
situ_status situ__cl_info(int index, situ_device_properties *out);
/* Locked, and no questions asked: what is lost can still be freed. */
situ__cl_device *situ__cl_enter_to_free(int index);
/* Records what a failed call of OpenCL's means. waited: it may have failed for work that was queued before. The device is
   entered. */
situ_status situ__cl_fail(situ__cl_device *device, const char *op, const char *call, cl_int error, bool waited);
/* Why the device is lost; NULL: it is not. */
const char *situ__cl_lost(int index);

/* ---- memory (memory.c) ---------------------------------------------------------------------- */
situ_status situ__cl_alloc(int index, size_t bytes, void **data);
void situ__cl_free(int index, void *data, size_t bytes);
situ_status situ__cl_copy_in(int index, void *data, size_t at, const void *host, size_t bytes);
situ_status situ__cl_copy_out(int index, const void *data, size_t at, void *host, size_t bytes);
situ_status situ__cl_copy_peer(int to, void *dst, size_t dst_at, int from, const void *src, size_t src_at,
                               size_t bytes);
situ_status situ__cl_synchronize(int index);
/* Many small storages in one memory, or back (pack.c). */
situ_status situ__cl_pack(int index, const situ_work *work);

/* ---- kernels (text.c) ----------------------------------------------------------------------- */
/* The text, with all that it includes. */
const char *situ__cl_text_of(situ__text text);
/* Declarations of all that texts call, for drivers to which those are given. */
const char *situ__cl_builtins(void);

/* A number that differs where data does. */
#define SITU__CL_MIX 0xcbf29ce484222325u
uint64_t situ__cl_mix(uint64_t hash, const void *data, size_t bytes);
/* A number for all that decides what kernels compute: driver, device, options and texts. 0: no memory. The device is entered. */
uint64_t situ__cl_identity(situ__cl_device *device);
const char *situ__cl_dtype_name(int dtype);

/* ---- trials (tried.c) ----------------------------------------------------------------------- */
/* kernel(index, work), once its family has computed the right values on this device. SITU_E_UNSUPPORTED is recorded where it
   has not. */
situ_status situ__cl_believed(int index, const situ_work *work, situ_status (*kernel)(int, const situ_work *));
/* situ__lower_copy, so. */
situ_status situ__cl_copy(int index, const situ_work *work);

/* ---- compiled programs on disk (disk.c) ----------------------------------------------------- */
/* Waits while another process, or another device of this one, makes the program of this key: what two would make one makes, and
   PoCL 3, whose own cache is not safe when two make the same program, is not asked to. For situ__cl_disk_unlock; -1: there is
   no place for it, which is harmless. */
int situ__cl_disk_lock(const char *key);
void situ__cl_disk_unlock(int lock, const char *key);
/* The program that was stored under key; NULL: there is none. Freed by the host's free. */
unsigned char *situ__cl_disk_read(const char *key, size_t *bytes);
/* Best effort: another process may read it at once, and a failure is harmless. */
void situ__cl_disk_write(const char *key, const unsigned char *binary, size_t bytes);
/* Removes it. */
void situ__cl_disk_remove(const char *key);
/* A list of numbers kept under a number: up to `most` are read, and how many there were is returned; one more is added, best
   effort. */
size_t situ__cl_disk_read_list(uint64_t name, uint64_t *to, size_t most);
void situ__cl_disk_append(uint64_t name, uint64_t number);

#endif
