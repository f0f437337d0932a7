/* test-links: situ_test_cuda */
/* A program's own stream and device memory on the double: work is queued behind its own without a wait, each wrong handle is
   refused by name, and what adopting makes is gone when the device is given back.
   SPDX-License-Identifier: MIT */
#include <pthread.h>

#include "situ/dlpack.h"
#include "situ/interop.h"
#include "support/cuda/double.h"
#include "support/test.h"

#define KIND "cuda"
#define STRANGE "is not CUDA's (cudaPointerGetAttributes: unregistered), and cuda:2 is on its device 0"
enum { FLOATS = 64, W = 6, H = 5 };

/* A program: its stream, its memory, and the device that situ has adopted. */
static cudaStream_t stream;
static float *memory;
static situ_device device;

static void adopt_stream(cudaStream_t queue) {
  const situ_foreign f = { .kind = SITU_CUDA, .queue = queue };
  assert_int_equal(situ_device_adopt(&f, &device), SITU_OK);
}

static void adopt(void) {
  for (int i = 0; i < FLOATS; i++) memory[i] = (float)i;
  adopt_stream(stream);
}

#include "support/adopted.h"

static void *own_alloc(void *payload, size_t bytes, void *queue) {
  account *a = payload;
  if (a->none || queue != stream || cudaMalloc(&a->newest, bytes) != cudaSuccess) return NULL;
  a->live++;
  return a->newest;
}

static void own_free(void *payload, void *handle, void *queue) {
  account *a = payload;
  a->live -= queue == stream && cudaFree(handle) == cudaSuccess;
}

static void adopt_with(account *a) {
  const situ_foreign f = { .kind = SITU_CUDA, .queue = stream, .alloc = own_alloc, .free = own_free, .payload = a };
  assert_int_equal(situ_device_adopt(&f, &device), SITU_OK);
}

static int open_program(void **state) {
  (void)state;
  assert_int_equal(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  return cudaMalloc((void **)&memory, FLOATS * sizeof *memory) != cudaSuccess;
}

static int close_program(void **state) {
  (void)state;
  return cudaFree(memory) != cudaSuccess || cudaStreamDestroy(stream) != cudaSuccess;
}

/* ---- order ------------------------------------------------------------------------------------ */

/* placement: A19, L3 */
static void nothing_waits_and_nothing_is_copied(void **state) {
  (void)state;
  const cuda_double *d = cuda_double_state();
  situ_ledger ledger;
  situ_scope scope;
  adopt();
  situ_scope_begin(&scope);
  situ_tensor *weight = situ_ones(SITU_SHAPE(1, 1, 3, 3), &(situ_options){ .device = device });
  situ_tensor *x = lend(&(situ_memory){ .handle = memory }, SITU_SHAPE(1, 1, H, W));
  situ_tensor *y = lend(&(situ_memory){ .handle = memory, .offset = 32 * sizeof *memory }, SITU_SHAPE(1, 1, 3, 4));
  const long waits = d->waits, copies = d->host_copies;
  for (int turn = 0; turn < 2; turn++) { /* plans are made in the first */
    situ_ledger_begin_none(&ledger);
    assert_int_equal(cudaMemsetAsync(memory, 0, 7 * sizeof *memory, stream), cudaSuccess);
    assert_non_null(situ_copy_(y, situ_conv2d(x, weight, NULL, NULL)));
    assert_int_equal(cudaMemsetAsync(memory + 43, 0, sizeof *memory, stream), cudaSuccess);
    assert_int_equal(situ_ledger_end(&ledger), SITU_OK);
  }
  assert_true(memory[1] == 1 && d->waits == waits && d->host_copies == copies);
  assert_int_equal(cudaStreamSynchronize(stream), cudaSuccess);
  const float want[] = { 7 + 8 + 12 + 13 + 14, 7 + 8 + 9 + 13 + 14 + 15 + 0 };
  assert_true(memory[0] == 0 && memory[32] == want[0] && memory[33] == want[1] && memory[43] == 0);
  assert_int_equal(situ_scope_end(&scope), SITU_OK);
  abandon();
}

static void events_order_streams(void **state) {
  (void)state;
  cudaStream_t second;
  cudaEvent_t filled;
  void *done = NULL;
  situ_scope scope;
  adopt();
  situ_scope_begin(&scope);
  assert_int_equal(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking), cudaSuccess);
  assert_int_equal(cudaEventCreateWithFlags(&filled, cudaEventDisableTiming), cudaSuccess);
  assert_int_equal(cudaMemsetAsync(memory, 0, 8, second), cudaSuccess);
  assert_int_equal(cudaEventRecord(filled, second), cudaSuccess);
  assert_int_equal(situ_device_wait_event(device, filled), SITU_OK);
  assert_non_null(situ_add_scalar_(lend(&(situ_memory){ .handle = memory }, SITU_SHAPE(2)), 3));
  assert_int_equal(situ_device_record_event(device, &done), SITU_OK);
  assert_int_equal(cudaStreamWaitEvent(second, done, 0), cudaSuccess);
  assert_int_equal(cudaMemcpyAsync(memory + 2, memory, 8, cudaMemcpyDeviceToDevice, second), cudaSuccess);
  const long waits = cuda_double_state()->waits;
  bool complete = true;
  assert_int_equal(situ_device_query_event(device, done, &complete), SITU_OK);
  assert_true(!complete && cuda_double_state()->waits == waits);
  assert_int_equal(cudaStreamSynchronize(second), cudaSuccess);
  assert_int_equal(situ_device_query_event(device, done, &complete), SITU_OK);
  assert_true(complete);
  assert_true(memory[2] == 3 && memory[3] == 3);
  assert_int_equal(cudaEventDestroy(filled), cudaSuccess);
  assert_int_equal(situ_device_release_event(device, done), SITU_OK);
  assert_int_equal(cudaStreamDestroy(second), cudaSuccess);
  cuda_double_state()->fail_name = "cudaStreamWaitEvent";
  cuda_double_state()->fail_error = cudaErrorInvalidResourceHandle;
  cuda_double_state()->fail_nth = 1;
  assert_int_equal(situ_device_wait_event(device, memory), SITU_E_ARG);
  expect_error(SITU_E_ARG, "device_wait_event", "event is not a cudaEvent_t");
  assert_int_equal(situ_scope_end(&scope), SITU_OK);
  abandon();
}

/* A copy to the host overtakes nothing of the program's, of which situ does not know. */
static void reads_wait_for_the_programs_work(void **state) {
  (void)state;
  situ_scope scope;
  adopt();
  situ_scope_begin(&scope);
  situ_tensor *x = lend(&(situ_memory){ .handle = memory }, SITU_SHAPE(2));
  float value = 1;
  assert_int_equal(cudaMemsetAsync(memory + 1, 0, sizeof value, stream), cudaSuccess);
  assert_int_equal(situ_copy_to_host(situ_select(x, 0, 1), &value, sizeof value), SITU_OK);
  assert_true(value == 0);
  assert_int_equal(situ_scope_end(&scope), SITU_OK);
  abandon();
}

/* Two streams of one device exchange tensors by events. */
/* placement: L1 */
static void copies_between_streams_stay_on_the_device(void **state) {
  (void)state;
  const cuda_double *d = cuda_double_state();
  situ_scope scope;
  adopt_stream(NULL); /* CUDA's default stream, a real one */
  const situ_device first = device;
  adopt();
  situ_scope_begin(&scope);
  const long waits = d->waits, copies = d->host_copies;
  situ_tensor *x = situ_full(SITU_SHAPE(4), 2, &(situ_options){ .device = first });
  situ_tensor *y = situ_add_scalar(situ_to(x, device), 1), *z = situ_neg(situ_to(y, first));
  situ_fill_(x, 9), situ_fill_(y, 9); /* after the copies */
  assert_true(d->waits == waits && d->host_copies == copies && d->peer_copies == 0);
  expect_exact(z, SITU_SHAPE(4), -3, -3, -3, -3);
  assert_int_equal(situ_scope_end(&scope), SITU_OK);
  abandon();
  assert_int_equal(situ_device_abandon(first), SITU_OK);
}

/* Of situ's own devices, to and from pageable and pinned memory of the host, and between devices. Streams of the double
   run nothing by themselves: what is read early would be what the memory held before. */
/* placement: A14, F1 */
static void copies_wait_for_nothing(void **state) {
  (void)state;
  const cuda_double *d = cuda_double_state();
  enum { N = 3 << 20 }; /* more than all chunks of a copy that is staged */
  const situ_options o = { .device = situ_dev("cuda:0") }, pinned = { .pinned = o.device };
  situ_scope scope;
  situ_scope_begin(&scope);
  const situ_device cpu = situ_dev("cpu"), second = situ_dev("cuda:1");
  situ_tensor *host[] = { situ_full(SITU_SHAPE(N), 1, NULL), situ_full(SITU_SHAPE(N), 1, &pinned) };
  assert_true(situ_is_pinned(host[1]) && !situ_is_pinned(host[0]));
  assert_non_null(situ_to(situ_to(host[0], o.device), second)); /* the way between the devices is tried */
  for (int k = 0; k < 3; k++) {
    const long waits = d->waits;
    situ_tensor *x = situ_to_non_blocking(host[k % 2], o.device);
    assert_non_null(situ_fill_(host[k % 2], 7)); /* its bytes are taken */
    situ_tensor *y = situ_to_non_blocking(situ_add_scalar(x, 1), cpu);
    situ_tensor *z = situ_to_non_blocking(x, second), *back = situ_to_non_blocking(situ_add_scalar(z, 2), cpu);
    assert_non_null(situ_fill_(x, -1)); /* behind the copies */
    assert_int_equal(d->waits, waits);
    const float want = k < 2 ? 1 : 7;
    assert_true(((const float *)situ_data_ptr(y))[N - 1] == want + 1);
    assert_true(((const float *)situ_data_ptr(back))[N - 1] == want + 2);
  }
  assert_int_equal(situ_scope_end(&scope), SITU_OK);
}

/* Of situ's own devices and of the program's: kernels run on the device of their operands, and the thread's current device
   is what it was. */
/* placement: I9 */
static void the_current_device_stays(void **state) {
  (void)state;
  adopt();
  assert_int_equal(cudaSetDevice(1), cudaSuccess);
  const situ_device devices[] = { situ_dev("cuda:0"), device };
  for (int k = 0; k < 2; k++) {
    situ_scope scope;
    int now = -1;
    situ_scope_begin(&scope);
    situ_tensor *y = situ_add_scalar(situ_full(SITU_SHAPE(2), 1, &(situ_options){ .device = devices[k] }), 1);
    assert_true(y && situ_device_equal(situ_device_of(y), devices[k]));
    assert_int_equal(situ_synchronize(devices[k]), SITU_OK);
    assert_int_equal(cudaGetDevice(&now), cudaSuccess);
    assert_int_equal(now, 1);
    expect_exact(y, SITU_SHAPE(2), 2, 2);
    assert_int_equal(situ_scope_end(&scope), SITU_OK);
    assert_int_equal(cudaGetDevice(&now), cudaSuccess);
    assert_int_equal(now, 1);
  }
  assert_int_equal(cudaSetDevice(0), cudaSuccess);
  abandon();
}

/* ---- memory ----------------------------------------------------------------------------------- */

static void memory_of_another_device_is_refused(void **state) {
  (void)state;
  float *other;
  adopt();
  assert_int_equal(cudaSetDevice(1), cudaSuccess);
  assert_int_equal(cudaMalloc((void **)&other, 64), cudaSuccess);
  refuse((situ_memory){ .handle = other }, SITU_E_DEVICE, "is on CUDA's device 1, and cuda:2 is on its device 0");
  int now = -1;
  assert_int_equal(cudaGetDevice(&now), cudaSuccess);
  assert_int_equal(now, 1); /* the program's own choice */
  assert_int_equal(cudaFree(other), cudaSuccess);
  assert_int_equal(cudaSetDevice(0), cudaSuccess);
  const situ_memory m = { .handle = memory };
  expect_refused(situ_from_memory(&m, SITU_SHAPE(1), &(situ_options){ .device = situ_dev("cuda:0") }), SITU_E_DEVICE,
                 "from_memory", "cuda:0 is a device that situ has opened");
  abandon();
}

static void pinned_memory_is_used_in_place(void **state) {
  (void)state;
  float *pinned;
  situ_scope scope;
  adopt();
  situ_scope_begin(&scope);
  assert_int_equal(cudaHostAlloc((void **)&pinned, 8, cudaHostAllocMapped), cudaSuccess);
  pinned[0] = 1, pinned[1] = 2;
  situ_tensor *x = lend(&(situ_memory){ .handle = pinned }, SITU_SHAPE(2));
  float values[2];
  assert_non_null(situ_add_scalar_(x, 1));
  assert_int_equal(situ_copy_to_host(x, values, sizeof values), SITU_OK);
  assert_true(pinned[1] == 3 && values[0] == 2 && values[1] == 3);
  assert_int_equal(situ_scope_end(&scope), SITU_OK);
  abandon();
  assert_int_equal(cudaFreeHost(pinned), cudaSuccess);
}

/* ---- DLPack ----------------------------------------------------------------------------------- */

static void free_managed(situ_dlpack_versioned *self) { ++*(int *)self->manager; }

/* What another library gives out of the program's memory. */
static situ_dlpack_versioned produce(int32_t type, int64_t *shape, int *freed) {
  return (situ_dlpack_versioned){ .major = 1,
                                  .manager = freed,
                                  .deleter = free_managed,
                                  .tensor = { .data = memory,
                                              .device_type = type,
                                              .ndim = 1,
                                              .code = 2,
                                              .bits = 32,
                                              .lanes = 1,
                                              .shape = shape,
                                              .byte_offset = 8 } };
}

static void expect_foreign(situ_dlpack_versioned m, situ_device on, situ_status status, const char *part) {
  int *freed = m.manager;
  *freed = 0;
  expect_refused(situ_from_dlpack_on(&m, SITU_DLPACK_VERSIONED, on), status, "from_dlpack_on", part);
  assert_int_equal(*freed, 1);
}

/* placement: A19 */
static void tensors_come_in_by_dlpack(void **state) {
  (void)state;
  int64_t shape[] = { 3 };
  int freed = 0;
  situ_scope scope;
  adopt();
  situ_dlpack_versioned m = produce(2, shape, &freed), none = m;
  situ_scope_begin(&scope);
  situ_tensor *x = situ_from_dlpack_on(&m, SITU_DLPACK_VERSIONED, device);
  expect_exact(situ_add_scalar_(x, 1), SITU_SHAPE(3), 3, 4, 5);
  assert_true(memory[2] == 3);
  none.flags = 1;
  expect_refused(situ_add_scalar_(situ_from_dlpack_on(&none, SITU_DLPACK_VERSIONED, device), 1), SITU_E_STATE,
                 "add_scalar_", "is read-only memory");
  assert_int_equal(freed, 0);
  assert_int_equal(situ_scope_end(&scope), SITU_OK);
  assert_int_equal(freed, 2);
  expect_foreign(produce(1, shape, &freed), device, SITU_E_DEVICE, "on the host, its device 0 (type 1), which cuda:2");
  expect_foreign(produce(4, shape, &freed), device, SITU_E_DEVICE, "on OpenCL device 0 (type 4)");
  expect_foreign(produce(2, shape, &freed), situ_dev("cpu"), SITU_E_DEVICE, "or use situ_from_dlpack_on");
  expect_foreign(produce(2, shape, &freed), situ_dev("cuda:0"), SITU_E_DEVICE, "is a device that situ has opened");
  none = produce(2, shape, &freed);
  none.tensor.data = &freed;
  expect_foreign(none, device, SITU_E_DEVICE, "is not CUDA's");
  shape[0] = FLOATS;
  expect_foreign(produce(2, shape, &freed), device, SITU_E_SHAPE, "the memory has 248 bytes");
  shape[0] = 0;
  none = produce(2, shape, &freed);
  none.tensor.data = NULL;
  freed = 0;
  situ_scope_begin(&scope);
  assert_int_equal(situ_numel(situ_from_dlpack_on(&none, SITU_DLPACK_VERSIONED, device)), 0);
  assert_int_equal(situ_scope_end(&scope), SITU_OK);
  assert_int_equal(freed, 1);
  abandon();
}

/* The consumer's stream waits for what is queued, and the host for nothing. */
static void tensors_go_out_by_dlpack(void **state) {
  (void)state;
  const cuda_double *d = cuda_double_state();
  cudaStream_t consumer;
  situ_scope scope;
  adopt();
  assert_int_equal(cudaStreamCreateWithFlags(&consumer, cudaStreamNonBlocking), cudaSuccess);
  for (int versioned = 0; versioned < 2; versioned++) {
    const situ_dlpack_abi abi = versioned ? SITU_DLPACK_VERSIONED : SITU_DLPACK_UNVERSIONED;
    situ_scope_begin(&scope);
    situ_tensor *x = situ_full(SITU_SHAPE(2, 3), 5 + versioned, &(situ_options){ .device = device });
    const long waits = d->waits;
    void *managed = situ_to_dlpack_for(situ_select(x, 0, 1), abi, consumer);
    assert_non_null(managed);
    situ_dlpack_versioned *v = managed;
    situ_dlpack_unversioned *u = managed;
    const situ_dlpack_tensor *t = versioned ? &v->tensor : &u->tensor;
    assert_true(t->device_type == 2 && t->device_id == 0 && t->ndim == 1 && t->shape[0] == 3 && t->byte_offset == 0);
    assert_int_equal(cudaMemcpyAsync(memory, t->data, 12, cudaMemcpyDefault, consumer), cudaSuccess);
    assert_int_equal(d->waits, waits);
    assert_int_equal(situ_scope_end(&scope), SITU_OK); /* the consumer still has it */
    assert_int_equal(situ_device_abandon(device), SITU_E_STATE);
    expect_error(SITU_E_STATE, "device_abandon", "1 tensor lives on cuda:2");
    assert_int_equal(cudaStreamSynchronize(consumer), cudaSuccess);
    assert_true(memory[0] == 5.f + (float)versioned && memory[2] == memory[0]);
    if (versioned) v->deleter(v);
    else u->deleter(u);
  }
  situ_scope_begin(&scope);
  situ_tensor *x = lend(&(situ_memory){ .handle = memory, .read_only = true }, SITU_SHAPE(2));
  situ_dlpack_versioned *m = situ_to_dlpack_for(x, SITU_DLPACK_VERSIONED, NULL);
  assert_true(m && m->flags == 1 && m->tensor.data == memory);
  m->deleter(m);
  expect_refused(situ_to_dlpack_for(x, SITU_DLPACK_UNVERSIONED, NULL), SITU_E_STATE, "to_dlpack_for", "is read-only");
  expect_refused(situ_to_dlpack(x, SITU_DLPACK_VERSIONED), SITU_E_DEVICE, "to_dlpack", "is on cuda:2");
  situ_tensor *own = situ_ones(SITU_SHAPE(1), &(situ_options){ .device = situ_dev("cuda:0") });
  expect_refused(situ_to_dlpack_for(own, SITU_DLPACK_VERSIONED, NULL), SITU_E_DEVICE, "to_dlpack_for",
                 "is a device that situ has opened");
  cuda_double_state()->fail_name = "cudaStreamWaitEvent";
  cuda_double_state()->fail_error = cudaErrorInvalidResourceHandle;
  cuda_double_state()->fail_nth = 1;
  expect_refused(situ_to_dlpack_for(situ_neg(x), SITU_DLPACK_VERSIONED, consumer), SITU_E_ARG, "to_dlpack_for",
                 "queue is not a cudaStream_t");
  assert_int_equal(situ_scope_end(&scope), SITU_OK);
  assert_int_equal(cudaStreamDestroy(consumer), cudaSuccess);
  abandon();
}

/* ---- handles ---------------------------------------------------------------------------------- */

static void refuse_handles(situ_foreign f, const char *part) {
  situ_device out = { SITU_CPU, 0 };
  f.kind = SITU_CUDA;
  assert_int_equal(situ_device_adopt(&f, &out), SITU_E_ARG);
  expect_error(SITU_E_ARG, "device_adopt", part);
  assert_int_equal(out.kind, SITU_CPU);
}

static void *primary_context(void) {
  int (*retain)(void **context, int device) = NULL;
  enum cudaDriverEntryPointQueryResult result;
  void *found = NULL, *context = NULL;
  assert_int_equal(cudaGetDriverEntryPointByVersion("cuDevicePrimaryCtxRetain", &found, 13000, 0, &result),
                   cudaSuccess);
  memcpy(&retain, &found, sizeof retain);
  assert_int_equal(retain(&context, 0), 0);
  return context;
}

static void wrong_handles_are_refused(void **state) {
  (void)state;
  int one = 1, many = 9;
  char both[96];
  void *primary = primary_context();
  snprintf(both, sizeof both,
           "foreign->context is %p, and situ works in the primary context of CUDA's device 0, which is %p",
           (void *)&one, primary);
  refuse_handles((situ_foreign){ .queue = stream, .context = &one }, both);
  situ_foreign f = { .kind = SITU_CUDA, .queue = stream, .context = primary };
  assert_int_equal(situ_device_adopt(&f, &device), SITU_OK);
  abandon();
  refuse_handles((situ_foreign){ .queue = cudaStreamPerThread }, "another stream in each thread");
  refuse_handles((situ_foreign){ .queue = memory }, "is not a cudaStream_t (cudaStreamGetDevice: ");
  refuse_handles((situ_foreign){ .queue = stream, .device = &one }, "is of CUDA's device 0, and *foreign->device is 1");
  refuse_handles((situ_foreign){ .device = &many }, "*foreign->device is 9, and CUDA has 2 devices");
  cuda_double_state()->fail_name = "cudaEventRecord";
  cuda_double_state()->fail_error = cudaErrorInvalidResourceHandle;
  cuda_double_state()->fail_nth = 1;
  refuse_handles((situ_foreign){ .queue = stream }, "takes no event of the primary context of CUDA's device 0");
  adopt();
  abandon();
}

static void *use(void *own) {
  situ_scope scope;
  cudaStream_t mine;
  situ_device there;
  float *values;
  long *good = own;
  if (cudaStreamCreateWithFlags(&mine, cudaStreamNonBlocking) || cudaMalloc((void **)&values, 400)) return NULL;
  for (int turn = 0; turn < 8; turn++) {
    const situ_foreign f = { .kind = SITU_CUDA, .queue = mine };
    const situ_memory m = { .handle = values };
    if (situ_device_adopt(&f, &there) != SITU_OK) return NULL;
    situ_scope_begin(&scope);
    situ_tensor *x = situ_from_memory(&m, SITU_SHAPE(10, 10), &(situ_options){ .device = there });
    situ_fill_(x, turn);
    double sum = 0;
    *good += situ_item(situ_sum(situ_matmul(x, x), NULL), &sum) == SITU_OK && sum == 1000.0 * turn * turn;
    if (situ_scope_end(&scope) != SITU_OK || situ_device_abandon(there) != SITU_OK) return NULL;
  }
  (void)cudaFree(values), (void)cudaStreamDestroy(mine);
  return own;
}

static void threads_have_streams_of_their_own(void **state) {
  (void)state;
  enum { THREADS = 4 };
  pthread_t thread[THREADS];
  long good[THREADS] = { 0 };
  for (int k = 0; k < THREADS; k++) assert_int_equal(pthread_create(&thread[k], NULL, use, &good[k]), 0);
  for (int k = 0; k < THREADS; k++) {
    void *ended;
    assert_int_equal(pthread_join(thread[k], &ended), 0);
    assert_ptr_equal(ended, &good[k]);
    assert_int_equal(good[k], 8);
  }
}

/* ---- what is left ----------------------------------------------------------------------------- */

enum { ALIVE = 8 };
static void count_alive(long alive[ALIVE]) {
  const cuda_double *d = cuda_double_state();
  const long now[ALIVE] = { d->streams, d->events,  d->pinned,  d->pools_open,
                            d->blocks,  d->started, d->handles, d->orphans ? d->orphans() : d->described };
  memcpy(alive, now, sizeof now);
}

/* A product and a convolution, so that libraries have state there; values from the host and back. */
static situ_status work_there(void) {
  situ_scope scope;
  situ_scope_begin(&scope);
  const situ_options o = { .device = device };
  situ_tensor *x = situ_from_host(memory, 16 * sizeof *memory, SITU_SHAPE(1, 1, 4, 4), &o);
  situ_tensor *y = situ_conv2d(x, situ_ones(SITU_SHAPE(1, 1, 3, 3), &o), NULL, NULL);
  double value = 0;
  SITU_IGNORE(situ_item(situ_sum(situ_matmul(x, x), NULL), &value));
  SITU_IGNORE(situ_item(situ_sum(y, NULL), &value));
  return situ_scope_end(&scope);
}

static void nothing_is_left_behind(void **state) {
  (void)state;
  long before[ALIVE], after[ALIVE];
  for (int turn = 0; turn < 3; turn++) {
    if (turn == 1) count_alive(before);
    adopt();
    assert_int_equal(work_there(), SITU_OK);
    abandon();
  }
  count_alive(after);
  assert_memory_equal(before, after, sizeof before);
}

/* Each call of CUDA's fails once while a device is adopted: nothing is adopted, and nothing is left. */
static void failed_calls_adopt_nothing(void **state) {
  (void)state;
  cuda_double *d = cuda_double_state();
  const situ_foreign f = { .kind = SITU_CUDA, .queue = stream };
  bool failed = true;
  for (long nth = 1; failed; nth++) {
    long before[ALIVE], after[ALIVE];
    count_alive(before);
    d->failed = 0;
    d->fail_name = NULL;
    d->fail_error = nth % 2 ? cudaErrorMemoryAllocation : cudaErrorUnknown;
    d->fail_nth = nth;
    const situ_status status = situ_device_adopt(&f, &device);
    failed = d->failed;
    d->fail_nth = 0;
    if (status != SITU_OK) {
      expect_error(status, "device_adopt", "");
      count_alive(after);
      assert_memory_equal(before, after, sizeof before);
    } else {
      assert_int_equal(work_there(), SITU_OK);
      abandon();
    }
  }
  assert_int_equal(cudaStreamSynchronize(stream), cudaSuccess); /* the stream is well */
}

/* Of a lost device nothing is left either, and the next one at its index is well. */
static void lost_devices_are_given_back(void **state) {
  (void)state;
  cuda_double *d = cuda_double_state();
  long before[ALIVE], after[ALIVE];
  count_alive(before);
  adopt();
  assert_int_equal(work_there(), SITU_OK);
  d->fail_name = "cudaLaunchKernel";
  d->fail_error = cudaErrorUnknown;
  d->fail_nth = 1;
  assert_int_equal(work_there(), SITU_E_LOST);
  situ_error_clear();
  abandon();
  count_alive(after);
  after[4] = before[4]; /* freeing on a lost device does nothing */
  assert_memory_equal(before, after, sizeof before);
  adopt();
  assert_int_equal(work_there(), SITU_OK);
  abandon();
}

static void wrong_indices_are_reported_late(void **state) {
  (void)state;
  static const int64_t index[] = { 0, 9 };
  situ_scope scope;
  adopt();
  situ_scope_begin(&scope);
  const situ_options whole = { .dtype = SITU_I64, .device = device };
  situ_tensor *x = lend(&(situ_memory){ .handle = memory }, SITU_SHAPE(3));
  assert_non_null(situ_index_select(x, 0, situ_from_host(index, sizeof index, SITU_SHAPE(2), &whole)));
  assert_int_equal(situ_scope_end(&scope), SITU_OK);
  assert_int_equal(situ_device_abandon(device), SITU_E_INDEX);
  expect_error(SITU_E_INDEX, "gather", "index 9 at [1]");
  assert_false(situ_device_is_available(device));
}

int main(void) {
  const struct CMUnitTest tests[] = {
    ADOPTED_CASES,
    TEST(nothing_waits_and_nothing_is_copied),
    TEST(events_order_streams),
    TEST(reads_wait_for_the_programs_work),
    TEST(copies_between_streams_stay_on_the_device),
    TEST(copies_wait_for_nothing),
    TEST(the_current_device_stays),
    TEST(memory_of_another_device_is_refused),
    TEST(pinned_memory_is_used_in_place),
    TEST(tensors_come_in_by_dlpack),
    TEST(tensors_go_out_by_dlpack),
    TEST(wrong_handles_are_refused),
    TEST(threads_have_streams_of_their_own),
    TEST(nothing_is_left_behind),
    TEST(failed_calls_adopt_nothing),
    TEST(lost_devices_are_given_back),
    TEST(wrong_indices_are_reported_late),
  };
  return cmocka_run_group_tests(tests, open_program, close_program);
}
