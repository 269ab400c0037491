#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "tendril/rpc/clock.h"
#include "tendril/rpc/wire/ids.h"
#include "tendril/rpc/wire/message.h"

namespace tendril::rpc {

/// A record that workers exchange about references and calls (docs/rref.md). All records have the same length; fields
/// that a kind does not use are zero.
struct ControlRecord {
  enum Kind : uint8_t {
    fork_request = 1,        ///< to the owner of `rref`: this worker is now a user, with `fork`
    fork_accept = 2,         ///< from the owner: it knows `fork`, and the object exists
    fork_lost = 3,           ///< from the owner: the object does not exist, or no longer exists
    fork_delete = 4,         ///< to the owner: the user with `fork` has released the object
    received = 5,            ///< `message` of `call_id` arrived and its references are decided: release their parents
    not_received = 6,        ///< request `call_id` had not arrived when it was cancelled, and will never be served
    call_cancelled = 7,      ///< from the caller: it will drop any reply to `call_id`
    creation_cancelled = 8,  ///< like call_cancelled, for a call that creates `rref`, with `fork` as its first user
    creations_from = 9,      ///< to the owner: creations numbered below `call_id` belonged to earlier sessions
  };
  Kind kind = fork_request;
  MessageKind message = MessageKind::request;  ///< for `received`: request or reply
  uint64_t call_id = 0;
  RRefId rref = {};
  ForkId fork = {};

  friend bool operator==(const ControlRecord&, const ControlRecord&) = default;
};

/// One side's channel for the control records of a session. Every record is delivered exactly once and in order, even
/// if the network loses, repeats or reorders messages. Does no I/O and reads no clock. Not thread-safe.
class ControlChannel {
 public:
  static constexpr auto kAckDelay = std::chrono::milliseconds(20);
  static constexpr auto kFirstRetry = std::chrono::milliseconds(200);
  static constexpr auto kLastRetry = std::chrono::seconds(5);
  static constexpr std::size_t kMaxRecords = 4096;  ///< limit on records in a message
  /// Limit on records that are kept out of order, and on records that are resent at a time.
  static constexpr std::size_t kMaxAhead = 4096;

  /// Numbers the records (at most kMaxRecords), keeps them until they are acknowledged, and returns the message that
  /// contains them. Has no effect if it throws.
  Bytes send(std::vector<ControlRecord> records, Clock::time_point now);
  /// Reads a message from the peer, and returns the records that are next in order. Throws MessageError if the message
  /// is malformed.
  std::vector<ControlRecord> receive(const Bytes& payload, Clock::time_point now);
  /// Returns the messages that are due: resent records, or an acknowledgement.
  std::vector<Bytes> on_timer(Clock::time_point now);
  /// Returns when `on_timer` must be called next, or max() if nothing is outstanding.
  Clock::time_point next_timer() const noexcept;

  std::size_t unacknowledged() const noexcept { return sent_.size(); }

 private:
  template <class Iterator>
  Bytes encode(uint64_t first, Iterator begin, Iterator end);

  uint64_t next_to_send_ = 1;       // number of the next record
  std::deque<ControlRecord> sent_;  // not yet acknowledged; the last one has number next_to_send_ - 1
  Clock::time_point retry_at_ = Clock::time_point::max();
  Clock::duration retry_delay_ = kFirstRetry;

  uint64_t next_expected_ = 1;
  std::map<uint64_t, ControlRecord> ahead_;
  Clock::time_point ack_at_ = Clock::time_point::max();
};

/// Splits a message into messages of at most `max_bytes` each, with the same records. `max_bytes` must be at least
/// kMinPayloadBytes.
std::vector<Bytes> split_control(Bytes message, uint64_t max_bytes);

}  // namespace tendril::rpc
