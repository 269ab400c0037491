#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <unordered_map>

#include "tendril/rpc/transport/sent_frames.h"

namespace tendril::rpc {

/// Requests that wait for room, in order of arrival within each depth (CallContext::depth). Each operation takes the
/// same time however many requests wait. Not thread-safe.
class WaitingRequests {
 public:
  bool empty() const noexcept { return places_.empty(); }
  std::size_t size() const noexcept { return places_.size(); }
  /// The greatest depth of a waiting request; -1 if no request waits.
  int greatest_depth() const noexcept { return by_depth_.empty() ? -1 : by_depth_.begin()->first; }

  /// Whether a new request of this depth must wait behind a waiting one.
  bool is_before(uint8_t depth) const noexcept { return greatest_depth() >= depth; }
  void push(FrameList& one) {
    const Frame& frame = one.front();
    FrameList& queue = by_depth_[frame.depth()];
    try {
      places_.emplace(frame.call_id(), Place{frame.depth(), one.begin()});
    } catch (...) {
      if (queue.empty()) by_depth_.erase(frame.depth());
      throw;
    }
    queue.splice(queue.end(), one);
  }
  /// Moves requests that `admit` accepts to the end of `to`, deepest first, and stops at the first that it rejects.
  /// Requests of depth `closed_to` or less stay.
  template <class Admit>
  void admit(FrameList& to, int closed_to, const Admit& admit) {
    while (greatest_depth() > closed_to) {
      FrameList& queue = by_depth_.begin()->second;
      if (!admit(queue.front())) return;
      places_.erase(queue.front().call_id());
      to.splice(to.end(), queue, queue.begin());
      if (queue.empty()) by_depth_.erase(by_depth_.begin());
    }
  }
  /// Moves that call's request to `to`. Returns false if it does not wait here.
  bool withdraw(uint64_t call_id, FrameList& to) noexcept {
    const auto found = places_.find(call_id);
    if (found == places_.end()) return false;
    const auto queue = by_depth_.find(found->second.depth);
    to.splice(to.end(), queue->second, found->second.frame);
    if (queue->second.empty()) by_depth_.erase(queue);
    places_.erase(found);
    return true;
  }
  bool contains(uint64_t call_id) const noexcept { return places_.contains(call_id); }
  void drop(FrameList& to) noexcept {
    for (auto& [depth, queue] : by_depth_) to.splice(to.end(), queue);
    by_depth_.clear();
    places_.clear();
  }

 private:
  struct Place {
    uint8_t depth;
    FrameList::iterator frame;
  };
  std::map<uint8_t, FrameList, std::greater<>> by_depth_;  // never contains an empty list
  std::unordered_map<uint64_t, Place> places_;             // by call id
};

}  // namespace tendril::rpc
