#include "bench/rpc/timed_calls.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <thread>

#include "tendril/rpc/call.h"
#include "tendril/tensor/raw.h"

namespace {

using namespace tendril;
using Clock = std::chrono::steady_clock;

constexpr int kSleepsIn = 100;

}  // namespace

// What the server serves.
void nothing() {}
Tensor echo(Tensor x) { return x; }
void sleep_for_5_ms() { std::this_thread::sleep_for(std::chrono::milliseconds(5)); }

namespace tendril::bench {

void call_nothing(rpc::Agent& agent) { rpc::rpc_sync<&nothing>(agent, 1); }
void call_echo(rpc::Agent& agent, const Tensor& x) { rpc::rpc_sync<&echo>(agent, 1, x); }
rpc::Future<void> call_sleep(rpc::Agent& agent) { return rpc::rpc_async<&sleep_for_5_ms>(agent, 1); }

std::vector<double> time_for(double seconds, const std::function<void()>& call,
                             const std::function<void(int)>& before_each) {
  std::vector<double> micros;
  const Clock::time_point begin = Clock::now();
  do {
    before_each(static_cast<int>(micros.size()));
    const Clock::time_point start = Clock::now();
    call();
    micros.push_back(seconds_since(start) * 1e6);
  } while (seconds_since(begin) < seconds);
  std::sort(micros.begin(), micros.end());
  return micros;
}

double calls_per_second(rpc::Agent& agent, int in_flight, double seconds) {
  std::deque<rpc::Future<void>> window;
  const Clock::time_point start = Clock::now();
  long done = 0;
  while (seconds_since(start) < seconds) {
    while (static_cast<int>(window.size()) < in_flight) window.push_back(rpc::rpc_async<&nothing>(agent, 1));
    window.front().wait();
    window.pop_front();
    ++done;
  }
  for (const auto& future : window) future.wait();
  return static_cast<double>(done) / seconds_since(start);
}

std::vector<double> beside_sleepers(rpc::Agent& agent, double seconds) {
  std::vector<rpc::Future<void>> sleeping;
  std::vector<double> micros = time_for(
      seconds, [&] { call_nothing(agent); },
      [&](int i) {
        if (i % kSleepsIn == 0) sleeping.push_back(call_sleep(agent));
      });
  for (const auto& future : sleeping) future.wait();
  return micros;
}

BesideLarge beside_large(rpc::Agent& agent, double seconds, int64_t mib) {
  BesideLarge result;
  std::atomic<bool> done{false};
  const Tensor x = raw::full({(mib << 20) / 4}, 1.0);
  call_echo(agent, x);  // its memory has been touched by then
  std::jthread large([&] {
    const Clock::time_point start = Clock::now();
    for (; !done; ++result.echoed) call_echo(agent, x);
    result.milliseconds = seconds_since(start) * 1e3 / std::max(result.echoed, 1);
  });
  result.micros = time_for(seconds, [&] { call_nothing(agent); });
  done = true;
  large.join();
  return result;
}

}  // namespace tendril::bench
