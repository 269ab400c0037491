#pragma once

#include <concepts>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tendril/dist/autograd/container.h"
#include "tendril/dist/autograd/ids.h"
#include "tendril/nn/optim/optimizer.h"
#include "tendril/rpc/rref.h"
#include "tendril/tensor/raw.h"

/// The owner's side of a DistributedOptimizer.
namespace tendril::dist::detail {

/// An optimizer that can be made on another worker: its Options can be sent.
template <class O>
concept LocallyConstructible = std::derived_from<O, optim::Optimizer> &&
                               std::default_initializable<typename O::Options> && std::constructible_from < O,
        const std::vector<Tensor>
&, const typename O::Options& > ;

/// ... and that keeps something for each parameter.
template <class O>
concept HasState = requires(const O& optimizer, const Tensor& param) {
  typename O::State;
  { optimizer.state(param) } -> std::convertible_to<const typename O::State&>;
};

/// All steps of this process, one at a time: parameters may be shared by several optimizers.
std::mutex& step_mutex();
/// The tensors that these refer to. Throws rpc::UsageError unless this worker owns them.
std::vector<Tensor> local_tensors(const std::vector<rpc::RRef<Tensor>>& params);
/// The gradients of `params` in a context, undefined where there is none. Empty if there is none at all, also because
/// the context never came here.
std::vector<Tensor> gradients_of(const autograd::Container& container, autograd::ContextId context,
                                 const std::vector<Tensor>& params);

/// An archive that gives what it is shown tensors of its own.
struct CopyTensors {
  template <class T>
  CopyTensors& operator&(T& member) {
    if constexpr (std::same_as<T, Tensor>) {
      if (member.defined()) member = raw::clone(member);
    }
    return *this;
  }
};

template <LocallyConstructible O>
class LocalOptimizer {
 public:
  LocalOptimizer(const std::vector<rpc::RRef<Tensor>>& params, const typename O::Options& options)
      : params_(local_tensors(params)), optimizer_(params_, options) {}

  void step(autograd::ContextId context) { step_in(*autograd::Container::current(), context); }
  void step_in(const autograd::Container& container, autograd::ContextId context) {
    const std::vector<Tensor> gradients = gradients_of(container, context, params_);
    if (gradients.empty()) return;
    const std::lock_guard lock(step_mutex());
    optimizer_.step(gradients);
  }

  void set_lr(double lr) {
    const std::lock_guard lock(step_mutex());
    optimizer_.set_lr(lr);
  }

  auto state(const rpc::RRef<Tensor>& param) const requires HasState<O> {
    const std::lock_guard lock(step_mutex());
    typename O::State state = optimizer_.state(param.local_value());
    CopyTensors copies;  // the optimizer changes its own in place
    state.serialize(copies, 0);
    return state;
  }

 private:
  const std::vector<Tensor> params_;
  O optimizer_;
};

}  // namespace tendril::dist::detail
