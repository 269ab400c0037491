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
ConnectionState::Hello said_of_session(const Hello& hello);
/// Returns the options of a link on which these hellos have been exchanged.
SocketLinkOptions link_options(const Agent::Impl& agent, const Hello& mine, const Hello& theirs);
/// Adds the worker that sent `theirs` as a peer, with this connection.
void adopt_connection(Agent::Impl& agent, std::unique_ptr<Stream> connection, const Hello& mine, const Hello& theirs,
                      Reach reach, bool dialled);

/// What this agent says of itself to all workers of its group at once: its Hello, and another one for each peer by
/// whose name it has a device map. Sessions can then be made before there is a connection.
std::string introduction_of(const Agent::Impl& agent);

/// What `introduction` says to the worker of that name. Throws MessageError.
Hello read_introduction(const std::string& introduction, const std::string& reader);

}  // namespace tendril::rpc::detail
