#include "tendril/rpc/observe/observer.h"

#include <pthread.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <exception>
#include <future>
#include <mutex>
#include <string>
#include <thread>

#include "tendril/rpc/system/log.h"
#include "tendril/tensor/detail/signal_mask.h"

namespace tendril::rpc::detail {

struct Observer::State {
  boost::asio::io_context io{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work{io.get_executor()};
  std::promise<void> ended;
  std::thread thread;
};

std::shared_ptr<Observer> Observer::get() {
  static std::mutex mutex;
  static std::weak_ptr<Observer> current;
  const std::lock_guard lock(mutex);
  auto observer = current.lock();
  if (!observer) current = observer = std::make_shared<Observer>();
  return observer;
}

Observer::Observer() : state_(std::make_shared<State>()) {
  const tendril::detail::SignalMask mask;
  state_->thread = std::thread([state = state_] {
    pthread_setname_np(pthread_self(), "rpc-observer");
    for (;;) {
      try {
        state->io.run();
        break;
      } catch (const std::exception& e) {  // thrown by one handler; the others continue
        log(LogLevel::error, "rpc", std::string("rpc: metrics or status: ") + e.what());
      }
    }
    state->ended.set_value();
  });
}

Observer::~Observer() {
  state_->io.stop();
  if (state_->ended.get_future().wait_for(std::chrono::seconds(5)) == std::future_status::ready) {
    state_->thread.join();
  } else {
    state_->thread.detach();
  }
}

boost::asio::io_context& Observer::io() noexcept { return state_->io; }

}  // namespace tendril::rpc::detail
