// What workers of any kind say to rank 0's rendezvous: for each message a byte for the connection (an odd one ends it
// instead), then the message.
#include "tendril/rpc/launch/rendezvous.h"

#include "fuzz/input.h"
#include "tendril/rpc/error.h"

using namespace tendril::rpc;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  tendril::fuzz::Input input(data, size);
  RendezvousServer server(2, "the group");
  Clock::time_point now{};
  while (!input.empty()) {
    const auto from = input.number<uint8_t>();
    now += std::chrono::milliseconds(100);
    try {
      if ((from & 1) != 0) {
        server.closed(from >> 1);
      } else {
        tendril::fuzz::Input ahead = input;
        const auto prefix = ahead.bytes(kRendezvousPrefixBytes);
        if (prefix.size() < kRendezvousPrefixBytes) break;
        const std::size_t body = rendezvous_body_size(prefix, kMaxJoinBytes);
        tendril::fuzz::require(body <= kMaxJoinBytes);
        const auto message = input.bytes(kRendezvousPrefixBytes + body);
        if (message.size() < kRendezvousPrefixBytes + body) break;
        server.received(from >> 1, decode_rendezvous(message), now);
      }
    } catch (const MessageError&) {
      break;
    }
    server.on_timer(now);
    for (const RendezvousServer::Action& action : server.take_actions()) {
      if (!action.bytes.empty()) decode_rendezvous(action.bytes);  // what it says can be read
    }
    server.describe_missing();
  }
  return 0;
}
