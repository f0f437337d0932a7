/* A program with an OpenCL of its own, which situ adopts.
   SPDX-License-Identifier: MIT */
#ifndef SITU_TEST_OPENCL_PROGRAM_H
#define SITU_TEST_OPENCL_PROGRAM_H

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include "situ/interop.h"
#include "situ/scope.h"
#include "support/opencl/shim.h"
#include "support/test.h"

typedef struct program {
  cl_device_id id;
  cl_context context;
  cl_command_queue queue;
  situ_device device; /* as situ has adopted it */
  situ_scope scope;   /* of what is made there */
} program;

static void find(cl_device_id ids[2]) {
  cl_platform_id platform;
  cl_uint count = 0;
  assert_int_equal(clGetPlatformIDs(1, &platform, NULL), CL_SUCCESS);
  assert_int_equal(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 2, ids, &count), CL_SUCCESS);
  if (count < 2) ids[1] = ids[0];
}

static program open_program(void) {
  program p = { 0 };
  cl_device_id ids[2];
  cl_int error;
  find(ids);
  p.id = ids[0];
  p.context = clCreateContext(NULL, 1, &p.id, NULL, NULL, &error);
  p.queue = clCreateCommandQueue(p.context, p.id, 0, &error);
  assert_non_null(p.queue);
  return p;
}

static void close_program(program *p) {
  (void)clReleaseCommandQueue(p->queue);
  (void)clReleaseContext(p->context);
}

static situ_foreign handles(const program *p) { return (situ_foreign){ .kind = SITU_OPENCL, .queue = p->queue }; }

static program adopt_program(void) {
  program p = open_program();
  const situ_foreign f = handles(&p);
  assert_int_equal(situ_device_adopt(&f, &p.device), SITU_OK);
  situ_scope_begin(&p.scope);
  return p;
}

static void abandon_program(program *p) {
  assert_int_equal(situ_scope_end(&p->scope), SITU_OK);
  assert_int_equal(situ_device_abandon(p->device), SITU_OK);
  close_program(p);
}

/* What waits for a device, or copies. */
static const char *const waiting[] = { "clFinish",           "clEnqueueReadBuffer",     "clEnqueueWriteBuffer",
                                       "clEnqueueMapBuffer", "clEnqueueUnmapMemObject", "clWaitForEvents" };
enum { WAITING = sizeof waiting / sizeof *waiting };

#endif
