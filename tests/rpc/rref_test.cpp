#include "tendril/rpc/rref.h"

#include <boost/test/unit_test.hpp>
#include <sstream>

#include "tendril/tensor/raw.h"
#include "tests/rpc/cluster.h"
#include "tests/rpc/messages.h"

BOOST_AUTO_TEST_SUITE(rref)

using namespace rpc_test;

std::atomic<int> alive{0};

struct Base {
  int base_method(int x) const { return x + 100; }
};

class Counter : public Base, public WeakSelf<Counter> {
 public:
  explicit Counter(int start, std::string name = "") : value_(start), name_(std::move(name)) { ++alive; }
  Counter(const Counter&) = delete;
  ~Counter() { --alive; }

  int add(int by) { return value_ += by; }
  int value() const { return value_; }
  std::string name() const { return name_; }
  int fail() { throw std::out_of_range("no"); }
  Future<int> later(int x) { return make_ready_future(x + value_); }
  Tensor tensor() const { return raw::full({2}, value_.load()); }
  RRef<Counter> self() { return weak_self(); }

 private:
  std::atomic<int> value_;
  std::string name_;
};

int add(int a, int b) { return a + b; }
int fail(const std::string& why) { throw std::out_of_range(why); }
void nothing() {}
std::unique_ptr<Counter> make_counter(int start) { return std::make_unique<Counter>(start); }
std::shared_ptr<Counter> make_null() { return nullptr; }
Tensor doubled(const RRef<Tensor>& x) { return raw::binary(Binary::mul, x.to_here(), 2); }

int use(const RRef<Counter>& counter, int by) { return counter.rpc_sync<&Counter::add>(by); }
int local(const RRef<Counter>& counter) { return counter.local_value().value(); }
bool is_confirmed(const RRef<Counter>& counter) { return counter.confirmed_by_owner(); }
RRef<Counter> hand_back(RRef<Counter> counter) { return counter; }
int use_all(const std::vector<RRef<Counter>>& counters, const std::optional<RRef<Counter>>& last) {
  int total = 0;
  for (const auto& counter : counters) total += counter.rpc_sync<&Counter::add>(1);
  return total + (last ? last->rpc_sync<&Counter::add>(1) : 0);
}
/// Passes the counter on around the ring of workers, `hops` more times. The last worker uses it.
int forward(RRef<Counter> counter, int hops, int here, int size) {
  if (hops == 0) return counter.rpc_sync<&Counter::add>(1);
  const int next = (here + 1) % size;
  return rpc_sync<&forward>(Cluster::agent(here), next, counter, hops - 1, next, size);
}
RRef<Counter> make_at(int here, int where, int start) { return remote<Counter>(Cluster::agent(here), where, start); }
std::pair<RRef<Counter>, RRef<int>> make_pair_at(int here, int where) {
  return {remote<Counter>(Cluster::agent(here), where, 1), remote<&add>(Cluster::agent(here), where, 2, 3)};
}
std::vector<RRef<Counter>> local_counters(int here, int count) {
  std::vector<RRef<Counter>> counters;
  for (int i = 0; i < count; ++i) counters.push_back(make_rref<Counter>(Cluster::agent(here), i));
  return counters;
}

std::promise<void> gate;
std::shared_future<void> gate_opened;
void close_gate() {
  gate = {};
  gate_opened = gate.get_future().share();
}
int slow(int x) {
  blocking([] { gate_opened.wait(); });
  return x;
}
struct Slow {
  explicit Slow(int v) : value(slow(v)) {}
  int get() const { return value; }
  int get_slowly() const { return slow(value); }
  int value;
};

BOOST_AUTO_TEST_CASE(remote_object_can_be_used_and_released) {
  Cluster cluster(2);
  {
    RRef<Counter> counter = remote<Counter>(cluster[0], "w1", 5, "five");
    BOOST_TEST(counter.rpc_sync<&Counter::add>(2) == 7);
    BOOST_TEST(counter.rpc_async<&Counter::name>().wait() == "five");
    BOOST_TEST(counter.rpc_sync<&Counter::base_method>(1) == 101);  // inherited
    BOOST_TEST(counter.rpc_sync<&Counter::later>(1) == 8);
    BOOST_TEST(counter.rpc_sync<&Counter::value>({.timeout = 5s}) == 7);
    const RRef<Tensor> tensor = counter.remote<&Counter::tensor>();
    BOOST_TEST(tensor.to_here().to_vector<float>()[1] == 7.0f);
    BOOST_CHECK_THROW(counter.rpc_sync<&Counter::fail>(), RemoteError);
    BOOST_TEST(counter.owner_name() == "w1");
    BOOST_TEST(!counter.is_owner());
    BOOST_TEST(counter.confirmed_by_owner());
    BOOST_TEST(cluster.counters(0).users == 2u);
    BOOST_TEST(cluster.counters(1).owner_rrefs == 2u);
    BOOST_TEST(cluster.counters(1).forks == 2u);
    BOOST_TEST(alive == 1);
  }
  BOOST_TEST(Cluster::eventually([] { return alive == 0; }));
}

BOOST_AUTO_TEST_CASE(compiler_checks_methods_and_arguments) {
  static_assert(CallableOn<Counter, &Counter::add, int>);
  static_assert(CallableOn<Counter, &Base::base_method, int>);
  static_assert(!CallableOn<Counter, &Counter::add, std::string>);
  static_assert(!CallableOn<Counter, &Counter::add>);
  static_assert(!CallableOn<Base, &Counter::add, int>);
}

BOOST_AUTO_TEST_CASE(function_result_may_stay_on_its_worker) {
  Cluster cluster(2);
  for (const int to : {0, 1}) {
    const RRef<int> five = remote<&add>(cluster[0], to, 2, 3);
    BOOST_TEST(five.to_here() == 5);
    BOOST_TEST(five.to_here({.timeout = 5s}) == 5);
    BOOST_TEST(five.is_owner() == (to == 0));
    const RRef<void> done = remote<&nothing>(cluster[0], to);
    done.to_here();
    const RRef<Counter> counter = remote<&make_counter>(cluster[0], to, 3);
    BOOST_TEST(counter.rpc_sync<&Counter::value>() == 3);
  }
  std::vector<RRef<int>> many;
  for (int i = 0; i < 10; ++i) many.push_back(remote<&add>(cluster[0], 1, i, i));
  for (int i = 0; i < 10; ++i) BOOST_TEST(many[static_cast<std::size_t>(i)].to_here() == 2 * i);
}

BOOST_AUTO_TEST_CASE(creation_error_reaches_every_waiter) {
  Cluster cluster(2);
  for (const int to : {0, 1}) {
    const RRef<int> failed = remote<&fail>(cluster[0], to, "no");
    for (int i = 0; i < 3; ++i) {
      const std::string text = message_of<std::exception>([&] { failed.to_here(); });
      BOOST_TEST(contains(text, "no"), text);
    }
    const RRef<Counter> null = remote<&make_null>(cluster[0], to);
    BOOST_TEST(contains(message_of<std::exception>([&] { null.rpc_sync<&Counter::value>(); }), "null"));
  }
}

BOOST_AUTO_TEST_CASE(object_can_be_awaited_before_it_exists) {
  for (const int threads : {1, 16}) {
    Cluster cluster(2, {.num_worker_threads = threads});
    close_gate();
    const RRef<Slow> slow = remote<Slow>(cluster[0], 1, 6);
    const RRef<int> number = remote<&rref::slow>(cluster[0], 1, 7);
    const Future<int> method = slow.rpc_async<&Slow::get>();
    const Future<int> fetched = number.to_here_async();
    BOOST_TEST(!number.confirmed_by_owner());
    BOOST_TEST(cluster.counters(0).pending_users == 2u);
    gate.set_value();
    BOOST_TEST(method.wait() == 6);
    BOOST_TEST(fetched.wait() == 7);
  }
}

BOOST_AUTO_TEST_CASE(first_access_reports_a_creation_timeout) {
  Cluster cluster(2);
  close_gate();
  const RRef<int> number = remote<&slow>(cluster[0], 1, {.timeout = 20ms}, 7);
  BOOST_CHECK_THROW(number.to_here(), RpcError);
  BOOST_CHECK_THROW(number.to_here(), TimeoutError);
  gate.set_value();
}

BOOST_AUTO_TEST_CASE(timed_out_to_here_can_be_retried) {
  Cluster cluster(2);
  close_gate();
  const RRef<int> number = remote<&slow>(cluster[0], 1, 7);
  BOOST_CHECK_THROW(number.to_here({.timeout = 20ms}), TimeoutError);
  gate.set_value();
  BOOST_TEST(number.to_here() == 7);
}

BOOST_AUTO_TEST_CASE(owner_accesses_the_object_directly) {
  Cluster cluster(2);
  const RRef<Counter> counter = make_rref<Counter>(cluster[0], 3);
  counter.local_value().add(1);
  BOOST_TEST(counter.local_pointer()->value() == 4);
  BOOST_TEST(counter.is_owner());
  BOOST_TEST(counter.confirmed_by_owner());
  BOOST_TEST(counter.rpc_sync<&Counter::add>(1) == 5);
  BOOST_TEST(cluster.counters(0).none());  // not shared yet
  BOOST_TEST(RRef(cluster[0], 7).to_here() == 7);

  const RRef<Counter> elsewhere = remote<Counter>(cluster[0], 1, 3);
  const std::string text = message_of<UsageError>([&] { elsewhere.local_value(); });
  BOOST_TEST(contains(text, "'w0'"), text);
  BOOST_TEST(contains(text, "'w1'"), text);
}

BOOST_AUTO_TEST_CASE(reference_can_be_sent_to_any_worker) {
  Cluster cluster(3);
  const RRef<Counter> mine = make_rref<Counter>(cluster[0], 0);
  const RRef<Counter> yours = remote<Counter>(cluster[0], 1, 100);
  BOOST_TEST(rpc_sync<&use>(cluster[0], 1, mine, 1) == 1);     // owner to user
  BOOST_TEST(rpc_sync<&use>(cluster[0], 1, yours, 1) == 101);  // user to owner
  BOOST_TEST(rpc_sync<&local>(cluster[0], 1, yours) == 101);
  BOOST_TEST(rpc_sync<&use>(cluster[0], 2, yours, 1) == 102);  // user to user
  BOOST_TEST(rpc_sync<&use>(cluster[0], 0, yours, 1) == 103);  // self-call
  BOOST_TEST(rpc_sync<&use>(cluster[0], 0, mine, 1) == 2);
  for (const int to : {0, 1, 2}) {
    BOOST_TEST(rpc_sync<&is_confirmed>(cluster[0], to, mine));
    BOOST_TEST(rpc_sync<&is_confirmed>(cluster[0], to, yours));
    BOOST_TEST((rpc_sync<&hand_back>(cluster[0], to, mine) == mine));
    BOOST_TEST((rpc_sync<&hand_back>(cluster[0], to, yours) == yours));
    BOOST_TEST(remote<&hand_back>(cluster[0], to, yours).to_here().rpc_sync<&Counter::value>() == 103);
  }
}

BOOST_AUTO_TEST_CASE(references_travel_in_containers) {
  Cluster cluster(3);
  const RRef<Counter> mine = make_rref<Counter>(cluster[0], 0);
  const RRef<Counter> yours = remote<Counter>(cluster[0], 1, 0);
  const std::vector<RRef<Counter>> all{mine, yours, mine};
  BOOST_TEST(rpc_sync<&use_all>(cluster[0], 2, all, yours) == 1 + 1 + 2 + 2);
}

BOOST_AUTO_TEST_CASE(reference_to_unfinished_object_can_be_sent) {
  Cluster cluster(3, {.num_worker_threads = 1});
  close_gate();
  const RRef<Slow> slow = remote<Slow>(cluster[0], 1, 6);
  const RRef<Tensor> x = remote<&doubled>(cluster[0], 2, RRef(cluster[0], raw::full({2}, 1)));
  const RRef<Tensor> y = remote<&doubled>(cluster[0], 1, x);
  gate.set_value();
  BOOST_TEST(y.to_here().to_vector<float>()[0] == 4.0f);
  BOOST_TEST(slow.rpc_sync<&Slow::get>() == 6);
}

BOOST_AUTO_TEST_CASE(references_survive_many_hops) {
  for (const int threads : {1, 16}) {
    Cluster cluster(3, {.num_worker_threads = threads});
    const RRef<Counter> counter = remote<Counter>(cluster[0], 1, 0);
    BOOST_TEST(rpc_sync<&forward>(cluster[0], 1, counter, 8, 1, 3) == 1);
    // The caller drops its reference while the call is in progress.
    Future<int> last;
    {
      const RRef<Counter> brief = remote<Counter>(cluster[0], 2, 10);
      last = rpc_async<&forward>(cluster[0], 1, brief, 8, 1, 3);
    }
    BOOST_TEST(last.wait() == 11);
  }
}

BOOST_AUTO_TEST_CASE(functions_return_references) {
  Cluster cluster(3);
  BOOST_TEST(rpc_sync<&make_at>(cluster[0], 1, 1, 2, 5).rpc_sync<&Counter::add>(1) == 6);  // owned by a third worker
  BOOST_TEST(rpc_sync<&make_at>(cluster[0], 1, 1, 0, 5).local_value().add(1) == 6);        // owned by the caller
  BOOST_TEST(rpc_sync<&make_at>(cluster[0], 1, 1, 1, 5).rpc_sync<&Counter::add>(1) == 6);  // owned by the callee
  auto counters = rpc_sync<&local_counters>(cluster[0], 1, 1, 3);
  for (int i = 0; i < 3; ++i) {
    BOOST_TEST(counters[static_cast<std::size_t>(i)].rpc_sync<&Counter::add>(i) == 2 * i);
  }
  // A reference to a pair of references, many times over.
  std::vector<RRef<std::pair<RRef<Counter>, RRef<int>>>> nested;
  for (int i = 0; i < 20; ++i) nested.push_back(remote<&make_pair_at>(cluster[0], 1, 1, 2));
  for (const auto& rref : nested) {
    const auto [counter, number] = rref.to_here();
    BOOST_TEST(counter.rpc_sync<&Counter::add>(1) == 2);
    BOOST_TEST(number.to_here() == 5);
  }
}

BOOST_AUTO_TEST_CASE(pending_call_keeps_its_object_alive) {
  Cluster cluster(2);
  close_gate();
  gate.set_value();
  auto object = remote<Slow>(cluster[0], 1, 5);
  BOOST_TEST(object.rpc_sync<&Slow::get>() == 5);
  BOOST_REQUIRE(Cluster::eventually([&] { return cluster.counters(0).pending_children == 0; }));
  close_gate();
  const Future<int> result = object.rpc_async<&Slow::get_slowly>();
  const RRef<int> stays = object.remote<&Slow::get_slowly>();
  object = {};
  BOOST_TEST(Cluster::eventually([&] { return cluster.counters(1).forks == 2; }));
  BOOST_TEST(cluster.counters(0).users == 2u);
  gate.set_value();
  BOOST_TEST(result.wait() == 5);
  BOOST_TEST(stays.to_here() == 5);
  BOOST_TEST(Cluster::eventually([&] { return cluster.counters(0).users == 1; }));  // although its future still exists
}

BOOST_AUTO_TEST_CASE(object_can_return_a_weak_self_reference) {
  Cluster cluster(2);
  {
    const RRef<Counter> counter = remote<Counter>(cluster[0], 1, 1);
    const RRef<Counter> self = counter.rpc_sync<&Counter::self>();
    BOOST_TEST((self == counter));
    BOOST_TEST(self.rpc_sync<&Counter::add>(1) == 2);
    const RRef<Counter> mine = make_rref<Counter>(cluster[0], 1);
    BOOST_TEST(mine.local_value().self().rpc_sync<&Counter::value>() == 1);
  }
  BOOST_TEST(Cluster::eventually([] { return alive == 0; }));
  Counter unowned(1);
  BOOST_CHECK_THROW(unowned.self(), RRefError);
}

BOOST_AUTO_TEST_CASE(owner_checks_the_objects_type) {
  Cluster cluster(2);
  const RRef<int> number = remote<&add>(cluster[0], 1, 1, 2);
  const auto wrong = RRef<std::string>::from_state(number.state_pointer());
  const std::string text = message_of<RpcError>([&] { wrong.to_here(); });
  BOOST_TEST(contains(text, "refers to a int, not to a std::string"), text);
}

BOOST_AUTO_TEST_CASE(references_print_owner_and_fork) {
  Cluster cluster(2);
  std::ostringstream out;
  const RRef<int> number = remote<&add>(cluster[0], 1, 1, 2);
  out << number << '\n' << RRef<int>();
  BOOST_TEST(contains(out.str(), "of 'w1' (fork 0."), out.str());
  BOOST_TEST(contains(out.str(), "RRef to nothing"));
  number.to_here();
}

BOOST_AUTO_TEST_CASE(empty_reference_can_be_sent) {
  Cluster cluster(2);
  BOOST_TEST(!rpc_sync<&hand_back>(cluster[0], 1, RRef<Counter>()));
  BOOST_CHECK_THROW(RRef<Counter>().owner(), UsageError);
}

BOOST_AUTO_TEST_CASE(reference_of_another_agent_cannot_be_sent) {
  Cluster cluster(2);
  const RRef<int> number(cluster[0], 5);
  // Another agent's reference cannot be sent by this one.
  const auto& state = number.state_pointer();
  const std::string text =
      message_of<RpcError>([&] { rpc_sync<&is_confirmed>(cluster[1], 0, RRef<Counter>::from_state(state)); });
  BOOST_TEST(!text.empty());
}

BOOST_AUTO_TEST_CASE(references_fail_after_shutdown) {
  Cluster cluster(2);
  RRef<int> number = remote<&add>(cluster[0], 1, 1, 2);
  number.to_here();
  cluster[0].shutdown();
  BOOST_CHECK_THROW(number.to_here(), RpcError);
  BOOST_CHECK_THROW(RRef(cluster[0], 1), RpcError);
}

BOOST_AUTO_TEST_CASE(creating_a_reference_requires_init_rpc) { BOOST_CHECK_THROW(RRef(5), UsageError); }

BOOST_AUTO_TEST_CASE(losing_a_worker_releases_its_references) {
  Cluster cluster(3);
  const RRef<int> number = remote<&add>(cluster[0], 1, 1, 2);
  const RRef<Counter> mine = make_rref<Counter>(cluster[0], 1);
  const RRef<RRef<Counter>> kept = remote<&hand_back>(cluster[0], 1, mine);
  BOOST_TEST(number.to_here() == 3);
  kept.to_here();
  BOOST_TEST(cluster.counters(0).owner_rrefs == 1u);
  cluster[1].shutdown();
  BOOST_TEST(Cluster::eventually([&] { return cluster.counters(0).none(); }));
  const std::string text = message_of<RRefError>([&] { number.to_here(); });
  BOOST_TEST(contains(text, "w1"), text);
  BOOST_TEST(!number.confirmed_by_owner());
}

BOOST_AUTO_TEST_SUITE_END()
