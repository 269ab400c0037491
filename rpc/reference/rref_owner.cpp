// The owner's side: objects of this worker and their users on other workers.
#include <utility>

#include "tendril/rpc/reference/rref_table_impl.h"

namespace tendril::rpc {

namespace {
/// Limit on references that were mentioned but not created, so that a faulty peer cannot grow the table without bound.
constexpr std::size_t kMaxAwaited = 1 << 16;
}  // namespace

std::shared_ptr<RRefState> RRefTable::make_owner() {
  const std::lock_guard lock(mutex_);
  TENDRIL_CHECK_AS(RRefError, !closed_, "RRef: worker '", self_.name, "' has shut down");
  RRefId id;
  id.worker = self_.id;
  id.incarnation = incarnation_;
  id.number = rref_number(self_.id, ++last_rref_[self_.id]);
  return host_->new_owner_state(id);
}

/// Whether the call that creates the object may still arrive. Only then can a live worker mention a reference that is
/// not known here; otherwise all workers that held the reference are gone.
bool RRefTable::may_still_be_created(const RRefId& id) {
  Session* creator = session_of(id.worker, id.incarnation);
  if (!creator || rref_owner(id) != self_.id || rref_counter(id) < creator->first_creation ||
      creator->creations.seen(rref_counter(id)) || awaited_.size() >= kMaxAwaited) {
    return false;
  }
  // The creation may have been lost with an earlier session, which the creator may not even know has ended.
  if (creator->follows && !std::exchange(creator->asked_creations, true)) queue_creations_from(*creator);
  return true;
}

RRefTable::Owned& RRefTable::own(const RRefId& id) {
  const auto found = owned_.find(id);
  if (found != owned_.end()) return *found->second;
  auto made = std::make_unique<Owned>();
  made->state = host_->new_owner_state(id);
  made->since = options_.clock();
  awaited_.insert(id);
  try {
    return *owned_.emplace(id, std::move(made)).first->second;
  } catch (...) {
    awaited_.erase(id);
    throw;
  }
}

void RRefTable::add_fork(Owned& owned, const RRefId& id, const ForkId& fork, Session& holder) {
  try {
    owned.forks.insert(fork);
    forks_[fork] = {id, holder.peer.id, options_.clock()};
    holder.held.insert(fork);
  } catch (...) {
    owned.forks.erase(fork);
    forks_.erase(fork);
    throw;
  }
}

void RRefTable::remove_fork(const ForkId& fork, WorkerId holder, Effects& effects) {
  const auto found = forks_.find(fork);
  if (found == forks_.end() || found->second.holder != holder) return;
  const RRefId id = found->second.rref;
  forks_.erase(found);
  if (Session* session = session_of(holder)) session->held.erase(fork);
  if (const auto owned = owned_.find(id); owned != owned_.end()) owned->second->forks.erase(fork);
  drop_if_unused(id, effects);
}

void RRefTable::drop_if_unused(const RRefId& id, Effects& effects) {
  const auto found = owned_.find(id);
  if (found == owned_.end()) return;
  Owned& owned = *found->second;
  if (!owned.forks.empty() || !owned.requests.empty() || !owned.waiting.empty()) return;
  effects.released.push_back(std::move(owned.state));
  awaited_.erase(id);
  owned_.erase(found);
}

/// Returns the object that a call is made on. Null if the caller does not hold the fork that it names, or not yet.
std::shared_ptr<RRefState> RRefTable::called(const Session& from, const ForkDescriptor& receiver) const {
  const auto fork = forks_.find(receiver.fork_id);
  if (fork == forks_.end() || fork->second.holder != from.peer.id || fork->second.rref != receiver.rref) return nullptr;
  const auto owned = owned_.find(receiver.rref);
  return owned == owned_.end() ? nullptr : owned->second->state;
}

void RRefTable::fork_requested(Session& from, const RRefId& id, const ForkId& fork) {
  TENDRIL_CHECK_AS(MessageError, !forks_.contains(fork), "bad control message: a second request for a fork of ",
                   rref_text(id));
  const auto found = owned_.find(id);
  if (found != owned_.end() && found->second->exists) {
    add_fork(*found->second, id, fork, from);
    say(from, {.kind = ControlRecord::fork_accept, .rref = id, .fork = fork});
  } else if (may_still_be_created(id)) {
    own(id).requests.emplace_back(fork, from.peer.id);
  } else {
    say(from, {.kind = ControlRecord::fork_lost, .rref = id, .fork = fork});
  }
}

void RRefTable::deleted(Session& from, const RRefId& id, const ForkId& fork, Effects& effects) {
  remove_fork(fork, from.peer.id, effects);
  const auto found = owned_.find(id);
  if (found == owned_.end()) return;
  std::erase(found->second->requests, std::pair(fork, from.peer.id));
  drop_if_unused(id, effects);
}

/// Handles a creating call that has arrived or will never be served: answers the fork requests and decides the messages
/// that wait for it. Returns null if the creation is already known.
std::shared_ptr<RRefState> RRefTable::created(Session& from, const RRefId& id, const ForkId& fork, Effects& effects) {
  if (!from.creations.admit(rref_counter(id))) return nullptr;
  Owned& owned = own(id);
  owned.exists = true;
  awaited_.erase(id);
  add_fork(owned, id, fork, from);
  for (const auto& [request, holder] : std::exchange(owned.requests, {})) {
    Session* session = session_of(holder);
    if (session && !forks_.contains(request)) {
      add_fork(owned, id, request, *session);
      say(*session, {.kind = ControlRecord::fork_accept, .rref = id, .fork = request});
    }
  }
  decided(owned.waiting, nullptr, effects);
  return owned.state;
}

/// Releases the references that a lost worker held, and fails those that it was going to create.
void RRefTable::holder_lost(Session& session, Effects& effects) {
  const WorkerId worker = session.peer.id;
  for (const ForkId& fork : std::exchange(session.held, {})) remove_fork(fork, worker, effects);

  for (const RRefId& id : std::vector<RRefId>(awaited_.begin(), awaited_.end())) {
    Owned& owned = *owned_.at(id);
    std::erase_if(owned.requests, [&](const auto& request) { return request.second == worker; });
    drop_if_unused(id, effects);
  }
  session.first_creation = UINT64_MAX;
  fail_lost_creations(session, "the worker is gone", effects);
}

/// Fails creations of a peer that will never arrive, those numbered below its first_creation, and everything that waits
/// for them.
void RRefTable::fail_lost_creations(Session& creator, const std::string& why, Effects& effects) {
  for (const RRefId& id : std::vector<RRefId>(awaited_.begin(), awaited_.end())) {
    if (id.worker != creator.peer.id || id.incarnation != creator.incarnation ||
        rref_counter(id) >= creator.first_creation) {
      continue;
    }
    Owned& owned = *owned_.at(id);
    for (const auto& [request, holder] : std::exchange(owned.requests, {})) {
      if (Session* session = session_of(holder)) {
        say(*session, {.kind = ControlRecord::fork_lost, .rref = id, .fork = request});
      }
    }
    const std::exception_ptr error = rref_error("reference_lost: the call of worker '" + creator.peer.name +
                                                "' that creates the object never arrived: " + why);
    effects.failed.emplace_back(owned.state, error);
    decided(owned.waiting, error, effects);
    drop_if_unused(id, effects);
  }
}

}  // namespace tendril::rpc
