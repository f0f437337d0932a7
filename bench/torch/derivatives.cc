// Losses with derivatives in them beside libtorch, in one interleaved run from the same weights: the work of
// examples/12_burgers.c and examples/13_forces.c, f64.
// SPDX-License-Identifier: MIT
#include <torch/torch.h>

#include <cmath>

#include "measure.h"

namespace {

const double PI = 3.14159265358979323846;

situ_options typed(situ_dtype dtype) {
  situ_options o = {};
  o.dtype = dtype;
  return o;
}

situ_tensor *from(const torch::Tensor &t) {
  situ_options o = typed(t.scalar_type() == torch::kLong ? SITU_I64 : SITU_F64);
  situ_shape shape = {};
  shape.ndim = (int)t.dim();
  for (int i = 0; i < shape.ndim; i++) shape.dim[i] = t.size(i);
  return situ_retain(situ_from_host(t.contiguous().data_ptr(), (size_t)t.numel() * 8, shape, &o));
}

// ---- networks with tanh between their layers, with the same weights ----

situ_nn_module *our_network(const std::vector<int64_t> &widths) {
  situ_nn_linear_options o = {};
  o.dtype = SITU_F64;
  situ_nn_module *net = situ_nn_sequential_of(0, nullptr);
  for (size_t i = 0; i + 1 < widths.size(); i++) {
    if (i) net = situ_nn_append(net, situ_nn_tanh());
    net = situ_nn_append(net, situ_nn_linear(widths[i], widths[i + 1], &o));
  }
  return net;
}

torch::nn::Sequential their_network(const std::vector<int64_t> &widths, situ_nn_module *ours) {
  torch::nn::Sequential net;
  for (size_t i = 0; i + 1 < widths.size(); i++) {
    if (i) net->push_back(torch::nn::Tanh());
    net->push_back(torch::nn::Linear(widths[i], widths[i + 1]));
  }
  net->to(torch::kDouble);
  torch::NoGradGuard guard;
  situ_tree *values = situ_nn_state_dict(ours);
  for (auto &p : net->named_parameters()) {
    situ_tensor *value = situ_tree_get(values, p.key().c_str());
    need(situ_copy_to_host(value, p.value().data_ptr(), (size_t)p.value().numel() * 8));
  }
  situ_tree_free(values);
  return net;
}

// ---- derivatives ----

situ_tensor *gradient(situ_tensor *y, situ_tensor *x) {
  situ_backward_options o = {};
  o.create_graph = true;
  situ_tensor *g = nullptr;
  need(situ_autograd_grad(y, 1, &x, &g, &o));
  return g;
}
torch::Tensor gradient(const torch::Tensor &y, const torch::Tensor &x) {
  return torch::autograd::grad({y}, {x}, {}, true, true)[0];
}

situ_tensor *variable(situ_tensor *x) { return situ_requires_grad_(situ_detach(x), true); }
torch::Tensor variable(const torch::Tensor &x) { return x.detach().requires_grad_(true); }

situ_tensor *column(situ_tensor *x, int64_t i) { return situ_narrow(x, 1, i, 1); }
torch::Tensor column(const torch::Tensor &x, int64_t i) { return x.narrow(1, i, 1); }

// ---- Burgers' equation ----

struct burgers {
  torch::Tensor inside, edge, value;
  situ_tensor *our_inside, *our_edge, *our_value;
  situ_nn_module *ours;
  torch::nn::Sequential theirs{nullptr};
  situ_optim *our_optim;
  std::unique_ptr<torch::optim::Optimizer> their_optim;
};

double fraction(double x) { return x - std::floor(x); }

void choose_points(burgers &b) {
  std::vector<double> inside, edge, value;
  for (int i = 0; i < 256; i++) {
    inside.push_back(2 * fraction(0.5 + i * 0.7548776662466927) - 1);
    inside.push_back(fraction(0.5 + i * 0.5698402909980532));
  }
  for (int i = 0; i < 96; i++) {
    const double at = (i / 3 + 0.5) * 3 / 96;
    edge.push_back(i % 3 == 0 ? 2 * at - 1 : i % 3 == 1 ? -1 : 1);
    edge.push_back(i % 3 == 0 ? 0 : at);
    value.push_back(i % 3 == 0 ? -std::sin(PI * (2 * at - 1)) : 0);
  }
  b.inside = torch::tensor(inside, torch::kDouble).reshape({-1, 2});
  b.edge = torch::tensor(edge, torch::kDouble).reshape({-1, 2});
  b.value = torch::tensor(value, torch::kDouble).reshape({-1, 1});
  b.our_inside = from(b.inside);
  b.our_edge = from(b.edge);
  b.our_value = from(b.value);
}

situ_tensor *our_burgers_loss(void *payload) {
  const burgers &b = *(burgers *)payload;
  situ_tensor *xt = variable(b.our_inside), *u = situ_nn_forward(b.ours, xt);
  situ_tensor *du = gradient(situ_sum(u, nullptr), xt);
  situ_tensor *u_xx = column(gradient(situ_sum(column(du, 0), nullptr), xt), 0);
  situ_tensor *change = situ_add(column(du, 1), situ_mul(u, column(du, 0)));
  situ_tensor *residual = situ_sub(change, situ_mul_scalar(u_xx, 0.01 / PI));
  situ_tensor *at_edge = situ_mse_loss(situ_nn_forward(b.ours, b.our_edge), b.our_value, SITU_REDUCTION_MEAN);
  situ_tensor *loss = situ_add(situ_mean(situ_square(residual), nullptr), at_edge);
  need(situ_optim_zero_grad(b.our_optim, true));
  need(situ_backward(loss, nullptr));
  return loss;
}

torch::Tensor their_burgers_loss(burgers &b) {
  torch::Tensor xt = variable(b.inside), u = b.theirs->forward(xt), du = gradient(u.sum(), xt);
  torch::Tensor u_xx = column(gradient(column(du, 0).sum(), xt), 0);
  torch::Tensor residual = column(du, 1) + u * column(du, 0) - 0.01 / PI * u_xx;
  torch::Tensor loss = residual.square().mean() + torch::mse_loss(b.theirs->forward(b.edge), b.value);
  b.their_optim->zero_grad();
  loss.backward();
  return loss;
}

goal burgers_step(bool lbfgs) {
  burgers *b = new burgers;
  choose_points(*b);
  b->ours = our_network({2, 20, 20, 20, 1});
  b->theirs = their_network({2, 20, 20, 20, 1}, b->ours);
  if (lbfgs) {
    situ_optim_options o = situ_optim_lbfgs_defaults();
    o.max_iter = 1;
    o.max_eval = 10;
    o.line_search_fn = SITU_LINE_SEARCH_STRONG_WOLFE;
    b->our_optim = situ_optim_lbfgs(situ_nn_parameters(b->ours), 1, &o);
    torch::optim::LBFGSOptions theirs;
    theirs.max_iter(1).max_eval(10).line_search_fn("strong_wolfe");
    b->their_optim = std::make_unique<torch::optim::LBFGS>(b->theirs->parameters(), theirs);
  } else {
    b->our_optim = situ_optim_adam(situ_nn_parameters(b->ours), 5e-3, nullptr);
    b->their_optim = std::make_unique<torch::optim::Adam>(b->theirs->parameters(), torch::optim::AdamOptions(5e-3));
  }
  return {lbfgs ? "D2" : "D1", lbfgs ? "PINN, Burgers' equation: LBFGS step" : "PINN, Burgers' equation: Adam step", 3,
          [b] { need(situ_optim_step_closure(b->our_optim, our_burgers_loss, b, nullptr)); },
          [b] { b->their_optim->step([b] { return their_burgers_loss(*b); }); }, 5, 5};
}

// ---- forces of 64 atoms ----

struct frame {
  torch::Tensor x, first, second, energy, forces, shells;
  situ_tensor *our_x, *our_first, *our_second, *our_energy, *our_forces, *our_shells;
};

const double CUTOFF = 2.2;

torch::Tensor distances(const frame &f, const torch::Tensor &x) {
  return (x.index_select(0, f.first) - x.index_select(0, f.second)).square().sum(1, true).sqrt();
}
torch::Tensor damping(const torch::Tensor &r) { return 0.5 * ((r * (PI / CUTOFF)).cos() + 1); }

frame make_frame() {
  frame f;
  std::vector<double> x;
  std::vector<int64_t> first, second;
  for (int i = 0; i < 64; i++)
    for (int k = 0; k < 3; k++) x.push_back(1.1 * (i >> (4 - 2 * k) & 3) + 0.12 * std::sin(1.7 * i + 2.3 * k));
  for (int i = 0; i < 64; i++)
    for (int j = i + 1; j < 64; j++) {
      double square = 0;
      for (int k = 0; k < 3; k++) square += std::pow(x[3 * i + k] - x[3 * j + k], 2);
      if (square >= CUTOFF * CUTOFF) continue;
      first.push_back(i);
      second.push_back(j);
    }
  f.x = torch::tensor(x, torch::kDouble).reshape({64, 3});
  f.first = torch::tensor(first, torch::kLong);
  f.second = torch::tensor(second, torch::kLong);
  f.shells = torch::linspace(0.8, 2.0, 8, torch::kDouble);
  torch::Tensor at = variable(f.x), r = distances(f, at);
  torch::Tensor energy = (((-2 * (r - 1.1)).exp() - 1).square() - 1).mul(damping(r)).sum();
  f.forces = -torch::autograd::grad({energy}, {at})[0];
  f.energy = energy.detach();
  situ_tensor **ours[] = {&f.our_x, &f.our_first, &f.our_second, &f.our_energy, &f.our_forces, &f.our_shells};
  const torch::Tensor *theirs[] = {&f.x, &f.first, &f.second, &f.energy, &f.forces, &f.shells};
  for (int i = 0; i < 6; i++) *ours[i] = from(*theirs[i]);
  return f;
}

situ_tensor *our_energy(situ_nn_module *net, const frame &f, situ_tensor *x) {
  situ_reduce_options rows = {};
  rows.dim = SITU_DIMS(1);
  rows.keepdim = true;
  situ_options f64 = typed(SITU_F64);
  situ_tensor *d = situ_sub(situ_index_select(x, 0, f.our_first), situ_index_select(x, 0, f.our_second));
  situ_tensor *r = situ_sqrt(situ_sum(situ_square(d), &rows));
  situ_tensor *fade = situ_mul_scalar(situ_add_scalar(situ_cos(situ_mul_scalar(r, PI / CUTOFF)), 1), 0.5);
  situ_tensor *near = situ_exp(situ_mul_scalar(situ_square(situ_sub(r, f.our_shells)), -12));
  situ_tensor *g = situ_mul(near, fade), *none = situ_zeros(SITU_SHAPE(64, 8), &f64);
  situ_tensor *sums = situ_index_add(situ_index_add(none, 0, f.our_first, g, 1), 0, f.our_second, g, 1);
  return situ_sum(situ_nn_forward(net, sums), nullptr);
}

torch::Tensor their_energy(torch::nn::Sequential &net, const frame &f, const torch::Tensor &x) {
  torch::Tensor r = distances(f, x), g = (-12 * (r - f.shells).square()).exp() * damping(r);
  torch::Tensor none = torch::zeros({64, 8}, torch::kDouble);
  return net->forward(none.index_add(0, f.first, g).index_add(0, f.second, g)).sum();
}

goal forces_step() {
  static frame f = make_frame();
  static situ_nn_module *ours = our_network({8, 24, 24, 1});
  static torch::nn::Sequential theirs = their_network({8, 24, 24, 1}, ours);
  static situ_optim *our_optim = situ_optim_adam(situ_nn_parameters(ours), 3e-3, nullptr);
  static torch::optim::Adam their_optim(theirs->parameters(), torch::optim::AdamOptions(3e-3));
  return {"D3", "forces of 64 atoms: Adam step", 3,
          [] {
            situ_scope s;
            situ_scope_begin(&s);
            situ_tensor *x = variable(f.our_x), *energy = our_energy(ours, f, x);
            situ_tensor *off = situ_div_scalar(situ_sub(energy, f.our_energy), 64);
            situ_tensor *wrong = situ_mse_loss(situ_neg(gradient(energy, x)), f.our_forces, SITU_REDUCTION_MEAN);
            need(situ_optim_zero_grad(our_optim, true));
            need(situ_backward(situ_add(situ_square(off), wrong), nullptr));
            need(situ_optim_step(our_optim));
            need(situ_scope_end(&s));
          },
          [] {
            torch::Tensor x = variable(f.x), energy = their_energy(theirs, f, x);
            torch::Tensor wrong = torch::mse_loss(-gradient(energy, x), f.forces);
            their_optim.zero_grad();
            (((energy - f.energy) / 64).square() + wrong).backward();
            their_optim.step();
          },
          20, 20};
}

}  // namespace

int main() {
  torch::set_num_threads(1);
  need(situ_set_num_threads(1));
  situ_scope s;
  situ_scope_begin(&s);
  std::printf("%-4s %-44s %13s %15s %10s\n", "goal", "work, 1 thread", "situ", "libtorch", "ratio");
  for (const goal &g : {burgers_step(false), burgers_step(true), forces_step()}) measure(g);
  need(situ_scope_end(&s));
  return 0;
}
