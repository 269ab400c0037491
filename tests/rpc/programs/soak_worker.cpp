// One worker of scripts/soak.sh: soak_worker SECONDS SEED clean|faults. Rank, world size and port come from the
// environment. It makes random calls to the others while they make theirs, then waits until nothing is left, leaves,
// and prints one line. Exit status 0: every call settled with the right result or a permitted error, and every counter
// is back at zero. "faults": other workers may be killed or stopped meanwhile, and calls may fail with any RpcError.
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tendril/rpc/call.h"
#include "tendril/rpc/group.h"
#include "tendril/rpc/threads/unread_error.h"
#include "tendril/tensor/raw.h"
#include "tests/wait_until.h"

namespace rpc = tendril::rpc;
using namespace std::chrono_literals;
using rpc::Clock;

namespace soak {

std::atomic<int> objects{0};  // alive on this worker

struct Counter {
  explicit Counter(int start) : value(start) { ++objects; }
  Counter(const Counter&) = delete;
  ~Counter() { --objects; }
  int add(int by) { return value += by; }
  std::atomic<int> value;
};

int add(int a, int b) { return a + b; }
tendril::Tensor same(tendril::Tensor x) { return x; }
int fail(int number) { throw std::out_of_range(std::to_string(number)); }
/// The durations of handlers are part of the random workload.
int sleep_ms(int ms) {
  rpc::blocking([ms] { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); });
  return ms;
}
int chain(int depth) {
  const auto workers = rpc::get_worker_infos();
  if (depth == 0) return 0;
  const auto& next = workers[static_cast<std::size_t>(rpc::get_worker_info().id + 1) % workers.size()];
  return 1 + rpc::rpc_sync<&chain>(next, depth - 1);
}
int use(const rpc::RRef<Counter>& counter) { return counter.rpc_sync<&Counter::add>(1); }

struct Tally {
  std::atomic<uint64_t> right{0}, errors{0}, wrong{0};
};

void expect(bool good, Tally& tally, const char* what) {
  if (good) {
    ++tally.right;
    return;
  }
  if (tally.wrong++ < 5) std::fprintf(stderr, "soak: wrong: %s\n", what);
}

/// One random call, or a few that belong together.
void one_step(std::mt19937_64& random, int world_size, Tally& tally) {
  const auto below = [&](uint64_t n) { return static_cast<int>(random() % n); };
  const int to = below(static_cast<uint64_t>(world_size)), number = below(1000);
  switch (below(9)) {
    case 0:
      return expect(rpc::rpc_sync<&add>(to, number, 1) == number + 1, tally, "add");
    case 1: {
      std::vector<rpc::Future<int>> many;
      for (int i = 0; i < 32; ++i) many.push_back(rpc::rpc_async<&add>(to, number, i));
      const std::vector<int> sums = rpc::wait_all(std::move(many));
      return expect(sums.back() == number + 31, tally, "many adds");
    }
    case 2: {
      const int64_t size = 1 + below(1 << 16);
      const tendril::Tensor x = tendril::raw::full({size}, number);
      const tendril::Tensor y = rpc::rpc_sync<&same>(to, x);
      return expect(y.numel() == size && tendril::raw::select(y, 0, size - 1).item<int>() == number, tally, "a tensor");
    }
    case 3:
      return expect(rpc::rpc_sync<&chain>(to, 4) == 4, tally, "nested calls");
    case 4:
      try {
        rpc::rpc_sync<&sleep_ms>(to, {.timeout = std::chrono::microseconds(200 + below(2000))}, below(3));
      } catch (const rpc::TimeoutError&) {
      }
      return expect(true, tally, "");
    case 5:
      try {
        rpc::rpc_sync<&fail>(to, number);
        return expect(false, tally, "no error");
      } catch (const rpc::RemoteError& error) {
        return expect(error.message() == std::to_string(number), tally, "another error");
      }
    case 6: {
      const auto counter = rpc::remote<Counter>(to, number);
      const int other = below(static_cast<uint64_t>(world_size));
      expect(rpc::rpc_sync<&use>(other, counter) == number + 1, tally, "a reference passed on");
      return expect((counter.rpc_sync<&Counter::add>(2) == number + 3), tally, "a method");
    }
    case 7: {
      std::stop_source stop;
      const auto cancelled = rpc::rpc_async<&sleep_ms>(to, {.stop = stop.get_token()}, below(3));
      stop.request_stop();
      try {
        cancelled.wait();
      } catch (const rpc::CancelledError&) {
      }
      return expect(true, tally, "");
    }
    default:
      (void)rpc::rpc_async<&add>(to, number, 1);  // the result is dropped
      (void)rpc::remote<Counter>(to, number);
  }
}

bool nothing_left(rpc::Metrics& now, rpc::RRefCounters& references) {
  now = rpc::default_agent()->metrics();
  references = rpc::rref_counters();
  return now.pending_calls + now.queued_jobs + now.active_handlers + now.unanswered_calls + now.queued_bytes == 0 &&
         references.none() && objects == 0;
}

/// The most memory that this process has held, in MiB.
long peak_mib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::atol(line.c_str() + 6) / 1024;
  }
  return -1;
}

int run(int seconds, uint64_t seed, bool faults) {
  // Calls to a peer that dies leave errors that no thread reads.
  rpc::set_unread_error_handler([](const rpc::UnreadError&) {});
  rpc::AgentOptions agent{.ping_interval = 500ms, .liveness_timeout = faults ? 3s : 60s};
  const std::string name = std::string("w") + std::getenv("RANK");
  rpc::init_rpc(name, {.num_worker_threads = 4, .rpc_timeout = 30s, .init_timeout = 60s, .agent = agent});
  std::printf("ready\n");
  std::fflush(stdout);
  const int world_size = static_cast<int>(rpc::get_worker_infos().size());
  const auto end = Clock::now() + std::chrono::seconds(seconds);
  Tally tally;
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 random(seed * 1000 + static_cast<uint64_t>(rpc::get_worker_info().id) * 10 + t);
      while (Clock::now() < end) {
        try {
          one_step(random, world_size, tally);
        } catch (const rpc::RpcError& error) {
          ++tally.errors;
          if (!faults) expect(false, tally, error.what());
        } catch (const std::exception& error) {
          expect(false, tally, error.what());
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();

  rpc::Metrics now;
  rpc::RRefCounters left;
  const bool none = tendril::test::holds_within(40s, [&] { return nothing_left(now, left); });
  if (!none) {
    std::fprintf(stderr,
                 "soak: left on %s: %llu pending, %llu queued, %llu active, %llu unanswered, %llu bytes; "
                 "%zu owned, %zu forks, %zu users, %zu pending users, %zu pending children; %d objects\n",
                 name.c_str(), static_cast<unsigned long long>(now.pending_calls),
                 static_cast<unsigned long long>(now.queued_jobs), static_cast<unsigned long long>(now.active_handlers),
                 static_cast<unsigned long long>(now.unanswered_calls),
                 static_cast<unsigned long long>(now.queued_bytes), left.owner_rrefs, left.forks, left.users,
                 left.pending_users, left.pending_children, objects.load());
  }
  const bool settled = now.calls_made == now.calls_completed + now.calls_failed;
  bool left_together = true;
  try {
    rpc::shutdown({.timeout = 30s});
  } catch (const std::exception& error) {
    left_together = faults;  // a worker that has lost a peer leaves alone
    if (!faults) std::fprintf(stderr, "soak: shutdown of %s: %s\n", name.c_str(), error.what());
  }
  std::printf("%s: %llu calls, %llu right, %llu errors, %llu wrong, peak %ld MiB\n", name.c_str(),
              static_cast<unsigned long long>(now.calls_made), static_cast<unsigned long long>(tally.right),
              static_cast<unsigned long long>(tally.errors), static_cast<unsigned long long>(tally.wrong), peak_mib());
  return tally.wrong == 0 && none && settled && left_together ? 0 : 1;
}

}  // namespace soak

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: soak_worker SECONDS SEED clean|faults\n");
    return 2;
  }
  return soak::run(std::atoi(argv[1]), std::strtoull(argv[2], nullptr, 10), std::strcmp(argv[3], "faults") == 0);
}
