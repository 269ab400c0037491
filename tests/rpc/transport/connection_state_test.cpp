// Each transition of a session's connection state (decision 13), without sockets or a clock. The workload `sessions`
// (tests/simulation/samples) breaks real connections at random.
#include "tendril/rpc/transport/connection_state.h"

#include <boost/test/unit_test.hpp>
#include <chrono>

BOOST_AUTO_TEST_SUITE(connection_state)

using namespace std::chrono_literals;
using tendril::rpc::Clock;
using State = tendril::rpc::detail::ConnectionState;
using Phase = State::Phase;
using Loss = State::Loss;
using Answer = State::Answer;
using Accept = State::Accept;

namespace {

constexpr Clock::time_point kNow = Clock::time_point() + 1h;

State of_rank(int self, std::chrono::milliseconds grace = 8s) {
  return State({.self = self,
                .peer = 1 - self,
                .incarnation = 100u + static_cast<unsigned>(self),
                .peer_incarnation = 101u - static_cast<unsigned>(self),
                .grace = grace});
}
State opened(int self, bool dialled, std::chrono::milliseconds grace = 8s) {
  State state = of_rank(self, grace);
  state.opened(dialled);
  return state;
}
State lost(int self, bool dialled) {
  State state = opened(self, dialled);
  BOOST_REQUIRE((state.lost(kNow) == Loss::wait));
  return state;
}
/// Returns a hello of the peer of `self`.
State::Hello hello(int self, uint32_t attempt = 1, uint64_t received = 0, uint32_t taken = 0, uint32_t session = 1) {
  return {101u - static_cast<unsigned>(self), 100u + static_cast<unsigned>(self), received, attempt, taken, session};
}

}  // namespace

BOOST_AUTO_TEST_CASE(first_connection_is_wanted_once) {
  State state = of_rank(0);
  BOOST_TEST((state.phase() == Phase::unconnected));
  BOOST_TEST(state.can_reconnect());
  BOOST_TEST(state.wanted());
  BOOST_TEST(!state.wanted());
  BOOST_TEST(state.resumed());
  BOOST_TEST((state.phase() == Phase::open));
  BOOST_TEST(!state.wanted());
  State begun = opened(0, true);
  BOOST_TEST(!begun.wanted());
}

BOOST_AUTO_TEST_CASE(session_waits_for_reconnection_during_grace_period) {
  State state = opened(0, true);
  const uint64_t first = state.connection();
  BOOST_TEST((state.lost(kNow) == Loss::wait));
  BOOST_TEST((state.grace_ends() == kNow + 8s));
  BOOST_TEST((state.lost(kNow + 1s) == Loss::known));
  BOOST_TEST(state.grace_over(state.connection()));
  BOOST_TEST(!state.grace_over(first));
  BOOST_TEST(state.resumed());
  BOOST_TEST(!state.grace_over(state.connection()));
  BOOST_TEST(!state.resumed());  // a second connection is not needed
  const uint64_t second = state.connection();
  BOOST_TEST((state.lost(kNow + 2s) == Loss::wait));
  BOOST_TEST(!state.grace_over(second));  // its timer may expire late
}

BOOST_AUTO_TEST_CASE(session_without_grace_ends_with_its_connection) {
  State without = opened(0, true, 0s), left = opened(0, true);
  BOOST_TEST((without.lost(kNow) == Loss::end));
  left.goodbye();
  BOOST_TEST(!left.can_reconnect());
  BOOST_TEST((left.lost(kNow) == Loss::end));
  State unconnected = of_rank(0, 0s);
  BOOST_TEST(unconnected.can_reconnect());  // it may still make its first connection
  State ended = opened(0, true);
  ended.ended();
  BOOST_TEST(!ended.can_reconnect());
  BOOST_TEST((ended.lost(kNow) == Loss::known));
  BOOST_TEST(!ended.resumed());
  BOOST_TEST(!ended.try_dial(kNow).has_value());
}

BOOST_AUTO_TEST_CASE(attempts_are_limited_and_pauses_grow) {
  State first = of_rank(0);
  first.begin_dial(kNow);
  BOOST_TEST((first.try_dial(kNow) == kNow + 5s));
  for (const int pause : {1, 2, 4, 8, 16, 32, 64, 100, 100})
    BOOST_TEST((first.retry(kNow) == kNow + std::chrono::milliseconds(pause)));
  BOOST_TEST(first.retry(kNow + 19s).has_value());
  BOOST_TEST(!first.retry(kNow + 20s).has_value());
  State again = lost(0, true);
  again.begin_dial(kNow);
  BOOST_TEST((again.try_dial(kNow) == kNow + 2s));
  BOOST_TEST(again.retry(kNow + 1h).has_value());  // the grace period limits it instead
  BOOST_TEST(again.resumed());
  BOOST_TEST(!again.try_dial(kNow).has_value());
}

BOOST_AUTO_TEST_CASE(dialled_side_waits_before_it_redials) {
  for (const int self : {0, 1}) {
    State mine = lost(self, true), theirs = lost(self, false), first = of_rank(self);
    for (State* state : {&mine, &theirs, &first}) state->begin_dial(kNow);
    BOOST_TEST(mine.should_introduce(kNow));
    BOOST_TEST(first.should_introduce(kNow));
    const auto patience = self == 0 ? 1s : 3s;
    BOOST_TEST(!theirs.should_introduce(kNow + patience - 1ms));
    BOOST_TEST(theirs.should_introduce(kNow + patience));
  }
}

BOOST_AUTO_TEST_CASE(answer_resumes_unless_the_hello_is_outdated) {
  State state = lost(0, false);
  state.begin_dial(kNow);
  const State::Hello said = state.say_hello(7);
  BOOST_TEST(said.incarnation == 100u);
  BOOST_TEST(said.peer_incarnation == 101u);
  BOOST_TEST(said.received == 7u);
  BOOST_TEST(said.attempt == 1u);
  BOOST_TEST(state.say_hello(7).attempt == 2u);
  BOOST_TEST((state.answered(hello(0), 8) == Answer::stale));
  BOOST_TEST((state.answered({999, 100, 0, 0}, 7) == Answer::restarted));
  BOOST_TEST((state.answered({101, 999, 0, 0}, 7) == Answer::restarted));
  BOOST_TEST(!state.dialled());
  const uint64_t before = state.resumption();
  BOOST_TEST((state.answered(hello(0), 7) == Answer::resume));
  BOOST_TEST(state.resumption() != before);  // cancels a resumption that an earlier hello began
  BOOST_TEST(state.dialled());
  BOOST_TEST(state.resumed());
  BOOST_TEST((state.answered(hello(0), 7) == Answer::not_needed));
}

BOOST_AUTO_TEST_CASE(only_newer_session_hellos_are_taken) {
  State state = opened(1, false);
  BOOST_TEST((state.accept(hello(1), 0, true) == Accept::take));  // this side has not noticed the loss
  BOOST_TEST((state.accept(hello(1), 0, false) == Accept::ignore));
  BOOST_TEST((state.accept(hello(1, 1, 4), 5, true) == Accept::ignore));
  BOOST_TEST((state.accept(hello(1, 1, 5), 5, true) == Accept::take));
  BOOST_TEST((state.accept({999, 101, 0, 1}, 0, true) == Accept::refuse));
  BOOST_TEST((state.accept({100, 999, 0, 1}, 0, true) == Accept::refuse));
  const uint64_t before = state.resumption();
  state.take(hello(1, 3));
  BOOST_TEST(state.resumption() != before);
  BOOST_TEST((state.accept(hello(1, 3), 0, true) == Accept::ignore));
  BOOST_TEST((state.accept(hello(1, 4), 0, true) == Accept::take));
}

BOOST_AUTO_TEST_CASE(answered_connection_is_the_other_sides) {
  State state = opened(1, true);
  state.take(hello(1));
  BOOST_TEST(state.dialled());
  state.took();
  BOOST_TEST(!state.dialled());
}

BOOST_AUTO_TEST_CASE(dialler_ignores_hellos_older_than_its_connection) {
  State state = lost(1, true);
  state.begin_dial(kNow);
  (void)state.say_hello(0);
  BOOST_TEST(state.say_hello(0).attempt == 2u);
  BOOST_TEST((state.answered(hello(1), 0) == Answer::resume));
  state.end_dial();
  BOOST_TEST(state.resumed());
  BOOST_TEST((state.accept(hello(1, 1, 0, 1), 0, true) == Accept::ignore));
  BOOST_TEST((state.accept(hello(1, 1, 0, 2), 0, true) == Accept::take));  // the other side finds it stalled
  BOOST_TEST((opened(1, true).accept(hello(1), 0, true) == Accept::take));
  State other = opened(0, false);
  other.take(hello(0, 2));
  BOOST_TEST(other.say_hello(0).taken == 2u);
}

BOOST_AUTO_TEST_CASE(stalled_connection_waits_until_given_deadline) {
  State state = opened(0, false);
  BOOST_TEST((state.stalled(kNow + 2s) == Loss::wait));
  BOOST_TEST((state.phase() == Phase::lost));
  BOOST_TEST((state.grace_ends() == kNow + 2s));
  BOOST_TEST((state.stalled(kNow + 3s) == Loss::known));
  BOOST_TEST((state.lost(kNow + 1s) == Loss::known));
  state.begin_dial(kNow);
  BOOST_TEST(!state.should_introduce(kNow + 249ms));
  BOOST_TEST(state.should_introduce(kNow + 250ms));
  BOOST_TEST((opened(0, true, 0s).stalled(kNow + 2s) == Loss::known));  // no other connection can follow
  BOOST_TEST((of_rank(0).stalled(kNow + 2s) == Loss::known));
}

BOOST_AUTO_TEST_CASE(unconnected_session_takes_the_peers_number) {
  State state = of_rank(0);
  BOOST_TEST((state.accept(hello(0, 1, 0, 0, 3), 0, false) == Accept::ignore));
  BOOST_TEST((state.accept(hello(0, 1, 0, 0, 3), 0, true) == Accept::take));
  state.take(hello(0, 1, 0, 0, 3));
  BOOST_TEST(state.session() == 3u);
  BOOST_TEST((state.accept(hello(0, 2, 0, 0, 2), 0, true) == Accept::refuse));
  State dials = of_rank(0);
  dials.begin_dial(kNow);
  BOOST_TEST(dials.say_hello(0).session == 1u);
  BOOST_TEST(dials.adopt_peer_session(4));
  BOOST_TEST(dials.say_hello(0).session == 4u);
  BOOST_TEST(!dials.adopt_peer_session(4));
  BOOST_TEST((dials.answered(hello(0, 0, 0, 0, 3), 0) == Answer::stale));
  BOOST_TEST((dials.answered(hello(0, 0, 0, 0, 4), 0) == Answer::resume));
}

BOOST_AUTO_TEST_CASE(connected_session_ends_if_peer_is_ahead) {
  State state = opened(0, false);
  BOOST_TEST((state.accept(hello(0, 1, 0, 0, 2), 0, true) == Accept::newer));
  BOOST_TEST(!state.adopt_peer_session(2));
}

BOOST_AUTO_TEST_CASE(lower_ranks_dial_wins_if_dials_cross) {
  for (const int self : {0, 1}) {
    State state = of_rank(self);
    state.begin_dial(kNow);
    BOOST_TEST((state.accept(hello(self), 0, true) == Accept::take));
    state.say_hello(0);
    BOOST_TEST((state.accept(hello(self), 0, true) == (self == 0 ? Accept::ignore : Accept::take)));
    BOOST_TEST(state.retry(kNow).has_value());
    BOOST_TEST((state.accept(hello(self), 0, true) == Accept::take));
    state.say_hello(0);
    state.end_dial();
    BOOST_TEST((state.accept(hello(self), 0, true) == Accept::take));
  }
}

BOOST_AUTO_TEST_CASE(unknown_hello_is_ignored_or_refused) {
  BOOST_TEST((State::accept_unknown(true, false) == Accept::ignore));
  BOOST_TEST((State::accept_unknown(false, true) == Accept::ignore));
  BOOST_TEST((State::accept_unknown(false, false) == Accept::refuse));
}

BOOST_AUTO_TEST_SUITE_END()
