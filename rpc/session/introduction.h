#pragma once

#include <memory>
#include <string>

#include "tendril/rpc/agent.h"
#include "tendril/rpc/session/session.h"
#include "tendril/rpc/transport/socket_link.h"
#include "tendril/rpc/wire/hello.h"

namespace tendril::rpc::detail {

/// Returns this agent's hello to `peer`.
Hello hello_of(const Agent::Impl& agent, const WorkerInfo& peer);
/// Returns the part of a hello that concerns the session to continue.
ConnectionState::Hello session_part_of(const Hello& hello);
/// Returns the options of a link on which these hellos have been exchanged.
SocketLinkOptions link_options(const Agent::Impl& agent, const Hello& mine, const Hello& theirs);
/// Adds the worker that sent `theirs` as a peer, with this connection.
void adopt_connection(Agent::Impl& agent, std::unique_ptr<Stream> connection, const Hello& mine, const Hello& theirs,
                      Reach reach, bool dialled);

/// Returns this agent's introduction to all workers of its group: its Hello, and a separate one for each peer that its
/// device maps name. With it, workers can create sessions before they have a connection.
std::string introduction_of(const Agent::Impl& agent);

/// Returns the Hello in `introduction` for the worker named `reader`. Throws MessageError if it cannot be read.
Hello read_introduction(const std::string& introduction, const std::string& reader);

}  // namespace tendril::rpc::detail
