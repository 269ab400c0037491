#pragma once

#include <chrono>
#include <concepts>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tendril/dist/autograd/container.h"
#include "tendril/dist/autograd/context.h"
#include "tendril/dist/detail/local_optimizer.h"
#include "tendril/nn/module.h"
#include "tendril/rpc/agent.h"
#include "tendril/rpc/call.h"
#include "tendril/rpc/call/type_name.h"
#include "tendril/rpc/rref.h"

namespace tendril::dist {

/// Some owners could not do what a DistributedOptimizer asked of them. What the others did stays done.
class OptimizerError : public rpc::RpcError {
 public:
  /// One worker's part of a step that failed.
  struct Failure {
    rpc::WorkerInfo worker = {};
    std::string reason = {};
  };
  OptimizerError(const std::string& message, std::vector<Failure> failures)
      : RpcError(message), failures_(std::move(failures)) {}
  const std::vector<Failure>& failures() const noexcept { return failures_; }  ///< in the order of the owners' ranks

 private:
  std::vector<Failure> failures_;
};

/// References to a module's parameters, in the module's order: what a DistributedOptimizer takes. This worker owns
/// them; they share the module's elements.
std::vector<rpc::RRef<Tensor>> parameter_rrefs(const nn::Module& module);
std::vector<rpc::RRef<Tensor>> parameter_rrefs(rpc::Agent& agent, const nn::Module& module);

/// Of one step.
struct StepOptions {
  std::chrono::milliseconds timeout{0};  ///< for all owners; 0 = as long as they live
};

/// Trains parameters that are spread over workers: on each owner an O (optim::SGD, optim::Adam, ...) of its own takes a
/// step by the gradients that one context holds there. Nothing travels but the context's id.
///
///     dist::DistributedOptimizer<optim::SGD> opt(model.parameter_rrefs(), {.lr = 0.05});
///     dist::autograd::Context ctx;
///     dist::autograd::backward(ctx, {loss});
///     opt.step(ctx);
///
/// A step uses the gradients of its context only: `.grad` is neither read nor written, and a parameter that no backward
/// of the context reached stays as it is, with its state. There is nothing to zero.
///
/// The steps of all contexts and of all optimizers take place one after the other on each owner. They are not ordered
/// with other uses: a forward or backward that runs there at the same time may see a parameter half changed (as in
/// Hogwild training), and a graph recorded before the step can not be run backward after it.
///
/// Thread-safe, as far as one step at a time goes for each context.
template <detail::LocallyConstructible O>
class DistributedOptimizer {
 public:
  using Options = typename O::Options;

  /// Makes an O on every owner, all at the same time, and waits for all. Each O gets its owner's parameters in the
  /// order given. Throws Error for no parameters; OptimizerError naming each owner on which it failed.
  explicit DistributedOptimizer(const std::vector<rpc::RRef<Tensor>>& params, const Options& options = {})
      : DistributedOptimizer(*rpc::default_agent(), params, options) {}
  DistributedOptimizer(rpc::Agent& agent, const std::vector<rpc::RRef<Tensor>>& params, const Options& options = {});

  DistributedOptimizer(const DistributedOptimizer&) = delete;
  DistributedOptimizer& operator=(const DistributedOptimizer&) = delete;

  /// Returns when every owner has stepped. Throws AutogradError, before anything is sent, for a context that is unknown
  /// here or released; OptimizerError for owners that failed or died, after all have answered.
  void step(const autograd::Context& context, const StepOptions& options = {}) { step(context.id(), options); }
  void step(autograd::ContextId context, const StepOptions& options = {});

  double lr() const;       ///< as it was last set
  void set_lr(double lr);  ///< on every owner; throws OptimizerError
  /// What the owner keeps for this parameter, copied here: optim::SGDState, optim::AdamState, ...
  /// Throws what the call throws; Error for a tensor that is not one of the optimizer's.
  auto state(const rpc::RRef<Tensor>& param) const requires detail::HasState<O>;

  std::vector<rpc::WorkerInfo> owners() const;  ///< who holds parameters, by rank

 private:
  using Local = detail::LocalOptimizer<O>;
  struct Owner {
    rpc::WorkerInfo worker = {};
    std::shared_ptr<Local> here;  // of this worker
    rpc::RRef<Local> there;       // of another
  };

  static std::string name() { return "DistributedOptimizer<" + rpc::type_name(typeid(O)) + ">"; }
  /// Asks every owner at the same time and waits for all. `ask(owner)` gives a Future<void>, `do_here(local)` acts.
  template <class Ask, class DoHere>
  void on_every_owner(const char* what, Ask ask, DoHere do_here) const;

  std::shared_ptr<autograd::Container> container_;
  std::vector<Owner> owners_;
  mutable std::mutex mutex_;  // lr_
  double lr_;
};

}  // namespace tendril::dist

#include "tendril/dist/detail/optimizer_inl.h"
