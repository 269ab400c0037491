#pragma once

#include <functional>
#include <string>

#include "tendril/rpc/error.h"
#include "tests/contains.h"

namespace tendril::test {

/// Runs `run` and returns its error as text, "" if it succeeds. Errors whose types group operations distinguish
/// start with the type: "TimeoutError: ...".
inline std::string text_of_error(const std::function<void()>& run) {
  try {
    run();
    return {};
  } catch (const rpc::TimeoutError& e) {
    return std::string("TimeoutError: ") + e.what();
  } catch (const rpc::PeerLostError& e) {
    return std::string("PeerLostError: ") + e.what();
  } catch (const rpc::UsageError& e) {
    return std::string("UsageError: ") + e.what();
  } catch (const std::exception& e) {
    return e.what();
  }
}

}  // namespace tendril::test
