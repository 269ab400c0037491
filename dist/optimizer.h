#pragma once

#include <chrono>
#include <concepts>
#include <exception>
#include <memory>
#include <shared_mutex>
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
#include "tendril/rpc/threads/mutex.h"
#include "tendril/tensor/export.h"
#include "tendril/tensor/state_dict.h"

TENDRIL_API_BEGIN

namespace tendril::dist {

/// Some owners could not do what a DistributedOptimizer asked of them. What the others did stays done.
class OptimizerError : public rpc::RpcError {
 public:
  /// One worker's part of a step that failed.
  struct Failure {
    rpc::WorkerInfo worker = {};  ///< the owner
    std::string reason = {};      ///< what it said
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

struct DistributedOptimizerOptions {
  /// For several trainers that share parameters and do not wait for each other (Recht et al., "Hogwild!", 2011): a step
  /// is not seen by the version check, so a backward whose forward was before another trainer's step runs with the
  /// parameters as they are now. On each owner steps and backwards take turns, and so does a forward that holds a
  /// `ReadParameters`: nothing is read half changed. A hook that runs in a backward must not wait for a step. CPU only.
  /// The same at all trainers.
  bool hogwild = false;
};

/// While it lives, no Hogwild step changes parameters of the worker that serves this thread. For the part of a forward
/// that computes with them: who makes a call meanwhile that waits for a step waits for ever.
class ReadParameters {
 public:
  ReadParameters();  ///< waits for a step that is under way; a handler's slot is given back meanwhile
  ReadParameters(const ReadParameters&) = delete;
  ReadParameters& operator=(const ReadParameters&) = delete;

 private:
  const std::shared_ptr<rpc::detail::SharedMutex> parameters_;  // keeps its owner alive
  std::shared_lock<rpc::detail::SharedMutex> lock_;
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
/// with other uses: a forward or backward that runs there at the same time may see a parameter half changed, and a
/// graph recorded before the step can not be run backward after it. DistributedOptimizerOptions::hogwild is for
/// trainers that share parameters.
///
/// Thread-safe, as far as one step at a time goes for each context.
template <detail::LocallyConstructible O>
class DistributedOptimizer {
 public:
  using Options = typename O::Options;  ///< those of O

  /// Parameters that share options.
  struct Group {
    std::vector<rpc::RRef<Tensor>> params = {};  ///< of any owners
    Options options = {};
  };

  /// Makes an O on every owner, all at the same time, and waits for all. Each O gets its owner's parameters in the
  /// order given. Throws Error for no parameters; OptimizerError naming each owner on which it failed.
  explicit DistributedOptimizer(const std::vector<rpc::RRef<Tensor>>& params, const Options& options = {},
                                const DistributedOptimizerOptions& more = {})
      : DistributedOptimizer(*rpc::default_agent(), params, options, more) {}
  DistributedOptimizer(rpc::Agent& agent, const std::vector<rpc::RRef<Tensor>>& params, const Options& options = {},
                       const DistributedOptimizerOptions& more = {})
      : DistributedOptimizer(OfGroups(), agent, {{params, options}}, more) {}
  /// Several groups, each with options of its own; owners may have parameters of any of them.
  template <std::same_as<std::vector<Group>> Groups>  // so that {rref} means a list of parameters
  DistributedOptimizer(rpc::Agent& agent, const Groups& groups, const DistributedOptimizerOptions& more = {})
      : DistributedOptimizer(OfGroups(), agent, groups, more) {}
  template <std::same_as<std::vector<Group>> Groups>
  explicit DistributedOptimizer(const Groups& groups, const DistributedOptimizerOptions& more = {})
      : DistributedOptimizer(OfGroups(), *rpc::default_agent(), groups, more) {}

  DistributedOptimizer(const DistributedOptimizer&) = delete;
  DistributedOptimizer& operator=(const DistributedOptimizer&) = delete;

  /// Returns when every owner has stepped. Throws AutogradError, before anything is sent, for a context that is unknown
  /// here or released; OptimizerError for owners that failed or died, after all have answered.
  void step(const autograd::Context& context, const StepOptions& options = {}) { step(context.id(), options); }
  void step(autograd::ContextId context, const StepOptions& options = {});

  std::size_t num_groups() const noexcept { return groups_.size(); }  ///< as they were given
  double lr(std::size_t group = 0) const;                             ///< as it was last set
  void set_lr(double lr);  ///< of all groups, on every owner; throws OptimizerError
  /// Of one group, on the owners that have parameters of it. A schedule of nn/optim sets it through `Rates` (rates.h).
  void set_lr(std::size_t group, double lr);

  /// Scales the gradients that the context holds of the optimizer's parameters, on all owners, so that the norm of all
  /// together is at most `max_norm`; returns what it was. As nn::utils::clip_grad_norm_, whose norm this is (norm_type
  /// may be infinity); a norm that is NaN clips nothing. Throws AutogradError, OptimizerError.
  double clip_grad_norm_(const autograd::Context& context, double max_norm, double norm_type = 2);

  /// Copies of all owners' options and state, here, under the names and numbers that one O over the same groups would
  /// give them: what is saved on three owners loads on one, or without workers. Throws OptimizerError. A step that
  /// takes place meanwhile may be in it for some owners and not for others.
  StateDict state_dict() const;
  /// Takes options and state of an optimizer of the same class and groups, wherever their parameters were. Throws
  /// Error, or OptimizerError naming owners, for what is missing or does not fit: nothing has changed then, unless an
  /// owner was lost between the question whether it fits and the loading. `options.strict` must be true.
  void load_state_dict(const StateDict& dict, const LoadOptions& options = {});
  /// What the owner keeps for this parameter, copied here: optim::SGDState, optim::AdamState, ...
  /// Throws what the call throws; Error for a tensor that is not one of the optimizer's.
  auto state(const rpc::RRef<Tensor>& param) const requires detail::HasState<O>;

  std::vector<rpc::WorkerInfo> owners() const;  ///< who holds parameters, by rank

 private:
  friend class RemotePart;
  using Local = detail::LocalOptimizer<O>;
  struct OfGroups {};
  DistributedOptimizer(OfGroups, rpc::Agent& agent, const std::vector<Group>& groups,
                       const DistributedOptimizerOptions& more);
  struct Owner {
    rpc::WorkerInfo worker = {};  ///< the owner
    std::shared_ptr<Local> here;  // of this worker
    rpc::RRef<Local> there;       // of another
    detail::OwnerState where;     // its parameters among all
  };

  static std::string name() { return "DistributedOptimizer<" + rpc::type_name(typeid(O)) + ">"; }
  /// As state_dict and load_state_dict, but that each owner writes a file, of which this is the first, or reads what is
  /// its own from all of them.
  void write_files(const detail::PartFile& first) const;
  void read_files(const detail::PartFile& file, bool check_only);
  void note_rates(const StateDict& dict);
  /// Asks every owner at the same time and waits for all. `ask(owner)` gives a Future<R> (void for monostate, empty:
  /// not asked), `do_here(owner)` acts.
  template <class R, class Ask, class DoHere>
  std::vector<R> on_every_owner(const char* what, Ask ask, DoHere do_here) const;

  std::shared_ptr<autograd::Container> container_;
  std::vector<Owner> owners_;
  std::vector<std::vector<std::size_t>> groups_;  // numbers of their parameters
  mutable rpc::detail::Mutex mutex_;              // lrs_
  std::vector<double> lrs_;
};

}  // namespace tendril::dist

TENDRIL_API_END

#include "tendril/dist/detail/optimizer_inl.h"
