#include "shards.h"

#include <tendril/dist/optimizer.h>
#include <tendril/nn/activation.h>
#include <tendril/nn/flatten.h>
#include <tendril/nn/models/resnet.h>
#include <tendril/rpc/executor.h>
#include <tendril/tensor/random.h>

namespace pipeline {

using tendril::Tensor;
using tendril::nn::Bottleneck;
namespace nn = tendril::nn;
namespace rpc = tendril::rpc;

Tensor ResNetShard::forward(const rpc::RRef<Tensor>& x_rref) {
  const Tensor x = x_rref.to_here();
  // Micro-batches come at the same time, on threads of their own, and batch normalisation wants them one by one. A
  // thread that waits for its turn leaves its place in the pool to others.
  const auto turn = rpc::blocking([this] { return std::unique_lock(mutex_); });
  return seq_(x);
}

std::vector<rpc::RRef<Tensor>> ResNetShard::parameter_rrefs() const { return tendril::dist::parameter_rrefs(*this); }

ResNetShard1::ResNetShard1(const Network& n) {
  tendril::Generator generator(n.seed);
  seq_.emplace<nn::Conv2d>(3, n.base, 7, nn::Conv2dOptions{.stride = 2, .padding = 3, .bias = false, .dtype = n.dtype});
  seq_.emplace<nn::BatchNorm2d>(n.base, nn::BatchNormOptions{.dtype = n.dtype});
  seq_.emplace<nn::ReLU>();
  seq_.emplace<nn::MaxPool2d>(3, tendril::MaxPoolOptions{.stride = 2, .padding = 1});
  nn::fill_resnet_stage<Bottleneck>(seq_.emplace<nn::Sequential>(), n.base, n.base, n.blocks[0], 1, n.dtype);
  nn::fill_resnet_stage<Bottleneck>(seq_.emplace<nn::Sequential>(), 4 * n.base, 2 * n.base, n.blocks[1], 2, n.dtype);
  nn::init_resnet_(*this, generator);
}

ResNetShard2::ResNetShard2(const Network& n) {
  tendril::Generator generator(n.seed + 1);
  nn::fill_resnet_stage<Bottleneck>(seq_.emplace<nn::Sequential>(), 8 * n.base, 4 * n.base, n.blocks[2], 2, n.dtype);
  nn::fill_resnet_stage<Bottleneck>(seq_.emplace<nn::Sequential>(), 16 * n.base, 8 * n.base, n.blocks[3], 2, n.dtype);
  seq_.emplace<nn::AdaptiveAvgPool2d>(1);
  seq_.emplace<nn::Flatten>();
  seq_.emplace<nn::Linear>(32 * n.base, n.classes, nn::LinearOptions{.dtype = n.dtype, .generator = generator});
  nn::init_resnet_(*this, generator);
}

}  // namespace pipeline
