#pragma once

#include <concepts>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tendril/nn/module.h"
#include "tendril/tensor/tensor.h"

namespace tendril::nn {

/// A module whose forward takes a tensor and returns one.
template <class M>
concept Layer = std::derived_from<M, Module> && requires(M& module, const Tensor& x) {
  { module.forward(x) } -> std::convertible_to<Tensor>;
};

/// Layers one after the other, named "0", "1", ...:
///
///     nn::Sequential head;
///     head.emplace<nn::Linear>(512, 64);
///     head.emplace<nn::ReLU>();
///
/// Owns its layers. Thread-safety: that of its layers.
class Sequential : public Module {
 public:
  /// Appends an M made of `arguments` and returns it.
  template <Layer M, class... Arguments>
  M& emplace(Arguments&&... arguments) {
    return append(std::make_shared<M>(std::forward<Arguments>(arguments)...));
  }
  /// Appends a layer that others may share.
  template <Layer M>
  M& append(std::shared_ptr<M> layer) {
    M& added = *layer;
    register_module(std::to_string(steps_.size()), added);
    steps_.push_back({std::move(layer), [&added](const Tensor& x) { return added.forward(x); }});
    return added;
  }

  Tensor forward(const Tensor& x) {
    Tensor y = x;
    for (const Step& step : steps_) y = step.forward(y);
    return y;
  }
  Tensor operator()(const Tensor& x) { return forward(x); }

  std::size_t size() const noexcept { return steps_.size(); }
  /// Throws IndexError unless i < size().
  Module& operator[](std::size_t i) const {
    TENDRIL_CHECK_AS(IndexError, i < steps_.size(), "Sequential: index: got ", i, ", expected one below ",
                     steps_.size());
    return *steps_[i].layer;
  }

 private:
  struct Step {
    std::shared_ptr<Module> layer;
    std::function<Tensor(const Tensor&)> forward;
  };
  std::vector<Step> steps_;
};

}  // namespace tendril::nn
