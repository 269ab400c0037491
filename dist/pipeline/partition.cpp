#include "tendril/dist/pipeline/partition.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <utility>

#include "tendril/autograd/backward.h"
#include "tendril/tensor/error.h"
#include "tendril/tensor/raw.h"

namespace tendril::dist::pipeline {

namespace {
/// Restores a model's state, also if a layer throws.
struct Restore {
  nn::Sequential& model;
  const StateDict& state;
  ~Restore() { model.load_state_dict(state); }
};
}  // namespace

std::vector<std::size_t> partition(const std::vector<double>& costs, int parts) {
  const std::size_t n = costs.size();
  TENDRIL_CHECK(parts >= 1, "partition: parts: got ", parts, ", expected at least 1");
  TENDRIL_CHECK(n >= static_cast<std::size_t>(parts), "partition: cannot cut ", n, " costs into ", parts,
                " parts, none of which is empty");
  std::vector<double> before(n + 1);  // sums of the first i costs
  for (std::size_t i = 0; i < n; ++i) {
    TENDRIL_CHECK(std::isfinite(costs[i]) && costs[i] >= 0, "partition: costs[", i, "]: got ", costs[i],
                  ", expected a number of 0 or more");
    before[i + 1] = before[i] + costs[i];
  }
  TENDRIL_CHECK(std::isfinite(before[n]), "partition: costs: their sum is ", before[n], ", expected a finite one");
  // best[p][i]: cost of the most expensive part if the first i costs form p parts, the last of which begins at
  // from[p][i].
  const auto count = static_cast<std::size_t>(parts);
  std::vector<std::vector<double>> best(count + 1, std::vector<double>(n + 1, std::numeric_limits<double>::infinity()));
  std::vector<std::vector<std::size_t>> from(count + 1, std::vector<std::size_t>(n + 1));
  best[0][0] = 0;
  for (std::size_t p = 1; p <= count; ++p) {
    for (std::size_t i = p; i <= n; ++i) {
      for (std::size_t last = p - 1; last < i; ++last) {
        const double dearest = std::max(best[p - 1][last], before[i] - before[last]);
        if (dearest < best[p][i]) {
          best[p][i] = dearest;
          from[p][i] = last;
        }
      }
    }
  }
  std::vector<std::size_t> begins(count + 1);
  begins[count] = n;
  for (std::size_t p = count; p-- > 0;) begins[p] = from[p + 1][begins[p + 1]];
  return begins;
}

std::vector<LayerCost> measure_layers(nn::Sequential& model, const Tensor& input, int repeats) {
  using Clock = std::chrono::steady_clock;
  TENDRIL_CHECK(repeats >= 1, "measure_layers: repeats: got ", repeats, ", expected at least 1");
  const StateDict before = model.state_dict().clone();
  std::vector<LayerCost> costs;
  Tensor x = input.detach();
  const auto seconds = [](Clock::duration time) { return std::chrono::duration<double>(time).count(); };
  const Restore restore{model, before};
  for (std::size_t i = 0; i < model.size(); ++i) {
    LayerCost fastest{std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity()};
    Tensor y;
    for (int run = 0; run <= repeats; ++run) {  // run 0 warms up the caches
      Tensor in = x.detach();
      if (is_floating(in.dtype())) in.requires_grad_();
      std::vector<Tensor> wanted;
      for (const Tensor& param : model[i].parameters()) {
        if (param.requires_grad()) wanted.push_back(param);
      }
      if (in.requires_grad()) wanted.push_back(in);
      const auto start = Clock::now();
      y = model.forward(in, i, i + 1);
      const auto middle = Clock::now();
      if (y.requires_grad()) {
        tendril::autograd::grad({y}, wanted, {raw::full(y.sizes(), 1, y.dtype(), y.device())}, {.allow_unused = true});
      }
      if (run == 0) continue;
      fastest.forward = std::min(fastest.forward, seconds(middle - start));
      fastest.backward = std::min(fastest.backward, seconds(Clock::now() - middle));
    }
    costs.push_back(fastest);
    x = y.detach();
  }
  return costs;
}

}  // namespace tendril::dist::pipeline
