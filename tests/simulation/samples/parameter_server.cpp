// Trainers that fetch and change parameters concurrently (Hogwild). Each update is applied at most once, and a fetch
// returns the sum of the updates before its step.
#include <chrono>
#include <exception>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tendril/rpc/archive.h"
#include "tendril/rpc/call.h"
#include "tendril/rpc/error.h"
#include "tendril/rpc/group.h"
#include "tendril/rpc/members.h"
#include "tendril/rpc/rref.h"
#include "tendril/rpc/system/mutex.h"
#include "tendril/rpc/system/thread.h"
#include "tendril/tendril.h"
#include "tests/simulation/workload.h"

namespace simulated::parameter_server {

using namespace std::chrono_literals;
using namespace tendril;

struct Update {
  int64_t amount = 0;
  int times_applied = 0;
  bool acknowledged = false;
};

/// The checker's record of one server.
struct Ledger {
  std::map<int64_t, Update> updates;
  std::vector<int64_t> sums{0};  // after each step
  int64_t acknowledged = 0;

  int64_t steps() const { return static_cast<int64_t>(sums.size()) - 1; }
};

std::map<int64_t, Ledger> ledgers;  // by number of the server
int64_t last_server = 0, last_update = 0;
bool must_succeed = false;  // no worker is lost

struct Fetched {
  int64_t step = 0;
  Tensor parameter;

  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    archive& step& parameter;
  }
};

/// Returns an empty string if all elements are equal to `value`, which is small enough to be exact.
std::string difference(const Tensor& parameter, int64_t value) {
  const double least = parameter.min().item<double>(), most = parameter.max().item<double>();
  if (least == static_cast<double>(value) && most == least) return {};
  return "got " + std::to_string(least) + " to " + std::to_string(most) + ", expected " + std::to_string(value);
}

class Server {
 public:
  Server(int64_t sealed_number, int64_t size) : number_(unseal(sealed_number).value_or(0)) {
    if (number_ == 0 || size < 1 || size > 60'000) throw Error("Server: corrupted arguments");
    parameter_ = zeros({size}, kFloat64);
  }
  ~Server() {
    const Ledger& ledger = ledgers[number_];
    const std::string wrong = difference(parameter_, ledger.sums.back());
    if (!wrong.empty()) problem("server " + std::to_string(number_) + " at its end: " + wrong);
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// Returns a copy, because a tensor must not change while it is being sent.
  Fetched fetch() {
    const std::lock_guard lock(mutex_);
    return {step_, parameter_.clone()};
  }
  int64_t change(int64_t sealed_update) {
    const auto update = unseal(sealed_update);
    if (!update) return 0;
    const std::lock_guard lock(mutex_);
    Ledger& ledger = ledgers[number_];
    Update& known = ledger.updates.at(*update);
    ledger.sums.reserve(ledger.sums.size() + 1);  // running out of memory must leave both unchanged
    parameter_.add_(static_cast<double>(known.amount));
    ++known.times_applied;
    ledger.sums.push_back(ledger.sums.back() + known.amount);
    return ++step_;
  }

 private:
  const int64_t number_;
  rpc::detail::Mutex mutex_;
  int64_t step_ = 0;
  Tensor parameter_;
};

struct Client {
  int64_t number = 0;
  rpc::RRef<Server> server;
};

void change(const Client& client, const rpc::CallOptions& options, Random& random) {
  const int64_t update = ++last_update;
  Ledger& ledger = ledgers[client.number];
  ledger.updates[update].amount = static_cast<int64_t>(random.between(1, 100));
  const int64_t step = client.server.rpc_sync<&Server::change>(options, seal(update));
  if (corrupts(faults_now())) return;
  ledger.updates[update].acknowledged = true;
  ++ledger.acknowledged;
  if (step < 1 || step > ledger.steps())
    problem("server " + std::to_string(client.number) + ": an update returned the step " + std::to_string(step));
}

/// A fetch returns all updates that were acknowledged before it.
void fetch(const Client& client, const rpc::CallOptions& options) {
  const Ledger& ledger = ledgers[client.number];
  const int64_t least = ledger.acknowledged;
  const Fetched fetched = client.server.rpc_sync<&Server::fetch>(options);
  if (corrupts(faults_now())) return;
  const std::string what = "server " + std::to_string(client.number) + ", step " + std::to_string(fetched.step) + ": ";
  if (fetched.step < least || fetched.step > ledger.steps())
    return problem(what + "expected a step from " + std::to_string(least) + " to " + std::to_string(ledger.steps()));
  const std::string wrong = difference(fetched.parameter, ledger.sums[static_cast<std::size_t>(fetched.step)]);
  if (!wrong.empty()) problem(what + wrong);
}

void train(const Client& client, Random& random) {
  const auto timeout = std::chrono::milliseconds(random.between(100, 5000));
  const rpc::CallOptions options{.timeout = must_succeed ? 10s : timeout};
  try {
    if (random.chance(0.5)) {
      change(client, options, random);
    } else {
      fetch(client, options);
    }
  } catch (const rpc::RpcError& e) {  // a worker is lost, or late
    if (must_succeed) problem("server " + std::to_string(client.number) + ": " + e.what());
  }
  if (random.chance(0.3)) rpc::sleep_for(std::chrono::milliseconds(random.below(100)));
}

void train_all(Random& random) {
  Client client{.number = ++last_server};
  client.server = rpc::remote<Server>(0, rpc::CallOptions{.timeout = 5s}, seal(client.number),
                                      static_cast<int64_t>(random.between(1, random.chance(0.3) ? 60'000 : 2000)));
  std::vector<rpc::detail::Thread> threads;
  for (int i = 0; i < 3; ++i)
    threads.emplace_back("trainer", [&client, seed = random.bits()] {
      Random own(seed);
      for (int step = 0; step < 15; ++step) train(client, own);
    });
  for (auto& thread : threads) thread.join();
}

void run(WorkerId rank) {
  Random random = random_of(rank);
  rpc::init_rpc("w" + std::to_string(rank), options_of_seed());
  try {
    if (rank != 0) train_all(random);
  } catch (const rpc::RpcError&) {
  }
  rpc::shutdown({.timeout = 60s, .accept_losses = true});
}

void check(const SimulationReport& report, const Faults& faults) {
  check_all_returned(report, faults);
  for (const auto& [number, ledger] : ledgers)
    for (const auto& [id, update] : ledger.updates) {
      const int least = update.acknowledged || harmless(faults) ? 1 : 0;
      if (update.times_applied < least || update.times_applied > 1)
        problem("server " + std::to_string(number) + ": update " + std::to_string(id) + " was applied " +
                std::to_string(update.times_applied) + " times" + (update.acknowledged ? " and acknowledged" : ""));
    }
}

void begin(uint64_t seed) {
  ledgers.clear();
  last_server = last_update = 0;
  must_succeed = harmless(faults_of(seed));
}

const bool added = add({.name = "parameter_server", .world_size = 3, .begin = begin, .run = run, .check = check});

}  // namespace simulated::parameter_server
