/* Every public function of two tensors and more: where all are on one device the result is there,
   and where one is not the call is refused, whatever the function does before it comes to the
   check.
   SPDX-License-Identifier: MIT */
/* test-devices: meta sim:0 sim:1 opencl:0 opencl:1 */
/* test-slow: opencl:0 opencl:1 cuda:0 */
/* test-cost: 400 */
#include "support/pairs.h"

/* name, operands, call. f: [2, 2], v: [2], i: indices [2], j: indices [2, 2], b: bool [2, 2],
   n: [1, 2, 2, 2], w: a 1x1 kernel, l: [1, 2, 2], k: a kernel of 1, h: whole numbers [2, 2],
   s: 0-dim. */
#define OFFSETS OPTIONS_AT(situ_embedding_bag, with.offsets = t[2])
#define WEIGHTED OPTIONS_AT(situ_multi_margin, with.weight = t[2])
#define FUNCTIONS(_)                                                                                              \
  _(add, "ff", situ_add(t[0], t[1]))                                                                              \
  _(sub, "ff", situ_sub(t[0], t[1]))                                                                              \
  _(mul, "ff", situ_mul(t[0], t[1]))                                                                              \
  _(div, "ff", situ_div(t[0], t[1]))                                                                              \
  _(pow, "ff", situ_pow(t[0], t[1]))                                                                              \
  _(fmax, "ff", situ_fmax(t[0], t[1]))                                                                            \
  _(fmin, "ff", situ_fmin(t[0], t[1]))                                                                            \
  _(ldexp, "ff", situ_ldexp(t[0], t[1]))                                                                          \
  _(float_power, "ff", situ_float_power(t[0], t[1]))                                                              \
  _(heaviside, "ff", situ_heaviside(t[0], t[1]))                                                                  \
  _(clamp_tensor, "fff", situ_clamp_tensor(t[0], t[1], t[2]))                                                     \
  _(prelu, "fv", situ_prelu(t[0], t[1]))                                                                          \
  _(fmod, "ff", situ_fmod(t[0], t[1]))                                                                            \
  _(remainder, "ff", situ_remainder(t[0], t[1]))                                                                  \
  _(maximum, "ff", situ_maximum(t[0], t[1]))                                                                      \
  _(minimum, "ff", situ_minimum(t[0], t[1]))                                                                      \
  _(eq, "ff", situ_eq(t[0], t[1]))                                                                                \
  _(ne, "ff", situ_ne(t[0], t[1]))                                                                                \
  _(lt, "ff", situ_lt(t[0], t[1]))                                                                                \
  _(le, "ff", situ_le(t[0], t[1]))                                                                                \
  _(gt, "ff", situ_gt(t[0], t[1]))                                                                                \
  _(ge, "ff", situ_ge(t[0], t[1]))                                                                                \
  _(isclose, "ff", situ_isclose(t[0], t[1], 0.1, 0.1, true))                                                      \
  _(logical_and, "ff", situ_logical_and(t[0], t[1]))                                                              \
  _(logical_or, "ff", situ_logical_or(t[0], t[1]))                                                                \
  _(logical_xor, "ff", situ_logical_xor(t[0], t[1]))                                                              \
  _(bitwise_and, "hh", situ_bitwise_and(t[0], t[1]))                                                              \
  _(bitwise_or, "hh", situ_bitwise_or(t[0], t[1]))                                                                \
  _(bitwise_xor, "hh", situ_bitwise_xor(t[0], t[1]))                                                              \
  _(bitwise_left_shift, "hh", situ_bitwise_left_shift(t[0], t[1]))                                                \
  _(bitwise_right_shift, "hh", situ_bitwise_right_shift(t[0], t[1]))                                              \
  _(gcd, "hh", situ_gcd(t[0], t[1]))                                                                              \
  _(lcm, "hh", situ_lcm(t[0], t[1]))                                                                              \
  _(atan2, "ff", situ_atan2(t[0], t[1]))                                                                          \
  _(hypot, "ff", situ_hypot(t[0], t[1]))                                                                          \
  _(copysign, "ff", situ_copysign(t[0], t[1]))                                                                    \
  _(nextafter, "ff", situ_nextafter(t[0], t[1]))                                                                  \
  _(xlogy, "ff", situ_xlogy(t[0], t[1]))                                                                          \
  _(special_xlog1py, "ff", situ_special_xlog1py(t[0], t[1]))                                                      \
  _(logaddexp, "ff", situ_logaddexp(t[0], t[1]))                                                                  \
  _(logaddexp2, "ff", situ_logaddexp2(t[0], t[1]))                                                                \
  _(div_mode, "ff", situ_div_mode(t[0], t[1], SITU_ROUND_FLOOR))                                                  \
  _(floor_divide, "ff", situ_floor_divide(t[0], t[1]))                                                            \
  _(add_alpha, "ff", situ_add_alpha(t[0], t[1], 2))                                                               \
  _(sub_alpha, "ff", situ_sub_alpha(t[0], t[1], 2))                                                               \
  _(mul_scalar_tensor, "fs", situ_mul(t[0], t[1]))                                                                \
  _(where, "bff", situ_where(t[0], t[1], t[2]))                                                                   \
  _(lerp, "fff", situ_lerp(t[0], t[1], t[2]))                                                                     \
  _(lerp_scalar, "ff", situ_lerp_scalar(t[0], t[1], 0.5))                                                         \
  _(addcmul, "fff", situ_addcmul(t[0], t[1], t[2], 1))                                                            \
  _(addcdiv, "fff", situ_addcdiv(t[0], t[1], t[2], 1))                                                            \
  _(add_, "ff", situ_add_(t[0], t[1]))                                                                            \
  _(sub_, "ff", situ_sub_(t[0], t[1]))                                                                            \
  _(mul_, "ff", situ_mul_(t[0], t[1]))                                                                            \
  _(div_, "ff", situ_div_(t[0], t[1]))                                                                            \
  _(pow_, "ff", situ_pow_(t[0], t[1]))                                                                            \
  _(bitwise_left_shift_, "hh", situ_bitwise_left_shift_(t[0], t[1]))                                              \
  _(bitwise_right_shift_, "hh", situ_bitwise_right_shift_(t[0], t[1]))                                            \
  _(gcd_, "hh", situ_gcd_(t[0], t[1]))                                                                            \
  _(lcm_, "hh", situ_lcm_(t[0], t[1]))                                                                            \
  _(atan2_, "ff", situ_atan2_(t[0], t[1]))                                                                        \
  _(hypot_, "ff", situ_hypot_(t[0], t[1]))                                                                        \
  _(copysign_, "ff", situ_copysign_(t[0], t[1]))                                                                  \
  _(nextafter_, "ff", situ_nextafter_(t[0], t[1]))                                                                \
  _(xlogy_, "ff", situ_xlogy_(t[0], t[1]))                                                                        \
  _(add_alpha_, "ff", situ_add_alpha_(t[0], t[1], 2))                                                             \
  _(lerp_scalar_, "ff", situ_lerp_scalar_(t[0], t[1], 0.5))                                                       \
  _(addcmul_, "fff", situ_addcmul_(t[0], t[1], t[2], 1))                                                          \
  _(addcdiv_, "fff", situ_addcdiv_(t[0], t[1], t[2], 1))                                                          \
  _(index_select, "fi", situ_index_select(t[0], 0, t[1]))                                                         \
  _(gather, "fj", situ_gather(t[0], 0, t[1]))                                                                     \
  _(take_along_dim, "fj", situ_take_along_dim(t[0], t[1], 0))                                                     \
  _(scatter, "fjf", situ_scatter(t[0], 0, t[1], t[2]))                                                            \
  _(scatter_value, "fj", situ_scatter_value(t[0], 0, t[1], 1))                                                    \
  _(scatter_add, "fjf", situ_scatter_add(t[0], 0, t[1], t[2]))                                                    \
  _(index_add, "fif", situ_index_add(t[0], 0, t[1], t[2], 1))                                                     \
  _(scatter_, "fjf", situ_scatter_(t[0], 0, t[1], t[2]))                                                          \
  _(scatter_add_, "fjf", situ_scatter_add_(t[0], 0, t[1], t[2]))                                                  \
  _(index_add_, "fif", situ_index_add_(t[0], 0, t[1], t[2], 1))                                                   \
  _(index_copy, "fif", situ_index_copy(t[0], 0, t[1], t[2]))                                                      \
  _(index_copy_, "fif", situ_index_copy_(t[0], 0, t[1], t[2]))                                                    \
  _(scatter_reduce, "fjf", situ_scatter_reduce(t[0], 0, t[1], t[2], SITU_SCATTER_AMAX, true))                     \
  _(scatter_reduce_, "fjf", situ_scatter_reduce_(t[0], 0, t[1], t[2], SITU_SCATTER_SUM, true))                    \
  _(index_reduce, "fif", situ_index_reduce(t[0], 0, t[1], t[2], SITU_SCATTER_PROD, false))                        \
  _(index_reduce_, "fif", situ_index_reduce_(t[0], 0, t[1], t[2], SITU_SCATTER_MEAN, true))                       \
  _(take, "fj", situ_take(t[0], t[1]))                                                                            \
  _(put, "fjf", situ_put(t[0], t[1], t[2], true))                                                                 \
  _(put_, "fjf", situ_put_(t[0], t[1], t[2], false))                                                              \
  _(masked_scatter, "fbf", situ_masked_scatter(t[0], t[1], t[2]))                                                 \
  _(masked_scatter_, "fbf", situ_masked_scatter_(t[0], t[1], t[2]))                                               \
  _(slice_scatter, "ff", situ_slice_scatter(t[0], t[1], 0, 0, 2, 1))                                              \
  _(select_scatter, "fv", situ_select_scatter(t[0], t[1], 0, 1))                                                  \
  _(diagonal_scatter, "fv", situ_diagonal_scatter(t[0], t[1], 0, 0, 1))                                           \
  _(index_fill, "fi", situ_index_fill(t[0], 0, t[1], 1))                                                          \
  _(index, "fi", situ_index(t[0], t + 1, 1))                                                                      \
  _(index_put, "fif", situ_index_put(t[0], t + 1, 1, t[2], true))                                                 \
  _(index_put_, "fif", situ_index_put_(t[0], t + 1, 1, t[2], true))                                               \
  _(searchsorted, "vf", situ_searchsorted(t[0], t[1], false))                                                     \
  _(bucketize, "fv", situ_bucketize(t[0], t[1], true))                                                            \
  _(inner, "ff", situ_inner(t[0], t[1]))                                                                          \
  _(addr, "fvv", situ_addr(t[0], t[1], t[2], NULL))                                                               \
  _(addmv, "vfv", situ_addmv(t[0], t[1], t[2], NULL))                                                             \
  _(addbmm, "fll", situ_addbmm(t[0], t[1], t[2], NULL))                                                           \
  _(dist, "ff", situ_dist(t[0], t[1], 2))                                                                         \
  _(column_stack, "fff", situ_column_stack(t, 3))                                                                 \
  _(multilabel_margin_loss, "fj", situ_multilabel_margin_loss(t[0], t[1], SITU_REDUCTION_MEAN))                   \
  _(linalg_multi_dot, "fff", situ_linalg_multi_dot(t, 3))                                                         \
  _(linalg_householder_product, "fv", situ_linalg_householder_product(t[0], t[1]))                                \
  _(linalg_vecdot, "ff", situ_linalg_vecdot(t[0], t[1], 0))                                                       \
  _(trapezoid, "ff", situ_trapezoid(t[0], t[1], 1, 0))                                                            \
  _(cumulative_trapezoid, "ff", situ_cumulative_trapezoid(t[0], t[1], 1, 0))                                      \
  _(isin, "ff", situ_isin(t[0], t[1], false))                                                                     \
  _(bincount, "iv", situ_bincount(t[0], t[1], 0))                                                                 \
  _(cdist, "ff", situ_cdist(t[0], t[1], 2))                                                                       \
  _(masked_fill, "fb", situ_masked_fill(t[0], t[1], 1))                                                           \
  _(masked_fill_, "fb", situ_masked_fill_(t[0], t[1], 1))                                                         \
  _(masked_select, "fb", situ_masked_select(t[0], t[1]))                                                          \
  _(embedding, "if", situ_embedding(t[0], t[1], NULL))                                                            \
  _(embedding_bag, "jf", situ_embedding_bag(t[0], t[1], NULL))                                                    \
  _(embedding_bag_offsets, "ifi", situ_embedding_bag(t[0], t[1], OFFSETS))                                        \
  _(embedding_limited, "if", situ_embedding(t[0], t[1], OPTIONS_AT(situ_embedding, with.max_norm = 1)))           \
  _(copy_, "ff", situ_copy_(t[0], t[1]))                                                                          \
  _(matmul, "ff", situ_matmul(t[0], t[1]))                                                                        \
  _(matmul_vectors, "vv", situ_matmul(t[0], t[1]))                                                                \
  _(matmul_batched, "lf", situ_matmul(t[0], t[1]))                                                                \
  _(mm, "ff", situ_mm(t[0], t[1]))                                                                                \
  _(bmm, "ll", situ_bmm(t[0], t[1]))                                                                              \
  _(mv, "fv", situ_mv(t[0], t[1]))                                                                                \
  _(dot, "vv", situ_dot(t[0], t[1]))                                                                              \
  _(outer, "vv", situ_outer(t[0], t[1]))                                                                          \
  _(addmm, "fff", situ_addmm(t[0], t[1], t[2], NULL))                                                             \
  _(baddbmm, "lll", situ_baddbmm(t[0], t[1], t[2], NULL))                                                         \
  _(linear, "ff", situ_linear(t[0], t[1], NULL))                                                                  \
  _(linear_bias, "ffv", situ_linear(t[0], t[1], t[2]))                                                            \
  _(linear_activation, "ffv", situ_linear_activation(t[0], t[1], t[2], SITU_ACTIVATION_GELU_TANH))                \
  _(mse_loss, "ff", situ_mse_loss(t[0], t[1], SITU_REDUCTION_MEAN))                                               \
  _(l1_loss, "ff", situ_l1_loss(t[0], t[1], SITU_REDUCTION_MEAN))                                                 \
  _(smooth_l1_loss, "ff", situ_smooth_l1_loss(t[0], t[1], 1, SITU_REDUCTION_MEAN))                                \
  _(cross_entropy, "fi", situ_cross_entropy(t[0], t[1], NULL))                                                    \
  _(cross_entropy_weight, "fiv", situ_cross_entropy(t[0], t[1], &(situ_cross_entropy_options){ .weight = t[2] })) \
  _(nll_loss, "fi", situ_nll_loss(t[0], t[1], NULL))                                                              \
  _(bce_with_logits, "ffff", situ_binary_cross_entropy_with_logits(t[0], t[1], t[2], t[3], SITU_REDUCTION_MEAN))  \
  _(kl_div, "ff", situ_kl_div(t[0], t[1], SITU_KL_BATCHMEAN, false))                                              \
  _(huber_loss, "ff", situ_huber_loss(t[0], t[1], 1, SITU_REDUCTION_MEAN))                                        \
  _(bce, "fff", situ_binary_cross_entropy(t[0], t[1], t[2], SITU_REDUCTION_MEAN))                                 \
  _(poisson_nll_loss, "ff", situ_poisson_nll_loss(t[0], t[1], true, true, 1e-8, SITU_REDUCTION_MEAN))             \
  _(gaussian_nll_loss, "fff", situ_gaussian_nll_loss(t[0], t[1], t[2], true, 1e-6, SITU_REDUCTION_MEAN))          \
  _(hinge_embedding_loss, "ff", situ_hinge_embedding_loss(t[0], t[1], 1, SITU_REDUCTION_MEAN))                    \
  _(margin_ranking_loss, "fff", situ_margin_ranking_loss(t[0], t[1], t[2], 0, SITU_REDUCTION_MEAN))               \
  _(soft_margin_loss, "ff", situ_soft_margin_loss(t[0], t[1], SITU_REDUCTION_MEAN))                               \
  _(multilabel_loss, "fff", situ_multilabel_soft_margin_loss(t[0], t[1], t[2], SITU_REDUCTION_MEAN))              \
  _(cosine_embedding_loss, "ffv", situ_cosine_embedding_loss(t[0], t[1], t[2], 0, SITU_REDUCTION_MEAN))           \
  _(triplet_margin_loss, "fff", situ_triplet_margin_loss(t[0], t[1], t[2], NULL))                                 \
  _(multi_margin_loss, "fiv", situ_multi_margin_loss(t[0], t[1], WEIGHTED))                                       \
  _(cosine_similarity, "ff", situ_cosine_similarity(t[0], t[1], 1, 1e-8))                                         \
  _(pairwise_distance, "ff", situ_pairwise_distance(t[0], t[1], 2, 1e-6, false))                                  \
  _(kron, "ff", situ_kron(t[0], t[1]))                                                                            \
  _(tensordot, "ff", situ_tensordot(t[0], t[1], SITU_DIMS(1), SITU_DIMS(0)))                                      \
  _(einsum, "fff", situ_einsum("ij,jk,kl", t, 3))                                                                 \
  _(block_diag, "fff", situ_block_diag(t, 3))                                                                     \
  _(hstack, "fff", situ_hstack(t, 3))                                                                             \
  _(conv1d, "lkv", situ_conv1d(t[0], t[1], t[2], NULL))                                                           \
  _(conv2d, "nwv", situ_conv2d(t[0], t[1], t[2], NULL))                                                           \
  _(conv_transpose2d, "nwv", situ_conv_transpose2d(t[0], t[1], t[2], NULL))                                       \
  _(batch_norm, "nvvvv", situ_batch_norm(t[0], t[1], t[2], t[3], t[4], NULL))                                     \
  _(batch_norm_training, "nvvvv",                                                                                 \
    situ_batch_norm(t[0], t[1], t[2], t[3], t[4], OPTIONS_AT(situ_batch_norm, with.training = true)))             \
  _(layer_norm, "fvv", situ_layer_norm(t[0], SITU_SHAPE(2), t[1], t[2], 1e-5))                                    \
  _(group_norm, "nvv", situ_group_norm(t[0], 1, t[1], t[2], 1e-5))                                                \
  _(rms_norm, "fv", situ_rms_norm(t[0], SITU_SHAPE(2), t[1], SITU_NONE))                                          \
  _(attention, "fff", situ_scaled_dot_product_attention(t[0], t[1], t[2], NULL))                                  \
  _(attention_mask, "fffb",                                                                                       \
    situ_scaled_dot_product_attention(t[0], t[1], t[2], OPTIONS_AT(situ_attention, with.attn_mask = t[3])))       \
  _(cat, "fff", situ_cat(t, 3, 0))                                                                                \
  _(stack, "fff", situ_stack(t, 3, 0))

typedef struct function {
  const char *name, *operands;
  situ_tensor *(*call)(situ_tensor **t);
} function;

#define DEFINE(name, operands, expression) \
  static situ_tensor *call_##name(situ_tensor **t) { return expression; }
FUNCTIONS(DEFINE)
#define LIST(name, operands, expression) { #name, operands, call_##name },
static const function functions[] = { FUNCTIONS(LIST) };

static situ_tensor *operand(char kind, situ_device device) {
  situ_options f32 = { .device = device }, i64 = { .device = device, .dtype = SITU_I64 };
  situ_options flags = { .device = device, .dtype = SITU_BOOL };
  switch (kind) {
  case 'f': return situ_ones(SITU_SHAPE(2, 2), &f32);
  case 'v': return situ_ones(SITU_SHAPE(2), &f32);
  case 'i': return situ_zeros(SITU_SHAPE(2), &i64);
  case 'j': return situ_zeros(SITU_SHAPE(2, 2), &i64);
  case 'h': return situ_ones(SITU_SHAPE(2, 2), &i64);
  case 'b': return situ_ones(SITU_SHAPE(2, 2), &flags);
  case 'n': return situ_ones(SITU_SHAPE(1, 2, 2, 2), &f32);
  case 'w': return situ_ones(SITU_SHAPE(2, 2, 1, 1), &f32);
  case 'l': return situ_ones(SITU_SHAPE(1, 2, 2), &f32);
  case 'k': return situ_ones(SITU_SHAPE(2, 2, 1), &f32);
  default: return situ_scalar_tensor(1, &f32);
  }
}

/* foreign -1: all are on `one`. `worse`: the foreign one has a shape that does not fit either, and
   if it is floating another dtype. */
static situ_tensor *call(const function *f, situ_device one, situ_device other, int foreign, bool worse,
                         situ_tensor **t) {
  for (int i = 0; f->operands[i]; i++) {
    t[i] = operand(f->operands[i], i == foreign ? other : one);
    if (i != foreign || !worse) continue;
    situ_dtype dtype = situ_dtype_of(t[i]) == SITU_F32 ? SITU_F64 : situ_dtype_of(t[i]);
    t[i] = situ_ones(SITU_SHAPE(7, 1, 5), &(situ_options){ .device = other, .dtype = dtype });
    assert_non_null(t[i]);
  }
  return f->call(t);
}

/* What is written in place stays where it is: then the others are the odd ones. */
static bool is_in_place(const char *name) { return name[strlen(name) - 1] == '_'; }

/* Does the message have the operand that is elsewhere, as the odd one unless it is one of two? */
static bool is_foreign_named(const char *device, bool odd) {
  const situ_error_operand *list;
  int count = situ_error_operands(&list);
  for (int i = 0; i < count; i++)
    if ((list[i].odd || !odd) && strcmp(list[i].device, device) == 0) return true;
  return false;
}

static void results_are_where_the_operands_are(void **state) {
  (void)state;
  const situ_device both[] = { here(), there() };
  for (size_t k = 0; k < sizeof functions / sizeof *functions; k++)
    for (int d = 0; d < 2; d++) {
      situ_tensor *t[5], *y = call(&functions[k], both[d], both[d], -1, false, t);
      if (!y && situ_error() == SITU_E_UNSUPPORTED && !has_values(both[d])) {
        situ_error_clear(); /* masked_select: its shape depends on values */
        continue;
      }
      if (!y) fail_msg("%s on %s: %s", functions[k].name, name_of(both[d]), situ_error_message());
      expect_on(y, both[d]);
    }
}

static void a_foreign_operand_is_refused(void **state) {
  (void)state;
  const situ_device both[] = { here(), there() };
  int refused = 0;
  for (size_t k = 0; k < sizeof functions / sizeof *functions; k++)
    for (int d = 0; d < 2; d++)
      for (int round = 0; functions[k].operands[round / 2]; round++) {
        const int foreign = round / 2;
        situ_tensor *t[5], *y = call(&functions[k], both[d], both[!d], foreign, round % 2, t);
        if (y || situ_error() != SITU_E_DEVICE ||
            !is_foreign_named(name_of(both[!d]),
                              functions[k].operands[2] && !(foreign == 0 && is_in_place(functions[k].name))))
          fail_msg("%s on %s, operand %d on %s: %s", functions[k].name, name_of(both[d]), foreign, name_of(both[!d]),
                   situ_error_message());
        for (int i = 0; functions[k].operands[i]; i++) {
          expect_on(t[i], i == foreign ? both[!d] : both[d]);
          if (i == 0 && situ_dtype_of(t[0]) == SITU_F32) assert_int_equal(situ_version_of(t[0]), 1);
        }
        situ_error_clear();
        refused++;
      }
  printf("%zu functions, %d mixed calls on %s and %s, all refused\n", sizeof functions / sizeof *functions, refused,
         name_of(here()), name_of(there()));
}

/* ---- the fix in the message ---- */

enum { ELSEWHERE, OF_ANOTHER_DTYPE, BOTH, WITHOUT_VALUES, FAULTS };

static situ_tensor *faulty(const function *f, int i, situ_device one, situ_device other, int fault) {
  situ_tensor *t = operand(f->operands[i], fault == OF_ANOTHER_DTYPE ? one : other);
  if (fault == WITHOUT_VALUES)
    return situ_empty(situ_shape_of(t), &(situ_options){ .dtype = situ_dtype_of(t), .device = situ_dev("meta") });
  if (fault == ELSEWHERE || !t) return t;
  return situ_to_dtype(t, situ_dtype_of(t) == SITU_F32 ? SITU_F64 : SITU_F32);
}

/* Makes one choice of the report: variables are known by their names. */
static bool make_choice(const situ_error_report *r, int choice, situ_tensor **t, int count) {
  for (int k = 0; k < r->fix_count; k++) {
    const situ_error_fix *fix = &r->fixes[k];
    if (fix->choice != choice) continue;
    if (fix->action != SITU_FIX_TO && fix->action != SITU_FIX_TO_DTYPE) return false;
    int i = 0;
    while (i < count && strcmp(situ_name(t[i]), fix->target) != 0) i++;
    if (i == count) return false;
    situ_dtype dtype = strcmp(fix->dtype, "f64") == 0    ? SITU_F64
                       : strcmp(fix->dtype, "f32") == 0  ? SITU_F32
                       : strcmp(fix->dtype, "i64") == 0  ? SITU_I64
                       : strcmp(fix->dtype, "bool") == 0 ? SITU_BOOL
                                                         : SITU_DTYPE_DEFAULT;
    char name[8];
    (void)snprintf(name, sizeof name, "t%d", i);
    t[i] = fix->action == SITU_FIX_TO ? situ_to(t[i], situ_dev(fix->device)) : situ_to_dtype(t[i], dtype);
    if (!t[i] || !situ_set_name(t[i], name)) return false;
  }
  return true;
}

typedef struct tally {
  int refused, tried, without[FAULTS];
} tally;

static void try_fixes(const function *f, situ_device one, situ_device other, int foreign, int fault, tally *sum) {
  situ_tensor *t[5];
  int count = 0, choices = 0;
  for (; f->operands[count]; count++) {
    char name[8];
    (void)snprintf(name, sizeof name, "t%d", count);
    t[count] = count == foreign ? faulty(f, count, one, other, fault) : operand(f->operands[count], one);
    assert_non_null(situ_set_name(t[count], name));
  }
  if (f->call(t) || (situ_error() != SITU_E_DEVICE && situ_error() != SITU_E_DTYPE)) {
    situ_error_clear();
    return;
  }
  situ_error_report r;
  char message[4096];
  assert_true(situ_error_read(&r));
  sum->refused++;
  sum->without[fault] += r.fix_count == 0;
  for (int k = 0; k < r.fix_count; k++) choices = r.fixes[k].choice >= choices ? r.fixes[k].choice + 1 : choices;
  (void)snprintf(message, sizeof message, "%s", r.message);
  for (int c = 0; c < choices; c++) {
    situ_tensor *mended[5];
    memcpy(mended, t, sizeof t);
    bool made = make_choice(&r, c, mended, count);
    if (c == choices - 1) situ_error_clear();
    situ_tensor *y = made ? f->call(mended) : NULL;
    bool unable = made && !y && situ_error() == SITU_E_UNSUPPORTED && !has_values(one); /* masked_select on meta */
    if (!y && !unable) fail_msg("%s: choice %d does not mend:\n%s\n%s", f->name, c, message, situ_error_message());
    sum->tried++;
  }
  situ_error_clear();
}

static void every_proposed_fix_mends(void **state) {
  (void)state;
  const situ_device both[] = { here(), there() };
  tally sum = { 0 };
  for (size_t k = 0; k < sizeof functions / sizeof *functions; k++)
    for (int d = 0; d < 2; d++)
      for (int i = 0; functions[k].operands[i]; i++)
        for (int fault = 0; fault < FAULTS; fault++) {
          situ_scope s;
          situ_scope_begin(&s);
          try_fixes(&functions[k], both[d], both[!d], i, fault, &sum);
          SITU_IGNORE(situ_scope_end(&s));
        }
  printf(
      "%d calls refused on %s and %s, %d fixes tried; without a fix: %d elsewhere, %d of another dtype, %d of both, %d without values\n",
      sum.refused, name_of(here()), name_of(there()), sum.tried, sum.without[ELSEWHERE], sum.without[OF_ANOTHER_DTYPE],
      sum.without[BOTH], sum.without[WITHOUT_VALUES]);
  assert_true(sum.tried > 300);
  assert_int_equal(sum.without[ELSEWHERE], 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    PAIR_TEST(every_proposed_fix_mends),
    PAIR_TEST(results_are_where_the_operands_are),
    PAIR_TEST(a_foreign_operand_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
