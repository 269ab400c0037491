#pragma once

#include <exception>
#include <string>
#include <utility>

#include "tendril/dist/collectives/detail/channel.h"
#include "tendril/rpc/call_context.h"

namespace tendril::dist::detail {

/// Runs f between begin and end of an operation. An exception from f fails the group on all members, and is rethrown.
template <class F>
void in_operation(Channel& channel, std::string what, rpc::Clock::time_point deadline, const F& f) {
  const rpc::CallContextScope no_context{rpc::CallContext{}};
  channel.begin(std::move(what), deadline);
  try {
    f();
  } catch (const rpc::RpcError&) {
    channel.end();
    channel.fail(Failure::of(std::current_exception()), true);
    throw;
  } catch (const std::exception& error) {
    channel.end();
    channel.fail(
        {Failure::other, channel.name() + ": worker '" +
                             channel.members()[static_cast<std::size_t>(channel.rank())].name + "': " + error.what()},
        true);
    throw;
  }
  channel.end();
}

}  // namespace tendril::dist::detail
