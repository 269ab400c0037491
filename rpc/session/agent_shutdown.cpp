// The shutdown of an agent: it ends its sessions and threads, and reports handlers that have not returned.
#include <algorithm>
#include <future>
#include <system_error>
#include <thread>

#include "tendril/rpc/connect/listener.h"
#include "tendril/rpc/error.h"
#include "tendril/rpc/session/agent_impl.h"
#include "tendril/rpc/system/log.h"
#include "tendril/rpc/system/mutex.h"
#include "tendril/rpc/system/thread.h"
#include "tendril/rpc/system/thread_state.h"

namespace tendril::rpc {

namespace {
/// The least time for destructors of users' objects, even if handlers have used up the shutdown's time.
constexpr std::chrono::seconds kToldIn{1};
}  // namespace

void Agent::Impl::shutdown(Clock::time_point deadline) {
  if (detail::ThreadState::current().pool == loop.get()) {
    const std::lock_guard lock(mutex_);
    if (shut_down_) return;  // a function that the shutdown did not wait for may have held the last Agent reference
    throw UsageError("Agent::shutdown: called from a function that this agent serves; it would wait for itself");
  }
  std::unique_lock one_at_a_time(shutdown_mutex_, std::defer_lock);
  if (deadline == Clock::time_point::max()) {
    one_at_a_time.lock();
  } else {
    while (!one_at_a_time.try_lock()) {  // a timed mutex would hide its locks from ThreadSanitizer
      if (Clock::now() >= deadline)
        throw TimeoutError("worker '" + self.name + "' is being shut down by another thread, which has not finished");
      sleep_for(std::chrono::milliseconds(1));
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
    const detail::IoCallbackScope do_not_block;  // continuations of the calls that fail here must not block, either
    if (session->link() && session->link()->gauges().begun) {
      Message goodbye;
      goodbye.kind = MessageKind::goodbye;
      session->say(std::move(goodbye));
    }
    session->end(cancelled);
  }
  for (const auto& one : waiting) one->try_set_error(cancelled);
  loop->post_io([this, keep = shared_from_this()] {
    timer_.cancel();
    cancel_connectors();
  });
  end_threads(deadline);
}

void Agent::Impl::end_threads(Clock::time_point deadline) {
  if (!loop->end_by(std::min(deadline, Clock::now() + kFirstNote)) && Clock::now() < deadline) {
    detail::log(detail::LogLevel::warn, self.name,
                "rpc: worker '" + self.name + "' is shutting down and waits for " + describe(name(loop->unended())));
    loop->end_by(deadline);
  }
  std::vector<HandlerRunning> left = name(loop->stop());
  if (!notify_closing(deadline)) left.push_back({.function = "destructors of objects that it owned"});
  if (!left.empty()) {
    throw TimeoutError("worker '" + self.name + "' has been shut down, but not all of its functions have returned: " +
                       describe(left) + ". They keep running; the objects that they use must outlive them");
  }
}

/// Notifies hooks and the listener, which release users' objects. Their destructors may be slow, or may wait for
/// something that a running function holds. With a deadline, they therefore run on a separate thread. Returns false if
/// they are still running there at the deadline.
bool Agent::Impl::notify_closing(Clock::time_point deadline) {
  const auto tell = [self = shared_from_this()] {
    for (const auto& hook : self->hooks) hook->agent_closing();
    if (self->listener) self->listener->agent_closing();
  };
  if (deadline == Clock::time_point::max()) {
    tell();
    return true;
  }
  struct Completion {
    detail::Mutex mutex;
    detail::Condition changed;
    bool done = false;
  };
  const auto completion = std::make_shared<Completion>();
  detail::Thread thread;
  try {
    thread = detail::Thread("rpc-closing", [tell, completion] {
      tell();
      const std::lock_guard lock(completion->mutex);
      completion->done = true;
      completion->changed.notify_all();
    });
  } catch (const std::system_error&) {  // no more threads can be created
    tell();
    return true;
  }
  std::unique_lock lock(completion->mutex);
  const bool in_time = completion->changed.wait_until(lock, std::max(deadline, Clock::now() + kToldIn),
                                                      [&] { return completion->done; });
  lock.unlock();
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
                                                     : "a continuation that blocks an I/O thread";
    }
  }
  return list;
}

}  // namespace tendril::rpc
