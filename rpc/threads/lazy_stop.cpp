#include "tendril/rpc/lazy_stop.h"

namespace tendril::rpc::detail {

std::stop_token LazyStopState::token() {
  if (given_.stop_possible()) return given_;
  const std::lock_guard lock(mutex_);
  if (!source_.stop_possible()) {
    source_ = std::stop_source();
    if (requested()) source_.request_stop();  // no callback is registered yet
  }
  return source_.get_token();
}

void LazyStopState::request() noexcept {
  std::unique_lock lock(mutex_);
  requested_.store(true, std::memory_order_release);
  std::stop_source source = source_;
  lock.unlock();
  source.request_stop();  // without the lock, because a stop callback may call this object
}

}  // namespace tendril::rpc::detail
