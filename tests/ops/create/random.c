/* Ten million numbers of each distribution on a device: the host's bits. The distributions themselves are
   tests/backend/verbs/random.c's.
   SPDX-License-Identifier: MIT */
/* test-devices: opencl:0 opencl:1 */
/* test-environment: SITU_TEST_AS_USED=1 */
/* test-listed: no */
/* test-slow: cuda:0/double */
/* test-options: -O1 */
#include <stdlib.h>
#include <string.h>

#include "situ/sys/op.h"
#include "support/test.h"

enum { MANY = 10000000 };

static situ_tensor *draw_raw(const situ_options *o) {
  situ_tensor *t = situ_op_new("raw", SITU_SHAPE(MANY), SITU_I64, o->device);
  const situ_generator g = situ_generator_draw(o->generator);
  const situ_work work = { .verb = SITU_VERB_RANDOM,
                           .op = SITU_RANDOM_RAW,
                           .outs = 1,
                           .out = { situ_desc(t) },
                           .seed = g.seed,
                           .offset = g.offset };
  return situ_launch("raw", o->device, &work) ? t : NULL;
}
static situ_tensor *draw_uniform(const situ_options *o) { return situ_rand(SITU_SHAPE(MANY), o); }
static situ_tensor *draw_normal(const situ_options *o) { return situ_randn(SITU_SHAPE(MANY), o); }
static situ_tensor *draw_integer(const situ_options *o) { return situ_randint(-1000003, 1 << 30, SITU_SHAPE(MANY), o); }
static situ_tensor *draw_bernoulli(const situ_options *o) {
  return situ_bernoulli_(situ_empty(SITU_SHAPE(MANY), o), 0.3, o->generator);
}
/* A chance of its own for each element. */
static situ_tensor *draw_chances(const situ_options *o) {
  return situ_bernoulli(situ_rand(SITU_SHAPE(MANY), o), o->generator);
}
static situ_tensor *draw_permutation(const situ_options *o) { return situ_randperm(MANY, o); }
/* One that is sorted. */
static situ_tensor *draw_short_permutation(const situ_options *o) { return situ_randperm(1000, o); }

typedef struct distribution {
  const char *name;
  situ_dtype dtype;
  situ_tensor *(*draw)(const situ_options *options);
  int ulps; /* where the device does not round division and square roots correctly, which normal numbers need */
} distribution;

static const distribution distributions[] = {
  { "raw bits", SITU_I64, draw_raw, 0 },
  { "uniform", SITU_F32, draw_uniform, 0 },
  { "uniform", SITU_F64, draw_uniform, 0 },
  { "uniform", SITU_F16, draw_uniform, 0 },
  { "uniform", SITU_BF16, draw_uniform, 0 },
  { "integers", SITU_I64, draw_integer, 0 },
  { "integers", SITU_I32, draw_integer, 0 },
  { "bernoulli", SITU_F32, draw_bernoulli, 0 },
  { "bernoulli of chances", SITU_F32, draw_chances, 0 },
  { "permutation", SITU_I64, draw_permutation, 0 },
  { "short permutation", SITU_I64, draw_short_permutation, 0 },
  { "normal", SITU_F32, draw_normal, 2 },
  { "normal", SITU_F64, draw_normal, 2 },
  { "normal", SITU_F16, draw_normal, 2 },
  { "normal", SITU_BF16, draw_normal, 2 },
};

static void *numbers(const distribution *d, situ_device device, size_t *bytes) {
  situ_generator g = situ_generator_seeded(17);
  situ_scope s;
  situ_scope_begin(&s);
  situ_tensor *t = d->draw(&(situ_options){ .dtype = d->dtype, .device = device, .generator = &g });
  if (!t) fail_msg("%s: %s", d->name, situ_error_message());
  *bytes = (size_t)situ_numel(t) * situ_dtype_size(d->dtype);
  void *values = malloc(*bytes);
  assert_non_null(values);
  if (situ_copy_to_host(t, values, *bytes) != SITU_OK) fail_msg("%s", situ_error_message());
  assert_int_equal(situ_scope_end(&s), SITU_OK);
  return values;
}

/* As a number that counts steps from one floating number to the next, through zero. */
static int64_t position(const void *values, size_t size, size_t i) {
  int64_t bits = 0;
  memcpy(&bits, (const char *)values + i * size, size);
  const int64_t sign = (int64_t)(1ull << (8 * size - 1));
  if (size < 8) return bits & sign ? -(bits & (sign - 1)) : bits;
  return bits < 0 ? -(bits & INT64_MAX) : bits;
}

/* PoCL does; a GPU may have a division that is 2.5 ULP off. */
static bool rounds_correctly(void) {
  situ_device_properties p;
  assert_int_equal(situ_device_info(test_device(), &p), SITU_OK);
  return strstr(p.driver, "Portable Computing Language") != NULL;
}

/* placement: E1 */
static void every_number_is_the_hosts(void **state) {
  const distribution *d = *state;
  size_t bytes, again;
  void *want = numbers(d, situ_dev("cpu"), &bytes), *got = numbers(d, test_device(), &again);
  assert_int_equal(bytes, again);
  const size_t size = situ_dtype_size(d->dtype), count = bytes / size;
  size_t differ = 0;
  int64_t worst = 0;
  for (size_t i = 0; memcmp(want, got, bytes) != 0 && i < count; i++) {
    const int64_t apart = llabs(position(want, size, i) - position(got, size, i));
    differ += memcmp((char *)want + i * size, (char *)got + i * size, size) != 0;
    if (apart > worst) worst = apart;
  }
  free(want);
  free(got);
  print_message("%s %s: %zu numbers, %zu differ, by %lld ULP at most\n", d->name, situ_dtype_name(d->dtype), count,
                differ, (long long)worst);
  assert_true(differ == 0 || (worst <= d->ulps && !rounds_correctly()));
}

int main(void) {
  enum { COUNT = sizeof distributions / sizeof *distributions };
  struct CMUnitTest tests[COUNT];
  for (int k = 0; k < COUNT; k++)
    tests[k] = (struct CMUnitTest){ .name = distributions[k].name,
                                    .test_func = every_number_is_the_hosts,
                                    .initial_state = (void *)(uintptr_t)&distributions[k] };
  situ_error_mode(SITU_ERROR_QUIET);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
