#include "tendril/rpc/group/membership.h"

#include <algorithm>
#include <utility>

#include "tendril/rpc/error.h"

namespace tendril::rpc::detail {

using namespace std::chrono_literals;

namespace {

// The rendezvous itself ends gatherings that take too long, and names the missing workers. A worker that receives no
// answer waits this much longer before it concludes that rank 0 is stuck.
constexpr auto kSlack = 3s;

Member shown(const MemberRecord& record) {
  return {.worker = {record.name, record.rank}, .state = record.state, .epoch = record.epoch, .why = record.why};
}

}  // namespace

Membership::Membership(Ref<Loop> loop, std::function<void(const RendezvousMessage&)> tell)
    : loop_(std::move(loop)), tell_(std::move(tell)) {}

Membership::Welcome Membership::join(std::string introduction, std::chrono::milliseconds timeout) {
  RendezvousMessage message{.kind = RendezvousKind::join, .timeout_ms = static_cast<uint64_t>(timeout.count())};
  message.parts.push_back(std::move(introduction));
  RendezvousMessage answer = ask(std::move(message), "joining");
  for (const MemberRecord& member : answer.members) names_.push_back(member.name);
  return {answer.epoch, std::move(answer.members)};
}

class Membership::Turn {
 public:
  Turn(Membership& of, const std::string& phase, const std::vector<WorkerId>& ranks, Clock::time_point deadline)
      : of_(of), ranks_(ranks) {
    std::unique_lock lock(of_.mutex_);
    const auto is_free = [&] { return of_.failure_ || !of_.gathering_.contains(ranks_); };
    waited_ = !is_free();
    if (!of_.turn_ended_.wait_until(lock, deadline, is_free)) {
      throw TimeoutError("'" + phase + "': another thread's call for the same workers has not ended in time");
    }
    if (of_.failure_) std::rethrow_exception(of_.failure_);
    of_.gathering_.insert(ranks_);
  }
  ~Turn() {
    {
      const std::lock_guard lock(of_.mutex_);
      of_.gathering_.erase(ranks_);
    }
    of_.turn_ended_.notify_all();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  bool waited() const noexcept { return waited_; }

 private:
  Membership& of_;
  const std::vector<WorkerId> ranks_;
  bool waited_ = false;
};

std::vector<std::string> Membership::gather(const std::string& phase, std::string contribution,
                                            std::chrono::milliseconds timeout, const Participants& who) {
  const Clock::time_point deadline = timeout > 0ms ? deadline_after(timeout) : Clock::time_point::max();
  const Turn turn(*this, phase, who.ranks, deadline);
  if (turn.waited()) timeout = left_until(deadline);
  RendezvousMessage message{.kind = RendezvousKind::contribute,
                            .text = phase,
                            .timeout_ms = static_cast<uint64_t>(timeout.count()),
                            .attendance = who.attendance,
                            .ranks = who.ranks};
  {
    const std::lock_guard lock(mutex_);
    message.epoch = who.epoch.value_or(view_.epoch);
  }
  message.parts.push_back(std::move(contribution));
  RendezvousMessage answer = ask(std::move(message), phase);
  if (answer.kind == RendezvousKind::not_gathered) throw_group_failure(answer.failure, answer.text);
  const std::size_t expected = who.ranks.empty() ? names_.size() : who.ranks.size();
  if (answer.parts.empty()) answer.parts.resize(expected);
  if (answer.parts.size() != expected) throw MessageError("rendezvous: an answer that does not match '" + phase + "'");
  return std::move(answer.parts);
}

RendezvousMessage Membership::ask(RendezvousMessage message, const std::string& doing) {
  constexpr uint64_t kYear = std::chrono::milliseconds(std::chrono::hours(24 * 365)).count();
  const std::chrono::milliseconds timeout(std::min(message.timeout_ms, kYear));
  const Clock::time_point deadline = timeout > 0ms ? deadline_after(timeout + kSlack) : Clock::time_point::max();
  const auto question = std::make_shared<Question>();
  question->answered = Ref<FutureState<void>>(new FutureState<void>(loop_.get()));
  {
    const std::lock_guard lock(mutex_);
    if (failure_) std::rethrow_exception(failure_);
    message.question = ++last_question_;
    asked_.emplace(message.question, question);
  }
  tell_(message);
  question->answered->wait_until(deadline);
  const std::lock_guard lock(mutex_);
  if (asked_.erase(message.question) == 0) return std::move(question->answer);
  if (failure_) std::rethrow_exception(failure_);
  throw TimeoutError("rank 0 did not answer at '" + doing + "' within " + std::to_string((timeout + kSlack).count()) +
                     " ms");
}

void Membership::check(bool accept_losses) const {
  const std::lock_guard lock(mutex_);
  if (failure_) std::rethrow_exception(failure_);
  for (const Member& member : view_.members) {
    if (accept_losses || member.state == MemberState::alive) continue;
    throw PeerLostError(name_of(member.worker) + (member.state == MemberState::lost ? " is gone"
                                                  : member.why.empty()              ? " has left the group"
                                                                                    : " failed: " + member.why),
                        true);
  }
}

void Membership::fail(const std::string& text) noexcept {
  try {
    constexpr std::size_t kLongest = 2048;
    tell_({.kind = RendezvousKind::fail, .text = text.substr(0, kLongest)});
  } catch (...) {  // the others then learn of it from the end of the session
  }
}

void Membership::leave() noexcept {
  try {
    tell_({.kind = RendezvousKind::leave});
  } catch (...) {
  }
}

GroupView Membership::view() const {
  const std::lock_guard lock(mutex_);
  return view_;
}

std::size_t Membership::num_members() const {
  const std::lock_guard lock(mutex_);
  return view_.members.size();
}

GroupView Membership::wait_for_change(uint64_t epoch, Clock::time_point deadline) {
  for (bool in_time = true;;) {
    const Ref<FutureState<void>> changed(new FutureState<void>(loop_.get()));
    {
      const std::lock_guard lock(mutex_);
      if (view_.epoch > epoch) return view_;
      if (failure_) std::rethrow_exception(failure_);
      if (!in_time) return view_;
      watchers_.push_back(changed);
    }
    in_time = changed->wait_until(deadline);  // completed by any change
    const std::lock_guard lock(mutex_);
    std::erase(watchers_, changed);
  }
}

void Membership::heard(RendezvousMessage message) {
  switch (message.kind) {
    case RendezvousKind::refused:
      try {
        throw_group_failure(message.failure, message.text);
      } catch (...) {
        return end(std::current_exception());
      }
    case RendezvousKind::changed: {
      const std::size_t size = num_members();
      for (const MemberRecord& change : message.members)
        TENDRIL_CHECK_AS(MessageError, change.rank >= 0 && static_cast<std::size_t>(change.rank) < size,
                         "rendezvous: a change of unknown rank ", change.rank);
      if (apply_) return apply_(message.members);
      unapplied_.insert(unapplied_.end(), message.members.begin(), message.members.end());
      return;
    }
    case RendezvousKind::welcome:
      welcomed(message);
      message.question = 1;  // the request to join is always the first question
      break;
    case RendezvousKind::gathered:
    case RendezvousKind::not_gathered:
      break;
    default:
      throw MessageError("rendezvous: a message that rank 0 does not send");
  }
  std::shared_ptr<Question> question;
  {
    const std::lock_guard lock(mutex_);
    if (failure_) return;
    TENDRIL_CHECK_AS(MessageError, message.question >= 1 && message.question <= last_question_,
                     "rendezvous: an answer to a question that was not asked");
    const auto found = asked_.find(message.question);
    if (found == asked_.end()) return;  // the asking thread has timed out
    question = found->second;
    question->answer = std::move(message);
    asked_.erase(found);
  }
  question->answered->try_set_value();
}

void Membership::welcomed(const RendezvousMessage& message) {
  const std::lock_guard lock(mutex_);
  TENDRIL_CHECK_AS(MessageError, view_.members.empty() && message.epoch > 0, "rendezvous: a second welcome");
  for (std::size_t i = 0; i < message.members.size(); ++i) {
    TENDRIL_CHECK_AS(MessageError, message.members[i].rank == static_cast<WorkerId>(i),
                     "rendezvous: a malformed welcome");
    view_.members.push_back(shown(message.members[i]));
  }
  view_.epoch = message.epoch;
}

void Membership::on_changes(std::function<void(const std::vector<MemberRecord>&)> apply) {
  apply_ = std::move(apply);
  if (!unapplied_.empty()) apply_(std::exchange(unapplied_, {}));
}

void Membership::peer_lost(const GroupEvents::Loss& loss) {
  const WorkerId peer = loss.peer.id;
  const auto is_member = [&] {
    const std::lock_guard lock(mutex_);
    const auto rank = static_cast<std::size_t>(peer);
    return !failure_ && rank < view_.members.size() && view_.members[rank].state == MemberState::alive;
  };
  if (loss.cut_off && is_member()) {
    constexpr std::size_t kLongest = 512;
    tell_({.kind = RendezvousKind::lost_peer, .text = loss.why.substr(0, kLongest), .ranks = {peer}});
  }
  if (restore_) return restore_(peer);
  unrestored_.push_back(peer);
}

void Membership::on_losses(std::function<void(WorkerId)> restore) {
  restore_ = std::move(restore);
  for (const WorkerId peer : std::exchange(unrestored_, {})) restore_(peer);
}

void Membership::applied(const MemberRecord& change) {
  std::vector<Ref<FutureState<void>>> watchers;
  {
    const std::lock_guard lock(mutex_);
    view_.members.at(static_cast<std::size_t>(change.rank)) = shown(change);
    view_.epoch = std::max(view_.epoch, change.epoch);
    watchers.swap(watchers_);
  }
  for (const auto& one : watchers) one->try_set_value();
}

bool Membership::has_lost_rank_0() const {
  const std::lock_guard lock(mutex_);
  return rank_0_lost_;
}

void Membership::rank_0_lost(const std::string& why) {
  {
    const std::lock_guard lock(mutex_);
    if (!failure_) rank_0_lost_ = true;
  }
  end(std::make_exception_ptr(PeerLostError("rank 0 is gone: " + why, true)));
}

void Membership::end(std::exception_ptr failure) {
  std::vector<Ref<FutureState<void>>> waiting;
  {
    const std::lock_guard lock(mutex_);
    if (failure_) return;
    failure_ = std::move(failure);
    waiting.swap(watchers_);
    turn_ended_.notify_all();
    for (const auto& [number, question] : asked_) waiting.push_back(question->answered);
  }
  for (const auto& one : waiting) one->try_set_value();
}

std::optional<GroupEvents::Refusal> WorkerEvents::asked(const Hello& theirs) {
  if (!theirs.enquiry) return std::nullopt;
  return Refusal{.kind = RefusalKind::usage, .text = "the group meets at rank 0, not at this worker"};
}

void WorkerEvents::received(const WorkerInfo& from, uint64_t, Bytes payload) {
  RendezvousMessage message = decode_rendezvous(std::move(payload));
  TENDRIL_CHECK_AS(MessageError, from.id == 0, "rendezvous: a message from ", name_of(from), ", not from rank 0");
  membership_->heard(std::move(message));
}

void WorkerEvents::lost(const Loss& loss) {
  if (loss.peer.id == 0) return membership_->rank_0_lost(loss.why);
  membership_->peer_lost(loss);
}

}  // namespace tendril::rpc::detail
