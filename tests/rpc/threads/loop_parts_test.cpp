// Tests the parts of a loop separately: slots, held sends, the reactor, ShortMutex and ProcessorUse.
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <boost/asio/ip/tcp.hpp>
#include <boost/test/unit_test.hpp>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tendril/rpc/system/unique_fd.h"
#include "tendril/rpc/threads/held_sends.h"
#include "tendril/rpc/threads/processor_use.h"
#include "tendril/rpc/threads/reactor.h"
#include "tendril/rpc/threads/short_mutex.h"
#include "tendril/rpc/threads/slots.h"
#include "tendril/rpc/transport/network.h"
#include "tests/rpc/asleep.h"

BOOST_AUTO_TEST_SUITE(loop_parts)

using namespace tendril::rpc;
using namespace tendril::rpc::detail;
using namespace std::chrono_literals;

struct Named final : Job {
  Named(char n, int l) : name(n), at(l) {}
  void run(std::unique_ptr<Job>) noexcept override {}
  int level() const noexcept override { return at; }
  char name;
  int at;
};
std::unique_ptr<Job> job(char name, int level = 0) { return std::make_unique<Named>(name, level); }
/// Starts all jobs that may start, and returns their names.
std::string start(Slots& slots) {
  std::string names;
  Slot slot = Slot::none;
  while (slots.can_run()) names += static_cast<Named&>(*slots.take(slot)).name;
  return names;
}

/// Reads one end of a connection, and keeps the text.
struct Reader final : Reactor::Watched {
  explicit Reader(int s) : socket(s) {}
  bool ready(uint32_t events) override {
    seen |= events;
    char bytes[16];
    const ssize_t count = ::recv(socket, bytes, sizeof bytes, MSG_DONTWAIT);
    if (count > 0) text.append(bytes, static_cast<std::size_t>(count));
    if (text.ends_with('!')) throw std::runtime_error("thrown by a test, in a reader");
    return count > 0;
  }
  void failed(std::exception_ptr) noexcept override { failures += 1; }
  bool may_read_again() const noexcept override { return true; }
  int socket;
  int failures = 0;
  uint32_t seen = 0;
  std::string text;
};
struct Connected {
  Connected() {
    int ends[2];
    BOOST_REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0);
    here = UniqueFd(ends[0]);
    there = UniqueFd(ends[1]);
    reader = std::make_shared<Reader>(here.get());
  }
  void say(const std::string& text) const { BOOST_REQUIRE(::write(there.get(), text.data(), text.size()) > 0); }
  UniqueFd here, there;
  std::shared_ptr<Reader> reader;
};
Clock::time_point soon() { return Clock::now() + 30s; }

struct CountingSender final : HeldSends::Sender {
  void write_held() override { ++written; }
  int written = 0;
};

BOOST_AUTO_TEST_CASE(waiting_job_frees_its_slot) {
  Slots slots(2, 16);
  for (const char name : {'a', 'b', 'c', 'd'}) slots.push(job(name));
  BOOST_TEST(start(slots) == "ab");
  slots.give_back(Slot::handler);
  BOOST_TEST(start(slots) == "c");
  slots.take_back(Slot::handler);  // three run with two slots
  BOOST_TEST(slots.running() == 3);
  slots.ended(Slot::handler);
  BOOST_TEST(start(slots) == "");
  slots.ended(Slot::handler);
  BOOST_TEST(start(slots) == "d");
  slots.ended(Slot::handler);
  slots.ended(Slot::handler);
  BOOST_TEST(slots.at_rest());
  BOOST_TEST(slots.begun() == 4u);
}

BOOST_AUTO_TEST_CASE(only_nested_calls_start_near_thread_cap) {
  Slots slots(16, 8);  // one thread for the sockets, one for calls that handlers wait for
  for (int i = 0; i < 7; ++i) slots.push(job('o'));
  BOOST_TEST(start(slots) == "oooooo");
  for (int i = 0; i < 6; ++i) slots.give_back(Slot::handler);
  BOOST_TEST(!slots.held_back().empty());
  slots.push(job('n', 1));
  BOOST_TEST(start(slots) == "n");
}

BOOST_AUTO_TEST_CASE(destructors_are_delayed_and_run_singly) {
  Slots slots(4, 16);
  slots.push_release(job('x'));
  slots.push_release(job('y'));
  slots.push(job('a'));
  BOOST_TEST(start(slots) == "a");
  slots.releases_are_due();
  BOOST_TEST(start(slots) == "x");
  slots.ended(Slot::release);
  BOOST_TEST(start(slots) == "y");
  slots.ended(Slot::release);
  slots.push_release(job('z'));
  BOOST_TEST(!slots.can_run());
  slots.stop_delaying();
  BOOST_TEST(start(slots) == "z");
}

BOOST_AUTO_TEST_CASE(blocked_destructors_leave_threads_for_nested_calls) {
  Slots slots(2, 10);  // one thread for the sockets, one for nested calls
  for (int i = 0; i < 20; ++i) slots.push_release(job('x'));
  slots.stop_delaying();
  std::string started;
  while (slots.can_run()) {
    started += start(slots);
    slots.give_back(Slot::release);
  }
  BOOST_TEST(started == "xxxxxxxx");
  slots.push(job('o'));
  BOOST_TEST(start(slots) == "");
  slots.push(job('n', 1));
  BOOST_TEST(start(slots) == "n");
}

BOOST_AUTO_TEST_CASE(frames_are_held_only_without_a_leader) {
  Leadership leadership;
  HeldSends held(leadership);
  const auto sender = std::make_shared<CountingSender>();
  BOOST_TEST(held.hold(sender));
  leadership.take();
  BOOST_TEST(!held.hold(sender));
  BOOST_TEST(sender->written == 0);
  held.flush();
  BOOST_TEST(sender->written == 1);
  BOOST_TEST(!held.any());
  held.flush();
  BOOST_TEST(sender->written == 1);
  leadership.release();
  BOOST_TEST(held.hold(sender));
  held.flush();
  BOOST_TEST(sender->written == 2);
}

BOOST_AUTO_TEST_CASE(reactor_reports_readability_and_end) {
  Reactor reactor;
  Connected connected;
  connected.say("early");
  reactor.watch(connected.here.get(), connected.reader);
  BOOST_TEST(reactor.run_one(soon()));
  BOOST_TEST(connected.reader->text == "early");
  BOOST_TEST(!reactor.run_one(Clock::now()));
  connected.say("late");
  BOOST_TEST(reactor.run_one(soon()));
  BOOST_TEST(connected.reader->text == "earlylate");
  connected.say("again");
  BOOST_TEST(reactor.poll_one());  // read without having been reported
  BOOST_TEST(connected.reader->text == "earlylateagain");
  connected.there.reset();
  while ((connected.reader->seen & EPOLLRDHUP) == 0) BOOST_REQUIRE(reactor.run_one(soon()));
  reactor.unwatch(connected.here.get());
  BOOST_TEST(connected.reader.use_count() == 1);
}

BOOST_AUTO_TEST_CASE(new_connections_do_not_starve_links) {
  Reactor reactor;
  Connected connected;
  reactor.watch(connected.here.get(), connected.reader);
  const auto acceptor = network().listen_tcp(reactor, {boost::asio::ip::address_v4::loopback(), 0});
  std::vector<std::unique_ptr<Stream>> accepted;
  std::function<void()> accept_next = [&] {
    acceptor->wait([&](int error) {
      BOOST_TEST(error == 0);
      if (auto one = acceptor->accept(); one.stream) accepted.push_back(std::move(one.stream));
      accept_next();
    });
  };
  accept_next();
  std::vector<Network::Connecting> clients;
  for (int i = 0; i < 50; ++i) clients.push_back(network().connect_tcp(acceptor->tcp_endpoint()));
  connected.say("text");
  for (int i = 0; i < 10 && connected.reader->text.empty(); ++i) reactor.run_one(soon());
  BOOST_TEST(connected.reader->text == "text");
  BOOST_TEST(accepted.size() < clients.size());
  while (accepted.size() < clients.size()) BOOST_REQUIRE(reactor.run_one(soon()));
  BOOST_TEST(!acceptor->has_pending());
  acceptor->close();
  acceptor->close();
}

BOOST_AUTO_TEST_CASE(waiting_acceptor_ends_with_its_reactor) {
  auto reactor = std::make_unique<Reactor>();
  const std::shared_ptr<Acceptor> acceptor =
      network().listen_tcp(*reactor, {boost::asio::ip::address_v4::loopback(), 0});
  acceptor->wait([acceptor](int) {});
  BOOST_TEST(acceptor.use_count() == 2);
  reactor.reset();
  BOOST_TEST(acceptor.use_count() == 1);
}

BOOST_AUTO_TEST_CASE(unwatch_drops_pending_events) {
  Reactor reactor;
  Connected first, second;
  reactor.watch(first.here.get(), first.reader);
  reactor.watch(second.here.get(), second.reader);
  first.say("1");
  second.say("2");
  BOOST_TEST(reactor.run_one(soon()));  // both were noticed
  Connected& other = first.reader->text.empty() ? first : second;
  reactor.unwatch(other.here.get());
  BOOST_TEST(!reactor.run_one(Clock::now()));
  BOOST_TEST(other.reader->text.empty());
}

BOOST_AUTO_TEST_CASE(posts_timers_and_interrupts_wake_the_leader) {
  Reactor reactor;
  std::atomic<int> run{0};
  std::thread other([&] { reactor.post([&] { ++run; }); });
  BOOST_TEST(reactor.run_one(soon()));
  other.join();
  BOOST_TEST(run == 1);

  Timer timer(reactor);
  reactor.post([&] { timer.call_after(1ms, [&] { ++run; }); });
  while (run < 2) BOOST_REQUIRE(reactor.run_one(soon()));

  std::thread interrupts([&] { reactor.interrupt(); });
  BOOST_TEST(!reactor.run_one(Clock::time_point::max()));
  interrupts.join();
  BOOST_TEST(reactor.take_interrupt());
  BOOST_TEST(!reactor.take_interrupt());
}

BOOST_AUTO_TEST_CASE(callback_errors_do_not_reach_the_leader) {
  Reactor reactor;
  const Connected one;
  reactor.watch(one.here.get(), one.reader);
  one.say("enough!");
  BOOST_TEST(reactor.run_one(soon()));
  BOOST_TEST(one.reader->failures == 1);
  reactor.unwatch(one.here.get());

  int run = 0;
  reactor.post([] { throw std::runtime_error("thrown by a test, in a posted function"); });
  Timer timer(reactor);
  timer.call_after(0ms, [&] {
    ++run;
    throw std::runtime_error("thrown by a test, in a timer");
  });
  reactor.post([&] { ++run; });
  while (run < 2) BOOST_REQUIRE(reactor.run_one(soon()));
  reactor.post([&] { ++run; });
  while (run < 3) BOOST_REQUIRE(reactor.run_one(soon()));
}

BOOST_AUTO_TEST_CASE(reposting_functions_do_not_starve_reads) {
  Reactor reactor;
  Connected connected;
  reactor.watch(connected.here.get(), connected.reader);
  std::function<void()> again = [&] { reactor.post([&] { again(); }); };
  again();
  connected.say("x");
  for (int i = 0; i < 100; ++i) reactor.run_one(soon());
  BOOST_TEST(connected.reader->text == "x");
}

BOOST_AUTO_TEST_CASE(short_mutex_excludes_threads_and_wakes_waiters) {
  ShortMutex mutex;
  int64_t count = 0;  // two threads inside at once would miscount it
  bool inside = false;
  std::atomic<int> met{0};
  std::array<std::atomic<pid_t>, 4> ids{};  // 0: not started, or finished
  std::vector<std::jthread> threads;
  for (std::size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      ids[t] = ::gettid();
      const std::size_t next = (t + 1) % 4;
      for (std::size_t i = 0; i < 5000; ++i) {
        const std::lock_guard lock(mutex);
        if (std::exchange(inside, true)) ++met;
        if (i % 500 == 100 * t) {  // until another thread waits in the kernel
          (void)tendril::test::holds_within(60s, [&] { return ids[next] == 0 || tendril::test::is_asleep(ids[next]); });
        }
        ++count;
        inside = false;
      }
      ids[t] = 0;
    });
  }
  threads.clear();
  BOOST_TEST(count == 20'000);
  BOOST_TEST(met == 0);
  BOOST_TEST(mutex.try_lock());
  std::atomic<bool> refused{false};
  std::jthread([&] { refused = !mutex.try_lock(); }).join();
  BOOST_TEST(refused);
  std::atomic<pid_t> id{0};
  std::atomic<bool> entered{false};
  std::jthread waiter([&] {
    id = ::gettid();
    const std::lock_guard lock(mutex);
    ++count;
    entered = true;
  });
  BOOST_TEST(tendril::test::wait_until_asleep(id, [&] { return entered.load(); }));
  BOOST_TEST(!entered);
  mutex.unlock();
  waiter.join();
  BOOST_TEST(count == 20'001);
}

/// Samples a thread that has been in one job since `begun`. `until` samples it every 10 us until `end`, while it
/// computes for `part` of the time, and returns how often its processor time was read.
struct Looks {
  Looks(ProcessorUse& u, Clock::time_point b) : use(u), begun(b) {}
  int until(Clock::time_point end, double part) {
    int reads = 0;
    for (; now < end; now += 10us) {
      seen = use.computes(begun, now, [&] { return ++reads, used; });
      used += std::chrono::nanoseconds(static_cast<int64_t>(1e4 * part));
    }
    return reads;
  }
  ProcessorUse& use;
  const Clock::time_point begun;
  Clock::time_point now = begun + 5us;
  std::chrono::nanoseconds used{7'000'000};  // by earlier jobs
  bool seen = false;
};

BOOST_AUTO_TEST_CASE(job_counts_as_computing_until_it_sleeps) {
  const Clock::time_point begin{1s};
  ProcessorUse use;
  Looks looks(use, begin);
  looks.until(begin + 40us, 0);
  BOOST_TEST(looks.seen);  // it is too early to tell
  looks.until(begin + 100us, 0);
  BOOST_TEST(!looks.seen);
  BOOST_TEST(looks.until(begin + 20ms, 0.01) < 30);  // a thread that stays asleep is sampled every millisecond
  BOOST_TEST(!looks.seen);
  looks.until(begin + 23ms, 1);
  BOOST_TEST(looks.seen);
  looks.until(begin + 24ms, 0.02);
  BOOST_TEST(!looks.seen);
  Looks next(use, begin + 25ms);  // nothing is known about the next job
  next.until(begin + 25ms + 40us, 0);
  BOOST_TEST(next.seen);
}

BOOST_AUTO_TEST_SUITE_END()
