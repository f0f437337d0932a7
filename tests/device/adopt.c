/* A program's own device and memory, simulated. Order, contexts and drivers: tests/backend/opencl/adopt.c,
   tests/backend/cuda/adopt.c.
   SPDX-License-Identifier: MIT */
#include "situ/interop.h"
#include "situ/sys/sim.h"
#include "situ/sys/tensor.h"
#include "support/test.h"

#define KIND "sim"
#define STRANGE "is not of the context of sim:2"
enum { FLOATS = 64 };

/* A program: its memory, and the device that situ has adopted. */
static float memory[FLOATS];
static situ_device device;

static void adopt(void) {
  static const situ_sim_context context = { memory, sizeof memory };
  const situ_foreign f = { .kind = SITU_SIM, .context = (void *)(uintptr_t)&context, .queue = memory };
  for (int i = 0; i < FLOATS; i++) memory[i] = (float)i;
  assert_int_equal(situ_device_adopt(&f, &device), SITU_OK);
}

#include "support/adopted.h"

/* Giving a device back waits for what is on the way from it. */
static void a_copy_that_is_on_the_way(void **state) {
  (void)state;
  adopt();
  situ_scope scope;
  situ_tensor *y;
  situ_scope_begin(&scope);
  situ_tensor *x = situ_neg(lend(&(situ_memory){ .handle = memory }, SITU_SHAPE(4)));
  y = situ_escape(&scope, situ_to_non_blocking(x, situ_dev("cpu")));
  assert_int_equal(situ_scope_end(&scope), SITU_OK);
  abandon();
  assert_false(situ_desc(y)->storage->flags & SITU_STORAGE_PENDING);
  adopt(); /* the same index */
  expect_exact(y, SITU_SHAPE(4), 0, -1, -2, -3);
  abandon();
}

static void situ_explain_tells(void **state) {
  (void)state;
  adopt();
  situ_scope scope;
  situ_scope_begin(&scope);
  char text[2048];
  situ_tensor *x = lend(&(situ_memory){ .handle = memory, .read_only = true }, SITU_SHAPE(4)), *y = situ_neg(x);
  assert_true(situ_explain_to_string(x, text, sizeof text) > 0);
  assert_non_null(strstr(text, "\n  device       sim:2 was adopted at "));
  assert_non_null(strstr(text, "\n  memory       of the program, read-only\n"));
  assert_true(situ_explain_to_string(y, text, sizeof text) > 0);
  assert_non_null(strstr(text, "was adopted at "));
  assert_null(strstr(text, "\n  memory "));
  assert_true(situ_explain_to_string(situ_pin_memory(situ_ones(SITU_SHAPE(2), NULL), situ_dev("sim:0")), text, 2048) >
              0);
  assert_non_null(strstr(text, "\n  memory       of the host, pinned\n"));
  assert_null(strstr(text, "adopted"));
  assert_int_equal(situ_scope_end(&scope), SITU_OK);
  abandon();
}

/* Pieces of another memory, which are not used again. */
_Alignas(256) static char heap[4 << 20];
static size_t in_use;

static void *own_alloc(void *payload, size_t bytes, void *queue) {
  account *a = payload;
  if (a->none || queue != memory || bytes > sizeof heap - in_use) return NULL;
  a->live++;
  a->newest = heap + in_use;
  in_use += (bytes + 255) / 256 * 256;
  return a->newest;
}

static void own_free(void *payload, void *handle, void *queue) {
  account *a = payload;
  a->live -= queue == memory && (char *)handle >= heap && (char *)handle < heap + in_use;
}

static void adopt_with(account *a) {
  static const situ_sim_context context = { heap, sizeof heap };
  const situ_foreign f = { .kind = SITU_SIM,
                           .context = (void *)(uintptr_t)&context,
                           .queue = memory,
                           .alloc = own_alloc,
                           .free = own_free,
                           .payload = a };
  assert_int_equal(situ_device_adopt(&f, &device), SITU_OK);
}

/* placement: A19 */
static void wrong_handles_are_refused(void **state) {
  (void)state;
  situ_device out = { SITU_META, 7 };
  const situ_foreign none = { .kind = SITU_SIM, .queue = memory }, host = { .kind = SITU_CPU }, odd = { 0 };
  assert_int_equal(situ_device_adopt(&none, &out), SITU_E_ARG);
  expect_error(SITU_E_ARG, "device_adopt", "foreign->context is NULL");
  assert_int_equal(situ_device_adopt(&host, &out), SITU_E_UNSUPPORTED);
  expect_error(SITU_E_UNSUPPORTED, "device_adopt", "no context and queue of cpu can be adopted");
  assert_int_equal(situ_device_adopt(&odd, &out), SITU_E_ARG);
  expect_error(SITU_E_ARG, "device_adopt", "foreign->kind is 0");
  assert_true(out.kind == SITU_META && out.index == 7);
  assert_int_equal(situ_device_wait_event(situ_dev("cpu"), memory), SITU_E_ARG);
  expect_error(SITU_E_ARG, "device_wait_event", "event is not one of cpu");
  assert_int_equal(situ_device_wait_event(situ_dev("sim:0"), memory), SITU_E_ARG);
  expect_error(SITU_E_ARG, "device_wait_event", "event is not one of sim");
}

int main(void) {
  const struct CMUnitTest tests[] = { ADOPTED_CASES, TEST(a_copy_that_is_on_the_way), TEST(situ_explain_tells),
                                      TEST(wrong_handles_are_refused) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
