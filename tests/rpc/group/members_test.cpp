// Members of a running group that leave, are lost and rejoin. Workers are threads of this process, each with its own
// agent. processes_test kills real processes.
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <boost/test/unit_test.hpp>
#include <functional>
#include <latch>
#include <memory>
#include <thread>

#include "tendril/rpc/call.h"
#include "tendril/rpc/collectives.h"
#include "tendril/rpc/group.h"
#include "tests/rpc/asleep.h"
#include "tests/rpc/error_text.h"
#include "tests/rpc/reserved_port.h"

BOOST_AUTO_TEST_SUITE(members)

using namespace tendril::rpc;
using namespace std::chrono_literals;
using tendril::test::contains;
using tendril::test::text_of_error;

int add(int a, int b) { return a + b; }
std::latch* gate = nullptr;
int wait_at_gate() {
  blocking([] { gate->wait(); });
  return 1;
}
struct Counter {
  explicit Counter(int start = 0) : value(start) {}
  int increment() { return ++value; }
  std::atomic<int> value;
};

std::string name_of(int rank) { return std::string("w").append(std::to_string(rank)); }

/// The groups of workers of this process that joined at the same time.
class Workers {
 public:
  explicit Workers(int size) : groups_(static_cast<std::size_t>(size)) {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < size; ++rank)
      threads.emplace_back([this, rank] { groups_[static_cast<std::size_t>(rank)] = start(rank); });
  }

  Group& operator[](int rank) const { return *groups_.at(static_cast<std::size_t>(rank)); }
  int size() const { return static_cast<int>(groups_.size()); }
  InitOptions options(int rank, std::chrono::milliseconds timeout = 60s) const {
    InitOptions options;
    options.rank = rank;
    options.world_size = size();
    options.master_port = port_.number();
    options.init_timeout = timeout;
    options.status_signal = false;
    options.num_worker_threads = 2;
    return options;
  }
  std::unique_ptr<Group> start(int rank) const { return std::make_unique<Group>(name_of(rank), options(rank)); }
  void start_anew(int rank) { groups_.at(static_cast<std::size_t>(rank)) = start(rank); }
  /// As if the worker's process had ended: rank 0 gets no message from it.
  void lose(int rank) const { (*this)[rank].agent()->shutdown(); }
  /// Waits until that worker has heard of the epoch.
  GroupView heard(int rank, uint64_t epoch) const {
    GroupView view = (*this)[rank].wait_for_change(epoch - 1, 60s);
    if (view.epoch < epoch) throw std::runtime_error("no change within 60 s");
    return view;
  }
  /// Calls `run` at these workers, in one thread each. Returns the errors that they throw.
  std::vector<std::string> at(const std::vector<int>& ranks, const std::function<void(Group&, int)>& run) const {
    std::vector<std::string> errors(ranks.size());
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < ranks.size(); ++i)
      threads.emplace_back([&, i] { errors[i] = text_of_error([&] { run((*this)[ranks[i]], ranks[i]); }); });
    threads.clear();
    return errors;
  }
  void expect(const std::vector<int>& ranks, const std::function<void(Group&, int)>& run) const {
    for (const std::string& error : at(ranks, run)) BOOST_TEST(error == "");
  }

 private:
  const tendril::test::ReservedPort port_;
  std::vector<std::unique_ptr<Group>> groups_;
};

int call(const Group& from, int to) { return rpc_sync<&add>(*from.agent(), to, {.timeout = 60s}, to, 1); }
void call_all(const Workers& workers, int from) {
  for (int to = 0; to < workers.size(); ++to)
    if (call(workers[from], to) != to + 1) throw std::logic_error("a wrong sum");
}

BOOST_AUTO_TEST_CASE(departed_workers_can_rejoin) {
  Workers workers(3);
  BOOST_TEST(workers[1].epoch() == 1u);
  BOOST_TEST(workers[1].wait_for_change(1, 1ms).epoch == 1u);
  uint64_t seen = 0;
  std::jthread patient([&] { seen = workers.heard(1, 5).epoch; });  // each earlier change wakes it
  uint64_t epoch = 1;
  for (const bool leaves : {true, false, true, false}) {
    for (const int rank : {0, 1}) call_all(workers, rank);
    leaves ? workers[2].shutdown({.graceful = false}) : workers.lose(2);
    ++epoch;
    for (const int rank : {0, 1}) {
      const GroupView view = workers.heard(rank, epoch);
      BOOST_TEST((view.members.at(2).state == (leaves ? MemberState::left : MemberState::lost)));
      BOOST_TEST((view.alive() == std::vector<WorkerId>{0, 1}));
    }
    workers.start_anew(2);
    BOOST_TEST(workers[2].epoch() == ++epoch);
    for (const int rank : {0, 1}) workers.heard(rank, epoch);
    workers.expect({0, 1, 2}, [&](Group& group, int rank) {
      call_all(workers, rank);
      group.barrier();
      if (all_gather(group, 10 * rank) != std::vector<int>{0, 10, 20}) throw std::logic_error("other values");
    });
  }
  patient.join();
  BOOST_TEST(seen >= 5u);
  workers.expect({0, 1, 2}, [](Group& group, int) { group.shutdown(); });
}

BOOST_AUTO_TEST_CASE(restarted_worker_replaces_old_incarnation) {
  Workers workers(3);
  std::latch open(1);
  gate = &open;
  const RRef<Counter> counter = remote<Counter>(*workers[1].agent(), 2, 5);
  BOOST_TEST(counter.rpc_sync<&Counter::increment>() == 6);
  const Future<int> pending = rpc_async<&wait_at_gate>(*workers[1].agent(), 2, {.timeout = 0s});
  std::jthread dying([&] { workers.lose(2); });  // waits for the handler
  workers.heard(1, 2);
  const std::string text = text_of_error([&] { pending.wait(); });
  BOOST_TEST(contains(text, "PeerLostError"), text);
  open.count_down();
  dying.join();
  workers.start_anew(2);
  workers.heard(1, 3);
  BOOST_TEST(call(workers[1], 2) == 3);
  const std::string lost = text_of_error([&] { counter.rpc_sync<&Counter::increment>(); });
  BOOST_TEST(contains(lost, "owner_lost"), lost);
  const RRef<Counter> again = remote<Counter>(*workers[1].agent(), 2, 7);
  BOOST_TEST(again.rpc_sync<&Counter::increment>() == 8);
  workers.expect({0, 1, 2}, [](Group& group, int) { group.shutdown(); });
}

BOOST_AUTO_TEST_CASE(death_fails_barrier_and_survivors_meet) {
  Workers workers(3);
  std::vector<std::string> errors;
  {
    std::jthread waiting([&] { errors = workers.at({0, 1}, [](Group& group, int) { group.barrier(0ms); }); });
    workers.lose(2);
  }
  for (const std::string& error : errors) {
    BOOST_TEST(contains(error, "PeerLostError"), error);
    BOOST_TEST(contains(error, "worker 'w2' (rank 2) is gone while others are at 'barrier'"), error);
  }
  workers.expect({0, 1}, [&](Group& group, int rank) {
    group.barrier({"w0", "w1"});
    group.barrier(workers.heard(rank, 2));
    if (all_gather_among(group, {"w1", "w0"}, rank) != std::vector<int>{0, 1}) throw std::logic_error("other values");
    if (!contains(text_of_error([&] { group.barrier(); }), "'w2' (rank 2) is gone"))
      throw std::logic_error("a barrier");
  });
  workers.expect({0, 1}, [](Group& group, int) { group.shutdown({.accept_losses = true}); });
}

BOOST_AUTO_TEST_CASE(graceful_shutdown_names_lost_workers) {
  Workers workers(3);
  workers.lose(1);
  workers.heard(2, 2);
  for (const std::string& error : workers.at({0, 2}, [](Group&group, int) { group.shutdown(); }))
    BOOST_TEST(contains(error, "worker 'w1' (rank 1) is gone"), error);
}

BOOST_AUTO_TEST_CASE(group_survives_barrier_timeout) {
  Workers workers(2);
  const std::string text = text_of_error([&] { workers[1].barrier(100ms); });
  BOOST_TEST(contains(text, "after 100 ms these workers have not reached 'barrier': worker 'w0' (rank 0)"), text);
  workers.expect({0, 1}, [](Group& group, int) {
    group.barrier();
    group.shutdown();
  });
}

BOOST_AUTO_TEST_CASE(live_workers_cannot_be_replaced) {
  Workers workers(2);
  const std::string text = text_of_error([&] { Group second("w1", workers.options(1, 500ms)); });
  BOOST_TEST(contains(text, "TimeoutError: "), text);
  BOOST_TEST(contains(text, "whose rank 1 is 'w1' and is alive; a restarted worker can join once that one has ended"),
             text);
  const std::string rank_0 = text_of_error([&] { Group second("w0", workers.options(0, 500ms)); });
  BOOST_TEST(contains(rank_0, "Address already in use"), rank_0);
  BOOST_TEST(workers[0].epoch() == 1u);
  workers.expect({0, 1}, [](Group& group, int) {
    group.barrier();
    group.shutdown();
  });
}

BOOST_AUTO_TEST_CASE(only_one_replacement_joins) {
  Workers workers(2);
  workers.lose(1);
  workers.heard(0, 2);
  std::vector<std::unique_ptr<Group>> both(2);
  std::vector<std::string> errors(2);
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < 2; ++i)
      threads.emplace_back([&, i] {
        errors[i] = text_of_error([&] { both[i] = std::make_unique<Group>("w1", workers.options(1, 7s)); });
      });
  }
  BOOST_REQUIRE((both[0] == nullptr) != (both[1] == nullptr));
  const std::string& told = errors[both[0] ? 1 : 0];  // the second one: its deadline may have passed within an attempt
  BOOST_TEST((contains(told, "whose rank 1 is 'w1' and is alive") || contains(told, "no answer in time")), told);
  Group& second = both[0] ? *both[0] : *both[1];
  BOOST_TEST(call(workers[0], 1) == 2);
  BOOST_TEST(call(second, 0) == 1);
  std::jthread other([&] { second.shutdown(); });
  workers[0].shutdown();
}

BOOST_AUTO_TEST_CASE(group_in_shutdown_refuses_workers) {
  Workers workers(3);
  workers.lose(2);
  workers.heard(0, 2);
  std::latch open(1);
  gate = &open;
  const Future<int> busy = rpc_async<&wait_at_gate>(*workers[0].agent(), 1, {.timeout = 0s});
  std::vector<std::jthread> leaving;
  for (const int rank : {0, 1}) leaving.emplace_back([&, rank] { workers[rank].shutdown({.accept_losses = true}); });
  std::string text;
  for (const auto deadline = Clock::now() + 60s; Clock::now() < deadline;) {
    text = text_of_error([&] { Group third("w2", workers.options(2, 300ms)); });
    if (contains(text, "which is shutting down")) break;
  }
  BOOST_TEST(contains(text, "whose rank 2 is 'w2' and which is shutting down"), text);
  open.count_down();
  leaving.clear();
  BOOST_TEST(busy.wait() == 1);
}

BOOST_AUTO_TEST_CASE(threads_use_overlapping_barriers_at_once) {
  Workers workers(3);  // a cycle: if one barrier had to end before the next began, all would wait forever
  std::barrier begun(6);
  const auto meet = [&](int rank, int other) {
    return [&, rank, other] {
      begun.arrive_and_wait();
      for (int round = 0; round < 20; ++round) workers[rank].barrier({name_of(rank), name_of(other)});
    };
  };
  std::vector<std::string> errors(6);
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < 3; ++rank)
      for (const int step : {1, 2})
        threads.emplace_back([&, rank, step, slot = static_cast<std::size_t>(2 * rank + step - 1)] {
          errors[slot] = text_of_error(meet(rank, (rank + step) % 3));
        });
  }
  for (const std::string& error : errors) BOOST_TEST(error == "");
  BOOST_TEST(contains(text_of_error([&] {
                        workers[0].barrier({"w1", "w2"});
                      }),
                      "UsageError: rpc::barrier: this worker, 'w0', is not one of the workers that take part"));
  BOOST_TEST(contains(text_of_error([&] { workers[0].barrier({"w0", "w7"}); }), "there is no worker named 'w7'"));
  BOOST_TEST(contains(text_of_error([&] {
                        workers[0].barrier({"w0", "w2"}, 100ms);
                      }),
                      "have not reached 'barrier': worker 'w2' (rank 2)"));
  workers.expect({0, 1, 2}, [](Group& group, int) { group.shutdown(); });
}

BOOST_AUTO_TEST_CASE(loss_of_rank_0_ends_all_waits) {
  Workers workers(2);
  std::string waited, met;
  {
    std::jthread watcher([&] { waited = text_of_error([&] { workers[1].wait_for_change(1, 0ms); }); });
    std::jthread other([&] { met = text_of_error([&] { workers[1].barrier(0ms); }); });
    workers.lose(0);
  }
  BOOST_TEST(contains(waited, "rank 0 is gone"), waited);
  BOOST_TEST(contains(met, "rank 0 is gone"), met);
}

BOOST_AUTO_TEST_CASE(leaving_ends_wait_for_change) {
  for (const int rank : {0, 1}) {
    Workers workers(2);
    std::string waited;
    {
      std::atomic<pid_t> id{0};
      std::jthread watcher([&] {
        id = ::gettid();
        waited = text_of_error([&] { workers[rank].wait_for_change(1, 0ms); });
      });
      BOOST_TEST(tendril::test::wait_until_asleep(id));
      workers[rank].shutdown({.graceful = false});
    }
    BOOST_TEST(contains(waited, "this worker has left its group"), waited);
  }
}

BOOST_AUTO_TEST_CASE(members_rejoin_while_others_call_them) {
  constexpr int kRounds = 20;
  Workers workers(4);
  std::atomic<bool> over{false};
  std::atomic<int> answered{0}, lost{0};
  std::vector<std::string> errors(4);
  {
    std::vector<std::jthread> threads;
    for (const int rank : {0, 1})
      threads.emplace_back([&, rank] {
        errors[static_cast<std::size_t>(rank)] = text_of_error([&] {
          for (int i = 0; !over; ++i) {
            try {
              if (call(workers[rank], i % 4) != i % 4 + 1) throw std::logic_error("a wrong sum");
              ++answered;
            } catch (const PeerLostError&) {
              ++lost;
            }
          }
        });
      });
    std::vector<std::jthread> comers;
    for (const int rank : {2, 3})
      comers.emplace_back([&, rank] {
        errors[static_cast<std::size_t>(rank)] = text_of_error([&] {
          for (int round = 0; round < kRounds; ++round) {
            for (int to = 0; to < 2; ++to) call(workers[rank], to);
            round % 2 == 0 ? workers.lose(rank) : workers[rank].shutdown({.graceful = false});
            workers.start_anew(rank);
          }
        });
      });
    comers.clear();
    over = true;
  }
  for (const std::string& error : errors) BOOST_TEST(error == "");
  for (int rank = 0; rank < 4; ++rank) workers.heard(rank, 1 + 4 * kRounds);
  workers.expect({0, 1, 2, 3}, [&](Group& group, int rank) {
    group.barrier();
    call_all(workers, rank);
    group.shutdown();
  });
  BOOST_TEST(answered.load() > 0);
}

BOOST_AUTO_TEST_SUITE_END()
