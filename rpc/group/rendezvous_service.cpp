#include "tendril/rpc/group/rendezvous_service.h"

#include <algorithm>
#include <future>
#include <utility>

#include "tendril/rpc/error.h"
#include "tendril/rpc/session/agent_impl.h"
#include "tendril/rpc/session/introduction.h"
#include "tendril/rpc/system/log.h"
#include "tendril/rpc/system/thread.h"

namespace tendril::rpc::detail {

using namespace std::chrono_literals;

namespace {
constexpr auto kTellTime = 2s;
constexpr std::size_t kMaxPartitions = 64;  // a partition between two halves of a group may report half of all pairs
}  // namespace

RendezvousService::RendezvousService(const std::shared_ptr<Agent::Impl>& agent)
    : agent_(agent),
      loop_(agent->loop),
      deadline_(loop_->reactor()),
      note_(loop_->reactor()),
      incarnation_(agent->incarnation),
      server_(agent->options.world_size, agent->self.name, incarnation_),
      partition_timer_(loop_->reactor()) {}

void RendezvousService::start() {
  membership_ = std::make_shared<Membership>(
      loop_, [weak = weak_from_this(), loop = loop_.get()](const RendezvousMessage& message) {
        loop->post_io([weak, message] {
          if (const auto alive = weak.lock()) alive->received_locally(message);
        });
      });
  loop_->post_io([weak = weak_from_this()] {
    if (const auto alive = weak.lock()) alive->note_missing(0s);
  });
}

void RendezvousService::wait_until_told() {
  wait_until(&RendezvousServer::failure_sent_to_all, Clock::now() + kTellTime);
}
void RendezvousService::wait_until_left(Clock::time_point deadline) {
  wait_until(&RendezvousServer::all_left, std::min(deadline, Clock::now() + kTellTime));
}

void RendezvousService::wait_until(bool (RendezvousServer::*holds)() const noexcept, Clock::time_point deadline) {
  for (std::chrono::microseconds pause = 50us;; pause = std::min<std::chrono::microseconds>(2 * pause, 5ms)) {
    const auto agent = agent_.lock();
    if (!agent || agent->is_shut_down()) return;  // a function posted now would only keep the stopped loop alive
    Promise<bool> told(loop_.get());
    Future<bool> answer = told.future();
    loop_->post_io([weak = weak_from_this(), told = std::move(told), holds]() mutable {
      const auto alive = weak.lock();
      told.set_value(!alive || (alive->server_.*holds)());
    });
    if (!answer.wait_until(deadline) || answer.wait() || Clock::now() >= deadline) return;
    sleep_for(pause);
  }
}

std::optional<GroupEvents::Refusal> RendezvousService::asked(const Hello& theirs) {
  auto refusal = server_.admit(theirs.worker, theirs.world_size);
  if (!refusal && !theirs.refusal.empty()) {  // it could join, but reports why it will not
    server_.joiner_failed(theirs.worker, theirs.refusal);
    refusal = server_.admit(theirs.worker, theirs.world_size);
    act();
  }
  if (const auto agent = agent_.lock())
    agent->arm_liveness_timer();  // to notice if the worker that has this rank is dead
  if (!refusal) return std::nullopt;
  const auto kind = refusal->try_later                          ? RefusalKind::try_later
                    : refusal->failure == GroupFailure::timeout ? RefusalKind::timeout
                    : refusal->failure == GroupFailure::lost    ? RefusalKind::lost
                                                                : RefusalKind::usage;
  return Refusal{.kind = kind, .text = refusal->text};
}

void RendezvousService::refused(const std::string& who) { server_.note_refused(who); }

void RendezvousService::connected(const WorkerInfo& peer, uint64_t incarnation) {
  server_.connected(peer, incarnation, Clock::now());
  act();
}

void RendezvousService::received(const WorkerInfo& from, uint64_t incarnation, Bytes payload) {
  const RendezvousMessage message = decode_rendezvous(std::move(payload));
  if (message.kind == RendezvousKind::join) {
    TENDRIL_CHECK_AS(MessageError, message.parts.size() == 1, "bad introduction: expected one part from ",
                     name_of(from));
    const Hello hello = read_introduction(message.parts[0], "");
    TENDRIL_CHECK_AS(MessageError, hello.worker == from && hello.incarnation == incarnation,
                     "bad introduction: expected that of ", name_of(from));
  }
  server_.received(from.id, incarnation, message, Clock::now());
  if (message.kind == RendezvousKind::lost_peer) {
    const WorkerId peer = message.ranks.size() == 1 ? message.ranks[0] : -1;
    TENDRIL_CHECK_AS(MessageError, peer > 0 && peer < server_.roster().world_size(), "rendezvous: lost_peer from ",
                     name_of(from), ": expected one rank from 1 to ", server_.roster().world_size() - 1, ", got ",
                     peer);
    if (server_.awaits(from.id) && server_.roster().at(from.id).incarnation == incarnation) {
      note_partition(from.id, peer, message.text);
    }
  }
  act();
}

/// Logs the loss if both workers are still members when rank 0 would have noticed that one of them is gone.
void RendezvousService::note_partition(WorkerId by, WorkerId peer, const std::string& why) {
  const auto agent = agent_.lock();
  if (!agent) return;
  const AgentOptions& options = agent->options;
  const Roster& roster = server_.roster();
  const uint64_t epoch = roster.at(by).epoch, peer_epoch = roster.at(peer).epoch;
  const auto known = partitions_.find({by, peer});
  if (known != partitions_.end()) {  // a report by or of an earlier incarnation is replaced
    if (known->second.epoch == epoch && known->second.peer_epoch == peer_epoch) return;
  } else if (partitions_.size() >= kMaxPartitions) {
    ++more_partitions_;
    return;
  }
  const bool first = partitions_.empty();
  partitions_.insert_or_assign(
      std::pair(by, peer), PartitionReport{.why = why,
                                           .epoch = epoch,
                                           .peer_epoch = peer_epoch,
                                           .due = Clock::now() + options.liveness_timeout + 2 * options.ping_interval});
  if (first) log_partitions();
}

void RendezvousService::log_partitions() {
  const Roster& roster = server_.roster();
  const Clock::time_point now = Clock::now();
  Clock::time_point next = Clock::time_point::max();
  std::erase_if(partitions_, [&](const auto& one) {
    const auto& [pair, loss] = one;
    next = loss.due > now ? std::min(next, loss.due) : next;
    if (loss.due > now) return false;
    const auto is_member = [&](WorkerId rank, uint64_t epoch) {
      return server_.awaits(rank) && roster.at(rank).epoch == epoch;
    };
    if (is_member(pair.first, loss.epoch) && is_member(pair.second, loss.peer_epoch)) {
      log(LogLevel::warn, "rank 0",
          "rpc: " + roster.describe(pair.first) + " has lost " + roster.describe(pair.second) +
              ", but rank 0 reaches both: " + loss.why);
    }
    return true;
  });
  if (partitions_.empty()) {
    const std::size_t more = std::exchange(more_partitions_, 0);
    if (more > 0) log(LogLevel::warn, "rank 0", "rpc: " + std::to_string(more) + " more reports of lost workers");
    return;
  }
  partition_timer_.call_at(next, [weak = weak_from_this()] {
    if (const auto alive = weak.lock()) alive->log_partitions();
  });
}

void RendezvousService::lost(const Loss& loss) {
  server_.closed(loss.peer.id, loss.incarnation, Clock::now(), loss.why);
  act();
}

void RendezvousService::received_locally(const RendezvousMessage& message) {
  server_.received(0, incarnation_, message, Clock::now());
  act();
}

void RendezvousService::act() {
  const auto agent = agent_.lock();
  if (!agent) return;
  for (RendezvousServer::Action& action : server_.take_actions()) {
    if (action.to == 0) {
      membership_->heard(decode_rendezvous(std::move(action.bytes)));
    } else if (const auto session = agent->open_session(action.to)) {
      session->send_group(action.bytes);
    }
  }
  agent->arm_liveness_timer();  // the set of awaited workers may have changed
  if (server_.deadline() == deadline_.due()) return;
  if (server_.deadline() == Clock::time_point::max()) return deadline_.cancel();
  deadline_.call_at(server_.deadline(), [weak = weak_from_this()] {
    const auto alive = weak.lock();
    if (!alive) return;
    alive->server_.on_timer(Clock::now());
    alive->act();
  });
}

void RendezvousService::note_missing(std::chrono::seconds waited) {
  if (waited > 0s)
    log(LogLevel::warn, "rank 0",
        "rpc: rank 0 has waited " + std::to_string(waited.count()) +
            " s for these workers to join: " + server_.describe_missing());
  note_.call_after(std::max<std::chrono::seconds>(waited, kFirstNote), [weak = weak_from_this(), waited] {
    const auto alive = weak.lock();
    if (alive && !alive->server_.complete() && !alive->server_.failed())
      alive->note_missing(waited == 0s ? kFirstNote : 2 * waited);
  });
}

}  // namespace tendril::rpc::detail
