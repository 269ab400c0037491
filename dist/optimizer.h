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
#include "tendril/rpc/rref.h"
#include "tendril/rpc/system/mutex.h"
#include "tendril/rpc/wire/type_name.h"
#include "tendril/tensor/export.h"
#include "tendril/tensor/state_dict.h"

TENDRIL_API_BEGIN

namespace tendril::dist {

/// Some owners failed to carry out an operation of a DistributedOptimizer. Its effects on the other owners remain.
class OptimizerError : public rpc::RpcError {
 public:
  /// The failure of one owner.
  struct Failure {
    rpc::WorkerInfo worker = {};  ///< the owner
    std::string reason = {};      ///< its error message
  };
  OptimizerError(const std::string& message, std::vector<Failure> failures)
      : RpcError(message), failures_(std::move(failures)) {}
  const std::vector<Failure>& failures() const noexcept { return failures_; }  ///< in the order of the owners' ranks

 private:
  std::vector<Failure> failures_;
};

/// Returns references to a module's parameters, in the module's order, for a DistributedOptimizer. This worker owns
/// them; they share the module's elements.
std::vector<rpc::RRef<Tensor>> parameter_rrefs(const nn::Module& module);
std::vector<rpc::RRef<Tensor>> parameter_rrefs(rpc::Agent& agent, const nn::Module& module);

/// Options of one step.
struct StepOptions {
  std::chrono::milliseconds timeout{0};  ///< for all owners; 0: no limit while they live
};

struct DistributedOptimizerOptions {
  /// For several trainers that share parameters and do not wait for each other (Recht et al., "Hogwild!", 2011). A step
  /// does not change the parameters' versions, so a backward whose forward ran before another trainer's step uses the
  /// current parameters. On each owner, a step excludes backwards, and forwards that hold a `ReadParameters`, so that
  /// no parameter is read half updated. A hook that runs in a backward must not wait for a step. CPU only. Must be the
  /// same on all trainers.
  bool hogwild = false;
};

/// While it exists, no Hogwild step changes parameters of the worker that serves this thread. Hold it only while a
/// forward computes with the parameters: a call made meanwhile that waits for a step deadlocks.
class ReadParameters {
 public:
  ReadParameters();  ///< waits for a running step; a handler's slot is released meanwhile
  ReadParameters(const ReadParameters&) = delete;
  ReadParameters& operator=(const ReadParameters&) = delete;

 private:
  const std::shared_ptr<rpc::detail::SharedMutex> parameters_;  // keeps its owner alive
  std::shared_lock<rpc::detail::SharedMutex> lock_;
};

/// Trains parameters that are spread over workers. Each owner has a separate O (optim::SGD, optim::Adam, ...), which
/// steps with the gradients that one context holds there. Only the context's id is sent.
///
///     dist::DistributedOptimizer<optim::SGD> opt(model.parameter_rrefs(), {.lr = 0.05});
///     dist::autograd::Context ctx;
///     dist::autograd::backward(ctx, {loss});
///     opt.step(ctx);
///
/// A step uses only the gradients of its context: `.grad` is neither read nor written, and a parameter that no backward
/// of the context reached keeps its value and its state. There is nothing to zero.
///
/// On each owner, the steps of all contexts and of all optimizers run one after the other. They are not ordered with
/// other uses: a forward or backward that runs there at the same time may see a parameter half updated, and backward
/// through a graph recorded before the step fails after it. For trainers that share parameters, see
/// DistributedOptimizerOptions::hogwild.
///
/// Thread-safe, provided that no two steps of one context run at the same time.
template <detail::LocallyConstructible O>
class DistributedOptimizer {
 public:
  using Options = typename O::Options;  ///< the options of O

  /// Parameters that share options.
  struct Group {
    std::vector<rpc::RRef<Tensor>> params = {};  ///< of any owners
    Options options = {};
  };

  /// Constructs an O on all owners in parallel, and waits for all of them. Each O gets its owner's parameters, in the
  /// given order. Throws Error for an empty list; OptimizerError that names each owner on which it failed.
  explicit DistributedOptimizer(const std::vector<rpc::RRef<Tensor>>& params, const Options& options = {},
                                const DistributedOptimizerOptions& more = {})
      : DistributedOptimizer(*rpc::default_agent(), params, options, more) {}
  DistributedOptimizer(rpc::Agent& agent, const std::vector<rpc::RRef<Tensor>>& params, const Options& options = {},
                       const DistributedOptimizerOptions& more = {})
      : DistributedOptimizer(OfGroups(), agent, {{params, options}}, more) {}
  /// The same for several groups, each with separate options. Owners may have parameters of any group.
  template <std::same_as<std::vector<Group>> Groups>  // so that {rref} means a list of parameters
  DistributedOptimizer(rpc::Agent& agent, const Groups& groups, const DistributedOptimizerOptions& more = {})
      : DistributedOptimizer(OfGroups(), agent, groups, more) {}
  template <std::same_as<std::vector<Group>> Groups>
  explicit DistributedOptimizer(const Groups& groups, const DistributedOptimizerOptions& more = {})
      : DistributedOptimizer(OfGroups(), *rpc::default_agent(), groups, more) {}

  DistributedOptimizer(const DistributedOptimizer&) = delete;
  DistributedOptimizer& operator=(const DistributedOptimizer&) = delete;

  /// Returns when all owners have stepped. Throws AutogradError, before anything is sent, for a context that is unknown
  /// here or released; OptimizerError for owners that failed or died, after all others have answered.
  void step(const autograd::Context& context, const StepOptions& options = {}) { step(context.id(), options); }
  void step(autograd::ContextId context, const StepOptions& options = {});

  std::size_t num_groups() const noexcept { return groups_.size(); }  ///< number of groups given to the constructor
  double lr(std::size_t group = 0) const;                             ///< the learning rate that was last set
  void set_lr(double lr);  ///< for all groups, on all owners; throws OptimizerError
  /// Sets the rate of one group, on the owners that have parameters of it. Schedules of nn/optim can do this through
  /// `Rates` (rates.h).
  void set_lr(std::size_t group, double lr);

  /// Scales the context's gradients of the optimizer's parameters, on all owners, so that their total norm is at most
  /// `max_norm`, and returns the norm before. The norm is that of nn::utils::clip_grad_norm_ (norm_type may be
  /// infinity); a NaN norm clips nothing. Throws AutogradError, OptimizerError.
  double clip_grad_norm_(const autograd::Context& context, double max_norm, double norm_type = 2);

  /// Returns copies of all owners' options and state, under the names and numbers that one O over the same groups would
  /// use. So the state of three owners can be loaded on one, or without workers. Throws OptimizerError. A step that
  /// runs meanwhile may be included for some owners and not for others.
  StateDict state_dict() const;
  /// Loads the options and state of an optimizer of the same class and groups, whichever workers owned its parameters.
  /// Throws Error, or OptimizerError that names owners, for entries that are missing or do not fit. Nothing has changed
  /// then, unless an owner was lost between the check and the loading. `options.strict` must be true.
  void load_state_dict(const StateDict& dict, const LoadOptions& options = {});
  /// Returns a copy of the owner's state for this parameter: optim::SGDState, optim::AdamState, ...
  /// Throws errors of the call; Error for a tensor that is not a parameter of the optimizer.
  auto state(const rpc::RRef<Tensor>& param) const requires detail::HasState<O>;

  std::vector<rpc::WorkerInfo> owners() const;  ///< the workers that own parameters, by rank

 private:
  friend class RemotePart;
  using Local = detail::LocalOptimizer<O>;
  struct OfGroups {};
  DistributedOptimizer(OfGroups, rpc::Agent& agent, const std::vector<Group>& groups,
                       const DistributedOptimizerOptions& more);
  struct Owner {
    rpc::WorkerInfo worker = {};  ///< the owner
    std::shared_ptr<Local> here;  // on this worker
    rpc::RRef<Local> there;       // on another worker
    detail::OwnerState where;     // indices of its parameters and groups among all
  };

  static std::string name() { return "DistributedOptimizer<" + rpc::type_name(typeid(O)) + ">"; }
  /// Like state_dict and load_state_dict, except that each owner writes a file, of which `first` is the first, or reads
  /// its entries from all files.
  void write_files(const detail::PartFile& first) const;
  void read_files(const detail::PartFile& file, bool check_only);
  void note_rates(const StateDict& dict);
  /// Runs an operation on all owners in parallel, and waits for all of them. On other workers, `ask(owner)` starts it
  /// and returns a Future<R> (Future<void> if R is monostate; an empty one skips the owner). `do_here(owner)` runs it
  /// here.
  template <class R, class Ask, class DoHere>
  std::vector<R> on_every_owner(const char* what, Ask ask, DoHere do_here) const;

  std::shared_ptr<autograd::Container> container_;
  std::vector<Owner> owners_;
  std::vector<std::vector<std::size_t>> groups_;  // the parameters' numbers, by group
  mutable rpc::detail::Mutex mutex_;              // guards lrs_
  std::vector<double> lrs_;
};

}  // namespace tendril::dist

TENDRIL_API_END

#include "tendril/dist/detail/optimizer_inl.h"
