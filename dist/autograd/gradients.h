#pragma once

#include <cstddef>
#include <unordered_map>

#include "tendril/autograd/node.h"
#include "tendril/tensor/export.h"
#include "tendril/tensor/tensor.h"

TENDRIL_API_BEGIN

namespace tendril::dist::autograd {

/// A snapshot of the gradients that a context holds of one worker's leaves. It shares its tensors with the context. A
/// later backward does not change these, but stores new tensors in the context.
class Gradients {
 public:
  /// Returns the gradient of a leaf, undefined if no backward reached it. Throws AutogradError if the tensor is
  /// undefined, not a leaf, or does not require a gradient.
  Tensor find(const Tensor& leaf) const;
  /// As `find`, but also throws AutogradError if no backward reached the leaf.
  Tensor at(const Tensor& leaf) const;
  /// Whether this leaf has a gradient. Throws as `find`.
  bool contains(const Tensor& leaf) const { return find(leaf).defined(); }
  /// Number of leaves that have a gradient.
  std::size_t size() const noexcept { return entries_.size(); }
  /// Whether no leaf has a gradient.
  bool empty() const noexcept { return entries_.empty(); }

  /// A leaf and its gradient.
  struct Entry {
    Ref<tendril::autograd::Node> leaf;  ///< the AccumulateGrad: `gradient_edge(tensor).node`
    Tensor gradient;                    ///< has the leaf's sizes
  };
  /// All entries, keyed by the leaf's node: `for (const auto& [node, entry] : gradients.entries())`. Unordered.
  const std::unordered_map<const tendril::autograd::Node*, Entry>& entries() const noexcept { return entries_; }

  /// Replaces the leaf's gradient, if it has one, by a new tensor: the gradient times `factor`.
  void scale(const Tensor& leaf, double factor);
  /// Adds `gradient` to the leaf's gradient. The first one is stored without a copy if it is not shared.
  void add(const Ref<tendril::autograd::Node>& leaf, Tensor gradient);
  /// Replaces the leaf's gradient.
  void set(const Ref<tendril::autograd::Node>& leaf, Tensor gradient);

 private:
  std::unordered_map<const tendril::autograd::Node*, Entry> entries_;
};

}  // namespace tendril::dist::autograd

TENDRIL_API_END
