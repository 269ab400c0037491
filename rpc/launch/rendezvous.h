#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tendril/rpc/call_context.h"
#include "tendril/rpc/wire/message.h"
#include "tendril/rpc/worker.h"

/// How the workers of a group meet: each connects to rank 0's rendezvous, joins, and then takes part in *gatherings*:
/// every worker contributes some bytes to the same round, and when all have, everybody receives all contributions. A
/// gathering of nothing is a barrier. Joining, leaving and every barrier between are made of it (group.h).
///
/// What goes wrong at one worker ends the group for all: each is told once, with the name of whom it is about. Who
/// cannot be a worker of this group (another version or world size, a rank or name that is taken, a name that is none)
/// is told so and forgotten: any process of the host may knock, by mistake or not. If that leaves a rank without its
/// worker, the deadline says so, and who was refused why.
/// Nothing here does I/O or asks for the time.
namespace tendril::rpc {

inline constexpr uint16_t kRendezvousVersion = 1;
inline constexpr std::size_t kMaxJoinBytes = 4096;             ///< of a message of somebody who has not joined
inline constexpr std::size_t kMaxContributionBytes = 1 << 20;  ///< of a message of a worker
inline constexpr std::size_t kRendezvousPrefixBytes =
    10;  ///< length (u32) of what follows the prefix, magic (u32), version (u16)

enum class RendezvousKind : uint8_t {
  // a worker's
  join = 1,        ///< worker, world_size, timeout_ms; rank 0's own: text (the group's id, which it made)
  contribute = 2,  ///< round, text (the phase), parts[0], timeout_ms
  fail = 3,        ///< text: why this worker cannot go on
  leave = 4,       ///< the connection is about to end as it should
  // the rendezvous's
  welcome = 16,   ///< all have joined: text (the group's id), parts (the names, by rank)
  gathered = 17,  ///< round, parts (by rank)
  refused = 18,   ///< text, failure: the group has failed, or whoever asks cannot belong to it
  busy = 19,      ///< text: there is a group here already; try again later
};

/// What kind of failure ends a group; which exception it becomes.
enum class GroupFailure : uint8_t { usage = 0, timeout = 1, lost = 2 };

struct RendezvousMessage {
  RendezvousKind kind = RendezvousKind::join;
  std::string text = {};
  GroupFailure failure = GroupFailure::usage;
  uint16_t version = kRendezvousVersion;  ///< of the sender
  WorkerInfo worker = {};
  int32_t world_size = 0;
  uint32_t round = 0;
  uint64_t timeout_ms = 0;  ///< how long the worker is willing to wait; 0 = for ever
  std::vector<std::string> parts = {};
};

/// The message with its prefix.
Bytes encode(const RendezvousMessage& message);
/// The number of bytes that follow the prefix. Throws MessageError for a wrong magic and above `limit`.
std::size_t rendezvous_body_size(std::span<const std::byte> prefix, std::size_t limit);
/// Reads a message, prefix included. Of another version, only kind and text are read. Throws MessageError.
RendezvousMessage decode_rendezvous(std::span<const std::byte> bytes);

/// Throws the exception of this kind of failure.
[[noreturn]] void throw_group_failure(GroupFailure failure, const std::string& text);

/// Rank 0's side. Not thread-safe.
class RendezvousServer {
 public:
  using Connection = uint64_t;
  struct Action {
    Connection to = 0;
    Bytes bytes;         ///< to send, if any
    bool close = false;  ///< then close
  };

  /// `group` is the id that all workers of this group will share.
  RendezvousServer(int world_size, std::string group);

  void received(Connection from, const RendezvousMessage& message, Clock::time_point now);
  void closed(Connection connection);
  void on_timer(Clock::time_point now);
  /// Somebody was refused who never became a connection here; named where workers are missing.
  void note_refused(const std::string& why);
  /// Ends the group: rank 0 itself cannot go on.
  void fail(GroupFailure kind, std::string text);
  Clock::time_point deadline() const noexcept { return deadline_; }  ///< when `on_timer` has something to do
  std::vector<Action> take_actions();                                ///< what is to be done now, in order

  bool complete() const noexcept { return complete_; }  ///< all have joined
  bool failed() const noexcept { return failure_.has_value(); }
  bool all_told() const noexcept;        ///< of a failure: no rank is left that does not know
  std::string describe_missing() const;  ///< who has not joined, and who was refused

 private:
  struct Member {
    std::string name;
    Connection connection = 0;  // 0: none
    bool joined = false, left = false, told = false;
    std::optional<std::string> contribution;
    Clock::time_point deadline = Clock::time_point::max();  // until when it waits for the others,
    std::chrono::milliseconds patience{0};                  // which was so long when it began
  };
  struct Failure {
    GroupFailure kind;
    std::string text = {};
  };

  void join(Connection from, const RendezvousMessage& message, Clock::time_point now);
  void contribute(WorkerId rank, const RendezvousMessage& message, Clock::time_point now);
  void finish_round();
  void send(Connection to, const RendezvousMessage& message, bool close = false);
  void wait_for_others(Member& member, uint64_t timeout_ms, Clock::time_point now);
  void find_deadline();
  std::string describe(WorkerId rank) const;
  std::string list_ranks(bool (*missing)(const Member&)) const;

  const int world_size_;
  const std::string group_;
  std::vector<Member> members_;  // by rank
  std::map<Connection, WorkerId> ranks_;
  bool complete_ = false;
  uint32_t round_ = 0;
  std::string phase_;  // of the round, once somebody has contributed
  std::chrono::milliseconds patience_{0};
  Clock::time_point deadline_ = Clock::time_point::max();
  std::vector<std::string> refusals_;  // why somebody was refused while the group was awaited; a few
  std::optional<Failure> failure_;
  std::vector<Action> actions_;
};

/// Why this cannot be a worker's name; empty if it can.
std::string name_problem(const std::string& name);

}  // namespace tendril::rpc
