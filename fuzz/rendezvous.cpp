// What workers of any kind say to rank 0's rendezvous: for each message a byte for the rank (an odd one ends its
// session instead), a byte for whether it is to be admitted first, then the message with its length.
#include "tendril/rpc/group/rendezvous.h"

#include "fuzz/input.h"
#include "tendril/rpc/error.h"

using namespace tendril::rpc;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  tendril::fuzz::Input input(data, size);
  constexpr int kWorldSize = 3;
  RendezvousServer server(kWorldSize, "a");
  Clock::time_point now{};
  while (!input.empty()) {
    const auto from = input.number<uint8_t>();
    const auto admit = input.number<uint8_t>();
    const WorkerId rank = (from >> 1) % kWorldSize;
    now += std::chrono::milliseconds(100);
    try {
      if ((from & 1) != 0) {
        server.closed(rank, 1, now);
      } else {
        const auto bytes = input.part();
        const WorkerInfo who{std::string(1, static_cast<char>(admit)), rank};
        if (admit != 0 && !server.admit(who, kWorldSize)) server.connected(who, 1, now);
        server.received(rank, rank == 0 ? 0 : 1, decode_rendezvous(Bytes(bytes.begin(), bytes.end())), now);
      }
    } catch (const MessageError&) {
      break;
    }
    server.on_timer(now);
    for (RendezvousServer::Action& action : server.take_actions()) {
      tendril::fuzz::require(action.to >= 0 && action.to < kWorldSize);
      decode_rendezvous(std::move(action.bytes));  // what it says can be read
    }
    server.describe_missing();
  }
  return 0;
}
