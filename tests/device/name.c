/* Device names: what is read, what is refused, and what a refusal suggests.
   SPDX-License-Identifier: MIT */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "device/device.h"
#include "situ/sys/sim.h"

static int fresh(void **state) {
  (void)state;
  (void)situ_error_mode(SITU_ERROR_QUIET);
  situ_error_clear();
  return situ_sim_create(2) != SITU_OK;
}

/* placement: A1, A2 */
static void accepted(void **state) {
  (void)state;
  static const struct {
    const char *name;
    situ_device device;
    const char *again;
  } rows[] = {
    { "cpu", { SITU_CPU, 0 }, "cpu" },           { "cpu:0", { SITU_CPU, 0 }, "cpu" },
    { "meta", { SITU_META, 0 }, "meta" },        { "meta:0", { SITU_META, 0 }, "meta" },
    { "sim", { SITU_SIM, 0 }, "sim:0" },         { "sim:1", { SITU_SIM, 1 }, "sim:1" },
    { "cuda", { SITU_CUDA, 0 }, "cuda:0" },      { "cuda:0", { SITU_CUDA, 0 }, "cuda:0" },
    { "cuda:63", { SITU_CUDA, 63 }, "cuda:63" }, { "opencl:1", { SITU_OPENCL, 1 }, "opencl:1" },
  };
  char buffer[SITU_DEVICE_NAME_MAX];
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    bool exists = rows[i].device.kind <= SITU_SIM;
    if (!exists && situ_device_count(rows[i].device.kind == SITU_CUDA ? "cuda" : "opencl") > 0) continue;
    situ_device device = { 99, 99 };
    assert_int_equal(situ_device_parse(rows[i].name, &device), SITU_OK);
    assert_true(situ_device_equal(device, rows[i].device));
    assert_string_equal(situ_device_name(device, buffer), rows[i].again);
    assert_true(situ_device_equal(situ_dev(rows[i].name), device));
    assert_int_equal(situ_device_is_available(device), exists);
  }
  assert_int_equal(situ_error(), SITU_OK);
}

/* placement: A1 */
static void refused(void **state) {
  (void)state;
  static const struct {
    const char *name, *why, *meant;
  } rows[] = {
    { "", "the name is empty", "cpu" },
    { "cuda:300", "an index is below 64, and there is no cuda device", "cuda:0" },
    { "cuda:99999999999999999999", "an index is below 64", "cuda:0" },
    { "cuda:4294967296", "an index is below 64", "cuda:0" },
    { "cuda:65536", "an index is below 64", "cuda:0" }, /* not 0 */
    { "cuda:-1", "an index cannot be negative", "cuda:0" },
    { "cuda:", "no index after the colon", "cuda:0" },
    { "cuda:01", "no leading zero", "cuda:1" },
    { "cuda:00", "no leading zero", "cuda:0" },
    { "cuda:1x", "digits only", "cuda:1" },
    { "cuda:0x1", "digits only", "cuda:0" },
    { "cuda:+1", "digits only", "cuda:1" },
    { "cuda: 1", "digits only", "cuda:1" },
    { "cuda:1 ", "digits only", "cuda:1" },
    { "cuda:1:2", "digits only", "cuda:1" },
    { "CUDA", "lower case", "cuda:0" },
    { "Cuda:1", "lower case", "cuda:1" },
    { "CPU", "lower case", "cpu" },
    { " cpu", "no such kind", "cpu" },
    { "cpu ", "no such kind", "cpu" },
    { "cpu\n", "no such kind", "cpu" },
    { "cuda0", "no such kind", "cuda:0" },
    { "cuda1", "no such kind", "cuda:1" },
    { "cdua:1", "no such kind", "cuda:1" },
    { "gpu", "no such kind", "cuda:0" },
    { "opncl:1", "no such kind", "opencl:1" },
    { "xyzzy", "no such kind", "cpu" },
    { ":0", "no kind before the colon", "cpu" },
    { "cpu:7", "there is 1 cpu device", "cpu" },
    { "meta:1", "there is 1 meta device", "meta" },
    { "sim:5", "there are 2 sim devices", "sim:0" },
    { "default", "no such kind", NULL },
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    situ_device device = { 7, 7 };
    char meant[64];
    situ_error_clear();
    assert_int_equal(situ_device_parse(rows[i].name, &device), SITU_E_ARG);
    assert_true(device.kind == 7 && device.index == 7); /* left alone */
    assert_int_equal(situ_error(), SITU_E_ARG);
    assert_string_equal(situ_error_op(), "device_parse");
    if (!strstr(situ_error_message(), rows[i].why)) fail_msg("%s: %s", rows[i].name, situ_error_message());
    (void)snprintf(meant, sizeof meant, "did you mean \"%s\"?", rows[i].meant ? rows[i].meant : "");
    if (rows[i].meant && !strstr(situ_error_message(), meant)) fail_msg("%s: %s", rows[i].name, situ_error_message());
    assert_int_equal(situ_dev(rows[i].name).kind, SITU_DEVICE_KINDS);
  }
}

static void strange_names_are_shown_safely(void **state) {
  (void)state;
  char name[5000];
  situ_device device;
  memset(name, 'c', sizeof name - 1);
  name[sizeof name - 1] = 0;
  assert_int_equal(situ_device_parse(name, &device), SITU_E_ARG);
  assert_true(strlen(situ_error_message()) < 600);
  situ_error_clear();
  assert_int_equal(situ_device_parse("\x1b[2Jcpu\xff", &device), SITU_E_ARG);
  assert_null(strchr(situ_error_message(), 0x1b));
  assert_non_null(strstr(situ_error_message(), "\"?[2Jcpu?\""));
  situ_error_clear();
  assert_int_equal(situ_device_parse(NULL, &device), SITU_E_ARG);
  situ_error_clear();
  assert_int_equal(situ_device_parse("cpu", NULL), SITU_E_ARG);
}

static void kinds(void **state) {
  (void)state;
  assert_int_equal(situ_device_count("cpu"), 1);
  assert_int_equal(situ_device_count("meta"), 1);
  assert_in_range(situ_device_count("sim"), 2, SITU_SIM_MAX);
  assert_int_equal(situ_device_count("tpu"), 0);
  assert_int_equal(situ_device_count("cpu:0"), 0);
  assert_int_equal(situ_device_count(NULL), 0);
  assert_int_equal(situ_cuda_is_available(), situ_device_count("cuda") > 0);
  assert_non_null(strstr(situ_device_status("tpu"), "no such kind"));
  assert_non_null(strstr(situ_device_status(NULL), "no such kind"));
  assert_string_equal(situ_device_status("sim"), "simulated on the host");
  assert_non_null(strstr(situ_device_status("meta"), "shapes"));
  assert_int_equal(situ_error(), SITU_OK); /* asking is no error */
}

static void refused_device_stays_refused(void **state) {
  (void)state;
  situ_device out = { 7, 7 }, device = situ_dev("CUDA");
  assert_false(situ__device_resolve("zeros", device, &out));
  assert_string_equal(situ_error_op(), "device_parse"); /* the first error says why */
  situ_error_clear();
  assert_false(situ__device_resolve("zeros", device, &out));
  assert_string_equal(situ_error_op(), "zeros");
  assert_int_equal(situ_error(), SITU_E_ARG);
  situ_error_clear();
  assert_false(situ__device_resolve("zeros", (situ_device){ 0, 3 }, &out));
  assert_int_equal(situ_error(), SITU_E_ARG);
  situ_error_clear();
  assert_false(situ__device_resolve("zeros", (situ_device){ 60000, 0 }, &out));
  assert_int_equal(situ_error(), SITU_E_ARG);
  situ_error_clear();
  const situ_device refused = situ_dev("no such");
  assert_int_equal(situ_error(), SITU_E_ARG);
  assert_false(situ__device_resolve("zeros", refused, &out));
  assert_null(strstr(situ_error_message(), "zeros")); /* the first error says it all */
  situ_error_clear();
  assert_false(situ__device_resolve("zeros", refused, &out));
  assert_non_null(strstr(situ_error_message(), "zeros: the device is one whose name was refused"));
  situ_error_clear();
  assert_false(situ__device_resolve("zeros", (situ_device){ SITU_CPU, 1 }, &out));
  assert_int_equal(situ_error(), SITU_E_ARG);
  situ_error_clear();
  assert_false(situ__device_resolve("zeros", (situ_device){ SITU_SIM, 40000 }, &out));
  assert_int_equal(situ_error(), SITU_E_ARG);
  assert_true(out.kind == 7 && out.index == 7);
}

/* Without the module, or without a GPU: what does the user get to read? */
/* placement: D21 */
static void absent_device_says_why(void **state) {
  (void)state;
  situ_device out;
  if (situ_cuda_is_available()) skip();
  assert_false(situ__device_resolve("zeros", situ_dev("cuda:0"), &out));
  assert_int_equal(situ_error(), SITU_E_UNSUPPORTED);
  assert_non_null(strstr(situ_error_message(), "zeros: cuda:0 is not there: "));
  assert_non_null(strstr(situ_error_message(), situ_device_status("cuda")));
  assert_true(strstr(situ_device_status("cuda"), "this build has no cuda module") ||
              strstr(situ_device_status("cuda"), "the CUDA runtime") ||
              strstr(situ_device_status("cuda"), "the NVIDIA driver"));
}

static void *default_of_thread(void *name) { return situ_device_name(situ_get_default_device(), name) ? name : NULL; }

/* placement: A10 */
static void default_device(void **state) {
  (void)state;
  situ_device out, sim1 = situ_dev("sim:1"), none = { 0 };
  assert_true(situ_device_equal(situ_get_default_device(), situ_dev("cpu")));
  assert_int_equal(situ_set_default_device(sim1), SITU_OK);
  assert_true(situ_device_equal(situ_get_default_device(), sim1));
  assert_true(situ__device_resolve("zeros", none, &out));
  assert_true(situ_device_equal(out, sim1));
  char elsewhere[SITU_DEVICE_NAME_MAX];
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, default_of_thread, elsewhere), 0);
  assert_int_equal(pthread_join(thread, NULL), 0);
  assert_string_equal(elsewhere, "cpu"); /* a thread's own */
  assert_int_equal(situ_set_default_device(situ_dev("cuda:5")), SITU_E_UNSUPPORTED);
  assert_true(situ_device_equal(situ_get_default_device(), sim1)); /* unchanged */
  assert_int_equal(situ_set_default_device(none), SITU_OK);
  assert_true(situ_device_equal(situ_get_default_device(), situ_dev("cpu")));
}

/* placement: A15, A17 */
static void info(void **state) {
  (void)state;
  situ_device_properties p;
  memset(&p, 0x5a, sizeof p);
  assert_int_equal(situ_device_info(situ_dev("sim:0"), &p), SITU_OK);
  assert_string_equal(p.name, "simulated device");
  assert_int_equal(p.memory_total, 1 << 30);
  assert_true(p.dtypes >> SITU_F32 & 1);
  assert_false(p.dtypes & 1);
  assert_int_equal(situ_device_info(situ_dev("meta"), &p), SITU_OK);
  assert_int_equal(p.memory_total, 0);
  situ_device_properties kept = p;
  assert_int_equal(situ_device_info((situ_device){ SITU_CPU, 1 }, &p), SITU_E_ARG);
  assert_memory_equal(&kept, &p, sizeof p);
  situ_error_clear();
  assert_int_equal(situ_device_info(situ_dev("cpu"), NULL), SITU_E_ARG);
}

/* The processor has the name that the system gives it, if it gives one. */
static void the_processors_name(void **state) {
  (void)state;
  char line[256] = "", want[256] = "";
  FILE *f = fopen("/proc/cpuinfo", "r");
  while (f && !*want && fgets(line, sizeof line, f)) (void)sscanf(line, "model name : %255[^\n]", want);
  if (f) (void)fclose(f);
  situ_device_properties p;
  assert_int_equal(situ_device_info((situ_device){ SITU_CPU, 0 }, &p), SITU_OK);
  want[sizeof p.name - 1] = '\0';
  if (*want) assert_string_equal(p.name, want);
  else assert_true(*p.name);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup(accepted, fresh),
    cmocka_unit_test_setup(refused, fresh),
    cmocka_unit_test_setup(strange_names_are_shown_safely, fresh),
    cmocka_unit_test_setup(kinds, fresh),
    cmocka_unit_test_setup(refused_device_stays_refused, fresh),
    cmocka_unit_test_setup(absent_device_says_why, fresh),
    cmocka_unit_test_setup(default_device, fresh),
    cmocka_unit_test_setup(info, fresh),
    cmocka_unit_test_setup(the_processors_name, fresh),
  };
  return cmocka_run_group_tests_name("device/name", tests, NULL, NULL);
}
