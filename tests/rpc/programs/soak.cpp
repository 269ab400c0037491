// Workers that are killed, stopped and disconnected while they call each other: soak SECONDS [SEED] starts them
// (soak/driver.h). Exit status 0: every call has settled, none ran twice, the callees confirm the errors' reports of
// whether calls ran, and the workers that were never killed use no more memory and descriptors than before.
// scripts/soak.sh runs it for a long time. `soak worker RANK GENERATION SEED KEY` is one of the workers and reads the
// driver's commands.
// lines.
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <map>
#include <mutex>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "tendril/rpc/call.h"
#include "tendril/rpc/observe/status_signal.h"
#include "tendril/rpc/reference/rref_context.h"
#include "tendril/rpc/status.h"
#include "tendril/rpc/threads/unread_error.h"
#include "tendril/tensor/memory.h"
#include "tendril/tensor/raw.h"
#include "tests/rpc/soak/cut.h"
#include "tests/rpc/soak/driver.h"
#include "tests/rpc/soak/run_once.h"
#include "tests/seed.h"
#include "tests/wait_until.h"

namespace rpc = tendril::rpc;
using namespace std::chrono_literals;
using rpc::Clock;

namespace soak {

struct Tally {
  std::atomic<uint64_t> good{0}, may_have_run{0}, not_run{0}, timeouts{0}, cancelled{0}, errors{0};
  std::atomic<uint64_t> agreed{0}, unknown{0}, cuts{0}, wrong{0};
};

struct Peer {
  std::atomic<int> generation{-1};
  std::atomic<uint64_t> last_number{0};
};

/// State of this worker process.
struct Worker {
  int rank = 0, generation = 0;
  rpc::Agent* agent = nullptr;
  RunLog log;
  std::array<Peer, kWorkers> peers;
  Tally tally;

  CallId id_for(int to) { return {rank, generation, ++peers[static_cast<std::size_t>(to)].last_number}; }
  /// Records that a function with this id has begun.
  void ran(const CallId& id) {
    const RunLog::Run run = log.note(id);
    if (run != RunLog::Run::first)
      wrong("call %d of worker %d ran %s", id, run == RunLog::Run::again ? "twice" : "late");
  }
  void wrong(const char* format, const CallId& id, const char* how) {
    if (tally.wrong++ > 10) return;
    std::fprintf(stderr, "soak: worker %d.%d: ", rank, generation);
    std::fprintf(stderr, format, static_cast<int>(id.number), id.caller, how);
    std::fputc('\n', stderr);
  }
} self;

// ---- Served functions. Each records its id, which shows whether it ran once.

int add(const CallId& id, int a, int b) {
  self.ran(id);
  return a + b;
}
tendril::Tensor same(const CallId& id, tendril::Tensor x) {
  self.ran(id);
  return x;
}
/// The durations of handlers are part of the random workload.
int sleep_ms(const CallId& id, int ms) {
  self.ran(id);
  rpc::blocking([ms] { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); });
  return ms;
}
int chain(const CallId& id, int depth) {
  self.ran(id);
  if (depth == 0) return 0;
  const int next = (self.rank + 1) % kWorkers;
  return 1 + rpc::rpc_sync<&chain>(*self.agent, next, self.id_for(next), depth - 1);
}
struct Counter {
  Counter(const CallId& id, int start) : value(start) { self.ran(id); }
  int add(const CallId& id, int by) {
    self.ran(id);
    return value += by;
  }
  std::atomic<int> value;
};
int use(const CallId& id, const rpc::RRef<Counter>& counter) {
  self.ran(id);
  return counter.rpc_sync<&Counter::add>(self.id_for(counter.owner().id), 1);
}
rpc::RRef<Counter> lend(const CallId& id, int start) {
  self.ran(id);
  return rpc::make_rref<Counter>(*self.agent, self.id_for(self.rank), start);
}
/// This worker's generation, and how often each of these calls has run here.
std::vector<int> runs(int caller, int generation, const std::vector<uint64_t>& numbers) {
  std::vector<int> result = self.log.runs(caller, generation, numbers);
  result.insert(result.begin(), self.generation);
  return result;
}

// ---- Calling

class Caller {
 public:
  explicit Caller(uint64_t seed) : random_(seed) {}

  void step() {
    const int to = below(kWorkers), number = below(1000);
    const rpc::CallOptions options = below(4) == 0 ? rpc::CallOptions{.timeout = 0s} : rpc::CallOptions{};
    rpc::Agent& agent = *self.agent;
    switch (below(9)) {
      case 0:
        attempt(to, [&](const CallId& id) {
          expect(rpc::rpc_sync<&add>(agent, to, options, id, number, 1) == number + 1, id, "a sum");
        });
        break;
      case 1: {
        std::vector<std::pair<CallId, rpc::Future<int>>> many;
        const int generation = generation_of(to);
        for (int i = 0; i < 32; ++i) {
          const CallId id = self.id_for(to);
          many.emplace_back(id, rpc::rpc_async<&add>(agent, to, options, id, number, i));
        }
        for (int i = 0; i < 32; ++i) {
          auto& [id, sum] = many[static_cast<std::size_t>(i)];
          settle(to, generation, id, [&] { expect(sum.wait() == number + i, id, "one sum of many"); });
        }
        break;
      }
      case 2: {
        // Memory of either size is released soon. For sizes in between, the threads' caches grow for minutes.
        const int64_t size = below(16) == 0 ? (1 << 18) + below(1 << 19) : 1 + below(1 << 11);
        attempt(to, [&](const CallId& id) {
          const auto y = rpc::rpc_sync<&same>(agent, to, options, id, tendril::raw::full({size}, number));
          const bool good = y.numel() == size && tendril::raw::select(y, 0, size - 1).item<int>() == number;
          expect(good, id, "a tensor");
        });
        break;
      }
      case 3:
        attempt(to, [&](const CallId& id) {
          expect(rpc::rpc_sync<&chain>(agent, to, options, id, 3) == 3, id, "nested calls");
        });
        break;
      case 4: {
        const std::chrono::microseconds timeout(200 + below(20000));
        attempt(to,
                [&](const CallId& id) { rpc::rpc_sync<&sleep_ms>(agent, to, {.timeout = timeout}, id, below(20)); });
        break;
      }
      case 5:
        attempt(to, [&](const CallId& id) { rpc::rpc_sync<&sleep_ms>(agent, to, options, id, below(100)); });
        break;
      case 6: {
        const rpc::RRef<Counter> counter = create(to, options, number);
        if (!counter) break;
        const int other = below(kWorkers);
        // Either call may fail, so only the order of the counter's values is known.
        attempt(other, [&](const CallId& id) {
          expect(rpc::rpc_sync<&use>(agent, other, options, id, counter) > number, id, "a count");
        });
        attempt(to, [&](const CallId& id) {
          expect((counter.rpc_sync<&Counter::add>(options, id, 2)) >= number + 2, id, "a method");
        });
        break;
      }
      case 7:
        attempt(to, [&](const CallId& id) {
          const rpc::RRef<Counter> lent = rpc::rpc_sync<&lend>(agent, to, options, id, number);
          attempt(to, [&](const CallId& second) {
            expect((lent.rpc_sync<&Counter::add>(options, second, 1)) == number + 1, second, "a lent counter");
          });
        });
        break;
      default: {
        std::stop_source stop;
        attempt(to, [&](const CallId& id) {
          const auto cancelled = rpc::rpc_async<&sleep_ms>(agent, to, {.stop = stop.get_token()}, id, below(3));
          stop.request_stop();
          cancelled.wait();
        });
      }
    }
    if (claims(to).numbers.size() >= 200) compare(to, Clock::now() + 100ms);
  }

  /// Compares all claims that have not been compared yet.
  void compare_all() {
    for (int to = 0; to < kWorkers; ++to) compare(to, Clock::now() + 60s);
  }

 private:
  int below(int n) { return static_cast<int>(random_() % static_cast<uint64_t>(n)); }
  Claims& claims(int to) { return claims_[static_cast<std::size_t>(to)]; }
  static int generation_of(int to) { return self.peers[static_cast<std::size_t>(to)].generation; }

  void expect(bool good, const CallId& id, const char* what) {
    if (!good) self.wrong("call %d of worker %d has a wrong result: %s", id, what);
  }

  rpc::RRef<Counter> create(int to, const rpc::CallOptions& options, int start) try {
    return rpc::remote<Counter>(*self.agent, to, options, self.id_for(to), start);
  } catch (const rpc::RpcError&) {  // not connected
    ++self.tally.errors;
    return {};
  }

  template <class Call>
  void attempt(int to, Call call) {
    const int generation = generation_of(to);
    const CallId id = self.id_for(to);
    settle(to, generation, id, [&] { call(id); });
  }

  template <class Wait>
  void settle(int to, int generation, const CallId& id, Wait wait) {
    // A result shows that the call ran once. A call that certainly has not run must not be found to have run. Of other
    // calls, the callee only checks that they did not run twice.
    const auto claim = [&](int runs) {
      if (generation == generation_of(to)) claims(to).add(generation, id.number, runs);
    };
    Tally& tally = self.tally;
    try {
      wait();
      ++tally.good;
      claim(1);
    } catch (const rpc::PeerLostError& error) {
      ++(error.may_have_run() ? tally.may_have_run : tally.not_run);
      if (!error.may_have_run()) claim(0);
      std::this_thread::sleep_for(1ms);  // limits the calls that fail at once until the peer is back
    } catch (const rpc::TimeoutError&) {
      ++tally.timeouts;
    } catch (const rpc::CancelledError&) {
      ++tally.cancelled;
    } catch (const rpc::RRefError&) {
      ++tally.errors;
    } catch (const rpc::RemoteError& error) {
      // A nested call failed, or a reference that this call passed.
      const std::string& type = error.type();
      const bool usual = type.find("PeerLostError") != type.npos || type.find("RRefError") != type.npos ||
                         type.find("TimeoutError") != type.npos || type.find("CancelledError") != type.npos;
      if (usual) {
        ++tally.errors;
      } else {
        self.wrong("call %d of worker %d: %s", id, error.what());
      }
    } catch (const std::exception& error) {
      self.wrong("call %d of worker %d: %s", id, error.what());
    }
  }

  /// If the worker does not answer by the deadline, its claims are kept for the next comparison.
  void compare(int to, Clock::time_point deadline) {
    Claims& mine = claims(to);
    const auto compared = [&] {
      if (mine.numbers.empty() || mine.generation != generation_of(to)) return true;
      try {
        const auto theirs = rpc::rpc_sync<&runs>(*self.agent, to, self.rank, self.generation, mine.numbers);
        if (theirs[0] != mine.generation) return true;  // it has been restarted
        for (std::size_t i = 0; i < mine.numbers.size(); ++i) {
          if (theirs[i + 1] < 0) {
            ++self.tally.unknown;
          } else if (theirs[i + 1] == mine.runs[i]) {
            ++self.tally.agreed;
          } else {
            self.wrong("call %d of worker %d: %s", {self.rank, self.generation, mine.numbers[i]},
                       mine.runs[i] != 0 ? "it returned a result but has not run"
                                         : "it ran, but its error says that it did not");
          }
        }
        return true;
      } catch (const rpc::RpcError&) {
        return false;
      }
    };
    if (tendril::test::holds_within(deadline - Clock::now(), compared)) mine = Claims{};
  }

  std::mt19937_64 random_;
  std::array<Claims, kWorkers> claims_;
};

// ---- One worker

/// Waits for `time`, or until a stop is requested.
void pause(const std::stop_token& stop, std::chrono::milliseconds time) {
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  never.wait_for(lock, stop, time, [] { return false; });
}

/// Connects to the peers that the driver has named, and reconnects when a session has ended.
class Dialler {
 public:
  void add(int rank, const std::string& endpoint) {
    const std::lock_guard lock(mutex_);
    endpoints_[rank] = endpoint;
  }
  void remove(int rank) {
    const std::lock_guard lock(mutex_);
    endpoints_.erase(rank);
  }
  void run(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      std::map<int, std::string> endpoints;
      {
        const std::lock_guard lock(mutex_);
        endpoints = endpoints_;
      }
      for (const auto& [rank, endpoint] : endpoints) {
        if (stop.stop_requested() || self.agent->is_connected(rank)) continue;
        try {
          self.agent->connect({name_of(rank), rank}, rpc::Agent::Endpoint::parse(endpoint), Clock::now() + 1s);
        } catch (const rpc::RpcError&) {  // it is stopped or dead, or has not noticed the loss yet
        }
      }
      pause(stop, 20ms);
    }
  }

 private:
  std::mutex mutex_;
  std::map<int, std::string> endpoints_;
};

bool nothing_left() {
  const rpc::Metrics now = self.agent->metrics();
  return now.pending_calls + now.queued_jobs + now.active_handlers + now.unanswered_calls + now.queued_bytes == 0 &&
         now.calls_made == now.calls_completed + now.calls_failed &&
         rpc::RRefContext::of(*self.agent)->counters().none();
}

void cut_now_and_then(std::mt19937_64 random, const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    pause(stop, std::chrono::milliseconds(50 + random() % 500));
    if (cut_one(random)) ++self.tally.cuts;
    tendril::memory::trim();
  }
}

int work(int rank, int generation, uint64_t seed, const std::string& key) {
  self.rank = rank;
  self.generation = generation;
  rpc::set_unread_error_handler([](const rpc::UnreadError&) {});  // for calls that no thread waits for any more
  rpc::Agent agent({.name = name_of(rank),
                    .rank = rank,
                    .world_size = kWorkers,
                    .num_worker_threads = 4,
                    .max_threads = 32,
                    .rpc_timeout = 5s,
                    .group = std::string("soak"),
                    .send_limit = 8 << 20,
                    .ping_interval = 300ms,
                    .liveness_timeout = kLiveness,
                    .grace_period = kGrace,
                    .key = rpc::SharedKey::from_file(key)},
                   rpc::served_functions());
  self.agent = &agent;
  rpc::RRefContext::attach(agent);
  const rpc::detail::StatusSignal on_sigusr1;
  const rpc::Agent::Endpoint endpoint = agent.listen({.unix_socket = rank % 2 == 0});
  say("listens " + endpoint.to_string());

  Dialler dialler;
  std::vector<Caller> callers;
  for (uint64_t i = 0; i < 3; ++i) callers.emplace_back(seed * 10 + i);
  std::vector<std::jthread> calling;
  std::jthread dialling, cutting;
  for (std::string line, word; std::getline(std::cin, line);) {
    std::istringstream words(line);
    words >> word;
    if (word == "peer") {  // RANK GENERATION [ENDPOINT that this worker is to dial]
      int peer = 0, life = 0;
      std::string where;
      words >> peer >> life >> where;
      self.peers[static_cast<std::size_t>(peer)].generation = life;
      dialler.remove(peer);
      if (!where.empty()) dialler.add(peer, where);
    } else if (word == "start") {
      dialling = std::jthread([&](const std::stop_token& stop) { dialler.run(stop); });
      cutting = std::jthread(
          [&, random = std::mt19937_64(seed)](const std::stop_token& stop) { cut_now_and_then(random, stop); });
      for (Caller& caller : callers) {
        calling.emplace_back([&caller](const std::stop_token& stop) {
          while (!stop.stop_requested()) caller.step();
        });
      }
    } else if (word == "stop") {
      cutting = {};
      calling.clear();  // joins: every call settles
      say("stopped");
    } else if (word == "compare") {
      for (Caller& caller : callers) caller.compare_all();
      say("compared");
    } else if (word == "rest") {
      (void)tendril::test::holds_within(60s, nothing_left);
      const Tally& t = self.tally;
      std::ostringstream text;
      text << "result " << (t.wrong == 0 && nothing_left() ? "good" : "bad") << " " << t.good << " " << t.may_have_run
           << " " << t.not_run << " " << t.timeouts << " " << t.cancelled << " " << t.errors << " " << t.agreed << " "
           << t.unknown << " " << t.cuts << " " << t.wrong;
      if (!nothing_left()) std::cerr << "soak: left on " << name_of(rank) << ": " << rpc::status(agent);
      say(text.str());
    } else if (word == "leave") {
      dialling = {};
      agent.shutdown(Clock::now() + 30s);
      return 0;
    }
  }
  std::_Exit(3);  // the driver is gone
}

}  // namespace soak

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.size() == 5 && arguments[0] == "worker") {
    return soak::work(std::stoi(arguments[1]), std::stoi(arguments[2]), std::stoull(arguments[3]), arguments[4]);
  }
  if (arguments.empty() || arguments.size() > 2) {
    std::cerr << "usage: soak SECONDS [SEED]\n";
    return 2;
  }
  const uint64_t seed = arguments.size() > 1 ? std::stoull(arguments[1]) : tendril::testing::test_seed();
  return soak::Driver(argv[0], std::stod(arguments[0]), seed).run() ? 0 : 1;
}
