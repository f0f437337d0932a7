/* What every test stands on: cmocka, the device under test, values in and out, errors, gradients, no leak.
   SPDX-License-Identifier: MIT */
#ifndef SITU_TEST_H
#define SITU_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "situ/autograd.h"
#include "situ/ops.h"
#include "situ/random.h"
#include "situ/tensor.h"
#include "support/options.h"

/* The device named by SITU_TEST_DEVICE (default cpu). */
situ_device test_device(void);
/* From now on test_device is number `index` of its kind on this thread: a rank's own. */
void test_use_device(int index);
/* Number `index` of its kind, for tests that need two of them. */
situ_device test_device_at(int index);

/* Whether this machine has LAPACK, and libdw and this program lines of its source. */
bool test_has_lapack(void);
bool test_has_lines(void);

/* Has OpenCL's driver compile without optimising, which takes half of the time; with SITU_TEST_ALL or SITU_TEST_AS_USED, as
   for users. To be called before the device is touched and before there are threads, as test_begin and test_device do. */
void test_compile_quickly(void);

/* Returns true where a case takes long: on OpenCL, whose driver compiles each kernel, on CUDA's double, and under
   AddressSanitizer; with SITU_TEST_FEWER everywhere, with SITU_TEST_ALL nowhere. Nested loops take one case of several
   there (test_takes). */
bool test_is_slow(void);
/* Returns true for every case, but for one in `every` where cases take long. turn: the sum of the loops' indices, so that
   each value of each loop has its turn. */
bool test_takes(size_t turn, unsigned every);
/* Kernels of opencl:0 and of CUDA's double have the same texts. Where one machine computes both (SITU_TEST_SHARED), each
   takes every second turn, which the other one leaves out; every turn elsewhere, and with SITU_TEST_ALL or
   SITU_TEST_AS_USED. */
bool test_is_mine(size_t turn);
/* test_takes for results on one thread of the host and on several: each sixth, where no such thread computes each 24th. */
bool test_takes_threads(size_t turn);
/* The failing call to try behind the nth: the next one; where cases take long, one to five further, the same on every run. */
long test_next_fault(long nth);

/* The most threads for a test of equal bits: 8 on the cpu, 2 elsewhere, where it is only computed again. */
int test_most_threads(void);

/* A fixture for each test: errors quiet and cleared, a scope open, the seed set; afterwards nothing may be left alive and no
   error unseen. Use with cmocka_unit_test_setup_teardown through TEST(name). */
int test_begin(void **state);
int test_end(void **state);
#define TEST(name) cmocka_unit_test_setup_teardown(name, test_begin, test_end)

/* A tensor on the device under test with these values, row by row, cast to dtype. */
situ_tensor *test_tensor(situ_dtype dtype, situ_shape shape, const double *values);
/* The same from a list, whose length must be that of the shape. */
situ_tensor *test_tensor_of(situ_dtype dtype, situ_shape shape, const double *values, size_t count);
#define TEST_TENSOR(dtype, shape, ...)                          \
  test_tensor_of(dtype, shape, (const double[]){ __VA_ARGS__ }, \
                 sizeof((const double[]){ __VA_ARGS__ }) / sizeof(double))
#define T32(shape, ...) TEST_TENSOR(SITU_F32, shape, __VA_ARGS__)
#define T64(shape, ...) TEST_TENSOR(SITU_F64, shape, __VA_ARGS__)
#define TI64(shape, ...) TEST_TENSOR(SITU_I64, shape, __VA_ARGS__)
#define TBOOL(shape, ...) TEST_TENSOR(SITU_BOOL, shape, __VA_ARGS__)
/* Pseudo-random f64 values in [low, high), the same on every run; a leaf that requires a gradient if `grad`. */
situ_tensor *test_random(situ_shape shape, double low, double high, bool grad);
situ_tensor *test_random_f32(situ_shape shape); /* from -1 to 1, without a gradient */
/* The function of y that an activation is, by a call of its own. */
situ_tensor *test_activated(situ_tensor *y, situ_activation activation);
/* Whether both hold the same bytes. */
bool test_same_bits(situ_tensor *a, situ_tensor *b);

/* All values as doubles, row by row, into out (which has room for numel). */
void test_read(situ_tensor *t, double *out);

/* Shape and values; NaN equals NaN; |got - want| <= atol + rtol |want|. */
void test_close_(situ_tensor *t, situ_shape shape, const double *want, double rtol, double atol, const char *file,
                 int line);
#define expect_close(t, shape, rtol, atol, ...) \
  test_close_(t, shape, (const double[]){ __VA_ARGS__ }, rtol, atol, __FILE__, __LINE__)
#define expect_values(t, shape, ...) \
  test_close_(t, shape, (const double[]){ __VA_ARGS__ }, 1.3e-6, 1e-5, __FILE__, __LINE__)
#define expect_exact(t, shape, ...) test_close_(t, shape, (const double[]){ __VA_ARGS__ }, 0, 0, __FILE__, __LINE__)
/* Two tensors: equal shape, dtype and values within the tolerance. */
void test_same_(situ_tensor *a, situ_tensor *b, double rtol, double atol, const char *file, int line);
#define expect_same(a, b, rtol, atol) test_same_(a, b, rtol, atol, __FILE__, __LINE__)

/* The thread's error has this status, names this op ("" : any) and its text contains `part`; then it is cleared. */
void test_error_(situ_status status, const char *op, const char *part, const char *file, int line);
#define expect_error(status, op, part) test_error_(status, op, part, __FILE__, __LINE__)
/* The call gave NULL (or a status that is not OK), and the error is as said. */
#define expect_refused(call, status, op, part) (assert_null(call), test_error_(status, op, part, __FILE__, __LINE__))

/* The function under a gradient check: one result from n inputs. */
typedef situ_tensor *(*test_function)(situ_tensor *const *in, void *payload);
/* f64 central differences (step 1e-6, atol 1e-5, rtol 1e-3, as torch.autograd.gradcheck) against backward, for
   every input that requires a gradient, with a fixed random weight on every result element. Then the same backward in
   f32, whose differences would be too coarse, against that of f64: within 1e-6 and 1e-4 of the largest element. A function that
   brings f64 tensors of its own is not tried in f32. */
void test_gradcheck_(test_function f, situ_tensor *const *in, int count, void *payload, const char *file, int line);
#define gradcheck(f, payload, ...)                                                                            \
  test_gradcheck_(f, (situ_tensor *[]){ __VA_ARGS__ },                                                        \
                  (int)(sizeof((situ_tensor *[]){ __VA_ARGS__ }) / sizeof(situ_tensor *)), payload, __FILE__, \
                  __LINE__)

#endif
