// Lists the references of a table for status reports.
#include <algorithm>

#include "tendril/rpc/reference/rref_table_impl.h"

namespace tendril::rpc {

std::vector<LiveReference> RRefTable::list() const {
  using State = LiveReference::State;
  std::vector<LiveReference> list;
  std::vector<std::shared_ptr<RRefState>> states;  // read and released without the lock
  {
    const std::lock_guard lock(mutex_);
    const Clock::time_point now = options_.clock();
    const auto worker = [this](WorkerId rank) {
      const auto found = sessions_.find(rank);
      return found == sessions_.end() ? WorkerInfo{"", rank} : found->second->peer;
    };
    for (const auto& [id, owned] : owned_) {
      if (!owned->forks.empty()) continue;
      list.push_back({.id = rref_text(id),
                      .owner = self_,
                      .state = owned->exists ? State::held : State::unconfirmed,
                      .age = now - owned->since});
      states.push_back(owned->state);
    }
    for (const auto& [fork, live] : forks_) {
      list.push_back(
          {.id = rref_text(live.rref), .owner = self_, .user = worker(live.holder), .age = now - live.since});
      const auto owned = owned_.find(live.rref);
      states.push_back(owned == owned_.end() ? nullptr : owned->second->state);
    }
    for (const auto& [fork, user] : users_) {
      list.push_back({.id = rref_text(user->rref),
                      .owner = worker(user->owner),
                      .user = self_,
                      .state = user->error     ? State::lost
                               : user->dropped ? State::released
                               : user->known   ? State::held
                                               : State::unconfirmed,
                      .age = now - user->since});
      states.push_back(nullptr);
    }
  }
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (states[i]) list[i].type = states[i]->object_type();
  }
  std::sort(list.begin(), list.end(), [](const auto& a, const auto& b) { return a.age > b.age; });
  return list;
}

}  // namespace tendril::rpc
