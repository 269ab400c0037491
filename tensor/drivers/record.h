#pragma once

#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

/// How drivers record. A driver takes its operation's gradient as a type, a node of the graph (autograd::NodeOf), and
/// calls two of its members, once the result is there:
/// - `static Gradient* record(const Tensor& out, const Tensor&... operands)`: the node of `out`; null: not recorded.
/// - `void keep(...)`: what backward may read. Each driver says of what.
///
/// So the drivers know when an operation is recorded and what of it can be kept, and nothing of the graph: this folder
/// lies below autograd/.
namespace tendril::drivers {

/// No gradient: for integers, and for what lies below autograd/ itself.
struct Unrecorded {
  template <class... Operands>
  static constexpr Unrecorded* record(const Operands&...) noexcept {
    return nullptr;
  }
  template <class... Kept>
  void keep(const Kept&...) noexcept {}
};

}  // namespace tendril::drivers

TENDRIL_API_END
