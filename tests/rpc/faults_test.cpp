// Calls and references between agents while the network loses, repeats, delays and cuts: every call ends, with the
// right result or an RpcError, functions run at most once, and nobody refers to anything in the end.
#include <boost/test/unit_test.hpp>

#include "tendril/tensor/raw.h"
#include "tests/rpc/cluster.h"
#include "tests/rpc/messages.h"
#include "tests/seed.h"

BOOST_AUTO_TEST_SUITE(faults)

using namespace rpc_test;
using tendril::testing::seeds;

std::atomic<int> alive{0};
std::array<std::atomic<int>, 4096> runs{};  // of each `counted` call

class Counter : public WeakSelf<Counter> {
 public:
  explicit Counter(int start) : value_(start) { ++alive; }
  Counter(const Counter&) = delete;
  ~Counter() { --alive; }
  int add(int by) { return value_ += by; }
  RRef<Counter> self() { return weak_self(); }

 private:
  std::atomic<int> value_;
};

int counted(int number) {
  ++runs[static_cast<std::size_t>(number)];
  return number;
}
int fail(int) { throw std::out_of_range("no"); }
Tensor same(Tensor x) { return x; }
int use(const RRef<Counter>& counter) { return counter.rpc_sync<&Counter::add>(1); }
RRef<Counter> pass_back(RRef<Counter> counter) { return counter; }
RRef<Counter> make_at(int here, int where) { return remote<Counter>(Cluster::agent(here), where, 10); }
int use_via(RRef<Counter> counter, int here, int next) { return rpc_sync<&use>(Cluster::agent(here), next, counter); }

/// What one run of the program did.
struct Outcome {
  int succeeded = 0, failed = 0;
  std::vector<std::string> wrong;  // Boost.Test's checks are for one thread

  void expect(bool right, const char* what) {
    if (!right) wrong.emplace_back(what);
  }
};

/// One try: the value must be right, or an RpcError come instead.
template <class F>
void attempt(Outcome& outcome, F f) {
  try {
    f();
    ++outcome.succeeded;
  } catch (const RpcError&) {
    ++outcome.failed;
  }
}

/// Every kind of call and every way of a reference, once: owner to user, user to owner, user to user, to oneself, as
/// argument and as result, with and without the object being there.
Outcome run_program(Cluster& cluster, int& next_number) {
  Outcome outcome;
  Agent& me = cluster[0];
  for (int i = 0; i < 2; ++i) {
    const int number = next_number++;
    bool right = false;
    attempt(outcome, [&] { right = rpc_sync<&counted>(me, 1, number) == number; });
    const int ran = runs[static_cast<std::size_t>(number)];
    outcome.expect(right ? ran == 1 : ran <= 1, "a call ran more than once, or never and succeeded");
  }
  attempt(outcome, [&] {
    const Tensor x = raw::arange(0, 100, 1, kFloat32);
    outcome.expect(rpc::testing::same_elements(rpc_sync<&same>(me, 2, x), x), "a tensor changed on its way");
  });
  attempt(outcome, [&] { outcome.expect(remote<&counted>(me, 1, 0).to_here() == 0, "a wrong value from to_here"); });
  attempt(outcome, [&] {
    // The error of a creation is seen, always: that of the function or that of the network.
    remote<&fail>(me, 1, 0).to_here();
    outcome.expect(false, "a failed creation gave a value");
  });
  attempt(outcome, [&] {
    const RRef<Counter> theirs = remote<Counter>(me, 1, 0);
    attempt(outcome, [&] {
      outcome.expect(theirs.rpc_sync<&Counter::add>(1) == 1, "a wrong value from a method");
    });                                                        // unconfirmed, maybe
    attempt(outcome, [&] { rpc_sync<&use>(me, 2, theirs); });  // user to user
    attempt(outcome, [&] { rpc_sync<&use>(me, 1, theirs); });  // user to owner
    attempt(outcome,
            [&] { outcome.expect(rpc_sync<&pass_back>(me, 2, theirs) == theirs, "another reference came back"); });
    attempt(outcome, [&] { rpc_sync<&use_via>(me, 2, theirs, 2, 1); });
    attempt(outcome, [&] { theirs.rpc_sync<&Counter::self>().rpc_sync<&Counter::add>(1); });
  });
  attempt(outcome, [&] {
    const RRef<Counter> mine = make_rref<Counter>(me, 0);
    attempt(outcome, [&] { rpc_sync<&use>(me, 1, mine); });  // owner to user
    attempt(outcome, [&] { rpc_sync<&use_via>(me, 1, mine, 1, 2); });
    attempt(outcome, [&] { remote<&pass_back>(me, 2, mine).to_here(); });
  });
  attempt(outcome, [&] { rpc_sync<&make_at>(me, 1, 1, 2).rpc_sync<&Counter::add>(1); });
  return outcome;
}

void check(const Outcome& outcome) {
  for (const std::string& what : outcome.wrong) BOOST_ERROR(what);
}

const AgentOptions kImpatient{.num_worker_threads = 2, .rpc_timeout = 100ms};

/// Runs the program again and again: the n-th message of the run meets this fate, n = first, first + step, ..., until a
/// run is over before.
void visit_every_point_of_failure(MessageFate fate, std::optional<MessageKind> kind = std::nullopt) {
  for (uint64_t n = 1;; ++n) {
    const auto network = MemoryNetwork::make();
    uint64_t messages = 0;
    {
      Cluster cluster(3, kImpatient, served_functions(), network.get());
      network->set_rule(nth_message(n, fate, kind));
      int number = 1;
      for (auto& count : runs) count = 0;
      check(run_program(cluster, number));
      messages = network->messages();
      network->set_rule({});  // whatever is left to be said gets through
    }
    BOOST_TEST(Cluster::eventually([] { return alive == 0; }), "an object is left after message " << n);
    if (n > messages) break;
    BOOST_REQUIRE(n < 1000);
  }
}

BOOST_AUTO_TEST_CASE(without_faults_everything_succeeds) {
  const auto network = MemoryNetwork::make();
  Cluster cluster(3, {.num_worker_threads = 1}, served_functions(), network.get());
  int number = 1;
  for (auto& count : runs) count = 0;
  const Outcome outcome = run_program(cluster, number);
  check(outcome);
  BOOST_TEST(outcome.failed == 1);  // the creation that fails
  BOOST_TEST(outcome.succeeded == 16);
}

BOOST_AUTO_TEST_CASE(any_one_message_may_be_lost) { visit_every_point_of_failure({.copies = 0}); }
BOOST_AUTO_TEST_CASE(any_one_message_may_come_twice) { visit_every_point_of_failure({.copies = 2}); }
BOOST_AUTO_TEST_CASE(any_one_message_may_be_overtaken) { visit_every_point_of_failure({.delay = 20ms}); }
BOOST_AUTO_TEST_CASE(any_one_message_may_come_after_its_call_has_timed_out) {
  visit_every_point_of_failure({.delay = 200ms}, MessageKind::request);
  visit_every_point_of_failure({.delay = 200ms}, MessageKind::reply);
}
BOOST_AUTO_TEST_CASE(the_connection_may_break_at_any_message) { visit_every_point_of_failure({.cut = true}); }

BOOST_AUTO_TEST_CASE(many_faults_at_once_are_survived_from_several_threads) {
  for (const uint64_t seed : seeds({}, 8)) {
    const auto network = MemoryNetwork::make();
    {
      Cluster cluster(3, kImpatient, served_functions(), network.get());
      network->set_rule(random_faults(seed, {.lose = 0.05, .repeat = 0.1, .delay = 0.2}));
      for (auto& count : runs) count = 0;
      std::array<Outcome, 3> outcomes;
      std::vector<std::thread> threads;
      for (std::size_t t = 0; t < outcomes.size(); ++t) {
        threads.emplace_back([&cluster, &outcomes, t] {
          int number = 1 + 100 * static_cast<int>(t);
          outcomes[t] = run_program(cluster, number);
        });
      }
      for (std::thread& thread : threads) thread.join();
      for (const Outcome& outcome : outcomes) check(outcome);
      network->set_rule({});
    }
    BOOST_TEST(Cluster::eventually([] { return alive == 0; }), "an object is left with seed " << seed);
  }
}

BOOST_AUTO_TEST_CASE(control_messages_alone_may_be_lost_and_repeated_without_anybody_noticing) {
  for (const uint64_t seed : seeds({}, 5)) {
    const auto network = MemoryNetwork::make();
    {
      Cluster cluster(3, {.num_worker_threads = 1}, served_functions(), network.get());
      network->set_rule(
          random_faults(seed, {.lose = 0.2, .repeat = 0.3, .delay = 0.3, .kinds = {MessageKind::control}}));
      int number = 1;
      for (auto& count : runs) count = 0;
      const Outcome outcome = run_program(cluster, number);
      check(outcome);
      BOOST_TEST(outcome.failed == 1);
    }
    BOOST_TEST(Cluster::eventually([] { return alive == 0; }));
  }
}

BOOST_AUTO_TEST_SUITE_END()
