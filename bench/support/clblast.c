/* CLBlast's sgemm on the first OpenCL device, in a context of its own.
   SPDX-License-Identifier: MIT */
#include "support/peers.h"

#if SITU_HAVE_CLBLAST
#include <stdlib.h>

#define CL_TARGET_OPENCL_VERSION 120
#include <clblast_c.h>

struct clblast_job {
  cl_context context;
  cl_command_queue queue;
  cl_mem a, b, c;
  size_t n;
};

double clblast_time(clblast_job *job, double (*clock)(void)) {
  const size_t n = job->n;
  double begin = clock();
  if (CLBlastSgemm(CLBlastLayoutRowMajor, CLBlastTransposeNo, CLBlastTransposeNo, n, n, n, 1, job->a, 0, n, job->b, 0,
                   n, 0, job->c, 0, n, &job->queue, NULL) != CLBlastSuccess ||
      clFinish(job->queue) != CL_SUCCESS)
    return 0;
  return clock() - begin;
}

static double no_clock(void) { return 0; }

/* Its first call compiles for seconds; that is not what is measured. */
clblast_job *clblast_begin(size_t n) {
  cl_platform_id platform;
  cl_device_id device;
  clblast_job *job = calloc(1, sizeof *job);
  float *ones = malloc(n * n * sizeof *ones);
  for (size_t i = 0; ones && i < n * n; i++) ones[i] = 1;
  const cl_mem_flags flags = CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR;
  if (job && ones && clGetPlatformIDs(1, &platform, NULL) == CL_SUCCESS &&
      clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL) == CL_SUCCESS)
    job->context = clCreateContext(NULL, 1, &device, NULL, NULL, NULL);
  if (!job || !job->context) {
    free(ones);
    free(job);
    return NULL;
  }
  job->n = n;
  job->queue = clCreateCommandQueue(job->context, device, 0, NULL);
  job->a = clCreateBuffer(job->context, flags, n * n * sizeof *ones, ones, NULL);
  job->b = clCreateBuffer(job->context, flags, n * n * sizeof *ones, ones, NULL);
  job->c = clCreateBuffer(job->context, flags, n * n * sizeof *ones, ones, NULL);
  free(ones);
  (void)clblast_time(job, no_clock);
  return job;
}

void clblast_end(clblast_job *job) {
  if (!job) return;
  (void)clReleaseMemObject(job->a);
  (void)clReleaseMemObject(job->b);
  (void)clReleaseMemObject(job->c);
  (void)clReleaseCommandQueue(job->queue);
  (void)clReleaseContext(job->context);
  free(job);
}
#else
clblast_job *clblast_begin(size_t n) {
  (void)n;
  return NULL;
}
double clblast_time(clblast_job *job, double (*clock)(void)) {
  (void)job;
  return clock();
}
void clblast_end(clblast_job *job) { (void)job; }
#endif
