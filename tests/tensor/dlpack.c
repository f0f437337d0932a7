/* DLPack both ways: values, layouts, dtypes, lifetimes and what is refused. Under ASan each struct is freed once. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "situ/dlpack.h"
#include "situ/nn/layers.h"
#include "situ/sys/tensor.h"
#include "support/test.h"

/* A producer as another library is: the struct, the sizes and the values are one block, which its deleter frees. */
typedef struct producer {
  union {
    situ_dlpack_versioned versioned;
    situ_dlpack_unversioned unversioned;
  } managed;
  int64_t shape[SITU_MAX_DIMS + 1], strides[SITU_MAX_DIMS + 1];
  _Alignas(16) float values[6];
} producer;

static int freed;
static void free_versioned(situ_dlpack_versioned *self) { freed++, free(self->manager); }
static void free_unversioned(situ_dlpack_unversioned *self) { freed++, free(self->manager); }

/* [2, 3] of f32: 1 to 6, without strides. */
static producer *produce(situ_dlpack_abi abi) {
  producer *p = calloc(1, sizeof *p);
  assert_non_null(p);
  for (int i = 0; i < 6; i++) p->values[i] = (float)(i + 1);
  p->shape[0] = 2, p->shape[1] = 3;
  const situ_dlpack_tensor d = {
    .data = p->values, .device_type = 1, .ndim = 2, .code = 2, .bits = 32, .lanes = 1, .shape = p->shape
  };
  if (abi == SITU_DLPACK_VERSIONED)
    p->managed.versioned =
        (situ_dlpack_versioned){ .major = 1, .minor = 1, .manager = p, .deleter = free_versioned, .tensor = d };
  else p->managed.unversioned = (situ_dlpack_unversioned){ .tensor = d, .manager = p, .deleter = free_unversioned };
  freed = 0;
  return p;
}
static situ_dlpack_tensor *versioned_of(producer **p) {
  *p = produce(SITU_DLPACK_VERSIONED);
  return &(*p)->managed.versioned.tensor;
}

/* placement: A19 */
static void taken_in_both_layouts(void **state) {
  (void)state;
  for (unsigned abi = SITU_DLPACK_VERSIONED; abi <= SITU_DLPACK_UNVERSIONED; abi++) {
    producer *p = produce((situ_dlpack_abi)abi);
    situ_scope s;
    situ_scope_begin(&s);
    situ_tensor *t = situ_from_dlpack(p, (situ_dlpack_abi)abi), *row = situ_select(t, 0, 1);
    expect_exact(t, SITU_SHAPE(2, 3), 1, 2, 3, 4, 5, 6);
    assert_ptr_equal(situ_data_ptr(t), p->values);
    situ_mul_scalar_(row, 10);
    assert_true(p->values[5] == 60);
    situ_retain(row);
    assert_int_equal(situ_scope_end(&s), SITU_OK);
    assert_int_equal(freed, 0); /* the view still owns the memory */
    expect_exact(row, SITU_SHAPE(3), 40, 50, 60);
    situ_release(row);
    assert_int_equal(freed, 1);
  }
}

static void strides_offsets_and_edges(void **state) {
  (void)state;
  producer *p;
  situ_dlpack_tensor *d = versioned_of(&p);
  d->strides = p->strides, p->shape[0] = 3, p->shape[1] = 2, p->strides[0] = 1, p->strides[1] = 3;
  expect_exact(situ_from_dlpack(p, SITU_DLPACK_VERSIONED), SITU_SHAPE(3, 2), 1, 4, 2, 5, 3, 6);
  d = versioned_of(&p);
  d->ndim = 1, d->byte_offset = 8, p->shape[0] = 2;
  expect_exact(situ_from_dlpack(p, SITU_DLPACK_VERSIONED), SITU_SHAPE(2), 3, 4);
  d = versioned_of(&p);
  d->ndim = 0, d->shape = NULL, d->device_type = 3; /* pinned */
  expect_exact(situ_from_dlpack(p, SITU_DLPACK_VERSIONED), SITU_SCALAR, 1);
  d = versioned_of(&p);
  d->data = NULL, p->shape[1] = 0;
  assert_int_equal(situ_numel(situ_from_dlpack(p, SITU_DLPACK_VERSIONED)), 0);
  d = versioned_of(&p);
  p->managed.versioned.deleter = NULL; /* nothing is to be done: the memory stays the test's */
  situ_scope scope;
  situ_scope_begin(&scope);
  assert_non_null(situ_from_dlpack(p, SITU_DLPACK_VERSIONED));
  assert_int_equal(situ_scope_end(&scope), SITU_OK);
  assert_int_equal(freed, 0);
  free(p);
}

/* What situ has goes out and comes in as itself. */
static void every_dtype_goes_around(void **state) {
  (void)state;
  static const uint8_t codes[SITU_DTYPES] = {
    [SITU_BOOL] = 6, [SITU_U8] = 1, [SITU_I8] = 0, [SITU_F16] = 2, [SITU_BF16] = 4, [SITU_F32] = 2, [SITU_F64] = 2
  };
  for (unsigned dtype = SITU_BOOL; dtype < SITU_DTYPES; dtype++) {
    situ_tensor *t = situ_arange(0, 6, 1, NULL);
    t = situ_transpose(situ_reshape(situ_to_dtype(t, (situ_dtype)dtype), SITU_SHAPE(2, 3)), 0, 1);
    situ_dlpack_versioned *m = situ_to_dlpack(situ_narrow(t, 0, 1, 2), SITU_DLPACK_VERSIONED);
    assert_true(m && m->major == 1 && m->flags == 0 && m->tensor.lanes == 1 && m->tensor.device_type == 1);
    assert_int_equal(m->tensor.code, codes[dtype]);
    assert_int_equal(m->tensor.bits, 8 * situ_dtype_size((situ_dtype)dtype));
    assert_true(m->tensor.ndim == 2 && m->tensor.shape[0] == 2 && m->tensor.strides[0] == 1 &&
                m->tensor.strides[1] == 3);
    situ_tensor *back = situ_from_dlpack(m, SITU_DLPACK_VERSIONED);
    assert_true(situ_dtype_of(back) == (situ_dtype)dtype);
    assert_ptr_equal(situ_data_ptr(back), situ_data_ptr(situ_narrow(t, 0, 1, 2)));
    if (dtype != SITU_BOOL) expect_exact(back, SITU_SHAPE(2, 2), 1, 4, 2, 5);
  }
}

static void *give_back(void *managed) {
  situ_dlpack_unversioned *m = managed;
  m->deleter(m);
  return NULL;
}

/* The consumer may keep the memory longer than situ, and return it on another thread. */
static void given_out_and_back(void **state) {
  (void)state;
  situ_scope s;
  situ_scope_begin(&s);
  situ_tensor *t = situ_from_host((float[]){ 1, 2, 3 }, 12, SITU_SHAPE(3), NULL);
  situ_dlpack_versioned *a = situ_to_dlpack(t, SITU_DLPACK_VERSIONED);
  situ_dlpack_unversioned *b = situ_to_dlpack(t, SITU_DLPACK_UNVERSIONED);
  ((float *)a->tensor.data)[1] = 20;
  expect_exact(t, SITU_SHAPE(3), 1, 20, 3);
  assert_int_equal(situ_scope_end(&s), SITU_OK);
  assert_true(((float *)b->tensor.data)[1] == 20);
  a->deleter(a);
  assert_true(((float *)b->tensor.data)[2] == 3);
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, give_back, b), 0);
  assert_int_equal(pthread_join(thread, NULL), 0);
  situ_dlpack_versioned *none = situ_to_dlpack(situ_zeros(SITU_SHAPE(0, 4), NULL), SITU_DLPACK_VERSIONED);
  assert_true(none->tensor.ndim == 2 && none->tensor.shape[1] == 4);
  none->deleter(none);
  situ_dlpack_versioned *one = situ_to_dlpack(situ_ones(SITU_SCALAR, NULL), SITU_DLPACK_VERSIONED);
  assert_true(one->tensor.ndim == 0 && *(float *)one->tensor.data == 1);
  one->deleter(one);
}

static void memory_given_out_does_not_move(void **state) {
  (void)state;
  const situ_device away = situ_dev("sim:0");
  situ_nn_module *m = situ_nn_linear(2, 2, NULL);
  situ_tensor *w = situ_nn_get_tensor(m, "weight");
  situ_dlpack_versioned *a = situ_to_dlpack(situ_detach(w), SITU_DLPACK_VERSIONED);
  situ_dlpack_versioned *b = situ_to_dlpack(situ_detach(w), SITU_DLPACK_VERSIONED);
  assert_int_equal(situ_nn_to(m, away), SITU_E_STATE);
  expect_error(SITU_E_STATE, "nn_to",
               "`weight` ([2, 2] f32) cannot change its memory: situ_to_dlpack gave it to another");
  a->deleter(a);
  assert_int_equal(situ_to_(w, away), SITU_E_STATE);
  expect_error(SITU_E_STATE, "to_", "take a copy (situ_to)");
  assert_int_equal(situ_nn_to_dtype(m, SITU_F64), SITU_E_STATE);
  expect_error(SITU_E_STATE, "nn_to_dtype", test_has_lines() ? "dlpack.c:" : "another library");
  situ_tensor *other = situ_zeros(SITU_SHAPE(2, 2), NULL);
  assert_int_equal(situ_swap_memory("swap", w, other), SITU_E_STATE);
  expect_error(SITU_E_STATE, "swap", "cannot change its memory");
  assert_int_equal(situ_release_memory("release", w, "away"), SITU_E_STATE);
  expect_error(SITU_E_STATE, "release", "cannot change its memory");
  b->deleter(b);
  assert_int_equal(situ_nn_to(m, away), SITU_OK);
  situ_nn_free(m);
}

static void read_only_memory_is_not_written(void **state) {
  (void)state;
  producer *p = produce(SITU_DLPACK_VERSIONED);
  p->managed.versioned.flags = 1;
  situ_tensor *t = situ_from_dlpack(p, SITU_DLPACK_VERSIONED);
  expect_exact(situ_add(t, t), SITU_SHAPE(2, 3), 2, 4, 6, 8, 10, 12);
  expect_refused(situ_add_(t, t), SITU_E_STATE, "add_", "([2, 3] f32) is read-only memory of the program");
  expect_refused(situ_zero_(situ_select(t, 0, 0)), SITU_E_STATE, "zero_", "read-only");
  assert_int_equal(situ_copy_from_host(t, (float[6]){ 0 }, 24), SITU_E_STATE);
  expect_error(SITU_E_STATE, "copy_from_host", "write to a copy (situ_clone)");
  assert_true(p->values[0] == 1 && p->values[5] == 6);
  expect_refused(situ_to_dlpack(t, SITU_DLPACK_UNVERSIONED), SITU_E_STATE, "to_dlpack", "read-only");
  situ_dlpack_versioned *m = situ_to_dlpack(t, SITU_DLPACK_VERSIONED);
  assert_int_equal(m->flags, 1);
  m->deleter(m);
  assert_int_equal(situ_to_(t, situ_dev("sim:0")), SITU_OK);
  assert_int_equal(freed, 1);
  assert_non_null(situ_zero_(t)); /* memory of situ's own now */
}

#define REFUSED(change, status, text)                                                        \
  do {                                                                                       \
    producer *p;                                                                             \
    situ_dlpack_tensor *d = versioned_of(&p);                                                \
    change;                                                                                  \
    (void)d;                                                                                 \
    expect_refused(situ_from_dlpack(p, SITU_DLPACK_VERSIONED), status, "from_dlpack", text); \
    assert_int_equal(freed, 1);                                                              \
  } while (0)

static void what_cannot_be_taken(void **state) {
  (void)state;
  REFUSED(d->lanes = 4, SITU_E_DTYPE, "a vector of 4 float values (lanes)");
  REFUSED((d->code = 10, d->bits = 8), SITU_E_DTYPE, "float8_e4m3fn of 8 bits (code 10) has no dtype in situ");
  REFUSED((d->code = 1), SITU_E_DTYPE, "unsigned int of 32 bits");
  REFUSED((d->code = 99), SITU_E_DTYPE, "unknown of 32 bits (code 99)");
  REFUSED((d->device_type = 2, d->device_id = 1), SITU_E_DEVICE, "its memory is on CUDA device 1 (type 2)");
  REFUSED(d->device_type = -7, SITU_E_DEVICE, "another kind of device");
  REFUSED(d->ndim = SITU_MAX_DIMS + 1, SITU_E_SHAPE, "9 dimensions; a tensor has 0 to 8");
  REFUSED(d->ndim = -1, SITU_E_SHAPE, "-1 dimensions");
  REFUSED(d->shape = NULL, SITU_E_SHAPE, "shape is NULL");
  REFUSED(p->shape[0] = -2, SITU_E_SHAPE, "negative");
  REFUSED((d->strides = p->strides, p->strides[0] = -3, p->strides[1] = 1), SITU_E_ARG, "stride -3 at dimension 0");
  REFUSED(d->byte_offset = 2, SITU_E_ARG, "not aligned to the 4 bytes of f32");
  REFUSED(d->data = NULL, SITU_E_ARG, "data is NULL");
  REFUSED(p->managed.versioned.major = 2, SITU_E_ARG, "a tensor of DLPack 2.1, of which situ reads 1.x");
  expect_refused(situ_from_dlpack(NULL, SITU_DLPACK_VERSIONED), SITU_E_ARG, "from_dlpack", "`managed` is NULL");
}

static void what_cannot_be_given(void **state) {
  (void)state;
  situ_tensor *far = situ_zeros(SITU_SHAPE(2), &(situ_options){ .device = situ_dev("sim:0") });
  expect_refused(situ_to_dlpack(far, SITU_DLPACK_VERSIONED), SITU_E_DEVICE, "to_dlpack",
                 "on sim:0, whose memory the host cannot read; copy it with situ_copy_to_host or situ_to");
  situ_tensor *nowhere = situ_zeros(SITU_SHAPE(2), &(situ_options){ .device = situ_dev("meta") });
  expect_refused(situ_to_dlpack(nowhere, SITU_DLPACK_VERSIONED), SITU_E_DEVICE, "to_dlpack", "meta");
  situ_tensor *leaf = situ_requires_grad_(situ_zeros(SITU_SHAPE(2), NULL), true);
  expect_refused(situ_to_dlpack(leaf, SITU_DLPACK_VERSIONED), SITU_E_STATE, "to_dlpack", "pass its situ_detach");
  expect_refused(situ_to_dlpack(leaf, (situ_dlpack_abi)7), SITU_E_ARG, "to_dlpack", "7 is not a situ_dlpack_abi");
}

int main(void) {
  const struct CMUnitTest tests[] = {
    TEST(taken_in_both_layouts), TEST(strides_offsets_and_edges),      TEST(every_dtype_goes_around),
    TEST(given_out_and_back),    TEST(memory_given_out_does_not_move), TEST(read_only_memory_is_not_written),
    TEST(what_cannot_be_taken),  TEST(what_cannot_be_given),
  };
  return cmocka_run_group_tests_name("tensor/dlpack", tests, NULL, NULL);
}
