#pragma once

#include <string>
#include <utility>

#include "tendril/rpc/error.h"
#include "tendril/rpc/system/system_failure.h"
#include "tendril/rpc/wire/ids.h"

namespace tendril::rpc::detail {

/// Runs `f` and adds `prefix`, which describes the operation, to the text of its errors. TimeoutError, PeerLostError,
/// UsageError and RRefError keep their types; other RpcErrors, and errors of the system, become plain RpcErrors.
template <class F>
decltype(auto) with_prefix(const std::string& prefix, F&& f) {
  try {
    return with_system_failures(std::forward<F>(f));
  } catch (const TimeoutError& e) {
    throw TimeoutError(prefix + e.what());
  } catch (const PeerLostError& e) {
    throw PeerLostError(prefix + e.what(), e.may_have_run());
  } catch (const UsageError& e) {
    throw UsageError(prefix + e.what());
  } catch (const RRefError& e) {
    throw RRefError(prefix + e.what());
  } catch (const RpcError& e) {
    throw RpcError(prefix + e.what());
  }
}

}  // namespace tendril::rpc::detail
