// Forwards threads, locks, the clock and random numbers to the simulation, if one is running.
#include "tendril/rpc/system/simulator.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "tendril/rpc/error.h"
#include "tendril/rpc/system/allocations_must_succeed.h"
#include "tendril/rpc/system/mutex.h"
#include "tendril/rpc/system/run_time.h"
#include "tendril/rpc/system/thread.h"
#include "tendril/rpc/system/thread_state.h"

namespace tendril::rpc::detail {

constinit Simulator* simulator = nullptr;

AllocationsMustSucceed::AllocationsMustSucceed() noexcept { ++ThreadState::current().must_allocate; }
AllocationsMustSucceed::~AllocationsMustSucceed() { --ThreadState::current().must_allocate; }

Clock::time_point simulated_now() noexcept { return simulator->now(); }

std::chrono::nanoseconds simulated_run_time() noexcept { return simulator->run_time(); }

void Mutex::lock_simulated() { simulator->lock(*this); }
void Mutex::unlocked_simulated() noexcept { simulator->unlocked(*this); }

bool Condition::wait_simulated(Mutex& mutex, Clock::time_point deadline) {
  return simulator->wait(*this, mutex, deadline);
}
void Condition::notify_simulated(bool all) noexcept { simulator->notify(*this, all); }

Thread::Thread(const std::string& name, std::function<void()> body) {
  if (simulator != nullptr) {
    fibre_ = simulator->start(std::move(body), name);
    return;
  }
  thread_ = std::thread([name = name.substr(0, 15), body = std::move(body)] {
    pthread_setname_np(pthread_self(), name.c_str());
    body();
  });
}

bool Thread::is_current() const noexcept {
  return fibre_ != nullptr ? simulator->current() == fibre_ : thread_.get_id() == std::this_thread::get_id();
}

void Thread::join() {
  if (fibre_ != nullptr) return simulator->join(std::exchange(fibre_, nullptr));
  thread_.join();
}

void Thread::detach() {
  if (fibre_ != nullptr) return simulator->detach(std::exchange(fibre_, nullptr));
  thread_.detach();
}

void random_bytes(std::span<std::byte> to) {
  if (simulator == nullptr) {
    TENDRIL_CHECK_AS(RpcError, ::getentropy(to.data(), to.size()) == 0, "cannot get random numbers from the system");
    return;
  }
  for (std::size_t at = 0; at < to.size(); at += sizeof(uint64_t)) {
    const uint64_t bits = simulator->random_bits();
    std::memcpy(to.data() + at, &bits, std::min(sizeof bits, to.size() - at));
  }
}

uint64_t random_bits() {
  uint64_t bits = 0;
  random_bytes(std::as_writable_bytes(std::span(&bits, 1)));
  return bits;
}

}  // namespace tendril::rpc::detail

void tendril::rpc::sleep_until(Clock::time_point when) {
  if (detail::simulator != nullptr) return detail::simulator->sleep_until(when);
  std::this_thread::sleep_until(when);
}
