#include "tendril/rpc/group/rendezvous.h"

#include <algorithm>
#include <utility>

#include "tendril/rpc/group/gathering.h"

namespace tendril::rpc {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kMaxRefusals = 8;  // limit on the refused workers, and on the lost workers, that an error lists
constexpr auto kChangeInterval = 20ms;   // changes that no gathering waits for are sent together

}  // namespace

std::string name_problem(const std::string& name) {
  const bool fits = !name.empty() && name.size() <= 127 && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
           c == ':';
  });
  if (fits) return {};
  return "the name " + quoted_name(name) + " is not 1 to 127 characters of A-Z a-z 0-9 - _ :";
}

RendezvousServer::RendezvousServer(int world_size, std::string self, uint64_t incarnation)
    : roster_(world_size), slots_(static_cast<std::size_t>(world_size)) {
  roster_.set_name(0, self);
  slots_[0].connected = true;
  slots_[0].incarnation = incarnation;
}

std::vector<RendezvousServer::Action> RendezvousServer::take_actions() { return std::exchange(actions_, {}); }

bool RendezvousServer::failure_sent_to_all() const noexcept {
  return !failed() || std::all_of(slots_.begin(), slots_.end(), [](const Slot& slot) { return slot.told; });
}

bool RendezvousServer::all_left() const noexcept {
  return std::none_of(slots_.begin() + 1, slots_.end(), [](const Slot& slot) { return slot.connected; });
}

bool RendezvousServer::awaits(WorkerId rank) const {
  return !failed() && (complete() ? roster_.alive(rank) : slots_.at(static_cast<std::size_t>(rank)).connected);
}

void RendezvousServer::note_refused(const std::string& why) {
  if (complete() || failed()) return;
  if (std::find(refusals_.begin(), refusals_.end(), why) != refusals_.end()) return;
  if (refusals_.size() < kMaxRefusals) refusals_.push_back(why);
}

/// A refused process cannot end the group. If it was meant to belong to it, its rank is missing at the deadline, and
/// the error then names the process.
std::optional<RendezvousServer::Refusal> RendezvousServer::admit(const WorkerInfo& who, int world_size) {
  const bool in_range = who.id >= 0 && who.id < roster_.world_size();
  if (failed() && in_range && !complete() && !slot(who.id).told) {
    slot(who.id).told = true;
    return Refusal{.text = failure_->text, .failure = failure_->kind};
  }
  return complete() || failed() ? admit_again(who, world_size) : admit_first(who, world_size);
}

std::optional<RendezvousServer::Refusal> RendezvousServer::admit_first(const WorkerInfo& who, int world_size) {
  const WorkerId rank = who.id;
  const std::string text = "rank " + std::to_string(rank) + " (" + quoted_name(who.name) + ")";
  const auto refuse = [&](const std::string& why) {
    note_refused(why);
    return Refusal{.text = why};
  };
  if (world_size != roster_.world_size())
    return refuse("world sizes differ: rank 0 has " + std::to_string(roster_.world_size()) + ", " + text + " has " +
                  std::to_string(world_size));
  if (rank < 0 || rank >= world_size)
    return refuse(text + " is out of range: the world size is " + std::to_string(world_size));
  if (const std::string problem = name_problem(who.name); !problem.empty())
    return refuse("rank " + std::to_string(rank) + ": " + problem);
  if (slot(rank).connected)
    return refuse("two workers have rank " + std::to_string(rank) + ": " + quoted_name(roster_.at(rank).name) +
                  " and " + quoted_name(who.name));
  for (WorkerId other = 0; other < world_size; ++other)
    if (slot(other).connected && roster_.at(other).name == who.name)
      return refuse("the name " + quoted_name(who.name) + " is not unique: ranks " + std::to_string(other) + " and " +
                    std::to_string(rank) + " have it");
  return std::nullopt;
}

/// The worker may belong to the next group that meets here, or may be a restarted worker of this one.
std::optional<RendezvousServer::Refusal> RendezvousServer::admit_again(const WorkerInfo& who, int world_size) {
  const int size = roster_.world_size();
  Refusal refusal{.text = "there is a group of " + std::to_string(size) + " workers already", .try_later = true};
  if (who.id < 0 || who.id >= size || !complete()) return refusal;
  const MemberRecord& member = roster_.at(who.id);
  refusal.text += ", whose rank " + std::to_string(who.id) + " is " + quoted_name(member.name);
  if (who.name != member.name || world_size != size || who.id == 0) return refusal;
  if (refuses_joins()) {
    refusal.text += " and which is shutting down";
    return refusal;
  }
  if (!roster_.alive(who.id) && !slot(who.id).connected) return std::nullopt;
  refusal.text += roster_.alive(who.id) ? " and is alive; a restarted worker can join once that one has ended"
                                        : ", which has not ended yet or is being restarted";
  return refusal;
}

bool RendezvousServer::refuses_joins() const {
  return failed() || !gatherings_.met() || leaving_ || gatherings_.over() || gatherings_.shutting_down();
}

void RendezvousServer::joiner_failed(const WorkerInfo& who, const std::string& why) {
  if (!complete()) fail(GroupFailure::lost, name_of(who) + " failed: " + why);
}

void RendezvousServer::connected(const WorkerInfo& who, uint64_t incarnation, Clock::time_point now) {
  if (slot(who.id).connected) closed(who.id, slot(who.id).incarnation, now);  // its end has not been reported yet
  slot(who.id) = {.connected = true, .incarnation = incarnation};
  if (!complete()) roster_.set_name(who.id, who.name);
}

void RendezvousServer::received(WorkerId rank, uint64_t incarnation, const RendezvousMessage& message,
                                Clock::time_point now) {
  if (!slot(rank).connected || slot(rank).incarnation != incarnation) return;
  if (failed()) {  // it sent this before it learned of the failure
    if (message.kind == RendezvousKind::join || message.kind == RendezvousKind::contribute)
      refuse(rank, failure_->kind, failure_->text);
    return;
  }
  const bool met = gatherings_.met();
  switch (message.kind) {
    case RendezvousKind::join:
      return complete() && !roster_.alive(rank) ? join_again(rank, message, now) : join(rank, message, now);
    case RendezvousKind::contribute:
      return contribute(rank, message, now);
    case RendezvousKind::fail:
      if (met && rank != 0) return gone(rank, MemberState::left, message.text.empty() ? "?" : message.text, now);
      slot(rank).told = true;
      return fail(GroupFailure::lost, roster_.describe(rank) + " failed: " + message.text);
    case RendezvousKind::lost_peer:
      return;  // only logged: rank 0 judges by its own sessions which workers are alive
    case RendezvousKind::leave:
      leaving_ = leaving_ || rank == 0;
      if (rank != 0 && complete()) gone(rank, MemberState::left, {}, now);
      return;
    default:
      if (met && rank != 0)
        return refuse(rank, GroupFailure::usage, roster_.describe(rank) + " sent an unexpected message");
      return fail(GroupFailure::usage, roster_.describe(rank) + " sent an unexpected message");
  }
}

void RendezvousServer::join(WorkerId rank, const RendezvousMessage& message, Clock::time_point now) {
  if (roster_.alive(rank) || message.parts.size() != 1 || message.parts[0].size() > kMaxIntroductionBytes) {
    const std::string text = roster_.describe(rank) + " sent a malformed or repeated request to join";
    return gatherings_.met() && rank != 0 ? refuse(rank, GroupFailure::usage, text) : fail(GroupFailure::usage, text);
  }
  Slot& mine = slot(rank);
  mine.patience = std::chrono::milliseconds(std::min<uint64_t>(message.timeout_ms, uint64_t{1} << 40));
  mine.deadline = message.timeout_ms == 0 ? Clock::time_point::max() : now + mine.patience;
  roster_.joined(rank, mine.incarnation, message.parts[0]);
  if (!complete()) return;
  const Bytes bytes = welcome();
  for (WorkerId to = roster_.world_size() - 1; to >= 0; --to) {
    slot(to).deadline = Clock::time_point::max();
    actions_.push_back({to, bytes});
  }
}

/// The other members are told first, so that the welcome includes every change that they have been told.
void RendezvousServer::join_again(WorkerId rank, const RendezvousMessage& message, Clock::time_point now) {
  if (message.parts.size() != 1 || message.parts[0].size() > kMaxIntroductionBytes)
    return refuse(rank, GroupFailure::usage, roster_.describe(rank) + " sent a malformed request to join");
  if (refuses_joins()) return refuse(rank, GroupFailure::lost, "the group is shutting down and accepts no workers");
  roster_.joined(rank, slot(rank).incarnation, message.parts[0]);
  unsent_.insert(rank);
  send_changes(now, rank);
  gatherings_.member_changed(rank);
  after_gatherings();
  actions_.push_back({rank, welcome()});
}

Bytes RendezvousServer::welcome() const {
  return encode({.kind = RendezvousKind::welcome, .epoch = roster_.epoch(), .members = roster_.all()});
}

void RendezvousServer::contribute(WorkerId rank, const RendezvousMessage& message, Clock::time_point now) {
  if (!roster_.alive(rank) || !complete()) {
    const std::string text = roster_.describe(rank) + " sent an unexpected contribution";
    return gatherings_.met() && rank != 0 ? refuse(rank, GroupFailure::usage, text) : fail(GroupFailure::usage, text);
  }
  if (!unsent_.empty()) send_changes(now);  // before the answer, which may depend on them
  gatherings_.contribute(rank, message, now);
  after_gatherings();
}

void RendezvousServer::after_gatherings() {
  const auto failure = gatherings_.take_failure();
  if (failure && !gatherings_.met()) return fail(failure->kind, failure->text);
  for (Gatherings::Answer& answer : gatherings_.take_answers())
    if (slot(answer.to).connected) actions_.push_back({answer.to, std::move(answer.bytes)});
}

void RendezvousServer::gone(WorkerId rank, MemberState how, const std::string& why, Clock::time_point now) {
  if (!roster_.alive(rank) || gatherings_.over()) return;
  roster_.gone(rank, how, why);
  if (!gatherings_.met()) return fail(GroupFailure::lost, roster_.why_not(rank, phases::kJoined));
  unsent_.insert(rank);
  if (gatherings_.member_changed(rank) || now >= sent_at_ + kChangeInterval) {
    send_changes(now);  // before the answers of gatherings that this change fails
  } else {
    send_at_ = sent_at_ + kChangeInterval;
  }
  after_gatherings();
}

void RendezvousServer::send_changes(Clock::time_point now, WorkerId except) {
  RendezvousMessage news{.kind = RendezvousKind::changed, .epoch = roster_.epoch()};
  for (const WorkerId rank : unsent_) news.members.push_back(roster_.at(rank));
  std::sort(news.members.begin(), news.members.end(), [](const auto& a, const auto& b) { return a.epoch < b.epoch; });
  unsent_.clear();
  sent_at_ = now;
  send_at_ = Clock::time_point::max();
  const Bytes bytes = encode(news);
  for (WorkerId to = roster_.world_size() - 1; to >= 0; --to)
    if (to != except && roster_.alive(to) && slot(to).connected) actions_.push_back({to, bytes});
}

void RendezvousServer::closed(WorkerId rank, uint64_t incarnation, Clock::time_point now, const std::string& why) {
  Slot& its = slot(rank);
  if (!its.connected || its.incarnation != incarnation) return;
  its.connected = false;
  if (failed()) {
    its.told = true;         // it can no longer be told
  } else if (!complete()) {  // it may be restarted
    its = {.lost = why};
    roster_.forget(rank);
  } else if (roster_.at(rank).incarnation == incarnation) {
    gone(rank, MemberState::lost, {}, now);
  }
}

void RendezvousServer::on_timer(Clock::time_point now) {
  if (failed()) return;
  if (!complete()) {
    const auto first = std::min_element(slots_.begin(), slots_.end(),
                                        [](const Slot& a, const Slot& b) { return a.deadline < b.deadline; });
    if (now >= first->deadline)
      fail(GroupFailure::timeout,
           "after " + text_of(first->patience) + " these workers have not joined: " + describe_missing());
    return;
  }
  if (now >= send_at_) send_changes(now);
  gatherings_.on_timer(now);
  after_gatherings();
}

Clock::time_point RendezvousServer::deadline() const {
  if (failed()) return Clock::time_point::max();
  if (complete()) return std::min(gatherings_.deadline(), send_at_);
  Clock::time_point first = Clock::time_point::max();
  for (const Slot& slot : slots_) first = std::min(first, slot.deadline);
  return first;
}

void RendezvousServer::fail(GroupFailure kind, std::string text) {
  if (failed()) return;
  failure_ = Gatherings::Failure{kind, std::move(text)};
  gatherings_.end();
  const bool was_complete = complete();
  for (WorkerId rank = roster_.world_size() - 1; rank >= 0; --rank) {
    if (slot(rank).connected) refuse(rank, kind, failure_->text);
    if (was_complete) slot(rank).told = true;
  }
}

/// Tells a worker only once. Messages that it sent before it received the refusal are not answered.
void RendezvousServer::refuse(WorkerId rank, GroupFailure kind, const std::string& text) {
  if (!std::exchange(slot(rank).told, true))
    actions_.push_back({rank, encode({.kind = RendezvousKind::refused, .text = text, .failure = kind})});
}

std::string RendezvousServer::describe_missing() const {
  std::string text = roster_.list([&](WorkerId rank) { return !roster_.alive(rank); });
  text += " (of world size " + std::to_string(roster_.world_size()) + ")";
  std::size_t lost = 0;
  for (const Slot& slot : slots_) {
    if (slot.lost.empty() || ++lost > kMaxRefusals) continue;
    text += (lost == 1 ? "; lost: " : ", ") + slot.lost;
  }
  if (lost > kMaxRefusals) text += ", " + std::to_string(lost - kMaxRefusals) + " more";
  for (std::size_t i = 0; i < refusals_.size(); ++i) text += (i == 0 ? "; refused: " : "; ") + refusals_[i];
  return text;
}

}  // namespace tendril::rpc
