#pragma once

#include <memory>

namespace boost::asio {
class io_context;
}

namespace tendril::rpc::detail {

/// A thread of this process that answers questions about its workers. It belongs to no agent, so that it answers also
/// where all their threads are stuck, and ends when nobody holds it any more.
class Observer {
 public:
  /// The one of this process; started if there is none. Throws std::system_error.
  static std::shared_ptr<Observer> get();

  Observer();
  ~Observer();  ///< a thread that cannot be ended within 5 s (nobody reads the error output, say) is left behind
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;

  boost::asio::io_context& io() noexcept;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace tendril::rpc::detail
