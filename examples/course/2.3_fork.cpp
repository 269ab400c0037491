// Task 2.3: a worker that is not the owner passes a reference on. rref_transfer.cpp, RRefTable::fork; docs/rref.md.
#include <tendril/rpc/call.h>
#include <tendril/rpc/group.h>
#include <tendril/rpc/launch.h>
#include <tendril/rpc/rref.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <optional>
#include <thread>

#include "course.h"

using namespace tendril;
using course::check;
using course::same;

struct Counter {
  explicit Counter(std::int64_t start) : value(start) {}
  std::int64_t add(std::int64_t n) { return value += n; }
  std::int64_t value;
};

std::optional<rpc::RRef<Counter>> kept;

// These run on carol, which received the reference from alice and calls bob.
std::int64_t add_ten(const rpc::RRef<Counter>& counter) { return counter.rpc_sync<&Counter::add>(10); }
void keep(const rpc::RRef<Counter>& counter) { kept = counter; }
std::int64_t add_to_kept() { return kept->rpc_sync<&Counter::add>(100); }
void drop() { kept.reset(); }
std::int64_t process() { return getpid(); }
std::int64_t users_here() { return static_cast<std::int64_t>(rpc::rref_counters().forks); }

int run(int rank) {
  const char* names[] = {"alice", "bob", "carol"};
  rpc::InitOptions options;
  options.rpc_timeout = std::chrono::seconds(20);
  rpc::init_rpc(names[rank], options);
  if (rank == 0) {
    check("a call through a new reference, without a fork", [] {
      const auto counter = rpc::remote<Counter>("bob", 1);
      return same(counter.rpc_sync<&Counter::add>(1), 2);
    });
    check("carol calls bob through a reference from alice", [] {
      const auto counter = rpc::remote<Counter>("bob", 1);
      return same(rpc::rpc_sync<&add_ten>("carol", counter), 11);
    });
    check("passing the reference twice makes two forks", [] {
      const auto counter = rpc::remote<Counter>("bob", 1);
      rpc::rpc_sync<&add_ten>("carol", counter);
      return same(rpc::rpc_sync<&add_ten>("carol", counter), 21);
    });
    check("the object lives if alice drops the reference in transit and carol keeps it", [] {
      auto counter = std::make_optional(rpc::remote<Counter>("bob", 1));
      counter->rpc_sync<&Counter::add>(1);  // waits until the object exists
      const auto carol = static_cast<pid_t>(rpc::rpc_sync<&process>("carol"));
      kill(carol, SIGSTOP);
      const auto kept_there = rpc::rpc_async<&keep>("carol", *counter);
      counter.reset();
      // Messages from alice to bob arrive in order, so once bob answers, a premature release would have taken effect.
      for (int i = 0; i < 10 && rpc::rpc_sync<&users_here>("bob") > 0; ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      kill(carol, SIGCONT);
      kept_there.wait();
      return same(rpc::rpc_sync<&add_to_kept>("carol"), 102);
    });
    check("bob has no users after the last reference is dropped", [] {
      rpc::rpc_sync<&drop>("carol");
      for (int i = 0; i < 1000 && rpc::rpc_sync<&users_here>("bob") > 0; ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      return same(rpc::rpc_sync<&users_here>("bob"), 0);
    });
  }
  rpc::shutdown();
  return course::result();
}

int main(int argc, char** argv) {
  try {
    rpc::launch<&run>(argc, argv, {.world_size = 3});
  } catch (const std::exception& error) {
    std::printf("%s\n", error.what());
    return 1;
  }
  return 0;
}
