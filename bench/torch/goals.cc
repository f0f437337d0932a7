// Small work beside libtorch, in one interleaved run: what a call costs when the arithmetic costs next to nothing.
// SPDX-License-Identifier: MIT
#include <torch/torch.h>

#include "measure.h"

namespace {

situ_options leaf() {
  situ_options o = {};
  o.requires_grad = true;
  return o;
}

// ---- G1: a + b on 64 floats ----

goal add_small() {
  static situ_tensor *a = situ_retain(situ_randn(SITU_SHAPE(64), nullptr)), *b = situ_retain(situ_randn(SITU_SHAPE(64), nullptr));
  static torch::Tensor x = torch::randn({64}), y = torch::randn({64});
  return {"G1", "a + b on 64 floats, result made and freed", 8,
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

// ---- G2: Linear(10, 5), one row, recorded ----

goal linear_forward() {
  static situ_nn_module *layer = situ_nn_linear(10, 5, nullptr);
  static situ_tensor *input = situ_retain(situ_randn(SITU_SHAPE(1, 10), nullptr));
  static torch::nn::Linear theirs(10, 5);
  static torch::Tensor x = torch::randn({1, 10});
  return {"G2", "Linear(10, 5) on one row, forward with tape", 12,
          [] {
            situ_scope s;
            situ_scope_begin(&s);
            situ_nn_forward(layer, input);
            need(situ_scope_end(&s));
          },
          [] { torch::Tensor y = theirs(x); }, 10000, 2000};
}

// ---- G3: a whole SGD step of a tiny MLP ----

goal mlp_step() {
  static situ_nn_module *layers[3] = {situ_nn_linear(10, 16, nullptr), situ_nn_relu(), situ_nn_linear(16, 1, nullptr)};
  static situ_nn_module *net = situ_nn_sequential_of(3, layers);
  static situ_optim_options options = [] {
    situ_optim_options o = {};
    o.lr = 1e-3;
    return o;
  }();
  static situ_optim *optim = situ_optim_sgd(situ_nn_parameters(net), &options);
  static situ_tensor *input = situ_retain(situ_randn(SITU_SHAPE(8, 10), nullptr)), *target = situ_retain(situ_randn(SITU_SHAPE(8, 1), nullptr));
  static torch::nn::Sequential theirs(torch::nn::Linear(10, 16), torch::nn::ReLU(), torch::nn::Linear(16, 1));
  static torch::optim::SGD sgd(theirs->parameters(), torch::optim::SGDOptions(1e-3));
  static torch::Tensor x = torch::randn({8, 10}), y = torch::randn({8, 1});
  return {"G3", "MLP 10-16-1: forward, backward, SGD step", 10,
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

// ---- G4: AdamW over 100 tensors of 16 ----

goal adamw_many() {
  static std::vector<torch::Tensor> theirs;
  static situ_optim *optim = [] {
    situ_tree *parameters = situ_tree_list();
    situ_options o = leaf();
    for (int i = 0; i < 100; i++) {
      situ_tensor *p = situ_retain(situ_randn(SITU_SHAPE(16), &o));
      need(situ_set_grad(p, situ_randn(SITU_SHAPE(16), nullptr)));
      parameters = situ_tree_append(parameters, situ_tree_tensor(p));
      theirs.push_back(torch::randn({16}, torch::requires_grad()));
      theirs.back().mutable_grad() = torch::randn({16});
    }
    return situ_optim_adamw(parameters, nullptr);
  }();
  static torch::optim::AdamW adamw(theirs, torch::optim::AdamWOptions(1e-3));
  return {"G4", "AdamW step over 100 tensors of 16 elements", 100, [] { need(situ_optim_step(optim)); }, [] { adamw.step(); }, 2000, 50};
}

}  // namespace

int main() {
  torch::set_num_threads(1);
  need(situ_set_num_threads(1));
  situ_scope s;
  situ_scope_begin(&s);
  std::printf("%-4s %-44s %13s %15s %10s\n", "goal", "work, 1 thread", "situ", "libtorch", "ratio");
  for (const goal &g : {add_small(), linear_forward(), mlp_step(), adamw_many()}) measure(g);
  need(situ_scope_end(&s));
  return 0;
}
