// Chapter 4: remote calls. Workers are named processes; a worker can call any function on another worker.
#include <tendril/tendril.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <thread>

using namespace tendril;
using namespace std::chrono_literals;

// Arguments and results are tensors, numbers, strings, containers of them, and classes with a serialize method.
struct Report {
  std::string worker;
  double mean = 0;

  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    archive& worker& mean;
  }
};

Report look_at(const Tensor& x) { return {rpc::get_worker_info().name, x.mean().item<double>()}; }
void refuse(const std::string& why) { throw std::runtime_error(why); }
void take_long() { std::this_thread::sleep_for(500ms); }

// While a handler waits for a call, its thread serves other calls, so calls can be mutually recursive.
std::int64_t countdown(std::int64_t n) {
  if (n == 0) return 0;
  const std::string other = rpc::get_worker_info().name == "alice" ? "bob" : "alice";
  return 1 + rpc::rpc_sync<&countdown>(other, n - 1);
}

void run(int rank) {
  rpc::init_rpc(rank == 0 ? "alice" : "bob");
  if (rank == 0) {
    // Waits for the result. A wrong argument type does not compile.
    const Report report = rpc::rpc_sync<&look_at>("bob", arange(5).to(kFloat32));
    std::printf("%s says: the mean is %g\n", report.worker.c_str(), report.mean);

    // Several concurrent calls. Wait for a Future when you need its value.
    std::vector<rpc::Future<Report>> answers;
    for (int i = 0; i < 3; ++i) answers.push_back(rpc::rpc_async<&look_at>("bob", full({2}, i)));
    for (const Report& one : rpc::wait_all(std::move(answers))) std::printf("  mean %g\n", one.mean);

    std::printf("20 calls deep: %lld\n", static_cast<long long>(rpc::rpc_sync<&countdown>("bob", 20)));

    // An exception in a handler is rethrown here; a call that takes too long ends at its deadline.
    try {
      rpc::rpc_sync<&refuse>("bob", std::string("not today"));
    } catch (const rpc::RemoteError& error) {
      std::printf("error: %s\n", error.what());
    }
    try {
      rpc::rpc_sync<&take_long>("bob", {.timeout = 50ms});
    } catch (const rpc::TimeoutError&) {
      std::printf("too late: it took more than 50 ms\n");
    }
  }
  rpc::shutdown();  // returns when all workers have finished
}

int main(int argc, char** argv) { rpc::launch<&run>(argc, argv, {.world_size = 2}); }
