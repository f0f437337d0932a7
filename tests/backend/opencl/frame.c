/* test-devices: opencl:0 only */
/* test-sanitized: opencl */
/* test-links: situ_test_shim OpenCL::OpenCL */
/* What a frame of a program's own queue is made of: images, replays, copies to other contexts. Calls of the driver are
   counted.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "situ/graph.h"
#include "situ/ledger.h"
#include "situ/nn.h"
#include "support/opencl/program.h"

static cl_mem buffer(const program *p, cl_mem_flags flags, size_t floats) {
  cl_int error;
  cl_mem made = clCreateBuffer(p->context, flags, floats * sizeof(float), NULL, &error);
  assert_non_null(made);
  return made;
}

static cl_mem zeros(const program *p, size_t floats) {
  cl_mem made = buffer(p, CL_MEM_READ_WRITE, floats);
  const float none = 0;
  assert_int_equal(clEnqueueFillBuffer(p->queue, made, &none, sizeof none, 0, floats * sizeof none, 0, NULL, NULL),
                   CL_SUCCESS);
  return made;
}

/* A captured forward, replayed on each tile: one command for each of its kernels, and no memory of the
   driver's. (Scratch is of situ's cache.) */
static void a_replay_is_one_command_a_kernel(void **state) {
  (void)state;
  static const char *const others[] = { "clEnqueueCopyBuffer", "clEnqueueFillBuffer", "clCreateBuffer",
                                        "clRetainMemObject", "clSetUserEventStatus" };
  enum { OTHERS = sizeof others / sizeof *others, SIDE = 12, TILE = 6 };
  program p = adopt_program();
  cl_mem raw = zeros(&p, SIDE * SIDE), shown = zeros(&p, SIDE * SIDE);
  situ_nn_module *net =
      situ_nn_sequential(situ_nn_conv2d(1, 2, SITU_DIMS(3), &(situ_nn_conv_options){ .padding = SITU_DIMS(1, 1) }),
                         situ_nn_relu(), situ_nn_conv2d(2, 1, SITU_DIMS(1), NULL));
  assert_int_equal(situ_nn_to(net, p.device), SITU_OK);
  situ_tensor *in[4], *out[4];
  for (int k = 0; k < 4; k++) {
    const size_t first = (size_t)(k / 2 * TILE * SIDE + k % 2 * TILE) * sizeof(float);
    static const int64_t rows[] = { 1, 1, SIDE, 1 };
    const situ_memory from = { .handle = raw, .offset = first, .strides = rows },
                      to = { .handle = shown, .offset = first, .strides = rows };
    in[k] = situ_from_memory(&from, SITU_SHAPE(1, 1, TILE, TILE), &(situ_options){ .device = p.device });
    out[k] = situ_from_memory(&to, SITU_SHAPE(1, 1, TILE, TILE), &(situ_options){ .device = p.device });
  }
  assert_int_equal(situ_graph_capture_begin(p.device), SITU_OK);
  assert_int_equal(situ_nn_forward_into(net, in[0], out[0]), SITU_OK);
  situ_graph *graph = situ_graph_capture_end();
  assert_non_null(graph);
  long before[OTHERS + WAITING], kernels = 0;
  situ_ledger ledger;
  for (int turn = 0; turn < 8; turn++) {
    if (turn == 4) { /* each place was rebound once */
      for (int k = 0; k < OTHERS + WAITING; k++) before[k] = shim_calls(k < OTHERS ? others[k] : waiting[k - OTHERS]);
      kernels = shim_calls("clEnqueueNDRangeKernel");
      situ_ledger_begin_none(&ledger);
    }
    situ_tensor *captured[] = { in[0], out[0] }, *bound[] = { in[turn % 4], out[turn % 4] };
    assert_int_equal(situ_graph_rebind(graph, captured, bound, 2), SITU_OK);
    assert_int_equal(situ_graph_replay(graph), SITU_OK);
  }
  assert_int_equal(situ_ledger_end(&ledger), SITU_OK);
  const long replayed = shim_calls("clEnqueueNDRangeKernel") - kernels;
  for (int k = 0; k < OTHERS + WAITING; k++)
    assert_int_equal(shim_calls(k < OTHERS ? others[k] : waiting[k - OTHERS]), before[k]);
  kernels = shim_calls("clEnqueueNDRangeKernel");
  for (int k = 0; k < 4; k++) assert_int_equal(situ_nn_forward_into(net, in[k], out[k]), SITU_OK);
  assert_int_equal(replayed, shim_calls("clEnqueueNDRangeKernel") - kernels); /* a convolution has two */
  situ_graph_free(graph);
  situ_nn_free(net);
  (void)clReleaseMemObject(raw), (void)clReleaseMemObject(shown);
  abandon_program(&p);
}

/* The queue of a device that situ has opened stands still, too: a copy to another context waits for neither. */
/* placement: F1 */
static void copies_between_contexts_wait_for_no_queue(void **state) {
  (void)state;
  const situ_device first = test_device(), second = { SITU_OPENCL, 1 };
  if (!situ_device_is_available(second)) skip();
  situ_scope scope;
  cl_context context;
  cl_int error;
  void *event = NULL;
  situ_scope_begin(&scope);
  situ_tensor *x = situ_full(SITU_SHAPE(1000), 3, &(situ_options){ .device = first }), *y = NULL, *back = NULL;
  assert_non_null(situ_to(situ_add_scalar(situ_to(situ_add_scalar(x, 1), second), 1), first)); /* kernels are tried */
  assert_int_equal(situ_device_record_event(first, &event), SITU_OK);
  assert_int_equal(clGetEventInfo(event, CL_EVENT_CONTEXT, sizeof context, &context, NULL), CL_SUCCESS);
  cl_event gate = clCreateUserEvent(context, &error);
  assert_int_equal(situ_device_release_event(first, event), SITU_OK);
  for (int k = 0; k < 2; k++) {
    assert_int_equal(situ_device_wait_event(first, gate), SITU_OK); /* the second time it is complete */
    y = situ_to_non_blocking(situ_add_scalar_(x, 1), second);
    assert_non_null(situ_add_scalar_(y, 1));
    back = situ_to_non_blocking(y, first);
    assert_non_null(situ_fill_(y, 9));
    assert_int_equal(clSetUserEventStatus(gate, CL_COMPLETE), k ? CL_INVALID_OPERATION : CL_SUCCESS);
    expect_exact(situ_select(back, 0, 999), SITU_SCALAR, 5 + k);
    expect_exact(situ_select(y, 0, 999), SITU_SCALAR, 9);
  }
  (void)clReleaseEvent(gate);
  assert_int_equal(situ_scope_end(&scope), SITU_OK);
}

/* ---- images ----------------------------------------------------------------------------------- */

static cl_mem make_image(const program *p, cl_channel_order order, cl_channel_type type, size_t width, size_t height) {
  const cl_image_format format = { order, type };
  const cl_image_desc size = { .image_type = CL_MEM_OBJECT_IMAGE2D, .image_width = width, .image_height = height };
  cl_int error;
  return clCreateImage(p->context, CL_MEM_READ_WRITE, &format, &size, NULL, &error);
}

static void images_are_copied_on_the_device(void **state) {
  (void)state;
  enum { WIDE = 5, HIGH = 3 };
  program p = adopt_program(), q = adopt_program();
  const situ_options o = { .device = p.device };
  cl_mem image = make_image(&p, CL_RGBA, CL_FLOAT, WIDE, HIGH), grey = make_image(&p, CL_R, CL_UNORM_INT8, WIDE, HIGH),
         strange = make_image(&q, CL_RGBA, CL_FLOAT, WIDE, HIGH), flat = buffer(&p, CL_MEM_READ_WRITE, 60);
  if (!image || !grey) skip();
  float pixels[HIGH * WIDE * 4], got[HIGH * WIDE * 4];
  const size_t first[3] = { 0 }, size[3] = { WIDE, HIGH, 1 };
  long before[WAITING];
  situ_ledger ledger;
  for (int i = 0; i < HIGH * WIDE * 4; i++) pixels[i] = (float)i / 8;
  assert_int_equal(clEnqueueWriteImage(p.queue, image, CL_TRUE, first, size, 0, 0, pixels, 0, NULL, NULL), CL_SUCCESS);
  situ_tensor *t = situ_empty(SITU_SHAPE(2, HIGH, WIDE, 4), &o), *half = situ_select(t, 0, 1);
  assert_non_null(situ_mul_scalar_(situ_fill_(t, 1), 1)); /* kernels are tried */
  for (int k = 0; k < WAITING; k++) before[k] = shim_calls(waiting[k]);
  situ_ledger_begin_none(&ledger);
  assert_int_equal(situ_copy_from_image(half, image), SITU_OK);
  assert_non_null(situ_mul_scalar_(half, 2));
  assert_int_equal(situ_copy_to_image(half, image), SITU_OK);
  assert_int_equal(situ_ledger_sum(&ledger, SITU_DEVICE_TO_DEVICE).count, 2);
  assert_int_equal(situ_ledger_total(&ledger).bytes, 2 * sizeof pixels);
  assert_int_equal(situ_ledger_end(&ledger), SITU_OK); /* and neither host nor another device has a part in it */
  for (int k = 0; k < WAITING; k++) assert_int_equal(shim_calls(waiting[k]), before[k]);
  assert_int_equal(clEnqueueReadImage(p.queue, image, CL_TRUE, first, size, 0, 0, got, 0, NULL, NULL), CL_SUCCESS);
  for (int i = 0; i < HIGH * WIDE * 4; i++) assert_true(got[i] == 2 * pixels[i]);
  situ_tensor *bytes = situ_zeros(SITU_SHAPE(HIGH, WIDE), &(situ_options){ .dtype = SITU_U8, .device = p.device });
  assert_int_equal(situ_copy_to_image(bytes, grey), SITU_OK);
  assert_int_equal(situ_copy_from_image(half, grey), SITU_E_DTYPE);
  expect_error(SITU_E_DTYPE, "copy_from_image", "the image has 1 channels of u8 (cl_image_format { 0x");
  assert_int_equal(situ_copy_from_image(situ_zeros(SITU_SHAPE(HIGH, WIDE + 1, 4), &o), image), SITU_E_SHAPE);
  expect_error(SITU_E_SHAPE, "copy_from_image", "the image is 3 high and 5 wide, and the tensor is 3 high and 6");
  assert_int_equal(situ_copy_from_image(situ_transpose(half, 0, 1), image), SITU_E_SHAPE);
  expect_error(SITU_E_SHAPE, "copy_from_image", "with gaps");
  assert_int_equal(situ_copy_from_image(half, strange), SITU_E_DEVICE);
  expect_error(SITU_E_DEVICE, "copy_from_image", "the image is of the context of opencl:");
  assert_int_equal(situ_copy_from_image(half, flat), SITU_E_ARG);
  expect_error(SITU_E_ARG, "copy_from_image", "it is a buffer: use situ_from_memory");
  assert_int_equal(situ_copy_to_image(half, NULL), SITU_E_ARG);
  expect_error(SITU_E_ARG, "copy_to_image", "`image` is NULL");
  assert_int_equal(situ_copy_to_image(situ_empty(SITU_SHAPE(HIGH, WIDE, 4), &o), image), SITU_E_STATE);
  expect_error(SITU_E_STATE, "copy_to_image", "holds no value yet");
  assert_int_equal(situ_copy_to_image(situ_ones(SITU_SHAPE(2, 2), NULL), image), SITU_E_UNSUPPORTED);
  expect_error(SITU_E_UNSUPPORTED, "copy_to_image", "cpu has no images");
  assert_int_equal(situ_copy_to_image(situ_ones(SITU_SHAPE(2, 2), &(situ_options){ .device = test_device() }), image),
                   SITU_E_DEVICE);
  expect_error(SITU_E_DEVICE, "copy_to_image", "opencl:0 is a device that situ has opened");
  cl_mem all[] = { image, grey, strange, flat };
  for (int k = 0; k < 4; k++) (void)clReleaseMemObject(all[k]);
  abandon_program(&q), abandon_program(&p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    TEST(a_replay_is_one_command_a_kernel),
    TEST(copies_between_contexts_wait_for_no_queue),
    TEST(images_are_copied_on_the_device),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
