#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "tendril/rpc/group/sent_messages.h"
#include "tendril/rpc/simulation.h"

namespace tendril::rpc::detail {

struct Connection;
struct Segment;

/// Records the events of a simulation. Draws no random numbers, takes no lock and does not read a worker's clock, so
/// the run is the same without it.
class Recorder {
 public:
  /// `elapsed` returns the virtual time. Keeps `limit` events: half from the beginning, half from the end.
  Recorder(std::size_t limit, std::function<std::chrono::nanoseconds()> elapsed);

  /// Records an event at a worker, or at no worker if `rank` is -1.
  void happens(const char* kind, int rank, std::string_view text);
  /// Records an event at one end of a connection. Appends the rank of the other end to `text`.
  void connection(const Connection& connection, int end, const char* kind, std::string_view text);
  /// Records that the end `end` sends the segment. Must be called before faults change the segment.
  void sent(const Connection& connection, int end, const Segment& segment);
  /// Records that a fault has changed a byte of the last segment sent, `from_end` bytes before the segment's end.
  void corrupted(const Connection& connection, int end, std::size_t from_end);
  /// Records that the segment has arrived at the other end.
  void received(const Connection& connection, int end, const Segment& segment);

  uint64_t left_out() const noexcept;
  /// Returns the events, and stops recording.
  std::vector<SimulationEvent> take();

 private:
  /// A message that has not arrived.
  struct OnTheWay {
    uint64_t message;  // its number in the direction
    uint64_t event;
    uint64_t begin, end;  // offsets in the stream; `end` is 0 until it is known
  };
  /// One direction of a connection.
  struct Direction {
    SentMessages messages;
    uint64_t received = 0;  // bytes
    std::vector<OnTheWay> on_the_way;
    std::deque<std::pair<bool, uint64_t>> ends;  // segments without bytes: whether it is a reset, and its event
  };

  Direction& direction(const Connection& connection, int end);
  uint64_t add(SimulationEvent event);
  SimulationEvent* find(uint64_t event);
  void name_function(SimulationEvent& event, const SentMessage& message);

  const std::size_t first_, last_;  // numbers of events to keep
  const std::function<std::chrono::nanoseconds()> elapsed_;
  uint64_t added_ = 0;
  bool taken_ = false;
  std::vector<SimulationEvent> beginning_;
  std::deque<SimulationEvent> ending_;
  std::map<std::pair<uint64_t, int>, Direction> directions_;      // by the connection's number and the end
  std::map<std::tuple<int, int, uint64_t>, uint64_t> functions_;  // of calls, by caller, callee and the call's number
};

}  // namespace tendril::rpc::detail
