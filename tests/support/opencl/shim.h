/* Stands between the opencl module and the real libOpenCL: counts objects, fails the n-th call, and lets a device say of
   itself what no device of a processor says. A shared library, so that the module's calls find its functions first; a program
   is linked with it, or started with LD_PRELOAD.
   SPDX-License-Identifier: MIT */
#ifndef SITU_TEST_SHIM_H
#define SITU_TEST_SHIM_H

#include <stdbool.h>
#include <stddef.h>

/* SITU_SHIM in the environment, any of these words: "gpu" (devices say they are GPUs), "nofp64" (and have no doubles),
   "group=128" (the largest work-group), "ids" (a UUID and a PCI address, those of the first device of CUDA's double). */

/* From now on the n-th call (from 1) fails with `code`, and if `from_then_on` all calls after it, of every function but those
   that release. name: of one function only; NULL: of all. nth 0: no call fails. */
void shim_fail(const char *name, long nth, int code, bool from_then_on);
/* The function that failed first since then; NULL: none did. */
const char *shim_failed(void);

/* How often this function was called, and how often a kernel of this text was launched that was made from source. */
long shim_calls(const char *name);
long shim_launches(const char *text);

/* From now on every source has this at its end (NULL: nothing). */
void shim_damage(const char *source);

/* From now on what kernels of this text (NULL: none) wrote to the buffer that is this argument of theirs (0 to 2) begins with
   zeros. */
void shim_spoil(const char *text, int argument);

/* From now on kernels that are queued stand still, until they are let go. */
void shim_hold(void);
void shim_let_go(void);
/* How many copies to the device that did not wait, queued since shim_hold, of at least so many bytes, are complete. */
int shim_arrived(size_t bytes);

/* Objects made or retained, and not released. */
typedef enum shim_object { SHIM_CONTEXT, SHIM_QUEUE, SHIM_BUFFER, SHIM_PROGRAM, SHIM_KERNEL, SHIM_OBJECTS } shim_object;
long shim_alive(shim_object of);

#endif
