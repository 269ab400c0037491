#pragma once

#include <atomic>
#include <stop_token>

#include "tendril/rpc/system/mutex.h"
#include "tendril/rpc/threads/recycled.h"
#include "tendril/tensor/export.h"
#include "tendril/tensor/ref.h"

TENDRIL_API_BEGIN

namespace tendril::rpc {

namespace detail {

/// State shared by a LazyStopSource and its tokens. Thread-safe.
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
  std::stop_source source_{std::nostopstate};  // created with its first std::stop_token
};

}  // namespace detail

/// A cheap substitute for a std::stop_token, which tells whether a call has been cancelled. It converts to a
/// std::stop_token, whose state is created only then, because most handlers need none. A value; as thread-safe as
/// std::stop_token.
class LazyStopToken {
 public:
  LazyStopToken() noexcept = default;  ///< a token that can never be stopped
  /// A token that is stopped when `token` is.
  LazyStopToken(const std::stop_token& token)
      : state_(token.stop_possible() ? new detail::LazyStopState(token) : nullptr) {}

  /// A std::stop_token that is stopped when this token is.
  operator std::stop_token() const { return state_ ? state_->token() : std::stop_token(); }
  bool stop_requested() const noexcept { return state_ && state_->requested(); }  ///< see std::stop_token
  bool stop_possible() const noexcept { return static_cast<bool>(state_); }       ///< see std::stop_token

 private:
  friend class LazyStopSource;
  explicit LazyStopToken(Ref<detail::LazyStopState> state) noexcept : state_(std::move(state)) {}

  Ref<detail::LazyStopState> state_;
};

/// The source of LazyStopTokens, as std::stop_source is of std::stop_tokens.
class LazyStopSource {
 public:
  LazyStopSource() : state_(Ref<detail::LazyStopState>::first(new detail::LazyStopState)) {}
  /// Returns a token that this source can stop.
  LazyStopToken get_token() const noexcept { return LazyStopToken(state_); }
  /// Stops its tokens. Runs the callbacks of all std::stop_tokens that they were converted to, on this thread.
  void request_stop() const noexcept { state_->request(); }

 private:
  Ref<detail::LazyStopState> state_;
};

}  // namespace tendril::rpc

TENDRIL_API_END
