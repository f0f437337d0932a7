// Small work beside libtorch, in one interleaved run: what a call costs when the arithmetic costs next to nothing.
// SPDX-License-Identifier: MIT
#include <torch/torch.h>

#include "measure.h"

namespace {

// ---- a + b on 64 floats ----

goal add_small() {
  static situ_tensor *a = situ_retain(situ_randn(SITU_SHAPE(64), nullptr)), *b = situ_retain(situ_randn(SITU_SHAPE(64), nullptr));
  static torch::Tensor x = torch::randn({64}), y = torch::randn({64});
  return {"H1", "a + b on 64 floats, result made and freed", 10,
          [] {
            situ_scope s;
            situ_scope_begin_no_grad(&s);
            if (!situ_add(a, b)) std::exit(1);
            need(situ_scope_end(&s));
          },
          [] {
            torch::NoGradGuard guard;
            torch::Tensor z = x + y;
          },
          20000, 4000};
}

// ---- Linear(10, 5), one row, recorded ----

goal linear_forward() {
  static situ_nn_module *layer = situ_nn_linear(10, 5, nullptr);
  static situ_tensor *input = situ_retain(situ_randn(SITU_SHAPE(1, 10), nullptr));
  static torch::nn::Linear theirs(10, 5);
  static torch::Tensor x = torch::randn({1, 10});
  return {"H1", "Linear(10, 5) on one row, forward with tape", 15,
          [] {
            situ_scope s;
            situ_scope_begin(&s);
            situ_nn_forward(layer, input);
            need(situ_scope_end(&s));
          },
          [] { torch::Tensor y = theirs(x); }, 10000, 2000};
}

// ---- a whole SGD step of a tiny MLP ----

goal mlp_step() {
  static situ_nn_module *layers[3] = {situ_nn_linear(10, 16, nullptr), situ_nn_relu(), situ_nn_linear(16, 1, nullptr)};
  static situ_nn_module *net = situ_nn_sequential_of(3, layers);
  static situ_optim *optim = situ_optim_sgd(situ_nn_parameters(net), 1e-3, nullptr);
  static situ_tensor *input = situ_retain(situ_randn(SITU_SHAPE(8, 10), nullptr)), *target = situ_retain(situ_randn(SITU_SHAPE(8, 1), nullptr));
  static torch::nn::Sequential theirs(torch::nn::Linear(10, 16), torch::nn::ReLU(), torch::nn::Linear(16, 1));
  static torch::optim::SGD sgd(theirs->parameters(), torch::optim::SGDOptions(1e-3));
  static torch::Tensor x = torch::randn({8, 10}), y = torch::randn({8, 1});
  return {"H1", "MLP 10-16-1: forward, backward, SGD step", 18,
          [] {
            situ_scope s;
            situ_scope_begin(&s);
            need(situ_optim_zero_grad(optim, true));
            need(situ_backward(situ_mse_loss(situ_nn_forward(net, input), target, SITU_REDUCTION_MEAN), nullptr));
            need(situ_optim_step(optim));
            need(situ_scope_end(&s));
          },
          [] {
            sgd.zero_grad();
            torch::mse_loss(theirs->forward(x), y).backward();
            sgd.step();
          },
          2000, 500};
}

// ---- small products, and a value read ----

template <int n> goal product() {
  static situ_tensor *a = situ_retain(situ_randn(SITU_SHAPE(n, n), nullptr));
  static torch::Tensor x = torch::randn({n, n});
  return {"H1", n == 8 ? "8 x 8 product" : "16 x 16 product", 6,
          [] {
            situ_scope s;
            situ_scope_begin_no_grad(&s);
            if (!situ_matmul(a, a)) std::exit(1);
            need(situ_scope_end(&s));
          },
          [] {
            torch::NoGradGuard guard;
            torch::Tensor y = torch::matmul(x, x);
          },
          10000, 4000};
}

goal read_value() {
  static situ_tensor *a = situ_retain(situ_randn(SITU_SHAPE(1), nullptr));
  static torch::Tensor x = torch::randn({1});
  static double value;
  return {"H1", "item()", 2, [] { need(situ_item(a, &value)); }, [] { value = x.item<double>(); }, 20000, 20000};
}

}  // namespace

int main() {
  torch::set_num_threads(1);
  need(situ_set_num_threads(1));
  situ_scope s;
  situ_scope_begin(&s);
  std::printf("%-4s %-44s %13s %15s %10s\n", "goal", "work, 1 thread", "situ", "libtorch", "ratio");
  for (const goal &g : {add_small(), linear_forward(), mlp_step(), product<8>(), product<16>(), read_value()}) measure(g);
  need(situ_scope_end(&s));
  return 0;
}
