#include "tendril/rpc/session/introduction.h"

#include <map>
#include <span>

#include "tendril/rpc/archive.h"
#include "tendril/rpc/session/agent_impl.h"
#include "tendril/rpc/session/handshake.h"

namespace tendril::rpc::detail {

namespace {

std::string hello_text(const Agent::Impl& agent, const std::string& peer) {
  const Bytes bytes = encode(hello_of(agent, {peer, -1}));
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

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
