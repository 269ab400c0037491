#pragma once

#include <map>
#include <utility>

#include "tendril/dist/detail/named_tensors.h"
#include "tendril/dist/optimizer.h"

namespace tendril::dist {

namespace detail {

/// The parameters of each owner, by rank. Throws Error for none, or for a reference to nothing.
std::map<rpc::WorkerId, std::vector<rpc::RRef<Tensor>>> by_owner(const std::vector<rpc::RRef<Tensor>>& params,
                                                                 const std::string& op);
/// What `error` says, without the worker's name that a RemoteError begins with.
std::string reason_of(const std::exception_ptr& error);
[[noreturn]] void throw_failures(const std::string& op, std::vector<OptimizerError::Failure> failures,
                                 std::size_t owners);
void check_known(const autograd::Container& container, autograd::ContextId context, const std::string& op);

}  // namespace detail

template <detail::LocallyConstructible O>
DistributedOptimizer<O>::DistributedOptimizer(rpc::Agent& agent, const std::vector<rpc::RRef<Tensor>>& params,
                                              const Options& options)
    : container_(autograd::Container::of(agent)), lr_(options.lr) {
  const auto grouped = detail::by_owner(params, name());
  const detail::Unrecorded scope;
  std::vector<std::exception_ptr> not_asked;  // one that is not connected, say: the others are asked all the same
  for (const auto& [rank, owned] : grouped) {
    const rpc::WorkerInfo& worker = owned[0].owner();
    owners_.push_back({worker, nullptr, {}});
    not_asked.emplace_back();
    try {
      if (!owned[0].is_owner()) owners_.back().there = rpc::remote<Local>(agent, worker, owned, options);
    } catch (...) {
      not_asked.back() = std::current_exception();
    }
  }
  std::vector<OptimizerError::Failure> failures;
  for (std::size_t i = 0; i < owners_.size(); ++i) {
    Owner& owner = owners_[i];
    try {
      if (not_asked[i]) std::rethrow_exception(not_asked[i]);
      const auto& owned = grouped.at(owner.worker.id);
      if (owned[0].is_owner()) {
        owner.here = std::make_shared<Local>(owned, options);
      } else {
        owner.there.state_pointer()->settled().wait();
      }
    } catch (...) {
      failures.push_back({owner.worker, detail::reason_of(std::current_exception())});
    }
  }
  if (!failures.empty()) detail::throw_failures(name(), std::move(failures), owners_.size());
}

template <detail::LocallyConstructible O>
template <class Ask, class DoHere>
void DistributedOptimizer<O>::on_every_owner(const char* what, Ask ask, DoHere do_here) const {
  const detail::Unrecorded scope;
  std::vector<rpc::Future<void>> answers(owners_.size());
  std::vector<std::exception_ptr> not_asked(owners_.size());
  for (std::size_t i = 0; i < owners_.size(); ++i) {
    try {
      if (owners_[i].here == nullptr) answers[i] = ask(owners_[i].there);
    } catch (...) {
      not_asked[i] = std::current_exception();
    }
  }
  std::vector<OptimizerError::Failure> failures;
  for (std::size_t i = 0; i < owners_.size(); ++i) {
    try {
      if (not_asked[i]) std::rethrow_exception(not_asked[i]);
      if (owners_[i].here != nullptr) {
        do_here(*owners_[i].here);
      } else {
        answers[i].wait();
      }
    } catch (...) {
      failures.push_back({owners_[i].worker, detail::reason_of(std::current_exception())});
    }
  }
  if (!failures.empty()) detail::throw_failures(name() + "::" + what, std::move(failures), owners_.size());
}

template <detail::LocallyConstructible O>
void DistributedOptimizer<O>::step(autograd::ContextId context, const StepOptions& options) {
  detail::check_known(*container_, context, name() + "::step");
  const rpc::CallOptions call{.timeout = options.timeout};
  on_every_owner(
      "step", [&](const rpc::RRef<Local>& there) { return there.template rpc_async<&Local::step>(call, context); },
      [&](Local& here) { here.step_in(*container_, context); });
}

template <detail::LocallyConstructible O>
double DistributedOptimizer<O>::lr() const {
  const std::lock_guard lock(mutex_);
  return lr_;
}

template <detail::LocallyConstructible O>
void DistributedOptimizer<O>::set_lr(double lr) {
  on_every_owner(
      "set_lr", [&](const rpc::RRef<Local>& there) { return there.template rpc_async<&Local::set_lr>(lr); },
      [&](Local& here) { here.set_lr(lr); });
  const std::lock_guard lock(mutex_);
  lr_ = lr;
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
