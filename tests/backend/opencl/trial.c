/* test-devices: opencl:0 only */
/* test-links: situ_test_shim */
/* A driver that computes wrong values: each family of kernels is tried before it is used, one that fails is refused by name, and
   one that passed is not tried again, by this process or by later ones.
   SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/lower/lower.h"
#include "situ/optim.h"
#include "support/opencl/shim.h"
#include "support/test.h"

#define FILES "cache/situ/opencl"

static int run(const char *command) {
  int status = system(command);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* A process that uses floor and sums. Its exit code: how many kernels were launched. */
static int use(void) {
  static const float value[] = { -1.5f, 2.25f };
  float got[2] = { 0 }, sum = 0;
  situ_tensor *x = situ_from_host(value, sizeof value, SITU_SHAPE(2), &(situ_options){ .device = test_device() });
  if (situ_copy_to_host(situ_floor(x), got, sizeof got) != SITU_OK || got[0] != -2 || got[1] != 2) return 100;
  if (situ_copy_to_host(situ_sum(x, NULL), &sum, sizeof sum) != SITU_OK || sum != 0.75f) return 101;
  return (int)shim_calls("clEnqueueNDRangeKernel");
}

static void begin_with_nothing(void) {
  char here[1024], path[1100];
  assert_non_null(getcwd(here, sizeof here));
  snprintf(path, sizeof path, "%s/cache", here);
  setenv("XDG_CACHE_HOME", path, 1);
  snprintf(path, sizeof path, "/proc/%ld/exe", (long)getpid());
  setenv("SELF", path, 1);
  assert_int_equal(run("rm -rf cache"), 0);
}

static void what_passed_is_not_tried_again(void **state) {
  (void)state;
  (void)test_device();
  begin_with_nothing();
  assert_int_equal(run("exec \"$SELF\" use"), 4);
  assert_int_equal(run("exec \"$SELF\" use"), 2);
  assert_int_equal(run("set -- " FILES "/tried-*; test $# = 1 && test $(wc -c <$1) = 16"), 0);
  /* Torn, or of another driver's: tried again. */
  assert_int_equal(run("truncate -s 15 " FILES "/tried-* && exec \"$SELF\" use"), 3);
  assert_int_equal(run("mv " FILES "/tried-* " FILES "/tried-0123456789abcdef && exec \"$SELF\" use"), 4);
}

/* ---- each text ------------------------------------------------------------------------------ */

static situ_tensor *values(situ_shape shape) {
  return situ_add_scalar(situ_zeros(shape, &(situ_options){ .device = test_device() }), 1);
}
static situ_tensor *numbers(int64_t count) {
  return situ_zeros(SITU_SHAPE(count), &(situ_options){ .device = test_device(), .dtype = SITU_I64 });
}
static situ_tensor *stepped(void) {
  situ_tensor *p = situ_requires_grad_(values(SITU_SHAPE(3)), true);
  situ_optim *o = situ_optim_sgd(situ_tree_of(1, &p), 0.5, NULL);
  situ_tensor *result = situ_backward(situ_sum(situ_square(p), NULL), NULL) == SITU_OK && situ_optim_step(o) == SITU_OK
                            ? situ_detach(p)
                            : NULL;
  situ_optim_free(o);
  return result;
}

/* With so many keys that it is not composed. */
static situ_tensor *attended(void) {
  situ_tensor *key = values(SITU_SHAPE(1, 1, 80, 8));
  return situ_scaled_dot_product_attention(values(SITU_SHAPE(1, 1, 3, 8)), key, key, NULL);
}

/* A row of one block of Q8_0, whose scale is 1. */
static situ_tensor *blocks(void) {
  static unsigned char bytes[34] = { 0, 0x3c, 1, 2, 3, 4, 5 };
  return situ_blocks_from_host(bytes, sizeof bytes, &SITU_SHAPE(1, 32), SITU_BLOCK_Q8_0,
                               &(situ_options){ .device = test_device() });
}

/* A call that launches the text's kernel. */
static situ_tensor *use_text(situ__kernel_text text) {
  const situ_options here = { .device = test_device() };
  const situ_shape matrix = SITU_SHAPE(3, 5), image = SITU_SHAPE(1, 2, 6, 6);
  situ_tensor *at;
  switch (text) {
  case SITU__TEXT_elementwise: return situ_floor(values(matrix));
  case SITU__TEXT_fill: return situ_full(matrix, 2, &(situ_options){ .device = test_device(), .dtype = SITU_I16 });
  case SITU__TEXT_range: return situ_arange(1, 5, 1, &here);
  case SITU__TEXT_random: return situ_rand(matrix, &here);
  case SITU__TEXT_triangle: return situ_tril(values(matrix), 0);
  case SITU__TEXT_index: return situ_index_select(values(matrix), 0, numbers(2));
  case SITU__TEXT_arg_reduce: return situ_argmax(values(matrix), &(situ_reduce_options){ .dim = SITU_DIMS(1) });
  case SITU__TEXT_scan: return situ_cumsum(values(matrix), 1);
  case SITU__TEXT_sort: return situ_sort(values(matrix), 1, false, &at);
  case SITU__TEXT_nonzero: return situ_nonzero(values(SITU_SHAPE(5)));
  case SITU__TEXT_nll:
    return situ_cross_entropy(values(matrix), numbers(3),
                              &(situ_cross_entropy_options){ .reduction = SITU_REDUCTION_NONE });
  case SITU__TEXT_unfold: return situ_conv2d(values(image), values(SITU_SHAPE(2, 2, 3, 3)), NULL, NULL);
  case SITU__TEXT_pool: return situ_avg_pool2d(values(image), &(situ_pool_options){ .kernel = SITU_DIMS(2) });
  case SITU__TEXT_resample: return situ_interpolate(values(image), &(situ_interpolate_options){ .size = SITU_DIMS(9) });
  case SITU__TEXT_fft: return situ_fft_rfft(values(matrix), NULL);
  case SITU__TEXT_cell:
    return situ_gru_layer(values(SITU_SHAPE(1, 2, 6)), values(SITU_SHAPE(6, 2)), NULL, values(SITU_SHAPE(2, 2)), NULL);
  case SITU__TEXT_optimizer: return stepped();
  case SITU__TEXT_reduce: return situ_prod(values(matrix), NULL);
  case SITU__TEXT_softmax: return situ_softmax(values(matrix), 1);
  case SITU__TEXT_norm: return situ_layer_norm(values(matrix), SITU_SHAPE(5), NULL, NULL, 0.1);
  case SITU__TEXT_batch_norm:
    return situ_batch_norm(values(matrix), NULL, NULL, NULL, NULL,
                           OPTIONS_AT(situ_batch_norm, with.training = true, with.eps = 0.1));
  case SITU__TEXT_matmul: return situ_matmul(values(matrix), values(SITU_SHAPE(5, 2)));
  case SITU__TEXT_attention: return attended();
  case SITU__TEXT_blocks: return situ_dequantize(blocks());
  default: return NULL; /* columns: a gpu's */
  }
}

static const char *const text_name[] = {
#define ROW(name) #name,
  SITU__TEXTS(ROW)
#undef ROW
};

static void a_wrong_family_is_refused(void **state) {
  (void)state;
  int refused = 0;
  begin_with_nothing(); /* the shim knows the text of what is made from source */
  for (int t = 0; t < SITU__TEXT_COUNT; t++) {
    if (t == SITU__TEXT_columns) continue;
    (void)values(SITU_SHAPE(3, 5)); /* what the operands are made with is in order */
    shim_spoil(text_name[t], t == SITU__TEXT_nonzero ? 2 : 0);
    situ_tensor *y = use_text((situ__kernel_text)t);
    shim_spoil(NULL, 0);
    if (y) fail_msg("%s: wrong values were returned", text_name[t]);
    if (!strstr(situ_error_message(), "opencl:0 computes ")) fail_msg("%s: %s", text_name[t], situ_error_message());
    expect_error(SITU_E_UNSUPPORTED, "", "Portable Computing Language");
    refused++;
    /* It was the driver's doing. */
    assert_non_null(use_text((situ__kernel_text)t));
  }
  print_message("%d families were refused\n", refused);
}

static void the_message_names_all(void **state) {
  (void)state;
  begin_with_nothing();
  situ_tensor *x = test_tensor(SITU_BF16, SITU_SHAPE(3), (const double[]){ 1.5, -2.5, 3 });
  const int files = run("exit $(ls " FILES " | wc -l)");
  shim_spoil("elementwise", 0);
  expect_refused(situ_ceil(x), SITU_E_UNSUPPORTED, "ceil", "opencl:0 computes ceil of bf16 wrongly");
  expect_refused(situ_ceil_(x), SITU_E_UNSUPPORTED, "ceil_", "POCL_WORK_GROUP_METHOD=loops");
  shim_spoil(NULL, 0);
  assert_int_equal(run("exit $(ls " FILES " | wc -l)"), files); /* no program of it is kept */
  expect_exact(x, SITU_SHAPE(3), 1.5, -2.5, 3);
  expect_exact(situ_ceil(x), SITU_SHAPE(3), 2, -2, 3);
}

/* Views that are not contiguous: gaps and other orders. */
static void views_are_tried_too(void **state) {
  (void)state;
  situ_tensor *x = situ_transpose(values(SITU_SHAPE(3, 5)), 0, 1);
  assert_non_null(situ_normal_(x, 100, 1, NULL));
  assert_non_null(situ_fill_(x, 2));
  assert_non_null(situ_add_scalar_(situ_narrow(x, 1, 0, 2), 1));
  assert_non_null(situ_softmax(x, 0));
  assert_non_null(situ_nonzero(x));
  expect_exact(situ_select(x, 0, 0), SITU_SHAPE(3), 3, 3, 2);
}

int main(int argc, char **argv) {
  (void)argv;
  if (argc > 1) return use();
  begin_with_nothing(); /* before the first program */
  const struct CMUnitTest tests[] = {
    TEST(the_message_names_all),
    TEST(what_passed_is_not_tried_again),
    TEST(a_wrong_family_is_refused),
    TEST(views_are_tried_too),
  };
  return cmocka_run_group_tests_name("backend/opencl/trial", tests, NULL, NULL);
}
