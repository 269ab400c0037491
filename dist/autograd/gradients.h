#pragma once

#include <cstddef>
#include <unordered_map>

#include "tendril/autograd/node.h"
#include "tendril/tensor/export.h"
#include "tendril/tensor/tensor.h"

TENDRIL_API_BEGIN

namespace tendril::dist::autograd {

/// The gradients that a context holds on one worker, as they were when it was asked: those of leaves of this worker.
/// A value; the tensors are shared with the context until a later backward adds to them, which makes new ones.
class Gradients {
 public:
  /// The gradient of a leaf, undefined if no backward reached it. Throws AutogradError for a tensor that requires no
  /// gradient or is no leaf.
  Tensor find(const Tensor& leaf) const;
  /// ... throws AutogradError if no backward reached it.
  Tensor at(const Tensor& leaf) const;
  /// Whether a backward gave this leaf a gradient. Throws as `find`.
  bool contains(const Tensor& leaf) const { return find(leaf).defined(); }
  /// How many leaves have a gradient.
  std::size_t size() const noexcept { return entries_.size(); }
  /// Whether no leaf has one.
  bool empty() const noexcept { return entries_.empty(); }

  /// A leaf and its gradient.
  struct Entry {
    Ref<tendril::autograd::Node> leaf;  ///< the AccumulateGrad: `gradient_edge(tensor).node`
    Tensor gradient;                    ///< in its sizes
  };
  /// By the leaf's node, in no order. `for (const auto& [node, entry] : gradients.entries())`
  const std::unordered_map<const tendril::autograd::Node*, Entry>& entries() const noexcept { return entries_; }

  /// A leaf's gradient, if it has one, times `factor`: a new tensor.
  void scale(const Tensor& leaf, double factor);
  /// `gradient` is added; the first is taken without a copy if nobody else holds it.
  void add(const Ref<tendril::autograd::Node>& leaf, Tensor gradient);
  /// The leaf's gradient is this one, whatever it was.
  void set(const Ref<tendril::autograd::Node>& leaf, Tensor gradient);

 private:
  std::unordered_map<const tendril::autograd::Node*, Entry> entries_;
};

}  // namespace tendril::dist::autograd

TENDRIL_API_END
