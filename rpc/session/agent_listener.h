#pragma once

#include <cstdint>
#include <exception>
#include <map>
#include <memory>

#include "tendril/rpc/call_context.h"
#include "tendril/rpc/wire/message.h"
#include "tendril/rpc/worker.h"

namespace tendril::rpc {

/// A received request or reply with references, held until they are confirmed by their owners. Destroyed without either
/// of the two calls, it is to be forgotten: a repetition of one that is held already.
class ParkedMessage {
 public:
  explicit ParkedMessage(Message&& received) : message(std::move(received)) {}
  virtual ~ParkedMessage() = default;

  /// `message.references` has been filled in: the request is dispatched, the reply completes its call. At most one of
  /// the two is called, once, on any thread, without locks held.
  virtual void resume(Message&& message) noexcept = 0;
  /// A reference was lost: the request is answered with the error, the call fails with it.
  virtual void refuse(std::exception_ptr error) noexcept = 0;

  Message message;
};

/// What an agent tells the RRef tables (rref_context.h). Calls about one peer come one at a time, except
/// `on_send` and those that say so; none may block.
///
/// A *session* with a peer lasts from `peer_joined` to `peer_lost`. Requests of one session are numbered 1, 2, 3, ...
/// by their sender (Message::call_id), so that the receiver can tell one that it has never seen.
class AgentListener {
 public:
  virtual ~AgentListener() = default;

  virtual void peer_joined(const WorkerInfo& peer, uint64_t incarnation) = 0;
  virtual void peer_lost(const WorkerInfo& peer, const std::exception_ptr& reason) = 0;
  /// Throws MessageError for bytes that cannot be read: the connection is then closed.
  virtual void control_received(const WorkerInfo& from, Bytes payload) = 0;

  /// A request or reply that holds references is about to be sent to another worker: fills in `message.forks` from
  /// `message.references` and takes those out. On the sending thread, any number at a time. If it throws, the call (or
  /// the reply) fails with that error.
  virtual void on_send(const WorkerInfo& to, Message& message) = 0;
  /// ... but was not sent after all (too large, the link was closed). Any thread.
  virtual void message_not_sent(const WorkerInfo& to, MessageKind kind, uint64_t call_id) noexcept = 0;
  /// A request or reply arrived whose `forks` are not empty.
  virtual void message_arrived(const WorkerInfo& from, std::unique_ptr<ParkedMessage> parked) noexcept = 0;

  /// A call to `to` ends by its deadline or is cancelled: its request may be anywhere, its reply will be dropped. Any
  /// thread; before the call itself fails.
  virtual void call_cancelled(const WorkerInfo& to, uint64_t call_id) noexcept = 0;

  /// The agent shuts down: from now on it must not be used. The last call.
  virtual void agent_closing() noexcept = 0;

  /// Whether the peer owes an answer to what it was told here (not to a call): then its silence is noticed.
  virtual bool awaits(const WorkerInfo&) const noexcept { return false; }

  /// Time passes: called at least once by the time it last returned (`max()`: not needed), and as often as it suits.
  virtual Clock::time_point on_timer(Clock::time_point now) noexcept = 0;
};

/// What became of a request; what Agent::withdraw_request answers.
enum class RequestStatus : uint8_t {
  unseen,   ///< it had not arrived: from now on it is dropped if it does
  serving,  ///< it waits, runs, or is parked: unanswered
  answered,
};

/// Which requests of a session have been received: each is served once, however often it arrives. Not thread-safe.
///
/// It remembers the gaps: runs of numbers that others have overtaken and that have not come. However many overtake one
/// large request, that is one gap. Requests that were taken back before they left make gaps for good: beyond kMaxGaps
/// the oldest is forgotten, and what is in it counts as seen. So a request is taken for a repetition only if so many
/// that did not follow each other were taken back while it was on its way.
class CallFilter {
 public:
  /// True the first time; false for a repetition and for a withdrawn call.
  bool admit(uint64_t call_id);
  /// Whether the call has been admitted or withdrawn.
  bool seen(uint64_t call_id) const;
  /// True if the call had been admitted; else it never will be.
  bool withdraw(uint64_t call_id) { return !admit(call_id); }

  static constexpr std::size_t kMaxGaps = 1 << 16;

 private:
  void add_gap(uint64_t first, uint64_t last);

  uint64_t last_ = 0;                  // the highest seen
  std::map<uint64_t, uint64_t> gaps_;  // the first number of each by its last one, below last_
};

}  // namespace tendril::rpc
