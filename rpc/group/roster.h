#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "tendril/rpc/group/rendezvous_message.h"

namespace tendril::rpc {

/// The workers of a group and their states, as known to rank 0. Not thread-safe.
class Roster {
 public:
  explicit Roster(int world_size);

  int world_size() const noexcept { return static_cast<int>(members_.size()); }
  /// 0 until all workers have joined for the first time, then 1. Each change increments it.
  uint64_t epoch() const noexcept { return epoch_; }
  int alive_count() const noexcept { return alive_; }
  bool all_alive() const noexcept { return alive_ == world_size(); }
  bool alive(WorkerId rank) const { return at(rank).state == MemberState::alive; }
  const MemberRecord& at(WorkerId rank) const { return members_[static_cast<std::size_t>(rank)]; }
  const std::vector<MemberRecord>& all() const noexcept { return members_; }

  void set_name(WorkerId rank, const std::string& name) { members_[static_cast<std::size_t>(rank)].name = name; }
  /// Resets a rank as if its worker had never joined. Only before the group is complete.
  void forget(WorkerId rank);
  void joined(WorkerId rank, uint64_t incarnation, std::string introduction);
  void gone(WorkerId rank, MemberState how, const std::string& why);

  std::string describe(WorkerId rank) const;  ///< "worker 'ps' (rank 1)", or "rank 1"
  /// Why a gathering with this worker fails: "worker 'ps' (rank 1) is gone while others are at 'barrier'".
  std::string why_not(WorkerId rank, const std::string& phase) const;
  /// Describes the ranks for which `missing` returns true, at most 16 of them.
  template <class Missing>
  std::string list(const Missing& missing) const {
    std::string result;
    int listed = 0;
    for (const MemberRecord& member : members_) {
      if (!missing(member.rank)) continue;
      if (++listed > 16) return result + ", ...";
      result += (result.empty() ? "" : ", ") + describe(member.rank);
    }
    return result;
  }

 private:
  void note_change(MemberRecord& member, MemberState state);

  std::vector<MemberRecord> members_;  // by rank
  uint64_t epoch_ = 0;
  int alive_ = 0;
};

/// Quotes a name from an unknown process: unprintable characters become '?', and at most 64 characters are shown.
std::string quoted_name(const std::string& name);
/// "5 s", "200 ms"
std::string text_of(std::chrono::milliseconds time);

}  // namespace tendril::rpc
