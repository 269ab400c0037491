#include "tendril/rpc/group/gatherings.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "tendril/rpc/group/gathering.h"

namespace tendril::rpc {

namespace {
constexpr std::size_t kMaxGatheringsPerWorker = 64;  // limit on the gatherings that one worker is in at a time
}

void Gatherings::contribute(WorkerId from, const RendezvousMessage& message, Clock::time_point now) {
  if (const std::string wrong = problem(from, message); !wrong.empty())
    return refuse(from, message.question, {GroupFailure::usage, roster_.describe(from) + wrong});
  const bool all =
      message.attendance == Attendance::alive || message.ranks.size() == static_cast<std::size_t>(roster_.world_size());
  const Ranks ranks = all ? Ranks() : message.ranks;
  if (const auto gone = missing(ranks, message)) return refuse(from, message.question, {GroupFailure::lost, *gone});

  const auto found = open_.try_emplace(ranks).first;
  Gathering& gathering = found->second;
  if (gathering.contributions.empty()) {
    gathering.phase = message.text;
    gathering.attendance = message.attendance;
  } else if (gathering.phase != message.text || gathering.attendance != message.attendance) {
    const Failure failure{GroupFailure::usage,
                          roster_.describe(from) + " is at '" + message.text + "' while " +
                              roster_.describe(gathering.contributions.begin()->first) + " is at '" + gathering.phase +
                              "'" + (gathering.phase == message.text ? " with different arguments" : "") +
                              ": all workers must do the same in the same order"};
    refuse(from, message.question, failure);
    gathering.contributions.erase(from);
    fail(found, failure);
    return;
  }
  const std::chrono::milliseconds patience(std::min<uint64_t>(message.timeout_ms, uint64_t{1} << 40));
  gathering.contributions[from] = {.question = message.question,
                                   .part = message.parts[0],
                                   .patience = patience,
                                   .deadline = message.timeout_ms == 0 ? Clock::time_point::max() : now + patience};
  gathering.deadline = std::min(gathering.deadline, gathering.contributions[from].deadline);
  settle(found);
}

Gatherings::Open::iterator Gatherings::settle(Open::iterator one) {
  const auto& [ranks, gathering] = *one;
  if (gathering.contributions.empty()) return open_.erase(one);
  if (complete(ranks, gathering)) {
    send_to_all(ranks, gathering);
    return open_.erase(one);
  }
  if (gathering.phase != phases::kShutdown ||
      gathering.contributions.size() < static_cast<std::size_t>(roster_.alive_count()))
    return std::next(one);
  const auto gone = std::find_if(roster_.all().begin(), roster_.all().end(),
                                 [](const MemberRecord& member) { return member.state != MemberState::alive; });
  if (gone == roster_.all().end()) return std::next(one);
  return fail(one, {GroupFailure::lost, roster_.why_not(gone->rank, gathering.phase)});
}

/// Checks a contribution by itself. Returns the problem, or an empty string.
std::string Gatherings::problem(WorkerId from, const RendezvousMessage& message) const {
  const Ranks& ranks = message.ranks;
  if (message.parts.size() != 1 || message.parts[0].size() > kMaxContributionBytes ||
      message.attendance > Attendance::alive)
    return " sent a malformed contribution";
  if (std::adjacent_find(ranks.begin(), ranks.end(), std::greater_equal<>()) != ranks.end() ||
      (!ranks.empty() && (ranks.front() < 0 || ranks.back() >= roster_.world_size())) || !takes_part(ranks, from))
    return " asked for a gathering with invalid ranks or without itself";
  const auto mine = std::count_if(open_.begin(), open_.end(),
                                  [&](const auto& one) { return one.second.contributions.contains(from); });
  if (static_cast<std::size_t>(mine) >= kMaxGatheringsPerWorker) return " is in too many gatherings at once";
  return {};
}

/// Returns why the gathering cannot succeed, if one of its workers is not in the state that the contributor assumes.
std::optional<std::string> Gatherings::missing(const Ranks& ranks, const RendezvousMessage& message) const {
  if (message.attendance == Attendance::alive || (ranks.empty() && message.text == phases::kShutdown))
    return std::nullopt;
  if (roster_.all_alive() && message.epoch >= roster_.epoch()) return std::nullopt;
  for (const MemberRecord& member : roster_.all()) {
    if (takes_part(ranks, member.rank) && (member.state != MemberState::alive || member.epoch > message.epoch))
      return roster_.why_not(member.rank, message.text);
  }
  if (message.attendance == Attendance::named || message.epoch == roster_.epoch()) return std::nullopt;
  return "the group is at epoch " + std::to_string(roster_.epoch()) + ", and this '" + message.text + "' is of epoch " +
         std::to_string(message.epoch);
}

bool Gatherings::takes_part(const Ranks& ranks, WorkerId rank) const {
  return ranks.empty() || std::binary_search(ranks.begin(), ranks.end(), rank);
}

bool Gatherings::complete(const Ranks& ranks, const Gathering& gathering) const {
  const auto wanted = gathering.attendance == Attendance::alive ? static_cast<std::size_t>(roster_.alive_count())
                      : ranks.empty()                           ? static_cast<std::size_t>(roster_.world_size())
                                                                : ranks.size();
  return gathering.contributions.size() == wanted;
}

/// Answers rank 0 last, because it may leave as soon as it has its answer.
void Gatherings::send_to_all(const Ranks& ranks, const Gathering& gathering) {
  RendezvousMessage gathered{.kind = RendezvousKind::gathered};
  const bool empty = std::all_of(gathering.contributions.begin(), gathering.contributions.end(),
                                 [](const auto& one) { return one.second.part.empty(); });
  for (WorkerId rank = 0; rank < roster_.world_size() && !empty; ++rank) {
    if (!takes_part(ranks, rank)) continue;
    const auto found = gathering.contributions.find(rank);
    gathered.parts.push_back(found == gathering.contributions.end() ? std::string() : found->second.part);
  }
  const Bytes bytes = encode(gathered);
  for (auto one = gathering.contributions.rbegin(); one != gathering.contributions.rend(); ++one)
    answers_.push_back({one->first, with_question(bytes, one->second.question)});
  if (ranks.empty()) met_ = true;
  if (ranks.empty() && phases::is_of_shutdown(gathering.phase)) shutting_down_ = true;
  if (ranks.empty() && gathering.phase == phases::kLast) over_ = true;
}

bool Gatherings::member_changed(WorkerId rank) {
  bool failed = false;
  for (auto one = open_.begin(); one != open_.end();) {
    auto& [ranks, gathering] = *one;
    if (gathering.attendance == Attendance::alive || (ranks.empty() && gathering.phase == phases::kShutdown)) {
      gathering.contributions.erase(rank);
      const std::size_t before = answers_.size();
      one = settle(one);
      failed = failed || answers_.size() > before;
    } else if (takes_part(ranks, rank) || gathering.attendance == Attendance::unchanged) {
      gathering.contributions.erase(rank);
      failed = failed || !gathering.contributions.empty();
      one = fail(one, {GroupFailure::lost, roster_.why_not(rank, gathering.phase)});
    } else {
      ++one;
    }
  }
  return failed;
}

void Gatherings::on_timer(Clock::time_point now) {
  for (auto one = open_.begin(); one != open_.end();) {
    auto& [ranks, gathering] = *one;
    if (gathering.deadline > now) {
      ++one;
      continue;
    }
    const auto first =
        std::min_element(gathering.contributions.begin(), gathering.contributions.end(),
                         [](const auto& a, const auto& b) { return a.second.deadline < b.second.deadline; });
    if (first->second.deadline > now) {  // the worker with the earlier deadline is gone
      gathering.deadline = first->second.deadline;
      ++one;
      continue;
    }
    const std::string late = roster_.list([&, &r = ranks, &g = gathering](WorkerId rank) {
      return takes_part(r, rank) && !g.contributions.contains(rank) &&
             (g.attendance != Attendance::alive || roster_.alive(rank));
    });
    one = fail(one, {GroupFailure::timeout, "after " + text_of(first->second.patience) +
                                                " these workers have not reached '" + gathering.phase + "': " + late});
  }
}

Clock::time_point Gatherings::deadline() const {
  Clock::time_point first = Clock::time_point::max();
  for (const auto& [ranks, gathering] : open_) first = std::min(first, gathering.deadline);
  return first;
}

void Gatherings::refuse(WorkerId to, uint32_t question, const Failure& failure) {
  failure_ = failure;
  answers_.push_back({to, encode({.kind = RendezvousKind::not_gathered,
                                  .question = question,
                                  .text = failure.text,
                                  .failure = failure.kind})});
}

Gatherings::Open::iterator Gatherings::fail(Open::iterator gathering, const Failure& failure) {
  const auto& contributions = gathering->second.contributions;
  if (phases::is_of_shutdown(gathering->second.phase) && contributions.contains(0)) shutting_down_ = true;
  for (auto one = contributions.rbegin(); one != contributions.rend(); ++one)
    refuse(one->first, one->second.question, failure);
  return open_.erase(gathering);
}

std::vector<Gatherings::Answer> Gatherings::take_answers() { return std::exchange(answers_, {}); }
std::optional<Gatherings::Failure> Gatherings::take_failure() { return std::exchange(failure_, std::nullopt); }

}  // namespace tendril::rpc
