// References in transit, from the sending of a message until its receiver confirms or rejects it.
#include "tendril/rpc/reference/rref_table_impl.h"

namespace tendril::rpc {

/// Checks a reference before anything is changed, so that a message is sent with all its references or not at all.
/// Returns true for the reference that the message creates.
bool RRefTable::check_leaving(const Session& to, const Message& message, const RRefState& state) const {
  if (state.is_owner()) {
    TENDRIL_CHECK_AS(RRefError, state.owner().id == self_.id, rref_text(state.id()), " belongs to another agent, '",
                     state.owner().name, "', not to '", self_.name, "'");
    return false;
  }
  const auto found = users_.find(state.fork());
  TENDRIL_CHECK_AS(RRefError, found != users_.end(), rref_text(state.id()), " is not a reference of worker '",
                   self_.name, "'");
  const User& user = *found->second;
  if (user.error) std::rethrow_exception(user.error);
  if (user.created_here && !user.sent) {
    TENDRIL_CHECK_AS(RRefError,
                     message.kind == MessageKind::request && (message.flags & kCreatesReference) != 0 &&
                         user.owner == to.peer.id && user.owner_incarnation == to.incarnation,
                     rref_text(state.id()), " is to be created on rank ", user.owner,
                     "; it cannot be sent before its creating call");
    return true;
  }
  if (const std::exception_ptr error = state.failure()) {
    std::rethrow_exception(error);  // its creation failed
  }
  return false;
}

/// Whether a call to `to` may use this reference as its object: it is a fork of an object that `to` owns.
bool RRefTable::leads_to(const Session& to, const RRefState& state) const {
  const auto found = users_.find(state.fork());
  return !state.is_owner() && found != users_.end() && found->second->owner == to.peer.id &&
         found->second->owner_incarnation == to.incarnation;
}

ForkDescriptor RRefTable::fork(Session& to, const std::shared_ptr<RRefState>& state, Transfer& transfer) {
  ForkDescriptor fork;
  fork.rref = state->id();
  fork.fork_id.worker = self_.id;
  fork.fork_id.incarnation = incarnation_;
  ++transfer.forks;
  if (state->is_owner()) {
    fork.owner = self_.id;
    fork.owner_incarnation = incarnation_;
    fork.fork_id.number = ++last_fork_;
    auto owned = owned_.find(fork.rref);
    if (owned == owned_.end()) {
      auto made = std::make_unique<Owned>();
      made->state = state;
      made->since = options_.clock();
      owned = owned_.emplace(fork.rref, std::move(made)).first;
    }
    owned->second->exists = true;
    transfer.registered.push_back(fork.fork_id);
    add_fork(*owned->second, fork.rref, fork.fork_id, to);
    return fork;
  }
  User& user = *users_.at(state->fork());
  fork.owner = user.owner;
  fork.owner_incarnation = user.owner_incarnation;
  if (user.created_here && !user.sent) {
    fork.kind = ForkDescriptor::create;
    fork.fork_id = state->fork();
    transfer.creation = fork;
    user.sent = true;
  } else {
    // task 2.3: the number of a user's fork (last_fork_); who hands it on lives until its owner knows it (transfer)
    fork.fork_id.number = ++last_fork_;
    transfer.parents.push_back(state);
    // end of task
  }
  return fork;
}

void RRefTable::on_send(const WorkerInfo& to, Message& message) {
  Event event(*this);
  Session* session = session_of(to.id);
  if (!session) throw PeerLostError("worker '" + to.name + "' is not connected", false);
  if (message.kind == MessageKind::reply && session->cancelled.erase(message.call_id) > 0) {
    throw CancelledError("the call was cancelled by its caller, worker '" + to.name + "'");
  }
  std::size_t creations = 0;
  for (const auto& state : message.references) {
    TENDRIL_CHECK_AS(UsageError, state, "RRef: an empty reference cannot be sent");
    if (check_leaving(*session, message, *state)) ++creations;
  }
  TENDRIL_CHECK_AS(RRefError, creations <= 1, "RRef: a call creates one object, not ", creations);
  Transfer transfer;
  event.effects.released.reserve(2 * message.references.size());  // `undo` must not allocate
  try {
    for (auto& state : message.references) {
      if (message.has_receiver && message.forks.empty() && leads_to(*session, *state)) {
        message.forks.push_back({.kind = ForkDescriptor::receiver,
                                 .owner = session->peer.id,
                                 .owner_incarnation = session->incarnation,
                                 .rref = state->id(),
                                 .fork_id = state->fork()});
      } else {
        message.forks.push_back(fork(*session, state, transfer));
      }
      event.effects.released.push_back(std::move(state));
    }
    if (transfer.forks > 0) session->transfers[{message.kind, message.call_id}] = std::move(transfer);
  } catch (...) {
    undo(*session, message, transfer, event.effects);
    throw;
  }
  message.references.clear();
}

/// Removes the forks of a message that was not sent and whose transfer was not recorded.
void RRefTable::undo(Session& to, const Message& message, const Transfer& transfer, Effects& effects) noexcept {
  for (const ForkId& fork : transfer.registered) remove_fork(fork, to.peer.id, effects);
  for (const auto& state : message.references)  // the one whose fork could not be added
    if (state && state->is_owner()) drop_if_unused(state->id(), effects);
  if (transfer.creation) users_.at(transfer.creation->fork_id)->sent = false;
}

void RRefTable::message_not_sent(const WorkerInfo& to, MessageKind kind, uint64_t call_id) noexcept {
  Event event(*this);
  Session* session = session_of(to.id);
  if (!session) return;
  if (kind == MessageKind::request) {
    cancel_call(*session, call_id);
  } else {
    end_transfer(*session, {kind, call_id}, true, event.effects);
  }
}

void RRefTable::call_cancelled(const WorkerInfo& to, uint64_t call_id) noexcept {
  Event event(*this);
  if (Session* session = session_of(to.id)) cancel_call(*session, call_id);
}

/// Asks the callee to decide, once and for all, whether the request has arrived. The parents are kept until it answers.
void RRefTable::cancel_call(Session& session, uint64_t call_id) {
  ControlRecord record{.kind = ControlRecord::call_cancelled, .call_id = call_id};
  const auto found = session.transfers.find({MessageKind::request, call_id});
  if (found != session.transfers.end() && found->second.creation) {
    record.kind = ControlRecord::creation_cancelled;
    record.rref = found->second.creation->rref;
    record.fork = found->second.creation->fork_id;
  }
  say(session, record);
}

void RRefTable::on_cancelled(Session& session, const ControlRecord& record, RequestStatus status, Effects& effects) {
  if (status == RequestStatus::unseen) {
    if (record.kind == ControlRecord::creation_cancelled) {
      TENDRIL_CHECK_AS(MessageError,
                       record.rref.worker == session.peer.id && record.rref.incarnation == session.incarnation &&
                           rref_owner(record.rref) == self_.id && !forks_.contains(record.fork),
                       "bad control message: a cancelled creation that was not the sender's");
      // Handled as if the creation had arrived and failed: workers that were sent the reference get the error, and the
      // creator's deletion finds an entry to delete.
      if (auto state = created(session, record.rref, record.fork, effects)) {
        effects.failed.emplace_back(std::move(state),
                                    rref_error("the call that creates " + rref_text(record.rref) +
                                               " never reached its owner, worker '" + self_.name + "'"));
      }
    }
    if (record.call_id != 0) say(session, {.kind = ControlRecord::not_received, .call_id = record.call_id});
    return;
  }
  const TransferKey reply{MessageKind::reply, record.call_id};
  if (session.transfers.contains(reply)) {
    end_transfer(session, reply, true, effects);  // the caller drops the reply if it arrives
  } else if (status == RequestStatus::serving) {
    session.cancelled.insert(record.call_id);
  }
}

void RRefTable::end_transfer(Session& session, TransferKey key, bool undo, Effects& effects) {
  const auto found = session.transfers.find(key);
  if (found == session.transfers.end()) return;
  Transfer transfer = std::move(found->second);
  session.transfers.erase(found);
  if (undo) {
    for (const ForkId& fork : transfer.registered) remove_fork(fork, session.peer.id, effects);
  }
  for (auto& parent : transfer.parents) effects.released.push_back(std::move(parent));
  if (!transfer.creation) return;
  // Whether the creation arrived or was cancelled, the owner now knows the first user.
  const auto user = users_.find(transfer.creation->fork_id);
  if (user == users_.end()) return;
  user->second->known = true;
  if (user->second->dropped) {
    say(session, {.kind = ControlRecord::fork_delete, .rref = user->second->rref, .fork = user->first});
    users_.erase(user);
  }
}

}  // namespace tendril::rpc
