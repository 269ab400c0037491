#pragma once

#include <tendril/tendril.h>

#include "options.h"

/// ResNet-50 in parts, and the tutorial's pipeline of two of them.
namespace pipeline {

using namespace tendril;

/// Layers `begin` to `end` (exclusive) of the network, which has `Network::layers()`. Their initial values do not
/// depend on the cut.
class ResNetPart : public nn::Module {
 public:
  ResNetPart(const Network& n, std::size_t begin, std::size_t end) {
    std::size_t at = 0;
    const auto add = [&](auto append) {  // appends the next layer if it belongs to this part
      Generator generator(static_cast<std::uint64_t>(n.seed) * 1000 + at);
      if (begin <= at && at < end) nn::init_resnet_(append(generator), generator);
      ++at;
    };
    const nn::Conv2dOptions stem{.stride = 2, .padding = 3, .bias = false, .dtype = n.dtype};
    add([&](Generator&) -> auto& { return layers.emplace<nn::Conv2d>(3, n.base, 7, stem); });
    add([&](Generator&) -> auto& {
      return layers.emplace<nn::BatchNorm2d>(n.base, nn::BatchNormOptions{.dtype = n.dtype});
    });
    add([&](Generator&) -> auto& { return layers.emplace<nn::ReLU>(); });
    add([&](Generator&) -> auto& {
      return layers.emplace<nn::MaxPool2d>(3, MaxPoolOptions{.stride = 2, .padding = 1});
    });
    std::int64_t in = n.base, width = n.base;
    for (const std::int64_t blocks : n.blocks) {
      for (std::int64_t block = 0; block < blocks; ++block, in = 4 * width) {
        const int stride = block == 0 && width > n.base ? 2 : 1;
        add([&](Generator & g) -> auto& { return layers.emplace<nn::Bottleneck>(in, width, stride, n.dtype, g); });
      }
      width *= 2;
    }
    add([&](Generator&) -> auto& { return layers.emplace<nn::AdaptiveAvgPool2d>(1); });
    add([&](Generator&) -> auto& { return layers.emplace<nn::Flatten>(); });
    add([&](Generator & g) -> auto& {
      return layers.emplace<nn::Linear>(in, n.classes, nn::LinearOptions{.dtype = n.dtype, .generator = g});
    });
    register_module("layers", layers);
  }
  Tensor forward(const Tensor& x) { return layers(x); }

  nn::Sequential layers;
};

/// A part for the tutorial's version, which receives its inputs as references.
class ResNetShard : public ResNetPart {
 public:
  using ResNetPart::ResNetPart;

  /// Applies this shard's layers to the micro-batch of images or features that x_rref refers to.
  Tensor forward_of(const rpc::RRef<Tensor>& x_rref) {
    const Tensor x = x_rref.to_here();
    // Micro-batches arrive concurrently on separate threads, but batch normalisation must process them one at a time.
    // rpc::blocking lends the waiting thread's slot in the pool to other calls.
    const auto turn = rpc::blocking([this] { return std::unique_lock(mutex_); });
    return forward(x);
  }
  std::vector<rpc::RRef<Tensor>> parameter_rrefs() const { return dist::parameter_rrefs(*this); }

 private:
  std::mutex mutex_;
};

/// ResNet-50 with its halves on two workers. Several micro-batches are processed concurrently: while one is in the
/// second half, the next is in the first.
class DistResNet50 {
 public:
  /// Creates the shards. A batch is cut into micro-batches of these sizes, which must add up to the batch size.
  DistResNet50(const Network& network, std::vector<std::int64_t> micro_batches)
      : micro_batches_(std::move(micro_batches)),
        shard1_(rpc::remote<ResNetShard>("worker1", network, 0, network.middle())),
        shard2_(rpc::remote<ResNetShard>("worker2", network, network.middle(), network.layers())) {}

  /// Maps images [batch, 3, height, width] to scores [batch, classes].
  Tensor forward(const Tensor& images) const {
    std::vector<rpc::Future<Tensor>> outputs;
    for (const Tensor& x : images.split(micro_batches_)) {
      const auto y = shard1_.remote<&ResNetShard::forward_of>(rpc::RRef<Tensor>(x));  // stays until worker2 fetches it
      outputs.push_back(shard2_.rpc_async<&ResNetShard::forward_of>(y));
    }
    return cat(rpc::wait_all(std::move(outputs)));
  }
  std::vector<rpc::RRef<Tensor>> parameter_rrefs() const {
    auto all = shard1_.rpc_sync<&ResNetShard::parameter_rrefs>();
    for (auto& rref : shard2_.rpc_sync<&ResNetShard::parameter_rrefs>()) all.push_back(std::move(rref));
    return all;
  }

 private:
  std::vector<std::int64_t> micro_batches_;
  rpc::RRef<ResNetShard> shard1_, shard2_;
};

}  // namespace pipeline
