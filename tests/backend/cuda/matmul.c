/* Matrix products on the double's cuBLASLt: layouts, dtypes, batches and biases against plain loops; what is not of its kind;
   the library absent; what is remembered.
   SPDX-License-Identifier: MIT */
/* test-links: situ_test_cuda */
#include <string.h>
#include <sys/stat.h>

#include "support/cuda/product.h"
#include "support/test.h"

#define IN_CHILD(name)                                \
  static void name(void **state) {                    \
    (void)state;                                      \
    assert_int_equal(in_child(name##_body, NULL), 0); \
  }

static const situ_dtype floating[] = { SITU_F16, SITU_BF16, SITU_F32, SITU_F64 };

/* ---- layouts --------------------------------------------------------------------------------- */

/* Where operands begin, their steps along the batch, and from row to row and column to column. */
/* clang-format off */
#define PLAIN_A { 0, 0, 0, 3, 1 }
#define PLAIN_B { 0, 0, 0, 7, 1 }
#define PLAIN_Y { 0, 0, 0, 7, 1 }
#define ONE { 0, 0, 0, 0, 0 }
static const product layouts[] = {
  { "plain", { 1, 1 }, 5, 7, 3, { PLAIN_A, PLAIN_B, ONE, PLAIN_Y }, 1, 0, 1, false },
  { "alpha", { 1, 1 }, 5, 7, 3, { PLAIN_A, PLAIN_B, ONE, PLAIN_Y }, 2, 0, 1, false },
  { "a transposed", { 1, 1 }, 5, 7, 3,
    { { 0, 0, 0, 1, 5 }, PLAIN_B, ONE, PLAIN_Y }, 1, 0, 1, false },
  { "b transposed", { 1, 1 }, 5, 7, 3,
    { PLAIN_A, { 0, 0, 0, 1, 3 }, ONE, PLAIN_Y }, 1, 0, 1, false },
  { "both", { 1, 1 }, 5, 7, 3,
    { { 0, 0, 0, 1, 5 }, { 0, 0, 0, 1, 3 }, ONE, PLAIN_Y }, 1, 0, 1, false },
  { "y transposed", { 1, 1 }, 5, 7, 3,
    { PLAIN_A, PLAIN_B, ONE, { 0, 0, 0, 1, 5 } }, 1, 0, 1, false },
  { "all transposed", { 1, 1 }, 5, 7, 3,
    { { 0, 0, 0, 1, 5 }, { 0, 0, 0, 1, 3 }, ONE, { 0, 0, 0, 1, 5 } }, 1, 0, 1, false },
  { "parts of larger ones", { 1, 1 }, 5, 7, 3,
    { { 3, 0, 0, 11, 1 }, { 5, 0, 0, 1, 9 }, ONE, { 1, 0, 0, 13, 1 } }, 1, 0, 1, false },
  { "parts, y transposed", { 1, 1 }, 5, 7, 3,
    { { 3, 0, 0, 11, 1 }, { 5, 0, 0, 1, 9 }, ONE, { 1, 0, 0, 1, 13 } }, 1, 0, 1, false },
  { "a row", { 1, 1 }, 1, 7, 3, { PLAIN_A, PLAIN_B, ONE, PLAIN_Y }, 1, 0, 1, false },
  { "a column", { 1, 1 }, 5, 1, 3,
    { PLAIN_A, { 0, 0, 0, 1, 1 }, ONE, { 0, 0, 0, 1, 1 } }, 1, 0, 1, false },
  { "a column of others", { 1, 1 }, 5, 1, 3,
    { PLAIN_A, { 0, 0, 0, 4, 1 }, ONE, { 0, 0, 0, 6, 1 } }, 1, 0, 1, false },
  { "a dot product", { 1, 1 }, 1, 1, 3,
    { { 0, 0, 0, 1, 1 }, { 0, 0, 0, 1, 1 }, ONE, { 0, 0, 0, 1, 1 } }, 1, 0, 1, false },
  { "an outer product", { 1, 1 }, 5, 7, 1,
    { { 0, 0, 0, 1, 1 }, { 0, 0, 0, 7, 1 }, ONE, PLAIN_Y }, 1, 0, 1, false },
  { "a batch", { 2, 3 }, 5, 7, 3,
    { { 0, 45, 15, 3, 1 }, { 0, 63, 21, 7, 1 }, ONE, { 0, 105, 35, 7, 1 } }, 1, 0, 1, false },
  { "one b for a batch", { 2, 3 }, 5, 7, 3,
    { { 0, 45, 15, 3, 1 }, PLAIN_B, ONE, { 0, 105, 35, 7, 1 } }, 1, 0, 1, false },
  { "one a for a batch", { 2, 3 }, 5, 7, 3,
    { PLAIN_A, { 0, 63, 21, 7, 1 }, ONE, { 0, 105, 35, 7, 1 } }, 1, 0, 1, false },
  { "heads", { 2, 3 }, 5, 7, 3,
    { { 0, 45, 3, 9, 1 }, { 0, 63, 3, 1, 9 }, ONE, { 0, 105, 35, 7, 1 } }, 1, 0, 2, false },
  { "a batch, y transposed", { 4, 1 }, 5, 7, 3,
    { { 0, 20, 0, 3, 1 }, { 0, 21, 0, 7, 1 }, ONE, { 0, 40, 0, 1, 5 } }, 1, 0, 1, false },
  { "a bias for each column", { 1, 1 }, 5, 7, 3,
    { PLAIN_A, PLAIN_B, { 2, 0, 0, 0, 1 }, PLAIN_Y }, 2, 1, 1, false },
  { "a bias for each column, in a batch", { 2, 3 }, 5, 7, 3,
    { { 0, 45, 15, 3, 1 }, PLAIN_B, { 0, 0, 0, 0, 1 }, { 0, 105, 35, 7, 1 } }, 1, 1, 1, false },
  { "a bias for each row, y transposed", { 1, 1 }, 5, 7, 3,
    { PLAIN_A, PLAIN_B, { 0, 0, 0, 1, 0 }, { 0, 0, 0, 1, 5 } }, 1, 1, 1, false },
  { "a matrix", { 1, 1 }, 5, 7, 3,
    { PLAIN_A, PLAIN_B, { 1, 0, 0, 9, 1 }, PLAIN_Y }, 1, 3, 1, false },
  { "a matrix for each", { 2, 3 }, 5, 7, 3,
    { { 0, 45, 3, 9, 1 }, PLAIN_B, { 0, 105, 35, 7, 1 }, { 0, 105, 35, 7, 1 } }, 1, 1, 2, false },
  { "a bias for each column, doubled", { 1, 1 }, 5, 7, 3,
    { PLAIN_A, PLAIN_B, { 2, 0, 0, 0, 1 }, PLAIN_Y }, 1, 2, 1, true },
  { "a bias for each row", { 2, 3 }, 5, 7, 3,
    { { 0, 45, 15, 3, 1 }, PLAIN_B, { 0, 0, 0, 1, 0 }, { 0, 105, 35, 7, 1 } }, 1, 1, 1, true },
  { "one bias for all", { 1, 1 }, 5, 7, 3, { PLAIN_A, PLAIN_B, ONE, PLAIN_Y }, 1, 1, 1, true },
  { "a matrix, the other way round", { 1, 1 }, 5, 7, 3,
    { PLAIN_A, PLAIN_B, { 0, 0, 0, 1, 5 }, PLAIN_Y }, 1, 1, 1, true },
  { "gaps along both", { 1, 1 }, 5, 7, 3,
    { { 0, 0, 0, 8, 2 }, PLAIN_B, ONE, PLAIN_Y }, 1, 0, 0, false },
  { "y with gaps along both", { 1, 1 }, 5, 7, 3,
    { PLAIN_A, PLAIN_B, ONE, { 0, 0, 0, 20, 2 } }, 1, 0, 0, false },
  { "one row again and again", { 1, 1 }, 5, 7, 3,
    { { 0, 0, 0, 0, 1 }, PLAIN_B, ONE, PLAIN_Y }, 1, 0, 0, false },
  { "nothing to sum", { 1, 1 }, 5, 7, 0,
    { PLAIN_A, PLAIN_B, { 0, 0, 0, 0, 1 }, PLAIN_Y }, 1, 1, 0, false },
  { "alpha 0", { 1, 1 }, 5, 7, 3,
    { PLAIN_A, PLAIN_B, { 0, 0, 0, 0, 1 }, PLAIN_Y }, 0, 1, 0, false },
  { "many small ones, apart", { 65, 2 }, 1, 2, 1,
    { { 0, 3, 1, 1, 1 }, { 0, 5, 2, 2, 1 }, ONE, { 0, 9, 4, 2, 1 } }, 1, 0, 2, false },
  { "too many, apart", { 65, 66 }, 1, 1, 1,
    { { 0, 1, 1, 1, 1 }, { 0, 1, 1, 1, 1 }, ONE, { 9, 1, 65, 1, 1 } }, 1, 0, 0, false },
};
/* clang-format on */

static void layouts_of_operands_body(void *payload) {
  (void)payload;
  static double got[SPACE];
  cuda_double *d = cuda_double_state();
  for (size_t k = 0; k < sizeof layouts / sizeof *layouts; k++) {
    const product *p = &layouts[k];
    for (int f = 0; f < 4; f++) {
      d->products = 0;
      situ_status status = launch(p, "cuda:0", floating[f], floating[f], got);
      /* The double has no way to add a vector to an f64 product. */
      const bool lowered = p->products == 0,
                 copied = p->copied || (p->beta == 1 && p->products && floating[f] == SITU_F64);
      if (without_kernels(status)) {
        if (!lowered && !copied) (void)fprintf(stderr, "%s: it is not cuBLASLt's\n", p->name);
        CHECK(lowered || copied);
        CHECK(d->products == 0);
        continue;
      }
      CHECK(status == SITU_OK);
      look_at(p, got);
      if (d->products != p->products) (void)fprintf(stderr, "%s: %ld\n", p->name, d->products);
      CHECK(d->products == p->products);
    }
  }
}
IN_CHILD(layouts_of_operands)

/* ---- what is not of its kind ----------------------------------------------------------------- */

static void plain_is(situ_dtype dtype, situ_dtype of_b, long products) {
  static double got[SPACE];
  cuda_double_state()->products = 0;
  situ_status status = launch(layouts, "cuda:0", dtype, of_b, got);
  CHECK(cuda_double_state()->products == products);
  if (products == 0 && without_kernels(status)) return;
  CHECK(status == SITU_OK);
  look_at(layouts, got);
}

/* cuBLASLt is not even opened for them. */
static void other_dtypes_body(void *payload) {
  (void)payload;
  plain_is(SITU_I32, SITU_I32, 0);
  plain_is(SITU_F32, SITU_BF16, 0);
  CHECK(cuda_double_state()->started == 0);
}
IN_CHILD(other_dtypes)

static bool mapped(const char *library) {
  FILE *maps = fopen("/proc/self/maps", "r");
  CHECK(maps != NULL);
  char line[4096];
  bool found = false;
  while (fgets(line, sizeof line, maps)) found = found || strstr(line, library) != NULL;
  (void)fclose(maps);
  return found;
}

/* Opened by the first product, and once for each device. */
static void opened_late_body(void *payload) {
  (void)payload;
  static double got[SPACE];
  CHECK(situ_device_count("cuda") == 2);
  int value = 1;
  situ_storage *there = situ__storage_new("test", situ_dev("cuda:0"), sizeof value);
  CHECK(situ__copy_from_host("test", there, 0, &value, sizeof value, SITU__COPY_USER) == SITU_OK);
  situ__storage_release(there);
  CHECK(!mapped("libcublasLt.so.13"));
  for (int k = 0; k < 4; k++) {
    CHECK(launch(layouts, k % 2 ? "cuda:1" : "cuda:0", SITU_F32, SITU_F32, got) == SITU_OK);
    look_at(layouts, got);
    CHECK(cuda_double_state()->started == (k ? 2 : 1));
  }
  CHECK(mapped("libcublasLt.so.13"));
  CHECK(strstr(situ_device_status("cuda"), "cuBLASLt") == NULL);
}
IN_CHILD(opened_late)

static void absent_body(void *payload) {
  (void)payload;
  runtime_alone();
  const char *before = situ_device_status("cuda");
  plain_is(SITU_F32, SITU_F32, 0);
  plain_is(SITU_F32, SITU_F32, 0);
  CHECK(strstr(before, "cuBLASLt") == NULL);
  const char *after = situ_device_status("cuda");
  CHECK(strncmp(before, after, strlen(before)) == 0);
  CHECK(strstr(after, "; no cuBLASLt: matrix products take kernels of situ's own (") != NULL);
  CHECK(strstr(after, "libcublasLt.so.13: cannot open shared object file") != NULL);
}
IN_CHILD(absent)

static void does_not_start_body(void *payload) {
  (void)payload;
  cuda_double_state()->no_start = true;
  plain_is(SITU_F32, SITU_F32, 0);
  plain_is(SITU_F64, SITU_F64, 0);
  const char *status = situ_device_status("cuda");
  CHECK(strstr(status, "; cuBLASLt does not start on cuda:0") != NULL);
  cuda_double_state()->no_start = false;
  static double got[SPACE]; /* the other device has its own */
  CHECK(launch(layouts, "cuda:1", SITU_F32, SITU_F32, got) == SITU_OK);
  look_at(layouts, got);
}
IN_CHILD(does_not_start)

/* It is asked once, and then known. */
static void no_ways_body(void *payload) {
  (void)payload;
  cuda_double_state()->no_ways = true;
  for (int k = 0; k < 3; k++) plain_is(SITU_F32, SITU_F32, 0);
  CHECK(cuda_double_state()->heuristics == 1);
}
IN_CHILD(no_ways)

/* ---- what is remembered ---------------------------------------------------------------------- */

static void asked_once_body(void *payload) {
  (void)payload;
  static double got[SPACE];
  const cuda_double *d = cuda_double_state();
  long described = 0;
  for (int k = 0; k < 10; k++) {
    CHECK(launch(layouts, "cuda:0", SITU_F32, SITU_F32, got) == SITU_OK);
    look_at(layouts, got);
    CHECK(d->heuristics == 1 && d->products == k + 1);
    if (k == 0) described = d->described;
    CHECK(d->described == described);
  }
  CHECK(described == 5); /* the operation and its four matrices */
  product less_aligned = layouts[0];
  less_aligned.of[A].at = 1;
  CHECK(launch(&less_aligned, "cuda:0", SITU_F32, SITU_F32, got) == SITU_OK);
  look_at(&less_aligned, got);
  CHECK(d->heuristics == 2);
}
IN_CHILD(asked_once)

static void bounded_body(void *payload) {
  (void)payload;
  static double got[SPACE];
  product p = layouts[0];
  for (int64_t k = 0; k < 1500; k++) {
    p.m = 1 + k % 30, p.n = 1 + k / 30, p.k = 1;
    p.of[A] = (spot){ .row = 1, .column = 1 };
    p.of[B] = p.of[Y] = (spot){ .row = p.n, .column = 1 };
    CHECK(launch(&p, "cuda:0", SITU_F32, SITU_F32, got) == SITU_OK);
    if (k % 100 == 99) look_at(&p, got);
  }
  CHECK(cuda_double_state()->heuristics == 1500);
  CHECK(cuda_double_state()->described <= 512 * 5);
  CHECK(cuda_double_state()->described > 256 * 5);
}
IN_CHILD(bounded)

/* What there is to spare is taken, and with nothing it works as well. */
static void workspace_body(void *payload) {
  const size_t spare = *(const size_t *)payload;
  static double got[SPACE];
  cuda_double_state()->budget = spare + (1 << 20);
  CHECK(launch(layouts, "cuda:0", SITU_F32, SITU_F32, got) == SITU_OK);
  look_at(layouts, got);
  CHECK(situ_error() == SITU_OK && cudaGetLastError() == cudaSuccess);
  CHECK(situ_empty_cache(situ_dev("cuda:0")) == SITU_OK);
  CHECK(situ_synchronize(situ_dev("cuda:0")) == SITU_OK);
  CHECK(cuda_double_state()->bytes[0] == spare);
}
static void workspace(void **state) {
  (void)state;
  size_t spare[] = { 32 << 20, 8 << 20, 2 << 20, 0 };
  for (int k = 0; k < 4; k++) assert_int_equal(in_child(workspace_body, &spare[k]), 0);
}

/* ---- precision -------------------------------------------------------------------------------- */

/* 1 + 2^-12 has no place in TF32, 1 + 2^-9 none in BF16. */
static double square_of(double value) {
  float x = (float)value, y = 0;
  situ_storage *store[2];
  situ_view_desc v[2];
  for (int k = 0; k < 2; k++) {
    store[k] = situ__storage_new("test", situ_dev("cuda:0"), sizeof x);
    CHECK(store[k] != NULL);
    CHECK(situ__copy_from_host("test", store[k], 0, &x, sizeof x, SITU__COPY_USER) == SITU_OK);
    v[k] = (situ_view_desc){
      .storage = store[k], .dtype = SITU_F32, .ndim = 2, .numel = 1, .size = { 1, 1 }, .stride = { 1, 1 }
    };
  }
  CHECK(situ__run("matmul", situ_dev("cuda:0"),
                  &(situ_work){ .verb = SITU_VERB_MATMUL,
                                .ins = 3,
                                .outs = 1,
                                .compute = SITU_F32,
                                .in = { &v[0], &v[0] },
                                .out = { &v[1] },
                                .scalar = { 1, 0 } }) == SITU_OK);
  CHECK(situ__copy_to_host("test", store[1], 0, &y, sizeof y, SITU__COPY_USER) == SITU_OK);
  for (int k = 0; k < 2; k++) situ__storage_release(store[k]);
  return (double)y;
}

static void precision_body(void *payload) {
  (void)payload;
  const double fine = 1 + 0x1p-12, coarse = 1 + 0x1p-9;
  CHECK(situ_get_float32_matmul_precision() == SITU_PRECISION_HIGHEST);
  CHECK(square_of(fine) == (double)(float)(fine * fine));
  CHECK(situ_set_float32_matmul_precision(SITU_PRECISION_HIGH) == SITU_OK);
  CHECK(square_of(fine) == 1 && square_of(coarse) == (double)(float)(coarse * coarse));
  CHECK(situ_set_float32_matmul_precision(SITU_PRECISION_MEDIUM) == SITU_OK);
  CHECK(square_of(fine) == 1 && square_of(coarse) == 1);
  CHECK(situ_set_float32_matmul_precision((situ_matmul_precision)3) == SITU_E_ARG);
  CHECK_ERROR(SITU_E_ARG, "3 is not a precision");
  CHECK(situ_get_float32_matmul_precision() == SITU_PRECISION_MEDIUM);
  CHECK(situ_set_float32_matmul_precision(SITU_PRECISION_HIGHEST) == SITU_OK);
  CHECK(square_of(fine) == (double)(float)(fine * fine));
}
IN_CHILD(precision)

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(layouts_of_operands), cmocka_unit_test(other_dtypes),
    cmocka_unit_test(opened_late),         cmocka_unit_test(absent),
    cmocka_unit_test(does_not_start),      cmocka_unit_test(no_ways),
    cmocka_unit_test(asked_once),          cmocka_unit_test(bounded),
    cmocka_unit_test(workspace),           cmocka_unit_test(precision),
  };
  return cmocka_run_group_tests_name("backend/cuda/matmul", tests, NULL, NULL);
}
