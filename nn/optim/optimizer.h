#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tendril/autograd/grad_mode.h"
#include "tendril/tensor/error.h"
#include "tendril/tensor/export.h"
#include "tendril/tensor/state_dict.h"
#include "tendril/tensor/tensor.h"

TENDRIL_API_BEGIN

namespace tendril {
namespace detail {
class Recorder;  // tensor/detail/replay.h
}
}  // namespace tendril

namespace tendril::optim {

/// Parameters that share options:
///
///     optim::SGD sgd({{.params = base.parameters()},
///                     {.params = head.parameters(), .options = {.lr = 1e-3}}});
template <class Options>
struct ParamGroup {
  std::vector<Tensor> params = {};  ///< handles: the same tensors
  Options options = {};
};

/// A learning rate by itself: `Adam(params, 1e-3)`. (Not `double`, which braces without options would be, too.)
template <class T>
concept Number = std::is_arithmetic_v<T> && !std::is_same_v<T, bool>;

/// Changes parameters by their gradients.
///
/// Parameters are leaves of a floating dtype, each given once and on any device; otherwise the constructor throws. The
/// optimizer keeps references to them, and its own state beside them; a step after a cast or a move throws. It follows
/// parameters that are frozen or unfrozen, but does not see another tensor that is assigned to a module's member: tie
/// parameters first.
///
/// Beside float16 and bfloat16 parameters the state is float32: a running average in them would stand still as soon as
/// its changes are below half a unit in the last place. A step is computed in float32, and the parameter is rounded
/// once at its end. Parameters stand still in the same way; the option `master_weights`, which all optimizers of this
/// library have, keeps a float32 copy of each such parameter. Steps change the copy, and the parameter is its rounded
/// value. The copy is made from the parameter at the first step. Elements of the parameter that are written between two
/// steps (by load_state_dict of a module, `copy_`, ...) are taken over into the copy by the second step.
///
/// A step is one fused pass over all parameters (on a device a few launches, which are not waited for): nothing is
/// recorded and, while parameter and gradient are contiguous, no temporary made. It bumps the parameters' versions, so
/// that a backward through a graph from before the step throws instead of using changed values. A step that a
/// cuda::Graph has recorded is the next one at each replay, by the rates that are set then; the graph uses the
/// optimizer.
///
/// Thread-safety: one thread at a time, and not while another reads or writes the parameters.
class Optimizer {
 public:
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;
  virtual ~Optimizer() = default;

  /// Steps by each parameter's `.grad`; parameters without one stay as they are, and so does their state.
  void step();
  /// Steps by gradients that are kept elsewhere: one per parameter in the order of `parameters()`, undefined where
  /// there is none. `.grad` is not looked at.
  void step(const std::vector<Tensor>& gradients);
  /// Calls `closure`, which clears the gradients, computes a loss and goes backward through it, with recording on; then
  /// steps. Gives the loss.
  template <class F>
  requires std::is_invocable_r_v<Tensor, F&> Tensor step(F&& closure) {
    Tensor loss = [&] {
      const EnableGrad recording;
      return closure();
    }();
    step();
    return loss;
  }
  /// Drops the parameters' `.grad`.
  void zero_grad();

  const std::vector<Tensor>& parameters() const noexcept { return params_; }  ///< of all groups, in order
  /// How many groups of parameters.
  std::size_t num_groups() const noexcept { return num_groups_; }

  /// All that a step depends on beside parameters and gradients, under PyTorch's names with dots between them:
  /// "state.0.momentum_buffer" of parameter 0, "param_groups.0.lr", "param_groups.0.params" (which parameters). The
  /// tensors are the optimizer's own: a step changes them, unless the dict is cloned.
  virtual StateDict state_dict() const = 0;
  /// Takes options and state of an optimizer of the same class and parameters, as copies on the parameters' devices in
  /// their dtypes. Throws Error that lists all that is missing, unexpected (both only if `strict`) or does not fit;
  /// nothing has changed then. PyTorch's own dicts load without `strict`, for they hold options that are not ours.
  virtual LoadReport load_state_dict(const StateDict& dict, const LoadOptions& options = {}) = 0;

  /// The learning rate of a group.
  virtual double lr(std::size_t group = 0) const = 0;
  virtual void set_lr(double lr) = 0;  ///< of all groups
  virtual void set_lr(std::size_t group, double lr) = 0;
  /// What a one-cycle schedule changes beside the rate: `momentum`, or Adam's and its like's beta1; none: no value.
  virtual std::optional<double> momentum(std::size_t group = 0) const = 0;
  virtual void set_momentum(std::size_t group, double momentum) = 0;  ///< Error where there is none

  /// The rate that schedules count from: the group's when the first of them was made (PyTorch's "initial_lr").
  double initial_lr(std::size_t group = 0) const;
  /// Sets the rate that later schedules count from.
  void set_initial_lr(std::size_t group, double lr);

  /// The float32 copy of a parameter of a half type under `master_weights`; undefined for others and before the first
  /// step. Throws Error unless `param` is one of `parameters()`.
  const Tensor& master_weight(const Tensor& param) const;

 protected:
  /// What `update` works on: a parameter and its gradient, without gaps.
  struct Ready {
    std::size_t index;  ///< its place among all parameters
    Tensor param;       ///< to be changed
    Tensor grad;        ///< defined
  };

  /// `name` is the class's, for error messages.
  explicit Optimizer(const char* name) noexcept : name_(name) {}

  /// Called once for each group, in order. Strong: throws before anything is added.
  void add_group(const std::vector<Tensor>& params);

  /// Changes the parameters that have a gradient. A cuda::Graph that records a step calls it again before each replay,
  /// for the numbers that kernels take: then it launches kernels of ours only (`step_by`; copies and libraries'
  /// operations are refused), and changes nothing on the host.
  virtual void update(std::span<const Ready> ready) = 0;
  /// Calls `f` with one part of `ready` after the other: neighbours of one device, dtype and group, for which
  /// `key(index)` is the same, so that one call of a kernel does them all.
  template <class Key, class F>
  void for_each_run(std::span<const Ready> ready, const Key& key, const F& f) const;

  /// Steps by an optimizer's functor (tensor/optim_step.h), one call for each part as above: `rule(index)` is that of
  /// all parameters of the part, `state(index, arrays)` says where what is kept for one is, from arrays[2] on. Defined
  /// in nn/optim/detail/step.h, which the optimizers' sources include.
  template <class Key, class Rule, class State>
  void step_by(std::span<const Ready> ready, const Key& key, const Rule& rule, const State& state);

  /// "SGD", "Adam": for messages and files.
  const char* name() const noexcept { return name_; }
  /// Throws Error if a parameter was cast or moved since the optimizer got it.
  void check_as_given(std::size_t index) const;
  /// Which group parameter `index` belongs to.
  std::size_t group_of(std::size_t index) const noexcept { return groups_[index]; }
  /// Throws Error, named after the function `op`, unless `param` is one of `parameters()`.
  std::size_t index_of(const Tensor& param, const char* op = "state") const;
  /// The elements of a tensor of state, which is made beside its parameter, filled with zeros, when it is undefined.
  void* state_data(Tensor& state, std::size_t index) const;
  /// Makes a parameter's master_weight, or updates it if the parameter has been written since, as step_by does.
  void renew_master(std::size_t index);
  /// The dtype of a parameter's state: the parameter's dtype, for half types float32.
  DType state_dtype(std::size_t index) const noexcept { return computed_in(dtypes_[index]); }
  /// Whether steps of a group's halves are taken by float32 copies.
  virtual bool has_master_weights(std::size_t /*group*/) const { return false; }

  // ---- for state dicts
  /// In a state_dict.
  static std::string state_name(std::size_t index) { return "state." + std::to_string(index); }
  /// In a state_dict.
  static std::string group_name(std::size_t group) { return "param_groups." + std::to_string(group); }
  Tensor members_of(std::size_t group) const;  ///< numbers of its parameters, int64 [n]
  /// Notes it where the dict's group has other parameters.
  void check_members(StateReader& reader, std::size_t group) const;
  /// A copy of a tensor of state in state_dtype, on the device of its parameter; undefined for an undefined one.
  Tensor copy_beside(const Tensor& state, std::size_t index) const;
  /// A parameter's master_weight, if there is one.
  void add_master(StateDict& dict, std::size_t index) const;
  /// The master_weight in the dict; undefined if it has none.
  Tensor read_master(StateReader& reader, std::size_t index) const;
  /// Replaces the master weights of all parameters.
  void set_masters(std::vector<Tensor>&& masters) noexcept { masters_.swap(masters); }

 private:
  void check_gradient(std::size_t index, const Tensor& gradient) const;
  void record(tendril::detail::Recorder& recorder, std::vector<Ready> ready);
  void mark_changed(std::span<const Ready> ready) const;
  static std::string master_name(std::size_t index) { return state_name(index) + ".master_weight"; }
  /// The elements of a parameter's master_weight, which is made when it is undefined; null for none.
  float* master_data(std::size_t index);
  /// Counts the step of a parameter, which `update` has made.
  virtual void count_step(std::size_t /*index*/) {}

  const char* name_;
  std::vector<Tensor> params_;
  std::vector<std::size_t> groups_;  // of each parameter
  std::vector<DType> dtypes_;        // of each parameter, as it was given
  std::vector<Device> devices_;      // likewise
  std::vector<Tensor> masters_;      // of each parameter, or undefined
  std::unordered_map<const TensorImpl*, std::size_t> index_;
  std::size_t num_groups_ = 0;
  std::vector<std::optional<double>> initial_lrs_;  // of each group that a schedule has asked about
};

template <class Key, class F>
void Optimizer::for_each_run(std::span<const Ready> ready, const Key& key, const F& f) const {
  const auto alike = [&](const Ready& a, const Ready& b) {
    return group_of(a.index) == group_of(b.index) && a.param.dtype() == b.param.dtype() &&
           a.param.device() == b.param.device() && key(a.index) == key(b.index);
  };
  while (!ready.empty()) {
    std::size_t length = 1;
    while (length < ready.size() && alike(ready[0], ready[length])) ++length;
    f(ready.first(length));
    ready = ready.subspan(length);
  }
}

/// What optimizers with `lr` among their options share. `OptionsT::validate(name)` throws on bad values; `StateT` is
/// what is kept for each parameter: numbers, and tensors of the parameter's shape that are undefined before they are
/// needed.
///
/// A number named `step` in StateT counts a parameter's steps: the base adds one after each update, and `update` must
/// not.
///
/// Both say by which names their members are saved (PyTorch's), which is all that saving and loading need:
///
///     template <class Self, class Visit>
///     static void for_each_field(Self& self, const Visit& visit) {
///       visit("step", self.step);
///       visit("exp_avg", self.exp_avg);
///     }
///
/// and StateT may say `bool is_complete(const OptionsT&) const`: whether it has the tensors that a step would need. The
/// option `bool master_weights` (Optimizer) is not among the fields: it is saved if it is set.
template <class OptionsT, class StateT>
class OptimizerOf : public Optimizer {
 public:
  using Options = OptionsT;            ///< of a group
  using State = StateT;                ///< of a parameter
  using Group = ParamGroup<OptionsT>;  ///< parameters that share options

  /// Options of a group.
  const Options& options(std::size_t group = 0) const;
  /// Options of a group, from the next step on. Throws Error for those that make no sense.
  void set_options(std::size_t group, const Options& options);
  double lr(std::size_t group = 0) const override { return options(group).lr; }
  /// Of all groups.
  void set_lr(double lr) override;
  void set_lr(std::size_t group, double lr) override;
  StateDict state_dict() const override;
  LoadReport load_state_dict(const StateDict& dict, const LoadOptions& options = {}) override;
  std::optional<double> momentum(std::size_t group = 0) const override;
  void set_momentum(std::size_t group, double value) override;
  /// Adds parameters with options of their own. Strong: throws before anything is added.
  void add_param_group(const Group& group);
  /// What is kept for one parameter; its tensors are undefined before they are needed. Throws Error unless `param` is
  /// one of `parameters()`.
  const State& state(const Tensor& param) const { return states_[index_of(param)]; }

 protected:
  OptimizerOf(const char* optimizer_name, const std::vector<Group>& groups);
  ~OptimizerOf() override;

  /// Of the group of a parameter.
  const Options& options_of(std::size_t index) const noexcept { return options_[group_of(index)]; }
  /// Of a parameter.
  State& state_of(std::size_t index) noexcept { return states_[index]; }

 private:
  /// A state's `step`, where it has one.
  void count_step(std::size_t index) override;
  bool has_master_weights(std::size_t group) const override;
  void read_options(StateReader& reader, std::size_t group, OptionsT& options) const;
  void read_state(StateReader& reader, const StateDict& dict, std::size_t index, const OptionsT& options,
                  StateT& state) const;
  void check_group(const char* op, std::size_t group) const;

  std::vector<Options> options_;  // of each group
  std::vector<State> states_;     // of each parameter
};

// Outside of the class, so that a program which only includes the library's optimizers compiles none of it: each is
// instantiated once, in its source.

template <class OptionsT, class StateT>
OptimizerOf<OptionsT, StateT>::OptimizerOf(const char* optimizer_name, const std::vector<Group>& groups)
    : Optimizer(optimizer_name) {
  TENDRIL_CHECK(!groups.empty(), optimizer_name, ": groups: got none, expected at least one");
  for (const Group& group : groups) add_param_group(group);
}

template <class OptionsT, class StateT>
OptimizerOf<OptionsT, StateT>::~OptimizerOf() = default;

template <class OptionsT, class StateT>
void OptimizerOf<OptionsT, StateT>::count_step(std::size_t index) {
  if constexpr (requires { ++states_[index].step; }) ++states_[index].step;
}

template <class OptionsT, class StateT>
bool OptimizerOf<OptionsT, StateT>::has_master_weights([[maybe_unused]] std::size_t group) const {
  if constexpr (requires { options_[group].master_weights; }) return options_[group].master_weights;
  return false;
}

template <class OptionsT, class StateT>
void OptimizerOf<OptionsT, StateT>::add_param_group(const Group& group) {
  group.options.validate(name());
  options_.reserve(options_.size() + 1);
  states_.reserve(states_.size() + group.params.size());
  add_group(group.params);
  options_.push_back(group.options);
  states_.resize(parameters().size());
}

template <class OptionsT, class StateT>
void OptimizerOf<OptionsT, StateT>::check_group(const char* op, std::size_t group) const {
  TENDRIL_CHECK_AS(IndexError, group < options_.size(), name(), "::", op, ": group ", group, " of ", options_.size());
}

template <class OptionsT, class StateT>
const OptionsT& OptimizerOf<OptionsT, StateT>::options(std::size_t group) const {
  check_group("options", group);
  return options_[group];
}

template <class OptionsT, class StateT>
void OptimizerOf<OptionsT, StateT>::set_options(std::size_t group, const Options& options) {
  check_group("set_options", group);
  options.validate(name());
  options_[group] = options;
}

template <class OptionsT, class StateT>
void OptimizerOf<OptionsT, StateT>::set_lr(double lr) {
  for (std::size_t group = 0; group < options_.size(); ++group) set_lr(group, lr);
}

template <class OptionsT, class StateT>
void OptimizerOf<OptionsT, StateT>::set_lr(std::size_t group, double lr) {
  Options changed = options(group);
  changed.lr = lr;
  set_options(group, changed);
}

template <class OptionsT, class StateT>
std::optional<double> OptimizerOf<OptionsT, StateT>::momentum(std::size_t group) const {
  const Options& of = options(group);
  if constexpr (requires { of.momentum; }) {
    return of.momentum;
  } else if constexpr (requires { of.beta1; }) {
    return of.beta1;
  } else {
    return std::nullopt;
  }
}

template <class OptionsT, class StateT>
void OptimizerOf<OptionsT, StateT>::set_momentum(std::size_t group, [[maybe_unused]] double value) {
  Options changed = options(group);
  if constexpr (requires { changed.momentum; }) {
    changed.momentum = value;
  } else if constexpr (requires { changed.beta1; }) {
    changed.beta1 = value;
  } else {
    TENDRIL_CHECK(false, name(), "::set_momentum: it has no momentum");
  }
  set_options(group, changed);
}

template <class OptionsT, class StateT>
StateDict OptimizerOf<OptionsT, StateT>::state_dict() const {
  StateDict dict;
  for (std::size_t i = 0; i < states_.size(); ++i) {
    StateT::for_each_field(states_[i], [&](const char* field, const auto& value) {
      if constexpr (std::same_as<std::remove_cvref_t<decltype(value)>, Tensor>) {
        if (value.defined()) dict.insert(state_name(i) + "." + field, value);
      } else {
        dict.insert(state_name(i) + "." + field, value);
      }
    });
    add_master(dict, i);
  }
  for (std::size_t group = 0; group < options_.size(); ++group) {
    OptionsT::for_each_field(options_[group], [&](const char* field, const auto& value) {
      dict.insert(group_name(group) + "." + field, value);
    });
    if (has_master_weights(group)) dict.insert(group_name(group) + ".master_weights", true);
    dict.insert(group_name(group) + ".params", members_of(group));
  }
  return dict;
}

template <class OptionsT, class StateT>
LoadReport OptimizerOf<OptionsT, StateT>::load_state_dict(const StateDict& dict, const LoadOptions& options) {
  StateReader reader(dict, std::string(name()) + "::load_state_dict");
  std::vector<OptionsT> new_options = options_;
  std::vector<StateT> new_states(states_.size());
  std::vector<Tensor> new_masters;
  for (std::size_t group = 0; group < options_.size(); ++group) read_options(reader, group, new_options[group]);
  for (std::size_t i = 0; i < states_.size(); ++i) {
    read_state(reader, dict, i, new_options[group_of(i)], new_states[i]);
    new_masters.push_back(read_master(reader, i));
  }
  LoadReport report = reader.finish(options);
  if (options.check_only) return report;
  for (std::size_t i = 0; i < states_.size(); ++i) {
    StateT::for_each_field(new_states[i], [&](const char*, auto& value) {
      if constexpr (std::same_as<std::remove_cvref_t<decltype(value)>, Tensor>) value = copy_beside(value, i);
    });
    new_masters[i] = copy_beside(new_masters[i], i);
  }
  options_.swap(new_options);
  states_.swap(new_states);
  set_masters(std::move(new_masters));
  return report;
}

template <class OptionsT, class StateT>
void OptimizerOf<OptionsT, StateT>::read_options(StateReader& reader, std::size_t group, OptionsT& options) const {
  OptionsT::for_each_field(
      options, [&](const char* field, auto& value) { reader.number(group_name(group) + "." + field, value); });
  if constexpr (requires { options.master_weights; }) {
    const std::string entry = group_name(group) + ".master_weights";
    if (reader.has(entry)) reader.number(entry, options.master_weights);
  }
  try {
    options.validate(name());
  } catch (const Error& error) {
    reader.refuse(group_name(group), error.what());
  }
  check_members(reader, group);
}

template <class OptionsT, class StateT>
void OptimizerOf<OptionsT, StateT>::read_state(StateReader& reader, const StateDict& dict, std::size_t index,
                                               const OptionsT& options, StateT& state) const {
  bool fits = true;
  StateT::for_each_field(state, [&](const char* field, auto& value) {
    const std::string entry = state_name(index) + "." + field;
    if constexpr (std::same_as<std::remove_cvref_t<decltype(value)>, Tensor>) {
      if (!dict.contains(entry)) return;  // undefined when it was saved
      const Tensor& param = parameters()[index];
      const Tensor* const found = reader.tensor(entry, param.sizes(), state_dtype(index));
      fits = fits && found;
      if (found) value = *found;
    } else if constexpr (std::same_as<std::remove_cvref_t<decltype(value)>, int64_t>) {
      if (std::string_view(field) == "step") {
        reader.count(entry, value);
      } else {
        reader.number(entry, value);
      }
    } else {
      reader.number(entry, value);
    }
  });
  if constexpr (requires {
                  { state.is_complete(options) } -> std::same_as<bool>;
                }) {
    if (fits && !state.is_complete(options)) {
      reader.refuse(state_name(index), "lacks a tensor that its next step needs");
    }
  }
}

}  // namespace tendril::optim

TENDRIL_API_END
