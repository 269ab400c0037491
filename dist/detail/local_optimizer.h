#pragma once

#include <algorithm>
#include <concepts>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tendril/dist/autograd/container.h"
#include "tendril/dist/autograd/ids.h"
#include "tendril/dist/autograd/nodes.h"
#include "tendril/dist/checkpoint/detail/part_file.h"
#include "tendril/dist/detail/named_tensors.h"
#include "tendril/nn/optim/optimizer.h"
#include "tendril/rpc/rref.h"
#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

/// The owner's side of a DistributedOptimizer.
namespace tendril::dist::detail {

/// An optimizer that can be made on another worker: its Options can be sent.
template <class O>
concept LocallyConstructible = std::derived_from<O, optim::Optimizer> &&
                               std::default_initializable<typename O::Options> && std::constructible_from < O,
        const std::vector<Tensor>
&, const typename O::Options& > ;

/// An optimizer that keeps a State for each parameter.
template <class O>
concept HasState = requires(const O& optimizer, const Tensor& param) {
  typename O::State;
  { optimizer.state(param) } -> std::convertible_to<const typename O::State&>;
};

using autograd::detail::Census;

/// Locks out other steps on this worker and, under Hogwild, backwards and ReadParameters. A handler releases its slot
/// while it waits.
std::unique_lock<rpc::detail::SharedMutex> step_lock(Census& census);
/// Returns a tensor that shares the elements but not the version (DistributedOptimizerOptions::hogwild). Throws Error
/// unless the elements are on the CPU.
Tensor unversioned(const Tensor& param);
void check_not_moved(const std::vector<Tensor>& params, const std::vector<Tensor>& stepped);
/// Returns the norm of the gradients, ignoring undefined ones; 0 without any.
double norm_of(const std::vector<Tensor>& gradients, double norm_type);
/// Returns the tensors that `params` refer to. Throws rpc::UsageError unless this worker owns them.
std::vector<Tensor> local_tensors(const std::vector<rpc::RRef<Tensor>>& params);
/// Returns the gradients of `params` in a context; undefined for a parameter without one. Returns an empty vector if
/// the context has no gradients here, or never reached this worker.
std::vector<Tensor> gradients_of(const autograd::Container& container, autograd::ContextId context,
                                 const std::vector<Tensor>& params);

/// An archive that replaces each tensor with a copy.
struct CopyTensors {
  template <class T>
  CopyTensors& operator&(T& member) {
    if constexpr (std::same_as<T, Tensor>) {
      if (member.defined()) member = member.detach().clone();
    }
    return *this;
  }
};

/// One owner's part of an optimizer's state, and the indices of its parameters and groups among all.
struct OwnerState {
  std::vector<std::size_t> params = {}, groups = {};
  std::vector<std::vector<std::size_t>> members = {};  // by group: parameters, in the owner's numbering
  NamedTensors entries = {};

  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    archive& params& groups& members& entries;
  }
};
using GroupMembers = std::vector<std::vector<std::size_t>>;  // the parameters of each group

/// Merges the state of all owners, under the names that one optimizer would use.
StateDict gathered_state(const std::vector<OwnerState>& owners, const GroupMembers& groups);
/// Returns the entries that one owner writes to its file. It writes the options only of the groups in `first_of`, those
/// of which it is the first owner.
StateDict written_state(const OwnerState& owner, const GroupMembers& groups, const std::vector<std::size_t>& first_of);
/// Returns the entries of `dict` that belong to the owner, in the owner's numbering.
NamedTensors state_for(const StateDict& dict, const OwnerState& owner);
/// Throws Error that lists the entries that do not fit an optimizer with these groups.
void check_state(const StateDict& dict, const GroupMembers& groups, const std::string& op);

/// Parameters of one owner that share options.
template <class Options>
struct OwnedGroup {
  std::vector<rpc::RRef<Tensor>> params = {};
  Options options = {};

  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    archive& params& options;
  }
};

template <LocallyConstructible O>
class LocalOptimizer {
 public:
  using Groups = std::vector<OwnedGroup<typename O::Options>>;

  LocalOptimizer(const Groups& groups, bool hogwild)
      : LocalOptimizer(groups, hogwild, autograd::Container::current()->census()) {}
  LocalOptimizer(const Groups& groups, bool hogwild, std::shared_ptr<Census> census)
      : census_(std::move(census)),
        hogwild_(hogwild),
        params_(all_tensors(groups)),
        stepped_(hogwild ? unversioned_of(params_) : params_),
        optimizer_(group_of(groups, 0), groups.at(0).options) {
    for (std::size_t i = 1; i < groups.size(); ++i) {
      if constexpr (requires { optimizer_.add_param_group({}); }) {
        optimizer_.add_param_group({group_of(groups, i), groups[i].options});
      } else {
        throw Error("DistributedOptimizer: this optimizer has no parameter groups");
      }
    }
    if (hogwild) census_->hogwild = true;
  }

  void step(autograd::ContextId context) { step_in(*autograd::Container::current(), context); }
  void step_in(const autograd::Container& container, autograd::ContextId context) {
    const std::vector<Tensor> gradients = gradients_of(container, context, params_);
    if (gradients.empty()) return;
    if (hogwild_) check_not_moved(params_, stepped_);
    const auto lock = step_lock(*census_);
    optimizer_.step(gradients);
  }

  void set_lr(double lr) {
    const auto lock = step_lock(*census_);
    optimizer_.set_lr(lr);
  }
  void set_group_lr(std::size_t group, double lr) {
    const auto lock = step_lock(*census_);
    optimizer_.set_lr(group, lr);
  }

  double norm(autograd::ContextId context, double norm_type) const {
    return norm_in(*autograd::Container::current(), context, norm_type);
  }
  double norm_in(const autograd::Container& container, autograd::ContextId context, double norm_type) const {
    return norm_of(gradients_of(container, context, params_), norm_type);
  }
  void scale(autograd::ContextId context, double factor) {
    autograd::Container::current()->scale_gradients(context, params_, factor);
  }
  const std::vector<Tensor>& params() const noexcept { return params_; }

  NamedTensors state_dict() const {
    const auto lock = step_lock(*census_);
    return entries_of(optimizer_.state_dict());
  }
  void load_state_dict(const NamedTensors& entries, bool check_only) {
    const auto lock = step_lock(*census_);
    optimizer_.load_state_dict(dict_of(entries), {.check_only = check_only});
  }
  void write_file(const PartFile& file, const OwnerState& where, const GroupMembers& groups,
                  const std::vector<std::size_t>& first_of) const {
    OwnerState mine = where;
    mine.entries = state_dict();
    write_part(file, written_state(mine, groups, first_of));
  }
  void read_file(const PartFile& file, const OwnerState& where, const GroupMembers& groups, bool check_only) {
    const StateDict dict = read_part(file);
    check_state(dict, groups, "load_checkpoint");
    load_state_dict(state_for(dict, where), check_only);
  }

  auto state(const rpc::RRef<Tensor>& param) const requires HasState<O> {
    const auto lock = step_lock(*census_);
    const Tensor& mine = param.local_value();
    const auto found =
        std::find_if(params_.begin(), params_.end(), [&](const Tensor& one) { return one.is_same(mine); });
    const bool is_one = found != params_.end();
    typename O::State state =
        optimizer_.state(is_one ? stepped_[static_cast<std::size_t>(found - params_.begin())] : mine);
    CopyTensors copies;  // the optimizer changes its state in place
    state.serialize(copies, 0);
    return state;
  }

 private:
  static std::vector<Tensor> all_tensors(const Groups& groups) {
    std::vector<Tensor> all;
    for (const auto& group : groups) {
      for (Tensor& tensor : local_tensors(group.params)) all.push_back(std::move(tensor));
    }
    return all;
  }
  static std::vector<Tensor> unversioned_of(const std::vector<Tensor>& params) {
    std::vector<Tensor> others;
    for (const Tensor& param : params) others.push_back(unversioned(param));
    return others;
  }
  std::vector<Tensor> group_of(const Groups& groups, std::size_t group) const {
    std::size_t begin = 0;
    for (std::size_t i = 0; i < group; ++i) begin += groups[i].params.size();
    const auto first = stepped_.begin() + static_cast<std::ptrdiff_t>(begin);
    return {first, first + static_cast<std::ptrdiff_t>(groups[group].params.size())};
  }

  const std::shared_ptr<Census> census_;
  const bool hogwild_;
  const std::vector<Tensor> params_, stepped_;  // stepped_: the tensors that the optimizer changes
  O optimizer_;
};

}  // namespace tendril::dist::detail

TENDRIL_API_END
