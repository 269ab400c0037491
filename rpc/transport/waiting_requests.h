#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "tendril/rpc/transport/sent_frames.h"

namespace tendril::rpc {

/// Requests for which there is no room, each in its turn among those of its depth (CallContext::depth). Not
/// thread-safe.
class WaitingRequests {
 public:
  bool empty() const noexcept { return frames_.empty(); }
  std::size_t size() const noexcept { return frames_.size(); }
  const Frame& front() const noexcept { return frames_.front(); }

  /// Whether one of this depth has to wait behind one that is here.
  bool is_before(uint8_t depth) const noexcept {
    if (depth == 0) return !frames_.empty();
    return nested_ > 0 &&
           std::any_of(frames_.begin(), frames_.end(), [&](const Frame& frame) { return frame.depth() >= depth; });
  }
  void push(FrameList& one) {
    if (one.front().depth() > 0) ++nested_;
    frames_.splice(frames_.end(), one);
  }
  /// Moves those that `admit` takes to the end of `to`. Of those of one depth none passes another; those of depth
  /// `closed_to` or less stay.
  template <class Admit>
  void admit(FrameList& to, int closed_to, const Admit& admit) {
    for (auto at = frames_.begin(); at != frames_.end();) {
      const auto next = at++;
      const int depth = next->depth();
      if (depth <= closed_to) {
        if (nested_ == 0) return;
        continue;
      }
      if (!admit(*next)) {
        closed_to = depth;
        continue;
      }
      if (depth > 0) --nested_;
      to.splice(to.end(), frames_, next);
    }
  }
  /// Moves that call's request to `to`. False: it is not here.
  bool withdraw(uint64_t call_id, FrameList& to) noexcept {
    const auto found =
        std::find_if(frames_.begin(), frames_.end(), [&](const Frame& frame) { return frame.call_id() == call_id; });
    if (found == frames_.end()) return false;
    if (found->depth() > 0) --nested_;
    to.splice(to.end(), frames_, found);
    return true;
  }
  bool contains(uint64_t call_id) const noexcept {  // most ask for one that has just come
    return std::any_of(frames_.rbegin(), frames_.rend(),
                       [&](const Frame& frame) { return frame.call_id() == call_id; });
  }
  void drop(FrameList& to) noexcept {
    to.splice(to.end(), frames_);
    nested_ = 0;
  }

 private:
  FrameList frames_;
  std::size_t nested_ = 0;  // those of them that handlers made
};

}  // namespace tendril::rpc
