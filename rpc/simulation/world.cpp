#include "tendril/rpc/simulation/world.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "tendril/rpc/call_context.h"
#include "tendril/rpc/system/mutex.h"
#include "tendril/rpc/system/thread_state.h"
#include "tendril/rpc/transport/network.h"

namespace tendril::rpc::detail {

namespace {

constexpr uint64_t kLongestStep = 50;  // microseconds
constexpr std::chrono::nanoseconds kClockReading{20};
constexpr uint64_t kMostHoursUp = 1000;             // before the simulation, for each host
constexpr uint64_t kMostStepsAfterDeath = 100'000;  // per worker

}  // namespace

World::World(const Options& options)
    : options_(options),
      schedule_(options.seed),
      system_(schedule_.split()),
      workload_(schedule_.split()),
      transcript_(options.keep_transcript),
      recorder_(options.keep_events == 0
                    ? nullptr
                    : std::make_unique<Recorder>(options.keep_events, [this] { return elapsed(); })),
      watchdog_(options.longest_step) {}

World::~World() = default;

void World::set_network(Network& network, std::function<std::unique_ptr<Poller>()> make_poller) {
  network_ = &network;
  make_poller_ = std::move(make_poller);
}

void World::happens(const char* kind, int rank, const std::string& what, const std::string& more) {
  note(rank, what);
  if (recorder_) recorder_->happens(kind, rank, what + more);
}

// ---- workers

SimulatedWorker& World::add_worker(int rank, int start) {
  SimulatedWorker& worker = *workers_.emplace_back(std::make_unique<SimulatedWorker>());
  worker.rank = rank;
  worker.start = start;
  worker.clock_ahead =
      std::chrono::nanoseconds(system_.below(kMostHoursUp * 3600) * 1'000'000'000 + system_.below(1'000'000'000));
  return worker;
}

void World::start_in(SimulatedWorker& worker, const std::string& name, std::function<void()> body) {
  const uint64_t number = ++fibres_made_;
  auto fibre = std::make_unique<Thread>(stacks_, worker, number, name, std::move(body));
  fibre->detached = true;
  worker.fibres.push_back(number);
  make_runnable(*fibres_.emplace(number, std::move(fibre)).first->second);
}

bool World::end(SimulatedWorker& worker) {
  worker.dead = true;
  worker.paused = false;
  std::erase_if(runnable_, [&](uint64_t number) {
    const bool its = &find(number)->worker == &worker;
    if (its) worker.parked.push_back(number);
    return its;
  });
  for (const uint64_t number : worker.fibres) stall(number, false);
  for (uint64_t steps = 0; !worker.fibres.empty() && steps < kMostStepsAfterDeath; ++steps) {
    if (worker.parked.empty()) {  // advances its clock to the next deadline
      Thread* next = nullptr;
      for (const uint64_t number : worker.fibres) {
        Thread* const one = find(number);
        if (one->deadline != Clock::time_point::max() && (!next || one->deadline < next->deadline)) next = one;
      }
      if (next == nullptr) break;
      worker.clock_ahead += std::max(next->deadline - time_of(worker), Clock::duration(0));
      end_of_wait(*next);
      continue;
    }
    Thread& fibre = *find(worker.parked.front());
    worker.parked.erase(worker.parked.begin());
    step(fibre);
  }
  const bool all = worker.fibres.empty();
  for (const uint64_t number : std::exchange(worker.fibres, {})) {
    for (auto& [on, waiting] : waiters_) std::erase(waiting, number);
    drop_timer(*find(number));
    Thread::abandon(std::move(fibres_.extract(number).mapped()));
  }
  std::erase_if(waiters_, [](const auto& one) { return one.second.empty(); });
  worker.parked.clear();
  if (all) {
    if (loaded_ != &worker) {
      if (loaded_ != nullptr) loaded_->values.save();
      worker.values.load();
    }
    worker.values.destroy();
    loaded_ = nullptr;
  } else {
    abandon(worker);
  }
  return all;
}

/// Keeps a worker whose fibres do not end, because they still refer to it.
void World::abandon(SimulatedWorker& worker) {
  static auto& abandoned = *new std::vector<std::unique_ptr<SimulatedWorker>>;
  if (loaded_ == &worker) {
    worker.values.save();
    loaded_ = nullptr;
  }
  const auto its = std::ranges::find(workers_, &worker, &std::unique_ptr<SimulatedWorker>::get);
  abandoned.push_back(std::move(*its));
  workers_.erase(its);
}

void World::go_on(SimulatedWorker& worker) {
  worker.paused = false;
  for (const uint64_t number : std::exchange(worker.parked, {})) runnable_.push_back(number);
}

bool World::stall(uint64_t number, bool stalled) {
  Thread* const fibre = find(number);
  if (fibre == nullptr || fibre->ended()) return false;
  fibre->stalled = stalled;
  if (!stalled && std::exchange(fibre->held, false)) {
    fibre->runnable = false;
    make_runnable(*fibre);
  }
  return true;
}

// ---- time

/// Returns the time by the worker's clock.
Clock::time_point World::time_of(const SimulatedWorker& worker) const noexcept {
  const double gained = worker.clock_drift * static_cast<double>(elapsed().count());
  return time_ + worker.clock_ahead + Clock::duration(static_cast<Clock::rep>(gained));
}

/// Returns when the worker's clock will read `own`: now if it already has, max() if that takes more than ten years.
Clock::time_point World::time_when(const SimulatedWorker& worker, Clock::time_point own) const noexcept {
  const Clock::time_point now = time_of(worker);
  if (own <= now) return time_;
  if (own >= now + std::chrono::hours(24 * 365 * 10)) return Clock::time_point::max();
  if (worker.clock_drift == 0) return time_ + (own - now);
  const double left = static_cast<double>((own - now).count()) / (1 + worker.clock_drift);
  return time_ + Clock::duration(static_cast<Clock::rep>(left) + 1);
}

void World::at(Clock::time_point time, std::function<void()> event) {
  const InSimulator inside(*this);
  events_.push({std::max(time, time_), ++events_made_, false, std::move(event)});
  ++foreground_events_;
}

void World::in_background(Clock::duration delay, std::function<void()> event) {
  const InSimulator inside(*this);
  events_.push({time_ + delay, ++events_made_, true, std::move(event)});
}

/// Returns the time of the next event, or of the next deadline of a wait if that is earlier.
Clock::time_point World::next_time() const {
  const auto event = events_.empty() ? Clock::time_point::max() : events_.top().time;
  return sleepers_.empty() ? event : std::min(event, sleepers_.begin()->first);
}

void World::run_event() {
  if (!sleepers_.empty() && (events_.empty() || sleepers_.begin()->first < events_.top().time))
    return end_of_wait(*find(sleepers_.begin()->second));
  if (!events_.top().background) --foreground_events_;
  const auto event = std::move(const_cast<Event&>(events_.top()).run);
  events_.pop();
  event();
}

World::Ended World::run(const std::function<bool()>& done) {
  while (!done()) {
    while (next_time() <= time_) run_event();
    if (done()) break;
    if (steps_ >= options_.most_steps || elapsed() > options_.time_limit) return Ended::limit_reached;
    if (runnable_.empty()) {
      if (foreground_events_ == 0 && sleepers_.empty()) return Ended::stuck;
      time_ = next_time();
      continue;
    }
    const std::size_t which = schedule_.below(runnable_.size());
    Thread& fibre = *find(std::exchange(runnable_[which], runnable_.back()));
    runnable_.pop_back();
    if (fibre.stalled) {
      fibre.held = true;
      continue;
    }
    if (fibre.worker.paused) {
      fibre.worker.parked.push_back(fibre.number);
      continue;
    }
    const int rank = fibre.worker.rank;  // the fibre may be gone after its step
    const uint64_t failed = failed_allocations_;
    step(fibre);
    if (failed_allocations_ != failed) happens("fault", rank, "fault: allocation failure");
    time_ += std::chrono::nanoseconds(1000 + schedule_.below(kLongestStep * 1000));
  }
  return Ended::done;
}

bool World::allocation_fails() noexcept {
  if (current_ == nullptr || current_->in_simulator > 0) return false;
  int64_t& left = current_->worker.allocations_left;
  if (left < 0 || current_->worker.dead) return false;
  const ThreadState& thread = ThreadState::current();
  if (CallContext::current().origin.function == nullptr || thread.io_callbacks > 0 || thread.must_allocate > 0 ||
      thread.leading != nullptr)
    return false;
  if (left-- > 0) return false;
  ++failed_allocations_;
  return true;
}

void World::step(Thread& fibre) {
  ++steps_;
  watchdog_.step(fibre.worker.rank, fibre.name);
  fibre.runnable = false;
  if (loaded_ != &fibre.worker) {
    if (loaded_ != nullptr) loaded_->values.save();
    loaded_ = &fibre.worker;
    loaded_->values.load();
  }
  fibre.values.load();
  current_ = &fibre;
  fibre.resume();
  current_ = nullptr;
  if (fibre.ended()) {
    forget(fibre);
  } else {
    fibre.values.save();
  }
}

void World::forget(Thread& fibre) {
  fibre.values.destroy();
  std::erase(fibre.worker.fibres, fibre.number);
  if (fibre.joiner != nullptr) make_runnable(*fibre.joiner);
  if (fibre.detached) fibres_.erase(fibre.number);
}

std::string World::describe_waits() const {
  std::string text;
  for (const auto& [number, fibre] : fibres_) {
    if (fibre->ended()) continue;
    text += "rank " + std::to_string(fibre->worker.rank) + ", thread '" + fibre->name + "': waits for " +
            fibre->waits_for + "\n";
  }
  return text;
}

// ---- waiting

World::Thread* World::find(uint64_t number) const {
  const auto found = fibres_.find(number);
  return found == fibres_.end() ? nullptr : found->second.get();
}

void World::make_runnable(Thread& fibre) noexcept {
  const InSimulator inside(*this);
  if (fibre.runnable) return;
  fibre.runnable = true;
  (fibre.worker.dead || fibre.worker.paused ? fibre.worker.parked : runnable_).push_back(fibre.number);
}

/// Ends a wait whose deadline has passed.
void World::end_of_wait(Thread& fibre) noexcept {
  drop_timer(fibre);
  if (fibre.runnable) return;  // it has been woken
  fibre.in_time = false;
  make_runnable(fibre);
}

void World::drop_timer(Thread& fibre) noexcept { sleepers_.erase({fibre.timer, fibre.number}); }

bool World::block(const void* on, Clock::time_point deadline, const char* what) {
  const InSimulator inside(*this);
  Thread& fibre = *current_;
  fibre.in_time = true;
  fibre.waits_for = what;
  fibre.waits_on = on;
  fibre.deadline = deadline;
  if (on != nullptr) waiters_[on].push_back(fibre.number);
  if (deadline != Clock::time_point::max() && !fibre.worker.dead) {
    fibre.timer = time_when(fibre.worker, deadline);
    if (fibre.timer != Clock::time_point::max()) sleepers_.emplace(fibre.timer, fibre.number);
  }
  fibre.pause();
  drop_timer(fibre);
  fibre.deadline = Clock::time_point::max();
  if (on != nullptr && stop_waiting(on, fibre.number)) return fibre.in_time;
  return true;  // woken
}

/// Returns true if the fibre was still waiting, that is, had not been woken.
bool World::stop_waiting(const void* on, uint64_t number) noexcept {
  const auto found = waiters_.find(on);
  if (found == waiters_.end()) return false;
  const bool was_there = std::erase(found->second, number) > 0;
  if (found->second.empty()) waiters_.erase(found);
  return was_there;
}

void World::wake_one(const void* on) noexcept {
  const auto found = waiters_.find(on);
  if (found == waiters_.end()) return;
  auto& waiting = found->second;
  auto next = waiting.begin();
  if (current_ != nullptr) {
    const auto own = std::ranges::find_if(waiting, [this](uint64_t number) {
      const Thread* const one = find(number);
      return one != nullptr && &one->worker == &current_->worker;
    });
    if (own != waiting.end()) next = own;
  }
  Thread* const fibre = find(*next);
  waiting.erase(next);
  if (waiting.empty()) waiters_.erase(found);
  if (fibre != nullptr) make_runnable(*fibre);
}

void World::wake_all(const void* on) noexcept {
  while (waiters_.contains(on)) wake_one(on);
}

void World::yield() {
  Thread& fibre = *current_;
  fibre.waits_for = "its turn";
  make_runnable(fibre);
  fibre.pause();
}

// ---- Simulator

/// Each reading takes time, so that a loop until a given time ends.
Clock::time_point World::now() noexcept {
  if (current_ == nullptr) return time_;
  SimulatedWorker& worker = current_->worker;
  if (worker.dead) {
    worker.clock_ahead += kClockReading;
  } else {
    time_ += kClockReading;
  }
  return time_of(worker);
}

void World::sleep_until(Clock::time_point when) {
  block(current_, when, "the end of its sleep");
  (void)stop_waiting(current_, current_->number);
}

uint64_t World::random_bits() { return system_.bits(); }

std::chrono::nanoseconds World::run_time() noexcept {
  return schedule_.chance(0.5) ? std::chrono::microseconds(5) : std::chrono::nanoseconds::max();
}

World::Fibre World::start(std::function<void()> body, const std::string& name) {
  const InSimulator inside(*this);
  const uint64_t number = ++fibres_made_;
  auto fibre = std::make_unique<Thread>(stacks_, current_->worker, number, name, std::move(body));
  fibre->worker.fibres.push_back(number);
  Thread& made = *fibres_.emplace(number, std::move(fibre)).first->second;
  make_runnable(made);
  return &made;
}

void World::join(Fibre fibre) {
  auto& other = *static_cast<Thread*>(fibre);
  while (!other.ended()) {
    other.joiner = current_;
    block(nullptr, Clock::time_point::max(), "another thread to end");
  }
  fibres_.erase(other.number);
}

void World::detach(Fibre fibre) {
  auto& other = *static_cast<Thread*>(fibre);
  other.detached = true;
  if (other.ended()) fibres_.erase(other.number);
}

void World::lock(Mutex& mutex) {
  if (current_ == nullptr) {  // an event of the simulation itself: no fibre holds the mutex
    mutex.try_lock();
    return;
  }
  if (!current_->worker.dead && schedule_.chance(options_.yield)) yield();
  while (!mutex.try_lock()) block(&mutex, Clock::time_point::max(), "a mutex");
}

void World::unlocked(Mutex& mutex) noexcept { wake_one(&mutex); }

bool World::wait(Condition& condition, Mutex& mutex, Clock::time_point deadline) {
  // No other fibre runs between `unlock` and `block`, so no notification is lost.
  mutex.unlock();
  const bool in_time = block(&condition, deadline, "a condition variable");
  while (!mutex.try_lock()) block(&mutex, Clock::time_point::max(), "a mutex");
  return in_time;
}

void World::notify(Condition& condition, bool all) noexcept {
  if (all) {
    wake_all(&condition);
  } else {
    wake_one(&condition);
  }
}

void World::wait(const void* word) noexcept { block(word, Clock::time_point::max(), "a lock"); }
void World::wake(const void* word) noexcept { wake_one(word); }

void World::log(LogLevel level, std::string_view worker, std::string_view text) noexcept try {
  const InSimulator inside(*this);
  if (level > LogLevel::warn || (current_ != nullptr && current_->worker.dead)) return;
  std::string line = "logs: ";
  line.append(worker).append(": ").append(text);
  happens("log", current_ != nullptr ? current_->worker.rank : -1, line);
} catch (...) {  // out of memory
}

}  // namespace tendril::rpc::detail
