#include "tendril/rpc/transport/connection_state.h"

#include <algorithm>
#include <utility>

namespace tendril::rpc::detail {

void ConnectionState::opened(bool dialled) noexcept {
  phase_ = Phase::open;
  begun_ = true;
  dialled_ = dialled;
}

bool ConnectionState::wanted() noexcept { return phase_ == Phase::unconnected && !std::exchange(wanted_, true); }

ConnectionState::Loss ConnectionState::lost(Clock::time_point now) noexcept {
  if (phase_ == Phase::ended) return Loss::known;
  if (!resumable()) return Loss::end;
  if (phase_ != Phase::open) return Loss::known;
  return wait_until(now + grace_);
}

ConnectionState::Loss ConnectionState::stalled(Clock::time_point ends) noexcept {
  return phase_ == Phase::open && resumable() ? wait_until(ends) : Loss::known;
}

ConnectionState::Loss ConnectionState::wait_until(Clock::time_point ends) noexcept {
  phase_ = Phase::lost;
  ++number_;
  grace_ends_ = ends;
  return Loss::wait;
}

bool ConnectionState::grace_over(uint64_t connection) const noexcept {
  return phase_ == Phase::lost && connection == number_;
}

bool ConnectionState::resumed() noexcept {
  if (phase_ == Phase::open || phase_ == Phase::ended) return false;
  phase_ = Phase::open;
  begun_ = true;
  return true;
}

void ConnectionState::ended() noexcept {
  phase_ = Phase::ended;
  end_dial();
}

void ConnectionState::begin_dial(Clock::time_point now) noexcept {
  said_hello_ = false;
  pause_ = kShortestPause;
  // After a loss, the grace period limits the dial instead.
  dial_ends_ = begun_ ? Clock::time_point::max() : now + terms_.first_connection;
  // How long the side that was dialled leaves reconnecting to the other side. After crossed dials, both sides may have
  // been dialled, so their times differ.
  const Clock::duration patience = phase_ == Phase::lost ? grace_ends_ - now : terms_.grace;
  introduces_from_ = now + patience * (terms_.self < terms_.peer ? 1 : 3) / 8;
}

std::optional<Clock::time_point> ConnectionState::try_dial(Clock::time_point now) noexcept {
  said_hello_ = false;
  if (phase_ == Phase::open || phase_ == Phase::ended) return std::nullopt;
  return now + (begun_ ? kAttempt : kFirstAttempt);
}

bool ConnectionState::should_introduce(Clock::time_point now) const noexcept {
  return !begun_ || dialled_ || now >= introduces_from_;
}

ConnectionState::Hello ConnectionState::say_hello(uint64_t received) noexcept {
  said_hello_ = true;
  said_received_ = received;
  return {terms_.incarnation, terms_.peer_incarnation, received, ++attempts_, last_attempt_, session_};
}

ConnectionState::Answer ConnectionState::answered(const Hello& theirs, uint64_t received) noexcept {
  if (theirs.incarnation != terms_.peer_incarnation || theirs.peer_incarnation != terms_.incarnation) {
    return Answer::restarted;
  }
  if (phase_ == Phase::open || phase_ == Phase::ended) return Answer::not_needed;
  if (received != said_received_ || theirs.session != session_) return Answer::stale;
  dialled_ = true;
  connected_by_ = attempts_;
  ++resumption_;  // as in `take`
  return Answer::resume;
}

bool ConnectionState::adopt_peer_session(uint32_t next) noexcept {
  said_hello_ = false;
  if (begun_ || next <= session_) return false;
  session_ = next;
  last_attempt_ = 0;
  return true;
}

std::optional<Clock::time_point> ConnectionState::retry(Clock::time_point now) noexcept {
  said_hello_ = false;
  const Clock::time_point next = now + pause_;
  if (next >= dial_ends_) return std::nullopt;
  pause_ = std::min(2 * pause_, kLongestPause);
  return next;
}

ConnectionState::Accept ConnectionState::accept(const Hello& theirs, uint64_t known_received,
                                                bool started) const noexcept {
  if (theirs.peer_incarnation != terms_.incarnation || theirs.incarnation != terms_.peer_incarnation) {
    return Accept::refuse;
  }
  if (theirs.session < session_) return Accept::refuse;
  if (theirs.session > session_) {
    if (begun_) return Accept::newer;
    return started ? Accept::take : Accept::ignore;
  }
  if (!started || theirs.attempt <= last_attempt_) return Accept::ignore;
  // Both sides may dial the first connection at the same time. The lower rank's dial wins once both have sent a hello.
  if (said_hello_ && terms_.self < terms_.peer) return Accept::ignore;
  // This hello was sent before the other side had accepted the connection that this side made.
  if (dialled_ && begun_ && theirs.taken < connected_by_) return Accept::ignore;
  if (theirs.received < known_received) return Accept::ignore;  // sent before a later connection
  return Accept::take;
}

void ConnectionState::take(const Hello& theirs) noexcept {
  session_ = theirs.session;
  last_attempt_ = theirs.attempt;
  ++resumption_;  // cancels an earlier resumption that has not finished, so that its frames are not counted
}

void ConnectionState::took() noexcept { dialled_ = false; }

}  // namespace tendril::rpc::detail
