#include "pipeline.h"

#include <tendril/autograd/ops/join.h>
#include <tendril/rpc/call.h>
#include <tendril/rpc/future.h>

namespace pipeline {

using tendril::Tensor;
namespace rpc = tendril::rpc;

DistResNet50::DistResNet50(const Network& network, std::vector<std::int64_t> micro_batches,
                           const std::vector<std::string>& workers)
    : micro_batches_(std::move(micro_batches)),
      shard1_(rpc::remote<ResNetShard1>(workers.at(0), network)),
      shard2_(rpc::remote<ResNetShard2>(workers.at(1), network)) {}

Tensor DistResNet50::forward(const Tensor& images) const {
  std::vector<rpc::Future<Tensor>> outputs;
  for (const Tensor& x : images.split(micro_batches_)) {
    const auto y = shard1_.remote<&ResNetShard1::forward>(rpc::RRef<Tensor>(x));  // stays on worker1 until worker2 asks
    outputs.push_back(shard2_.rpc_async<&ResNetShard2::forward>(y));
  }
  return tendril::cat(rpc::wait_all(std::move(outputs)));
}

std::vector<rpc::RRef<Tensor>> DistResNet50::parameter_rrefs() const {
  auto all = shard1_.rpc_sync<&ResNetShard1::parameter_rrefs>();
  for (auto& rref : shard2_.rpc_sync<&ResNetShard2::parameter_rrefs>()) all.push_back(std::move(rref));
  return all;
}

}  // namespace pipeline
