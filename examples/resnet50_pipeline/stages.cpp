#include "stages.h"

#include <tendril/autograd/ops/loss.h>
#include <tendril/dist/pipeline/partition.h>
#include <tendril/nn/activation.h>
#include <tendril/nn/flatten.h>
#include <tendril/nn/models/resnet.h>
#include <tendril/rpc/default_agent.h>
#include <tendril/tensor/creation.h>

#include <algorithm>
#include <cstdio>

namespace pipeline {

using tendril::Tensor;
namespace nn = tendril::nn;
namespace pp = tendril::dist::pipeline;
namespace rpc = tendril::rpc;

/// A remote function's loss, by name.
Tensor mean_square(const Tensor& scores, const Tensor& labels) { return mse_loss(scores, labels); }

namespace {

constexpr std::int64_t kStem = 4, kHead = 3;  // layers

void append_layer(nn::Sequential& to, const Network& n, std::int64_t layer) {
  tendril::Generator generator(n.seed * 1000 + layer);
  const std::int64_t head = layers_of(n) - kHead;
  if (layer == 0) {
    to.emplace<nn::Conv2d>(3, n.base, 7, nn::Conv2dOptions{.stride = 2, .padding = 3, .bias = false, .dtype = n.dtype});
  } else if (layer == 1) {
    to.emplace<nn::BatchNorm2d>(n.base, nn::BatchNormOptions{.dtype = n.dtype});
  } else if (layer == 2) {
    to.emplace<nn::ReLU>();
  } else if (layer == 3) {
    to.emplace<nn::MaxPool2d>(3, tendril::MaxPoolOptions{.stride = 2, .padding = 1});
  } else if (layer == head) {
    to.emplace<nn::AdaptiveAvgPool2d>(1);
  } else if (layer == head + 1) {
    to.emplace<nn::Flatten>();
  } else if (layer == head + 2) {
    to.emplace<nn::Linear>(32 * n.base, n.classes, nn::LinearOptions{.dtype = n.dtype, .generator = generator});
  } else {
    std::int64_t block = layer - kStem, width = n.base, in = n.base;
    std::size_t group = 0;
    for (; block >= n.blocks[group]; ++group, width *= 2) {
      block -= n.blocks[group];
      in = 4 * width;
    }
    to.emplace<nn::Bottleneck>(block == 0 ? in : 4 * width, width, block == 0 && group > 0 ? 2 : 1, n.dtype, generator);
  }
  nn::init_resnet_(to[to.size() - 1], generator);
}

}  // namespace

ResNetStage::ResNetStage(const Network& network, std::int64_t begin, std::int64_t end) {
  for (std::int64_t layer = begin; layer < end; ++layer) append_layer(layers, network, layer);
  register_module("layers", layers);
}

std::int64_t layers_of(const Network& network) {
  std::int64_t count = kStem + kHead;
  for (const std::int64_t blocks : network.blocks) count += blocks;
  return count;
}

pp::Schedule schedule_of(const Options& options, int workers, int micro_batches) {
  if (options.schedule == "gpipe") return pp::gpipe(workers, micro_batches);
  if (options.schedule == "interleaved") return pp::interleaved(workers, micro_batches, options.stages_per_worker);
  return pp::one_forward_one_backward(workers, micro_batches);
}

std::vector<rpc::RRef<pp::Stage>> make_stages(const Options& options, const pp::Schedule& schedule,
                                              std::int64_t images) {
  const Network& network = options.network;
  std::vector<double> costs;
  {
    ResNetStage whole(network, 0, layers_of(network));
    // Batch normalisation wants two values a channel.
    const std::int64_t side = (options.image + 31) / 32, few = std::min<std::int64_t>(images, side > 1 ? 2 : 8);
    const Tensor x = tendril::ones({few, 3, options.image, options.image}, {.dtype = network.dtype});
    for (const pp::LayerCost& cost : pp::measure_layers(whole.layers, x, 1)) costs.push_back(cost.both());
  }
  const auto cut = pp::partition(costs, schedule.stages);
  rpc::Agent& agent = *rpc::default_agent();
  std::vector<rpc::RRef<pp::Stage>> stages;
  for (int s = 0; s < schedule.stages; ++s) {
    const auto begin = static_cast<std::int64_t>(cut[static_cast<std::size_t>(s)]);
    const auto end = static_cast<std::int64_t>(cut[static_cast<std::size_t>(s) + 1]);
    const std::string worker = "worker" + std::to_string(1 + schedule.worker_of(s));
    stages.push_back(s + 1 < schedule.stages
                         ? pp::make_stage<ResNetStage>(agent, worker, network, begin, end)
                         : pp::make_loss_stage<ResNetStage, &mean_square>(agent, worker, network, begin, end));
    if (!options.report) continue;
    double cost = 0;
    for (std::int64_t layer = begin; layer < end; ++layer) cost += costs[static_cast<std::size_t>(layer)];
    std::printf("stage %d on %s: layers %lld to %lld, %.1f ms measured for a few images\n", s, worker.c_str(),
                static_cast<long long>(begin), static_cast<long long>(end - 1), 1e3 * cost);
  }
  return stages;
}

}  // namespace pipeline
