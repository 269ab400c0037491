// Sessions, control records, and what happens after an event.
#include "tendril/rpc/reference/rref_table.h"

#include <algorithm>

#include "tendril/rpc/reference/rref_table_impl.h"

namespace tendril::rpc {

namespace {
/// Interval at which cancelled calls that are still served here are checked for an answer.
constexpr auto kCancelledInterval = std::chrono::milliseconds(100);
constexpr auto kRetryWithoutMemory = std::chrono::milliseconds(20);
}  // namespace

std::string rref_text(const RRefId& id) { return "RRef " + to_string(id); }

/// The scope of a call of the host. `close` waits for its end.
class RRefTable::HostCall {
 public:
  explicit HostCall(RRefTable& table) : table_(table) {
    const std::lock_guard lock(table_.mutex_);
    host_ = table_.host_.get();
    if (host_) ++table_.host_calls_;
  }
  ~HostCall() {
    if (!host_) return;
    const std::lock_guard lock(table_.mutex_);
    if (--table_.host_calls_ == 0) table_.host_left_.notify_all();
  }
  HostCall(const HostCall&) = delete;
  HostCall& operator=(const HostCall&) = delete;
  explicit operator bool() const noexcept { return host_ != nullptr; }
  Host* operator->() const noexcept { return host_; }

 private:
  RRefTable& table_;
  Host* host_ = nullptr;
};

RRefTable::RRefTable(WorkerInfo self, uint64_t incarnation, std::shared_ptr<Host> host, Options options)
    : self_(std::move(self)), incarnation_(incarnation), options_(std::move(options)), host_(std::move(host)) {
  TENDRIL_CHECK_AS(UsageError, self_.id >= 0 && self_.id < (1 << 16), "RRefTable: rank ", self_.id,
                   ", expected 0 to 65535");
}

RRefTable::~RRefTable() { close(); }

RRefTable::Session* RRefTable::session_of(WorkerId worker) noexcept {
  const auto found = sessions_.find(worker);
  return found == sessions_.end() ? nullptr : found->second.get();
}

RRefTable::Session* RRefTable::session_of(WorkerId worker, uint64_t incarnation) noexcept {
  Session* session = session_of(worker);
  return session && session->incarnation == incarnation ? session : nullptr;
}

void RRefTable::say(Session& session, ControlRecord record, bool urgent) {
  const bool is_full = session.outbox.size() + 2 >= ControlChannel::kMaxRecords;
  if (session.outbox.empty() || urgent || is_full) dirty_.push_back(session.peer.id);
  if (session.own_creations) {
    session.outbox.push_back({.kind = ControlRecord::creations_from, .call_id = *session.own_creations});
    session.own_creations.reset();
  }
  session.outbox.push_back(record);
  session.urgent |= urgent;
}

/// Reserves memory so that the next two calls of `say` cannot throw.
void RRefTable::make_room(Session& session) {
  const auto grow = [](auto& list, std::size_t more) {
    if (list.capacity() - list.size() < more) list.reserve(2 * list.size() + more);
  };
  grow(session.outbox, 3);
  grow(dirty_, 2);
}

/// Sends `creations_from`, because earlier creations belonged to earlier sessions. The peer answers with its own.
void RRefTable::queue_creations_from(Session& session) {
  const auto last = last_rref_.find(session.peer.id);
  session.own_creations.reset();
  say(session, {.kind = ControlRecord::creations_from, .call_id = last == last_rref_.end() ? 1 : last->second + 1});
}

/// Sends urgent records, and those that have waited long enough. Visits only sessions with new records and sessions
/// that are due, so the cost does not depend on the number of sessions whose records still wait. If it throws, no
/// record is lost.
void RRefTable::collect(Effects& effects) {
  retry_releases();
  if (dirty_.empty() && lazy_.empty()) return;
  const Clock::time_point now = options_.clock();
  for (; !dirty_.empty(); dirty_.pop_back()) {
    const WorkerId worker = dirty_.back();
    Session* const session = session_of(worker);
    if (!session || session->outbox.empty()) continue;
    if (session->urgent || session->outbox.size() >= ControlChannel::kMaxRecords) {
      flush(*session, now, effects);
    } else if (session->lazy_at == Clock::time_point::max()) {
      lazy_.emplace_back(now + options_.lazy_delay, worker);
      session->lazy_at = lazy_.back().first;
    }
  }
  for (; !lazy_.empty() && lazy_.front().first <= now; lazy_.pop_front()) {
    Session* const session = session_of(lazy_.front().second);
    if (session && session->lazy_at == lazy_.front().first) flush(*session, now, effects);
  }
}

void RRefTable::flush(Session& session, Clock::time_point now, Effects& effects) {
  while (!session.outbox.empty()) {
    const auto first = session.outbox.begin();
    const auto last = first + std::min<std::ptrdiff_t>(session.outbox.end() - first, ControlChannel::kMaxRecords);
    auto& batch = effects.batches.emplace_back(session.peer.id, Bytes());
    batch.second = session.channel.send({first, last}, now);
    session.outbox.erase(first, last);
  }
  session.urgent = false;
  session.lazy_at = Clock::time_point::max();
}

void RRefTable::perform(Effects effects) noexcept {
  if (!effects.batches.empty()) {
    if (const HostCall host{*this}) {
      for (auto& [to, payload] : effects.batches)
        if (!payload.empty()) host->send_control(to, std::move(payload));
    }
  }
  for (const auto& state : effects.confirmed) state->confirm();
  for (const auto& [state, error] : effects.failed) state->fail(error);
  for (const auto& arrival : effects.expired) {
    arrival->parked->refuse(std::make_exception_ptr(
        TimeoutError("the call timed out before the owners of its references had confirmed them")));
  }
  for (const auto& arrival : effects.arrivals) {
    if (arrival->expired) continue;
    const std::unique_ptr<ParkedMessage> parked = std::move(arrival->parked);
    if (arrival->error) {
      parked->refuse(arrival->error);
    } else {
      parked->resume(std::move(parked->message));
    }
  }
}

void RRefTable::decided(std::vector<std::shared_ptr<Arrival>>& waiting, const std::exception_ptr& error,
                        Effects& effects) {
  auto next = waiting.begin();
  try {
    for (; next != waiting.end(); ++next) {
      if (error && !(*next)->error) (*next)->error = error;
      finish(*next, effects);
    }
  } catch (...) {
    waiting.erase(waiting.begin(), next);
    throw;
  }
  waiting.clear();
}

/// Has no effect if it throws.
void RRefTable::finish(const std::shared_ptr<Arrival>& arrival, Effects& effects) {
  if (arrival->missing > 1) {
    --arrival->missing;
    return;
  }
  Session* sender = session_of(arrival->from);
  if (sender) make_room(*sender);
  effects.arrivals.push_back(arrival);
  arrival->missing = 0;
  expiring_.erase({arrival->deadline, arrival->number});
  if (sender && sender->serial == arrival->session) {
    const Message& message = arrival->parked->message;
    if (brings_references(message.forks))
      say(*sender, {.kind = ControlRecord::received, .message = message.kind, .call_id = message.call_id}, false);
  }
}

/// Refuses parked requests whose callers' deadlines have passed.
void RRefTable::expire(Clock::time_point now, Effects& effects) {
  while (!expiring_.empty() && expiring_.begin()->first.first <= now) {
    Arrival& arrival = *expiring_.begin()->second;
    arrival.expired = true;
    effects.expired.push_back(arrival.shared_from_this());
    expiring_.erase(expiring_.begin());
  }
}

bool RRefTable::awaits(WorkerId peer) const noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = sessions_.find(peer);
  return found != sessions_.end() && (found->second->asked > 0 || found->second->channel.unacknowledged() > 0);
}

void RRefTable::peer_joined(const WorkerInfo& peer, uint64_t incarnation) {
  TENDRIL_CHECK_AS(UsageError, peer.id >= 0 && peer.id < (1 << 16) && peer.id != self_.id, "peer_joined: rank ",
                   peer.id, ", expected 0 to 65535 and not this worker's own");
  const std::lock_guard lock(mutex_);
  if (closed_) return;
  auto session = std::make_unique<Session>();
  session->peer = peer;
  session->incarnation = incarnation;
  session->serial = ++last_session_;
  TENDRIL_CHECK_AS(UsageError, !sessions_.contains(peer.id), "peer_joined: rank ", peer.id, " has a session already");
  const auto lost = lost_.find(peer.id);
  session->follows = lost != lost_.end() && lost->second == incarnation;
  const auto earlier = last_rref_.find(peer.id);
  if (earlier != last_rref_.end()) session->own_creations = earlier->second + 1;
  sessions_.emplace(peer.id, std::move(session));
}

void RRefTable::peer_lost(const WorkerInfo& peer, const std::exception_ptr& reason) {
  Event event(*this);
  const auto found = sessions_.find(peer.id);
  if (found == sessions_.end()) return;
  const std::unique_ptr<Session> session = std::move(found->second);
  sessions_.erase(found);
  lost_[peer.id] = session->incarnation;

  std::string why = "its session ended";
  try {
    if (reason) std::rethrow_exception(reason);
  } catch (const std::exception& error) {
    why = error.what();
  } catch (...) {
  }
  for (auto& [key, transfer] : session->transfers) {
    for (auto& parent : transfer.parents) event.effects.released.push_back(std::move(parent));
  }
  holder_lost(*session, event.effects);
  owner_lost(*session, rref_error("owner_lost: the reference's owner, worker '" + peer.name + "', is gone: " + why),
             event.effects);
}

void RRefTable::control_received(const WorkerInfo& from, const Bytes& payload) {
  std::vector<ControlRecord> records;
  {
    const std::lock_guard lock(mutex_);
    Session* session = session_of(from.id);
    if (!session) return;
    records = session->channel.receive(payload, options_.clock());
  }
  for (const ControlRecord& record : records) {
    // Calls the host without the lock. Records of one session are handled one at a time, so they stay in order.
    std::optional<RequestStatus> status;
    if ((record.kind == ControlRecord::call_cancelled || record.kind == ControlRecord::creation_cancelled) &&
        record.call_id != 0) {
      if (const HostCall host{*this}) status = host->withdraw_request(from.id, record.call_id);
    }
    Event event(*this);
    if (Session* session = session_of(from.id)) apply(*session, record, status, event.effects);
  }
}

void RRefTable::apply(Session& from, const ControlRecord& record, std::optional<RequestStatus> status,
                      Effects& effects) {
  switch (record.kind) {
    case ControlRecord::fork_request:
      return fork_requested(from, record.rref, record.fork);
    case ControlRecord::fork_accept:
      return accepted(from, record.fork, effects);
    case ControlRecord::fork_lost: {
      const auto found = users_.find(record.fork);
      if (found == users_.end() || found->second->owner != from.peer.id || found->second->known) return;
      return lose(*found->second,
                  rref_error("reference_lost: " + rref_text(found->second->rref) + " of worker '" + from.peer.name +
                             "' was gone before its owner knew of this user: the worker that sent it has died"),
                  effects);
    }
    case ControlRecord::fork_delete:
      return deleted(from, record.rref, record.fork, effects);
    case ControlRecord::received:
      return end_transfer(from, {record.message, record.call_id}, false, effects);
    case ControlRecord::not_received:
      return end_transfer(from, {MessageKind::request, record.call_id}, true, effects);
    case ControlRecord::creations_from:
      from.first_creation = record.call_id;
      from.follows = false;
      if (from.own_creations) queue_creations_from(from);  // the peer may have asked for it
      return fail_lost_creations(from, "it was lost with an earlier connection", effects);
    case ControlRecord::call_cancelled:
    case ControlRecord::creation_cancelled:
      return on_cancelled(from, record, status.value_or(RequestStatus::unseen), effects);
  }
}

Clock::time_point RRefTable::on_timer(Clock::time_point now) noexcept {
  std::vector<std::pair<WorkerId, uint64_t>> cancelled;
  Clock::time_point next = Clock::time_point::max();
  {
    Event event(*this);
    expire(now, event.effects);
    if (!expiring_.empty()) next = expiring_.begin()->first.first;
    try {
      collect(event.effects);          // before the times are read below, because it may set some
    } catch (const std::bad_alloc&) {  // retried soon, see below
    }
    if (has_pending_releases_ || !dirty_.empty()) next = std::min(next, now + kRetryWithoutMemory);
    for (auto& [worker, session] : sessions_) {
      for (Bytes& batch : session->channel.on_timer(now)) event.effects.batches.emplace_back(worker, std::move(batch));
      next = std::min({next, session->channel.next_timer(), session->lazy_at});
      for (const uint64_t call_id : session->cancelled) cancelled.emplace_back(worker, call_id);
    }
  }
  for (const auto& [worker, call_id] : cancelled) {
    {
      const HostCall host(*this);
      if (!host || host->withdraw_request(worker, call_id) != RequestStatus::answered) continue;
    }
    const std::lock_guard lock(mutex_);
    if (Session* session = session_of(worker)) session->cancelled.erase(call_id);
  }
  return cancelled.empty() ? next : std::min(next, now + kCancelledInterval);
}

void RRefTable::release_users() noexcept {
  Event event(*this);
  const std::exception_ptr error = rref_error("RRef: this worker has shut down");
  for (auto& [fork, user] : users_) {
    if (user->error) continue;
    if (user->created_here && user->sent && !user->known) {
      user->dropped = true;  // deleted once the deletion cannot overtake the creation
      if (auto state = user->state.lock()) event.effects.failed.emplace_back(std::move(state), error);
      continue;
    }
    Session* owner = session_of(user->owner, user->owner_incarnation);
    if (owner && !(user->created_here && !user->sent)) {
      say(*owner, {.kind = ControlRecord::fork_delete, .rref = user->rref, .fork = fork});
    }
    lose(*user, error, event.effects);
  }
}

void RRefTable::close() noexcept {
  std::unordered_map<RRefId, std::unique_ptr<Owned>> owned;
  std::unordered_map<WorkerId, std::unique_ptr<Session>> sessions;
  {
    Event event(*this);
    if (closed_) return;
    closed_ = true;
    const std::exception_ptr error = rref_error("RRef: this worker has shut down");
    for (auto& [fork, user] : users_) lose(*user, error, event.effects);
    for (auto& [id, one] : owned_) {
      decided(one->waiting, error, event.effects);
      if (!one->exists) event.effects.failed.emplace_back(one->state, error);
    }
    owned.swap(owned_);
    sessions.swap(sessions_);
    users_.clear();
    forks_.clear();
    awaited_.clear();
    dirty_.clear();
    lazy_.clear();
  }
  std::unique_lock lock(mutex_);
  host_left_.wait(lock, [this] { return host_calls_ == 0; });
  const std::shared_ptr<Host> host = std::move(host_);
  lock.unlock();  // destroying this reference may destroy the host
}

RRefCounters RRefTable::counters() const {
  const std::lock_guard lock(mutex_);
  RRefCounters counters;
  counters.owner_rrefs = owned_.size();
  counters.forks = forks_.size();
  for (const auto& [fork, user] : users_) {
    if (user->error) continue;  // a handle that cannot be used
    ++counters.users;
    if (!user->known) ++counters.pending_users;
  }
  for (const auto& [worker, session] : sessions_) {
    for (const auto& [key, transfer] : session->transfers) counters.pending_children += transfer.forks;
  }
  return counters;
}

}  // namespace tendril::rpc
