#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <variant>

#include "tendril/dist/detail/named_tensors.h"
#include "tendril/dist/optimizer.h"
#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::dist {

namespace detail {

Tensor members(const std::vector<std::size_t>& of);
double joined_norm(const std::vector<double>& norms, double norm_type);
/// Returns the message of `error`, without the worker's name that a RemoteError begins with.
std::string reason_of(const std::exception_ptr& error);
[[noreturn]] void throw_failures(const std::string& op, std::vector<OptimizerError::Failure> failures,
                                 std::size_t owners);
void check_known(const autograd::Container& container, autograd::ContextId context, const std::string& op);

}  // namespace detail

template <detail::LocallyConstructible O>
DistributedOptimizer<O>::DistributedOptimizer(OfGroups, rpc::Agent& agent, const std::vector<Group>& groups,
                                              const DistributedOptimizerOptions& options)
    : container_(autograd::Container::of(agent)) {
  std::map<rpc::WorkerId, std::pair<Owner, typename Local::Groups>> by_rank;
  std::size_t number = 0;
  for (const Group& group : groups) {
    TENDRIL_CHECK(!group.params.empty(), name(), ": params: got an empty list, expected at least one parameter");
    lrs_.push_back(group.options.lr);
    groups_.emplace_back();
    for (std::size_t i = 0; i < group.params.size(); ++i, ++number) {
      const rpc::RRef<Tensor>& param = group.params[i];
      TENDRIL_CHECK(param, name(), ": params[", i, "] refers to nothing");
      groups_.back().push_back(number);
      auto& [owner, owned] = by_rank[param.owner().id];
      owner.worker = param.owner();
      if (owner.where.groups.empty() || owner.where.groups.back() != lrs_.size() - 1) {
        owner.where.groups.push_back(lrs_.size() - 1);
        owner.where.members.emplace_back();
        owned.push_back({{}, group.options});
      }
      owner.where.members.back().push_back(owner.where.params.size());
      owner.where.params.push_back(number);
      owned.back().params.push_back(param);
    }
  }
  TENDRIL_CHECK(!by_rank.empty(), name(), ": groups: got none, expected at least one");
  const detail::Unrecorded scope;
  std::vector<std::exception_ptr> errors;  // for example of an unconnected owner; the others are asked nevertheless
  for (auto& [rank, of_owner] : by_rank) {
    owners_.push_back(of_owner.first);
    errors.emplace_back();
    try {
      const auto& owned = of_owner.second;
      if (!owned[0].params[0].is_owner()) {
        owners_.back().there = rpc::remote<Local>(agent, owners_.back().worker, owned, options.hogwild);
      }
    } catch (...) {
      errors.back() = std::current_exception();
    }
  }
  for (std::size_t i = 0; i < owners_.size(); ++i) {  // while the other owners construct theirs
    const auto& owned = by_rank.at(owners_[i].worker.id).second;
    if (!owned[0].params[0].is_owner()) continue;
    try {
      owners_[i].here = std::make_shared<Local>(owned, options.hogwild, container_->census());
    } catch (...) {
      errors[i] = std::current_exception();
    }
  }
  std::vector<OptimizerError::Failure> failures;
  for (std::size_t i = 0; i < owners_.size(); ++i) {
    Owner& owner = owners_[i];
    try {
      if (errors[i]) std::rethrow_exception(errors[i]);
      if (!owner.here) owner.there.state_pointer()->settled().wait();
    } catch (...) {
      failures.push_back({owner.worker, detail::reason_of(std::current_exception())});
    }
  }
  if (!failures.empty()) detail::throw_failures(name(), std::move(failures), owners_.size());
}

template <detail::LocallyConstructible O>
template <class R, class Ask, class DoHere>
std::vector<R> DistributedOptimizer<O>::on_every_owner(const char* what, Ask ask, DoHere do_here) const {
  const detail::Unrecorded scope;
  using Result = decltype(ask(owners_[0]));
  std::vector<Result> answers(owners_.size());
  std::vector<R> results(owners_.size());
  std::vector<std::exception_ptr> errors(owners_.size());
  const auto each = [&](bool here, const auto& f) {
    for (std::size_t i = 0; i < owners_.size(); ++i) {
      if ((owners_[i].here != nullptr) != here || errors[i]) continue;
      try {
        f(i);
      } catch (...) {
        errors[i] = std::current_exception();
      }
    }
  };
  each(false, [&](std::size_t i) { answers[i] = ask(owners_[i]); });
  each(true, [&](std::size_t i) {  // while the other owners work
    if constexpr (std::is_same_v<R, std::monostate>) {
      do_here(owners_[i]);
    } else {
      results[i] = do_here(owners_[i]);
    }
  });
  each(false, [&](std::size_t i) {
    if constexpr (std::is_same_v<R, std::monostate>) {
      if (answers[i].valid()) answers[i].wait();
    } else {
      results[i] = std::move(answers[i]).wait();
    }
  });
  std::vector<OptimizerError::Failure> failures;
  for (std::size_t i = 0; i < owners_.size(); ++i) {
    if (errors[i]) failures.push_back({owners_[i].worker, detail::reason_of(errors[i])});
  }
  if (!failures.empty()) detail::throw_failures(name() + "::" + what, std::move(failures), owners_.size());
  return results;
}

template <detail::LocallyConstructible O>
void DistributedOptimizer<O>::step(autograd::ContextId context, const StepOptions& options) {
  detail::check_known(*container_, context, name() + "::step");
  const rpc::CallOptions call{.timeout = options.timeout};
  on_every_owner<std::monostate>(
      "step", [&](const Owner& owner) { return owner.there.template rpc_async<&Local::step>(call, context); },
      [&](const Owner& owner) { owner.here->step_in(*container_, context); });
}

template <detail::LocallyConstructible O>
double DistributedOptimizer<O>::lr(std::size_t group) const {
  const std::lock_guard lock(mutex_);
  TENDRIL_CHECK_AS(IndexError, group < lrs_.size(), name(), "::lr: group ", group, " of ", lrs_.size());
  return lrs_[group];
}

template <detail::LocallyConstructible O>
void DistributedOptimizer<O>::set_lr(double lr) {
  on_every_owner<std::monostate>(
      "set_lr", [&](const Owner& owner) { return owner.there.template rpc_async<&Local::set_lr>(lr); },
      [&](const Owner& owner) { owner.here->set_lr(lr); });
  const std::lock_guard lock(mutex_);
  for (double& one : lrs_) one = lr;
}

template <detail::LocallyConstructible O>
void DistributedOptimizer<O>::set_lr(std::size_t group, double lr) {
  TENDRIL_CHECK_AS(IndexError, group < groups_.size(), name(), "::set_lr: group ", group, " of ", groups_.size());
  const auto local = [&](const Owner& owner) -> std::optional<std::size_t> {
    const auto& has = owner.where.groups;
    const auto found = std::find(has.begin(), has.end(), group);
    return found == has.end() ? std::nullopt : std::optional(static_cast<std::size_t>(found - has.begin()));
  };
  on_every_owner<std::monostate>(
      "set_lr",
      [&](const Owner& owner) {
        const auto at = local(owner);
        return at ? owner.there.template rpc_async<&Local::set_group_lr>(*at, lr) : rpc::Future<void>();
      },
      [&](const Owner& owner) {
        if (const auto at = local(owner)) owner.here->set_group_lr(*at, lr);
      });
  const std::lock_guard lock(mutex_);
  lrs_[group] = lr;
}

template <detail::LocallyConstructible O>
double DistributedOptimizer<O>::clip_grad_norm_(const autograd::Context& given, double max_norm, double norm_type) {
  TENDRIL_CHECK(max_norm >= 0, name(), "::clip_grad_norm_: max_norm: got ", max_norm,
                ", expected a number of 0 or more");
  TENDRIL_CHECK(norm_type > 0, name(), "::clip_grad_norm_: norm_type: got ", norm_type, ", expected a positive number");
  const autograd::ContextId context = given.id();
  detail::check_known(*container_, context, name() + "::clip_grad_norm_");
  const double norm = detail::joined_norm(
      on_every_owner<double>(
          "clip_grad_norm_",
          [&](const Owner& owner) { return owner.there.template rpc_async<&Local::norm>(context, norm_type); },
          [&](const Owner& owner) { return owner.here->norm_in(*container_, context, norm_type); }),
      norm_type);
  const double factor = max_norm / (norm + 1e-6);
  if (!(factor < 1)) return norm;
  on_every_owner<std::monostate>(
      "clip_grad_norm_",
      [&](const Owner& owner) { return owner.there.template rpc_async<&Local::scale>(context, factor); },
      [&](const Owner& owner) { container_->scale_gradients(context, owner.here->params(), factor); });
  return norm;
}

template <detail::LocallyConstructible O>
StateDict DistributedOptimizer<O>::state_dict() const {
  const auto entries = on_every_owner<detail::NamedTensors>(
      "state_dict", [&](const Owner& owner) { return owner.there.template rpc_async<&Local::state_dict>(); },
      [&](const Owner& owner) { return owner.here->state_dict(); });
  std::vector<detail::OwnerState> states;
  for (std::size_t i = 0; i < owners_.size(); ++i) {
    states.push_back(owners_[i].where);
    states.back().entries = entries[i];
  }
  return detail::gathered_state(states, groups_);
}

template <detail::LocallyConstructible O>
void DistributedOptimizer<O>::load_state_dict(const StateDict& dict, const LoadOptions& options) {
  TENDRIL_CHECK(options.strict, name(), "::load_state_dict: options.strict: got false, expected true");
  detail::check_state(dict, groups_, name() + "::load_state_dict");
  for (const bool check_only : {true, false}) {  // all owners check before any of them changes anything
    if (!check_only && options.check_only) return;
    on_every_owner<std::monostate>(
        "load_state_dict",
        [&](const Owner& owner) {
          return owner.there.template rpc_async<&Local::load_state_dict>(detail::state_for(dict, owner.where),
                                                                         check_only);
        },
        [&](const Owner& owner) { owner.here->load_state_dict(detail::state_for(dict, owner.where), check_only); });
  }
  note_rates(dict);
}

template <detail::LocallyConstructible O>
void DistributedOptimizer<O>::note_rates(const StateDict& dict) {
  const std::lock_guard lock(mutex_);
  for (std::size_t group = 0; group < lrs_.size(); ++group) {
    if (const Tensor* const lr = dict.find("param_groups." + std::to_string(group) + ".lr")) {
      lrs_[group] = lr->to(kFloat64).template item<double>();
    }
  }
}

template <detail::LocallyConstructible O>
void DistributedOptimizer<O>::write_files(const detail::PartFile& first) const {
  std::vector<detail::PartFile> files(owners_.size(), first);
  std::vector<std::vector<std::size_t>> first_of(owners_.size());  // the groups whose options each owner writes
  std::vector<bool> written(groups_.size());
  for (std::size_t i = 0; i < owners_.size(); ++i) {
    files[i].rank += static_cast<int>(i);
    for (const std::size_t group : owners_[i].where.groups) {
      if (!written[group]) first_of[i].push_back(group);
      written[group] = true;
    }
  }
  const auto at = [&](const Owner& owner) { return static_cast<std::size_t>(&owner - owners_.data()); };
  on_every_owner<std::monostate>(
      "save",
      [&](const Owner& owner) {
        return owner.there.template rpc_async<&Local::write_file>(files[at(owner)], owner.where, groups_,
                                                                  first_of[at(owner)]);
      },
      [&](const Owner& owner) { owner.here->write_file(files[at(owner)], owner.where, groups_, first_of[at(owner)]); });
}

template <detail::LocallyConstructible O>
void DistributedOptimizer<O>::read_files(const detail::PartFile& file, bool check_only) {
  on_every_owner<std::monostate>(
      "load",
      [&](const Owner& owner) {
        return owner.there.template rpc_async<&Local::read_file>(file, owner.where, groups_, check_only);
      },
      [&](const Owner& owner) { owner.here->read_file(file, owner.where, groups_, check_only); });
  if (!check_only) note_rates(detail::read_part(file));
}

template <detail::LocallyConstructible O>
auto DistributedOptimizer<O>::state(const rpc::RRef<Tensor>& param) const requires detail::HasState<O> {
  const detail::Unrecorded scope;
  for (const Owner& owner : owners_) {
    if (owner.worker.id != param.owner().id) continue;
    if (owner.here != nullptr) return owner.here->state(param);
    return owner.there.template rpc_sync<&Local::state>(param);
  }
  throw Error(name() + "::state: worker '" + param.owner_name() + "' holds none of the optimizer's parameters");
}

template <detail::LocallyConstructible O>
std::vector<rpc::WorkerInfo> DistributedOptimizer<O>::owners() const {
  std::vector<rpc::WorkerInfo> workers;
  for (const Owner& owner : owners_) workers.push_back(owner.worker);
  return workers;
}

}  // namespace tendril::dist

TENDRIL_API_END
