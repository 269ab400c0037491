// The workers that an agent knows, and its sessions with them.
#include "tendril/rpc/error.h"
#include "tendril/rpc/session/agent_impl.h"
#include "tendril/rpc/session/agents.h"
#include "tendril/rpc/session/group_events.h"
#include "tendril/rpc/session/introduction.h"
#include "tendril/rpc/system/log.h"
#include "tendril/rpc/transport/socket_link.h"

namespace tendril::rpc {

namespace {
// The pause before a session that follows one without a connection. It doubles after each such session.
constexpr std::chrono::milliseconds kShortestPause{100}, kLongestPause{10'000};
}  // namespace

void Agent::Impl::check_rank(WorkerId peer, const char* what) const {
  TENDRIL_CHECK_AS(UsageError, peer >= 0 && peer < options.world_size, what, ": rank ", peer,
                   " is out of range, expected 0 to ", options.world_size - 1);
}

std::shared_ptr<detail::Session> Agent::Impl::session(WorkerId peer) const {
  check_rank(peer, "rpc");
  const std::lock_guard lock(mutex_);
  if (shut_down_) throw UsageError("rpc: worker '" + self.name + "' has been shut down");
  return sessions_[static_cast<std::size_t>(peer)];
}

std::shared_ptr<detail::Session> Agent::Impl::open_session(WorkerId peer) const {
  check_rank(peer, "rpc");
  const std::lock_guard lock(mutex_);
  return shut_down_ ? nullptr : sessions_[static_cast<std::size_t>(peer)];
}

bool Agent::Impl::has_session(WorkerId peer) const noexcept {
  const std::lock_guard lock(mutex_);
  const auto place = static_cast<std::size_t>(peer);
  return place < sessions_.size() && sessions_[place] != nullptr;
}

std::vector<std::shared_ptr<detail::Session>> Agent::Impl::sessions() const {
  std::vector<std::shared_ptr<detail::Session>> open;
  const std::lock_guard lock(mutex_);
  for (const auto& session : sessions_) {
    if (session) open.push_back(session);
  }
  return open;
}

void Agent::Impl::add_peer(const WorkerInfo& peer, uint64_t peer_incarnation, std::shared_ptr<Link> link,
                           const DeviceReport& devices, detail::Reach reach) {
  check_rank(peer.id, "add_peer");
  TENDRIL_CHECK_AS(UsageError, peer.id != self.id, "add_peer: rank ", peer.id, " is this worker itself");
  const DeviceReport mine = devices_for(peer.name);
  check_device_map(self, mine, peer, devices);
  check_device_map(peer, devices, self, mine);
  const auto session = std::make_shared<detail::Session>(shared_from_this(), peer, peer_incarnation, link,
                                                         detail::DeviceRoutes(peer, mine, devices), std::move(reach));
  std::vector<Ref<FutureState<void>>> waiting;
  {
    const std::lock_guard lock(mutex_);
    if (shut_down_) throw UsageError("add_peer: worker '" + self.name + "' has been shut down");
    auto& slot = sessions_[static_cast<std::size_t>(peer.id)];
    TENDRIL_CHECK_AS(UsageError, !slot, "add_peer: rank ", peer.id, " is already connected, as '",
                     slot ? slot->peer().name : "", "'");
    const auto named = ranks_.find(peer.name);
    TENDRIL_CHECK_AS(
        UsageError,
        named == ranks_.end() || named->second == peer.id || !sessions_[static_cast<std::size_t>(named->second)],
        "add_peer: the name '", peer.name, "' is already used by rank ", named == ranks_.end() ? -1 : named->second,
        "; rank ", peer.id, " needs another one");
    note_worker_locked(peer);
    // Under the lock, so that no call to the peer is made before the listener knows it.
    if (listener) listener->peer_joined(peer, peer_incarnation);
    slot = session;
    waiting.swap(awaited_[static_cast<std::size_t>(peer.id)]);
  }
  const bool connected = link->gauges().begun;
  if (connected && detail::logs(detail::LogLevel::info)) {
    detail::log(
        detail::LogLevel::info, self.name,
        "rpc: worker '" + self.name + "' is connected with " + rpc::name_of(peer) + " over " + link->transport());
  }
  detail::register_agent({shared_from_this(), &handle});
  link->start(session);
  if (const auto events = group_events(); events && connected) events->connected(peer, peer_incarnation);
  arm_listener_timer();
  for (const auto& one : waiting) one->try_set_value();
}

void Agent::Impl::add_unconnected(const Hello& theirs, const Agent::Endpoint& endpoint) {
  const Hello mine = detail::hello_of(*this, theirs.worker);
  check_hello(mine, {.group = mine.group, .world_size = mine.world_size, .worker = theirs.worker}, theirs);
  detail::SocketLinkOptions link = detail::link_options(*this, mine, theirs);
  link.terms.session = ended_sessions(theirs.worker.id, theirs.incarnation).next;
  if (link.terms.session > 1) {
    for (const auto& hook : hooks) hook->peer_returned(theirs.worker);
  }
  add_peer(theirs.worker, theirs.incarnation, std::make_shared<detail::SocketLink>(loop, link), theirs.devices,
           {.endpoint = endpoint});
}

void Agent::Impl::note_worker(const WorkerInfo& worker) {
  check_rank(worker.id, "note_worker");
  const std::lock_guard lock(mutex_);
  note_worker_locked(worker);
}

void Agent::Impl::note_worker_locked(const WorkerInfo& worker) {
  WorkerInfo& known = workers_[static_cast<std::size_t>(worker.id)];
  if (known.id >= 0 && known.name != worker.name) {
    const auto former = ranks_.find(known.name);
    if (former != ranks_.end() && former->second == worker.id) ranks_.erase(former);
  }
  ranks_.insert_or_assign(worker.name, worker.id);
  known = worker;
}

Agent::Impl::EndedSessions Agent::Impl::ended_sessions(WorkerId peer, uint64_t peer_incarnation) const {
  check_rank(peer, "ended_sessions");
  const std::lock_guard lock(mutex_);
  const EndedSessions& ended = ended_[static_cast<std::size_t>(peer)];
  return ended.incarnation == peer_incarnation ? ended : EndedSessions{.incarnation = peer_incarnation};
}

void Agent::Impl::end_for_good(WorkerId peer, uint64_t peer_incarnation) {
  check_rank(peer, "end_for_good");
  const std::lock_guard lock(mutex_);
  EndedSessions& ended = ended_[static_cast<std::size_t>(peer)];
  if (ended.incarnation == peer_incarnation) ended.for_good = true;
}

void Agent::Impl::set_group_events(std::shared_ptr<detail::GroupEvents> events) {
  const std::lock_guard lock(mutex_);
  group_events_ = std::move(events);
  expects_members_ = true;
}

std::shared_ptr<detail::GroupEvents> Agent::Impl::group_events() const {
  const std::lock_guard lock(mutex_);
  return group_events_;
}

void Agent::Impl::members_known() {
  const std::lock_guard lock(mutex_);
  expects_members_ = false;
}

bool Agent::Impl::expects_members() const {
  const std::lock_guard lock(mutex_);
  return expects_members_;
}

WorkerInfo Agent::Impl::worker(WorkerId rank) const {
  check_rank(rank, "worker");
  const std::lock_guard lock(mutex_);
  const WorkerInfo& worker = workers_[static_cast<std::size_t>(rank)];
  TENDRIL_CHECK_AS(UsageError, worker.id == rank, "rank ", rank, " has not connected to worker '", self.name, "' yet");
  return worker;
}

WorkerInfo Agent::Impl::worker(std::string_view name) const {
  const std::lock_guard lock(mutex_);
  if (const auto found = ranks_.find(name); found != ranks_.end()) {
    return workers_[static_cast<std::size_t>(found->second)];
  }
  std::string names;
  for (const WorkerInfo& worker : workers_) {
    if (worker.id >= 0) names += (names.empty() ? "'" : ", '") + worker.name + "'";
  }
  throw UsageError("there is no worker named '" + std::string(name) + "'; '" + self.name + "' knows " + names);
}

std::string Agent::Impl::name_of(WorkerId rank) const {
  const std::lock_guard lock(mutex_);
  const auto place = static_cast<std::size_t>(rank);
  if (place < workers_.size() && workers_[place].id == rank) return rpc::name_of(workers_[place]);
  return "rank " + std::to_string(rank);
}

void Agent::Impl::session_ended(const std::shared_ptr<detail::Session>& session, const detail::Ending& how) {
  if (session->link()) {
    const Link::Gauges gauges = session->link()->gauges();
    detail::Counters::add(counters.bytes_sent, gauges.bytes_sent);
    detail::Counters::add(counters.bytes_received, gauges.bytes_received);
    detail::Counters::add(counters.requests_sent, session->requests_sent());
    detail::Counters::add(counters.requests_received, session->requests_received());
  }
  const auto events = group_events();
  const bool follows = how.may_return && events && events->restores(session->peer());
  const std::lock_guard lock(mutex_);
  auto& slot = sessions_[static_cast<std::size_t>(session->peer().id)];
  if (slot != session) return;
  slot.reset();
  EndedSessions& ended = ended_[static_cast<std::size_t>(session->peer().id)];
  if (ended.incarnation != session->incarnation()) ended = {.incarnation = session->incarnation()};
  ended.next = std::max(session->number() + 1, how.next);
  ended.for_good = !follows;
  // A peer that cannot be reached is not redialled in a tight loop.
  ended.unreached = session->link() && session->link()->gauges().begun ? 0 : ended.unreached + 1;
  ended.from = Clock::now();
  if (ended.unreached > 0) {
    ended.from += std::min(kShortestPause * (1 << std::min(ended.unreached - 1, 7)), kLongestPause);
  }
  if (!session->is_self()) ending_[static_cast<std::size_t>(session->peer().id)] = session.get();
}

void Agent::Impl::end_notified(const detail::Session& session) {
  const std::lock_guard lock(mutex_);
  const detail::Session*& ending = ending_[static_cast<std::size_t>(session.peer().id)];
  if (ending == &session) ending = nullptr;
}

bool Agent::Impl::is_ending(WorkerId peer) const {
  check_rank(peer, "is_ending");
  const std::lock_guard lock(mutex_);
  return ending_[static_cast<std::size_t>(peer)] != nullptr;
}

}  // namespace tendril::rpc
