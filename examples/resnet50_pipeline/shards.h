#pragma once

#include <tendril/nn/sequential.h>
#include <tendril/rpc/rref.h>
#include <tendril/tensor/tensor.h>

#include <array>
#include <cstdint>
#include <mutex>
#include <vector>

/// ResNet-50 cut in two, each half to live on a worker of its own.
namespace pipeline {

/// The network's sizes, and what its initial values follow from.
struct Network {
  std::int64_t base = 64;                          ///< channels of the first convolution
  std::array<std::int64_t, 4> blocks{3, 4, 6, 3};  ///< bottlenecks of each stage
  std::int64_t classes = 1000;
  std::int64_t seed = 1;
  tendril::DType dtype = tendril::kFloat32;

  /// remote() sends it to the shard's worker.
  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    archive& base& blocks& classes& seed& dtype;
  }
};

class ResNetShard : public tendril::nn::Module {
 public:
  /// The micro-batch of images or features that x_rref refers to, through this shard's layers.
  tendril::Tensor forward(const tendril::rpc::RRef<tendril::Tensor>& x_rref);
  std::vector<tendril::rpc::RRef<tendril::Tensor>> parameter_rrefs() const;

 protected:
  ResNetShard() { register_module("seq", seq_); }

  tendril::nn::Sequential seq_;

 private:
  std::mutex mutex_;
};

/// The stem and stages 1 and 2: images to features.
struct ResNetShard1 : ResNetShard {
  explicit ResNetShard1(const Network& network);
};

/// Stages 3 and 4 and the classifier: features to scores.
struct ResNetShard2 : ResNetShard {
  explicit ResNetShard2(const Network& network);
};

}  // namespace pipeline
