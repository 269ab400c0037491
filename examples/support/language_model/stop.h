#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <thread>

namespace language_model {

/// While it lives, a worker that is asked to stop (SIGTERM, Ctrl-C) passes it on: each trainer tells the parameter
/// server and hears from it ten times a second, so it does not matter whom the signal reached.
class StopTogether {
 public:
  StopTogether();

 private:
  std::mutex mutex_;
  std::condition_variable_any ends_;
  std::jthread thread_;  // last: it ends before what it waits with
};

}  // namespace language_model
