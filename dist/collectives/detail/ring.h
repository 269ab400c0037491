#pragma once

#include <cstdint>
#include <functional>

#include "tendril/dist/collectives/detail/channel.h"

/// The algorithms, over flat, contiguous tensors of the CPU. docs/collectives.md has the pictures.
namespace tendril::dist::detail {

/// How parts are brought together: `into = into (op) part`, and what is done to a sum when it is complete.
struct Combine {
  std::function<void(const Tensor& into, const Tensor& part)> add = {};
  std::function<void(const Tensor& whole)> finish = {};  ///< may be empty
};

void ring_all_reduce(Channel& channel, const Tensor& flat, const Combine& combine, int64_t chunk);
/// Leaves the sum in segment `rank`, of `size` equal ones; the others hold partial sums afterwards.
void ring_reduce_scatter(Channel& channel, const Tensor& flat, const Combine& combine, int64_t chunk);
/// Segment `rank` of `flat` to all.
void ring_all_gather(Channel& channel, const Tensor& flat, int64_t chunk);

/// By rank: each part goes from the first member to the last, which has the sum.
void chain_all_reduce(Channel& channel, const Tensor& flat, const Combine& combine, int64_t chunk);
void chain_reduce_scatter(Channel& channel, const Tensor& flat, const Combine& combine, int64_t chunk);
void chain_broadcast(Channel& channel, const Tensor& flat, int root, int64_t chunk);

}  // namespace tendril::dist::detail
