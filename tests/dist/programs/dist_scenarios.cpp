// Scenarios of dist_processes_test: dist_scenarios NAME. They use only the features that the tutorials use.
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#include "tendril/autograd/hooks.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/dist/autograd/backward.h"
#include "tendril/dist/autograd/container.h"
#include "tendril/dist/autograd/context.h"
#include "tendril/dist/collectives/process_group.h"
#include "tendril/rpc/call.h"
#include "tendril/rpc/error.h"
#include "tendril/rpc/group.h"
#include "tendril/rpc/spawn.h"
#include "tendril/tensor/creation.h"
#include "tests/rpc/scenario.h"
#include "tests/wait_until.h"

namespace rpc = tendril::rpc;
namespace dist = tendril::dist;
using namespace tendril;
using namespace std::chrono_literals;

namespace dist_scenarios {

using namespace scenario;

void check(bool good, const char* what) {
  if (!good) throw std::logic_error(std::string("wrong: ") + what);
}

/// A model whose embedding and decoder are on one worker, as in the RNN tutorial.
struct Shard {
  Tensor table = tensor({1., 2., 3., 4.}, {.requires_grad = true});
  Tensor weight = tensor({4., 3., 2., 1.}, {.requires_grad = true});
  Tensor embed(const Tensor& x) { return x * table; }
  Tensor decode(const Tensor& h) { return h * weight; }
  /// Looks gradients up as the optimizer does, on the agent that serves this thread.
  bool has_gradients(dist::autograd::ContextId context) {
    const dist::autograd::Gradients gradients = dist::autograd::get_gradients(context);
    return gradients.contains(table) && gradients.contains(weight);
  }
};

/// Polls, because contexts end on the agents' threads without a notification.
bool nothing_left() {
  const auto counters = [] { return dist::autograd::Container::of(*rpc::default_agent())->counters(); };
  if (test::holds_within(30s, [&] { return counters().none(); })) return true;
  const auto left = counters();
  std::fprintf(stderr, "%s: %d contexts, %d send nodes, %d receive nodes, %d passes are left\n",
               rpc::get_worker_info().name.c_str(), static_cast<int>(left.contexts), static_cast<int>(left.send_nodes),
               static_cast<int>(left.recv_nodes), static_cast<int>(left.passes));
  return false;
}

void train(int rank, int iterations, bool fast) {
  rpc::init_rpc(name_of(rank));
  if (rank == 0) {
    const auto shard = rpc::remote<Shard>("w1");
    const Tensor x = ones({4});
    const Tensor inner = tensor({1., 1., 1., 1.}, {.requires_grad = true});
    const auto start = std::chrono::steady_clock::now();
    rusage before{}, after{};
    ::getrusage(RUSAGE_SELF, &before);
    for (int i = 0; i < iterations; ++i) {
      const dist::autograd::Context context;
      const Tensor h = shard.rpc_sync<&Shard::embed>(x);
      const Tensor out = shard.rpc_sync<&Shard::decode>(h * inner);
      dist::autograd::backward(context, {out.sum()},
                               {.mode = fast ? dist::autograd::Mode::fast : dist::autograd::Mode::smart});
      check(shard.rpc_sync<&Shard::has_gradients>(context.id()), "the owner has no gradients");
      if (i == 0) {
        const Tensor gradient = dist::autograd::get_gradients(context).at(inner);
        check(gradient.to_vector<double>() == std::vector<double>({4, 6, 6, 4}), "the gradient of the inner layer");
      }
    }
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
    ::getrusage(RUSAGE_SELF, &after);
    if (iterations > 100) {
      say(std::to_string(iterations / time.count()) + " iterations/s, " + (fast ? "FAST" : "SMART") + ", " +
          std::to_string(static_cast<double>(rpc::default_agent()->metrics().requests_sent) / iterations) +
          " requests and " + std::to_string(static_cast<double>(after.ru_nvcsw - before.ru_nvcsw) / iterations) +
          " waits per iteration at rank 0");
    }
  }
  rpc::shutdown();
}

// ---- members of a group of three, one of which is killed

Tensor twice(const Tensor& x) { return x * 2; }
Tensor dies_at_once(const Tensor& x) {
  ::raise(SIGKILL);
  return x;
}
template <int Signal>
Tensor raises_in_backward(const Tensor& x) {
  Tensor y = x * 2;
  autograd::register_hook(y, [](const Tensor&) -> Tensor {
    ::raise(Signal);
    return {};
  });
  return y;
}
Tensor by_way_of_2(const Tensor& x) { return rpc::rpc_sync<&twice>("w2", x) + rpc::rpc_sync<&twice>("w2", x * 3); }
Tensor by_way_of_1(const Tensor& x) { return rpc::rpc_sync<&raises_in_backward<SIGKILL>>("w1", x); }
bool is_clean() { return nothing_left(); }

/// Joins a group that detects a silent worker after three seconds.
void join(const std::string& name) {
  rpc::init_rpc(name, {.agent = {.ping_interval = 200ms, .liveness_timeout = 3s, .grace_period = 3s}});
}

template <auto Deadly>
void lose_a_worker() {
  const int rank = std::atoi(std::getenv("RANK"));
  join(name_of(rank));
  if (rank == 0) {
    const Tensor x = tensor({1., 2.}, {.requires_grad = true});
    {
      const dist::autograd::Context context;
      const auto start = std::chrono::steady_clock::now();
      try {
        const Tensor y = rpc::rpc_sync<&by_way_of_2>("w2", x);
        const Tensor z = rpc::rpc_sync<Deadly>(Deadly == &by_way_of_1 ? "w2" : "w1", y);
        dist::autograd::backward(context, {z.sum()});
        say("no error");
      } catch (const rpc::PeerLostError& e) {
        say(std::string("PeerLostError: ") + e.what());
      } catch (const std::exception& e) {
        say(std::string("another error: ") + e.what());
      }
      say(std::chrono::steady_clock::now() - start < 15s ? "in time" : "late");
      // The context and the other worker are still usable.
      dist::autograd::backward(context, {rpc::rpc_sync<&twice>("w2", x).sum()});
      say(dist::autograd::get_gradients(context).contains(x) ? "continues" : "no gradient");
    }
    say(nothing_left() && rpc::rpc_sync<&is_clean>("w2") ? "clean" : "something is left");
  }
  try {
    rpc::shutdown({.timeout = 30s});
  } catch (const rpc::RpcError&) {  // one of the workers is lost
  }
}

// ---- collectives

void reduce(int rank, int size) {
  rpc::init_rpc(name_of(rank));
  {
    std::vector<std::string> names;
    for (int r = 0; r < size; ++r) names.push_back(name_of(r));
    dist::ProcessGroup group(names);
    for (const bool by_rank : {true, false}) {
      const Tensor x = full({300'000}, rank + 1, {.dtype = kFloat64});
      group.all_reduce(x, dist::ReduceOp::average, {.deterministic = by_rank});
      check(equal(x, full({300'000}, (size + 1) / 2., {.dtype = kFloat64})), "the average");
    }
    check(group.all_gather(full({2}, rank)).at(1).to_vector<double>() == std::vector<double>({1, 1}), "all_gather");
  }
  rpc::shutdown();
}

void lose_a_member() {
  const int rank = std::atoi(std::getenv("RANK"));
  rpc::init_rpc(name_of(rank));
  {
    dist::ProcessGroup group({"w0", "w1", "w2"});
    try {
      group.barrier();  // fails too if this worker is still in it when w1 dies
      if (rank == 1) ::raise(SIGKILL);
      group.all_reduce(ones({1000}));
      say("no error");
    } catch (const rpc::PeerLostError& e) {
      say(std::string("PeerLostError: ") + e.what());
    }
    dist::ProcessGroup rest({"w0", "w2"});
    const Tensor x = ones({3});
    rest.all_reduce(x);
    say(x.to_vector<double>() == std::vector<double>({2, 2, 2}) ? "continues" : "a wrong sum");
  }
  try {
    rpc::shutdown({.timeout = 30s});
  } catch (const rpc::RpcError&) {  // one of the workers is lost
  }
}

/// The test stops w1 before it sends anything. The others only wait for parts from it.
void stop_a_member() {
  const int rank = std::atoi(std::getenv("RANK"));
  rpc::init_rpc(name_of(rank));
  {
    dist::ProcessGroup group({"w0", "w1", "w2"});
    group.barrier();
    say("in the group");
    if (rank == 1) {
      for (;;) ::pause();
    }
    try {
      group.broadcast(ones({10}), 1, {.timeout = 100s});
      say("no error");
    } catch (const rpc::RpcError& e) {
      say(std::string(dynamic_cast<const rpc::PeerLostError*>(&e) ? "PeerLostError: " : "another error: ") + e.what());
    }
  }
  try {
    rpc::shutdown({.timeout = 10s});
  } catch (const rpc::RpcError&) {  // one of the workers is lost
  }
}

/// Runs on the hosts of hosts.sh, where w1 is cut off. The backward of w0 that needs w1 and the collective of all
/// members must fail.
void unplug_a_member(const std::string& name) {
  join(name);
  const int self = rpc::get_worker_info().id;
  dist::ProcessGroup group({"w0", "w1", "w2", "w3"});
  const Tensor x = tensor({1., 2.}, {.requires_grad = true});
  const dist::autograd::Context context;
  const Tensor loss = rpc::rpc_sync<&twice>("w1", x).sum();
  group.barrier();
  give_sign("met." + std::to_string(self));
  if (self == 0) {  // only when all have passed the barrier
    for (int other = 0; other < 4; ++other) await_sign("met." + std::to_string(other));
    give_sign("cut");
  }
  await_sign("is_cut");
  if (self == 0) say(name + " backward: " + outcome_of([&] { dist::autograd::backward(context, {loss}); }));
  say(name + " reduces: " + outcome_of([&] { group.all_reduce(ones({1000}), {}, {.timeout = 100s}); }));
  if (self != 1) {
    dist::ProcessGroup rest({"w0", "w2", "w3"});
    const Tensor y = ones({3});
    rest.all_reduce(y);
    check(y.to_vector<double>() == std::vector<double>({3, 3, 3}), "the sum");
  }
  give_sign("done." + std::to_string(self));
  for (int other = 0; other < 4; ++other) await_sign("done." + std::to_string(other));
  rpc::shutdown({.graceful = false});
}

}  // namespace dist_scenarios
using namespace dist_scenarios;

int main(int argc, char** argv) {
  const char* const device = std::getenv("TENDRIL_TEST_DEVICE");  // workers that are spawned inherit it
  if (device && std::string(device) == "cuda") set_default_device({DeviceType::cuda, 0});
  rpc::worker_main(argc, argv);
  const std::string name = argc > 1 ? argv[1] : "";
  if (name == "unplugged") return by_hand(unplug_a_member);
  const int iterations = argc > 2 ? std::atoi(argv[2]) : 3;
  try {
    if (name == "smart") {
      rpc::spawn<&train>(2, iterations, false);
    } else if (name == "fast") {
      rpc::spawn<&train>(2, iterations, true);
    } else if (name == "collectives") {
      rpc::spawn<&reduce>(3, 3);
    } else if (name == "killed_in_all_reduce") {
      lose_a_member();
    } else if (name == "stopped_in_broadcast") {
      stop_a_member();
    } else if (name == "killed_in_forward") {
      lose_a_worker<&dies_at_once>();
    } else if (name == "killed_in_backward") {
      lose_a_worker<&raises_in_backward<SIGKILL>>();
    } else if (name == "stopped_in_backward") {
      lose_a_worker<&raises_in_backward<SIGSTOP>>();
    } else if (name == "killed_in_backward_two_hops_away") {
      lose_a_worker<&by_way_of_1>();
    } else {
      throw std::invalid_argument("no scenario '" + name + "'");
    }
    say("done");
  } catch (const std::exception& e) {
    say(std::string("error: ") + e.what());
    return 1;
  }
  return 0;
}
