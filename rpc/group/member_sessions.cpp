#include "tendril/rpc/group/member_sessions.h"

#include <utility>

#include "tendril/rpc/error.h"
#include "tendril/rpc/group/addresses.h"
#include "tendril/rpc/session/agent_impl.h"
#include "tendril/rpc/session/introduction.h"
#include "tendril/rpc/system/log.h"
#include "tendril/rpc/system/thread_state.h"

namespace tendril::rpc::detail {

using namespace std::chrono_literals;

MemberSessions::MemberSessions(const std::shared_ptr<Agent::Impl>& agent, boost::asio::ip::address rank_0_address,
                               Applied applied)
    : agent_(agent),
      rank_0_address_(std::move(rank_0_address)),
      applied_(std::move(applied)),
      timer_(agent->loop->reactor()) {}

void MemberSessions::meet(const std::vector<MemberRecord>& members) {
  const auto agent = agent_.lock();
  if (!agent) return;
  members_ = members;
  for (const MemberRecord& member : members) {
    if (member.rank == agent->self.id) continue;
    if (member.state != MemberState::alive) {
      agent->note_worker({member.name, member.rank});
    } else if (!agent->open_session(member.rank)) {
      begin_session(*agent, member);
    }
  }
}

void MemberSessions::begin_session(Agent::Impl& agent, const MemberRecord& member) {
  const Hello theirs = read_introduction(member.introduction, agent.self.name);
  TENDRIL_CHECK_AS(MessageError, theirs.worker.id == member.rank && theirs.incarnation == member.incarnation,
                   "bad introduction: expected that of rank ", member.rank);
  const auto said = Agent::Endpoint::parse(theirs.resumption.endpoint);
  agent.add_unconnected(theirs, dialled_endpoint(said, rank_0_address_));
}

void MemberSessions::add(const std::vector<MemberRecord>& changes) {
  const bool waits = !changes_.empty();
  changes_.insert(changes_.end(), changes.begin(), changes.end());
  if (!waits) go_on();
}

void MemberSessions::go_on() {
  const IoCallbackScope io_callback;  // callbacks of calls that fail here must not wait
  while (!changes_.empty()) {
    const auto agent = agent_.lock();
    if (!agent || agent->is_shut_down()) return changes_.clear();
    if (!apply(*agent, changes_.front())) {
      timer_.call_after(1ms, [weak = weak_from_this()] {
        if (const auto alive = weak.lock()) alive->go_on();
      });
      return;
    }
    const MemberRecord change = std::move(changes_.front());
    changes_.pop_front();
    members_[static_cast<std::size_t>(change.rank)] = change;
    applied_(change);
  }
}

void MemberSessions::restore(WorkerId rank) try {
  const auto agent = agent_.lock();
  const MemberRecord& member = members_[static_cast<std::size_t>(rank)];
  if (!agent || agent->is_shut_down() || member.state != MemberState::alive || agent->open_session(rank)) return;
  const auto ended = agent->ended_sessions(rank, member.incarnation);
  if (ended.for_good) return;
  const auto now = Clock::now();
  const bool ending = agent->is_ending(rank);  // another thread is still notifying hooks of the end
  if (!ending && now >= ended.from) return begin_session(*agent, member);
  const auto timer = std::make_shared<Timer>(agent->loop->reactor());
  timer->call_at(std::max(now + 1ms, ended.from), [weak = weak_from_this(), rank, timer] {
    if (const auto alive = weak.lock()) alive->restore(rank);
  });
} catch (const std::exception& e) {
  const auto agent = agent_.lock();
  if (!agent || agent->is_shut_down()) return;
  log(LogLevel::warn, agent->self.name,
      "rpc: worker '" + agent->self.name + "' cannot begin another session with " + agent->name_of(rank) + ": " +
          e.what());
}

/// Returns false if the change cannot be applied yet.
bool MemberSessions::apply(Agent::Impl& agent, const MemberRecord& change) try {
  if (change.rank == agent.self.id) return true;
  if (change.state == MemberState::alive) return has_joined(agent, change);
  has_gone(agent, change);
  return true;
} catch (const std::exception& e) {  // calls to the worker will report that it is not connected
  log(LogLevel::warn, agent.self.name,
      "rpc: worker '" + agent.self.name + "' cannot begin a session with " +
          name_of(WorkerInfo{change.name, change.rank}) + ", which has rejoined: " + e.what());
  return true;
}

bool MemberSessions::has_joined(Agent::Impl& agent, const MemberRecord& member) {
  if (const auto session = agent.open_session(member.rank)) {
    if (session->incarnation() == member.incarnation) return true;
    session->end(std::make_exception_ptr(
        PeerLostError(name_of(session->peer()) + " has been restarted", session->link()->gauges().begun)));
  }
  if (agent.is_ending(member.rank)) return false;  // another thread is still notifying hooks of the end
  begin_session(agent, member);
  return true;
}

/// A worker that leaves announces this itself, over its connections and after its last messages. Therefore a session
/// that has had a connection is not ended here.
void MemberSessions::has_gone(Agent::Impl& agent, const MemberRecord& member) {
  const auto session = agent.open_session(member.rank);
  agent.end_for_good(member.rank, member.incarnation);
  if (!session || session->incarnation() != member.incarnation) return;
  const bool begun = session->link()->gauges().begun;
  if (member.state == MemberState::left && begun) return;
  session->end(std::make_exception_ptr(
      PeerLostError(name_of(session->peer()) +
                        (member.state == MemberState::left ? " has left the group" : " is gone, according to rank 0"),
                    begun)));
}

}  // namespace tendril::rpc::detail
