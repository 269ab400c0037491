#pragma once

#include <atomic>
#include <stop_token>

#include "tendril/rpc/call/recycled.h"
#include "tendril/rpc/threads/mutex.h"
#include "tendril/tensor/export.h"
#include "tendril/tensor/ref.h"

TENDRIL_API_BEGIN

namespace tendril::rpc {

namespace detail {

/// What a LazyStopSource and its tokens share. Thread-safe.
class LazyStopState final : public RefCounted, public Recycled {
 public:
  LazyStopState() = default;
  explicit LazyStopState(const std::stop_token& given) : given_(given) {}
  static void destroy(LazyStopState* state) noexcept { delete state; }

  bool requested() const noexcept { return requested_.load(std::memory_order_acquire) || given_.stop_requested(); }
  std::stop_token token();
  void request() noexcept;

 private:
  const std::stop_token given_ = {};
  std::atomic<bool> requested_{false};
  detail::Mutex mutex_;
  std::stop_source source_{std::nostopstate};  // made when somebody wants a token of it
};

}  // namespace detail

/// Whether a call has been cancelled: what a std::stop_token is, and it becomes one where one is wanted. Most handlers
/// want none, and for them none is made. A value; thread-safe as std::stop_token is.
class LazyStopToken {
 public:
  LazyStopToken() noexcept = default;  ///< nothing will ever stop it
  /// One that stops when this does.
  LazyStopToken(const std::stop_token& token)
      : state_(token.stop_possible() ? new detail::LazyStopState(token) : nullptr) {}

  /// One that stops when this does.
  operator std::stop_token() const { return state_ ? state_->token() : std::stop_token(); }
  bool stop_requested() const noexcept { return state_ && state_->requested(); }  ///< as std::stop_token's
  bool stop_possible() const noexcept { return static_cast<bool>(state_); }       ///< as std::stop_token's

 private:
  friend class LazyStopSource;
  explicit LazyStopToken(Ref<detail::LazyStopState> state) noexcept : state_(std::move(state)) {}

  Ref<detail::LazyStopState> state_;
};

/// The other side, as std::stop_source is.
class LazyStopSource {
 public:
  LazyStopSource() : state_(Ref<detail::LazyStopState>::first(new detail::LazyStopState)) {}
  /// A token that this source stops.
  LazyStopToken get_token() const noexcept { return LazyStopToken(state_); }
  /// Runs the callbacks of all std::stop_tokens that its tokens have become, on this thread.
  void request_stop() const noexcept { state_->request(); }

 private:
  Ref<detail::LazyStopState> state_;
};

}  // namespace tendril::rpc

TENDRIL_API_END
