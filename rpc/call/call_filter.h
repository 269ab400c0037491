#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

namespace tendril::rpc {

/// The state of a request, as returned by Agent::withdraw_request.
enum class RequestStatus : uint8_t {
  unseen,   ///< has not arrived; if it does, it will be dropped
  serving,  ///< unanswered: waits, runs, or is parked
  answered,
};

/// Records which requests of a session have been received, so that each is served once, however often it arrives. Not
/// thread-safe.
///
/// Stores gaps: ranges of call IDs that have not arrived although higher ones have. However many requests overtake one
/// large request, they leave one gap. Requests that were withdrawn before they were sent leave permanent gaps. Beyond
/// kMaxGaps gaps, the oldest is forgotten, and its requests count as received. So a request is mistaken for a
/// repetition only if kMaxGaps requests with non-consecutive IDs were withdrawn while it was in flight.
class CallFilter {
 public:
  /// Returns true the first time, and false for a repetition or a withdrawn call.
  bool admit(uint64_t call_id);
  /// Whether the call has been admitted or withdrawn.
  bool seen(uint64_t call_id) const;
  /// Returns true if the call had been admitted or withdrawn already; otherwise it will never be admitted.
  bool withdraw(uint64_t call_id) { return !admit(call_id); }

  static constexpr std::size_t kMaxGaps = 1 << 16;

 private:
  void add_gap(uint64_t first, uint64_t last);

  uint64_t last_ = 0;                  // the highest ID received
  std::map<uint64_t, uint64_t> gaps_;  // last ID -> first ID of each gap, below `last_`
};

}  // namespace tendril::rpc
