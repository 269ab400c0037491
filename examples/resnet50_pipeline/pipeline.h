#pragma once

#include <tendril/rpc/rref.h>
#include <tendril/tensor/tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "shards.h"

namespace pipeline {

/// ResNet-50 whose halves live on two workers. Several micro-batches are under way at the same time: while one is in
/// the second half, the next is in the first.
class DistResNet50 {
 public:
  /// Makes the shards. A batch is fed in micro-batches of these sizes, which add up to it.
  DistResNet50(const Network& network, std::vector<std::int64_t> micro_batches,
               const std::vector<std::string>& workers = {"worker1", "worker2"});

  /// Images [batch, 3, height, width] to scores [batch, classes].
  tendril::Tensor forward(const tendril::Tensor& images) const;
  std::vector<tendril::rpc::RRef<tendril::Tensor>> parameter_rrefs() const;

 private:
  std::vector<std::int64_t> micro_batches_;
  tendril::rpc::RRef<ResNetShard1> shard1_;
  tendril::rpc::RRef<ResNetShard2> shard2_;
};

}  // namespace pipeline
