// The user's side: references of this worker to objects of other workers, and messages that contain them.
#include <algorithm>
#include <utility>

#include "tendril/rpc/reference/rref_table_impl.h"

namespace tendril::rpc {

namespace {
/// Number of replies remembered for each session, because a reply may arrive twice while its call is still parked.
constexpr std::size_t kRecentReplies = 64;
}  // namespace

std::shared_ptr<RRefState> RRefTable::make_user(WorkerId owner) {
  const std::lock_guard lock(mutex_);
  const Session* session = session_of(owner);
  TENDRIL_CHECK_AS(RRefError, session, "RRef: rank ", owner, " is not connected, so no object can be created there");
  RRefId id;
  id.worker = self_.id;
  id.incarnation = incarnation_;
  id.number = rref_number(owner, ++last_rref_[owner]);
  ForkId fork;
  fork.worker = self_.id;
  fork.incarnation = incarnation_;
  fork.number = ++last_fork_;
  auto state = new_user(id, *session, fork);
  users_.at(fork)->created_here = true;
  return state;
}

std::shared_ptr<RRefState> RRefTable::new_user(const RRefId& id, const Session& owner, const ForkId& fork) {
  auto user = std::make_unique<User>();
  user->rref = id;
  user->owner = owner.peer.id;
  user->owner_incarnation = owner.incarnation;
  user->since = options_.clock();
  auto state = host_->new_user_state(id, owner.peer, fork);
  user->state = state;
  users_.emplace(fork, std::move(user));
  return state;
}

void RRefTable::released(const ForkId& fork) noexcept {
  Event event(*this);
  const auto found = users_.find(fork);
  if (found == users_.end()) return;
  no_longer_asked(*found->second);
  try {
    release(*found->second, fork);
  } catch (const std::bad_alloc&) {
    found->second->unreleased = has_pending_releases_ = true;
  }
}

/// Notifies the owner and erases the user. Has no effect if it throws.
void RRefTable::release(User& user, const ForkId& fork) {
  Session* owner = session_of(user.owner, user.owner_incarnation);
  if (owner && !user.error) {
    if (user.created_here && user.sent && !user.known) {
      // The creation may still be in transit. A deletion that overtook it would leak the object.
      user.dropped = true;
      return;
    }
    make_room(*owner);
    if (user.created_here && !user.sent) {
      say(*owner, {.kind = ControlRecord::creation_cancelled, .rref = user.rref, .fork = fork});
    }
    say(*owner, {.kind = ControlRecord::fork_delete, .rref = user.rref, .fork = fork});
  }
  users_.erase(fork);
}

/// Retries the releases that ran out of memory.
void RRefTable::retry_releases() {
  if (!has_pending_releases_) return;
  std::vector<ForkId> again;
  for (const auto& [fork, user] : users_)
    if (user->unreleased) again.push_back(fork);
  for (const ForkId& fork : again) release(*users_.at(fork), fork);
  has_pending_releases_ = false;
}

void RRefTable::accepted(Session& from, const ForkId& fork, Effects& effects) {
  const auto found = users_.find(fork);
  if (found == users_.end()) return;  // dropped meanwhile; the owner has been notified
  User& user = *found->second;
  if (user.owner != from.peer.id || user.owner_incarnation != from.incarnation || user.known || user.error) return;
  user.known = true;
  no_longer_asked(user);
  if (auto state = user.state.lock()) effects.confirmed.push_back(std::move(state));
  decided(user.waiting, nullptr, effects);
}

void RRefTable::no_longer_asked(User& user) noexcept {
  if (!std::exchange(user.asked, false)) return;
  if (Session* owner = session_of(user.owner, user.owner_incarnation)) --owner->asked;
}

/// Makes the reference unusable, even if handles to it are left.
void RRefTable::lose(User& user, const std::exception_ptr& error, Effects& effects) {
  if (user.error) return;
  no_longer_asked(user);
  user.error = error;
  if (auto state = user.state.lock()) effects.failed.emplace_back(std::move(state), error);
  decided(user.waiting, error, effects);
}

void RRefTable::owner_lost(Session& session, const std::exception_ptr& error, Effects& effects) {
  std::erase_if(users_, [&](const auto& entry) {
    User& user = *entry.second;
    if (user.owner != session.peer.id || user.owner_incarnation != session.incarnation) return false;
    lose(user, error, effects);
    return user.dropped || user.unreleased;
  });
}

/// Resumes a call on an object that its caller holds, without other references. Most calls on objects are like this:
/// there is nothing to decide and no record to send.
bool RRefTable::resume_at_once(const WorkerInfo& from, ParkedMessage& parked) noexcept {
  Message& message = parked.message;
  if (message.kind != MessageKind::request || message.forks.empty() || brings_references(message.forks)) return false;
  {
    const std::lock_guard lock(mutex_);
    const Session* const sender = session_of(from.id);
    auto state = sender ? called(*sender, message.forks.front()) : nullptr;
    if (!state) return false;
    message.references.push_back(std::move(state));
  }
  parked.resume(std::move(message));
  return true;
}

void RRefTable::message_arrived(const WorkerInfo& from, std::unique_ptr<ParkedMessage> parked) noexcept {
  if (resume_at_once(from, *parked)) return;
  Event event(*this);
  Session* sender = session_of(from.id);
  auto arrival = std::make_shared<Arrival>();
  Message& message = parked->message;
  if (sender && message.kind == MessageKind::reply) {
    auto& recent = sender->recent_replies;
    if (std::find(recent.begin(), recent.end(), message.call_id) != recent.end()) {
      event.effects.ignored.push_back(std::move(parked));
      return;
    }
    recent.push_back(message.call_id);
    if (recent.size() > kRecentReplies) recent.pop_front();
  }
  arrival->parked = std::move(parked);
  arrival->from = from.id;
  if (!sender) {
    arrival->error = std::make_exception_ptr(PeerLostError("worker '" + from.name + "' is gone", true));
    return finish(arrival, event.effects);
  }
  arrival->session = sender->serial;
  for (const ForkDescriptor& fork : message.forks) {
    // A lost reference makes the message unusable, but the other references are still accepted, and then dropped.
    try {
      check_descriptor(*sender, message, fork);
      message.references.push_back(arrived_fork(*sender, fork, arrival, event.effects));
    } catch (...) {
      if (!arrival->error) arrival->error = std::current_exception();
    }
  }
  if (message.kind == MessageKind::request && message.timeout_us > 0 && arrival->missing > 1) {
    arrival->deadline =
        deadline_after(std::chrono::duration<uint64_t, std::micro>(message.timeout_us), options_.clock());
    arrival->number = ++last_arrival_;
    expiring_.emplace(std::pair(arrival->deadline, arrival->number), arrival.get());
  }
  finish(arrival, event.effects);
}

void RRefTable::check_descriptor(const Session& from, const Message& message, const ForkDescriptor& fork) const {
  const auto check = [&](bool good, const char* what) {
    TENDRIL_CHECK_AS(MessageError, good, "bad reference from worker '", from.peer.name, "': ", what);
  };
  if (fork.kind == ForkDescriptor::receiver) {
    check(message.kind == MessageKind::request && &fork == &message.forks.front(),
          "a call's object is not the first reference of a request");
    check(fork.owner == self_.id && fork.owner_incarnation == incarnation_,
          "a call on an object arrived at a worker that does not own it");
    return;
  }
  check(fork.fork_id.worker == from.peer.id && fork.fork_id.incarnation == from.incarnation,
        "its fork was made by another worker");
  check(!users_.contains(fork.fork_id) && !forks_.contains(fork.fork_id), "its fork is in use already");
  check(fork.owner != self_.id || fork.owner_incarnation == incarnation_, "its owner is an earlier run of this worker");
  if (fork.kind == ForkDescriptor::create) {
    check(message.kind == MessageKind::request && (message.flags & kCreatesReference) != 0,
          "it is marked as new in a message that creates no object");
    check(fork.owner == self_.id && rref_owner(fork.rref) == self_.id && fork.rref.worker == from.peer.id &&
              fork.rref.incarnation == from.incarnation,
          "it is marked as new, but its owner or creator is wrong");
  }
}

std::shared_ptr<RRefState> RRefTable::arrived_fork(Session& from, const ForkDescriptor& fork,
                                                   const std::shared_ptr<Arrival>& arrival, Effects& effects) {
  if (fork.kind == ForkDescriptor::create) {
    auto state = created(from, fork.rref, fork.fork_id, effects);
    TENDRIL_CHECK_AS(MessageError, state, "bad reference from worker '", from.peer.name,
                     "': it has already been created");
    return lend_for_creation(std::move(state));
  }

  if (fork.kind == ForkDescriptor::receiver) {
    if (auto state = called(from, fork)) return state;
    // Only the creator can have a fork that is not known here, because its creating call may still arrive.
    const bool creator = fork.rref.worker == from.peer.id && fork.rref.incarnation == from.incarnation;
    TENDRIL_CHECK_AS(RRefError, creator && may_still_be_created(fork.rref), "reference_lost: worker '", from.peer.name,
                     "' does not hold ", rref_text(fork.rref), " of worker '", self_.name, "'");
    Owned& owned = own(fork.rref);
    owned.waiting.push_back(arrival);
    ++arrival->missing;
    return owned.state;
  }

  if (fork.owner == self_.id) {
    const auto found = owned_.find(fork.rref);
    if (found != owned_.end() && found->second->exists) return found->second->state;
    if (!may_still_be_created(fork.rref)) {
      throw RRefError("reference_lost: " + rref_text(fork.rref) + " of worker '" + self_.name +
                      "' is gone: the worker that held it has died");
    }
    Owned& owned = own(fork.rref);
    owned.waiting.push_back(arrival);
    ++arrival->missing;
    return owned.state;
  }

  if (Session* owner = session_of(fork.owner, fork.owner_incarnation)) {
    auto state = new_user(fork.rref, *owner, fork.fork_id);
    User& user = *users_.at(fork.fork_id);
    if (owner == &from) {
      user.known = true;  // the owner made this fork itself
      effects.confirmed.push_back(state);
    } else {
      make_room(*owner);
      user.waiting.push_back(arrival);
      ++arrival->missing;
      user.asked = true;
      ++owner->asked;
      say(*owner, {.kind = ControlRecord::fork_request, .rref = fork.rref, .fork = fork.fork_id});
    }
    return state;
  }
  throw RRefError("owner_lost: " + rref_text(fork.rref) + " is owned by rank " + std::to_string(fork.owner) +
                  ", which is no longer connected");
}

}  // namespace tendril::rpc
