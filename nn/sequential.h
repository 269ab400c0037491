#pragma once

#include <concepts>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tendril/nn/module.h"
#include "tendril/tensor/export.h"
#include "tendril/tensor/tensor.h"

TENDRIL_API_BEGIN

namespace tendril::nn {

/// A module whose forward takes a tensor and returns one.
template <class M>
concept Layer = std::derived_from<M, Module> && requires(M& module, const Tensor& x) {
  { module.forward(x) } -> std::convertible_to<Tensor>;
};

/// A module given by value, to be moved from.
template <class M>
concept GivenModule =
    !std::is_reference_v<M> && !std::is_const_v<M> && std::derived_from<M, Module> && std::move_constructible<M>;

/// Layers one after the other, named "0", "1", ...:
///
///     nn::Sequential head(nn::Linear(512, 64), nn::ReLU());
///     head.emplace<nn::Linear>(64, 10);
///
/// Owns its layers. Thread-safety: that of its layers.
class Sequential : public Movable<Sequential> {
 public:
  Sequential() = default;
  Sequential(Sequential&&) = default;
  /// Of layers that are moved (Movable); one Sequential alone is itself moved.
  // That one is asked for first: whether a Sequential may be given is a question about this constructor.
  template <class... M>
  requires(sizeof...(M) > 0 && !(sizeof...(M) == 1 && (std::same_as<M, Sequential> && ...))) &&
      ((GivenModule<M> && Layer<M>)&&...) explicit Sequential(M&&... layers) {
    (append(std::make_shared<M>(std::move(layers))), ...);
  }

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
    steps_.push_back({std::move(layer), [&added](const Tensor& x) { return Tensor(call(added, x)); }});
    return added;
  }

  /// Appends a layer that is moved, and returns it.
  template <GivenModule M>
  requires Layer<M> M& push_back(M&& layer) { return append(std::make_shared<M>(std::forward<M>(layer))); }

  Tensor forward(const Tensor& x) {
    Tensor y = x;
    for (const Step& step : steps_) y = step.forward(y);
    return y;
  }
  /// Layers `begin` to `end` alone (of checkpoint_sequential). Throws IndexError unless begin <= end <= size().
  Tensor forward(const Tensor& x, std::size_t begin, std::size_t end) {
    TENDRIL_CHECK_AS(IndexError, begin <= end && end <= steps_.size(), "Sequential: got layers ", begin, " to ", end,
                     ", expected some of ", steps_.size());
    Tensor y = x;
    for (std::size_t i = begin; i < end; ++i) y = steps_[i].forward(y);
    return y;
  }
  Tensor operator()(const Tensor& x) { return call(*this, x); }

  /// How many modules.
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

/// Modules by number, named "0", "1", ..., for a module that calls them itself:
///
///     nn::ModuleList layers(nn::Linear(8, 8), nn::Linear(8, 8));
///     for (std::size_t i = 0; i < layers.size(); ++i) x = layers.at<nn::Linear>(i)(x).relu();
///
/// Owns its modules. Thread-safety: that of its modules.
class ModuleList : public Movable<ModuleList> {
 public:
  ModuleList() = default;
  ModuleList(ModuleList&&) = default;
  template <class... M>
  requires(sizeof...(M) > 0 && !(sizeof...(M) == 1 && (std::same_as<M, ModuleList> && ...))) &&
      (GivenModule<M> && ...) explicit ModuleList(M&&... modules) {
    (append(std::make_shared<M>(std::move(modules))), ...);
  }

  /// Appends an M made of `arguments` and returns it.
  template <std::derived_from<Module> M, class... Arguments>
  M& emplace(Arguments&&... arguments) {
    return append(std::make_shared<M>(std::forward<Arguments>(arguments)...));
  }
  /// Appends a module that is moved, and returns it.
  template <GivenModule M>
  M& push_back(M&& module) {
    return append(std::make_shared<M>(std::forward<M>(module)));
  }
  /// Appends a module that others may share.
  template <std::derived_from<Module> M>
  M& append(std::shared_ptr<M> module) {
    M& added = *module;
    register_module(std::to_string(modules_.size()), added);
    modules_.push_back(std::move(module));
    return added;
  }

  /// How many modules.
  std::size_t size() const noexcept { return modules_.size(); }
  /// Throws IndexError unless i < size().
  Module& operator[](std::size_t i) const {
    TENDRIL_CHECK_AS(IndexError, i < modules_.size(), "ModuleList: index: got ", i, ", expected one below ",
                     modules_.size());
    return *modules_[i];
  }
  /// The same as what it is. Throws Error if it is no M.
  template <std::derived_from<Module> M>
  M& at(std::size_t i) const {
    M* const module = dynamic_cast<M*>(&(*this)[i]);
    TENDRIL_CHECK(module, "ModuleList::at: module ", i, " is a ", modules_[i]->name(), ", expected another class");
    return *module;
  }

 private:
  std::vector<std::shared_ptr<Module>> modules_;
};

}  // namespace tendril::nn

TENDRIL_API_END
