#include "tendril/rpc/session/agent_impl.h"

#include <malloc.h>

#include <algorithm>
#include <future>
#include <random>
#include <system_error>
#include <thread>

#include "tendril/rpc/error.h"
#include "tendril/rpc/observe/agents.h"
#include "tendril/rpc/observe/log.h"
#include "tendril/rpc/session/dial.h"
#include "tendril/rpc/session/flow_control.h"
#include "tendril/rpc/session/listener.h"
#include "tendril/rpc/threads/signal_mask.h"
#include "tendril/rpc/threads/thread_state.h"

namespace tendril::rpc {

namespace {

/// What the destructors of users' objects have at least, where handlers have used up a shutdown's time.
constexpr std::chrono::seconds kToldIn{1};

uint64_t random_number() {
  std::random_device device;
  uint64_t number = 0;
  while (number == 0) number = uint64_t{device()} << 32 | device();
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
  // Longer than anything lives, and short enough that a few of them can be added up.
  constexpr std::chrono::hours a_year(24 * 365);
  options.ping_interval = std::min<std::chrono::milliseconds>(options.ping_interval, a_year);
  options.liveness_timeout = std::min<std::chrono::milliseconds>(options.liveness_timeout, a_year);
  options.grace_period = std::min<std::chrono::milliseconds>(options.grace_period, std::chrono::hours(24));
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
      workers_(static_cast<std::size_t>(options.world_size)),
      awaited_(static_cast<std::size_t>(options.world_size)),
      timer_(loop->io()) {}

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
  workers_[static_cast<std::size_t>(self.id)] = self;
  loop->start();
}

DeviceReport Agent::Impl::devices_for(const std::string& peer) const {
  // Asked once: the driver is slow to answer.
  static const int count = std::min(device_count(DeviceType::cuda), kMaxCudaDevices);
  const auto found = options.device_maps.find(peer);
  return {.cuda_devices = count, .map = found == options.device_maps.end() ? DeviceMap() : found->second};
}

void Agent::Impl::check_rank(WorkerId peer, const char* what) const {
  TENDRIL_CHECK_AS(UsageError, peer >= 0 && peer < options.world_size, what, ": there is no worker of rank ", peer,
                   "; this group's ranks are 0 to ", options.world_size - 1);
}

std::shared_ptr<detail::Session> Agent::Impl::session(WorkerId peer) const {
  check_rank(peer, "rpc");
  const std::lock_guard lock(mutex_);
  if (shut_down_) throw UsageError("rpc: worker '" + self.name + "' has been shut down");
  return sessions_[static_cast<std::size_t>(peer)];
}

std::shared_ptr<detail::Session> Agent::Impl::open_session(WorkerId peer) const {
  check_rank(peer, "rpc");
  const std::lock_guard lock(mutex_);
  return shut_down_ ? nullptr : sessions_[static_cast<std::size_t>(peer)];
}

std::vector<std::shared_ptr<detail::Session>> Agent::Impl::sessions() const {
  std::vector<std::shared_ptr<detail::Session>> open;
  const std::lock_guard lock(mutex_);
  for (const auto& session : sessions_) {
    if (session) open.push_back(session);
  }
  return open;
}

void Agent::Impl::add_peer(const WorkerInfo& peer, uint64_t peer_incarnation, std::shared_ptr<Link> link,
                           const DeviceReport& devices, detail::Reach reach) {
  check_rank(peer.id, "add_peer");
  TENDRIL_CHECK_AS(UsageError, peer.id != self.id, "add_peer: rank ", peer.id, " is this worker itself");
  const DeviceReport mine = devices_for(peer.name);
  check_device_map(self, mine, peer, devices);
  check_device_map(peer, devices, self, mine);
  const auto session = std::make_shared<detail::Session>(shared_from_this(), peer, peer_incarnation, link,
                                                         detail::DeviceRoutes(peer, mine, devices), std::move(reach));
  std::vector<Ref<FutureState<void>>> waiting;
  {
    const std::lock_guard lock(mutex_);
    if (shut_down_) throw UsageError("add_peer: worker '" + self.name + "' has been shut down");
    auto& slot = sessions_[static_cast<std::size_t>(peer.id)];
    TENDRIL_CHECK_AS(UsageError, !slot, "add_peer: rank ", peer.id, " is connected already, as '",
                     slot ? slot->peer().name : "", "'");
    for (const auto& other : sessions_) {
      TENDRIL_CHECK_AS(UsageError, !other || other->peer().name != peer.name, "add_peer: the name '", peer.name,
                       "' is taken by rank ", other ? other->peer().id : -1, "; rank ", peer.id,
                       " must have another one");
    }
    // Under the lock, so that nobody calls the peer before the listener knows it.
    if (listener) listener->peer_joined(peer, peer_incarnation);
    slot = session;
    workers_[static_cast<std::size_t>(peer.id)] = peer;
    waiting.swap(awaited_[static_cast<std::size_t>(peer.id)]);
  }
  if (detail::logs(detail::LogLevel::info)) {
    detail::log(
        detail::LogLevel::info, self.name,
        "rpc: worker '" + self.name + "' is connected with " + rpc::name_of(peer) + " over " + link->transport());
  }
  detail::note_agent({shared_from_this(), &handle});
  link->start(session);
  listener_told();
  for (const auto& one : waiting) one->try_set_value();
}

WorkerInfo Agent::Impl::worker(WorkerId rank) const {
  check_rank(rank, "worker");
  const std::lock_guard lock(mutex_);
  const WorkerInfo& worker = workers_[static_cast<std::size_t>(rank)];
  TENDRIL_CHECK_AS(UsageError, worker.id == rank, "the worker of rank ", rank, " has not been connected to '",
                   self.name, "' yet");
  return worker;
}

WorkerInfo Agent::Impl::worker(std::string_view name) const {
  std::string names;
  const std::lock_guard lock(mutex_);
  for (const WorkerInfo& worker : workers_) {
    if (worker.id < 0) continue;
    if (worker.name == name) return worker;
    names += (names.empty() ? "'" : ", '") + worker.name + "'";
  }
  throw UsageError("there is no worker named '" + std::string(name) + "'; '" + self.name + "' knows " + names);
}

std::string Agent::Impl::name_of(WorkerId rank) const {
  const std::lock_guard lock(mutex_);
  const WorkerInfo& worker = workers_[static_cast<std::size_t>(rank)];
  return worker.id == rank ? rpc::name_of(worker) : "rank " + std::to_string(rank);
}

void Agent::Impl::session_ended(const std::shared_ptr<detail::Session>& session) {
  if (session->link()) {
    const Link::Gauges gauges = session->link()->gauges();
    detail::Counters::add(counters.bytes_sent, gauges.bytes_sent);
    detail::Counters::add(counters.bytes_received, gauges.bytes_received);
    detail::Counters::add(counters.requests_sent, session->requests_sent());
    detail::Counters::add(counters.requests_received, session->requests_received());
  }
  const std::lock_guard lock(mutex_);
  auto& slot = sessions_[static_cast<std::size_t>(session->peer().id)];
  if (slot == session) slot.reset();
}

std::shared_ptr<detail::Listener> Agent::Impl::listen(const Agent::ListenOptions& how) {
  auto opened = detail::Listener::open(shared_from_this(), how);
  {
    const std::lock_guard lock(mutex_);
    if (!accepting_ && !shut_down_) accepting_ = opened;
  }
  if (listening() != opened) {
    opened->close();
    throw UsageError("Agent::listen: this agent listens already, or has been shut down");
  }
  opened->start();
  return opened;
}

std::shared_ptr<detail::Listener> Agent::Impl::listening() const {
  const std::lock_guard lock(mutex_);
  return accepting_ && accepting_->is_open() ? accepting_ : nullptr;
}

void Agent::Impl::reconnect(std::shared_ptr<detail::Session> session) {
  start_dial(std::make_shared<detail::Dial>(shared_from_this(), std::move(session)));
}

void Agent::Impl::start_dial(const std::shared_ptr<detail::Dial>& dial) {
  std::erase_if(dials_, [](const auto& one) { return one.expired(); });
  dials_.push_back(dial);
  dial->start();
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
    boost::asio::steady_timer& timer = agent_alive->timer_;
    timer.expires_at(Clock::time_point(Clock::duration(agent_alive->armed_.load(std::memory_order_acquire))));
    timer.async_wait([weak](const boost::system::error_code& error) {
      if (error) return;  // armed anew, or cancelled
      if (const auto alive = weak.lock()) alive->sweep();
    });
  });
}

void Agent::Impl::sweep() {
  // First: who inserts a call from now on arms the timer for it.
  armed_.store(Clock::time_point::max().time_since_epoch().count(), std::memory_order_release);
  const Clock::time_point now = Clock::now();
  Clock::time_point next = Clock::time_point::max();
  for (const auto& session : sessions()) next = std::min(next, session->sweep(now));
  if (listener) next = std::min(next, std::max(listener->on_timer(now), now + std::chrono::milliseconds(1)));
  arm(std::min(next, give_memory_back(now)));
}

/// When to look again; max: not needed.
Clock::time_point Agent::Impl::give_memory_back(Clock::time_point now) {
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

void Agent::Impl::shutdown(Clock::time_point deadline) {
  if (detail::ThreadState::current().pool == loop.get()) {
    const std::lock_guard lock(mutex_);
    if (shut_down_) return;  // a function that was not waited for may have been the last to hold the Agent
    throw UsageError("Agent::shutdown: called from a function that this agent serves; it would wait for itself");
  }
  std::unique_lock one_at_a_time(shutdown_mutex_, std::defer_lock);
  if (deadline == Clock::time_point::max()) {
    one_at_a_time.lock();
  } else {
    while (!one_at_a_time.try_lock()) {  // a timed mutex would hide its locks from ThreadSanitizer
      if (Clock::now() >= deadline)
        throw TimeoutError("worker '" + self.name + "' is being shut down by another thread, which has not ended");
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  std::vector<std::shared_ptr<detail::Session>> open;
  std::vector<Ref<FutureState<void>>> waiting;
  std::shared_ptr<detail::Listener> accepting;
  {
    const std::lock_guard lock(mutex_);
    if (shut_down_) return;
    shut_down_ = true;
    accepting.swap(accepting_);
    for (const auto& session : sessions_) {
      if (session) open.push_back(session);
    }
    for (auto& list : awaited_) waiting.insert(waiting.end(), list.begin(), list.end());
    awaited_.assign(awaited_.size(), {});
  }
  const auto cancelled =
      std::make_exception_ptr(CancelledError("worker '" + self.name + "' was shut down with the call pending"));
  if (accepting) accepting->close();
  for (const auto& session : open) {
    const detail::IoCallbackScope do_not_block;  // nor may continuations of the calls that fail here
    if (session->link()) {
      Message goodbye;
      goodbye.kind = MessageKind::goodbye;
      session->say(std::move(goodbye));
    }
    session->end(cancelled);
  }
  for (const auto& one : waiting) one->try_set_error(cancelled);
  loop->post_io([this, keep = shared_from_this()] {
    timer_.cancel();
    for (const auto& one : dials_) {
      if (const auto dial = one.lock()) dial->cancel();
    }
  });
  end_threads(deadline);
}

void Agent::Impl::end_threads(Clock::time_point deadline) {
  if (!loop->end_by(std::min(deadline, Clock::now() + kFirstNote)) && Clock::now() < deadline) {
    detail::log(detail::LogLevel::warn, self.name,
                "rpc: worker '" + self.name + "' is to shut down and waits for " + describe(name(loop->unended())));
    loop->end_by(deadline);
  }
  std::vector<HandlerRunning> left = name(loop->stop());
  if (!tell_closing(deadline)) left.push_back({.function = "destructors of objects that it owned"});
  if (!left.empty()) {
    throw TimeoutError("worker '" + self.name + "' has been shut down, but not all of its functions have returned: " +
                       describe(left) + ". They go on; what they use must live as long as they do");
  }
}

/// Hooks and the listener release users' objects, whose destructors may wait for what a function holds that goes on,
/// or take long by themselves: with a deadline, on a thread of their own. False: they go on there.
bool Agent::Impl::tell_closing(Clock::time_point deadline) {
  const auto tell = [self = shared_from_this()] {
    for (const auto& hook : self->hooks) hook->agent_closing();
    if (self->listener) self->listener->agent_closing();
  };
  if (deadline == Clock::time_point::max()) {
    tell();
    return true;
  }
  std::packaged_task<void()> task(tell);
  const std::future<void> told = task.get_future();
  std::thread thread;
  try {
    const detail::SignalMask mask;
    thread = std::thread(std::move(task));
  } catch (const std::system_error&) {  // the system gives no more threads
    tell();
    return true;
  }
  const bool in_time = told.wait_until(std::max(deadline, Clock::now() + kToldIn)) == std::future_status::ready;
  if (in_time) {
    thread.join();
  } else {
    thread.detach();
  }
  return in_time;
}

std::vector<HandlerRunning> Agent::Impl::name(const std::vector<detail::Loop::Running>& running) const {
  std::vector<HandlerRunning> list;
  const std::lock_guard lock(mutex_);
  for (const auto& [kind, origin, age] : running) {
    HandlerRunning& one = list.emplace_back();
    one.age = age;
    if (origin.function && origin.agent == incarnation) {
      one.function = *origin.function;
      one.caller = workers_[static_cast<std::size_t>(origin.caller)];
    } else {
      one.function = kind == detail::Slot::release   ? "a destructor"
                     : kind == detail::Slot::handler ? "a coroutine or continuation"
                                                     : "a continuation that keeps a thread from its I/O";
    }
  }
  return list;
}

}  // namespace tendril::rpc
