#include "tendril/rpc/group/roster.h"

#include <utility>

namespace tendril::rpc {

std::string text_of(std::chrono::milliseconds time) {
  const auto ms = time.count();
  return ms % 1000 == 0 ? std::to_string(ms / 1000) + " s" : std::to_string(ms) + " ms";
}

std::string quoted_name(const std::string& name) {
  std::string result = "'";
  for (const char c : name.substr(0, 64)) result += c >= ' ' && c <= '~' ? c : '?';
  return result + (name.size() > 64 ? "...'" : "'");
}

Roster::Roster(int world_size) : members_(static_cast<std::size_t>(world_size)) {
  for (WorkerId rank = 0; rank < world_size; ++rank) members_[static_cast<std::size_t>(rank)].rank = rank;
}

void Roster::forget(WorkerId rank) {
  MemberRecord& member = members_[static_cast<std::size_t>(rank)];
  if (member.state == MemberState::alive) --alive_;
  member = {.rank = rank};
}

void Roster::joined(WorkerId rank, uint64_t incarnation, std::string introduction) {
  MemberRecord& member = members_[static_cast<std::size_t>(rank)];
  member.incarnation = incarnation;
  member.introduction = std::move(introduction);
  member.why.clear();
  note_change(member, MemberState::alive);
}

void Roster::gone(WorkerId rank, MemberState how, const std::string& why) {
  constexpr std::size_t kLongest = 2048;
  MemberRecord& member = members_[static_cast<std::size_t>(rank)];
  member.introduction.clear();
  member.why = why.substr(0, kLongest);
  note_change(member, how);
}

/// All workers that join before the group is complete get epoch 1.
void Roster::note_change(MemberRecord& member, MemberState state) {
  if (member.state == MemberState::alive) --alive_;
  if (state == MemberState::alive) ++alive_;
  member.state = state;
  if (epoch_ > 0 || (state == MemberState::alive && all_alive())) ++epoch_;
  member.epoch = epoch_ > 0 ? epoch_ : 1;
}

std::string Roster::describe(WorkerId rank) const {
  const MemberRecord& member = at(rank);
  return member.name.empty() ? "rank " + std::to_string(rank)
                             : "worker " + quoted_name(member.name) + " (rank " + std::to_string(rank) + ")";
}

std::string Roster::why_not(WorkerId rank, const std::string& phase) const {
  const MemberRecord& member = at(rank);
  const std::string others = " while others are at '" + phase + "'";
  switch (member.state) {
    case MemberState::left:
      return describe(rank) + (member.why.empty() ? " has left the group" + others : " failed: " + member.why);
    case MemberState::alive:
      return describe(rank) + " has been restarted (epoch " + std::to_string(member.epoch) + ")" + others;
    default:
      return describe(rank) + " is gone" + others;
  }
}

}  // namespace tendril::rpc
