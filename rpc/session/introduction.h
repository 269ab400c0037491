#pragma once

#include <string>

#include "tendril/rpc/agent.h"
#include "tendril/rpc/wire/hello.h"

namespace tendril::rpc::detail {

/// What this agent says of itself to all workers of its group at once: its Hello, and another one for each peer by
/// whose name it has a device map. Sessions can then be made before there is a connection.
std::string introduction_of(const Agent::Impl& agent);

/// What `introduction` says to the worker of that name. Throws MessageError.
Hello read_introduction(const std::string& introduction, const std::string& reader);

}  // namespace tendril::rpc::detail
