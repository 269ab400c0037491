#pragma once

#include <memory>

namespace boost::asio {
class io_context;
}

namespace tendril::rpc::detail {

/// A thread of this process that answers requests for metrics and status. It belongs to no agent, so that it answers
/// even if all threads of the agents are stuck. It ends when its last owner releases it.
class Observer {
 public:
  /// Returns the observer of this process; starts one if necessary. Throws std::system_error.
  static std::shared_ptr<Observer> get();

  Observer();
  ~Observer();  ///< detaches the thread if it does not end within 5 s (if stderr is not read, for example)
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;

  boost::asio::io_context& io() noexcept;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace tendril::rpc::detail
