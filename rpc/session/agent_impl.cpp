#include "tendril/rpc/session/agent_impl.h"

#include <malloc.h>

#include <algorithm>

#include "tendril/rpc/device/transfer.h"
#include "tendril/rpc/error.h"
#include "tendril/rpc/system/thread.h"
#include "tendril/rpc/transport/flow_control.h"

namespace tendril::rpc {

namespace {

uint64_t random_number() {
  uint64_t number = 0;
  while (number == 0) number = detail::random_bits();
  return number;
}

AgentOptions checked(AgentOptions options) {
  const auto check = [](bool good, const char* what, auto got, const char* expected) {
    TENDRIL_CHECK_AS(UsageError, good, "AgentOptions: ", what, " = ", got, ", expected ", expected);
  };
  const std::string allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_:";
  check(!options.name.empty() && options.name.size() <= 127 &&
            options.name.find_first_not_of(allowed) == std::string::npos,
        "name", "'" + options.name + "'", "1 to 127 of [A-Za-z0-9-_:]");
  check(options.world_size >= 1, "world_size", options.world_size, "at least 1");
  check(options.rank >= 0 && options.rank < options.world_size, "rank", options.rank, "0 to world_size - 1");
  check(options.num_worker_threads >= 1, "num_worker_threads", options.num_worker_threads, "at least 1");
  check(options.max_threads >= 3 && options.max_threads > options.num_worker_threads, "max_threads",
        options.max_threads, "at least 3 and more than num_worker_threads");
  check(options.rpc_timeout.count() >= 0, "rpc_timeout (us)", options.rpc_timeout.count(), "0 (none) or more");
  check(options.limits.max_payload_bytes >= kMinPayloadBytes, "limits.max_payload_bytes",
        options.limits.max_payload_bytes, "at least 4096");
  check(options.receive_limit >= kMinRequestWindow, "receive_limit", options.receive_limit, "at least 65536");
  check(options.ping_interval.count() >= 0, "ping_interval (ms)", options.ping_interval.count(), "0 (never) or more");
  check(options.liveness_timeout.count() >= 0, "liveness_timeout (ms)", options.liveness_timeout.count(),
        "0 (never) or more");
  check(options.grace_period.count() >= 0, "grace_period (ms)", options.grace_period.count(), "0 (none) or more");
  // Longer than any process lives, and short enough that the sum of a few does not overflow.
  constexpr std::chrono::hours a_year(24 * 365);
  options.ping_interval = std::min<std::chrono::milliseconds>(options.ping_interval, a_year);
  options.liveness_timeout = std::min<std::chrono::milliseconds>(options.liveness_timeout, a_year);
  options.grace_period = std::min<std::chrono::milliseconds>(options.grace_period, std::chrono::hours(24));
  // A silent worker is pinged before it counts as lost.
  if (options.liveness_timeout.count() > 0 && options.ping_interval.count() > 0) {
    const auto often = std::max<std::chrono::milliseconds>(options.liveness_timeout / 4, std::chrono::milliseconds(1));
    options.ping_interval = std::min<std::chrono::milliseconds>(options.ping_interval, often);
  }
  options.max_spin = std::min<std::chrono::microseconds>(options.max_spin, std::chrono::seconds(1));
  return options;
}

}  // namespace

Agent::Impl::Impl(AgentOptions given, const FunctionTable& served)
    : options(checked(std::move(given))),
      self{options.name, options.rank},
      incarnation(random_number()),
      functions(served),
      loop(new detail::Loop({.name = options.name,
                             .slots = options.num_worker_threads,
                             .max_threads = options.max_threads,
                             .max_spin = options.max_spin})),
      sessions_(static_cast<std::size_t>(options.world_size)),
      ending_(static_cast<std::size_t>(options.world_size)),
      ended_(static_cast<std::size_t>(options.world_size)),
      workers_(static_cast<std::size_t>(options.world_size)),
      awaited_(static_cast<std::size_t>(options.world_size)),
      timer_(loop->reactor()) {
  detail::stamp_device_work();
}

uint64_t Agent::Impl::receive_window() const noexcept {
  const auto peers = static_cast<std::size_t>(std::max(1, options.world_size - 1));
  return std::max(options.receive_limit / peers, std::min<std::size_t>(options.receive_limit, SendWindow::kLeastApart));
}

void Agent::Impl::start() {
  const DeviceReport devices = devices_for(self.name);
  check_device_map(self, devices, self, devices);
  for (const auto& [peer, map] : options.device_maps) {
    for (const DeviceMap::Entry& entry : map.entries()) {
      TENDRIL_CHECK_AS(UsageError, entry.local.is_cpu() || entry.local.index < devices.cuda_devices,
                       "AgentOptions: the device map ", map.to_string(), " for '", peer, "' names ", entry.local,
                       " here, but this process has ", devices.cuda_devices, " CUDA devices");
    }
  }
  sessions_[static_cast<std::size_t>(self.id)] = std::make_shared<detail::Session>(
      shared_from_this(), self, incarnation, nullptr, detail::DeviceRoutes(self, devices, devices));
  note_worker(self);
  loop->start();
}

DeviceReport Agent::Impl::devices_for(const std::string& peer) const {
  // Queried once, because the driver is slow.
  static const int count = std::min(device_count(DeviceType::cuda), kMaxCudaDevices);
  const auto found = options.device_maps.find(peer);
  return {.cuda_devices = count,
          .map = found == options.device_maps.end() ? DeviceMap() : found->second,
          .cuda_ipc = options.cuda_ipc && count > 0};
}

bool Agent::Impl::is_shut_down() const {
  const std::lock_guard lock(mutex_);
  return shut_down_;
}

bool Agent::Impl::wait_connected(WorkerId peer, Clock::time_point deadline) {
  check_rank(peer, "wait_connected");
  Ref<FutureState<void>> connected(new FutureState<void>(loop.get()));
  {
    const std::lock_guard lock(mutex_);
    if (shut_down_) throw UsageError("wait_connected: worker '" + self.name + "' has been shut down");
    if (sessions_[static_cast<std::size_t>(peer)]) return true;
    awaited_[static_cast<std::size_t>(peer)].push_back(connected);
  }
  if (connected->wait_until(deadline)) {
    connected->rethrow_error();
    return true;
  }
  const std::lock_guard lock(mutex_);
  std::erase(awaited_[static_cast<std::size_t>(peer)], connected);
  return false;
}

void Agent::Impl::arm(Clock::time_point when) {
  if (when == Clock::time_point::max()) return;
  const Clock::rep wanted = when.time_since_epoch().count();
  Clock::rep armed = armed_.load(std::memory_order_relaxed);
  do {
    if (armed <= wanted) return;
  } while (!armed_.compare_exchange_weak(armed, wanted, std::memory_order_acq_rel));
  loop->post_io([weak = weak_from_this()] {
    const auto agent_alive = weak.lock();
    if (!agent_alive) return;
    const Clock::duration until(agent_alive->armed_.load(std::memory_order_acquire));
    agent_alive->timer_.call_at(Clock::time_point(until), [weak] {
      if (const auto alive = weak.lock()) alive->sweep();
    });
  });
}

void Agent::Impl::sweep() try {
  // This comes first, so that a call that is inserted from now on arms the timer again.
  armed_.store(Clock::time_point::max().time_since_epoch().count(), std::memory_order_release);
  const Clock::time_point now = Clock::now();
  Clock::time_point next = Clock::time_point::max();
  for (const auto& session : sessions()) next = std::min(next, session->sweep(now));
  if (listener) next = std::min(next, std::max(listener->on_timer(now), now + std::chrono::milliseconds(1)));
  arm(std::min(next, trim_memory(now)));
} catch (...) {
  arm(Clock::now() + kRest);
  throw;
}

/// Returns when to check again, or max() if that is not needed.
Clock::time_point Agent::Impl::trim_memory(Clock::time_point now) {
  const uint64_t load = load_.load(std::memory_order_relaxed);
  if (load < kMuchLoad) return Clock::time_point::max();
  const detail::Loop::Gauges pool = loop->gauges();
  const bool rests = pool.active + pool.queued_jobs == 0 && load == load_seen_;
  load_seen_ = load;
  if (!rests) return now + kRest;
  load_.store(0, std::memory_order_relaxed);
#ifdef __GLIBC__
  tendril::rpc::post(*loop, [] { ::malloc_trim(0); });  // it may take a while, and this thread drives I/O
#endif
  return Clock::time_point::max();
}

}  // namespace tendril::rpc
