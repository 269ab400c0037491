#pragma once

#include <tendril/dist/pipeline/pipeline.h>
#include <tendril/nn/sequential.h>
#include <tendril/tensor/tensor.h>

#include <cstdint>
#include <vector>

#include "options.h"
#include "shards.h"

/// ResNet-50 as a row of layers, cut where their measured costs say, for the schedules of tendril/dist/pipeline.
namespace pipeline {

/// Layers `begin` to `end` of the network, on the worker that makes it. Their initial values do not depend on the cut.
class ResNetStage : public tendril::nn::Module {
 public:
  ResNetStage(const Network& network, std::int64_t begin, std::int64_t end);
  tendril::Tensor forward(const tendril::Tensor& x) { return layers(x); }

  tendril::nn::Sequential layers;
};

/// How many layers the network has: stem, bottlenecks, classifier.
std::int64_t layers_of(const Network& network);

/// The schedule that the flags ask for, for so many workers and micro-batches.
tendril::dist::pipeline::Schedule schedule_of(const Options& options, int workers, int micro_batches);

/// Measures the layers here, on a few images, cuts them into the schedule's stages and makes these on "worker1",
/// "worker2", ... With --report it prints the cut.
std::vector<tendril::rpc::RRef<tendril::dist::pipeline::Stage>> make_stages(
    const Options& options, const tendril::dist::pipeline::Schedule& schedule, std::int64_t images);

}  // namespace pipeline
