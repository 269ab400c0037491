#include "tendril/rpc/session/introduction.h"

#include <algorithm>
#include <map>
#include <span>

#include "tendril/rpc/archive.h"
#include "tendril/rpc/session/agent_impl.h"

namespace tendril::rpc::detail {

namespace {

std::string hello_text(const Agent::Impl& agent, const std::string& peer) {
  const Bytes bytes = encode(hello_of(agent, {peer, -1}));
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

Hello hello_of(const Agent::Impl& agent, const WorkerInfo& peer) {
  Hello hello;
  hello.worker = agent.self;
  hello.world_size = agent.options.world_size;
  hello.group = agent.options.group;
  hello.incarnation = agent.incarnation;
  hello.limits = agent.options.limits;
  hello.request_window = agent.receive_window();
  hello.devices = agent.devices_for(peer.name);
  hello.plain = !agent.options.encrypt;
  if (const auto endpoint = agent.endpoint()) {
    hello.resumption.grace_ms = static_cast<uint32_t>(agent.options.grace_period.count());
    hello.resumption.endpoint = endpoint->to_string();
  }
  return hello;
}

ConnectionState::Hello session_part_of(const Hello& hello) {
  const Resumption& said = hello.resumption;
  return {hello.incarnation, said.peer_incarnation, said.received, said.attempt, said.taken, said.session};
}

SocketLinkOptions link_options(const Agent::Impl& agent, const Hello& mine, const Hello& theirs) {
  const uint32_t grace_ms = std::min(mine.resumption.grace_ms, theirs.resumption.grace_ms);
  return {.send_limits = theirs.limits,
          .receive_limits = agent.options.limits,
          .send_window = theirs.request_window,
          .receive_window = agent.receive_window(),
          .max_queued_bytes = agent.options.send_limit,
          .stall_timeout = agent.options.liveness_timeout,
          .terms = {.self = agent.self.id,
                    .peer = theirs.worker.id,
                    .incarnation = agent.incarnation,
                    .peer_incarnation = theirs.incarnation,
                    .grace = std::chrono::milliseconds(grace_ms),
                    .first_connection = std::max<std::chrono::milliseconds>(ConnectionState::Terms{}.first_connection,
                                                                            agent.options.liveness_timeout)}};
}

void adopt_connection(Agent::Impl& agent, std::unique_ptr<Stream> connection, const Hello& mine, const Hello& theirs,
                      Reach reach, bool dialled) {
  SocketLinkOptions options = link_options(agent, mine, theirs);
  options.dialled = dialled;
  auto link = std::make_shared<SocketLink>(agent.loop, std::move(connection), options);
  agent.add_peer(theirs.worker, theirs.incarnation, std::move(link), theirs.devices, std::move(reach));
}

std::string introduction_of(const Agent::Impl& agent) {
  std::map<std::string, std::string> to_named;
  for (const auto& [peer, map] : agent.options.device_maps) to_named[peer] = hello_text(agent, peer);
  Message out;
  OutputArchive(out) << hello_text(agent, "") << to_named;
  return {reinterpret_cast<const char*>(out.payload.data()), out.payload.size()};
}

Hello read_introduction(const std::string& introduction, const std::string& reader) {
  const auto bytes = std::as_bytes(std::span(introduction));
  Message in;
  in.payload.assign(bytes.begin(), bytes.end());
  InputArchive archive(in, "introduction");
  std::string to_all;
  std::map<std::string, std::string> to_named;
  archive >> to_all >> to_named;
  archive.finish();
  const auto named = to_named.find(reader);
  return decode_hello(std::as_bytes(std::span(named == to_named.end() ? to_all : named->second)));
}

}  // namespace tendril::rpc::detail
