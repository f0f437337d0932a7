/* Rearrangements, diagonals, joins, contractions, ranges: values, gradients, refusals.
   SPDX-License-Identifier: MIT */
#include "support/test.h"

#include <math.h>
#include <string.h>

#define R(...) test_random(SITU_SHAPE(__VA_ARGS__), -1, 1, false)
#define G(...) test_random(SITU_SHAPE(__VA_ARGS__), -1, 1, true)
#define HERE(...) (&(situ_options){ .device = test_device(), __VA_ARGS__ })

static situ_tensor *counted(int64_t n) { return situ_arange(1, (double)(n + 1), 1, HERE(.dtype = SITU_F64)); }
static situ_tensor *matrix(void) { return situ_reshape(counted(6), SITU_SHAPE(2, 3)); }

static void diagonals(void **state) {
  (void)state;
  situ_tensor *x = matrix();
  expect_exact(situ_diagonal(x, 0, 0, 1), SITU_SHAPE(2), 1, 5);
  expect_exact(situ_diagonal(x, -1, 1, 0), SITU_SHAPE(2), 2, 6);
  expect_exact(situ_diag_embed(counted(2), 1, -2, -1), SITU_SHAPE(3, 3), 0, 1, 0, 0, 0, 2, 0, 0, 0);
  expect_exact(situ_diag(counted(2), -1), SITU_SHAPE(3, 3), 0, 0, 0, 1, 0, 0, 0, 2, 0);
  expect_exact(situ_diag(x, 1), SITU_SHAPE(2), 2, 6);
  expect_exact(situ_trace(x), SITU_SCALAR, 6);
  assert_int_equal(situ_numel(situ_diagonal(x, INT64_MAX, 0, 1)), 0);
  assert_int_equal(situ_numel(situ_diagonal(x, INT64_MIN, 0, 1)), 0);
  assert_non_null(situ_fill_(situ_diagonal(x, 0, 0, 1), 9));
  expect_exact(x, SITU_SHAPE(2, 3), 9, 2, 3, 4, 9, 6);
  situ_tensor *parts[] = { counted(2), situ_reshape(counted(2), SITU_SHAPE(2, 1)) };
  expect_exact(situ_block_diag(parts, 2), SITU_SHAPE(3, 3), 1, 2, 0, 0, 0, 1, 0, 0, 2);
  expect_refused(situ_diagonal(x, 0, 1, -1), SITU_E_ARG, "diagonal", "two different dimensions, got 1 and -1");
  expect_refused(situ_diag_embed(x, INT64_MIN, 0, 1), SITU_E_OVERFLOW, "diag_embed", "2^63");
  expect_refused(situ_diag(R(2, 2, 2), 0), SITU_E_SHAPE, "diag", "1 or 2 dimensions, got 3");
  expect_refused(situ_trace(counted(2)), SITU_E_SHAPE, "trace", "a matrix");
  expect_refused(situ_trace(situ_isnan(x)), SITU_E_DTYPE, "trace", "bool");
  expect_refused(situ_block_diag((situ_tensor *[]){ x, R(1, 1, 1) }, 2), SITU_E_SHAPE, "block_diag", "tensor 1");
}

static void moves(void **state) {
  (void)state;
  situ_tensor *x = matrix();
  expect_exact(situ_rot90(x, 1, SITU_DIMS(0, 1)), SITU_SHAPE(3, 2), 3, 6, 2, 5, 1, 4);
  expect_exact(situ_rot90(x, -1, SITU_DIMS(0, 1)), SITU_SHAPE(3, 2), 4, 1, 5, 2, 6, 3);
  expect_exact(situ_movedim(x, SITU_DIMS(0), SITU_DIMS(-1)), SITU_SHAPE(3, 2), 1, 4, 2, 5, 3, 6);
  expect_exact(situ_unflatten(counted(6), 0, SITU_DIMS(-1, 3)), SITU_SHAPE(2, 3), 1, 2, 3, 4, 5, 6);
  expect_exact(situ_tile(counted(2), SITU_DIMS(2, 1)), SITU_SHAPE(2, 2), 1, 2, 1, 2);
  expect_exact(situ_repeat_interleave(counted(2), 2, SITU_DIMS(0)), SITU_SHAPE(4), 1, 1, 2, 2);
  expect_exact(situ_repeat_interleave(x, 2, (situ_shape){ .ndim = 0 }), SITU_SHAPE(12), 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6,
               6);
  expect_exact(situ_pixel_shuffle(situ_reshape(counted(4), SITU_SHAPE(4, 1, 1)), 2), SITU_SHAPE(1, 2, 2), 1, 2, 3, 4);
  situ_tensor *once = situ_repeat_interleave(counted(1), 3, SITU_DIMS(0));
  assert_true(situ_is_contiguous(once));
  expect_refused(situ_movedim(x, SITU_DIMS(0), SITU_DIMS(0, 1)), SITU_E_ARG, "movedim", "source lists 1 dimensions");
  expect_refused(situ_movedim(x, SITU_DIMS(0, 0), SITU_DIMS(0, 1)), SITU_E_ARG, "movedim", "listed twice");
  expect_refused(situ_swapaxes(x, 0, 2), SITU_E_ARG, "swapaxes", "dimension 2");
  expect_refused(situ_unflatten(x, 1, SITU_DIMS(2, 2)), SITU_E_SHAPE, "unflatten", "3 elements");
  expect_refused(situ_rot90(x, 1, SITU_DIMS(0)), SITU_E_ARG, "rot90", "2");
  expect_refused(situ_fliplr(counted(2)), SITU_E_SHAPE, "fliplr", "at least 2");
  expect_refused(situ_repeat_interleave(x, -1, SITU_DIMS(0)), SITU_E_ARG, "repeat_interleave", "-1 repeats");
  expect_refused(situ_tile(x, SITU_DIMS(-1)), SITU_E_ARG, "tile", "-1");
  expect_refused(situ_pixel_shuffle(R(3, 2, 2), 2), SITU_E_SHAPE, "pixel_shuffle", "channels of [3, 2, 2]");
  expect_refused(situ_pixel_unshuffle(R(1, 3, 2), 2), SITU_E_SHAPE, "pixel_unshuffle", "divide by 2");
  expect_refused(situ_pixel_shuffle(R(4, 2, 2), INT64_MAX), SITU_E_ARG, "pixel_shuffle", "factor");
}

static void joins(void **state) {
  (void)state;
  situ_tensor *rows[] = { counted(2), counted(2) }, *out[2], *axes[] = { counted(2), counted(3) };
  expect_exact(situ_hstack(rows, 2), SITU_SHAPE(4), 1, 2, 1, 2);
  expect_exact(situ_vstack(rows, 2), SITU_SHAPE(2, 2), 1, 2, 1, 2);
  expect_exact(situ_dstack(rows, 2), SITU_SHAPE(1, 2, 2), 1, 1, 2, 2);
  assert_int_equal(situ_meshgrid(axes, 2, SITU_INDEXING_XY, out), SITU_OK);
  expect_exact(out[0], SITU_SHAPE(3, 2), 1, 2, 1, 2, 1, 2);
  expect_exact(out[1], SITU_SHAPE(3, 2), 1, 1, 2, 2, 3, 3);
  expect_refused(situ_hstack((situ_tensor *[]){ counted(2), matrix() }, 2), SITU_E_SHAPE, "hstack", "");
  expect_refused(situ_vstack(rows, 0), SITU_E_ARG, "vstack", "at least one");
  assert_int_equal(situ_meshgrid((situ_tensor *[]){ matrix() }, 1, SITU_INDEXING_IJ, out), SITU_E_SHAPE);
  expect_error(SITU_E_SHAPE, "meshgrid", "0 or 1");
  situ_tensor *many[SITU_MAX_DIMS + 1], *results[SITU_MAX_DIMS + 1];
  for (int i = 0; i <= SITU_MAX_DIMS; i++) many[i] = T32(SITU_SHAPE(1), 0);
  assert_int_equal(situ_meshgrid(many, SITU_MAX_DIMS + 1, SITU_INDEXING_IJ, results), SITU_E_ARG);
  expect_error(SITU_E_ARG, "meshgrid", "9 tensors");
}

static void contractions(void **state) {
  (void)state;
  situ_tensor *x = matrix(), *two[] = { x, x }, *square = situ_reshape(counted(4), SITU_SHAPE(2, 2));
  expect_exact(situ_einsum("ij,kj", two, 2), SITU_SHAPE(2, 2), 14, 32, 32, 77);
  expect_exact(situ_einsum("ii", &square, 1), SITU_SCALAR, 5);
  expect_exact(situ_einsum("...j->j...", &x, 1), SITU_SHAPE(3, 2), 1, 4, 2, 5, 3, 6);
  expect_exact(situ_tensordot(x, x, SITU_DIMS(0, 1), SITU_DIMS(0, 1)), SITU_SCALAR, 91);
  expect_exact(situ_tensordot(situ_transpose(x, 0, 1), x, SITU_DIMS(1, 0), SITU_DIMS(0, 1)), SITU_SCALAR, 91);
  expect_exact(situ_kron(counted(2), counted(2)), SITU_SHAPE(4), 1, 2, 2, 4);
  expect_refused(situ_einsum("ij,kj->ik", &x, 1), SITU_E_ARG, "einsum", "more subscripts than operands");
  expect_refused(situ_einsum("ij->ij", two, 2), SITU_E_ARG, "einsum", "fewer subscripts");
  expect_refused(situ_einsum("i", &x, 1), SITU_E_SHAPE, "einsum", "operand 0 has 2 dimensions, its subscript 1");
  expect_refused(situ_einsum("ij,jk", two, 2), SITU_E_SHAPE, "einsum", "label j");
  expect_refused(situ_einsum("ii", &x, 1), SITU_E_SHAPE, "einsum", "label i");
  expect_refused(situ_einsum("ij->ii", &x, 1), SITU_E_ARG, "einsum", "twice in the result");
  expect_refused(situ_einsum("ij->ik", &x, 1), SITU_E_ARG, "einsum", "no operand");
  expect_refused(situ_einsum("i1", &x, 1), SITU_E_ARG, "einsum", "labels are letters");
  expect_refused(situ_einsum("ij-", &x, 1), SITU_E_ARG, "einsum", "without");
  expect_refused(situ_einsum("ij->i->j", &x, 1), SITU_E_ARG, "einsum", "one subscript");
  expect_refused(situ_einsum("......", &x, 1), SITU_E_ARG, "einsum", "twice");
  expect_refused(situ_einsum(NULL, &x, 1), SITU_E_ARG, "einsum", "NULL");
  situ_tensor *wide[] = { R(1, 1, 1, 1, 1), R(1, 1, 1, 1) };
  expect_refused(situ_einsum("abcde,fghi", wide, 2), SITU_E_ARG, "einsum", "too many dimensions");
  expect_refused(situ_tensordot(x, x, SITU_DIMS(0), SITU_DIMS(1)), SITU_E_SHAPE, "tensordot", "dimension 0 of input");
  expect_refused(situ_kron(R(1, 1, 1, 1, 1), x), SITU_E_SHAPE, "kron", "at most 4");
}

static void ranges(void **state) {
  (void)state;
  expect_exact(situ_tril_indices(2, 3, 0, HERE(0)), SITU_SHAPE(2, 3), 0, 1, 1, 0, 0, 1);
  expect_exact(situ_triu_indices(2, 3, 1, HERE(0)), SITU_SHAPE(2, 3), 0, 0, 1, 1, 2, 2);
  expect_values(situ_logspace(0, 2, 3, 10, HERE(0)), SITU_SHAPE(3), 1, 10, 100);
  assert_int_equal(situ_size(situ_triu_indices(INT64_MAX / 16, 1, 0, HERE(0)), 1), 1);
  expect_refused(situ_tril_indices(INT64_MAX, 2, 0, HERE(0)), SITU_E_OVERFLOW, "tril_indices", "too large");
  expect_refused(situ_triu_indices(-1, 2, 0, HERE(0)), SITU_E_ARG, "triu_indices", "not be negative");
  expect_refused(situ_tril_indices(2, 2, 0, HERE(.dtype = SITU_F32)), SITU_E_DTYPE, "tril_indices", "f32");
  expect_refused(situ_logspace(0, 1, -1, 10, HERE(0)), SITU_E_ARG, "logspace", "steps");
}

/* ---- gradients ---- */

#define CHECKED(name, call)                                         \
  static situ_tensor *name(situ_tensor *const *in, void *payload) { \
    (void)payload;                                                  \
    return call;                                                    \
  }
CHECKED(diagonal, situ_diagonal(in[0], 1, 2, 0))
CHECKED(both_diagonals, situ_add(situ_diagonal(in[0], 0, 0, 1), situ_diagonal(in[0], 0, 1, 0)))
CHECKED(diag_embed, situ_diag_embed(in[0], -1, 0, 2))
CHECKED(trace, situ_trace(in[0]))
CHECKED(rot90, situ_rot90(in[0], 3, SITU_DIMS(0, 2)))
CHECKED(movedim, situ_movedim(in[0], SITU_DIMS(0, 1), SITU_DIMS(2, 0)))
CHECKED(tile, situ_tile(in[0], SITU_DIMS(2, 1, 2)))
CHECKED(interleave, situ_repeat_interleave(in[0], 3, SITU_DIMS(1)))
CHECKED(shuffle, situ_pixel_unshuffle(situ_pixel_shuffle(in[0], 2), 4))
CHECKED(blocks, situ_block_diag((situ_tensor *[]){ in[0], in[1] }, 2))
CHECKED(depth, situ_dstack((situ_tensor *[]){ in[0], in[1] }, 2))
CHECKED(kron, situ_kron(in[0], in[1]))
CHECKED(dots, situ_tensordot(in[0], in[1], SITU_DIMS(1, 0), SITU_DIMS(0, 2)))
CHECKED(chain, situ_einsum("bij,bjk,k->ib", in, 3))
CHECKED(broadcast, situ_einsum("...ij,jj->i...", in, 2))

static void gradients(void **state) {
  (void)state;
  gradcheck(diagonal, NULL, G(3, 2, 4));
  gradcheck(both_diagonals, NULL, G(3, 3));
  gradcheck(diag_embed, NULL, G(2, 3));
  gradcheck(trace, NULL, G(3, 2));
  gradcheck(rot90, NULL, G(2, 2, 3));
  gradcheck(movedim, NULL, G(2, 3, 2));
  gradcheck(tile, NULL, G(2, 3));
  gradcheck(interleave, NULL, G(2, 3));
  gradcheck(shuffle, NULL, G(1, 4, 2, 2));
  gradcheck(blocks, NULL, G(2, 3), G(2));
  gradcheck(depth, NULL, G(2, 3), G(2, 3));
  gradcheck(kron, NULL, G(2, 2), G(3));
  gradcheck(dots, NULL, G(2, 3, 2), G(3, 2, 2));
  gradcheck(chain, NULL, G(2, 3, 2), G(2, 2, 3), G(3));
  gradcheck(broadcast, NULL, G(2, 3, 2), G(2, 2));
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(diagonals),    TEST(moves),  TEST(joins),
                                      TEST(contractions), TEST(ranges), TEST(gradients) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
