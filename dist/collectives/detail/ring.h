#pragma once

#include <cstdint>
#include <functional>

#include "tendril/dist/collectives/detail/channel.h"

/// The built-in algorithms, on flat, contiguous CPU tensors. docs/collectives.md illustrates them.
namespace tendril::dist::detail {

/// How parts are combined: `add` computes `into = into (op) part`, and `finish` is applied to each complete sum.
struct Combine {
  std::function<void(const Tensor& into, const Tensor& part)> add = {};
  std::function<void(const Tensor& whole)> finish = {};  ///< may be empty
};

void ring_all_reduce(Channel& channel, const Tensor& flat, const Combine& combine, int64_t chunk);
/// Stores the result in segment `rank` of `size` equal segments; the others hold partial sums afterwards.
void ring_reduce_scatter(Channel& channel, const Tensor& flat, const Combine& combine, int64_t chunk);
/// Sends segment `rank` of `flat` to all members.
void ring_all_gather(Channel& channel, const Tensor& flat, int64_t chunk);

/// Reduces in rank order: each chunk passes from the first member to the last, which then has the complete sum.
void chain_all_reduce(Channel& channel, const Tensor& flat, const Combine& combine, int64_t chunk);
void chain_reduce_scatter(Channel& channel, const Tensor& flat, const Combine& combine, int64_t chunk);
void chain_broadcast(Channel& channel, const Tensor& flat, int root, int64_t chunk);

}  // namespace tendril::dist::detail
