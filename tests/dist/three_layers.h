#pragma once

#include <cstddef>
#include <iterator>
#include <vector>

#include "tendril/dist/optimizer.h"
#include "tendril/rpc/call.h"
#include "tests/dist/group.h"

/// A model on three workers for the tests of the distributed optimizer.
namespace three_layers {

using namespace dist_test;
using rpc::RRef;

/// Holds one parameter on the worker `rank`.
class Layer {
 public:
  Layer(int rank, std::vector<double> start) : rank_(rank), weight_(from_vector(start, {std::ssize(start)})) {
    weight_.requires_grad_();
  }
  Tensor forward(const Tensor& x) const {
    const dist::ReadParameters reading;
    return (x * weight_).tanh();
  }
  Tensor sum() const {
    const dist::ReadParameters reading;
    return weight_.sum();
  }
  Tensor forward_here(const Tensor& x) const { return (x * weight_).tanh(); }
  RRef<Tensor> parameter() const { return RRef<Tensor>(Cluster::agent(rank_), weight_); }
  std::vector<double> values() const { return weight_.to_vector<double>(); }
  bool has_grad() const { return weight_.grad().defined(); }
  Tensor& weight() { return weight_; }

 private:
  int rank_;
  Tensor weight_;
};

inline const std::vector<double> kStart[] = {{0.5, -1, 2}, {1.5, 0.25, -0.75}, {-0.5, 1, 0.125}};
inline Tensor input(int step) { return constant({0.3 * step + 0.1, -0.2 * step, 0.7}); }

/// One layer on each of three workers, created by `agent`.
struct Model {
  explicit Model(Agent& agent) {
    for (int rank = 0; rank < 3; ++rank) {
      layers.push_back(rpc::remote<Layer>(agent, rank, rank, kStart[rank]));
      params.push_back(layers.back().rpc_sync<&Layer::parameter>());
    }
  }
  /// Sum of squares after the first `depth` layers, applied in order.
  Tensor loss(const Tensor& x, std::size_t depth = 3) const {
    Tensor y = x;
    for (std::size_t i = 0; i < depth; ++i) y = layers[i].rpc_sync<&Layer::forward>(y);
    return y.square().sum();
  }
  Values values(std::size_t i) const { return layers[i].rpc_sync<&Layer::values>(); }

  std::vector<RRef<Layer>> layers;
  std::vector<RRef<Tensor>> params;
};

}  // namespace three_layers
