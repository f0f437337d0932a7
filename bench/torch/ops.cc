// The jobs of bench/ops.c on libtorch, which bench/torch/ops.py has do their turns: ops NAME... see there.
// SPDX-License-Identifier: MIT
#include <torch/torch.h>

#include <cmath>
#include <cstring>
#include <ctime>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

using torch::Tensor;
namespace F = torch::nn::functional;

namespace {

struct operands {
  Tensor line, other, positive, one, square, second, row, blocks, image, small, large, w1, w3, d3, d5, d7, deep, stem,
      scale, shift, table, rows, heads, tokens, weight, wide, mask, marked, classes, at, column, chosen;
  std::vector<Tensor *> leaves() {
    return {&line, &other, &positive, &one,  &square, &second, &row,   &blocks, &image, &small, &large,  &w1,     &w3,
            &d3,   &d5,    &d7,       &deep, &stem,   &scale,  &shift, &table,  &rows,  &heads, &tokens, &weight, &wide};
  }
};

Tensor interpolate(const Tensor &image, F::InterpolateFuncOptions::mode_t mode) {
  return F::interpolate(image, F::InterpolateFuncOptions().scale_factor(std::vector<double>{2, 2}).mode(mode));
}
Tensor average(const Tensor &t) { return at::adaptive_avg_pool2d(t, {1, 1}); }
double last_value;
Tensor read_value(const Tensor &t) {
  last_value = t.item<double>();
  return t;
}

#define PERMUTED x.blocks.permute({3, 1, 0, 2})
#define JOBS(_)                                                                          \
  _(add, x.line + x.other)                                                               \
  _(mul, x.line * x.other)                                                               \
  _(div, x.line / x.positive)                                                            \
  _(add_scalar, x.line + 2)                                                              \
  _(add_row, x.square + x.row)                                                           \
  _(add_permuted, PERMUTED + PERMUTED)                                                   \
  _(add_transposed, x.square + x.square.t())                                             \
  _(maximum, at::maximum(x.line, x.other))                                               \
  _(lerp, at::lerp(x.line, x.other, 0.3))                                                \
  _(addcmul, at::addcmul(x.line, x.other, x.positive))                                   \
  _(gt_scalar, x.line > 0)                                                               \
  _(where, at::where(x.mask, x.line, x.other))                                           \
  _(masked_fill, x.line.masked_fill(x.mask, 0))                                          \
  _(clamp, x.line.clamp(-1, 1))                                                          \
  _(abs, x.line.abs())                                                                   \
  _(sqrt, x.positive.sqrt())                                                             \
  _(pow_2, x.line.pow(2))                                                                \
  _(pow_3, x.line.pow(3))                                                                \
  _(exp, x.line.exp())                                                                   \
  _(log, x.positive.log())                                                               \
  _(log1p, x.positive.log1p())                                                           \
  _(sin, x.line.sin())                                                                   \
  _(cos, x.line.cos())                                                                   \
  _(tanh, x.line.tanh())                                                                 \
  _(erf, x.line.erf())                                                                   \
  _(sigmoid, x.line.sigmoid())                                                           \
  _(relu, x.line.relu())                                                                 \
  _(gelu, at::gelu(x.line))                                                              \
  _(gelu_tanh, at::gelu(x.line, "tanh"))                                                 \
  _(silu, at::silu(x.line))                                                              \
  _(softplus, at::softplus(x.line))                                                      \
  _(leaky_relu, at::leaky_relu(x.line))                                                  \
  _(hardswish, at::hardswish(x.line))                                                    \
  _(dropout, at::dropout(x.line, 0.1, true))                                             \
  _(clone, x.line.clone())                                                               \
  _(to_f16, x.line.to(at::kHalf))                                                        \
  _(to_i64, x.line.to(at::kLong))                                                        \
  _(permute, PERMUTED.contiguous())                                                      \
  _(head_split, x.tokens.view({2, 128, 12, 64}).transpose(1, 2).contiguous())            \
  _(transpose, x.square.t().contiguous())                                                \
  _(channels_last, x.image.permute({0, 2, 3, 1}).contiguous())                           \
  _(cat, at::cat({x.square, x.second}, 1))                                               \
  _(stack, at::stack({x.square, x.second}))                                              \
  _(flip, x.square.flip(1))                                                              \
  _(tril, x.square.tril())                                                               \
  _(sum, x.line.sum())                                                                   \
  _(sum_columns, x.square.sum(0))                                                        \
  _(sum_rows, x.square.sum(1))                                                           \
  _(mean, x.line.mean())                                                                 \
  _(var, x.square.var(1))                                                                \
  _(norm, x.line.norm())                                                                 \
  _(amax_rows, x.square.amax(1))                                                         \
  _(max_columns, std::get<0>(x.square.max(0)))                                           \
  _(argmax, x.square.argmax(1))                                                          \
  _(logsumexp, x.square.logsumexp(1))                                                    \
  _(any, x.mask.any())                                                                   \
  _(cumsum, x.square.cumsum(1))                                                          \
  _(softmax, x.square.softmax(1))                                                        \
  _(log_softmax, x.square.log_softmax(1))                                                \
  _(cross_entropy, at::cross_entropy_loss(x.square, x.classes))                          \
  _(mse_loss, at::mse_loss(x.line, x.other))                                             \
  _(l1_loss, at::l1_loss(x.line, x.other))                                               \
  _(topk, std::get<0>(x.line.topk(10)))                                                  \
  _(sort, std::get<0>(x.line.sort()))                                                    \
  _(sort_rows, std::get<0>(x.square.sort(1)))                                            \
  _(argsort_rows, x.square.argsort(1, false))                                                   \
  _(nonzero, x.marked.nonzero())                                                         \
  _(masked_select, x.line.masked_select(x.mask))                                         \
  _(index_select, x.table.index_select(0, x.at))                                         \
  _(gather, x.square.gather(1, x.chosen))                                                \
  _(index_rows, x.table.index({x.at}))                                                   \
  _(index_pairs, x.table.index({x.at, x.column}))                                        \
  _(index_put, x.table.index_put({x.at}, x.rows))                                        \
  _(index_add, x.table.index_add(0, x.at, x.rows))                                       \
  _(scatter_add, x.square.scatter_add(1, x.chosen, x.second))                            \
  _(embedding, at::embedding(x.table, x.at))                                             \
  _(rand, torch::rand({1 << 20}))                                                        \
  _(randn, torch::randn({1 << 20}))                                                      \
  _(randint, torch::randint(0, 100, {1 << 20}))                                          \
  _(randperm, torch::randperm(1 << 20))                                                  \
  _(bernoulli, x.positive.bernoulli())                                                   \
  _(avg_pool_all, average(x.image))                                                      \
  _(avg_pool, at::avg_pool2d(x.image, 2))                                                \
  _(max_pool, at::max_pool2d(x.image, 2))                                                \
  _(max_pool_3, at::max_pool2d(x.image, 3, 2, 1))                                        \
  _(interpolate_nearest, interpolate(x.image, torch::kNearest))                          \
  _(interpolate_bilinear, interpolate(x.image, torch::kBilinear))                        \
  _(interpolate_bicubic, interpolate(x.image, torch::kBicubic))                          \
  _(layer_norm, at::layer_norm(x.square, x.row.sizes(), x.row, x.row))                   \
  _(rms_norm, at::rms_norm(x.square, x.row.sizes(), x.row, 1e-5))                        \
  _(batch_norm, at::batch_norm(x.image, x.scale, x.shift, {}, {}, true, 0.1, 1e-5, false)) \
  _(group_norm, at::group_norm(x.image, 8, x.scale, x.shift))                            \
  _(group_norm_large, at::group_norm(x.large, 32, x.scale, x.shift))                     \
  _(conv_stem, at::conv2d(x.large.narrow(1, 0, 3), x.stem, {}, 2))                       \
  _(conv_1x1, at::conv2d(x.image, x.w1))                                                 \
  _(conv_1x1_wide, at::conv2d(x.large.view({8, 256, 28, 28}), x.second.narrow(0, 0, 32).view({128, 256, 1, 1}))) \
  _(conv_3x3, at::conv2d(x.image, x.w3, x.shift, 1, 1))                                  \
  _(conv_stride_2, at::conv2d(x.large, x.w3, {}, 2, 1))                                  \
  _(conv_deep, at::conv2d(x.small, x.deep, {}, 1, 1))                                    \
  _(conv_depthwise_3, at::conv2d(x.large, x.d3, {}, 1, 1, 1, 64))                        \
  _(conv_depthwise_5, at::conv2d(x.large, x.d5, {}, 1, 2, 1, 64))                        \
  _(conv_depthwise_7, at::conv2d(x.large, x.d7, {}, 1, 3, 1, 64))                        \
  _(conv_transpose, at::conv_transpose2d(x.image, x.w3, {}, 2))                          \
  _(linear, at::linear(x.square, x.second, x.row))                                       \
  _(linear_wide, at::linear(x.tokens, x.wide))                                           \
  _(bmm, at::matmul(x.heads, x.heads.transpose(1, 2)))                                   \
  _(mv, at::matmul(x.square, x.row))                                                     \
  _(outer, at::outer(x.row, x.row))                                                      \
  _(one_row, at::linear(x.row.unsqueeze(0), x.second))                                   \
  _(item, read_value(x.one))

#define CALL(name, call) \
  Tensor job_##name(operands &x) { return call; }
JOBS(CALL)

const struct job {
  const char *name;
  Tensor (*call)(operands &x);
} jobs[] = {
#define ENTRY(name, call) {#name, job_##name},
    JOBS(ENTRY)};

operands make_operands(int64_t n, at::ScalarType type, bool learns) {
  const int64_t side = (int64_t)std::sqrt((double)n);
  auto whole = [](int64_t below, std::vector<int64_t> shape) { return torch::randint(0, below, shape, at::kLong); };
  auto real = [](std::vector<int64_t> shape) { return torch::randn(shape); };
  operands x = {real({n}), real({n}), torch::rand({n}), real({1}), real({side, side}), real({side, side}), real({side}),
                real({64, 8, 16, 32}), real({32, 64, 28, 28}), real({8, 256, 14, 14}), real({8, 64, 56, 56}),
                real({64, 64, 1, 1}), real({64, 64, 3, 3}), real({64, 1, 3, 3}), real({64, 1, 5, 5}), real({64, 1, 7, 7}),
                real({256, 256, 3, 3}), real({64, 3, 7, 7}), torch::ones({64}), torch::zeros({64}), real({10000, 64}),
                real({20000, 64}), real({64, 128, 64}), real({256, 768}), real({768, 768}), real({3072, 768})};
  for (Tensor *leaf : x.leaves()) *leaf = leaf->to(type).detach().requires_grad_(learns);
  x.mask = x.line.detach() > 0;
  x.marked = x.square.detach() > 1;
  x.classes = whole(side, {side});
  x.at = whole(10000, {20000});
  x.column = whole(64, {20000});
  x.chosen = whole(side, {side, side});
  return x;
}

double seconds() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

// Processor seconds of a call, over at least two milliseconds.
double time_of(const job &job, operands &x, bool backward) {
  torch::AutoGradMode mode(backward);
  const std::vector<Tensor *> leaves = x.leaves();
  const double begin = seconds();
  for (int calls = 1;; calls++) {
    Tensor y = job.call(x);
    if (backward) {
      y.backward(y.detach());
      for (Tensor *leaf : leaves) leaf->mutable_grad() = Tensor();
    }
    if (const double taken = seconds() - begin; taken >= 2e-3) return taken / calls;
  }
}

}  // namespace

int main() {
  torch::set_num_threads(1);
  torch::manual_seed(1);
  std::string line, now;
  operands x;
  while (std::getline(std::cin, line)) {
    std::istringstream words(line);
    std::string name, type;
    int64_t n;
    bool backward;
    words >> name >> n >> type >> backward;
    const std::string variant = line.substr(name.size());
    if (variant != now) x = make_operands(n, type == "bf16" ? at::kBFloat16 : type == "f16" ? at::kHalf : at::kFloat, backward);
    now = variant;
    for (const job &job : jobs)
      if (name == job.name) std::printf("%.9f\n", time_of(job, x, backward));
    std::fflush(stdout);
  }
  return 0;
}
