#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "tendril/rpc/call_context.h"
#include "tendril/rpc/wire/ids.h"
#include "tendril/rpc/wire/message.h"

namespace tendril::rpc {

/// What workers tell each other about references and calls (docs/rref.md). All records have the same length; a kind
/// leaves what it has no use for at zero.
struct ControlRecord {
  enum Kind : uint8_t {
    fork_request = 1,        ///< to the owner of `rref`: this worker is a user now, by `fork`
    fork_accept = 2,         ///< from the owner: `fork` is known, the object lives
    fork_lost = 3,           ///< from the owner: there is no such object (any more)
    fork_delete = 4,         ///< to the owner: the user `fork` is gone
    received = 5,            ///< `message` of call `call_id` came and its references are decided: release their parents
    not_received = 6,        ///< request `call_id` had not come when it was cancelled, and never will be served
    call_cancelled = 7,      ///< by the caller: whatever comes for `call_id` will be dropped
    creation_cancelled = 8,  ///< as call_cancelled; the call was to create `rref`, with `fork` as its first user
    creations_from = 9,      ///< to the owner: creations numbered below `call_id` went to earlier sessions
  };
  Kind kind = fork_request;
  MessageKind message = MessageKind::request;  ///< of received: request or reply
  uint64_t call_id = 0;
  RRefId rref = {};
  ForkId fork = {};

  friend bool operator==(const ControlRecord&, const ControlRecord&) = default;
};

/// Carries the control records of one session, in one direction and their acknowledgements in the other: whatever the
/// network loses, repeats or reorders, every record is handed out once and in order. Does no I/O and reads no clock.
/// Not thread-safe.
class ControlChannel {
 public:
  static constexpr auto kAckDelay = std::chrono::milliseconds(20);
  static constexpr auto kFirstRetry = std::chrono::milliseconds(200);
  static constexpr auto kLastRetry = std::chrono::seconds(5);
  static constexpr std::size_t kMaxRecords = 4096;  ///< a message holds at most
  static constexpr std::size_t kMaxAhead = 4096;  ///< records kept that came before their turn, and sent again at once

  /// Numbers the records (at most kMaxRecords) and keeps them until they are acknowledged; returns the message that
  /// carries them. Has no effect if it throws.
  Bytes send(std::vector<ControlRecord> records, Clock::time_point now);
  /// Reads a message of the peer; returns the records whose turn it is. Throws MessageError.
  std::vector<ControlRecord> receive(const Bytes& payload, Clock::time_point now);
  /// What is due: an acknowledgement, or records again. Nothing if empty.
  std::vector<Bytes> on_timer(Clock::time_point now);
  /// When `on_timer` is next needed; max() if nothing is outstanding.
  Clock::time_point next_timer() const noexcept;

  std::size_t unacknowledged() const noexcept { return sent_.size(); }

 private:
  template <class Iterator>
  Bytes encode(uint64_t first, Iterator begin, Iterator end);

  uint64_t next_to_send_ = 1;       // number of the next record
  std::deque<ControlRecord> sent_;  // not acknowledged: the last of them is next_to_send_ - 1
  Clock::time_point retry_at_ = Clock::time_point::max();
  Clock::duration retry_delay_ = kFirstRetry;

  uint64_t next_expected_ = 1;
  std::map<uint64_t, ControlRecord> ahead_;
  Clock::time_point ack_at_ = Clock::time_point::max();
};

/// The message, or several of at most `max_bytes` each (at least kMinPayloadBytes) that say the same.
std::vector<Bytes> split_control(Bytes message, uint64_t max_bytes);

}  // namespace tendril::rpc
