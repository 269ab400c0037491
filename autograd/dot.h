#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tendril/tensor/export.h"
#include "tendril/tensor/tensor.h"

TENDRIL_API_BEGIN

namespace tendril::autograd {

/// Of a picture of a graph.
struct DotOptions {
  /// Names for leaves, as `module.named_parameters()` has them.
  std::vector<std::pair<std::string, Tensor>> params = {};
  bool show_saved = false;  ///< what nodes keep for backward, in orange
};

/// The graph that made the tensors, in the DOT language of Graphviz (`dot -Tsvg`), drawn as pytorchviz's make_dot draws
/// it: results green, what they are views of dark green, operations grey, leaves blue above their AccumulateGrad, saved
/// tensors orange. Arrows go the way of the forward computation. Any tensor has a picture, one without history is a
/// single box; Error for an undefined one. Nothing is run or changed; of any depth.
std::string dot(const Tensor& root, const DotOptions& options = {});
std::string dot(const std::vector<Tensor>& roots, const DotOptions& options = {});

}  // namespace tendril::autograd

TENDRIL_API_END
