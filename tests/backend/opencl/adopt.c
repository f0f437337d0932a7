/* test-devices: opencl:0 only */
/* test-sanitized: opencl */
/* test-links: situ_test_shim OpenCL::OpenCL */
/* A program's own context, queue and buffers: work is queued behind its own without a wait, each object is freed once in
   whatever order, and each wrong handle is refused by name.
   SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "situ/ledger.h"
#include "situ/nn.h"
#include "situ/place.h"
#include "support/opencl/program.h"
#include "situ/sys/tensor.h"

static cl_mem buffer(const program *p, cl_mem_flags flags, size_t floats) {
  cl_int error;
  cl_mem made = clCreateBuffer(p->context, flags, floats * sizeof(float), NULL, &error);
  assert_non_null(made);
  return made;
}

/* y[i] = a x[i] + i: the program's own kernel. */
static void run_own(const program *p, cl_mem x, float a, size_t count) {
  static const char *text = "kernel void own(global float *x, float a) {"
                            "  size_t i = get_global_id(0); x[i] = a * x[i] + i; }";
  cl_int error;
  cl_program made = clCreateProgramWithSource(p->context, 1, &text, NULL, &error);
  assert_int_equal(clBuildProgram(made, 1, &p->id, "", NULL, NULL), CL_SUCCESS);
  cl_kernel kernel = clCreateKernel(made, "own", &error);
  assert_int_equal(clSetKernelArg(kernel, 0, sizeof x, &x), CL_SUCCESS);
  assert_int_equal(clSetKernelArg(kernel, 1, sizeof a, &a), CL_SUCCESS);
  assert_int_equal(clEnqueueNDRangeKernel(p->queue, kernel, 1, NULL, &count, NULL, 0, NULL, NULL), CL_SUCCESS);
  (void)clReleaseKernel(kernel);
  (void)clReleaseProgram(made);
}

static cl_mem zeros(const program *p, size_t floats) {
  cl_mem made = buffer(p, CL_MEM_READ_WRITE, floats);
  const float none = 0;
  assert_int_equal(clEnqueueFillBuffer(p->queue, made, &none, sizeof none, 0, floats * sizeof none, 0, NULL, NULL),
                   CL_SUCCESS);
  return made;
}

static void read_own(const program *p, cl_mem from, float *to, size_t floats) {
  assert_int_equal(clEnqueueReadBuffer(p->queue, from, CL_TRUE, 0, floats * sizeof *to, to, 0, NULL, NULL), CL_SUCCESS);
}

static situ_tensor *lend(const program *p, cl_mem memory, size_t offset, situ_shape shape) {
  const situ_memory m = { .handle = memory, .offset = offset };
  return situ_from_memory(&m, shape, &(situ_options){ .device = p->device });
}

/* ---- order and copies ------------------------------------------------------------------------ */

enum { W = 24, H = 16, SKIP = 5 };

/* What the program does with a tile of its picture: kernel, network, kernel. */
static void run_tile(const program *p, cl_mem raw, cl_mem shown, situ_tensor *weight) {
  static const int64_t rows[] = { 1, W * H, W, 1 };
  situ_scope scope;
  run_own(p, raw, 0.5f, SKIP + W * H);
  situ_scope_begin_no_grad(&scope);
  situ_tensor *tile = lend(p, raw, SKIP * sizeof(float), SITU_SHAPE(1, 1, H, W));
  const situ_memory middle = { .handle = shown, .offset = (W + 1) * sizeof(float), .strides = rows };
  situ_tensor *to = situ_from_memory(&middle, SITU_SHAPE(1, 1, H - 2, W - 2), &(situ_options){ .device = p->device });
  situ_tensor *y = situ_relu(situ_conv2d(situ_mul_scalar(tile, 0.01), weight, NULL, NULL));
  assert_ptr_equal(situ_copy_(to, y), to);
  assert_int_equal(situ_scope_end(&scope), SITU_OK);
  run_own(p, shown, 2, W * H);
}

/* The same on the host. */
static void expect_tile(const float *raw, const float *weight, const float *shown) {
  for (int i = 0; i < W * H; i++) {
    const int y = i / W - 1, x = i % W - 1;
    double sum = 0;
    for (int k = 0; k < 9 && x >= 0 && y >= 0 && x < W - 2 && y < H - 2; k++)
      sum += 0.01 * (double)raw[SKIP + (y + k / 3) * W + x + k % 3] * (double)weight[k];
    assert_true(fabs((sum > 0 ? 2 * sum : 0) + i - (double)shown[i]) < 1e-3);
  }
}

/* placement: L1, L3 */
static void nothing_waits_and_nothing_is_copied(void **state) {
  (void)state;
  static const float kernel[9] = { 1, 2, 1, 0, 0, 0, -1, -2, -0.5f };
  static float in[SKIP + W * H], out[W * H];
  program p = adopt_program();
  long before[WAITING];
  situ_ledger ledger;
  cl_mem raw = NULL, shown = NULL;
  situ_tensor *weight =
      situ_from_host(kernel, sizeof kernel, SITU_SHAPE(1, 1, 3, 3), &(situ_options){ .device = p.device });
  for (int turn = 0; turn < 2; turn++) { /* at first kernels are compiled and tried */
    if (raw) (void)clReleaseMemObject(raw), (void)clReleaseMemObject(shown);
    raw = zeros(&p, SKIP + W * H);
    shown = zeros(&p, W * H);
    for (int k = 0; k < WAITING; k++) before[k] = shim_calls(waiting[k]);
    situ_ledger_begin_none(&ledger);
    run_tile(&p, raw, shown, weight);
    assert_int_equal(situ_ledger_end(&ledger), SITU_OK);
  }
  for (int k = 0; k < WAITING; k++) assert_int_equal(shim_calls(waiting[k]), before[k]);
  read_own(&p, raw, in, SKIP + W * H);
  read_own(&p, shown, out, W * H);
  for (int i = 0; i < SKIP + W * H; i++) assert_true(in[i] == (float)i);
  expect_tile(in, kernel, out);
  (void)clReleaseMemObject(raw), (void)clReleaseMemObject(shown);
  abandon_program(&p);
}

/* The queue runs nothing until the program says so, and situ's kernels are compiled and tried for the first time: every
   call returns all the same, and the program's work on another queue is behind situ's. */
static void a_queue_that_stands_still_stops_no_call(void **state) {
  (void)state;
  static const float kernel[9] = { 1, 2, 1, 0, 0, 0, -1, -2, -0.5f };
  static float in[SKIP + W * H], out[W * H];
  program p = adopt_program();
  cl_int error;
  cl_command_queue second = clCreateCommandQueue(p.context, p.id, 0, &error);
  cl_event gate = clCreateUserEvent(p.context, &error), done = NULL;
  situ_tensor *weight =
      situ_from_host(kernel, sizeof kernel, SITU_SHAPE(1, 1, 3, 3), &(situ_options){ .device = p.device });
  cl_mem raw = zeros(&p, SKIP + W * H), shown = zeros(&p, W * H);
  assert_int_equal(situ_device_wait_event(p.device, gate), SITU_OK);
  run_tile(&p, raw, shown, weight);
  assert_int_equal(situ_device_record_event(p.device, (void **)&done), SITU_OK);
  bool complete = true;
  assert_int_equal(situ_device_query_event(p.device, done, &complete), SITU_OK);
  assert_false(complete);
  assert_int_equal(clSetUserEventStatus(gate, CL_COMPLETE), CL_SUCCESS);
  assert_int_equal(clEnqueueReadBuffer(second, raw, CL_TRUE, 0, sizeof in, in, 1, &done, NULL), CL_SUCCESS);
  assert_int_equal(clEnqueueReadBuffer(second, shown, CL_TRUE, 0, sizeof out, out, 1, &done, NULL), CL_SUCCESS);
  expect_tile(in, kernel, out);
  (void)clReleaseMemObject(raw), (void)clReleaseMemObject(shown);
  (void)clReleaseEvent(gate), (void)clReleaseEvent(done), (void)clReleaseCommandQueue(second);
  abandon_program(&p);
}

/* Copies from and to the host do not wait either, and giving the device back waits for what is on the way. */
static void copies_pass_a_queue_that_stands_still(void **state) {
  (void)state;
  program p = adopt_program();
  cl_int error;
  cl_event gate = clCreateUserEvent(p.context, &error);
  cl_mem memory = zeros(&p, 4);
  situ_tensor *own = situ_full(SITU_SHAPE(4), 3, NULL), *y, *late;
  assert_non_null(situ_to(situ_add(lend(&p, memory, 0, SITU_SHAPE(4)), situ_to(own, p.device)), situ_dev("cpu")));
  assert_int_equal(situ_device_wait_event(p.device, gate), SITU_OK);
  situ_tensor *x = situ_to_non_blocking(own, p.device);
  y = situ_to_non_blocking(situ_add(lend(&p, memory, 0, SITU_SHAPE(4)), x), situ_dev("cpu"));
  late = situ_escape(&p.scope, situ_to_non_blocking(x, situ_dev("cpu")));
  assert_non_null(situ_fill_(own, 8)); /* its bytes are taken */
  assert_int_equal(clSetUserEventStatus(gate, CL_COMPLETE), CL_SUCCESS);
  expect_exact(y, SITU_SHAPE(4), 3, 3, 3, 3);
  (void)clReleaseMemObject(memory), (void)clReleaseEvent(gate);
  abandon_program(&p);
  assert_false(situ_desc(late)->storage->flags & SITU_STORAGE_PENDING); /* nothing asks the device for it any more */
  expect_exact(late, SITU_SHAPE(4), 3, 3, 3, 3);
}

static void events_of_another_context_are_refused(void **state) {
  (void)state;
  program p = adopt_program(), stranger = open_program();
  cl_int error;
  cl_event strange = clCreateUserEvent(stranger.context, &error);
  assert_int_equal(situ_device_wait_event(p.device, strange), SITU_E_DEVICE);
  expect_error(SITU_E_DEVICE, "device_wait_event", "the event is of the cl_context");
  assert_int_equal(situ_device_wait_event(test_device(), strange), SITU_E_DEVICE);
  expect_error(SITU_E_DEVICE, "device_wait_event", "not of that of opencl:0");
  bool complete;
  assert_int_equal(situ_device_query_event(p.device, strange, &complete), SITU_E_DEVICE);
  expect_error(SITU_E_DEVICE, "device_query_event", "the event is of the cl_context");
  assert_int_equal(situ_device_release_event(p.device, strange), SITU_E_DEVICE);
  expect_error(SITU_E_DEVICE, "device_release_event", "the event is of the cl_context");
  (void)clReleaseEvent(strange);
  close_program(&stranger);
  abandon_program(&p);
}

/* The map that gives large memory large pages would be on the program's queue. */
static void large_memory_is_not_mapped(void **state) {
  (void)state;
  program p = adopt_program();
  const long mapped = shim_calls("clEnqueueMapBuffer");
  double last;
  situ_tensor *x = situ_full(SITU_SHAPE(1 << 20), 2, &(situ_options){ .device = p.device });
  assert_int_equal(shim_calls("clEnqueueMapBuffer"), mapped);
  assert_int_equal(situ_item(situ_select(x, 0, -1), &last), SITU_OK);
  assert_true(last == 2);
  abandon_program(&p);
}

static void bits_are_those_of_situs_own_device(void **state) {
  (void)state;
  program p = adopt_program();
  float got[2][8];
  for (int own = 0; own < 2; own++) {
    situ_scope scope;
    situ_scope_begin(&scope);
    situ_manual_seed(7);
    situ_nn_module *net = situ_nn_linear(32, 8, &(situ_nn_linear_options){ .device = own ? test_device() : p.device });
    situ_tensor *x = situ_randn(SITU_SHAPE(1, 32), &(situ_options){ .device = own ? test_device() : p.device });
    assert_int_equal(situ_copy_to_host(situ_gelu(situ_nn_forward(net, x), false), got[own], sizeof got[own]), SITU_OK);
    situ_nn_free(net);
    assert_int_equal(situ_scope_end(&scope), SITU_OK);
  }
  assert_memory_equal(got[0], got[1], sizeof got[0]);
  abandon_program(&p);
}

/* ---- lifetimes -------------------------------------------------------------------------------- */

static void count_release(void *count) { ++*(int *)count; }

static void each_object_is_freed_once(void **state) {
  (void)state;
  long alive[SHIM_OBJECTS];
  for (int first = 0; first < 4; first++) { /* 1: the program frees its buffer first; 2: and its queue and context */
    if (first == 1)
      for (int k = 0; k < SHIM_OBJECTS; k++) alive[k] = shim_alive((shim_object)k);
    int released = 0;
    program p = adopt_program();
    cl_mem memory = zeros(&p, 6);
    const situ_memory m = { .handle = memory, .release = count_release, .payload = &released };
    situ_tensor *x = situ_from_memory(&m, SITU_SHAPE(2, 3), &(situ_options){ .device = p.device });
    situ_tensor *view = situ_select(x, 0, 1);
    if (first & 1) (void)clReleaseMemObject(memory);
    if (first & 2) close_program(&p);
    assert_int_equal(released, 0);
    expect_exact(situ_add_scalar(view, 1), SITU_SHAPE(3), 1, 1, 1);
    assert_int_equal(situ_scope_end(&p.scope), SITU_OK);
    assert_int_equal(released, 1);
    if (!(first & 1)) (void)clReleaseMemObject(memory);
    assert_int_equal(situ_device_abandon(p.device), SITU_OK);
    if (!(first & 2)) close_program(&p);
  }
  for (int k = 0; k < SHIM_OBJECTS; k++) assert_int_equal(shim_alive((shim_object)k), alive[k]);
}

static void a_device_with_tensors_is_not_given_back(void **state) {
  (void)state;
  program p = adopt_program();
  char text[96], name[SITU_DEVICE_NAME_MAX];
  cl_mem memory = zeros(&p, 4);
  situ_tensor *x = lend(&p, memory, 0, SITU_SHAPE(4)), *y = situ_neg(x);
  assert_non_null(situ_set_name(x, "tile"));
  (void)clReleaseMemObject(memory);
  assert_int_equal(situ_device_abandon(p.device), SITU_E_STATE);
  snprintf(text, sizeof text, "2 tensors live on %s: ", situ_device_name(p.device, name));
  assert_non_null(strstr(situ_error_message(), text));
  assert_non_null(strstr(situ_error_message(), "`tile` ([4] f32)"));
  assert_non_null(strstr(situ_error_message(), "a tensor ([4] f32)"));
  expect_error(SITU_E_STATE, "device_abandon", "adopt.c");
  expect_exact(y, SITU_SHAPE(4), 0, 0, 0, 0); /* nothing was lost */
  abandon_program(&p);
  expect_refused(situ_zeros(SITU_SHAPE(1), &(situ_options){ .device = p.device }), SITU_E_ARG, "zeros",
                 "is not there: it was given back at");
  assert_false(situ_device_is_available(p.device));
  program q = adopt_program();
  assert_true(situ_device_equal(q.device, p.device)); /* its index is free */
  abandon_program(&q);
  assert_int_equal(situ_device_abandon(test_device()), SITU_E_ARG);
  expect_error(SITU_E_ARG, "device_abandon", "opencl:0 is not a device of the program");
}

/* A model that moves there and away again leaves nothing behind. */
static void models_move_there_and_back(void **state) {
  (void)state;
  program p = adopt_program();
  situ_nn_module *net = situ_nn_linear(3, 2, NULL);
  situ_nn_set_name(net, "denoiser");
  assert_int_equal(situ_nn_to(net, p.device), SITU_OK);
  assert_int_equal(situ_device_abandon(p.device), SITU_E_STATE);
  expect_error(SITU_E_STATE, "device_abandon", "weight");
  assert_int_equal(situ_nn_to(net, situ_dev("cpu")), SITU_OK);
  abandon_program(&p);
  situ_nn_free(net);
}

static void wrong_indices_are_reported_late(void **state) {
  (void)state;
  static const int64_t index[] = { 0, 9 };
  program p = adopt_program();
  for (int abandon = 0; abandon < 2; abandon++) {
    situ_scope scope;
    situ_scope_begin(&scope);
    situ_tensor *x = situ_ones(SITU_SHAPE(3), &(situ_options){ .device = p.device });
    situ_tensor *at =
        situ_from_host(index, sizeof index, SITU_SHAPE(2), &(situ_options){ .dtype = SITU_I64, .device = p.device });
    situ_tensor *y = situ_index_select(x, 0, at);
    assert_non_null(y); /* nothing was asked for yet */
    double value;
    if (!abandon) {
      assert_int_equal(situ_item(situ_select(y, 0, 0), &value), SITU_E_INDEX);
      expect_error(SITU_E_INDEX, "gather", "index 9 at [1]");
    }
    assert_int_equal(situ_scope_end(&scope), SITU_OK);
  }
  assert_int_equal(situ_scope_end(&p.scope), SITU_OK);
  assert_int_equal(situ_device_abandon(p.device), SITU_E_INDEX);
  expect_error(SITU_E_INDEX, "gather", "index 9 at [1]");
  assert_false(situ_device_is_available(p.device));
  close_program(&p);
}

/* ---- refusals --------------------------------------------------------------------------------- */

static void refuse(const program *p, cl_mem handle, size_t offset, situ_status status, const char *part) {
  int released = 0;
  const situ_memory m = { .handle = handle, .offset = offset, .release = count_release, .payload = &released };
  expect_refused(situ_from_memory(&m, SITU_SHAPE(2, 4), &(situ_options){ .device = p->device }), status, "from_memory",
                 part);
  assert_int_equal(released, 1);
}

static void wrong_memory_is_refused(void **state) {
  (void)state;
  program p = adopt_program(), q = adopt_program(), stranger = open_program();
  cl_mem small = buffer(&p, CL_MEM_READ_WRITE, 9), other = buffer(&q, CL_MEM_READ_WRITE, 9),
         strange = buffer(&stranger, CL_MEM_READ_WRITE, 9), closed = buffer(&p, CL_MEM_WRITE_ONLY, 9);
  const cl_image_format format = { CL_RGBA, CL_FLOAT };
  const cl_image_desc size = { .image_type = CL_MEM_OBJECT_IMAGE2D, .image_width = 8, .image_height = 8 };
  cl_int error;
  cl_mem image = clCreateImage(p.context, CL_MEM_READ_WRITE, &format, &size, NULL, &error);
  char both[64], a[SITU_DEVICE_NAME_MAX], b[SITU_DEVICE_NAME_MAX];
  snprintf(both, sizeof both, "is of the context of %s", situ_device_name(q.device, b));
  refuse(&p, other, 0, SITU_E_DEVICE, both);
  situ_error_clear();
  snprintf(both, sizeof both, "not of that of %s", situ_device_name(p.device, a));
  refuse(&p, strange, 0, SITU_E_DEVICE, both);
  refuse(&p, small, 8, SITU_E_SHAPE, "the buffer has 36 bytes, and offset, shape and strides reach to byte 40");
  refuse(&p, small, 2, SITU_E_ARG, "offset 2 is not a multiple of the 4 bytes of f32");
  refuse(&p, small, SIZE_MAX - 3, SITU_E_OVERFLOW, "beyond 2^63 bytes");
  refuse(&p, closed, 0, SITU_E_ARG, "CL_MEM_WRITE_ONLY");
  refuse(&p, NULL, 0, SITU_E_ARG, "`memory->handle` is NULL");
  if (image) refuse(&p, image, 0, SITU_E_ARG, "situ_copy_from_image");
  const program host = { .device = situ_dev("cpu") }, own = { .device = test_device() };
  refuse(&host, small, 0, SITU_E_DEVICE, "use situ_from_blob");
  refuse(&own, small, 0, SITU_E_DEVICE, "opencl:0 is a device that situ has opened");
  cl_mem all[] = { small, other, strange, closed, image };
  for (int k = 0; k < 5; k++)
    if (all[k]) (void)clReleaseMemObject(all[k]);
  abandon_program(&q), abandon_program(&p), close_program(&stranger);
}

static void read_only_memory_is_not_written(void **state) {
  (void)state;
  program p = adopt_program();
  cl_mem memory = buffer(&p, CL_MEM_READ_ONLY, 4), own = zeros(&p, 4);
  situ_tensor *x = lend(&p, memory, 0, SITU_SHAPE(4));
  const situ_memory m = { .handle = own, .read_only = true };
  situ_tensor *y = situ_from_memory(&m, SITU_SHAPE(4), &(situ_options){ .device = p.device });
  assert_non_null(situ_set_name(x, "raw"));
  const char *part = "`raw` ([4] f32) is read-only memory of the program";
  expect_refused(situ_add_scalar_(x, 1), SITU_E_STATE, "add_scalar_", part);
  expect_refused(situ_copy_(x, y), SITU_E_STATE, "copy_", part);
  expect_refused(situ_zero_(y), SITU_E_STATE, "zero_", "write to a copy (situ_clone)");
  const float values[4] = { 1, 2, 3, 4 };
  assert_int_equal(situ_copy_from_host(x, values, sizeof values), SITU_E_STATE);
  expect_error(SITU_E_STATE, "copy_from_host", part);
  expect_exact(situ_add_scalar_(situ_clone(y), 1), SITU_SHAPE(4), 1, 1, 1, 1);
  (void)clReleaseMemObject(memory), (void)clReleaseMemObject(own);
  abandon_program(&p);
}

static void refuse_handles(situ_foreign f, const char *part) {
  situ_device out = { SITU_CPU, 0 };
  assert_int_equal(situ_device_adopt(&f, &out), SITU_E_ARG);
  expect_error(SITU_E_ARG, "device_adopt", part);
  assert_int_equal(out.kind, SITU_CPU);
}

static void wrong_handles_are_refused(void **state) {
  (void)state;
  program p = open_program(), q = open_program();
  cl_device_id ids[2];
  cl_int error;
  find(ids);
  situ_foreign f = handles(&p);
  f.context = q.context;
  refuse_handles(f, "give a queue that was made in that context");
  f.context = p.context;
  f.device = ids[1];
  if (ids[1] != ids[0]) refuse_handles(f, "give a queue that was made for that device");
  f.device = NULL;
  f.queue = NULL;
  refuse_handles(f, "foreign->queue is NULL");
  f.queue = clCreateCommandQueue(p.context, p.id, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, &error);
  if (f.queue) {
    refuse_handles(f, "runs its work out of order");
    (void)clReleaseCommandQueue(f.queue);
  }
  f.kind = SITU_DEVICE_KINDS;
  refuse_handles(f, "is not a kind of device");
  close_program(&p), close_program(&q);
}

/* Each call of the driver fails once, as one that can be tried again and as one of a lost device. */
static void failed_calls_adopt_nothing(void **state) {
  (void)state;
  static const int codes[] = { CL_OUT_OF_HOST_MEMORY, CL_INVALID_CONTEXT };
  program p = open_program();
  const situ_foreign f = handles(&p);
  for (int k = 0; k < 2; k++) {
    const char *failed = "";
    for (long nth = 1; failed; nth++) {
      long alive[SHIM_OBJECTS];
      for (int object = 0; object < SHIM_OBJECTS; object++) alive[object] = shim_alive((shim_object)object);
      shim_fail(NULL, nth, codes[k], false);
      const situ_status status = situ_device_adopt(&f, &p.device);
      failed = shim_failed();
      shim_fail(NULL, 0, 0, false);
      assert_int_equal(status == SITU_OK, !failed);
      if (failed) expect_error(status, "device_adopt", "");
      for (int object = 0; failed && object < SHIM_OBJECTS; object++)
        assert_int_equal(shim_alive((shim_object)object), alive[object]);
    }
    situ_scope_begin(&p.scope);
    expect_exact(situ_ones(SITU_SHAPE(1), &(situ_options){ .device = p.device }), SITU_SHAPE(1), 1);
    assert_int_equal(situ_scope_end(&p.scope), SITU_OK);
    assert_int_equal(situ_device_abandon(p.device), SITU_OK);
  }
  close_program(&p);
}

static void errors_show_the_adoption(void **state) {
  (void)state;
  program p = adopt_program();
  cl_mem memory = zeros(&p, 4);
  situ_tensor *x = lend(&p, memory, 0, SITU_SHAPE(4));
  (void)clReleaseMemObject(memory);
  expect_refused(situ_add(x, situ_ones(SITU_SHAPE(4), NULL)), SITU_E_DEVICE, "add", " adopted at ");
  abandon_program(&p);
}

/* ---- the other direction ---------------------------------------------------------------------- */

static void memory_of_a_tensor_is_the_programs(void **state) {
  (void)state;
  program p = adopt_program();
  void *handle = NULL;
  size_t offset = 0;
  float got[6];
  situ_tensor *x = situ_empty(SITU_SHAPE(2, 3), &(situ_options){ .device = p.device });
  assert_int_equal(situ_memory_of(situ_select(x, 0, 1), &handle, &offset), SITU_OK);
  assert_int_equal(offset, 3 * sizeof(float));
  const float two = 2;
  assert_int_equal(clEnqueueFillBuffer(p.queue, handle, &two, sizeof two, 0, sizeof got, 0, NULL, NULL), CL_SUCCESS);
  situ_mul_scalar_(x, 3); /* counts as written from now on */
  read_own(&p, handle, got, 6);
  for (int i = 0; i < 6; i++) assert_true(got[i] == 6);
  assert_int_equal(situ_memory_of(situ_ones(SITU_SHAPE(1), NULL), &handle, &offset), SITU_E_DEVICE);
  expect_error(SITU_E_DEVICE, "memory_of", "use situ_data_ptr");
  abandon_program(&p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    TEST(a_queue_that_stands_still_stops_no_call), /* first: no kernel is known yet */
    TEST(nothing_waits_and_nothing_is_copied),
    TEST(copies_pass_a_queue_that_stands_still),
    TEST(events_of_another_context_are_refused),
    TEST(large_memory_is_not_mapped),
    TEST(bits_are_those_of_situs_own_device),
    TEST(each_object_is_freed_once),
    TEST(a_device_with_tensors_is_not_given_back),
    TEST(models_move_there_and_back),
    TEST(wrong_indices_are_reported_late),
    TEST(wrong_memory_is_refused),
    TEST(read_only_memory_is_not_written),
    TEST(wrong_handles_are_refused),
    TEST(failed_calls_adopt_nothing),
    TEST(errors_show_the_adoption),
    TEST(memory_of_a_tensor_is_the_programs),
  };
  char here[4096], cache[sizeof here + 8];
  if (!getcwd(here, sizeof here) || system("rm -rf cache") != 0) return 1;
  snprintf(cache, sizeof cache, "%s/cache", here);
  setenv("XDG_CACHE_HOME", cache, 1);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
