#include "stop.h"

#include <tendril/rpc/call.h>

#include <exception>

#include "../progress.h"

namespace language_model {

bool stop_was_asked(bool of_me);

/// On the parameter server: whether anybody was asked to.
bool stop_was_asked(bool of_me) {
  if (of_me) examples::ask_to_stop();
  return examples::stop_wanted();
}

StopTogether::StopTogether()
    : thread_([this](std::stop_token ended) {
        std::unique_lock lock(mutex_);
        while (!ends_.wait_for(lock, ended, std::chrono::milliseconds(100), [&] { return ended.stop_requested(); })) {
          try {
            const bool mine = examples::stop_wanted();
            if (tendril::rpc::rpc_sync<&stop_was_asked>("ps", mine)) examples::ask_to_stop();
            if (mine) return;
          } catch (const std::exception&) {
            return;  // the server is gone: training says so
          }
        }
      }) {}

}  // namespace language_model
