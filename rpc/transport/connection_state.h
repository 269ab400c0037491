#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "tendril/rpc/call_context.h"
#include "tendril/rpc/worker.h"

/// Decision 13 as a state machine: how one side of a session manages its connections. Each event is a function that
/// returns the action to take. The state machine is independent of sockets, the clock and frames. SocketLink, Connector
/// and AgentAdmission carry out its decisions.
namespace tendril::rpc::detail {

/// The connection state of one session. Leader thread only.
class ConnectionState {
 public:
  enum class Phase : uint8_t {
    unconnected,  ///< there has never been a connection
    open,
    lost,  ///< the connection has been lost
    ended
  };
  struct Terms {
    WorkerId self = 0, peer = 0;
    uint64_t incarnation = 0, peer_incarnation = 0;
    /// How long the session waits for another connection after it has lost one; 0: it ends with its connection.
    std::chrono::milliseconds grace{0};
    std::chrono::milliseconds first_connection{20'000};  ///< how long this side tries to make the first connection
    uint32_t session = 1;  ///< its number; a session that follows it between the same incarnations takes the next one
  };
  /// The part of a hello that concerns the session to continue (docs/wire.md, records 10 and 14).
  struct Hello {
    uint64_t incarnation = 0, peer_incarnation = 0;
    uint64_t received = 0;
    uint32_t attempt = 0;
    uint32_t taken = 0;  ///< the other side's last attempt that this side has accepted; 0: none
    uint32_t session = 1;
  };

  explicit ConnectionState(const Terms& terms) noexcept : terms_(terms), grace_(terms.grace), session_(terms.session) {}

  Phase phase() const noexcept { return phase_; }
  uint32_t session() const noexcept { return session_; }
  bool begun() const noexcept { return begun_; }      ///< there is or was a connection
  bool dialled() const noexcept { return dialled_; }  ///< this side made the last connection, and makes the next
  bool resumable() const noexcept { return grace_.count() > 0; }
  uint64_t connection() const noexcept { return number_; }      ///< the connection's number, to recognise stale events
  uint64_t resumption() const noexcept { return resumption_; }  ///< the number of the only valid resumption
  /// Whether a first connection or another one may still be made.
  bool can_reconnect() const noexcept { return phase_ != Phase::ended && (resumable() || !begun_); }

  // ---- connections
  /// The session begins with a connection. `dialled`: this side has made it.
  void opened(bool dialled) noexcept;
  /// A message is waiting to be sent. Returns true if this side must make the first connection.
  [[nodiscard]] bool wanted() noexcept;
  enum class Loss : uint8_t {
    known,  ///< nothing to do
    wait,   ///< wait for another connection until `grace_ends`; this side dials, or checks that the peer is alive
    end     ///< the session ends
  };
  /// The connection has ended.
  [[nodiscard]] Loss lost(Clock::time_point now) noexcept;
  /// The peer gives no sign of life over the open connection. As `lost`, except that the wait for another connection
  /// lasts until `ends`, not for the grace period.
  [[nodiscard]] Loss stalled(Clock::time_point ends) noexcept;
  Clock::time_point grace_ends() const noexcept { return grace_ends_; }
  /// The grace period after that connection is over. Returns true if the session has ended.
  [[nodiscard]] bool grace_over(uint64_t connection) const noexcept;
  /// The peer will end the session: no connection follows this one.
  void goodbye() noexcept { grace_ = std::chrono::milliseconds(0); }
  /// Both sides have agreed on another connection. Returns false if it is no longer needed.
  [[nodiscard]] bool resumed() noexcept;
  void ended() noexcept;

  // ---- dialling: one dial at a time, which makes several attempts
  void begin_dial(Clock::time_point now) noexcept;
  /// Another attempt begins. Returns its deadline, or nothing if no attempt is needed any more.
  [[nodiscard]] std::optional<Clock::time_point> try_dial(Clock::time_point now) noexcept;
  /// A process listens at the peer's endpoint. Returns false if this side, which did not make the last connection,
  /// still leaves the next one to the peer.
  [[nodiscard]] bool should_introduce(Clock::time_point now) const noexcept;
  /// This side sends a hello. Returns the part of it that concerns the session.
  Hello say_hello(uint64_t received) noexcept;
  enum class Answer : uint8_t {
    resume,      ///< over this connection
    not_needed,  ///< there is another connection, or the session has ended
    stale,       ///< this side's hello is outdated: dial again
    restarted    ///< another incarnation: the session has ended
  };
  /// The other side's hello has arrived. `received`: the number of frames received by now.
  [[nodiscard]] Answer answered(const Hello& theirs, uint64_t received) noexcept;
  /// The other side has refused, because this session has ended there; `next` is the number of its current session.
  /// Returns true if this session never had a connection and has taken that number: dial again. Returns false if this
  /// session has ended, too.
  [[nodiscard]] bool adopt_peer_session(uint32_t next) noexcept;
  /// The attempt has failed. Returns when to make another one, or nothing if it is too late and the session has ended.
  [[nodiscard]] std::optional<Clock::time_point> retry(Clock::time_point now) noexcept;
  void end_dial() noexcept { said_hello_ = false; }

  // ---- being dialled
  enum class Accept : uint8_t {
    take,    ///< answer it, unless the other side has closed the connection meanwhile
    ignore,  ///< close without an answer: the other side finds the session connected, or dials again
    refuse,  ///< the hello is of a session that has ended here, or of another incarnation
    newer    ///< the hello is of a later session: this one has ended at the other side, and ends here too
  };
  /// The other side has sent a hello. `known_received`: the number of frames that it is known to have received.
  /// `started`: this side may deliver messages.
  [[nodiscard]] Accept accept(const Hello& theirs, uint64_t known_received, bool started) const noexcept;
  /// That hello is about to be answered. A resumption that an earlier hello began is cancelled.
  void take(const Hello& theirs) noexcept;
  /// The hello has been answered: the connection counts as made by the other side.
  void took() noexcept;
  /// As `accept`, without a session with that incarnation. `expects_members`: this worker does not know yet which
  /// workers are members. `may_be_new`: the group announces new members to this worker, the hello is meant for this
  /// incarnation, and the sender's incarnation has not ended for good, so a session with it may begin here soon.
  static Accept accept_unknown(bool expects_members, bool may_be_new) noexcept {
    return expects_members || may_be_new ? Accept::ignore : Accept::refuse;
  }

 private:
  static constexpr std::chrono::milliseconds kAttempt{2000};
  /// An attempt to make the first connection may take longer, because the wait costs nothing else.
  static constexpr std::chrono::milliseconds kFirstAttempt{5000};
  static constexpr std::chrono::milliseconds kShortestPause{1}, kLongestPause{100};

  Loss wait_until(Clock::time_point ends) noexcept;

  const Terms terms_;
  std::chrono::milliseconds grace_;  // 0 once the peer has said goodbye
  uint32_t session_;                 // before the first connection it may be raised to the peer's
  Phase phase_ = Phase::unconnected;
  bool begun_ = false, wanted_ = false;
  bool dialled_ = false;
  uint64_t number_ = 1, resumption_ = 0;
  Clock::time_point grace_ends_ = Clock::time_point::max();
  uint32_t attempts_ = 0;      // of this side to connect
  uint32_t last_attempt_ = 0;  // the other side's last attempt that was accepted
  uint32_t connected_by_ = 0;  // this side's attempt that made the last connection

  bool said_hello_ = false;  // over the connection that this side is making
  uint64_t said_received_ = 0;
  std::chrono::milliseconds pause_{kShortestPause};
  Clock::time_point dial_ends_{}, introduces_from_{};
};

}  // namespace tendril::rpc::detail
