/* test-devices: opencl:0 only */
/* test-sanitized: opencl */
/* test-links: situ_test_shim OpenCL::OpenCL */
/* What an adopted queue exchanges with others of its context: tensors by events and by DLPack, and memory of the program's
   allocator.
   SPDX-License-Identifier: MIT */
#include "situ/dlpack.h"
#include "support/opencl/program.h"

/* Two queues of one context exchange tensors by events. The first stands still: no call waits, and no copy overtakes. */
static void copies_between_queues_stay_on_the_device(void **state) {
  (void)state;
  program p = adopt_program(), q = { .id = p.id, .context = p.context };
  cl_int error;
  long before[WAITING];
  q.queue = clCreateCommandQueue(p.context, p.id, 0, &error);
  const situ_foreign f = handles(&q);
  assert_int_equal(situ_device_adopt(&f, &q.device), SITU_OK);
  for (int turn = 0; turn < 2; turn++) { /* at first kernels are compiled and tried */
    situ_scope scope;
    situ_scope_begin(&scope);
    cl_event gate = clCreateUserEvent(p.context, &error);
    for (int k = 0; k < WAITING; k++) before[k] = shim_calls(waiting[k]);
    assert_int_equal(situ_device_wait_event(p.device, gate), SITU_OK);
    situ_tensor *x = situ_full(SITU_SHAPE(4), 2 + turn, &(situ_options){ .device = p.device });
    situ_tensor *y = situ_to(x, q.device), *z = situ_to(situ_neg(y), p.device);
    situ_fill_(x, 9), situ_fill_(y, 9); /* after the copies */
    for (int k = 0; turn && k < WAITING; k++) assert_int_equal(shim_calls(waiting[k]), before[k]);
    assert_int_equal(clSetUserEventStatus(gate, CL_COMPLETE), CL_SUCCESS);
    expect_exact(z, SITU_SHAPE(4), -2 - turn, -2 - turn, -2 - turn, -2 - turn);
    assert_int_equal(situ_scope_end(&scope), SITU_OK);
    (void)clReleaseEvent(gate);
  }
  assert_int_equal(situ_device_abandon(q.device), SITU_OK);
  (void)clReleaseCommandQueue(q.queue);
  abandon_program(&p);
}

typedef struct account {
  cl_context context;
  long live;
  bool none;
} account;

static void *own_alloc(void *payload, size_t bytes, void *queue) {
  account *a = payload;
  cl_int error;
  void *made = a->none || !queue ? NULL : clCreateBuffer(a->context, CL_MEM_READ_WRITE, bytes, NULL, &error);
  a->live += made != NULL;
  return made;
}

static void own_free(void *payload, void *handle, void *queue) {
  ((account *)payload)->live -= queue && clReleaseMemObject(handle) == CL_SUCCESS;
}

static void memory_is_of_the_programs_allocator(void **state) {
  (void)state;
  program p = open_program();
  account a = { .context = p.context };
  const situ_foreign f = { .kind = SITU_OPENCL, .queue = p.queue, .alloc = own_alloc, .free = own_free, .payload = &a };
  assert_int_equal(situ_device_adopt(&f, &p.device), SITU_OK);
  situ_scope_begin(&p.scope);
  situ_tensor *x = situ_full(SITU_SHAPE(100), 2, &(situ_options){ .device = p.device });
  assert_true(a.live > 0);
  a.none = true;
  expect_refused(situ_zeros(SITU_SHAPE(1 << 16), &(situ_options){ .device = p.device }), SITU_E_NOMEM, "zeros",
                 "no memory for 256.0 KiB on opencl:");
  a.none = false;
  expect_exact(situ_sum(x, NULL), SITU_SCALAR, 200);
  abandon_program(&p);
  assert_int_equal(a.live, 0);
}

static void tensors_go_out_and_in_by_dlpack(void **state) {
  (void)state;
  program p = adopt_program();
  cl_int error;
  cl_command_queue second = clCreateCommandQueue(p.context, p.id, 0, &error);
  situ_tensor *x = situ_full(SITU_SHAPE(2, 3), 5, &(situ_options){ .device = p.device });
  situ_dlpack_versioned *m = situ_to_dlpack_for(situ_select(x, 0, 1), SITU_DLPACK_VERSIONED, second);
  assert_true(m && m->tensor.device_type == 4 && m->tensor.byte_offset % 4 == 0);
  float value = 0;
  assert_int_equal(
      clEnqueueReadBuffer(second, m->tensor.data, CL_TRUE, m->tensor.byte_offset, sizeof value, &value, 0, NULL, NULL),
      CL_SUCCESS);
  assert_true(value == 5);
  situ_tensor *y = situ_from_dlpack_on(m, SITU_DLPACK_VERSIONED, p.device); /* which owns it now */
  expect_exact(situ_add_scalar_(y, 1), SITU_SHAPE(3), 6, 6, 6);
  expect_exact(situ_select(x, 0, 1), SITU_SHAPE(3), 6, 6, 6);
  program stranger = open_program();
  expect_refused(situ_to_dlpack_for(x, SITU_DLPACK_VERSIONED, stranger.queue), SITU_E_ARG, "to_dlpack_for",
                 "queue is not a cl_command_queue of the context of opencl:");
  close_program(&stranger);
  (void)clReleaseCommandQueue(second);
  abandon_program(&p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    TEST(copies_between_queues_stay_on_the_device),
    TEST(memory_is_of_the_programs_allocator),
    TEST(tensors_go_out_and_in_by_dlpack),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
