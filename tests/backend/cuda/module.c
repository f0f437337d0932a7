/* The cuda module on its double: what it says of itself where something is missing, memory, copies between all kinds of
   device, devices that are lost, forks.
   SPDX-License-Identifier: MIT */
/* test-links: situ_test_cuda */
#include <pthread.h>
#include <string.h>

#include "backend/cuda/cuda.h"
#include "device/block_cache.h"
#include "device/launch/launch.h"
#include "situ/sys/sim.h"
#include "support/cuda/child.h"
#include "support/cuda/double.h"
#include "support/test.h"

static void run(void (*body)(void *)) { assert_int_equal(in_child(body, NULL), 0); }
#define IN_CHILD(name)             \
  static void name(void **state) { \
    (void)state;                   \
    run(name##_body);              \
  }

/* ---- what is missing ------------------------------------------------------------------------ */

static void says(int count, const char *text) {
  const char *status = situ_device_status("cuda");
  if (strstr(status, text) == NULL) (void)fprintf(stderr, "it says: %s\n", status);
  CHECK(strstr(status, text) != NULL);
  CHECK(situ_device_count("cuda") == count);
  CHECK(situ_cuda_is_available() == (count > 0));
}

/* A library's directory beside the double's. */
static void use_directory(const char *name) {
  char path[4096];
  const char *doubles = getenv("SITU_CUDA_PATH");
  CHECK(doubles != NULL);
  (void)snprintf(path, sizeof path, "%s/../%s", doubles, name);
  CHECK(setenv("SITU_CUDA_PATH", path, 1) == 0);
}

static void no_module_body(void *payload) {
  (void)payload;
  CHECK(setenv("SITU_MODULE_DIR", "/nowhere", 1) == 0);
  says(0, "this build has no cuda module (looked for /nowhere/libsitu-cuda.so)");
}
static void no_runtime_body(void *payload) {
  (void)payload;
  use_directory("nowhere");
  says(0, "the CUDA runtime cannot be used: ");
  says(0, "nowhere/libcudart.so.13: cannot open shared object file");
  says(0, "set SITU_CUDA_PATH");
}
static void relative_path_body(void *payload) {
  (void)payload;
  CHECK(setenv("SITU_CUDA_PATH", ".", 1) == 0); /* nowhere else is looked, though it could be found */
  says(0, "SITU_CUDA_PATH is \".\", which is not an absolute directory");
}
static void no_symbol_body(void *payload) {
  (void)payload;
  use_directory("empty");
  says(0, "libcudart.so.13 has no cudaRuntimeGetVersion");
}
static void other_runtime_body(void *payload) {
  (void)payload;
  cuda_double_state()->runtime = 14010;
  says(0, "the CUDA runtime is 14.1, and this module was built for 13");
}
static void no_driver_body(void *payload) {
  (void)payload;
  cuda_double_state()->driver = 0;
  says(0, "is there, but no NVIDIA driver (libcuda.so.1)");
}
static void old_driver_body(void *payload) {
  (void)payload;
  cuda_double_state()->driver = 12020;
  says(0, "the NVIDIA driver is too old: it knows CUDA 12.2, the runtime is 13.");
}
static void no_device_body(void *payload) {
  (void)payload;
  cuda_double_state()->devices = 0;
  says(0, "but no device that it gives out");
  CHECK(situ_ones(SITU_SHAPE(1), &(situ_options){ .device = { SITU_CUDA, 0 } }) == NULL);
  CHECK_ERROR(SITU_E_UNSUPPORTED, "cuda:0 is not there: the NVIDIA driver is there");
}
static void counting_fails_body(void *payload) {
  (void)payload;
  cuda_double_state()->fail_name = "cudaGetDeviceCount";
  cuda_double_state()->fail_nth = 1;
  cuda_double_state()->fail_error = cudaErrorUnknown;
  says(0, "the devices cannot be counted: ");
  says(0, ", 999)");
}
static void two_devices_body(void *payload) {
  (void)payload;
  says(2, "2 devices, driver 13.");
  situ_device_properties p;
  CHECK(situ_device_info(situ_dev("cuda:1"), &p) == SITU_OK);
  CHECK(strcmp(p.name, "double, no GPU") == 0);
  CHECK(strstr(p.driver, "compute 9.0, driver 13.") != NULL);
  CHECK(p.memory_total == cuda_double_state()->budget);
  CHECK(p.dtypes >> SITU_F64 & 1 && p.dtypes >> SITU_BF16 & 1);
  CHECK(strcmp(p.uuid, "d0010203-0405-0607-0809-0a0b0c0d0e01") == 0 && strcmp(p.pci, "0001:66:00.0") == 0);
  CHECK(situ_device_equal(situ_dev("cuda:uuid=GPU-d0010203-0405-0607-0809-0a0b0c0d0e01"), situ_dev("cuda:1")));
  CHECK(situ_device_equal(situ_dev("cuda:pci=00000001:65:00.0"), situ_dev("cuda:0")));
  /* Another API gives out the same chip. */
  CHECK(situ_sim_create(1) == SITU_OK && situ_sim_identify(0, NULL, "0001:66:00.0") == SITU_OK);
  CHECK(situ_device_same_chip(situ_dev("sim:0"), situ_dev("cuda:1")));
  CHECK(!situ_device_same_chip(situ_dev("sim:0"), situ_dev("cuda:0")));
  CHECK(cuda_double_state()->streams == 0); /* to look at a device starts nothing on it */
}
IN_CHILD(no_module)
IN_CHILD(no_runtime)
IN_CHILD(relative_path)
IN_CHILD(no_symbol)
IN_CHILD(other_runtime)
IN_CHILD(no_driver)
IN_CHILD(old_driver)
IN_CHILD(no_device)
IN_CHILD(counting_fails)
IN_CHILD(two_devices)

/* ---- memory and copies ---------------------------------------------------------------------- */

static unsigned char *numbers(size_t bytes) {
  unsigned char *out = malloc(bytes);
  CHECK(out != NULL);
  for (size_t i = 0; i < bytes; i++) out[i] = (unsigned char)(i * 7 + (i >> 8));
  return out;
}

/* Odd places, through every pair of memories; small, and larger than what is staged at once. */
static void copy_between(situ_device a, situ_device b, size_t bytes) {
  unsigned char *out = numbers(bytes), *in = calloc(bytes, 1);
  CHECK(in != NULL);
  situ_storage *from = situ__storage_new("test", a, bytes), *to = situ__storage_new("test", b, bytes);
  CHECK(from && to);
  CHECK(situ__copy_from_host("test", from, 0, out, bytes, SITU__COPY_USER) == SITU_OK);
  CHECK(situ__copy_from_host("test", to, 0, in, bytes, SITU__COPY_USER) == SITU_OK);
  memset(in, 0xEE, bytes); /* what was copied in is the library's from then on */
  CHECK(situ__copy_storage("test", to, 17, from, 5, bytes - 40, SITU__COPY_USER) == SITU_OK);
  CHECK(situ__copy_to_host("test", to, 0, in, bytes, SITU__COPY_USER) == SITU_OK);
  CHECK(memcmp(in + 17, out + 5, bytes - 40) == 0);
  CHECK(in[16] == 0 && in[bytes - 23] == 0);
  situ__storage_release(from);
  situ__storage_release(to);
  free(out);
  free(in);
}

static void copy_everywhere(void) {
  const char *const name[] = { "cpu", "cuda:0", "cuda:1", "sim:0" };
  for (int a = 0; a < 4; a++)
    for (int b = 0; b < 4; b++)
      for (int large = 0; large < 2; large++)
        copy_between(situ_dev(name[a]), situ_dev(name[b]), large ? 5000001 : 1000);
}

static void empty_caches(void) {
  const long trims = cuda_double_state()->trims;
  CHECK(situ_empty_cache(situ_dev("cuda:0")) == SITU_OK);
  CHECK(situ_empty_cache(situ_dev("cuda:1")) == SITU_OK);
  /* the driver's pools keep nothing either */
  CHECK(cuda_double_state()->trims == trims + (cuda_double_state()->pools ? 2 : 0));
  CHECK(situ_synchronize(situ_dev("cuda:0")) == SITU_OK);
  CHECK(situ_synchronize(situ_dev("cuda:1")) == SITU_OK);
  CHECK(cuda_double_state()->blocks == 0);
}

/* A way that works is gone, after one copy that tried it each way; one that does not, is not. */
static void copies_body(void *payload) {
  cuda_double *d = cuda_double_state();
  d->peers = *(cuda_double_peers *)payload;
  copy_everywhere();
  const long expected[] = {
    [CUDA_DOUBLE_PEERS_RIGHT] = 6, [CUDA_DOUBLE_PEERS_NONE] = 0, [CUDA_DOUBLE_PEERS_GARBLED] = 2
  };
  CHECK(d->peer_copies == expected[d->peers]);
  empty_caches();
}
static void copies(void **state) {
  (void)state;
  for (cuda_double_peers peers = CUDA_DOUBLE_PEERS_RIGHT; peers <= CUDA_DOUBLE_PEERS_GARBLED; peers++)
    assert_int_equal(in_child(copies_body, &peers), 0);
}

static void without_pools_body(void *payload) {
  (void)payload;
  cuda_double_peers peers = CUDA_DOUBLE_PEERS_RIGHT;
  cuda_double_state()->pools = false;
  copies_body(&peers);
}
IN_CHILD(without_pools)

static void put(situ_storage *to, int value) {
  CHECK(situ__copy_from_host("test", to, 0, &value, sizeof value, SITU__COPY_USER) == SITU_OK);
}
static int get(situ_storage *from) {
  int value = 0;
  CHECK(situ__copy_to_host("test", from, 0, &value, sizeof value, SITU__COPY_USER) == SITU_OK);
  return value;
}

/* What is written to the source after a copy to another device is not what arrives there, whichever device is waited for
   first; and memory that was let go of meanwhile is not given out before it was read. */
static void peers_in_order_body(void *payload) {
  (void)payload;
  situ_storage *a = situ__storage_new("test", situ_dev("cuda:0"), sizeof(int)),
               *b = situ__storage_new("test", situ_dev("cuda:1"), sizeof(int));
  CHECK(a && b);
  for (int k = 1; k < 4; k++) {
    put(a, k);
    CHECK(situ__copy_storage("test", b, 0, a, 0, sizeof(int), SITU__COPY_USER) == SITU_OK);
    put(a, -k);
    CHECK(get(a) == -k);
    CHECK(get(b) == k);
  }
  CHECK(cuda_double_state()->peer_copies == 4);
  put(a, 9);
  CHECK(situ__copy_storage("test", b, 0, a, 0, sizeof(int), SITU__COPY_USER) == SITU_OK);
  situ__storage_release(a);
  CHECK(situ_empty_cache(situ_dev("cuda:0")) == SITU_OK);
  CHECK(situ_synchronize(situ_dev("cuda:0")) == SITU_OK);
  CHECK(get(b) == 9);
  situ__storage_release(b);
}
IN_CHILD(peers_in_order)

/* A copy of pinned memory is done at return, and passes through no other. */
static void pinned_body(void *payload) {
  (void)payload;
  enum { BYTES = 10 << 20 };
  unsigned char *out = numbers(BYTES), *host = NULL;
  CHECK(cudaHostAlloc((void **)&host, BYTES, 0) == cudaSuccess);
  situ_storage *there = situ__storage_new("test", situ_dev("cuda:0"), BYTES);
  CHECK(there != NULL);
  long pinned = cuda_double_state()->pinned;
  memcpy(host, out, BYTES);
  CHECK(situ__copy_from_host("test", there, 0, host, BYTES, SITU__COPY_USER) == SITU_OK);
  memset(host, 0, BYTES);
  CHECK(situ__copy_to_host("test", there, 0, host, BYTES, SITU__COPY_USER) == SITU_OK);
  CHECK(memcmp(host, out, BYTES) == 0);
  CHECK(cuda_double_state()->pinned == pinned);
  situ__storage_release(there);
  CHECK(cudaFreeHost(host) == cudaSuccess);
  free(out);
}
IN_CHILD(pinned)

/* A small copy in waits for nobody, whatever happens to the source. */
static void not_waited_for_body(void *payload) {
  (void)payload;
  int value = 0, seen[1000];
  situ_storage *there = situ__storage_new("test", situ_dev("cuda:0"), sizeof seen);
  CHECK(there != NULL);
  for (value = 0; value < 1000; value++)
    CHECK(situ__copy_from_host("test", there, (size_t)value * sizeof value, &value, sizeof value, SITU__COPY_USER) ==
          SITU_OK);
  CHECK(cuda_double_state()->pending >= 1000);
  CHECK(situ__copy_to_host("test", there, 0, seen, sizeof seen, SITU__COPY_USER) == SITU_OK);
  for (int k = 0; k < 1000; k++) CHECK(seen[k] == k);
  situ__storage_release(there);
}
IN_CHILD(not_waited_for)

/* ---- order between streams ------------------------------------------------------------------ */

enum {
  OPS = 100,
  MANY = 18 << 20 /* more pieces than there is room for, so that some are waited for */
};

static void fill(situ_storage *to, unsigned char *host, int value) {
  memset(host, value, MANY);
  CHECK(situ__copy_from_host("test", to, 0, host, MANY, SITU__COPY_USER) == SITU_OK);
}
static void expect_filled(situ_storage *from, unsigned char *host, int value) {
  CHECK(situ__copy_to_host("test", from, 0, host, MANY, SITU__COPY_USER) == SITU_OK);
  for (size_t i = 0; i < MANY; i++) CHECK(host[i] == value);
}
static void other_work(situ_storage *other, int ops) {
  for (int k = 0; k < ops; k++) put(other, k);
}

/* The granules of the block that a storage got, which may be larger than it. */
static void granules_of(const situ_storage *s, uintptr_t *first, uintptr_t *last) {
  size_t size = s->bytes;
  if (size <= SITU__BLOCK_LARGEST) (void)situ__block_number(s->bytes, &size);
  *first = (uintptr_t)s->data / SITU__CUDA_GRANULE;
  *last = ((uintptr_t)s->data + size - 1) / SITU__CUDA_GRANULE;
}

/* Whether the module tells the uses of the two apart: it does not where granules lie a multiple of its whole table from each
   other. The addresses are those of the system's allocator, so about one run in forty has such. */
static bool told_apart(const situ_storage *a, const situ_storage *b) {
  uintptr_t from, to, first, last;
  granules_of(a, &from, &to);
  granules_of(b, &first, &last);
  for (uintptr_t k = from; k <= to; k++)
    for (uintptr_t j = first; j <= last; j++)
      if (k % SITU__CUDA_GRANULES == j % SITU__CUDA_GRANULES) return false;
  return true;
}

/* Memory told apart from `a` and from `b`. What is not is kept until some is found, so that it is not given out again;
   and larger memory lies elsewhere. */
static situ_storage *apart_from(const situ_storage *a, const situ_storage *b, size_t bytes) {
  enum { TRIES = 8 };
  situ_storage *found = NULL, *near[TRIES];
  int count = 0;
  while (!found && count < TRIES) {
    situ_storage *s = situ__storage_new("test", a->device, bytes + ((size_t)count << 20));
    CHECK(s != NULL);
    if (told_apart(a, s) && told_apart(b, s)) found = s;
    else near[count++] = s;
  }
  while (count) situ__storage_release(near[--count]);
  CHECK(found != NULL);
  return found;
}

/* A large copy in goes past ops that do not use its memory, and a copy out does not wait for what came later. */
static void aside_body(void *payload) {
  (void)payload;
  const situ_device device = situ_dev("cuda:0");
  unsigned char *host = malloc(MANY);
  situ_storage *large = situ__storage_new("test", device, MANY), *small = apart_from(large, large, sizeof(int)),
               *other = apart_from(large, small, 4 << 20);
  CHECK(host != NULL);
  fill(large, host, 1);
  put(small, 7);
  CHECK(situ_synchronize(device) == SITU_OK);
  CHECK(cuda_double_state()->pending == 0);
  other_work(other, OPS);
  fill(large, host, 2);
  CHECK(cuda_double_state()->pending >= OPS);
  CHECK(get(small) == 7);
  CHECK(cuda_double_state()->pending >= OPS);
  expect_filled(large, host, 2);
  CHECK(get(other) == OPS - 1);
  situ__storage_release(large);
  situ__storage_release(small);
  situ__storage_release(other);
  free(host);
}
IN_CHILD(aside)

/* Memory that queued ops use is not written before they ran, nor read before, and what is queued later sees what came in:
   whether a marker was recorded since (many ops), or not. */
static void hazards_body(void *payload) {
  (void)payload;
  const situ_device device = situ_dev("cuda:0");
  unsigned char *host = malloc(MANY);
  situ_storage *a = situ__storage_new("test", device, MANY), *b = situ__storage_new("test", device, MANY),
               *other = situ__storage_new("test", device, 4 << 20);
  CHECK(host && a && b && other);
  for (int round = 0; round < 4; round++) {
    const int ops = round % 2 ? OPS : 0, value = 10 * round;
    if (round >= 2) CHECK(situ_synchronize(device) == SITU_OK);
    fill(a, host, value + 1);
    other_work(other, ops);
    CHECK(situ__copy_storage("test", b, 0, a, 0, MANY, SITU__COPY_USER) == SITU_OK);
    other_work(other, ops);
    fill(a, host, value + 2);
    expect_filled(b, host, value + 1);
    other_work(other, ops);
    expect_filled(a, host, value + 2);
    CHECK(situ__copy_storage("test", b, 0, a, 0, MANY, SITU__COPY_USER) == SITU_OK);
    other_work(other, ops);
    expect_filled(b, host, value + 2);
  }
  situ__storage_release(a);
  situ__storage_release(b);
  situ__storage_release(other);
  free(host);
}
IN_CHILD(hazards)

/* ---- threads -------------------------------------------------------------------------------- */

/* Copies both ways between the devices, so that two threads would wait for each other if one held both locks. */
static void *copy_around(void *payload) {
  const int mine = *(const int *)payload;
  const char *const name[] = { "cuda:0", "cuda:1" };
  situ_storage *a = situ__storage_new("test", situ_dev(name[mine % 2]), sizeof(int)),
               *b = situ__storage_new("test", situ_dev(name[1 - mine % 2]), sizeof(int));
  CHECK(a && b);
  for (int k = 0; k < 200; k++) {
    put(a, 1000 * mine + k);
    CHECK(situ__copy_storage("test", b, 0, a, 0, sizeof(int), SITU__COPY_USER) == SITU_OK);
    put(a, -1);
    CHECK(get(b) == 1000 * mine + k);
  }
  situ__storage_release(a);
  situ__storage_release(b);
  return NULL;
}

static void threads_body(void *payload) {
  (void)payload;
  enum { THREADS = 4 };
  pthread_t thread[THREADS];
  int number[THREADS];
  for (int k = 0; k < THREADS; k++) {
    number[k] = k;
    CHECK(pthread_create(&thread[k], NULL, copy_around, &number[k]) == 0);
  }
  for (int k = 0; k < THREADS; k++) CHECK(pthread_join(thread[k], NULL) == 0);
  empty_caches();
}
IN_CHILD(threads)

/* More than there is: an error with sizes, and the device goes on. What waits to be freed is freed first. */
static void too_much_body(void *payload) {
  (void)payload;
  const size_t budget = cuda_double_state()->budget = 64 << 20;
  const situ_device device = situ_dev("cuda:0");
  CHECK(situ__storage_new("test", device, 65 << 20) == NULL);
  CHECK_ERROR(SITU_E_NOMEM, "no memory for 65.0 MiB on cuda:0");
  for (int k = 0; k < 4; k++) {
    situ_storage *most = situ__storage_new("test", device, budget - ((size_t)k << 20));
    CHECK(most != NULL);
    situ__storage_release(most);
  }
}
IN_CHILD(too_much)

/* ---- lost ----------------------------------------------------------------------------------- */

/* An error of queued work is told once, with its first cause; other devices and freeing go on. */
static void lost_body(void *payload) {
  (void)payload;
  int values[3] = { 1, 2, 3 };
  situ_storage *there = situ__storage_new("test", situ_dev("cuda:1"), sizeof values);
  CHECK(there != NULL);
  CHECK(situ__copy_from_host("test", there, 0, values, sizeof values, SITU__COPY_USER) == SITU_OK);
  CHECK(situ_synchronize(situ_dev("cuda:1")) == SITU_OK);
  cuda_double_state()->break_device = 1;
  cuda_double_state()->break_nth = 2;
  cuda_double_state()->break_error = cudaErrorIllegalAddress;
  for (int k = 0; k < 3; k++)
    CHECK(situ__copy_from_host("test", there, 0, values, sizeof values, SITU__COPY_USER) == SITU_OK);
  CHECK(situ_synchronize(situ_dev("cuda:1")) == SITU_E_LOST);
  CHECK(strstr(situ_error_message(), "an illegal memory access was encountered") != NULL);
  CHECK_ERROR(SITU_E_LOST, "in one of the ops 2 to 4, queued since the last good synchronisation: "
                           "copy, copy, copy (SITU_SYNC=1 tells which)");
  CHECK(situ__copy_to_host("test", there, 0, values, sizeof values, SITU__COPY_USER) == SITU_E_LOST);
  CHECK_ERROR(SITU_E_LOST, "cuda:1 is lost");
  situ__storage_release(there);
  CHECK(situ_error() == SITU_OK);
  copy_between(situ_dev("cuda:0"), situ_dev("cpu"), 1000);
  copy_between(situ_dev("cpu"), situ_dev("sim:0"), 1000);
}
IN_CHILD(lost)

static void exactly_body(void *payload) {
  (void)payload;
  CHECK(setenv("SITU_SYNC", "1", 1) == 0);
  int value = 1;
  situ_storage *there = situ__storage_new("test", situ_dev("cuda:0"), sizeof value);
  cuda_double_state()->break_nth = 2;
  cuda_double_state()->break_error = cudaErrorLaunchFailure;
  CHECK(situ__copy_from_host("test", there, 0, &value, sizeof value, SITU__COPY_USER) == SITU_OK);
  CHECK(situ__copy_from_host("test", there, 0, &value, sizeof value, SITU__COPY_USER) == SITU_E_LOST);
  CHECK_ERROR(SITU_E_LOST, "; in op 2: copy");
  situ__storage_release(there);
}
IN_CHILD(exactly)

/* ---- forks ---------------------------------------------------------------------------------- */

static void childs_child(void *payload) {
  int value = 1;
  CHECK(situ__copy_to_host("test", payload, 0, &value, sizeof value, SITU__COPY_USER) == SITU_E_STATE);
  CHECK_ERROR(SITU_E_STATE, "the child of a fork");
  situ__storage_release(payload);
}
static void forked_body(void *payload) {
  (void)payload;
  int value = 7;
  situ_storage *there = situ__storage_new("test", situ_dev("cuda:0"), sizeof value);
  CHECK(situ__copy_from_host("test", there, 0, &value, sizeof value, SITU__COPY_USER) == SITU_OK);
  CHECK(in_child(childs_child, there) == 0);
  value = 0;
  CHECK(situ__copy_to_host("test", there, 0, &value, sizeof value, SITU__COPY_USER) == SITU_OK);
  CHECK(value == 7);
  situ__storage_release(there);
}
IN_CHILD(forked)

/* The devices were counted before, and none was opened. */
static void opens_in_child(void *payload) {
  (void)payload;
  CHECK(situ__storage_new("test", situ_dev("cuda:0"), 4) == NULL);
  CHECK_ERROR(SITU_E_STATE, "CUDA was started before this process was forked");
  copy_between(situ_dev("cpu"), situ_dev("cpu"), 1000);
}
static void counted_then_forked_body(void *payload) {
  (void)payload;
  CHECK(situ_device_count("cuda") == 2);
  CHECK(in_child(opens_in_child, NULL) == 0);
}
IN_CHILD(counted_then_forked)

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(no_module),
    cmocka_unit_test(no_runtime),
    cmocka_unit_test(relative_path),
    cmocka_unit_test(no_symbol),
    cmocka_unit_test(other_runtime),
    cmocka_unit_test(no_driver),
    cmocka_unit_test(old_driver),
    cmocka_unit_test(no_device),
    cmocka_unit_test(counting_fails),
    cmocka_unit_test(two_devices),
    cmocka_unit_test(copies),
    cmocka_unit_test(without_pools),
    cmocka_unit_test(peers_in_order),
    cmocka_unit_test(pinned),
    cmocka_unit_test(not_waited_for),
    cmocka_unit_test(too_much),
    cmocka_unit_test(aside),
    cmocka_unit_test(hazards),
    cmocka_unit_test(threads),
    cmocka_unit_test(lost),
    cmocka_unit_test(exactly),
    cmocka_unit_test(forked),
    cmocka_unit_test(counted_then_forked),
  };
  return cmocka_run_group_tests_name("backend/cuda/module", tests, NULL, NULL);
}
