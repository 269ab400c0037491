#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "tendril/rpc/call_context.h"
#include "tendril/rpc/worker.h"

/// Decision 13 as a state machine: what one side of a session does about its connections when something happens. Events
/// are functions, what is to be done about them is what they return. Nothing here has a socket, asks for the time or
/// knows what a frame is. SocketLink, Connector and AgentAdmission do what is decided here.
namespace tendril::rpc::detail {

/// Of one session. The leader's.
class ConnectionState {
 public:
  enum class Phase : uint8_t {
    unconnected,  ///< there never was a connection
    open,
    lost,  ///< there was one
    ended
  };
  struct Terms {
    WorkerId self = 0, peer = 0;
    uint64_t incarnation = 0, peer_incarnation = 0;
    /// After a connection was lost, so long it waits for another one; 0: it ends with its connection.
    std::chrono::milliseconds grace{0};
    std::chrono::milliseconds first_connection{20'000};  ///< so long the first one is tried for
    uint32_t session = 1;  ///< its number; if it is lost while both incarnations live, the next number follows
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
  bool dialled() const noexcept { return dialled_; }  ///< this side has made the last one, and makes the next
  bool resumable() const noexcept { return grace_.count() > 0; }
  uint64_t connection() const noexcept { return number_; }  ///< which one this is, to tell what belongs to another one
  uint64_t resumption() const noexcept { return resumption_; }  ///< of those that were begun, the one that counts
  /// Another connection may follow this one, or be the first.
  bool can_go_on() const noexcept { return phase_ != Phase::ended && (resumable() || !begun_); }

  // ---- connections
  /// The session begins with a connection, which this side has made or not.
  void opened(bool dialled) noexcept;
  /// Something is to be sent. True: the first connection is to be made.
  [[nodiscard]] bool wanted() noexcept;
  enum class Loss : uint8_t { known, wait, end };
  /// The connection has ended. `wait`: for another one, until `grace_ends`; this side dials, or asks who is there.
  [[nodiscard]] Loss lost(Clock::time_point now) noexcept;
  /// The open connection gives no sign of life. As `lost`, except that the wait for another connection lasts until
  /// `ends`, not for the grace period.
  [[nodiscard]] Loss stalled(Clock::time_point ends) noexcept;
  Clock::time_point grace_ends() const noexcept { return grace_ends_; }
  /// The grace period of that connection is over. True: the session has ended.
  [[nodiscard]] bool grace_over(uint64_t connection) const noexcept;
  /// The peer will end the session: no connection follows this one.
  void goodbye() noexcept { grace_ = std::chrono::milliseconds(0); }
  /// Both sides have agreed on another connection. False: it is of no use any more.
  [[nodiscard]] bool resumed() noexcept;
  void ended() noexcept;

  // ---- dialling: one at a time, of several attempts
  void begin_dial(Clock::time_point now) noexcept;
  /// Another attempt begins. Nothing: none is needed any more. Else until when it may take.
  [[nodiscard]] std::optional<Clock::time_point> try_dial(Clock::time_point now) noexcept;
  /// Somebody listens there. False: the peer lives, and is left to make the connection itself, as it did the last one.
  [[nodiscard]] bool should_introduce(Clock::time_point now) const noexcept;
  /// This side says hello; what it says of the session.
  Hello say_hello(uint64_t received) noexcept;
  enum class Answer : uint8_t {
    resume,       ///< over this connection
    not_needed,   ///< there is another one
    stale,        ///< what this side has said is not so any more: again
    started_anew  ///< another incarnation: the session has ended
  };
  /// The other side's hello has come; `received` is what has been received by now.
  [[nodiscard]] Answer answered(const Hello& theirs, uint64_t received) noexcept;
  /// The other side has refused, because this session has ended there; `next` is the number of its current session.
  /// True: this session never had a connection and takes that number; dial again. False: this session has ended, too.
  [[nodiscard]] bool ended_there(uint32_t next) noexcept;
  /// The attempt has failed. When to make another one; nothing: it is too late, and the session has ended.
  [[nodiscard]] std::optional<Clock::time_point> retry(Clock::time_point now) noexcept;
  void end_dial() noexcept { said_hello_ = false; }

  // ---- being dialled
  enum class Accept : uint8_t {
    take,    ///< unless the other side has gone meanwhile
    ignore,  ///< closed without a word: the other side finds the session connected, or comes again
    refuse,  ///< the hello is of a session that has ended here, or of another incarnation
    newer    ///< the hello is of a later session: this one has ended at the other side, and ends here too
  };
  /// `known_received`: what the other side is known to have received. `started`: this side may deliver messages.
  [[nodiscard]] Accept accept(const Hello& theirs, uint64_t known_received, bool started) const noexcept;
  /// That hello is answered, whatever comes of it: what an earlier one has begun and not finished is forgotten.
  void take(const Hello& theirs) noexcept;
  /// It has been answered: the connection is the other side's.
  void took() noexcept;
  /// As `accept`, where there is no session with that incarnation. `expects_members`: this worker has not been told yet
  /// which workers are members. `may_be_new`: the group tells this worker of new members, the hello is meant for this
  /// incarnation, and the sender's incarnation has not ended for good: a session with it may begin here soon.
  static Accept accept_unknown(bool expects_members, bool may_be_new) noexcept {
    return expects_members || may_be_new ? Accept::ignore : Accept::refuse;
  }

 private:
  static constexpr std::chrono::milliseconds kAttempt{2000};
  /// Who waits for its first connection is more patient: nothing else is lost by it.
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

  bool said_hello_ = false;  // over the connection that this side makes
  uint64_t said_received_ = 0;
  std::chrono::milliseconds pause_{kShortestPause};
  Clock::time_point dial_ends_{}, introduces_from_{};
};

}  // namespace tendril::rpc::detail
